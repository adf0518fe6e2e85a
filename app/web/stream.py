"""The live stream: a cursor, and what was touched since.

A stream holds no state of a session. It wakes when something was saved, asks the store what came
after its cursor, renders the touched blocks as they are now, and sends them as one frame whose
`id:` is the new cursor. A slow tab gets fewer, larger frames; whoever comes with a cursor that
is not known any more gets everything once. Text that grows goes first, as a `grow` event that can
be repeated harmlessly; the HTML goes last and carries the id, so that no block is added twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import StreamingResponse

from app.core.errors import NotFound
from app.core.events import Logged, SettingsChanged
from app.core.serialization import logged_data
from app.core.session import Session
from app.engine.sessions import SessionStore
from app.render.blocks import PageFrame, Touch, frame, frame_html
from app.render.fragments import partial, store_banner
from app.render.paging import Shown, shown_from
from app.render.view import SessionRow, View
from app.web.rules.routes import drawn_rules
from app.web.session.setup import drawn_setup
from app.web.site import Site, site_of

FRAME_S = 0.016
"""A stream sends its first frame after a pause at once, and then at most one each 16 ms."""

SLOW_S = 0.2
"""The list and the wire's rows follow at most this often; text never waits for them."""

KEEP_ALIVE_S = 15.0

SNAPSHOT = tuple(
    Touch(name, "changed") for name in ("head", "flow", "bar", "dock", "tasks", "wire")
)

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


@dataclass
class Cursor:
    """What this stream's reader has seen: global position, the session's seq, wire, list, title,
    and the version of the rules; `shown` is how much it shows of turns with many calls.

    `wire` is None until it is known what of the wire the reader has. `behind` is whether
    something may be waiting for the slow beat.
    """

    position: int
    seq: int
    wire: int | None = None
    rows: Sequence[SessionRow] | None = None
    head: tuple[str, bool, bool, tuple[str, ...]] | None = None
    unasked: tuple[str, ...] | None = None
    rules: int = 0
    store: str = ""
    shown: Shown = field(default_factory=dict)
    slow_at: float = 0.0
    behind: bool = True
    by_seq: bool = False

    @property
    def id(self) -> int:
        return self.seq if self.by_seq else self.position


def message(data: str, *, event: str = "", id: int | None = None) -> str:
    """One server-sent message. `data` is cut at every line end a browser knows, `\\n` only."""
    lines = [f"event: {event}"] if event else []
    text = data.replace("\r\n", "\n").replace("\r", "\n")
    lines += ["data: " + line for line in text.split("\n")]
    if id is not None:
        lines.append(f"id: {id}")
    return "\n".join(lines) + "\n\n"


async def page_stream(request: Request) -> StreamingResponse:
    """GET /stream?session=ID&after=POSITION&rules=VERSION&shown=TURN.CALLS: all that one page
    shows; with `store` only what the server says of its database, for pages without a session."""
    site = site_of(request)
    if request.query_params.get("store"):
        return responded(_store_frames(site))
    session_id = request.query_params.get("session", "")
    if session_id:
        await _exists(site, session_id)
    position = after(request)
    rules = _number(request.query_params.get("rules", ""))
    shown = shown_from(request.query_params.get("shown", ""))
    cursor = Cursor(position, -1, rules=rules, shown=shown)
    return responded(_frames(site, session_id, cursor))


async def session_stream(request: Request) -> StreamingResponse:
    """GET /sessions/ID/stream?after=SEQ: one session, `id:` is its seq."""
    site = site_of(request)
    session_id = request.path_params["id"]
    await _exists(site, session_id)
    return responded(_frames(site, session_id, Cursor(-1, after(request), by_seq=True)))


async def events_stream(site: Site, session_id: str, after: int) -> AsyncIterator[str]:
    """The log itself as it grows: one JSON line a message."""
    sessions, position = site.engine.sessions, -1
    while not site.closing:
        async with sessions.holding(session_id):
            position = sessions.position
            logged = await site.engine.log.events(session_id, after)
        for item in logged:
            after = item.seq
            yield message(json.dumps(logged_data(item)), id=item.seq)
        if not await sessions.wait(position, sessions.list_version, KEEP_ALIVE_S):
            yield ": keep-alive\n\n"


