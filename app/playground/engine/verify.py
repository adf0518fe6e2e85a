"""Verifies a database: decodes each recording again and compares each projection with its log.

Reads each session in one transaction, so it can run while a server writes. Takes no lock; the
caller decides whether stale projections are rewritten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from playground.core.decide import close_imported
from playground.core.errors import BadInput, IllegalEvent, StoreError
from playground.core.events import (
    CallDoubted,
    Event,
    Logged,
    PartDelta,
    PartStarted,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    Source,
    Warned,
)
from playground.core.reducer import fold
from playground.core.serialization import to_row
from playground.core.session import Session
from playground.core.settings import Limits, Settings
from playground.protocols.base import Advice, Spanned, rate_limits, requested_wait
from playground.protocols.raw_json import end_of
from playground.protocols.registry import codec
from playground.store.database import Database, Statement
from playground.store.log import Log
from playground.store.maintenance import StaleRows, find_stale, repair, search_differences
from playground.store.writes import Chunk, ClosedRecording, called_tools, summary_of

SEARCH = "search"
"""In place of a session id if the search index differs."""
_ALL = """
    SELECT id FROM sessions UNION SELECT session FROM events UNION SELECT session FROM chunks
    UNION SELECT session FROM recordings UNION SELECT session FROM called ORDER BY 1
"""

OURS = ("content_type", "choice_ignored", "left_recording", "history_refused")
"""Codes of the warnings that engine/responses adds to those of the decoder."""


@dataclass(frozen=True)
class Difference:
    """`recording` is 0 for a difference in the session's log as a whole."""

    session: str
    recording: int
    says: str

    @property
    def line(self) -> str:
        return f"{self.session}:{self.recording}: {self.says}"


OnDifference = Callable[[Difference], None]


@dataclass
class VerifyReport:
    """What was checked. `mended` is the number of sessions whose row in the list was stale, None if
    nothing was rewritten."""

    sessions: int = 0
    recordings: int = 0
    events: int = 0
    masked_bytes: int = 0
    unhashed: int = 0
    unended: int = 0
    differences: int = 0
    mended: int | None = None


async def verify(
    database: Database, on_difference: OnDifference, *, mending: bool = False
) -> VerifyReport:
    """Checks all sessions, including deleted ones; calls `on_difference` for each difference found.

    `mending` rewrites the projections; only the owner of the database may do so.
    """
    log, done = await Log.open(database), VerifyReport()
    right: list[Statement] = []
    mended = 0

    def tell(differences: Iterable[Difference]) -> None:
        for difference in differences:
            done.differences += 1
            on_difference(difference)

    for (session_id,) in await database.rows(_ALL):
        check, unlike = await _check_stored_session(database, log, session_id)
        if check is not None:
            _count(done, check)
            tell(check.differences)
        tell(Difference(session_id, 0, say) for say in unlike.says)
        right, mended = [*right, *unlike.right], mended + bool(unlike.right)
    differs = await search_differences(database)
    tell(Difference(SEARCH, 0, differ) for differ in differs)
    if mending:
        try:
            await repair(database, right)
        except StoreError as error:
            tell([Difference(SEARCH, 0, f"the index could not be rebuilt: {error}")])
        done.mended = mended
    return done


async def _check_stored_session(
    database: Database, log: Log, session_id: str
) -> tuple[SessionCheck | None, StaleRows]:
    """The differences of a session, read in one transaction; None if it no longer exists."""
    await database.rows("BEGIN")
    try:
        return await _compare_session(database, log, session_id)
    # Any error: one unreadable session must not hide the others.
    except Exception as error:
        what = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
        message = f"cannot be checked: {what}"
        return SessionCheck(differences=[Difference(session_id, 0, message)]), StaleRows()
    finally:
        await database.rows("COMMIT")


async def _compare_session(
    database: Database, log: Log, session_id: str
) -> tuple[SessionCheck | None, StaleRows]:
    summary = await log.summary(session_id)
    events = await log.events(session_id)
    chunks = await log.chunks(session_id)
    closed = await log.recordings(session_id)
    if summary is None and not (events or chunks or closed):
        return None, StaleRows()
    check = check_session(session_id, events, chunks, closed)
    check.differences += [
        Difference(
            session_id, 0, f"slice {number} of its requests differs from the bytes that were sent"
        )
        for number in await log.altered_slices(session_id)
    ]
    if summary is None:
        return check, StaleRows(["it is not in the list, but parts of it are stored"])
    session = check.session
    if session is None or session.settings is None:
        return check, StaleRows()
    if not summary.own:
        close_imported(session)
    folded = summary_of(session, "", summary.created_ms, own=summary.own)
    if summary.updated_ms in _last_times(events):
        folded = replace(folded, updated_ms=summary.updated_ms)
    return check, await find_stale(database, folded, called_tools(events))


