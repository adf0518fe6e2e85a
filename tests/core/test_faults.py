"""The table of faults: what each row says, and what a stale result is taken from."""

from __future__ import annotations

import pytest

from playground.core.errors import BadInput
from playground.core.events import CallDecided, CallEnded, CallStarted, Event
from playground.core.faults import (
    FAULTS,
    earlier_result,
    fault,
    get_fault,
    real_result,
    staging_obstacle,
)
from playground.core.tools import ToolResult, text_result
from tests.playbook import call, call_checked, run, run_call, session, start_events, turn

PARIS, OSLO = '{"city":"Paris"}', '{"city":"Oslo"}'


def test_each_fault_has_its_own_sentence() -> None:
    assert (
        len({fault.name for fault in FAULTS})
        == len({fault.says for fault in FAULTS})
        == len(FAULTS)
    )
    for item in FAULTS:
        assert item.says[0].isupper()
        assert item.says.endswith(".")
        assert fault(item.name) is get_fault(item.name) is item
        assert item.decision == ("run" if item.runs else "answer")


def test_an_unknown_one_names_those_there_are() -> None:
    assert fault("boom") is None
    with pytest.raises(BadInput, match=r"timeout, error.*injection"):
        get_fault("boom")


def turn_with_call(
    number: int, arguments: str, text: str, *, fault: str = "", error: bool = False
) -> list[Event]:
    """A turn with one call that ran, its real result `text`."""
    id_, real = f"{number}.0", text_result(text, is_error=error)
    result = text_result("staged") if fault else real
    return [
        *turn(number, call(0, arguments=arguments)),
        call_checked(id_),
        CallDecided(id_, "run", digest="digest", fault=fault),
        CallStarted(id_, 1),
        CallEnded(id_, result, real if fault else None),
    ]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ([], None),
        ([(OSLO, "old", "", False)], (1, "old")),
        ([(OSLO, "old", "", False), (OSLO, "newer", "", False)], (2, "newer")),
        ([(PARIS, "same", "", False), (OSLO, "newer", "", False)], (1, "same")),
        ([(PARIS, "was real", "cut_json", False)], (1, "was real")),
        ([(PARIS, "failed", "", True)], None),
    ],
)
def test_a_stale_result_is_the_newest_good_one(
    before: list[tuple[str, str, str, bool]], expected: tuple[int, str] | None
) -> None:
    events = start_events()
    for number, (arguments, text, name, error) in enumerate(before, 1):
        events += turn_with_call(number, arguments, text, fault=name, error=error)
    last = len(before) + 1
    events += [*turn(last, call(0, arguments=PARIS)), call_checked(f"{last}.0")]
    item = session(*events)
    old = earlier_result(item, item.call(f"{last}.0"))
    assert (old and (old[0], old[1].text)) == expected
    message = staging_obstacle(item, item.call(f"{last}.0"), "stale")
    assert bool(message) == (expected is None)
    assert staging_obstacle(item, item.call(f"{last}.0"), "cut_json") == ""


def test_what_came_of_a_call_without_its_fault() -> None:
    answered = CallDecided("1.0", "answer", digest="digest", fault="error")
    ended = CallEnded("1.0", text_result("made up", is_error=True))
    item = session(*start_events(), *turn(1, call(0)), call_checked("1.0"), answered, ended)
    assert real_result(item.call("1.0")) is None
    real = session(
        *start_events(), *turn(1, call(0)), call_checked("1.0"), run("1.0"), *run_call("1.0")
    )
    assert real_result(real.call("1.0")) == text_result("ok")
    assert real_result(session(*start_events(), *turn(1, call(0))).call("1.0")) is None


def test_the_same_turn_is_not_earlier() -> None:
    """What is offered on a card changes with no other card."""
    events = [
        *start_events(),
        *turn(1, call(0), call(1)),
        call_checked("1.0"),
        run("1.0"),
        *run_call("1.0"),
    ]
    item = session(*events, call_checked("1.1"))
    assert earlier_result(item, item.call("1.1")) is None
    assert real_result(item.call("1.0")) != ToolResult()


def test_of_one_turn_the_last_result_is_the_newest() -> None:
    events = [*start_events(), *turn(1, call(0), call(1))]
    for call_id, text in (("1.0", "first"), ("1.1", "second")):
        ended = CallEnded(call_id, text_result(text))
        events += [call_checked(call_id), run(call_id), CallStarted(call_id, 1), ended]
    item = session(*events, *turn(2, call(0)), call_checked("2.0"))
    old = earlier_result(item, item.call("2.0"))
    assert old == (1, text_result("second"))
