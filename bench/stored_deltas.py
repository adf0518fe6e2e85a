"""What the deltas of answers cost in the store: `python bench/stored_deltas.py [--rounds N]`.

Writes 10,000 deltas with their bytes through `Log.append`, of one session or of 20 that are written
at once, so many of a session in a batch; reads them back as events and as pieces. CPU milliseconds
of the process, the median of the rounds, and the bytes of the database. Two versions are compared
in turn, each by this file in its own folder `bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.core.events import Logged, PartDelta, Source
from playground.store.database import Database
from playground.store.log import Log
from playground.store.writes import Chunk, Summary, WriteBatch

COUNT = 10_000
CASES = ((1, 2), (1, 20), (1, 100), (20, 2), (20, 5))
"""Sessions, and deltas of each in a batch."""


def answer(count: int) -> tuple[list[Logged], list[Chunk]]:
    """The deltas of one answer, and a piece of the recording for each."""
    words = [" It", " is", " sunny", " in", " Paris", " today", " and", " warm", ",", ' "25"']
    log, chunks, end = list[Logged](), list[Chunk](), 0
    for place in range(count):
        text = words[place % len(words)]
        delta = {"type": "text_delta", "text": text}
        data = {"type": "content_block_delta", "index": 0, "delta": delta}
        piece = f"event: content_block_delta\ndata: {json.dumps(data)}\n\n".encode()
        at_ms = 1_790_000_000_000 + 13 * place
        span = Source(1, end, end + len(piece) - 2)
        log.append(Logged(place + 1, at_ms, PartDelta(0, text), span))
        chunks.append(Chunk(1, end, at_ms, piece))
        end += len(piece)
    return log, chunks


async def measured(path: Path, sessions: int, size: int) -> tuple[float, float, float, int]:
    """CPU ms of writing in batches of `size`, of reading events and pieces; bytes of the file."""
    log, chunks = answer(COUNT // sessions)
    names = [f"session {number}" for number in range(sessions)]
    database = await Database.open(path)
    store = await Log.open(database)
    for name in names:
        await store.append(
            WriteBatch(
                name,
                summary=Summary(
                    name,
                    title="",
                    created_ms=1,
                    updated_ms=1,
                    state="idle",
                    model="m",
                    calls=0,
                    waiting=0,
                ),
            )
        )
    times = [time.process_time()]
    for place in range(0, len(log), size):
        events, pieces = log[place : place + size], chunks[place : place + size]
        await asyncio.gather(*(store.append(WriteBatch(name, events, pieces)) for name in names))
    times.append(time.process_time())
    for name in names:
        assert len(await store.events(name)) == len(log)
    times.append(time.process_time())
    for name in names:
        assert len(await store.chunks(name)) == len(chunks)
    times.append(time.process_time())
    await database.close()
    write, read, recorded = (1000 * (after - before) for before, after in pairwise(times))
    return write, read, recorded, path.stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    for sessions, size in CASES:
        rows = []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                rows.append(asyncio.run(measured(Path(folder) / "a.db", sessions, size)))
        write, read, recorded, file = map(statistics.median, zip(*rows, strict=True))
        print(
            f"{sessions:2} sessions, {size:3} deltas a batch: write {write:5.0f} ms of CPU, read"
            f" events {read:4.0f}, pieces {recorded:4.0f}; {file / 1000:,.0f} kB",
            flush=True,
        )


if __name__ == "__main__":
    main()
