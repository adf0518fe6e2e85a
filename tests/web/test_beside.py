"""The stream of sessions side by side: each message reaches its own, from any cursor."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.core.reducer import fold
from playground.engine.engine import Engine
from playground.render.blocks import PageFrame
from playground.render.view import View
from playground.render.wire_rows import WireRows
from playground.web.side_by_side import (
    Follower,
    SideBySide,
    address,
    address_without,
    distinct_sessions,
    initial_state,
    next_messages,
)
from playground.web.site import Site
from tests.engines import StartEngine, create_session, run_prompt
from tests.render.page import ENV, NOW_MS, Page
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

PROMPT = "What is the weather in Paris?"


def stream_messages(sent: str) -> list[tuple[str, Any, str]]:
    """(event, data, id) of each message of a round; data of `column` and `gone` as values."""
    messages = []
    for text in filter(None, sent.split("\n\n")):
        lines = [line.partition(": ")[::2] for line in text.split("\n")]
        event = next((value for name, value in lines if name == "event"), "")
        data = "\n".join(value for name, value in lines if name == "data")
        id = next((value for name, value in lines if name == "id"), "")
        messages.append((event, json.loads(data) if event else data, id))
    return messages


async def page_at(engine: Engine, session_id: str, seq: int | None = None) -> Page:
    """The frame of a session as it was loaded after event `seq`, or now. It has no wire."""
    log = await engine.log.events(session_id)
    async with engine.sessions.lock_session(session_id) as live:
        title = live.title
    return Page(View(fold(session_id, log[:seq]), title, WireRows(), NOW_MS))


async def pair(engine: Engine) -> list[str]:
    """A session that waits, and one that was never asked."""
    return [(await run_prompt(engine, PROMPT, "get_weather")).id, await create_session(engine)]


def steps(sent: str) -> dict[str, PageFrame]:
    """What a round has for each session."""
    result = {}
    for event, data, _ in stream_messages(sent):
        if event == "column":
            grow = [tuple(item) for item in data["grow"]]
            result[data["session"]] = PageFrame(data["html"], grow)
    return result


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make_site(engine: Engine) -> Site:
        monkeypatch.setattr(engine.sessions, "clock", lambda: NOW_MS)
        return Site(engine, ENV)

    return make_site


async def test_each_step_reaches_its_own_session(site: Any, start_engine: StartEngine) -> None:
    """Two that stream at once, and what is drawn of one never stands in the other's message."""
    engine = await start_engine(pace=0.05)
    on = site(engine)
    ids = [
        await create_session(engine, ("get_weather",)),
        await create_session(engine, ("calculator",)),
    ]
    pages = {item_id: await page_at(engine, item_id) for item_id in ids}
    beside = initial_state(ids, engine.sessions.position)
    await engine.runner.prompt(ids[0], PROMPT)
    await engine.runner.prompt(ids[1], "What is 17 * 23?")
    rounds, ends_at = 0, asyncio.get_running_loop().time() + 40
    while True:
        assert asyncio.get_running_loop().time() < ends_at, "it never comes to rest"
        position = engine.sessions.position
        sent = await next_messages(on, beside)
        rounds += bool(sent)
        for text, step in steps(sent).items():
            pages[text].apply(step)
        done = [(await state(engine, item_id)) != "running" for item_id in ids]
        if all(done) and engine.sessions.position == position and not sent:
            break
        if not sent:
            await engine.sessions.wait(position, engine.sessions.list_version, 5)
    assert rounds > 2
    for text, tool, other in zip(
        ids, ("get_weather", "calculator"), ("calculator", "get_weather"), strict=True
    ):
        assert str(pages[text]) == str(await page_at(engine, text))
        assert f"</i>{tool}</h3>" in str(pages[text])
        assert f"</i>{other}</h3>" not in str(pages[text])


async def state(engine: Engine, session_id: str) -> str:
    async with engine.sessions.lock_session(session_id) as live:
        return live.session.state


