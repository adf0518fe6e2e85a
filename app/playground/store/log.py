"""Rows of events, recordings, the list of sessions, its marks, and the forks of a session."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from sqlite3 import Row
from typing import Any

from playground.core.errors import StoreError, StoreUnwritable
from playground.core.events import CallDecided, Event, Logged, PartEnded, SessionForked
from playground.core.serialization import from_row, kind_of
from playground.core.session import SessionState
from playground.store.database import Database, Statement
from playground.store.slices import SliceRuns, decode_piece, hash_of, numbers_of, spans_over
from playground.store.writes import (
    CHUNK_COLUMNS,
    DELTA,
    DELTAS,
    EVENT_COLUMNS,
    LARGE,
    Chunk,
    ClosedRecording,
    SliceMemory,
    Summary,
    WriteBatch,
    chunks_of,
    delta_statements,
    events_of,
    long_text,
    slices_of,
    statements,
    storable,
    with_slices,
    with_text,
)

_NO_DELTA = f"kind NOT IN ('{DELTA}', '{DELTAS}')"

_BELOW = """
    WITH RECURSIVE beside (id) AS (
        SELECT ?
        UNION SELECT sessions.id FROM sessions JOIN beside ON sessions.above = beside.id
        WHERE sessions.own AND sessions.deleted_ms IS NULL
    )
    SELECT id FROM sessions JOIN beside USING (id) WHERE id != ? ORDER BY created_ms, id LIMIT 200
"""
"""UNION, because imported sessions may refer to each other in a cycle."""

_OF_TAP = """
    SELECT id FROM sessions WHERE tap = {} AND tap != '' AND own AND deleted_ms IS NULL
    ORDER BY updated_ms DESC, id LIMIT ?
"""

_LATEST_MS = 2**62
_NO_RUN = " AND batch = ''"

SUMMARY = (
    "id, title, created_ms, updated_ms, state, model, calls, waiting, deleted_ms IS NOT NULL,"
    " profile, parent, parent_seq, own, pinned_ms IS NOT NULL, archived_ms IS NOT NULL,"
    " (SELECT group_concat(tag, char(31)) FROM tags WHERE session = sessions.id), tap, agent,"
    " above, batch"
)
"""The columns of table sessions for `summary_of_row`."""

_PIN = "UPDATE sessions SET pinned_ms = ? WHERE id = ?"
_ARCHIVE = "UPDATE sessions SET archived_ms = ? WHERE id = ?"

MOST_RELATIVES = 500
"""Most sessions of one family that are listed."""

# A fork begins with SessionForked, or with a settings change before it.
_ROW = """
    SELECT s.id, s.title, s.state, s.updated_ms, s.parent, s.parent_seq,
        (SELECT e.body FROM events AS e WHERE e.session = s.id AND s.parent != ''
            AND e.seq IN (s.parent_seq + 1, s.parent_seq + 2) AND e.kind = {kind} LIMIT 1)
    FROM sessions AS s
"""

# Goes up to the first session without a parent here, and down again from it (or its name). UNION,
# because imported sessions may refer to each other in a cycle.
_ALL = """
    WITH RECURSIVE
    up (id, parent) AS (
        SELECT id, parent FROM sessions WHERE id = ?
        UNION SELECT s.id, s.parent FROM sessions AS s JOIN up ON s.id = up.parent),
    first (id) AS (
        SELECT CASE parent WHEN '' THEN id ELSE parent END FROM up
        WHERE parent = '' OR NOT EXISTS (SELECT 1 FROM sessions AS p WHERE p.id = up.parent)
        UNION SELECT ?),
    down (id) AS (
        SELECT id FROM first
        UNION SELECT s.id FROM sessions AS s JOIN down ON s.parent = down.id AND s.parent != '')
