"""Where the time went: a clock without dead time, and the segments of the time bar.

Both are computed from the folded session, so that the live page and the replay cannot differ.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from math import inf
from typing import Literal

from app.core.session import Call, Part, Prompt, Session, Turn

SegmentKind = Literal["waiting", "thinking", "text", "arguments", "tool", "person"]

IDLE_MS = 500
"""What remains of the time between the end of one run and the next."""
PERSON_MS = 3000
"""What remains of the time a person took to decide."""


@dataclass(frozen=True)
class Segment:
    """Times in ms of the replay clock; `block` is the id of the block it belongs to.

    `took_ms` is how long it truly was, dead time and all. `name` and `call` are those of its tool
    call, "" where it is none; `open` is what still goes on. Of those that overlap each has its own
    `lane`, from 0: where it begins, the first that is free. `lanes` is how many there are where it
    stands. What waits for a person has a row of its own, whatever overlaps there.
    """

    kind: SegmentKind
    start_ms: int
    end_ms: int
    block: str
    took_ms: int = 0
    name: str = ""
    call: str = ""
    open: bool = False
    lane: int = 0
    lanes: int = 1


@dataclass(frozen=True)
class Clock:
    """Unix ms -> ms since the beginning, dead time squeezed. `marks` are the joints, ascending."""

    marks: tuple[tuple[int, int], ...] = ((0, 0),)

    @property
    def duration(self) -> int:
        return self.marks[-1][1]

    @property
    def squeezed(self) -> int:
        """How many ms of a person's time and of idle time are left out."""
        return self.marks[-1][0] - self.marks[0][0] - self.duration

    def at(self, at_ms: int) -> int:
        """Between two joints the time is stretched evenly; outside them it stands still."""
        place = bisect_right(self.marks, at_ms, key=lambda mark: mark[0])
        if place == 0:
            return 0
        if place == len(self.marks):
            return self.duration
        (real, shown), (next_real, next_shown) = self.marks[place - 1 : place + 1]
        return shown + (at_ms - real) * (next_shown - shown) // max(next_real - real, 1)


def clock(session: Session, until_ms: int = 0) -> Clock:
    """Requests and tools run at their own pace; a person's time and idle time are capped.

    What is still open lasts until the last time something began or ended, or `until_ms` if later.
    """
    now = max(_latest(session), until_ms)
    busy = list(_busy(session, now))
    person = [(start, end) for _, start, end in _decisions(session, now)]
    prompts = [(item.at_ms, item.at_ms) for item in session.items if isinstance(item, Prompt)]
    joints = sorted({moment for pair in (*busy, *person, *prompts) for moment in pair})
    if not joints:
        return Clock()
    busy_in, person_in = _coverage(joints, busy), _coverage(joints, person)
    marks = [(joints[0], 0)]
    left, state = 0, ""
    for place, (start, end) in enumerate(pairwise(joints)):
        now_state = "busy" if busy_in[place] else "person" if person_in[place] else "idle"
        if now_state != state:
            state, left = now_state, PERSON_MS if now_state == "person" else IDLE_MS
        length = end - start if state == "busy" else min(end - start, left)
        left -= length
        marks.append((end, marks[-1][1] + length))
    return Clock(tuple(marks))


def segments(session: Session, on: Clock, until_ms: int = 0) -> tuple[Segment, ...]:
    """Every stretch of time that has a name, in order of its start; stretches may overlap."""
    now = max(_latest(session), until_ms)
    person = [
        replace(_segment("person", on, start, end, call_block(call)), name=call.name, call=call.id)
        for call, start, end in _decisions(session, now)
    ]
    busy = [segment for turn in session.turns for segment in _turn_segments(turn, on, now)]
    return tuple(sorted((*person, *in_lanes(busy)), key=lambda segment: segment.start_ms))


def in_lanes(found: Sequence[Segment]) -> list[Segment]:
    """`found` in order of start, each in the first lane that is free where it begins. What came
    before decides alone, so nothing changes its lane while a run goes on."""
    laid: list[Segment] = []
    free: list[float] = []  # by lane: when its last one ends
    first = 0
    for one in sorted(found, key=lambda segment: segment.start_ms):
        if all(end <= one.start_ms for end in free):
            laid[first:] = [replace(before, lanes=len(free)) for before in laid[first:]]
            first, free = len(laid), []
        lane = next((at for at, end in enumerate(free) if end <= one.start_ms), len(free))
        free[lane : lane + 1] = [inf if one.open else one.end_ms]
        laid.append(replace(one, lane=lane))
    laid[first:] = [replace(before, lanes=len(free)) for before in laid[first:]]
    return laid