async def test_from_any_position_each_frame_ends_as_a_fresh_one(site: Any, engine: Engine) -> None:
    ids = await pair(engine)
    on, end = site(engine), engine.sessions.position
    events = len(await engine.log.events(ids[0]))  # then comes the one of the other session
    fresh = str(await page_at(engine, ids[0]))
    for seq in (*range(1, events, 4), events):
        beside = initial_state(ids, end - 1 - events + seq)
        page = await page_at(engine, ids[0], seq)
        sent = await next_messages(on, beside)
        page.apply(steps(sent)[ids[0]])
        assert str(page) == fresh, f"from {seq}"
        assert {column.position for column in beside.columns} == {end}
        assert stream_messages(sent)[-1][2] == engine.sessions.cursor
        assert await next_messages(on, beside) == ""


@pytest.mark.parametrize("unknown", [-1, 10**9])
async def test_an_unknown_cursor_draws_each_anew(site: Any, unknown: int, engine: Engine) -> None:
    ids = await pair(engine)
    sent = await next_messages(site(engine), initial_state(ids, unknown))
    for item_id in ids:
        page = await page_at(engine, item_id, 1)
        page.apply(steps(sent)[item_id])
        assert str(page) == str(await page_at(engine, item_id))


async def test_a_round_has_one_id_and_it_is_what_all_have(site: Any, engine: Engine) -> None:
    ids = await pair(engine)
    messages = stream_messages(await next_messages(site(engine), initial_state(ids, -1)))
    assert [message[0] for message in messages] == ["column", "column", ""]
    assert [message[2] for message in messages] == ["", "", engine.sessions.cursor]
    assert [message[1]["session"] for message in messages[:2]] == ids
    assert not re.search("panel-setup|hx-target=.#(list|wire)", str(messages))


async def test_what_is_said_around_the_frames_comes_when_it_is_another(
    site: Any, engine: Engine
) -> None:
    ids = await pair(engine)
    on, beside = site(engine), initial_state(ids, -1)
    first = stream_messages(await next_messages(on, beside))[-1][1]
    targets = {"besidehead", "dock", "lane-1", "lane-2", "pick-1", "pick-2", "store"}
    assert set(re.findall('hx-target="#([^"]*)"', first)) == targets
    async with engine.sessions.lock_session(ids[1]) as live:
        await engine.sessions.rename(live, "Another title")
    sent = stream_messages(await next_messages(on, beside))
    assert [row[0] for row in sent] == ["column", ""]
    assert (sent[0][1]["session"], "Another title" in sent[0][1]["html"]) == (ids[1], True)
    assert re.findall('hx-target="#([^"]*)"', sent[1][1]) == ["lane-2"]
    await engine.runner.stop(ids[0])
    await wait_while_running(engine, ids[0])
    around = stream_messages(await next_messages(on, beside))[-1][1]
    changed = re.findall('hx-target="#([^"]*)"', around)
    assert changed == ["besidehead", "dock", "lane-1", "pick-1"]
    assert "Stop all" not in around


async def test_one_that_is_gone_is_told_and_left_out(site: Any, engine: Engine) -> None:
    ids = await pair(engine)
    on, beside = site(engine), initial_state([ids[0], "nobody", ids[1]], -1)
    messages = stream_messages(await next_messages(on, beside))
    assert [message[0] for message in messages] == ["column", "gone", "column", ""]
    assert messages[1][1] == {"session": "nobody"}
    assert "#lane-3" in messages[-1][1]  # each keeps its place
    assert await next_messages(on, beside) == ""
    await engine.runner.delete(ids[1])  # it can be had back: it stays, and says so
    (around,) = stream_messages(await next_messages(on, beside))
    changed = ["besidehead", "dock", "lane-3", "pick-3"]
    assert re.findall('hx-target="#([^"]*)"', around[1]) == changed
    assert '<span class="tag">deleted</span>' in around[1]
    assert SideBySide([]).position == -1  # which no position is
    assert SideBySide([Follower(1, "a", 5), Follower(2, "b", 3), Follower(3, "c", 9)]).position == 3


def test_what_stands_in_an_address() -> None:
    assert distinct_sessions(["a", "b", "a", ""]) == ["a", "b"]
    with pytest.raises(BadInput, match="At most 4"):
        distinct_sessions(list("abcde"))
    assert address(["a b", "c"]) == "/compare?session=a+b&session=c&view=live"
    assert address_without(["a", "b"], "a") == "/compare?session=b&view=live"
    assert address_without(["a"], "a") == ""
