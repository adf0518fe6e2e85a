"""Decodes response bodies: the common part of all protocols (frames, errors, the end of bytes).

The protocol-specific part is a Reader: it takes one JSON object after the other and writes to an
EventBuilder. The meaning of the end of a body is decided only here: docs/laws.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from playground.core.events import (
    EndReason,
    FailKind,
    PartDelta,
    PartEnded,
    PartKind,
    PartStarted,
    ResponseEnded,
    ResponseFailed,
    Usage,
    Warned,
    WireEvent,
)
from playground.core.messages import CALLS_LEFT_OUT
from playground.core.settings import Limits
from playground.protocols.base import (
    TOKENS,
    UNDECIDED,
    UNREAD,
    Advice,
    CallPlace,
    ProviderError,
    ReadItem,
    SideText,
    Spanned,
    error_sentence,
    http_sentence,
    not_api_sentence,
    read_error,
)
from playground.protocols.call_search import has_call, has_unlocated_call
from playground.protocols.framing import MAX_TEXT, Frame, Framer, texts_of
from playground.protocols.raw_json import Path, join_pieces, parse_json, whole_characters

# Builds the events of a response and enforces the grammar of docs/laws.md for any decoder: parts
# are numbered by first appearance, everything started is ended, there is exactly one end, and after
# it only warnings. Independent of protocols.

FAILED_REASONS = frozenset(
    {"error", "failed", "failure", "server_error", "internal_error", "network_error"}
    | {"insufficient_system_resource", "insufficient_resources", "overloaded", "interrupted"}
    | {"abort", "aborted", "cancelled", "canceled", "timeout", "timed_out", "expired"}
)
"""Finish reasons, in lower case, that mean a failure of the provider, not an answer."""

Meaning = EndReason | Literal["failed"]
"""The meaning of a finish reason; "failed": not an answer."""
_STAYS: Mapping[Meaning, int] = {"length": 1, "refusal": 1, "failed": 2}
"""Meanings that a later finish reason cannot override, with their rank."""

PROSE = frozenset({"text", "thinking", "refusal"})
"""Kinds of parts that are shown and never run: lone surrogates are replaced in them."""

_CALL_MARKS = (
    *("<tool_call>", "<function_calls>", "<function=", "<invoke name=", "<minimax:tool_call>"),
    *("[TOOL_CALLS]", "<|python_tag|>", "<|tool_call", "<|START_ACTION|>", "```tool_code"),
    *("<｜tool▁calls▁begin｜>", "to=functions."),
)
"""How models write calls: in a text, they are calls that their server did not recognize."""
_CALL_OBJECT = re.compile(
    r'\s{0,20}(?:```(?:json)?\s{0,20})?\[?\s{0,20}\{\s{0,20}(?:"type"\s?:\s?"function",\s{0,20})?'
    r'"(?:name|function)"\s?:\s?"[^"]{1,128}",\s{0,20}"(?:arguments|parameters)"\s?:'
)
"""The same for models that write an object alone."""

LEFT_OUT = -1
"""The index of the first call that is left out: nothing written to it becomes an event. Further
ones count down from it."""

MOST_TOKENS = 10**12
"""Upper bound of plausible token counts and costs."""

_COUNTS = (
    *("input_tokens", "output_tokens"),
    *("cached_tokens", "cache_write_tokens", "reasoning_tokens"),
)

MOST_ALIKE = 20
"""Warnings of one code that are recorded; a hostile stream may cause 200,000."""

ReadOutcome = Literal["unknown", "known", "held", "last"]
"""How a Reader handled an object: unknown, known, an error that it will report itself after more
content or at the end, or the end of the answer."""

DONE = "[DONE]"
"""The closing marker of some protocols; gateways send it in others, too."""

_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}:[^{}\"]*")
"""A line with an unknown field, which readers of event streams ignore."""

_ALIVE = re.compile(r"(?:ping|pong|keep-?alive|heartbeat|(?:openrouter )?processing)", re.I)
"""Keep-alive words of gateways; any other text that is not JSON is a lost event."""

_QUIET_TYPE = re.compile(r"(?:^|[._])(?:ping|keep_?alive|heartbeat|rate_limits)(?:$|[._])")
"""Types of unknown events that concern the connection or the account, not the answer."""


class OpenPart:
    """A part being written. `name`, `provider_id` and `meta` may be set until it is stopped.

    `sure` is the number of doubts (`EventBuilder.doubt`) up to which it is trusted; -1 if it is
    doubted itself. `half` is a high surrogate whose second half may come with the next piece.
    `warned` are the codes of its own warnings.
    """

    __slots__ = (
        *("ended", "half", "index", "kind", "meta", "name", "pieces", "provider_id", "sure"),
        "warned",
    )

    def __init__(self, index: int, kind: PartKind, name: str, provider_id: str) -> None:
        self.index = index
        self.kind = kind
        self.name = name
        self.provider_id = provider_id
        self.meta: dict[str, Any] = {}
        self.pieces: list[str] = []
        self.ended = False
        self.half = ""
        self.sure = 0
        self.warned: frozenset[str] = frozenset()


class EventBuilder:
    """Builds one response. `span` is that of the current frame, used for every event.

    `sound`: the frame was decoded without loss; a part that begins in another frame is doubted.
    `streams`: the frame is an event of a stream, not a body (or a line) of JSON.
    Calls beyond `most_calls` are left out, and counted in one warning before the end.
    """

    def __init__(self) -> None:
        self.span = (0, 0)
        self.sound = True
        self.streams = True
        self.usage = Usage()
        self.raw_reason = ""
        self.done = False
        self.parts: list[OpenPart] = []
        self.most_calls = sys.maxsize
        self.advice: Advice | None = None
        self.places: list[CallPlace] | None = None
        self.own_paths: list[Path] = []  # calls of the provider in the current frame
        self._calls = self._left_out = 0
        self._unsealed: list[OpenPart] = []
        self._events: list[ReadItem] = []
        self._warned: dict[str, int] = {}
        self._meaning: Meaning = "other"
        self._doubts = 0
        self._lost = False
        self._call_mark = ""  # what looks like a call in a text

    def take_events(self) -> list[Spanned]:
        """The events since the last call."""
        items = self.take_all()
        return [
            (start, end, event) for start, end, event in items if not isinstance(event, SideText)
        ]

    def take_all(self) -> list[ReadItem]:
        """The same, including side texts."""
        items, self._events = self._events, []
        return items

    def start(self, kind: PartKind, name: str = "", provider_id: str = "") -> OpenPart:
        if kind == "call" and self._calls >= self.most_calls:
            part = OpenPart(LEFT_OUT - self._left_out, kind, name, provider_id)
            self._left_out += 1
            self.add_side_text(part, "name", name)
            return part
        self._calls += kind == "call"
        part = OpenPart(len(self.parts), kind, name, provider_id)
        self.mark_trusted(part)
        self.parts.append(part)
        if kind == "call":
            self._unsealed.append(part)
            self.add_side_text(part, "name", name)
        self._yield(PartStarted(part.index, kind, name, provider_id))
        return part

    def delta(self, part: OpenPart, text: str) -> None:
        """Appends `text`; an empty text creates no event."""
        if part.ended:
            return
        if part.kind in PROSE and (part.half or not text.isascii()):
            text = part.half + text
            part.half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
            text = self.displayable_text(text.removesuffix(part.half))
        if text:
            part.pieces.append(text)
            if part.index > LEFT_OUT:
                self._events.append((*self.span, PartDelta(part.index, text)))
            else:
                self.add_side_text(part, "", text)

    def add_side_text(self, part: OpenPart, member: str, text: str) -> None:
        """A text of the part that is in no delta (base.SideText)."""
        if text:
            self._events.append((*self.span, SideText(part.index, member, text)))

    def tokens(self, entries: Any, kind: str = "text") -> None:
        """The tokens of a text, as reported with their probabilities."""
        for text in texts_of(entries):
            self._events.append((*self.span, SideText(TOKENS[kind], "token", text)))

    def displayable_text(self, text: str) -> str:
        """`text` for display: lone surrogates become U+FFFD, with a warning."""
        whole = whole_characters(text)
        if whole.count("\ufffd") > text.count("\ufffd"):
            self.warn_once(
                "lone_surrogate", "Half a character (a lone surrogate) is shown as U+FFFD."
            )
        return whole

    def stop(self, part: OpenPart, complete: bool = True) -> None:
        """Ends the part; idempotent."""
        if part.ended:
            return
        if half := part.half:
            part.half = ""
            self.delta(part, self.displayable_text(half))
        part.ended = True
        text = join_pieces(part.pieces) if part.pieces else ""
        part.pieces = []
        if part.index <= LEFT_OUT:
            return
        if part.kind in ("text", "thinking"):
            self._call_mark = self._call_mark or _call_mark(text)
        complete = complete and not (part.kind == "call" and part.sure < self._doubts)
        self._yield(
            PartEnded(
                part.index,
                text=text,
                name=part.name,
                provider_id=part.provider_id,
                meta=part.meta,
                complete=complete,
            )
        )

    def locate(self, part: OpenPart | None, *path: str | int) -> None:
        """A piece of `part` is at `path` in the current frame; None: perhaps of a call."""
        if self.places is None:
            return
        if part is None or part.kind == "call":
            index = UNDECIDED if part is None else part.index
            self.places.append(CallPlace(*self.span, index, path))
        elif path and part.kind in ("server_call", "server_result"):
            self.own_paths.append(path)

    def add_whole_part(
        self, kind: PartKind, text: str = "", name: str = "", provider_id: str = "", **meta: Any
    ) -> OpenPart:
        """A part that arrived in one piece."""
        part = self.start(kind, name, provider_id)
        part.meta.update(meta)
        self.delta(part, text)
        self.stop(part)
        return part

    def mark_doubtful(self, part: OpenPart | None = None) -> None:
        """Marks this part as possibly different from what the model wrote, or, if something was
        lost on the way, all open parts. A call in doubt is never complete."""
        if part is None:
            self._doubts += 1  # counted instead of marking each part: there may be many
        else:
            part.sure = -1

    def mark_lost(self) -> None:
        """An event could not be read. Its content is unknown, so the answer cannot end well."""
        self._doubts += 1
        self._lost = True
        self.leave_unread()

    def leave_unread(self) -> None:
        """The current frame is not read: a client may read it."""
        if self.places is not None:
            self.places.append(CallPlace(*self.span, UNREAD, ()))

    def mark_trusted(self, part: OpenPart) -> None:
        """The current frame contains the whole content of the part."""
        part.sure = self._doubts if self.sound else -1

    def freeze(self, part: OpenPart) -> None:
        """The part gets no more content, though it is stopped later: later losses do not count."""
        if part.sure == self._doubts:
            part.sure = sys.maxsize

    def freeze_calls(self) -> None:
        """Seals all open calls; each is visited once, however often this is called."""
        unsealed, self._unsealed = self._unsealed, []
        for part in unsealed:
            self.freeze(part)

    def tell_reason(self, raw: str, meaning: Meaning) -> None:
        """Sets the provider's finish reason. One that means a cut is never overridden."""
        old, new = self._meaning, meaning_of(raw, meaning)
        if self.raw_reason not in ("", raw) and (old in _STAYS or new in _STAYS):
            stays = _STAYS.get(old, 0) >= _STAYS.get(new, 0)
            self.warn(
                "reason_changed",
                f"The finish reason was {self.raw_reason[:80]}, then {raw[:80]}; the "
                f"{'first' if stays else 'last'} one is used.",
            )
            if stays:
                return
        self.raw_reason, self._meaning = raw, new

    def forget_reason(self) -> None:
        """The answer restarted: the finish reason of the first attempt does not count."""
        self.raw_reason, self._meaning = "", "other"

    def open_parts(self) -> Iterator[OpenPart]:
        return (part for part in self.parts if not part.ended)

    def has_part(self, *kinds: PartKind) -> bool:
        return any(part.kind in kinds for part in self.parts)

    def warn_no_opening(self, opening: str) -> None:
        self.warn_once(
            "no_opening", f"The stream began without {opening}: its beginning may be missing."
        )

    def warn_once(self, code: str, message: str) -> None:
        if code not in self._warned:
            self.warn(code, message)

    def warn_of(self, part: OpenPart, code: str, message: str) -> None:
        """Warns about this part, which the warning names: once for each code. Not counted with the
        others of its code, of which only the first are recorded: every doubtful call has its own.
        """
        if part.index > LEFT_OUT and code not in part.warned:
            part.warned |= {code}
            self._yield(Warned(code, message, {"part": part.index}))

    def warn(self, code: str, message: str, **meta: Any) -> None:
        count = self._warned[code] = self._warned.get(code, 0) + 1
        if count < MOST_ALIKE:
            self._yield(Warned(code, message, meta))
        elif count == MOST_ALIKE:
            self._yield(Warned(code, message + " There may be more.", meta))

    def end(self, reason: EndReason, meta: Mapping[str, Any], abrupt: bool = False) -> None:
        """Ends well, completing all open parts; but if an event was lost, the answer is interrupted
        instead."""
        if self._lost:
            self.fail(
                "interrupted",
                "An event of the answer could not be read, so part of it may be missing. Retry.",
            )
            return
        self._stop_all(complete=True)
        if not self.parts:
            self.warn("empty_answer", "The model's answer is empty.")
        self._tell_left_out()
        self._flag_twins()
        has_call = self.has_part("call")
        if self._call_mark and not has_call:
            self.warn(
                "call_as_text",
                f"The answer has no call, but its text looks like one ({self._call_mark}), which "
                "nothing runs. The server may need a tool-call parser for this model.",
            )
        if reason == "stop" and has_call:
            reason = "calls"
        elif reason == "calls" and not has_call:
            reason = "stop"
            if not self.has_part("server_call"):
                self.warn("calls_missing", "The finish reason says there are calls, but none came.")
        self._check_usage()
        cost, meta = self._cost(), dict(meta)
        self._yield(
            ResponseEnded(
                reason,
                raw_reason=self.raw_reason,
                usage=self.usage,
                cost=cost,
                meta=meta,
                abrupt=abrupt,
            )
        )
        self.done = True

    def fail(
        self, failure: FailKind, message: str, *, error: Any = None, status: int | None = None
    ) -> None:
        """Ends with a failure; no effect if the answer has ended already."""
        if self.done:
            return
        if self.advice is not None:
            message = self.advice.with_wait(message, error)
        self._stop_all(complete=False)
        self._tell_left_out()
        self._check_usage()
        self._yield(
            ResponseFailed(
                failure,
                message,
                status=status,
                error=error,
                raw_reason=self.raw_reason,
                usage=self.usage,
            )
        )
        self.done = True

    def _stop_all(self, complete: bool) -> None:
        for part in list(self.open_parts()):
            self.stop(part, complete)

    def _tell_left_out(self) -> None:
        count, most = self._left_out, self.most_calls
        if count:
            calls = "1 call" if count == 1 else f"{count:,} calls"
            self.warn(
                CALLS_LEFT_OUT,
                f"This answer made {calls} more than the limit of {most:,}. The rest is kept "
                "only as bytes (Wire): it does not run and is not sent back to the model.",
                count=count,
                most=most,
            )

    def _flag_twins(self) -> None:
        """Warns on duplicate ids: an index identifies calls here, but not at the provider."""
        seen: set[str] = set()
        for part in self.parts:
            if part.kind == "call" and part.provider_id in seen:
                self.warn_of(part, "same_id", f"Two calls have the id {part.provider_id[:80]!r}.")
            elif part.kind == "call" and part.provider_id:
                seen.add(part.provider_id)

    def _check_usage(self) -> None:
        """Drops impossible counts, which limits and sums would use."""
        counts: dict[str, int | None] = {name: getattr(self.usage, name) for name in _COUNTS}
        odd = [
            name for name, count in counts.items() if count is not None and not _is_plausible(count)
        ]
        if odd:
            none: dict[str, Any] = dict.fromkeys(odd)
            self.usage = replace(self.usage, **none)
            message = (
                f"The provider's token counts are impossible ({', '.join(odd)}) and treated as "
                "unknown."
            )
            self.warn("odd_usage", message)

    def _cost(self) -> float | None:
        """In US dollars, if the provider reports it (OpenRouter does)."""
        cost = self.usage.raw.get("cost")
        if not isinstance(cost, int | float) or isinstance(cost, bool):
            return None
        return float(cost) if _is_plausible(cost) else None

    def _yield(self, event: WireEvent) -> None:
        self._events.append((*self.span, event))


