"""Rows of batches and their runs, not interpreted here. A run is identified by case, variant, model
and repetition; its outcome is JSON text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from playground.store.database import Database, Statement
from playground.store.writes import storable

BatchState = Literal["running", "paused", "stopped", "ended"]

RunPlace = tuple[str, str, str, int]
"""Case, variant, model and repetition: the key of a run in its batch."""

_SELECT = "SELECT id, digest, name, body, runs, state, why, created_ms, updated_ms FROM batches"
_PLACE = "batch = ? AND case_id = ? AND variant = ? AND model = ? AND repetition = ?"


@dataclass(frozen=True)
class BatchRow:
    """A stored batch. `digest` is equal for batches that ask the same; `body` is its SPEC as JSON;
    `runs` is the total number of runs. `state` is the last one written: a batch that is `running`
    may have been interrupted; `why` is a sentence on it, or "". Times are Unix ms."""

    id: str
    digest: str
    name: str
    body: str
    runs: int
    state: BatchState
    why: str
    created_ms: int
    updated_ms: int


@dataclass(frozen=True)
class RunRow:
    """A claimed run. `session` is its session's id; `outcome` is "" until it has ended; `body` is
    its result as JSON, and before that where it is executed ("": here)."""

    place: RunPlace
    session: str
    claimed_ms: int
    outcome: str = ""
    body: str = ""


async def add_batch(database: Database, row: BatchRow) -> None:
    values = (row.id, row.digest, storable(row.name), row.body, row.runs, row.state)
    insert = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    more = (storable(row.why), row.created_ms, row.updated_ms)
    await database.write([Statement(insert, [(*values, *more)])])


async def set_state(database: Database, row: BatchRow) -> None:
    """Stores the state of the batch, as in `row`."""
    values = (row.state, storable(row.why), row.updated_ms, row.id)
    update = "UPDATE batches SET state = ?, why = ?, updated_ms = ? WHERE id = ?"
    await database.write([Statement(update, [values])])


async def batch_row(database: Database, batch: str) -> BatchRow | None:
    rows = await database.rows(f"{_SELECT} WHERE id = ?", (batch,))
    return BatchRow(*rows[0]) if rows else None


async def newest_same_batch(database: Database, digest: str) -> BatchRow | None:
    """The newest batch with that digest."""
    rows = await database.rows(
        f"{_SELECT} WHERE digest = ? ORDER BY created_ms DESC LIMIT 1", (digest,)
    )
    return BatchRow(*rows[0]) if rows else None


async def batch_rows(database: Database, limit: int = 200) -> list[BatchRow]:
    """All batches, newest first."""
    rows = await database.rows(f"{_SELECT} ORDER BY created_ms DESC, id LIMIT ?", (limit,))
    return [BatchRow(*row) for row in rows]


async def claim(
    database: Database, batch: str, place: RunPlace, session: str, at_ms: int, where: str = ""
) -> None:
    """Claims the run before anything of it is sent; `where` it is executed ("": here). Replaces an
    earlier claim."""
    insert = "INSERT OR REPLACE INTO batch_runs VALUES (?, ?, ?, ?, ?, ?, ?, '', ?)"
    values = (batch, *_storable_place(place), session, at_ms, storable(where))
    await database.write([Statement(insert, [values])])


async def case_of_session(database: Database, session: str) -> tuple[str, str] | None:
    """The body of the batch that `session` is a run of, and the id of its case."""
    rows = await database.rows(
        "SELECT batches.body, batch_runs.case_id FROM sessions"
        " JOIN batches ON batches.id = sessions.batch"
        " JOIN batch_runs ON batch_runs.batch = batches.id AND batch_runs.session = sessions.id"
        " WHERE sessions.id = ?",
        (session,),
    )
    return (rows[0][0], rows[0][1]) if rows else None


async def finish(database: Database, batch: str, place: RunPlace, outcome: str, body: str) -> None:
    """Stores the outcome of a claimed run."""
    update = f"UPDATE batch_runs SET outcome = ?, body = ? WHERE {_PLACE}"  # noqa: S608
    await database.write([Statement(update, [(outcome, body, batch, *_storable_place(place))])])


async def unclaim(database: Database, batch: str, place: RunPlace) -> None:
    """Removes the claim: nothing was sent."""
    delete = f"DELETE FROM batch_runs WHERE {_PLACE}"  # noqa: S608
    await database.write([Statement(delete, [(batch, *_storable_place(place))])])


async def run_rows(database: Database, batch: str) -> list[RunRow]:
    """The claimed runs, unordered."""
    rows = await database.rows(
        "SELECT case_id, variant, model, repetition, session, claimed_ms, outcome, body"
        " FROM batch_runs WHERE batch = ?",
        (batch,),
    )
    return [RunRow((row[0], row[1], row[2], row[3]), *row[4:]) for row in rows]


def _storable_place(place: RunPlace) -> Sequence[Any]:
    return [storable(part) if isinstance(part, str) else part for part in place]
