"""The places that a rule may look at: the JSON pointers of a tool's schema. Pure.

A schema that leaves open what may stand somewhere, or refers elsewhere, is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.core.tools import Tool

MOST_PLACES = 100
DEEPEST = 4

_OPEN = ("$ref", "anyOf", "oneOf", "allOf", "if", "patternProperties", "dependentSchemas")


def places(schema: Any) -> tuple[str, ...]:
    """The pointers to choose from, those further up first where they are many."""
    found = sorted(_places(schema, "", 0), key=lambda pointer: pointer.count("/"))
    return tuple(found[:MOST_PLACES])


def _places(schema: Any, pointer: str, depth: int) -> Iterator[str]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or depth == DEEPEST:
        return
    for name, below in properties.items():
        place = f"{pointer}/{_step(name)}"
        yield place
        yield from _places(below, place, depth + 1)


def strange(tool: Tool, pointer: str) -> str:
    """Why no call of `tool` has anything at `pointer`, as a sentence; "" where one may."""
    schema: Any = tool.parameters
    walked = ""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(schema, Mapping) or any(word in schema for word in _OPEN):
            return ""
        if schema.get("type") == "array":
            schema = schema.get("items") if name.isdigit() else None
            walked += f"/{step}"
            continue
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or schema.get("additionalProperties"):
            return ""
        if name not in properties:
            has = ", ".join(list(properties)[:12]) or "nothing"
            return f"{tool.name} has no {walked}/{step}; {walked or 'it'} has {has}."
        schema, walked = properties[name], f"{walked}/{step}"
    return ""


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
