"""What differs between two values of JSON, and between two texts, in bounded work.

`json_changes` gives JSON pointers with the value before and after. Two values are walked side by
side once, without recursion, so a megabyte costs what reading it costs. Arrays of different lengths
are lined up at both ends, by hashes counted up from their leaves before.

`text_changes` sets aside what is equal at both ends; the rest is cut into words, or into lines
where it is long, and the shortest way from one to the other is looked for (Myers 1986) that has
STEPS differences at most. Beyond that the rest is one piece that became another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from app.core.arguments import ABSENT

How = Literal["added", "removed", "changed", "type"]
"""`type`: the same place holds another type of value, a number that became a text."""

DEEPEST = 64
"""No sound arguments are nested deeper; others are compared as text."""


@dataclass(frozen=True)
class JsonChange:
    """At JSON pointer `pointer` stood `old` and stands `new`, as JSON text; "" where nothing does.
    The pointer of what was added is its place in the new value, else that in the old one.
    `types` are (old, new) in words where they differ: null, boolean, number, text, list, object."""

    pointer: str
    how: How
    old: str = ""
    new: str = ""
    types: tuple[str, str] = ("", "")


def json_changes(old: str, new: str) -> tuple[JsonChange, ...] | None:
    """All that differs between two JSON texts, in the order of the old one; None where one of them
    is no sound JSON: then they are compared as text."""
    before, after = _value(old), _value(new)
    if before is ABSENT or after is ABSENT:
        return None
    return tuple(_changes(before, after))


def _value(text: str) -> Any:
    """What `text` says, numbers as Decimals; ABSENT where it is not sound, or too deep."""
    try:
        value = json.loads(
            text,
            parse_int=Decimal,
            parse_float=Decimal,
            parse_constant=_no_constant,
            object_pairs_hook=_no_twins,
        )
    except (ValueError, RecursionError, InvalidOperation):
        return ABSENT
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            return ABSENT
        items = (item for container in level for item in _items(container))
        level = [item for item in items if isinstance(item, dict | list)]
        depth += 1
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("A key stands twice.")
    return found


def _items(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            yield from value.values()
        case list():
            yield from value


_Path = tuple[Any, ...] | None
"""(the path before, the last step), None at the root: made into text only where it is told."""


def _changes(old: Any, new: Any) -> Iterator[JsonChange]:
    marks = {**_marks(old), **_marks(new)}
    left: list[tuple[_Path, Any, Any]] = [(None, old, new)]
    while left:
        path, before, after = left.pop()
        match before, after:
            case dict(), dict():
                pairs = [((path, name), before[name], after.get(name, ABSENT)) for name in before]
                pairs += [((path, n), ABSENT, after[n]) for n in after if n not in before]
                left += reversed(pairs)
            case list(), list():
                left += reversed(_lined_up(path, before, after, marks))
            case _:
                yield from _change(path, before, after)


def _lined_up(
    path: _Path, old: list[Any], new: list[Any], marks: dict[int, int]
) -> list[tuple[_Path, Any, Any]]:
    """The elements of two lists in pairs: those that are equal at both ends are left out where the
    lengths differ, else each is compared with the one in its place."""
    start, shorter = 0, min(len(old), len(new))
    end = 0
    if len(old) != len(new):
        while start < shorter and _mark(old[start], marks) == _mark(new[start], marks):
            start += 1
        while end < shorter - start and _mark(old[-1 - end], marks) == _mark(new[-1 - end], marks):
            end += 1
    both = range(start, shorter - end)
    pairs: list[tuple[_Path, Any, Any]] = [((path, at), old[at], new[at]) for at in both]
    pairs += [((path, at), old[at], ABSENT) for at in range(shorter - end, len(old) - end)]
    pairs += [((path, at), ABSENT, new[at]) for at in range(shorter - end, len(new) - end)]
    return pairs


def _marks(value: Any) -> dict[int, int]:
    """A number for each list and object in `value`, by identity: equal ones have the same."""
    order, marks = [value], dict[int, int]()
    for value_ in order:  # grows while it is read: what contains comes before what it contains
        order += [item for item in _items(value_) if isinstance(item, dict | list)]
    for value_ in reversed(order):
        match value_:
            case dict():
                marks[id(value_)] = hash(
                    frozenset((n, _mark(item, marks)) for n, item in value_.items())
                )
            case list():
                marks[id(value_)] = hash(("list", *(_mark(item, marks) for item in value_)))
    return marks


def _mark(value: Any, marks: dict[int, int]) -> int:
    if isinstance(value, dict | list):
        return marks[id(value)]
    return hash((_type(value), value))


def _change(path: _Path, old: Any, new: Any) -> Iterator[JsonChange]:
    if old is ABSENT:
        yield JsonChange(_pointer(path), "added", "", _written(new), ("", _type(new)))
    elif new is ABSENT:
        yield JsonChange(_pointer(path), "removed", _written(old), "", (_type(old), ""))
    elif _type(old) != _type(new):
        types = (_type(old), _type(new))
        yield JsonChange(_pointer(path), "type", _written(old), _written(new), types)
    elif old != new:
        yield JsonChange(_pointer(path), "changed", _written(old), _written(new))


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
    return "object"


def _written(value: Any) -> str:
    """As JSON text; at most DEEPEST deep, so it may recurse."""
    match value:
        case Decimal():
            return str(value)
        case dict():
            inner = (f"{json.dumps(n, ensure_ascii=False)}: {_written(value[n])}" for n in value)
            return f"{{{', '.join(inner)}}}"
        case list():
            return f"[{', '.join(_written(item) for item in value)}]"
    return json.dumps(value, ensure_ascii=False)


def _pointer(path: _Path) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(str(step).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{step}" for step in reversed(steps))


# Two texts --------------------------------------------------------------------------------------

STEPS = 200
MOST_PIECES = 3_000
"""Words, else lines, that are compared one by one, of both texts together."""

LONG = 200_000
"""Characters of two texts beyond which words are not looked at."""


@dataclass(frozen=True)
class TextPiece:
    how: Literal["same", "removed", "added"]
    text: str


def text_changes(old: str, new: str) -> tuple[TextPiece, ...]:
    """How `old` became `new`: the pieces that are same or removed are `old`, the others `new`."""
    if old == new:
        return (TextPiece("same", old),) if old else ()
    start, end = _ends(old, new)
    head, tail = old[:start], old[len(old) - end :]
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    told = _by(_words, before, after) if len(before) + len(after) <= LONG else None
    told = told if told is not None else _by(_lines, before, after)
    told = told if told is not None else _whole(before, after)
    return tuple(_joined([TextPiece("same", head), *told, TextPiece("same", tail)]))


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


def _equal(left: str, right: str) -> int:
    """How many characters of both beginnings are equal."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _whole(old: str, new: str) -> list[TextPiece]:
    return [TextPiece("removed", old), TextPiece("added", new)]


