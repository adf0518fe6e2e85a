"""Arguments that a stream has in several places: a rule runs a call only where all that came of its
arguments says the same, and what runs is that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from playground.core.decide import Record, next_commands
from playground.core.events import CallDecided, Event
from playground.core.rules import Rule
from playground.core.session import Call
from playground.core.tools import Tool
from playground.protocols.registry import codec
from tests.playbook import call_checked, opened, session, start_events

SEAT_MAP = Tool("seat_map", "Shows it.", {"type": "object"}, "mock", {"result": "ok"})
ALLOW = Rule("*", "run", words="--allow all")
HALL_A, HALL_B = '{"hall": "A"}', '{"hall": "B"}'
HALF_OF_B = HALL_B[:-2]
VALUES = st.sampled_from((None, "", "{}", HALL_A, HALL_B, HALF_OF_B))
"""What one place has of the arguments: nothing at all, an empty text, an empty object, one of two
different ones, or half of one."""

EMPTY = (None, "", "{}")


def event(type_: str, **members: Any) -> bytes:
    return f"event: {type_}\ndata: {json.dumps({'type': type_, **members})}\n\n".encode()


def messages_stream(places: Mapping[str, str | None]) -> bytes:
    """A stream of Messages with one call."""
    start = places["start"]
    block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "seat_map"}
    if start is not None:
        block["input"] = json.loads(start or "{}")
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    frames = [
        event("message_start", message=message),
        event("content_block_start", index=0, content_block=block),
    ]
    if (streamed := places["deltas"]) is not None:
        for piece in (streamed[:5], streamed[5:]):
            delta = {"type": "input_json_delta", "partial_json": piece}
            frames.append(event("content_block_delta", index=0, delta=delta))
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    return b"".join(
        [
            *frames,
            event("content_block_stop", index=0),
            event("message_delta", delta=end, usage={"output_tokens": 5}),
            event("message_stop"),
        ]
    )


def responses_stream(places: Mapping[str, str | None], identity: Sequence[str]) -> bytes:
    """A stream of Responses with one call, which names the members of its `identity`."""
    item = {"type": "function_call", "call_id": "call_1", "name": "seat_map"}
    at: dict[str, Any] = {}
    if "id" in identity:
        item["id"], at["item_id"] = "fc_1", "fc_1"
    if "output_index" in identity:
        at["output_index"] = 0
    word = "response.function_call_arguments"
    index = {name: at[name] for name in ("output_index",) if name in at}

    def item_with(place: str) -> dict[str, Any]:
        return item if places[place] is None else {**item, "arguments": places[place]}

    frames = [
        event("response.created", response={"id": "resp_1", "status": "in_progress", "output": []}),
        event("response.output_item.added", item=item_with("start"), **index),
    ]
    if (streamed := places["deltas"]) is not None:
        frames += [event(f"{word}.delta", delta=p, **at) for p in (streamed[:5], streamed[5:])]
    if places["done"] is not None:
        frames.append(event(f"{word}.done", arguments=places["done"], **at))
    frames.append(event("response.output_item.done", item=item_with("end"), **index))
    response: dict[str, Any] = {"id": "resp_1", "status": "completed", "output": []}
    if places["last"] is not None:
        response["output"] = [item_with("last")]
    frames.append(event("response.completed", response=response))
    return b"".join(frames)


def decoded(protocol: str, data: bytes) -> tuple[list[Call], bool]:
    """The calls of a stream, and whether a rule for all tools runs the first one."""
    decoder = codec(protocol).decoder(200)
    answer: list[Event] = [e for *_, e in (*decoder.feed(data), *decoder.end(True))]
    state = session(*start_events(SEAT_MAP), *opened(1), *answer)
    turn = state.turns[0]
    if turn.end is None or not turn.calls:
        return turn.calls, False
    first = turn.calls[0].id
    state = session(*start_events(SEAT_MAP), *opened(1), *answer, call_checked(first))
    events = [each.event for each in next_commands(state, [ALLOW]) if isinstance(each, Record)]
    ran = any(isinstance(each, CallDecided) and each.call_id == first for each in events)
    return state.turns[0].calls, ran


def check(protocol: str, data: bytes, places: Mapping[str, str | None]) -> None:
    calls, ran = decoded(protocol, data)
    assert len(calls) == 1
    came = {value for value in places.values() if value not in EMPTY}
    if HALL_B in came:
        came.discard(HALF_OF_B)  # what comes later may go on with it
    if ran and came:
        assert len(came) == 1, f"A rule ran {calls[0].arguments} of {came}."
        assert calls[0].arguments in came
    elif ran:
        assert calls[0].arguments == "{}"
    is_cut = HALF_OF_B in places.values()
    if came == {HALL_B} and places.get("deltas") == HALL_B and not is_cut:
        assert calls[0].arguments == HALL_B, "An empty end overruled what was streamed."
    if {*places.values()} == {HALL_B, None} and places["deltas"] == HALL_B:
        assert ran, "Nothing doubts a call that agrees with itself."


@given(start=st.sampled_from((None, "", "{}", HALL_A, HALL_B)), deltas=VALUES)
@example(start=HALL_A, deltas=HALL_B)
def test_a_rule_runs_a_call_of_messages_that_agrees_with_itself(
    start: str | None, deltas: str | None
) -> None:
    places = {"start": start, "deltas": deltas}
    check("anthropic", messages_stream(places), places)


@given(
    start=VALUES,
    deltas=VALUES,
    done=VALUES,
    end=VALUES,
    last=VALUES,
    identity=st.sampled_from((("id", "output_index"), ("id",), ("output_index",), ())),
)
@example(start=None, deltas=None, done=HALL_B, end="", last=None, identity=("id", "output_index"))
@example(
    start=None, deltas=HALL_B, done=HALL_B, end="{}", last=None, identity=("id", "output_index")
)
@example(
    start=None, deltas=HALL_B, done=HALL_B, end=HALL_A, last=HALL_A, identity=("id", "output_index")
)
def test_a_rule_runs_a_call_of_responses_that_agrees_with_itself(
    start: str | None,
    deltas: str | None,
    done: str | None,
    end: str | None,
    last: str | None,
    identity: Sequence[str],
) -> None:
    places = {"start": start, "deltas": deltas, "done": done, "end": end, "last": last}
    check("openai_responses", responses_stream(places, identity), places)
