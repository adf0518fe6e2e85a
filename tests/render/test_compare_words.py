"""What a comparison says in words; what is unknown is never said as 0, and never compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from playground.core.session_diff import Measure, Side, align, side
from playground.web.compare_view import deltas, measures, summary
from tests.core.sides import sided
from tests.factories import Log

KNOWN = Measure(2, calls=1, busy_ms=1_000, read=1_000, written=200, cost=0.01)

DELTAS: Sequence[tuple[Measure, list[str]]] = (
    (KNOWN, []),
    (replace(KNOWN, busy_ms=2_200), ["+1.20 s"]),
    (replace(KNOWN, read=660), ["−340 tokens"]),
    (replace(KNOWN, cost=0.0125), ["+$0.0025"]),
    (replace(KNOWN, read=1, uncounted=1), []),
    (replace(KNOWN, cost=0.0, unpriced=1), []),
    (replace(KNOWN, busy_ms=0, written=0, cost=0.0), ["−1.00 s", "−200 tokens", "−$0.0100"]),
)

MEASURES: Sequence[tuple[Measure, list[str]]] = (
    (Measure(), ["0 turns", "0 calls"]),
    (KNOWN, ["2 turns", "1 call", "1.00 s at work", "1\u2009000 → 200 tokens", "$0.0100"]),
    (
        replace(KNOWN, uncounted=2, unpriced=2),
        ["2 turns", "1 call", "1.00 s at work", "tokens unknown", "cost unknown"],
    ),
    (
        replace(KNOWN, uncounted=1, unpriced=1),
        [
            *("2 turns", "1 call", "1.00 s at work"),
            *("1\u2009000 → 200 tokens, 1 turn unknown", "$0.0100, 1 turn unknown"),
        ],
    ),
    (replace(KNOWN, cost=0.00001), [*["2 turns", "1 call", "1.00 s at work"],
                                    "1\u2009000 → 200 tokens", "under $0.0001"]),
)  # fmt: skip


@pytest.mark.parametrize(("other", "wanted"), DELTAS)
def test_deltas(other: Measure, wanted: list[str]) -> None:
    assert deltas(KNOWN, other) == wanted


@pytest.mark.parametrize(("took", "wanted"), MEASURES)
def test_measures(took: Measure, wanted: list[str]) -> None:
    assert measures(took) == wanted


def test_a_summary_says_the_gravest_first() -> None:
    calls = [("t", {"n": n}) for n in range(4)]
    left, right = sided(calls, "a"), sided([calls[1], calls[0], ("t", {"n": 9})], "b", "c")
    assert summary(align(left, right))[:5] == [
        "1 call missing",
        "1 with different arguments",
        "1 out of order",
        "1 extra turn",
        "1 answer with different text",
    ]
    assert summary(align(left, left)) == ["no difference"]


def test_a_summary_says_what_was_asked_with() -> None:
    def side_with_model(model: str, text: str) -> Side:
        return side(
            Log().start().prompt().request(model=model).part(0, "text", text).end("stop").session()
        )

    a, b, c = side_with_model("a", "x"), side_with_model("b", "x"), side_with_model("b", "y")
    assert summary(align(a, b)) == ["the same answers", "different model"]
    assert summary(align(a, c)) == ["1 answer with different text", "different model"]
