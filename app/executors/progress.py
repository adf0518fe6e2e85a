"""Progress at a pace a log can bear: the first at once, then ever more rarely.

What a tool prints is told in pieces that end with a line where they can, and is cut where it is
too much: all that one call can tell is below 3 million characters, however long it runs.
"""

from __future__ import annotations

import asyncio

from app.executors.executor import Report

PACES = ((200, 0.1), (400, 0.5), (700, 2.0), (1_000, 30.0))
"""(up to which report, how long after each nothing is told, in seconds). After the last one
nothing is told but the end."""

MAX_TEXT = 2_000
MAX_PIECE = 16_000
MAX_WHOLE = 256_000
"""Characters of words, of one piece of output, and of all pieces before they get small."""

SMALL_PIECE = 2_000


class Progress:
    """Prints add up until they are told; of several words in one interval the last are told."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._text = ""
        self._fraction: float | None = None
        self._news = False
        self._output = ""
        self._left_out = 0
        self._timer: asyncio.TimerHandle | None = None
        self._told = 0
        self._printed = 0
        self._closed = False

    def tell(self, text: str, fraction: float | None) -> None:
        """What the tool reports of itself. The fraction is 0..1 or None."""
        self._text, self._fraction, self._news = text[-MAX_TEXT:], fraction, True
        self._soon()

    def printed(self, text: str) -> None:
        """What the tool printed, as it came."""
        if text:
            whole = self._output + text
            self._output = whole[-MAX_PIECE:]
            self._left_out += len(whole) - len(self._output)
            self._soon()

    def close(self) -> None:
        """Tell what is left; nothing is told after this."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush(last=True)
        self._closed = True

    def _soon(self) -> None:
        if self._timer is None and not self._closed:
            self._flush()

    def _flush(self, *, last: bool = False) -> None:
        self._timer = None
        pace = next((seconds for most, seconds in PACES if self._told < most), None)
        if self._closed or not (self._news or self._output) or (pace is None and not last):
            return
        self._told += 1
        piece = self._piece(whole=last)
        self._news = False
        if pace is not None and not last:
            self._timer = asyncio.get_running_loop().call_later(pace, self._flush)
        self._report(self._text, self._fraction, piece)

    def _piece(self, *, whole: bool) -> str:
        """What was printed, up to its last line's end, and what of it is left out."""
        end = len(self._output) if whole else self._output.rfind("\n") + 1 or len(self._output)
        piece, self._output = self._output[:end], self._output[end:]
        most = MAX_PIECE if self._printed < MAX_WHOLE else SMALL_PIECE
        left_out = self._left_out + max(0, len(piece) - most)
        piece, self._left_out = piece[-most:], 0
        self._printed += len(piece)
        return f"[… {left_out:,} characters are left out here …]\n{piece}" if left_out else piece
