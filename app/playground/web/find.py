"""The Find page: search, filters, and actions on sessions: pin, archive, tag, purge. Also the
command palette, which finds pages, tools and actions.

Also the database itself: its size, why nothing can be saved, and a copy of it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput
from playground.core.serialization import to_data
from playground.core.tools import Tool
from playground.engine import manage_sessions
from playground.engine.engine import Engine
from playground.render.view import SessionRow
from playground.store.maintenance import size
from playground.store.search import KEYS, MARKS, STATES, SearchHit, choices, parse_query, search
from playground.web.demos import DEMOS
from playground.web.forms import answer, answer_format, as_json, body_of
from playground.web.site import search_row, site_of

SHOWN, MOST_SHOWN = 50, 500
ACTS = ("pin", "unpin", "archive", "unarchive", "delete", "restore", "purge")

MOST_SESSIONS, MOST_TOOLS = 8, 8

OF_A_SESSION: Sequence[tuple[str, str, str]] = (
    ("Setup", "Model, tools, limits", "/sessions/{}?tab=setup"),
    ("Wire", "Every byte, with its time", "/sessions/{}?tab=wire"),
    ("Next request", "What will be sent", "/sessions/{}?tab=request"),
    ("Code", "A request as curl and as Python", "/sessions/{}?tab=code"),
    ("Share or export", "HTML, JSON Lines, pytest, HAR…", "/sessions/{}/share"),
    ("Fork", "Continue from the end in a new session", "/sessions/{}/fork"),
    ("Run as a batch", "Many times, on several models", "/batches/new?session={}"),
    ("Files", "Scratch folder of the workspace tools", "/sessions/{}/files"),
)
"""Title, detail, and the address with a placeholder for the session's id."""


async def find(request: Request) -> Response:
    """GET /find?q=&tool=&model=&profile=&state=&tag=&is=&after=&before=&show=: searches the
    sessions."""
    site, asked = site_of(request), request.query_params
    fields = {key: asked.get(key, "").strip() for key in ("q", *KEYS)}
    query = " ".join(
        [fields["q"], *(_search_term(key, fields[key]) for key in KEYS if fields[key])]
    )
    query, show = query.strip(), asked.get("show", "")
    shown = int(show) if show.isascii() and show.isdigit() and len(show) < 5 else SHOWN
    shown = min(max(shown, 1), MOST_SHOWN)
    path, looked = site.engine.database.path, parse_query(query)
    result = await search(path, looked, shown)
    if answer_format(request) == "json":
        hits = [_hit(hit) for hit in result.hits]
        summary = {"more": result.more, "cut": result.cut, "notes": list(looked.notes)}
        return as_json({"hits": hits, **summary})
    some = {**await asyncio.to_thread(choices, path), "state": STATES, "is": MARKS}
    finding = SearchPage(
        query,
        fields=fields,
        choices=some,
        rows=[search_row(hit) for hit in result.hits],
        more=result.more and shown < MOST_SHOWN,
        cut=result.cut,
        notes=looked.notes,
        shown=shown,
        deleted="deleted" in looked.marks,
    )
    return HTMLResponse(find_page(site.env, finding, site.engine.sessions.clock()))


async def database_size(request: Request) -> Response:
    """GET /find/size: measures the content of the database."""
    site = site_of(request)
    measured = await size(site.engine.database)
    if answer_format(request) == "json":
        return as_json(to_data(measured))
    return HTMLResponse(size_fragment(site.env, measured))


async def mark_one(request: Request) -> Response:
    """POST /sessions/ID/pin|unpin|archive|unarchive|purge: marks a session, or deletes it for good
    (`purge`)."""
    session_id, act = request.path_params["id"], request.url.path.rpartition("/")[2]
    await _ACTS[act](site_of(request).engine, session_id)
    gone = act == "purge"
    back = "/find?q=is%3Adeleted" if gone else f"/sessions/{session_id}"
    stays = request.headers.get("hx-request") and not gone
    return answer(request, {"ok": True}, location="" if stays else back)


async def tag(request: Request) -> Response:
    """POST /sessions/ID/tags: replaces the tags of a session by `tags`, comma-separated in a
    form."""
    body, session_id = await body_of(request), request.path_params["id"]
    tags = body.getlist("tags") if body.is_json else body.text("tags").split(",")
    saved = await manage_sessions.tag(site_of(request).engine, session_id, tags)
    location = "" if request.headers.get("hx-request") else f"/sessions/{session_id}"
    return answer(request, {"ok": True, "tags": list(saved)}, location=location)


