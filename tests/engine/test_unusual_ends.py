"""Answers that came to an end, of which no rule runs a call unseen; a user still can."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest

from playground.core.events import PartEnded
from playground.core.settings import Profile
from playground.engine.decisions import DecisionRequest
from playground.engine.responses import ResponseRecorder
from playground.engine.verify import Difference, verify
from tests.engines import ALLOW_ALL, create_session, run_engine, run_prompt
from tests.net.test_client import HEAD, serving
from tests.waiting import wait_for_event, wait_while_running

pytestmark = pytest.mark.anyio

SUM = {"expression": "17 * 23"}


def answer(arguments: Any, *, is_complete: bool = True) -> bytes:
    """A stream of Gemini's with one call and its finish reason, over a connection that ends well
    or breaks."""
    part = {"functionCall": {"name": "calculator", "args": arguments}}
    candidate = {"content": {"parts": [part]}, "finishReason": "STOP"}
    body = f"data: {json.dumps({'candidates': [candidate]})}\r\n\r\n".encode()
    length = len(body) if is_complete else len(body) + 100
    return HEAD + f"Connection: close\r\nContent-Length: {length}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (answer(json.dumps(SUM)), "reviewed first"),
        (answer(SUM, is_complete=False), "connection broke"),
    ],
    ids=["arguments as a text", "a connection that broke"],
)
async def test_no_rule_runs_it_and_a_person_can(tmp_path: Path, sent: bytes, why: str) -> None:
    async with run_engine(tmp_path) as engine, serving(sent) as it:
        profile = Profile("raw", "gemini", it.url, "", "m")
        session = await run_prompt(
            engine, "17 * 23?", "calculator", profile=profile, rules=ALLOW_ALL
        )
        (call,) = session.waiting
        assert why in call.asks
        assert json.loads(call.arguments) == SUM
        await engine.runner.decide(session.id, call.id, DecisionRequest("run", call.digest))
        await wait_while_running(engine, session.id)
        assert call.result is not None
        assert call.result.content[0].text == "17 * 23 = 391"
        differences: list[Difference] = []
        await verify(engine.database, differences.append)
    assert differences == []


async def test_nothing_of_a_broken_answer_stays_until_the_garbage_is_collected(
    tmp_path: Path,
) -> None:
    """All that was read of it, up to 64 MiB."""
    async with run_engine(tmp_path) as engine, serving(answer(SUM, is_complete=False)) as it:
        profile = Profile("raw", "gemini", it.url, "", "m")
        gc.collect()
        gc.disable()
        try:
            await run_prompt(engine, "17 * 23?", "calculator", profile=profile)
            left = [
                get_object
                for get_object in gc.get_objects()
                if isinstance(get_object, ResponseRecorder)
            ]
            assert not left
        finally:
            gc.enable()


async def test_a_sound_answer_runs_by_the_rule(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as engine, serving(answer(SUM)) as it:
        profile = Profile("raw", "gemini", it.url, "", "m")
        session = await run_prompt(
            engine, "17 * 23?", "calculator", profile=profile, rules=ALLOW_ALL, max_turns=1
        )
        (call,) = session.calls()
        assert (call.status, call.problems) == ("done", ())


async def test_an_answer_that_is_stopped_behind_its_finish_reason_is_stopped(
    tmp_path: Path,
) -> None:
    async with run_engine(tmp_path) as engine:
        profile = Profile("sim", "gemini", "sim:", model="gemini-3-simulated")
        session_id = await create_session(engine, ["calculator"], profile=profile, rules=ALLOW_ALL)
        await engine.runner.prompt(session_id, "[[fault:open-after-done]] What is 17 * 23?")
        await wait_for_event(engine, session_id, PartEnded)
        async with asyncio.timeout(20):
            await engine.runner.stop(session_id)
        session = await wait_while_running(engine, session_id)
        failure = session.turns[-1].failure
        assert failure is not None
        assert failure.failure == "stopped"
        differences: list[Difference] = []
        await verify(engine.database, differences.append)
    assert differences == []
