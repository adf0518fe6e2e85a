"""A large text is stored with few copies in rows of their own, and read and found as any other."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.events import CallDecided, CallEnded, PartDelta, PartEnded, RequestSent, Source
from playground.core.serialization import to_row
from playground.core.tools import Content, ToolResult
from playground.store import log as log_module
from playground.store import writes
from playground.store.database import APPLICATION_ID, Database
from playground.store.log import Log
from playground.store.maintenance import REBUILD, purge, search_differences
from playground.store.schema import INDEXED, MIGRATIONS
from playground.store.writes import CopiedPart, Summary, WriteBatch, long_text, statements
from tests.playbook import call, call_checked, number_events, part, start_events, turn
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

SUMMARY = Summary(
    "s", title="S", created_ms=1, updated_ms=1, state="idle", model="m", calls=0, waiting=0
)


async def indexed(database: Database) -> list[tuple[object, ...]]:
    """Every word of the index, with its places."""
    assert database._writer is not None
    output = "CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, found, instance)"
    await database._writer.execute(output)
    try:
        word_rows = await database._writer.execute_fetchall(
            "SELECT * FROM temp.words ORDER BY 1, 2, 4"
        )
        return [tuple(row) for row in word_rows]
    finally:
        await database._writer.execute("DROP TABLE temp.words")


async def words(database: Database) -> set[tuple[object, object]]:
    """(word, position) of those that are looked at here."""
    word_set = {(row[0], row[1]) for row in await indexed(database)}
    return {row for row in word_set if row[0] in ("early", "middle", "late")}


def shortened(monkeypatch: pytest.MonkeyPatch, large: int, piece: int) -> None:
    for module in (writes, log_module):
        monkeypatch.setattr(module, "LARGE", large)
    monkeypatch.setattr(writes, "PIECE", piece)


async def test_large_texts_are_read_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch, 1, 4)
    events = number_events(*start_events(), *turn(1, *PARTS))
    whole_events = [event for event in events if not isinstance(event.event, PartDelta)]
    kinds = {type(event.event) for event in events if len(long_text(event.event)) > 1}
    assert kinds == {PartEnded, PartDelta, RequestSent}
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", events, summary=SUMMARY))
        child = Summary(
            "t",
            title="T",
            created_ms=1,
            updated_ms=1,
            state="idle",
            model="m",
            calls=0,
            waiting=0,
            parent="s",
            parent_seq=9,
        )
        await log.append(WriteBatch("t", summary=child, copied=CopiedPart("s", 9, 0)))
        assert await log.events("s") == events
        assert await log.events("s", 4, limit=3) == events[4:7]
        assert await log.events_to_fold("s") == whole_events
        assert await log.events("t") == events[:9]
        for session in ("s", "t"):
            await purge(database, session)
        assert (await database.rows("SELECT count(*) FROM rests"))[0][0] == 0


async def test_what_is_shorter_once_read_is_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON makes one of two halves of a character that stand beside each other in a text."""
    shortened(monkeypatch, 4, 4)
    events = number_events(
        *start_events(), *turn(1, part(0, text="\ud83d\ude00\ud83d\ude00 and the rest"))
    )
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", events, summary=SUMMARY))
        ended = [
            event.event for event in await log.events("s") if isinstance(event.event, PartEnded)
        ]
        assert [item.text for item in ended] == ["😀😀 and the rest"]


@pytest.mark.slow
async def test_the_beginning_of_a_long_text_is_indexed(tmp_path: Path) -> None:
    """What one text adds to the index is held in memory until it is written."""
    text = "early " * 10 + "middle " * (INDEXED // 7) + "漢" * writes.LARGE + " late"
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(
            WriteBatch(
                "s", number_events(*start_events(), *turn(1, part(0, text=text))), summary=SUMMARY
            )
        )
        before = await indexed(database)
        assert {word for word, _ in await words(database)} == {"early", "middle"}
        await database.write(REBUILD)
        assert await indexed(database) == before
        assert await search_differences(database) == []
        await purge(database, "s")
        assert await indexed(database) == []


@pytest.mark.slow
async def test_a_long_text_of_an_older_file_is_indexed_anew_and_read(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    events = [PartEnded(0, "early " * (INDEXED // 6) + "late"), PartEnded(1, "small late")]
    with closing(sqlite3.connect(path)) as old:
        old.executescript("".join(MIGRATIONS[:7]))
        old.execute("INSERT INTO sessions (id, created_ms, updated_ms) VALUES ('s', 1, 1)")
        values = "(?, 's', ?, 1, 'part_ended', ?, NULL, NULL, NULL)"
        for place, event in enumerate(events, 1):
            old.execute(f"INSERT INTO events VALUES {values}", (place, place, to_row(event)[1]))
        old.execute("INSERT INTO found (rowid, text) SELECT pos, text FROM texts")
        old.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        old.execute("PRAGMA user_version = 7")
        old.commit()
    async with opened(path) as database:
        assert await words(database) == {("early", 1), ("late", 2)}
        assert [event.event for event in await (await Log.open(database)).events("s")] == events
        await purge(database, "s")
        assert await indexed(database) == []


def test_no_row_holds_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite copies the values of a row, and keeps the last."""
    shortened(monkeypatch, 20, 10)
    events = number_events(
        *start_events(), *turn(1, part(0, text="x" * 100), part(1, text="small"))
    )
    rows = [row for statement in statements(WriteBatch("s", events), 0) for row in statement.rows]
    assert "x" * 20 in str(rows)
    assert "x" * 21 not in str(rows)


async def test_past_calls_have_all_of_their_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposed rule allows nothing that was denied before, however long it was."""
    shortened(monkeypatch, 5, 4)
    arguments = '{"city":"Llanfair\ud83dpwllgwyngyll\udc00"}'  # a model can write half a character
    events = [
        *start_events(),
        *turn(1, call(0, arguments=arguments)),
        call_checked("1.0"),
        CallDecided("1.0", "deny"),
    ]
    events.append(CallEnded("1.0", ToolResult((Content("text", "It is sunny."),))))
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        numbered = [
            replace(logged, source=Source(1, 0, 1))
            if isinstance(logged.event, PartEnded)
            else logged
            for logged in number_events(*events)
        ]
        await log.append(WriteBatch("s", numbered, summary=SUMMARY))
        assert [past_call.arguments for past_call in await log.past_calls("get_weather")] == [
            arguments
        ]
        results = await log.past_results("get_weather", "s")
        assert [result.arguments for result in results] == [arguments]
        assert await log.denied_calls("get_weather", limit=9) == [arguments]
