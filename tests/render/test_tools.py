"""The pieces of the page of tools: the list, differences, what lint says first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.tools import Tool
from playground.core.value_diff import line_changes
from playground.protocols.lint import Finding
from playground.store.library import LibraryEntry, Version
from playground.web.session.wire_view import SHORT_NAMES
from playground.web.tools.editor import (
    MOST_FIRST,
    Editor,
    OfferedFix,
    ToolCheck,
    ToolForm,
)
from playground.web.tools.view import (
    MOST_VERSIONS,
    history,
    tool_lint,
    tools_by_group,
)
from tests.factories import ADD_EVENT, ASK_ME, WEATHER
from tests.markup import joined_tags
from tests.render.page import ENV

MCP = Tool("m", answered_by="mcp", config={"server": "github", "tool": "m"})
DISK = Tool("d", answered_by="workspace", config={"tool": "read_file"})


def test_groups_are_headings_with_the_persons_own_first() -> None:
    entries = [
        LibraryEntry(replace(WEATHER, group="examples"), shipped=True),
        LibraryEntry(DISK, shipped=True),
        LibraryEntry(replace(ADD_EVENT, group="calendar", strict=True)),
        LibraryEntry(ASK_ME),
        LibraryEntry(MCP, enabled=False),
    ]
    groups = tools_by_group(entries, {"add_event": 2, "m": 1}, {"add": "runs"})
    assert [title for title, _ in groups] == [
        "yours", "calendar", "mcp · github", "workspace", "examples"
    ]  # fmt: skip
    words = {row.name: " · ".join(row.words) for _, rows in groups for row in rows}
    assert words["add_event"].endswith("strict · 2 hints")
    assert words["m"] == "mcp · off · 1 hint"
    assert words["ask_me"] == "you"
    (row,) = groups[1][1]
    assert all(word in row.search for word in ("add_event", "calendar", ADD_EVENT.description))


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\nb", "a\nc", [("@", "@@ -1,2 +1,2 @@"), (" ", "a"), ("-", "b"), ("+", "c")]),
        ("", "a", [("@", "@@ -0,0 +1 @@"), ("+", "a")]),
        ("a", "a", []),
    ],
)
def test_a_difference_by_lines(before: str, after: str, lines: list[tuple[str, str]]) -> None:
    assert list(line_changes(before, after)) == lines


def test_the_history_tells_each_change_and_is_bounded() -> None:
    tool = replace(ADD_EVENT, description="one")
    two = replace(ADD_EVENT, description="two")
    newest, first = history([Version(2, two, 20), Version(1, tool, 10)])
    changed = [line for line in newest.diff if line[0] in "+-"]
    assert changed == [("-", '  "description": "one",'), ("+", '  "description": "two",')]
    assert {sign for sign, _ in first.diff} == {"@", "+"}
    many = [Version(number, tool, number) for number in range(900, 0, -1)]
    assert len(history(many)) == MOST_VERSIONS


def make_findings(severity: str, count: int, **more: str) -> list[Finding]:
    return [Finding(severity, f"{severity} {n}", "/name", **more) for n in range(count)]  # type: ignore[arg-type]


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_refused_is_read_first_and_the_rest_is_folded(strict: bool) -> None:
    findings = (
        make_findings("refused", 2)
        + make_findings("strict", 3, fix="strict")
        + make_findings("ignored", 4)
    )
    first, folds = ToolCheck(findings + make_findings("weak", 9)).layout(strict)
    assert len(first) == MOST_FIRST
    assert [finding.severity for finding in first[:3]] == [
        "refused",
        "refused",
        "strict" if strict else "weak",
    ]
    rows = [(fix, len(folded)) for _, fix, folded in folds]
    assert rows == ([("", 8), ("", 4)] if strict else [("", 5), ("strict", 3), ("", 4)])
    everything = first + [finding for _, _, folded in folds for finding in folded]
    assert sorted(finding.message for finding in everything) == sorted(
        finding.message for finding in findings + make_findings("weak", 9)
    )


def test_a_fix_is_shown_with_what_it_loses() -> None:
    editor = Editor(ToolForm(), fixed=OfferedFix("strict", [("+", "x")], ["minimum goes."]))
    html = tool_lint(ENV, editor)
    assert "Lost: minimum goes." in html
    assert 'name="apply" id="apply" value="strict"' in joined_tags(html)
    same = tool_lint(ENV, replace(editor, fixed=OfferedFix("inline", [("+", "x")])))
    assert "accepts and refuses the same values" in same
    nothing = tool_lint(ENV, replace(editor, fixed=OfferedFix("inline", [])))
    assert "No change: a recursive" in nothing
    assert 'name="apply"' not in nothing
    refused = ["Anthropic takes no schema that refers to itself."]
    html = tool_lint(ENV, replace(editor, fixed=OfferedFix("strict", [], refused=refused)))
    assert "Still refused: Anthropic" in html
    assert "Lost:" not in html


def test_a_finding_names_all_the_protocols_it_is_about() -> None:
    finding = Finding("refused", "OpenAI minds.", "/name", "openai_chat, openai_responses")
    html = tool_lint(ENV, Editor(ToolForm(), check=ToolCheck([finding])))
    assert f"{SHORT_NAMES['openai_chat']}, {SHORT_NAMES['openai_responses']}" in html


def test_backticks_are_code_and_nothing_else_is_markup() -> None:
    html = tool_lint(
        ENV, Editor(ToolForm(), check=ToolCheck([Finding("weak", "`<b>` is <i>", "")]))
    )
    assert "<code>&lt;b&gt;</code> is &lt;i&gt;" in html
