"""Each sentence about a wrong value names the place and the reason, for each construct of schemas
that zod, pydantic and the drafts from 4 to 2020-12 write. The rows are exact."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.schema.schema_checks import validator
from playground.schema.sentences import LONGEST_SENTENCE
from playground.schema.validate import MAX_PROBLEMS, schema_problems
from tests.schema.test_validate import HOSTILE

Json = dict[str, Any]

DRAFTS = {
    "4": "http://json-schema.org/draft-04/schema#",
    "7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
}

TEXT: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
NULL: Json = {"type": "null"}

US = {
    "if": {"properties": {"country": {"const": "us"}}, "required": ["country"]},
    "then": {"properties": {"zip": {"pattern": "^[0-9]{5}$"}}, "required": ["state"]},
    "else": {"required": ["region"]},
}

VALUES = st.recursive(
    st.sampled_from([None, True, 0, 3, 7.5, "", "a", "text", "2"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abk"), inner),
    max_leaves=6,
)


def an_object(*required: str, **properties: Any) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def closed(*required: str, **properties: Any) -> Json:
    return {**an_object(*required, **properties), "additionalProperties": False}


def draft(number: str, schema: Json) -> Json:
    return {"$schema": DRAFTS[number], **schema}


CIRCLE = an_object("kind", "r", kind={"const": "circle"}, r={"type": "number"})
BOX = an_object("kind", "w", "h", kind={"const": "box"}, w={"type": "number"}, h={"type": "number"})
SHAPE = {"oneOf": [CIRCLE, BOX]}
PYDANTIC = {
    "$defs": {
        "Cat": an_object("lives", kind={"const": "cat", "default": "cat"}, lives=INTEGER),
        "Dog": an_object("bark", kind={"const": "dog", "default": "dog"}, bark=TEXT),
    },
    **an_object(
        pet={
            "discriminator": {
                "propertyName": "kind",
                "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"},
            },
            "oneOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}],
        }
    ),
}
ZOD = draft(
    "7",
    closed(
        "by",
        by={
            "anyOf": [
                closed("type", "id", type=TEXT | {"const": "id"}, id=INTEGER),
                closed("type", "name", type=TEXT | {"const": "name"}, name=TEXT),
            ]
        },
    ),
)

SENTENCES: dict[str, tuple[Json, Any, list[tuple[str, str]]]] = {
    "oneOf, chosen by its constant": (
        an_object(shape=SHAPE),
        {"shape": {"kind": "box", "w": 1}},
        [("/shape", '/shape has no "h", which the schema requires where /shape/kind is "box".')],
    ),
    "oneOf, an error inside the branch": (
        an_object(shape=SHAPE),
        {"shape": {"kind": "circle", "r": "2"}},
        [
            (
                "/shape/r",
                '/shape/r is "2", a string; the schema requires a number where /shape/kind is '
                '"circle".',
            )
        ],
    ),
    "oneOf, a constant of no branch": (
        an_object(shape=SHAPE),
        {"shape": {"kind": "star"}},
        [
            (
                "/shape/kind",
                '/shape/kind is "star", a string; the schema requires one of "circle", "box".',
            )
        ],
    ),
    "oneOf, no constant": (
        an_object(shape=SHAPE),
        {"shape": {"r": 2}},
        [
            (
                "/shape",
                '/shape has no "kind", which the schema requires to be one of "circle", "box".',
            )
        ],
    ),
    "oneOf, another type": (
        an_object(shape=SHAPE),
        {"shape": 2},
        [
            (
                "/shape",
                '/shape is 2, an integer; the schema requires an object with "kind" and "r" or '
                'an object with "kind" and "w" and "h".',
            )
        ],
    ),
    "pydantic, discriminator": (
        PYDANTIC,
        {"pet": {"kind": "dog", "lives": 9}},
        [("/pet", '/pet has no "bark", which the schema requires where /pet/kind is "dog".')],
    ),
    "pydantic, constants that may be left out": (
        PYDANTIC,
        {"pet": {}},
        [("/pet", '/pet has none of "lives", "bark"; the schema requires one of them.')],
    ),
    "pydantic, optional model": (
        {
            "$defs": {"P": an_object("x", x=INTEGER)},
            **an_object(at={"anyOf": [{"$ref": "#/$defs/P"}, NULL]}),
        },
        {"at": {}},
        [("/at", '/at has no "x", which the schema requires.')],
    ),
    "zod, discriminated and strict": (
        ZOD,
        {"by": {"type": "name", "id": 3}},
        [
            ("/by", '/by has no "name", which the schema requires where /by/type is "name".'),
            (
                "/by/id",
                '/by/id is not in the schema, which knows only "type", "name" where /by/type is'
                ' "name".',
            ),
        ],
    ),
    "anyOf, the fewest errors": (
        an_object(
            to={
                "anyOf": [
                    closed("mail", mail=TEXT),
                    closed("street", "town", street=TEXT, town=TEXT),
                ]
            }
        ),
        {"to": {"mail": 3}},
        [
            (
                "/to/mail",
                "/to/mail is 3, an integer; the schema requires a string (branch 0 of anyOf, "
                "the nearest of 2).",
            )
        ],
    ),
    "anyOf, two branches equally near": (
        an_object(a={"anyOf": [an_object(x=INTEGER), an_object(y=INTEGER)]}),
        {"a": {"x": "p", "y": "q"}},
        [
            (
                "/a",
                '/a satisfies no branch of anyOf. Branch 0: /a/x is "p", a string; the schema '
                'requires an integer. Branch 1: /a/y is "q", a string; the schema requires an '
                "integer.",
            )
        ],
    ),
    "anyOf of required": (
        {**an_object(a={}, b={}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {},
        [("", 'The arguments object has none of "a", "b"; the schema requires one of them.')],
    ),
    "anyOf of several required": (
        {"anyOf": [{"required": ["lat", "lon"]}, {"required": ["city"]}]},
        {"lat": 1},
        [("", 'The arguments object has none of "lon", "city"; the schema requires one of them.')],
    ),
    "anyOf of values": (
        an_object(n={"anyOf": [INTEGER | {"minimum": 4}, TEXT | {"minLength": 3}, NULL]}),
        {"n": "x"},
        [
            (
                "/n",
                '/n is "x", a string; the schema requires an integer of at least 4 or a string '
                "with at least 3 characters or null.",
            )
        ],
    ),
    "anyOf, a list or its item": (
        an_object(ids={"anyOf": [{"type": "array", "items": INTEGER}, INTEGER]}),
        {"ids": [1, "2"]},
        [("/ids/1", '/ids/1 is "2", a string; the schema requires an integer.')],
    ),
    "unions in a list": (
        an_object(shapes={"type": "array", "items": SHAPE}),
        {"shapes": [{"kind": "circle", "r": 1}, {"kind": "box", "w": 1}]},
        [
            (
                "/shapes/1",
                '/shapes/1 has no "h", which the schema requires where /shapes/1/kind is "box".',
            )
        ],
    ),
    "a union in a union": (
        an_object(a={"oneOf": [INTEGER, {"anyOf": [SHAPE, TEXT]}]}),
        {"a": {"kind": "circle"}},
        [("/a", '/a has no "r", which the schema requires where /a/kind is "circle".')],
    ),
    "a reference to a union": (
        {"$defs": {"shape": SHAPE}, **an_object(s={"$ref": "#/$defs/shape"})},
        {"s": {"kind": "box", "h": 1}},
        [("/s", '/s has no "w", which the schema requires where /s/kind is "box".')],
    ),
    "oneOf, two matches": (
        an_object(n={"oneOf": [INTEGER, {"type": "number", "minimum": 2}, TEXT]}),
        {"n": 3},
        [
            (
                "/n",
                "/n is 3, an integer, which satisfies branches 0 (an integer) and 1 (a number "
                "of at least 2) of oneOf; the schema requires exactly one.",
            )
        ],
    ),
    "a reference with a sibling": (
        {"$defs": {"n": INTEGER}, **an_object(n={"$ref": "#/$defs/n", "minimum": 3})},
        {"n": 1},
        [("/n", "/n is 1, an integer; the schema requires a value of at least 3.")],
    ),
    "the target of a reference with a sibling": (
        {"$defs": {"n": INTEGER}, **an_object(n={"$ref": "#/$defs/n", "minimum": 3})},
        {"n": "x"},
        [("/n", '/n is "x", a string; the schema requires an integer.')],
    ),
    "additionalItems of draft 7": (
        draft("7", an_object(t={"type": "array", "items": [TEXT], "additionalItems": False})),
        {"t": ["a", "b", "c"]},
        [("/t/1", "/t/1 is one item too many; the schema requires at most 1.")],
    ),
    "additionalItems with a schema": (
        draft("2019-09", an_object(t={"items": [TEXT], "additionalItems": INTEGER})),
        {"t": ["a", "b"]},
        [("/t/1", '/t/1 is "b", a string; the schema requires an integer.')],
    ),
    "prefixItems": (
        an_object(t={"prefixItems": [TEXT, INTEGER], "items": False}),
        {"t": ["a", "b", 3]},
        [
            ("/t/1", '/t/1 is "b", a string; the schema requires an integer.'),
            ("/t/2", "/t/2 is one item too many; the schema requires at most 2."),
        ],
    ),
    "unevaluatedItems": (
        an_object(t={"prefixItems": [TEXT], "unevaluatedItems": False}),
        {"t": ["a", "a"]},
        [("/t/1", '/t/1 is "a", a string; the schema allows no such item.')],
    ),
    "contains": (
        an_object(a={"contains": INTEGER}),
        {"a": ["x"]},
        [("/a", "/a has no item that is an integer; the schema requires at least 1.")],
    ),
    "minContains": (
        an_object(a={"contains": {"const": "x"}, "minContains": 2}),
        {"a": ["x"]},
        [("/a", '/a has fewer than 2 items that are "x"; the schema requires at least 2.')],
    ),
    "maxContains": (
        an_object(a={"contains": {"const": "x"}, "maxContains": 1}),
        {"a": ["x", "x"]},
        [("/a", '/a has more than 1 item that is "x"; the schema requires at most 1.')],
    ),
    "exclusiveMinimum of draft 4": (
        draft("4", an_object(n=INTEGER | {"minimum": 5, "exclusiveMinimum": True})),
        {"n": 5},
        [("/n", "/n is 5, an integer; the schema requires an integer greater than 5.")],
    ),
    "minimum of draft 4, not exclusive": (
        draft("4", an_object(n=INTEGER | {"minimum": 5, "exclusiveMinimum": False})),
        {"n": 4},
        [("/n", "/n is 4, an integer; the schema requires an integer of at least 5.")],
    ),
    "exclusiveMaximum": (
        an_object(n={"type": "number", "exclusiveMaximum": 1}),
        {"n": 1},
        [("/n", "/n is 1, an integer; the schema requires a number less than 1.")],
    ),
    "dependentRequired": (
        {**an_object(), "dependentRequired": {"card": ["address"]}},
        {"card": 1},
        [
            (
                "",
                'The arguments object has no "address", which the schema requires where'
                " /card is given.",
            )
        ],
    ),
    "dependencies of draft 7": (
        draft("7", {**an_object(), "dependencies": {"card": ["address"]}}),
        {"card": 1},
        [
            (
                "",
                'The arguments object has no "address", which the schema requires where'
                " /card is given.",
            )
        ],
    ),
    "dependentSchemas": (
        {**an_object(), "dependentSchemas": {"card": an_object(cvv=TEXT)}},
        {"card": 1, "cvv": 123},
        [("/cvv", "/cvv is 123, an integer; the schema requires a string where /card is given.")],
    ),
    "then": (
        {**an_object(), **US},
        {"country": "us", "zip": "x"},
        [
            (
                "",
                'The arguments object has no "state", which the schema requires where'
                ' /country is "us".',
            ),
            (
                "/zip",
                '/zip is "x", a string; the schema requires a value that matches ^[0-9]{5}$ '
                'where /country is "us".',
            ),
        ],
    ),
    "else": (
        {**an_object(), **US},
        {"country": "no"},
        [
            (
                "",
                'The arguments object has no "region", which the schema requires where'
                ' /country is not "us".',
            )
        ],
    ),
    "else, nothing given": (
        {**an_object(), **US},
        {},
        [
            (
                "",
                'The arguments object has no "region", which the schema requires where /country is'
                " not given.",
            )
        ],
    ),
    "then, though nothing is given": (
        {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
        {},
        [
            (
                "",
                'The arguments object has no "b", which the schema requires where the "if" of the'
                " schema holds.",
            )
        ],
    ),
    "not": (
        an_object(a={"not": TEXT}),
        {"a": "x"},
        [("/a", '/a is "x", a string; the schema requires anything but a string.')],
    ),
    "not, of required": (
        an_object(a={"not": {"required": ["x", "y"]}}),
        {"a": {"x": 1, "y": 2}},
        [
            (
                "/a",
                '/a is {"x": 1, "y": 2}, an object; the schema requires anything but an object '
                'with "x" and "y".',
            )
        ],
    ),
    "propertyNames": (
        an_object(h={"propertyNames": {"pattern": "^x-"}}),
        {"h": {"y": 1}},
        [
            (
                "/h",
                '/h has the key "y"; the schema requires each key to be a value that matches ^x-.',
            )
        ],
    ),
    "propertyNames, an enum": (
        an_object(h={"propertyNames": {"enum": ["a", "b"]}}),
        {"h": {"y": 1}},
        [("/h", '/h has the key "y"; the schema requires each key to be one of "a", "b".')],
    ),
    "patternProperties": (
        {**an_object(a={}), "patternProperties": {"^x-": TEXT}, "additionalProperties": False},
        {"x-1": 2, "y": 1},
        [
            ("/x-1", "/x-1 is 2, an integer; the schema requires a string."),
            ("/y", '/y is not in the schema, which knows only "a" and names that match ^x-.'),
        ],
    ),
    "unevaluatedProperties": (
        {"allOf": [an_object(a={})], **an_object(b={}), "unevaluatedProperties": False},
        {"a": 1, "b": 2, "c": 3},
        [("/c", '/c is not in the schema, which knows only "b", "a".')],
    ),
    "unevaluatedProperties with a schema": (
        {"allOf": [an_object(a={})], "unevaluatedProperties": INTEGER},
        {"a": 1, "c": "3"},
        [("/c", '/c is "3", a string; the schema requires an integer.')],
    ),
    "uniqueItems": (
        an_object(a={"uniqueItems": True}),
        {"a": [1, 2, 1.0]},
        [("/a/2", "/a/2 is 1.0, a number, like /a/0; the schema requires each item once.")],
    ),
    "multipleOf": (
        an_object(a={"type": "number", "multipleOf": 0.5}),
        {"a": 0.7},
        [("/a", "/a is 0.7, a number; the schema requires a number that is a multiple of 0.5.")],
    ),
    "format": (
        an_object(a=TEXT | {"format": "email"}),
        {"a": "x"},
        [("/a", '/a is "x", a string; the schema requires a string in the format email.')],
    ),
    "contentEncoding of draft 7": (
        draft("7", an_object(a=TEXT | {"contentEncoding": "base64"})),
        {"a": "*"},
        [("/a", '/a is "*", a string; the schema requires a string in the encoding base64.')],
    ),
    "const, nested": (
        an_object(a=an_object(b=an_object(c={"const": 2}))),
        {"a": {"b": {"c": 3}}},
        [("/a/b/c", "/a/b/c is 3, an integer; the schema requires 2.")],
    ),
    "an empty enum": (
        an_object(a={"enum": []}),
        {"a": 1},
        [("/a", "/a is 1, an integer; the schema requires nothing: its enum is empty.")],
    ),
    "a member that is required and forbidden": (
        closed("citty", city=TEXT),
        {"citty": "Oslo"},
        [("/citty", '/citty is not in the schema, which knows only "city".')],
    ),
    "unevaluatedProperties beside a member that is wrong": (
        {"allOf": [an_object(a=TEXT), an_object(b=TEXT)], "unevaluatedProperties": False},
        {"a": 1, "b": "x"},
        [("/a", "/a is 1, an integer; the schema requires a string.")],
    ),
    "unevaluatedProperties and a member of another branch": (
        {
            "anyOf": [an_object("k", k={"const": 1}, a={}), an_object("k", k={"const": 2}, b={})],
            "unevaluatedProperties": False,
        },
        {"k": 1, "b": 2},
        [("/b", "/b is only in a branch of the schema that does not apply here.")],
    ),
    "unevaluatedProperties with a schema that has more than words": (
        {"unevaluatedProperties": closed()},
        {"q": {"x": 1}},
        [
            (
                "/q",
                '/q is {"x": 1}, an object; the schema requires an object that satisfies '
                '{"type": "object", "properties": {}, "additionalProperties":... (67 characters).',
            )
        ],
    ),
    "contains of which words say only a part": (
        an_object(a={"contains": {"properties": {"t": {"const": "x"}}, "required": ["t"]}}),
        {"a": [{"t": "y"}]},
        [
            (
                "/a",
                '/a has no item that is an object with "t" that satisfies '
                '{"properties": {"t": {"const": "x"}}, "required": ["t"]}; the schema requires '
                "at least 1.",
            )
        ],
    ),
    "not, of which words say only a part": (
        an_object(a={"not": {"properties": {"t": {"const": 1}}}}),
        {"a": {"t": 1}},
        [
            (
                "/a",
                '/a is {"t": 1}, an object; the schema requires anything but a value that '
                'satisfies {"properties": {"t": {"const": 1}}}.',
            )
        ],
    ),
    "not true": (
        an_object(a={"not": True}),
        {"a": 1},
        [("/a", "/a is 1, an integer; the schema requires nothing.")],
    ),
}
"""By construct: a schema, a value, and each problem with its pointer."""


@pytest.mark.parametrize(
    ("name", "schema", "value", "expected"), [(n, *row) for n, row in SENTENCES.items()]
)
def test_sentence_of_a_wrong_value_names_place_and_reason(
    name: str, schema: Json, value: Any, expected: list[tuple[str, str]]
) -> None:
    problems = schema_problems(schema, value)
    assert sorted((problem.pointer, problem.message) for problem in problems) == expected


@pytest.mark.parametrize(
    ("schema", "value", "pointer", "fix"),
    [
        (SHAPE, {"kind": "circle", "r": "2"}, "/r", "2"),
        ({"anyOf": [BOX, NULL]}, {"kind": "box", "w": "1", "h": 2}, "/w", "1"),
        ({"anyOf": [BOX, NULL]}, {"kind": "box", "w": "1", "h": "x"}, "/w", ""),
    ],
)
def test_fix_inside_a_union_when_the_union_accepts_it_is_offered(
    schema: Json, value: Any, pointer: str, fix: str
) -> None:
    fixes = {problem.pointer: problem.fix for problem in schema_problems(schema, value)}
    assert fixes[pointer] == fix


def _deep_union(levels: int, width: int) -> Json:
    schema: Json = an_object("x" * 300, **{"x" * 300: {"enum": ["y" * 300] * 4}})
    for number in range(levels):
        schema = {
            "anyOf": [
                {**schema, "title": str(n), "required": [f"{number}.{n}"]} for n in range(width)
            ]
        }
    return schema


LARGE: dict[str, tuple[Json, Any]] = {
    **HOSTILE,
    "wide union": (
        {"oneOf": [an_object(f"p{n}", k={"const": n}) for n in range(2_000)]},
        {"k": -1},
    ),
    "wide union of values": ({"anyOf": [{"const": "c" * 500 + str(n)} for n in range(2_000)]}, 1),
    "deep union": (_deep_union(3, 3), {}),
    "long names": (closed(**{"k" * 5_000: TEXT}), {"q" * 50_000: 1}),
    "long pattern names": ({"propertyNames": {"pattern": "^" + "a" * 5_000}}, {"q" * 50_000: 1}),
    "long items": (an_object(a={"unevaluatedItems": False}), {"a": ["x" * 50_000, "y"]}),
    "all matches": ({"oneOf": [{"title": str(n)} for n in range(3_000)]}, {}),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("name", "schema", "value"), [(name, *row) for name, row in LARGE.items()])
def test_sentences_of_hostile_schemas_stay_short(name: str, schema: Json, value: Any) -> None:
    problems = schema_problems(schema, value)
    assert len(problems) <= MAX_PROBLEMS + 1
    assert max((len(problem.message) for problem in problems), default=0) <= LONGEST_SENTENCE + 100


PARTS: tuple[Json | bool, ...] = (
    *(TEXT, INTEGER, NULL, True, False, SHAPE, CIRCLE, {"const": 3}, {"enum": ["a", 2]}),
    *({"required": ["a"]}, {"minimum": 5}, {"maxLength": 1}, {"contains": TEXT, "maxContains": 1}),
    *({"prefixItems": [TEXT], "items": False}, {"propertyNames": {"pattern": "^a"}}, {"$ref": "#"}),
    *({"dependentRequired": {"a": ["b"]}}, {"uniqueItems": True}, {"minProperties": 2}),
    *(US, {"unevaluatedItems": False}, {"unevaluatedProperties": False}),
)


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    return (
        st.builds(
            lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), several
        )
        | st.builds(lambda part: {"not": part}, inner)
        | st.builds(lambda first, then: {"if": first, "then": then}, inner, inner)
        | st.builds(lambda first, second: an_object("a", a=first, k=second), inner, inner)
        | st.builds(lambda part: {"type": "array", "items": part}, inner)
    )


@given(st.recursive(st.sampled_from(PARTS), _combined, max_leaves=6), VALUES)
def test_value_has_problems_exactly_when_the_validator_refuses_it(part: Any, value: Any) -> None:
    """The explanation neither hides an error nor fails, whatever the schema is built of."""
    schema = {"properties": {"v": part}}
    problems = schema_problems(schema, {"v": value})
    try:
        valid = validator(schema).is_valid({"v": value})
    except ValueError:  # a reference that never ends
        return
    if any(problem.message.startswith("Checking these") for problem in problems):
        return
    assert bool(problems) is not valid, json.dumps([schema, value])
    assert all(problem.message.endswith(".") for problem in problems)
