"""Runs sessions: performs what `next_commands` decides, and nothing else.

There is no loop and no state of a run here: `advance` performs all that can be done now and
leaves; whatever finishes (an answer, a call) or is decided calls it again. What is under way is a
task of its session; a session with none just waits, for a user or for ever. `RetryWaits` are the
waits before a request is sent again; `recover` closes what a restart cut off.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from app.core.decide import (
    LONGEST_WAIT_S,
    CheckCall,
    Command,
    Record,
    Retry,
    RunCall,
    SendRequest,
    closing_events,
    gone_events,
    left_events,
    next_commands,
    over_events,
    settled,
    void_events,
)
from app.core.errors import (
    Conflict,
    IllegalEvent,
    NotFound,
    PlaygroundError,
    Refused,
    StoreError,
    StoreUnwritable,
)
from app.core.events import (
    CallDecided,
    CallReturned,
    CallStarted,
    Event,
    PromptAdded,
    ResponseFailed,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SettingsChanged,
    TurnDropped,
    Warned,
)
from app.core.late import dataclass
from app.core.rules import Rule
from app.core.session import Prompt, Session
from app.core.settings import Settings
from app.core.tools import Content
from app.engine.decisions import (
    CHECKS_TOGETHER,
    CallChecks,
    DecisionRequest,
    ResultDecision,
    decision_event,
    outcome,
    result_event,
)
from app.engine.responses import STOPPED, OnEnd, OpenRequest, PreparedRequest, ProviderClient
from app.engine.rules import Policy
from app.engine.sessions import LiveSession, SessionStore
from app.engine.tool_runs import GroupedWrites, ToolRuns
from app.executors.executor import CallCheck
from app.executors.run_with_limits import Executors

VOID_S = 900.0
"""How long what waits for the user waits for an agent that has gone, in seconds."""

FIRST_SETTLE_S = 1.0
MOST_SETTLE_S = 30.0
"""How long to wait before what could not be saved is tried again, at first and at most."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FollowedAnswer:
    """An answer that comes to somebody else: what is put into `request` is logged by `task`."""

    task: asyncio.Task[None]
    request: OpenRequest


