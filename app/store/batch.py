"""What is written together, as values and as statements. Knows SQL, and no connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from app.core.events import (
    CallDecided,
    CallEnded,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestSent,
)
from app.core.serialization import to_row
from app.store.database import INDEXED, Statement


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a recording as they arrived, `start` being their place in it."""

    recording: int
    start: int
    at_ms: int
    data: bytes


@dataclass(frozen=True)
class Summary:
    """What the list shows of a session: a projection, rebuilt from its fold at every change.

    `tasks` counts those that run in the background; it is written, not read back. What stands
    after it is no projection: `parent` is the session that it was forked from after event
    `parent_seq`, "" for none; one that is not `own` came from somebody else and is only read.
    The last three are what a person marked it with; they are read, and written by marks.py.
    """

    id: str
    title: str
    created_ms: int
    updated_ms: int
    state: str
    model: str
    calls: int
    waiting: int
    deleted: bool = False
    tasks: int = 0
    profile: str = ""
    parent: str = ""
    parent_seq: int = 0
    own: bool = True
    pinned: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Copied:
    """The first `seq` events of session `parent`, with which a fork begins, the number of their
    recordings, which it shares, and the `tools` that are called in them, as `called` gives them."""

    parent: str
    seq: int
    recordings: int
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Closed:
    """How a recording ended: whether cleanly, which spans of it are masked (half open), and the
    SHA-256 of what is kept, as hex digits; "" while it goes on, and it is not clean then."""

    recording: int
    clean: bool
    masked: Sequence[tuple[int, int]] = ()
    sha256: str = ""


@dataclass(frozen=True)
class WriteBatch:
    """What is written together. `copied` is what a new session begins with; `ends` are those of all
    its recordings and `tags` its own, where it comes whole, from a file."""

    session: str
    events: Sequence[Logged] = ()
    chunks: Sequence[Chunk] = ()
    closed: Closed | None = None
    summary: Summary | None = None
    full: bool = False
    copied: Copied | None = None
    ends: Sequence[Closed] = ()
    tags: Sequence[str] = ()


def joined(batches: Sequence[WriteBatch]) -> WriteBatch:
    """Batches of one session that hold nothing but events and bytes, as one."""
    events = [logged for batch in batches for logged in batch.events]
    chunks = [chunk for batch in batches for chunk in batch.chunks]
    return WriteBatch(batches[0].session, events, chunks)


_SEARCHED = (PromptAdded, PartEnded, CallDecided, CallEnded)
"""What the view `texts` of the database makes texts of."""


LARGE = 2 * INDEXED
"""Characters of a text that stand in the body of its event: no less than what the view `texts`
reads, of which a character may be two here, the halves of one. The rest follows in pieces."""

PIECE = 256 * 1024
"""Characters of such a piece."""


@dataclass(frozen=True)
class _Rests:
    """The rows of what goes beyond LARGE, each made when it is written."""

    session: str
    events: Sequence[Logged]

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        for logged in self.events:
            text = long_text(logged.event)
            for nth, start in enumerate(range(LARGE, len(text), PIECE)):
                piece = text[start : start + PIECE].encode("utf-8", "surrogatepass")
                yield self.session, logged.seq, nth, piece


def long_text(event: Event) -> str:
    """The text that may be large."""
    match event:
        case PartDelta(text=text) | PartEnded(text=text) | RequestSent(body=text):
            return text
    return ""


def with_text(event: Event, text: str) -> Event:
    """`event` with another text in the place of `long_text`."""
    match event:
        case PartDelta() | PartEnded():
            return replace(event, text=text)
        case RequestSent():
            return replace(event, body=text)
    return event


