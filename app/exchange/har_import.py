"""HTTP archives: the requests to chat APIs among their entries, with what came back.

Spec: http://www.softwareishard.com/blog/har-12-spec/
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class HarExchange:
    """One entry. `response` is None where the archive has no bytes of it."""

    url: str
    body: str
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0
    response: bytes | None = None
    at_ms: int = 0


def is_har(value: object) -> bool:
    """Whether a JSON value is an HTTP archive."""
    return isinstance(_member(value, "log").get("entries"), list)


def har_exchanges(value: Any) -> Iterator[HarExchange]:
    """The entries that sent a body, in the order of the archive."""
    for entry in value["log"]["entries"]:
        request, answer = _member(entry, "request"), _member(entry, "response")
        text, status = _member(request, "postData").get("text"), answer.get("status")
        if not isinstance(text, str) or not isinstance(request.get("url"), str):
            continue
        yield HarExchange(
            request["url"],
            text,
            _headers(request.get("headers")),
            status if type(status) is int else 0,
            _content(answer.get("content")),
            _time(entry.get("startedDateTime")),
        )


def _member(value: object, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _headers(value: object) -> dict[str, str]:
    pairs = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    return {str(pair.get("name")).lower(): str(pair.get("value")) for pair in pairs}


def _content(value: object) -> bytes | None:
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(text, str) or not text:
        return None
    if value.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _time(value: object) -> int:
    """Unix ms; 0 where the time cannot be read."""
    try:
        return round(datetime.fromisoformat(str(value)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return 0
