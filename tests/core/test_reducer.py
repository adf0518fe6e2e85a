"""The fold: what it refuses, and that a prefix of a log is a log."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from playground.core.decide import closing_events
from playground.core.errors import IllegalEvent
from playground.core.events import (
    CallChecked,
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallProgressed,
    CallStarted,
    Decision,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    Problem,
    PromptAdded,
    ResponseEnded,
    ResponseFailed,
    RunStopped,
    SessionStarted,
    TurnDropped,
)
from playground.core.reducer import apply, fold
from playground.core.run_limits import busy_ms
from playground.core.session import Session, session_data
from playground.core.tools import text_result
from playground.render.replay_timeline import clock
from tests.playbook import (
    call,
    call_checked,
    failed,
    number_events,
    opened,
    part,
    run,
    run_call,
    session,
    settings,
    start_events,
    turn,
)

ONE = [*start_events(), *turn(1, call(0)), call_checked("1.0")]
LONG: list[Event] = [
    *start_events(),
    *turn(1, part(0), call(1), call(2, "look")),
    call_checked("1.1"),
    call_checked("1.2"),
    run("1.1"),
    *run_call("1.1"),
    CallDecided("1.2", "deny", digest="digest"),
    CallEnded("1.2", text_result("no")),
    *turn(2),
    PromptAdded("more"),
    *failed(3, call(0)),
    TurnDropped(3),
    *turn(4),
]

ILLEGAL: list[tuple[str, list[Event], Event]] = [
    ("no settings", [], PromptAdded("x")),
    ("begun twice", start_events(), SessionStarted(settings())),
    ("a prompt in an open turn", [*start_events(), *opened(1)], PromptAdded("x")),
    ("a prompt while calls wait", ONE, PromptAdded("x")),
    ("a delta without a part", [*start_events(), *opened(1)], PartDelta(0, "x")),
    ("a part out of turn", [*start_events(), *opened(1)], PartStarted(1, "text")),
    ("a second end", [*start_events(), *turn(1)], ResponseEnded("stop")),
    (
        "an end with an open part",
        [*start_events(), *opened(1), PartStarted(0, "text")],
        ResponseEnded("stop"),
    ),
    ("a part ended twice", [*start_events(), *opened(1), *part(0)], PartEnded(0, "x")),
    ("a decision on a cut call", [*start_events(), *failed(1, call(0))], run("1.0")),
    ("a decision before the check", [*start_events(), *turn(1, call(0))], run("1.0")),
    ("a second decision", [*ONE, run("1.0")], run("1.0")),
    ("a start without a decision", ONE, CallStarted("1.0", 1)),
    (
        "a start of what was denied",
        [*ONE, CallDecided("1.0", "deny")],
        CallStarted("1.0", 1),
    ),
    ("an old attempt", [*ONE, run("1.0")], CallStarted("1.0", 2)),
    ("a call of an older turn", [*ONE, RunStopped(), PromptAdded("x")], run("1.0")),
    ("dropping an open turn", [*start_events(), *opened(1)], TurnDropped(1)),
    ("an unknown call", ONE, run("9.9")),
    ("a check of what was decided", [*ONE, run("1.0")], call_checked("1.0")),
]

CRASHED: list[Event] = [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0")]

EIGHT_HOURS = 8 * 3_600_000

SCHEMA = Problem("schema", "No.", "/city")
NEWER = Problem("schema", "No, either.", "/day")


@pytest.mark.parametrize(("before", "event"), [i[1:] for i in ILLEGAL], ids=[i[0] for i in ILLEGAL])
def test_refused_and_nothing_changed(before: list[Event], event: Event) -> None:
    item = session(*before)
    item_repr = repr(item)
    with pytest.raises(IllegalEvent):
        apply(item, number_events(*before, event)[-1])
    assert repr(item) == item_repr


def test_every_prefix_is_a_session_and_folds_the_same_from_anywhere() -> None:
    log = number_events(*LONG)
    grown = Session("s")
    for place, item in enumerate(log, 1):
        apply(grown, item)
        assert repr(grown) == repr(fold("s", log[:place]))
        json.dumps(session_data(grown))


@pytest.mark.parametrize(("before", "status"), [(ONE, "waiting"), (CRASHED, "interrupted")])
def test_a_second_check_gives_a_new_card_and_decides_nothing(
    before: list[Event], status: str
) -> None:
    item = session(*before, CallChecked("1.0", (), False, "new digest", "new code"))
    call = item.call("1.0")
    assert (call.status, call.digest, call.code) == (status, "new digest", "new code")
    assert (call.decided, call.checked_ms) == (None, session(*ONE).call("1.0").checked_ms)


def test_deltas_of_ended_parts_are_not_needed() -> None:
    log = number_events(*LONG)
    short = [item for item in log if not isinstance(item.event, PartDelta)]
    assert _texts(fold("s", short)) == _texts(fold("s", log))


def _texts(session: Session) -> Sequence[object]:
    return [[(p.kind, p.text, p.complete) for p in turn.parts] for turn in session.turns]


def test_a_delta_costs_the_same_however_long_the_part_is() -> None:
    item = session(*start_events(), *opened(1), PartStarted(0, "text"))
    growing = item.turns[0].parts[0]
    for place in range(5_000):
        apply(
            item,
            number_events(PartDelta(0, "12345678"))[0].__class__(100 + place, 1, PartDelta(0, "x")),
        )
    assert len(growing.pieces) == 5_000  # kept apart: nothing was joined on the way
    assert growing.length == 5_000


@pytest.mark.parametrize("ends", ["answer", "deny"])
def test_nothing_is_at_work_while_the_program_is_not_there(ends: Decision) -> None:
    item = session(*ONE, run("1.0"), CallStarted("1.0", 1))
    last = item.updated_ms
    apply(item, Logged(item.seq + 1, last, CallInterrupted("1.0")))  # as recovery writes it
    for event in (
        CallDecided("1.0", ends, text="It had run."),
        CallEnded("1.0", text_result("It had run.")),
    ):
        apply(item, Logged(item.seq + 1, EIGHT_HOURS, event))
    assert item.call("1.0").ended_ms == last
    assert busy_ms(item) < 1000
    assert clock(item).duration < 10_000


def test_a_call_in_the_queue_is_at_work_from_when_it_has_its_place() -> None:
    item = session(*ONE, run("1.0"), CallStarted("1.0", 1))
    for at_ms, event in (
        (10_000, CallProgressed("1.0", "Waiting for its turn.", waits=True)),
        (20_000, CallProgressed("1.0", "")),
        (30_000, CallProgressed("1.0", "half")),
    ):
        apply(item, Logged(item.seq + 1, at_ms, event))
    assert item.call("1.0").started_ms == 20_000


@pytest.mark.parametrize("end", [CallEnded("1.0", text_result("x")), CallInterrupted("1.0")])
def test_a_call_that_ends_in_the_queue_was_never_at_work(end: Event) -> None:
    queued = CallProgressed("1.0", "Waiting for its turn.", waits=True)
    item = session(*ONE, run("1.0"), CallStarted("1.0", 1), queued)
    before = busy_ms(item)
    apply(item, Logged(item.seq + 1, EIGHT_HOURS, end))
    assert (item.call("1.0").started_ms, item.call("1.0").ended_ms) == (EIGHT_HOURS, EIGHT_HOURS)
    assert busy_ms(item) == before


def test_an_answer_that_breaks_off_ends_when_it_did() -> None:
    item = session(*start_events(), *opened(1), PartStarted(0, "text"), PartDelta(0, "Hel"))
    for event in (PartEnded(0, "Hel", complete=False), ResponseFailed("interrupted", "x")):
        apply(item, Logged(item.seq + 1, 30_000, event))
    assert (item.turns[0].closed_ms, item.turns[0].parts[0].ended_ms) == (30_000, 30_000)


@pytest.mark.parametrize(
    ("problems", "anyway", "stored"),
    [((), True, (SCHEMA,)), ((), False, ()), ((NEWER,), True, (NEWER,))],
)
def test_an_edit_of_an_old_log_that_ran_anyway_has_its_problems_still(
    problems: tuple[Problem, ...], anyway: bool, stored: tuple[Problem, ...]
) -> None:
    call_decided = CallDecided("1.0", "run", arguments="{}", anyway=anyway, problems=problems)
    check = CallChecked("1.0", (SCHEMA,), digest="digest")
    item = session(*ONE[:-1], check, call_decided, CallStarted("1.0", 1), CallInterrupted("1.0"))
    assert item.call("1.0").problems == stored


def test_what_a_fault_held_back_outlives_a_crash() -> None:
    progressed = CallProgressed("1.0", "Held back", real=text_result("42"))
    item = session(*ONE, run("1.0", fault="slow"), CallStarted("1.0", 1), progressed)
    (ended,) = closing_events(item, "It was killed.")
    assert isinstance(ended, CallEnded)
    assert (ended.result.text, ended.result.staged, ended.real) == ("42", True, text_result("42"))
