"""Reads bodies of Anthropic Messages."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.messages import MessagePart
from app.core.tools import ToolChoice
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
    params_of,
    placed,
    rest_of,
    text_of,
)


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    words = {"max_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
    params = params_of(body, **words, stop="stop_sequences", thinking="thinking")
    known = (*words, "stop_sequences", "thinking", "model", "messages", "tools", "tool_choice")
    system, extra = body.get("system"), rest_of(body, *known, "system", "stream")
    if isinstance(system, list) and any(set(body) - {"type", "text"} for body in dicts(system)):
        extra["system"] = system  # marks for the cache, and whatever else stands beside the text
    tool_choice = body.get("tool_choice")
    choice = tool_choice if isinstance(tool_choice, dict) else {}
    parallel = choice.get("disable_parallel_tool_use") is not True
    match choice.get("type"):
        case "any":
            chosen = ToolChoice("required", parallel=parallel)
        case "none":
            chosen = ToolChoice("none")
        case "tool":
            chosen = ToolChoice("tool", str(choice.get("name") or ""), parallel=parallel)
        case _:
            chosen = ToolChoice(parallel=parallel)
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=text_of(system),
        tools=dicts(body.get("tools")),
        choice=chosen,
        params=params,
        extra=extra,
        stream=body.get("stream") is True,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    for place, message in placed(body.get("messages")):
        content, at = message.get("content"), ("messages", place)
        if message.get("role") == "assistant":
            text = [{"type": "text", "text": content}]
            blocks = text if isinstance(content, str) else dicts(content)
            called = any(block.get("type") == "tool_use" for block in blocks)
            reason = "tool_use" if called else "end_turn"
            head = {"type": "message", "role": "assistant", "model": "", "id": "", "usage": {}}
            answer = {**head, "content": blocks, "stop_reason": reason}
            yield AnswerMessage(answer, tuple(map(_part, blocks)), at)
            continue
        role = "system" if message.get("role") == "system" else "user"
        own = rest_of(message, "role", "content")
        if isinstance(content, str):
            yield from notes.messages(content, at, role, own)
            continue
        for number, block in placed(content):
            if block.get("type") == "tool_result":
                id_, failed = str(block.get("tool_use_id") or ""), block.get("is_error") is True
                beside = rest_of(block, "type", "tool_use_id", "is_error", "content")
                given, form = notes.result(block.get("content"), **beside)
                yield ResultMessage(id_, "", given, failed, form, (*at, "content", number))
        rest = [block for block in dicts(content) if block.get("type") != "tool_result"]
        yield from notes.messages(rest, at, role, own)


def _part(block: Body) -> MessagePart:
    match block.get("type"):
        case "text" | "thinking" as kind:
            return MessagePart(kind, str(block.get(kind) or ""))
        case "tool_use":
            return call_part(str(block.get("id") or ""), block.get("name"), block.get("input"))
        case _:
            return MessagePart("other", meta=block)


READER = RequestReader(_setup, _items)
