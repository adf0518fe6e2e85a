"""Excerpts: what was found is marked, within the time there is."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from app.store.excerpts import BEGIN, END, excerpts, pieces
from app.store.query import Piece
from tests.tables import each_row


def test_each_text_is_marked_by_its_position_until_the_time_is_over() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE texts (pos INTEGER PRIMARY KEY, text TEXT)")
        some = [(3, "a Café <b>"), (5, None), (7, "no"), (9, "cafe " * 30)]
        connection.executemany("INSERT INTO texts VALUES (?, ?)", some)
        found = excerpts(connection, '"cafe"*', [9, 7, 5, 4, 3], float("inf"))
        assert list(found) == [3, 9]
        assert found[3] == [Piece("a ", False), Piece("Café", True), Piece(" <b>", False)]
        assert found[9][-1] == Piece("…", False)
        assert excerpts(connection, '"cafe"*', [3], 0.0) == {}


@each_row(
    ("text", "found"),
    [
        ("a", [Piece("a", False)]),
        (f"a {BEGIN}b{END} c", [Piece("a ", False), Piece("b", True), Piece(" c", False)]),
        (f"{BEGIN}b{END}", [Piece("b", True)]),
        (f"{END}a{BEGIN}", [Piece("a", False)]),
        (f"{BEGIN}{BEGIN}b{END}{END}", [Piece("b", True)]),
        ("", []),
    ],
)
def test_marks_stand_around_what_was_found(text: str, found: list[Piece]) -> None:
    assert pieces(text.encode()) == found
