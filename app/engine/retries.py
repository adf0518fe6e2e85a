"""The waits before a request is sent again: how long, and those that are under way.

Whether anything is sent again is decided in core/decide.py. Knows no session but its id.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from app.core.decide import LONGEST_WAIT_S
from app.core.events import ResponseFailed

FIRST_WAIT_S = 1.0
"""The wait before the first retry, in seconds; each further one is twice as long."""

SPREAD = 0.25
"""By how much of itself a wait is shortened or lengthened, so that many do not come at once."""


def retry_wait_s(attempt: int, asked: float | None, share: float) -> float:
    """Seconds before retry `attempt` (from 1). `asked` is what the provider asked for, `share`
    where in the spread this one lies, 0 to 1.
    """
    if asked is not None and 0 < asked <= LONGEST_WAIT_S:
        return asked
    own = FIRST_WAIT_S * 2.0 ** (attempt - 1) * (1 - SPREAD + 2 * SPREAD * share)
    return round(min(own, LONGEST_WAIT_S), 3)


def retry_reason(failure: ResponseFailed) -> str:
    """Why it is sent again, in a word: `429`, `unreachable`."""
    return failure.failure if failure.status is None else str(failure.status)


class RetryWaits:
    """One wait at most for each session. `sleep` and `jitter` (0 to 1) are given by tests."""

    def __init__(
        self,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._sleep = sleep
        self._jitter = jitter
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def seconds(self, attempt: int, failure: ResponseFailed) -> float:
        return retry_wait_s(attempt, failure.retry_after, self._jitter())

    def begin(
        self, session_id: str, seconds: float, then: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Do `then` after `seconds`, unless it is ended before."""
        self.end(session_id)
        task = asyncio.create_task(self._waited(seconds, then))
        self._tasks[session_id] = task
        task.add_done_callback(lambda done: self._forget(session_id, done))

    def end(self, session_id: str) -> None:
        """Wait no longer; what comes after the wait is not done."""
        task = self._tasks.pop(session_id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _waited(self, seconds: float, then: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._sleep(seconds)
        await then()

    def _forget(self, session_id: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(session_id) is done:
            del self._tasks[session_id]
