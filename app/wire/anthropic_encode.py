"""Anthropic Messages, client side: requests.

A turn that came by this protocol goes back block by block as it was received; of turns that came
by another one, what this protocol can say. Spec: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Content, Tool, ToolChoice
from app.wire.codec import WireRequest
from app.wire.encoding import Ids, Names, Notes, sound_object, stop_words, wire_request

PROTOCOL = "anthropic"
PATH = "/v1/messages"
VERSION = {"anthropic-version": "2023-06-01"}
DEFAULT_MAX_TOKENS = 4096
QUIRKS: Mapping[str, str] = {
    "bearer_key": "the key travels as Authorization: Bearer (gateways, Vertex)",
}
BUDGETS = {"low": 1024, "medium": 4096, "high": 16384}
"""Thinking tokens for the words that other protocols use; 1024 is the least allowed."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_NAME = 128
_PARAMS = ("max_tokens", "temperature", "top_p", "stop", "thinking")
_CHOICES = {"auto": "auto", "required": "any", "none": "none", "tool": "tool"}


def encode(request: ModelRequest) -> WireRequest:
    """The request as POST /v1/messages."""
    notes = Notes()
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.params.get("max_tokens") or DEFAULT_MAX_TOKENS,
    }
    if request.system:
        body["system"] = request.system
    body["messages"] = _messages(request, notes)
    if request.offered:
        body["tools"] = [_tool(tool) for tool in request.offered]
        if (choice := _choice(request.choice)) is not None:
            body["tool_choice"] = choice
    elif request.choice.forced:
        notes.add("The tool choice was left out: there is no tool to choose from.")
    _add_params(body, request.params, notes)
    if request.stream:
        body["stream"] = True
    return wire_request(request, PATH, VERSION, body, notes)


def _tool(tool: Tool) -> dict[str, Any]:
    described: dict[str, Any] = {"name": tool.name}
    if tool.description:
        described["description"] = tool.description
    described["input_schema"] = dict(tool.parameters)
    if tool.strict:
        described["strict"] = True
    return described


def _choice(choice: ToolChoice) -> dict[str, Any] | None:
    """None where the default says it: auto, in parallel."""
    if choice.mode == "auto" and choice.parallel:
        return None
    said: dict[str, Any] = {"type": _CHOICES[choice.mode]}
    if choice.mode == "tool":
        said["name"] = choice.name
    if not choice.parallel and choice.mode != "none":
        said["disable_parallel_tool_use"] = True
    return said


def _add_params(body: dict[str, Any], params: Mapping[str, Any], notes: Notes) -> None:
    for name in ("temperature", "top_p"):
        if params.get(name) is not None:
            body[name] = params[name]
    if stop := stop_words(params.get("stop")):
        body["stop_sequences"] = stop
    thinking = _thinking(params.get("thinking"), notes)
    if thinking is not None:
        body["thinking"] = thinking
        budget = thinking.get("budget_tokens")
        if isinstance(budget, int) and body["max_tokens"] <= budget:
            body["max_tokens"] = budget + DEFAULT_MAX_TOKENS
            notes.add("max_tokens was raised: it must be above the thinking budget.")
    notes.unused(params, _PARAMS)


def _thinking(value: Any, notes: Notes) -> dict[str, Any] | None:
    """`thinking` as given: an object goes as it is, a number is a budget, a word an effort."""
    match value:
        case None | False | "" | "none":
            return None
        case dict():
            return dict(value)
        case True:
            return {"type": "enabled", "budget_tokens": BUDGETS["low"]}
        case int():
            return {"type": "enabled", "budget_tokens": value}
        case str() if value in BUDGETS:
            return {"type": "enabled", "budget_tokens": BUDGETS[value]}
        case str() if value in ("adaptive", "disabled"):
            return {"type": value}
    notes.add("The setting thinking was left out: give a budget in tokens or low, medium, high.")
    return None


def _messages(request: ModelRequest, notes: Notes) -> list[dict[str, Any]]:
    """Turns of user and assistant, alternating: results stand before the text that follows."""
    ids, names = Ids(_ID), Names(_MOST_NAME, request.tools, notes)
    said: list[dict[str, Any]] = []
    for message in request.messages:
        match message.role:
            case "assistant":
                role = "assistant"
                blocks = _blocks(message, ids, names, notes)
            case "results":
                role = "user"
                blocks = [_result(part, ids) for part in message.parts]
            case "user":
                role = "user"
                blocks = [_text(part.text) for part in message.parts if part.text.strip()]
        if not blocks:
            continue
        if said and said[-1]["role"] == role:
            said[-1]["content"] += blocks
        else:
            said.append({"role": role, "content": blocks})
    return said


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _blocks(message: Message, ids: Ids, names: Names, notes: Notes) -> list[dict[str, Any]]:
    blocks = (_block(part, ids, names, notes) for part in message.parts)
    return [block for block in blocks if block is not None]


def _block(part: MessagePart, ids: Ids, names: Names, notes: Notes) -> dict[str, Any] | None:
    """The content block of one part of an assistant message, or None where it has none."""
    own: dict[str, Any] = {}
    if part.protocol == PROTOCOL and isinstance(part.meta.get("block"), Mapping):
        own = dict(part.meta["block"])
    match part.kind:
        case "text" | "refusal":
            return {**own, **_text(part.text)} if part.text.strip() else None
        case "call":
            own |= {"type": "tool_use", "id": ids.of_call(part.call_id)}
            return {**own, "name": names.of(part.name), "input": _input(part, notes)}
        case _ if not own:
            notes.foreign(part.kind)
            return None
        case "server_call":
            return {**own, "input": _input(part, notes)}
        case "thinking" if own.get("type") == "thinking":
            return {**own, "thinking": part.text}
        case _:
            return own


def _input(part: MessagePart, notes: Notes) -> dict[str, Any]:
    """`input` must be an object; what is none goes as {} and the result says what was wrong."""
    value = sound_object(part.text or "{}")
    if value is None:
        notes.add(f"The arguments of {part.name or 'a call'} are no JSON object: sent as {{}}.")
        return {}
    return value


def _result(part: MessagePart, ids: Ids) -> dict[str, Any]:
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": ids.of_result(part.call_id),
    }
    pieces = [_piece(piece) for piece in part.content if piece.type == "image" or piece.text]
    match pieces:
        case []:
            pass
        case [{"type": "text", "text": text}]:
            result["content"] = text
        case _:
            result["content"] = pieces
    if part.is_error:
        result["is_error"] = True
        # The API refuses an error without words.
        result.setdefault("content", "The tool failed and gave no reason.")
    return result


def _piece(piece: Content) -> dict[str, Any]:
    if piece.type == "text":
        return _text(piece.text)
    source = {"type": "base64", "media_type": piece.media_type, "data": piece.data}
    return {"type": "image", "source": source}
