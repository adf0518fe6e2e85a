"""A rewritten schema accepts and refuses the same values, or says what it does not keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playground.protocols.gemini.limits import PLAIN as GEMINI_PLAIN
from playground.protocols.registry import LIMITS
from playground.protocols.rewrite import (
    Rewrite,
    inline_refs,
    rewrite_for_gemini,
    rewrite_for_strict,
    rewrite_without_refused,
    with_similar_names,
)
from playground.protocols.tool_limits import SentTool
from playground.schema import schema_checks
from playground.schema.satisfy import sample_value
from tests.schema.restoring import restore

Json = dict[str, Any]

S: Json = {"type": "string"}
I: Json = {"type": "integer"}  # noqa: E741
NULL: Json = {"type": "null"}

LEAVES = st.sampled_from(
    [
        *(S, I, {"type": "number"}, {"type": "boolean"}, NULL),
        {"type": "string", "description": "d", "title": "t"},
        {"type": ["string", "null"]},
        {"type": ["string", "integer"]},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "integer", "enum": [1, 2, 5]},
        {"enum": ["a", 1, None]},
        {"const": "a"},
        {"const": 3},
        {"type": "integer", "minimum": 1, "maximum": 9},
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 4},
        {"type": "number", "exclusiveMinimum": 1.5},
        {"type": "string", "minLength": 2, "maxLength": 8},
        {"type": "string", "pattern": "^[a-z]+$"},
        {"type": "string", "format": "date"},
        {"type": "integer", "default": 4},
        {"anyOf": [S, NULL]},
        {"anyOf": [S, I], "description": "d"},
        {"oneOf": [S, I]},
        {"oneOf": [I, {"type": "number"}]},
        {"enum": ["x", 3], "const": 5},
        {"enum": ["x", True, 1], "const": 1.0},
        {"allOf": [{"const": 1}, {"const": True}]},
        {"allOf": [{"enum": [1, 0]}, {"enum": [True, 0]}]},
        {"type": "string", "enum": ["a", None]},
        {"allOf": [{"allOf": [S]}, {"allOf": [{"minLength": 1}]}]},
        *({"type": "object", "$ref": "#/$defs/point"}, False),
        {"allOf": [{"type": "integer"}, {"minimum": 3}]},
        {"not": S},
        {"$ref": "#/$defs/leaf"},
        {"$ref": "#/$defs/leaf", "description": "d"},
        {"$ref": "#/$defs/point"},
        {"type": "string", "nullable": True},
        *({}, True),
    ]
)

LOOP: Json = {"$ref": "#/$defs/tree"}

TOLD: Json = {"allOf": [LOOP], "description": "d"}
"""As pydantic wrote it before 2.9."""

OTHERS: tuple[Any, ...] = (None, True, 0, 3, 1.5, "", "a", "2026-01-01", [], ["a"], {}, {"x": 1})

BUDGET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)

LOOKS = {**S, "pattern": "^(?=a)b", "description": "A text."}
PLAIN = {**S, "pattern": "^[a-z]+$"}
LONG: Json = {"type": "array", "items": PLAIN, "maxItems": 961}


def closed(**properties: Any) -> Json:
    names = [name.rstrip("_") for name in properties]
    return {
        "type": "object",
        "properties": dict(zip(names, properties.values(), strict=True)),
        "required": [name for name in properties if not name.endswith("_")],
        "additionalProperties": False,
    }


DEFINITIONS: Json = {"leaf": {"type": "string", "enum": ["x", "y"]}, "point": closed(x=I, y_=I)}
LOOPS: Json = {
    "tree": closed(v=S, up_=TOLD, all_={"type": "array", "items": LOOP}),
}


def deep(schema: Any, levels: int) -> Any:
    for _ in range(levels):
        schema = {"allOf": [schema]}
    return schema


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    def object_schema(properties: Mapping[str, Any], required: set[str], more: Any) -> Json:
        schema: Json = {"type": "object", "properties": dict(properties)}
        schema["required"] = [name for name in properties if name in required]
        return schema if more is None else {**schema, "additionalProperties": more}

    names = st.sampled_from(["a", "b", "city"])
    return st.builds(
        object_schema,
        st.dictionaries(names, inner, max_size=3),
        st.sets(names),
        st.sampled_from([False, False, False, None, True, S]),
    )


def within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return (
        objects(inner)
        | st.builds(lambda item: {"type": "array", "items": item}, inner)
        | st.builds(lambda item, other: {"anyOf": [item, other]}, inner, inner)
        | st.builds(lambda item, other: {"oneOf": [item, other]}, inner, inner)
        | st.builds(lambda item, other: {"allOf": [item, other]}, inner, inner)
    )


SCHEMAS = objects(st.recursive(LEAVES, within, max_leaves=5)).map(
    lambda schema: {**schema, "$defs": deepcopy(DEFINITIONS)}
)
ENDLESS = LEAVES | st.sampled_from([LOOP, TOLD, deep(TOLD, 20)])
LOOPING = st.one_of(
    objects(st.recursive(ENDLESS, within, max_leaves=3)),
    st.sampled_from([LOOP, TOLD, {"type": "object", **LOOP}]),
).map(lambda schema: {**schema, "$defs": deepcopy({**DEFINITIONS, **LOOPS})})


def values(schema: Json, rewritten: Mapping[str, Any]) -> Iterator[Any]:
    """Samples of both schemas, and the same with one thing changed."""
    for seed in range(3):
        for source in (schema, dict(rewritten)):
            value = sample_value(source, seed=seed)
            yield value
            yield from changed_values(value)


def changed_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield {**value, "more": 1}
        for name, inner in value.items():
            yield {key: item for key, item in value.items() if key != name}
            for other in (*OTHERS, *changed_values(inner)):
                yield {**value, name: other}
    elif isinstance(value, list):
        yield from ([other] for other in (*OTHERS, *(changed_values(value[0]) if value else ())))


def taker(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    return schema_checks.validator(schema).is_valid


def takes(schema: Mapping[str, Any], value: Any) -> bool:
    return taker(schema)(value)


def told_back(schema: Any) -> Any:
    """Gemini's words as JSON Schema: `nullable` is a type null."""
    if isinstance(schema, list):
        return [told_back(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    document = {key: told_back(item) for key, item in schema.items()}
    if document.get("nullable") is True:
        document.pop("nullable")
        return {"anyOf": [document, NULL]}
    return document


def filled(schema: Any, root: Json, value: Any) -> list[Any]:
    """`value` with null for each absent optional property, by each choice there is."""
    if not isinstance(schema, dict):
        return [value]
    if "$ref" in schema:
        return filled(root["$defs"][schema["$ref"].rpartition("/")[2]], root, value)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return [each for item in schema[keyword] for each in filled(item, root, value)]
    if isinstance(value, list):
        each = [filled(schema.get("items"), root, item)[:4] for item in value]
        return [list(items) for items in zip(*each, strict=False)] if each else [value]
    if not isinstance(value, dict):
        return [value]
    result: list[Json] = [{}]
    for name, inner in schema.get("properties", {}).items():
        if inner is False and name not in value:
            continue  # it can never be there: nothing stands for its absence
        options = filled(inner, root, value[name])[:4] if name in value else [None]
        result = [{**data, name: option} for data in result for option in options][:64]
    rest = {key: item for key, item in value.items() if key not in schema.get("properties", {})}
    return [{**data, **rest} for data in result]


@BUDGET
@given(SCHEMAS)
def test_inlined_schemas_take_the_same_values(schema: Json) -> None:
    assert schema_checks.fault(schema) is None
    rewrite = inline_refs(schema)
    assert rewrite.lost == ()
    assert "$ref" not in json.dumps(rewrite.parameters)
    assert inline_refs(rewrite.parameters) == rewrite
    before, after = taker(schema), taker(rewrite.parameters)
    for value in values(schema, rewrite.parameters):
        assert before(value) == after(value), value


@BUDGET
@given(LOOPING)
def test_inlined_schemas_keep_what_has_no_end(schema: Json) -> None:
    rewrite = inline_refs(schema)
    assert rewrite.lost == ()
    assert inline_refs(rewrite.parameters) == rewrite
    before, after = taker(schema), taker(rewrite.parameters)
    for value in values(schema, rewrite.parameters):
        assert before(value) == after(value), value


def opened(schema: Any) -> Any:
    """Without `additionalProperties: false`, which Gemini has no word for: else all is a loss."""
    if isinstance(schema, list):
        return [opened(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: opened(item)
        for key, item in schema.items()
        if key != "additionalProperties" or item is not False
    }


@BUDGET
@given(SCHEMAS | SCHEMAS.map(opened) | LOOPING)
def test_gemini_ready_schemas_take_the_same_values_or_say_so(schema: Json) -> None:
    rewrite = rewrite_for_gemini(schema)
    assert schema_checks.fault(rewrite.parameters) is None
    findings = GEMINI_PLAIN.findings(SentTool("x", "", rewrite.parameters))
    refused = [finding for finding in findings if finding.severity == "refused"]
    still = rewrite.refused
    assert bool(refused) == bool(still)
    assert all("without properties" in text for text in still)
    again = rewrite_for_gemini(rewrite.parameters)
    assert again.parameters == rewrite.parameters
    if not rewrite.lost:
        before, after = taker(told_back(schema)), taker(told_back(rewrite.parameters))
        for value in values(schema, rewrite.parameters):
            assert before(value) == after(value), value


@BUDGET
@given(SCHEMAS | LOOPING, st.sampled_from(["", "anthropic", "openai_chat"]))
def test_strict_ready_schemas_take_the_same_values_or_say_so(schema: Json, protocol: str) -> None:
    rewrite = rewrite_for_strict(schema, protocol)
    assert schema_checks.fault(rewrite.parameters) is None
    sent = SentTool("x", "", rewrite.parameters, strict=True)
    names = (protocol,) if protocol else ("anthropic", "openai_chat")
    refused = [finding for name in names for finding in LIMITS[name].findings(sent)]
    still = rewrite.refused
    assert bool([finding for finding in refused if finding.severity == "refused"]) == bool(still)
    assert rewrite_for_strict(rewrite.parameters, protocol).parameters == rewrite.parameters
    if rewrite.lost:
        return
    before, after = taker(schema), taker(rewrite.parameters)
    for value in values(schema, rewrite.parameters):
        if after(value):
            assert before(restore(schema, value)), value
        if before(value) and restore(schema, value) == value:
            assert any(after(item) for item in filled(schema, schema, value)), value


# What each is for, one by one.


@pytest.mark.parametrize(
    ("schema", "property_", "lost"),
    [
        (closed(x=S), S, ()),
        (closed(x_=S), {"type": ["string", "null"]}, ()),
        (closed(x_={"enum": ["a"]}), {"type": ["string", "null"], "enum": ["a", None]}, ()),
        (closed(x_={**S, "const": "a"}), {"type": ["string", "null"], "enum": ["a", None]}, ()),
        (closed(x_={"anyOf": [S, I]}), {"anyOf": [S, I, NULL]}, ()),
        (closed(x={"oneOf": [S, I]}), {"anyOf": [S, I]}, ()),
        (closed(x={"allOf": [I, {"enum": [1]}]}), {"type": "integer", "enum": [1]}, ()),
        (closed(x={**I, "default": 5}), {**I, "default": 5}, ()),
        (closed(x={**I, "format": "int64"}), {**I, "format": "int64"}, ()),
        (
            closed(x={**I, "minimum": 5, "description": "How many."}),
            {**I, "description": "How many. (minimum: 5)"},
            ("minimum is no longer checked at /properties/x.",),
        ),
        (
            closed(x={"oneOf": [{**S, "enum": ["a", "b"]}, {**S, "enum": ["b"]}]}),
            {"anyOf": [{**S, "enum": ["a", "b"]}, {**S, "enum": ["b"]}]},
            ("A value may match several choices of the former oneOf at /properties/x.",),
        ),
        (
            {**closed(x=S), "additionalProperties": True},
            S,
            ("Unnamed properties are no longer accepted.",),
        ),
    ],
)
def test_what_strict_mode_gets(schema: Json, property_: Json, lost: tuple[str, ...]) -> None:
    rewrite = rewrite_for_strict(schema)
    assert rewrite.parameters == closed(x=property_)
    assert rewrite.lost == lost


def test_null_stands_for_absent_and_is_taken_out_again() -> None:
    schema = closed(a=S, b_=S, c_={"type": ["string", "null"]}, d_=closed(e_=I))
    rewrite = rewrite_for_strict(schema)
    assert rewrite.lost == ()
    assert rewrite.nullable == (
        "/properties/b",
        "/properties/c",
        "/properties/d",
        "/properties/d/properties/e",
    )
    answer = {"a": "x", "b": None, "c": None, "d": {"e": None}}
    assert takes(rewrite.parameters, answer)
    assert restore(schema, answer) == {"a": "x", "c": None, "d": {}}
    assert restore(schema, {"b": "y"}) == {"b": "y"}


def test_a_null_that_one_choice_means_is_left_alone() -> None:
    either = {"anyOf": [closed(x_=S), closed(x=NULL)]}
    assert restore(closed(v=either), {"v": {"x": None}}) == {"v": {"x": None}}


def test_an_openai_schema_keeps_its_bounds() -> None:
    schema = closed(x={**I, "minimum": 5})
    assert rewrite_for_strict(schema, "openai_chat") == Rewrite(schema)


TREE = {**closed(v=LOOP), "$defs": {"tree": closed(up_=LOOP)}}


def test_recursion_is_kept_where_it_is_taken_and_told_where_it_is_not() -> None:
    assert inline_refs(TREE).parameters == TREE
    assert rewrite_for_strict(TREE, "openai_chat").lost == ()
    assert any("refers to itself" in text for text in rewrite_for_strict(TREE, "anthropic").refused)
    cut = rewrite_for_gemini(TREE)
    assert any("refers to itself" in text for text in cut.lost)
    assert "$ref" not in json.dumps(cut.parameters)


def test_what_would_grow_too_large_is_left_alone_and_says_so() -> None:
    definitions: Json = {"d0": closed(**{f"p{n}": S for n in range(10)})}
    for level in range(1, 9):
        definitions[f"d{level}"] = closed(
            **{f"p{n}": {"$ref": f"#/$defs/d{level - 1}"} for n in range(10)}
        )
    schema = {**closed(x={"$ref": "#/$defs/d8"}), "$defs": definitions}
    for rewrite in (inline_refs, rewrite_for_gemini):
        result = rewrite(schema)
        assert result.parameters == schema
        assert result.lost[0].startswith("Nothing was changed")


def test_a_property_named_like_a_keyword_is_no_keyword() -> None:
    schema = closed(**{"$ref": S, "minimum": I, "enum": S, "properties": S, "oneOf": S})
    assert rewrite_for_strict(schema, "openai_chat") == Rewrite(schema)
    assert inline_refs(schema).parameters == schema
    assert set(rewrite_for_gemini(schema).parameters["properties"]) == set(schema["properties"])


@pytest.mark.parametrize(
    ("schema", "property_", "stored"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}, True),
        ({"type": ["string", "integer"]}, {"anyOf": [S, I]}, True),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}, True),
        ({"const": 3}, {"type": "integer", "minimum": 3, "maximum": 3}, True),
        ({**I, "exclusiveMinimum": 3}, {**I, "minimum": 4}, True),
        ({"type": "array"}, {"type": "array", "items": {}}, True),
        (
            {"anyOf": [S, NULL], "description": "d"},
            {**S, "description": "d", "nullable": True},
            True,
        ),
        ({**S, "not": {"const": "a"}}, S, False),
        ({**S, "format": "date-time"}, {**S, "format": "date-time"}, True),
        ({**S, "format": "uri"}, {**S, "description": '(format: "uri")'}, False),
        ({**I, "format": "int64"}, {**I, "format": "int64"}, True),
        ({**I, "format": "uint8"}, {**I, "description": '(format: "uint8")'}, False),
        ({**S, "format": "enum"}, {**S, "description": '(format: "enum")'}, False),
        ({**S, "enum": ["a", ""]}, {**S, "enum": ["a"]}, False),
        ({**S, "items": S, "properties": {"y": S}, "required": ["y"]}, S, True),
        (
            {"properties": {"y": S}, "required": ["y"]},
            {"type": "object", "properties": {"y": S}, "required": ["y"]},
            False,
        ),
        (
            {"type": "array", "items": S, "maxItems": 2000},
            {"type": "array", "items": S, "description": "(maxItems: 2000)"},
            False,
        ),
        (
            {"type": "array", "items": S, "uniqueItems": True},
            {"type": "array", "items": S, "description": "(uniqueItems: true)"},
            False,
        ),
    ],
)
def test_what_gemini_gets(schema: Json, property_: Json, stored: bool) -> None:
    rewrite = rewrite_for_gemini({"type": "object", "properties": {"x": schema}})
    assert rewrite.parameters["properties"]["x"] == property_
    assert (rewrite.lost == ()) == stored


