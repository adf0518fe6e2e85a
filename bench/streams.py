"""Live streams at a pace, ours beside a floor in the same run: `python bench/streams.py --quick`.

The server has one core for itself; the provider (`bench/paced_provider.py`) and the reader, which
is this process, have the others; all go before other work where this user may say so. The floor
(`bench/floor.py`) passes on and does no more. Each level has a server of its own, and its sessions,
pages and prompts are ready before the first delta: measured is from there to the last one, before
the answers end. A reader does as a browser does: it gets the session's page, opens the stream that
the page names, and reads each message. Every delta carries the time at which it left the provider;
all must arrive, or, with nobody looking, be in the session.

Printed for each level: seconds of CPU for 10,000 deltas, p50 and p99 of the milliseconds from the
provider to the reader, and memory for each stream; ours also as a multiple of the floor's. Without
`--quick` all levels, and the most streams with a p99 below 250 ms. `--app DIR` measures a second
checkout, DIR. Exit 1 where a delta did not arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measured_processes import (
    TICK_S,
    cores,
    cpu_s,
    end_script,
    pin,
    precede,
    resident_kb,
    start_script,
)
from bench.paced_provider import KINDS, PROTOCOLS, STAMP, TOOL, WRAP, clock
from tests import servers
from tests.servers import NO_TLS, ROOT, ServerProcess

HELD_MS = 250
"""A stream is held where p99 stays below."""
LEVELS = (1, 10, 20, 40)
QUICK_LEVELS = (1, 20)
GROWTH = 1.25
"""How much more streams each step of the search has than the one before."""
FIRST_SEARCHED, MOST_SEARCHED = 20, 240
QUIET_S = 0.3
ARRIVAL_S = 120.0
"""How long the last delta may be on its way."""
BASE = {"anthropic": "/anthropic", "openai_chat": "/openai/v1"}
SCHEMAS = {
    "string": {"text": {"type": "string"}},
    "array": {"lines": {"type": "array", "items": {"type": "string"}}},
}

# The reader ------------------------------------------------------------------------------------


FIGURES = ("CPU", "p50", "p99", "memory")


class Reader(asyncio.Protocol):
    """A page's stream: counts the deltas that come, each once, in `late_ms` how late.

    It takes them from every whole message, whatever its form: they are in order, so that what
    comes again (a text that is drawn as a whole) is known by its time.
    """

    def __init__(self, request: bytes) -> None:
        self._request, self._kept, self._body = request, b"", b""
        self._head, self._last = True, clock()
        self.late_ms: list[float] = []
        self.messages = 0
        self.failed = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = clock()
        self._kept += data
        if self._head:
            head, mark, rest = self._kept.partition(b"\r\n\r\n")
            if not mark:
                return
            self._head, self._kept = False, rest
            lower = head.lower()
            if b" 200 " not in head or b"content-encoding" in lower or b"chunked" not in lower:
                self.failed = head.decode()
        while not self.failed and self._chunk():
            pass
        *messages, self._body = self._body.split(b"\n\n")
        for message in messages:
            self.messages += 1
            self.message_received(message)
            for stamp_match in STAMP.findall(message):
                stamp = int(stamp_match, 16)
                if 0 < (stamp - self._last) % WRAP < WRAP // 2:
                    self._last = stamp
                    self.late_ms.append((now - stamp) % WRAP / 100)

    def message_received(self, message: bytes) -> None:
        """For readers that look at more than the deltas."""

    def _chunk(self) -> bool:
        """Move the first chunk, where it is whole, to the body."""
        size, mark, rest = self._kept.partition(b"\r\n")
        if not mark or len(rest) < (length := int(size, 16)) + 2:
            return False
        self._body += rest[:length]
        self._kept = rest[length + 2 :]
        return length > 0

    def connection_lost(self, error: Exception | None) -> None:
        self.failed = self.failed or "The stream was cut."


R = TypeVar("R", bound=Reader)

_CONNECT = re.compile(r'hx-sse:connect="(/stream\?session=[^"]*)"')


async def open_stream(
    server: ServerProcess,
    page: httpx.AsyncClient,
    session_id: str,
    make_reader: Callable[[bytes], R],
) -> R:
    """The stream of a session's page, as a browser opens it."""
    answer = await page.get(f"/sessions/{session_id}")
    match = _CONNECT.search(answer.text)
    assert match is not None, answer.text[:2000]
    cookie = "; ".join(f"{each.name}={each.value}" for each in page.cookies.jar)
    where = urlsplit(server.url)
    assert where.hostname
    assert where.port
    head = (
        f"GET {html.unescape(match[1])} HTTP/1.1",
        f"Host: {where.netloc}",
        "Accept: text/html, text/event-stream",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "Sec-Fetch-Site: same-origin",
        f"Referer: {server.url}/sessions/{session_id}",
        *([f"Cookie: {cookie}"] if cookie else ()),
    )
    reader = make_reader("\r\n".join((*head, "", "")).encode())
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: reader, where.hostname, where.port)
    return reader


