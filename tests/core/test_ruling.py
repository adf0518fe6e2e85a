"""The playbook of rules: what each action makes of a call, and what it leaves to a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.core.decide import Command, Record, SendRequest, asks, next_commands, obstacle
from app.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallStarted,
    Event,
    Problem,
    RunResumed,
    RunStopped,
    SessionStarted,
    SettingsChanged,
)
from app.core.rules import Rule, content
from app.core.tools import ToolChoice, text_result
from tests.playbook import WEATHER, begun, call, checked, ran, run, session, settings, turn

ONE = [*begun(), *turn(1, call(0)), checked("1.0")]
TWO = [*begun(), *turn(1, call(0), call(1, "look")), checked("1.0"), checked("1.1")]
CONTENT = content(WEATHER, "")


def ruled(decision: Any, id_: str = "1.0", **more: Any) -> Command:
    return Record(CallDecided(id_, decision, by="rule", digest="digest", **more))


def rule(action: Any, **more: Any) -> Rule:
    return Rule("get_weather", action, words="W", id="r1", **more)


ACTIONS: list[tuple[Rule, list[Command]]] = [
    (rule("run"), [ruled("run", rule="W", rule_id="r1")]),
    (rule("answer", text="rain"), [ruled("answer", rule="W", rule_id="r1", text="rain")]),
    (
        rule("answer", text="no", is_error=True),
        [ruled("answer", rule="W", rule_id="r1", text="no", is_error=True)],
    ),
    (rule("deny", text="why"), [ruled("deny", rule="W", rule_id="r1", text="why")]),
    (rule("ask"), []),
    (rule("stop"), [Record(RunStopped("W", "1.0"))]),
    (replace(rule("stop"), words=""), [Record(RunStopped("stop the run at get_weather", "1.0"))]),
    (rule("run", enabled=False), []),
    (rule("run", when={"/city": "Rome"}), []),
    (rule("deny", when={"/city": {"prefix": "Par"}}), [ruled("deny", rule="W", rule_id="r1")]),
]


@pytest.mark.parametrize(("one", "commands"), ACTIONS, ids=[str(a[0].said) for a in ACTIONS])
def test_what_a_rule_makes_of_a_call(one: Rule, commands: list[Command]) -> None:
    assert next_commands(session(*ONE), (one,)) == commands


@pytest.mark.parametrize(
    ("one", "result"),
    [
        (rule("answer", text="rain"), text_result("rain")),
        (rule("answer", text="no", is_error=True), text_result("no", is_error=True)),
        (rule("answer"), text_result("")),
        (rule("deny", text="why"), text_result("why", is_error=True, kind="denied")),
        (
            rule("deny"),
            text_result("The person did not allow this call.", is_error=True, kind="denied"),
        ),
    ],
)
def test_what_the_model_reads_of_it(one: Rule, result: Any) -> None:
    (command,) = next_commands(session(*ONE), (one,))
    assert isinstance(command, Record)
    ended = CallEnded("1.0", result)
    assert next_commands(session(*ONE, command.event), (one,)) == [Record(ended)]
    done = session(*ONE, command.event, ended)
    assert next_commands(done, (one,)) == [SendRequest(ToolChoice())]


# Stop.


def test_a_rule_stops_before_anything_else_of_the_turn_is_decided_or_begins() -> None:
    rules = (Rule("look", "stop"), Rule("*", "run"))
    stop = RunStopped("stop the run at look", "1.1")
    assert next_commands(session(*TWO), rules) == [Record(stop)]
    assert next_commands(session(*TWO, run("1.0")), rules) == [Record(stop)]
    stopped = session(*TWO, stop)
    assert stopped.state == "interrupted"
    assert next_commands(stopped, rules) == []


def test_after_continue_the_call_that_stopped_it_is_for_the_person_alone() -> None:
    rules = (Rule("look", "stop"), Rule("*", "run"))
    events = [*TWO, RunStopped("stop the run at look", "1.1"), RunResumed()]
    again = session(*events)
    assert again.call("1.1").stopped_by == "stop the run at look"
    assert again.state == "waiting"
    by_rule = ruled("run", rule="run every tool")
    assert next_commands(again, rules) == [by_rule]
    # Whatever the rules say by then.
    assert next_commands(again, (Rule("*", "deny"),)) == [ruled("deny", rule="deny every tool")]
    said = obstacle(again, again.turns[0], again.call("1.1"), Rule("*", "run"))
    assert "for you to say" in said
    assert next_commands(session(*events, run("1.1"), *ran("1.1")), rules) == [by_rule]


def test_another_call_stops_it_again() -> None:
    two = [*begun(), *turn(1, call(0), call(1)), checked("1.0"), checked("1.1")]
    rules = (Rule("*", "stop", words="W"),)
    assert next_commands(session(*two), rules) == [Record(RunStopped("W", "1.0"))]
    again = [*two, RunStopped("W", "1.0"), RunResumed()]
    assert next_commands(session(*again), rules) == [Record(RunStopped("W", "1.1"))]


# Where it is left to the person.

BOUND = {"bound": {"get_weather": CONTENT}}
OTHER = {"bound": {"get_weather": "other"}}
DENIED = [
    *ONE,
    CallDecided("1.0", "deny", digest="digest"),
    CallEnded("1.0", text_result("no", is_error=True)),
    *turn(2, call(0)),
    checked("2.0"),
]
LATE = {"since_ms": 2_000}

LEFT: list[tuple[str, list[Event], Rule, str]] = [
    ("bound", ONE, rule("run", **BOUND), ""),
    ("bound to another content", ONE, rule("run", **OTHER), "get_weather has changed"),
    ("an answer, too", ONE, rule("answer", **OTHER), "get_weather has changed"),
    ("bound to none", ONE, rule("run", bound={}), "before there was this tool"),
    ("a denial is bound to nothing", ONE, rule("deny", **OTHER), ""),
    ("nor is a stop", ONE, rule("stop", **OTHER), ""),
    ("other code", [*ONE[:-1], CallChecked("1.0", digest="digest", code="x")],
     rule("run", **BOUND), "get_weather has changed"),
    ("written later, elsewhere", ONE, rule("run", **LATE), "after this call was made"),
    ("a denial, too", ONE, rule("deny", here="t", **LATE), "after this call was made"),
    ("written later, here", ONE, rule("run", here="s", **LATE), ""),
    ("written before", ONE, rule("run", since_ms=1_000), ""),
    ("unsatisfied", [*ONE[:-1], checked("1.0", Problem("schema", "x"))], rule("run"), "second"),
    ("cautioned", [*ONE[:-1], checked("1.0", Problem("caution", "x"))], rule("run"), "second"),
    ("noted", [*ONE[:-1], checked("1.0", Problem("note", "x"))], rule("run"), ""),
    ("cautioned and answered", [*ONE[:-1], checked("1.0", Problem("caution", "x"))],
     rule("answer"), ""),
    ("a refusal", [*begun(), *turn(1, call(0), reason="refusal"), checked("1.0")], rule("run"),
     "second"),
    ("a word unknown", [*begun(), *turn(1, call(0), reason="other"), checked("1.0")],
     rule("run"), "a word nobody knows"),
    ("denied, proposed", DENIED, rule("run", proposed=True), "You denied this call before"),
    ("denied, by hand", DENIED, rule("run"), ""),
    ("denied, and answered", DENIED, rule("answer", proposed=True), ""),
]  # fmt: skip


@pytest.mark.parametrize(("events", "one", "said"), [n[1:] for n in LEFT], ids=[n[0] for n in LEFT])
def test_where_a_rule_leaves_it_to_the_person(events: list[Event], one: Rule, said: str) -> None:
    whole = session(*events)
    last = whole.current_calls[-1]
    found = obstacle(whole, whole.turns[-1], last, one)
    assert (said in found) if said else not found
    # What asks never falls through to the next rule.
    commands = next_commands(whole, (one, Rule("*", "deny", since_ms=9_000, here="s")))
    assert bool(commands) == (not said)
    seen = CallChecked(last.id, last.problems, code=last.code)
    proposed = session(*events[:-1])
    assert asks(proposed, proposed.call(last.id), seen, (one,)) == found


def test_a_rule_that_asks_says_so() -> None:
    whole = session(*ONE[:-1])
    one = whole.call("1.0")
    assert asks(whole, one, CallChecked("1.0"), ()) == ""
    assert asks(whole, one, CallChecked("1.0"), (Rule("look", "ask"),)) == ""
    said = asks(whole, one, CallChecked("1.0"), (Rule("*", "ask"), Rule("*", "run")))
    assert said == "The rule “ask every tool” asks."


def test_a_rule_never_decides_what_was_interrupted() -> None:
    crashed = [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0")]
    for action in ("run", "answer", "deny", "stop"):
        assert next_commands(session(*crashed), (rule(action),)) == []


def test_a_person_comes_first() -> None:
    for action in ("run", "answer", "deny", "stop"):
        events = [*ONE, CallDecided("1.0", "answer", digest="digest", text="mine")]
        ended = Record(CallEnded("1.0", text_result("mine")))
        assert next_commands(session(*events), (rule(action),)) == [ended]


def test_a_tool_of_the_settings_of_its_turn_is_what_counts() -> None:
    """Settings that change while a call waits make it no other call."""
    later = SettingsChanged(settings(replace(WEATHER, description="Another.")))
    assert obstacle_of([*ONE, later], rule("run", **BOUND)) == ""
    other = [SessionStarted(later.settings), *ONE[1:]]
    assert "has changed" in obstacle_of(other, rule("run", **BOUND))


def obstacle_of(events: list[Event], one: Rule) -> str:
    whole = session(*events)
    return obstacle(whole, whole.turns[-1], whole.current_calls[-1], one)
