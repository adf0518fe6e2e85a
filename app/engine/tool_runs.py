"""Runs tool calls: starts them, saves their progress, records their results, ends them.

Faults are staged here, and calls that go on in the background are followed as tasks.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Generic, TypeVar

from app.core.arguments import canonical
from app.core.errors import Conflict, IllegalEvent, NotFound, StoreError
from app.core.events import (
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
from app.core.faults import SLOW_S, scene, staged
from app.core.late import dataclass
from app.core.session import Session
from app.core.tools import ToolResult, text_result
from app.engine.redaction import redact_event
from app.engine.sessions import LiveSession, SessionStore
from app.executors.executor import LONGEST_S, Deadline, Invocation, Report
from app.executors.run_with_limits import Executors
from app.executors.workspace.shell import Tell
from app.schema import strict_json
from app.schema.validate import schema_problems
from app.secrets.redaction import Redactor

MAX_OUTPUT = 1024 * 1024
"""Bytes of a tool's output that are kept; more is an error result."""

PROGRESS_S = 0.1
"""The least time between two progress events of one call, in seconds."""

MOST_BEHIND = 4
"""Calls in the background, over all sessions: half of the places that there are for calls."""

TITLE = 200

log = logging.getLogger(__name__)


def idempotency_key(session_id: str, call_id: str, arguments: str) -> str:
    """The same for every attempt at the same thing: who has had its effect before can tell, and
    who reads other arguments, which a user edited, does not learn that it has. What is spelled in
    another way is the same."""
    fingerprint = hashlib.sha256(canonical(arguments).encode()).hexdigest()[:16]
    return f"{session_id}/{call_id}/{fingerprint}"


