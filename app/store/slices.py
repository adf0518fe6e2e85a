"""A request's body cut into slices, so that what it repeats of earlier ones is stored once.

An agent sends its whole history with each request. The cut follows the punctuation of JSON, but for
that in its texts, and knows no protocol: a slice begins at the comma before a member or an element,
or at the bracket behind the last one, so that a list that grows keeps the slices it had. Each place
of a cut follows from what stands before it alone. Any text can be cut; the slices joined are that
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

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


def cut(body: str) -> Iterator[str]:
    """The slices of `body`, in order; none is empty."""
    start = depth = count = member = place = 0
    while (match := _TO_PUNCTUATION.match(body, place)) is not None:
        place = match.end()
        end = place - 1
        while end - start > (long := LONG if count < MANY else COARSE):
            yield body[start : start + long]
            start, count = start + long, count + 1
        mark = body[end]
        if mark in "[{":
            depth += 1
            # A list or an object in the top one (tools behind messages) does not depend on what
            # stands before it.
            if depth == 2 and member > start and count < MANY:
                yield body[start:member]
                start, count = member, count + 1
            continue
        if end - start >= (LEAST[min(depth, 3)] if count < MANY else COARSE):
            yield body[start:end]
            start, count = end, count + 1
        if mark != ",":
            depth = max(depth - 1, 0)
        elif depth == 1:
            member = end
    while start < len(body):
        long = LONG if count < MANY else COARSE
        yield body[start : start + long]
        start, count = start + long, count + 1


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
