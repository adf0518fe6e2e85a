"""After a crash: what was under way asks, nothing goes on by itself, and a user has every choice.

A crash here is an engine that ends while a tool is at work: the log is that of a killed one, which
tests/test_kill.py makes in earnest.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from playground.core.decide import next_commands
from playground.core.errors import Conflict, Refused, StoreError
from playground.core.events import (
    CallDecided,
    CallInterrupted,
    CallStarted,
    RequestSent,
    ResponseFailed,
)
from playground.core.rules import Rule
from playground.core.tools import Tool, ToolResult, text_result
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.executors.executor import Invocation, ReportProgress
from playground.render.blocks import block
from playground.render.view import View
from tests.engines import ALLOW_ALL, StartEngine, create_session, events_of, run_engine, run_prompt
from tests.net.test_client import serving
from tests.render.page import ENV, NOW_MS, parse
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}
NOTE = Tool("note", "Notes a text.", PARAMETERS, config={"result": "noted"}, parallel_safe=True)

SPOILED = (
    "UPDATE events SET kind = 'gone' WHERE session = ? AND kind = 'part_ended'",
    "DELETE FROM events WHERE session = ? AND kind = 'request_sent'",
    'UPDATE events SET kind = \'task_started\', body = \'{"task_id": "t", "call_id": "9.9",'
    ' "title": ""}\' WHERE session = ? AND kind = \'prompt_added\'',
)


class Effects:
    """In the place of the executors: what was run, and a tool that `hangs` until it is ended."""

    def __init__(self) -> None:
        self.ran: list[Invocation] = []
        self.hangs = True
        self.begun = asyncio.Semaphore(0)

    async def __call__(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        self.ran.append(invocation)
        self.begun.release()
        if self.hangs:
            await asyncio.Event().wait()
        return text_result("noted")

    @asynccontextmanager
    async def running(self, folder: Path) -> AsyncIterator[Engine]:
        async with run_engine(folder) as engine:
            engine.executors.run = self  # type: ignore[method-assign]
            yield engine


async def crashed(
    folder: Path, effects: Effects, prompt: str = "Use note", *, calls: int = 1
) -> str:
    """A session, with a rule that runs all, that was cut while so many calls ran; its id."""
    async with effects.running(folder) as engine:
        session_id = await create_session(engine, [NOTE], rules=ALLOW_ALL)
        await engine.runner.prompt(session_id, prompt)
        async with asyncio.timeout(40):
            for _ in range(calls):
                await effects.begun.acquire()
    effects.hangs = False
    return session_id


@pytest.mark.parametrize(
    ("decision", "ran", "result"),
    [
        (DecisionRequest("run"), 1, "noted"),
        (DecisionRequest("run", arguments='{"text": "again"}'), 1, "noted"),
        (DecisionRequest("answer", text="It was noted."), 0, "It was noted."),
        (DecisionRequest("answer", text="It broke.", is_error=True), 0, "It broke."),
        (DecisionRequest("deny"), 0, "The user did not allow this call."),
        (DecisionRequest("deny", text="Once is enough."), 0, "Once is enough."),
    ],
)
async def test_each_choice_of_a_call_that_was_cut(
    tmp_path: Path, decision: DecisionRequest, ran: int, result: str
) -> None:
    effects = Effects()
    session_id = await crashed(tmp_path, effects)
    (before,) = effects.ran
    async with effects.running(tmp_path) as engine:
        session = await wait_while_running(engine, session_id)
        (call,) = session.waiting
        assert (session.state, call.status, call.attempt) == ("waiting", "interrupted", 2)
        # The rule is still there, and does not speak for the user.
        assert [rule.action for rule in engine.rules.rules_of(session_id)] == ["run"]
        await engine.runner.advance(session_id)
        assert (effects.ran, next_commands(session, engine.rules.rules_of(session_id))) == (
            [before],
            [],
        )
        log = await engine.log.events(session_id)
        (decided,) = events_of(log, CallDecided)
        with pytest.raises(Conflict, match="out of date"):
            await engine.runner.decide(
                session_id, call.id, replace(decision, digest=decided.digest)
            )
        assert effects.ran == [before]

        await engine.runner.decide(session_id, call.id, replace(decision, digest=call.digest))
        session = await wait_while_running(engine, session_id)
        done = session.call(call.id)
        assert session.state == "idle"
        assert done.result is not None
        assert (done.result.text, done.result.is_error) == (
            result,
            decision.is_error or decision.decision == "deny",
        )
        log = await engine.log.events(session_id)
        assert [item.attempt for item in events_of(log, CallStarted)] == [1, 2][: 1 + ran]
        assert [item.by for item in events_of(log, CallDecided)] == ["rule", "person"]
        assert len(effects.ran) == 1 + ran
    if ran:
        # Who has had its effect before can tell; who is asked for something else need not.
        same = decision.arguments is None
        assert (effects.ran[1].idempotency_key == before.idempotency_key) == same
        assert effects.ran[1].attempt == 2


@pytest.mark.parametrize("times", [1, 2])
async def test_what_a_person_edited_stays_edited_over_a_crash(tmp_path: Path, times: int) -> None:
    effects = Effects()
    async with effects.running(tmp_path) as engine:
        session_id = (await run_prompt(engine, "Use note", NOTE)).id
        call = (await wait_while_running(engine, session_id)).waiting[0]
        safe = DecisionRequest("run", call.digest, arguments='{"text": "safe"}')
        await engine.runner.decide(session_id, call.id, safe)
        await asyncio.wait_for(effects.begun.acquire(), 40)
    for _ in range(times - 1):
        async with effects.running(tmp_path) as engine:
            call = (await wait_while_running(engine, session_id)).waiting[0]
            await engine.runner.decide(session_id, call.id, DecisionRequest("run", call.digest))
            await asyncio.wait_for(effects.begun.acquire(), 40)
    effects.hangs = False
    async with effects.running(tmp_path) as engine:
        call = (await wait_while_running(engine, session_id)).waiting[0]
        assert (call.raw != safe.arguments, call.arguments) == (True, safe.arguments)
        async with engine.sessions.lock_session(session_id) as live:
            view = View(live.session, live.title, await engine.sessions.wire(live), NOW_MS)
            card = block(ENV, view, "call-1-1")
        assert "your edit" in parse(card).text
        assert card.count("safe") >= 3  # what changed, all of it, and where Edit & run begins
        await engine.runner.decide(session_id, call.id, DecisionRequest("run", call.digest))
        session = await wait_while_running(engine, session_id)
        assert session.turns[-1].request.body.count("safe") == 1  # the model reads what ran
    assert {invocation.arguments for invocation in effects.ran} == {safe.arguments}
    assert len(effects.ran) == times + 1


async def test_a_cut_edit_is_judged_as_it_is(tmp_path: Path) -> None:
    """Run anyway once is no yes for the next time, and no sound edit is blamed for its origin."""
    effects = Effects()
    async with effects.running(tmp_path) as engine:
        session_id = (await run_prompt(engine, "Use note", NOTE)).id
        call = (await wait_while_running(engine, session_id)).waiting[0]
        bad = DecisionRequest("run", call.digest, arguments='{"text": 7}', anyway=True)
        await engine.runner.decide(session_id, call.id, bad)
        await asyncio.wait_for(effects.begun.acquire(), 40)
    effects.hangs = False
    async with run_engine(tmp_path) as engine:
        call = (await wait_while_running(engine, session_id)).waiting[0]
        assert [problem.kind for problem in call.problems] == ["schema"]
        with pytest.raises(Refused, match="do not match the schema"):
            await engine.runner.decide(session_id, call.id, DecisionRequest("run", call.digest))
        unread = DecisionRequest("run", call.digest, anyway=True, seen=3)
        with pytest.raises(Refused, match="Some arguments were hidden"):
            await engine.runner.decide(session_id, call.id, unread)


async def test_the_card_of_a_cut_call_says_what_there_is_to_choose(tmp_path: Path) -> None:
    session_id = await crashed(tmp_path, Effects())
    async with run_engine(tmp_path) as engine, engine.sessions.lock_session(session_id) as live:
        view = View(live.session, live.title, await engine.sessions.wire(live), NOW_MS)
        card = parse(block(ENV, view, "call-1-1")).text
    for words in (
        "The call was running when the server stopped",
        "may have had an effect",
        "Run again",
        "Answer",
        "Deny",
    ):
        assert words in card, words


async def test_calls_that_were_cut_side_by_side_are_each_decided_by_itself(tmp_path: Path) -> None:
    effects = Effects()
    session_id = await crashed(tmp_path, effects, "[[fault:parallel-3]] Use note", calls=3)
    assert sorted(invocation.call for invocation in effects.ran) == ["1.0", "1.1", "1.2"]
    async with effects.running(tmp_path) as engine:
        session = await wait_while_running(engine, session_id)
        wishes = {"1.2": "run", "1.0": "deny", "1.1": "answer"}
        for call_id, wish in wishes.items():
            assert session.state == "waiting"
            digest = session.call(call_id).digest
            await engine.runner.decide(
                session_id, call_id, DecisionRequest(wish, digest, text=call_id)
            )
            session = await wait_while_running(engine, session_id)
        assert session.state == "idle"
        assert [invocation.call for invocation in effects.ran[3:]] == ["1.2"]
        body = session.turns[1].request.body
        assert -1 < body.index('"1.0"') < body.index('"1.1"') < body.index('"noted"')


async def test_an_answer_that_was_cut_is_asked_for_again_by_a_click_alone(tmp_path: Path) -> None:
    async with run_engine(tmp_path, pace=5) as engine:
        session_id = await create_session(engine, [NOTE], rules=ALLOW_ALL)
        await engine.runner.prompt(session_id, "Use note")
        await wait_for_event(engine, session_id, RequestSent)
    async with run_engine(tmp_path) as engine:
        session = await wait_while_running(engine, session_id)
        assert session.state == "interrupted"
        (failed,) = events_of(await engine.log.events(session_id), ResponseFailed)
        assert failed.failure == "interrupted"
        await engine.runner.advance(session_id)
        assert len(session.turns) == 1
        clicks = [engine.runner.retry(session_id, 1) for _ in range(5)]
        base_exceptions = await asyncio.gather(*clicks, return_exceptions=True)
        assert base_exceptions.count(None) == 1
        session = await wait_while_running(engine, session_id)
        assert (session.state, len(session.turns)) == ("idle", 3)


async def test_what_rules_would_go_on_with_waits_for_continue(tmp_path: Path) -> None:
    """A rule that was written, and then the end came: it is there again, and the run is held."""
    effects = Effects()
    effects.hangs = False
    rule = Rule("note", "run", words="always")
    for place, always in enumerate((False, True)):
        async with effects.running(tmp_path) as engine:
            session = await run_prompt(engine, "Use note", NOTE)
            where = "" if always else session.id
            await engine.rules.add(where, replace(rule, here=session.id), [NOTE])
        async with effects.running(tmp_path) as engine:
            session = await wait_while_running(engine, session.id)
            assert (session.state, session.paused) == ("paused", "restart")
            await engine.runner.advance(session.id)
            assert len(effects.ran) == place
        async with effects.running(tmp_path) as engine:  # and once more: it is said once
            again = await wait_while_running(engine, session.id)
            assert (again.state, again.seq) == ("paused", session.seq)
            await engine.runner.resume(session.id)
            session = await wait_while_running(engine, session.id)
            assert (session.state, len(effects.ran)) == ("idle", place + 1)


@pytest.mark.parametrize("rules", [(), ALLOW_ALL])
async def test_a_call_that_waits_waits_on_after_a_restart(
    tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    """Nothing was under way, and no rule decides it: not a word is added."""
    effects = Effects()
    asking = (Rule("note", "ask"), *rules)
    async with effects.running(tmp_path) as engine:
        session = await run_prompt(engine, "Use note", NOTE, rules=asking)
    async with effects.running(tmp_path) as engine:
        again = await wait_while_running(engine, session.id)
        assert (again.state, again.seq) == ("waiting", session.seq)
        (call,) = again.waiting
        await engine.runner.decide(session.id, call.id, DecisionRequest("deny", call.digest))
        assert (await wait_while_running(engine, session.id)).state == "idle"
    assert effects.ran == []


async def test_an_http_tool_is_told_by_a_header_that_it_is_the_same_again(tmp_path: Path) -> None:
    """The first attempt is cut after the request was read; the second bears the same key."""
    arrived, hangs = asyncio.Event(), True

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        if hangs:
            await reader.read()  # until the caller is gone
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnoted")
        await writer.drain()

    async with serving(play) as server:
        config = {"method": "POST", "url": f"{server.url}/note", "private": True}
        tool = replace(NOTE, answered_by="http", config=config)
        async with run_engine(tmp_path) as engine:
            session_id = await create_session(engine, [tool], rules=ALLOW_ALL)
            await engine.runner.prompt(session_id, "Use note")
            async with asyncio.timeout(20):
                await arrived.wait()
        hangs = False
        async with run_engine(tmp_path) as engine:
            (call,) = (await wait_while_running(engine, session_id)).waiting
            assert events_of(await engine.log.events(session_id), CallInterrupted)
            await engine.runner.decide(session_id, call.id, DecisionRequest("run", call.digest))
            assert (await wait_while_running(engine, session_id)).state == "idle"
    keys = [_header(request, b"idempotency-key") for request in server.seen]
    assert keys[0].startswith(f"{session_id}/{call.id}/".encode())
    assert keys == [keys[0]] * 2


def _header(request: bytes, name: bytes) -> bytes:
    lines = (line.partition(b": ") for line in request.split(b"\r\n"))
    return next(value for known, _, value in lines if known.lower() == name)


@pytest.mark.parametrize("spoiled", SPOILED)
async def test_a_session_that_cannot_be_read_keeps_no_other_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoiled: str, start_engine: StartEngine
) -> None:
    effects = Effects()
    bad = await crashed(tmp_path, effects)
    effects.hangs = True
    good = await crashed(tmp_path, effects)
    with closing(sqlite3.connect(tmp_path / "test.db")) as database, database:
        database.execute("UPDATE sessions SET state = 'running'")
        assert database.execute(spoiled, (bad,)).rowcount
    engine = await start_engine()
    assert (await wait_while_running(engine, good)).state == "waiting"
    assert f"Session {bad} was not recovered: The " in caplog.text
    with pytest.raises(StoreError):
        async with engine.sessions.lock_session(bad):
            pass
