"""What passing an agent's streams on costs, beside a bare relay in the same run.

`python bench/relay.py`: 100 streams at once, each of 100 deltas, 20 a second, from a provider that
writes the time into each (`bench/paced_provider.py`). Asked are the provider itself, a relay of
Starlette and httpx that does no more than pass the bytes on (`bare`), the door for agents with
nothing behind it (`passing`), and the same as the program has it, where every request becomes a
session (`recording`); no page is open. Each has a server of its own, on a core of its own; the
provider and the reader, which is this process, have the others.

Printed for each: milliseconds of CPU for a stream, from the request to the end of its answer, as a
multiple of the bare relay's, and the milliseconds from the provider to the reader: p50, p99, and
what p50 is above the provider's own. Medians over `--rounds`. Exit 1 where a delta did not arrive,
or where `passing` takes more than twice the CPU of `bare` or adds 2 ms or more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measured_processes import cores, cpu_s, end_script, pin, precede, start_script
from bench.paced_provider import STAMP, WRAP, clock
from playground.commands.sockets import bind_socket, port_of, server
from playground.core.settings import Profile
from playground.engine.engine import Engine
from playground.tap.door import HEADER, Door, Upstreams
from playground.tap.exchange import make_observer
from playground.tap.relay import Observe, Relay, observe_nothing
from playground.web.app import make_app

KINDS = ("bare", "passing", "recording")
MOST_RATIO = 2.0
MOST_ADDED_MS = 2.0
QUIET_S = 0.05
ARRIVAL_S = 120.0
PATH = "/v1/messages"


# The servers that are measured -----------------------------------------------------------------


def bare(provider: str) -> ASGIApp:
    """Bytes in, bytes out."""
    client = httpx.AsyncClient(
        timeout=None, trust_env=False, limits=httpx.Limits(max_connections=None)
    )

    async def relay(request: Request) -> StreamingResponse:
        headers = [pair for pair in request.headers.raw if pair[0] not in (b"host", HEADER)]
        sent = client.build_request(
            request.method, provider + PATH, headers=headers, content=await request.body()
        )
        answer = await client.send(sent, stream=True)

        async def body() -> AsyncIterator[bytes]:
            async for data in answer.aiter_raw():
                yield data
            await answer.aclose()

        response = StreamingResponse(body(), answer.status_code)
        response.raw_headers = [
            pair for pair in answer.headers.raw if pair[0] != b"transfer-encoding"
        ]
        return response

    return Starlette(routes=[Route("/tap/anthropic" + PATH, relay, methods=["POST"])])


async def ours(kind: str, folder: Path, provider: str, port: int) -> tuple[ASGIApp, str]:
    """The program with nothing or the recorder behind its door; and the secret of a tap that leads
    to the provider."""
    engine = await Engine.open(
        folder / f"{kind}.db",
        simulator_url=lambda: "",
        simulator_key="sim",
        environment={},
    )
    await engine.save_profile(Profile("paced", "anthropic", provider))
    app, site = make_app(engine, token="token", port=lambda: port, simulator=bare(provider))
    _, secret = await site.taps.create("paced")
    observe: Observe = observe_nothing
    if kind == "recording":
        observe = make_observer(engine, site.taps, b"key")
    door = Door(
        app,
        taps=site.taps,
        upstreams=Upstreams(engine.profile, engine.client.base_url, engine.keys),
        relay=Relay(engine.net, observe),
        is_own_host=lambda host: True,
        clock=engine.sessions.clock,
    )
    return door, secret


async def serve(kind: str, folder: Path, provider: str) -> None:
    """One of these, on a free port, which is printed with the secret to ask with."""
    sock = bind_socket("127.0.0.1", 0)
    port, secret = port_of(sock), "none"
    if kind == "bare":
        config = uvicorn.Config(
            bare(provider),
            lifespan="off",
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        instance = uvicorn.Server(config)
    else:
        app, secret = await ours(kind, folder, provider, port)
        instance = server(app, limit_concurrency=500, timeout_keep_alive=30)
    print(f"http://127.0.0.1:{port} {secret}", flush=True)
    await instance.serve(sockets=[sock])


# The reader ------------------------------------------------------------------------------------


class Reader(asyncio.Protocol):
    """One stream: how late each delta came, in ms; `over` when its answer has ended."""

    def __init__(self, request: bytes, deltas: int) -> None:
        self.late_ms: list[float] = []
        self.arrived, self.over = asyncio.Event(), asyncio.Event()
        self._request, self._deltas, self._rest = request, deltas, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now, data, end = clock(), self._rest + data, 0
        for stamp in STAMP.finditer(data):
            self.late_ms.append((now - int(stamp[1], 16)) % WRAP / 100)
            end = stamp.end()
        self._rest = data[max(end, len(data) - 8) :]
        if len(self.late_ms) >= self._deltas:
            self.arrived.set()
        if data.endswith(b"0\r\n\r\n"):
            self.over.set()
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.arrived.set()
        self.over.set()


@dataclass(frozen=True)
class Measured:
    """CPU for a stream, and how late deltas came, both in ms."""

    cpu_ms: float
    p50_ms: float
    p99_ms: float


async def ask(
    url: str, secret: str, provider: str, options: argparse.Namespace, pid: int
) -> Measured:
    """All streams at once, `pid` being measured meanwhile (0: nobody)."""
    target = httpx.URL(url)
    message = {"role": "user", "content": "Go on."}
    body = json.dumps(
        {
            "model": f"text-{options.deltas}-{options.rate}",
            "messages": [message],
            "max_tokens": 999,
            "stream": True,
        }
    ).encode()
    head = (
        f"POST {target.path} HTTP/1.1\r\nhost: {target.host}:{target.port}\r\n"
        f"content-type: application/json\r\n{HEADER.decode()}: {secret}\r\n"
        f"anthropic-version: 2023-06-01\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    before = cpu_s(pid) if pid else 0.0
    loop = asyncio.get_running_loop()
    readers = [Reader(head.encode() + body, options.deltas) for _ in range(options.streams)]
    for reader in readers:
        await loop.create_connection(partial(_itself, reader), target.host, target.port or 80)
    async with httpx.AsyncClient(base_url=provider, trust_env=False) as control:
        async with asyncio.timeout(ARRIVAL_S):
            while (await control.get("/state")).json()["waiting"] < options.streams:
                await asyncio.sleep(QUIET_S)
            await control.post("/go")
            await asyncio.gather(*(reader.arrived.wait() for reader in readers))
            await control.post("/end")
            await asyncio.gather(*(reader.over.wait() for reader in readers))
    await asyncio.sleep(QUIET_S)
    spent = cpu_s(pid) - before if pid else 0.0
    late = [ms for reader in readers for ms in reader.late_ms]
    assert len(late) == options.streams * options.deltas, f"{len(late)} deltas arrived"
    return Measured(1000 * spent / options.streams, median(late), quantiles(late, n=100)[98])


def _itself(reader: Reader) -> Reader:
    return reader


@contextmanager
def run_server(
    kind: str, folder: Path, provider: str, on: set[int]
) -> Iterator[tuple[str, str, int]]:
    """The address of a server of this kind, the secret, and its process."""
    process, line = start_script([__file__, "--serve", kind, str(folder), provider], folder, on)
    try:
        url, secret = line.split()
        yield f"{url}/tap/anthropic{PATH}", secret, process.pid
    finally:
        end_script(process)


async def measure(folder: Path, provider: str, on: set[int], options: argparse.Namespace) -> int:
    results: dict[str, list[Measured]] = {"provider": []}
    results |= {kind: [] for kind in options.kinds}
    short = argparse.Namespace(**{**vars(options), "streams": 5, "deltas": 5})
    for _ in range(options.rounds):
        results["provider"].append(await ask(provider + PATH, "none", provider, options, 0))
        for kind in options.kinds:
            with run_server(kind, folder, provider, on) as (url, secret, pid):
                await ask(url, secret, provider, short, pid)  # all is imported
                results[kind].append(await ask(url, secret, provider, options, pid))
    return tell(results)


def middle(rounds: list[Measured]) -> Measured:
    return Measured(
        median(each.cpu_ms for each in rounds),
        median(each.p50_ms for each in rounds),
        median(each.p99_ms for each in rounds),
    )


def tell(results: dict[str, list[Measured]]) -> int:
    """Print it; whether a bound is broken."""
    medians = {kind: middle(rounds) for kind, rounds in results.items()}
    own = medians["provider"].p50_ms
    bare_ms = medians["bare"].cpu_ms if "bare" in medians else 0.0
    for kind, each in medians.items():
        ratio = f"{each.cpu_ms / bare_ms:5.2f} x bare" if bare_ms else ""
        print(
            f"{kind:9}: CPU {each.cpu_ms:6.2f} ms a stream {ratio}; p50 {each.p50_ms:6.2f} ms, "
            f"p99 {each.p99_ms:6.2f} ms, added {each.p50_ms - own:5.2f} ms"
        )
    passing = medians.get("passing")
    if passing is None or not bare_ms:
        return 0
    too_slow = passing.p50_ms - own >= MOST_ADDED_MS
    return int(passing.cpu_ms > MOST_RATIO * bare_ms or too_slow)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--deltas", type=int, default=100)
    parser.add_argument("--rate", type=int, default=20, help="deltas a second of each stream")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--serve", nargs=3, metavar=("KIND", "FOLDER", "PROVIDER"))
    options = parser.parse_args()
    if options.serve:
        kind, folder, provider = options.serve
        asyncio.run(serve(kind, Path(folder), provider))
        return 0
    own, others = cores()
    with precede(), tempfile.TemporaryDirectory() as folder, pin(others):
        script = str(Path(__file__).with_name("paced_provider.py"))
        process, line = start_script([script], Path(folder), others)
        try:
            return asyncio.run(measure(Path(folder), line.strip(), own, options))
        finally:
            end_script(process)


if __name__ == "__main__":
    raise SystemExit(main())
