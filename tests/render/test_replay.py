from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from playground.core.events import Logged
from playground.core.reducer import fold
from playground.render.blocks import PageFrame, block
from playground.render.replay import FRAME_MS, Player, ReplayConstants, index, replay
from playground.render.replay_timeline import ReplayTimeline, build_timeline
from playground.render.view import View
from playground.render.wire_rows import WireRows
from tests.render.logs import STORIES
from tests.render.page import ENV, NOW_MS, Live, Page, frame_bytes, parse
from tests.tables import rest_slow

FIXED = ReplayConstants("s1", "A title", NOW_MS)


def chunks(events: list[Logged]) -> dict[int, list[tuple[int, bytes]]]:
    result: dict[int, list[tuple[int, bytes]]] = {}
    for logged in events:
        if logged.source is not None:
            pieces = result.setdefault(logged.source.recording, [])
            pieces.append((logged.at_ms, frame_bytes(logged)))
    return result


def replayed(events: list[Logged]) -> dict[str, Any]:
    return replay(build_timeline("s1", events, chunks(events)), ENV, FIXED)


def applied(document: dict[str, Any], view: View) -> Page:
    page = Page(view)
    for step in document["frames"]:
        page.apply(PageFrame(step["html"], [tuple(entry) for entry in step["grow"]]))
    return page


@pytest.mark.parametrize("name", STORIES)
def test_a_replay_ends_as_a_fresh_page(name: str) -> None:
    events = STORIES[name]
    result = json.loads(json.dumps(replayed(events)))
    end = Live(events, replay=True)
    end.go(len(events))
    page = applied(result, end.view)  # the first frame empties what stood there
    for name in ("head", "flow", "wire"):
        assert str(page.tree.find(name)) == str(parse(block(ENV, end.view, name)).children[0])


@pytest.mark.parametrize("name", STORIES)
def test_frames_are_few_and_in_order(name: str) -> None:
    events = STORIES[name]
    document = replayed(events)
    times = [step["at"] for step in document["frames"]]
    assert times == sorted(times)
    assert all(b - a >= FRAME_MS for a, b in zip(times, times[2:], strict=False))
    assert times[-1] <= document["duration"]
    assert not any(
        'id="bar"' in step["html"] or "<form" in step["html"] for step in document["frames"]
    )


def test_clocks_that_jump_back_do_no_harm() -> None:
    events = [
        Logged(e.seq, e.at_ms - 7000 * (e.seq > 20), e.event, e.source) for e in STORIES["waiting"]
    ]
    document = replayed(events)
    assert document["frames"]


def layout(name: str) -> ReplayTimeline:
    return build_timeline("s1", STORIES[name], chunks(STORIES[name]))


def page_parts(page: Page) -> list[str]:
    return [str(page.tree.find(name)) for name in ("head", "flow", "wire", "pause")]


def fresh(reel: ReplayTimeline, position: int) -> list[str]:
    """What a page shows that has seen the first `position` arrivals and nothing else."""
    prefix = reel.arrivals[:position]
    wire = WireRows()
    for what in prefix:
        if isinstance(what, Logged):
            wire.log(what)
        else:
            wire.feed(*what)
    session = fold("s1", [what for what in prefix if isinstance(what, Logged)])
    view = View(session, FIXED.title, wire, NOW_MS, replay=True)
    names = ("head", "flow", "wire", "pause")
    return [str(parse(block(ENV, view, name)).children[0]) for name in names]


def apply(page: Page, step: dict[str, Any]) -> None:
    step = json.loads(json.dumps(step))
    page.apply(PageFrame(step["html"], [tuple(entry) for entry in step["grow"]]))


@pytest.mark.parametrize("name", rest_slow(STORIES, 2))
def test_each_position_shows_exactly_what_had_come_until_then(name: str) -> None:
    reel, chance = layout(name), Random(name)
    player = Player(reel, FIXED)
    page = Page(player.view(reel.count))
    for _ in range(6):
        jump = chance.randint(reel.first, reel.count)
        step = player.keyframe(ENV, jump)
        assert (step["to"], step["from"]) == (jump, None)
        apply(page, step)
        assert page_parts(page) == fresh(reel, jump), f"jump to {jump}"
        here, every = jump, chance.choice([0, 8, FRAME_MS, 660])
        for step in player.frames(ENV, jump, every, most=chance.randint(1, 12)):
            assert step["from"] == here
            here = step["to"]
            apply(page, step)
        assert page_parts(page) == fresh(reel, here), f"{jump} to {here} by {every} ms"


def test_a_jump_back_begins_at_a_fold_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playground.render.replay.KEPT_EVERY", 7)
    reel, chance = layout("side by side"), Random(6)
    player = Player(reel, FIXED)
    for _ in range(12):
        jump = chance.randint(reel.first, reel.count)
        page = Page(player.view(jump))
        assert page_parts(page) == fresh(reel, jump)


def test_a_step_is_one_arrival_that_shows_something() -> None:
    reel = layout("interleaved")
    steps = list(Player(reel, FIXED).frames(ENV, reel.first, 0))
    assert [step["from"] for step in steps] == [reel.first, *(step["to"] for step in steps[:-1])]
    assert steps[-1]["to"] == reel.count
    assert all(step["html"] or step["grow"] for step in steps[:-1])
    assert sum(step["to"] - step["from"] == 1 for step in steps) > reel.count * 0.8


def test_the_index_says_where_to_jump_and_what_was_left_out() -> None:
    reel = layout("waiting")
    output = json.loads(json.dumps(index(reel)))
    kinds = [mark[0] for mark in output["marks"]]
    assert kinds == ["prompt", "turn", "call", "call", "call", "turn"]
    assert (output["count"], output["seq"]) == (reel.count, reel.whole.seq)
    assert output["squeezed"] == reel.clock.squeezed
    for _, position, ms, seq, words in output["marks"]:
        assert (reel.seqs[position], reel.ms(position)) == (seq, ms)
        assert reel.position_of_seq(seq) == position
        assert words


def test_an_empty_log_has_no_frames() -> None:
    assert replayed([]) == {"duration": 0, "segments": [], "frames": []}
