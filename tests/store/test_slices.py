"""What the bodies of requests repeat is stored once, and each is read as it was sent."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.errors import StoreError
from playground.core.events import Logged, RequestSent
from playground.core.serialization import to_row
from playground.store import slices, writes
from playground.store.database import APPLICATION_ID, Database, Statement
from playground.store.log import Log
from playground.store.maintenance import purge
from playground.store.schema import MIGRATIONS
from playground.store.slices import LONG, SMALL, numbers_of, runs_of, slice_body, spans_over
from playground.store.writes import CopiedPart, Summary, WriteBatch, long_text, with_text
from tests.store.test_database import opened
from tests.store.test_large_texts import shortened

pytestmark = pytest.mark.anyio

SUMMARY = Summary(
    "s", title="S", created_ms=1, updated_ms=1, state="idle", model="m", calls=0, waiting=0
)
HALVES = "\ud83d\ude00 two halves of a character"

TEXTS = st.text(st.characters(), max_size=12) | st.text('ab"\\,:{}[]\n\ud83d\ude00é漢', max_size=90)
LONG_TEXTS = st.builds(lambda text, times: text * times, TEXTS, st.integers(1, 400))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | LONG_TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=20,
)
JSON = st.builds(
    lambda value, ascii_only: json.dumps(value, ensure_ascii=ascii_only), VALUES, st.booleans()
)
BODIES = JSON | LONG_TEXTS | st.just("") | st.just(HALVES)

TOOLS = [
    {"name": f"tool_{n}", "schema": {f"p_{n}_{m}": {"enum": ["a", "b"]} for m in range(9)}}
    for n in range(30)
]


@st.composite
def sequences(draw: st.DrawFn) -> list[str]:
    """Bodies that repeat pieces of earlier ones."""
    bodies = draw(st.lists(BODIES, min_size=1, max_size=4))
    for _ in range(draw(st.integers(0, 5))):
        base = draw(st.sampled_from(bodies))
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(base))] * 2)))
        middle = draw(st.sampled_from(bodies) | BODIES)
        bodies.append(base[:start] + middle + base[draw(st.sampled_from((start, end))) :])
    return bodies


def requests(bodies: Sequence[str], first: int = 1) -> list[Logged]:
    """A request for each of `bodies`, from seq `first` on."""
    sent = RequestSent(
        1, protocol="anthropic", method="POST", url="http://x/v1", headers={}, body="", model="m"
    )
    events = [
        replace(sent, recording=number, body=body, headers={"body": '"', "n": str(number // 3)})
        for number, body in enumerate(bodies, 1)
    ]
    return [Logged(seq, 1000 + seq, event) for seq, event in enumerate(events, first)]


async def rows_of(database: Database, session: str) -> list[tuple[Any, ...]]:
    sql = "SELECT nth, hash, bytes FROM slices WHERE session = ? ORDER BY nth"
    return [tuple(row) for row in await database.rows(sql, (session,))]


async def stored_bytes(database: Database) -> int:
    sql = "SELECT coalesce(sum(length(bytes)), 0) FROM slices"
    return int((await database.rows(sql))[0][0])


@given(BODIES)
def test_slices_joined_are_the_body(body: str) -> None:
    pieces = list(slice_body(body).slices())
    assert "".join(pieces) == body
    assert all(0 < len(piece) <= LONG for piece in pieces)


@given(sequences(), st.sampled_from([(3, 4, 9), (7, 30, 20), (1280, 4096, 65_536)]))
def test_a_body_is_cut_as_if_it_were_the_first(
    bodies: list[str], bounds: tuple[int, int, int]
) -> None:
    """Whatever of the one before was taken over."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in zip(("LONG", "MANY", "COARSE"), bounds, strict=True):
            patch.setattr(slices, name, value)
        patch.setattr(slices, "LEAST", tuple(min(least, bounds[0]) for least in slices.LEAST))
        before = None
        for body in bodies:
            first, before = slice_body(body), slice_body(body, before)
            assert [place.end for place in before.places] == [place.end for place in first.places]
            assert before.hashes == first.hashes


@given(st.lists(st.integers(1, 40)), st.integers(0, 9))
def test_lists_of_numbers_are_read_as_they_were_written(numbers: list[int], gap: int) -> None:
    runs = runs_of(numbers)
    assert list(numbers_of(runs)) == numbers
    spans = spans_over([runs, runs[:2]], gap)
    assert set(numbers) <= {n for first, last in spans for n in range(first, last + 1)}
    assert all(after[0] - before[1] > gap + 1 for before, after in pairwise(spans))