def statements(batch: WriteBatch, base: int) -> list[Statement]:
    """What writes `batch` after position `base`."""
    statements = [_summarized(batch.summary)] if batch.summary is not None else []
    first = base + 1
    if batch.copied is not None:
        statements += _copies(batch.session, batch.copied, base)
        first += batch.copied.seq
    rows = [_row(batch.session, place, logged) for place, logged in enumerate(batch.events, first)]
    if rows:
        statements.append(Statement(_INSERT, rows))
    if large := [logged for logged in batch.events if len(long_text(logged.event)) > LARGE]:
        rests = "INSERT INTO rests (session, seq, nth, bytes) VALUES (?, ?, ?, ?)"
        statements.append(Statement(rests, _Rests(batch.session, large)))
    tools = called_tools(batch.events) | (
        batch.copied.tools if batch.copied is not None else frozenset()
    )
    if tools:
        names = [(batch.session, tool) for tool in sorted(tools)]
        statements.append(Statement("INSERT OR IGNORE INTO called VALUES (?, ?)", names))
    if batch.copied is not None or any(isinstance(o.event, _SEARCHED) for o in batch.events):
        # What another batch wrote later has its own statement, whichever is committed first.
        last = first + len(batch.events) - 1
        statements.append(Statement(_INDEX, [(base + 1, last)]))
    if batch.chunks:
        statements.append(
            Statement(
                "INSERT INTO chunks (session, recording, start, at_ms, bytes)"
                " VALUES (?, ?, ?, ?, ?)",
                [(batch.session, c.recording, c.start, c.at_ms, c.data) for c in batch.chunks],
            )
        )
    ends = [*batch.ends, *([batch.closed] if batch.closed is not None else [])]
    if ends:
        statements.append(
            Statement(
                "INSERT OR REPLACE INTO recordings (session, number, clean, masked, sha256)"
                " VALUES (?, ?, ?, ?, ?)",
                [(batch.session, o.recording, o.clean, _spans(o), o.sha256) for o in ends],
            )
        )
    if batch.tags:
        rows = [(batch.session, storable(tag)) for tag in batch.tags]
        statements.append(Statement("INSERT OR IGNORE INTO tags VALUES (?, ?)", rows))
    return statements


def _summarized(summary: Summary) -> Statement:
    """What is a projection is written anew; the rest holds from when the session was made."""
    return Statement(
        "INSERT INTO sessions (id, title, created_ms, updated_ms, state, model, calls, waiting,"
        " tasks, profile, parent, parent_seq, own) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET"
        " updated_ms = excluded.updated_ms, state = excluded.state, model = excluded.model,"
        " calls = excluded.calls, waiting = excluded.waiting, tasks = excluded.tasks,"
        " profile = excluded.profile,"
        " title = CASE title WHEN '' THEN excluded.title ELSE title END",
        [
            (
                summary.id,
                storable(summary.title),
                summary.created_ms,
                summary.updated_ms,
                summary.state,
                storable(summary.model),
                summary.calls,
                summary.waiting,
                summary.tasks,
                storable(summary.profile),
                summary.parent,
                summary.parent_seq,
                summary.own,
            )
        ],
    )


def _copies(session: str, copied: Copied, base: int) -> list[Statement]:
    """The first events of the parent under the same numbers; its recordings are shared: whoever
    holds the bytes is named, however many forks lie between."""
    numbers = (copied.parent, copied.recordings)
    return [
        Statement(
            "INSERT INTO events (pos, session, seq, at_ms, kind, body, recording, start, stop)"
            " SELECT ? + seq, ?, seq, at_ms, kind, body, recording, start, stop"
            " FROM events WHERE session = ? AND seq <= ?",
            [(base, session, copied.parent, copied.seq)],
        ),
        Statement(
            "INSERT INTO rests (session, seq, nth, bytes)"
            " SELECT ?, seq, nth, bytes FROM rests WHERE session = ? AND seq <= ?",
            [(session, copied.parent, copied.seq)],
        ),
        Statement(
            "INSERT INTO recordings (session, number, clean, masked, sha256)"
            " SELECT ?, number, clean, masked, sha256 FROM recordings"
            " WHERE session = ? AND number <= ?",
            [(session, *numbers)],
        ),
        Statement(
            "INSERT INTO shares SELECT ?, number, owner FROM shares"
            " WHERE session = ? AND number <= ?",
            [(session, *numbers)],
        ),
        Statement(
            "INSERT INTO shares SELECT DISTINCT ?, recording, session FROM chunks"
            " WHERE session = ? AND recording <= ?",
            [(session, *numbers)],
        ),
    ]


def called_tools(log: Iterable[Logged]) -> frozenset[str]:
    """The tools that were called, by name, as they are stored."""
    parts = (logged.event for logged in log if isinstance(logged.event, PartStarted | PartEnded))
    return frozenset(storable(part.name) for part in parts if part.name)


def _spans(recording: Closed) -> str:
    return json.dumps([list(span) for span in recording.masked])


def storable(text: str) -> str:
    """`text` without lone surrogates, which no UTF-8 can hold; events are ASCII and keep them."""
    return text.encode("utf-8", "replace").decode("utf-8")


_INSERT = (
    "INSERT INTO events (pos, session, seq, at_ms, kind, body, recording, start, stop)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INDEX = "INSERT INTO found (rowid, text) SELECT pos, text FROM texts WHERE pos BETWEEN ? AND ?"


def _row(session: str, position: int, logged: Logged) -> tuple[object, ...]:
    event, source = logged.event, logged.source
    text = long_text(event)
    if len(text) > LARGE:
        event = with_text(event, text[:LARGE])
    span = (source.recording, source.start, source.end) if source is not None else (None,) * 3
    return (position, session, logged.seq, logged.at_ms, *to_row(event), *span)
