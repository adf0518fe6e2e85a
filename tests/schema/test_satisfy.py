"""What is made for a schema satisfies it, as the validator judges."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.schema import pattern
from playground.schema.pattern import PieceBudget, texts
from playground.schema.satisfy import BUDGET, _Maker, sample_value
from playground.schema.schema_checks import Place, fault, validator
from tests.schema.test_sample import LEAVES
from tests.schema.test_validate import fan

Json = dict[str, Any]
TEXT: Json = {"type": "string"}
NODE: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Z][a-z]+$"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        "parent": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
    },
    "required": ["name", "children", "parent"],
    "additionalProperties": False,
}

FORMATS = (
    *("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"),
    *("regex", "json-pointer", "uri-reference", "iri", "idn-email", "uri-template"),
)


def obj(*required: str, **properties: Any) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text(**more: Any) -> Json:
    return {"type": "string", **more}


SCHEMAS: dict[str, Json] = {
    "flat": obj("a", "b", a=TEXT, b={"type": "integer"}),
    "no type": {"properties": {"a": TEXT}, "required": ["a"]},
    "anything": {},
    "root array": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 5},
    "root enum": {"enum": ["red", "green"]},
    "definitions of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"id": text(pattern="^[0-9]{4}$")},
        **obj("id", id={"$ref": "#/definitions/id"}),
    },
    "references into properties": obj(
        "a", "b", a=text(format="email"), b={"$ref": "#/properties/a"}
    ),
    "reference with siblings": {
        "$defs": {"n": {"type": "integer"}},
        **obj("n", n={"$ref": "#/$defs/n", "minimum": 50, "multipleOf": 7}),
    },
    "recursive": {"$defs": {"node": NODE}, "$ref": "#/$defs/node"},
    "recursive by the root": obj("next", next={"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
    "recursive first branch": {
        "$defs": {
            "e": {
                "anyOf": [
                    obj("left", "right", left={"$ref": "#/$defs/e"}, right={"$ref": "#/$defs/e"}),
                    {"type": "number"},
                ]
            }
        },
        **obj("e", e={"$ref": "#/$defs/e"}),
    },
    "anyOf of objects": obj(
        "shape",
        shape={
            "anyOf": [
                obj("kind", "radius", kind={"const": "circle"}, radius={"exclusiveMinimum": 0}),
                obj("kind", kind={"const": "point"}),
            ]
        },
    ),
    "oneOf that excludes": {
        "oneOf": [
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
            {"type": "object", "properties": {"b": TEXT}, "required": ["b"]},
        ]
    },
    "oneOf of numbers": {"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}], "type": "integer"},
    "oneOf overlapping": {
        "oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}],
    },
    "discriminated": {
        "$defs": {
            "cat": obj(
                "pet", "lives", pet={"const": "cat"}, lives={"type": "integer", "maximum": 9}
            ),
            "dog": obj("pet", "bark", pet={"const": "dog"}, bark=text(minLength=4)),
        },
        **obj(
            "pet",
            pet={
                "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
                "discriminator": {"propertyName": "pet"},
            },
        ),
    },
    "allOf": {
        "allOf": [
            {"type": "object", "properties": {"a": {"minimum": 3}}, "required": ["a"]},
            {"type": "object", "properties": {"a": {"type": "integer", "maximum": 4}}},
            {"properties": {"b": {"const": True}}, "required": ["b"]},
        ]
    },
    "allOf of anyOf": {
        "allOf": [
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        ]
    },
    "not": {"type": "integer", "not": {"maximum": 10}},
    "not an enum": {"type": "string", "not": {"enum": ["example", "sample"]}},
    "if then else": {
        **obj("kind", "zip", kind={"enum": ["us", "ca"]}, zip=TEXT),
        "if": {"properties": {"kind": {"const": "us"}}},
        "then": {"properties": {"zip": {"pattern": "^[0-9]{5}$"}}},
        "else": {"properties": {"zip": {"pattern": "^[A-Z][0-9][A-Z]$"}}},
    },
    "dependentRequired": {
        "type": "object",
        "properties": {"card": TEXT, "address": TEXT},
        "required": ["card"],
        "dependentRequired": {"card": ["address", "name"]},
    },
    "dependentSchemas": {
        "type": "object",
        "properties": {"card": TEXT},
        "required": ["card"],
        "dependentSchemas": {
            "card": {"required": ["cvv"], "properties": {"cvv": text(pattern="^\\d{3}$")}}
        },
    },
    "patternProperties": {
        "type": "object",
        "patternProperties": {"^x-[a-z]{2,5}$": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 3,
    },
    "propertyNames": {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z]{3}$"},
        "additionalProperties": {"type": "boolean"},
        "minProperties": 2,
    },
    "maxProperties": {
        "type": "object",
        "properties": {"a": TEXT, "b": TEXT, "c": TEXT},
        "maxProperties": 1,
    },
    "required without properties": {"type": "object", "required": ["x", "y"]},
    "a dictionary of numbers": {
        "type": "object",
        "additionalProperties": {"type": "number", "minimum": 5},
        "minProperties": 1,
    },
    "a property that may not be": {"type": "object", "properties": {"a": TEXT, "b": False}},
    "tuple": {
        "type": "array",
        "prefixItems": [TEXT, {"type": "integer"}],
        "items": False,
        "minItems": 2,
    },
    "tuple of draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "array",
        "items": [TEXT, {"type": "integer"}],
        "additionalItems": False,
        "minItems": 2,
    },
    "unique texts": {"type": "array", "items": TEXT, "uniqueItems": True, "minItems": 6},
    "unique options": {
        "type": "array",
        "items": {"enum": ["a", "b", "c"]},
        "uniqueItems": True,
        "minItems": 3,
    },
    "unique objects": {
        "type": "array",
        "items": obj("id", "on", id={"type": "integer"}, on={"type": "boolean"}),
        "uniqueItems": True,
        "minItems": 4,
    },
    "unique patterns": {
        "type": "array",
        "items": text(pattern="^[a-f]{2}$"),
        "uniqueItems": True,
        "minItems": 4,
    },
    "unique dates": {
        "type": "array",
        "items": text(format="date"),
        "uniqueItems": True,
        "minItems": 40,
    },
    "contains": {
        "type": "array",
        "items": {"type": "integer"},
        "contains": {"minimum": 90},
        "minContains": 2,
    },
    "many items": {"type": "array", "items": {"type": "number"}, "minItems": 120, "maxItems": 120},
    "no items": {"type": "array", "items": TEXT, "maxItems": 0},
    "bounds": {"type": "number", "exclusiveMinimum": 0.1, "exclusiveMaximum": 0.2},
    "bounds of integers": {"type": "integer", "exclusiveMinimum": 1.5, "maximum": 2},
    "negative bounds": {"type": "integer", "minimum": -20, "maximum": -10, "multipleOf": 7},
    "cents": {"type": "number", "minimum": 9.99, "multipleOf": 0.01},
    "a fraction between": {"type": "number", "minimum": 0.25, "maximum": 0.3},
    "draft 4 bound": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "integer",
        "minimum": 5,
        "exclusiveMinimum": True,
    },
    "large": {"type": "integer", "minimum": 10**15},
    "lengths": text(minLength=30, maxLength=32),
    "long": text(minLength=2000),
    "short": text(maxLength=2),
    "pattern of a phone": text(pattern=r"^\+?[1-9]\d{7,14}$"),
    "pattern of a look-ahead": text(pattern=r"^(?=.*[A-Z])(?=.*\d)[A-Za-z\d]{8,}$"),
    "pattern of a decimal": text(pattern=r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"),
    "pattern and length": text(pattern="^[a-z]+$", minLength=40, maxLength=60),
    "pattern of a slug": text(pattern="^[a-z0-9]+(?:-[a-z0-9]+)*$"),
    "pattern unanchored": text(pattern="cat|dog"),
    "pattern of a letter class": text(pattern=r"^\p{Lu}\p{L}+$"),
    "pattern in any place": {"pattern": "^a+$"},
    "formats": obj(
        *FORMATS,
        **{name: text(format=name) for name in FORMATS},
    ),
    "format and pattern": text(format="email", pattern="@example\\.com$"),
    "an unknown format": text(format="int-or-string"),
    "nullable": obj("a", a={"type": ["null", "integer"]}),
    "several types": {
        "type": ["object", "array"],
        "minProperties": 1,
        "minItems": 1,
        "required": ["a"],
    },
    "default that is wrong": {"type": "integer", "default": "x"},
    "examples that are wrong": {"type": "integer", "examples": ["x", 4], "minimum": 4},
    "enum beside a type": {"type": "integer", "enum": ["1", 2]},
    "unevaluated": {
        "allOf": [{"properties": {"a": TEXT}, "required": ["a"]}],
        "properties": {"b": TEXT},
        "unevaluatedProperties": False,
        "type": "object",
    },
    "deep": (lambda s: [s := {"type": "array", "items": s, "minItems": 1} for _ in range(12)][-1])(
        TEXT
    ),
    "what pydantic writes": {
        "$defs": {
            "Status": {"enum": ["open", "closed"], "title": "Status", "type": "string"},
            "Item": {
                "properties": {
                    "sku": {
                        "maxLength": 8,
                        "minLength": 8,
                        "pattern": "^[A-Z0-9]+$",
                        "type": "string",
                    },
                    "price": {
                        "anyOf": [
                            {"exclusiveMinimum": 0.0, "type": "number"},
                            {"type": "string", "pattern": "^\\d+$"},
                        ]
                    },
                    "count": {"default": 1, "maximum": 99, "minimum": 1, "type": "integer"},
                    "tags": {"items": TEXT, "type": "array", "uniqueItems": True, "minItems": 2},
                    "when": {
                        "anyOf": [text(format="date-time"), {"type": "null"}],
                        "default": None,
                    },
                    "size": {
                        "maxItems": 2,
                        "minItems": 2,
                        "prefixItems": [{"type": "number"}, {"type": "number"}],
                        "type": "array",
                    },
                },
                "required": ["sku", "price", "tags", "size"],
                "type": "object",
            },
        },
        "properties": {
            "status": {"$ref": "#/$defs/Status"},
            "items": {"items": {"$ref": "#/$defs/Item"}, "minItems": 2, "type": "array"},
            "by": {
                "additionalProperties": {"$ref": "#/$defs/Item"},
                "type": "object",
                "minProperties": 1,
            },
            "id": text(format="uuid4"),
        },
        "required": ["status", "items", "by", "id"],
        "type": "object",
    },
}


@pytest.mark.parametrize(("name", "schema"), SCHEMAS.items())
def test_a_value_satisfies_its_schema(name: str, schema: Json) -> None:
    assert fault(schema) is None
    value = sample_value(schema)
    assert validator(schema).is_valid(value), value
    for seed in range(1, 4):
        value = sample_value(schema, seed=seed)
        assert validator(schema).is_valid(value), value


def wishing(**wishes: Any) -> Any:
    def wish(place: Place, schema: Mapping[str, Any]) -> Iterable[Any]:
        return [wishes[str(place[-1])]] if place and place[-1] in wishes else []

    return wish


@pytest.mark.parametrize(
    ("schema", "wishes", "value"),
    [
        (obj("city", city=TEXT), {"city": "Oslo"}, {"city": "Oslo"}),
        (obj("city", city=text(maxLength=3)), {"city": "Oslo"}, None),
        (obj("t", t={"type": "integer", "maximum": 9}), {"t": 12}, None),
        (obj("t", t={"anyOf": [{"type": "null"}, {"type": "integer"}]}), {"t": 12}, {"t": 12}),
        (obj("a", a=obj("b", b=TEXT)), {"a": {"b": "x"}}, {"a": {"b": "x"}}),
        (obj("u", u={"enum": ["c", "f"]}), {"u": "f"}, {"u": "f"}),
        (obj("u", u={"enum": ["c", "f"]}), {"u": "kelvin"}, {"u": "c"}),
    ],
)
def test_a_wish_is_met_where_it_fits(schema: Json, wishes: Json, value: Any) -> None:
    result = sample_value(schema, wishing(**wishes))
    assert validator(schema).is_valid(result)
    assert value is None or result == value


def _schemas(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    members = st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    return (
        st.builds(
            lambda item, closed: {
                "type": "object",
                "properties": item,
                "required": list(item)[:2],
                **({"additionalProperties": False} if closed else {}),
            },
            members,
            st.booleans(),
        )
        | st.builds(
            lambda item, least, unique: {
                "type": "array",
                "items": item,
                "minItems": least,
                "maxItems": least + 1,
                **({"uniqueItems": True} if unique and least < 2 else {}),
            },
            inner,
            st.integers(0, 3),
            st.booleans(),
        )
        | st.builds(lambda many: {"anyOf": many}, st.lists(inner, min_size=1, max_size=3))
    )


@given(st.recursive(LEAVES, _schemas, max_leaves=8))
@settings(deadline=None)
def test_whatever_is_put_together_is_satisfied(schema: Json) -> None:
    object_schema = {"$defs": {"node": {"type": "integer", "minimum": 3}}, **schema}
    value = sample_value(object_schema)
    assert validator(object_schema).is_valid(value), json.dumps(value)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {
            "$defs": {
                f"n{i}": obj(*"abcdefgh", **{k: {"$ref": f"#/$defs/n{i + 1}"} for k in "abcdefgh"})
                for i in range(9)
            }
            | {"n9": TEXT},
            "$ref": "#/$defs/n0",
        },
        text(pattern="(a+)+" * 40 + "$"),
        text(pattern="a{20000}{20000}"),
        {"type": "array", "minItems": 10**9},
        text(minLength=10**9),
        {"not": {}},
        {"type": "object", "required": ["a"], "properties": {"a": False}},
        {"type": "object", "$ref": "https://example.com/schema"},
        text(minLength=10**400),
        {"type": "integer", "minimum": 10**400},
        {"type": "number", "maximum": -(10**400)},
        {"type": "integer", "multipleOf": 10**400},
        {"type": "array", "minItems": 10**400},
        {"type": "object", "required": [{}, 1, "a"], "dependentRequired": {"a": [{}, "b"]}},
        {"allOf": [obj(f"a{i}", **{f"a{i}": TEXT}) for i in range(3_000)]},
        {"allOf": [{"$ref": "#"}] * 100},
        {"items": {"default": "x" * 100_000}, "minItems": 200},
        {"required": ["a", "b", "c"], "minProperties": 200, "additionalProperties": {"$ref": "#"}},
    ],
)
def test_what_cannot_be_satisfied_ends_too(schema: Json) -> None:
    value = sample_value(schema)
    assert len(json.dumps(value)) < 10_000_000


def test_value_of_a_schema_that_leads_back_to_itself_counts_all_its_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Place] = []
    of = _Maker.build

    def count(maker: _Maker, schema: Any, place: Place, depth: int) -> Any:
        calls.append(place)
        return of(maker, schema, place, depth)

    monkeypatch.setattr(_Maker, "build", count)
    again = {"$ref": "#"}
    sample_value({"required": ["a"], "minProperties": 200, "additionalProperties": again})
    assert len(calls) < 3 * BUDGET


def test_a_validator_with_many_steps_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps count before it is started, for once started it ends at no signal."""
    checked_values: list[Any] = []

    def refuse(value: Any) -> bool:
        checked_values.append(value)
        assert len(checked_values) < 200
        return False

    judge = SimpleNamespace(is_valid=refuse)
    monkeypatch.setattr("playground.schema.schema_checks.validator", lambda schema: judge)
    for levels in (3, 8):
        checked_values.clear()
        many = fan("anyOf", levels)["$defs"]
        unlike = {"not": {"$ref": "#/$defs/d0"}}
        sample_value({"type": "array", "minItems": 300, "items": unlike, "$defs": many})
        assert bool(checked_values) is (levels == 3)


