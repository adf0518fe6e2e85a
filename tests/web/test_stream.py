"""The live stream: from any cursor it leads to the page that a reload would show."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import nullcontext

import pytest

from playground.core.events import CallChecked, Logged, PartDelta, PartStarted
from playground.core.reducer import fold
from playground.engine.engine import Engine
from playground.engine.sessions import ChangeNotifier, _follow
from playground.render.blocks import PageFrame
from playground.render.view import View
from playground.render.wire_rows import WireRows
from playground.store.writes import Chunk
from playground.web.site import Site
from playground.web.stream import Cursor, _frames, _next_messages, events_stream, message
from tests.engines import StartEngine, create_session, run_prompt
from tests.render.page import ENV, NOW_MS, Page
from tests.waiting import wait_for_event

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("a", ["data: a"]),
        ("a\nb", ["data: a", "data: b"]),
        ("a\r\nb\rc", ["data: a", "data: b", "data: c"]),
        ("data: x\n\nevent: y", ["data: data: x", "data: ", "data: event: y"]),
        ("one\u2028two", ["data: one\u2028two"]),
    ],
)
def test_no_text_makes_a_message_of_its_own(data: str, lines: list[str]) -> None:
    assert message(data, id="e-7") == "\n".join([*lines, "id: e-7"]) + "\n\n"
    assert message(data, event="grow").startswith("event: grow\ndata: ")


def frame_of(sent: str) -> PageFrame:
    """The step that a browser makes of what was sent at once."""
    html, grow = "", []
    for text in sent.split("\n\n"):
        data = "\n".join(x.removeprefix("data: ") for x in text.split("\n") if x[:6] == "data: ")
        if text.startswith("event: grow"):
            grow += json.loads(data)
        elif text:
            html += data
    return PageFrame(html, [tuple(item) for item in grow])


async def page_at(engine: Engine, session_id: str, log: list[Logged], seq: int) -> Page:
    """A page as it was loaded after event `seq`."""
    wire = WireRows()
    _follow(wire, log[:seq], [])
    if seq == len(log):
        wire = WireRows()
        _follow(wire, log, await engine.log.chunks(session_id))
    async with engine.sessions.lock_session(session_id) as live:
        title = live.title
    return Page(View(fold(session_id, log[:seq]), title, wire, NOW_MS))


async def test_from_any_cursor_to_the_page_of_now(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    prompt = "What is the weather in Paris, and what is 17 * 23?"
    session = await run_prompt(engine, prompt, "get_weather", "calculator")
    assert session.state == "waiting"
    log = await engine.log.events(session.id)
    site = Site(engine, ENV)
    monkeypatch.setattr(engine.sessions, "clock", lambda: NOW_MS)
    fresh = str(await page_at(engine, session.id, log, len(log)))
    for seq in range(1, len(log) + 1):
        page = await page_at(engine, session.id, log, seq)
        cursor = Cursor(-1, seq, wired=True, by_seq=True)
        page.apply(frame_of(await _next_messages(site, session.id, cursor, slow=True)))
        assert str(page) == fresh, f"from {seq}"
        assert cursor.seq == len(log)
        assert await _next_messages(site, session.id, cursor, slow=True) == ""
    for after in (-1, 999):
        unknown = Cursor(-1, after, wired=True, by_seq=True)
        page = await page_at(engine, session.id, log, 2)
        page.apply(frame_of(await _next_messages(site, session.id, unknown, slow=True)))
        assert str(page) == fresh


async def test_only_the_last_message_of_a_step_carries_its_cursor(engine: Engine) -> None:
    """Whoever loses the line within a step gets the whole of it again, text that grew or not."""
    session_id = await create_session(engine)
    await engine.runner.prompt(session_id, "[[fault:stall-after-6]] hello")
    await wait_for_event(engine, session_id, PartDelta)
    log = await engine.log.events(session_id)
    started = next(logged.seq for logged in log if isinstance(logged.event, PartStarted))
    cursor = Cursor(-1, started, by_seq=True)
    sent = await _next_messages(Site(engine, ENV), session_id, cursor, slow=True)
    grow, html = sent.split("\n\n")[:-1]
    assert grow.startswith("event: grow\n")
    assert "\nid: " not in grow
    assert html.endswith(f"\nid: {cursor.seq}")


async def test_streams_of_a_session_that_is_purged_end(engine: Engine) -> None:
    """Another tab may do so; whoever asks again hears that it is not there."""
    session_id, site = await create_session(engine), Site(engine, ENV)
    page = _frames(site, session_id, Cursor(-1, -1))
    log = events_stream(site, session_id, 0)
    assert await anext(page)
    assert await anext(log)
    async with engine.sessions.lock_session(session_id) as live:
        await engine.sessions.delete(live, deleted=True)
        await engine.sessions.purge(live)
    async with asyncio.timeout(20):
        assert [sent async for sent in page] == []
        assert [sent async for sent in log] == []


async def test_a_page_that_has_it_all_is_sent_nothing_of_the_session(engine: Engine) -> None:
    session = await run_prompt(engine, "hello")
    site = Site(engine, ENV)
    cursor = Cursor(engine.sessions.position, -1, head=("hello", False, False, (), ""))
    sent = await _next_messages(site, session.id, cursor, slow=True)
    assert "wire" not in sent
    assert "flow" not in sent


async def test_the_bar_which_shows_the_whole_session_follows_on_the_slow_beat(
    engine: Engine,
) -> None:
    session = await run_prompt(engine, "hello")
    site, cursor = Site(engine, ENV), Cursor(-1, 3, by_seq=True)
    quick = await _next_messages(site, session.id, cursor, slow=False)
    assert '"#head"' in quick
    assert '"#bar"' not in quick
    assert cursor.behind
    assert '"#bar"' in await _next_messages(site, session.id, cursor, slow=True)
    assert '"#bar"' not in await _next_messages(site, session.id, cursor, slow=True)


async def test_a_text_does_not_wait_for_what_the_slow_beat_sent(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    bell, sent = (
        ChangeNotifier(),
        iter([("bar", False), ("text", True), ("bar", False), ("text", True)]),
    )

    async def send_next(site: Site, session_id: str, cursor: Cursor, *, slow: bool) -> str:
        frame, cursor.behind = next(sent)
        cursor.slow_at = 0.0
        bell.notify()
        return frame

    monkeypatch.setattr("playground.web.stream._next_messages", send_next)
    monkeypatch.setattr("playground.web.stream.FRAME_S", 60.0)
    monkeypatch.setattr(engine.sessions, "listen", lambda *session_ids: nullcontext(bell))
    frames = _frames(Site(engine, ENV), "any", Cursor(-1, -1))
    async with asyncio.timeout(20):
        assert [await anext(frames) for _ in range(3)] == ["bar", "text", "bar"]


async def test_who_comes_again_gets_what_was_late(engine: Engine) -> None:
    """The line may be cut, or the page ask for more, between a frame and the slow beat after it."""
    session = await run_prompt(engine, "hello")
    site, cursor = Site(engine, ENV), Cursor(-1, 3, by_seq=True)
    assert '"#bar"' not in await _next_messages(site, session.id, cursor, slow=False)
    again = Cursor(-1, cursor.seq, by_seq=True)
    assert '"#bar"' in await _next_messages(site, session.id, again, slow=True)


async def test_a_reader_of_each_moment_ends_with_the_same_page(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    """Frames taken while it streams, slow beats and fast ones in turn. The wire is made for those
    who have it; who gets it meanwhile reads on from before it was drawn."""
    engine = await start_engine(pace=0.1)
    monkeypatch.setattr(engine.sessions, "clock", lambda: NOW_MS)
    session = await run_prompt(engine, "hello", "get_weather")
    site = Site(engine, ENV)
    log = await engine.log.events(session.id)
    before = len(log)
    pages = [await page_at(engine, session.id, log, before) for _ in range(3)]
    cursors = [Cursor(-1, before, wired=wired, by_seq=True) for wired in (True, False, False)]
    without = str(pages[1].tree.find("wire"))
    await engine.runner.prompt(session.id, "What is the weather in Paris?")
    beats = 0
    while True:
        position = engine.sessions.position
        for page, cursor in zip(pages, cursors, strict=True):
            sent = await _next_messages(site, session.id, cursor, slow=beats % 3 == 0)
            assert cursor.wired or "#wire" not in sent
            page.apply(frame_of(sent))
        beats += 1
        if beats == 3:
            async with engine.sessions.lock_session(session.id) as live:
                pages[2].load(await site.view(live), ["wire"])
            cursors[2] = Cursor(-1, cursors[2].seq, wired=True, by_seq=True)
        log = await engine.log.events(session.id)
        if isinstance(log[-1].event, CallChecked) and cursors[2].seq == len(log):
            break
        await engine.sessions.wait(position, engine.sessions.list_version, 5)
    assert beats > 3
    for page, cursor in zip(pages, cursors, strict=True):
        page.apply(frame_of(await _next_messages(site, session.id, cursor, slow=True)))
    fresh = await page_at(engine, session.id, log, len(log))
    assert str(pages[0]) == str(pages[2]) == str(fresh)
    assert str(pages[1]) == str(fresh).replace(str(fresh.tree.find("wire")), without)


async def test_no_rows_of_the_wire_are_made_for_a_page_that_has_none(engine: Engine) -> None:
    session = await run_prompt(engine, "hello")
    site = Site(engine, ENV)
    for position in (-1, 0):
        sent = await _next_messages(site, session.id, Cursor(position, -1), slow=True)
        assert '"#flow"' in sent
        assert "wire" not in sent
    async with engine.sessions.lock_session(session.id) as live:
        assert live.wire is None
    assert '"#wire"' in await _next_messages(
        site, session.id, Cursor(-1, -1, wired=True), slow=True
    )


async def test_a_page_hears_of_bytes_that_leave_nothing_on_it(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    session_id = await create_session(engine)
    await engine.runner.prompt(session_id, "[[fault:stall-after-6]] hello")
    deltas = 0
    while deltas < 3:  # nothing comes after the third
        position = engine.sessions.position
        log = await engine.log.events(session_id)
        deltas = sum(isinstance(logged.event, PartDelta) for logged in log)
        await engine.sessions.wait(position, engine.sessions.list_version, 0 if deltas > 2 else 5)
    site, cursor = Site(engine, ENV), Cursor(-1, -1)
    assert "event: heard\ndata: 1 " in await _next_messages(site, session_id, cursor, slow=True)
    assert await _next_messages(site, session_id, cursor, slow=True) == ""
    size = await engine.log.recorded_size(session_id)
    later = engine.sessions.clock() + 10_000  # however soon after the last delta this is
    monkeypatch.setattr(engine.sessions, "clock", lambda: later)
    async with engine.sessions.lock_session(session_id) as live:
        ping = Chunk(1, size, later - 90, b": ping\n\n")
        await engine.sessions.append(live, [], chunks=[ping])
    assert await _next_messages(site, session_id, cursor, slow=False) == ""
    assert cursor.behind
    match = re.fullmatch(
        r"event: heard\ndata: 1 (\d+)\n\n",
        await _next_messages(site, session_id, cursor, slow=True),
    )
    assert match is not None
    assert int(match[1]) == 90
    await engine.runner.stop(session_id)
    assert "heard" not in await _next_messages(site, session_id, cursor, slow=True)


async def test_who_comes_again_before_the_slow_beat_lacks_nothing(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    """The cursor tells of texts, and not of what follows them: the bar, and the wire's rows."""
    monkeypatch.setattr(engine.sessions, "clock", lambda: NOW_MS)
    session = await run_prompt(engine, "hello")
    site, log = Site(engine, ENV), await engine.log.events(session.id)
    fresh = str(await page_at(engine, session.id, log, len(log)))
    for seq in range(3, len(log)):
        page, first = (
            await page_at(engine, session.id, log, seq),
            Cursor(-1, seq, wired=True, by_seq=True),
        )
        page.apply(frame_of(await _next_messages(site, session.id, first, slow=False)))
        again = Cursor(-1, first.seq, wired=True, by_seq=True, resumed=True)
        page.apply(frame_of(await _next_messages(site, session.id, again, slow=True)))
        assert str(page) == fresh, f"from {seq}"
