"""What an executor is. It never raises but for cancellation: trouble is a result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from app.core.events import Problem
from app.core.tools import Tool, ToolResult

LONGEST_S = 24 * 3600.0
"""How long a call may run, whatever a person grants it. Limits below the deadline's are no
shorter, so that the one that can be put off is the one that decides."""


class Report(Protocol):
    """Progress: what the tool says of itself, how far it is (0..1) or None, and what was printed
    since the last report."""

    def __call__(self, text: str, fraction: float | None, output: str = "", /) -> None: ...


class Deadline:
    """How much longer than its limits a call may run: a person grants it while it runs, and all
    limits that are set by `within` follow. `extended_s` is in seconds; `begun` says that its time
    has begun, for it has its place."""

    def __init__(self) -> None:
        self.extended_s = 0.0
        self.begun = False
        self._limits: list[asyncio.Timeout] = []

    def extend(self, by_s: float) -> bool:
        """Grant `by_s` more seconds; False where a limit was reached already."""
        if any(limit.expired() for limit in self._limits):
            return False
        self.extended_s += by_s
        for limit in self._limits:
            limit.reschedule((limit.when() or 0.0) + by_s)
        return True

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """As asyncio.timeout, for `seconds` and what is granted."""
        async with asyncio.timeout(seconds + self.extended_s) as limit:
            self._limits.append(limit)
            try:
                yield limit
            finally:
                self._limits.remove(limit)


@dataclass(frozen=True)
class Invocation:
    """One run of one call. `arguments` is sound JSON text of an object, exactly as shown.

    `code` is the SHA-256 of the tool's file as it was decided on, or "": nothing else may run.
    `folder` is a scratch folder of the session (created when needed). `timeout_s` is in seconds,
    `max_output` in bytes. `idempotency_key` is the same for every attempt at the same. `lift`
    says that the person lifted the tool's sandbox for this call. `deadline` is by how much a
    person puts off its end.
    """

    session: str
    call: str
    attempt: int
    tool: Tool
    arguments: str
    timeout_s: float
    max_output: int
    folder: Path
    idempotency_key: str
    code: str = ""
    lift: bool = False
    deadline: Deadline = field(default_factory=Deadline)


@dataclass(frozen=True)
class Checked:
    """What an executor says of a call before it runs.

    `code` stands for what would answer beyond the tool itself (a file, a server's command): where
    it is another when the call is to run, the card is stale. `problems` are of kind `caution` or
    `note`. `parallel_safe` may depend on the arguments.
    """

    code: str = ""
    problems: tuple[Problem, ...] = ()
    parallel_safe: bool = False


class Executor(Protocol):
    async def run(self, invocation: Invocation, report: Report) -> ToolResult: ...
    async def checked(self, session: str, tool: Tool, arguments: str) -> Checked: ...


class Lasting(Protocol):
    """An executor that keeps something between calls: connections, tasks, what was read."""

    async def forget(self, session: str) -> None:
        """The session was stopped or deleted: end what still runs for it."""

    async def close(self) -> None:
        """The program ends."""