@pytest.mark.parametrize(
    "written",
    [
        "(",
        "(?L)a",
        "^(((){9999}){9999}){9999}$",
        "^(?:(?:(?=aaaa){9999}){9999})b$",
        "^(((a+)+)+)+$",
        "[" * 9_000,
        "a" * 20_000,
    ],
)
def test_a_pattern_that_cannot_be_read_or_never_ends_has_no_text(written: str) -> None:
    outputs = texts(written, 5_000, effort=PieceBudget(3_000))
    assert [text for text in outputs if len(text) > 3_000] == []


def test_texts_of_groups_at_the_limit_exist_and_beyond_it_do_not() -> None:
    deepest = "(" * pattern.MOST_GROUPS + "a" + ")" * pattern.MOST_GROUPS
    assert next(texts(f"^{deepest}$"), None) == "a"
    assert list(texts(f"^({deepest})$")) == []
    many = r"\(" * 100 + "(a)" * 100
    assert next(texts(f"^{many}$"), None) == "(" * 100 + "a" * 100


def test_without_the_parser_of_this_python_no_pattern_has_a_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pattern, "_parser", None)
    assert list(texts("^a$")) == []
    assert sample_value(obj("a", a=text(pattern="^a$"))) == {"a": None}


def test_what_is_written_out_in_a_schema_is_not_copied_without_end() -> None:
    for inner in ({"const": "a" * 50_000}, {"const": ["a" * 50_000]}, text(minLength=50_000)):
        rows = {"type": "array", "minItems": 300, "items": inner}
        result = sample_value({"type": "array", "minItems": 300, "items": rows})
        assert sum(len(str(cell)) for row in result for cell in row or ()) < 10_000_000
