"""A session with its log and recordings, as exporters read it, and the file they make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment

from app.core.events import Logged
from app.core.session import Session

DEFAULT_BASE = "http://127.0.0.1:8765"
"""Where `playground serve` listens, unless an option says otherwise."""


@dataclass(frozen=True)
class RecordedChunk:
    """Bytes of a recording as they arrived, at `at_ms` (Unix ms)."""

    at_ms: int
    data: bytes


@dataclass(frozen=True)
class Recording:
    """What came back to one request. `masked` are half-open spans of stars of the same length as
    what they hide; `sha256` is of the bytes as they are kept, "" where the end was never seen."""

    number: int
    pieces: Sequence[RecordedChunk] = ()
    clean: bool = False
    masked: Sequence[tuple[int, int]] = ()
    sha256: str = ""

    @property
    def data(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)


@dataclass(frozen=True)
class PageAssets:
    """What a page of it is drawn with. `styles` and `script` stand for themselves: they name no
    other file. `made_by` is the program with its version."""

    env: Environment
    styles: str
    script: str
    made_by: str


@dataclass(frozen=True)
class SessionBundle:
    """A session with its whole `log`, deltas and all, and its recordings by number.

    `session` is folded from `log`. `title`, `tags` and `parent` are the library's. `look` is for
    the forms that are pages, None where none is asked for. `base_url` is where the server listens
    whose simulator answers again what the simulator answered. `beside` are the sessions that its
    agent had beside it, sub-agents and requests on the side, the oldest first, where a form has
    room for them. `expect` is what a batch expected of it, where it is a run of one: expectations
    as a SPEC has them.
    """

    session: Session
    title: str
    log: Sequence[Logged]
    recordings: Mapping[int, Recording] = field(default_factory=dict)
    tags: Sequence[str] = ()
    parent: str = ""
    created_ms: int = 0
    look: PageAssets | None = None
    base_url: str = DEFAULT_BASE
    beside: Sequence[SessionBundle] = ()
    expect: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class ExportFile:
    """A file: its name is made of letters, digits, "-", "_" and dots. `notes` are sentences on what
    this form cannot say."""

    file_name: str
    media_type: str
    data: bytes
    notes: Sequence[str] = ()


# -- Names of files and comments in programs ---------------------------------------------------


def file_name(title: str, ending: str) -> str:
    """`A title!` -> `a-title.html`: letters, digits and dashes, at most 60 of them."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60].strip("-")
    return f"{words or 'session'}.{ending}"


def one_line(text: str) -> str:
    """`text` without a line break, a control or a direction mark."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def comment_text(text: str) -> str:
    """`text` for a comment or a docstring of a program: one line, with nothing in it that ends
    either. All that comes from a session and stands outside of a literal goes through here."""
    return one_line(text).replace("\\", "/").replace('"', "'")
