"""Requests and recorded bytes on the page: the next request, a request as code, received bytes.

A layout preserves the digits and the order of what will be sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from jinja2 import Environment

from playground.core.events import RequestSent
from playground.core.json_values import ExactNumber, load_spelled
from playground.protocols.facts import FACTS
from playground.protocols.framing import Frame, Framer
from playground.render.arguments import LAYOUT_LIMIT, LayoutToken
from playground.render.filters import clip, plural
from playground.render.filters import number as grouped_number
from playground.render.wire_rows import WireRows

LONG_TEXT = 4000
LONG_DATA = 200
"""The layout shortens longer texts; data without spaces is shortened further."""
EXACT_LIMIT = 64 * 1024
"""Characters of a body that are shown exactly at first."""
COPIED_LIMIT = 200_000
"""A longer body is fetched when it is copied, instead of being stored in the page."""

NAMES = {name: facts.title for name, facts in FACTS.items()}
"""The full name of each protocol for the user."""
SHORT_NAMES = {name: facts.short or facts.title for name, facts in FACTS.items()}
"""A short name, for narrow places."""

_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_DATA = re.compile(r"[A-Za-z0-9+/=_-]+")
_ESCAPE_AT_END = re.compile(r"(\\+)(?:u[0-9A-Fa-f]{0,3})?\Z")
_KEPT = 80
_WIDTH = 48

PAGE = 4096
"""Bytes shown per page."""

FRAMES = 200
HITS = 50
LINE = 8
AROUND = 40

ByteMark = Literal["", "masked", "hit"]
Span = tuple[int, int]

_NONE = "Not found in the bytes:"


@dataclass(frozen=True)
class NextRequest:
    """`wire` is the selected protocol, "" for the session's own. See engine/preview."""

    profile: str
    sent: RequestSent
    notes: Sequence[str] = ()
    says: Sequence[str] = ()
    failed: str = ""
    wire: str = ""

    @property
    def name(self) -> str:
        return NAMES.get(self.sent.protocol, self.sent.protocol)

    @property
    def size(self) -> int:
        return len(self.sent.body.encode("utf-8", "replace"))

    @property
    def tokens(self) -> tuple[LayoutToken, ...]:
        """The body laid out; one that is too long or too deep is unformatted and cut."""
        text = shorten_strings(self.sent.body)
        try:
            value = load_spelled(text)
            if len(text) <= LAYOUT_LIMIT:
                return tuple(_layout(value, 0))
        except ValueError:
            pass
        return (LayoutToken("raw", clip(text, LAYOUT_LIMIT)),)

    @property
    def exact(self) -> str:
        return self.sent.body[:EXACT_LIMIT]

    @property
    def more(self) -> int:
        """The number of characters that `exact` leaves out."""
        return max(len(self.sent.body) - EXACT_LIMIT, 0)

    @property
    def copied(self) -> str | None:
        """The text to copy, or None if it has to be fetched first."""
        return self.sent.body if len(self.sent.body) <= COPIED_LIMIT else None


def _layout(value: Any, depth: int) -> Iterator[LayoutToken]:
    """The tokens of a JSON value; each multi-line container is indented by two columns more."""
    match value:
        case dict() if value:
            pairs = [
                [
                    LayoutToken("key", _text(name)),
                    LayoutToken("mark", ": "),
                    *_layout(item, depth + 1),
                ]
                for name, item in value.items()
            ]
            yield from _container("{", pairs, "}", depth)
        case list() if value:
            yield from _container("[", [list(_layout(v, depth + 1)) for v in value], "]", depth)
        case ExactNumber():
            yield LayoutToken("number", value)
        case str():
            yield LayoutToken("string", _text(value))
        case dict() | list():
            yield LayoutToken("mark", "{}" if isinstance(value, dict) else "[]")
        case _:
            yield LayoutToken("word", json.dumps(value))


def _container(
    start: str, items: Iterable[list[LayoutToken]], end: str, depth: int
) -> Iterator[LayoutToken]:
    """On one line if short, else one line per item."""
    items = list(items)
    length = sum(len(token.text) + 2 for item in items for token in item)
    flat = length + 2 * depth <= _WIDTH and not any("\n" in t.text for i in items for t in i)
    inner, outer = ("", "") if flat else ("\n" + "  " * (depth + 1), "\n" + "  " * depth)
    yield LayoutToken("mark", start + inner)
    for place, item in enumerate(items):
        if place:
            yield LayoutToken("mark", ", " if flat else "," + inner)
        yield from item
    yield LayoutToken("mark", outer + end)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def shorten_strings(text: str) -> str:
    """JSON text with its long strings cut, each stating its length; it stays valid JSON."""
    return _STRING.sub(lambda match: _shorten_string(match[0]), text)


