"""The last events of a session, which streams of pages catch up from."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from itertools import islice, takewhile

from app.core.events import Logged, PartDelta, PartEnded, PromptAdded, RequestSent

RECENT = 4096
"""How many events of a session are kept in memory for streams to catch up from; beyond it they
start again."""

RECENT_CHARACTERS = 1024 * 1024
"""... and how many characters of text."""

FEW = 64
RECENT_MS = 5_000
"""Beyond the last FEW, events that came so long before the last one are not kept either."""


class RecentEvents:
    """The last events of a session with their positions, oldest first: always the very last,
    however large that is. Without the spans of their bytes, which no stream shows: of a fast
    answer these are hundreds, and with what they are made of the most of its memory."""

    def __init__(self, start: int) -> None:
        self._events: deque[Logged] = deque()
        self._positions = array("Q")  # those of `_events` are the last ones
        self._start = start  # the position after which all events are there
        self._characters = 0

    def __len__(self) -> int:
        return len(self._events)

    def append(self, position: int, logged: Logged) -> None:
        events, positions = self._events, self._positions
        events.append(Logged(logged.seq, logged.at_ms, logged.event))
        positions.append(position)
        self._characters += _characters(logged)
        while len(events) > 1 and (
            len(events) > RECENT
            or self._characters > RECENT_CHARACTERS
            or (len(events) > FEW and events[0].at_ms < logged.at_ms - RECENT_MS)
        ):
            self._start = positions[-len(events)]
            self._characters -= _characters(events.popleft())
        if len(positions) > 2 * len(events) + FEW:
            del positions[: -len(events)]

    def since(self, position: int) -> list[Logged] | None:
        """Those after `position`, or None where not all of them are there."""
        if position < self._start:
            return None
        older = len(self._positions) - len(self._events)
        return self._last(len(self._positions) - bisect_right(self._positions, position, older))

    def since_seq(self, seq: int) -> list[Logged]:
        """Those after event `seq` of the session that are there."""
        later = takewhile(lambda logged: logged.seq > seq, reversed(self._events))
        return self._last(sum(1 for _ in later))

    def _last(self, count: int) -> list[Logged]:
        last = list(islice(reversed(self._events), count))
        last.reverse()
        return last


def _characters(logged: Logged) -> int:
    match logged.event:
        case PartDelta(text=text) | PartEnded(text=text):
            return len(text)
        case RequestSent(body=body):
            return len(body)
        case PromptAdded(text=text, images=images):
            return len(text) + sum(len(image.data) for image in images)
    return 0