def _last_times(events: Sequence[Logged]) -> set[int]:
    """Possible times of the last write of the list's row: deltas alone do not write it."""
    times: set[int] = set()
    latest = 0
    for logged in events:
        latest = max(0 if isinstance(logged.event, SessionForked) else latest, logged.at_ms)
        times = (times if isinstance(logged.event, PartDelta) else set()) | {latest}
    return times


def _count(done: VerifyReport, check: SessionCheck) -> None:
    done.sessions += 1
    done.recordings += check.recordings
    done.events += check.events
    done.masked_bytes += check.masked_bytes
    done.unhashed += check.unhashed
    done.unended += check.unended


# Decodes one session's recordings again and compares them with its log. Pure. What engine/responses
# adds to an answer (price, warning on the tool choice, cause of a broken connection) is skipped or
# reconstructed; texts may differ only where the log has stars for a secret.


@dataclass
class SessionCheck:
    """Counts of what was checked: recordings, decoded events, masked bytes, recordings without a
    hash (older than hashes) and without an end (in progress, or the program was killed). `session`
    is None if the log cannot be folded."""

    session: Session | None = None
    recordings: int = 0
    events: int = 0
    masked_bytes: int = 0
    unhashed: int = 0
    unended: int = 0
    differences: list[Difference] = field(default_factory=list)


@dataclass
class _Answer:
    """A recording and how it was decoded; `logged` are the events from its bytes."""

    number: int
    settings: Settings
    sent: RequestSent
    started: ResponseStarted | None = None
    logged: list[Logged] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether its end was received; an end added after a restart has no source."""
        return any(
            isinstance(logged.event, ResponseEnded | ResponseFailed) for logged in self.logged
        )


def check_session(
    session_id: str,
    log: Sequence[Logged],
    chunks: Sequence[Chunk],
    closed: Mapping[int, ClosedRecording],
) -> SessionCheck:
    """All differences between the `log` of a session and its recordings."""
    check = SessionCheck()
    try:
        check.session = fold(session_id, log)
    except IllegalEvent as error:
        check.differences.append(Difference(session_id, 0, f"the log cannot be read: {error}"))
    seqs = (place for place, logged in enumerate(log, 1) if logged.seq != place)
    if place := next(seqs, 0):
        check.differences.append(Difference(session_id, 0, f"event {place} is missing"))
    if not log:
        check.differences.append(Difference(session_id, 0, "all of its events are missing"))
    answers = _answers(log)
    bodies: dict[int, list[Chunk]] = {number: [] for number in answers}
    for chunk in chunks:
        bodies.setdefault(chunk.recording, []).append(chunk)
    check.recordings = len(bodies)
    for number, pieces in sorted(bodies.items()):
        sentences = _compare_recording(answers.get(number), pieces, closed.get(number), check)
        check.differences += [Difference(session_id, number, sentence) for sentence in sentences]
    return check


def _answers(log: Sequence[Logged]) -> dict[int, _Answer]:
    answers: dict[int, _Answer] = {}
    settings: Settings | None = None
    for logged in log:
        event, source = logged.event, logged.source
        match event:
            case SessionStarted() | SettingsChanged():
                settings = event.settings
            case RequestSent() if settings is not None:
                answers[event.recording] = _Answer(event.recording, settings, event)
            case ResponseStarted() if source is not None and source.recording in answers:
                answers[source.recording].started = event
            case CallDoubted():
                pass
            case Warned() if event.code in OURS:
                pass
            case _ if source is not None and source.recording in answers:
                answers[source.recording].logged.append(logged)
    return answers


def _compare_recording(
    answer: _Answer | None,
    pieces: Sequence[Chunk],
    closed: ClosedRecording | None,
    check: SessionCheck,
) -> Iterator[str]:
    """The differences of one recording as sentences; counts into `check`."""
    if not all(isinstance(piece.data, bytes) for piece in pieces):
        yield "has a piece that is not bytes"
        return
    data = b"".join(piece.data for piece in pieces)
    yield from _bytes_differ(pieces, data, closed, check)
    if answer is None:
        yield f"has {len(data)} bytes of a request that is not in the log"
        return
    if not answer.ended:
        check.unended += 1
    elif closed is None:
        yield "has ended in the log, but the end of its bytes was not saved"
    elif not closed.sha256:
        check.unhashed += 1
    clean = closed.clean if closed is not None else False
    try:
        again = _decode_again(answer, data, clean)
    except BadInput as error:
        yield f"cannot be decoded again: {error}"
        return
    # In the order of the bytes: up to 0.1.0 the ends of Messages' calls were logged after them.
    logged = sorted(map(_Fact.from_logged, answer.logged), key=lambda fact: fact.start)
    decoded = [_Fact(start, end, event) for start, end, event in again]
    check.events += len(again)
    yield from _facts_differ(_join_deltas(logged), _join_deltas(decoded), answer, clean)


def _bytes_differ(
    pieces: Sequence[Chunk], data: bytes, closed: ClosedRecording | None, check: SessionCheck
) -> Iterator[str]:
    offset = 0
    for piece in pieces:
        if piece.start != offset:
            yield f"bytes {offset} to {piece.start} are missing or duplicated"
        offset = piece.start + len(piece.data)
    if closed is None:
        return
    if closed.sha256 and (digest := hashlib.sha256(data).hexdigest()) != closed.sha256:
        yield f"its {len(data)} bytes have SHA-256 {digest}, but {closed.sha256} was saved"
    for start, end in closed.masked:
        check.masked_bytes += end - start
        if data[start:end] != b"*" * (end - start):
            yield f"bytes {start} to {end} are marked as masked, but are not all stars"


def _decode_again(answer: _Answer, data: bytes, clean: bool) -> list[Spanned]:
    """The decoder's events for the whole body, with an end only if the log has one."""
    if answer.started is None:
        return []
    decoder = codec(answer.sent.protocol).decoder(answer.started.status)
    decoder.limit(_limits(answer))
    profile = answer.settings.profile
    decoder.advise(Advice(profile.key_name, _header_wait(answer), bool(profile.recorded)))
    events = decoder.feed(data)
    over = any(isinstance(event, ResponseEnded | ResponseFailed) for _, _, event in events)
    if over or not answer.ended:
        return events
    stopped = any(isinstance(logged.event, ResponseFailed) for logged in answer.logged)
    return [*events, *decoder.end(clean, stopped=stopped and not clean)]


