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
@pytest.mark.parametrize(
    "how", [("--tap",), ("--hold", "1"), ("--hold", "1", "--results")], ids=" ".join
)
@pytest.mark.parametrize("agent", PROGRAMS)
def test_a_real_agent_works_behind_a_tap(agent: str, how: tuple[str, ...]) -> None:
    """Held are every call, the one that edits gets other arguments; or every result, what was read
    becomes something else."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: install Node.js to try real agents.")
    if not (Path(MODULES) / ".bin" / PROGRAMS[agent]).exists():
        pytest.skip(f"{agent} is not installed where PLAYGROUND_AGENTS says (bench/agents.py).")
    done = subprocess.run(
        (sys.executable, str(ROOT / "bench" / "agents.py"), MODULES, *how, agent),
        capture_output=True,
        text=True,
        timeout=270,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
