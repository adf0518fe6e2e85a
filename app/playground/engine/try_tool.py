"""Runs a tool alone, outside of any session; the user's click is the approval.

Tries share a scratch session while their page is open, so that a stateful tool (a sequence, a file
that was read) keeps its state; nothing is logged. No HTML here.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from playground.core.errors import BadInput, Conflict, NotFound, Refused
from playground.core.events import CallEnded, Problem
from playground.core.serialization import to_data
from playground.core.tools import Tool, ToolResult
from playground.engine.redaction import redact_event
from playground.engine.tool_runs import CANCELLED, MAX_OUTPUT, outcome_of
from playground.executors.executor import Invocation
from playground.executors.run_with_limits import Executors
from playground.net.threads import run_in_daemon
from playground.schema.strict_json import json_text
from playground.schema.validate import check_call
from playground.secrets.redaction import Redactor

MOST_TRIES = 30
"""How many ended tries are kept for viewing, besides running ones."""
MOST_RUNNING = 4
MOST_SCRATCHES = 8
"""Most scratch sessions at once; the one unused for longest is removed."""

STEP_S = 0.1
"""The least time between two reported progress messages of a try, in seconds."""

PREFIX = "try-"

UNASKED = "unasked"
"""`TryCheck.seen` if the executor was not checked."""


@dataclass(frozen=True)
class TryRequest:
    """`arguments` is JSON text. `anyway`: run even if they violate the schema. `seen` is
    `TryCheck.seen` as the user saw it, "" from a script. `lift` as in Invocation."""

    tool: Tool
    arguments: str
    scratch: str = ""
    anyway: bool = False
    seen: str = ""
    lift: bool = False


@dataclass(frozen=True)
class TryCheck:
    """The check before a run. `seen` is a hash of the tool and its executor."""

    problems: tuple[Problem, ...]
    code: str
    seen: str

    @property
    def malformed(self) -> bool:
        return any(problem.kind == "malformed" for problem in self.problems)

    @property
    def unsatisfied(self) -> bool:
        return any(problem.kind == "schema" for problem in self.problems)


@dataclass
class Try:
    """One run. Times are Unix ms. `changed` counts visible changes, from 0."""

    id: str
    scratch: str
    wanted: TryRequest
    started_ms: int
    progress: str = ""
    fraction: float | None = None
    ended_ms: int | None = None
    result: ToolResult | None = None
    changed: int = 0
    work: asyncio.Future[ToolResult] | None = None
    task: asyncio.Task[None] | None = None
    bell: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def took_ms(self) -> int | None:
        """None while it runs."""
        return None if self.ended_ms is None else self.ended_ms - self.started_ms

    def notify(self) -> None:
        """Wakes all tasks that wait for a change."""
        self.changed += 1
        self.bell.set()
        self.bell = asyncio.Event()


class ToolTries:
    """All tries of this process. `folder` contains the sessions' scratch folders."""

    def __init__(
        self,
        executors: Executors,
        folder: Path,
        clock: Callable[[], int],
        new_id: Callable[[], str],
        redactor: Callable[[], Redactor],
    ) -> None:
        self._executors = executors
        self._folder = folder
        self._clock = clock
        self._new_id = new_id
        self._redactor = redactor
        self._tries: dict[str, Try] = {}
        self._scratches: dict[str, int] = {}  # number of tries of each, the last used last
        self._swept = False
        self._changing = asyncio.Lock()  # held while a scratch session begins or ends

    async def check(
        self, tool: Tool, arguments: str, scratch: str = "", *, ask: bool = True
    ) -> TryCheck:
        """Problems of the arguments, and the executor's check of them; without `ask` only what is
        known without starting or contacting a server."""
        problems = await run_in_daemon(check_call, tool, tool.name, arguments)
        say = self._executors.check_before_run if ask else self._executors.check_without_server
        checked = await say(PREFIX + scratch, tool, arguments or "{}")
        if checked is None:
            return TryCheck(problems, "", UNASKED)
        return TryCheck(
            (*problems, *checked.problems), checked.code, _seen_hash(tool, checked.code)
        )

    async def start(self, wanted: TryRequest) -> Try:
        """Runs it. Refused or Conflict if it may not run."""
        tool, looked = wanted.tool, await self.check(wanted.tool, wanted.arguments, wanted.scratch)
        if tool.answered_by == "person":
            raise Refused(
                "This tool is answered by the user, so nothing can run. Write the answer."
            )
        if not _is_as_seen(wanted.seen, looked):
            raise Conflict(
                "The tool has changed since this was shown. Check it again, then run it."
            )
        for problem in looked.problems:
            if problem.kind == "malformed":
                raise BadInput(f"The arguments cannot be run. {problem.message}")
            if problem.kind == "schema" and not wanted.anyway:
                raise Refused(f"{problem.message} Correct it, or run it anyway.")
        async with self._changing:
            if sum(tool_try.result is None for tool_try in self._tries.values()) >= MOST_RUNNING:
                raise Refused(
                    f"{MOST_RUNNING} tries are running, the maximum. Cancel one, or wait."
                )
            scratch = await self._scratch(wanted.scratch)
            return self._start_try(wanted, scratch, looked.code)

    def record_answer(self, wanted: TryRequest, result: ToolResult) -> Try:
        """A result that a user wrote, recorded as if it were the tool's."""
        now = self._clock()
        tool_try = Try(self._new_id(), wanted.scratch, wanted, now, ended_ms=now)
        tool_try.result = self._mask_result(result)
        self._keep(tool_try)
        return tool_try

    def get(self, try_id: str) -> Try:
        """NotFound if it is gone: only the last ones are kept."""
        if try_id not in self._tries:
            raise NotFound("This try is no longer kept. Run it again.")
        return self._tries[try_id]

    async def wait(self, try_id: str, after: int, seconds: float) -> Try:
        """Returns the try when it has more than `after` changes, or after `seconds`."""
        tool_try = self.get(try_id)
        try:
            async with asyncio.timeout(seconds):
                while tool_try.result is None and tool_try.changed <= after:
                    await tool_try.bell.wait()
        except TimeoutError:
            pass
        return tool_try

    async def cancel(self, try_id: str) -> Try:
        """Cancels it if it still runs."""
        tool_try = self.get(try_id)
        if tool_try.work is not None and tool_try.task is not None:
            tool_try.work.cancel()
            await asyncio.wait([tool_try.task])
        return tool_try

    async def forget(self, scratch: str) -> None:
        """Ends a scratch session: its running tries and its folder."""
        async with self._changing:
            await self._forget(scratch)

    async def _forget(self, scratch: str) -> None:
        for tool_try in list(self._tries.values()):
            if tool_try.scratch == scratch:
                await self.cancel(tool_try.id)
        if self._scratches.pop(scratch, None) is not None:
            await self._executors.forget(PREFIX + scratch)
            await asyncio.to_thread(self._remove, PREFIX + scratch)

    async def close(self) -> None:
        """Ends all at program exit."""
        for scratch in list(self._scratches):
            await self.forget(scratch)

    def _start_try(self, wanted: TryRequest, scratch: str, code: str) -> Try:
        tool_try = Try(self._new_id(), scratch, wanted, self._clock())
        self._scratches[scratch] = number = self._scratches.pop(scratch) + 1
        sent = wanted.arguments if wanted.arguments.strip() not in ("", "null") else "{}"
        invocation = Invocation(
            session=PREFIX + scratch,
            call=f"1.{number}",
            attempt=1,
            tool=wanted.tool,
            arguments=sent,
            timeout_s=wanted.tool.timeout_s,
            max_output=MAX_OUTPUT,
            folder=self._folder / (PREFIX + scratch),
            idempotency_key=f"{PREFIX}{tool_try.id}",
            code=code,
            lift=wanted.lift,
            redact=lambda value: self._redactor().redact_data(value),
        )

        def report(text: str, fraction: float | None = None, output: str = "") -> None:
            printed = output.strip().rpartition("\n")[2]  # its last line replaces the text
            words = printed or text or tool_try.progress
            tool_try.progress, tool_try.fraction = self._redactor().redact_text(words), fraction
            tool_try.notify()

        tool_try.work = asyncio.ensure_future(self._executors.run(invocation, report))
        tool_try.task = asyncio.create_task(self._follow(tool_try, tool_try.work))
        self._keep(tool_try)
        return tool_try

    async def _follow(self, tool_try: Try, work: asyncio.Future[ToolResult]) -> None:
        await asyncio.wait([work])
        ended = outcome_of("1.1", work, CANCELLED)
        tool_try.ended_ms = self._clock()
        assert isinstance(ended, CallEnded)
        tool_try.result = self._mask_result(ended.result)
        tool_try.notify()

    def _mask_result(self, result: ToolResult) -> ToolResult:
        event = redact_event(CallEnded("1.1", result), self._redactor())
        assert isinstance(event, CallEnded)
        return event.result

    def _keep(self, tool_try: Try) -> None:
        over = [key for key, old in self._tries.items() if old.result is not None]
        for key in over[: max(0, len(self._tries) - MOST_TRIES + 1)]:
            del self._tries[key]
        self._tries[tool_try.id] = tool_try

    async def _scratch(self, wanted: str) -> str:
        """An existing scratch session, or a new one that replaces the one unused for longest."""
        if not self._swept:
            self._swept = True
            await asyncio.to_thread(self._sweep)
        if wanted in self._scratches:
            return wanted
        busy = {tool_try.scratch for tool_try in self._tries.values() if tool_try.result is None}
        rested = [scratch for scratch in self._scratches if scratch not in busy]
        for scratch in rested[: max(0, len(self._scratches) - MOST_SCRATCHES + 1)]:
            await self._forget(scratch)
        new_scratch = self._new_id()
        self._scratches[new_scratch] = 0
        return new_scratch

    def _sweep(self) -> None:
        """Removes folders that a killed program left; only this process uses the folder."""
        for left in self._folder.glob(f"{PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)

    def _remove(self, session: str) -> None:
        for left in self._folder.glob(f"{session}*"):
            shutil.rmtree(left, ignore_errors=True)


def _seen_hash(tool: Tool, code: str) -> str:
    """A hash of the tool and its executor. Ignores the order of config members, which differs
    between the editor, a server and a script."""
    data = to_data(tool)
    data["config"] = dict(sorted(data["config"].items()))
    held = json_text([data, code])
    return hashlib.sha256(held.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _is_as_seen(seen: str, looked: TryCheck) -> bool:
    """Whether the user saw what would run; a script passes "", having seen nothing."""
    if seen == UNASKED:
        return not any(problem.kind == "caution" for problem in looked.problems)
    return seen in ("", looked.seen)
