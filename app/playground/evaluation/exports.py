"""A report as a file: CSV of the runs, JSON, JUnit for CI, Markdown, and one HTML page.

write_report       a report as a file in one of FORMATS, redacted
write_unredacted   the same as it is
batch_ended        the last line of `playground batch --json`, which is also the JSON file

Names and texts come from untrusted prompts, models and tools: each format documents how it escapes
them.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape as xml_escape
from xml.sax.saxutils import quoteattr

from jinja2 import Environment
from markupsafe import Markup

from playground.core.serialization import to_data, with_texts
from playground.evaluation.calls_made import Confusion
from playground.evaluation.report import (
    BatchReport,
    Cell,
    GroupSummary,
    comparison_sentence,
    failure_sentences,
    group_name,
    make_report,
    percent,
    percents,
    scope_sentence,
)
from playground.evaluation.results import RunResult
from playground.evaluation.statistics import Comparison
from playground.exchange.bundle import ExportFile, file_name
from playground.exchange.markdown import escape as markdown_escape
from playground.secrets.likely_secrets import SecretCollector, redact_likely
from playground.secrets.redaction import Redactor

MOST_ROWS = 200
"""Cells and failures in a Markdown file; of the others only the number is given."""

MOST_FAILURES = 500
"""The same for the HTML page."""

_COLUMNS = (
    *("case", "category", "variant", "model", "repetition", "outcome", "why", "calls", "text"),
    *("finish_reason", "tokens_in", "tokens_out", "seconds", "to_first_call_s", "cost", "session"),
)

_FORMULA = re.compile(r"[\s\0]*[=+\-@＝＋－＠]|[\t\r\n\0]")

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_LEFT = ("key", "expectation", "session", "finish_reason")
"""Fields of a result that are no text of a model or a tool."""


def write_csv(report: BatchReport) -> ExportFile:
    """A line for each finished run."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for result in report.results:
        writer.writerow([_cell_text(value) for value in _row(report, result)])
    return _file(report, "csv", "text/csv", text.getvalue())


def _row(report: BatchReport, result: RunResult) -> tuple[object, ...]:
    key = result.key
    calls = [f"{call.name}({call.arguments})" for call in result.calls]
    return (
        *(key.case, report.spec.by_id[key.case].category, key.variant, key.model, key.repetition),
        *(result.outcome, " ".join(failure_sentences(result)), " → ".join(calls), result.text),
        *(result.finish_reason, result.tokens_in, result.tokens_out, result.seconds),
        *(result.to_first_call_s, result.cost, result.session),
    )


def _cell_text(value: object) -> object:
    """A leading apostrophe for text that a spreadsheet takes for a formula (CWE-1236)."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


# JSON ---------------------------------------------------------------------------------------------


def batch_ended(report: BatchReport) -> dict[str, Any]:
    """The object of docs/reference/commands.md."""
    outcomes = report.outcomes
    return {
        "kind": "batch_ended",
        "name": report.spec.name,
        "state": report.state,
        "seed": report.spec.seed,
        "planned": report.spec.runs,
        "runs": len(report.results),
        "passed": outcomes["passed"],
        "failed": outcomes["failed"],
        "provider_errors": outcomes["provider_error"],
        "unknown": outcomes["unknown"],
        "needs_person": outcomes["needs_person"],
        "cost": round(report.cost, 6),
        "claim": scope_sentence(report),
        "cells": [_cell_data(cell) for cell in report.cells],
        "rates": [_summary_data(summary) for summary in report.summaries],
        "comparisons": [_comparison_data(report, each) for each in report.comparisons],
        "confusion": {tool: dict(row) for tool, row in report.confusion.items()},
        "findings": to_data(report.findings),
        "failures": [
            {
                **result.key._asdict(),
                "outcome": result.outcome,
                "session": result.session,
                "why": list(failure_sentences(result)),
            }
            for result in report.failures
        ],
    }


def _cell_data(cell: Cell) -> dict[str, Any]:
    return {
        "case": cell.case,
        "model": cell.model,
        "variant": cell.variant,
        "runs": cell.runs,
        "passed": cell.passed,
        "rate": _round_number(cell.rate),
        "interval": _round_number(cell.interval),
        "passes": cell.passes,
        "session": cell.session,
    }


def _summary_data(summary: GroupSummary) -> dict[str, Any]:
    return {
        "model": summary.model,
        "variant": summary.variant,
        "runs": summary.runs,
        "cases": summary.cases,
        "rate": _round_number(summary.rate),
        "interval": _round_number(summary.interval),
        "pass_powers": [
            {
                "k": power.k,
                "rate": _round_number(power.rate),
                "interval": _round_number(power.interval),
            }
            for power in summary.powers
        ],
        "right_tool": list(summary.right_tool),
        "valid_arguments": list(summary.valid_arguments),
        "calls_per_run": _round_number(summary.calls_per_run),
        "first_call_s": _round_number(summary.first_call_s),
        "seconds": _round_number(summary.seconds),
        "cost": _round_number(summary.cost),
        "tokens": _round_number(summary.tokens),
    }


def _comparison_data(report: BatchReport, comparison: Comparison) -> dict[str, Any]:
    return {
        "model": comparison.model,
        "a": comparison.a,
        "b": comparison.b,
        "verdict": comparison.verdict,
        "p": _round_number(comparison.p),
        "adjusted": _round_number(comparison.adjusted),
        "more": comparison.more,
        "unit": comparison.unit,
        "units": comparison.units,
        "difference": _round_number(comparison.difference),
        "interval": _round_number(comparison.interval),
        "decided_after": comparison.after or None,
        "pairs": comparison.pairs,
        "left_out": comparison.left_out,
        "sentence": comparison_sentence(report, comparison),
    }


def _round_number(value: Any) -> Any:
    """Six decimal places, or for small numbers six significant digits."""
    match value:
        case tuple():
            return [_round_number(each) for each in value]
        case float():
            return round(value, 6) if abs(value) >= 0.001 else float(f"{value:.6g}")
    return value


def write_json(report: BatchReport) -> ExportFile:
    """`batch_ended`, indented."""
    text = json.dumps(batch_ended(report), indent=2) + "\n"
    return _file(report, "json", "application/json", text)


# JUnit --------------------------------------------------------------------------------------------


def write_junit(report: BatchReport) -> ExportFile:
    """A suite for each model and variant, a test for each case: a failure if fewer runs passed than
    required, an error if provider errors or missing decisions left nothing to judge, skipped if
    runs are missing. Uses only what Jenkins' schema (xunit-plugin's junit-10.xsd) defines."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_attribute(report.spec.name or 'batch')}>",
        *(line for summary in report.summaries for line in _suite(report, summary)),
        "</testsuites>",
    ]
    return _file(report, "xml", "application/xml", "\n".join(lines) + "\n")


