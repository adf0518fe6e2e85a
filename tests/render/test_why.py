from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallReturned,
    CallStarted,
    Event,
    Problem,
    ResponseFailed,
    RunPaused,
    RunStopped,
    SettingsChanged,
)
from playground.core.settings import Limits
from playground.core.tools import text_result
from playground.render.blocks import block
from playground.render.call_status import calls_behind, check_sentence, status_facts, wait_reason
from playground.render.view import View
from playground.render.wire_rows import WireRows
from tests.factories import DIGEST, Log, settings, turn_with_calls
from tests.render.page import ENV

ONE = "get_weather (1 of 3)"


def three(safe: str = "", **limits: Any) -> Log:
    """Three checked calls of get_weather; those whose number is in `safe` are parallel-safe."""
    log = turn_with_calls(*[("get_weather", {"city": str(n)}) for n in range(3)], checked=False)
    for n in "123":
        log.add(CallChecked(f"1.{n}", parallel_safe=n in safe, digest=DIGEST))
    return log.add(SettingsChanged(settings(limits=Limits(**limits)))) if limits else log


def decided(number: int, **changes: object) -> CallDecided:
    return replace(CallDecided(f"1.{number}", "run", digest=DIGEST), **changes)  # type: ignore[arg-type]


def started(*numbers: int) -> list[Event]:
    return [event for n in numbers for event in (decided(n), CallStarted(f"1.{n}", 1))]


def call_end(number: int, text: str = "x") -> CallEnded:
    return CallEnded(f"1.{number}", text_result(text))


def waits(log: Log, number: int) -> str:
    session = log.session()
    return wait_reason(session, session.turns[0], session.call(f"1.{number}"))


@pytest.mark.parametrize(
    ("log", "number", "message"),
    [
        (three(), 1, ""),
        (three(), 2, f"If you run it, it waits for {ONE}, which needs approval."),
        (three(), 3, f"If you run it, it waits for {ONE}, which needs approval."),
        (three("123"), 3, ""),
        (three("12"), 3, f"If you run it, it waits for {ONE}, which needs approval."),
        (three().add(*started(1)), 2, f"If you run it, it waits for {ONE}, which runs."),
        (three().add(decided(2)), 2, f"Waits for {ONE}, which needs approval."),
        (three().add(decided(2)), 3, f"If you run it, it waits for {ONE}, which needs approval."),
        (three().add(*started(1), decided(2)), 2, f"Waits for {ONE}, which runs."),
        (three().add(*started(1), call_end(1), decided(3)), 3,
         "Waits for get_weather (2 of 3), which needs approval."),
        (three().add(*started(1), call_end(1), decided(2), decided(3)), 3,
         "Waits for get_weather (2 of 3), which is waiting."),
        (three().add(*started(1), CallInterrupted("1.1"), decided(2)), 2,
         f"Waits for {ONE}, which was running when the server stopped and needs a decision."),
        (three("123", max_parallel=2).add(*started(1, 2), decided(3)), 3,
         "Queued: at most 2 calls at once."),
        (three("123", max_calls_per_turn=2).add(decided(3)), 3,
         "The limit of 2 calls is reached. Continue allows more."),
        (three("123", max_calls_per_turn=2), 3,
         "The limit of 2 calls is reached. Continue allows more."),
        (three().add(decided(2), RunPaused("restart")), 2,
         "The run is paused. Press Continue to run this call."),
        (three().add(decided(2), RunStopped()), 2,
         "The run is stopped. Press Continue to run this call."),
        (three().add(RunStopped()), 2, ""),
        (three().add(decided(2, decision="deny")), 2, ""),
        (three().add(*started(1)), 1, ""),
        (three().add(*started(1), call_end(1)), 1, ""),
    ],
)  # fmt: skip
def test_what_a_call_waits_for(log: Log, number: int, message: str) -> None:
    assert waits(log, number) == message


def test_a_call_of_an_earlier_answer_waits_for_nothing() -> None:
    log = turn_with_calls(("get_weather", {}))
    log.add(*started(1), call_end(1)).request().call(0, "get_weather", {}).end().check("2.0")
    session = log.session()
    assert wait_reason(session, session.turns[0], session.call("1.1")) == ""


@pytest.mark.parametrize(
    ("log", "number", "checked", "names"),
    [
        (three(), 1, False, ["1.2", "1.3"]),
        (three(), 2, False, []),
        (three("123"), 1, False, []),
        (three("123"), 1, True, ["1.2", "1.3"]),
        (three("12"), 1, False, ["1.3"]),
        (three("23"), 1, False, ["1.2", "1.3"]),
        (three().add(*started(1), call_end(1)), 2, False, ["1.3"]),
    ],
)  # fmt: skip
def test_what_is_drawn_again_behind_a_call(
    log: Log, number: int, checked: bool, names: list[str]
) -> None:
    session = log.session()
    call = session.call(f"1.{number}")
    assert [
        call.id for call in calls_behind(session.turns[0].calls, call, checked=checked)
    ] == names


