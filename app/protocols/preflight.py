"""Notes, before tools are sent, what the provider will refuse of them.

Nothing is changed: the tools go as they are, for a local server may take what others refuse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core import provider_limits as limits
from app.core.tools import Tool
from app.protocols.encoder import Notes

_MOST_DEEP = 50
"""Deeper than this no schema is looked at; providers refuse it long before."""


@dataclass(frozen=True)
class ProviderSupport:
    """What `provider` takes: names, so many tools and strict ones; 0 is any number.

    `strict` is what its strict mode asks of an object: "closed" (no more properties than those
    named), "required" (closed, and every property required), or "" for nothing. `patterns` is
    whether those of schemas are compiled as OpenAI does, `most_items` what
    `tool_limits.items_in_all` may come to over all tools. `sure` is whether all who speak the
    protocol refuse the rest.
    """

    provider: str
    name: re.Pattern[str]
    most: int = 0
    most_strict: int = 0
    strict: str = ""
    patterns: bool = False
    most_items: int = 0
    sure: bool = True


def foretell(tools: Sequence[Tool], takes: ProviderSupport, notes: Notes, model: str = "") -> None:
    """Note what will be refused of `tools`; `model` is whom they are sent to."""
    who, outcome = takes.provider, "will be refused" if takes.sure else "may be refused"
    for tool in tools:
        if not takes.name.fullmatch(tool.name):
            notes.add(f"{who} takes no tool named {tool.name[:80]!r}: the request {outcome}.")
    if takes.most and len(tools) > takes.most:
        notes.add(f"{who} takes {takes.most} tools, not {len(tools)}: the request {outcome}.")
    for tool in tools if takes.patterns else ():
        if why := next(_refused_patterns(tool, model), ""):
            notes.add(f"A pattern of the tool {tool.name[:80]!r} {outcome}: {why}.")
    items = sum(limits.items_in_all(tool.parameters) for tool in tools)
    if takes.most_items and items > takes.most_items:
        notes.add(
            f"{who} takes lists of about {takes.most_items} items in all, not {items:,}: "
            f"the request {outcome}; lower their maxItems."
        )
    strict = [tool for tool in tools if tool.strict and tool.format is None]
    if takes.most_strict and len(strict) > takes.most_strict:
        notes.add(
            f"{who} takes {takes.most_strict} strict tools, not {len(strict)}: "
            f"the request {outcome}."
        )
    for tool in strict if takes.strict else ():
        wrong = next(_loose(tool.parameters, takes.strict == "required", 0), "")
        if wrong:
            notes.add(f"The strict tool {tool.name[:80]!r} {outcome}: {wrong}.")


def _refused_patterns(tool: Tool, model: str) -> Iterator[str]:
    """Why each pattern is refused that is."""
    around = not tool.strict and limits.takes_lookaround(model)
    todo: list[tuple[Any, int]] = [(tool.parameters, 0)]
    for schema, depth in todo:
        if not isinstance(schema, Mapping) or depth > _MOST_DEEP:
            continue
        pattern = schema.get("pattern")
        if isinstance(pattern, str):
            if not limits.is_python_regex(pattern):
                yield "it is no regular expression of Python"
            elif not around and limits.has_lookaround(pattern):
                yield "it looks ahead or behind"
        todo += [(content, depth + 1) for content in _within(schema)]


def _loose(schema: Any, all_required: bool, depth: int) -> Iterator[str]:
    """What keeps `schema` from being strict."""
    if not isinstance(schema, Mapping) or depth > _MOST_DEEP:
        return
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    if schema.get("type") == "object" or properties:
        if schema.get("additionalProperties") is not False:
            yield "an object in its schema is without additionalProperties: false"
        value = schema.get("required")
        value = value if isinstance(value, list) else []
        required = {name for name in value if isinstance(name, str)}
        for name in properties if all_required else ():
            if name not in required:
                yield f"{str(name)[:80]!r} is not among its required properties"
    for content in _within(schema):
        yield from _loose(content, all_required, depth + 1)


def _within(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that `schema` holds."""
    for key in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(key), Mapping):
            yield from schema[key].values()
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list):
            yield from schema[key]
    yield schema.get("items")
