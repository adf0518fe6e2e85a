"""Forks: they share what came before, and touch nothing of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from playground.core.errors import BadInput, Conflict, NotFound, Refused
from playground.core.events import CallStarted, RequestSent
from playground.core.serialization import logged_data
from playground.core.session import Session
from playground.engine.decisions import DecisionRequest
from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, fork, fork_with_answers
from playground.engine.manage_sessions import purge
from playground.engine.tool_runs import idempotency_key
from playground.store.log import family
from tests.engine.test_recovery import NOTE, Effects
from tests.engines import ALLOW_ALL, StartEngine, create_session, run_engine, run_prompt
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

CALL = ForkPlace(call="1.1")
"""The one call of `parent`."""
BETWEEN = ForkPlace(seq=-1)
"""Between the call and the request that tells its result; which event that is, the log says."""


@pytest.fixture(scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Engine]:
    async with run_engine(tmp_path_factory.mktemp("forking")) as engine:
        yield engine


@pytest.fixture(scope="module")
async def parent(engine: Engine) -> Session:
    """One call that a rule ran, and the answer to it."""
    return await run_prompt(engine, "Weather in Paris?", "get_weather", rules=ALLOW_ALL)


async def bodies(engine: Engine, session_id: str) -> list[str]:
    log = await engine.log.events(session_id)
    return [logged.event.body for logged in log if isinstance(logged.event, RequestSent)]


async def stored_session(engine: Engine, session_id: str) -> Any:
    log = [logged_data(event) for event in await engine.log.events(session_id)]
    return log, await engine.log.chunks(session_id)


async def test_another_prompt_keeps_what_stood_before_it(start_engine: StartEngine) -> None:
    engine = await start_engine()
    parent = await run_prompt(engine, "Weather in Paris?", "get_weather", rules=ALLOW_ALL)
    place = ForkPlace(prompt=1)
    child = await wait_while_running(
        engine, await fork(engine, parent.id, place, text="Hello there")
    )
    first = json.loads((await bodies(engine, child.id))[0])
    assert first["messages"][0]["content"][-1]["text"] == "Hello there"


async def halted(engine: Engine, session_id: str) -> Session:
    async with engine.sessions.lock_session(session_id) as live:
        return live.session


async def ids(engine: Engine) -> set[str]:
    """Of all sessions, deleted ones, too."""
    return {row[0] for row in await engine.database.rows("SELECT id FROM sessions")}


@pytest.mark.parametrize(
    ("place", "more", "error", "words"),
    [
        (ForkPlace(call="9.9"), {}, NotFound, "no call"),
        (ForkPlace(prompt=7), {}, NotFound, "no prompt 7"),
        (ForkPlace(turn=7), {}, NotFound, "no turn 7"),
        (ForkPlace(seq=9_999), {}, NotFound, "no event 9999"),
        (ForkPlace(seq=0), {}, Refused, "at least"),
        (ForkPlace(prompt=1), {"text": "  "}, Refused, "needs text or an image"),
        (ForkPlace(turn=1), {"text": "Hi"}, Refused, "needs a fork at a prompt"),
        (ForkPlace(turn=1), {"asked": DecisionRequest("deny")}, Refused, "Name the call"),
        (ForkPlace(seq=2), {"text": "Hi"}, Refused, "has no answer"),
        (BETWEEN, {"text": "Hi"}, Refused, "without a text"),
        (ForkPlace(), {"title": "x" * 201}, BadInput, "at most 200"),
        (CALL, {"asked": DecisionRequest("run", arguments="{")}, Refused, "cannot run"),
        (
            CALL,
            {"asked": DecisionRequest("run", arguments='{"city": 3}')},
            Refused,
            "do not match the schema",
        ),
        (CALL, {"asked": DecisionRequest("sing")}, BadInput, "run, answer or deny"),
        (CALL, {"change": lambda _: {"profile": "nobody"}}, NotFound, "nobody"),
        (CALL, {"change": lambda _: {"loud": True}}, BadInput, "no field 'loud'"),
    ],
)
async def test_what_is_refused_makes_no_fork(
    engine: Engine, parent: Session, place: ForkPlace, more: Any, error: type[Exception], words: str
) -> None:
    before = await ids(engine)
    if place is BETWEEN:
        place = ForkPlace(seq=parent.turns[1].seq - 1)
    with pytest.raises(error, match=words):
        await fork(engine, parent.id, place, **more)
    assert await ids(engine) == before


async def test_a_call_is_open_to_a_person_alone(engine: Engine, parent: Session) -> None:
    """No rule decides it, nor the parent's card, and it is another call for the tool, too."""
    async with engine.sessions.lock_session(parent.id) as live:
        rules = engine.rules.rules_of(parent.id)
        assert rules
        old = live.session.call(CALL.call)
    child = await wait_while_running(engine, await fork(engine, parent.id, CALL))
    assert child.state == "waiting"
    assert engine.rules.rules_of(child.id) == ()
    await engine.rules.put(child.id, ALLOW_ALL, child.settings.tools if child.settings else ())
    await engine.runner.advance(child.id)
    call = (await wait_while_running(engine, child.id)).call(CALL.call)
    assert call.status == "waiting"
    assert call.digest != old.digest
    with pytest.raises(Conflict, match="out of date"):
        await engine.runner.decide(child.id, call.id, DecisionRequest("run", old.digest))
    keys = [idempotency_key(text, call.id, call.arguments) for text in (parent.id, child.id)]
    assert keys[0] != keys[1]
    # From here on the fork's own rules decide what comes.
    await engine.runner.decide(
        child.id, call.id, DecisionRequest("answer", call.digest, text="Frogs.")
    )
    assert (await wait_while_running(engine, child.id)).state == "idle"


