"""The bound itself: what hangs fails, and what comes after it goes on."""

from __future__ import annotations

import asyncio
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bounded import NotDone, within


def hang() -> None:
    while True:
        pass


def test_what_hangs_is_ended() -> None:
    with pytest.raises(NotDone, match=r"not done within 0\.05 s"), within(0.05):
        hang()


def test_the_nearer_of_two_bounds_counts() -> None:
    with pytest.raises(NotDone, match=r"0\.05 s"), within(0.05), within(9):
        hang()
    with pytest.raises(NotDone, match=r"0\.05 s"), within(9), within(0.05):
        hang()


def test_every_test_stands_in_a_bound_and_has_it_back_after_an_inner_one() -> None:
    before, _ = signal.getitimer(signal.ITIMER_REAL)
    with within(5):
        inner, _ = signal.getitimer(signal.ITIMER_REAL)
    after, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < inner <= 5 < after <= before


def test_no_smaller_example_is_looked_for() -> None:
    tried = []

    @given(st.integers())
    def hangs(number: int) -> None:
        tried.append(number)
        with within(0.05):
            hang()

    with pytest.raises(NotDone):
        hangs()
    assert len(tried) == 1


@pytest.mark.anyio
async def test_a_coroutine_that_hangs_is_ended() -> None:
    async def swallows() -> None:
        while True:
            try:
                hang()
            except Exception:
                continue

    with pytest.raises(BaseExceptionGroup) as group, within(0.05):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(swallows())
    assert isinstance(group.value.exceptions[0], NotDone)
