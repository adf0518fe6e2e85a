"""The page of one session, now or at a moment of its replay: its blocks, its recorded bytes and its
log."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)

from playground.core.errors import BadInput, NotFound
from playground.core.events import RequestSent
from playground.core.serialization import logged_data
from playground.core.session import session_data
from playground.engine import recorded_model
from playground.engine.preview import preview
from playground.engine.recorded_model import recorded_prompt
from playground.engine.sessions import LiveSession
from playground.protocols.request import request_changes
from playground.render.blocks import Touch, block, frame_html
from playground.render.paging import ShownCounts, Upto, shown_from, upto_from
from playground.render.replay import FRAME_MS, Player, index, replay
from playground.render.view import View
from playground.store.log import forks_of
from playground.store.writes import Chunk
from playground.web.forms import answer, answer_format, as_json, body_of
from playground.web.guard import FRAMED, as_text
from playground.web.rules import rules_html
from playground.web.session.requests import (
    ShownChanges,
    changes_fragment,
    shown_code,
    to_next_request,
)
from playground.web.session.setup import page_context
from playground.web.session.view import (
    column_page,
    more_cards_shown,
    session_page,
    stream_fragment,
    wire_rows_shown,
)
from playground.web.session.view import request_sent as drawn_request
from playground.web.session.wire_view import (
    FRAMES,
    ShownCode,
    Span,
    find_matches,
    frame_rows,
    frames_html,
    matches_html,
    raw_html,
    raw_page,
)
from playground.web.site import Site, site_of
from playground.web.stream import HEADERS, events_stream

LONG, LONG_BYTES = 2_000, 512 * 1024
"""Numbers of events and of received bytes above which the page does not wait for the rows of the
wire: they are built from all of these, and calls that were left out are not events."""

MOST_BLOCKS = 100
"""The maximum number of blocks per request."""

TABS = ("setup", "wire", "request", "code")

LONGEST_QUERY = 200

MOST_FRAMES = 120
"""The maximum per response; the page requests more while it plays."""

LONGEST_MS = 10_000
"""The maximum time that one frame may cover, in ms of the replay clock."""


async def show(request: Request) -> Response:
    """GET /sessions/ID?at=SEQ&column=: shows a session as a page, or folded as JSON. With `at`, the
    page after event SEQ; with `column`, the page in a frame."""
    site, session_id = site_of(request), request.path_params["id"]
    if answer_format(request) == "json":
        async with site.engine.sessions.lock_session(session_id) as live:
            return as_json(session_data(live.session, live.title))
    if request.query_params.get("column"):
        return await column(site, session_id)
    shown = shown_from(request.query_params.get("shown", ""))
    upto = upto_from(request.query_params.get("upto", ""))
    if (seq := requested_seq(request.query_params)) is not None:
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
    cards: ShownCounts | None = None,
    upto: Upto | None = None,
) -> Response:
    """The whole page of the session's current state; `raw` is HTML for below the wire's rows,
    `cards` is how many calls of long turns it shows, `upto` how much of long texts."""
    rows = await site.rows()
    library = await site.engine.library.tools()
    version = site.engine.rules.version
    rules = await rules_html(site, session_id)
    has_forks = bool(await forks_of(site.engine.database, session_id))
    async with site.engine.sessions.lock_session(session_id) as live:
        turns, named = live.session.turns, tab in TABS
        tab = tab if named else "wire" if turns else "setup"
        late = tab != "wire" or (not named and await _is_late(site, live))
        view = await site.view(live, rows, wired=not late, shown=cards, now=True)
        around = page_context(site, live, library)
        say = await _next_recorded(site, live)
    # Thousands of calls take seconds: others run meanwhile, and the session is not blocked.
    view = replace(view, upto=upto or {})
    shown = None
    if tab == "request":
        # In a thread, because images make requests of many megabytes; other tabs show none.
        whole = await asyncio.to_thread(preview, site.engine, view.session, wire=wire)
        shown = to_next_request(whole, wire)
    around = replace(
        around,
        tab=tab,
        wire=wire,
        request=shown,
        code=code,
        raw=raw,
        say=say,
        rules=rules,
        rules_version=version,
        wire_late=late,
        has_forks=has_forks,
    )
    return HTMLResponse(await asyncio.to_thread(session_page, site.env, view, around))


async def _is_late(site: Site, live: LiveSession) -> bool:
    """Whether the page is sent before the rows of the wire are ready."""
    if live.session.state == "running":
        return False
    return live.session.seq > LONG or await site.engine.log.recorded_size(live.id) > LONG_BYTES


async def _next_recorded(site: Site, live: LiveSession) -> str:
    """The next prompt of the original session, if a recording answers."""
    settings = live.session.settings
    played = settings.profile.recorded if settings is not None else ""
    return (
        await recorded_prompt(site.engine.log, played, live.session.prompts + 1) if played else ""
    )


async def more_cards(request: Request) -> Response:
    """GET /sessions/ID/cards/TURN?shown=&at=SEQ: draws the calls of a turn that a page shows from
    now on (`shown`), with all blocks that depend on the selection: what one key runs, and the
    page's own stream. With `at`, those of a moment of the replay.

    ---
    responses:
      200: {description: Pieces of the page., content: {text/html: {}}}
    """
    site, session_id = site_of(request), request.path_params["id"]
    shown = shown_from(request.query_params.get("shown", ""))
    number: int = request.path_params["turn"]
    if (seq := requested_seq(request.query_params)) is not None:
        html = await cards_at(site, session_id, seq, shown, number)
        return HTMLResponse(html)
    async with site.engine.sessions.lock_session(session_id) as live:
        view = await site.view(live, wired=False, shown=shown, now=True)
        cursor = site.engine.sessions.cursor
    drawn = await asyncio.to_thread(more_cards_shown, site.env, view, number)
    return HTMLResponse(drawn + stream_fragment(site.env, view, cursor))


async def one_block(request: Request) -> Response:
    """GET /sessions/ID/blocks/BLOCK?all=1&upto=N&at=SEQ: redraws one block. `all` shows long
    content whole, `upto` the first N characters of its text, `at` its state after event SEQ.

    ---
    responses:
      200: {description: A piece of the page., content: {text/html: {}}}
    """
    site, asked = site_of(request), request.query_params
    block_id = request.path_params["block"]
    upto = upto_from(f"{block_id}.{asked.get('upto', '')}")
    if (seq := requested_seq(asked)) is not None:
        return HTMLResponse(await block_at(site, request.path_params["id"], seq, block_id, upto))
    async with site.engine.sessions.lock_session(request.path_params["id"]) as live:
        view = replace(await site.view(live, now=True), upto=upto)
    if asked.get("all"):
        view = replace(view, expanded=frozenset({block_id}))
    return HTMLResponse(await asyncio.to_thread(block, site.env, view, block_id))


async def blocks(request: Request) -> Response:
    """GET /sessions/ID/blocks?ids=BLOCK,...&shown=: draws blocks that a page does not have yet,
    each as the piece for its place. `shown` is the page's selection.

    ---
    responses:
      200: {description: Pieces of the page., content: {text/html: {}}}
    """
    site, asked = site_of(request), request.query_params
    ids = list(dict.fromkeys(asked.get("ids", "").split(",")))
    if len(ids) > MOST_BLOCKS:
        raise BadInput(f"At most {MOST_BLOCKS} blocks come at once; reload the page.")
    shown = shown_from(asked.get("shown", ""))
    wired = any(block_id.startswith("wire") for block_id in ids)
    async with site.engine.sessions.lock_session(request.path_params["id"]) as live:
        view = await site.view(live, wired=wired, shown=shown, now=True)
    steps = [Touch(block_id, "changed") for block_id in ids]
    return HTMLResponse(await asyncio.to_thread(frame_html, site.env, view, steps))


async def events(request: Request) -> Response:
    """GET /sessions/ID/events?after=SEQ: reads the log of a session as JSON Lines, or live as a
    stream.

    ---
    responses:
      200:
        description: An event a line.
        content:
          application/x-ndjson: {schema: {$ref: "#/components/schemas/Event"}}
          text/event-stream: {}
    """
    site, session_id = site_of(request), request.path_params["id"]
    sent = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    if not (sent.isascii() and sent.isdigit() and len(sent) < 16):
        raise BadInput("after must be a whole number: the seq of the last event received.")
    async with site.engine.sessions.lock_session(session_id):
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


# One session as a column of a page that shows several, GET /sessions/ID?column=1: the session's
# page without the list, the inspector and the composer. The outer page may frame it.


async def column(site: Site, session_id: str) -> Response:
    """NotFound if the session does not exist."""
    async with site.engine.sessions.lock_session(session_id) as live:
        view = await site.view(live, wired=False, framed=True)
        html = column_page(site.env, view, site.engine.sessions.cursor)
    return HTMLResponse(html, headers=as_text(FRAMED))


# The bytes of a session: requests and responses, shown, searched and downloaded.


async def recording(request: Request) -> Response:
    """GET /sessions/ID/recordings/N?start=A&end=B: reads bytes of a recording as received. In the
    page: a page of them from `at` on, `as` text or hex, with `mark` A-B shown.

    ---
    responses:
      200: {description: The bytes., content: {text/plain: {}, text/html: {}}}
    """
    site, session_id = site_of(request), request.path_params["id"]
    number = request.path_params["number"]
    await _sent_request(request, number)
    data = _join_chunks(await site.engine.log.chunks(session_id, number))
    span = _span(request, len(data))
    if answer_format(request) != "htmx":
        return PlainTextResponse(data[span[0] : span[1]])
    closed = (await site.engine.log.recordings(session_id)).get(number)
    page = raw_page(
        number,
        data,
        span,
        closed.masked if closed is not None else (),
        at=_place(request, "at", -1, len(data)),
        as_hex=request.query_params.get("as") == "hex",
        hit=_mark(request, len(data)),
    )
    return HTMLResponse(raw_html(site.env, session_id, page))


async def recorded_bytes(request: Request) -> Response:
    """GET /sessions/ID/recordings/N/bytes: downloads a whole recording.

    ---
    responses:
      200: {description: The file., content: {application/octet-stream: {}}}
    """
    site, number = site_of(request), request.path_params["number"]
    _, title = await _sent_request(request, number)
    data = _join_chunks(await site.engine.log.chunks(request.path_params["id"], number))
    return download(data, f"{title} answer {number}.bin")


async def frames(request: Request) -> Response:
    """GET /sessions/ID/recordings/N/frames?start=A&end=B&first=K: lists the frames of a
    recording."""
    site, session_id = site_of(request), request.path_params["id"]
    number = request.path_params["number"]
    await _sent_request(request, number)
    async with site.engine.sessions.lock_session(session_id) as live:
        sections = (await site.engine.sessions.wire(live)).sections
        sent_ms = sections[number - 1].sent_ms if number <= len(sections) else 0
    chunks = await site.engine.log.chunks(session_id, number)
    span = _span(request, sum(len(chunk.data) for chunk in chunks))
    pieces = [(chunk.at_ms, chunk.data) for chunk in chunks]
    frames_found = await asyncio.to_thread(frame_rows, pieces, span, sent_ms)
    first = _place(request, "first", 0, len(frames_found))
    if answer_format(request) == "json":
        return as_json(
            [
                {"start": frame.start, "end": frame.end, "at_ms": frame.at_ms, "text": frame.data}
                for frame in frames_found[first : first + FRAMES]
            ]
        )
    return await _wire_detail(
        request,
        frames_html(
            site.env,
            session_id=session_id,
            number=number,
            span=span,
            frames=frames_found,
            first=first,
        ),
    )


async def more_rows(request: Request) -> Response:
    """GET /sessions/ID/recordings/N/rows?from=A&to=B: draws rows of a recording that the page does
    not show yet: the first of those from A on, and a link to the others before B.

    ---
    responses:
      200: {description: Rows of the page., content: {text/html: {}}}
    """
    site, number = site_of(request), request.path_params["number"]
    async with site.engine.sessions.lock_session(request.path_params["id"]) as live:
        view = await site.view(live)
        if not 0 < number <= len(view.wire.sections):
            raise NotFound(f"This session has no recording {number}.")
        most = len(view.wire.sections[number - 1].rows)
        start, end = _place(request, "from", 0, most), _place(request, "to", most, most)
        return HTMLResponse(wire_rows_shown(site.env, view, number, start, end))


async def search(request: Request) -> Response:
    """GET /sessions/ID/wire?q=TEXT: searches the received bytes of a session."""
    site, session_id = site_of(request), request.path_params["id"]
    text = request.query_params.get("q", "").strip()
    if not text or len(text) > LONGEST_QUERY:
        raise BadInput(f"Enter what to find, in at most {LONGEST_QUERY} characters.")
    async with site.engine.sessions.lock_session(session_id) as live:
        wire = await site.engine.sessions.wire(live)
        chunks = await site.engine.log.chunks(session_id)
        bodies: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            bodies.setdefault(chunk.recording, []).append(chunk)
        joined = [(number, _join_chunks(several)) for number, several in sorted(bodies.items())]
        hits = await asyncio.to_thread(find_matches, text, joined, wire)
    if answer_format(request) == "json":
        return as_json(
            [
                {"recording": hit.recording, "start": hit.start, "end": hit.end, "row": hit.row}
                for hit in hits
            ]
        )
    return await _wire_detail(request, matches_html(site.env, session_id, text, hits))


async def request_sent(request: Request) -> Response:
    """GET /sessions/ID/requests/N: reads a request as sent, with the names of keys.

    ---
    responses:
      200: {description: The body of the request., content: {text/plain: {}, text/html: {}}}
    """
    site = site_of(request)
    sent, _ = await _sent_request(request, request.path_params["number"], "request")
    if answer_format(request) == "htmx":
        return HTMLResponse(drawn_request(site.env, sent))
    return PlainTextResponse(sent.body)


async def request_body(request: Request) -> Response:
    """GET /sessions/ID/requests/N/body: downloads the body of a request.

    ---
    responses:
      200: {description: The file., content: {application/octet-stream: {}}}
    """
    number = request.path_params["number"]
    sent, title = await _sent_request(request, number, "request")
    return download(sent.body.encode("utf-8", "replace"), f"{title} request {number}.json")


async def compare_request(request: Request) -> Response:
    """GET /sessions/ID/requests/N/changes: compares request N with the one before it."""
    site, session_id = site_of(request), request.path_params["id"]
    number = request.path_params["number"]
    if number == 1:
        raise NotFound(
            "This is the first request of the session, so there is no earlier one to compare."
        )
    async with site.engine.sessions.lock_session(session_id) as live:
        turns = live.session.turns
        if not 1 < number <= len(turns):
            raise NotFound(f"This session has no request {number}.")
        before, now = turns[number - 2], turns[number - 1]
    # In a thread, because bodies may have megabytes.
    changes = await asyncio.to_thread(request_changes, before.request, now.request)
    shown = ShownChanges(session_id, before, now, changes)
    if answer_format(request) == "json":
        return as_json(shown.data())
    return await _wire_detail(request, changes_fragment(site.env, shown))


async def _wire_detail(request: Request, html: str) -> Response:
    """The area below the wire's rows: alone, or in the page if there is no script."""
    if answer_format(request) == "htmx":
        return HTMLResponse(html)
    return await page(site_of(request), request.path_params["id"], tab="wire", raw=html)


