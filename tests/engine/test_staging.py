"""Faults on purpose in a real run: what runs, what the model reads, and what was real."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.errors import BadInput, Refused
from playground.core.events import CallEnded, CallInterrupted, CallProgressed
from playground.core.faults import FAULTS, Fault
from playground.core.rules import Rule
from playground.core.session import Call, session_data
from playground.core.tools import Tool
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from tests.engines import KEY, StartEngine, create_session, events_of, run_prompt
from tests.tables import rest_slow
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

SHAPE = {"type": "object", "properties": {"city": {"type": "string"}}}
CODE = """
def get_weather(city="", report=None):
    with open({effects!r}, "a") as file:
        file.write("ran\\n")
    return {result!r}
"""
SUNNY = {"city": "Paris", "temperature": 18}

QUICK = [fault for fault in FAULTS if fault.name not in ("slow", "stale")]


def weather(folder: Path, result: object = SUNNY) -> Tool:
    """A tool that leaves a line in `effects`."""
    file = folder / "weather_tool.py"
    file.write_text(CODE.format(effects=str(folder / "effects"), result=result))
    config = {"file": str(file), "function": "get_weather", "output_schema": SHAPE}
    return Tool("get_weather", "The weather of a city.", SHAPE, "python", config)


def run_count(folder: Path) -> int:
    path = folder / "effects"
    return path.read_text().count("\n") if path.exists() else 0


async def staging(engine: Engine, tool: Tool, fault: str, **more: object) -> str:
    """A session with one call, of which `fault` is staged; its id."""
    session = await run_prompt(engine, "What is the weather in Paris?", tool)
    (call,) = session.waiting
    wish = DecisionRequest(more.pop("decision", ""), call.digest, fault=fault, **more)  # type: ignore[arg-type]
    await engine.runner.decide(session.id, call.id, wish)
    return session.id


async def wait_for_call(engine: Engine, session_id: str) -> Call:
    session = await wait_while_running(engine, session_id)
    call = session.by_call["1.1"]
    assert call.status == "done"
    return call


@pytest.mark.parametrize("fault", rest_slow(QUICK, 3), ids=lambda item: item.name)
async def test_what_runs_and_what_is_kept(tmp_path: Path, fault: Fault, engine: Engine) -> None:
    session_id = await staging(engine, weather(tmp_path), fault.name, decision=fault.decision)
    call = await wait_for_call(engine, session_id)
    assert run_count(tmp_path) == int(fault.runs)
    assert call.result is not None
    assert call.result.staged
    assert (call.real is not None) == fault.runs
    if call.real is not None:
        assert json.loads(call.real.text) == SUNNY
        assert call.result.content != call.real.content
    session = await wait_while_running(engine, session_id)
    call_data = session_data(session)["calls"][0]
    assert (call_data["fault"], call_data["decided_by"]) == (fault.name, "person")
    assert (call_data["real"] is not None) == fault.runs
    # What the model reads is what was staged.
    assert json.dumps(call.result.text[:40])[1:-1] in session.turns[1].request.body


async def test_a_slow_answer_is_held_back_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    monkeypatch.setattr("playground.engine.tool_runs.SLOW_S", 0.02)
    monkeypatch.setattr("playground.engine.tool_runs.STEP_S", 0.01)
    engine = await start_engine()
    session_id = await staging(engine, weather(tmp_path), "slow")
    call = await wait_for_call(engine, session_id)
    assert call.result is not None
    assert call.real is not None
    assert call.result == replace(call.real, staged=True)
    lines = [item.text for item in events_of(await engine.log.events(session_id), CallProgressed)]
    assert any("Held back on purpose" in text for text in lines)


@pytest.mark.parametrize("how", ["cancel", "stop", "close"])
async def test_what_is_held_back_ends_at_once_and_is_not_lost(
    tmp_path: Path, how: str, engine: Engine
) -> None:
    session_id = await staging(engine, weather(tmp_path), "slow")
    await wait_for_event(engine, session_id, CallProgressed)
    match how:
        case "cancel":
            await engine.runner.cancel(session_id, "1.1")
        case "stop":
            await engine.runner.stop(session_id)
        case _:
            await engine.runner.close()
    log = await engine.log.events(session_id)
    (end,) = events_of(log, CallEnded)
    assert json.loads(end.real.text) == SUNNY
    assert events_of(log, CallInterrupted) == []
    if how == "close":  # it did return, so there is nothing to ask after the next start
        assert end.result.text == end.real.text
    else:
        assert {"cancel": "cancelled", "stop": "stopped"}[how] in end.result.text
    assert run_count(tmp_path) == 1


async def test_a_stale_result_is_of_an_earlier_turn(tmp_path: Path, engine: Engine) -> None:
    tool = weather(tmp_path)
    session = await run_prompt(engine, "What is the weather in Paris?", tool)
    (call,) = session.waiting
    with pytest.raises(Refused, match="No earlier turn has a result of get_weather"):
        await engine.runner.decide(
            session.id, call.id, DecisionRequest("", call.digest, fault="stale")
        )
    await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
    await wait_while_running(engine, session.id)
    await engine.runner.prompt(session.id, "What is the weather in Oslo?")
    (call,) = (await wait_while_running(engine, session.id)).waiting
    await engine.runner.decide(session.id, call.id, DecisionRequest("", call.digest, fault="stale"))
    call = (await wait_while_running(engine, session.id)).by_call[call.id]
    assert call.result is not None
    assert json.loads(call.result.text) == SUNNY
    assert run_count(tmp_path) == 1


async def test_a_wrong_type_violates_what_the_tool_promises(tmp_path: Path, engine: Engine) -> None:
    """Text is what the schema asks for, and turned text is none."""
    session_id = await staging(engine, weather(tmp_path, {"other": 1}), "wrong_type")
    call = await wait_for_call(engine, session_id)
    assert call.result is not None
    # {"other": "1"} would fit the schema still, which says nothing of it.
    assert json.loads(call.result.text) == [1]


async def test_half_a_key_is_no_key(tmp_path: Path, engine: Engine) -> None:
    session_id = await staging(engine, weather(tmp_path, {"key": KEY}), "cut_json")
    call = await wait_for_call(engine, session_id)
    assert call.result is not None
    assert KEY[:6] not in call.result.text
    assert "**" in call.result.text


@pytest.mark.parametrize(
    ("wish", "error", "message"),
    [
        ({"fault": "cut_json", "decision": "answer"}, Refused, "needs the tool to run"),
        ({"fault": "error", "decision": "run"}, Refused, "replaces the tool"),
        ({"fault": "error", "decision": "deny"}, Refused, "replaces the tool"),
        ({"fault": "boom"}, BadInput, "Choose from timeout"),
        ({"fault": "error", "text": "mine"}, BadInput, "leave out text"),
        ({"fault": "cut_json", "arguments": '{"city": 5}'}, Refused, "do not match the schema"),
        ({"fault": ""}, BadInput, "run, answer or deny"),
    ],
)
async def test_what_cannot_be_staged_is_refused(
    tmp_path: Path, wish: dict[str, str], error: type[Exception], message: str, engine: Engine
) -> None:
    with pytest.raises(error, match=message):
        await staging(engine, weather(tmp_path), **wish)
    assert run_count(tmp_path) == 0


async def test_a_persons_tool_takes_the_faults_that_run_nothing(engine: Engine) -> None:
    tool = Tool("get_weather", "The weather.", SHAPE, "person")
    with pytest.raises(Refused, match="answered by the user"):
        await staging(engine, tool, "slow")
    session_id = await staging(engine, tool, "error")
    call = await wait_for_call(engine, session_id)
    assert call.result is not None
    assert call.result.is_error


async def test_a_rule_stages_too(tmp_path: Path, engine: Engine) -> None:
    rules = [Rule("get_weather", "run", fault="injection")]
    session_id = await create_session(engine, [weather(tmp_path), Tool("send_email")], rules=rules)
    await engine.runner.prompt(session_id, "What is the weather in Paris?")
    session = await wait_while_running(engine, session_id)
    call = session.by_call["1.1"]
    assert call.decided is not None
    assert (call.decided.by, call.decided.fault) == ("rule", "injection")
    assert call.result is not None
    assert "call send_email" in call.result.text
    assert [call.name for call in session.calls()] == ["get_weather"]
    assert "did not follow it" in session.answer
