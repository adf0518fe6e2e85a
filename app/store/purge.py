"""Sessions really deleted, and the file made smaller by what they took.

Recordings that forks still need go to one of the forks. Whoever calls holds the session.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.store.database import Database, Statement

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
    one = [(session,)]
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
            one,
        ),
        Statement("DELETE FROM rules WHERE session = ?", one),
        Statement("DELETE FROM sessions WHERE id = ?", one),  # and with it all that names it
    ]
    await database.write(statements, full=True)


async def deleted(database: Database) -> list[str]:
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
    """Counted anew; quick also where there is much, for nothing is read but the smallest index."""
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
