"""A server with taps, a raw provider behind it, and a client that reads what came to the byte."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import h11
from starlette.types import ASGIApp

from playground.core.messages import model_request
from playground.core.reducer import fold
from playground.core.settings import Profile, Protocol
from playground.core.tools import ToolChoice
from playground.engine.engine import Engine
from playground.protocols.facts import FACTS
from playground.protocols.registry import CODECS
from playground.simulator.app import simulator_app
from playground.tap.door import DOORS, Door, Upstreams
from playground.tap.relay import (
    AgentRequest,
    DoorName,
    Exchange,
    Relay,
    UnobservedExchange,
    end_to_end_headers,
)
from playground.tap.taps import Taps
from playground.web.app import make_app
from tests.databases import create_empty_database
from tests.factories import Log, settings
from tests.in_process import serve_app
from tests.simulator.factories import TWO
from tests.simulator.talking import profile

Headers = Sequence[tuple[bytes, bytes]]

TOKEN = "token-of-a-server-with-taps"
PROVIDER_KEY = "sk-of-the-profile-0123456789"
AGENT_KEY = "sk-of-the-agent-0123456789"

WAIT_S = 30.0

Play = Callable[["Provider", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True)
class Answer:
    """What a client got. `headers` are the end-to-end ones, but for the time of a clock. `clean` is
    whether the body came to its end; `status` is None where no answer came at all."""

    status: int | None
    headers: Headers = ()
    body: bytes = b""
    clean: bool = False
    continued: bool = field(default=False, compare=False)


class Client:
    """One connection of an agent, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)

    async def send_head(self, method: str, target: bytes, headers: Headers) -> None:
        head = h11.Request(method=method, target=target, headers=list(headers))
        self.writer.write(self._parser.send(head) or b"")
        await self.writer.drain()

    async def send_piece(self, piece: bytes) -> None:
        self.writer.write(self._parser.send(h11.Data(data=piece)) or b"")
        await self.writer.drain()

    async def send_body(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.send_piece(piece)
        self.writer.write(self._parser.send(h11.EndOfMessage()) or b"")
        await self.writer.drain()

    def start_next(self) -> None:
        """The answer is read; another request follows."""
        self._parser.start_next_cycle()

    async def event(self) -> object:
        """The next event of the answer; ConnectionClosed where it broke off."""
        while True:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError:
                return h11.ConnectionClosed()
            if event is not h11.NEED_DATA:
                return event
            try:
                self._parser.receive_data(await self.reader.read(65536))
            except h11.RemoteProtocolError:
                return h11.ConnectionClosed()
            except ConnectionError:
                return h11.ConnectionClosed()

    async def answer(self, most: int | bytes | None = None) -> Answer:
        """The whole answer, or as much as `most` bytes of its body, or as far as these."""
        got, body = Answer(None), bytearray()
        while got.status is None or not _enough(body, most):
            match await self.event():
                case h11.InformationalResponse():
                    got = replace(got, continued=True)
                case h11.Response(status_code=status, headers=headers):
                    stored = [pair for pair in end_to_end_headers(headers) if pair[0] != b"date"]
                    got = replace(got, status=status, headers=stored)
                case h11.Data(data=data):
                    body += data
                case h11.EndOfMessage():
                    got = replace(got, clean=True)
                    break
                case _:
                    break
        return replace(got, body=bytes(body[:most] if isinstance(most, int) else body))


ISOLATING: Headers = (
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
)
"""What is behind the headers of every answer at a tap."""

NOT_SENT_BACK = (
    *(b"set-cookie", b"clear-site-data", b"service-worker-allowed", b"refresh", b"link"),
    *(b"access-control-allow-origin", *(name for name, _ in ISOLATING)),
)


def sent_back(direct: Answer) -> Answer:
    """What an agent gets of an answer that its provider gave."""
    redirects = direct.status is not None and direct.status // 100 == 3
    gone = {*NOT_SENT_BACK, *([b"location"] if redirects else [])}
    stored = [(name, value) for name, value in direct.headers if name not in gone]
    return replace(direct, headers=[*stored, *ISOLATING])


def _enough(body: bytearray, most: int | bytes | None) -> bool:
    return body.endswith(most) if isinstance(most, bytes) else len(body) >= (most or math.inf)


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(WAIT_S):
            yield Client(reader, writer)
    finally:
        writer.close()


async def ask(
    port: int,
    method: str,
    target: bytes,
    headers: Headers = (),
    body: bytes = b"",
    most: int | bytes | None = None,
) -> Answer:
    """One request on a connection of its own."""
    async with connected(port) as client:
        own = [(b"host", b"127.0.0.1:%d" % port), *headers]
        if body:
            own.append((b"content-length", b"%d" % len(body)))
        await client.send_head(method, target, own)
        await client.send_body(*([body] if body else []))
        return await client.answer(most)


@dataclass
class Provider:
    """A server that does what the test says. `heads` and `bodies` are what came; `arrived` is set
    by a head, `left` when a client closes before it was answered."""

    port: int = 0
    play: Play | None = None
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def says(self, answer: bytes) -> None:
        """From now on each request is answered by these bytes, and the connection closed."""

        async def play(
            _: Provider, reader: asyncio.StreamReader, out: asyncio.StreamWriter
        ) -> None:
            out.write(answer)
            await out.drain()

        self.play = play
        self.heads.clear()
        self.bodies.clear()
        self.arrived.clear()
        self.left.clear()

    def plays(self, play: Play) -> None:
        self.says(b"")
        self.play = play

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            self.arrived.set()
            self.bodies.append(await self._body(head.lower(), reader))
            assert self.play is not None
            await self.play(self, reader, writer)
        writer.close()

    async def _body(self, head: bytes, reader: asyncio.StreamReader) -> bytes:
        if b"transfer-encoding: chunked" not in head:
            size = int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            return await reader.readexactly(size)
        body = bytearray()
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
        return bytes(body)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Those of the last request, in order."""
        lines = self.heads[-1].split(b"\r\n")[1:-2]
        pairs = [line.partition(b":") for line in lines]
        return [(name.lower(), value.strip()) for name, _, value in pairs]


async def until_left(provider: Provider, reader: asyncio.StreamReader) -> None:
    """Wait for the client to close."""
    with suppress(ConnectionError):
        await reader.read()
    provider.left.set()


@asynccontextmanager
async def providing() -> AsyncIterator[Provider]:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=1 << 20)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()


@dataclass
class Place:
    """`port` is that of the program, `observed` that of `door`, another one whose exchanges are
    made by `exchanges`. `twins` are two simulators that are in the same state: one is the upstream,
    the other is asked directly. `secrets` are of taps by the name of their upstream."""

    engine: Engine
    port: int
    observed: int
    provider: Provider
    twins: tuple[int, int]
    secrets: Mapping[str, bytes]
    exchanges: Exchanges
    taps: Taps
    app: ASGIApp
    door: Door

    @asynccontextmanager
    async def impatient(self) -> AsyncIterator[int]:
        """The port of a server that waits a moment for a body, and takes one connection."""
        async with serve_app(self.app, patience_s=0.2, limit_concurrency=1) as url:
            yield port_of(url)

    def target(self, door: DoorName, behind: bytes, upstream: str) -> bytes:
        return b"/tap/" + self.secrets[upstream] + b"/" + door.encode() + behind

    async def through(
        self,
        behind: bytes = b"/v1/chat/completions",
        headers: Headers = (),
        body: bytes = b"",
        *,
        method: str = "POST",
        port: int | None = None,
        most: int | None = None,
    ) -> Answer:
        """Ask the raw provider through its tap."""
        target = self.target("openai", behind, "raw")
        return await ask(
            port or self.port, method=method, target=target, headers=headers, body=body, most=most
        )


@dataclass
class Exchanges:
    """The Observe of a test: `make` can be set to another."""

    make: Callable[[AgentRequest], Exchange] = lambda request: UnobservedExchange()

    def __call__(self, request: AgentRequest) -> Exchange:
        return self.make(request)


def constantly(exchange: Exchange) -> Callable[[AgentRequest], Exchange]:
    """An Observe that makes this one."""
    return lambda request: exchange


def door_of(protocol: Protocol) -> DoorName:
    return next(door for door, spoken in DOORS.items() if protocol in spoken)


@asynccontextmanager
async def placed(folder: Path) -> AsyncIterator[Place]:
    await create_empty_database(folder / "a.db")
    port = 0
    exchanges = Exchanges()
    engine = await Engine.open(
        folder / "a.db",
        simulator_url=lambda: f"http://127.0.0.1:{port}/sim",
        simulator_key=TOKEN,
        environment={},
    )
    try:
        app, site = make_app(
            engine,
            token=TOKEN,
            port=lambda: port,
            simulator=simulator_app(pace=0, key=lambda sent: sent == TOKEN),
        )
        upstreams = Upstreams(engine.profile, engine.client.base_url, engine.keys)
        observed = Door(
            app,
            taps=site.taps,
            upstreams=upstreams,
            relay=Relay(engine.net, exchanges, engine.keys.redactor().redact_text),
            is_own_host=lambda host: host != b"else",
            clock=lambda: 1,
        )
        async with (
            serve_app(app) as url,
            serve_app(observed) as observed_url,
            serve_app(simulator_app(pace=0, clock=lambda: 1.8e9)) as first,
            serve_app(simulator_app(pace=0, clock=lambda: 1.8e9)) as second,
            providing() as provider,
        ):
            port = port_of(url)
            await engine.save_profile(
                Profile(
                    "raw",
                    "openai_chat",
                    f"http://127.0.0.1:{provider.port}/base",
                    headers={"Authorization": f"Bearer {PROVIDER_KEY}"},
                )
            )
            for protocol in CODECS:
                await engine.save_profile(twin(protocol, port_of(first)))
            names = ("raw", "simulator", *(f"twin-{protocol}" for protocol in CODECS))
            document = {name: (await site.taps.create(name))[1].encode() for name in names}
            twins = (port_of(first), port_of(second))
            yield Place(
                engine,
                port=port,
                observed=port_of(observed_url),
                provider=provider,
                twins=twins,
                secrets=document,
                exchanges=exchanges,
                taps=site.taps,
                app=app,
                door=observed,
            )
            site.close()
    finally:
        await engine.close()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def twin(protocol: str, port: int) -> Profile:
    """The simulator's end of `protocol` at a port, as a profile."""
    base_url = f"http://127.0.0.1:{port}{FACTS[protocol].simulated}"
    headers = CODECS[protocol].key_header(PROVIDER_KEY, ())
    return replace(profile(protocol), name=f"twin-{protocol}", base_url=base_url, headers=headers)


def tool_request(
    protocol: Protocol, prompt: str, stream: bool = True
) -> tuple[bytes, Headers, bytes]:
    """(path and query, headers, body) of a request with two tools, as its codec writes it."""
    log = Log().start(settings(*TWO, profile=profile(protocol), stream=stream)).prompt(prompt)
    sent = CODECS[protocol].encode(model_request(fold("s", log.events), ToolChoice()))
    headers = [(name.lower().encode(), value.encode()) for name, value in sent.headers.items()]
    return sent.path.encode(), headers, sent.body