class ProgressSaver:
    """The newest word of a running call and what it printed, saved at most every PROGRESS_S.

    What it prints is masked as one stream, for a secret may come in two pieces: an end that may be
    the beginning of one waits for what follows.
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
        self._newest = CallProgressed(call_id, text, fraction, output, waits, self._real)
        self._there.set()

    def keep(self, real: ToolResult) -> None:
        """What is held back from here on is in the log, whatever becomes of the program."""
        self._real = real

    def end(self) -> None:
        """No more is saved by `pump`, which is let finish what it does: nothing is sent twice."""
        self._over.set()
        self._there.set()

    def rest(self, *, over: bool = False, whole: bool = False) -> list[Event]:
        """What was not saved yet; from here on that is nothing. `over`: no more is printed;
        `whole`: and nobody cut it off."""
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
            save = partial(self._sessions.append, events=self.rest())
            try:
                await self._sessions.surely(self._invocation.session, save)
            except (IllegalEvent, StoreError) as error:
                log.warning("progress of %s was not saved: %s", self._invocation.call, error)
            with suppress(TimeoutError):
                async with asyncio.timeout(PROGRESS_S):
                    await self._over.wait()


@dataclass
class RunningCall:
    """A call under way: `work` can be cancelled, `task` writes down how it ended. `behind` is the
    task it goes on as, "" while its turn waits; `cancelled`: ended alone, not with its run."""

    task: asyncio.Future[None]
    work: asyncio.Future[ToolResult]
    deadline: Deadline
    staging: FaultStaging
    behind: str = ""
    cancelled: bool = False


@dataclass(frozen=True)
class EndedCall:
    """A call whose work is done, and what it said that is not saved yet."""

    call_id: str
    work: asyncio.Future[ToolResult]
    staging: FaultStaging
    rest: Sequence[Event]
    ended_ms: int


MOST_TOGETHER = 16
"""How many ends of calls are written at once: each may bear a result of MAX_OUTPUT."""

Supervise = Callable[[str, Awaitable[None], Callable[[], object]], Awaitable[None]]
"""(session, work, forget): do the work, forget it, and do what follows from it."""


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
        """Give a running call `by_s` more seconds. Conflict where it does not run any more."""
        running = self._under_way(live, call_id)
        if running.staging.returned:
            raise Conflict("Its tool has returned already; only its result is held back.")
        call = live.session.call(call_id)
        assert call.tool is not None
        if call.tool.timeout_s + call.extended_s + by_s > LONGEST_S:
            raise Conflict(f"A call runs for at most {LONGEST_S / 3600:g} hours in all; ask less.")
        if not running.deadline.extend(by_s):
            raise Conflict("The time of this call was over a moment ago.")
        await self._sessions.append(live, [CallExtended(call_id, by_s)])

    async def put_behind(self, live: LiveSession, call_id: str) -> str:
        """Let a running call go on in the background, where its turn does not wait for it; the id
        of its task. Conflict where that cannot be."""
        running = self._under_way(live, call_id)
        call = live.session.call(call_id)
        if running.staging.fault:
            raise Conflict("A fault is staged of this call, so its result is waited for.")
        if sum(bool(running_call.behind) for running_call in self._running.values()) >= MOST_BEHIND:
            raise Conflict(f"{MOST_BEHIND} calls are in the background already; stop one of them.")
        task_id = call.task_id
        title = f"{call.name} {call.arguments}"[:TITLE]
        message = (
            f"It goes on in the background as task {task_id}; its result comes with a later "
            "message. Do not call it again for that."
        )
        events: list[Event] = [
            TaskStarted(task_id, call_id, title),
            CallEnded(call_id, text_result(message)),
        ]
        await self._sessions.append(live, events)
        running.behind = task_id
        # Nobody waits for it, so its own limit has no sense any more.
        running.deadline.extend(LONGEST_S)
        return task_id

    def _under_way(self, live: LiveSession, call_id: str) -> RunningCall:
        call, running = live.session.call(call_id), self._running.get((live.id, call_id))
        if running is None or call.status != "running":
            raise Conflict("This call is not running.")
        return running

    async def cancel(self, session_id: str, call_id: str) -> None:
        """End one call, where it still runs, in the background or not."""
        running = self._running.get((session_id, call_id))
        if running is not None:
            running.cancelled = True
            running.work.cancel()
            await self._sessions.health.or_trouble([running.task])

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        """End the call that goes on as this task; False where there is none."""
        for (session, call_id), running in list(self._running.items()):
            if session == session_id and running.behind == task_id:
                await self.cancel(session, call_id)
                return True
        return False

    def lost(self, session: Session) -> list[Event]:
        """The ends of calls in the background that nobody follows: a write had failed."""
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
        """Begin to end the session's calls; what is returned is done when they are over."""
        ended = [
            running for (session, _), running in self._running.items() if session == session_id
        ]
        for running in ended:
            running.work.cancel()
        return [running.task for running in ended]

    def of(self, session_id: str) -> list[str]:
        """The ids of the session's calls that are under way and waited for."""
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
        rest, ended_ms = progress.rest(over=True, whole=whole), self._sessions.clock()

        over = EndedCall(invocation.call, work, staging, rest, ended_ms)
        await self._over.write(invocation.session, over)

    async def _write(self, session_id: str, several: Sequence[EndedCall]) -> Sequence[None]:
        async def save(live: LiveSession) -> None:
            events = {ended_call.call_id: self._ended(live, ended_call) for ended_call in several}
            times = [
                ended_call.ended_ms for ended_call in several for _ in events[ended_call.call_id]
            ]
            await self._sessions.append(live, [*chain(*events.values())], times=times)

        await self._sessions.surely(session_id, save)  # a result is not lost to a full disk
        return [None] * len(several)

    def _ended(self, live: LiveSession, over: EndedCall) -> list[Event]:
        running = self._running[live.id, over.call_id]
        if running.behind:
            why = STOPPED_BY_USER if running.cancelled else STOPPED_WITH_RUN
            why = ENDED_WITH_PROGRAM if self.closing else why
            return [*over.rest, task_ended(running.behind, over.work, why)]
        over_by = CANCELLED if running.cancelled else _STOPPED
        ended = outcome_of(over.call_id, over.work, None if self.closing else over_by)
        redactor = self._sessions.redactor()
        return [*over.rest, over.staging.ended(ended, live.session, redactor, MAX_OUTPUT)]


