"""What Ollama's own chat API does with a tool: it reads a few words of a schema and drops the rest.

Known from api/types.go of its repository: ToolFunctionParameters and ToolProperty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.protocols.lint_rules import MOST_OF_A_RULE, Finding, Fix, SentTool, at
from app.schema.keywords import Place, pointer

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


def lint_tool(sent: SentTool) -> Iterator[Finding]:
    """What Ollama refuses or ignores of a tool."""
    if sent.strict:
        said = "Ollama has no strict mode: arguments may not fit their schema."
        yield Finding("ignored", said, "/strict", "ollama", source=NO_STRICT)
    if sent.freeform:
        said = "Ollama has no free-form tools: it is sent a tool with one text."
        yield Finding("ignored", said, "/format", "ollama", source=FREEFORM)
    if not isinstance(sent.schema, Mapping):
        yield _refused("needs an object for parameters", ())
        return
    if not isinstance(sent.schema.get("type", ""), str):
        yield _refused("takes one type at the root, no list", ("type",))
    yield from _dropped(sent.schema, (), ROOT)
    told = 0
    for place, inner in _properties(sent.schema):
        for finding in _of_property(inner, place):
            told += 1
            if told <= 5 * MOST_OF_A_RULE:
                yield finding


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[Place, Any]]:
    """The schemas that Ollama reads: properties, those of properties, and choices of anyOf."""
    todo: list[tuple[Place, Any]] = [((), schema)]
    for place, inner in todo:
        if place:
            yield place, inner
        if not isinstance(inner, Mapping):
            continue
        named, listed = inner.get("properties"), inner.get("anyOf")
        for name, one in named.items() if isinstance(named, Mapping) else ():
            todo.append(((*place, "properties", name), one))
        for index, one in enumerate(listed if place and isinstance(listed, list) else ()):
            todo.append(((*place, "anyOf", index), one))


def _of_property(schema: Any, place: Place) -> Iterator[Finding]:
    if not isinstance(schema, Mapping):
        yield _refused("takes an object for a property, not true or false", place, BOOLEANS)
        return
    for key, (kind, what) in _TYPES.items():
        value = schema.get(key)
        if value is not None and not isinstance(value, kind):
            yield _refused(f"needs {what} for `{key}`", place)
    yield from _dropped(schema, place, PROPERTY)


def _dropped(schema: Mapping[str, Any], place: Place, known: tuple[str, ...]) -> Iterator[Finding]:
    for key in schema:
        if key not in known and not (key == "additionalProperties" and schema[key] is False):
            said = f"Ollama drops `{str(key)[:60]}`{at(place)}: the model is not told of it."
            fix: Fix = "inline" if key == "$ref" else ""
            where = "/parameters" + pointer((*place, str(key)))
            yield Finding("ignored", said, where, "ollama", source=GO, inferred=True, fix=fix)


def _refused(says: str, place: Place, source: str = GO) -> Finding:
    said = f"Ollama {says}{at(place)}."
    return Finding("refused", said, "/parameters" + pointer(place), "ollama", source=source)
