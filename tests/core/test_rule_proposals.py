"""What "Always…" on a card would write: where it goes, what it decides, and when there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import (
    CallDecided,
    CallInterrupted,
    CallStarted,
    Event,
    Problem,
    RunResumed,
    RunStopped,
)
from playground.core.rule_proposals import Denials, Proposal, proposal
from playground.core.rules import Rule
from tests.playbook import call, call_checked, run, run_call, session, start_events, turn

PARIS = '{"city":"Paris"}'
HERE = Rule("get_weather", "run", here="s", proposed=True)
EXACT = replace(HERE, when={"": {"equals": {"city": "Paris"}}})
ONE = [*start_events(), *turn(1, call(0)), call_checked("1.0")]
DENIED = CallDecided("1.0", "deny", digest="digest")
LATER = [*ONE, DENIED, *run_call("1.0")[1:]]

BROKEN = Problem("schema", "/city is missing")
ASK = Rule("*", "ask")
DENY_ROME = Rule("get_weather", "deny", when={"/city": "Rome"})
OTHER = Rule("look", "deny")

PLACES: list[tuple[str, dict[str, Any], int]] = [
    ("at the end", {"own": (OTHER, OTHER)}, 2),
    ("before the first that matches", {"own": (OTHER, ASK, OTHER)}, 1),
    ("after a denial of some of its calls", {"own": (DENY_ROME,)}, 1),
    ("and one that is switched off", {"own": (replace(DENY_ROME, enabled=False), OTHER)}, 2),
    ("for these arguments it cannot meet", {"own": (ASK, DENY_ROME), "exact": True}, 0),
    ("a session's comes before those for always", {"always": (ASK,)}, 0),
    ("always, at the end", {"own": (OTHER,), "always": (OTHER,), "scope": "always"}, 1),
    ("always, before what asks", {"own": (OTHER,), "always": (ASK,), "scope": "always"}, 0),
    ("a denial before what lets through", {"own": (Rule("*", "run"),), "action": "deny"}, 0),
    ("a denial after a denial", {"own": (DENY_ROME,), "action": "deny"}, 1),
]

STOP = Rule("get_weather", "stop")
BOUND = Rule("get_weather", "run", bound={"get_weather": "another"})
HUGE = '{"n":0.10000000000000000000001}'

NONE: list[tuple[str, list[Event], dict[str, Any], str]] = [
    ("not before a denial", ONE, {"own": (ASK, DENY_ROME)}, "must not come before"),
    ("nor before one switched off", ONE, {"own": (ASK, replace(DENY_ROME, enabled=False))},
     "must not come before"),
    ("what denies it comes first", ONE, {"own": (Rule("*", "deny"),)}, "comes first"),
    ("nor before a stop", ONE, {"own": (STOP,), "action": "deny"}, "comes first"),
    ("over a denial that holds always", ONE, {"always": (DENY_ROME,)}, "permanent rule"),
    ("behind the session's own", ONE, {"own": (ASK,), "scope": "always"}, "for this session"),
    ("there is one", ONE, {"own": (BOUND,)}, "renew it"),
    ("denied", ONE, {"denied": [("get_weather", '{ "city": "Paris" }')]}, "by hand"),
    ("and exactly", ONE, {"denied": [("get_weather", PARIS)], "exact": True}, "by hand"),
    ("another was denied", ONE, {"denied": [("get_weather", "{}")]}, "these arguments"),
    ("denied in this session", [*LATER, *turn(2, call(0, arguments="{}")), call_checked("2.0")],
     {"of": "2.0"}, "these arguments"),
    ("the same, here", [*LATER, *turn(2, call(0)), call_checked("2.0")],
     {"of": "2.0", "exact": True}, "by hand"),
    ("unsatisfied", [*ONE[:-1], call_checked("1.0", BROKEN)], {}, "schema"),
    ("cautioned", [*ONE[:-1], call_checked("1.0", Problem("caution", "x"))], {},
     "must be reviewed"),
    ("malformed", [*ONE[:-1], call_checked("1.0", Problem("malformed", "x"))], {},
     "invalid arguments"),
    ("the user's tool", [*start_events(), *turn(1, call(0, "ask")), call_checked("1.0")], {},
     "by the user"),
    ("no tool", [*start_events(), *turn(1, call(0, "gone")), call_checked("1.0")], {},
     "no tool gone"),
    ("cut", [*start_events(), *turn(1, call(0), reason="length"), call_checked("1.0")], {},
     "finish reason"),
    ("a word unknown", [*start_events(), *turn(1, call(0), reason="other"), call_checked("1.0")],
     {},
     "finish reason"),
    ("doubled", [*start_events(), *turn(1, call(0, provider_id="a"), call(1, provider_id="a")),
     call_checked("1.0"), call_checked("1.1")], {}, "same id"),
    ("every tool is no tool", [*start_events(), *turn(1, call(0, "*")), call_checked("1.0")],
     {"action": "deny"}, "A rule needs an existing tool"),
    ("digits", [*start_events(), *turn(1, call(0, arguments=HUGE)), call_checked("1.0")],
     {"exact": True},
     "digits"),
    ("beyond a double", [*start_events(), *turn(1, call(0, arguments='{"n":1e400}')),
     call_checked("1.0")],
     {"exact": True}, "digits"),
    ("long", [*start_events(), *turn(1, call(0, arguments=f'{{"city":"{4_000 * "x"}"}}')),
     call_checked("1.0")], {"exact": True}, "longer"),
    ("not JSON", [*start_events(), *turn(1, call(0, arguments="{")), call_checked("1.0")],
     {"exact": True, "action": "deny"}, "not JSON"),
    ("deep", [*start_events(), *turn(1, call(0, arguments="[" * 900 + "]" * 900)),
     call_checked("1.0")],
     {"exact": True, "action": "deny"}, "not JSON"),
    ("crashed", [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0")], {}, "by hand"),
    ("decided", [*ONE, run("1.0")], {}, "no longer"),
    ("stopped", [*ONE, RunStopped()], {}, "Continue"),
    ("stopped by a rule", [*ONE, RunStopped("x", "1.0"), RunResumed()], {"action": "deny"},
     "needs your decision"),
]  # fmt: skip

SECRET = Rule("get_weather", "ask", when={"/city": {"prefix": "Secret"}})


def proposed(
    *events: Event,
    own: tuple[Rule, ...] = (),
    always: tuple[Rule, ...] = (),
    action: Any = "run",
    exact: bool = False,
    scope: str = "session",
    denied: Iterable[tuple[str, str]] = (),
    of: str = "1.0",
) -> Proposal:
    whole_session = session(*events)
    rules, at = (*own, *always), scope == "always"
    listed, before = always if at else own, Denials()
    for name, arguments in denied:
        before.add(name, [arguments])
    return proposal(
        whole_session,
        call=whole_session.call(of),
        rules=rules,
        action=action,
        exact=exact,
        scope_rules=listed,
        denied=before,
        always=at,
    )


def test_the_rule_for_a_tool_and_the_one_for_its_arguments() -> None:
    assert proposed(*ONE) == Proposal(HERE, 0, ("1.0",))
    assert proposed(*ONE, exact=True) == Proposal(EXACT, 0, ("1.0",))
    assert HERE.sentence == "run get_weather"
    assert EXACT.sentence == 'run get_weather where the arguments are {"city": "Paris"}'
    deny = Rule("get_weather", "deny", here="s")
    assert proposed(*ONE, action="deny") == Proposal(deny, 0, ("1.0",))


def test_it_tells_which_calls_it_decides_at_once() -> None:
    rome = '{"city":"Rome"}'
    events = [*start_events(), *turn(1, call(0), call(1, arguments=rome), call(2, "look"), call(3))]
    events += [
        call_checked("1.0"),
        call_checked("1.1"),
        call_checked("1.2"),
        call_checked("1.3", BROKEN),
    ]
    assert proposed(*events).decides == ("1.0", "1.1")
    assert proposed(*events, exact=True).decides == ("1.0",)
    assert proposed(*events, exact=True, action="deny").decides == ("1.0", "1.3")


@pytest.mark.parametrize(("changes", "place"), [p[1:] for p in PLACES], ids=[p[0] for p in PLACES])
def test_its_place(changes: dict[str, Any], place: int) -> None:
    proposal = proposed(*ONE, **changes)
    assert (proposal.place, proposal.decides, proposal.why_not) == (place, ("1.0",), "")


@pytest.mark.parametrize(
    ("events", "proposal_fields", "message"), [n[1:] for n in NONE], ids=[n[0] for n in NONE]
)
def test_none_is_offered_and_it_says_why(
    events: list[Event], proposal_fields: dict[str, Any], message: str
) -> None:
    proposal = proposed(*events, **proposal_fields)
    assert proposal.rule is None
    assert message in proposal.why_not
    assert proposal.why_not.endswith(".")


def test_what_was_denied_of_another_tool_is_no_matter() -> None:
    denied = [("look", PARIS), ("get_weather", "{}")]
    assert proposed(*ONE, exact=True, denied=denied).rule == EXACT
    assert proposed(*ONE, action="deny", denied=[("get_weather", PARIS)]).rule is not None


def test_long_integers_are_named_to_the_digit() -> None:
    digits = "9" * 300
    events = [
        *start_events(),
        *turn(1, call(0, arguments=f'{{"n":{digits}}}')),
        call_checked("1.0"),
    ]
    proposal = proposed(*events, exact=True)
    assert proposal.rule is not None
    assert proposal.rule.when == {"": {"equals": {"n": int(digits)}}}


@pytest.mark.parametrize(
    ("always", "exact", "offered"),
    [
        (SECRET, False, False),
        (SECRET, True, True),
        (replace(SECRET, when={}), False, True),
        (replace(SECRET, when={}, source="mock"), False, True),
        (replace(SECRET, tool="look"), False, True),
    ],
)
def test_it_is_not_asked_before_one_that_asks_about_some_arguments(
    always: Rule, exact: bool, offered: bool
) -> None:
    proposal = proposed(*ONE, always=(always,), exact=exact)
    assert (proposal.rule is not None) == offered
    assert ("permanent rule" in proposal.why_not) != offered
    assert proposed(*ONE, always=(always,), action="deny").rule is not None
    stored = proposed(*ONE, own=(always,))  # in one list it stands behind it
    assert stored.place == (0 if not always.when else 1) or always.tool == "look"
