"""The pages of batches: the list, the form for a new one, and what one has come to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment

from app.evaluation.calls_made import NO_TOOL, Confusion
from app.evaluation.report import (
    BatchReport,
    Cell,
    Group,
    GroupSummary,
    claim,
    comparison_sentence,
    failure_sentences,
    group_name,
    percent,
    percents,
)
from app.evaluation.results import OUTCOMES, RunResult

MOST_RUNS = 60
"""Runs that a row shows one by one."""

MOST_FAILURES = 200
MOST_CASES = 300

STATES: Mapping[str, tuple[str, str]] = {
    "running": ("running", "live"),
    "paused": ("paused", "waiting"),
    "stopped": ("stopped", "waiting"),
    "ended": ("done", "ran"),
}
"""The word of a state, and the colour of its pill."""

OUTCOME_WORDS: Mapping[str, str] = {
    "passed": "passed",
    "failed": "failed",
    "provider_error": "provider error",
    "unknown": "unknown",
    "needs_person": "needs a person",
    "stopped": "stopped",
}
assert OUTCOME_WORDS.keys() == set(OUTCOMES)


@dataclass(frozen=True)
class BatchState:
    """A batch of the list, or at the head of its page; `spent` and `limit` in US dollars."""

    id: str
    name: str
    state: str
    why: str
    runs: int
    outcomes: Mapping[str, int]
    under_way: int
    spent: float
    limit: float
    seconds_left: float | None
    created_ms: int

    @property
    def done(self) -> int:
        return sum(self.outcomes.values())

    @property
    def words(self) -> str:
        """How far it is, in a line."""
        words = [f"{self.done:,} of {self.runs:,} runs"]
        if self.under_way:
            words.append(f"{self.under_way} under way")
        if self.seconds_left is not None and self.state == "running":
            words.append(f"{duration(self.seconds_left)} left")
        if self.spent or self.limit:
            of = f" of ${self.limit:,.2f}" if self.limit else ""
            words.append(f"${self.spent:,.2f} spent{of}")
        return " · ".join(words)

    @property
    def version(self) -> str:
        """Another one whenever the page has something new to show."""
        return f"{self.state}.{self.done}.{self.under_way}.{len(self.why)}"


def duration(seconds: float) -> str:
    """Such as "45 s", "3 min 20 s", "2 h 5 min"."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@dataclass(frozen=True)
class RunMark:
    """One run in a row: its outcome, what it is called, and its session, "" for none."""

    outcome: str
    title: str
    session: str


@dataclass(frozen=True)
class GroupRow:
    """A model with a variant. `bar` is (left end, rate, right end) of its interval in per cent."""

    name: str
    summary: GroupSummary
    marks: tuple[RunMark, ...]
    waiting: int
    further: int
    rate: str
    interval: str
    bar: tuple[float, float, float] | None


@dataclass(frozen=True)
class CaseRow:
    """A case over all groups; `cells` in their order."""

    case: str
    category: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Failure:
    """Runs of one case, model and variant that did not pass, all for the same reasons."""

    name: str
    outcome: str
    sentences: tuple[str, ...]
    marks: tuple[RunMark, ...]


@dataclass(frozen=True)
class Heat:
    """A number of a matrix: its shade from 0 to 4, and whether it should have been elsewhere."""

    count: int
    shade: int
    wrong: bool


