"""What is compressed on its way out: pages, styles and scripts, and nothing else."""

from __future__ import annotations

import gzip

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.web.app import PACKET, _compress_pages
from tests.servers import RunningServer
from tests.web.asking import Header, call, scope_of

pytestmark = pytest.mark.anyio

GZIP = ("accept-encoding", "gzip, deflate, br")
PIECES = (b"data: one\n\n", b"data: two\n\n")


def answering(kind: str, *pieces: bytes) -> ASGIApp:
    """An app that answers with these pieces, each by itself."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return _compress_pages(app)


@pytest.mark.parametrize(
    ("path", "kind", "request_headers", "packed"),
    [
        ("/sessions/1", "text/html; charset=utf-8", [GZIP], True),
        ("/static/app.css", "text/css", [GZIP], True),
        ("/static/app.js", "text/javascript", [GZIP], True),
        ("/sessions/1", "text/html", [], False),
        ("/stream", "text/event-stream; charset=utf-8", [GZIP], False),
        ("/sessions/1/events", "application/x-ndjson", [GZIP], False),
        ("/sessions/1/recordings/1", "text/plain", [GZIP], False),
        ("/sessions/1/recordings/1/bytes", "application/octet-stream", [GZIP], False),
        ("/sim/anthropic/v1/messages", "text/html", [GZIP], False),
    ],
)
async def test_pages_are_and_data_is_not(
    path: str, kind: str, request_headers: list[Header], packed: bool
) -> None:
    body = b"<p>" * PACKET
    output = await call(answering(kind, body), scope_of("GET", path, request_headers))
    assert output.header("content-encoding") == ("gzip" if packed else None)
    assert (gzip.decompress(output.body) if packed else output.body) == body


async def test_of_a_stream_each_message_leaves_at_once_and_as_it_is() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        assert len(sent) == 1
        for number, piece in enumerate(PIECES, 2):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            assert (len(sent), sent[-1]["body"]) == (number, piece)

    async def receive() -> Message:
        raise AssertionError

    await _compress_pages(app)(scope_of("GET", "/stream", [GZIP]), receive, send)


async def test_a_page_says_that_it_depends_on_who_asks(server: RunningServer) -> None:
    async with server.page() as browser:
        got = await browser.get("/static/app.css")
        assert got.headers["content-encoding"] == "gzip"
        assert got.headers["vary"] == "Accept-Encoding"
        assert int(got.headers["content-length"]) < len(got.content) / 3
        response = await browser.get("/static/app.css", headers={"accept-encoding": "identity"})
        assert response.content == got.content
