"""How soon a page is there: `python bench/first_load.py`.

From the start of the process to the last byte of the first page, in seconds of the clock and of
CPU, with a database that is there already; and one answer on a connection that is kept open, in
milliseconds. Ours beside the floor of `bench/floor.py`, in turn; medians. Exit 1 where an answer is
too slow; how long a start takes has no bound. What a page weighs: `bench/page_weight.py`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measured_processes import cores, cpu_s, end_script, pin, precede, start_script
from tests import servers
from tests.servers import NO_TLS, ROOT, ServerProcess

MOST_ANSWER_MS = 3.0
"""The bound of the median of an answer."""
ANSWERS = 200
PATHS = {"floor": ("/",), "ours": ("/healthz", "/store")}
"""What is asked again and again; of ours what the guard answers by itself, and a route."""


@contextmanager
def server_of(name: str, folder: Path, core: set[int]) -> Iterator[ServerProcess]:
    if name == "floor":
        db = folder / "floor.db"
        process, line = start_script([str(ROOT / "bench/floor.py"), str(db)], folder, core)
        server = ServerProcess.from_line(line, process, db)
    else:
        with pin(core):
            server = servers.launch_server(folder / "bench.db")
    try:
        yield server
    finally:
        end_script(server.process)


def start_s(name: str, folder: Path, core: set[int]) -> tuple[float, float]:
    """One start up to its page: seconds, and those of CPU."""
    began = time.perf_counter()
    with (
        server_of(name, folder, core) as server,
        httpx.Client(trust_env=False, verify=NO_TLS, follow_redirects=True) as browser,
    ):
        page = browser.get(server.link)
        seconds = time.perf_counter() - began
        assert page.status_code == 200, page.text
        return seconds, cpu_s(server.process.pid)


def answers_ms(server: ServerProcess, path: str) -> list[float]:
    """Each answer on one connection that is kept open; the first ones are not counted."""
    headers = {"authorization": f"Bearer {server.token}", "accept": "application/json"}
    accepted_items = []
    with httpx.Client(
        base_url=server.url, headers=headers, trust_env=False, verify=NO_TLS
    ) as client:
        for _ in range(ANSWERS + 10):
            began = time.perf_counter()
            client.get(path).raise_for_status()
            accepted_items.append((time.perf_counter() - began) * 1000)
    return accepted_items[10:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    core, others = cores()
    sound = True
    with tempfile.TemporaryDirectory() as name, precede(), pin(others):
        folder = Path(name)
        start_s("ours", folder, core)  # makes the database
        starts: dict[str, list[tuple[float, float]]] = {each: [] for each in PATHS}
        for _ in range(rounds):
            for each, rows in starts.items():
                rows.append(start_s(each, folder, core))
        least, cpu = (median(column) for column in zip(*starts["floor"], strict=True))
        for each, rows in starts.items():
            seconds, used = (median(column) for column in zip(*rows, strict=True))
            print(
                f"{each}: start to page {seconds:.2f} s (x {seconds / least:.2f}),"
                f" CPU {used:.2f} s (x {used / cpu:.2f})",
                flush=True,
            )
        for each, paths in PATHS.items():
            with server_of(each, folder, core) as server:
                for path in paths:
                    accepted = answers_ms(server, path)
                    sound = sound and median(accepted) <= MOST_ANSWER_MS
                    print(
                        f"{each}: {path} on a kept-open connection {median(accepted):.2f} ms,"
                        f" p99 {quantiles(accepted, n=100)[98]:.2f} ms",
                        flush=True,
                    )
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
