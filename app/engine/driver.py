"""Performs what `next_commands` decides, and nothing else.

There is no loop and no state of a run here: `advance` performs all that can be done now and
leaves; whatever finishes (an answer, a call) or is decided calls it again. What is under way is a
task of its session; a session with none just waits, for a person or for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from app.core.decide import CheckCall, Command, Record, RunCall, SendRequest, next_commands
from app.core.errors import Conflict, IllegalEvent, Refused, StoreError
from app.core.events import (
    CallChecked,
    CallEnded,
    CallInterrupted,
    CallProgressed,
    CallStarted,
    PromptAdded,
    ResponseFailed,
    RunResumed,
    RunStopped,
    SettingsChanged,
    TurnDropped,
    Warned,
)
from app.core.rules import Rule
from app.core.settings import Settings
from app.core.state import Turn, digest
from app.core.tools import ToolResult, text_result
from app.engine.client import STOPPED, Answering, Client
from app.engine.decisions import Asked, decided
from app.engine.hub import Hub, Live, closing_events
from app.executors.executor import Invocation, Report
from app.schema.verdict import verdict

MAX_OUTPUT = 1024 * 1024
"""Bytes of a tool's output that are kept; more is an error result."""

PROGRESS_S = 0.1
"""The least time between two progress events of one call, in seconds."""

RunTool = Callable[[Invocation, Report], Awaitable[ToolResult]]

log = logging.getLogger(__name__)


