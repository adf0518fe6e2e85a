"""The wire view: every received frame, and our own facts between them, folded into rows.

Incremental: the cost of a frame does not depend on the number before it. Works on bytes, labels and
times; which block a row produced is given (`joined`). protocols/framing splits bytes into frames.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    Event,
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
    Source,
    TaskEnded,
    TaskStarted,
    TurnDropped,
    Warned,
)
from playground.core.json_values import load_json
from playground.core.tools import ToolResult
from playground.protocols.base import url_parts
from playground.protocols.framing import Frame, Framer
from playground.protocols.registry import CODECS
from playground.render.call_status import call_block
from playground.render.filters import clip, duration, plural
from playground.render.filters import number as grouped_number

Tone = Literal["", "ran", "waiting", "failed"]
Way = Literal["up", "down", "own"]

INFO_WARNINGS = (
    "translation",
    "choice_fell_back",
    "history_changed",
    "history_left_out",
    "continued",
)
"""Codes of informational warnings; there is nothing to do about them."""

SHOWN = 100
"""Rows a page shows of a section's beginning, the same number of its end, and adds with a click."""

RECENT = 4096
"""The number of most recent changes that are stored in order, for readers that are nearly up to
date; for others all rows are scanned. An answer can have hundreds of thousands of rows."""

_ARROWS: Mapping[Way, str] = {"up": "↑", "down": "↓", "own": "●"}

_LIMIT = re.compile(
    r"(?:anthropic-|x-)?ratelimit-(?:(limit|remaining|reset)-?(.*)|(.*?)-(limit|remaining|reset))"
)
_SECONDS = re.compile(r"\d+(?:\.\d+)?")


@dataclass(slots=True)
class WireRow:
    """`start`..`end` are bytes of the recording; `at_ms` counts from the request.

    `blocks` are the ids of the blocks the row produced; `count` is the number of frames folded into
    it. `born` and `changed` are versions.
    """

    number: int
    way: Way
    label: str
    at_ms: int
    start: int = 0
    end: int = 0
    count: int = 1
    tone: Tone = ""
    blocks: tuple[str, ...] = ()
    born: int = 0
    changed: int = 0

    @property
    def size(self) -> int:
        """Bytes of the frames in this row."""
        return self.end - self.start

    @property
    def seconds(self) -> str:
        return f"{self.at_ms / 1000:.3f}"

    @property
    def arrow(self) -> str:
        return _ARROWS[self.way]

    @property
    def short(self) -> str:
        """The label without the outer word of a delta, which is the same for all of them."""
        last = self.label.rpartition(" ")[2]
        return last if self.way == "down" and "delta" in last else self.label

    @property
    def minor(self) -> bool:
        """Whether the row is one of many of its kind, to be drawn less prominently."""
        return self.count > 1 or (self.way == "down" and "delta" in self.label)


@dataclass
class Measures:
    """Measurements of one request, updated with each piece. `gap_ms` is the longest time between
    two pieces of the answer, and `gap_at_ms` its start."""

    size: int = 0
    frames: int = 0
    first_byte_ms: int | None = None
    first_token_ms: int | None = None
    first_call_ms: int | None = None
    last_ms: int = 0
    gap_ms: int = 0
    gap_at_ms: int = 0
    ended: bool = False

    def feed(self, at_ms: int, size: int, frames: int) -> bool:
        """`size` bytes arrived, `frames` frames ended; returns whether `facts` changes."""
        new = self.first_byte_ms is None or self.ended
        if self.first_byte_ms is None:
            self.first_byte_ms = at_ms
        elif at_ms - self.last_ms > self.gap_ms:
            self.gap_ms, self.gap_at_ms = at_ms - self.last_ms, self.last_ms
        self.last_ms = at_ms
        self.size += size
        self.frames += frames
        return new

    def log(self, event: Event, at_ms: int) -> bool:
        """Reads an event; returns whether it adds anything."""
        match event:
            case PartStarted(part_kind="call") if self.first_call_ms is None:
                self.first_call_ms = at_ms
                return True
            case PartDelta() | PartEnded() if self.first_token_ms is None:
                self.first_token_ms = at_ms
                return True
            case ResponseEnded() | ResponseFailed():
                self.ended = True
                return True
        return False

    def facts(self, speed: float | None = None) -> list[tuple[str, str]]:
        """(name, value) of everything known so far; `speed` is that of the turn, in tokens per
        second (`writing_speed`)."""
        times = (
            ("First byte", self.first_byte_ms),
            ("First token", self.first_token_ms),
            ("First call", self.first_call_ms),
        )
        rows = [(name, duration(ms)) for name, ms in times if ms is not None]
        if self.ended and speed is not None:
            rows.append(("Tokens per second", f"{speed:.1f}"))
        if self.ended and self.gap_ms:
            rows.append(("Longest gap", f"{duration(self.gap_ms)} at {duration(self.gap_at_ms)}"))
        if self.ended:
            size = grouped_number(self.size)
            rows.append(("Received", f"{size} bytes, {plural(self.frames, 'frame')}"))
        return rows


