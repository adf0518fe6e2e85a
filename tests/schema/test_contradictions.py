"""What no value can satisfy is found with its place, and nothing else is called so."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.schema.contradictions import MOST_FOUND, contradictions, similar_name
from playground.schema.schema_checks import fault, validator
from tests.counted import lines_of
from tests.schema.test_satisfy import SCHEMAS

Json = dict[str, Any]
TEXT: Json = {"type": "string"}

X = "/properties/x"
OLD = "http://json-schema.org/draft-"

TYPES = ("string", "integer", "number", "boolean", "null", "array", "object")
SMALL = st.integers(-1, 3)
COUNTS = st.integers(0, 3)
VALUES = st.recursive(
    st.none() | st.booleans() | SMALL | st.sampled_from((0.5, 1.0, "", "a", "bb")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


def closed(required: list[str] | None = None, **properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "words", "place"),
    [
        (closed(["citty"], city=TEXT), "'citty' is required but is not in", "/required"),
        (closed(x={"enum": []}), "`enum` at /properties/x is empty, and 'x' is", f"{X}/enum"),
        (closed(x=False), "the schema at /properties/x is `false`, and 'x' is required", X),
        (closed(x={"not": {}}), "`not` at /properties/x excludes every value", f"{X}/not"),
        (closed(x={"type": "integer", "enum": ["a"]}), "no value of the type int", f"{X}/enum"),
        (closed(x={"type": "integer", "const": 1.5}), "no value of the type int", f"{X}/const"),
        (closed(x={"type": "boolean", "enum": [0, 1]}), "no value of the type bo", f"{X}/enum"),
        (closed(x={"const": 1, "enum": [2, True]}), "no value that the other", f"{X}/enum"),
        (closed(x={"enum": [1, 2], "minimum": 5}), "that `minimum` at", f"{X}/enum"),
        (closed(x={"enum": ["abc"], "maxLength": 2}), "that `maxLength` at", f"{X}/enum"),
        (
            closed(x={"type": "number", "minimum": 5, "maximum": 1}),
            "`minimum` 5 at /properties/x is above `maximum` 1",
            f"{X}/minimum",
        ),
        (
            closed(x={"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}),
            "no integer lies between `exclusiveMinimum` 1",
            f"{X}/exclusiveMinimum",
        ),
        (
            closed(x={"type": "number", "minimum": 1, "exclusiveMaximum": 1}),
            "no number lies between",
            f"{X}/minimum",
        ),
        (
            closed(x={"type": "number", "multipleOf": 5, "minimum": 1, "maximum": 4}),
            "no multiple of 5 lies between",
            f"{X}/minimum",
        ),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#"}
            | closed(x={"type": "number", "minimum": 3, "maximum": 3, "exclusiveMinimum": True}),
            "no number lies between",
            f"{X}/minimum",
        ),
        (
            closed(x={"type": "string", "minLength": 5, "maxLength": 1}),
            "`minLength` 5 at /properties/x is above `maxLength` 1",
            f"{X}/minLength",
        ),
        (closed(x={"type": "array", "minItems": 3, "maxItems": 1}), "is above", f"{X}/minItems"),
        (closed(x={"type": "array", "minItems": 1, "items": False}), "is `false`", f"{X}/items"),
        (
            closed(x={"type": "array", "minItems": 1, "items": {"enum": []}}),
            "`enum` at /properties/x/items is empty",
            f"{X}/items/enum",
        ),
        (
            closed(
                x={"type": "array", "minItems": 2, "prefixItems": [TEXT, {"enum": []}]},
            ),
            "`enum` at /properties/x/prefixItems/1 is empty",
            f"{X}/prefixItems/1/enum",
        ),
        (closed(x={"type": "array", "contains": False}), "is `false`", f"{X}/contains"),
        (
            closed(x={"type": "object", "minProperties": 3, "maxProperties": 1}),
            "is above",
            f"{X}/minProperties",
        ),
        (
            closed(x={"type": "object", "maxProperties": 1, "required": ["a", "b"]}),
            "more names are required",
            f"{X}/maxProperties",
        ),
        (
            closed(x={"allOf": [TEXT, {"type": "integer"}]}),
            "no value is of the types",
            f"{X}/allOf/1/type",
        ),
        (
            closed(x={"type": "string", "anyOf": [{"type": "integer"}, {"type": "null"}]}),
            "each branch of `anyOf` at /properties/x is impossible",
            f"{X}/anyOf",
        ),
        (closed(x={"oneOf": [{"enum": []}, False]}), "each branch of `oneOf`", f"{X}/oneOf"),
        (
            {"type": "object", "allOf": [closed(a=TEXT), closed([], b=TEXT)]},
            "'a' is required at /allOf/0 but is not in `properties`, and "
            "`additionalProperties` at /allOf/1 is false",
            "/allOf/0/required",
        ),
        (
            {**closed(x={"$ref": "#/$defs/e"}), "$defs": {"e": {"enum": []}}},
            "`enum` at /$defs/e is empty, and 'x' is required",
            "/$defs/e/enum",
        ),
        (
            closed(x=closed(["b"], a=TEXT)),
            "'b' is required at /properties/x but is not in `properties`",
            f"{X}/required",
        ),
        (
            {
                "type": "object",
                "properties": {"a": TEXT},
                "required": ["b"],
                "unevaluatedProperties": False,
            },
            "and `unevaluatedProperties` is false",
            "/required",
        ),
    ],
)
def test_contradiction_when_no_call_is_possible_names_the_keyword(
    schema: Json, words: str, place: str
) -> None:
    assert fault(schema) is None
    first = contradictions(schema)[0]
    assert first.whole
    assert words in first.reason.sentence
    assert "".join(f"/{step}" for step in first.reason.place) == place


@pytest.mark.parametrize(
    ("schema", "where", "kind"),
    [
        (closed([], x={"enum": []}), X, ""),
        (closed([], x={"type": "string", "minLength": 2, "maxLength": 1}), X, ""),
        (closed(x={"type": ["string", "null"], "minLength": 2, "maxLength": 1}), X, "string"),
        (closed(x={"minimum": 2, "maximum": 1}), X, "number"),
        (closed(x={"anyOf": [{"enum": []}, TEXT]}), f"{X}/anyOf/0", ""),
        (closed(x={"type": "array", "items": {"enum": []}}), f"{X}/items", ""),
    ],
)
def test_contradiction_when_a_part_is_impossible_concerns_that_part(
    schema: Json, where: str, kind: str
) -> None:
    (contradiction,) = contradictions(schema)
    assert not contradiction.whole
    assert ("".join(f"/{step}" for step in contradiction.where), contradiction.kind) == (
        where,
        kind,
    )


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed([], x=False),
        closed(["x"], x={"not": TEXT}),
        closed(x={"not": {"enum": []}}),
        closed(x={"if": {"enum": []}, "then": TEXT}),
        closed(x={"type": "number", "enum": [1, 2.5]}),
        closed(x={"type": "integer", "enum": [1.0]}),
        closed(x={"type": "integer", "minimum": 1, "maximum": 1}),
        closed(x={"type": "number", "multipleOf": 0.1, "minimum": 0.3, "maximum": 0.3}),
        closed(x={"type": "array", "maxItems": 0, "items": False}),
        closed(x={"type": "array", "minContains": 0, "contains": False}),
        closed(x={"type": "array", "items": [False], "maxItems": 0}),
        {**closed(["ab"]), "patternProperties": {"^a": TEXT}},
        {**closed(["b"], a=TEXT), "additionalProperties": TEXT},
        {"type": "object", "allOf": [{"properties": {"a": TEXT}}, {"required": ["a"]}]},
        {
            "type": "object",
            "allOf": [{"properties": {"a": TEXT}}],
            "required": ["a"],
            "unevaluatedProperties": False,
        },
        {
            "type": "object",
            "properties": {"next": {"$ref": "#"}},
            "required": ["next"],
            "additionalProperties": False,
        },
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            **closed(x={"$ref": "#/definitions/t", "type": "integer", "enum": []}),
            "definitions": {"t": TEXT},
        },
        closed(x={"type": "array", "minContains": 2, "maxContains": 1}),
        closed(
            x={
                "type": "array",
                "allOf": [
                    {"contains": TEXT, "minContains": 2},
                    {"contains": {"type": "integer"}, "maxContains": 1},
                ],
            }
        ),
        {"$schema": f"{OLD}04/schema#", **closed(x={"type": "string", "const": 1})},
        {"$schema": f"{OLD}04/schema#", **closed(x={"type": "array", "contains": False})},
        {"$schema": f"{OLD}07/schema#", "required": ["a"], "unevaluatedProperties": False},
    ],
)
def test_contradictions_when_a_value_may_exist_are_none(schema: Json) -> None:
    assert contradictions(schema) == []


def test_contradictions_when_schemas_are_satisfiable_are_none() -> None:
    for name, schema in SCHEMAS.items():
        wrapped = {"type": "object", "properties": {"x": schema}, **_definitions(schema)}
        assert not any(each.whole for each in contradictions(wrapped)), name


def _definitions(schema: Json) -> Json:
    return {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(TYPES)
            | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
            "enum": st.lists(VALUES, max_size=2),
            "const": VALUES,
            "minimum": SMALL,
            "maximum": SMALL,
            "exclusiveMinimum": SMALL,
            "exclusiveMaximum": SMALL,
            "multipleOf": st.sampled_from((1, 2, 0.5)),
            "minLength": COUNTS,
            "maxLength": COUNTS,
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "items": inner,
            "prefixItems": several,
            "contains": inner,
            "minContains": COUNTS,
            "maxContains": COUNTS,
            "properties": named,
            "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "required": st.lists(st.sampled_from("ab"), unique=True),
            "minProperties": COUNTS,
            "maxProperties": COUNTS,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
        },
    )


SOME_SCHEMAS = st.recursive(st.booleans() | _schemas(st.booleans()), _schemas, max_leaves=4)


@settings(max_examples=settings().max_examples * 4)
@given(SOME_SCHEMAS, st.lists(VALUES, min_size=8, max_size=8))
def test_contradiction_when_it_is_reported_no_value_is_valid(
    schema: Any, values: list[Any]
) -> None:
    object_schema = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    if fault(object_schema) is None and any(each.whole for each in contradictions(object_schema)):
        checks = validator(object_schema)
        assert not [value for value in values if checks.is_valid({"x": value})]


@pytest.mark.parametrize(
    ("name", "properties", "similar"),
    [
        ("citty", ["city", "country"], "city"),
        ("cityName", ["city_name"], "city_name"),
        ("user-id", ["userId", "user"], "userId"),
        ("location", ["city"], ""),
        ("colour", ["color"], "color"),
        ("text1", ["text2", "text3"], ""),
    ],
)
def test_similar_name_when_one_is_alike_is_offered(
    name: str, properties: list[str], similar: str
) -> None:
    schema = {"properties": dict.fromkeys(properties, TEXT), "required": [name]}
    assert similar_name(name, schema) == similar
    accepted = {**schema, "required": [name, *properties]}
    assert similar_name(name, accepted) == "", "no name is required twice"


def test_contradictions_when_there_are_many_are_bounded() -> None:
    schema = closed([], **{f"p{number}": {"enum": []} for number in range(100)})
    assert len(contradictions(schema)) == MOST_FOUND


def test_contradictions_when_branches_multiply_take_bounded_work() -> None:
    branches = {"anyOf": [{"properties": {name: TEXT}, "required": [name]} for name in "abcdef"]}
    wide = {**closed([], z=TEXT), "allOf": [branches] * 1}
    for count in (4, 8):
        wide["allOf"] = [{"anyOf": list(branches["anyOf"])} for _ in range(count)]
        assert lines_of("schema", partial(contradictions, dict(wide))) < 3_000_000


def chain(length: int) -> Json:
    leads = {f"d{at}": closed(x={"$ref": f"#/$defs/d{at + 1}"}) for at in range(length)}
    return {**closed(x={"$ref": "#/$defs/d0"}), "$defs": {**leads, f"d{length}": {"enum": []}}}


def test_contradictions_when_references_are_deep_do_not_exhaust_the_stack() -> None:
    assert contradictions(chain(20))[0].whole
    assert isinstance(contradictions(chain(2000)), list)
    twenty, eighty = (lines_of("schema", partial(contradictions, chain(n))) for n in (20, 80))
    assert eighty < 8 * twenty


def enums(count: int) -> Json:
    return closed(x={"allOf": [{"enum": list(range(count))} for _ in range(10)]})


def misspelled(count: int) -> Json:
    names = [f"name{number}" for number in range(count)]
    return closed([f"{name}_" for name in names], **dict.fromkeys(names, TEXT))


def test_contradictions_when_a_schema_grows_take_linear_work() -> None:
    for make in (enums, misspelled):
        small, large = (lines_of("schema", partial(contradictions, make(n))) for n in (25, 100))
        assert large < 8 * small, make
