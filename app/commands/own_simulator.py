"""The simulator that `playground serve` carries below /sim, and that a command without a server has
beside its engine. Imported when it is first asked, or once the server has printed its link: with
the recordings that it plays it is a third of a start.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.types import ASGIApp

from app.commands.sockets import bind_socket, port_of, serve, server
from app.engine.engine import Engine
from app.engine.recorded_model import tape
from app.net.keys import harden_process
from app.simulator.app import simulator_app
from app.simulator.scenario import Script


def own_simulator(engine: Engine, key: str, pace: float, scenario: Script | None = None) -> ASGIApp:
    """It takes no other key than `key`, and plays the sessions of `engine` as models."""
    return simulator_app(
        pace=pace,
        scenario=scenario,
        key=lambda sent: secrets.compare_digest(sent.encode("utf-8", "replace"), key.encode()),
        tapes=lambda session_id: tape(engine.log, session_id),
    )


@asynccontextmanager
async def engine_beside_simulator(
    db: Path, scenario: Script | None = None
) -> AsyncIterator[Engine]:
    """An engine on the database `db`, with a simulator on a port of this machine that answers
    without delay; both end with the context."""
    key = secrets.token_urlsafe(16)
    with bind_socket("127.0.0.1", 0) as sock:
        url = f"http://127.0.0.1:{port_of(sock)}"
        harden_process()
        engine = await Engine.open(db, simulator_url=lambda: url, simulator_key=key)
        simulator = server(own_simulator(engine, key, 0.0, scenario))
        serving = asyncio.create_task(serve(simulator, sock, lambda: None))
        try:
            yield engine
        finally:
            await engine.close()
            simulator.should_exit = True
            await serving
