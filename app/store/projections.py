"""What is kept beside the events to be found quickly, written anew from them: the list's rows, the
tools of a session, the index for search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.core.events import Logged, PartEnded, PartStarted
from app.store.batch import Batch, Summary, statements, storable
from app.store.database import Database, Statement

REBUILD = (
    Statement("INSERT INTO found (found) VALUES ('delete-all')", [()]),
    Statement("INSERT INTO found (rowid, text) SELECT pos, text FROM texts", [()]),
)
"""FTS5's own 'rebuild' cannot read a view."""


def called(log: Iterable[Logged]) -> frozenset[str]:
    """The tools that were called, by name, as they are stored."""
    parts = (one.event for one in log if isinstance(one.event, PartStarted | PartEnded))
    return frozenset(storable(part.name) for part in parts if part.name)


async def stale(database: Database, folded: Summary, tools: frozenset[str]) -> list[Statement]:
    """What makes the row and the tools of a session what its log says; nothing where they are."""
    rows = await database.rows(
        "SELECT updated_ms, state, model, calls, waiting, tasks, profile FROM sessions"
        " WHERE id = ?",
        (folded.id,),
    )
    names = await database.rows("SELECT tool FROM called WHERE session = ?", (folded.id,))
    right: list[Statement] = []
    stored = {name: value for row in rows for name, value in zip(row.keys(), row, strict=True)}
    if stored != {name: _stored(folded, name) for name in stored}:
        right += statements(Batch(folded.id, summary=replace(folded, title="")), 0)
    if missing := sorted(tools - {row[0] for row in names}):
        values = [(folded.id, tool) for tool in missing]
        right.append(Statement("INSERT OR IGNORE INTO called VALUES (?, ?)", values))
    return right


async def mend(database: Database, several: Sequence[Statement]) -> None:
    """Write what is stale, and the whole index for search anew."""
    await database.write([*several, *REBUILD], full=True)


def _stored(folded: Summary, name: str) -> object:
    value: object = getattr(folded, name)
    return storable(value) if isinstance(value, str) else value
