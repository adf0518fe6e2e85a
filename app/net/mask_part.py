"""Masking of one part of an answer, whose text comes in pieces: which of its characters lie in a
known secret, and which may, so that nobody sees them before that is decided.

Threat 16 of docs/safety.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

from app.net.mask import HEAD, LEVELS, Masker, MaskStream, merged, starred
from app.net.unescape import Unescaper

Span = tuple[int, int]

_LAST = HEAD * 6**LEVELS
"""So many characters may a head be written in: of each escape six, in escapes of escapes."""


_PIECE = 64 * 1024
"""Characters that are looked at at once: for each escape among them a place is remembered."""


class PartMask:
    """The text of one part, as it is and without its JSON escapes, up to three levels of them:
    arguments are JSON, in which a secret may be escaped character by character. Places count
    characters of the part's text."""

    def __init__(self, masker: Masker) -> None:
        self.size = 0
        self._looks = masker.knows_any
        self._as_it_is = _Reading(masker)
        self._unescaped: list[_Unescaped] = []  # each of the one before, since its first backslash

    @property
    def undecided(self) -> int | None:
        """Where what may be the beginning of a secret begins, with 4 characters or more of it."""
        if not self._unescaped:
            return self._as_it_is.undecided
        places = [self._as_it_is.undecided]
        for nth, level in enumerate(self._unescaped):
            place = level.reading.undecided
            places.append(None if place is None else self._place(nth, place))
        return min((place for place in places if place is not None), default=None)

    @property
    def has_secrets(self) -> bool:
        return bool(self._as_it_is.spans.all) or any(one.spans.all for one in self._unescaped)

    def feed(self, text: str) -> None:
        self.size += len(text)
        for start in range(0, len(text) if self._looks else 0, _PIECE):
            self._feed(text[start : start + _PIECE])

    def end(self, *, whole: bool) -> Span | None:
        """No more comes, and everything is decided. `whole`: the writer ended the part itself; what
        was cut off is masked from 8 characters of a secret on. Returns the span of a secret that
        lacks its end."""
        begun = self.undecided is not None
        self._as_it_is.end(whole=whole)
        for nth, level in enumerate(self._unescaped):
            level.reading.end(whole=whole)  # an escape that is cut says nothing
            self._take(nth, level)
        last = merged(*(spans.all[-1:] for spans in self._all_spans()))[-1:]
        return last[0] if begun and last and last[0][1] == self.size else None

    def spans(self, start: int, end: int) -> list[Span]:
        """What of the characters `start` to `end` is masked, counted from `start`."""
        found = merged(*(spans.within(start, end) for spans in self._all_spans()))
        return [(first - start, last - start) for first, last in found]

    def masked(self, start: int, text: str) -> str:
        """The part's characters from `start` on, which are `text`, with stars."""
        return starred(text, self.spans(start, start + len(text)), "*")

    def _all_spans(self) -> Iterator[_Spans]:
        yield self._as_it_is.spans
        yield from (level.spans for level in self._unescaped)

    def _feed(self, text: str) -> None:
        reading = self._as_it_is
        for nth in range(LEVELS + 1):
            if nth == len(self._unescaped) and nth < LEVELS and "\\" in text:
                unescaper = Unescaper(reading.size)
                self._unescaped.append(_Unescaped(unescaper, reading.copy(), _Spans()))
            reading.feed(text)
            if nth:
                self._take(nth - 1, self._unescaped[nth - 1])
            if nth == len(self._unescaped):
                break
            reading, text = self._unescaped[nth].reading, self._unescaped[nth].unescaper.feed(text)
        if all(level.reading.idle for level in self._unescaped):
            for level in self._unescaped:
                level.unescaper.forget(_LAST)

    def _take(self, nth: int, level: _Unescaped) -> None:
        for start, end in level.reading.spans.all:
            level.spans.add(self._place(nth, start), self._place(nth, end))
        level.reading.spans.all.clear()

    def _place(self, nth: int, place: int) -> int:
        """Where in the part's text character `place` of level `nth` begins."""
        for level in reversed(self._unescaped[: nth + 1]):
            place = level.unescaper.place(place)
        return place


@dataclass
class _Unescaped:
    """A text without one level of its escapes; `spans` are those of its secrets, in the part."""

    unescaper: Unescaper
    reading: _Reading
    spans: _Spans


class _Reading:
    """A text that grows. Ordinary text costs one search for heads of secrets a piece; only what
    begins like a secret is looked at by a MaskStream."""

    def __init__(self, masker: Masker) -> None:
        self.spans = _Spans()
        self.undecided: int | None = None
        self._masker = masker
        self.size = 0
        self._tail = ""  # too short to be held back, but with what comes it may be a head
        self._stream: MaskStream[str] | None = None
        self._stream_start = 0
        self._returned = 0

    @property
    def idle(self) -> bool:
        return self._stream is None

    def copy(self) -> _Reading:
        other = copy(self)
        other.spans = _Spans()
        other._stream = self._stream.copy() if self._stream is not None else None
        return other

    def feed(self, text: str) -> None:
        seen, start = text, self.size
        self.size += len(text)
        if self._stream is None:
            seen = self._tail + text
            if not self._masker.may_begin(seen):
                self._tail = seen[1 - HEAD :]
                return
            self._stream = self._masker.mask_texts()
            self._stream_start = self._returned = start - len(self._tail)
        self._returned += len(self._stream.feed(seen))
        self._take(self._stream)
        kept = len(self._stream.kept)
        if kept < HEAD:
            self._tail, self._stream = self._stream.kept, None

    def end(self, *, whole: bool) -> None:
        if self._stream is not None:
            self._returned += len(self._stream.end(whole=whole))
            self._take(self._stream)
        self._stream = None

    def _take(self, stream: MaskStream[str]) -> None:
        for start, end in stream.ranges:
            self.spans.add(self._stream_start + start, self._stream_start + end)
        stream.ranges.clear()
        kept, covered = len(stream.kept), stream.covered if stream.kept else 0
        if covered:
            self.spans.add(self._returned, self._returned + covered)
        self.undecided = self._returned + covered if kept >= HEAD and covered < kept else None


class _Spans:
    """Half-open spans in order; those that touch are one."""

    def __init__(self) -> None:
        self.all: list[Span] = []

    def add(self, start: int, end: int) -> None:
        """Nothing begins before the last span does."""
        if self.all and start <= self.all[-1][1]:
            first, last = self.all.pop()
            start, end = min(first, start), max(last, end)
        self.all.append((start, end))

    def within(self, start: int, end: int) -> list[Span]:
        found: list[Span] = []
        nth = max(0, bisect_right(self.all, (start, end)) - 1)
        while nth < len(self.all) and self.all[nth][0] < end:
            first, last = max(start, self.all[nth][0]), min(end, self.all[nth][1])
            if first < last:
                found.append((first, last))
            nth += 1
        return found
