"""Differences between two JSON values, and between two texts, by words or lines.

`json_changes` returns JSON pointers with the old and new value. Arrays of different lengths are
aligned at both ends.

`text_changes` skips the equal parts at both ends, splits the rest into words, or lines if it is
long, and searches for the shortest edit path (Myers 1986) of at most STEPS differences. Beyond that
the rest is one changed piece. (difflib takes seconds for a model that repeats two words over and
over.) `visible_pieces` is the part of it that is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import unified_diff
from itertools import groupby, takewhile
from typing import Any, Literal

from playground.core.arguments import ABSENT, DEEPEST, canonical_value, pointer_step
from playground.core.json_values import load_decimals

ChangeKind = Literal["added", "removed", "changed", "type"]
"""`type`: the type of a value changed, such as a number that became a text."""

STEPS = 200

MOST_PIECES = 3_000
"""Most words, or else lines, that are compared, of both texts together."""

LONG = 200_000
"""Characters of two texts above which they are not compared by words."""

TextHow = Literal["same", "removed", "added"]

_Piece = tuple[TextHow, str]

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_BREAK = re.compile(r"\s")

PIECES_IN_SIGHT = 100
"""In one text."""

SHOWN_TEXT = 1_200

AROUND = 60
"""Visible characters of a text, and of the same text around a difference."""

LineChange = tuple[str, str]
"""A line with its kind: "+", "-", " ", or "@" for the position of what follows."""


@dataclass(frozen=True)
class JsonChange:
    """The value at JSON pointer `pointer` changed from `old` to `new`, as JSON text; "" if absent.
    The pointer of an added value is that in the new value, else that in the old one. `types` are
    (old, new) in words if they differ: null, boolean, number, text, list, object."""

    pointer: str
    how: ChangeKind
    old: str = ""
    new: str = ""
    types: tuple[str, str] = ("", "")


def json_changes(old: str, new: str) -> tuple[JsonChange, ...] | None:
    """All differences of two JSON texts, in the order of the old one; None if one is invalid JSON
    or nested too deep: then compare them as text."""
    try:
        before, after = _value(old), _value(new)
    except ValueError:
        return None
    return tuple(_changes("", before, after))


def _value(text: str) -> Any:
    """The value of `text`, numbers as Decimals."""
    # int() rejects NaN and Infinity.
    value = load_decimals(text, parse_constant=int, object_pairs_hook=_unique_members)
    canonical_value(value, DEEPEST + 1)
    return value


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("A key occurs twice.")
    return members


def _changes(pointer: str, old: Any, new: Any) -> Iterator[JsonChange]:
    types = (_type(old), _type(new))
    match old, new:
        case dict(), dict():
            for name in {**old, **new}:
                place = f"{pointer}/{pointer_step(name)}"
                yield from _changes(place, old.get(name, ABSENT), new.get(name, ABSENT))
        case list(), list():
            for number, before, after in _pair_items(old, new):
                yield from _changes(f"{pointer}/{number}", before, after)
        case _ if old is ABSENT:
            yield JsonChange(pointer, "added", "", _json_text(new), types)
        case _ if new is ABSENT:
            yield JsonChange(pointer, "removed", _json_text(old), "", types)
        case _ if types[0] != types[1]:
            yield JsonChange(pointer, "type", _json_text(old), _json_text(new), types)
        case _ if old != new:
            yield JsonChange(pointer, "changed", _json_text(old), _json_text(new))


def _pair_items(old: list[Any], new: list[Any]) -> Iterator[tuple[int, Any, Any]]:
    """Pairs the elements of two lists: of different lengths, without those equal at both ends; else
    by index."""
    shorter, start, end = min(len(old), len(new)), 0, 0
    if len(old) != len(new):
        before, after = ([canonical_value(item, DEEPEST) for item in items] for items in (old, new))
        start = _same_items(before, after)
        end = min(_same_items(before[::-1], after[::-1]), shorter - start)
    yield from ((at, old[at], new[at]) for at in range(start, shorter - end))
    yield from ((at, old[at], ABSENT) for at in range(shorter - end, len(old) - end))
    yield from ((at, ABSENT, new[at]) for at in range(shorter - end, len(new) - end))


def _same_items(left: Sequence[str], right: Sequence[str]) -> int:
    """The number of equal elements at the beginning."""
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case Decimal():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case dict():
            return "object"
    return ""


def _json_text(value: Any) -> str:
    """As JSON text."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            inner = (f"{json.dumps(n, ensure_ascii=False)}: {_json_text(value[n])}" for n in value)
            return f"{{{', '.join(inner)}}}"
        case list():
            return f"[{', '.join(_json_text(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False)


# Two texts --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextPiece:
    how: TextHow
    text: str