def download(data: bytes, name: str) -> Response:
    """`data` as a file of that name, which may have any characters (RFC 5987 and ASCII)."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "session"
    quoted = quote(re.sub(r"[\x00-\x1f\x7f/\\:]+", " ", name).encode("utf-8", "replace"), safe="")
    headers = {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quoted}"
    }
    return Response(data, 200, headers, "application/octet-stream")


async def _sent_request(
    request: Request, number: int, what: str = "recording"
) -> tuple[RequestSent, str]:
    """Request `number` and the session's title; NotFound if there is none."""
    async with site_of(request).engine.sessions.lock_session(request.path_params["id"]) as live:
        if not 0 < number <= len(live.session.turns):
            raise NotFound(f"This session has no {what} {number}.")
        return live.session.turns[number - 1].request, live.title or "session"


def _join_chunks(chunks: Sequence[Chunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def _span(request: Request, most: int) -> Span:
    start = _place(request, "start", 0, most)
    return start, max(start, _place(request, "end", most, most))


def _place(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadInput(f"{name} must be a whole number of bytes.")
    return min(int(text), most)


def _mark(request: Request, most: int) -> Span:
    match = re.fullmatch(r"([0-9]{1,15})-([0-9]{1,15})", request.query_params.get("mark", ""))
    return (min(int(match[1]), most), min(int(match[2]), most)) if match else (0, 0)


# The replay: its timeline, its frames, and the page of one moment.


async def whole_replay(request: Request) -> Response:
    """GET /sessions/ID/replay: reads every frame of a session with its time, at once.

    ---
    responses:
      200: {description: The frames.}
    """
    site = site_of(request)
    now_ms = site.engine.sessions.clock()

    def render(player: Player) -> dict[str, object]:
        return replay(player.timeline, site.env, replace(player.fixed, now_ms=now_ms))

    id = request.path_params["id"]
    return as_json(await site.replays.render(site.engine.sessions, id, render, latest=True))


async def replay_index(request: Request) -> Response:
    """GET /sessions/ID/replay/reel: reads the length of a replay, and the places to jump to.

    ---
    responses:
      200: {description: The length and the places.}
    """
    site, id = site_of(request), request.path_params["id"]
    drawn = site.replays.render(
        site.engine.sessions, id, lambda player: index(player.timeline), latest=True
    )
    return as_json(await drawn)


async def replay_frames(request: Request) -> Response:
    """GET /sessions/ID/replay/frames?from=K&every=MS&most=N: reads the frames of a replay from
    position K on.

    ---
    responses:
      200: {description: The frames.}
    """
    site, asked = site_of(request), request.query_params
    start = _whole_number(asked, "from", 0)
    every = min(_whole_number(asked, "every", FRAME_MS), LONGEST_MS)
    most = min(max(_whole_number(asked, "most", MOST_FRAMES), 1), MOST_FRAMES)

    def render(player: Player) -> list[dict[str, object]]:
        player.shown = shown_from(asked.get("shown", ""))
        return list(player.frames(site.env, start, every, most))

    id = request.path_params["id"]
    return as_json({"frames": await site.replays.render(site.engine.sessions, id, render)})


async def moment(request: Request) -> Response:
    """GET /sessions/ID/replay/at?position=K or ?seq=SEQ or ?ms=T: reads everything that the page
    shows at a place of a replay.

    ---
    responses:
      200: {description: A frame.}
    """
    site, asked = site_of(request), request.query_params

    def render(player: Player) -> dict[str, object]:
        player.shown = shown_from(asked.get("shown", ""))
        return player.keyframe(site.env, _position(player, asked))

    return as_json(
        await site.replays.render(site.engine.sessions, request.path_params["id"], render)
    )


async def play(request: Request) -> Response:
    """POST /sessions/ID/play: creates a session that has this one's recording as its model.

    ---
    responses:
      201: {description: The id of the session.}
    """
    body = await body_of(request)
    engine = site_of(request).engine
    new_id = await recorded_model.play(engine, request.path_params["id"], body.text("pace") or "1")
    return answer(request, {"id": new_id}, status=201, location=f"/sessions/{new_id}")


async def page_at(
    site: Site, session_id: str, seq: int, shown: ShownCounts, upto: Upto
) -> Response:
    """The whole page of the session after event `seq`; its only controls are links to other
    positions."""
    library = await site.engine.library.tools()
    rows = await site.rows()
    async with site.engine.sessions.lock_session(session_id) as live:
        around, own = page_context(site, live, library), live.own

    def page(view: View) -> str:
        view = replace(view, own=own, rows=rows, upto=upto)
        return session_page(site.env, view, replace(around, tab="wire"))

    return HTMLResponse(await _render_at(site, session_id, seq, shown, page, latest=True))


async def cards_at(site: Site, session_id: str, seq: int, shown: ShownCounts, number: int) -> str:
    """More calls of turn `number` after event `seq`; the page's stream element is updated with the
    selection, because it passes it to the replay."""
    cursor = site.engine.sessions.cursor

    def cards(view: View) -> str:
        return more_cards_shown(site.env, view, number) + stream_fragment(site.env, view, cursor)

    return await _render_at(site, session_id, seq, shown, cards)


async def block_at(site: Site, session_id: str, seq: int, block_id: str, upto: Upto) -> str:
    """One block after event `seq`."""
    return await _render_at(
        site, session_id, seq, {}, lambda view: block(site.env, replace(view, upto=upto), block_id)
    )


async def _render_at(
    site: Site,
    session_id: str,
    seq: int,
    shown: ShownCounts,
    draw: Callable[[View], str],
    *,
    latest: bool = False,
) -> str:
    def render(player: Player) -> str:
        player.shown = shown
        return draw(player.view(player.timeline.position_of_seq(seq)))

    return await site.replays.render(site.engine.sessions, session_id, render, latest=latest)


def _position(player: Player, asked: Mapping[str, str]) -> int:
    if asked.get("seq"):
        return player.timeline.position_of_seq(_whole_number(asked, "seq", 0))
    if asked.get("ms"):
        return player.timeline.position_of_ms(_whole_number(asked, "ms", 0))
    return player.timeline.clamp(_whole_number(asked, "position", player.timeline.count))


def _whole_number(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadInput(f"{name} must be a whole number, 0 or more.")
    return int(text)


def requested_seq(asked: Mapping[str, str]) -> int | None:
    """The event that `?at=` names; None if absent."""
    return _whole_number(asked, "at", 0) if asked.get("at") else None
