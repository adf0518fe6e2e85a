"""Intervals, tests and verdicts: the numbers of other programs, and how often they are right.

The golden numbers are of statsmodels 0.15.0 and SciPy 1.17.1. `python -m bench.batch_statistics`
prints the simulations with 2,000 batches.
"""

from __future__ import annotations

import itertools
from random import Random

import pytest

from bench import batch_statistics as bench
from playground.evaluation import statistics
from playground.evaluation.statistics import (
    Count,
    Pairs,
    PassedRuns,
    bet,
    clustered_interval,
    compare,
    confidence_sequence,
    differences_needed,
    fisher,
    holm,
    mean_interval,
    newcombe,
    pair_up,
    pass_power,
    pass_powers,
    sign_flip,
    t_quantile,
    wilson,
)

CLOSE = 1e-9

ORDER = ["c", "a", "b"]
FIRST: PassedRuns = {"a": {1: True, 2: False}, "b": {1: True, 2: True}, "c": {1: False, 2: None}}
SECOND: PassedRuns = {"a": {1: True, 2: True}, "b": {1: False}, "c": {1: True, 2: True}}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (wilson(0.0, 1), (0.0, 0.7934506856227627)),
        (wilson(0.0, 20), (0.0, 0.1611251580528194)),
        (wilson(7 / 20, 20), (0.18119182410108203, 0.5671457233147638)),
        (wilson(1.0, 20), (0.8388748419471804, 1.0)),
        (wilson(0.137, 1000), (0.11707313063299472, 0.1597050960275183)),
        (newcombe(Count(56, 70), Count(48, 80)), (-0.33387265403690614, -0.05243147240236498)),
        (newcombe(Count(9, 10), Count(3, 10)), (-0.809017973535488, -0.1705227239345029)),
        (newcombe(Count(0, 10), Count(10, 10)), (0.6075093504305241, 1.0)),
        (newcombe(Count(5, 20), Count(6, 25)), (-0.26192119997449786, 0.22839767001212222)),
        (fisher(Count(3, 10), Count(9, 10))[:2], (0.009883305548940223, 0.9996427720885925)),
        (fisher(Count(2, 7), Count(3, 5))[:2], (0.31060606060606055, 0.9545454545454546)),
        (fisher(Count(0, 10), Count(0, 10))[:2], (1.0, 1.0)),
        (fisher(Count(20, 20), Count(14, 20))[:2], (1.0, 0.0100980100980101)),
        (sign_flip([1, 1, 1, 1, -1, 0, 1, 1])[:2], (0.0625, 0.9921875)),
        (sign_flip([5, -2, 3, 0, 4, 1, -1, 2, 2])[:2], (0.0546875, 0.97265625)),
        (sign_flip([2, 2, 2])[:2], (0.125, 1.0)),
        (sign_flip([0, 0])[:2], (1.0, 1.0)),
        ((t_quantile(0.975, 1), t_quantile(0.975, 2)), (12.706204736174694, 4.302652729749462)),
        ((t_quantile(0.975, 29), t_quantile(0.975, 59)), (2.045229642132703, 2.000995378088267)),
        (holm([0.01, 0.04, 0.03, 0.005]), (0.03, 0.06, 0.06, 0.02)),
        (wilson(0.5, 0), (0.0, 1.0)),
    ],
)
def test_the_numbers_are_those_of_other_programs(
    ours: tuple[float, ...], theirs: tuple[float, ...]
) -> None:
    assert ours == pytest.approx(theirs, abs=CLOSE)


def test_what_is_too_large_to_be_counted_is_said_to_be_approximated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = Random(1)
    differences = [random.randint(-4, 5) for _ in range(80)]
    exact = sign_flip(differences)
    monkeypatch.setattr(statistics, "MOST_BITS", 0)
    rough = sign_flip(differences)
    assert (exact.exact, rough.exact) == (True, False)
    assert rough[:2] == pytest.approx(exact[:2], abs=0.003)


