"""The forks of a session and the session it comes from, as the database has them. A parent can be
gone: then those that came from it are still of one family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from app.core.events import SessionForked
from app.core.serialization import from_row, kind_of
from app.store.database import Database

MOST = 500
"""Sessions of one family that are told of."""


@dataclass(frozen=True)
class Relative:
    """A session of a family: `parent` is "" where it is nobody's fork. It took over the events of
    its parent up to `parent_seq`; after them the calls `reopened` were open again."""

    id: str
    title: str
    state: str
    updated_ms: int
    parent: str
    parent_seq: int
    reopened: tuple[str, ...] = ()


async def family(database: Database, session: str) -> list[Relative]:
    """All that have a first ancestor with `session` in common, the oldest first; not deleted ones,
    but for `session` itself."""
    rows = await database.rows(_FAMILY, (session, session, kind_of(SessionForked), MOST))
    return [_relative(row) for row in rows]


async def forks_of(database: Database, session: str) -> list[Relative]:
    """Those that were forked from `session` itself, the oldest first; not deleted ones."""
    rows = await database.rows(_FORKS, (kind_of(SessionForked), session, MOST))
    return [_relative(row) for row in rows]


def _relative(row: Sequence[Any]) -> Relative:
    name, title, state, updated_ms, parent, parent_seq, body = row
    event = from_row(kind_of(SessionForked), body) if body is not None else None
    reopened = event.reopened if isinstance(event, SessionForked) else ()
    return Relative(name, title, state, updated_ms, parent, parent_seq, reopened)


# A fork begins with SessionForked, before which its settings may have changed.
_ROW = """
    SELECT s.id, s.title, s.state, s.updated_ms, s.parent, s.parent_seq,
        (SELECT e.body FROM events AS e WHERE e.session = s.id AND s.parent != ''
            AND e.seq IN (s.parent_seq + 1, s.parent_seq + 2) AND e.kind = {kind} LIMIT 1)
    FROM sessions AS s
"""

# Upwards to the first that has no parent here, and from it (or its name) down again. UNION, for
# what came from elsewhere may name one another as parents.
_ALL = """
    WITH RECURSIVE
    up (id, parent) AS (
        SELECT id, parent FROM sessions WHERE id = ?1
        UNION SELECT s.id, s.parent FROM sessions AS s JOIN up ON s.id = up.parent),
    first (id) AS (
        SELECT CASE parent WHEN '' THEN id ELSE parent END FROM up
        WHERE parent = '' OR NOT EXISTS (SELECT 1 FROM sessions AS p WHERE p.id = up.parent)
        UNION SELECT ?2),
    down (id) AS (
        SELECT id FROM first
        UNION SELECT s.id FROM sessions AS s JOIN down ON s.parent = down.id AND s.parent != '')
"""
_FAMILY = (
    _ALL  # noqa: S608
    + _ROW.format(kind="?3")
    + " WHERE s.id IN (SELECT id FROM down) AND (s.deleted_ms IS NULL OR s.id = ?1)"
    + " ORDER BY s.created_ms, s.id LIMIT ?4"
)
_FORKS = (
    _ROW.format(kind="?1")
    + " WHERE s.parent = ?2 AND s.parent != '' AND s.deleted_ms IS NULL"
    + " ORDER BY s.created_ms, s.id LIMIT ?3"
)
