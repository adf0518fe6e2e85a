"""What a session shows is judged by its log; a check that does not hold says what came instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from playground.core.events import CallDecided, Event, ResponseEnded, RunPaused, RunStopped, Usage
from playground.core.session import Session
from playground.core.tools import Tool
from playground.evaluation.results import judge, score_run
from playground.evaluation.spec import RunKey
from playground.evaluation.spec_reader import read_expectation
from tests import playbook as play

KEY = RunKey("a", "default", "m", 1)
F, G = (Tool(name, name, {"type": "object"}, "mock", {"result": "ok"}) for name in "fg")

TWO = ('f {"city": "Oslo"}', 'g {"n": 1}')

BIG = "12345678901234567890123"
NESTED = '{"to": {"city": "Oslo", "zip": "0150"}, "days": [1, 2]}'

DENIED = [play.call_checked("1.0"), CallDecided("1.0", "deny", digest="digest")]
DONE = [play.call_checked("1.0"), play.run("1.0"), *play.run_call("1.0")]


def make_session(*calls: str, answer: str = "Done.", reason: Any = "stop") -> Session:
    """A session whose calls were `f {"a": 1}`, and so on, in one answer, and an answer."""
    pairs = [call.partition(" ")[::2] for call in calls]
    parts = [play.call(n, name, text) for n, (name, text) in enumerate(pairs)]
    events = play.start_events(F, G)
    if parts:
        events += play.turn(1, *parts)
        for number in range(len(parts)):
            call_id = f"1.{number}"
            events += [play.call_checked(call_id), play.run(call_id), *play.run_call(call_id)]
    number = 2 if parts else 1
    end = ResponseEnded(reason, usage=Usage(10, 5), cost=0.5)
    return play.session(*events, *play.opened(number), *play.part(0, text=answer), end)


def check(session: Session, **expectation: Any) -> str:
    """The sentence of one expectation, "" where it holds."""
    [result] = judge(session, [read_expectation(expectation, "/expect/0")])
    assert result.passed is (result.sentence == "")
    return result.sentence


@pytest.mark.parametrize(
    ("expectation", "passes", "fails", "sentence"),
    [
        ({"called": "f"}, ["f {}"], ["g {}", "g {}"],
         "f was not called: the calls were g 2 times."),
        ({"called": "f"}, TWO, [], "f was not called: no tool was called; the answer is “Done.”."),
        ({"never": "f"}, ["g {}"], ['f {"a": 1}'],
         'f should not be called, but was called with {"a": 1}.'),
        ({"first": "f"}, TWO, ["g {}", "f {}"],
         "The first call should be f; the calls were g, then f."),
        ({"order": ["f", "g"]}, ["f {}", "f {}", "g {}"], ["g {}", "f {}"],
         "The order should be f, then g; the calls were g, then f."),
        ({"order": ["f", "f"]}, ["f {}", "g {}", "f {}"], ["f {}"],
         "The order should be f, then f; the only call was f."),
        ({"count": 2, "of": "f"}, ["f {}", "g {}", "f {}"], ["f {}"],
         "There should be 2 calls of f, not 1: the only call was f."),
        ({"count": 1}, ["g {}"], TWO, "There should be 1 call, not 2: the calls were f, then g."),
        ({"no_call": False}, ["f {}"], [],
         "A tool should be called; no tool was called; the answer is “Done.”."),
        ({"no_call": True}, [], ["f {}"], "No tool should be called; the only call was f."),
        ({"max_tokens": 15}, [], ["f {}"],
         "The number of tokens is unknown: the provider does not report it."),
        ({"max_cost": 0.5}, [], ["f {}"], "The cost is unknown: no price is known for this model."),
    ],
)  # fmt: skip
def test_calls_are_judged(
    expectation: dict[str, Any], passes: Iterable[str], fails: Iterable[str], sentence: str
) -> None:
    assert check(make_session(*passes), **expectation) == ""
    assert check(make_session(*fails), **expectation) == sentence


@pytest.mark.parametrize(
    ("expectation", "sentence"),
    [
        ({"text_contains": "the Sun"}, ""),
        ({"text_contains": "THE SUN", "ignore_case": True}, ""),
        ({"text_contains": "THE SUN"},
         'The answer does not contain "THE SUN": it is “It is the Sun.”.'),
        ({"finish_reason": "length"}, ""),
        ({"finish_reason": "stop"}, "The last answer ended by length, not by stop."),
        ({"max_tokens": 15}, ""),
        ({"max_tokens": 14}, "The run used 15 tokens; at most 14 are allowed."),
        ({"max_cost": 0.5}, ""),
        ({"max_cost": 0.4}, "The run cost $0.5; at most $0.4 is allowed."),
        ({"max_seconds": 1}, ""),
        ({"max_seconds": 0.001}, "The run took 0.005 s; at most 0.001 s are allowed."),
    ],
)  # fmt: skip
def test_answers_and_measures_are_judged(expectation: dict[str, Any], sentence: str) -> None:
    assert check(make_session(answer="It is the Sun.", reason="length"), **expectation) == sentence


@pytest.mark.parametrize(
    ("test", "raw", "error"),
    [
        ({"exact": {"a": 1}}, '{"a": 1.0}', ""),
        ({"exact": {"a": 1.0, "b": 2}}, '{"b": 2, "a": 1e0}', ""),
        ({"exact": {"a": 1}}, '{"a": true}', "/a is true, and should be 1"),
        ({"exact": {"a": True}}, '{"a": 1}', "/a is 1, and should be true"),
        ({"exact": {"a": 1}}, '{"a": "1"}', '/a is "1", and should be 1'),
        ({"exact": {"a": int(BIG)}}, f'{{"a": {BIG}}}', ""),
        ({"exact": {"a": int(BIG)}}, f'{{"a": {BIG[:-1]}4}}',
         f"/a is {BIG[:-1]}4, and should be {BIG}"),
        ({"exact": {"a": 0.1}}, '{"a": 0.10000000000000000001}',
         "/a is 0.10000000000000000001, and should be 0.1"),
        ({"exact": {}}, "", ""),
        ({"exact": {}}, "null", ""),
        ({"exact": {"a": 1}}, '{"a": 1, "b": 2}', "/b is 2, and should not be there"),
        ({"exact": {}}, '{"f": 6, "e": 5, "d": 4, "c": 3, "b": 2, "a": 1}',
         "/f is 6, and should not be there; /e is 5, and"),
        ({"exact": {"a": 1}}, "{}", "/a is missing, and should be 1"),
        ({"exact": {"a": None}}, "{}", "/a is missing, and should be null"),
        ({"exact": {"a": 1}}, '{"a": ', "they are not a valid JSON object"),
        ({"exact": {"a": 1}}, "[1]", "they are not a valid JSON object"),
        ({"subset": {"to": {"city": "Oslo"}}}, NESTED, ""),
        ({"subset": {"days": [1, 2]}}, NESTED, ""),
        ({"subset": {"days": [1]}}, NESTED, "/days is [1, 2], and should be [1]"),
        ({"subset": {"to": {"city": "Rome"}}}, NESTED, '/to/city is "Oslo", and should be "Rome"'),
        ({"subset": {"to": {}}}, '{"to": "Oslo"}', '/to is "Oslo", and should be {}'),
        ({"any_of": [{"a": 1}, {"a": 2}]}, '{"a": 2}', ""),
        ({"any_of": [{"a": 1, "b": 1}, {"a": 2}]}, '{"a": 3}', "/a is 3, and should be 2"),
        ({"any_of": {"a": [1, 2], "b": ["x"]}, "optional": ["b"]}, '{"a": 2}', ""),
        ({"any_of": {"a": [1, 2], "b": ["x"]}}, '{"a": 2}', '/b is missing, and should be "x"'),
        ({"any_of": {"a": [1, 2]}}, '{"a": 3}', "/a is 3, and should be one of 1, 2"),
        ({"any_of": {"a": [1, 2]}}, '{"a": 1, "c": 3}', "/c is 3, and should not be there"),
        ({"exact": {"a": "St. Moritz"}, "loose": True}, '{"a": "st moritz"}', ""),
        ({"any_of": {"a": ["o'clock", 2]}, "loose": True}, '{"a": "O\\"Clock"}', ""),
        ({"exact": {"a": "St. Moritz"}}, '{"a": "st moritz"}',
         '/a is "st moritz", and should be "St. Moritz"'),
        ({"schema": {"properties": {"a": {"minimum": 3}}, "required": ["a"]}}, '{"a": 3}', ""),
        ({"schema": {"properties": {"a": {"minimum": 3}}}}, '{"a": 2}',
         "/a is 2, an integer; the schema requires a value of at least 3"),
    ],
)  # fmt: skip
def test_arguments_are_compared(test: dict[str, Any], raw: str, error: str) -> None:
    sentence = check(make_session(f"f {raw}"), called="f", arguments=test)
    start = f"f was called with {raw}: "
    assert sentence.startswith(start + error) if error else sentence == ""


def test_each_expectation_of_arguments_claims_a_call_of_its_own() -> None:
    loose = {"called": "f", "arguments": {"subset": {}}}
    oslo = {"called": "f", "arguments": {"exact": {"city": "Oslo"}}}
    wanted = [read_expectation(data, "/0") for data in (loose, oslo, {"called": "f"})]

    def sentences(*calls: str) -> list[str]:
        return [result.sentence for result in judge(make_session(*calls), wanted)]

    assert sentences('f {"city": "Oslo"}', "f {}") == ["", "", ""]
    assert sentences("f {}", 'f {"city": "Oslo"}') == ["", "", ""]
    accepted_text = "The matching call of f is already used by another expectation."
    assert sentences('f {"city": "Oslo"}') == ["", accepted_text, ""]
    none = (
        "None of 2 calls of f matches; one was called with {}: /city is missing, and should be "
        '"Oslo".'
    )
    assert sentences("f {}", "f {}") == ["", none, ""]


def test_what_a_user_edited_is_judged_as_the_model_wrote_it() -> None:
    events = [
        *play.start_events(F),
        *play.turn(1, play.call(0, "f", '{"a": 1}')),
        play.call_checked("1.0"),
    ]
    events += [play.run("1.0", arguments='{"a": 2}'), *play.run_call("1.0"), *play.turn(2)]
    assert check(play.session(*events), called="f", arguments={"exact": {"a": 1}}) == ""


def cut_short(*more: Event, failure: str = "") -> Session:
    events = [*play.start_events(F), *play.turn(1, play.call(0, "f", "{}")), *more]
    return play.session(*events, *(play.failed(2, failure=failure) if failure else ()))


@pytest.mark.parametrize(
    ("session", "outcome", "detail"),
    [
        (make_session("f {}"), "passed", ""),
        (make_session("g {}"), "failed", ""),
        (cut_short(*DONE, RunPaused("max_turns", "Enough.")), "passed", ""),
        (cut_short(*DENIED, *play.turn(2)), "passed", ""),
        (
            cut_short(play.call_checked("1.0")),
            "needs_person",
            "f waits: no rule decides this call.",
        ),
        (cut_short(*DONE, failure="http"), "provider_error", "It stopped."),
        (cut_short(*DONE, failure="stopped"), "stopped", "The run was stopped."),
        (cut_short(*DONE, RunStopped()), "stopped", "The run was stopped."),
        (cut_short(*DONE, RunPaused("restart")), "unknown", "The run was interrupted."),
        (cut_short(*DONE), "unknown", "The run was interrupted."),
        (play.session(), "unknown", "No request was sent."),
    ],
)
def test_a_run_has_an_outcome(session: Session, outcome: str, detail: str) -> None:
    result = score_run(session, KEY, [read_expectation({"called": "f"}, "/0")], "s")
    assert (result.outcome, result.detail) == (outcome, detail)


def test_a_run_is_measured() -> None:
    session = make_session('f {"a": 1}', "h {}", answer="Fine.")
    result = score_run(session, KEY, [], "s")
    assert [(call.name, call.arguments, call.valid) for call in result.calls] == [
        ("f", '{"a": 1}', True),
        ("h", "{}", False),
    ]
    assert (result.text, result.finish_reason, result.session) == ("Fine.", "stop", "s")
    assert (result.tokens_in, result.cost) == (None, None)
    assert result.to_first_call_s == 0.003
    alone = score_run(make_session(answer="Hi"), KEY, [], None)
    assert (alone.tokens_in, alone.tokens_out, alone.cost, alone.seconds) == (10, 5, 0.5, 0.005)
    assert alone.to_first_call_s is None
