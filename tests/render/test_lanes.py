"""Lanes: what overlaps stands side by side, nothing is lost, and nothing moves while it runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.events import (
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallStarted,
    PartEnded,
    PartStarted,
)
from playground.core.tools import text_result
from playground.render.replay_timeline import (
    HEIGHT,
    MOST_LANES,
    MOST_ROWS,
    OPEN,
    PERSON,
    WIDTH,
    Segment,
    assign_lanes,
    clock,
    drawing,
    segments,
    words_of,
)
from tests.factories import DIGEST, Log, turn_with_calls
from tests.render.logs import STORIES
from tests.render.page import page_after

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=14)


def make_segments(spans: list[tuple[int, int]]) -> list[Segment]:
    return [
        Segment("tool", start, start + length, f"call-1-{place}", length)
        for place, (start, length) in enumerate(spans)
    ]


@settings(deadline=None, derandomize=True)
@given(SPANS)
def test_no_two_of_one_lane_overlap_and_nothing_is_lost(spans: list[tuple[int, int]]) -> None:
    given_ = make_segments(spans)
    segments = assign_lanes(given_)
    assert Counter(replace(segment, lane=0, lanes=1) for segment in segments) == Counter(given_)
    by_lane: dict[int, list[Segment]] = {}
    for item in segments:
        assert 0 <= item.lane < item.lanes
        by_lane.setdefault(item.lane, []).append(item)
    for lane in by_lane.values():
        assert all(a.end_ms <= b.start_ms for a, b in pairwise(lane))
    # There are no more lanes than ever overlap.
    for item in segments:
        together = [
            sum(on.start_ms <= moment < max(on.end_ms, on.start_ms + 1) for on in segments)
            for moment in range(43)
        ]
        assert item.lanes <= max(1, *together)


@settings(deadline=None, derandomize=True)
@given(SPANS, st.integers(0, 40))
def test_nothing_changes_its_lane_while_time_goes_on(
    spans: list[tuple[int, int]], now: int
) -> None:
    """At every moment the lanes are those that will be: what runs has no end yet."""
    lane_by_block = {in_lane.block: in_lane.lane for in_lane in assign_lanes(make_segments(spans))}
    begun = [segment for segment in make_segments(spans) if segment.start_ms <= now]
    so_far = [
        replace(segment, end_ms=now, open=True) if segment.end_ms > now else segment
        for segment in begun
    ]
    assert {in_lane.block: in_lane.lane for in_lane in assign_lanes(so_far)} == {
        segment.block: lane_by_block[segment.block] for segment in begun
    }


@pytest.mark.parametrize("name", STORIES)
def test_the_stories_keep_their_lanes(name: str) -> None:
    events = STORIES[name]
    lane_by_story: dict[tuple[str, str, int], int] = {}
    for place in range(2, len(events) + 1):
        session = Log(list(events[:place])).session()
        if any(call.attempt > 1 and call.status == "running" for call in session.calls()):
            return  # Of a call that runs again the bar shows the last attempt alone.
        for segment in segments(session, clock(session)):
            if segment.kind != "person":
                assert (
                    lane_by_story.setdefault(
                        (segment.kind, segment.block, segment.start_ms), segment.lane
                    )
                    == segment.lane
                )


def overlapping(count: int, *, ended: bool = True) -> Log:
    """So many calls that run at once, the first of them longest."""
    log = turn_with_calls(*[("get_weather", {"city": str(n)}) for n in range(count)])
    ids = [f"1.{n}" for n in range(1, count + 1)]
    for item_id in ids:
        log.add(CallDecided(item_id, "run", "rule", "all", digest=DIGEST))
    for item_id in ids:
        log.add(CallStarted(item_id, 1))
        log.now_ms += 50
    for item_id in reversed(ids) if ended else ():
        log.add(CallEnded(item_id, text_result("x")))
    return log


def tools_of(log: Log) -> list[Segment]:
    session = log.session()
    session_segments = segments(session, clock(session))
    return [segment for segment in session_segments if segment.kind == "tool"]


def test_calls_that_overlap_have_lanes_of_their_own_in_the_order_of_their_start() -> None:
    segments = tools_of(overlapping(3))
    assert [(segment.lane, segment.lanes, segment.call) for segment in segments] == [
        (0, 3, "1.1"),
        (1, 3, "1.2"),
        (2, 3, "1.3"),
    ]
    running = tools_of(overlapping(3, ended=False))
    assert [(segment.lane, segment.open) for segment in running] == [
        (0, True),
        (1, True),
        (2, True),
    ]
    alone = tools_of(overlapping(1))
    assert [(segment.lane, segment.lanes) for segment in alone] == [(0, 1)]


def test_an_answer_is_one_stream_whenever_its_parts_are_ended() -> None:
    log = Log().start().prompt().request()
    log.add(PartStarted(0, "text"), PartStarted(1, "call", "get_weather", "a"))
    log.add(PartStarted(2, "call", "get_weather", "b"))
    log.add(*(PartEnded(n, "{}", "get_weather" * (n > 0), "ab"[n - 1]) for n in (1, 2)))
    log.add(PartEnded(0, "x")).end()
    session = log.session()
    session_segments = [
        segment for segment in segments(session, clock(session)) if segment.kind != "waiting"
    ]
    assert [(segment.kind, segment.took_ms, segment.lanes) for segment in session_segments] == [
        ("text", 10, 1),
        ("arguments", 10, 1),
        ("arguments", 20, 1),
    ]


def test_an_interrupted_call_is_at_work_no_longer() -> None:
    log = overlapping(1, ended=False).add(CallInterrupted("1.1"))
    before = tools_of(log)[0]
    log.now_ms += 3_600_000
    log.add(CallDecided("1.1", "run", digest=DIGEST))
    assert (before.open, tools_of(log)[0].took_ms) == (False, before.took_ms)


def test_lanes_share_the_height_and_leave_room_for_the_person() -> None:
    person = Segment(
        "person", start_ms=0, end_ms=100, block="call-1-9", took_ms=100, name="ask_me", call="1.9"
    )
    two = assign_lanes(make_segments([(50, 100), (60, 100)]))
    free = assign_lanes(make_segments([(300, 50)]))
    bars = drawing([person, *two, *free], 1000).bars
    assert [(bar.kind, bar.y) for bar in bars] == [
        ("person", HEIGHT - PERSON),
        ("tool", 0.0),
        ("tool", (HEIGHT - PERSON) / 2),
        ("tool", 0.0),
    ]
    assert bars[-1].height == HEIGHT
    for bar in bars:
        assert 0 <= bar.x <= bar.x + bar.width <= WIDTH
        assert bar.y + bar.height <= HEIGHT
    first, second = bars[1:3]
    assert first.y + first.height <= second.y
    assert second.y + second.height <= HEIGHT - PERSON


@pytest.mark.parametrize("count", [1, MOST_LANES, MOST_LANES + 1, 40])
def test_more_calls_than_lanes_share_the_last_and_say_so(count: int) -> None:
    drawn = drawing(assign_lanes(make_segments([(n, 100) for n in range(count)])), 1000)
    assert (len(drawn.bars), drawn.lanes) == (count, min(count, MOST_LANES))
    assert bool(drawn.shared) == (count > MOST_LANES)
    assert drawn.shared == "" or drawn.shared.startswith(f"{count} at once at most.")
    assert len({bar.y for bar in drawn.bars}) == min(count, MOST_LANES)


def test_a_call_that_has_just_begun_is_seen_inside_the_bar() -> None:
    (bar,) = drawing([Segment("tool", 1000, 1000, "b", open=True)], 1000).bars
    assert (bar.x, bar.width) == (WIDTH - OPEN, OPEN)


def test_the_list_beside_the_bar_is_short() -> None:
    drawn = drawing(assign_lanes(make_segments([(10 * n, 5) for n in range(200)])), 2000)
    assert (len(drawn.rows), drawn.left_out) == (MOST_ROWS, 200 - MOST_ROWS)
    assert drawn.rows[-1][1] == "call-1-199"
    assert drawing((), 0).bars == ()


@pytest.mark.parametrize(
    ("segment", "words"),
    [
        (
            Segment(
                "tool",
                start_ms=0,
                end_ms=9,
                block="b",
                took_ms=182,
                name="get_weather",
                call="1.2",
                lane=1,
                lanes=3,
            ),
            "get_weather runs, call 1.2, 182 ms, parallel with 2 others",
        ),
        (
            Segment(
                "tool",
                start_ms=0,
                end_ms=9,
                block="b",
                took_ms=1240,
                name="get_weather",
                call="1.2",
                open=True,
            ),
            "get_weather runs, call 1.2, 1.24 s so far",
        ),
        (
            Segment(
                "person",
                start_ms=0,
                end_ms=3000,
                block="b",
                took_ms=65_000,
                name="ask_me",
                call="1.3",
            ),
            "ask_me waiting for your decision, call 1.3, 1 min 05 s",
        ),
        (
            Segment(
                "arguments",
                start_ms=0,
                end_ms=9,
                block="b",
                took_ms=9,
                name="add_event",
                call="1.3",
            ),
            "add_event writing arguments, call 1.3, 9 ms",
        ),
        (
            Segment("tool", start_ms=0, end_ms=9, block="b", took_ms=9, name="web_search"),
            "web_search calls, 9 ms",
        ),
        (Segment("waiting", 0, 9, "b", 410), "waiting for the model, 410 ms"),
    ],
)
def test_a_segment_in_words(segment: Segment, words: str) -> None:
    assert words_of(segment) == words


def test_the_bar_and_its_list_say_the_same_and_lead_to_their_blocks() -> None:
    log = overlapping(3)
    page = page_after(log.events, len(log.events))
    bar = page.tree.find("bar")
    assert bar is not None
    assert bar.attributes["data-lanes"] == "3"
    titles = [node.text for node in bar.walk() if node.name == "title"]
    links = [node for node in bar.walk() if node.attributes.get("href", "").startswith("#")]
    assert [link.text for link in links] == titles
    drawn = {node.attributes["class"] for node in bar.walk() if "data-block" in node.attributes}
    messages = {node.attributes.get("class") for node in bar.walk() if node.name == "rect"}
    legend = next(node for node in bar.walk() if node.attributes.get("class") == "legend")
    assert (
        {node.attributes["class"] for node in legend.walk() if node.name == "rect"}
        == drawn
        <= messages
    )
    assert "get_weather runs, call 1.2, 130 ms, parallel with 2 others" in titles
    for link in links:
        assert page.tree.find(link.attributes["href"].removeprefix("#")) is not None


def test_what_covers_another_to_the_unit_is_not_drawn_and_still_listed() -> None:
    pauses = [Segment("person", place // 100, 10_000, f"call-{place}") for place in range(5000)]
    drawn = drawing(pauses, 10_000)
    assert len(drawn.bars) < 10
    assert len(drawn.rows) + drawn.left_out == len(pauses)
