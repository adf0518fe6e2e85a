"""A call under way: its time is put off, what it prints is kept, it goes on in the background."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.errors import Conflict
from playground.core.events import (
    CallEnded,
    CallExtended,
    CallProgressed,
    CallReturned,
    CallStarted,
    Event,
    TaskEnded,
    TaskStarted,
)
from playground.core.session import Session
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.tool_runs import MOST_BEHIND
from playground.executors.executor import LONGEST_S
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of, run_engine
from tests.executors.test_python import alive
from tests.tables import rest_slow
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

# It prints, tells that it is there, and works until a file says that it may end.
TOOL = """
import os, signal, time

def work(report=None):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("héllo")
    print("wörld", flush=True)
    report(str(os.getpid()))
    while not os.path.exists({go!r}):
        time.sleep(0.01)
    print("and on")
    return "what came of it"
"""


def make_tool(folder: Path) -> Tool:
    file = folder / "work_tool.py"
    file.write_text(TOOL.format(go=str(folder / "go")))
    config = {"file": str(file), "function": "work"}
    parameters = {"type": "object", "properties": {}}
    return Tool("work", "Works.", parameters, "python", config, parallel_safe=True)


async def under_way(engine: Engine, folder: Path, prompt: str = "Use work") -> str:
    """A session whose call runs, and has said so."""
    session_id = await create_session(engine, [make_tool(folder)], rules=ALLOW_ALL)
    await engine.runner.prompt(session_id, prompt)
    await wait_for_event(engine, session_id, CallProgressed)
    return session_id


async def session_of(engine: Engine, session_id: str) -> Session:
    async with engine.sessions.lock_session(session_id) as live:
        return live.session


async def log_of(engine: Engine, session_id: str) -> Sequence[Event]:
    return [event.event for event in await engine.log.events(session_id)]


async def test_stop_ends_the_process_that_is_kept_for_a_file(
    tmp_path: Path, start_engine: StartEngine
) -> None:
    (tmp_path / "go").touch()
    engine = await start_engine()
    session_id = await under_way(engine, tmp_path)
    await wait_while_running(engine, session_id)
    assert alive(tmp_path)
    await engine.runner.stop(session_id)
    assert not alive(tmp_path)


def call_id(session: Session) -> str:
    (call,) = [call for call in session.calls() if call.turn == 1]
    return call.id


async def test_time_is_put_off_where_the_call_runs(tmp_path: Path, engine: Engine) -> None:
    session_id = await under_way(engine, tmp_path)
    session = await session_of(engine, session_id)
    id = call_id(session)
    await engine.runner.extend(session_id, id, 30)
    await engine.runner.extend(session_id, id, 300)
    under = engine.runner._running._running[session_id, id]
    assert session.call(id).extended_s == under.deadline.extended_s == 330
    with pytest.raises(Conflict, match="at most 24 hours"):
        await engine.runner.extend(session_id, id, LONGEST_S)
    (tmp_path / "go").touch()
    session = await wait_while_running(engine, session_id)
    with pytest.raises(Conflict, match="not running"):
        await engine.runner.extend(session_id, id, 30)
    log = await engine.log.events(session_id)
    assert [item.by_s for item in events_of(log, CallExtended)] == [30, 300]


async def test_all_that_is_printed_is_in_the_log_before_the_end(
    tmp_path: Path, engine: Engine
) -> None:
    session_id = await under_way(engine, tmp_path)
    (tmp_path / "go").touch()
    session = await wait_while_running(engine, session_id)
    call = session.call(call_id(session))
    lines = [item for item in await log_of(engine, session_id) if not isinstance(item, CallEnded)]
    printed = "".join(item.output for item in lines if isinstance(item, CallProgressed))
    assert printed == call.output == "héllo\nwörld\nand on\n"
    assert call.printed == len(printed)


async def test_in_the_background_the_run_goes_on_and_the_model_reads_the_end_once(
    tmp_path: Path, engine: Engine
) -> None:
    session_id = await under_way(engine, tmp_path)
    id = call_id(await session_of(engine, session_id))
    task_id = await engine.runner.move_to_background(session_id, id)
    with pytest.raises(Conflict, match="not running"):
        await engine.runner.move_to_background(session_id, id)
    session = await wait_while_running(engine, session_id)
    call = session.call(id)
    assert call.result is not None
    assert task_id in call.result.text
    assert (session.state, [task.id for task in session.open_tasks]) == ("idle", [task_id])
    assert "in the background as" in session.turns[1].request.body
    await engine.runner.prompt(session_id, "hello")
    await wait_while_running(engine, session_id)
    (tmp_path / "go").touch()
    await wait_for_event(engine, session_id, TaskEnded)
    for prompt in ("hello again", "and again"):
        await engine.runner.prompt(session_id, prompt)
        await wait_while_running(engine, session_id)
    bodies = [turn.request.body for turn in session.turns]
    assert [body.count("what came of it") for body in bodies] == [0, 0, 0, 1, 1]
    task = session.tasks[task_id]
    assert task.result is not None
    assert (task.how, task.result.text) == ("done", "what came of it")
    assert session.call(id).output.endswith("and on\n")
    log = await engine.log.events(session_id)
    assert len(events_of(log, TaskStarted)) == len(events_of(log, TaskEnded)) == 1


@pytest.mark.parametrize("how", rest_slow(["stop", "delete", "stop_task", "close"]))
async def test_who_ends_it_ends_all_of_it_and_says_so(
    tmp_path: Path, how: str, engine: Engine
) -> None:
    """Stop, deletion, its own Stop, and the end of the program."""
    session_id = await under_way(engine, tmp_path)
    session = await session_of(engine, session_id)
    id = call_id(session)
    assert session.call(id).progress is not None
    task_id = await engine.runner.move_to_background(session_id, id)
    await wait_while_running(engine, session_id)
    assert runners(tmp_path)
    match how:
        case "stop":
            await engine.runner.stop(session_id)
        case "delete":
            await engine.runner.delete(session_id)
        case "stop_task":
            assert not await engine.runner.stop_task(session_id, "call-9-9")
            assert await engine.runner.stop_task(session_id, task_id)
        case _:
            await engine.runner.close()
    assert runners(tmp_path) == []
    (ended,) = [item for item in await log_of(engine, session_id) if isinstance(item, TaskEnded)]
    answer = {"stop_task": "stopped by you", "close": "ended with the program"}
    assert ended == TaskEnded(task_id, answer.get(how, "stopped with the run"))


@pytest.mark.parametrize(
    ("how", "message"),
    rest_slow(
        [
            ("stop", "The user stopped the run while this call was running; "),
            ("delete", "The user stopped the run while this call was running; "),
            ("cancel", "The user cancelled this call while it was running; "),
        ]
    ),
)
async def test_the_model_reads_who_ended_a_call(
    tmp_path: Path, how: str, message: str, engine: Engine
) -> None:
    session_id = await under_way(engine, tmp_path)
    id = call_id(await session_of(engine, session_id))
    match how:
        case "cancel":
            await engine.runner.cancel(session_id, id)
        case "stop":
            await engine.runner.stop(session_id)
        case _:
            await engine.runner.delete(session_id)
    result = (await session_of(engine, session_id)).call(id).result
    assert result is not None
    assert result.text == f"{message}its effects so far are not undone."
    assert (result.kind, result.is_error) == ("interrupted", True)


async def queued(engine: Engine, folder: Path) -> Session:
    """A session whose second call a rule has decided, and which waits behind the first."""
    tool = replace(make_tool(folder), parallel_safe=False)
    prompt = "[[fault:parallel-2]] Use work"
    session_id = await create_session(engine, [tool], rules=ALLOW_ALL)
    await engine.runner.prompt(session_id, prompt)
    await wait_for_event(engine, session_id, CallProgressed)
    session = await session_of(engine, session_id)
    assert [call.status for call in session.current_calls] == ["running", "decided"]
    return session


async def test_a_queued_call_is_taken_back_and_waits_for_the_person(
    tmp_path: Path, engine: Engine
) -> None:
    session = await queued(engine, tmp_path)
    first, second = session.current_calls
    before = second.digest
    await engine.runner.cancel(session.id, second.id)
    with pytest.raises(Conflict, match="not running"):
        await engine.runner.cancel(session.id, second.id)
    (tmp_path / "go").touch()
    session = await wait_while_running(engine, session.id)
    assert (session.state, session.waiting) == ("waiting", [session.call(second.id)])
    assert session.waiting[0].digest != before
    log = await log_of(engine, session.id)
    assert [item.call_id for item in log if isinstance(item, CallStarted)] == [first.id]


@pytest.mark.parametrize("first", ["cancel", "start"])
async def test_a_call_that_is_taken_back_as_it_begins_runs_or_waits(
    tmp_path: Path, first: str, engine: Engine
) -> None:
    session = await queued(engine, tmp_path)
    item, two = session.current_calls
    starts = engine.runner.cancel(session.id, item.id)  # its end lets the second begin
    back = engine.runner.cancel(session.id, two.id)
    both = (back, starts) if first == "cancel" else (starts, back)
    await asyncio.gather(*both)
    session = await wait_while_running(engine, session.id)
    log = await log_of(engine, session.id)
    began = [event for event in log if event == CallStarted(two.id, 1)]
    returned = [event for event in log if isinstance(event, CallReturned)]
    assert len(began) + len(returned) == 1
    call = session.call(two.id)
    assert call.status == ("waiting" if returned else "done")
    if began:
        assert call.result is not None
        assert "cancelled this call" in call.result.text


def runners(folder: Path) -> list[str]:
    """Processes that work in `folder`."""
    results = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/cwd") == str(folder):
                results.append(name)
        except OSError:
            continue
    return results


async def test_the_model_reads_that_an_effect_is_unknown(tmp_path: Path, engine: Engine) -> None:
    session_id = await under_way(engine, tmp_path)
    id = call_id(await session_of(engine, session_id))
    await engine.runner.move_to_background(session_id, id)
    await wait_while_running(engine, session_id)
    await engine.runner.stop(session_id)
    await engine.runner.prompt(session_id, "hello")
    session = await wait_while_running(engine, session_id)
    body = session.turns[-1].request.body
    assert body.count("stopped with the run. It has no result") == 1


@pytest.mark.slow
async def test_there_is_an_end_to_the_background(tmp_path: Path, engine: Engine) -> None:
    """Of the places for calls half stay free for those that are waited for."""
    prompt = f"[[fault:parallel-{MOST_BEHIND + 1}]] Use work"
    session_id = await create_session(
        engine, [make_tool(tmp_path)], rules=ALLOW_ALL, max_parallel=8
    )
    await engine.runner.prompt(session_id, prompt)
    async with asyncio.timeout(40):
        while len(engine.runner._running.foreground_calls(session_id)) <= MOST_BEHIND:
            await engine.sessions.wait(engine.sessions.position, engine.sessions.list_version, 40)
    calls = [call.id for call in (await session_of(engine, session_id)).current_calls]
    for id in calls[:-1]:
        await engine.runner.move_to_background(session_id, id)
    with pytest.raises(Conflict, match="Stop one"):
        await engine.runner.move_to_background(session_id, calls[-1])
    await engine.runner.cancel(session_id, calls[-1])
    session = await wait_while_running(engine, session_id)
    assert session.state == "idle"
    (tmp_path / "go").touch()


async def test_a_task_that_nobody_follows_is_ended_by_stop_and_by_a_restart(tmp_path: Path) -> None:
    """As after a write that failed, and after a program that was killed."""
    (tmp_path / "go").touch()
    lines = []
    async with run_engine(tmp_path) as engine:
        ids = [
            await create_session(engine, [make_tool(tmp_path)], rules=ALLOW_ALL) for _ in range(2)
        ]
        for session_id in ids:
            await engine.runner.prompt(session_id, "Use work")
            id = call_id(await wait_while_running(engine, session_id))
            async with engine.sessions.lock_session(session_id) as live:
                await engine.sessions.append(
                    live, [TaskStarted("call-" + id.replace(".", "-"), id)]
                )
        await engine.runner.stop(ids[0])
    async with run_engine(tmp_path) as engine:
        for session_id in ids:
            assert (await session_of(engine, session_id)).open_tasks == []
            await engine.runner.prompt(session_id, "hello")
            lines.append((await wait_while_running(engine, session_id)).turns[-1].request.body)
    assert [
        body.count("It has no result, and what it had done by then is not undone") for body in lines
    ] == [
        1,
        1,
    ]
    assert "its end could not be saved" in lines[0]
