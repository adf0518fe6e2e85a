"""The table "when a call may run", as a user meets it."""

from __future__ import annotations

import pytest

from playground.core.errors import BadInput, Conflict, NotFound, Refused
from playground.core.events import CallDecided, Problem, ResponseEnded
from playground.core.session import Session
from playground.core.tools import Content
from playground.engine.decisions import DecisionRequest, decision_event, outcome
from tests.playbook import (
    PERSON,
    call,
    call_checked,
    failed,
    opened,
    run,
    run_call,
    session,
    start_events,
    turn,
)

SEEN = "digest"

SCHEMA = Problem("schema", "city is missing", "/city")
MALFORMED = Problem("malformed", "cut")
UNKNOWN = Problem("unknown_tool", "unknown")


def wish(
    decision: str,
    digest: str = SEEN,
    arguments: str | None = None,
    *,
    anyway: bool = False,
    text: str = "",
) -> DecisionRequest:
    """A wish made on the card as it stands, unless another digest is named."""
    return DecisionRequest(decision, digest, arguments, anyway, text)


def with_call(
    *problems: Problem,
    name: str = "get_weather",
    arguments: str = '{"city":"Paris"}',
    reason: str = "calls",
) -> Session:
    return session(
        *start_events(),
        *turn(1, call(0, name, arguments), reason=reason),
        call_checked("1.0", *problems),
    )


SOUND = with_call()
UNSATISFIED = with_call(SCHEMA, arguments="{}")
BROKEN = with_call(MALFORMED, arguments='{"city":')
NAMELESS = with_call(UNKNOWN, name="nobody")
CUT_BY_LENGTH = with_call(reason="length")
FOR_A_PERSON = with_call(name=PERSON.name, arguments="{}")


@pytest.mark.parametrize(
    ("item", "wished", "error"),
    [
        (SOUND, wish("run"), None),
        (SOUND, wish("answer", text="sunny"), None),
        (SOUND, wish("deny"), None),
        (SOUND, wish("run", arguments='{"city":"Rome"}'), None),
        (SOUND, wish("run", arguments="{}"), Refused),
        (SOUND, wish("run", arguments="{}", anyway=True), None),
        (SOUND, wish("run", arguments="{"), Refused),
        (SOUND, wish("run", arguments="{", anyway=True), Refused),
        (SOUND, wish("approve"), BadInput),
        (SOUND, wish("run", "stale"), Conflict),
        (SOUND, wish("run", digest=""), BadInput),
        (UNSATISFIED, wish("run"), Refused),
        (UNSATISFIED, wish("run", anyway=True), None),
        (UNSATISFIED, wish("run", arguments='{"city":"Rome"}'), None),
        (BROKEN, wish("run"), Refused),
        (BROKEN, wish("run", anyway=True), Refused),
        (BROKEN, wish("run", arguments='{"city":"Rome"}'), None),
        (BROKEN, wish("answer", text="x"), None),
        (NAMELESS, wish("run", anyway=True), Refused),
        (NAMELESS, wish("run", arguments="{}", anyway=True), Refused),
        (NAMELESS, wish("deny"), None),
        (CUT_BY_LENGTH, wish("run"), Refused),
        (CUT_BY_LENGTH, wish("run", anyway=True), Refused),
        (CUT_BY_LENGTH, wish("run", arguments='{"city":"Rome"}'), None),
        (FOR_A_PERSON, wish("run"), Refused),
        (FOR_A_PERSON, wish("answer", text="x"), None),
    ],
)
def test_the_table(item: Session, wished: DecisionRequest, error: type[Exception] | None) -> None:
    if error is None:
        event = decision_event(item, "1.0", wished)
        assert (event.decision, event.arguments, event.text) == (
            wished.decision,
            wished.arguments,
            wished.text,
        )
        return
    with pytest.raises(error) as caught:
        decision_event(item, "1.0", wished)
    assert len(str(caught.value).split()) > 3


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (session(*start_events(), *turn(1, call(0)), call_checked("1.0"), run("1.0")), Conflict),
        (
            session(
                *start_events(),
                *turn(1, call(0)),
                call_checked("1.0"),
                run("1.0"),
                *run_call("1.0"),
            ),
            Conflict,
        ),
        (session(*start_events(), *opened(1), *call(0)), Refused),
        (session(*start_events(), *failed(1, call(0))), Refused),
    ],
    ids=["decided", "done", "arriving", "cut"],
)
def test_too_late_or_too_early(item: Session, error: type[Exception]) -> None:
    with pytest.raises(error):
        decision_event(item, "1.0", wish("run", "digest"))


@pytest.mark.parametrize(("city", "anyway"), [('"Rome"', False), ("3", True)])
def test_what_fits_did_not_run_although_it_does_not_fit(city: str, anyway: bool) -> None:
    wished = wish("run", arguments=f'{{"city":{city}}}', anyway=True)
    assert decision_event(SOUND, "1.0", wished).anyway is anyway


def test_what_was_not_shown_whole_is_not_run() -> None:
    length = len(SOUND.call("1.0").raw)
    with pytest.raises(Refused, match="Some arguments were hidden"):
        decision_event(SOUND, "1.0", DecisionRequest("run", SEEN, seen=length - 1))
    for decision in (
        DecisionRequest("run", SEEN, seen=length),
        DecisionRequest("deny", SEEN, seen=0),
        DecisionRequest("run", SEEN, '{"city":"Rome"}', seen=0),
    ):
        assert decision_event(SOUND, "1.0", decision).digest == SEEN


def test_the_loser_is_told_what_holds() -> None:
    item = session(
        *start_events(),
        *turn(1, call(0)),
        call_checked("1.0"),
        CallDecided("1.0", "deny", by="rule"),
    )
    with pytest.raises(Conflict) as caught:
        decision_event(item, "1.0", wish("run", "digest"))
    assert caught.value.outcome == outcome(item.call("1.0"))
    assert caught.value.outcome["decision"] == "deny"
    assert caught.value.outcome["decided_by"] == "rule"


def test_a_call_that_is_not_there() -> None:
    with pytest.raises(NotFound):
        decision_event(
            session(*start_events(), *opened(1), ResponseEnded("stop")), "7.7", wish("run", "x")
        )


def test_only_an_answer_has_images() -> None:
    dot = Content("image", media_type="image/png", data="AA==")
    answer = decision_event(SOUND, "1.0", DecisionRequest("answer", SEEN, images=(dot,)))
    assert answer.images == (dot,)
    for word in ("run", "deny"):
        with pytest.raises(BadInput, match="Only an answer can have images"):
            decision_event(SOUND, "1.0", DecisionRequest(word, SEEN, images=(dot,)))
