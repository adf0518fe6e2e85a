"""What differs between two texts, in bounded work.

What is equal at both ends is set aside; what is left is cut into words, or into lines where it is
long, and a shortest way from one to the other is looked for (Myers 1986) that has STEPS differences
at most. Beyond that the rest is one piece that became another: all is told, only more coarsely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

STEPS = 200
MOST_PIECES = 3_000
"""Words, else lines, that are compared one by one, of both texts together."""

LONG = 200_000
"""Characters of two texts beyond which words are not looked at."""


@dataclass(frozen=True)
class Piece:
    how: Literal["same", "removed", "added"]
    text: str


def text_changes(old: str, new: str) -> tuple[Piece, ...]:
    """How `old` became `new`: the pieces that are same or removed are `old`, the others `new`."""
    if old == new:
        return (Piece("same", old),) if old else ()
    start, end = _ends(old, new)
    head, tail = old[:start], old[len(old) - end :]
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    told = _by(_words, before, after) if len(before) + len(after) <= LONG else None
    told = told if told is not None else _by(_lines, before, after)
    told = told if told is not None else _whole(before, after)
    return tuple(_joined([Piece("same", head), *told, Piece("same", tail)]))


_WORD = re.compile(r"\s+|\w+|[^\w\s]")


_BREAK = re.compile(r"\s")


def _ends(old: str, new: str) -> tuple[int, int]:
    """How many characters are equal at the beginning and at the end, back to the next gap, so that
    no word is cut."""
    start = _equal(old, new)
    if start < max(len(old), len(new)):
        start = max(old.rfind(" ", 0, start), old.rfind("\n", 0, start)) + 1
    end = _equal(old[start:][::-1], new[start:][::-1])
    gap = _BREAK.search(old, len(old) - end)
    return start, len(old) - gap.start() if gap is not None else 0


def _equal(one: str, other: str) -> int:
    """How many characters of both beginnings are equal."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _whole(old: str, new: str) -> list[Piece]:
    return [Piece("removed", old), Piece("added", new)]


def _by(cut: Callable[[str], list[str]], old: str, new: str) -> list[Piece] | None:
    """The difference by the pieces of `cut`; None where there are too many to be compared."""
    before, after = cut(old), cut(new)
    return _way(before, after) if len(before) + len(after) <= MOST_PIECES else None


def _way(old: Sequence[str], new: Sequence[str]) -> list[Piece] | None:
    """The shortest way from `old` to `new`; None where it has more than STEPS steps."""
    reached, trace = {1: 0}, list[dict[int, int]]()
    for steps in range(min(STEPS, len(old) + len(new)) + 1):
        trace.append(dict(reached))
        for lane in range(-steps, steps + 1, 2):
            down = lane == -steps or (
                lane != steps and reached.get(lane - 1, -1) < reached.get(lane + 1, -1)
            )
            x = reached[lane + 1] if down else reached[lane - 1] + 1
            y = x - lane
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reached[lane] = x
            if x >= len(old) and y >= len(new):
                return _back(trace, old, new)
    return None


def _back(trace: list[dict[int, int]], old: Sequence[str], new: Sequence[str]) -> list[Piece]:
    x, y = len(old), len(new)
    told: list[Piece] = []
    for steps in range(len(trace) - 1, -1, -1):
        reached, lane = trace[steps], x - y
        down = lane == -steps or (
            lane != steps and reached.get(lane - 1, -1) < reached.get(lane + 1, -1)
        )
        before = lane + 1 if down else lane - 1
        from_x = reached[before] if steps else 0
        from_y = from_x - before if steps else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            told.append(Piece("same", old[x]))
        if steps:
            told.append(Piece("added", new[from_y]) if down else Piece("removed", old[from_x]))
            x, y = from_x, from_y
    told.reverse()
    return told


def _joined(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Neighbours of one kind as one; between two that are same, what was removed comes first."""
    same: list[str] = []
    gone: list[str] = []
    came: list[str] = []
    for piece in [*pieces, Piece("same", "")]:
        match piece.how:
            case "removed":
                gone.append(piece.text)
                continue
            case "added":
                came.append(piece.text)
                continue
        if gone or came:
            yield from _flushed(same, gone, came)
            same, gone, came = [], [], []
        same.append(piece.text)
    yield from _flushed(same, gone, came)


def _flushed(same: list[str], gone: list[str], came: list[str]) -> Iterator[Piece]:
    if text := "".join(same):
        yield Piece("same", text)
    if text := "".join(gone):
        yield Piece("removed", text)
    if text := "".join(came):
        yield Piece("added", text)
