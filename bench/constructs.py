"""Writes docs/constructs.md from the tables of limits.

    python -m bench.constructs

The page has a row for each construct of tests/simulator/constructs.py, then the limits, then their
sources. Constructs with equal cells share a row, and so do limits that differ only in the keyword.
tests/simulator/test_constructs.py checks that the document is up to date and correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playground.core.settings import PROTOCOLS
from playground.core.tools import Tool
from playground.protocols.gemini import limits as gemini
from playground.protocols.lint import findings
from playground.protocols.registry import LIMITS
from playground.protocols.server import Citation
from playground.protocols.tool_limits import Finding, Limit, Severity
from tests.simulator.constructs import CONSTRUCTS, Construct

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "constructs.md"

CHAT, RESPONSES = "openai_chat", "openai_responses"
COLUMNS: dict[str, tuple[str, ...]] = {
    "Anthropic": ("anthropic",),
    "OpenAI": (CHAT, RESPONSES),
    "Gemini": ("gemini",),
    "Ollama": ("ollama",),
}
"""The protocols of each column. If they differ, the cell names both."""
SHORT_NAMES = {CHAT: "Chat", RESPONSES: "Responses"}
HEADINGS = {
    "anthropic": "Anthropic",
    CHAT: "OpenAI: both APIs, or Chat Completions alone",
    RESPONSES: "OpenAI: Responses alone",
    "gemini": "Gemini",
    "ollama": "Ollama",
}
VERDICTS: dict[Severity, str] = {
    "refused": "**refused**",
    "ignored": "ignored",
    "strict": "not strict",
}
"""The words of a cell, the worst first."""
ACCEPTED = "accepted"
PLACE = "\0"
MODES: dict[Severity, str] = {"strict": "strict", "ignored": "ignored", "weak": "advice"}
HEAD = """\
# What providers accept in tools

This page lists constructs of a tool's JSON Schema, name and description, and what each provider
does with them. `python -m bench.constructs` generates it from the tables of limits in
`protocols/NAME/limits`. Tests check every cell: for the request that the program sends, the
preflight, the simulator's strict check and lint must agree with the cell.

