"""A session laid out for its replay: what arrived, in one order, and where each stands in time.

Position k is the page after the first k arrivals, an event of the log or a piece of a recording
each. Knows no HTML.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from app.core.events import (
    CallEnded,
    Logged,
    PartStarted,
    PromptAdded,
    RequestSent,
    ResponseFailed,
    SessionStarted,
)
from app.core.reducer import fold
from app.core.session import Session
from app.render.filters import clip, one_line
from app.render.timeline import Clock, Segment, clock, segments

Chunks = Mapping[int, Sequence[tuple[int, bytes]]]
"""By recording: (Unix ms, bytes) in order of arrival."""

Piece = tuple[int, int, bytes]
"""(recording, Unix ms, bytes)."""

MarkKind = Literal["prompt", "turn", "call", "error"]
KINDS: tuple[MarkKind, ...] = ("prompt", "turn", "call", "error")


@dataclass(frozen=True)
class Mark:
    """A place to jump to: `position` is right after event `seq`. A call's is where it begins."""

    kind: MarkKind
    position: int
    seq: int
    words: str


@dataclass(frozen=True)
class Reel:
    """`at` says of each arrival where it stands on the replay clock, in ms, ascending; `seqs` has
    for each position the last event before it; `whole` is what the session came to. `first` is
    the first position that can be drawn."""

    whole: Session
    clock: Clock
    segments: Sequence[Segment]
    arrivals: Sequence[Logged | Piece]
    at: Sequence[int]
    seqs: Sequence[int]
    marks: Sequence[Mark]
    first: int

    @property
    def count(self) -> int:
        """The last position."""
        return len(self.arrivals)

    def of_seq(self, seq: int) -> int:
        """The position right after event `seq`, or after the last one before it that there is."""
        return self.within(bisect_left(self.seqs, seq))

    def of_ms(self, ms: int) -> int:
        """The position that the replay clock shows at `ms`."""
        return self.within(bisect_right(self.at, ms))

    def within(self, position: int) -> int:
        """`position`, or the nearest that can be drawn."""
        return min(max(position, self.first), self.count)

    def ms(self, position: int) -> int:
        """Where `position` begins on the replay clock."""
        return self.at[position - 1] if position else 0


@dataclass(frozen=True)
class Played:
    """A moment of a replay: after event `seq` of `last`, at `ms` of its clock. `whole` is what the
    session came to; `before` and `after` are the next places to go to, by their kind (`event` and
    those of marks), as events."""

    whole: Session
    seq: int
    last: int
    ms: int
    before: Mapping[str, int]
    after: Mapping[str, int]


def played(found: Reel, position: int) -> Played:
    """Where `position` is, and where to go from there."""
    seq, last = found.seqs[position], found.whole.seq
    before = {"event": seq - 1} if seq > found.seqs[found.first] else {}
    after = {"event": seq + 1} if seq < last else {}
    for kind in KINDS:
        earlier, later = beside(found, position, kind)
        before |= {kind: earlier.seq} if earlier is not None else {}
        after |= {kind: later.seq} if later is not None else {}
    return Played(found.whole, seq, last, found.ms(position), before, after)


def beside(found: Reel, position: int, kind: MarkKind) -> tuple[Mark | None, Mark | None]:
    """The marks of that kind before and after `position`."""
    marks = [mark for mark in found.marks if mark.kind == kind]
    before = bisect_left(marks, position, key=lambda one: one.position)
    after = bisect_right(marks, position, key=lambda one: one.position)
    return (
        marks[before - 1] if before else None,
        marks[after] if after < len(marks) else None,
    )


def reel(session_id: str, log: Sequence[Logged], chunks: Chunks) -> Reel:
    """`log` must hold the deltas of ended parts, too."""
    whole = fold(session_id, log)
    on = clock(whole, whole.updated_ms)
    arrivals: list[Logged | Piece] = []
    at, seqs, first = list[int](), [0], 0
    for at_ms, what in _arrivals(log, chunks):
        arrivals.append(what)
        at.append(on.at(at_ms))
        seqs.append(what.seq if isinstance(what, Logged) else seqs[-1])
        if not first and isinstance(what, Logged) and isinstance(what.event, SessionStarted):
            first = len(arrivals)
    found = segments(whole, on, whole.updated_ms)
    return Reel(whole, on, found, arrivals, at, seqs, tuple(_marks(arrivals)), first)


def _arrivals(log: Sequence[Logged], chunks: Chunks) -> Iterator[tuple[int, Logged | Piece]]:
    """(Unix ms, what) in one order of time; the order of the log holds whatever the clock did.

    The bytes of a recording lie between its request and the next one.
    """
    pending: deque[tuple[int, bytes]] = deque()
    number = now = 0
    for logged in log:
        moment = max(now, logged.at_ms)
        last = isinstance(logged.event, RequestSent)
        while pending and (last or pending[0][0] <= moment):
            came, data = pending.popleft()
            now = max(now, min(came, moment))
            yield now, (number, came, data)
        now = moment
        yield now, logged
        if isinstance(logged.event, RequestSent):
            number = logged.event.recording
            pending = deque(chunks.get(number, ()))
    for came, data in pending:
        now = max(now, came)
        yield now, (number, came, data)


def _marks(arrivals: Sequence[Logged | Piece]) -> Iterator[Mark]:
    turn = prompts = 0
    for position, what in enumerate(arrivals, 1):
        if not isinstance(what, Logged):
            continue
        match what.event:
            case PromptAdded(text=text):
                prompts += 1
                words = f"message {prompts}: {clip(one_line(text), 60)}"
                yield Mark("prompt", position, what.seq, words)
            case RequestSent(recording=turn):
                yield Mark("turn", position, what.seq, f"turn {turn}")
            case PartStarted(index=index, part_kind="call", name=name):
                words = f"call {turn}.{index}: {clip(one_line(name), 60)}"
                yield Mark("call", position, what.seq, words)
            case ResponseFailed(message=message):
                yield Mark("error", position, what.seq, clip(one_line(message), 80))
            case CallEnded(call_id=call_id, result=result) if result.is_error:
                words = f"call {call_id} {result.kind.replace('_', ' ') or 'failed'}"
                yield Mark("error", position, what.seq, words)
            case _:
                pass
