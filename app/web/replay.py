"""The replay of a session: its timeline, its frames, and the page of one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput
from app.engine import recorded_model
from app.render.blocks import block
from app.render.paging import Shown, Upto, shown_from
from app.render.replay import FRAME_MS, Player, index, replay
from app.render.view import View
from app.web.forms import answer, as_json, body_of
from app.web.session.setup import surroundings
from app.web.session.view import more_cards_shown, session_page, stream_fragment
from app.web.site import Site, site_of

MOST_FRAMES = 120
"""Of one answer; the page asks for more while it plays."""

LONGEST_MS = 10_000
"""Of the replay clock, that one frame may bring."""


async def played(request: Request) -> Response:
    """GET /sessions/ID/replay: every frame of the session with its time, at once."""
    site = site_of(request)
    now_ms = site.engine.sessions.clock()

    def drawn(player: Player) -> dict[str, object]:
        return replay(player.reel, site.env, replace(player.fixed, now_ms=now_ms))

    id = request.path_params["id"]
    return as_json(await site.reels.drawn(site.engine.sessions, id, drawn, anew=True))


async def reel(request: Request) -> Response:
    """GET /sessions/ID/replay/reel: how long it is, and the places to jump to."""
    site, id = site_of(request), request.path_params["id"]
    drawn = site.reels.drawn(site.engine.sessions, id, lambda player: index(player.reel), anew=True)
    return as_json(await drawn)


async def frames(request: Request) -> Response:
    """GET /sessions/ID/replay/frames?from=K&every=MS&most=N: what leads on from position K."""
    site, asked = site_of(request), request.query_params
    start = _whole(asked, "from", 0)
    every = min(_whole(asked, "every", FRAME_MS), LONGEST_MS)
    most = min(max(_whole(asked, "most", MOST_FRAMES), 1), MOST_FRAMES)

    def drawn(player: Player) -> list[dict[str, object]]:
        player.shown = shown_from(asked.get("shown", ""))
        return list(player.frames(site.env, start, every, most))

    id = request.path_params["id"]
    return as_json({"frames": await site.reels.drawn(site.engine.sessions, id, drawn)})


async def moment(request: Request) -> Response:
    """GET /sessions/ID/replay/at?position=K, ?seq=SEQ or ?ms=T: all that the page shows there."""
    site, asked = site_of(request), request.query_params

    def drawn(player: Player) -> dict[str, object]:
        player.shown = shown_from(asked.get("shown", ""))
        return player.keyframe(site.env, _position(player, asked))

    return as_json(await site.reels.drawn(site.engine.sessions, request.path_params["id"], drawn))


async def play(request: Request) -> Response:
    """POST /sessions/ID/play: a new session with this one's recording as its model."""
    body = await body_of(request)
    engine = site_of(request).engine
    new_id = await recorded_model.play(engine, request.path_params["id"], body.text("pace") or "1")
    return answer(request, {"id": new_id}, status=201, location=f"/sessions/{new_id}")


async def page_at(site: Site, session_id: str, seq: int, shown: Shown, upto: Upto) -> Response:
    """The whole page as the session stood after event `seq`, with no more to press than where to
    go from there."""
    library = await site.engine.library.tools()
    rows = await site.rows()
    async with site.engine.sessions.holding(session_id) as live:
        around, own = surroundings(site, live, library), live.own

    def page(view: View) -> str:
        view = replace(view, own=own, rows=rows, upto=upto)
        return session_page(site.env, view, replace(around, tab="wire"))

    return HTMLResponse(await _drawn_at(site, session_id, seq, shown, page, anew=True))


async def cards_at(site: Site, session_id: str, seq: int, shown: Shown, number: int) -> str:
    """More calls of turn `number` as they stood after event `seq`; the page's stream is told what
    is shown, for it tells the replay."""
    cursor = site.engine.sessions.cursor

    def cards(view: View) -> str:
        return more_cards_shown(site.env, view, number) + stream_fragment(site.env, view, cursor)

    return await _drawn_at(site, session_id, seq, shown, cards)


async def block_at(site: Site, session_id: str, seq: int, block_id: str, upto: Upto) -> str:
    """One block as it stood after event `seq`."""
    return await _drawn_at(
        site, session_id, seq, {}, lambda view: block(site.env, replace(view, upto=upto), block_id)
    )


async def _drawn_at(
    site: Site,
    session_id: str,
    seq: int,
    shown: Shown,
    draw: Callable[[View], str],
    *,
    anew: bool = False,
) -> str:
    def drawn(player: Player) -> str:
        player.shown = shown
        return draw(player.view(player.reel.of_seq(seq)))

    return await site.reels.drawn(site.engine.sessions, session_id, drawn, anew=anew)


def _position(player: Player, asked: Mapping[str, str]) -> int:
    if asked.get("seq"):
        return player.reel.of_seq(_whole(asked, "seq", 0))
    if asked.get("ms"):
        return player.reel.of_ms(_whole(asked, "ms", 0))
    return player.reel.within(_whole(asked, "position", player.reel.count))


def _whole(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadInput(f"{name} must be a whole number, 0 or more.")
    return int(text)


def place(asked: Mapping[str, str]) -> int | None:
    """The event that `?at=` names; None where it is not there."""
    return _whole(asked, "at", 0) if asked.get("at") else None