@dataclass
class Section:
    """One request and its response; `number` is that of the recording and of the turn.

    `sent` and `came` are the headers; `shared`: it was copied from a parent. `labels` are the
    distinct labels of its frames.
    """

    number: int
    protocol: str
    method: str
    url: str
    size: int
    sent_ms: int
    status: int | None = None
    first_ms: int | None = None
    sent: Mapping[str, str] = field(default_factory=dict)
    came: Mapping[str, str] = field(default_factory=dict)
    shared: bool = False
    measures: Measures = field(default_factory=Measures)
    rows: list[WireRow] = field(default_factory=list)
    framer: Framer = field(default_factory=Framer)
    starts: list[int] = field(default_factory=list)
    wire_rows: list[int] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    born: int = 0
    changed: int = 0

    @property
    def path(self) -> str:
        return url_parts(self.url).path or "/"

    def row_at(self, place: int) -> WireRow | None:
        """The row that contains byte `place` of the recording; None before the first frame."""
        nth = bisect_right(self.starts, place) - 1
        return self.rows[self.wire_rows[nth]] if nth >= 0 else None

    @property
    def gap(self) -> tuple[int, int]:
        """The range of rows that are hidden until requested."""
        return SHOWN, max(SHOWN, len(self.rows) - SHOWN)

    @property
    def says(self) -> str:
        """The kind of answer, if it did not stream."""
        return state(self.status, self.measures, self.came.get("content-type", ""))

    @property
    def limits(self) -> list[str]:
        """The rate limits in the answer's headers."""
        return rate_limit_words(self.came)


