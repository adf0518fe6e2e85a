"""Calls are checked beside everything else: whoever reads, stops or deletes waits for none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from playground.core.decide import Command
from playground.core.errors import Conflict, Refused
from playground.core.events import CallChecked, CallStarted, Event, Logged, ResponseEnded
from playground.core.servers import fingerprint
from playground.core.session import Session
from playground.core.tools import Tool, ToolResult, text_result
from playground.engine.decisions import CHECKS_TOGETHER, DecisionRequest
from playground.engine.engine import Engine
from playground.engine.sessions import LiveSession
from playground.executors.executor import CallCheck, Invocation, ReportProgress
from playground.executors.mcp import executor as mcp_module
from playground.simulator.scenario import Scenario, scenario
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of, run_engine
from tests.executors.mcp_servers import by_stdio
from tests.tables import rest_slow
from tests.waiting import wait_for_event, wait_while_running

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient_mcp")]

TOOL = Tool("note", answered_by="mcp", config={"server": "deaf", "tool": "t"})
FOUR = "[[fault:parallel-4]] Use note"


class Held:
    """An executor that says nothing of a call until it is let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.code = "one"
        self.begun = 0
        self.bell = asyncio.Event()

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        if not session:  # a rule is bound to what answers; no call is looked at
            return CallCheck(self.code)
        self.begun += 1
        self.bell.set()
        await self.go.wait()
        return CallCheck(self.code)

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        return text_result("ran")

    async def wait_for_checks(self, times: int) -> None:
        with anyio.fail_after(20):
            while self.begun < times:
                self.bell.clear()
                await self.bell.wait()


def hold_checks(engine: Engine) -> Held:
    gate = Held()
    engine.executors.by_kind = {**engine.executors.by_kind, "mcp": gate}
    return gate


async def state(engine: Engine, session_id: str) -> str:
    async with engine.sessions.lock_session(session_id) as live:
        return live.session.state


