"""A replay as frames: the same pieces as the live stream, by a clock without dead time.

A keyframe is all that a page shows at a position; a frame updates the page from one position to a
later one, and costs what it touches. The page applies both like the frames of the stream.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment

from playground.core.events import Logged
from playground.core.reducer import apply
from playground.core.session import Session
from playground.render.blocks import PageFrame, Touch, frame, frame_html
from playground.render.paging import ShownCounts
from playground.render.replay_timeline import ReplayTimeline, replay_moment
from playground.render.view import View
from playground.render.wire_rows import WireRows

FRAME_MS = 33
"""Events closer than this share a frame."""

KEPT_EVERY = 4_000
"""Arrivals between two cached folds: a jump folds no more than these."""

_WHOLE = ("flow", "wire", "head", "pause")
_NOT_REPLAYED = frozenset({"bar", "dock", "tasks", "list"})


@dataclass(frozen=True)
class ReplayConstants:
    """The constants of a replay. A file has no server (`live`), so its blocks show everything
    (`expanded`, block ids)."""

    session_id: str
    title: str
    now_ms: int
    live: bool = True
    expanded: frozenset[str] = frozenset()


class Player:
    """Draws a Reel at any position. Has one owner: the View it returns is valid until the next
    call. `shown` selects how many calls of long turns are shown."""

    def __init__(self, timeline: ReplayTimeline, fixed: ReplayConstants) -> None:
        self.timeline, self.fixed = timeline, fixed
        self.shown: ShownCounts = {}
        self.position = 0
        self._session, self._wire = Session(fixed.session_id), WireRows()
        self._kept: dict[int, tuple[Session, WireRows]] = {}

    def view(self, position: int) -> View:
        """The folded page at `position`."""
        self._seek(self.timeline.clamp(position))
        return replace(self._view(), played=replay_moment(self.timeline, self.position))

    def keyframe(self, env: Environment, position: int) -> dict[str, Any]:
        """`{"from": None, "to", "at", "seq", "html", "grow"}`, whatever the page shows now."""
        view = self.view(position)
        html = frame_html(env, view, (Touch(name, "changed") for name in _WHOLE))
        return self._frame_data(None, PageFrame(html, []))

    def frames(
        self, env: Environment, start: int, every_ms: int = FRAME_MS, most: int = 0
    ) -> Iterator[dict[str, Any]]:
        """The frames from position `start` on, at most `most` (0: to the end), as `{"from", "to",
        "at", "seq", "html", "grow"}`; arrivals closer than `every_ms` share one, and arrivals
        without visible effect join the next. The last of the timeline may be empty."""
        self._seek(self.timeline.clamp(start))
        begun, count = self.position, 0
        while self.position < self.timeline.count and (not most or count < most):
            since, events = self._wire.version, list[Logged]()
            step = PageFrame("", [])
            while step.empty and self.position < self.timeline.count:
                events += self._fold_to(self._group_end(every_ms))
                step = frame(env, self._view(), events, since, leave=_NOT_REPLAYED)
            yield self._frame_data(begun, step)
            begun, count = self.position, count + 1

    def _view(self) -> View:
        fixed = self.fixed
        return View(
            self._session,
            fixed.title,
            self._wire,
            fixed.now_ms,
            live=fixed.live,
            replay=True,
            expanded=fixed.expanded,
            shown=self.shown,
        )

    def _frame_data(self, start: int | None, step: PageFrame) -> dict[str, Any]:
        here = self.position
        place = {"from": start, "to": here, "at": self.timeline.ms(here), "seq": self._session.seq}
        return {**place, "html": step.html, "grow": step.grow}

    def _group_end(self, every_ms: int) -> int:
        """The end of the group that begins here: at least one arrival."""
        until = self.timeline.at[self.position] + every_ms
        return max(bisect_left(self.timeline.at, until, self.position), self.position + 1)

    def _seek(self, position: int) -> None:
        """Moves to `position`, from the current one or from the nearest cached fold before it."""
        near = max((place for place in self._kept if place <= position), default=0)
        if not near <= self.position <= position:
            self.position = near
            snapshot = self._kept.get(near)
            fresh = (Session(self.fixed.session_id), WireRows())
            self._session, self._wire = fresh if snapshot is None else deepcopy(snapshot)
        while self.position < position:
            stop = self.position - self.position % KEPT_EVERY + KEPT_EVERY
            self._fold_to(min(position, stop))
            if self.position == stop and stop not in self._kept:
                self._kept[stop] = deepcopy((self._session, self._wire))

    def _fold_to(self, position: int) -> list[Logged]:
        """Folds up to `position`; returns the events that were folded."""
        events = list[Logged]()
        for what in self.timeline.arrivals[self.position : position]:
            if isinstance(what, Logged):
                apply(self._session, what)
                self._wire.log(what)
                events.append(what)
            else:
                self._wire.feed(*what)
        self.position = position
        return events


def index(recorded: ReplayTimeline) -> dict[str, Any]:
    """What a page needs before it plays, as JSON data: `{"duration", "segments", "count", "first",
    "seq", "squeezed", "marks"}`; `marks` are [kind, position, ms, seq, words]."""
    return {
        **_times(recorded),
        "count": recorded.count,
        "first": recorded.first,
        "seq": recorded.whole.seq,
        "squeezed": recorded.clock.squeezed,
        "marks": [
            [mark.kind, mark.position, recorded.ms(mark.position), mark.seq, mark.words]
            for mark in recorded.marks
        ],
    }


def replay(recorded: ReplayTimeline, env: Environment, fixed: ReplayConstants) -> dict[str, Any]:
    """`{"duration", "segments", "frames"}` as JSON data; times in ms of the replay clock. A frame
    is `{"at", "seq", "html", "grow"}`. The first, at 0, empties the page."""
    return {**_times(recorded), "frames": list(_all_frames(recorded, env, fixed))}


def _all_frames(
    recorded: ReplayTimeline, env: Environment, fixed: ReplayConstants
) -> Iterator[dict[str, Any]]:
    if not recorded.first:
        return
    player = Player(recorded, fixed)
    begin = max(bisect_left(recorded.at, recorded.at[0] + FRAME_MS), recorded.first)
    yield {**_file_frame(player.keyframe(env, begin)), "at": 0}
    yield from (
        _file_frame(step) for step in player.frames(env, begin) if step["html"] or step["grow"]
    )


def _file_frame(step: dict[str, Any]) -> dict[str, Any]:
    """A frame for a player that cannot request further ones."""
    return {name: step[name] for name in ("at", "seq", "html", "grow")}


def _times(recorded: ReplayTimeline) -> dict[str, Any]:
    segments = [[part.kind, part.start_ms, part.end_ms, part.block] for part in recorded.segments]
    return {"duration": recorded.clock.duration, "segments": segments}
