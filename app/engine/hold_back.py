"""What arrived of an answer, on its way into the log: kept back while one of its parts ends in what
may be the beginning of a secret, and starred where it was one.

Nothing overtakes anything: while one part is undecided, later bytes and events of all parts wait.
That lasts until the part goes on or ends. Bytes leave in whole frames, with the events of them, so
that a character is starred in an event and in its frame at once. Threat 16 of docs/safety.md.
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from app.core.events import Event, PartDelta, PartEnded, PartStarted, ResponseFailed, Warned
from app.engine.masked import masked
from app.net.mask import SHORTEST, Masker, merged
from app.net.mask_part import PartMask
from app.store.batch import Chunk
from app.wire.delta_bytes import bytes_of, star_deltas, text_literals

Span = tuple[int, int]

_LONGEST = 1024
"""Characters of a part to which the next ones may add a secret."""
_MOST_STRINGS = 100
"""Strings that are looked at in a frame whose end never came; honest ones have a few."""


@dataclass(slots=True)
class Waiting:
    """An event with its time and the span of its bytes. Of a delta or the end of a part, `part` is
    its mask and `at` where in its text the event's begins."""

    event: Event
    at_ms: int
    start: int
    end: int
    part: PartMask | None = None
    at: int = 0

    @property
    def is_undecided(self) -> bool:
        if self.part is None or not isinstance(self.event, PartDelta):
            return False
        undecided = self.part.undecided
        return undecided is not None and undecided < self.at + len(self.event.text)

    @property
    def stars(self) -> Sequence[Span]:
        """Which characters of the event's text are starred."""
        if self.part is None or not isinstance(self.event, PartDelta):
            return ()
        return self.part.spans(self.at, self.at + len(self.event.text))

    def masked(self) -> Waiting:
        event = self.event
        if self.part is None or not self.part.has_secrets:
            return self
        if isinstance(event, PartEnded) and len(event.text) == self.part.size:
            text = self.part.masked(0, event.text)
            meta = _masked_like(event.meta, event.text, text)
            return replace(self, event=replace(event, text=text, meta=meta))
        if isinstance(event, PartDelta):
            return replace(self, event=replace(event, text=self.part.masked(self.at, event.text)))
        return self


def _masked_like(value: Any, text: str, masked: str) -> Any:
    """JSON data of an answer in which each string that is a stretch of `text` is that of `masked`:
    some providers say what a part says once more, in pieces, beside it."""
    match value:
        case str():
            place = text.find(value) if len(value) >= SHORTEST else -1
            return value if place < 0 else masked[place : place + len(value)]
        case dict():
            return {name: _masked_like(item, text, masked) for name, item in value.items()}
        case list():
            return [_masked_like(item, text, masked) for item in value]
    return value


@dataclass
class Released:
    """What may be saved and seen, in order."""

    events: list[Waiting] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


