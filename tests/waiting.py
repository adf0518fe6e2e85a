"""Waits: until something is true, until an event is in a log, until a run has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from playground.core.events import Event
from playground.core.session import Session
from playground.engine.engine import Engine

LOOK_S = 0.01

Condition = Callable[[], bool] | Callable[[], Awaitable[bool]]


async def wait_until(
    is_true: Condition, timeout_s: float = 20.0, *, engine: Engine | None = None
) -> None:
    """Returns as soon as `is_true()`; TimeoutError after `timeout_s`.

    Looks again whenever a session of `engine` has changed. Without an engine nothing notifies it:
    it polls, and leaves the event loop to others in between.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            position = engine.sessions.position if engine else 0  # before the look: misses nothing
            answer = is_true()
            if await answer if isawaitable(answer) else answer:
                return
            if engine:
                await engine.sessions.wait(position, engine.sessions.list_version, timeout_s)
            else:
                await asyncio.sleep(LOOK_S)


async def wait_for_event(
    engine: Engine, session_id: str, kind: type[Event], timeout_s: float = 40.0
) -> None:
    """Waits until an event of `kind` is in the log of the session."""

    async def is_there() -> bool:
        return any(isinstance(row.event, kind) for row in await engine.log.events(session_id))

    await wait_until(is_there, timeout_s, engine=engine)


async def wait_while_running(engine: Engine, session_id: str, timeout_s: float = 40.0) -> Session:
    """Waits until the session is not running any more; returns it."""

    session: Session | None = None

    async def is_at_rest() -> bool:
        nonlocal session
        async with engine.sessions.lock_session(session_id) as live:
            session = live.session
        return session.state != "running"

    await wait_until(is_at_rest, timeout_s, engine=engine)
    assert session is not None
    return session
