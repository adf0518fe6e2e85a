"""The last few sessions that were replayed, laid out and folded: a jump reads nothing again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from app.engine.sessions import Hub
from app.render.replay import Fixed, Player
from app.render.timeline import reel

T = TypeVar("T")

KEPT = 3
"""Sessions that are kept; more are laid out again when they are asked for."""


@dataclass
class _Laid:
    """`seq` and `title` are what the session had when it was laid out."""

    seq: int
    title: str
    player: Player
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Reels:
    """Players by session, the last ones that were asked for."""

    def __init__(self) -> None:
        self._laid: OrderedDict[str, _Laid] = OrderedDict()

    async def drawn(
        self, hub: Hub, session_id: str, draw: Callable[[Player], T], *, anew: bool = False
    ) -> T:
        """What `draw` makes of the session's player, in a thread; NotFound where there is none.

        A replay that is under way goes on with the session as it was laid out; with `anew` what
        has come since is in it.
        """
        laid = await self._of(hub, session_id, anew)
        async with laid.lock:
            return await asyncio.to_thread(draw, laid.player)

    async def _of(self, hub: Hub, session_id: str, anew: bool) -> _Laid:
        async with hub.holding(session_id) as live:
            seq, title = live.session.seq, live.title
            laid = self._laid.get(session_id)
            stale = laid is not None and anew and (laid.seq, laid.title) != (seq, title)
            if laid is None or stale:
                log = await hub.log.events(session_id)
                pieces: dict[int, list[tuple[int, bytes]]] = {}
                for chunk in await hub.log.chunks(session_id):
                    pieces.setdefault(chunk.recording, []).append((chunk.at_ms, chunk.data))
                found = await asyncio.to_thread(reel, session_id, log, pieces)
                laid = _Laid(seq, title, Player(found, Fixed(session_id, title, hub.clock())))
                self._laid[session_id] = laid
        self._laid.move_to_end(session_id)
        while len(self._laid) > KEPT:
            self._laid.popitem(last=False)
        return laid
