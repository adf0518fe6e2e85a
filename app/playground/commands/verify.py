"""`playground verify`: checks that recordings match the log, and are complete."""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from playground import config
from playground.core.errors import StoreBusy
from playground.engine.verify import Difference, OnDifference, VerifyReport, verify
from playground.render.filters import plural
from playground.store.database import Database, OwnerLock, readable_database


def main(arguments: argparse.Namespace) -> int:
    """0 if everything decodes to what was logged, 1 if something differs."""
    path = readable_database(arguments.db or config.default_db())
    differences: list[Difference] = []

    def report(difference: Difference) -> None:
        differences.append(difference)
        if not arguments.json:
            print(config.one_line(difference.line), flush=True)

    with ExitStack() as held:
        lock = OwnerLock(path)
        try:
            lock.take()
            held.callback(lock.release)
            owner = True
        except StoreBusy:
            owner = False
        done = asyncio.run(_verify(path, report, owner))
    if arguments.json:
        print(
            json.dumps(
                {**asdict(done), "differences": [_data(difference) for difference in differences]}
            )
        )
    else:
        print(_summary(done))
    return 1 if differences else 0


async def _verify(path: Path, on_difference: OnDifference, owner: bool) -> VerifyReport:
    database = await Database.open(path, owner=owner)
    try:
        return await verify(database, on_difference, mending=owner)
    finally:
        await database.close()


def _data(difference: Difference) -> dict[str, object]:
    return {
        "session": difference.session,
        "recording": difference.recording,
        "says": difference.says,
    }


def _summary(done: VerifyReport) -> str:
    parts = [
        f"{plural(done.sessions, 'session')}, {plural(done.recordings, 'recording')}, "
        f"{plural(done.events, 'event')} decoded again: {plural(done.differences, 'difference')}"
    ]
    if done.masked_bytes:
        parts.append(f"{plural(done.masked_bytes, 'byte')} masked")
    if done.unhashed:
        parts.append(f"{done.unhashed} without a hash, from an earlier version")
    if done.unended:
        parts.append(
            f"{done.unended} without an end: still running, or cut off when the program ended"
        )
    if done.mended is None:
        parts.append("another process uses the database, so nothing was written")
    else:
        rows = plural(done.mended, "stale row") if done.mended else "nothing stale"
        parts.append(f"list and search rebuilt ({rows})")
    return "; ".join(parts) + "."
