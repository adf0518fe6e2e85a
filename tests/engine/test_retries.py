"""How long a retry waits, and that of a session's waits one is under way at most."""

from __future__ import annotations

import asyncio

import pytest

from playground.core.events import ResponseFailed
from playground.engine.runner import RetryWaits, retry_reason, retry_wait_s

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("attempt", "retry_after_s", "share", "seconds"),
    [
        (1, None, 0.5, 1.0),
        (2, None, 0.5, 2.0),
        (3, None, 0.5, 4.0),
        (1, None, 0.0, 0.75),
        (1, None, 1.0, 1.25),
        (20, None, 1.0, 60.0),
        (1, 3.0, 0.9, 3.0),
        (2, 0.05, 0.9, 0.05),
        (1, 60.0, 0.5, 60.0),
        (1, 60.1, 0.5, 1.0),
        (1, 0.0, 0.5, 1.0),
        (2, -5.0, 0.5, 2.0),
    ],
)
def test_wait(attempt: int, retry_after_s: float | None, share: float, seconds: float) -> None:
    assert retry_wait_s(attempt, retry_after_s, share) == seconds


def test_why_in_a_word() -> None:
    assert retry_reason(ResponseFailed("http", "No.", 429)) == "429"
    assert retry_reason(ResponseFailed("unreachable", "No.")) == "unreachable"


async def test_one_wait_for_each_session_and_none_after_its_end() -> None:
    gate, done = asyncio.Event(), list[str]()

    async def sleep(_: float) -> None:
        await gate.wait()

    async def note(word: str) -> None:
        done.append(word)

    waits = RetryWaits(sleep, lambda: 0.5)
    assert waits.seconds(2, ResponseFailed("http", "No.", 500)) == 2.0
    waits.begin("a", 1, lambda: note("first of a"))
    waits.begin("a", 1, lambda: note("second of a"))
    waits.begin("b", 1, lambda: note("b"))
    waits.begin("c", 1, lambda: note("c"))
    waits.end("b")
    waits.end("b")
    waits.end("nobody")
    gate.set()
    while waits._tasks:
        await asyncio.sleep(0)
    assert done == ["second of a", "c"]
    gate.clear()
    waits.begin("a", 1, lambda: note("never"))
    await waits.close()
    await waits.close()
    assert done == ["second of a", "c"]