def test_what_is_refused_is_left_out_and_nothing_else() -> None:
    schema = closed(a=LOOKS, b_=PLAIN, c={"anyOf": [LOOKS, NULL]}, d=LONG)
    schema["$defs"] = {"e": {**S, "pattern": r"\p{L}"}, "pattern": PLAIN}
    schema["patternProperties"] = {"(?<!a)b": S, "^x": S}
    stored_data = deepcopy(schema)
    rewrite = rewrite_without_refused(schema)
    answer = {**S, "description": 'A text. (pattern: "^(?=a)b")'}
    assert rewrite.parameters["properties"] == {
        "a": answer,
        "b": PLAIN,
        "c": {"anyOf": [answer, NULL]},
        "d": {"type": "array", "items": PLAIN, "description": "(maxItems: 961)"},
    }
    assert rewrite.parameters["$defs"]["e"] == {**S, "description": r'(pattern: "\\p{L}")'}
    assert rewrite.parameters["patternProperties"] == {"^x": S}
    assert len(rewrite.lost) == 5
    assert schema == stored_data
    assert rewrite_without_refused(schema, ("anthropic",)) == Rewrite(schema)
    assert rewrite_without_refused(schema, ("openai_chat",)).parameters["properties"]["d"] == LONG
    assert rewrite_without_refused(closed(a=PLAIN)) == Rewrite(closed(a=PLAIN))
    again = LIMITS["openai_responses"].findings(SentTool("x", "", rewrite.parameters))
    assert [finding for finding in again if finding.severity == "refused"] == []


def test_rename_when_a_required_name_is_misspelled_takes_the_similar_property() -> None:
    inner = {**closed(street_name=S, city=S), "required": ["streetName", "town"]}
    outer = {**closed(address=inner, zip_code=S), "required": ["zipcode"]}
    change = with_similar_names(outer)
    assert change.parameters["required"] == ["zip_code"]
    assert change.parameters["properties"]["address"]["required"] == ["street_name", "town"]
    assert change.lost == ()


def test_rename_when_two_names_are_alike_takes_a_property_once() -> None:
    schema = {**closed(city_name=S), "required": ["cityName", "city-name"]}
    assert with_similar_names(schema).parameters["required"] == ["city_name", "city-name"]
