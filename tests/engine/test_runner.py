"""What is decided is done once, and whatever breaks off leaves a session that can go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import Conflict, PlaygroundError, Refused, StoreError
from playground.core.events import (
    CallEnded,
    CallInterrupted,
    CallProgressed,
    CallStarted,
    Event,
    Logged,
    PartDelta,
    RunPaused,
)
from playground.core.session import Session
from playground.core.tools import Tool
from playground.engine import runner as runner_module
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.sessions import LiveSession
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of, run_engine, run_prompt
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

TOOL = """
import time

def note(text="", report=None):
    with open({effects!r}, "a") as file:
        file.write("ran\\n")
    report("begun")
    while {waits} :
        time.sleep(0.01)
    return "noted"
"""


def noting(folder: Path, *, waits: bool = False, name: str = "note") -> Tool:
    """A tool that leaves a line in `effects`; one that waits does so until it is ended."""
    file = folder / f"{name}_tool.py"
    file.write_text(TOOL.format(effects=str(folder / "effects"), waits=waits))
    config = {"file": str(file), "function": "note"}
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    return Tool(name, "Notes a text.", parameters, "python", config, parallel_safe=True)


def effects(folder: Path) -> int:
    path = folder / "effects"
    return path.read_text().count("\n") if path.exists() else 0


async def waiting(engine: Engine, tool: Tool, prompt: str = "Use note") -> Session:
    session = await run_prompt(engine, prompt, tool)
    assert session.state == "waiting"
    return session


async def test_of_fifty_decisions_one_wins(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        session = await waiting(engine, noting(tmp_path))
        (call,) = session.waiting
        wishes = [DecisionRequest("run", call.digest) for _ in range(50)]
        outcomes = await asyncio.gather(
            *(engine.runner.decide(session.id, call.id, wish) for wish in wishes),
            return_exceptions=True,
        )
        assert outcomes.count(None) == 1
        assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 49
        assert (await wait_while_running(engine, session.id)).state == "idle"
    assert effects(tmp_path) == 1


async def test_code_that_changed_since_the_card_was_drawn_is_not_run(
    tmp_path: Path, start_engine: StartEngine
) -> None:
    tool = noting(tmp_path)
    file = Path(tool.config["file"])
    engine = await start_engine()
    session = await waiting(engine, tool)
    (call,) = session.waiting
    digest = call.digest
    file.write_text(file.read_text() + "# another\n")
    with pytest.raises(Conflict, match="has changed since this card") as caught:
        await engine.runner.decide(session.id, call.id, DecisionRequest("run", digest))
    assert effects(tmp_path) == 0
    assert (call.status, session.state) == ("waiting", "waiting")
    assert caught.value.outcome["digest"] == call.digest != digest
    with pytest.raises(Conflict, match="out of date"):
        await engine.runner.decide(session.id, call.id, DecisionRequest("run", digest))
    await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
    assert (await wait_while_running(engine, session.id)).state == "idle"
    assert effects(tmp_path) == 1


async def test_code_that_changes_while_a_decided_call_is_queued_is_not_run(tmp_path: Path) -> None:
    first = replace(noting(tmp_path, waits=True, name="first"), parallel_safe=False)
    async with run_engine(tmp_path) as engine:
        session = await waiting(engine, first, "[[fault:parallel-2]] Use first")
        for call in session.waiting:
            await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
        await wait_for_event(engine, session.id, CallProgressed)
        file = Path(first.config["file"])
        file.write_text(file.read_text() + "# another\n")
        await engine.runner.cancel(session.id, "1.0")
        result = (await wait_while_running(engine, session.id)).call("1.1").result
        assert result is not None
        assert (result.is_error, result.text.endswith("Nothing was run.")) == (True, True)
    assert effects(tmp_path) == 1


async def test_results_go_back_in_the_order_of_the_calls(tmp_path: Path, engine: Engine) -> None:
    session = await waiting(engine, noting(tmp_path), "[[fault:parallel-3]] Use note")
    for call in reversed(session.waiting):
        await engine.runner.decide(
            session.id, call.id, DecisionRequest("answer", call.digest, text=call.id)
        )
    body = (await wait_while_running(engine, session.id)).turns[1].request.body
    assert -1 < body.index('"1.0"') < body.index('"1.1"') < body.index('"1.2"')


async def test_a_limit_that_is_raised_lets_go_what_it_held(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        session = await waiting(engine, noting(tmp_path), "[[fault:parallel-2]] Use note")
        before = session.settings
        assert before is not None
        limits = replace(before.limits, max_calls_per_turn=1)
        await engine.runner.settings(session.id, replace(before, limits=limits))
        second = session.call("1.1")
        await engine.runner.decide(session.id, second.id, DecisionRequest("run", second.digest))
        assert (await wait_while_running(engine, session.id)).call("1.1").status == "decided"
        await engine.runner.settings(session.id, before)
        assert (await wait_while_running(engine, session.id)).call("1.1").status == "done"
    assert effects(tmp_path) == 1


async def test_a_cancelled_call_tells_the_model(tmp_path: Path, engine: Engine) -> None:
    session = await waiting(engine, noting(tmp_path, waits=True))
    (call,) = session.waiting
    with pytest.raises(Conflict):
        await engine.runner.cancel(session.id, call.id)
    await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
    await wait_for_event(engine, session.id, CallProgressed)
    await engine.runner.cancel(session.id, call.id)
    session = await wait_while_running(engine, session.id)
    result = session.call(call.id).result
    assert result is not None
    assert (result.is_error, result.kind) == (True, "interrupted")
    assert len(session.turns) == 2


async def test_a_result_is_never_lost_to_a_cancel_that_comes_too_late(
    tmp_path: Path, engine: Engine
) -> None:
    """The tool is done and waits for the session; whoever cancels now must not strand the call."""
    session = await waiting(engine, noting(tmp_path))
    (call,) = session.waiting
    async with engine.sessions.lock_session(session.id):
        decided = asyncio.create_task(
            engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
        )
        await asyncio.sleep(0)
    await decided
    running_call = engine.runner._running._running[session.id, call.id]
    async with engine.sessions.lock_session(session.id):
        await asyncio.wait([running_call.work])
        running_call.work.cancel()
    assert (await wait_while_running(engine, session.id)).state == "idle"
    assert engine.runner._running._running == {}


async def test_stop_ends_all_and_continue_goes_on(tmp_path: Path, engine: Engine) -> None:
    session = await waiting(engine, noting(tmp_path, waits=True))
    (call,) = session.waiting
    await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
    await wait_for_event(engine, session.id, CallProgressed)
    await engine.runner.stop(session.id)
    session = await wait_while_running(engine, session.id)
    assert session.state == "interrupted"
    assert session.call(call.id).status == "done"
    await engine.runner.resume(session.id)
    assert (await wait_while_running(engine, session.id)).state == "idle"
    with pytest.raises(Refused):
        await engine.runner.resume(session.id)


async def test_the_end_of_the_program_interrupts_what_runs(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        session_id = await create_session(engine, [noting(tmp_path, waits=True)], rules=ALLOW_ALL)
        await engine.runner.prompt(session_id, "Use note")
        await wait_for_event(engine, session_id, CallProgressed)
    async with run_engine(tmp_path) as engine:
        session = await wait_while_running(engine, session_id)
        (call,) = session.waiting
        assert (session.state, call.status, call.attempt) == ("waiting", "interrupted", 2)
        assert effects(tmp_path) == 1
        await engine.runner.decide(
            session_id, call.id, DecisionRequest("answer", call.digest, text="done")
        )
        assert (await wait_while_running(engine, session_id)).state == "idle"
    assert effects(tmp_path) == 1


async def test_what_begins_as_the_program_ends_is_ended_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    """Its beginning was being saved when all that ran was looked for."""
    ends: list[asyncio.Task[None]] = []
    engine = await start_engine()
    append = engine.sessions.append

    async def ending(live: LiveSession, events: Sequence[Event], **more: Any) -> list[Logged]:
        if not callable(events) and any(isinstance(e, CallStarted) for e in events):
            ends.append(asyncio.create_task(engine.runner.close()))
            for _ in range(20):
                await asyncio.sleep(0)
        return await append(live, events, **more)

    monkeypatch.setattr(engine.sessions, "append", ending)
    session_id = await create_session(engine, [noting(tmp_path, waits=True)], rules=ALLOW_ALL)
    await engine.runner.prompt(session_id, "Use note")
    async with asyncio.timeout(20):
        while not ends:
            await asyncio.sleep(0.01)
        await ends[0]
    assert not engine.runner.working
    log = await engine.log.events(session_id)
    assert len(events_of(log, CallStarted)) == len(events_of(log, CallInterrupted)) == 1


async def test_a_broken_executor_is_a_result(tmp_path: Path, start_engine: StartEngine) -> None:
    async def broken(*_: Any) -> Any:
        raise RuntimeError("a bug")

    engine = await start_engine()
    engine.executors.run = broken  # type: ignore[method-assign, assignment]
    session = await run_prompt(engine, "Use note", noting(tmp_path), rules=ALLOW_ALL)
    (call,) = session.calls()
    assert call.result is not None
    assert call.result.kind == "failed"
    assert session.state == "idle"


async def test_a_broken_decoder_does_not_strand_the_session(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    engine = await start_engine()
    answer = engine.runner._client.answer
    monkeypatch.setattr(engine.runner._client, "answer", broken)
    session = await run_prompt(engine, "hello")
    assert session.state == "interrupted"
    monkeypatch.setattr(engine.runner._client, "answer", answer)
    await engine.runner.retry(session.id)
    assert (await wait_while_running(engine, session.id)).state == "idle"


def failing(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: type, times: int
) -> Callable[[], int]:
    """The next `times` writes that hold an event of `kind`, and all in between, fail."""
    append, left = engine.log.append, [times]

    async def fails(batch: Any) -> None:
        begun = left[0] < times
        if left[0] and (begun or any(isinstance(event.event, kind) for event in batch.events)):
            left[0] -= 1
            raise StoreError("The disk is full.")
        await append(batch)

    monkeypatch.setattr(engine.log, "append", fails)
    monkeypatch.setattr(runner_module, "FIRST_SETTLE_S", 0.01)
    return lambda: left[0]


async def test_a_full_disk_within_an_answer_ends_it_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    left = failing(engine, monkeypatch, PartDelta, 3)
    session = await run_prompt(engine, "hello")
    assert left() == 0
    assert session.state == "interrupted"
    failure = session.turns[-1].failure
    assert failure is not None
    assert "could not be saved" in failure.message
    await engine.runner.retry(session.id)
    assert (await wait_while_running(engine, session.id)).state == "idle"


async def test_a_full_disk_stops_the_run_before_the_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_engine(tmp_path) as engine:
        session = await waiting(engine, noting(tmp_path))
        (call,) = session.waiting
        failing(engine, monkeypatch, CallStarted, 2)
        with pytest.raises(StoreError):
            await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
        await wait_for_event(engine, session.id, RunPaused)
        session = await wait_while_running(engine, session.id)
        assert (session.state, session.paused) == ("paused", "store")
        assert effects(tmp_path) == 0
        await engine.runner.resume(session.id)
        assert (await wait_while_running(engine, session.id)).state == "idle"
    assert effects(tmp_path) == 1


async def test_a_result_that_cannot_be_saved_asks_the_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_engine(tmp_path) as engine:
        session = await waiting(engine, noting(tmp_path))
        (call,) = session.waiting
        failing(engine, monkeypatch, CallEnded, 2)
        await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
        session = await wait_while_running(engine, session.id)
        (call,) = session.waiting
        assert (session.state, call.status) == ("waiting", "interrupted")
    assert effects(tmp_path) == 1


async def test_the_limit_of_turns_pauses_and_one_click_continues(
    tmp_path: Path, engine: Engine
) -> None:
    session = await run_prompt(
        engine, "[[fault:loop]] Use note", noting(tmp_path), rules=ALLOW_ALL, max_turns=3
    )
    assert (session.state, session.paused, len(session.turns)) == ("paused", "max_turns", 3)
    circling = [any("same call" in p.message for p in c.problems) for c in session.calls()]
    assert circling == [False, True, True]
    await engine.runner.resume(session.id)
    assert len((await wait_while_running(engine, session.id)).turns) == 6


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_what_is_refused_changes_nothing(tmp_path: Path, text: str, engine: Engine) -> None:
    session = await waiting(engine, noting(tmp_path))
    for what in (
        engine.runner.prompt(session.id, text),
        engine.runner.prompt(session.id, "more"),
        engine.runner.retry(session.id),
        engine.runner.resume(session.id),
        engine.runner.decide(session.id, "9.9", DecisionRequest("run", "x")),
    ):
        with pytest.raises(PlaygroundError):
            await what
    assert len(await engine.log.events(session.id)) == session.seq


async def test_retry_is_of_the_last_answer_only(engine: Engine) -> None:
    """A prompt that was stopped before it was asked is no answer to be asked for again."""
    session = await run_prompt(engine, "[[fault:http-400]] hello")
    await engine.runner.retry(session.id)
    session = await wait_while_running(engine, session.id)
    assert [turn.dropped for turn in session.turns] == [True, False]


async def test_events_of_calls_are_in_order(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        session = await run_prompt(
            engine, "[[fault:parallel-4]] Use note", noting(tmp_path), rules=ALLOW_ALL
        )
        log = await engine.log.events(session.id)
        assert [logged.seq for logged in log] == list(range(1, len(log) + 1))
        started = [item.call_id for item in events_of(log, CallStarted)]
        ended = [item.call_id for item in events_of(log, CallEnded)]
        assert sorted(started) == sorted(ended) == ["1.0", "1.1", "1.2", "1.3"]
    assert effects(tmp_path) == 4
