"""A run through the server that owns the database, with its kept token."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from app.commands.told import STOPPED, Teller, logged_of
from app.commands.toolfiles import check_names, tools_of
from app.core.errors import BadInput, PlaygroundError
from app.core.events import (
    CallChecked,
    CallEnded,
    CallInterrupted,
    CallReturned,
    ResponseEnded,
    ResponseFailed,
    RunPaused,
    RunStopped,
    Warned,
)
from app.core.rules import Rule
from app.core.settings import Limits
from app.net.client import HttpClient
from app.net.errors import NetworkError
from app.protocols.framing import Framer

RESTS = (
    CallChecked,
    CallEnded,
    CallInterrupted,
    CallReturned,
    ResponseEnded,
    ResponseFailed,
    RunPaused,
    RunStopped,
    Warned,
)
"""Events after which a session may rest."""

LIMITS = Limits(idle_s=120.0, wall_s=24 * 3600.0, max_stream_bytes=1024 * 1024 * 1024)


class Remote:
    """The server's JSON face."""

    def __init__(self, net: HttpClient, base_url: str, token: str) -> None:
        self._net = net
        self._base_url = base_url
        self._headers = {"authorization": f"Bearer {token}", "accept": "application/json"}

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON answer; PlaygroundError with the server's own sentence."""
        sent = b"" if body is None else json.dumps(body).encode()
        return await self._ask(method, path, sent, "application/json")

    async def send(self, path: str, lines: bytes) -> Any:
        """The JSON answer to JSON Lines."""
        return await self._ask("POST", path, lines, "application/x-ndjson")

    async def _ask(self, method: str, path: str, sent: bytes, kind: str) -> Any:
        headers = {**self._headers, "content-type": kind}
        try:
            async with self._net.open(
                method, self._base_url + path, headers, sent, LIMITS
            ) as answer:
                status = answer.status
                data = b"".join([piece async for piece in answer.chunks()])
        except NetworkError as trouble:
            raise PlaygroundError(f"The server that owns the database: {trouble}") from trouble
        value = json.loads(data)
        if status >= 400:
            sentence = str(value.get("error", f"The server answered {status}."))
            raise BadInput(sentence) if status in (404, 413, 422) else PlaygroundError(sentence)
        return value

    async def events(self, session_id: str) -> AsyncIterator[dict[str, Any]]:
        """The log of a session as it grows."""
        headers = {**self._headers, "accept": "text/event-stream"}
        url = f"{self._base_url}/sessions/{session_id}/events?after=0"
        framer = Framer()
        async with self._net.open("GET", url, headers, b"", LIMITS) as answer:
            async for data in answer.chunks():
                for one in framer.feed(data):
                    if one.kind == "sse":
                        yield json.loads(one.data)


def _told(rule: Rule) -> dict[str, str]:
    """What a command line can say of a rule, in the words of the JSON contract."""
    return {"tool": rule.tool, "action": rule.action, "text": rule.text, "words": rule.words}


async def run_there(
    base_url: str,
    token: str,
    arguments: argparse.Namespace,
    asked: Mapping[str, Any],
    rules: Sequence[Rule],
) -> str:
    """Run it on the server, with `rules` for this session; the state it rests in. Where this is
    cancelled the run is stopped there, and STOPPED it is."""
    net = HttpClient()
    try:
        remote = Remote(net, base_url, token)
        tools = tools_of(await remote.ask("GET", "/tools"), arguments.tools)
        check_names(rules, [tool["name"] for tool in tools])
        body = {**asked, "tools": tools, "rules": [_told(rule) for rule in rules]}
        session_id = (await remote.ask("POST", "/sessions", body))["id"]
        teller = Teller(arguments.json, session_id)
        try:
            return await _run(remote, arguments.prompt, session_id, teller)
        except asyncio.CancelledError:
            await remote.ask("POST", f"/sessions/{session_id}/stop")
            teller.stopped(f"at {base_url}/sessions/{session_id}")
            return STOPPED
    finally:
        await net.aclose()


async def _run(remote: Remote, prompt: str, session_id: str, teller: Teller) -> str:
    await remote.ask("POST", f"/sessions/{session_id}/prompts", {"text": prompt})
    async for line in remote.events(session_id):
        logged = logged_of(line)
        teller.tell(logged)
        if isinstance(logged.event, RESTS):
            folded = await remote.ask("GET", f"/sessions/{session_id}")
            if folded["state"] != "running" and folded["seq"] == logged.seq:
                teller.rest(folded["state"], waiting_in(folded))
                return str(folded["state"])
    raise PlaygroundError("The server ended before the run did.")


def waiting_in(folded: Mapping[str, Any]) -> list[str]:
    """The calls that need a person, as `name (id)`."""
    return [
        f"{call['name']} ({call['id']})"
        for call in folded["calls"]
        if call["status"] in ("waiting", "interrupted")
    ]
