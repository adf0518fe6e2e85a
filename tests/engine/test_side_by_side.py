"""Calls that truly run at once: how many, in which order, and what a failing one leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import Refused
from playground.core.events import CallEnded, CallStarted, SettingsChanged
from playground.core.session import Session
from playground.core.tools import Tool, ToolResult, text_result
from playground.engine.engine import Engine
from playground.engine.settings import settings_from
from playground.executors.executor import CallCheck, Invocation, ReportProgress
from tests.engines import ALLOW_ALL, create_session, events_of, run_engine
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

NOTE = Tool("note", "Notes.", {"type": "object"}, config={"result": "x"}, parallel_safe=True)
BOUND_S = 30.0


class Gate:
    """An executor whose calls last until the test lets them end, each by its id."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.inside: set[str] = set()
        self.most = 0
        self._let: dict[str, asyncio.Future[ToolResult]] = {}

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        return CallCheck(parallel_safe=tool.parallel_safe)

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        self._let[invocation.call] = asyncio.get_running_loop().create_future()
        self.inside.add(invocation.call)
        self.most = max(self.most, len(self.inside))
        self.begun.put_nowait(invocation.call)
        try:
            return await self._let[invocation.call]
        finally:
            self.inside.discard(invocation.call)

    async def started(self, count: int) -> list[str]:
        """The ids of the next `count` calls that begin."""
        async with asyncio.timeout(BOUND_S):
            return [await self.begun.get() for _ in range(count)]

    def end(self, call_id: str, result: ToolResult | Exception | None = None) -> None:
        if isinstance(result, Exception):
            self._let[call_id].set_exception(result)
        else:
            self._let[call_id].set_result(result or text_result(f"noted {call_id}"))


async def at_the_gate(engine: Engine, calls: int, **limits: Any) -> tuple[str, Gate]:
    """A session that makes so many calls at once, which a rule lets run."""
    gate = Gate()
    engine.executors.by_kind = {**engine.executors.by_kind, "mock": gate}
    session_id = await create_session(engine, [NOTE], rules=ALLOW_ALL, **limits)
    await engine.runner.prompt(session_id, f"[[fault:parallel-{calls}]] Use note")
    return session_id, gate


async def at_work(engine: Engine, session_id: str) -> list[str]:
    """The calls that run, once all are decided and what can begin has begun."""
    async with asyncio.timeout(BOUND_S):
        while True:
            position = engine.sessions.position
            async with engine.sessions.lock_session(session_id) as live:
                calls = list(live.session.calls())
                if all(call.status in ("decided", "running", "done") for call in calls):
                    return [call.id for call in calls if call.status == "running"]
            await engine.sessions.wait(position, engine.sessions.list_version, BOUND_S)


def in_order(session: Session, turn: int) -> list[str]:
    """The ids of the calls as their results stand in the request of `turn`."""
    body, ids = session.turns[turn].request.body, [f"noted {call.id}" for call in session.calls()]
    ordered_ids = [item_id for item_id in ids if item_id in body]
    return sorted(ordered_ids, key=body.index)


async def test_no_more_run_at_once_than_the_limit_and_results_keep_the_order(
    tmp_path: Path,
) -> None:
    async with run_engine(tmp_path) as engine:
        session_id, gate = await at_the_gate(engine, 5, max_parallel=2)
        assert await gate.started(2) == ["1.0", "1.1"]
        assert await at_work(engine, session_id) == ["1.0", "1.1"]
        for ends, begins in (("1.1", "1.2"), ("1.2", "1.3"), ("1.3", "1.4")):
            gate.end(ends)
            assert await gate.started(1) == [begins]
            assert await at_work(engine, session_id) == ["1.0", begins]
        gate.end("1.4")
        gate.end("1.0")
        session = await wait_while_running(engine, session_id)
        log = await engine.log.events(session_id)
        ended = [item.call_id for item in events_of(log, CallEnded)]
        assert ended == ["1.1", "1.2", "1.3", "1.4", "1.0"]
        assert [item.call_id for item in events_of(log, CallStarted)] == [
            f"1.{n}" for n in range(5)
        ]
        assert in_order(session, 1) == [f"noted 1.{n}" for n in range(5)]
    assert gate.most == 2


@pytest.mark.parametrize("failure", [text_result("No.", is_error=True), RuntimeError("broke")])
async def test_a_call_that_fails_loses_no_other_and_holds_the_run_where_it_should(
    failure: Any, engine: Engine
) -> None:
    session_id, gate = await at_the_gate(engine, 4, max_parallel=3, continue_on_error=False)
    assert await gate.started(3) == ["1.0", "1.1", "1.2"]
    assert await at_work(engine, session_id) == ["1.0", "1.1", "1.2"]
    gate.end("1.1", failure)
    # The others come to their end first; what was not begun is not begun any more.
    gate.end("1.2")
    gate.end("1.0")
    session = await wait_while_running(engine, session_id)
    assert (session.state, session.paused, len(session.turns)) == ("paused", "error", 1)
    assert session.paused_because.startswith("note failed")
    statuses = [call.status for call in session.calls()]
    assert statuses[:3] == ["done", "done", "done"]
    assert statuses[3] != "done"
    assert gate.begun.empty()
    await engine.runner.resume(session_id)
    assert await gate.started(1) == ["1.3"]
    gate.end("1.3")
    session = await wait_while_running(engine, session_id)
    assert session.state == "idle"
    assert in_order(session, 1) == ["noted 1.0", "noted 1.2", "noted 1.3"]
    assert session.turns[1].request.body.count("tool_result") == 4


async def test_a_run_goes_on_after_an_error_as_it_comes(engine: Engine) -> None:
    session_id, gate = await at_the_gate(engine, 2)
    first, second = await gate.started(2)
    gate.end(second, text_result("No.", is_error=True))
    gate.end(first)
    session = await wait_while_running(engine, session_id)
    assert (session.state, len(session.turns), gate.most) == ("idle", 2, 2)


async def test_continue_raises_a_limit_in_one_step_and_stop_ends_a_pause(engine: Engine) -> None:
    session_id = await create_session(engine, [NOTE], rules=ALLOW_ALL, max_turns=1)
    await engine.runner.prompt(session_id, "[[fault:loop]] Use note")
    session = await wait_while_running(engine, session_id)
    assert (session.paused, len(session.turns)) == ("max_turns", 1)
    raised = await settings_from(engine, {"max_turns": 3}, session.settings)
    outcomes = await asyncio.gather(
        *(engine.runner.resume(session_id, raised) for _ in range(2)), return_exceptions=True
    )
    # Of two tabs one goes on; the other hears that nothing is paused, and changes nothing.
    assert outcomes[0] is None
    assert isinstance(outcomes[1], Refused)
    session = await wait_while_running(engine, session_id)
    assert (session.paused, len(session.turns)) == ("max_turns", 3)  # it counts on
    log = await engine.log.events(session_id)
    (change,) = events_of(log, SettingsChanged)
    assert change.settings.limits.max_turns == 3
    await engine.runner.stop(session_id)
    session = await wait_while_running(engine, session_id)
    assert (session.state, session.paused) == ("interrupted", "")
    await engine.runner.prompt(session_id, "hello")
    assert (await wait_while_running(engine, session_id)).state == "idle"
