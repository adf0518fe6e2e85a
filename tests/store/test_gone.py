"""A database whose file is deleted, replaced or made read-only while it is open."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from playground.core.errors import Conflict, StoreBusy, StoreError, StoreGone, StoreUnwritable
from playground.core.events import PromptAdded
from playground.engine.engine import Engine
from playground.store import database as database_module
from playground.store.database import Database, OwnerLock, lock_path, owner_of
from playground.store.log import Log
from tests.engine.test_verify import found_in
from tests.engines import StartEngine, create_session, run_engine, run_prompt
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def frequent_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "PROBE_S", 0.01)


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for item in path.parent.glob(path.name + "*"):
        item.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def move_back(path: Path) -> None:
    path.with_name("elsewhere.db").rename(path)


def replace(path: Path) -> None:
    move(path)
    path.write_bytes(b"not ours")


def put_back(path: Path) -> None:
    path.unlink()
    move_back(path)


def lock_up(path: Path) -> None:
    path.chmod(0o400)


def unlock(path: Path) -> None:
    path.chmod(0o600)


async def well(engine: Engine) -> None:
    sessions = engine.sessions
    while sessions.health.trouble:
        await sessions.wait(sessions.position, sessions.list_version, 40)


async def prompts(engine: Engine, session_id: str) -> int:
    log = await engine.log.events(session_id)
    return sum(isinstance(logged.event, PromptAdded) for logged in log)


@pytest.mark.parametrize(
    ("harm", "heal", "word"),
    [
        (move, move_back, "deleted or moved"),
        (replace, put_back, "was replaced by another file"),
        (lock_up, unlock, "read-only"),
    ],
)
async def test_it_is_noticed_at_the_next_write_and_passes(
    tmp_path: Path,
    harm: Callable[[Path], None],
    heal: Callable[[Path], None],
    word: str,
    start_engine: StartEngine,
) -> None:
    path = tmp_path / "test.db"
    engine = await start_engine()
    session = await run_prompt(engine, "hello")
    harm(path)
    with pytest.raises(StoreUnwritable, match=word):
        await engine.runner.prompt(session.id, "lost")
    assert path.exists() is (harm is not move)
    assert harm is not replace or path.read_bytes() == b"not ours"
    assert (await wait_while_running(engine, session.id)).state == "idle"  # it can still be read
    if harm is not move:
        with pytest.raises((Conflict, StoreUnwritable)):
            await engine.write_anew()
    heal(path)
    await well(engine)
    await engine.runner.prompt(session.id, "kept")
    await wait_while_running(engine, session.id)
    assert await prompts(engine, session.id) == 2
    assert (await found_in(engine.database, mending=True))[1] == []


@pytest.mark.parametrize(
    ("harm", "heal", "word"),
    [(move, move_back, "deleted or moved"), (lock_up, unlock, "read-only")],
)
async def test_it_is_noticed_where_nothing_is_written(
    tmp_path: Path,
    harm: Callable[[Path], None],
    heal: Callable[[Path], None],
    word: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database_module, "LOOK_S", 0.01)
    path = tmp_path / "test.db"
    async with asyncio.timeout(40), run_engine(tmp_path) as engine:
        sessions = engine.sessions
        for _ in range(2):
            harm(path)
            while sessions.health.trouble is None:
                await sessions.wait(sessions.position, sessions.list_version, 40)
            assert word in str(sessions.health.trouble)
            heal(path)
            await well(engine)
        assert (await run_prompt(engine, "hello")).state == "idle"


@pytest.mark.parametrize("harm", [delete, delete_all])
async def test_what_was_deleted_is_written_anew(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "test.db"
    async with run_engine(tmp_path) as engine:
        ids = [(await run_prompt(engine, "What is 17 * 23?", "calculator")).id for _ in range(2)]
        engine.lock.tell("http://127.0.0.1:1")
        before = [await engine.log.events(item_id) for item_id in ids]
        with pytest.raises(Conflict, match="exists"):
            await engine.write_anew()
        harm(path)
        with pytest.raises(StoreGone):
            await create_session(engine)
        assert not path.exists()
        await engine.write_anew()
        with pytest.raises(Conflict):
            await engine.write_anew()
        assert engine.sessions.health.trouble is None
        assert (path.stat().st_mode & 0o777, path.stat().st_nlink) == (0o600, 1)
        assert [await engine.log.events(item_id) for item_id in ids] == before
        session = await run_prompt(engine, "hello again")
        with pytest.raises(StoreBusy):
            OwnerLock(path).take()
        owner = owner_of(path)
        assert owner is not None
        assert owner.url == "http://127.0.0.1:1"
        assert sorted(path.name for path in tmp_path.glob("test.db*")) == [
            "test.db", "test.db-shm", "test.db-wal", lock_path(path).name,
        ]  # fmt: skip
    async with run_engine(tmp_path) as engine:
        assert [await engine.log.events(item_id) for item_id in ids] == before
        assert (await wait_while_running(engine, session.id)).state == "idle"
        assert (await found_in(engine.database, mending=True))[1] == []


async def test_a_copy_is_not_written_beside_a_new_owner(
    tmp_path: Path, start_engine: StartEngine
) -> None:
    path = tmp_path / "test.db"
    engine = await start_engine()
    await run_prompt(engine, "hello")
    delete_all(path)
    other = OwnerLock(path)
    other.take()
    try:
        with pytest.raises(StoreBusy):
            await engine.write_anew()
    finally:
        other.release()
    assert not path.exists()
    with pytest.raises(StoreError):
        await create_session(engine)
    await engine.write_anew()


async def test_a_write_ahead_log_that_was_deleted_loses_nothing(tmp_path: Path) -> None:
    """SQLite goes on with what it has open; killed then, all since the last start would be gone."""
    path = tmp_path / "test.db"
    async with run_engine(tmp_path) as engine:
        session = await run_prompt(engine, "hello")
        for end in ("-wal", "-shm"):
            path.with_name("test.db" + end).unlink()
        await engine.runner.prompt(session.id, "more")
        await wait_while_running(engine, session.id)
        log = await engine.log.events(session.id)
        for end in ("", "-wal"):  # as a killed program leaves it
            shutil.copy(path.with_name("test.db" + end), tmp_path / ("killed.db" + end))
    killed = await Database.open(tmp_path / "killed.db")
    try:
        assert await (await Log.open(killed)).events(session.id) == log
        assert (await found_in(killed, mending=True))[1] == []
    finally:
        await killed.close()