@pytest.mark.anyio
@settings(max_examples=settings().max_examples // 3)
@given(
    sequences(),
    st.integers(0, 9),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=4),
)
async def test_any_bodies_are_read_as_they_were_sent(
    bodies: list[str], forked: int, batches: list[tuple[int, bool]]
) -> None:
    """In batches of any size, and after restarts; a fork has them without its parent, and goes on
    by itself."""
    events = requests(bodies)
    left = list(events)
    forked = min(forked, len(events))
    with tempfile.TemporaryDirectory() as folder:
        async with opened(Path(folder) / "a.db") as database:
            log = await Log.open(database)
            await log.append(WriteBatch("s", summary=SUMMARY))
            for size, restarted in [*batches, (len(left), False)]:
                log = await Log.open(database) if restarted else log
                await log.append(WriteBatch("s", left[:size]))
                del left[:size]
            rows = await rows_of(database, "s")
            assert len({digest for _, digest, _ in rows}) == len(rows), "each is there once"
            assert await log.events("s") == await log.events_to_fold("s") == events
            for after in range(len(events)):
                assert await log.events("s", after, limit=1) == events[after : after + 1]
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
                parent_seq=forked,
            )
            further = requests(bodies[::-1], forked + 1)
            copied = CopiedPart("s", forked, 0)
            await log.append(WriteBatch("t", further[:1], summary=child, copied=copied))
            await purge(database, "s")
            assert await rows_of(database, "s") == []
            await log.append(WriteBatch("t", further[1:]))
            assert await log.events("t") == [*events[:forked], *further]
            await log.append(WriteBatch("s", events, summary=SUMMARY))  # imported again
            assert await log.events("s") == events
            for session in ("s", "t"):
                await purge(database, session)
            assert await stored_bytes(database) == 0


def text(chance: Random, size: int) -> str:
    return "".join(chance.choices('abcdef ,"\n', k=size))


def anthropic(messages: list[str]) -> str:
    """With a marker on the last message, as agents set it, and what does not change behind it."""
    contents: list[dict[str, Any]] = [{"type": "text", "text": message} for message in messages]
    contents[-1]["cache_control"] = {"type": "ephemeral"}
    several = [{"role": "user", "content": [content]} for content in contents]
    return json.dumps({"model": "m", "messages": several, "tools": TOOLS, "stream": True})


def tools_first(messages: list[str]) -> str:
    several = [{"role": "user", "content": message} for message in messages]
    return json.dumps({"tools": TOOLS, "messages": several, "stream": True}, indent=1)


def growing_text(messages: list[str]) -> str:
    return json.dumps({"tools": TOOLS, "prompt": "".join(messages), "stream": True})


def no_json(messages: list[str]) -> str:
    return "x" * 5000 + "".join(messages)