# A level ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """What each stream brings: so many deltas at so many a second."""

    protocol: str
    kind: str
    deltas: int
    rate: float

    @property
    def model(self) -> str:
        return f"{self.kind}-{self.deltas}-{self.rate:g}"

    def settings(self, provider: str) -> dict[str, Any]:
        """Those of a session."""
        base = {"protocol": self.protocol, "base_url": provider + BASE[self.protocol]}
        if self.kind == "text":
            return {**base, "model": self.model}
        schema = {"type": "object", "properties": SCHEMAS[self.kind]}
        tool = {"name": TOOL, "description": "Keeps a note.", "parameters": schema}
        config = {"answered_by": "mock", "config": {"result": "kept"}}
        return {**base, "model": self.model, "tools": [{**tool, **config}]}


@dataclass
class Level:
    """What was measured at one level: CPU for all deltas, memory for each stream."""

    streams: int
    watched: bool
    deltas: int
    cpu_s: float = 0.0
    stream_kb: float = 0.0
    late_ms: list[float] = field(default_factory=list)
    missing: int = 0
    failed: str = ""

    @property
    def cpu_10k(self) -> float:
        return self.cpu_s / self.deltas * 10_000

    def late(self, percent: int) -> float:
        """A percentile in ms."""
        enough = len(self.late_ms) > 1
        return quantiles(self.late_ms, n=100)[percent - 1] if enough else float("inf")


async def _until(holds: Callable[[], bool], timeout_s: float) -> bool:
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while not holds():
        if loop.time() > end:
            return False
        await asyncio.sleep(0.02)
    return True


async def _rest(pid: int) -> None:
    """Until the process does nothing any more."""
    before, now = -1.0, cpu_s(pid)
    while now - before > TICK_S:
        await asyncio.sleep(QUIET_S)
        before, now = now, cpu_s(pid)


