"""The playbook of rules: what each action makes of a call, and what it leaves to a user."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.decide import (
    CheckCall,
    Command,
    Record,
    RunCall,
    SendRequest,
    ask_reason,
    next_commands,
    obstacle,
)
from playground.core.errors import IllegalEvent
from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallReturned,
    CallStarted,
    Event,
    Problem,
    RunResumed,
    RunStopped,
    SessionStarted,
    SettingsChanged,
)
from playground.core.rules import Rule, content_hash
from playground.core.tools import ToolChoice, text_result
from tests.playbook import (
    WEATHER,
    call,
    call_checked,
    run,
    run_call,
    session,
    settings,
    start_events,
    turn,
)

ONE = [*start_events(), *turn(1, call(0)), call_checked("1.0")]
TWO = [
    *start_events(),
    *turn(1, call(0), call(1, "look")),
    call_checked("1.0"),
    call_checked("1.1"),
]
CONTENT = content_hash(WEATHER, "")

HELD = [*TWO, CallDecided("1.1", "run", by="rule", rule="W", rule_id="r1", digest="digest")]
FREE = [*HELD, run("1.0"), *run_call("1.0")]
LOOK = Rule("look", "run", words="W", id="r1")
BEGINS: list[Command] = [RunCall("1.1", 1, '{"city":"Paris"}')]
GONE = "The rule “W” decided this call, but no longer does."
STILL: list[tuple[str, tuple[Rule, ...], str]] = [
    ("as it was", (LOOK,), ""),
    ("said otherwise", (replace(LOOK, words="other"),), ""),
    ("a list for always changed", (replace(LOOK, since_ms=9_000),), ""),
    ("deleted", (), GONE),
    ("switched off", (replace(LOOK, enabled=False),), GONE),
    ("denied first", (Rule("*", "deny", here="s"), LOOK), GONE),
    ("asked first", (Rule("*", "ask"), LOOK), GONE),
    ("stopped first", (Rule("*", "stop", here="s"), LOOK), GONE),
    ("denies now", (replace(LOOK, action="deny"),), GONE),
    ("stages now", (replace(LOOK, fault="slow"),), GONE),
    ("is about less now", (replace(LOOK, when={"/city": "Rome"}),), GONE),
    ("bound to another", (replace(LOOK, bound={"look": "x"}),), "look has changed"),
]

BOUND = {"bound": {"get_weather": CONTENT}}
OTHER = {"bound": {"get_weather": "other"}}
DENIED = [
    *ONE,
    CallDecided("1.0", "deny", digest="digest"),
    CallEnded("1.0", text_result("no", is_error=True)),
    *turn(2, call(0)),
    call_checked("2.0"),
]
LATE = {"since_ms": 2_000}


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


@pytest.mark.parametrize(("item", "commands"), ACTIONS, ids=[str(a[0].sentence) for a in ACTIONS])
def test_what_a_rule_makes_of_a_call(item: Rule, commands: list[Command]) -> None:
    assert next_commands(session(*ONE), (item,)) == commands


@pytest.mark.parametrize(
    ("item", "result"),
    [
        (rule("answer", text="rain"), text_result("rain")),
        (rule("answer", text="no", is_error=True), text_result("no", is_error=True)),
        (rule("answer"), text_result("")),
        (rule("deny", text="why"), text_result("why", is_error=True, kind="denied")),
        (
            rule("deny"),
            text_result("The user did not allow this call.", is_error=True, kind="denied"),
        ),
    ],
)
def test_what_the_model_reads_of_it(item: Rule, result: Any) -> None:
    (command,) = next_commands(session(*ONE), (item,))
    assert isinstance(command, Record)
    ended = CallEnded("1.0", result)
    assert next_commands(session(*ONE, command.event), (item,)) == [Record(ended)]
    done = session(*ONE, command.event, ended)
    assert next_commands(done, (item,)) == [SendRequest(ToolChoice())]


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
    message = obstacle(again, again.turns[0], again.call("1.1"), Rule("*", "run"))
    assert "needs your decision" in message
    assert next_commands(session(*events, run("1.1"), *run_call("1.1")), rules) == [by_rule]


def test_another_call_stops_it_again() -> None:
    two = [*start_events(), *turn(1, call(0), call(1)), call_checked("1.0"), call_checked("1.1")]
    rules = (Rule("*", "stop", words="W"),)
    assert next_commands(session(*two), rules) == [Record(RunStopped("W", "1.0"))]
    again = [*two, RunStopped("W", "1.0"), RunResumed()]
    assert next_commands(session(*again), rules) == [Record(RunStopped("W", "1.1"))]


def test_a_stop_waits_for_its_check_and_nothing_else_goes_on_before() -> None:
    """The calls of a turn are checked side by side; only one that stops holds the others up."""
    stop, run_all = Rule("look", "stop", words="W"), Rule("*", "run")
    first = [*TWO[:-1]]  # 1.1 is proposed
    assert next_commands(session(*first), (stop, run_all)) == [CheckCall("1.1")]
    assert next_commands(session(*first, run("1.0")), (stop, run_all)) == [CheckCall("1.1")]
    by_rule = ruled("run", rule="run every tool")
    for others in ((run_all, stop), (replace(stop, when={"/city": "Rome"}), run_all)):
        assert next_commands(session(*first), others) == [CheckCall("1.1"), by_rule]
    assert next_commands(session(*TWO), (stop, run_all)) == [Record(RunStopped("W", "1.1"))]


# A call that a rule decided, and that was held behind others.


@pytest.mark.parametrize(("rules", "why"), [row[1:] for row in STILL], ids=[n[0] for n in STILL])
def test_a_rule_must_still_decide_a_call_when_it_begins(rules: tuple[Rule, ...], why: str) -> None:
    assert next_commands(session(*HELD), rules[:0]) == []  # nothing is due as long as it is held
    results = next_commands(session(*FREE), rules)
    if not why:
        assert results == BEGINS
        return
    (command,) = results
    assert isinstance(command, Record)
    event = command.event
    assert isinstance(event, CallReturned)
    assert (event.call_id, event.by) == ("1.1", "rule")
    assert why in event.why
    after = session(*FREE, event)
    call = after.call("1.1")
    assert (call.status, call.decided, call.asks) == ("waiting", None, event.why)
    first = next((rule for rule in rules if rule.enabled), LOOK)
    match first.action:
        case "deny":
            (command,) = next_commands(after, rules)
            assert isinstance(command, Record)
            assert isinstance(command.event, CallDecided)
            assert command.event.decision == "deny"
        case "stop":
            assert next_commands(after, rules) == [Record(RunStopped(first.sentence, "1.1"))]
    assert next_commands(after, ()) == []


def test_what_a_person_decided_needs_no_rule() -> None:
    assert next_commands(session(*TWO, run("1.1"), run("1.0"), *run_call("1.0")), ()) == BEGINS


def test_what_a_person_took_back_no_rule_decides() -> None:
    for events in (HELD, [*TWO, run("1.1")]):
        before = session(*events).call("1.1").digest
        back = [*events, CallReturned("1.1", "person", "W"), run("1.0"), *run_call("1.0")]
        after = session(*back)
        call = after.call("1.1")
        assert (call.status, call.taken_back, call.asks) == ("waiting", True, "W")
        assert call.digest != before  # a click on the card of before decides nothing
        assert after.state == "waiting"
        for action in ("run", "answer", "deny", "stop"):
            assert next_commands(after, (rule(action), Rule("*", action))) == []
        assert next_commands(session(*back, run("1.1"))) == BEGINS


@pytest.mark.parametrize(
    "events",
    [TWO, [*TWO, run("1.0"), CallStarted("1.0", 1)], [*TWO, run("1.0"), *run_call("1.0")],
     [*TWO, CallDecided("1.0", "answer", digest="digest")]],
)  # fmt: skip
def test_nothing_but_a_decision_to_run_is_taken_back(events: list[Event]) -> None:
    with pytest.raises(IllegalEvent):
        session(*events, CallReturned("1.0"))


def test_one_that_was_cut_asks_as_one_that_was_cut() -> None:
    cut = [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0"), run("1.0")]
    assert session(*cut, CallReturned("1.0")).call("1.0").status == "interrupted"


# Where it is left to the user.


LEFT: list[tuple[str, list[Event], Rule, str]] = [
    ("bound", ONE, rule("run", **BOUND), ""),
    ("bound to another content", ONE, rule("run", **OTHER), "get_weather has changed"),
    ("an answer, too", ONE, rule("answer", **OTHER), "get_weather has changed"),
    ("bound to none", ONE, rule("run", bound={}), "before this tool"),
    ("a denial is bound to nothing", ONE, rule("deny", **OTHER), ""),
    ("nor is a stop", ONE, rule("stop", **OTHER), ""),
    ("other code", [*ONE[:-1], CallChecked("1.0", digest="digest", code="x")],
     rule("run", **BOUND), "get_weather has changed"),
    ("written later, elsewhere", ONE, rule("run", **LATE), "after this call was made"),
    ("a denial, too", ONE, rule("deny", here="t", **LATE), "after this call was made"),
    ("written later, here", ONE, rule("run", here="s", **LATE), ""),
    ("written before", ONE, rule("run", since_ms=1_000), ""),
    ("unsatisfied", [*ONE[:-1], call_checked("1.0", Problem("schema", "x"))], rule("run"),
     "reviewed"),
    ("cautioned", [*ONE[:-1], call_checked("1.0", Problem("caution", "x"))], rule("run"),
     "reviewed"),
    ("noted", [*ONE[:-1], call_checked("1.0", Problem("note", "x"))], rule("run"), ""),
    ("cautioned and answered", [*ONE[:-1], call_checked("1.0", Problem("caution", "x"))],
     rule("answer"), ""),
    ("a refusal", [*start_events(), *turn(1, call(0), reason="refusal"), call_checked("1.0")],
     rule("run"),
     "reviewed"),
    ("a word unknown", [*start_events(), *turn(1, call(0), reason="other"), call_checked("1.0")],
     rule("run"), "an unknown finish reason"),
    ("denied, proposed", DENIED, rule("run", proposed=True), "You denied this call before"),
    ("denied, by hand", DENIED, rule("run"), ""),
    ("denied, and answered", DENIED, rule("answer", proposed=True), ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "item", "message"), [n[1:] for n in LEFT], ids=[n[0] for n in LEFT]
)
def test_where_a_rule_leaves_it_to_the_person(
    events: list[Event], item: Rule, message: str
) -> None:
    whole_session = session(*events)
    last = whole_session.current_calls[-1]
    match = obstacle(whole_session, whole_session.turns[-1], last, item)
    assert (message in match) if message else not match
    # What asks never falls through to the next rule.
    commands = next_commands(whole_session, (item, Rule("*", "deny", since_ms=9_000, here="s")))
    assert bool(commands) == (not message)
    check = CallChecked(last.id, last.problems, code=last.code)
    proposed = session(*events[:-1])
    assert ask_reason(proposed, proposed.call(last.id), check, (item,)) == match


def test_a_proposed_rule_runs_nothing_that_was_denied_in_another_session() -> None:
    whole_session, proposed = session(*ONE), rule("run", proposed=True)
    for item, message in ((proposed, "You denied this call before"), (rule("run"), "")):
        reason = obstacle(
            whole_session,
            whole_session.turns[-1],
            whole_session.call("1.0"),
            item,
            lambda call: True,
        )
        assert (message in reason) if message else not reason
        assert bool(next_commands(whole_session, (item,), lambda call: True)) == (not message)
        assert next_commands(whole_session, (item,), lambda call: call.id != "1.0") != []


def test_a_rule_that_asks_says_so() -> None:
    whole_session = session(*ONE[:-1])
    call = whole_session.call("1.0")
    assert ask_reason(whole_session, call, CallChecked("1.0"), ()) == ""
    assert ask_reason(whole_session, call, CallChecked("1.0"), (Rule("look", "ask"),)) == ""
    message = ask_reason(
        whole_session, call, CallChecked("1.0"), (Rule("*", "ask"), Rule("*", "run"))
    )
    assert message == "The rule “ask every tool” asks."


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


def obstacle_of(events: list[Event], rule: Rule) -> str:
    whole_session = session(*events)
    return obstacle(whole_session, whole_session.turns[-1], whole_session.current_calls[-1], rule)
