"""A report as one HTML page that opens from disk, asks for nothing and runs nothing: its own CSP
says so, and its only style is the one that the CSP names."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup, escape

from app.evaluation.calls_made import ArgumentUse, Confusion
from app.evaluation.report import (
    BatchReport,
    Cell,
    GroupSummary,
    claim,
    comparison_sentence,
    failure_sentences,
    group_name,
    percent,
    percents,
)

MOST_FAILURES = 500

STYLES = """\
:root { color-scheme: light dark; --line: #dcdce0; --soft: #6b6b76; --back: #fff; --text: #1b1b21;
  --good: #2e7d4f; --bad: #b3261e; --wait: #8a6d00; --fill: 47, 91, 216; }
@media (prefers-color-scheme: dark) { :root { --line: #3a3a44; --soft: #a0a0ac; --back: #17171c;
  --text: #ececf1; --good: #6fcf97; --bad: #ff8a80; --wait: #e0c060; --fill: 110, 145, 255; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1240px; padding: 24px 16px;
  color: var(--text); background: var(--back); }
h1 { font-size: 22px; margin: 0; } h2 { font-size: 16px; margin: 28px 0 8px; }
p, li { max-width: 80ch; } .soft { color: var(--soft); } ul { padding-left: 20px; }
.table { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: 4px 12px 4px 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead th { color: var(--soft); font-weight: 500; }
tbody th { font-weight: 500; } .wide { white-space: normal; min-width: 30ch; }
.better, .passes { color: var(--good); } .worse, .fails { color: var(--bad); }
.undecided { color: var(--wait); }
.count { text-align: center; padding: 4px 12px; } .missed { outline: 1px solid var(--bad); }
.heat1 { background: rgba(var(--fill), .10); } .heat2 { background: rgba(var(--fill), .22); }
.heat3 { background: rgba(var(--fill), .36); } .heat4 { background: rgba(var(--fill), .50); }
code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
summary { cursor: pointer; }
"""


def page(report: BatchReport) -> str:
    """The whole page."""
    title = report.spec.name or "Batch"
    digest = base64.b64encode(hashlib.sha256(STYLES.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = Markup(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="{}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<h1>{}</h1>\n"
    ).format(policy, title, Markup(STYLES), title)
    body = Markup("\n").join(Markup("").join(part) for part in _parts(report))
    return f"{head}{body}\n</body>\n</html>\n"


def _parts(report: BatchReport) -> Iterator[Iterable[Markup]]:
    yield [Markup('<p class="soft">{}</p>').format(claim(report))]
    if report.comparisons:
        yield _list(
            "Verdicts",
            (
                Markup('<span class="{}">{}</span>').format(
                    comparison.verdict, comparison_sentence(report, comparison)
                )
                for comparison in report.comparisons
            ),
        )
    if report.findings:
        yield _list("Findings", (escape(finding.sentence) for finding in report.findings))
    yield _table("Rates", _RATES, (_rate_row(summary) for summary in report.summaries))
    if report.confusion:
        yield _confusion(report.confusion)
    yield _cases(report)
    sentences = [
        Markup("<b>{}</b>: {}").format(group_name(way.model, way.variant, report), sentence)
        for way in report.ways
        for sentence in way.deviations
    ]
    if sentences:
        yield _list("What differs", sentences)
    if report.arguments:
        yield _table("Arguments", _ARGUMENTS, map(_argument_row, report.arguments))
    if report.failures:
        yield _failures(report)


# Pieces -------------------------------------------------------------------------------------------


def _list(title: str, items: Iterable[Markup]) -> Iterator[Markup]:
    yield Markup("<h2>{}</h2>\n<ul>\n").format(title)
    for item in items:
        yield Markup("<li>{}</li>\n").format(item)
    yield Markup("</ul>")


def _table(title: str, head: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[Markup]:
    """The first column names its row; a cell that is Markup brings its own <td>."""
    yield Markup('<h2>{}</h2>\n<div class="table" tabindex="0"><table>\n<thead><tr>').format(title)
    for text in head:
        yield Markup('<th scope="col">{}</th>').format(text)
    yield Markup("</tr></thead>\n<tbody>\n")
    for first, *others in rows:
        yield Markup('<tr><th scope="row">{}</th>').format(first)
        for cell in others:
            yield cell if isinstance(cell, Markup) else Markup("<td>{}</td>").format(cell)
        yield Markup("</tr>\n")
    yield Markup("</tbody></table></div>")


_RATES = (
    *("Model", "Variant", "Passed", "Rate", "pass^k", "Right tool", "Arguments valid"),
    *("Calls / run", "First call", "Cost / run"),
)


def _rate_row(summary: GroupSummary) -> Iterator[object]:
    yield summary.model
    yield summary.variant
    yield f"{summary.outcomes.get('passed', 0)} of {summary.runs}"
    if summary.rate is None or summary.interval is None:
        yield "–"
    else:
        yield f"{percent(summary.rate)} ({percents(summary.interval)})"
    powers = [
        f"pass^{power.k} {percent(power.rate)} ({percents(power.interval)})"
        for power in summary.powers
    ]
    yield Markup("<td>{}</td>").format(Markup("<br>").join(powers or ["–"]))
    yield "{} of {}".format(*summary.right_tool)
    yield "{} of {}".format(*summary.valid_arguments)
    yield "–" if summary.calls_per_run is None else f"{summary.calls_per_run:.1f}"
    yield "–" if summary.first_call_s is None else f"{summary.first_call_s:.2f} s"
    yield "–" if summary.cost is None else f"${summary.cost:.4f}"


def _confusion(matrix: Confusion) -> Iterator[Markup]:
    """The darker, the larger the share of the row; what should not be there has an outline."""
    called = sorted({tool for row in matrix.values() for tool in row})

    def cell(tool: str, name: str) -> Markup:
        row = matrix[tool]
        count, total = row.get(name, 0), sum(row.values())
        heat = -(-4 * count // total)
        missed = " missed" if count and name != tool else ""
        return Markup('<td class="count heat{}{}">{}</td>').format(heat, missed, count or "")

    rows = ((tool, *(cell(tool, name) for name in called)) for tool in matrix)
    return _table("Expected (rows) and called (columns)", ("", *called), rows)


def _cases(report: BatchReport) -> Iterator[Markup]:
    groups = [(summary.model, summary.variant) for summary in report.summaries]
    cells = {(cell.case, cell.model, cell.variant): cell for cell in report.cells}
    rows = (
        (case.id, *(_cell(cells[case.id, *group]) for group in groups))
        for case in report.spec.cases
    )
    return _table("Cases", ("Case", *(group_name(*group, report) for group in groups)), rows)


def _cell(cell: Cell) -> Markup:
    look, mark = {True: ("passes", "✓ "), False: ("fails", "✗ "), None: ("", "")}[cell.passes]
    text = f"{mark}{cell.passed} of {cell.runs}" if cell.runs else "–"
    return Markup('<td class="{}">{}</td>').format(look, text)


_ARGUMENTS = ("Tool", "Argument", "Type", "Given", "Values")


def _argument_row(use: ArgumentUse) -> Iterator[object]:
    yield use.tool
    yield use.name
    yield use.form
    yield f"{use.given} of {use.calls}"
    values = [
        Markup('<code class="{}">{}</code> × {}{}').format(
            "fails" if value.problem else "",
            value.value,
            value.count,
            f" {value.problem}" if value.problem else "",
        )
        for value in use.values
    ]
    more = [Markup("{} more").format(use.further)] if use.further else []
    yield Markup('<td class="wide">{}</td>').format(Markup(", ").join(values + more))


def _failures(report: BatchReport) -> Iterator[Markup]:
    shown = report.failures[:MOST_FAILURES]
    yield Markup("<h2>Not passed</h2>\n<details{}><summary>{} runs</summary>\n<ul>\n").format(
        Markup(" open") if len(shown) <= 20 else "", len(report.failures)
    )
    for result in shown:
        key = result.key
        yield Markup('<li><b>{}</b>, {}, run {}: {} <span class="soft">{}</span></li>\n').format(
            key.case,
            group_name(key.model, key.variant, report),
            key.repetition,
            " ".join(failure_sentences(result)) or result.outcome.replace("_", " "),
            f"session {result.session}" if result.session else "",
        )
    if len(report.failures) > len(shown):
        yield Markup("<li>and {} more</li>\n").format(len(report.failures) - len(shown))
    yield Markup("</ul></details>")
