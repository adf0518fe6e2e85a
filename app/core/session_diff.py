"""Two sessions lined up: what they have in common, and prompt by prompt, turn by turn, call by
call what differs.

Theory of operation. What a fork took over is set aside first. The rest is cut into rounds (a prompt
and its turns); rounds are paired in order, then the turns of each pair, by the pairing that says
most (`best`), within a band, so that long sessions cost what is in them. The calls of a pair of
turns are matched whatever their order: those that are equal first, then those of one name in order;
what is left over is looked for in the other turns of the round. Every call of both sides stands in
exactly one pair. Which side is which changes nothing but the words: ties are broken by content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from app.core.call_pairs import CallPair, Keyed, elsewhere, keyed, matched
from app.core.sides import Answered, Asked, Item, Made, Side

Way = Literal["missing", "extra", "text", "images", "end"]

CELLS = 60_000
"""Pairs that `best` weighs where two lists are long, but for their length."""


@dataclass(frozen=True)
class Row:
    """Two prompts or two turns, or one with None beside it. Calls stand with their left turn, or
    with the right one where there is none on the left. `settings` are what else was asked
    differently: `model`, `profile`, `system prompt`, `tools`, `tool choice`, `parameters`."""

    left: Item | None
    right: Item | None
    ways: tuple[Way, ...] = ()
    calls: tuple[CallPair, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.ways and not self.settings and not any(pair.ways for pair in self.calls)


@dataclass(frozen=True)
class Counts:
    """How many calls are missing, extra, with other arguments, results, in another order or turn;
    how many turns and prompts are missing or extra; how many texts, ends and prompts differ."""

    missing: int = 0
    extra: int = 0
    arguments: int = 0
    results: int = 0
    order: int = 0
    turn: int = 0
    missing_turns: int = 0
    extra_turns: int = 0
    texts: int = 0
    ends: int = 0
    prompts: int = 0
    missing_prompts: int = 0
    extra_prompts: int = 0


@dataclass(frozen=True)
class Alignment:
    """`common` items stand at the beginning of both, copied by a fork; `rows` are the others."""

    left: Side
    right: Side
    common: int
    rows: tuple[Row, ...]
    counts: Counts


def align(left: Side, right: Side, most: int | None = None) -> Alignment:
    """`right` as it differs from `left`; of what they have in common, `most` is set aside."""
    common = in_common(left, right)
    common = common if most is None else min(common, most)
    before, after = _rounds(left.items[common:]), _rounds(right.items[common:])
    swapped = [one.key for one in after] < [one.key for one in before]
    rows: list[Row] = []
    for one, other in _joined(before, after, _round_score, swapped):
        rows += _round_rows(one, other, swapped)
    return Alignment(left, right, common, tuple(rows), _counts(rows))


# What a fork took over -------------------------------------------------------------------------


def in_common(left: Side, right: Side) -> int:
    """How many items at the beginning are the same ones: where a fork says so, and they are."""
    ours, theirs = dict(reversed(left.lineage)), dict(reversed(right.lineage))
    seq = max((min(ours[key], theirs[key]) for key in ours.keys() & theirs.keys()), default=0)
    count = 0
    for one, other in zip(left.items, right.items, strict=False):
        if one.seq > seq or one != other:
            break
        count += 1
    return count


# Pairs in order --------------------------------------------------------------------------------


def best(n: int, m: int, score: Callable[[int, int], int]) -> list[tuple[int, int]]:
    """Pairs (i, j), both rising, whose scores sum up to the most that is found near the diagonal.
    What scores 0 is no pair; of equal sums it is that of the earlier pairs."""
    if not n or not m:
        return []
    width = max(CELLS // (2 * n), m // n + 1, 16)
    above: dict[int, int] = {}
    steps: list[dict[int, str]] = []
    for i in range(n):
        here: dict[int, int] = {}
        step: dict[int, str] = {}
        centre = i * m // n
        for j in range(max(0, centre - width), min(m, centre + width + 1)):
            up, back = above.get(j, 0), here.get(j - 1, 0)
            points = score(i, j)
            both = above.get(j - 1, 0) + points if points else -1
            here[j] = max(up, back, both)
            step[j] = "back" if back == here[j] else "up" if up == here[j] else "both"
        above = here
        steps.append(step)
    return _traced(steps, m)


def _traced(steps: Sequence[Mapping[int, str]], m: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    i, j = len(steps) - 1, m - 1
    while i >= 0 and j >= 0:
        match steps[i].get(j, "up" if j < min(steps[i]) else "back"):
            case "both":
                pairs.append((i, j))
                i, j = i - 1, j - 1
            case "up":
                i -= 1
            case _:
                j -= 1
    pairs.reverse()
    return pairs


@dataclass(frozen=True)
class _Turn:
    turn: Answered
    calls: tuple[Keyed, ...]
    keys: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class _Round:
    """A prompt, None where only its turns are left, and its turns."""

    prompt: Asked | None
    turns: tuple[_Turn, ...]
    key: tuple[str, ...]


T = TypeVar("T", _Round, _Turn)


def _joined(
    left: Sequence[T], right: Sequence[T], score: Callable[[T, T], int], swapped: bool
) -> Iterator[tuple[T | None, T | None]]:
    """All of both in order, in pairs where they belong together; between two pairs the left ones
    come first."""
    start, shorter = 0, min(len(left), len(right))
    while start < shorter and left[start].key == right[start].key:
        start += 1
    one, other = left[start:], right[start:]
    pairs: list[tuple[int, int]] = _in_order(one, other, score, swapped)
    yield from zip(left[:start], right[:start], strict=True)
    i = j = 0
    for next_i, next_j in [*pairs, (len(one), len(other))]:
        yield from ((item, None) for item in one[i:next_i])
        yield from ((None, item) for item in other[j:next_j])
        if next_i < len(one):
            yield one[next_i], other[next_j]
        i, j = next_i + 1, next_j + 1


def _in_order(
    left: Sequence[T], right: Sequence[T], score: Callable[[T, T], int], swapped: bool
) -> list[tuple[int, int]]:
    """Their best pairs, the same ones whichever side is which."""
    if not swapped:
        return best(len(left), len(right), lambda i, j: score(left[i], right[j]))
    found = best(len(right), len(left), lambda i, j: score(left[j], right[i]))
    return [(i, j) for j, i in found]


def _rounds(items: Sequence[Item]) -> list[_Round]:
    rounds: list[tuple[Asked | None, list[_Turn]]] = []
    for item in items:
        match item:
            case Asked():
                rounds.append((item, []))
            case Answered():
                if not rounds:
                    rounds.append((None, []))
                rounds[-1][1].append(_keyed(item))
    return [
        _Round(
            prompt,
            tuple(turns),
            (
                prompt.text if prompt is not None else "",
                *(step for turn in turns for step in turn.key),
            ),
        )
        for prompt, turns in rounds
    ]


def _keyed(turn: Answered) -> _Turn:
    calls = tuple(keyed(call) for call in turn.calls)
    keys = tuple(key for _, key in calls)
    return _Turn(turn, calls, keys, (turn.text, turn.ended, *keys))


def _round_score(one: _Round, other: _Round) -> int:
    if one.prompt is None or other.prompt is None:
        return 8 if one.prompt is other.prompt else 0
    if one.prompt.text == other.prompt.text:
        return 8
    return 3 if _names(one.turns) == _names(other.turns) else 2


def _names(turns: Sequence[_Turn]) -> list[str]:
    return [call.name for turn in turns for call in turn.turn.calls]


def _turn_score(one: _Turn, other: _Turn) -> int:
    """How much two turns look like the same step."""
    if one.keys == other.keys:
        if not one.keys:
            return 9 if one.turn.text == other.turn.text else 4
        return 9
    ours, theirs = {c.name for c in one.turn.calls}, {c.name for c in other.turn.calls}
    if set(one.keys) & set(other.keys):
        return 7
    return 5 if ours == theirs else 3 if ours & theirs else 1


# Rounds, turns, calls --------------------------------------------------------------------------


def _round_rows(left: _Round | None, right: _Round | None, swapped: bool) -> list[Row]:
    rows: list[Row] = []
    prompts = (left.prompt if left else None), (right.prompt if right else None)
    if prompts != (None, None):
        rows.append(_prompt_row(*prompts))
    turns = (left.turns if left else ()), (right.turns if right else ())
    pairs = list(_joined(*turns, _turn_score, swapped))
    return rows + _turn_rows(pairs)


def _prompt_row(left: Asked | None, right: Asked | None) -> Row:
    if left is None or right is None:
        return Row(left, right, ("missing",) if left is not None else ("extra",))
    ways: list[Way] = ["text"] if left.text != right.text else []
    return Row(left, right, (*ways, *(("images",) if left.images != right.images else ())))


def _turn_rows(pairs: Sequence[tuple[_Turn | None, _Turn | None]]) -> list[Row]:
    """The turns of one round, and their calls: matched in their own pair, else in the round."""
    found: list[list[CallPair]] = []
    lefts: list[tuple[int, Made, str]] = []
    rights: list[tuple[int, Made, str]] = []
    for place, (one, other) in enumerate(pairs):
        pairs_here, left_over, right_over = matched(
            one.calls if one else (), other.calls if other else ()
        )
        found.append(pairs_here)
        lefts += [(place, *item) for item in left_over]
        rights += [(place, *item) for item in right_over]
    for place, pair in elsewhere(lefts, rights):
        found[place].append(pair)
    return [
        _turn_row(one.turn if one else None, other.turn if other else None, calls)
        for (one, other), calls in zip(pairs, found, strict=True)
    ]


def _turn_row(left: Answered | None, right: Answered | None, calls: list[CallPair]) -> Row:
    calls.sort(key=lambda pair: (pair.left is None, _index(pair.left or pair.right)))
    if left is None or right is None:
        return Row(left, right, ("missing",) if left is not None else ("extra",), tuple(calls))
    ways: list[Way] = []
    if left.text != right.text:
        ways.append("text")
    if left.ended != right.ended:
        ways.append("end")
    return Row(left, right, tuple(ways), tuple(calls), tuple(_settings(left, right)))


def _index(call: Made | None) -> int:
    assert call is not None
    return int(call.id.partition(".")[2])


def _settings(left: Answered, right: Answered) -> Iterator[str]:
    """What was asked differently, but for what was said."""
    if left.model != right.model:
        yield "model"
    one, other = left.settings, right.settings
    if one.profile != other.profile:
        yield "profile"
    if one.system != other.system:
        yield "system prompt"
    if one.tools != other.tools:
        yield "tools"
    if left.choice != right.choice:
        yield "tool choice"
    if (one.params, one.extra, one.stream) != (other.params, other.extra, other.stream):
        yield "parameters"


def _counts(rows: Sequence[Row]) -> Counts:
    ways = [way for row in rows for pair in row.calls for way in pair.ways]
    turns = [row for row in rows if isinstance(row.left or row.right, Answered)]
    prompts = [row for row in rows if isinstance(row.left or row.right, Asked)]
    return Counts(
        ways.count("missing"),
        ways.count("extra"),
        ways.count("arguments"),
        ways.count("result"),
        ways.count("order"),
        ways.count("turn"),
        sum("missing" in row.ways for row in turns),
        sum("extra" in row.ways for row in turns),
        sum("text" in row.ways for row in turns),
        sum("end" in row.ways for row in turns),
        sum("text" in row.ways or "images" in row.ways for row in prompts),
        sum("missing" in row.ways for row in prompts),
        sum("extra" in row.ways for row in prompts),
    )
