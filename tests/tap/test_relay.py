"""A tap passes on the exact bytes of requests and answers."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from collections.abc import AsyncIterator

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from playground.core import errors
from playground.core.settings import PROTOCOLS, Protocol
from playground.net.client import NetworkError
from playground.protocols.facts import FACTS
from playground.protocols.registry import CODECS
from playground.simulator.faults import FAULTS, FaultRow
from playground.tap.relay import AgentRequest, AnswerHead, RawHeaders, UnobservedExchange
from tests.tap.relaying import (
    AGENT_KEY,
    PROVIDER_KEY,
    Answer,
    Headers,
    Place,
    Provider,
    ask,
    connected,
    constantly,
    door_of,
    placed,
    sent_back,
    tool_request,
    until_left,
)

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

NAMES = {
    "giant-header-N": "giant-header-64",
    "gzip-bomb-N": "gzip-bomb-1",
    "big-delta-N": "big-delta-1",
    "args-huge-N": "args-huge-8000",
    "args-many-keys-N": "args-many-keys-2000",
    "many-deltas-N": "many-deltas-200",
}

SILENT = {"stall-headers", "http-500-stall", "stall-after-N", "open-after-done"}
"""These end by silence: `test_silence_is_passed_on` has them."""

NO_ANSWER = {"close-at-once", "rst-at-once", "half-headers", "not-http"}

MOST = {"pings": 700, "endless": 50_000, "unlimited": 50_000}
"""Bytes that are read of what has no end."""

SENT: Headers = (
    (b"x-first", b"1"),
    (b"content-type", b"application/json"),
    (b"x-doubled", b"a"),
    (b"user-agent", b"agent/1.0"),
    (b"x-doubled", b"b"),
    (b"accept", b"text/event-stream"),
    (b"x-odd", b'caf\xe9, "quoted"'),
    (b"anthropic-beta", b"a,b"),
)

TARGETS = {
    b"/v1/chat/completions": b"/base/chat/completions",
    b"/chat/completions": b"/base/chat/completions",
    b"/v1/files/a%2Fb%2fc%20d": b"/base/files/a%2Fb%2fc%20d",
    b"/v1//doubled///slashes/": b"/base//doubled///slashes/",
    b"/v1/a/./b/../c": b"/base/a/./b/../c",
    b"/v1/%7Etilde%41;v=1,2/@x:y": b"/base/%7Etilde%41;v=1,2/@x:y",
    b'/v1/odd"<>^`{|}': b'/base/odd"<>^`{|}',
    b"/v1?beta=true&a=%20+&b&c=": b"/base?beta=true&a=%20+&b&c=",
    b"/v1": b"/base",
    b"/v1beta/x": b"/base/v1beta/x",
    b"/v1/x?q=/a/../b//&r=a?b": b"/base/x?q=/a/../b//&r=a?b",
}

FOR_BROWSERS = (
    b"clear-site-data: *",
    b"service-worker-allowed: /",
    b"access-control-allow-origin: *",
    b"content-security-policy: script-src *",
    b"link: </x>; rel=preload",
)
PACKED = gzip.compress(b'{"a":1}' * 100)


@pytest.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with placed(tmp_path_factory.mktemp("tap")) as place:
        yield place


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sized(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """An answer with the length of its body."""
    lines = [b"HTTP/1.1 " + status, *headers, b"content-length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(*pieces: bytes, last: bool = True) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)
    return OK + b"transfer-encoding: chunked\r\n\r\n" + body + (b"0\r\n\r\n" if last else b"")


# -- the simulator, once through the tap and once directly


def fault_name(fault: FaultRow) -> str:
    return NAMES.get(fault.name, fault.name.replace("-N", f"-{fault.number}"))


async def both(place: Place, protocol: Protocol, prompt: str, stream: bool) -> list[Answer]:
    """The answers of twin simulators: through the tap, and asked directly."""
    path, headers, body = tool_request(protocol, prompt, stream)
    most = next((most for fault, most in MOST.items() if f"[[fault:{fault}" in prompt), None)
    base = FACTS[protocol].simulated.encode()
    key = [
        (name.lower().encode(), value.encode())
        for name, value in CODECS[protocol].key_header(PROVIDER_KEY, ()).items()
    ]
    version = b"/v1" if protocol.startswith("openai") else b""
    target = place.target(door_of(protocol), version + path, f"twin-{protocol}")
    through = await ask(
        place.port, method="POST", target=target, headers=headers, body=body, most=most
    )
    direct = await ask(
        place.twins[1],
        method="POST",
        target=base + path,
        headers=[*headers, *key],
        body=body,
        most=most,
    )
    return [through, direct]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_each_protocol_comes_through_as_it_is(place: Place, protocol: Protocol) -> None:
    for stream in (True, False):
        through, direct = await both(place, protocol, "What is the weather in Oslo?", stream)
        assert (through.status, through.clean) == (200, True)
        assert through == sent_back(direct)


def _on_the_way(fault: FaultRow) -> bool:
    """Whether it is in how an answer travels, and not in what it says."""
    plain_status = re.fullmatch(r"http-[45]\d+", fault.name)
    return bool(fault.raw or fault.headers or fault.any_body or (fault.answer and not plain_status))


def fault_rows(every: bool) -> list[tuple[FaultRow, Protocol, bool]]:
    """Those of the way on the protocols in turn; with `every` these on all of them, streamed and
    not, and the others in turn."""
    rows = []
    for number, fault in enumerate(fault for fault in FAULTS if fault.name not in SILENT):
        known = fault.only.protocols if fault.only else PROTOCOLS
        spoken = [protocol for protocol in PROTOCOLS if protocol in known]
        if every and _on_the_way(fault):
            rows += [(fault, protocol, stream) for protocol in spoken for stream in (True, False)]
        elif not every and not _on_the_way(fault):
            continue
        else:
            rows.append((fault, spoken[number % len(spoken)], True))
    return rows


async def _check_fault(place: Place, fault: FaultRow, protocol: Protocol, stream: bool) -> None:
    prompt = f"What is the weather in Oslo?\n\n[[fault:{fault_name(fault)}]]"
    through, direct = await both(place, protocol, prompt, stream)
    if fault.name in NO_ANSWER:
        assert direct.status is None
        assert (through.status, through.clean) == (502, True)
        assert json.loads(through.body)
    else:
        assert direct.status is not None
        assert through == sent_back(direct)


@pytest.mark.parametrize(
    ("fault", "protocol", "stream"), fault_rows(every=False), ids=lambda v: getattr(v, "name", v)
)
async def test_each_fault_comes_through(
    place: Place, fault: FaultRow, protocol: Protocol, stream: bool
) -> None:
    await _check_fault(place, fault, protocol, stream)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "protocol", "stream"), fault_rows(every=True), ids=lambda v: getattr(v, "name", v)
)
async def test_each_fault_comes_through_on_every_protocol(
    place: Place, fault: FaultRow, protocol: Protocol, stream: bool
) -> None:
    await _check_fault(place, fault, protocol, stream)


@pytest.mark.parametrize(
    ("fault", "status", "last"),
    [
        ("stall-after-3", 200, b'data: {"type":"ping"}\n\n'),
        ("open-after-done", 200, b'data: {"type":"message_stop"}\n\n'),
        ("http-500-stall", 500, b'{"error"'),
    ],
)
async def test_what_came_before_a_silence_is_there(
    place: Place, fault: str, status: int, last: bytes
) -> None:
    path, headers, body = tool_request(
        "anthropic", f"What is the weather in Oslo?\n\n[[fault:{fault}]]"
    )
    target = place.target("anthropic", path, "simulator")
    got = await ask(place.port, method="POST", target=target, headers=headers, body=body, most=last)
    assert (got.status, got.clean) == (status, False)


# -- a raw provider: what it was sent, and what it says


async def test_a_request_of_20_mb_arrives_whole(place: Place) -> None:
    """The client waits for 100 Continue, which is ours to say."""
    body = bytes(range(256)) * 80_000
    place.provider.says(sized(b"{}"))
    async with connected(place.port) as client:
        length = (b"content-length", b"%d" % len(body))
        host = (b"host", b"127.0.0.1:%d" % place.port)
        target = place.target("openai", b"/v1/files", "raw")
        await client.send_head("POST", target, [host, length, (b"expect", b"100-continue")])
        assert isinstance(await client.event(), h11.InformationalResponse)
        await client.send_body(body)
        assert (await client.answer()).status == 200
    assert digest(place.provider.bodies[0]) == digest(body)
    assert b"expect" not in dict(place.provider.headers)


async def test_a_body_too_large_to_read_streams_through(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its length, or in chunks; nobody reads it."""
    monkeypatch.setattr("playground.tap.relay.MOST_READ", 1000)
    read: list[AgentRequest] = []

    def make(request: AgentRequest) -> UnobservedExchange:
        read.append(request)
        return UnobservedExchange()

    place.exchanges.make = make
    body = bytes(range(256)) * 400
    framed = [(b"content-length", b"%d" % len(body)), (b"transfer-encoding", b"chunked")]
    for framing in framed:
        place.provider.says(sized(b"{}"))
        async with connected(place.observed) as client:
            target = place.target("openai", b"/v1/files", "raw")
            await client.send_head("POST", target, [(b"host", b"x"), framing])
            await client.send_piece(body[:30_000])
            await place.provider.arrived.wait()
            await client.send_body(body[30_000:])
            assert (await client.answer()).clean
        assert digest(place.provider.bodies[0]) == digest(body)
        assert framing in place.provider.headers
    assert [request.body for request in read] == [None, None]


