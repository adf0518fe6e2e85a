"""The words beside a field of a form: what a schema asks for, in a few signs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

MOST_OPTIONS = 500

_BOUNDS = (
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
    ("multipleOf", "in steps of"),
)
_SIZES = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "items"),
    ("minProperties", "maxProperties", "members"),
)


def label_of(schema: Any, name: str) -> str:
    """`minutes · integer ≥ 5 · default 30`: the name and what is expected."""
    return " · ".join(word for word in (name, *_words(schema)) if word)


def options_of(schema: Any) -> list[Any]:
    """The values of an enum or a const, or none where there is neither."""
    if not isinstance(schema, Mapping):
        return []
    if "const" in schema:
        return [schema["const"]]
    options = schema.get("enum")
    return options if isinstance(options, list) and len(options) <= MOST_OPTIONS else []


def _words(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        yield "JSON"
        return
    if not options_of(schema):
        bounds = (
            f"{sign} {_short(schema[keyword])}" for keyword, sign in _BOUNDS if keyword in schema
        )
        yield " ".join((_type(schema), *bounds)).strip()
    for low, high, what in _SIZES:
        if low in schema or high in schema:
            yield f"{_range(schema.get(low), schema.get(high))} {what}"
    if "pattern" in schema:
        yield f"like {str(schema['pattern'])[:60]}"
    if "default" in schema:
        yield f"default {_short(schema['default'])}"


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"type": "string", "format": str(form)}:
            return form
        case {"type": "string"}:
            return ""
        case {"type": "array", "items": {"type": str(kind)}} if kind not in ("object", "array"):
            return f"list of {kind}s, one a line"
        case {"type": "array"}:
            return "list, as JSON"
        case {"type": "object"} | {"properties": _}:
            return ""
        case {"type": str(kind)}:
            return kind
    return "JSON"


def _range(low: Any, high: Any) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"
