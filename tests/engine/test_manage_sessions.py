"""Pinned, archived, tagged; and gone for good, but for what a fork still needs."""

from __future__ import annotations

import pytest

from playground.core.errors import BadInput, Conflict, NotFound
from playground.core.rules import Rule
from playground.engine import manage_sessions
from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, fork
from playground.store.database import Statement
from playground.store.maintenance import size
from playground.store.search import parse_query, search
from tests.engines import run_prompt

pytestmark = pytest.mark.anyio

TABLES = ("sessions", "events", "chunks", "recordings", "tags", "called", "shares", "rules")


async def row_counts(engine: Engine, session_id: str) -> dict[str, int]:
    """How many rows of each table name the session."""
    counts = {}
    for table in TABLES:
        column = "id" if table == "sessions" else "session"
        sql = f"SELECT count(*) FROM {table} WHERE {column} = ?"
        counts[table] = (await engine.database.rows(sql, (session_id,)))[0][0]
    return {table: count for table, count in counts.items() if count}


async def search_ids(engine: Engine, text: str) -> list[str]:
    return [
        hit.session.id for hit in (await search(engine.database.path, parse_query(text), 9)).hits
    ]


async def sound(engine: Engine) -> None:
    """The index is whole, and has the texts there are and no others."""
    assert await engine.database.rows("PRAGMA foreign_key_check") == []
    check = Statement("INSERT INTO found (found) VALUES ('integrity-check')", [()])
    await engine.database.write([check])
    indexed = await engine.database.rows("SELECT id FROM found_docsize ORDER BY id")
    texts = await engine.database.rows("SELECT pos FROM texts ORDER BY pos")
    assert [row[0] for row in indexed] == [row[0] for row in texts]


async def test_marks_are_kept_and_shown(engine: Engine) -> None:
    text = (await run_prompt(engine, "What is 2 + 2?")).id
    other = (await run_prompt(engine, "And 3 + 3?")).id
    await manage_sessions.pin(engine, text, on=True)
    assert [row.id for row in await engine.log.pinned_sessions()] == [text]
    assert await manage_sessions.tag(engine, text, [" b  c ", "a", "a", " "]) == ("a", "b c")
    await manage_sessions.archive(engine, other, on=True)
    assert [row.id for row in await engine.log.summaries()] == [text]
    (row,) = await engine.log.pinned_sessions()
    assert (row.pinned, row.archived, row.tags) == (True, False, ("a", "b c"))
    async with engine.sessions.lock_session(text) as live:
        assert (live.pinned, live.tags) == (True, ("a", "b c"))
    await manage_sessions.pin(engine, text, on=False)
    await manage_sessions.archive(engine, other, on=False)
    assert await engine.log.pinned_sessions() == []
    assert [row.id for row in await engine.log.summaries()] == [other, text]
    last = (await engine.log.summaries(limit=1))[0]
    later = await engine.log.summaries(after=(last.updated_ms, last.id))
    assert [row.id for row in later] == [text]
    for tags in (["x" * 41], ["\x00"], [str(n) for n in range(21)]):
        with pytest.raises(BadInput, match="tag"):
            await manage_sessions.tag(engine, text, tags)
    with pytest.raises(NotFound):
        await manage_sessions.pin(engine, "nobody", on=True)


async def test_a_purged_session_is_gone_and_its_fork_has_all(engine: Engine) -> None:
    parent = await run_prompt(engine, "What is 2 + 2?", "calculator")
    place = ForkPlace(seq=parent.seq)
    child = await fork(engine, parent.id, place, title="child")
    second = await fork(engine, child, place, title="second")
    for text in (parent.id, child):
        await engine.rules.add(text, Rule("calculator", "run", here=text), ())
    assert {"rules"} <= {*await row_counts(engine, parent.id)}
    bytes_before = await engine.log.chunks(child)
    assert bytes_before
    assert bytes_before == await engine.log.chunks(second)
    (engine.files / parent.id).mkdir(parents=True)
    with pytest.raises(Conflict, match="Delete it first"):
        await manage_sessions.purge(engine, [parent.id])
    await engine.runner.delete(parent.id)
    assert await manage_sessions.sessions_in_bin(engine) == [parent.id]
    await manage_sessions.purge(engine, [parent.id])
    assert await row_counts(engine, parent.id) == {}
    assert [len(engine.rules.rules_of(text)) for text in (parent.id, child)] == [0, 1]
    assert not (engine.files / parent.id).exists()
    with pytest.raises(NotFound):
        async with engine.sessions.lock_session(parent.id):
            pass
    for text in (child, second):
        assert await engine.log.chunks(text) == bytes_before
    assert parent.id not in await search_ids(engine, "2")
    assert set(await search_ids(engine, "2")) == {child, second}
    await sound(engine)
    await engine.runner.delete(child)
    await manage_sessions.purge(engine, [child])
    assert await engine.log.chunks(second) == bytes_before
    await engine.runner.delete(second)
    await manage_sessions.purge(engine, [second])
    assert [await row_counts(engine, text) for text in (child, second)] == [{}, {}]
    (chunks,) = await engine.database.rows("SELECT count(*) FROM chunks")
    assert chunks[0] == 0
    now = await size(engine.database)
    assert (now.sessions, now.events, now.recordings, now.free) == (0, 0, 0, 0)
    await sound(engine)