async def test_the_headers_of_a_request_arrive_as_they_were(place: Place) -> None:
    """In order, doubled ones twice, and none of ours; what is about one connection stays here."""
    place.provider.says(sized(b"{}"))
    ours = [
        (b"connection", b"keep-alive, x-hop"),
        (b"x-hop", b"1"),
        (b"te", b"trailers"),
        (b"proxy-connection", b"keep-alive"),
        (b"accept-encoding", b"gzip, br, zstd"),
    ]
    assert (await place.through(headers=[*SENT[:4], *ours, *SENT[4:]], body=b"{}")).status == 200
    assert place.provider.headers == [
        (b"host", b"127.0.0.1:%d" % place.provider.port),
        *SENT,
        (b"content-length", b"2"),
        (b"authorization", f"Bearer {PROVIDER_KEY}".encode()),
        (b"accept-encoding", b"identity"),
    ]


async def test_a_path_goes_on_undecoded(place: Place) -> None:
    for target, expected in TARGETS.items():
        place.provider.says(sized(b"{}"))
        assert (await place.through(target, method="GET")).status == 200, target
        assert place.provider.heads[0].split(b" ")[1] == expected


async def test_every_method_goes_on(place: Place) -> None:
    for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        place.provider.says(sized(b"" if method == "HEAD" else b"{}", b"x-a: 1"))
        got = await place.through(b"/v1/models", method=method)
        assert (got.status, got.clean) == (200, True), method
        assert place.provider.heads[0].startswith(method.encode() + b" ")
        assert b"content-length" not in dict(place.provider.headers), method


