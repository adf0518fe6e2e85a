"""Every kind of tools has the rows that the type checker cannot ask for."""

from __future__ import annotations

from playground.core.tools import ANSWERED_BY, TOOL_KINDS
from playground.executors.run_with_limits import executors


def test_every_kind_has_a_row() -> None:
    missing = set(ANSWERED_BY) - set(TOOL_KINDS)
    assert missing == set(), "Add a row for each of these to TOOL_KINDS in core/tools.py."


def test_every_kind_that_runs_has_an_executor() -> None:
    with_state = {"person", "workspace"}  # answered by the user; made by the engine
    missing = set(ANSWERED_BY) - set(executors().by_kind) - with_state
    assert missing == set(), "Add these to `by_kind` in executors/run_with_limits.py."
