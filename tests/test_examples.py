"""The files of examples/ are run by the commands of its README."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import Typed
from tests.commands.conftest import run_cli as run_cli  # the fixture
from tests.in_process import run_server
from tests.servers import ROOT, START_S, environment, run_command, run_simulator_process

EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "README.md").read_text("utf-8")
COMMANDS = re.findall(r"`((?:\w+=\w+ )?playground [^`]*)`", README)
RESULTS = {
    "--tools ./tools.json": "Oslo: rain, 11 degrees",
    "--tools ./tools.py": "68.0",
    "batch.yaml": "4 of 4 runs passed",
}
"""What a command prints, by words in it."""


def find_command(words: str) -> list[str]:
    """The words after `playground` of the first command in the README with these."""
    line = next(line for line in COMMANDS if words in line)
    return shlex.split(line.partition("playground ")[2])


def test_every_file_is_in_the_readme() -> None:
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert set(re.findall(r"^\| `([\w.]+)`", README, re.M)) == files


@pytest.mark.parametrize("words", RESULTS)
def test_a_command_works(run_cli: Typed, monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    monkeypatch.chdir(EXAMPLES)
    code, printed, _ = run_cli(*find_command(words))
    assert code == 0
    assert RESULTS[words] in printed


def test_the_tools_are_accepted_by_every_provider(run_cli: Typed) -> None:
    code, _, _ = run_cli("lint", str(EXAMPLES / "tools.json"))
    assert code == 0


@pytest.mark.slow
def test_the_scenario_answers_about_an_order(tmp_path: Path) -> None:
    words = find_command("simulate")
    words[words.index("--port") + 1] = "0"
    with run_simulator_process(EXAMPLES, *words[1:], "--pace", "0") as simulator:
        url = simulator.url
        asks = [each.replace("http://127.0.0.1:9000", url) for each in find_command("my order")]
        tools = str(EXAMPLES / "tools.json")
        asks = [tools if each == "./tools.json" else each for each in asks]
        done = run_command(*asks, cwd=tmp_path, ANTHROPIC_API_KEY="any")
        assert done.returncode == 0, done.stderr
        assert '{"state": "shipped", "days": 2}' in done.stdout
        assert "Order A1000 is shipped" in done.stdout
        assert simulator.end() == 0


def test_the_script_runs_the_calls_and_prints_the_answer(tmp_path: Path) -> None:
    with run_server(tmp_path / "api.db", PLAYGROUND_HOME=str(tmp_path)) as server:
        done = subprocess.run(
            [sys.executable, "api.py", server.link],
            cwd=EXAMPLES,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=START_S,
        )
    assert done.returncode == 0, done.stderr
    assert "calculator {'expression': '17*23'}" in done.stdout
    assert "391" in done.stdout.splitlines()[-1]