class Provider:
    """What the provider in its own process is told and asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = httpx.AsyncClient(base_url=url, trust_env=False, verify=NO_TLS)

    async def comes_to(self, name: str, count: int) -> None:
        """Return when so many answers are `waiting`, or have `sent` all."""
        async with asyncio.timeout(ARRIVAL_S):
            while (await self._client.get("/state")).json()[name] != count:
                await asyncio.sleep(0.05)

    async def tell(self, word: str) -> None:
        (await self._client.post("/" + word)).raise_for_status()


async def make_sessions(
    script: httpx.AsyncClient, load: Load, provider: Provider, count: int
) -> list[str]:
    """So many new sessions, which have not been asked anything."""
    items = []
    for _ in range(count):
        answer = await script.post("/sessions", json=load.settings(provider.url))
        answer.raise_for_status()
        items.append(answer.json()["id"])
    return items


async def run_level(
    server: ServerProcess, provider: Provider, load: Load, streams: int, *, watched: bool
) -> Level:
    """So many streams at once, each of a session of its own."""
    pid, level = server.process.pid, Level(streams, watched, streams * load.deltas)
    async with server.client() as script, server.page() as page:
        before_kb = resident_kb(pid)
        sessions = await make_sessions(script, load, provider, streams)
        readers = (
            [await open_stream(server, page, each, Reader) for each in sessions] if watched else []
        )
        for each in sessions:
            answer = await script.post(f"/sessions/{each}/prompts", json={"text": "Write."})
            answer.raise_for_status()
        await provider.comes_to("waiting", streams)
        await _rest(pid)
        began_s = cpu_s(pid)
        await provider.tell("go")
        await provider.comes_to("sent", streams)
        await _until(
            lambda: all(len(each.late_ms) >= load.deltas or each.failed for each in readers),
            ARRIVAL_S,
        )
        await _rest(pid)
        level.cpu_s = cpu_s(pid) - began_s
        level.stream_kb = (resident_kb(pid) - before_kb) / streams
        await provider.tell("end")
        arrived = [len(each.late_ms) for each in readers]
        if not watched:
            arrived = [await count_saved(script, each, load) for each in sessions]
        level.missing = sum(abs(load.deltas - count) for count in arrived)
        for reader in readers:
            level.late_ms += reader.late_ms
            level.failed = level.failed or reader.failed
            reader.transport.close()
    return level


async def count_saved(script: httpx.AsyncClient, session_id: str, load: Load) -> int:
    """How many deltas are in the session, once its answer has ended."""
    async with asyncio.timeout(ARRIVAL_S):
        while True:
            folded = (await script.get(f"/sessions/{session_id}")).json()
            if folded["state"] != "running":
                break
            await asyncio.sleep(0.1)
    text = folded["text"] + "".join(call["arguments_raw"] for call in folded.get("calls", ()))
    return len(set(STAMP.findall(text.encode())))


# Servers ---------------------------------------------------------------------------------------


@contextmanager
def server_of(app: Path | None, core: set[int]) -> Iterator[ServerProcess]:
    """The server of that checkout on that core, with a database of its own; None is the floor."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if app is None:
            db = folder / "floor.db"
            process, line = start_script([str(ROOT / "bench/floor.py"), str(db)], folder, core)
            server = ServerProcess.from_line(line, process, db)
        else:
            with pin(core):
                server = servers.launch_server(folder / "bench.db", PYTHONPATH=str(app))
        try:
            yield server
        finally:
            end_script(server.process)


@asynccontextmanager
async def provider(others: set[int]) -> AsyncIterator[Provider]:
    with tempfile.TemporaryDirectory() as folder:
        words = [str(ROOT / "bench/paced_provider.py")]
        process, line = start_script(words, Path(folder), others)
        try:
            yield Provider(line.strip())
        finally:
            end_script(process)


# A run -----------------------------------------------------------------------------------------


@dataclass
class Bench:
    """One run: `apps` by name, the floor first."""

    apps: dict[str, Path | None]
    load: Load
    rounds: int
    core: set[int]
    provider: Provider
    sound: bool = True

    async def level(self, name: str, streams: int, *, watched: bool) -> Level:
        """One level of one server, after a short one that loads what is loaded at first use."""
        with server_of(self.apps[name], self.core) as server:
            short = Load(self.load.protocol, self.load.kind, 50, 100)
            await run_level(server, self.provider, short, 2, watched=True)
            level = await run_level(server, self.provider, self.load, streams, watched=watched)
        self.sound = self.sound and not level.missing and not level.failed
        return level

    async def compare(self, streams: int, *, watched: bool) -> None:
        """A level of all servers in turn; prints a line for each."""
        result: dict[str, list[Level]] = {name: [] for name in self.apps}
        for _ in range(self.rounds):
            for name, levels in result.items():
                levels.append(await self.level(name, streams, watched=watched))
        floor = _figures(next(iter(result.values())))
        for name, levels in result.items():
            print(_line(name, levels, floor), flush=True)

    async def most_held(self, name: str) -> int:
        """The most streams with a p99 below HELD_MS, of at most MOST_SEARCHED; each step is tried
        twice before it fails."""
        streams = FIRST_SEARCHED
        held_streams = 0
        while streams <= MOST_SEARCHED:
            for _ in range(2):
                level = await self.level(name, streams, watched=True)
                if level.late(99) < HELD_MS and not level.missing:
                    break
            else:
                return held_streams
            held_streams, streams = streams, round(streams * GROWTH)
        return held_streams


