"""The page "Agents" as HTML: how an agent is started through a tap, and what the taps do. Pure.

Knows a secret only in the addresses of a tap that was just made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment

from app.render.view import SessionRow
from app.tap.taps import OtherRequest, Tap

SILENT_MS = 60_000
"""An agent that was started so long ago, in ms, and from which nothing has come, asks elsewhere."""

MOST_ENDED = 20
"""Revoked taps that are listed, the newest."""


@dataclass(frozen=True)
class AgentLines:
    """What is typed to start an agent, or set for an SDK, by hand. `lines` have the addresses of
    the doors in braces, by their names; `door` is the one they need. `note` is what is peculiar."""

    title: str
    door: str
    lines: str
    note: str = ""


LAUNCHED: Mapping[str, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
}
"""The agents that `playground tap` knows, by its names for them."""

BY_HAND: tuple[AgentLines, ...] = (
    AgentLines(
        "Claude Code",
        "anthropic",
        "ANTHROPIC_BASE_URL={anthropic} claude",
        "A base URL in its own settings wins over this one. Use playground tap claude then.",
    ),
    AgentLines("Anthropic's SDKs", "anthropic", "export ANTHROPIC_BASE_URL={anthropic}"),
    AgentLines("OpenAI's SDKs", "openai", "export OPENAI_BASE_URL={openai}"),
    AgentLines("aider", "openai", "OPENAI_API_BASE={openai} aider"),
    AgentLines(
        "Gemini CLI",
        "gemini",
        "GOOGLE_GEMINI_BASE_URL={gemini} gemini",
        "With an API key: a Google login does not take another address.",
    ),
    AgentLines("Google's SDKs", "gemini", "export GOOGLE_GEMINI_BASE_URL={gemini}"),
    AgentLines("Ollama's SDKs", "ollama", "export OLLAMA_HOST={ollama}"),
)

STOPS_AT: Mapping[str, str] = {
    "nothing": "nothing",
    "unruled": "calls that no rule allows",
    "calls": "every call",
    "results": "every call and every result",
    "errors": "errors",
}


@dataclass(frozen=True)
class TapRow:
    """A tap with all that the page says of it. `upstream` is what its provider is called.
    `requests` have come since this process began, the last at `last_ms` (Unix time). `silent` is
    whether its agent should have asked by now. `since_start` is whether the tap is as old as this
    process or younger. `others` are the requests that were no conversations, the newest last."""

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
        return LAUNCHED.get(self.tap.agent, self.tap.agent)

    @property
    def name(self) -> str:
        return self.tap.title or self.agent or "Started by hand"


@dataclass(frozen=True)
class NewTap:
    """A tap that was just made, with the lines that have its secret in them, and the addresses of
    its doors by their names."""

    tap: Tap
    urls: Mapping[str, str]
    lines: Sequence[AgentLines]


@dataclass(frozen=True)
class AgentsPage:
    """`upstreams` are (name, title) of the profiles to choose from, under the titles of their
    groups. `database` is the option that names it, "" for the usual one. What was typed in the
    form comes back in `upstream` and `title`, with `wrong`."""

    rows: Sequence[TapRow]
    upstreams: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    now_ms: int
    database: str = ""
    new: NewTap | None = None
    upstream: str = ""
    title: str = ""
    wrong: str = ""
    launched: Mapping[str, str] = field(default_factory=lambda: LAUNCHED)


def agents_page(env: Environment, page: AgentsPage) -> str:
    """The whole page."""
    return env.get_template("agents.html").render(page=page, **_list(page.rows, page.now_ms))


def tap_list(env: Environment, rows: Sequence[TapRow], now_ms: int) -> str:
    """The list of taps, which the page replaces while it is open."""
    return env.get_template("_taps.html").render(**_list(rows, now_ms))


def version(rows: Sequence[TapRow]) -> str:
    """Another one for a list that says anything else; the age of a request does not count."""
    open_taps, ended = _parted(rows)
    shown = (*open_taps, *ended[:MOST_ENDED], len(ended))
    return hashlib.sha256(repr(shown).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def lines_for(urls: Mapping[str, str], doors: Sequence[str]) -> list[AgentLines]:
    """The lines by hand for those of the doors that lead somewhere."""
    return [
        AgentLines(row.title, row.door, row.lines.format(**urls), row.note)
        for row in BY_HAND
        if row.door in doors
    ]


def _list(rows: Sequence[TapRow], now_ms: int) -> dict[str, object]:
    open_taps, ended = _parted(rows)
    return {
        "open_taps": open_taps,
        "ended": ended[:MOST_ENDED],
        "ended_count": len(ended),
        "version": version(rows),
        "now_ms": now_ms,
        "stops_at": STOPS_AT,
    }


def _parted(rows: Sequence[TapRow]) -> tuple[list[TapRow], list[TapRow]]:
    """Those in use, and the revoked ones."""
    ended = [row for row in rows if row.tap.revoked_ms is not None]
    return [row for row in rows if row.tap.revoked_ms is None], ended
