"""The cards of calls that are held for an agent: decided here, in each state of their turn."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from playground.core.session import Session
from playground.engine.engine import Engine
from playground.tap.exchange import AgentExchange
from playground.web.agents import STOP_CHOICES
from tests.engines import run_engine
from tests.markup import joined_tags
from tests.tap.agent import FakeAgent, make_agent
from tests.web.asking import JSON, PAGE
from tests.web.pages.test_tapped import Here, session_of, words

pytestmark = pytest.mark.anyio

LS = ("Bash", {"command": "ls"})
READ = ("Read", {"path": "a"})
TOO_LITTLE = ("Bash", {"command": 1})
CARD = re.compile(r'<article\s+id="call-.*?</article>', re.DOTALL)
PRESSED = re.compile(r'value="(\w+)" aria-pressed="true"')
HTMX = ("hx-request", "true")
STREAM = ((b"content-type", b"text/event-stream"),)


class Holding(Here):
    """The page of a session in which calls of `agent` are held."""

    def __init__(self, agent: FakeAgent) -> None:
        super().__init__(agent)
        self.agent = agent
        self.site.taps = agent.sessions.taps
        self.id = ""

    @property
    def path(self) -> str:
        return f"/sessions/{self.id}"

    async def hold(self, count: int) -> Session:
        """The session, as soon as so many of its calls wait."""
        engine = self.agent.sessions.engine
        async with asyncio.timeout(30):
            while True:
                position = engine.sessions.position
                (self.id, *_) = await engine.log.tapped_sessions(self.agent.tap.id, 1)
                session = await session_of(self.agent, self.id)
                if len(session.waiting) == count and not session.call_groups.count("proposed"):
                    return session
                await engine.sessions.wait(position, engine.sessions.list_version, 30)

    async def cards(self) -> list[str]:
        return CARD.findall(await self.page(self.path))

    async def decide(self, call_id: str, decision: str, **more: Any) -> Any:
        digest = (await session_of(self.agent, self.id)).call(call_id).digest
        body = {"decision": decision, "digest": digest, **more}
        return await self.json(f"{self.path}/calls/{call_id}/decision", body)


@asynccontextmanager
async def holding(
    folder: Path, *calls: Any, stop_at: str = "calls", agent: str = "claude"
) -> AsyncIterator[tuple[Holding, asyncio.Task[None]]]:
    """An agent that waits for an answer with `calls`, all of which wait for a decision."""
    async with run_engine(folder) as engine:
        fake = await make_agent(engine, agent=agent)
        fake.tap = await fake.sessions.taps.set_stop_at(fake.tap.id, stop_at)
        here = Holding(fake)
        task = asyncio.create_task(fake.answer(await fake.ask("Go."), *calls))
        await here.hold(len(calls))
        try:
            yield here, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_held_call_offers_what_can_be_done_with_it(tmp_path: Path) -> None:
    async with holding(tmp_path, LS) as (here, task):
        (card,) = await here.cards()
        text = words(card)
        for part in (
            "needs approval",
            "Held for Claude Code. It gets this call when you decide.",
            "Let it run A",
            "Edit… E",
            "The agent runs the edited arguments.",
            "Deny… D",
            "Answer by hand H",
            "The model reads it as the result of the call The agent reads it as text instead of",
            "Your text goes to the model at once, in a request of the playground.",
            "Always for Bash",
            "The tap stops at every call. Waiting for your approval.",
        ):
            assert part in text, part
        for part in ("Attach", "Fault", "sandbox", "Secrets are masked", "after the call was held"):
            assert part not in text, part
        assert re.search(r'class="primary"\s+data-key="a"', card)
        html = await here.page(here.path)
        assert "1 call needs approval" in words(html)
        assert (
            "Claude Code is waiting. It gets this answer when you have decided all its calls."
            in words(html)
        )
        assert f'href="/agents#tap-{here.agent.tap.id}"' in html
        assert "stops at: every call" in words(html)
        await here.decide("1.1" if "call-1-1" in card else "1.0", "run")
        await asyncio.wait_for(task, 30)
        (card,) = await here.cards()
        assert "running at the agent" in words(card)
        assert "You let the agent run it on this card." in words(card)


async def test_several_held_calls_wait_for_each_other(tmp_path: Path) -> None:
    async with holding(tmp_path, LS, READ, LS) as (here, task):
        html = await here.page(here.path)
        assert "It gets this call when all 3 calls are decided." in words(html)
        assert "Let all 3 run" in words(html)
        assert "Deny all 3" in words(html)
        await here.decide("1.0", "run", arguments='{"command": "pwd"}')
        session = await session_of(here.agent, here.id)
        assert session.state == "waiting"
        first = words((await here.cards())[0])
        assert "decided · waits for the other calls" in first
        assert "edited by you" in first
        assert "The agent runs the edited arguments." in first
        await here.decide("1.1", "deny", text="Not now.")
        second = words((await here.cards())[1])
        assert "denied" in second
        assert "Not now." in second
        pressed = [("decision", "run"), ("call", f"1.2 {session.call('1.2').digest}")]
        output = await here.post(f"{here.path}/decisions", dict(pressed), PAGE)
        assert output.status == 303
        await asyncio.wait_for(task, 30)
        cards = [words(card) for card in await here.cards()]
        assert ["running at the agent" in card for card in cards] == [True, False, True]
        session = await session_of(here.agent, here.id)
        assert session.turns[0].passed is not None
        assert session.turns[0].passed.changed


async def test_all_that_wait_are_denied_at_once(tmp_path: Path) -> None:
    async with holding(tmp_path, LS, READ) as (here, task):
        form = re.search(
            r'<form[^>]*id="deny-all".*?</form>', await here.page(here.path), re.DOTALL
        )
        assert form is not None
        calls = re.findall(r'name="call" value="([^"]+)"', form[0])
        assert len(calls) == 2
        for pressed in calls:
            output = await here.post(
                f"{here.path}/decisions", {"decision": "deny", "call": pressed}, PAGE
            )
            assert output.status == 303
        await asyncio.wait_for(task, 30)
        session = await session_of(here.agent, here.id)
        assert [call.status for call in session.calls()] == ["done", "done"]


async def test_what_does_not_fit_its_schema_runs_only_when_asked_twice(tmp_path: Path) -> None:
    async with holding(tmp_path, TOO_LITTLE) as (here, _):
        text = words((await here.cards())[0])
        assert "Let it run anyway…" in text
        assert "The agent gets them unchanged." in text
        digest = (await session_of(here.agent, here.id)).call("1.0").digest
        body = {"decision": "run", "digest": digest, "arguments": {"command": 2}}
        output = await here.post(f"{here.path}/calls/1.0/decision", body, JSON)
        assert output.status in (409, 422)
        assert b"do not match the schema" in output.body


async def test_masked_arguments_say_what_an_edit_would_send(engine: Engine) -> None:
    engine.keys.learn("sk-verysecret-123456")
    fake = await make_agent(engine)
    fake.tap = await fake.sessions.taps.set_stop_at(fake.tap.id, "calls")
    here = Holding(fake)
    call = ("Bash", {"command": "echo sk-verysecret-123456"})
    task = asyncio.create_task(fake.answer(await fake.ask("Go."), call))
    await here.hold(1)
    message = "Secrets are masked here. If you edit the arguments, they are sent with the stars."
    assert message in words((await here.cards())[0])
    await here.decide("1.0", "run")
    await asyncio.wait_for(task, 30)
    assert message not in words((await here.cards())[0])


async def test_an_agent_that_has_left_meets_it_again(engine: Engine) -> None:
    fake = await make_agent(engine)
    fake.tap = await fake.sessions.taps.set_stop_at(fake.tap.id, "calls")
    here = Holding(fake)
    exchange = await fake.ask("Go.")
    task = asyncio.create_task(fake.answer(exchange, LS, READ))
    await here.hold(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(exchange, AgentExchange)
    await exchange.leave()
    html = await here.page(here.path)
    left = "The agent disconnected. If it retries, it gets this call."
    assert [left in words(card) for card in CARD.findall(html)] == [True, True]
    assert "The agent disconnected before it had this answer." not in words(html)
    for call_id in ("1.0", "1.1"):
        await here.decide(call_id, "run")
    cards = await here.cards()
    assert ["decided · waits for the agent" in words(card) for card in cards] == [True, True]


async def test_a_card_is_void_once_its_agent_asks_something_else(engine: Engine) -> None:
    fake = await make_agent(engine)
    fake.tap = await fake.sessions.taps.set_stop_at(fake.tap.id, "calls")
    here = Holding(fake)
    exchange = await fake.ask("Go.")
    task = asyncio.create_task(fake.answer(exchange, LS, READ))
    await here.hold(2)
    await here.decide("1.0", "run")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert isinstance(exchange, AgentExchange)
    await exchange.leave()
    await fake.answer(await fake.ask("Something else."), "Fine.")
    html = await here.page(here.path)
    assert "If it retries" not in words(html)
    assert "The agent disconnected before it had this answer." in words(html)
    for card in CARD.findall(html):
        text = words(card)
        assert "The agent sent another request and never got this call." in text
        for part in ("decided ·", "needs approval", "Let it run"):
            assert part not in text.partition("Why?")[0], part


@pytest.mark.parametrize(("agent", "seconds"), [("claude", 1800), ("codex", None), ("", None)])
async def test_the_clock_of_the_client(agent: str, seconds: int | None, engine: Engine) -> None:
    """In a stream, from the end of the provider's answer on."""
    fake = await make_agent(engine, agent=agent)
    fake.tap = await fake.sessions.taps.set_stop_at(fake.tap.id, "calls")
    here = Holding(fake)
    exchange = await fake.ask("Go.")
    exchange.receive_head(200, STREAM)
    for event in _stream_of_a_call():
        await exchange.pass_on(event)
    assert isinstance(exchange, AgentExchange)
    task = asyncio.create_task(_drain(exchange))
    session = await here.hold(1)
    (card,) = await here.cards()
    match = re.search(r'data-gives-up="(\d+)"\s+data-who="([^"]+)"', card)
    if seconds is None:
        assert match is None
    else:
        assert match is not None
        closed = session.turns[0].closed_ms
        assert closed is not None
        assert (int(match[1]), match[2]) == (closed + seconds * 1000, "Claude Code")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _drain(exchange: AgentExchange) -> None:
    async for _ in exchange.finish_answer(None):
        pass


