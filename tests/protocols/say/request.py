"""Reads bodies of requests."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.tools import Content
from app.protocols.request import (
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
    params_of,
    placed,
)


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=str(body.get("system") or ""),
        tools=dicts(body.get("tools")),
        params=params_of(body, max_tokens="most"),
        stream=body.get("stream") is True,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    for place, entry in placed(body.get("messages")):
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
