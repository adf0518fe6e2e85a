"""The time bar as it is drawn: where each segment stands, and what it says of itself.

Which lane a segment has is for timeline.py to say; this file gives lanes their height.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.render.filters import clip, duration, plural
from app.render.timeline import Segment, SegmentKind

MOST_LANES = 6
"""More share the last one."""
MOST_ROWS = 60
"""Of the list beside the bar, the last ones."""

WIDTH, HEIGHT = 1000.0, 20.0
"""Of the drawing, in its own units; the page stretches it."""
PERSON = 8.0
"""What the row of the person takes of the height, where there is one."""
_GAP = 0.8
OPEN = 8.0
"""How wide a call that runs is at least: what comes next draws the bar anew, and it grows."""

_WORDS: Mapping[SegmentKind, str] = {
    "waiting": "waiting for the model",
    "thinking": "thinking",
    "text": "text",
    "arguments": "writes its arguments",
    "tool": "runs",
    "person": "waits for you",
}


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
    """`lanes` is how many the bar has; `shared` tells where more would be needed, or is "".
    `rows` are (words, block) in order of time, and `left_out` how many came before them."""

    bars: Sequence[Bar]
    lanes: int
    shared: str
    rows: Sequence[tuple[str, str]]
    left_out: int


def drawing(found: Sequence[Segment], length_ms: int) -> Drawing:
    """The time bar of a clock that is `length_ms` long."""
    if not length_ms:
        return Drawing((), 1, "", (), 0)
    bars = tuple(_bars(found, length_ms))
    most = max((segment.lanes for segment in found), default=1)
    shared = f"{most} at once at most; the last of {MOST_LANES} lanes is shared."
    rows = [(bar.words, bar.block) for bar in bars]
    return Drawing(
        tuple(_seen_apart(bars)),
        min(most, MOST_LANES),
        shared if most > MOST_LANES else "",
        rows[-MOST_ROWS:],
        max(len(rows) - MOST_ROWS, 0),
    )


def _seen_apart(bars: Sequence[Bar]) -> Iterator[Bar]:
    """`bars` without those that would cover another one to the unit: of thousands of calls that
    wait together a few are drawn."""
    drawn: set[tuple[object, ...]] = set()
    for bar in bars:
        place = bar.kind, round(bar.x), round(bar.x + bar.width), bar.y, bar.height
        if place not in drawn:
            drawn.add(place)
            yield bar


def _bars(found: Sequence[Segment], length_ms: int) -> Iterator[Bar]:
    low = _beside_a_person(found)
    for place, segment in enumerate(found):
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
            segment.block,
            words,
            segment.start_ms,
            segment.end_ms,
            x,
            y,
            width,
            height,
        )


def words_of(one: Segment) -> str:
    """`get_weather runs, call 1.2, 182 ms, beside 2 others`."""
    name = f"{clip(one.name, 60)} " if one.name else ""
    words = [name + ("calls" if one.kind == "tool" and not one.call else _WORDS[one.kind])]
    if one.call:
        words.append(f"call {one.call}")
    words.append(duration(one.took_ms) + (" so far" if one.open else ""))
    if one.lanes > 1:
        words.append(f"beside {plural(one.lanes - 1, 'other')}")
    return ", ".join(words)


def _beside_a_person(found: Sequence[Segment]) -> set[int]:
    """The places of those that leave room for the row of the person: where one of the segments
    that stand side by side overlaps it, all of them do, so that lanes are of one height."""
    person = [
        segment
        for segment in found
        if segment.kind == "person" and segment.end_ms > segment.start_ms
    ]
    low: set[int] = set()
    for group in _side_by_side(found):
        start = min(found[place].start_ms for place in group)
        end = max(found[place].end_ms for place in group)
        if any(one.start_ms < end and start < one.end_ms for one in person):
            low.update(group)
    return low


def _side_by_side(found: Sequence[Segment]) -> Iterator[list[int]]:
    """The places of segments that hang together by overlapping, in order of their start."""
    group: list[int] = []
    reached = 0
    for place, segment in enumerate(found):
        if segment.kind == "person":
            continue
        if group and segment.start_ms >= reached:
            yield group
            group = []
        reached = max(reached, segment.end_ms) if group else segment.end_ms
        group.append(place)
    if group:
        yield group
