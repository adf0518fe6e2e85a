"""The number of concurrent runs per provider, and the rest of a batch's budget.

A lane is a provider's address. It halves its concurrency when the provider reports overload, waits
as long as it requests, and adds one run after as many successful ones as its concurrency.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from playground.core.session import Session

AT_ONCE = 16
"""The maximum number of concurrent runs of a batch per provider."""

TOO_MUCH = frozenset((429, 503, 529))
"""Status codes by which a provider reports overload."""

LONGEST_S = 120.0
"""The maximum wait requested by headers, in seconds: longer limits are left to the run itself."""

_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_DURATION = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?")


class ProviderLane:
    """`clock` counts seconds."""

    def __init__(self, clock: Callable[[], float], at_once: int = AT_ONCE) -> None:
        self._clock = clock
        self.most = self.at_once = at_once
        self.running = 0
        self._went_well = 0
        self._resumes_at = 0.0
        self._changed = asyncio.Event()

    @property
    def waits_s(self) -> float:
        """Seconds until the provider may be asked again."""
        return max(0.0, self._resumes_at - self._clock())

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A slot for one run, as soon as one is free."""
        while self.running >= self.at_once or self.waits_s:
            self._changed.clear()
            if self.running < self.at_once:
                await asyncio.sleep(self.waits_s)
            else:
                await self._changed.wait()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._changed.set()

    def hold(self, wait_s: float) -> None:
        """Starts no request for this long."""
        self._resumes_at = max(self._resumes_at, self._clock() + min(wait_s, LONGEST_S))

    def slow_down(self, wait_s: float) -> None:
        self.at_once = max(1, self.at_once // 2)
        self._went_well = 0
        self.hold(wait_s)

    def speed_up(self) -> None:
        """A run ended without such a status."""
        self._went_well += 1
        if self._went_well >= self.at_once < self.most:
            self.at_once, self._went_well = self.at_once + 1, 0
            self._changed.set()


class LaneWatch:
    """Reads the events of a run's session for what the provider reports about its limits."""

    def __init__(self, lane: ProviderLane, now: Callable[[], datetime]) -> None:
        self._lane = lane
        self._now = now
        self._answered = 0
        self._retried = 0
        self.warned = False

    def look(self, session: Session) -> None:
        retrying, turn = session.retrying, session.turn
        if retrying is not None and retrying.turn != self._retried:
            self._retried = retrying.turn
            if retrying.reason in {str(status) for status in TOO_MUCH}:
                self._lane.slow_down(retrying.wait_s)
                self.warned = True
        if turn is not None and turn.response is not None and turn.number != self._answered:
            self._answered = turn.number
            if wait_s := exhausted_wait_s(turn.response.headers, self._now()):
                self._lane.hold(wait_s)


def exhausted_wait_s(headers: Mapping[str, str], now: datetime) -> float:
    """Seconds until a limit with no requests or tokens left is reset, according to the headers of
    an answer; 0 if all have some.

    https://platform.openai.com/docs/guides/rate-limits: `x-ratelimit-remaining-requests`, and
    `x-ratelimit-reset-requests` as `1m30s`; https://docs.claude.com/en/api/rate-limits:
    `anthropic-ratelimit-requests-remaining`, and `anthropic-ratelimit-requests-reset` as a date.
    """
    waits = [0.0]
    for name, left in headers.items():
        if "ratelimit" in name and "remaining" in name and left.strip() == "0":
            waits.append(_seconds(headers.get(name.replace("remaining", "reset"), ""), now))
    return max(waits)


def _seconds(text: str, now: datetime) -> float:
    """Parses `6m0s`, `250ms`, `12.5`, or a date; 0 for invalid values and the past."""
    text = text.strip()
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if text and (parts := _DURATION.fullmatch(text)):
        hours, minutes, seconds, thousandths = (float(part or 0) for part in parts.groups())
        return 3600 * hours + 60 * minutes + seconds + thousandths / 1000
    try:
        return max(0.0, (datetime.fromisoformat(text) - now).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0


@dataclass
class Budget:
    """US dollars of a batch: `limit` 0 means none. Before each claim the price of the most
    expensive run so far is reserved for it and for each run in progress; so the limit is exceeded
    by no more than what those in progress cost above that."""

    limit: float
    spent: float = 0.0
    dearest: float = 0.0
    under_way: int = 0

    @property
    def allows(self) -> bool:
        """Whether one more run may be claimed."""
        reserved = (self.under_way + 1) * self.dearest
        return not self.limit or (self.spent < self.limit and self.spent + reserved <= self.limit)

    def add_cost(self, cost: float | None, *, sent: bool = True) -> None:
        """A run ended; if its cost is unknown, that of the most expensive is assumed."""
        cost = (self.dearest if sent else 0.0) if cost is None else cost
        self.spent += cost
        self.dearest = max(self.dearest, cost)