@dataclass(frozen=True)
class Matrix:
    """Expected tools by called tools."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Heat, ...]], ...]


def group_row(report: BatchReport, summary: GroupSummary, runs: Sequence[RunResult]) -> GroupRow:
    """The row of one model and variant, whose runs are `runs`."""
    interval = summary.interval
    bar = None
    if interval is not None and summary.rate is not None:
        bar = (100 * interval.low, 100 * summary.rate, 100 * interval.high)
    shown = runs[:MOST_RUNS]
    waiting = min(summary.planned, MOST_RUNS) - len(shown)
    return GroupRow(
        group_name(summary.model, summary.variant, report),
        summary,
        tuple(_mark(run) for run in shown),
        max(0, waiting),
        max(0, summary.planned - MOST_RUNS),
        "–" if summary.rate is None else percent(summary.rate),
        "" if interval is None else percents(interval),
        bar,
    )


def _mark(run: RunResult) -> RunMark:
    title = f"{run.key.case}, repetition {run.key.repetition}: {OUTCOME_WORDS[run.outcome]}"
    return RunMark(run.outcome, title, run.session or "")


def case_rows(report: BatchReport) -> list[CaseRow]:
    """All cases in the order of the SPEC, at most `MOST_CASES`."""
    groups = [(summary.model, summary.variant) for summary in report.summaries]
    cells: dict[tuple[str, Group], Cell] = {
        (cell.case, (cell.model, cell.variant)): cell for cell in report.cells
    }
    return [
        CaseRow(case.id, case.category, tuple(cells[case.id, group] for group in groups))
        for case in report.spec.cases[:MOST_CASES]
    ]


def failures(report: BatchReport) -> list[Failure]:
    """Runs that are over and did not pass, those alike together, in the order they were asked."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[RunMark]] = {}
    for run in report.failures:
        name = f"{run.key.case} · {group_name(run.key.model, run.key.variant, report)}"
        alike.setdefault((name, run.outcome, failure_sentences(run)), []).append(_mark(run))
    return [Failure(*reason, tuple(marks)) for reason, marks in alike.items()]


def matrix(confusion: Confusion) -> Matrix | None:
    """None where nothing is expected of tools."""
    called = {tool for row in confusion.values() for tool in row}
    names = [*sorted((called | confusion.keys()) - {NO_TOOL}), NO_TOOL]
    most = max((count for row in confusion.values() for count in row.values()), default=0)
    if not most:
        return None
    rows = tuple(
        (
            expected,
            tuple(
                _heat(confusion[expected].get(tool, 0), most, tool != expected) for tool in names
            ),
        )
        for expected in names
        if expected in confusion
    )
    return Matrix(tuple(names), rows)


def _heat(count: int, most: int, wrong: bool) -> Heat:
    return Heat(count, -(-4 * count // most), wrong and count > 0)


def list_page(env: Environment, batches: Sequence[BatchState], now_ms: int) -> str:
    """GET /batches"""
    return env.get_template("batches.html").render(batches=batches, states=STATES, now_ms=now_ms)


@dataclass(frozen=True)
class BatchForm:
    """What was typed into the form of a new batch; `wrong` says why it cannot begin. `notes` are
    sentences on what an import or a session could not give."""

    spec: str = ""
    models: tuple[str, ...] = ()
    repetitions: str = ""
    max_cost: str = ""
    session: str = ""
    title: str = ""
    wrong: str = ""
    notes: tuple[str, ...] = ()


def form_page(
    env: Environment, form: BatchForm, groups: Sequence[tuple[str, Sequence[tuple[str, str]]]]
) -> str:
    """GET /batches/new. `groups` are (title, (profile, its model)) to choose from."""
    return env.get_template("batch_new.html").render(form=form, groups=groups)


def _around(batch: BatchState, report: BatchReport) -> dict[str, Any]:
    runs: dict[Group, list[RunResult]] = {}
    for result in report.results:
        runs.setdefault((result.key.model, result.key.variant), []).append(result)
    return {
        "batch": batch,
        "report": report,
        "states": STATES,
        "claim": claim(report),
        "verdicts": [
            (comparison.verdict, comparison_sentence(report, comparison))
            for comparison in report.comparisons
        ],
        "groups": [
            group_row(report, summary, runs.get((summary.model, summary.variant), []))
            for summary in report.summaries
        ],
        "cases": case_rows(report),
        "more_cases": max(0, len(report.spec.cases) - MOST_CASES),
        "failures": (alike := failures(report))[:MOST_FAILURES],
        "more_failures": max(0, len(alike) - MOST_FAILURES),
        "matrix": matrix(report.confusion),
        "ways": [
            (group_name(way.model, way.variant, report), way)
            for way in report.ways
            if way.deviations
        ],
        "outcome_words": OUTCOME_WORDS,
    }


def batch_page(env: Environment, batch: BatchState, report: BatchReport) -> str:
    """GET /batches/ID"""
    return env.get_template("batch.html").render(_around(batch, report))


def report_fragment(env: Environment, batch: BatchState, report: BatchReport) -> str:
    """What the page shows of the batch, which a running one asks for again."""
    return env.get_template("_batch.html").render(_around(batch, report))