def _has_header_wait(headers: Mapping[str, str]) -> bool:
    return any(name.lower().startswith("retry-after") for name in headers)


def _header_wait(answer: _Answer) -> float | None:
    """The wait in seconds that the headers asked for, from the log: a date in them was relative to
    the time of receipt."""
    if answer.started is None or not _has_header_wait(answer.started.headers):
        return None
    events = (logged.event for logged in answer.logged)
    return next((event.retry_after for event in events if isinstance(event, ResponseFailed)), None)


def _limits(answer: _Answer) -> Limits:
    """The limits in force for the answer. If it has more calls than they allow, it is older than
    the limit of calls, and all of them are accepted."""
    limits = answer.settings.limits
    events = (logged.event for logged in answer.logged)
    calls = sum(isinstance(event, PartStarted) and event.part_kind == "call" for event in events)
    return replace(limits, max_calls_per_answer=max(limits.max_calls_per_answer, calls))


@dataclass(frozen=True)
class _Fact:
    """An event with the half-open span of its bytes."""

    start: int
    end: int
    event: Event

    @classmethod
    def from_logged(cls, logged: Logged) -> _Fact:
        source = logged.source or Source(0, 0, 0)
        return cls(source.start, source.end, logged.event)

    @property
    def words(self) -> str:
        return f"{to_row(self.event)[0]} (bytes {self.start} to {self.end})"


def _join_deltas(facts: Sequence[_Fact]) -> list[_Fact]:
    """Merges consecutive deltas of one part: their boundaries depend on how the bytes arrived."""
    joined: list[_Fact] = []
    for fact in facts:
        last = joined[-1] if joined else None
        match last, fact.event:
            case _Fact(event=PartDelta() as before), PartDelta() as event if (
                before.index == event.index
            ):
                text = before.text + event.text
                joined[-1] = _Fact(joined[-1].start, fact.end, replace(before, text=text))
            case _:
                joined.append(fact)
    return joined


