"""The same prompt to several models: all of them or none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from playground.core.errors import BadInput, Refused
from playground.core.events import PromptAdded, SessionForked, SettingsChanged
from playground.core.settings import Settings
from playground.engine.engine import Engine
from playground.engine.fork import ForkPlace, ask_in_forks, ask_in_new_sessions, fork, settings_at
from playground.engine.settings import settings_from
from tests.engines import StartEngine, events_of, run_prompt
from tests.waiting import wait_while_running

pytestmark = pytest.mark.anyio

ROWS = ({"profile": "simulator-openai"}, {"profile": "simulator-gemini", "model": "sim-9"})


async def base(engine: Engine) -> Settings:
    return await settings_from(engine, {"tools": ["calculator"], "system": "Be brief."})


async def test_each_is_alike_but_for_its_row(engine: Engine) -> None:
    shared = await base(engine)
    ids = await ask_in_new_sessions(engine, "What is 17 * 23?\u202e " + "x" * 50, ROWS, shared)
    tags = ("asked: What is 17 * 23? " + "x" * 15 + "…",)
    assert {summary.tags for summary in await engine.log.summaries()} == {tags}
    for text, row in zip(ids, ROWS, strict=True):
        session = await wait_while_running(engine, text)
        own = session.settings
        assert own is not None
        assert (own.profile.name, own.model) == (row["profile"], row.get("model", ""))
        limits = shared.limits
        assert replace(own, profile=shared.profile, model="", limits=limits) == shared
        assert [call.name for call in session.calls()] == ["calculator"]


async def test_a_title_says_what_tells_it_apart(engine: Engine) -> None:
    rows = ({"profile": "simulator"}, {"profile": "simulator-openai"}, ROWS[1])
    ids = await ask_in_new_sessions(engine, "Hello.", rows, await base(engine))
    titles = {summary.id: summary.title for summary in await engine.log.summaries()}
    called = ("simulator", "simulator-openai", "sim-9")
    assert [titles[item_id] for item_id in ids] == [f"{name}: Hello." for name in called]


@pytest.mark.parametrize(
    ("text", "rows", "trouble"),
    [(" ", ROWS, Refused), ("Hi.", (*ROWS, {"profile": "nobody"}), BadInput)],
)
async def test_what_is_refused_makes_none(
    text: str, rows: Any, trouble: type[Exception], engine: Engine
) -> None:
    with pytest.raises(trouble):
        await ask_in_new_sessions(engine, text, rows, await base(engine))
    assert await engine.log.summaries() == []


async def test_forks_at_a_prompt_have_the_settings_of_then(engine: Engine) -> None:
    parent = await run_prompt(engine, "Hello.")
    async with engine.sessions.lock_session(parent.id) as live:
        changed = await settings_from(engine, {"system": "Shout."}, live.session.settings)
        await engine.sessions.append(live, [SettingsChanged(changed)])
        assert settings_at(live.session, ForkPlace()).system == "Shout."
        assert settings_at(live.session, ForkPlace(prompt=1)).system == ""
    ids = await ask_in_forks(engine, parent.id, ForkPlace(prompt=1), "Hello again.", ROWS)
    for item_id in ids:
        session = await wait_while_running(engine, item_id)
        log = await engine.log.events(item_id)
        assert session.settings is not None
        assert session.settings.system == ""
        assert [fork.parent for fork in events_of(log, SessionForked)] == [parent.id]
        assert [prompt.text for prompt in events_of(log, PromptAdded)] == ["Hello again."]


async def test_where_one_fork_fails_none_is_left(
    monkeypatch: pytest.MonkeyPatch, start_engine: StartEngine
) -> None:
    async def once(*args: Any, **named: Any) -> str:
        if "sim-9" in named["title"]:
            raise Refused("Not this one.")
        return await fork(*args, **named)

    engine = await start_engine()
    parent = await run_prompt(engine, "Hello.")
    monkeypatch.setattr("playground.engine.fork.fork", once)
    with pytest.raises(Refused, match="Not this one"):
        await ask_in_forks(engine, parent.id, ForkPlace(), "Again.", ROWS)
    assert [summary.id for summary in await engine.log.summaries()] == [parent.id]
