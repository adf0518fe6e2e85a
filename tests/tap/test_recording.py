"""What becomes a session of what an agent asks and gets. The agent is this program itself, with
the tap as its provider: what both logs say of the same conversation is compared."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.core.errors import Refused
from app.core.events import (
    AnswerPassed,
    CallStarted,
    RequestReceived,
    Warned,
)
from app.core.session import Prompt, Session
from app.core.settings import Profile
from app.engine.decisions import DecisionRequest
from app.engine.engine import Engine
from app.engine.fork import ForkPlace, fork
from app.tap.door import Door
from app.tap.recording import AgentExchange, AgentSessions
from app.tap.relay import AgentRequest, Relay
from app.tap.taps import Tap, Taps
from app.tap.upstream import DOORS, Upstreams
from tests.engine.running import ALLOW_ALL, begun, events_of, rested, running
from tests.loopback import listening

pytestmark = pytest.mark.anyio

PROTOCOLS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")


class Tapping:
    """A server with nothing but the door for agents. `open` says which engine is behind it; the
    agent's requests bear `headers`."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.headers: dict[str, str] = {}
        self.engine: Engine
        self.tap: Tap
        self._secret = ""
        self._url = ""
        self._sessions: AgentSessions
        self._app: ASGIApp

    async def open(self, engine: Engine) -> None:
        clock = engine.sessions.clock
        taps = Taps(engine.library, engine.keys, engine.profile, clock, lambda: "a-tap")
        if not self._secret:
            self.tap, self._secret = await taps.create(agent="tester")
        self.engine, self._sessions = engine, AgentSessions(engine, taps, b"key")
        self._app = Door(
            not_there,
            taps=taps,
            upstreams=Upstreams(engine.profile, engine.client.base_url, engine.keys),
            relay=Relay(engine.net, self._sessions.observe),
            is_own_host=lambda scope: True,
            clock=clock,
        )

    def profile(self) -> Profile:
        """What the agent has as its provider."""
        door = next(name for name, spoken in DOORS.items() if self.protocol in spoken)
        version = "/v1" if door == "openai" else ""
        base = f"{self._url}/tap/{self._secret}/{door}{version}"
        return Profile("tap", self.protocol, base, model="simulator", headers=dict(self.headers))

    async def sessions(self) -> list[Session]:
        """The agent's, the oldest first."""
        sessions = []
        for session_id in await self.engine.log.tapped(self.tap.id, 100):
            async with self.engine.sessions.holding(session_id) as live:
                sessions.append(live.session)
        return sorted(sessions, key=lambda session: session.started_ms)

    def exchange(self, body: bytes) -> AgentExchange:
        """A request as the relay would tell of it."""
        upstream = Profile("simulator", self.protocol, "http://127.0.0.1:1")
        url, target = "http://127.0.0.1:1/v1/messages", b"/v1/messages"
        names = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return self._sessions.observe(
            AgentRequest(self.tap, "anthropic", "POST", target, names, body, url, upstream, 0)
        )

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Tapping]:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self._app(scope, receive, send)

        async with listening(app) as self._url:
            yield self


async def not_there(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"Nobody asks for {scope['path']}.")


@asynccontextmanager
async def both(
    tmp_path: Path, protocol: str = "anthropic"
) -> AsyncIterator[tuple[Engine, Tapping]]:
    """The agent, and the door that it asks at."""
    (tmp_path / "agent").mkdir()
    engines = running(tmp_path), running(tmp_path / "agent")
    async with engines[0] as ours, engines[1] as agent, Tapping(protocol).listening() as door:
        await door.open(ours)
        yield agent, door


async def one_turn(
    agent: Engine, door: Tapping, prompt: str, *tools: str, system: str = "You help."
) -> str:
    session_id = await begun(
        agent, tools, rules=ALLOW_ALL, profile=door.profile(), model="simulator", system=system
    )
    await agent.runner.prompt(session_id, prompt)
    await rested(agent, session_id)
    return session_id


def told(session: Session) -> list[Any]:
    """What was said, called and returned, whoever ran it."""
    said: list[Any] = []
    for item in session.items:
        if isinstance(item, Prompt):
            said.append(("prompt", item.text))
            continue
        calls = [
            (call.name, json.loads(call.written), call.status, call.result and call.result.text)
            for call in item.calls
        ]
        said.append(("answer", item.text, calls, item.end and item.end.reason))
    return said


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_tapped_conversation_is_the_agents_own(tmp_path: Path, protocol: str) -> None:
    async with both(tmp_path, protocol) as (agent, door):
        session_id = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        for prompt in ("And in Bergen?", "Thank you."):
            await agent.runner.prompt(session_id, prompt)
            own = await rested(agent, session_id)
        (session,) = await door.sessions()
        log = await door.engine.log.events(session.id)
    assert told(session) == told(own)
    assert session.state == "idle"
    received = events_of(log, RequestReceived)
    assert received[0].matched == "new"
    assert {event.matched for event in received[1:]} <= {"call", "message"}
    assert len(events_of(log, AnswerPassed)) == len(own.turns)
    assert len(events_of(log, CallStarted)) == len(list(own.calls())) > 0
    assert not events_of(log, Warned)


