"""The live stream: a cursor, and the blocks touched since.

A stream holds no state of a session. It wakes when its session changes, reads the events after its
cursor from the store, renders the touched blocks in their current state, and sends them as one
frame whose `id:` is the new cursor. A slow tab gets fewer, larger frames; a reader with an unknown
cursor gets everything once. Growing text is sent first, as a `grow` event, which is idempotent; the
HTML is sent last and carries the id, so that no block is added twice.

The page's own stream shows deltas before they are saved, and its cursor carries the epoch; the
stream of one session (`by_seq`) shows only saved events. While only text grows, nothing else is
examined: the list, the wire's rows and problems of incomplete arguments follow at a slower
interval. The wire's rows are built for a page that has loaded their section and requests them
(`wire=1`); to any page a `heard` event reports that bytes arrived, which may have no visible
effect.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import StreamingResponse

from playground.core.errors import NotFound, StoreError
from playground.core.events import Logged, SettingsChanged
from playground.core.serialization import logged_data
from playground.engine.sessions import LiveSession, SessionStore
from playground.render.blocks import PageFrame, Touch, frame, frame_html, text_growth
from playground.render.environment import partial, store_banner
from playground.render.paging import ShownCounts, most_of, shown_from
from playground.render.view import SessionRow, View
from playground.web.rules import rules_partial
from playground.web.session.setup import setup_partial
from playground.web.site import Site, site_of

FRAME_S = 0.016
"""A stream sends the first frame after a pause at once, then at most one every 16 ms; frames of the
slow interval do not count."""

SLOW_S = 0.2
SLOW_SHARE = 0.1
"""The list, the bar and the wire's rows follow at most this often, and take at most this share of
the time: each costs in proportion to its content. Text never waits for them."""
SLOWEST_S = 2.0
"""... but at least every this many seconds, whatever it costs."""

KEEP_ALIVE_S = 15.0

SNAPSHOT = tuple(Touch(name, "changed") for name in ("head", "flow", "bar", "dock", "tasks"))
WIRE = Touch("wire", "changed")

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_NO_SESSION = "-"
"""The channel of pages without a session: changes that are not events of a session."""


@dataclass
class Cursor:
    """What this stream's reader has: position in the epoch, the session's seq, wire, list, title,
    and the version of the rules; `shown` is how many calls of long turns it shows.

    `wired`: it shows the wire; `wire` is the wire version it has, None until known. `behind`:
    updates may be waiting for the slow interval; `late` are the blocks among them, initially the
    bar, because the previous stream may have ended before an interval. `list` and `marks` are the
    versions checked last, `heard` the number of bytes reported. `resumed`: the reader had another
    stream before, and its wire may lack what that one had not sent.
    """

    position: int
    seq: int
    wired: bool = False
    wire: int | None = None
    heard: tuple[int, int] | None = None
    list: int = -1
    marks: int = -1
    late: set[str] = field(default_factory=lambda: {"bar"})
    rows: Sequence[SessionRow] | None = None
    head: tuple[str, bool, bool, tuple[str, ...], str] | None = None
    unasked: tuple[str, ...] | None = None
    rules: int = 0
    store: str = ""
    shown: ShownCounts = field(default_factory=dict)
    slow_at: float = 0.0
    behind: bool = True
    by_seq: bool = False
    resumed: bool = False


def message(data: str, *, event: str = "", id: str = "") -> str:
    """One server-sent message. `data` is split at every line end a browser knows, `\\n` only."""
    lines = [f"event: {event}"] if event else []
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines += ["data: " + line for line in text.split("\n")]
    if id:
        lines.append(f"id: {id}")
    return "\n".join(lines) + "\n\n"


async def page_stream(request: Request) -> StreamingResponse:
    """GET /stream?session=ID&after=CURSOR&rules=VERSION&shown=TURN.CALLS&wire=1: all updates of one
    page, the wire only with `wire`; with `store` only the state of the database, for pages without
    a session."""
    site = site_of(request)
    if request.query_params.get("store"):
        return stream_response(_store_frames(site))
    session_id = request.query_params.get("session", "")
    if session_id:
        await _exists(site, session_id)
    position = site.engine.sessions.position_of(reader_cursor(request))
    rules = _number(request.query_params.get("rules", ""))
    shown = shown_from(request.query_params.get("shown", ""))
    wired = bool(request.query_params.get("wire"))
    cursor = Cursor(position, -1, wired=wired, rules=rules, shown=shown)
    cursor.resumed = _is_resumed(request)
    return stream_response(_frames(site, session_id, cursor))


async def session_stream(request: Request) -> StreamingResponse:
    """GET /sessions/ID/stream?after=SEQ: streams one session as HTML. `id:` is its seq.

    ---
    responses:
      200: {description: A stream., content: {text/event-stream: {}}}
    """
    site = site_of(request)
    session_id = request.path_params["id"]
    await _exists(site, session_id)
    seq = _number(reader_cursor(request))
    cursor = Cursor(-1, seq, wired=True, by_seq=True, resumed=_is_resumed(request))
    return stream_response(_frames(site, session_id, cursor))


async def events_stream(site: Site, session_id: str, after: int) -> AsyncIterator[str]:
    """The log itself as it grows: one JSON line a message."""
    sessions = site.engine.sessions
    with sessions.listen(session_id) as bell:
        while not site.closing:
            bell.clear()
            try:
                async with sessions.lock_session(session_id):
                    logged = await site.engine.log.events(session_id, after)
            except NotFound:
                return  # the session was purged
            for item in logged:
                after = item.seq
                yield message(json.dumps(logged_data(item)), id=str(item.seq))
            if not await bell.wait(KEEP_ALIVE_S):
                yield ": keep-alive\n\n"


def stream_response(frames: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(frames, media_type="text/event-stream", headers=HEADERS)


async def _exists(site: Site, session_id: str) -> None:
    if await site.engine.log.summary(session_id) is None:
        raise NotFound(f"There is no session {session_id!r}.")


def reader_cursor(request: Request) -> str:
    """The cursor of the request, or ""."""
    return request.headers.get("last-event-id") or request.query_params.get("after", "")


def _is_resumed(request: Request) -> bool:
    """Whether the reader had another stream before; a first one has its cursor in the query."""
    return "last-event-id" in request.headers


def _number(sent: str) -> int:
    """-1, which is never a known position, if absent or invalid."""
    return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 16 else -1


async def _frames(site: Site, session_id: str, cursor: Cursor) -> AsyncIterator[str]:
    sessions, loop, next_at = site.engine.sessions, asyncio.get_running_loop(), 0.0
    with sessions.listen(session_id) as bell:
        while not site.closing:
            bell.clear()
            began = loop.time()
            slow = began >= cursor.slow_at
            try:
                sent = await _next_messages(site, session_id, cursor, slow=slow)
            except NotFound:
                return  # another page purged it; a new request gets a 404
            took_s = loop.time() - began
            if sent:
                yield sent
            now = loop.time()
            text_alone = cursor.behind and bool(sent)
            if slow and (sent or cursor.behind) and not text_alone:
                cursor.slow_at = now + min(max(SLOW_S, took_s / SLOW_SHARE), SLOWEST_S)
            elif sent:
                next_at = now + FRAME_S
            wait_s = cursor.slow_at - now if cursor.behind else KEEP_ALIVE_S
            if wait_s <= 0:
                continue  # slower blocks follow the text at once
            if not await bell.wait(wait_s) and not cursor.behind:
                yield ": keep-alive\n\n"
            if (rest_s := next_at - loop.time()) > 0:
                await asyncio.sleep(rest_s)


async def _store_frames(site: Site) -> AsyncIterator[str]:
    sessions, shown = site.engine.sessions, None
    with sessions.listen(_NO_SESSION) as bell:
        while not site.closing:
            bell.clear()
            html = store_banner(site.env)
            if html != shown:
                shown = html
                yield message(partial("store", "outerMorph", html))
            elif not await bell.wait(KEEP_ALIVE_S):
                yield ": keep-alive\n\n"
            else:
                await asyncio.sleep(SLOW_S)


async def _next_messages(site: Site, session_id: str, cursor: Cursor, *, slow: bool) -> str:
    """The news for the reader, as messages; "" if there is nothing to send now."""
    sessions, env = site.engine.sessions, site.env
    if not session_id:
        cursor.position, cursor.behind = sessions.position, cursor.behind and not slow
        html = _list(site, site.list_view(await _rows(site, cursor, slow=slow)), cursor)
        return _messages(html + _changed_banner(site, cursor), [], sessions.cursor)
    async with sessions.lock_session(session_id) as live:
        if cursor.by_seq and not await _is_saved(sessions, session_id):
            cursor.behind = True
            return ""
        seen = _events_since(sessions, live, cursor)
        cursor.position, cursor.seq = sessions.position, live.session.seq
        id = str(cursor.seq) if cursor.by_seq else sessions.cursor
        slow = slow and (cursor.behind or not seen)
        if seen and not slow and cursor.marks == sessions.marks_version:
            growth = text_growth(live.session, seen, most_of(cursor.shown))
            if growth is not None:
                cursor.behind = True
                cursor.late |= growth[1]
                return _messages("", growth[0], id)
        cursor.behind = cursor.behind and not slow
        marked, cursor.marks = cursor.marks != sessions.marks_version, sessions.marks_version
        rows = await _rows(site, cursor, slow=slow)
        view = await site.view(live, wired=cursor.wired, shown=cursor.shown)
        if seen is None:
            steps = (*SNAPSHOT, WIRE) if cursor.wired else SNAPSHOT
            next_frame = PageFrame(frame_html(env, view, steps), [])
            cursor.wire, cursor.late = view.wire.version, set()
        else:
            next_frame = _step(site, view, seen, cursor, slow=slow)
        if not slow and (seen or live.last_byte != cursor.heard):
            cursor.behind = True
        html = (
            next_frame.html + _changed_head(site, view, cursor) + _changed_dock(site, view, cursor)
        )
        settled = not cursor.by_seq and _may_change_setup(seen)
        if settled:
            html += await setup_partial(site, live, view)
        html += _list(site, replace(view, rows=rows), cursor)
        heard = _last_byte_message(site, live, cursor) if slow else ""
    if not view.agent:
        html += await _rules(site, session_id, cursor, settled=settled)
    if marked:
        html += _changed_banner(site, cursor)
    return heard + _messages(html, next_frame.grow, id)


async def _is_saved(sessions: SessionStore, session_id: str) -> bool:
    """Whether all of the session is saved; false only while saving fails."""
    try:
        await sessions.log.flush(session_id)
    except StoreError:
        return False
    return True


async def _rows(site: Site, cursor: Cursor, *, slow: bool) -> Sequence[SessionRow] | None:
    """The list of sessions, if it may have changed; sent at the slow interval."""
    version = site.engine.sessions.list_version
    if cursor.by_seq or version == cursor.list:
        return None
    if not slow:
        cursor.behind = True
        return None
    cursor.list = version
    return await site.rows()


def _step(site: Site, view: View, seen: list[Logged], cursor: Cursor, *, slow: bool) -> PageFrame:
    """The blocks touched by `seen`; the changes of the wire, or all of it for a new reader."""
    if not slow:
        cursor.late |= {"bar"} if seen else set()
        return frame(site.env, view, seen, leave=frozenset({"bar"}))
    late, cursor.late = cursor.late, set()
    if not cursor.wired:
        return frame(site.env, view, seen, late=late)
    known, cursor.wire = cursor.wire, view.wire.version
    is_at_rest = not seen and view.session.state != "running"
    if known is None and is_at_rest and not cursor.resumed:
        known = cursor.wire  # the page was made after the last byte
    next_frame = frame(site.env, view, seen, known, late=late)
    if known is None:
        whole = frame_html(site.env, view, [WIRE])
        next_frame = replace(next_frame, html=next_frame.html + whole)
    return next_frame


def _last_byte_message(site: Site, live: LiveSession, cursor: Cursor) -> str:
    """The turn of an open answer, and the ms since its last byte, if changed."""
    known, cursor.heard = cursor.heard, live.last_byte
    turn, (number, at_ms) = live.session.turn, live.last_byte
    open_turn = turn is not None and turn.open and turn.number == number
    if cursor.by_seq or live.last_byte == known or not open_turn:
        return ""
    return message(f"{number} {max(0, site.engine.sessions.clock() - at_ms)}", event="heard")


def _may_change_setup(seen: Sequence[Logged] | None) -> bool:
    """Whether Setup may have changed: it depends on more than the session, so only the page's
    stream draws it."""
    return seen is None or any(isinstance(logged.event, SettingsChanged) for logged in seen)


async def _rules(site: Site, session_id: str, cursor: Cursor, *, settled: bool) -> str:
    """The rules in Setup if they, or the tools that they are bound to, may have changed: a rule is
    not an event, and the list of rules not a block."""
    version = site.engine.rules.version
    if cursor.by_seq or (version == cursor.rules and not settled):
        return ""
    cursor.rules = version
    return await rules_partial(site, session_id)


def _changed_banner(site: Site, cursor: Cursor) -> str:
    """Why nothing can be saved, if that differs from what this reader has."""
    store = store_banner(site.env)
    if cursor.by_seq or store == cursor.store:
        return ""
    cursor.store = store
    return partial("store", "outerMorph", store)


def _messages(html: str, grow: Sequence[object], id: str) -> str:
    text = ""
    if grow:
        data = json.dumps(grow, ensure_ascii=False, separators=(",", ":"))
        text = message(data, event="grow", id="" if html else id)
    if html:
        text += message(html, id=id)
    return text


def _changed_head(site: Site, view: View, cursor: Cursor) -> str:
    """The head if its title or its tap's stop setting differs from what this reader has: neither is
    an event of the session."""
    shown = (view.title, view.pinned, view.archived, view.tags, view.stops_at)
    if shown == cursor.head:
        return ""
    cursor.head = shown
    return frame_html(site.env, view, [Touch("head", "changed")])


def _changed_dock(site: Site, view: View, cursor: Cursor) -> str:
    """The dock if what runs without asking has changed: rules are not events."""
    if view.unasked == cursor.unasked:
        return ""
    cursor.unasked = view.unasked
    return frame_html(site.env, view, [Touch("dock", "changed")])


def _list(site: Site, view: View, cursor: Cursor) -> str:
    """The list of sessions if it differs from what this reader has."""
    if view.rows is None or view.rows == cursor.rows:
        return ""
    cursor.rows = view.rows
    return frame_html(site.env, view, [Touch("list", "changed")])


def _events_since(sessions: SessionStore, live: LiveSession, cursor: Cursor) -> list[Logged] | None:
    """The events of this session after the cursor; None if the cursor is unknown."""
    if not cursor.by_seq:
        return sessions.events_since(live, cursor.position)
    if cursor.seq < 0 or cursor.seq > live.session.seq:
        return None
    return sessions.events_since_seq(live, cursor.seq)
