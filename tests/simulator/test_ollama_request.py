"""What Ollama refuses, which is little, and what a request is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.tools import ToolChoice
from playground.protocols.ollama.server import answer_body, frames, parse
from playground.protocols.server import BadRequest, IdSource, ModelReply, ParsedRequest, ReplyBlock

TOOL = {"type": "function", "function": {"name": "f"}}
HI = {"role": "user", "content": "hi"}
USE = {"function": {"name": "f", "arguments": {"x": 1}}}
CALL = {"role": "assistant", "content": "", "tool_calls": [USE]}
BODY: dict[str, Any] = {"model": "m", "messages": [HI], "tools": [TOOL]}


def parse_request(**changes: Any) -> ParsedRequest:
    body = {key: value for key, value in {**BODY, **changes}.items() if value is not None}
    return parse(json.dumps(body).encode(), {})


def function(**changes: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": {"name": "f", **changes}}]}


def using(**changes: Any) -> dict[str, Any]:
    call = {"function": {**USE["function"], **changes}}
    return {"messages": [HI, {**CALL, "tool_calls": [call]}]}


@pytest.mark.parametrize(
    ("changes", "words", "status"),
    [
        ({"model": None}, "model is required", 400),
        ({"model": 7}, "cannot unmarshal number into Go struct field ChatRequest.model", 400),
        ({"stream": "yes"}, "cannot unmarshal string", 400),
        ({"model": "m-no-tools"}, "m-no-tools does not support tools", 400),
        ({"model": "m-no-thinking", "think": True}, "does not support thinking", 400),
        ({"think": "much"}, 'invalid think value: "much"', 400),
        ({"top_logprobs": 21}, "top_logprobs must be between 0 and 20", 400),
        ({"options": {"temperature": "hot"}}, '"temperature" must be of type float32', 500),
        ({"options": {"num_ctx": "8k"}}, '"num_ctx" must be of type integer', 500),
        ({"options": {"stop": "E"}}, '"stop" must be of type array', 500),
        ({"options": {"stop": [1]}}, '"stop" must be of an array of strings', 500),
        ({"options": []}, "ChatRequest.options", 400),
        ({"format": "xml"}, 'invalid format: "xml"', 500),
        ({"messages": {}}, "[]api.Message", 400),
        ({"messages": [7]}, "api.Message", 400),
        ({"messages": [{"role": "user", "content": []}]}, "messages.content of type string", 400),
        ({"messages": [{**HI, "images": "aGk="}]}, "[]api.ImageData", 400),
        ({"messages": [{**HI, "images": ["no base64!"]}]}, "illegal base64 data", 400),
        (using(arguments='{"x": 1}'), "cannot unmarshal string", 400),
        ({"messages": [HI, {**CALL, "tool_calls": [7]}]}, "api.ToolCall", 400),
        ({"messages": [HI, {**CALL, "tool_calls": [{}]}]}, "ToolCallFunction", 400),
        ({"tools": {}}, "api.Tools", 400),
        ({"tools": [7]}, "api.Tool", 400),
        (function(parameters=[]), "ToolFunctionParameters", 400),
        (function(parameters={"type": ["object"]}), "parameters.type of type string", 400),
        (function(parameters={"required": [1]}), "parameters.required", 400),
        (function(parameters={"properties": {"x": True}}), "api.ToolProperty", 400),
    ],
)
def test_what_is_refused_says_where_that_is_known_from(
    changes: dict[str, Any], words: str, status: int
) -> None:
    with pytest.raises(BadRequest) as refused:
        parse_request(**changes)
    assert words in str(refused.value)
    assert refused.value.status == status
    assert refused.value.source.startswith("https://github.com/")


@pytest.mark.parametrize("body", [b"", b" \n", b"{", b"[]"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        parse(body, {})


def test_what_others_refuse_it_takes() -> None:
    odd = [
        {"role": "assistant", "content": "first"},
        {"role": "tool", "content": "of no call"},
        CALL,
        {"role": "critic", "content": "who?"},
        {},
    ]
    read = parse_request(messages=odd, unknown=1, options={"no_such": "x", "seed": None}).request
    assert [m.role for m in read.messages] == ["assistant", "results", "assistant", "user", "user"]
    assert read.choice == ToolChoice()


def test_a_sound_request_is_read_whole() -> None:
    result = {"role": "tool", "tool_name": "f", "content": "Error: no"}
    image_message = {"role": "user", "content": "see", "images": ["aGk="]}
    system = {"role": "system", "content": "Be brief."}
    request = parse_request(
        messages=[system, image_message, {**CALL, "thinking": "hm", "content": "a"}, result],
        options={"num_predict": 7, "temperature": 0},
        think="low",
    ).request
    assert request.system == "Be brief."
    data = {"max_tokens": 7, "thinking": True, "load": False, "format": None}
    assert request.params == data
    assert request.stream  # unless it is told otherwise
    assert not parse_request(stream=False).request.stream
    prompt, turn, results = request.messages
    assert [part.kind for part in prompt.parts] == ["image", "text"]
    assert [(part.kind, part.text) for part in turn.parts] == [
        ("thinking", "hm"),
        ("text", "a"),
        ("call", '{"x":1}'),
    ]
    (answer,) = results.parts
    assert (answer.call_id, answer.name, answer.is_error) == (turn.parts[2].call_id, "f", True)
    assert parse_request(options={"num_predict": -1}).request.params["max_tokens"] is None


@pytest.mark.parametrize(
    ("result_fields", "paired"),
    [
        ([{"tool_call_id": "b"}, {"tool_call_id": "a"}], ["b", "a"]),
        ([{"tool_name": "g"}, {"tool_name": "f"}], ["b", "a"]),
        ([{}, {}], ["a", "b"]),
        ([{"tool_name": "f"}, {"tool_name": "f"}], ["a", ""]),
        ([{"tool_call_id": "x"}], ["x"]),
    ],
)
def test_results_are_paired_by_id_by_name_or_by_order(
    result_fields: list[dict[str, Any]], paired: list[str]
) -> None:
    calls = [
        {"id": "a", "function": {"name": "f"}},
        {"id": "b", "function": {"name": "g", "arguments": {}}},
    ]
    lines = [{"role": "tool", "content": "x", **data} for data in result_fields]
    request = parse_request(
        messages=[HI, {"role": "assistant", "tool_calls": calls}, *lines]
    ).request
    assert [part.call_id for part in request.messages[2].parts] == paired


def test_results_of_calls_without_ids_are_paired_though_they_bear_some() -> None:
    """Each call of a turn as a message of its own, and ids that the client made up."""
    lines = [
        {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": {}}}]}
        for name in ("f", "g", "f")
    ]
    came = [
        {"role": "tool", "content": text, **answer}
        for text, answer in (
            ("1", {"tool_call_id": "u1"}),
            ("2", {"tool_call_id": "u2", "tool_name": "g"}),
            ("3", {"name": "f"}),
        )
    ]
    messages = parse_request(messages=[HI, *lines, *came]).request.messages
    calls = messages[1].parts
    answers = [(part.call_id, part.content[0].text) for part in messages[2].parts]
    assert answers == [(call.call_id, text) for call, text in zip(calls, "123", strict=True)]


def test_without_messages_the_model_is_only_loaded() -> None:
    loading = parse_request(messages=[])
    answer = json.loads(
        answer_body(ModelReply((ReplyBlock("text", "hi"),)), loading, IdSource("s", 0))
    )
    assert not loading.request.stream
    assert (answer["done_reason"], answer["message"]["content"]) == ("load", "")


def test_an_answer_cut_by_length_says_so_and_leaves_the_call_in_its_text() -> None:
    cut = ModelReply((ReplyBlock("call", '{"x": ', "f"),), "length")
    data = b"".join(frame.data for frame in frames(cut, parse_request(), IdSource("s", 0)))
    lines = [json.loads(line) for line in data.splitlines()]
    assert "".join(line["message"]["content"] for line in lines) == (
        '{"name": "f", "arguments": {"x": }'
    )
    assert lines[-1]["done_reason"] == "length"
    assert not any("tool_calls" in line["message"] for line in lines)
