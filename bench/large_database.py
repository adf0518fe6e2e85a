"""What a database of 100,000 sessions and 5 million events costs: `python bench/large_database.py`.

Makes it where it is not there yet (two minutes), brings it up to the schema of today, and times a
start, the list, searches and the opening of sessions with 10,000 events, each as `name: median ms
p95 ms (bound)`. Exit 1 where a median is above its bound. `--keep FILE` leaves the database for
the next time; `--cpu` counts processor time, for a machine that does other things, too. A large
session is opened "first" when it is read from the file and folded, "again" while it is still held
in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from starlette.types import ASGIApp

from bench.large_sessions import COMMON, LARGE, RARE, write
from playground.engine.engine import Engine
from playground.store.database import Database
from playground.web.app import make_app
from tests.servers import command, environment
from tests.web.asking import HERE, call, scope_of

LIST_MS, OPEN_MS, START_MS = 50.0, 150.0, 1_000.0
TIMES = 50
PAGE = (("host", HERE), ("accept", "text/html"))
BLOCK = (*PAGE, ("hx-request", "true"), ("sec-fetch-site", "same-origin"))

CLOCK = [time.perf_counter]
"""The last one is used."""


def report_times(name: str, times_ms: Sequence[float], bound_ms: float) -> bool:
    """Whether the median is within the bound; prints both."""
    ordered = sorted(times_ms)
    middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
    fits = not bound_ms or middle <= bound_ms
    bound = f" ({bound_ms:.0f}{'' if fits else ', NOT MET'})" if bound_ms else ""
    print(f"{name}: {middle:.1f} ms {late:.1f} ms{bound}", flush=True)
    return fits


def marked(path: Path) -> None:
    """A user's marks on some: tags, pins, an archive, a bin."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for sql in (
            "INSERT OR IGNORE INTO tags SELECT id, 'demo' FROM sessions WHERE rowid % 500 = 7",
            "INSERT OR IGNORE INTO tags SELECT id, 'later' FROM sessions WHERE rowid % 20 = 3",
            "UPDATE sessions SET pinned_ms = 1 WHERE rowid % 20000 = 9",
            "UPDATE sessions SET archived_ms = 1 WHERE rowid % 10 = 1",
            "UPDATE sessions SET deleted_ms = 1 WHERE rowid % 1000 = 5",
        ):
            connection.execute(sql)


async def _migrated(path: Path) -> None:
    await (await Database.open(path)).close()


