"""A sample satisfies its schema wherever that can be done by construction."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.schema.sample import BUDGET, _Sampler, sample
from app.schema.schema_checks import Place
from app.schema.validate import schema_problems
from tests.tables import each_row

Json = dict[str, Any]


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
    one, other = schema["allOf"]
    return not set(one["properties"]) & set(other["properties"])


SCHEMAS = st.recursive(LEAVES, inner, max_leaves=8)
NODE: Json = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    "required": ["value"],
}


@given(SCHEMAS, st.integers(0, 3))
def test_sample_satisfies_its_schema(schema: Json, seed: int) -> None:
    whole = {"type": "object", "properties": {"it": schema}, "required": ["it"]}
    whole["$defs"] = {"node": NODE}
    value = sample(whole, seed)
    assert schema_problems(whole, value) == ()
    assert value == sample(whole, seed)
    json.dumps(value, allow_nan=False)


@each_row(
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
        (True, None),
    ],
)
def test_sample(schema: Any, value: Any) -> None:
    assert sample(schema) == value


def test_seeds_differ_and_repeat() -> None:
    schema = {"properties": {"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}}}
    some = [json.dumps(sample(schema, seed)) for seed in range(20)]
    assert len(set(some)) > 3
    assert some == [json.dumps(sample(schema, seed)) for seed in range(20)]


@each_row(
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
    assert len(json.dumps(sample(schema))) < 1_000_000


LARGE = st.sampled_from([0, 1, 3, 200, 10**9])
AGAIN: Json = {"$ref": "#"}


def fanning(schemas: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """Schemas that ask for much of something, or for themselves again and again."""
    some = st.lists(schemas | st.just(AGAIN), min_size=1, max_size=5)
    return (
        st.builds(lambda one, low: {"type": "array", "items": one, "minItems": low}, schemas, LARGE)
        | st.builds(lambda one, low: {"minProperties": low, "additionalProperties": one},
                    schemas, LARGE)
        | st.builds(lambda low: {"type": "string", "minLength": low}, LARGE)
        | st.builds(lambda key, parts: {key: parts}, st.sampled_from(["allOf", "anyOf"]), some)
        | st.builds(lambda parts: {"prefixItems": parts}, some)
        | st.builds(
            lambda parts: {
                "properties": {f"p{number}": one for number, one in enumerate(parts)},
                "required": [f"p{number}" for number in range(len(parts))],
            },
            some,
        )
        | st.builds(lambda length: {"default": "x" * length}, st.integers(0, 50_000))
    )  # fmt: skip


MOST_STEPS, MOST_LETTERS = 4 * BUDGET, 40 * BUDGET
"""A member costs one of the budget, two steps at most, and a name in the text."""


class Counting(_Sampler):
    """A sampler that counts its steps."""

    steps = 0

    def of(self, schema: Any, place: Place, depth: int) -> Any:
        self.steps += 1
        return super().of(schema, place, depth)

    def merged(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        self.steps += 1
        assert self.steps < MOST_STEPS
        return super().merged(schema, depth)


@pytest.mark.slow
@given(st.recursive(st.just(AGAIN), fanning, max_leaves=12))
@settings(deadline=None, derandomize=True)
@example({"allOf": [AGAIN] * 100})
@example({"prefixItems": [AGAIN, {"minProperties": 200, "additionalProperties": AGAIN}]})
@example({"prefixItems": [AGAIN, AGAIN, {"type": "array", "items": AGAIN, "minItems": 200}]})
@example({"items": {"items": {"items": {"minItems": 200}, "minItems": 200}, "minItems": 200}})
@example({"items": {"default": "x" * 100_000}, "minItems": 200})
@example({"required": ["a", "b", "c"], "minProperties": 200, "additionalProperties": AGAIN})
def test_a_sample_is_bounded_whatever_is_asked_for(schema: Json) -> None:
    sampler = Counting(schema, 0)
    value = sampler.of(schema, (), 0)
    assert sampler.steps < MOST_STEPS
    assert len(json.dumps(value)) < MOST_LETTERS + 2 * len(json.dumps(schema))


@each_row(
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
    value = sample(schema)
    assert schema_problems(schema, value) == () or isinstance(value, int | float)
