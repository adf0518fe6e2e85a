"""What many want to write of one session at the same time, written in few holds of it.

Whoever stops the session is in line behind one hold, and not behind all who wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from app.core.errors import IllegalEvent

T = TypeVar("T")


class GroupedWrites(Generic[T]):
    """`write` writes several items of a session, at most `most`, in one hold, and says of each why
    it could not, or None; what it raises is said of all of them."""

    def __init__(
        self, write: Callable[[str, Sequence[T]], Awaitable[Sequence[Exception | None]]], most: int
    ) -> None:
        self._write = write
        self._most = most
        self._waiting: dict[str, deque[tuple[T, asyncio.Future[None]]]] = {}
        self._writers: set[asyncio.Task[None]] = set()

    async def written(self, session_id: str, item: T) -> None:
        """Until `item` is written; raises why it could not be. Who leaves before its turn has
        come takes it back."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if (waiting := self._waiting.get(session_id)) is not None:
            waiting.append((item, done))
        else:
            self._waiting[session_id] = deque([(item, done)])
            writer = asyncio.create_task(self._write_all(session_id))
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        await done

    async def close(self) -> None:
        """Until nothing is being written any more."""
        if self._writers:
            await asyncio.wait(self._writers)

    async def _write_all(self, session_id: str) -> None:
        waiting = self._waiting[session_id]
        while waiting:
            asked = [waiting.popleft() for _ in range(min(self._most, len(waiting)))]
            asked = [one for one in asked if not one[1].done()]
            for (_, done), error in zip(asked, await self._tried(session_id, asked), strict=True):
                if done.done():
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
        del self._waiting[session_id]

    async def _tried(
        self, session_id: str, asked: Sequence[tuple[T, asyncio.Future[None]]]
    ) -> Sequence[Exception | None]:
        if not asked:
            return []
        try:
            return await self._write(session_id, [item for item, _ in asked])
        except IllegalEvent as error:
            if len(asked) == 1:
                return [error]
            # All or none is written of several: one that cannot follow takes no other with it.
            return [(await self._tried(session_id, [one]))[0] for one in asked]
        except Exception as error:
            return [error] * len(asked)
