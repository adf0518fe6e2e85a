"""HTTP for the MCP client: the SDK speaks the protocol, and each request is checked here.

Only the accepted origin; every address checked, and connected to without resolving it again; no
redirect, no proxy, no cookie. Threats 15 and 20 of docs/safety.md. httpx2 comes with the extra
`mcp`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from playground.core.errors import BadInput, Refused
from playground.net.addresses import Resolve, check_address, resolve_host
from playground.net.connections import Connections
from playground.net.keys import origin

if TYPE_CHECKING:
    import httpx2

MAX_MESSAGE = 16 * 1024 * 1024
"""Most bytes of one message of a server: an event of a stream, or a JSON response."""

CONNECT_S = 10.0

OnArrival = Callable[[int, int], None]
"""Called with the received bytes and events; raises if there are too many."""


@asynccontextmanager
async def streams(
    url: str,
    headers: Mapping[str, str],
    *,
    private: bool,
    heard: OnArrival = lambda size, events: None,
    resolve: Resolve = resolve_host,
) -> AsyncIterator[Any]:
    """The streams of the SDK's client to `url`; every request has `headers`.

    BadInput if `url` is invalid, Refused (in a request) if it must not be reached.
    """
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    way = McpTransport(url, private=private, heard=heard, resolve=resolve)
    for name, value in headers.items():
        if not value.isprintable() or not name.isascii() or not name.isprintable():
            raise BadInput(
                f"The header {name!r} contains a line break or another invalid character."
            )
    # A server may be silent while its tool works: the call has its own time limit.
    timeout = httpx2.Timeout(CONNECT_S, read=None)
    transport = cast("httpx2.AsyncBaseTransport", way)  # structural: the class is in an extra
    client = httpx2.AsyncClient(
        headers=dict(headers), timeout=timeout, transport=transport, trust_env=False
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as both,
    ):
        yield both


class McpTransport:
    """The transport of the client: limits where requests go, and how much is received."""

    def __init__(
        self,
        url: str,
        *,
        private: bool,
        heard: OnArrival = lambda size, events: None,
        resolve: Resolve = resolve_host,
    ) -> None:
        import httpx2

        self._heard = heard
        self._origin = origin(url)
        self._private = private
        self._resolve = resolve
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Sends one request to the accepted origin. Refused for another origin, or a redirect."""
        import httpx2

        if origin(str(request.url)) != self._origin:
            raise Refused(f"Only {self._origin} was accepted for this server.")
        place = await check_address(str(request.url), private=self._private, resolve=self._resolve)
        connections = Connections()
        extensions = {
            **request.extensions,
            "sni_hostname": place.host,
            "trace": connections.trace,
        }
        headers = request.headers.copy()  # includes Host with the original name
        headers["accept-encoding"] = "identity"
        response = None
        for number, address in enumerate(place.addresses, 1):
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=headers,
                stream=request.stream,
                extensions=extensions,
            )
            try:
                async with connections.closed_on_error():
                    response = await self._inner.handle_async_request(pinned)
                break
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if number == len(place.addresses):
                    raise
        assert response is not None
        await _check(request, response, self._origin)
        if _is_stream(response):
            response.stream = _count_arrivals(response.stream, self._heard)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> McpTransport:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


async def _check(request: httpx2.Request, response: httpx2.Response, place: str) -> None:
    """Refused for a redirect, a required login, an address without an MCP endpoint, a compressed
    response, or one of unlimited size."""
    status = response.status_code
    coding = response.headers.get("content-encoding", "").strip().lower()
    sentence = ""
    if 300 <= status < 400:
        there = response.headers.get("location", "nowhere")[:300]
        sentence = (
            f"{place} redirects to {there}; not followed. If you trust that URL, use it instead."
        )
    elif status in (401, 403):
        sentence = (
            f"{place} refused the request (HTTP {status}). Name the variable of its key in a "
            f"header, such as Authorization: Bearer ${{NAME}}. Browser login (OAuth) is not "
            "supported."
        )
    elif _is_no_endpoint(request, response):
        sentence = (
            f"{place} does not accept messages at {request.url.path[:200]} (HTTP {status}): it "
            "is not a streamable HTTP endpoint. The older HTTP with SSE (often at /sse) is not "
            "supported. Use the URL of its newer endpoint, often /mcp, or start it by its "
            "command."
        )
    elif coding not in ("", "identity"):
        # Limits apply to received bytes; decompressed, they could be a thousand times as many.
        sentence = (
            f"{place} sent {coding[:40]} although no compression was requested. Turn it off on "
            "the server."
        )
    if sentence:
        await response.aclose()
        raise Refused(sentence)
    if not _is_stream(response):
        response.stream = _limit_body(response.stream, place)


def _is_no_endpoint(request: httpx2.Request, response: httpx2.Response) -> bool:
    """Whether a first message was refused by the web server, as by a server with only SSE: a later
    404 is the end of a session, and one with JSON is an answer."""
    kind: str = response.headers.get("content-type", "")
    first = request.method == "POST" and "mcp-session-id" not in request.headers
    return first and response.status_code in (404, 405) and not kind.startswith("application/json")


def _is_stream(response: httpx2.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.lower().startswith("text/event-stream")


def _limit_body(stream: Any, place: str) -> httpx2.AsyncByteStream:
    """A body limited to MAX_MESSAGE bytes."""
    import httpx2

    class LimitedBody(httpx2.AsyncByteStream):  # the client checks the class of a body
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in stream:
                size += len(piece)
                if size > MAX_MESSAGE:
                    sentence = f"{place} sent more than {MAX_MESSAGE // 2**20} MB. Ask for less."
                    raise Refused(sentence)
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    return LimitedBody()


def _count_arrivals(stream: Any, heard: OnArrival) -> httpx2.AsyncByteStream:
    """An endless body; reports to `heard`: each event has at least one data line."""
    import httpx2

    class CountedBody(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in stream:
                heard(len(piece), piece.count(b"data:"))
                yield piece

        async def aclose(self) -> None:
            await stream.aclose()

    return CountedBody()
