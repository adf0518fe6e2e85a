"""Reading a JSON Schema just far enough to fill it: references, optional values, types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def standalone(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """`schema` with the root's definitions, so that its references still lead somewhere."""
    kept = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return {**kept, **schema}


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema without its reference and without the `null` of an optional value."""
    for _ in range(8):
        schema = mapping(schema)
        reference = schema.get("$ref")
        choices = [
            c for c in schema.get("anyOf") or schema.get("oneOf") or [] if isinstance(c, dict)
        ]
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Any = root
            for step in reference[2:].split("/"):
                target = mapping(target).get(step.replace("~1", "/").replace("~0", "~"))
            schema = {**mapping(target), **{k: v for k, v in schema.items() if k != "$ref"}}
        elif choices and "type" not in schema:
            real = next((c for c in choices if c.get("type") != "null"), choices[0])
            schema = {**{k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}, **real}
        else:
            return schema  # type: ignore[no-any-return]
    return {}


def type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string" if "enum" not in schema else ""


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
