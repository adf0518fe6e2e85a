"""An answer of a provider as frames that a protocol's editor marks, and what an editor is.

Unmarked frames keep their exact bytes. An editor is EDITOR in its protocol's folder (`edits`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from playground.protocols.base import UNDECIDED, UNREAD, CallPlace
from playground.protocols.decoder import DONE
from playground.protocols.framing import Frame, Framer, texts_of
from playground.protocols.raw_json import Path, change_json, dump_ascii, one_line, parse_json


@dataclass(frozen=True)
class CallRemoval:
    """Removes the call; `reason` replaces it as text."""

    reason: str


@dataclass(frozen=True)
class NewArguments:
    """Replaces the call's arguments by JSON text, or a free-form input by plain text."""

    text: str


Edit = CallRemoval | NewArguments


class EditableFrame:
    """One frame: `value` is its JSON object ({} if it has none), `places` the pieces of calls in
    it. A `fixed` frame was passed on already and cannot change; a `fresh` one was inserted here."""

    def __init__(self, frame: Frame | None, raw: bytes, gap: bytes, value: Any = None) -> None:
        self.kind = frame.kind if frame else "sse"
        self.data = frame.data if frame else ""
        self.event = frame.event if frame else ""
        self.raw, self.gap = raw, gap
        self.fresh = frame is None
        self.readable = self.is_done or value is not None
        self.value: Mapping[str, Any] = value if isinstance(value, dict) else {}
        self.places: list[CallPlace] = []
        self.dropped = self.fixed = False
        self._changes: dict[Path, str | None] = {}

    @property
    def type(self) -> str:
        type_ = self.value.get("type") or self.event
        return type_ if isinstance(type_, str) else ""

    @property
    def is_done(self) -> bool:
        """Whether it is the closing marker that is not JSON."""
        return self.data.strip() == DONE

    def value_at(self, *path: str | int) -> Any:
        """The received value at `path`, None if there is none."""
        value: Any = self.value
        for key in path:
            if isinstance(value, dict) and isinstance(key, str):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                return None
        return value

    def drop(self) -> None:
        self.dropped = not self.fixed

    def put(self, text: str, *path: str | int) -> None:
        """Sets the JSON `text` at `path`. ValueError if it is invalid."""
        parse_json(text)
        self._changes[path] = one_line(text)

    def set(self, value: Any, *path: str | int) -> None:
        """Sets a value at `path`; if it is there already, its bytes stay."""
        if self.value_at(*path) != value or value is None:
            self._changes[path] = dump_ascii(value)

    def take(self, *path: str | int) -> None:
        """Removes the value at `path`, including all changes below it."""
        self._changes[path] = None

    def bytes(self) -> bytes:
        if self.fixed or not self._changes:
            return self.raw
        new = change_json(self.data, self._changes)
        text = new.encode("utf-8", "backslashreplace")  # escape a lone surrogate, as in JSON
        return text if self.kind == "json" else _with_data(self.raw, text)


def _with_data(event: bytes, text: bytes) -> bytes:
    """The event with its data replaced by `text`."""
    lines: list[bytes] = []
    has_data = False
    for line in event.splitlines(keepends=True):
        if line.startswith(b"data"):
            if has_data:
                continue
            has_data = True
            end = line[len(line.rstrip(b"\r\n")) :]
            line = b"\n".join(b"data: " + piece for piece in text.splitlines()) + end
        lines.append(line)
    return b"".join(lines).rstrip(b"\r\n")


