"""A flood of progress becomes a few reports, and the last word is never lost."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from app.executors import progress
from app.executors.progress import Progress

pytestmark = pytest.mark.anyio
Told = list[tuple[str, float | None]]


async def test_the_first_at_once_and_the_last_at_the_end() -> None:
    told: Told = []
    some = Progress(lambda *said: told.append(said))
    for step in range(1000):
        some.tell(f"step {step}", step / 1000)
    some.close()
    some.tell("too late", 1.0)
    assert told == [("step 0", 0.0), ("step 999", 0.999)]


async def test_prints_add_up_and_keep_the_fraction() -> None:
    told: Told = []
    some = Progress(lambda *said: told.append(said))
    some.tell("start", 0.1)
    some.printed("a\n")
    some.printed("\n")
    some.printed("b\n")
    some.close()
    assert told == [("start", 0.1), ("a\nb", 0.1)]


async def test_an_interval_later_the_pending_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.001)
    told: Told = []
    both = asyncio.Event()

    def report(text: str, fraction: float | None) -> None:
        told.append((text, fraction))
        if len(told) == 2:
            both.set()

    some = Progress(report)
    some.tell("one", None)
    some.tell("two", None)
    with anyio.fail_after(5):
        await both.wait()
    some.close()
    assert told == [("one", None), ("two", None)]


async def test_there_is_an_end_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MAX_REPORTS", 1)
    told: Told = []
    some = Progress(lambda *said: told.append(said))
    some.tell("x" * 10_000, None)
    some.tell("two", None)
    some.close()
    assert told == [("x" * progress.MAX_TEXT, None)]
