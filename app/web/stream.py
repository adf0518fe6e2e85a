"""The live stream: a cursor, and what was touched since.

A stream holds no state of a session. It wakes when its session went on, asks the store what came
after its cursor, renders the touched blocks as they are now, and sends them as one frame whose
`id:` is the new cursor. A slow tab gets fewer, larger frames; a reader with a cursor that
is not known any more gets everything once. Text that grows goes first, as a `grow` event that can
be repeated harmlessly; the HTML goes last and carries the id, so that no block is added twice.

The page's own stream shows deltas before they are saved, and its cursor carries the epoch; that of
one session (`by_seq`) shows what is saved alone. Where only text has grown nothing else is looked
at: the list, the wire's rows and what is said of half-written arguments follow on a slower clock.
The wire's rows are made for a page that has loaded their section, and says so (`wire=1`); to any
page a `heard` event says that bytes came, which may have left nothing on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import field, replace

from starlette.requests import Request
from starlette.responses import StreamingResponse

from app.core.errors import NotFound, StoreError
from app.core.events import Logged, SettingsChanged
from app.core.late import dataclass
from app.core.serialization import logged_data
from app.engine.sessions import LiveSession, SessionStore
from app.render.blocks import PageFrame, Touch, frame, frame_html, text_growth
from app.render.environment import partial, store_banner
from app.render.paging import Shown, most_of, shown_from
from app.render.view import SessionRow, View
from app.web.rules import drawn_rules
from app.web.session.setup import drawn_setup
from app.web.site import Site, site_of

FRAME_S = 0.016
"""A stream sends its first frame after a pause at once, and then at most one each 16 ms; what the
slow beat sends does not count."""

SLOW_S = 0.2
SLOW_SHARE = 0.1
"""The list, the bar and the wire's rows follow at most this often, and for at most this share of
the time: each costs as much as all that it shows. Text never waits for them."""
SLOWEST_S = 2.0
"""... but each that many seconds, whatever it takes."""

KEEP_ALIVE_S = 15.0

SNAPSHOT = tuple(Touch(name, "changed") for name in ("head", "flow", "bar", "dock", "tasks"))
WIRE = Touch("wire", "changed")

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass
class Cursor:
    """What this stream's reader has seen: position in the epoch, the session's seq, wire, list,
    title, and the version of the rules; `shown` is how much it shows of turns with many calls.

    `wired` is whether it shows the wire; `wire` is None until it is known what of it. `behind` is
    whether something may be waiting for the slow beat: `late` are such blocks, at first the bar,
    for the stream before this one may have ended before a beat. `list` and `marks` are the
    versions that were looked at last, `heard` the bytes that it knows of. `resumed`: the reader
    had another stream before, and its wire may lack what that one had not come to.
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
    shown: Shown = field(default_factory=dict)
    slow_at: float = 0.0
    behind: bool = True
    by_seq: bool = False
    resumed: bool = False


def message(data: str, *, event: str = "", id: str = "") -> str:
    """One server-sent message. `data` is cut at every line end a browser knows, `\\n` only."""
    lines = [f"event: {event}"] if event else []
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines += ["data: " + line for line in text.split("\n")]
    if id:
        lines.append(f"id: {id}")
    return "\n".join(lines) + "\n\n"


async def page_stream(request: Request) -> StreamingResponse:
    """GET /stream?session=ID&after=CURSOR&rules=VERSION&shown=TURN.CALLS&wire=1: all that one page
    shows, the wire only with `wire`; with `store` only what the server says of its database, for
    pages without a session."""
    site = site_of(request)
    if request.query_params.get("store"):
        return responded(_store_frames(site))
    session_id = request.query_params.get("session", "")
    if session_id:
        await _exists(site, session_id)
    position = site.engine.sessions.position_of(after(request))
    rules = _number(request.query_params.get("rules", ""))
    shown = shown_from(request.query_params.get("shown", ""))
    wired = bool(request.query_params.get("wire"))
    cursor = Cursor(position, -1, wired=wired, rules=rules, shown=shown)
    cursor.resumed = _is_resumed(request)
    return responded(_frames(site, session_id, cursor))


async def session_stream(request: Request) -> StreamingResponse:
    """GET /sessions/ID/stream?after=SEQ: one session, `id:` is its seq."""
    site = site_of(request)
    session_id = request.path_params["id"]
    await _exists(site, session_id)
    seq = _number(after(request))
    cursor = Cursor(-1, seq, wired=True, by_seq=True, resumed=_is_resumed(request))
    return responded(_frames(site, session_id, cursor))


async def events_stream(site: Site, session_id: str, after: int) -> AsyncIterator[str]:
    """The log itself as it grows: one JSON line a message."""
    sessions = site.engine.sessions
    with sessions.listen(session_id) as bell:
        while not site.closing:
            bell.clear()
            try:
                async with sessions.holding(session_id):
                    logged = await site.engine.log.events(session_id, after)
            except NotFound:
                return  # it was purged
            for item in logged:
                after = item.seq
                yield message(json.dumps(logged_data(item)), id=str(item.seq))
            if not await bell.wait(KEEP_ALIVE_S):
                yield ": keep-alive\n\n"