ANSWERS = {
    "gzip that nobody asked for": sized(PACKED, b"content-encoding: gzip"),
    "a coding nobody knows": sized(b"\x00\x01\x02", b"content-encoding: x-odd"),
    "a redirect": sized(b"go", b"location: https://elsewhere.invalid/", status=b"307 Temporary"),
    "a redirect nowhere": sized(b"", b"location: https://:bad:/%", status=b"301 Moved"),
    "an error of a megabyte": sized(b"x" * 1_000_000, status=b"500 Internal"),
    "a status nobody knows": sized(b"{}", status=b"599 Odd"),
    "doubled headers": sized(b"{}", b"set-cookie: a=1", b"x-b: 2", b"set-cookie: b=2"),
    "headers of its own": sized(b"{}", b"server: odd", b"x-frame-options: ALLOW"),
    "headers for browsers": sized(b"{}", *FOR_BROWSERS),
    "a page": sized(b"<script>1</script>", b"content-type: text/html", b"refresh: 0; url=/"),
    "a place that was made": sized(b"{}", b"location: /v1/x/1", status=b"201 Created"),
    "no content": b"HTTP/1.1 204 No Content\r\nx-a: 1\r\n\r\n",
    "not modified": b'HTTP/1.1 304 Not Modified\r\netag: "x"\r\n\r\n',
    "nothing at all": sized(b""),
    "chunks": chunked(b"data: 1\n\n", b"data: 2\n\n"),
    "chunks with a trailer": chunked(b"x", last=False) + b"0\r\nx-trailer: 1\r\n\r\n",
    "until the connection closes": OK + b"\r\ndata: 1\n\n",
    "half of its length": OK + b"content-length: 100\r\n\r\nhalf",
    "no last chunk": chunked(b"data: 1\n\n", last=False),
    "within a chunk": OK + b"transfer-encoding: chunked\r\n\r\n10\r\nhalf",
    "early hints before": b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" + sized(b"{}"),
    "hop-by-hop headers": sized(b"{}", b"connection: x-hop", b"x-hop: 1", b"keep-alive: 5"),
    "control characters that HTTP knows": sized(b"{}", b"x-odd: caf\xe9\tx"),
}


