"""Coding agents against the simulator, without a key: each reads a file and edits it.

    python bench/agents.py NODE_MODULES [AGENT ...]

NODE_MODULES is a folder in which these packages of npm are installed, all of them or some:
@anthropic-ai/claude-code, @openai/codex, @google/gemini-cli, opencode-ai. Each agent gets a folder,
a home and a simulator of its own, and nothing of the user's configuration. Exit code 1 where one
did not do its work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE, TEXT = "notes.txt", "The colour of the sky.\nSecond line.\n"
PROMPT = f"Read {FILE}, then replace 'colour' with 'color' in it."
LONGEST_S = 180


@dataclass(frozen=True)
class Agent:
    """How an agent is started: both functions get the simulator's address. `files` are put into
    its home, by their paths there."""

    name: str
    program: str
    arguments: Callable[[str], Sequence[str]]
    environment: Callable[[str], Mapping[str, str]]
    files: Mapping[str, str] = field(default_factory=dict)


def _codex(url: str) -> Sequence[str]:
    provider = (
        f'{{name="sim", base_url="{url}/openai/v1", wire_api="responses", '
        'env_key="OPENAI_API_KEY"}'
    )
    return (
        *("exec", "--skip-git-repo-check", "-s", "workspace-write", "-m", "gpt-5-codex"),
        *("-c", "model_provider=sim", "-c", f"model_providers.sim={provider}", PROMPT),
    )


def _opencode(url: str) -> Mapping[str, str]:
    options = {"baseURL": f"{url}/openai/v1", "apiKey": "any"}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "sim",
        "options": options,
        "models": {"m": {"name": "m"}},
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps({"provider": {"sim": provider}, "model": "sim/m"}),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


AGENTS = (
    Agent(
        "claude-code",
        "claude",
        lambda url: ("-p", PROMPT, "--allowedTools", "Read,Edit"),
        lambda url: {
            "ANTHROPIC_BASE_URL": f"{url}/anthropic",
            "ANTHROPIC_API_KEY": "any",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    Agent("codex", "codex", _codex, lambda url: {"OPENAI_API_KEY": "any"}),
    Agent(
        "gemini-cli",
        "gemini",
        lambda url: ("-m", "gemini-2.5-pro", "--yolo", "-p", PROMPT),
        lambda url: {
            "GOOGLE_GEMINI_BASE_URL": f"{url}/gemini",
            "GEMINI_API_KEY": "any",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        {
            ".gemini/settings.json": json.dumps(
                {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            )
        },
    ),
    Agent("opencode", "opencode", lambda url: ("run", "-m", "sim/m", PROMPT), _opencode),
)


@contextmanager
def simulator() -> Iterator[str]:
    """The address of a simulator that plays the scenario."""
    words = ("simulate", "--scenario", "coding-agent", "--pace", "0")
    with subprocess.Popen(
        (sys.executable, "-m", "app.cli", *words), cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split(" on ")[1].split()[0]
        finally:
            process.terminate()


def tried(agent: Agent, program: Path) -> bool:
    """Whether `agent` did its work; what it said goes to the terminal."""
    with simulator() as url, tempfile.TemporaryDirectory() as folder:
        home, work = Path(folder) / "home", Path(folder) / "work"
        work.mkdir()
        (work / FILE).write_text(TEXT)
        for name, text in agent.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        home.mkdir(exist_ok=True)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": str(home), "TERM": "dumb", "NO_COLOR": "1"}
        try:
            ran = subprocess.run(
                (program, *agent.arguments(url)),
                cwd=work,
                env={**kept, **own, **agent.environment(url)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LONGEST_S,
            )
            code, said = str(ran.returncode), ran.stdout
        except subprocess.TimeoutExpired as error:
            code, said = "none, for it took too long", str(error.stdout or "")
        done = (work / FILE).read_text() == TEXT.replace("colour", "color")
    last = "\n  ".join(said.strip().splitlines()[-3:])
    print(f"{agent.name}: {'done' if done else 'NOT DONE'}, exit code {code}\n  {last}", flush=True)
    return done and code == "0"


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print(__doc__)
        return 2
    binaries, names = Path(arguments[0]).resolve() / ".bin", arguments[1:]
    wrong = 0
    for agent in AGENTS:
        program = binaries / agent.program
        if names and agent.name not in names:
            continue
        if not program.exists():
            print(f"{agent.name}: not installed there")
            continue
        wrong += not tried(agent, program)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
