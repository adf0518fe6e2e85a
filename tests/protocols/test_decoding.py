"""Errors, ends and what cannot be read: the half of every decoder that is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.commands.decode import decode
from playground.core.events import PartDelta, PartStarted, ResponseEnded, ResponseFailed, Warned
from tests.protocols import answers
from tests.protocols.answers import PROTOCOLS
from tests.protocols.frames import (
    DONE,
    calls,
    chunk,
    codes_of,
    end_of,
    events_of,
    fragment,
    line,
    lines,
    parts_of,
    sse,
)

FINISH = chunk({}, "tool_calls")

ERROR = {"message": "no", "type": "t", "code": "c"}


@pytest.mark.parametrize(
    ("tail", "clean", "ended", "code"),
    [
        ([chunk({}, "stop"), DONE], True, "complete", None),
        ([chunk({}, "stop")], True, "complete", "no_marker"),  # Q42
        ([chunk({}, "stop")], False, "complete", "no_marker unclean_close"),
        ([chunk({}, "stop"), DONE], False, "complete", "unclean_close"),
        ([], True, "interrupted", None),
        ([DONE], True, "interrupted", None),  # Q18
        ([chunk({}, "stop"), DONE, DONE], True, "complete", "after_end"),
        ([chunk({}, "stop"), DONE, chunk({"content": "b"})], True, "complete", "after_end"),
        ([chunk({}, "error")], True, "error", None),
    ],
)
def test_ends(tail: list[Any], clean: bool, ended: str, code: str | None) -> None:
    body = sse(chunk({"content": "a"}), calls(fragment(0, "a", "f", "{}")), *tail)
    events = events_of("openai_chat", body, clean=clean)
    end = end_of(events)
    good = isinstance(end, ResponseEnded)
    assert (end.failure if isinstance(end, ResponseFailed) else "complete") == ended
    assert codes_of(events) == (code.split() if code else [])
    assert all(part.complete == good for kind, part in parts_of(events) if kind == "call")


def test_a_body_that_ends_inside_a_frame_is_interrupted() -> None:
    first = sse(chunk({"content": "a"}, "stop")).rstrip()
    body = first + b"\n\ndata: [DONE]\n\n"
    good = [size for size in range(1, len(body) + 1) if _is_good(body[:size])]
    marked = body.index(b"[DONE]") + len(b"[DONE]")
    assert good == [*range(len(first), len(first) + 3), *range(marked, len(body) + 1)]


def _is_good(body: bytes) -> bool:
    end = end_of(events_of("openai_chat", body))
    assert isinstance(end, ResponseEnded) or end.failure == "interrupted", body
    return isinstance(end, ResponseEnded)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (sse(chunk({"content": "a"}), {"error": ERROR}), ERROR),
        (b"event: error\n" + sse({"error": {**ERROR, "failed_generation": "x"}}),
         {**ERROR, "failed_generation": "x"}),
        (sse({"object": "error", **ERROR}), {"object": "error", **ERROR}),
        (sse(chunk({"content": ""}, "error", error=ERROR)), ERROR),
        (sse(chunk({"content": "a"})) + b'{\n "error": {\n  "message": "no"\n }\n}\n',
         {"message": "no"}),
        (b'{"error": {"message": "no"}}', {"message": "no"}),
        (b'{"error": "no"}', "no"),
        (b'[{"error": {"code": 400, "message": "no"}}]', {"code": 400, "message": "no"}),
        (b'{"code": "c", "error": "no"}', {"code": "c", "error": "no"}),
        (b'{"detail": "no"}', {"detail": "no"}),
        (b'{"message": "no"}', {"message": "no"}),
    ],
    ids=["Q41 chunk", "Q41 event", "Q41 object", "in a chunk", "Q59", "json", "ollama", "array",
         "xai", "detail", "message"],
)  # fmt: skip
def test_errors_inside_a_good_status(body: bytes, error: Any) -> None:
    end = end_of(events_of("openai_chat", body))
    assert isinstance(end, ResponseFailed)
    assert (end.failure, end.error) == ("error", error)
    assert "no" in end.message


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (400, b'{"error": {"message": "bad field", "param": "x"}}',
         {"message": "bad field", "param": "x"}, "400: bad field."),
        (401, b'{"detail": [{"msg": "no key"}]}', {"detail": [{"msg": "no key"}]}, "no key"),
        (500, b"<html>Oops</html>", "<html>Oops</html>", "an HTML or XML page"),
        (503, b"", None, "503. Retry"),
        (429, b'data: {"error": {"message": "slow"}}\n\n', {"message": "slow"}, "slow"),
        (404, b'[{"error": {"message": "no such"}}]', {"message": "no such"}, "no such"),
        (418, b'{"weird": 1}', {"weird": 1}, "418"),
        (400, b'{"error": {"mess', None, "400"),
    ],
)  # fmt: skip
def test_errors_by_status(status: int, body: bytes, error: Any, words: str) -> None:
    end = end_of(events_of("openai_chat", body, status=status))
    assert isinstance(end, ResponseFailed)
    assert (end.failure, end.status, end.error) == ("http", status, error)
    assert words in end.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>no</html>", "HTML"),
        (b"", "an empty body"),
        (b": ping\n\n", "an empty body"),
        (b'{"hello": 1}', "something else"),
        (b"data: <html>\n\n", "<html>"),
        (b"upstream is down", "upstream is down"),
    ],
)
def test_what_is_no_answer_at_all(body: bytes, words: str) -> None:
    end = end_of(events_of("openai_chat", body))
    assert isinstance(end, ResponseFailed)
    assert end.failure == "not_api"
    assert words in end.message
    assert decode("openai_chat", body)["error"]["type"] == "not_api"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("nope", "bad_json"),
        ("[1]", "not_an_object"),
        ("null", "not_an_object"),
        ("", "empty_event"),
        ('{"type": "new"}', "unknown_event"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "bad_json"),
    ],
)
def test_what_cannot_be_read_is_told(data: str, code: str) -> None:
    body = sse(chunk({"content": "a"}), data, chunk({"content": "b"}, "stop"), DONE)
    events = events_of("openai_chat", body)
    assert codes_of(events) == [code]
    assert decode("openai_chat", body)["text"] == "ab"


def test_q29_a_jump_is_one_delta_and_warnings_are_counted() -> None:
    body = sse(calls(fragment(0, "a", "f", '{"x":1}')), *["nope"] * 1000, FINISH, DONE)
    events = events_of("openai_chat", body)
    assert [event for event in events if isinstance(event, PartDelta)] == [PartDelta(0, '{"x":1}')]
    assert PartStarted(0, "call", "f", "a") in events
    assert len(codes_of(events)) == 20


@pytest.mark.parametrize(
    "reason", ["abort", "aborted", "cancelled", "canceled", "timeout", "expired", "Error", "failed"]
)
def test_a_reason_that_tells_of_trouble_is_no_answer(reason: str) -> None:
    body = sse(calls(fragment(0, "a", "f", "{}")), chunk({}, reason), DONE)
    end = end_of(events_of("openai_chat", body))
    assert isinstance(end, ResponseFailed)
    assert (end.failure, end.raw_reason) == ("error", reason)


@pytest.mark.parametrize(
    ("between", "is_complete"),
    [
        (b"", True),
        (b"data: [1]\n\n", True),
        (b'data: {"choices":[{"index":0,"delta":{"content":"\xff"}}]}\n\n', False),
        (b": \xff\n\n", True),
        (b"data:\n\n", True),
    ],
    ids=["all", "no object", "not UTF-8", "a comment", "empty"],
)
def test_after_a_frame_that_is_no_utf8_an_open_call_is_not_complete(
    between: bytes, is_complete: bool
) -> None:
    head, tail = (
        sse(calls(fragment(0, "a", "f", '{"x":1'))),
        sse(calls(fragment(0, arguments="}")), FINISH, DONE),
    )
    events = events_of("openai_chat", head + between + tail)
    assert isinstance(end_of(events), ResponseEnded)
    assert [part.complete for kind, part in parts_of(events) if kind == "call"] == [is_complete]


def test_a_call_made_from_bytes_that_are_no_utf8_is_not_complete() -> None:
    for protocol, body in (
        ("openai_chat", sse(calls(fragment(0, "a", "f", '{"x":"Q"}')), FINISH, DONE)),
        (
            "ollama",
            lines(
                line({"tool_calls": [{"function": {"name": "f", "arguments": {"x": "Q"}}}]}),
                line({}, done=True, done_reason="stop"),
            ),
        ),
    ):
        for good, sent in ((True, body), (False, body.replace(b"Q", b"\xc3("))):
            events = events_of(protocol, sent)
            assert isinstance(end_of(events), ResponseEnded)
            assert [part.complete for _, part in parts_of(events)] == [good]


@pytest.mark.parametrize(
    ("tail", "ended"),
    [(b"]", "complete"), (b"\n]\n", "complete"), (b"", "interrupted"), (b",\n", "interrupted")],
)
def test_an_array_that_was_never_closed_is_cut(tail: bytes, ended: str) -> None:
    answer = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}
    end = end_of(events_of("gemini", b"[" + json.dumps(answer).encode() + tail))
    assert (end.failure if isinstance(end, ResponseFailed) else "complete") == ended


@pytest.mark.parametrize(
    "line",
    [
        *("x-trace: 1", "data: null", "data: []", 'data: "ping"', "data:   ", "data: ping"),
        *("data: keep-alive", "OPENROUTER PROCESSING", "[]"),
    ],
)
@pytest.mark.parametrize("place", [2, 3])
def test_signs_of_life_leave_a_call_as_it_is(line: str, place: int) -> None:
    """What can be no piece of an answer was not lost from one."""
    frames = [
        sse(calls(fragment(0, "a", "f", '{"x"'))),
        sse(calls(fragment(0, arguments=": 1}"))),
        sse(chunk({}, "tool_calls"), DONE),
    ]
    body = b"".join(frames[: place - 1]) + f"{line}\n\n".encode() + b"".join(frames[place - 1 :])
    events = events_of("openai_chat", body)
    ((_, ended),) = parts_of(events)
    assert (ended.text, ended.complete) == ('{"x": 1}', True)
    assert isinstance(end_of(events), ResponseEnded)


def test_a_frame_that_broke_after_the_reason_was_none_of_the_call() -> None:
    body = sse(calls(fragment(0, "a", "f", "{}")), chunk({}, "tool_calls"))
    body += b'data: {"choices":[], "x":"\xff"}\n\n'
    ((_, ended),) = parts_of(events_of("openai_chat", body + sse(DONE)))
    assert ended.complete


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', True),
        ('I look. <tool_call>{"name": "f", "arguments": {}}</tool_call>', True),
        ('[TOOL_CALLS][{"name": "f", "arguments": {}}]', True),
        ("<function=f><parameter=x>1</parameter></function>", True),
        ('<|python_tag|>{"name": "f", "parameters": {}}', True),
        ('{"name": "f", "arguments": {"x": 1}}', True),
        ('```json\n[{"name": "f", "parameters": {}}]\n```', True),
        ('{"type": "function", "name": "f", "parameters": {}}', True),
        ('{"name": "Ada", "age": 36}', False),
        ("A call is a function with arguments.", False),
    ],
)
def test_a_text_that_looks_like_a_call_is_told(protocol: str, text: str, flag: bool) -> None:
    events = events_of(protocol, answers.body(protocol, [answers.text(text)]))
    assert ("call_as_text" in codes_of(events)) == flag
    assert not [kind for kind, _ in parts_of(events) if kind == "call"]


def test_a_text_that_looks_like_a_call_beside_one_is_not_told() -> None:
    answer = chunk({"content": "<tool_call>"})
    events = events_of("openai_chat", sse(answer, calls(fragment(0, "a", "f", "{}")), FINISH, DONE))
    assert "call_as_text" not in codes_of(events)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"error parsing tool call": "raw='{', err=EOF"}, "tool call: raw='{', err=EOF"),
        ({"Error": "no more"}, "no more"),
        ({"errors": [{"message": "no more"}]}, "no more"),
        ({"error_message": "no more", "code": 5}, "no more"),
    ],
)  # fmt: skip
def test_an_error_that_is_named_otherwise_is_shown_in_its_words(
    protocol: str, value: dict[str, Any], words: str
) -> None:
    written = lines(value) if protocol == "ollama" else sse(value)
    end = end_of(events_of(protocol, written))
    assert isinstance(end, ResponseFailed)
    assert words in end.message
    assert end.error == value


@pytest.mark.parametrize("protocol", ["anthropic", "openai_responses"])
@pytest.mark.parametrize(
    "value", [{"type": "brand_new", "error_rate": "low"}, {"error_count": 2}], ids=repr
)
def test_an_event_that_only_mentions_errors_is_none(protocol: str, value: dict[str, Any]) -> None:
    assert codes_of(events_of(protocol, sse(value))) == ["unknown_event"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_object_that_is_not_known_is_quoted(protocol: str) -> None:
    value = {"llama runner process": "no longer running"}
    written = lines(value) if protocol == "ollama" else sse(value)
    warneds = [event for event in events_of(protocol, written) if isinstance(event, Warned)]
    assert "no longer running" in warneds[0].message


@pytest.mark.parametrize(
    "type_", ["ping", "response.keep_alive", "keepalive", "codex.rate_limits", "heartbeat"]
)
@pytest.mark.parametrize("protocol", ["anthropic", "openai_chat", "openai_responses"])
def test_signs_of_life_are_not_told(protocol: str, type_: str) -> None:
    assert codes_of(events_of(protocol, sse({"type": type_}))) == []
