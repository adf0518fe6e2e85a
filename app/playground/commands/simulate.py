"""`playground simulate`: the simulator alone."""

from __future__ import annotations

import argparse
from pathlib import Path

from playground import config
from playground.commands.sockets import (
    bind_socket,
    end_on_signals,
    port_of,
    run_loop,
    serve,
    server,
)
from playground.core.errors import BadInput
from playground.exchange.parsers import MOST_BYTES
from playground.simulator import CODING_AGENT
from playground.simulator.app import ENDS, simulator_app
from playground.simulator.scenario import CodingAgent, Script, script


def main(arguments: argparse.Namespace) -> int:
    """Serves until stopped; returns 0."""
    played = None if arguments.scenario is None else load_scenario(arguments.scenario)
    run_loop(_simulate(arguments, played))
    return 0


def load_scenario(given: str) -> Script:
    """The scenario in a file, or the built-in one of this name; a file takes precedence."""
    if given == CODING_AGENT and not Path(given).exists():
        return CodingAgent()
    try:
        text = config.read_file(Path(given), MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = f" Name a file, or {CODING_AGENT}."
        raise BadInput(f"Cannot read {given}: {error}.{hint}") from error
    return script(text)


async def _simulate(arguments: argparse.Namespace, played: Script | None) -> None:
    sock = bind_socket("127.0.0.1", arguments.port)
    base = f"http://127.0.0.1:{port_of(sock)}"

    def ready() -> None:
        bases = ", ".join(base + path for path in dict.fromkeys(end.base for end in ENDS))
        print(f"Simulator on {base} (base URLs {bases})", flush=True)

    instance = server(simulator_app(pace=arguments.pace, scenario=played))
    with sock, end_on_signals(instance, lambda: None):
        await serve(instance, sock, ready)