def cut_off(messages: list[str]) -> str:
    return anthropic(messages)[: -len(json.dumps(TOOLS)) // 2] + '"'


@pytest.mark.parametrize("body_of", [anthropic, tools_first, growing_text, no_json, cut_off])
def test_what_is_added_is_stored_and_hardly_more(body_of: Callable[[list[str]], str]) -> None:
    chance = Random(5)
    messages = [text(chance, 900) for _ in range(30)]
    bodies = [body_of(messages[:count]) for count in range(1, len(messages) + 1)]
    numbers: dict[str, int] = {}
    lists = [
        [numbers.setdefault(piece, len(numbers)) for piece in slice_body(body).slices()]
        for body in bodies
    ]
    added = sum(map(len, numbers)) - len(bodies[0])
    assert added < 2 * len("".join(messages)), added
    assert max(len(runs_of(several)) for several in lists) < 2 * len(messages)


def test_what_comes_after_a_rewritten_history_is_known() -> None:
    chance = Random(6)
    messages = [text(chance, 300) for _ in range(60)]
    known = set(slice_body(tools_first(messages)).slices())
    rewritten = tools_first(["A summary of all.", *messages[40:]])
    assert sum(len(piece) for piece in slice_body(rewritten).slices() if piece not in known) < 1000


@pytest.mark.parametrize(
    "body",
    [
        "," * 30_000,
        "[" * 30_000,
        "[1," * 10_000,
        '{"a":[],' * 4000,
        '"' + "\\" * 30_000,
        "x" * 30_000 + '"',
    ],
)
def test_whatever_is_sent_is_cut_into_few_slices(body: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "MANY", 100)
        patch.setattr(slices, "COARSE", 4096)
        pieces = list(slice_body(body).slices())
    assert "".join(pieces) == body
    assert len(pieces) <= 100 + len(body) // 4096 + 1
    assert max(map(len, pieces)) <= 4096


async def test_nothing_is_left_of_a_write_that_failed(tmp_path: Path) -> None:
    """What was to be committed with it is, and what comes after it does not rely on it."""
    tools_body = json.dumps({"tools": TOOLS, "n": 1})
    small, first, second = requests(["{}", tools_body, tools_body[:-2] + ', "more": 2}'])
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        for session in ("s", "t"):
            begun = WriteBatch(session, [small], summary=replace(SUMMARY, id=session))
            await log.append(begun)
        failed, _ = await asyncio.gather(
            log.append(WriteBatch("s", [first, small])),  # there is an event of that number
            log.append(WriteBatch("t", [first])),
            return_exceptions=True,
        )
        assert isinstance(failed, StoreError)
        assert await rows_of(database, "s") == []
        for session, later in (("s", [first, second]), ("t", [second])):
            for event in later:
                await log.append(WriteBatch(session, [event]))
            assert await log.events(session) == [small, first, second]


async def test_a_request_that_cannot_be_read_is_an_error_with_a_sentence(tmp_path: Path) -> None:
    lists = ('[["a", 1]]', "[[1]]", "[1]", "[[1, 1e3]]", "[[1, 99999999999]]", "[{}]")
    damages = [
        "DELETE FROM slices WHERE nth = 3",
        "UPDATE slices SET bytes = x'ff' WHERE nth = 3",
        "UPDATE slices SET bytes = 'text' WHERE nth = 3",
        *(
            f"UPDATE events SET body = json_set(body, '$.body', json('{runs}')) WHERE seq = 1"
            for runs in lists
        ),
        "UPDATE events SET body = json_set(body, '$.headers', json('[[3, 1]]')) WHERE seq = 1",
    ]
    events = requests([json.dumps(TOOLS)])
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        for damage in damages:
            await log.append(WriteBatch(damage, events, summary=replace(SUMMARY, id=damage)))
            sound = await log.events(damage)
            await database.write([Statement(f"{damage} AND session = ?", [(damage,)])])
            with pytest.raises(StoreError, match="seq 1"):
                raise AssertionError((damage, sound == await log.events(damage)))


async def test_requests_of_an_older_file_are_read_beside_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There they stand in their rows, and what is beyond LARGE in `rests`."""
    shortened(monkeypatch, 20_000, 4096)
    path = tmp_path / "old.db"
    tools_json = json.dumps(TOOLS, indent=1)
    old, long, new = requests(
        [tools_json, tools_json * (3 * writes.LARGE // len(tools_json)), tools_json]
    )
    rest = long_text(long.event)[writes.LARGE :]
    stored = with_text(long.event, long_text(long.event)[: writes.LARGE])
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("".join(MIGRATIONS[:10]))
        connection.execute("INSERT INTO sessions (id, created_ms, updated_ms) VALUES ('s', 1, 1)")
        for logged, event in ((old, old.event), (long, stored)):
            row = (logged.seq, logged.seq, logged.at_ms, *to_row(event))
            values = "(?, 's', ?, ?, ?, ?, NULL, NULL, NULL)"
            connection.execute(f"INSERT INTO events VALUES {values}", row)
        connection.execute("INSERT INTO rests VALUES ('s', 2, 0, ?)", (rest.encode(),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 10")
        connection.commit()
    async with opened(path) as database:
        log = await Log.open(database)
        assert await log.events("s") == [old, long]
        await log.append(WriteBatch("s", [new]))
        assert await log.events("s") == await log.events_to_fold("s") == [old, long, new]
        assert 0 < await stored_bytes(database) <= len(tools_json)


async def test_a_short_body_stands_in_its_row(tmp_path: Path) -> None:
    bodies = ["x" * (SMALL - 1), HALVES, "x" * SMALL]
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", requests(bodies), summary=SUMMARY))
        rows = await database.rows("SELECT json_type(body, '$.body') FROM events ORDER BY seq")
        assert [row[0] for row in rows] == ["text", "array", "array"]
        assert await log.events("s") == requests(bodies)
