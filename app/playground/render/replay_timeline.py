"""The time bar and the replay's timeline: a clock without dead time, segments, bars, positions.

Everything is computed from the folded session, so that the live page and the replay cannot differ.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from math import inf
from typing import Literal, assert_never

from playground.core.events import (
    AnswerPassed,
    CallChecked,
    CallDecided,
    CallDoubted,
    CallEnded,
    CallExtended,
    CallInterrupted,
    CallProgressed,
    CallReturned,
    CallStarted,
    ClientGone,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestReceived,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunResumed,
    RunStopped,
    SessionForked,
    SessionStarted,
    SettingsChanged,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Warned,
)
from playground.core.reducer import fold
from playground.core.session import Call, Part, Prompt, Session, Turn
from playground.render.call_status import call_block
from playground.render.filters import clip, duration, one_line, plural

SegmentKind = Literal["waiting", "thinking", "text", "arguments", "tool", "person"]

IDLE_MS = 500
"""The remaining time between the end of one run and the next."""
PERSON_MS = 3000
"""The remaining time of a user's decision."""

MOST_LANES = 6
"""Further segments share the last one."""

MOST_ROWS = 60
"""The list next to the bar has only the last rows."""

WIDTH, HEIGHT = 1000.0, 20.0
"""The size of the drawing, in its own units; the page stretches it."""

PERSON = 8.0
"""The height of the row of the user, if there is one."""

_GAP = 0.8

OPEN = 8.0
"""The minimum width of a running call: the next event redraws the bar, and it grows."""

_WORDS: Mapping[SegmentKind, str] = {
    "waiting": "waiting for the model",
    "thinking": "thinking",
    "text": "text",
    "arguments": "writing arguments",
    "tool": "runs",
    "person": "waiting for your decision",
}

Chunks = Mapping[int, Sequence[tuple[int, bytes]]]
"""By recording: (Unix ms, bytes) in order of arrival."""

Piece = tuple[int, int, bytes]
"""(recording, Unix ms, bytes)."""

MarkKind = Literal["prompt", "turn", "call", "error"]
KINDS: tuple[MarkKind, ...] = ("prompt", "turn", "call", "error")