def outcome_of(
    call_id: str, work: asyncio.Future[ToolResult], cancelled: ToolResult | None
) -> CallEnded | CallInterrupted:
    """How a call ended; `cancelled` is its result where a user ended it, None where the program
    ends: then its effect is unknown."""
    if work.cancelled():
        return CallEnded(call_id, cancelled) if cancelled else CallInterrupted(call_id)
    if (error := work.exception()) is not None:
        log.error("The executor of call %s broke.", call_id, exc_info=error)
        return CallEnded(call_id, _BROKEN)
    return CallEnded(call_id, work.result())


def task_ended(task_id: str, work: asyncio.Future[ToolResult], why: str) -> TaskEnded:
    """How a call in the background came to its end; `why` where it was ended."""
    if work.cancelled():
        return TaskEnded(task_id, why)
    if (error := work.exception()) is not None:
        log.error("The executor of %s broke.", task_id, exc_info=error)
        return TaskEnded(task_id, "the program that runs it broke", _BROKEN)
    result = work.result()
    return TaskEnded(task_id, "ended with an error" if result.is_error else "done", result)


_STOPPED = text_result(
    "The user stopped the run while this call was running; what it had done by then is not undone.",
    is_error=True,
    kind="interrupted",
)

CANCELLED = text_result(
    "The user cancelled this call while it was running; what it had done by then is not undone.",
    is_error=True,
    kind="interrupted",
)

_BROKEN = text_result(
    "The program that runs this tool broke; its log says why.", is_error=True, kind="failed"
)

# A staged fault: the call is run, what it returned is kept in the log, and what the model reads is
# the fault.

STEP_S = 1.0
"""How often the page gets how long a result is still held back, in seconds."""

Sleep = Callable[[float], Awaitable[object]]


class FaultStaging:
    """The fault of one call, "" for none. `keep` gets what is held back before it is."""

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

        result = staged(self.fault, scene(session, call), real, fits=fits, most=most)
        return CallEnded(ended.call_id, result, real=real)


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


def task_writer(sessions: SessionStore) -> Tell:
    """What appends an event to a session, deleted or not."""

    async def tell(session: str, event: Event) -> None:
        try:
            await sessions.surely(session, partial(sessions.append, events=[event]))
        except NotFound:
            pass  # a tool that is tried alone has no log
        except (IllegalEvent, StoreError) as error:
            log.warning("A task of session %s was not written down: %s", session, error)

    return tell


# What several ask to be written of one session -------------------------------------------------

T = TypeVar("T")


class GroupedWrites(Generic[T]):
    """`write` writes several items of a session, at most `most`, in one hold, and says of each why
    it could not, or None; what it raises is said of all of them."""

    def __init__(
        self, write: Callable[[str, Sequence[T]], Awaitable[Sequence[Exception | None]]], most: int
    ) -> None:
        self._write = write
        self._most = most
        self._waiting: dict[str, deque[tuple[T, asyncio.Future[None]]]] = {}
        self._writers: set[asyncio.Task[None]] = set()

    async def write(self, session_id: str, item: T) -> None:
        """Until `item` is written; raises why it could not be. Who leaves before its turn has
        come takes it back."""
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
        """Until nothing is being written any more."""
        if self._writers:
            await asyncio.wait(self._writers)

    async def _write_all(self, session_id: str) -> None:
        waiting = self._waiting[session_id]
        while waiting:
            asked = [waiting.popleft() for _ in range(min(self._most, len(waiting)))]
            asked = [entry for entry in asked if not entry[1].done()]
            for (_, done), error in zip(asked, await self._tried(session_id, asked), strict=True):
                if done.done():
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        del self._waiting[session_id]

    async def _tried(
        self, session_id: str, asked: Sequence[tuple[T, asyncio.Future[None]]]
    ) -> Sequence[Exception | None]:
        if not asked:
            return []
        try:
            return await self._write(session_id, [item for item, _ in asked])
        except IllegalEvent as error:
            if len(asked) == 1:
                return [error]
            # All or none is written of several: one that cannot follow takes no other with it.
            return [(await self._tried(session_id, [entry]))[0] for entry in asked]
        except Exception as error:
            return [error] * len(asked)
