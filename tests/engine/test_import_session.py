"""A session from somebody else: kept as it is, read, and nothing of it done. Threat 14."""

from __future__ import annotations

import asyncio
import base64
import json
import lzma
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import BadInput, Refused
from playground.core.events import (
    CallDecided,
    CallEnded,
    PromptAdded,
    ResponseFailed,
    RetryScheduled,
    SessionForked,
    SessionStarted,
    TaskStarted,
    TurnDropped,
)
from playground.core.reducer import fold
from playground.core.settings import Profile
from playground.core.tools import Tool, text_result
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.export_session import page_assets, read_bundle
from playground.engine.fork import ForkPlace, fork
from playground.engine.import_session import import_session
from playground.engine.manage_sessions import purge
from playground.engine.verify import Difference, verify
from playground.exchange import html
from playground.exchange.bundle import SessionBundle, write_session
from tests.databases import downgrade_database
from tests.engines import ALLOW_ALL, StartEngine, run_engine, run_prompt
from tests.factories import DIGEST, Log, turn_with_calls
from tests.factories import settings as made
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio


def lines(data: bytes) -> list[Any]:
    """Without the ids, the one thing in which an export of an import may differ."""
    first, *rest = [json.loads(line) for line in data.splitlines()]
    return [{**first, "session": {**first["session"], "id": ""}}, *rest]


async def page_of(engine: Engine, session_id: str) -> bytes:
    return html.write(replace(await read_bundle(engine, session_id), look=page_assets())).data


async def exported(engine: Engine, session_id: str) -> bytes:
    return write_session(await read_bundle(engine, session_id)).data


@pytest.mark.parametrize("profile", ["simulator", "simulator-ollama"])
async def test_what_was_brought_is_exported_as_it_came(profile: str, engine: Engine) -> None:
    tools = ("get_weather", "calculator")
    more: dict[str, Any] = {"asked_profile": profile, "rules": ALLOW_ALL}
    session = await run_prompt(engine, "Weather in Paris?", *tools, **more)
    child = await wait_while_running(engine, await fork(engine, session.id, ForkPlace(turn=2)))
    for session_id in (session.id, child.id):
        data = await exported(engine, session_id)
        again = await import_session(engine, data)
        assert again != session_id
        assert lines(await exported(engine, again)) == lines(data)
    assert len(lines(data)) > len((await read_bundle(engine, child.id)).log), "recordings are whole"


@pytest.mark.parametrize(
    "fault", ["cut-mid-args", "http-500", "invalid-utf8", "args-lone-surrogate"]
)
async def test_faults_come_back_too(fault: str, engine: Engine) -> None:
    session = await run_prompt(
        engine, f"/fault {fault} What is 17 * 23?", "calculator", max_retries=0
    )
    data = await exported(engine, session.id)
    again = await import_session(engine, data)
    assert lines(await exported(engine, again)) == lines(data)


async def test_a_bad_line_leaves_nothing(engine: Engine) -> None:
    session = await run_prompt(engine, "hello")
    data = await exported(engine, session.id)
    with pytest.raises(BadInput, match="Line 3 "):
        await import_session(engine, data.replace(b'"seq": 2', b'"seq": 9', 1))
    for table in ("sessions", "events", "chunks", "recordings"):
        column = "id" if table == "sessions" else "session"
        rows = await engine.database.rows(f"SELECT DISTINCT {column} FROM {table}")
        assert {row[0] for row in rows} <= {session.id}


def hostile(tmp_path: Path, url: str) -> tuple[bytes, Path]:
    """A file whose session was about to run a call that writes a marker, at an address of its own
    that would be asked next."""
    marker = tmp_path / "marker"
    code = f"def boom():\n    open({str(marker)!r}, 'w').close()\n"
    tool = Tool("boom", answered_by="python", config={"code": code, "function": "boom"})
    profile = Profile(
        "mine",
        protocol="anthropic",
        base_url=url,
        key_name="ANTHROPIC_API_KEY",
        model="m",
        headers={"x-evil": "1"},
    )
    log = turn_with_calls(("boom", {}))
    first = SessionStarted(made(tool, profile=profile, extra={"a": 1}))
    log.events[0] = replace(log.events[0], event=first)
    return write_session(SessionBundle(fold("s", log.events), "T", log.events)).data, marker