@dataclass(frozen=True)
class Segment:
    """Times in ms of the replay clock; `block` is the id of the block it belongs to.

    `took_ms` is the real duration, including dead time. `name` and `call` are those of its tool
    call, "" if it is none; `open`: it has not ended. Overlapping segments have separate `lane`s,
    from 0: the first that is free at their start. `lanes` is the number of lanes at its place.
    Waits for a user are in a separate row, even if they overlap.
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
        """The ms of user time and idle time that are left out."""
        return self.marks[-1][0] - self.marks[0][0] - self.duration

    def to_replay_ms(self, at_ms: int) -> int:
        """Interpolates linearly between two joints; outside them the clock stops."""
        place = bisect_right(self.marks, at_ms, key=lambda mark: mark[0])
        if place == 0:
            return 0
        if place == len(self.marks):
            return self.duration
        (real, shown), (next_real, next_shown) = self.marks[place - 1 : place + 1]
        return shown + (at_ms - real) * (next_shown - shown) // max(next_real - real, 1)


def clock(session: Session, until_ms: int = 0) -> Clock:
    """Requests and tools run at their own pace; a user's time and idle time are capped.

    Open segments last until the last time anything began or ended, or `until_ms` if later.
    """
    now = max(_latest(session), until_ms)
    busy = list(_busy_spans(session, now))
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
    """Every named stretch of time, in order of its start; stretches may overlap."""
    now = max(_latest(session), until_ms)
    person = [
        _segment(
            "person",
            on=on,
            start=start,
            end=end,
            block=call_block(call.id),
            name=call.name,
            call=call.id,
        )
        for call, start, end in _decisions(session, now)
    ]
    busy = [segment for turn in session.turns for segment in _turn_segments(turn, on, now)]
    return tuple(sorted((*person, *assign_lanes(busy)), key=lambda segment: segment.start_ms))


def assign_lanes(unplaced: Sequence[Segment]) -> list[Segment]:
    """`unplaced` in order of start, each in the first lane that is free at its start. Only earlier
    segments matter, so no segment changes its lane while a run continues."""
    ordered = sorted(unplaced, key=lambda segment: segment.start_ms)
    lanes: list[int] = []  # by segment: its own, and the number of lanes
    counts: list[int] = []
    free: list[float] = []  # by lane: when its last segment ends
    for segment in ordered:
        if all(end <= segment.start_ms for end in free):
            counts += [len(free)] * (len(lanes) - len(counts))
            free = []
        lane = next((at for at, end in enumerate(free) if end <= segment.start_ms), len(free))
        free[lane : lane + 1] = [inf if segment.open else segment.end_ms]
        lanes.append(lane)
    counts += [len(free)] * (len(lanes) - len(counts))
    return [
        segment if (lane, count) == (0, 1) else replace(segment, lane=lane, lanes=count)
        for segment, lane, count in zip(ordered, lanes, counts, strict=True)
    ]


def _turn_segments(turn: Turn, on: Clock, now: int) -> Iterator[Segment]:
    closed = turn.closed_ms if turn.closed_ms is not None else now
    first = turn.first_part_ms if turn.first_part_ms is not None else closed
    still = turn.open and turn.first_part_ms is None
    yield _segment("waiting", on, turn.sent_ms, first, f"turnhead-{turn.number}", still=still)
    # An answer is one stream: a part is over when the next begins, though it is closed later.
    following = [part.started_ms for part in turn.parts[1:]]
    for part, next_ms in zip_longest(turn.parts, following):
        is_call = part.kind == "call"
        block = f"{'call' if is_call else 'part'}-{turn.number}-{part.index}"
        ended = part.ended_ms if part.ended_ms is not None else closed
        end = ended if next_ms is None else min(ended, next_ms)
        call_id = f"{turn.number}.{part.index}" if is_call else ""
        still = next_ms is None and not part.ended and turn.open
        kind = _kind(part)
        yield _segment(
            kind,
            on=on,
            start=part.started_ms,
            end=end,
            block=block,
            name=part.name,
            call=call_id,
            still=still,
        )
    for call in turn.calls:
        if call.started_ms is not None:
            end = call.ended_ms if call.ended_ms is not None else now
            block, still = call_block(call.id), call.status == "running" and not call.result_held
            yield _segment(
                "tool",
                on=on,
                start=call.started_ms,
                end=end,
                block=block,
                name=call.name,
                call=call.id,
                still=still,
            )


def _segment(
    kind: SegmentKind,
    on: Clock,
    start: int,
    end: int,
    block: str,
    name: str = "",
    call: str = "",
    *,
    still: bool = False,
) -> Segment:
    """Converts times in Unix ms."""
    return Segment(
        kind,
        start_ms=on.to_replay_ms(start),
        end_ms=on.to_replay_ms(end),
        block=block,
        took_ms=max(end - start, 0),
        name=name,
        call=call,
        open=still,
    )


def _latest(session: Session) -> int:
    """The last time anything began or ended. Deltas do not count, so that the bar is not redrawn
    for each; a streaming part gets its width when it has ended."""
    moments = [item.at_ms for item in session.items if isinstance(item, Prompt)]
    for turn in session.turns:
        moments += [turn.sent_ms, turn.closed_ms or 0]
        moments += [part.ended_ms or part.started_ms for part in turn.parts]
    for call in session.calls():
        ends = (call.checked_ms, call.decided_ms, call.started_ms, call.ended_ms, call.released_ms)
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


def _busy_spans(session: Session, now: int) -> Iterator[tuple[int, int]]:
    for turn in session.turns:
        yield turn.sent_ms, max(turn.closed_ms if turn.closed_ms is not None else now, turn.sent_ms)
        for call in turn.calls:
            if call.started_ms is not None:
                end = call.ended_ms if call.ended_ms is not None else now
                yield call.started_ms, max(end, call.started_ms)


def _decisions(session: Session, now: int) -> Iterator[tuple[Call, int, int]]:
    """How long each call has waited for a user."""
    waiting = {call.id for call in session.waiting}
    for call in session.calls():
        if call.checked_ms is None:
            continue
        by_person = call.decided is not None and call.decided.by == "person"
        if by_person and call.decided_ms is not None:
            yield call, call.checked_ms, max(call.decided_ms, call.checked_ms)
        elif call.id in waiting and not call.result_held:
            yield call, call.checked_ms, max(now, call.checked_ms)
        if call.ended_ms is not None and (call.released_ms is not None or call.result_held):
            yield call, call.ended_ms, max(call.released_ms or now, call.ended_ms)


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


# The drawn time bar: the place of each segment and its words.


@dataclass(frozen=True)
class Bar:
    """A segment on the drawing, in its units. `start_ms` and `end_ms` are of the replay clock."""

    kind: SegmentKind
    block: str
    words: str
    start_ms: int
    end_ms: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Drawing:
    """`lanes` is the number of lanes; `shared` says where more would be needed, or is "". `rows`
    are (words, block) in order of time, and `left_out` the number of omitted earlier rows."""

    bars: Sequence[Bar]
    lanes: int
    shared: str
    rows: Sequence[tuple[str, str]]
    left_out: int


def drawing(all_segments: Sequence[Segment], length_ms: int) -> Drawing:
    """The time bar of a clock that is `length_ms` long."""
    if not length_ms:
        return Drawing((), 1, "", (), 0)
    bars = tuple(_bars(all_segments, length_ms))
    most = max((segment.lanes for segment in all_segments), default=1)
    shared = f"{most} at once at most. The last of {MOST_LANES} lanes is shared."
    rows = [(bar.words, bar.block) for bar in bars]
    return Drawing(
        tuple(_distinct_bars(bars)),
        min(most, MOST_LANES),
        shared if most > MOST_LANES else "",
        rows[-MOST_ROWS:],
        max(len(rows) - MOST_ROWS, 0),
    )


def _distinct_bars(bars: Sequence[Bar]) -> Iterator[Bar]:
    """`bars` without those that would coincide with another one: of thousands of calls that wait
    together only a few are drawn."""
    drawn: set[tuple[object, ...]] = set()
    for bar in bars:
        place = bar.kind, round(bar.x), round(bar.x + bar.width), bar.y, bar.height
        if place not in drawn:
            drawn.add(place)
            yield bar


def _bars(all_segments: Sequence[Segment], length_ms: int) -> Iterator[Bar]:
    low = _low_segments(all_segments)
    for place, segment in enumerate(all_segments):
        y, height = HEIGHT - PERSON, PERSON
        if segment.kind != "person":
            whole = HEIGHT - PERSON if place in low else HEIGHT
            visible = min(segment.lanes, MOST_LANES)
            y = whole * min(segment.lane, visible - 1) / visible
            height = whole / visible - (_GAP if visible > 1 else 0)
        least = OPEN if segment.open and segment.kind == "tool" else 1.5
        width = max(WIDTH * (segment.end_ms - segment.start_ms) / length_ms, least)
        x = min(WIDTH * segment.start_ms / length_ms, WIDTH - width)
        words = words_of(segment)
        yield Bar(
            segment.kind,
            block=segment.block,
            words=words,
            start_ms=segment.start_ms,
            end_ms=segment.end_ms,
            x=x,
            y=y,
            width=width,
            height=height,
        )


def words_of(segment: Segment) -> str:
    """`get_weather runs, call 1.2, 182 ms, beside 2 others`."""
    name = f"{clip(segment.name, 60)} " if segment.name else ""
    words = [
        name + ("calls" if segment.kind == "tool" and not segment.call else _WORDS[segment.kind])
    ]
    if segment.call:
        words.append(f"call {segment.call}")
    words.append(duration(segment.took_ms) + (" so far" if segment.open else ""))
    if segment.lanes > 1:
        words.append(f"parallel with {plural(segment.lanes - 1, 'other')}")
    return ", ".join(words)


def _low_segments(all_segments: Sequence[Segment]) -> set[int]:
    """The indexes of segments that leave room for the row of the user: if one segment of an
    overlapping group overlaps it, all of the group do, so that lanes have one height."""
    person = [
        segment
        for segment in all_segments
        if segment.kind == "person" and segment.end_ms > segment.start_ms
    ]
    low: set[int] = set()
    for group in _overlapping_groups(all_segments):
        start = min(all_segments[place].start_ms for place in group)
        end = max(all_segments[place].end_ms for place in group)
        if any(wait.start_ms < end and start < wait.end_ms for wait in person):
            low.update(group)
    return low


def _overlapping_groups(all_segments: Sequence[Segment]) -> Iterator[list[int]]:
    """The indexes of segments connected by overlaps, in order of their start."""
    group: list[int] = []
    reached = 0
    for place, segment in enumerate(all_segments):
        if segment.kind == "person":
            continue
        if group and segment.start_ms >= reached:
            yield group
            group = []
        reached = max(reached, segment.end_ms) if group else segment.end_ms
        group.append(place)
    if group:
        yield group


# The replay: all arrivals in one order, and the time of each. Position k is the page after the
# first k arrivals, each an event of the log or a piece of a recording.


@dataclass(frozen=True)
class ReplayMark:
    """A place to jump to: `position` is right after event `seq`. For a call: its beginning."""

    kind: MarkKind
    position: int
    seq: int
    words: str


@dataclass(frozen=True)
class ReplayTimeline:
    """`at` is the time of each arrival on the replay clock, in ms, ascending; `seqs` has for each
    position the last event before it; `whole` is the complete session. `first` is the first
    position that can be drawn."""

    whole: Session
    clock: Clock
    segments: Sequence[Segment]
    arrivals: Sequence[Logged | Piece]
    at: Sequence[int]
    seqs: Sequence[int]
    marks: Sequence[ReplayMark]
    first: int

    @property
    def count(self) -> int:
        """The last position."""
        return len(self.arrivals)

    def position_of_seq(self, seq: int) -> int:
        """The position right after event `seq`, or after the nearest earlier event."""
        return self.clamp(bisect_left(self.seqs, seq))

    def position_of_ms(self, ms: int) -> int:
        """The position that the replay clock shows at `ms`."""
        return self.clamp(bisect_right(self.at, ms))

    def clamp(self, position: int) -> int:
        """`position`, or the nearest that can be drawn."""
        return min(max(position, self.first), self.count)

    def ms(self, position: int) -> int:
        """The time on the replay clock at which `position` begins."""
        return self.at[position - 1] if position else 0


@dataclass(frozen=True)
class ReplayMoment:
    """A moment of a replay: after event `seq` of `last`, at `ms` of its clock. `whole` is the
    complete session; `before` and `after` are the previous and next targets, by kind (`event` and
    the kinds of marks), as event numbers."""

    whole: Session
    seq: int
    last: int
    ms: int
    before: Mapping[str, int]
    after: Mapping[str, int]


def replay_moment(recorded: ReplayTimeline, position: int) -> ReplayMoment:
    """The moment at `position`, with the previous and next targets."""
    seq, last = recorded.seqs[position], recorded.whole.seq
    before = {"event": seq - 1} if seq > recorded.seqs[recorded.first] else {}
    after = {"event": seq + 1} if seq < last else {}
    for kind in KINDS:
        earlier, later = adjacent_marks(recorded, position, kind)
        before |= {kind: earlier.seq} if earlier is not None else {}
        after |= {kind: later.seq} if later is not None else {}
    return ReplayMoment(
        recorded.whole, seq=seq, last=last, ms=recorded.ms(position), before=before, after=after
    )


def adjacent_marks(
    recorded: ReplayTimeline, position: int, kind: MarkKind
) -> tuple[ReplayMark | None, ReplayMark | None]:
    """The marks of that kind before and after `position`."""
    marks = [mark for mark in recorded.marks if mark.kind == kind]
    before = bisect_left(marks, position, key=lambda mark: mark.position)
    after = bisect_right(marks, position, key=lambda mark: mark.position)
    return (
        marks[before - 1] if before else None,
        marks[after] if after < len(marks) else None,
    )


def build_timeline(session_id: str, log: Sequence[Logged], chunks: Chunks) -> ReplayTimeline:
    """`log` must include the deltas of ended parts."""
    whole = fold(session_id, log)
    on = clock(whole, whole.updated_ms)
    arrivals: list[Logged | Piece] = []
    at, seqs, first = list[int](), [0], 0
    for at_ms, what in _arrivals(log, chunks):
        arrivals.append(what)
        at.append(on.to_replay_ms(at_ms))
        seqs.append(what.seq if isinstance(what, Logged) else seqs[-1])
        if not first and isinstance(what, Logged) and isinstance(what.event, SessionStarted):
            first = len(arrivals)
    all_segments = segments(whole, on, whole.updated_ms)
    return ReplayTimeline(
        whole,
        clock=on,
        segments=all_segments,
        arrivals=arrivals,
        at=at,
        seqs=seqs,
        marks=tuple(_marks(arrivals)),
        first=first,
    )


def _arrivals(log: Sequence[Logged], chunks: Chunks) -> Iterator[tuple[int, Logged | Piece]]:
    """(Unix ms, arrival) in chronological order; events stay in log order whatever the clock did.

    The bytes of a recording lie between its request and the next one.
    """
    pending: deque[tuple[int, bytes]] = deque()
    number = now = 0
    for logged in log:
        moment = max(now, logged.at_ms)
        last = isinstance(logged.event, RequestSent)
        while pending and (last or pending[0][0] <= moment):
            came, data = pending.popleft()
            now = max(now, min(came, moment))
            yield now, (number, came, data)
        now = moment
        yield now, logged
        if isinstance(logged.event, RequestSent):
            number = logged.event.recording
            pending = deque(chunks.get(number, ()))
    for came, data in pending:
        now = max(now, came)
        yield now, (number, came, data)


def _marks(arrivals: Sequence[Logged | Piece]) -> Iterator[ReplayMark]:
    turn = prompts = 0
    for position, what in enumerate(arrivals, 1):
        if not isinstance(what, Logged):
            continue
        match what.event:
            case PromptAdded(text=text):
                prompts += 1
                words = f"message {prompts}: {clip(one_line(text), 60)}"
                yield ReplayMark("prompt", position, what.seq, words)
            case RequestSent(recording=turn):
                yield ReplayMark("turn", position, what.seq, f"turn {turn}")
            case PartStarted(index=index, part_kind="call", name=name):
                words = f"call {turn}.{index}: {clip(one_line(name), 60)}"
                yield ReplayMark("call", position, what.seq, words)
            case ResponseFailed(message=message):
                yield ReplayMark("error", position, what.seq, clip(one_line(message), 80))
            case CallEnded(call_id=call_id, result=result) if result.is_error:
                words = f"call {call_id} {result.kind.replace('_', ' ') or 'failed'}"
                yield ReplayMark("error", position, what.seq, words)
            case (
                AnswerPassed() | CallChecked() | CallDecided() | CallDoubted() | CallEnded()
                | CallExtended() | CallInterrupted() | CallProgressed() | CallReturned()
                | CallStarted() | ClientGone() | PartDelta() | PartEnded() | PartStarted()
                | RequestReceived() | ResponseEnded() | ResponseStarted() | RetryScheduled()
                | RunPaused() | RunResumed() | RunStopped() | SessionForked() | SessionStarted()
                | SettingsChanged() | TaskEnded() | TaskStarted() | TurnDropped() | Warned()
            ):  # fmt: skip
                pass
            case _:
                assert_never(what.event)
