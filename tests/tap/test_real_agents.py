"""Coding agents from npm, behind a tap: each reads a file, edits it and ends, and its calls and
results are those of the wire. `bench/agents.py` does so; PLAYGROUND_AGENTS names the node_modules
in which the agents are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = os.environ.get("PLAYGROUND_AGENTS", "")
PROGRAMS = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini-cli": "gemini",
    "opencode": "opencode",
}


@pytest.mark.slow
@pytest.mark.parametrize("hold", [False, True], ids=["passed", "held"])
@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_real_agent_works_behind_a_tap(agent: str, hold: bool) -> None:
    """With `hold` every call waits, and the one that edits gets other arguments."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: install Node.js to try real agents.")
    if not (Path(MODULES) / ".bin" / PROGRAMS[agent]).exists():
        pytest.skip(f"{agent} is not installed where PLAYGROUND_AGENTS says (bench/agents.py).")
    how = ("--hold", "1") if hold else ("--tap",)
    done = subprocess.run(
        (sys.executable, str(ROOT / "bench" / "agents.py"), MODULES, *how, agent),
        capture_output=True,
        text=True,
        timeout=270,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
