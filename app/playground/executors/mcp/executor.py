"""Tools of MCP servers, by the official SDK. Only accepted servers are started or called.

A server has one connection, made on first use, kept open for the next call, and closed when idle
for a while; a dead one is replaced for the next call, and no call is sent twice. config: {"server",
"tool", "annotations", "output_schema"}; a result is checked against the last one, for the user.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from playground.core.errors import BadInput
from playground.core.events import Problem
from playground.core.json_values import float_words
from playground.core.servers import Acceptance, Server, fingerprint
from playground.core.tools import Tool, ToolResult, text_result
from playground.executors.executor import CallCheck, Invocation, ReportProgress, ThrottledProgress
from playground.executors.mcp.connection import CalledTool, Connection, ListedTool, ServerGone
from playground.executors.mcp.process import Lookup, references, transport_of
from playground.executors.output_schema import NO_STRUCTURE, output_mismatch

CONNECT_S = 10.0
LIST_S = 10.0
CHECK_S = 10.0
"""The maximum duration of a check, including connecting and listing, in seconds. A server's own
`start_s` replaces all three."""
AGAIN_S = 5.0
"""After a failure a server is not queried for a check again before this many seconds."""
FRESH_S = 1.0
"""A listing up to this many seconds old is reused: the calls of one turn are checked together."""

Known = Callable[[], Awaitable[Sequence[tuple[Server, Acceptance]]]]
"""The user's servers, each with its accepted state."""


@dataclass
class Peer:
    """The state of one server, until its definition changes. `listed` is the newest listing, which
    outlives the connection; `fault` is why there is none. `connecting` is the attempt that all
    users of the server wait for, and which continues without them; `listing` is a lock for listing
    its tools. `failed` says why that failed at `failed_at` (the loop's clock)."""

    print: str
    connection: Connection | None = None
    listed: tuple[ListedTool, ...] | None = None
    tail: bytes = b""
    fault: str = ""
    connecting: asyncio.Task[None] | None = None
    listing: asyncio.Lock = field(default_factory=asyncio.Lock)
    failed: str = ""
    failed_at: float = -math.inf

    @property
    def open(self) -> bool:
        return self.connection is not None and self.connection.open


