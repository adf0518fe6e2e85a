"""HTTP client for providers: one request, and its bytes as they arrive.

Follows no redirect, keeps no cookie, asks for no compression, stops at a size limit. Does not
interpret the bytes; codecs do that. https://www.rfc-editor.org/rfc/rfc9110
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import ssl
import urllib.request
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import cookiejar
from typing import Any
from urllib.parse import urlsplit

import httpx as httpx  # here alone: its successor httpx2 has the same API

from playground import __version__
from playground.core.errors import BadInput, PlaygroundError
from playground.core.events import FailKind
from playground.core.settings import Limits
from playground.net.connections import (
    ArrivalState,
    Connections,
    PoolTurn,
    close_response,
    next_piece,
    start_listening,
)
from playground.net.keys import DEFAULT_PORTS, is_loopback, origin

MOST_QUOTED = 500
"""Most characters quoted from a server in one of our sentences."""

REQUEST_IDS = ("request-id", "x-request-id", "apim-request-id", "x-goog-request-id", "cf-ray")

FOREVER_S = 1e9
"""Replaces waits that exceed a float; longer than anybody waits."""

WRITE_S = 30.0

CONNECT_S = 30.0
"""Seconds to connect for a relayed request."""

ERROR_BODY = 64 * 1024
"""Most bytes read of an error response."""

MOST_PIECE = 64 * 1024
CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
EITHER = 32 + zlib.MAX_WBITS  # gzip or zlib, detected by the first bytes


def request_id(headers: Mapping[str, str]) -> str:
    """The response's id of its request, or ""."""
    return next((headers[name] for name in REQUEST_IDS if headers.get(name)), "")