def _stream_of_a_call() -> list[bytes]:
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": '{"command": "ls"}'}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    ]
    return [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]


@pytest.mark.parametrize("stop_at", ["unruled", "calls"])
async def test_always_writes_a_rule_for_the_agents_tool(tmp_path: Path, stop_at: str) -> None:
    """Where the tap stops at every call, none that runs it is offered: it would run nothing."""
    async with holding(tmp_path, LS, stop_at=stop_at) as (here, task):
        url = f"{here.path}/calls/1.0/always"
        panel = words(await here.page(url))
        deny = await here.json(f"{url}?decision=deny&exact=false&scope=session")
        assert deny["rule"]["action"] == "deny"
        if stop_at == "calls":
            assert "The tap stops at every call, so rules have no effect" in panel
            return
        assert "Add this rule and run" in panel
        digest = (await session_of(here.agent, here.id)).call("1.0").digest
        body = {"decision": "run", "exact": False, "scope": "session", "digest": digest}
        await here.json(url, body)
        await asyncio.wait_for(task, 30)
        (card,) = await here.cards()
        assert "running at the agent" in words(card)
        assert "by rule “" in words(card)


async def test_where_a_tap_stops_is_set_on_the_page(engine: Engine) -> None:
    agent = await make_agent(engine)
    here = Holding(agent)
    url = f"/taps/{agent.tap.id}/settings"
    for choice in STOP_CHOICES:
        output = await here.post(url, {"stop_at": choice.value}, HTMX)
        html = joined_tags(output.body.decode())
        assert output.status == 200
        assert html.lstrip().startswith('<section id="taps"')
        assert choice.says in words(html).replace("&#39;", "'")
        checked = PRESSED.findall(html)
        assert checked == [choice.value]
        output = await here.post(url, {"stop_at": choice.value}, PAGE)
        assert (output.status, output.header("location")) == (303, "/agents")
    page = await here.page("/agents")
    options = page.partition('<select name="stop_at">')[2].partition("</select>")[0]
    assert re.findall('value="([a-z]+)"', options) == [choice.value for choice in STOP_CHOICES]
    output = await here.post("/taps", {"upstream": "nobody", "stop_at": "calls"}, PAGE)
    assert b'value="calls" selected' in output.body
