"""Intervals, tests and verdicts for counts of passed runs: numbers only, no spec and no page.

All methods are textbook ones, except the design effect of `clustered_interval`, whose docstring
gives the measurements, and those that allow a look after every case: `bet`, `confidence_sequence`.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from statistics import NormalDist
from typing import Literal, NamedTuple

CONFIDENCE = 0.95
ROUGH_BELOW = 10
"""With fewer cases an interval over cases is called rough."""
RESAMPLES = 1000
MOST_BITS = 4_000_000_000
"""Maximum number of bit operations of an exact sign-flip test, which is under a second."""

_BYTES = 256

ALPHA = 1 - CONFIDENCE

STAKES = tuple(0.05 + step / 10 for step in range(10))
"""Shares of the capital that are bet on each difference, equally mixed."""

HALVINGS = 16
"""Bounds are found to 0.002 %, rounded to the safe side."""

POWER = 0.8
MOST_MORE = 1_000

Direction = Literal["better", "worse"]

Verdict = Literal["better", "worse", "undecided"]

MOST_LEFT_OUT = 0.05
"""The maximum share of pairs left out; above it the others may not be representative."""

PassedRuns = Mapping[str, Mapping[int, bool | None]]
"""For one side: whether a run passed by case and repetition, None for a finished run that says
nothing about the model. Unfinished runs are absent."""


class Count(NamedTuple):
    """Passed runs among those that count: of a case, or of one cell."""

    passed: int
    runs: int

    @property
    def rate(self) -> float:
        return self.passed / self.runs


class Interval(NamedTuple):
    """Both ends belong to it."""

    low: float
    high: float


class Tails(NamedTuple):
    """The probability of the observed or a more extreme result without any difference: `greater`
    supports the second of the two, `less` the first. `exact` is False for an approximation."""

    greater: float
    less: float
    exact: bool = True

    @property
    def two_sided(self) -> float:
        """Twice the smaller tail, which is the two-sided value of every symmetric test here."""
        return min(1.0, 2 * min(self.greater, self.less))


# One sample of runs -------------------------------------------------------------------------------


def wilson(rate: float, runs: float, quantile: float | None = None) -> Interval:
    """The score interval of a rate (Wilson 1927, JASA 22:209). `runs` may be an effective number.
    Without any run: 0..1."""
    if runs <= 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) if quantile is None else quantile
    shrink = 1 + z * z / runs
    middle = (rate + z * z / (2 * runs)) / shrink
    half = z / shrink * math.sqrt(rate * (1 - rate) / runs + z * z / (4 * runs * runs))
    low = 0.0 if rate <= 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if rate >= 1 else min(1.0, middle + half))


def newcombe(first: Count, second: Count) -> Interval:
    """The interval of the second's rate minus the first's, for independent samples (Newcombe 1998,
    Statistics in Medicine 17:873, method 10: each sample's Wilson interval, squared and added)."""
    a, b = wilson(first.rate, first.runs), wilson(second.rate, second.runs)
    difference = second.rate - first.rate
    down = math.hypot(second.rate - b.low, a.high - first.rate)
    up = math.hypot(b.high - second.rate, first.rate - a.low)
    return Interval(max(-1.0, difference - down), min(1.0, difference + up))


def fisher(first: Count, second: Count) -> Tails:
    """Fisher's exact test: the tails of the second's passes with all margins given."""
    runs, passed = first.runs + second.runs, first.passed + second.passed
    least, most = max(0, passed - first.runs), min(second.runs, passed)
    ways = {
        count: math.comb(second.runs, count) * math.comb(first.runs, passed - count)
        for count in range(least, most + 1)
    }
    total = math.comb(runs, passed)
    greater = sum(way for count, way in ways.items() if count >= second.passed)
    less = sum(way for count, way in ways.items() if count <= second.passed)
    return Tails(greater / total, less / total)


# Cases as the sample ------------------------------------------------------------------------------


def clustered_interval(cases: Sequence[Count]) -> Interval:
    """The interval of the mean rate over cases, whose repetitions are not independent.

    Wilson's with t of cases - 1 and an effective number of runs: runs / design effect, which is
    between 1 and the repetitions (Korn and Graubard 1998; Kott, Statistics Canada 12-001-X, 2017).
    The design effect is estimated with half a case more, a quarter failed and a quarter passed:
    without it, the coverage of 30 cases x 5 at rates near 0 or 1 is only 88 %, because few failing
    cases say little about their variance.
    """
    if len(cases) < 2:
        return wilson(cases[0].rate, cases[0].runs) if cases else Interval(0.0, 1.0)
    number = len(cases)
    rates = [case.rate for case in cases]
    repetitions = sum(case.runs for case in cases) / number
    weight = number + 0.5
    middle = (math.fsum(rates) + 0.25) / weight
    squares = (math.fsum(rate * rate for rate in rates) + 0.25) / weight
    variance = (squares - middle * middle) * weight / (weight - 1)
    effect = min(max(1.0, variance / (middle * (1 - middle)) * repetitions), repetitions)
    quantile = t_quantile((1 + CONFIDENCE) / 2, number - 1)
    return wilson(math.fsum(rates) / number, number * repetitions / effect, quantile)


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Student's interval of the mean of differences in -1..1; None for fewer than two, or if all
    are equal, which says nothing about their variance."""
    number = len(values)
    if number < 2:
        return None
    mean = math.fsum(values) / number
    variance = math.fsum((value - mean) ** 2 for value in values) / (number - 1)
    if variance == 0:
        return None
    half = t_quantile((1 + CONFIDENCE) / 2, number - 1) * math.sqrt(variance / number)
    return Interval(max(-1.0, mean - half), min(1.0, mean + half))


def sign_flip(differences: Iterable[int]) -> Tails:
    """The exact test of paired differences: under the null hypothesis each sign is random. With one
    repetition it is McNemar's exact test.

    The differences are integers (passes of the second minus passes of the first), so all 2^n sums
    are counted by multiplying (1 + x^|d|) with a big integer as the polynomial: no random draws.
    Beyond `MOST_BITS` the normal approximation with a continuity correction is used; then `exact`
    is False.
    """
    sizes = [difference for difference in differences if difference]
    if not sizes:
        return Tails(1.0, 1.0)
    step = math.gcd(*sizes)
    sizes = [size // step for size in sizes]
    reach, seen = sum(map(abs, sizes)), sum(size for size in sizes if size > 0)
    slot = len(sizes) + 1
    if reach * slot * len(sizes) > MOST_BITS:
        spread = math.sqrt(sum(size * size for size in sizes))
        normal, total = NormalDist(0.0, spread), 2 * seen - reach
        return Tails(1 - normal.cdf(total - 1), normal.cdf(total + 1), exact=False)
    ways = 1
    for size in sizes:
        ways += ways << (slot * abs(size))
    above = _slots(ways >> (slot * seen), slot)
    below = _slots(ways & ((1 << (slot * (seen + 1))) - 1), slot)
    every = 1 << len(sizes)
    return Tails(above / every, below / every)


def _slots(ways: int, slot: int) -> int:
    """The sum of all coefficients, each `slot` bits wide."""
    width = ways.bit_length()
    while width > slot:
        half = (-(-width // slot) + 1) // 2 * slot
        ways, width = (ways >> half) + (ways & ((1 << half) - 1)), half
    return ways


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for their number (Holm 1979), to be compared with alpha itself."""
    adjusted, largest = [1.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


# pass^k -------------------------------------------------------------------------------------------


def pass_power(case: Count, k: int) -> float:
    """The probability that k runs of this case, drawn without replacement, all pass: C(passed, k) /
    C(runs, k). Needs at least k runs."""
    return math.comb(case.passed, k) / math.comb(case.runs, k)


@lru_cache(maxsize=64)
def pass_powers(cases: tuple[Count, ...], ks: tuple[int, ...], seed: str) -> tuple[Interval, ...]:
    """An interval of the mean of `pass_power` over the cases for each k: bootstrap over cases, the
    draws from a hash of `seed`; for very many cases Student's, to which it converges. For one case:
    Wilson's bounds to the power k. If all cases are equal, resampling gives no variance: Wilson's
    bounds over the cases."""
    number = len(cases)
    if number == 1:
        low, high = wilson(cases[0].rate, cases[0].runs)
        return tuple(Interval(low**k, high**k) for k in ks)
    kinds = sorted(set(cases))
    draws = _resample([kinds.index(case) for case in cases], seed) if number <= _BYTES else []
    cut = round(len(draws) * (1 - CONFIDENCE) / 2)
    intervals = []
    for k in ks:
        powers = [pass_power(case, k) for case in kinds]
        student = mean_interval([pass_power(case, k) for case in cases])
        if student is None:
            intervals.append(wilson(powers[0], number))
        elif not draws:
            intervals.append(Interval(max(0.0, student.low), student.high))
        else:
            sums = sorted(sum(map(mul, powers, draw)) for draw in draws)
            intervals.append(Interval(sums[cut] / number, min(1.0, sums[-cut - 1] / number)))
    return tuple(intervals)


def _resample(kinds: Sequence[int], seed: str) -> list[tuple[int, ...]]:
    """As many cases drawn from the cases, `RESAMPLES` times: the count of each kind. A byte of the
    hash draws a case; the highest values, which would be biased, are skipped."""
    number = len(kinds)
    table = bytes(kinds[byte % number] for byte in range(_BYTES))
    refused = bytes(range(_BYTES // number * number, _BYTES))
    raw = hashlib.shake_256(seed.encode()).digest(2 * number * RESAMPLES + 1000)
    drawn = raw.translate(table, refused)
    every = range(max(kinds) + 1)
    return [
        tuple(map(drawn[at : at + number].count, every))
        for at in range(0, number * RESAMPLES, number)
    ]


# Student's t --------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def t_quantile(level: float, degrees: int) -> float:
    """The value that Student's t is below with probability `level` (over one half)."""
    low, high = 0.0, 1.0
    while _t_probability(high, degrees) < level:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_probability(middle, degrees) < level else (low, middle)
    return (low + high) / 2


def _t_probability(t: float, degrees: int) -> float:
    """The probability of being below t >= 0: the finite sums of Abramowitz and Stegun, 26.7.3 and
    26.7.4, for integer degrees of freedom."""
    angle = math.atan2(t, math.sqrt(degrees))
    square = math.cos(angle) ** 2
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for step in range(1 + odd, degrees, 2):
        total += term
        term *= square * step / (step + 1)
    inside = math.sin(angle) * total
    return 0.5 + (angle + inside) / math.pi if odd else 0.5 + inside / 2


# Anytime-valid methods ----------------------------------------------------------------------------

# By betting (Waudby-Smith and Ramdas 2024, JRSS B 86:1; arXiv 2010.09686). A bettor bets on each
# difference in turn, without knowing it. If the mean is not above 0, the capital does not grow on
# average, so the probability that it ever reaches L times its start is at most 1 / L (Ville). The
# stakes are a fixed mixture, so nothing needs tuning. The values are processed in an order fixed
# before: in the order in which runs end, slow ones, which fail more often, would come late.


@dataclass(frozen=True)
class BetState:
    """The state of two bettors, each having begun with 1: on "better" and on "worse". `verdict` is
    the first of the two that reached the limit, after `after` differences; it never changes."""

    better: float
    worse: float
    verdict: Direction | None = None
    after: int = 0


def bet(differences: Iterable[float], comparisons: int = 1) -> BetState:
    """Bets on differences in -1..1, in their order. The limit is 2 / alpha, times the number of
    comparisons that share alpha."""
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
            return BetState(better, worse, "better" if better > worse else "worse", number)
    return BetState(better, worse)


def confidence_sequence(values: Sequence[float], low: float = 0.0, high: float = 1.0) -> Interval:
    """The interval of the mean of values in low..high that holds at all times simultaneously: the
    means against which neither bettor has won 2 / alpha."""
    span = high - low
    counts = Counter((value - low) / span for value in values)
    mirrored = Counter({1 - value: times for value, times in counts.items()})
    return Interval(low + span * _lowest_mean(counts), high - span * _lowest_mean(mirrored))


def _lowest_mean(counts: Counter[float]) -> float:
    """The least mean in 0..1 against which the bettor on a higher one has not won: the capital
    decreases with the mean, so bisection finds it. Rounded down."""
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


def differences_needed(differences: Sequence[float], comparisons: int = 1) -> int | None:
    """The approximate number of further differences like these for a decision, by the test of a
    complete batch, with a power of 80 %, if the true difference is the observed one. None if it is
    too small for `MOST_MORE` more, or if there are fewer than two."""
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


# Is the second of two variants, or models, better than the first? ---------------------------------

# Verdicts of a running batch. A pair is the same repetition of the same case on both sides; a unit
# is what is sampled: cases, or the repetitions if there is only one case. Units are processed in an
# order fixed before, each when it and all before it are complete, so that a verdict does not depend
# on which runs end first, and is final.


class Unit(NamedTuple):
    """The runs of a case, or of one repetition, that form complete pairs, on both sides."""

    first: Count
    second: Count

    @property
    def difference(self) -> float:
        return self.second.rate - self.first.rate


@dataclass(frozen=True)
class Pairs:
    """The leading complete units. `whole`: every run of both sides is over. Of `pairs` pairs in
    these units `left_out` are unusable, because one side or both did not count."""

    units: tuple[Unit, ...]
    unit: Literal["case", "run"]
    whole: bool
    pairs: int
    left_out: int

    @property
    def too_few_count(self) -> bool:
        """Whether too many pairs are left out for a verdict."""
        return self.left_out > MOST_LEFT_OUT * self.pairs


@dataclass(frozen=True)
class Comparison:
    """`b` against the baseline `a`, for one model (or, if `model` is "", of two models).

    `difference` is b's rate minus a's over `units` units; `interval` is its confidence sequence if
    the batch was stopped. `p` is two-sided (and exact, except for thousands of cases: then not
    `exact`), `adjusted` for the number of comparisons; both None until the last run is over.
    `after` is the unit at which betting decided, 0 if it did not. `more` is the approximate number
    of further units for a decision.
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
        """Whether this is why there is no verdict."""
        return self.left_out > MOST_LEFT_OUT * self.pairs


def pair_up(first: PassedRuns, second: PassedRuns, order: Sequence[str], repetitions: int) -> Pairs:
    """The pairs of two sides; `order` has the ids of the cases in the seed's order."""
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
    """A comparison for each (model, a, b), which share the probability of a wrong verdict.

    While runs are missing only betting decides; when all are over, the exact test does too, each
    with half of alpha for either direction: at most 5 % of batches without any effect say "better"
    anywhere, and as many "worse". `stopped`: no further run will follow.
    """
    tests = {key: _test(pairs) for key, pairs in sides.items()}
    greater = holm([tails.greater if tails else 1.0 for tails in tests.values()])
    less = holm([tails.less if tails else 1.0 for tails in tests.values()])
    comparisons = []
    for (key, pairs), up, down in zip(sides.items(), greater, less, strict=True):
        betting = bet([unit.difference for unit in pairs.units], len(sides))
        tails = tests[key]
        adjusted = Tails(up, down) if tails else None
        comparisons.append(
            _comparison(
                key,
                pairs=pairs,
                betting=betting,
                tails=tails,
                adjusted=adjusted,
                comparisons=len(sides),
                stopped=stopped,
            )
        )
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
    betting: BetState,
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
        more = differences_needed(differences, comparisons)
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
    """Over the cases or, for one case, over its runs; a sequence if the batch was stopped, or if
    all cases have the same difference, which Student's t cannot handle."""
    if len(differences) < 2 and not stopped:
        return None
    if not stopped and pairs.unit == "run":
        return newcombe(*_totals(pairs))
    interval = None if stopped else mean_interval(differences)
    return interval or confidence_sequence(differences, -1.0, 1.0)
