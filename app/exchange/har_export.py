"""Every request and its answer as an HTTP archive, for the developer tools of a browser.

http://www.softwareishard.com/blog/har-12-spec/ is the form. Keys are by name; times are those at
which this program saw the bytes, in ms. What TLS and name look-up took is part of `wait`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from app import __version__
from app.core.session import Session, Turn
from app.exchange.bundle import ExportFile, Recording, SessionBundle, file_name
from app.protocols.base import url_parts

PHRASES: Mapping[int, str] = {
    200: "OK", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    408: "Request Timeout", 413: "Content Too Large", 429: "Too Many Requests",
    500: "Internal Server Error", 502: "Bad Gateway", 503: "Service Unavailable",
    529: "Overloaded",
}  # fmt: skip
"""HTTP/2 has none, and the form demands one; "" for others."""


def write(bundle: SessionBundle) -> ExportFile:
    """All requests of the session, those too that failed."""
    data = archive(bundle.session, bundle.session.turns, bundle.recordings, bundle.title)
    return ExportFile(file_name(bundle.title, "har"), "application/json", data)


def archive(
    session: Session, turns: Iterable[Turn], recordings: Mapping[int, Recording], title: str = ""
) -> bytes:
    """The archive of some of the turns, as the bytes of a file."""
    chosen = list(turns)
    page = f"session-{session.id}"
    begun = chosen[0].sent_ms if chosen else session.started_ms
    log = {
        "version": "1.2",
        "creator": {"name": "tool-playground", "version": __version__},
        "pages": [
            {
                "startedDateTime": _time(begun),
                "id": page,
                "title": title or session.id,
                "pageTimings": {"onContentLoad": -1, "onLoad": -1},
            }
        ],
        "entries": [_entry(turn, recordings.get(turn.number), page) for turn in chosen],
    }
    return json.dumps({"log": log}, indent=1).encode("ascii") + b"\n"


def _entry(turn: Turn, recording: Recording | None, page: str) -> dict[str, Any]:
    timings = _timings(turn, recording)
    comment = f"Turn {turn.number}"
    if turn.failure is not None:
        comment += f": {turn.failure.message}"
    if recording is not None and recording.masked:
        comment += f" ({len(recording.masked)} secrets are stars of the same length)"
    return {
        "pageref": page,
        "startedDateTime": _time(turn.sent_ms),
        "time": sum(value for value in timings.values() if value > 0),
        "request": _request(turn),
        "response": _response(turn, recording),
        "cache": {},
        "timings": timings,
        "comment": comment,
        "_turn": turn.number,
    }


def _request(turn: Turn) -> dict[str, Any]:
    sent = turn.request
    query = parse_qsl(url_parts(sent.url).query, keep_blank_values=True)
    kind = {name.lower(): value for name, value in sent.headers.items()}.get("content-type", "")
    return {
        "method": sent.method,
        "url": sent.url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(sent.headers),
        "queryString": [{"name": name, "value": value} for name, value in query],
        "postData": {"mimeType": kind, "params": [], "text": sent.body},
        "headersSize": -1,
        "bodySize": len(sent.body.encode("utf-8", "replace")),
    }


def _response(turn: Turn, recording: Recording | None) -> dict[str, Any]:
    head = turn.response
    headers = dict(head.headers) if head is not None else {}
    kind = {name.lower(): value for name, value in headers.items()}.get("content-type", "")
    data = recording.data if recording is not None else b""
    # Without a status, browsers say by 0 that no answer came.
    status = head.status if head is not None else 0
    response: dict[str, Any] = {
        "status": status,
        "statusText": PHRASES.get(status, ""),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _headers(headers),
        "content": _content(data, kind or "application/octet-stream"),
        "redirectURL": _redirect_url(status, headers),
        "headersSize": -1,
        "bodySize": len(data),
    }
    if turn.failure is not None:
        response["_error"] = turn.failure.failure
    return response


def _redirect_url(status: int, headers: Mapping[str, str]) -> str:
    """Where an answer of 3xx points to, as it says it; "" for all others."""
    places = (value for name, value in headers.items() if name.lower() == "location")
    return next(places, "") if 300 <= status < 400 else ""


def _content(data: bytes, kind: str) -> dict[str, Any]:
    """As text where it is UTF-8, else as base64: no byte is changed."""
    content: dict[str, Any] = {"size": len(data), "mimeType": kind}
    try:
        return {**content, "text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {**content, "text": base64.b64encode(data).decode("ascii"), "encoding": "base64"}


def _timings(turn: Turn, recording: Recording | None) -> dict[str, int]:
    """`wait` is until the head of the answer, `receive` until its last byte."""
    pieces = recording.pieces if recording is not None else ()
    last = max([piece.at_ms for piece in pieces] + [turn.closed_ms or turn.sent_ms])
    first = turn.answered_ms or (pieces[0].at_ms if pieces else last)
    return {
        "blocked": -1,
        "dns": -1,
        "connect": -1,
        "ssl": -1,
        "send": 0,
        "wait": max(first - turn.sent_ms, 0),
        "receive": max(last - first, 0),
    }


def _headers(headers: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in headers.items()]


def _time(at_ms: int) -> str:
    seconds, ms = divmod(at_ms, 1000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{ms:03}Z"
