"""The table of executors by kind of tool, and the time, size and concurrency limits of every
call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from playground.core.servers import Acceptance, Server
from playground.core.tools import (
    ANSWERED_BY,
    TOOL_KINDS,
    AnsweredBy,
    ByKind,
    Tool,
    ToolResult,
    text_result,
)
from playground.executors.executor import (
    CallCheck,
    Executor,
    Invocation,
    ReportProgress,
    StatefulExecutor,
)
from playground.executors.http import Http
from playground.executors.mcp.executor import Mcp
from playground.executors.mock import Mock
from playground.executors.python.executor import Python
from playground.executors.workspace.executor import Workspace
from playground.net.keys import Keys

AT_ONCE = 8
"""Concurrent calls over all sessions; mocks, which run nothing, do not count."""


class Executors:
    """`by_kind` has no executor for a kind of which nothing is run here."""

    def __init__(self, by_kind: Mapping[AnsweredBy, Executor]) -> None:
        self.by_kind = by_kind
        different = dict.fromkeys(by_kind.values())
        self._lasting = [each for each in different if isinstance(each, StatefulExecutor)]
        self._places = asyncio.Semaphore(AT_ONCE)

    async def check_before_run(self, session: str, tool: Tool | None, arguments: str) -> CallCheck:
        """The check of a call of `tool` before it is decided. Never raises."""
        executor = self.by_kind.get(tool.answered_by) if tool is not None else None
        if tool is None or executor is None:
            return CallCheck()
        return await executor.check_before_run(session, tool, arguments)

    async def check_without_server(
        self, session: str, tool: Tool, arguments: str
    ) -> CallCheck | None:
        """The same without starting or querying a server; None if that is not possible."""
        executor = self.by_kind.get(tool.answered_by)
        if isinstance(executor, Mcp):
            return await executor.check_without_server(tool, arguments)
        return await self.check_before_run(session, tool, arguments)

    async def accepted_code(self, tool: Tool) -> str | None:
        """The `code` of `tool` as the user has accepted it: no server is started or queried. None
        if it was not accepted."""
        executor = self.by_kind.get(tool.answered_by)
        if isinstance(executor, Mcp):
            return await executor.accepted_code(tool)
        return (await self.check_before_run("", tool, "{}")).code

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        """Runs the call within its time and size limits; errors are results, only cancellation is
        raised. If AT_ONCE others run it waits for a slot, and then its time begins."""
        kind = invocation.tool.answered_by
        executor = self.by_kind.get(kind)
        if executor is None:
            sentence = f"This program does not run {kind} tools. Answer the call by hand."
            return text_result(sentence, is_error=True, kind="failed")
        if not TOOL_KINDS[kind].runs:
            invocation.deadline.begun = True
            return await self._run_within_limits(executor, invocation, report)
        waits = self._places.locked()
        if waits:
            report(f"Waiting: {AT_ONCE} other calls are running.", None)
        async with self._places:
            invocation.deadline.begun = True
            if waits:
                report("", None)
            return await self._run_within_limits(executor, invocation, report)

    async def _run_within_limits(
        self, executor: Executor, invocation: Invocation, report: ReportProgress
    ) -> ToolResult:
        limit: asyncio.Timeout | None = None
        try:
            async with invocation.deadline.time_limit(invocation.timeout_s) as limit:
                result = await executor.run(invocation, report)
        except Exception as error:
            if limit is not None and limit.expired():
                return text_result(_timeout_sentence(invocation), is_error=True, kind="timeout")
            sentence = f"The tool could not be run: {type(error).__name__}: {error}"
            return text_result(sentence, is_error=True, kind="failed")
        return _limit_size(result, invocation.max_output)

    async def forget(self, session: str) -> None:
        """Ends what still runs for a session that was stopped or deleted."""
        await asyncio.gather(*(executor.forget(session) for executor in self._lasting))

    async def close(self) -> None:
        """Ends everything with state between calls."""
        await asyncio.gather(*(executor.close() for executor in self._lasting))


def executors(
    keys: Keys | None = None, mcp: Mcp | None = None, workspace: Workspace | None = None
) -> Executors:
    """All executors. `keys` are those that HTTP tools may name; `mcp` has the user's servers,
    without it no MCP tool works; workspace tools run only with a `workspace`."""
    table: ByKind[Executor | None] = {
        "mock": Mock(),
        "python": Python(),
        "http": Http(keys or Keys()),
        "person": None,  # the user answers
        "mcp": mcp or Mcp(_no_servers),
        "workspace": workspace,
    }
    rows = ((kind, table[kind]) for kind in ANSWERED_BY)
    return Executors({kind: executor for kind, executor in rows if executor is not None})


async def _no_servers() -> Sequence[tuple[Server, Acceptance]]:
    return ()


def _timeout_sentence(invocation: Invocation) -> str:
    """The limit that was reached, and its extension by the user."""
    more = invocation.deadline.extended_s
    if not more:
        return f"The tool was stopped after {invocation.timeout_s:g} s, its limit."
    return (
        f"The tool was stopped after {invocation.timeout_s + more:g} s: its limit of "
        f"{invocation.timeout_s:g} s and the {more:g} s that it was given more."
    )


def _limit_size(result: ToolResult, most: int) -> ToolResult:
    """`result`, or an error in its place if it has more than `most` bytes."""
    size = sum(
        len(piece.text.encode("utf-8", "replace")) + len(piece.data) for piece in result.content
    )
    if size <= most:
        return result
    sentence = f"The result has {size:,} bytes, more than the {most:,} allowed. Ask for less."
    return text_result(sentence, is_error=True, kind="too_large")
