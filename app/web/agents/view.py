"""The page "Agents" as HTML: how an agent is started through a tap, and what the taps do. Pure.

Knows a secret only in the addresses of a tap that was just made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment

from app.render.view import SessionRow
from app.tap.agents import AGENTS, BY_HAND, fill_lines
from app.tap.taps import OtherRequest, Tap

SILENT_MS = 60_000
"""An agent that was started so long ago, in ms, and from which nothing has come, asks elsewhere."""

MOST_ENDED = 20
"""Revoked taps that are listed, the newest."""

MOST_SESSIONS = 10
"""Sessions of a tap that are listed, the newest."""


@dataclass(frozen=True)
class FilledLines:
    """What is pasted into a shell to point a program at a tap that was just made."""

    title: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class StopChoice:
    """A place where a tap can stop; `says` is what that means, as a sentence."""

    value: str
    title: str
    says: str


_ALL_THE_SAME = "Calls that a rule asks about, denies or stops at wait all the same."

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
        "Each call waits on its card in the session until you decide, whatever rules run.",
    ),
    StopChoice(
        "results",
        "Every result",
        "What a call came to waits on its card until you decide; only then the provider reads it. "
        + _ALL_THE_SAME,
    ),
    StopChoice(
        "errors",
        "Errors",
        f"A result that is an error waits on its card until you decide. {_ALL_THE_SAME}",
    ),
)


@dataclass(frozen=True)
class TapRow:
    """A tap with all that the page says of it. `upstream` is what its provider is called.
    `requests` have come since this process began, the last at `last_ms` (Unix time). `silent` is
    whether its agent should have asked by now. `since_start` is whether the tap is as old as this
    process or younger. `others` are the requests that were no conversations, the newest last;
    `sessions` what came of the others, the newest first, one more than are listed where there are
    more."""

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
        """What it means where the tap stops now."""
        says = {choice.value: choice.says for choice in STOP_CHOICES}
        return says[self.tap.stop_at]

    @property
    def name(self) -> str:
        return self.tap.title or self.agent or "Started by hand"


@dataclass(frozen=True)
class NewTap:
    """A tap that was just made, with the lines that have its secret in them, and the addresses of
    its doors by their names."""

    tap: Tap
    urls: Mapping[str, str]
    lines: Sequence[FilledLines]


@dataclass(frozen=True)
class AgentsPage:
    """`upstreams` are (name, title) of the profiles to choose from, under the titles of their
    groups. `database` is the option that names it, "" for the usual one. What was typed in the
    form comes back in `upstream`, `title` and `stop_at`, with `wrong`."""

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
    """The list of taps, which the page replaces while it is open."""
    return env.get_template("_taps.html").render(**_list(rows, now_ms))


def version(rows: Sequence[TapRow]) -> str:
    """Another one for a list that says anything else; the age of a request does not count."""
    open_taps, ended = _parted(rows)
    shown = (*open_taps, *ended[:MOST_ENDED], len(ended))
    return hashlib.sha256(repr(shown).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def lines_for(urls: Mapping[str, str], doors: Collection[str]) -> list[FilledLines]:
    """The lines by hand for those of the doors that lead somewhere."""
    return [
        FilledLines(row.title, "\n".join(fill_lines(row, urls[row.door])), row.note)
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
        "stop_choices": STOP_CHOICES,
        "most_sessions": MOST_SESSIONS,
    }


def _parted(rows: Sequence[TapRow]) -> tuple[list[TapRow], list[TapRow]]:
    """Those in use, and the revoked ones."""
    ended = [row for row in rows if row.tap.revoked_ms is not None]
    return [row for row in rows if row.tap.revoked_ms is None], ended