def _call_mark(text: str) -> str:
    """What in `text` looks like a call, or ""."""
    if _CALL_OBJECT.match(text):
        return '{"name": ...}'
    return next((mark for mark in _CALL_MARKS if mark in text), "")


def _is_plausible(number: float) -> bool:
    return 0 <= number <= MOST_TOKENS


def meaning_of(raw: str, meaning: Meaning) -> Meaning:
    return "failed" if raw.lower() in FAILED_REASONS else meaning


def is_server_call(kind: PartKind, part: PartEnded) -> bool:
    """Whether the provider ran a tool. An MCP server's tool list, an item of its own in Responses,
    is not a call."""
    return kind == "server_call" and block_type(part) != "mcp_list_tools"


def block_type(part: PartEnded) -> str:
    """The provider's type of the block that became this part."""
    value = part.meta.get("block", part.meta).get("type", "")
    return value if isinstance(value, str) else ""


class Reader(Protocol):
    """Reads one answer of one protocol. `api` is its name in messages.

    `marked`: a complete stream of this protocol has a closing marker, so one without is odd.
    """

    api: str
    marked: bool

    def read(self, value: Mapping[str, Any], text: str, event: str) -> ReadOutcome:
        """Reads one object; `text` is its JSON text, `event` the name of its event, or ""."""

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        """Called once before a good end, with `answer.raw_reason` set: finish reason and meta."""

    def settle(self, whole: bool) -> None:
        """Called once before any end: writes what was held back. `whole`: it is a good end."""


