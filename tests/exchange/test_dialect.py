"""OpenAPI 3.0 and Gemini's dialect as JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from playground.exchange.schema_dialects import from_openapi_schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "STRING", "nullable": True}, {"type": ["string", "null"]}),
        (
            {"type": "string", "nullable": True, "enum": ["a"]},
            {"type": ["string", "null"], "enum": ["a", None]},
        ),
        (
            {"nullable": True, "anyOf": [{"type": "STRING"}]},
            {"anyOf": [{"anyOf": [{"type": "string"}]}, {"type": "null"}]},
        ),
        (
            {"type": "ARRAY", "minItems": "1", "max_items": 2, "items": {"type": "INTEGER"}},
            {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "integer"}},
        ),
        ({"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ({"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
        ({"type": "TYPE_UNSPECIFIED", "propertyOrdering": ["a"], "example": 1}, {}),
        (
            {"properties": {"type": {"type": "STRING"}, "example": {"type": "OBJECT"}}},
            {"properties": {"type": {"type": "string"}, "example": {"type": "object"}}},
        ),
        ({"type": ["STRING", "NULL"]}, {"type": ["string", "null"]}),
        ({"type": "FOO", "enum": ["STRING"]}, {"type": "FOO", "enum": ["STRING"]}),
        ({"any_of": [True, {"type": "NULL"}]}, {"anyOf": [True, {"type": "null"}]}),
    ],
)
def test_each_word(schema: Any, expected: Any) -> None:
    assert from_openapi_schema(schema) == expected


def test_json_schema_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "minLength": 1}}}
    assert from_openapi_schema(schema) == schema