def _figures(levels: list[Level]) -> tuple[float, ...]:
    """The medians of what was measured in several rounds."""
    rows = [(each.cpu_10k, each.late(50), each.late(99), each.stream_kb) for each in levels]
    return tuple(median(column) for column in zip(*rows, strict=True))


def _line(name: str, levels: list[Level], floor: tuple[float, ...]) -> str:
    first, figures = levels[0], _figures(levels)
    ratios = [
        f"{mine / least:.2f}" if least > 0 else "-"
        for mine, least in zip(figures, floor, strict=True)
    ]
    cpu, p50, p99, memory = figures
    outputs = [f"CPU {cpu:6.2f} s per 10,000 (x {ratios[0]})"]
    if first.watched:
        outputs += [f"p50 {p50:7.1f} ms (x {ratios[1]})", f"p99 {p99:7.1f} ms (x {ratios[2]})"]
    outputs += [f"{memory:6.0f} kB a stream (x {ratios[3]})"]
    missing = sum(each.missing for each in levels)
    failure = next((each.failed for each in levels if each.failed), "")
    outputs += [f"{missing} DELTAS MISSING"] * bool(missing) + [failure] * bool(failure)
    looked = "watched  " if first.watched else "unwatched"
    return f"{name:>10} {first.streams:4} streams {looked}: " + ", ".join(outputs)


async def run(arguments: argparse.Namespace, *, first: bool) -> bool:
    """Print all figures; whether all deltas arrived. `first`: nothing else gets in between."""
    core, others = cores()
    apps: dict[str, Path | None] = {"floor": None, "ours": ROOT / "app"}
    if arguments.app:
        apps["other"] = arguments.app.resolve() / "app"
    load = Load(arguments.protocol, arguments.kind, arguments.deltas, arguments.rate)
    print(
        f"{load.kind} over {load.protocol}, {load.deltas} deltas a stream at"
        f" {load.rate:g} a second; server on core {core or '?'},"
        f" provider and reader on {others or '?'}, {'before' if first else 'beside'} other work",
        flush=True,
    )
    with pin(others):
        async with provider(others) as there:
            bench = Bench(apps, load, arguments.rounds, core, there)
            for streams in arguments.levels or (QUICK_LEVELS if arguments.quick else LEVELS):
                await bench.compare(streams, watched=True)
            for streams in arguments.levels or ((20,) if arguments.quick else LEVELS[1:]):
                await bench.compare(streams, watched=False)
            if not arguments.quick and not arguments.levels:
                floor = 0
                for name in apps:
                    most = await bench.most_held(name)
                    floor = floor or most
                    ratio = f"x {most / floor:.2f}" if floor else "-"
                    print(
                        f"{name:>10} holds {most} streams with a p99 below {HELD_MS} ms ({ratio})",
                        flush=True,
                    )
    return bench.sound


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the main figures, in two minutes")
    parser.add_argument("--protocol", choices=PROTOCOLS, default=PROTOCOLS[0])
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0])
    parser.add_argument("--deltas", type=int, default=400)
    parser.add_argument("--rate", type=float, default=50.0, help="deltas a second")
    parser.add_argument("--levels", type=int, nargs="+", help="numbers of streams")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--app", type=Path, help="a checkout to be measured, too")
    arguments = parser.parse_args()
    with precede() as first:
        return 0 if asyncio.run(run(arguments, first=first)) else 1


if __name__ == "__main__":
    sys.exit(main())
