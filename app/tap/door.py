"""The door for agents: whatever is asked below /tap, before it reaches the page's own guard.

An agent says which tap is meant by a secret, in the header `x-playground-tap` (/tap/openai/v1/…)
or in the path (/tap/SECRET/openai/v1/…). Order: Host, Origin and Sec-Fetch-Site, secret, door,
upgrade, upstream. Nothing that a page elsewhere can send gets in: it would say where it is from.
"""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Callable, Mapping
from typing import get_args

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import one_line
from app.core.errors import StoreError
from app.tap import PREFIX
from app.tap.relay import (
    AgentRequest,
    DoorName,
    RawHeaders,
    RefusedRequest,
    Relay,
    agent_connection,
    refuse,
)
from app.tap.taps import Tap, Taps
from app.tap.upstream import DOORS, Upstream, Upstreams, protocol_at

logger = logging.getLogger("playground")

HEADER = b"x-playground-tap"

_DOORS: Mapping[bytes, DoorName] = {door.encode(): door for door in get_args(DoorName)}

WRONG_HOST = (421, "This address is not served here; use the base URL that the playground printed.")
FOREIGN = (403, "A web page asked; this address is for agents that you started yourself.")
NO_SECRET = (
    401,
    "The secret of a tap is missing, wrong or revoked. Start the agent by playground tap, or make "
    "a tap on the page Agents.",
)
NO_DOOR = (404, f"There is no such door; use {PREFIX}/anthropic, openai, gemini or ollama.")
LOOP = (
    "The upstream of this tap, {}, leads to a tap of this very program, and so nowhere. Change its "
    "address on the page Providers, or the variable that moves it here."
)
NO_UPGRADE = (
    426,
    "There are no WebSockets here. Send the request over HTTP, to the same address.",
    ((b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade, close")),
)


class Door:
    """An ASGI app in front of `inside`, which gets what is not for agents. `is_own_host`
    says whether a Host is one of ours; `clock` is Unix time in ms; `mask` is applied to
    whatever goes into the log."""

    def __init__(
        self,
        inside: ASGIApp,
        *,
        taps: Taps,
        upstreams: Upstreams,
        relay: Relay,
        is_own_host: Callable[[bytes], bool],
        clock: Callable[[], int],
        mask: Callable[[str], str] = str,
    ) -> None:
        self._inside = inside
        self._taps = taps
        self._upstreams = upstreams
        self._relay = relay
        self._is_own_host = is_own_host
        self._clock = clock
        self._mask = mask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and (path == PREFIX or path.startswith(PREFIX + "/")):
            await self._answer(scope, receive, send)
        else:
            await self._inside(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        secret, door, target = _parts(scope)
        protocol = "" if door is None else protocol_at(door, target) or DOORS[door][0]
        try:
            tap = await self._tap(scope, secret)
            if door is None:
                raise RefusedRequest(*NO_DOOR)
            if _upgrades(scope):
                raise RefusedRequest(*NO_UPGRADE)
            await self._pass(tap, door, target, scope, receive, sending)
        except RefusedRequest as refused:
            await refuse(send, protocol, refused)
        except StoreError as error:
            if not started:
                await refuse(send, protocol, RefusedRequest(503, str(error)))
        except Exception as error:
            # Whatever it was, the server gets to see no traceback: its log would not mask it.
            failed = self._failed(error)
            if not started:
                await refuse(send, protocol, failed)

    async def _tap(self, scope: Scope, secret: bytes) -> Tap:
        """Whose request it is. RefusedRequest where nobody of ours asks."""
        headers: RawHeaders = scope["headers"]
        hosts = [value.strip() for name, value in headers if name == b"host"]
        if len(hosts) != 1 or not self._is_own_host(hosts[0]):
            raise RefusedRequest(*WRONG_HOST)
        sites = [value.strip() for name, value in headers if name == b"sec-fetch-site"]
        if any(name == b"origin" for name, _ in headers) or any(site != b"none" for site in sites):
            raise RefusedRequest(*FOREIGN)
        presented = {value.strip() for name, value in headers if name == HEADER}
        if secret:
            presented.add(secret)
        if len(presented) != 1:
            raise RefusedRequest(*NO_SECRET)
        tap = await self._taps.find(presented.pop().decode("latin-1"))
        if tap is None:
            raise RefusedRequest(*NO_SECRET)
        return tap

    async def _pass(
        self, tap: Tap, door: DoorName, target: bytes, scope: Scope, receive: Receive, send: Send
    ) -> None:
        headers = [(name, value.strip()) for name, value in scope["headers"] if name != HEADER]
        at_ms = self._clock()
        try:
            upstream = self._upstream(tap, door, target, headers)
        except RefusedRequest as refused:  # the page of taps says why
            asked = (tap.id, scope["method"], target, refused.status, at_ms)
            self._taps.note(tap.id, at_ms)
            self._taps.note_other(*asked, refused.sentence)
            raise
        connection = agent_connection(scope)
        if connection is not None:
            connection.wait_for_body()
        request = AgentRequest(
            tap,
            door,
            scope["method"],
            target,
            headers,
            None,
            upstream.url,
            upstream.profile,
            at_ms,
        )
        await self._relay(
            request, upstream.place, upstream.target, upstream.headers, scope, receive, send
        )

    def _upstream(self, tap: Tap, door: DoorName, target: bytes, headers: RawHeaders) -> Upstream:
        """RefusedRequest where there is none for that request, or it leads back to here."""
        upstream = self._upstreams.find(tap.upstream, door, target, headers)
        here = self._is_own_host(dict(upstream.headers)[b"host"])
        if here and upstream.target.startswith(PREFIX.encode() + b"/"):
            raise RefusedRequest(404, LOOP.format(upstream.profile.name))
        return upstream

    def _failed(self, error: Exception) -> RefusedRequest:
        """An id for the user; for the log that and where it was, without the words of the error,
        which may have a path or a header in them."""
        error_id = secrets.token_hex(4)
        frames = "".join(traceback.format_tb(error.__traceback__))
        text = f"error {error_id} at the door for agents: {type(error).__name__}\n{frames}"
        logger.error(one_line(self._mask(text)))
        return RefusedRequest(500, f"Something went wrong here; look for {error_id} in the log.")


def _parts(scope: Scope) -> tuple[bytes, DoorName | None, bytes]:
    """(secret, door, what is behind it with its query), undecoded; the secret is b"" where the
    path has none, the door None where there is none of that name."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    first, slash, behind = raw.removeprefix(PREFIX.encode() + b"/").partition(b"/")
    secret = b""
    if first not in _DOORS:
        secret = first
        first, slash, behind = behind.partition(b"/")
    query: bytes = scope["query_string"]
    target = slash + behind + (b"?" + query if query else b"")
    return secret, _DOORS.get(first), target


def _upgrades(scope: Scope) -> bool:
    asked = [value.lower() for name, value in scope["headers"] if name == b"upgrade"]
    return any(b"websocket" in value for value in asked)
