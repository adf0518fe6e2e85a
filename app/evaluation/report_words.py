"""What a report claims, in sentences and figures that page, command line and exports share."""

from __future__ import annotations

from app.evaluation.comparisons import Comparison
from app.evaluation.report import BatchReport
from app.evaluation.results import RunResult
from app.evaluation.sequential import MOST_MORE
from app.evaluation.statistics import Interval

MINUS = "−"


def percent(share: float) -> str:
    """0.825 as "82 %"; near 0 and 1 with a digit more, so that only all is "100 %"."""
    digits = 1 if 0 < share < 0.01 or 0.99 < share < 1 else 0
    return f"{100 * share:.{digits}f} %"


def percents(interval: Interval) -> str:
    """An interval of a rate: "72–89 %"."""
    return f"{100 * interval.low:.0f}–{100 * interval.high:.0f} %"


def plural(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def claim(report: BatchReport) -> str:
    """Of what the rates are the rates, and what their intervals mean."""
    spec = report.spec
    each = plural(spec.repetitions, "run")
    if len(spec.cases) == 1:
        what = f"For this prompt alone, {each} each: the runs are the sample."
    else:
        what = f"Over {plural(len(spec.cases), 'case')}, {each} each: the cases are the sample."
    if report.rough:
        what += " They are few, so the intervals are rough."
    over = f"{len(report.results):,} of {plural(spec.runs, 'run')}"
    match report.state:
        case "running":
            return f"So far {over}: the intervals decide nothing yet. {what}"
        case "stopped":
            return (
                f"Stopped after {over}: the intervals are confidence sequences, which hold whenever"
                f" one stops, over the cases that were complete. {what}"
            )
    return f"{what} Intervals are of 95 %."


def comparison_sentence(report: BatchReport, comparison: Comparison) -> str:
    """The verdict with its figures."""
    pair = f"“{comparison.b}” is {{}} than “{comparison.a}”"
    if comparison.model and len(report.spec.models) > 1:
        pair += f" with {comparison.model}"
    if comparison.too_few_count:
        return (
            f"No verdict whether {pair.format('better')}: {comparison.left_out} of"
            f" {plural(comparison.pairs, 'pair')} of runs say nothing of the model, which is more"
            " than 5 %."
        )
    figures, how = _figures(comparison), _evidence(report, comparison)
    if comparison.verdict == "undecided":
        more = _more(report, comparison)
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
        low, high = (_signed(100 * end) for end in comparison.interval)
        words += f" (95 % interval {low} to {high})"
    return words


def _signed(points: float) -> str:
    number = round(points)
    return f"{MINUS}{-number}" if number < 0 else f"{number}"


def _evidence(report: BatchReport, comparison: Comparison) -> str:
    """What the verdict, or that there is none, rests on."""
    if comparison.after:
        unit = comparison.unit
        return f"; decided after {plural(comparison.after, unit)} in the order of the seed"
    if comparison.adjusted is None:
        return ""
    among = len(report.comparisons)
    of = f" among {among} comparisons" if among > 1 else ""
    test = "exact test" if comparison.exact else "test by the normal law"
    return f"; {test}, p = {comparison.adjusted:.2g}{of}"


def _more(report: BatchReport, comparison: Comparison) -> str:
    if comparison.units < 2:
        return ""
    if comparison.more is None:
        return f"; to tell so small a difference takes over {MOST_MORE:,} more {comparison.unit}s"
    number = float(f"{comparison.more:.2g}")
    about = f"about {plural(int(number), f'more {comparison.unit}')} would tell"
    return f", so far; {about}" if report.state == "running" else f"; {about}"


def failure_sentences(result: RunResult) -> tuple[str, ...]:
    """Why a run did not pass."""
    checks = tuple(check.sentence for check in result.checks if not check.passed)
    return checks or ((result.detail,) if result.detail else ())


def group_name(model: str, variant: str, report: BatchReport) -> str:
    """What tells a group from the others: the variant is left out where there is one alone."""
    spec = report.spec
    if len(spec.variants) == 1:
        return model
    return variant if len(spec.models) == 1 else f"{model}, {variant}"
