"""The user's MCP servers: saves and accepts them, lists their tools, adds tools to the library.

A server is started or contacted only after the user accepted exactly what was shown, and a tool is
added only exactly as shown. No page here. Threats 14, 15 and 27 of docs/safety.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from playground.core.errors import BadInput, BadTool, Conflict, NotFound
from playground.core.serialization import to_data
from playground.core.servers import (
    MOST_TEXT,
    MOST_WORDS,
    NAME,
    VARIABLE,
    WAIT_S,
    Acceptance,
    Server,
    fingerprint,
)
from playground.core.tools import Tool
from playground.exchange import mcp_config
from playground.executors.mcp.connection import ListedTool, library_name
from playground.executors.mcp.executor import Mcp
from playground.net.keys import origin
from playground.net.threads import run_in_daemon
from playground.schema.schema_checks import is_number, one_document
from playground.schema.validate import HEADER, check_tool
from playground.secrets.redaction import Redactor
from playground.store.library import Library

TAIL = 8 * 1024
FIRST_S = 30.0
"""How long the user's click waits for a server, which may have to be downloaded first."""
TIMEOUT_S = 60.0

ServerState = Literal["new", "changed", "resting", "connected", "failed"]
"""Never accepted; changed since it was accepted; accepted but not connected; connected; failed."""

OfferMark = Literal["new", "changed", "same", "gone", "refused"]


@dataclass(frozen=True)
class OfferedTool:
    """A tool of a server, compared with what was accepted. `own` is the library's tool, if any, as
    accepted; `listed` is None if the server no longer has it."""

    name: str
    mark: OfferMark
    listed: ListedTool | None
    own: Tool | None


@dataclass(frozen=True)
class ShownServer:
    """A server and its current state. `tail` is the end of its stderr."""

    server: Server
    accepted: Acceptance
    state: ServerState
    fault: str
    tail: str
    offered: tuple[OfferedTool, ...]
    listed: bool
    missing: tuple[str, ...]
    """The names of required variables that are not set."""

    @property
    def print(self) -> str:
        return fingerprint(self.server)