class Driver:
    """`rules`, by session, decide without asking; `folder` holds the sessions' scratch folders."""

    def __init__(self, hub: Hub, client: Client, run_tool: RunTool, folder: Path) -> None:
        self._hub = hub
        self._client = client
        self._run_tool = run_tool
        self._folder = folder
        self._answers: dict[str, tuple[asyncio.Task[None], Answering]] = {}
        self._calls: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._closing = False
        self.rules: dict[str, Sequence[Rule]] = {}

    # What a person does.

    async def prompt(self, session_id: str, text: str) -> None:
        """Conflict where the session cannot take a prompt now."""
        if not text.strip():
            raise Refused("A prompt needs some text.")
        async with self._hub.holding(session_id) as live:
            try:
                await self._hub.append(live, [PromptAdded(text)])
            except IllegalEvent as error:
                raise Conflict(str(error)) from error
            await self._advance(live)

    async def decide(self, session_id: str, call_id: str, asked: Asked) -> None:
        """One check under the session's lock: of many decisions on a call one wins."""
        async with self._hub.holding(session_id) as live:
            await self._hub.append(live, [decided(live.session, call_id, asked)])
            await self._advance(live)

    async def settings(self, session_id: str, settings: Settings) -> None:
        """They hold from the next request on."""
        async with self._hub.holding(session_id) as live:
            if live.session.settings != settings:
                await self._hub.append(live, [SettingsChanged(settings)])

    async def retry(self, session_id: str) -> None:
        """Ask again from the same point; the last answer stays to be read."""
        async with self._hub.holding(session_id) as live:
            turn = live.session.turn
            if turn is None or (turn.end is not None and turn.calls):
                raise Refused("There is no failed answer to ask for again.")
            try:
                await self._hub.append(live, [TurnDropped(turn.number)])
            except IllegalEvent as error:
                raise Conflict(str(error)) from error
            await self._advance(live)

    async def resume(self, session_id: str) -> None:
        """Go on after a limit, a restart or Stop."""
        async with self._hub.holding(session_id) as live:
            if not live.session.paused and not live.session.stopped:
                raise Refused("Nothing is paused here.")
            await self._hub.append(live, [RunResumed()])
            await self._advance(live)

    async def stop(self, session_id: str) -> None:
        """Within a moment nothing of this session is under way; what arrived is kept."""
        async with self._hub.holding(session_id) as live:
            if live.session.state in ("running", "waiting") and not live.session.stopped:
                await self._hub.append(live, [RunStopped()])
        await self._end_tasks(session_id, ResponseFailed("stopped", STOPPED))
        async with self._hub.holding(session_id) as live:
            events = closing_events(live.session, "stopped", STOPPED)
            if events:  # its task is gone: a write had failed
                await self._hub.append(live, events)

    async def cancel(self, session_id: str, call_id: str) -> None:
        """End one running call; the model reads that it was cancelled."""
        async with self._hub.holding(session_id) as live:
            if live.session.call(call_id).status != "running":
                raise Conflict("This call is not running.")
        task = self._calls.get((session_id, call_id))
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """End everything because the program ends; the log says interrupted."""
        self._closing = True
        failure = ResponseFailed("interrupted", "The program was stopped.")
        sessions = {*self._answers, *(session_id for session_id, _ in self._calls)}
        await asyncio.gather(*(self._end_tasks(one, failure) for one in sessions))

    def busy(self, session_id: str) -> bool:
        """Whether something of this session is under way in this process."""
        return session_id in self._answers or any(one == session_id for one, _ in self._calls)

    async def advance(self, session_id: str) -> None:
        """Do all that can be done now."""
        async with self._hub.holding(session_id) as live:
            await self._advance(live)

    # What follows.

    async def _advance(self, live: Live) -> None:
        rules = self.rules.get(live.id, ())
        while not self._closing and (commands := next_commands(live.session, rules)):
            for command in commands:
                await self._perform(live, command)

    async def _perform(self, live: Live, command: Command) -> None:
        match command:
            case Record(event):
                await self._hub.append(live, [event])
            case CheckCall(call_id):
                await self._check(live, call_id)
            case RunCall(call_id, attempt, arguments):
                await self._hub.append(live, [CallStarted(call_id, attempt)])
                self._start_call(live, call_id, attempt, arguments)
            case SendRequest():
                await self._send(live, command)

    async def _check(self, live: Live, call_id: str) -> None:
        call = live.session.call(call_id)
        problems = verdict(call.tool, call.name, call.raw)
        safe = call.tool is not None and call.tool.parallel_safe
        seen = digest(live.session, call)
        await self._hub.append(live, [CallChecked(call_id, problems, safe, seen)])

    async def _send(self, live: Live, command: SendRequest) -> None:
        prepared = self._client.prepare(live.session, command.choice)
        notes = [Warned("translation", note) for note in prepared.notes]
        if command.note:
            notes.insert(0, Warned("choice_fell_back", command.note))
        await self._hub.append(live, [prepared.sent, *notes])
        if prepared.failed is not None:
            await self._hub.append(live, [prepared.failed])
            return
        answering = Answering()
        session_id = live.id

        async def ask() -> None:
            try:
                await self._client.answer(session_id, prepared, answering)
            except StoreError as error:
                log.error("session %s: the answer could not be saved: %s", session_id, error)
                return
            finally:
                del self._answers[session_id]
            await self.advance(session_id)

        self._answers[session_id] = (asyncio.create_task(ask()), answering)

    def _start_call(self, live: Live, call_id: str, attempt: int, arguments: str) -> None:
        tool = live.session.call(call_id).tool
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
            idempotency_key=f"{live.id}/{call_id}/{attempt}",
        )
        key = (live.id, call_id)

        async def run() -> None:
            try:
                await self._run_call(invocation)
            except StoreError as error:
                log.error("call %s of %s could not be saved: %s", call_id, live.id, error)
                return
            finally:
                del self._calls[key]
            await self.advance(key[0])

        self._calls[key] = asyncio.create_task(run())

    async def _run_call(self, invocation: Invocation) -> None:
        progress = _Progress(self._hub, invocation)
        pump = asyncio.create_task(progress.pump())
        ended: CallEnded | CallInterrupted
        try:
            result = await self._run_tool(invocation, progress.report)
            ended = CallEnded(invocation.call, result)
        except asyncio.CancelledError:
            # Its effect is unknown when the program ends; a person who cancels knows what it did.
            ended = CallEnded(invocation.call, _CANCELLED)
            if self._closing:
                ended = CallInterrupted(invocation.call)
        finally:
            pump.cancel()
            await asyncio.wait([pump])
        async with self._hub.holding(invocation.session) as live:
            await self._hub.append(live, [ended])

    async def _end_tasks(self, session_id: str, failure: ResponseFailed) -> None:
        tasks = [task for (one, _), task in self._calls.items() if one == session_id]
        for task in tasks:
            task.cancel()
        if session_id in self._answers:
            task, answering = self._answers[session_id]
            answering.stop(failure)
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks)


_CANCELLED = text_result(
    "The person cancelled this call while it was running; what it had done by then stands.",
    is_error=True,
    kind="interrupted",
)


class _Progress:
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


def may_retry(turn: Turn | None) -> bool:
    """Whether the page offers Retry."""
    return turn is not None and turn.failure is not None
