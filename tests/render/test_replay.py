from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from app.core.events import Logged
from app.render.blocks import Frame, block
from app.render.replay import FRAME_MS, Fixed, replay
from app.render.view import View
from tests.render.logs import STORIES
from tests.render.page import ENV, NOW_MS, Live, Page, frame_bytes, parse

FIXED = Fixed("s1", "A title", NOW_MS)


def chunks(events: list[Logged]) -> dict[int, list[tuple[int, bytes]]]:
    found: dict[int, list[tuple[int, bytes]]] = {}
    for logged in events:
        if logged.source is not None:
            pieces = found.setdefault(logged.source.recording, [])
            pieces.append((logged.at_ms, frame_bytes(logged)))
    return found


def applied(made: dict[str, Any], view: View) -> Page:
    page = Page(view)
    for step in made["frames"]:
        page.apply(Frame(step["html"], [tuple(entry) for entry in step["grow"]]))
    return page


@pytest.mark.parametrize("name", STORIES)
def test_a_replay_ends_as_a_fresh_page(name: str) -> None:
    events = STORIES[name]
    made = json.loads(json.dumps(replay(events, ENV, chunks(events), FIXED)))
    end = Live(events, replay=True)
    end.go(len(events))
    page = applied(made, end.view)  # the first frame empties what stood there
    for name in ("head", "flow", "wire"):
        assert str(page.tree.find(name)) == str(parse(block(ENV, end.view, name)).children[0])


@pytest.mark.parametrize("name", STORIES)
def test_frames_are_few_and_in_order(name: str) -> None:
    events = STORIES[name]
    made = replay(events, ENV, chunks(events), FIXED)
    times = [step["at"] for step in made["frames"]]
    assert times == sorted(times)
    assert all(b - a >= FRAME_MS for a, b in pairwise(times))
    assert times[-1] <= made["duration"]
    assert not any('id="bar"' in step["html"] or "<form" in step["html"] for step in made["frames"])


def test_clocks_that_jump_back_do_no_harm() -> None:
    events = [
        Logged(e.seq, e.at_ms - 7000 * (e.seq > 20), e.event, e.source) for e in STORIES["waiting"]
    ]
    made = replay(events, ENV, chunks(events), FIXED)
    assert made["frames"]


def test_an_empty_log_has_no_frames() -> None:
    assert replay([], ENV, {}, FIXED) == {"duration": 0, "segments": [], "frames": []}