def _by(cut: Callable[[str], list[str]], old: str, new: str) -> list[TextPiece] | None:
    """The difference by the pieces of `cut`; None where there are too many to be compared."""
    before, after = cut(old), cut(new)
    return _way(before, after) if len(before) + len(after) <= MOST_PIECES else None


def _way(old: Sequence[str], new: Sequence[str]) -> list[TextPiece] | None:
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


def _back(trace: list[dict[int, int]], old: Sequence[str], new: Sequence[str]) -> list[TextPiece]:
    x, y = len(old), len(new)
    told: list[TextPiece] = []
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
            told.append(TextPiece("same", old[x]))
        if steps:
            told.append(
                TextPiece("added", new[from_y]) if down else TextPiece("removed", old[from_x])
            )
            x, y = from_x, from_y
    told.reverse()
    return told


def _joined(pieces: Sequence[TextPiece]) -> Iterator[TextPiece]:
    """Neighbours of one kind as one; between two that are same, what was removed comes first."""
    same: list[str] = []
    gone: list[str] = []
    came: list[str] = []
    for piece in [*pieces, TextPiece("same", "")]:
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


def _flushed(same: list[str], gone: list[str], came: list[str]) -> Iterator[TextPiece]:
    if text := "".join(same):
        yield TextPiece("same", text)
    if text := "".join(gone):
        yield TextPiece("removed", text)
    if text := "".join(came):
        yield TextPiece("added", text)
