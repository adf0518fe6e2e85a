"""The choice, the calls that came and how the reply ended; what of the choice was ignored."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.decide import ignored_tool_choice
from playground.core.tools import ToolChoice

AUTO, REQUIRED, NONE = ToolChoice(), ToolChoice("required"), ToolChoice("none")
ONE_TOOL = ToolChoice("tool", "a")
SOME = ToolChoice("auto", allowed=("a", "b"))
SINGLE = ToolChoice(parallel=False)

CASES: list[tuple[ToolChoice, list[str], str, int, list[str]]] = [
    (AUTO, [], "stop", 0, []),
    (AUTO, ["a", "b"], "calls", 0, []),
    (REQUIRED, ["a"], "calls", 0, []),
    (REQUIRED, [], "stop", 0, ["tool_choice is required, but the model made no call."]),
    (REQUIRED, [], "stop", 1, []),
    (REQUIRED, [], "other", 0, ["tool_choice is required, but the model made no call."]),
    *((REQUIRED, [], reason, 0, []) for reason in ("length", "refusal", "pause")),
    (ONE_TOOL, ["a", "a"], "calls", 0, []),
    (ONE_TOOL, [], "stop", 0, ["tool_choice is a, but the model made no call."]),
    (ONE_TOOL, [], "stop", 1, ["tool_choice is a, but the model made no call."]),
    (ONE_TOOL, ["a", "b", "b", ""], "calls", 0,
     ["tool_choice is a, but the model called b, (no name)."]),
    (NONE, [], "stop", 0, []),
    (NONE, ["b"], "calls", 0, ["tool_choice is none, but the model called b."]),
    (SOME, ["b"], "calls", 0, []),
    (SOME, ["b", "c"], "calls", 0, ["Only a, b might be called, but the model called c."]),
    (ToolChoice("auto", allowed=()), ["c"], "calls", 0,
     ["No tool might be called, but the model called c."]),
    (ToolChoice("none", allowed=("a",)), ["c"], "calls", 0,
     ["tool_choice is none, but the model called c."]),
    (SINGLE, ["a"], "calls", 0, []),
    (SINGLE, ["a", "a"], "calls", 0,
     ["tool_choice allows one call at a time, but the model made 2."]),
    (SINGLE, ["a", "a"], "length", 0, []),
    (ToolChoice("tool", "a", parallel=False), ["b", "b"], "calls", 0,
     ["tool_choice is a, but the model called b.",
      "tool_choice allows one call at a time, but the model made 2."]),
]  # fmt: skip


@pytest.mark.parametrize(("choice", "calls", "reason", "server_calls", "messages"), CASES)
def test_ignored(
    choice: ToolChoice, calls: list[str], reason: Any, server_calls: int, messages: list[str]
) -> None:
    assert ignored_tool_choice(choice, calls, reason, server_calls) == messages
