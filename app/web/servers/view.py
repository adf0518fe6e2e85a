"""The pages of MCP servers: the list, one with its consent and its tools, the editor. Pure.

Knows a server by what it is handed; a value that looks like a key never comes here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jinja2 import Environment

from app.core.servers import Accepted, Server
from app.core.tools import Tool
from app.core.value_diff import LineChange, line_changes
from app.render.filters import exposed_count

STATES: Mapping[str, tuple[str, str]] = {
    "new": ("not accepted", "waiting"),
    "changed": ("changed, not accepted", "waiting"),
    "resting": ("accepted", ""),
    "connected": ("connected", "ran"),
    "failed": ("failed", "failed"),
}
"""By its state: the words, and the class of the pill."""

MARKS: Mapping[str, tuple[str, str]] = {
    "new": ("new", "live"),
    "changed": ("changed", "waiting"),
    "same": ("taken", "ran"),
    "gone": ("gone", "failed"),
    "refused": ("cannot be added", "failed"),
}


class ServerTool(Protocol):
    """A tool as its server lists it."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def annotations(self) -> Mapping[str, Any]: ...
    @property
    def output_schema(self) -> Mapping[str, Any] | None: ...
    @property
    def fault(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


class Offered(Protocol):
    """A tool beside what was accepted of it."""

    @property
    def name(self) -> str: ...
    @property
    def mark(self) -> str: ...
    @property
    def listed(self) -> ServerTool | None: ...
    @property
    def own(self) -> Tool | None: ...


class ServerDetails(Protocol):
    """A server and all there is to say about it."""

    @property
    def server(self) -> Server: ...
    @property
    def accepted(self) -> Accepted: ...
    @property
    def state(self) -> str: ...
    @property
    def fault(self) -> str: ...
    @property
    def tail(self) -> str: ...
    @property
    def offered(self) -> Sequence[Offered]: ...
    @property
    def listed(self) -> bool: ...
    @property
    def missing(self) -> Sequence[str]: ...
    @property
    def print(self) -> str: ...


@dataclass(frozen=True)
class ServerForm:
    """The editor's fields as text; `line` is a command with its arguments as a shell has it."""

    name: str = ""
    line: str = ""
    env: str = ""
    cwd: str = ""
    url: str = ""
    headers: str = ""
    private: bool = True


def server_form(server: Server) -> ServerForm:
    """The editor's fields for a server."""
    return ServerForm(
        server.name,
        shlex.join((server.command, *server.args)) if server.command else "",
        "\n".join(f"{name}={value}" for name, value in server.env.items()),
        server.cwd,
        server.url,
        "\n".join(f"{name}: {value}" for name, value in server.headers.items()),
        server.private,
    )


def servers_page(env: Environment, rows: Sequence[ServerDetails]) -> str:
    """The list of all servers."""
    return env.get_template("servers.html").render(rows=rows, states=STATES)


def server_page(
    env: Environment,
    rows: Sequence[ServerDetails],
    row: ServerDetails,
    wrong: str = "",
    notice: str = "",
) -> str:
    """One server: what would be started or asked, its tools, its last words."""
    return env.get_template("server.html").render(
        rows=rows,
        row=row,
        states=STATES,
        marks=MARKS,
        wrong=wrong,
        told=notice,
        hidden=hidden(row.server),
        differences={
            offered.name: difference(offered)
            for offered in row.offered
            if offered.mark == "changed"
        },
        choosable=any(offered.mark in ("new", "changed") for offered in row.offered),
    )


def server_editor(
    env: Environment,
    rows: Sequence[ServerDetails],
    form: ServerForm,
    original: str = "",
    wrong: str = "",
) -> str:
    """The editor of one server, `original` by its name, or of a new one."""
    return env.get_template("server_form.html").render(
        rows=rows, states=STATES, form=form, original=original, wrong=wrong
    )


def hidden(server: Server) -> int:
    """How many characters of what is started or asked cannot be seen as they are."""
    texts = (server.command, *server.args, server.cwd, server.url)
    pairs = [
        word for both in (server.env, server.headers) for pair in both.items() for word in pair
    ]
    return sum(exposed_count(text, lines=True) for text in (*texts, *pairs))


def difference(offered: Offered) -> list[LineChange]:
    """What a changed tool says now against what the library has of it, line by line."""
    before = _text(offered.own.description, offered.own.parameters) if offered.own else ""
    after = _text(offered.listed.description, offered.listed.parameters) if offered.listed else ""
    return [line for line in line_changes(before, after) if line[0] != "@"]


def _text(description: str, parameters: Mapping[str, Any]) -> str:
    schema = json.dumps(parameters, indent=2, ensure_ascii=False)
    return "\n".join([*description.splitlines(), "", schema])
