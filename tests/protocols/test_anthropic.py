"""Anthropic Messages: blocks, deltas and the quirks of docs/wire.md that concern them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.commands.decode import decode
from playground.core.events import PartEnded, ResponseEnded, ResponseFailed, Warned
from playground.protocols.anthropic.decode import CODEC, label, models
from playground.protocols.base import ModelInfo
from tests.protocols.frames import (
    codes_of,
    end_of,
    events_of,
    message,
    obey_the_grammar,
    parts_of,
    spanned,
    sse,
)

TEXT = {"type": "text", "text": ""}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}


def text_delta(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}


def json_delta(text: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": text}


def event(type_: str, **members: Any) -> dict[str, Any]:
    return {"type": type_, **members}


START = event("message_start", message={"id": "m1", "model": "x", "usage": {"input_tokens": 3}})
STOPPED = [
    event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 5}),
    event("message_stop"),
]


def started(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return event("content_block_start", index=index, content_block=block)


def grown(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return event("content_block_delta", index=index, delta=delta)


def stopped(index: int) -> dict[str, Any]:
    return event("content_block_stop", index=index)


@pytest.mark.parametrize(
    ("block", "text", "state", "raw"),
    [
        ([CALL, json_delta(""), json_delta('{"x"'), json_delta(": 1}")], '{"x": 1}', "object",
         '{"x": 1}'),
        ([CALL, json_delta("")], "{}", "object", None),
        ([CALL], "{}", "object", None),
        ([{**CALL, "input": {"x": 1.10}}], '{"x": 1.1}', "object", None),
        ([{**CALL, "input": {"x": 1}}, json_delta('{"y": 2}')], '{"y": 2}', "object", '{"y": 2}'),
        ([CALL, json_delta('{"x')], '{"x', "invalid", '{"x'),
        ([CALL, json_delta("[1]")], "[1]", "non_object", "[1]"),
        ([{"type": "tool_use", "id": "t1", "name": "f"}], "", "absent", None),
    ],
    ids=["fragments", "Q43 empty", "Q43 none", "in the start", "both", "Q46 sheared", "array",
         "absent"],
)  # fmt: skip
def test_arguments(block: list[Any], text: str, state: str, raw: str | None) -> None:
    body = message(block, reason="tool_use")
    ((kind, part),) = parts_of(events_of("anthropic", body))
    assert (kind, part.text, part.name, part.provider_id) == ("call", text, "f", "t1")
    (call,) = decode("anthropic", body)["tool_calls"]
    assert (call["arguments_state"], call["arguments_raw"]) == (state, raw)


def test_input_of_a_start_keeps_its_own_text() -> None:
    block = '{"type":"tool_use","id":"t","name":"f","input":{"x": 1.10, "x": 9}}'
    body = sse('{"type":"content_block_start","index":0,"content_block":' + block + "}", stopped(0))
    ((_, part),) = parts_of(events_of("anthropic", body))
    assert part.text == '{"x": 1.10, "x": 9}'


@pytest.mark.parametrize(
    ("block", "kind", "text", "stored_data"),
    [
        ([TEXT, text_delta("a"), {"type": "citations_delta", "citation": {"n": 1}}], "text", "a",
         {"type": "text", "citations": [{"n": 1}]}),
        ([{"type": "thinking", "thinking": "", "signature": ""},
          {"type": "thinking_delta", "thinking": "why"},
          {"type": "signature_delta", "signature": "sig"}], "thinking", "why",
         {"type": "thinking", "signature": "sig"}),
        ([{"type": "redacted_thinking", "data": "x"}], "thinking", "",
         {"type": "redacted_thinking", "data": "x"}),
        ([{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
          json_delta('{"q":1}')], "server_call", '{"q":1}',
         {"type": "server_tool_use", "id": "s", "name": "web_search"}),
        ([{"type": "mcp_tool_use", "id": "s", "name": "n", "server_name": "v", "input": {"a": 1}}],
         "server_call", '{"a": 1}',
         {"type": "mcp_tool_use", "id": "s", "name": "n", "server_name": "v"}),
        ([{"type": "web_search_tool_result", "tool_use_id": "s", "content": [1]}], "server_result",
         "", {"type": "web_search_tool_result", "tool_use_id": "s", "content": [1]}),
        ([{"type": "compaction", "content": None},
          {"type": "compaction_delta", "content": "c", "encrypted_content": "e"}], "other", "",
         {"type": "compaction", "content": "c", "encrypted_content": "e"}),
        ([{"type": "fallback", "from": {"model": "a"}}], "other", "",
         {"type": "fallback", "from": {"model": "a"}}),
        ([{"type": "brand_new", "x": [1]}], "other", "", {"type": "brand_new", "x": [1]}),
        ([CALL, json_delta("{}")], "call", "{}", {"type": "tool_use", "id": "t1", "name": "f"}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_blocks(block: list[Any], kind: str, text: str, stored_data: dict[str, Any]) -> None:
    ((match, part),) = parts_of(events_of("anthropic", message(block)))
    assert (match, part.text, part.complete) == (kind, text, True)
    assert part.meta["block"] == stored_data


def test_a_whole_message_yields_the_same_parts_as_its_stream() -> None:
    blocks: list[list[dict[str, Any]]] = [
        [{"type": "thinking", "thinking": "why", "signature": "s"}],
        [{"type": "text", "text": "a"}],
        [{**CALL, "input": {"x": 1}}],
    ]
    whole_message = {
        "type": "message",
        "id": "m1",
        "model": "x",
        "content": [block[0] for block in blocks],
        "stop_reason": "tool_use",
        "usage": {},
    }
    document = events_of("anthropic", json.dumps(whole_message).encode())
    assert document == events_of("anthropic", message(*blocks, reason="tool_use"))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("brand_new", "other"),
    ],
)
def test_reasons(raw: str, reason: str) -> None:
    end = end_of(events_of("anthropic", message([TEXT, text_delta("a")], reason=raw)))
    assert isinstance(end, ResponseEnded)
    assert (end.reason, end.raw_reason, end.meta) == (reason, raw, {"id": "m1", "model": "x"})


def test_counts_come_twice_and_the_later_hold() -> None:
    delta = event("message_delta", delta={"stop_reason": "end_turn"},
                  usage={"input_tokens": 9, "output_tokens": 5, "cache": None})  # fmt: skip
    usage = end_of(events_of("anthropic", sse(START, delta, event("message_stop")))).usage
    assert (usage.input_tokens, usage.output_tokens) == (9, 5)
    assert usage.raw == {"input_tokens": 9, "output_tokens": 5}


def test_what_was_cached_and_what_was_thought_is_counted() -> None:
    answer = {
        "input_tokens": 1,
        "output_tokens": 9,
        "cache_read_input_tokens": 20,
        "cache_creation_input_tokens": 30,
        "output_tokens_details": {"thinking_tokens": 4},
    }
    delta = event("message_delta", delta={"stop_reason": "end_turn"}, usage=answer)
    usage = end_of(events_of("anthropic", sse(START, delta, event("message_stop")))).usage
    assert (usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens) == (20, 30, 4)
    assert usage.raw == answer


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({"category": "bio", "explanation": "Not this."}, "The model refused (bio): Not this."),
        ({"category": None, "explanation": "Not this."}, "The model refused: Not this."),
        ({"category": "cyber"}, "The model refused (cyber): no reason given."),
        ({"type": "refusal", "category": None, "explanation": None}, None),
        (None, None),
    ],
)
def test_why_it_refused_is_told(details: Any, words: str | None) -> None:
    delta = {"stop_reason": "refusal", "stop_details": details}
    events = events_of(
        "anthropic", sse(START, event("message_delta", delta=delta), event("message_stop"))
    )
    lines = [
        event.message for event in events if isinstance(event, Warned) and event.code == "refused"
    ]
    assert lines == ([words] if words else [])
    end = end_of(events)
    assert isinstance(end, ResponseEnded)
    assert end.reason == "refusal"
    assert end.meta.get("stop_details") == details


def test_a_list_of_models_with_what_they_can() -> None:
    rich = {
        "id": "claude-a",
        "display_name": "Claude A",
        "max_input_tokens": 200000,
        "capabilities": {"image_input": {"supported": True}, "thinking": {"supported": False}},
    }
    assert models({"data": [rich, {"id": "b", "capabilities": None}, 7]}) == (
        ModelInfo(
            "claude-a", name="Claude A", tools=None, images=True, reasoning=False, window=200000
        ),
        ModelInfo("b"),
    )


def test_a_block_that_was_never_stopped_is_not_complete() -> None:
    body = sse(START, started(0, CALL), grown(0, json_delta('{"x": 1}')), *STOPPED)
    ((_, part),) = parts_of(events_of("anthropic", body))
    assert (part.text, part.complete) == ('{"x": 1}', False)
    # An empty input that was cut is not known to be {}.
    ((_, part),) = parts_of(events_of("anthropic", sse(START, started(0, CALL), *STOPPED)))
    assert (part.text, part.complete) == ("", False)


def test_q45_a_restarted_message_never_grows_an_older_call() -> None:
    body = sse(
        START,
        started(0, CALL),
        grown(0, json_delta('{"x": ')),
        START,
        started(0, {**CALL, "id": "t2"}),
        grown(0, json_delta("{}")),
        stopped(0),
        *STOPPED,
    )
    events = events_of("anthropic", body)
    parts = [(part.provider_id, part.text, part.complete) for _, part in parts_of(events)]
    assert parts == [("t1", '{"x": ', False), ("t2", "{}", True)]
    assert codes_of(events) == ["restarted"]


@pytest.mark.parametrize(
    ("values", "parts", "codes"),
    [
        ([grown(0, text_delta("a"))], [("text", "a")], ["no_start"]),
        ([grown(0, json_delta("{}"))], [("call", "{}")], ["no_start"]),
        ([grown(0, {"type": "signature_delta"})], [], ["no_block"]),
        ([started(0, TEXT), stopped(0), grown(0, text_delta("a"))], [("text", "")], ["no_block"]),
        ([stopped(4)], [], ["no_block"]),
        ([started(0, TEXT), grown(0, text_delta("a")), started(0, TEXT), grown(0, text_delta("b"))],
         [("text", "a"), ("text", "b")], ["started_twice"]),
        ([started(0, TEXT), grown(0, {"type": "odd_delta"})], [("text", "")], ["unknown_delta"]),
        ([event("brand_new")], [], ["unknown_event"]),
        ([event("ping")], [], []),
        ([started(2, TEXT), started(1, CALL), grown(2, text_delta("a")), grown(1, json_delta("{"))],
         [("text", "a"), ("call", "{")], []),
    ],
)  # fmt: skip
def test_blocks_out_of_order(values: list[Any], parts: list[Any], codes: list[str]) -> None:
    events = events_of("anthropic", sse(START, *values))
    assert [(kind, part.text) for kind, part in parts_of(events)] == parts
    assert codes_of(events) == codes


def test_a_call_ends_with_the_stop_of_its_block() -> None:
    """Not with the whole answer: until then its card would say that arguments are streaming."""
    decoder = CODEC.decoder(200)
    decoder.feed(sse(START, started(0, CALL), grown(0, json_delta('{"x": 1}'))))
    ((_, _, ended),) = decoder.feed(sse(stopped(0)))
    assert isinstance(ended, PartEnded)
    assert (ended.text, ended.complete) == ('{"x": 1}', True)


def test_input_of_a_start_that_differs_from_the_pieces_is_told() -> None:
    def codes(given: Any, *pieces: str) -> list[str]:
        block = [{**CALL, "input": given}, *map(json_delta, pieces)]
        return codes_of(events_of("anthropic", message(block, reason="tool_use")))

    assert codes({"x": 1}, '{"y": 2}') == ["call_differs"]
    assert codes({"x": 1}, "{}") == ["call_differs"]
    assert codes({"x": 1}, '{"x":', "1}") == []
    assert codes({"x": 1}) == []
    assert codes({}, '{"y": 2}') == []


@pytest.mark.parametrize(
    "between", [[], [started(1, TEXT)], [STOPPED[0]]], ids=["nothing", "block", "end"]
)
@pytest.mark.parametrize("early", ["", "{}"])
def test_arguments_after_their_call_has_ended_spoil_the_answer(
    between: list[dict[str, Any]], early: str
) -> None:
    head = [START, started(0, CALL), grown(0, json_delta(early)), stopped(0), *between]
    body = sse(*head, grown(0, json_delta("")), grown(0, json_delta('{"x": 1}')), *STOPPED)
    events = spanned("anthropic", body)
    end = end_of([event for _, _, event in events])
    assert isinstance(end, ResponseFailed)
    assert end.message.endswith("Retry.")
    obey_the_grammar(events, len(body))


@pytest.mark.parametrize(
    ("tail", "ended", "codes"),
    [
        (STOPPED, "complete", []),
        (STOPPED[:1], "complete", ["no_marker"]),
        ([], "interrupted", []),
        (STOPPED[1:], "interrupted", []),
        ([*STOPPED, "[DONE]"], "complete", []),  # Q42
        ([*STOPPED, "[DONE]", "[DONE]"], "complete", ["after_end"]),
        ([*STOPPED, grown(0, text_delta("a"))], "complete", ["after_end"]),
        ([*STOPPED[:1], "[DONE]"], "complete", []),
        ([event("error", error={"type": "overloaded_error", "message": "no"}), *STOPPED], "error",
         ["after_end", "after_end"]),  # Q41
    ],
)  # fmt: skip
def test_ends(tail: list[Any], ended: str, codes: list[str]) -> None:
    block = [started(0, CALL), grown(0, json_delta("{}")), stopped(0)]
    events = events_of("anthropic", sse(START, *block, *tail))
    end = end_of(events)
    assert (end.failure if isinstance(end, ResponseFailed) else "complete") == ended
    assert codes_of(events) == codes


def test_q47_an_empty_answer_is_told() -> None:
    events = events_of("anthropic", message())
    assert codes_of(events) == ["empty_answer"]
    assert isinstance(end_of(events), ResponseEnded)


def test_the_type_may_be_missing_from_the_data() -> None:
    body = b"event: content_block_start\n" + sse({"index": 0, "content_block": {"type": "text"}})
    ((kind, _),) = parts_of(events_of("anthropic", body))
    assert kind == "text"


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (grown(0, json_delta("")), "content_block_delta input_json_delta"),
        (started(0, CALL), "content_block_start tool_use"),
        (STOPPED[0], "message_delta tool_use"),
        (event("error", error={"type": "api_error"}), "error api_error"),
        ({"delta": 7}, ""),
    ],
)
def test_labels(frame: dict[str, Any], words: str) -> None:
    assert label(frame) == words


def test_a_call_of_an_abandoned_attempt_is_doubted() -> None:
    """It ended before the message started anew, so the warning alone keeps rules from it."""

    def call_frames(id_: str) -> list[dict[str, Any]]:
        return [started(0, {**CALL, "id": id_}), grown(0, json_delta('{"x": 1}')), stopped(0)]

    lines = [started(0, TEXT), grown(0, text_delta("no")), stopped(0)]
    stop = event("message_delta", delta={"stop_reason": "end_turn"}, usage={})
    for first in (
        call_frames("t1"),
        [*call_frames("t1"), started(1, TEXT)],
        [*call_frames("t1"), STOPPED[0]],
    ):
        body = sse(START, *first, START, *lines, stop, event("message_stop"))
        events = spanned("anthropic", body)
        obey_the_grammar(events, len(body))
        assert "restarted" in codes_of([event for _, _, event in events])
    # A call that was not stopped is not complete.
    body = sse(START, *call_frames("t1")[:2], START, *call_frames("t2"), *STOPPED)
    parts = [part.complete for _, part in parts_of(events_of("anthropic", body))]
    assert parts == [False, True]
    # The reason of the first attempt is none of the second.
    body = sse(START, *call_frames("t1"), STOPPED[0], START, *call_frames("t2"))
    assert isinstance(end_of(events_of("anthropic", body)), ResponseFailed)


@pytest.mark.parametrize(
    ("place", "is_complete"), [(0, True), (1, True), (2, False), (3, False), (4, True), (5, True)]
)
def test_what_is_lost_after_a_call_is_none_of_it(place: int, is_complete: bool) -> None:
    call = [started(0, CALL), grown(0, json_delta('{"x": 1}')), stopped(0)]
    values: list[Any] = [START, *call, started(1, TEXT), stopped(1), *STOPPED]
    values.insert(place, '{"type": "content_blo')
    events = events_of("anthropic", sse(*values))
    assert [part.complete for kind, part in parts_of(events) if kind == "call"] == [is_complete]
    assert codes_of(events) == ["bad_json"]


def test_arguments_that_are_no_text_are_not_passed_over() -> None:
    """Left out alone they would make a call of nothing, which might run."""
    start = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    body = message([start, {"type": "input_json_delta", "partial_json": {"x": 1}}])
    events = events_of("anthropic", body)
    ((_, call),) = parts_of(events)
    assert not call.complete
    assert codes_of(events) == ["odd_delta"]