@pytest.mark.parametrize(
    ("place", "more"),
    [
        (ForkPlace(turn=2), {}),
        (ForkPlace(prompt=1), {"text": "Weather in Oslo?"}),
        (CALL, {}),
        (CALL, {"asked": DecisionRequest("answer", text="Frogs.")}),
        (CALL, {"asked": DecisionRequest("run", arguments='{"city": "Oslo"}')}),
    ],
)
async def test_nothing_is_sent_or_run_before_continue(
    engine: Engine, parent: Session, place: ForkPlace, more: Any
) -> None:
    child = await wait_while_running(engine, await fork(engine, parent.id, place, go=False, **more))
    assert (child.state, child.paused) == ("paused", "fork")
    log = await engine.log.events(child.id, child.forks[-1][0])
    assert not any(isinstance(logged.event, RequestSent | CallStarted) for logged in log)
    await engine.runner.resume(child.id)
    assert (await wait_while_running(engine, child.id)).state in ("idle", "waiting")


async def test_alternatives_to_one_call_go_on_by_themselves(
    engine: Engine, parent: Session
) -> None:
    answers = [
        DecisionRequest("answer", text="Frogs."),
        DecisionRequest("answer", text="No.", is_error=True),
    ]
    outputs = await fork_with_answers(engine, parent.id, CALL.call, answers)
    results = [(await wait_while_running(engine, text)).call(CALL.call).result for text in outputs]
    assert [(result.text, result.is_error) for result in results if result] == [
        ("Frogs.", False),
        ("No.", True),
    ]


