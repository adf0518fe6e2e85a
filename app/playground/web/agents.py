"""The page "Agents" and the API of taps: create, list, change, revoke."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from playground import config
from playground.core.errors import BadInput, NotFound
from playground.core.serialization import to_data
from playground.core.settings import Profile
from playground.net.keys import is_vendors_own
from playground.render.view import SessionRow
from playground.tap.agents import AGENTS, BY_HAND, DOORS, fill_lines
from playground.tap.taps import OtherRequest, Tap
from playground.web.forms import answer, answer_format, as_json, body_of
from playground.web.providers import rows_of
from playground.web.site import Site, row_of, site_of

_DOOR_OF: Mapping[str, str] = {"openai_chat": "openai", "openai_responses": "openai"}
"""Entry points of protocols whose name differs from the protocol's."""

OWN_KEY = "With the agent's own key or login"

MOST_LEFT = 100
"""How many of a tap's newest sessions are processed when it is revoked."""

SILENT_MS = 60_000
"""An agent started this many ms ago, of which nothing has arrived, sends its requests elsewhere."""

MOST_ENDED = 20
"""How many revoked taps are listed, the newest ones."""

MOST_SESSIONS = 10
"""How many sessions of a tap are listed, the newest ones."""

_ALL_THE_SAME = "Calls that a rule asks about, denies or stops at still wait."


async def agents(request: Request) -> Response:
    """GET /agents: shows how to start an agent, and all taps.

    ---
    responses:
      200: {description: The page., content: {text/html: {}}}
    """
    return HTMLResponse(await _page(request))


async def redraw_taps(request: Request) -> Response:
    """GET /agents/taps?version=: redraws the list of taps.

    ---
    responses:
      200: {description: A part of the page., content: {text/html: {}}}
      204: {description: It is unchanged.}
    """
    site = site_of(request)
    rows = await _rows(site)
    if request.query_params.get("version") == version(rows):
        return Response(status_code=204)
    return HTMLResponse(tap_list(site.env, rows, site.engine.sessions.clock()))


async def taps(request: Request) -> Response:
    """GET /taps: lists the taps for scripts, never with a secret.

    ---
    responses:
      200: {description: The list.}
      303: {description: "A browser: to /agents."}
    """
    if answer_format(request) != "json":
        return RedirectResponse("/agents", 303)
    return as_json([data_of(row) for row in await _rows(site_of(request))])


async def create(request: Request) -> Response:
    """POST /taps: creates a tap. Only this answer contains its secret.

    ---
    responses:
      201: {description: The tap with its secret., content: {application/json: {}, text/html: {}}}
      404: {$ref: "#/components/responses/Error404"}
    """
    site, body = site_of(request), await body_of(request)
    upstream = body.text("upstream", "simulator")
    title, stop_at = body.text("title"), body.text("stop_at", "nothing")
    try:
        tap, secret = await site.taps.create(upstream, title, stop_at, body.text("agent"))
    except (BadInput, NotFound) as error:
        if answer_format(request) != "page":
            raise
        wrong = site.engine.keys.redactor().redact_text(str(error))
        return HTMLResponse(
            await _page(
                request, new=None, upstream=upstream, title=title, stop_at=stop_at, wrong=wrong
            ),
            422,
        )
    base = f"{str(request.base_url).rstrip('/')}/tap/{secret}"
    urls = {door: base + path for door, path in DOORS.items()}
    if answer_format(request) == "json":
        return as_json({"id": tap.id, "secret": secret, "urls": urls}, 201)
    doors = _doors(site.engine.profile(tap.upstream))
    return HTMLResponse(await _page(request, NewTap(tap, urls, lines_for(urls, doors))), 201)


async def change_settings(request: Request) -> Response:
    """POST /taps/ID/settings: changes where a tap stops, for requests from now on."""
    site, body = site_of(request), await body_of(request)
    tap = await site.taps.set_stop_at(request.path_params["id"], body.text("stop_at"))
    site.engine.sessions.notify_list()  # the pages of its sessions show it, too
    if answer_format(request) == "htmx":
        return HTMLResponse(tap_list(site.env, await _rows(site), site.engine.sessions.clock()))
    return answer(request, data_of(_row(site, tap)), location="/agents")


async def revoke(request: Request) -> Response:
    """POST /taps/ID/revoke: revokes a tap: its secret is refused from now on. So results of calls
    that its agent runs no longer arrive, and the agent does not come back for held calls."""
    site = site_of(request)
    await body_of(request)
    tap = await site.taps.revoke(request.path_params["id"])
    log = site.engine.log
    for session_id in await log.tapped_sessions(tap.id, MOST_LEFT):
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
    """All taps, with the sessions of those that are listed."""
    every = await site.taps.list_taps()
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
        upstreams=_upstreams(site),
        now_ms=site.engine.sessions.clock(),
        database="" if usual else f" --db {shlex.quote(str(path.absolute()))}",
        new=new,
        upstream=upstream,
        title=title,
        stop_at=stop_at,
        wrong=wrong,
    )
    return agents_page(site.env, page)


