"""Progress at a pace a log can bear: the first at once, then at most one each interval."""

from __future__ import annotations

import asyncio

from app.executors.executor import Report

INTERVAL_S = 0.1
MAX_TEXT = 2_000
MAX_REPORTS = 1_000


class Progress:
    """Prints add up until they are told; of several reports in one interval the last is told."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._pending: tuple[str, float | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._told = 0
        self._fraction: float | None = None

    def tell(self, text: str, fraction: float | None) -> None:
        """What the tool reports of itself. The fraction is 0..1 or None."""
        self._fraction = fraction
        self._add(text)

    def printed(self, text: str) -> None:
        """What the tool printed; empty lines say nothing."""
        before = self._pending[0] + "\n" if self._pending else ""
        if text.strip():
            self._add(before + text.strip("\n"))

    def close(self) -> None:
        """Tell what is left; nothing is told after this."""
        self._flush()
        if self._timer is not None:
            self._timer.cancel()
        self._told = MAX_REPORTS

    def _add(self, text: str) -> None:
        self._pending = (text[-MAX_TEXT:], self._fraction)
        if self._timer is None:
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        if self._pending is None or self._told >= MAX_REPORTS:
            return
        self._told += 1
        text, fraction = self._pending
        self._pending = None
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self._flush)
        self._report(text, fraction)
