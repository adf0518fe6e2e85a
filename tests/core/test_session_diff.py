"""Two sessions lined up: each kind of difference, and what holds for any two of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from playground.core import session_diff as module
from playground.core.events import Logged, PromptAdded, RequestSent, SessionForked
from playground.core.reducer import fold, fork_prefix
from playground.core.session_diff import (
    Alignment,
    Counts,
    DiffPrompt,
    DiffTurn,
    Side,
    align,
    best_pairs,
    common_count,
    side,
)
from tests.core.sides import Turns, round_log, sided
from tests.factories import Log
from tests.tables import rest_slow

A, B, C = ("look_up", {"id": 1}), ("add_event", {"title": "x"}), ("look_up", {"id": 2})

KINDS: Sequence[tuple[Sequence[Turns], Sequence[Turns], Counts]] = (
    ([[A], "Done."], [[A], "Done."], Counts()),
    ([[A, B]], [[A]], Counts(missing=1)),
    ([[A]], [[A, B]], Counts(extra=1)),
    ([[A]], [[C]], Counts(arguments=1)),
    ([[("t", '{"a": 1}')]], [[("t", '{ "a":1.0 }')]], Counts()),
    ([[("t", {"a": 1})]], [[("t", {"a": "1"})]], Counts(arguments=1)),
    ([[("t", '{"a": ')]], [[("t", '{"a":')]], Counts(arguments=1)),
    ([[A, B]], [[B, A]], Counts(order=1)),
    ([[A, C, B]], [[B, A, C]], Counts(order=1)),
    ([[A]], [[(*A, "12 degrees")]], Counts(results=1)),
    ([[(*A, '{"n": 1}')]], [[(*A, '{"n":1.0}')]], Counts()),
    ([[A, B], "x"], [[A], [B], "x"], Counts(turn=1, extra_turns=1)),
    ([[A], [B], "x"], [[A], "x"], Counts(missing=1, missing_turns=1)),
    ([[A], "Done."], [[A], "Done, too."], Counts(texts=1)),
    ([[A], "Done."], [[B], "Done."], Counts(missing=1, extra=1)),
    ([[A], [A], [B], "x"], [[A], [B], "x"], Counts(missing=1, missing_turns=1)),
    (["x"], [], Counts(missing_turns=1)),
)


@pytest.mark.parametrize(("left", "right", "wanted"), KINDS)
def test_each_kind(left: Sequence[Turns], right: Sequence[Turns], wanted: Counts) -> None:
    alignment = align(sided(*left), sided(*right, id="other"))
    assert alignment.counts == wanted
    assert all(row.equal for row in alignment.rows) == (wanted == Counts())
    holds(alignment)
    assert align(alignment.right, alignment.left).counts == turned(wanted)


def turned(counts: Counts) -> Counts:
    """What is missing is extra from the other side."""
    return replace(
        counts,
        missing=counts.extra,
        extra=counts.missing,
        missing_turns=counts.extra_turns,
        extra_turns=counts.missing_turns,
        missing_prompts=counts.extra_prompts,
        extra_prompts=counts.missing_prompts,
    )


def holds(alignment: Alignment) -> None:
    """Every item and every call of both sides stands in exactly one place, items in order."""
    for name, aligned in (("left", alignment.left), ("right", alignment.right)):
        rest = aligned.items[alignment.common :]
        items = [getattr(row, name) for row in alignment.rows if getattr(row, name) is not None]
        assert items == list(rest)
        calls = [getattr(pair, name) for row in alignment.rows for pair in row.calls]
        ids = [call.id for call in calls if call is not None]
        wanted = [call.id for item in rest if isinstance(item, DiffTurn) for call in item.calls]
        assert sorted(ids) == sorted(wanted)


def test_prompts_are_paired_before_turns() -> None:
    left = round_log("b", prompt="Two", log=round_log([A], "a", prompt="One")).session()
    right = round_log("b", prompt="Two").session("t")
    alignment = align(side(left), side(right))
    assert alignment.counts == Counts(missing=1, missing_turns=2, missing_prompts=1)
    (pair,) = [row for row in alignment.rows if isinstance(row.left, DiffPrompt) and row.right]
    assert (pair.left.text, pair.ways) == ("Two", ())  # type: ignore[union-attr]


def test_how_a_turn_ended_and_was_asked() -> None:
    def ended_side(reason: str, **sent: object) -> Side:
        return side(
            Log().start().prompt().request(**sent).part(0, "text", "x").end(reason).session()
        )

    alignment = align(ended_side("stop"), ended_side("length", model="other-1"))
    row = alignment.rows[-1]
    assert (row.ways, row.settings, alignment.counts) == (("end",), ("model",), Counts(ends=1))


def test_of_equally_good_pairs_both_sides_choose_the_same() -> None:
    side, other = sided([C], "x", [B, C, A]), sided("x", [], "x", id="other")
    assert align(other, side).counts == turned(align(side, other).counts)


def random_turns(chance: random.Random) -> list[Turns]:
    return [
        chance.choice(["x", "y"])
        if chance.random() < 0.3
        else [chance.choice([A, B, C]) for _ in range(chance.randrange(4))]
        for _ in range(chance.randrange(5))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_any_two(seed: int) -> None:
    chance = random.Random(seed)
    item, other = (
        side(
            round_log(
                *random_turns(chance),
                prompt="B",
                log=round_log(*random_turns(chance), "z", prompt="A"),
            ).session(name)
        )
        for name in ("one", "other")
    )
    alignment = align(item, other)
    holds(alignment)
    assert align(other, item).counts == turned(alignment.counts)
    assert align(item, replace(item, id="again", lineage=())).counts == Counts()


def forked(parent: Log, seq: int, name: str, *, other_text: str = "") -> Log:
    """The log of a fork; with `other_text` what it says it took over is not the parent's."""
    result = fork_prefix(parent.events, "parent", seq)
    events = [event for event in parent.events if event.seq <= result.seq]
    turns = sum(isinstance(event.event, RequestSent) for event in events)
    log = Log(events, events[-1].at_ms, turns=turns)
    log.add(result.fork_event())
    if other_text:
        place = next(at for at, logged in enumerate(events) if logged.seq == 2)
        events[place] = replace(events[place], event=PromptAdded(other_text))
    return log


