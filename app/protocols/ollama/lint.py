"""Checks a tool against Ollama's own chat API, which reads a few keywords and drops the rest.

Known from api/types.go of its repository: ToolFunctionParameters and ToolProperty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.protocols.lint_rules import MOST_OF_A_RULE, Finding, Fix, SentTool, at
from app.schema.schema_checks import Place, pointer

GO = "https://github.com/ollama/ollama/blob/main/api/types.go"
BOOLEANS = "https://github.com/can1357/oh-my-pi/issues/4488"
NO_STRICT = "docs/wire.md, section 5: there is no strict mode"
FREEFORM = "docs/wire.md, section 5: there are no free-form tools"

ROOT = ("type", "properties", "required", "$defs", "items", "description", "title", "$schema")
PROPERTY = ("type", "description", "enum", "items", "anyOf", "properties", "required", "title")
_TYPES: Mapping[str, tuple[type, str]] = {
    "description": (str, "a text"),
    "enum": (list, "a list"),
    "anyOf": (list, "a list"),
    "properties": (dict, "an object"),
    "required": (list, "a list"),
}


def lint_tool(tool: SentTool) -> Iterator[Finding]:
    """What Ollama refuses or ignores of a tool."""
    if tool.strict:
        message = "Ollama has no strict mode: arguments may not fit their schema."
        yield Finding("ignored", message, "/strict", "ollama", source=NO_STRICT)
    if tool.freeform:
        message = "Ollama has no free-form tools: it is sent a tool with one text."
        yield Finding("ignored", message, "/format", "ollama", source=FREEFORM)
    if not isinstance(tool.schema, Mapping):
        yield _refused("needs an object for parameters", ())
        return
    if not isinstance(tool.schema.get("type", ""), str):
        yield _refused("takes one type at the root, no list", ("type",))
    yield from _dropped(tool.schema, (), ROOT)
    count = 0
    for place, inner in _properties(tool.schema):
        for finding in _of_property(inner, place):
            count += 1
            if count <= 5 * MOST_OF_A_RULE:
                yield finding


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """The schemas that Ollama reads: properties, those of properties, and choices of anyOf."""
    todo: list[tuple[Place, Any]] = [((), schema)]
    for place, inner in todo:
        if place:
            yield place, inner
        if not isinstance(inner, Mapping):
            continue
        properties, branches = inner.get("properties"), inner.get("anyOf")
        for name, below in properties.items() if isinstance(properties, Mapping) else ():
            todo.append(((*place, "properties", name), below))
        for index, below in enumerate(branches if place and isinstance(branches, list) else ()):
            todo.append(((*place, "anyOf", index), below))


def _of_property(schema: Any, place: Place) -> Iterator[Finding]:
    if not isinstance(schema, Mapping):
        yield _refused("takes an object for a property, not true or false", place, BOOLEANS)
        return
    for key, (kind, what) in _TYPES.items():
        value = schema.get(key)
        if value is not None and not isinstance(value, kind):
            yield _refused(f"needs {what} for `{key}`", place)
    yield from _dropped(schema, place, PROPERTY)


def _dropped(
    schema: Mapping[str, Any], place: Place, keywords: tuple[str, ...]
) -> Iterator[Finding]:
    for key in schema:
        if key not in keywords and not (key == "additionalProperties" and schema[key] is False):
            message = f"Ollama drops `{str(key)[:60]}`{at(place)}: the model is not told of it."
            fix: Fix = "inline" if key == "$ref" else ""
            where = "/parameters" + pointer((*place, str(key)))
            yield Finding("ignored", message, where, "ollama", source=GO, inferred=True, fix=fix)


def _refused(says: str, place: Place, source: str = GO) -> Finding:
    message = f"Ollama {says}{at(place)}."
    return Finding("refused", message, "/parameters" + pointer(place), "ollama", source=source)
