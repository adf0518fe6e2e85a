"""What becomes a session of what an agent asks and gets. The agent is this program itself, with
the tap as its provider: what both logs say of the same conversation is compared."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from app.core.events import (
    AnswerPassed,
    CallStarted,
    RequestReceived,
    Warned,
)
from app.core.session import Prompt, Session
from app.core.settings import Profile
from app.engine.engine import Engine
from app.net.client import NetworkError
from app.protocols.registry import FACTS, codec
from app.tap.recording import AgentSessions
from app.tap.relay import AgentRequest
from app.tap.taps import Tap, Taps
from tests.engine.running import ALLOW_ALL, KEY, begun, events_of, rested, running
from tests.loopback import listening

pytestmark = pytest.mark.anyio

PROTOCOLS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")


@dataclass
class Door:
    """A tap of `engine`, at `url`; requests bear `headers` more."""

    engine: Engine
    protocol: Any
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def profile(self) -> Profile:
        return Profile("tapped", self.protocol, self.url, model="simulator")

    async def sessions(self) -> list[Session]:
        """The tapped ones, the oldest first."""
        found = []
        for session_id in reversed(await self.engine.log.tapped("tap", 100)):
            async with self.engine.sessions.holding(session_id) as live:
                found.append(live.session)
        return sorted(found, key=lambda session: session.started_ms)


@asynccontextmanager
async def tapped(engine: Engine, simulator: str, protocol: Any) -> AsyncIterator[Door]:
    """The relay alone: bytes as they come, and what follows them."""
    door = Door(engine, protocol)
    taps = Taps(engine.library, engine.keys, engine.profile, engine.sessions.clock, lambda: "tap")
    sessions = AgentSessions(engine, taps, b"key")
    tap = Tap("tap", "", "simulator", "nothing", "tester", 0)

    async def relay(request: Request) -> StreamingResponse:
        body, path = await request.body(), request.url.path
        target = path + (f"?{request.url.query}" if request.url.query else "")
        headers = [
            *request.headers.raw,
            *((k.encode(), v.encode()) for k, v in door.headers.items()),
        ]
        upstream = simulator + FACTS[protocol].simulated + target
        exchange = sessions.observe(
            AgentRequest(
                tap, "anthropic", "POST", target.encode(), headers, body, upstream,
                Profile("upstream", protocol, simulator), engine.sessions.clock(),
            )
        )  # fmt: skip
        await exchange.begin()
        key = codec(protocol).key_header(KEY, ())
        sent = client.build_request(
            "POST", upstream, content=body, headers={**dict(request.headers), **key}
        )
        answer = await client.send(sent, stream=True)
        exchange.answered(answer.status_code, answer.headers.raw)

        async def passed() -> AsyncIterator[bytes]:
            trouble = None
            try:
                async for data in answer.aiter_raw():
                    yield await exchange.pass_on(data)
            except httpx.HTTPError:
                trouble = NetworkError("interrupted", "It broke off.", began=True)
            yield await exchange.end(trouble)

        return StreamingResponse(passed(), answer.status_code, dict(answer.headers))

    app = Starlette(routes=[Route("/{path:path}", relay, methods=["POST"])])
    async with httpx.AsyncClient(timeout=30) as client, listening(app) as url:
        door.url = url
        yield door


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
async def test_a_tapped_conversation_is_the_agents_own(tmp_path: Path, protocol: Any) -> None:
    (tmp_path / "agent").mkdir()
    async with running(tmp_path) as ours, running(tmp_path / "agent") as agent:
        simulator = ours.client._simulator_url()
        async with tapped(ours, simulator, protocol) as door:
            session_id = await begun(
                agent, ["get_weather"], rules=ALLOW_ALL, profile=door.profile(), model="simulator"
            )
            for prompt in ("What is the weather in Oslo?", "And in Bergen?", "Thank you."):
                await agent.runner.prompt(session_id, prompt)
                own = await rested(agent, session_id)
            (session,) = await door.sessions()
            log = await ours.log.events(session.id)
    assert told(session) == told(own)
    assert [turn.end is not None for turn in session.turns] == [True] * len(own.turns)
    assert session.state == "idle"
    received = events_of(log, RequestReceived)
    assert [one.matched for one in received][:1] == ["new"]
    assert {one.matched for one in received[1:]} <= {"call", "message"}
    assert len(events_of(log, AnswerPassed)) == len(own.turns)
    assert len(events_of(log, CallStarted)) == len(list(own.calls())) > 0
    assert not events_of(log, Warned)