async def mark_several(request: Request) -> Response:
    """POST /find/marks: applies `act` to each of `sessions`. `purge` without any empties the
    bin."""
    engine, body = site_of(request).engine, await body_of(request)
    act, sessions = body.text("act"), body.getlist("sessions")
    if act == "empty":
        await manage_sessions.purge(engine, await manage_sessions.sessions_in_bin(engine))
    elif act not in ACTS:
        raise BadInput(f"act must be one of {', '.join(ACTS)}, or empty for the whole bin.")
    elif not sessions:
        raise BadInput("No session is selected. Select sessions, then press the button again.")
    elif act == "purge":
        await manage_sessions.purge(engine, sessions)
    else:
        for session in sessions:
            await _ACTS[act](engine, session)
    query = urlencode({"q": body.text("q")})
    return answer(request, {"ok": True}, location=f"/find?{query}")


async def _restore(engine: Engine, session_id: str) -> None:
    async with engine.sessions.lock_session(session_id) as live:
        await engine.sessions.delete(live, deleted=False)


_ACTS: Mapping[str, Callable[[Engine, str], Awaitable[None]]] = {
    "pin": lambda engine, session_id: manage_sessions.pin(engine, session_id, on=True),
    "unpin": lambda engine, session_id: manage_sessions.pin(engine, session_id, on=False),
    "archive": lambda engine, session_id: manage_sessions.archive(engine, session_id, on=True),
    "unarchive": lambda engine, session_id: manage_sessions.archive(engine, session_id, on=False),
    "purge": lambda engine, session_id: manage_sessions.purge(engine, [session_id]),
    "delete": lambda engine, session_id: engine.runner.delete(session_id),
    "restore": _restore,
}


def _search_term(key: str, value: str) -> str:
    return f'{key}:"{value.replace(chr(34), " ")}"'


def _hit(hit: SearchHit) -> Mapping[str, Any]:
    """A search hit as scripts read it; `excerpt` is pairs (text, marked)."""
    summary = hit.session
    excerpt: Sequence[tuple[str, bool]] = [(piece.text, piece.marked) for piece in hit.excerpt]
    return {
        **{
            "id": summary.id,
            "title": summary.title,
            "state": summary.state,
            "updated": summary.updated_ms,
        },
        **{"model": summary.model, "profile": summary.profile, "tags": list(summary.tags)},
        **{"pinned": summary.pinned, "archived": summary.archived, "deleted": summary.deleted},
        **{"seq": hit.seq, "kind": hit.kind, "block": hit.place, "excerpt": excerpt},
    }


@dataclass(frozen=True)
class SearchPage:
    """`query` is the whole search as one text, `fields` the form's input by name. `choices` are the
    selectable values. `more`: there are further hits; `cut`: the time limit was reached."""

    query: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: Sequence[SessionRow] = ()
    more: bool = False
    cut: bool = False
    notes: Sequence[str] = ()
    shown: int = 0
    deleted: bool = False


def find_page(env: Environment, finding: SearchPage, now_ms: int) -> str:
    return env.get_template("find.html").render(page=finding, now_ms=now_ms)


def size_fragment(env: Environment, size: object) -> str:
    """The foot of the page: the size of the database's content (store/maintenance.py, Size)."""
    return env.get_template("_size.html").render(size=size)


# The state of the database.


async def database_state(request: Request) -> Response:
    """GET /store: says why nothing can be saved now, and how much is held in memory."""
    site = site_of(request)
    store, trouble = site.store_now(), site.engine.sessions.health.trouble
    sentence = "" if trouble is None else str(trouble)  # the page keeps its sentence a while longer
    return as_json({"trouble": sentence, "copy": store.copy, "unsaved": store.unsaved})


async def copy_database(request: Request) -> Response:
    """POST /store/copy: writes the whole database again if its file was deleted. 409 if a file
    exists."""
    engine = site_of(request).engine
    await engine.write_anew()
    return answer(request, {"path": str(engine.database.path)}, location="/")


# The command palette finds pages, sessions, tools and actions by a few typed words.


@dataclass(frozen=True)
class PaletteEntry:
    """One of three is set: `href`, a page to open; `action`, the name of a script's action
    (`data-do` in a page); or `demo`, a demo to start. `key` is its shortcut, "" for none;
    `updated_ms` is the time of a session's last change, 0 for anything else."""

    title: str
    detail: str = ""
    href: str = ""
    action: str = ""
    demo: str = ""
    key: str = ""
    updated_ms: int = 0