def _texts(facts: Sequence[_Fact]) -> dict[int, str]:
    """The joined deltas of each part."""
    pieces: dict[int, list[str]] = {}
    for fact in facts:
        if isinstance(fact.event, PartDelta):
            pieces.setdefault(fact.event.index, []).append(fact.event.text)
    return {index: "".join(texts) for index, texts in pieces.items()}


def _facts_differ(
    logged: Sequence[_Fact], decoded: Sequence[_Fact], answer: _Answer, clean: bool
) -> Iterator[str]:
    """Compares side by side, up to the first place with different events. Texts are compared by
    part: one delta may have fewer stars of a secret than the shortest secret has characters. The
    sentences of warnings and failures are not compared, because versions differ in their wording:
    the code of a warning and the kind, status and error of a failure identify it."""
    if answer.started is None and len(logged) == 1 and isinstance(logged[0].event, ResponseFailed):
        return  # nothing to decode: it is a network failure
    for place, (fact, other) in enumerate(zip_longest(logged, decoded), 1):
        if fact is None or other is None:
            yield (
                f"the decoder's event {place} is {other.words}, and the log has no more"
                if other is not None
                else f"the log has {fact.words if fact else ''}, and the decoder no event {place}"
            )
            return
        if type(fact.event) is not type(other.event):
            yield f"event {place} is {other.words} now, but {fact.words} in the log"
            return
        if (fact.start, fact.end) != (other.start, other.end):
            span = f"bytes {fact.start} to {fact.end} in the log"
            yield f"event {place} is {other.words} now, but from {span}"
        if isinstance(fact.event, PartDelta) and isinstance(other.event, PartDelta):
            fact = replace(fact, event=replace(fact.event, text=""))
            other = replace(other, event=replace(other.event, text=""))
        kind, body = to_row(fact.event)
        expected = json.loads(to_row(_complete_event(other.event, fact.event, answer, clean))[1])
        for name, value in json.loads(body).items():
            if name == "message" and isinstance(fact.event, Warned | ResponseFailed):
                continue
            if not is_alike(value, expected[name]):
                says = f"{_shorten(expected[name])} now, but {_shorten(value)} in the log"
                yield f"event {place}, {kind} (bytes {fact.start} to {fact.end}): {name} is {says}"
    texts = _texts(logged)
    for index, text in _texts(decoded).items():
        if not is_alike(texts.get(index, ""), text):
            says = f"{_shorten(text)} now, but {_shorten(texts.get(index, ''))} in the log"
            yield f"the deltas of part {index} say {says}"


def _complete_event(decoded: Event, logged: Event, answer: _Answer, clean: bool) -> Event:
    """`decoded` with what the decoder cannot know, reconstructed or taken from the log."""
    match decoded, logged:
        case ResponseEnded(cost=None), ResponseEnded(cost=cost):
            return replace(decoded, cost=cost)
        case ResponseFailed(), ResponseFailed():
            started = answer.started
            headers = started.headers if started is not None else {}
            event = replace(
                decoded,
                request_id=started.request_id if started is not None else "",
                rate_limits=rate_limits(headers),
            )
            if decoded.failure == "interrupted" and (not clean or logged.failure == "stopped"):
                # The decoder saw only that bytes stopped; the log has the cause.
                return replace(event, failure=logged.failure, message=logged.message)
            waits = _has_header_wait(headers)
            asked = logged.retry_after if waits else requested_wait(decoded.error)
            return replace(event, retry_after=asked)
    return decoded


def is_alike(logged: object, decoded: object) -> bool:
    """Whether two JSON values are equal, except for stars in the log: at least as many as the
    shortest secret has characters, in place of as many characters or stars."""
    match logged, decoded:
        case str(), str():
            return logged == decoded or end_of(decoded, logged) == len(logged)
        case dict(), dict():
            pairs = zip(logged.items(), decoded.items(), strict=False)
            same = (is_alike(a, b) and is_alike(x, y) for (a, x), (b, y) in pairs)
            return len(logged) == len(decoded) and all(same)
        case list(), list():
            pairs_of = zip(logged, decoded, strict=False)
            return len(logged) == len(decoded) and all(is_alike(x, y) for x, y in pairs_of)
    return type(logged) is type(decoded) and logged == decoded


def _shorten(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
