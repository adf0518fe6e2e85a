"""Deltas, and pieces of a recording, that share a row are read as they were written, one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from playground.core.errors import StoreError
from playground.core.events import (
    Event,
    Logged,
    PartDelta,
    PartEnded,
    ResponseEnded,
    Source,
    Usage,
    Warned,
)
from playground.core.reducer import fork_prefix
from playground.core.serialization import to_row
from playground.store import log as log_module
from playground.store import writes
from playground.store.database import Database, Statement
from playground.store.log import Log
from playground.store.maintenance import purge, search_differences
from playground.store.writes import Chunk, CopiedPart, Summary, WriteBatch
from tests.playbook import call, call_checked, failed, number_events, part, start_events, turn
from tests.store.test_database import opened

pytestmark = pytest.mark.anyio

TEXTS = ("", " Paris", 'a "quoted" \\ one', "漢字 😀", "\ud83d", "\ude00", "\n\0", "long " * 9)
SUMMARY = Summary(
    "s", title="S", created_ms=1, updated_ms=1, state="idle", model="m", calls=0, waiting=0
)


def some_events(chance: Random, count: int) -> list[Logged]:
    """Deltas of several parts and recordings, out of order in time and space, between others; here
    and there one is missing, as in a damaged file."""
    events, recording = list[Logged](), 0
    for seq in sorted(chance.sample(range(1, 62), count)):
        event: Event = PartDelta(chance.randrange(3), chance.choice(TEXTS))
        if not chance.randrange(6):
            others = (PartEnded(0, "word"), ResponseEnded("stop", "", Usage()), Warned("a", "b"))
            event = chance.choice(others)
        recording += not chance.randrange(9)
        start = chance.randrange(10**6)
        source = Source(recording, start, start + chance.randrange(99))
        at_ms = 1_790_000_000_000 + chance.randrange(-50, 1000)
        events.append(Logged(seq, at_ms, event, source if recording % 3 else None))
    return events


def some_chunks(chance: Random, count: int) -> list[Chunk]:
    """Pieces of several recordings, here and there with a gap, as a damaged file may have them."""
    chunks = list[Chunk]()
    recording = end = 1
    for _ in range(count):
        if not chance.randrange(9):
            recording, end = recording + 1, 0
        data = chance.randbytes(chance.choice((1, 3, 20, 70)))
        chunks.append(Chunk(recording, end, chance.randrange(1000), data))
        end += len(data) + (not chance.randrange(9))
    return chunks


def old_rows(
    session: str, first: int, events: list[Logged], chunks: list[Chunk]
) -> list[Statement]:
    """As they were written before any of them shared a row."""
    rows = [
        (place, session, logged.seq, logged.at_ms, *to_row(logged.event), *_span(logged))
        for place, logged in enumerate(events, first)
    ]
    names = "session, recording, start, at_ms, bytes"
    pieces = [(session, chunk.recording, chunk.start, chunk.at_ms, chunk.data) for chunk in chunks]
    return [
        Statement(f"INSERT INTO events VALUES ({', '.join('?' * 9)})", rows),
        Statement(f"INSERT INTO chunks ({names}) VALUES (?, ?, ?, ?, ?)", pieces),
    ]


def _span(logged: Logged) -> tuple[int | None, ...]:
    source = logged.source
    return (source.recording, source.start, source.end) if source is not None else (None,) * 3


async def write(log: Log, session: str, seed: int) -> tuple[list[Logged], list[Chunk]]:
    """A session in batches of any size, some of them as an older version wrote them."""
    chance = Random(seed)
    events, chunks = some_events(chance, 55), some_chunks(chance, 40)
    await log.append(WriteBatch(session, summary=replace(SUMMARY, id=session)))
    left, pieces = list(events), list(chunks)
    while left or pieces:
        some, those = chance.choice((1, 2, 5, 30)), chance.choice((0, 1, 4, 30))
        given, data = left[:some], pieces[:those]
        del left[:some], pieces[:those]
        if chance.randrange(3):
            await log.append(WriteBatch(session, given, data))
        else:
            first, log.position = log.position + 1, log.position + len(given)
            await log.database.write(old_rows(session, first, given, data))
    return events, chunks


async def rows_of(database: Database, table: str, session: str) -> int:
    sql = f"SELECT count(*) FROM {table} WHERE session = ?"
    return int((await database.rows(sql, (session,)))[0][0])


async def test_what_was_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every way of reading, whatever the batches and the bounds of a row; old rows among new."""
    monkeypatch.setattr(log_module, "PORTION", 2)
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        for seed in range(6):
            session = f"session {seed}"
            monkeypatch.setattr(writes, "MOST", (2, 4, 256)[seed % 3])
            monkeypatch.setattr(writes, "SIZE", (30, 65_536)[seed % 2])
            events, chunks = await write(log, session, seed)
            for after in range(-1, 62):
                later = [event for event in events if event.seq > after]
                assert await log.events(session, after) == later, (seed, after)
                limit = after % 8
                assert await log.events(session, after, limit=limit) == later[:limit]
            whole_events = [event for event in events if not isinstance(event.event, PartDelta)]
            assert await log.events(session, deltas=False) == whole_events
            ended = max(
                (o.seq for o in whole_events if isinstance(o.event, ResponseEnded)), default=0
            )
            opening = [event for event in events if event in whole_events or event.seq > ended]
            assert await log.events_to_fold(session) == opening
            await _compare_chunks(log, session, chunks)
            assert await rows_of(database, "events", session) < len(events)
        assert (await Log.open(database)).position == log.position == 6 * 55


