"""A tool as Python and back: nothing is lost that is not named."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.errors import BadTool
from playground.core.serialization import to_data
from playground.core.tools import FREEFORM, Tool
from playground.exchange.python_signature import python_source, tool_from
from playground.executors.examples import EXAMPLES

SAID: list[tuple[Any, str]] = [
    ({"type": "string"}, "x: str"),
    ({"type": "integer"}, "x: int"),
    ({"type": "number"}, "x: float"),
    ({"type": "boolean"}, "x: bool"),
    ({"type": "null"}, "x: None"),
    ({}, "x: Any"),
    ({"type": "array"}, "x: list"),
    ({"type": "array", "items": {"type": "integer"}}, "x: list[int]"),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "x: set[str]"),
    ({"type": "object"}, "x: dict"),
    ({"type": "object", "additionalProperties": {"type": "number"}}, "x: dict[str, float]"),
    ({"type": "string", "enum": ["a", "b"]}, 'x: Literal["a", "b"]'),
    ({"enum": ["a", 1, None]}, 'x: Literal["a", 1, None]'),
    ({"enum": [1, 2]}, "x: Literal[1, 2]"),
    ({"const": "a"}, 'x: Literal["a"]'),
    ({"type": ["string", "null"]}, "x: str | None"),
    ({"type": ["string", "integer"]}, "x: str | int"),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "x: str | int"),
    ({"type": "integer", "minimum": 5}, "x: Annotated[int, Field(ge=5)]"),
    ({"type": "number", "exclusiveMinimum": 0.5}, "x: Annotated[float, Field(gt=0.5)]"),
    ({"type": "string", "pattern": "^a\\d$"}, 'x: Annotated[str, Field(pattern="^a\\\\d$")]'),
    ({"type": "string", "maxLength": 3}, "x: Annotated[str, Field(max_length=3)]"),
    ({"type": "string", "format": "date-time"}, "x: datetime"),
    ({"type": "string", "description": "one\ntwo"}, 'Field(description="one\\ntwo")'),
    ({"type": "integer", "default": 3}, "x: Annotated[int, Field(default=3)]"),
]

NAMES = st.sampled_from(["a", "b", "city", "date", "Context", "type", "str"])
TEXTS = st.text(st.sampled_from("ab \n\"\\'é:\u202e"), max_size=8)
PLAIN = st.one_of(
    st.sampled_from([{"type": "string"}, {"type": "boolean"}, {}, {"type": "null"}]),
    st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-9, 9)),
    st.builds(lambda text: {"type": "string", "pattern": text}, TEXTS),
    st.builds(lambda text: {"type": "string", "description": text}, TEXTS),
    st.builds(lambda text: {"type": "string", "default": text}, TEXTS),
    st.builds(lambda values: {"enum": values}, st.lists(TEXTS | st.integers(), min_size=1)),
    st.sampled_from([{"type": "string", "format": "x"}, {"not": {}}, {"const": None}]),
)
SCHEMAS = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.builds(lambda item: {"type": "array", "items": item}, inner),
        st.builds(lambda item, two: {"anyOf": [item, two]}, inner, inner),
        st.builds(
            lambda members, needed: {
                "type": "object",
                "properties": members,
                "required": sorted(needed & set(members)),
            },
            st.dictionaries(NAMES, inner, max_size=3),
            st.sets(NAMES),
        ),
    ),
    max_leaves=6,
)


def tool(properties: dict[str, Any], *required: str, **more: Any) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": list(required), **more}
    return Tool("plan", "Plan it.", parameters)


def with_one(schema: Any, *required: str, **more: Any) -> Tool:
    return tool({"x": schema}, *required, **more)


@pytest.mark.parametrize(("schema", "words"), SAID)
def test_what_python_can_say_is_said_and_comes_back(schema: Any, words: str) -> None:
    tool = with_one(schema, "x")
    text = python_source(tool)
    assert text.lossy == ()
    assert words in text.source
    assert tool_from(text.source, tool) == tool
    assert tool_from(text.source, Tool("other")).parameters["properties"].keys() == {"x"}


@pytest.mark.parametrize(
    ("schema", "argument"),
    [
        ({"type": "boolean"}, "x: bool | None = None"),
        ({"type": "boolean", "default": True}, "x: bool = True"),
        ({"type": ["string", "null"]}, "x: str | None = None"),
        ({"type": ["string", "integer"]}, "x: str | int | None = None"),
        ({"type": "integer", "minimum": 5}, "x: Annotated[int, Field(ge=5)] | None = None"),
        ({"type": "string", "description": "a\nb"}, " | None = None"),
        ({"enum": ["a", None]}, 'x: Literal["a", None] = None'),
        ({"enum": ["a", "b"]}, 'x: Literal["a", "b"] | None = None'),
        ({"type": "object", "properties": {"at": {"type": "string"}}}, "x: X | None = None"),
        ({"type": "null"}, "x: None = None"),
        ({}, "x: Any = None"),
    ],
)
def test_what_may_be_left_out_has_a_type_that_takes_none(schema: Any, argument: str) -> None:
    optional = with_one(schema)
    text = python_source(optional)
    assert text.lossy == ()
    assert argument in text.source
    assert tool_from(text.source, optional) == optional
    if "x: bool | None" in text.source:
        edited = tool_from(text.source.replace("bool", "int"), optional)
        assert edited.parameters["properties"] == {"x": {"type": "integer"}}
        added = tool_from(text.source.replace("None):", "None, y: int | None = None):"), optional)
        assert added.parameters["properties"]["y"] == {"type": ["integer", "null"]}


@pytest.mark.parametrize(
    "item",
    [
        *EXAMPLES,
        Tool("get-weather", "Has a name that is no identifier."),
        Tool("class"),
        Tool("_hidden"),
        Tool("quiet", 'Ends with a "quote"'),
        Tool("odd", 'back\\slash, """three""", tab\tand \u202e'),
        with_one({"type": "string"}),
        with_one({"type": "integer", "default": 30}),
        with_one(
            {"type": "string", "description": "What: is it?"}, "x", additionalProperties=False
        ),
        tool({"a": {"type": "integer", "default": 1}, "b": {"type": "string"}}, "b"),
        tool(
            {
                "place": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string"},
                        "floor": {"type": "integer", "minimum": 0},
                    },
                    "required": ["city"],
                    "description": "Where.",
                },
                "stops": {"type": "array", "items": {"$ref": "#/$defs/Stop"}},
            },
            **{"$defs": {"Stop": {"type": "object", "properties": {"at": {"type": "string"}}}}},
        ),
    ],
)
def test_tools_without_a_loss_come_back_equal(item: Tool) -> None:
    text = python_source(item)
    assert text.lossy == ()
    back = tool_from(text.source, item)
    assert back == item
    assert json.dumps(to_data(back)) == json.dumps(to_data(item))


@pytest.mark.parametrize(
    ("item", "word"),
    [
        (with_one({"oneOf": [{"type": "string"}]}), "/properties/x/oneOf"),
        (with_one({"type": "string", "contentEncoding": "base64"}), "contentEncoding"),
        (with_one({"type": "string", "format": "hostname"}), "/properties/x/format"),
        (with_one({"type": "object", "properties": {}, "additionalProperties": False}), "x/additi"),
        (with_one({"type": "object", "minProperties": 2}), "minProperties"),
        (with_one({"$ref": "#"}), "refers to itself (#)"),
        (tool({"b/c": {"type": "string"}}), "b~1c"),
        (tool({"class": {"type": "string"}}), "/properties/class"),
        (with_one({}, dependentRequired={"x": ["y"]}), "dependentRequired"),
        (with_one({}, additionalProperties={"type": "string"}), "additionalProperties"),
        (
            replace(Tool("t", "Does it.\n\nArgs:\n    x: What."), parameters={"type": "object"}),
            "list",
        ),
        (Tool("t", parameters=FREEFORM, format={"type": "text"}), "free-form"),
    ],
)
def test_what_it_cannot_say_is_named(item: Tool, word: str) -> None:
    text = python_source(item)
    assert any(word in sentence for sentence in text.lossy), text
    ast.parse(text.source)


def test_an_edit_changes_what_was_edited_and_nothing_else() -> None:
    item = tool(
        {"a": {"enum": ["x", "y"]}, "b": {"type": "string"}}, "b", additionalProperties=False
    )
    source = python_source(item).source.replace("b: str", "b: int").replace("Plan it.", "Plan all.")
    result = tool_from(source.replace("def plan", "def plan_all"), item)
    assert (result.name, result.description) == ("plan_all", "Plan all.")
    assert result.parameters == {
        "type": "object",
        "properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "integer"}},
        "required": ["b"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f(:\n", "Line 1"),
        ("\n\ndef f(x: str):\n  return (\n", "Line 4"),
        ("x = 1", "no function"),
        ("def f():\n    ...\n\ndef g():\n    ...\n", "Line 4: a second one"),
        ("\ndef f(x: Strnig):\n    ...\n", "Line 2"),
        ("def f(x, /):\n    ...\n", "Line 1"),
        ("def f(x):\n    ...\n", "no type"),
        ("a" * 600_000, "is not supported"),
    ],
)
def test_what_is_no_tool_is_told_with_its_line(source: str, words: str) -> None:
    with pytest.raises(BadTool, match=words):
        tool_from(source, Tool("plan"))


@pytest.mark.timeout(20)
def test_refs_that_multiply_are_bounded() -> None:
    member = {"$ref": "#/$defs/a"}
    defs = {"a": {"type": "object", "properties": {f"m{n}": member for n in range(50)}}}
    tool = with_one(member, **{"$defs": defs})
    assert python_source(tool).lossy


@given(st.dictionaries(NAMES, SCHEMAS, max_size=3), st.sets(NAMES), TEXTS)
def test_any_tool_comes_back_equal_or_its_losses_are_named(
    properties: dict[str, Any], needed: set[str], description: str
) -> None:
    required = sorted(needed & set(properties))
    item = replace(tool(properties, *required), description=description)
    text = python_source(item)
    back = tool_from(text.source, item)
    assert back == item
    if not text.lossy:  # a stranger who knows the text alone reads the same values
        read = tool_from(text.source, Tool("stranger"))
        assert sorted(read.parameters.get("required", [])) == required
        assert read.parameters.get("properties", {}).keys() == properties.keys()


def test_a_schema_that_refers_to_itself_is_one_sentence() -> None:
    person = {"type": "object", "properties": {"boss": {"$ref": "#/$defs/P"}}}
    parameters = {"type": "object", "properties": {"a": person}, "$defs": {"P": person}}
    text = python_source(Tool("f", "Told.", parameters))
    assert text.lossy == (
        "The schema refers to itself (#/$defs/P): Python shows only a part of it.",
    )
