"""An engine on a database of its own, with the simulator beside it on a real port."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from playground.core.events import Event, Logged
from playground.core.rules import Rule
from playground.core.session import Session
from playground.core.settings import Profile
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.recorded_model import tape
from playground.engine.runner import RetryWaits
from playground.engine.settings import settings_from
from playground.simulator.app import simulator_app
from playground.simulator.recorded import Tape
from playground.simulator.scenario import Script
from playground.store.database import APPLICATION_ID, Database
from playground.store.schema import MIGRATIONS
from tests.engine.boundary import Boundary
from tests.loopback import listening

KEY = "simulator-key-0123456789"
ALLOW_ALL = (Rule("*", "run", words="--allow all"),)


async def at_once(_: float) -> None:
    """The sleep of a test: over before it began."""


EMPTY: list[bytes] = []
"""The file of a database to which nothing was written: to make one takes longer than most tests."""


async def make_empty(path: Path) -> None:
    """The file that `Engine.open` would make at `path`; a file that is there stays as it is."""
    if path.exists():
        return
    if not EMPTY:
        await (await Database.open(path)).close()
        EMPTY.append(path.read_bytes())
    else:
        path.write_bytes(EMPTY[0])


@asynccontextmanager
async def running(
    folder: Path,
    *,
    pace: float = 0.0,
    environment: Mapping[str, str] | None = None,
    waits: RetryWaits | None = None,
    scenario: Script | None = None,
    boundary: Boundary | None = None,
) -> AsyncIterator[Engine]:
    """An engine that is closed at the end, whatever happened. Retries come at once. `boundary`
    writes down what the simulator sends."""

    async def taped(session_id: str) -> Tape | None:
        return await tape(engine.log, session_id)

    app = simulator_app(pace=pace, scenario=scenario, key=lambda sent: sent == KEY, tapes=taped)
    async with listening(app if boundary is None else boundary.around(app)) as url:
        await make_empty(folder / "test.db")
        engine = await Engine.open(
            folder / "test.db",
            simulator_url=lambda: url,
            simulator_key=KEY,
            environment=environment or {},
        )
        engine.runner.waits = waits or RetryWaits(sleep=at_once)
        try:
            yield engine
        finally:
            await engine.close()


async def begun(
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


async def rested(engine: Engine, session_id: str, timeout_s: float = 40.0) -> Session:
    """The session as soon as it is not running any more."""
    async with asyncio.timeout(timeout_s):
        while True:
            position = engine.sessions.position
            async with engine.sessions.holding(session_id) as live:
                if live.session.state != "running":
                    return live.session
            await engine.sessions.wait(position, engine.sessions.list_version, timeout_s)


async def until(
    engine: Engine, session_id: str, kind: type[Event], timeout_s: float = 40.0
) -> None:
    """Until an event of `kind` is in the log of the session."""
    async with asyncio.timeout(timeout_s):
        while True:
            position = engine.sessions.position
            if any(isinstance(one.event, kind) for one in await engine.log.events(session_id)):
                return
            await engine.sessions.wait(position, engine.sessions.list_version, timeout_s)


async def asked(engine: Engine, prompt: str, *tools: Tool | str, **more: Any) -> Session:
    """A new session with one prompt, at its rest."""
    session_id = await begun(engine, tools, **more)
    await engine.runner.prompt(session_id, prompt)
    return await rested(engine, session_id)


def events_of(log: Sequence[Logged], kind: type[Event]) -> list[Any]:
    return [one.event for one in log if isinstance(one.event, kind)]


def older(path: Path, *changes: str) -> None:
    """Make the file at `path`, which nobody has open, one of schema 6, with `changes` in SQL: what
    later steps have no place for in it is left out."""
    old = path.with_name("old.db")
    with closing(sqlite3.connect(path)) as connection:
        for sql in changes:
            connection.execute(sql)
        connection.commit()
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript("".join(MIGRATIONS[:6]))
        connection.execute("ATTACH ? AS later", (str(path),))
        kinds = "type = 'table' AND name NOT GLOB 'found*' AND name NOT GLOB 'sqlite_*'"
        names = f"SELECT name FROM main.sqlite_master WHERE {kinds}"
        for (table,) in connection.execute(names).fetchall():
            columns = ", ".join(
                row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")
            )
            rows = f"SELECT {columns} FROM later.{table}"
            connection.execute(f"INSERT INTO main.{table} ({columns}) {rows}")
        connection.execute("INSERT INTO found (rowid, text) SELECT pos, text FROM texts")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 6")
        connection.commit()
    old.replace(path)