class Runner:
    """`policy` decides without asking; `folder` holds the sessions' scratch folders."""

    def __init__(
        self,
        sessions: SessionStore,
        client: ProviderClient,
        executors: Executors,
        folder: Path,
        policy: Policy,
    ) -> None:
        self._sessions = sessions
        self._policy = policy
        self._client = client
        self._executors = executors
        self._running = ToolRuns(sessions, executors, folder, self._supervise)
        self.checks = CallChecks(sessions, executors, self._supervise, self._advance, policy)
        self._answers: dict[str, tuple[asyncio.Task[None], OpenRequest]] = {}
        self._deciding = GroupedWrites(self._decide, CHECKS_TOGETHER)
        self._in_line: set[str] = set()
        self._settling: dict[str, asyncio.Task[None]] = {}
        self._performing = UnderWay()
        self._closing: asyncio.Task[None] | None = None
        self.waits = RetryWaits()
        self.void_waits = RetryWaits()

    # What a user does.

    async def prompt(self, session_id: str, text: str, images: tuple[Content, ...] = ()) -> None:
        """Conflict where the session cannot take a prompt now."""
        if not text.strip() and not images:
            raise Refused("A prompt needs some text, or an image.")
        async with self._holding(session_id) as live:
            try:
                await self._sessions.append(live, [PromptAdded(text, images)])
            except IllegalEvent as error:
                raise Conflict(str(error)) from error
            await self._advance(live)

    async def decide(self, session_id: str, call_id: str, asked: DecisionRequest) -> None:
        """One check under the session's lock: of many decisions on a call one wins.

        What answers a call that is to run is looked at before, for that may take its time, and
        compared under the lock with what the card said."""
        async with self._holding(session_id, ours=False) as live:
            runs = decision_event(live.session, call_id, asked).decision == "run"
            call = live.session.call(call_id)
        checked = await self.checks.check(session_id, call) if runs else None
        await self._deciding.write(session_id, (call_id, asked, checked))

    async def _decide(
        self, session_id: str, several: Sequence[tuple[str, DecisionRequest, CallCheck | None]]
    ) -> Sequence[Exception | None]:
        """Each as if it came alone: why it is not decided, or None."""
        events: dict[str, CallDecided] = {}
        outcomes: list[Exception | None] = []
        async with self._holding(session_id, ours=False) as live:

            async def write() -> None:
                await self._sessions.append(live, list(events.values()))
                for event in events.values():
                    if event.decision == "deny":
                        self._policy.denied(live.session.call(event.call_id))
                events.clear()
                await self._advance(live)

            for call_id, asked, checked in several:
                changed = checked is not None and checked.code != live.session.call(call_id).code
                if events and (changed or call_id in events):
                    await write()  # what becomes of it is to be seen first
                try:
                    event = decision_event(live.session, call_id, asked)
                    if checked is not None:
                        await self.checks.refuse_changed(live, call_id, checked)
                except PlaygroundError as error:
                    outcomes.append(error)
                else:
                    events[call_id] = event
                    outcomes.append(None)
            if events:
                await write()
        return outcomes

    async def decide_result(self, session_id: str, call_id: str, asked: ResultDecision) -> None:
        """A result that is held goes on as it is, or edited: of many decisions on it one wins."""
        async with self._holding(session_id, ours=False) as live:
            await self._sessions.append(live, [result_event(live.session, call_id, asked)])

    async def settings(self, session_id: str, settings: Settings) -> None:
        """They hold from the next request on; a wait for a retry that they forbid is over."""
        async with self._holding(session_id) as live:
            events: list[Event] = []
            if live.session.settings != settings:
                events.append(SettingsChanged(settings))
            retrying = live.session.retrying
            if retrying is not None and retrying.attempt > settings.limits.max_retries:
                self.waits.end(session_id)
                events.append(RunStopped())
            if events:
                await self._sessions.append(live, events)
                await self._advance(live)  # a limit may have held back what can go on now

    async def retry(self, session_id: str, number: int | None = None) -> None:
        """Ask again from the same point; the last answer stays to be read. `number` is the turn
        that the asker means: of many clicks on one button one sends."""
        async with self._holding(session_id) as live:
            turn = live.session.turn
            if number is not None and (turn is None or turn.number != number):
                raise Conflict(f"Turn {number} is no longer the last one; look at what followed.")
            if turn is None or turn is not live.session.last_item or (turn.end and turn.calls):
                raise Refused("There is no failed answer to ask for again; send a prompt instead.")
            try:
                await self._sessions.append(live, [TurnDropped(turn.number)])
            except IllegalEvent as error:
                raise Conflict(str(error)) from error
            self.waits.end(session_id)
            await self._advance(live)

    async def resume(
        self, session_id: str, settings: Settings | None = None, halted: int | None = None
    ) -> None:
        """Go on after a limit, a restart or Stop; by `settings` from here on, where they differ.
        Conflict where event `halted` is not what holds the run now: that was not seen. An agent
        of somebody else may ask again from then on."""
        async with self._holding(session_id, ours=settings is not None) as live:
            if halted not in (None, live.session.halted_seq):
                raise Conflict("That pause is over; look at the run as it is now.")
            if not live.session.paused and not live.session.stopped:
                raise Refused("Nothing is paused here.")
            events: list[Event] = [RunResumed()]
            if settings is not None and settings != live.session.settings:
                events.insert(0, SettingsChanged(settings))
            await self._sessions.append(live, events)
            await self._advance(live)

    async def stop(self, session_id: str) -> None:
        """Within a moment nothing of this session is under way; what arrived is kept. Where the
        database cannot be written it holds all the same, and is saved as soon as it can be."""
        async with self._sessions.holding(session_id) as live:
            try:
                await self._stop(live)
            except StoreUnwritable:
                self._sessions.owe(live, RunStopped())
                self.waits.end(session_id)
                self._settle_later(session_id)
        await self._over(session_id)

    async def delete(self, session_id: str) -> None:
        """Hide it, stopped: in one hold, so that nothing of it runs on unseen."""
        async with self._sessions.holding(session_id) as live:
            await self._stop(live)
            await self._sessions.delete(live, deleted=True)
        self.void_waits.end(session_id)
        await self._over(session_id)

    async def _stop(self, live: LiveSession) -> None:
        trouble = self._sessions.health.trouble
        if trouble is None:
            await self._sessions.pay(live)
        if live.own and live.session.stoppable:
            if trouble is not None:
                raise trouble  # another try may take its time, and Stop does not
            await self._sessions.append(live, [RunStopped()])
        self.waits.end(live.id)

    async def _over(self, session_id: str) -> None:
        # Side by side: what ignores a signal takes its time, and Stop is to be done in a second.
        await asyncio.gather(
            self._end_tasks(session_id, ResponseFailed("stopped", STOPPED)),
            self._executors.forget(session_id),
        )
        async with self._sessions.holding(session_id) as live:
            events = closing_events(live.session, STOPPED, stopped=True)
            events += self._running.lost(live.session)
            if events and live.own and not self._busy(session_id):  # its task is gone
                try:
                    await self._sessions.append(live, events)
                except StoreUnwritable:
                    self._settle_later(session_id)

    async def leave(self, session_id: str) -> None:
        """The agent that runs the session asks nothing more: no result of its calls will come,
        and where it has left the calls that are held need nobody."""
        async with self._sessions.holding(session_id) as live:
            events, turn = left_events(live.session), live.session.turn
            if turn is not None and turn.client_gone and live.session.waits:
                events.append(RunStopped())  # nobody comes for what is held
            if events and live.own:
                await self._sessions.append(live, events)

    def has_left(self, session_id: str) -> None:
        """Its agent has gone while something waited for the user, and may ask again: what waits is
        void after a while."""
        self.void_waits.begin(
            session_id,
            VOID_S,
            lambda: self._supervise(session_id, self._void(session_id), lambda: None),
        )

    def has_come(self, session_id: str) -> None:
        """Its agent asks again."""
        self.void_waits.end(session_id)

    async def _void(self, session_id: str) -> None:
        with suppress(NotFound):  # deleted for good meanwhile
            async with self._sessions.holding(session_id) as live:
                if (events := void_events(live.session)) and live.own:
                    await self._sessions.append(live, events)

    async def cancel(self, session_id: str, call_id: str) -> None:
        """End one call that runs: the model reads that it was cancelled. The decision to run one
        that has not begun is taken back: it waits for the user again."""
        async with self._holding(session_id) as live:
            call = live.session.call(call_id)
            to_run = call.decided is not None and call.decided.decision == "run"
            if call.status == "decided" and to_run:  # under the lock, so that it never begins
                await self._sessions.append(live, [CallReturned(call_id, "person", TAKEN_BACK)])
                await self._advance(live)
                return
            if call.status != "running":
                raise Conflict("This call is not running.", outcome(call))
        await self._running.cancel(session_id, call_id)

    async def extend(self, session_id: str, call_id: str, seconds: float) -> None:
        """Give a running call `seconds` more."""
        async with self._holding(session_id) as live:
            await self._running.extend(live, call_id, seconds)

    async def put_behind(self, session_id: str, call_id: str) -> str:
        """Let a running call go on in the background, and the run without it; its task's id."""
        async with self._holding(session_id) as live:
            task_id = await self._running.put_behind(live, call_id)
            await self._advance(live)
            return task_id

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        """End the call that goes on as this task; False where there is none."""
        return await self._running.stop_task(session_id, task_id)

    async def close(self) -> None:
        """End everything because the program ends; the log says interrupted."""
        if self._closing is None:
            self._running.closing = True
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    @asynccontextmanager
    async def _holding(self, session_id: str, *, ours: bool = True) -> AsyncIterator[LiveSession]:
        """For all that can start or change something; Conflict where the session is deleted.
        Refused where an agent of somebody else runs it and it is to be `ours`."""
        async with self._sessions.holding(session_id) as live:
            live.check_open()
            if ours and live.session.tapped is not None:
                raise Refused(_AGENTS)
            await self._sessions.pay(live)
            yield live

    async def advance(self, session_id: str) -> None:
        """Do all that can be done now."""
        async with self._sessions.holding(session_id) as live:
            await self._advance(live)

    # What follows.

    async def _advance_for_all(self, session_id: str) -> None:
        """Who comes while this is in line for the session can leave again: what was saved by then
        is seen."""
        self._in_line.add(session_id)
        await asyncio.sleep(0)  # those whose ends were saved together come at once
        try:
            async with self._sessions.holding(session_id) as live:
                self._in_line.discard(session_id)
                await self._advance(live)
        finally:
            self._in_line.discard(session_id)

    async def _advance(self, live: LiveSession, looked: Collection[str] = ()) -> None:
        """The calls `looked` were looked at just now, like those that are decided in this hold."""
        fresh = set(looked)
        try:
            while commands := self._due(live, await self._commands(live), fresh):
                rules = self._policy.of(live.id)
                for alike in _in_groups(commands):
                    if self._closing or live.deleted:
                        return
                    if self._policy.of(live.id) != rules:
                        break  # they changed meanwhile: what was due may not be due any more
                    with self._performing:
                        await self._perform(live, alike, fresh)
        except Exception:  # a write that failed, or a bug: a session is never left as if it ran
            self._settle_later(live.id)
            raise

    async def _commands(self, live: LiveSession) -> Sequence[Command]:
        return await self._policy.commands(live.session, self.checks.count(live.id))

    def _due(
        self, live: LiveSession, commands: Sequence[Command], fresh: set[str]
    ) -> list[Command]:
        """Without the checks that are under way, and without the calls that are looked at once
        more before they begin: what becomes of them follows from that, outside of this hold."""
        if self._closing or live.deleted or not live.own or self._sessions.owes(live.id):
            return []
        runs = [command.call_id for command in commands if isinstance(command, RunCall)]
        looks = self.checks.look(live, [run for run in runs if run not in fresh])
        return [
            command
            for command in commands
            if not (
                isinstance(command, CheckCall) and self.checks.under_way(live.id, command.call_id)
            )
            and not (isinstance(command, RunCall) and command.call_id in looks)
        ]

    async def _perform(self, live: LiveSession, alike: Sequence[Command], fresh: set[str]) -> None:
        """A call that is decided here is `fresh`: it was just looked at."""
        match alike[0]:
            case Record():
                events = [command.event for command in alike if isinstance(command, Record)]
                fresh.update(event.call_id for event in events if isinstance(event, CallDecided))
                await self._sessions.append(live, events)
            case CheckCall():
                self.checks.start(
                    live, [command.call_id for command in alike if isinstance(command, CheckCall)]
                )
            case RunCall():
                runs = [command for command in alike if isinstance(command, RunCall)]
                started = [CallStarted(run.call_id, run.attempt) for run in runs]
                await self._sessions.append(live, started)
                for run in runs:
                    self._running.start(live, run.call_id, run.attempt, run.arguments)
            case Retry() as command:
                await self._retry_later(live, command)
            case SendRequest() as command:
                await self._send(live, command)

    async def _send(self, live: LiveSession, command: SendRequest) -> None:
        if _is_short(live.session):
            prepared = self._client.prepare(live.session, command.choice)
        else:  # with images it is megabytes; the session is held meanwhile
            prepared = await asyncio.to_thread(self._client.prepare, live.session, command.choice)
        notes = [Warned("translation", note) for note in prepared.notes]
        if command.note:
            notes.insert(0, Warned("choice_fell_back", command.note))
        await self._sessions.append(live, [prepared.sent, *notes])
        if prepared.failed is not None:
            await self._sessions.append(live, [prepared.failed])
            return
        answering = OpenRequest()
        session_id = live.id

        task = asyncio.create_task(
            self._supervise(
                session_id,
                self._client.answer(session_id, prepared, answering, self._ended),
                lambda: self._answers.pop(session_id),
            )
        )
        self._answers[session_id] = (task, answering)

    def follow(self, live: LiveSession, prepared: PreparedRequest, ended: OnEnd) -> FollowedAnswer:
        """Log the answer to a request that an agent sent and that is in the log. Whoever reads it
        puts it in; Stop ends it as one that was sent from here. The caller holds the session."""
        answering, session_id = OpenRequest(), live.id
        task = asyncio.create_task(
            self._supervise(
                session_id,
                self._client.record(session_id, prepared, answering, ended),
                lambda: self._answers.pop(session_id),
            )
        )
        self._answers[session_id] = (task, answering)
        return FollowedAnswer(task, answering)

    async def _ended(self, live: LiveSession) -> None:
        """In one hold with the answer's end: nobody sees a run as failed that goes on by itself."""
        for command in next_commands(live.session):
            held = self._closing is not None or self._sessions.owes(live.id)
            if isinstance(command, Retry) and not held:
                await self._retry_later(live, command)

    async def _retry_later(self, live: LiveSession, command: Retry) -> None:
        failure = live.session.turns[command.turn - 1].failure
        assert failure is not None
        wait_s = self.waits.seconds(command.attempt, failure)
        until_ms = self._sessions.clock() + round(1000 * wait_s)
        event = RetryScheduled(
            command.turn, command.attempt, wait_s, until_ms, retry_reason(failure)
        )
        await self._sessions.append(live, [event])
        session_id = live.id
        self.waits.begin(
            session_id,
            wait_s,
            lambda: self._supervise(session_id, self._retry(session_id, event), lambda: None),
        )

    async def _retry(self, session_id: str, event: RetryScheduled) -> None:
        async with self._sessions.holding(session_id) as live:
            if live.session.retrying == event and self._closing is None:
                await self._sessions.append(live, [TurnDropped(event.turn, automatic=True)])

    async def _supervise(
        self, session_id: str, work: Awaitable[None], forget: Callable[[], object]
    ) -> None:
        """Do `work` and what follows from it; where that breaks, the session is settled."""
        try:
            try:
                await work
            finally:
                forget()
            if session_id in self._sessions.late and self._closing is None:
                self._sessions.late.discard(session_id)
                self._settle_later(session_id)  # what comes next waits for the user
            elif session_id not in self._in_line:
                await self._advance_for_all(session_id)
        except StoreError as error:
            log.error("Session %s could not be saved: %s", session_id, error)
            self._settle_later(session_id)
        except Exception:
            log.exception("Session %s broke off.", session_id)
            self._settle_later(session_id)

    def _settle_later(self, session_id: str) -> None:
        if session_id not in self._settling and self._closing is None:
            self._settling[session_id] = asyncio.create_task(self._settle(session_id))

    async def _settle(self, session_id: str) -> None:
        """As soon as it can be written: what broke off is over, and the run waits for a user."""
        wait_s = FIRST_SETTLE_S
        try:
            while not await self._settled(session_id):
                await self._sessions.health.again(wait_s)
                wait_s = min(2 * wait_s, MOST_SETTLE_S)
        finally:
            del self._settling[session_id]

    async def _settled(self, session_id: str) -> bool:
        alive = self._running.of(session_id)
        try:
            async with self._sessions.holding(session_id) as live:
                events: list[Event] = []
                if session_id not in self._answers:
                    events += closing_events(live.session, _NOT_SAVED, alive=alive)
                    events += self._running.lost(live.session)
                await self._sessions.append(live, events)  # and what is owed
                going = await self._policy.commands(live.session)
                waits = going or live.session.retrying is not None
                if waits and live.session.tapped is None:  # an agent goes on by itself
                    await self._sessions.append(live, [RunPaused("store")])
        except StoreError:
            return False
        return True

    @property
    def working(self) -> bool:
        """Whether any session goes on by itself: an answer, a call, a check, a wait before a retry.
        One that waits for the user does not."""
        return bool(
            self._answers
            or self._settling
            or self._running.sessions
            or self.checks.sessions
            or self.waits.sessions
        )

    def _busy(self, session_id: str) -> bool:
        return session_id in self._answers or bool(self._running.of(session_id))

    async def _close(self) -> None:
        self._sessions.health.end()
        for task in self._settling.values():
            task.cancel()
        await self._end_all()
        # What was being written down as begun when the first look was taken begins all the same.
        await self._deciding.close()
        await self._performing.over()
        await self._end_all()
        await self._executors.close()

    async def _end_all(self) -> None:
        failure = ResponseFailed("interrupted", "The program was stopped.")
        sessions = {*self._answers, *self._running.sessions, *self.checks.sessions}
        await asyncio.gather(*(self._end_tasks(session, failure) for session in sessions))
        await self.waits.close()
        await self.void_waits.close()

    async def _end_tasks(self, session_id: str, failure: ResponseFailed) -> None:
        tasks = [*self._running.end(session_id), *self.checks.end(session_id)]
        if session_id in self._answers:
            task, answering = self._answers[session_id]
            answering.stop(failure)
            tasks.append(task)
        if tasks:
            await self._sessions.health.or_trouble(tasks)


