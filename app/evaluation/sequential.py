"""Tests and intervals that may be looked at after every case: by betting (Waudby-Smith and Ramdas
2024, JRSS B 86:1; arXiv 2010.09686).

Somebody bets on each difference in turn, and may not know it before. If the mean is not above 0,
the money does not grow on average, so the chance that it is ever L times what it was is at most
1 / L (Ville). The stakes are a fixed mixture, so nothing is to be tuned. What is fed comes in an
order that was fixed before: the order in which runs end would let slow ones, which fail more
often, come late.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from app.evaluation.statistics import CONFIDENCE, Interval

ALPHA = 1 - CONFIDENCE
STAKES = tuple(0.05 + step / 10 for step in range(10))
"""Shares of the money that are put on each difference, equally mixed."""
HALVINGS = 16
"""Bounds are found to 0.002 %, on the safe side."""
POWER = 0.8
MOST_MORE = 1_000

Direction = Literal["better", "worse"]


@dataclass(frozen=True)
class Betting:
    """How two bettors stand, each having begun with 1: on "better" and on "worse". `verdict` is the
    first of the two that reached the limit, after `after` differences; it never changes."""

    better: float
    worse: float
    verdict: Direction | None = None
    after: int = 0


def bet(differences: Iterable[float], comparisons: int = 1) -> Betting:
    """Bets on differences in -1..1, in their order. The limit is 2 / alpha, times the number of
    comparisons among which alpha is divided."""
    limit = 2 * comparisons / ALPHA
    stakes = (*STAKES, *(-stake for stake in STAKES))
    money = [1.0] * len(stakes)
    better = worse = 1.0
    for number, difference in enumerate(differences, 1):
        if difference:
            money = [
                had * (1 + stake * difference) for had, stake in zip(money, stakes, strict=True)
            ]
            better = sum(money[: len(STAKES)]) / len(STAKES)
            worse = sum(money[len(STAKES) :]) / len(STAKES)
        if max(better, worse) >= limit:
            return Betting(better, worse, "better" if better > worse else "worse", number)
    return Betting(better, worse)


def confidence_sequence(values: Sequence[float], low: float = 0.0, high: float = 1.0) -> Interval:
    """The interval of the mean of values in low..high that holds at every moment at once: the means
    against which neither bettor has won 2 / alpha."""
    span = high - low
    counts = Counter((value - low) / span for value in values)
    mirrored = Counter({1 - value: times for value, times in counts.items()})
    return Interval(low + span * _lowest_mean(counts), high - span * _lowest_mean(mirrored))


def _lowest_mean(counts: Counter[float]) -> float:
    """The least mean in 0..1 against which the bettor on a higher one has not won: the money is
    less for every higher mean, so halving finds it. Rounded down."""
    limit = math.log(2 / ALPHA * len(STAKES))
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        mean = (low + high) / 2
        money = [
            sum(times * math.log1p(stake * (value / mean - 1)) for value, times in counts.items())
            for stake in STAKES
        ]
        largest = max(money)
        total = largest + math.log(math.fsum(math.exp(each - largest) for each in money))
        low, high = (mean, high) if total >= limit else (low, mean)
    return low


def more_needed(differences: Sequence[float], comparisons: int = 1) -> int | None:
    """About how many more differences like these would decide, by the test of a batch that ran to
    its end, with a chance of 80 %, if the true difference is what was seen. None where it is too
    small for `MOST_MORE` more, or where there are fewer than two."""
    number = len(differences)
    if number < 2:
        return None
    mean = math.fsum(differences) / number
    spread = math.fsum((each - mean) ** 2 for each in differences) / (number - 1)
    spread = max(spread, 1 / number**2)
    normal = NormalDist()
    reach = normal.inv_cdf(1 - ALPHA / 2 / comparisons) + normal.inv_cdf(POWER)
    if reach * reach * spread > mean * mean * (number + MOST_MORE):
        return None
    return max(1, math.ceil(reach * reach * spread / (mean * mean)) - number)
