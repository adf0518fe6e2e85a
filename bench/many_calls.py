"""Many calls in one answer: `python bench/many_calls.py --counts 1000 5000 50000`.

A scenario makes the model answer with so many calls at once, over each protocol. With up to 10,000
the limit is raised, so that all are taken; with more it stays as it is. Measured are the seconds
of Stop while the calls are checked and while they run, those of SIGTERM, how much the memory of
the server grew, and the bytes of the page. An answer may be broken off, because it is too large:
then the line says so, and nothing of it runs. Exit 1 where a bound does not hold.

`--run` measures another thing: the seconds of CPU of a run in which all calls are decided by a rule
and run, from the prompt to the answer to their results, and how they grow with the calls. With
`--page` a page is open meanwhile, with `--serial` no call runs beside another.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measured_processes import cpu_s
from bench.streams import Reader, open_stream
from playground.core.settings import PROTOCOLS
from playground.protocols.facts import FACTS
from tests import servers
from tests.servers import ServerProcess, command, environment

servers.START_S = 60.0
servers.END_S = 300.0

STOP_S, END_S = 1.0, 3.0
MOST_GROWTH, MOST_PAGE = 200.0, 2.0
"""Bounds: seconds of Stop and of SIGTERM, MiB of memory, MiB of the page."""
MOST_RUN_S, MOST_POWER = 2.0, 1.15
"""Bounds of `--run`: seconds of CPU for 1,000 calls, and the power of their number by which it
grows."""
MOST_LIMIT = 10_000
KEY = "BENCH_API_KEY"
TOOL = {
    "name": "look_up",
    "description": "Looks something up.",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "answered_by": "mock",
    "config": {"result": "found"},
    "parallel_safe": True,
}


@dataclass
class Measured:
    """Seconds, MiB, and how many calls the program took."""

    protocol: str
    calls: int
    decided: int = 0
    answer_s: float = 0.0
    stop_s: float = 0.0
    stop_running_s: float = 0.0
    end_s: float = 0.0
    growth: float = 0.0
    page: float = 0.0
    page_s: float = 0.0
    failed: str = ""

    @property
    def line(self) -> str:
        return (
            f"{self.protocol:17} {self.calls:6} calls, {self.decided:6} taken:"
            f" answer {self.answer_s:6.1f} s, stop {self.stop_s:6.2f} s,"
            f" stop while they run {self.stop_running_s:6.2f} s,"
            f" SIGTERM {self.end_s:6.2f} s, memory +{self.growth:6.1f} MiB,"
            f" page {self.page:6.2f} MiB in {self.page_s:5.2f} s"
            + (f"; broken off: {self.failed}" if self.failed else "")
        )

    @property
    def holds(self) -> bool:
        return (
            max(self.stop_s, self.stop_running_s) < STOP_S
            and self.end_s < END_S
            and self.growth < MOST_GROWTH
            and self.page < MOST_PAGE
        )


@contextmanager
def simulator(folder: Path, calls: int) -> Iterator[str]:
    """A model that answers a prompt with `calls` calls, and their results with a word; its base
    URL."""
    items = [{"name": TOOL["name"], "arguments": {"n": number}} for number in range(calls)]
    script = folder / "scenario.json"
    script.write_text(
        json.dumps({"turns": [{"calls": items, "pace": 0}, {"text": "Done.", "pace": 0}]})
    )
    words = command("simulate", "--port", "0", "--scenario", str(script))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split(" on ")[1].split(" ")[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def memory(process: subprocess.Popen[str], name: str) -> float:
    """`VmRSS`, or `VmHWM`, which was the most, in MiB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


async def new_session(
    client: httpx.AsyncClient, url: str, measured: Measured, *, runs: bool
) -> str:
    """A session that has not been asked yet; its id."""
    settings: dict[str, Any] = {
        "protocol": measured.protocol,
        "base_url": url + FACTS[measured.protocol].simulated,
        "model": "simulator",
        "key_name": KEY,
        "tools": [TOOL],
        "max_parallel": 16,
        "max_calls_per_turn": 1000,
    }
    if measured.calls <= MOST_LIMIT:
        settings["max_calls_per_answer"] = measured.calls
    if runs:
        settings["rules"] = [{"tool": "*", "action": "run"}]
    answer = await client.post("/sessions", json=settings)
    if answer.status_code == 422:
        settings.pop("max_calls_per_answer", None)
        answer = await client.post("/sessions", json=settings)
    answer.raise_for_status()
    session_id: str = answer.json()["id"]
    return session_id


async def start_session(
    client: httpx.AsyncClient, url: str, measured: Measured, *, runs: bool
) -> str:
    """A session that was asked, as soon as its answer has ended; its id."""
    session_id = await new_session(client, url, measured, runs=runs)
    (await client.post(f"/sessions/{session_id}/prompts", json={"text": "go"})).raise_for_status()
    began = time.monotonic()
    after = 0
    wanted = "call_ended" if runs else "response_ended"
    while True:
        path = f"/sessions/{session_id}/events?after={after}"
        async with client.stream("GET", path, headers={"accept": "text/event-stream"}) as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("data: "):
                    continue
                event = json.loads(line[6:])
                kind = event["kind"]
                if kind in ("response_ended", "response_failed"):
                    measured.answer_s = time.monotonic() - began
                if kind == "response_failed":
                    measured.failed = event["message"]
                if kind in (wanted, "response_failed"):
                    return session_id


