"""The playbook: events in, commands out."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.decide import (
    CheckCall,
    Command,
    Record,
    Retry,
    RunCall,
    SendRequest,
    next_commands,
)
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallStarted,
    Event,
    Problem,
    PromptAdded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SettingsChanged,
    TurnDropped,
)
from playground.core.rules import Rule
from playground.core.run_limits import repeats_recent_call
from playground.core.tools import ToolChoice, text_result
from tests.playbook import (
    PERSON,
    SAFE,
    WEATHER,
    call,
    call_checked,
    failed,
    opened,
    part,
    request_sent,
    run,
    run_call,
    session,
    settings,
    start_events,
    turn,
)

ALLOW = (Rule("*", "run", "", "--allow all"),)
AUTO = SendRequest(ToolChoice())
SCHEMA_PROBLEM = Problem("schema", "/city is missing")
MALFORMED = Problem("malformed", "no JSON")
TWINS = [
    *start_events(),
    *turn(1, call(0, provider_id="a"), call(1, provider_id="a")),
    call_checked("1.0"),
    call_checked("1.1"),
]
NO_IDS = [
    *start_events(),
    *turn(1, call(0, provider_id=""), call(1, provider_id="")),
    call_checked("1.0"),
    call_checked("1.1"),
]
TWO = [*start_events(), *turn(1, call(0), call(1))]
ONE = [*start_events(), *turn(1, call(0)), call_checked("1.0")]
LOOKED = [call_checked("1.0", parallel_safe=True)]
ORDERED = [
    *start_events(),
    *turn(1, call(0), call(1), call(2, "look")),
    call_checked("1.0"),
    call_checked("1.1"),
    call_checked("1.2", parallel_safe=True),
]
"""Two writes and a read, all waiting."""

PLAYS: list[tuple[str, list[Event], list[Command]]] = [
    ("a prompt is sent", start_events(), [AUTO]),
    ("nothing while the answer arrives", [*start_events(), request_sent(1)], []),
    ("an answer without calls ends the run", [*start_events(), *turn(1)], []),
    ("both calls are checked", TWO, [CheckCall("1.0"), CheckCall("1.1")]),
    ("an undecided call waits", ONE, []),
    ("a decided call runs", [*ONE, run("1.0")], [RunCall("1.0", 1, '{"city":"Paris"}')]),
    (
        "edited arguments are what runs",
        [*ONE, run("1.0", arguments='{"city":"Rome"}')],
        [RunCall("1.0", 1, '{"city":"Rome"}')],
    ),
    ("nothing while a call runs", [*ONE, run("1.0"), CallStarted("1.0", 1)], []),
    ("results are sent when all are done", [*ONE, run("1.0"), *run_call("1.0")], [AUTO]),
    (
        "an unsafe call runs alone",
        [*TWO, call_checked("1.0"), call_checked("1.1"), run("1.0"), run("1.1")],
        [RunCall("1.0", 1, '{"city":"Paris"}')],
    ),
    (
        "safe calls run together",
        [
            *start_events(),
            *turn(1, call(0, "look"), call(1, "look")),
            call_checked("1.0", parallel_safe=True),
            call_checked("1.1", parallel_safe=True),
            run("1.0"),
            run("1.1"),
        ],
        [RunCall("1.0", 1, '{"city":"Paris"}'), RunCall("1.1", 1, '{"city":"Paris"}')],
    ),
    (
        "one done, one waiting: nothing is sent",
        [*TWO, call_checked("1.0"), call_checked("1.1"), run("1.0"), *run_call("1.0")],
        [],
    ),
    ("a read does not overtake a write that waits for a user", [*ORDERED, run("1.2")], []),
    (
        "nor a write that is decided and not done",
        [*ORDERED, run("1.0"), run("1.2"), CallStarted("1.0", 1)],
        [],
    ),
    (
        "nor a write overtakes a read",
        [
            *start_events(),
            *turn(1, call(0, "look"), call(1)),
            *LOOKED,
            call_checked("1.1"),
            run("1.1"),
        ],
        [],
    ),
    (
        "one write after the other",
        [*ORDERED, run("1.0"), run("1.1"), run("1.2"), *run_call("1.0")],
        [RunCall("1.1", 1, '{"city":"Paris"}')],
    ),
    (
        "then the read",
        [*ORDERED, run("1.0"), run("1.1"), run("1.2"), *run_call("1.0"), *run_call("1.1")],
        [RunCall("1.2", 1, '{"city":"Paris"}')],
    ),
    (
        "a safe call need not wait for a safe one",
        [
            *start_events(),
            *turn(1, call(0, "look"), call(1, "look")),
            *LOOKED,
            call_checked("1.1", parallel_safe=True),
            run("1.1"),
        ],
        [RunCall("1.1", 1, '{"city":"Paris"}')],
    ),
    (
        "what is answered by hand waits for nothing",
        [*ORDERED, CallDecided("1.2", "deny", digest="digest", text="no")],
        [Record(CallEnded("1.2", text_result("no", is_error=True, kind="denied")))],
    ),
    ("a failed answer asks for nothing", [*start_events(), *failed(1, call(0))], []),
    ("stopped: nothing goes on", [*ONE, run("1.0"), *run_call("1.0"), RunStopped()], []),
    ("continued", [*ONE, run("1.0"), *run_call("1.0"), RunStopped(), RunResumed()], [AUTO]),
    ("retried", [*start_events(), *failed(1), TurnDropped(1)], [AUTO]),
    (
        "an interrupted call is never run again by itself",
        [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0")],
        [],
    ),
    (
        "a second run is a second attempt",
        [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0"), run("1.0")],
        [RunCall("1.0", 2, '{"city":"Paris"}')],
    ),
    (
        "a prompt after Stop is sent, though calls were never decided",
        [*ONE, RunStopped(), PromptAdded("never mind")],
        [AUTO],
    ),
    (
        "a paused provider turn goes on",
        [*start_events(), *turn(1, call(0)[:0], reason="pause")],
        [AUTO],
    ),
]

UNREACHED = [request_sent(1), ResponseFailed("unreachable", "No.")]

FIRST: Command = Retry(1, 1)
SECOND: Command = Retry(2, 2)


def by_rule(decision: str = "run", call_id: str = "1.0", **more: Any) -> Record:
    return Record(
        CallDecided(call_id, decision, by="rule", digest="digest", **more)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("events", "commands"), [p[1:] for p in PLAYS], ids=[p[0] for p in PLAYS])
def test_play(events: list[Event], commands: list[Command]) -> None:
    assert next_commands(session(*events)) == commands


RULED: list[tuple[str, list[Event], tuple[Rule, ...], list[Command]]] = [
    ("allowed", ONE, ALLOW, [by_rule(rule="--allow all")]),
    (
        "the first rule wins",
        ONE,
        (Rule("get_weather", "deny", "no", "--deny get_weather"), *ALLOW),
        [by_rule("deny", rule="--deny get_weather", text="no")],
    ),
    ("ask is no match", ONE, (Rule("get_weather", "ask"), *ALLOW), []),
    (
        "never by a rule where the schema is not satisfied",
        [*ONE[:-1], call_checked("1.0", SCHEMA_PROBLEM)],
        ALLOW,
        [],
    ),
    (
        "never in a turn that ended by a word nobody knows",
        [*start_events(), *turn(1, call(0), reason="other"), call_checked("1.0")],
        ALLOW,
        [],
    ),
    (
        "never where the connection broke after the finish reason",
        [*start_events(), *turn(1, call(0), abrupt=True), call_checked("1.0")],
        ALLOW,
        [],
    ),
    (
        "but a denial",
        [*start_events(), *turn(1, call(0), reason="other"), call_checked("1.0")],
        (Rule("*", "deny", "no", "--deny all"),),
        [by_rule("deny", rule="--deny all", text="no")],
    ),
    ("never one of two calls with one id", TWINS, ALLOW, []),
    (
        "but calls that have no id",
        NO_IDS,
        ALLOW,
        [by_rule(rule="--allow all"), by_rule(call_id="1.1", rule="--allow all")],
    ),
    ("never malformed", [*ONE[:-1], call_checked("1.0", MALFORMED)], ALLOW, []),
    (
        "but it can be denied by one",
        [*ONE[:-1], call_checked("1.0", MALFORMED)],
        (Rule("*", "deny", "no", "d"),),
        [by_rule("deny", rule="d", text="no")],
    ),
    (
        "never in a turn that was cut by length",
        [*start_events(), *turn(1, call(0), reason="length"), call_checked("1.0")],
        ALLOW,
        [],
    ),
    (
        "never a user's tool",
        [*start_events(), *turn(1, call(0, "ask")), call_checked("1.0")],
        ALLOW,
        [],
    ),
    (
        "never again after a crash",
        [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0")],
        ALLOW,
        [],
    ),
]


@pytest.mark.parametrize(
    ("events", "rules", "commands"), [r[1:] for r in RULED], ids=[r[0] for r in RULED]
)
def test_rules(events: list[Event], rules: tuple[Rule, ...], commands: list[Command]) -> None:
    assert next_commands(session(*events), rules) == commands


def failed_turn(number: int, status: int = 429, **more: Any) -> list[Event]:
    headers = more.pop("headers", {})
    failure = ResponseFailed("http", "No.", status, **more)
    return [request_sent(number), ResponseStarted(status, headers), failure]


def retried_turn(number: int) -> list[Event]:
    """Turn `number` failed, is waited for and dropped."""
    waited = RetryScheduled(number, number, 1.0, 2_000, "429")
    return [*failed_turn(number), waited, TurnDropped(number, automatic=True)]


WAITED = [*start_events(), *failed_turn(1), RetryScheduled(1, 1, 1.0, 2_000, "429")]

RETRIES: list[tuple[str, list[Event], list[Command]]] = [
    *((f"{status}", [*start_events(), *failed_turn(1, status)], [FIRST])
      for status in (408, 409, 429, 500, 502, 503, 504, 529)),
    *((f"{status}", [*start_events(), *failed_turn(1, status)], [])
      for status in (400, 401, 402, 403, 404, 413, 422, 501)),
    ("unreachable", [*start_events(), *UNREACHED], [FIRST]),
    *((kind, [*start_events(), *failed(1, failure=kind)], [])
      for kind in ("timeout", "error", "not_api", "redirect", "too_large", "no_key",
                   "bad_request", "interrupted", "stopped")),
    ("never after output", [*start_events(), *opened(1), *part(0), ResponseFailed("http", "",
     500)], []),
    ("a short wait is waited", [*start_events(), *failed_turn(1, retry_after=60.0)], [FIRST]),
    ("a long one is not", [*start_events(), *failed_turn(1, retry_after=60.5)], []),
    ("no use, it says", [*start_events(), *failed_turn(1, headers={"x-should-retry": "false"})],
     []),
    ("it says nothing", [*start_events(), *failed_turn(1, headers={"x-should-retry": "true"})],
     [FIRST]),
    ("not while it is waited for", WAITED, []),
    ("the wait is over", [*WAITED, TurnDropped(1, automatic=True)], [AUTO]),
    ("a second time", [*start_events(), *retried_turn(1), *failed_turn(2)], [SECOND]),
    ("and that was all", [*start_events(), *retried_turn(1), *retried_turn(2), *failed_turn(3)],
     []),
    ("none at all", [*start_events(max_retries=0), *failed_turn(1)], []),
    ("a change of settings sends nothing",
     [*start_events(max_retries=0), *failed_turn(1), SettingsChanged(settings())], []),
    ("stopped", [*WAITED, RunStopped()], []),
    ("paused", [*WAITED, RunPaused("restart")], []),
    ("what was not made is made then", [*WAITED, RunPaused("restart"), RunResumed()], [FIRST]),
    ("the last one, too",
     [*start_events(), *retried_turn(1), *failed_turn(2), RetryScheduled(2, 2, 1.0, 9_000, "429"),
      RunPaused("restart"), RunResumed()], [SECOND]),
    ("the user retries", [*WAITED, TurnDropped(1)], [AUTO]),
    ("then they count anew", [*WAITED, TurnDropped(1), *failed_turn(2)], [Retry(2, 1)]),
    ("and with each prompt",
     [*start_events(), *retried_turn(1), *retried_turn(2), *failed_turn(3), PromptAdded("more"),
      *failed_turn(4)],
     [Retry(4, 1)]),
    ("and after each answer",
     [*start_events(), *retried_turn(1), *turn(2, call(0)), call_checked("2.0"), run("2.0"),
      *run_call("2.0"),
      *failed_turn(3)], [Retry(3, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "commands"), [r[1:] for r in RETRIES], ids=[r[0] for r in RETRIES]
)
def test_retries(events: list[Event], commands: list[Command]) -> None:
    assert next_commands(session(*events)) == commands


def test_an_answer_says_how_many_retries_it_took() -> None:
    whole_session = session(*start_events(), *retried_turn(1), *retried_turn(2), *turn(3))
    assert [turn.retries for turn in whole_session.turns] == [0, 1, 2]
    assert (whole_session.state, whole_session.retries) == ("idle", 0)
    assert session(*WAITED).state == "running"
    assert session(*WAITED, RunStopped()).state == "failed"


def test_answers_and_denials_become_results_without_running() -> None:
    answered = CallDecided("1.0", "answer", digest="digest", text="rainy")
    assert next_commands(session(*ONE, answered)) == [
        Record(CallEnded("1.0", _result("rainy", is_error=False, kind="")))
    ]
    denied = CallDecided("1.0", "deny", digest="digest", text="too dear")
    assert next_commands(session(*ONE, denied)) == [
        Record(CallEnded("1.0", _result("too dear", is_error=True, kind="denied")))
    ]


def _result(text: str, *, is_error: bool, kind: Any) -> Any:
    return text_result(text, is_error=is_error, kind=kind)


@pytest.mark.parametrize("mode", ["required", "tool"])
def test_a_forced_choice_holds_for_the_first_request_of_each_prompt(mode: Any) -> None:
    choice = ToolChoice(mode, "get_weather" if mode == "tool" else "", ("get_weather",))
    events = start_events(WEATHER, SAFE, PERSON, choice=choice)
    assert next_commands(session(*events)) == [SendRequest(choice)]
    events += [*turn(1, call(0)), call_checked("1.0"), run("1.0"), *run_call("1.0")]
    (second,) = next_commands(session(*events))
    assert isinstance(second, SendRequest)
    assert second.choice == ToolChoice("auto", "", ("get_weather",))
    assert "auto" in second.note
    events += [*turn(2), PromptAdded("again")]
    assert next_commands(session(*events)) == [SendRequest(choice)]


def test_the_limit_of_turns_pauses_and_continue_gives_as_many_again() -> None:
    events: list[Event] = start_events(max_turns=2)
    for number in (1, 2):
        events += [*turn(number, call(0)), call_checked(f"{number}.0"), run(f"{number}.0")]
        events += run_call(f"{number}.0")
    message = "2 turns were made, which is the limit; Continue allows as many again."
    paused = RunPaused("max_turns", message)
    assert next_commands(session(*events)) == [Record(paused)]
    events += [paused]
    assert next_commands(session(*events)) == []
    assert session(*events).state == "paused"
    events += [RunResumed()]
    assert next_commands(session(*events)) == [AUTO]
    events += [*opened(3)]
    assert session(*events).state == "running"


def test_a_call_repeats_one_of_the_two_turns_before() -> None:
    tools = ["get_weather", "look", "look", "get_weather"]
    events: list[Event] = start_events()
    for number, tool in enumerate(tools, 1):
        id = f"{number}.0"
        events += [*turn(number, call(0, tool)), call_checked(id), run(id), *run_call(id)]
    whole_session = session(*events)
    flags = [
        repeats_recent_call(whole_session, whole_session.call(f"{number}.0"))
        for number in (1, 2, 3, 4)
    ]
    assert flags == [False, False, True, False]


def test_a_turn_that_was_dropped_is_no_repetition() -> None:
    events = [*start_events(), *turn(1), TurnDropped(1), *turn(2, call(0))]
    whole_session = session(*events)
    assert not repeats_recent_call(whole_session, whole_session.call("2.0"))
