"""An agent that asks through a tap without a relay: what it asks and gets goes to `AgentSessions`
in the order in which a relay tells of it. It speaks Anthropic's protocol, with answers as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from playground.core.settings import Profile
from playground.engine.engine import Engine
from playground.net.client import NetworkError
from playground.tap.exchange import AgentExchange
from playground.tap.recording import AgentSessions
from playground.tap.relay import AgentRequest, Exchange
from playground.tap.taps import Tap, Taps

TOOLS = (
    {
        "name": "Bash",
        "description": "Runs a command.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
    {"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}},
)
UPSTREAM = Profile("anthropic", "anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY")
KIND = ((b"content-type", b"application/json"),)


async def end(exchange: Exchange, trouble: NetworkError | None = None) -> bytes:
    """The last bytes that the agent gets."""
    return b"".join([data async for data in exchange.finish_answer(trouble)])


@dataclass
class FakeAgent:
    """`sessions` log what it asks through `tap`; `messages` are its history."""

    sessions: AgentSessions
    tap: Tap
    messages: list[dict[str, Any]] = field(default_factory=list)
    system: str = "You are an agent."
    tools: Sequence[Mapping[str, Any]] = TOOLS
    ids: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further members of its requests."""
    answered: int = 0
    usage: Mapping[str, int] = field(
        default_factory=lambda: {"input_tokens": 1200, "output_tokens": 80}
    )

    async def ask(self, *content: Any) -> Exchange:
        """Its history goes out, with a message of `content` (blocks, or texts) behind it."""
        exchange = self.exchange(*content)
        await exchange.begin()
        return exchange

    def exchange(self, *content: Any) -> Exchange:
        """The same, before it begins."""
        blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
        if blocks:
            self.messages.append({"role": "user", "content": blocks})
        body = {
            "model": "claude-opus-4",
            "max_tokens": 32_000,
            "system": self.system,
            "tools": list(self.tools),
            "messages": self.messages,
            **self.more,
        }
        return AgentExchange(
            self.sessions,
            AgentRequest(
                self.tap,
                door="anthropic",
                method="POST",
                target=b"/v1/messages?beta=true",
                headers=[*KIND, *((k.encode(), v.encode()) for k, v in self.ids.items())],
                body=json.dumps(body).encode(),
                url="https://api.anthropic.com/v1/messages?beta=true",
                profile=UPSTREAM,
                at_ms=self.sessions.engine.sessions.clock(),
            ),
        )

    async def answer(self, exchange: Exchange, *content: Any, reason: str = "") -> None:
        """The model's answer comes, and is passed on whole: texts, and calls as (name, input)."""
        blocks = [self._block(piece) for piece in content]
        calls = any(block["type"] == "tool_use" for block in blocks)
        answer = {
            "id": f"msg_{self.answered}",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4",
            "content": blocks,
            "stop_reason": reason or ("tool_use" if calls else "end_turn"),
            "usage": dict(self.usage),
        }
        exchange.receive_head(200, KIND)
        await exchange.pass_on(json.dumps(answer).encode())
        await end(exchange)
        self.messages.append({"role": "assistant", "content": blocks})

    def result_block(self, name: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
        """The result of its last call of that name."""
        calls = [block for block in self.messages[-1]["content"] if block.get("name") == name]
        id_ = calls[-1]["id"]
        return {"type": "tool_result", "tool_use_id": id_, "content": text, "is_error": is_error}

    def _block(self, piece: Any) -> dict[str, Any]:
        if isinstance(piece, str):
            return {"type": "text", "text": piece}
        self.answered += 1
        id_ = f"toolu_{self.answered}"
        return {"type": "tool_use", "id": id_, "name": piece[0], "input": piece[1]}


def taps_of(engine: Engine) -> Taps:
    """Taps of an engine without a server."""
    return Taps(engine.library, engine.keys, engine.profile, engine.sessions.clock, lambda: "tap")


async def make_agent(engine: Engine, taps: Taps | None = None, agent: str = "claude") -> FakeAgent:
    """An agent behind a new tap."""
    taps = taps or taps_of(engine)
    tap, _ = await taps.create("anthropic", agent=agent)
    return FakeAgent(AgentSessions(engine, taps, b"key"), tap)


async def worked(agent: FakeAgent) -> str:
    """A prompt, a call with its result, and an answer; the id of the session."""
    await agent.answer(await agent.ask("List the files."), "I look.", ("Bash", {"command": "ls"}))
    await agent.answer(await agent.ask(agent.result_block("Bash", "a.txt")), "There is a.txt.")
    engine = agent.sessions.engine
    return (await engine.log.tapped_sessions(agent.tap.id, 1))[0]
