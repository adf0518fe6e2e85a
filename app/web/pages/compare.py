"""Sessions compared: lined up turn by turn, or side by side and live (pages/beside.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from app.core.align import Alignment, align, in_common
from app.core.errors import BadInput
from app.core.sides import Side, side
from app.render.compare import (
    MOST_ROWS,
    Choice,
    ComparePage,
    across,
    column,
    common_group,
    compare_page,
    groups,
)
from app.render.compare_told import compared, markdown
from app.web.beside import MOST, address, chosen
from app.web.forms import as_json, wants
from app.web.pages.beside import live
from app.web.site import Site, row_of, site_of

COPIED = 100_000
"""Characters of Markdown that a button copies; there is a link to more."""

LISTED = 30
"""Sessions to choose from."""


async def show(request: Request) -> Response:
    """GET /compare?session=A&session=B…: what differs, or the page to choose from. `view` is turns
    or live; without it, live where one of them runs. As JSON, or as text by `as=markdown`."""
    site, query = site_of(request), request.query_params
    asked = query.getlist("session")
    ids = chosen(asked)
    wanted, kind = query.get("view", ""), wants(request)
    if wanted not in ("", "turns", "live"):
        raise BadInput("view is turns or live.")
    if wanted == "live" and kind == "page":
        return await live(request)
    sides = [await _side(site, one) for one in ids]
    twice = len(asked) > len(ids) and all(asked)
    if len(sides) < 2 or query.get("choose"):
        if kind == "json" or query.get("as"):
            raise BadInput("Name two sessions at least: /compare?session=A&session=B.")
        said = ("This session was named twice; choose another one.",) if twice else ()
        return HTMLResponse(compare_page(site.env, await _picker(site, request, ids, said)))
    running = any(one.state == "running" for one in sides)
    if not wanted and running and kind == "page" and not query.get("as"):
        return await live(request)
    alignments = await asyncio.to_thread(_aligned, sides)
    if query.get("as") == "markdown":
        text = await asyncio.to_thread(markdown, sides, alignments)
        return PlainTextResponse(text.encode("utf-8", "replace"))
    if kind == "json":
        return as_json(await asyncio.to_thread(compared, sides, alignments))
    said = ("A session that was named twice stands here once.",) if twice else ()
    page = replace(await _picker(site, request, ids, said), start=_start(request))
    return HTMLResponse(await asyncio.to_thread(_drawn, site, page, sides, alignments))


async def _side(site: Site, session_id: str) -> Side:
    """As it stands now; NotFound where there is none."""
    async with site.engine.hub.holding(session_id) as held:
        return side(held.session, held.title)


def _aligned(sides: Sequence[Side]) -> list[Alignment]:
    """Each against the first, which have the same beginning set aside."""
    first, *others = sides
    common = min(in_common(first, other) for other in others)
    return [align(first, other, common) for other in others]


def _drawn(
    site: Site, page: ComparePage, sides: Sequence[Side], alignments: Sequence[Alignment]
) -> str:
    ids = [one.id for one in sides]
    rows = across(alignments)
    text = markdown(sides, alignments)
    end = page.start + MOST_ROWS
    rest = f"{address(ids, 'turns')}&from={end}#rows" if end < len(rows) else ""
    columns = [
        column(
            one,
            number,
            alignments[number - 1] if number else None,
            address([one.id, *(other for other in ids if other != one.id)], "turns"),
            address([other for other in ids if other != one.id], "turns"),
        )
        for number, one in enumerate(sides)
    ]
    whole = replace(
        page,
        columns=columns,
        common=common_group(sides[0], alignments[0].common),
        groups=groups(rows[page.start : end], ids),
        rows=len(rows),
        rest=rest,
        live=address(ids),
        markdown=f"{address(ids, 'turns')}&as=markdown",
        copied=text if len(text) <= COPIED else "",
    )
    return compare_page(site.env, whole)


async def _picker(
    site: Site, request: Request, ids: Sequence[str], said: Sequence[str]
) -> ComparePage:
    """What can be chosen: the relatives of those that are, then the last sessions."""
    query = request.query_params.get("q", "").strip()
    last = await site.engine.log.summaries(query, limit=LISTED)
    picked = [one for one in [await site.engine.log.summary(i) for i in ids] if one is not None]
    parents = [one.parent for one in picked if one.parent]
    found = [one for one in [await site.engine.log.summary(i) for i in parents] if one is not None]
    near = {one.id for one in picked} | {one.id for one in found}
    children = [one for one in last if one.parent in near and one.id not in ids]
    choices = [Choice(row_of(one), "", True) for one in picked]
    choices += [Choice(row_of(one), "forked from this", False) for one in found if not one.deleted]
    choices += [Choice(row_of(one), "fork", False) for one in children]
    choices += [Choice(row_of(one), "", False) for one in last]
    once = {choice.row.id: choice for choice in reversed(choices)}
    ordered = [once[one] for one in dict.fromkeys(choice.row.id for choice in choices)]
    return ComparePage(said=said, choices=ordered, query=query, picked=ids, most=MOST)


def _start(request: Request) -> int:
    given = request.query_params.get("from", "0")
    if not (given.isascii() and given.isdigit() and len(given) < 8):
        raise BadInput("from must be a whole number, the row to begin with.")
    return int(given)
