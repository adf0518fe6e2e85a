"""What is written together, as values and as statements. Knows SQL, and no connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from app.core.events import (
    CallDecided,
    CallEnded,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestSent,
)
from app.core.rows import KINDS, to_row
from app.store.database import Statement


@dataclass(frozen=True)
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
class Batch:
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


_SEARCHED = (PromptAdded, PartEnded, CallDecided, CallEnded)
"""What the view `texts` of the database makes texts of."""


LARGE = 1024 * 1024
"""Characters from which a text is written with as few copies as can be, and goes to the index as it
is: the view reads it out of its event's JSON, and makes four copies on the way."""


def _is_large(logged: Logged) -> bool:
    match logged.event:
        case PartDelta(text=text) | PartEnded(text=text) | RequestSent(body=text):
            return len(text) >= LARGE
    return False


def _inserted(session: str, events: Mapping[int, Logged]) -> list[Statement]:
    """The rows of `events`, which stand under their positions."""
    large = {position: logged for position, logged in events.items() if _is_large(logged)}
    rows = [
        (*_row(session, position, logged), _body(logged))
        for position, logged in events.items()
        if position not in large
    ]
    said = [Statement(_INSERT.format("?9"), rows)] if rows else []
    if large:
        texts = {position: partial(_body, logged) for position, logged in large.items()}
        rows = [_row(session, position, logged) for position, logged in large.items()]
        said.append(Statement(_INSERT.format("late_text(?1)"), rows, texts))
    return said


def _indexed(base: int, events: Mapping[int, Logged]) -> list[Statement]:
    """Puts the texts after position `base` into the index. SQLite reads a text in JSON up to a NUL,
    so a large one with a NUL is left to the view, too."""
    large = {
        position: partial(_words, logged.event)
        for position, logged in events.items()
        if isinstance(logged.event, PartEnded)
        and _is_large(logged)
        and "\0" not in logged.event.text
        and "\0" not in logged.event.name
    }
    places = ", ".join(map(str, large))
    rest = (
        "INSERT INTO found (rowid, text) SELECT pos, text FROM texts"  # noqa: S608
        f" WHERE pos > ? AND pos NOT IN ({places})"
    )
    said = [Statement(rest, [(base,)])]
    if large:
        sql = "INSERT INTO found (rowid, text) VALUES (?1, late_text(?1))"
        said.append(Statement(sql, [(position,) for position in large], large))
    return said


def _words(part: PartEnded) -> str:
    """The same words as the view gives."""
    words = f"{part.name} {part.text}" if part.name else part.text
    return words if words.isascii() else storable(words)


def statements(batch: Batch, base: int) -> list[Statement]:
    """What writes `batch` after position `base`."""
    statements = [_summarized(batch.summary)] if batch.summary is not None else []
    first = base + 1
    if batch.copied is not None:
        statements += _copies(batch.session, batch.copied, base)
        first += batch.copied.seq
    events = dict(enumerate(batch.events, first))
    statements += _inserted(batch.session, events)
    tools = called(batch.events) | (batch.copied.tools if batch.copied is not None else frozenset())
    if tools:
        names = [(batch.session, tool) for tool in sorted(tools)]
        statements.append(Statement("INSERT OR IGNORE INTO called VALUES (?, ?)", names))
    if batch.copied is not None or any(isinstance(o.event, _SEARCHED) for o in batch.events):
        statements += _indexed(base, events)
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


def _summarized(one: Summary) -> Statement:
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
                one.id,
                storable(one.title),
                one.created_ms,
                one.updated_ms,
                one.state,
                storable(one.model),
                one.calls,
                one.waiting,
                one.tasks,
                storable(one.profile),
                one.parent,
                one.parent_seq,
                one.own,
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


def called(log: Iterable[Logged]) -> frozenset[str]:
    """The tools that were called, by name, as they are stored."""
    parts = (one.event for one in log if isinstance(one.event, PartStarted | PartEnded))
    return frozenset(storable(part.name) for part in parts if part.name)


def _spans(one: Closed) -> str:
    return json.dumps([list(span) for span in one.masked])


def storable(text: str) -> str:
    """`text` without lone surrogates, which no UTF-8 can hold; events are ASCII and keep them."""
    return text.encode("utf-8", "replace").decode("utf-8")


_INSERT = (
    "INSERT INTO events (pos, session, seq, at_ms, kind, recording, start, stop, body)"
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, {})"
)


def _row(session: str, position: int, logged: Logged) -> tuple[object, ...]:
    """The values of _INSERT but for the body."""
    source = logged.source
    span = (source.recording, source.start, source.end) if source is not None else (None,) * 3
    return (position, session, logged.seq, logged.at_ms, KINDS[type(logged.event)], *span)


def _body(logged: Logged) -> str:
    return to_row(logged.event)[1]
