"""HTTP against small servers on loopback, each of which misbehaves in its own way."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import struct
from asyncio import StreamReader as Reader
from asyncio import StreamWriter as Writer
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from threading import Event
from typing import Any

import httpcore
import pytest

from playground.core.settings import Limits
from playground.net.client import HttpClient, NetworkError, ProviderResponse
from playground.net.fetch import fetch
from tests.clock import loop_clock, on_asyncio

pytestmark = pytest.mark.anyio

LIMITS = Limits(connect_s=20.0, first_byte_s=20.0, idle_s=20.0, wall_s=50.0)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nRequest-Id: req_1\r\n"

Play = Callable[[Reader, Writer], Awaitable[None]]

NO_ANSWER = [
    ("close-at-once", b"", "unreachable"),
    ("half-headers", b"HTTP/1.1 200 OK\r\nContent-Ty", "not_api"),
    ("not-http", b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "not_api"),
    ("banner", b"220 mail.example ESMTP\r\n", "not_api"),
    ("giant-header", HEAD + b"X: " + b"x" * 300_000 + b"\r\n\r\n", "not_api"),
    ("upgrade", b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "not_api"),
]

CUT = [
    ("short-body", b"Content-Length: 9\r\n\r\npart"),
    ("no-last-chunk", b"Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"),
    ("bad-chunk-size", b"Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\nzz\r\n"),
    ("gzip-lie", b"Content-Encoding: gzip\r\n\r\npart"),
    ("gzip-cut", b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"part" * 99)[:-5]),
]

STALLS = [
    ("stall-headers", b"HTTP/1.1 200", replace(LIMITS, first_byte_s=0.05), "sent nothing"),
    ("no-body", HEAD + b"\r\n", replace(LIMITS, first_byte_s=0.05), "sent nothing for 0.05"),
    ("stall-after", HEAD + b"\r\npart", LIMITS, "sent nothing for 20 s"),
    ("wall", HEAD + b"\r\npart", replace(LIMITS, wall_s=15.0), "took longer than 15 s"),
]

BAD: list[tuple[str, dict[str, str]]] = [
    ("http://user@127.0.0.1/", {}),
    ("ftp://127.0.0.1/", {}),
    ("sim:", {}),
    ("HERE", {"x-api-key": "canary\nx"}),
    ("HERE", {"x-api-key": "canary€"}),
    ("HERE", {"bad name": "canary"}),
]

TARGETS = (b"/a%2Fb//c/./d/../e?q=%20+&k", b"/", b'/odd"<>`{|}', b"/x?")


class Server:
    """Reads one request a connection, keeps it in `seen`, then does what the test says."""

    def __init__(self, play: Play) -> None:
        self.seen: list[bytes] = []
        self.port = 0
        self._play = play

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: Reader, writer: Writer) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            self.seen.append(head + await reader.readexactly(size))
            await self._play(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def closing_net() -> AsyncIterator[HttpClient]:
    net = HttpClient()
    try:
        yield net
    finally:
        await net.aclose()


@asynccontextmanager
async def serving(play: Play | bytes) -> AsyncIterator[Server]:
    async def say(_: Reader, writer: Writer) -> None:
        assert isinstance(play, bytes)
        writer.write(play)
        await writer.drain()

    item = Server(say if isinstance(play, bytes) else play)
    server = await asyncio.start_server(item.serve, "127.0.0.1", 0)
    item.port = server.sockets[0].getsockname()[1]
    try:
        yield item
    finally:
        server.close()


@asynccontextmanager
async def opened(
    url: str, limits: Limits = LIMITS, headers: dict[str, str] | None = None
) -> AsyncIterator[ProviderResponse]:
    net = HttpClient()
    try:
        async with (
            asyncio.timeout(100),
            net.open("POST", url, headers or {}, b"{}", limits) as response,
        ):
            yield response
    finally:
        await net.aclose()


async def read(
    url: str, limits: Limits = LIMITS, ahead_s: float = 0.0
) -> tuple[bytes, NetworkError | None]:
    """All that came, and what ended it: None for a clean end. The clock is set ahead by `ahead_s`
    seconds when the first bytes have come."""
    got = b""
    try:
        with loop_clock() as push:
            async with opened(url, limits) as answer:
                async for data in answer.chunks():
                    assert data
                    if not got:  # as soon as it waits for more
                        asyncio.get_running_loop().call_soon(push, ahead_s)
                    got += data
    except NetworkError as trouble:
        return got, trouble
    return got, None


async def until_gone(reader: Reader) -> None:
    """Holds the connection open until the client lets go."""
    assert await asyncio.wait_for(reader.read(), 90) == b""


async def test_an_answer_has_status_headers_and_id_and_ends_cleanly() -> None:
    async with serving(HEAD + b"Content-Length: 5\r\nX-Two: a\r\nX-Two: b\r\n\r\nhello") as server:
        async with opened(
            server.url + "/v1/x?a=b", headers={"x-api-key": "k", "Accept-Encoding": "gzip"}
        ) as answer:
            assert (answer.status, answer.request_id) == (200, "req_1")
            assert answer.headers["x-two"] == "a, b"
            assert b"".join([data async for data in answer.chunks()]) == b"hello"
        [request] = server.seen
    assert request.startswith(b"POST /v1/x?a=b HTTP/1.1\r\n")
    assert request.endswith(b"\r\n\r\n{}")
    lower = request.lower()
    assert b"x-api-key: k\r\n" in lower
    assert b"accept-encoding: identity\r\n" in lower
    assert b"gzip" not in lower
    assert b"user-agent: tool-playground/" in lower


async def test_each_chunk_is_given_before_the_next_is_sent() -> None:
    went_on = asyncio.Semaphore(0)

    async def play(reader: Reader, writer: Writer) -> None:
        writer.write(HEAD + b"\r\n")
        for number in range(5):
            writer.write(b"%d" % number)
            await writer.drain()
            await asyncio.wait_for(went_on.acquire(), 20)

    async with serving(play) as server, opened(server.url) as answer:
        got = []
        async for data in answer.chunks():
            got.append(data)
            went_on.release()
    assert got == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_told_and_its_target_never_contacted(status: int) -> None:
    async with serving(HEAD + b"Content-Length: 2\r\n\r\n{}") as trap:
        location = f"{trap.url}/elsewhere"
        head = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        async with serving(head.encode()) as server:
            got, trouble = await read(server.url)
        assert (got, trap.seen) == (b"", [])
    assert trouble is not None
    assert (trouble.failure, trouble.status, trouble.quoted) == ("redirect", status, location)
    assert "not followed" in str(trouble)
    assert location in str(trouble)


async def test_no_cookie_is_kept() -> None:
    async with serving(HEAD + b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n") as server:
        net = HttpClient()
        for _ in range(2):
            async with net.open("POST", server.url, {}, b"", LIMITS) as answer:
                assert [data async for data in answer.chunks()] == []
        await net.aclose()
        assert b"cookie" not in server.seen[1].lower()


async def test_requests_that_begin_together_take_a_connection_each_at_their_first_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kept ones, and none waits for another's answer."""
    together, asked, came, tries = 4, 0, asyncio.Event(), 0
    first_try = httpcore.AsyncHTTP11Connection.handle_async_request

    async def count_tries(connection: Any, request: Any) -> Any:
        nonlocal tries
        tries += 1
        return await first_try(connection, request)

    async def say_when_all_have_asked(reader: Reader, writer: Writer) -> None:
        nonlocal asked
        while True:
            asked += 1
            if asked % together == 0:
                came.set()
            await came.wait()
            writer.write(HEAD + b"Content-Length: 2\r\n\r\nok")
            await reader.readuntil(b"\r\n\r\n{}")

    async def ask(net: HttpClient, url: str) -> None:
        async with net.open("POST", url, {}, b"{}", LIMITS) as answer:
            assert [data async for data in answer.chunks()] == [b"ok"]

    monkeypatch.setattr(httpcore.AsyncHTTP11Connection, "handle_async_request", count_tries)
    async with serving(say_when_all_have_asked) as server, closing_net() as net:
        for _ in range(3):
            came.clear()
            async with asyncio.timeout(30):
                await asyncio.gather(*(ask(net, server.url) for _ in range(together)))
        assert len(server.seen) == together  # connections
    assert (asked, tries) == (3 * together, 3 * together)


