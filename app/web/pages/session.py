"""One session: its page, its blocks, its bytes and its log."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    Response,
    StreamingResponse,
)

from app.core.errors import BadInput
from app.core.serialization import logged_data
from app.core.session import session_data
from app.engine.preview import preview
from app.engine.recorded_model import recorded_prompt
from app.engine.sessions import LiveSession
from app.render.blocks import block
from app.render.code import ShownCode
from app.render.pages import more_cards_shown, session_page, stream_fragment
from app.render.paging import Shown, Upto, shown_from, upto_from
from app.store.log import forks_of
from app.web.forms import as_json, wants
from app.web.pages.code import shown_code
from app.web.pages.column import column
from app.web.pages.request import drawable
from app.web.replay import block_at, cards_at, page_at, place
from app.web.rules.routes import rules_drawn
from app.web.setup import surroundings
from app.web.site import Site, site_of
from app.web.stream import HEADERS, events_stream

LONG, LONG_BYTES = 2_000, 512 * 1024
"""Events, and bytes that came back, beyond which the page does not wait for the rows of the wire:
they are made from all of these, and calls that were left out are no events."""

TABS = ("setup", "wire", "request", "code")


async def show(request: Request) -> Response:
    """GET /sessions/ID: the page, or the folded session as JSON; with `?at=SEQ` the page as it was
    after event SEQ."""
    site, session_id = site_of(request), request.path_params["id"]
    if wants(request) == "json":
        async with site.engine.sessions.holding(session_id) as live:
            return as_json(session_data(live.session, live.title))
    if request.query_params.get("column"):
        return await column(site, session_id)
    shown = shown_from(request.query_params.get("shown", ""))
    upto = upto_from(request.query_params.get("upto", ""))
    if (seq := place(request.query_params)) is not None:
        return await page_at(site, session_id, seq, shown, upto)
    tab, wire = request.query_params.get("tab", ""), request.query_params.get("wire", "")
    code = await shown_code(request) if tab == "code" else None
    return await page(site, session_id, tab=tab, wire=wire, code=code, cards=shown, upto=upto)


async def page(
    site: Site,
    session_id: str,
    *,
    tab: str = "",
    wire: str = "",
    code: ShownCode | None = None,
    raw: str = "",
    cards: Shown | None = None,
    upto: Upto | None = None,
) -> Response:
    """The whole page as the session stands now; `raw` is HTML for below the wire's rows, `cards`
    how much it shows of turns with many calls, `upto` how much of long texts."""
    rows = await site.rows()
    library = await site.engine.library.tools()
    version = site.engine.rules.version
    rules = await rules_drawn(site, session_id)
    forked = bool(await forks_of(site.engine.database, session_id))
    async with site.engine.sessions.holding(session_id) as live:
        late = not tab and await _is_late(site, live)
        view = await site.view(live, rows, wired=not late, shown=cards, now=True)
        around = surroundings(site, live, library)
        heard_ms, say = await _heard(site, live), await _say(site, live)
    # Thousands of calls take seconds: others go on meanwhile, and nobody waits for the session.
    view = replace(view, upto=upto or {})
    if tab not in TABS:
        tab = "wire" if view.session.turns else "setup"
    shown = None
    if tab == "request":
        # In a thread, for images make a request of many megabytes; other tabs show none.
        whole = await asyncio.to_thread(preview, site.engine, view.session, wire=wire)
        shown = drawable(whole, wire)
    around = replace(
        around,
        tab=tab,
        wire=wire,
        request=shown,
        code=code,
        raw=raw,
        heard_ms=heard_ms,
        say=say,
        rules=rules,
        rules_version=version,
        wire_late=late,
        forked=forked,
    )
    return HTMLResponse(await asyncio.to_thread(session_page, site.env, view, around))


async def _is_late(site: Site, live: LiveSession) -> bool:
    """Whether a page goes ahead of the rows of the wire."""
    if live.session.state == "running":
        return False
    return live.session.seq > LONG or await site.engine.log.recorded(live.id) > LONG_BYTES


async def _heard(site: Site, live: LiveSession) -> int:
    """When the last byte of an answer came that still streams; 0 where there is none."""
    turn = live.session.turn
    if turn is None or not turn.open:
        return 0
    return await site.engine.log.heard_ms(live.id, turn.number)


async def _say(site: Site, live: LiveSession) -> str:
    """What was asked next where a recording answers."""
    settings = live.session.settings
    played = settings.profile.recorded if settings is not None else ""
    return (
        await recorded_prompt(site.engine.log, played, live.session.prompts + 1) if played else ""
    )


async def more_cards(request: Request) -> Response:
    """GET /sessions/ID/cards/TURN?shown=: the calls of a turn that a page shows from now on, which
    `shown` says, with all that knows of it: what runs at one key, and the page's own stream. With
    `at` those of a moment of the replay."""
    site, session_id = site_of(request), request.path_params["id"]
    shown, number = shown_from(request.query_params.get("shown", "")), _turn_number(request)
    if (seq := place(request.query_params)) is not None:
        html = await cards_at(site, session_id, seq, shown, number)
        return HTMLResponse(html)
    async with site.engine.sessions.holding(session_id) as live:
        view = await site.view(live, wired=False, shown=shown, now=True)
        position = site.engine.sessions.position
    drawn = await asyncio.to_thread(more_cards_shown, site.env, view, number)
    return HTMLResponse(drawn + stream_fragment(site.env, view, position))


def _turn_number(request: Request) -> int:
    number: str = request.path_params["turn"]
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise BadInput("A turn is named by its number; load the page again.")
    return int(number)


async def one_block(request: Request) -> Response:
    """GET /sessions/ID/blocks/BLOCK: one block again; `?all=1` shows what is long whole, `?upto=N`
    the first N characters of its text; with `?at=SEQ` as it was after event SEQ."""
    site, asked = site_of(request), request.query_params
    block_id = request.path_params["block"]
    upto = upto_from(f"{block_id}.{asked.get('upto', '')}")
    if (seq := place(asked)) is not None:
        return HTMLResponse(await block_at(site, request.path_params["id"], seq, block_id, upto))
    async with site.engine.sessions.holding(request.path_params["id"]) as live:
        view = replace(await site.view(live, now=True), upto=upto)
    if asked.get("all"):
        view = replace(view, expanded=frozenset({block_id}))
    return HTMLResponse(await asyncio.to_thread(block, site.env, view, block_id))


async def events(request: Request) -> Response:
    """GET /sessions/ID/events?after=SEQ: the log as JSON Lines, or live as a stream."""
    site, session_id = site_of(request), request.path_params["id"]
    sent = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    if not (sent.isascii() and sent.isdigit() and len(sent) < 16):
        raise BadInput("after must be a whole number, the seq of the last event you have.")
    async with site.engine.sessions.holding(session_id):
        pass
    if "text/event-stream" in request.headers.get("accept", ""):
        return StreamingResponse(
            events_stream(site, session_id, int(sent)),
            media_type="text/event-stream",
            headers=HEADERS,
        )
    lines = [
        json.dumps(logged_data(item)) + "\n"
        for item in await site.engine.log.events(session_id, int(sent))
    ]
    return Response("".join(lines), media_type="application/x-ndjson")
