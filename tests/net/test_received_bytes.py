"""What a connection brings counts for the task that reads, whoever made the connection."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import anyio
import httpcore
import pytest
from httpcore._backends.anyio import AnyIOStream

from playground.net.connections import listen, start_listening

pytestmark = pytest.mark.anyio


class Stream:
    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    async def read(self, most: int, timeout: float | None = None) -> bytes:
        return self.pieces.pop(0)[:most]


class Broken:
    """A stream of anyio that raises `errors`, and ends."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    async def receive(self, max_bytes: int) -> bytes:
        raise self.errors.pop(0) if self.errors else anyio.EndOfStream


@pytest.mark.parametrize(
    "errors",
    [
        [ssl.SSLError(1, "bad record mac")],  # then anyio over TLS tells of an end
        [anyio.BrokenResourceError(), anyio.BrokenResourceError()],  # which is told again
    ],
)
async def test_an_error_is_no_end(errors: list[Exception]) -> None:
    connection: Any = AnyIOStream(Broken(*errors))  # type: ignore[arg-type]
    listen(connection)
    with pytest.raises(httpcore.ReadError):
        await connection.read(9)
    assert await connection.read(9) == b""


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