def test_pass_power_is_what_counting_all_draws_says() -> None:
    assert bench.planted_pass_powers() == 0
    assert [pass_power(Count(3, 5), k) for k in (1, 2, 3, 4)] == [0.6, 0.3, 0.1, 0.0]


def test_pass_power_has_an_interval_over_cases_that_the_seed_fixes() -> None:
    cases = tuple(Count(passed, 5) for passed in (5, 5, 4, 3, 5, 0, 5, 2, 5, 5, 4, 5))
    first, third = pass_powers(cases, (1, 3), "7")
    assert pass_powers(cases, (1, 3), "7") == (first, third)
    student = mean_interval([case.rate for case in cases])
    assert student is not None
    assert first == pytest.approx(student, abs=0.07)
    assert third.low < sum(pass_power(case, 3) for case in cases) / 12 < third.high < first.high
    many = cases * 30
    assert pass_powers(cases * 21, (1,), "")[0] == pytest.approx(
        pass_powers(many, (1,), "")[0], abs=0.01
    )
    low, high = wilson(0.9, 10)
    assert pass_powers((Count(9, 10),), (2,), "") == ((low**2, high**2),)
    assert pass_powers((Count(5, 5),) * 20, (1, 5), "") == (wilson(1.0, 20),) * 2


def test_intervals_cover() -> None:
    """Few batches here: bench/batch_statistics.py has the figures that are promised."""
    assert min(bench.wilson_coverage(runs) for runs in (5, 20, 50)) >= 0.94
    for cases in (30, 60):
        points = itertools.product((0.05, 0.5), (0.5, 5))
        assert min(bench.clustered_coverage(cases, *point, 80) for point in points) >= 0.88
    assert bench.clustered_coverage(30, 0.5, 1, 80, bench.pooled) < 0.8


def test_cases_that_agree_are_no_more_than_so_many_cases() -> None:
    """150 runs of 30 cases, all passed, say as much as 30 runs, or somewhat more."""
    agreed = clustered_interval([Count(5, 5)] * 30)
    assert wilson(1.0, 30).low - 0.02 < agreed.low < wilson(1.0, 150).low
    assert agreed.high == 1.0
    assert clustered_interval([Count(3, 5)]) == wilson(0.6, 5)
    assert clustered_interval([]) == (0.0, 1.0)
    assert mean_interval([0.5] * 9) is mean_interval([1.0]) is None


@pytest.mark.parametrize("name", list(bench.SCENARIOS))
def test_a_verdict_stays_once_it_is_there_whatever_ends_first(name: str) -> None:
    wrong_count = bench.wrong_verdicts(name, 4)
    assert wrong_count.changed == 0
    assert wrong_count.better <= 2 / 4


@pytest.mark.slow
@pytest.mark.parametrize("name", list(bench.SCENARIOS))
def test_a_verdict_without_an_effect_is_rare(name: str) -> None:
    """At most 5 % of many batches; 24 of 200 would come by chance in one of 10,000 trials."""
    assert bench.wrong_verdicts(name, 200).better < 24 / 200


def test_an_effect_is_decided_early() -> None:
    share, middle = bench.power(100)
    assert share > 0.95
    assert 45 < middle < 70


def test_a_confidence_sequence_holds_at_every_moment() -> None:
    random = Random(3)
    missed = 0
    for _ in range(30):
        values = [round(random.betavariate(2, 1), 1) for _ in range(80)]
        ranges = [confidence_sequence(values[:end]) for end in (3, 20, 80)]
        missed += any(not low <= 2 / 3 <= high for low, high in ranges)
    assert missed <= 4
    assert confidence_sequence([]) == (0.0, 1.0)
    low, high = confidence_sequence([-0.5, 0.5] * 200, -1.0, 1.0)
    assert low == pytest.approx(-high)
    assert 0 < high < 0.15


