"""A fault on its way: the call is run, what it returned is kept, and what the model reads is made.

What is held back is lost in no case: it stands in the log beside what the model read instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from app.core.events import CallEnded, CallInterrupted
from app.core.faults import SLOW_S, scene, staged
from app.core.session import Session
from app.core.tools import ToolResult
from app.engine.redaction import redact_event
from app.executors.executor import Report
from app.schema import strict_json
from app.schema.validate import schema_problems
from app.secrets.redaction import Redactor

STEP_S = 1.0
"""How often it is told how long a result is held back still, in seconds."""

Sleep = Callable[[float], Awaitable[object]]


class StagedFault:
    """The fault of one call, "" for none. `keep` is told what is held back before it is."""

    def __init__(
        self,
        fault: str,
        sleep: Sleep = asyncio.sleep,
        keep: Callable[[ToolResult], object] = lambda _: None,
    ) -> None:
        self._keep = keep
        self.fault = fault
        self._sleep = sleep
        self._real: ToolResult | None = None

    @property
    def returned(self) -> bool:
        """Whether the tool is done, and its result is held back."""
        return self._real is not None

    async def run(self, run: Callable[[], Awaitable[ToolResult]], report: Report) -> ToolResult:
        """Run the tool; a slow answer is held back, which counts for no limit of the tool."""
        result = await run()
        if self.fault:
            self._real = result
        if self.fault == "slow":
            self._keep(result)
            await self._hold(report)
        return result

    async def _hold(self, report: Report) -> None:
        held_s = 0.0
        while held_s < SLOW_S:
            report(f"Held back on purpose, {SLOW_S - held_s:g} s to go.", held_s / SLOW_S)
            await self._sleep(STEP_S)
            held_s += STEP_S

    def ended(
        self,
        ended: CallEnded | CallInterrupted,
        session: Session,
        redactor: Redactor,
        most: int,
    ) -> CallEnded | CallInterrupted:
        """`ended` with what was staged. A call that was cancelled, or cut off by the end of the
        program, after its tool had returned did return: nothing has to be run again."""
        if not self.fault or self._real is None:
            return ended
        real = _redact_result(ended.call_id, self._real, redactor)
        if self.fault == "slow" and isinstance(ended, CallEnded) and ended.result != self._real:
            return replace(ended, real=real)  # cancelled while it was held back
        call = session.call(ended.call_id)
        schema = call.tool.config.get("output_schema") if call.tool is not None else None

        def fits(text: str) -> bool:
            return schema is not None and _satisfies(schema, text)

        made = staged(self.fault, scene(session, call), real, fits=fits, most=most)
        return CallEnded(ended.call_id, made, real=real)


def _redact_result(call_id: str, result: ToolResult, redactor: Redactor) -> ToolResult:
    # Before anything is cut: half of a key is not known as one.
    event = redact_event(CallEnded(call_id, result), redactor)
    assert isinstance(event, CallEnded)
    return event.result


def _satisfies(schema: dict[str, object], text: str) -> bool:
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON:
        return False
    return not schema_problems(schema, value)