def _in_groups(commands: Sequence[Command]) -> Iterator[Sequence[Command]]:
    """Facts that follow each other are written at once, and checks and calls begin together: a turn
    can have thousands of calls. All else is done one by one."""
    for kind, alike in groupby(commands, type):
        if kind in (Record, CheckCall, RunCall):
            yield list(alike)
        else:
            yield from ([command] for command in alike)


def _is_short(session: Session) -> bool:
    """Whether the next request is written in less time than another thread takes to do so, by the
    one before it and what came since then."""
    settings, turn = session.settings, session.turn
    assert settings is not None
    if session.tasks or len(settings.tools) > FEW_TOOLS:
        return False
    size = len(settings.system)
    if turn is not None:
        results = [call.result for call in turn.calls if call.result is not None]
        size += len(turn.request.body) or SHORT
        size += sum(part.length for part in turn.parts)
        size += sum(len(piece.text) + len(piece.data) for r in results for piece in r.content)
    for item in reversed(session.items):
        if item is turn or size >= SHORT:
            break
        if isinstance(item, Prompt):
            size += SHORT if item.images or item.form else len(item.text)
    return size < SHORT


SHORT = 32 * 1024
FEW_TOOLS = 16
"""A request of fewer characters, with so many tools at most, is written at once."""

