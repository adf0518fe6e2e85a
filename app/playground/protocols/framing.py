"""Splits the bytes of a response body into frames, each with its half-open span of bytes.

Handles Server-Sent Events (https://html.spec.whatwg.org/multipage/server-sent-events.html), JSON
Lines, whole JSON documents and arrays of them, detected by the bytes alone; independent of
providers. Anything else is a frame too, so that a wire view can show every byte. Also finds the
spans of texts in a frame (`star_deltas`, `star_tokens`).
"""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from playground.core.json_values import load_json

FrameKind = Literal[
    "sse",  # an event with data
    "fields",  # an event without data (`retry:`, `id:`, a lone `event:`)
    "comment",  # a line that starts with a colon: keep-alives
    "json",  # a JSON object without any `data:` around it
    "text",  # anything else: HTML, a stray line
    "too_large",  # the size limit was reached; no frame follows
]

MAX_EVENT = 8 * 1024 * 1024
MAX_TEXT = 64 * 1024

_BOM = b"\xef\xbb\xbf"
_LINE_ENDS = re.compile(rb"[\r\n]*")
_SPACE = re.compile(rb"[ \t\r\n]*")
_LINE_END = re.compile(rb"\r\n?|\n")
_BETWEEN = re.compile(rb"[ \t\r\n,\[\]]*")
_IN_STRING = re.compile(rb'["\\\n]')
_IN_VALUE = re.compile(rb'["{}\[\]\n]')
_OPENS_ARRAY = re.compile(rb"\[[ \t]*(?:\{|$)")
_FIELDS = (b"data", b"event", b"id", b"retry")

Span = tuple[int, int]

Delta = tuple[str, Sequence[Span]]
"""The text of a delta, and the half-open spans of its starred characters."""

TEXT_MEMBERS = frozenset(
    b"text content thinking refusal summary code delta input partial_json arguments args"
    b" reasoning reasoning_content reasoning_text stringValue".split()
)
"""The members whose strings, or strings in arrays, become text of a part in some protocol."""

