"""The pages of MCP servers: the list, one with its consent and tools, and changes by the user."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput, Conflict
from playground.core.serialization import to_data
from playground.core.servers import Acceptance, Server
from playground.core.tools import Tool
from playground.core.value_diff import LineChange, line_changes
from playground.engine.servers import ShownServer
from playground.render.filters import exposed_count
from playground.web.forms import Body, answer, answer_format, as_json, body_of
from playground.web.site import site_of

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


async def servers(request: Request) -> Response:
    """GET /servers?new=1: lists the MCP servers. `new` opens the editor of a new one."""
    site = site_of(request)
    rows = await site.engine.servers.list_servers()
    if answer_format(request) == "json":
        return as_json([data_of(row) for row in rows])
    if request.query_params.get("new"):
        return HTMLResponse(server_editor(site.env, rows, ServerForm()))
    return HTMLResponse(servers_page(site.env, rows))


async def server(request: Request) -> Response:
    """GET /servers/NAME?edit=1: shows a server, with the command or address it uses. `edit` opens
    its editor."""
    site = site_of(request)
    row = await site.engine.servers.get(request.path_params["name"])
    if answer_format(request) == "json":
        return as_json(data_of(row))
    if request.query_params.get("edit"):
        rows = await site.engine.servers.list_servers()
        form = server_form(row.server)
        return HTMLResponse(server_editor(site.env, rows, form, row.server.name))
    return await _page(request, row)


async def save(request: Request) -> Response:
    """POST /servers: saves a server from a script or the editor. Saving does not accept it.

    ---
    responses:
      201: {description: The server.}
    """
    site, body = site_of(request), await body_of(request)
    engine, original = site.engine, "" if body.is_json else body.text("original")
    try:
        data = body.data if body.is_json else _from_form(body)
        honest = await engine.servers.confirmed_values(original or str(data.get("name", "")))
        saved = engine.servers.parse_server(data, honest)
        await engine.servers.save(saved, saved.name if body.is_json else original)
    except (BadInput, Conflict) as error:
        if answer_format(request) != "page":
            raise
        mask = engine.keys.redactor().redact_text
        rows = await engine.servers.list_servers()
        html = server_editor(site.env, rows, _read_form(body), original, mask(str(error)))
        return HTMLResponse(mask(html), 422)
    here = _place(saved.name)
    if answer_format(request) == "json":
        return as_json(data_of(await engine.servers.get(saved.name)), 201, {"Location": here})
    return answer(request, {"name": saved.name}, location=here)


async def accept(request: Request) -> Response:
    """POST /servers/NAME/accept: accepts a server if the shown `fingerprint` matches, else 409."""
    name, body = request.path_params["name"], await body_of(request)
    await site_of(request).engine.servers.accept(name, body.text("fingerprint"))
    return answer(request, {"ok": True}, location=_place(name))


async def withdraw(request: Request) -> Response:
    """POST /servers/NAME/withdraw: ends a server, and requires consent again."""
    name = request.path_params["name"]
    await site_of(request).engine.servers.withdraw(name)
    return answer(request, {"ok": True}, location=_place(name))


async def list_tools(request: Request) -> Response:
    """POST /servers/NAME/list: starts or queries a server now. Failures are shown on its page."""
    site, name = site_of(request), request.path_params["name"]
    try:
        row = await site.engine.servers.list_tools(name)
    except BadInput as error:
        if answer_format(request) != "page":
            raise
        mask = site.engine.keys.redactor().redact_text
        return await _page(request, await site.engine.servers.get(name), mask(str(error)), 422)
    return answer(request, data_of(row), location=_place(name) + "#tools")


async def adopt_tools(request: Request) -> Response:
    """POST /servers/NAME/take: adopts `tools`, each "FINGERPRINT NAME" as shown, else 409."""
    name, body = request.path_params["name"], await body_of(request)
    chosen = []
    for shown in body.getlist("tools"):
        print_, _, tool = shown.partition(" ")
        chosen.append((tool, print_))
    added = await site_of(request).engine.servers.add_tools(name, chosen)
    there = f"{_place(name)}?taken={len(added)}#tools"
    return answer(request, {"tools": added}, location=there)


async def stop(request: Request) -> Response:
    """POST /servers/NAME/stop: ends the connection of a server. The next call makes another."""
    name = request.path_params["name"]
    await site_of(request).engine.servers.stop(name)
    return answer(request, {"ok": True}, location=_place(name))


async def delete(request: Request) -> Response:
    """POST /servers/NAME/delete: deletes a server."""
    await site_of(request).engine.servers.delete(request.path_params["name"])
    return answer(request, {"ok": True}, location="/servers")


def data_of(row: ShownServer) -> dict[str, Any]:
    """A server as scripts read it."""
    tools = [
        {
            "name": offered.name,
            "mark": offered.mark,
            "taken_as": offered.own.name if offered.own else "",
            **(to_data(offered.listed) if offered.listed else {}),
            "fingerprint": offered.listed.fingerprint if offered.listed else "",
        }
        for offered in row.offered
    ]
    return {
        **to_data(row.server),
        "fingerprint": row.print,
        "state": row.state,
        "accepted": row.state not in ("new", "changed"),
        "fault": row.fault,
        "missing": list(row.missing),
        "stderr": row.tail,
        "tools": tools,
    }


async def _page(request: Request, row: ShownServer, wrong: str = "", status: int = 200) -> Response:
    site = site_of(request)
    added = request.query_params.get("taken", "")
    notice = f"{added} in the library now." if added.isascii() and added.isdigit() else ""
    rows = await site.engine.servers.list_servers()
    return HTMLResponse(server_page(site.env, rows, row, wrong, notice), status)


def _place(name: str) -> str:
    return f"/servers/{quote(name, safe='')}"


def _read_form(body: Body) -> ServerForm:
    """The input of the editor, unchanged."""
    return ServerForm(**body.form_fields(ServerForm))


def _from_form(body: Body) -> dict[str, Any]:
    """The server in the editor's fields; two kinds at once are reported by the check."""
    try:
        words = shlex.split(body.text("line"))
    except ValueError as error:
        sentence = f"The command line is invalid ({error}); close its quotes."
        raise BadInput(sentence) from None
    url = body.text("url").strip()
    data: dict[str, Any] = {"name": body.text("name").strip(), "url": url}
    if words:
        data |= {"command": words[0], "args": words[1:]}
    return {
        **data,
        "cwd": body.text("cwd").strip(),
        "env": _pairs(body.text("env"), "=", "Write one variable per line, like NAME=value."),
        "headers": _pairs(
            body.text("headers"), ":", "Write one header per line, like Name: value."
        ),
        "private": bool(url) and body.flag("private"),
        "start_s": _seconds(body.text("start_s")),
        "call_s": _seconds(body.text("call_s")),
    }


