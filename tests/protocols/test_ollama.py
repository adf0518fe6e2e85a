"""Ollama's chat API: each oddity of its lines, by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.commands.decode import decode
from playground.core.events import ResponseEnded, ResponseFailed
from playground.protocols.base import ModelInfo
from playground.protocols.ollama.decode import key_header, label, models
from tests.protocols.frames import codes_of, end_of, events_of, line, lines, parts_of

END = line({"content": ""}, done=True, done_reason="stop", prompt_eval_count=3, eval_count=4)


def call_line(arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A line with one call of `f`."""
    function = {"name": "f"} if arguments is None else {"name": "f", "arguments": arguments}
    return line({"content": "", "tool_calls": [{"function": function, **more}]})


def test_thinking_text_and_calls_in_their_order() -> None:
    body = lines(
        line({"content": "", "thinking": "h"}),
        line({"content": "", "thinking": "m"}),
        line({"content": "a"}),
        call_line({"x": 1}),
        call_line({"x": 2}),
        line({"content": "b"}),
        END,
    )
    events = events_of("ollama", body)
    assert [(kind, part.text) for kind, part in parts_of(events)] == [
        ("thinking", "hm"),
        ("text", "a"),
        ("call", '{"x": 1}'),
        ("call", '{"x": 2}'),
        ("text", "b"),
    ]
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert (end.reason, end.raw_reason) == ("calls", "stop")  # Q20
    assert (end.usage.input_tokens, end.usage.output_tokens) == (3, 4)
    assert codes_of(events) == []


def test_one_object_is_read_as_the_lines_are() -> None:
    function = {"name": "f", "arguments": {"x": 1}}
    answer = {"thinking": "hm", "content": "a", "tool_calls": [{"id": "i", "function": function}]}
    last_line = line(answer, done=True, done_reason="stop")
    facts = decode("ollama", json.dumps(last_line, indent=1).encode())
    assert (facts["reasoning_text"], facts["text"]) == ("hm", "a")
    assert facts["tool_calls"][0]["id"] == "i"
    assert facts["ended"] == "complete"


@pytest.mark.parametrize(
    ("arguments", "text", "state", "raw"),
    [
        ('{"n": 1.10, "n": 12345678901234567890}', None, "object", None),
        ("{}", None, "object", None),
        ("null", None, "non_object", None),
        ("[1]", None, "non_object", None),
        ('"{\\"x\\": 1}"', '{"x": 1}', "object", '{"x": 1}'),
        ('"{\\"x"', '{"x', "invalid", '{"x'),
        ("", "", "absent", None),
    ],
)
def test_arguments_are_kept_to_the_letter(
    arguments: str, text: str | None, state: str, raw: str | None
) -> None:
    member = f', "arguments": {arguments}' if arguments else ""
    call = (
        f'{{"message": {{"tool_calls": [{{"function": {{"name": "f"{member}}}}}]}}, "done": false}}'
    )
    body = lines(call, END)
    ((_, part),) = parts_of(events_of("ollama", body))
    assert part.text == (arguments if text is None else text)
    (fact,) = decode("ollama", body)["tool_calls"]
    assert (fact["arguments_state"], fact["arguments_raw"]) == (state, raw)


def test_ids_and_what_else_rides_on_a_call() -> None:
    function = {"index": 1, "name": "f", "arguments": {}, "sig": "s"}
    call = {"id": "call_1", "function": function, "new": 7}
    odd = [7, {"function": None}]
    events = events_of("ollama", lines(line({"tool_calls": [call, *odd]}), END))
    ((_, part),) = parts_of(events)
    assert (part.name, part.provider_id) == ("f", "call_1")
    assert part.meta["extra"] == {"new": 7}
    assert part.meta["function"] == {"index": 1, "sig": "s"}
    assert codes_of(events) == ["odd_call", "odd_call"]


@pytest.mark.parametrize(
    ("last", "reason", "raw"),
    [
        ({"done_reason": "stop"}, "stop", "stop"),
        ({"done_reason": "length"}, "length", "length"),
        ({"done_reason": "unload"}, "other", "unload"),
        ({"done_reason": "something_new"}, "other", "something_new"),
        ({}, "stop", "done"),  # servers before `done_reason`
    ],
)
def test_reasons(last: dict[str, Any], reason: str, raw: str) -> None:
    events = events_of("ollama", lines(line({"content": "a"}, done=True, **last)))
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert (end.reason, end.raw_reason) == (reason, raw)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (None, None)
    assert codes_of(events) == []


def test_a_model_that_was_only_loaded_said_nothing() -> None:
    body = json.dumps(line({"content": ""}, done=True, done_reason="load")).encode()
    events = events_of("ollama", body)
    assert isinstance(end_of(events), ResponseEnded)
    assert codes_of(events) == ["empty_answer"]


@pytest.mark.parametrize(
    ("rest", "failure", "words"),
    [
        ((), "interrupted", "finish reason"),
        (('{"model": "m", "mess',), "interrupted", "broke off"),
        (({"error": "it broke"},), "error", "it broke"),
        (({"error": "it broke", "status": 500}, END), "error", "it broke"),
    ],
)
def test_an_answer_that_did_not_come_to_its_end(
    rest: tuple[Any, ...], failure: str, words: str
) -> None:
    body = lines(line({"content": "a"}), call_line({}), *rest).removesuffix(b"\n")
    end = end_of(events_of("ollama", body))
    assert isinstance(end, ResponseFailed)
    assert end.failure == failure
    assert words in end.message


def test_a_refusal_of_the_request_is_told_in_its_words() -> None:
    body = b'{"error":"registry.ollama.ai/library/x does not support tools"}'
    end = end_of(events_of("ollama", body, status=400))
    assert isinstance(end, ResponseFailed)
    assert (end.failure, end.status) == ("http", 400)
    assert "does not support tools" in end.message


def test_logprobs_ride_on_the_part_they_came_with() -> None:
    data, two, last = ({"token": token} for token in "abc")
    body = lines(
        line({"content": ""}, logprobs=[data]),
        line({"content": "ab"}, logprobs=[two]),
        line({"content": ""}, logprobs=[last]),
        END,
    )
    events = events_of("ollama", body)
    ((_, part),) = parts_of(events)
    assert part.meta["logprobs"] == [data, two]
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert end.meta["logprobs"] == [last]


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (line({"content": "a"}), "chat content"),
        (line({"content": "", "thinking": "a"}), "chat thinking"),
        (call_line({}), "chat tool_calls"),
        (END, "chat done stop"),
        ({"done": True}, "chat done"),
        ({"error": "no"}, "error"),
        ({"message": 7}, "chat"),
    ],
)
def test_labels(frame: dict[str, Any], words: str) -> None:
    assert label(frame) == words


def test_models_tell_what_their_server_knows() -> None:
    details = {"parameter_size": "8.2B", "quantization_level": "Q4_K_M", "context_length": 40960}
    able = {"capabilities": ["completion", "tools", "thinking"], "details": details}
    listed = [{"name": "qwen3:8b", "model": "qwen3:8b", **able}, {"name": "old", "details": 7}, 7]
    assert models({"models": listed}) == (
        ModelInfo(
            "qwen3:8b",
            name="qwen3:8b (8.2B, Q4_K_M)",
            tools=True,
            images=False,
            reasoning=True,
            window=40960,
        ),
        ModelInfo("old", "old"),
    )
    assert models("nonsense") == ()
    assert key_header("k", ()) == {"authorization": "Bearer k"}
