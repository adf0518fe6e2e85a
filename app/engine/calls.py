"""Calls under way: started, followed, ended; their progress on the way into the log."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.core.errors import IllegalEvent, StoreError
from app.core.events import CallEnded, CallInterrupted, CallProgressed
from app.core.tools import ToolResult, text_result
from app.engine.hub import Hub, Live
from app.engine.staging import Staging
from app.executors.executor import Invocation
from app.executors.table import Executors

MAX_OUTPUT = 1024 * 1024
"""Bytes of a tool's output that are kept; more is an error result."""

PROGRESS_S = 0.1
"""The least time between two progress events of one call, in seconds."""

log = logging.getLogger(__name__)


def idempotency_key(session_id: str, call_id: str, arguments: str) -> str:
    """The same for every attempt at the same thing: who has had its effect before can tell, and
    who reads other arguments, which a person edited, is not told that it has."""
    return f"{session_id}/{call_id}/{hashlib.sha256(arguments.encode()).hexdigest()[:16]}"


class Progress:
    """The newest word of a running call, saved at most every PROGRESS_S."""

    def __init__(self, hub: Hub, invocation: Invocation) -> None:
        self._hub = hub
        self._invocation = invocation
        self._newest: CallProgressed | None = None
        self._there = asyncio.Event()

    def report(self, text: str, fraction: float | None = None) -> None:
        self._newest = CallProgressed(self._invocation.call, text, fraction)
        self._there.set()

    async def pump(self) -> None:
        while True:
            await self._there.wait()
            self._there.clear()
            newest = self._newest
            async with self._hub.holding(self._invocation.session) as live:
                if newest is not None:
                    try:
                        await self._hub.append(live, [newest])
                    except (IllegalEvent, StoreError) as error:
                        log.warning("progress of %s was not saved: %s", newest.call_id, error)
            await asyncio.sleep(PROGRESS_S)


@dataclass(frozen=True)
class Running:
    """A call under way: `work` can be cancelled, `task` writes down how it ended."""

    task: asyncio.Future[None]
    work: asyncio.Future[ToolResult]


Tended = Callable[[str, Awaitable[None], Callable[[], object]], Awaitable[None]]
"""(session, work, forget): do the work, forget it, and do what follows from it."""


class Calls:
    """`folder` holds the sessions' scratch folders. `closing` is set when the program ends."""

    def __init__(self, hub: Hub, executors: Executors, folder: Path, tended: Tended) -> None:
        self._hub = hub
        self._executors = executors
        self._folder = folder
        self._tended = tended
        self._running: dict[tuple[str, str], Running] = {}
        self.closing = False

    def start(self, live: Live, call_id: str, attempt: int, arguments: str) -> None:
        """Run the call, whose CallStarted is saved."""
        call = live.session.call(call_id)
        tool = call.tool
        assert tool is not None
        invocation = Invocation(
            session=live.id,
            call=call_id,
            attempt=attempt,
            tool=tool,
            arguments=arguments,
            timeout_s=tool.timeout_s,
            max_output=MAX_OUTPUT,
            folder=self._folder / live.id,
            idempotency_key=idempotency_key(live.id, call_id, arguments),
            code=call.code,
            lift=call.decided is not None and call.decided.lift,
        )
        key = (live.id, call_id)
        progress = Progress(self._hub, invocation)
        staging = Staging(call.decided.fault if call.decided is not None else "")
        run = partial(self._executors.run, invocation, progress.report)
        work = asyncio.ensure_future(staging.run(run, progress.report))
        follow = self._follow(invocation, progress, work, staging)
        tended = self._tended(live.id, follow, lambda: self._running.pop(key))
        self._running[key] = Running(asyncio.ensure_future(tended), work)

    async def cancel(self, session_id: str, call_id: str) -> None:
        """End one call, where it still runs."""
        running = self._running.get((session_id, call_id))
        if running is not None:
            running.work.cancel()
            await asyncio.wait([running.task])

    def end(self, session_id: str) -> list[asyncio.Future[None]]:
        """Begin to end the session's calls; what is returned is done when they are over."""
        ended = [one for (session, _), one in self._running.items() if session == session_id]
        for one in ended:
            one.work.cancel()
        return [one.task for one in ended]

    def of(self, session_id: str) -> list[str]:
        """The ids of the session's calls that are under way."""
        return [call_id for session, call_id in self._running if session == session_id]

    @property
    def sessions(self) -> set[str]:
        return {session for session, _ in self._running}

    async def _follow(
        self,
        invocation: Invocation,
        progress: Progress,
        work: asyncio.Future[ToolResult],
        staging: Staging,
    ) -> None:
        pump = asyncio.create_task(progress.pump())
        await asyncio.wait([work])
        pump.cancel()
        await asyncio.wait([pump])
        async with self._hub.holding(invocation.session) as live:
            ended = outcome_of(invocation.call, work, self.closing)
            ended = staging.ended(ended, live.session, self._hub.masker(), MAX_OUTPUT)
            await self._hub.append(live, [ended])


def outcome_of(
    call_id: str, work: asyncio.Future[ToolResult], closing: bool
) -> CallEnded | CallInterrupted:
    if work.cancelled():
        # Its effect is unknown when the program ends; a person who cancels knows what it did.
        return CallInterrupted(call_id) if closing else CallEnded(call_id, _CANCELLED)
    if (error := work.exception()) is not None:
        log.error("The executor of call %s broke.", call_id, exc_info=error)
        return CallEnded(call_id, _BROKEN)
    return CallEnded(call_id, work.result())


_CANCELLED = text_result(
    "The person cancelled this call while it was running; what it had done by then stands.",
    is_error=True,
    kind="interrupted",
)

_BROKEN = text_result(
    "The program that runs this tool broke; its log says why.", is_error=True, kind="failed"
)