def _suite(report: BatchReport, summary: GroupSummary) -> list[str]:
    """The lines of a suite."""
    name = f"{summary.model}, {summary.variant}"
    group = (summary.model, summary.variant)
    cells = [cell for cell in report.cells if (cell.model, cell.variant) == group]
    judgements = [_judgement(cell) for cell in cells]
    states = Counter(state for state, _ in judgements)
    counts = f'failures="{states["failure"]}" errors="{states["error"]}"'
    counts += f' skipped="{states["skipped"]}" time="{sum(cell.seconds for cell in cells):.3f}"'
    return [
        f'  <testsuite name={_attribute(name)} tests="{len(cells)}" {counts}>',
        *(
            line
            for cell, judgement in zip(cells, judgements, strict=True)
            for line in _test(report, cell, name, *judgement)
        ),
        "  </testsuite>",
    ]


def _judgement(cell: Cell) -> tuple[str, str]:
    """The result of a test that did not pass: the element's name, and its message."""
    if cell.passes is False:
        least = percent(cell.min_pass)
        return "failure", f"{cell.passed} of {cell.runs} runs passed; {least} required"
    if cell.passes is None and cell.over == cell.planned:
        words = [f"{count} {name.replace('_', ' ')}" for name, count in cell.outcomes.items()]
        return "error", f"nothing to check: {', '.join(words)}"
    if cell.passes is None:
        return "skipped", f"{cell.over} of {cell.planned} runs have ended"
    return "", ""


def _test(report: BatchReport, cell: Cell, suite: str, state: str, message: str) -> Iterator[str]:
    names = f"classname={_attribute(suite)} name={_attribute(cell.case)}"
    opening = f'    <testcase {names} time="{cell.seconds:.3f}"'
    if not state:
        yield f"{opening}/>"
        return
    yield f"{opening}>"
    lines = [
        f"run {result.key.repetition}: {sentence}"
        + (f" (session {result.session})" if result.session else "")
        for result in report.results
        if result.key[:3] == (cell.case, cell.variant, cell.model)
        for sentence in failure_sentences(result)
    ]
    body = xml_escape(_xml_text("\n".join(lines)))
    kind = "" if state == "skipped" else f' type="{state}"'
    yield f"      <{state} message={_attribute(message)}{kind}>{body}</{state}>"
    yield "    </testcase>"


def _attribute(text: str) -> str:
    return quoteattr(_xml_text(text), {"\n": "&#10;", "\t": "&#9;"})


def _xml_text(text: str) -> str:
    """Without the characters that XML 1.0 cannot represent."""
    return _NO_XML.sub("\ufffd", text)


# Markdown -----------------------------------------------------------------------------------------


def write_markdown(report: BatchReport) -> ExportFile:
    """For a pull request or a job's summary."""
    return _file(report, "md", "text/markdown", "\n\n".join(_blocks(report)) + "\n")


