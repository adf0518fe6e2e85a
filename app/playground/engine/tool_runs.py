"""Runs tool calls: starts them, saves their progress, records their results, ends them.

Stages faults, and follows background calls as tasks.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from playground.core.arguments import canonical_text
from playground.core.errors import Conflict, IllegalEvent, NotFound, StoreError
from playground.core.events import (
    ENDED_WITH_PROGRAM,
    STOPPED_BY_USER,
    STOPPED_WITH_RUN,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    Event,
    TaskEnded,
    TaskStarted,
)
from playground.core.faults import SLOW_S, scene, stage_result
from playground.core.session import Session
from playground.core.tools import ToolResult, text_result
from playground.engine.redaction import redact_event
from playground.engine.sessions import LiveSession, SessionStore
from playground.executors.executor import LONGEST_S, Deadline, Invocation, ReportProgress
from playground.executors.run_with_limits import Executors
from playground.executors.workspace.shell import Tell
from playground.schema import strict_json
from playground.schema.validate import schema_problems
from playground.secrets.redaction import Redactor

MAX_OUTPUT = 1024 * 1024
"""Bytes of a tool's output that are kept; more is an error result."""

PROGRESS_S = 0.1
"""The least time between two progress events of one call, in seconds."""

MOST_BEHIND = 4
"""Most background calls over all sessions: half of the slots for calls."""

TITLE = 200

log = logging.getLogger(__name__)

MOST_TOGETHER = 16
"""How many ended calls are written at once; each may have a result of MAX_OUTPUT."""

Supervise = Callable[[str, Awaitable[None], Callable[[], object]], Awaitable[None]]
"""(session, work, forget): awaits the work, calls forget, and advances the session."""

_STOPPED = text_result(
    "The user stopped the run while this call was running; its effects so far are not undone.",
    is_error=True,
    kind="interrupted",
)

CANCELLED = text_result(
    "The user cancelled this call while it was running; its effects so far are not undone.",
    is_error=True,
    kind="interrupted",
)

_BROKEN = text_result(
    "This tool's executor failed. See the program's log.", is_error=True, kind="failed"
)

STEP_S = 1.0
"""Seconds between two updates of the page while a result is held back."""

Sleep = Callable[[float], Awaitable[object]]

T = TypeVar("T")


def idempotency_key(session_id: str, call_id: str, arguments: str) -> str:
    """The same for every attempt with the same arguments, so that a service can recognize a
    repetition; different if a user edited the arguments. The formatting of the JSON does not
    matter."""
    fingerprint = hashlib.sha256(canonical_text(arguments).encode()).hexdigest()[:16]
    return f"{session_id}/{call_id}/{fingerprint}"


class ProgressSaver:
    """Saves the last message and the output of a running call, at most every PROGRESS_S.

    The output is masked as one stream, because a secret may be split: an end that may begin one
    waits for what follows.
    """

    def __init__(self, sessions: SessionStore, invocation: Invocation) -> None:
        self._sessions = sessions
        self._invocation = invocation
        self._newest: CallProgressed | None = None
        self._last = CallProgressed(invocation.call, "")
        self._printed = sessions.redactor().redact_texts()
        self._real: ToolResult | None = None
        self._there = asyncio.Event()
        self._over = asyncio.Event()

    def report(self, text: str, fraction: float | None = None, output: str = "") -> None:
        if self._newest is not None:
            output = self._newest.output + output
        waits = not self._invocation.deadline.begun
        call_id = self._invocation.call
        self._newest = CallProgressed(
            call_id, text=text, fraction=fraction, output=output, waits=waits, real=self._real
        )
        self._there.set()

    def keep(self, real: ToolResult) -> None:
        """Adds a held-back result to the log, in case the program ends."""
        self._real = real

    def end(self) -> None:
        """Stops `pump` after its current write, so that nothing is saved twice."""
        self._over.set()
        self._there.set()

    def take_unsaved(self, *, over: bool = False, whole: bool = False) -> list[Event]:
        """Returns and clears what is not saved yet. `over`: no more output will come; `whole`: it
        was not cut off."""
        newest, self._newest, self._real = self._newest, None, None
        output = self._printed.feed(newest.output) if newest is not None else ""
        output += self._printed.end(whole=whole) if over else ""
        if newest is None and not output:
            return []
        self._last = replace(newest or self._last, output=output)
        return [self._last]

    async def pump(self) -> None:
        while True:
            await self._there.wait()
            self._there.clear()
            if self._over.is_set():
                return
            try:
                await self._sessions.append(self._invocation.session, self.take_unsaved())
            except (IllegalEvent, StoreError) as error:
                log.warning("progress of %s was not saved: %s", self._invocation.call, error)
            with suppress(TimeoutError):
                async with asyncio.timeout(PROGRESS_S):
                    await self._over.wait()


