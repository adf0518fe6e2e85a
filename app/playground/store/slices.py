"""Cuts request bodies into slices, so that text repeated from earlier requests is stored once.

An agent sends its whole history with each request. The cut follows JSON punctuation outside of
strings, and is independent of the protocol: a slice begins at the comma before a member or an
element, or at the bracket that closes the last one, so a growing list keeps its slices. The
position of a cut depends only on the text before it. Any text can be cut; the slices concatenated
are that text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

SMALL = 2048
"""Characters from which a body is stored in slices."""

LEAST = (64, 64, 64, 256)
"""Minimum characters of a slice that ends at this bracket depth, or deeper: smaller ones cost more
than they hold, and the end of a message, which changes when another follows, joins the message."""

LONG = 1280
"""Maximum characters of a slice: three of them share a page of SQLite. A text that grew keeps the
slices of its beginning."""

MANY, COARSE = 4096, 64 * 1024
"""After so many slices of one body, slices have at least so many characters (at most LONG more):
for bodies with images or a list of a million numbers."""

_TO_PUNCTUATION = re.compile(r'(?:[^][{},"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+[][{},]', re.DOTALL)
"""Up to the next bracket or comma outside of a JSON string. Possessive: fails at once if there is
none."""

SliceRuns = Sequence[Sequence[int]]


class SliceEnd(NamedTuple):
    """The end of a slice and the state needed to continue the cut: position read so far, bracket
    depth, and where the last member of the top-level object begins."""

    end: int
    read: int
    depth: int
    member: int

    def shift(self, by: int) -> SliceEnd:
        return SliceEnd(self.end + by, self.read + by, self.depth, self.member + by)


@dataclass(frozen=True)
class SlicedBody:
    """A body in slices: the end and the hash of each."""

    body: str
    places: Sequence[SliceEnd]
    hashes: Sequence[bytes]

    def slices(self) -> Iterator[str]:
        """The slices in order; none is empty."""
        start = 0
        for place in self.places:
            yield self.body[start : place.end]
            start = place.end


def slice_body(body: str, before: SlicedBody | None = None) -> SlicedBody:
    """Cuts `body`. If the earlier body `before` has the same beginning or end, reuses its slices,
    so that a session's next request costs only its new text."""
    old = before or SlicedBody("", (), ())
    same = _common_length(old.body, body)
    # The last slice ended only because its body did.
    repeated = bisect_right(old.places, same, 0, max(len(old.places) - 1, 0), key=_reach)
    places, hashes = list(old.places[:repeated]), list(old.hashes[:repeated])
    ending = _SharedEnd(old, body)
    start = places[-1].end if places else 0
    for place in _places(body, places[-1] if places else SliceEnd(0, 0, 0, 0), repeated):
        places.append(place)
        hashes.append(hash_of(encode_piece(body[start : place.end])))
        start = place.end
        if (following := ending.next_index(place, len(places))) is not None:
            places += [each.shift(ending.shift) for each in old.places[following:]]
            hashes += old.hashes[following:]
            break
    return SlicedBody(body, places, hashes)


def _reach(place: SliceEnd) -> int:
    """How much of the body determined this end."""
    return max(place.end + 1, place.read)


def _common_length(before: str, after: str, *, end: bool = False) -> int:
    """The number of characters of the common beginning, or end."""
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


class _SharedEnd:
    """Finds where the cut of `body` reaches the end that it shares with `old`."""

    def __init__(self, old: SlicedBody, body: str) -> None:
        self.shift = len(body) - len(old.body)
        self._places = old.places
        self._same_from = len(body) - _common_length(old.body, body, end=True)
        # Inside a long text the cut depends on where the text begins.
        known = enumerate(old.places)
        self._known = {place.end: at for at, place in known if place.read > place.end}

    def next_index(self, place: SliceEnd, count: int) -> int | None:
        """The index from which the old places can follow `place`, the end of slice `count`; None if
        not yet."""
        at = self._known.get(place.end - self.shift)
        if place.end < self._same_from or at is None:
            return None
        old, left = self._places[at].shift(self.shift), len(self._places) - at
        member = old.member == place.member or max(old.member, place.member) <= place.end
        same = member and (old.read, old.depth) == (place.read, place.depth)
        return at + 1 if same and max(count, at) + left < MANY else None


def _places(body: str, last: SliceEnd, count: int) -> Iterator[SliceEnd]:
    """The ends of the slices after `last`, which is the end of slice `count`."""
    start, read, depth, member = last
    while (match := _TO_PUNCTUATION.match(body, read)) is not None:
        end = match.end() - 1
        while end - start > (long := LONG if count < MANY else COARSE):
            start, count = start + long, count + 1
            yield SliceEnd(start, read, depth, member)
        read, mark = end + 1, body[end]
        if mark in "[{":
            depth += 1
            # The cut of a second-level list or object (tools after messages) is independent of what
            # precedes it.
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


def encode_piece(piece: str) -> bytes:
    """The stored form of a slice: UTF-8 with lone surrogates preserved."""
    return piece.encode("utf-8", "surrogatepass")


def decode_piece(data: bytes) -> str:
    """The inverse of `encoded`."""
    return data.decode("utf-8", "surrogatepass")


def hash_of(data: bytes) -> bytes:
    """A 16-byte hash that identifies a slice."""
    return blake2b(data, digest_size=16).digest()


# Slice numbers, mostly consecutive, as (first, count) ---------------------------------------------


def runs_of(numbers: Iterable[int]) -> list[list[int]]:
    """`numbers`, in order, as runs."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return runs


def numbers_of(runs: SliceRuns) -> Iterator[int]:
    """The inverse of `runs_of`."""
    for first, count in runs:
        yield from range(first, first + count)


def spans_over(several: Iterable[SliceRuns], gap: int) -> list[tuple[int, int]]:
    """The spans (first, last), in order, that cover all numbers of `several`; those with at most
    `gap` numbers between them are merged."""
    spans: list[tuple[int, int]] = []
    for first, count in sorted(tuple(run) for runs in several for run in runs):
        last = first + count - 1
        if spans and first <= spans[-1][1] + gap + 1:
            spans[-1] = spans[-1][0], max(spans[-1][1], last)
        else:
            spans.append((first, last))
    return spans