def test_how_many_more_are_needed() -> None:
    won = [1.0, 0.0, 0.0, 1.0, -1.0] * 4
    assert 20 < (differences_needed(won) or 0) < 200
    assert (differences_needed(won, 4) or 0) > (differences_needed(won) or 0)
    assert differences_needed([1.0, -1.0] * 10) is None
    assert differences_needed([1.0]) is None


def test_a_case_counts_when_all_before_it_are_complete() -> None:
    pairs = pair_up(FIRST, SECOND, ORDER, 2)
    assert pairs.units == ((Count(0, 1), Count(1, 1)), (Count(1, 2), Count(2, 2)))
    assert (pairs.whole, pairs.pairs, pairs.left_out) == (False, 4, 1)
    assert pair_up(FIRST, SECOND, ["b", "c", "a"], 2).units == ()


def test_of_one_case_the_repetitions_are_the_sample() -> None:
    pairs = pair_up(FIRST, SECOND, ["c"], 2)
    assert (pairs.unit, pairs.whole, pairs.left_out) == ("run", True, 1)
    assert pairs.units == ((Count(0, 1), Count(1, 1)),)


def pairs_of(first: list[int], second: list[int], left_out: int = 0, whole: bool = True) -> Pairs:
    """Cases with one repetition on both sides."""
    units = [(Count(a, 1), Count(b, 1)) for a, b in zip(first, second, strict=True)]
    sides = pair_up(
        {str(number): {1: bool(a.passed)} for number, (a, _) in enumerate(units)},
        {str(number): {1: bool(b.passed)} for number, (_, b) in enumerate(units)},
        [str(number) for number in range(len(units))],
        1,
    )
    return Pairs(sides.units, "case", whole, len(units) + left_out, left_out)


def test_a_verdict_takes_the_end_or_enough_evidence() -> None:
    lost, won = [1] * 40 + [0] * 7, [1] * 47
    ((whole,), (going_on,)) = (
        compare({("m", "a", "b"): pairs_of(lost, won, whole=over)}) for over in (True, False)
    )
    assert (whole.verdict, whole.after) == ("better", 0)
    assert whole.p == pytest.approx(2 / 2**7)
    assert (going_on.verdict, going_on.p) == ("undecided", None)
    assert going_on.more is not None
    (clear,) = compare({("m", "a", "b"): pairs_of([1] * 20, [0] * 20, whole=False)})
    assert (clear.verdict, clear.after < 20) == ("worse", True)


def test_what_says_nothing_of_the_model_forbids_a_verdict_above_5_percent() -> None:
    few, many = (
        compare({("m", "a", "b"): pairs_of([0] * 40, [1] * 40, left_out)})[0] for left_out in (2, 3)
    )
    assert (few.verdict, few.left_out, few.pairs) == ("better", 2, 42)
    assert (many.verdict, many.more) == ("undecided", None)


def test_several_comparisons_divide_the_chance_to_be_wrong() -> None:
    close = pairs_of([0] * 7 + [1] * 20, [1] * 27)
    alone = compare({("m", "a", "b"): close})[0]
    others = {("m", "a", str(number)): pairs_of([1, 0] * 9, [1, 0] * 9) for number in range(4)}
    among = compare({("m", "a", "b"): close, **others})[0]
    assert (alone.verdict, among.verdict) == ("better", "undecided")
    assert among.p == alone.p
    assert among.adjusted == pytest.approx(5 * (alone.p or 0))
    won = {
        ("m", "a", str(number)): pairs_of([0] * 20, [1] * 20, whole=False) for number in range(5)
    }
    assert [each.after for each in compare(won)] == [11] * 5


def test_the_first_verdict_of_betting_stays() -> None:
    won = bet([1.0] * 10 + [-1.0] * 40)
    assert (won.verdict, won.after) == ("better", 8)
    assert bet([-1.0] * 10 + [1.0] * 40).verdict == "worse"
