"""Batches of writes as values and as SQL statements, and events and bytes read back from rows. Uses
no connection.

Consecutive deltas of a batch, and pieces of one recording, share a row: most of an answer are
these, and SQLite's cost per row exceeds that of the content of one.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, assert_never

from playground.core.errors import BadInput, StoreError
from playground.core.events import (
    AnswerPassed,
    CallChecked,
    CallDecided,
    CallDoubted,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    CallReturned,
    CallStarted,
    ClientGone,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestReceived,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    Source,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Warned,
)
from playground.core.serialization import from_row, kind_of, to_row
from playground.core.session import Session, SessionState
from playground.store.database import Statement
from playground.store.schema import INDEXED
from playground.store.slices import SMALL, SlicedBody, SliceRuns, encode_piece, runs_of, slice_body

LARGE = 2 * INDEXED
"""Characters of a text kept in the body of its event: at least what the view `texts` reads, doubled
because a character may be two surrogates here. The rest is stored in pieces."""

PIECE = 256 * 1024
"""Characters of such a piece."""

_INSERT = (
    "INSERT INTO events (pos, session, seq, at_ms, kind, body, recording, start, stop)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_CHUNK = (
    "INSERT INTO chunks (session, recording, start, at_ms, bytes, cuts) VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_REST = "INSERT INTO rests (session, seq, nth, bytes) VALUES (?, ?, ?, ?)"
_INDEX = "INSERT INTO found (rowid, text) SELECT pos, text FROM texts WHERE pos BETWEEN ? AND ?"

MOST = 256
"""Most deltas, or pieces of a recording, in a row."""

SIZE = 64 * 1024
"""Most characters, or bytes, in a shared row: a long text has its own row."""

DELTA, DELTAS = kind_of(PartDelta), "part_deltas"
"""The kinds of rows with one delta and with several. No event has the second kind."""

EVENT_COLUMNS = "seq, at_ms, kind, body, recording, start, stop"
CHUNK_COLUMNS = "recording, start, at_ms, bytes, cuts"

NEVER: tuple[int | None, int] = (None, -1)

REMEMBERED = 8
"""Sessions whose slices are kept in memory."""

LARGEST = 2 * 1024 * 1024
"""Most characters of a body that is kept with them."""

_STAMP = """
    SELECT (SELECT pos FROM events WHERE session = ? ORDER BY seq LIMIT 1),
        (SELECT coalesce(max(nth), 0) FROM slices WHERE session = ?)
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Recorded bytes as they arrived; `start` is their offset in the recording."""

    recording: int
    start: int
    at_ms: int
    data: bytes


@dataclass(frozen=True)
class Summary:
    """A session's row in the list: a projection, rebuilt from its fold at every change.

    `tasks` counts background tasks (it is not read back), `tap` is the id of the tap through which
    an agent runs it, `agent` that agent's name, and `above` the session of the same agent that it
    is below; each is "" if there is none. These are not projections: `parent`, the session that it
    was forked from after event `parent_seq`, "" for none; `own` (others are imported and
    read-only); `batch`, the id of the batch that it is a run of, "" for none; and the user's marks
    `pinned`, `archived` and `tags`.
    """

    id: str
    title: str
    created_ms: int
    updated_ms: int
    state: SessionState
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
    tap: str = ""
    agent: str = ""
    above: str = ""
    batch: str = ""


def summary_of(
    session: Session, title: str, created_ms: int, *, own: bool = True, batch: str = ""
) -> Summary:
    """Projections are written at each change; `own`, `batch` and the parent when it is created."""
    assert session.settings is not None
    fork = session.forks[-1][1] if session.forks else None
    tapped = session.tapped
    return Summary(
        session.id,
        title=title,
        created_ms=created_ms,
        updated_ms=session.updated_ms,
        state=session.state,
        model=session.settings.model or session.settings.profile.model,
        calls=len(session.by_call),
        waiting=session.waits,
        tasks=len(session.open_tasks),
        profile=session.settings.profile.name,
        parent=fork.parent if fork is not None else "",
        parent_seq=fork.parent_seq if fork is not None else 0,
        own=own,
        tap=tapped.tap if tapped is not None else "",
        agent=tapped.agent if tapped is not None else "",
        above=tapped.parent if tapped is not None else "",
        batch=batch,
    )


def title_of(prompt: str) -> str:
    """A title from the first prompt, for a session that has none."""
    line = " ".join(prompt.split())
    return line if len(line) <= 60 else line[:59].rstrip() + "…"


@dataclass(frozen=True)
class CopiedPart:
    """What a fork copies: the first `seq` events of `parent`, the number of their recordings, which
    are shared, and the `tools` called in them, as `called_tools` returns them. The last event is no
    delta: no answer is open where a fork begins."""

    parent: str
    seq: int
    recordings: int
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ClosedRecording:
    """The end of a recording: whether it was clean, its masked half-open spans, and the SHA-256 of
    the saved bytes as hex digits ("", and not clean, while it is running)."""

    recording: int
    clean: bool
    masked: Sequence[tuple[int, int]] = ()
    sha256: str = ""


@dataclass(frozen=True)
class WriteBatch:
    """What is written together. `full`: it is synced to the disk. `may_wait`: it has only deltas
    and their bytes, which need not be saved before they are shown. `copied` is the beginning of a
    new fork; `ends` (of all recordings) and `tags` are for a session that is written whole, from a
    file."""

    session: str
    events: Sequence[Logged] = ()
    chunks: Sequence[Chunk] = ()
    closed: ClosedRecording | None = None
    summary: Summary | None = None
    full: bool = False
    may_wait: bool = False
    copied: CopiedPart | None = None
    ends: Sequence[ClosedRecording] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True)
class _Rests:
    """The rows for text beyond LARGE, each generated when it is written."""

    session: str
    events: Sequence[Logged]

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        for logged in self.events:
            text = long_text(logged.event)
            for nth, start in enumerate(range(LARGE, len(text), PIECE)):
                piece = text[start : start + PIECE].encode("utf-8", "surrogatepass")
                yield self.session, logged.seq, nth, piece


def is_searched(event: Event) -> bool:
    """Whether the view `texts` of the database makes a text of the event, which searches find. An
    event that is searched needs a migration with a new view."""
    match event:
        case PromptAdded() | PartEnded() | CallDecided() | CallEnded():
            return True
        case (
            AnswerPassed() | CallChecked() | CallDoubted() | CallExtended() | CallInterrupted()
            | CallProgressed() | CallReturned() | CallStarted() | ClientGone() | PartDelta()
            | PartStarted() | RequestReceived() | RequestSent() | ResponseEnded()
            | ResponseFailed() | ResponseStarted() | RetryScheduled() | RunPaused() | RunResumed()
            | RunStopped() | SessionForked() | SessionStarted() | SettingsChanged() | TaskEnded()
            | TaskStarted() | TurnDropped() | Warned()
        ):  # fmt: skip
            return False
        case _:
            assert_never(event)


def _has_rest(event: Event) -> bool:
    return len(long_text(event)) > LARGE and not is_sliced(event)


def long_text(event: Event) -> str:
    """The text of an event that may be large."""
    match event:
        case PartDelta(text=text) | PartEnded(text=text) | RequestSent(body=text):
            return text
    return ""


def with_text(event: Event, text: str) -> Event:
    """`event` with its `long_text` replaced."""
    match event:
        case PartDelta() | PartEnded():
            return replace(event, text=text)
        case RequestSent():
            return replace(event, body=text)
    return event


def delta_statements(
    session: str, events: Sequence[Logged], chunks: Sequence[Chunk], base: int
) -> list[Statement]:
    """The statements that write deltas and their bytes after position `base`."""
    statements = list[Statement]()
    if events:
        statements.append(Statement(_INSERT, _EventRows(session, base + 1, events, None)))
        statements += _rests(session, events)
    if chunks:
        statements.append(Statement(_INSERT_CHUNK, _ChunkRows(session, chunks)))
    return statements


def _rests(session: str, events: Sequence[Logged]) -> list[Statement]:
    large = [logged for logged in events if _has_rest(logged.event)]
    return [Statement(_INSERT_REST, _Rests(session, large))] if large else []


def statements(batch: WriteBatch, base: int, memory: SliceMemory | None = None) -> list[Statement]:
    """The statements that write `batch` after position `base`; `memory` belongs to the database."""
    statements = [_summary_statement(batch.summary)] if batch.summary is not None else []
    first = base + 1
    others = [logged for logged in batch.events if not isinstance(logged.event, PartDelta)]
    if batch.copied is not None:
        statements += _copies(batch.session, batch.copied, base)
        first += batch.copied.seq
    if batch.events:
        slices = RequestSlices(batch.session, others, memory or SliceMemory()) if others else None
        statements += slices.statements() if slices is not None else []
        events = _EventRows(batch.session, first, batch.events, slices)
        statements.append(Statement(_INSERT, events))
        statements += _rests(batch.session, batch.events)
    tools = called_tools(others) | (batch.copied.tools if batch.copied is not None else frozenset())
    if tools:
        names = [(batch.session, tool) for tool in sorted(tools)]
        statements.append(Statement("INSERT OR IGNORE INTO called VALUES (?, ?)", names))
    if batch.copied is not None or any(is_searched(o.event) for o in others):
        # Later batches have their own statement, whichever is committed first.
        last = first + len(batch.events) - 1
        statements.append(Statement(_INDEX, [(base + 1, last)]))
    if batch.chunks:
        statements.append(Statement(_INSERT_CHUNK, _ChunkRows(batch.session, batch.chunks)))
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


def _summary_statement(summary: Summary) -> Statement:
    """Projections are updated; the other columns keep their values from the creation."""
    return Statement(
        "INSERT INTO sessions (id, title, created_ms, updated_ms, state, model, calls, waiting,"
        " tasks, profile, parent, parent_seq, own, tap, agent, above, batch)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET"
        " updated_ms = excluded.updated_ms, state = excluded.state, model = excluded.model,"
        " calls = excluded.calls, waiting = excluded.waiting, tasks = excluded.tasks,"
        " profile = excluded.profile, tap = excluded.tap, agent = excluded.agent,"
        " above = excluded.above,"
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
                storable(summary.tap),
                storable(summary.agent),
                storable(summary.above),
                summary.batch,
            )
        ],
    )


def _copies(session: str, copied: CopiedPart, base: int) -> list[Statement]:
    """Copies the parent's first events under the same numbers. Recordings are shared, referring to
    the session that holds the bytes, however many forks lie between. Request slices are copied:
    they are small, each stored once, and a purge need not hand them over."""
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
            "INSERT INTO slices (session, nth, seq, hash, bytes)"
            " SELECT ?, nth, seq, hash, bytes FROM slices WHERE session = ? AND seq <= ?",
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
    """The names of the called tools, as stored."""
    parts = (logged.event for logged in log if isinstance(logged.event, PartStarted | PartEnded))
    return frozenset(storable(part.name) for part in parts if part.name)


def _spans(recording: ClosedRecording) -> str:
    return json.dumps([list(span) for span in recording.masked])


def storable(text: str) -> str:
    """`text` without lone surrogates, which UTF-8 cannot encode; events are ASCII and keep them."""
    return text.encode("utf-8", "replace").decode("utf-8")


# Events and bytes as rows, and back. A shared row has the position and time of its last event, so a
# query for later events finds it, and no reader sees half of it.


@dataclass(frozen=True)
class _EventRows:
    """The rows of `events`, generated when written; `first` is the position of the first."""

    session: str
    first: int
    events: Sequence[Logged]
    slices: RequestSlices | None  # of the events that are no deltas

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        position = self.first - 1
        for run in _runs(self.events):
            position += len(run)
            last = run[-1]
            sliced = self.slices.stored_event(last) if self.slices is not None else None
            row = _row(last, sliced) if len(run) == 1 else _shared_row(run)
            yield (position, self.session, last.seq, last.at_ms, *row)


def _runs(events: Iterable[Logged]) -> Iterator[Sequence[Logged]]:
    """`events` in order, grouped by shared row."""
    run, size = list[Logged](), 0
    for logged in events:
        added = len(logged.event.text) if isinstance(logged.event, PartDelta) else SIZE + 1
        if run and len(run) < MOST and size + added <= SIZE and _follows(run[-1], logged):
            run.append(logged)
            size += added
            continue
        if run:
            yield run
        run, size = [logged], added
    if run:
        yield run


def _follows(last: Logged, logged: Logged) -> bool:
    """Whether `logged` directly follows `last` and has the same recording, or none as well."""
    return logged.seq == last.seq + 1 and _recording(logged) == _recording(last)


def _recording(logged: Logged) -> int | None:
    return logged.source.recording if logged.source is not None else None


def _row(logged: Logged, sliced: Event | None) -> tuple[object, ...]:
    """The columns from `kind` on; uses `sliced`, if the event is stored in slices."""
    event, source = sliced or logged.event, logged.source
    if sliced is None and len(text := long_text(event)) > LARGE:
        event = with_text(event, text[:LARGE])
    span = (source.recording, source.start, source.end) if source is not None else (None,) * 3
    if isinstance(event, PartDelta):  # same as `to_row`, in a third of the time
        return (DELTA, f'{{"index":{event.index},"text":{_quoted(event.text)}}}', *span)
    return (*to_row(event), *span)


def _shared_row(run: Sequence[Logged]) -> tuple[object, ...]:
    """The same for several deltas: `before` is how many ms each arrived before the last, `start`
    its offset in bytes from the first, `size` its length in bytes."""
    at_ms, sources = run[-1].at_ms, [logged.source for logged in run if logged.source is not None]
    deltas = [logged.event for logged in run if isinstance(logged.event, PartDelta)]
    texts = ",".join([_quoted(delta.text) for delta in deltas])
    index = _numbers([delta.index for delta in deltas])
    before = _numbers([at_ms - logged.at_ms for logged in run])
    body = f'{{"index":{index},"text":[{texts}],"before":{before}'
    if not sources:
        return (DELTAS, body + "}", None, None, None)
    start = sources[0].start
    starts = _numbers([source.start - start for source in sources])
    sizes = _numbers([source.end - source.start for source in sources])
    body += f',"start":{starts},"size":{sizes}}}'
    return (DELTAS, body, sources[0].recording, start, sources[-1].end)


def _numbers(numbers: list[int]) -> str:
    """JSON, in a third of the time that the encoder takes."""
    return str(numbers).replace(" ", "")


def events_of(row: Sequence[Any]) -> list[Logged]:
    """The events of a row of EVENT_COLUMNS. StoreError if it cannot be read."""
    seq, at_ms, kind, body, recording, start, stop = row
    try:
        if kind == DELTAS:
            return _deltas(seq, at_ms, json.loads(body), recording, start)
        source = None if recording is None else Source(recording, start, stop)
        return [Logged(seq, at_ms, from_row(kind, body), source)]
    except (ValueError, TypeError, AttributeError, LookupError, BadInput) as error:
        raise StoreError(
            f"The database has an event that cannot be read (seq {seq}, {kind}): {error} Back up "
            "the file, and start a new one with --db FILE."
        ) from error


def _deltas(
    seq: int, at_ms: int, body: dict[str, list[Any]], recording: int | None, first: int
) -> list[Logged]:
    """The deltas of a shared row; `body` has the members written by `_shared_row`."""
    columns = zip(body["index"], body["text"], body["before"], strict=True)
    seq -= len(body["text"]) - 1
    if recording is None:
        return [
            Logged(place, at_ms - before, PartDelta(index, text))
            for place, (index, text, before) in enumerate(columns, seq)
        ]
    spans = zip(columns, body["start"], body["size"], strict=True)
    return [
        Logged(
            place,
            at_ms - before,
            PartDelta(index, text),
            Source(recording, first + start, first + start + size),
        )
        for place, ((index, text, before), start, size) in enumerate(spans, seq)
    ]


@dataclass(frozen=True)
class _ChunkRows:
    """The rows of `chunks`, each generated when it is written."""

    session: str
    chunks: Sequence[Chunk]

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        for run in _pieces(self.chunks):
            first, last, cuts = run[0], run[-1], ""
            if len(run) > 1:
                sizes = _numbers([len(chunk.data) for chunk in run])
                before = _numbers([last.at_ms - chunk.at_ms for chunk in run])
                cuts = f'{{"size":{sizes},"before":{before}}}'
            data = b"".join([chunk.data for chunk in run])
            yield (self.session, first.recording, first.start, last.at_ms, data, cuts)


def _pieces(chunks: Iterable[Chunk]) -> Iterator[Sequence[Chunk]]:
    """`chunks` in order, grouped by shared row."""
    run, end = list[Chunk](), 0
    for chunk in chunks:
        stop = chunk.start + len(chunk.data)
        is_next = bool(run) and (chunk.recording, chunk.start) == (run[0].recording, end)
        if is_next and len(run) < MOST and stop - run[0].start <= SIZE:
            run.append(chunk)
        else:
            if run:
                yield run
            run = [chunk]
        end = stop
    if run:
        yield run


def chunks_of(row: Sequence[Any]) -> list[Chunk]:
    """The pieces of a row of CHUNK_COLUMNS. StoreError if it cannot be read."""
    recording, start, at_ms, data, cuts = row
    if not cuts:
        return [Chunk(recording, start, at_ms, data)]
    try:
        columns = json.loads(cuts)
        ends = [*accumulate(columns["size"][:-1]), len(data)]
        spans = zip([0, *ends[:-1]], ends, columns["before"], strict=True)
        return [
            Chunk(recording, start + begin, at_ms - before, data[begin:end])
            for begin, end, before in spans
        ]
    except (ValueError, TypeError, LookupError) as error:
        raise StoreError(
            f"The database has bytes that cannot be read (recording {recording}, from byte "
            f"{start}): {error}"
        ) from error


# Requests: a large one is stored with lists of slice numbers in place of its large members. The
# numbers are assigned in the transaction that writes it.


@dataclass
class KnownSlices:
    """The known slices of a session, so that its next request costs only its new text. `stamp`
    identifies their state: position of the session's first event and number of its last slice, a
    pair that never recurs in one process, whatever failed or was purged since."""

    numbers: dict[bytes, int] = field(default_factory=dict)
    stamp: tuple[int | None, int] = NEVER
    cut: SlicedBody | None = None


class SliceMemory:
    """The known slices of the last sessions that sent something; used in the writer's thread
    only."""

    def __init__(self) -> None:
        self._known: dict[str, KnownSlices] = {}

    def known_slices(self, session: str) -> KnownSlices:
        known = self._known.pop(session, None) or KnownSlices()
        self._known[session] = known
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]
        return known


class RequestSlices:
    """The rows of `slices` for the requests among `events`, and their lists. Computed in the
    writer's thread, again at each retry: first what is stored of the session is read, then the rows
    are generated, then the lists are available."""

    def __init__(self, session: str, events: Sequence[Logged], memory: SliceMemory) -> None:
        self._session, self._memory = session, memory
        self._requests = [
            (logged.seq, logged.event)
            for logged in events
            if isinstance(logged.event, RequestSent) and is_sliced(logged.event)
        ]
        self._known = KnownSlices()
        self._unread: list[tuple[str]] = []
        self._lists: dict[int, Sequence[SliceRuns]] = {}

    def statements(self) -> list[Statement]:
        if not self._requests:
            return []
        known = "SELECT hash, nth FROM slices WHERE session = ?"
        new = "INSERT INTO slices (session, nth, seq, hash, bytes) VALUES (?, ?, ?, ?, ?)"
        return [
            Statement(_STAMP, [(self._session, self._session)], self._recall),
            Statement(known, self._unread, self._set_known),
            Statement(new, self),
        ]

    def _recall(self, rows: list[Any]) -> None:
        self._known, stamp = self._memory.known_slices(self._session), (rows[0][0], rows[0][1])
        if self._known.stamp != stamp:
            self._known.numbers, self._known.stamp = {}, stamp
        self._unread[:] = [(self._session,)] if len(self._known.numbers) < stamp[1] else []

    def _set_known(self, rows: list[Any]) -> None:
        self._known.numbers = {row[0]: row[1] for row in rows}

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        known = self._known
        position, last = known.stamp
        known.stamp = NEVER  # until all rows exist: some may never be written
        for seq, request in self._requests:
            body, headers = (
                slice_body(request.body, known.cut),
                slice_body(json.dumps(dict(request.headers))),
            )
            known.cut = body if len(body.body) <= LARGEST else None
            for pieces in (headers, body):
                for digest, piece in zip(pieces.hashes, pieces.slices(), strict=True):
                    if digest not in known.numbers:
                        last = known.numbers[digest] = last + 1
                        yield self._session, last, seq, digest, encode_piece(piece)
            self._lists[seq] = [
                runs_of(known.numbers[digest] for digest in each.hashes) for each in (body, headers)
            ]
        known.stamp = position, last

    def stored_event(self, logged: Logged) -> Event | None:
        """The event as stored if it is in slices: with lists in place of body and headers."""
        event = logged.event
        if logged.seq not in self._lists or not isinstance(event, RequestSent):
            return None
        body: Any
        headers: Any
        body, headers = self._lists[logged.seq]
        return replace(event, body=body, headers=headers)


def is_sliced(event: Event) -> bool:
    """Whether the body and headers are stored in slices: those of a request, unless it is short;
    also if it has lone surrogates, as JSON joins two of them."""
    if not isinstance(event, RequestSent):
        return False
    return len(event.body) >= SMALL or _has_halves(event.body)


def _has_halves(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def slices_of(event: Event) -> tuple[SliceRuns, SliceRuns] | None:
    """The slice lists in place of a request's body and of its JSON headers; None if these are
    stored directly, as before schema 11. ValueError or TypeError if the lists are invalid."""
    body: Any = event.body if isinstance(event, RequestSent) else ""
    headers: Any = event.headers if isinstance(event, RequestSent) else ()
    if not isinstance(body, list):
        return None
    return _parse_runs(body), _parse_runs(headers if isinstance(headers, list) else ())


def _parse_runs(data: Iterable[Any]) -> SliceRuns:
    return [(operator.index(first), operator.index(count)) for first, count in data]


def with_slices(event: Event, body: str, headers: str) -> Event:
    """The request with the text from slices; "" for headers that are in its row. ValueError or
    TypeError if the headers are invalid."""
    assert isinstance(event, RequestSent)
    own = event.headers if not headers else dict(json.loads(headers))
    return replace(event, body=body, headers=own)
