"""Sessions compared: lined up turn by turn, or side by side and live (pages/beside.py)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from app.core.errors import BadInput
from app.core.session_diff import Alignment, Side, align, in_common, side
from app.render.beside import decided_here
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
from app.render.paging import Shown, shown_from
from app.render.view import SessionRow
from app.store.batch import Summary
from app.store.log import Relative, family
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
    or live; without it, live where one of them runs or waits. As JSON, or as text
    by `as=markdown`."""
    site, query = site_of(request), request.query_params
    asked = [one for one in query.getlist("session") if one]
    wanted, kind = query.get("view", ""), wants(request)
    if wanted not in ("", "turns", "live"):
        raise BadInput("view is turns or live.")
    if wanted == "live" and kind == "page":
        return await live(request)
    by_script = kind == "json" or "as" in query
    many = len(dict.fromkeys(asked)) > MOST and not by_script
    ids = list(dict.fromkeys(asked))[:LISTED] if many else chosen(asked)
    sides, notes = [], []
    for one in ids:
        async with site.engine.sessions.holding(one) as held:  # NotFound where there is none
            sides.append(side(held.session, held.title))
            notes.append("deleted" if held.deleted else decided_here(held.session))
    twice = len(asked) > len(ids)
    if len(sides) < 2 or many or "choose" in query:
        if by_script:
            raise BadInput("Name two sessions at least: /compare?session=A&session=B.")
        said = [f"At most {MOST} stand side by side; choose which."] if many else []
        said += ["This session was named twice; choose another one."] * (len(sides) < 2 and twice)
        return HTMLResponse(compare_page(site.env, await _picker(site, query, ids, said)))
    at_work = any(side.state in ("running", "waiting") for side in sides)
    if not wanted and at_work and kind == "page" and "as" not in query:
        return await live(request)
    alignments = await asyncio.to_thread(_aligned, sides)
    if query.get("as") == "markdown":
        text = await asyncio.to_thread(markdown, sides, alignments)
        return PlainTextResponse(text.encode("utf-8", "replace"))
    if kind == "json":
        return as_json(await asyncio.to_thread(compared, sides, alignments))
    said = ["A session that was named twice stands here once."] if twice else []
    page = replace(await _picker(site, query, ids, said), start=_start(query))
    shown = shown_from(query.get("shown", ""))
    return HTMLResponse(
        await asyncio.to_thread(_drawn, site, page, sides, alignments, notes, shown)
    )


def _aligned(sides: Sequence[Side]) -> list[Alignment]:
    """Each against the first, which have the same beginning set aside."""
    first, *others = sides
    common = min(in_common(first, other) for other in others)
    return [align(first, other, common) for other in others]


def _drawn(
    site: Site,
    page: ComparePage,
    sides: Sequence[Side],
    alignments: Sequence[Alignment],
    notes: Sequence[str],
    shown: Shown,
) -> str:
    """`notes` are what is said of each session besides, `shown` of how many calls of a row."""
    ids = [side.id for side in sides]
    rows = across(alignments)
    text = markdown(sides, alignments)
    end = page.start + MOST_ROWS
    here = address(ids, "turns") + (f"&from={page.start}" if page.start else "")
    rest = f"{address(ids, 'turns')}&from={end}#rows" if end < len(rows) else ""
    columns = [
        column(
            side,
            number,
            alignments[number - 1] if number else None,
            address([side.id, *(other for other in ids if other != side.id)], "turns"),
            address([other for other in ids if other != side.id], "turns"),
            notes[number],
        )
        for number, side in enumerate(sides)
    ]
    whole = replace(
        page,
        columns=columns,
        common=common_group(sides[0], alignments[0].common),
        groups=groups(rows[page.start : end], ids, shown, here, page.start),
        rows=len(rows),
        rest=rest,
        live=address(ids),
        markdown=f"{address(ids, 'turns')}&as=markdown",
        copied=text if len(text) <= COPIED else "",
    )
    return compare_page(site.env, whole)


async def _picker(
    site: Site, query: QueryParams, ids: Sequence[str], said: Sequence[str]
) -> ComparePage:
    """What can be chosen: those that are named, the others of the first one's family, the last
    sessions. A search narrows the latter two down."""
    words = query.get("q", "").strip()
    log = site.engine.log
    named = [one for one in [await log.summary(name) for name in ids] if one is not None]
    choices = [Choice(row_of(one), "", at < MOST) for at, one in enumerate(named)]
    for relative in await family(site.engine.database, ids[0]) if ids else ():
        if words.lower() in relative.title.lower():
            row = SessionRow(relative.id, relative.title, relative.state, relative.updated_ms)  # type: ignore[arg-type]
            choices.append(Choice(row, _kinship(named[0], relative), False))
    last = await log.summaries(words, limit=LISTED)
    choices += [Choice(row_of(one), "", False) for one in last]
    once = {choice.row.id: choice for choice in reversed(choices)}
    kept = dict.fromkeys(choice.row.id for choice in choices)
    listed = [once[one] for one in kept][: len(named) + LISTED]
    return ComparePage(said=said, choices=listed, query=words, most=MOST)


def _kinship(first: Summary, other: Relative) -> str:
    if other.parent == first.id:
        return "fork"
    if other.id == first.parent:
        return "forked from this"
    return "of one family"


def _start(query: QueryParams) -> int:
    given = query.get("from", "0")
    if not (given.isascii() and given.isdigit() and len(given) < 8):
        raise BadInput("from must be a whole number, the row to begin with.")
    return int(given)
