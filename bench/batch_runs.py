"""How fast a batch is, what a kill leaves of it, and that its money limit holds.

`python bench/batch_runs.py`: 1,000 runs (a prompt, a call that a mock answers, an answer) by
`playground batch` at 16 at once, on a simulator without delay that stands in a process of its own,
on a core of its own, counts who asks, and calls each answer a cent. Printed are

    rate    runs a second from the first to the last, CPU for each in both processes, and the
            memory of the batch after a fifth of its runs and at its end
    kill    `kill -9` after a third of the runs, then `--resume`: how many runs are unknown (none,
            for all tools are mocks), and how often each was asked for at the simulator, over both
            processes
    money   `--max-cost`: what was spent beyond it, in runs
    page    the same SPEC by `playground serve`, once to its end and once until Stop is clicked in
            its middle: a client asks as the open page does, once a second; how often there was
            something new, the longest time without that, how long an answer took, bytes of the page
            early and at the end, and how long the click on Stop took

Exit 1 where more runs are made twice than were under way, one is unknown, memory grows by more than
a third from a fifth of the runs on, more is spent beyond the limit than was under way, or the page
shows nothing new for STILL_S, or takes STOP_S to answer a click on Stop.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measured_processes import cores, cpu_s, end_script, pin, resident_kb, start_script
from playground.batch.lanes import AT_ONCE
from playground.commands.sockets import bind_socket, port_of, run_loop, serve, server
from playground.core.settings import Profile
from playground.engine.engine import Engine
from playground.simulator.app import simulator_app
from tests.servers import ServerProcess, command, environment, launch_server

RUNS = 1_000
CENT = 0.01
COUNTS = "/counts"
KEY = "BENCH_API_KEY"
MOST_GROWTH = 4 / 3
STILL_S = 5.0
STOP_S = 1.0
PAGE_S = 1.0
"""The page of a batch that runs asks so often for what is new."""
WATCH_S = 600.0
OF_RUNS = re.compile(r"([\d,]+) of [\d,]+ runs")
AGAIN = re.compile(r'hx-get="(/batches/[^"]+/report[^"]*)"')
CASE = re.compile(rb"\(case (\d+)\)")

TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
    "config": {"result": "12 degrees"},
}


# The simulator, which counts --------------------------------------------------------------------


def counting(app: ASGIApp) -> ASGIApp:
    """`app`, of which `COUNTS` says how often each case was asked for its first answer."""
    counts: Counter[str] = Counter()

    async def count_requests(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == COUNTS:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            body = json.dumps(counts).encode()
            await send({"type": "http.response.body", "body": body})
            return
        body = b""

        async def received() -> Message:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            if message["type"] == "http.request" and not message.get("more_body"):
                case = CASE.search(body)
                if case is not None and b"tool_result" not in body:
                    counts[case[1].decode()] += 1
            return message

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.body":  # the price as some providers say it
                usage = b'"output_tokens":'
                priced = b'"cost":%g,%s' % (CENT, usage)
                message = {**message, "body": message.get("body", b"").replace(usage, priced)}
            await send(message)

        await app(scope, received, send_counted)

    return count_requests


async def serve_counting() -> None:
    with bind_socket("127.0.0.1", 0) as sock:
        instance = server(counting(simulator_app(pace=0.0)))
        await serve(instance, sock, lambda: print(port_of(sock), flush=True))


# The batch --------------------------------------------------------------------------------------


@dataclass
class Made:
    """A command under way or ended: its JSON lines, and what was seen at some of them."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[int, float] = field(default_factory=dict)
    cpu: float = 0.0
    seconds: float = 0.0

    @property
    def last_line(self) -> dict[str, Any]:
        return self.lines[-1]


