"""What OpenAI refuses, and what a sound request is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.tools import FREEFORM, ToolChoice
from playground.protocols.openai_chat.server import parse
from playground.protocols.server import BadRequest, ParsedRequest

TOOL = {"type": "function", "function": {"name": "f"}}
HI = {"role": "user", "content": "hi"}
USE = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALL = {"role": "assistant", "content": None, "tool_calls": [USE]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
BODY: dict[str, Any] = {"model": "m", "messages": [HI], "tools": [TOOL]}

AUDIO = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
LARK = {"syntax": "lark", "definition": "start: /a+/"}

CLOSED = {"type": "object", "properties": {"x": {}}, "additionalProperties": False}


def parse_request(**changes: Any) -> ParsedRequest:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return parse(json.dumps(body).encode(), {})


def function(**changes: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **changes}}]}


def using(**changes: Any) -> dict[str, Any]:
    call = {**USE, "function": {**USE["function"], **changes}}  # type: ignore[dict-item]
    return {"messages": [HI, {"role": "assistant", "tool_calls": [call]}, RESULT]}


def long_id(length: int, model: str = "gpt-5.4") -> dict[str, Any]:
    """A history with a call whose id has this length."""
    call = {**CALL, "tool_calls": [{**USE, "id": "c" * length}]}
    return {"model": model, "messages": [HI, call, {**RESULT, "tool_call_id": "c" * length}]}


def result_with(*content: Any) -> dict[str, Any]:
    return {**RESULT, "content": list(content)}


def picture(url: str) -> dict[str, Any]:
    image = {"type": "image_url", "image_url": {"url": url}}
    return {"messages": [{"role": "user", "content": [image]}]}


def nested(schema: Any) -> dict[str, Any]:
    closed = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    return {**closed, "additionalProperties": False}


def custom(**changes: Any) -> dict[str, Any]:
    return {"tools": [{"type": "custom", "custom": {"name": "g", **changes}}]}


def formed(**form: Any) -> dict[str, Any]:
    return {"response_format": form}


def schema(written: Any, **more: Any) -> dict[str, Any]:
    format_fields = {"name": "n", "schema": written, "strict": True, **more}
    return formed(type="json_schema", json_schema=format_fields)


@pytest.mark.parametrize(
    ("changes", "words", "param"),
    [
        ({"model": None}, "model parameter", None),
        ({"messages": None}, "Missing required parameter: 'messages'", "messages"),
        ({"messages": []}, "empty array", "messages"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "Invalid value: 'bot'", None),
        ({"messages": [{"role": "user"}]}, "got null", "messages[0].content"),
        ({"messages": [HI, RESULT]}, "must be a response to a preceeding", "messages[1].role"),
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
        (
            function(parameters={"type": "object", "properties": {}}, strict=True),
            "additionalProperties",
            None,
        ),
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
        ({"stream": 0}, "expected a boolean, but got a number", "stream"),
        (
            {"messages": [HI, {"role": "assistant", "content": {}, "refusal": "no"}]},
            "but got an object",
            "messages[1].content",
        ),
        ({"max_tokens": 0}, "below minimum", "max_tokens"),
        ({"max_tokens": "9"}, "expected an integer, but got a string", "max_tokens"),
        (long_id(41, "gpt-4o"), "length 40, but got", "messages[1].tool_calls[0].id"),
        (long_id(65), "maximum length 64, but got", "messages[1].tool_calls[0].id"),
        ({"top_k": 1}, "Unrecognized request argument supplied: top_k", "top_k"),
        ({"messages": [HI, CALL, {**RESULT, "tool_call_id": "c9"}]}, "'c9' not found in", None),
        ({"messages": [HI, CALL, result_with(AUDIO)]}, "either text or image_url type", None),
        ({"messages": [{"role": "user", "content": [AUDIO]}]}, "'input_audio' is not", None),
        (picture("data:image/bmp;base64,aGk="), "unsupported image", None),
        (picture("data:image/png;base64,hi!"), "Invalid base64 image_url", None),
        (picture("ftp://example.invalid/a.png"), "Expected a valid URL", None),
        (function(parameters=nested(CLOSED), strict=True), "In context=('properties', 'x')", None),
        (function(parameters=nested({"type": "object"}), strict=True), "'additionalProp", None),
        (function(strict="yes"), "expected a boolean", "tools[0].function.strict"),
        ({"model": "o4-mini", "max_tokens": 9}, "Use 'max_completion_tokens'", "max_tokens"),
        ({"model": "gpt-5", "temperature": 0.5}, "Only the default (1)", "temperature"),
        ({"n": 0}, "below minimum", "n"),
        ({"n": 500}, "above maximum", "n"),
        ({"top_logprobs": 3}, "only allowed when 'logprobs'", "top_logprobs"),
        ({"reasoning_effort": "lots"}, "Invalid value: 'lots'", "reasoning_effort"),
        (custom(format={"type": "xml"}), "'text' and 'grammar'", None),
        (custom(format={"type": "grammar"}), "format.grammar", None),
        (
            custom(format={"type": "grammar", "grammar": {"syntax": "ebnf", "definition": "x"}}),
            "'lark' and 'regex'",
            None,
        ),
        ({"functions": [{"name": "f"}], "function_call": {"name": "g"}}, "'g' is not in", None),
        (formed(type="json"), "'json_object', 'json_schema', and 'text'", "response_format.type"),
        (formed(type="json_object"), "must contain the word 'json'", "messages"),
        (formed(type="json_schema"), "Missing", "response_format.json_schema"),
        (schema({"type": "object"}, name=""), "does not match", None),
        (
            schema({"type": "object", "properties": {}}),
            "Invalid schema for response_format 'n'",
            None,
        ),
        (schema({"type": "array"}, strict=False), "must be a JSON Schema of 'type: \"obj", None),
        ({"functions": [{"name": "no spaces"}]}, "does not match pattern", "functions[0].name"),
    ],
)
def test_refusals(changes: dict[str, Any], words: str, param: str | None) -> None:
    with pytest.raises(BadRequest) as exception_info:
        parse_request(**changes)
    assert words in str(exception_info.value)
    assert exception_info.value.status == 400
    assert exception_info.value.source
    if param is not None:
        assert exception_info.value.param == param


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
    assert parse_request(tool_choice=choice).request.choice == read
    assert not parse_request(parallel_tool_calls=False).request.choice.parallel


def test_a_history_is_read_with_its_results() -> None:
    calls = {**CALL, "tool_calls": [USE, {**USE, "id": "c2"}]}
    failed = {**RESULT, "tool_call_id": "c2", "content": "Error: no"}
    system = {"role": "developer", "content": "Be kind."}
    request = parse_request(messages=[system, HI, calls, failed, RESULT]).request
    assert request.system == "Be kind."
    assert [message.role for message in request.messages] == ["user", "assistant", "results"]
    assert [(p.call_id, p.is_error) for p in request.messages[-1].parts] == [
        ("c2", True),
        ("c1", False),
    ]
    assert parse_request(stream=True, stream_options={"include_usage": True}).include_usage


def test_a_free_form_tool_its_choice_and_its_history() -> None:
    form = {"type": "grammar", "grammar": LARK}
    used = {"id": "c1", "type": "custom", "custom": {"name": "g", "input": 'say "a"'}}
    read = parse_request(
        **custom(format=form),
        tool_choice={"type": "custom", "custom": {"name": "g"}},
        messages=[HI, {"role": "assistant", "tool_calls": [used]}, RESULT],
    ).request
    assert read.tools[0].format == {"type": "grammar", **LARK}
    assert read.tools[0].parameters == FREEFORM
    assert read.choice == ToolChoice("tool", "g")
    assert json.loads(read.messages[1].parts[0].text) == {"input": 'say "a"'}


def test_the_older_dialect_of_functions() -> None:
    called = {
        "role": "assistant",
        "content": None,
        "function_call": {"name": "f", "arguments": "{}"},
    }
    answer = {"role": "function", "name": "f", "content": "ok"}
    read = parse_request(
        tools=None, functions=[{"name": "f"}], messages=[HI, called, answer]
    ).request
    assert [tool.name for tool in read.tools] == ["f"]
    assert [message.role for message in read.messages] == ["user", "assistant", "results"]
    assert read.messages[2].parts[0].call_id == read.messages[1].parts[0].call_id
    assert read.params["legacy"]


@pytest.mark.parametrize(
    "changes",
    [
        long_id(40, "gpt-4o"),
        long_id(64),
        {"moderation": {}, "prompt_cache_options": {}},
        {"reasoning_effort": "max"},
        {"model": "gpt-4o-audio-preview", "messages": [{"role": "user", "content": [AUDIO]}]},
    ],
)
def test_what_is_accepted(changes: dict[str, Any]) -> None:
    assert parse_request(**changes).request.messages


def test_images_in_prompts_and_results() -> None:
    url = "data:image/png;base64,aGk="
    image = {"type": "image_url", "image_url": {"url": url}}
    history = [*picture(url)["messages"], CALL, result_with({"type": "text", "text": "see"}, image)]
    prompt, _, results = parse_request(messages=history).request.messages
    assert (prompt.parts[0].kind, prompt.parts[0].content[0].data) == ("image", "aGk=")
    assert [piece.type for piece in results.parts[0].content] == ["text", "image"]