"""
_FAMILY = (
    _ALL  # noqa: S608
    + _ROW.format(kind="?")
    + " WHERE s.id IN (SELECT id FROM down) AND (s.deleted_ms IS NULL OR s.id = ?)"
    + " ORDER BY s.created_ms, s.id LIMIT ?"
)
_FORKS = (
    _ROW.format(kind="?")
    + " WHERE s.parent = ? AND s.parent != '' AND s.deleted_ms IS NULL"
    + " ORDER BY s.created_ms, s.id LIMIT ?"
)


@dataclass(frozen=True)
class PastCall:
    """A past call of a model: `arguments` is its raw text. `at_ms` is when it ended."""

    session: str
    title: str
    seq: int
    at_ms: int
    arguments: str


@dataclass(frozen=True)
class PastResult:
    """A past result. `seq` is its event, `arguments` the text that ran (or would have), `result`
    the JSON of its ToolResult."""

    session: str
    title: str
    seq: int
    at_ms: int
    call_id: str
    arguments: str
    result: str


PAST_ROWS = 200_000
"""How many of the newest rows are searched for past calls."""

PORTION = 256
"""Most rows of a recording, or slices of requests, read at once: at most 16 MiB, unless pieces
arrived larger."""

GAP = 64
"""Unneeded slices that are read rather than making one more query."""

GROUP_S = 0.03
"""Seconds that deltas wait at most, until those of all sessions are written together."""

RETRY_S = 1.0
"""Seconds until the next attempt if nothing could be written."""


@dataclass
class _PendingData:
    """A session's unwritten deltas and their bytes; `size` counts the bytes."""

    events: list[Logged] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    size: int = 0

    def add(self, events: Sequence[Logged], chunks: Sequence[Chunk]) -> None:
        self.events += events
        self.chunks += chunks
        for chunk in chunks:
            self.size += len(chunk.data)


