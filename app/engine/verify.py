"""A whole database looked through: each recording decoded again, each projection against its log.

Reads one session after the other, each as it stood at one moment, so that it may look on while a
server writes. Knows no lock; who calls says whether what is stale is put right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from app.core.errors import StoreError
from app.core.events import Logged, PartDelta, SessionForked
from app.engine.decoded_again import Difference, SessionCheck, check_session
from app.engine.interruption import cut_off
from app.engine.sessions import summary_of
from app.store.batch import called
from app.store.database import Database, Statement
from app.store.log import Log
from app.store.projections import Stale, mend, search_differs, stale

OnDifference = Callable[[Difference], None]

SEARCH = "search"
"""Stands for a session where the index for search differs."""
_ALL = """
    SELECT id FROM sessions UNION SELECT session FROM events UNION SELECT session FROM chunks
    UNION SELECT session FROM recordings UNION SELECT session FROM called ORDER BY 1
"""


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


async def verify(database: Database, told: OnDifference, *, mending: bool = False) -> Verified:
    """Look at all sessions, deleted ones too; each difference is `told` as it is found.

    `mending` writes the projections anew; only the owner of the database may.
    """
    log, done = await Log.open(database), Verified()
    right: list[Statement] = []
    mended = 0

    def tell(differences: Iterable[Difference]) -> None:
        for difference in differences:
            done.differences += 1
            told(difference)

    for (session_id,) in await database.rows(_ALL):
        found, unlike = await _looked(database, log, session_id)
        if found is not None:
            _count(done, found)
            tell(found.differences)
        tell(Difference(session_id, 0, say) for say in unlike.says)
        right, mended = [*right, *unlike.right], mended + bool(unlike.right)
    differs = await search_differs(database)
    tell(Difference(SEARCH, 0, differ) for differ in differs)
    if mending:
        try:
            await mend(database, right)
        except StoreError as error:
            tell([Difference(SEARCH, 0, f"the index could not be built anew: {error}")])
        done.mended = mended
    return done


async def _looked(
    database: Database, log: Log, session_id: str
) -> tuple[SessionCheck | None, Stale]:
    """What is wrong with a session, as it stood at one moment; None where it is gone by now."""
    await database.rows("BEGIN")
    try:
        return await _compare_session(database, log, session_id)
    # Whatever stands in the file: one session that nobody can read must not hide the others.
    except Exception as error:
        what = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
        told = f"cannot be looked at: {what}"
        return SessionCheck(differences=[Difference(session_id, 0, told)]), Stale()
    finally:
        await database.rows("COMMIT")


async def _compare_session(
    database: Database, log: Log, session_id: str
) -> tuple[SessionCheck | None, Stale]:
    summary = await log.summary(session_id)
    events = await log.events(session_id)
    chunks = await log.chunks(session_id)
    closed = await log.recordings(session_id)
    if summary is None and not (events or chunks or closed):
        return None, Stale()
    found = check_session(session_id, events, chunks, closed)
    if summary is None:
        return found, Stale(["it is not in the list, though something of it is kept"])
    session = found.session
    if session is None or session.settings is None:
        return found, Stale()
    if not summary.own:
        cut_off(session)
    folded = summary_of(session, "", summary.created_ms, own=summary.own)
    if summary.updated_ms in _last_times(events):
        folded = replace(folded, updated_ms=summary.updated_ms)
    return found, await stale(database, folded, called(events))


def _last_times(events: Sequence[Logged]) -> set[int]:
    """When the list's row may have been written last: deltas alone do not write it."""
    times: set[int] = set()
    latest = 0
    for logged in events:
        latest = max(0 if isinstance(logged.event, SessionForked) else latest, logged.at_ms)
        times = (times if isinstance(logged.event, PartDelta) else set()) | {latest}
    return times


def _count(done: Verified, found: SessionCheck) -> None:
    done.sessions += 1
    done.recordings += found.recordings
    done.events += found.events
    done.masked_bytes += found.masked_bytes
    done.unhashed += found.unhashed
    done.unended += found.unended
