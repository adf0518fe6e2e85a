"""What a session says of itself: its state, and the digest of a card."""

from __future__ import annotations

import pytest

from playground.core.decide import next_commands
from playground.core.events import (
    CallDecided,
    CallInterrupted,
    CallStarted,
    Event,
    PromptAdded,
    RunStopped,
    SessionStarted,
)
from playground.core.reducer import apply, digest, fold
from playground.core.session import Session, snapshot
from tests.core.test_reducer import LONG
from tests.playbook import (
    WEATHER,
    call,
    call_checked,
    failed,
    number_events,
    opened,
    run,
    session,
    settings,
    start_events,
    turn,
)

ONE = [*start_events(), *turn(1, call(0)), call_checked("1.0")]

STATES: list[tuple[str, list[Event], str]] = [
    ("new", [SessionStarted(settings())], "idle"),
    ("prompted", start_events(), "running"),
    ("open", [*start_events(), *opened(1)], "running"),
    ("answered", [*start_events(), *turn(1)], "idle"),
    ("waiting", ONE, "waiting"),
    ("runs", [*ONE, run("1.0"), CallStarted("1.0", 1)], "running"),
    ("crashed", [*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0")], "waiting"),
    ("failed", [*start_events(), *failed(1, failure="http")], "failed"),
    ("cut", [*start_events(), *failed(1, call(0))], "interrupted"),
    ("stopped while waiting", [*ONE, RunStopped()], "interrupted"),
    ("prompt after stop", [*ONE, RunStopped(), PromptAdded("x")], "running"),
]


@pytest.mark.parametrize(("events", "state"), [s[1:] for s in STATES], ids=[s[0] for s in STATES])
def test_state(events: list[Event], state: str) -> None:
    assert session(*events).state == state


def test_the_digest_changes_with_all_that_a_card_shows() -> None:
    base = session(*ONE)
    digests = {digest(base, base.call("1.0"), "")}
    other = session(
        *start_events(), *turn(1, call(0, arguments='{"city":"Rome"}')), call_checked("1.0")
    )
    digests.add(digest(other, other.call("1.0"), ""))
    crashed = session(*ONE, run("1.0"), CallStarted("1.0", 1), CallInterrupted("1.0"))
    digests.add(digest(crashed, crashed.call("1.0"), ""))
    changed = session(
        SessionStarted(settings(WEATHER.__class__("get_weather", "Another."))),
        PromptAdded("hello"),
        *turn(1, call(0)),
        call_checked("1.0"),
    )
    digests.add(digest(changed, changed.call("1.0"), ""))
    elsewhere = fold("t", number_events(*ONE))
    digests.add(digest(elsewhere, elsewhere.call("1.0"), ""))
    digests.add(digest(base, base.call("1.0"), "another file"))
    assert len(digests) == 6


@pytest.mark.parametrize(
    ("decided", "state"),
    [
        ([], "waiting"),
        ([run("1.1")], "waiting"),  # it waits behind the first, and so for the user
        ([run("1.2")], "waiting"),
        ([run("1.0")], "running"),
        ([CallDecided("1.2", "deny", digest="digest")], "running"),
    ],
)
def test_what_waits_behind_a_person_does_not_run(decided: list[Event], state: str) -> None:
    events = [*start_events(), *turn(1, call(0), call(1), call(2, "look"))]
    events += [call_checked("1.0"), call_checked("1.1"), call_checked("1.2", parallel_safe=True)]
    assert session(*events, *decided).state == state


def test_a_snapshot_stays_as_it_is() -> None:
    """It is what the log until there folds to, whatever comes after it."""
    log = number_events(*LONG)
    session = Session("s")
    accepted_items = []
    for place, item in enumerate(log, 1):
        apply(session, item)
        accepted_items.append((place, snapshot(session)))
    for place, now in accepted_items:
        assert now == fold("s", log[:place])
        assert all(call is now.by_call[call.id] for call in now.calls())
        assert all(call.part in now.turns[call.turn - 1].parts for call in now.calls())
        assert next_commands(now) == next_commands(fold("s", log[:place]))
