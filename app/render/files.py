"""The Files page of a session: its scratch folder, one file, and what was changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment


@dataclass(frozen=True)
class FileRow:
    """`kind` is file, folder, link or other; `size` in bytes. `name` is how it is shown, `path`
    "" where it cannot be opened."""

    name: str
    path: str
    kind: str
    size: int


@dataclass(frozen=True)
class ChangeRow:
    """`by` is the call or undo that made it; `undo` whether it is offered; `words` what it did."""

    number: int
    path: str
    by: str
    at_ms: int
    words: str
    undo: bool
    undone: bool


@dataclass(frozen=True)
class DiffLine:
    """`kind` is added, gone, place or same."""

    kind: str
    text: str


@dataclass(frozen=True)
class FilesPage:
    """`path` is the file that is shown, "" for none; `text` its beginning, `more` how many
    characters follow; `said` is told in place of the text. `diff` is that of change `number`."""

    session: str
    title: str
    rows: Sequence[FileRow]
    more_rows: int
    changes: Sequence[ChangeRow]
    path: str = ""
    text: str = ""
    more: int = 0
    said: str = ""
    number: int = 0
    diff: Sequence[DiffLine] = ()


def diff_lines(diff: str) -> list[DiffLine]:
    """A unified diff, line by line."""
    kinds = {"+": "added", "-": "gone", "@": "place"}
    return [DiffLine(kinds.get(line[:1], "same"), line) for line in diff.split("\n")]


def files_page(env: Environment, page: FilesPage) -> str:
    return env.get_template("files.html").render(page=page)