@dataclass
class RunningCall:
    """A running call: `work` can be cancelled, `task` logs how it ended. `behind`: its task id if
    in the background, "" while its turn waits; `cancelled`: cancelled alone, not with its run."""

    task: asyncio.Future[None]
    work: asyncio.Future[ToolResult]
    deadline: Deadline
    staging: FaultStaging
    behind: str = ""
    cancelled: bool = False


@dataclass(frozen=True)
class EndedCall:
    """A call whose work is done, with its unsaved progress."""

    call_id: str
    work: asyncio.Future[ToolResult]
    staging: FaultStaging
    rest: Sequence[Event]
    ended_ms: int


class ToolRuns:
    """`folder` holds the sessions' scratch folders. `closing` is set when the program ends."""

    def __init__(
        self, sessions: SessionStore, executors: Executors, folder: Path, supervise: Supervise
    ) -> None:
        self._sessions = sessions
        self._executors = executors
        self._folder = folder
        self._supervise = supervise
        self._running: dict[tuple[str, str], RunningCall] = {}
        self._over = GroupedWrites(self._write, MOST_TOGETHER)
        self.closing = False

    def start(self, live: LiveSession, call_id: str, attempt: int, arguments: str) -> None:
        """Runs the call; its CallStarted is already saved."""
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
            redact=lambda value: self._sessions.redactor().redact_data(value),
        )
        key = (live.id, call_id)
        progress = ProgressSaver(self._sessions, invocation)
        fault = call.decided.fault if call.decided is not None else ""
        staging = FaultStaging(fault, keep=progress.keep)
        run = partial(self._executors.run, invocation, progress.report)
        work = asyncio.ensure_future(staging.run(run, progress.report))
        follow = self._follow(invocation, progress, work, staging)
        supervised = self._supervise(live.id, follow, lambda: self._running.pop(key))
        self._running[key] = RunningCall(
            asyncio.ensure_future(supervised), work, invocation.deadline, staging
        )

    async def extend(self, live: LiveSession, call_id: str, by_s: float) -> None:
        """Gives a running call `by_s` more seconds. Conflict if it no longer runs."""
        running = self._running_call(live, call_id)
        if running.staging.returned:
            raise Conflict("Its tool has already returned. Only its result is delayed.")
        call = live.session.call(call_id)
        assert call.tool is not None
        if call.tool.timeout_s + call.extended_s + by_s > LONGEST_S:
            raise Conflict(
                f"A call runs for at most {LONGEST_S / 3600:g} hours in all. Enter fewer seconds."
            )
        if not running.deadline.extend(by_s):
            raise Conflict("The call's time limit has just passed.")
        await self._sessions.append(live, [CallExtended(call_id, by_s)])

    async def move_to_background(self, live: LiveSession, call_id: str) -> str:
        """Moves a running call to the background, so that its turn does not wait for it; returns
        its task id. Conflict if that is not possible."""
        running = self._running_call(live, call_id)
        call = live.session.call(call_id)
        if running.staging.fault:
            raise Conflict("This call has a staged fault, so it cannot move to the background.")
        if sum(bool(running_call.behind) for running_call in self._running.values()) >= MOST_BEHIND:
            raise Conflict(
                f"{MOST_BEHIND} calls are already in the background, the maximum. Stop one of them."
            )
        task_id = call.task_id
        title = f"{call.name} {call.arguments}"[:TITLE]
        message = (
            f"It continues in the background as task {task_id}; its result comes with a later "
            "message. Do not call it again for that."
        )
        events: list[Event] = [
            TaskStarted(task_id, call_id, title),
            CallEnded(call_id, text_result(message)),
        ]
        await self._sessions.append(live, events)
        running.behind = task_id
        # No turn waits for it any more, so its own time limit no longer applies.
        running.deadline.extend(LONGEST_S)
        return task_id

    def _running_call(self, live: LiveSession, call_id: str) -> RunningCall:
        call, running = live.session.call(call_id), self._running.get((live.id, call_id))
        if running is None or call.status != "running":
            raise Conflict("This call is not running.")
        return running

    async def cancel(self, session_id: str, call_id: str) -> None:
        """Cancels one call if it still runs, in the background or not."""
        running = self._running.get((session_id, call_id))
        if running is not None:
            running.cancelled = True
            running.work.cancel()
            await self._sessions.health.wait_or_trouble([running.task])

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        """Ends the background call of this task; False if there is none."""
        for (session, call_id), running in list(self._running.items()):
            if session == session_id and running.behind == task_id:
                await self.cancel(session, call_id)
                return True
        return False

    def lost_task_events(self, session: Session) -> list[Event]:
        """End events for background calls that are no longer followed because a write failed."""
        behind = {
            running.behind for (where, _), running in self._running.items() if where == session.id
        }
        known = {call.task_id for call in session.calls()}
        return [
            TaskEnded(task.id, "its end could not be saved")
            for task in session.open_tasks
            if task.id in known - behind
        ]

    def end(self, session_id: str) -> list[asyncio.Future[None]]:
        """Cancels the session's calls; the returned futures complete when they have ended."""
        ended = [
            running for (session, _), running in self._running.items() if session == session_id
        ]
        for running in ended:
            running.work.cancel()
        return [running.task for running in ended]

    def foreground_calls(self, session_id: str) -> list[str]:
        """The ids of the session's running calls that are not in the background."""
        return [
            call_id
            for (session, call_id), running in self._running.items()
            if session == session_id and not running.behind
        ]

    @property
    def sessions(self) -> set[str]:
        return {session for session, _ in self._running}

    async def _follow(
        self,
        invocation: Invocation,
        progress: ProgressSaver,
        work: asyncio.Future[ToolResult],
        staging: FaultStaging,
    ) -> None:
        pump = asyncio.create_task(progress.pump())
        await asyncio.wait([work])
        progress.end()
        await asyncio.wait([pump])
        whole = not work.cancelled() and work.exception() is None and not work.result().is_error
        rest, ended_ms = progress.take_unsaved(over=True, whole=whole), self._sessions.clock()

        over = EndedCall(invocation.call, work, staging, rest, ended_ms)
        await self._over.write(invocation.session, over)

    async def _write(self, session_id: str, several: Sequence[EndedCall]) -> Sequence[None]:
        def end_events(live: LiveSession) -> Sequence[Event]:
            return [event for ended_call in several for event in self._end_events(live, ended_call)]

        times = [
            ended_call.ended_ms for ended_call in several for _ in range(len(ended_call.rest) + 1)
        ]
        await self._sessions.append(session_id, end_events, times=times)
        return [None] * len(several)

    def _end_events(self, live: LiveSession, over: EndedCall) -> list[Event]:
        running = self._running[live.id, over.call_id]
        if running.behind:
            why = STOPPED_BY_USER if running.cancelled else STOPPED_WITH_RUN
            why = ENDED_WITH_PROGRAM if self.closing else why
            return [*over.rest, task_end(running.behind, over.work, why)]
        over_by = CANCELLED if running.cancelled else _STOPPED
        ended = outcome_of(over.call_id, over.work, None if self.closing else over_by)
        redactor = self._sessions.redactor()
        return [*over.rest, over.staging.apply_fault(ended, live.session, redactor, MAX_OUTPUT)]


