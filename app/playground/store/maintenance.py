"""Maintenance: purges sessions, shrinks the file, rewrites derived rows.

Derived are the list's rows, the tools of a session and the search index.

Recordings that forks still need are given to one of the forks. The caller holds the session.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from playground.store.database import Database, Statement
from playground.store.writes import Summary, WriteBatch, statements, storable

PAGES = 500
"""Pages returned in one step, so that other writes do not wait long."""

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
class Size:
    """The size of the database. `file` and `free` are bytes; `free` is inside the file and will be
    reused."""

    file: int
    free: int
    sessions: int
    deleted: int
    events: int
    recordings: int


async def purge(database: Database, session: str) -> None:
    """Deletes all rows of `session`, and its entries in the search index."""
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
        Statement("DELETE FROM sessions WHERE id = ?", row),  # cascades to its references
    ]
    await database.write(statements, full=True)


async def deleted_sessions(database: Database) -> list[str]:
    """The sessions in the bin."""
    rows = await database.rows("SELECT id FROM sessions WHERE deleted_ms IS NOT NULL ORDER BY id")
    return [row[0] for row in rows]


async def shrink(database: Database) -> None:
    """Returns free pages to the system, a few at a time. A file from before schema 6 keeps its
    size; its free space is reused."""
    if (await database.rows("PRAGMA auto_vacuum"))[0][0] != 2:
        return
    free = (await database.rows("PRAGMA freelist_count"))[0][0]
    while free:
        await database.free_pages(PAGES)
        still = (await database.rows("PRAGMA freelist_count"))[0][0]
        if still >= free:  # others write meanwhile: left to the next purge
            return
        free = still


async def size(database: Database) -> Size:
    """Counts the database; fast, because it reads only the smallest index."""
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


# Rebuilds derived data from the events -----------------------------------------------------------


@dataclass(frozen=True)
class StaleRows:
    """Differences of derived rows from the log as sentences, and statements to repair them."""

    says: Sequence[str] = ()
    right: Sequence[Statement] = ()


async def find_stale(database: Database, folded: Summary, tools: frozenset[str]) -> StaleRows:
    """Compares the row and the tools of a session with its log."""
    rows = await database.rows(
        "SELECT updated_ms, state, model, calls, waiting, tasks, profile, tap, agent, above"
        " FROM sessions WHERE id = ?",
        (folded.id,),
    )
    named = await database.rows("SELECT tool FROM called WHERE session = ?", (folded.id,))
    names = {row[0] for row in named}
    stored = {name: value for row in rows for name, value in zip(row.keys(), row, strict=True)}
    says = [
        f"the list has {name} {_shorten(value)}, but the log has "
        f"{_shorten(_stored_value(folded, name))}"
        for name, value in stored.items()
        if value != _stored_value(folded, name)
    ]
    right = statements(WriteBatch(folded.id, summary=replace(folded, title="")), 0) if says else []
    if missing := [(folded.id, tool) for tool in sorted(tools - names)]:
        says += [f"the call of {_shorten(tool)} is not in the search index" for _, tool in missing]
        right.append(Statement("INSERT OR IGNORE INTO called VALUES (?, ?)", missing))
    if extra := [(folded.id, tool) for tool in sorted(names - tools, key=repr)]:
        says += [
            f"the search index has a call of {_shorten(tool)}, but the log does not"
            for _, tool in extra
        ]
        right.append(Statement("DELETE FROM called WHERE session = ? AND tool IS ?", extra))
    return StaleRows(says, right)


async def search_differences(database: Database) -> Sequence[str]:
    """Texts missing in or foreign to the search index. Cannot compare their words: FTS5's own
    'integrity-check' cannot read this view either."""
    ((lost, extra),) = await database.rows(_INDEXED)
    says = [f"{lost} texts are not in the index"] if lost else []
    return [*says, *([f"{extra} texts of the index belong to no session"] if extra else [])]


async def repair(database: Database, several: Sequence[Statement]) -> None:
    """Rewrites stale rows and the whole search index. StoreError if an unreadable event prevents
    rebuilding the index; the rest is repaired then."""
    await database.write(several, full=True)
    await database.write(REBUILD, full=True)


def _stored_value(folded: Summary, name: str) -> object:
    value: object = getattr(folded, name)
    return storable(value) if isinstance(value, str) else value


def _shorten(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:60]}…"
