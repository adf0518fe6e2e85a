"""The page "Agents" and the API of taps: made, listed, changed, revoked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app import config
from app.core.errors import BadInput, NotFound
from app.core.serialization import to_data
from app.core.settings import Profile
from app.net.keys import is_vendors_own
from app.render.view import SessionRow
from app.tap.agents import DOORS
from app.tap.taps import Tap
from app.web.agents.view import (
    MOST_ENDED,
    MOST_SESSIONS,
    SILENT_MS,
    AgentsPage,
    NewTap,
    TapRow,
    agents_page,
    lines_for,
    tap_list,
    version,
)
from app.web.forms import answer, as_json, body_of, wants
from app.web.providers import rows_of
from app.web.site import Site, row_of, site_of

_DOOR_OF: Mapping[str, str] = {"openai_chat": "openai", "openai_responses": "openai"}
"""Of protocols whose door is called otherwise."""

OWN_KEY = "With the agent's own key or login"


MOST_LEFT = 100
"""Sessions of a tap that are looked at when it is revoked, the newest."""


async def agents(request: Request) -> Response:
    """GET /agents: how to start an agent, and all taps."""
    return HTMLResponse(await _page(request))


async def changed(request: Request) -> Response:
    """GET /agents/taps?version=…: the list of taps as HTML; 204 where it is still the same."""
    site = site_of(request)
    rows = await _rows(site)
    if request.query_params.get("version") == version(rows):
        return Response(status_code=204)
    return HTMLResponse(tap_list(site.env, rows, site.engine.sessions.clock()))


async def taps(request: Request) -> Response:
    """GET /taps: all of them, for scripts; never a secret."""
    if wants(request) != "json":
        return RedirectResponse("/agents", 303)
    return as_json([data_of(row) for row in await _rows(site_of(request))])


async def create(request: Request) -> Response:
    """POST /taps: a new tap, whose secret is in this answer and nowhere else."""
    site, body = site_of(request), await body_of(request)
    upstream = body.text("upstream", "simulator")
    title, stop_at = body.text("title"), body.text("stop_at", "nothing")
    try:
        tap, secret = await site.taps.create(upstream, title, stop_at, body.text("agent"))
    except (BadInput, NotFound) as error:
        if wants(request) != "page":
            raise
        wrong = site.engine.keys.redactor().redact_text(str(error))
        return HTMLResponse(await _page(request, None, upstream, title, stop_at, wrong), 422)
    base = f"{str(request.base_url).rstrip('/')}/tap/{secret}"
    urls = {door: base + path for door, path in DOORS.items()}
    if wants(request) == "json":
        return as_json({"id": tap.id, "secret": secret, "urls": urls}, 201)
    doors = _doors(site.engine.profile(tap.upstream))
    return HTMLResponse(await _page(request, NewTap(tap, urls, lines_for(urls, doors))), 201)


async def change_settings(request: Request) -> Response:
    """POST /taps/ID/settings: where it stops, for the requests that come from now on."""
    site, body = site_of(request), await body_of(request)
    tap = await site.taps.set_stop_at(request.path_params["id"], body.text("stop_at"))
    site.engine.sessions.ring_list()  # the pages of its sessions say so, too
    if wants(request) == "htmx":
        return HTMLResponse(tap_list(site.env, await _rows(site), site.engine.sessions.clock()))
    return answer(request, data_of(_row(site, tap)), location="/agents")


async def revoke(request: Request) -> Response:
    """POST /taps/ID/revoke: its secret is refused from now on, so that no result comes of the calls
    that its agent runs, and it does not come again for those that are held."""
    site = site_of(request)
    await body_of(request)
    tap = await site.taps.revoke(request.path_params["id"])
    log = site.engine.log
    for session_id in await log.tapped(tap.id, MOST_LEFT):
        summary = await log.summary(session_id)
        if summary is not None and summary.state in ("running", "waiting"):
            await site.engine.runner.leave(session_id)
    return answer(request, data_of(_row(site, tap)), location="/agents")


def data_of(row: TapRow) -> Mapping[str, Any]:
    """A tap as scripts read it."""
    return {
        **to_data(row.tap),
        "requests": row.requests,
        "last_request_ms": row.last_ms,
        "other_requests": [to_data(other) for other in row.others],
    }


async def _rows(site: Site) -> list[TapRow]:
    """All taps, and the sessions of those that are listed."""
    every = await site.taps.all()
    ended = [tap.id for tap in every if tap.revoked_ms is not None]
    unlisted = set(ended[MOST_ENDED:])
    listed = [tap.id for tap in every if tap.id not in unlisted]
    sessions = await site.engine.log.sessions_of_taps(listed, MOST_SESSIONS + 1)
    return [_row(site, tap, [row_of(s) for s in sessions.get(tap.id, ())]) for tap in every]


def _row(site: Site, tap: Tap, sessions: Sequence[SessionRow] = ()) -> TapRow:
    activity = site.taps.activity(tap.id)
    age_ms = site.engine.sessions.clock() - tap.created_ms
    never_asked = activity.since_start and not activity.requests
    return TapRow(
        tap,
        tap.upstream,
        activity.requests,
        activity.last_ms,
        tuple(activity.others),
        silent=bool(tap.agent) and never_asked and age_ms >= SILENT_MS,
        since_start=activity.since_start,
        sessions=sessions,
    )


async def _page(
    request: Request,
    new: NewTap | None = None,
    upstream: str = "",
    title: str = "",
    stop_at: str = "nothing",
    wrong: str = "",
) -> str:
    site = site_of(request)
    path = site.engine.database.path
    usual = path.absolute() == config.default_db(site.engine.environment).absolute()
    page = AgentsPage(
        await _rows(site),
        _upstreams(site),
        site.engine.sessions.clock(),
        "" if usual else f" --db {shlex.quote(str(path.absolute()))}",
        new,
        upstream,
        title,
        stop_at,
        wrong,
    )
    return agents_page(site.env, page)


def _upstreams(site: Site) -> Sequence[tuple[str, Sequence[tuple[str, str]]]]:
    """Where requests can go on to: what is ready, and what is so by what the agent sends."""
    groups: dict[str, list[tuple[str, str]]] = {"Ready": [], OWN_KEY: [], "Simulator": []}
    for row in rows_of(site.engine):
        ready, name = row.state == "ready", row.profile.name
        if ready or is_vendors_own(row.profile):
            choice = (name, f"{row.title} · {name}")
            groups.setdefault(row.group if ready else OWN_KEY, []).append(choice)
    return [(group, choices) for group, choices in groups.items() if choices]


def _doors(profile: Profile) -> Sequence[str]:
    """The doors of a tap that lead to that profile; the simulator is behind all."""
    if profile.simulated:
        return tuple(DOORS)
    return (_DOOR_OF.get(profile.protocol, profile.protocol),)