def outcome_of(
    call_id: str, work: asyncio.Future[ToolResult], cancelled: ToolResult | None
) -> CallEnded | CallInterrupted:
    """The end of a call. `cancelled` is its result if a user ended it; None if the program ends:
    then its effect is unknown."""
    if work.cancelled():
        return CallEnded(call_id, cancelled) if cancelled else CallInterrupted(call_id)
    if (error := work.exception()) is not None:
        log.error("The executor of call %s failed.", call_id, exc_info=error)
        return CallEnded(call_id, _BROKEN)
    return CallEnded(call_id, work.result())


def task_end(task_id: str, work: asyncio.Future[ToolResult], why: str) -> TaskEnded:
    """The end of a background call; `why` if it was ended early."""
    if work.cancelled():
        return TaskEnded(task_id, why)
    if (error := work.exception()) is not None:
        log.error("The executor of %s failed.", task_id, exc_info=error)
        return TaskEnded(task_id, "its executor failed", _BROKEN)
    result = work.result()
    return TaskEnded(task_id, "ended with an error" if result.is_error else "done", result)


# A staged fault: the call runs, its real result is kept in the log, and the model reads the fault.


class FaultStaging:
    """The fault of one call, "" for none. `keep` gets a result before it is held back."""

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
        """Whether the tool has returned and its result is held back."""
        return self._real is not None

    async def run(
        self, run: Callable[[], Awaitable[ToolResult]], report: ReportProgress
    ) -> ToolResult:
        """Runs the tool; the delay of a slow answer does not count for the tool's time limit."""
        result = await run()
        if self.fault:
            self._real = result
        if self.fault == "slow":
            self._keep(result)
            await self._hold(report)
        return result

    async def _hold(self, report: ReportProgress) -> None:
        held_s = 0.0
        while held_s < SLOW_S:
            report(f"Held back on purpose, {SLOW_S - held_s:g} s to go.", held_s / SLOW_S)
            await self._sleep(STEP_S)
            held_s += STEP_S

    def apply_fault(
        self,
        ended: CallEnded | CallInterrupted,
        session: Session,
        redactor: Redactor,
        most: int,
    ) -> CallEnded | CallInterrupted:
        """Replaces the result in `ended` by the fault. A call that was cancelled or interrupted
        after its tool returned counts as returned: it need not run again."""
        if not self.fault or self._real is None:
            return ended
        real = _redact_result(ended.call_id, self._real, redactor)
        if self.fault == "slow" and isinstance(ended, CallEnded) and ended.result != self._real:
            return replace(ended, real=real)  # cancelled while it was held back
        call = session.call(ended.call_id)
        schema = call.tool.config.get("output_schema") if call.tool is not None else None

        def fits(text: str) -> bool:
            return schema is not None and _satisfies(schema, text)

        result = stage_result(self.fault, scene(session, call), real, fits=fits, most=most)
        return CallEnded(ended.call_id, result, real=real)