class Mcp:
    """`environment` is our own; `lookup` resolves a server's `${NAME}`."""

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
        self._leaving: set[asyncio.Task[None]] = set()

    async def check_before_run(self, session: str, tool: Tool, arguments: str) -> CallCheck:
        """Checks the server against its accepted state, the tool against the current listing."""
        server, accepted, why = await self._accepted_server(tool)
        if server is None:
            return CallCheck("none", (Problem("caution", why),))
        fault = await self._refresh(server)
        return _check_listing(
            server,
            accepted=accepted,
            peer=self.peer(server),
            tool=tool,
            arguments=arguments,
            fault=fault,
        )

    async def check_without_server(self, tool: Tool, arguments: str) -> CallCheck | None:
        """The same from an open connection's state; None if there is none: nothing is started or
        queried."""
        server, accepted, why = await self._accepted_server(tool)
        if server is None:
            return CallCheck("none", (Problem("caution", why),))
        peer = self.peer(server)
        if not peer.open or peer.listed is None:
            return None
        return _check_listing(
            server, accepted=accepted, peer=peer, tool=tool, arguments=arguments, fault=""
        )

    async def accepted_code(self, tool: Tool) -> str | None:
        """The code of a tool that its server lists as accepted; None if it was not accepted."""
        server, accepted, _ = await self._accepted_server(tool)
        listed = accepted.tools.get(str(tool.config.get("tool", "")))
        return _code_of(server, listed) if server is not None and listed is not None else None

    async def run(self, invocation: Invocation, report: ReportProgress) -> ToolResult:
        """Calls the tool, once. The tool must be the one that the call was decided on."""
        tool = invocation.tool
        server, _, why = await self._accepted_server(tool)
        if server is None:
            return _failure(f"{why} Nothing was run.")
        try:
            peer, connection = await self._open_connection(server, CONNECT_S)
            async with peer.listing:
                if connection.stale:
                    await self._relist(server, peer, connection)
        except ServerGone as gone:
            return _failure(f"Nothing was run. {gone}")
        listed = _listed_tool(peer, tool)
        if invocation.code and _code(server, listed) != invocation.code:
            return _failure(
                "The tool has changed on its server since this call was decided. Nothing was run."
            )
        if _has_infinite(invocation.arguments):
            return _failure(
                "A number in the arguments is too large for the server's JSON. Nothing was run. "
                "Edit the arguments."
            )
        progress = ThrottledProgress(report)
        try:
            name = str(tool.config.get("tool", ""))
            called = await connection.call(name, json.loads(invocation.arguments), progress)
        finally:
            progress.close()
            self._remember(peer)
        return replace(called.result, mismatch=await _mismatch(invocation, called))

    async def list_tools(self, server: Server, limit_s: float = CONNECT_S) -> Peer:
        """Lists the tools of an accepted server now. BadInput with a sentence if that fails; it has
        to be accepted, as everywhere."""
        why = _refusal(server, await self._acceptance(server.name))
        if why:
            raise BadInput(why)
        try:
            peer, connection = await self._open_connection(server, limit_s)
            async with peer.listing:
                await self._relist(server, peer, connection)
        except ServerGone as gone:
            raise BadInput(str(gone)) from None
        return peer

    def peer(self, server: Server) -> Peer:
        """Its current state; empty if it was never queried."""
        peer = self._peers.get(server.name)
        if peer is None or peer.print != fingerprint(server):
            return Peer(fingerprint(server))
        self._remember(peer)
        return peer

    def missing_variables(self, server: Server) -> tuple[str, ...]:
        """The names of its variables that are not set."""
        return tuple(name for name in references(server) if self._lookup(name, "") is None)

    async def stop(self, name: str) -> None:
        """Ends the connection to a server; the next call makes another."""
        peer = self._peers.get(name)
        if peer is not None:
            await self._end(peer)

    async def forget(self, session: str) -> None:
        """There is no state per session; its calls are cancelled by their runner."""

    async def close(self) -> None:
        """Ends all connections, and all servers that are processes of ours."""
        await asyncio.gather(*(self.stop(name) for name in tuple(self._peers)), *self._leaving)

    async def _accepted_server(self, tool: Tool) -> tuple[Server | None, Acceptance, str]:
        """(the tool's server, its accepted state, "") or (None, ..., why it is not used)."""
        name = str(tool.config.get("server", ""))
        for server, accepted in await self._known():
            if server.name == name:
                why = _refusal(server, accepted)
                return (None if why else server), accepted, why
        return None, Acceptance(), f"There is no MCP server {name!r}. Add it on the page Servers."

    async def _acceptance(self, name: str) -> Acceptance:
        matching = (accepted for server, accepted in await self._known() if server.name == name)
        return next(matching, Acceptance())

    async def _refresh(self, server: Server) -> str:
        """Lists its tools; returns why that failed, or "". A recent failure is not retried, so that
        not every one of many calls waits for it."""
        peer, now = self._peer(server), asyncio.get_running_loop().time
        if now() - peer.failed_at < AGAIN_S:
            return peer.failed
        try:
            async with asyncio.timeout(limit_s := _wait_s(server, CHECK_S)):
                await self._ensure_listing(server)
        except ServerGone as gone:
            peer.failed, peer.failed_at = str(gone), now()
            return peer.failed
        except TimeoutError:
            peer.failed, peer.failed_at = f"It did not answer within {limit_s:g} s.", now()
            return peer.failed
        return ""

    async def _ensure_listing(self, server: Server) -> None:
        """Ensures a connection with a current listing; while a call runs there, which many servers
        process alone, the newest listing is used."""
        peer, connection = await self._open_connection(server, CONNECT_S)
        async with peer.listing:
            age = asyncio.get_running_loop().time() - connection.listed_at
            if connection.stale or (age > FRESH_S and not connection.calls):
                await self._relist(server, peer, connection)

    def _peer(self, server: Server) -> Peer:
        """The stored state; a new one if the server's definition has changed."""
        peer, print_ = self._peers.get(server.name), fingerprint(server)
        if peer is None or peer.print != print_:
            if peer is not None:
                self._leaving.add(leaving := asyncio.create_task(self._end(peer)))
                leaving.add_done_callback(self._leaving.discard)
            peer = self._peers[server.name] = Peer(print_)
        return peer

    async def _open_connection(self, server: Server, limit_s: float) -> tuple[Peer, Connection]:
        """Returns an open connection. Gone if there is none.

        One attempt serves all users of the server, and continues if one of them is cancelled.
        """
        peer = self._peer(server)
        if not peer.open and peer.connecting is None:
            connection = Connection(transport_of(server, self._environment, self._lookup))
            # Set before it is open, so that stopping the server ends it, too.
            peer.connection = connection
            connecting = self._connect(server, peer, connection, limit_s)
            peer.connecting = asyncio.create_task(connecting)
        if peer.connecting is not None:
            await asyncio.shield(peer.connecting)
        if peer.connection is None or not peer.connection.open:
            raise ServerGone(peer.fault or "The connection ended.")
        return peer, peer.connection

    async def _connect(
        self, server: Server, peer: Peer, connection: Connection, limit_s: float
    ) -> None:
        try:
            await connection.connect(_wait_s(server, limit_s))
            # Consent may have been withdrawn while the server started.
            if why := _refusal(server, await self._acceptance(server.name)):
                await connection.close()
                connection.words.fault = why
        except ServerGone as gone:
            connection.words.fault = connection.words.fault or str(gone)
        except BaseException:
            await connection.close()
            raise
        finally:
            peer.connecting = None
            self._remember(peer)

    async def _end(self, peer: Peer) -> None:
        connection, connecting = peer.connection, peer.connecting
        if connection is not None:
            await connection.close()
        if connection is not None and connecting is not None:
            await asyncio.wait([connecting])
            connection.words.fault = ""  # no failure of the server
        self._remember(peer)
        peer.failed_at = -math.inf

    async def _relist(self, server: Server, peer: Peer, connection: Connection) -> None:
        try:
            peer.listed = await connection.relist(_wait_s(server, LIST_S))
            peer.failed_at = -math.inf
        finally:
            self._remember(peer)

    def _remember(self, peer: Peer) -> None:
        """Stores the last listing and failure of a connection, beyond its end."""
        if peer.connection is not None:
            peer.tail = peer.connection.words.tail
            peer.fault = "" if peer.open else peer.connection.words.fault


