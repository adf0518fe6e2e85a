"""A large text is written with few copies, and all the same is found as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.events import Logged
from app.store import batch
from app.store.batch import Batch, Summary, statements
from app.store.database import Database, Statement
from app.store.log import Log
from app.store.purge import purge
from tests.playbook import begun, logged, part, turn
from tests.store.test_database import opened

pytestmark = pytest.mark.anyio

TEXTS = [
    "plain words, twice: plain words",
    'quoted "words", a back\\slash, \n a new line and \x02',
    "naïve Ünïcödé 漢字 emoji 😀 and 👩‍🔬",
    "before\0after a NUL",
    "half\ud800a character, \udc00 and the other half; sw\ud83dapped",
]
PARTS = [
    part(number, text=text, name="get_weather" if number >= len(TEXTS) else "")
    for number, text in enumerate([*TEXTS, *TEXTS])
]


async def indexed(database: Database) -> list[tuple[object, ...]]:
    """Every word of the index, with its places."""
    assert database._writer is not None
    made = "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, found, instance)"
    await database._writer.execute(made)
    try:
        rows = await database._writer.execute_fetchall("SELECT * FROM temp.words ORDER BY 1, 2, 4")
        return [tuple(row) for row in rows]
    finally:
        await database._writer.execute("DROP TABLE temp.words")


async def test_large_texts_are_indexed_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[int, list[tuple[object, ...]]] = {}
    for large in (10**9, 1):
        monkeypatch.setattr(batch, "LARGE", large)
        async with opened(tmp_path / f"{large}.db") as database:
            log = await Log.open(database)
            summary = Summary("s", "S", 1, 1, "idle", "m", 0, 0)
            events = logged(*begun(), *turn(1, *PARTS))
            await log.append(Batch("s", events, summary=summary))
            found[large] = await indexed(database)
            stored = [one.event for one in await log.events("s")]
            assert stored == [one.event for one in events]
            await purge(database, "s")
            assert await indexed(database) == []
    assert len(found[1]) > 40
    assert found[1] == found[10**9]


async def test_a_row_is_made_when_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row holds its event once more, so there is one of them at a time."""
    made: list[int] = []
    row = batch._row

    def counted(session: str, position: int, item: Logged) -> tuple[object, ...]:
        made.append(position)
        return row(session, position, item)

    monkeypatch.setattr(batch, "_row", counted)
    events = logged(*begun(), *turn(1))
    (statement,) = (one for one in statements(Batch("s", events), 0) if "INTO events" in one.sql)
    assert made == []
    assert len(statement.rows) == len(events)
    assert [one[0] for one in statement.rows] == made == list(range(1, len(events) + 1))


def test_what_is_bound_last_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite keeps the values that a statement was last executed with."""
    monkeypatch.setattr(batch, "LARGE", 100)
    events = logged(*begun(), *turn(1, part(0, text="x" * 100)))
    said: list[Statement] = statements(Batch("s", events), 0)
    (large,) = (one for one in said if "x" * 100 in [value for row in one.rows for value in row])
    assert list(large.rows)[-1] == (None, "")
