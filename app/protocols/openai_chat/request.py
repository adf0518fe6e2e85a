"""Reads bodies of OpenAI Chat Completions, and of what speaks like it."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.messages import MessagePart
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
    leading_system_messages,
    leading_system_text,
    openai_choice,
    params_of,
    placed,
    rest_of,
)


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    tokens = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
    words = {"max_tokens": tokens, "temperature": "temperature", "top_p": "top_p", "stop": "stop"}
    params = params_of(body, **words)
    if isinstance(body.get("reasoning_effort"), str):
        params["thinking"] = body["reasoning_effort"]
    known = (*words.values(), "reasoning_effort", "model", "messages", "tools", "tool_choice")
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=leading_system_text(body.get("messages")),
        tools=dicts(body.get("tools")),
        choice=openai_choice(body, notes),
        params=params,
        extra=rest_of(body, *known, "parallel_tool_calls", "stream", "stream_options"),
        stream=body.get("stream") is True,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    first = leading_system_messages(body.get("messages"))
    for place, item in list(placed(body.get("messages")))[first:]:
        at = ("messages", place)
        match item.get("role"):
            case "assistant":
                called = "tool_calls" if item.get("tool_calls") else "stop"
                calls = [
                    {**call, "index": n} for n, call in enumerate(dicts(item.get("tool_calls")))
                ]
                message = {**item, "tool_calls": calls}  # told apart by more than an id, if need be
                choice = {"index": 0, "message": message, "finish_reason": called}
                answer = {"object": "chat.completion", "choices": [choice]}
                yield AnswerMessage(answer, tuple(_parts(item)), at)
            case "tool" | "function":
                known = ("role", "content", "tool_call_id", "name")
                content, form = notes.result(item.get("content"), **rest_of(item, *known))
                id_, name = str(item.get("tool_call_id") or ""), str(item.get("name") or "")
                yield ResultMessage(id_, name, content, form=form, at=at)
            case "user" | "system" | "developer" as role:
                beside = rest_of(item, "role", "content")
                yield from notes.messages(item.get("content"), at, role, beside)
            case role:
                notes.add(f"A message of the role {str(role)[:40]} was left out.")


def _parts(message: Body) -> Iterator[MessagePart]:
    content = message.get("content")
    for piece in [{"text": content}] if isinstance(content, str) else dicts(content):
        kind = "refusal" if piece.get("type") == "refusal" else "text"
        if isinstance(text := piece.get(kind), str) and text:
            yield MessagePart(kind, text)
    if isinstance(message.get("refusal"), str):
        yield MessagePart("refusal", message["refusal"])
    calls = dicts(message.get("tool_calls"))
    if isinstance(message.get("function_call"), dict):
        calls.append({"function": message["function_call"]})  # the older dialect has no ids
    for call in calls:
        id_, function, custom = str(call.get("id") or ""), call.get("function"), call.get("custom")
        if isinstance(function, dict):
            yield call_part(id_, function.get("name"), function.get("arguments"))
        elif isinstance(custom, dict):
            yield call_part(id_, custom.get("name"), {"input": custom.get("input")})


READER = RequestReader(_setup, _items)
