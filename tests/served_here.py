"""The server of `playground serve` in a thread of this process, for tests that ask it by HTTP.

A process of its own takes most of a second to start and to draw its first page; `tests/served.py`
has it, for the tests that end it, kill it, or look at what it reads and prints.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
from anyio.from_thread import start_blocking_portal

from playground.commands.own_simulator import own_simulator
from playground.engine.engine import Engine
from playground.web.app import make_app
from tests.loopback import LOOP, listening
from tests.served import Reached, environment

TOKEN = "token-of-a-server-in-this-process"


@contextmanager
def served_here(db: Path, pace: float = 0, **changes: str) -> Iterator[Reached]:
    """A server for as long as the block lasts; its simulator answers at once, or with `pace`.
    `changes` are those of its environment."""
    with (
        start_blocking_portal(backend_options=LOOP) as portal,
        portal.wrap_async_context_manager(_served(db, pace, environment(**changes))) as url,
    ):
        yield Reached(line=f"Playground on {url}/?token={TOKEN}", db=db)


@asynccontextmanager
async def _served(db: Path, pace: float, environ: dict[str, str]) -> AsyncIterator[str]:
    here = httpx.URL()
    engine = await Engine.open(
        db, simulator_url=lambda: f"{here}/sim", simulator_key=TOKEN, environment=environ
    )
    try:
        app, site = make_app(
            engine,
            token=TOKEN,
            port=lambda: here.port or 0,
            simulator=own_simulator(engine, TOKEN, pace),
        )
        async with listening(app) as url:
            here = httpx.URL(url)
            try:
                yield url
            finally:
                site.close()
                await engine.end_runs()
    finally:
        await engine.close()
