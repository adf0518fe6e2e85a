"""The simulator that `playground serve` carries below /sim. Imported when it is first asked, or
once the server has printed its link: with the recordings that it plays it is a third of a start.
"""

from __future__ import annotations

import secrets

from starlette.types import ASGIApp

from app.engine.engine import Engine
from app.engine.recorded_model import tape
from app.simulator.app import simulator_app


def own_simulator(engine: Engine, key: str, pace: float) -> ASGIApp:
    """It takes no other key than `key`, and plays the sessions of `engine` as models."""
    return simulator_app(
        pace=pace,
        key=lambda sent: secrets.compare_digest(sent.encode("utf-8", "replace"), key.encode()),
        tapes=lambda session_id: tape(engine.log, session_id),
    )
