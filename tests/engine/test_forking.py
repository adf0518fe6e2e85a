"""Forks: they share what came before, and touch nothing of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.core.events import RequestSent
from app.core.rows import logged_data
from app.engine.engine import Engine
from app.engine.forking import Place, fork
from tests.engine.running import ALLOW_ALL, asked, rested, running

pytestmark = pytest.mark.anyio


async def bodies(engine: Engine, session_id: str) -> list[str]:
    log = await engine.log.events(session_id)
    return [one.event.body for one in log if isinstance(one.event, RequestSent)]


async def kept(engine: Engine, session_id: str) -> Any:
    log = [logged_data(one) for one in await engine.log.events(session_id)]
    return log, await engine.log.chunks(session_id)


@pytest.mark.parametrize(
    "profile",
    [
        "simulator",
        *("simulator-openai", "simulator-responses", "simulator-gemini", "simulator-ollama"),
    ],
)
async def test_a_fork_begins_with_the_parents_bytes_and_leaves_it_as_it_was(
    tmp_path: Path, profile: str
) -> None:
    async with running(tmp_path) as engine:
        parent = await asked(
            engine, "Weather in Paris?", "get_weather", asked_profile=profile, rules=ALLOW_ALL
        )
        before = await kept(engine, parent.id)
        child = await rested(engine, await fork(engine, parent.id, Place(turn=2)))
        assert child.forks[0][1].parent == parent.id
        assert await kept(engine, parent.id) == before
        sent, again = await bodies(engine, parent.id), await bodies(engine, child.id)
        assert again == sent
        chunks = {one.recording: one for one in await engine.log.chunks(child.id)}
        assert chunks[1] in before[1]
        (rows,) = await engine.database.rows(
            "SELECT count(*) FROM chunks WHERE session = ? AND recording = 1", (child.id,)
        )
        assert rows[0] == 0


async def test_another_prompt_keeps_what_stood_before_it(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        parent = await asked(engine, "Weather in Paris?", "get_weather", rules=ALLOW_ALL)
        place = Place(prompt=1)
        child = await rested(engine, await fork(engine, parent.id, place, text="Hello there"))
        first = json.loads((await bodies(engine, child.id))[0])
        assert first["messages"][0]["content"][-1]["text"] == "Hello there"