async def _compare_chunks(log: Log, session: str, chunks: list[Chunk]) -> None:
    assert await log.chunks(session) == chunks
    size = 0
    for number in {chunk.recording for chunk in chunks}:
        own = [chunk for chunk in chunks if chunk.recording == number]
        assert await log.chunks(session, number) == own
        portions = [portion async for portion in log.portions(session, number)]
        assert [chunk for portion in portions for chunk in portion] == own
        size += own[-1].start + len(own[-1].data)
    assert await log.recorded_size(session) == size


async def test_a_fork_and_its_heir_have_the_whole_of_it(tmp_path: Path) -> None:
    """No fork begins within a row; and the bytes go to the fork when its parent is purged."""
    answers = [*turn(1, part(0), call(1)), call_checked("1.1"), *failed(2, part(0))]
    events = number_events(
        *start_events(), *(letter for event in answers for letter in _letters(event))
    )
    chunks = [Chunk(1, place * 3, place, b"abc") for place in range(9)]
    cuts = {fork_prefix(events, "s", seq).seq for seq in range(1, len(events) + 1)}
    assert len(cuts) == 5
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", events, chunks, summary=SUMMARY))
        for seq in cuts:
            name = f"fork {seq}"
            child = replace(SUMMARY, id=name, parent="s", parent_seq=seq)
            await log.append(WriteBatch(name, summary=child, copied=CopiedPart("s", seq, 1)))
            assert await log.events(name) == events[:seq]
            assert await log.chunks(name) == await log.chunks("s") == chunks
            assert await log.recorded_size(name) == 27
        await purge(database, "s")
        assert await rows_of(database, "events", "s") == await rows_of(database, "chunks", "s") == 0
        heirs = sorted(f"fork {seq}" for seq in cuts)
        assert await rows_of(database, "chunks", heirs[0]) == 1
        assert await search_differences(database) == []
        for name in heirs:
            assert await log.chunks(name) == chunks
            assert await log.events(name) == events[: int(name[5:])]


def _letters(event: Event) -> list[Event]:
    """`event`, and where it is a delta, one for each of its letters."""
    if isinstance(event, PartDelta):
        return [PartDelta(event.index, letter) for letter in event.text]
    return [event]


@pytest.mark.parametrize(
    "body",
    [
        "{",
        "[]",
        '{"index":[0],"text":["a","b"],"before":[1,0],"start":[0,1],"size":[1,1]}',
        '{"index":[0,0],"text":["a","b"],"before":[1,0]}',
        '{"index":[0,0],"text":["a","b"],"before":[1,0],"start":[0],"size":[1,1]}',
        '{"index":[0,0],"text":["a","b"],"before":["1",0],"start":[0,1],"size":[1,1]}',
    ],
)
async def test_a_row_that_cannot_be_read_is_an_error_with_a_sentence(
    tmp_path: Path, body: str
) -> None:
    events = [Logged(seq, 5, PartDelta(0, "a"), Source(1, seq, seq + 1)) for seq in (1, 2)]
    chunks = [Chunk(1, 0, 5, b"ab"), Chunk(1, 2, 6, b"cd")]
    async with opened(tmp_path / "a.db") as database:
        log = await Log.open(database)
        await log.append(WriteBatch("s", events, chunks, summary=SUMMARY))
        assert await log.events("s") == events
        await database.write([Statement("UPDATE events SET body = ?", [(body,)])])
        with pytest.raises(StoreError, match="seq 2, part_deltas"):
            await log.events("s")
        cuts = '{"size":[2,2],"before":[1]}'
        await database.write([Statement("UPDATE chunks SET cuts = ?", [(cuts,)])])
        with pytest.raises(StoreError, match="recording 1, from byte 0"):
            await log.chunks("s")
