"""A call as a whole: what is told about it, in which order."""

from __future__ import annotations

import pytest

from playground.core.tools import Tool
from playground.schema.validate import check_call

TOOL = Tool(
    "add_event",
    parameters={
        "type": "object",
        "properties": {"minutes": {"type": "integer"}},
        "required": ["minutes"],
    },
)


@pytest.mark.parametrize(
    ("tool", "name", "raw", "kinds"),
    [
        (TOOL, "add_event", '{"minutes": 5}', []),
        (TOOL, "add_event", '{"minutes": "5"}', ["schema"]),
        (TOOL, "add_event", "", ["note", "schema"]),
        (TOOL, "add_event", '{"minutes": 9007199254740993}', ["note"]),
        (TOOL, "add_event", '{"minutes": 5', ["malformed"]),
        (None, "add_evnt", '{"minutes": 5}', ["unknown_tool"]),
        (None, "", "{", ["unknown_tool", "malformed"]),
        (Tool("x", parameters={"type": "integr"}), "x", "{}", ["schema"]),
    ],
)
def test_verdict(tool: Tool | None, name: str, raw: str, kinds: list[str]) -> None:
    assert [problem.kind for problem in check_call(tool, name, raw)] == kinds


def test_an_unknown_name_is_shown_with_escapes_and_cut() -> None:
    (problem,) = check_call(None, "a\u202e\n" + "x" * 500, "{}")
    assert "\n" not in problem.message
    assert len(problem.message) < 200
