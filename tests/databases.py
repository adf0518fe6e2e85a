"""Database files for tests: an empty one, and one of an older schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from playground.store.database import APPLICATION_ID, Database
from playground.store.schema import MIGRATIONS

_empty_file: list[bytes] = []
"""The bytes of an empty database, once made: to make one takes longer than most tests."""


async def create_empty_database(path: Path) -> None:
    """The file that `Engine.open` would make at `path`; a file that is there stays as it is."""
    if path.exists():
        return
    if not _empty_file:
        await (await Database.open(path)).close()
        _empty_file.append(path.read_bytes())
    else:
        path.write_bytes(_empty_file[0])


def downgrade_database(path: Path, *changes: str) -> None:
    """Make the file at `path`, which nobody has open, one of schema 6, with `changes` in SQL: what
    later steps have no place for in it is left out."""
    old = path.with_name("old.db")
    with closing(sqlite3.connect(path)) as connection:
        for sql in changes:
            connection.execute(sql)
        connection.commit()
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript("".join(MIGRATIONS[:6]))
        connection.execute("ATTACH ? AS later", (str(path),))
        kinds = "type = 'table' AND name NOT GLOB 'found*' AND name NOT GLOB 'sqlite_*'"
        names = f"SELECT name FROM main.sqlite_master WHERE {kinds}"
        for (table,) in connection.execute(names).fetchall():
            columns = ", ".join(
                row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")
            )
            rows = f"SELECT {columns} FROM later.{table}"
            connection.execute(f"INSERT INTO main.{table} ({columns}) {rows}")
        connection.execute("INSERT INTO found (rowid, text) SELECT pos, text FROM texts")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 6")
        connection.commit()
    old.replace(path)
