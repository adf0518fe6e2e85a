"""Workspace tools in whole runs: the order of a turn, tasks that outlive it, and their ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from playground.core.events import CallStarted, TaskEnded, TaskStarted
from playground.core.session import Session
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.tool_runs import task_writer
from playground.simulator.scenario import Scenario, scenario
from tests.engines import StartEngine, events_of, run_engine, run_prompt
from tests.executors.workspace.working import alive
from tests.servers import run_server_process
from tests.waiting import wait_for_event, wait_until, wait_while_running

pytestmark = pytest.mark.anyio


def script(*turns: list[tuple[str, dict[str, Any]]]) -> Scenario:
    """A model that makes these calls, turn by turn, and then says that it is done."""
    calls = [
        {"calls": [{"name": name, "arguments": arguments} for name, arguments in turn]}
        for turn in turns
    ]
    return scenario(json.dumps({"turns": [*calls, {"text": "Done."}]}))


WRITES = script(
    [
        ("write_file", {"path": "a.txt", "content": "first"}),
        ("edit_file", {"path": "a.txt", "old": "first", "new": "second"}),
        ("read_file", {"path": "a.txt"}),
    ]
)


async def run(engine: Engine, session: Session, place: int, **more: Any) -> None:
    call = session.current_calls[place]
    await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest, **more))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
async def test_two_writes_and_a_read_keep_the_models_order(
    order: tuple[int, ...], start_engine: StartEngine
) -> None:
    """In whichever order the user decides."""
    engine = await start_engine(scenario=WRITES)
    session = await run_prompt(engine, "Go.", "write_file", "edit_file", "read_file")
    assert session.state == "waiting"
    for place in order:
        await run(engine, session, place)
    session = await wait_while_running(engine, session.id)
    assert (session.state, session.answer) == ("idle", "Done.")
    results = [call.result.text for call in session.calls() if call.result]
    assert results[0] == "Made a.txt, 1 line."
    assert "+second" in results[1]
    assert results[2] == "     1→second"
    log = await engine.log.events(session.id)
    assert [item.call_id for item in events_of(log, CallStarted)] == ["1.0", "1.1", "1.2"]


async def test_what_waits_behind_a_person_leaves_the_session_waiting(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(scenario=WRITES)
    session = await run_prompt(engine, "Go.", "write_file", "edit_file", "read_file")
    await run(engine, session, 2)
    session = await wait_while_running(engine, session.id)
    assert session.state == "waiting"
    assert [call.status for call in session.current_calls] == ["waiting", "waiting", "decided"]
    for place in (0, 1):
        call = session.current_calls[place]
        await engine.runner.decide(session.id, call.id, DecisionRequest("deny", call.digest))
    session = await wait_while_running(engine, session.id)
    assert session.answer == "Done."
    assert [call.result.kind for call in session.calls() if call.result][:2] == ["denied"] * 2


def background(mark: str) -> Scenario:
    arguments = {"command": f"echo begun; sleep {mark}", "background": True}
    return script([("run_shell", arguments)], [("read_task", {"task_id": "task-1-0"})])


async def start_task(engine: Engine, mark: str) -> Session:
    """A session whose task runs, after its turn."""
    tools = ("run_shell", "read_task", "stop_task")
    session = await run_prompt(engine, "Go.", *tools)
    await run(engine, session, 0)
    session = await wait_while_running(engine, session.id)
    await wait_until(lambda: bool(alive(f"sleep\0{mark}")))
    return session


def hows(log: Any) -> list[str]:
    return [item.how for item in events_of(log, TaskEnded)]


async def test_a_task_survives_its_turn_and_ends_by_stop_of_the_person(
    start_engine: StartEngine,
) -> None:
    mark = f"81{os.getpid()}"
    engine = await start_engine(scenario=background(mark))
    session = await start_task(engine, mark)
    assert [task.id for task in session.open_tasks] == ["task-1-0"]
    await run(engine, session, 0)
    session = await wait_while_running(engine, session.id)
    assert session.answer == "Done."
    assert [call.result.text for call in session.calls() if call.result][-1] == ("begun\n[running]")
    assert len(alive(f"sleep\0{mark}")) == 1
    with anyio.fail_after(20):
        await engine.workspace.tasks.stop(session.id, "task-1-0", "stopped by you")
    log = await engine.log.events(session.id)
    assert (alive(f"sleep\0{mark}"), hows(log)) == ([], ["stopped by you"])
    assert len(events_of(log, TaskStarted)) == 1


@pytest.mark.parametrize("how", ["stop", "delete"])
async def test_a_task_ends_with_stop_and_with_its_session(
    how: str, start_engine: StartEngine
) -> None:
    mark = f"82{os.getpid()}{how == 'stop':d}"
    engine = await start_engine(scenario=background(mark))
    session = await start_task(engine, mark)
    with anyio.fail_after(20):
        await (engine.runner.stop if how == "stop" else engine.runner.delete)(session.id)
    assert alive(f"sleep\0{mark}") == []
    assert hows(await engine.log.events(session.id)) == ["stopped with the run"]


async def test_a_task_ends_with_the_program(tmp_path: Path) -> None:
    mark = f"83{os.getpid()}"
    async with run_engine(tmp_path, scenario=background(mark)) as engine:
        session = await start_task(engine, mark)
    assert alive(f"sleep\0{mark}") == []
    async with run_engine(tmp_path) as engine:
        log = await engine.log.events(session.id)
        assert hows(log) == ["ended with the program"]
        async with engine.sessions.lock_session(session.id) as live:
            assert live.session.open_tasks == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_server_that_is_killed_leaves_no_task(tmp_path: Path, number: int) -> None:
    """Over a real server: kill -9, and a polite end."""
    mark = f"84{os.getpid()}{int(number)}"
    with run_server_process(tmp_path / "a.db", PLAYGROUND_PACE="0") as server_process:
        async with server_process.client() as client:
            session_id = await waiting(client)
            call = (await client.get(f"/sessions/{session_id}")).json()["calls"][0]
            decision = {
                "decision": "run",
                "digest": call["digest"],
                "arguments": {"command": f"setsid sleep {mark}", "background": True},
            }
            path = f"/sessions/{session_id}/calls/{call['id']}/decision"
            answer = await client.post(path, json=decision)
            assert answer.status_code == 200, answer.text
            await wait_until(lambda: bool(alive(f"sleep\0{mark}")))
        server_process.process.send_signal(number)
        await asyncio.to_thread(server_process.process.wait, 20)
        await wait_until(lambda: alive(mark) == [])
    with run_server_process(tmp_path / "a.db", PLAYGROUND_PACE="0") as server_process:
        async with server_process.client() as client:
            text = (await client.get(f"/sessions/{session_id}/events")).text
            assert '"kind": "task_ended"' in text
            assert '"how": "ended with the program"' in text


async def waiting(client: httpx.AsyncClient) -> str:
    """The id of a session in which a run_shell call waits."""
    response = await client.post(
        "/sessions", json={"tools": ["run_shell"], "tool_choice": "run_shell"}
    )
    session_id = str(response.json()["id"])
    await client.post(f"/sessions/{session_id}/prompts", json={"text": "Run a command."})
    with anyio.fail_after(30):
        while (await client.get(f"/sessions/{session_id}")).json()["state"] != "waiting":
            await anyio.sleep(0.02)
    return session_id


async def test_a_session_that_is_gone_is_no_trouble(start_engine: StartEngine) -> None:
    engine = await start_engine(scenario=WRITES)
    tell = task_writer(engine.sessions)
    await tell("try-nothing", TaskStarted("t", "1.0", "sleep"))
    session = await run_prompt(engine, "Go.", "write_file")
    await tell(session.id, TaskEnded("t", "never began"))
    await engine.runner.delete(session.id)
    await tell(session.id, TaskStarted("t", "1.0", "sleep"))
    await wait_for_event(engine, session.id, TaskStarted)
