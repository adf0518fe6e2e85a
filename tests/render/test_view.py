from __future__ import annotations

from typing import Any

import pytest

from playground.core.events import (
    CallDecided,
    CallStarted,
    Problem,
    ResponseFailed,
    RunPaused,
    RunStopped,
)
from playground.core.session import Call
from playground.render import paging
from playground.render.view import SessionRow, View, busy_words, runnable_at_once, state_words
from playground.render.wire_rows import WireRows
from tests.factories import Log, session, turn_with_calls


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (Log().start(), "new"),
        (Log().start().prompt(), "starting"),
        (Log().start().prompt().request(), "waiting for the model"),
        (turn_with_calls(("get_weather", {})), "1 call needs approval"),
        (
            turn_with_calls(("get_weather", {}), ("ask_me", {})),
            "1 call needs approval · 1 call needs an answer",
        ),
        (turn_with_calls(("get_weather", {})).add(RunStopped()), "stopped"),
        (turn_with_calls(("get_weather", {})).add(RunPaused("restart")), "paused by a restart"),
        (Log().start().prompt().request().end("stop"), "done"),
        (Log().start().prompt().request().add(ResponseFailed("http", "x")), "failed"),
        (Log().start().prompt().request().add(ResponseFailed("interrupted", "x")), "interrupted"),
    ],
)
def test_the_state_in_words(log: Log, words: str) -> None:
    assert state_words(log.session()) == words


@pytest.mark.parametrize(
    ("running", "words"),
    [
        ((), "the model is answering"),
        (("1.1",), "get_weather runs"),
        (("1.1", "1.2"), "2 calls run"),
    ],
)
def test_the_dock_says_what_keeps_a_message_waiting(running: tuple[str, ...], words: str) -> None:
    log = turn_with_calls(("get_weather", {}), ("get_weather", {}))
    for call_id in running:
        log.add(CallDecided(call_id, "run"), CallStarted(call_id, 1))
    assert busy_words(log.session()) == words


def test_a_session_that_only_began_is_new() -> None:
    assert state_words(session()) == "new"


def at_once(log: Log, **more: Any) -> list[Call]:
    return runnable_at_once(View(log.session(), "", WireRows(), 0, **more))


def test_only_calls_that_need_no_second_look_run_at_once() -> None:
    log = turn_with_calls(
        ("get_weather", {"city": "x"}),
        ("add_event", {"minutes": "30"}),
        ("ask_me", {}),
        ("get_weather", {"city": "y" * 20_000}),
        ("no_such", {}),
        checked=False,
    )
    log.check("1.1").check("1.2", Problem("schema", "wrong")).check("1.3").check("1.4")
    log.check("1.5", Problem("unknown_tool", "wrong"))
    assert [call.id for call in at_once(log)] == ["1.1"]


def test_what_is_not_shown_does_not_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "CARDS", 2)
    log = turn_with_calls(*(("get_weather", {"city": str(n)}) for n in range(5)))
    assert [call.id for call in at_once(log)] == ["1.1", "1.2"]
    assert [call.id for call in at_once(log, shown={1: 4})] == ["1.1", "1.2", "1.3", "1.4"]
    assert len(at_once(log, live=False)) == 5


def test_what_no_rule_would_run_does_not_run_at_once_either() -> None:
    def log(*ids: str) -> Log:
        log = Log().start().prompt().request()
        for index, id_ in enumerate(ids):
            log.call(index, "get_weather", {"city": "x"}, provider_id=id_)
        return log

    twins = log("a", "a", "b").end()
    unknown = log("a").end("other")
    for item in (twins, unknown):
        for call in item.session().calls():
            item.check(call.id)
    assert [call.id for call in at_once(twins)] == ["1.2"]
    assert at_once(unknown) == []


def test_the_second_line_of_a_row() -> None:
    assert (
        SessionRow(
            "a", title="t", state="waiting", updated_ms=0, model="m", calls=3, waiting=2
        ).words
        == "2 waiting · m · 3 calls"
    )
    assert SessionRow("a", "t", "idle", 0).words == ""