async def test_alternatives_are_made_all_or_none(
    engine: Engine, parent: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await ids(engine)
    answers = [DecisionRequest("answer", text="Frogs."), DecisionRequest("run", arguments="{")]
    with pytest.raises(Refused, match="cannot run"):
        await fork_with_answers(engine, parent.id, CALL.call, answers)
    assert await ids(engine) == before
    decide = engine.runner.decide

    async def once(session_id: str, call_id: str, decision: DecisionRequest) -> None:
        monkeypatch.setattr(engine.runner, "decide", broken)
        await decide(session_id, call_id, decision)

    async def broken(session_id: str, call_id: str, decision: DecisionRequest) -> None:
        raise Conflict("Not now.")

    monkeypatch.setattr(engine.runner, "decide", once)
    with pytest.raises(Conflict, match="Not now"):
        await fork_with_answers(engine, parent.id, CALL.call, [answers[0]] * 3)
    for session_id in await ids(engine) - before:
        async with engine.sessions.lock_session(session_id) as live:
            assert live.deleted


async def test_the_parent_may_be_at_work_stopped_or_cut(tmp_path: Path) -> None:
    effects = Effects()
    async with effects.running(tmp_path) as engine:
        parent = await create_session(engine, [NOTE], rules=ALLOW_ALL)
        await engine.runner.prompt(parent, "Use note")
        async with asyncio.timeout(40):
            await effects.begun.acquire()
        children = [await fork(engine, parent, ForkPlace(), asked=None) for _ in range(2)]
        for text in children:  # the call that runs there is open here; nobody runs it twice
            child = await wait_while_running(engine, text)
            assert [call.status for call in child.calls()] == ["waiting"]
        assert (await halted(engine, parent)).state == "running"
        await engine.runner.stop(parent)
        after_stop = await wait_while_running(engine, await fork(engine, parent, ForkPlace()))
        assert after_stop.state == "interrupted"
        cut_short = await create_session(engine, [NOTE], rules=ALLOW_ALL)
        await engine.runner.prompt(cut_short, "Use note")
        async with asyncio.timeout(40):
            await effects.begun.acquire()
        count = len(effects.ran)
    effects.hangs = False
    async with effects.running(tmp_path) as engine:
        decision = DecisionRequest("run", arguments='{"text": "again"}')
        call = next((await halted(engine, cut_short)).calls())
        assert call.status == "interrupted"
        child = await wait_while_running(
            engine, await fork(engine, cut_short, ForkPlace(call=call.id), asked=decision)
        )
        assert [invocation.arguments for invocation in effects.ran[count:]] == ['{"text": "again"}']
        assert child.call(call.id).attempt == 1
        assert next((await halted(engine, cut_short)).calls()).status == "interrupted"


async def test_of_somebody_elses_session_nothing_is_taken_over_that_acts(
    engine: Engine, parent: Session
) -> None:
    async with engine.sessions.lock_session(parent.id) as live:
        live.own = False
    try:
        child = await wait_while_running(engine, await fork(engine, parent.id, CALL))
        assert child.settings is not None
        assert child.settings.tools == ()
        assert child.call(CALL.call).malformed
        # Nor by a fork of the fork, from before that was made.
        again = await wait_while_running(
            engine, await fork(engine, child.id, ForkPlace(turn=1), go=False)
        )
        assert again.settings is not None
        assert again.settings.tools == ()
        assert again.forks[-1][1].foreign
        last = await wait_while_running(
            engine, await fork(engine, again.id, ForkPlace(prompt=1), text="Hello")
        )
        assert last.settings is not None
        assert last.settings.tools == ()
    finally:
        async with engine.sessions.lock_session(parent.id) as live:
            live.own = True


async def test_what_is_shared_outlives_the_parent(start_engine: StartEngine) -> None:
    engine = await start_engine()
    parent = await run_prompt(engine, "Weather in Paris?", "get_weather", rules=ALLOW_ALL)
    child = await wait_while_running(engine, await fork(engine, parent.id, ForkPlace(turn=2)))
    grandchild = await wait_while_running(engine, await fork(engine, child.id, ForkPlace(turn=2)))
    before = {text: await stored_session(engine, text) for text in (child.id, grandchild.id)}
    for gone in (parent.id, child.id):
        await engine.runner.delete(gone)
        await purge(engine, [gone])
    assert await stored_session(engine, grandchild.id) == before[grandchild.id]
    assert [relative.id for relative in await family(engine.database, grandchild.id)] == [
        grandchild.id
    ]
