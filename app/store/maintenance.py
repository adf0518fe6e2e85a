"""Maintenance: sessions really deleted, the file made smaller, derived rows rewritten.

Derived are the list's rows, the tools of a session and the index for search.

Recordings that forks still need go to one of the forks. Anyone who calls holds the session.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from app.core.late import dataclass
from app.store.database import Database, Statement
from app.store.writes import Summary, WriteBatch, statements, storable

PAGES = 500
"""Pages that are given back at once, so that no other write waits long."""


@dataclass(frozen=True)
class Size:
    """What the database holds. `file` and `free` are bytes; `free` is inside the file and used
    again by what comes."""

    file: int
    free: int
    sessions: int
    deleted: int
    events: int
    recordings: int


async def purge(database: Database, session: str) -> None:
    """Every row of `session`, and what search knows of it."""
    heirs = await database.rows(
        "SELECT number, min(session) FROM shares WHERE owner = ? GROUP BY number", (session,)
    )
    given = [(heir, session, number) for number, heir in heirs]
    row = [(session,)]
    statements = [
        Statement("UPDATE chunks SET session = ? WHERE session = ? AND recording = ?", given),
        Statement("UPDATE shares SET owner = ? WHERE owner = ? AND number = ?", given),
        Statement(
            "DELETE FROM shares WHERE session = ? AND owner = session AND number = ?",
            [(heir, number) for heir, _, number in given],
        ),
        Statement(
            "INSERT INTO found (found, rowid, text) SELECT 'delete', pos, text FROM texts"
            " WHERE session = ?",
            row,
        ),
        Statement("DELETE FROM rules WHERE session = ?", row),
        Statement("DELETE FROM sessions WHERE id = ?", row),  # and with it all that names it
    ]
    await database.write(statements, full=True)


async def deleted_sessions(database: Database) -> list[str]:
    """The sessions in the bin."""
    rows = await database.rows("SELECT id FROM sessions WHERE deleted_ms IS NOT NULL ORDER BY id")
    return [row[0] for row in rows]


async def shrink(database: Database) -> None:
    """Give free pages back to the system, a few at a time. A file from before schema 6 keeps its
    size; what is free in it is used again."""
    if (await database.rows("PRAGMA auto_vacuum"))[0][0] != 2:
        return
    free = (await database.rows("PRAGMA freelist_count"))[0][0]
    while free:
        await database.give_back(PAGES)
        still = (await database.rows("PRAGMA freelist_count"))[0][0]
        if still >= free:  # others write meanwhile: the next purge goes on
            return
        free = still


async def size(database: Database) -> Size:
    """Counted again; quick also where there is much, for nothing is read but the smallest index."""
    page, pages, free = [
        (await database.rows(f"PRAGMA {name}"))[0][0]
        for name in ("page_size", "page_count", "freelist_count")
    ]
    (row,) = await database.rows(
        "SELECT (SELECT count(*) FROM sessions),"
        " (SELECT count(*) FROM sessions WHERE deleted_ms IS NOT NULL),"
        " (SELECT coalesce(max(pos), 0) FROM events), (SELECT count(*) FROM recordings)"
    )
    return Size(page * pages, page * free, *row)


# What is kept beside the events, written anew from them -----------------------------------------


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


async def find_stale(database: Database, folded: Summary, tools: frozenset[str]) -> Stale:
    """The row and the tools of a session beside what its log says."""
    rows = await database.rows(
        "SELECT updated_ms, state, model, calls, waiting, tasks, profile, tap, agent, above"
        " FROM sessions WHERE id = ?",
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
    right = statements(WriteBatch(folded.id, summary=replace(folded, title="")), 0) if says else []
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


async def repair(database: Database, several: Sequence[Statement]) -> None:
    """Write what is stale, and the whole index for search again. StoreError where an event that
    nobody can read stands in the way of the index; the rest is right then."""
    await database.write(several, full=True)
    await database.write(REBUILD, full=True)


def _stored(folded: Summary, name: str) -> object:
    value: object = getattr(folded, name)
    return storable(value) if isinstance(value, str) else value


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:60]}…"
