"""Which call a piece of the wire belongs to: the same cases for every protocol that can write them.

No call is lost, doubled or joined with another in silence: either each has its own arguments, or
something is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from playground.core.events import PartStarted, Warned
from tests.protocols.frames import calls as chat_calls
from tests.protocols.frames import (
    chunk,
    events_of,
    fragment,
    line,
    lines,
    parts_of,
    spanned,
    sse,
)
from tests.protocols.gemini import call as gemini_call
from tests.protocols.gemini import event as gemini_event
from tests.protocols.gemini import growing, partial_arg

A, B = '{"hall":"A"}', '{"hall":"B"}'
Call = tuple[str, str]
"""The id and the arguments of a call."""

# How each protocol writes a story of `start`, `piece`, `end`; None: it cannot.


HALL_A, HALL_B = {"hall": "A"}, {"hall": "B"}
TWO = [("a", A), ("b", B)]
NAMELESS = [("", A), ("", B)]


OF_NO_CALL = ("no_block", "empty_call", "odd_call")
"""Warnings about a fragment that belongs to no call."""


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if value is not None}


def _item(call_id: Any, arguments: str, *, id: Any = None) -> dict[str, Any]:
    head = {"type": "function_call", "id": id, "call_id": call_id, "name": "seat_map"}
    return _bare({**head, "arguments": arguments})


def _event(type_: str, index: int | None = None, **more: Any) -> dict[str, Any]:
    return _bare({"type": f"response.{type_}", "output_index": index, **more})


def _delta(text: str, index: int | None = None, item_id: Any = None) -> dict[str, Any]:
    return _event("function_call_arguments.delta", index, delta=text, item_id=item_id)


def _added(index: int | None = None, **item: Any) -> dict[str, Any]:
    return _event("output_item.added", index, item=_item(item.pop("call_id", None), "", **item))


def _done(text: str, index: int | None = None, **item: Any) -> dict[str, Any]:
    return _event("output_item.done", index, item=_item(item.pop("call_id", None), text, **item))


def _responses(*values: Any, output: Sequence[Any] = ()) -> bytes:
    response = {"id": "r", "status": "completed", "output": list(output)}
    return sse(
        _event("created", response={"id": "r"}), *values, _event("completed", response=response)
    )


def _start(index: int | None, id: str, **block: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": "seat_map", "input": {}, **block}
    return _bare({"type": "content_block_start", "index": index, "content_block": block})


def _json(index: int | None, text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    return _bare({"type": "content_block_delta", "index": index, "delta": delta})


def _stop(index: int | None) -> dict[str, Any]:
    return _bare({"type": "content_block_stop", "index": index})


def _anthropic(*values: Any) -> bytes:
    return sse(
        {"type": "message_start", "message": {"id": "m", "usage": {}}},
        *values,
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    )


def _chat(*fragments: dict[str, Any]) -> bytes:
    role = chunk({"role": "assistant"})
    return sse(role, *map(chat_calls, fragments), chunk({}, "tool_calls"), "[DONE]")


def _chat_again(fragments: Sequence[Any], again: Sequence[Any]) -> bytes:
    """The calls, and a message at the end that has them once more."""
    message = {"role": "assistant", "content": None, "tool_calls": again}
    end = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    role = chunk({"role": "assistant"})
    return sse(role, *map(chat_calls, fragments), {"id": "c", **end}, "[DONE]")


def _gemini(*values: Any) -> bytes:
    return sse(*(gemini_event(value) for value in values), gemini_event(reason="STOP"))


def _ollama(*called: Any, last: Sequence[Any] = ()) -> bytes:
    items = [line({"tool_calls": [each]}) for each in called]
    end = line({"content": "", "tool_calls": list(last)}, done=True, done_reason="stop")
    return lines(*items, end)


def _function(arguments: Any, **more: Any) -> dict[str, Any]:
    return {**more, "function": {"name": "seat_map", "arguments": arguments}}


CASES: Mapping[str, tuple[str, bytes, Sequence[Call], Sequence[str]]] = {
    # No identity at all: one call behind the other.
    "responses, absent": (
        "openai_responses",
        _responses(_added(), _delta(A), _done(A), _added(), _delta(B), _done(B)),
        NAMELESS,
        [],
    ),
    "anthropic, absent": (
        "anthropic",
        _anthropic(
            *(_start(None, "a"), _json(None, A), _stop(None)),
            *(_start(None, "b"), _json(None, B), _stop(None)),
        ),
        TWO,
        [],
    ),
    "chat, absent": (
        "openai_chat",
        _chat(
            *(fragment(name="seat_map", arguments='{"hall"'), fragment(arguments=':"A"}')),
            *(fragment(name="seat_map", arguments='{"hall"'), fragment(arguments=':"B"}')),
        ),
        NAMELESS,
        [],
    ),
    "gemini, absent": (
        "gemini",
        _gemini(gemini_call("seat_map", args=HALL_A), gemini_call("seat_map", args=HALL_B)),
        [("", '{"hall": "A"}'), ("", '{"hall": "B"}')],
        [],
    ),
    "gemini, absent and equal": (
        "gemini",
        _gemini(gemini_call("seat_map", args=HALL_A), gemini_call("seat_map", args=HALL_A)),
        [("", '{"hall": "A"}')] * 2,
        [],
    ),
    "ollama, absent": (
        "ollama",
        _ollama(_function(HALL_A), _function(HALL_B)),
        [("", '{"hall": "A"}'), ("", '{"hall": "B"}')],
        [],
    ),
    # Some of it: item ids alone, call ids alone, an index alone.
    "responses, item ids alone": (
        "openai_responses",
        _responses(
            *(_added(id="i", call_id="a"), _added(id="j", call_id="b")),
            *(_delta('{"hall"', item_id="i"), _delta('{"hall"', item_id="j")),
            *(_delta(':"A"}', item_id="i"), _delta(':"B"}', item_id="j")),
            *(_done(A, id="i", call_id="a"), _done(B, id="j", call_id="b")),
            output=[_item("a", A, id="i"), _item("b", B, id="j")],
        ),
        TWO,
        [],
    ),
    "responses, call ids alone": (
        "openai_responses",
        _responses(
            *(_added(call_id="a"), _added(call_id="b")),
            *(_delta('{"hall"', item_id="a"), _delta('{"hall"', item_id="b")),
            *(_delta(':"A"}', item_id="a"), _delta(':"B"}', item_id="b")),
            *(_done(A, call_id="a"), _done(B, call_id="b")),
            output=[_item("a", A), _item("b", B)],
        ),
        TWO,
        [],
    ),
    "responses, another item id in each event": (
        "openai_responses",
        _responses(
            *(_added(0, id="i", call_id="a"), _delta(A, 0, "j"), _done(A, 0, id="k", call_id="a")),
            output=[_item("a", A, id="l")],
        ),
        TWO[:1],
        [],
    ),
    "responses, an index in the pieces alone": (
        "openai_responses",
        _responses(_added(call_id="a"), _delta(A, 0), _done(A, 0, call_id="a")),
        TWO[:1],
        [],
    ),
    "responses, another index at the end": (
        "openai_responses",
        _responses(_added(0, call_id="a", id="i"), _delta(A, 0), _done(A, 1, call_id="a", id="i")),
        TWO[:1],
        [],
    ),
    "chat, ids alone": (
        "openai_chat",
        _chat(
            *(
                fragment(id="a", name="seat_map", arguments='{"hall"'),
                fragment(id="b", name="seat_map", arguments='{"hall"'),
            ),
            *(fragment(id="a", arguments=':"A"}'), fragment(id="b", arguments=':"B"}')),
        ),
        TWO,
        [],
    ),
    "chat, an id that is the word null": (
        "openai_chat",
        _chat(
            fragment(id="a", name="seat_map", arguments='{"hall"'),
            fragment(id="null", name="", arguments=':"A"}'),
        ),
        TWO[:1],
        [],
    ),
    "anthropic, no index in the pieces": (
        "anthropic",
        _anthropic(
            *(_start(0, "t", type="text", text="x"), _stop(0)),
            *(_start(1, "a"), _json(None, A), _stop(None)),
        ),
        TWO[:1],
        [],
    ),
    "chat, no index in the pieces": (
        "openai_chat",
        _chat(fragment(1, "a", "seat_map", '{"hall"'), fragment(arguments=':"A"}')),
        TWO[:1],
        [],
    ),
    # Ids that are numbers, empty, or the same for two calls.
    "chat, ids are numbers": (
        "openai_chat",
        _chat(
            *(fragment(None, 1, "seat_map", '{"hall"'), fragment(None, 2, "seat_map", B)),
            fragment(None, 1, arguments=':"A"}'),
        ),
        [("1", A), ("2", B)],
        [],
    ),
    "responses, ids are numbers": (
        "openai_responses",
        _responses(
            *(_added(call_id=1, id=3), _added(call_id=2, id=4)),
            *(_delta(A, item_id=3), _delta(B, item_id=4)),
            *(_done(A, call_id=1, id=3), _done(B, call_id=2, id=4)),
        ),
        [("1", A), ("2", B)],
        [],
    ),
    "ollama, ids are numbers": (
        "ollama",
        _ollama(_function(HALL_A, id=1), _function(HALL_B, id=2)),
        [("1", '{"hall": "A"}'), ("2", '{"hall": "B"}')],
        [],
    ),
    "chat, empty ids": (
        "openai_chat",
        _chat(
            *(fragment(0, "", "seat_map", '{"hall"'), fragment(1, "", "seat_map", B)),
            fragment(0, "", arguments=':"A"}'),
        ),
        NAMELESS,
        [],
    ),
    "anthropic, empty ids": (
        "anthropic",
        _anthropic(*(_start(0, ""), _json(0, A), _stop(0), _start(1, ""), _json(1, B), _stop(1))),
        NAMELESS,
        [],
    ),
    "responses, empty ids": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="", id=""), _added(1, call_id="", id="")),
            *(_delta(A, 0, ""), _delta(B, 1, "")),
            *(_done(A, 0, call_id="", id=""), _done(B, 1, call_id="", id="")),
        ),
        NAMELESS,
        [],
    ),
    "chat, one id for two": (
        "openai_chat",
        _chat(fragment(0, "a", "seat_map", A), fragment(1, "a", "seat_map", B)),
        [("a", A), ("a", B)],
        ["same_id"],
    ),
    "responses, one id for two": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="a"), _delta(A, 0), _done(A, 0, call_id="a")),
            *(_added(1, call_id="a"), _delta(B, 1), _done(B, 1, call_id="a")),
        ),
        [("a", A), ("a", B)],
        ["same_id"],
    ),
    "anthropic, one id for two": (
        "anthropic",
        _anthropic(*(_start(0, "a"), _json(0, A), _stop(0), _start(1, "a"), _json(1, B), _stop(1))),
        [("a", A), ("a", B)],
        ["same_id"],
    ),
    "gemini, one id for two": (
        "gemini",
        _gemini(
            gemini_call("seat_map", args=HALL_A, id="a"),
            gemini_call("seat_map", args=HALL_B, id="a"),
        ),
        [("a", '{"hall": "A"}'), ("a", '{"hall": "B"}')],
        ["same_id"],
    ),
    # An index or an id comes late, and counts from then on.
    "chat, the id comes late": (
        "openai_chat",
        _chat(
            *(fragment(0, name="seat_map", arguments='{"hall"'), fragment(0, "a")),
            *(fragment(1, "b", "seat_map", B), fragment(id="a", arguments=':"A"}')),
        ),
        TWO,
        [],
    ),
    "chat, the index comes late": (
        "openai_chat",
        _chat(
            *(fragment(id="a", name="seat_map"), fragment(0, arguments='{"hall"')),
            *(fragment(id="b", name="seat_map"), fragment(1, arguments=B)),
            fragment(0, arguments=':"A"}'),
        ),
        TWO,
        [],
    ),
    "responses, the index comes late": (
        "openai_responses",
        _responses(
            *(_added(call_id="a"), _delta('{"hall"', 0), _added(call_id="b"), _delta(B, 1)),
            *(_delta(':"A"}', 0), _done(A, 0, call_id="a"), _done(B, 1, call_id="b")),
        ),
        TWO,
        [],
    ),
    "responses, the item id comes late": (
        "openai_responses",
        _responses(
            *(_added(call_id="a"), _delta('{"hall"', item_id="i")),
            *(_added(call_id="b"), _delta(B, item_id="j"), _delta(':"A"}', item_id="i")),
            *(_done(A, call_id="a", id="i"), _done(B, call_id="b", id="j")),
        ),
        TWO,
        [],
    ),
    "responses, the call id comes late": (
        "openai_responses",
        _responses(_added(0, id="i"), _delta(A, 0, "i"), _done(A, 0, id="i", call_id="a")),
        TWO[:1],
        [],
    ),
    "responses, the call id comes with a second start": (
        "openai_responses",
        _responses(
            *(_added(0, id="i"), _added(0, id="i", call_id="a"), _delta(A, 0)),
            _done(A, 0, id="i", call_id="a"),
        ),
        TWO[:1],
        ["started_twice"],
    ),
    "gemini, the id comes late": (
        "gemini",
        _gemini(
            growing(partial_arg("$.hall", stringValue="A", more=True), name="seat_map"),
            {"functionCall": {"id": "a", "willContinue": True}},
            growing(partial_arg("$.hall", stringValue="")),
            {"functionCall": {"id": "a"}},
        ),
        [("a", '{"hall":"A"}')],
        [],
    ),
    "responses, an end behind a call without ids": (
        "openai_responses",
        _responses(_added(), _delta(A), _done(A), _done(B, call_id="b")),
        [("", A), ("b", B)],
        [],
    ),
    # Fragments that say nothing.
    "chat, nothing": (
        "openai_chat",
        _chat({}, fragment(0, "a", "seat_map", A), {}, fragment(0, arguments="")),
        TWO[:1],
        ["empty_call"],
    ),
    "anthropic, nothing": (
        "anthropic",
        _anthropic(_start(0, "a"), _json(0, ""), _json(0, A), _json(0, ""), _stop(0)),
        TWO[:1],
        [],
    ),
    "responses, nothing": (
        "openai_responses",
        _responses(_added(0, call_id="a"), _delta(""), _delta(A, 0), _done(A, 0, call_id="a")),
        TWO[:1],
        [],
    ),
    "gemini, nothing": (
        "gemini",
        _gemini({"functionCall": {}}, gemini_call("seat_map", args=HALL_A)),
        [("", '{"hall": "A"}')],
        ["empty_call"],
    ),
    "ollama, nothing": (
        "ollama",
        _ollama({}, _function(HALL_A)),
        [("", '{"hall": "A"}')],
        ["odd_call"],
    ),
    # Interleaved, with all identity there is.
    "responses, interleaved": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="a"), _added(1, call_id="b"), _delta('{"hall"', 0)),
            *(_delta(B, 1), _delta(':"A"}', 0), _done(B, 1, call_id="b"), _done(A, 0, call_id="a")),
        ),
        TWO,
        [],
    ),
    "anthropic, interleaved": (
        "anthropic",
        _anthropic(
            *(_start(0, "a"), _start(1, "b"), _json(0, '{"hall"'), _json(1, B)),
            *(_json(0, ':"A"}'), _stop(1), _stop(0)),
        ),
        TWO,
        [],
    ),
    "chat, interleaved": (
        "openai_chat",
        _chat(
            fragment(0, "a", "seat_map", '{"hall"'),
            fragment(1, "b", "seat_map", B),
            fragment(0, arguments=':"A"}'),
        ),
        TWO,
        [],
    ),
    "gemini, interleaved": (
        "gemini",
        _gemini(
            growing(partial_arg("$.hall", stringValue="A", more=True), name="seat_map"),
            gemini_call("seat_map", args=HALL_B),
        ),
        [("", '{"hall": "B"}')],
        [],
    ),
    # One index for two calls: the first is not lost, nor are they one.
    "responses, index used again": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="a"), _delta(A, 0), _done(A, 0, call_id="a")),
            *(_added(0, call_id="b"), _delta(B, 0), _done(B, 0, call_id="b")),
        ),
        TWO,
        [],
    ),
    "responses, one index for two at once": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="a", id="i"), _added(0, call_id="b", id="j")),
            *(_delta('{"hall"', 0, "i"), _delta(B, 0, "j"), _delta(':"A"}', 0, "i")),
            *(_done(A, 0, call_id="a", id="i"), _done(B, 0, call_id="b", id="j")),
        ),
        TWO,
        ["started_twice", "started_twice"],
    ),
    "chat, one index for two at once": (
        "openai_chat",
        _chat(
            *(fragment(0, "a", "seat_map", '{"hall"'), fragment(0, "b", "seat_map", '{"hall"')),
            *(fragment(0, "a", arguments=':"A"}'), fragment(0, "b", arguments=':"B"}')),
        ),
        TWO,
        [],
    ),
    "anthropic, index used again": (
        "anthropic",
        _anthropic(*(_start(0, "a"), _json(0, A), _stop(0), _start(0, "b"), _json(0, B), _stop(0))),
        TWO,
        [],
    ),
    "chat, index used again": (
        "openai_chat",
        _chat(fragment(0, "a", "seat_map", A), fragment(0, "b", "seat_map", B)),
        TWO,
        [],
    ),
    "chat, index used again without ids": (
        "openai_chat",
        _chat(fragment(0, None, "seat_map", A), fragment(0, None, "post_note", B)),
        NAMELESS,
        [],
    ),
    # A start that repeats is no new call.
    "responses, start again": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="a"), _added(0, call_id="a"), _delta(A, 0)),
            _done(A, 0, call_id="a"),
        ),
        TWO[:1],
        ["started_twice"],
    ),
    "anthropic, start again": (
        "anthropic",
        _anthropic(_start(0, "a"), _start(0, "a"), _json(0, A), _stop(0)),
        TWO[:1],
        ["started_twice"],
    ),
    "chat, start again": (
        "openai_chat",
        _chat(
            fragment(0, "a", "seat_map", ""),
            fragment(0, "a", "seat_map", '{"hall"'),
            fragment(0, "a", "seat_map", ':"A"}'),
        ),
        TWO[:1],
        [],
    ),
    # An end that repeats is no new call, and it is told.
    "responses, end again": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="a"), _delta(A, 0), _done(A, 0, call_id="a")),
            *(_done(A, 0, call_id="a"), _done(A, call_id="a")),
            output=[_item("a", A)],
        ),
        TWO[:1],
        ["item_again"],
    ),
    "responses, end again without any identity": (
        "openai_responses",
        _responses(_added(), _delta(A), _done(A), _done(A), output=[_item(None, A)]),
        NAMELESS[:1],
        ["item_again"],
    ),
    "responses, end again with other item ids": (
        "openai_responses",
        _responses(_added(), _delta(A, item_id="i"), _done(A, id="j"), _done(A, id="k")),
        NAMELESS[:1],
        ["item_again"],
    ),
    "responses, end again of two": (
        "openai_responses",
        _responses(
            *(_done(A, call_id="a"), _done(B, call_id="b"), _done(A, call_id="a")),
            output=[_item("b", B), _item("a", A)],
        ),
        TWO,
        ["item_again"],
    ),
    "anthropic, end again": (
        "anthropic",
        _anthropic(_start(0, "a"), _json(0, A), _stop(0), _stop(0)),
        TWO[:1],
        ["no_block"],
    ),
    "chat, end again": (
        "openai_chat",
        _chat(
            fragment(0, "a", "seat_map", '{"hall"'),
            fragment(0, arguments=':"A"}'),
            fragment(0, "a", "seat_map", A),
        ),
        TWO[:1],
        ["item_again"],
    ),
    "chat, all again at the end": (
        "openai_chat",
        _chat_again(
            [fragment(0, "a", "seat_map", A), fragment(1, "b", "seat_map", B)],
            [fragment(None, "b", "seat_map", B), fragment(None, "c", "seat_map", A)],
        ),
        TWO,
        [],
    ),
    "chat, all again at the end without ids": (
        "openai_chat",
        _chat_again(
            [fragment(0, None, "seat_map", A), fragment(1, None, "seat_map", B)],
            [fragment(None, None, "seat_map", A), fragment(None, None, "seat_map", B)],
        ),
        NAMELESS,
        [],
    ),
    "responses, all again at the end with other ids": (
        "openai_responses",
        _responses(
            *(_added(0, call_id="a"), _delta(A, 0), _done(A, 0, call_id="a")),
            *(_added(1, call_id="b"), _delta(B, 1), _done(B, 1, call_id="b")),
            output=[_item("c", A), _item("d", B)],
        ),
        TWO,
        [],
    ),
    "gemini, end again": (
        "gemini",
        _gemini(
            growing(partial_arg("$.hall", stringValue="A"), name="seat_map"),
            {"functionCall": {"args": HALL_A}},
        ),
        [("", '{"hall": "A"}')],
        [],
    ),
    "ollama, one id again": (
        "ollama",
        _ollama(_function(HALL_A, id="a"), last=[_function(HALL_A, id="a")]),
        [("a", '{"hall": "A"}')] * 2,
        ["same_id"],
    ),
    # What differs is told, in each of them.
    "responses, end differs": (
        "openai_responses",
        _responses(_added(0, call_id="a"), _delta(A, 0), _done(B, 0, call_id="a")),
        [("a", B)],
        ["item_differs"],
    ),
    "anthropic, start differs": (
        "anthropic",
        _anthropic(_start(0, "a", input=HALL_B), _json(0, A), _stop(0)),
        TWO[:1],
        ["call_differs"],
    ),
    "gemini, end differs": (
        "gemini",
        _gemini(
            growing(partial_arg("$.hall", stringValue="A"), name="seat_map"),
            {"functionCall": {"args": HALL_B}},
        ),
        [("", '{"hall": "B"}')],
        ["arguments_replaced"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pieces_go_to_their_call(name: str) -> None:
    protocol, body, wanted, codes = CASES[name]
    for cuts in ((), range(0, len(body), 7), range(len(body))):
        events = [event for *_, event in spanned(protocol, body, cuts=cuts)]
        complete = [part for kind, part in parts_of(events) if kind == "call" and part.complete]
        part_texts = [(part.provider_id, part.text) for part in complete]
        assert part_texts == [*wanted]
        warned = [event for event in events if isinstance(event, Warned)]
        assert [event.code for event in warned if event.code != "no_opening"] == [*codes]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3]])
def test_a_warning_about_a_call_names_its_part(name: str) -> None:
    protocol, body, _, codes = CASES[name]
    events = events_of(protocol, body)
    started = [event.index for event in events if isinstance(event, PartStarted)]
    warned = [event for event in events if isinstance(event, Warned) and event.code in codes]
    about = [event.meta["part"] for event in warned if event.code not in OF_NO_CALL]
    assert set(about) <= set(started)
    assert len(set(about)) == len(about)


def test_each_of_many_doubtful_calls_has_its_warning() -> None:
    """Other warnings are recorded up to a number; a gate that reads these must not miss any."""
    values: list[dict[str, Any]] = []
    for number in range(50):
        name = f"c{number}"
        values += [_added(number, call_id=name), _delta(A, number), _done(B, number, call_id=name)]
    events = events_of("openai_responses", _responses(*values))
    warned = [event for event in events if isinstance(event, Warned)]
    about = [event.meta["part"] for event in warned if event.code == "item_differs"]
    assert about == list(range(50))
