"""Whose session a request is, where no header names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from playground.core.events import RequestSent, SessionStarted, Warned
from playground.core.session import Prompt, Session
from playground.core.settings import Profile
from playground.engine.engine import Engine
from playground.store.writes import WriteBatch
from playground.tap.exchange import AgentExchange
from playground.tap.relay import AgentRequest, AskAgain
from tests.engines import events_of, run_engine
from tests.tap.agent import KIND, FakeAgent, end, make_agent

pytestmark = pytest.mark.anyio


async def sessions_of(engine: Engine, agent: FakeAgent) -> list[Session]:
    """Those of the agent's tap, the oldest first, of which no history was rewritten."""
    sessions: list[Session] = []
    for session_id in await engine.log.tapped_sessions(agent.tap.id, 100):
        assert not events_of(await engine.log.events(session_id), Warned)
        async with engine.sessions.lock_session(session_id) as live:
            sessions.append(live.session)
    return sorted(sessions, key=lambda session: session.started_ms)


def prompts(session: Session) -> list[str]:
    return [item.text for item in session.items if isinstance(item, Prompt)]


async def test_agents_with_the_same_history_stay_apart(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine:
        first = await make_agent(engine)
        agents = [first, *(FakeAgent(first.sessions, first.tap) for _ in range(19))]
        exchanges = [await agent.ask("Hello.") for agent in agents]
        for agent, exchange in zip(agents, exchanges, strict=True):
            await agent.answer(exchange, "Hello!")
        for number, agent in enumerate(agents):
            await agent.answer(await agent.ask(f"I am {number}."), "I see.")
        for number, agent in enumerate(agents):
            await agent.answer(await agent.ask(f"Bye, says {number}."), "Bye.")
        sessions = await sessions_of(engine, first)
    expected = sorted(["Hello.", f"I am {n}.", f"Bye, says {n}."] for n in range(20))
    assert sorted(prompts(session) for session in sessions) == expected


@pytest.mark.parametrize("stored", [True, False], ids=["kept", "left out"])
async def test_an_answer_that_says_nothing_goes_on(tmp_path: Path, stored: bool) -> None:
    """Its agent sends it back, or leaves it out."""
    async with run_engine(tmp_path) as engine:
        agent = await make_agent(engine)
        exchange = await agent.ask("Think.")
        answer: dict[str, Any] = {"type": "message", "role": "assistant", "model": "m", "id": "m1"}
        content = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
        answer |= {"content": content, "stop_reason": "end_turn"}
        exchange.receive_head(200, KIND)
        await exchange.pass_on(json.dumps(answer).encode())
        await end(exchange)
        if stored:
            agent.messages.append({"role": "assistant", "content": content})
        await agent.answer(await agent.ask("And?"), "Forty-two.")
        (session,) = await sessions_of(engine, agent)
    assert prompts(session) == ["Think.", "And?"]
    assert [turn.text for turn in session.turns] == ["", "Forty-two."]


async def test_a_request_that_names_the_answer_before_follows_it(tmp_path: Path) -> None:
    """The Responses API keeps the history: what comes is new, all of it."""
    async with run_engine(tmp_path) as engine:
        agent = await make_agent(engine)
        for number, text in enumerate(("One.", "Two.", "Three."), 1):
            exchange = responses_exchange(agent, text, f"resp_{number - 1}" if number > 1 else "")
            await exchange.begin()
            part = {"type": "output_text", "text": f"Answer {number}.", "annotations": []}
            item = {"type": "message", "id": f"m{number}", "role": "assistant", "content": [part]}
            answer = {"id": f"resp_{number}", "object": "response", "status": "completed"}
            exchange.receive_head(200, KIND)
            await exchange.pass_on(json.dumps({**answer, "output": [item]}).encode())
            await end(exchange)
        (session,) = await sessions_of(engine, agent)
    assert prompts(session) == ["One.", "Two.", "Three."]
    assert [turn.text for turn in session.turns] == ["Answer 1.", "Answer 2.", "Answer 3."]


def responses_exchange(
    agent: FakeAgent, text: Any, follows: str, ask: AskAgain | None = None
) -> AgentExchange:
    """A request that says a text in a list, or `said` as it is."""
    input_items = (
        [{"role": "user", "content": text}] if isinstance(text, str) and ask is None else text
    )
    body: dict[str, Any] = {"model": "gpt-5", "input": input_items}
    if follows:
        body["previous_response_id"] = follows
    url = "https://api.openai.com/v1/responses"
    return AgentExchange(
        agent.sessions,
        AgentRequest(
            agent.tap,
            door="openai",
            method="POST",
            target=b"/v1/responses",
            headers=[*KIND],
            body=json.dumps(body).encode(),
            url=url,
            profile=Profile(
                "openai", "openai_responses", "https://api.openai.com/v1", "OPENAI_API_KEY"
            ),
            at_ms=0,
            ask=ask,
        ),
    )


async def test_a_session_is_written_with_its_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever kills the program, no session without one is left."""
    async with run_engine(tmp_path) as engine:
        agent = await make_agent(engine)
        writes: list[list[type[object]]] = []
        append = engine.log.append

        async def note_append(batch: WriteBatch) -> None:
            writes.append([type(logged.event) for logged in batch.events])
            await append(batch)

        monkeypatch.setattr(engine.log, "append", note_append)
        await agent.ask("List the files.")
    first = writes[0]
    assert (first[0], first[-1]) == (SessionStarted, RequestSent)
