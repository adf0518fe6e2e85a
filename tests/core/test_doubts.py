"""Warnings that doubt a call: no rule runs it. Each code that the program writes is looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import playground
from playground.core.decide import Record, may_run_unseen, next_commands, obstacle
from playground.core.doubts import DOUBTING, HARMLESS
from playground.core.events import CallDecided, ResponseEnded, Warned
from playground.core.messages import CALLS_LEFT_OUT
from playground.core.rules import Rule
from playground.core.session import Session
from tests.playbook import call, call_checked, opened, session, start_events

ALLOW = Rule("*", "run", words="--allow all")
WRITERS = {"warn": 0, "warn_once": 0, "Warned": 0, "tell": 0, "warn_of": 1, "_warn": 1}
"""Functions that take the code of a warning, and the place of that argument."""

BUILT = {CALLS_LEFT_OUT, "price_unknown", "tokens_unknown", "stray_text", "after_end"}
"""Codes that are no literal where they are written."""


def written_codes() -> Iterator[str]:
    """The codes that stand as literals in the calls of WRITERS."""
    for path in Path(playground.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            place = WRITERS.get(name, len(node.args))
            code = node.args[place] if place < len(node.args) else None
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                yield code.value


CODES = sorted({*written_codes(), *BUILT})


def warned(code: str, **meta: object) -> Session:
    """A turn with two sound calls and a warning."""
    warning = Warned(code, "Something is odd.", meta)
    calls = [*call(0), *call(1, "look", "{}")]
    end = ResponseEnded("calls")
    return session(
        *start_events(), *opened(1), *calls, warning, end, call_checked("1.0"), call_checked("1.1")
    )


def run_by_rule(state: Session) -> list[str]:
    """The calls that a rule for all tools runs."""
    events = [each.event for each in next_commands(state, [ALLOW]) if isinstance(each, Record)]
    return [event.call_id for event in events if isinstance(event, CallDecided)]


def test_each_code_that_is_written_is_in_one_table() -> None:
    assert len(CODES) > 30
    assert set(CODES) - (DOUBTING | HARMLESS) == set()
    assert set() == DOUBTING & HARMLESS


@pytest.mark.parametrize("code", [*CODES, "a_code_nobody_knows"])
def test_no_rule_runs_a_call_that_a_warning_doubts(code: str) -> None:
    state = warned(code)
    doubted = code not in HARMLESS
    assert run_by_rule(state) == ([] if doubted else ["1.0", "1.1"])
    turn = state.turns[0]
    for each in turn.calls:
        assert may_run_unseen(turn, each) is not doubted
        assert ("Something is odd." in obstacle(state, turn, each, ALLOW)) is doubted


def test_a_warning_about_one_part_doubts_its_call_alone() -> None:
    assert run_by_rule(warned("late_arguments", part=1)) == ["1.0"]
