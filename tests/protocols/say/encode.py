"""Encodes a neutral request: a list of messages, each with a text or a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.core.messages import Message, ModelRequest
from app.protocols.base import WireRequest
from app.protocols.encoder import Notes, foretell, wire_request
from app.protocols.parameters import in_own_words

from . import FACTS
from .limits import LIMITS


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /lines."""
    notes, request = Notes(), in_own_words("say", request)
    foretell(request.offered, LIMITS, notes, request.model)
    body = {
        "model": request.model,
        "system": request.system,
        "messages": [entry for message in request.messages for entry in _entries(message)],
        "tools": [
            {"name": tool.name, "about": tool.description, "schema": tool.parameters}
            for tool in request.offered
        ],
        "stream": request.stream,
    }
    if "max_tokens" in request.params:
        body["most"] = request.params["max_tokens"]
    return wire_request(request, FACTS.path, {}, body, notes, "application/x-ndjson")


def _entries(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        match part.kind:
            case "text":
                yield {"from": message.role, "say": part.text}
            case "call":
                yield {"call": part.name, "id": part.call_id, "arguments": part.text}
            case "result":
                text = "".join(piece.text for piece in part.content)
                yield {"result": text, "id": part.call_id, "failed": part.is_error}