class WireRows:
    """The sections of a session. `version` grows with each change; see `changed`."""

    def __init__(self) -> None:
        self.sections: list[Section] = []
        self.version = 0
        self._changed: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._forgotten = 0  # the last version that is no longer stored
        self._names: dict[str, str] = {}
        self._started: dict[str, int] = {}
        self._held: set[str] = set()
        self._behind: dict[str, str] = {}

    def snapshot(self) -> WireRows:
        """A copy of the current rows, to be drawn while others arrive; it accepts none itself."""
        now = WireRows()
        now.sections = [replace(section, rows=list(section.rows)) for section in self.sections]
        now.version = now._forgotten = self.version
        return now

    def request(self, number: int, at_ms: int, method: str, url: str, size: int) -> None:
        """A request was sent. Sections must come in order, counted from 1; `size` in bytes."""
        self._open(Section(number, protocol="", method=method, url=url, size=size, sent_ms=at_ms))

    def feed(self, recording: int, at_ms: int, data: bytes) -> None:
        """Bytes of a response body, cut anywhere."""
        section = self.sections[recording - 1]
        frames = section.framer.feed(data)
        if section.measures.feed(at_ms - section.sent_ms, len(data), len(frames)):
            self._touch(recording, -1)
        for frame in frames:
            self._frame(section, at_ms, frame)

    def end(self, recording: int, at_ms: int) -> None:
        """The body is over: the rest in the framer becomes a row."""
        section = self.sections[recording - 1]
        for frame in section.framer.end():
            self._frame(section, at_ms, frame)

    def note(self, at_ms: int, text: str, tone: Tone = "", block_id: str = "") -> None:
        """A fact of our own, under the last section."""
        if not self.sections:
            return
        section = self.sections[-1]
        row = WireRow(len(section.rows), "own", text, at_ms - section.sent_ms, tone=tone)
        row.blocks = (block_id,) if block_id else ()
        self._add(section, row)

    def join(self, source: Source, block_id: str) -> None:
        """The bytes of `source` produced `block_id`."""
        section = self.sections[source.recording - 1]
        row = section.row_at(source.start)
        if row is not None and block_id not in row.blocks:
            row.blocks += (block_id,)
            self._touch(section.number, row.number)

    def log(self, logged: Logged) -> None:
        """Applies an event: a request, a join by its span, or a fact of our own."""
        event = logged.event
        match event:
            case RequestSent():
                size = len(event.body.encode("utf-8", "replace"))
                self._open(
                    Section(
                        event.recording,
                        protocol=event.protocol,
                        method=event.method,
                        url=event.url,
                        size=size,
                        sent_ms=logged.at_ms,
                        sent=event.headers,
                    )
                )
            case ResponseStarted(status=status, headers=headers) if self.sections:
                section = self.sections[-1]
                section.status, section.first_ms = status, logged.at_ms - section.sent_ms
                section.came = headers
                self._touch(section.number, -1)
            case PartStarted(index=index) | PartEnded(index=index):
                self._measure(logged)
                if isinstance(event, PartEnded) or event.part_kind == "call":
                    self._name(index, event.name, isinstance(event, PartStarted))
                self._join_part(logged.source, index)
            case PartDelta(index=index):
                self._measure(logged)
                self._join_part(logged.source, index)
            case ResponseEnded() if logged.source is not None:
                self._measure(logged)
                self.join(logged.source, f"turnhead-{logged.source.recording}")
            case ResponseFailed(message=message):
                self._measure(logged)
                number = self.sections[-1].number if self.sections else 0
                self.note(logged.at_ms, clip(message, 120), "failed", f"turnfoot-{number}")
            case Warned(code=code, message=message):
                tone: Tone = "" if code in INFO_WARNINGS else "waiting"
                self.note(logged.at_ms, clip(message, 120), tone)
            case SessionForked():
                self._started.clear()  # what ran, ran in the parent
                self._held.clear()
                for section in self.sections:
                    section.shared = True
                    self._touch(section.number, -1)
                self.note(logged.at_ms, "forked here; everything above is from the parent")
            case _:
                self._note_own_fact(logged)

    def changes_since(self, since: int) -> list[tuple[Section, WireRow | None, bool]]:
        """(section, row or None for its head, whether it is new) after `since`, in order.

        A version that this fold has not reached belongs to another fold: then everything is new.
        """
        since = since if since <= self.version else 0
        recent = (
            self._recent_changes(since) if since >= self._forgotten else self._all_changes(since)
        )
        changes: list[tuple[Section, WireRow | None, bool]] = []
        for number, place in sorted(recent):
            section = self.sections[number - 1]
            row = section.rows[place] if place >= 0 else None
            changes.append((section, row, (row or section).born > since))
        return changes

    def _recent_changes(self, since: int) -> Iterator[tuple[int, int]]:
        """The places of changes, the newest first."""
        for key, version in reversed(self._changed.items()):
            if version <= since:
                return
            yield key

    def _all_changes(self, since: int) -> Iterator[tuple[int, int]]:
        """The same, in order."""
        for section in self.sections:
            if section.changed > since:
                yield section.number, -1
            yield from ((section.number, row.number) for row in section.rows if row.changed > since)

    def _measure(self, logged: Logged) -> None:
        """Times and tokens of the last request; its head is drawn again if that adds anything."""
        if self.sections:
            section = self.sections[-1]
            if section.measures.log(logged.event, logged.at_ms - section.sent_ms):
                self._touch(section.number, -1)

    def _name(self, index: int, name: str, begins: bool) -> None:
        call_id = f"{self.sections[-1].number}.{index}" if self.sections else ""
        if begins or call_id in self._names:
            self._names[call_id] = name or self._names.get(call_id, "")

    def _join_part(self, source: Source | None, index: int) -> None:
        if source is not None:
            known = f"{source.recording}.{index}" in self._names
            self.join(source, f"{'call' if known else 'part'}-{source.recording}-{index}")

    def _open(self, section: Section) -> None:
        self.sections.append(section)
        row = WireRow(0, "up", f"request {bytes_words(section.size)}", 0)
        row.blocks = (f"turnhead-{section.number}",)
        section.born = self._touch(section.number, -1)
        self._add(section, row)

    def _frame(self, section: Section, at_ms: int, frame: Frame) -> None:
        row_label = label(section.protocol, frame)
        last = section.rows[-1]
        if last.way == "down" and last.label == row_label:
            last.end, last.count = frame.end, last.count + 1
            self._touch(section.number, last.number)
            return
        at = at_ms - section.sent_ms
        row_label = section.labels.setdefault(row_label, row_label)
        row = WireRow(
            len(section.rows),
            way="down",
            label=row_label,
            at_ms=at,
            start=frame.start,
            end=frame.end,
        )
        section.starts.append(frame.start)
        section.wire_rows.append(row.number)
        self._add(section, row)

    def _add(self, section: Section, row: WireRow) -> None:
        section.rows.append(row)
        row.born = self._touch(section.number, row.number)

    def _touch(self, number: int, place: int) -> int:
        """The version in which this is new or changed."""
        self.version += 1
        section = self.sections[number - 1]
        (section.rows[place] if place >= 0 else section).changed = self.version
        self._changed[number, place] = self.version
        self._changed.move_to_end((number, place))
        if len(self._changed) > RECENT:
            _, self._forgotten = self._changed.popitem(last=False)
        return self.version

    def _note_own_fact(self, logged: Logged) -> None:
        event = logged.event
        match event:
            case CallChecked(call_id=call_id, problems=problems):
                real = sum(problem.kind != "note" for problem in problems)
                words = f"has {plural(real, 'problem')}" if real else "is valid"
                self._note_call(logged, call_id, words, "waiting" if real else "")
            case CallDoubted(index=index, problem=problem) if self.sections:
                words = f"arguments will not match: {clip(problem.message, 120)}"
                self._note_call(logged, f"{self.sections[-1].number}.{index}", words, "waiting")
            case CallDecided(call_id=call_id, where="agent"):
                self._note_call(logged, call_id, "→ run, at the agent")
            case CallDecided(call_id=call_id, decision=decision, by=by, rule=rule):
                who = f"rule “{clip(rule, 80)}”" if rule else _actor_name(by)
                self._note_call(logged, call_id, f"→ {decision}, by {who}")
            case CallReturned(call_id=call_id, by=by):
                self._note_call(
                    logged, call_id, f"decision withdrawn by {_actor_name(by)}", "waiting"
                )
            case CallStarted(call_id=call_id):
                self._started[call_id] = logged.at_ms
            case TaskStarted(task_id=task_id, call_id=call_id) if task_id == call_block(call_id):
                self._behind[task_id] = call_id  # the call itself, without the task it left running
            case TaskEnded(task_id=task_id, how=how, result=result) if task_id in self._behind:
                sound = result is not None and not result.is_error
                words = f"in the background: {clip(how, 80)}"
                self._note_call(logged, self._behind[task_id], words, "ran" if sound else "failed")
            case CallEnded(call_id=call_id) if call_id in self._behind.values():
                self._note_call(logged, call_id, "moved to background")
            case CallProgressed(call_id=call_id, real=ToolResult() as real, key=key) if key:
                self._held.add(call_id)
                what = "an error, held" if real.is_error else "a result, held"
                words = f"ran{self._duration_words(logged, call_id)}: {what}"
                self._note_call(logged, call_id, words, "waiting")
            case CallEnded(call_id=call_id, real=real) if call_id in self._held:
                words = "result passed" if real is None else "result edited"
                self._note_call(logged, call_id, words)
            case CallEnded(call_id=call_id, result=result):
                took = self._duration_words(logged, call_id)
                words = result.kind or ("error" if result.is_error else "done")
                words = "ran" if words == "done" and took else words.replace("_", " ")
                self._note_call(
                    logged, call_id, words + took, "failed" if result.is_error else "ran"
                )
            case CallInterrupted(call_id=call_id):
                self._held.discard(call_id)
                self._note_call(logged, call_id, "interrupted", "failed")
            case RetryScheduled(wait_s=wait_s, attempt=attempt):
                self.note(logged.at_ms, f"retry {attempt} in {wait_s:.2g} s", "waiting")
            case RunPaused(limit=limit, message=message):
                why = message or limit
                self.note(logged.at_ms, f"paused: {clip(why, 160)}", "waiting")
            case AnswerPassed(size=size):
                self.note(logged.at_ms, f"passed on to the agent, {size:,} bytes")
            case ClientGone():
                self.note(
                    logged.at_ms, "agent disconnected before the answer was complete", "failed"
                )
            case RunStopped(rule=rule):
                who = f"rule “{clip(rule, 80)}”" if rule else "the user"
                self.note(logged.at_ms, f"stopped by {who}", "waiting")
            case (
                CallDoubted() | CallExtended() | CallProgressed() | PartDelta() | PartEnded()
                | PartStarted() | PromptAdded() | RequestReceived() | RequestSent()
                | ResponseEnded() | ResponseFailed() | ResponseStarted() | RunResumed()
                | SessionForked() | SessionStarted() | SettingsChanged() | TaskEnded()
                | TaskStarted() | TurnDropped() | Warned()
            ):  # fmt: skip
                pass  # no row, or one of `log`
            case _:
                assert_never(event)

    def _duration_words(self, logged: Logged, call_id: str) -> str:
        started = self._started.get(call_id)
        return "" if started is None else f" in {duration(logged.at_ms - started)}"

    def _note_call(self, logged: Logged, call_id: str, words: str, tone: Tone = "") -> None:
        name = self._names.get(call_id) or f"call {call_id}"
        self.note(logged.at_ms, f"{clip(name, 40)} {words}", tone, call_block(call_id))


