"""Each limit of a provider stands once, and whoever speaks of limits reads it there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from bench import constructs
from playground.core.settings import PROTOCOLS
from playground.core.tools import Tool
from playground.protocols.anthropic import limits as anthropic
from playground.protocols.gemini import limits as gemini
from playground.protocols.lint import acceptance_matrix, findings, tool_group_findings
from playground.protocols.ollama import limits as ollama
from playground.protocols.openai_chat import limits as openai_chat
from playground.protocols.openai_responses import limits as openai_responses
from playground.protocols.registry import LIMITS
from playground.protocols.server import Citation
from playground.protocols.tool_limits import Limit, LimitTable, SentTool, recursive_refs
from playground.protocols.vendor_limits import VENDOR_LIMITS
from tests.counted import lines_of
from tests.simulator.constructs import CONSTRUCTS, Construct, closed
from tests.simulator.test_constructs import encode_tools, refusal

APP = Path(__file__).parents[2] / "app/playground"
MODULES: Mapping[str, Any] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "ollama": ollama,
}
TABLES = (*LIMITS.values(), gemini.PLAIN, gemini.ANSWER, *VENDOR_LIMITS.values())
_URL = re.compile(r"https?://[^\s\"'<>)`]+[^\s\"'<>)`.,:;]")

NEW = Citation("https://example.org/limits/1")
ROWS: Mapping[str, Limit[Any]] = {
    "of_tool": Limit(
        "takes no tool that is named {tool.name}",
        lambda tool: tool.name == "look",
        NEW,
        "The name {tool.name} is taken.",
        pointer="/name",
    ),
    "of_schema": Limit(
        "does not know `x-order`", lambda node: "x-order" in node.keys, NEW, "Whose order?"
    ),
}
CONSTRUCT = next(construct for construct in CONSTRUCTS if construct.about == "custom keyword")


def sources_twice(tables: Iterable[LimitTable], texts: Iterable[str]) -> list[str]:
    """The addresses that rows are known from and that stand in `texts` more than once."""
    counts = Counter(url for text in texts for url in _URL.findall(text))
    sources = {row.source.words for table in tables for row in table.rows}
    return sorted(source for source in sources if counts[source] > 1)


def rows_twice(table: LimitTable) -> list[str]:
    """Our words of the rows that say the same as another."""
    counts = Counter(
        (row.says, row.refusal, row.severity, row.source, row.family) for row in table.rows
    )
    return [f"{table.protocol}: {words[0]}" for words, count in counts.items() if count > 1]


def sources() -> list[str]:
    return [path.read_text("utf-8") for path in sorted(APP.rglob("*.py"))]


def test_each_limit_and_its_source_stand_once() -> None:
    assert sources_twice(TABLES, sources()) == []
    assert [words for table in TABLES for words in rows_twice(table)] == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_limit_that_stands_twice_is_found(protocol: str) -> None:
    table = LIMITS[protocol]
    row = next(row for row in table.of_schema if row.source.words.startswith("https:"))
    planted = replace(table, of_schema=(*table.of_schema, row))
    assert rows_twice(planted) == [f"{protocol}: {row.says}"]
    assert sources_twice([table], [*sources(), f'X = "{row.source.words}"\n']) == [row.source.words]


# A row that is added to a copy of the table.


def row_mentions(protocol: str, tool: Tool, construct: Construct) -> list[bool]:
    """Who speaks of a new row: lint, its matrix, the preflight, the end, the page of constructs."""
    lint_findings = [
        finding for finding in findings(tool, (protocol,)) if finding.source == NEW.words
    ]
    plain = next(row.plain for row in acceptance_matrix(tool) if row.protocol == protocol)
    notes = [note for note in encode_tools(protocol, tool).notes if "refused" in note]
    answer = refusal(protocol, tool)
    page = constructs.document([construct])
    return [
        [finding.severity for finding in lint_findings] == ["refused"],
        plain.verdict == "no",
        bool(notes) and lint_findings[0].message in notes[0],
        answer is not None and answer.source == NEW.words,
        "**refused** 1" in page and f"1. {NEW.words}" in page and "| 1 |" in page,
    ]


def plant(monkeypatch: pytest.MonkeyPatch, protocol: str, table: LimitTable) -> None:
    """In the protocol's module and in the registry."""
    monkeypatch.setattr(MODULES[protocol], "LIMITS", table)
    monkeypatch.setitem(cast(dict[str, LimitTable], LIMITS), protocol, table)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_new_row_changes_all_who_speak_of_limits(
    protocol: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = CONSTRUCT.tool
    assert row_mentions(protocol, tool, CONSTRUCT) == [False] * 5
    table = LIMITS[protocol]
    changes: dict[str, Any] = {kind: (*getattr(table, kind), ROWS[kind])}
    grown = replace(table, **changes)
    plant(monkeypatch, protocol, grown)
    assert row_mentions(protocol, tool, CONSTRUCT) == [True] * 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_so_does_one_about_several_tools(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = [Tool(f"look_{n}_up", "Looks something up.", closed()) for n in range(3)]

    def find(several: Any) -> Any:
        return len(several) > 2 and {"count": len(several)}

    row: Limit[Any] = Limit("takes 2 tools, not {count}", find, NEW, "{count} are too many.")
    table = LIMITS[protocol]
    grown = replace(table, of_request=(*table.of_request, row))
    plant(monkeypatch, protocol, grown)
    findings = [
        finding for finding in tool_group_findings(tools, protocol) if finding.source == NEW.words
    ]
    assert [finding.message for finding in findings] == [f"{table.who} takes 2 tools, not 3."]
    assert any(findings[0].message in note for note in encode_tools(protocol, *tools).notes)
    assert str(refusal(protocol, *tools)) == "3 are too many."


def test_of_a_row_that_holds_for_some_models_only_these_are_told() -> None:
    row: Limit[Any] = Limit(
        "takes no tool", lambda tool: True, NEW, "No.", holds=lambda model: model == "small"
    )
    table = LimitTable("anthropic", "Anthropic", of_tool=(row,))
    tool = SentTool("look", "", {})
    assert [len(table.findings(tool, model)) for model in (None, "small", "large")] == [1, 1, 0]


def chain(length: int, last: str) -> dict[str, Any]:
    """A schema whose definitions lead each to the next, and the last to `last`."""
    leads = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**leads, f"d{length}": {"$ref": f"#/$defs/{last}"}}}


def test_each_ref_is_followed_once() -> None:
    """Of a tool that somebody sent nobody waits for the square of its definitions."""
    twenty, hundred = (
        lines_of("protocols", partial(recursive_refs, chain(n, "end"))) for n in (20, 100)
    )
    assert hundred < 6 * twenty
    circle = recursive_refs(chain(5, "d3"))
    assert circle == {"#/$defs/d3", "#/$defs/d4", "#/$defs/d5"}
