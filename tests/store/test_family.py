"""Who was forked from whom, also where a parent is gone or two name one another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from playground.core.events import Event, SessionForked, SettingsChanged
from playground.core.serialization import to_row
from playground.store.database import Database, Statement
from playground.store.log import family, forks_of
from tests.factories import settings

pytestmark = pytest.mark.anyio

# id, parent: "gone" was purged; c2 is deleted; x and y came from elsewhere.
SESSIONS = (
    *(("a", ""), ("c1", "a"), ("c2", "a"), ("d", "c1"), ("e", "c2")),
    *(("p", "gone"), ("q", "gone"), ("x", "y"), ("y", "x"), ("alone", "")),
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "f.db")
    for place, (name, parent) in enumerate(SESSIONS):
        deleted = 5 if name == "c2" else None
        row = (name, f"Title {name}", place, place, deleted, parent, 3 if parent else 0)
        await database.write(
            [
                Statement(
                    "INSERT INTO sessions (id, title, created_ms, updated_ms, deleted_ms, parent,"
                    " parent_seq) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [row],
                )
            ]
        )
    events: list[tuple[int, Event]] = [
        (4, SettingsChanged(settings())),
        (5, SessionForked("c1", 3, ("1.0",))),
    ]
    rows = [(seq, "d", seq, 0, *to_row(event)) for seq, event in events]
    sql = "INSERT INTO events (pos, session, seq, at_ms, kind, body) VALUES (?, ?, ?, ?, ?, ?)"
    await database.write([Statement(sql, rows)])
    yield database
    await database.close()


@pytest.mark.parametrize(
    ("session_id", "expected"),
    [
        ("a", ["a", "c1", "d", "e"]),
        ("d", ["a", "c1", "d", "e"]),
        ("c2", ["a", "c1", "c2", "d", "e"]),
        ("p", ["p", "q"]),
        ("x", ["x", "y"]),
        ("alone", ["alone"]),
        ("nobody", []),
    ],
)
async def test_all_of_one_family_are_found(
    database: Database, session_id: str, expected: list[str]
) -> None:
    assert [relative.id for relative in await family(database, session_id)] == expected


async def test_the_forks_of_a_session_say_where_they_begin(database: Database) -> None:
    assert [relative.id for relative in await forks_of(database, "a")] == ["c1"]
    assert await forks_of(database, "") == []
    (item,) = await forks_of(database, "c1")
    assert (item.id, item.parent_seq, item.reopened) == ("d", 3, ("1.0",))
