"""Patches httpcore's connections: notes what they receive, and closes them reliably.

httpcore shields closing from anyio's cancellation, but not from asyncio's (`Task.cancel`,
`asyncio.timeout`). A cancellation while it closes several connections leaves the others open until
they are garbage-collected, as they are no longer in its pool. One shortly after another, or at the
end of a body, leaves a connection open and unused. https://github.com/encode/httpx/issues/3782 So
here a connection closes without awaiting, which cannot be cancelled, and whatever ends a request
early closes the connections that it used.
"""

from __future__ import annotations

import asyncio
import select
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpcore

if TYPE_CHECKING:
    from playground.net.client import httpx


_USED: ContextVar[list[Any]] = ContextVar("used")
"""The connections of the request that this task sends."""

# A connection outlives its first request: its data belongs to the task that reads.
_ARRIVED: ContextVar[ArrivalState] = ContextVar("arrived")


class Connections:
    """The httpcore connections that one request opens or writes to (their type is private). `trace`
    is a trace extension of the request."""

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
        """Closes them on any exception before a response head arrives. httpcore also leaves a
        connection to the garbage collector if its TLS handshake is cancelled."""
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
    """The next piece of the body of `response` from `source`, b"" at its end. On an exception
    closes the connection, which no other request uses yet."""
    try:
        return await anext(source, b"")
    except BaseException:
        await _close_connection(response)
        raise


async def close_response(response: httpx.Response) -> None:
    """Keeps the connection if the body was read to its end, else closes it."""
    try:
        await response.aclose()
    except BaseException:  # no other request uses it yet
        await _close_connection(response)
        raise


async def _close_connection(response: httpx.Response) -> None:
    connection = response.extensions.get("network_stream")
    if connection is not None:
        await connection.aclose()


def note_use(connection: Any) -> None:
    """Patches an httpcore connection: a request that writes to it adds it to its connections."""
    write = connection.write

    async def note_and_write(*args: Any, **named: Any) -> None:
        used = _USED.get([])
        if connection not in used:
            used.append(connection)
        await write(*args, **named)

    connection.write = note_and_write


def close_without_pause(connection: Any) -> None:
    """Patches an httpcore connection to close without awaiting: anyio closes the socket at once,
    and then awaits only to let other tasks run."""
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
    """Patches an httpcore connection to check readability by its socket. httpcore asks each idle
    connection whenever a request begins or ends, and anyio then computes all extra info, including
    addresses."""
    tell, sock = connection.get_extra_info, connection.get_extra_info("socket")

    def tell_at_once(info: str) -> Any:
        return _is_readable(sock) if info == "is_readable" and sock is not None else tell(info)

    connection.get_extra_info = tell_at_once


def _is_readable(sock: Any) -> bool:
    """Whether the socket has data or has ended; also if it is closed."""
    if sock.fileno() < 0:
        return True
    looking = select.poll()
    looking.register(sock.fileno(), select.POLLIN)
    return bool(looking.poll(0))


class PoolTurn:
    """Lets concurrent requests take connections one at a time: httpcore would offer an idle one to
    all of them, and all but the first would scan the pool again. A turn ends with the first trace
    event of its request, or with the request."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def take(self) -> AsyncIterator[Callable[[], None]]:
        """Yields a function that ends the turn before the block ends."""
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


# Detects whether any byte of a response arrived. If a response breaks off in its head, httpx and
# h11 report the same as for none; but only if nothing arrived may a request be retried
# automatically.


@dataclass
class ArrivalState:
    """State of the response to the request of this task."""

    anything: bool = False


def start_listening() -> ArrivalState:
    """Makes data that this task reads count in the returned object."""
    arrived = ArrivalState()
    _ARRIVED.set(arrived)
    return arrived


def listen(connection: Any) -> None:
    """Patches an httpcore connection to note received data. Reads without a time limit (all of
    ours) go directly to the underlying stream: the two context managers that httpcore adds to each
    take as long as the rest of reading a short piece."""
    read = connection.read
    receive = getattr(getattr(connection, "_stream", None), "receive", None)

    async def read_and_note(max_bytes: int, timeout: float | None = None) -> bytes:
        data = b""
        if timeout is None and receive is not None:
            # Ends and errors recur below, where httpcore words them; but after an error of TLS
            # anyio would report the end.
            try:
                data = await receive(max_bytes)
            except ssl.SSLError as error:
                raise httpcore.ReadError(str(error)) from error
            except Exception:
                data = b""
        if not data:
            data = await read(max_bytes, timeout)
        if data and (arrived := _ARRIVED.get(None)) is not None:
            arrived.anything = True
        return data

    connection.read = read_and_note
