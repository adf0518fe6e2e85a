"""An answer as the frames that came, and what is to become of each for a client.

An editor of a protocol (`NAME/edits`) marks frames; what it leaves alone keeps its very bytes.
Knows frames (`framing`) and JSON, no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.protocols.base import CallPlace
from app.protocols.decoder import DONE
from app.protocols.framing import Frame, Framer
from app.protocols.json_edits import Path, change_json, dumped, one_line
from app.protocols.raw_json import parse_json


@dataclass(frozen=True)
class TakeOut:
    """The call goes, and `reason` is said as text in its place."""

    reason: str


@dataclass(frozen=True)
class Arguments:
    """The call gets these arguments, JSON text; of a free-form tool its input as it is."""

    text: str


Edit = TakeOut | Arguments


class EditableFrame:
    """One frame: `value` is its JSON object ({} where it has none), `places` the pieces of calls
    in it. A `fixed` one has left already and is changed no more; a `fresh` one never came."""

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
        """Whether it is the closing marker that is no JSON."""
        return self.data.strip() == DONE

    def at(self, *path: str | int) -> Any:
        """What came at `path`, None where nothing is."""
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
        """The JSON `text` is at `path` from now on. ValueError where it is none."""
        parse_json(text)
        self._changes[path] = one_line(text)

    def set(self, value: Any, *path: str | int) -> None:
        """The same of a value; where it is there already, its bytes stay."""
        if self.at(*path) != value or value is None:
            self._changes[path] = dumped(value)

    def take(self, *path: str | int) -> None:
        """Nothing is at `path` from now on, nor changes below it."""
        for below in [known for known in self._changes if known[: len(path)] == path]:
            del self._changes[below]
        self._changes[path] = None

    def bytes(self) -> bytes:
        if self.fixed or not self._changes:
            return self.raw
        new = change_json(self.data, self._changes)
        text = new.encode("utf-8", "backslashreplace")  # half a character is an escape in JSON
        return text if self.kind == "json" else _with_data(self.raw, text)


def _with_data(event: bytes, text: bytes) -> bytes:
    """The event with `text` in place of its data."""
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
    """A whole answer. `calls` are the indexes of its calls, `taken` the reasons by the index of the
    call that goes, `arguments` the new ones; `has_text` is whether it says any text of its own."""

    def __init__(
        self, data: bytes, edits: Mapping[int, Edit], calls: Sequence[int], has_text: bool
    ) -> None:
        self.calls, self.has_text = calls, has_text
        self.taken = {n: edit.reason for n, edit in edits.items() if isinstance(edit, TakeOut)}
        self.arguments = {n: edit.text for n, edit in edits.items() if isinstance(edit, Arguments)}
        self.kept = [part for part in calls if part not in self.taken]
        framer = Framer()
        frames = [*framer.feed(data), *framer.end()]
        starts = [frame.start for frame in frames[1:]] + [len(data)]
        self._lead = data[: frames[0].start] if frames else data
        self._is_array = self._lead.strip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        self.frames = [
            EditableFrame(
                frame, data[frame.start : frame.end], data[frame.end : after], _value(frame)
            )
            for frame, after in zip(frames, starts, strict=True)
        ]
        spans = [(frame.start, frame.end) for frame in frames]
        self._by_span = dict(zip(spans, self.frames, strict=True))

    @property
    def calls_gone(self) -> bool:
        """Whether calls were taken out and none is left."""
        return bool(self.taken) and not self.kept

    @property
    def reasons(self) -> str:
        """What is said in place of the calls that go, each reason once."""
        return "\n\n".join(dict.fromkeys(reason for reason in self.taken.values() if reason))

    @property
    def joined_reasons(self) -> str:
        """The same where it is said on in the text of the answer."""
        return f"\n\n{self.reasons}" if self.has_text and self.reasons else self.reasons

    def locate(self, places: Iterable[CallPlace]) -> None:
        """Note the pieces of calls. What cannot be read behind the first that goes may be a piece
        of it."""
        for place in places:
            self._by_span[place.start, place.end].places.append(place)
        for frame in self.frames[self._first_taken() :]:
            if frame.kind in ("sse", "json", "text", "too_large") and not frame.readable:
                frame.drop()

    def fix(self, size: int) -> None:
        """The frames within the first `size` bytes have left."""
        for (_, end), frame in self._by_span.items():
            frame.fixed = end <= size

    def _first_taken(self) -> int:
        places = (place for place, frame in enumerate(self.frames) if self._is_taken(frame))
        return next(places, len(self.frames))

    def _is_taken(self, frame: EditableFrame) -> bool:
        return any(place.part in self.taken for place in frame.places)

    def ending(self, ends: Callable[[EditableFrame], bool]) -> EditableFrame | None:
        """The first frame that `ends` the answer and is no earlier than the last piece of a call
        that goes; None where there is none."""
        last = max((n for n, frame in enumerate(self.frames) if self._is_taken(frame)), default=0)
        return next((frame for frame in self.frames[last:] if ends(frame)), None)

    def insert(self, before: EditableFrame | None, *values: Mapping[str, Any]) -> None:
        """Events with these values before that frame; None: behind the last that can be read."""
        place = len(self.frames)
        if before is not None:
            place = self.frames.index(before)
        else:
            while place and not self.frames[place - 1].readable:
                place -= 1
        near = [frame for frame in self.frames if frame.kind in ("sse", "json")]
        like = before if before in near else near[-1] if near else None
        self.frames[place:place] = [_fresh(value, like) for value in values]

    def insert_after(self, frame: EditableFrame, value: Mapping[str, Any]) -> None:
        self.frames.insert(self.frames.index(frame) + 1, _fresh(value, frame))

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


def _value(frame: Frame) -> Any:
    """The JSON value of a frame, as decoders read it; None where it has none."""
    if frame.kind not in ("sse", "json"):
        return None
    try:
        return parse_json(frame.data.strip())
    except ValueError:
        return None


def _fresh(value: Mapping[str, Any], like: EditableFrame | None) -> EditableFrame:
    """A frame as its neighbours are written; `data` is set, so that it can be changed."""
    end = b"\r\n" if like is not None and b"\r\n" in like.gap else b"\n"
    text = dumped(value)
    frame = EditableFrame(None, b"", end + end, value)
    frame.data = text
    if like is not None and like.kind == "json":
        frame.kind, frame.raw, frame.gap = "json", text.encode(), end
        return frame
    name = str(value.get("type", "")) if like is not None and like.event else ""
    head = b"event: " + name.encode() + end if name else b""
    frame.raw = head + b"data: " + text.encode()
    return frame


@dataclass(frozen=True)
class AnswerEditor:
    """EDITOR of a protocol's folder. `edit` marks the frames of an answer. `keepalive` gives the
    harmless event from the values that came and the first of these that were passed on; b"" where
    none can be sent."""

    edit: Callable[[EditableAnswer], None]
    keepalive: Callable[[Sequence[Mapping[str, Any]], int], bytes]
