"""What many want to write of one session at once is few writes, and who stops it waits for one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from playground.core.errors import Conflict, IllegalEvent
from playground.core.events import CallDecided, CallEnded, CallStarted, Event, Logged
from playground.core.tools import Tool
from playground.engine import decisions, tool_runs
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.sessions import LiveSession
from playground.engine.tool_runs import GroupedWrites
from playground.simulator.scenario import Scenario, scenario
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of
from tests.tables import rest_slow
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

NOTE = Tool("note", answered_by="mock", config={"result": "noted"}, parallel_safe=True)


def many(count: int) -> Scenario:
    """An answer with `count` calls, then one without."""
    items = [{"name": "note", "arguments": {"n": number}} for number in range(count)]
    return scenario(json.dumps({"turns": [{"calls": items, "pace": 0}, {"text": "done"}]}))


class Writes:
    """How many events of `kind` each write had; `bell` rings at the first."""

    def __init__(self, engine: Engine, kind: type[Event], monkeypatch: pytest.MonkeyPatch) -> None:
        self.had: list[int] = []
        self.bell = asyncio.Event()
        append = engine.sessions.append

        async def appended(live: LiveSession, events: Sequence[Event], **more: Any) -> list[Logged]:
            saved = await append(live, events, **more)
            if count := sum(isinstance(logged.event, kind) for logged in saved):
                self.had.append(count)
                self.bell.set()
            return saved

        monkeypatch.setattr(engine.sessions, "append", appended)


async def asked_of(engine: Engine, count: int) -> tuple[str, list[tuple[str, DecisionRequest]]]:
    """A session whose `count` calls wait, and the decision to run each."""
    bounds: dict[str, Any] = {"max_calls_per_answer": count, "max_calls_per_turn": count}
    session_id = await create_session(engine, [NOTE], max_parallel=16, **bounds)
    await engine.runner.prompt(session_id, "go")
    session = await wait_while_running(engine, session_id)
    return session_id, [(call.id, DecisionRequest("run", call.digest)) for call in session.waiting]


async def test_decisions_that_come_together_are_written_together(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    engine = await start_engine(scenario=many(250))
    session_id, decision_rows = await asked_of(engine, 250)
    writes = Writes(engine, CallDecided, monkeypatch)
    with anyio.fail_after(40):
        await asyncio.gather(*(engine.runner.decide(session_id, *row) for row in decision_rows))
    assert (await wait_while_running(engine, session_id)).state == "idle"
    assert sum(writes.had) == 250
    assert len(writes.had) <= 2 + 250 // decisions.CHECKS_TOGETHER


@pytest.mark.parametrize("kind", rest_slow([CallStarted, CallEnded]))
async def test_calls_that_run_side_by_side_begin_and_end_together(
    monkeypatch: pytest.MonkeyPatch, kind: type[Event], start_engine: StartEngine
) -> None:
    engine = await start_engine(scenario=many(160))
    writes = Writes(engine, kind, monkeypatch)
    bounds: dict[str, Any] = {"max_calls_per_turn": 160, "max_parallel": 16}
    session_id = await create_session(engine, [NOTE], rules=ALLOW_ALL, **bounds)
    await engine.runner.prompt(session_id, "go")
    assert (await wait_while_running(engine, session_id)).state == "idle"
    assert sum(writes.had) == 160
    assert max(writes.had) <= tool_runs.MOST_TOGETHER
    assert len(writes.had) <= 80  # and not one for each


@pytest.mark.slow
async def test_stop_waits_for_one_batch_of_decisions_at_most(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    engine = await start_engine(scenario=many(400))
    session_id, decision_rows = await asked_of(engine, 400)
    writes = Writes(engine, CallDecided, monkeypatch)
    deciding = [
        asyncio.create_task(engine.runner.decide(session_id, *row)) for row in decision_rows
    ]
    with anyio.fail_after(40):
        await writes.bell.wait()
        await engine.runner.stop(session_id)
        base_exceptions = await asyncio.gather(*deciding, return_exceptions=True)
    assert sum(writes.had) <= 2 * decisions.CHECKS_TOGETHER
    assert sum(base_exception is None for base_exception in base_exceptions) == sum(writes.had)


async def test_of_decisions_that_come_together_on_one_call_one_wins(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(scenario=many(2))
    session_id, ((first, run), second) = await asked_of(engine, 2)
    several = [(first, run), (first, run), (first, DecisionRequest("run", "stale")), second]
    with anyio.fail_after(20):
        base_exceptions = await asyncio.gather(
            *(engine.runner.decide(session_id, *row) for row in several),
            return_exceptions=True,
        )
    assert [type(base_exception) for base_exception in base_exceptions] == [
        type(None),
        Conflict,
        Conflict,
        type(None),
    ]
    await wait_while_running(
        engine, session_id
    )  # who leaves while it connects leaves a socket open
    log = await engine.log.events(session_id)
    assert [item.call_id for item in events_of(log, CallDecided)] == [first, second[0]]


async def test_what_cannot_follow_takes_nothing_else_with_it() -> None:
    written: list[str] = []

    async def write(session_id: str, items: Sequence[str]) -> Sequence[None]:
        if "bad" in items:
            raise IllegalEvent("It cannot follow.")
        written.extend(items)
        return [None] * len(items)

    together = GroupedWrites(write, 10)
    writes = [together.write("s", word) for word in ("a", "bad", "b")]
    with anyio.fail_after(20):
        base_exceptions = await asyncio.gather(*writes, return_exceptions=True)
    assert written == ["a", "b"]
    assert [type(base_exception) for base_exception in base_exceptions] == [
        type(None),
        IllegalEvent,
        type(None),
    ]


async def test_who_leaves_before_its_turn_takes_it_back() -> None:
    written: list[str] = []
    go, begun_one = asyncio.Event(), asyncio.Event()

    async def write(session_id: str, items: Sequence[str]) -> Sequence[None]:
        begun_one.set()
        await go.wait()
        written.extend(items)
        return [None] * len(items)

    together = GroupedWrites(write, 1)
    tasks = [asyncio.create_task(together.write("s", word)) for word in ("a", "b", "c")]
    with anyio.fail_after(20):
        await begun_one.wait()
        tasks[1].cancel()
        go.set()
        await asyncio.wait(tasks)
        await together.close()
    assert written == ["a", "c"]
    assert [task.cancelled() for task in tasks] == [False, True, False]
