"""What a connection brings counts for the task that reads, whoever made the connection."""

from __future__ import annotations

import asyncio

import pytest

from app.net.connections import listen, start_listening

pytestmark = pytest.mark.anyio


class Stream:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    async def read(self, most: int, timeout: float | None = None) -> bytes:
        return self.pieces.pop(0)[:most]


async def test_a_byte_counts_for_the_reader_and_the_end_does_not() -> None:
    stream, first = Stream(b"", b"x", b"y"), start_listening()
    listen(stream)
    assert (await stream.read(9), first.anything) == (b"", False)

    async def another() -> bool:
        own = start_listening()
        await stream.read(9)
        return own.anything

    assert await asyncio.create_task(another())
    assert not first.anything
    assert (await stream.read(9), first.anything) == (b"y", True)
