"""The replay of a session: its timeline, its frames, and the page of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput
from app.engine import recorded_model
from app.render.blocks import block
from app.render.paging import Shown, Upto, shown_from
from app.render.replay import FRAME_MS, Fixed, Player, index, replay
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
    site, session_id = site_of(request), request.path_params["id"]
    async with site.engine.sessions.holding(session_id) as live:
        fixed = Fixed(session_id, live.title, site.engine.sessions.clock())
        log = await site.engine.log.events(session_id)
        recordings: dict[int, list[tuple[int, bytes]]] = {}
        for chunk in await site.engine.log.chunks(session_id):
            recordings.setdefault(chunk.recording, []).append((chunk.at_ms, chunk.data))
    return as_json(replay(log, site.env, recordings, fixed))


async def reel(request: Request) -> Response:
    """GET /sessions/ID/replay/reel: how long it is, and the places to jump to."""
    site = site_of(request)
    session_id = request.path_params["id"]
    sessions = site.engine.sessions
    return as_json(
        await site.reels.drawn(sessions, session_id, lambda player: index(player.reel), anew=True)
    )


async def frames(request: Request) -> Response:
    """GET /sessions/ID/replay/frames?from=K&every=MS&most=N: what leads on from position K."""
    site, asked = site_of(request), request.query_params
    start = _whole(asked, "from", 0)
    every = min(_whole(asked, "every", FRAME_MS), LONGEST_MS)
    most = min(max(_whole(asked, "most", MOST_FRAMES), 1), MOST_FRAMES)

    def drawn(player: Player) -> list[dict[str, object]]:
        player.shown = shown_from(asked.get("shown", ""))
        return list(player.frames(site.env, start, every, most))

    made = await site.reels.drawn(
        site.engine.sessions,
        request.path_params["id"],
        drawn,
    )
    return as_json({"frames": made})


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
    made = await recorded_model.play(engine, request.path_params["id"], body.text("pace") or "1")
    return answer(request, {"id": made}, status=201, location=f"/sessions/{made}")


async def page_at(site: Site, session_id: str, seq: int, shown: Shown, upto: Upto) -> Response:
    """The whole page as the session stood after event `seq`, with no more to press than where to
    go from there."""
    sessions = site.engine.sessions
    library = await site.engine.library.tools()
    rows = await site.rows()
    async with sessions.holding(session_id) as live:
        around, own = surroundings(site, live, library), live.own

    def drawn(player: Player) -> str:
        player.shown = shown
        view = replace(player.view(player.reel.of_seq(seq)), own=own, rows=rows, upto=upto)
        return session_page(site.env, view, replace(around, tab="wire"))

    return HTMLResponse(await site.reels.drawn(sessions, session_id, drawn, anew=True))


async def cards_at(site: Site, session_id: str, seq: int, shown: Shown, number: int) -> str:
    """More calls of turn `number` as they stood after event `seq`; the page's stream is told what
    is shown, for it tells the replay."""
    sessions = site.engine.sessions

    def drawn(player: Player) -> str:
        player.shown = shown
        view = player.view(player.reel.of_seq(seq))
        more = more_cards_shown(site.env, view, number)
        return more + stream_fragment(site.env, view, sessions.cursor)

    return await site.reels.drawn(sessions, session_id, drawn)


async def block_at(site: Site, session_id: str, seq: int, block_id: str, upto: Upto) -> str:
    """One block as it stood after event `seq`."""

    def drawn(player: Player) -> str:
        return block(site.env, replace(player.view(player.reel.of_seq(seq)), upto=upto), block_id)

    return await site.reels.drawn(site.engine.sessions, session_id, drawn)


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
