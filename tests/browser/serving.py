"""A real server in a process of its own, and what a script would ask of it.

Knows nothing of browsers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
WEATHER = ("calculator", "get_weather")


class Server:
    """`playground serve` on `db`; `pace` is the simulator's, 1 for a person's."""

    def __init__(self, db: Path, pace: float) -> None:
        self.db, self.pace, self.port = db, pace, 0
        self.base = self.link = ""
        self.start()

    def start(self) -> None:
        """Start, or start again on the same port with the same database."""
        where = ["--port", str(self.port), "--db", str(self.db)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", "serve", *where],
            cwd=ROOT,
            env={**os.environ, "PLAYGROUND_PACE": str(self.pace)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Playground on "), line
        self.link = line.removeprefix("Playground on ").strip()
        self.base, _, token = self.link.partition("/?token=")
        self.port = int(self.base.rpartition(":")[2])
        self.script = httpx.Client(
            base_url=self.base,
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
            timeout=START_S,
        )

    def end(self, sig: int = signal.SIGTERM) -> None:
        """End the process and wait until it is gone."""
        self.script.close()
        self.process.send_signal(sig)
        self.process.wait(START_S)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def get(self, path: str) -> Any:
        return self._answer(self.script.get(path))

    def post(self, path: str, data: Any) -> Any:
        return self._answer(self.script.post(path, json=data))

    def session(self, prompt: str = "", tools: Sequence[Any] = WEATHER, **settings: Any) -> str:
        """A new session, with `prompt` on its way where one is given; its id."""
        created = self.post("/sessions", {"tools": list(tools), **settings})
        session_id: str = created["id"]
        if prompt:
            self.post(f"/sessions/{session_id}/prompts", {"text": prompt})
        return session_id

    def folded(self, session_id: str) -> Any:
        """The session as the server has it."""
        return self.get(f"/sessions/{session_id}")

    def comes_to(self, session_id: str, state: str) -> None:
        """Return when the session is in this state: it is looked at after each event but deltas."""
        live = {"Accept": "text/event-stream"}
        with self.script.stream("GET", f"/sessions/{session_id}/events", headers=live) as events:
            for line in events.iter_lines():
                look = line.startswith("data:") and '_delta"' not in line
                if look and self.folded(session_id)["state"] == state:
                    return
        raise AssertionError(f"the session never was {state}")

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        assert response.status_code < 400, response.text
        return response.json() if response.content else None
