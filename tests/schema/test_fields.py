"""Forms from schemas: what is filled in comes out again, and nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.schema.form import MOST_FIELDS, FormField, fields, form_of, value_of
from playground.schema.satisfy import sample_value
from playground.schema.validate import schema_problems

EVENT = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "minutes": {"type": "integer", "minimum": 5, "default": 30},
        "day": {"type": "string", "format": "date"},
        "color": {"enum": ["red", "blue", 3]},
        "done": {"type": "boolean"},
        "guests": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "floor": {"type": ["integer", "null"]}},
            "required": ["city"],
        },
        "rest": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "note": {"$ref": "#/$defs/note"},
    },
    "required": ["title"],
    "$defs": {"note": {"anyOf": [{"type": "string", "maxLength": 900}, {"type": "null"}]}},
}

NAMES = st.sampled_from(["a", "b/c", "d~e", "content", "é"])
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "string", "format": "date"},
            {"type": "integer", "minimum": 3},
            {"type": "number", "exclusiveMinimum": 0.5},
            {"type": "boolean"},
            {"type": ["string", "null"]},
            {"enum": ["x", 1, None, {"a": 1}]},
            {"const": "k"},
            {"type": "null"},
            {},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda item: {"anyOf": [item, {"type": "null"}]}, inner),
        st.builds(
            lambda members, needed: {
                "type": "object",
                "properties": members,
                "required": sorted(set(members) & needed),
                "additionalProperties": False,
            },
            st.dictionaries(NAMES, inner, max_size=4),
            st.sets(NAMES),
        ),
    ),
    max_leaves=8,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def fields_by_pointer(value: Any = None, schema: Any = EVENT) -> dict[str, FormField]:
    """The fields by pointer, those of nested objects too."""
    todo = list(fields(schema, "" if value is None else json.dumps(value)))
    result: dict[str, FormField] = {}
    while todo:
        form_field = todo.pop(0)
        result[form_field.pointer + ("+" if form_field.rest else "")] = form_field
        todo.extend(form_field.children)
    return result


def test_each_type_has_its_field() -> None:
    kinds = {pointer: form_field.kind for pointer, form_field in fields_by_pointer().items()}
    assert kinds == {
        "/title": "text",
        "/minutes": "integer",
        "/day": "date",
        "/color": "choice",
        "/done": "boolean",
        "/guests": "lines",
        "/counts": "lines",
        "/place": "object",
        "/rest": "json",
        "/note": "long",
        "/place/city": "text",
        "/place/floor": "integer",
    }


def test_a_label_says_what_is_expected() -> None:
    assert fields_by_pointer()["/minutes"].label == "minutes · integer ≥ 5 · default 30"
    assert [fields_by_pointer()[literal].required for literal in ("/title", "/minutes")] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({}, "{}"),
        ({"text:/title": ["Walk"]}, '{"title": "Walk"}'),
        ({"text:/title": [""]}, '{"title": ""}'),
        ({"integer:/minutes": [" 30 "]}, '{"minutes": 30}'),
        ({"integer:/minutes": ["1.50"]}, '{"minutes": 1.50}'),
        ({"integer:/minutes": ["9007199254740993"]}, '{"minutes": 9007199254740993}'),
        ({"integer:/minutes": [""]}, "{}"),
        ({"date:/day": ["2026-11-21"]}, '{"day": "2026-11-21"}'),
        ({"choice:/color": ["3"]}, '{"color": 3}'),
        ({"choice:/color": [""], "boolean:/done": ["false"]}, '{"done": false}'),
        ({"lines:/guests": ["Ada\r\n\r\n Alan"]}, '{"guests": ["Ada", " Alan"]}'),
        ({"lines:/counts": ["1\n1.0e2"]}, '{"counts": [1, 1.0e2]}'),
        ({"text:/place/city": ["Oslo"]}, '{"place": {"city": "Oslo"}}'),
        ({"text:/place/city": [""]}, '{"place": {"city": ""}}'),
        ({"null:/place/floor": ["on"]}, '{"place": {"floor": null}}'),
        ({"json:/rest": ['{"a": 1.10}']}, '{"rest": {"a": 1.10}}'),
        ({"long:/note": ["a\r\nb"]}, '{"note": "a\\nb"}'),
        ({"json:/title": ['"a\\u0000"']}, '{"title": "a\\u0000"}'),
        ({"text:/nothing": ["there"]}, "{}"),
    ],
)
def test_a_form_becomes_json(form: dict[str, list[str]], text: str) -> None:
    filled = value_of(EVENT, form)
    assert filled.problems == ()
    assert filled.text == text


@pytest.mark.parametrize(
    ("form", "pointer"),
    [
        ({"integer:/minutes": ["30x"]}, "/minutes"),
        ({"integer:/minutes": ["+5"]}, "/minutes"),
        ({"integer:/minutes": ["007"]}, "/minutes"),
        ({"integer:/minutes": ["NaN"]}, "/minutes"),
        ({"json:/rest": ["{"]}, "/rest"),
        ({"json:/rest": ['{"a": 1, "a": 2}']}, "/rest"),
        ({"lines:/counts": ["1\ntwo"]}, "/counts"),
        ({"text:/title": ["a\0"]}, "/title"),
        ({"rest:": ['{"title": "twice"}']}, ""),
    ],
)
def test_what_cannot_be_read_is_told_at_its_place(form: dict[str, list[str]], pointer: str) -> None:
    schema = {**EVENT, "additionalProperties": True}
    filled = value_of(schema, form)
    assert [problem.pointer for problem in filled.problems] == [pointer]
    assert filled.text == ""


@pytest.mark.parametrize(
    "value",
    [
        {"title": "a\r\nb"},
        {"title": "a\0"},
        {"title": "a\nb"},
        {"title": 7},
        {"title": "x", "note": ""},
        {"title": "x", "guests": []},
        {"title": "x", "guests": ["a\nb", ""]},
        {"title": "x", "guests": ["1", 1]},
        {"title": "x", "place": {}},
        {"title": "x", "note": None},
        {"title": "x", "minutes": None},
        {"title": "x", "day": "tomorrow"},
        {"title": "x", "color": "green"},
        {"title": "x", "other": {"deep": [1]}},
        {"title": "x", "rest": "null"},
        [1, 2],
        "text",
        None,
    ],
)
def test_what_a_plain_field_could_not_say_comes_back_all_the_same(value: Any) -> None:
    filled = value_of(EVENT, form_of(fields(EVENT, json.dumps(value))))
    assert json.loads(filled.text) == value


def test_digits_stay_as_they_were() -> None:
    text = '{"title": "x", "minutes": 1.10, "rest": 12345678901234567890.5}'
    assert value_of(EVENT, form_of(fields(EVENT, text))).text == text


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"type": "integer"}, {}, True, {"enum": [1]}]
)
def test_a_schema_of_no_object_has_one_field(schema: Any) -> None:
    (only,) = fields(schema)
    assert only.pointer == ""
    assert value_of(schema, {"json:": ["1"]}).text == "1"


def test_a_schema_that_goes_round_ends_in_json() -> None:
    schema = {
        "type": "object",
        "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}},
        "required": ["next"],
    }
    assert max(pointer.count("/next") for pointer in fields_by_pointer(schema=schema)) == 3
    assert list(fields({"$ref": "#"}))


def test_a_schema_that_multiplies_has_a_bounded_form() -> None:
    member = {"$ref": "#"}
    schema = {"type": "object", "properties": {f"m{number}": member for number in range(100)}}
    assert len(fields_by_pointer(schema=schema)) <= 2 * MOST_FIELDS


@given(SCHEMAS, st.integers(0, 5))
def test_a_form_nobody_touched_gives_the_value_that_filled_it(schema: Any, seed: int) -> None:
    value = sample_value(schema, seed=seed)
    filled = value_of(schema, form_of(fields(schema, json.dumps(value))))
    assert filled.problems == ()
    assert json.loads(filled.text) == value
    assert schema_problems(schema, value) == schema_problems(schema, json.loads(filled.text))


# Null is no value of the whole: there, a form that is left empty is an object.
@given(SCHEMAS, JSON.filter(lambda value: value is not None))
@settings(derandomize=True)
def test_it_does_so_for_values_that_do_not_fit(schema: Any, value: Any) -> None:
    filled = value_of(schema, form_of(fields(schema, json.dumps(value))))
    assert filled.problems == ()
    assert json.loads(filled.text) == value
