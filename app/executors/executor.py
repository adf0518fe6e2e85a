"""What an executor is. It never raises but for cancellation: trouble is a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.core.events import Problem
from app.core.tools import Tool, ToolResult

Report = Callable[[str, float | None], None]
"""Progress: a message, and how far it is (0..1) or None."""


@dataclass(frozen=True)
class Invocation:
    """One run of one call. `arguments` is sound JSON text of an object, exactly as shown.

    `code` is the SHA-256 of the tool's file as it was decided on, or "": nothing else may run.
    `folder` is a scratch folder of the session (created when needed). `timeout_s` is in seconds,
    `max_output` in bytes. `idempotency_key` is the same for every attempt at the same. `lift`
    says that the person lifted the tool's sandbox for this call.
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
