"""Sessions are found by what was said in them, by their titles and by what they are."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from playground.core.events import Event, PromptAdded
from playground.core.serialization import EVENTS, from_row
from playground.store import log as marks
from playground.store.database import Database
from playground.store.log import Log
from playground.store.search import (
    TEXTS,
    SearchResult,
    _positions_inside,
    choices,
    parse_query,
    search,
    search_in_thread,
)
from playground.store.writes import CopiedPart, Summary, WriteBatch, is_searched
from tests.playbook import (
    call,
    call_checked,
    number_events,
    part,
    run,
    run_call,
    start_events,
    turn,
)
from tests.store.test_database import opened

pytestmark = pytest.mark.anyio
ROWS = Path(__file__).resolve().parents[1] / "public_surface/rows.jsonl"
DAY = 86_400_000
YEAR = 1_767_225_600_000  # 2026-01-01


def says(prompt: str, answer: str = "hi") -> list[Event]:
    return [*start_events(), PromptAdded(prompt), *turn(1, part(0, "text", answer))]


async def append_session(
    log: Log, name: str, events: list[Event], at_ms: int, **changes: object
) -> None:
    summary = Summary(
        name,
        title=name.title(),
        created_ms=at_ms,
        updated_ms=at_ms,
        state="idle",
        model="m-1",
        calls=0,
        waiting=0,
        profile="p",
    )
    values = {**vars(summary), **changes}
    await log.append(WriteBatch(name, number_events(*events), summary=Summary(**values)))


@pytest.fixture(scope="module")
async def database(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Database]:
    async with opened(tmp_path_factory.mktemp("search") / "a.db") as database:
        log = await Log.open(database)
        await append_session(log, "old", says("Refund the naïve customer", "Refunded twice"), YEAR)
        tool = [*start_events(), *turn(1, part(0), call(1)), call_checked("1.1"), run("1.1")]
        tool += run_call("1.1", "a <b>refund</b> of 5 & more")
        await append_session(log, "tool", tool, YEAR + DAY, state="failed", model="m-2")
        await append_session(
            log, "odd", says("lone \ud800 surrogate \x02 mark"), YEAR + 2 * DAY, own=False
        )
        copied = CopiedPart("old", 4, 1)
        fork = Summary(
            "fork",
            title="Refund it",
            created_ms=YEAR,
            updated_ms=YEAR + 3 * DAY,
            state="idle",
            model="m-1",
            calls=0,
            waiting=0,
            parent="old",
        )
        await log.append(WriteBatch("fork", summary=fork, copied=copied))
        await marks.pin(database, "tool", 1)
        await marks.archive(database, "odd", 1)
        await marks.set_tags(database, "old", ["a b", "x"])
        await append_session(log, "gone", says("Refund nothing"), YEAR)
        await log.mark_deleted("gone", 1)
        yield database


async def ids(database: Database, text: str) -> list[str]:
    search_result = await search(database.path, parse_query(text), 50)
    assert (search_result.cut, search_result.more) == (False, False)
    return [hit.session.id for hit in search_result.hits]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("refund", ["fork", "tool", "old"]),  # a title first, then newest text first
        ("REFU", ["fork", "tool", "old"]),
        ("customer refund", ["fork", "old"]),
        ('"the naive customer"', ["fork", "old"]),
        ('"refund customer"', []),
        ("fund", ["fork"]),  # inside of a word: titles alone
        ("surrogate", ["odd"]),
        ("qqq", []),
        ("%", []),
        ("_ is:pinned", []),
        ("NEAR( AND * refund", []),
        ("refund model:M-2", ["tool"]),
        ("refund state:failed tag:x", []),
        ('refund tag:"a b"', ["old"]),
        ("refund is:fork", ["fork"]),
        ("refund is:deleted", ["gone"]),
        ("refund after:2026-01-02 before:2026-01-03", ["tool"]),
        ("is:pinned", ["tool"]),
        ("is:archived is:foreign", ["odd"]),
        ("is:deleted", ["gone"]),
        ("profile:p", ["odd", "tool", "old"]),
        ("before:2026-01-02", ["old"]),
        ("model:nothing", []),
        ("", ["fork", "odd", "tool", "old"]),
    ],
)
async def test_what_is_found(database: Database, text: str, expected: list[str]) -> None:
    assert await ids(database, text) == expected


async def test_tools_are_found_by_name_and_narrow(database: Database) -> None:
    (name,) = choices(database.path)["tool"]
    assert await ids(database, f"tool:{name}") == ["tool"]
    assert "tool" in await ids(database, name)
    assert choices(database.path) == {
        **{"model": ["m-1", "m-2"], "profile": ["p"]},
        **{"tool": [name], "tag": ["a b", "x"]},
    }


async def test_a_hit_says_where_it_is_and_marks_what_was_found(database: Database) -> None:
    (hit,) = (await search(database.path, parse_query("5 more"), 5)).hits
    assert (hit.session.id, hit.kind, hit.place) == ("tool", "call_ended", "call-1-1")
    marked = "".join(
        f"[{excerpt_part.text}]" if excerpt_part.marked else excerpt_part.text
        for excerpt_part in hit.excerpt
    )
    assert marked == "a <b>refund</b> of [5] & [more]"
    (odd,) = (await search(database.path, parse_query("surrogate"), 5)).hits
    assert odd.place == "prompt-2"
    assert "�" in "".join(item.text for item in odd.excerpt)


async def test_it_says_that_there_is_more_and_that_it_was_cut(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_result = await search(database.path, parse_query("refund"), 2)
    assert [hit.session.id for hit in search_result.hits] == ["fork", "tool"]
    assert search_result.more
    monkeypatch.setattr("playground.store.search.STEPS", 1)
    assert search_in_thread(database.path, parse_query("refund"), 2, limit_s=-1.0) == SearchResult(
        [], cut=True
    )


async def test_few_and_many_sessions_find_the_same(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ("refund model:m", "refund before:2027 is:fork", "refund tag:x", "hi profile:p")
    few = [await ids(database, text) for text in texts]
    monkeypatch.setattr("playground.store.search.FEW", 0)
    assert [await ids(database, text) for text in texts] == few
    monkeypatch.setattr("playground.store.search.LOOKED_UP", 0)
    assert [await ids(database, text) for text in texts] == few


@pytest.mark.parametrize("limits", [{}, {"LOOKED_THROUGH": 1}, {"KNOWN": 0, "FEW": 0}, {"FEW": 0}])
@pytest.mark.parametrize("text", ["refund tag:x", "refund model:m", "refund tool:get_weather"])
async def test_bounds_of_the_work_change_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], text: str
) -> None:
    search_result = await search(database.path, parse_query(text), 50)
    for name, value in limits.items():
        monkeypatch.setattr(f"playground.store.search.{name}", value)
    again = await search(database.path, parse_query(text), 50)
    assert search_result.hits
    assert again == search_result


@pytest.mark.parametrize(
    ("text", "most"), [("refund model:m", 1), ("refund", 1), ("refunded tag:x", 1)]
)
async def test_the_index_is_asked_once_however_many_are_found(
    database: Database, monkeypatch: pytest.MonkeyPatch, text: str, most: int
) -> None:
    """To ask it costs the more the commoner a word is; once for each hit was half a second."""
    requests: list[str] = []

    def connect(path: str, **options: object) -> sqlite3.Connection:
        connection = sqlite3.connect(path, uri=True)
        connection.set_trace_callback(requests.append)
        return connection

    monkeypatch.setattr("playground.store.search.sqlite3", SimpleNamespace(**vars(sqlite3)))
    monkeypatch.setattr("playground.store.search.sqlite3.connect", connect)
    assert (await search(database.path, parse_query(text), 50)).hits
    assert sum("found MATCH" in text for text in requests) == most


async def test_sessions_that_ran_at_the_same_time_keep_apart(database: Database) -> None:
    """The positions of the one lie within those of the other."""
    assert list(_positions_inside([9, 7, 5, 3, 1], [(2, 6), (4, 5), (9, 9)])) == [9, 5, 3]
    assert list(_positions_inside([9, 1], [])) == []


def test_the_events_that_are_searched_are_those_of_the_view() -> None:
    lines = ROWS.read_text("utf-8").splitlines()
    rows = [row for table, row in map(json.loads, lines) if table == "events"]
    events = [from_row(row["kind"], row["body"]) for row in rows if row["kind"] in EVENTS]
    assert {type(event) for event in events} == set(EVENTS.values())
    for event, row in zip(events, (row for row in rows if row["kind"] in EVENTS), strict=True):
        assert is_searched(event) == (f"'{row['kind']}'" in TEXTS), row["kind"]