def call_block(call: Call) -> str:
    """The id of the block that shows `call`."""
    return f"call-{call.turn}-{call.part.index}"


def _turn_segments(turn: Turn, on: Clock, now: int) -> Iterator[Segment]:
    closed = turn.closed_ms if turn.closed_ms is not None else now
    first = turn.first_part_ms if turn.first_part_ms is not None else closed
    waits = _segment("waiting", on, turn.sent_ms, first, f"turnhead-{turn.number}")
    yield replace(waits, open=turn.open and turn.first_part_ms is None)
    # An answer is one stream: a part is over where the next begins, though it is ended later.
    following = [part.started_ms for part in turn.parts[1:]]
    for part, next_ms in zip_longest(turn.parts, following):
        is_call = part.kind == "call"
        block = f"{'call' if is_call else 'part'}-{turn.number}-{part.index}"
        ended = part.ended_ms if part.ended_ms is not None else closed
        end = ended if next_ms is None else min(ended, next_ms)
        made = _segment(_kind(part), on, part.started_ms, end, block)
        call_id = f"{turn.number}.{part.index}" if is_call else ""
        still = next_ms is None and not part.ended and turn.open
        yield replace(made, name=part.name, call=call_id, open=still)
    for call in turn.calls:
        if call.started_ms is not None:
            end = call.ended_ms if call.ended_ms is not None else now
            runs = _segment("tool", on, call.started_ms, end, call_block(call))
            yield replace(runs, name=call.name, call=call.id, open=call.status == "running")


def _segment(kind: SegmentKind, on: Clock, start: int, end: int, block: str) -> Segment:
    """From times in Unix ms."""
    return Segment(kind, on.at(start), on.at(end), block, max(end - start, 0))


def _latest(session: Session) -> int:
    """The last time something began or ended. A delta is neither: so the bar is not drawn anew
    for each, and a part that streams shows its width when it has ended."""
    moments = [item.at_ms for item in session.items if isinstance(item, Prompt)]
    for turn in session.turns:
        moments += [turn.sent_ms, turn.closed_ms or 0]
        moments += [part.ended_ms or part.started_ms for part in turn.parts]
    for call in session.calls():
        ends = (call.checked_ms, call.decided_ms, call.started_ms, call.ended_ms)
        moments += [moment for moment in ends if moment is not None]
    return max(moments, default=session.started_ms)


def _kind(part: Part) -> SegmentKind:
    match part.kind:
        case "thinking":
            return "thinking"
        case "call":
            return "arguments"
        case "server_call" | "server_result":
            return "tool"
        case _:
            return "text"


def _busy(session: Session, now: int) -> Iterator[tuple[int, int]]:
    for turn in session.turns:
        yield turn.sent_ms, max(turn.closed_ms if turn.closed_ms is not None else now, turn.sent_ms)
        for call in turn.calls:
            if call.started_ms is not None:
                end = call.ended_ms if call.ended_ms is not None else now
                yield call.started_ms, max(end, call.started_ms)


def _decisions(session: Session, now: int) -> Iterator[tuple[Call, int, int]]:
    """How long each call has waited for a person."""
    waiting = {call.id for call in session.waiting}
    for call in session.calls():
        if call.checked_ms is None:
            continue
        by_person = call.decided is not None and call.decided.by == "person"
        if by_person and call.decided_ms is not None:
            yield call, call.checked_ms, max(call.decided_ms, call.checked_ms)
        elif call.id in waiting:
            yield call, call.checked_ms, max(now, call.checked_ms)


def _coverage(joints: list[int], spans: list[tuple[int, int]]) -> list[bool]:
    """For each stretch between two joints, whether one of `spans` covers it."""
    index = {moment: place for place, moment in enumerate(joints)}
    steps = [0] * (len(joints) + 1)
    for start, end in spans:
        steps[index[start]] += 1
        steps[index[end]] -= 1
    covered, depth = [], 0
    for step in steps[: len(joints)]:
        depth += step
        covered.append(depth > 0)
    return covered