def _seconds(text: str) -> float | None:
    """The number in a field of the editor; an empty field stands for the usual time."""
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise BadInput(
            f"{text[:40]!r} is not a number of seconds. Write a number like 60."
        ) from None


def _pairs(text: str, sign: str, sentence: str) -> dict[str, str]:
    pairs = {}
    for line in text.splitlines():
        name, separator, value = line.partition(sign)
        if line.strip() and not separator:
            raise BadInput(sentence)
        if line.strip():
            pairs[name.strip()] = value.strip()
    return pairs


# How they are drawn -------------------------------------------------------------------------------
# Values that look like keys are removed before.


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


class AcceptedTool(Protocol):
    """A tool with its accepted version."""

    @property
    def name(self) -> str: ...
    @property
    def mark(self) -> str: ...
    @property
    def listed(self) -> ServerTool | None: ...
    @property
    def own(self) -> Tool | None: ...


class ServerDetails(Protocol):
    """A server with everything shown about it."""

    @property
    def server(self) -> Server: ...
    @property
    def accepted(self) -> Acceptance: ...
    @property
    def state(self) -> str: ...
    @property
    def fault(self) -> str: ...
    @property
    def tail(self) -> str: ...
    @property
    def offered(self) -> Sequence[AcceptedTool]: ...
    @property
    def listed(self) -> bool: ...
    @property
    def missing(self) -> Sequence[str]: ...
    @property
    def print(self) -> str: ...


@dataclass(frozen=True)
class ServerForm:
    """The editor's fields as text; `line` is a command with its arguments in shell syntax."""

    name: str = ""
    line: str = ""
    env: str = ""
    cwd: str = ""
    url: str = ""
    headers: str = ""
    private: bool = True
    start_s: str = ""
    call_s: str = ""


def server_form(server: Server) -> ServerForm:
    """The editor's fields for a server."""
    return ServerForm(
        server.name,
        line=shlex.join((server.command, *server.args)) if server.command else "",
        env="\n".join(f"{name}={value}" for name, value in server.env.items()),
        cwd=server.cwd,
        url=server.url,
        headers="\n".join(f"{name}: {value}" for name, value in server.headers.items()),
        private=server.private,
        start_s="" if server.start_s is None else f"{server.start_s:g}",
        call_s="" if server.call_s is None else f"{server.call_s:g}",
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
    """One server: what would be started or queried, its tools, its last output."""
    return env.get_template("server.html").render(
        rows=rows,
        row=row,
        states=STATES,
        marks=MARKS,
        wrong=wrong,
        told=notice,
        hidden=hidden_characters(row.server),
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


def hidden_characters(server: Server) -> int:
    """The number of invisible characters in what is started or queried."""
    texts = (server.command, *server.args, server.cwd, server.url)
    pairs = [
        word for both in (server.env, server.headers) for pair in both.items() for word in pair
    ]
    return sum(exposed_count(text, lines=True) for text in (*texts, *pairs))


def difference(offered: AcceptedTool) -> list[LineChange]:
    """The line-by-line diff of a changed tool against its version in the library."""
    before = _text(offered.own.description, offered.own.parameters) if offered.own else ""
    after = _text(offered.listed.description, offered.listed.parameters) if offered.listed else ""
    return [line for line in line_changes(before, after) if line[0] != "@"]


def _text(description: str, parameters: Mapping[str, Any]) -> str:
    schema = json.dumps(parameters, indent=2, ensure_ascii=False)
    return "\n".join([*description.splitlines(), "", schema])
