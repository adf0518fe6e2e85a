"""A request's body cut into slices, so that what it repeats of earlier ones is stored once.

An agent sends its whole history with each request. The cut follows the punctuation of JSON, but for
that in its texts, and knows no protocol: a slice begins at the comma before a member or an element,
or at the bracket behind the last one, so that a list that grows keeps the slices it had. Each place
of a cut follows from what stands before it alone. Any text can be cut; the slices joined are that
text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

from app.core.late import dataclass

SMALL = 2048
"""Characters from which a body is stored in slices."""

LEAST = (64, 64, 64, 256)
"""Characters that a slice has at least where it ends at this depth of brackets, or deeper: a small
one costs more than it holds, and a message's end, which changes when another follows, joins it."""

LONG = 1280
"""Characters of a slice at most: three of them share a page of SQLite. A text that grew shares its
beginning."""

MANY, COARSE = 4096, 64 * 1024
"""Behind so many slices of one body, the others have this many characters or more (at most LONG
more), for anyone who sends images or a list of a million numbers."""

_TO_PUNCTUATION = re.compile(r'(?:[^][{},"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+[][{},]', re.DOTALL)
"""Up to the next bracket or comma outside of a JSON text. Possessive: where there is none, it fails
at once."""


class SliceEnd(NamedTuple):
    """Where a slice ends, and what the cut has to know to go on: how far it has read, how deep in
    brackets that is, and where the last member of the top object begins."""

    end: int
    read: int
    depth: int
    member: int

    def shifted(self, by: int) -> SliceEnd:
        return SliceEnd(self.end + by, self.read + by, self.depth, self.member + by)


@dataclass(frozen=True)
class CutBody:
    """The slices of a body: where each ends, and the hash of each."""

    body: str
    places: Sequence[SliceEnd]
    hashes: Sequence[bytes]

    def slices(self) -> Iterator[str]:
        """In order; none is empty."""
        start = 0
        for place in self.places:
            yield self.body[start : place.end]
            start = place.end


def cut(body: str, before: CutBody | None = None) -> CutBody:
    """`body` in slices. Where `before`, another body, begins or ends with the same, its slices are
    taken over, so that a session's next request costs what is new in it."""
    old = before or CutBody("", (), ())
    same = _common(old.body, body)
    # The last one ends where its body did.
    repeated = bisect_right(old.places, same, 0, max(len(old.places) - 1, 0), key=_reach)
    places, hashes = list(old.places[:repeated]), list(old.hashes[:repeated])
    ending = _Ending(old, body)
    start = places[-1].end if places else 0
    for place in _places(body, places[-1] if places else SliceEnd(0, 0, 0, 0), repeated):
        places.append(place)
        hashes.append(hash_of(encoded(body[start : place.end])))
        start = place.end
        if (following := ending.after(place, len(places))) is not None:
            places += [each.shifted(ending.shift) for each in old.places[following:]]
            hashes += old.hashes[following:]
            break
    return CutBody(body, places, hashes)


def _reach(place: SliceEnd) -> int:
    """How much of the body decided on it."""
    return max(place.end + 1, place.read)


def _common(before: str, after: str, *, end: bool = False) -> int:
    """How many characters both begin with, or end with."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        spans = [
            slice(len(text) - middle, len(text) - low) if end else slice(low, middle)
            for text in (before, after)
        ]
        if before[spans[0]] == after[spans[1]]:
            low = middle
        else:
            high = middle - 1
    return low


class _Ending:
    """Finds where the cut of `body` has come to what `old` ends with, too."""

    def __init__(self, old: CutBody, body: str) -> None:
        self.shift = len(body) - len(old.body)
        self._places = old.places
        self._same_from = len(body) - _common(old.body, body, end=True)
        # Within a long text its beginning would decide how it goes on.
        known = enumerate(old.places)
        self._known = {place.end: at for at, place in known if place.read > place.end}

    def after(self, place: SliceEnd, count: int) -> int | None:
        """From which of the old places on all are those that follow on `place`, the end of slice
        `count`; None before that."""
        at = self._known.get(place.end - self.shift)
        if place.end < self._same_from or at is None:
            return None
        old, left = self._places[at].shifted(self.shift), len(self._places) - at
        member = old.member == place.member or max(old.member, place.member) <= place.end
        same = member and (old.read, old.depth) == (place.read, place.depth)
        return at + 1 if same and max(count, at) + left < MANY else None


def _places(body: str, last: SliceEnd, count: int) -> Iterator[SliceEnd]:
    """Where the slices behind `last` end, which is the end of `count` of them."""
    start, read, depth, member = last
    while (match := _TO_PUNCTUATION.match(body, read)) is not None:
        end = match.end() - 1
        while end - start > (long := LONG if count < MANY else COARSE):
            start, count = start + long, count + 1
            yield SliceEnd(start, read, depth, member)
        read, mark = end + 1, body[end]
        if mark in "[{":
            depth += 1
            # A list or an object in the top one (tools behind messages) does not depend on what
            # stands before it.
            if depth == 2 and member > start and count < MANY:
                start, count = member, count + 1
                yield SliceEnd(start, read, depth, member)
            continue
        is_end = end - start >= (LEAST[min(depth, 3)] if count < MANY else COARSE)
        if mark != ",":
            depth = max(depth - 1, 0)
        elif depth == 1:
            member = end
        if is_end:
            start, count = end, count + 1
            yield SliceEnd(start, read, depth, member)
    while start < len(body):
        start, count = min(start + (LONG if count < MANY else COARSE), len(body)), count + 1
        yield SliceEnd(start, read, depth, member)


def encoded(piece: str) -> bytes:
    """A slice as it is stored: UTF-8, in which halves of characters stay what they are."""
    return piece.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """The inverse of `encoded`."""
    return data.decode("utf-8", "surrogatepass")


def hash_of(data: bytes) -> bytes:
    """16 bytes that tell slices apart."""
    return blake2b(data, digest_size=16).digest()


# Numbers of slices, most of which follow each other, as (first, count) ----------------------------

Runs = Sequence[Sequence[int]]


def runs_of(numbers: Iterable[int]) -> list[list[int]]:
    """`numbers` in their order as runs."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def numbers_of(runs: Runs) -> Iterator[int]:
    """The inverse of `runs_of`."""
    for first, count in runs:
        yield from range(first, first + count)


def spans_over(several: Iterable[Runs], gap: int) -> list[tuple[int, int]]:
    """The spans (first, last) in order that have all numbers of `several`; those with no more than
    `gap` numbers between them are one."""
    spans: list[tuple[int, int]] = []
    for first, count in sorted(tuple(run) for runs in several for run in runs):
        last = first + count - 1
        if spans and first <= spans[-1][1] + gap + 1:
            spans[-1] = spans[-1][0], max(spans[-1][1], last)
        else:
            spans.append((first, last))
    return spans