class Log:
    """`position` is the global row position of the last event written; it only grows.

    A read of a session first writes all its pending data; if that fails, it returns what is saved.
    """

    def __init__(self, database: Database, position: int) -> None:
        self._db = database
        self.position = position
        self._memory = SliceMemory()
        self._waiting: dict[str, _PendingData] = {}
        self._writing: dict[str, asyncio.Future[None]] = {}
        self._overdue: set[str] = set()  # to be written after the current write
        self._timer: asyncio.TimerHandle | None = None
        self.on_lost: Callable[[str, StoreError], None] = lambda session, error: None
        """Called with a session whose pending batches can never be written."""

    @property
    def database(self) -> Database:
        return self._db

    @classmethod
    async def open(cls, database: Database) -> Log:
        (row,) = await database.rows("SELECT coalesce(max(pos), 0) FROM events")
        return cls(database, row[0])

    def append(self, batch: WriteBatch) -> asyncio.Future[None]:
        """Writes `batch` after all that was appended to its session before, in one transaction with
        the pending deltas. The future is done when it is saved.

        A batch that `may_wait` is written within GROUP_S, together with those of all sessions. Its
        future is done at once: if it cannot be written yet it is kept, and if it is lost, `on_lost`
        is called.
        """
        if batch.may_wait:
            return self._add_pending(batch)
        if batch.copied is not None or batch.session in self._writing:
            return asyncio.shield(asyncio.ensure_future(self._append_behind(batch)))
        return asyncio.shield(self._submit(batch.session, batch))

    def _add_pending(self, batch: WriteBatch) -> asyncio.Future[None]:
        waiting = self._waiting.get(batch.session)
        if waiting is None:
            waiting = self._waiting[batch.session] = _PendingData()
        waiting.add(batch.events, batch.chunks)
        self._set_timer(GROUP_S)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def _append_behind(self, batch: WriteBatch) -> None:
        """Appends after the writes of the session that have begun, and those of the parent."""
        if batch.copied is not None:
            await self.flush(batch.copied.parent)
        if (lost := await self._wait_for_writes(batch.session)) is not None:
            raise lost  # it precedes the batch in the log
        await asyncio.shield(self._submit(batch.session, batch))

    def unwritten_data(self, session: str) -> tuple[Sequence[Logged], Sequence[Chunk]]:
        """The pending events and bytes of `session` whose write has not begun."""
        waiting = self._waiting.get(session)
        return (waiting.events, waiting.chunks) if waiting is not None else ((), ())

    def unwritten_size(self, session: str) -> int:
        """Pending recorded bytes of `session`."""
        waiting = self._waiting.get(session)
        return waiting.size if waiting is not None else 0

    @property
    def unsaved(self) -> int:
        """Pending recorded bytes of all sessions."""
        return sum(waiting.size for waiting in self._waiting.values())

    async def flush(self, session: str) -> None:
        """Waits until everything of `session` up to now is written; StoreError if it cannot be.
        Does not wait for later events: during a stream there are always more."""
        if (writing := self._writing.get(session)) is not None:
            await asyncio.wait([writing])
        if (writing := self._writing.get(session)) is None and session in self._waiting:
            writing = self._submit(session)
        if writing is not None:
            await asyncio.shield(writing)

    async def close(self) -> None:
        """Writes the pending data of all sessions, as far as possible."""
        for session in list(self._waiting):
            with suppress(StoreError):
                await self.flush(session)
        if self._timer is not None:
            self._timer.cancel()

    async def _settle(self, session: str) -> None:
        """Flushes before `session` is read. Ignores errors: unwritten data is missing in the read;
        if it can never be written, the next append raises the error."""
        if session in self._waiting or session in self._writing:
            with suppress(StoreError):
                await self.flush(session)

    async def _wait_for_writes(self, session: str) -> StoreError | None:
        """Waits for all current writes of `session`; returns why some can never be written."""
        lost: StoreError | None = None
        while (writing := self._writing.get(session)) is not None:
            await asyncio.wait([writing])
            error = writing.exception()
            if isinstance(error, StoreError) and not isinstance(error, StoreUnwritable):
                lost = error
        return lost

    def _submit(self, session: str, batch: WriteBatch | None = None) -> asyncio.Future[None]:
        """Begins to write the pending data of `session`, followed by `batch`."""
        waiting = self._waiting.pop(session, _PendingData())
        rows = list[Statement]()
        if waiting.events or waiting.chunks:
            rows += delta_statements(session, waiting.events, waiting.chunks, self.position)
            self.position += len(waiting.events)
        if batch is not None:
            rows += statements(batch, self.position, self._memory)
            copied = batch.copied.seq if batch.copied is not None else 0
            self.position += copied + len(batch.events)
        writing = self._db.submit(rows, full=batch is not None and batch.full)
        self._writing[session] = writing
        writing.add_done_callback(partial(self._finish_write, session, waiting))
        return writing

    def _finish_write(
        self, session: str, waiting: _PendingData, writing: asyncio.Future[None]
    ) -> None:
        del self._writing[session]
        error, overdue = writing.exception(), session in self._overdue
        self._overdue.discard(session)
        if error is None and overdue and session in self._waiting:
            self._submit(session)
        if error is None or not (waiting.events or waiting.chunks):
            return
        if isinstance(error, StoreUnwritable):
            if (later := self._waiting.get(session)) is not None:
                waiting.add(later.events, later.chunks)
            self._waiting[session] = waiting
            self._set_timer(RETRY_S)
        elif isinstance(error, StoreError):
            self._waiting.pop(session, None)  # it followed what is lost
            self.on_lost(session, error)

    def _set_timer(self, delay_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._write_waiting)

    def _write_waiting(self) -> None:
        self._timer = None
        for session in list(self._waiting):
            if session in self._writing:
                self._overdue.add(session)
            else:
                self._submit(session)

    async def events(
        self, session: str, after: int = 0, *, limit: int = -1, deltas: bool = True
    ) -> list[Logged]:
        """The log of `session` after seq `after`, in order; optionally without deltas."""
        await self._settle(session)
        skip = "" if deltas else f"AND {_NO_DELTA}"
        rows = await self._db.rows(
            f"SELECT {EVENT_COLUMNS} FROM events"  # noqa: S608
            f" WHERE session = ? AND seq > ? {skip} ORDER BY seq LIMIT ?",
            (session, after, limit),
        )
        log = await self._complete_events(session, rows)
        before = next((place for place, logged in enumerate(log) if logged.seq > after), 0)
        return log[before : before + limit] if limit >= 0 else log[before:]

    async def events_to_fold(self, session: str) -> list[Logged]:
        """The events needed to fold, including pending ones: all except the deltas of ended
        parts."""
        await self._settle(session)
        waiting = list(self.unwritten_data(session)[0])
        (row,) = await self._db.rows(
            "SELECT coalesce(max(seq), 0) FROM events WHERE session = ? AND kind IN"
            " ('response_ended', 'response_failed')",
            (session,),
        )
        rows = await self._db.rows(
            f"SELECT {EVENT_COLUMNS} FROM events WHERE session = ?"  # noqa: S608
            f" AND ({_NO_DELTA} OR seq > ?) ORDER BY seq",
            (session, row[0]),
        )
        log = await self._complete_events(session, rows)
        saved = log[-1].seq if log else 0  # pending events may have been written meanwhile
        return [*log, *(logged for logged in waiting if logged.seq > saved)]

    async def _complete_events(self, session: str, rows: Sequence[Sequence[Any]]) -> list[Logged]:
        """The events of `rows`, each with its complete text."""
        log = [logged for row in rows for logged in events_of(row)]
        sliced = {place: lists for place, lists in enumerate(map(_lists, log)) if lists is not None}
        slices = await self._slices(session, [runs for lists in sliced.values() for runs in lists])
        for place, logged in enumerate(log):
            if (lists := sliced.get(place)) is not None:
                log[place] = replace(logged, event=_join_slices(logged, lists, slices))
            elif 2 * len(text := long_text(logged.event)) >= LARGE:
                # Factor 2: JSON joins two surrogates into one character.
                whole = "".join([text, *await self._rest(session, logged.seq)])
                log[place] = replace(logged, event=with_text(logged.event, whole))
        return log

    async def _slices(self, session: str, several: Sequence[SliceRuns]) -> dict[int, str]:
        """The slices of the lists `several`, by number, read a few hundred at a time."""
        slices: dict[int, str] = {}
        for first, last in spans_over(several, GAP):
            for start in range(first, last + 1, PORTION):
                rows = await self._db.rows(
                    "SELECT nth, bytes FROM slices WHERE session = ? AND nth BETWEEN ? AND ?",
                    (session, start, min(last, start + PORTION - 1)),
                )
                if not rows:  # a damaged list may have any number
                    break
                for number, data in rows:
                    with suppress(ValueError, TypeError, AttributeError):  # missed by who needs it
                        slices[number] = decode_piece(data)
        return slices

    async def altered_slices(self, session: str) -> list[int]:
        """The numbers of the slices whose hash does not match."""
        altered: list[int] = []
        last = 0
        while rows := await self._db.rows(
            "SELECT nth, hash, bytes FROM slices WHERE session = ? AND nth > ?"
            " ORDER BY nth LIMIT ?",
            (session, last, PORTION),
        ):
            altered += (row[0] for row in rows if hash_of(row[2]) != row[1])
            last = rows[-1][0]
        return altered

    async def _rest(self, session: str, seq: int) -> list[str]:
        """The rest of an event's text, read a few pieces at a time."""
        pieces: list[str] = []
        while rows := await self._db.rows(
            "SELECT bytes FROM rests WHERE session = ? AND seq = ? AND nth >= ?"
            " ORDER BY nth LIMIT 16",
            (session, seq, len(pieces)),
        ):
            pieces += (row[0].decode("utf-8", "surrogatepass") for row in rows)
        return pieces

    async def chunks(self, session: str, recording: int | None = None) -> list[Chunk]:
        """The recorded bytes in order, of one recording or of all. A fork includes its parent's."""
        await self._settle(session)
        own, shared = ("", "") if recording is None else (" AND recording = ?", " AND number = ?")
        values = [session] if recording is None else [session, recording]
        rows = await self._db.rows(
            f"SELECT {CHUNK_COLUMNS} FROM chunks"  # noqa: S608
            f" WHERE session = ?{own} UNION ALL"
            f" SELECT chunks.{CHUNK_COLUMNS} FROM shares JOIN chunks"
            " ON chunks.session = shares.owner AND chunks.recording = shares.number"
            f" WHERE shares.session = ?{shared} ORDER BY 1, 2",
            values * 2,
        )
        return _all_pieces(rows)

    async def portions(self, session: str, recording: int) -> AsyncIterator[list[Chunk]]:
        """The bytes of one recording, some thousand pieces at a time; it can have a million."""
        await self._settle(session)
        after = -1
        while rows := await self._db.rows(
            f"SELECT {CHUNK_COLUMNS} FROM chunks"  # noqa: S608
            " WHERE session = coalesce((SELECT owner FROM shares WHERE session = ?"
            " AND number = ?), ?) AND recording = ? AND start > ? ORDER BY start LIMIT ?",
            (session, recording, session, recording, after, PORTION),
        ):
            after = rows[-1]["start"]
            yield _all_pieces(rows)

    async def recorded_size(self, session: str) -> int:
        """The number of bytes received in all recordings, without reading them."""
        await self._settle(session)
        end = "max(start + length(bytes))"
        own = f"SELECT {end} AS size FROM chunks WHERE session = ? GROUP BY recording"  # noqa: S608
        rows = await self._db.rows(
            f"SELECT coalesce(sum(size), 0) FROM ({own} UNION ALL"  # noqa: S608
            f" SELECT {end} FROM shares JOIN chunks ON chunks.session = shares.owner"
            " AND chunks.recording = shares.number WHERE shares.session = ?"
            " GROUP BY chunks.recording)",
            (session, session),
        )
        size: int = rows[0][0]
        return size

    async def recordings(self, session: str) -> dict[int, ClosedRecording]:
        """The recordings of `session` that have ended or have masked spans, by number."""
        rows = await self._db.rows(
            "SELECT number, clean, masked, sha256 FROM recordings WHERE session = ?", (session,)
        )
        spans = {row[0]: [(start, end) for start, end in json.loads(row[2])] for row in rows}
        return {
            row[0]: ClosedRecording(row[0], bool(row[1]), spans[row[0]], row[3]) for row in rows
        }

    async def interrupted_end(self, session: str, recording: int) -> ClosedRecording:
        """The end of an interrupted recording, made from what was saved of it."""
        digest = hashlib.sha256()
        for chunk in await self.chunks(session, recording):
            digest.update(chunk.data)
        known = (await self.recordings(session)).get(recording)
        return ClosedRecording(recording, False, known.masked if known else (), digest.hexdigest())

    async def summaries(
        self,
        search: str = "",
        *,
        limit: int = 200,
        deleted: bool = False,
        archived: bool = False,
        after: tuple[int, str] | None = None,
    ) -> list[Summary]:
        """Sessions, newest first; `search` matches titles. `archived` includes archived ones.
        `after` is (updated_ms, id) of the last known one. Without a search, runs of batches are
        left out: there are thousands."""
        like = (
            "%"
            + storable(search).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            + "%"
        )
        last_ms, last_id = after or (_LATEST_MS, "")
        rows = await self._db.rows(
            f"SELECT {SUMMARY} FROM sessions WHERE updated_ms <= ?"  # noqa: S608
            " AND (updated_ms < ? OR id > ?) AND (? = '%%' OR title LIKE ? ESCAPE '\\')"
            f" AND deleted_ms IS {'NOT ' if deleted else ''}NULL"
            f"{'' if archived or deleted else ' AND archived_ms IS NULL'}"
            f"{'' if search or deleted else _NO_RUN}"
            " ORDER BY updated_ms DESC, id LIMIT ?",
            (last_ms, last_ms, last_id, like, like, limit),
        )
        return [summary_of_row(row) for row in rows]

    async def pinned_sessions(self) -> list[Summary]:
        """The pinned sessions, last pinned first."""
        rows = await self._db.rows(
            f"SELECT {SUMMARY} FROM sessions WHERE pinned_ms IS NOT NULL"  # noqa: S608
            " AND deleted_ms IS NULL AND archived_ms IS NULL ORDER BY pinned_ms DESC, id LIMIT 200"
        )
        return [summary_of_row(row) for row in rows]

    async def summary(self, session: str) -> Summary | None:
        rows = await self._db.rows(
            f"SELECT {SUMMARY} FROM sessions WHERE id = ?",  # noqa: S608
            (session,),
        )
        return summary_of_row(rows[0]) if rows else None

    async def tags(self, session: str) -> list[str]:
        """The tags of `session`, in order."""
        rows = await self._db.rows(
            "SELECT tag FROM tags WHERE session = ? ORDER BY tag", (session,)
        )
        return [row[0] for row in rows]

    async def rename(self, session: str, title: str) -> None:
        await self._db.write(
            [Statement("UPDATE sessions SET title = ? WHERE id = ?", [(storable(title), session)])]
        )

    async def mark_deleted(self, session: str, at_ms: int | None) -> None:
        """Hides a session (or with None shows it again); its log stays."""
        await self._db.write(
            [Statement("UPDATE sessions SET deleted_ms = ? WHERE id = ?", [(at_ms, session)])]
        )

    async def past_calls(self, name: str, *, limit: int = 20) -> list[PastCall]:
        """The last arguments models passed to the tool `name`, newest first; no deleted
        sessions."""
        rows = await self._db.rows(
            f"SELECT e.session, s.title, e.seq, e.at_ms, {_whole_text('e')}"  # noqa: S608
            " FROM events AS e JOIN sessions AS s ON s.id = e.session"
            " WHERE e.pos > ? AND e.kind = ? AND s.deleted_ms IS NULL"
            " AND json_extract(e.body, '$.name') = CAST(? AS TEXT) ORDER BY e.pos DESC LIMIT ?",
            (self.position - PAST_ROWS, kind_of(PartEnded), _bytes(name), limit),
        )
        read = [[*row[:-1], _text(row[-1])] for row in rows]
        return [PastCall(*row) for row in read]

    async def past_results(self, name: str, here: str, *, limit: int = 20) -> list[PastResult]:
        """The last results of the tool `name`: first of the session `here`, then of all others,
        newest first; without deleted sessions."""
        rows = await self._db.rows(
            _PAST_RESULTS,
            (self.position - PAST_ROWS, kind_of(PartEnded), _bytes(name), here, 3 * limit, here),
        )
        read = [[*row[:-2], *map(_text, row[-2:])] for row in rows[:limit]]
        return [PastResult(*row) for row in read]

    async def denied_calls(self, name: str, *, limit: int) -> list[str]:
        """The arguments (JSON) of the last calls of the tool `name` that a user denied, newest
        first; also of deleted sessions, because a denial stays valid."""
        since = self.position - PAST_ROWS
        rows = await self._db.rows(
            _DENIED,
            (since, kind_of(CallDecided), since, kind_of(PartEnded), _bytes(name), limit),
        )
        texts = [(_text(row[0]), row[1]) for row in rows]
        return [json.dumps({"input": text}) if is_custom else text for text, is_custom in texts]

    async def tapped_sessions(self, tap: str, limit: int) -> list[str]:
        """The sessions of agents through the tap with that id, newest first."""
        rows = await self._db.rows(_OF_TAP.format("?"), (tap, limit))
        return [row[0] for row in rows]

    async def sessions_below(self, session: str) -> list[str]:
        """All sessions below `session` (further ones of its agent) at any depth, without deleted
        ones; oldest first."""
        rows = await self._db.rows(_BELOW, (session, session))
        return [row[0] for row in rows]

    async def sessions_of_taps(
        self, taps: Sequence[str], limit: int
    ) -> Mapping[str, Sequence[Summary]]:
        """By tap id its sessions as `tapped` returns them, at most `limit` each, without those
        below others."""
        top = _OF_TAP.format("wanted AND above = ''")
        rows = await self._db.rows(
            "WITH wanted (wanted) AS (SELECT value FROM json_each(?))"  # noqa: S608
            f" SELECT {SUMMARY}, wanted FROM wanted JOIN sessions ON id IN ({top})"
            " ORDER BY updated_ms DESC, id",
            (json.dumps(list(taps)), limit),
        )
        summaries: dict[str, list[Summary]] = {}
        for row in rows:
            summaries.setdefault(row[-1], []).append(summary_of_row(row))
        return summaries

    async def unfinished_sessions(self) -> list[str]:
        """Own sessions that were running when they were last written."""
        rows = await self._db.rows(
            "SELECT id FROM sessions WHERE own AND (state = 'running' OR tasks > 0)"
        )
        return [row[0] for row in rows]

    async def waiting_sessions(self, *, agents: bool = False) -> list[str]:
        """Own sessions that waited for a user when they were last written; `agents`: those that
        agents run."""
        query = "SELECT id FROM sessions WHERE own AND state = 'waiting' AND (tap != '' OR NOT ?)"
        rows = await self._db.rows(query, (agents,))
        return [row[0] for row in rows]


