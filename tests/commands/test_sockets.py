"""The server that the commands share: quiet about cuts, loud about what is broken."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from playground.commands.sockets import EXPECTED, PATIENCE_S, bind_socket, port_of, serve, server
from playground.simulator import SOCKET
from tests.in_process import serve_app
from tests.shared_state import preserve_shared_state

pytestmark = pytest.mark.anyio

H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
FRAMED = {
    "no body": (b"", b"", 0),
    "a length of none": (b"Content-Length: 0\r\n", b"", 0),
    "a length": (b"Content-Length: 5\r\n", b"hello", 5),
    "chunks": (b"Transfer-Encoding: chunked\r\n", b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", 5),
}

WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALVES = {
    "nothing": b"",
    "empty lines": b"\r\n\r\n",
    "a line": b"GET / HTTP/1.1\r\n",
    "a head but for its end": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "a head without its body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
    "a part of a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234",
    "a part of a chunk": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n12",
    "a second head": WHOLE + b"GET / HTTP/1.1\r\n",
    "a second body": WHOLE + b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234",
}

SOON_S = 1.5
"""Instead of PATIENCE_S: far above what a byte takes on loopback, also on a busy machine."""

MANY_S = 54321.0


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Put back: a server of a command says on this test's stderr what is broken."""
    with preserve_shared_state():
        yield


async def _cut(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half", "more_body": True})


async def _broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ValueError("a bug")


@pytest.mark.parametrize(("app", "message"), [(_cut, ""), (_broken, "a bug")])
async def test_a_dropped_connection_is_no_word_on_stderr(
    app: object, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with bind_socket("127.0.0.1", 0) as sock:
        item = server(app)  # type: ignore[arg-type]
        serving = asyncio.create_task(serve(item, sock, lambda: None))
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(sock))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            await reader.read()
            writer.close()
            item.should_exit = True
            await serving
    err = capsys.readouterr().err
    assert message in err
    assert bool(err) == bool(message)


async def _method(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 426, "headers": []})
    await send({"type": "http.response.body", "body": scope["method"].encode()})


async def test_an_upgrade_is_a_request_like_any_other(capsys: pytest.CaptureFixture[str]) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    with bind_socket("127.0.0.1", 0) as sock:
        item = server(_method)
        serving = asyncio.create_task(serve(item, sock, lambda: None))
        async with asyncio.timeout(30):
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(sock))
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n" + upgrade + key + b"\r\n")
            status = await reader.readline()
            writer.close()
            item.should_exit = True
            await serving
    assert b"426" in status
    assert capsys.readouterr().err == ""


