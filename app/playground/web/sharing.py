"""Sessions as files: a preview of the exported content, and the export; importing a session, and
forking it with the tools that the user accepts."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from jinja2 import Environment
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from playground.core.errors import BadInput, Refused
from playground.core.events import CallEnded, PromptAdded
from playground.core.serialization import to_data
from playground.core.settings import Profile, Settings, apply_timeouts
from playground.core.tools import Tool
from playground.engine.engine import Engine
from playground.engine.export_session import read_bundle, redact_bundle
from playground.engine.fork import ForkPlace, fork
from playground.engine.import_session import WHAT, harmless_settings, import_session
from playground.engine.redaction import check_tools
from playground.exchange.bundle import ExportFile, SessionBundle
from playground.exchange.export_formats import EXPORTS, ExportFormat
from playground.exchange.session_redaction import OMITTABLE, RedactedBundle, Redaction
from playground.net.threads import run_in_daemon
from playground.render.filters import plural, size
from playground.schema.schema_checks import one_document
from playground.schema.validate import check_tool
from playground.web.forms import answer, answer_format, as_json, body_of, wants_file
from playground.web.imports_view import ImportRow
from playground.web.site import site_of

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

_OF_SERVERS = re.compile(rb'"(mcpServers|context_servers)"|\bmcp_servers\b|^\s*\{\s*"servers"')

LOOK = 24_000
"""Characters of a file that are shown at once."""


async def export(request: Request) -> Response:
    """GET /sessions/ID/export?as=NAME&without=WHAT: writes a session as a file. As JSON: `{"file",
    "media_type", "text", "notes", "masked": [{"where", "count"}]}`.

    ---
    parameters:
      - {name: without, in: query, schema: {type: array, items: {type: string}}}
    responses:
      200:
        description: The file.
        content:
          application/json: {}
          application/x-ndjson: {}
          application/x-sh: {}
          text/html: {}
          text/markdown: {}
          text/x-python: {}
    """
    form, left_out = request.query_params.get("as", ""), request.query_params.getlist("without")
    if form not in EXPORTS:
        raise BadInput(f"There is no format {form[:40]!r}. Use one of {', '.join(EXPORTS)}.")
    _, redacted, written = await _write_export(request, form, left_out)
    if not wants_file(request):
        masked = [{"where": mark.where, "count": mark.count} for mark in redacted.marks]
        text = written.data.decode("utf-8", "replace")
        about = {"file": written.file_name, "media_type": written.media_type, "text": text}
        return as_json({**about, "notes": list(written.notes), "masked": masked})
    # The name consists of letters, digits, "_", "-" and a dot, so that it cannot inject a header.
    headers = {"Content-Disposition": f'attachment; filename="{written.file_name}"'}
    return Response(written.data, 200, headers, f"{written.media_type}; charset=utf-8")


async def share(request: Request) -> Response:
    """GET /sessions/ID/share?as=NAME&without=WHAT: shows the content of an export before it is
    saved.

    ---
    parameters:
      - {name: without, in: query, schema: {type: array, items: {type: string}}}
    responses:
      200: {description: The page., content: {text/html: {}}}
    """
    site, session_id = site_of(request), request.path_params["id"]
    form, left_out = request.query_params.get("as", ""), request.query_params.getlist("without")
    chosen = form if form in EXPORTS else next(iter(EXPORTS))
    written, wrong, read = None, "", None
    try:
        whole, redacted, written = await _write_export(request, chosen, left_out)
        if chosen == "html":  # which begins with the page and not with the session
            read = await asyncio.to_thread(EXPORTS["markdown"].write, redacted.bundle)
    except (BadInput, Refused) as error:  # this format cannot represent this session; others may
        wrong = str(error)
        whole = await read_bundle(site.engine, session_id)
        redacted = await asyncio.to_thread(_redact, site.engine, whole, ())
    page = SharePage(
        session_id,
        title=redacted.bundle.title,
        forms=EXPORTS,
        chosen=chosen,
        can_be_left_out={
            name: words
            for name, words in OMITTABLE.items()
            if name != "beside" or whole.beside or name in left_out
        },
        left_out=left_out,
        counts=counts(redacted.bundle),
        marks=redacted.marks,
        written=written,
        wrong=wrong,
        read=read,
    )
    return HTMLResponse(share_page(site.env, page), 422 if wrong else 200)


async def _write_export(
    request: Request, form: str, left_out: Collection[str]
) -> tuple[SessionBundle, RedactedBundle, ExportFile]:
    engine = site_of(request).engine
    here = str(request.base_url).rstrip("/")
    whole = await read_bundle(engine, request.path_params["id"], here, form)
    # In a thread, because a large session takes seconds.
    redacted = await asyncio.to_thread(_redact, engine, whole, left_out)
    return whole, redacted, await asyncio.to_thread(EXPORTS[form].write, redacted.bundle)


def _redact(engine: Engine, whole: SessionBundle, left_out: Collection[str]) -> RedactedBundle:
    return redact_bundle(whole, engine.keys.secrets(), engine.private, left_out)


# -- imported sessions


async def import_form(request: Request) -> Response:
    """GET /sessions/import: shows the page to choose a file of a session.

    ---
    responses:
      200: {description: The page., content: {text/html: {}}}
    """
    return HTMLResponse(import_page(site_of(request).env))


async def import_upload(request: Request) -> Response:
    """POST /sessions/import: imports a session: JSON Lines and other forms as the body, or a form's
    `file` or `text`.

    ---
    requestBody:
      content:
        text/plain: {schema: {type: string}}
    responses:
      201: {description: The id of the session.}
    """
    site = site_of(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in FORMS:
        session_id = await import_session(site.engine, await request.body())
        return answer(request, {"id": session_id}, status=201, location=_page(session_id))
    body = await body_of(request)
    files = body.form.getlist("file") if body.form is not None else []
    chosen = [path for path in files if isinstance(path, UploadFile) and path.filename]
    data = await chosen[0].read() if chosen else body.text("text").encode("utf-8", "replace")
    try:
        if not data.strip():
            raise BadInput(f"Paste a text or choose a file: {WHAT}.")
        session_id = await import_session(site.engine, data)
    except BadInput as error:
        if answer_format(request) != "page":
            raise
        source = str(chosen[0].filename) if chosen else ""
        servers = _OF_SERVERS.search(data[:64_000]) is not None
        text = "" if chosen else body.text("text")
        return HTMLResponse(import_page(site.env, str(error), source, text, servers=servers), 422)
    return answer(request, {"id": session_id}, status=201, location=_page(session_id))


async def preview(request: Request) -> Response:
    """GET /sessions/ID/take: shows what a fork of an imported session would contain.

    ---
    responses:
      200: {description: The page., content: {text/html: {}}}
    """
    site, session_id = site_of(request), request.path_params["id"]
    async with site.engine.sessions.lock_session(session_id) as live:
        if live.own:
            return RedirectResponse(_page(session_id), 303)
        settings, title = live.session.settings, live.title
    assert settings is not None
    accepted, profiles = harmless_settings(site.engine, settings), site.engine.profiles()
    return HTMLResponse(
        adopt_page(
            site.env,
            session_id=session_id,
            title=title,
            settings=settings,
            profiles=profiles,
            accepted=accepted,
        )
    )


async def adopt(request: Request) -> Response:
    """POST /sessions/ID/take: forks an imported session at its end, on `profile`, with the accepted
    `tools` (names). Nothing is sent before the user prompts it.

    ---
    responses:
      201: {description: The id of the fork.}
    """
    site, session_id, body = site_of(request), request.path_params["id"], await body_of(request)
    async with site.engine.sessions.lock_session(session_id) as live:
        if live.own:
            raise Refused("This session is your own. Fork it instead.")
        foreign = live.session.settings
    assert foreign is not None
    settings = await run_in_daemon(_accepted_settings, site.engine, foreign, body.getlist("tools"))
    if name := body.text("profile"):
        profile = site.engine.profile(name)
        kept_model = profile.name == settings.profile.name
        model, limits = (
            settings.model if kept_model else "",
            apply_timeouts(settings.limits, profile),
        )
        extra = settings.extra if profile.protocol == settings.profile.protocol else {}
        settings = replace(settings, profile=profile, model=model, limits=limits, extra=extra)
    child = await fork(site.engine, session_id, ForkPlace(), settings=settings, go=False)
    return answer(request, {"id": child}, status=201, location=_page(child))


def _accepted_settings(engine: Engine, foreign: Settings, names: Collection[str]) -> Settings:
    """Safe settings, with the accepted tools, checked like any other."""
    there = {tool.name: tool for tool in foreign.tools}
    if lost := [name for name in names if name not in there]:
        raise BadInput(f"This session has no tool {lost[0][:80]!r}; reload the page.")
    with one_document():
        tools = [check_tool(to_data(there[name])) for name in dict.fromkeys(names)]
    check_tools(tools, engine.keys.redactor())
    return replace(harmless_settings(engine, foreign), tools=tuple(tools))


def _page(session_id: str) -> str:
    return f"/sessions/{quote(session_id, safe='')}"


@dataclass(frozen=True)
class SharePage:
    """A preview of the export: `forms` by name, the `chosen` one, `left_out` of the parts that can
    be omitted (by name, with what goes with it), and the result. `wrong` says why there is no file.
    `read` is the file's content as text, if its own beginning does not show it."""

    session_id: str
    title: str
    forms: Mapping[str, ExportFormat]
    chosen: str
    can_be_left_out: Mapping[str, str]
    left_out: Collection[str]
    counts: Sequence[tuple[str, str]]
    marks: Sequence[Redaction]
    written: ExportFile | None = None
    wrong: str = ""
    read: ExportFile | None = None

    @property
    def look(self) -> str:
        """The beginning of the file, or of the `read` text instead."""
        return self._shown[: 4 * LOOK].decode("utf-8", "replace")[:LOOK]

    @property
    def more(self) -> int:
        """The number of bytes beyond `look`."""
        return max(0, len(self._shown) - len(self.look.encode("utf-8", "replace")))

    @property
    def _shown(self) -> bytes:
        file = self.read or self.written
        return b"" if file is None else file.data


