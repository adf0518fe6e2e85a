"""Every kind of tools that runs here has an executor."""

from __future__ import annotations

from playground.core.tools import ANSWERED_BY
from playground.executors.run_with_limits import executors


def test_every_kind_that_runs_has_an_executor() -> None:
    with_state = {"person", "workspace"}  # answered by the user; made by the engine
    missing = set(ANSWERED_BY) - set(executors().by_kind) - with_state
    assert missing == set()
