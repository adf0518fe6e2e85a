"""Runs sessions: executes the commands of `next_commands`, and nothing else.

There is no loop and no run state here: `advance` does all that can be done now and returns; it is
called again whenever something finishes (an answer, a call) or is decided. Work in progress is a
task of its session; a session without one waits for the user. `RetryWaits` are the waits before a
request is sent again; `recover` closes what a restart interrupted.
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
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from playground.core.decide import (
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
    settled_events,
    void_events,
)
from playground.core.errors import (
    Conflict,
    IllegalEvent,
    NotFound,
    PlaygroundError,
    Refused,
    StoreError,
    StoreUnwritable,
)
from playground.core.events import (
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
from playground.core.rules import Rule
from playground.core.session import Prompt, Session
from playground.core.settings import Settings
from playground.core.tools import Content
from playground.engine.decisions import (
    CHECKS_TOGETHER,
    CallChecks,
    DecisionRequest,
    ResultDecision,
    decision_event,
    outcome,
    result_event,
)
from playground.engine.responses import STOPPED, OnEnd, OpenRequest, PreparedRequest, ProviderClient
from playground.engine.rules import Policy
from playground.engine.sessions import LiveSession, SessionStore
from playground.engine.tool_runs import GroupedWrites, ToolRuns
from playground.executors.executor import CallCheck
from playground.executors.run_with_limits import Executors

VOID_S = 900.0
"""How long held calls and results wait for an agent that disconnected, in seconds."""

FIRST_SETTLE_S = 1.0
MOST_SETTLE_S = 30.0
"""Initial and longest wait before a failed write is tried again, in seconds."""

log = logging.getLogger(__name__)

SHORT = 32 * 1024

FEW_TOOLS = 16
"""Shorter requests with at most so many tools are encoded in the event loop."""

TAKEN_BACK = (
    "You withdrew the decision before the call started. The call needs your approval; no rule "
    "decides it now."
)

_AGENTS = (
    "An agent runs this session. Write to the agent in its own window, or continue here in a fork."
)

_NOT_SAVED = "The end of this answer could not be saved. See the program's log."

FIRST_WAIT_S = 1.0
"""The wait before the first retry, in seconds; it doubles for each further one."""

SPREAD = 0.25
"""Relative jitter of a wait, so that many retries are not sent at once."""

logger = logging.getLogger("playground")

_RESTARTED = "The program was stopped while this answer was arriving."


@dataclass(frozen=True)
class FollowedAnswer:
    """An answer relayed to an agent: what is put into `request` is logged by `task`."""

    task: asyncio.Task[None]
    request: OpenRequest


class Runner:
    """`policy` decides calls without asking; `folder` holds the sessions' scratch folders."""

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
        self._performing = ActiveBlocks()
        self._closing: asyncio.Task[None] | None = None
        self.waits = RetryWaits()
        self.void_waits = RetryWaits()

    # Actions of the user.

    async def prompt(self, session_id: str, text: str, images: tuple[Content, ...] = ()) -> None:
        """Conflict if the session cannot take a prompt now."""
        if not text.strip() and not images:
            raise Refused("A prompt needs some text, or an image.")
        async with self._lock_session(session_id) as live:
            try:
                await self._sessions.append(live, [PromptAdded(text, images)])
            except IllegalEvent as error:
                raise Conflict(str(error)) from error
            await self._advance(live)

    async def decide(self, session_id: str, call_id: str, asked: DecisionRequest) -> None:
        """Checked under the session lock, so that only one of several decisions on a call wins.

        The executor of a call that is to run is checked before, because that may be slow, and then
        compared under the lock with the one on the card.
        """
        async with self._lock_session(session_id, ours=False) as live:
            runs = decision_event(live.session, call_id, asked).decision == "run"
            call = live.session.call(call_id)
        checked = await self.checks.check(session_id, call) if runs else None
        await self._deciding.write(session_id, (call_id, asked, checked))

    async def _decide(
        self, session_id: str, several: Sequence[tuple[str, DecisionRequest, CallCheck | None]]
    ) -> Sequence[Exception | None]:
        """Decides each call as if alone; for each returns the error, or None."""
        events: dict[str, CallDecided] = {}
        outcomes: list[Exception | None] = []
        async with self._lock_session(session_id, ours=False) as live:

            async def write() -> None:
                await self._sessions.append(live, list(events.values()))
                for event in events.values():
                    if event.decision == "deny":
                        self._policy.record_denial(live.session.call(event.call_id))
                events.clear()
                await self._advance(live)

            for call_id, asked, checked in several:
                changed = checked is not None and checked.code != live.session.call(call_id).code
                if events and (changed or call_id in events):
                    await write()  # its consequences must be visible first
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
        """Passes a held result on, unchanged or edited; one of several decisions on it wins."""
        async with self._lock_session(session_id, ours=False) as live:
            await self._sessions.append(live, [result_event(live.session, call_id, asked)])

    async def settings(self, session_id: str, settings: Settings) -> None:
        """Sets the settings for the next request; ends a retry that they no longer permit."""
        async with self._lock_session(session_id) as live:
            events: list[Event] = []
            if live.session.settings != settings:
                events.append(SettingsChanged(settings))
            retrying = live.session.retrying
            if retrying is not None and retrying.attempt > settings.limits.max_retries:
                self.waits.end(session_id)
                events.append(RunStopped())
            if events:
                await self._sessions.append(live, events)
                await self._advance(live)  # the old limits may have held back something

    async def retry(self, session_id: str, number: int | None = None) -> None:
        """Asks again from the same point; the failed answer stays visible. `number` is the turn the
        caller means, so that repeated clicks on a button send only one request."""
        async with self._lock_session(session_id) as live:
            turn = live.session.turn
            if number is not None and (turn is None or turn.number != number):
                raise Conflict(
                    f"Turn {number} is no longer the last one. Check the turns after it."
                )
            if turn is None or turn is not live.session.last_item or (turn.end and turn.calls):
                raise Refused("There is no failed answer to retry. Send a prompt instead.")
            try:
                await self._sessions.append(live, [TurnDropped(turn.number)])
            except IllegalEvent as error:
                raise Conflict(str(error)) from error
            self.waits.end(session_id)
            await self._advance(live)

    async def resume(
        self, session_id: str, settings: Settings | None = None, halted: int | None = None
    ) -> None:
        """Continues after a limit, a restart or Stop, with `settings` if given. Conflict if
        `halted` is not the event that halts the run now: the user saw an older pause. A tapped
        agent may send requests again after this."""
        async with self._lock_session(session_id, ours=settings is not None) as live:
            if halted not in (None, live.session.halted_seq):
                raise Conflict("That pause has ended. Check the run again.")
            if not live.session.paused and not live.session.stopped:
                raise Refused("Nothing is paused here.")
            events: list[Event] = [RunResumed()]
            if settings is not None and settings != live.session.settings:
                events.insert(0, SettingsChanged(settings))
            await self._sessions.append(live, events)
            await self._advance(live)

    async def stop(self, session_id: str) -> None:
        """Ends all work of this session within a moment; keeps what arrived. If the database cannot
        be written, the stop still takes effect and is saved as soon as possible."""
        async with self._sessions.lock_session(session_id) as live:
            await self._stop(live)
            if self._sessions.owes(session_id):
                self._settle_later(session_id)
        await self._end_work(session_id)

    async def delete(self, session_id: str) -> None:
        """Stops and hides the session under one lock, so that nothing continues unseen."""
        async with self._sessions.lock_session(session_id) as live:
            if (trouble := self._sessions.health.trouble) is not None:
                raise trouble  # it could not be hidden
            await self._stop(live)
            await self._sessions.delete(live, deleted=True)
        self.void_waits.end(session_id)
        await self._end_work(session_id)

    async def _stop(self, live: LiveSession) -> None:
        if live.own and live.session.stoppable:
            await self._sessions.append(live, [RunStopped()])
        self.waits.end(live.id)

    async def _end_work(self, session_id: str) -> None:
        # Concurrently: what ignores a signal takes time, and Stop must be done in a second.
        await asyncio.gather(
            self._end_tasks(session_id, ResponseFailed("stopped", STOPPED)),
            self._executors.forget(session_id),
        )
        async with self._sessions.lock_session(session_id) as live:
            events = closing_events(live.session, STOPPED, stopped=True)
            events += self._running.lost_task_events(live.session)
            if events and live.own and not self._is_busy(session_id):  # its task is gone
                try:
                    await self._sessions.append(live, events)
                except StoreUnwritable:
                    self._settle_later(session_id)

    async def leave(self, session_id: str) -> None:
        """The agent that runs the session will send no more requests: its calls get no more
        results, and if it has disconnected, held calls become void."""
        async with self._sessions.lock_session(session_id) as live:
            events, turn = left_events(live.session), live.session.turn
            if turn is not None and turn.client_gone and live.session.waits:
                events.append(RunStopped())  # no agent waits for a held call
            if events and live.own:
                await self._sessions.append(live, events)

    def mark_agent_left(self, session_id: str) -> None:
        """The agent disconnected while something waited for the user, but may reconnect: what waits
        becomes void after VOID_S."""
        self.void_waits.begin(
            session_id,
            VOID_S,
            lambda: self._supervise(session_id, self._void(session_id), lambda: None),
        )

    def mark_agent_returned(self, session_id: str) -> None:
        """The agent sent a request again."""
        self.void_waits.end(session_id)

    async def _void(self, session_id: str) -> None:
        with suppress(NotFound):  # the session may have been purged
            async with self._sessions.lock_session(session_id) as live:
                if (events := void_events(live.session)) and live.own:
                    await self._sessions.append(live, events)

    async def cancel(self, session_id: str, call_id: str) -> None:
        """Cancels a running call; the model reads that it was cancelled. For a call that was
        decided but has not begun, revokes the decision: it waits for the user again."""
        async with self._lock_session(session_id) as live:
            call = live.session.call(call_id)
            to_run = call.decided is not None and call.decided.decision == "run"
            if call.status == "decided" and to_run:  # under the lock, so that it cannot begin
                await self._sessions.append(live, [CallReturned(call_id, "person", TAKEN_BACK)])
                await self._advance(live)
                return
            if call.status != "running":
                raise Conflict("This call is not running.", outcome(call))
        await self._running.cancel(session_id, call_id)

    async def extend(self, session_id: str, call_id: str, seconds: float) -> None:
        """Gives a running call `seconds` more."""
        async with self._lock_session(session_id) as live:
            await self._running.extend(live, call_id, seconds)

    async def move_to_background(self, session_id: str, call_id: str) -> str:
        """Moves a running call to the background, and the run on without it; the task id."""
        async with self._lock_session(session_id) as live:
            task_id = await self._running.move_to_background(live, call_id)
            await self._advance(live)
            return task_id

    async def stop_task(self, session_id: str, task_id: str) -> bool:
        """Ends the background call of this task; False if there is none."""
        return await self._running.stop_task(session_id, task_id)

    async def close(self) -> None:
        """Ends everything at program exit; the log says interrupted."""
        if self._closing is None:
            self._running.closing = True
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    @asynccontextmanager
    async def _lock_session(
        self, session_id: str, *, ours: bool = True
    ) -> AsyncIterator[LiveSession]:
        """Locks a session in order to start or change something. Conflict if it is deleted. Refused
        if a tapped agent runs it and `ours` is set."""
        async with self._sessions.lock_session(session_id) as live:
            live.check_open()
            if ours and live.session.tapped is not None:
                raise Refused(_AGENTS)
            if self._sessions.owes(session_id):
                await self._sessions.append(live, [])
            yield live

    async def advance(self, session_id: str) -> None:
        """Does all that can be done now."""
        async with self._sessions.lock_session(session_id) as live:
            await self._advance(live)

    # Consequences of events.

    async def _advance_for_all(self, session_id: str) -> None:
        """A call made while another waits for the session lock returns at once: the waiting one
        will see what was saved by then."""
        self._in_line.add(session_id)
        await asyncio.sleep(0)  # lets calls arrive whose ends were saved together
        try:
            async with self._sessions.lock_session(session_id) as live:
                self._in_line.discard(session_id)
                await self._advance(live)
        finally:
            self._in_line.discard(session_id)

    async def _advance(self, live: LiveSession, looked: Collection[str] = ()) -> None:
        """`looked` are calls checked just now: like those decided here they need no new check."""
        fresh = set(looked)
        try:
            while commands := self._due_commands(live, await self._commands(live), fresh):
                rules = self._policy.rules_of(live.id)
                for alike in _command_groups(commands):
                    if self._closing or live.deleted:
                        return
                    if self._policy.rules_of(live.id) != rules:
                        break  # the rules changed, so the commands may be outdated
                    with self._performing:
                        await self._perform(live, alike, fresh)
        except Exception:  # a failed write, or a bug: the session must not look as if it ran
            self._settle_later(live.id)
            raise

    async def _commands(self, live: LiveSession) -> Sequence[Command]:
        return await self._policy.commands(live.session, self.checks.count(live.id))

    def _due_commands(
        self, live: LiveSession, commands: Sequence[Command], fresh: set[str]
    ) -> list[Command]:
        """Filters out checks in progress, and calls that are checked again before they begin: these
        continue later, under another lock."""
        if self._closing or live.deleted or not live.own or self._sessions.owes(live.id):
            return []
        runs = [command.call_id for command in commands if isinstance(command, RunCall)]
        looks = self.checks.recheck(live, [run for run in runs if run not in fresh])
        return [
            command
            for command in commands
            if not (
                isinstance(command, CheckCall)
                and self.checks.is_under_way(live.id, command.call_id)
            )
            and not (isinstance(command, RunCall) and command.call_id in looks)
        ]

    async def _perform(self, live: LiveSession, alike: Sequence[Command], fresh: set[str]) -> None:
        """Calls decided here are added to `fresh`: they were just checked."""
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
        else:  # with images it has megabytes; the session stays locked
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
                self._client.answer(session_id, prepared, answering, self._retry_after_end),
                lambda: self._answers.pop(session_id),
            )
        )
        self._answers[session_id] = (task, answering)

    def follow(self, live: LiveSession, prepared: PreparedRequest, ended: OnEnd) -> FollowedAnswer:
        """Logs the answer to an agent's request that is already in the log. The relay puts the
        bytes in; Stop ends it as it ends our own requests. The caller holds the session lock."""
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

    async def _retry_after_end(self, live: LiveSession) -> None:
        """Same lock as the end of the answer: a run that will retry never appears as failed."""
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
        async with self._sessions.lock_session(session_id) as live:
            if live.session.retrying == event and self._closing is None:
                await self._sessions.append(live, [TurnDropped(event.turn, automatic=True)])

    async def _supervise(
        self, session_id: str, work: Awaitable[None], forget: Callable[[], object]
    ) -> None:
        """Awaits `work`, then advances the session; if that fails, settles the session."""
        try:
            try:
                await work
            finally:
                forget()
            if session_id in self._sessions.late and self._closing is None:
                self._sessions.late.discard(session_id)
                self._settle_later(session_id)  # the user must continue what comes next
            elif session_id not in self._in_line:
                await self._advance_for_all(session_id)
        except StoreError as error:
            log.error("Session %s could not be saved: %s", session_id, error)
            self._settle_later(session_id)
        except Exception:
            log.exception("Session %s was interrupted.", session_id)
            self._settle_later(session_id)

    def _settle_later(self, session_id: str) -> None:
        if session_id not in self._settling and self._closing is None:
            self._settling[session_id] = asyncio.create_task(self._settle(session_id))

    async def _settle(self, session_id: str) -> None:
        """Once the database can be written, closes interrupted work and pauses the run."""
        wait_s = FIRST_SETTLE_S
        try:
            while not await self._try_settle(session_id):
                await self._sessions.health.wait_for_retry(wait_s)
                wait_s = min(2 * wait_s, MOST_SETTLE_S)
        finally:
            del self._settling[session_id]

    async def _try_settle(self, session_id: str) -> bool:
        alive = self._running.foreground_calls(session_id)
        try:
            async with self._sessions.lock_session(session_id) as live:
                events: list[Event] = []
                if session_id not in self._answers:
                    events += closing_events(live.session, _NOT_SAVED, alive=alive)
                    events += self._running.lost_task_events(live.session)
                await self._sessions.append(live, events)  # also saves what is owed
                going = await self._policy.commands(live.session)
                waits = going or live.session.retrying is not None
                if waits and live.session.tapped is None:  # an agent continues by itself
                    await self._sessions.append(live, [RunPaused("store")])
        except StoreError:
            return False
        return True

    @property
    def working(self) -> bool:
        """Whether any session is active without the user: an answer, a call, a check, a wait before
        a retry."""
        return bool(
            self._answers
            or self._settling
            or self._running.sessions
            or self.checks.sessions
            or self.waits.sessions
        )

    def _is_busy(self, session_id: str) -> bool:
        return session_id in self._answers or bool(self._running.foreground_calls(session_id))

    async def _close(self) -> None:
        self._sessions.health.end()
        for task in self._settling.values():
            task.cancel()
        await self._end_all()
        # Calls that were being saved as started during the first round start nevertheless.
        await self._deciding.close()
        await self._performing.wait_until_idle()
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
            await self._sessions.health.wait_or_trouble(tasks)