@dataclass
class Place:
    """A folder with a SPEC and a database that has the simulator's profile."""

    folder: Path
    port: int
    runs: int
    core: set[int]

    async def prepare(self) -> None:
        engine = await Engine.open(
            self.folder / "bench.db", simulator_url=lambda: "", simulator_key="none"
        )
        url = f"http://127.0.0.1:{self.port}/anthropic"
        await engine.save_profile(Profile("counting", "anthropic", url, KEY, "simulator"))
        await engine.confirm(KEY, url)
        await engine.close()
        prompt = "What is the weather in Paris? (case {})"
        called = {"called": "get_weather", "arguments": {"subset": {"city": "Paris"}}}
        spec = {
            "playground_batch": 1,
            "tools": [TOOL],
            "models": ["counting"],
            "cases": [
                {"id": f"case-{number}", "prompt": prompt.format(number), "expect": [called]}
                for number in range(self.runs)
            ],
        }
        (self.folder / "spec.json").write_text(json.dumps(spec))

    def counts(self) -> Counter[str]:
        with httpx.Client() as client:
            return Counter(client.get(f"http://127.0.0.1:{self.port}{COUNTS}").json())

    def make(self, *words: str, kill_after: int = 0) -> Made:
        """`playground batch` to its end, or until so many runs have ended."""
        result = Made()
        with pin(self.core), (self.folder / "batch.log").open("a") as log:
            process = subprocess.Popen(
                [*command("batch", "spec.json", "--db", "bench.db", "--json", *words)],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(**{KEY: "any"}),
            )
        assert process.stdout is not None
        began, ended = 0.0, 0
        for line in process.stdout:
            result.lines.append(json.loads(line))
            if result.lines[-1]["kind"] == "batch_started":
                began, result.cpu = time.monotonic(), -cpu_s(process.pid)
            if result.lines[-1]["kind"] == "run_ended":
                ended += 1
                result.seconds = time.monotonic() - began
                if ended in (self.runs // 5, self.runs):
                    result.memory[ended] = resident_kb(process.pid) / 1024
                if ended == self.runs:
                    result.cpu += cpu_s(process.pid)
            if kill_after and ended >= kill_after:
                process.kill()
                break
        process.stdout.close()
        process.wait()
        return result


@contextmanager
def place(runs: int) -> Iterator[tuple[Place, int]]:
    """With the pid of its simulator."""
    first, others = cores()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        process, line = start_script([__file__, "--serve"], folder, others)
        try:
            place = Place(folder, int(line), runs, first)
            asyncio.run(place.prepare())
            yield place, process.pid
        finally:
            end_script(process)


def rate(runs: int) -> list[str]:
    with place(runs) as (at, simulator):
        before = cpu_s(simulator)
        result = at.make()
        there = cpu_s(simulator) - before
        early, late = result.memory[runs // 5], result.memory[runs]
        print(
            f"rate   {runs / result.seconds:.1f} runs/s over {runs} runs, {AT_ONCE} at once;"
            f" CPU {1000 * result.cpu / runs:.1f} ms a run here,"
            f" {1000 * there / runs:.1f} ms at the simulator;"
            f" memory {early:.0f} MB after {runs // 5}, {late:.0f} MB after {runs}"
        )
        failures = (
            [] if result.last_line["passed"] == runs else [f"{result.last_line['passed']} passed"]
        )
        failures += [f"memory grew to {late / early:.2f}"] if late > MOST_GROWTH * early else []
        return failures


def kill(runs: int) -> list[str]:
    with place(runs) as (at, _):
        first = at.make(kill_after=runs // 3)
        prompt_counts = at.counts()
        second = at.make("--resume")
        counts, unknown = at.counts(), second.last_line["unknown"]
        twice = [case for case, count in counts.items() if count > 1]
        ends = Counter(
            line["key"]["case"]
            for line in (*first.lines, *second.lines)
            if line["kind"] == "run_ended" and line["outcome"] != "unknown"
        )
        print(
            f"kill   after {runs // 3} runs that were told ({sum(prompt_counts.values())} asked "
            "for);"
            f" resumed: {second.last_line['passed']} passed, {unknown} unknown,"
            f" {len(twice)} asked for twice, {len(counts)} of {runs} asked for in all"
        )
        failures = [f"made twice: {', '.join(twice[:9])}"] if len(twice) > AT_ONCE else []
        failures += [f"{unknown} are unknown"] if unknown else []
        failures += ["a run ended twice"] if any(count > 1 for count in ends.values()) else []
        missing = runs - second.last_line["passed"] - unknown
        return failures + ([f"{missing} runs have no end"] if missing else [])


def money(runs: int) -> list[str]:
    with place(runs) as (at, _):
        limit = round(runs // 4 * 2 * CENT, 2)  # two answers a run
        result = at.make("--max-cost", str(limit))
        spent, ended = result.last_line["cost"], result.last_line["runs"]
        beyond = max(0.0, spent - limit) / (2 * CENT)
        print(
            f"money  limit ${limit:.2f}: ${spent:.2f} spent by {ended} runs, {beyond:.0f} runs"
            f" beyond it ({AT_ONCE} at once); {result.last_line['why']}"
        )
        return ["more was spent than was under way"] if beyond > AT_ONCE else []


@dataclass
class Watched:
    """What the page of a batch brought while it ran."""

    shown: list[tuple[float, int]] = field(default_factory=list)  # when, runs that have ended
    answered_s: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    stop_s: float = 0.0

    @property
    def still_s(self) -> float:
        """The longest time between two looks at which there was something new."""
        times = [at for at, _ in self.shown]
        return max((later - at for at, later in pairwise(times)), default=0.0)


async def watch(page: httpx.AsyncClient, batch_id: str, stop_at: int) -> Watched:
    """Look at the page until nothing more will come; Stop is clicked after `stop_at` runs."""
    watched, batch_path = Watched(), f"/batches/{batch_id}"
    async with asyncio.timeout(WATCH_S):
        while batch_path:
            began = time.monotonic()
            answer = (await page.get(batch_path)).raise_for_status()
            watched.answered_s.append(time.monotonic() - began)
            if answer.status_code == 200:
                done = OF_RUNS.search(answer.text)
                assert done is not None, "the page says how many runs have ended"
                watched.shown.append((time.monotonic(), int(done[1].replace(",", ""))))
                watched.sizes.append(len(answer.content))
                again = AGAIN.search(answer.text)
                batch_path = html.unescape(again[1]) if again else ""
                if stop_at and watched.shown[-1][1] >= stop_at and not watched.stop_s:
                    began = time.monotonic()
                    clicked = await page.post(f"/batches/{batch_id}/stop")
                    assert clicked.is_redirect, clicked.text
                    watched.stop_s = time.monotonic() - began
            await asyncio.sleep(max(0.0, PAGE_S - (time.monotonic() - began)))
    return watched


async def _paged(at: Place, server_process: ServerProcess, stop_at: int) -> Watched:
    spec = json.loads((at.folder / "spec.json").read_text())
    async with server_process.client() as script, server_process.page() as page:
        started = (await script.post("/batches", json=spec)).raise_for_status()
        return await watch(page, started.json()["id"], stop_at)


def page(runs: int) -> list[str]:
    with place(runs) as (at, _):
        with pin(at.core):
            server_process = launch_server(at.folder / "bench.db", **{KEY: "any"})
        try:
            full_page = asyncio.run(_paged(at, server_process, 0))
            stopped = asyncio.run(_paged(at, server_process, runs // 2))
        finally:
            server_process.kill()
        answers = sorted(full_page.answered_s)
        done, ended = full_page.shown[-1][1], stopped.shown[-1][1]
        print(
            f"page   {done} runs in {full_page.shown[-1][0] - full_page.shown[0][0]:.0f} s: "
            "something new"
            f" {len(full_page.shown)} times, {full_page.still_s:.1f} s without at most; an answer "
            "took"
            f" {1000 * answers[len(answers) // 2]:.0f} ms, {1000 * answers[-1]:.0f} ms at most;"
            f" {full_page.sizes[min(2, len(full_page.sizes) - 1)] / 1024:.0f} kB early,"
            f" {full_page.sizes[-1] / 1024:.0f} kB at the end; Stop was answered after"
            f" {1000 * stopped.stop_s:.0f} ms, {ended} runs had ended then"
        )
        failures = [] if done == runs else [f"the page showed {done} runs at the end"]
        failures += (
            ["the page stood still"] if max(full_page.still_s, stopped.still_s) > STILL_S else []
        )
        failures += ["Stop took too long"] if not 0 < stopped.stop_s < STOP_S else []
        return failures + ([] if ended < runs else ["Stop stopped nothing"])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", choices=("rate", "kill", "money", "page"))
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.serve:
        run_loop(serve_counting())
        return 0
    failures: list[str] = []
    for measure in (rate, kill, money, page):
        if arguments.only in (None, measure.__name__):
            failures += measure(arguments.runs)
    for sentence in failures:
        print(f"wrong: {sentence}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
