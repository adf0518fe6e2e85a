"""The one door: what it has told is in the file, whatever happens next."""

from __future__ import annotations

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from playground.core.decide import next_commands
from playground.core.errors import IllegalEvent, NotFound, StoreError, StoreUnwritable
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallProgressed,
    CallStarted,
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PartStarted,
    PromptAdded,
    RequestSent,
    ResponseFailed,
    ResponseStarted,
    RetryScheduled,
    RunPaused,
    RunStopped,
    SettingsChanged,
    Source,
    TurnDropped,
)
from playground.core.reducer import fold
from playground.core.run_limits import busy_ms
from playground.core.session import session_data
from playground.core.tools import text_result
from playground.engine import sessions as stores
from playground.engine.memory import give_back_free_memory
from playground.engine.runner import recover
from playground.engine.sessions import LiveSession, SessionStore
from playground.store.database import Database, Statement
from playground.store.log import Log
from playground.store.writes import Chunk, ClosedRecording
from tests.playbook import (
    call,
    call_checked,
    opened,
    part,
    request_sent,
    run,
    settings,
    start_events,
    turn,
)
from tests.tables import rest_slow
from tests.waiting import wait_until

pytestmark = pytest.mark.anyio

AWAY_MS = 8 * 3_600_000
HELD = CallProgressed("1.0", "Held back", real=text_result("42"))
ONE_CALL = [
    PromptAdded("hello"),
    *turn(1, call(0), call(1)),
    call_checked("1.0"),
    call_checked("1.1"),
]
CUT: list[list[Event]] = [
    [PromptAdded("hello"), *opened(1), PartStarted(0, "text"), PartDelta(0, "Hel")],
    [*ONE_CALL, run("1.0"), CallStarted("1.0", 1)],
    [*ONE_CALL, run("1.0", fault="slow"), CallStarted("1.0", 1), HELD],
    [*ONE_CALL, run("1.0"), CallStarted("1.0", 1), CallDecided("1.1", "deny", digest="digest")],
]

RETRYING: list[tuple[Event, str]] = [
    (PromptAdded("hello"), "paused"),
    (request_sent(1), "interrupted"),
    (ResponseStarted(429, {}), "interrupted"),
    (ResponseFailed("http", "Too many.", 429), "failed"),
    (RetryScheduled(1, 1, 1.0, 9_000, "429"), "paused"),
    (TurnDropped(1, automatic=True), "paused"),
    (request_sent(2), "interrupted"),
]
"""A retry, and the state after a restart that came right behind each event."""

DELTAS = [PartDelta(0, letter) for letter in "abc"]


class Store:
    """A session store on a file, which can be thrown away and made anew as after a kill."""

    def __init__(self, path: Path, now_ms: int = 1_000) -> None:
        self.path = path
        self.created = 0
        self.now = now_ms

    def clock(self) -> int:
        self.now += 1
        return self.now

    def new_id(self) -> str:
        self.created += 1
        return f"s{self.created}"

    async def open(self) -> tuple[Database, SessionStore]:
        database = await Database.open(self.path)
        return database, SessionStore(await Log.open(database), self.clock, self.new_id)


@asynccontextmanager
async def hub_on(path: Path, now_ms: int = 1_000) -> AsyncIterator[tuple[Database, SessionStore]]:
    database, sessions = await Store(path, now_ms).open()
    try:
        yield database, sessions
    finally:
        await database.close()


async def fill(sessions: SessionStore, session_id: str, events: Sequence[Event]) -> None:
    for event in events:
        async with sessions.lock_session(session_id) as live:
            await sessions.append(live, [event])


