"""Playing an answer over ASGI: frame after frame at a pace, with an end that may be none.

A dropped connection is an ASGI application that returns before its response is complete: a server
can then do nothing but close. Knows nothing of protocols.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import anyio
from starlette.types import Receive, Scope, Send

from app.protocols.server import OutgoingFrame

Sleep = Callable[[float], Awaitable[None]]

_MOST = 16_384
"""Bytes that are sent together where nothing asks for a pause between them."""


@dataclass(frozen=True)
class SimulatorPace:
    """How fast the simulator speaks: 1 is a person's reading pace, 0 no pause at all."""

    factor: float = 1.0

    def pause(self, seconds: float) -> float:
        return seconds * self.factor

    def times(self, factor: float) -> SimulatorPace:
        return SimulatorPace(self.factor * factor)


@dataclass(frozen=True)
class Played:
    """An ASGI response: status, headers, then the frames. `sleep` takes seconds."""

    status: int
    headers: Mapping[str, str]
    frames: Iterable[OutgoingFrame]
    pace: SimulatorPace
    sleep: Sleep = anyio.sleep

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Plays until the end, or until nobody listens any more."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._until_gone, receive, group.cancel_scope)
            await self._play(send)
            group.cancel_scope.cancel()

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _play(self, send: Send) -> None:
        started = False
        for pause, data, tag in self._sends():
            if pause > 0:
                await self.sleep(pause)
            if not started:
                await send(self._start())
                started = True
            match tag:
                case "cut" | "reset":
                    return
                case "stall":
                    await anyio.sleep_forever()
                case _:
                    await send({"type": "http.response.body", "body": data, "more_body": True})
                    await anyio.lowlevel.checkpoint()
        if not started:
            await send(self._start())
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _start(self) -> dict[str, object]:
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return {"type": "http.response.start", "status": self.status, "headers": headers}

    def _sends(self) -> Iterator[tuple[float, bytes, str]]:
        """(pause before, bytes, tag) for each send: deltas without a pause go out together."""
        held, size, wait = list[bytes](), 0, 0.0
        for frame in self.frames:
            pause = frame.pause if frame.tag == "slow" else self.pace.pause(frame.pause)
            joins = frame.tag in ("text", "args") and pause == 0 and size < _MOST
            if held and not joins:
                yield wait, b"".join(held), "held"
                held, size = [], 0
            if frame.tag not in ("text", "args"):
                yield pause, frame.data, frame.tag
                continue
            wait = wait if held else pause
            held.append(frame.data)
            size += len(frame.data)
        if held:
            yield wait, b"".join(held), "held"
