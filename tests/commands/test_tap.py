"""`playground tap`: what an agent finds when it starts, what stays of it, whose the signals are.

The agents are small scripts on PATH; the server has the routes that the launcher asks, and those of
the program are asked by the last test.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from playground.commands import tap as command
from playground.commands.serve import IdleWatch
from playground.commands.tap import find_or_start
from playground.core.providers import SIMULATORS, VENDORS
from playground.core.serialization import to_data
from playground.store.database import OwnerLock, owner_of
from playground.tap.agents import AGENTS
from tests.commands.conftest import Typed
from tests.in_process import LOOP, serve_app
from tests.servers import NO_TLS
from tests.waiting import wait_until

SECRET = "s3cret-of-this-tap"
TOKEN = "token-of-the-page"
PROFILES = {row.profile.name: row.profile for row in (*SIMULATORS, *VENDORS)}
HIDDEN = ("CLAUDE", "ANTHROPIC", "GEMINI", "OPENAI", "OPENCODE")

FAKE = """#!{python} -IS
import json, os, signal, sys
read = lambda path: open(path).read()
home = os.environ.get("GEMINI_CLI_HOME", "")
files = [word for word in sys.argv if word.endswith("settings.json")]
files += [home + "/.gemini/settings.json"] if home else []
umask = os.umask(0)
seen = {{
    "argv": sys.argv, "command_line": sys.orig_argv, "environ": dict(os.environ), "umask": umask,
    "group": os.getpgrp(), "ignored": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
    "files": {{path: [os.stat(path).st_mode & 0o777, read(path)] for path in files}},
}}
with open({record!r}, "w") as file:
    json.dump(seen, file)
{does}
"""

ASKS = """
from urllib import request
name, _, secret = os.environ["ANTHROPIC_CUSTOM_HEADERS"].partition(": ")
body = dict(model="m", max_tokens=99, messages=[dict(role="user", content="hi")])
headers = {name: secret, "content-type": "application/json", "anthropic-version": "2023-06-01"}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
asked = request.Request(url, json.dumps(body).encode(), headers)
answer = request.build_opener(request.ProxyHandler({})).open(asked, timeout=20)
sys.exit(20 + (json.load(answer)["type"] == "message"))
"""

TO_ITS_LAUNCHER = """
ends = [signal.SIGTERM, signal.SIGHUP]
signal.pthread_sigmask(signal.SIG_BLOCK, ends)
os.kill(os.getppid(), signal.SIGINT)
os.kill(os.getppid(), signal.SIGQUIT)
os.kill(os.getppid(), signal.{name})
sys.exit(100 + signal.sigwait(ends))
"""


@dataclass
class Stub:
    """The routes that a launcher asks. `asked` are method, path, token and body of what it did;
    `asked_often` is made when it has asked whether the server is there three times."""

    url: str = ""
    asked_often: Path | None = None
    asked: list[tuple[str, str, str, Any]] = field(default_factory=list)
    older: bool = False

    async def answer(self, request: Request) -> Response:
        body = await request.body()
        token = request.headers.get("authorization", "")
        path = request.url.path
        self.asked.append((request.method, path, token, json.loads(body) if body else None))
        if path == "/healthz":
            if self.asked_often is not None and self.paths().count(path) == 3:
                self.asked_often.touch()
            return PlainTextResponse("ok")
        name = path.removeprefix("/providers/")
        if token != f"Bearer {TOKEN}":
            return JSONResponse({"error": "No."}, 401)
        if name in PROFILES:
            return JSONResponse(to_data(PROFILES[name]))
        if path == "/taps" and request.method == "GET":
            return JSONResponse([{"id": "tap1", "revoked_ms": None}, {"id": "t", "revoked_ms": 1}])
        if path == "/taps" and not self.older:
            return JSONResponse({"id": "tap1", "secret": SECRET, "urls": {}}, 201)
        if path == "/taps/tap1/revoke":
            return JSONResponse({})
        return JSONResponse({"error": f"There is nothing like {name}.", "code": "not_found"}, 404)

    def paths(self) -> list[str]:
        return [path for _, path, _, _ in self.asked]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """One that owns the database a.db; HOME and the environment have nothing of the user's."""
    stub = Stub()
    for name in [name for name in os.environ if name.startswith(HIDDEN)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAYGROUND_TOKEN", TOKEN)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "scratch").mkdir()
    lock = OwnerLock(tmp_path / "a.db")
    lock.take()

    @asynccontextmanager
    async def serving() -> AsyncIterator[str]:
        every = Route("/{path:path}", stub.answer, methods=["GET", "POST"])
        async with serve_app(Starlette(routes=[every])) as url:
            yield url

    with (
        start_blocking_portal(backend_options=LOOP) as portal,
        portal.wrap_async_context_manager(serving()) as stub.url,
    ):
        lock.tell(stub.url)
        yield stub
    lock.release()


def fake(folder: Path, name: str, does: str = "") -> None:
    """An agent of that name on PATH, which writes down what it sees, and `does`."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    text = FAKE.format(python=sys.executable, record=str(folder / "seen"), does=does)
    (programs / name).write_text(text)
    (programs / name).chmod(0o755)
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"


def read_seen(folder: Path) -> Any:
    return json.loads((folder / "seen").read_text())


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_an_agent_with_its_tap(name: str, tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    stub.asked.clear()
    fake(tmp_path, name, "sys.exit(3)")
    stop_at = "calls" if name == "codex" else "nothing"
    stops = ("--stop-at", stop_at) if stop_at != "nothing" else ()
    code, out, message = run_cli("tap", name, *stops, "--db", "a.db", "--", "-p", "hi")
    assert (code, out) == (3, "")
    title = AGENTS[name].title
    assert message == f"playground: {title} is shown at {stub.url}/?token={TOKEN}\n"
    upstream = AGENTS[name].upstream
    body = {"upstream": upstream, "title": title, "stop_at": stop_at, "agent": name}
    bearer = f"Bearer {TOKEN}"
    assert stub.asked == [
        ("GET", "/healthz", bearer, None),
        ("GET", f"/providers/{upstream}", bearer, None),
        ("POST", "/taps", bearer, body),
        ("POST", "/taps/tap1/revoke", bearer, None),
    ]
    agent_data = read_seen(tmp_path)
    assert agent_data["argv"][-2:] == ["-p", "hi"]
    assert SECRET not in " ".join(agent_data["command_line"])
    assert SECRET in " ".join(agent_data["environ"].values())
    assert TOKEN not in json.dumps(agent_data)
    assert stub.url in json.dumps(agent_data)
    for mode, _ in agent_data["files"].values():
        assert mode == 0o600
    assert len(agent_data["files"]) == (name in ("claude", "gemini"))
    assert list((tmp_path / "scratch").iterdir()) == [], "what was made for it is gone"
    assert not (tmp_path / "home" / ".claude").exists()


def test_what_it_inherits(tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    """The user's umask, for its files are the user's; the terminal's process group; Ctrl-C."""
    fake(tmp_path, "claude")
    os.umask(0o022)
    assert run_cli("tap", "claude", "--upstream", "simulator", "--db", "a.db")[0] == 0
    agent_data = read_seen(tmp_path)
    assert agent_data["umask"] == 0o022
    assert agent_data["group"] == os.getpgrp()
    assert agent_data["ignored"] == (signal.getsignal(signal.SIGINT) is signal.SIG_IGN), (
        "as ours has it"
    )
    assert agent_data["environ"]["ANTHROPIC_AUTH_TOKEN"]


def test_the_user_s_own_files_stay(tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    own = tmp_path / "home" / ".gemini"
    (own / "commands").mkdir(parents=True)
    (own / "settings.json").write_text('{"ui": {}}')
    (own / "commands" / "a.toml").write_text("a")
    into = "os.environ['GEMINI_CLI_HOME'] + '/.gemini/settings.json'"
    chat = "os.environ['GEMINI_CLI_HOME'] + '/.gemini/tmp/chat'"
    does = f"open({into}, 'w').write('changed'); open({chat}, 'w').write('said')"
    fake(tmp_path, "gemini", does)
    assert run_cli("tap", "gemini", "--db", "a.db")[0] == 0
    assert (own / "settings.json").read_text() == '{"ui": {}}'
    assert (own / "commands" / "a.toml").read_text() == "a"
    assert (own / "tmp" / "chat").read_text() == "said", "its sessions are kept where it keeps them"


@pytest.fixture
def heeds_hangups() -> Iterator[None]:
    """Also where the tests run under nohup, whose children ignore them."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heeds_hangups")
@pytest.mark.parametrize(
    ("does", "code"),
    [
        ("", 0),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
        # Ctrl-C is left to the agent, which goes on; what ends the launcher ends the agent.
        (TO_ITS_LAUNCHER.format(name="SIGTERM"), 100 + signal.SIGTERM),
        (TO_ITS_LAUNCHER.format(name="SIGHUP"), 100 + signal.SIGHUP),
    ],
)
def test_how_it_ends(does: str, code: int, tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    fake(tmp_path, "mine", does)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert run_cli("tap", "--db", "a.db", "--", "mine", "--json")[0] == code
    assert stub.paths()[-1] == "/taps/tap1/revoke"
    assert read_seen(tmp_path)["argv"][1:] == ["--json"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_the_server_is_asked_while_the_agent_runs(
    tmp_path: Path, run_cli: Typed, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would end under one that is silent for long."""
    monkeypatch.setattr(command, "STAY_S", 0.01)
    stub.asked_often = tmp_path / "often"
    fake(tmp_path, "mine", f"while not os.path.exists({str(tmp_path / 'often')!r}): pass")
    assert run_cli("tap", "--db", "a.db", "--", "mine")[0] == 0


def test_a_command_of_any_kind(tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    fake(tmp_path, "mine")
    assert run_cli("tap", "--db", "a.db", "--", "mine")[0] == 0
    assert stub.asked[2][3]["upstream"] == "simulator"
    assert read_seen(tmp_path)["environ"]["OPENAI_BASE_URL"] == f"{stub.url}/tap/{SECRET}/openai/v1"


def test_printed_lines(tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    """They start it as the launcher would, and what they need stays as long as the tap."""
    fake(tmp_path, "claude")
    (tmp_path / "a.db.taps" / "t").mkdir(parents=True)
    code, out, message = run_cli("tap", "claude", "--print", "--db", "a.db", "--", "-p", "it's")
    assert code == 0
    subprocess.run(["sh", "-eu"], input=out, text=True, check=True, timeout=30)
    started = read_seen(tmp_path)
    assert started["argv"][-2:] == ["-p", "it's"]
    assert started["environ"]["ANTHROPIC_BASE_URL"] == f"{stub.url}/tap/anthropic"
    assert TOKEN not in json.dumps(started)
    *lines, start = out.splitlines()
    assert "unset PLAYGROUND_TOKEN" in lines
    assert f"export ANTHROPIC_CUSTOM_HEADERS='x-playground-tap: {SECRET}'" in lines
    claude, option, path, *rest = start.split(" ", 3)
    assert (claude, option, rest) == ("claude", "--settings", ["-p 'it'\"'\"'s'"])
    assert SECRET in Path(path).read_text()
    assert Path(path).stat().st_mode & 0o777 == 0o600
    assert stub.url in message
    assert "/taps/tap1/revoke" not in stub.paths(), "it stays active until you revoke it"
    assert [path.name for path in (tmp_path / "a.db.taps").iterdir()] == ["tap1"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("claude",), 127, "npm install -g @anthropic-ai/claude-code"),
        (("--", "no-such-command"), 127, "no-such-command"),
        ((), 2, "claude, codex, gemini, opencode"),
        (("--",), 2, "a command after --"),
        (("aider",), 2, "playground tap -- aider"),
        (("claude", "-p", "hi"), 2, "playground --help"),
        (("there", "--upstream", "nobody"), 2, "There is no agent"),
        (("gemini", "--upstream", "nobody"), 2, "nothing like nobody"),
        (("gemini", "--upstream", "anthropic"), 2, "Gemini CLI uses gemini"),
        (("gemini", "--stop-at", "all"), 2, "invalid choice"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...], code: int, says: str, tmp_path: Path, run_cli: Typed, stub: Stub
) -> None:
    fake(tmp_path, "gemini")
    os.environ["PATH"] = str(tmp_path / "bin")
    got, out, message = run_cli("tap", "--db", "a.db", *words)
    assert (got, out, message.count("\n")) == (code, "", 1), message
    assert says in message
    assert not (tmp_path / "seen").exists()
    assert ("/taps" in stub.paths()) is ("/taps/tap1/revoke" in stub.paths())
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_file_that_is_no_program(tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    fake(tmp_path, "mine")
    (tmp_path / "bin" / "mine").write_text("\x7fno program")
    code, _, message = run_cli("tap", "--db", "a.db", "--", "mine")
    assert code == 126
    assert "cannot be started" in message
    assert stub.paths()[-1] == "/taps/tap1/revoke"


def test_a_server_without_taps(tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    stub.older = True
    fake(tmp_path, "claude")
    code, _, message = run_cli("tap", "claude", "--db", "a.db")
    assert (code, "older version" in message) == (1, True)
    assert not (tmp_path / "seen").exists()


def test_a_server_with_another_token(
    tmp_path: Path, run_cli: Typed, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYGROUND_TOKEN", "another-token")
    fake(tmp_path, "claude")
    code, _, message = run_cli("tap", "claude", "--db", "a.db")
    assert (code, "PLAYGROUND_TOKEN" in message) == (1, True)
    assert not (tmp_path / "seen").exists()


def test_a_database_whose_owner_serves_nothing(
    tmp_path: Path, run_cli: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "BUSY_S", 0.0)
    fake(tmp_path, "claude")
    lock = OwnerLock(tmp_path / "a.db")
    lock.take()
    try:
        code, _, message = run_cli("tap", "claude", "--db", "a.db")
    finally:
        lock.release()
    assert (code, "Another playground" in message) == (1, True)


# The server -------------------------------------------------------------------------------------


def test_a_server_is_started_and_found(
    tmp_path: Path, run_cli: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session of its own, with nothing of its link in the log; the tap is open as long as its
    agent runs. It takes a server's start, however long that owns the database without an address.
    """
    monkeypatch.setenv("PLAYGROUND_PACE", "0")
    monkeypatch.setattr(command, "BUSY_S", 0.0)
    (tmp_path / "playground").mkdir()
    (tmp_path / "playground" / "__init__.py").write_text("raise SystemExit('not this one')")
    db = tmp_path / "a.db"
    fake(tmp_path, "claude", ASKS)
    words = ("tap", "claude", "--upstream", "simulator", "--db", "a.db", "--port", "0")
    assert run_cli(*words)[0] == 21
    owner = owner_of(db)
    assert owner is not None
    assert os.getsid(owner.pid) == owner.pid != os.getsid(0)
    line = Path(f"/proc/{owner.pid}/cmdline").read_text()
    assert line.endswith("--idle-exit\x00600\x00")
    server = find_or_start(db, 0, 600)
    assert server.base == owner.url
    url = read_seen(tmp_path)["environ"]["ANTHROPIC_BASE_URL"]
    assert url == f"{owner.url}/tap/anthropic"
    name, _, secret = read_seen(tmp_path)["environ"]["ANTHROPIC_CUSTOM_HEADERS"].partition(": ")
    late = httpx.post(f"{url}/v1/messages", headers={name: secret}, trust_env=False, verify=NO_TLS)
    assert late.status_code == 401
    (tap,) = server.ask("GET", "/taps")
    assert (tap["agent"], tap["upstream"]) == ("claude", "simulator")
    assert tap["revoked_ms"] is not None
    os.kill(owner.pid, signal.SIGTERM)
    asyncio.run(wait_until(lambda: owner_of(db) is None))
    assert (tmp_path / "a.db.server.log").read_text() == ""


def test_a_server_that_does_not_start(tmp_path: Path, run_cli: Typed, stub: Stub) -> None:
    fake(tmp_path, "claude")
    port = stub.url.rpartition(":")[2]
    code, _, message = run_cli("tap", "claude", "--db", "b.db", "--port", port)
    assert code == 1
    assert f"Port {port}" in message
    assert message.count("\n") == 1


@pytest.mark.anyio
async def test_idle_is_no_request_no_work_and_time() -> None:
    now, slept, over = 100.0, list[float](), list[float]()
    working = False

    async def app(*_: Any) -> None:
        nonlocal now
        now += 500
        assert idle.idle_s() == 0

    async def sleep(seconds: float) -> None:
        nonlocal now, working
        slept.append(seconds)
        now += seconds
        working = len(slept) < 12
        if len(slept) == 5:
            await idle({"type": "http"}, None, None)  # type: ignore[arg-type]
            assert idle.idle_s() == 0

    idle = IdleWatch(app, lambda: working, lambda: now)
    await idle.wait(60.0, lambda: over.append(now), sleep)
    assert slept == [6.0] * 21
    assert over == [100.0 + 500 + 21 * 6.0]