def life() -> list[Event]:
    """A session with about one of everything."""
    return [
        *start_events()[1:],
        *turn(1, part(0), call(1), call(2, "nope")),
        call_checked("1.1", parallel_safe=True),
        call_checked("1.2"),
        run("1.1"),
        CallStarted("1.1", 1),
        CallInterrupted("1.1"),
        CallDecided("1.1", "run", digest="x"),
        CallStarted("1.1", 2),
        CallEnded("1.1", text_result("ok")),
        CallEnded("1.2", text_result("no")),
        *opened(2),
        *part(0, "thinking", "hm"),
        PartStarted(1, "text"),
        PartDelta(1, "half an"),
    ]


async def test_a_kill_after_any_event_leaves_the_same_session(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        for event in life():
            await fill(sessions, session_id, [event])
            async with sessions.lock_session(session_id) as live:
                await sessions.log.flush(session_id)  # deltas alone may wait for a moment
                now = live.session
                async with (
                    hub_on(tmp_path / "a.db") as (_, other),
                    other.lock_session(session_id) as it,
                ):
                    again = it.session
                    assert session_data(again) == session_data(now)
                    assert again.seq == now.seq
                    assert next_commands(again) == next_commands(now)
                    assert [t.text for t in again.turns] == [t.text for t in now.turns]


@pytest.mark.parametrize("cut", rest_slow(range(len(life()) + 1), 4))
async def test_recovery_leaves_nothing_running(tmp_path: Path, cut: int) -> None:
    """Whatever was under way is over after a restart, and nothing goes on by itself."""
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        await fill(sessions, session_id, life()[:cut])
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        await recover(sessions, lambda _: ())
        async with sessions.lock_session(session_id) as live:
            session = live.session
            assert session.state != "running"
            assert next_commands(session) == []
            if session.turn is not None and session.turn.failure is not None:
                assert session.state == "interrupted"
                assert session.turn.failure.failure == "interrupted"
        log = await sessions.log.events(session_id)
        assert await recover(sessions, lambda _: ()) == []
        assert await sessions.log.events(session_id) == log


async def test_recovery_closes_a_recording_that_was_cut(tmp_path: Path) -> None:
    """With the hash of what is kept, and the marks that were written as the bytes came."""
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        await fill(sessions, session_id, [PromptAdded("hello"), *opened(1)])
        async with sessions.lock_session(session_id) as live:
            pieces = [Chunk(1, 0, 5, b"a********"), Chunk(1, 9, 6, b"b")]
            await sessions.append(
                live, [], chunks=pieces, closed=ClosedRecording(1, False, ((1, 9),))
            )
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        await recover(sessions, lambda _: ())
        digest = hashlib.sha256(b"a********b").hexdigest()
        assert await sessions.log.recordings(session_id) == {
            1: ClosedRecording(1, False, [(1, 9)], digest)
        }


@pytest.mark.parametrize("events", CUT)
async def test_nothing_is_at_work_while_the_program_is_away(
    tmp_path: Path, events: list[Event]
) -> None:
    """What was cut ended with the program; only the pause is of now."""
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        await fill(sessions, session_id, events)
    async with hub_on(tmp_path / "a.db", AWAY_MS) as (_, sessions):
        before = await sessions.log.events(session_id)
        await recover(sessions, lambda _: ())
        log = await sessions.log.events(session_id)
        assert len(log) > len(before)
        for item in log[len(before) :]:
            paused = isinstance(item.event, RunPaused)
            assert (item.at_ms > AWAY_MS) if paused else (item.at_ms == before[-1].at_ms)
        async with sessions.lock_session(session_id) as live:
            assert busy_ms(live.session) < 1_000
            opening = fold(session_id, await sessions.log.events_to_fold(session_id))
            assert busy_ms(opening) == busy_ms(live.session)


@pytest.mark.parametrize("cut", range(1, len(RETRYING) + 1))
async def test_after_a_kill_no_retry_is_made_by_itself(tmp_path: Path, cut: int) -> None:
    events = [event for event, _ in RETRYING[:cut]]
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        await fill(sessions, session_id, events)
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        await recover(sessions, lambda _: ())
        async with sessions.lock_session(session_id) as live:
            session = live.session
            assert (session.state, session.retrying) == (RETRYING[cut - 1][1], None)
            assert len(session.turns) == sum(isinstance(e, RequestSent) for e in events)
            assert session.retries == (cut > 5)
        assert await recover(sessions, lambda _: ()) == []


class Broken:
    """Makes the next writes of a database fail, each with `error`."""

    def __init__(
        self,
        database: Database,
        monkeypatch: pytest.MonkeyPatch,
        times: int,
        error: Exception = StoreError("The database refused."),  # noqa: B008
    ) -> None:
        self.times, self.error = times, error
        submit = database.submit

        def fails(statements: Sequence[Statement], *, full: bool = False) -> asyncio.Future[None]:
            if self.times == 0:
                return submit(statements, full=full)
            self.times -= 1
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.get_loop().call_soon(failed.set_exception, self.error)
            return failed

        monkeypatch.setattr(database, "submit", fails)


async def test_a_failed_save_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await sessions.create(settings())
        cursor = sessions.cursor
        Broken(database, monkeypatch, 1)
        with pytest.raises(StoreError):
            await fill(sessions, session_id, [PromptAdded("lost")])
        assert sessions.cursor == cursor
        assert await since(sessions, session_id, cursor) == []
        await fill(sessions, session_id, [PromptAdded("kept")])
        log = await sessions.log.events(session_id)
        assert [logged.seq for logged in log] == [1, 2]
        assert isinstance(log[1].event, PromptAdded)
        assert log[1].event.text == "kept"
        assert await since(sessions, session_id, cursor) == [log[1]]


async def test_an_append_to_a_locked_session_is_refused_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await sessions.create(settings())
        before = await sessions.log.events(session_id)
        Broken(database, monkeypatch, 1, StoreUnwritable("The disk is full."))
        async with sessions.lock_session(session_id) as live:
            with pytest.raises(StoreUnwritable):
                await sessions.append(live, [PromptAdded("refused")])
        assert await sessions.log.events(session_id) == before
        assert not sessions.owes()
        assert session_id not in sessions.late


async def test_an_append_to_an_id_is_tried_until_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two tries the session is free, and the events are made from its state then."""
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await sessions.create(settings())
        afterwards: list[int] = []

        def prompt(live: LiveSession) -> list[Event]:
            return [PromptAdded(f"after event {live.session.seq}")]

        async def then(live: LiveSession) -> None:
            assert live.lock.locked()
            afterwards.append(live.session.seq)

        async def meanwhile() -> bool:
            if broken.times == 0:
                async with sessions.lock_session(session_id) as live:
                    await sessions.append(live, [SettingsChanged(settings())])
            return True

        broken = Broken(database, monkeypatch, 2, StoreUnwritable("The disk is full."))
        monkeypatch.setattr(sessions.health, "wait_for_retry", meanwhile)
        (logged,) = await sessions.append(session_id, prompt, then=then)
        assert logged.event == PromptAdded("after event 2")
        assert (await sessions.log.events(session_id))[-1] == logged
        assert afterwards == [3]
        assert sessions.late == {session_id}


async def test_at_the_end_of_the_program_an_append_to_an_id_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await sessions.create(settings())
        Broken(database, monkeypatch, 1, StoreUnwritable("The disk is full."))
        sessions.health.end()
        with pytest.raises(StoreUnwritable):
            await sessions.append(session_id, [PromptAdded("lost")])


async def test_a_stop_that_cannot_be_saved_is_owed_and_saved_before_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await sessions.create(settings())

        async def wait_for_ever() -> bool:
            await asyncio.Event().wait()
            return True

        monkeypatch.setattr(sessions.health, "wait_for_retry", wait_for_ever)
        Broken(database, monkeypatch, 2, StoreUnwritable("The disk is full."))
        async with sessions.lock_session(session_id) as live:
            for _ in range(2):
                assert await sessions.append(live, [RunStopped()]) == []
            assert sessions.owes(session_id)
            assert sessions.owes()
            assert live.session.seq == 1
            await sessions.append(live, [PromptAdded("next")])
        assert not sessions.owes()
        log = await sessions.log.events(session_id)
        assert [logged.event for logged in log[1:]] == [RunStopped(), PromptAdded("next")]
        for paying in sessions._paying:
            paying.cancel()


async def test_what_is_owed_is_saved_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await sessions.create(settings())
        Broken(database, monkeypatch, 1, StoreUnwritable("The disk is full."))
        async with sessions.lock_session(session_id) as live:
            await sessions.append(live, [RunStopped()])
        await wait_until(lambda: not sessions.owes(session_id))
        log = await sessions.log.events(session_id)
        assert [logged.event for logged in log[1:]] == [RunStopped()]
        assert sessions.late == set()


async def test_several_events_are_saved_all_or_none(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        with pytest.raises(IllegalEvent):
            async with sessions.lock_session(session_id) as live:
                await sessions.append(live, [PromptAdded("one"), CallStarted("9.9", 1)])
        async with sessions.lock_session(session_id) as live:
            assert live.session.seq == 1
        assert len(await sessions.log.events(session_id)) == 1


async def test_whoever_leaves_while_it_is_saved_leaves_it_saved(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        for turns in range(6):
            task = asyncio.create_task(fill(sessions, session_id, start_events()[1:]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            async with sessions.lock_session(session_id) as live:
                log = await sessions.log.events(session_id)
                assert live.session.seq == len(log)
                if len(log) == 2:
                    return
        raise AssertionError("It was always cancelled before it was folded.")


async def test_many_writes_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_ids = [await sessions.create(settings()) for _ in range(40)]
        commits: list[int] = []
        transaction = database._transaction

        async def count_groups(groups: Any, full: bool) -> None:
            commits.append(len(groups))
            await transaction(groups, full)

        monkeypatch.setattr(database, "_transaction", count_groups)
        await asyncio.gather(
            *(fill(sessions, session_id, [PromptAdded("go")]) for session_id in session_ids)
        )
        assert sum(commits) == 40
        assert len(commits) <= 5


async def test_decisions_and_effects_are_synced(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await sessions.create(settings())
        messages: list[str] = []
        assert database._writer is not None
        await database._writer.set_trace_callback(messages.append)
        synced: dict[str, bool] = {}
        for event in life():
            messages.clear()
            await fill(sessions, session_id, [event])
            kind = (await sessions.log.events(session_id))[-1].event
            synced[type(kind).__name__] = any("synchronous = FULL" in text for text in messages)
        await database._writer.set_trace_callback(None)  # type: ignore[arg-type]
    full = {"CallDecided", "CallStarted", "CallEnded", "CallInterrupted"}
    assert {name for name, was in synced.items() if was} == full


async def since(sessions: SessionStore, session_id: str, cursor: str) -> list[Logged] | None:
    """What a page that stands at `cursor` has not seen yet."""
    async with sessions.lock_session(session_id) as live:
        return sessions.events_since(live, sessions.position_of(cursor))


async def test_streams_catch_up_from_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        first, second = await sessions.create(settings()), await sessions.create(settings())
        cursors = [sessions.cursor]
        for event in [*start_events()[1:], *turn(1)]:
            await fill(sessions, first, [SettingsChanged(settings())])
            await fill(sessions, second, [event])
            cursors.append(sessions.cursor)
        log = await sessions.log.events(second)
        for place, cursor in enumerate(cursors):
            assert await since(sessions, second, cursor) == log[1 + place :]
        for unknown in (f"{sessions.epoch}-{sessions.position + 1}", "other-3", "3", "", "-1"):
            assert await since(sessions, second, unknown) is None
        async with sessions.lock_session(second) as live:
            for seq in range(len(log) + 1):
                assert sessions.events_since_seq(live, seq) == log[seq:]
            monkeypatch.setattr(stores, "RECENT", 3)
            await sessions.append(live, [SettingsChanged(settings())])
            assert sessions.events_since_seq(live, 1) is None
        assert await since(sessions, second, cursors[0]) is None
        assert len(await since(sessions, second, cursors[-1]) or []) == 1


async def test_a_session_that_left_the_memory_is_known_to_who_has_it_all(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id, before = await sessions.create(settings()), sessions.cursor
        await fill(sessions, session_id, start_events()[1:])
        after = sessions.cursor
        sessions._live.clear()
        assert await since(sessions, session_id, after) == []
        assert await since(sessions, session_id, before) is None


async def streaming(sessions: SessionStore) -> str:
    """A session with an open part; its id."""
    session_id = await sessions.create(settings())
    await fill(sessions, session_id, [*start_events()[1:], *opened(1), PartStarted(0, "text")])
    return session_id


async def test_deltas_are_shown_at_once_and_read_with_all_that_waits(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        cursor, saved = sessions.cursor, "SELECT count(*) FROM events"
        ((before,),) = await database.rows(saved)
        with sessions.listen(session_id) as bell:
            await fill(sessions, session_id, DELTAS)
            assert await bell.wait(0)
        assert [o.event for o in await since(sessions, session_id, cursor) or []] == DELTAS
        assert [tuple(row) for row in await database.rows(saved)] == [(before,)]
        log = await sessions.log.events(session_id)  # whoever reads, reads all
        assert [logged.event for logged in log[-3:]] == DELTAS
        await fill(sessions, session_id, [PartDelta(0, "d")])
        await fill(sessions, session_id, [PartEnded(0, "abcd")])
        async with hub_on(tmp_path / "a.db") as (_, other):  # as after a kill
            assert [o.event for o in await other.log.events(session_id)][-2:] == [
                PartDelta(0, "d"),
                PartEnded(0, "abcd"),
            ]


async def test_deltas_of_all_sessions_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playground.store.log.GROUP_S", 0.0)
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_ids = [await streaming(sessions) for _ in range(5)]
        transactions: list[int] = []
        commit = database._commit

        async def count_writes(writes: Sequence[Any]) -> None:
            transactions.append(len(writes))
            await commit(writes)

        monkeypatch.setattr(database, "_commit", count_writes)
        for session_id in session_ids:
            async with sessions.lock_session(session_id) as live:
                await sessions.append(live, DELTAS)
        while sum(transactions) < len(session_ids):
            await asyncio.sleep(0)
        assert transactions == [5]


async def test_deltas_that_came_during_a_slow_write_are_written_right_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("playground.store.log.GROUP_S", 0.0)
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        commit, slow, writes = database._commit, asyncio.Event(), 0

        async def late(queued: Sequence[Any]) -> None:
            nonlocal writes
            writes += 1
            await slow.wait()
            await commit(queued)

        monkeypatch.setattr(database, "_commit", late)
        for _ in range(2):
            await fill(sessions, session_id, DELTAS)
            for _ in range(20):
                await asyncio.sleep(0)
        assert writes == 1
        monkeypatch.setattr("playground.store.log.GROUP_S", 3600.0)
        slow.set()
        await wait_until(lambda: writes == 2)
        await sessions.log.flush(session_id)
        log = await sessions.log.events(session_id)
        assert [logged.event for logged in log[-2 * len(DELTAS) :]] == [*DELTAS, *DELTAS]


async def test_who_reads_during_a_stream_waits_for_no_delta_that_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each write takes so long that the next begins as it ends."""
    monkeypatch.setattr("playground.store.log.GROUP_S", 0.0)
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        commit, writes = database._commit, 0

        async def late(queued: Sequence[Any]) -> None:
            nonlocal writes
            writes += 1
            if writes < 200:
                await fill(sessions, session_id, DELTAS)
                for _ in range(20):
                    await asyncio.sleep(0)
            await commit(queued)

        monkeypatch.setattr(database, "_commit", late)
        await fill(sessions, session_id, DELTAS)
        await wait_until(lambda: writes >= 1)
        before = writes
        await sessions.log.flush(session_id)
        assert writes <= before + 3
        await wait_until(lambda: writes >= 200)
        await sessions.log.flush(session_id)


async def test_deltas_that_cannot_be_saved_yet_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: what was shown stays, and is saved with what comes next."""
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        cursor = sessions.cursor
        await fill(sessions, session_id, DELTAS)
        Broken(database, monkeypatch, 3, StoreUnwritable("The disk is full."))
        assert len(await sessions.log.events(session_id)) == sessions.position - len(DELTAS)
        with pytest.raises(StoreUnwritable):
            await fill(sessions, session_id, [PartEnded(0, "abc")])
        async with sessions.lock_session(session_id) as live:
            assert live.session.turns[0].parts[0].text == "abc"
        assert [o.event for o in await since(sessions, session_id, cursor) or []] == DELTAS
        await fill(sessions, session_id, [PartEnded(0, "abc")])
        log = await sessions.log.events(session_id)
        assert [logged.event for logged in log[-4:]] == [*DELTAS, PartEnded(0, "abc")]
        assert [logged.seq for logged in log] == list(range(1, len(log) + 1))


async def test_deltas_that_are_lost_with_what_came_next_begin_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        await fill(sessions, session_id, DELTAS)
        cursor = sessions.cursor
        Broken(database, monkeypatch, 1)
        with pytest.raises(StoreError):
            await fill(sessions, session_id, [PartEnded(0, "abc")])
        assert await since(sessions, session_id, cursor) is None
        await fill(sessions, session_id, [PartEnded(0, "")])  # it was told once


async def test_deltas_that_can_never_be_saved_begin_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        await fill(sessions, session_id, DELTAS)
        cursor = sessions.cursor
        Broken(database, monkeypatch, 1)
        with pytest.raises(StoreError):
            await sessions.log.flush(session_id)
        assert await since(sessions, session_id, cursor) is None
        with pytest.raises(StoreError):  # the rest of an answer without its middle is no answer
            await fill(sessions, session_id, [PartDelta(0, "d")])
        async with sessions.lock_session(session_id) as live:
            assert live.session.turns[0].parts[0].text == ""


async def test_who_follows_a_session_is_told_of_lost_deltas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An open stream keeps its position, and whoever holds the session its fold."""
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id, other = await streaming(sessions), await streaming(sessions)
        saved = await sessions.log.events(session_id)
        await fill(sessions, session_id, DELTAS)
        position = sessions.position
        Broken(database, monkeypatch, 1)
        async with sessions.lock_session(session_id) as live:
            with pytest.raises(StoreError):
                await sessions.log.flush(session_id)
            assert live.session.turns[0].parts[0].text == "abc"
            with pytest.raises(StoreError):
                await sessions.append(live, [PartEnded(0, "abc")])
        async with sessions.lock_session(session_id) as live:
            assert sessions.events_since(live, position) is None
            assert sessions.events_since_seq(live, len(saved)) == []
            ended = await sessions.append(live, [PartEnded(0, "")])
            assert sessions.events_since_seq(live, len(saved)) == ended
        async with sessions.lock_session(other) as live:
            assert sessions.events_since(live, position) == []


@pytest.mark.parametrize("later", [PartDelta(0, "d"), PartEnded(0, "abc")])
async def test_what_follows_lost_deltas_is_lost_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: Event
) -> None:
    """Also what comes while they are being written: a log has no gap."""
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        saved = await sessions.log.events(session_id)
        await fill(sessions, session_id, DELTAS)
        Broken(database, monkeypatch, 1)
        flushing = asyncio.create_task(sessions.log.flush(session_id))
        while not sessions.log._writing:
            await asyncio.sleep(0)
        with suppress(StoreError):
            await fill(sessions, session_id, [later])
        with pytest.raises(StoreError):
            await flushing
        assert await sessions.log.events(session_id) == saved


