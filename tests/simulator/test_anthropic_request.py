"""What Anthropic refuses, and what a sound request is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.core.tools import ToolChoice
from app.simulator.anthropic_request import parse
from app.simulator.end import Asked, BadRequest

HEADERS = {"anthropic-version": "2023-06-01"}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
HI = {"role": "user", "content": "hi"}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
CALL = {"role": "assistant", "content": [USE]}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
BODY: dict[str, Any] = {"model": "m", "max_tokens": 2000, "messages": [HI], "tools": [TOOL]}


def asked(**changes: Any) -> Asked:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return parse(json.dumps(body).encode(), HEADERS)


def history(*content: Any) -> dict[str, Any]:
    return {"messages": [HI, CALL, {"role": "user", "content": list(content)}]}


def schema(value: Any, name: str = "f") -> dict[str, Any]:
    return {"tools": [{"name": name, "input_schema": value}]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": None}, "model: Field required"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "system", "content": "x"}]}, "Input should be 'user'"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "first message must use"),
        ({"messages": [{"role": "user", "content": ""}]}, "non-empty content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]}, "non-empty"),
        ({"messages": [HI, CALL]}, "without `tool_result` blocks immediately after: t1"),
        ({"messages": [HI, CALL, HI]}, "without `tool_result` blocks immediately after: t1"),
        (history({"type": "text", "text": "x"}, RESULT), "immediately after: t1"),
        (history({**RESULT, "tool_use_id": "t2"}), "unexpected `tool_use_id`"),
        (history(RESULT, RESULT), "single result"),
        (history({"type": "tool_result"}), "tool_use_id: Field required"),
        ({"messages": [HI, {"role": "assistant", "content": [{**USE, "input": "{}"}]}]}, "valid"),
        ({"messages": [HI, {"role": "assistant", "content": [USE, USE]}, HI]}, "unique"),
        ({"messages": [{"role": "user", "content": [USE]}]}, "can not be in `user`"),
        (
            {"messages": [HI, {"role": "assistant", "content": [{"type": "thinking"}]}]},
            "signature: Field required",
        ),
        (schema({"type": "object"}, "no spaces"), "should match pattern"),
        (schema({}), "type: Field required"),
        (schema({"type": "string"}), "should be 'object'"),
        (schema({"type": "object", "anyOf": []}), "top level"),
        (schema(True), "valid dictionary"),
        ({"tools": [{"name": "f"}]}, "input_schema: Field required"),
        ({"tools": [TOOL, TOOL]}, "must be unique"),
        ({"tool_choice": {"type": "tool", "name": "g"}}, "'g' not found"),
        ({"tool_choice": {"type": "required"}}, "Input tag"),
        ({"tool_choice": {"type": "auto"}, "tools": None}, "while providing tools"),
        ({"tool_choice": {"type": "none", "disable_parallel_tool_use": True}}, "not permitted"),
        ({"thinking": {"type": "enabled", "budget_tokens": 100}}, "1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 3000}}, "must be greater"),
        ({"thinking": {"type": "adaptive"}, "tool_choice": {"type": "any"}}, "forces tool use"),
        ({"temperature": 1.5}, "temperature"),
        ({"stream": "yes"}, "valid boolean"),
        ({"top_q": 1}, "top_q: Extra inputs"),
    ],
)
def test_refusals(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as told:
        asked(**changes)
    assert words in str(told.value)
    assert (told.value.status, told.value.kind) == (400, "invalid_request_error")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="Send"):
        parse(body, HEADERS)


def test_the_version_header_is_needed() -> None:
    with pytest.raises(BadRequest, match="anthropic-version"):
        parse(json.dumps(BODY).encode(), {})


@pytest.mark.parametrize(
    ("choice", "read"),
    [
        (None, ToolChoice()),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(parallel=False)),
        ({"type": "any"}, ToolChoice("required")),
        ({"type": "tool", "name": "f"}, ToolChoice("tool", "f")),
        ({"type": "none"}, ToolChoice("none")),
    ],
)
def test_choices(choice: Any, read: ToolChoice) -> None:
    assert asked(tool_choice=choice).request.choice == read


def test_a_history_is_read_with_its_results() -> None:
    image = {"type": "image", "source": {}}
    failed = {**RESULT, "content": [{"type": "text", "text": "no"}, image], "is_error": True}
    found = asked(**history(failed, {"type": "text", "text": "go on"})).request.messages
    assert [message.role for message in found] == ["user", "assistant", "results", "user"]
    result = found[2].parts[0]
    assert result.is_error
    assert [piece.type for piece in result.content] == ["text", "image"]
    server_tool = {"type": "web_search_20250305", "name": "web_search"}
    assert [tool.name for tool in asked(tools=[TOOL, server_tool]).request.tools] == ["f"]