TAKEN_BACK = (
    "You took the decision back before the call started. It needs your approval; no rule decides "
    "it now."
)

_AGENTS = "An agent runs this session; write to it in its own window, or continue here in a fork."

_NOT_SAVED = "This answer could not be saved to its end; the program's log says why."

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

    @property
    def sessions(self) -> set[str]:
        return set(self._tasks)

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


class UnderWay:
    """Counts the blocks that were entered and not left."""

    def __init__(self) -> None:
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    def __enter__(self) -> None:
        self._count += 1
        self._none.clear()

    def __exit__(self, *_: object) -> None:
        self._count -= 1
        if not self._count:
            self._none.set()

    async def over(self) -> None:
        """As soon as no block is under way."""
        await self._none.wait()


logger = logging.getLogger("playground")


async def recover(sessions: SessionStore, rules: Callable[[str], Sequence[Rule]]) -> list[str]:
    """Close what was cut, ask about what was running. The sessions touched. What `rules` would go
    on with waits for a user, too. One that cannot be read is reported, and keeps no other back.

    Only for the owner of the database, before anything runs.
    """
    touched = await sessions.log.unfinished()
    for session_id in await sessions.log.waiting():  # a rule may have come just before the end
        if any(rule.here == session_id for rule in rules(session_id)):
            touched.append(session_id)
    for session_id in touched:
        try:
            async with sessions.holding(session_id) as live:
                await _close_session(sessions, live, rules(session_id))
        except (IllegalEvent, StoreError) as error:
            logger.error("Session %s was not recovered: %s", session_id, error)
    return touched


