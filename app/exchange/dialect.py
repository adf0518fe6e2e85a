"""The dialect of OpenAPI 3.0, which Gemini's `parameters` speak too, put into JSON Schema.

Upper-case types, `nullable`, numbers written as text, and words that say nothing of a value.
https://spec.openapis.org/oas/v3.0.3#schema-object
https://ai.google.dev/api/caching#Schema
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOST_DEPTH = 64

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_COUNTS = (
    *("minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties"),
)
_SILENT = ("propertyOrdering", "discriminator", "xml", "externalDocs", "example", "nullable")
"""Words that are no JSON Schema and allow or forbid no value by themselves."""

_WRITTEN = {
    **dict.fromkeys(("dict", "Dict", "HashMap", "Hashtable", "Map", "Object", "mapping"), "object"),
    **dict.fromkeys(("list", "List", "tuple", "Tuple", "set", "Array", "ArrayList"), "array"),
    **dict.fromkeys(("Queue", "Stack", "Set"), "array"),
    **dict.fromkeys(("float", "double", "Float", "Double", "Number", "decimal"), "number"),
    **dict.fromkeys(("int", "long", "short", "byte", "Integer", "Long", "Bigint"), "integer"),
    **dict.fromkeys(("str", "char", "String", "Char", "text"), "string"),
    **dict.fromkeys(("bool", "Boolean", "Bool"), "boolean"),
    **dict.fromkeys(("None", "NoneType"), "null"),
    **dict.fromkeys(("any", "Any"), ""),
}
"""Types as Python, Java and JavaScript call them; "" for any."""

_SNAKE: dict[str, str] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): name
    for name in (*_COUNTS, "anyOf", "propertyOrdering", "additionalProperties")
}
_ONE = ("items", "not", "additionalProperties")
_MANY = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "$defs", "definitions", "patternProperties")


def from_openapi_schema(schema: Any, depth: int = 0) -> Any:
    """`schema` in JSON Schema; what is no schema is left as it is, for the check to refuse."""
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return schema
    made: dict[str, Any] = {}
    for written, value in schema.items():
        key = _SNAKE.get(str(written), str(written))
        if key == "type" and isinstance(value, str):
            if value != "TYPE_UNSPECIFIED":
                made[key] = _lower_type(value)
        elif key == "type" and isinstance(value, list):
            made[key] = [_lower_type(one) if isinstance(one, str) else one for one in value]
        elif key in _COUNTS and isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
            made[key] = int(value)
        elif key in _ONE:
            made[key] = from_openapi_schema(value, depth + 1)
        elif key in _MANY and isinstance(value, list):
            made[key] = [from_openapi_schema(one, depth + 1) for one in value]
        elif key == "properties" and isinstance(value, Mapping):
            made[key] = {name: from_openapi_schema(one, depth + 1) for name, one in value.items()}
        elif key not in _SILENT:
            made[key] = value
    _convert_exclusive(made)
    return _with_null(made) if schema.get("nullable") is True else made


def with_json_types(schema: Any, changed: dict[str, str], depth: int = 0) -> Any:
    """`schema` with the types of JSON where it has those of a language. `changed` collects what
    became what."""
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str) and value in _WRITTEN:
            changed[value] = _WRITTEN[value]
            if _WRITTEN[value]:
                made[key] = _WRITTEN[value]
        elif key == "type" and isinstance(value, list):
            kinds = [one for one in value if isinstance(one, str) and _WRITTEN.get(one)]
            changed |= {kind: _WRITTEN[kind] for kind in kinds}
            made[key] = [_WRITTEN[one] if one in kinds else one for one in value]
        elif key in _ONE:
            made[key] = with_json_types(value, changed, depth + 1)
        elif key in _MANY and isinstance(value, list):
            made[key] = [with_json_types(one, changed, depth + 1) for one in value]
        elif key in _NAMED and isinstance(value, Mapping):
            made[key] = {
                name: with_json_types(one, changed, depth + 1) for name, one in value.items()
            }
        else:
            made[key] = value
    return made


def _lower_type(kind: str) -> str:
    return kind.lower() if kind.lower() in _TYPES else kind


def _convert_exclusive(made: dict[str, Any]) -> None:
    """Draft 4 said `minimum` and whether it is exclusive; since then the bound itself says it."""
    for plain, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(made.get(strict), bool):
            exclusive = made.pop(strict)
            if exclusive and plain in made:
                made[strict] = made.pop(plain)


def _with_null(made: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(made.get("type"), str):
        return {"anyOf": [made, {"type": "null"}]} if made else made
    made["type"] = [made["type"], "null"]
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    return made
