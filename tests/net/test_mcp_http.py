"""HTTP for MCP servers: where it goes, with which headers, and what it refuses."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from typing import Any

import anyio
import httpx2
import pytest

from playground.core.errors import BadInput, Refused
from playground.net.mcp_http import McpTransport, streams
from tests.net.tool_server import http_response, serving
from tests.tables import rest_slow

pytestmark = pytest.mark.anyio


async def to_loopback(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def post(url: str, way: McpTransport, **more: Any) -> httpx2.Response:
    with anyio.fail_after(20):
        async with httpx2.AsyncClient(transport=way, trust_env=False) as client:  # type: ignore[arg-type]
            return await client.post(url, **more)


async def test_the_name_is_kept_and_the_address_is_the_checked_one() -> None:
    async with serving(http_response(b"{}", "Content-Type: application/json")) as server:
        url = f"http://mcp.example:{server.port}/mcp"
        way = McpTransport(url, private=True, resolve=to_loopback)
        response = await post(url, way, json={"a": 1}, headers={"x-mine": "yes"})
        assert (response.status_code, response.json()) == (200, {})
        head = server.seen[0].lower()
        assert f"host: mcp.example:{server.port}".encode() in head
        assert b"x-mine: yes" in head


async def test_a_private_address_is_refused_where_nobody_typed_it() -> None:
    async with serving(http_response(b"{}")) as server:
        url = f"http://mcp.example:{server.port}/mcp"
        with pytest.raises(Refused, match="was not contacted"):
            await post(url, McpTransport(url, private=False, resolve=to_loopback))
        assert server.seen == []


async def test_another_origin_than_the_accepted_one_is_refused() -> None:
    async with serving(http_response(b"{}")) as server:
        way = McpTransport("http://other.example/mcp", private=True, resolve=to_loopback)
        with pytest.raises(Refused, match=r"Only http://other\.example was accepted"):
            await post(f"http://mcp.example:{server.port}/mcp", way)
        assert server.seen == []


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("307 Temporary Redirect", "redirects to /mcp/; not followed"),
        ("302 Found", "not followed"),
        ("401 Unauthorized", "HTTP 401"),
        ("403 Forbidden", "HTTP 403"),
        ("404 Not Found", r"HTTP 404\): it is not a streamable HTTP endpoint"),
        ("405 Method Not Allowed", "older HTTP with SSE .often at /sse. is not supported"),
    ],
)
async def test_redirects_and_logins_are_told(status: str, words: str) -> None:
    async with serving(http_response(b"", "Location: /mcp/", status=status)) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        with pytest.raises(Refused, match=words):
            await post(url, McpTransport(url, private=True))
        assert len(server.seen) == 1, "within the origin it is not followed either"


async def test_a_404_of_a_session_or_in_json_is_an_answer() -> None:
    for answer, headers in (
        (http_response(b"{}", "Content-Type: application/json", status="404 Not Found"), {}),
        (http_response(b"", status="404 Not Found"), {"mcp-session-id": "a"}),
    ):
        async with serving(answer) as server:
            url = f"http://127.0.0.1:{server.port}/mcp"
            assert (
                await post(url, McpTransport(url, private=True), headers=headers)
            ).status_code == 404


async def test_an_answer_has_a_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playground.net.mcp_http.MAX_MESSAGE", 1024 * 1024)
    async with serving(http_response(b"x" * (1024 * 1024 + 1))) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        with pytest.raises(Refused, match="sent more than 1 MB"):
            await post(url, McpTransport(url, private=True))


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("coding", rest_slow(["gzip", "DEFLATE", "br", "identity, gzip"]))
async def test_nothing_compressed_is_unpacked(kind: str, coding: str) -> None:
    bomb = gzip.compress(b"data: " + b" " * 20_000_000)
    headers = (f"Content-Type: {kind}", f"Content-Encoding: {coding}")
    async with serving(http_response(bomb, *headers)) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        with pytest.raises(Refused, match="no compression was requested"):
            await post(
                url, McpTransport(url, private=True), headers={"Accept-Encoding": "gzip, br"}
            )
        assert b"accept-encoding: identity\r\n" in server.seen[0].lower()
        assert server.seen[0].lower().count(b"accept-encoding") == 1


@pytest.mark.parametrize("headers", rest_slow([{"x": "a\r\nb: c"}, {"x\n": "a"}, {"ü": "a"}]))
async def test_a_header_with_a_line_break_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="invalid character"):
        async with streams("http://127.0.0.1:9/mcp", headers, private=True):
            pass