def prepared(path: Path, sessions: int, events: int) -> None:
    """The database at `path`, made where it is not there."""
    if path.exists():
        return
    began = time.monotonic()
    write(path, sessions, events, max(1, sessions // 5_000))
    print(
        f"made: {time.monotonic() - began:.0f} s, {path.stat().st_size / 1e6:,.0f} MB", flush=True
    )
    began = time.monotonic()
    asyncio.run(_migrated(path))
    print(f"brought up to date: {time.monotonic() - began:.0f} s", flush=True)
    path.with_name(f"{path.name}.v5.backup").unlink(missing_ok=True)
    marked(path)


def children_s() -> float:
    """Processor time of the commands that were run and have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def started_ms(path: Path) -> float:
    """From the command to its line; then it is killed, for what it imports after is no start."""
    began, used = time.monotonic(), children_s()
    words = command("serve", "--port", "0", "--db", str(path))
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, env=environment(), cwd=path.parent
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        accepted = (time.monotonic() - began) * 1000
        process.kill()
        process.wait(30)
    return accepted if CLOCK[-1] is time.perf_counter else (children_s() - used) * 1000


async def opened_ms(path: Path) -> float:
    began = CLOCK[-1]()
    engine = await Engine.open(path, simulator_url=lambda: "", simulator_key="k", environment={})
    accepted = (CLOCK[-1]() - began) * 1000
    await engine.close()
    return accepted


async def asked_ms(app: ASGIApp, target: str, headers: Sequence[tuple[str, str]] = PAGE) -> float:
    began = CLOCK[-1]()
    output = await call(app, scope_of("GET", target, headers))
    accepted = (CLOCK[-1]() - began) * 1000
    assert output.status == 200, (target, output.status, output.body[:300])
    return accepted


def queries(chance: random.Random, words: Sequence[str]) -> dict[str, Callable[[], str]]:
    """What is looked for, anew each time."""
    models = ["sonnet", "haiku", "gpt-5-mini", "qwen3"]

    def word() -> str:
        return chance.choice(words)

    return {
        "rare word": lambda: RARE,
        "common word": lambda: COMMON,
        "some word": word,
        "two words": lambda: f"{word()} {word()}",
        "phrase": lambda: '"of the"',
        "prefix of 2": lambda: word()[:2],
        "prefix of 4": lambda: word()[:4],
        "no hit": lambda: f"qqz{chance.randint(100, 999)}",
        "word and model": lambda: f"{word()} model:{chance.choice(models)}",
        "word and tool": lambda: f"{word()} tool:get_weather",
        "word and tag of few": lambda: f"{word()} tag:demo",
        "word and tag of many": lambda: f"{COMMON} tag:later",
        "word and dates": lambda: f"{word()} after:2025-02 before:2025-03",
        "filters alone": lambda: f"model:{chance.choice(models)} tag:later is:archived",
        "state alone": lambda: "state:waiting",
        "bin": lambda: "is:deleted",
    }


def usual(connection: sqlite3.Connection) -> str:
    """The newest session that is not one of the large ones: these are newer than all others."""
    sql = """
        SELECT id FROM sessions WHERE deleted_ms IS NULL AND NOT EXISTS (
            SELECT 1 FROM events WHERE session = id AND seq = ?) ORDER BY updated_ms DESC LIMIT 1
    """
    return str(connection.execute(sql, (LARGE - 60,)).fetchone()[0])


async def pages(path: Path) -> bool:
    """Server time of the list, of searches and of large sessions."""
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT session FROM events WHERE seq = ?"
        large = [row[0] for row in connection.execute(sql, (LARGE - 60,))]
        texts = connection.execute("SELECT title FROM sessions ORDER BY id LIMIT 60").fetchall()
        small = usual(connection)
    words = [
        word for (title,) in texts for word in title.split() if word.isalpha() and len(word) > 3
    ]
    engine = await Engine.open(path, simulator_url=lambda: "", simulator_key="k", environment={})
    try:
        app, site = make_app(engine, token=None, port=lambda: 8765, simulator=_nothing)
        await asked_ms(app, "/find")
        ok = report_times(
            "list", [await asked_ms(app, "/sessions", BLOCK) for _ in range(TIMES)], LIST_MS
        )
        page = [await asked_ms(app, f"/sessions/{small}") for _ in range(TIMES)]
        ok &= report_times("page of a small session, with the list", page, LIST_MS)
        chance = random.Random(2)
        for name, query in queries(chance, words).items():
            for where, address, headers in (("", "/find", PAGE), ("beside, ", "/sessions", BLOCK)):
                times = [
                    await asked_ms(app, f"{address}?q={quote(query())}", headers)
                    for _ in range(TIMES)
                ]
                ok &= report_times(f"search {where}{name}", times, LIST_MS)
        times = [await asked_ms(app, "/find/size") for _ in range(5)]
        report_times("size of the database", times, 0)
        first = [await asked_ms(app, f"/sessions/{item}") for item in large]
        ok &= report_times(f"a session of {LARGE:,} events, first opened", first, OPEN_MS)
        again = [await asked_ms(app, f"/sessions/{item}") for item in large]
        ok &= report_times(f"a session of {LARGE:,} events, opened again", again, OPEN_MS)
        site.close()
        return ok
    finally:
        await engine.close()


async def _nothing(scope: object, receive: object, send: object) -> None:
    raise AssertionError("nothing asks the simulator")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--cpu", action="store_true", help="time of the processor, not of a clock")
    parser.add_argument("--keep", type=Path, help="where it is, or is to be left")
    arguments = parser.parse_args()
    if arguments.cpu:
        CLOCK.append(time.process_time)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.keep or Path(folder) / "large.db"
        prepared(path, arguments.sessions, arguments.events)
        print(f"{path.stat().st_size / 1e6:,.0f} MB; median, p95 (bound)", flush=True)
        ok = report_times(
            "playground serve, to its line", [started_ms(path) for _ in range(5)], START_MS
        )
        opened = [asyncio.run(opened_ms(path)) for _ in range(5)]
        ok &= report_times("Engine.open", opened, START_MS)
        ok &= asyncio.run(pages(path))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
