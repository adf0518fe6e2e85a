"""Schemas in the dialect of OpenAPI 3.0 (also Gemini's), or with the types of a programming
language, as JSON Schema.

https://spec.openapis.org/oas/v3.0.3#schema-object https://ai.google.dev/api/caching
https://github.com/googleapis/googleapis/blob/master/google/ai/generativelanguage/v1beta/content.proto
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

MOST_DEPTH = 64

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_COUNTS = (
    *("minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties"),
)
_SILENT = ("propertyOrdering", "discriminator", "xml", "externalDocs", "example", "nullable")
"""Keywords outside of JSON Schema that do not allow or forbid values."""

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
"""Type names of Python, Java and JavaScript; "" for any."""

_NUMBERED = ("", "string", "number", "integer", "boolean", "array", "object", "null")
"""The types of Google's protocol buffers by their number; 0 is unspecified."""

_SNAKE: dict[str, str] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): name
    for name in (*_COUNTS, "anyOf", "propertyOrdering", "additionalProperties")
} | {f"{name}_": name for name in ("type", "format", "default", "enum", "min", "max")}
"""Names as Python's classes of Google write them, some with a trailing underscore."""
_ONE = ("items", "not", "additionalProperties")
_MANY = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "$defs", "definitions", "patternProperties")


def from_openapi_schema(schema: Any, depth: int = 0) -> Any:
    """`schema` in JSON Schema; invalid parts are unchanged, for the check to refuse."""
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return schema
    convert = partial(from_openapi_schema, depth=depth + 1)
    converted: dict[str, Any] = {}
    for written, value in schema.items():
        key = _SNAKE.get(str(written), str(written))
        if key == "type" and isinstance(value, str):
            if value != "TYPE_UNSPECIFIED":
                converted[key] = _lower_type(value)
        elif key == "type" and isinstance(value, int) and 0 <= value < len(_NUMBERED):
            if _NUMBERED[value]:
                converted[key] = _NUMBERED[value]
        elif key == "type" and isinstance(value, list):
            converted[key] = [
                _lower_type(inner) if isinstance(inner, str) else inner for inner in value
            ]
        elif key in _COUNTS and isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
            converted[key] = int(value)
        elif key not in _SILENT:
            converted[key] = _convert_inner(key, value, ("properties",), convert)
    _convert_exclusive(converted)
    return _with_null(converted) if schema.get("nullable") is True else converted


def with_json_types(schema: Any, changed: dict[str, str], depth: int = 0) -> Any:
    """`schema` with a language's types replaced by those of JSON. `changed` collects the
    replacements."""
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return schema
    convert = partial(with_json_types, changed=changed, depth=depth + 1)
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str) and value in _WRITTEN:
            changed[value] = _WRITTEN[value]
            if _WRITTEN[value]:
                converted[key] = _WRITTEN[value]
        elif key == "type" and isinstance(value, list):
            kinds = [inner for inner in value if isinstance(inner, str) and _WRITTEN.get(inner)]
            changed |= {kind: _WRITTEN[kind] for kind in kinds}
            converted[key] = [_WRITTEN[inner] if inner in kinds else inner for inner in value]
        else:
            converted[key] = _convert_inner(key, value, _NAMED, convert)
    return converted


def _convert_inner(
    key: str, value: Any, named: Sequence[str], convert: Callable[[Any], Any]
) -> Any:
    """The value of a keyword with its schemas converted; `named` have schemas by name."""
    if key in _ONE:
        return convert(value)
    if key in _MANY and isinstance(value, list):
        return [convert(inner) for inner in value]
    if key in named and isinstance(value, Mapping):
        return {name: convert(inner) for name, inner in value.items()}
    return value


def _lower_type(kind: str) -> str:
    """ "STRING", or an enum as Python prints it ("Type.STRING"), in lower case."""
    plain = kind.rpartition(".")[2].lower()
    return plain if plain in _TYPES else kind


def is_type_name(word: str) -> bool:
    """Whether `word` is a type of JSON, of Gemini or of a programming language."""
    return word in _WRITTEN or _lower_type(word) in _TYPES


def is_google_type(kind: Any) -> bool:
    """Whether `kind`, the `type` of a schema, is written as in Google's classes."""
    if isinstance(kind, str):
        return (kind.isupper() or "." in kind) and _lower_type(kind) in _TYPES
    return isinstance(kind, int) and not isinstance(kind, bool)


def is_object_type(kind: Any) -> bool:
    """Whether `kind`, the `type` of a schema, is that of an object, however it is written."""
    match kind:
        case str():
            return (_WRITTEN.get(kind) or _lower_type(kind)) == "object"
        case list():
            return any(is_object_type(inner) for inner in kind if isinstance(inner, str))
    return bool(kind == _NUMBERED.index("object"))


def _convert_exclusive(schema: dict[str, Any]) -> None:
    """In draft 4 a flag made `minimum` exclusive; since then the keyword itself is the bound."""
    for plain, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(strict), bool):
            exclusive = schema.pop(strict)
            if exclusive and plain in schema:
                schema[strict] = schema.pop(plain)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("type"), str):
        return {"anyOf": [schema, {"type": "null"}]} if schema else schema
    schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema
