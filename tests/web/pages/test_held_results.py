"""The cards of results that are held on their way from an agent to its provider."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from playground.core.session import Session
from playground.tap.relay import Exchange
from tests.engines import run_engine
from tests.tap.agent import make_agent
from tests.web.asking import JSON, PAGE
from tests.web.pages.test_held import Holding
from tests.web.pages.test_tapped import session_of, words

pytestmark = pytest.mark.anyio

LS, READ = ("Bash", {"command": "ls"}), ("Read", {"path": "a"})


class Returning(Holding):
    """The page of a session whose agent has sent results that wait."""

    async def decide_result(self, call_id: str, kind: Any = JSON, **fields: Any) -> Any:
        digest = (await session_of(self.agent, self.id)).call(call_id).digest
        url = f"{self.path}/calls/{call_id}/result"
        return await self.post(url, {"digest": digest, **fields}, kind)

    async def session(self) -> Session:
        return await session_of(self.agent, self.id)


@asynccontextmanager
async def returning(
    folder: Path, *texts: str, stop_at: str = "results", agent: str = "claude"
) -> AsyncIterator[tuple[Returning, Exchange, asyncio.Task[Any]]]:
    """An agent that has sent these results of its calls, all of which wait."""
    async with run_engine(folder) as engine:
        engine.keys.learn("sk-verysecret-123456")
        fake = await make_agent(engine, agent=agent)
        fake.tap = await fake.sessions.taps.set_stop_at(fake.tap.id, stop_at)
        calls = (LS, READ)[: len(texts)]
        await fake.answer(await fake.ask("Go."), *calls)
        results = [
            fake.result_block(name, text) for (name, _), text in zip(calls, texts, strict=True)
        ]
        exchange = fake.exchange(*results)
        task = asyncio.create_task(exchange.begin())
        here = Returning(fake)
        await here.hold(len(texts))
        try:
            yield here, exchange, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_held_result_passes_as_it_is_or_edited(tmp_path: Path) -> None:
    async with returning(tmp_path, "a.txt", "Its key is sk-verysecret-123456.") as (here, _, task):
        html = await here.page(here.path)
        assert "2 calls need a decision on the result" in words(html)
        assert (
            "Claude Code is waiting. Its request is sent when you have decided its results."
            in words(html)
        )
        assert 'data-waiting="2"' in html
        first, second = await here.cards()
        for part in (
            "needs a decision on the result",
            "a.txt",
            "The provider reads this result when all held results are decided.",
            "Claude Code times out 6:02 after it sent this result",
            "Let it pass A",
            "Edit… E",
            "The tap stops at this result.",
        ):
            assert part in words(first), part
        assert "Secrets are masked here" not in first
        assert "it is sent with the stars" in words(second)
        assert "verysecret" not in html
        assert (await here.decide_result("1.0", PAGE)).status == 303
        assert "1 call needs a decision on the result" in words(await here.page(here.path))
        output = await here.decide_result("1.1", text="No.\nNot there.", is_error=True)
        assert output.status == 200
        await asyncio.wait_for(task, 20)
        first, second = map(words, await here.cards())
        assert "ran at the agent" in first
        assert "It was held for you. You let it pass unchanged." in first
        for part in ("result edited", "No. Not there.", "Result at the agent: ⇥ Its key is"):
            assert part in second, part
        data = await here.json(here.path)
    _, call = data["calls"]
    assert (call["result"]["is_error"], call["real"]["is_error"]) == (True, False)
    assert call["result"]["content"][0]["text"] == "No.\nNot there."


async def test_what_cannot_be_decided_is_refused_and_said(tmp_path: Path) -> None:
    async with returning(tmp_path, "a.txt", agent="") as (here, exchange, task):
        assert "times out" not in await here.page(here.path)
        url = f"{here.path}/calls/1.0/result"
        for body, status in (
            ({}, 422),
            ({"digest": "0" * 64}, 409),
            ({"digest": "0" * 64, "is_error": True}, 422),
            ({"digest": "0" * 64, "text": 1}, 422),
        ):
            assert (await here.post(url, body, JSON)).status == status, body
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await exchange.leave()
        html = await here.page(here.path)
        assert "The agent disconnected. Your decision applies when it retries." in words(html)
        assert (
            "An agent disconnected. If it retries, its request is sent when you have decided "
            "its results." in words(html)
        )
        await here.json(f"{here.path}/stop", {})
        (card,) = await here.cards()
        assert "Press “Let it continue” to decide this result." in words(card)
        assert "Let it pass" not in card
        assert (await here.decide_result("1.0")).status == 422


async def test_a_long_result_is_not_edited_on_the_page(tmp_path: Path) -> None:
    async with returning(tmp_path, "x" * 150_000) as (here, _, task):
        (card,) = await here.cards()
        assert "Too long to edit here." in card
        assert re.search(r'data-key="e"\s+disabled', card)
        assert (await here.decide_result("1.0", text="x")).status == 200
        await asyncio.wait_for(task, 20)
