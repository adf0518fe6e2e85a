"""How many runs a provider is asked for at once, and what money is kept back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from playground.batch.lanes import LONGEST_S, Budget, LaneWatch, ProviderLane, exhausted_wait_s
from playground.core.events import RetryScheduled

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


def now() -> datetime:
    return NOW


def lane(at_once: int = 8) -> tuple[ProviderLane, list[float]]:
    """With its clock, which stands still until it is set."""
    clock = [0.0]
    return ProviderLane(lambda: clock[0], at_once), clock


def watched_session(**more: Any) -> Any:
    """A session as a watch looks at it."""
    return SimpleNamespace(**{"retrying": None, "turn": None, **more})


def make_turn(number: int, **headers: str) -> Any:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return SimpleNamespace(number=number, response=SimpleNamespace(headers=named))


def test_too_much_halves_a_lane_and_what_goes_well_widens_it_again() -> None:
    narrow, clock = lane(8)
    watch = LaneWatch(narrow, now)
    retry = RetryScheduled(1, 1, 7.0, 0, "429")
    for _ in range(2):  # the same retry is looked at more than once
        watch.look(watched_session(retrying=retry))
    assert (narrow.at_once, narrow.waits_s, watch.warned) == (4, 7.0, True)
    clock[0] = 7.0
    assert narrow.waits_s == 0
    for _ in range(4):
        narrow.speed_up()
    assert narrow.at_once == 5
    for _ in range(100):
        narrow.speed_up()
    assert narrow.at_once == 8
    other = LaneWatch(narrow, now)
    other.look(watched_session(retrying=RetryScheduled(1, 1, 7.0, 0, "unreachable")))
    assert (narrow.at_once, other.warned) == (8, False)


def test_headers_that_leave_nothing_hold_a_lane_and_no_longer_than_it_takes() -> None:
    wide, _ = lane()
    watch = LaneWatch(wide, now)
    watch.look(watched_session(turn=make_turn(1, x_ratelimit_remaining_requests="5")))
    assert wide.waits_s == 0
    used = {"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "1m30s"}
    watch.look(watched_session(turn=make_turn(2, **used)))
    assert (wide.waits_s, wide.at_once) == (90.0, 8)
    watch.look(watched_session(turn=make_turn(3, **{**used, "x_ratelimit_reset_requests": "6h"})))
    assert wide.waits_s == LONGEST_S


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("250ms", 0.25),
        ("1h2m3.5s", 3723.5),
        ("12.5", 12.5),
        ("2026-01-01T12:00:30Z", 30.0),
        ("2026-01-01T11:00:00Z", 0.0),
        ("", 0.0),
        ("soon", 0.0),
        ("2026-01-01T12:00:30", 0.0),
        ("9" * 40, 0.0),
    ],
)
def test_when_a_limit_is_set_back(text: str, seconds: float) -> None:
    names = ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset")
    assert exhausted_wait_s(dict(zip(names, ("0", text), strict=True)), NOW) == seconds
    assert exhausted_wait_s(dict(zip(names, ("1", text), strict=True)), NOW) == 0


@pytest.mark.anyio
async def test_a_lane_has_as_many_places_as_it_asks_at_once() -> None:
    narrow, _ = lane(2)
    inside, most = 0, 0

    async def run() -> None:
        nonlocal inside, most
        async with narrow.place():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async with asyncio.timeout(10):
        await asyncio.gather(*(run() for _ in range(9)))
    assert (most, inside, narrow.running) == (2, 0, 0)


def test_the_dearest_run_is_kept_back_for_each_that_is_under_way() -> None:
    assert Budget(0.0, spent=1e9).allows
    budget = Budget(1.0)

    def allowed(under_way: int) -> bool:
        budget.under_way = under_way
        return budget.allows

    assert allowed(5)  # nothing is known yet
    budget.add_cost(0.3)
    budget.add_cost(0.1)
    assert [allowed(under_way) for under_way in range(3)] == [True, True, False]
    budget.add_cost(None)  # taken for the dearest
    assert (budget.spent, budget.dearest) == (0.7, 0.3)
    assert [allowed(under_way) for under_way in range(2)] == [True, False]