class HoldBack:
    """The bytes and events of one answer. `masked` are the spans of released bytes that were
    starred here, in order; `size` counts all bytes that came, `saved` those that were released."""

    def __init__(self, recording: int, masker: Masker) -> None:
        self.masked: list[Span] = []
        self.size = 0
        self.saved = 0
        self._recording = recording
        self._masker = masker
        self._hash = hashlib.sha256()
        self._bytes = bytearray()
        self._arrivals: deque[tuple[int, int]] = deque()  # (end, time in ms) of each piece
        self._events: deque[Waiting] = deque()
        self._parts: dict[int, PartMask] = {}
        self._undecided: Waiting | None = None
        self._cut: set[str] = set()  # what parts ended in that lacks the end of a secret
        self._cut_masker = Masker()
        self._broken_at = sys.maxsize  # where a frame begins whose end never came

    @property
    def sha256(self) -> str:
        """Of the bytes that were released, as hex digits."""
        return self._hash.hexdigest()

    @property
    def has_escapes(self) -> bool:
        """Whether a backslash is among the bytes that are kept back."""
        return b"\\" in self._bytes

    def add_bytes(self, data: bytes, at_ms: int) -> None:
        self._bytes += data
        self.size += len(data)
        self._arrivals.append((self.size, at_ms))

    def add_event(self, event: Event, at_ms: int, start: int, end: int) -> None:
        waiting = Waiting(event, at_ms, start, end)
        match event:
            case PartStarted(index=index):
                self._parts[index] = PartMask(self._masker)
            case PartDelta(index=index, text=text):
                waiting.part = self._parts[index]
                waiting.at = waiting.part.size
                waiting.part.feed(text)
            case PartEnded(index=index, text=text):
                waiting.part = self._parts.pop(index)
                # Where the end says something else than the pieces did, these were cut off.
                same = len(text) == waiting.part.size
                cut = waiting.part.end(whole=event.complete and same)
                if cut is not None and same and text[slice(*cut)] not in self._cut:
                    self._cut.add(text[slice(*cut)])
                    self._cut_masker = Masker(self._cut)
        self._events.append(waiting)

    def break_off(self, settled: int) -> None:
        """The answer ends without an end of its own; `settled` as for `release`."""
        self._broken_at = settled

    def release(self, settled: int) -> Released:
        """What is decided of all that lies before byte `settled`, where the last whole frame
        ends."""
        if self._undecided is not None and self._undecided.is_undecided:
            return Released()
        self._undecided = next((one for one in self._events if one.is_undecided), None)
        upto = settled if self._undecided is None else min(settled, self._undecided.start)
        events: list[Waiting] = []
        while self._events and self._events[0].end <= upto:
            events.append(self._events.popleft())
        found = self._masker.escaped_spans(self._bytes[: upto - self.saved])
        if self._cut:
            found += self._said_again(upto, events)
            for waiting in events:
                if isinstance(waiting.event, Warned | ResponseFailed):
                    waiting.event = masked(waiting.event, self._cut_masker)
        if self._broken_at < upto:
            found += self._in_broken_frame(upto, events)
        if any(one.part is not None and one.part.has_secrets for one in events):
            found += self._starred_in_frames(events)
            events = [one.masked() for one in events]
        for start, end in merged(found):
            self._bytes[start:end] = b"*" * (end - start)
            self.masked.append((self.saved + start, self.saved + end))
        return Released(events, self._chunks(upto))

    def _starred_in_frames(self, events: Iterable[Waiting]) -> list[Span]:
        """The spans of the bytes that are kept back in which what is starred of `events` stands."""
        frames: dict[Span, list[tuple[str, Sequence[Span]]]] = {}
        starred_frames: set[Span] = set()
        for waiting in events:
            if isinstance(waiting.event, PartDelta) and waiting.start >= self.saved:
                frame = (waiting.start - self.saved, waiting.end - self.saved)
                frames.setdefault(frame, []).append((waiting.event.text, waiting.stars))
                if waiting.stars:
                    starred_frames.add(frame)
        found: list[Span] = []
        for start, end in starred_frames:
            spans = star_deltas(bytes(self._bytes[start:end]), frames[start, end])
            found += [(start + first, start + last) for first, last in spans]
        return found

    def _said_again(self, upto: int, events: Iterable[Waiting]) -> Iterator[Span]:
        """The spans of a secret without its end, where a provider says at the end of a part once
        more what it says: in frames that bring no delta."""
        deltas = merged((one.start, one.end) for one in events if isinstance(one.event, PartDelta))
        at = self.saved
        for start, end in [*deltas, (upto, upto)]:
            between = bytes(self._bytes[at - self.saved : start - self.saved])
            for first, last in self._cut_masker.byte_spans(between):
                yield at - self.saved + first, at - self.saved + last
            at = max(at, end)

    def _in_broken_frame(self, upto: int, events: Sequence[Waiting]) -> Iterator[Span]:
        """The spans of strings that go on with a secret, or begin one, in a frame that no decoder
        reads: nobody knows which part they would have been of."""
        if any(isinstance(one.event, PartDelta) and one.end > self._broken_at for one in events):
            return  # it lacked but its last line end
        before = {""}
        before |= {one.event.text[-_LONGEST:] for one in events if isinstance(one.event, PartEnded)}
        at = self._broken_at - self.saved
        frame = bytes(self._bytes[at : upto - self.saved])
        for literal in islice(text_literals(frame), _MOST_STRINGS):
            for said in before:
                part = PartMask(self._masker)
                part.feed(said + (literal.text[:_LONGEST] if said else literal.text))
                part.end(whole=False)
                spans = part.spans(len(said), part.size)
                yield from (
                    (at + first, at + last) for first, last in bytes_of(frame, literal, spans)
                )

    def _chunks(self, upto: int) -> list[Chunk]:
        """The bytes before `upto`, in the pieces in which they came; a piece may be cut there."""
        chunks: list[Chunk] = []
        while self.saved < upto:
            end, at_ms = self._arrivals[0]
            if end <= upto:
                self._arrivals.popleft()
            size = min(end, upto) - self.saved
            data = bytes(self._bytes[:size])
            del self._bytes[:size]
            self._hash.update(data)
            chunks.append(Chunk(self._recording, self.saved, at_ms, data))
            self.saved += size
        return chunks