class BodyDecoder:
    """A Decoder (protocols/base.py) of one response body with HTTP status `status`."""

    def __init__(self, status: int, answer: EventBuilder, reader: Reader) -> None:
        self._status = status
        self._answer = answer
        self._reader = reader
        self._framer = Framer()
        self._size = 0
        self._known = False  # content of the protocol was read
        self._cut = False  # the body ended inside a frame
        self._markers = 0
        self._text = ""  # the start of unframed text
        self._told: ProviderError | None = None

    def limit(self, limits: Limits) -> None:
        self._framer = Framer(limits.max_event_bytes)
        self._answer.most_calls = limits.max_calls_per_answer

    def advise(self, advice: Advice) -> None:
        self._answer.advice = advice

    def locate(self) -> list[CallPlace]:
        places: list[CallPlace] = []
        self._answer.places = places
        return places

    @property
    def settled(self) -> int:
        return min(self._framer.settled, self._size)

    @property
    def stray(self) -> int:
        return min(self._framer.stray, self._size)

    def feed(self, data: bytes) -> list[Spanned]:
        self._read(data)
        return self._answer.take_events()

    def end(self, clean: bool, stopped: bool = False) -> list[Spanned]:
        self._read_end(clean, stopped)
        return self._answer.take_events()

    def feed_all(self, data: bytes) -> list[ReadItem]:
        self._read(data)
        return self._answer.take_all()

    def end_all(self, clean: bool, stopped: bool = False) -> list[ReadItem]:
        self._read_end(clean, stopped)
        return self._answer.take_all()

    def _read(self, data: bytes) -> None:
        self._size += len(data)
        for frame in self._framer.feed(data):
            self._take(frame)

    def _read_end(self, clean: bool, stopped: bool) -> None:
        for frame in self._framer.end():
            self._take(frame)
        self._cut = self._cut or self._framer.unclosed
        self._answer.span = (self._size, self._size)
        self._close(clean, stopped)

    def _take(self, frame: Frame) -> None:
        self._answer.span, self._answer.sound = (frame.start, frame.end), frame.sound
        self._answer.streams = frame.kind == "sse"
        if not frame.sound:
            if frame.kind in ("sse", "json"):
                self._answer.mark_doubtful()
            self._answer.warn("bad_utf8", "Bytes that are not UTF-8 are shown as U+FFFD.")
        named = frame.event + (frame.data if frame.kind == "comment" else "")
        if len(named.splitlines()) > 1:
            self._answer.leave_unread()  # of more line ends than the specification has
        match frame.kind:
            case "sse" | "json":
                self._take_data(frame)
            case "text":
                self._take_text(frame)
            case "too_large" if self._status < 400:
                self._fail_too_large(frame)
            case "too_large":
                pass  # the status already means an error
            case "fields" | "comment":
                self._cut = self._cut or not frame.complete

    def _take_data(self, frame: Frame) -> None:
        data = frame.data.strip()
        if data == DONE:
            self._take_marker()
            return
        try:
            value = parse_json(data)
        except ValueError:
            self._take_broken(frame)
            return
        places = self._answer.places
        first = len(places) if places is not None else 0
        if not isinstance(value, dict):
            self._answer.warn("not_an_object", "An event that is not a JSON object was left out.")
        elif self._status >= 400:
            self._told = self._told or read_error(value, expected=True)
        elif self._answer.done:
            self._answer.leave_unread()
            self._answer.warn("after_end", "Data came after the end of the answer.")
        else:
            self._take_object(value, data, frame.event)
        if places is not None and self._status < 400:
            self._search(value, places[first:])

    def _search(self, value: Any, places: Sequence[CallPlace]) -> None:
        """Leaves the current frame unread if a client may find a call in it that is at none of the
        `places`."""
        own, self._answer.own_paths = self._answer.own_paths, []
        here = [place for place in places if (place.start, place.end) == self._answer.span]
        if any(place.part == UNREAD for place in here):
            return
        begun = {place.path for place in here if place.part == UNDECIDED}
        calls = {place.path for place in here if place.part != UNDECIDED}
        if has_unlocated_call(value, calls, begun=begun, own=own):
            self._answer.leave_unread()

    def _take_broken(self, frame: Frame) -> None:
        """An event that is invalid JSON: cut by the end of the body, or sent so."""
        if not frame.complete:
            self._cut = True
            self._answer.leave_unread()
        elif not frame.data.strip():
            self._answer.warn("empty_event", "An event without data was left out.")
        else:
            self._text = self._text or frame.data
            if not _ALIVE.fullmatch(frame.data.strip()):
                self._answer.mark_lost()
            self._answer.warn("bad_json", "An event that is not JSON was left out.")

    def _take_object(self, value: dict[str, Any], text: str, event: str) -> None:
        took = self._reader.read(value, text, event)
        self._known = self._known or took != "unknown"
        if took == "held":
            return
        problem = read_error(value, event) if took == "unknown" or value.get("error") else None
        if problem is not None:
            self._reader.settle(whole=False)
            self._answer.fail("error", error_sentence(problem.words), error=problem.error)
        elif took == "last":
            self._finish(marker=True)
        elif took == "unknown":
            self._text = self._text or text
            kind = str(value.get("type") or event)[:80]
            if not kind:
                start = " ".join(text.split())[:200]
                self._answer.warn("unknown_event", f"This version does not know {start}")
            elif not _QUIET_TYPE.search(kind):
                self._answer.warn("unknown_event", f"This version does not know {kind}.")

    def _take_marker(self) -> None:
        self._markers += 1
        if self._answer.done:
            # One marker after the end is a gateway repeating the end.
            if self._markers > 1:
                self._answer.warn("after_end", "Data came after the end of the answer.")
        elif self._status < 400 and self._known:
            self._finish(marker=True)

    def _take_text(self, frame: Frame) -> None:
        self._text = self._text or frame.data
        lines = [line.strip() for line in frame.data.split("\n")]
        if not all(map(_says_nothing, lines)):
            self._answer.mark_lost()
        elif self._answer.places is not None and (
            frame.end - frame.start > MAX_TEXT or any(map(has_call, lines))
        ):
            self._answer.leave_unread()  # the rest of a longer text was not kept
        if self._known and self._status < 400:
            code = "after_end" if self._answer.done else "stray_text"
            start = " ".join(frame.data.split())[:80]
            self._answer.warn(code, f'There was other data between the events: "{start}".')

    def _fail_too_large(self, frame: Frame) -> None:
        size = frame.end - frame.start
        grew = f"{size // (1024 * 1024)} MB" if size >= 1024 * 1024 else f"{size} bytes"
        self._reader.settle(whole=False)
        self._answer.leave_unread()
        self._answer.fail(
            "too_large",
            f"A single event grew beyond {grew}, so the answer was broken off. "
            "Ask for a shorter one.",
        )

    def _finish(self, marker: bool, abrupt: bool = False) -> None:
        """The answer is over by its own end, or by the end of the bytes, which may be `abrupt`."""
        answer = self._answer
        self._reader.settle(whole=bool(answer.raw_reason))
        if answer.done:
            return
        if not answer.raw_reason:
            answer.fail(
                "interrupted",
                "The answer stopped without a finish reason. Retry.",
            )
        elif answer.raw_reason.lower() in FAILED_REASONS:
            answer.fail("error", error_sentence(f"finish reason {answer.raw_reason}"))
        else:
            if not marker:
                answer.warn("no_marker", "The end marker is missing; the answer is complete.")
            if abrupt:
                answer.warn(
                    "unclean_close",
                    "The connection broke or fell silent after the finish reason, so no rule runs "
                    "a call of this answer.",
                )
            reason, meta = self._reader.ending()
            answer.end(reason, meta, abrupt=abrupt)

    def _close(self, clean: bool, stopped: bool) -> None:
        answer = self._answer
        if answer.done:
            if not clean:
                answer.warn("unclean_close", "The connection broke after the end of the answer.")
            return
        if self._status >= 400:
            words = self._told.words if self._told else " ".join(self._text.split())[:200]
            error = self._told.error if self._told else self._text[:2000] or None
            message = http_sentence(self._status, words, answer.advice, error)
            answer.fail("http", message, error=error, status=self._status)
        elif self._known and not self._cut and (clean or (answer.raw_reason and not stopped)):
            self._finish(marker=not self._reader.marked, abrupt=not clean)
        elif self._known or ((self._cut or not clean) and not self._text):
            self._reader.settle(whole=False)
            answer.fail("interrupted", "The answer broke off. Retry.")
        else:
            size = self._size if self._text else 0
            message = not_api_sentence(self._reader.api, size, self._text)
            answer.fail("not_api", message, error=self._text[:2000] or None)


def _says_nothing(line: str) -> bool:
    """Whether an invalid line cannot be content of an answer: an unknown field, a keep-alive, or
    JSON that is not an object."""
    if not line or _FIELD.fullmatch(line) or _ALIVE.fullmatch(line):
        return True
    try:
        return not isinstance(parse_json(line), dict)
    except ValueError:
        return False