async def _no_delay(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the option of its own connection."""
    connection = scope["extensions"][SOCKET].get_extra_info("socket")
    option = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(option).encode()})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_response_never_waits_for_an_acknowledgement(host: str) -> None:
    """Without TCP_NODELAY the second write on a kept-open connection waits for 40 ms."""
    asking = httpx.AsyncClient(trust_env=False, timeout=20)
    async with serve_app(_no_delay, host) as url, asking as client:
        assert int((await client.get(url)).text) != 0


async def _length(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers at once with the length of the body, or not at all where the client left."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    headers = [(b"content-length", b"%d" % len(str(size)))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def _refusing(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without a look at the body."""
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("framing", FRAMED)
@pytest.mark.parametrize("apart", [False, True])
async def test_a_request_that_could_be_http2_keeps_its_body(framing: str, apart: bool) -> None:
    """As Java's client asks at first. The connection stays what it was."""
    header, body, size = FRAMED[framing]
    head = b"POST / HTTP/1.1\r\nHost: x\r\n" + H2C + header + b"\r\n"
    pieces = [head, *(body[place : place + 1] for place in range(len(body)))]
    async with serve_app(_length) as url, _connected(url) as (reader, writer):
        for _ in range(2):
            for piece in pieces if apart else [head + body]:
                writer.write(piece)
                await asyncio.sleep(0)
            assert b" 200 " in await reader.readline()
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(1) == b"%d" % size
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        assert (await reader.readuntil(b"\r\n\r\n3")).startswith(b"HTTP/1.1 200")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
    try:
        async with asyncio.timeout(30):
            yield reader, writer
    finally:
        writer.close()


async def _answers(url: str, *sent: bytes) -> int:
    """How often the server answers `sent`, each but the first sent after an answer, before it
    closes because nothing more comes."""
    async with _connected(url) as (reader, writer):
        answer = b""
        for place, piece in enumerate(sent):
            answer += await reader.readuntil(b"\r\n\r\n0") if place else b""
            writer.write(piece)
        answer += await reader.read()
    return answer.count(b"HTTP/1.1 200")


async def test_a_half_sent_request_is_not_waited_for() -> None:
    """Connections at rest between two requests are another matter: they would stay for an hour."""
    async with serve_app(_length, patience_s=SOON_S, timeout_keep_alive=3600) as url:
        first = await asyncio.gather(*(_answers(url, half) for half in HALVES.values()))
        later = [half for half in HALVES.values() if half]
        after = await asyncio.gather(*(_answers(url, WHOLE, half) for half in later))
    assert first == [half.count(WHOLE) for half in HALVES.values()]
    assert after == [1 + half.count(WHOLE) for half in later]


async def test_what_is_being_answered_and_what_rests_is_left_in_peace() -> None:
    """While one connection is given up, an older one's answer goes on, though more than its request
    was sent on it, and another rests."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/long":
            begun.set()
            await go_on.wait()
        await _length(scope, receive, send)

    async with (
        serve_app(app, patience_s=SOON_S, timeout_keep_alive=3600) as url,
        _connected(url) as (long, asking),
        _connected(url) as (rested, again),
    ):
        asking.write(WHOLE.replace(b" / ", b" /long "))
        await begun.wait()
        asking.write(b"\r\n")  # some send an empty line after a request
        again.write(WHOLE)
        assert b"200" in await rested.readuntil(b"\r\n\r\n0")
        assert await _answers(url, b"") == 0
        go_on.set()
        again.write(WHOLE)
        assert b"200" in await rested.readuntil(b"\r\n\r\n0")
        assert b"200" in await long.readuntil(b"\r\n\r\n0")


@pytest.mark.parametrize(("app", "more"), [(_length, 8), (_refusing, 0)])
async def test_each_mib_of_a_body_that_is_read_has_its_time(
    monkeypatch: pytest.MonkeyPatch, app: ASGIApp, more: int
) -> None:
    loop, waits = asyncio.get_running_loop(), 0
    call_later = loop.call_later

    def count_timers(delay: float, *wired: Any, **named: Any) -> asyncio.TimerHandle:
        nonlocal waits
        waits += delay == MANY_S
        return call_later(delay, *wired, **named)

    monkeypatch.setattr(loop, "call_later", count_timers)
    async with serve_app(app, patience_s=MANY_S) as url, _connected(url) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (8 << 20))
        if not more:
            await reader.readuntil(b"\r\n\r\n")  # the answer is there before the body is
        for _ in range(8):
            writer.write(bytes(1 << 20))
            await writer.drain()
        writer.write(WHOLE)  # once it is answered, all that was sent before is read
        if more:
            await reader.readuntil(b"\r\n\r\n%d" % (8 << 20))
        await reader.readuntil(b"\r\n\r\n")
    heads_and_bodies = 2 + 2
    assert waits - more in (heads_and_bodies + 1, heads_and_bodies + 2)  # and for the connection


def test_the_patience() -> None:
    assert PATIENCE_S == 20


async def test_who_leaves_in_the_middle_is_no_word_on_the_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However much the application has to say at once: asyncio warns of each write after the
    fourth to a connection that is gone, until it was told."""
    gone = Event()

    async def talks_on(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        assert gone.wait(20)  # not awaited: so the loop cannot hear of it meanwhile
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    def leave(address: tuple[str, int]) -> None:
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            client.recv(1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.set()

    async with serve_app(talks_on) as url:
        parts = urlsplit(url)
        await asyncio.to_thread(leave, (parts.hostname or "", parts.port or 0))
    assert gone.is_set()
    assert [record.getMessage() for record in caplog.records] == []


async def test_it_is_ready_when_it_takes_connections_and_not_a_moment_later() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with bind_socket("127.0.0.1", 0) as sock:
        instance, event = server(_method), asyncio.Event()
        counting = asyncio.create_task(count())
        serving = asyncio.create_task(serve(instance, sock, event.set))
        async with asyncio.timeout(30):
            await event.wait()
            counting.cancel()
            instance.should_exit = True
            await serving
    assert turns < 50


def test_uvicorn_still_words_so_what_is_not_logged() -> None:
    folder = Path(uvicorn.__file__).parent / "protocols" / "http"
    words = "".join(path.read_text() for path in folder.glob("*_impl.py"))
    assert EXPECTED in words
