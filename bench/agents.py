"""Coding agents against the simulator, without a key: each reads a file and edits it.

    python bench/agents.py NODE_MODULES [--tap] [--hold SECONDS [--results]] [AGENT ...]
    python bench/agents.py NODE_MODULES --resume [AGENT ...]

NODE_MODULES is a folder in which these packages of npm are installed, all of them or some:
@anthropic-ai/claude-code@2.1.330, @openai/codex@0.169.0, @google/gemini-cli@0.61.0,
opencode-ai@1.18.33, the versions with which the rows of `tap/agents.py` were tried; and
@earendil-works/pi-coding-agent@1.6.0, @qwen-code/qwen-code@0.24.4, @github/copilot@1.0.102 and
cline@3.0.65, which have no row there. Several need Node 22. Each agent gets a folder, a home and a
simulator of its own, and nothing of the user's configuration. With --tap it is started by
`playground tap`, and a server is between, whose requests and sessions are told. With --hold, too,
and every call stops there: the first one runs at once, the one that edits after so many seconds,
with other arguments, which are what the file must show then. With --results it is every result that
stops: what the agent read is held so long and edited, so that there is nothing left to replace,
which is what the model must say then, with the file as it was. With --resume each works twice
behind a tap that stops at calls, the second time in its continued conversation, and the calls that
did not wait are counted. How many requests came with `stream: false` is told. Exit code 1 where an
agent did not do its work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from playground.commands.tap import LocalServer, find_or_start
from playground.store.database import owner_of
from playground.tap import agents as launchers

ROOT = Path(__file__).resolve().parent.parent
FILE, TEXT = "notes.txt", "The colour of the sky.\nSecond line.\n"
PROMPT = f"Read {FILE}, then replace 'colour' with 'color' in it."
NEXT_PROMPT = f"Read {FILE}, then replace 'Second' with 'color' in it."
"""The prompt of a conversation that is continued."""
LONGEST_S = 180
EDITED = "hue"
"""What a held call writes in the place of "color"."""

_CODEX_EXEC = ("exec", "--skip-git-repo-check", "-s", "workspace-write", "-m", "gpt-5-codex")
_OPENCODE_ENV = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

_CLAUDE = ("--allowedTools", "Read,Edit")
_GEMINI = ("-m", "gemini-2.5-pro", "--yolo")
_QWEN = ("--auth-type", "openai", "--yolo")

KEY = "SCENARIO_API_KEY"
"""The variable of our key for the simulator: it takes any."""


@dataclass(frozen=True)
class Agent:
    """How an agent is started: the functions get the simulator's address. `files` are put into its
    home, by their paths there."""

    name: str
    program: str
    arguments: Callable[[str], Sequence[str]]
    environment: Callable[[str], Mapping[str, str]]
    files: Callable[[str], Mapping[str, str]] = lambda url: {}


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


def _pi_files(url: str) -> Mapping[str, str]:
    api = {"baseUrl": f"{url}/openai/v1", "api": "openai-completions", "apiKey": "any"}
    models = {"providers": {"sim": {**api, "models": [{"id": "m"}]}}}
    return {".pi/agent/models.json": json.dumps(models)}


def _cline_files(url: str) -> Mapping[str, str]:
    name = "openai-compatible"
    settings = {"provider": name, "apiKey": "any", "model": "m", "baseUrl": f"{url}/openai/v1"}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00Z", "tokenSource": "manual"}
    stored = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: provider}}
    return {".cline/data/settings/providers.json": json.dumps(stored)}


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
        lambda url: {
            ".gemini/settings.json": json.dumps(
                {"security": {"auth": {"selectedType": "gemini-api-key"}}}
            )
        },
    ),
    Agent("opencode", "opencode", lambda url: ("run", "-m", "sim/m", PROMPT), _opencode),
    Agent(
        "pi",
        "pi",
        lambda url: ("-p", "--provider", "sim", "--model", "m", PROMPT),
        lambda url: {"PI_OFFLINE": "1"},
        _pi_files,
    ),
    Agent(
        "qwen-code",
        "qwen",
        lambda url: ("--auth-type", "openai", "--yolo", PROMPT),
        lambda url: {
            "OPENAI_BASE_URL": f"{url}/openai/v1",
            "OPENAI_API_KEY": "any",
            "OPENAI_MODEL": "m",
        },
    ),
    Agent(
        "copilot-cli",
        "copilot",
        lambda url: ("-p", PROMPT, "--allow-all-tools"),
        lambda url: {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/openai/v1",
            "COPILOT_PROVIDER_API_KEY": "any",
            "COPILOT_MODEL": "m",
        },
    ),
    Agent("cline", "cline", lambda url: ("-P", "openai", PROMPT), lambda url: {}, _cline_files),
)


@contextmanager
def simulator() -> Iterator[str]:
    """The address of a simulator that plays the scenario."""
    words = ("simulate", "--scenario", "coding-agent", "--pace", "0")
    with subprocess.Popen(
        (sys.executable, "-m", "playground.cli", *words),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split(" on ")[1].split()[0]
        finally:
            process.terminate()


@dataclass(frozen=True)
class Work:
    """A folder with the file, and a home with `files`."""

    folder: Path

    def prepare(self, files: Mapping[str, str]) -> None:
        (self.folder / "home").mkdir()
        for name, text in files.items():
            path = self.folder / "home" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.folder / "work").mkdir()
        (self.folder / "work" / FILE).write_text(TEXT)

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        environ: Mapping[str, str],
        text: str = TEXT.replace("colour", "color"),
        more_s: float = 0,
    ) -> bool:
        """Whether the agent did its work, after which the file holds `text`; what it said goes to
        the terminal. It may take `more_s` seconds longer."""
        stored_data = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"HOME": str(self.folder / "home"), "TERM": "dumb", "NO_COLOR": "1"}
        try:
            ran = subprocess.run(
                command,
                cwd=self.folder / "work",
                env={**stored_data, **own, **environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LONGEST_S + more_s,
            )
            code, message = str(ran.returncode), ran.stdout
        except subprocess.TimeoutExpired as error:
            code, message = "none, for it took too long", str(error.stdout or "")
        done = (self.folder / "work" / FILE).read_text() == text
        last = "\n  ".join(message.strip().splitlines()[-3:])
        print(f"{name}: {'done' if done else 'NOT DONE'}, exit code {code}\n  {last}", flush=True)
        return done and code == "0"


def tried(agent: Agent, program: Path) -> bool:
    """Whether `agent` did its work with the simulator's address."""
    with simulator() as url, tempfile.TemporaryDirectory() as folder:
        work = Work(Path(folder))
        work.prepare(agent.files(url))
        command: Sequence[str | Path] = (program, *agent.arguments(url))
        return work.run(agent.name, command, agent.environment(url))