def facts(log: Log, number: int = 1) -> dict[str, str]:
    session = log.session()
    return {
        fact.label: fact.text
        for fact in status_facts(session.turns[0], session.call(f"1.{number}"))
    }


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (decided(1), "You ran it on this card."),
        (decided(1, arguments="{}"), "You ran it with edited arguments."),
        (decided(1, anyway=True),
         "You ran it on this card although the arguments do not match the schema."),
        (decided(1, lift=True), "You ran it on this card without the sandbox."),
        (decided(1, by="rule", rule="read-only tools"), "The rule “read-only tools” ran it."),
        (decided(1, by="rule", rule="no", decision="deny"), "The rule “no” denied it."),
        (decided(1, by="rule"), "A rule ran it."),
        (decided(1, decision="answer", text="x"), "You answered it on this card."),
    ],
)  # fmt: skip
def test_who_decided(event: CallDecided, message: str) -> None:
    assert facts(three().add(event))["decided"] == message


def test_what_was_staged_is_told() -> None:
    log = three().add(decided(1, fault="error"), CallStarted("1.1", 1))
    assert "Simulated fault: " in facts(log)["decided"]
    result = replace(text_result("no"), staged=True)
    log.add(CallEnded("1.1", result, real=text_result("yes")))
    assert "the model read a simulated fault. The tool's own result" in facts(log)["ended"]


@pytest.mark.parametrize(
    ("problems", "message"),
    [
        ((), "Valid JSON that matches the schema."),
        ((Problem("note", "x"),), "Valid JSON that matches the schema."),
        ((Problem("caution", "x"),), "Valid JSON that matches the schema. There was a warning."),
        ((Problem("schema", "x"), Problem("schema", "y")),
         "Valid JSON; 2 schema errors."),
        ((Problem("malformed", "x"),), "The arguments are not a valid JSON object."),
        ((Problem("unknown_tool", "x"),), "Unknown tool."),
    ],
)  # fmt: skip
def test_what_the_check_said(problems: tuple[Problem, ...], message: str) -> None:
    log = turn_with_calls(("get_weather", {}), checked=False).check("1.1", *problems)
    assert check_sentence(log.session().call("1.1")) == message


def test_how_long_it_waited_and_for_what() -> None:
    log = three().add(decided(2), *started(1))
    log.now_ms += 3_000
    log.add(call_end(1), CallStarted("1.2", 1))
    assert facts(log, 2)["waited"] == "3.04 s for get_weather (1 of 3) to finish."
    safe = three("123").add(*started(1), decided(2))
    safe.now_ms += 400
    assert facts(safe.add(CallStarted("1.2", 1)), 2)["waited"] == "410 ms for a free slot."
    assert "waited" not in facts(three().add(*started(1)))


def test_a_second_attempt_says_so() -> None:
    log = three().add(*started(1), CallInterrupted("1.1"), decided(1), CallStarted("1.1", 2))
    assert facts(log)["started"].startswith(
        "Attempt 2: an earlier attempt was interrupted. It runs alone"
    )
    done = facts(log.add(call_end(1)))
    assert "It ran alone" in done["started"]
    assert done["ended"] == "After 10 ms, with a result from the tool."


def test_after_a_crash_it_is_told_who_ran_it_and_that_no_rule_decides_now() -> None:
    by_rule = decided(1, by="rule", rule="read-only tools")
    log = three().add(by_rule, CallStarted("1.1", 1), CallInterrupted("1.1"))
    session = log.session()
    result = {fact.label: fact for fact in status_facts(session.turns[0], session.call("1.1"))}
    assert list(result) == ["before", "cut", "asks", "checked"]
    assert result["before"].text == "The rule “read-only tools” ran it."
    assert result["before"].at_ms == session.call("1.1").decided_ms is not None
    assert result["cut"].at_ms == session.call("1.1").started_ms is not None
    assert (
        result["asks"].text == "An interrupted call needs your decision; rules do not apply to it."
    )
    again = facts(log.add(decided(1), CallStarted("1.1", 2)))
    assert again["before"] == "The rule “read-only tools” ran it."
    assert again["decided"] == "You ran it on this card."
    assert "asks" not in again


def test_a_mock_made_its_result_up_and_nobody_staged_it() -> None:
    log = three().add(*started(1))
    log.add(CallEnded("1.1", replace(text_result("no"), staged=True)))
    assert facts(log)["ended"] == "After 10 ms, with a result simulated by the mock."


def test_a_call_that_was_taken_back_says_so() -> None:
    log = three().add(decided(2), CallReturned("1.2", why="You took it back."))
    assert facts(log, 2)["asks"] == "You took it back."


def test_a_call_that_waits_says_why_it_asks() -> None:
    assert facts(three())["asks"] == "No rule matched. Waiting for your approval."
    message = "get_weather has changed since the rule “x” was written, so it asks."
    log = turn_with_calls(("get_weather", {}), checked=False)
    log.add(CallChecked("1.1", digest=DIGEST, asks=message))
    assert facts(log)["asks"] == message
    session = log.session()
    html = block(ENV, View(session, "", WireRows(), log.now_ms), "call-1-1")
    assert html.count(message) == 2  # in sight, and in its "Why?"


def test_nothing_is_said_of_what_was_not_checked_or_was_cut() -> None:
    assert not facts(turn_with_calls(("get_weather", {}), checked=False))
    cut = Log().start().prompt().request().part(0, "text", "x").call(1, "get_weather", {})
    assert not facts(cut.add(ResponseFailed("interrupted", "The bytes stopped.")))
