"""The evaluation of a batch's runs: one value, made from a SPEC and the results so far.

make_report(spec, results)  -> BatchReport, at any time: it keeps no state between two calls
claim, comparison_sentence, ...   the sentences and figures that page, command line and exports
                            share

Pages make it again as often as needed: 1,000 runs take a few hundredths of a second.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Literal

from playground.evaluation.calls_made import (
    NO_TOOL,
    ArgumentUse,
    CallOrder,
    Confusion,
    ToolFinding,
    add_up,
    argument_uses,
    call_orders,
    confusion,
    expected_tools,
    find,
    tools_of,
)
from playground.evaluation.results import Outcome, RunResult
from playground.evaluation.spec import Case, Spec
from playground.evaluation.statistics import (
    MOST_MORE,
    ROUGH_BELOW,
    Comparison,
    Count,
    Interval,
    Pairs,
    clustered_interval,
    compare,
    confidence_sequence,
    pair_up,
    pass_power,
    pass_powers,
    wilson,
)

BatchState = Literal["running", "stopped", "ended"]

RunGroup = tuple[str, str]
"""(model's label, variant's name)."""

MINUS = "−"


@dataclass(frozen=True)
class Cell:
    """The runs of one case with one model and variant. `passes`: whether the share `min_pass` of
    them passed; None until all `planned` are over, and if none counts. `session` is that of one
    run, a failed one if there is any."""

    case: str
    model: str
    variant: str
    planned: int
    outcomes: Mapping[Outcome, int]
    rate: float | None
    interval: Interval | None
    min_pass: float
    passes: bool | None
    session: str | None
    seconds: float

    @property
    def passed(self) -> int:
        return self.outcomes.get("passed", 0)

    @property
    def runs(self) -> int:
        """The number that count."""
        return self.passed + self.outcomes.get("failed", 0)

    @property
    def over(self) -> int:
        return sum(self.outcomes.values())


@dataclass(frozen=True)
class PassPower:
    """The probability that `k` runs of a case all pass."""

    k: int
    rate: float
    interval: Interval


@dataclass(frozen=True)
class GroupSummary:
    """One model with one variant over all cases.

    `rate` is the mean over `cases` cases (of one case: over its runs); `interval` is over the runs
    of one case, or over several cases, and a confidence sequence if the batch was stopped.
    `right_tool` and `valid_arguments` are (count, of count). Times are medians in seconds, cost in
    US dollars and tokens means over runs; None means unknown.
    """

    model: str
    variant: str
    planned: int
    outcomes: Mapping[Outcome, int]
    cases: int
    rate: float | None
    interval: Interval | None
    powers: tuple[PassPower, ...]
    right_tool: tuple[int, int]
    valid_arguments: tuple[int, int]
    calls_per_run: float | None
    first_call_s: float | None
    seconds: float | None
    cost: float | None
    tokens: float | None

    @property
    def runs(self) -> int:
        """The number that count."""
        return self.outcomes.get("passed", 0) + self.outcomes.get("failed", 0)


@dataclass(frozen=True)
class BatchReport:
    """The whole report. `results` are the finished runs of the SPEC, in the order of its keys."""

    spec: Spec
    state: BatchState
    results: tuple[RunResult, ...]
    cells: tuple[Cell, ...]
    summaries: tuple[GroupSummary, ...]
    comparisons: tuple[Comparison, ...]
    confusions: Mapping[RunGroup, Confusion]
    arguments: tuple[ArgumentUse, ...]
    ways: tuple[CallOrder, ...]
    findings: tuple[ToolFinding, ...]

    @cached_property
    def outcomes(self) -> Counter[Outcome]:
        return Counter(result.outcome for result in self.results)

    @cached_property
    def confusion(self) -> Confusion:
        """The sum over all models and variants."""
        return add_up(self.confusions.values())

    @property
    def failures(self) -> tuple[RunResult, ...]:
        """All finished runs that did not pass."""
        return tuple(result for result in self.results if result.outcome != "passed")

    @property
    def rough(self) -> bool:
        """Whether the sample has so few cases that intervals over them are rough."""
        return 1 < len(self.spec.cases) < ROUGH_BELOW

    @property
    def cost(self) -> float:
        """US dollars of all runs with a known price."""
        return sum(result.cost or 0.0 for result in self.results)

    @property
    def decided(self) -> bool:
        """Whether each comparison has its verdict, so that no further run can change one."""
        verdicts = [comparison.verdict for comparison in self.comparisons]
        return bool(verdicts) and "undecided" not in verdicts

    @property
    def exit_code(self) -> int:
        """The exit code of `playground batch`: 1 if a case fails or has no result, or a variant is
        worse; 3 if runs are unknown, need a user, or are missing before all is decided."""
        if any(comparison.verdict == "worse" for comparison in self.comparisons):
            return 1
        if any(cell.passes is False or _only_errors(cell) for cell in self.cells):
            return 1
        unclear = self.outcomes["unknown"] or self.outcomes["needs_person"]
        return 3 if unclear or (self.state != "ended" and not self.decided) else 0


def _only_errors(cell: Cell) -> bool:
    return cell.over == cell.planned == cell.outcomes.get("provider_error", 0)


def make_report(spec: Spec, results: Iterable[RunResult], *, stopped: bool = False) -> BatchReport:
    """The report of the finished runs. `stopped`: no further run will follow. A stopped run does
    not count as finished; runs that the SPEC does not have are left out."""
    over = {result.key: result for result in results if result.outcome != "stopped"}
    keys = spec.keys()
    ordered = tuple(over[key] for key in keys if key in over)
    whole = len(ordered) == spec.runs
    state: BatchState = "ended" if whole else "stopped" if stopped else "running"
    groups: dict[RunGroup, list[RunResult]] = {
        (model.label, variant.name): [] for model in spec.models for variant in spec.variants
    }
    for result in ordered:
        groups[result.key.model, result.key.variant].append(result)
    counting = {group: [each for each in runs if each.counts] for group, runs in groups.items()}
    confusions = {group: confusion(spec, runs) for group, runs in counting.items()}
    tools = tools_of(spec)
    all_counting = [result for runs in counting.values() for result in runs]
    uses = argument_uses(tools, all_counting)
    return BatchReport(
        spec,
        state=state,
        results=ordered,
        cells=tuple(_cells(spec, groups)),
        summaries=tuple(_summary(spec, group, runs, state) for group, runs in groups.items()),
        comparisons=tuple(_comparisons(spec, groups, state)),
        confusions=confusions,
        arguments=uses,
        ways=call_orders(spec, counting),
        findings=find(spec, tools, confusions, uses, all_counting),
    )


# Cells --------------------------------------------------------------------------------------------


def _cells(spec: Spec, groups: Mapping[RunGroup, Sequence[RunResult]]) -> Iterable[Cell]:
    runs: dict[tuple[str, RunGroup], list[RunResult]] = defaultdict(list)
    for group, results in groups.items():
        for result in results:
            runs[result.key.case, group].append(result)
    for case in spec.cases:
        for group in groups:
            yield _cell(spec, case, group, runs.get((case.id, group), ()))


def _cell(spec: Spec, case: Case, group: RunGroup, results: Sequence[RunResult]) -> Cell:
    outcomes = Counter(result.outcome for result in results)
    passed, runs = outcomes["passed"], outcomes["passed"] + outcomes["failed"]
    rate = passed / runs if runs else None
    min_pass = spec.min_pass if case.min_pass is None else case.min_pass
    whole = len(results) == spec.repetitions
    shown = min(results, key=lambda result: result.outcome != "failed", default=None)
    return Cell(
        case.id,
        *group,
        planned=spec.repetitions,
        outcomes=outcomes,
        rate=rate,
        interval=None if rate is None else wilson(rate, runs),
        min_pass=min_pass,
        passes=rate >= min_pass if rate is not None and whole else None,
        session=shown.session if shown else None,
        seconds=sum(result.seconds for result in results),
    )


# Summaries ----------------------------------------------------------------------------------------


def _summary(
    spec: Spec, group: RunGroup, results: Sequence[RunResult], state: BatchState
) -> GroupSummary:
    counting = [result for result in results if result.counts]
    counts, rate, interval = _rate(spec, results, state)
    expected = {case.id: expected_tools(case) for case in spec.cases}
    wanting = [result for result in counting if expected[result.key.case]]
    calls = [call for result in counting for call in result.calls]
    first = [each.to_first_call_s for each in counting if each.to_first_call_s is not None]
    costs = [result.cost for result in counting if result.cost is not None]
    tokens = [
        result.tokens_in + result.tokens_out
        for result in counting
        if result.tokens_in is not None and result.tokens_out is not None
    ]
    return GroupSummary(
        *group,
        planned=len(spec.cases) * spec.repetitions,
        outcomes=Counter(result.outcome for result in results),
        cases=len(counts),
        rate=rate,
        interval=interval,
        powers=_powers(spec, counts) if state == "ended" else (),
        right_tool=(
            sum(_chose_tools(result, expected[result.key.case]) for result in wanting),
            len(wanting),
        ),
        valid_arguments=(sum(call.valid for call in calls), len(calls)),
        calls_per_run=len(calls) / len(counting) if counting else None,
        first_call_s=median(first) if first else None,
        seconds=median(result.seconds for result in counting) if counting else None,
        cost=sum(costs) / len(costs) if costs and len(costs) == len(counting) else None,
        tokens=sum(tokens) / len(tokens) if tokens and len(tokens) == len(counting) else None,
    )


def _chose_tools(result: RunResult, expected: Sequence[str]) -> bool:
    """Whether the expected tools were called, with any arguments."""
    called = {call.name for call in result.calls} or {NO_TOOL}
    return called.issuperset(expected)


def _rate(
    spec: Spec, results: Sequence[RunResult], state: BatchState
) -> tuple[list[Count], float | None, Interval | None]:
    """The counts by case, in the seed's order, and the rate with its interval; for a stopped batch,
    those of the leading complete cases."""
    by_case: dict[str, list[RunResult]] = {case.id: [] for case in spec.case_order()}
    for result in results:
        by_case[result.key.case].append(result)
    single, stopped = len(by_case) == 1, state == "stopped"
    counts = []
    for runs in by_case.values():
        if stopped and single:
            runs = [run for place, run in enumerate(runs, 1) if run.key.repetition == place]
        elif stopped and len(runs) < spec.repetitions:
            break
        outcomes = Counter(run.outcome for run in runs)
        if count := outcomes["passed"] + outcomes["failed"]:
            counts.append(Count(outcomes["passed"], count))
    if not counts:
        return [], None, None
    rate = sum(count.rate for count in counts) / len(counts)
    if not stopped:
        return counts, rate, wilson(rate, counts[0].runs) if single else clustered_interval(counts)
    values = [count.rate for count in counts]
    if single:
        values = [1.0] * counts[0].passed + [0.0] * (counts[0].runs - counts[0].passed)
    return counts, rate, confidence_sequence(values)


def _powers(spec: Spec, counts: Sequence[Count]) -> tuple[PassPower, ...]:
    """pass^k for k = 2, 4, 8… up to the smallest number of runs of a case; pass^1 is the rate."""
    most = min((count.runs for count in counts), default=0)
    if most < 2:
        return ()
    ks = (*(k for k in (2, 4, 8, 16, 32, 64) if k < most), most)
    intervals = pass_powers(tuple(counts), ks, str(spec.seed))
    means = [sum(pass_power(count, k) for count in counts) / len(counts) for k in ks]
    return tuple(PassPower(*power) for power in zip(ks, means, intervals, strict=True))


# Comparisons --------------------------------------------------------------------------------------


def _comparisons(
    spec: Spec, groups: Mapping[RunGroup, Sequence[RunResult]], state: BatchState
) -> list[Comparison]:
    """Each variant compared with the first, for each model; if there is only one variant, each
    model compared with the first, with `model` ""."""
    sides = {group: _side(runs) for group, runs in groups.items()}
    order = [case.id for case in spec.case_order()]
    pairs: dict[tuple[str, str, str], Pairs] = {}
    baseline, first = spec.variants[0].name, spec.models[0].label
    for model in spec.models:
        for variant in spec.variants[1:]:
            pairs[model.label, baseline, variant.name] = pair_up(
                sides[model.label, baseline],
                sides[model.label, variant.name],
                order,
                spec.repetitions,
            )
        if len(spec.variants) == 1 and model.label != first:
            pairs["", first, model.label] = pair_up(
                sides[first, baseline], sides[model.label, baseline], order, spec.repetitions
            )
    return compare(pairs, stopped=state == "stopped")


def _side(results: Sequence[RunResult]) -> dict[str, dict[int, bool | None]]:
    side: dict[str, dict[int, bool | None]] = defaultdict(dict)
    for result in results:
        passed = result.outcome == "passed" if result.counts else None
        side[result.key.case][result.key.repetition] = passed
    return side


# Its statements in words --------------------------------------------------------------------------


def percent(share: float) -> str:
    """0.825 as "82 %"; near 0 and 1 with another digit, so that only 1 is "100 %"."""
    digits = 1 if 0 < share < 0.01 or 0.99 < share < 1 else 0
    return f"{100 * share:.{digits}f} %"


def percents(interval: Interval) -> str:
    """An interval of a rate: "72–89 %"."""
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"


def plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def scope_sentence(report: BatchReport) -> str:
    """What the rates and their intervals refer to."""
    spec = report.spec
    each = plural(spec.repetitions, "run")
    if len(spec.cases) == 1:
        what = (
            f"These results apply to one prompt only. The sample is its runs: {each} per variant."
        )
    else:
        what = f"The sample is {plural(len(spec.cases), 'case')}, with {each} each per variant."
    if report.rough:
        what += " With so few cases, the intervals are rough."
    over = f"{len(report.results):,} of {plural(spec.runs, 'run')}"
    match report.state:
        case "running":
            return f"The intervals are not final: {over} finished so far. {what}"
        case "stopped":
            return (
                f"The batch was stopped after {over}. The intervals are confidence sequences over "
                f"the complete cases, valid at any stopping point. {what}"
            )
    return f"{what} Intervals are 95 % confidence intervals."


def comparison_sentence(report: BatchReport, comparison: Comparison) -> str:
    """The verdict with its figures."""
    pair = f"“{comparison.b}” is {{}} than “{comparison.a}”"
    if comparison.model and len(report.spec.models) > 1:
        pair += f" with {comparison.model}"
    if comparison.too_few_count:
        return (
            f"No verdict whether {pair.format('better')}: {comparison.left_out} of "
            f"{plural(comparison.pairs, 'pair')} of runs could not be compared, more than 5 %."
        )
    figures, how = _figures(comparison), _evidence(report, comparison)
    if comparison.verdict == "undecided":
        more = _more_runs(report, comparison)
        return f"Not decided whether {pair.format('better')}: {figures}{how}{more}."
    return f"{pair.format(comparison.verdict)}: {figures}{how}."


def _figures(comparison: Comparison) -> str:
    if comparison.difference is None:
        return "no pair of runs is complete"
    points = abs(100 * comparison.difference)
    more = "more" if comparison.difference >= 0 else "fewer"
    figure = f"{points:.1f}".removesuffix(".0")
    units = plural(comparison.units, comparison.unit)
    over = f"over {units}" if comparison.unit == "case" else f"for this prompt, over {units} each"
    words = f"{figure} points {more} {over}"
    if comparison.interval is not None:
        low, high = (_signed_points(100 * end) for end in comparison.interval)
        words += f" (95 % interval {low} to {high})"
    return words


def _signed_points(points: float) -> str:
    number = round(points)
    return f"{MINUS}{-number}" if number < 0 else f"{number}"


def _evidence(report: BatchReport, comparison: Comparison) -> str:
    """The evidence for the verdict, or for its absence."""
    if comparison.after:
        unit = comparison.unit
        return f"; decided after {plural(comparison.after, unit)} in the order of the seed"
    if comparison.adjusted is None:
        return ""
    among = len(report.comparisons)
    of = f" among {among} comparisons" if among > 1 else ""
    test = "exact test" if comparison.exact else "normal approximation test"
    return f"; {test}, p = {comparison.adjusted:.2g}{of}"


def _more_runs(report: BatchReport, comparison: Comparison) -> str:
    if comparison.units < 2:
        return ""
    if comparison.more is None:
        return (
            f"; deciding so small a difference takes more than {MOST_MORE:,} more "
            f"{comparison.unit}s"
        )
    number = float(f"{comparison.more:.2g}")
    about = f"about {plural(int(number), f'more {comparison.unit}')} would decide"
    return f", so far; {about}" if report.state == "running" else f"; {about}"


def failure_sentences(result: RunResult) -> tuple[str, ...]:
    """Why a run did not pass."""
    checks = tuple(check.sentence for check in result.checks if not check.passed)
    return checks or ((result.detail,) if result.detail else ())


def group_name(model: str, variant: str, report: BatchReport) -> str:
    """The distinguishing name of a group: the variant is left out if there is only one."""
    spec = report.spec
    if len(spec.variants) == 1:
        return model
    return variant if len(spec.models) == 1 else f"{model}, {variant}"