async def test_a_server_that_hangs_takes_neither_the_page_nor_stop(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    for name in ("CONNECT_S", "CHECK_S"):
        monkeypatch.setattr(mcp_module, name, 600.0)
    engine = await start_engine()
    server = by_stdio("deaf")
    await engine.servers.save(server)
    await engine.servers.accept("deaf", fingerprint(server))
    session_id = await create_session(engine, [TOOL])
    await engine.runner.prompt(session_id, FOUR)
    await wait_for_event(engine, session_id, ResponseEnded)
    with anyio.fail_after(20):
        assert await state(engine, session_id) == "running"
        await engine.runner.stop(session_id)
        assert await state(engine, session_id) == "interrupted"
        await engine.runner.resume(session_id)
        assert await state(engine, session_id) == "running"
        await engine.runner.delete(session_id)
    assert not events_of(await engine.log.events(session_id), CallChecked)


async def test_the_calls_of_a_turn_are_checked_side_by_side_and_each_once(engine: Engine) -> None:
    item = hold_checks(engine)
    session_id = await create_session(engine, [TOOL])
    await engine.runner.prompt(session_id, FOUR)
    await item.wait_for_checks(4)
    with anyio.fail_after(20):
        await engine.runner.advance(session_id)
    item.go.set()
    session = await wait_while_running(engine, session_id)
    assert [call.status for call in session.current_calls] == ["waiting"] * 4
    assert item.begun == 4
    checked = events_of(await engine.log.events(session_id), CallChecked)
    assert [event.call_id for event in checked] == [call.id for call in session.current_calls]


def many(count: int) -> Scenario:
    """An answer with `count` calls, then one without."""
    calls = [{"name": "note", "arguments": {"n": number}} for number in range(count)]
    return scenario(json.dumps({"turns": [{"calls": calls, "pace": 0}, {"text": "done"}]}))


@dataclass
class Counted:
    """How often checks were saved, how many at once, and how often it was asked what comes next.
    `bell` rings at the first."""

    saved: list[int] = field(default_factory=list)
    asked: int = 0
    bell: asyncio.Event = field(default_factory=asyncio.Event)


def count_checks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    append, commands = engine.sessions.append, engine.policy.commands

    async def appended(live: LiveSession, events: Sequence[Event], **more: Any) -> list[Logged]:
        saved = await append(live, events, **more)
        if count := sum(isinstance(logged.event, CallChecked) for logged in saved):
            counted.saved.append(count)
            counted.bell.set()
        return saved

    async def count_commands(session: Session, checking: int) -> list[Command]:
        counted.asked += 1
        return await commands(session, checking)

    monkeypatch.setattr(engine.sessions, "append", appended)
    monkeypatch.setattr(engine.policy, "commands", count_commands)
    return counted


async def test_the_checks_of_an_answer_are_few_batches_and_few_walks(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    engine = await start_engine(scenario=many(250))
    item = hold_checks(engine)
    item.go.set()
    counts = count_checks(engine, monkeypatch)
    session_id = await create_session(engine, [TOOL])
    await engine.runner.prompt(session_id, "go")
    session = await wait_while_running(engine, session_id)
    assert {call.status for call in session.current_calls} == {"waiting"}
    assert sum(counts.saved) == 250
    assert len(counts.saved) <= 2 + 250 // CHECKS_TOGETHER
    assert counts.asked <= 10  # each of them walks over all calls


async def test_calls_that_a_rule_runs_are_few_walks(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    """Those that end together are one walk, and not one each."""
    tool = replace(TOOL, answered_by="mock", config={"result": "so"}, parallel_safe=True)
    engine = await start_engine(scenario=many(250))
    counts = count_checks(engine, monkeypatch)
    session_id = await create_session(
        engine, [tool], rules=ALLOW_ALL, max_calls_per_turn=250, max_parallel=16
    )
    await engine.runner.prompt(session_id, "go")
    session = await wait_while_running(engine, session_id)
    assert {call.status for call in session.calls()} == {"done"}
    assert counts.asked <= 125


@pytest.mark.slow
@pytest.mark.parametrize("ending", rest_slow(["stop", "close"]))
async def test_who_ends_a_run_waits_for_one_batch_of_checks_at_most(
    monkeypatch: pytest.MonkeyPatch, ending: str, start_engine: StartEngine
) -> None:
    engine = await start_engine(scenario=many(400))
    item = hold_checks(engine)
    counts = count_checks(engine, monkeypatch)
    session_id = await create_session(engine, [TOOL], max_calls_per_answer=400)
    await engine.runner.prompt(session_id, "go")
    await item.wait_for_checks(400)
    item.go.set()
    with anyio.fail_after(20):
        await counts.bell.wait()
        await (engine.runner.stop(session_id) if ending == "stop" else engine.runner.close())
    assert sum(counts.saved) <= 2 * CHECKS_TOGETHER


@pytest.mark.slow
async def test_others_get_their_turn_while_checks_begin(tmp_path: Path) -> None:
    """They begin side by side, and who stops the run need not wait until all have."""
    turn, begun_in = 0, list[int]()

    class Noting(Held):
        async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
            begun_in.append(turn)
            return await super().check_before_run(session, tool, arguments)

    async def others() -> None:
        nonlocal turn
        while True:
            await anyio.lowlevel.checkpoint()
            turn += 1

    async with run_engine(tmp_path, scenario=many(400)) as engine:
        noting = Noting()
        engine.executors.by_kind = {**engine.executors.by_kind, "mcp": noting}
        session_id = await create_session(engine, [TOOL], max_calls_per_answer=400)
        await engine.runner.prompt(session_id, "go")
        watching = asyncio.create_task(others())
        await noting.wait_for_checks(400)
        watching.cancel()
        noting.go.set()
        await wait_while_running(engine, session_id)
    assert max(begun_in.count(each) for each in begun_in) <= CHECKS_TOGETHER


async def test_what_was_stopped_is_checked_when_the_run_goes_on(engine: Engine) -> None:
    item = hold_checks(engine)
    session_id = await create_session(engine, [TOOL])
    await engine.runner.prompt(session_id, "Use note")
    await item.wait_for_checks(1)
    with anyio.fail_after(20):
        await engine.runner.stop(session_id)
    item.go.set()
    assert not events_of(await engine.log.events(session_id), CallChecked)
    await engine.runner.resume(session_id)
    assert (await wait_while_running(engine, session_id)).state == "waiting"


async def test_a_decision_that_waits_for_a_server_holds_nobody_up(engine: Engine) -> None:
    item = hold_checks(engine)
    item.go.set()
    session_id = await create_session(engine, [TOOL])
    await engine.runner.prompt(session_id, "Use note")
    (call,) = (await wait_while_running(engine, session_id)).waiting
    item.go.clear()
    run = DecisionRequest("run", call.digest)
    deciding = asyncio.create_task(engine.runner.decide(session_id, call.id, run))
    await item.wait_for_checks(2)
    with anyio.fail_after(20):
        assert await state(engine, session_id) == "waiting"
        await engine.runner.stop(session_id)
    item.go.set()
    with anyio.fail_after(20), pytest.raises(Refused, match="was stopped"):
        await deciding
    assert not events_of(await engine.log.events(session_id), CallStarted)


async def test_of_many_that_wait_one_decides_and_a_changed_one_is_told(engine: Engine) -> None:
    item = hold_checks(engine)
    item.go.set()
    session_id = await create_session(engine, [TOOL])
    await engine.runner.prompt(session_id, "Use note")
    (call,) = (await wait_while_running(engine, session_id)).waiting
    item.code, before = "another", call.digest
    with pytest.raises(Conflict, match="has changed"):
        await engine.runner.decide(session_id, call.id, DecisionRequest("run", before))
    (call,) = (await wait_while_running(engine, session_id)).waiting
    assert call.digest != before
    item.go.clear()
    run = DecisionRequest("run", call.digest)
    deciding = [
        asyncio.create_task(engine.runner.decide(session_id, call.id, run)) for _ in range(5)
    ]
    await item.wait_for_checks(7)
    item.go.set()
    with anyio.fail_after(20):
        base_exceptions = await asyncio.gather(*deciding, return_exceptions=True)
    assert sorted(type(each).__name__ for each in base_exceptions) == ["Conflict"] * 4 + [
        "NoneType"
    ]
    await wait_while_running(engine, session_id)
    assert len(events_of(await engine.log.events(session_id), CallStarted)) == 1


async def test_nobody_sees_a_call_wait_that_a_rule_decides(tmp_path: Path) -> None:
    states: list[str] = []
    async with run_engine(tmp_path) as engine:
        item = hold_checks(engine)
        session_id = await create_session(engine, [TOOL], rules=ALLOW_ALL)

        async def watch() -> None:
            """Is in line for the lock all the time, so that it has it after everybody."""
            while True:
                states.append(await state(engine, session_id))
                await anyio.lowlevel.checkpoint()

        await engine.runner.prompt(session_id, "Use note")
        await item.wait_for_checks(1)
        watching = asyncio.create_task(watch())
        item.go.set()
        with anyio.fail_after(20):
            await wait_for_event(engine, session_id, CallStarted)
        watching.cancel()
        await asyncio.wait([watching])
        assert (await wait_while_running(engine, session_id)).state == "idle"
    assert set(states) == {"running"}


async def test_a_check_that_breaks_waits_for_a_person(start_engine: StartEngine) -> None:
    class Broken(Held):
        async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
            if not session:
                return CallCheck(self.code)
            raise RuntimeError("a bug")

    engine = await start_engine()
    engine.executors.by_kind = {**engine.executors.by_kind, "mcp": Broken()}
    session_id = await create_session(engine, [TOOL], rules=ALLOW_ALL)
    await engine.runner.prompt(session_id, "Use note")
    session = await wait_while_running(engine, session_id)
    (call,) = session.calls()
    assert (session.state, session.paused, call.status) == ("waiting", "", "waiting")
    assert call.cautioned
