"""Calls in pairs: equal ones first, whatever their order; many of them cost no square."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from playground.core.session_diff import (
    CallPair,
    DiffCall,
    key_call,
    match_calls,
    pair_across_turns,
)

Names = Sequence[tuple[str, str]]

CASES: Sequence[tuple[str, str, str]] = (
    ("a1 a2", "a1 a2", "0-0 1-1"),
    ("a1 a2", "a2 a1", "0-1 order | 1-0"),
    ("a1 a2 a3", "a9 a2", "0-0 arguments | 1-1 | 2-"),
    ("a1 b1", "b1", "0- | 1-0"),
    ("a1 a1", "a1", "0-0 | 1-"),
    ("a1", "b1", "0- | -0"),
    ("a1 b1 c1", "c1 a1 b1", "0-1 | 1-2 | 2-0 order"),
)


def diff_calls(*calls: tuple[str, str]) -> list[DiffCall]:
    return [
        DiffCall(
            f"1.{place}",
            turn=1,
            name=name,
            arguments=arguments,
            edited=False,
            status="done",
            denied=False,
            result=None,
        )
        for place, (name, arguments) in enumerate(calls)
    ]


def pairs(left: Names, right: Names) -> tuple[list[CallPair], list[str], list[str]]:
    call_pairs, ours, theirs = match_calls(
        [key_call(diff_call) for diff_call in diff_calls(*left)],
        [key_call(item) for item in diff_calls(*right)],
    )
    return call_pairs, [call.id for call, _ in ours], [call.id for call, _ in theirs]


@pytest.mark.parametrize(("left", "right", "wanted"), CASES)
def test_each_call_has_its_place(left: str, right: str, wanted: str) -> None:
    call_pairs, ours, theirs = pairs(*([(w[0], w[1]) for w in t.split()] for t in (left, right)))
    outputs = sorted(
        [
            *(
                f"{p.left.id[2:]}-{p.right.id[2:]} {' '.join(w for w in p.ways)}".strip()
                for p in call_pairs
                if p.left is not None and p.right is not None
            ),
            *(f"{our[2:]}-" for our in ours),
            *(f"-{their[2:]}" for their in theirs),
        ]
    )
    ends = wanted.replace("0-0 1-1", "0-0 | 1-1").split(" | ")
    stored_texts = [text.partition(" ")[0] for text in outputs]
    assert stored_texts == sorted(end.partition(" ")[0] for end in ends)
    words = sorted(text.partition(" ")[2] for text in outputs)
    assert words == sorted(end.partition(" ")[2] for end in ends)


def test_what_is_left_is_looked_for_in_other_turns() -> None:
    (diff_call, two), (same, else_) = (
        diff_calls(("a", "1"), ("b", "1")),
        diff_calls(("a", "1"), ("c", "1")),
    )
    lefts = [(0, *key_call(diff_call)), (0, *key_call(two))]
    rights = [(1, *key_call(same)), (2, *key_call(else_))]
    assert [(place, pair.ways) for place, pair in pair_across_turns(lefts, rights)] == [
        (0, ("turn",)),
        (0, ("missing",)),
        (2, ("extra",)),
    ]


def test_two_thousand_calls_in_another_order() -> None:
    calls = [("t", str(number)) for number in range(2_000)]
    mixed = list(calls)
    random.Random(5).shuffle(mixed)
    call_pairs, ours, theirs = pairs(calls, mixed)
    assert (len(call_pairs), ours, theirs) == (2_000, [], [])
    assert all(set(pair.ways) <= {"order"} for pair in call_pairs)
    assert 0 < sum(pair.ways == () for pair in call_pairs) < 200
