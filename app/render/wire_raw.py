"""Bytes of a recording for a person: a page of them as text or hex, single frames, and where a
text stands in them. Knows no recording but the bytes it is given."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from jinja2 import Environment

from app.protocols.framing import Frame, Framer
from app.render.filters import clip, plural
from app.render.wire_rows import WireRows

PAGE = 4096
"""Bytes that are shown at once."""
FRAMES = 200
HITS = 50
LINE = 8
AROUND = 40

Kind = Literal["", "masked", "hit"]
Span = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """A run of bytes as text; `size` is how many bytes they are."""

    text: str
    kind: Kind
    size: int


@dataclass(frozen=True)
class HexLine:
    offset: int
    hex: Sequence[Piece]
    text: str


@dataclass(frozen=True)
class Raw:
    """Bytes `at`..`to` of those from `start` to `end`. `masked` counts the stars among them that
    stand for a secret; `hit` is what was looked for; `copied` is what goes to the clipboard."""

    number: int
    start: int
    end: int
    at: int
    to: int
    hex: bool
    masked: int
    hit: Span
    pieces: Sequence[Piece]
    lines: Sequence[HexLine]
    copied: str
    frames: bool = True

    @property
    def before(self) -> int:
        return max(self.start, self.at - PAGE)


@dataclass(frozen=True)
class Single:
    """A frame of a recording; `at_ms` counts from the request."""

    start: int
    end: int
    at_ms: int
    data: str

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Hit:
    """Where it stands: bytes `start`..`end` of `recording`, in row `row` of its section."""

    recording: int
    start: int
    end: int
    before: str
    text: str
    after: str
    row: int
    row_start: int
    row_end: int


def raw(
    number: int,
    data: bytes,
    span: Span,
    masked: Sequence[Span],
    *,
    at: int = -1,
    as_hex: bool = False,
    hit: Span = (0, 0),
) -> Raw:
    """The page of bytes that begins at `at` (below `span`: at its first, or where the hit is)."""
    start, end = span
    if at < start and hit[1] > start:
        at = max(start, hit[0] - PAGE // 4)
    at = _whole(data, min(max(at, start), end))
    to = _whole(data, min(at + PAGE, end)) if at + PAGE < end else end
    marks: list[tuple[int, int, Kind]] = [(*span, "masked") for span in masked]
    marks += [(*hit, "hit")] if hit[1] > hit[0] else []
    inside = sum(max(0, min(b, to) - max(a, at)) for a, b in masked)
    pieces = () if as_hex else list(_pieces(data, at, to, marks))
    lines = [_line(data, n, min(n + LINE, to), marks) for n in range(at, to, LINE)]
    shown = data[at:to]
    copied = shown.hex(" ") if as_hex else shown.decode("utf-8", "backslashreplace")
    return Raw(
        number, start, end, at, to, as_hex, inside, hit, pieces, lines if as_hex else (), copied
    )


def _whole(data: bytes, place: int) -> int:
    """`place`, or the next one that is not in the middle of a character."""
    for ahead in range(4):
        if place + ahead >= len(data) or data[place + ahead] & 0xC0 != 0x80:
            return min(place + ahead, len(data))
    return place


def _cuts(at: int, to: int, marks: Sequence[tuple[int, int, Kind]]) -> Iterator[tuple[Span, Kind]]:
    """`at`..`to` in runs of one kind; a hit is seen through a mask."""
    edges = {at, to, *(min(max(edge, at), to) for a, b, _ in marks for edge in (a, b))}
    ordered = sorted(edges)
    for first, last in pairwise(ordered):
        kinds: list[Kind] = [kind for a, b, kind in marks if a <= first and last <= b]
        yield (first, last), kinds[-1] if kinds else ""


def _pieces(
    data: bytes, at: int, to: int, marks: Sequence[tuple[int, int, Kind]]
) -> Iterator[Piece]:
    for (first, last), kind in _cuts(at, to, marks):
        text = data[first:last].decode("utf-8", "backslashreplace")
        yield Piece(text, kind, last - first)


def _line(data: bytes, first: int, last: int, marks: Sequence[tuple[int, int, Kind]]) -> HexLine:
    cuts = _cuts(first, last, marks)
    pieces = [Piece(data[a:b].hex(" ") + " ", kind, b - a) for (a, b), kind in cuts]
    text = "".join(chr(one) if 0x20 <= one < 0x7F else "·" for one in data[first:last])
    return HexLine(first, pieces, text)


def raw_html(env: Environment, session_id: str, one: Raw) -> str:
    return env.get_template("_raw.html").render(session_id=session_id, raw=one)


def singles(pieces: Sequence[tuple[int, bytes]], span: Span, sent_ms: int) -> list[Single]:
    """The frames within `span` of a recording, given as (Unix ms, bytes)."""
    framer, found = Framer(), list[Single]()

    def take(frames: Sequence[Frame], at_ms: int) -> None:
        found.extend(
            Single(frame.start, frame.end, at_ms - sent_ms, clip(" ".join(frame.data.split()), 160))
            for frame in frames
            if span[0] <= frame.start and frame.end <= span[1]
        )

    for at_ms, data in pieces:
        take(framer.feed(data), at_ms)
    take(framer.end(), pieces[-1][0] if pieces else sent_ms)
    return found


def frames_html(
    env: Environment, session_id: str, number: int, span: Span, found: Sequence[Single], first: int
) -> str:
    """At most FRAMES of them from number `first` (from 0) on."""
    after = first + FRAMES
    return env.get_template("_frames.html").render(
        session_id=session_id,
        number=number,
        start=span[0],
        end=span[1],
        total=len(found),
        frames=found[first:after],
        first=first,
        before=max(0, first - FRAMES),
        after=after if after < len(found) else 0,
    )


def look_for(text: str, bodies: Sequence[tuple[int, bytes]], wire: WireRows) -> list[Hit]:
    """Where `text` stands in the bodies of recordings, as it is or as JSON writes it; the first
    HITS. Upper and lower case are the same where they are ASCII."""
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    wanted = [form.encode("utf-8", "replace").lower() for form in sorted(forms)]
    hits: list[Hit] = []
    for number, data in bodies:
        lower = data.lower()
        spans = sorted({span for form in wanted if form for span in _places(lower, form)})
        for start, end in spans:
            if len(hits) == HITS:
                return hits
            hits.append(_hit(number, data, start, end, wire))
    return hits


def _places(data: bytes, form: bytes) -> Iterator[Span]:
    place = data.find(form)
    for _ in range(HITS):
        if place < 0:
            return
        yield place, place + len(form)
        place = data.find(form, place + len(form))


def _hit(number: int, data: bytes, start: int, end: int, wire: WireRows) -> Hit:
    before, after = data[max(0, start - AROUND) : start], data[end : end + AROUND]
    texts = [" ".join(_text(one).split()) for one in (before, data[start:end], after)]
    place, row_start, row_end = 0, max(0, start - PAGE // 4), min(len(data), end + PAGE // 4)
    if number <= len(wire.sections):
        row = wire.sections[number - 1].at(start)
        if row is not None:
            place, row_start, row_end = row.number, row.start, max(row.end, end)
    return Hit(number, start, end, texts[0], texts[1], texts[2], place, row_start, row_end)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\ufffd", "")


_NONE = "No place in the bytes holds"


def found_html(env: Environment, session_id: str, text: str, hits: Sequence[Hit]) -> str:
    most = f"The first {HITS} places" if len(hits) == HITS else plural(len(hits), "place")
    words = (
        f"{most} with “{clip(text, 40)}”"
        if hits
        else f"{_NONE} “{clip(text, 40)}”; what came in pieces stands whole in the flow alone."
    )
    return env.get_template("_wirefound.html").render(session_id=session_id, words=words, hits=hits)
