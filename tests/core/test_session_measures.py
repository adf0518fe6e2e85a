"""What a session took: time at work without a user's, tokens as each protocol counts them, and
never 0 for what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from playground.core.events import (
    CallDecided,
    CallEnded,
    CallStarted,
    ResponseEnded,
    ResponseFailed,
    SessionForked,
    TurnDropped,
    Usage,
)
from playground.core.session_diff import DiffTurn, Measure, side, total
from playground.core.tools import text_result
from tests.core.sides import round_log, sided
from tests.factories import Log

USAGES: Sequence[tuple[str, Usage, tuple[int, int, int]]] = (
    ("anthropic", Usage(10, 5), (10, 5, 0)),
    ("anthropic", Usage(10, 5, cached_tokens=3, cache_write_tokens=2), (15, 5, 0)),
    ("openai-chat", Usage(10, 5, cached_tokens=3, reasoning_tokens=4), (10, 5, 0)),
    ("gemini", Usage(10, 5, reasoning_tokens=4), (10, 9, 0)),
    ("anthropic", Usage(None, 5), (0, 0, 1)),
    ("ollama", Usage(10, None), (0, 0, 1)),
    ("anthropic", Usage(0, 0), (0, 0, 0)),
)


@pytest.mark.parametrize(("protocol", "usage", "wanted"), USAGES)
def test_tokens(protocol: str, usage: Usage, wanted: tuple[int, int, int]) -> None:
    log = Log().start().prompt().request(protocol=protocol).part(0, "text", "x")
    took = side(log.add(ResponseEnded("stop", usage=usage)).session()).took
    assert (took.read, took.written, took.uncounted) == wanted


def test_costs_that_are_unknown_are_counted_as_such() -> None:
    log = Log().start().prompt().request().part(0, "text", "x")
    log.add(ResponseEnded("stop", usage=Usage(1, 1), cost=0.25))
    log.prompt().request().part(0, "text", "x").end("stop")
    took = side(log.session()).took
    assert (took.cost, took.unpriced, took.turns) == (0.25, 1, 2)


def test_an_open_turn_is_unknown_and_one_that_failed_at_once_took_nothing() -> None:
    log = Log().start().prompt().request()
    assert replace(side(log.session()).took, busy_ms=0) == Measure(1, uncounted=1, unpriced=1)
    log.add(ResponseFailed("http", "No.", 500))
    each = side(log.session())
    assert (each.took.uncounted, each.took.unpriced, each.took.read) == (0, 0, 0)
    assert [(item.ended, item.error) for item in each.items if isinstance(item, DiffTurn)] == [
        ("failed", "No.")
    ]


def test_time_is_that_of_model_and_tools_side_by_side_once() -> None:
    log = Log(step_ms=0).start().prompt().request()
    log.now_ms += 100
    log.call(0, "a", {}).call(1, "b", {}).end()
    log.now_ms += 60_000  # a user
    log.check("1.0").check("1.1")
    for call_id in ("1.0", "1.1"):
        log.add(CallDecided(call_id, "run"))
    log.step_ms = 25
    log.add(*(CallStarted(call_id, 1) for call_id in ("1.0", "1.1")))
    log.add(*(CallEnded(call_id, text_result("x")) for call_id in ("1.0", "1.1")))
    assert side(log.session()).took.busy_ms == 100 + 75


def test_dropped_turns_are_in_the_sums_alone() -> None:
    log = Log().start().prompt().request().part(0, "text", "x").end("stop")
    log.add(TurnDropped(1)).request().part(0, "text", "y").end("stop")
    each = side(log.session())
    assert [item.number for item in each.items if isinstance(item, DiffTurn)] == [2]
    assert (each.took.turns, each.dropped) == (2, 1)


def test_edited_and_denied_calls_say_so() -> None:
    log = Log().start().prompt().request().call(0, "a", {"x": 1}).end().check("1.0")
    log.run("1.0", arguments='{"x": 2}')
    (call,) = next(i for i in side(log.session()).items if isinstance(i, DiffTurn)).calls
    assert (call.arguments, call.edited, call.denied, call.status) == (
        '{"x": 2}',
        True,
        False,
        "done",
    )


def test_nobody_changes_it_any_more() -> None:
    log = round_log("a")
    session = log.session()
    item = side(session)
    before = item.items
    session.items.clear()
    assert item.items == before != ()


def test_lineage_goes_back_to_the_first() -> None:
    log = round_log("a")
    log.add(SessionForked("grandparent", 7)).add(SessionForked("parent", 9))
    assert side(log.session("me")).lineage == (
        ("me", log.events[-1].seq),
        ("parent", 9),
        ("grandparent", 7),
    )


def test_sums() -> None:
    measure = sided("a").took
    assert total([measure, measure]) == Measure(
        2,
        calls=0,
        busy_ms=2 * measure.busy_ms,
        read=824,
        written=192,
        cost=0.0,
        uncounted=0,
        unpriced=2,
    )
