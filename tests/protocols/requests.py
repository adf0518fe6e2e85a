"""Requests to encode, and what comes of them."""

from __future__ import annotations

import json
from typing import Any

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content, Tool, ToolChoice
from playground.protocols.base import WireRequest
from playground.protocols.registry import codec

TOOL = Tool("f", "Does f.", {"type": "object", "properties": {"x": {"type": "integer"}}})
CLOSED: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
STRICT = Tool("g", parameters=CLOSED, strict=True)

IMAGE = Content(type="image", media_type="image/png", data="aGk=")


def request(*messages: Message, **changes: Any) -> ModelRequest:
    """A request to model `m` with the two tools above, unless others are named."""
    fields: dict[str, Any] = {"system": "", "tools": (TOOL, STRICT), "choice": ToolChoice()}
    return ModelRequest("m", messages=messages or (user("hi"),), **{**fields, **changes})


def user(*texts: str) -> Message:
    return Message("user", tuple(MessagePart("text", text) for text in texts))


def assistant(*parts: MessagePart) -> Message:
    return Message("assistant", parts)


def call(id_: str, arguments: str = "{}", name: str = "f", **more: Any) -> MessagePart:
    return MessagePart("call", arguments, name=name, call_id=id_, **more)


def results(*parts: MessagePart) -> Message:
    return Message("results", parts)


def result_part(id_: str, *pieces: str | Content, is_error: bool = False) -> MessagePart:
    content = tuple(Content(text=p) if isinstance(p, str) else p for p in pieces)
    return MessagePart("result", name="f", call_id=id_, content=content, is_error=is_error)


def encoded(protocol: str, wanted: ModelRequest) -> tuple[dict[str, Any], WireRequest]:
    """The body as data, and the request it stands in."""
    sent = codec(protocol).encode(wanted)
    body: dict[str, Any] = json.loads(sent.body.decode("utf-8"))
    return body, sent
