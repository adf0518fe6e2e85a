"""The next request of a session, its images, and any request of it as curl or Python code."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput, NotFound
from app.core.events import RequestSent
from app.core.session import Prompt, Session, Turn
from app.core.settings import Profile
from app.core.tools import Content
from app.engine.engine import Engine
from app.engine.preview import NO_DRAFT, WIRES, Draft, Preview, preview, profile_on
from app.engine.responses import join_headers
from app.exchange import requests_export, sdk_script
from app.exchange.requests_export import (
    SIMULATOR,
    SIMULATOR_KEY,
    ExportedRequest,
    encode_request,
    export_request,
    sent_turns,
)
from app.protocols.base import join_url
from app.protocols.registry import FACTS, codec
from app.render.environment import partial
from app.web.forms import as_json, body_of, images_of, media_type, wants, wants_file
from app.web.session.wire_view import (
    CodeOption,
    NextRequest,
    ShownCode,
    code_fragment,
    request_fragment,
    setup_notes,
)
from app.web.site import Site, site_of

IMAGE_HEADERS = {
    "Content-Disposition": "inline",
    "Content-Security-Policy": "sandbox",
}


async def next_request(request: Request) -> Response:
    """GET or POST /sessions/ID/request: as it would be sent now, the draft included.

    `wire` names the protocol that is to say it. Nothing is sent, and the session stays as it is.
    """
    site, draft = site_of(request), NO_DRAFT
    wire = request.query_params.get("wire", "")
    if request.method == "POST":
        body = await body_of(request)
        draft, wire = Draft(body.text("text"), await images_of(body)), body.text("wire", wire)
    async with site.engine.sessions.holding(request.path_params["id"]) as live:
        # In a thread, for images make a request of many megabytes; the session is held meanwhile.
        shown = await asyncio.to_thread(preview, site.engine, live.session, draft, wire)
        own = shown
        if wire and wants(request) == "htmx":
            own = await asyncio.to_thread(preview, site.engine, live.session, draft)
    if wants(request) == "json":
        return as_json(_request_data(shown))
    drawn = await asyncio.to_thread(request_fragment, site.env, drawable(shown, wire))
    notes = setup_notes(site.env, request.path_params["id"], drawable(own))
    pieces = (("request", drawn), ("setup-notes", notes))
    return HTMLResponse("".join(partial(where, "outerMorph", html) for where, html in pieces))


def drawable(shown: Preview, wire: str = "") -> NextRequest:
    """A preview as the templates take it."""
    return NextRequest(shown.profile.name, shown.sent, shown.notes, shown.says, shown.failed, wire)


def _request_data(shown: Preview) -> dict[str, object]:
    """See docs/contract.md; `body` is the text of the very bytes."""
    sent = shown.sent
    return {
        "profile": shown.profile.name,
        "protocol": sent.protocol,
        "method": sent.method,
        "url": sent.url,
        "headers": dict(sent.headers),
        "body": sent.body,
        "notes": list(shown.notes),
        "says": list(shown.says),
        "failed": shown.failed or None,
    }


async def prompt_image(request: Request) -> Response:
    """GET /sessions/ID/images/SEQ/N: image N, from 0, of the prompt that is event SEQ."""
    seq = _number(request, "number")
    async with site_of(request).engine.sessions.holding(request.path_params["id"]) as live:
        prompts = (item for item in live.session.items if isinstance(item, Prompt))
        images = next((item.images for item in prompts if item.seq == seq), ())
    return _image(images, request)


async def result_image(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/images/N: image N, from 0, of what a tool gave back."""
    async with site_of(request).engine.sessions.holding(request.path_params["id"]) as live:
        images = _of_result(live.session, request.path_params["call"])
    return _image(images, request)


def _of_result(session: Session, call_id: str) -> Sequence[Content]:
    result = session.call(call_id).result
    return [piece for piece in result.content if piece.type == "image"] if result else []


def _image(images: Sequence[Content], request: Request) -> Response:
    place = _number(request, "place")
    if not 0 <= place < len(images):
        raise NotFound("There is no such image in this session.")
    try:
        raw = base64.b64decode(images[place].data)
    except ValueError:
        raise NotFound("This image cannot be read: its base64 is broken.") from None
    # What it is called does not count: a tool, or a log from elsewhere, may call it anything.
    return Response(raw, 200, IMAGE_HEADERS, media_type(raw) or "application/octet-stream")


def _number(request: Request, name: str) -> int:
    text: str = request.path_params[name]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1


# A request as code: curl and Python, by any protocol.


FORMS = ("curl", "python")
FILES = {"curl": ("request.sh", "application/x-sh"), "python": ("request.py", "text/x-python")}