def _redact_result(call_id: str, result: ToolResult, redactor: Redactor) -> ToolResult:
    # Before anything is cut: half of a key would not be recognized.
    event = redact_event(CallEnded(call_id, result), redactor)
    assert isinstance(event, CallEnded)
    return event.result


def _satisfies(schema: dict[str, object], text: str) -> bool:
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON:
        return False
    return not schema_problems(schema, value)


def task_writer(sessions: SessionStore) -> Tell:
    """A function that appends an event to a session, deleted or not."""

    async def tell(session: str, event: Event) -> None:
        try:
            await sessions.append(session, [event])
        except NotFound:
            pass  # a tool that is tried alone has no log
        except (IllegalEvent, StoreError) as error:
            log.warning("A task of session %s was not saved: %s", session, error)

    return tell


# Batches concurrent writes to one session ---------------------------------------------------------


class GroupedWrites(Generic[T]):
    """`write` writes up to `most` items of a session under one lock and returns for each the error
    or None; an exception that it raises counts for all items."""

    def __init__(
        self, write: Callable[[str, Sequence[T]], Awaitable[Sequence[Exception | None]]], most: int
    ) -> None:
        self._write = write
        self._most = most
        self._waiting: dict[str, deque[tuple[T, asyncio.Future[None]]]] = {}
        self._writers: set[asyncio.Task[None]] = set()

    async def write(self, session_id: str, item: T) -> None:
        """Waits until `item` is written; raises its error. Cancelling before its turn removes
        it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if (waiting := self._waiting.get(session_id)) is not None:
            waiting.append((item, done))
        else:
            self._waiting[session_id] = deque([(item, done)])
            writer = asyncio.create_task(self._write_all(session_id))
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        await done

    async def close(self) -> None:
        """Waits until all writes have ended."""
        if self._writers:
            await asyncio.wait(self._writers)

    async def _write_all(self, session_id: str) -> None:
        waiting = self._waiting[session_id]
        while waiting:
            asked = [waiting.popleft() for _ in range(min(self._most, len(waiting)))]
            asked = [entry for entry in asked if not entry[1].done()]
            for (_, done), error in zip(
                asked, await self._try_write(session_id, asked), strict=True
            ):
                if done.done():
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        del self._waiting[session_id]

    async def _try_write(
        self, session_id: str, asked: Sequence[tuple[T, asyncio.Future[None]]]
    ) -> Sequence[Exception | None]:
        if not asked:
            return []
        try:
            return await self._write(session_id, [item for item, _ in asked])
        except IllegalEvent as error:
            if len(asked) == 1:
                return [error]
            # All or none is written; retried one by one, an illegal item affects no other.
            return [(await self._try_write(session_id, [entry]))[0] for entry in asked]
        except Exception as error:
            return [error] * len(asked)
