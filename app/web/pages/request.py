"""The next request of a session before it is sent, and the images that went with others."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import NotFound
from app.core.session import Prompt, Session
from app.core.tools import Content
from app.engine.preview import NO_DRAFT, Draft, Preview, preview
from app.render.fragments import partial
from app.render.request import NextRequest, request_fragment, setup_notes
from app.web.forms import as_json, body_of, images_of, media_type, wants
from app.web.site import site_of

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
        return as_json(_told(shown))
    drawn = await asyncio.to_thread(request_fragment, site.env, drawable(shown, wire))
    notes = setup_notes(site.env, request.path_params["id"], drawable(own))
    pieces = (("request", drawn), ("setup-notes", notes))
    return HTMLResponse("".join(partial(where, "outerMorph", html) for where, html in pieces))


def drawable(shown: Preview, wire: str = "") -> NextRequest:
    """A preview as the templates take it."""
    return NextRequest(shown.profile.name, shown.sent, shown.notes, shown.says, shown.failed, wire)


def _told(shown: Preview) -> dict[str, object]:
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