def _blocks(report: BatchReport) -> Iterator[str]:
    yield f"# {markdown_escape(report.spec.name) or 'Batch'}"
    yield markdown_escape(scope_sentence(report))
    if report.comparisons:
        lines = (
            f"- {markdown_escape(comparison_sentence(report, each))}" for each in report.comparisons
        )
        yield "## Verdicts\n\n" + "\n".join(lines)
    if report.findings:
        yield "## Findings\n\n" + "\n".join(
            f"- {markdown_escape(finding.sentence)}" for finding in report.findings
        )
    yield "## Rates\n\n" + _markdown_table(
        ("Model", "Variant", "Passed", "Rate", "Right tool", "Arguments valid"),
        (
            (
                *(summary.model, summary.variant),
                f"{summary.outcomes.get('passed', 0)} of {summary.runs}",
                _rate_text(summary),
                "{} of {}".format(*summary.right_tool),
                "{} of {}".format(*summary.valid_arguments),
            )
            for summary in report.summaries
        ),
    )
    if report.confusion:
        yield "## Expected and called\n\n" + _confusion_table(report.confusion)
    groups = [(summary.model, summary.variant) for summary in report.summaries]
    cells = {(cell.case, cell.model, cell.variant): cell for cell in report.cells}
    cases = [case.id for case in report.spec.cases]
    yield "## Cases\n\n" + _markdown_table(
        ("Case", *(group_name(*group, report) for group in groups)),
        ((case, *(_marks(cells[case, *group]) for group in groups)) for case in cases[:MOST_ROWS]),
    )
    if len(cases) > MOST_ROWS:
        yield f"and {len(cases) - MOST_ROWS} more cases."
    if report.failures:
        yield "## Not passed\n\n" + "\n".join(
            f"- {markdown_escape(_run_name(report, result))}: "
            f"{markdown_escape(' '.join(failure_sentences(result)))}"
            for result in report.failures[:MOST_ROWS]
        )
    if len(report.failures) > MOST_ROWS:
        yield f"and {len(report.failures) - MOST_ROWS} more."


def _rate_text(summary: GroupSummary) -> str:
    if summary.rate is None or summary.interval is None:
        return "–"
    return f"{percent(summary.rate)} ({percents(summary.interval)})"


def _marks(cell: Cell) -> str:
    mark = {True: "✓ ", False: "✗ ", None: ""}[cell.passes]
    return f"{mark}{cell.passed} of {cell.runs}" if cell.runs else "–"


def _run_name(report: BatchReport, result: RunResult) -> str:
    key = result.key
    name = f"{key.case}, {group_name(key.model, key.variant, report)}"
    return f"{name}, run {key.repetition}" if report.spec.repetitions > 1 else name


def _confusion_table(matrix: Confusion) -> str:
    called = sorted({tool for row in matrix.values() for tool in row})
    rows = ((tool, *(str(row.get(name, "")) for name in called)) for tool, row in matrix.items())
    return _markdown_table(("Expected", *called), rows)


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [[markdown_escape(text) for text in row] for row in (head, *rows)]
    lines.insert(1, ["---"] * len(head))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# HTML ---------------------------------------------------------------------------------------------


def write_html(report: BatchReport, templates: Environment) -> ExportFile:
    """One page that opens from disk. It loads nothing and runs no script: its own CSP forbids it,
    and its only style is the one that the CSP names."""
    styles = templates.get_template("batch_report.css").render()
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    page = templates.get_template("batch_report.html").render(
        report=report,
        title=report.spec.name or "Batch",
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'",
        styles=Markup(styles),
        claim=scope_sentence(report),
        verdicts=[
            (comparison.verdict, comparison_sentence(report, comparison))
            for comparison in report.comparisons
        ],
        groups=[group_name(each.model, each.variant, report) for each in report.summaries],
        called=sorted({tool for row in report.confusion.values() for tool in row}),
        cells={(cell.case, cell.model, cell.variant): cell for cell in report.cells},
        shown_failures=report.failures[:MOST_FAILURES],
        group_name=group_name,
        failure_sentences=failure_sentences,
        rate_text=_rate_text,
        cell_text=_marks,
        percent=percent,
        percents=percents,
    )
    return _file(report, "html", "text/html", page)


def _file(report: BatchReport, ending: str, media_type: str, text: str) -> ExportFile:
    name = file_name(report.spec.name or "batch", ending)
    return ExportFile(name, media_type, text.encode("utf-8", "replace"))


EXPORTS: Mapping[str, Callable[[BatchReport], ExportFile]] = {
    "csv": write_csv,
    "json": write_json,
    "junit": write_junit,
    "markdown": write_markdown,
}
"""The formats that need no template."""

FORMATS = (*EXPORTS, "html")


def write_unredacted(report: BatchReport, form: str, templates: Environment) -> ExportFile:
    """A report as a file in one of FORMATS; `templates` are those of the page."""
    return write_html(report, templates) if form == "html" else EXPORTS[form](report)


def write_report(report: BatchReport, form: str, templates: Environment) -> ExportFile:
    """The file that leaves the machine. Likely secrets in the texts of models and tools are masked;
    known secrets were masked when the results were stored."""
    collector = SecretCollector()

    def collect(_: str, text: str) -> str:
        collector.add(text)
        return text

    for result in report.results:
        with_texts(RunResult, result, collect, left=_LEFT)
    known = Redactor(collector.values())
    masked = [
        with_texts(RunResult, result, lambda _, text: redact_likely(text, known), left=_LEFT)
        for result in report.results
    ]
    if masked != list(report.results):
        report = make_report(report.spec, masked, stopped=report.state == "stopped")
    return write_unredacted(report, form, templates)
