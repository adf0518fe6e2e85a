"""What the import pages show: pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from jinja2 import Environment

from playground.core.serialization import to_data
from playground.core.servers import KeyReplacement, Server
from playground.core.tools import TOOL_KINDS, Tool
from playground.schema.http_parameters import display_url
from playground.web.tools.parameter_rows import parameter_rows


@dataclass(frozen=True)
class ImportRow:
    """One tool or server. `called` is its name in the source, `kind` the format, `problem` why it
    cannot be imported. `name` is the one it would get, `existing` that of the stored one, or "".
    `replaced` are values of a server that may be keys, held in memory under `held`; `back` are the
    places of those that the user wants restored. `error` is about the user's own choice."""

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
    replaced: tuple[KeyReplacement, ...] = ()
    held: str = ""
    back: frozenset[int] = frozenset()

    @property
    def carried(self) -> str:
        """The row as sent with the next request: ASCII, so that every character survives."""
        data: dict[str, Any] = {"source": self.source, "notes": list(self.notes)}
        if self.tool is not None:
            data |= {"tool": to_data(self.tool), "kind": self.kind}
        if self.server is not None:
            data |= {"server": to_data(self.server), "held": self.held}
        return json.dumps(data)

    @property
    def runs(self) -> list[tuple[str, str]]:
        """The complete effect of a call: (what, its text)."""
        if self.tool is not None:
            return _tool_runs(self.tool)
        return _server_runs(self.server) if self.server is not None else []


@dataclass(frozen=True)
class ImportPage:
    """`notices` are sentences about whole texts: (source, sentence, whether it is a problem).
    `done` says what was imported, with links (label, address). `readers` are the Python files that
    an interpreter can read; `ran`: one was started for that. `failed`: without success, so that the
    rows come from the text."""

    rows: Sequence[ImportRow] = ()
    notices: Sequence[tuple[str, str, bool]] = ()
    typed: str = ""
    done: str = ""
    links: Sequence[tuple[str, str]] = ()
    readers: Sequence[PythonReader] = ()
    ran: bool = False
    failed: bool = False


@dataclass(frozen=True)
class PythonReader:
    """The form of one Python file: `number` is its place in the texts kept under `upload`, `known`
    are interpreters of the user's other tools. `file` and `interpreter` are what was typed."""

    upload: str
    number: int
    name: str
    known: Sequence[str]
    file: str = ""
    interpreter: str = ""


@dataclass(frozen=True)
class ChoiceRow:
    """A tool by its name; `pick` is the form's value for it."""

    pick: str
    key: str
    name: str
    summary: str


@dataclass(frozen=True)
class ChoicePage:
    """`upload` is the id of the texts in memory; `listed` are (file, group -> its rows), of which
    `most` may be chosen at once; `notices` is as in ImportPage."""

    upload: str
    listed: Sequence[tuple[str, Mapping[str, Sequence[ChoiceRow]]]]
    most: int
    notices: Sequence[tuple[str, str, bool]] = ()

    @property
    def count(self) -> int:
        return sum(len(group) for _, groups in self.listed for group in groups.values())


def choice_page(env: Environment, page: ChoicePage) -> str:
    """The selection page for a text with more tools than a page shows, listed by name."""
    return env.get_template("import_choose.html").render(page=page)


def import_page(env: Environment, page: ImportPage) -> str:
    """The whole page: the form, or what can be imported."""
    tools = [row for row in page.rows if not row.is_server]
    servers = [row for row in page.rows if row.is_server]
    ready = [row for row in page.rows if not row.problem]
    return env.get_template("import.html").render(
        page=page, tools=tools, servers=servers, ready=ready, kinds=TOOL_KINDS
    )


def _tool_runs(tool: Tool) -> list[tuple[str, str]]:
    config = tool.config
    match tool.answered_by:
        case "python":
            names = ("file", "function", "interpreter", "code")
            return [(name, str(config[name])) for name in names if name in config]
        case "http":
            return [
                (str(config.get("method", "GET")), display_url(config)),
                *((given.place, f"{given.name}: {given.text}") for given in parameter_rows(config)),
                *(("header", f"{name}: {value}") for name, value in _pairs(config.get("headers"))),
                *([("body", _text(config["body"]))] if "body" in config else []),
            ]
        case "mock" | "person" | "mcp" | "workspace":
            return [(name, _text(value)) for name, value in config.items()]
        case _:
            assert_never(tool.answered_by)


def _server_runs(server: Server) -> list[tuple[str, str]]:
    lines = [("command", server.command)] if server.command else [("url", server.url)]
    lines += [("argument", argument) for argument in server.args]
    lines += [("folder", server.cwd)] if server.cwd else []
    lines += [("variable", f"{name}={value}") for name, value in server.env.items()]
    lines += [("header", f"{name}: {value}") for name, value in server.headers.items()]
    times = (("time to start", server.start_s), ("time for a call", server.call_s))
    return [*lines, *((what, f"{time_s:g} s") for what, time_s in times if time_s is not None)]


def _pairs(value: Any) -> list[tuple[str, str]]:
    return [(str(k), str(v)) for k, v in value.items()] if isinstance(value, Mapping) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
