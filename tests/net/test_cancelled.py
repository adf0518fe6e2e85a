"""What is cancelled leaves no connection open, however far it had come."""

from __future__ import annotations

import asyncio
import gc
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import Callable
from contextlib import suppress

import pytest

from playground.core.settings import Limits
from playground.net.client import HttpClient
from tests.tables import rest_slow

pytestmark = pytest.mark.anyio

LIMITS = Limits(connect_s=50.0, first_byte_s=50.0, idle_s=50.0, wall_s=50.0)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
KEPT = 3


class Server:
    """Answers KEPT requests at once, each on a connection of its own, which the client keeps; it
    ends these as soon as `expire` is set. The next request is answered `at_last`; where that is
    a whole answer, the other connections end before it."""

    def __init__(self, at_last: bytes) -> None:
        self.open: set[Writer] = set()
        self.asked = 0
        self.changed = asyncio.Condition()
        self.expire = asyncio.Event()
        self._at_last = at_last
        self._expired = 0

    async def serve(self, reader: Reader, writer: Writer) -> None:
        self.open.add(writer)
        try:
            await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.open.discard(writer)
            await self.note()

    async def _answer(self, reader: Reader, writer: Writer) -> None:
        await self._request(reader)
        if self.asked <= KEPT:
            await self.until(lambda: self.asked >= KEPT)
            writer.write(HEAD + b"ok")
            again = asyncio.create_task(self._request(reader))
            expire = asyncio.create_task(self.expire.wait())
            await asyncio.wait((again, expire), return_when=asyncio.FIRST_COMPLETED)
            expire.cancel()
            if not again.done():
                writer.write_eof()
                self._expired += 1
                await self.note()
            await again  # raises where the client lets go
        if self._at_last.endswith(b"ok"):
            self.expire.set()
            await self.until(lambda: self._expired == len(self.open) - 1)
        writer.write(self._at_last)
        assert await reader.read() == b""

    async def _request(self, reader: Reader) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        await self.note()

    async def note(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(30), self.changed:
            await self.changed.wait_for(condition)

    async def expired(self) -> None:
        self.expire.set()
        await self.until(lambda: self._expired == KEPT)


async def ask(net: HttpClient, way: str, url: str, came: asyncio.Event | None = None) -> None:
    headers = [(b"host", b"here"), (b"content-length", b"0")]
    request = (
        net.open("GET", url, {}, b"", LIMITS)
        if way == "open"
        else net.relay("GET", url, b"/", headers, b"")
    )
    async with request as answer:
        async for _ in answer.chunks():
            if came is not None:
                came.set()


async def cancelled(way: str, when: str, rounds: tuple[int, int]) -> int:
    """How many connections are still open that should not be, where the request is cancelled so
    many rounds of the loop after `when`, and once more so many rounds after that."""
    server = Server(HEAD + (b"ok" if when == "ending" else b"" if when == "reused" else b"o"))
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    net, came = HttpClient(), asyncio.Event()
    try:
        await asyncio.gather(*(ask(net, way, url) for _ in range(KEPT)))
        if when == "starting":
            await server.expired()
        task = asyncio.create_task(ask(net, way, url, came))
        match when:
            case "starting":
                await asyncio.sleep(0)
            case "reused":
                await server.until(lambda: server.asked > KEPT)
            case "ending":
                async with asyncio.timeout(30):  # in this task: the next round has begun then
                    await came.wait()
        for count in rounds:
            for _ in range(count):
                await asyncio.sleep(0)
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        # At the very end of an answer, the pool has not looked for those that expired.
        ending = 1 if rounds[0] else KEPT - 1
        most = {"starting": 0, "reused": KEPT - 1, "ending": ending}[when]
        with suppress(TimeoutError):
            await server.until(lambda: len(server.open) <= most)
        return max(0, len(server.open) - most)
    finally:
        await net.aclose()
        listener.close()
        for writer in server.open:
            writer.transport.abort()


@pytest.mark.parametrize("way", ["open", "relay"])
@pytest.mark.parametrize("when", rest_slow(["reused", "starting", "ending"]))
async def test_no_connection_stays_open(way: str, when: str) -> None:
    """Neither that of the request, nor those that expired meanwhile, which are closed on its way:
    at once, and not when the garbage is collected."""
    gc.disable()
    try:
        for first in range(8 if when == "starting" else 5):
            for again in range(3):
                assert await cancelled(way, when, (first, again)) == 0, (first, again)
    finally:
        gc.enable()
