"""When a server has nothing to do any more: `playground serve --idle-exit`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class Idle:
    """`app`, with a look at whether anybody asks for something.

    A page that is open has a stream, an agent at work a request, and its launcher asks each minute;
    `working` is whether sessions go on with none of these. `clock` is in seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        working: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._working = working
        self._clock = clock
        self._open = 0
        self._last = clock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._last = self._clock()

    def idle_s(self) -> float:
        """Seconds since anything was under way, as far as was looked."""
        if self._open or self._working():
            self._last = self._clock()
        return self._clock() - self._last

    async def wait(
        self,
        seconds: float,
        then: Callable[[], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`then` is called once nothing was under way for `seconds`."""
        looks_s = seconds / 10
        while (idle := self.idle_s()) < seconds:
            await sleep(min(looks_s, seconds - idle))
        then()