class Servers:
    """`redactor` returns a redactor for the known keys, `clock` the time in ms."""

    def __init__(
        self,
        library: Library,
        mcp: Mcp,
        redactor: Callable[[], Redactor],
        clock: Callable[[], int],
    ) -> None:
        self._library = library
        self._mcp = mcp
        self._redactor = redactor
        self._clock = clock
        self._changing = asyncio.Lock()

    async def list_servers(self) -> list[ShownServer]:
        """All servers, by name."""
        tools = [entry.tool for entry in await self._library.entries()]
        return [
            await self._shown_server(server, accepted, tools)
            for server, accepted in await self._library.servers()
        ]

    async def get(self, name: str) -> ShownServer:
        """NotFound if there is none."""
        server, accepted = await self._saved_server(name)
        tools = [entry.tool for entry in await self._library.entries()]
        return await self._shown_server(server, accepted, tools)

    async def save(self, server: Server, original: str = "") -> None:
        """Saves a checked server; a change of it ends its acceptance (new fingerprint).

        Conflict if another server has its name.
        """
        async with self._changing:
            saved = {other.name: accepted for other, accepted in await self._library.servers()}
            if server.name != original and server.name in saved:
                raise Conflict(f"A server {server.name!r} already exists. Choose another name.")
            await self._library.save_server(
                server, saved.get(original, Acceptance()), self._clock()
            )
            if original and original != server.name:
                await self._library.delete_server(original)
        await self._mcp.stop(original or server.name)

    async def confirmed_values(self, name: str) -> set[str]:
        """The values of a saved server that look like keys but that the user confirmed."""
        saved = (server for server, _ in await self._library.servers() if server.name == name)
        return {value for server in saved for _, value in mcp_config.literal_keys(server)}

    async def accept(self, name: str, print_: str) -> None:
        """Accepts the server with this fingerprint. Conflict if it has changed since."""
        async with self._changing:
            server, accepted = await self._saved_server(name)
            if print_ != fingerprint(server):
                raise Conflict(
                    f"The server {name} has changed since it was shown. Check it again.",
                    {"fingerprint": fingerprint(server)},
                )
            await self._keep(server, replace(accepted, server=print_))

    async def withdraw(self, name: str) -> None:
        """Revokes the acceptance and ends the server."""
        async with self._changing:
            server, accepted = await self._saved_server(name)
            await self._keep(server, replace(accepted, server=""))
        await self._mcp.stop(name)

    async def list_tools(self, name: str) -> ShownServer:
        """Starts or contacts it and lists its tools. BadInput: that failed, or not accepted."""
        server, _ = await self._saved_server(name)
        await self._mcp.list_tools(server, FIRST_S)
        return await self.get(name)

    async def add_tools(self, name: str, chosen: Sequence[tuple[str, str]]) -> list[str]:
        """Adds tools to the library, or updates them there; each is given by name and the
        fingerprint that was shown. Returns their names there. Conflict if one has changed."""
        async with self._changing:
            server, accepted = await self._saved_server(name)
            listed = {entry.name: entry for entry in self._mcp.peer(server).listed or ()}
            entries: list[ListedTool] = []
            for tool, print_ in chosen:
                listed_tool = listed.get(tool)
                if listed_tool is None or listed_tool.fingerprint != print_ or listed_tool.fault:
                    raise Conflict(f"{name} has changed its tool {tool}. Check its tools again.")
                entries.append(listed_tool)
            if not entries:
                raise BadInput("Choose the tools to add.")
            tools = await self._make_tools(
                server, entries, [entry.tool for entry in await self._library.entries()]
            )
            await self._library.save_all(tools, self._clock())
            prints = {listed.name: listed.fingerprint for listed in entries}
            await self._keep(server, replace(accepted, tools={**accepted.tools, **prints}))
            return [tool.name for tool in tools]

    async def stop(self, name: str) -> None:
        """Closes the connection and ends the process, if any; the next call opens a new one."""
        await self._saved_server(name)
        await self._mcp.stop(name)

    async def delete(self, name: str) -> None:
        """Deletes the server. Its tools stay in the library but cannot run."""
        await self._saved_server(name)
        await self._library.delete_server(name)
        await self._mcp.stop(name)

    def parse_server(self, data: Mapping[str, Any], honest: Collection[str] = ()) -> Server:
        """The server that `data` describes; BadInput says why it may not be saved. `honest` are
        values that look like keys but that the user confirmed as harmless."""
        server = _server(data)
        _check_secrets(server, honest)
        redactor = self._redactor()
        if redactor.holds([to_data(server)]):
            raise BadInput(
                "The server contains the value of a key. Replace it by ${NAME}, the "
                "name of the key's variable."
            )
        return server

    async def _make_tools(
        self, server: Server, entries: Sequence[ListedTool], library: Sequence[Tool]
    ) -> list[Tool]:
        """The tools of the entries. Their schemas may take a while to check."""
        with one_document():
            return await run_in_daemon(self._check_entries, server, entries, library)

    def _check_entries(
        self, server: Server, entries: Sequence[ListedTool], library: Sequence[Tool]
    ) -> list[Tool]:
        names = {tool.name for tool in library}
        tools: list[Tool] = []
        for listed in entries:
            own = own_tool(library, server.name, listed.name)
            name = (
                own.name
                if own
                else library_name(
                    listed.name, server.name, names, (entry.name for entry in entries)
                )
            )
            names.add(name)
            tool = _tool(server, listed, name, own)
            if self._redactor().holds([to_data(tool)]):
                raise BadInput(
                    f"{listed.name} contains the value of one of your keys and was not added."
                )
            tools.append(tool)
        return tools

    async def _shown_server(
        self, server: Server, accepted: Acceptance, tools: Sequence[Tool]
    ) -> ShownServer:
        peer = self._mcp.peer(server)
        state: ServerState
        match accepted.server == fingerprint(server), peer.open, bool(peer.fault):
            case False, _, _:
                state = "changed" if accepted.server else "new"
            case _, True, _:
                state = "connected"
            case _, _, failed:
                state = "failed" if failed else "resting"
        mask = self._redactor().redact_text
        return ShownServer(
            server,
            accepted=accepted,
            state=state,
            fault=mask(peer.fault),
            tail=mask(peer.tail.decode("utf-8", "replace"))[-TAIL:],
            offered=list_offered_tools(server.name, accepted, peer.listed, tools),
            listed=peer.listed is not None,
            missing=self._mcp.missing_variables(server),
        )

    async def _saved_server(self, name: str) -> tuple[Server, Acceptance]:
        for server, accepted in await self._library.servers():
            if server.name == name:
                return server, accepted
        raise NotFound(f"There is no MCP server {name!r}.")

    async def _keep(self, server: Server, accepted: Acceptance) -> None:
        await self._library.save_server(server, accepted, self._clock())


def list_offered_tools(
    name: str, accepted: Acceptance, listed: Sequence[ListedTool] | None, library: Sequence[Tool]
) -> tuple[OfferedTool, ...]:
    """The tools of a server in its order, then those it no longer has."""
    offers = [_offered_tool(name, accepted, entry, library) for entry in listed or ()]
    there = {entry.name for entry in listed or ()}
    lost: OfferMark = "same" if listed is None else "gone"
    rest = [tool for tool in accepted.tools if tool not in there]
    return (
        *offers,
        *(OfferedTool(tool, lost, None, own_tool(library, name, tool)) for tool in rest),
    )