def _lists(logged: Logged) -> tuple[SliceRuns, SliceRuns] | None:
    try:
        return slices_of(logged.event)
    except (ValueError, TypeError) as error:
        raise _unreadable_error(logged, f"its list of slices says {error}") from error


def _join_slices(
    logged: Logged, lists: tuple[SliceRuns, SliceRuns], slices: Mapping[int, str]
) -> Event:
    """The event with its `lists` replaced by the text. StoreError if a slice is missing."""
    try:
        body, headers = ("".join([slices[number] for number in numbers_of(runs)]) for runs in lists)
        return with_slices(logged.event, body, headers)
    except KeyError as error:
        raise _unreadable_error(logged, f"slice {error} is missing") from error
    except (ValueError, TypeError) as error:
        raise _unreadable_error(logged, f"its headers say {error}") from error


def _unreadable_error(logged: Logged, why: str) -> StoreError:
    return StoreError(
        f"The database has a request that cannot be read (seq {logged.seq}): {why}. Back up the "
        "file, and start a new one with --db FILE."
    )


def _all_pieces(rows: list[Row]) -> list[Chunk]:
    """The pieces of `rows`, in order. Empties `rows`: pieces are copies, so keeping both would take
    twice the memory."""
    rows.reverse()
    pieces: list[Chunk] = []
    while rows:
        pieces += chunks_of(rows.pop())
    return pieces


