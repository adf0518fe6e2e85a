"""Limits in words: what is set, what a run took, why it paused, and that its page tells it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import (
    CallDecided,
    ResponseEnded,
    RunPaused,
    RunResumed,
    RunStopped,
    SettingsChanged,
    Usage,
)
from playground.core.settings import Limits
from playground.render.limit_words import (
    LIFTED,
    bounds,
    limit_text,
    limits_summary,
    money,
    pause,
    paused_words,
    spent_words,
)
from tests.factories import Log, settings, turn_with_calls
from tests.render.page import Live, Page, page_after

A, B, UNCOUNTED = Usage(1000, 200), Usage(3000, 10), Usage()

PAUSES: list[tuple[RunPaused, str, str, str]] = [
    (RunPaused("max_turns", "Ten."), "Ten.", "max_turns", "20"),
    (RunPaused("max_calls"), "Continue allows", "max_calls_per_turn", "64"),
    (RunPaused("max_run_tokens", "Many."), "Many.", "max_run_tokens", "10000"),
    (RunPaused("max_cost", "Dear."), "Dear.", "max_cost", "0.5"),
    (RunPaused("max_minutes"), "Continue allows", "max_minutes", "3"),
    (RunPaused("max_repeats", "Again."), "Again.", "max_repeats", "20"),
    (RunPaused("error", "It failed."), "It failed.", "", ""),
    (RunPaused("restart"), "Nothing was sent or run since", "", ""),
    (RunPaused("store"), "Free disk space", "", ""),
    (RunPaused("of_a_later_version"), "Press Continue to go on", "", ""),
]
LIMITED = settings(limits=Limits(max_run_tokens=5000, max_cost=0.25, max_minutes=1.5))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(), "10 turns · 32 calls"),
        (Limits(max_cost=0.5), "10 turns · 32 calls · $0.50"),
        (
            Limits(
                1,
                max_calls_per_turn=1,
                max_parallel=2,
                max_run_tokens=50_000,
                max_cost=0.0125,
                max_minutes=2.5,
                max_repeats=3,
                continue_on_error=False,
            ),
            "1 turn · 1 call · 2 at once · 50,000 tokens · $0.0125 · 2.5 min · 3 repeats"
            " · pauses at errors",
        ),
        (Limits(max_repeats=0), "10 turns · 32 calls · unlimited repeats"),
    ],
)
def test_the_limits_in_one_line(limits: Limits, words: str) -> None:
    assert limits_summary(limits) == words


def test_a_limit_is_written_as_a_person_types_it() -> None:
    tiny = Limits(max_cost=0.0001, max_minutes=0.01, max_run_tokens=1_000_000_000, max_repeats=0)
    assert [limit_text(name, tiny) for name in LIFTED] == ["1000000000", "0.0001", "0.01", ""]


@pytest.mark.parametrize(
    ("dollars", "words"),
    [(0, "$0.00"), (0.5, "$0.50"), (0.0123, "$0.0123"), (0.012, "$0.012"), (12, "$12.00"),
     (0.00001, "under $0.0001"), (1234.5, "$1,234.50")],
)  # fmt: skip
def test_money(dollars: float, words: str) -> None:
    assert money(dollars) == words


def run_of(*answers: tuple[Usage, float | None], **limits: Any) -> Log:
    """A run of turns, each with a call that ran but the last."""
    log = Log().start(settings(limits=Limits(**limits))).prompt()
    for number, (usage, cost) in enumerate(answers, 1):
        last = number == len(answers)
        log.request()
        if not last:
            log.call(0, "get_weather", {"city": "x"})
        log.add(ResponseEnded("stop" if last else "calls", usage=usage, cost=cost))
        if not last:
            log.check(f"{number}.0").run(f"{number}.0")
    return log


def continued() -> Log:
    """A turn, a pause, and one turn more."""
    log = run_of((A, None), max_turns=1).add(RunPaused("max_turns"), RunResumed()).request()
    return log.add(ResponseEnded("stop", usage=A))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (Log().start().prompt(), ""),
        (run_of((A, None)), "1 of 10 turns · 1,200 tokens"),
        (
            run_of((A, 0.01), (B, 0.002), max_cost=0.5, max_turns=3),
            "2 of 3 turns · 4,210 tokens · $0.012 of $0.50",
        ),
        (
            run_of((A, 0.01), (UNCOUNTED, None), max_run_tokens=5000),
            "2 of 10 turns · at least 1,200 of 5,000 tokens · at least $0.01",
        ),
        (
            run_of((UNCOUNTED, None), max_run_tokens=5000, max_cost=1),
            "1 of 10 turns · tokens unknown · cost unknown, limit can't be enforced",
        ),
        (run_of((A, None), (A, None)).add(RunPaused("max_turns"), RunResumed()), ""),
        (continued(), "1 of 1 turn since Continue · 1,200 tokens"),
    ],
)
def test_what_the_run_took(log: Log, words: str) -> None:
    assert spent_words(log.session()) == words


@pytest.mark.parametrize(("event", "sentence", "raises", "value"), PAUSES)
def test_each_pause_has_a_sentence_and_a_way_on(
    event: RunPaused, sentence: str, raises: str, value: str
) -> None:
    log = turn_with_calls(("get_weather", {}))
    log.add(SettingsChanged(LIMITED), event)
    sentences = pause(log.session())
    assert sentences is not None
    assert sentence in sentences.sentence
    assert sentences.sentence.endswith(".")
    assert (sentences.raises, sentences.value) == (raises, value)
    assert paused_words(event.limit).startswith("paused")
    notice = page_after(log.events, len(log.events)).tree.find("pause")
    assert notice is not None
    fields = [node.attributes["name"] for node in notice.walk() if "name" in node.attributes]
    assert [field for field in fields if field != "pause"] == (
        [raises] if raises else ["continue_on_error"] * sentences.forgives
    )
    pauses = [node.attributes["value"] for node in notice.walk()
              if node.attributes.get("name") == "pause"]  # fmt: skip
    assert set(pauses) == {str(len(log.events))}
    posts = [node.attributes["action"] for node in notice.walk() if node.name == "form"]
    assert posts[0].endswith("/continue")
    assert posts[-1].endswith("/stop")
    log.add(RunResumed())
    assert pause(log.session()) is None


def test_a_limit_at_its_most_or_none_is_not_raised() -> None:
    for changed in (Limits(max_turns=1000), Limits(max_turns=600)):
        log = Log().start(settings(limits=changed)).prompt().request().end("stop")
        sentences = pause(log.add(RunPaused("max_turns", "x.")).session())
        assert sentences is not None
        assert sentences.value == ("" if changed.max_turns == 1000 else "1000")
    # The limit was lifted while the run was paused.
    log = Log().start(settings(limits=Limits(max_cost=0.0))).prompt().request().end("stop")
    sentences = pause(log.add(RunPaused("max_cost", "x.")).session())
    assert sentences is not None
    assert sentences.raises == ""


def test_stop_ends_a_pause_and_who_stopped_is_told() -> None:
    log = turn_with_calls(("get_weather", {}), ("ask_me", {})).add(RunPaused("max_repeats", "x."))
    session = log.add(RunStopped()).session()
    assert (session.state, session.paused) == ("interrupted", "")
    stopped = pause(session)
    assert stopped is not None
    assert (
        stopped.sentence == "You stopped the run; 2 calls are open. Press Continue to decide them."
    )
    by_rule = turn_with_calls(("get_weather", {})).add(RunStopped("no weather", "1.1"))
    sentences = pause(by_rule.session())
    assert sentences is not None
    assert sentences.sentence.startswith(
        "The rule “no weather” stopped the run here; 1 call is open."
    )
    assert pause(Log().start().prompt().request().end("stop").add(RunStopped()).session()) is None


def test_the_notice_comes_and_goes_with_the_frames_in_the_replay_too() -> None:
    log = turn_with_calls(("get_weather", {"city": "x"})).add(RunPaused("restart"))
    log.add(SettingsChanged(LIMITED), RunResumed(), RunStopped("no weather", "1.1"), RunResumed())
    log.add(CallDecided("1.1", "deny", text="no"), RunPaused("max_turns", "Ten."), RunStopped())
    for replay in (False, True):
        live = Live(log.events, replay)
        live.go(1)
        page, fresh = Page(live.view), Live(log.events, replay)
        for place in range(2, len(log.events) + 1):
            page.apply(live.step(place))
            fresh.go(place)
            assert str(page) == str(Page(fresh.view)), log.events[place - 1].event
            notice = page.tree.find("pause")
            assert notice is not None
            assert ("Nothing was sent" in notice.text) == (live.session.paused == "restart")
            assert not (replay and any(node.name == "form" for node in notice.walk()))


def test_setup_says_what_cannot_hold() -> None:
    known, unknown = run_of((A, None)).session(), run_of((UNCOUNTED, None)).session()
    assert bounds(known, "").tokens == bounds(Log().start().session(), "").tokens == ""
    assert bounds(unknown, "No price.").tokens.endswith(".")
    assert bounds(unknown, "No price.").money == "No price."
    limited = run_of((UNCOUNTED, None), max_cost=0.1, max_run_tokens=5000).session()
    message = "can't enforce cost and token limit"
    assert bounds(limited, "No price.").broken == message
    assert bounds(unknown, "No price.").broken == ""
    moved = replace(settings(), profile=replace(settings().profile, name="another"))
    elsewhere = run_of((UNCOUNTED, None)).add(SettingsChanged(moved)).session()
    assert bounds(elsewhere, "").tokens == ""
