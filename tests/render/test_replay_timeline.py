"""Positions: what arrived in one order, found again by event and by time."""

from __future__ import annotations

import pytest

from playground.core.events import Logged
from playground.render.replay_timeline import build_timeline, replay_moment
from tests.factories import START_MS, Log
from tests.render.logs import STORIES
from tests.render.test_replay import layout


@pytest.mark.parametrize("name", STORIES)
def test_what_arrived_is_in_the_order_of_the_log_and_of_time(name: str) -> None:
    reel = layout(name)
    assert [arrival for arrival in reel.arrivals if isinstance(arrival, Logged)] == STORIES[name]
    assert list(reel.at) == sorted(reel.at)
    assert len(reel.seqs) == reel.count + 1
    assert reel.ms(reel.count) <= reel.clock.duration


def test_an_event_is_found_by_its_number_and_its_time() -> None:
    reel = layout("waiting")
    for position, what in enumerate(reel.arrivals, 1):
        if isinstance(what, Logged):
            assert reel.position_of_seq(what.seq) == max(position, reel.first)
            assert reel.seqs[reel.position_of_ms(reel.ms(position))] >= what.seq
    assert reel.position_of_seq(-1) == reel.position_of_ms(-1) == reel.first
    assert reel.position_of_seq(10_000) == reel.position_of_ms(10**9) == reel.count


def test_bytes_lie_where_they_came_and_before_the_next_request() -> None:
    log = Log().start().prompt().request().end("stop").prompt("More").request().end("stop")
    pieces = {1: [(START_MS + 1, b"early"), (START_MS + 10**6, b"late")], 2: [(START_MS, b"x")]}
    timeline = build_timeline("s1", log.events, pieces)
    order = [
        "bytes" if isinstance(arrival, tuple) else arrival.seq for arrival in timeline.arrivals
    ]
    assert order == [1, 2, 3, "bytes", 4, 5, 6, "bytes", 7, "bytes", 8, 9]
    assert [arrival[0] for arrival in timeline.arrivals if isinstance(arrival, tuple)] == [1, 1, 2]


def test_a_log_without_a_beginning_has_no_place() -> None:
    timeline = build_timeline("s1", [], {})
    assert (timeline.count, timeline.first, timeline.position_of_seq(1), timeline.ms(0)) == (
        0,
        0,
        0,
        0,
    )


def test_errors_are_places_to_jump_to() -> None:
    words = [mark.words for mark in layout("troubled").marks if mark.kind == "error"]
    assert len(words) == 1
    assert words[0].startswith("<script>")


def test_a_place_knows_where_to_go_from_there() -> None:
    reel = layout("waiting")
    calls = [mark for mark in reel.marks if mark.kind == "call"]
    place = replay_moment(reel, calls[1].position)
    assert (place.before["call"], place.after["call"]) == (calls[0].seq, calls[2].seq)
    assert (place.before["event"], place.after["event"]) == (place.seq - 1, place.seq + 1)
    assert "error" not in {**place.before, **place.after}
    assert replay_moment(reel, reel.first).before == {}
    end = replay_moment(reel, reel.count)
    assert (end.after, end.seq) == ({}, end.last)
