"""Prints how often the statistics of a batch are right: intervals, verdicts, power.

    python -m bench.batch_statistics [--batches 2000]

Everything is simulated with a seed, so each figure comes again. Exits with 1 where one is worse
than it has to be. `tests/evaluation/test_statistics.py` runs the same with fewer batches. Wilson's
bounds are compared with statsmodels where that is installed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from random import Random
from statistics import fmean, median
from time import process_time
from typing import NamedTuple

from playground.core.tools import Tool
from playground.evaluation.report import make_report
from playground.evaluation.results import CallMade, RunResult
from playground.evaluation.spec import Case, Expectation, ModelChoice, Spec, Variant
from playground.evaluation.statistics import (
    Comparison,
    Count,
    Interval,
    bet,
    clustered_interval,
    compare,
    pair_up,
    pass_power,
    wilson,
)

RATES = [0.05 * step for step in range(1, 20)]


# Intervals ----------------------------------------------------------------------------------------


def wilson_coverage(runs: int) -> float:
    """The mean chance over rates 0.05..0.95 that Wilson's interval of `runs` runs has the rate in
    it; summed, not simulated."""
    intervals = [wilson(passed / runs, runs) for passed in range(runs + 1)]
    return fmean(
        sum(
            math.comb(runs, passed) * rate**passed * (1 - rate) ** (runs - passed)
            for passed, (low, high) in enumerate(intervals)
            if low <= rate <= high
        )
        for rate in RATES
    )


def clustered_coverage(
    cases: int,
    rate: float,
    spread: float,
    batches: int,
    interval: Callable[[Sequence[Count]], Interval] = clustered_interval,
) -> float:
    """How often the interval over cases x 5 has the true rate in it; the cases' rates are of a beta
    law with the mean `rate` and a + b = `spread` (small: the cases differ much)."""
    random = Random(f"{cases} {rate} {spread}")
    inside = 0
    for _ in range(batches):
        chances = [random.betavariate(rate * spread, (1 - rate) * spread) for _ in range(cases)]
        counts = [Count(draw(random, chance, 5), 5) for chance in chances]
        low, high = interval(counts)
        inside += low <= rate <= high
    return inside / batches


def pooled(counts: Sequence[Count]) -> Interval:
    """What `clustered_interval` is instead of: all runs as if each were a case."""
    runs = sum(count.runs for count in counts)
    return wilson(sum(count.passed for count in counts) / runs, runs)


def draw(random: Random, chance: float, runs: int) -> int:
    return sum(random.random() < chance for _ in range(runs))


# Verdicts without any effect ----------------------------------------------------------------------


class Run(NamedTuple):
    """A simulated run; `end` is when it is over."""

    variant: int
    case: str
    repetition: int
    passed: bool
    end: float


class Scenario(NamedTuple):
    """A batch in which no variant is better. `own` is how much each variant has cases that suit it
    by chance. With `slow`, failures take 20 times as long, but not those of the baseline."""

    cases: int = 60
    repetitions: int = 5
    variants: int = 2
    own: float = 0.0
    slow: bool = False


def simulate(random: Random, scenario: Scenario) -> list[Run]:
    """The runs of a batch in the order in which they end."""
    runs = []
    for number in range(scenario.cases):
        chance = random.betavariate(2, 2)
        room = min(chance, 1 - chance)
        for variant in range(scenario.variants):
            suited = chance + scenario.own * room * random.choice((-1, 1))
            for repetition in range(1, scenario.repetitions + 1):
                passed = random.random() < suited
                longer = 20.0 if scenario.slow and variant and not passed else 1.0
                end = number + longer * random.expovariate(1)
                runs.append(Run(variant, f"c{number}", repetition, passed, end))
    return sorted(runs, key=lambda run: run.end)


def verdicts_at(runs: Sequence[Run], scenario: Scenario) -> list[Comparison]:
    """What a page would say where these runs are over."""
    sides: dict[int, dict[str, dict[int, bool | None]]] = {}
    for run in runs:
        side = sides.setdefault(run.variant, {})
        side.setdefault(run.case, {})[run.repetition] = run.passed
    order = [f"c{number}" for number in range(scenario.cases)]
    pairs = {
        ("model", "baseline", f"v{variant}"): pair_up(
            sides.get(0, {}), sides.get(variant, {}), order, scenario.repetitions
        )
        for variant in range(1, scenario.variants)
    }
    return compare(pairs)


def moments(runs: list[Run], random: Random, count: int = 5) -> Iterator[list[Run]]:
    """What is over at some moments, and at the end."""
    for end in sorted(random.randrange(1, len(runs)) for _ in range(count)):
        yield runs[:end]
    yield runs


class Wrong(NamedTuple):
    """Shares of batches that said "better", or "better" or "worse", at any moment; and of those
    whose verdict changed once it was there."""

    better: float
    either: float
    changed: float


SCENARIOS = {
    "looked at after every case": Scenario(),
    "30 cases once": Scenario(cases=30, repetitions=1),
    "one case": Scenario(cases=1, repetitions=60),
    "variation of case x variant": Scenario(own=0.8),
    "failures that finish last": Scenario(slow=True),
    "5 variants": Scenario(variants=5),
    "5 variants, own cases, slow failures": Scenario(variants=5, own=0.8, slow=True),
}


def wrong_verdicts(name: str, batches: int) -> Wrong:
    """Every verdict is wrong here. Betting itself looks at every prefix of the cases; the batch is
    looked at at five moments besides the end, as runs end in their own order."""
    random, scenario = Random(name), SCENARIOS[name]
    better = either = changed = 0
    for _ in range(batches):
        verdicts: set[tuple[str, str]] = set()
        before: set[tuple[str, str]] = set()
        for over in moments(simulate(random, scenario), random):
            comparisons = verdicts_at(over, scenario)
            now: set[tuple[str, str]] = {
                (each.b, each.verdict) for each in comparisons if each.verdict != "undecided"
            }
            changed += not before <= now
            before = now
            verdicts |= now
        better += any(verdict == "better" for _, verdict in verdicts)
        either += bool(verdicts)
    return Wrong(better / batches, either / batches, changed / batches)


def wrong_in_order_of_ends(batches: int) -> float:
    """How often "better" would be wrong, if pairs were fed as they end: those with a slow failure
    of the second variant come last."""
    random = Random("ends")
    wrong_count = 0
    for _ in range(batches):
        cases: dict[str, dict[int, bool]] = {}
        differences = []
        for run in simulate(random, Scenario(200, 1, slow=True)):
            case = cases.setdefault(run.case, {})
            case[run.variant] = run.passed
            if len(case) == 2:
                differences.append(float(case[1]) - float(case[0]))
        wrong_count += bet(differences).verdict == "better"
    return wrong_count / batches


# Power --------------------------------------------------------------------------------------------


def power(batches: int, pairs: int = 200) -> tuple[float, float]:
    """(share of batches decided within `pairs` pairs, median number of pairs) where 25 % of the
    pairs are won and 5 % lost: an effect of 0.2."""
    random = Random("power")
    after = []
    for _ in range(batches):
        chances = (random.random() for _ in range(pairs))
        betting = bet(
            [1.0 if chance < 0.25 else -1.0 if chance < 0.3 else 0.0 for chance in chances]
        )
        after.append(betting.after if betting.verdict == "better" else math.inf)
    return sum(each <= pairs for each in after) / batches, median(after)


def planted_pass_powers() -> int:
    """How many of the counts up to 8 runs have another pass^k than counting all draws has."""
    wrong_count = 0
    for runs in range(1, 9):
        for passed, k in itertools.product(range(runs + 1), range(1, runs + 1)):
            draws = list(itertools.combinations([True] * passed + [False] * (runs - passed), k))
            wrong_count += pass_power(Count(passed, runs), k) != sum(map(all, draws)) / len(draws)
    return wrong_count


def far_from_statsmodels() -> float | None:
    """The largest difference of a bound of Wilson's; None without statsmodels."""
    if find_spec("statsmodels") is None:
        return None
    proportion = import_module("statsmodels.stats.proportion")
    largest = 0.0
    for runs in (*range(1, 60), 100, 1000):
        for passed in range(0, runs + 1, 1 + runs // 60):
            theirs = proportion.proportion_confint(passed, runs, method="wilson")
            ours = wilson(passed / runs, runs)
            largest = max(largest, *(abs(a - float(b)) for a, b in zip(ours, theirs, strict=True)))
    return largest


def report_seconds(over: int) -> float:
    """CPU seconds of a report of a batch of 1,000 runs, of which so many are over: the first one,
    for which nothing is remembered yet."""
    random = Random("report")
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    tools = tuple(Tool(name, f"The tool {name}.", schema) for name in ("find", "search", "pay"))
    spec = Spec(
        tuple(
            Case(f"c{number}", "Where is it?", expect=(Expectation("called", "find"),))
            for number in range(50)
        ),
        repetitions=5,
        tools=tools,
        models=(ModelChoice("p", "", "a"), ModelChoice("p", "", "b")),
        variants=(Variant("first"), Variant("second")),
    )
    results = []
    for key in itertools.islice(spec.keys(), over):
        tool = random.choices(tools, (8, 1, 1))[0].name
        call = CallMade(tool, json.dumps({"id": f"{key.case}-{random.random()}"}))
        results.append(RunResult(key, "passed" if tool == "find" else "failed", calls=(call,)))
    begin = process_time()
    make_report(spec, results)
    return process_time() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description="How often a batch's statistics are right.")
    parser.add_argument("--batches", type=int, default=2000)
    batches = parser.parse_args().batches
    broken = 0

    def line(words: str, figure: str, good: bool = True) -> None:
        nonlocal broken
        broken += not good
        print(f"{words:<68} {figure}{'' if good else '   BROKEN'}", flush=True)

    far = far_from_statsmodels()
    line("Wilson, largest difference from statsmodels",
         "not installed" if far is None else f"{far:.1e}", far is None or far < 1e-9)  # fmt: skip
    for runs in (5, 10, 20, 50, 100):
        share = wilson_coverage(runs)
        line(
            f"Wilson, {runs} runs: mean coverage over rates 0.05..0.95",
            f"{share:.1%}",
            share >= 0.94,
        )
    for cases in (30, 60):
        grid = list(itertools.product((0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95), (0.5, 1, 2, 5, 20)))
        ours = [clustered_coverage(cases, *point, batches) for point in grid]
        theirs = [clustered_coverage(cases, *point, batches // 5, pooled) for point in grid]
        line(f"clustered, {cases} cases x 5, 35 beta laws: least and mean coverage",
             f"{min(ours):.1%}, {fmean(ours):.1%}", min(ours) >= 0.93)  # fmt: skip
        line("   (all runs pooled instead)", f"{min(theirs):.1%}, {fmean(theirs):.1%}")
    for scenario in SCENARIOS:
        wrong_count = wrong_verdicts(scenario, batches)
        line(f'no effect, {scenario}: "better"; either; changed later',
             f"{wrong_count.better:.1%}; {wrong_count.either:.1%}; {wrong_count.changed:.1%}",
             wrong_count.better <= 0.05 and wrong_count.changed == 0)  # fmt: skip
    line('   (fed as runs end, with failures that finish last: "better")',
         f"{wrong_in_order_of_ends(batches):.1%}")  # fmt: skip
    line("pass^k, counts up to 8 runs that differ from counting all draws",
         str(planted := planted_pass_powers()), planted == 0)  # fmt: skip
    share, middle = power(batches)
    line("power at an effect of 0.2 (25 % won, 5 % lost), 200 pairs; median",
         f"{share:.1%}; {middle:.0f} pairs", share >= 0.98)  # fmt: skip
    for over in (990, 1000):
        line(f"report of {over} runs, 50 cases x 2 models x 2 variants x 5: CPU",
             f"{1000 * report_seconds(over):.0f} ms")  # fmt: skip
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
