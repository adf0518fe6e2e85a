"""A tool as each protocol would send it, written by the very encoder that sends it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.core.errors import PlaygroundError
from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Tool, ToolChoice
from app.protocols.registry import CODECS

_AROUND = ModelRequest(
    "model", "", (Message("user", (MessagePart("text", text="Hello"),)),), (), ToolChoice()
)


def tool_as_sent(tool: Tool) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """(protocol, the entry of the request's tools, notes) for each; notes are sentences about what
    is left out or changed. An entry is None where the encoder refuses the tool: a note says why."""
    for name, codec in CODECS.items():
        request = ModelRequest(**{**vars(_AROUND), "tools": (tool,)})
        try:
            sent = codec.encode(request)
        except PlaygroundError as error:
            yield name, None, (str(error),)
            continue
        yield name, _entry(json.loads(sent.body)), sent.notes


def _entry(body: Mapping[str, Any]) -> Any:
    match body.get("tools"):
        case [{"functionDeclarations": [one]}]:
            return one
        case [one]:
            return one
        case other:
            return other
