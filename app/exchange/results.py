"""What each provider would be told of a tool's result: the very words of its encoder.

The request is one prompt, one call and its result; what stands behind the call in it is shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.errors import BadInput
from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Tool, ToolChoice, ToolResult
from app.protocols.raw_json import Quoted, parse_json
from app.protocols.registry import CODECS

CALL_ID = "call_1"

_HISTORY_MEMBERS: Mapping[str, str] = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
    "ollama": "messages",
}
"""The member of a request's body that holds the history."""

_CALL_ITEMS = ("function_call", "custom_tool_call")


@dataclass(frozen=True)
class WireResult:
    """`text` is JSON, cut to the letter out of the request's body: one message, or several in a
    list. `notes` are what the protocol could not say."""

    protocol: str
    text: str
    notes: tuple[str, ...] = ()


def wire_results(
    tool: Tool,
    arguments: str,
    result: ToolResult,
    quirks: Mapping[str, Sequence[str]] | None = None,
) -> list[WireResult]:
    """The result of one call of `tool` in each protocol; `quirks` by protocol, as in a profile."""
    return [
        _wire_result(name, tool, arguments, result, (quirks or {}).get(name, ())) for name in CODECS
    ]


def _wire_result(
    protocol: str, tool: Tool, arguments: str, result: ToolResult, quirks: Sequence[str]
) -> WireResult:
    call = MessagePart("call", arguments, tool.name, CALL_ID)
    answer = MessagePart(
        "result", name=tool.name, call_id=CALL_ID, content=result.content, is_error=result.is_error
    )
    request = ModelRequest(
        model="",
        system="",
        messages=(
            Message("user", (MessagePart("text", "Call it."),)),
            Message("assistant", (call,)),
            Message("results", (answer,)),
        ),
        tools=(tool,),
        choice=ToolChoice(),
        quirks=tuple(quirks),
    )
    try:
        sent = CODECS[protocol].encode(request)
    except BadInput as error:
        return WireResult(protocol, "", (str(error),))
    return WireResult(protocol, _results_after_call(protocol, sent.body.decode()), sent.notes)


def _results_after_call(protocol: str, body: str) -> str:
    member = _HISTORY_MEMBERS[protocol]
    history = parse_json(body)[member]
    call = max(place for place, one in enumerate(history) if _is_call(one))
    quoted = Quoted(body)
    pieces = [quoted.member(member, place) for place in range(call + 1, len(history))]
    return pieces[0] if len(pieces) == 1 else f"[{','.join(pieces)}]"


def _is_call(message: Mapping[str, object]) -> bool:
    return message.get("role") in ("assistant", "model") or message.get("type") in _CALL_ITEMS


def results_data(results: Sequence[WireResult]) -> dict[str, object]:
    """The results by protocol for a script: the parsed value, the text, the notes."""
    return {
        wire_result.protocol: {
            "value": json.loads(wire_result.text) if wire_result.text else None,
            "text": wire_result.text,
            "notes": list(wire_result.notes),
        }
        for wire_result in results
    }
