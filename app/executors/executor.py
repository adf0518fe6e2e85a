"""What an executor is. It never raises but for cancellation: trouble is a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.core.tools import Tool, ToolResult

Report = Callable[[str, float | None], None]
"""Progress: a message, and how far it is (0..1) or None."""


@dataclass(frozen=True)
class Invocation:
    """One run of one call. `arguments` is sound JSON text of an object, exactly as shown.

    `code` is the SHA-256 of the tool's file as it was decided on, or "": nothing else may run.
    `folder` is a scratch folder of the session (created when needed). `timeout_s` is in seconds,
    `max_output` in bytes. `idempotency_key` is the same for the same call and attempt.
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


class Executor(Protocol):
    async def run(self, invocation: Invocation, report: Report) -> ToolResult: ...