async def test_each_answer_comes_as_it_was(place: Place) -> None:
    """Status, headers in their order but for those for browsers, body and whether it came to its
    end."""
    for name, answer in ANSWERS.items():
        place.provider.says(answer)
        through = await place.through(body=b"{}")
        direct = await ask(place.provider.port, "POST", b"/", (), b"{}")
        assert direct.status is not None, name
        assert through == sent_back(direct), name


async def test_the_date_is_the_providers(place: Place) -> None:
    """The server adds none of its own, but to its own pages."""
    for headers, expected in (([b"date: then"], [b"then"]), ([], [])):
        place.provider.says(sized(b"{}", *headers))
        async with connected(place.port) as client:
            target = place.target("openai", b"/v1/x", "raw")
            await client.send_head("GET", target, [(b"host", b"127.0.0.1:%d" % place.port)])
            await client.send_body()
            response = await client.event()
            assert isinstance(response, h11.Response)
            assert [value for name, value in response.headers if name == b"date"] == expected
    async with connected(place.port) as client:
        await client.send_head("GET", b"/healthz", [(b"host", b"127.0.0.1:%d" % place.port)])
        await client.send_body()
        response = await client.event()
        assert isinstance(response, h11.Response)
        assert len([value for name, value in response.headers if name == b"date"]) == 1


