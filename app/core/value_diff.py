"""What differs between two values of JSON: a pointer, and what stood and stands there.

Two values are walked side by side once, without recursion, so a megabyte costs what reading it
costs. Arrays of other lengths are lined up at both ends, by what was counted up from their leaves
before. Knows no session, and no text but JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from app.core.arguments import ABSENT

How = Literal["added", "removed", "changed", "type"]
"""`type`: the same place holds another type of value, a number that became a text."""

DEEPEST = 64
"""No sound arguments are nested deeper; others are compared as text."""


@dataclass(frozen=True)
class Change:
    """At JSON pointer `pointer` stood `old` and stands `new`, as JSON text; "" where nothing does.
    The pointer of what was added is its place in the new value, else that in the old one.
    `types` are (old, new) in words where they differ: null, boolean, number, text, list, object."""

    pointer: str
    how: How
    old: str = ""
    new: str = ""
    types: tuple[str, str] = ("", "")


def json_changes(old: str, new: str) -> tuple[Change, ...] | None:
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
        level = [item for one in level for item in _items(one) if isinstance(item, dict | list)]
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


def _changes(old: Any, new: Any) -> Iterator[Change]:
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
    for one in order:  # grows while it is read: what contains comes before what it contains
        order += [item for item in _items(one) if isinstance(item, dict | list)]
    for one in reversed(order):
        match one:
            case dict():
                marks[id(one)] = hash(frozenset((n, _mark(item, marks)) for n, item in one.items()))
            case list():
                marks[id(one)] = hash(("list", *(_mark(item, marks) for item in one)))
    return marks


def _mark(value: Any, marks: dict[int, int]) -> int:
    if isinstance(value, dict | list):
        return marks[id(value)]
    return hash((_type(value), value))


def _change(path: _Path, old: Any, new: Any) -> Iterator[Change]:
    if old is ABSENT:
        yield Change(_pointer(path), "added", "", _written(new), ("", _type(new)))
    elif new is ABSENT:
        yield Change(_pointer(path), "removed", _written(old), "", (_type(old), ""))
    elif _type(old) != _type(new):
        types = (_type(old), _type(new))
        yield Change(_pointer(path), "type", _written(old), _written(new), types)
    elif old != new:
        yield Change(_pointer(path), "changed", _written(old), _written(new))


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