async def timed_stop(client: httpx.AsyncClient, session_id: str) -> float:
    began = time.monotonic()
    (await client.post(f"/sessions/{session_id}/stop")).raise_for_status()
    return time.monotonic() - began


async def settled(client: httpx.AsyncClient, session_id: str) -> Any:
    while True:
        folded = (await client.get(f"/sessions/{session_id}")).json()
        if all(call["status"] not in ("proposed", "running") for call in folded["calls"]):
            return folded
        if folded["state"] == "interrupted":  # its answer broke off: its calls are not checked
            return folded
        await asyncio.sleep(0.5)


async def measured(url: str, server: ServerProcess, measured: Measured) -> None:
    async with server.client() as client:
        client.timeout = httpx.Timeout(600.0)
        before = memory(server.process, "VmRSS")
        running = await start_session(client, url, measured, runs=True)
        measured.stop_running_s = await timed_stop(client, running)
        session_id = await start_session(client, url, measured, runs=False)
        measured.stop_s = await timed_stop(client, session_id)
        # What was stopped while it was checked stays so: nothing of it goes on.
        measured.decided = len((await client.get(f"/sessions/{running}")).json()["calls"])
        if not measured.failed:
            answer = await client.post(f"/sessions/{session_id}/continue", json={})
            answer.raise_for_status()
        await settled(client, session_id)
        began = time.monotonic()
        page = await client.get(f"/sessions/{session_id}", headers={"accept": "text/html"})
        measured.page_s = time.monotonic() - began
        measured.page = len(page.content) / 2**20
        measured.growth = memory(server.process, "VmHWM") - before
        await start_session(client, url, measured, runs=False)
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(servers.END_S)
    measured.end_s = time.monotonic() - began


async def run_cpu_s(
    url: str, server: ServerProcess, protocol: str, calls: int, *, page: bool
) -> float:
    """Seconds of CPU of a run in which so many calls are run. It pauses after each 1,000."""
    measured = Measured(protocol, calls)
    async with server.client() as client, server.page() as browser:
        client.timeout = httpx.Timeout(600.0)
        session_id = await new_session(client, url, measured, runs=True)
        reader = await open_stream(server, browser, session_id, Reader) if page else None
        path = f"/sessions/{session_id}"
        began = cpu_s(server.process.pid)
        (await client.post(path + "/prompts", json={"text": "go"})).raise_for_status()
        while True:
            await asyncio.sleep(0.2)
            # The list alone: to ask for all calls again and again would cost CPU itself.
            state = (await client.get("/sessions")).json()[0]["state"]
            if state == "paused":
                (await client.post(path + "/continue", json={})).raise_for_status()
            elif state not in ("running", "waiting"):  # it waits until the rules are asked
                break
        used = cpu_s(server.process.pid) - began
        if reader is not None:
            assert not reader.failed, reader.failed
            reader.transport.close()
        folded = (await client.get(path)).json()
        done = sum(call["status"] == "done" for call in folded["calls"])
        assert (state, done, folded["text"]) == ("idle", calls, "Done."), (state, done)
    return used


def run_all(counts: list[int], protocols: list[str], *, page: bool = False) -> bool:
    """Print the CPU of a run for each protocol and count; whether the bounds hold."""
    holds = True
    for protocol in protocols:
        used = []
        for calls in counts:
            with (
                tempfile.TemporaryDirectory() as folder,
                simulator(Path(folder), calls) as url,
                servers.run_server_process(
                    Path(folder) / "calls.db", **{KEY: "any-key-at-all"}
                ) as server,
            ):
                used.append(asyncio.run(run_cpu_s(url, server, protocol, calls, page=page)))
            holds = holds and used[-1] <= MOST_RUN_S * max(calls / 1000, 1)
            print(f"{protocol:17} {calls:6} calls run: CPU {used[-1]:8.2f} s", flush=True)
        if len(counts) > 1:
            power = math.log(used[-1] / used[0]) / math.log(counts[-1] / counts[0])
            holds = holds and power <= MOST_POWER
            print(f"{protocol:17} x {used[-1] / used[0]:.1f}: n to the power of {power:.2f}")
    return holds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[1000, 5000, 50_000])
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--run", action="store_true", help="the CPU of running them all")
    parser.add_argument("--page", action="store_true", help="with --run: a page is open")
    parser.add_argument("--serial", action="store_true", help="with --run: one call at a time")
    arguments = parser.parse_args()
    if arguments.run:
        TOOL["parallel_safe"] = not arguments.serial
        most = [count for count in arguments.counts if count <= MOST_LIMIT]
        return 0 if run_all(most, arguments.protocols, page=arguments.page) else 1
    holds = True
    for calls in arguments.counts:
        with tempfile.TemporaryDirectory() as folder, simulator(Path(folder), calls) as url:
            for protocol in arguments.protocols:
                item = Measured(protocol, calls)
                with servers.run_server_process(
                    Path(folder) / f"{protocol}.db", **{KEY: "any-key-at-all"}
                ) as server:
                    asyncio.run(measured(url, server, item))
                print(item.line + ("" if item.holds else "  BEYOND ITS BOUND"), flush=True)
                holds = holds and item.holds
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
