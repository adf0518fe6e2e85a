"""An agent that is an engine of ours, and a door for agents with another engine behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.core.session import Prompt, Session
from playground.core.settings import Profile
from playground.core.tools import Tool
from playground.engine.decisions import DecisionRequest, ResultDecision
from playground.engine.engine import Engine
from playground.simulator.scenario import Scenario
from playground.tap.door import DOORS, Door, Upstreams
from playground.tap.exchange import AgentExchange
from playground.tap.recording import AgentSessions
from playground.tap.relay import AgentRequest, Relay
from playground.tap.taps import Tap, Taps
from tests.engines import ALLOW_ALL, create_session, run_engine
from tests.in_process import serve_app
from tests.waiting import wait_while_running

WEATHER = "What is the weather in Oslo?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORECAST = Tool("forecast", "The weather of a city.", CITY, "mock", {"result": "Rain."})

PROTOCOLS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")
MOST_SLOWLY = [
    protocol if protocol == "anthropic" else pytest.param(protocol, marks=pytest.mark.slow)
    for protocol in PROTOCOLS
]
"""One in the quick line, where what differs by protocol is looked at by itself elsewhere."""


class Tapping:
    """A server with nothing but the door for agents. `open` says which engine is behind it; the
    agent's requests bear `headers`."""

    def __init__(self, protocol: Any) -> None:
        self.protocol = protocol
        self.headers: dict[str, str] = {}
        self.engine: Engine
        self.tap: Tap
        self._secret = ""
        self._taps: Taps
        self._url = ""
        self._tasks: set[asyncio.Task[Any]] = set()
        self.keepalive_s = 10.0
        self.held_since: asyncio.Event | None = None
        """Set by the next bytes that an agent gets."""
        self._sessions: AgentSessions
        self._app: ASGIApp

    async def open(self, engine: Engine) -> None:
        clock = engine.sessions.clock
        taps = Taps(engine.library, engine.keys, engine.profile, clock, lambda: "a-tap")
        self._taps = taps
        if not self._secret:
            self.tap, self._secret = await taps.create(agent="tester")
        self.engine, self._sessions = engine, AgentSessions(engine, taps, b"key", self.keepalive_s)
        self._app = Door(
            not_there,
            taps=taps,
            upstreams=Upstreams(engine.profile, engine.client.base_url, engine.keys),
            relay=Relay(engine.net, partial(AgentExchange, self._sessions)),
            is_own_host=lambda scope: True,
            clock=clock,
        )

    async def stop_at(self, stop_at: str) -> None:
        self.tap = await self._taps.set_stop_at(self.tap.id, stop_at)

    async def wait_for_held(self, count: int = 1) -> Session:
        """The agent's newest session, as soon as so many of its calls wait for a decision."""
        async with asyncio.timeout(30):
            while True:
                position = self.engine.sessions.position
                sessions = await self.sessions()
                if sessions and len(sessions[-1].waiting) == count:
                    return sessions[-1]
                await self.engine.sessions.wait(position, self.engine.sessions.list_version, 30)

    async def decide(self, call_id: str, decision: str, **more: Any) -> None:
        (*_, session) = await self.sessions()
        decision_request = DecisionRequest(decision, session.call(call_id).digest, **more)
        await self.engine.runner.decide(session.id, call_id, decision_request)

    async def decide_result(
        self, call_id: str, text: str | None = None, *, is_error: bool = False
    ) -> None:
        (*_, session) = await self.sessions()
        decision = ResultDecision(session.call(call_id).digest, text, is_error)
        await self.engine.runner.decide_result(session.id, call_id, decision)

    def break_off(self) -> None:
        """What the end of the program does to the agents' requests."""
        for task in self._tasks:
            task.cancel()

    def profile(self) -> Profile:
        """What the agent has as its provider."""
        door = next(name for name, spoken in DOORS.items() if self.protocol in spoken)
        version = "/v1" if door == "openai" else ""
        base = f"{self._url}/tap/{self._secret}/{door}{version}"
        return Profile("tap", self.protocol, base, model="simulator", headers=dict(self.headers))

    async def sessions(self) -> list[Session]:
        """The agent's, the oldest first."""
        sessions = []
        for session_id in await self.engine.log.tapped_sessions(self.tap.id, 100):
            async with self.engine.sessions.lock_session(session_id) as live:
                sessions.append(live.session)
        return sorted(sessions, key=lambda session: session.started_ms)

    def exchange(self, body: bytes) -> AgentExchange:
        """A request as the relay would tell of it."""
        upstream = Profile("simulator", self.protocol, "http://127.0.0.1:1")
        url, target = "http://127.0.0.1:1/v1/messages", b"/v1/messages"
        names = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return AgentExchange(
            self._sessions,
            AgentRequest(
                self.tap,
                door="anthropic",
                method="POST",
                target=target,
                headers=names,
                body=body,
                url=url,
                profile=upstream,
                at_ms=0,
            ),
        )

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Tapping]:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def sending(message: Message) -> None:
                await send(message)
                if self.held_since is not None and message.get("body"):
                    self.held_since.set()

            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await self._app(scope, receive, sending)

        async with serve_app(app) as self._url:
            yield self


async def not_there(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"Nobody asks for {scope['path']}.")


@asynccontextmanager
async def both(
    tmp_path: Path, protocol: str = "anthropic", scenario: Scenario | None = None
) -> AsyncIterator[tuple[Engine, Tapping]]:
    """The agent, and the door that it asks at; the simulators of both play `scenario`."""
    (tmp_path / "agent").mkdir()
    engines = [run_engine(folder, scenario=scenario) for folder in (tmp_path, tmp_path / "agent")]
    async with engines[0] as ours, engines[1] as agent, Tapping(protocol).listening() as door:
        await door.open(ours)
        yield agent, door


async def one_turn(
    agent: Engine, door: Tapping, prompt: str, *tools: Tool | str, system: str = "You help."
) -> str:
    session_id = await create_session(
        agent, tools, rules=ALLOW_ALL, profile=door.profile(), model="simulator", system=system
    )
    await agent.runner.prompt(session_id, prompt)
    await wait_while_running(agent, session_id)
    return session_id


def conversation_lines(session: Session) -> list[Any]:
    """What was said, called and returned, whoever ran it."""
    lines: list[Any] = []
    for item in session.items:
        if isinstance(item, Prompt):
            lines.append(("prompt", item.text))
            continue
        calls = [
            (call.name, json.loads(call.written), call.status, call.result and call.result.text)
            for call in item.calls
        ]
        lines.append(("answer", item.text, calls, item.end and item.end.reason))
    return lines
