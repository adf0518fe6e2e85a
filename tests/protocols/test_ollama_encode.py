"""Requests of Ollama's chat API."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.messages import Message, MessagePart
from playground.core.tools import FREEFORM, Tool, ToolChoice
from tests.protocols.requests import (
    IMAGE,
    assistant,
    call,
    encoded,
    request,
    result_part,
    results,
    user,
)

WHOLE = "Ollama sends a call's arguments in one piece, not in deltas."

F, G = Tool("f"), Tool("g")


def body_of(*messages: Message, **changes: Any) -> dict[str, Any]:
    return encoded("ollama", request(*messages, **changes))[0]


def encode_messages(*messages: Message, **changes: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = body_of(*messages, **changes)["messages"]
    return results


def notes(*messages: Message, **changes: Any) -> tuple[str, ...]:
    return encoded("ollama", request(*messages, **changes))[1].notes


def test_the_least() -> None:
    body, sent = encoded("ollama", request(tools=()))
    assert (sent.method, sent.path, sent.notes) == ("POST", "/api/chat", ())
    assert sent.headers["accept"] == sent.expects == "application/x-ndjson"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }
    # It is said in any case: left out it would mean true.
    assert body_of(stream=False)["stream"] is False


def test_system_and_tools() -> None:
    body = body_of(system="Be brief.", tools=(Tool("f", "Does f."),))
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f",
                "description": "Does f.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]


@pytest.mark.parametrize(
    ("choice", "names", "note"),
    [
        (ToolChoice(), ["f", "g"], None),
        (ToolChoice(parallel=False), ["f", "g"], "parallel calls"),
        (ToolChoice("required"), ["f", "g"], "Ollama ignores tool_choice: the tools were sent"),
        (ToolChoice("tool", "g"), ["g"], "Ollama ignores tool_choice: only g was sent"),
        (ToolChoice("none"), [], "Ollama ignores tool_choice: the tools were left out"),
        (ToolChoice(allowed=("f",)), ["f"], "Ollama ignores tool_choice: only the allowed"),
        (ToolChoice("required", allowed=("f",)), ["f"], "nothing makes the model call one"),
    ],
)
def test_choices_are_narrowed_and_said(
    choice: ToolChoice, names: list[str], note: str | None
) -> None:
    body = body_of(tools=(F, G), choice=choice)
    assert [tool["function"]["name"] for tool in body.get("tools", ())] == names
    assert "tool_choice" not in body
    outputs = [note for note in notes(tools=(F, G), choice=choice) if note != WHOLE]
    assert len(outputs) == (note is not None)
    assert (note or "") in "".join(outputs)


def test_what_a_tool_asks_for_in_vain_is_said() -> None:
    assert notes(tools=(F,)) == (WHOLE,)
    assert notes(tools=(F,), stream=False) == ()
    strict = notes(tools=(Tool("f", strict=True),), stream=False)
    free = notes(tools=(Tool("f", "", FREEFORM, format={"type": "text"}),), stream=False)
    assert "strict" in strict[0]
    assert "free-form" in free[0]


@pytest.mark.parametrize(
    ("params", "expected", "noted"),
    [
        (
            {"max_tokens": 7, "temperature": 0, "top_p": 0.5, "stop": "E"},
            {"options": {"num_predict": 7, "temperature": 0, "top_p": 0.5, "stop": ["E"]}},
            0,
        ),
        ({"thinking": True}, {"think": True}, 0),
        ({"thinking": False}, {"think": False}, 0),
        ({"thinking": "disabled"}, {"think": False}, 0),
        ({"thinking": "high"}, {"think": "high"}, 0),
        ({"thinking": "adaptive"}, {"think": True}, 1),
        ({"thinking": 2048}, {"think": True}, 1),
        ({"thinking": 1.5}, {}, 1),
        ({"thinking": None}, {}, 0),
    ],
)
def test_params(params: dict[str, Any], expected: dict[str, Any], noted: int) -> None:
    body, sent = encoded("ollama", request(tools=(), params=params))
    assert {key: body[key] for key in ("options", "think") if key in body} == expected
    assert len(sent.notes) == noted


def test_extra_options_join_ours() -> None:
    extra = {"options": {"num_ctx": 8192, "top_p": 1}, "keep_alive": "5m"}
    body = body_of(params={"max_tokens": 7, "top_p": 0.5}, extra=extra)
    assert body["options"] == {"num_predict": 7, "top_p": 1, "num_ctx": 8192}
    assert body["keep_alive"] == "5m"


def test_a_turn_with_calls_and_its_results() -> None:
    mine: dict[str, Any] = {"protocol": "ollama"}
    turn = assistant(
        MessagePart("thinking", "why", protocol="ollama"),
        MessagePart("text", "a"),
        call("t1", '{"x": 12345678901234567890}', meta={"function": {"index": 0}}, **mine),
        call("t2", meta={"extra": {"new": 7}}, **mine),
    )
    answer = results(result_part("t1", "one", "two", is_error=True), result_part("t2", "x"))
    assert encode_messages(user("hi"), turn, answer)[1:] == [
        {
            "role": "assistant",
            "content": "a",
            "thinking": "why",
            "tool_calls": [
                {
                    "id": "t1",
                    "function": {
                        "index": 0,
                        "name": "f",
                        "arguments": {"x": 12345678901234567890},
                    },
                },
                {"new": 7, "id": "t2", "function": {"name": "f", "arguments": {}}},
            ],
        },
        {"role": "tool", "tool_name": "f", "tool_call_id": "t1", "content": "Error: one\ntwo"},
        {"role": "tool", "tool_name": "f", "tool_call_id": "t2", "content": "x"},
    ]
    assert "is_error" in "".join(notes(user("hi"), turn, answer))


@pytest.mark.parametrize("text", ['{"x"', "[1]", "SELECT"])
def test_arguments_must_be_an_object(text: str) -> None:
    (message,) = encode_messages(assistant(call("t1", text)))
    assert message["tool_calls"][0]["function"]["arguments"] == {}
    assert "not a JSON object" in "".join(notes(assistant(call("t1", text))))


def test_images_stand_beside_the_text_and_those_of_results_follow() -> None:
    prompt = Message("user", (MessagePart("image", content=(IMAGE,)), MessagePart("text", "what?")))
    assert encode_messages(prompt) == [{"role": "user", "content": "what?", "images": ["aGk="]}]
    history = (
        assistant(call("a"), call("b")),
        results(result_part("a", IMAGE), result_part("b", "x")),
    )
    messages = encode_messages(*history)
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert messages[1]["content"]
    assert messages[3]["images"] == ["aGk="]
    assert "user message" in "".join(notes(*history))


def test_what_came_by_another_protocol_and_what_is_empty_is_left_out() -> None:
    foreign = MessagePart("thinking", "why", meta={"block": {}}, protocol="anthropic")
    history = (assistant(foreign, MessagePart("text", "")), user("b"), user(" "))
    assert encode_messages(*history) == [{"role": "user", "content": "b"}]
    assert "Left out of the history" in "".join(notes(*history))
    refused = encode_messages(assistant(MessagePart("refusal", "no")))
    assert refused == [{"role": "assistant", "content": "no"}]


def test_thinking_is_read_by_every_model_there() -> None:
    thought = MessagePart("thinking", "why", origin="model")
    assert encode_messages(assistant(thought, MessagePart("text", "a")))[0]["thinking"] == "why"
