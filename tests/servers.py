"""A server as a script sees it; `playground serve` and `simulate` in processes of their own.

For tests and benches. Knows the command line and the JSON API, and imports nothing of the package:
a bench may start the server of another checkout.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
START_S = 60.0
END_S = 30.0
WAIT_S = 40.0
"""How long an answer may take on a busy machine, where httpx's five seconds are too few."""

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP: reading the certificates would take each of them 25 ms."""

StartServer = Callable[..., "RunningServer"]
"""The fixture `start_server`; it takes what `run_server` takes."""

StartServerProcess = Callable[..., "ServerProcess"]
"""The fixture `start_server_process`; it takes what `run_server_process` takes."""

CLEAN = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")


def environment(**changes: str) -> dict[str, str]:
    """The environment of a command: ours without anybody's keys, proxies or settings."""
    clean = {name: value for name, value in os.environ.items() if name in CLEAN}
    return {
        **clean,
        "PYTHONPATH": str(ROOT / "app"),
        "PYTHONWARNINGS": "error::ResourceWarning",
        **changes,
    }


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "playground.cli", *words]


def run_command(
    *words: str, cwd: Path, timeout_s: float = START_S, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end in `cwd`. Unless `changes` or `words` say otherwise, its database
    is in `cwd`, too."""
    env = environment(**{"PLAYGROUND_HOME": str(cwd / "home"), **changes})
    return subprocess.run(
        command(*words), capture_output=True, text=True, cwd=cwd, env=env, timeout=timeout_s
    )


@dataclass(kw_only=True, eq=False)
class RunningServer:
    """A server that answers at `url`, however it was started."""

    url: str
    token: str
    db: Path

    @property
    def link(self) -> str:
        """What a person opens: the address that logs in."""
        return f"{self.url}/?token={self.token}" if self.token else f"{self.url}/"

    def client(self, **headers: str) -> httpx.AsyncClient:
        """A script: the bearer token, and JSON."""
        own = {"authorization": f"Bearer {self.token}", "accept": "application/json"}
        return self._client({**own, **headers})

    @asynccontextmanager
    async def page(self, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """A browser without script, logged in: the cookie, forms, and pages for answers."""
        async with self._client({}) as client:
            await client.get(f"/?token={self.token}")  # sets the cookie
            client.headers.update({"origin": self.url, "accept": "text/html", **headers})
            yield client

    def _client(self, headers: Mapping[str, str]) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=WAIT_S, trust_env=False, verify=NO_TLS
        )


@dataclass(kw_only=True, eq=False)
class CommandProcess:
    """A command that serves, in a process of its own."""

    process: subprocess.Popen[str]
    line: str
    """What it printed first, with its address."""

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.process.kill()
        self.process.wait(END_S)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Ends it by a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(END_S)

    def close(self) -> None:
        """Kills it if it still runs, and closes its pipe."""
        if self.process.poll() is None:
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()


@dataclass(kw_only=True, eq=False)
class ServerProcess(CommandProcess, RunningServer):
    """A server in a process of its own."""

    @classmethod
    def from_line(cls, line: str, process: subprocess.Popen[str], db: Path) -> ServerProcess:
        url, _, token = line.strip().partition(" on ")[2].partition("/?token=")
        return cls(url=url.rstrip("/"), token=token, db=db, process=process, line=line)


@dataclass(kw_only=True, eq=False)
class SimulatorProcess(CommandProcess):
    """`playground simulate` in a process of its own; it answers at `url`."""

    url: str


def _launch(
    *words: str, cwd: Path, changes: Mapping[str, str], stderr: IO[str] | None = None
) -> tuple[subprocess.Popen[str], str]:
    """Starts a command; returns when it has printed a line, "" if none comes in time."""
    process = subprocess.Popen(
        command(*words),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=cwd,
        env=environment(**changes),
    )
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return process, process.stdout.readline() if selector.select(START_S) else ""


def launch_server(db: Path, *words: str, **changes: str) -> ServerProcess:
    """Starts `playground serve` on a free port; returns when it has printed its line.
    The caller ends it."""
    words = ("serve", "--port", "0", "--db", str(db), *words)
    with (db.parent / "server.log").open("a") as log:
        process, line = _launch(*words, cwd=db.parent, changes=changes, stderr=log)
    server = ServerProcess.from_line(line, process, db)
    if "Playground on" not in line:
        server.close()
        raise AssertionError((db.parent / "server.log").read_text())
    return server


@contextmanager
def run_simulator_process(folder: Path, *words: str, **changes: str) -> Iterator[SimulatorProcess]:
    """`playground simulate` in `folder` for as long as the block lasts, on a free port unless
    `words` say otherwise; `changes` are those of its environment."""
    process, line = _launch("simulate", *words, cwd=folder, changes=changes)
    url = line.partition(" on ")[2].partition(" ")[0]
    with closing(SimulatorProcess(process=process, line=line, url=url)) as simulator:
        assert "Simulator on" in line, f"playground simulate printed {line!r}."
        yield simulator


@contextmanager
def run_server_process(db: Path, *words: str, **changes: str) -> Iterator[ServerProcess]:
    """`playground serve` for as long as the block lasts; `changes` are those of its environment."""
    with closing(launch_server(db, *words, **changes)) as server:
        yield server


async def messages(answer: httpx.Response) -> AsyncGenerator[Mapping[str, str]]:
    """The whole messages of an event stream, as a browser counts them: {"id", "event", "data"}."""
    rest = ""
    async for text in answer.aiter_text():
        *whole_parts, rest = (rest + text).split("\n\n")
        for message in whole_parts:
            fields: dict[str, str] = {}
            for line in message.split("\n"):
                name, _, value = line.partition(": ")
                fields[name] = fields[name] + "\n" + value if name in fields else value
            yield fields


async def wait_for_session(
    client: httpx.AsyncClient, session_id: str, timeout_s: float = 40.0
) -> Any:
    """Waits until the session is not running any more; returns it as the server folds it."""
    async with asyncio.timeout(timeout_s):
        path = f"/sessions/{session_id}/events?after=0"
        folded = (await client.get(f"/sessions/{session_id}")).json()
        if folded["state"] != "running":
            return folded
        headers = {"accept": "text/event-stream"}
        async with client.stream("GET", path, headers=headers) as answer:
            async for message in messages(answer):
                if int(message.get("id", 0)) < folded["seq"]:
                    continue
                folded = (await client.get(f"/sessions/{session_id}")).json()
                if folded["state"] != "running":
                    return folded
    raise AssertionError("The stream ended before the run did.")
