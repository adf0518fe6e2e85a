"""An engine on a database of its own, with the simulator beside it on a real port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from playground.core.events import Event, Logged
from playground.core.rules import Rule
from playground.core.session import Session
from playground.core.settings import Profile
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.recorded_model import recorded_answers
from playground.engine.runner import RetryWaits
from playground.engine.settings import settings_from
from playground.simulator.app import simulator_app
from playground.simulator.recorded import RecordedSession
from playground.simulator.scenario import Script
from tests.databases import create_empty_database
from tests.engine.boundary import Boundary
from tests.in_process import serve_app
from tests.waiting import wait_while_running

KEY = "simulator-key-0123456789"
ALLOW_ALL = (Rule("*", "run", words="--allow all"),)

StartEngine = Callable[..., Awaitable[Engine]]
"""The fixture `start_engine`; it takes what `run_engine` takes."""


async def no_sleep(_: float) -> None:
    """The sleep between retries."""


@asynccontextmanager
async def run_engine(
    folder: Path,
    *,
    pace: float = 0.0,
    environment: Mapping[str, str] | None = None,
    waits: RetryWaits | None = None,
    scenario: Script | None = None,
    boundary: Boundary | None = None,
) -> AsyncIterator[Engine]:
    """An engine on the database of `folder` for as long as the block lasts. Retries come at once.
    `boundary` writes down what the simulator sends."""

    async def recorded_tape(session_id: str) -> RecordedSession | None:
        return await recorded_answers(engine.log, session_id)

    app = simulator_app(
        pace=pace, scenario=scenario, key=lambda sent: sent == KEY, tapes=recorded_tape
    )
    async with serve_app(app if boundary is None else boundary.around(app)) as url:
        await create_empty_database(folder / "test.db")
        engine = await Engine.open(
            folder / "test.db",
            simulator_url=lambda: url,
            simulator_key=KEY,
            environment=environment or {},
        )
        engine.runner.waits = waits or RetryWaits(sleep=no_sleep)
        try:
            yield engine
        finally:
            await engine.close()


async def create_session(
    engine: Engine,
    tools: Sequence[Tool | str] = (),
    *,
    rules: Sequence[Rule] = (),
    profile: Profile | None = None,
    asked_profile: str = "simulator",
    **fields: Any,
) -> str:
    """A new session; its id. `tools` are names of the library or whole tools."""
    named = [tool for tool in tools if isinstance(tool, str)]
    settings = await settings_from(engine, {"profile": asked_profile, "tools": named, **fields})
    own = tuple(tool for tool in tools if isinstance(tool, Tool))
    settings = replace(settings, tools=(*own, *settings.tools))
    if profile is not None:
        settings = replace(settings, profile=profile)
    session_id = await engine.sessions.create(settings)
    await engine.rules.put(session_id, rules, settings.tools)
    return session_id


async def run_prompt(engine: Engine, prompt: str, *tools: Tool | str, **more: Any) -> Session:
    """A new session that has run `prompt`."""
    session_id = await create_session(engine, tools, **more)
    await engine.runner.prompt(session_id, prompt)
    return await wait_while_running(engine, session_id)


def events_of(log: Sequence[Logged], kind: type[Event]) -> list[Any]:
    return [row.event for row in log if isinstance(row.event, kind)]