async def test_a_head_is_passed_on_before_its_body(place: Place) -> None:
    """And each piece of that before the next has come."""
    going = asyncio.Event()

    async def play(_: Provider, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        out.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        for piece in (b"1\r\na\r\n", b"1\r\nb\r\n", b"0\r\n\r\n"):
            await going.wait()
            going.clear()
            out.write(piece)

    place.provider.plays(play)
    async with connected(place.port) as client:
        target = place.target("openai", b"/v1/x", "raw")
        await client.send_head("GET", target, [(b"host", b"127.0.0.1:%d" % place.port)])
        await client.send_body()
        assert isinstance(await client.event(), h11.Response)
        for piece in (b"a", b"b"):
            going.set()
            event = await client.event()
            assert isinstance(event, h11.Data)
            assert event.data == piece
        going.set()
        assert isinstance(await client.event(), h11.EndOfMessage)


class Noted(UnobservedExchange):
    """An Exchange that writes down what it was told, and `fails` where it is said so."""

    def __init__(self, fails: str = "") -> None:
        super().__init__()
        self.notes: list[str] = []
        self.bytes = b""
        self.over = asyncio.Event()
        self._fails = fails

    def _note(self, name: str) -> None:
        if self.notes[-1:] != [name]:
            self.notes.append(name)
        if name in ("end", "leave", "trouble"):
            self.over.set()
        if name == self._fails:
            raise ValueError(f"a bug in {name} with {AGENT_KEY}")

    async def begin(self) -> AnswerHead | None:
        self._note("begin")
        return None

    def receive_head(self, status: int, headers: RawHeaders) -> RawHeaders:
        self._note("answered")
        return headers

    async def pass_on(self, data: bytes) -> bytes:
        self.bytes += data
        self._note("pass_on")
        return data

    async def finish_answer(self, trouble: NetworkError | None) -> AsyncIterator[bytes]:
        self._note("end" if trouble is None else "trouble")
        yield b""

    async def leave(self) -> None:
        self._note("leave")


async def test_a_connection_is_kept_open_for_the_next_request(place: Place) -> None:
    """On both sides; of a body that was not read, too."""

    async def play(
        provider: Provider, reader: asyncio.StreamReader, out: asyncio.StreamWriter
    ) -> None:
        out.write(sized(b"1"))
        provider.heads.append(await reader.readuntil(b"\r\n\r\n"))
        out.write(sized(b"2"))

    place.provider.plays(play)
    host = (b"host", b"127.0.0.1:%d" % place.port)
    async with connected(place.port) as client:
        for target, expected in (
            (place.target("openai", b"/v1/x", "raw"), b"1"),
            (b"/tap/openai/v1/x", b"secret"),
            (place.target("openai", b"/v1/y", "raw"), b"2"),
        ):
            await client.send_head("GET", target, [host])
            await client.send_body()
            assert expected in (await client.answer()).body
            client.start_next()
    assert len(place.provider.heads) == 2


@pytest.mark.parametrize("when", ["before the head", "within the body"])
async def test_a_client_that_leaves_ends_the_request(place: Place, when: str) -> None:
    arrived = asyncio.Event()

    async def play(
        provider: Provider, reader: asyncio.StreamReader, out: asyncio.StreamWriter
    ) -> None:
        if when == "within the body":
            out.write(chunked(b"data: 1\n\n", last=False))
        arrived.set()
        await until_left(provider, reader)

    place.provider.plays(play)
    noted = Noted()
    place.exchanges.make = lambda request: noted
    async with connected(place.observed) as client:
        await client.send_head("GET", place.target("openai", b"/v1/x", "raw"), [(b"host", b"x")])
        await client.send_body()
        await arrived.wait()
        if when == "within the body":
            assert isinstance(await client.event(), h11.Response)
            assert isinstance(await client.event(), h11.Data)
    async with asyncio.timeout(30):
        await place.provider.left.wait()
        await noted.over.wait()
    assert noted.notes[-1] == "leave"
    assert noted.notes[0] == "begin"
    assert "end" not in noted.notes


async def test_an_exchange_is_told_when_the_server_ends(place: Place) -> None:
    """Which cancels what is under way."""
    noted = Noted()
    place.exchanges.make = constantly(noted)

    async def play(
        provider: Provider, reader: asyncio.StreamReader, out: asyncio.StreamWriter
    ) -> None:
        await until_left(provider, reader)

    place.provider.plays(play)
    target = place.target("openai", b"/v1/x", "raw")
    scope = {
        "type": "http",
        "method": "GET",
        "path": target.decode(),
        "raw_path": target,
        "query_string": b"",
        "headers": [(b"host", b"x")],
    }
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else await asyncio.get_running_loop().create_future()

    async def send(message: Message) -> None:
        raise AssertionError("nothing was to be sent")

    serving = asyncio.create_task(place.door(scope, receive, send))
    async with asyncio.timeout(30):
        await place.provider.arrived.wait()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        await place.provider.left.wait()
    assert noted.notes == ["begin", "leave"]


class Holding(Noted):
    """An Exchange that never comes back from `held`."""

    def __init__(self, held: str) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._held = held

    async def _hold(self, name: str) -> None:
        if name == self._held:
            self.reached.set()
            await asyncio.Event().wait()

    async def pass_on(self, data: bytes) -> bytes:
        await self._hold("pass_on")
        return b""

    async def finish_answer(self, trouble: NetworkError | None) -> AsyncIterator[bytes]:
        await self._hold("end")
        yield b""


async def test_a_client_that_leaves_while_its_answer_is_held(place: Place) -> None:
    """What the Exchange does is cancelled, be it the end, and it is told."""
    for hold_at in ("pass_on", "end"):
        holding = Holding(hold_at)
        place.exchanges.make = constantly(holding)
        place.provider.says(chunked(b"x"))
        async with connected(place.observed) as client:
            target = place.target("openai", b"/v1/x", "raw")
            await client.send_head("GET", target, [(b"host", b"x")])
            await client.send_body()
            await holding.reached.wait()
        async with asyncio.timeout(30):
            await holding.over.wait()
        assert holding.notes[-1] == "leave"


class Refusing(Noted):
    async def begin(self) -> None:
        raise errors.Refused("The user has stopped this session.")


async def test_a_request_that_the_exchange_refuses_goes_nowhere(place: Place) -> None:
    refusing = Refusing()
    place.exchanges.make = constantly(refusing)
    place.provider.says(sized(b"{}"))
    got = await place.through(body=b"{}", port=place.observed)
    assert (got.status, place.provider.heads, refusing.notes) == (403, [], [])
    assert "has stopped" in json.loads(got.body)["error"]["message"]


async def test_what_is_to_be_held_and_cannot_be_goes_nowhere(place: Place) -> None:
    """Where its Exchange fails before the request, nothing is sent; at the head of the answer,
    nothing of that leaves."""
    for fails, status, sent in (("begin", 503, 0), ("answered", 502, 1)):
        noted = Noted(fails)
        noted.holds = True
        place.exchanges.make = constantly(noted)
        place.provider.says(sized(b"a call"))
        got = await place.through(body=b"{}", port=place.observed)
        assert (got.status, len(place.provider.heads)) == (status, sent)
        assert b"a call" not in got.body


async def test_stop_ends_an_answer_where_it_is(place: Place) -> None:
    """Before its head it is refused; what has begun is cut, and so is the request upstream."""
    for begun in (False, True):
        noted = Noted()

        async def play(
            provider: Provider,
            reader: asyncio.StreamReader,
            out: asyncio.StreamWriter,
            answer: bytes = chunked(b"x", last=False) if begun else b"",
        ) -> None:
            out.write(answer)
            await until_left(provider, reader)

        place.exchanges.make = constantly(noted)
        place.provider.plays(play)
        async with connected(place.observed) as client:
            target = place.target("openai", b"/v1/x", "raw")
            await client.send_head("GET", target, [(b"host", b"x")])
            await client.send_body()
            await place.provider.arrived.wait()
            if begun:
                assert isinstance(await client.event(), h11.Response)
                assert isinstance(await client.event(), h11.Data)
            noted.stopped.set()
            if begun:
                assert isinstance(await client.event(), h11.ConnectionClosed)
            else:
                assert (await client.answer()).status == 403
            await place.provider.left.wait()
        assert noted.notes[-1] == "trouble"


async def test_an_exchange_is_told_in_order(place: Place) -> None:
    for answer, last in ((chunked(b"a", b"b"), "end"), (chunked(b"a", last=False), "trouble")):
        noted = Noted()
        place.exchanges.make = constantly(noted)
        place.provider.says(answer)
        await place.through(port=place.observed, body=b"{}")
        assert noted.notes == ["begin", "answered", "pass_on", last]
        assert noted.bytes.startswith(b"a")


async def test_an_agents_body_is_read_where_it_can_be(place: Place) -> None:
    """Bytes for the Exchange, unpacked; and for the provider as they were."""
    plain_body = b'{"model":"x"}'
    packed = gzip.compress(plain_body)
    rows = [
        (b"", plain_body, plain_body),
        (b"gzip", packed, plain_body),
        (b"zstd", b"\x28\xb5\x2f\xfd\x04\x00", None),
        (b"gzip", packed[:-3], None),
        (b"gzip", plain_body, None),
    ]
    for coding, body, read in rows:
        asked_for: list[AgentRequest] = []

        def make(
            request: AgentRequest, requests: list[AgentRequest] = asked_for
        ) -> UnobservedExchange:
            requests.append(request)
            return UnobservedExchange()

        place.exchanges.make = make
        place.provider.says(sized(b"{}"))
        headers = [(b"content-encoding", coding)] if coding else []
        await place.through(headers=headers, body=body, port=place.observed)
        assert asked_for[0].body == read
        assert place.provider.bodies == [body]
        assert set(headers) <= set(place.provider.headers)


@pytest.mark.parametrize("method", ["make", "begin", "answered", "pass_on", "end"])
async def test_an_exchange_that_fails_harms_nothing(
    place: Place, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    noted = Noted(method)

    def make(request: AgentRequest) -> Noted:
        noted._note("make")
        return noted

    place.exchanges.make = make
    place.provider.says(chunked(b"data: 1\n\n", b"data: 2\n\n"))
    headers = [(b"authorization", f"Bearer {AGENT_KEY}".encode())]
    got = await place.through(headers=headers, body=b"{}", port=place.observed)
    assert (got.status, got.body, got.clean) == (200, b"data: 1\n\ndata: 2\n\n", True)
    assert "a bug in" in caplog.text
    assert AGENT_KEY not in caplog.text
    if method != "make":
        assert noted.notes[-1] == "end"


async def test_what_a_failing_exchange_held_is_passed_on_first(place: Place) -> None:
    class LateExchange(Noted):
        async def pass_on(self, data: bytes) -> bytes:
            self.bytes += data
            if len(self.bytes) > 3:
                raise ValueError("a bug")
            return data[:1]

    place.exchanges.make = lambda request: LateExchange()
    place.provider.says(chunked(b"abc", b"def", b"ghi"))
    got = await place.through(body=b"{}", port=place.observed)
    assert (got.body, got.clean) == (b"abcdefghi", True)


async def test_an_answer_that_was_changed_is_cut_where_the_exchange_fails(place: Place) -> None:
    """What it would have said next nobody else knows."""

    class Changing(Noted):
        async def pass_on(self, data: bytes) -> bytes:
            if self.bytes:
                raise ValueError("a bug")
            self.bytes += data
            return b"X"

    place.exchanges.make = lambda request: Changing()
    place.provider.says(chunked(b"abc", b"def"))
    got = await place.through(body=b"{}", port=place.observed)
    assert (got.body, got.clean) == (b"X", False)


@given(
    pieces=st.lists(st.binary(max_size=40), max_size=12),
    cut=st.integers(0, 400),
    framed=st.booleans(),
)
async def test_an_answer_cut_anywhere_is_passed_on_as_far_as_it_came(
    place: Place, pieces: list[bytes], cut: int, framed: bool
) -> None:
    """Random chunks, or a body of a length, cut after any byte: the same for an agent at the tap
    as for one at the provider."""
    answer = (chunked(*pieces) if framed else sized(b"".join(pieces)))[: 15 + cut]
    place.provider.says(answer)
    through = await place.through(body=b"{}")
    direct = await ask(place.provider.port, "POST", b"/", (), b"{}")
    if b"\r\n\r\n" in answer:
        assert through == sent_back(direct)
    else:
        assert (direct.status, through.status) == (None, 502)