# Through a tap ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TappedAgent:
    """The launcher's name of an agent, or else its program, with its own arguments, the protocol
    that it speaks and where the simulator does. `resumed` are the arguments that continue its last
    conversation, and `opening` begin one without calls, where one with calls cannot be resumed."""

    name: str
    protocol: str
    path: str
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    resumed: Sequence[str] = ()
    opening: Sequence[str] = ()

    def command(self, db: Path, *options: str, resumed: bool | None = None) -> Sequence[str]:
        known = [self.name] if self.name in launchers.AGENTS else []
        words = ("tap", *known, "--db", str(db), "--upstream", "scenario", *options, "--")
        own = self.resumed if resumed else self.arguments
        if resumed is False and self.opening:
            own = self.opening
        program = [] if known else [self.name]
        return (sys.executable, "-m", "playground.cli", *words, *program, *own)


TAPPED = {
    "claude-code": TappedAgent(
        "claude",
        "anthropic",
        "/anthropic",
        ("-p", PROMPT, *_CLAUDE),
        resumed=("-c", "-p", NEXT_PROMPT, *_CLAUDE),
    ),
    "codex": TappedAgent(
        "codex",
        "openai_responses",
        "/openai/v1",
        (*_CODEX_EXEC, PROMPT),
        resumed=(*_CODEX_EXEC, "resume", "--last", NEXT_PROMPT),
    ),
    "gemini-cli": TappedAgent(
        "gemini",
        protocol="gemini",
        path="/gemini",
        arguments=(*_GEMINI, "-p", PROMPT),
        environment={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        resumed=(*_GEMINI, "--resume", "latest", "-p", NEXT_PROMPT),
        # It sends each result of a resumed history twice, which Google refuses.
        opening=(*_GEMINI, "-p", "Hello"),
    ),
    "opencode": TappedAgent(
        "opencode",
        protocol="anthropic",
        path="/anthropic",
        arguments=("run", PROMPT),
        environment=_OPENCODE_ENV,
        resumed=("run", "-c", NEXT_PROMPT),
    ),
    "qwen-code": TappedAgent(
        "qwen",
        protocol="openai_chat",
        path="/openai/v1",
        arguments=(*_QWEN, PROMPT),
        environment={"OPENAI_MODEL": "m", "OPENAI_API_KEY": "any"},
        resumed=(*_QWEN, "-c", NEXT_PROMPT),
    ),
}


class Holder(Thread):
    """Has every call or, with `results`, every result stop at `server`, and decides it: the call
    that writes "color", or the result that says "colour", after `hold_s` seconds and with EDITED in
    its place, all others at once. `held` are those that were held."""

    def __init__(self, server: LocalServer, hold_s: float, *, results: bool = False) -> None:
        super().__init__(daemon=True)
        self.server, self.hold_s, self.over = server, hold_s, Event()
        self.results = results
        self.hold_times: dict[str, float] = {}

    def run(self) -> None:
        stop_at = "results" if self.results else "calls"
        while not self.over.wait(0.1):
            for tap in self.server.ask("GET", "/taps"):
                if tap["stop_at"] == "nothing" and tap["revoked_ms"] is None:
                    self.server.ask("POST", f"/taps/{tap['id']}/settings", {"stop_at": stop_at})
            for session in self.server.ask("GET", "/sessions"):
                place = f"/sessions/{session['id']}"
                for call in self.server.ask("GET", place)["calls"]:
                    if call["status"] == "waiting":
                        self._decide(f"{place}/calls/{call['id']}", call)
                    elif call["status"] == "running" and call["real"] is not None:
                        self._decide_result(f"{place}/calls/{call['id']}", call)

    def _decide_result(self, place: str, call: Mapping[str, Any]) -> None:
        since = self.hold_times.setdefault(place, time.monotonic())
        text = "".join(piece["text"] for piece in call["real"]["content"])
        edits = "colour" in text
        if edits and time.monotonic() < since + self.hold_s:
            return
        more = {"text": text.replace("colour", EDITED)} if edits else {}
        self.server.ask("POST", f"{place}/result", {"digest": call["digest"], **more})
        self._report(f"the result of {call['name']}", since, edits)

    def _report(self, name: str, since: float, edits: bool) -> None:
        took = time.monotonic() - since
        print(f"  {name} held {took:.0f} s" + (", then edited" if edits else ""), flush=True)

    def _decide(self, place: str, call: Mapping[str, Any]) -> None:
        since = self.hold_times.setdefault(place, time.monotonic())
        edits = "color" in call["arguments_raw"]
        if edits and time.monotonic() < since + self.hold_s:
            return
        decision = {"decision": "run", "digest": call["digest"]}
        if edits:
            arguments = json.loads(call["arguments_raw"].replace("color", EDITED))
            decision["arguments"] = arguments
        self.server.ask("POST", f"{place}/decision", decision)
        self._report(call["name"], since, edits)


@dataclass(frozen=True)
class TapBench:
    """A server with its own database, whose upstream is the scenario, and an agent's folder."""

    work: Work
    db: Path
    server: LocalServer
    environ: Mapping[str, str]


@contextmanager
def tap_bench(row: TappedAgent, binaries: Path) -> Iterator[TapBench]:
    with simulator() as url, tempfile.TemporaryDirectory() as folder:
        work, db = Work(Path(folder)), Path(folder) / "tap.db"
        work.prepare({})
        os.environ[KEY] = "any"
        server = find_or_start(db, 0, LONGEST_S)
        profile = {"protocol": row.protocol, "base_url": url + row.path, "key_name": KEY}
        server.ask("POST", "/providers", {"name": "scenario", "model": "m", **profile})
        server.ask("POST", "/keys", {"name": KEY, "base_url": url + row.path})
        path = f"{binaries}:{os.environ['PATH']}"
        try:
            yield TapBench(
                work, db, server, {"PATH": path, "PYTHONPATH": str(ROOT / "app"), **row.environment}
            )
        finally:
            owner = owner_of(db)
            if owner is not None:
                os.kill(owner.pid, signal.SIGTERM)


def tried_resumed(agent: Agent, binaries: Path) -> bool:
    """Whether each call waited for its decision, in a first run and in one that continues its
    conversation: the call that edits is changed while it waits, which the file must show."""
    row = TAPPED[agent.name]
    text, right, known_ids = TEXT, True, set[str]()
    with tap_bench(row, binaries) as bench:
        holder = Holder(bench.server, 1)
        holder.start()
        for resumed, old in ((False, "colour"), (True, "Second")):
            works = resumed or not row.opening
            text = text.replace(old, EDITED) if works else text
            command = row.command(bench.db, "--stop-at", "calls", resumed=resumed)
            name = f"{agent.name}, {'resumed' if resumed else 'first run'}"
            right = bench.work.run(name, command, bench.environ, text, 1) and right
            calls = [call for call in _calls(bench.server) if call[1] not in known_ids]
            passed = [name for place, _, name in calls if place not in holder.hold_times]
            known_ids |= {id_ for _, id_, _ in calls}
            print(f"  calls: {len(calls)}, not held: {', '.join(passed) or 'none'}", flush=True)
            right = right and not passed and (not works or len(calls) >= 2)
        holder.over.set()
        holder.join(10)
    return right


def _calls(server: LocalServer) -> Iterator[tuple[str, str, str]]:
    """(path, id of the provider, name) of all calls; those of a history have ids seen before."""
    for session in server.ask("GET", "/sessions"):
        place = f"/sessions/{session['id']}"
        for call in server.ask("GET", place)["calls"]:
            yield f"{place}/calls/{call['id']}", call["provider_id"], call["name"]


def tried_through_a_tap(
    agent: Agent, binaries: Path, hold_s: float | None, *, results: bool = False
) -> bool:
    """Whether `agent` did its work with a server between, which saw all of it: no request went
    elsewhere, for the file was edited by what the simulator said."""
    row = TAPPED[agent.name]
    with tap_bench(row, binaries) as bench:
        server = bench.server
        holder = None if hold_s is None else Holder(server, hold_s, results=results)
        text = TEXT.replace("colour", "color")
        if holder is not None:
            holder.start()
            text = TEXT if results else TEXT.replace("colour", EDITED)
        name = f"{agent.name}, through a tap"
        command = row.command(bench.db)
        done = bench.work.run(name, command, bench.environ, text, hold_s or 0)
        if holder is not None:
            holder.over.set()
            holder.join(10)
        (tap,) = server.ask("GET", "/taps")
        listed = server.ask("GET", "/sessions")
        sessions = [server.ask("GET", f"/sessions/{session['id']}") for session in listed]
        bodies = list(_bodies(server, sessions))
        others = [f"{other['method']} {other['path']}" for other in tap["other_requests"]]
        ended = "revoked" if tap["revoked_ms"] is not None else "NOT REVOKED"
        unstreamed_count = sum(body.get("stream") is False for body in bodies)
        print(f"  tap {ended}; {tap['requests']} requests, of no conversation: {others or 'none'}")
        print(f"  requests with stream: false: {unstreamed_count} of {len(bodies)}")
        for session in sessions:
            calls = ", ".join(f"{call['name']} {call['status']}" for call in session["calls"])
            output = f"{session['state']}, {session['turns']} turns; calls: {calls or 'none'}"
            print(f"  session: {output}; {session['text']!r}", flush=True)
        wanted = ("found nothing in it", 1) if results else ("Done", 2)
        was_told = any(
            wanted[0] in session["text"]
            and [call["status"] for call in session["calls"]] == ["done"] * wanted[1]
            for session in sessions
        )
        return done and was_told and ended == "revoked"


def _bodies(
    server: LocalServer, sessions: Sequence[Mapping[str, Any]]
) -> Iterator[Mapping[str, Any]]:
    """The bodies of all requests that went on."""
    for session in sessions:
        for number in range(1, session["turns"] + 1):
            yield server.ask("GET", f"/sessions/{session['id']}/requests/{number}/body")


def main(arguments: Sequence[str]) -> int:
    through_a_tap = "--tap" in arguments
    results, resume = "--results" in arguments, "--resume" in arguments
    words = [word for word in arguments if word not in ("--tap", "--results", "--resume")]
    hold_s = None
    if "--hold" in words:
        place = words.index("--hold")
        hold_s = float(words[place + 1])
        del words[place : place + 2]
    if not words:
        print(__doc__)
        return 2
    binaries, names = Path(words[0]).resolve() / ".bin", words[1:]
    wrong_count = 0
    for agent in AGENTS:
        program = binaries / agent.program
        if names and agent.name not in names:
            continue
        if not program.exists():
            print(f"{agent.name}: not installed there")
            continue
        if (through_a_tap or resume or hold_s is not None) and agent.name not in TAPPED:
            print(f"{agent.name}: has no row for a tap")
            continue
        if resume:
            done = tried_resumed(agent, binaries)
        elif through_a_tap or hold_s is not None:
            done = tried_through_a_tap(agent, binaries, hold_s, results=results)
        else:
            done = tried(agent, program)
        wrong_count += not done
    return 1 if wrong_count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
