"""What a client may take for a call does not leave before it is decided, wherever it stands; and
what nobody takes for one leaves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from playground.protocols.answer_edits import PassableLength
from playground.protocols.base import UNREAD
from playground.protocols.call_search import has_call, has_unlocated_call
from playground.protocols.framing import MAX_TEXT
from playground.protocols.registry import codec
from tests.protocols.answers import PROTOCOLS, body, call, text, thinking
from tests.protocols.frames import DONE, chunk, line, lines, sse

Json = dict[str, Any]

RECORDINGS = Path(__file__).parents[2] / os.environ.get(
    "PLAYGROUND_RECORDINGS", "../shared/recordings"
)

# Calls in the form of each protocol, and answers around them.

NAME, SECRET = "tool1", '{"x": "SECRET"}'
FUNCTION: Json = {"name": NAME, "arguments": SECRET}
TOOL_CALLS: list[Json] = [{"index": 0, "id": "call_1", "type": "function", "function": FUNCTION}]
TOOL_USE: Json = {"type": "tool_use", "id": "toolu_1", "name": NAME, "input": {"x": "SECRET"}}
ITEM: Json = {
    **{"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed"},
    **FUNCTION,
}
GEMINI_CALL: Json = {"name": NAME, "args": {"x": "SECRET"}}
OLLAMA_CALL: Json = {"function": {"name": NAME, "arguments": {"x": "SECRET"}}}
MESSAGE: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
USAGE: Json = {"input_tokens": 1, "output_tokens": 1}

ESCAPED = json.dumps(
    {
        "candidates": [
            {"index": 0, "content": {"parts": [{"text": "x"}]}},
            {"index": 1, "content": {"parts": [{"functionCall": GEMINI_CALL}]}},
        ]
    }
).replace("functionCall", "function\\u0043all")

PARTS = [thinking("Hm."), text("It has tool_calls."), call(1), call(2, tool_calls=[{"name": "x"}])]

CALLS_BEHIND = sse(chunk({"role": "assistant", "tool_calls": TOOL_CALLS}), DONE)


def chat_whole(message: Json, **more: Any) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {"id": "c1", "object": "chat.completion", "choices": [{**choice, **more}]}


def choices(*more: Json) -> Json:
    """A chunk with a text, and these further choices."""
    first = {"index": 0, "delta": {"content": "x"}}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [first, *more]}


def gemini(*parts: Any, **more: Any) -> Json:
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"index": 0, "content": content, **more}], "modelVersion": "m"}


def response(status: str, *output: Any) -> Json:
    return {
        **{"id": "resp_1", "object": "response", "model": "m", "status": status},
        "output": list(output),
    }


def event(type_: str, **members: Any) -> Json:
    return {"type": type_, **members}


def item_event(type_: str, item: Json, **more: Any) -> Json:
    return event(f"response.{type_}", output_index=0, item=item, **more)


def without(value: Json, member: str) -> Json:
    return {name: item for name, item in value.items() if name != member}


def messages_body(*content: Json) -> Json:
    return {**MESSAGE, "content": list(content), "stop_reason": "tool_use", "usage": USAGE}


def messages_start(*content: Json) -> Json:
    message = {**MESSAGE, "content": list(content), "stop_reason": None, "usage": USAGE}
    return event("message_start", message=message)


BEGINS: Mapping[str, Sequence[Json]] = {
    "openai_chat": [chunk({"role": "assistant", "content": "x"})],
    "openai_responses": [event("response.created", response=response("in_progress"))],
    "anthropic": [messages_start()],
    "gemini": [gemini({"text": "x"})],
    "ollama": [line({"content": "x"})],
}
"""The beginning of a stream, which may leave."""
TEXT_BLOCK = event("content_block_start", index=0, content_block={"type": "text", "text": ""})

# Rows of a protocol: a sentence, and the value (or JSON text) of the one frame that has the call.

WHOLE: Mapping[str, Mapping[str, Any]] = {
    "openai_chat": {
        "of a further choice": chat_whole({"content": "x"}, index=1, tool_calls=TOOL_CALLS),
        "without choices in a list": {"choices": {"0": {"message": {"tool_calls": TOOL_CALLS}}}},
        "in a string": json.dumps(json.dumps(chat_whole({"tool_calls": TOOL_CALLS}))),
        "beside an error": {"error": {"message": "x"}, "tool_calls": TOOL_CALLS},
    },
    "openai_responses": {
        "without object": without(response("completed", ITEM), "object"),
        "output is an object": {**response("completed"), "output": {"0": ITEM}},
        "output is a list in a list": response("completed", [ITEM]),
        "a piece of a message": response("completed", {"type": "message", "content": [ITEM]}),
    },
    "anthropic": {
        "without type": without(messages_body(TOOL_USE), "type"),
        "content is an object": {**messages_body(), "content": TOOL_USE},
    },
    "gemini": {
        "snake case": gemini({"function_call": GEMINI_CALL}, finishReason="STOP"),
        "in a response": {"response": gemini({"functionCall": GEMINI_CALL}, finishReason="STOP")},
        "parts is an object": {"candidates": [{"content": {"parts": {"functionCall": {"a": 1}}}}]},
    },
    "ollama": {
        "an object": line({"tool_calls": OLLAMA_CALL}, done=True),
        "of another protocol": {"choices": [{"message": {"tool_calls": TOOL_CALLS}}]},
    },
}
STREAMED: Mapping[str, Mapping[str, Any]] = {
    "openai_chat": {
        "a chunk in an array": [chunk({"tool_calls": TOOL_CALLS})],
        "a chunk in a string": json.dumps(json.dumps(chunk({"tool_calls": TOOL_CALLS}))),
        "beside the delta": choices({"index": 0, "delta": {}, "tool_calls": TOOL_CALLS}),
        "in a message beside the delta": choices(
            {"index": 0, "delta": {}, "message": {"tool_calls": TOOL_CALLS}}
        ),
        "function_call is a text": chunk({"function_call": json.dumps(FUNCTION)}),
        "a list in a list": chunk({"tool_calls": [TOOL_CALLS]}),
        "a text in the list": chunk({"tool_calls": [json.dumps(FUNCTION)]}),
        "an object of calls": chunk({"calls": {"tool_calls": {"0": TOOL_CALLS[0]}}}),
        "flat": chunk({"tool_calls": [{"index": 0, **FUNCTION}]}),
        "flat, with an id": chunk({"tool_calls": [{"index": 0, "id": "call_1", **FUNCTION}]}),
        "a piece of the content": chunk({"content": [TOOL_USE]}),
        "another choice": choices({"index": 1, "delta": {"tool_calls": TOOL_CALLS}}),
        "camel case": chunk({"toolCalls": TOOL_CALLS}),
        "beside an error": {**chunk({"toolCalls": TOOL_CALLS}), "error": {"message": "x"}},
    },
    "openai_responses": {
        "an unknown event": item_event("output_item.updated", ITEM),
        "another spelling": {**item_event("x", ITEM), "type": "Response.Output_Item.Done"},
        "created": event("response.created", response=response("in_progress", ITEM)),
        "in progress": event("response.in_progress", response=response("in_progress", ITEM)),
        "a piece of a message": item_event(
            "output_item.done", {"type": "message", "id": "m1", "content": [ITEM]}
        ),
        "a list in the output": event("response.completed", response=response("completed", [ITEM])),
        "tool_calls of the response": event(
            "response.completed", response={**response("completed"), "tool_calls": [ITEM]}
        ),
    },
    "anthropic": {
        "the start of the message": messages_start(TOOL_USE),
        "the end of the message": event(
            "message_delta", delta={"stop_reason": "tool_use", "content": [TOOL_USE]}, usage={}
        ),
        "an unknown event": event("content_block", index=0, content_block=TOOL_USE),
        "in the result of a tool": event(
            "content_block_start",
            index=0,
            content_block={"type": "tool_result", "content": [TOOL_USE]},
        ),
        "arguments of no call": event(
            "content_block_delta", index=0, delta={"partial_json": SECRET}
        ),
    },
    "gemini": {
        "snake case": gemini({"function_call": GEMINI_CALL}, finishReason="STOP"),
        "in a response": {"response": gemini({"functionCall": GEMINI_CALL})},
        "in an array": [[gemini({"functionCall": GEMINI_CALL})]],
        "parts is an object": {"candidates": [{"content": {"parts": {"functionCall": {"a": 1}}}}]},
        "content is a list": {
            "candidates": [{"content": [{"parts": [{"functionCall": GEMINI_CALL}]}]}]
        },
        "without content": {"candidates": [{"parts": [{"functionCall": GEMINI_CALL}]}]},
        "at the top": {**gemini({"text": "x"}), "functionCalls": [GEMINI_CALL]},
        "another candidate, with an escape": ESCAPED,
    },
    "ollama": {
        "an object": line({"tool_calls": OLLAMA_CALL}),
        "flat": line({"tool_calls": [{"name": NAME, "arguments": {"x": "SECRET"}}]}),
        "a list of messages": {"message": [{"tool_calls": [OLLAMA_CALL]}], "done": False},
        "a line that is a string": json.dumps(json.dumps(line({"tool_calls": [OLLAMA_CALL]}))),
        "a list in a list": [[line({"tool_calls": [OLLAMA_CALL]})]],
    },
}


def framed(protocol: str, *values: Any) -> bytes:
    return lines(*values) if protocol == "ollama" else sse(*values)


@pytest.mark.parametrize(
    ("protocol", "value"),
    [(protocol, value) for protocol, rows in WHOLE.items() for value in rows.values()],
    ids=[f"{protocol}: {name}" for protocol, rows in WHOLE.items() for name in rows],
)
def test_a_body_with_a_call_that_the_decoder_does_not_see_does_not_leave(
    protocol: str, value: Any
) -> None:
    data = (value if isinstance(value, str) else json.dumps(value)).encode()
    assert PassableLength(protocol).add(data + b"\n") == 0
    assert unread_frames(protocol, data) == [data]


@pytest.mark.parametrize(
    ("protocol", "value"),
    [(protocol, value) for protocol, rows in STREAMED.items() for value in rows.values()],
    ids=[f"{protocol}: {name}" for protocol, rows in STREAMED.items() for name in rows],
)
def test_a_frame_with_a_call_that_the_decoder_does_not_see_does_not_leave(
    protocol: str, value: Any
) -> None:
    begin = framed(protocol, *BEGINS[protocol])
    data = begin + framed(protocol, value, *BEGINS[protocol])
    before = PassableLength(protocol)
    assert before.add(begin) == len(begin)
    assert before.add(data[len(begin) :]) == len(begin)
    for size in (1, 7):
        before = PassableLength(protocol)
        cuts = [data[at : at + size] for at in range(0, len(data), size)]
        assert max(map(before.add, cuts)) == len(begin)
    assert unread_frames(protocol, data)


def unread_frames(protocol: str, data: bytes, status: int = 200) -> list[bytes]:
    """The frames of the body that were not read."""
    decoder = codec(protocol).decoder(status)
    places = decoder.locate()
    decoder.feed(data)
    decoder.end(True)
    return [data[place.start : place.end] for place in places if place.part == UNREAD]


BESIDE: Mapping[str, tuple[str, Any]] = {
    "Ollama: flat": ("ollama", line({"tool_calls": [OLLAMA_CALL, GEMINI_CALL]})),
    "Gemini: in two spellings": (
        "gemini",
        gemini({"functionCall": GEMINI_CALL, "function_call": GEMINI_CALL}),
    ),
    "Gemini: in another part": (
        "gemini",
        gemini({"functionCall": GEMINI_CALL}, {"function_call": GEMINI_CALL}),
    ),
    "Chat: a copy": (
        "openai_chat",
        chunk({"tool_calls": TOOL_CALLS, "provider": {"tool_calls": TOOL_CALLS}}),
    ),
    "Messages: in the event of a block": (
        "anthropic",
        event("content_block_start", index=0, content_block=TOOL_USE, message={"content": [ITEM]}),
    ),
    "Responses: in the event of an item": (
        "openai_responses",
        item_event("output_item.done", ITEM, tool_calls=TOOL_CALLS),
    ),
    "Responses: beside its arguments": (
        "openai_responses",
        item_event("function_call_arguments.done", ITEM, arguments=SECRET, name=NAME),
    ),
}


@pytest.mark.parametrize(("protocol", "value"), list(BESIDE.values()), ids=list(BESIDE))
def test_a_call_beside_one_that_the_decoder_sees_is_not_read(protocol: str, value: Any) -> None:
    assert unread_frames(protocol, framed(protocol, *BEGINS[protocol], value))


@pytest.mark.parametrize("type_", ["response.created", "response.in_progress", "response.queued"])
def test_a_snapshot_whose_arguments_differ_is_not_read(type_: str) -> None:
    """The item is decided; the snapshot behind it says something else."""
    other = {**ITEM, "arguments": '{"x": "ok"}'}
    snapshot = event(type_, response=response("in_progress", ITEM))
    data = sse(*BEGINS["openai_responses"], item_event("output_item.done", other), snapshot)
    assert unread_frames("openai_responses", data) == [sse(snapshot).strip()]


def test_an_event_of_responses_behind_an_error_is_not_read() -> None:
    end = event("response.completed", response=response("completed", ITEM))
    text_event = event("response.output_text.delta", output_index=0, delta="x")
    for behind in (item_event("output_item.done", ITEM), end, text_event):
        error = event("error", code="x", message="y")
        data = sse(*BEGINS["openai_responses"], error, behind)
        assert unread_frames("openai_responses", data) == [sse(behind).strip()]


# What is no call.


@pytest.mark.parametrize(
    ("protocol", "count", "streamed"),
    [
        (protocol, n, streamed)
        for protocol in PROTOCOLS
        for n in (2, 4)
        for streamed in (True, False)
    ],
)
def test_an_ordinary_answer_is_read(protocol: str, count: int, streamed: bool) -> None:
    data = body(protocol, PARTS[:count], streamed=streamed)
    assert unread_frames(protocol, data) == []


def test_a_recorded_answer_is_read() -> None:
    metas = sorted(RECORDINGS.glob("*/meta.json"))
    if not metas:
        pytest.skip(f"No recordings in {RECORDINGS}: set PLAYGROUND_RECORDINGS to their folder.")
    for path in metas:
        meta = json.loads(path.read_text("utf-8"))
        data = next(path.parent.glob("response.*")).read_bytes()
        assert unread_frames(meta["protocol"], data, meta["http_status"]) == [], path.parent.name


NOTHING: Mapping[str, tuple[str, Any]] = {
    "Chat: an empty list": ("openai_chat", chunk({"content": "x", "tool_calls": []})),
    "Chat: a stub": (
        "openai_chat",
        chunk({"content": "x", "function_call": {"name": "", "arguments": ""}}),
    ),
    "Chat: null in the list": ("openai_chat", chunk({"tool_calls": [None, {}]})),
    "Chat: a call that begins without a name": (
        "openai_chat",
        chunk({"tool_calls": [{"index": 0, "type": "function", "function": {"name": ""}}]}),
    ),
    "Chat: the reason": ("openai_chat", chunk({}, "tool_calls")),
    "Chat: JSON in a text": ("openai_chat", chunk({"content": json.dumps(TOOL_USE)})),
    "Chat: counts": ("openai_chat", chunk({}, usage={"tool_calls": {"web_search": 1}})),
    "Responses: the tools of the request": (
        "openai_responses",
        event(
            "response.in_progress",
            response={
                **response("in_progress"),
                "tools": [{"parameters": {"properties": {"tool_calls": {"type": "array"}}}}],
                "tool_choice": {"type": "function_call", "name": NAME},
                "text": {"format": {"schema": {"properties": {"function_call": {"type": "x"}}}}},
                "parallel_tool_calls": True,
            },
        ),
    ),
    "Messages: a tool of the provider": (
        "anthropic",
        event(
            "content_block_start", index=0, content_block={**TOOL_USE, "type": "server_tool_use"}
        ),
    ),
    "Messages: the reason": (
        "anthropic",
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={"server_tool_use": {}}),
    ),
    "Gemini: a tool of the provider": (
        "gemini",
        gemini({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"functionCall": "x"}}}),
    ),
    "Gemini: counts": ("gemini", {"usageMetadata": {"toolUsePromptTokenCount": 1}}),
    "a list": ("openai_chat", ["ping"]),
    "a text": ("openai_chat", json.dumps("ping")),
}


@pytest.mark.parametrize(("protocol", "value"), list(NOTHING.values()), ids=list(NOTHING))
def test_what_is_no_call_is_read(protocol: str, value: Any) -> None:
    assert unread_frames(protocol, framed(protocol, *BEGINS[protocol], value)) == []


def test_the_body_of_an_error_may_repeat_the_calls_of_the_request() -> None:
    detail = {"detail": [{"msg": "x", "input": {"messages": [{"tool_calls": TOOL_CALLS}]}}]}
    assert unread_frames("openai_chat", json.dumps(detail).encode(), status=422) == []
    assert unread_frames("openai_chat", json.dumps(detail).encode())


def test_a_path_above_a_call_locates_that_one_alone() -> None:
    value = {"a": {"functionCall": GEMINI_CALL}, "b": {"tool_calls": TOOL_CALLS}}
    assert not has_unlocated_call(value, [("a",), ("b", "tool_calls", 0)])
    assert not has_unlocated_call(value, [("a",), ("b",)])
    assert has_unlocated_call(value, [()])
    assert has_unlocated_call(value, [("a",), ("b", "tool_calls", 1)])
    assert not has_unlocated_call(value, [("a",)], own=[("b",)])


def test_the_beginning_of_a_call_has_no_arguments_yet() -> None:
    for begun, has in (({"index": 0, "function": {"name": ""}}, False), ({"args": "x"}, True)):
        value = {"tool_calls": [begun]}
        assert has_unlocated_call(value, (), begun=[("tool_calls", 0)]) is has


def test_a_deep_value_is_searched_without_recursion() -> None:
    value: Any = {"tool_calls": TOOL_CALLS}
    for _ in range(100_000):
        value = [value]
    assert has_unlocated_call(value, ())
    assert not has_call("[" * 100_000)


# Text that is in no frame.


@pytest.mark.parametrize(
    ("lead", "size"),
    [(b"<html>\n", 1000), (b"<html>\n", 10**6), (b"<", 10**6), (b"Hello.\n", 1000)],
)
def test_text_before_the_events_does_not_leave_however_long_it_is(lead: bytes, size: int) -> None:
    data = lead + b"x" * (MAX_TEXT + 1000) + b"\n\n" + CALLS_BEHIND
    before = PassableLength("openai_chat")
    assert {before.add(data[at : at + size]) for at in range(0, len(data), size)} == {0}


def test_text_between_the_events_does_not_leave_however_long_it_is() -> None:
    begin = sse(*BEGINS["openai_chat"])
    data = begin + b"a: bbbb\n" * (MAX_TEXT // 4) + b"\n" + CALLS_BEHIND
    before = PassableLength("openai_chat")
    assert before.add(begin) == len(begin)
    passed = {before.add(data[at : at + 999]) for at in range(len(begin), len(data), 999)}
    assert passed == {len(begin)}


def test_keepalives_leave_when_they_are_complete() -> None:
    begin = sse(*BEGINS["openai_chat"]) + b": ping\n\nretry: 10\n\nevent: ping\n\n"
    before = PassableLength("openai_chat")
    assert before.add(begin) == len(begin)
    assert before.add(b"ping\n\n") == len(begin)
    more = b"ping\n\n" + sse(chunk({"content": "x"}))
    assert before.add(more[6:]) == len(begin) + len(more)


@pytest.mark.parametrize("lead", [b": x\x0b", b": x\xe2\x80\xa8", b"event: x\x0b"])
def test_a_line_that_some_clients_read_as_two_does_not_leave(lead: bytes) -> None:
    """Python's `splitlines` knows more line ends than the specification."""
    begin = sse(*BEGINS["openai_chat"])
    hidden = lead + sse(chunk({"tool_calls": TOOL_CALLS}))
    assert PassableLength("openai_chat").add(begin + hidden) == len(begin)
