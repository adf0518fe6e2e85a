"""Calls of one answer beyond their limit: kept as bytes, counted, never run, never sent back."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from playground.core.events import CallChecked, CallEnded, PartStarted, Warned
from playground.core.settings import Protocol
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.verify import check_session
from playground.simulator.scenario import Scenario, scenario
from playground.store.database import Statement
from tests.engines import ALLOW_ALL, StartEngine, events_of, run_prompt

pytestmark = pytest.mark.anyio

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}}
NOTE = Tool("note", "", NUMBER, "mock", {"result": "noted"}, parallel_safe=True)
PROTOCOLS = get_args(Protocol)


def calling(count: int, thinking: str = "", *faults: str) -> Scenario:
    """A turn that thinks and makes `count` calls, then one that makes none."""
    calls = [{"name": "note", "arguments": {"n": number}} for number in range(count)]
    thought = {"thinking": thinking} if thinking else {}
    turns = [
        {**thought, "text": "Many.", "calls": calls, "pace": 0, "faults": faults},
        {"text": "All noted."},
    ]
    return scenario(json.dumps({"turns": turns}))


async def differences(engine: Engine, session_id: str) -> list[str]:
    """What `verify` says of a session."""
    log = await engine.log.events(session_id)
    chunks, ends = await engine.log.chunks(session_id), await engine.log.recordings(session_id)
    return [
        difference.says for difference in check_session(session_id, log, chunks, ends).differences
    ]


@pytest.mark.parametrize("thinking", ["", "Let me see."])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_calls_beyond_the_limit_are_counted_and_go_nowhere(
    protocol: str, thinking: str, start_engine: StartEngine
) -> None:
    engine = await start_engine(scenario=calling(7, thinking))
    ask: dict[str, Any] = {"protocol": protocol, "base_url": "sim:", "max_calls_per_answer": 3}
    session = await run_prompt(engine, "go", NOTE, rules=ALLOW_ALL, **ask)
    log = await engine.log.events(session.id)
    # The strict end took the history: each call in it has its result, and there are no others.
    assert (session.turn and session.turn.failure) is None
    assert (session.state, session.answer) == ("idle", "All noted.")
    assert [call.status for call in session.turns[0].calls] == ["done"] * 3
    assert len(events_of(log, CallChecked)) == len(events_of(log, CallEnded)) == 3
    assert sum(item.part_kind == "call" for item in events_of(log, PartStarted)) == 3
    (warning,) = [item for item in events_of(log, Warned) if item.code == "calls_left_out"]
    assert warning.meta == {"count": 4, "most": 3}
    assert warning.message.startswith("This answer made 4 calls more than the limit of 3")
    sent = session.turns[1].request.body
    assert sent.count("noted") == 3
    stored_data = b"".join(chunk.data for chunk in await engine.log.chunks(session.id, 1))
    assert stored_data.count(b"note") >= 7
    assert await differences(engine, session.id) == []


async def test_what_was_taken_before_there_was_a_limit_is_no_difference(
    start_engine: StartEngine,
) -> None:
    engine = await start_engine(scenario=calling(7))
    session = await run_prompt(engine, "go", NOTE, max_calls_per_answer=7)
    older = [('"max_calls_per_answer":7', '"max_calls_per_answer":3')]
    change = "UPDATE events SET body = replace(body, ?, ?)"
    await engine.database.write([Statement(change, older)])
    assert await differences(engine, session.id) == []


async def test_a_stream_of_calls_that_is_cut_tells_its_count_too(start_engine: StartEngine) -> None:
    engine = await start_engine(scenario=calling(300, "", "cut-after-60"))
    session = await run_prompt(engine, "go", NOTE, max_calls_per_answer=5)
    (turn,) = session.turns
    assert (session.state, len(turn.calls)) == ("interrupted", 5)
    (warned,) = turn.warnings
    assert warned.code == "calls_left_out"
    assert 5 <= warned.meta["count"] <= 20
    assert await differences(engine, session.id) == []