def _upstreams(site: Site) -> Sequence[tuple[str, Sequence[tuple[str, str]]]]:
    """The upstream profiles: those that are ready, and those that work with the agent's own key."""
    groups: dict[str, list[tuple[str, str]]] = {"Ready": [], OWN_KEY: [], "Simulator": []}
    rows = rows_of(site.engine)
    titles = Counter(row.title.casefold() for row in rows)
    for row in rows:
        ready, name = row.state == "ready", row.profile.name
        if ready or is_vendors_own(row.profile):
            alone = titles[row.title.casefold()] == 1
            choice = (name, row.title if alone else f"{row.title} · {name}")
            groups.setdefault(row.group if ready else OWN_KEY, []).append(choice)
    return [(group, choices) for group, choices in groups.items() if choices]


def _doors(profile: Profile) -> Sequence[str]:
    """The tap's entry points for that profile; the simulator is reachable by all."""
    if profile.simulated:
        return tuple(DOORS)
    return (_DOOR_OF.get(profile.protocol, profile.protocol),)


# The page's data: pure.


@dataclass(frozen=True)
class FilledLines:
    """The lines to paste into a shell to point a program at a new tap."""

    title: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class StopChoice:
    """A place where a tap can stop; `says` explains it in a sentence."""

    value: str
    title: str
    says: str


STOP_CHOICES: Sequence[StopChoice] = (
    StopChoice("nothing", "Nothing", f"The agent's calls run at once. {_ALL_THE_SAME}"),
    StopChoice(
        "unruled",
        "Calls no rule runs",
        "A call waits on its card in the session until you decide, unless a rule runs it.",
    ),
    StopChoice(
        "calls",
        "Every call",
        "Each call waits on its card in the session until you decide, whatever the rules say.",
    ),
    StopChoice(
        "results",
        "Every result",
        "Each result waits on its card until you decide. The provider reads it after that. "
        + _ALL_THE_SAME,
    ),
    StopChoice(
        "errors",
        "Errors",
        f"Each error result waits on its card until you decide. {_ALL_THE_SAME}",
    ),
)


@dataclass(frozen=True)
class TapRow:
    """A tap with everything the page shows. `upstream` is its provider's title. `requests` is the
    number since this process began, the last at `last_ms` (Unix time). `silent`: its agent should
    have sent a request by now. `since_start`: the tap is not older than this process. `others` are
    requests that were not part of a conversation, the newest last; `sessions` are those of all
    other requests, the newest first, one more than are listed if there are more."""

    tap: Tap
    upstream: str
    requests: int = 0
    last_ms: int | None = None
    others: Sequence[OtherRequest] = ()
    silent: bool = False
    since_start: bool = True
    sessions: Sequence[SessionRow] = ()

    @property
    def agent(self) -> str:
        agent = AGENTS.get(self.tap.agent)
        return agent.title if agent else self.tap.agent

    @property
    def stop_says(self) -> str:
        """The meaning of the tap's current stop setting."""
        says = {choice.value: choice.says for choice in STOP_CHOICES}
        return says[self.tap.stop_at]

    @property
    def name(self) -> str:
        return self.tap.title or self.agent or "Started by hand"


@dataclass(frozen=True)
class NewTap:
    """A tap that was just made, with the lines that contain its secret, and the addresses of its
    entry points by name."""

    tap: Tap
    urls: Mapping[str, str]
    lines: Sequence[FilledLines]


@dataclass(frozen=True)
class AgentsPage:
    """`upstreams` are the selectable profiles as (name, title), under the titles of their groups.
    `database` is the option that names it, "" for the default one. Refused input of the form is
    returned in `upstream`, `title` and `stop_at`, with `wrong`."""

    rows: Sequence[TapRow]
    upstreams: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    now_ms: int
    database: str = ""
    new: NewTap | None = None
    upstream: str = ""
    title: str = ""
    stop_at: str = "nothing"
    wrong: str = ""


def agents_page(env: Environment, page: AgentsPage) -> str:
    """The whole page."""
    listed = _list(page.rows, page.now_ms)
    return env.get_template("agents.html").render(page=page, agents=AGENTS.values(), **listed)


def tap_list(env: Environment, rows: Sequence[TapRow], now_ms: int) -> str:
    """The list of taps, which the open page replaces."""
    return env.get_template("_taps.html").render(**_list(rows, now_ms))


def version(rows: Sequence[TapRow]) -> str:
    """A version that changes with the content of the list; the age of a request does not count."""
    open_taps, ended = _split_revoked(rows)
    shown = (*open_taps, *ended[:MOST_ENDED], len(ended))
    return hashlib.sha256(repr(shown).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def lines_for(urls: Mapping[str, str], doors: Collection[str]) -> list[FilledLines]:
    """The lines to paste, for those entry points that have an upstream."""
    return [
        FilledLines(row.title, "\n".join(fill_lines(row, urls[row.door])), row.note)
        for row in BY_HAND
        if row.door in doors
    ]


def _list(rows: Sequence[TapRow], now_ms: int) -> dict[str, object]:
    open_taps, ended = _split_revoked(rows)
    return {
        "open_taps": open_taps,
        "ended": ended[:MOST_ENDED],
        "ended_count": len(ended),
        "version": version(rows),
        "now_ms": now_ms,
        "stop_choices": STOP_CHOICES,
        "most_sessions": MOST_SESSIONS,
    }


def _split_revoked(rows: Sequence[TapRow]) -> tuple[list[TapRow], list[TapRow]]:
    """The active taps, and the revoked ones."""
    ended = [row for row in rows if row.tap.revoked_ms is not None]
    return [row for row in rows if row.tap.revoked_ms is None], ended
