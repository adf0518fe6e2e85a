"""Samples satisfy their schema, look like what their names say, and differ by their seed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.schema.satisfy import sample_value
from playground.schema.validate import schema_problems

Json = dict[str, Any]

STRINGS = st.builds(
    lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
    st.integers(0, 30),
    st.integers(0, 5),
) | st.sampled_from(
    [
        {"type": "string", "format": name}
        for name in (
            "date",
            "time",
            "date-time",
            "email",
            "uuid",
            "uri",
            "ipv4",
            "ipv6",
            "duration",
        )
    ]
)

NODE: Json = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["value"],
}


def numbers(kind: str) -> st.SearchStrategy[Json]:
    def bounded(low: int, span: int, keys: tuple[str, str], step: int | None) -> Json:
        schema: Json = {"type": kind, keys[0]: low, keys[1]: low + span}
        return schema if step is None else {**schema, "multipleOf": step}

    return st.builds(
        bounded,
        st.integers(-50, 50),
        st.integers(2, 40),
        st.sampled_from(
            [
                ("minimum", "maximum"),
                ("exclusiveMinimum", "maximum"),
                ("minimum", "exclusiveMaximum"),
                ("exclusiveMinimum", "exclusiveMaximum"),
            ]
        ),
        st.sampled_from([None, 1]),
    )


LEAVES = (
    STRINGS
    | numbers("integer")
    | numbers("number")
    | st.sampled_from(
        [
            {"type": "boolean"},
            {"type": "null"},
            {"const": {"a": [1]}},
            {"enum": ["x", 2, None]},
            {"type": ["null", "integer"]},
            {"type": "integer", "default": 4},
            {"type": "string", "examples": ["like this", "or this"]},
            {"$ref": "#/$defs/node"},
            {},
        ]
    )
)


def inner(schemas: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    arrays = st.builds(
        lambda items, low: {"type": "array", "items": items, "minItems": low},
        schemas,
        st.integers(0, 4),
    )
    tuples = st.lists(schemas, min_size=1, max_size=3).map(
        lambda some: {"type": "array", "prefixItems": some, "items": False}
    )
    objects = st.dictionaries(st.sampled_from("abcdef"), schemas, max_size=4).map(
        lambda some: {"type": "object", "properties": some, "required": list(some)[:2]}
    )
    closed = objects.map(lambda some: {**some, "additionalProperties": False})
    either = st.lists(schemas, min_size=1, max_size=3).map(lambda some: {"anyOf": some})
    both = st.tuples(objects, objects).map(lambda some: {"allOf": list(some)})
    return arrays | tuples | closed | either | both.filter(_agrees)


def _agrees(schema: Json) -> bool:
    """Two objects can be had at once where no property stands in both."""
    item, other = schema["allOf"]
    return not set(item["properties"]) & set(other["properties"])


SCHEMAS = st.recursive(LEAVES, inner, max_leaves=8)


@given(SCHEMAS, st.integers(0, 3))
def test_sample_satisfies_its_schema(schema: Json, seed: int) -> None:
    object_schema = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    object_schema["$defs"] = {"node": NODE}
    value = sample_value(object_schema, seed=seed)
    assert schema_problems(object_schema, value) == ()
    assert value == sample_value(object_schema, seed=seed)
    json.dumps(value, allow_nan=False)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"city": {"type": "string"}}}, {"city": "Paris"}),
        ({"properties": {"record_id": {"type": "string"}}}, {"record_id": "42"}),
        (
            {"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True},
            [1, 2, 3],
        ),
        ({"type": "object", "minProperties": 2}, {"key1": "example", "key2": "example"}),
        ({"type": "number", "multipleOf": 0.25, "minimum": 1.1}, 1.25),
        ({"enum": ["c", "f"], "default": "f"}, "f"),
        (
            {"type": "object", "properties": {"to": {"format": "email", "type": "string"}}},
            {"to": "ada@example.com"},
        ),
        ({"type": "object", "properties": {"date": {"type": "string"}}}, {"date": "2026-05-04"}),
    ],
)
def test_sample(schema: Any, value: Any) -> None:
    assert sample_value(schema) == value


def test_seeds_differ_and_repeat() -> None:
    schema = {"properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}}}
    some = [json.dumps(sample_value(schema, seed=seed)) for seed in range(20)]
    assert len(set(some)) > 3
    assert some == [json.dumps(sample_value(schema, seed=seed)) for seed in range(20)]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
        {"type": "string", "minLength": 10**9},
        {"type": "array", "minItems": 10**9},
        {"$ref": "#/nowhere"},
        {"type": "nonsense"},
    ],
)
def test_hostile_schemas_end(schema: Json) -> None:
    assert len(json.dumps(sample_value(schema))) < 1_000_000


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 2.0, "maxItems": 3.0},
        {"type": "string", "minLength": 9.0, "maxLength": 9.0},
        {"type": "number", "minimum": 1e308, "multipleOf": 1e-308},
        {"type": "integer", "minimum": 10**400, "multipleOf": 0.5},
        {"type": "number", "exclusiveMaximum": 10**400, "exclusiveMinimum": 1},
        {"type": "number", "exclusiveMinimum": -1e308, "exclusiveMaximum": 1e308},
        {"type": "object", "required": ["key2"], "minProperties": 3},
    ],
)
def test_odd_numbers_break_nothing(schema: Json) -> None:
    value = sample_value(schema)
    assert schema_problems(schema, value) == () or isinstance(value, int | float)
