"""The list of sessions, the first page with its demos, and new sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from playground.core.settings import Settings
from playground.engine.preview import WIRES
from playground.engine.rules import parse_rule
from playground.engine.settings import settings_from
from playground.render.view import SessionRow
from playground.store.search import SearchResult, parse_query, search
from playground.store.writes import Summary
from playground.web.demos import DEMOS, is_demo, start_demo
from playground.web.forms import answer, answer_format, as_json, body_of
from playground.web.session.wire_view import SHORT_NAMES
from playground.web.site import Site, search_row, site_of

LISTED = 200
"""Sessions that a script gets for a search."""

SIDE = 30
"""Sessions listed next to the page while a user types a search."""

LAST = 20
"""Sessions that are examined to find one whose settings can be copied."""


async def home(request: Request) -> Response:
    """GET /: shows the newest session: redirects to it, or answers the demos if there is none.

    ---
    responses:
      200: {description: The demos., content: {text/html: {}}}
      303: {description: To the newest session.}
    """
    site = site_of(request)
    newest = await site.engine.log.summaries(limit=1)
    if newest:
        return RedirectResponse(f"/sessions/{newest[0].id}", 303)
    return await welcome(request)


async def welcome(request: Request) -> Response:
    """GET /welcome?protocol=: shows the demos, on the protocol of the query.

    ---
    responses:
      200: {description: The page., content: {text/html: {}}}
    """
    site, protocol = site_of(request), request.query_params.get("protocol", "")
    protocol = protocol if protocol in WIRES else WIRES[0]
    rows, now = await site.rows(), site.engine.sessions.clock()
    return HTMLResponse(welcome_page(site.env, rows, now, protocol, WIRES))


async def sessions(request: Request) -> Response:
    """GET /sessions?q=&after=MS.ID: lists the sessions, the newest first, as JSON or as the block
    of a page. With `after`, those after that one. Without a script, a browser gets the Find page.

    ---
    responses:
      303: {description: To the Find page.}
    """
    site = site_of(request)
    text, after = (
        request.query_params.get("q", ""),
        _parse_cursor(request.query_params.get("after", "")),
    )
    kind, now = answer_format(request), site.engine.sessions.clock()
    if kind == "page":
        return RedirectResponse("/find?" + urlencode({"q": text}), 303)
    if not text.strip():
        if kind == "json":
            return as_json(
                [_summary_data(summary) for summary in await site.engine.log.summaries(after=after)]
            )
        return HTMLResponse(list_fragment(site.env, await site.rows(after), now, older=bool(after)))
    asked = parse_query(text)
    result = await search(site.engine.database.path, asked, LISTED if kind == "json" else SIDE)
    if kind == "json":
        return as_json([_summary_data(hit.session) for hit in result.hits])
    rows = [search_row(hit) for hit in result.hits]
    return HTMLResponse(list_fragment(site.env, rows, now, text, result=result, notes=asked.notes))


def _summary_data(summary: Summary) -> Mapping[str, Any]:
    """A session of the list as scripts read it."""
    tapped = {"tap": summary.tap, "agent": summary.agent, "parent": summary.above}
    return {
        "id": summary.id,
        "title": summary.title,
        "state": summary.state,
        "updated": summary.updated_ms,
        "tapped": tapped if summary.tap else None,
    }


def _parse_cursor(text: str) -> tuple[int, str] | None:
    """`MS.ID`, the start of the next page of a list; None if absent or invalid."""
    at_ms, _, session_id = text.partition(".")
    whole = at_ms.isascii() and at_ms.isdigit() and len(at_ms) < 16
    return (int(at_ms), session_id) if whole and session_id else None


async def create(request: Request) -> Response:
    """POST /sessions: creates a session from settings, from a demo, or as the last one.

    ---
    responses:
      201: {description: The id of the session.}
    """
    site = site_of(request)
    body = await body_of(request)
    if body.is_json:
        wanted = body.data.get("rules", [])
        rules = [parse_rule(rule) for rule in (wanted if isinstance(wanted, list) else [wanted])]
        asked = {k: v for k, v in body.data.items() if k not in ("title", "rules")}
        settings = await settings_from(site.engine, asked)
        site.engine.rules.check(rules)  # before an unwanted session is created
        session_id = await site.engine.sessions.create(settings, body.text("title").strip())
        await site.engine.rules.put(session_id, rules, settings.tools)
    elif body.text("demo"):
        protocol = body.text("protocol") or WIRES[0]
        session_id, page = await start_demo(site, body.text("demo"), protocol, request.base_url)
        return answer(request, {"id": session_id}, status=201, location=page)
    else:
        asked = {name: body.text(name) for name in ("profile", "model") if body.text(name)}
        session_id = await site.engine.sessions.create(await settings_like_last(site, asked))
    return answer(request, {"id": session_id}, status=201, location=f"/sessions/{session_id}")


async def settings_like_last(site: Site, asked: Mapping[str, Any]) -> Settings:
    """The profile and tools of the user's last session, which the next one mostly needs, overridden
    by `asked`. Demos, sessions that are wholly or partly imported, recordings, and sessions that an
    agent runs are skipped."""
    summaries = await site.engine.log.summaries()
    own = (summary for summary in summaries if summary.own and not summary.tap)
    for newest in islice(own, LAST):
        async with site.engine.sessions.lock_session(newest.id) as live:
            last, forks = live.session.settings, live.session.forks
            demo = is_demo(live.title, live.session)
        foreign = any(fork.foreign for _, fork in forks)
        if last is not None and not (foreign or demo or last.profile.recorded):
            return await settings_from(site.engine, asked, last)
    examples = await site.engine.library.group("examples")
    asked = {"tools": [tool.name for tool in examples], **asked}
    return await settings_from(site.engine, asked)


def welcome_page(
    env: Environment,
    rows: Sequence[SessionRow],
    now_ms: int,
    protocol: str = "",
    wires: Sequence[str] = (),
) -> str:
    """The page without a session: the demos, and the list.

    `protocol` is the one of `wires` that the demos use.
    """
    return env.get_template("welcome.html").render(
        rows=rows,
        now_ms=now_ms,
        demos=DEMOS,
        protocol=protocol,
        wires=[(name, SHORT_NAMES.get(name, name)) for name in wires],
    )


def list_fragment(
    env: Environment,
    rows: Sequence[SessionRow],
    now_ms: int,
    query: str = "",
    here: str = "",
    *,
    result: SearchResult | None = None,
    notes: Sequence[str] = (),
    older: bool = False,
) -> str:
    """The list block outside a session's page, or filtered by a search, with its `result` and the
    `notes` on it; or the `older` sessions after those shown."""
    return env.get_template("_list.html").render(
        rows=rows,
        now_ms=now_ms,
        query=query,
        here_id=here,
        id="list",
        found=result,
        notes=notes,
        older=older,
    )
