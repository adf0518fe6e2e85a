"""A call under way: its newest word on the way into the log, and what its end is there."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from app.core.errors import IllegalEvent, StoreError
from app.core.events import CallEnded, CallInterrupted, CallProgressed
from app.core.tools import ToolResult, text_result
from app.engine.hub import Hub
from app.executors.executor import Invocation

PROGRESS_S = 0.1
"""The least time between two progress events of one call, in seconds."""

log = logging.getLogger(__name__)


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

    task: asyncio.Task[None]
    work: asyncio.Future[ToolResult]


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
