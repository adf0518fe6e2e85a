"""The bytes of a session: what was sent and what came back, shown, searched and downloaded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from app.core.errors import BadInput, NotFound
from app.core.events import RequestSent
from app.render.pages import request_sent as drawn_request
from app.render.pages import wire_rows_shown
from app.render.wire_raw import (
    FRAMES,
    Span,
    found_html,
    frames_html,
    look_for,
    raw,
    raw_html,
    singles,
)
from app.store.batch import Chunk
from app.web.forms import as_json, wants
from app.web.pages import session
from app.web.site import site_of

LONGEST_QUERY = 200


async def recording(request: Request) -> Response:
    """GET /sessions/ID/recordings/N?start=A&end=B: the bytes as they came.

    In the page: a page of them from `at` on, `as` text or hex, with `mark` A-B shown.
    """
    site, session_id, number = site_of(request), request.path_params["id"], _number(request)
    await _sent(request, number)
    data = _joined(await site.engine.log.chunks(session_id, number))
    span = _span(request, len(data))
    if wants(request) != "htmx":
        return PlainTextResponse(data[span[0] : span[1]])
    closed = (await site.engine.log.recordings(session_id)).get(number)
    page = raw(
        number,
        data,
        span,
        closed.masked if closed is not None else (),
        at=_place(request, "at", -1, len(data)),
        as_hex=request.query_params.get("as") == "hex",
        hit=_mark(request, len(data)),
    )
    return HTMLResponse(raw_html(site.env, session_id, page))


async def recorded_bytes(request: Request) -> Response:
    """GET /sessions/ID/recordings/N/bytes: the whole recording as a file."""
    site, number = site_of(request), _number(request)
    _, title = await _sent(request, number)
    data = _joined(await site.engine.log.chunks(request.path_params["id"], number))
    return download(data, f"{title} answer {number}.bin")


async def frames(request: Request) -> Response:
    """GET /sessions/ID/recordings/N/frames?start=A&end=B&first=K: single frames of a row."""
    site, session_id, number = site_of(request), request.path_params["id"], _number(request)
    await _sent(request, number)
    async with site.engine.sessions.holding(session_id) as live:
        sections = (await site.engine.sessions.wire(live)).sections
        sent_ms = sections[number - 1].sent_ms if number <= len(sections) else 0
    chunks = await site.engine.log.chunks(session_id, number)
    span = _span(request, sum(len(chunk.data) for chunk in chunks))
    pieces = [(chunk.at_ms, chunk.data) for chunk in chunks]
    found = await asyncio.to_thread(singles, pieces, span, sent_ms)
    first = _place(request, "first", 0, len(found))
    if wants(request) == "json":
        return as_json(
            [
                {"start": one.start, "end": one.end, "at_ms": one.at_ms, "text": one.data}
                for one in found[first : first + FRAMES]
            ]
        )
    return await _below(request, frames_html(site.env, session_id, number, span, found, first))


async def more_rows(request: Request) -> Response:
    """GET /sessions/ID/recordings/N/rows?from=A&to=B: rows that the page does not show yet, the
    first of those from A on, and what leads to the others before B."""
    site, number = site_of(request), _number(request)
    async with site.engine.sessions.holding(request.path_params["id"]) as live:
        view = await site.view(live)
        if not 0 < number <= len(view.wire.sections):
            raise NotFound(f"This session has no recording {number}.")
        most = len(view.wire.sections[number - 1].rows)
        start, end = _place(request, "from", 0, most), _place(request, "to", most, most)
        return HTMLResponse(wire_rows_shown(site.env, view, number, start, end))


async def search(request: Request) -> Response:
    """GET /sessions/ID/wire?q=TEXT: where the text stands in the bytes that came back."""
    site, session_id = site_of(request), request.path_params["id"]
    text = request.query_params.get("q", "").strip()
    if not text or len(text) > LONGEST_QUERY:
        raise BadInput(f"Say what to find, in at most {LONGEST_QUERY} characters.")
    async with site.engine.sessions.holding(session_id) as live:
        wire = await site.engine.sessions.wire(live)
        chunks = await site.engine.log.chunks(session_id)
        bodies: dict[int, list[Chunk]] = {}
        for chunk in chunks:
            bodies.setdefault(chunk.recording, []).append(chunk)
        joined = [(number, _joined(several)) for number, several in sorted(bodies.items())]
        hits = await asyncio.to_thread(look_for, text, joined, wire)
    if wants(request) == "json":
        return as_json(
            [
                {"recording": hit.recording, "start": hit.start, "end": hit.end, "row": hit.row}
                for hit in hits
            ]
        )
    return await _below(request, found_html(site.env, session_id, text, hits))


async def request_sent(request: Request) -> Response:
    """GET /sessions/ID/requests/N: a request as it was sent, keys by their names."""
    site = site_of(request)
    sent, _ = await _sent(request, _number(request), "request")
    if wants(request) == "htmx":
        return HTMLResponse(drawn_request(site.env, sent))
    return PlainTextResponse(sent.body)


async def request_body(request: Request) -> Response:
    """GET /sessions/ID/requests/N/body: its body as a file."""
    number = _number(request)
    sent, title = await _sent(request, number, "request")
    return download(sent.body.encode("utf-8", "replace"), f"{title} request {number}.json")


async def _below(request: Request, html: str) -> Response:
    """What stands below the wire's rows: alone, or in the page where there is no script."""
    if wants(request) == "htmx":
        return HTMLResponse(html)
    return await session.page(site_of(request), request.path_params["id"], tab="wire", raw=html)


def download(data: bytes, name: str) -> Response:
    """`data` as a file of that name, which may hold anything (RFC 5987 beside plain ASCII)."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "session"
    told = quote(re.sub(r"[\x00-\x1f\x7f/\\:]+", " ", name).encode("utf-8", "replace"), safe="")
    headers = {"Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{told}"}
    return Response(data, 200, headers, "application/octet-stream")


async def _sent(request: Request, number: int, what: str = "recording") -> tuple[RequestSent, str]:
    """Request `number` and the session's title; NotFound where there is none."""
    async with site_of(request).engine.sessions.holding(request.path_params["id"]) as live:
        if not 0 < number <= len(live.session.turns):
            raise NotFound(f"This session has no {what} {number}.")
        return live.session.turns[number - 1].request, live.title or "session"


def _joined(chunks: Sequence[Chunk]) -> bytes:
    return b"".join(chunk.data for chunk in chunks)


def _number(request: Request) -> int:
    """The number of a turn in the path; 0, which none has, for anything else."""
    text: str = request.path_params["number"]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _span(request: Request, most: int) -> Span:
    start = _place(request, "start", 0, most)
    return start, max(start, _place(request, "end", most, most))


def _place(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise BadInput(f"{name} must be a whole number of bytes.")
    return min(int(text), most)


def _mark(request: Request, most: int) -> Span:
    match = re.fullmatch(r"([0-9]{1,15})-([0-9]{1,15})", request.query_params.get("mark", ""))
    return (min(int(match[1]), most), min(int(match[2]), most)) if match else (0, 0)