def _whole_text(part: str) -> str:
    """SQL: the text of a `PartEnded`, a row of the table `part` of events, for `_text`."""
    return f"""CAST(json_extract({part}.body, '$.text') || coalesce((
        SELECT group_concat(CAST(bytes AS TEXT), '') FROM (SELECT bytes FROM rests
            WHERE session = {part}.session AND seq = {part}.seq ORDER BY nth)), '') AS BLOB)"""  # noqa: S608


def _text(data: bytes) -> str:
    """A text that SQLite made from JSON. A model can write a lone surrogate, which is invalid
    UTF-8, so the text is read as bytes."""
    return data.decode("utf-8", "surrogatepass")


def _bytes(text: str) -> bytes:
    """A text to compare with such a one in SQLite, as `CAST(? AS TEXT)`."""
    return text.encode("utf-8", "surrogatepass")


_PAST_RESULTS = f"""
    WITH made AS (
        SELECT e.pos, e.session, s.title, e.seq, {_whole_text("e")} AS written,
            e.recording || '.' || json_extract(e.body, '$.index') AS call
        FROM events AS e JOIN sessions AS s ON s.id = e.session
        WHERE e.pos > ? AND e.kind = ? AND s.deleted_ms IS NULL
            AND json_extract(e.body, '$.name') = CAST(? AS TEXT)
        ORDER BY e.session = ? DESC, e.pos DESC LIMIT ?)
    SELECT made.session, title, ended.seq, ended.at_ms, call, coalesce((
            SELECT CAST(json_extract(body, '$.arguments') AS BLOB) FROM events AS decided
            WHERE decided.session = made.session AND decided.kind = 'call_decided'
                AND decided.seq BETWEEN made.seq AND ended.seq
                AND json_extract(body, '$.call_id') = call
            ORDER BY decided.seq DESC LIMIT 1), written),
        CAST(json_extract(ended.body, '$.result') AS BLOB)
    FROM made JOIN events AS ended ON ended.session = made.session AND ended.seq > made.seq
        AND ended.seq < made.seq + 20000 AND ended.kind = 'call_ended'
        AND json_extract(ended.body, '$.call_id') = call
        AND json_extract(ended.body, '$.result.kind') NOT IN ('denied', 'unknown_tool')
    ORDER BY made.session = ? DESC, ended.pos DESC
"""  # noqa: S608
"""A call's id is the number of its turn, which is that of its recording, and its index there."""

