"""The guard's caps, and the guard behind a real server, asked byte by byte."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from playground.web.guard import MAX_BODY, Guard
from tests.web.asking import BEARER, HERE, PORT, TOKEN, ask, call, scope_of

pytestmark = pytest.mark.anyio

SERVED = [
    ("GET / HTTP/1.1\nHost: HERE", 401),
    ("GET / HTTP/1.1\nHost: HERE\nAUTH", 200),
    ("GET /static/x HTTP/1.1\nHost: HERE", 200),
    ("GET /static/%2e%2e/x HTTP/1.1\nHost: HERE", 401),
    ("GET /static/../x HTTP/1.1\nHost: HERE", 401),
    ("GET //static/x HTTP/1.1\nHost: HERE", 401),
    ("GET /x HTTP/1.1\nHost: HERE/static/\nAUTH", 421),
    ("GET /x HTTP/1.1\nHost: HERE?\nAUTH", 421),
    ("GET /x HTTP/1.1\nHost: HERE#\nAUTH", 421),
    ("GET /x HTTP/1.1\nHost: HERE\nHost: HERE\nAUTH", 421),
    ("GET /x HTTP/1.1\nAUTH", 421),
    ("GET http://evil.example/x HTTP/1.1\nHost: evil.example\nAUTH", 421),
    ("POST /x HTTP/1.1\nHost: HERE\nAUTH\nContent-Length: 99999999", 413),
    ("OPTIONS /x HTTP/1.1\nHost: HERE\nOrigin: http://evil.example", 405),
]


async def test_headers_have_a_cap() -> None:
    assert (await ask("GET", "/x", BEARER, ("x", "y" * 30_000))).status == 200
    assert (await ask("GET", "/x", BEARER, ("x", "y" * 40_000))).status == 431
    assert (await ask("GET", "/x?" + "y" * 40_000, BEARER)).status == 431
    assert (await ask("GET", "/x", BEARER, *[("a", "b")] * 20_000)).status == 431


@pytest.mark.parametrize("length", ["-1", "1e3", "x", "", "9" * 30, "+5"])
async def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    assert (await ask("POST", "/x", BEARER, ("content-length", length))).status == 400


async def test_a_body_over_the_cap_is_refused_told_or_counted() -> None:
    declared = await ask("POST", "/x", BEARER, ("content-length", str(MAX_BODY + 1)))
    piece = bytes(1024 * 1024)
    counted = await ask("POST", "/x", BEARER, body=[piece] * 33)
    for output in (declared, counted):
        assert (output.status, output.ran) == (413, [])
        assert "32 MiB" in json.loads(output.body)["error"]
    assert (await ask("POST", "/x", BEARER, body=[piece] * 32)).status == 200
    early = await ask("POST", "/x", ("content-length", str(MAX_BODY + 1)))
    assert early.status == 401  # the credential comes before the body


async def test_a_body_over_the_cap_is_413_through_starlette_whatever_the_page_makes_of_it() -> None:
    async def swallow(request: Request) -> Response:
        try:
            await request.body()
        except Exception:
            return PlainTextResponse("junk", 422)
        return PlainTextResponse("read")

    async def body_length(request: Request) -> Response:
        return PlainTextResponse(f"{len(await request.body())}")

    app = Starlette(
        routes=[Route(f"/{f.__name__}", f, methods=["POST"]) for f in (swallow, body_length)]
    )
    guard = Guard(app, token=TOKEN, port=lambda: PORT)
    for path in ("/swallow", "/body_length"):
        scope = scope_of("POST", path, [("host", HERE), BEARER])
        output = await call(guard, scope, [bytes(MAX_BODY), b"x"])
        assert (output.status, b"32 MiB" in output.body) == (413, True)


# --- behind uvicorn -------------------------------------------------------------------------


@asynccontextmanager
async def serve_guarded(go_on: asyncio.Event, http: str) -> AsyncIterator[int]:
    """A small app behind the guard on a free port."""

    async def page(request: Request) -> Response:
        return PlainTextResponse(f"{len(await request.body())} {request.url.path}")

    async def stream(request: Request) -> Response:
        async def pieces() -> AsyncIterator[str]:
            yield "data: 1\n\n"
            await asyncio.wait_for(go_on.wait(), 30)
            raise ValueError("in mid stream")

        return StreamingResponse(pieces(), media_type="text/event-stream")

    routes = [Route("/stream", stream), Route("/{p:path}", page, methods=["GET", "POST"])]
    listening = socket.create_server(("127.0.0.1", 0))
    port: int = listening.getsockname()[1]
    guard = Guard(Starlette(routes=routes), token=TOKEN, port=lambda: port)
    config = uvicorn.Config(guard, http=http, access_log=False, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield port
    finally:
        server.should_exit = True
        await asyncio.wait_for(task, 30)


async def exchange(port: int, request: str, body: bytes = b"") -> bytes:
    """The answer to raw bytes, read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace("\n", "\r\n").encode("latin-1") + body)
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return answer


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_what_a_real_server_makes_of_it(http: str) -> None:
    async with serve_guarded(asyncio.Event(), http) as port:
        for request, status in SERVED:
            request = request.replace("HERE", f"127.0.0.1:{port}")
            request = request.replace("AUTH", f"Authorization: Bearer {TOKEN}")
            answer = await exchange(port, f"{request}\nConnection: close\n\n")
            refused = b"HTTP/1.1 400" if http == "h11" and status == 421 else b"HTTP/1.1 421"
            assert answer.startswith((b"HTTP/1.1 %d" % status, refused)), request
            assert status != 200 or b"frame-ancestors 'none'" in answer


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_a_chunked_body_is_counted_on_its_way(http: str) -> None:
    head = f"POST /x HTTP/1.1\nHost: HERE\nAuthorization: Bearer {TOKEN}\n"
    head += "Transfer-Encoding: chunked\n\n"
    piece = b"100000\r\n" + bytes(0x100000) + b"\r\n"
    async with serve_guarded(asyncio.Event(), http) as port:
        head = head.replace("HERE", f"127.0.0.1:{port}").replace("\n", "\r\n")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for pieces, status, words in ((32, 200, b"33554432 /x"), (40, 413, b"32 MiB")):
            writer.write(head.encode() + piece * pieces + b"0\r\n\r\n")
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            size = int(answer.partition(b"content-length: ")[2].split(b"\r\n")[0])
            assert answer.startswith(b"HTTP/1.1 %d" % status)
            assert words in await asyncio.wait_for(reader.readexactly(size), 30)
        writer.close()


async def test_a_stream_passes_at_once_and_a_failure_in_it_cuts_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on = asyncio.Event()
    async with serve_guarded(go_on, "httptools") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"GET /stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        writer.write(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        await asyncio.wait_for(reader.readuntil(b"data: 1\n\n\r\n"), 30)
        with caplog.at_level(logging.ERROR):
            go_on.set()
            rest = await asyncio.wait_for(reader.read(), 30)
        writer.close()
    assert rest == b""  # no last chunk: the other side sees that it was cut
    assert any("in mid stream" in record.getMessage() for record in caplog.records)
    assert not any(record.exc_info for record in caplog.records)
