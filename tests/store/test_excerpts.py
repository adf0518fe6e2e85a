"""Excerpts: what was found is marked, within the time there is."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from playground.store.search import BEGIN, END, ExcerptPart, excerpt_parts, excerpts


def test_each_text_is_marked_by_its_position_until_the_time_is_over() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE texts (pos INTEGER PRIMARY KEY, text TEXT)")
        some = [(3, "a Café <b>"), (5, None), (7, "no"), (9, "cafe " * 30)]
        connection.executemany("INSERT INTO texts VALUES (?, ?)", some)
        result = excerpts(connection, '"cafe"*', [9, 7, 5, 4, 3], float("inf"))
        assert list(result) == [3, 9]
        assert result[3] == [
            ExcerptPart("a ", False),
            ExcerptPart("Café", True),
            ExcerptPart(" <b>", False),
        ]
        assert result[9][-1] == ExcerptPart("…", False)
        assert excerpts(connection, '"cafe"*', [3], 0.0) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [ExcerptPart("a", False)]),
        (
            f"a {BEGIN}b{END} c",
            [ExcerptPart("a ", False), ExcerptPart("b", True), ExcerptPart(" c", False)],
        ),
        (f"{BEGIN}b{END}", [ExcerptPart("b", True)]),
        (f"{END}a{BEGIN}", [ExcerptPart("a", False)]),
        (f"{BEGIN}{BEGIN}b{END}{END}", [ExcerptPart("b", True)]),
        ("", []),
    ],
)
def test_marks_stand_around_what_was_found(text: str, expected: list[ExcerptPart]) -> None:
    assert excerpt_parts(text.encode()) == expected