| cell | meaning |
| --- | --- |
| accepted | the provider accepts it |
| not strict | accepted, but refused if the tool is strict |
| **refused** | refused with status 400 |
| ignored | accepted, but a part of it has no effect |
| 7 | the number of a source, listed [below](#sources) |
| (i) | inferred: no real answer of the provider was seen |
"""
LIMITS_HEAD = """\
## Limits

The first column is the sentence of lint and of the preflight. The third column is the error message
of the simulator. An … stands for a name or a value of the tool.

| mode | meaning |
| --- | --- |
| (empty) | refused, whether the tool is strict or not |
| strict | refused only if the tool is strict |
| ignored | accepted, but without effect |
| advice | some models or servers refuse it, or it may cause errors |
"""


class Sources:
    """The sources, numbered from 1 in the order of their first use."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, source: Citation) -> str:
        number = self._numbers.setdefault(source.words, len(self._numbers) + 1)
        return f"{number}{' (i)' if source.inferred else ''}"

    def lines(self) -> list[str]:
        return [f"{number}. {words}" for words, number in self._numbers.items()]


@dataclass(frozen=True)
class LimitRow:
    """A limit as a row of the page. PLACE stands for its `keyword`, if it has one, in `says` and
    `refusal`."""

    mode: str
    says: str
    refusal: str
    mark: str
    keyword: str


def document(constructs: Iterable[Construct] = CONSTRUCTS) -> str:
    """The text of docs/constructs.md."""
    sources = Sources()
    lines = [*construct_lines(constructs, sources), "", *limit_lines(sources)]
    return "\n".join([HEAD, *lines, "", "## Sources", "", *sources.lines(), ""])


def construct_lines(constructs: Iterable[Construct], sources: Sources) -> list[str]:
    rows: dict[tuple[str, ...], list[str]] = {}
    for construct in constructs:
        cells = tuple(column_cell(construct.tool, names, sources) for names in COLUMNS.values())
        rows.setdefault(cells, []).append(escape(construct.about))
    accepted_by_all = rows.pop((ACCEPTED,) * len(COLUMNS), [])
    return [
        "## Accepted by all",
        "",
        *(f"- {about}" for about in accepted_by_all),
        "",
        "## Where providers differ",
        "",
        f"| construct | {' | '.join(COLUMNS)} |",
        "| --- " * (len(COLUMNS) + 1) + "|",
        *(f"| {' · '.join(abouts)} | {' | '.join(cells)} |" for cells, abouts in rows.items()),
    ]


def column_cell(tool: Tool, protocols: Sequence[str], sources: Sources) -> str:
    cells = {protocol: protocol_cell(tool, protocol, sources) for protocol in protocols}
    if len(set(cells.values())) == 1:
        return cells[protocols[0]]
    return "; ".join(f"{SHORT_NAMES[protocol]}: {cell}" for protocol, cell in cells.items())


def protocol_cell(tool: Tool, protocol: str, sources: Sources) -> str:
    """The worst finding of lint, without advice, and its sources."""
    lint_findings = [finding for finding in findings(tool, (protocol,)) if finding.protocol]
    for severity, verdict in VERDICTS.items():
        if worst := [finding for finding in lint_findings if finding.severity == severity]:
            marks = dict.fromkeys(sources.mark(citation(finding)) for finding in worst)
            return f"{verdict} {', '.join(marks)}"
    return ACCEPTED


def citation(finding: Finding) -> Citation:
    return Citation(finding.source, finding.inferred)


def limit_lines(sources: Sources) -> list[str]:
    """Every row of the tables once, with our sentence and the provider's message."""
    tables = [(HEADINGS[name], LIMITS[name]) for name in PROTOCOLS]
    tables.append(("Gemini, schemas in `parameters`", gemini.PLAIN))
    lines = [LIMITS_HEAD]
    written: set[int] = set()
    for heading, table in tables:
        limits = [limit for limit in table.rows if id(limit) not in written]
        written |= set(map(id, limits))
        lines += [
            f"### {heading}",
            "",
            f"| {table.who} … | mode | error message | source |",
            "| --- | --- | --- | --- |",
            *merged_rows(limit_row(limit, sources) for limit in limits),
            "",
        ]
    return lines[:-1]


def limit_row(limit: Limit[Any], sources: Sources) -> LimitRow:
    says, refusal = readable(limit.says), readable(limit.refusal)
    keyword = ""
    if (match := re.search(r"`(\$?\w+)`", says)) is not None:
        keyword = match[1]
        says = says.replace(f"`{keyword}`", PLACE)
        refusal = re.sub(rf"(?<![\w$]){re.escape(keyword)}(?!\w)", PLACE, refusal, count=1)
    return LimitRow(
        MODES.get(limit.severity, ""), says, refusal, sources.mark(limit.source), keyword
    )


def merged_rows(rows: Iterable[LimitRow]) -> list[str]:
    """Lines of the table. Rows of one source that differ in the keyword are one line, and so are
    rows without a keyword that differ in the source."""
    merged: dict[tuple[str, ...], list[LimitRow]] = {}
    for row in rows:
        same_source = row.mark if row.keyword else ""
        merged.setdefault((row.mode, row.says, row.refusal, same_source), []).append(row)
    lines = []
    for (mode, says, refusal, _), alike in merged.items():
        keywords = list(dict.fromkeys(row.keyword for row in alike))
        named = ", ".join(f"`{keyword}`" for keyword in keywords)
        quoted = keywords[0] if len(keywords) == 1 else "…"
        marks = ", ".join(dict.fromkeys(row.mark for row in alike))
        cells = (says.replace(PLACE, named), mode, refusal.replace(PLACE, quoted), marks)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def readable(template: str) -> str:
    """The words of a limit, with … for a name or a value."""
    words = escape(template.replace("{at}", "").replace("{why}", "")).strip()
    braces = {"{{": "{", "}}": "}"}
    return re.sub(r"\{\{|\}\}|\{[^{}]+\}", lambda hole: braces.get(hole[0], "…"), words)


def escape(text: str) -> str:
    """`text` as it is written in a cell."""
    return text.replace("|", r"\|").replace("<", "&lt;")


if __name__ == "__main__":
    DOCUMENT.write_text(document())
