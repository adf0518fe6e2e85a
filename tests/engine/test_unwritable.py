"""A full disk loses nothing that memory can hold, starts nothing, and never keeps Stop waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from playground.core.errors import Refused, StoreUnwritable
from playground.core.events import (
    CallDecided,
    CallEnded,
    CallInterrupted,
    CallStarted,
    PartDelta,
    PromptAdded,
    RequestSent,
    ResponseFailed,
    RunPaused,
    RunStopped,
)
from playground.core.session import Session
from playground.engine import responses as client_module
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.store import database as database_module
from tests.engine.boundary import Boundary
from tests.engine.test_runner import effects, noting, waiting
from tests.engine.test_verify import found_in
from tests.engine.unwritable import FullDisk
from tests.engines import ALLOW_ALL, create_session, events_of, run_engine, run_prompt
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

QUESTION = "What is 17 * 23?"


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Engine, Boundary]]:
    """An engine whose recordings are, at the end, what was sent."""
    boundary = Boundary()
    async with asyncio.timeout(60), run_engine(folder, boundary=boundary) as engine:
        yield engine, boundary
        for (session_id,) in await engine.database.rows("SELECT id FROM sessions"):
            assert await boundary.wrongly_kept(engine, session_id, is_complete=False) == []
        assert (await found_in(engine.database, mending=True))[1] == []


async def read_to_the_end(engine: Engine) -> None:
    """Until nothing more of any answer arrives."""
    readers = [
        open_request.reader
        for open_request in engine.runner._client._open
        if open_request.reader is not None
    ]
    await asyncio.wait(readers)


def last_texts(session: Session) -> list[str]:
    return [part.text for part in session.turns[-1].parts]


async def test_what_arrives_meanwhile_is_saved_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path) as (engine, _):
        whole_session = await run_prompt(engine, QUESTION)
        disk = FullDisk(engine, monkeypatch, RequestSent)
        session_id = await create_session(engine)
        await engine.runner.prompt(session_id, QUESTION)
        await disk.noticed()
        await read_to_the_end(engine)
        async with engine.sessions.lock_session(
            session_id
        ) as live:  # nobody keeps it from being read
            assert live.session.state == "running"
        with pytest.raises(StoreUnwritable, match="full"):
            await engine.sessions.create(whole_session.settings)  # type: ignore[arg-type]
        await disk.lifted()
        session = await wait_while_running(engine, session_id)
        assert session.state == "idle"
        assert last_texts(session) == last_texts(whole_session)
        assert disk.tries > 1


async def test_stop_acts_at_once_and_is_saved_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path) as (engine, _):
        disk = FullDisk(engine, monkeypatch, RequestSent)
        session_id = await create_session(engine)
        await engine.runner.prompt(session_id, f"[[fault:stall-after-8]] {QUESTION}")
        await disk.noticed()
        await engine.runner.stop(session_id)
        await read_to_the_end(engine)
        await engine.runner.stop(session_id)  # again: no second event
        assert not events_of(await engine.log.events(session_id), RunStopped)
        await disk.lifted()
        session = await wait_while_running(engine, session_id)
        assert session.state == "interrupted"
        assert session.stopped
        log = await engine.log.events(session_id)
        assert len(events_of(log, RunStopped)) == len(events_of(log, ResponseFailed)) == 1
        assert events_of(log, RunPaused) == []
        assert session.turns[-1].failure is not None
        assert session.turns[-1].failure.failure == "stopped"
        await engine.runner.retry(session_id)
        await wait_for_event(engine, session_id, ResponseFailed)
        await engine.runner.stop(session_id)


async def test_after_a_stop_that_is_not_saved_yet_nothing_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged first stands first in the log, and what comes next is judged by it."""
    async with watched(tmp_path) as (engine, _):
        session = await waiting(engine, noting(tmp_path))
        (call,) = session.waiting
        run = DecisionRequest("run", call.digest)
        disk = FullDisk(engine, monkeypatch)
        disk.on = True
        with pytest.raises(StoreUnwritable):
            await engine.runner.decide(session.id, call.id, run)
        monkeypatch.setattr(database_module, "PROBE_S", 3600)  # only who asks finds the room
        await engine.runner.stop(session.id)
        disk.on = False
        with pytest.raises(Refused, match="was stopped"):
            await engine.runner.decide(session.id, call.id, run)
        await engine.runner.stop(session.id)
        log = await engine.log.events(session.id)
        assert len(events_of(log, RunStopped)) == 1
        assert events_of(log, CallDecided) == []
        await engine.runner.resume(session.id)
        await engine.runner.decide(session.id, call.id, run)
        assert (await wait_while_running(engine, session.id)).state == "idle"
    assert effects(tmp_path) == 1