class NetworkError(PlaygroundError):
    """The failure of one request, in terms of ResponseFailed.

    `status` is that of the response, if any. `quoted` is the server's text that the message
    repeats, unshortened: `sentence` shortens it after redaction. `began`: a byte of the body had
    arrived, so a retry would repeat output. `retry_after` is in seconds. `headers` are the
    response's if they are reported nowhere else.
    """

    def __init__(
        self,
        failure: FailKind,
        message: str,
        *,
        status: int | None = None,
        quoted: str = "",
        began: bool = False,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.status = status
        self.quoted = quoted
        self.began = began
        self.retry_after = retry_after
        self.headers = headers or {}
        self.request_id = request_id(self.headers)

    def sentence(self, redact: Callable[[str], str]) -> str:
        """The message, redacted and then shortened: half of a secret would not be recognized."""
        message, quoted = redact(str(self)), redact(self.quoted)
        if len(quoted) <= MOST_QUOTED:
            return message
        return message.replace(quoted, quoted[:MOST_QUOTED] + "…")


# Interprets failed connections and headers --------------------------------------------------------


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The wait in seconds that the response asks for: a number or a date; None if invalid or past.

    A number too large for a float counts as FOREVER_S, not as invalid.

    The caller decides how much of it to honour.
    """
    text = headers.get("retry-after", "").strip()
    asked = _number(headers.get("retry-after-ms", ""))
    seconds = _number(text) if asked is None else asked / 1000
    if seconds is None:
        try:
            seconds = (parsedate_to_datetime(text) - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if seconds >= 0 else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isinf(number) and number > 0 and text.strip()[:1].isdigit():
        return FOREVER_S
    return min(number, FOREVER_S) if math.isfinite(number) else None


def connect_reason(error: BaseException) -> str:
    """Why a connection failed and what to do, from the chain of exceptions."""
    for cause in _causes(error):
        match cause:
            case socket.gaierror():
                return "the name cannot be resolved (DNS). Check the spelling and your network."
            case ssl.SSLCertVerificationError():
                reason = getattr(cause, "verify_message", "unknown issuer")
                return f"its TLS certificate is not trusted ({reason}). Check the host name."
            case ssl.SSLError():
                return "it does not use TLS on this port. Check the port, or use http://."
            case ConnectionRefusedError():
                return "the connection was refused. Is the server running on that port?"
    return "the connection failed. Check the address and your network."


def is_closed_early(error: httpx.RemoteProtocolError) -> bool:
    """Whether the server closed the connection rather than violate HTTP: httpx distinguishes these
    two only by message (that of h11 or of httpcore)."""
    return re.search("disconnected|peer closed", str(error)) is not None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and all its causes and contexts, including those in exception groups."""
    unread: list[BaseException | None] = [error]
    seen: set[int] = set()
    while unread:
        cause = unread.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        unread += [cause.__context__, cause.__cause__]
        if isinstance(cause, BaseExceptionGroup):
            unread += cause.exceptions


class ProviderResponse:
    """A response whose head has arrived. Header names are lower case.

    `retry_after` is in seconds and never negative; None if missing or invalid.
    """

    def __init__(
        self,
        response: httpx.Response,
        place: str,
        limits: Limits,
        ends_at: float,
        first_by: float,
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = dict(response.headers.items())
        self.request_id = request_id(self.headers)
        self.retry_after = retry_after(self.headers, datetime.now(UTC))
        self._response = response
        self._place = place
        self._limits = limits
        self._ends_at = ends_at  # loop time, like the next one
        self._first_by = first_by
        self._began = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The decompressed body as it arrives; call once. Ends when the connection closes properly.

        NetworkError: `interrupted` if it broke off, `timeout` if the first byte took longer than
        `first_byte_s` after the request, no byte arrived for `idle_s` after that, or the whole took
        more than `wall_s`, `too_large` at `max_stream_bytes` (everything up to the limit is
        yielded), `not_api` for an unrequested compression that is not supported. Of a response with
        status 400 or above only the first 64 KiB are yielded, without an error.
        """
        most = self._limits.max_stream_bytes
        if self.status >= 400:
            most = min(ERROR_BODY, most)
        room = most
        async with aclosing(self._decompressed_chunks()) as pieces:
            async for piece in pieces:
                if room:
                    yield piece[:room]
                if len(piece) > room:
                    break
                room -= len(piece)
            else:
                return
        if self.status < 400:
            raise self._network_error(
                "too_large",
                f"{self._place} sent more than {_size(most)}; the rest was not read. If you "
                "expect this, raise the limit.",
            )

    async def _decompressed_chunks(self) -> AsyncGenerator[bytes, None]:
        coding = self.headers.get("content-encoding", "").strip().lower()
        if coding in ("", "identity"):
            async with aclosing(self._raw_chunks()) as arriving:
                async for data in arriving:
                    yield data
            return
        if coding not in CODINGS:
            raise self._network_error(
                "not_api",
                f"{self._place} sent its answer with the encoding '{coding}'. Turn off "
                "compression at the proxy or server in between.",
                coding,
            )
        inflate = Decompressor()
        async with aclosing(self._raw_chunks()) as arriving:
            async for data in arriving:
                for piece in self._inflate(inflate, data):
                    yield piece
        if not inflate.complete:
            raise self._broken_error("in the middle of its compressed data")

    def _inflate(self, inflate: Decompressor, data: bytes) -> Iterator[bytes]:
        try:
            yield from inflate.feed(data)
        except ValueError:
            raise self._broken_error("with invalid compressed data") from None

    async def _raw_chunks(self) -> AsyncGenerator[bytes, None]:
        """The bytes from the socket, each wait limited. No yield inside the time-out."""
        loop = asyncio.get_running_loop()
        source = self._response.aiter_raw()
        while True:
            # The head may arrive at once although the model must still be loaded.
            silent_at = loop.time() + self._limits.idle_s if self._began else self._first_by
            try:
                async with asyncio.timeout_at(min(silent_at, self._ends_at)):
                    data = await next_piece(source, self._response)
            except TimeoutError:
                raise self._timeout_error(silent_at) from None
            except httpx.HTTPError:
                raise self._broken_error("before its answer was complete") from None
            if not data:
                return
            self._began = True
            yield data

    def _timeout_error(self, silent_at: float) -> NetworkError:
        if silent_at <= self._ends_at and not self._began:
            return self._network_error("timeout", _first_byte_words(self._place, self._limits))
        if silent_at <= self._ends_at:
            seconds = _seconds(self._limits.idle_s)
            return self._network_error(
                "timeout",
                f"{self._place} sent nothing for {seconds}. Retry, or raise the profile's idle "
                "timeout (Providers).",
            )
        return self._network_error(
            "timeout",
            f"{self._place} took longer than {_seconds(self._limits.wall_s)}. Retry, or raise "
            "the time limit.",
        )

    def _broken_error(self, where: str) -> NetworkError:
        return self._network_error(
            "interrupted", f"{self._place} broke off {where}. Retry from the same point."
        )

    def _network_error(self, failure: FailKind, message: str, quoted: str = "") -> NetworkError:
        return NetworkError(failure, message, status=self.status, quoted=quoted, began=self._began)


class RelayedResponse:
    """A relayed response: its status, its headers in order (including repetitions, names in lower
    case), and its body as received, in any encoding."""

    def __init__(self, response: httpx.Response, place: str) -> None:
        self.status = response.status_code
        self.headers = [(name.lower(), value) for name, value in response.headers.raw]
        self._response = response
        self._place = place

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces as they arrive; call once. NetworkError `interrupted` if it ends
        before its declared length or last chunk."""
        began = False
        assert isinstance(self._response.stream, httpx.AsyncByteStream)
        source = aiter(self._response.stream)
        try:
            while data := await next_piece(source, self._response):
                began = True
                yield data
        except httpx.HTTPError:
            raise NetworkError(
                "interrupted",
                f"{self._place} broke off before its answer was complete. Retry.",
                status=self.status,
                began=began,
            ) from None


class HttpClient:
    """The client for all requests. Create and close it in one event loop; reuses connections."""

    def __init__(self) -> None:
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._passages: dict[str, httpx.AsyncHTTPTransport] = {}
        self._turn = PoolTurn()

    @asynccontextmanager
    async def open(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, limits: Limits
    ) -> AsyncIterator[ProviderResponse]:
        """Sends the request; yields the response as soon as its head has arrived.

        NetworkError: `bad_request` (nothing was sent), `unreachable`, `timeout` (no head within
        `first_byte_s` after the request was sent), `redirect`, `not_api`. Leaving the block early
        closes the connection at once.
        """
        place = _place(url)
        ends_at = asyncio.get_running_loop().time() + limits.wall_s
        response, first_by = await self._head(
            method, url=url, headers=headers, body=body, limits=limits, place=place, ends_at=ends_at
        )
        try:
            _refuse_status(response, place)
            yield ProviderResponse(response, place, limits, ends_at, first_by)
        finally:
            await close_response(response)

    @asynccontextmanager
    async def relay(
        self,
        method: str,
        url: str,
        target: bytes,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes],
    ) -> AsyncIterator[RelayedResponse]:
        """Relays another program's request; yields the response as soon as its head has arrived.

        `url` is the server, scheme://host:port; `target` is path and query as sent, `headers` are
        all headers, including `host` and the body's length. Nothing is added, followed, stored,
        decompressed or cut off, and except for CONNECT_S there is no time limit: that is left to
        the requesting program. An exception in the iterator `body` ends the request.

        NetworkError: `bad_request` (nothing was sent), `unreachable`, `not_api` (no HTTP). Leaving
        the block early closes the connection at once.
        """
        place = _place(url)
        transport = await self._relay_transport(url, place)
        waits = {"connect": CONNECT_S, "read": None, "write": None, "pool": None}
        connections = Connections()
        try:
            # For a raw stream httpx adds no headers.
            stream = httpx.ByteStream(body) if isinstance(body, bytes) else None
            request = httpx.Request(
                method,
                url,
                headers=headers,
                stream=stream,
                content=None if isinstance(body, bytes) else body,
                extensions={"timeout": waits, "trace": connections.trace},
            )
            request.url = _exact_url()(url, target)
            async with connections.closed_on_error():
                response = await transport.handle_async_request(request)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TypeError) as error:
            # `from None`: the cause may contain a header's value, which may be a key.
            raise _no_head_error(
                error, place, Limits(connect_s=CONNECT_S), ArrivalState()
            ) from None
        try:
            if not 200 <= response.status_code < 600:
                raise _status_error(response.status_code, place)
            yield RelayedResponse(response, place)
        finally:
            await close_response(response)

    async def _relay_transport(self, url: str, place: str) -> httpx.AsyncHTTPTransport:
        """The connections through the environment's proxy for `url`, if any. Separate from those of
        our own requests."""
        route = "plain" if url.lower().startswith("http:") and is_loopback(url) else _proxy(url)
        if route not in self._passages:
            transport = await asyncio.to_thread(self._new_relay_transport, route, place)
            self._passages.setdefault(route, transport)  # another task may have been faster
        return self._passages[route]

    def _new_relay_transport(self, route: str, place: str) -> httpx.AsyncHTTPTransport:
        plain = route == "plain"
        try:
            return httpx.AsyncHTTPTransport(
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True,
                proxy=None if plain else route or None,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            )
        except (ImportError, ValueError, OSError) as error:
            raise _bad_environment(error, place) from None

    async def aclose(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        for transport in self._passages.values():
            await transport.aclose()
        self._clients.clear()
        self._passages.clear()
        await asyncio.sleep(0)  # the loop closes sockets in its next iteration

    async def _head(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        limits: Limits,
        place: str,
        ends_at: float,
    ) -> tuple[httpx.Response, float]:
        """The response's head, and the deadline for its first byte."""
        loop = asyncio.get_running_loop()
        client = await self._client(url, place)
        stage, first_by, arrived = "", ends_at, start_listening()
        connections = Connections()
        try:
            # Connecting through a proxy takes two connections; each step has its own time limit.
            async with (
                asyncio.timeout(2 * limits.connect_s) as waiting,
                self._turn.take() as end_turn,
            ):

                async def trace(name: str, info: Mapping[str, Any]) -> None:
                    nonlocal stage, first_by
                    end_turn()
                    await connections.trace(name, info)
                    match name:
                        case "http11.send_request_headers.started":
                            stage = "sending"
                            waiting.reschedule(ends_at)
                        case "http11.receive_response_headers.started":
                            stage = "waiting"
                            arrived.anything = False  # a proxy may have answered before
                            first_by = loop.time() + limits.first_byte_s
                            waiting.reschedule(min(ends_at, first_by))

                request = client.build_request(
                    method,
                    url,
                    headers={**_drop_accept_encoding(headers), "accept-encoding": "identity"},
                    content=body,
                    timeout=httpx.Timeout(
                        connect=limits.connect_s, write=WRITE_S, read=None, pool=None
                    ),
                    extensions={"trace": trace},
                )
                async with connections.closed_on_error():
                    return await client.send(request, stream=True), first_by
        except TimeoutError:
            raise _head_timeout(stage, place, limits) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TypeError) as error:
            # `from None`: the cause may contain a header's value, which may be a key.
            raise _no_head_error(error, place, limits, arrived) from None

    async def _client(self, url: str, place: str) -> httpx.AsyncClient:
        """A client; uses the environment's proxy for remote hosts only, never for this machine."""
        loopback = is_loopback(url)
        plain = loopback and url.lower().startswith("http:")
        route = "plain" if plain else "loopback" if loopback else "remote"
        if route not in self._clients:
            # In a thread: loading the library and the certificates takes tens of milliseconds.
            client = await asyncio.to_thread(self._new_client, plain, loopback, place)
            self._clients.setdefault(route, client)  # another task may have been faster
        return self._clients[route]

    def _new_client(self, plain: bool, loopback: bool, place: str) -> httpx.AsyncClient:
        try:
            return httpx.AsyncClient(
                # Without TLS, an empty certificate store saves 20 ms.
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True,
                trust_env=not loopback,
                follow_redirects=False,
                headers={"user-agent": f"tool-playground/{__version__}"},
                cookies=cookiejar.CookieJar(cookiejar.DefaultCookiePolicy(allowed_domains=[])),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            )
        except (ImportError, ValueError, OSError) as error:
            raise _bad_environment(error, place) from None