def free_port() -> int:
    with socket.socket() as item:
        item.bind(("127.0.0.1", 0))
        return int(item.getsockname()[1])


async def test_a_refused_port_and_an_unknown_name_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_port()
    _, trouble = await read(f"http://127.0.0.1:{port}")
    assert trouble is not None
    assert trouble.failure == "unreachable"
    assert str(trouble).startswith(f"cannot reach 127.0.0.1:{port}: the connection was refused")

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    _, trouble = await read("https://nowhere.invalid/v1")
    assert trouble is not None
    assert trouble.failure == "unreachable"
    assert str(trouble).startswith(
        "cannot reach nowhere.invalid:443: the name cannot be resolved (DNS)"
    )


async def test_https_to_an_http_port_names_tls() -> None:
    async def close_connection(_: Reader, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(close_connection, "127.0.0.1", 0)
    _, trouble = await read(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    server.close()
    assert trouble is not None
    assert trouble.failure == "unreachable"
    assert "TLS" in str(trouble)


@pytest.mark.parametrize(
    ("sent", "failure"), [row[1:] for row in NO_ANSWER], ids=[r[0] for r in NO_ANSWER]
)
async def test_what_is_no_http_answer(sent: bytes, failure: str) -> None:
    async with serving(sent) as server:
        got, trouble = await read(server.url)
    assert got == b""
    assert trouble is not None
    assert trouble.failure == failure, trouble
    assert f"127.0.0.1:{server.port}" in str(trouble)


@pytest.mark.parametrize("sent", [row[1] for row in CUT], ids=[row[0] for row in CUT])
async def test_a_body_that_breaks_off_is_interrupted(sent: bytes) -> None:
    async with serving(HEAD + sent) as server:
        got, trouble = await read(server.url)
    assert (b"part" * 99).startswith(got)
    assert trouble is not None
    assert (trouble.failure, trouble.status, trouble.began) == ("interrupted", 200, True)


async def test_a_reset_is_interrupted() -> None:
    first = asyncio.Event()

    async def play(reader: Reader, writer: Writer) -> None:
        writer.write(HEAD + b"\r\npart")
        await asyncio.wait_for(first.wait(), 20)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async def reading(url: str) -> None:
        async with opened(url) as answer:
            async for data in answer.chunks():
                assert data == b"part"
                first.set()

    async with serving(play) as server:
        with pytest.raises(NetworkError) as caught:
            await reading(server.url)
    assert (caught.value.failure, caught.value.began) == ("interrupted", True)


@on_asyncio
@pytest.mark.parametrize(
    ("sent", "limits", "words"), [row[1:] for row in STALLS], ids=[row[0] for row in STALLS]
)
async def test_a_server_that_stalls_is_left(sent: bytes, limits: Limits, words: str) -> None:
    async def play(reader: Reader, writer: Writer) -> None:
        writer.write(sent)
        await writer.drain()
        await until_gone(reader)

    async with serving(play) as server:
        got, trouble = await read(server.url, limits, ahead_s=21.0)  # bounded: see opened
    assert trouble is not None
    assert trouble.failure == "timeout"
    assert words in str(trouble)
    assert trouble.began is bool(got)


async def test_a_head_at_once_is_no_first_byte() -> None:
    """Until the body begins, the time for the first byte counts, and silence only after it."""

    async def play(_: Reader, writer: Writer) -> None:
        writer.write(HEAD + b"Content-Length: 4\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.15)
        writer.write(b"part")
        await writer.drain()

    async with serving(play) as server:
        got, trouble = await read(server.url, replace(LIMITS, idle_s=0.05))
    assert (got, trouble) == (b"part", None)


async def test_a_broken_head_on_a_connection_that_was_used_before_is_no_stale_one() -> None:
    """A kept connection that closes without a byte may be asked again; after a byte it may not."""
    failures = []
    for last in (b"", b"HTTP/1.1 200 OK\r\nX: "):

        async def play(reader: Reader, writer: Writer, last: bytes = last) -> None:
            writer.write(HEAD + b"Content-Length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            writer.write(last)
            await writer.drain()

        async with serving(play) as server, closing_net() as net:
            for _ in range(2):
                try:
                    async with net.open("GET", server.url, {}, b"", LIMITS) as answer:
                        assert [data async for data in answer.chunks()] == []
                except NetworkError as trouble:
                    failures.append(trouble.failure)
    assert failures == ["unreachable", "not_api"]


async def test_pings_for_ever_end_at_the_wall() -> None:
    async def play(reader: Reader, writer: Writer) -> None:
        writer.write(HEAD + b"\r\n")
        while not reader.at_eof():
            writer.write(b": ping\n\n")
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.01)

    async with serving(play) as server:
        got, trouble = await read(server.url, replace(LIMITS, idle_s=60.0), ahead_s=51.0)
    assert got.startswith(b": ping\n\n")
    assert trouble is not None
    assert (trouble.failure, "took longer" in str(trouble)) == ("timeout", True)


@pytest.mark.parametrize("coding", [b"", b"Content-Encoding: gzip\r\n"])
async def test_a_flood_and_a_bomb_end_at_the_cap(coding: bytes) -> None:
    cap = 200_000
    body = gzip.compress(bytes(64 * 1024 * 1024)) if coding else bytes(cap + 1)
    async with serving(HEAD + coding + b"\r\n" + body) as server:
        got, trouble = await read(server.url, replace(LIMITS, max_stream_bytes=cap))
    assert len(got) == cap
    assert trouble is not None
    assert (trouble.failure, trouble.status) == ("too_large", 200)
    async with serving(HEAD + b"\r\n" + bytes(cap)) as server:
        got, trouble = await read(server.url, replace(LIMITS, max_stream_bytes=cap))
    assert (len(got), trouble) == (cap, None)


async def test_gzip_that_nobody_asked_for_is_unpacked_and_other_codings_are_told() -> None:
    packed = gzip.compress(b"data: x\n\n" * 99)
    async with serving(HEAD + b"Content-Encoding: GZip\r\n\r\n" + packed) as server:
        assert await read(server.url) == (b"data: x\n\n" * 99, None)
    async with serving(HEAD + b"Content-Encoding: br\r\n\r\n" + packed) as server:
        got, trouble = await read(server.url)
    assert (got, trouble and trouble.failure) == (b"", "not_api")


async def test_of_an_error_only_the_beginning_is_read() -> None:
    head = b"HTTP/1.1 500 Oops\r\nRetry-After: 3\r\n\r\n"
    async with serving(head + b"x" * 300_000) as server, opened(server.url) as answer:
        body = b"".join([data async for data in answer.chunks()])
        assert (answer.status, answer.retry_after, len(body)) == (500, 3.0, 65536)


@pytest.mark.parametrize(("url", "headers"), BAD)
async def test_a_request_that_cannot_be_made_is_told_without_the_key(
    url: str, headers: dict[str, str]
) -> None:
    async with serving(HEAD + b"Content-Length: 0\r\n\r\n") as server:
        with pytest.raises(NetworkError) as caught:
            async with opened(url.replace("HERE", server.url), headers=headers):
                pass
        assert server.seen == []
    assert caught.value.failure == "bad_request"
    assert "canary" not in str(caught.value) + repr(caught.value.__cause__)


async def test_a_proxy_is_never_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = HEAD + b"Content-Length: 2\r\n\r\nok"
    async with serving(answer) as proxy, serving(answer) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        for host in ("127.0.0.1", "localhost"):
            assert await read(f"http://{host}:{server.port}") == (b"ok", None)
        assert (len(server.seen), len(proxy.seen)) == (2, 0)
        assert await read("http://remote.invalid/v1") == (b"ok", None)
        assert proxy.seen[0].startswith(b"POST http://remote.invalid/v1 ")


async def test_proxy_settings_that_cannot_be_used_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "nonsense://127.0.0.1:1")
    _, trouble = await read("http://remote.invalid/v1")
    assert trouble is not None
    assert trouble.failure == "unreachable"
    assert "ALL_PROXY" in str(trouble)


async def test_a_cancelled_reader_lets_the_connection_go() -> None:
    gone = asyncio.Event()

    async def play(reader: Reader, writer: Writer) -> None:
        writer.write(HEAD + b"\r\nfirst")
        await writer.drain()
        try:
            await until_gone(reader)
        finally:
            gone.set()

    async with serving(play) as server:
        first = asyncio.Event()

        async def reading() -> None:
            async with opened(server.url) as answer:
                async for _ in answer.chunks():
                    first.set()

        task = asyncio.create_task(reading())
        await asyncio.wait_for(first.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 20)


async def opening(url: str) -> None:
    async with opened(url):
        pass


async def fetching(url: str) -> None:
    await fetch("GET", url, {}, b"", private=True, max_bytes=100, timeout_s=None)


@pytest.mark.parametrize("ask", [opening, fetching])
async def test_a_cancelled_handshake_closes_the_connection(
    ask: Callable[[str], Coroutine[Any, Any, None]],
) -> None:
    """At once, and not when the garbage is collected."""
    hello, gone, writers = asyncio.Event(), asyncio.Event(), list[Writer]()

    async def play(reader: Reader, writer: Writer) -> None:
        writers.append(writer)
        await reader.readexactly(1)
        hello.set()
        await asyncio.wait_for(reader.read(), 90)  # the rest of its hello
        gone.set()

    server = await asyncio.start_server(play, "127.0.0.1", 0)
    gc.disable()
    try:
        port = server.sockets[0].getsockname()[1]
        task = asyncio.create_task(ask(f"https://127.0.0.1:{port}/v1"))
        await asyncio.wait_for(hello.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 20)
    finally:
        gc.enable()
        server.close()
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize("kind", ["tls", "proxy"])
async def test_a_half_open_connection_is_left(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken and nothing is ever said: in the midst of TLS, or by a proxy."""

    async def play(reader: Reader, _: Writer) -> None:
        await until_gone(reader)

    # The one that is to run out is short, the other one never in the way.
    connect_s, first_byte_s = (0.1, 20.0) if kind == "tls" else (20.0, 0.1)
    limits = replace(LIMITS, connect_s=connect_s, first_byte_s=first_byte_s)
    async with serving(play) as server:
        url = server.url.replace("http:", "https:")
        if kind == "proxy":
            for name in ("HTTPS_PROXY", "https_proxy"):
                monkeypatch.setenv(name, server.url)
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            url = "https://elsewhere.invalid/v1"
        got, trouble = await read(url, limits)
    assert trouble is not None
    assert got == b""
    assert trouble.failure == ("unreachable" if kind == "tls" else "timeout")
    assert "(Providers)" in str(trouble)


async def test_others_go_on_while_the_way_out_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library and the certificates take tens of milliseconds; of two first requests one way
    out is kept."""
    on, make, items = Event(), HttpClient._new_client, []

    def slow(net: HttpClient, *rest: Any) -> Any:
        assert on.wait(20)
        items.append(make(net, *rest))
        return items[-1]

    monkeypatch.setattr(HttpClient, "_new_client", slow)
    async with closing_net() as net:
        first = [asyncio.create_task(net._client("http://127.0.0.1:1", "here")) for _ in range(2)]
        await asyncio.sleep(0)
        on.set()
        clients = await asyncio.gather(*first)
        assert clients[0] is clients[1]
        assert len(items) == 2
        for client in items:
            await client.aclose()


async def test_a_relayed_path_is_not_touched_on_the_way_to_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proxy is asked for the whole address, one of a tunnel for the host alone."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    async with serving(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n") as server:
        for target in TARGETS:
            raw_requests = []
            for proxy, url in (("", server.url), (server.url, "http://far.invalid:81")):
                monkeypatch.setenv("http_proxy", proxy)
                headers = [(b"host", url[7:].encode()), (b"X-Odd", b"1")]
                async with (
                    closing_net() as net,
                    net.relay("GET", url, target, headers, b"") as answer,
                ):
                    assert answer.status == 200
                    assert [data async for data in answer.chunks()] == []
                raw_requests.append(server.seen.pop())
            assert raw_requests[0].startswith(b"GET " + target + b" HTTP/1.1\r\nhost: 127.0.0.1:")
            assert raw_requests[1].startswith(
                b"GET http://far.invalid:81" + target + b" HTTP/1.1\r\n"
            )
            assert raw_requests[0].endswith(b"\r\nX-Odd: 1\r\n\r\n")
    async with serving(b"HTTP/1.1 407 No\r\ncontent-length: 0\r\n\r\n") as server:
        monkeypatch.setenv("https_proxy", server.url)
        async with closing_net() as net:
            with pytest.raises(NetworkError) as refused:
                async with net.relay("GET", "https://far.invalid", b"/x", [], b""):
                    raise AssertionError("nothing was there")
    assert refused.value.failure == "unreachable"
    assert server.seen[0].startswith(b"CONNECT far.invalid:443 HTTP/1.1\r\n")
