"""Decodes response bodies: what every protocol has in common (frames, errors, the end of bytes).

A protocol's own half is a Reader: it takes one JSON object after the other and writes to an
Answer. What the end of a body means is decided here and nowhere else: docs/laws.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Protocol

from app.core.events import EndReason
from app.core.settings import Limits
from app.protocols.base import ReadItem, Spanned
from app.protocols.builder import FAILED_REASONS, EventBuilder
from app.protocols.errors import (
    Advice,
    ProviderError,
    error_sentence,
    http_sentence,
    not_api_sentence,
    read_error,
)
from app.protocols.framing import Frame, Framer
from app.protocols.raw_json import parse_json

Took = Literal["unknown", "known", "held", "last"]
"""What a Reader made of an object: nothing, something, an error that it tells itself when more of
it came or nothing else did, or the end of the answer.
"""

DONE = "[DONE]"
"""The closing marker of some protocols; gateways send it in others, too."""


_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}:[^{}\"]*")
"""A line with a field of its own, which readers of event streams ignore."""
_ALIVE = re.compile(r"(?:ping|pong|keep-?alive|heartbeat|(?:openrouter )?processing)", re.I)
"""The words by which gateways say that they live; anything else that is no JSON is a lost event."""


class Reader(Protocol):
    """One answer in one protocol. `api` is its name for a sentence.

    `marked` is whether a stream of this protocol closes with a marker, so that one without is odd.
    """

    api: str
    marked: bool

    def read(self, value: Mapping[str, Any], text: str, event: str) -> Took:
        """Take one object; `text` is its JSON text, `event` the name of its event, or ""."""

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        """Called once before the good end, with `answer.raw_reason` set: its word for it, meta."""

    def settle(self, whole: bool) -> None:
        """Called once before any end: write what was held back. `whole`: it is a good end."""


class BodyDecoder:
    """A Decoder (app/protocols/base.py) of one response body of HTTP status `status`."""

    def __init__(self, status: int, answer: EventBuilder, reader: Reader) -> None:
        self._status = status
        self._answer = answer
        self._reader = reader
        self._framer = Framer()
        self._size = 0
        self._known = False  # something of the protocol was read
        self._cut = False  # the body ended inside a frame
        self._markers = 0
        self._text = ""  # the start of what is no frame of any protocol
        self._told: ProviderError | None = None

    def limit(self, limits: Limits) -> None:
        self._framer = Framer(limits.max_event_bytes)
        self._answer.most_calls = limits.max_calls_per_answer

    def advise(self, advice: Advice) -> None:
        self._answer.advice = advice

    @property
    def settled(self) -> int:
        return min(self._framer.settled, self._size)

    def feed(self, data: bytes) -> list[Spanned]:
        self._read(data)
        return self._answer.take_events()

    def end(self, clean: bool, stopped: bool = False) -> list[Spanned]:
        self._read_end(clean, stopped)
        return self._answer.take_events()

    def hear(self, data: bytes) -> list[ReadItem]:
        self._read(data)
        return self._answer.take_all()

    def hear_end(self, clean: bool, stopped: bool = False) -> list[ReadItem]:
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
        if not frame.sound:
            if frame.kind in ("sse", "json"):
                self._answer.doubt()
            self._answer.warn("bad_utf8", "Bytes that are no UTF-8 are shown as U+FFFD.")
        match frame.kind:
            case "sse" | "json":
                self._take_data(frame)
            case "text":
                self._take_text(frame)
            case "too_large" if self._status < 400:
                self._fail_too_large(frame)
            case "too_large":
                pass  # The status has told already that this is an error.
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
        if not isinstance(value, dict):
            self._answer.warn("not_an_object", "An event that is no JSON object was left out.")
        elif self._status >= 400:
            self._told = self._told or read_error(value, expected=True)
        elif self._answer.done:
            self._answer.warn("after_end", "Something came after the end of the answer.")
        else:
            self._take_object(value, data, frame.event)

    def _take_broken(self, frame: Frame) -> None:
        """An event that is no JSON: cut by the end of the body, or sent so."""
        if not frame.complete:
            self._cut = True
        elif not frame.data.strip():
            self._answer.warn("empty_event", "An event without data was left out.")
        else:
            self._text = self._text or frame.data
            if not _ALIVE.fullmatch(frame.data.strip()):
                self._answer.lose()
            self._answer.warn("bad_json", "An event that is no JSON was left out.")

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
            kind = str(value.get("type") or event or "an object without a type")[:80]
            self._answer.warn("unknown_event", f"This version does not know {kind}.")

    def _take_marker(self) -> None:
        self._markers += 1
        if self._answer.done:
            # One marker after the end is the end, told twice by a gateway.
            if self._markers > 1:
                self._answer.warn("after_end", "Something came after the end of the answer.")
        elif self._status < 400 and self._known:
            self._finish(marker=True)

    def _take_text(self, frame: Frame) -> None:
        self._text = self._text or frame.data
        if not all(_says_nothing(line.strip()) for line in frame.data.split("\n")):
            self._answer.lose()
        if self._known and self._status < 400:
            code = "after_end" if self._answer.done else "stray_text"
            start = " ".join(frame.data.split())[:80]
            self._answer.warn(code, f'Between the events stood something else: "{start}".')

    def _fail_too_large(self, frame: Frame) -> None:
        size = frame.end - frame.start
        grew = f"{size // (1024 * 1024)} MB" if size >= 1024 * 1024 else f"{size} bytes"
        self._reader.settle(whole=False)
        self._answer.fail(
            "too_large",
            f"A single event grew beyond {grew}, so the answer was broken off. "
            "Ask for a shorter one.",
        )

    def _finish(self, marker: bool, abrupt: bool = False) -> None:
        """The answer is over by its own word, or by the end of the bytes, which may be `abrupt`."""
        answer = self._answer
        self._reader.settle(whole=bool(answer.raw_reason))
        if answer.done:
            return
        if not answer.raw_reason:
            answer.fail(
                "interrupted",
                "The answer stopped without a finish reason. Retry to ask again.",
            )
        elif answer.raw_reason.lower() in FAILED_REASONS:
            answer.fail("error", error_sentence(f"finish reason {answer.raw_reason}"))
        else:
            if not marker:
                answer.warn("no_marker", "The closing marker is missing; the answer is whole.")
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
            answer.fail("interrupted", "The answer broke off. Retry to ask again.")
        else:
            size = self._size if self._text else 0
            message = not_api_sentence(self._reader.api, size, self._text)
            answer.fail("not_api", message, error=self._text[:2000] or None)


def _says_nothing(line: str) -> bool:
    """Whether a line that is no event can be no piece of an answer either: a field of its own, a
    sign of life, or JSON that is no object.
    """
    if not line or _FIELD.fullmatch(line) or _ALIVE.fullmatch(line):
        return True
    try:
        return not isinstance(parse_json(line), dict)
    except ValueError:
        return False
