"""Requests of OpenAI Chat Completions and its dialects."""

from __future__ import annotations

import json
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

SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
SEEN = MessagePart("image", content=(IMAGE,))

FREE = Tool("sql", "Asks.", FREEFORM, format={"type": "text"})
GRAMMAR = Tool(
    "math", "", FREEFORM, format={"type": "grammar", "syntax": "lark", "definition": "start: A"}
)


def body_of(*messages: Message, **changes: Any) -> dict[str, Any]:
    return encoded("openai_chat", request(*messages, **changes))[0]


def encode_messages(*messages: Message, **changes: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = body_of(*messages, **changes)["messages"]
    return results


def notes(*messages: Message, **changes: Any) -> str:
    return "\n".join(encoded("openai_chat", request(*messages, **changes))[1].notes)


def own(kind: str, text: str = "", **meta: Any) -> MessagePart:
    return MessagePart(kind, text, meta=meta, protocol="openai_chat")


def test_the_least() -> None:
    body, sent = encoded("openai_chat", request(tools=()))
    assert (sent.method, sent.path, sent.notes) == ("POST", "/chat/completions", ())
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_system_and_tools() -> None:
    body = body_of(system="Be brief.", stream=False)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert body["tools"][0]["function"]["description"] == "Does f."
    assert body["tools"][1]["function"]["strict"] is True
    assert "strict" not in body["tools"][0]["function"]
    assert "stream" not in body


@pytest.mark.parametrize(
    ("quirk", "expected"),
    [
        ("max_completion_tokens", {"max_completion_tokens": 7}),
        ("developer_role", {"messages": [{"role": "developer", "content": "s"}]}),
        ("", {"max_tokens": 7, "messages": [{"role": "system", "content": "s"}]}),
    ],
)
def test_quirks(quirk: str, expected: dict[str, Any]) -> None:
    wanted = request(user(""), system="s", params={"max_tokens": 7}, quirks=(quirk,))
    body = encoded("openai_chat", wanted)[0]
    assert {key: body.get(key) for key in expected} == expected
    assert "stream_options" not in body_of(quirks=("no_stream_options",))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), {}),
        (ToolChoice(parallel=False), {"parallel_tool_calls": False}),
        (ToolChoice("required"), {"tool_choice": "required"}),
        (ToolChoice("none"), {"tool_choice": "none"}),
        (
            ToolChoice("tool", "g"),
            {"tool_choice": {"type": "function", "function": {"name": "g"}}},
        ),
    ],
)
def test_choices(choice: ToolChoice, expected: dict[str, Any]) -> None:
    body = body_of(choice=choice)
    result = {k: v for k, v in body.items() if k in ("tool_choice", "parallel_tool_calls")}
    assert result == expected
    bare = request(tools=(), choice=choice)
    assert "tool_choice" not in encoded("openai_chat", bare)[0]
    assert bool(encoded("openai_chat", bare)[1].notes) == choice.forced


def test_params_and_extra() -> None:
    params = {"temperature": 0, "stop": "E", "thinking": "low"}
    body, sent = encoded("openai_chat", request(params=params, extra={"stop": None, "n": 2}))
    assert (body["temperature"], body["stop"], body["n"]) == (0, None, 2)
    assert body["reasoning_effort"] == "low"
    assert len(sent.notes) == 1
    assert encoded("openai_chat", request(params={"thinking": True}))[1].notes