async def test_who_reads_where_deltas_are_lost_reads_what_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who appends hears of it, and nobody else."""
    async with hub_on(tmp_path / "a.db") as (database, sessions):
        session_id = await streaming(sessions)
        saved = await sessions.log.events(session_id)
        await fill(sessions, session_id, DELTAS)
        Broken(database, monkeypatch, 1)
        assert await sessions.log.events(session_id) == saved
        with pytest.raises(StoreError):
            await fill(sessions, session_id, [PartEnded(0, "abc")])


async def test_a_session_that_is_not_there(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        with pytest.raises(NotFound):
            async with sessions.lock_session("nope"):
                pass
        assert sessions._live == {}


async def test_idle_sessions_leave_the_memory_and_come_back(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_ids = [await sessions.create(settings()) for _ in range(100)]
        for session_id in session_ids:
            await fill(sessions, session_id, [*start_events()[1:], *turn(1)])
        assert len(sessions._live) <= 65
        for session_id in session_ids:
            async with sessions.lock_session(session_id) as live:
                assert live.session.seq == len(await sessions.log.events(session_id))


async def test_a_title_of_half_a_character_does_no_harm(tmp_path: Path) -> None:
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        await fill(sessions, session_id, [PromptAdded("half \ud800 a character")])
        (summary,) = await sessions.log.summaries()
        assert summary.title == "half ? a character"
        log = await sessions.log.events(session_id)
        assert isinstance(log[1].event, PromptAdded)
        assert log[1].event.text == "half \ud800 a character"


async def test_what_streams_catch_up_from_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the characters of the texts, too; the last event is known however large it is."""
    monkeypatch.setattr(stores, "RECENT_CHARACTERS", 1000)
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        session_id = await sessions.create(settings())
        await fill(sessions, session_id, [*start_events()[1:], *opened(1), PartStarted(0, "text")])
        cursor = sessions.cursor
        await fill(sessions, session_id, [PartDelta(0, "x" * 90) for _ in range(10)])
        assert len(await since(sessions, session_id, cursor) or []) == 10
        await fill(sessions, session_id, [PartDelta(0, "x" * 90) for _ in range(30)])
        assert await since(sessions, session_id, cursor) is None
        cursor = sessions.cursor
        await fill(sessions, session_id, [PartDelta(0, "x" * 5000)])
        assert len(await since(sessions, session_id, cursor) or []) == 1
        async with sessions.lock_session(session_id) as live:
            assert len(live.recent) == 1