async def _mismatch(invocation: Invocation, called: CalledTool) -> str:
    result = called.result
    expected = "output_schema" in invocation.tool.config and not result.is_error
    if called.structured is None and expected:
        return NO_STRUCTURE
    return await output_mismatch(invocation, result, called.structured)


def _wait_s(server: Server, usual_s: float) -> float:
    return usual_s if server.start_s is None else server.start_s


def _check_listing(
    server: Server, accepted: Acceptance, peer: Peer, tool: Tool, arguments: str, fault: str
) -> CallCheck:
    """Checks against the newest listing; `fault` says why there may be none."""
    if peer.listed is None:
        sentence = f"The tools of the server {server.name} cannot be listed. {fault}"
        return CallCheck(_code(server, None), (Problem("caution", sentence),))
    listed = _listed_tool(peer, tool)
    problems = [Problem("note", sentence) for sentence in _inexact_numbers(arguments)]
    if caution := acceptance_problem(tool, listed, accepted):
        problems.append(Problem("caution", caution))
    return CallCheck(_code(server, listed), tuple(problems), tool.parallel_safe)


def acceptance_problem(tool: Tool, listed: ListedTool | None, accepted: Acceptance) -> str:
    """Why no rule may run the tool in its listed form, or ""."""
    name, server = str(tool.config.get("tool", "")), str(tool.config.get("server", ""))
    if listed is None:
        return f"The server {server} no longer lists a tool {name}."
    was = accepted.tools.get(name)
    if was is None:
        return f"The tool {name} of the server {server} was not accepted on the server's page."
    if was != listed.fingerprint:
        return (
            f"The server {server} changed this tool's description or schema after it was "
            "accepted. Check the changes on the server's page, and accept them there."
        )
    return ""


def _refusal(server: Server, accepted: Acceptance) -> str:
    if accepted.server == fingerprint(server):
        return ""
    what = "has changed since it was accepted" if accepted.server else "was not accepted yet"
    return f"The server {server.name} {what}. Check it on its page and accept it there."


def _listed_tool(peer: Peer, tool: Tool) -> ListedTool | None:
    name = tool.config.get("tool")
    return next(
        (entry for entry in peer.listed or () if entry.name == name and not entry.fault), None
    )


def _code(server: Server, listed: ListedTool | None) -> str:
    """The fingerprint of what would run: the server, and its tool as listed."""
    return _code_of(server, listed.fingerprint if listed is not None else "unlisted")


def _code_of(server: Server, tool: str) -> str:
    return hashlib.sha256(f"{fingerprint(server)} {tool}".encode("ascii")).hexdigest()


def _inexact_numbers(arguments: str) -> list[str]:
    """Sentences on numbers that lose digits: the SDK supports only doubles."""
    try:
        words = float_words(arguments)
    except ValueError:
        return []
    lost = list(filter(_loses_digits, words))
    return [f"{word} is passed to the server as {float(word)!r}." for word in lost[:5]]


def _loses_digits(word: str) -> bool:
    value = float(word)
    try:
        return math.isfinite(value) and Decimal(repr(value)) != Decimal(word)
    except InvalidOperation:  # its exponent is beyond those of a Decimal
        return True


def _has_infinite(arguments: str) -> bool:
    """Whether a number is outside the range of doubles."""
    return not all(math.isfinite(float(word)) for word in float_words(arguments))


def _failure(text: str) -> ToolResult:
    return text_result(text, is_error=True, kind="failed")