def _command_groups(commands: Sequence[Command]) -> Iterator[Sequence[Command]]:
    """Consecutive events are written together, and checks and calls start together, because a turn
    can have thousands of calls. Other commands are executed one by one."""
    for kind, alike in groupby(commands, type):
        if kind in (Record, CheckCall, RunCall):
            yield list(alike)
        else:
            yield from ([command] for command in alike)


def _is_short(session: Session) -> bool:
    """Whether the next request is probably encoded faster than a thread is started, judging by the
    size of the last request and of what was added since."""
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


def retry_wait_s(attempt: int, asked: float | None, share: float) -> float:
    """Seconds before retry `attempt` (from 1). `asked` is the wait that the provider asked for,
    `share` the position within the jitter, 0 to 1."""
    if asked is not None and 0 < asked <= LONGEST_WAIT_S:
        return asked
    own = FIRST_WAIT_S * 2.0 ** (attempt - 1) * (1 - SPREAD + 2 * SPREAD * share)
    return round(min(own, LONGEST_WAIT_S), 3)


def retry_reason(failure: ResponseFailed) -> str:
    """The reason for a retry in one word: `429`, `unreachable`."""
    return failure.failure if failure.status is None else str(failure.status)


class RetryWaits:
    """At most one wait per session. Tests inject `sleep` and `jitter` (0 to 1)."""

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
        """Calls `then` after `seconds`, unless `end` is called before."""
        self.end(session_id)
        task = asyncio.create_task(self._wait_then_call(seconds, then))
        self._tasks[session_id] = task
        task.add_done_callback(lambda done: self._forget(session_id, done))

    def end(self, session_id: str) -> None:
        """Cancels the wait."""
        task = self._tasks.pop(session_id, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _wait_then_call(
        self, seconds: float, then: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        await self._sleep(seconds)
        await then()

    def _forget(self, session_id: str, done: asyncio.Task[None]) -> None:
        if self._tasks.get(session_id) is done:
            del self._tasks[session_id]


class ActiveBlocks:
    """Counts the blocks that are being executed."""

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

    async def wait_until_idle(self) -> None:
        """Waits until no block is being executed."""
        await self._none.wait()


async def recover(sessions: SessionStore, rules: Callable[[str], Sequence[Rule]]) -> list[str]:
    """Closes interrupted work after a restart; returns the changed sessions. Running calls, and
    what `rules` would decide, wait for the user. Unreadable sessions are logged and skipped.

    Only for the owner of the database, before anything runs.
    """
    touched = await sessions.log.unfinished_sessions()
    for session_id in await sessions.log.waiting_sessions():  # a rule may have been added late
        if any(rule.here == session_id for rule in rules(session_id)):
            touched.append(session_id)
    for session_id in touched:
        try:
            async with sessions.lock_session(session_id) as live:
                await _close_session(sessions, live, rules(session_id))
        except (IllegalEvent, StoreError) as error:
            logger.error("Session %s was not recovered: %s", session_id, error)
    return touched


async def recover_agents(sessions: SessionStore, has_left: Callable[[str], None]) -> None:
    """Marks the agents as disconnected in all sessions in which something waits for the user."""
    for session_id in await sessions.log.waiting_sessions(agents=True):
        try:
            async with sessions.lock_session(session_id) as live:
                at_ms = live.session.updated_ms
                await sessions.append(live, gone_events(live.session), at_ms=at_ms)
            has_left(session_id)
        except (IllegalEvent, StoreError) as error:
            logger.error("Session %s was not recovered: %s", session_id, error)


async def _close_session(sessions: SessionStore, live: LiveSession, rules: Sequence[Rule]) -> None:
    last_ms = live.session.updated_ms  # interrupted work lasted no longer than that
    turn, closed = live.session.turn, None
    if turn is not None and turn.open:
        closed = await sessions.log.interrupted_end(live.id, turn.number)
    events = over_events(live.session, _RESTARTED)
    await sessions.append(live, events, at_ms=last_ms, closed=closed)
    await sessions.append(live, settled_events(live.session), at_ms=last_ms)
    await sessions.append(live, gone_events(live.session), at_ms=last_ms)
    waits = next_commands(live.session, rules) or live.session.retrying is not None
    if waits and live.session.tapped is None:  # an agent continues by itself
        await sessions.append(live, [RunPaused("restart")])
