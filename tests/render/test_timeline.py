from __future__ import annotations

import pytest

from playground.render.replay_timeline import IDLE_MS, PERSON_MS, Clock, clock, segments
from tests.factories import START_MS, Log, turn_with_calls
from tests.render.logs import STORIES


def paused_log() -> Log:
    """A call that waits a minute for a user, and a prompt that comes an hour later."""
    log = turn_with_calls(("get_weather", {"city": "x"}))
    log.now_ms += 60_000
    log.run("1.1").request().part(0, "text", "ok").end("stop")
    log.now_ms += 3_600_000
    return log.prompt("again").request().part(0, "text", "ok").end("stop")


def test_dead_time_is_squeezed_and_the_rest_is_not() -> None:
    log = paused_log()
    session = log.session()
    on = clock(session)
    assert IDLE_MS + PERSON_MS < on.duration < IDLE_MS + PERSON_MS + 1000
    turn = session.turns[0]
    assert turn.closed_ms is not None
    assert (
        on.to_replay_ms(turn.closed_ms) - on.to_replay_ms(turn.sent_ms)
        == turn.closed_ms - turn.sent_ms
    )
    call = session.call("1.1")
    assert call.checked_ms is not None
    assert call.decided_ms is not None
    assert on.to_replay_ms(call.decided_ms) - on.to_replay_ms(call.checked_ms) == PERSON_MS


@pytest.mark.parametrize("name", STORIES)
def test_the_clock_runs_forwards(name: str) -> None:
    log = Log(list(STORIES[name]))
    on = clock(log.session())
    times = [on.to_replay_ms(logged.at_ms) for logged in log.events]
    assert times == sorted(times)
    assert all(0 <= time <= on.duration for time in times)


def test_every_kind_of_segment() -> None:
    log = paused_log()
    log.prompt().request().part(0, "thinking", "hm").call(1, "get_weather", {}).end().check("4.1")
    session = log.session()
    on = clock(session)
    session_segments = segments(session, on)
    assert {s.kind for s in session_segments} == {
        *("waiting", "thinking", "text", "arguments", "tool", "person"),
    }
    assert all(0 <= s.start_ms <= s.end_ms <= on.duration for s in session_segments)
    assert [s.start_ms for s in session_segments] == sorted(s.start_ms for s in session_segments)
    assert ("tool", "call-1-1") in {(s.kind, s.block) for s in session_segments}


def test_an_empty_session_has_no_time() -> None:
    assert clock(Log().start().session()) == Clock()
    assert Clock().duration == Clock().to_replay_ms(START_MS) == 0


def test_what_is_open_lasts_until_now() -> None:
    log = Log().start().prompt().request()
    session = log.session()
    assert (
        clock(session, log.now_ms + 2000).duration
        == 2000 + log.now_ms - session.turns[0].sent_ms + 10
    )