def _actor_name(by: str) -> str:
    return "the user" if by == "person" else f"the {by}"


# Labels: the name of a frame in one line.


def label(protocol: str, frame: Frame) -> str:
    """The protocol's own word for a frame; for data that is not a JSON object, what it is."""
    match frame.kind:
        case "comment":
            return clip(frame.data.strip(), 40)
        case "fields":
            return frame.event or "fields without data"
        case "too_large":
            return "too large"
        case "text":
            return clip(frame.data.strip(), 40) or "text"
        case "sse" | "json":
            return _json_label(protocol, frame)


def _json_label(protocol: str, frame: Frame) -> str:
    try:
        data = load_json(frame.data)
    except ValueError:
        data = None
    codec = CODECS.get(protocol)
    if codec is None or not isinstance(data, dict):
        return clip(frame.data.strip(), 40) or frame.event or "empty"
    return codec.label(data)


def bytes_words(count: int) -> str:
    """`312 B`, `3.1 kB`."""
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB"


# Measurements of one request, and their words. Times in ms since the request.


def state(status: int | None, measures: Measures, content_type: str) -> str:
    """The kind of answer, unless it streamed successfully; "" then."""
    if status is None:
        return "No answer: no bytes were received." if measures.ended else ""
    if not measures.ended:
        return ""
    if not measures.size:
        return f"Answered with status {status} and an empty body."
    if status >= 400:
        return f"Refused with status {status}. The answer is an error, not a stream."
    if measures.frames <= 1 and "json" in content_type and "nd" not in content_type:
        return "Not streamed: the answer is one JSON body."
    return ""


