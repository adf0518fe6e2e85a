"""What is measured of one request, and in which words it is said. Times in ms since the request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.events import (
    Event,
    PartDelta,
    PartEnded,
    PartStarted,
    ResponseEnded,
    ResponseFailed,
    Usage,
)
from app.render.filters import duration, number, plural


@dataclass
class Measures:
    """Fed with what comes. `gap_ms` is the longest time between two pieces of the answer, and
    `gap_at_ms` when it began; `tokens` are those written, None where nobody said how many."""

    size: int = 0
    frames: int = 0
    first_byte_ms: int | None = None
    first_token_ms: int | None = None
    first_call_ms: int | None = None
    last_ms: int = 0
    gap_ms: int = 0
    gap_at_ms: int = 0
    tokens: int | None = None
    ended: bool = False

    def fed(self, at_ms: int, size: int, frames: int) -> bool:
        """`size` bytes came, and `frames` frames were whole with them; whether `said` says more."""
        new = self.first_byte_ms is None or self.ended
        if self.first_byte_ms is None:
            self.first_byte_ms = at_ms
        elif at_ms - self.last_ms > self.gap_ms:
            self.gap_ms, self.gap_at_ms = at_ms - self.last_ms, self.last_ms
        self.last_ms = at_ms
        self.size += size
        self.frames += frames
        return new

    def told(self, event: Event, at_ms: int) -> bool:
        """Take what an event tells; whether that is anything new."""
        match event:
            case PartStarted(part_kind="call") if self.first_call_ms is None:
                self.first_call_ms = at_ms
                return True
            case PartDelta() | PartEnded() if self.first_token_ms is None:
                self.first_token_ms = at_ms
                return True
            case ResponseEnded(usage=usage) | ResponseFailed(usage=usage):
                self._over(usage)
                return True
        return False

    def _over(self, usage: Usage) -> None:
        self.tokens = usage.output_tokens
        self.ended = True

    @property
    def rate(self) -> float | None:
        """Tokens per second, from the first token to the last byte; None where it means nothing:
        an answer in one piece, or tokens that nobody counted."""
        first = self.first_token_ms
        if first is None or not self.tokens or self.last_ms <= first:
            return None
        return self.tokens / ((self.last_ms - first) / 1000)

    def said(self) -> list[tuple[str, str]]:
        """(name, value) of all that is known so far."""
        times = (
            ("First byte", self.first_byte_ms),
            ("First token", self.first_token_ms),
            ("First call", self.first_call_ms),
        )
        rows = [(name, duration(ms)) for name, ms in times if ms is not None]
        if self.ended and self.rate is not None:
            rows.append(("Tokens per second", f"{self.rate:.1f}"))
        if self.ended and self.gap_ms:
            rows.append(("Longest gap", f"{duration(self.gap_ms)} at {duration(self.gap_at_ms)}"))
        if self.ended:
            rows.append(("Received", f"{number(self.size)} bytes, {plural(self.frames, 'frame')}"))
        return rows


def state(status: int | None, measures: Measures, content_type: str) -> str:
    """What kind of answer it was, where that is not an answer that streamed; "" for one."""
    if status is None:
        return "No answer came: not one byte was received." if measures.ended else ""
    if not measures.ended:
        return ""
    if not measures.size:
        return f"Answered with status {status} and an empty body."
    if status >= 400:
        return f"Refused with status {status}; what came is an error and no stream."
    if measures.frames <= 1 and "json" in content_type and "nd" not in content_type:
        return "Not streamed: the whole answer came as one JSON body."
    return ""


_LIMIT = re.compile(
    r"(?:anthropic-|x-)?ratelimit-(?:(limit|remaining|reset)-?(.*)|(.*?)-(limit|remaining|reset))"
)
_SECONDS = re.compile(r"\d+(?:\.\d+)?")


def limits_said(headers: Mapping[str, str]) -> list[str]:
    """What the headers say of rate limits: "requests: 48 of 50 left, resets in 12 s". What is in
    no known form stands as it came."""
    kinds: dict[str, dict[str, str]] = {}
    said: list[str] = []
    for name, value in sorted((name.lower(), value) for name, value in headers.items()):
        match = _LIMIT.fullmatch(name)
        if match is not None:
            what, kind = (match[1], match[2]) if match[1] else (match[4], match[3])
            kinds.setdefault(kind or "requests", {})[what] = value
        elif name.startswith("retry-after"):
            unit = " ms" if name.endswith("-ms") else " s" if _SECONDS.fullmatch(value) else ""
            said.append(f"asks to wait {value}{unit}")
        elif "ratelimit" in name.replace("-", ""):
            said.append(f"{name}: {value}")
    return [*(_of_kind(kind, values) for kind, values in kinds.items()), *said]


def _of_kind(kind: str, values: Mapping[str, str]) -> str:
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
