"""Asking a guarded app by raw ASGI, scopes as uvicorn makes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.web.guard import Guard

PORT = 8765
TOKEN = "right-token-0123456789abcdefABCDEF_~."
HERE = f"127.0.0.1:{PORT}"
COOKIE = ("cookie", f"playground_{PORT}={TOKEN}")
BEARER = ("authorization", f"Bearer {TOKEN}")
OWN = ("origin", f"http://{HERE}")
SAME = ("sec-fetch-site", "same-origin")
PAGE = ("accept", "text/html")
JSON = ("accept", "application/json")

Header = tuple[str, str]

EITHER_WAY: Sequence[Mapping[str, Any]] = ({}, {"token": None})
"""With the credential, and with --no-token."""


@dataclass
class Told:
    """An answer, with what the app behind the guard got to see."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    ran: list[str] = field(default_factory=list)

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key == name]
        assert len(values) <= 1, f"{name} twice"
        return values[0] if values else None


def scope_of(method: str, target: str, headers: Iterable[Header]) -> Scope:
    """As uvicorn makes it: the path is decoded once, the query is not."""
    raw, _, query = target.partition("?")
    return {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": unquote(raw),
        "raw_path": raw.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
    }


async def call(app: ASGIApp, scope: Scope, body: Sequence[bytes] = (b"",)) -> Told:
    pieces = list(body)
    sent: list[Message] = []

    async def receive() -> Message:
        if not pieces:
            return {"type": "http.disconnect"}
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    headers = [(name.decode().lower(), value.decode()) for name, value in start["headers"]]
    return Told(start["status"], headers, b"".join(data.get("body", b"") for data in sent[1:]))


def guarded(ran: list[str], **settings: Any) -> Guard:
    """A guard around an app that notes each request that reaches it, body and all."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await request.body()
        ran.append(f"{request.method} {scope['path']}")
        await PlainTextResponse("inside")(scope, receive, send)

    return Guard(app, **{"token": TOKEN, "port": lambda: PORT, **settings})


async def ask(
    method: str,
    target: str,
    *headers: Header,
    host: str | None = HERE,
    body: Sequence[bytes] = (b"",),
    **settings: Any,
) -> Told:
    ran: list[str] = []
    hosts = [] if host is None else [("host", host)]
    output = await call(
        guarded(ran, **settings), scope_of(method, target, [*hosts, *headers]), body
    )
    output.ran = ran
    return output
