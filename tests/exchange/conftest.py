"""What the tests of the exports share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.simulator.app import simulator_app
from tests.in_process import serve_in_thread


class Heard:
    """The simulator, with the bodies and headers of what was asked of it, in order."""

    def __init__(self, url: str, requests: list[tuple[str, dict[str, str], bytes]]) -> None:
        self.url = url
        self.requests = requests

    def bodies(self) -> list[Any]:
        """What came since it was last asked."""
        results = [json.loads(body) for _, _, body in self.requests]
        self.requests.clear()
        return results


@pytest.fixture(scope="session")
def recording_server() -> Iterator[Heard]:
    """A simulator below /sim, as the program has it."""
    inner: ASGIApp = simulator_app(pace=0)
    requests: list[tuple[str, dict[str, str], bytes]] = []

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await inner(scope, receive, send)
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        requests.append((scope["path"], headers, body))
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        path = scope["path"].removeprefix("/sim")
        below = {**scope, "path": path, "raw_path": path.encode()}
        await inner(below, again, send)

    with serve_in_thread(outer) as url:
        yield Heard(url, requests)
