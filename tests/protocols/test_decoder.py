"""The keeper of the grammar, against decoders that know none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.events import EndReason, PartEnded, ResponseEnded, Usage
from playground.protocols.decoder import MOST_ALIKE, MOST_TOKENS, EventBuilder
from tests.protocols.frames import UNHURRIED, codes_of, end_of, obey_the_grammar

STEPS = st.lists(st.tuples(st.sampled_from("sdxw"), st.integers(0, 3)), max_size=20)

NO_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")


@UNHURRIED
@given(STEPS, st.booleans(), st.integers(1, 2))
def test_whatever_is_asked_the_grammar_holds(
    steps: list[tuple[str, int]], good: bool, ends: int
) -> None:
    answer = EventBuilder()
    for step, number in steps:
        part = answer.parts[number] if number < len(answer.parts) else None
        match step:
            case "s":
                answer.start("call" if number else "text")
            case "d" if part is not None:
                answer.delta(part, "x" * (number % 2))
            case "x" if part is not None:
                answer.stop(part)
            case _:
                answer.warn("odd", "Something is odd.")
    if good:
        answer.end("stop", {})
    for _ in range(ends):
        answer.fail("error", "It failed.")
    answer.warn("late", "A warning may come late.")
    obey_the_grammar(answer.take_events(), 0)
    assert answer.take_events() == []


def test_what_was_open_at_a_bad_end_is_not_complete() -> None:
    answer = EventBuilder()
    answer.stop(answer.start("text"))
    answer.delta(answer.start("call", "f"), "{")
    answer.fail("interrupted", "It broke off.")
    events = [event for _, _, event in answer.take_events()]
    ended = [event.complete for event in events if isinstance(event, PartEnded)]
    assert ended == [True, False]
    assert end_of(events) == events[-1]


def test_warnings_of_one_kind_are_listed_up_to_a_number() -> None:
    answer = EventBuilder()
    for _ in range(MOST_ALIKE * 3):
        answer.warn("odd", "Something is odd.")
    events = [event for _, _, event in answer.take_events()]
    assert codes_of(events) == ["odd"] * MOST_ALIKE


@pytest.mark.parametrize(
    ("outputs", "counts", "warned"),
    [
        (["stop", "tool_calls"], "tool_calls", False),
        (["length", "length"], "length", False),
        (["length", "stop"], "length", True),
        (["refusal", "stop", "stop"], "refusal", True),
        (["stop", "length"], "length", True),
        (["length", "error"], "error", True),
        (["Error", "stop"], "Error", True),
    ],
)
def test_a_reason_that_tells_of_a_cut_is_never_made_good(
    outputs: list[str], counts: str, warned: bool
) -> None:
    meanings: dict[str, EndReason] = {"length": "length", "refusal": "refusal"}
    answer = EventBuilder()
    for raw in outputs:
        answer.tell_reason(raw, meanings.get(raw, "stop"))
    assert answer.raw_reason == counts
    codes = codes_of([event for _, _, event in answer.take_events()])
    assert (set(codes) == {"reason_changed"}) == warned
    answer.forget_reason()
    answer.tell_reason("stop", "stop")
    assert answer.raw_reason == "stop"


def test_a_call_in_doubt_is_never_complete() -> None:
    answer = EventBuilder()
    early, open_part, late, sure = (answer.start(kind) for kind in ("call", "text", "call", "call"))
    answer.stop(early)
    answer.mark_doubtful()
    answer.mark_trusted(sure)
    after, output = answer.start("call"), answer.start("call")
    answer.mark_doubtful(output)
    answer.sound = False
    garbled = answer.start("call")
    for part in (open_part, late, sure, after, output, garbled):
        answer.stop(part)
    events = [event for _, _, event in answer.take_events()]
    ended = [event.complete for event in events if isinstance(event, PartEnded)]
    assert ended == [True, True, False, True, True, False, False]


@pytest.mark.parametrize("count", [-1, -(10**30), MOST_TOKENS + 1])
@pytest.mark.parametrize("good", [True, False])
def test_a_count_of_tokens_that_cannot_be_is_none(count: int, good: bool) -> None:
    for name in (*NO_COUNTS, "reasoning_tokens"):
        answer = EventBuilder()
        answer.usage = Usage(**{**vars(Usage(7, 0, {"n": 1})), name: count})
        if good:
            answer.end("stop", {})
        else:
            answer.fail("error", "It failed.")
        events = [event for _, _, event in answer.take_events()]
        assert [code for code in codes_of(events) if code != "empty_answer"] == ["odd_usage"]
        usage = end_of(events).usage
        assert getattr(usage, name) is None, name
        stored_data = {"input_tokens": 7, "output_tokens": 0}
        assert all(
            getattr(usage, key) == number for key, number in stored_data.items() if key != name
        )
        assert usage.raw == {"n": 1}


def test_a_cost_that_cannot_be_is_none() -> None:
    for cost in (-0.5, True, "1", float("inf")):
        answer = EventBuilder()
        answer.usage = Usage(raw={"cost": cost})
        answer.end("stop", {})
        (end,) = [e for _, _, e in answer.take_events() if isinstance(e, ResponseEnded)]
        assert end.cost is None, cost
