"""A call that runs: its block changes alone, what it prints travels once, and all ways of looking
at it show the same."""

from __future__ import annotations

from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.events import (
    CallDecided,
    CallEnded,
    CallExtended,
    CallProgressed,
    CallStarted,
    Event,
    Logged,
    TaskEnded,
    TaskStarted,
)
from playground.core.reducer import MOST_OUTPUT
from playground.core.tools import text_result
from playground.render.blocks import changed_blocks
from playground.render.call_status import seconds
from tests.factories import DIGEST, turn_with_calls
from tests.render.page import Live, Page, page_after

LINE = "a line that was printed, \u202e and <b>one</b> more\n"
PIECE = LINE * 60


def story() -> list[Logged]:
    """One call that prints more than is kept, goes on in the background, and ends there."""
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))
    for call_id in ("1.1", "1.2"):
        log.add(CallDecided(call_id, "run", digest=DIGEST), CallStarted(call_id, 1))
    log.add(CallProgressed("1.1", "begun", 0.1), CallExtended("1.1", 300.0))
    for number in range(12):
        log.add(CallProgressed("1.1", f"step {number}", None, PIECE))
        log.add(CallProgressed("1.2", "", None, LINE))
    log.add(TaskStarted("call-1-1", "1.1", "get_weather"))
    log.add(CallEnded("1.1", text_result("It goes on in the background as task call-1-1.")))
    log.add(CallEnded("1.2", text_result("12 degrees")))
    log.add(CallProgressed("1.1", "on", 0.5, LINE), CallProgressed("1.1", "on", 0.6, PIECE))
    log.add(TaskEnded("call-1-1", "done", text_result("11 degrees")))
    return log.events


def test_result_that_breaks_the_output_schema_is_said_on_its_card() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"}))
    log.add(CallDecided("1.1", "run", digest=DIGEST), CallStarted("1.1", 1))
    message = "The result does not satisfy the tool's output schema. /n is missing."
    log.add(CallEnded("1.1", replace(text_result("{}"), mismatch=message)))
    events = log.events
    assert unescape(str(page_after(events, len(events)))).count(message) == 1
    assert message not in unescape(str(page_after(events, len(events) - 1)))


STORY = story()
FIRST = next(n for n, logged in enumerate(STORY) if isinstance(logged.event, CallProgressed))


@settings(deadline=None, max_examples=settings().max_examples // 4, derandomize=True)
@given(st.sets(st.integers(FIRST, len(STORY)), min_size=2, max_size=6))
def test_a_page_and_its_frames_equal_a_fresh_page(places: set[int]) -> None:
    first, *rest = [*sorted(places), len(STORY)]
    live = Live(STORY)
    live.go(first)
    page = Page(live.view)
    for place in rest:
        page.apply(live.step(place))
        assert str(page) == str(page_after(STORY, place))


def test_what_is_printed_travels_once_and_the_card_not_at_all() -> None:
    """But for the few times that what is kept is cut."""
    live = Live(STORY)
    live.go(FIRST)
    sent = 0
    for place, logged in enumerate(STORY[FIRST:], FIRST + 1):
        step = live.step(place)
        if isinstance(logged.event, CallProgressed | CallExtended):
            assert 'id="call-1-' not in step.html
            sent += sum(len(grown[3]) for grown in step.grow) + step.html.count("was printed")
            sent += len(step.html) if "output-1-" in step.html else 0
    printed = live.session.call("1.1").printed
    assert printed > 2 * MOST_OUTPUT
    assert sent < 3 * printed


def test_the_end_of_what_was_printed_stays_and_says_what_came_before() -> None:
    page = page_after(STORY, len(STORY)).tree
    details = page.find("printed-1-1")
    assert details is not None
    stored_text = details.text
    assert stored_text.count("a line that was printed") <= MOST_OUTPUT / len(LINE)
    assert "are only in the log" in stored_text
    card = page.find("call-1-1")
    assert card is not None
    assert "ran in the background" in card.text
    assert "11 degrees" in card.text


@pytest.mark.parametrize(
    ("how", "result", "words"),
    [
        ("stopped with the run", None, ["stopped in the background", "its effect is unknown"]),
        ("its end could not be saved", None, ["failed in the background"]),
        ("ended with an error", text_result("bad luck", is_error=True), ["bad luck", "failed in"]),
    ],
)
def test_a_bad_end_is_said(how: str, result: object, words: list[str]) -> None:
    ended: Event = TaskEnded("call-1-1", how, result)  # type: ignore[arg-type]
    events = [*STORY[:-1], Logged(STORY[-1].seq, STORY[-1].at_ms, ended)]
    card = page_after(events, len(events)).tree.find("call-1-1")
    assert card is not None
    assert all(word in card.text for word in [how, *words])
    assert ('class="later failed"' in str(card)) != how.startswith("stopped")


def test_of_a_call_that_is_over_by_now_the_card_is_a_whole() -> None:
    live = Live(STORY)
    live.go(len(STORY))
    for logged in STORY[FIRST:]:
        if isinstance(logged.event, CallProgressed | CallExtended):
            (touch,) = changed_blocks(logged, live.session)
            assert (touch.id, touch.how) == (
                "call-" + logged.event.call_id.replace(".", "-"),
                "changed",
            )


def test_seconds_are_said_as_a_person_would() -> None:
    answer = {0.5: "0.5 s", 30: "30 s", 119: "119 s", 330: "5 min 30 s", 3600: "1 h 00 min"}
    assert {count: seconds(count) for count in answer} == answer
