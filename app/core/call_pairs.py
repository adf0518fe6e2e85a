"""The calls of two sides in pairs: those that are equal in name and arguments first, whatever their
order, then those of one name in their order. Every call stands in exactly one pair.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.core.limits import spelled
from app.core.sides import Made
from app.core.tools import Content, ToolResult

CallWay = Literal["missing", "extra", "arguments", "result", "order", "turn"]
"""`turn`: it stands in another turn of the round. `missing` is on the left alone, `extra` on the
right."""


@dataclass(frozen=True)
class CallPair:
    left: Made | None
    right: Made | None
    ways: tuple[CallWay, ...] = ()


Keyed = tuple[Made, str]
"""A call with what is equal where its name and arguments are."""


def keyed(call: Made) -> Keyed:
    return call, f"{call.name}\n{spelled(call.arguments)}"


def matched(
    left: Sequence[Keyed], right: Sequence[Keyed]
) -> tuple[list[CallPair], list[Keyed], list[Keyed]]:
    """The pairs of two turns' calls, and what is left of both: equal ones first, then by name."""
    places, ours = _equal_places([key for _, key in left], [key for _, key in right])
    by_name: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    taken = set(ours)
    for i, (call, _) in enumerate(left):
        if i not in places:
            by_name[call.name][0].append(i)
    for j, (call, _) in enumerate(right):
        if j not in taken:
            by_name[call.name][1].append(j)
    for mine, others in by_name.values():
        places.update(zip(mine, others, strict=False))
    order = sorted(places.items())
    steady = _rising([j for _, j in order])
    pairs = [
        _pair(left[i], right[j], () if at in steady else ("order",))
        for at, (i, j) in enumerate(order)
    ]
    used = set(places.values())
    return (
        pairs,
        [keyed for i, keyed in enumerate(left) if i not in places],
        [keyed for j, keyed in enumerate(right) if j not in used],
    )


def _equal_places(left: Sequence[str], right: Sequence[str]) -> tuple[dict[int, int], list[int]]:
    """Equal keys in pairs, the first with the first: {place on the left: on the right}."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for j, key in enumerate(right):
        waiting[key].append(j)
    places = {i: waiting[key].popleft() for i, key in enumerate(left) if waiting[key]}
    return places, list(places.values())


def _rising(places: Sequence[int]) -> set[int]:
    """The indexes of a longest rising run of `places`: these kept their order."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, place in enumerate(places):
        rank = bisect_left(tails, place)
        before.append(ends[rank - 1] if rank else -1)
        tails[rank : rank + 1] = [place]
        ends[rank : rank + 1] = [at]
    steady: set[int] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        steady.add(at)
        at = before[at]
    return steady


def elsewhere(
    lefts: Sequence[tuple[int, Made, str]], rights: Sequence[tuple[int, Made, str]]
) -> Iterator[tuple[int, CallPair]]:
    """What no pair of turns has on both sides: the same call in another turn, or none."""
    places, used = _equal_places([key for _, _, key in lefts], [key for _, _, key in rights])
    for i, (place, call, key) in enumerate(lefts):
        if i in places:
            _, other, _ = rights[places[i]]
            yield place, _pair((call, key), (other, key), ("turn",))
        else:
            yield place, CallPair(call, None, ("missing",))
    taken = set(used)
    for j, (place, call, _) in enumerate(rights):
        if j not in taken:
            yield place, CallPair(None, call, ("extra",))


def _pair(left: Keyed, right: Keyed, ways: tuple[CallWay, ...]) -> CallPair:
    (one, key), (other, other_key) = left, right
    told: list[CallWay] = [*ways]
    if key != other_key:
        told.append("arguments")
    if one.status != other.status or not _same_result(one.result, other.result):
        told.append("result")
    return CallPair(one, other, tuple(told))


def _same_result(one: ToolResult | None, other: ToolResult | None) -> bool:
    """Equal in what the model reads: JSON by its values, all else to the letter."""
    if one is None or other is None or one == other:
        return one is other or one == other
    if replace(one, content=()) != replace(other, content=()):
        return False
    texts, images = (one.text, other.text), [_images(one), _images(other)]
    return images[0] == images[1] and all(texts) and spelled(texts[0]) == spelled(texts[1])


def _images(result: ToolResult) -> list[Content]:
    return [piece for piece in result.content if piece.type == "image"]
