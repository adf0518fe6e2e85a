"""A server, and what a script would ask of it.

Knows nothing of browsers.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.in_process import run_server
from tests.servers import NO_TLS, START_S, RunningServer, launch_server

WEATHER = ("calculator", "get_weather")


class Server(RunningServer):
    """A running server, and a script that is logged in to it."""

    def __init__(self, running: RunningServer) -> None:
        super().__init__(url=running.url, token=running.token, db=running.db)
        self.session_ids: list[str] = []
        self.script = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.token}", "Accept": "application/json"},
            timeout=START_S,
            verify=NO_TLS,
        )

    def get(self, path: str) -> Any:
        return self._answer(self.script.get(path))

    def post(self, path: str, data: Any) -> Any:
        return self._answer(self.script.post(path, json=data))

    def session(self, prompt: str = "", tools: Sequence[Any] = WEATHER, **settings: Any) -> str:
        """A new session, with `prompt` on its way where one is given; its id."""
        created = self.post("/sessions", {"tools": list(tools), **settings})
        session_id: str = created["id"]
        self.session_ids.append(session_id)
        if prompt:
            self.post(f"/sessions/{session_id}/prompts", {"text": prompt})
        return session_id

    def put_away(self) -> None:
        """Take what was made since out of the list of each page that comes: with sixty sessions in
        it a page costs half as much again. Pages of these sessions do not hear of it."""
        if self.session_ids:
            self.post("/find/marks", {"act": "archive", "sessions": self.session_ids})
            self.session_ids.clear()

    def get_session(self, session_id: str) -> Any:
        """The session as the server has it."""
        return self.get(f"/sessions/{session_id}")

    def comes_to(self, session_id: str, state: str) -> None:
        """Return when the session is in this state: it is looked at after each event but deltas."""
        live = {"Accept": "text/event-stream"}
        with self.script.stream("GET", f"/sessions/{session_id}/events", headers=live) as events:
            for line in events.iter_lines():
                look = line.startswith("data:") and '_delta"' not in line
                if look and self.get_session(session_id)["state"] == state:
                    return
        raise AssertionError(f"the session never was {state}")

    @staticmethod
    def _answer(response: httpx.Response) -> Any:
        assert response.status_code < 400, response.text
        return response.json() if response.content else None


@contextmanager
def run_page_server(db: Path, pace: float = 0) -> Iterator[Server]:
    """A server in a thread of this process; `pace` is the simulator's, 1 for a user's."""
    with run_server(db, pace) as running:
        server = Server(running)
        yield server
        server.script.close()


class Process(Server):
    """One in a process of its own, to be killed and started again."""

    def __init__(self, db: Path, pace: float) -> None:
        self.pace, self.port = pace, 0
        self.db = db
        self.start()

    def start(self) -> None:
        """Start, or start again on the same port with the same database."""
        pace = str(self.pace)
        self.process = launch_server(self.db, "--port", str(self.port), PLAYGROUND_PACE=pace)
        super().__init__(self.process)
        self.port = int(self.url.rpartition(":")[2])

    def end(self, sig: int = signal.SIGTERM) -> None:
        """End the process and wait until it is gone."""
        self.script.close()
        self.process.end(sig)
        self.process.close()
