"""The simulator that `playground serve` mounts below /sim, and that a command without a server runs
next to its engine."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path

from starlette.types import ASGIApp

from playground.commands.sockets import bind_socket, port_of, serve, server
from playground.core.messages import ModelRequest
from playground.engine.engine import Engine
from playground.engine.recorded_model import recorded_answers
from playground.evaluation import spec_reader
from playground.net.keys import harden_process
from playground.simulator.app import simulator_app
from playground.simulator.scenario import Scenario, ScenarioChoices, ScenarioTurn, script


class SuiteModels:
    """The scripted models of the built-in suite; requests they have no script for, and all other
    models, are left to the simulator's own."""

    def turn(self, request: ModelRequest) -> ScenarioTurn | None:
        return _suite().turn(request) if request.model.startswith("suite-") else None


@lru_cache(maxsize=1)
def _suite() -> Scenario | ScenarioChoices:
    return script(spec_reader.suite_scenario())


def own_simulator(engine: Engine, key: str, pace: float) -> ASGIApp:
    """Accepts no other key than `key`, and plays the sessions of `engine` as models."""
    return simulator_app(
        pace=pace,
        scenario=SuiteModels(),
        key=lambda sent: secrets.compare_digest(sent.encode("utf-8", "replace"), key.encode()),
        tapes=lambda session_id: recorded_answers(engine.log, session_id),
    )


@asynccontextmanager
async def engine_beside_simulator(db: Path) -> AsyncIterator[Engine]:
    """An engine on the database `db`, with a simulator on a port of this machine that answers
    without delay; both end with the context."""
    key = secrets.token_urlsafe(16)
    with bind_socket("127.0.0.1", 0) as sock:
        url = f"http://127.0.0.1:{port_of(sock)}"
        harden_process()
        engine = await Engine.open(db, simulator_url=lambda: url, simulator_key=key)
        simulator = server(own_simulator(engine, key, 0.0))
        serving = asyncio.create_task(serve(simulator, sock, lambda: None))
        try:
            yield engine
        finally:
            await engine.close()
            simulator.should_exit = True
            await serving