class EditableAnswer:
    """A complete answer. `taken` are the reasons by index of a removed call, `arguments` the new
    ones; `number` numbers the remaining calls; `has_text`: it has any text. The first `passed`
    bytes were passed on already. ValueError if its frames overlap."""

    def __init__(
        self,
        data: bytes,
        edits: Mapping[int, Edit],
        calls: Sequence[int],
        places: Iterable[CallPlace],
        *,
        has_text: bool,
        passed: int,
    ) -> None:
        self.has_text = has_text
        self.taken = {n: edit.reason for n, edit in edits.items() if isinstance(edit, CallRemoval)}
        self.arguments = {
            n: edit.text for n, edit in edits.items() if isinstance(edit, NewArguments)
        }
        staying = (part for part in calls if part not in self.taken)
        self.number = {part: number for number, part in enumerate(staying)}
        by_span: dict[tuple[int, int], list[CallPlace]] = {}
        for place in places:
            if place.part not in (UNDECIDED, UNREAD):
                by_span.setdefault((place.start, place.end), []).append(place)
        frames = _frames_apart(data, by_span)
        starts = [frame.start for frame in frames[1:]] + [len(data)]
        self._lead = data[: frames[0].start] if frames else data
        self._is_array = self._lead.strip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        self.frames = [
            EditableFrame(
                frame, data[frame.start : frame.end], data[frame.end : after], _value(frame)
            )
            for frame, after in zip(frames, starts, strict=True)
        ]
        for frame, editable in zip(frames, self.frames, strict=True):
            editable.fixed = frame.end <= passed
            editable.places = by_span.pop((frame.start, frame.end), [])
        if by_span:
            raise ValueError("This answer has nested frames, so it cannot be edited.")
        # An unreadable frame after the first removed call may be a piece of that call.
        for editable in self.frames[self._first_taken_frame() :]:
            if editable.kind in ("sse", "json", "text", "too_large") and not editable.readable:
                editable.drop()

    @property
    def calls_gone(self) -> bool:
        """Whether calls were removed and none remains."""
        return bool(self.taken) and not self.number

    @property
    def reasons(self) -> str:
        """The text that replaces the removed calls, each reason once."""
        return "\n\n".join(dict.fromkeys(reason for reason in self.taken.values() if reason))

    @property
    def joined_reasons(self) -> str:
        """The same, to be appended to the text of the answer."""
        return f"\n\n{self.reasons}" if self.has_text and self.reasons else self.reasons

    def _first_taken_frame(self) -> int:
        places = (place for place, frame in enumerate(self.frames) if self._is_taken(frame))
        return next(places, len(self.frames))

    def _is_taken(self, frame: EditableFrame) -> bool:
        return any(place.part in self.taken for place in frame.places)

    def ending_frame(self, ends: Callable[[EditableFrame], bool]) -> EditableFrame | None:
        """The first frame that `ends` the answer and is not before the last piece of a removed
        call; None if there is none."""
        last = max((n for n, frame in enumerate(self.frames) if self._is_taken(frame)), default=0)
        return next((frame for frame in self.frames[last:] if ends(frame)), None)

    def insert(self, before: EditableFrame | None, *values: Mapping[str, Any]) -> None:
        """Inserts events with these values before that frame; None: after the last readable one."""
        place = len(self.frames)
        if before is not None:
            place = self.frames.index(before)
        else:
            while place and not self.frames[place - 1].readable:
                place -= 1
        near = [frame for frame in self.frames if frame.kind in ("sse", "json")]
        like = before if before in near else near[-1] if near else None
        self.frames[place:place] = [_new_frame(value, like) for value in values]

    def insert_after(self, frame: EditableFrame, value: Mapping[str, Any]) -> None:
        self.frames.insert(self.frames.index(frame) + 1, _new_frame(value, frame))

    def bytes(self) -> bytes:
        out = [self._lead]
        gap, is_first = b"", True
        for frame in self.frames:
            before, gap = gap, frame.gap
            if frame.dropped:
                continue
            if self._is_array:
                out += [frame.bytes()] if is_first else [before, frame.bytes()]
            else:
                if frame.fresh and not is_first and not out[-1].endswith((b"\n", b"\r")):
                    out.append(frame.gap)
                out += [frame.bytes(), gap]
            is_first = False
        return b"".join([*out, gap] if self._is_array else out)


