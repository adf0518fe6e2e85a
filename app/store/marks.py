"""What a person marks a session with: pinned, archived, tags. No event: it changes no session."""

from __future__ import annotations

from collections.abc import Sequence

from app.store.batch import storable
from app.store.database import Database, Statement

_PIN = "UPDATE sessions SET pinned_ms = ? WHERE id = ?"
_ARCHIVE = "UPDATE sessions SET archived_ms = ? WHERE id = ?"


async def pin(database: Database, session: str, at_ms: int | None) -> None:
    """Above all others in the list since `at_ms` (Unix ms), or no more with None."""
    await database.write([Statement(_PIN, [(at_ms, session)])])


async def archive(database: Database, session: str, at_ms: int | None) -> None:
    """Out of the list since `at_ms` (Unix ms), and found all the same; back in it with None."""
    await database.write([Statement(_ARCHIVE, [(at_ms, session)])])


async def tag(database: Database, session: str, tags: Sequence[str]) -> None:
    """`tags` are all that the session has from now on."""
    rows = [(session, storable(tag)) for tag in tags]
    away = Statement("DELETE FROM tags WHERE session = ?", [(session,)])
    await database.write([away, Statement("INSERT OR IGNORE INTO tags VALUES (?, ?)", rows)])
