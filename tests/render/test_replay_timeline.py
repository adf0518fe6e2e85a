"""Positions: what arrived in one order, found again by event and by time."""

from __future__ import annotations

import pytest

from playground.core.events import Logged
from playground.render.replay_timeline import played, reel
from tests.factories import START_MS, Log
from tests.render.logs import STORIES
from tests.render.test_replay import layout


@pytest.mark.parametrize("name", STORIES)
def test_what_arrived_is_in_the_order_of_the_log_and_of_time(name: str) -> None:
    found = layout(name)
    assert [one for one in found.arrivals if isinstance(one, Logged)] == STORIES[name]
    assert list(found.at) == sorted(found.at)
    assert len(found.seqs) == found.count + 1
    assert found.ms(found.count) <= found.clock.duration


def test_an_event_is_found_by_its_number_and_its_time() -> None:
    found = layout("waiting")
    for position, what in enumerate(found.arrivals, 1):
        if isinstance(what, Logged):
            assert found.of_seq(what.seq) == max(position, found.first)
            assert found.seqs[found.of_ms(found.ms(position))] >= what.seq
    assert found.of_seq(-1) == found.of_ms(-1) == found.first
    assert found.of_seq(10_000) == found.of_ms(10**9) == found.count


def test_bytes_lie_where_they_came_and_before_the_next_request() -> None:
    log = Log().start().prompt().request().end("stop").prompt("More").request().end("stop")
    pieces = {1: [(START_MS + 1, b"early"), (START_MS + 10**6, b"late")], 2: [(START_MS, b"x")]}
    found = reel("s1", log.events, pieces)
    order = ["bytes" if isinstance(one, tuple) else one.seq for one in found.arrivals]
    assert order == [1, 2, 3, "bytes", 4, 5, 6, "bytes", 7, "bytes", 8, 9]
    assert [one[0] for one in found.arrivals if isinstance(one, tuple)] == [1, 1, 2]


def test_a_log_without_a_beginning_has_no_place() -> None:
    found = reel("s1", [], {})
    assert (found.count, found.first, found.of_seq(1), found.ms(0)) == (0, 0, 0, 0)


def test_errors_are_places_to_jump_to() -> None:
    words = [mark.words for mark in layout("troubled").marks if mark.kind == "error"]
    assert len(words) == 1
    assert words[0].startswith("<script>")


def test_a_place_knows_where_to_go_from_there() -> None:
    found = layout("waiting")
    calls = [mark for mark in found.marks if mark.kind == "call"]
    place = played(found, calls[1].position)
    assert (place.before["call"], place.after["call"]) == (calls[0].seq, calls[2].seq)
    assert (place.before["event"], place.after["event"]) == (place.seq - 1, place.seq + 1)
    assert "error" not in {**place.before, **place.after}
    assert played(found, found.first).before == {}
    end = played(found, found.count)
    assert (end.after, end.seq) == ({}, end.last)
