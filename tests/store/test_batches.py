"""Batches and their runs as rows, and the sessions of runs in the list."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from playground.store.batches import (
    BatchRow,
    RunPlace,
    RunRow,
    add_batch,
    batch_row,
    batch_rows,
    claim,
    finish,
    newest_same_batch,
    run_rows,
    set_state,
    unclaim,
)
from playground.store.database import APPLICATION_ID
from playground.store.log import Log
from playground.store.schema import MIGRATIONS
from playground.store.search import parse_query, search
from playground.store.writes import WriteBatch
from tests.playbook import number_events, start_events
from tests.store.test_database import opened
from tests.store.test_log import summary

pytestmark = pytest.mark.anyio

ROW = BatchRow(
    "b1",
    digest="d",
    name="name",
    body='{"cases": []}',
    runs=2,
    state="running",
    why="",
    created_ms=10,
    updated_ms=10,
)
FIRST: RunPlace = ("c \ud800", "base", "m", 1)
STORED: RunPlace = ("c ?", "base", "m", 1)
SECOND: RunPlace = ("c", "base", "m", 2)


async def test_a_run_is_claimed_once_and_ends_once(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        await add_batch(database, ROW)
        await claim(database, "b1", FIRST, "s1", 11)
        await claim(database, "b1", SECOND, "s2", 12)
        await finish(database, "b1", FIRST, "passed", '{"tokens": 1}')
        assert sorted(await run_rows(database, "b1"), key=lambda row: row.session) == [
            RunRow(STORED, "s1", 11, "passed", '{"tokens": 1}'),
            RunRow(SECOND, "s2", 12),
        ]
        await claim(database, "b1", FIRST, "s3", 13)  # once more: what it was is forgotten
        await unclaim(database, "b1", SECOND)
        assert await run_rows(database, "b1") == [RunRow(STORED, "s3", 13)]
        assert await run_rows(database, "b2") == []


async def test_the_newest_batch_that_asks_the_same(tmp_path: Path) -> None:
    rows = [replace(ROW, id=f"b{at}", created_ms=at) for at in (1, 3, 2)]
    async with opened(tmp_path / "a.db") as database:
        for row in (*rows, replace(ROW, id="other", digest="e", created_ms=9)):
            await add_batch(database, row)
        assert await newest_same_batch(database, "d") == rows[1]
        assert await newest_same_batch(database, "f") is None
        assert [row.id for row in await batch_rows(database)] == ["other", "b3", "b2", "b1"]
        changed = replace(rows[0], state="stopped", why="The limit.", updated_ms=20)
        await set_state(database, changed)
        assert await batch_row(database, "b1") == changed
        assert await batch_row(database, "b7") is None


async def test_the_list_leaves_runs_out_and_a_search_has_them(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        for name, batch in (("mine", ""), ("run", "b1")):
            of_batch = replace(summary(name, title=f"the {name}"), batch=batch)
            await log.append(WriteBatch(name, number_events(*start_events()), summary=of_batch))
        assert [listed.id for listed in await log.summaries()] == ["mine"]
        assert [listed.id for listed in await log.summaries("run")] == ["run"]
        item = await log.summary("run")
        assert item is not None
        assert item.batch == "b1"
        hits = (await search(database.path, parse_query("is:batch"), 10)).hits
        assert [hit.session.id for hit in hits] == ["run"]


async def test_a_file_from_before_batches_has_sessions_of_none(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as old:
        old.executescript("".join(MIGRATIONS[:13]))
        old.execute("INSERT INTO sessions (id, created_ms, updated_ms) VALUES ('s', 1, 1)")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 13")
        old.commit()
    async with opened(path) as database:
        log = await Log.open(database)
        assert [(listed.id, listed.batch) for listed in await log.summaries()] == [("s", "")]
        await add_batch(database, ROW)
        assert await batch_rows(database) == [ROW]