def text_changes(old: str, new: str) -> tuple[TextPiece, ...]:
    """The edit from `old` to `new`: the same and removed pieces are `old`, the others `new`."""
    start, end = _ends(old, new)
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    pieces = _piece_diff(_WORD.findall, before, after) if len(before) + len(after) <= LONG else None
    pieces = pieces if pieces is not None else _piece_diff(_lines, before, after)
    pieces = pieces if pieces is not None else [("removed", before), ("added", after)]
    return tuple(_join_pieces([("same", old[:start]), *pieces, ("same", old[len(old) - end :])]))


def _ends(old: str, new: str) -> tuple[int, int]:
    """The number of equal characters at the beginning and at the end, up to word boundaries."""
    start = _common_length(old, new)
    if start < max(len(old), len(new)):
        start = max(old.rfind(" ", 0, start), old.rfind("\n", 0, start)) + 1
    end = _common_length(old[start:][::-1], new[start:][::-1])
    gap = _BREAK.search(old, len(old) - end)
    return start, len(old) - gap.start() if gap is not None else 0


def _common_length(left: str, right: str) -> int:
    """The number of equal characters at the beginning."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _piece_diff(cut: Callable[[str], list[str]], old: str, new: str) -> list[_Piece] | None:
    """The difference by the pieces of `cut`; None if there are too many."""
    before, after = cut(old), cut(new)
    return _edit_path(before, after) if len(before) + len(after) <= MOST_PIECES else None


def _edit_path(old: Sequence[str], new: Sequence[str]) -> list[_Piece] | None:
    """The shortest edit path from `old` to `new`; None if it has more than STEPS steps."""
    # By diagonal: the position in `old`, and the path there, as (rest of path, last piece).
    reached: dict[int, tuple[int, Any]] = {1: (0, None)}
    for steps in range(min(STEPS, len(old) + len(new)) + 1):
        for lane in range(-steps, steps + 1, 2):
            down = lane == -steps or (lane != steps and reached[lane - 1][0] < reached[lane + 1][0])
            x, way = reached[lane + 1] if down else reached[lane - 1]
            x += not down
            y = x - lane
            if steps:
                gone = "".join(old[x - 1 : x])
                way = way, ("added", "".join(new[y - 1 : y])) if down else ("removed", gone)
            start = x
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            reached[lane] = x, (way, ("same", "".join(old[start:x])))
            if x >= len(old) and y >= len(new):
                return _path_pieces(reached[lane][1])
    return None


def _path_pieces(way: Any) -> list[_Piece]:
    pieces: list[_Piece] = []
    while way is not None:
        way, piece = way
        pieces.append(piece)
    return pieces[::-1]


def _join_pieces(pieces: Sequence[_Piece]) -> Iterator[TextPiece]:
    """Merges neighbours of one kind; between two same pieces, removed text comes first."""
    changed_pieces = (piece for piece in pieces if piece[1])
    for same, group in groupby(changed_pieces, key=lambda piece: piece[0] == "same"):
        neighbours = list(group)
        kinds: tuple[TextHow, ...] = ("same",) if same else ("removed", "added")
        for kind in kinds:
            if text := "".join(text for how, text in neighbours if how == kind):
                yield TextPiece(kind, text)


def visible_pieces(pieces: Sequence[TextPiece]) -> list[TextPiece]:
    """Shortens the same text in its middle, changes after SHOWN_TEXT characters, and the whole
    after PIECES_IN_SIGHT pieces; each cut says how much is left out."""
    cut: list[TextPiece] = []
    for place, piece in enumerate(pieces[:PIECES_IN_SIGHT]):
        if piece.how != "same":
            cut.append(TextPiece(piece.how, _shorten(piece.text, SHOWN_TEXT, 0)))
            continue
        head = AROUND if place else 0
        tail = AROUND if place + 1 < len(pieces) else 0
        cut.append(TextPiece("same", _shorten(piece.text, head, tail)))
    if len(pieces) > PIECES_IN_SIGHT:
        left = len(pieces) - PIECES_IN_SIGHT
        cut.append(TextPiece("same", f" … {_count_text(left, 'more piece')} …"))
    return cut


def _shorten(text: str, head: int, tail: int) -> str:
    left = len(text) - head - tail
    if left <= 40:
        return text
    return f"{text[:head]} … {_count_text(left, 'character')} … {text[len(text) - tail :]}"


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def line_changes(old: str, new: str) -> list[LineChange]:
    """The unified difference of two texts."""
    before, after = (text.split("\n") if text else [] for text in (old, new))
    lines = list(unified_diff(before, after, lineterm="", n=2))[2:]
    return [(line[:1], line if line[:1] == "@" else line[1:]) for line in lines]