def _offered_tool(
    name: str, accepted: Acceptance, entry: ListedTool, library: Sequence[Tool]
) -> OfferedTool:
    was = accepted.tools.get(entry.name)
    mark: OfferMark = "refused" if entry.fault else "new"
    if was is not None and not entry.fault:
        mark = "same" if was == entry.fingerprint else "changed"
    return OfferedTool(entry.name, mark, entry, own_tool(library, name, entry.name))


def own_tool(library: Sequence[Tool], server: str, name: str) -> Tool | None:
    """The library's tool that is executed by tool `name` of `server`."""
    for tool in library:
        place = (tool.config.get("server"), tool.config.get("tool"))
        if tool.answered_by == "mcp" and place == (server, name):
            return tool
    return None


def _tool(server: Server, entry: ListedTool, name: str, own: Tool | None) -> Tool:
    """The tool for the library; BadInput if its schema is invalid."""
    config: dict[str, Any] = {"server": server.name, "tool": entry.name}
    if entry.annotations:
        config["annotations"] = entry.annotations
    if entry.output_schema is not None:
        config["output_schema"] = entry.output_schema
    timeout_s = TIMEOUT_S if server.call_s is None else server.call_s
    basis = own or Tool(name, timeout_s=timeout_s, group=f"mcp · {server.name}"[:100])
    tool = replace(
        basis,
        name=name,
        description=entry.description,
        parameters=entry.parameters,
        answered_by="mcp",
        config=config,
        read_only=entry.annotations.get("readOnlyHint") is True,
    )
    try:
        return check_tool(to_data(tool))
    except BadTool as error:
        raise BadInput(f"{entry.name} cannot be added: {error}") from None


def _server(data: Mapping[str, Any]) -> Server:
    known = [field.name for field in fields(Server)]
    for other in data:
        if other not in known:
            raise BadInput(
                f"A server has no field {str(other)[:80]!r}. Its fields are {', '.join(known)}."
            )
    name = data.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadInput("A server needs a name of 1 to 64 letters, digits, dots, _ or -.")
    if not isinstance(data.get("private", False), bool):
        raise BadInput("private must be true or false.")
    server = Server(
        name,
        command=_text(data, "command").strip(),
        args=_words(data.get("args", ())),
        env=_pairs(data.get("env", {}), "env", VARIABLE),
        cwd=_text(data, "cwd").strip(),
        url=_text(data, "url").strip(),
        headers=_pairs(data.get("headers", {}), "headers", HEADER),
        private=data.get("private", False),
        start_s=_seconds(data, "start_s"),
        call_s=_seconds(data, "call_s"),
    )
    if bool(server.command) == bool(server.url):
        raise BadInput("A server needs either a command or a URL. Give one of them.")
    if server.command and (server.headers or server.private):
        raise BadInput("Only a server with a URL can have headers and private addresses.")
    if server.url and (server.args or server.env or server.cwd):
        raise BadInput("Only a server with a command can have arguments, variables and a folder.")
    if server.url:
        origin(server.url)
    if server.cwd and not server.cwd.startswith(("/", "~/")):
        raise BadInput("The working directory must be an absolute path, such as /home/you/project.")
    return server


def _check_secrets(server: Server, honest: Collection[str]) -> None:
    """BadInput if a literal looks like a key: keys are referenced by variable name."""
    for name, value in mcp_config.literal_keys(server):
        if value not in honest:
            place = f"The value of {name}" if name else "One of its values"
            raise BadInput(
                f"{place} looks like a key, and keys are not saved here. Replace it by"
                " ${{NAME}}, and set NAME in the environment of the playground."
            )


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or len(value) > MOST_TEXT or "\0" in value:
        raise BadInput(f"{name} must be a text of at most {MOST_TEXT:,} characters.")
    return value


def _seconds(data: Mapping[str, Any], name: str) -> float | None:
    value = data.get(name)
    least, longest = WAIT_S
    if value is None:
        return None
    if not is_number(value) or not least <= value <= longest:
        raise BadInput(f"{name} must be a number of seconds from {least} to {longest:g}, or null.")
    return float(value)


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > MOST_WORDS:
        raise BadInput(f"args must be a list of at most {MOST_WORDS} texts.")
    return tuple(_text({"args": word}, "args") for word in value)


def _pairs(value: Any, what: str, names: re.Pattern[str]) -> dict[str, str]:
    if not isinstance(value, Mapping) or len(value) > MOST_WORDS:
        raise BadInput(f"{what} must be an object of at most {MOST_WORDS} names and texts.")
    for name in value:
        if not isinstance(name, str) or not names.fullmatch(name):
            raise BadInput(f"{str(name)[:80]!r} cannot be a name in {what}. Correct it.")
    return {name: _text(value, name) for name in value}