def test_an_event_that_streams_catch_up_from_takes_little_memory() -> None:
    """Hundreds of deltas are kept for each answer that streams."""
    recent, count = stores.RecentEvents(0), 2_000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for seq in range(1_000, 1_000 + count):
            delta, source = PartDelta(0, f"word {seq} "), Source(1, seq * 90, seq * 90 + 90)
            recent.append(seq * 7, Logged(seq, 1_790_000_000_000 + seq, delta, source))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    events = recent.events_since(999 * 7)
    assert events is not None
    assert [logged.seq for logged in events] == list(range(1_000, 1_000 + count))
    assert (after - before) / count < 320
    assert [logged.seq for logged in recent.events_since(2_997 * 7) or ()] == [2_998, 2_999]


async def test_positions_are_kept_of_the_last_sessions_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "POSITIONS", 2)
    monkeypatch.setattr(stores, "LIVE", 0)
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        before = sessions.cursor
        first = await sessions.create(settings())
        then = sessions.cursor
        names = [await sessions.create(settings()) for _ in range(4)]
        sizes = [len(sessions._positions)]
        for name in names:
            assert await since(sessions, first, sessions.cursor) == []
            await fill(sessions, name, [PromptAdded("Hello.")])
            sizes.append(len(sessions._positions))
        assert sizes == [2] * 5
        assert await since(sessions, first, sessions.cursor) == []
        for cursor in (before, then):  # whether anything came after it is not known
            assert await since(sessions, first, cursor) is None


