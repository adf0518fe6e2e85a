"""The import page: the tools and servers of a pasted text or of files, before any is imported.

Each row carries what would be saved as JSON, so that what is imported is what was shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment

from app.core.serialization import to_data
from app.core.servers import Replaced, Server
from app.core.tools import Tool

_KINDS = {
    "mock": "Nothing runs: a made-up result.",
    "person": "Nothing runs: you answer each call.",
    "python": "Python, as you, on this computer",
    "http": "An HTTP request",
    "mcp": "A tool of an MCP server",
    "workspace": "A workspace tool",
}


@dataclass(frozen=True)
class ImportRow:
    """One tool or server. `called` is its name in the source, `kind` the format, `problem` why
    it cannot be imported. `name` is the one it would get, `existing` that of the one there, or "".
    `replaced` are the values of a server that may be keys, kept in memory under `held`; `back` are
    the places of those among them that the user wants to have back. `error` is about the user's
    own choice."""

    number: int
    source: str
    called: str
    kind: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""
    tool: Tool | None = None
    server: Server | None = None
    is_server: bool = False
    name: str = ""
    existing: str = ""
    replace: bool = False
    take: bool = True
    on: bool = False
    error: str = ""
    replaced: tuple[Replaced, ...] = ()
    held: str = ""
    back: frozenset[int] = frozenset()

    @property
    def carried(self) -> str:
        """What the next request carries: ASCII, so that no character is lost on the way."""
        data: dict[str, Any] = {"source": self.source, "notes": list(self.notes)}
        if self.tool is not None:
            data |= {"tool": to_data(self.tool), "kind": self.kind}
        if self.server is not None:
            data |= {"server": to_data(self.server), "held": self.held}
        return json.dumps(data)

    @property
    def runs(self) -> list[tuple[str, str]]:
        """What a call would do, in whole: (what, the text of it)."""
        if self.tool is not None:
            return _tool_runs(self.tool)
        return _server_runs(self.server) if self.server is not None else []


@dataclass(frozen=True)
class ImportPage:
    """`notices` are sentences about whole texts: (source, sentence, whether it is a problem).
    `done` says what was imported, with links (label, address)."""

    rows: Sequence[ImportRow] = ()
    notices: Sequence[tuple[str, str, bool]] = ()
    typed: str = ""
    done: str = ""
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class ChoiceRow:
    """A tool by its name; `pick` is what the form sends where it is chosen."""

    pick: str
    key: str
    name: str
    summary: str


@dataclass(frozen=True)
class ChoicePage:
    """`upload` names what is kept in memory; `listed` are (file, group -> its rows), of which
    `most` may be chosen at once; `notices` is as in ImportPage."""

    upload: str
    listed: Sequence[tuple[str, Mapping[str, Sequence[ChoiceRow]]]]
    most: int
    notices: Sequence[tuple[str, str, bool]] = ()

    @property
    def count(self) -> int:
        return sum(len(group) for _, groups in self.listed for group in groups.values())


def choice_page(env: Environment, page: ChoicePage) -> str:
    """The page of a text that holds more than a page shows: its tools by name, to choose from."""
    return env.get_template("import_choose.html").render(page=page)


def import_page(env: Environment, page: ImportPage) -> str:
    """The whole page: the form, or what can be imported."""
    tools = [row for row in page.rows if not row.is_server]
    servers = [row for row in page.rows if row.is_server]
    ready = [row for row in page.rows if not row.problem]
    return env.get_template("import.html").render(
        page=page, tools=tools, servers=servers, ready=ready, kinds=_KINDS
    )


def _tool_runs(tool: Tool) -> list[tuple[str, str]]:
    config = tool.config
    match tool.answered_by:
        case "python":
            names = ("file", "function", "interpreter", "code")
            return [(name, str(config[name])) for name in names if name in config]
        case "http":
            return [
                (str(config.get("method", "GET")), str(config.get("url", ""))),
                *(("header", f"{name}: {value}") for name, value in _pairs(config.get("headers"))),
                *([("body", _text(config["body"]))] if "body" in config else []),
            ]
        case _:
            return [(name, _text(value)) for name, value in config.items()]


def _server_runs(server: Server) -> list[tuple[str, str]]:
    lines = [("command", server.command)] if server.command else [("url", server.url)]
    lines += [("argument", argument) for argument in server.args]
    lines += [("folder", server.cwd)] if server.cwd else []
    lines += [("variable", f"{name}={value}") for name, value in server.env.items()]
    return [*lines, *(("header", f"{name}: {value}") for name, value in server.headers.items())]


def _pairs(value: Any) -> list[tuple[str, str]]:
    return [(str(k), str(v)) for k, v in value.items()] if isinstance(value, Mapping) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