def test_a_turn_with_calls_and_its_results() -> None:
    calls = assistant(MessagePart("text", "a"), MessagePart("text", "b"), call("t1", '{"x":1}'))
    answer = results(result_part("t1", "one", "two", is_error=True))
    assert encode_messages(user("hi", "you"), calls, answer) == [
        {"role": "user", "content": "hi\n\nyou"},
        {
            "role": "assistant",
            "content": "ab",
            "tool_calls": [
                {
                    "id": "t1",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"x":1}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "Error: one\ntwo"},
    ]


def test_content_is_null_beside_calls_alone_and_empty_turns_are_not_sent() -> None:
    assert encode_messages(assistant(call("t1")))[0]["content"] is None
    foreign = MessagePart("thinking", "why", protocol="anthropic")
    wanted = request(assistant(foreign, MessagePart("text", "")), user("b"))
    body, sent = encoded("openai_chat", wanted)
    assert body["messages"] == [{"role": "user", "content": "b"}]
    assert len(sent.notes) == 1


def test_images_of_results_stand_in_them_or_follow_or_are_left_out() -> None:
    history = (
        assistant(call("a"), call("b"), call("c")),
        results(
            result_part("a", IMAGE),
            result_part("b", "x"),
            result_part("c", "no", IMAGE, is_error=True),
        ),
    )
    native = encode_messages(*history, quirks=("image_results",))
    assert [message["content"] for message in native[1:]] == [
        [SHOWN],
        "x",
        [{"type": "text", "text": "Error: no"}, SHOWN],
    ]
    later = encode_messages(*history)
    assert encode_messages(*history, quirks=("text_only_results",)) == later
    assert [message["role"] for message in later] == ["assistant", "tool", "tool", "tool", "user"]
    assert all(isinstance(message["content"], str) and message["content"] for message in later[1:4])
    assert later[4]["content"][1:] == [SHOWN, SHOWN]
    assert "Images of tool results" in notes(*history)
    without = encode_messages(*history, quirks=("text_only",))
    assert "image_url" not in json.dumps(without)
    assert "cannot be shown" in without[1]["content"]
    assert "accepts only text" in notes(*history, quirks=("text_only",))


def test_images_of_a_prompt_stand_before_its_text() -> None:
    prompt = Message("user", (SEEN, MessagePart("text", "what is it?")))
    assert encode_messages(prompt) == [
        {"role": "user", "content": [SHOWN, {"type": "text", "text": "what is it?"}]}
    ]
    assert encode_messages(prompt, quirks=("text_only",)) == [
        {"role": "user", "content": "what is it?"}
    ]
    assert encode_messages(Message("user", (SEEN,)), quirks=("text_only",)) == []


def test_free_form_tools_where_the_server_knows_them() -> None:
    native = body_of(
        tools=(FREE, GRAMMAR), quirks=("custom_tools",), choice=ToolChoice("tool", "sql")
    )
    assert native["tools"] == [
        {
            "type": "custom",
            "custom": {"name": "sql", "description": "Asks.", "format": {"type": "text"}},
        },
        {
            "type": "custom",
            "custom": {
                "name": "math",
                "format": {
                    "type": "grammar",
                    "grammar": {"syntax": "lark", "definition": "start: A"},
                },
            },
        },
    ]
    assert native["tool_choice"] == {"type": "custom", "custom": {"name": "sql"}}
    plain_body = body_of(tools=(FREE,), choice=ToolChoice("tool", "sql"))
    assert plain_body["tools"][0]["function"]["parameters"] == FREEFORM
    assert plain_body["tool_choice"] == {"type": "function", "function": {"name": "sql"}}
    assert "sql was sent as a tool with one text" in notes(tools=(FREE,))


def test_calls_of_free_form_tools_go_back_as_their_text() -> None:
    written = json.dumps({"input": 'SELECT "é"'})
    mine: dict[str, Any] = {"meta": {"type": "custom"}, "protocol": "openai_chat"}
    (own_call,) = encode_messages(assistant(call("a", written, "sql", **mine)))[0]["tool_calls"]
    assert own_call["custom"] == {"name": "sql", "input": 'SELECT "é"'}
    other: dict[str, Any] = {"tools": (FREE,), "quirks": ("custom_tools",)}
    (foreign,) = encode_messages(assistant(call("a", written, "sql")), **other)[0]["tool_calls"]
    assert foreign["custom"] == own_call["custom"]
    (function,) = encode_messages(assistant(call("a", written, "sql")), tools=(FREE,))[0][
        "tool_calls"
    ]
    assert function["function"] == {"name": "sql", "arguments": written}


def test_reasoning_goes_back_in_its_own_words() -> None:
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    signed = assistant(own("thinking", "why", field="reasoning", reasoning_details=details))
    (message,) = encode_messages(assistant(*signed.parts, MessagePart("text", "a")))
    assert message == {"role": "assistant", "content": "a", "reasoning_details": details}
    extra = own("thinking", extra_content={"s": 1})
    assert encode_messages(assistant(extra, MessagePart("text", "a")))[0]["extra_content"] == {
        "s": 1
    }
    bare = own("thinking", "why", field="reasoning_content")
    # Text without a signature is demanded beside calls (DeepSeek), and only there.
    assert "reasoning_content" not in encode_messages(assistant(bare, MessagePart("text", "a")))[0]
    assert encode_messages(assistant(bare, call("t1")))[0]["reasoning_content"] == "why"
    off = encode_messages(
        assistant(bare, *signed.parts, call("t1")), quirks=("no_reasoning_echo",)
    )[0]
    assert off.keys() == {"role", "content", "tool_calls"}


def test_typed_content_goes_back_typed() -> None:
    reference = {"type": "reference", "reference_ids": [1]}
    thinking = own("thinking", "why", field="content")
    (message,) = encode_messages(
        assistant(thinking, MessagePart("text", "a"), own("other", block=reference))
    )
    assert message["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]},
        {"type": "text", "text": "a"},
        reference,
    ]


def test_calls_of_other_kinds_go_back_as_they_came() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    mine: dict[str, Any] = {"protocol": "openai_chat"}
    (message,) = encode_messages(
        assistant(
            call("a", '{"input": "SELECT"}', meta={"type": "custom"}, **mine),
            call("b", meta={"extra": extra}, **mine),
            call("c", meta={"extra": extra}, protocol="anthropic"),
        )
    )
    custom, signed, foreign = message["tool_calls"]
    assert custom == {"id": "a", "type": "custom", "custom": {"name": "f", "input": "SELECT"}}
    assert signed["extra_content"] == extra["extra_content"]
    assert "extra_content" not in foreign
    legacy = encode_messages(
        assistant(call("call_1_0", meta={"type": "function_call"}, **mine)),
        results(result_part("call_1_0", "x")),
    )
    assert legacy[0]["function_call"] == {"name": "f", "arguments": "{}"}
    assert legacy[1] == {"role": "function", "name": "f", "content": "x"}


def test_short_ids_for_mistral() -> None:
    messages = encode_messages(
        assistant(call("toolu_0123456789"), call("abcdefgh1")),
        results(result_part("toolu_0123456789", "x"), result_part("abcdefgh1", "y")),
        quirks=("short_ids",),
    )
    sent = [tool_call["id"] for tool_call in messages[0]["tool_calls"]]
    assert sent == [message["tool_call_id"] for message in messages[1:]]
    assert sent[1] == "abcdefgh1"
    assert len(sent[0]) == 9
    assert sent[0].isalnum()


def test_bare_reasoning_is_read_by_every_model_of_its_server_and_what_is_signed_by_one() -> None:
    """DeepSeek demands the reasoning of turns with calls, whichever of its models wrote it."""
    part_fields: dict[str, Any] = {"protocol": "", "origin": "model"}
    bare = MessagePart("thinking", "why", meta={"field": "reasoning_content"}, **part_fields)
    (message,) = encode_messages(assistant(bare, call("a")))
    assert message["reasoning_content"] == "why"
    assert "Left out" not in notes(assistant(bare, call("a")))
    meta = {"field": "reasoning", "reasoning_details": [{"signature": "s"}]}
    signed = MessagePart("thinking", "why", meta=meta, **part_fields)
    (message,) = encode_messages(assistant(signed, call("a")))
    assert "reasoning_details" not in message
    assert "came from another model" in notes(assistant(signed, call("a")))
    foreign = MessagePart("thinking", "why", meta={"field": "reasoning"}, origin="address")
    assert "came from another address" in notes(assistant(foreign, call("a")))


def test_between_results_and_a_prompt_mistral_is_given_a_message_of_the_assistant() -> None:
    stopped = user("a"), assistant(call("t1")), results(result_part("t1", IMAGE)), user("b")
    for history in (stopped, stopped[:3]):  # the image follows in a message of the user
        quirks = ("assistant_after_tool",)
        roles = [message["role"] for message in encode_messages(*history, quirks=quirks)]
        assert roles[:5] == ["user", "assistant", "tool", "assistant", "user"]
        assert "requires an assistant message" in notes(*history, quirks=quirks)
    answered = *stopped[:3], assistant(MessagePart("text", "so")), user("b")
    inside = ("assistant_after_tool", "image_results")
    assert "demands" not in notes(*answered, quirks=inside)
    assert [message["role"] for message in encode_messages(*stopped)][2:4] == ["tool", "user"]
