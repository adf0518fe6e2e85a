"""A command is imported when it is run, without a look for garbage while it grows."""

from __future__ import annotations

import subprocess
import sys

from playground import cli
from tests.servers import ROOT, START_S, environment

SERVES = {
    "uvicorn",
    "starlette",
    "httpx",
    "anyio",
    "playground.engine.engine",
    "playground.web",
    "playground.simulator.app",
}


def test_a_command_that_only_reads_loads_no_server() -> None:
    modules = [cli.COMMANDS[name] for name in ("decode", "lint", "sessions", "verify", "export")]
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        timeout=START_S,
    )
    assert set(modules) <= set(done.stdout.split()), done.stderr
    assert SERVES & set(done.stdout.split()) == set()
