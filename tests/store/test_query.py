"""What is typed into the search box, as a value: nothing is an error."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.store.search import KEYS, LONGEST, WORDS, SearchQuery, parse_query

NEW_YEAR = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
DAY = 86_400_000

CASES = {
    "": SearchQuery(),
    "  two words ": SearchQuery(words=("two", "words")),
    '"of the" plain': SearchQuery(words=("plain",), phrases=("of the",)),
    'open "end': SearchQuery(words=("open",), phrases=("end",)),
    'tool:get_weather model:"claude 4" tag:a tag:b': SearchQuery(
        tools=("get_weather",), models=("claude 4",), tags=("a", "b")
    ),
    "state:FAILED is:pinned is:fork": SearchQuery(states=("failed",), marks=("pinned", "fork")),
    "after:2026-01-01 before:2026-01-02": SearchQuery(after_ms=NEW_YEAR, before_ms=NEW_YEAR + DAY),
    "after:2026 before:2026-02": SearchQuery(after_ms=NEW_YEAR, before_ms=NEW_YEAR + 31 * DAY),
    "http://host name:x": SearchQuery(words=("http://host", "name:x")),
    "100% !!! '' * \" \"": SearchQuery(words=("100%",), signs=("!!!", "''", "*")),
    "a\x00b\x1fc": SearchQuery(words=("a", "b", "c")),
    "\ud800x": SearchQuery(words=("?x",)),
    "x" * 10_000: SearchQuery(words=("x" * LONGEST,)),
}


@pytest.mark.parametrize("text", CASES, ids=lambda text: repr(text[:30]))
def test_what_is_meant(text: str) -> None:
    assert parse_query(text) == CASES[text]


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("tool:", "tool: needs a value"),
        ("after:soon", "after: expects a date"),
        ("before:2026-13-01", "before: expects a date"),
        ("state:asleep", "state: expects idle, running"),
        ("is:new", "is: expects pinned"),
        (" ".join(["word"] * (WORDS + 1)), f"Only the first {WORDS} words"),
    ],
)
def test_what_has_no_sense_is_said_and_left_out(text: str, output: str) -> None:
    search_query = parse_query(text)
    assert [note[: len(output)] for note in search_query.notes] == [output]
    assert not search_query.narrows
    assert len(search_query.words) in (0, WORDS)


@settings(derandomize=True, deadline=None)
@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE found USING fts5 (text)")
        yield connection


@settings(max_examples=settings().max_examples // 2)
@given(
    some=st.lists(
        st.one_of(
            st.sampled_from(
                ['"', "*", "NEAR(", "AND", "OR", "NOT", "^", "+", "{text}:", "--", "'"]
            ),
            st.sampled_from([f"{key}:" for key in KEYS]),
            st.text(max_size=8),
        ),
        max_size=12,
    )
)
def test_whatever_is_typed_the_index_takes_it(index: sqlite3.Connection, some: list[str]) -> None:
    for text in ("".join(some), " ".join(some)):
        if (search_query := parse_query(text)).match:
            rows = index.execute("SELECT 1 FROM found WHERE found MATCH ?", (search_query.match,))
            assert rows.fetchall() == []
