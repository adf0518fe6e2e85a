"""Aligns two sessions: their common beginning, and the differences by prompt, turn and call.

Theory of operation. The part that a fork copied is skipped first. The rest is split into rounds (a
prompt and its turns); rounds are paired in order, then the turns of each pair, by the pairing with
the highest score (`best`), within a band, so that the cost for long sessions is proportional to
their length. The calls of paired turns are matched in any order: equal ones first, then those of
one name in order; the rest is matched across the other turns of the round. Every call of both sides
is in exactly one pair. Swapping the sides changes only the words: ties are broken by content.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import ClassVar, Literal, TypeVar

from playground.core.arguments import canonical_text
from playground.core.run_limits import turn_busy_ms, turn_cost, turn_usage
from playground.core.session import Call, Prompt, Session, SessionState, Turn
from playground.core.settings import Settings, model_of
from playground.core.tools import Content, ToolChoice, ToolResult
from playground.core.value_diff import JsonChange, json_changes

# A session prepared for comparison ----------------------------------------------------------------


DiffWay = Literal["missing", "extra", "text", "images", "end"]

CELLS = 60_000
"""Cells that `best` evaluates for long lists, apart from their length."""

CallWay = Literal["missing", "extra", "arguments", "result", "order", "turn"]
"""`turn`: it is in another turn of the round. `missing`: only on the left, `extra`: only on the
right."""


@dataclass(frozen=True)
class Measure:
    """Resource use: `busy_ms` of work (overlaps count once), tokens `read` and `written`, `cost` in
    US dollars. The sums exclude `uncounted` and `unpriced` turns, whose use is unknown: if there
    are any, the sums are too low."""

    turns: int = 0
    calls: int = 0
    busy_ms: int = 0
    read: int = 0
    written: int = 0
    cost: float = 0.0
    uncounted: int = 0
    unpriced: int = 0


@dataclass(frozen=True)
class DiffCall:
    """A call. `arguments` is the text that ran or would have; `edited`: by a user."""

    id: str
    turn: int
    name: str
    arguments: str
    edited: bool
    status: str
    denied: bool
    result: ToolResult | None


@dataclass(frozen=True)
class DiffPrompt:
    """A prompt."""

    kind: ClassVar[Literal["prompt"]] = "prompt"
    calls: ClassVar[tuple[DiffCall, ...]] = ()
    number: int
    seq: int
    text: str
    images: tuple[Content, ...] = ()


@dataclass(frozen=True)
class DiffTurn:
    """A turn. `ended` is its finish reason, `failed`, or "" while it is open; `error` is the
    failure as a sentence. `settings` and `choice` are those of its request."""

    kind: ClassVar[Literal["turn"]] = "turn"
    number: int
    seq: int
    model: str
    settings: Settings
    choice: ToolChoice
    text: str
    ended: str
    raw_reason: str
    error: str
    calls: tuple[DiffCall, ...]
    took: Measure


DiffItem = DiffPrompt | DiffTurn


@dataclass(frozen=True)
class Side:
    """One session: its history, and its total use, including that of `dropped` turns, which are not
    in the history. Time is that of models and tools, not the user's. `lineage` are (session, seq):
    the log up to `seq` is that of `session`, beginning with its own id."""

    id: str
    title: str
    state: SessionState
    model: str
    items: tuple[DiffItem, ...]
    took: Measure
    dropped: int = 0
    lineage: tuple[tuple[str, int], ...] = field(default=())
    profile: str = ""


KeyedCall = tuple[DiffCall, str]
"""A call with a key that is equal for equal name and arguments."""


def side(session: Session, title: str = "") -> Side:
    """`session` in its current state."""
    in_history = [item for item in session.items if isinstance(item, Prompt) or not item.dropped]
    settings = session.settings
    return Side(
        session.id,
        title=title,
        state=session.state,
        model=model_of(settings) if settings is not None else "",
        items=tuple(
            _diff_prompt(item) if isinstance(item, Prompt) else _diff_turn(item)
            for item in in_history
        ),
        took=total(_measure_turn(turn) for turn in session.turns),
        dropped=sum(turn.dropped for turn in session.turns),
        lineage=tuple(_lineage(session)),
        profile=settings.profile.name if settings is not None else "",
    )


def total(measures: Iterable[Measure]) -> Measure:
    """The sum of the measures."""
    columns = zip(*map(astuple, measures), strict=True)
    return Measure(*map(sum, columns))


def _lineage(session: Session) -> Iterator[tuple[str, int]]:
    yield session.id, session.seq
    for _, event in reversed(session.forks):
        yield event.parent, event.parent_seq


def _diff_prompt(prompt: Prompt) -> DiffPrompt:
    return DiffPrompt(prompt.number, prompt.seq, prompt.text, prompt.images)


def _diff_turn(turn: Turn) -> DiffTurn:
    end, failure = turn.end, turn.failure
    closed = end or failure
    return DiffTurn(
        turn.number,
        seq=turn.seq,
        model=turn.request.model or model_of(turn.settings),
        settings=turn.settings,
        choice=turn.request.choice,
        text=turn.text,
        ended=end.reason if end is not None else "failed" if failure is not None else "",
        raw_reason=closed.raw_reason if closed is not None else "",
        error=failure.message if failure is not None else "",
        calls=tuple(_diff_call(call) for call in turn.calls),
        took=_measure_turn(turn),
    )


def _diff_call(call: Call) -> DiffCall:
    decided = call.decided
    edited = decided is not None and decided.arguments is not None
    denied = decided is not None and decided.decision == "deny"
    return DiffCall(
        call.id,
        turn=call.turn,
        name=call.name,
        arguments=call.arguments,
        edited=edited,
        status=call.status,
        denied=denied,
        result=call.result,
    )


def _measure_turn(turn: Turn) -> Measure:
    counted = None if turn.open else turn_usage(turn)
    cost = None if turn.open else turn_cost(turn)
    read, written = counted or (0, 0)
    return Measure(
        turns=1,
        calls=len(turn.calls),
        busy_ms=turn_busy_ms(turn),
        read=read,
        written=written,
        cost=cost or 0.0,
        uncounted=int(counted is None),
        unpriced=int(cost is None),
    )


# Alignment of two sessions ------------------------------------------------------------------------


@dataclass(frozen=True)
class DiffRow:
    """A pair of prompts or of turns; one side may be None. Calls are listed at their left turn, or
    at the right one if there is no left. `settings` are further differences of the request:
    `model`, `profile`, `system prompt`, `tools`, `tool choice`, `parameters`."""

    left: DiffItem | None
    right: DiffItem | None
    ways: tuple[DiffWay, ...] = ()
    calls: tuple[CallPair, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def item(self) -> DiffItem:
        """The left item, else the right one."""
        item = self.left or self.right
        assert item is not None
        return item

    @property
    def equal(self) -> bool:
        return not self.ways and not self.settings and not any(pair.ways for pair in self.calls)


@dataclass(frozen=True)
class Counts:
    """Counts of calls that are missing, extra, or differ in arguments, results, order or turn; of
    missing or extra turns and prompts; and of differing texts, ends and prompts."""

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
    """`common` items are equal at the beginning of both, copied by a fork; `rows` the others."""

    left: Side
    right: Side
    common: int
    rows: tuple[DiffRow, ...]
    counts: Counts


def align(left: Side, right: Side, most: int | None = None) -> Alignment:
    """Compares `right` with `left`; skips at most `most` common items."""
    common = common_count(left, right)
    common = common if most is None else min(common, most)
    before, after = _rounds(left.items[common:]), _rounds(right.items[common:])
    swapped = [row.key for row in after] < [row.key for row in before]
    rows: list[DiffRow] = []
    for left_turn, right_turn in _align_items(before, after, _round_score, swapped):
        rows += _round_rows(left_turn, right_turn, swapped)
    return Alignment(left, right, common, tuple(rows), _counts(rows))


# The part copied by a fork ----------------------------------------------------------------------


def common_count(left: Side, right: Side) -> int:
    """How many items at the beginning are common: copied by a fork, and equal."""
    ours, theirs = dict(reversed(left.lineage)), dict(reversed(right.lineage))
    seq = max((min(ours[key], theirs[key]) for key in ours.keys() & theirs.keys()), default=0)
    count = 0
    for left_item, right_item in zip(left.items, right.items, strict=False):
        if left_item.seq > seq or left_item != right_item:
            break
        count += 1
    return count


# Pairs in order --------------------------------------------------------------------------------


def best_pairs(n: int, m: int, score: Callable[[int, int], int]) -> list[tuple[int, int]]:
    """Pairs (i, j), both increasing, with the maximum total score near the diagonal. A score of 0
    is not a pair; among equal totals, earlier pairs win."""
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
    return _trace_pairs(steps, m)


def _trace_pairs(steps: Sequence[Mapping[int, str]], m: int) -> list[tuple[int, int]]:
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
    turn: DiffTurn
    calls: tuple[KeyedCall, ...]
    keys: tuple[str, ...]
    key: tuple[str, ...]


@dataclass(frozen=True)
class _Round:
    """A prompt, None for turns without one, and its turns."""

    prompt: DiffPrompt | None
    turns: tuple[_Turn, ...]
    key: tuple[str, ...]


T = TypeVar("T", _Round, _Turn)


def _align_items(
    left: Sequence[T], right: Sequence[T], score: Callable[[T, T], int], swapped: bool
) -> Iterator[tuple[T | None, T | None]]:
    """All items of both in order, paired if they match; between two pairs the left ones come
    first."""
    start, shorter = 0, min(len(left), len(right))
    while start < shorter and left[start].key == right[start].key:
        start += 1
    left_rest, right_rest = left[start:], right[start:]
    pairs: list[tuple[int, int]] = _ordered_pairs(left_rest, right_rest, score, swapped)
    yield from zip(left[:start], right[:start], strict=True)
    i = j = 0
    for next_i, next_j in [*pairs, (len(left_rest), len(right_rest))]:
        yield from ((item, None) for item in left_rest[i:next_i])
        yield from ((None, item) for item in right_rest[j:next_j])
        if next_i < len(left_rest):
            yield left_rest[next_i], right_rest[next_j]
        i, j = next_i + 1, next_j + 1


def _ordered_pairs(
    left: Sequence[T], right: Sequence[T], score: Callable[[T, T], int], swapped: bool
) -> list[tuple[int, int]]:
    """The best pairs, independent of which side is left."""
    if not swapped:
        return best_pairs(len(left), len(right), lambda i, j: score(left[i], right[j]))
    pairs = best_pairs(len(right), len(left), lambda i, j: score(left[j], right[i]))
    return [(i, j) for j, i in pairs]


def _rounds(items: Sequence[DiffItem]) -> list[_Round]:
    rounds: list[tuple[DiffPrompt | None, list[_Turn]]] = []
    for item in items:
        match item:
            case DiffPrompt():
                rounds.append((item, []))
            case DiffTurn():
                if not rounds:
                    rounds.append((None, []))
                rounds[-1][1].append(_key_turn(item))
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


def _key_turn(turn: DiffTurn) -> _Turn:
    calls = tuple(key_call(call) for call in turn.calls)
    keys = tuple(key for _, key in calls)
    return _Turn(turn, calls, keys, (turn.text, turn.ended, *keys))


def _round_score(left: _Round, other: _Round) -> int:
    if left.prompt is None or other.prompt is None:
        return 8 if left.prompt is other.prompt else 0
    if left.prompt.text == other.prompt.text:
        return 8
    return 3 if _names(left.turns) == _names(other.turns) else 2


def _names(turns: Sequence[_Turn]) -> list[str]:
    return [call.name for turn in turns for call in turn.turn.calls]


def _turn_score(left: _Turn, other: _Turn) -> int:
    """A score of how similar two turns are."""
    if left.keys == other.keys:
        if not left.keys:
            return 9 if left.turn.text == other.turn.text else 4
        return 9
    ours, theirs = {c.name for c in left.turn.calls}, {c.name for c in other.turn.calls}
    if set(left.keys) & set(other.keys):
        return 7
    return 5 if ours == theirs else 3 if ours & theirs else 1


# Rounds, turns, calls --------------------------------------------------------------------------


def _round_rows(left: _Round | None, right: _Round | None, swapped: bool) -> list[DiffRow]:
    rows: list[DiffRow] = []
    prompts = (left.prompt if left else None), (right.prompt if right else None)
    if prompts != (None, None):
        rows.append(_prompt_row(*prompts))
    turns = (left.turns if left else ()), (right.turns if right else ())
    pairs = list(_align_items(*turns, _turn_score, swapped))
    return rows + _turn_rows(pairs)


def _prompt_row(left: DiffPrompt | None, right: DiffPrompt | None) -> DiffRow:
    if left is None or right is None:
        return DiffRow(left, right, ("missing",) if left is not None else ("extra",))
    ways: list[DiffWay] = ["text"] if left.text != right.text else []
    return DiffRow(left, right, (*ways, *(("images",) if left.images != right.images else ())))


def _turn_rows(pairs: Sequence[tuple[_Turn | None, _Turn | None]]) -> list[DiffRow]:
    """The turns of one round with their calls, matched within their pair, else within the round."""
    calls_of_turns: list[list[CallPair]] = []
    lefts: list[tuple[int, DiffCall, str]] = []
    rights: list[tuple[int, DiffCall, str]] = []
    for place, (left_turn, right_turn) in enumerate(pairs):
        pairs_here, left_over, right_over = match_calls(
            left_turn.calls if left_turn else (), right_turn.calls if right_turn else ()
        )
        calls_of_turns.append(pairs_here)
        lefts += [(place, *item) for item in left_over]
        rights += [(place, *item) for item in right_over]
    for place, pair in pair_across_turns(lefts, rights):
        calls_of_turns[place].append(pair)
    return [
        _turn_row(left.turn if left else None, right.turn if right else None, calls)
        for (left, right), calls in zip(pairs, calls_of_turns, strict=True)
    ]


def _turn_row(left: DiffTurn | None, right: DiffTurn | None, calls: list[CallPair]) -> DiffRow:
    calls.sort(key=lambda pair: (pair.left is None, int(pair.call.id.partition(".")[2])))
    if left is None or right is None:
        return DiffRow(left, right, ("missing",) if left is not None else ("extra",), tuple(calls))
    ways: list[DiffWay] = []
    if left.text != right.text:
        ways.append("text")
    if left.ended != right.ended:
        ways.append("end")
    return DiffRow(left, right, tuple(ways), tuple(calls), tuple(_settings(left, right)))


def _settings(left: DiffTurn, right: DiffTurn) -> Iterator[str]:
    """The differences in the requests, except for the messages."""
    if left.model != right.model:
        yield "model"
    ours, other = left.settings, right.settings
    if ours.profile != other.profile:
        yield "profile"
    if ours.system != other.system:
        yield "system prompt"
    if ours.tools != other.tools:
        yield "tools"
    if left.choice != right.choice:
        yield "tool choice"
    if (ours.params, ours.extra, ours.stream) != (other.params, other.extra, other.stream):
        yield "parameters"


def _counts(rows: Sequence[DiffRow]) -> Counts:
    calls = Counter(way for row in rows for pair in row.calls for way in pair.ways)
    turns = Counter(way for row in rows if row.item.kind == "turn" for way in row.ways)
    prompts = [set(row.ways) for row in rows if row.item.kind == "prompt"]
    return Counts(
        missing=calls["missing"],
        extra=calls["extra"],
        arguments=calls["arguments"],
        results=calls["result"],
        order=calls["order"],
        turn=calls["turn"],
        missing_turns=turns["missing"],
        extra_turns=turns["extra"],
        texts=turns["text"],
        ends=turns["end"],
        prompts=sum(bool(ways & {"text", "images"}) for ways in prompts),
        missing_prompts=sum("missing" in ways for ways in prompts),
        extra_prompts=sum("extra" in ways for ways in prompts),
    )


# Pairs of the calls of two turns ------------------------------------------------------------------


@dataclass(frozen=True)
class CallPair:
    left: DiffCall | None
    right: DiffCall | None
    ways: tuple[CallWay, ...] = ()

    @property
    def call(self) -> DiffCall:
        """The left call, else the right one."""
        call = self.left or self.right
        assert call is not None
        return call

    @property
    def changes(self) -> tuple[JsonChange, ...] | None:
        """The differences of the arguments; None if there are none, or they are no JSON."""
        if self.left is None or self.right is None or "arguments" not in self.ways:
            return None
        return json_changes(self.left.arguments, self.right.arguments)


def key_call(call: DiffCall) -> KeyedCall:
    return call, f"{call.name}\n{canonical_text(call.arguments)}"


def match_calls(
    left: Sequence[KeyedCall], right: Sequence[KeyedCall]
) -> tuple[list[CallPair], list[KeyedCall], list[KeyedCall]]:
    """The pairs of two turns' calls, equal ones first, then by name, and the rest of both sides."""
    places, ours = _equal_places([key for _, key in left], [key for _, key in right])
    by_name: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    matched_before = set(ours)
    for i, (call, _) in enumerate(left):
        if i not in places:
            by_name[call.name][0].append(i)
    for j, (call, _) in enumerate(right):
        if j not in matched_before:
            by_name[call.name][1].append(j)
    for mine, others in by_name.values():
        places.update(zip(mine, others, strict=False))
    order = sorted(places.items())
    steady = _increasing_places([j for _, j in order])
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
    """Pairs of equal keys in order: {index on the left: index on the right}."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for j, key in enumerate(right):
        waiting[key].append(j)
    places = {i: waiting[key].popleft() for i, key in enumerate(left) if waiting[key]}
    return places, list(places.values())


def _increasing_places(places: Sequence[int]) -> set[int]:
    """The indexes of a longest increasing subsequence of `places`: these kept their order."""
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


def pair_across_turns(
    lefts: Sequence[tuple[int, DiffCall, str]], rights: Sequence[tuple[int, DiffCall, str]]
) -> Iterator[tuple[int, CallPair]]:
    """Pairs of unmatched calls across turns: the same call in another turn, or no partner."""
    places, used = _equal_places([key for _, _, key in lefts], [key for _, _, key in rights])
    for i, (place, call, key) in enumerate(lefts):
        if i in places:
            _, other, _ = rights[places[i]]
            yield place, _pair((call, key), (other, key), ("turn",))
        else:
            yield place, CallPair(call, None, ("missing",))
    matched_before = set(used)
    for j, (place, call, _) in enumerate(rights):
        if j not in matched_before:
            yield place, CallPair(None, call, ("extra",))


def _pair(left: KeyedCall, right: KeyedCall, ways: tuple[CallWay, ...]) -> CallPair:
    (left_call, left_key), (right_call, right_key) = left, right
    differences: list[CallWay] = [*ways]
    if left_key != right_key:
        differences.append("arguments")
    results = left_call.result, right_call.result
    if left_call.status != right_call.status or not _same_result(*results):
        differences.append("result")
    return CallPair(left_call, right_call, tuple(differences))


def _same_result(left: ToolResult | None, right: ToolResult | None) -> bool:
    """Whether the model reads the same: JSON compared by value, everything else exactly."""
    if left is None or right is None or left == right:
        return left is right or left == right
    if replace(left, content=()) != replace(right, content=()):
        return False
    texts, images = (left.text, right.text), [_images(left), _images(right)]
    return (
        images[0] == images[1]
        and all(texts)
        and canonical_text(texts[0]) == canonical_text(texts[1])
    )


def _images(result: ToolResult) -> list[Content]:
    return [piece for piece in result.content if piece.type == "image"]