_DENIED = f"""
    WITH denied AS MATERIALIZED (
        SELECT pos, session, json_extract(body, '$.call_id') AS call FROM events
        WHERE pos > ? AND kind = ? AND json_extract(body, '$.decision') = 'deny'
            AND coalesce(json_extract(body, '$.by'), 'person') = 'person'),
    made AS MATERIALIZED (
        SELECT session, seq, recording || '.' || json_extract(body, '$.index') AS call, body
        FROM events
        WHERE pos > ? AND kind = ? AND json_extract(body, '$.name') = CAST(? AS TEXT))
    SELECT {_whole_text("made")}, json_extract(body, '$.meta.type') = 'custom'
    FROM denied JOIN made USING (session, call) ORDER BY denied.pos DESC LIMIT ?
"""  # noqa: S608
"""Scans each table once, however many rows match."""


def summary_of_row(row: Sequence[Any]) -> Summary:
    tags = tuple(sorted(row[15].split("\x1f"))) if row[15] else ()
    marks = (bool(row[12]), bool(row[13]), bool(row[14]), tags)
    values: list[Any] = [*row[:8], bool(row[8]), 0, *row[9:12], *marks]
    return Summary(*values, *row[16:20])


# Marks that the user sets. They are no events: they do not change a session ----------------------