async def test_of_many_that_run_none_is_looked_at_for_each_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred answers at once release their sessions with each delta."""
    looks: list[str] = []

    def may_go(live: stores.LiveSession, look: Any = stores._is_idle) -> bool:
        looks.append(live.id)
        return bool(look(live))

    monkeypatch.setattr(stores, "LIVE", 2)
    monkeypatch.setattr(stores, "_is_idle", may_go)
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        names = [await sessions.create(settings()) for _ in range(6)]
        for name in names:
            await fill(sessions, name, [*start_events()[1:], *opened(1), *part(0)])
        assert sorted(in_memory(sessions)) == sorted(names)
        looks.clear()
        for _ in range(3):
            for name in names:
                async with sessions.lock_session(name):
                    pass
        assert looks == names * 3
        for name in names:
            await fill(sessions, name, [ResponseFailed("http", "No.")])
        assert len(in_memory(sessions)) == 2


async def test_many_that_run_take_no_room_from_those_at_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has just ended is asked about again: read anew each time it would cost a log each."""
    monkeypatch.setattr(stores, "LIVE", 2)
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        names = [await sessions.create(settings()) for _ in range(6)]
        for name in names:
            await fill(sessions, name, [*start_events()[1:], *opened(1), *part(0)])
        for name in names[:3]:
            await fill(sessions, name, [ResponseFailed("http", "No.")])
        assert sorted(in_memory(sessions)) == sorted(names[1:])
        assert sorted(sessions._idle) == sorted(names[1:3])