async def test_requests_without_tools_and_sub_agents_are_sessions_of_their_own(
    tmp_path: Path,
) -> None:
    async with both(tmp_path) as (agent, door):
        door.headers["x-claude-code-session-id"] = "s-1"
        main = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        await one_turn(agent, door, "Write a title.", system="You write titles.")
        await agent.runner.prompt(main, "And in Bergen?")
        await rested(agent, main)
        door.headers["x-claude-code-agent-id"] = "a-1"
        await one_turn(agent, door, "Look up the weather in Rome.", "get_weather")
        sessions = {session.items[0].text: session for session in await door.sessions()}
    first = sessions["What is the weather in Oslo?"]
    assert [item.text for item in first.items if isinstance(item, Prompt)][1:] == ["And in Bergen?"]
    parents = {text: one.tapped and one.tapped.parent for text, one in sessions.items()}
    assert parents == {
        "What is the weather in Oslo?": "",
        "Write a title.": first.id,
        "Look up the weather in Rome.": first.id,
    }
    assert {one.tapped and one.tapped.thread for one in sessions.values()} == {"s-1"}


async def test_a_title_that_is_asked_for_first_is_a_session_of_its_own(tmp_path: Path) -> None:
    """opencode asks so, by the name of the conversation that follows."""
    async with both(tmp_path) as (agent, door):
        door.headers["x-session-id"] = "s-1"
        await one_turn(agent, door, "Write a title.", system="You write titles.")
        main = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        await agent.runner.prompt(main, "And in Bergen?")
        own = await rested(agent, main)
        sessions = await door.sessions()
        log = await door.engine.log.events(sessions[1].id)
    assert [len(session.turns) for session in sessions] == [1, len(own.turns)]
    assert not events_of(log, Warned)


@pytest.mark.parametrize("headers", [{}, {"session-id": "s-1"}], ids=["nameless", "named"])
async def test_after_a_start_a_conversation_goes_on_where_it_was(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    """By its header or by what it says; a call that runs at the agent stays so meanwhile."""
    (tmp_path / "agent").mkdir()
    async with running(tmp_path / "agent") as agent, Tapping("anthropic").listening() as door:
        door.headers.update(headers)
        async with running(tmp_path) as ours:
            await door.open(ours)
            session_id = await begun(agent, ["get_weather"], profile=door.profile())
            await agent.runner.prompt(session_id, "What is the weather in Oslo?")
            own = await rested(agent, session_id)  # its call waits for the agent's user
            assert own.state == "waiting"
        async with running(tmp_path) as ours:
            await door.open(ours)
            (session,) = await door.sessions()
            assert [call.status for call in session.calls()] == ["running"]
            await agent.runner.decide(
                session_id, "1.1", DecisionRequest("run", own.call("1.1").digest)
            )
            own = await rested(agent, session_id)
            (session,) = await door.sessions()
    assert told(session) == told(own)
    assert session.state == "idle"


async def test_a_history_that_was_rewritten_is_said_to_be(tmp_path: Path) -> None:
    """The agent forks where it had made a call: what it says from there on follows."""
    async with both(tmp_path) as (agent, door):
        door.headers["session-id"] = "s-1"
        session_id = await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        place = ForkPlace(prompt=1)
        forked = await fork(agent, session_id, place, text="What is the weather in Rome?")
        await rested(agent, forked)
        (session,) = await door.sessions()
    prompts = [item.text for item in session.items if isinstance(item, Prompt)]
    assert prompts == ["What is the weather in Oslo?", "What is the weather in Rome?"]
    marks = [mark.warning.message for mark in session.marks]
    assert marks == ["The agent rewrote its history: 3 messages became 1."]


async def test_what_was_asked_in_vain_is_asked_again_in_the_same_session(tmp_path: Path) -> None:
    async with both(tmp_path) as (agent, door):
        await one_turn(agent, door, "Say it. [[fault:http-429-then-ok-2]]")
        (session,) = await door.sessions()
    assert session.prompts == 1
    assert [turn.dropped for turn in session.turns] == [True, True, False]


async def test_stop_ends_what_is_under_way_and_refuses_what_comes(tmp_path: Path) -> None:
    async with both(tmp_path) as (agent, door):
        await one_turn(agent, door, "What is the weather in Oslo?", "get_weather")
        (session,) = await door.sessions()
        with pytest.raises(Refused, match="An agent runs this session"):
            await door.engine.runner.prompt(session.id, "I am not the agent.")
        body = session.turns[-1].request.body.encode()
        exchange = door.exchange(body)
        await exchange.begin()
        exchange.answered(200, [(b"content-type", b"text/event-stream")])
        start = b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m"}}\n\n'
        assert await exchange.pass_on(start) == start
        await door.engine.runner.stop(session.id)
        await exchange.stopped.wait()
        await exchange.leave()
        with pytest.raises(Refused, match="stopped this session"):
            await door.exchange(body).begin()
        await door.engine.runner.resume(session.id)
        again = door.exchange(body)
        await again.begin()
        await again.leave()
        (session,) = await door.sessions()
    failures = [turn.failure and turn.failure.failure for turn in session.turns]
    assert failures[-2:] == ["stopped", "interrupted"]
    assert [turn.client_gone for turn in session.turns][-2:] == [True, True]
