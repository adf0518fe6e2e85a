"""A workspace to call tools on, and what was told of its tasks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from playground.core.events import Event
from playground.core.tools import Tool, ToolResult
from playground.executors.executor import Invocation
from playground.executors.run_with_limits import Executors, executors
from playground.executors.workspace.executor import OPEN, WORKSPACE, Workspace
from playground.executors.workspace.fetch import Pages
from playground.executors.workspace.shell import Tasks

TOOLS = {tool.name: tool for tool in WORKSPACE}


@dataclass
class Working:
    """`told` has the events of tasks; `at_s` is the clock of what is fetched."""

    folder: Path
    events: list[tuple[str, Event]] = field(default_factory=list)
    at_s: float = 0.0
    calls: int = 0
    pages: Pages | None = None

    def __post_init__(self) -> None:
        pages = self.pages or Pages(lambda: self.at_s, private=True)
        self.tasks = Tasks(self.tell)
        self.workspace = Workspace(self.tasks, pages, lambda: 1_000)
        self.executors: Executors = executors(workspace=self.workspace)

    async def tell(self, session: str, event: Event) -> None:
        self.events.append((session, event))

    def tool(self, name: str) -> Tool:
        return TOOLS[name]

    def invocation(self, name: str, arguments: dict[str, Any], **more: Any) -> Invocation:
        self.calls += 1
        limits = {"timeout_s": 30.0, "max_output": 1 << 20, "code": "", **more}
        return Invocation(
            session="s",
            call=f"{self.calls}.0",
            attempt=1,
            tool=TOOLS[name],
            arguments=json.dumps(arguments),
            folder=self.folder,
            idempotency_key=f"s/{self.calls}.0/1",
            **limits,
        )

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        """As a user who pressed Run, on what the check said."""
        return await self.run(self.invocation(name, arguments))

    async def run(
        self, invocation: Invocation, report: Callable[..., None] = lambda *_: None
    ) -> ToolResult:
        with anyio.fail_after(40):
            return await self.executors.run(invocation, report)

    async def text(self, name: str, **arguments: Any) -> str:
        """What a call gives, which is no error."""
        result = await self.call(name, **arguments)
        assert not result.is_error, result.text
        return result.text

    async def code(self, name: str, **arguments: Any) -> str:
        """The number of the error that a call gives."""
        result = await self.call(name, **arguments)
        assert (result.is_error, result.kind) == (True, "failed"), result.text
        return result.text.split(" ")[0]

    async def open_shell(self, command: str, **arguments: Any) -> ToolResult:
        """As where there is no sandbox, and the user ran it all the same."""
        call_arguments = {"command": command, **arguments}
        return await self.run(self.invocation("run_shell", call_arguments, code=OPEN))


def alive(mark: str) -> list[int]:
    """The processes that have `mark` in their command line, but for this one."""
    results = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    results.append(int(entry.name))
            except OSError:
                continue
    return results