def _frames_apart(data: bytes, placed: Collection[tuple[int, int]]) -> list[Frame]:
    """Disjoint frames in byte order. A comment or a stray line inside an event is not a frame of
    its own. Those that are `placed` take precedence."""
    framer = Framer()
    frames = [*framer.feed(data), *framer.end()]
    frames.sort(
        key=lambda frame: (
            (frame.start, frame.end) not in placed,
            frame.kind not in ("sse", "json"),
            frame.start,
        )
    )
    spans: list[tuple[int, int]] = []
    apart: list[Frame] = []
    for frame in frames:
        place = bisect_left(spans, (frame.start, frame.end))
        follows = place == 0 or spans[place - 1][1] <= frame.start
        if follows and (place == len(spans) or frame.end <= spans[place][0]):
            spans.insert(place, (frame.start, frame.end))
            apart.append(frame)
    return sorted(apart, key=lambda frame: frame.start)


def _value(frame: Frame) -> Any:
    """The JSON value of a frame, as decoders read it; None if it has none."""
    if frame.kind not in ("sse", "json"):
        return None
    try:
        return parse_json(frame.data.strip())
    except ValueError:
        return None


def _new_frame(value: Mapping[str, Any], like: EditableFrame | None) -> EditableFrame:
    """A frame formatted like its neighbours; `data` is set, so that it can be changed."""
    end = b"\r\n" if like is not None and b"\r\n" in like.gap else b"\n"
    text = dump_ascii(value)
    frame = EditableFrame(None, b"", end + end, value)
    frame.data = text
    if like is not None and like.kind == "json":
        frame.kind, frame.raw, frame.gap = "json", text.encode(), end
        return frame
    name = str(value.get("type", "")) if like is not None and like.event else ""
    head = b"event: " + name.encode() + end if name else b""
    frame.raw = head + b"data: " + text.encode()
    return frame


def whole_answers(
    first: EditableAnswer, last: EditableAnswer, is_whole: Callable[[EditableFrame], bool]
) -> tuple[EditableFrame, EditableFrame] | None:
    """The two frames that are an answer each; None if both are streams. ValueError if one is."""
    wholes = [frame for answer in (first, last) for frame in answer.frames if is_whole(frame)]
    if len(wholes) == 1:
        raise ValueError("One of these answers is a stream, and the other is not.")
    return (wholes[0], wholes[1]) if wholes else None


@dataclass(frozen=True)
class AnswerEditor:
    """EDITOR of a protocol's folder. `edit` marks the frames of an answer. `keepalive` creates a
    keep-alive event from the received values and how many of these were passed on; b"" if
    impossible. `join` marks the frames of two answers to form one, the second continuing the first;
    None if the protocol does not support it."""

    edit: Callable[[EditableAnswer], None]
    keepalive: Callable[[Sequence[Mapping[str, Any]], int], bytes]
    join: Callable[[EditableAnswer, EditableAnswer], None] | None = None


def add_output(first: object, last: object) -> Any:
    """The usage of two joined answers: numbers are added, also inside objects; other values are
    taken from the last answer."""
    match first, last:
        case (bool(), _) | (_, bool()):
            return last
        case int(), int():
            return first + last
        case dict(), dict():
            return {name: add_output(first.get(name), value) for name, value in last.items()}
    return first if last is None else last


def joined_usage(first: object, last: Any, written: Sequence[str], total: str) -> Any:
    """The usage of two joined answers: what was `written` is added, all other counts are the last
    one's. `total` is the number of all tokens: it grows by what the first answer wrote."""
    if not isinstance(first, dict) or not isinstance(last, dict):
        return last
    names = [name for name in written if name in first or name in last]
    sums = {name: add_output(first.get(name), last.get(name)) for name in names}
    if isinstance(last.get(total), int):
        counts = (first.get(name) for name in written)
        sums[total] = last[total] + sum(count for count in counts if isinstance(count, int))
    return {**last, **sums}


def prepend_paragraph(frame: EditableFrame, *path: str | int) -> None:
    """The text of an answer that continues another begins with an empty line."""
    if isinstance(text := frame.value_at(*path), str):
        frame.set(f"\n\n{text}", *path)


def carried_members(like: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The members that all frames of an answer have in common."""
    return {name: like[name] for name in names if name in like}


def may_be_of_calls(tokens: object, text: object) -> bool:
    """Whether some of these tokens are not those of the text."""
    return bool(tokens) and "".join(texts_of(tokens)) != (text or "")
