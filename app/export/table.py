"""The forms a session leaves in. A new one is a file beside this and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.export import html, jsonl
from app.export.kept import Kept, Written


@dataclass(frozen=True)
class Export:
    """`label` and `words` are for the page that offers it."""

    label: str
    words: str
    write: Callable[[Kept], Written]


EXPORTS: Mapping[str, Export] = {
    "html": Export(
        "One HTML file", "Opens from disk, plays, and asks nobody for anything.", html.write
    ),
    "jsonl": Export(
        "JSON Lines", "The whole session, to be brought back to a playground.", jsonl.write
    ),
}
"""By the name that `playground export --as` takes."""
