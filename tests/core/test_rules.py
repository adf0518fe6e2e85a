"""Rules: the first that matches wins, and what a command line makes of its flags."""

from __future__ import annotations

import pytest

from app.core.rules import Rule, first_match, rules_from_flags
from tests.playbook import begun, call, session, turn

CALL = session(*begun(), *turn(1, call(0))).call("1.0")


@pytest.mark.parametrize(
    ("rules", "action"),
    [
        ([], None),
        ([Rule("other", "run")], None),
        ([Rule("get_weather", "run")], "run"),
        ([Rule("*", "run")], "run"),
        ([Rule("get_weather", "ask"), Rule("*", "run")], "ask"),
        ([Rule("*", "deny"), Rule("get_weather", "run")], "deny"),
    ],
)
def test_the_first_that_matches_wins(rules: list[Rule], action: str | None) -> None:
    found = first_match(rules, CALL)
    assert (found.action if found else None) == action


@pytest.mark.parametrize(
    ("allow", "deny", "answer", "action"),
    [
        (["all"], [], [], "run"),
        (["get_weather"], ["all"], [("get_weather", "x")], "deny"),
        (["get_weather"], [], [("get_weather", "x")], "answer"),
        (["all"], ["other"], [("other", "x")], "run"),
        ([], [], [], None),
    ],
)
def test_precedence_is_deny_answer_allow_ask(
    allow: list[str], deny: list[str], answer: list[tuple[str, str]], action: str | None
) -> None:
    found = first_match(rules_from_flags(allow, deny, answer), CALL)
    assert (found.action if found else None) == action