def responded(frames: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(frames, media_type="text/event-stream", headers=HEADERS)


async def _exists(site: Site, session_id: str) -> None:
    if await site.engine.log.summary(session_id) is None:
        raise NotFound(f"There is no session {session_id!r}.")


def after(request: Request) -> str:
    """The cursor that was sent, or ""."""
    return request.headers.get("last-event-id") or request.query_params.get("after", "")


def _is_resumed(request: Request) -> bool:
    """Whether the reader had another stream before; at first its page says where it is."""
    return "last-event-id" in request.headers


def _number(sent: str) -> int:
    """-1, which is never known, for none or junk."""
    return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 16 else -1


async def _frames(site: Site, session_id: str, cursor: Cursor) -> AsyncIterator[str]:
    sessions, loop, next_at = site.engine.sessions, asyncio.get_running_loop(), 0.0
    with sessions.listen(session_id) as bell:
        while not site.closing:
            bell.clear()
            began = loop.time()
            slow = began >= cursor.slow_at
            try:
                sent = await _next(site, session_id, cursor, slow=slow)
            except NotFound:
                return  # another page purged it; this one asks again and gets a 404
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
                continue  # what is slower follows the text at once
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


_NO_SESSION = "-"
"""What a page without a session listens to: what is no event of any."""


async def _next(site: Site, session_id: str, cursor: Cursor, *, slow: bool) -> str:
    """What the reader has not seen yet, as messages; "" where there is nothing to send now."""
    sessions, env = site.engine.sessions, site.env
    if not session_id:
        cursor.position, cursor.behind = sessions.position, cursor.behind and not slow
        html = _list(site, site.no_view(await _rows(site, cursor, slow=slow)), cursor)
        return _messages(html + _stored(site, cursor), [], sessions.cursor)
    async with sessions.holding(session_id) as live:
        if cursor.by_seq and not await _is_saved(sessions, session_id):
            cursor.behind = True
            return ""
        seen = _since(sessions, live, cursor)
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
        if not slow and (seen or live.heard != cursor.heard):
            cursor.behind = True
        html = next_frame.html + _titled(site, view, cursor) + _docked(site, view, cursor)
        settled = not cursor.by_seq and _settled(seen)
        if settled:
            html += await drawn_setup(site, live, view)
        html += _list(site, replace(view, rows=rows), cursor)
        heard = _heard(site, live, cursor) if slow else ""
    if not view.agent:
        html += await _rules(site, session_id, cursor, settled=settled)
    if marked:
        html += _stored(site, cursor)
    return heard + _messages(html, next_frame.grow, id)


async def _is_saved(sessions: SessionStore, session_id: str) -> bool:
    """Whether all of the session is saved; it is, unless it cannot be now."""
    try:
        await sessions.log.flush(session_id)
    except StoreError:
        return False
    return True


async def _rows(site: Site, cursor: Cursor, *, slow: bool) -> Sequence[SessionRow] | None:
    """The list of sessions where it may be another one; it follows on the slow beat."""
    version = site.engine.sessions.list_version
    if cursor.by_seq or version == cursor.list:
        return None
    if not slow:
        cursor.behind = True
        return None
    cursor.list = version
    return await site.rows()


def _step(site: Site, view: View, seen: list[Logged], cursor: Cursor, *, slow: bool) -> PageFrame:
    """What `seen` touched; of the wire what is new, or all of it for a reader that is new here."""
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


def _heard(site: Site, live: LiveSession, cursor: Cursor) -> str:
    """The turn of an open answer, and how many ms ago its last byte came, where that is news."""
    known, cursor.heard = cursor.heard, live.heard
    turn, (number, at_ms) = live.session.turn, live.heard
    open_turn = turn is not None and turn.open and turn.number == number
    if cursor.by_seq or live.heard == known or not open_turn:
        return ""
    return message(f"{number} {max(0, site.engine.sessions.clock() - at_ms)}", event="heard")


def _settled(seen: Sequence[Logged] | None) -> bool:
    """Whether Setup may be another one: it shows more than the session, so the page's stream alone
    draws it."""
    return seen is None or any(isinstance(logged.event, SettingsChanged) for logged in seen)


async def _rules(site: Site, session_id: str, cursor: Cursor, *, settled: bool) -> str:
    """The rules in Setup where they, or the tools that they are bound to, may be others now: a
    rule is no event, and its list no block."""
    version = site.engine.rules.version
    if cursor.by_seq or (version == cursor.rules and not settled):
        return ""
    cursor.rules = version
    return await drawn_rules(site, session_id)


def _stored(site: Site, cursor: Cursor) -> str:
    """What keeps anything from being saved where it is not what this reader has."""
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


def _titled(site: Site, view: View, cursor: Cursor) -> str:
    """The head where its title, or where its tap stops, is not what this reader has: neither is an
    event of the session."""
    shown = (view.title, view.pinned, view.archived, view.tags, view.stops_at)
    if shown == cursor.head:
        return ""
    cursor.head = shown
    return frame_html(site.env, view, [Touch("head", "changed")])


def _docked(site: Site, view: View, cursor: Cursor) -> str:
    """The dock where it says another thing of what runs unasked: rules are no events."""
    if view.unasked == cursor.unasked:
        return ""
    cursor.unasked = view.unasked
    return frame_html(site.env, view, [Touch("dock", "changed")])


def _list(site: Site, view: View, cursor: Cursor) -> str:
    """The list of sessions where it is not what this reader has."""
    if view.rows is None or view.rows == cursor.rows:
        return ""
    cursor.rows = view.rows
    return frame_html(site.env, view, [Touch("list", "changed")])


def _since(sessions: SessionStore, live: LiveSession, cursor: Cursor) -> list[Logged] | None:
    """The events of this session after the cursor; None where that is not known any more."""
    if not cursor.by_seq:
        return sessions.since(live, cursor.position)
    if cursor.seq < 0 or cursor.seq > live.session.seq:
        return None
    return sessions.since_seq(live, cursor.seq)
