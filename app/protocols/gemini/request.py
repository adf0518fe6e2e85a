"""Reads bodies of Gemini generateContent, whose names are written in camelCase or in snake_case.

What is carried along keeps the names that it came with.
https://protobuf.dev/programming-guides/json/#json-options
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from app.core.messages import MessagePart
from app.core.settings import Protocol
from app.core.tools import Content, ToolChoice
from app.protocols.facts import words_of
from app.protocols.gemini.limits import camel_names
from app.protocols.request import (
    AnswerMessage,
    Body,
    RequestItem,
    RequestNotes,
    RequestReader,
    RequestSetup,
    ResultMessage,
    call_part,
    dicts,
    member,
    params_of,
    placed,
    rest_of,
    text_of,
)

NAME: Protocol = "gemini"
_BODY = words_of("contents systemInstruction tools toolConfig generationConfig")
_PARAMS = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "stop": "stopSequences",
}
_CALLING = words_of("mode allowedFunctionNames")
_PART = words_of("functionCall functionResponse thoughtSignature")


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    body = camel_names(body, _BODY)
    config = camel_names(member(body, "generationConfig"), _PARAMS.values())
    choosing = camel_names(member(body, "toolConfig"), ("functionCallingConfig",))
    extra = rest_of(body, *_BODY)
    if more := rest_of(config, *_PARAMS.values()):
        extra["generationConfig"] = more
    if more := rest_of(choosing, "functionCallingConfig"):
        extra["toolConfig"] = more
    return RequestSetup(
        system=text_of(member(body, "systemInstruction").get("parts")),
        tools=dicts(body.get("tools")),
        choice=_choice(camel_names(member(choosing, "functionCallingConfig"), _CALLING)),
        params=params_of(config, **_PARAMS),
        extra=extra,
    )


def _choice(calling: Body) -> ToolChoice:
    allowed = calling.get("allowedFunctionNames")
    listed = allowed if isinstance(allowed, list) else []
    names = tuple(name for name in listed if isinstance(name, str))
    match str(calling.get("mode") or "").upper():
        case "ANY" if len(names) == 1:
            return ToolChoice("tool", names[0])
        case "ANY":
            return ToolChoice("required", allowed=names or None)
        case "NONE":
            return ToolChoice("none")
    return ToolChoice(allowed=names or None)  # VALIDATED is auto that takes names


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    for place, content in placed(body.get("contents")):
        at = ("contents", place)
        named = [
            (number, camel_names(part, _PART)) for number, part in placed(content.get("parts"))
        ]
        parts = [part for _, part in named]
        if content.get("role") == "model":
            candidate = {"content": {**content, "parts": parts}, "finishReason": "STOP"}
            yield AnswerMessage({"candidates": [candidate]}, tuple(map(_part, parts)), at)
            continue
        for number, part in named:
            if isinstance(given := part.get("functionResponse"), dict):
                id_, name = str(given.get("id") or ""), str(given.get("name") or "")
                text, failed = _result(given.get("response"))
                shown, _ = notes.result(given.get("parts"))
                beside = rest_of(given, "id", "name", "response", "parts")
                form = {"protocol": NAME, "own": beside} if beside else {}
                pieces = (Content(text=text), *shown)
                yield ResultMessage(id_, name, pieces, failed, form, (*at, "parts", number))
        rest = [part for part in parts if "functionResponse" not in part]
        yield from notes.messages(rest, at)


def _part(part: Body) -> MessagePart:
    if isinstance(call := part.get("functionCall"), dict):
        return call_part(str(call.get("id") or ""), call.get("name"), call.get("args"))
    if isinstance(text := part.get("text"), str):
        return MessagePart("thinking" if part.get("thought") is True else "text", text)
    return MessagePart("other", meta=part)


def _result(response: object) -> tuple[str, bool]:
    """What a tool gave, and whether it failed: `output` and `error` are the words for it."""
    match response:
        case {"output": value, **rest} if not rest:
            failed = False
        case {"error": value, **rest} if not rest:
            failed = True
        case _:
            value, failed = response, False
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), failed


READER = RequestReader(_setup, _items)
