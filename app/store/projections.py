"""What is kept beside the events to be found quickly, written anew from them: the list's rows, the
tools of a session, the index for search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.store.batch import Batch, Summary, statements, storable
from app.store.database import Database, Statement

REBUILD = (
    Statement("INSERT INTO found (found) VALUES ('delete-all')", [()]),
    Statement("INSERT INTO found (rowid, text) SELECT pos, text FROM texts", [()]),
)
"""FTS5's own 'rebuild' cannot read a view."""
_INDEXED = """
    SELECT (SELECT count(*) FROM (SELECT pos FROM texts EXCEPT SELECT id FROM found_docsize)),
        (SELECT count(*) FROM (SELECT id FROM found_docsize EXCEPT SELECT pos FROM texts))
"""


@dataclass(frozen=True)
class Stale:
    """What the list has otherwise than the log, a sentence each, and what makes it right."""

    says: Sequence[str] = ()
    right: Sequence[Statement] = ()


async def stale(database: Database, folded: Summary, tools: frozenset[str]) -> Stale:
    """The row and the tools of a session beside what its log says."""
    rows = await database.rows(
        "SELECT updated_ms, state, model, calls, waiting, tasks, profile FROM sessions"
        " WHERE id = ?",
        (folded.id,),
    )
    named = await database.rows("SELECT tool FROM called WHERE session = ?", (folded.id,))
    names = {row[0] for row in named}
    stored = {name: value for row in rows for name, value in zip(row.keys(), row, strict=True)}
    says = [
        f"the list has {name} {_short(value)}, and the log {_short(_stored(folded, name))}"
        for name, value in stored.items()
        if value != _stored(folded, name)
    ]
    right = statements(Batch(folded.id, summary=replace(folded, title="")), 0) if says else []
    if missing := [(folded.id, tool) for tool in sorted(tools - names)]:
        says += [f"search does not know that {_short(tool)} was called" for _, tool in missing]
        right.append(Statement("INSERT OR IGNORE INTO called VALUES (?, ?)", missing))
    if extra := [(folded.id, tool) for tool in sorted(names - tools, key=repr)]:
        says += [f"search has {_short(tool)} as called, and the log does not" for _, tool in extra]
        right.append(Statement("DELETE FROM called WHERE session = ? AND tool IS ?", extra))
    return Stale(says, right)


async def search_differs(database: Database) -> Sequence[str]:
    """Which texts the index for search has otherwise than the events. Their words it cannot
    compare: FTS5's own 'integrity-check' cannot read this view either."""
    ((lost, extra),) = await database.rows(_INDEXED)
    says = [f"{lost} texts are not in the index"] if lost else []
    return [*says, *([f"{extra} texts of the index are in no session"] if extra else [])]


async def mend(database: Database, several: Sequence[Statement]) -> None:
    """Write what is stale, and the whole index for search anew. StoreError where an event that
    nobody can read stands in the way of the index; the rest is right then."""
    await database.write(several, full=True)
    await database.write(REBUILD, full=True)


def _stored(folded: Summary, name: str) -> object:
    value: object = getattr(folded, name)
    return storable(value) if isinstance(value, str) else value


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:60]}…"