def _bad_environment(error: Exception, place: str) -> NetworkError:
    return NetworkError(
        "unreachable",
        f"cannot reach {place}: the proxy or certificate settings in the environment are invalid "
        f"({type(error).__name__}). Fix HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE.",
    )


def _proxy(url: str) -> str:
    """The environment's proxy for `url`, or ""."""
    parts = urlsplit(url)
    if is_loopback(url) or urllib.request.proxy_bypass(parts.netloc):
        return ""
    named = urllib.request.getproxies()
    proxy = named.get(parts.scheme) or named.get("all") or ""
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


@cache
def _exact_url() -> Callable[[str, bytes], httpx.URL]:
    """A URL class that sends path and query unchanged: httpx's own resolves dots and escapes some
    characters. (Its extension `target` would also replace the target of a proxy request.)"""

    class ExactUrl(httpx.URL):
        def __init__(self, url: str, target: bytes) -> None:
            super().__init__(url)
            self._target = target

        @property
        def raw_path(self) -> bytes:
            return self._target

    return ExactUrl


def _place(url: str) -> str:
    """HOST:PORT for messages; NetworkError if `url` is not a plain http(s) URL."""
    try:
        parts = urlsplit(origin(url))
    except BadInput as error:
        raise NetworkError("bad_request", str(error)) from None
    return parts.netloc if parts.port else f"{parts.netloc}:{DEFAULT_PORTS[parts.scheme]}"