def _shorten_string(quoted: str) -> str:
    is_data = _DATA.fullmatch(quoted, 1, len(quoted) - 1) is not None
    if len(quoted) - 2 <= (LONG_DATA if is_data else LONG_TEXT):
        return quoted
    start = quoted[1 : 1 + (_KEPT if is_data else LONG_TEXT // 2)]
    cut = _ESCAPE_AT_END.search(start)
    if cut is not None and len(cut[1]) % 2:  # an odd backslash begins an escape that was cut
        start = start[: cut.end(1) - 1]
    return f'"{start}… {grouped_number(len(quoted) - 2 - len(start))} more characters"'


def request_fragment(env: Environment, request: NextRequest) -> str:
    """The panel's content, its id `request`."""
    return env.get_template("_request_next.html").render(request=request)


def setup_notes(env: Environment, session_id: str, request: NextRequest) -> str:
    """What the profile cannot express, as the line below it in Setup; its id `setup-notes`."""
    return env.get_template("_setup_notes.html").render(request=request, session_id=session_id)


# A request as code: curl, and Python for the official package of its protocol.


@dataclass(frozen=True)
class CodeOption:
    """`text` in one language; `more` is the number of characters not shown."""

    name: str
    label: str
    text: str

    @property
    def shown(self) -> str:
        return self.text[:EXACT_LIMIT]

    @property
    def more(self) -> int:
        return max(len(self.text) - EXACT_LIMIT, 0)

    @property
    def copied(self) -> str | None:
        """The text its button copies, None if it is too long to be in the page twice."""
        return self.text if len(self.text) <= COPIED_LIMIT else None


@dataclass(frozen=True)
class ShownCode:
    """`turn` is the selection: "" for the newest request, "next", or a turn's number; `number` is
    the shown turn, 0 for the next request. `turns` are the available numbers, the newest first;
    `wire` the selected protocol, "" for its own. `failed` is a sentence if there is nothing to
    show, and `ahead`: we make the next request."""

    session_id: str
    turn: str = ""
    number: int = 0
    turns: Sequence[int] = ()
    wire: str = ""
    wires: Sequence[str] = ()
    protocol: str = ""
    form: str = "curl"
    forms: Sequence[CodeOption] = ()
    notes: Sequence[str] = ()
    failed: str = ""
    ahead: bool = True

    @property
    def choices(self) -> list[tuple[str, str]]:
        """(value, words) of the choices."""
        newest = [("", "Newest request")] if self.turns else []
        following = [("next" if self.turns else "", "Next request")]
        return [
            *newest,
            *(following if self.ahead or not self.turns else ()),
            *((str(number), f"Request {number}") for number in self.turns),
        ]

    @property
    def protocols(self) -> list[tuple[str, str]]:
        return [(name, NAMES.get(name, name)) for name in self.wires]


def code_fragment(env: Environment, shown: ShownCode) -> str:
    """The panel's content, its id `code`."""
    return env.get_template("_code.html").render(code=shown)


# The bytes of a recording: a page as text or hex, single frames, and text matches.


@dataclass(frozen=True)
class MarkedText:
    """A run of bytes as text; `size` is its length in bytes."""

    text: str
    kind: ByteMark
    size: int


@dataclass(frozen=True)
class HexLine:
    offset: int
    hex: Sequence[MarkedText]
    text: str


@dataclass(frozen=True)
class RawPage:
    """Bytes `at`..`to` of those from `start` to `end`. `masked` counts the stars among them that
    replace a secret; `hit` is the search text; `copied` is the text for the clipboard."""

    number: int
    start: int
    end: int
    at: int
    to: int
    hex: bool
    masked: int
    hit: Span
    pieces: Sequence[MarkedText]
    lines: Sequence[HexLine]
    copied: str
    frames: bool = True

    @property
    def before(self) -> int:
        return max(self.start, self.at - PAGE)


@dataclass(frozen=True)
class FrameRow:
    """A frame of a recording; `at_ms` counts from the request."""

    start: int
    end: int
    at_ms: int
    data: str

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class ByteMatch:
    """A match: bytes `start`..`end` of `recording`, in row `row` of its section."""

    recording: int
    start: int
    end: int
    before: str
    text: str
    after: str
    row: int
    row_start: int
    row_end: int


def raw_page(
    number: int,
    data: bytes,
    span: Span,
    masked: Sequence[Span],
    *,
    at: int = -1,
    as_hex: bool = False,
    hit: Span = (0, 0),
) -> RawPage:
    """The page of bytes that begins at `at` (below `span`: at its start, or at the hit)."""
    start, end = span
    if at < start and hit[1] > start:
        at = max(start, hit[0] - PAGE // 4)
    at = _character_start(data, min(max(at, start), end))
    to = _character_start(data, min(at + PAGE, end)) if at + PAGE < end else end
    marks: list[tuple[int, int, ByteMark]] = [(*span, "masked") for span in masked]
    marks += [(*hit, "hit")] if hit[1] > hit[0] else []
    inside = sum(max(0, min(b, to) - max(a, at)) for a, b in masked)
    pieces = () if as_hex else list(_pieces(data, at, to, marks))
    lines = [_line(data, n, min(n + LINE, to), marks) for n in range(at, to, LINE)]
    shown = data[at:to]
    copied = shown.hex(" ") if as_hex else shown.decode("utf-8", "backslashreplace")
    return RawPage(
        number,
        start=start,
        end=end,
        at=at,
        to=to,
        hex=as_hex,
        masked=inside,
        hit=hit,
        pieces=pieces,
        lines=lines if as_hex else (),
        copied=copied,
    )


def _character_start(data: bytes, place: int) -> int:
    """`place`, or the next position that is not inside a character."""
    for ahead in range(4):
        if place + ahead >= len(data) or data[place + ahead] & 0xC0 != 0x80:
            return min(place + ahead, len(data))
    return place


def _cuts(
    at: int, to: int, marks: Sequence[tuple[int, int, ByteMark]]
) -> Iterator[tuple[Span, ByteMark]]:
    """`at`..`to` in runs of one kind; hits take precedence over masked bytes."""
    edges = {at, to, *(min(max(edge, at), to) for a, b, _ in marks for edge in (a, b))}
    ordered = sorted(edges)
    for first, last in pairwise(ordered):
        kinds: list[ByteMark] = [kind for a, b, kind in marks if a <= first and last <= b]
        yield (first, last), kinds[-1] if kinds else ""


def _pieces(
    data: bytes, at: int, to: int, marks: Sequence[tuple[int, int, ByteMark]]
) -> Iterator[MarkedText]:
    for (first, last), kind in _cuts(at, to, marks):
        text = data[first:last].decode("utf-8", "backslashreplace")
        yield MarkedText(text, kind, last - first)


def _line(
    data: bytes, first: int, last: int, marks: Sequence[tuple[int, int, ByteMark]]
) -> HexLine:
    cuts = _cuts(first, last, marks)
    pieces = [MarkedText(data[a:b].hex(" ") + " ", kind, b - a) for (a, b), kind in cuts]
    text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in data[first:last])
    return HexLine(first, pieces, text)


def raw_html(env: Environment, session_id: str, raw: RawPage) -> str:
    return env.get_template("_raw.html").render(session_id=session_id, raw=raw)


def frame_rows(pieces: Sequence[tuple[int, bytes]], span: Span, sent_ms: int) -> list[FrameRow]:
    """The frames within `span` of a recording, given as (Unix ms, bytes)."""
    framer, singles = Framer(), list[FrameRow]()

    def take(frames: Sequence[Frame], at_ms: int) -> None:
        singles.extend(
            FrameRow(
                frame.start, frame.end, at_ms - sent_ms, clip(" ".join(frame.data.split()), 160)
            )
            for frame in frames
            if span[0] <= frame.start and frame.end <= span[1]
        )

    for at_ms, data in pieces:
        take(framer.feed(data), at_ms)
    take(framer.end(), pieces[-1][0] if pieces else sent_ms)
    return singles


def frames_html(
    env: Environment,
    session_id: str,
    number: int,
    span: Span,
    frames: Sequence[FrameRow],
    first: int,
) -> str:
    """At most FRAMES of them from number `first` (from 0) on."""
    after = first + FRAMES
    return env.get_template("_frames.html").render(
        session_id=session_id,
        number=number,
        start=span[0],
        end=span[1],
        total=len(frames),
        frames=frames[first:after],
        first=first,
        before=max(0, first - FRAMES),
        after=after if after < len(frames) else 0,
    )


def find_matches(text: str, bodies: Sequence[tuple[int, bytes]], wire: WireRows) -> list[ByteMatch]:
    """The occurrences of `text` in the bodies of recordings, as plain text or JSON-escaped; the
    first HITS. ASCII letters match in either case."""
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    wanted = [form.encode("utf-8", "replace").lower() for form in sorted(forms)]
    hits: list[ByteMatch] = []
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


def _hit(number: int, data: bytes, start: int, end: int, wire: WireRows) -> ByteMatch:
    before, after = data[max(0, start - AROUND) : start], data[end : end + AROUND]
    texts = [" ".join(_decode(piece).split()) for piece in (before, data[start:end], after)]
    place, row_start, row_end = 0, max(0, start - PAGE // 4), min(len(data), end + PAGE // 4)
    if number <= len(wire.sections):
        row = wire.sections[number - 1].row_at(start)
        if row is not None:
            place, row_start, row_end = row.number, row.start, max(row.end, end)
    return ByteMatch(
        number,
        start=start,
        end=end,
        before=texts[0],
        text=texts[1],
        after=texts[2],
        row=place,
        row_start=row_start,
        row_end=row_end,
    )


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\ufffd", "")


def matches_html(env: Environment, session_id: str, text: str, hits: Sequence[ByteMatch]) -> str:
    most = f"The first {HITS} places" if len(hits) == HITS else plural(len(hits), "place")
    words = (
        f"{most} with “{clip(text, 40)}”"
        if hits
        else f"{_NONE} “{clip(text, 40)}”. Text split over several events is not found."
    )
    return env.get_template("_wirefound.html").render(session_id=session_id, words=words, hits=hits)
