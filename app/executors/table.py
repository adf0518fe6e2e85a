"""Who answers calls of which kind, and the limits that hold for all of them."""

from __future__ import annotations

import asyncio

from app.core.tools import Tool, ToolResult, text_result
from app.executors import mock, python
from app.executors.executor import Executor, Invocation, Report

EXECUTORS: dict[str, Executor] = {
    "mock": mock,
    "python": python,
}
"""By `answered_by`. A tool answered by a person has none: nothing is run for it."""


async def code_of(tool: Tool | None) -> str:
    """What stands for the file that would answer; "" where none does."""
    if tool is None or tool.answered_by != "python":
        return ""
    return await asyncio.to_thread(python.code_of, tool)


async def run(invocation: Invocation, report: Report) -> ToolResult:
    """Run the call within its time and size; trouble is a result, only cancellation is raised."""
    kind = invocation.tool.answered_by
    executor = EXECUTORS.get(kind)
    if executor is None:
        said = f"A {kind} tool is not run by this program; answer the call by hand."
        return text_result(said, is_error=True, kind="failed")
    limit = asyncio.timeout(invocation.timeout_s)
    try:
        async with limit:
            result = await executor.run(invocation, report)
    except Exception as error:
        if limit.expired():
            said = f"The tool was stopped after {invocation.timeout_s:g} s, its limit."
            return text_result(said, is_error=True, kind="timeout")
        said = f"The tool could not be run: {type(error).__name__}: {error}"
        return text_result(said, is_error=True, kind="failed")
    return _within(result, invocation.max_output)


def _within(result: ToolResult, most: int) -> ToolResult:
    """`result`, or an error in its place where it has more than `most` bytes."""
    size = sum(
        len(piece.text.encode("utf-8", "replace")) + len(piece.data) for piece in result.content
    )
    if size <= most:
        return result
    said = f"The result has {size:,} bytes, more than the {most:,} allowed; ask for less."
    return text_result(said, is_error=True, kind="too_large")
