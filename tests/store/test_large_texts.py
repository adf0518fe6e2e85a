"""A large text is written with few copies, and all the same is found as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.rows import to_row
from app.store import batch
from app.store.batch import Batch, Summary, statements
from app.store.database import Database
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


def test_no_row_holds_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite copies the values of a row, and keeps the last; a late text is made when it is asked
    for."""
    monkeypatch.setattr(batch, "LARGE", 100)
    large = "x" * 100
    events = logged(*begun(), *turn(1, part(0, text=large), part(1, text="small")))
    made: list[str] = []
    for statement in statements(Batch("s", events), 0):
        assert large not in str(statement.rows)
        made += [text() for text in statement.texts.values()]
    bodies = [to_row(one.event)[1] for one in events if large in str(one.event)]
    assert made == [*bodies, large]
