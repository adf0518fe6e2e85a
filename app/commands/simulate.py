"""`playground simulate`: the simulator alone."""

from __future__ import annotations

import argparse
import asyncio

from app.commands.listening import bound, ended_by_signals, port_of, serve, server
from app.core.errors import BadInput
from app.simulator.app import ENDS, simulator_app
from app.simulator.scenario import Scenario, scenario


def main(arguments: argparse.Namespace) -> int:
    """Serve until stopped; 0 then."""
    script: Scenario | None = None
    if arguments.scenario is not None:
        try:
            text = arguments.scenario.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"Cannot read {arguments.scenario}: {error}.") from error
        script = scenario(text)
    asyncio.run(_simulate(arguments, script))
    return 0


async def _simulate(arguments: argparse.Namespace, script: Scenario | None) -> None:
    sock = bound("127.0.0.1", arguments.port)
    base = f"http://127.0.0.1:{port_of(sock)}"

    def ready() -> None:
        bases = ", ".join(base + path for path in dict.fromkeys(end.base for end in ENDS))
        print(f"Simulator on {base} (base URLs {bases})", flush=True)

    one = server(simulator_app(pace=arguments.pace, scenario=script))
    with sock, ended_by_signals(one, lambda: None):
        await serve(one, sock, ready)
