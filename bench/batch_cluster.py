"""What becomes of a batch on other processes when these die, and how many runs they make.

`python bench/batch_cluster.py` (the extra cluster; ten minutes): `playground batch --engine` on
workers of Dask, with the simulator of `batch_runs.py`, which counts how often each case is asked.

    kill    400 runs, a tool of 0.2 s, two workers of 4 threads; `kill -9` of one after a third
    nanny   the same with nannies, which start the worker again at its port
    stall   the same, where one worker reaches the scheduler, and is reached, through a relay that
            passes nothing for a minute; and with a scheduler that gives a worker up after 10 s
    equal   the built-in suite here and on local:2: the reports but for ids and times
    rate    runs a second with local:1, 2 and 4, a tool that sleeps for a second

Exit 1 where a run is missing, one is made twice, more are unknown than the threads of the worker
that was lost, or the reports differ.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.batch_runs import KEY, Place, place
from tests.servers import command, environment

RUNS = 400
THREADS = 4
STALL_S = 60.0
TTL_S = 10.0
START_S = 120.0
TIMES = ("seconds", "to_first_call_s", "session", "id", "first_call_s")

Line = dict[str, Any]


# The cluster --------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def started(*words: str, folder: Path, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of Dask's, ended with all below it."""
    with (folder / "dask.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words, "--no-dashboard"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env=environment(**{KEY: "any", **changes}),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                continue
        process.wait()


@contextmanager
def scheduler(folder: Path, ttl_s: float = 0.0) -> Iterator[int]:
    """The port of one."""
    changes = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{ttl_s:g}s"} if ttl_s else {}
    port = free_port()
    words = ("scheduler", "--host", "127.0.0.1", "--port", str(port))
    with started(*words, folder=folder, **changes):
        until_open(port)
        yield port


def until_open(port: int) -> None:
    end = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@contextmanager
def worker(
    folder: Path, asks: int, *, contact: int = 0, nanny: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """With the port that it stands at; it is reached by `contact`, where that is one."""
    port = free_port()
    place = ("--host", "127.0.0.1", "--worker-port", str(port))
    if contact:
        listen = ("--listen-address", f"tcp://127.0.0.1:{port}")
        place = (*listen, "--contact-address", f"tcp://127.0.0.1:{contact}")
    words = [
        *("worker", f"tcp://127.0.0.1:{asks}", "--nthreads", str(THREADS)),
        *("--memory-limit", "0"),
        *place,
        *("--local-directory", str(folder / "dask")),
        "--nanny" if nanny else "--no-nanny",
    ]
    with started(*words, folder=folder) as process:
        until_open(port)
        yield process, port


class Relay:
    """Passes bytes to `port` and back, each with its end; nothing while it is `stalled`."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self._sock = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._sock.getsockname()[1]

    def start(self, port: int) -> None:
        threading.Thread(target=self._accept, args=(port,), daemon=True).start()

    def _accept(self, port: int) -> None:
        while True:
            try:
                here, _ = self._sock.accept()
                there = socket.create_connection(("127.0.0.1", port))
            except OSError:
                return
            for way in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=way, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.open.wait()
                target.sendall(data)
            self.open.wait()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            target.close()


# The batch ----------------------------------------------------------------------------------------


@dataclass
class Told:
    """What a batch told, and how long it took from its beginning."""

    lines: list[Line]
    seconds: float

    @property
    def last_line(self) -> Line:
        return self.lines[-1]

    def outcomes(self) -> Counter[str]:
        return Counter(line["outcome"] for line in self.lines if line["kind"] == "run_ended")


def batch(at: Place, *words: str, after: int = 0, act: Callable[[], object] = lambda: None) -> Told:
    """`playground batch` to its end; `act` is called when so many runs have ended."""
    lines: list[Line] = []
    began = ended = 0.0
    with (at.folder / "batch.log").open("a") as log:
        process = subprocess.Popen(
            [*command("batch", *words, "--json")],
            cwd=at.folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment(**{KEY: "any"}),
        )
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(json.loads(line))
        if lines[-1]["kind"] == "batch_started":
            began = time.monotonic()
        if lines[-1]["kind"] == "run_ended":
            ended = time.monotonic()
            if len(lines) - 1 == after:
                act()
    process.wait()
    if not lines or lines[-1]["kind"] != "batch_ended":
        sys.exit((at.folder / "batch.log").read_text()[-3000:])
    return Told(lines, ended - began)


def slow(at: Place, delay_s: float) -> None:
    """Let the tool of its SPEC take so long."""
    path = at.folder / "spec.json"
    spec = json.loads(path.read_text())
    spec["tools"][0]["config"]["delay_s"] = delay_s
    path.write_text(json.dumps(spec))


def judged(name: str, at: Place, output: Told, runs: int, most_unknown: int) -> list[str]:
    """What is wrong with a batch that lost a worker."""
    outcomes, counts = output.outcomes(), at.counts()
    twice = [case for case, count in counts.items() if count > 1]
    print(
        f"{name:7}{sum(outcomes.values())} of {runs} rows: {outcomes['passed']} passed,"
        f" {outcomes['unknown']} unknown (at most {most_unknown});"
        f" {sum(counts.values())} asked for, {len(twice)} of them twice; {output.seconds:.0f} s"
    )
    failures = [f"{name}: made twice: {', '.join(twice[:9])}"] if twice else []
    failures += [f"{name}: rows are missing"] if sum(outcomes.values()) != runs else []
    failures += [f"{name}: too many unknown"] if outcomes["unknown"] > most_unknown else []
    others = set(outcomes) - {"passed", "unknown"}
    return failures + ([f"{name}: {', '.join(others)}"] if others else [])


def kill(runs: int, *, nanny: bool = False) -> list[str]:
    with ExitStack() as stack:
        at, _ = stack.enter_context(place(runs))
        slow(at, 0.2)
        asks = stack.enter_context(scheduler(at.folder))
        first, _ = stack.enter_context(worker(at.folder, asks, nanny=nanny))
        stack.enter_context(worker(at.folder, asks, nanny=nanny))

        def act() -> None:
            for pid in children(first.pid) if nanny else [first.pid]:
                os.kill(pid, signal.SIGKILL)

        engine = f"tcp://127.0.0.1:{asks}"
        words = ("spec.json", "--db", "bench.db", "--engine", engine)
        output = batch(at, *words, after=runs // 3, act=act)
        return judged("nanny" if nanny else "kill", at, output, runs, THREADS)


def children(pid: int) -> list[int]:
    """The worker below a nanny: of its children the one that was spawned."""
    below = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    child_pids = [
        int(child)
        for some in below
        for child in some
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    assert child_pids, "the nanny has no worker"
    return child_pids


def stall(runs: int, ttl_s: float = 0.0) -> list[str]:
    with ExitStack() as stack:
        at, _ = stack.enter_context(place(runs))
        slow(at, 0.2)
        asks = stack.enter_context(scheduler(at.folder, ttl_s))
        out, back = Relay(), Relay()
        out.start(asks)
        _, port = stack.enter_context(worker(at.folder, out.port, contact=back.port))
        back.start(port)
        stack.enter_context(worker(at.folder, asks))

        def act() -> None:
            for relay in (out, back):
                relay.open.clear()
                threading.Timer(STALL_S, relay.open.set).start()

        engine = f"tcp://127.0.0.1:{asks}"
        words = ("spec.json", "--db", "bench.db", "--engine", engine)
        output = batch(at, *words, after=runs // 3, act=act)
        for relay in (out, back):
            relay.open.wait(STALL_S)
        time.sleep(5)  # what the worker had goes on, and is counted
        name = f"stall {ttl_s:.0f}s" if ttl_s else "stall"
        return judged(name, at, output, runs, THREADS)


def equal() -> list[str]:
    with place(1) as (at, _):
        here, there = (
            batch(at, "builtin", "--db", db, "--seed", "7", *words)
            for db, words in (("here.db", ()), ("there.db", ("--engine", "local:2")))
        )
        item, other = (without_times(output.last_line) for output in (here, there))
        runs = [
            sorted(json.dumps(without_times(line)) for line in output.lines[1:-1])
            for output in (here, there)
        ]
        print(
            f"equal  {here.last_line['runs']} runs of the built-in suite: the report is"
            f" {'equal' if item == other else 'ANOTHER'}, the runs are"
            f" {'equal' if runs[0] == runs[1] else 'OTHERS'}"
        )
        failures = differences(item, other)
        for ours, theirs in zip(*runs, strict=True):
            failures += differences(json.loads(ours), json.loads(theirs))
        return [f"equal: {each}" for each in failures]


def differences(item: Any, other: Any, at: str = "") -> list[str]:
    """Where two values of JSON are not the same."""
    match item, other:
        case dict(), dict():
            pairs = [(str(key), item.get(key), other.get(key)) for key in item | other]
        case list(), list() if len(item) == len(other):
            pairs = [
                (str(place), *both) for place, both in enumerate(zip(item, other, strict=True))
            ]
        case _:
            return [] if item == other else [f"{at}: {str(item)[:99]} and {str(other)[:99]}"]
    return [
        each for key, ours, theirs in pairs for each in differences(ours, theirs, f"{at}/{key}")
    ]


def without_times(value: Any) -> Any:
    match value:
        case dict():
            return {key: without_times(of) for key, of in value.items() if key not in TIMES}
        case list():
            return [without_times(of) for of in value]
    return value


def rate(runs: int) -> list[str]:
    with place(runs) as (at, _):
        slow(at, 1.0)
        for workers in (1, 2, 4):
            db = f"rate-{workers}.db"
            (at.folder / db).write_bytes((at.folder / "bench.db").read_bytes())
            output = batch(at, "spec.json", "--db", db, "--engine", f"local:{workers}")
            passed = output.outcomes()["passed"]
            print(
                f"rate   local:{workers}: {passed / output.seconds:.1f} runs/s, {passed} of {runs}"
                " passed, 8 threads each, a tool of 1 s"
            )
    return []


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    names = ("kill", "nanny", "stall", "equal", "rate")
    parser.add_argument("--only", choices=names, nargs="+", default=names)
    arguments = parser.parse_args(words)
    runs, failures = arguments.runs, list[str]()
    ways: dict[str, list[Callable[[], list[str]]]] = {
        "kill": [lambda: kill(runs)],
        "nanny": [lambda: kill(runs, nanny=True)],
        "stall": [lambda: stall(runs), lambda: stall(runs, TTL_S)],
        "equal": [equal],
        "rate": [lambda: rate(runs // 2)],
    }
    for name in names:
        if name in arguments.only:
            for way in ways[name]:
                failures += way()
                sys.stdout.flush()
    for sentence in failures:
        print(f"wrong: {sentence}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
