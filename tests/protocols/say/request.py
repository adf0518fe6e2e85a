"""Encodes a neutral request, a list of messages, each with a text or a call; and reads one back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from playground.core.messages import Message, ModelRequest
from playground.core.tools import Content
from playground.protocols.base import WireRequest
from playground.protocols.encoder import Notes, preflight, wire_request
from playground.protocols.parameters import translate_params
from playground.protocols.request import (
    AnswerMessage,
    Body,
    PromptMessage,
    RequestItem,
    RequestNotes,
    RequestReader,
    RequestSetup,
    ResultMessage,
    call_part,
    dicts,
    indexed_dicts,
    params_of,
)

from . import FACTS
from .limits import LIMITS


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /lines."""
    notes, request = Notes(), translate_params("say", request)
    preflight(request.offered, LIMITS, notes, request.model)
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
    return wire_request(
        request,
        path=FACTS.path,
        headers={},
        body=body,
        notes=notes,
        stream_type="application/x-ndjson",
    )


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


# Reading a body back ------------------------------------------------------------------------------


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=str(body.get("system") or ""),
        tools=dicts(body.get("tools")),
        params=params_of(body, max_tokens="most"),
        stream=body.get("stream") is True,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    for place, entry in indexed_dicts(body.get("messages")):
        at = ("messages", place)
        match entry:
            case {"call": name, "id": id_, "arguments": arguments}:
                yield AnswerMessage(entry, (call_part(str(id_), name, arguments),), at)
            case {"result": str(text), "id": id_}:
                failed = entry.get("failed") is True
                yield ResultMessage(str(id_), "", (Content(text=text),), failed, at=at)
            case {"from": "assistant", "say": text}:
                yield AnswerMessage(entry, (), at)
            case {"say": text}:
                yield PromptMessage(str(text), at=at)


READER = RequestReader(_setup, _items)