def responded(frames: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(frames, media_type="text/event-stream", headers=HEADERS)


async def _exists(site: Site, session_id: str) -> None:
    if await site.engine.log.summary(session_id) is None:
        raise NotFound(f"There is no session {session_id!r}.")


def after(request: Request) -> int:
    """The cursor that was sent."""
    return _number(request.headers.get("last-event-id") or request.query_params.get("after", ""))


def _number(sent: str) -> int:
    """-1, which is never known, for none or junk."""
    return int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 16 else -1


async def _frames(site: Site, session_id: str, cursor: Cursor) -> AsyncIterator[str]:
    sessions, loop = site.engine.sessions, asyncio.get_running_loop()
    while not site.closing:
        position, version = sessions.position, sessions.list_version
        slow = loop.time() >= cursor.slow_at
        sent = await _next(site, session_id, cursor, slow=slow)
        if sent:
            if slow:
                cursor.slow_at = loop.time() + SLOW_S
            yield sent
            await asyncio.sleep(FRAME_S)
            continue
        cursor.behind = cursor.behind and not slow
        wait_s = max(cursor.slow_at - loop.time(), 0.001) if cursor.behind else KEEP_ALIVE_S
        if not await sessions.wait(position, version, wait_s) and not cursor.behind:
            yield ": keep-alive\n\n"


async def _store_frames(site: Site) -> AsyncIterator[str]:
    sessions, shown = site.engine.sessions, None
    while not site.closing:
        position, version = sessions.position, sessions.list_version
        html = store_banner(site.env)
        if html != shown:
            shown = html
            yield message(partial("store", "outerMorph", html))
        elif not await sessions.wait(position, version, KEEP_ALIVE_S):
            yield ": keep-alive\n\n"
        else:
            await asyncio.sleep(SLOW_S)


async def _next(site: Site, session_id: str, cursor: Cursor, *, slow: bool) -> str:
    """What the reader has not seen yet, as messages; "" where there is nothing to send now."""
    sessions, env = site.engine.sessions, site.env
    rows = None if cursor.by_seq or not slow else await site.rows()
    if not session_id:
        cursor.position = sessions.position
        html = _list(site, site.no_view(rows), cursor) + _stored(site, cursor)
        return _messages(html, [], cursor.id)
    async with sessions.holding(session_id) as live:
        seen = _since(sessions, session_id, cursor, live.session)
        cursor.position, cursor.seq = sessions.position, live.session.seq
        view = await site.view(live, shown=cursor.shown)
        if seen is None:
            made = PageFrame(frame_html(env, view, SNAPSHOT), [])
            cursor.wire = view.wire.version
        else:
            made = _step(site, view, seen, cursor, slow=slow)
        cursor.behind = cursor.behind or bool(seen)
        html = made.html + _titled(site, view, cursor) + _docked(site, view, cursor)
        settled = not cursor.by_seq and _settled(seen)
        if settled:
            html += await drawn_setup(site, live, view)
        html += _list(site, replace(view, rows=rows), cursor)
    html += await _rules(site, session_id, cursor, settled=settled) + _stored(site, cursor)
    return _messages(html, made.grow, cursor.id)


def _step(site: Site, view: View, seen: list[Logged], cursor: Cursor, *, slow: bool) -> PageFrame:
    """What `seen` touched; of the wire what is new, or all of it for a reader that is new here."""
    if not slow:
        return frame(site.env, view, seen)
    known, cursor.wire = cursor.wire, view.wire.version
    if known is None and not seen and view.session.state != "running":
        known = cursor.wire  # the page was made after the last byte
    made = frame(site.env, view, seen, known)
    if known is None:
        whole = frame_html(site.env, view, [Touch("wire", "changed")])
        made = replace(made, html=made.html + whole)
    return made


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


def _messages(html: str, grow: Sequence[object], id: int) -> str:
    text = ""
    if grow:
        data = json.dumps(grow, ensure_ascii=False, separators=(",", ":"))
        text = message(data, event="grow", id=None if html else id)
    if html:
        text += message(html, id=id)
    return text


def _titled(site: Site, view: View, cursor: Cursor) -> str:
    """The head where its title is not what this reader has: a title is no event of the session."""
    shown = (view.title, view.pinned, view.archived, view.tags)
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


def _since(
    sessions: SessionStore, session_id: str, cursor: Cursor, session: Session
) -> list[Logged] | None:
    """The events of this session after the cursor; None where that is not known any more."""
    if not cursor.by_seq:
        seen = sessions.since(cursor.position) if cursor.position >= 0 else None
        return (
            None
            if seen is None
            else [entry.logged for entry in seen if entry.session == session_id]
        )
    if cursor.seq < 0 or cursor.seq > session.seq:
        return None
    if cursor.seq == session.seq:
        return []
    return sessions.since_seq(session_id, cursor.seq)
