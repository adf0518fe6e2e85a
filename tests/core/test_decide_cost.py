"""What a round of `next_commands` costs where an answer makes many calls: counted, not timed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest

from playground.core import decide, run_limits
from playground.core.arguments import canonical_text
from playground.core.decide import (
    CheckCall,
    Command,
    DenialCheck,
    Record,
    RunCall,
    SendRequest,
    next_commands,
)
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallStarted,
    Event,
    Logged,
    PromptAdded,
    SessionStarted,
)
from playground.core.reducer import apply
from playground.core.rules import Rule
from playground.core.session import Call, Session, Turn
from playground.core.settings import Limits
from playground.core.tools import text_result
from playground.store.writes import summary_of
from tests import counted
from tests.playbook import call, call_checked, session, settings, start_events, turn

ALL = (Rule("*", "run"),)

DISTINCT = [f'{{"city": "{n}"}}' for n in range(120)]
ALIKE = [f'{{"city": "{n % 10}"}}' for n in range(120)]
RUNS: list[tuple[str, Sequence[Rule], bool, Sequence[str], Limits]] = [
    ("a rule runs them", ALL, True, DISTINCT, Limits(max_parallel=4)),
    ("a user runs them", (), True, DISTINCT, Limits(max_parallel=4)),
    ("a rule leaves them to a user", (Rule("*", "ask"),), True, DISTINCT, Limits()),
    ("a rule would stop others", (Rule("no", "stop"), *ALL), True, DISTINCT, Limits()),
    ("one after the other", ALL, False, DISTINCT, Limits()),
    ("no error is passed over", ALL, True, DISTINCT, Limits(continue_on_error=False)),
    ("many are alike", ALL, True, ALIKE, Limits(max_repeats=13)),
]


def test_many_calls_are_read_once_in_however_many_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a round costs must not grow with the texts of all calls, nor with their square."""
    texts: list[str] = []
    read = canonical_text

    def reading(text: str) -> str:
        texts.append(text)
        return read(text)

    monkeypatch.setattr(run_limits, "canonical_text", reading)
    ids: list[int] = []

    def counting(counted_items: Iterable[str]) -> Counter[str]:
        ids.append(1)
        return Counter(counted_items)

    monkeypatch.setattr(decide, "Counter", counting)
    many = [call(n, arguments=f'{{"city": "{n}"}}') for n in range(20)]
    item = session(*start_events(), *turn(1, *many), *(call_checked(f"1.{n}") for n in range(20)))
    for _ in range(5):
        assert len(next_commands(item, ALL)) == 20
    assert (len(texts), len(ids)) == (20, 1)


def test_a_call_that_is_looked_at_is_judged_by_no_rule_but_a_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[str] = []
    met = decide.obstacle

    def meeting(session: Session, turn: Turn, call: Call, rule: Rule, denied: DenialCheck) -> str:
        judged.append(call.id)
        return met(session, turn, call, rule, denied)

    monkeypatch.setattr(decide, "obstacle", meeting)
    item = session(*start_events(), *turn(1, *(call(n) for n in range(5))))
    next_commands(item, ALL)
    assert judged == []
    assert next_commands(item, (Rule("*", "stop"),)) == [CheckCall(f"1.{n}") for n in range(5)]
    assert judged == ["1.0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "safe", "arguments", "limits"),
    [row[1:] for row in RUNS],
    ids=[row[0] for row in RUNS],
)
def test_what_follows_from_an_event_costs_the_same_however_many_calls_there_are(
    rules: Sequence[Rule], safe: bool, arguments: Sequence[str], limits: Limits
) -> None:
    """Four times as many calls are four times the work, from the first check to the last result,
    whoever decides; with what the list of sessions is told."""
    few, many = (lines_of(rules, safe, arguments[:count], limits) for count in (30, 120))
    assert many <= 4.4 * few, many / few


def lines_of(rules: Sequence[Rule], safe: bool, arguments: Sequence[str], limits: Limits) -> int:
    """How many lines of core/ run until the results of a turn with such calls are sent."""
    stored = replace(settings(), limits=replace(limits, max_calls_per_turn=len(arguments)))
    many = [call(n, arguments=text) for n, text in enumerate(arguments)]
    item = session(SessionStarted(stored), PromptAdded("hello"), *turn(1, *many))
    return counted.lines_of("core", lambda: _driven(item, rules, safe=safe))


def test_calls_that_are_being_checked_are_not_walked_over() -> None:
    """Each batch of checks is a round, and each call that ends meanwhile."""

    def work_of(count: int, checking: int) -> int:
        item = session(*start_events(), *turn(1, *map(call, range(count))))
        next_command = next_commands(item, ALL)
        assert next_command == [CheckCall(call.id) for call in item.calls()]
        assert next_commands(item, ALL, checking=count - 1) == next_command
        return counted.lines_of("core", lambda: next_commands(item, ALL, checking=checking))

    assert work_of(120, 120) == work_of(30, 30)
    assert work_of(120, 0) > work_of(30, 0)


def test_a_call_is_not_compared_with_every_one_that_was_denied() -> None:
    """A rule that the program proposed is asked about as many calls as were denied before: four
    times as many are four times the work."""

    def work_of(count: int) -> int:
        event = session(*_after_denials(count))
        rules = (Rule("*", "run", proposed=True),)
        decided: list[Command] = []
        work = counted.lines_of("core", lambda: decided.extend(next_commands(event, rules)))
        events = [command.event for command in decided if isinstance(command, Record)]
        assert [event.call_id for event in events if isinstance(event, CallDecided)] == ["2.0"]
        return work

    few, many = work_of(30), work_of(120)
    assert many <= 4.4 * few, many / few


def _after_denials(count: int) -> Iterator[Event]:
    """`count` calls that were denied, and the same again, but for the first."""
    limits = Limits(max_calls_per_turn=count, max_repeats=0)
    yield from (SessionStarted(replace(settings(), limits=limits)), PromptAdded("hello"))
    yield from turn(1, *(call(n, arguments=f'{{"city": "{n}"}}') for n in range(count)))
    for n in range(count):
        yield call_checked(f"1.{n}")
        yield CallDecided(f"1.{n}", "deny", digest="digest")
        yield CallEnded(f"1.{n}", text_result("no", is_error=True, kind="denied"))
    yield from turn(2, *(call(n, arguments=f'{{"city": "{n or -1}"}}') for n in range(count)))
    yield from (call_checked(f"2.{n}") for n in range(count))


def _driven(current_call: Session, rules: Sequence[Rule], *, safe: bool) -> None:
    def append(event: Event) -> None:
        apply(current_call, Logged(current_call.seq + 1, 1_000 + current_call.seq, event))
        summary_of(current_call, "", 0)

    for command in next_commands(current_call, rules):
        assert isinstance(command, CheckCall)
        append(call_checked(command.call_id, parallel_safe=safe))
    running: list[str] = []
    undecided = [current_call.id for current_call in current_call.current_calls]
    while True:
        commands = next_commands(current_call, rules)
        for command in commands:
            match command:
                case Record(event):
                    append(event)
                case RunCall(call_id, attempt):
                    append(CallStarted(call_id, attempt))
                    running.append(call_id)
                case SendRequest():
                    return
        if not commands and running:
            append(CallEnded(running.pop(0), text_result("so")))
        elif not commands:
            append(CallDecided(undecided.pop(0), "run", digest="digest"))
