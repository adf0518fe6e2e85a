"""A command is imported when it is run, without a look for garbage while it grows."""

from __future__ import annotations

import gc
import subprocess
import sys
from types import SimpleNamespace

import pytest

from playground import cli
from playground.commands import decode
from tests.served import ROOT, START_S, environment


@pytest.mark.parametrize("breaks", [False, True])
def test_garbage_is_looked_for_again_after_a_command_is_imported(
    monkeypatch: pytest.MonkeyPatch, breaks: bool
) -> None:
    looked: list[bool] = []

    def imported(name: str) -> SimpleNamespace:
        looked.append(gc.isenabled())
        if breaks:
            raise ImportError(name)
        return SimpleNamespace(main=len)

    monkeypatch.setattr(cli, "import_module", imported)
    try:
        assert cli._command("playground.commands.new") is len
    except ImportError:
        assert breaks
    finally:
        gc.unfreeze()
    assert looked == [False]
    assert gc.isenabled()


def test_a_command_that_is_there_is_taken() -> None:
    assert cli._command(decode.__name__) is sys.modules[decode.__name__].main


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
