"""The past as frames: the same pieces as the live stream, by a clock without dead time.

One pass over the log and the recordings; each frame costs what it touches. The page applies a
frame of the replay and a frame of the stream with one function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment

from app.core.events import Logged, RequestSent
from app.core.fold import apply, fold
from app.core.state import Session
from app.render.blocks import Frame, Touch, frame, frame_html
from app.render.timeline import Clock, clock, segments
from app.render.view import View
from app.render.wire_rows import WireRows

FRAME_MS = 33
"""Events closer than this share a frame."""

Chunks = Mapping[int, Sequence[tuple[int, bytes]]]
"""By recording: (Unix ms, bytes) in order of arrival."""

_EMPTIED = ("flow", "wire", "head", "pause")
_NOT_REPLAYED = frozenset({"bar", "dock", "tasks", "list"})


@dataclass(frozen=True)
class Fixed:
    """What does not change while a replay is made. A file has no server behind it (`live`), so
    that its blocks show all that there is (`expanded`, block ids)."""

    session_id: str
    title: str
    now_ms: int
    live: bool = True
    expanded: frozenset[str] = frozenset()


def replay(log: Sequence[Logged], env: Environment, chunks: Chunks, fixed: Fixed) -> dict[str, Any]:
    """`{"duration", "segments", "frames"}` as JSON data; times in ms of the replay clock.

    The first frame, at 0, empties the page. `log` must hold the deltas of ended parts, too.
    """
    whole = fold(fixed.session_id, log)
    until = whole.updated_ms
    on = clock(whole, until)
    return {
        "duration": on.duration,
        "segments": [
            [item.kind, item.start_ms, item.end_ms, item.block]
            for item in segments(whole, on, until)
        ],
        "frames": list(_frames(log, env, chunks, fixed, on)),
    }


def _frames(
    log: Sequence[Logged], env: Environment, chunks: Chunks, fixed: Fixed, on: Clock
) -> Iterator[dict[str, Any]]:
    """`{"at", "seq", "html", "grow"}`, in order of `at`."""
    session, wire = Session(fixed.session_id), WireRows()
    view = View(
        session,
        fixed.title,
        wire,
        fixed.now_ms,
        live=fixed.live,
        replay=True,
        expanded=fixed.expanded,
    )
    first = True
    for at, group in _groups(_arrivals(log, chunks), on.at):
        since = wire.version
        events = list(_take(session, wire, group))
        if session.settings is None:
            continue
        if first:
            html = frame_html(env, view, (Touch(name, "changed") for name in _EMPTIED))
            step, first = Frame(html, []), False
        else:
            step = frame(env, view, events, since, leave=_NOT_REPLAYED)
        if not step.empty:
            yield {"at": at, "seq": session.seq, "html": step.html, "grow": step.grow}


Arrival = tuple[int, Logged | tuple[int, bytes]]
"""(Unix ms, an event or a chunk of a recording)."""


def _arrivals(log: Sequence[Logged], chunks: Chunks) -> Iterator[Arrival]:
    """Events and bytes in one order of time; the order of the log holds whatever the clock did.

    The bytes of a recording lie between its request and the next one.
    """
    pending: deque[tuple[int, bytes]] = deque()
    number = now = 0
    for logged in log:
        now = max(now, logged.at_ms)
        last = isinstance(logged.event, RequestSent)
        while pending and (last or pending[0][0] <= now):
            yield now, (number, pending.popleft()[1])
        yield now, logged
        if isinstance(logged.event, RequestSent):
            number = logged.event.recording
            pending = deque(chunks.get(number, ()))
    for at_ms, data in pending:
        yield max(now, at_ms), (number, data)


def _groups(
    arrivals: Iterable[Arrival], at: Callable[[int], int]
) -> Iterator[tuple[int, list[Arrival]]]:
    """The arrivals that share a frame, each group with its place on the replay clock."""
    begun, group = 0, list[Arrival]()
    for arrival in arrivals:
        place = at(arrival[0])
        if group and place - begun >= FRAME_MS:
            yield begun, group
            group = []
        if not group:
            begun = place
        group.append(arrival)
    if group:
        yield begun, group


def _take(session: Session, wire: WireRows, group: Iterable[Arrival]) -> Iterator[Logged]:
    """Fold a group into `session` and `wire`; yields its events."""
    for at_ms, what in group:
        if isinstance(what, Logged):
            apply(session, what)
            wire.log(what)
            yield what
        else:
            wire.feed(what[0], at_ms, what[1])
