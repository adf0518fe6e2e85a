"""Relays one request of an agent to its provider, and the answer back as it arrives.

Does not interpret the content: an Exchange observes it, and may change what the client gets. If the
Exchange fails, the relay continues.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, Protocol

import anyio
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from playground.config import one_line
from playground.core import errors
from playground.core.settings import Profile
from playground.net.client import CODINGS, Decompressor, HttpClient, NetworkError, RelayedResponse
from playground.protocols.registry import ENDS
from playground.secrets.names import names_key
from playground.secrets.redaction import Redactor
from playground.tap import CONNECTION, AgentConnection
from playground.tap.taps import Tap

logger = logging.getLogger("playground")

MOST_READ = 64 * 1024 * 1024
"""Bytes up to which a request's body is read completely before it is sent on."""

LOST = "An internal error occurred while this answer was changed here. Retry."

STOPPED = "The user stopped this session in the playground. Continue it there."

REVOKED = (
    "The tap was revoked while a result of this request waited for a decision, so it was not "
    "sent. Make a new tap in the playground."
)

UNHELD = (
    "This request could not be recorded, so its calls could not wait for a decision: it was not "
    "sent. See the playground's log. Retry, or let the tap stop at nothing."
)

LEAVING_S = 1.0
"""Time limit for an Exchange to end when the server stops."""

DoorName = Literal["anthropic", "openai", "gemini", "ollama"]
"""The word in the path of an agent's request."""

RawHeaders = Sequence[tuple[bytes, bytes]]
"""In their original order, including repetitions."""

AskAgain = Callable[[bytes], AbstractAsyncContextManager[RelayedResponse]]
"""Sends a request again with another body."""

CREDENTIALS = frozenset(
    (
        *(b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"),
        *(b"cookie", b"proxy-authorization"),
    )
)
"""The headers that usually contain an agent's own keys."""

HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"proxy-connection", b"keep-alive"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    )
)
"""Headers of a single connection (RFC 9110 7.6.1); trailers are not passed on."""