async def test_nothing_is_asked_run_or_written_by_a_file(tmp_path: Path) -> None:
    asked_for: list[bytes] = []

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked_for.append(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    data, marker = hostile(tmp_path, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server, run_engine(tmp_path) as engine:
        session_id = await import_session(engine, data)
        await engine.rules.put(session_id, ALLOW_ALL, ())
        await engine.runner.advance(session_id)
        async with engine.sessions.lock_session(session_id) as live:
            assert live.session.waiting
            assert not live.own
            digest = live.session.waiting[0].digest
        run = DecisionRequest("run", digest)
        runner = engine.runner
        acts: list[Callable[[], Awaitable[object]]] = [
            partial(runner.prompt, session_id, "go on"),
            partial(runner.resume, session_id),
            partial(runner.decide, session_id, "1.1", run),
            partial(runner.cancel, session_id, "1.1"),
        ]
        for act in acts:
            with pytest.raises(Refused, match="was imported"):
                await act()
        await engine.runner.stop(session_id)  # there is nothing of it to be stopped
        child = await fork(engine, session_id, ForkPlace(), go=False)
        async with engine.sessions.lock_session(child) as live:
            assert live.own
            settings = live.session.settings
        assert settings is not None
        assert settings.tools == ()
        assert settings.extra == {}
        assert settings.profile in engine.profiles()
        assert settings.profile.base_url == "sim:"
    async with run_engine(tmp_path) as engine:  # a start recovers what is one's own
        assert lines(await exported(engine, session_id)) == lines(data)
    assert asked_for == []
    assert not marker.exists()


async def test_it_can_be_deleted_as_it_is(tmp_path: Path) -> None:
    log = Log().start().prompt().request()  # an answer was under way when it was exported
    data = write_session(SessionBundle(log.session(), "T", log.events, tags=("b", "a"))).data
    async with run_engine(tmp_path) as engine:
        session_id = await import_session(engine, data)
        assert await engine.log.tags(session_id) == ["a", "b"]
    async with run_engine(tmp_path) as engine:  # a start closes what was cut of one's own alone
        await engine.runner.delete(session_id)
        bundle = await read_bundle(engine, session_id)
    assert bundle.log == log.events


async def test_a_key_of_ours_in_a_file_is_not_kept(tmp_path: Path) -> None:
    key = "sk-ours-0123456789abcdef"
    log = Log().start().add(PromptAdded(f"it is {key}, not sk-other-0123456789abcdef"))
    data = write_session(SessionBundle(log.session(), "T", log.events)).data
    async with run_engine(tmp_path, environment={"OPENAI_API_KEY": key}) as engine:
        session_id = await import_session(engine, data)
        await engine.runner.advance(session_id)  # a prompt waits there that nobody sends
        bundle = await read_bundle(engine, session_id)
    assert len(bundle.log) == len(log.events)
    assert key.encode() not in write_session(bundle).data
    assert b"sk-other-0123456789abcdef" in write_session(bundle).data, "all else is as it came"


@pytest.mark.anyio
async def test_parameters_that_nobody_could_choose_are_left_out(start_engine: StartEngine) -> None:
    body = (
        '{"model": "m", "messages": [{"role": "user", "content": "a"}], "top_p": 0.5,'
        '"temperature": "hot", "max_tokens": 1e400, "stop": [1]}'
    )
    engine = await start_engine()
    session_id = await import_session(engine, body.encode())
    log = await engine.log.events(session_id)
    settings = fold(session_id, log).settings
    assert settings is not None
    assert settings.params == {"top_p": 0.5}
    assert "cannot have these settings: max_tokens, temperature, stop" in repr(log)


@pytest.mark.anyio
async def test_a_fork_takes_no_parameters_that_setup_has_no_word_for(
    start_engine: StartEngine,
) -> None:
    odd = [{"stop": ["x"] * 100_000}, {"stop": "x" * 1_001}, {"thinking": {"type": "adaptive"}}]
    good = {"stop": ["x"] * 16, "thinking": "low"}
    engine = await start_engine()
    for params in (*odd, good):
        log = Log().start(made(params=params)).prompt()
        data = write_session(SessionBundle(log.session(), "T", log.events)).data
        child = await fork(engine, await import_session(engine, data), ForkPlace(), go=False)
        async with engine.sessions.lock_session(child) as live:
            settings = live.session.settings
        assert settings is not None
        assert settings.params == (good if params is good else {})


@pytest.mark.parametrize(
    ("most", "output"),
    [("MOST_TURNS", "more than 1 requests"), ("MOST_FORKS", "forked more than 1 times")],
)
async def test_what_takes_long_to_fold_is_refused_at_its_line(
    monkeypatch: pytest.MonkeyPatch, most: str, output: str, start_engine: StartEngine
) -> None:
    """And not when all of it was folded: the line after it is not even looked at."""
    log = Log().start().prompt()
    for _ in range(2):
        log.request().part(0, "text", "Hm.").end("pause").add(SessionForked("x", 1))
    data = write_session(SessionBundle(log.session(), "T", log.events)).data + b"no JSON"
    monkeypatch.setattr(f"playground.exchange.requests_import.{most}", 1)
    engine = await start_engine()
    with pytest.raises(BadInput, match=rf"Line \d+ .*{output} is not imported"):
        await import_session(engine, data)


@pytest.mark.anyio
async def test_a_session_with_more_calls_than_a_page_bears_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    session = await run_prompt(engine, "What is 17*23?", "calculator", rules=ALLOW_ALL)
    data = write_session(await read_bundle(engine, session.id)).data
    monkeypatch.setattr("playground.exchange.requests_import.MOST_CALLS", 0)
    with pytest.raises(BadInput, match="more than 0 calls"):
        await import_session(engine, data)


def eventful() -> Log:
    """A log in which, event by event, all that can be under way is under way once: an answer, a
    part, calls that run, wait and were decided, a task, a retry, a prompt that nobody sent yet."""
    log = turn_with_calls(("get_weather", {"city": "Paris"}), ("ask_me", {}), checked=False)
    log.check("1.1").run("1.1").check("1.2").add(TaskStarted("t1", "1.1", "sleep 9"))
    log.add(CallDecided("1.2", "answer", digest=DIGEST, text="Yes."))
    log.add(CallEnded("1.2", text_result("Yes."))).request().part(0, "text", "It is")
    log.add(ResponseFailed("http", "Too many requests.", 529))
    log.add(RetryScheduled(2, 1, 4.0, log.now_ms + 4000, "529"), TurnDropped(2, automatic=True))
    return log.request().part(0, "text", "It is clear.").end("stop").prompt("And in Rome?")


async def stale_rows(engine: Engine) -> list[Difference]:
    """What `verify` says of the list and the logs; of bytes there are none here."""
    differences: list[Difference] = []
    await verify(engine.database, differences.append)
    return [difference for difference in differences if not difference.recording]


async def test_a_session_that_was_cut_anywhere_is_at_rest(tmp_path: Path) -> None:
    """Its list row and its page say so, its log is as it came, and it can be purged."""
    log, running_once = eventful().events, 0
    async with run_engine(tmp_path) as engine:
        for size in range(1, len(log) + 1):
            session = fold("s", log[:size])
            running_once += session.state == "running"
            expected = "interrupted" if session.state == "running" else session.state
            session_id = await import_session(
                engine, write_session(SessionBundle(session, "T", log[:size])).data
            )
            row = await engine.log.summary(session_id)
            assert row is not None
            assert (row.state, size) == (expected, size)
            async with engine.sessions.lock_session(session_id) as live:
                assert (live.session.state, live.session.seq) == (expected, size)
                assert live.session.turn is None or not live.session.turn.open
                assert all(call.status != "running" for call in live.session.calls())
                assert live.session.open_tasks == []
            assert (await read_bundle(engine, session_id)).log == log[:size]
            assert await stale_rows(engine) == []
            await engine.runner.delete(session_id)
            await purge(engine, [session_id])
        assert await engine.log.summaries(deleted=True) == []
    assert running_once > 10


async def test_one_that_an_earlier_version_took_for_running_is_put_right(tmp_path: Path) -> None:
    log = eventful().events[:6]
    data = write_session(SessionBundle(fold("s", log), "T", log)).data
    async with run_engine(tmp_path) as engine:
        session_id = await import_session(engine, data)
    downgrade_database(
        tmp_path / "test.db",
        "UPDATE sessions SET state = 'running', tasks = 1, waiting = 1",
    )
    async with run_engine(tmp_path) as engine:
        row = await engine.log.summary(session_id)
        assert row is not None
        assert (row.state, row.waiting) == ("interrupted", 0)
        assert await stale_rows(engine) == []
        await engine.runner.delete(session_id)
        await purge(engine, [session_id])
        assert await engine.log.summary(session_id) is None


async def test_a_shared_page_brings_its_session_back(engine: Engine) -> None:
    session_id = (await run_prompt(engine, "What is 2 + 2?", "calculator", rules=ALLOW_ALL)).id
    page = await page_of(engine, session_id)
    again = await import_session(engine, b"\xef\xbb\xbf\n" + page)
    assert again != session_id
    assert lines(await exported(engine, again)) == lines(await exported(engine, session_id))
    assert await exported(engine, again) != b""
    hostile = base64.b64encode(lzma.compress(b'{"playground": 1}\n[1]\n'))
    cut = re.sub(rb'(id="lines">)[^<]+', rb"\1" + hostile, page)
    with pytest.raises(BadInput, match="Line 1"):
        await import_session(engine, cut)
    assert len(await engine.log.summaries()) == 2
