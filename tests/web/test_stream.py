"""The live stream: from any cursor it leads to the page that a reload would show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.core.events import CallChecked, Logged, PartDelta, PartStarted
from app.core.reducer import fold
from app.engine.engine import Engine
from app.engine.sessions import _follow
from app.render.blocks import PageFrame
from app.render.view import View
from app.render.wire_rows import WireRows
from app.web.site import Site
from app.web.stream import Cursor, _next, message
from tests.engine.running import asked, begun, running, until
from tests.render.page import ENV, NOW_MS, Page
from tests.tables import each_row

pytestmark = pytest.mark.anyio


@each_row(
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
    for one in sent.split("\n\n"):
        data = "\n".join(x.removeprefix("data: ") for x in one.split("\n") if x[:6] == "data: ")
        if one.startswith("event: grow"):
            grow += json.loads(data)
        elif one:
            html += data
    return PageFrame(html, [tuple(item) for item in grow])


async def page_at(engine: Engine, session_id: str, log: list[Logged], seq: int) -> Page:
    """A page as it was loaded after event `seq`."""
    wire = WireRows()
    _follow(wire, log[:seq], [])
    if seq == len(log):
        wire = WireRows()
        _follow(wire, log, await engine.log.chunks(session_id))
    async with engine.sessions.holding(session_id) as live:
        title = live.title
    return Page(View(fold(session_id, log[:seq]), title, wire, NOW_MS))


async def test_from_any_cursor_to_the_page_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as engine:
        prompt = "What is the weather in Paris, and what is 17 * 23?"
        session = await asked(engine, prompt, "get_weather", "calculator")
        assert session.state == "waiting"
        log = await engine.log.events(session.id)
        site = Site(engine, ENV)
        monkeypatch.setattr(engine.sessions, "clock", lambda: NOW_MS)
        fresh = str(await page_at(engine, session.id, log, len(log)))
        for seq in range(1, len(log) + 1):
            page = await page_at(engine, session.id, log, seq)
            cursor = Cursor(-1, seq, by_seq=True)
            page.apply(frame_of(await _next(site, session.id, cursor, slow=True)))
            assert str(page) == fresh, f"from {seq}"
            assert cursor.seq == len(log)
            assert await _next(site, session.id, cursor, slow=True) == ""
        for unknown in (Cursor(-1, -1, by_seq=True), Cursor(-1, 999, by_seq=True)):
            page = await page_at(engine, session.id, log, 2)
            page.apply(frame_of(await _next(site, session.id, unknown, slow=True)))
            assert str(page) == fresh


async def test_only_the_last_message_of_a_step_carries_its_cursor(tmp_path: Path) -> None:
    """Whoever loses the line within a step gets the whole of it again, text that grew or not."""
    async with running(tmp_path) as engine:
        session_id = await begun(engine)
        await engine.runner.prompt(session_id, "[[fault:stall-after-6]] hello")
        await until(engine, session_id, PartDelta)
        log = await engine.log.events(session_id)
        started = next(one.seq for one in log if isinstance(one.event, PartStarted))
        cursor = Cursor(-1, started, by_seq=True)
        sent = await _next(Site(engine, ENV), session_id, cursor, slow=True)
        grow, html = sent.split("\n\n")[:-1]
        assert grow.startswith("event: grow\n")
        assert "\nid: " not in grow
        assert html.endswith(f"\nid: {cursor.seq}")


async def test_a_page_that_has_it_all_is_sent_nothing_of_the_session(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        session = await asked(engine, "hello")
        site = Site(engine, ENV)
        cursor = Cursor(engine.sessions.position, -1, head=("hello", False, False, ()))
        sent = await _next(site, session.id, cursor, slow=True)
        assert "wire" not in sent
        assert "flow" not in sent


async def test_the_bar_which_shows_the_whole_session_follows_on_the_slow_beat(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as engine:
        session = await asked(engine, "hello")
        site, cursor = Site(engine, ENV), Cursor(-1, 3, by_seq=True)
        quick = await _next(site, session.id, cursor, slow=False)
        assert '"#head"' in quick
        assert '"#bar"' not in quick
        assert cursor.behind
        assert '"#bar"' in await _next(site, session.id, cursor, slow=True)
        assert '"#bar"' not in await _next(site, session.id, cursor, slow=True)


async def test_a_reader_of_each_moment_ends_with_the_same_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames taken while it streams, slow beats and fast ones in turn."""
    async with running(tmp_path, pace=0.1) as engine:
        monkeypatch.setattr(engine.sessions, "clock", lambda: NOW_MS)
        session = await asked(engine, "hello", "get_weather")
        site = Site(engine, ENV)
        log = await engine.log.events(session.id)
        page = await page_at(engine, session.id, log, len(log))
        cursor = Cursor(-1, len(log), by_seq=True)
        await engine.runner.prompt(session.id, "What is the weather in Paris?")
        beats = 0
        while True:
            position = engine.sessions.position
            sent = await _next(site, session.id, cursor, slow=beats % 3 == 0)
            page.apply(frame_of(sent))
            beats += 1
            log = await engine.log.events(session.id)
            if isinstance(log[-1].event, CallChecked) and cursor.seq == len(log):
                break
            await engine.sessions.wait(position, engine.sessions.list_version, 5)
        assert beats > 1
        page.apply(frame_of(await _next(site, session.id, cursor, slow=True)))
        assert str(page) == str(await page_at(engine, session.id, log, len(log)))
