"""A real server in a process of its own, for the tests and benches that kill or time one.

Knows the command line and the JSON face; nothing of what is inside.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent
START_S = 60.0
END_S = 30.0
WAIT_S = 40.0
"""How long an answer may take, for the machine may be busy; httpx's own five seconds are few."""

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that speak plain HTTP: reading the certificates takes each 25 ms."""

CLEAN = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")


def environment(**changes: str) -> dict[str, str]:
    """Our own surroundings without anybody's keys, proxies or settings."""
    kept = {name: value for name, value in os.environ.items() if name in CLEAN}
    return {
        **kept,
        "PYTHONPATH": str(ROOT / "app"),
        "PYTHONWARNINGS": "error::ResourceWarning",
        **changes,
    }


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "playground.cli", *words]


def ran(
    *words: str, cwd: Path, timeout_s: float = START_S, **changes: str
) -> subprocess.CompletedProcess[str]:
    """A command run to its end in `cwd`; its database, where none is named, is in `cwd` too."""
    env = environment(**{"PLAYGROUND_HOME": str(cwd / "home"), **changes})
    return subprocess.run(
        command(*words), capture_output=True, text=True, cwd=cwd, env=env, timeout=timeout_s
    )


@dataclass(kw_only=True)
class Reached:
    """A server by the line that it printed."""

    line: str
    db: Path

    @property
    def url(self) -> str:
        return self.line.split(" on ")[1].partition("/?")[0].rstrip("/\n")

    @property
    def token(self) -> str:
        return self.line.strip().partition("token=")[2]

    def client(self, **headers: str) -> httpx.AsyncClient:
        """A script: the bearer token, and JSON."""
        given = {"authorization": f"Bearer {self.token}", "accept": "application/json"}
        return self._asking({**given, **headers})

    @asynccontextmanager
    async def page(self, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """A browser without script, logged in: the cookie, forms, and pages for answers."""
        async with self._asking({}) as client:
            await client.get(f"/?token={self.token}")  # the cookie comes with the way on
            client.headers.update({"origin": self.url, "accept": "text/html", **headers})
            yield client

    def _asking(self, headers: Mapping[str, str]) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=WAIT_S, trust_env=False, verify=NO_TLS
        )


@dataclass(kw_only=True)
class Served(Reached):
    """One in a process of its own."""

    process: subprocess.Popen[str]

    def kill(self) -> None:
        """As a power switch would."""
        self.process.kill()
        self.process.wait(END_S)

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(END_S)


def start(db: Path, *words: str, **changes: str) -> Served:
    """`playground serve` on a free port; returns when it has printed its line."""
    with (db.parent / "server.log").open("a") as log:
        process = subprocess.Popen(
            command("serve", "--port", "0", "--db", str(db), *words),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=db.parent,
            env=environment(**changes),
        )
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(START_S) else ""
    if "Playground on" not in line:
        process.kill()
        process.wait(END_S)
        raise AssertionError((db.parent / "server.log").read_text())
    return Served(process=process, line=line, db=db)


@contextmanager
def served(db: Path, *words: str, **changes: str) -> Iterator[Served]:
    """A server for as long as the block lasts."""
    one = start(db, *words, **changes)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.kill()
        assert one.process.stdout is not None
        one.process.stdout.close()


async def messages(answer: httpx.Response) -> AsyncGenerator[Mapping[str, str]]:
    """The whole messages of an event stream, as a browser counts them: {"id", "event", "data"}."""
    kept = ""
    async for text in answer.aiter_text():
        *whole, kept = (kept + text).split("\n\n")
        for one in whole:
            found: dict[str, str] = {}
            for line in one.split("\n"):
                name, _, value = line.partition(": ")
                found[name] = found[name] + "\n" + value if name in found else value
            yield found


async def rested(client: httpx.AsyncClient, session_id: str, timeout_s: float = 40.0) -> Any:
    """The folded session as soon as it is not running any more."""
    async with asyncio.timeout(timeout_s):
        path = f"/sessions/{session_id}/events?after=0"
        folded = (await client.get(f"/sessions/{session_id}")).json()
        if folded["state"] != "running":
            return folded
        headers = {"accept": "text/event-stream"}
        async with client.stream("GET", path, headers=headers) as answer:
            async for one in messages(answer):
                if int(one.get("id", 0)) < folded["seq"]:
                    continue
                folded = (await client.get(f"/sessions/{session_id}")).json()
                if folded["state"] != "running":
                    return folded
    raise AssertionError("The stream ended before the run did.")