PAGES: Sequence[PaletteEntry] = (
    PaletteEntry("Sessions", "Find, filter, tags, bin", "/find"),
    PaletteEntry("Tools", "The library", "/tools"),
    PaletteEntry(
        "Batches", "Compare models and prompts over many runs, with error bars", "/batches"
    ),
    PaletteEntry("New batch", "Cases × models × variants", "/batches/new"),
    PaletteEntry("Rules", "Which calls run without approval", "/rules"),
    PaletteEntry("Providers", "Addresses, keys, models", "/providers"),
    PaletteEntry("MCP servers", "Tools of other programs", "/servers"),
    PaletteEntry("Agents", "External agents, live", "/agents"),
    PaletteEntry("Compare models", "One prompt, up to four models", "/compare/new"),
    PaletteEntry("Import tools", "Files, addresses, OpenAPI, mcp.json", "/import"),
    PaletteEntry("Import a session", "JSON Lines, HTML, HAR", "/sessions/import"),
    PaletteEntry("Demos", "Start here", "/welcome"),
)

ACTIONS: Sequence[PaletteEntry] = (
    PaletteEntry("New session", "", action="new", key="N"),
    PaletteEntry("Light or dark", "Theme", action="theme"),
    PaletteEntry("Keyboard shortcuts", "", action="keys", key="?"),
)

IN_A_SESSION: Sequence[PaletteEntry] = (
    PaletteEntry("Present", "Presentation mode", action="present", key="P"),
    PaletteEntry("Show or hide the list", "", action="fold-side", key="S"),
    PaletteEntry("Show or hide the inspector", "", action="fold-inspector", key="I"),
)


async def palette(request: Request) -> Response:
    """GET /palette?q=&here=SESSION: lists the entries of the command palette that match all words
    of `q`. `here` is the session that the page shows.

    ---
    responses:
      200: {description: A list., content: {text/html: {}}}
    """
    site = site_of(request)
    text = request.query_params.get("q", "").strip()
    here = request.query_params.get("here", "")
    if text:
        asked = parse_query(text)
        result = await search(site.engine.database.path, asked, MOST_SESSIONS + 1)
        rows = [search_row(hit) for hit in result.hits]
    else:
        rows = await site.rows()
    tools = await site.engine.library.tools()
    groups = group_entries(text, here, [row for row in rows if row.id != here], tools)
    template = site.env.get_template("_palette_list.html")
    now_ms = site.engine.sessions.clock()
    return HTMLResponse(template.render(groups=groups, query=text, now_ms=now_ms))


def group_entries(
    text: str, here: str, rows: Sequence[SessionRow], tools: Sequence[Tool]
) -> Sequence[tuple[str, Sequence[PaletteEntry]]]:
    """Non-empty groups of entries with their titles; first the groups with an entry whose own title
    matches `text`. `rows` are the sessions that `text` found; tools and demos are listed once text
    is typed."""
    of_session = [
        PaletteEntry(title, detail, path.format(quote(here, safe="")))
        for title, detail, path in OF_A_SESSION
    ]
    sessions = [
        PaletteEntry(
            row.title or "New session",
            row.words or "empty",
            f"/sessions/{row.id}",
            updated_ms=row.updated_ms,
        )
        for row in rows[:MOST_SESSIONS]
    ]
    in_library = [
        PaletteEntry(tool.name, tool.description, f"/tools/{tool.name}") for tool in tools
    ]
    demos = [PaletteEntry(demo.title, demo.words, demo=demo.name) for demo in DEMOS]
    groups: Sequence[tuple[str, Sequence[PaletteEntry]]] = (
        ("This session", _matching_entries(of_session, text) if here else ()),
        ("Sessions", sessions),
        ("Pages", _matching_entries(PAGES, text)),
        ("Actions", _matching_entries([*ACTIONS, *IN_A_SESSION] if here else ACTIONS, text)),
        ("Tools", _matching_entries(in_library, text)[:MOST_TOOLS] if text else ()),
        ("Demos", _matching_entries(demos, text) if text else ()),
    )
    filled = [(title, entries) for title, entries in groups if entries]
    return sorted(filled, key=lambda group: not _has_words(group[1][0].title, text))


def _matching_entries(entries: Sequence[PaletteEntry], text: str) -> Sequence[PaletteEntry]:
    """The entries that match each word of `text`; first those that match by title."""
    fitting = [entry for entry in entries if _has_words(f"{entry.title} {entry.detail}", text)]
    return sorted(fitting, key=lambda entry: not _has_words(entry.title, text))


def _has_words(words: str, text: str) -> bool:
    """Whether each word of `text` is a prefix of a word of `words`."""
    present = re.split(r"[\W_]+", words.lower())
    typed = [word for word in re.split(r"[\W_]+", text.lower()) if word]
    return all(any(word.startswith(begun) for word in present) for begun in typed)