def _drop_accept_encoding(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}


def _status_error(status: int, place: str) -> NetworkError:
    return NetworkError(
        "not_api", f"{place} answered {status}, which is not a final status. Check the URL."
    )


def _refuse_status(response: httpx.Response, place: str) -> None:
    status = response.status_code
    if status < 200:
        raise _status_error(status, place)
    if 300 <= status < 400:
        location = response.headers.get("location", "")
        target = f" to {location}" if location else ""
        raise NetworkError(
            "redirect",
            f"{place} redirects{target} (HTTP {status}); not followed. If you trust the new "
            "address, set it as the profile's base URL.",
            status=status,
            quoted=location,
            headers=dict(response.headers.items()),
        )


def _head_timeout(stage: str, place: str, limits: Limits) -> NetworkError:
    """The error for the time limit that expired before the head arrived."""
    match stage:
        case "waiting":
            return NetworkError("timeout", _first_byte_words(place, limits))
        case "sending":
            return NetworkError(
                "timeout", f"{place} had not accepted the request after {_seconds(limits.wall_s)}."
            )
    return NetworkError("unreachable", f"cannot reach {place}: {_connect_words(limits)}")


def _first_byte_words(place: str, limits: Limits) -> str:
    return (
        f"{place} accepted the request but sent nothing for {_seconds(limits.first_byte_s)}. "
        "Retry, or raise the profile's first-byte timeout (Providers)."
    )