@pytest.mark.slow
async def test_what_memory_cannot_hold_is_lost_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit holds over all sessions together."""
    most, piece = 512 * 1024, 64 * 1024 + client_module.PIECE
    monkeypatch.setattr(client_module, "MOST_UNSAVED", most)
    monkeypatch.setattr(client_module, "AHEAD_BYTES", 16 * 1024)
    async with watched(tmp_path) as (engine, _):
        disk = FullDisk(engine, monkeypatch)
        ids = [await create_session(engine) for _ in range(3)]
        for session_id in ids:
            await engine.runner.prompt(session_id, "[[fault:endless-text]] hello")
            await wait_for_event(engine, session_id, PartDelta)
        disk.on = True
        await read_to_the_end(engine)
        stored = engine.client.unsaved
        assert most < stored < most + (len(ids) + 1) * piece
        await disk.lifted()
        for session_id in ids:
            session = await wait_while_running(engine, session_id)
            assert session.state == "interrupted"
            assert session.turns[-1].failure is not None
            assert "was not kept" in session.turns[-1].failure.message


async def test_a_call_that_ends_meanwhile_keeps_its_result_and_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path) as (engine, _):
        disk = FullDisk(engine, monkeypatch, CallStarted)
        session_id = await create_session(engine, [noting(tmp_path)], rules=ALLOW_ALL)
        await engine.runner.prompt(session_id, "Use note")
        await disk.noticed()
        while effects(tmp_path) == 0:
            await asyncio.sleep(0.01)
        await disk.lifted()
        session = await wait_while_running(engine, session_id)
        assert (session.state, session.paused) == ("paused", "store")
        log = await engine.log.events(session_id)
        assert len(events_of(log, CallEnded)) == 1
        assert events_of(log, CallInterrupted) == []
        assert len(events_of(log, RequestSent)) == 1
        await engine.runner.resume(session_id)
        assert (await wait_while_running(engine, session_id)).state == "idle"
    assert effects(tmp_path) == 1


async def test_a_call_begins_only_when_that_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path) as (engine, _):
        session = await waiting(engine, noting(tmp_path))
        (call,) = session.waiting
        disk = FullDisk(engine, monkeypatch)
        disk.on = True
        for _ in range(2):
            with pytest.raises(StoreUnwritable):
                await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
        await disk.lifted()
        assert (await wait_while_running(engine, session.id)).state == "waiting"
        await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
        assert (await wait_while_running(engine, session.id)).state == "idle"
    assert effects(tmp_path) == 1


async def test_stop_ends_a_call_whose_end_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path) as (engine, _):
        disk = FullDisk(engine, monkeypatch, CallStarted)
        session_id = await create_session(engine, [noting(tmp_path, waits=True)], rules=ALLOW_ALL)
        await engine.runner.prompt(session_id, "Use note")
        await disk.noticed()
        await engine.runner.stop(session_id)
        await disk.lifted()
        session = await wait_while_running(engine, session_id)
        await wait_for_event(engine, session_id, RunStopped)
        assert session.stopped
        assert [call.status for call in session.calls()] == ["done"]
        assert not engine.runner._running.sessions


@pytest.mark.parametrize("kind", [RequestSent, CallStarted])
async def test_the_program_ends_without_waiting_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type
) -> None:
    """And after the next start nothing runs by itself; a call that had begun asks."""
    prompt = "Use note" if kind is CallStarted else f"[[fault:stall-after-8]] {QUESTION}"
    async with run_engine(tmp_path) as engine:
        disk = FullDisk(engine, monkeypatch, kind)
        session_id = await create_session(engine, [noting(tmp_path, waits=True)], rules=ALLOW_ALL)
        await engine.runner.prompt(session_id, prompt)
        await disk.noticed()
        async with asyncio.timeout(30):
            await engine.runner.close()
    async with run_engine(tmp_path) as engine:
        session = await wait_while_running(engine, session_id)
        assert session.state == ("waiting" if kind is CallStarted else "interrupted")
        assert len(events_of(await engine.log.events(session_id), PromptAdded)) == 1
        assert (await found_in(engine.database, mending=True))[1] == []