async def pin(database: Database, session: str, at_ms: int | None) -> None:
    """Pins the session since `at_ms` (Unix ms), or with None unpins it."""
    await database.write([Statement(_PIN, [(at_ms, session)])])


async def archive(database: Database, session: str, at_ms: int | None) -> None:
    """Hides the session from the list since `at_ms` (Unix ms), or with None shows it again."""
    await database.write([Statement(_ARCHIVE, [(at_ms, session)])])


async def set_tags(database: Database, session: str, tags: Sequence[str]) -> None:
    """Replaces the tags of the session."""
    rows = [(session, storable(tag)) for tag in tags]
    away = Statement("DELETE FROM tags WHERE session = ?", [(session,)])
    await database.write([away, Statement("INSERT OR IGNORE INTO tags VALUES (?, ?)", rows)])


# The forks of a session, and the session it was forked from ---------------------------------------


@dataclass(frozen=True)
class Relative:
    """A session of a family: `parent` is "" if it is not a fork. It copied its parent's events up
    to `parent_seq`; after them the calls `reopened` were open again."""

    id: str
    title: str
    state: SessionState
    updated_ms: int
    parent: str
    parent_seq: int
    reopened: tuple[str, ...] = ()


async def family(database: Database, session: str) -> list[Relative]:
    """All sessions with the same first ancestor as `session`, oldest first; without deleted ones,
    except `session` itself."""
    values = (session, session, kind_of(SessionForked), session, MOST_RELATIVES)
    rows = await database.rows(_FAMILY, values)
    return [_relative(row) for row in rows]


async def forks_of(database: Database, session: str) -> list[Relative]:
    """The direct forks of `session`, oldest first; without deleted ones."""
    rows = await database.rows(_FORKS, (kind_of(SessionForked), session, MOST_RELATIVES))
    return [_relative(row) for row in rows]


def _relative(row: Sequence[Any]) -> Relative:
    name, title, state, updated_ms, parent, parent_seq, body = row
    event = from_row(kind_of(SessionForked), body) if body is not None else None
    reopened = event.reopened if isinstance(event, SessionForked) else ()
    return Relative(
        name,
        title=title,
        state=state,
        updated_ms=updated_ms,
        parent=parent,
        parent_seq=parent_seq,
        reopened=reopened,
    )
