"""Splits the bytes of a response body into frames, each with its half-open span of bytes.

Knows Server-Sent Events (https://html.spec.whatwg.org/multipage/server-sent-events.html), JSON
Lines, whole JSON documents and arrays of them, told apart by the bytes alone; knows no provider.
What is none of these is a frame too, so that a wire view can show every byte that came.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Literal, NamedTuple

FrameKind = Literal[
    "sse",  # an event with data
    "fields",  # an event without data (`retry:`, `id:`, a lone `event:`)
    "comment",  # a line that starts with a colon: keep-alives
    "json",  # a JSON object without any `data:` around it
    "text",  # anything else: HTML, a stray line
    "too_large",  # the cap was reached; no frame follows
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


class Frame(NamedTuple):
    """One unit of a body: bytes `start`..`end` (half open, without the line end after it).

    `data` is the text of the frame, of an event its joined data lines; `event` an event's name.
    `complete` is False where the body ended inside the frame; `sound` where the bytes were no
    UTF-8 and U+FFFD stands for some of them.
    """

    start: int
    end: int
    kind: FrameKind
    data: str = ""
    event: str = ""
    complete: bool = True
    sound: bool = True


class Framer:
    """Feed it a body cut anywhere; the frames and their spans do not depend on the cuts.

    Costs O(len(data)) a feed: what was looked at once is not looked at again. Positions below are
    offsets into `_buffer`, whose first byte is byte `_base` of the body.
    """

    def __init__(self, cap: int = MAX_EVENT) -> None:
        self._cap = cap
        self._buffer = bytearray()
        self._base = 0
        self._mode: Literal["start", "lines", "value", "text", "closed"] = "start"
        self._from = 0  # where the unfinished line or value begins
        self._scan = 0  # up to where it was looked at
        self._frames: list[Frame] = []
        # lines
        self._after_cr = False
        self._json_lines = False
        self._event = _Event()
        self._stray = _Run()
        # a JSON value
        self._depth = 0
        self._in_string = False
        self._one_line = True
        self._first_value = False
        self._array: Literal["", "opened", "begun"] = ""  # "begun" from its first element on

    @property
    def unclosed(self) -> bool:
        """Whether an array was begun of which no end came: there was more to come."""
        return self._array == "begun"

    @property
    def settled(self) -> int:
        """Up to which byte of the body everything stands in a frame that is complete. What is no
        frame of any protocol is not waited for beyond the start that is kept of it."""
        if self._mode == "closed":
            return sys.maxsize
        starts = [self._event.start] if self._event.start >= 0 else []
        if self._stray.start >= 0 and len(self._stray.kept) < MAX_TEXT:
            starts.append(self._stray.start)
        return min(self._base + self._from, *starts, sys.maxsize)

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete with these bytes."""
        if self._mode == "closed":
            return []
        self._buffer += data
        self._read()
        return self._take_frames()

    def end(self) -> list[Frame]:
        """What was left unfinished, as frames that are not `complete`."""
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
        """Skip a byte order mark and blank lines, then let the first byte tell the kind."""
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

    # Lines: Server-Sent Events, JSON Lines, and what is neither.

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
            # Behind a blank line more of them say nothing, and a hostile server sends millions.
            self._scan = match.end() if start < end else _end(_LINE_ENDS, buffer, match.end())
            self._from = self._scan
            # A carriage return ends the line at once; a line feed may still follow it.
            self._after_cr = self._scan == len(buffer) and buffer.endswith(b"\r")
            if plain and (start == end or self._json_lines) and self._event.start < 0:
                plain = self._read_plain()
        self._scan = len(buffer)
        return self._over_cap(self._base + self._from, self._base + self._scan)

    def _read_plain(self) -> bool:
        """Take what stands whole at the place reached and is written as nearly all servers write:
        an event of at most a name, then one line of data, and a blank line; or a line of JSON.

        What is written in another way is left to be read line by line, which gives the same
        frames of these, too. False where no such end stands in the rest of the buffer."""
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
            self._frames.append(Frame(at, after, kind, text, name, True, sound))
            self._from = self._scan = end + len(end_mark)
        return False

    def _over_cap(self, start: int, end: int) -> bool:
        """Close for good where the event, or the line alone, has grown beyond the cap."""
        if self._event.start >= 0:
            start = self._event.start
        if end - start <= self._cap:
            return False
        self._frames.append(Frame(start, start + self._cap, "too_large"))
        self._mode = "closed"
        return True

    def _line(self, start: int, end: int) -> bool:
        """Take one line; False where it opens a JSON value, which is read from its start."""
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
        self._frames.append(Frame(event.start, event.end, kind, text, event.name, complete, sound))
        self._event = _Event()

    def _end_lines(self) -> None:
        start, end = self._from, len(self._buffer)
        line = bytes(self._buffer[start:end])
        if line and any(name.startswith(line) for name in _FIELDS):
            self._event.extend(self._base + start, self._base + end)
        elif line.startswith(b"{") and self._json_lines:
            # Not every server ends its last line; what is no JSON is a line that was cut.
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
        """Read values until the bytes run out (False) or something else begins (True)."""
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
                # A whole object on the first line: from here on every line is one.
                self._mode, self._json_lines = "lines", True
                return True

    def _skip_between(self) -> None:
        """Go on to the next value, past what opens, parts and closes arrays."""
        start, end = self._scan, _end(_BETWEEN, self._buffer, self._scan)
        opened, closed = (self._buffer.rfind(mark, start, end) for mark in (b"[", b"]"))
        if opened != closed:
            self._array = "opened" if opened > closed else ""
        self._from = self._scan = end

    def _value_end(self) -> int:
        """Where the value that begins at `_from` ends, or -1; leaves off where the bytes end."""
        buffer = self._buffer
        while hit := (_IN_STRING if self._in_string else _IN_VALUE).search(buffer, self._scan):
            self._scan = hit.end()
            match hit.group():
                case b'"':
                    self._in_string = not self._in_string
                case b"\\":
                    self._scan += 1
                case b"\n" if self._in_string:
                    return hit.start()  # No JSON: only this line is lost.
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
    """The event whose lines are being read; `start` is -1 before its first."""

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
    """Stray bytes in a row; only the first 64 kB are kept, however many come."""

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
    """Where the run of `pattern` (which always matches) that begins at `start` ends."""
    match = pattern.match(buffer, start)
    return match.end() if match else start


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _text(data: bytes | bytearray) -> tuple[str, bool]:
    try:
        return data.decode("utf-8"), True
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), False
