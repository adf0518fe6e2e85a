"""Importing tools and MCP servers: shown first, then saved, initially switched off.

exchange/ parses them, and fetches and starts nothing. Each row carries what would be saved as
JSON, so that what is imported is what was shown. Threat 14 of docs/safety.md.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from playground.core.errors import BadInput, BadTool, Conflict
from playground.core.serialization import to_data
from playground.core.servers import NAME, Server
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.read_python import FileToRead, read_python
from playground.exchange.mcp_config import with_values
from playground.exchange.python_objects import is_python
from playground.exchange.tool_dialects import OWN_FORM
from playground.exchange.tool_entry import MOST_TOOLS, ImportedServer, ImportedTool, ImportedTools
from playground.exchange.tool_import import import_tools
from playground.net.threads import run_in_daemon
from playground.render.filters import plural
from playground.schema import strict_json
from playground.schema.names import number_name
from playground.schema.schema_checks import one_document
from playground.schema.validate import check_tool
from playground.secrets.redaction import Redactor
from playground.web.forms import Body, answer, answer_format, as_json, body_of
from playground.web.guard import MAX_BODY
from playground.web.imports_view import (
    ChoicePage,
    ChoiceRow,
    ImportPage,
    ImportRow,
    PythonReader,
    choice_page,
    import_page,
)
from playground.web.site import Site, Source, Upload, site_of
from playground.web.tools.routes import save as save_tool

MOST_FILES = 500
MOST_SHOWN = 500
"""Tools of one text shown on the page."""
MOST_UPLOADS = 4
"""Uploads held in memory while a user chooses; at most MAX_BODY each."""
MOST_SENTENCES = 40
MOST_READERS = 20
"""Python files of one upload that the page offers to read with an interpreter."""
OUT_OF_DATE = "This form is out of date. Import the file again."
_HOLDS_KEY = "It contains the value of a key. Remove it and use a variable name instead."


async def start(request: Request) -> Response:
    """GET /import?upload=WORD: shows the form of an import, and after it the imported tools. With
    `upload`, the selection page.

    ---
    responses:
      200: {description: The page., content: {text/html: {}}}
    """
    asked = request.query_params
    if "upload" in asked:
        site = site_of(request)
        page = _upload(site, asked["upload"]).page
        if page is None:
            raise BadInput(OUT_OF_DATE)
        return HTMLResponse(choice_page(site.env, page))
    counts = [asked.get(name, "") for name in ("tools", "servers")]
    done = [
        f"{plural(int(count), noun)} imported."
        for count, noun in zip(counts, ("tool", "server"), strict=True)
        if count.isascii() and count.isdigit() and int(count[:6])
    ]
    links = [
        (asked[name], f"/{place}/{quote(asked[name], safe='')}")
        for name, place in (("tool", "tools"), ("server", "servers"))
        if NAME.fullmatch(asked.get(name, "")) and done
    ]
    return HTMLResponse(
        import_page(site_of(request).env, ImportPage(done=" ".join(done), links=links))
    )


async def preview(request: Request) -> Response:
    """POST /import: reads the tools in a text or in files. If they exceed a page, a form first gets
    a selection page. Nothing is saved: the texts stay in memory until later uploads replace them,
    because the second request names only what was chosen.

    ---
    responses:
      200: {description: What is in it., content: {application/json: {}, text/html: {}}}
    """
    site, body = site_of(request), await body_of(request)
    given = _upload(site, body.text("upload")) if "upload" in body.data else None
    sources = await _sources(body) if given is None else given.sources
    picks = body.getlist("pick")
    if len(picks) > MOST_SHOWN:
        raise BadInput(f"{len(picks):,} tools are selected. Select at most {MOST_SHOWN} at once.")
    if given is not None and not picks:
        raise BadInput("Nothing is selected. Go back and select tools.")
    with one_document():
        imported = await _read_uploads(sources, picks, _referenced_files(body))
    if answer_format(request) == "json":
        return await run_in_daemon(_import_answer, [item for _, item in imported])
    if not picks and any(item.choices for _, item in imported):
        # With its own address, so that a reload and the back button find it.
        return RedirectResponse(f"/import?upload={_store_choices(site, sources, imported)}", 303)
    rows = await _rows(site, imported)
    typed = "" if rows else body.text("text")
    readers = await _readers(site, sources)
    page = ImportPage(rows, _text_notes(imported), typed, readers=readers)
    return HTMLResponse(import_page(site.env, page), 200 if rows else 422)


async def read(request: Request) -> Response:
    """POST /import/read: runs a Python file with an interpreter, in the guarded process of Python
    tools, and shows the tools that it describes. Nothing is saved.

    ---
    responses:
      200: {description: What is in it., content: {application/json: {}, text/html: {}}}
    """
    site, body = site_of(request), await body_of(request)
    if body.is_json:
        wanted = FileToRead(
            body.text("file"),
            body.text("text"),
            _relative_path(body.text("name")),
            _referenced_files(body) or {},
            body.text("interpreter"),
        )
        return _import_answer([await read_python(site.engine, wanted)])
    word, number = body.text("upload"), body.text("number")
    sources = _upload(site, word).sources
    if not (number.isascii() and number.isdigit() and int(number[:6]) < len(sources)):
        raise BadInput(OUT_OF_DATE)
    name, text, _ = sources[int(number)]
    others = {
        other: content for other, content, wrong in sources if other not in ("", name) and not wrong
    }
    wanted = FileToRead(
        body.text("file").strip(), text, name, others, body.text("interpreter").strip()
    )
    ran = True
    try:
        result = await read_python(site.engine, wanted)
    except BadInput as error:
        result, ran = ImportedTools(problem=str(error)), False
    imported = [(wanted.file or name, result)]
    notices = _text_notes(imported)
    if result.problem:  # the page stays as it was, with the reason
        with one_document():
            imported = await _read_uploads(sources, [], None)
    readers = await _readers(site, sources, word)
    readers = [
        replace(reader, file=wanted.file, interpreter=wanted.interpreter)
        if reader.number == int(number)
        else reader
        for reader in readers
    ]
    rows = await _rows(site, imported)
    failed = ran and bool(result.problem)
    page = ImportPage(rows, notices, readers=readers, ran=ran, failed=failed)
    return HTMLResponse(import_page(site.env, page), 422 if result.problem else 200)


async def _readers(site: Site, sources: Sequence[Source], upload: str = "") -> list[PythonReader]:
    """The Python files among the texts, which an interpreter can read; they stay in memory."""

    def python_files() -> list[tuple[int, str]]:
        numbered = [(number, *source) for number, source in enumerate(sources)]
        return [
            (number, name)
            for number, name, text, wrong in numbered
            if not wrong and is_python(text, name)
        ][:MOST_READERS]

    files = await run_in_daemon(python_files)
    if not files:
        return []
    if not upload:
        upload = _keep(site, Upload(tuple(sources)))
    entries = await site.engine.library.entries()
    known = {str(entry.tool.config.get("interpreter", "")) for entry in entries} - {""}
    return [PythonReader(upload, number, name, sorted(known)[:20]) for number, name in files]


async def _read_uploads(
    sources: Sequence[Source], picks: Sequence[str], beside: dict[str, str] | None
) -> list[tuple[str, ImportedTools]]:
    """The tools in each text; files that are parts of others are not read separately. `beside` are
    referenced files that a script sends, None in a form, where a pick begins with the number of its
    text."""
    texts = {name: text for name, text, wrong in sources if name and not wrong} | (beside or {})
    imported = []
    for number, (name, text, wrong) in enumerate(sources):
        start = f"{number} " if beside is None else ""
        chosen = {pick.removeprefix(start) for pick in picks if pick.startswith(start)}
        if wrong:
            imported.append((name, ImportedTools(problem=wrong)))
        elif chosen or not picks:
            others = {key: value for key, value in texts.items() if key != name}
            source_items = await run_in_daemon(
                import_tools, text, name, MOST_SHOWN, files=others, pick=chosen or None
            )
            imported.append((name, source_items))
    parts = {part for _, item in imported for part in item.parts}
    return [(name, item) for name, item in imported if name not in parts]


def _store_choices(
    site: Site, sources: Sequence[Source], imported: Sequence[tuple[str, ImportedTools]]
) -> str:
    """The id of a selection page, which is stored with the texts."""
    word = secrets.token_urlsafe(12)
    numbers = {name: number for number, (name, _, _) in enumerate(sources)}
    listed = []
    sentences = []
    for name, item in imported:
        groups: dict[str, list[ChoiceRow]] = {}
        for choice in item.choices:
            pick = f"{numbers[name]} {choice.key}"
            row = ChoiceRow(pick, choice.key, choice.name, choice.summary)
            groups.setdefault(choice.group, []).append(row)
        if groups:
            listed.append((name, groups))
        elif item.tools or item.servers:
            sentences.append((name, "This file is not listed here. Import it alone.", False))
        elif item.problem:
            sentences.append((name, item.problem, True))
    page = ChoicePage(word, listed, MOST_SHOWN, sentences)
    return _keep(site, Upload(tuple(sources), page), word)


def _keep(site: Site, upload: Upload, word: str = "") -> str:
    """Stores the texts until later ones replace them; returns their id."""
    while len(site.uploads) >= MOST_UPLOADS:
        del site.uploads[next(iter(site.uploads))]
    word = word or secrets.token_urlsafe(12)
    site.uploads[word] = upload
    return word


def _upload(site: Site, word: str) -> Upload:
    upload = site.uploads.get(word)
    if upload is None:
        raise BadInput(OUT_OF_DATE)
    return upload


def _text_notes(imported: Sequence[tuple[str, ImportedTools]]) -> list[tuple[str, str, bool]]:
    """The sentences about whole texts; for a folder with many, only some of them."""
    text_notes = [
        (name, sentence, sentence == item.problem)
        for name, item in imported
        for sentence in (item.problem, *item.notes)
        if sentence
    ]
    if len(text_notes) > MOST_SENTENCES:
        more = len(text_notes) - MOST_SENTENCES
        text_notes[MOST_SENTENCES:] = [("", f"And {more:,} more sentences of this kind.", False)]
    return text_notes


async def import_ticked(request: Request) -> Response:
    """POST /import/take: saves the ticked rows of an import, switched off unless switched on in the
    form.

    ---
    responses:
      201: {description: What was saved.}
    """
    site, body = site_of(request), await body_of(request)
    rows, ticked = await run_in_daemon(_posted_rows, site, body), set(body.getlist("take"))
    if not any(str(row.number) in ticked for row in rows):
        raise BadInput("Nothing is selected. Go back and select what to import.")
    taking = await _save_plan(site.engine, rows, ticked, body)
    if any(row.error for row in taking.rows):
        return HTMLResponse(import_page(site.env, ImportPage(taking.rows)), 422)
    await _save(site.engine, taking)
    where = {"tools": len(taking.tools), "servers": len(taking.servers)}
    first = {
        **({"tool": taking.tools[0].name} if taking.tools else {}),
        **({"server": taking.servers[0].name} if taking.servers else {}),
    }
    location = f"/import?{urlencode({**where, **first})}"
    return answer(request, {**where, **first}, status=201, location=location)


async def switch(request: Request) -> Response:
    """POST /tools/NAME/switch: switches a tool on or off: `enabled` says whether it may be given to
    sessions."""
    site, name = site_of(request), request.path_params["name"]
    body = await body_of(request)
    if "enabled" not in body.data:
        raise BadInput("enabled must be true or false.")
    enabled = body.flag("enabled")
    if (await site.engine.library.entry(name)).shipped:
        raise BadInput("A shipped example is always on. Duplicate it to make your own.")
    await site.engine.library.switch(name, enabled=enabled)
    tool = (await site.engine.library.entry(name)).tool
    confirmed = await site.engine.confirm_keys_of(tool) if enabled else []
    data = {"name": name, "enabled": enabled, **({"keys": confirmed} if confirmed else {})}
    return answer(request, data, location=f"/tools/{quote(name, safe='')}")


async def save(request: Request) -> Response:
    """POST /tools: saves tools, from the editor, or by a script in any format.

    ---
    requestBody:
      content:
        application/json:
          schema:
            anyOf: [{$ref: "#/components/schemas/Tools"}, {type: object}, {type: array}]
    responses:
      201: {description: The tool or what became of each.}
    """
    return await _import_foreign(request) or await save_tool(request)


async def _import_foreign(request: Request) -> Response | None:
    """The answer to a script that sends another format than ours, saved and switched off, or a
    list. None if the body is one tool in our own format or in an unknown one, which the editor's
    own checks report."""
    body = await body_of(request, list_as="tools")
    if not body.is_json or not body.data:
        return None
    site = site_of(request)
    imported = await run_in_daemon(import_tools, json.dumps(body.data))
    if imported.servers:
        raise BadInput("It contains MCP servers. Import them at /import. Nothing was saved.")
    if imported.more:
        raise BadInput(
            f"At most {MOST_TOOLS:,} tools are imported at once; send the rest separately. "
            "Nothing was saved."
        )
    listed = "tools" in body.data
    if listed and not imported.tools:
        raise BadInput(imported.problem)
    left_out = [tool for tool in imported.tools if tool.runner is not None]
    ours = [tool for tool in imported.tools if tool.runner is None]
    if left_out and not ours:
        raise BadInput(f"{left_out[0].name}: {left_out[0].problem} Nothing was saved.")
    if not listed and all(tool.kind in ("", OWN_FORM) for tool in ours):
        return None
    brings: list[Tool] = []
    there = {entry.tool.name for entry in await site.engine.library.entries()}
    names: set[str] = set()
    redactor = site.engine.keys.redactor()
    for item in ours:
        if item.tool is None:
            raise BadInput(f"{item.name or 'A tool'}: {item.problem} Nothing was saved.")
        if redactor.holds(to_data(item.tool)):
            raise BadInput(f"{item.name}: {_HOLDS_KEY} Nothing was saved.")
        if item.tool.name in names:
            raise Conflict(f"The list has two tools named {item.tool.name!r}. Nothing was saved.")
        if item.tool.name in there:
            sentence = f"There is a tool {item.tool.name!r} already; give it another name."
            raise Conflict(f"{sentence} Nothing was saved.")
        names.add(item.tool.name)
        brings.append(item.tool)
    enabled = all(tool.kind == OWN_FORM for tool in ours)
    await site.engine.library.save_all(brings, site.engine.sessions.clock(), enabled=enabled)
    for tool in brings if enabled else ():
        await site.engine.confirm_keys_of(tool)
    answers: list[dict[str, Any]] = [{"name": tool.name, "enabled": enabled} for tool in brings]
    answers += [{"name": item.name, "enabled": False, "problem": item.problem} for item in left_out]
    return as_json(answers[0] if len(answers) == 1 else answers, 201)


# -- what is to be imported


def _referenced_files(body: Body) -> dict[str, str] | None:
    """Files that the text of a script may reference, by name."""
    if not body.is_json:
        return None
    files = body.data.get("files", {})
    if not isinstance(files, Mapping) or not all(isinstance(path, str) for path in files.values()):
        raise BadInput("files must be an object of texts by their names.")
    return {_relative_path(name): text for name, text in files.items()}


def _relative_path(path: str) -> str:
    """The name of an uploaded file, with the folders that the browser sends; never absolute."""
    steps = path.replace("\\", "/").split("/")
    return "/".join(step for step in steps if step not in ("", ".", ".."))


def _free_name(name: str, names: Collection[str]) -> str:
    """`name`, with a number if another text has it: texts are distinguished by name."""
    stem, dot, kind = name.rpartition(".")
    numbered = (f"{stem or kind} ({number}){dot}{kind if dot else ''}" for number in count(2))
    return next(free for free in chain([name], numbered) if free not in names)


async def _sources(body: Body) -> list[Source]:
    """The typed text, and each file."""
    sources: list[Source] = []
    if body.text("text").strip() or body.is_json:
        sources.append((body.text("name") if body.is_json else "", body.text("text"), ""))
    files = body.form.getlist("file") if body.form is not None else []
    uploads = [
        path for path in files if isinstance(path, UploadFile) and (path.filename or path.size)
    ]
    if len(uploads) > MOST_FILES:
        raise BadInput(f"At most {MOST_FILES} files at once. Import the rest afterwards.")
    names = {name for name, _, _ in sources}
    for upload in uploads:
        name = _free_name(_relative_path(upload.filename or ""), names)
        names.add(name)
        raw = await upload.read()
        try:
            coding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
            sources.append((name, raw.decode(coding), ""))
        except UnicodeDecodeError:
            wrong = "It is not UTF-8 text. Archives and images contain no tools."
            sources.append((name, "", wrong))
    if not sources:
        raise BadInput("Paste a text or choose a file.")
    return sources


async def _rows(site: Site, imported: Sequence[tuple[str, ImportedTools]]) -> list[ImportRow]:
    """A row for each tool and server, with an unused name."""
    engine = site.engine
    redactor = engine.keys.redactor()
    names = {entry.tool.name for entry in await engine.library.entries()}
    servers = {server.name for server, _ in await engine.library.servers()}
    there, servers_there = frozenset(names), frozenset(servers)
    rows: list[ImportRow] = []
    safe = await run_in_daemon(
        lambda: [[_without_keys(tool, redactor) for tool in item.tools] for _, item in imported]
    )
    for (source, item), safe_tools in zip(imported, safe, strict=True):
        for imported_item in safe_tools:
            row = _tool_row(len(rows), source, imported_item)
            rows.append(_name_row(row, names, there) if row.tool else row)
        for server in item.servers:
            row = _server_row(len(rows), source, _check_server(engine, server))
            if row.server and row.replaced:
                row = replace(row, held=site.hold(row.replaced))
            rows.append(_name_row(row, servers, servers_there) if row.server else row)
    return rows


def _tool_row(number: int, source: str, imported: ImportedTool) -> ImportRow:
    return ImportRow(
        number,
        source=source,
        called=imported.name,
        kind=imported.kind,
        notes=imported.notes,
        problem=imported.problem,
        tool=imported.tool,
        name=imported.name,
    )


def _server_row(number: int, source: str, imported: ImportedServer) -> ImportRow:
    return ImportRow(
        number,
        source,
        imported.name,
        notes=imported.notes,
        problem=imported.problem,
        server=imported.server,
        is_server=True,
        name=imported.name,
        replaced=imported.replaced,
    )


def _without_keys(imported: ImportedTool, redactor: Redactor) -> ImportedTool:
    if imported.tool is None or not redactor.holds(to_data(imported.tool)):
        return imported
    return replace(imported, tool=None, problem=_HOLDS_KEY, notes=())


def _check_server(engine: Engine, imported: ImportedServer) -> ImportedServer:
    """A server, with the reason if the library cannot accept it."""
    try:
        if imported.server is not None:
            engine.servers.parse_server(to_data(imported.server))
    except BadInput as error:
        return replace(imported, server=None, problem=str(error))
    return imported


def _name_row(row: ImportRow, names: set[str], there: frozenset[str]) -> ImportRow:
    """The row under the next unused name."""
    free = number_name(row.called, names)
    names.add(free)
    return replace(row, name=free, existing=row.called if row.called in there else "")


def _import_answer(imported: Sequence[ImportedTools]) -> Response:
    whole = [_import_data(item) for item in imported]
    return as_json(whole[0] if len(whole) == 1 else whole)


def _import_data(imported: ImportedTools) -> dict[str, Any]:
    """The import as JSON data for scripts."""
    return {
        "kind": imported.kind,
        "problem": imported.problem,
        "notes": list(imported.notes),
        "choices": [
            {
                "key": choice.key,
                "name": choice.name,
                "summary": choice.summary,
                "group": choice.group,
            }
            for choice in imported.choices
        ],
        "tools": [
            {
                "name": tool.name,
                "kind": tool.kind,
                "protocol": tool.protocol,
                "tool": to_data(tool.tool) if tool.tool else None,
                "notes": list(tool.notes),
                "problem": tool.problem,
            }
            for tool in imported.tools
        ],
        "servers": [
            {
                "name": server.name,
                "server": to_data(server.server) if server.server else None,
                "notes": list(server.notes),
                "problem": server.problem,
                "replaced": [
                    {"place": value.place, "variable": value.variable, "why": value.why}
                    for value in server.replaced
                ],
            }
            for server in imported.servers
        ],
    }


# -- saving it


@dataclass(frozen=True)
class _SavePlan:
    """The result of the rows. `on` are the names that are switched on, `replaced` those of servers
    that may be overwritten."""

    rows: Sequence[ImportRow]
    tools: Sequence[Tool]
    servers: Sequence[Server]
    on: Sequence[str]
    replaced: Collection[str]


def _posted_rows(site: Site, body: Body) -> list[ImportRow]:
    """The rows that the form carried, checked again; BadInput if they are not rows of ours."""
    rows = []
    with one_document():
        for key in body.data:
            if not key.startswith("row:"):
                continue
            number = key.removeprefix("row:")
            if not (number.isascii() and number.isdigit() and len(number) < 6):
                raise BadInput("This form is invalid. Import the file again.")
            rows.append(_row(site, int(number), body.text(key)))
    return rows


def _row(site: Site, number: int, carried: str) -> ImportRow:
    try:
        data = strict_json.parse(carried, MAX_BODY)
        source, notes = str(data["source"]), tuple(str(note) for note in data["notes"])
        if "tool" in data:
            tool = check_tool(data["tool"])
            previous = ImportedTool(tool, tool.name, kind=str(data["kind"]), notes=notes)
            return _tool_row(number, source, previous)
        server = site.engine.servers.parse_server(data["server"])
        held = str(data.get("held", ""))
        imported = ImportedServer(server, server.name, notes, replaced=site.values.get(held, ()))
        return replace(_server_row(number, source, imported), held=held)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadInput("This form is invalid. Import the file again.") from None


async def _save_plan(
    engine: Engine, rows: Iterable[ImportRow], ticked: set[str], body: Body
) -> _SavePlan:
    """Each ticked row under its chosen name, or with its error."""
    redactor = engine.keys.redactor()
    there = {entry.tool.name for entry in await engine.library.entries()}
    servers_there = {server.name for server, _ in await engine.library.servers()}
    on = set(body.getlist("on"))
    tools: list[Tool] = []
    servers: list[Server] = []
    switched = []
    tools_made = []
    for row in rows:
        number = str(row.number)
        row = replace(
            row,
            take=number in ticked,
            on=number in on,
            replace=body.flag(f"replace:{number}"),
            back=frozenset(
                int(shown)
                for shown in body.getlist(f"back:{number}")
                if re.fullmatch("[0-9]{1,5}", shown)
            ),
            name=body.text(f"as:{number}", row.name).strip(),
            existing=row.called if row.called in _existing_names(row, there, servers_there) else "",
        )
        name = row.called if row.replace and row.existing else row.name
        before = {server.name for server in (servers if row.is_server else tools)}
        row = replace(
            row, error=_row_error(row, name, before, _existing_names(row, there, servers_there))
        )
        if row.take and not row.error:
            if row.tool is not None:
                tools.append(replace(row.tool, name=name))
                switched += [name] if row.on else []
                row = replace(row, error=_HOLDS_KEY if redactor.holds(to_data(tools[-1])) else "")
            else:
                assert row.server is not None
                servers.append(replace(row.server, name=name, private=False))
                try:
                    servers[-1] = _restore_values(engine, servers[-1], row)
                except BadInput as error:
                    row = replace(row, error=str(error))
        tools_made.append(row)
    return _SavePlan(tools_made, tools, servers, switched, servers_there)


def _restore_values(engine: Engine, server: Server, row: ImportRow) -> Server:
    """`server` with the values that the user restored. BadInput if it may not be saved."""
    if row.back and max(row.back) >= len(row.replaced):
        raise BadInput("The replaced values have expired. Import the file again.")
    back = [row.replaced[place] for place in sorted(row.back)]
    try:
        server = with_values(server, back)
    except (KeyError, IndexError):
        raise BadInput("This form is invalid. Import the file again.") from None
    return engine.servers.parse_server(to_data(server), {replaced.value for replaced in back})


def _existing_names(row: ImportRow, tools: set[str], servers: set[str]) -> set[str]:
    return servers if row.is_server else tools


def _row_error(row: ImportRow, name: str, before: set[str], there: set[str]) -> str:
    """Why a row cannot be imported under `name`, or ""."""
    if not row.take:
        return ""
    legal = NAME.fullmatch(name) if row.is_server else _is_legal(name)
    if not legal:
        characters = "letters, digits, underscores, dots and hyphens"
        return f"{name[:80]!a} is not a valid name. Use {characters}."
    if name in before:
        return f"Two of these would have the name {name!r}; give one of them another name."
    if name in there and not (row.replace and row.existing):
        return f"There is a {name!r} already. Choose another name, or select “replace”."
    return ""


def _is_legal(name: str) -> bool:
    try:
        check_tool({"name": name, "answered_by": "person"})
    except BadTool:
        return False
    return True


async def _save(engine: Engine, taking: _SavePlan) -> None:
    """Saves all switched off, and servers not accepted; then switches on the ticked tools."""
    now = engine.sessions.clock()
    if taking.tools:
        await engine.library.save_all(list(taking.tools), now, enabled=False)
    for server in taking.servers:
        await engine.servers.save(server, server.name if server.name in taking.replaced else "")
    for name in taking.on:
        await engine.library.switch(name, enabled=True)
        await engine.confirm_keys_of((await engine.library.entry(name)).tool)
