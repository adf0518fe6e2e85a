"""What a round of `next_commands` costs where an answer makes many calls: counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from app.core import decide, limits
from app.core.decide import CheckCall, Denied, next_commands
from app.core.rules import Rule
from app.core.state import Call, Session, Turn
from tests.playbook import begun, call, checked, session, turn

ALL = (Rule("*", "run"),)


def test_many_calls_are_read_once_in_however_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a round costs must not grow with the texts of all calls, nor with their square."""
    texts: list[str] = []
    read = limits.spelled

    def reading(text: str) -> str:
        texts.append(text)
        return read(text)

    monkeypatch.setattr(limits, "spelled", reading)
    ids: list[int] = []

    def counting(found: Iterable[str]) -> Counter[str]:
        ids.append(1)
        return Counter(found)

    monkeypatch.setattr(decide, "Counter", counting)
    many = [call(n, arguments=f'{{"city": "{n}"}}') for n in range(20)]
    one = session(*begun(), *turn(1, *many), *(checked(f"1.{n}") for n in range(20)))
    for _ in range(5):
        assert len(next_commands(one, ALL)) == 20
    assert (len(texts), len(ids)) == (20, 1)


def test_a_call_that_is_looked_at_is_judged_by_no_rule_but_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[str] = []
    met = decide.obstacle

    def meeting(one: Session, turn: Turn, call: Call, rule: Rule, denied: Denied) -> str:
        judged.append(call.id)
        return met(one, turn, call, rule, denied)

    monkeypatch.setattr(decide, "obstacle", meeting)
    one = session(*begun(), *turn(1, *(call(n) for n in range(5))))
    next_commands(one, ALL)
    assert judged == []
    assert next_commands(one, (Rule("*", "stop"),)) == [CheckCall(f"1.{n}") for n in range(5)]
    assert judged == ["1.0"]