async def code(request: Request) -> Response:
    """GET /sessions/ID/code?turn=&wire=&form=: a request as curl and as Python; `file=1`: as a
    file. As JSON: `{"turn", "protocol", "curl", "python", "notes", "failed"}`."""
    shown = await shown_code(request)
    texts = {form.name: form.text for form in shown.forms}
    as_file = bool(request.query_params.get("file")) and wants_file(request)
    if wants(request) == "json" and not as_file:
        about = {"turn": shown.number, "protocol": shown.protocol, "failed": shown.failed or None}
        return as_json({**about, **dict.fromkeys(FORMS), **texts, "notes": list(shown.notes)})
    if as_file:
        if shown.failed:
            raise BadInput(shown.failed)
        name, kind = FILES[shown.form]
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        raw = texts[shown.form].encode("utf-8", "replace")
        return Response(raw, 200, headers, f"{kind}; charset=utf-8")
    html = code_fragment(site_of(request).env, shown)
    return HTMLResponse(partial("code", "outerMorph", html))


async def shown_code(request: Request) -> ShownCode:
    """What the query of `request` asks for. BadInput and NotFound with a sentence."""
    site, session_id = site_of(request), request.path_params["id"]
    here = str(request.base_url).rstrip("/") + "/sim"
    query = request.query_params
    chosen = {name: query.get(name, "") for name in ("turn", "wire", "form")}
    async with site.engine.sessions.holding(session_id) as live:
        # In a thread, for images make a request of many megabytes; the session is held meanwhile.
        return await asyncio.to_thread(_shown, site, live.session, chosen, here)


def _shown(site: Site, session: Session, chosen: Mapping[str, str], here: str) -> ShownCode:
    turn, wire = chosen["turn"], chosen["wire"]
    form = chosen["form"] or FORMS[0]
    if form not in FORMS:
        raise BadInput(f"The form must be one of {', '.join(FORMS)}, not {form[:80]!r}.")
    turns = sent_turns(session)
    chosen_turn = _turn(turns, turn)
    export, failed = _asked(site.engine, session, chosen_turn, wire, here)
    results = {} if chosen_turn is None else sdk_script.recorded_results(session, chosen_turn)
    text, notes = sdk_script.source(export, results)
    redactor = site.engine.keys.redactor()
    sent = export.value is not None and not failed
    forms = [
        CodeOption(
            "curl", "curl", redactor.redact_text(requests_export.curl_command(export) + "\n")
        ),
        CodeOption("python", "Python", redactor.redact_text(text)),
    ]
    return ShownCode(
        session.id,
        turn,
        chosen_turn.number if chosen_turn is not None else 0,
        [turn.number for turn in reversed(turns)],
        wire,
        WIRES,
        export.protocol,
        form,
        forms if sent else (),
        tuple(dict.fromkeys((*export.notes, *notes))) if sent else (),
        failed or ("" if sent else "There is no request to show: its body is empty."),
        ahead=session.tapped is None,
    )


def _turn(turns: list[Turn], chosen: str) -> Turn | None:
    """The turn that is meant, None for the next request."""
    if chosen == "":
        return turns[-1] if turns else None
    if chosen == "next":
        return None
    for turn in turns:
        if str(turn.number) == chosen:
            return turn
    raise NotFound(f"This session has no request {chosen[:20]!r} that is part of its history.")


def _asked(
    engine: Engine, session: Session, turn: Turn | None, wire: str, here: str
) -> tuple[ExportedRequest, str]:
    """(the request, why it could not be made or "")."""
    if turn is None:
        ahead = preview(engine, session, wire=wire)
        # A missing key is no obstacle: only its name stands in the code.
        failed = ahead.failed if not ahead.sent.body else ""
        return export_request(ahead.sent, ahead.profile, 0, here), failed
    own = turn.settings.profile
    if not wire or wire == own.protocol:
        return export_request(turn.request, own, turn.number, here), ""
    profile = profile_on(engine.profiles(), own, wire)
    try:
        sent, notes = _sent(session, turn, profile)
    except BadInput as error:
        return export_request(turn.request, own, turn.number, here), str(error)
    export = export_request(sent, profile, turn.number, here)
    return replace(export, notes=(*export.notes, *notes)), ""


def _sent(session: Session, turn: Turn, profile: Profile) -> tuple[RequestSent, tuple[str, ...]]:
    """`turn` as `profile` would have sent it, and what its protocol cannot say."""
    request = encode_request(session, profile.protocol, turn, profile)
    base = profile.base_url
    if profile.simulated:
        base = SIMULATOR + FACTS[profile.protocol].simulated
    name = SIMULATOR_KEY if profile.simulated else profile.key_name
    key = codec(profile.protocol).key_header("$" + name, profile.quirks) if name else {}
    headers = join_headers(request.headers, profile.headers, key)
    url, body = join_url(base, request.path), request.body.decode("utf-8")
    sent = RequestSent(turn.number, profile.protocol, request.method, url, headers, body)
    return sent, request.notes
