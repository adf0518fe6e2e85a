"""A uvicorn server on our own socket, for the commands that listen."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import httptools
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from playground.core.errors import BadInput, PlaygroundError
from playground.simulator import SOCKET
from playground.tap import CONNECTION, PREFIX

SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE_S = 2
"""How long open answers may take to end at shutdown, in seconds; streams end by themselves."""

PATIENCE_S = 20.0
"""Seconds that a request's head may take to arrive, from the connection or from its first byte, and
also each started MiB of its body; a slower connection is closed."""

_PIECE = 1 << 20

_AGENTS = (PREFIX + "/").encode()

_ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)")
"""Scheme and authority of a target in absolute form."""

T = TypeVar("T")

EXPECTED = "ASGI callable returned without completing response."

KEPT_ALIVE_S = 30
"""Seconds that an idle connection is kept open: longer than clients keep it, so that they close it
themselves and never use one that is just being closed."""


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, on uvloop if the extra `fast` is installed."""
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        return runner.run(main)


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket; PlaygroundError with a sentence if the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The explicit protocol lets asyncio recognise TCP and set TCP_NODELAY on accepted sockets.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise PlaygroundError(
                f"Port {port} on {host} is in use, perhaps by another playground. Choose another "
                "port with --port, or use --port 0 for a free one."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise PlaygroundError(
                f"Port {port} needs administrator rights. Choose a port above 1023."
            ) from error
        raise BadInput(f"Cannot listen on {host}: {error.strerror or error}.") from error
    return sock


def port_of(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port


def url_host(host: str) -> str:
    """`host` as written in a URL; a wildcard address is reached on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """The simulator drops connections on purpose, and an answer to an agent ends like the
    provider's; neither is worth a log record."""
    return not str(record.msg).startswith(EXPECTED)


class _Server(uvicorn.Server):
    """uvicorn's own, which calls `on_ready` once connections are accepted. Signals are handled by
    the command: uvicorn would kill itself by the signal that it handled."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.on_ready: Callable[[], None] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.on_ready()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def server(app: ASGIApp, *, patience_s: float = PATIENCE_S, **options: Any) -> _Server:
    """A quiet server: no access log (it would contain tokens), no lifespan, no logged cuts."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",  # an upgrade is treated like any other request: 426
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_S,
        **{"timeout_keep_alive": KEPT_ALIVE_S, **options},
    )
    logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
    config.load()
    # uvicorn expects a class here but only calls it.
    config.http_protocol_class = partial(_QuietConnection, patience_s)  # type: ignore[assignment]
    return _Server(config)


class _QuietConnection(HttpToolsProtocol):
    """uvicorn's own protocol, with three additions.

    A client that sends a request incompletely is disconnected after `PATIENCE_S`: a timer runs from
    the first byte of a request to its last, and never while an answer is in progress.
    The application has access to the connection: the simulator produces faults that no server would
    allow.
    Requests to taps are treated like by their provider: they do not count towards the limit of
    connections, and the tap can disable the timer and declare that the answer has all the headers
    it needs.
    """

    def __init__(self, patience_s: float, *wired: Any, **named: Any) -> None:
        super().__init__(*wired, **named)
        self._patience_s = patience_s
        self._timer: asyncio.TimerHandle | None = None
        self._size = 0
        self._patient = False
        self._received = b""
        inner = self.app

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def send_on(message: Message) -> None:
                if self.transport.is_closing():
                    # The client has disconnected: let the loop notice it, or asyncio would log a
                    # warning for each write until then.
                    await asyncio.sleep(0)
                await send(message)

            scope["extensions"] = {**(scope.get("extensions") or {}), SOCKET: self.transport}
            await inner(scope, receive, send_on)

        self.app = app

    # asyncio's own class says BaseTransport, which uvicorn's narrows in the same way.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            self._wait()
        self._received = data
        super().data_received(data)

    def _unsupported_upgrade_warning(self) -> None:
        """If a client requests another protocol (Java's client HTTP/2), the request is answered by
        this one, as allowed, but its parser has ended with the head; another parser reads the rest.
        A WebSocket client gets the status of the answer: nothing is logged."""
        upgrade = sys.exc_info()[1]
        framing = self._framing()
        if not framing or upgrade is None:
            return
        self.parser = _BodyCallbacks(self, framing).parser
        if rest := self._received[upgrade.args[0] :]:
            self.data_received(rest)

    def _framing(self) -> bytes:
        """The headers with the length of the body, of a request whose parser does not read it; b""
        if there are none."""
        if self.parser is None or not self.parser.should_upgrade():
            return b""
        framing = [
            name + b": " + value
            for name, value in self.headers
            if name == b"transfer-encoding" or (name == b"content-length" and int(value))
        ]
        return b"\r\n".join(framing)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._patient = False
        self._wait()

    def on_headers_complete(self) -> None:
        self._use_authority()
        agents = self.url.startswith(_AGENTS)
        self.limit_concurrency = None if agents else self.config.limit_concurrency
        super().on_headers_complete()
        if agents:
            scope: Any = self.cycle.scope
            scope["extensions"] = {CONNECTION: _AgentConnection(self, self.cycle)}
        self._size = 0
        self._wait()

    def _use_authority(self) -> None:
        """Makes a target in absolute form (`GET http://host/path`) a path. uvicorn drops its host,
        but that is the one that counts (RFC 9112 3.2.2): it is added as another Host unless it is
        the same, and of two the app has to refuse the request."""
        absolute = _ABSOLUTE.match(self.url)
        if absolute is None:
            return
        self.url = b"/" + self.url[absolute.end() :].removeprefix(b"/")
        authority = absolute[1]
        hosts = [value.strip().lower() for name, value in self.headers if name == b"host"]
        if authority.lower() not in hosts:
            self.headers.append((b"host", authority))

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        before, self._size = self._size, self._size + len(body)
        # A body whose request is already answered is not read: it gets no more time.
        if before // _PIECE < self._size // _PIECE and not self.cycle.response_complete:
            self._wait()

    def on_message_complete(self) -> None:
        if self._framing():
            return  # the body is still to come
        super().on_message_complete()
        self._patient = False
        self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def wait_without_limit(self, asked: RequestResponseCycle) -> None:
        """Waits for the rest of this request without a limit."""
        if asked is self.cycle and asked.more_body:
            self._patient = True
            self._stop_waiting()

    def _wait(self) -> None:
        self._stop_waiting()
        if self._patient:
            return
        self._timer = self.loop.call_later(self._patience_s, self._on_timeout)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        asked = self.cycle
        answered = asked is not None and not asked.more_body and not asked.response_complete
        if answered or self.flow.read_paused:  # the delay is ours, not the client's
            self._wait()
        else:
            self._timer = None
            self.transport.close()


class _BodyCallbacks:
    """The callbacks of a parser that begins at the body of a request: its events about the head, of
    which it only gets the framing, are ignored."""

    def __init__(self, connection: _QuietConnection, framing: bytes) -> None:
        self._connection = connection
        self._known = True
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
        self._known = False

    def on_message_begin(self) -> None:
        if not self._known:
            self._connection.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._known:
            self._connection.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._known:
            self._connection.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._known:
            self._connection.on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._connection.on_body(body)

    def on_message_complete(self) -> None:
        self._connection.on_message_complete()


@dataclass(frozen=True)
class _AgentConnection:
    """The connection of one request to a tap."""

    connection: _QuietConnection
    cycle: RequestResponseCycle

    def wait_for_body(self) -> None:
        self.connection.wait_without_limit(self.cycle)

    def add_no_headers(self) -> None:
        self.cycle.default_headers = []


async def serve(instance: _Server, sock: socket.socket, ready: Callable[[], None]) -> None:
    """Serves until `should_exit`; calls `ready` once connections are accepted."""
    instance.on_ready = ready
    await instance.serve(sockets=[sock])


@contextmanager
def end_on_signals(
    instance: uvicorn.Server, leaving: Callable[[], None]
) -> Iterator[Callable[[], None]]:
    """On SIGTERM or Ctrl-C, calls `leaving` and ends the server; a second signal exits at once.
    Yields a function that acts like the first signal."""
    loop = asyncio.get_running_loop()

    def end() -> None:
        if instance.should_exit:
            os._exit(1)  # acknowledged events are saved; tools end with this process
        instance.should_exit = True
        leaving()

    for number in SIGNALS:
        loop.add_signal_handler(number, end)
    try:
        yield end
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