# A quote in a comment or in an event's name must not match one in the next line. Possessive:
# backtracking positions would cost much memory if there are many escapes.
_TOKEN = re.compile(rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+(?:"|\\?(?=[\r\n]|\Z))|[{}\[\]]')
_CUT_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CHARACTER = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\."
    rb"|[\xc0-\xff][\x80-\xbf]+|.",
    re.DOTALL,
)

_MARK = re.compile(rb'"[^"\\\r\n]*+(?:\\[^\r\n][^"\\\r\n]*+)*+("?)|[{}\[\]]')
"""An unterminated string is matched once: not again from each quote inside."""

_BRACKET = re.compile(rb"[{}\[\]]")
_IS_NAME = re.compile(rb"\s*:")

_BESIDE = b"top_logprobs"
"""The alternatives in an entry."""

_APART = b"candidates"
"""The alternatives if they are separate from the entries (Gemini)."""


class Frame(NamedTuple):
    """A unit of a body: bytes `start`..`end` (half open, without the following line end).

    `data` is the text of the frame, or an event's joined data lines; `event` an event's name.
    `complete` is False if the body ended inside the frame; `sound` is False if it had invalid
    UTF-8, replaced by U+FFFD.
    """

    start: int
    end: int
    kind: FrameKind
    data: str = ""
    event: str = ""
    complete: bool = True
    sound: bool = True


class Framer:
    """Splits a body fed in pieces cut at any position; frames and spans do not depend on the cuts.

    `feed` costs O(len(data)): nothing is scanned twice. Positions below are offsets into `_buffer`,
    whose first byte is byte `_base` of the body.
    """

    def __init__(self, cap: int = MAX_EVENT) -> None:
        self._cap = cap
        self._buffer = bytearray()
        self._base = 0
        self._mode: Literal["start", "lines", "value", "text", "closed"] = "start"
        self._from = 0  # start of the unfinished line or value
        self._scan = 0  # scanned up to here
        self._frames: list[Frame] = []
        # State in lines.
        self._after_cr = False
        self._json_lines = False
        self._event = _Event()
        self._stray = _Run()
        # State in a JSON value.
        self._depth = 0
        self._in_string = False
        self._one_line = True
        self._first_value = False
        self._array: Literal["", "opened", "begun"] = ""  # "begun" from its first element on

    @property
    def unclosed(self) -> bool:
        """Whether an array began and did not end: more was to come."""
        return self._array == "begun"

    @property
    def settled(self) -> int:
        """The position before which all bytes are in complete frames. Of unframed text, only the
        start is kept and waited for."""
        if self._mode == "closed":
            return sys.maxsize
        starts = [self._event.start] if self._event.start >= 0 else []
        if self._stray.start >= 0 and len(self._stray.kept) < MAX_TEXT:
            starts.append(self._stray.start)
        return min(self._base + self._from, *starts, sys.maxsize)

    @property
    def stray(self) -> int:
        """The start of unframed text that is in no frame yet, however long it is."""
        return self._stray.start if self._stray.start >= 0 else sys.maxsize

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are completed by these bytes."""
        if self._mode == "closed":
            return []
        self._buffer += data
        self._read()
        return self._take_frames()

    def end(self) -> list[Frame]:
        """The unfinished rest, as frames that are not `complete`."""
        match self._mode:
            case "start" if self._buffer[self._from :].strip():
                self._stray.add(*self._line_at(self._from, len(self._buffer)))
            case "lines":
                self._end_lines()
            case "value" if self._depth:
                self._emit_json(self._from, len(self._buffer), complete=False)
            case _:
                pass
        if self._mode != "closed":
            self._flush_stray(complete=self._mode != "start")
        self._mode = "closed"
        return self._take_frames()

    def _take_frames(self) -> list[Frame]:
        frames, self._frames = self._frames, []
        return frames

    def _read(self) -> None:
        progress = True
        while progress:
            match self._mode:
                case "start":
                    progress = self._read_start()
                case "lines":
                    progress = self._read_lines()
                case "value":
                    progress = self._read_value()
                case "text":
                    self._stray.add(*self._line_at(self._from, len(self._buffer)))
                    self._from = self._scan = len(self._buffer)
                    progress = False
                case "closed":
                    self._buffer.clear()
                    return
        del self._buffer[: self._from]
        self._base += self._from
        self._scan -= self._from
        self._from = 0

    def _read_start(self) -> bool:
        """Skips a byte order mark and blank lines; the first byte then determines the kind."""
        if self._base == 0 and self._from == 0 and _BOM.startswith(self._buffer[:3]):
            if len(self._buffer) < len(_BOM):
                return False
            self._from = self._scan = len(_BOM)
        self._from = self._scan = _end(_SPACE, self._buffer, self._scan)
        match self._buffer[self._from : self._from + 1]:
            case b"":
                return False
            case b"{" | b"[":
                self._mode, self._first_value = "value", self._buffer[self._from] == ord("{")
            case b"<":
                self._mode = "text"
            case _:
                self._mode = "lines"
        return True

    # Lines: Server-Sent Events, JSON Lines, and anything else.

    def _read_lines(self) -> bool:
        buffer, search = self._buffer, _LINE_END.search
        if self._after_cr and len(buffer) > self._scan:
            if buffer[self._scan] == 0x0A:
                self._from = self._scan = self._scan + 1
            self._after_cr = False
        plain = self._event.start >= 0 or self._scan > self._from or self._read_plain()
        if self._scan == len(buffer):
            return False
        while match := search(buffer, self._scan):
            start, end = self._from, match.start()
            if self._over_cap(self._base + start, self._base + end) or not self._line(start, end):
                return True
            # Further blank lines mean nothing, and a hostile server sends millions.
            self._scan = match.end() if start < end else _end(_LINE_ENDS, buffer, match.end())
            self._from = self._scan
            # A carriage return ends the line at once; a line feed may still follow it.
            self._after_cr = self._scan == len(buffer) and buffer.endswith(b"\r")
            if plain and (start == end or self._json_lines) and self._event.start < 0:
                plain = self._read_plain()
        self._scan = len(buffer)
        return self._over_cap(self._base + self._from, self._base + self._scan)

    def _read_plain(self) -> bool:
        """Fast path for the format of nearly all servers: complete events with at most a name, one
        line of data, and a blank line; or complete lines of JSON.

        Other formats are read line by line, which yields the same frames. False if the rest of the
        buffer has no such event or line."""
        buffer, end_mark = self._buffer, b"\n" if self._json_lines else b"\n\n"
        while (end := buffer.find(end_mark, self._from)) >= 0:
            start, unit = self._from, buffer[self._from : end]
            if b"\r" in unit or end - start >= self._cap:
                return True
            kind: FrameKind = "json"
            name, data = "", unit
            if not self._json_lines:
                if unit.startswith(b"event: "):
                    line, _, unit = unit.partition(b"\n")
                    name = _text(line[7:])[0]
                if not unit.startswith(b"data: ") or b"\n" in unit:
                    return True
                kind, data = "sse", unit[6:]
            elif not unit.startswith(b"{"):
                return True
            if self._stray.start >= 0:
                self._flush_stray()
            text, sound = _text(data)
            at, after = self._base + start, self._base + end
            self._frames.append(
                Frame(at, end=after, kind=kind, data=text, event=name, complete=True, sound=sound)
            )
            self._from = self._scan = end + len(end_mark)
        return False

    def _over_cap(self, start: int, end: int) -> bool:
        """Stops for good if the event, or the line alone, exceeds the size limit."""
        if self._event.start >= 0:
            start = self._event.start
        if end - start <= self._cap:
            return False
        self._frames.append(Frame(start, start + self._cap, "too_large"))
        self._mode = "closed"
        return True

    def _line(self, start: int, end: int) -> bool:
        """Handles one line; False if it begins a JSON value, which is read from its start."""
        line = self._buffer[start:end]
        at, event = self._base + start, self._event
        if line.startswith(b"data:"):
            event.extend(at, at + len(line))
            event.data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif not line:
            self._dispatch()
        elif line.startswith(b":"):
            text, sound = _text(line)
            self._flush_stray()
            self._frames.append(Frame(at, at + len(line), "comment", text, sound=sound))
        elif line.startswith(b"{") and self._json_lines:
            self._emit_json(start, end)
        elif line.startswith(b"{") or _OPENS_ARRAY.match(line):
            self._dispatch()
            self._mode, self._scan = "value", start
            return False
        else:
            self._field(line, at)
        return True

    def _field(self, line: bytearray, at: int) -> None:
        name, _, value = bytes(line).partition(b":")
        if name not in _FIELDS:
            self._stray.add(line, at)
            return
        self._flush_stray()
        self._event.extend(at, at + len(line))
        if name == b"event":
            self._event.name = _text(value.removeprefix(b" "))[0]
        elif name == b"data":
            self._event.data.append(bytearray())

    def _dispatch(self, complete: bool = True) -> None:
        event = self._event
        if event.start < 0:
            return
        self._flush_stray()
        text, sound = _text(event.data[0] if len(event.data) == 1 else b"\n".join(event.data))
        kind: FrameKind = "sse" if event.data else "fields"
        self._frames.append(
            Frame(
                event.start,
                end=event.end,
                kind=kind,
                data=text,
                event=event.name,
                complete=complete,
                sound=sound,
            )
        )
        self._event = _Event()

    def _end_lines(self) -> None:
        start, end = self._from, len(self._buffer)
        line = bytes(self._buffer[start:end])
        if line and any(name.startswith(line) for name in _FIELDS):
            self._event.extend(self._base + start, self._base + end)
        elif line.startswith(b"{") and self._json_lines:
            # Some servers omit the last line end; if it is invalid JSON, the line was cut.
            self._emit_json(start, end, complete=_is_json(line))
        elif line and not self._line(start, end):
            self._read()
            if self._depth:
                self._emit_json(self._from, len(self._buffer), complete=False)
            elif self._mode == "lines":
                self._end_lines()
        self._dispatch(complete=False)

    def _flush_stray(self, complete: bool = True) -> None:
        run = self._stray
        if run.start >= 0:
            text, sound = _text(run.kept)
            frame = Frame(run.start, run.end, "text", text, complete=complete, sound=sound)
            self._frames.append(frame)
            self._stray = _Run()

    def _line_at(self, start: int, end: int) -> tuple[bytearray, int]:
        return self._buffer[start:end], self._base + start

    # JSON values: one document, several, or the elements of an array.

    def _read_value(self) -> bool:
        """Reads values until the bytes run out (False) or something else begins (True)."""
        while True:
            if not self._depth:
                self._skip_between()
                if self._from == len(self._buffer):
                    return False
                if self._buffer[self._from] != ord("{"):
                    self._mode = "lines"
                    self._array = "" if self._array == "opened" else self._array
                    return True
                self._one_line = True
            end = self._value_end()
            if self._scan - self._from > self._cap:
                self._frames.append(
                    Frame(self._base + self._from, self._base + self._from + self._cap, "too_large")
                )
                self._mode = "closed"
                return True
            if end < 0:
                return False
            self._emit_json(self._from, end)
            self._array = "begun" if self._array else ""
            self._depth, self._in_string = 0, False
            self._from = self._scan = end
            first, self._first_value = self._first_value, False
            if first and self._one_line:
                # A whole object on the first line: all lines are JSON from here on.
                self._mode, self._json_lines = "lines", True
                return True

    def _skip_between(self) -> None:
        """Advances to the next value, past array brackets and commas."""
        start, end = self._scan, _end(_BETWEEN, self._buffer, self._scan)
        opened, closed = (self._buffer.rfind(mark, start, end) for mark in (b"[", b"]"))
        if opened != closed:
            self._array = "opened" if opened > closed else ""
        self._from = self._scan = end

    def _value_end(self) -> int:
        """The end of the value that begins at `_from`, or -1 if the bytes end before."""
        buffer = self._buffer
        while hit := (_IN_STRING if self._in_string else _IN_VALUE).search(buffer, self._scan):
            self._scan = hit.end()
            match hit.group():
                case b'"':
                    self._in_string = not self._in_string
                case b"\\":
                    self._scan += 1
                case b"\n" if self._in_string:
                    return hit.start()  # no JSON: only this line is lost
                case b"\n":
                    self._one_line = False
                case b"{" | b"[":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if not self._depth:
                        return self._scan
        self._scan = max(self._scan, len(buffer))
        return -1

    def _emit_json(self, start: int, end: int, complete: bool = True) -> None:
        self._flush_stray()
        text, sound = _text(self._buffer[start:end])
        at, after = self._base + start, self._base + end
        self._frames.append(Frame(at, after, "json", text, complete=complete, sound=sound))


class _Event:
    """The event being read; `start` is -1 before its first line."""

    __slots__ = ("data", "end", "name", "start")

    def __init__(self) -> None:
        self.start = self.end = -1
        self.name = ""
        self.data: list[bytearray] = []

    def extend(self, start: int, end: int) -> None:
        if self.start < 0:
            self.start = start
        self.end = end


class _Run:
    """Consecutive stray bytes; only the first 64 kB are kept."""

    __slots__ = ("end", "kept", "start")

    def __init__(self) -> None:
        self.start = self.end = -1
        self.kept = bytearray()

    def add(self, data: bytearray, start: int) -> None:
        if self.start < 0:
            self.start = start
        elif self.end < start and len(self.kept) < MAX_TEXT:
            self.kept += b"\n"
        self.end = start + len(data)
        self.kept += data[: max(0, MAX_TEXT - len(self.kept))]


def _end(pattern: re.Pattern[bytes], buffer: bytearray, start: int) -> int:
    """The end of the match of `pattern` (which always matches) at `start`."""
    match = pattern.match(buffer, start)
    return match.end() if match else start


def _is_json(line: bytes) -> bool:
    try:
        load_json(line)
    except ValueError:
        return False
    return True


def _text(data: bytes | bytearray) -> tuple[str, bool]:
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False


# The byte spans of text in a frame, so that redaction can star exactly these: the characters of its
# deltas, and the tokens of its `logprobs` with their alternatives and the numeric `bytes` that
# spell them. Uses the members in which protocols send text and tokens, and JSON escapes; knows no
# secrets.


@dataclass
class StringSpan:
    """A JSON string of the frame: bytes `start` to `end` between its quotes."""

    name: bytes
    start: int
    end: int
    text: str


def star_deltas(
    frame: bytes, deltas: Sequence[Delta], members: Collection[bytes] = TEXT_MEMBERS
) -> list[Span]:
    """The bytes of `frame` to star for the spans of `deltas`, which are all texts in its `members`,
    in order. A text that occurs twice in the frame (reasoning, and its details) is starred in both
    places."""
    literals = list(text_literals(frame, members))
    unused: dict[str, deque[StringSpan]] = {}
    for literal in literals:
        unused.setdefault(literal.text, deque()).append(literal)
    strings = deque(literal for literal in literals if literal.name == b"stringValue")
    result: list[Span] = []
    for text, spans in deltas:
        if same := unused.get(text):
            result += bytes_of(frame, same.popleft(), spans)
        elif spans:
            result += _inner_stars(frame, strings, text, spans)
    for text, spans in deltas:
        if spans:
            for literal in unused.pop(text, ()):
                result += bytes_of(frame, literal, spans)
    return sorted(result)


def _inner_stars(
    frame: bytes, strings: deque[StringSpan], text: str, spans: Sequence[Span]
) -> Iterator[Span]:
    """The same if the delta is no string of the frame: JSON assembled around one of its `strings`
    (Gemini's `partialArgs`), or the frame's own text of an object."""
    while strings:
        literal = strings.popleft()
        escaped = [json.dumps(char, ensure_ascii=False)[1:-1] for char in literal.text]
        place = text.find("".join(escaped))
        if not escaped or place < 0:
            continue
        inner: list[Span] = []
        for nth, char in enumerate(escaped):
            if any(start < place + len(char) and place < end for start, end in spans):
                inner.append((nth, nth + 1))
            place += len(char)
        yield from bytes_of(frame, literal, inner)
        return
    at = frame.find(text.encode("utf-8", "surrogatepass"))
    if at >= 0:
        for start, end in spans:
            before, upto = (_size(text[:place]) for place in (start, end))
            yield at + before, at + upto


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def text_literals(
    frame: bytes, members: Collection[bytes] = TEXT_MEMBERS, *, broken: bool = False
) -> Iterator[StringSpan]:
    """The strings of `members`, by default those that become text of a part; the last one may lack
    its end. In a `broken` frame also the last string, whatever its member."""
    above: list[tuple[bytes, bool]] = []
    name, in_list = b"", False
    for token in _TOKEN.finditer(frame):
        mark = token[0]
        if mark in (b"{", b"["):
            above.append((name, in_list))
            in_list = mark == b"["
            continue
        if mark in (b"}", b"]"):
            name, in_list = above.pop() if above else (b"", False)
        elif _IS_NAME.match(frame, token.end()):
            name = text_of(mark).encode("utf-8", "replace") if b"\\" in mark else mark[1:-1]
            continue
        elif len(mark) > 1 and mark.endswith(b'"'):
            if name in members:
                yield StringSpan(name, token.start() + 1, token.end() - 1, text_of(mark))
        elif name in members or broken:
            literal = _CUT_ESCAPE.sub(b"", mark)
            yield StringSpan(
                name, token.start() + 1, token.start() + len(literal), text_of(literal + b'"')
            )
        if not in_list:
            name = b""  # What follows is a name, even if the frame ends before its colon.


def text_of(string: bytes) -> str:
    """The text of the JSON `string`, "" if it is invalid."""
    try:
        text: str = json.loads(string.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return ""
    return text


def bytes_of(frame: bytes, literal: StringSpan, spans: Sequence[Span]) -> Iterator[Span]:
    """The spans of `frame` with the characters `spans` of `literal`."""
    if not spans:
        return
    places = {place for start, end in spans for place in (start, end - 1)}
    span_at: dict[int, Span] = {}
    count = 0
    for place, character in enumerate(_CHARACTER.finditer(frame, literal.start, literal.end)):
        count = place + 1
        if place in places:
            span_at[place] = character.span()
    if count != len(literal.text):  # invalid UTF-8: rather star too much
        yield literal.start, literal.end
        return
    for start, end in spans:
        yield span_at[start][0], span_at[end - 1][1]


def _name_pattern(name: str) -> bytes:
    """A pattern of the member `name` and its colon; the letters may be escaped."""
    letters = (rf"(?:{letter}|\\u(?i:{ord(letter):04x}))" for letter in name)
    return rf'"{"".join(letters)}"\s*:'.encode()


_NAME = re.compile(_name_pattern("token"))
_NUMBERS = re.compile(_name_pattern("bytes") + rb"\s*\[([^\[\]{}]*)")


@dataclass
class TokenSpan:
    """An entry: its text in the frame, the digits of its `bytes`, and its alternatives."""

    literal: StringSpan
    numbers: Span | None = None
    beside: list[TokenSpan] = field(default_factory=list)


@dataclass
class Stars:
    """Spans of a frame to star. `quoted` are positions of brackets to replace by quotes, because a
    list of stars would be invalid JSON."""

    spans: list[Span] = field(default_factory=list)
    quoted: list[int] = field(default_factory=list)

    def add(self, others: Stars, at: int = 0) -> None:
        """Adds those of a frame that begins at `at`."""
        self.spans += [(at + start, at + end) for start, end in others.spans]
        self.quoted += [at + place for place in others.quoted]


@dataclass
class _OpenList:
    is_list: bool
    name: bytes
    start: int = 0
    token: StringSpan | None = None
    numbers: Span | None = None
    tokens: list[TokenSpan] = field(default_factory=list)
    beside: list[TokenSpan] = field(default_factory=list)


@dataclass
class TokenLists:
    """The lists of entries of a frame, in order, and the alternatives `apart` from them."""

    lists: list[list[TokenSpan]] = field(default_factory=list)
    apart: list[TokenSpan] = field(default_factory=list)


def has_tokens(frame: bytes) -> bool:
    """Whether the frame may have entries; most answers have none."""
    return _NAME.search(frame) is not None


def token_spans(frame: bytes) -> Iterator[Span]:
    """The bytes of all tokens of `frame` and of the numbers that spell them, also of entries that
    the end of the frame cuts off."""
    for literal in text_literals(frame, {b"token"}):
        yield literal.start, literal.end
    yield from (numbers.span(1) for numbers in _NUMBERS.finditer(frame))


def _marks(frame: bytes) -> Iterator[re.Match[bytes]]:
    """Strings and brackets; also those in an unterminated string, which may not be one."""
    for mark in _MARK.finditer(frame):
        if mark[1] == b"":
            yield from _BRACKET.finditer(frame, mark.start(), mark.end())
        else:
            yield mark


def token_lists(frame: bytes) -> TokenLists:
    """The lists of entries; unclosed ones count, too."""
    result = TokenLists()
    stack, name = [_OpenList(False, b"")], b""
    for mark in _marks(frame):
        sign, top = mark[0], stack[-1]
        if sign in (b"{", b"["):
            stack.append(_OpenList(sign == b"[", top.name if top.is_list else name, mark.start()))
        elif sign in (b"}", b"]"):
            if len(stack) > 1:
                _close(stack.pop(), stack[-1], mark.start(), result)
        elif top.is_list:
            continue
        elif _IS_NAME.match(frame, mark.end()):
            name = text_of(sign).encode("utf-8", "replace") if b"\\" in sign else sign[1:-1]
        elif name == b"token":
            top.token = StringSpan(name, mark.start() + 1, mark.end() - 1, text_of(sign))
            name = b""  # What follows is a name, even if the frame ends before its colon.
    while len(stack) > 1:
        _close(stack.pop(), stack[-1], len(frame), result)
    return result


def _close(closed: _OpenList, above: _OpenList, end: int, result: TokenLists) -> None:
    if not closed.is_list:
        if closed.token is not None:
            above.tokens.append(TokenSpan(closed.token, closed.numbers, closed.beside))
    elif closed.name == b"bytes":
        above.numbers = (closed.start + 1, end)
    elif closed.name == _BESIDE:
        above.beside = closed.tokens
    elif closed.name == _APART:
        result.apart += closed.tokens
    elif closed.tokens:
        result.lists.append(closed.tokens)


def star_tokens(frame: bytes, deltas: Sequence[Delta]) -> Stars:
    """The stars in `frame` for the spans of `deltas`, which are the texts of all entries, in
    order."""
    result = token_lists(frame)
    unused: dict[str, deque[TokenSpan]] = {}
    for token in (token for tokens in result.lists for token in tokens):
        unused.setdefault(token.literal.text, deque()).append(token)
    pairs = []
    for text, spans in deltas:
        if same := unused.get(text):
            pairs.append((same.popleft(), spans))
    return starred_tokens(frame, pairs, result.apart)


def starred_tokens(
    frame: bytes,
    tokens: Iterable[tuple[TokenSpan, Sequence[Span]]],
    apart: Sequence[TokenSpan] = (),
) -> Stars:
    """The stars in `frame` for these characters of each token."""
    stars = Stars()
    for token, spans in tokens:
        if spans:
            for occurrence in (
                token,
                *_matching_tokens(token, token.beside),
                *_matching_tokens(token, apart),
            ):
                stars.spans += bytes_of(frame, occurrence.literal, spans)
                if occurrence.numbers is not None and occurrence.numbers[0] < occurrence.numbers[1]:
                    stars.spans.append(occurrence.numbers)
                    stars.quoted += [occurrence.numbers[0] - 1, occurrence.numbers[1]]
    return stars


def _matching_tokens(token: TokenSpan, others: Iterable[TokenSpan]) -> Iterator[TokenSpan]:
    return (candidate for candidate in others if candidate.literal.text == token.literal.text)


def texts_of(entries: Any) -> list[str]:
    """The texts of the entries that have one."""
    if not isinstance(entries, list):
        return []
    texts = (entry.get("token") for entry in entries if isinstance(entry, dict))
    return [text for text in texts if text and isinstance(text, str)]


def with_texts(entries: Sequence[Any], texts: Iterable[str]) -> list[Any]:
    """The entries with these texts, which differ from their own only by stars."""
    left, result = iter(texts), []
    for entry in entries:
        text = entry.get("token") if isinstance(entry, dict) else None
        if text and isinstance(text, str) and (new := next(left, text)) != text:
            entry = _with_text(entry, text, new)
            beside = entry.get("top_logprobs")
            if isinstance(beside, list):
                entry["top_logprobs"] = [
                    _with_text(item, text, new)
                    if isinstance(item, dict) and item.get("token") == text
                    else item
                    for item in beside
                ]
        result.append(entry)
    return result


def _with_text(entry: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    result = {**entry, "token": new}
    if isinstance(entry.get("bytes"), list) and entry["bytes"]:
        result["bytes"] = "*" * len(old)
    return result
