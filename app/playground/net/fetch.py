"""One HTTP request for a tool: to a checked address, with a response small enough for memory.

Follows no redirect, keeps no cookie, uses no proxy, resolves each name once. Independent of tools.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from playground import __version__
from playground.core.errors import BadInput, Refused
from playground.net.addresses import Resolve, check_address, resolve_host
from playground.net.client import (
    CODINGS,
    Decompressor,
    NetworkError,
    connect_reason,
    httpx,
    is_closed_early,
)
from playground.net.connections import Connections
from playground.net.keys import origin

CONNECT_S = 10.0
_CERTIFICATES: list[ssl.SSLContext] = []  # created on first use: takes 20 ms


@dataclass(frozen=True)
class FetchResponse:
    """A response of any status. Header names are lower case; `body` is decompressed."""

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    url: str


class CheckedTransport(httpx.AsyncBaseTransport):
    """A transport that checks each request's address again, and connects only to checked ones.

    An httpx transport, for code that needs its own client. Raises core.errors.Refused for forbidden
    addresses. TLS and Host use the name.
    """

    def __init__(
        self, *, private: bool, hosts: Sequence[str] = (), resolve: Resolve = resolve_host
    ) -> None:
        self._private, self._hosts, self._resolve = private, hosts, resolve
        # One per name: two names with one address must not share a connection.
        self._ways: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        place = await check_address(
            str(request.url), private=self._private, hosts=self._hosts, resolve=self._resolve
        )
        way = self._transport_for(place.scheme, place.authority)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        for address in place.addresses:
            connections = Connections()
            aimed = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=[(b"Host", place.authority.encode("ascii")), *headers],
                stream=request.stream,
                extensions={
                    **request.extensions,
                    "sni_hostname": place.host,
                    "trace": connections.trace,
                },
            )
            try:
                async with connections.closed_on_error():
                    return await way.handle_async_request(aimed)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if address == place.addresses[-1]:
                    raise
        raise AssertionError("an address is required")

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()
        self._ways.clear()

    def _transport_for(self, scheme: str, authority: str) -> httpx.AsyncHTTPTransport:
        name = f"{scheme}://{authority}"
        if name not in self._ways:
            verify = _certificates() if scheme == "https" else False  # unused without TLS
            self._ways[name] = httpx.AsyncHTTPTransport(verify=verify, trust_env=False)
        return self._ways[name]


def _certificates() -> ssl.SSLContext:
    if not _CERTIFICATES:
        _CERTIFICATES.append(httpx.create_ssl_context())
    return _CERTIFICATES[0]


async def fetch(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    private: bool,
    hosts: Sequence[str] = (),
    max_bytes: int,
    timeout_s: float | None,
    report: Callable[[int, int | None], None] | None = None,
    resolve: Resolve = resolve_host,
) -> FetchResponse:
    """Sends a request and reads the whole response within `timeout_s` seconds; a 3xx is returned.
    Without `timeout_s` the caller must limit the time.

    `report` gets the number of body bytes received, and the total (None: unknown). Refused if the
    address must not be reached. NetworkError: `bad_request` (nothing was sent), `unreachable`,
    `timeout`, `not_api`, `interrupted`, or `too_large` if the decompressed body has more than
    `max_bytes`. No message contains a header.
    """
    place = _place(url)
    try:
        async with (
            asyncio.timeout(timeout_s),
            httpx.AsyncClient(
                transport=CheckedTransport(private=private, hosts=hosts, resolve=resolve),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=CONNECT_S),
                headers={"user-agent": f"tool-playground/{__version__}"},
            ) as client,
            client.stream(
                method, url, headers=_identity_headers(headers), content=body
            ) as response,
        ):
            data = await _body(response, place, max_bytes, report)
    except TimeoutError:
        sentence = (
            f"{place} took longer than {timeout_s:g} s. Retry, or raise the tool's time limit."
        )
        raise NetworkError("timeout", sentence) from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TypeError, ValueError) as error:
        # `from None`: the cause may contain a header's value, which may be a key.
        raise _trouble(error, place) from None
    return FetchResponse(
        response.status_code,
        response.reason_phrase,
        dict(response.headers.items()),
        data,
        url,
    )


def _place(url: str) -> str:
    try:
        return origin(url)
    except BadInput as error:
        raise Refused(str(error)) from None


def _identity_headers(headers: Mapping[str, str]) -> dict[str, str]:
    others = {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}
    return {**others, "accept-encoding": "identity"}


async def _body(
    response: httpx.Response,
    place: str,
    most: int,
    report: Callable[[int, int | None], None] | None,
) -> bytes:
    coding = response.headers.get("content-encoding", "").strip().lower()
    inflate = None if coding in ("", "identity") else Decompressor()
    if inflate is not None and coding not in CODINGS:
        raise NetworkError(
            "not_api", f"{place} answered with the encoding {coding!r}, which was not requested."
        )
    length = response.headers.get("content-length", "")
    whole = int(length) if length.isascii() and length.isdigit() and len(length) < 16 else None
    body, came = bytearray(), 0
    async for data in response.aiter_raw():
        came += len(data)
        for piece in (data,) if inflate is None else inflate.feed(data):
            body += piece
            if len(body) > most:
                sentence = (
                    f"{place} answered with more than the {most:,} bytes allowed. Ask for less."
                )
                raise NetworkError("too_large", sentence)
        if report is not None:
            report(came, whole)
    if inflate is not None and not inflate.complete:
        raise NetworkError(
            "interrupted", f"{place} broke off in the middle of its compressed data."
        )
    return bytes(body)


def _trouble(error: Exception, place: str) -> NetworkError:
    match error:
        case httpx.ConnectTimeout():
            sentence = (
                f"cannot reach {place}: no connection within {CONNECT_S:g} s. Check the address."
            )
            return NetworkError("unreachable", sentence)
        case httpx.ConnectError():
            return NetworkError("unreachable", f"cannot reach {place}: {connect_reason(error)}")
        case httpx.LocalProtocolError() | httpx.InvalidURL() | httpx.UnsupportedProtocol():
            sentence = f"The request to {place} cannot be sent: a header or the URL is invalid."
            return NetworkError("bad_request", sentence)
        case httpx.RemoteProtocolError() if not is_closed_early(error):
            return NetworkError("not_api", f"{place} sent invalid HTTP. Check the server.")
        case httpx.HTTPError():
            sentence = (
                f"{place} broke off before its answer was complete. The request may still have "
                "had an effect."
            )
            return NetworkError("interrupted", sentence)
        case ValueError() if not isinstance(error, UnicodeError):
            sentence = f"{place} sent invalid compressed data."
            return NetworkError("interrupted", sentence)
    sentence = f"The request to {place} cannot be sent: a header or the URL is not plain text."
    return NetworkError("bad_request", sentence)
