"""The stream of sessions side by side: one connection for all that one page shows.

Each message `column` is one step of one session, `{"session", "at", "html", "grow"}`, for its
frame; what is said around the frames comes as HTML, as in any stream. `id:` is the position up to
which the page has everything of every session: whoever comes again with it misses nothing, and
what it has already is harmless. `gone` names a session that is there no more.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import StreamingResponse

from app.core.errors import BadInput, NotFound
from app.render.beside import Lane, lane, pieces
from app.render.blocks import Frame, Touch, frame, frame_html
from app.render.fragments import partial, store_banner
from app.render.view import View
from app.web.site import Site, site_of
from app.web.stream import FRAME_S, KEEP_ALIVE_S, SNAPSHOT, after, message, page_stream, responded

MOST = 4
"""Sessions that stand side by side."""

WHOLE = tuple(touch for touch in SNAPSHOT if touch.id != "wire")


@dataclass
class Column:
    """What the page has of one session, the `number`th: up to `position`, with these marks on its
    head and these rules."""

    number: int
    id: str
    position: int
    head: tuple[str, bool, bool, tuple[str, ...]] | None = None
    unasked: tuple[str, ...] | None = None


@dataclass
class Beside:
    """All that one page shows. `drawn` is what it says around the frames, by id."""

    columns: list[Column]
    lanes: dict[str, Lane] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> int:
        return min((column.position for column in self.columns), default=-1)


async def stream(request: Request) -> StreamingResponse:
    """GET /stream?session=A&session=B…&after=POSITION: up to four sessions of one page; of one
    session where it stands alone and `columns` is not asked for."""
    ids = chosen(request.query_params.getlist("session"))
    if len(ids) < 2 and not request.query_params.get("columns"):
        return await page_stream(request)
    site = site_of(request)
    if not [one for one in ids if await site.engine.log.summary(one) is not None]:
        raise NotFound("None of these sessions is there; open them from the list at /.")
    position = after(request)
    return responded(_frames(site, beside_from(ids, position)))


def beside_from(ids: Sequence[str], position: int) -> Beside:
    """What a page of these sessions has that was drawn at `position`."""
    return Beside([Column(number, one, position) for number, one in enumerate(ids, 1)])


def chosen(ids: Sequence[str]) -> list[str]:
    """Each of them once, as they stand; BadInput where they are too many for one page."""
    once = [one for one in dict.fromkeys(ids) if one]
    if len(once) > MOST:
        raise BadInput(f"At most {MOST} sessions stand side by side; leave some out.")
    return once


def address(ids: Sequence[str], view: str = "live") -> str:
    """The page of these sessions."""
    return "/compare?" + urlencode([*(("session", one) for one in ids), ("view", view)])


def without(ids: Sequence[str], one: str) -> str:
    """The page of the others; "" where there are none."""
    left = [other for other in ids if other != one]
    return address(left) if left else ""


async def _frames(site: Site, beside: Beside) -> AsyncIterator[str]:
    sessions = site.engine.sessions
    while not site.closing:
        position, version = sessions.position, sessions.list_version
        sent = await round_of(site, beside)
        if sent:
            yield sent
            await asyncio.sleep(FRAME_S)
        elif not await sessions.wait(position, version, KEEP_ALIVE_S):
            yield ": keep-alive\n\n"


async def round_of(site: Site, beside: Beside) -> str:
    """What the page has not seen yet of any session, as messages; "" where there is nothing."""
    messages: list[tuple[str, str]] = []  # (data, event)
    for column in tuple(beside.columns):
        try:
            step = await _step(site, beside, column)
        except NotFound:
            beside.columns.remove(column)
            beside.lanes.pop(column.id, None)
            messages.append((json.dumps({"session": column.id}), "gone"))
            continue
        if not step.empty:
            data = {"session": column.id, "at": column.position, "html": step.html}
            messages.append((json.dumps(data | {"grow": step.grow}), "column"))
    if around := _around(site, beside):
        messages.append((around, ""))
    last = len(messages) - 1
    return "".join(
        message(data, event=event, id=beside.id if place == last else None)
        for place, (data, event) in enumerate(messages)
    )


async def _step(site: Site, beside: Beside, column: Column) -> Frame:
    """What is new of one session: without list, Setup and wire, which no column shows."""
    sessions, env = site.engine.sessions, site.env
    async with sessions.holding(column.id) as live:
        seen = sessions.since(column.position) if column.position >= 0 else None
        column.position = sessions.position
        view = await site.view(live, wired=False, framed=True)
        if seen is None:
            made = Frame(frame_html(env, view, WHOLE), [])
        else:
            made = frame(env, view, [one.logged for one in seen if one.session == column.id])
        extra = frame_html(env, view, _unlogged(view, column))
        beside.lanes[column.id] = lane(view, column.number, deleted=live.deleted)
    return Frame(made.html + extra, made.grow)


def _unlogged(view: View, column: Column) -> list[Touch]:
    """The blocks that say what is no event, a title, a tag or a rule, where it is another now."""
    touches, head = [], (view.title, view.pinned, view.archived, view.tags)
    if head != column.head:
        touches.append(Touch("head", "changed"))
    if view.unasked != column.unasked:
        touches.append(Touch("dock", "changed"))
    column.head, column.unasked = head, view.unasked
    return touches


def _around(site: Site, beside: Beside) -> str:
    """What is said around the frames where it is not what this page has."""
    ids = list(beside.lanes)
    lanes = [replace(lane, without=without(ids, lane.id)) for lane in beside.lanes.values()]
    drawn = {**pieces(site.env, lanes), "store": store_banner(site.env)}
    changed = {id: html for id, html in drawn.items() if beside.drawn.get(id) != html}
    beside.drawn = drawn
    return "".join(partial(id, "outerMorph", html) for id, html in changed.items())
