"""What decides without a user, over sessions, restarts and changes at the last moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from playground.core.events import CallChecked, CallDecided, CallReturned, CallStarted
from playground.core.rules import Rule
from playground.core.session import Session
from playground.core.tools import AnsweredBy, Tool, ToolResult, text_result
from playground.engine import decisions
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.rules import ALWAYS
from playground.executors.executor import CallCheck, Invocation, ReportProgress
from playground.protocols.server import ModelReply, call
from playground.simulator.scenario import Scenario, ScenarioTurn
from tests.engines import StartEngine, create_session, events_of, run_engine
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

NOTE = Tool("note", "Notes.", {"type": "object"}, "mock", {"result": "noted"})
SLOW = Tool("slow", "Is slow.", {"type": "object"}, "mcp", {"server": "s", "tool": "t"})
FIRST = replace(NOTE, name="first")
PAIR = Scenario((ScenarioTurn(ModelReply((call("first", {}), call("slow", {})))),))

TRIO = Scenario(
    (ScenarioTurn(ModelReply((call("first", {}), call("slow", {}), call("slow", {})))),)
)


class Held:
    """An executor whose checks wait until they are let go, and tell what `code` is then."""

    def __init__(self, code: str = "one") -> None:
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self.code = code

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        self.asked.set()
        await self.go.wait()
        return CallCheck(self.code, parallel_safe=True)

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        same = invocation.code == self.code
        return text_result("ran" if same else "nothing was run", is_error=not same)


def of_kind(engine: Engine, kind: AnsweredBy, gate: Held) -> Held:
    engine.executors.by_kind = {**engine.executors.by_kind, kind: gate}
    return gate


async def prompted(engine: Engine, prompt: str, *tools: Tool, rules: tuple[Rule, ...]) -> Session:
    session_id = await create_session(engine, tools, rules=rules)
    await engine.runner.prompt(session_id, prompt)
    return await wait_while_running(engine, session_id)


async def test_what_was_denied_anywhere_no_proposed_rule_runs(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        rule = Rule("note", "run", proposed=True, here="elsewhere")
        await engine.rules.add(ALWAYS, rule, [NOTE])
        assert (await prompted(engine, "Use note", NOTE, rules=())).state == "idle"
        by_hand = Rule("note", "ask")
        session = await prompted(engine, "Use note", NOTE, rules=(by_hand,))
        (call,) = session.waiting  # denied after the rule was written, and was read
        await engine.runner.decide(session.id, call.id, DecisionRequest("deny", call.digest))
        await wait_while_running(engine, session.id)
        again = await prompted(engine, "Use note", NOTE, rules=())
        assert [call.asks for call in again.waiting] == [
            "You denied this call before, so the rule “run note” asks."
        ]
        assert (await prompted(engine, "Use note", NOTE, rules=(Rule("*", "run"),))).waiting == []
    async with run_engine(tmp_path) as engine:  # read from the log
        assert len((await prompted(engine, "Use note", NOTE, rules=())).waiting) == 1


async def held_behind(engine: Engine) -> tuple[Session, Held]:
    """The call of `first` asks; that of `slow`, which a rule decided, is held behind it."""
    gate = of_kind(engine, "mcp", Held())
    gate.go.set()
    session = await prompted(engine, "Go.", FIRST, SLOW, rules=(Rule("slow", "run"),))
    assert [call.status for call in session.calls()][:2] == ["waiting", "decided"]
    return session, gate


async def wait_for_answer(engine: Engine, session: Session) -> Session:
    (call,) = session.waiting
    await engine.runner.decide(
        session.id, call.id, DecisionRequest("answer", call.digest, text="so")
    )
    return await wait_while_running(engine, session.id)


@pytest.mark.parametrize("change", ["none", "deleted", "denied", "code"])
async def test_a_rule_decides_a_held_call_only_as_long_as_it_stands(
    change: str, start_engine: StartEngine
) -> None:
    engine = await start_engine(scenario=PAIR)
    session, gate = await held_behind(engine)
    (rule,) = engine.rules.rule_list(session.id)
    match change:
        case "deleted":
            await engine.rules.delete(session.id, rule.id)
        case "denied":
            await engine.rules.add(session.id, Rule("slow", "deny"), (), 0)
        case "code":
            gate.code = "two"
    session = await wait_for_answer(engine, session)
    slow = session.call("1.1")
    outcome = {
        "none": ("done", "ran", ""),
        "deleted": ("waiting", "", "The rule “run slow” decided this call, but no longer does"),
        "denied": ("done", "The user did not allow this call.", ""),
        "code": ("waiting", "", "slow has changed since the rule “run slow” was added"),
    }[change]
    assert (slow.status, slow.result.text if slow.result else "") == outcome[:2]
    assert slow.asks.startswith(outcome[2]), slow.asks
    log = await engine.log.events(session.id)
    assert [item.by for item in events_of(log, CallReturned)] == ["rule"] * (change != "none")
    assert len(events_of(log, CallStarted)) == (change == "none")


@pytest.mark.parametrize("does", ["stop", "delete", "deny", "nothing", "code", "late"])
async def test_the_look_before_held_calls_begin_holds_nobody_and_begins_nothing_by_itself(
    monkeypatch: pytest.MonkeyPatch, does: str, start_engine: StartEngine
) -> None:
    monkeypatch.setattr(decisions, "SOON_S", 0.01 if does == "late" else 600.0)
    engine = await start_engine(scenario=TRIO)
    session, gate = await held_behind(engine)
    (rule,) = engine.rules.rule_list(session.id)
    gate.go.clear()
    gate.asked.clear()
    (call,) = session.waiting
    with anyio.fail_after(20):  # the lock is free while what answers is looked at
        await engine.runner.decide(
            session.id, call.id, DecisionRequest("answer", call.digest, text="so")
        )
        await gate.asked.wait()
        match does:
            case "stop":
                await engine.runner.stop(session.id)
            case "delete":
                await engine.rules.delete(session.id, rule.id)
            case "deny":
                await engine.rules.add(session.id, Rule("slow", "deny"), (), 0)
            case "code":
                gate.code = "two"
            case "late":
                await wait_for_event(engine, session.id, CallStarted)
    gate.go.set()
    session = await wait_while_running(engine, session.id)
    begun, state, status = {
        "stop": (0, "interrupted", "decided"),
        "delete": (0, "waiting", "waiting"),
        "deny": (0, "idle", "done"),
        "nothing": (2, "idle", "done"),
        "code": (0, "waiting", "waiting"),
        "late": (2, "idle", "done"),
    }[does]
    assert (session.state, session.call("1.1").status) == (state, status)
    assert session.call("1.2").status == status
    assert len(events_of(await engine.log.events(session.id), CallStarted)) == begun


async def test_a_stop_waits_for_its_check_and_nothing_begins_before(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(scenario=PAIR)
    gate = of_kind(engine, "mcp", Held())
    rules = (Rule("slow", "stop"), Rule("first", "run"))
    session_id = await create_session(engine, [FIRST, SLOW], rules=rules)
    await engine.runner.prompt(session_id, "Go.")
    with anyio.fail_after(20):
        await gate.asked.wait()
    await wait_for_event(engine, session_id, CallChecked)
    await engine.runner.advance(session_id)
    gate.go.set()
    session = await wait_while_running(engine, session_id)
    assert (session.stopped, session.call("1.1").stopped_by) == (True, "stop the run at slow")
    log = await engine.log.events(session_id)
    assert events_of(log, CallDecided) == events_of(log, CallStarted) == []
