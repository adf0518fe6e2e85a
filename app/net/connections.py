"""The connections beneath our requests, as httpcore makes them: what they bring, and their end.

httpcore shields what it closes from anyio's cancellations, and not from those of asyncio
(`Task.cancel`, `asyncio.timeout`). One that comes while it closes several connections loses the
others, which are out of its pool by then: they stay open until they are collected as garbage. One
that comes a moment after another, or at the end of a body, leaves a connection open and in use by
no request. https://github.com/encode/httpx/issues/3782
So a connection here is closed without a pause, in which nothing can be cancelled, and whatever
ends a request before its time closes the connections that it used.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from app.core.late import dataclass

if TYPE_CHECKING:
    from app.net.client import httpx


class Connections:
    """The connections that one request opens or writes to; those of httpcore, whose type is
    private. `trace` is an extension of the request."""

    def __init__(self) -> None:
        self._used: list[Any] = []

    async def trace(self, name: str, info: Mapping[str, Any]) -> None:
        if name.endswith((".connect_tcp.complete", ".start_tls.complete")):
            connection = info["return_value"]
            listen(connection)
            note_use(connection)
            close_without_pause(connection)
            keep_socket(connection)
            self._used.append(connection)

    @asynccontextmanager
    async def closed_on_error(self) -> AsyncIterator[None]:
        """For as long as no head of an answer has come. httpcore leaves a connection whose TLS
        handshake is cancelled to the garbage collector, too."""
        token = _USED.set(self._used)
        try:
            yield
        except BaseException:
            for connection in self._used:
                await connection.aclose()
            raise
        finally:
            _USED.reset(token)


async def next_piece(source: AsyncIterator[bytes], response: httpx.Response) -> bytes:
    """The next piece of the body of `response` from `source`, b"" at its end. What raises closes
    the connection, which is no other request's yet."""
    try:
        return await anext(source, b"")
    except BaseException:
        await _close_connection(response)
        raise


async def close_response(response: httpx.Response) -> None:
    """The connection is kept where the body was read to its end, and closed where it was not."""
    try:
        await response.aclose()
    except BaseException:  # it is no other request's yet
        await _close_connection(response)
        raise


async def _close_connection(response: httpx.Response) -> None:
    connection = response.extensions.get("network_stream")
    if connection is not None:
        await connection.aclose()


_USED: ContextVar[list[Any]] = ContextVar("used")
"""The connections of the request that this task sends."""


def note_use(connection: Any) -> None:
    """From now on, whatever request writes to `connection` of httpcore has it among its own."""
    write = connection.write

    async def note_and_write(*args: Any, **named: Any) -> None:
        used = _USED.get([])
        if connection not in used:
            used.append(connection)
        await write(*args, **named)

    connection.write = note_and_write


def close_without_pause(connection: Any) -> None:
    """Let `connection` of httpcore close before its `aclose` would first wait: anyio cuts a socket
    off at once, and what it waits for then is only that others have their turn."""
    close = connection.aclose

    async def close_at_once() -> None:
        closing = close()
        try:
            closing.send(None)
        except StopIteration:
            return
        closing.close()

    connection.aclose = close_at_once


def keep_socket(connection: Any) -> None:
    """Let `connection` of httpcore tell from its socket whether something has come. Each idle one
    is asked that whenever a request begins or ends; anyio looks up all that it could say of it,
    addresses among them, each time."""
    tell, sock = connection.get_extra_info, connection.get_extra_info("socket")

    def tell_at_once(info: str) -> Any:
        return _is_readable(sock) if info == "is_readable" and sock is not None else tell(info)

    connection.get_extra_info = tell_at_once


def _is_readable(sock: Any) -> bool:
    """Whether there is something to be read, the end among it; also where it is closed."""
    if sock.fileno() < 0:
        return True
    looking = select.poll()
    looking.register(sock.fileno(), select.POLLIN)
    return bool(looking.poll(0))


class PoolTurn:
    """Of requests that begin together, one at a time takes its connection: httpcore gives an idle
    one to all of them, of which all but the first have to look through the whole pool again. A
    turn ends with the first step that the trace of its request tells, or with the request."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Callable[[], None]]:
        """What ends the turn before the block does."""
        await self._lock.acquire()
        ended = False

        def end() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._lock.release()

        try:
            yield end
        finally:
            end()


# Whether any byte of an answer has come ---------------------------------------------------------
# Of an answer that broke off in its head, neither httpx nor h11 tell it from none at all; but only
# where nothing came may the request be sent again by itself.


@dataclass
class Arrived:
    """What is known of the answer to the request of this task."""

    anything: bool = False


# A connection outlives the request that made it: what it brings is for the task that reads.
_ARRIVED: ContextVar[Arrived] = ContextVar("arrived")


def start_listening() -> Arrived:
    """From now on, what this task reads counts here."""
    arrived = Arrived()
    _ARRIVED.set(arrived)
    return arrived


def listen(connection: Any) -> None:
    """Note whatever `connection` of httpcore brings. Without a time limit, and none of our reads
    has one, a read is of the stream beneath: the two context managers that httpcore puts around
    each take as long as all else that a short piece needs."""
    read = connection.read
    receive = getattr(getattr(connection, "_stream", None), "receive", None)

    async def read_and_note(max_bytes: int, timeout: float | None = None) -> bytes:
        data = b""
        if timeout is None and receive is not None:
            # The end and an error come again below, and httpcore words them.
            with suppress(Exception):
                data = await receive(max_bytes)
        if not data:
            data = await read(max_bytes, timeout)
        if data and (arrived := _ARRIVED.get(None)) is not None:
            arrived.anything = True
        return data

    connection.read = read_and_note