def _connect_words(limits: Limits) -> str:
    return (
        f"no connection within {_seconds(limits.connect_s)}. Check the address, or raise the "
        "profile's connect timeout (Providers)."
    )


def _no_head_error(
    error: Exception, place: str, limits: Limits, arrived: ArrivalState
) -> NetworkError:
    """The error for a response without a head."""
    cannot = f"cannot reach {place}: "
    match error:
        case httpx.ConnectTimeout():
            return NetworkError("unreachable", cannot + _connect_words(limits))
        case httpx.ProxyError():
            return NetworkError("unreachable", f"{cannot}the proxy refused. Check HTTPS_PROXY.")
        case httpx.ConnectError():
            return NetworkError("unreachable", cannot + connect_reason(error))
        case httpx.RemoteProtocolError() if not is_closed_early(error):
            return NetworkError(
                "not_api", f"{place} does not use HTTP. Check the port, and http:// or https://."
            )
        case httpx.NetworkError() | httpx.RemoteProtocolError() if arrived.anything:
            return NetworkError(
                "not_api",
                f"{place} broke off in the headers of its answer. Check the port, or retry.",
            )
        case httpx.WriteTimeout():
            return NetworkError(
                "timeout", f"{place} stopped accepting the request for {_seconds(WRITE_S)}. Retry."
            )
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            return NetworkError(
                "unreachable",
                f"{place} closed the connection without an HTTP answer. Check the port, or retry.",
            )
    return NetworkError(
        "bad_request",
        "The request is not valid HTTP. Check the profile's key, headers and URL for line "
        "breaks and non-ASCII characters.",
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:g} s"


def _size(size: int) -> str:
    return f"{size / 1024 / 1024:g} MiB" if size >= 1024 * 1024 else f"{size} bytes"


# Compressed bodies ------------------------------------------------------------------------------


class Decompressor:
    """Decompresses one body: gzip (RFC 1952) or zlib (RFC 1950). Yields pieces of at most 64 KiB,
    so that a decompression bomb can be stopped. We request no compression; some servers compress
    anyway. `complete`: the compressed data has reached its end. Finding 10 of docs/safety.md."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(EITHER)
        self._begun = False

    @property
    def complete(self) -> bool:
        return self._stream.eof or not self._begun

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decompressed `data`, in pieces; ValueError if it is invalid."""
        while data:
            if self._stream.eof:  # another gzip member may follow
                self._stream = zlib.decompressobj(EITHER)
            self._begun = True
            try:
                piece = self._stream.decompress(data, MOST_PIECE)
            except zlib.error as error:
                raise ValueError(str(error)) from None
            data = self._stream.unconsumed_tail or self._stream.unused_data
            if piece:
                yield piece
