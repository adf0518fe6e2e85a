"""Tools of MCP servers, by the official SDK. What was not accepted is neither started nor asked.

A server has one connection, made when it is first needed, kept for the next call, closed when it
rested for a while; what died is made anew for the next call, and no call is sent twice. config:
{"server", "tool", "annotations", "output_schema"}, of which only the first two are looked at.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from app.core.errors import BadInput
from app.core.events import Problem
from app.core.servers import Accepted, Server, fingerprint
from app.core.tools import Tool, ToolResult, text_result
from app.executors.executor import Checked, Invocation, Report
from app.executors.mcp_connection import Connection, Gone
from app.executors.mcp_launch import Lookup, references, transport_of
from app.executors.mcp_results import Listed
from app.executors.progress import Progress

CONNECT_S = 10.0
LIST_S = 10.0
FRESH_S = 1.0
"""A listing so old is taken as it is: the calls of one turn are checked together."""

Known = Callable[[], Awaitable[Sequence[tuple[Server, Accepted]]]]
"""The person's servers, and what of each was accepted."""


@dataclass
class Peer:
    """What is kept of one server, as long as it is the same. `listed` is the newest listing,
    which outlives the connection; `fault` why there is none."""

    print: str
    connection: Connection | None = None
    listed: tuple[Listed, ...] | None = None
    tail: bytes = b""
    fault: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def open(self) -> bool:
        return self.connection is not None and self.connection.open