async def recover_agents(sessions: SessionStore, has_left: Callable[[str], None]) -> None:
    """Of what waits for the user no agent waits any more when the program starts."""
    for session_id in await sessions.log.waiting(agents=True):
        try:
            async with sessions.holding(session_id) as live:
                at_ms = live.session.updated_ms
                await sessions.append(live, gone_events(live.session), at_ms=at_ms)
            has_left(session_id)
        except (IllegalEvent, StoreError) as error:
            logger.error("Session %s was not recovered: %s", session_id, error)


async def _close_session(sessions: SessionStore, live: LiveSession, rules: Sequence[Rule]) -> None:
    last_ms = live.session.updated_ms  # what was cut was at work no longer than that
    turn, closed = live.session.turn, None
    if turn is not None and turn.open:
        closed = await sessions.log.cut_off(live.id, turn.number)
    events = over_events(live.session, _RESTARTED)
    await sessions.append(live, events, at_ms=last_ms, closed=closed)
    await sessions.append(live, settled(live.session), at_ms=last_ms)
    waits = next_commands(live.session, rules) or live.session.retrying is not None
    if waits and live.session.tapped is None:  # an agent goes on by itself
        await sessions.append(live, [RunPaused("restart")])


_RESTARTED = "The program was stopped while this answer was arriving."
