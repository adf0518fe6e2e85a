"""A limit that was put off in time is not reached, and one that was reached is not put off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from playground.core.tools import Tool, ToolResult, text_result
from playground.executors.executor import CallCheck, Deadline, Invocation, ReportProgress
from playground.executors.run_with_limits import Executors

pytestmark = pytest.mark.anyio
CALL = Invocation(
    "s",
    call="1.0",
    attempt=1,
    tool=Tool("t"),
    arguments="{}",
    timeout_s=0.02,
    max_output=5_000,
    folder=Path("/"),
    idempotency_key="k",
)


class Does:
    """An executor that does what a test says."""

    def __init__(self, work: Callable[[Invocation], Awaitable[None]]) -> None:
        self._work = work

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        await self._work(invocation)
        return text_result("done")

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        return CallCheck()


async def run_work(work: Callable[[Invocation], Awaitable[None]]) -> ToolResult:
    with anyio.fail_after(20):
        call = replace(CALL, deadline=Deadline())
        return await Executors({"mock": Does(work)}).run(call, lambda *_: None)


async def past(seconds: float) -> None:
    """Until the loop's clock is `seconds` on."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


async def test_a_limit_that_is_put_off_lets_the_call_end() -> None:
    async def work(call: Invocation) -> None:
        assert call.deadline.extend(60)
        await past(0.04)

    assert (await run_work(work)).text == "done"


async def test_limits_inside_follow_too_and_those_that_come_later() -> None:
    async def work(call: Invocation) -> None:
        async with call.deadline.time_limit(0.01):
            assert call.deadline.extend(60)
            await past(0.03)
        async with call.deadline.time_limit(0.01) as later:
            await past(0.03)
        assert not later.expired()

    assert (await run_work(work)).text == "done"


async def test_after_the_limit_the_result_says_which_it_was() -> None:
    async def wait_forever(call: Invocation) -> None:
        await anyio.sleep_forever()

    async def extended(call: Invocation) -> None:
        call.deadline.extend(0.03)
        await anyio.sleep_forever()

    result = await run_work(wait_forever)
    assert (result.kind, result.text) == (
        "timeout",
        "The tool was stopped after 0.02 s, its limit.",
    )
    message = (
        "The tool was stopped after 0.05 s: its limit of 0.02 s and the 0.03 s that it was given"
        " more."
    )
    assert (await run_work(extended)).text == message


async def test_a_limit_that_was_reached_is_not_put_off() -> None:
    late: list[bool] = []

    async def work(call: Invocation) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            late.append(call.deadline.extend(60))

    assert (await run_work(work)).kind == "timeout"
    assert late == [False]


async def test_the_error_of_a_tool_that_knows_time_outs_is_its_own() -> None:
    async def work(call: Invocation) -> None:
        call.deadline.extend(60)
        raise TimeoutError("mine")

    assert "TimeoutError: mine" in (await run_work(work)).text
