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

from tests import served
from tests.served import NO_TLS, START_S
from tests.served_here import served_here

WEATHER = ("calculator", "get_weather")


class Server:
    """One by the `link` that it printed."""

    def __init__(self, link: str) -> None:
        self.link = link
        self.made: list[str] = []
        self.base, _, token = link.partition("/?token=")
        self.script = httpx.Client(
            base_url=self.base,
            headers={"Authorization": f"Bearer {token}", "Accept": "application/json"},
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
        self.made.append(session_id)
        if prompt:
            self.post(f"/sessions/{session_id}/prompts", {"text": prompt})
        return session_id

    def put_away(self) -> None:
        """Take what was made since out of the list of each page that comes: with sixty sessions in
        it a page costs half as much again. Pages of these sessions do not hear of it."""
        if self.made:
            self.post("/find/marks", {"act": "archive", "sessions": self.made})
            self.made.clear()

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


@contextmanager
def serving(db: Path, pace: float) -> Iterator[Server]:
    """A server in a thread of this process; `pace` is the simulator's, 1 for a user's."""
    with served_here(db, pace) as reached:
        server = Server(reached.line.removeprefix("Playground on "))
        yield server
        server.script.close()


class Process(Server):
    """One in a process of its own, to be killed and started again."""

    def __init__(self, db: Path, pace: float) -> None:
        self.db, self.pace, self.port = db, pace, 0
        self.start()

    def start(self) -> None:
        """Start, or start again on the same port with the same database."""
        pace = str(self.pace)
        self.process = served.start(self.db, "--port", str(self.port), PLAYGROUND_PACE=pace)
        super().__init__(self.process.line.removeprefix("Playground on ").strip())
        self.port = int(self.base.rpartition(":")[2])

    def end(self, sig: int = signal.SIGTERM) -> None:
        """End the process and wait until it is gone."""
        self.script.close()
        self.process.end(sig)
        assert self.process.process.stdout is not None
        self.process.process.stdout.close()