def test_what_a_fork_took_over_is_in_common() -> None:
    parent = round_log("b", prompt="Two", log=round_log([A], "a", prompt="One"))
    ours = side(parent.session("parent"))
    at = next(item.seq for item in ours.items if isinstance(item, DiffPrompt) and item.number == 2)
    child = side(
        round_log("c", prompt="Else", log=forked(parent, at - 1, "child")).session("child")
    )
    assert common_count(ours, child) == common_count(child, ours) == 3
    alignment = align(ours, child)
    assert (alignment.common, alignment.counts) == (3, Counts(prompts=1, texts=1))
    assert align(ours, child, 1).common == 1
    sibling = side(round_log("d", prompt="X", log=forked(parent, at - 1, "b")).session("sibling"))
    assert common_count(child, sibling) == 3
    grandchild = Log(list(child_events(parent, at)), parent.now_ms, turns=2)
    grandchild.add(SessionForked("child", grandchild.events[-1].seq))
    assert common_count(side(grandchild.session("grandchild")), sibling) == 3
    assert common_count(ours, sided([A], "a")) == 0


def child_events(parent: Log, at: int) -> Sequence[Logged]:
    return forked(parent, at - 1, "child").events


def test_a_fork_that_lies_about_its_beginning_has_nothing_in_common() -> None:
    parent = round_log([A], "a", prompt="One")
    liar = forked(parent, parent.events[-1].seq, "liar", other_text="Another prompt.")
    alignment = align(side(parent.session("parent")), side(fold("liar", liar.events)))
    assert (alignment.common, alignment.counts) == (0, Counts(prompts=1))


@pytest.mark.parametrize("shape", rest_slow(["moved", "other", "unlike"]))
def test_long_sessions_cost_what_is_in_them(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: dict[str, Callable[[int], Turns]] = {
        "moved": lambda n: [("t", {"n": n + 40})],
        "other": lambda n: [("t", {"n": -n - 1})],
        "unlike": lambda n: [("u", {"n": n})],
    }
    left = sided(*([("t", {"n": n})] for n in range(500)))
    right = sided(*(shapes[shape](n) for n in range(500)), prompt="Else", id="other")
    weighed = 0
    score = module._turn_score

    def count_scores(item: object, two: object) -> int:
        nonlocal weighed
        weighed += 1
        return score(item, two)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_turn_score", count_scores)
    alignment = align(left, right)
    assert weighed <= 3 * module.CELLS
    holds(alignment)
    wanted = {
        "moved": Counts(prompts=1, missing=40, extra=40, missing_turns=40, extra_turns=40),
        "other": Counts(prompts=1, arguments=500),
        "unlike": Counts(prompts=1, missing=500, extra=500),
    }
    assert alignment.counts == wanted[shape]


@pytest.mark.parametrize(("n", "m"), [(0, 5), (5, 0), (1, 3000), (3000, 1), (40, 2000)])
def test_lists_of_very_different_lengths_are_paired_in_order(n: int, m: int) -> None:
    pairs = best_pairs(n, m, lambda i, j: 1)
    assert len(pairs) == min(n, m)
    assert pairs == sorted(pairs)
