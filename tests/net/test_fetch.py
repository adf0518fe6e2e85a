"""One request for a tool, over real sockets on loopback, with a resolver of our own."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Sequence
from typing import Any

import anyio
import httpx
import pytest

from playground.core.errors import Refused
from playground.net.client import NetworkError
from playground.net.fetch import CheckedTransport, FetchResponse, fetch
from tests.net.tool_server import Reader, Writer, http_response, serving

pytestmark = pytest.mark.anyio

ZEROS = gzip.compress(bytes(50_000_000))
GZIP = "Content-Encoding: gzip"


async def resolve_local(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def get(url: str, **more: Any) -> FetchResponse:
    limits = {
        "private": True,
        "max_bytes": 100_000,
        "timeout_s": 5.0,
        "resolve": resolve_local,
        **more,
    }
    headers = limits.pop("headers", {})
    with anyio.fail_after(20):
        return await fetch(limits.pop("method", "GET"), url, headers, b"", **limits)


async def test_the_name_stays_and_the_checked_address_is_contacted() -> None:
    requests: list[str] = []

    async def once(host: str, port: int) -> Sequence[str]:
        requests.append(host)
        return ["127.0.0.1"] if len(requests) == 1 else ["127.0.0.2"]

    rows: list[tuple[int, int | None]] = []
    async with serving(http_response(b"hello", "X-One: 1")) as server:
        url = f"http://tools.example:{server.port}/a%2Fb?c=%20"
        fetched = await get(url, resolve=once, report=lambda *text: rows.append(text))
    assert requests == ["tools.example"]
    assert (fetched.status, fetched.body, fetched.headers["x-one"]) == (200, b"hello", "1")
    assert fetched.url == url
    assert rows == [(5, 5)]
    [request] = server.seen
    assert request.startswith(b"GET /a%2Fb?c=%20 HTTP/1.1\r\n")
    lower = request.lower()
    assert lower.count(b"host: ") == 1
    assert f"\r\nhost: tools.example:{server.port}\r\n".encode() in lower
    assert b"\r\naccept-encoding: identity\r\n" in lower


async def test_a_private_address_is_never_contacted() -> None:
    async with serving(http_response(b"secret")) as server:
        for url in (f"http://127.0.0.1:{server.port}", f"http://tools.example:{server.port}"):
            with pytest.raises(Refused):
                await get(url, private=False)
        with pytest.raises(Refused):
            await get(f"http://tools.example:{server.port}", hosts=("other.example",))
    assert server.seen == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://a@127.0.0.1/", "http:///", "x"])
async def test_no_such_address(url: str) -> None:
    with pytest.raises(Refused):
        await get(url)


async def test_a_redirect_is_an_answer_and_leads_nowhere() -> None:
    async with serving(http_response(b"")) as trap:
        location = f"Location: http://127.0.0.1:{trap.port}/"
        async with serving(
            http_response(b"", location, "Set-Cookie: a=b", status="302 Found")
        ) as server:
            fetched = await get(f"http://tools.example:{server.port}")
    assert (fetched.status, trap.seen) == (302, [])


async def test_the_next_address_where_one_does_not_answer() -> None:
    async def two(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.3", "127.0.0.1"]

    async with serving(http_response(b"second")) as server:
        fetched = await get(f"http://tools.example:{server.port}", resolve=two)
    assert (fetched.body, len(server.seen)) == (b"second", 1)


async def test_no_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        serving(http_response(b"proxied")) as proxy,
        serving(http_response(b"straight")) as server,
    ):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        fetched = await get(f"http://tools.example:{server.port}")
    assert (fetched.body, proxy.seen) == (b"straight", [])


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (http_response(b"x" * 100_001), "too_large"),
        (http_response(ZEROS, GZIP), "too_large"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_001, "too_large"),
        (http_response(b"abc", "Content-Encoding: br"), "not_api"),
        (http_response(b"abc", GZIP), "interrupted"),
        (http_response(ZEROS[:20], GZIP), "interrupted"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "interrupted"),
        (b"", "interrupted"),
        (b"220 smtp.example ESMTP\r\n\r\n", "not_api"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000, "not_api"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_trouble(answer: bytes, failure: str) -> None:
    async with serving(answer) as server:
        with pytest.raises(NetworkError) as caught:
            await get(f"http://tools.example:{server.port}")
    assert caught.value.failure == failure
    assert "tools.example" in str(caught.value)


async def test_unpacked_within_the_cap() -> None:
    async with serving(http_response(gzip.compress(b"packed"), GZIP)) as server:
        assert (await get(f"http://tools.example:{server.port}")).body == b"packed"


async def test_time_is_up() -> None:
    async def silent(reader: Reader, writer: Writer) -> None:
        await reader.read()

    async with serving(silent) as server:
        with pytest.raises(NetworkError, match=r"took longer than 1 s") as caught:
            # Long enough to be connected on a busy machine: who is cancelled while anyio connects
            # leaves a transport to the garbage collector.
            await get(f"http://tools.example:{server.port}", timeout_s=1.0)
    assert caught.value.failure == "timeout"


async def test_nobody_there() -> None:
    with socket.socket() as item:
        item.bind(("127.0.0.1", 0))
        port = item.getsockname()[1]
    with pytest.raises(NetworkError, match="connection was refused"):
        await get(f"http://tools.example:{port}")


@pytest.mark.parametrize(
    "headers", [{"X": "canary\r\nY: 1"}, {"X": "canary\0"}, {"X\n": "canary"}, {"X": "canary✓"}]
)
async def test_an_illegal_header_is_not_repeated(headers: dict[str, str]) -> None:
    async with serving(http_response(b"")) as server:
        with pytest.raises(NetworkError) as caught:
            await get(f"http://tools.example:{server.port}", headers=headers)
    assert caught.value.failure == "bad_request"
    assert "canary" not in str(caught.value)
    assert server.seen == []


async def test_tls_asks_for_the_name() -> None:
    names: list[bytes] = []

    async def first(reader: Reader, writer: Writer) -> None:
        names.append(await reader.read(4096))
        writer.close()

    server = await asyncio.start_server(first, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(NetworkError) as caught:
        await get(f"https://tools.example:{port}")
    server.close()
    assert caught.value.failure == "unreachable"
    assert b"tools.example" in names[0]


async def test_a_client_with_this_way_out() -> None:
    async with serving(http_response(b"kept")) as server:
        way = CheckedTransport(private=True, resolve=resolve_local)
        async with httpx.AsyncClient(transport=way, trust_env=False, timeout=20) as client:
            for _ in range(2):
                answer = await client.get(f"http://tools.example:{server.port}")
                assert answer.text == "kept"
            with pytest.raises(Refused):
                await client.get("http://169.254.169.254/")
