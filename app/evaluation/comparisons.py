"""Is the second of two variants, or models, better than the first? Verdicts, as a batch goes on.

A pair is the same repetition of the same case on both sides; a unit is what is sampled: cases, or
the repetitions where there is only one case. Units are fed in an order fixed before, each when it
and all before it are complete, so that a verdict does not depend on which runs end first, and
once it is there it stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from app.evaluation.statistics import (
    ALPHA,
    Betting,
    Count,
    Interval,
    Tails,
    bet,
    confidence_sequence,
    fisher,
    holm,
    mean_interval,
    more_needed,
    newcombe,
    sign_flip,
)

Verdict = Literal["better", "worse", "undecided"]
MOST_LEFT_OUT = 0.05
"""Of pairs; above it what is left may be another sample than the one that was asked for."""

Runs = Mapping[str, Mapping[int, bool | None]]
"""Of one side: by case and repetition whether it passed, None for a run that is over and says
nothing of the model. What is not over is not in it."""


class Unit(NamedTuple):
    """The runs of a case, or of one repetition, that are whole pairs, on both sides."""

    first: Count
    second: Count

    @property
    def difference(self) -> float:
        return self.second.rate - self.first.rate


@dataclass(frozen=True)
class Pairs:
    """The units that are complete, with all before them. `whole`: every run of both sides is over.
    Of `pairs` pairs in these units `left_out` say nothing, as one side or both did not count."""

    units: tuple[Unit, ...]
    unit: Literal["case", "run"]
    whole: bool
    pairs: int
    left_out: int

    @property
    def too_few_count(self) -> bool:
        """Whether more pairs are left out than a verdict may rest on."""
        return self.left_out > MOST_LEFT_OUT * self.pairs


@dataclass(frozen=True)
class Comparison:
    """`b` against the baseline `a`, for one model (or, where `model` is "", of two models).

    `difference` is b's rate minus a's over `units` units; `interval` is its confidence sequence
    where the batch was stopped. `p` is two-sided (and exact, but of thousands of cases: then not
    `exact`), `adjusted` for the number of comparisons; both None until the last run is over.
    `after` is the unit at which betting decided, 0 where it did not. `more` is about how many more
    units would decide.
    """

    model: str
    a: str
    b: str
    verdict: Verdict
    unit: Literal["case", "run"]
    units: int
    difference: float | None
    interval: Interval | None
    p: float | None
    adjusted: float | None
    after: int
    more: int | None
    pairs: int
    left_out: int
    exact: bool = True

    @property
    def too_few_count(self) -> bool:
        """Whether that is why there is no verdict."""
        return self.left_out > MOST_LEFT_OUT * self.pairs


def pair_up(first: Runs, second: Runs, order: Sequence[str], repetitions: int) -> Pairs:
    """The pairs of two sides; `order` has the ids of the cases as the seed shuffled them."""
    rounds = range(1, repetitions + 1)
    if len(order) == 1:
        blocks = [(order[0], [number]) for number in rounds]
    else:
        blocks = [(case, list(rounds)) for case in order]
    units, pairs, left_out = [], 0, 0
    for case, numbers in blocks:
        sides = first.get(case, {}), second.get(case, {})
        if any(number not in side for number in numbers for side in sides):
            break
        both = [(sides[0][number], sides[1][number]) for number in numbers]
        counting = [(a, b) for a, b in both if a is not None and b is not None]
        pairs += len(both)
        left_out += len(both) - len(counting)
        if counting:
            a_passed, b_passed = sum(a for a, _ in counting), sum(b for _, b in counting)
            units.append(Unit(Count(a_passed, len(counting)), Count(b_passed, len(counting))))
    return Pairs(
        tuple(units),
        "run" if len(order) == 1 else "case",
        pairs == len(order) * repetitions,
        pairs,
        left_out,
    )


def compare(
    sides: Mapping[tuple[str, str, str], Pairs], *, stopped: bool = False
) -> list[Comparison]:
    """A comparison for each (model, a, b), among which the chance of a wrong verdict is divided.

    While runs are missing only betting decides; where all are over, the exact test does too, each
    with half of alpha for either direction: at most 5 % of batches without any effect say "better"
    somewhere, and as many "worse". `stopped`: no further run comes.
    """
    tests = {key: _test(pairs) for key, pairs in sides.items()}
    greater = holm([tails.greater if tails else 1.0 for tails in tests.values()])
    less = holm([tails.less if tails else 1.0 for tails in tests.values()])
    comparisons = []
    for (key, pairs), up, down in zip(sides.items(), greater, less, strict=True):
        betting = bet([unit.difference for unit in pairs.units], len(sides))
        tails = tests[key]
        adjusted = Tails(up, down) if tails else None
        comparisons.append(_comparison(key, pairs, betting, tails, adjusted, len(sides), stopped))
    return comparisons


def _test(pairs: Pairs) -> Tails | None:
    """The exact test of a comparison whose runs are all over."""
    if not pairs.whole or not pairs.units:
        return None
    if pairs.unit == "run":
        return fisher(*_totals(pairs))
    return sign_flip(unit.second.passed - unit.first.passed for unit in pairs.units)


def _totals(pairs: Pairs) -> tuple[Count, Count]:
    runs = sum(unit.first.runs for unit in pairs.units)
    first = sum(unit.first.passed for unit in pairs.units)
    return Count(first, runs), Count(sum(unit.second.passed for unit in pairs.units), runs)


def _comparison(
    key: tuple[str, str, str],
    pairs: Pairs,
    betting: Betting,
    tails: Tails | None,
    adjusted: Tails | None,
    comparisons: int,
    stopped: bool,
) -> Comparison:
    differences = [unit.difference for unit in pairs.units]
    verdict: Verdict = "undecided"
    if not pairs.too_few_count:
        if betting.verdict:
            verdict = betting.verdict
        elif adjusted and min(adjusted.greater, adjusted.less) <= ALPHA / 2:
            verdict = "better" if adjusted.greater < adjusted.less else "worse"
    more = None
    if verdict == "undecided" and not pairs.too_few_count:
        more = more_needed(differences, comparisons)
    return Comparison(
        *key,
        verdict=verdict,
        unit=pairs.unit,
        units=len(pairs.units),
        difference=sum(differences) / len(differences) if differences else None,
        interval=_difference_interval(pairs, differences, stopped),
        p=tails.two_sided if tails else None,
        adjusted=adjusted.two_sided if adjusted else None,
        after=betting.after,
        more=more,
        pairs=pairs.pairs,
        left_out=pairs.left_out,
        exact=tails is None or tails.exact,
    )


def _difference_interval(pairs: Pairs, differences: list[float], stopped: bool) -> Interval | None:
    """Of the cases or, of one case, of its runs; a sequence where the batch was stopped, and where
    all cases differ alike, which Student's t cannot take."""
    if len(differences) < 2 and not stopped:
        return None
    if not stopped and pairs.unit == "run":
        return newcombe(*_totals(pairs))
    interval = None if stopped else mean_interval(differences)
    return interval or confidence_sequence(differences, -1.0, 1.0)
