"""Where a session can be forked, and what its fork begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from playground.core.decide import CheckCall, Retry, SendRequest, next_commands
from playground.core.errors import NotFound, Refused
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallProgressed,
    CallStarted,
    Event,
    Logged,
    PromptAdded,
    ResponseFailed,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
    TurnDropped,
)
from playground.core.messages import model_request
from playground.core.reducer import (
    ForkPoint,
    ForkPrefix,
    apply,
    at_call,
    before_prompt,
    before_turn,
    fold,
    fork_point,
    fork_prefix,
    preview_fork,
)
from playground.core.run_limits import busy_ms
from playground.core.session import Session
from playground.core.tools import text_result
from tests.factories import DIGEST, Log, turn_with_calls


def story() -> Log:
    """Two calls that ran, an answer, and a second prompt with its answer."""
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("add_event", {"title": "Walk"}))
    log.run("1.1").run("1.2").request().part(0, "text", "Done.").end("stop")
    return log.prompt("And now?").request().part(0, "text", "Nothing.").end("stop")


def forked(log: Log, cut: ForkPrefix) -> Session:
    """The fork as it begins."""
    session = fold("child", (event for event in log.events if event.seq <= cut.seq))
    after = Log(list(log.events[: cut.seq]), log.now_ms).add(cut.fork_event())
    apply(session, after.events[-1])
    return session


def test_a_fork_begins_before_a_prompt_before_a_turn_or_where_the_calls_were_left() -> None:
    log = story()
    session = log.session()
    places = [before_prompt(session, 2), before_turn(session, 2), at_call(session, "1.1")]
    kinds = [type(log.events[seq].event).__name__ for seq in places]
    assert kinds == ["PromptAdded", "RequestSent", "RequestSent"]
    assert at_call(turn_with_calls(("get_weather", {})).session(), "1.1") > 0
    with pytest.raises(NotFound):
        before_prompt(session, 9)
    with pytest.raises(NotFound):
        before_turn(session, 0)


def test_a_chosen_call_is_open_again_and_asks_a_person_the_others_keep_their_results() -> None:
    log = story()
    result = fork_prefix(log.events, "s1", at_call(log.session(), "1.1"), ["1.1"])
    session = forked(log, result)
    assert result.reopened == ("1.1",)
    first, second = session.turns[0].calls
    assert (first.status, first.result, first.taken_back) == ("proposed", None, True)
    assert second.result is not None
    assert next_commands(session) == [CheckCall("1.1")]
    assert session.state == "running"
    with pytest.raises(Refused, match=r"Call 1\.1 can no longer be decided"):
        fork_prefix(log.events, "s1", log.session().seq, ["1.1"])


def test_what_is_under_way_is_left_out_and_what_ran_is_open_again() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))
    log.add(CallDecided("1.1", "run", digest=DIGEST), CallStarted("1.1", 1))
    result = fork_prefix(log.events, "s1", log.session().seq)
    assert result.reopened == ("1.1", "1.2")
    assert [call.status for call in forked(log, result).turns[0].calls] == ["proposed"] * 2
    first_events = log.events[0:3]  # settings, prompt, request
    assert fork_prefix(first_events, "s1", 3).seq == 2
    with pytest.raises(Refused):
        fork_prefix(log.events, "s1", 0)


def test_what_a_person_stopped_stays_stopped_unless_a_call_of_it_is_chosen() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))
    log.add(CallDecided("1.1", "deny", digest=DIGEST), CallEnded("1.1", text_result("No.")))
    log.add(RunStopped())
    end = log.session().seq
    assert forked(log, fork_prefix(log.events, "s1", end)).stopped
    chosen = fork_prefix(log.events, "s1", end, ["1.2"])
    assert chosen.reopened == ("1.2",)
    assert forked(log, chosen).stopped is False


def test_what_was_decided_before_stop_is_not_decided_in_the_fork() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))
    log.add(CallDecided("1.1", "run", digest=DIGEST), CallStarted("1.1", 1))
    log.add(CallDecided("1.2", "run", digest=DIGEST), RunStopped())
    result = fork_prefix(log.events, "s1", log.session().seq)
    session = forked(log, result)
    assert (result.reopened, session.stopped, session.state) == ((), True, "interrupted")
    for call in session.calls():
        assert (call.status, call.decided, call.digest) == ("proposed", None, "")
        assert call.taken_back
    assert next_commands(session) == []
    apply(session, after(session, RunResumed()))
    assert next_commands(session) == [CheckCall("1.1"), CheckCall("1.2")]
    prompted = forked(log, result)
    apply(prompted, after(prompted, PromptAdded("And now?")))
    assert [type(next_command) for next_command in next_commands(prompted)] == [SendRequest]


def test_a_call_that_is_open_again_has_no_task_and_may_start_one_anew() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))
    log.run("1.1")
    log.add(TaskStarted("call-1-1", "1.1", "get_weather"))
    log.add(TaskStarted("task-1-1", "1.1", "sleep"))
    log.add(TaskEnded("call-1-1", "ended", text_result("Later.")))
    log.run("1.2")
    result = fork_prefix(log.events, "s1", log.session().seq, ["1.1"])
    session = forked(log, result)
    assert session.tasks == {}
    choice = session.settings.tool_choice if session.settings else None
    assert choice is not None
    assert "Later." not in str(model_request(session, choice))
    apply(session, after(session, TaskStarted("call-1-1", "1.1", "get_weather")))
    stored = forked(log, fork_prefix(log.events, "s1", log.session().seq))
    assert [task.how for task in stored.tasks.values()] == ["ended", "not part of this fork"]
    assert "Later." in str(model_request(stored, choice))


def after(session: Session, event: Event) -> Logged:
    return Logged(session.seq + 1, session.updated_ms, event)


def test_a_retry_that_was_waited_for_is_the_forks_own_to_make() -> None:
    log = Log().start().prompt().request()
    log.add(ResponseFailed("http", "Busy.", 529), RetryScheduled(1, 1, 2.0, 0, "Busy."))
    session = forked(log, fork_prefix(log.events, "s1", log.session().seq))
    assert (session.retrying, session.retries) == (None, 0)
    assert next_commands(session) == [Retry(1, 1)]
    log.add(TurnDropped(1, automatic=True)).request().part(0, "text", "Done.").end("stop")
    dropped = forked(log, fork_prefix(log.events, "s1", before_turn(log.session(), 2)))
    assert [turn.dropped for turn in dropped.turns] == [True]
    assert isinstance(next_commands(dropped)[0], SendRequest)


def test_a_pause_of_the_parent_holds_no_fork_and_its_limits_count_anew() -> None:
    log = story()
    log.add(RunPaused("max_turns", "Enough."))
    session = forked(log, fork_prefix(log.events, "s1", log.session().seq))
    assert (session.paused, session.run, session.state) == ("", [], "idle")
    assert session.resumed_turn == len(session.turns)


@pytest.mark.parametrize(
    ("seq", "reopened", "expected", "words"),
    [
        (1, (), ForkPoint("prompt", 1), "before prompt 1"),
        (2, (), ForkPoint("turn", 1), "before turn 1"),
        (2, ("1.2",), ForkPoint("call", 1, "1.2"), "at call 1.2"),
        (10_000, (), ForkPoint("end", 3), "at its end"),
        (10_000, ("8.8",), ForkPoint("end", 3), "at its end"),
    ],
)
def test_the_place_where_a_fork_branches_off(
    seq: int, reopened: tuple[str, ...], expected: ForkPoint, words: str
) -> None:
    at = fork_point(story().session(), seq, reopened)
    assert (at, at.words) == (expected, words)


def test_wherever_the_log_is_cut_the_fork_begins_and_what_is_left_is_a_beginning() -> None:
    log = story()
    for seq in range(1, len(log.events) + 1):
        result = fork_prefix(log.events, "s1", seq)
        assert result.seq <= seq
        session = preview_fork(log.events, result, [result.fork_event(), RunPaused("fork")])
        assert session.seq == result.seq + 2
        assert next_commands(session) == []
        assert all(turn.end is not None for turn in session.turns)
        if preview_fork(log.events, result, [result.fork_event()]).state != "running":
            preview_fork(log.events, result, [result.fork_event(), PromptAdded("Hello")])


def test_a_fork_of_a_fork_makes_no_call_anew_that_nobody_looked_at() -> None:
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"}))
    log.add(RunStopped(), SessionForked("a", 1, foreign=True))
    session = log.session()
    had = list(session.calls())
    assert session.settings is not None
    apply(session, after(session, TaskStarted("call-1-1", "1.1", "get_weather")))
    apply(session, after(session, CallProgressed("1.1", "", output="x")))
    apply(session, after(session, SessionForked("b", 1, foreign=True)))
    first, second = session.calls()
    assert (first is had[0], second is had[1]) == (False, True)
    assert (first.output, session.tasks) == ("", {})
    apply(session, after(session, SettingsChanged(replace(session.settings, tools=()))))
    apply(session, after(session, SessionForked("c", 1, foreign=True)))
    assert [call.tool for call in session.calls()] == [None, None]


def test_the_run_of_a_fork_begins_with_it_whatever_times_it_took_over() -> None:
    """A file may write them as it likes: no limit on minutes is lifted or used up by them."""
    log = Log(now_ms=4_000_000_000_000).start().prompt()
    log.request().part(0, "text", "Done.").end("stop")
    for loggeds in (log.events, log.events[:2]):
        session = fold("s", loggeds)
        now_ms = 1_800_000_000_000
        apply(session, Logged(len(loggeds) + 1, now_ms, SessionForked("a", 1, foreign=True)))
        assert (session.run_ms, session.updated_ms, busy_ms(session)) == (now_ms, now_ms, 0)
        own = Log(list(loggeds), now_ms, turns=len(session.turns))
        own.add(SessionForked("a", 1)).request().part(0, "text", "Yes.").end("stop")
        for logged in own.events[len(loggeds) + 1 :]:
            apply(session, logged)
        took = session.turns[-1].closed_ms
        assert took is not None
        assert busy_ms(session) == took - session.turns[-1].sent_ms > 0
        assert session.updated_ms == took
