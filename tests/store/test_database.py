"""One writer: what is written together is committed together, and no bad write stops the rest."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from playground.core.errors import StoreBusy, StoreError
from playground.store import database as database_module
from playground.store.database import APPLICATION_ID, Database, Statement
from playground.store.schema import MIGRATIONS

pytestmark = pytest.mark.anyio

TOOL = "INSERT INTO tools (name, body, enabled, updated_ms) VALUES (?, ?, 1, 0)"


@asynccontextmanager
async def opened(path: Path, *, owner: bool = True) -> AsyncIterator[Database]:
    database = await Database.open(path, owner=owner)
    try:
        yield database
    finally:
        await database.close()


async def names(database: Database) -> list[str]:
    return [row[0] for row in await database.rows("SELECT name FROM tools ORDER BY name")]


async def test_a_new_file_is_ours_and_private(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "a.db"
    path.parent.mkdir()
    async with opened(path) as database:
        assert [row[0] for row in await database.rows("PRAGMA journal_mode")] == ["wal"]
        assert path.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert not path.with_name("a.db-wal").exists()


async def test_nothing_that_was_written_is_held(tmp_path: Path) -> None:
    class Rows(list[tuple[str, str]]):
        """That can be looked at weakly."""

    async with opened(tmp_path / "a.db") as database:
        rows = Rows([("a", "{}")])
        rows_ref = weakref.ref(rows)
        await database.write([Statement(TOOL, rows)])
        del rows
        assert await names(database) == ["a"]
        gc.collect()
        assert rows_ref() is None


async def test_a_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path):
        pass
    path.chmod(0o644)
    async with opened(path) as database:
        await database.write([Statement(TOOL, [("a", "{}")])])
        files = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert files == {"a.db": 0o600, "a.db-wal": 0o600, "a.db-shm": 0o600}
    left = [path.with_name(path.name + end) for end in ("-wal", "-shm")]
    for item in (path, *left):
        item.touch()
        item.chmod(0o666)
    async with opened(path, owner=False):
        assert path.stat().st_mode & 0o777 == 0o666  # a reader changes nothing
    async with opened(path):
        assert {path.stat().st_mode & 0o777 for path in (path, *left)} == {0o600}
    with closing(sqlite3.connect(tmp_path / "foreign.db")) as connection:
        connection.execute("CREATE TABLE letters (text)")
    (tmp_path / "foreign.db").chmod(0o644)
    with pytest.raises(StoreError):
        await Database.open(tmp_path / "foreign.db")
    assert (tmp_path / "foreign.db").stat().st_mode & 0o777 == 0o644


async def test_one_bad_write_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    """Whatever it is that cannot be written: the next one is, and so is its neighbour."""
    bad: tuple[Statement, ...] = (
        Statement(TOOL, [("a", "{}")]),
        Statement("INSERT INTO nowhere VALUES (1)", [()]),
        Statement(TOOL, [("half \ud800", "{}")]),
        Statement(TOOL, [(2**70, "{}")]),
        Statement(TOOL, [("too", "many", "values")]),
        Statement("INSERT INTO events (session, seq) VALUES (?, ?)", [("nobody", 1)]),
    )
    async with opened(tmp_path / "a.db") as database:
        await database.write([Statement(TOOL, [("a", "{}")])])
        writes = []
        for place, outcome in enumerate(bad):
            writes.append(database.write([Statement(TOOL, [(f"lost{place}", "{}")]), outcome]))
            writes.append(database.write([Statement(TOOL, [(f"kept{place}", "{}")])]))
        async with asyncio.timeout(30):
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert [isinstance(outcome, StoreError) for outcome in outcomes] == [True, False] * len(bad)
        stored_texts = [f"kept{place}" for place in range(len(bad))]
        assert await names(database) == ["a", *stored_texts]


async def test_a_cancelled_caller_does_not_undo_what_it_queued(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        task = asyncio.create_task(database.write([Statement(TOOL, [("a", "{}")])]))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await database.write([Statement(TOOL, [("b", "{}")])])
        assert await names(database) == ["a", "b"]


async def test_who_comes_after_the_end_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        pass
    with pytest.raises(StoreError, match="closed"):
        await database.write([Statement(TOOL, [("a", "{}")])])


async def test_a_file_locked_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "a.db") as database:
        assert database._writer is not None
        await database._writer.execute("PRAGMA busy_timeout = 50")
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusy) as caught:
                await database.write([Statement(TOOL, [("a", "{}")])])
            assert str(caught.value).endswith(".")
            other.execute("ROLLBACK")
        await database.write([Statement(TOOL, [("b", "{}")])])
        assert await names(database) == ["b"]


async def test_a_reader_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as database:
        await database.write([Statement(TOOL, [("a", "{}")])])
        async with opened(path, owner=False) as reader:
            assert await names(reader) == ["a"]
            with pytest.raises(StoreError):
                await reader.rows("DELETE FROM tools")
    before = path.read_bytes()
    async with opened(path, owner=False) as reader:
        assert await names(reader) == ["a"]
    assert path.read_bytes() == before


async def test_an_older_schema_is_brought_up_with_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    async with opened(path) as database:
        await database.write([Statement(TOOL, [("a", "{}")])])
    before = path.read_bytes()
    steps = (*MIGRATIONS, "CREATE TABLE notes (text);")
    monkeypatch.setattr(database_module, "MIGRATIONS", steps)
    async with opened(path) as database:
        assert await database.rows("SELECT * FROM notes") == []
        assert await names(database) == ["a"]
    assert (tmp_path / f"a.db.v{len(steps) - 1}.backup").read_bytes() == before


async def test_it_is_told_where_bringing_it_up_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, outputs = tmp_path / "a.db", list[str]()
    monkeypatch.setattr(database_module, "PATIENCE_S", 0.0)
    await (await Database.open(path, notify=outputs.append)).close()
    await (await Database.open(path, notify=outputs.append)).close()
    assert outputs == []  # a new file and one of today are no such work
    steps = (*MIGRATIONS, "CREATE TABLE notes (text);")
    monkeypatch.setattr(database_module, "MIGRATIONS", steps)
    await (await Database.open(path, notify=outputs.append)).close()
    assert outputs == [f"Updating the database (schema {len(MIGRATIONS)} to {len(steps)})…"]


async def test_nothing_is_told_of_what_is_soon_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, outputs = tmp_path / "a.db", list[str]()
    monkeypatch.setattr(database_module, "PATIENCE_S", 3600.0)
    await (await Database.open(path)).close()
    monkeypatch.setattr(database_module, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE notes (text);"))
    await (await Database.open(path, notify=outputs.append)).close()
    await asyncio.sleep(0)
    assert outputs == []


async def test_a_step_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.db"
    async with opened(path):
        pass
    steps = (*MIGRATIONS, "CREATE TABLE notes (text); INSERT INTO nowhere VALUES (1);")
    monkeypatch.setattr(database_module, "MIGRATIONS", steps)
    with pytest.raises(StoreError):
        await Database.open(path)
    monkeypatch.setattr(database_module, "MIGRATIONS", MIGRATIONS)
    async with opened(path) as database:
        with pytest.raises(StoreError):
            await database.rows("SELECT * FROM notes")


async def test_rows_never_see_half_a_write(tmp_path: Path) -> None:
    async with opened(tmp_path / "a.db") as database:
        writing = [
            database.write([Statement(TOOL, [(f"{n}{side}", "{}") for side in "ab"])])
            for n in range(50)
        ]
        task = asyncio.gather(*writing)
        while not task.done():
            assert len(await names(database)) % 2 == 0
            await asyncio.sleep(0)
        assert len(await names(database)) == 100