class RefusedRequest(Exception):
    """A request that is not sent on. `sentence` is for the user of the agent."""

    def __init__(
        self, status: int, sentence: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers


async def refuse(send: Send, protocol: str, refused: RefusedRequest) -> None:
    """Answers with the error in the form of `protocol`, "" if unknown."""
    body = error_body(protocol, refused.status, refused.sentence)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *refused.headers,
    ]
    start = {"type": "http.response.start", "status": refused.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def error_body(protocol: str, status: int, sentence: str) -> bytes:
    """An error as JSON."""
    if not protocol:
        return json.dumps({"error": sentence}).encode()
    end = ENDS[protocol]
    return end.error(end.problem(status, sentence), f"req_{secrets.token_hex(12)}")


@dataclass(frozen=True)
class AgentRequest:
    """`target` is the path after the door with its query, undecoded. `headers` are the agent's,
    without the tap's own. `body` is decompressed, None if it is larger than 64 MiB or has an
    unsupported content coding. `url` is the upstream address, with `?key=` as the agent sent it;
    `ask` sends another body there."""

    tap: Tap
    door: DoorName
    method: str
    target: bytes
    headers: RawHeaders
    body: bytes | None
    url: str
    profile: Profile
    at_ms: int
    ask: AskAgain | None = None


class Exchange(Protocol):
    """Observes one request of an agent and its answer. The relay calls it in this order: `begin`;
    `answered` and any number of `pass_on`; `ending`, or `leave`, once. If the client leaves, the
    current call is cancelled, even `ending`, and `leave` follows. If `begin` raises Refused
    (core/errors), the answer has status 403, and nothing follows. Any other error is logged, and
    the relay continues without it; but if it `holds` any bytes, the answer is cut, and a request
    that failed in `begin` is refused with status 503. NetworkError in `answered` gives the client
    that error in place of the answer, in `ending` it cuts the answer.
    Setting `stopped` ends the answer at once; `ending` gets this as its error. After
    `begin`, `body` replaces the request's body; None leaves it unchanged."""

    stopped: asyncio.Event
    holds: bool
    body: bytes | None

    async def begin(self) -> AnswerHead | None:
        """Called before anything is sent upstream. If it returns a head, nothing is: `ending` then
        yields the whole answer."""

    def receive_head(self, status: int, headers: RawHeaders) -> RawHeaders:
        """The head of the answer arrived; returns the headers for the client."""

    async def pass_on(self, data: bytes) -> bytes:
        """`data` arrived from upstream, unchanged; returns what the client gets now."""

    def finish_answer(self, trouble: NetworkError | None) -> AsyncIterator[bytes]:
        """Upstream has ended, well or with `trouble`: yields the last bytes for the client when
        they may be sent."""

    async def leave(self) -> None:
        """The client disconnected before its whole answer."""


@dataclass(frozen=True)
class AnswerHead:
    """The status and the headers of an answer."""

    status: int
    headers: RawHeaders


Observe = Callable[[AgentRequest], Exchange]


class UnobservedExchange:
    """An Exchange that passes everything on and records nothing."""

    holds = False
    body: bytes | None = None

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    async def begin(self) -> AnswerHead | None:
        return None

    def receive_head(self, status: int, headers: RawHeaders) -> RawHeaders:
        return headers

    async def pass_on(self, data: bytes) -> bytes:
        return data

    async def finish_answer(self, trouble: NetworkError | None) -> AsyncIterator[bytes]:
        nothing: Sequence[bytes] = ()
        for data in nothing:
            yield data

    async def leave(self) -> None:
        pass


def observe_nothing(request: AgentRequest) -> Exchange:
    """The Observe that observes nothing."""
    return UnobservedExchange()


def is_credential(name: bytes) -> bool:
    """Whether a request's header of this name contains a key or a login of the agent's own."""
    return name in CREDENTIALS or names_key(name.decode("latin-1"), "")


def end_to_end_headers(headers: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
    """`headers`, with names in lower case, without those of a single connection."""
    pairs = list(headers)
    named = (value for name, value in pairs if name == b"connection")
    options = {option.strip().lower() for value in named for option in value.split(b",")}
    # The length delimits the body, whatever a header lists.
    gone = HOP_BY_HOP | (options - {b"content-length", b"host"})
    return [pair for pair in pairs if pair[0] not in gone]


class Relay:
    """Relays requests. `mask` is applied to everything that is logged."""

    def __init__(
        self, net: HttpClient, observe: Observe = observe_nothing, mask: Callable[[str], str] = str
    ) -> None:
        self._net = net
        self._observe = observe
        self._mask = mask

    async def __call__(
        self,
        request: AgentRequest,
        place: str,
        target: bytes,
        headers: RawHeaders,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Sends the request to `place` (scheme://host:port) with these headers and its body, and
        the answer back. `request` has no body yet.

        If the answer breaks off upstream, it is not ended here, so that the server cuts the
        connection. If the client left before its request was complete, nothing is sent.
        """
        body = _RequestBody(receive, request.headers)
        try:
            whole = await body.read()
        except ClientDisconnect:
            return
        ask = partial(self._ask, request.method, place, target, headers)
        if whole is not None:
            request = replace(request, body=decompress_body(request.headers, whole), ask=ask)
        watched = _GuardedExchange(self._observe, request, self._mask)
        passage = _RelayedRequest(self._net, request, watched, send, agent_connection(scope))
        sent = body.length_in(headers)
        gone = False
        try:
            with anyio.CancelScope() as under_way:
                watching = [
                    asyncio.create_task(_cancel_on_disconnect(body, receive, passage, under_way)),
                    asyncio.create_task(_cancel_on_stop(passage, under_way)),
                ]
                try:
                    data = body.pieces() if whole is None else whole
                    await passage.run(place, target, sent, data)
                except ClientDisconnect:
                    gone = True
                finally:
                    for task in watching:
                        task.cancel()
            if under_way.cancelled_caught and passage.stopped:
                await passage.stop()
        except BaseException:
            # Not the client: the server stops, or an error.
            with anyio.move_on_after(LEAVING_S, shield=True):
                await watched.leave()
            raise
        if gone or under_way.cancelled_caught:
            await watched.leave()

    def _ask(
        self, method: str, place: str, target: bytes, headers: RawHeaders, body: bytes
    ) -> AbstractAsyncContextManager[RelayedResponse]:
        return self._net.relay(method, place, target, with_body(headers, body), body)


async def _cancel_on_disconnect(
    body: _RequestBody, receive: Receive, passage: _RelayedRequest, under_way: anyio.CancelScope
) -> None:
    """Cancels the relay when the client has disconnected."""
    await body.complete.wait()
    while (await receive())["type"] != "http.disconnect":
        pass
    if not passage.over:  # servers also report it after a complete answer
        under_way.cancel()


async def _cancel_on_stop(passage: _RelayedRequest, under_way: anyio.CancelScope) -> None:
    """Cancels the relay when the user stops it."""
    await passage.watched.stopped.wait()
    if not passage.over:
        passage.stopped = True
        under_way.cancel()


@dataclass
class _RelayedRequest:
    """One request in progress. `started`: the client got the head of an answer; `over`: it got
    everything; `stopped`: it gets no more because the user stopped it."""

    net: HttpClient
    request: AgentRequest
    watched: _GuardedExchange
    send: Send
    connection: AgentConnection | None
    started: bool = False
    over: bool = False
    stopped: bool = False

    async def run(
        self, place: str, target: bytes, headers: RawHeaders, body: bytes | AsyncIterator[bytes]
    ) -> None:
        send, watched = self.send, self.watched
        try:
            head = await watched.begin()
        except errors.Refused as refused:
            await self._refuse(403, str(refused))
            return
        except RefusedRequest as refused:
            await self._refuse(refused.status, refused.sentence)
            return
        if head is not None:
            await self._start(head.status, head.headers)
            await self._end(None)
            return
        if watched.body is not None:
            body, headers = watched.body, with_body(headers, watched.body)
        try:
            async with self.net.relay(self.request.method, place, target, headers, body) as answer:
                passed_on = end_to_end_headers(watched.receive_head(answer.status, answer.headers))
                if answer.status == 304:  # a 304 has the length, but no body
                    passed_on = [pair for pair in passed_on if pair[0] != b"content-length"]
                await self._start(answer.status, passed_on)
                async for data in answer.chunks():
                    if passing := await watched.pass_on(data):
                        message = {"type": "http.response.body", "body": passing, "more_body": True}
                        await send(message)
        except NetworkError as trouble:
            await self._end(trouble)
        else:
            await self._end(None)

    async def _end(self, trouble: NetworkError | None) -> None:
        """Sends the rest of the answer. One that broke off upstream is not ended, so that the
        client sees it cut; if nothing of it had arrived, the client gets the reason."""
        try:
            async for data in self.watched.finish_answer(trouble):
                if data and self.started:
                    await self.send({"type": "http.response.body", "body": data, "more_body": True})
        except NetworkError as cut:
            trouble = cut.with_traceback(None)
        if trouble is None:
            self.over = True
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not self.started:
            status = 400 if trouble.failure == "bad_request" else 502
            await self._refuse(status, trouble.sentence(self.watched.mask))

    async def stop(self) -> None:
        """Ends it at the current position."""
        trouble = NetworkError("interrupted", STOPPED, began=self.started)
        with suppress(NetworkError):
            async for _ in self.watched.finish_answer(trouble):
                pass  # nothing more is sent
        if not self.started:
            await self._refuse(403, STOPPED)

    async def _refuse(self, status: int, sentence: str) -> None:
        self.over = True
        await refuse(self.send, self.request.profile.protocol, RefusedRequest(status, sentence))

    async def _start(self, status: int, headers: RawHeaders) -> None:
        self.started = True
        if self.connection is not None:
            self.connection.add_no_headers()
        start = {"type": "http.response.start", "status": status, "headers": headers}
        await self.send(start)


def with_body(headers: RawHeaders, body: bytes) -> RawHeaders:
    """`headers` for a request with another body, uncompressed."""
    length = (b"content-length", b"%d" % len(body))
    changed = [
        length if name == b"content-length" else (name, value)
        for name, value in headers
        if name != b"content-encoding"
    ]
    return changed if length in changed else [*changed, length]


def agent_connection(scope: Scope) -> AgentConnection | None:
    """The server's options for this connection, if supported."""
    connection: AgentConnection | None = (scope.get("extensions") or {}).get(CONNECTION)
    return connection


class _RequestBody:
    """The body of an incoming request. `complete` is set when its last byte has arrived."""

    def __init__(self, receive: Receive, headers: RawHeaders) -> None:
        self.complete = asyncio.Event()
        self._receive = receive
        self._read: list[bytes] = []
        self._size = 0
        lengths = [value for name, value in headers if name == b"content-length"]
        self._length = lengths[0] if lengths else None
        self._coded = any(name == b"transfer-encoding" for name, _ in headers)

    async def read(self) -> bytes | None:
        """The whole body; None if it is larger than MOST_READ: then use `pieces`. ClientDisconnect
        if the client left."""
        if self._length is not None and int(self._length) > MOST_READ:
            return None
        while not self.complete.is_set() and self._size <= MOST_READ:
            self._read.append(await self._next())
        if self._size > MOST_READ:
            return None
        return self._read[0] if len(self._read) == 1 else b"".join(self._read)

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body from its first byte, both read and still to come."""
        while self._read:
            yield self._read.pop(0)
        while not self.complete.is_set():
            if data := await self._next():
                yield data

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        data: bytes = message.get("body", b"")
        self._size += len(data)
        if not message.get("more_body", False):
            self.complete.set()
        return data

    def length_in(self, headers: RawHeaders) -> RawHeaders:
        """`headers` with the length of the body, if any, at its original place."""
        if self.complete.is_set() and (self._length is not None or self._coded or self._size):
            length = (b"content-length", b"%d" % self._size)
        elif self._length is not None:
            length = (b"content-length", self._length)
        elif not self.complete.is_set():
            length = (b"transfer-encoding", b"chunked")
        else:
            return headers
        names = [name for name, _ in headers]
        if b"content-length" not in names:
            return [*headers, length]
        return [length if pair[0] == b"content-length" else pair for pair in headers]


def decompress_body(headers: RawHeaders, body: bytes) -> bytes | None:
    """`body` decompressed, if the coding is supported and the result is at most MOST_READ; else
    None."""
    codings = b",".join(value for name, value in headers if name == b"content-encoding")
    coding = codings.strip().lower().decode("latin-1")
    if coding in ("", "identity"):
        return body
    if coding not in CODINGS:
        return None
    inflate, pieces, room = Decompressor(), list[bytes](), MOST_READ
    try:
        for piece in inflate.feed(body):
            pieces.append(piece)
            room -= len(piece)
            if room < 0:
                return None
    except ValueError:
        return None
    return b"".join(pieces) if inflate.complete else None


class _GuardedExchange:
    """An Exchange whose errors are isolated: they are logged, and after the first one all bytes
    pass unchanged, beginning with those held back. It is ended once in any case."""

    def __init__(self, observe: Observe, request: AgentRequest, mask: Callable[[str], str]) -> None:
        self._request = request
        self._mask = mask
        self._kept = bytearray()  # received but not sent yet
        self._changed = self._broken = self._ended = False
        self._exchange: Exchange = UnobservedExchange()
        try:
            self._exchange = observe(request)
        except Exception as error:
            self._log_failure(error)

    def mask(self, text: str) -> str:
        """`text` without known secrets, those of this request, and its address."""
        request = self._request
        own = [value for name, value in request.headers if is_credential(name)]
        words = {word for value in own for word in (value, value.rpartition(b" ")[2])}
        words |= {request.target, *(request.target.replace(b"&", b"=").split(b"="))}
        known = Redactor([request.url, *(word.decode("latin-1") for word in words)])
        return known.redact_text(self._mask(text))

    @property
    def stopped(self) -> asyncio.Event:
        return self._exchange.stopped

    @property
    def holds(self) -> bool:
        return self._exchange.holds

    @property
    def body(self) -> bytes | None:
        return self._exchange.body

    async def begin(self) -> AnswerHead | None:
        """Refused if the exchange refuses, or if it fails and was to hold something back; then it
        is over."""
        try:
            return await self._exchange.begin()
        except errors.Refused:
            self._ended = True
            raise
        except Exception as error:
            self._log_failure(error)
            if self._exchange.holds:
                self._ended = True
                raise RefusedRequest(503, UNHELD) from None
            return None

    def receive_head(self, status: int, headers: RawHeaders) -> RawHeaders:
        if self._broken:
            return headers
        try:
            return self._exchange.receive_head(status, headers)
        except NetworkError:
            raise
        except Exception as error:
            self._log_failure(error)
            if self._exchange.holds:
                raise NetworkError("interrupted", LOST, began=True) from None
            return headers

    async def pass_on(self, data: bytes) -> bytes:
        if self._broken:
            return data
        try:
            passing = await self._exchange.pass_on(data)
        except Exception as error:
            self._log_failure(error)
            self._kept += data
            return self._release()
        if passing is not data or self._kept:
            self._kept += data
            if self._kept.startswith(passing):
                del self._kept[: len(passing)]
            else:
                self._changed = True
        return passing

    async def finish_answer(self, trouble: NetworkError | None) -> AsyncIterator[bytes]:
        began = False
        try:
            async for data in self._exchange.finish_answer(trouble):
                began = True
                if not self._broken:
                    yield data
        except NetworkError:
            self._ended = True
            raise
        except Exception as error:
            self._ended = True
            self._log_failure(error)
            if began:
                raise NetworkError("interrupted", LOST, began=True) from None
            yield self._release()
        self._ended = True

    async def leave(self) -> None:
        if self._ended:
            return
        self._ended = True
        try:
            await self._exchange.leave()
        except Exception as error:
            self._log_failure(error)

    def _release(self) -> bytes:
        """The bytes not sent yet. NetworkError if they were held back on purpose, or if the client
        got changed bytes before: then it gets no more."""
        if self._exchange.holds or self._changed:
            raise NetworkError("interrupted", LOST, began=True)
        data = bytes(self._kept)
        self._kept.clear()
        return data

    def _log_failure(self, error: Exception) -> None:
        """Logs the error without path and headers."""
        self._broken = True
        text = "".join(traceback.format_exception(error))
        line = (
            f"a request at the tap {self._request.tap.id} continues without being recorded: {text}"
        )
        logger.error(one_line(self.mask(line)))
