"""The page that finds sessions: a search, its filters, what was found, and the database's size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment

from app.render.view import SessionRow


@dataclass(frozen=True)
class Finding:
    """`query` is all that was asked for as one text, `fields` what was filled in, by name.
    `choices` are the values to choose from. `more`: there are others; `cut`: the time was over."""

    query: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: Sequence[SessionRow] = ()
    more: bool = False
    cut: bool = False
    notes: Sequence[str] = ()
    shown: int = 0
    deleted: bool = False


def find_page(env: Environment, finding: Finding, now_ms: int) -> str:
    return env.get_template("find.html").render(page=finding, now_ms=now_ms)


def size_fragment(env: Environment, size: object) -> str:
    """The foot of the page: what the database holds (store/purge.py, Size)."""
    return env.get_template("_size.html").render(size=size)
