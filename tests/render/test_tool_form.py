"""The editor's fields: a tool that nobody touched is the same tool, whatever its config holds."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playground.core.errors import BadTool
from playground.core.serialization import to_data
from playground.core.tools import ANSWERED_BY, Tool
from playground.web.tools.editor import ToolForm, field_of, parameters_of, tool_data, tool_form

KEYS = (
    *("result", "is_error", "delay_s", "failure_rate", "failure", "sequence", "cases", "sample"),
    *("file", "function", "interpreter", "code", "method", "url", "headers", "body", "private"),
    "keep",
    *("parameters", "hosts", "server", "tool", "annotations", "output_schema", "x"),
)
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    # Half a character is refused in what is saved.
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
    ),
    max_leaves=5,
)
MORE = ("\r\n", " ", "\n", "{", " {} ", '{"a": 1}', "[1]", " x ", "5", "{{city}}")
CONFIGS = st.dictionaries(st.sampled_from(KEYS), ANY | st.sampled_from(MORE), max_size=5)

STYLED: dict[str, Any] = {
    "parameters": [
        {"in": "query", "name": "t", "explode": False},
        {"in": "cookie", "name": "sid", "value": "${SID_KEY}"},
        {"in": "body", "name": "f", "file": True, "headers": {"X": "1"}},
    ]
}


@given(st.sampled_from(ANSWERED_BY), CONFIGS)
@example("mock", {"result": " "})
@example("mock", {"result": '{"a": 1}'})
@example("mock", {"result": 5, "is_error": False})
@example("python", {"code": "\n"})
def test_nothing_of_a_config_is_lost(kind: Any, config: dict[str, Any]) -> None:
    tool = Tool("t", answered_by=kind, config=config)
    result = tool_data(tool_form(tool), tool.parameters)["config"]
    if kind == "mock" and not {"result", "sequence", "cases", "sample"} & set(config):
        config = {**config, "result": ""}  # a mock has one
    if kind == "http":
        result = {"method": "GET"} | result
        config = {"method": "GET"} | config  # and a request its method
    assert json.dumps(result, sort_keys=True) == json.dumps(config, sort_keys=True)


@pytest.mark.parametrize(
    "tool",
    [
        Tool("t", "d\n", {"type": "object"}, "python", {"file": "/f.py", "function": "g"}),
        Tool("t", group="g", strict=True, eager=True, parallel_safe=True, timeout_s=1.23456789),
        Tool("t", extra={"anthropic": {"defer_loading": True}}),
        Tool("t", answered_by="http", config={"method": "POST", "url": "https://a.b/{c}"}),
        Tool("t", answered_by="http", config={"method": "COPY", "url": "https://a.b", **STYLED}),
    ],
)
def test_a_tool_is_the_same_after_its_form(tool: Tool) -> None:
    form = tool_form(tool)
    data = tool_data(form, parameters_of(form.parameters))
    config = dict(tool.config) or {"result": ""}
    assert {**data, "format": None} == {**to_data(tool), "config": config}


@pytest.mark.parametrize(
    ("typed", "pointer", "message"),
    [
        ({"delay_s": "soon"}, "/config/delay_s", "not a number"),
        ({"result": "{", "result_as": "json"}, "/config/result", "not valid JSON"),
        ({"rest_mock": "["}, "/config/rest_mock", "JSON"),
        ({"rest_mock": '{"result": 1}', "result": "x"}, "/config/rest_mock", "set twice"),
        ({"answered_by": "http", "headers": "x"}, "/config/headers", "Name: value"),
        ({"answered_by": "http", "http_parameters": "["}, "/config/parameters", "not valid JSON"),
        ({"answered_by": "http", "headers": "a: 1\r\na: 2"}, "/config/headers", "twice"),
        ({"answered_by": "person", "output_schema": "{"}, "/config/output_schema", "Line 1"),
        ({"timeout_s": "long"}, "/timeout_s", "not a number of seconds"),
        ({"takes": "lark"}, "/definition", "Enter the grammar"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(
    typed: dict[str, str], pointer: str, message: str
) -> None:
    with pytest.raises(BadTool, match=message) as exception_info:
        tool_data(replace(ToolForm(name="t"), **typed), {"type": "object"})  # type: ignore[arg-type]
    assert exception_info.value.pointer == pointer


@pytest.mark.parametrize(
    "result", ['{"a": 1}', "[]", "{", "plain", 5, 1.0, True, None, {"a": 1}, ["x"], 10**30]
)
def test_any_result_of_a_mock_stands_in_its_field(result: Any) -> None:
    form = tool_form(Tool("t", config={"result": result}))
    assert form.result.strip()
    assert form.rest_mock == ""
    built = tool_data(form, {"type": "object"})["config"]
    assert json.dumps(built) == json.dumps({"result": result})


@pytest.mark.parametrize(
    ("pointer", "kind", "field"),
    [
        ("/config/tool", "mcp", "server_tool"),
        ("/config/url", "http", "url"),
        ("/config/cases/0", "mock", "rest_mock"),
        ("/config/parameters/0/in", "http", "http_parameters"),
        ("/parameters/properties/x", "mock", "parameters"),
        ("/definition", "mock", "definition"),
        ("/format", "mock", ""),
        ("", "mock", ""),
    ],
)
def test_each_place_has_its_field(pointer: str, kind: str, field: str) -> None:
    assert field_of(pointer, kind) == field
