"""What OpenAI refuses, and what a sound request is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.core.tools import ToolChoice
from app.simulator.end import Asked, BadRequest
from app.simulator.openai_chat_request import parse

TOOL = {"type": "function", "function": {"name": "f"}}
HI = {"role": "user", "content": "hi"}
USE = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALL = {"role": "assistant", "content": None, "tool_calls": [USE]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
BODY: dict[str, Any] = {"model": "m", "messages": [HI], "tools": [TOOL]}


def asked(**changes: Any) -> Asked:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return parse(json.dumps(body).encode(), {})


def function(**changes: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **changes}}]}


def using(**changes: Any) -> dict[str, Any]:
    call = {**USE, "function": {**USE["function"], **changes}}  # type: ignore[dict-item]
    return {"messages": [HI, {"role": "assistant", "tool_calls": [call]}, RESULT]}


CLOSED = {"type": "object", "properties": {"x": {}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("changes", "words", "param"),
    [
        ({"model": None}, "model parameter", None),
        ({"messages": None}, "Missing required parameter: 'messages'", "messages"),
        ({"messages": []}, "empty array", "messages"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "Invalid value: 'bot'", None),
        ({"messages": [{"role": "user"}]}, "got null", "messages[0].content"),
        ({"messages": [HI, RESULT]}, "must be a response to a preceding", "messages[1].role"),
        ({"messages": [HI, CALL]}, "did not have response messages: c1", "messages"),
        ({"messages": [HI, CALL, HI]}, "did not have response messages: c1", "messages"),
        ({"messages": [HI, CALL, RESULT, RESULT]}, "must be a response", "messages[3].role"),
        ({"messages": [HI, {"role": "assistant", "content": None}]}, "expected a string", None),
        ({"messages": [HI, {"role": "assistant", "tool_calls": []}]}, "expected a string", None),
        (using(arguments={}), "expected a string, but got an object", None),
        (using(name="no spaces"), "does not match pattern", None),
        (function(name="no spaces"), "does not match pattern", "tools[0].function.name"),
        (function(name="f" * 65), "string too long", "tools[0].function.name"),
        (function(parameters={"type": "string"}), "got 'type: \"string\"'", None),
        (function(parameters={"properties": {}}), "got 'type: \"None\"'", None),
        (function(parameters={"type": "object"}, strict=True), "additionalProperties", None),
        (function(parameters=CLOSED, strict=True), "Missing 'x'", None),
        ({"tools": []}, "empty array", "tools"),
        ({"tools": [TOOL] * 129}, "array too long", "tools"),
        ({"tools": [{"type": "tool"}]}, "'function' and 'custom'", "tools[0].type"),
        ({"tools": [{}]}, "Missing required parameter", "tools[0].type"),
        ({"tool_choice": "f"}, "Invalid value: 'f'", "tool_choice"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "g"}}},
            "'g' is not in 'tools'",
            "tool_choice",
        ),
        ({"tool_choice": "auto", "tools": None}, "only allowed when 'tools'", "tool_choice"),
        ({"parallel_tool_calls": True, "tools": None}, "only allowed when 'tools'", None),
        ({"stream_options": {}}, "only allowed when 'stream'", "stream_options"),
        ({"max_tokens": 0}, "below minimum", "max_tokens"),
        ({"max_tokens": "9"}, "expected an integer, but got a string", "max_tokens"),
        ({"top_k": 1}, "Unrecognized request argument supplied: top_k", "top_k"),
    ],
)
def test_refusals(changes: dict[str, Any], words: str, param: str | None) -> None:
    with pytest.raises(BadRequest) as told:
        asked(**changes)
    assert words in str(told.value)
    assert told.value.status == 400
    if param is not None:
        assert told.value.param == param


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, ToolChoice()),
        ("auto", ToolChoice()),
        ("required", ToolChoice("required")),
        ("none", ToolChoice("none")),
        ({"type": "function", "function": {"name": "f"}}, ToolChoice("tool", "f")),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TOOL]}},
            ToolChoice("required", allowed=("f",)),
        ),
    ],
)
def test_choices(choice: Any, read: ToolChoice) -> None:
    assert asked(tool_choice=choice).request.choice == read
    assert not asked(parallel_tool_calls=False).request.choice.parallel


def test_a_history_is_read_with_its_results() -> None:
    calls = {**CALL, "tool_calls": [USE, {**USE, "id": "c2"}]}
    failed = {**RESULT, "tool_call_id": "c2", "content": "Error: no"}
    system = {"role": "developer", "content": "Be kind."}
    found = asked(messages=[system, HI, calls, failed, RESULT]).request
    assert found.system == "Be kind."
    assert [message.role for message in found.messages] == ["user", "assistant", "results"]
    assert [(p.call_id, p.is_error) for p in found.messages[-1].parts] == [
        ("c2", True),
        ("c1", False),
    ]
    assert asked(stream=True, stream_options={"include_usage": True}).include_usage
