"""A database that cannot be written: every page says so, Stop is obeyed, and it passes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from playground.core.events import RequestSent
from playground.engine.engine import Engine
from playground.store import database as database_module
from playground.store.database import CALM_S
from playground.web.app import make_app
from playground.web.side_by_side import _frames as beside_frames
from playground.web.side_by_side import initial_state
from playground.web.site import Site
from playground.web.stream import Cursor, _frames, _store_frames
from tests.engine.unwritable import FullDisk
from tests.engines import StartEngine, create_session
from tests.markup import joined_tags
from tests.waiting import wait_while_running
from tests.web.asking import BEARER, HERE, JSON, PAGE, PORT, TOKEN, call, scope_of
from tests.web.test_routes import silent

pytestmark = pytest.mark.anyio

SAID = "Nothing can be saved."
PAGES = (
    "/welcome", "/find", "/tools", "/tools/calculator", "/rules", "/providers", "/servers",
    "/agents", "/import", "/compare/new", "/sessions/{id}", "/sessions/{id}/share",
    "/sessions/{id}/fork", "/nowhere",
)  # fmt: skip


def make_store_app(engine: Engine) -> tuple[ASGIApp, Site]:
    return make_app(engine, token=TOKEN, port=lambda: PORT, simulator=silent)


async def request_app(
    app: ASGIApp, method: str, path: str, kind: tuple[str, str]
) -> tuple[int, str]:
    output = await call(app, scope_of(method, path, [("host", HERE), BEARER, kind]))
    return output.status, output.body.decode()


async def until_said(frames: AsyncIterator[str], flag: bool) -> None:
    """Until the page that is fed with `frames` shows the banner, or shows it no more."""
    async for frame in frames:
        if 'hx-target="#store"' in frame and (SAID in frame) is flag:
            return


async def test_every_page_says_it_and_stop_is_obeyed(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    app, site = make_store_app(engine)
    session_id, other = await create_session(engine), await create_session(engine)
    streams = [
        _store_frames(site),
        _frames(site, session_id, Cursor(-1, -1)),
        beside_frames(site, initial_state([session_id, other], -1)),
    ]
    disk = FullDisk(engine, monkeypatch, RequestSent)
    await engine.runner.prompt(session_id, "[[fault:stall-after-8]] hello")
    await disk.noticed()
    for stream in streams:
        await until_said(stream, True)
    for path in PAGES:
        _, html = await request_app(app, "GET", path.format(id=session_id), PAGE)
        assert html.count(SAID) == 1, path
        assert joined_tags(html).count('<div id="stream"') == 1, path
    status, text = await request_app(app, "GET", "/store", JSON)
    output = json.loads(text)
    assert (status, output["copy"], output["unsaved"] > 0) == (200, False, True)
    assert "full" in output["trouble"]
    status, text = await request_app(app, "POST", f"/sessions/{other}/pin", JSON)
    assert (status, "full" in text) == (503, True)
    assert (await request_app(app, "POST", f"/sessions/{session_id}/stop", JSON))[0] == 200
    _, html = await request_app(app, "GET", "/welcome", PAGE)
    assert "Stop has taken effect" in html
    await disk.lifted()
    assert (await wait_while_running(engine, session_id)).stopped
    for stream in streams:
        await until_said(stream, False)
    for path in PAGES:
        assert SAID not in (await request_app(app, "GET", path.format(id=session_id), PAGE))[1]
    assert json.loads((await request_app(app, "GET", "/store", JSON))[1]) == {
        "trouble": "", "copy": False, "unsaved": 0,
    }  # fmt: skip
    site.close()


async def test_a_disk_that_is_nearly_full_keeps_the_banner_until_writes_have_worked_for_long(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    app, site = make_store_app(engine)
    session_id = await create_session(engine)
    now, health = 100.0, engine.sessions.health
    health.clock = lambda: now

    async def banner() -> str:
        health.refresh()
        _, html = await request_app(app, "GET", "/welcome", PAGE)
        return html.partition('role="alert">')[2].partition("</div>")[0]

    disk = FullDisk(engine, monkeypatch)
    lines = set()
    for _ in range(3):
        disk.on = True
        status, _ = await request_app(app, "POST", f"/sessions/{session_id}/pin", JSON)
        assert status == 503
        lines.add(await banner())
        await disk.lifted()
        now += CALM_S - 0.1
        lines.add(await banner())
    assert all("the disk is full" in item for item in lines)
    assert len(lines) == 2  # once it says that something was saved, it goes on saying that
    now += 0.2
    assert await banner() == ""
    site.close()


async def test_a_deleted_file_is_written_anew_by_a_button(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    monkeypatch.setattr(database_module, "PROBE_S", 0.01)
    engine = await start_engine()
    app, site = make_store_app(engine)
    session_id = await create_session(engine)
    assert (await request_app(app, "POST", "/store/copy", JSON))[0] == 409
    (tmp_path / "test.db").unlink()
    status, text = await request_app(app, "POST", f"/sessions/{session_id}/pin", JSON)
    assert (status, "was deleted or moved" in text) == (503, True)
    assert json.loads((await request_app(app, "GET", "/store", JSON))[1])["copy"] is True
    for path in PAGES:
        _, html = await request_app(app, "GET", path.format(id=session_id), PAGE)
        assert 'action="/store/copy"' in html
    status, text = await request_app(app, "POST", "/store/copy", JSON)
    assert (status, json.loads(text)) == (200, {"path": str(tmp_path / "test.db")})
    assert (await request_app(app, "POST", f"/sessions/{session_id}/pin", JSON))[0] == 200
    assert json.loads((await request_app(app, "GET", "/store", JSON))[1])["trouble"] == ""
    site.close()