def rate_limit_words(headers: Mapping[str, str]) -> list[str]:
    """The rate limits in the headers: "requests: 48 of 50 left, resets in 12 s". Values in an
    unknown form are shown unchanged."""
    kinds: dict[str, dict[str, str]] = {}
    sentences: list[str] = []
    for name, value in sorted((name.lower(), value) for name, value in headers.items()):
        match = _LIMIT.fullmatch(name)
        if match is not None:
            what, kind = (match[1], match[2]) if match[1] else (match[4], match[3])
            kinds.setdefault(kind or "requests", {})[what] = value
        elif name.startswith("retry-after"):
            unit = " ms" if name.endswith("-ms") else " s" if _SECONDS.fullmatch(value) else ""
            sentences.append(f"asks to wait {value}{unit}")
        elif "ratelimit" in name.replace("-", ""):
            sentences.append(f"{name}: {value}")
    return [*(_limit_line(kind, values) for kind, values in kinds.items()), *sentences]


def _limit_line(kind: str, values: Mapping[str, str]) -> str:
    name = kind.replace("-", " ")
    left, most, reset = (values.get(name, "") for name in ("remaining", "limit", "reset"))
    match left, most:
        case "", "":
            words = []
        case "", _:
            words = [f"at most {most}"]
        case _, "":
            words = [f"{left} left"]
        case _:
            words = [f"{left} of {most} left"]
    if reset:
        bare = _SECONDS.fullmatch(reset) is not None and float(reset) < 1e8
        again = f"{reset} s" if bare else reset
        span = bare or re.fullmatch(r"(?:[\d.]+(?:ms|s|m|h|d))+", reset) is not None
        words.append(f"resets in {again}" if span else f"resets at {again}")
    return f"{name}: {', '.join(words)}"
