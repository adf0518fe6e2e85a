"""The playbook of limits: where a run pauses, with which sentence, and what Continue lets it do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from playground.core.arguments import same_arguments
from playground.core.decide import Command, Record, RunCall, SendRequest, next_commands
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallStarted,
    Event,
    Logged,
    PromptAdded,
    ResponseEnded,
    ResponseFailed,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionStarted,
    SettingsChanged,
    TurnDropped,
    Usage,
    Warned,
)
from playground.core.reducer import fold
from playground.core.rules import Rule
from playground.core.run_limits import busy_ms, input_output_tokens
from playground.core.session import Session
from playground.core.settings import Limits
from playground.core.tools import ToolChoice, text_result
from playground.engine.tool_runs import idempotency_key
from tests.playbook import (
    call,
    call_checked,
    part,
    request_sent,
    run,
    run_call,
    session,
    settings,
    turn,
)

AUTO = SendRequest(ToolChoice())
ARGUMENTS = '{"city":"Paris"}'
ALL = (Rule("*", "run"),)

K = Usage(900, 100)


def limited_events(**limits: Any) -> list[Event]:
    """A session with one prompt, and other limits."""
    return [SessionStarted(replace(settings(), limits=Limits(**limits))), PromptAdded("hello")]


def turn_with_call(
    number: int, usage: Usage | None = None, cost: float | None = None
) -> list[Event]:
    """A turn with one call, which has run."""
    items = turn(number, call(0))
    items[-1] = ResponseEnded("calls", usage=usage or Usage(), cost=cost)
    id_ = f"{number}.0"
    return [*items, call_checked(id_), run(id_), *run_call(id_)]


def several(count: int, *done: str) -> list[Event]:
    """A turn of `count` calls that are safe, of which some have run."""
    calls = [call(n, "look", f'{{"n":{n}}}') for n in range(count)]
    events = [*turn(1, *calls), *(call_checked(f"1.{n}", parallel_safe=True) for n in range(count))]
    return events + [event for id_ in done for event in (run(id_), *run_call(id_))]


def paused(events: Iterable[Event]) -> list[tuple[str, str]]:
    """(limit, sentence) of what is recorded next."""
    results = next_commands(session(*events), ALL)
    return [
        (item.event.limit, item.event.message)
        for item in results
        if isinstance(item, Record) and isinstance(item.event, RunPaused)
    ]


FIVE = [*limited_events(max_calls_per_turn=2), *several(5)]
TWO_DONE = [*limited_events(max_calls_per_turn=2), *several(5, "1.0", "1.1")]

PAUSES: list[tuple[str, list[Event], str, str]] = [
    ("turns", [*limited_events(max_turns=1), *turn_with_call(1)], "max_turns", "1 turn was made"),
    ("turns, several", [*limited_events(max_turns=2), *turn_with_call(1), *turn_with_call(2)],
     "max_turns",
     "2 turns were made"),
    ("turns, none allowed is one", [*limited_events(max_turns=0), *turn_with_call(1)], "max_turns",
     "1 turn"),
    ("tokens", [*limited_events(max_run_tokens=1000), *turn_with_call(1, K)], "max_run_tokens",
     "1,000 tokens of 1,000 were used"),
    ("tokens of all turns", [*limited_events(max_run_tokens=1500), *turn_with_call(1, K),
     *turn_with_call(2, K)],
     "max_run_tokens", "2,000 tokens of 1,500"),
    ("money", [*limited_events(max_cost=0.25), *turn_with_call(1, cost=0.25)], "max_cost",
     "$0.25 of $0.25 were spent"),
    ("money in small coin", [*limited_events(max_cost=1.0), *turn_with_call(1, cost=0.7),
                             *turn_with_call(2, cost=0.2), *turn_with_call(3, cost=0.1)],
                              "max_cost",
     "$1 of $1"),
    ("calls", TWO_DONE, "max_calls", "makes 5 calls; 2 are done"),
    ("repeats", [*limited_events(max_repeats=2), *turn_with_call(1), *turn_with_call(2), *turn(3,
     call(0)),
                 call_checked("3.0")], "max_repeats", "this call of get_weather 2 times"),
    ("repeats, spaced otherwise",
     [*limited_events(max_repeats=1), *turn_with_call(1), *turn(2, call(0,
      arguments='{ "city" : "Paris" }')),
      call_checked("2.0")], "max_repeats", "get_weather once before"),
    ("an error", [*limited_events(continue_on_error=False), *turn(1, call(0)), call_checked("1.0"),
     run("1.0"),
                  CallStarted("1.0", 1), CallEnded("1.0", text_result("no", is_error=True))],
     "error", "get_weather failed"),
    ("a staged error", [*limited_events(continue_on_error=False), *turn(1, call(0)),
     call_checked("1.0"),
                        CallDecided("1.0", "answer", fault="error"),
                        CallEnded("1.0", text_result("no", is_error=True))],
     "error", "get_weather failed"),
    ("repeats in one answer", [*limited_events(), *turn(1, *map(call, range(11))),
                               *(call_checked(f"1.{place}") for place in range(11))],
     "max_repeats", "get_weather 10 times before"),
    ("by default turns come before repeats",
     [*limited_events(), *(item for place in range(1, 11) for item in turn_with_call(place))],
      "max_turns", "10"),
    ("turns come first", [*limited_events(max_turns=1, max_run_tokens=1, max_cost=0.1),
                          *turn_with_call(1, K, 9.0)], "max_turns", "turn"),
    ("then tokens", [*limited_events(max_run_tokens=1, max_cost=0.1), *turn_with_call(1, K, 9.0)],
     "max_run_tokens", "tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "limit", "text"), [p[1:] for p in PAUSES],
                         ids=[p[0] for p in PAUSES])  # fmt: skip
def test_a_limit_pauses_with_a_sentence_and_continue_goes_on(
    events: list[Event], limit: str, text: str
) -> None:
    ((match, message),) = paused(events)
    assert match == limit
    assert text in message
    assert "Continue" in message
    assert message.endswith(".")
    halted = session(*events, RunPaused(limit, message))
    assert (halted.state, halted.paused_because) == ("paused", message)
    assert next_commands(halted, ALL) == []
    on = session(*events, RunPaused(limit, message), RunResumed())
    assert (on.state, on.paused_because) in (("running", ""), ("waiting", ""))
    assert next_commands(on, ALL) != []
    assert not paused([*events, RunPaused(limit, message), RunResumed()])


ON: list[tuple[str, list[Event]]] = [
    ("a turn less", [*limited_events(max_turns=2), *turn_with_call(1)]),
    ("a dropped turn is none", [*limited_events(max_turns=1), request_sent(1),
     ResponseFailed("http", "No.", 429),
                                TurnDropped(1)]),
    ("a token less", [*limited_events(max_run_tokens=1001), *turn_with_call(1, K)]),
    ("no limit of tokens", [*limited_events(), *turn_with_call(1, K)]),
    ("a cent less", [*limited_events(max_cost=0.26), *turn_with_call(1, cost=0.25)]),
    ("another prompt begins anew", [*limited_events(max_turns=1), *turn_with_call(1), *turn(2),
                                    PromptAdded("more"), *turn(3, reason="pause")[:0]]),
    ("a repeat less", [*limited_events(max_repeats=2), *turn_with_call(1), *turn_with_call(2)]),
    ("answered ones are no error", [
        *limited_events(continue_on_error=False), *turn(1, call(0)), call_checked("1.0"),
        CallDecided("1.0", "deny"), CallEnded("1.0", text_result("no", is_error=True))]),
    ("cancelled by the user", [
        *limited_events(continue_on_error=False), *turn(1, call(0)), call_checked("1.0"),
         run("1.0"),
        CallStarted("1.0", 1),
        CallEnded("1.0", text_result("no", is_error=True, kind="interrupted"))]),
    ("a denial is no failure", [*limited_events(continue_on_error=False), *turn(1, call(0)),
                                call_checked("1.0"), CallDecided("1.0", "deny"),
                                CallEnded("1.0", text_result("no", is_error=True))]),
]  # fmt: skip


@pytest.mark.parametrize("events", [row[1] for row in ON], ids=[item[0] for item in ON])
def test_a_run_goes_on(events: list[Event]) -> None:
    assert next_commands(session(*events)) == [AUTO]


# Calls of one turn.


def test_the_limit_of_calls_decides_and_runs_so_many_and_continue_as_many_again() -> None:
    def decided(*places: int) -> list[Command]:
        return [Record(CallDecided(f"1.{n}", "run", "rule", "run every tool", "digest"))
                for n in places]  # fmt: skip

    assert next_commands(session(*FIVE), ALL) == decided(0, 1)
    stop: list[Event] = [RunPaused("max_calls", "x"), RunResumed()]
    assert next_commands(session(*TWO_DONE, *stop), ALL) == decided(2, 3)
    four = [*limited_events(max_calls_per_turn=2), *several(5, "1.0", "1.1"), *stop]
    four += [event for id_ in ("1.2", "1.3") for event in (run(id_), *run_call(id_))]
    assert [row[0] for row in paused(four)] == ["max_calls"]
    assert next_commands(session(*four, *stop), ALL) == decided(4)
    stopped = [stop[0], RunStopped(), RunResumed()]
    assert next_commands(session(*TWO_DONE, *stopped), ALL) == decided(2, 3)
    to_three = SettingsChanged(replace(settings(), limits=Limits(max_calls_per_turn=3)))
    assert next_commands(session(*TWO_DONE, stop[0], to_three, stop[1]), ALL) == decided(2)


def test_a_raised_limit_counts_on_and_the_same_one_counts_since_continue() -> None:
    two = [*limited_events(max_turns=2), *turn_with_call(1), *turn_with_call(2)]
    pause = RunPaused("max_turns", paused(two)[0][1])
    three = SettingsChanged(replace(settings(), limits=Limits(max_turns=3)))
    on = [*two, pause, three, RunResumed()]
    assert next_commands(session(*on)) == [AUTO]
    message = "3 turns were made, which is the limit; Continue allows as many again."
    assert paused([*on, *turn_with_call(3)]) == [("max_turns", message)]
    assert not paused([*two, pause, RunResumed(), *turn_with_call(3)])
    since = "2 turns were made since Continue, which is the limit; Continue allows as many again."
    again = [*two, pause, RunResumed(), *turn_with_call(3), *turn_with_call(4)]
    assert paused(again) == [("max_turns", since)]
    # What is raised, and reached all the same, does not pause at once again.
    dear = [*limited_events(max_cost=0.1), *turn_with_call(1, K, 0.5)]
    more = SettingsChanged(replace(settings(), limits=Limits(max_cost=0.2)))
    assert next_commands(session(*dear, RunPaused("max_cost", "x"), more, RunResumed())) == [AUTO]


@pytest.mark.parametrize("decision", ["answer", "deny"])
def test_what_repeats_is_answered_or_denied_and_the_run_goes_on(decision: Any) -> None:
    twice = [*limited_events(max_repeats=1), *turn_with_call(1), *turn(2, call(0), call(1, "look"))]
    item = session(*twice, call_checked("2.0"), call_checked("2.1"))
    (pause,) = next_commands(item, ALL)
    assert isinstance(pause, Record)
    log = [*twice, call_checked("2.0"), call_checked("2.1"), pause.event]
    log.append(CallDecided("2.0", decision, digest="digest", text="no"))
    (end,) = next_commands(session(*log), ALL)
    assert isinstance(end, Record)
    assert isinstance(end.event, CallEnded)
    assert next_commands(session(*log, end.event), ALL) == [Record(RunResumed())]
    on = session(*log, end.event, RunResumed())
    assert (on.state, on.resumed_turn) == ("waiting", 0)  # what it made before still counts


def test_saved_settings_alone_let_nothing_that_repeats_go_on() -> None:
    twice = [
        *limited_events(max_repeats=1),
        *turn_with_call(1),
        *turn(2, call(0)),
        call_checked("2.0"),
    ]
    more = SettingsChanged(replace(settings(), limits=Limits(max_repeats=9)))
    log = [*twice, RunPaused("max_repeats", "x"), more]
    assert next_commands(session(*log), ALL) == []
    ended: list[Event] = [
        CallDecided("2.0", "deny"),
        CallEnded("2.0", text_result("no", is_error=True)),
    ]
    assert next_commands(session(*log, *ended), ALL) == [Record(RunResumed())]
    begins = next_commands(session(*log, RunResumed()), ALL)
    assert [type(begin.event) for begin in begins if isinstance(begin, Record)] == [CallDecided]


def test_what_is_beyond_the_limit_may_be_answered_but_does_not_run() -> None:
    assert next_commands(session(*FIVE, run("1.4"))) == []
    assert session(*FIVE, run("1.4")).state == "waiting"
    answer = CallDecided("1.4", "answer", digest="digest", text="so")
    ended = CallEnded("1.4", text_result("so"))
    assert next_commands(session(*FIVE, answer)) == [Record(ended)]
    assert session(*FIVE, answer).state == "running"


# Errors.


def failing(*more: Event) -> list[Event]:
    """Three safe calls: the first has failed, the second runs, the third is decided."""
    events = [
        *limited_events(continue_on_error=False),
        *several(3),
        run("1.0"),
        run("1.1"),
        run("1.2"),
    ]
    events += [CallStarted("1.0", 1), CallStarted("1.1", 1)]
    return [*events, CallEnded("1.0", text_result("no", is_error=True)), *more]


def test_a_failure_lets_its_siblings_end_and_starts_nothing() -> None:
    assert next_commands(session(*failing())) == []
    assert session(*failing()).state == "running"
    ended = failing(CallEnded("1.1", text_result("ok")))
    ((limit, message),) = paused(ended)
    assert limit == "error"
    again = [*ended, RunPaused(limit, message), RunResumed()]
    assert next_commands(session(*again)) == [RunCall("1.2", 1, '{"n":2}')]
    twice = [*again, CallStarted("1.2", 1), CallEnded("1.2", text_result("no", is_error=True))]
    assert [row[0] for row in paused(twice)] == ["error"]


# What is not known.


def warned(events: list[Event]) -> list[str]:
    results = next_commands(session(*events))
    return [
        item.event.message
        for item in results
        if isinstance(item, Record) and isinstance(item.event, Warned)
    ]


def test_a_limit_that_cannot_hold_says_so_once_in_a_run() -> None:
    for limits, text in (({"max_cost": 1.0}, "$1 "), ({"max_run_tokens": 9_000}, "9,000 tokens")):
        events = [*limited_events(**limits), *turn_with_call(1)]
        (message,) = warned(events)
        assert text in message
        assert "can't be enforced" in message
        (command,) = next_commands(session(*events))
        assert isinstance(command, Record)
        assert next_commands(session(*events, command.event)) == [AUTO]
        second = [*events, command.event, *turn_with_call(2)]
        assert next_commands(session(*second)) == [AUTO]
        anew = [*second, RunPaused("store"), RunResumed(), *turn_with_call(3)]
        assert warned(anew) == [message]


def test_what_is_known_counts_beside_what_is_not() -> None:
    events = [*limited_events(max_cost=1.0), *turn_with_call(1), *turn_with_call(2, cost=1.0)]
    assert [row[0] for row in paused(events)] == ["max_cost"]


def test_a_try_that_failed_before_any_output_cost_nothing() -> None:
    failed: list[Event] = [request_sent(1), ResponseFailed("http", "Too many.", 429)]
    retried = [*failed, RetryScheduled(1, 1, 1.0, 2_000, "429"), TurnDropped(1, automatic=True)]
    events = [
        *limited_events(max_cost=1.0, max_run_tokens=9_000),
        *retried,
        *turn_with_call(2, K, 0.1),
    ]
    assert next_commands(session(*events)) == [AUTO]
    cut: list[Event] = [request_sent(1), *part(0), ResponseFailed("http", "x", 500), TurnDropped(1)]
    assert warned([*limited_events(max_cost=1.0), *cut, *turn_with_call(2, K, 0.1)])


@pytest.mark.parametrize(
    ("protocol", "usage", "total"),
    [
        ("openai_chat", Usage(100, 10, cached_tokens=90, reasoning_tokens=5), 110),
        ("anthropic", Usage(100, 10, cached_tokens=90, cache_write_tokens=7), 207),
        ("anthropic", Usage(100, 10), 110),
        ("gemini", Usage(100, 10, cached_tokens=90, reasoning_tokens=5), 115),
        ("ollama", Usage(0, 0), 0),
        ("ollama", Usage(None, 10), None),
        ("openai_chat", Usage(100, None), None),
    ],
)
def test_tokens(protocol: str, usage: Usage, total: int | None) -> None:
    counted = input_output_tokens(protocol, usage)
    assert (counted and sum(counted)) == total


# Time.


def timed(*timed: tuple[int, Event]) -> Session:
    """A session whose events come at these seconds."""
    return fold("s", [Logged(n, at * 1000, item) for n, (at, item) in enumerate(timed, 1)])


def test_minutes_count_work_side_by_side_once_and_no_waiting() -> None:
    first, prompt = limited_events(max_minutes=1.0)
    items, two = call(0, "look"), call(1, "look")
    events: list[tuple[int, Event]] = [(0, first), (100, prompt), (100, request_sent(1))]
    events += [(105, e) for e in (*items, *two, ResponseEnded("calls"))]  # 5 s of the model
    for id_ in ("1.0", "1.1"):
        events.append((105, call_checked(id_, parallel_safe=True)))
        events.append((200, run(id_)))  # the user took their time
    events += [(200, CallStarted("1.0", 1)), (210, CallStarted("1.1", 1))]
    events += [(220, CallEnded("1.0", text_result("ok")))]
    assert busy_ms(timed(*events)) == 25_000
    early, late = ((at, CallEnded("1.1", text_result("ok"))) for at in (254, 255))
    assert busy_ms(timed(*events, early)) == 59_000
    assert next_commands(timed(*events, early)) == [AUTO]
    (command,) = next_commands(timed(*events, late))
    assert command == Record(
        RunPaused("max_minutes", "1 of 1 minutes were used; Continue allows as many again.")
    )
    resumed = timed(*events, late, (300, command.event), (301, RunResumed()))
    assert busy_ms(resumed) == 0
    assert next_commands(resumed) == [AUTO]


# The same call.


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ('{"a": 1, "b": [true, null]}', '{ "b":[true,null],"a":1.0 }', True),
        ("", "{}", True),
        ("null", " ", True),
        ('{"a": true}', '{"a": 1}', False),
        ('{"a": "1"}', '{"a": 1}', False),
        ('{"a": 0.1}', '{"a": 0.10000000000000000001}', False),
        ('{"a": [1, 2]}', '{"a": [2, 1]}', False),
        ('{"a": {}}', '{"a": []}', False),
        ("[]", "{}", False),
        ("{", "{ ", False),
        ("{", "{", True),
        ("[" * 900 + "]" * 900, "[" * 900 + " " + "]" * 900, False),
    ],
)
def test_the_same_arguments(name: str, other: str, same: bool) -> None:
    assert same_arguments(name, other) == same
    assert same_arguments(other, name) == same
    assert (idempotency_key("s", "1.0", name) == idempotency_key("s", "1.0", other)) == same
