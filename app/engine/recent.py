"""The last events of all sessions, for streams to catch up from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from app.core.events import Logged, PartDelta, PartEnded, PromptAdded, RequestSent

RECENT = 50_000
"""How many events are kept in memory for streams to catch up from; beyond it they start anew."""

RECENT_CHARACTERS = 8 * 1024 * 1024
"""... and how many characters of text."""


@dataclass(frozen=True)
class SavedEvent:
    """An event that is saved, with its global position."""

    position: int
    session: str
    logged: Logged


class RecentEvents(deque[SavedEvent]):
    """Oldest first, and always the very last, however large that is. `characters` counts those of
    the texts that may be large."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = 0

    def append(self, seen: SavedEvent) -> None:
        super().append(seen)
        self.characters += _characters(seen)
        while len(self) > RECENT or (self.characters > RECENT_CHARACTERS and len(self) > 1):
            self.popleft()

    def popleft(self) -> SavedEvent:
        seen = super().popleft()
        self.characters -= _characters(seen)
        return seen


def _characters(seen: SavedEvent) -> int:
    match seen.logged.event:
        case PartDelta(text=text) | PartEnded(text=text):
            return len(text)
        case RequestSent(body=body):
            return len(body)
        case PromptAdded(text=text, images=images):
            return len(text) + sum(len(image.data) for image in images)
    return 0