def share_page(env: Environment, page: SharePage) -> str:
    """The content of an export before it is downloaded."""
    return env.get_template("share.html").render(page=page)


def import_page(
    env: Environment, wrong: str = "", source: str = "", text: str = "", *, servers: bool = False
) -> str:
    """The import page for sessions. `wrong` says why the file `source` ("" for a pasted text) was
    not imported, `text` is the pasted one; `servers`: it is a file of MCP servers."""
    return env.get_template("share_import.html").render(
        wrong=wrong, source=source, text=text, servers=servers
    )


def adopt_page(
    env: Environment,
    session_id: str,
    title: str,
    settings: Settings,
    profiles: Sequence[Profile],
    accepted: Settings,
) -> str:
    """What a fork of an imported session contains, according to `accepted`: its profile, its tools,
    and what is not copied."""
    rows = [
        ImportRow(number, "", tool.name, tool=tool) for number, tool in enumerate(settings.tools)
    ]
    return env.get_template("share_take.html").render(
        session_id=session_id,
        title=title,
        settings=settings,
        profiles=profiles,
        chosen=accepted.profile.name,
        rows=rows,
        behind=[name for name in settings.extra if name not in accepted.extra],
    )


def counts(bundle: SessionBundle) -> list[tuple[str, str]]:
    """(what, count) of a session, to help decide whether to export it."""
    session = bundle.session
    images = sum(
        len(logged.event.images) for logged in bundle.log if isinstance(logged.event, PromptAdded)
    )
    results = [logged.event.result for logged in bundle.log if isinstance(logged.event, CallEnded)]
    images += sum(piece.type == "image" for result in results for piece in result.content)
    numbers = [
        (session.prompts, "prompt"),
        (len(session.turns), "answer"),
        (len(session.by_call), "call"),
        (len(results), "result"),
        (images, "image"),
        (len(tools_of(bundle)), "tool"),
        (len(bundle.log), "event"),
    ]
    numbers += [(len(bundle.beside), "more session")] if bundle.beside else []
    counted = [(noun + "s", plural(number, noun)) for number, noun in numbers]
    recorded = sum(
        len(piece.data) for recording in bundle.recordings.values() for piece in recording.pieces
    )
    return [*counted, ("recorded", f"{size(recorded)} of recorded answers")]


def tools_of(bundle: SessionBundle) -> list[Tool]:
    """The tools that the session has now."""
    settings = bundle.session.settings
    return list(settings.tools) if settings is not None else []