class Mcp:
    """`environment` is our own; `lookup` finds what a server's `${NAME}` stands for."""

    def __init__(
        self,
        known: Known,
        environment: Mapping[str, str] | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self._known = known
        self._environment = os.environ if environment is None else environment
        self._lookup = lookup or (lambda name, url: self._environment.get(name))
        self._peers: dict[str, Peer] = {}

    async def checked(self, session: str, tool: Tool, arguments: str) -> Checked:
        """With the server as it was accepted and the tool as it lists it now."""
        server, accepted, why = await self._accepted(tool)
        if server is None:
            return Checked("none", (Problem("caution", why),))
        try:
            peer = await self._fresh(server)
        except Gone as gone:
            peer = self.peer(server)
            if peer.listed is None:
                said = f"The server {server.name} cannot be asked for its tools. {gone}"
                return Checked(_code(server, None), (Problem("caution", said),))
        found = _found(peer, tool)
        problems = [Problem("note", said) for said in _inexact(arguments)]
        if caution := doubt(tool, found, accepted):
            problems.append(Problem("caution", caution))
        return Checked(_code(server, found), tuple(problems), tool.parallel_safe)

    async def run(self, invocation: Invocation, report: Report) -> ToolResult:
        """Call the tool, once. The tool must be the one that the call was decided on."""
        tool = invocation.tool
        server, _, why = await self._accepted(tool)
        if server is None:
            return _failed(f"{why} Nothing was run.")
        try:
            peer = await self._connected(server, CONNECT_S)
            if peer.connection is not None and peer.connection.stale:
                await self._relist(peer)
        except Gone as gone:
            return _failed(f"Nothing was run. {gone}")
        found = _found(peer, tool)
        if invocation.code and _code(server, found) != invocation.code:
            return _failed(
                "The tool has changed on its server since this call was decided; nothing was run."
            )
        if _endless(invocation.arguments):
            return _failed(
                "A number of the arguments is beyond all that JSON of a server can"
                " hold; nothing was run. Edit the arguments."
            )
        progress = Progress(report)
        connection = peer.connection
        assert connection is not None
        try:
            name = str(tool.config.get("tool", ""))
            return await connection.call(name, json.loads(invocation.arguments), progress.tell)
        finally:
            progress.close()
            self._remember(peer)

    async def list_tools(self, server: Server, limit_s: float = CONNECT_S) -> Peer:
        """Ask an accepted server for its tools now. BadInput with a sentence where it does not
        tell; it has to be accepted, as everywhere."""
        why = _refusal(server, await self._acceptance(server.name))
        if why:
            raise BadInput(why)
        try:
            peer = await self._connected(server, limit_s)
            await self._relist(peer)
        except Gone as gone:
            raise BadInput(str(gone)) from None
        return peer

    def peer(self, server: Server) -> Peer:
        """What is known of it now; empty where it was never asked."""
        peer = self._peers.get(server.name)
        if peer is None or peer.print != fingerprint(server):
            return Peer(fingerprint(server))
        self._remember(peer)
        return peer

    def missing(self, server: Server) -> tuple[str, ...]:
        """The names of the variables that are to be filled in and are not there."""
        return tuple(name for name in references(server) if self._lookup(name, "") is None)

    async def stop(self, name: str) -> None:
        """End the connection to a server; the next call makes another."""
        peer = self._peers.get(name)
        if peer is not None and peer.connection is not None:
            await peer.connection.close()
            self._remember(peer)

    async def forget(self, session: str) -> None:
        """Nothing is kept for a session; its calls are cancelled by who runs them."""

    async def close(self) -> None:
        """End all connections, and all servers that are processes of ours."""
        await asyncio.gather(*(self.stop(name) for name in tuple(self._peers)))

    async def _accepted(self, tool: Tool) -> tuple[Server | None, Accepted, str]:
        """(the tool's server, what was accepted of it, "") or (None, ..., why it is not used)."""
        name = str(tool.config.get("server", ""))
        for server, accepted in await self._known():
            if server.name == name:
                why = _refusal(server, accepted)
                return (None if why else server), accepted, why
        return None, Accepted(), f"There is no MCP server {name!r}; add it on the page Servers."

    async def _acceptance(self, name: str) -> Accepted:
        found = (accepted for server, accepted in await self._known() if server.name == name)
        return next(found, Accepted())

    async def _fresh(self, server: Server) -> Peer:
        """Connected, with a listing of this very moment; while a call runs there, which many
        servers do alone, with the newest there is."""
        peer = await self._connected(server, CONNECT_S)
        connection = peer.connection
        assert connection is not None
        age = asyncio.get_running_loop().time() - connection.listed_at
        if connection.stale or (age > FRESH_S and not connection.calls):
            await self._relist(peer)
        return peer

    async def _connected(self, server: Server, limit_s: float) -> Peer:
        """With an open connection. Gone where there is none to be had."""
        print_ = fingerprint(server)
        peer = self._peers.get(server.name)
        if peer is None or peer.print != print_:
            if peer is not None and peer.connection is not None:
                await peer.connection.close()
            peer = self._peers[server.name] = Peer(print_)
        async with peer.lock:
            if peer.open:
                return peer
            connection = Connection(transport_of(server, self._environment, self._lookup))
            try:
                await connection.connect(limit_s)
            except Gone as gone:
                peer.fault, peer.tail = str(gone), connection.words.tail
                raise
            peer.connection, peer.fault = connection, ""
        return peer

    async def _relist(self, peer: Peer) -> None:
        assert peer.connection is not None
        try:
            peer.listed = await peer.connection.relist(LIST_S)
        finally:
            self._remember(peer)

    def _remember(self, peer: Peer) -> None:
        """Keep what a connection has told, beyond its end."""
        if peer.connection is not None:
            peer.tail = peer.connection.words.tail
            peer.fault = "" if peer.open else peer.connection.words.fault


def doubt(tool: Tool, found: Listed | None, accepted: Accepted) -> str:
    """Why no rule may run the tool as its server lists it, or ""."""
    name, server = str(tool.config.get("tool", "")), str(tool.config.get("server", ""))
    if found is None:
        return f"The server {server} no longer lists a tool {name}."
    was = accepted.tools.get(name)
    if was is None:
        return f"The tool {name} of the server {server} was never accepted on its page."
    if was != found.fingerprint:
        return (
            f"This tool is not what was accepted: the server {server} changed its description or"
            " its schema. See what is new on the server's page, and accept it there."
        )
    return ""


def _refusal(server: Server, accepted: Accepted) -> str:
    if accepted.server == fingerprint(server):
        return ""
    what = "has changed since it was accepted" if accepted.server else "was not accepted yet"
    return f"The server {server.name} {what}; look at it on its page and accept it there."


def _found(peer: Peer, tool: Tool) -> Listed | None:
    name = tool.config.get("tool")
    return next((one for one in peer.listed or () if one.name == name and not one.fault), None)


def _code(server: Server, found: Listed | None) -> str:
    """What would answer: the server, and its tool as it is listed."""
    tool = found.fingerprint if found is not None else "unlisted"
    return hashlib.sha256(f"{fingerprint(server)} {tool}".encode("ascii")).hexdigest()


def _inexact(arguments: str) -> list[str]:
    """Sentences for numbers that cannot be passed digit by digit: the SDK knows only doubles."""
    lost: list[str] = []

    def heard(word: str) -> float:
        value = float(word)
        if math.isfinite(value) and Decimal(repr(value)) != Decimal(word):
            lost.append(word)
        return value

    try:
        json.loads(arguments, parse_float=heard)
    except (ValueError, RecursionError):
        return []
    return [f"{word} is passed to the server as {float(word)!r}." for word in lost[:5]]


def _endless(arguments: str) -> bool:
    """Whether a number is beyond all doubles."""
    found: list[float] = []

    def heard(word: str) -> float:
        found.append(float(word))
        return found[-1]

    json.loads(arguments, parse_float=heard)
    return not all(map(math.isfinite, found))


def _failed(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="failed")
