"""The command palette: pages, sessions, tools and actions by a few typed words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.tools import Tool
from app.render.view import SessionRow
from app.store.search import parse_query, search
from app.web.demos import DEMOS
from app.web.site import search_row, site_of

MOST_SESSIONS, MOST_TOOLS = 8, 8


@dataclass(frozen=True)
class PaletteEntry:
    """`href` is a page that opens, `action` the name of a script's action (`data-do` in a page),
    `demo` the name of a demo that starts; one of the three. `key` is its key, "" for none."""

    title: str
    detail: str = ""
    href: str = ""
    action: str = ""
    demo: str = ""
    key: str = ""


PAGES: Sequence[PaletteEntry] = (
    PaletteEntry("Sessions", "Find, filter, tags, bin", "/find"),
    PaletteEntry("Tools", "The library", "/tools"),
    PaletteEntry("Batches", "Is it better? Many runs, with error bars", "/batches"),
    PaletteEntry("New batch", "Cases × models × variants", "/batches/new"),
    PaletteEntry("Rules", "Which calls run without asking", "/rules"),
    PaletteEntry("Providers", "Addresses, keys, models", "/providers"),
    PaletteEntry("MCP servers", "Tools of other programs", "/servers"),
    PaletteEntry("Agents", "Other people's agents, live", "/agents"),
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
    PaletteEntry("Present", "The conversation alone, larger", action="present", key="P"),
    PaletteEntry("Fold or show the list", "", action="fold-side", key="S"),
    PaletteEntry("Fold or show the inspector", "", action="fold-inspector", key="I"),
)

OF_A_SESSION: Sequence[tuple[str, str, str]] = (
    ("Setup", "Model, tools, limits", "/sessions/{}?tab=setup"),
    ("Wire", "Every byte, with its time", "/sessions/{}?tab=wire"),
    ("Next request", "What will be sent", "/sessions/{}?tab=request"),
    ("Code", "curl, Python, JavaScript", "/sessions/{}?tab=code"),
    ("Share or export", "HTML, JSON Lines, pytest, HAR…", "/sessions/{}/share"),
    ("Fork", "Go on from its end in a new session", "/sessions/{}/fork"),
    ("Run as a batch", "Many times, on several models", "/batches/new?session={}"),
    ("Files", "The scratch folder of its workspace tools", "/sessions/{}/files"),
)
"""Title, detail, and the address with a place for the session's id."""


async def palette(request: Request) -> Response:
    """GET /palette?q=&here=SESSION: the entries that all words of `q` fit, as the list of the
    palette; `here` is the session that the page shows."""
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
    groups = grouped(text, here, [row for row in rows if row.id != here], tools)
    template = site.env.get_template("_palette_list.html")
    return HTMLResponse(template.render(groups=groups, query=text))


def grouped(
    text: str, here: str, rows: Sequence[SessionRow], tools: Sequence[Tool]
) -> Sequence[tuple[str, Sequence[PaletteEntry]]]:
    """Groups that have an entry, with their titles; first those of which an entry's own title has
    the words of `text`. Of sessions `rows` are those that `text` found; tools and demos are listed
    once something is typed."""
    of_session = [
        PaletteEntry(title, detail, path.format(quote(here, safe="")))
        for title, detail, path in OF_A_SESSION
    ]
    sessions = [
        PaletteEntry(row.title or "New session", row.words, f"/sessions/{row.id}")
        for row in rows[:MOST_SESSIONS]
    ]
    in_library = [
        PaletteEntry(tool.name, tool.description, f"/tools/{tool.name}") for tool in tools
    ]
    demos = [PaletteEntry(demo.title, demo.words, demo=demo.name) for demo in DEMOS]
    groups: Sequence[tuple[str, Sequence[PaletteEntry]]] = (
        ("This session", _fitting(of_session, text) if here else ()),
        ("Sessions", sessions),
        ("Pages", _fitting(PAGES, text)),
        ("Actions", _fitting([*ACTIONS, *IN_A_SESSION] if here else ACTIONS, text)),
        ("Tools", _fitting(in_library, text)[:MOST_TOOLS] if text else ()),
        ("Demos", _fitting(demos, text) if text else ()),
    )
    filled = [(title, entries) for title, entries in groups if entries]
    return sorted(filled, key=lambda group: not _has_words(group[1][0].title, text))


def _fitting(entries: Sequence[PaletteEntry], text: str) -> Sequence[PaletteEntry]:
    """Those that have each word of `text`; first those whose titles have them."""
    fitting = [entry for entry in entries if _has_words(f"{entry.title} {entry.detail}", text)]
    return sorted(fitting, key=lambda entry: not _has_words(entry.title, text))


def _has_words(words: str, text: str) -> bool:
    """Whether each word of `text` begins a word of `words`."""
    present = re.split(r"[\W_]+", words.lower())
    typed = [word for word in re.split(r"[\W_]+", text.lower()) if word]
    return all(any(word.startswith(begun) for word in present) for begun in typed)