async def test_a_large_session_that_rests_leaves_the_memory_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "LARGE_TEXT", 100)
    monkeypatch.setattr(stores, "REST_S", 0.0)
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        names: list[str] = []
        for size, last in ((100, True), (99, True), (100, False)):
            names.append(await sessions.create(settings()))
            events = [*start_events()[1:], *opened(1), *part(0, text="x" * size)]
            ended = [ResponseFailed("http", "No.")] if last else []
            await fill(sessions, names[-1], [*events, *ended])
        large = names[0]
        async with sessions.lock_session(large) as live:
            await turned()
            assert (
                in_memory(sessions) == names
            )  # also while the time was over and somebody holds it
            before = live.session
        for _ in range(2):
            await turned()
            assert in_memory(sessions) == names[1:]
            async with sessions.lock_session(large) as live:
                assert live.session == before


def in_memory(sessions: SessionStore) -> list[str]:
    return [live.id for live in sessions._live.values() if live.folded is not None]


async def turned() -> None:
    """Until all that was due by now has had its turn."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(0, done.set)
    await asyncio.wait_for(done.wait(), 20)


async def test_what_a_large_text_took_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its pieces took before it is saved, and what saving took after that."""
    given: list[int] = []
    monkeypatch.setattr(stores, "LARGE_TEXT", 100)
    async with hub_on(tmp_path / "a.db") as (_, sessions):
        monkeypatch.setattr(
            stores, "give_back_free_memory", lambda: given.append(sessions.position)
        )
        session_id = await sessions.create(settings())
        small = [*start_events()[1:], *opened(1), *part(0, text="x" * 99), PartStarted(1, "text")]
        await fill(sessions, session_id, [*small, PartDelta(1, "x" * 100)])
        assert given == []
        before = sessions.position
        await fill(sessions, session_id, [PartEnded(1, "x" * 100)])
        assert given == [before, before + 1]
    give_back_free_memory()  # and where there is no way to, nothing happens
