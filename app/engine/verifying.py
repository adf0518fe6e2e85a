"""A whole database looked through: each recording decoded again, each projection against its log.

Reads one session after the other, each as it stood at one moment, so that it may look on while a
server writes. Knows no lock; who calls says whether what is stale is put right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.core.errors import StoreError
from app.engine.decoded_again import Checked, Difference, checked
from app.engine.summaries import summary_of
from app.store.batch import Summary
from app.store.database import Database, Statement
from app.store.log import Log
from app.store.projections import called, mend, stale

Told = Callable[[Difference], None]


@dataclass
class Verified:
    """What was looked at; `mended` is how many sessions had a stale row of the list, None where
    nothing was written."""

    sessions: int = 0
    recordings: int = 0
    events: int = 0
    masked_bytes: int = 0
    unhashed: int = 0
    unended: int = 0
    differences: int = 0
    mended: int | None = None


async def verify(database: Database, told: Told, *, mending: bool = False) -> Verified:
    """Look at all sessions, deleted ones too; each difference is `told` as it is found.

    `mending` writes the projections anew; only the owner of the database may.
    """
    log, done = await Log.open(database), Verified()
    right: list[Statement] = []
    mended = 0
    for (session_id,) in await database.rows("SELECT id FROM sessions ORDER BY id"):
        found, summary, tools = await _looked(database, log, session_id)
        _count(done, found)
        for difference in found.differences:
            told(difference)
        if mending and found.session is not None and summary is not None:
            session = found.session
            folded = summary_of(session, "", summary.created_ms, own=summary.own)
            statements = await stale(database, folded, tools)
            right, mended = right + statements, mended + bool(statements)
    if mending:
        await mend(database, right)
        done.mended = mended
    return done


async def _looked(
    database: Database, log: Log, session_id: str
) -> tuple[Checked, Summary | None, frozenset[str]]:
    await database.rows("BEGIN")
    try:
        summary = await log.summary(session_id)
        events = await log.events(session_id)
        chunks = await log.chunks(session_id)
        closed = await log.recordings(session_id)
    except StoreError as error:
        return Checked(differences=[Difference(session_id, 0, str(error))]), None, frozenset()
    finally:
        await database.rows("COMMIT")
    return checked(session_id, events, chunks, closed), summary, called(events)


def _count(done: Verified, found: Checked) -> None:
    done.sessions += 1
    done.recordings += found.recordings
    done.events += found.events
    done.masked_bytes += found.masked_bytes
    done.unhashed += found.unhashed
    done.unended += found.unended
    done.differences += len(found.differences)
