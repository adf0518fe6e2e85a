"""When an answer counts as passed on: once its last bytes have left, so that an agent that lost
them meets the same answer again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.events import AnswerPassed, CallStarted, ClientGone, RequestSent, StopAt
from playground.core.rules import Rule
from playground.engine.engine import Engine
from playground.engine.rules import ALWAYS
from playground.tap.relay import Exchange
from tests.engines import events_of, run_engine
from tests.tap.agent import KIND, FakeAgent, end, make_agent, worked

pytestmark = pytest.mark.anyio

ANSWER = {
    "id": "msg_9",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4",
    "content": [{"type": "tool_use", "id": "toolu_9", "name": "Bash", "input": {"command": "ls"}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 1200, "output_tokens": 80},
}


async def pass_answer(engine: Engine, agent: FakeAgent, stop_at: StopAt) -> tuple[str, Exchange]:
    """The session of an agent, and its last request, of whose answer all has come."""
    session_id = await worked(agent)
    async with engine.sessions.lock_session(session_id) as live:
        tools = live.session.turns[0].settings.tools
    await engine.rules.put(ALWAYS, [Rule("Bash", "run")], tools)
    agent.tap = replace(agent.tap, stop_at=stop_at)
    exchange = await agent.ask("Again, please.")
    exchange.receive_head(200, KIND)
    await exchange.pass_on(json.dumps(ANSWER).encode())
    return session_id, exchange


@pytest.mark.parametrize("stop_at", ["nothing", "unruled"])
async def test_an_answer_is_passed_once_its_last_bytes_have_left(
    tmp_path: Path, stop_at: StopAt
) -> None:
    """Until then a program that is killed leaves it to be met again, its calls started."""
    async with run_engine(tmp_path) as engine:
        agent = await make_agent(engine)
        session_id, exchange = await pass_answer(engine, agent, stop_at)
        logs = []
        async for data in exchange.finish_answer(None):
            assert b"toolu_9" in data
            logs.append(await engine.log.events(session_id))
        after = await engine.log.events(session_id)
    (log,) = logs
    assert len(events_of(log, CallStarted)) == 2
    assert len(events_of(log, AnswerPassed)) == 2
    assert len(events_of(after, AnswerPassed)) == 3


@pytest.mark.parametrize("stop_at", ["nothing", "unruled"])
async def test_an_agent_that_loses_the_last_bytes_meets_the_same_answer(
    tmp_path: Path, stop_at: StopAt
) -> None:
    async with run_engine(tmp_path) as engine:
        agent = await make_agent(engine)
        session_id, exchange = await pass_answer(engine, agent, stop_at)
        first = await anext(aiter(exchange.finish_answer(None)))  # the client goes while it is sent
        await exchange.leave()
        assert await end(await agent.ask()) == first
        log = await engine.log.events(session_id)
    assert len(events_of(log, ClientGone)) == 1
    assert len(events_of(log, CallStarted)) == 2
    assert len(events_of(log, RequestSent)) == 3, "upstream is not asked again"
