"""Reads bodies of Ollama chat."""

from __future__ import annotations

from collections.abc import Iterator

from app.core.messages import MessagePart
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
    leading_system_messages,
    leading_system_text,
    member,
    params_of,
    placed,
    rest_of,
)


def _setup(body: Body, notes: RequestNotes) -> RequestSetup:
    options = member(body, "options")
    words = {"max_tokens": "num_predict", "temperature": "temperature", "top_p": "top_p"}
    rest = rest_of(options, *words.values(), "stop")
    return RequestSetup(
        model=str(body.get("model") or ""),
        system=leading_system_text(body.get("messages")),
        tools=dicts(body.get("tools")),
        params=params_of(options, **words, stop="stop"),
        extra={
            **rest_of(body, "model", "messages", "tools", "stream", "options"),
            **({"options": rest} if rest else {}),
        },
        stream=body.get("stream") is not False,
    )


def _items(body: Body, notes: RequestNotes) -> Iterator[RequestItem]:
    first = leading_system_messages(body.get("messages"))
    calls = (call for it in dicts(body.get("messages")) for call in dicts(it.get("tool_calls")))
    call_ids = [call.get("id") for call in calls]
    for place, message in list(placed(body.get("messages")))[first:]:
        at = ("messages", place)
        match message.get("role"):
            case "assistant":
                answer = {"message": dict(message), "done": True, "done_reason": "stop"}
                yield AnswerMessage(answer, tuple(_parts(message)), at)
            case "tool":
                name = str(message.get("tool_name") or message.get("name") or "")
                id_ = str(message.get("tool_call_id") or "")
                if name and id_ not in call_ids:
                    id_ = ""  # made up by the client, for a call that came without one
                content, _ = notes.result(message.get("content"))
                yield ResultMessage(id_, name, content, at=at)
            case "user" | "system" as role:
                listed = message.get("images")
                images = tuple(
                    Content("image", media_type="image/png", data=data)
                    for data in (listed if isinstance(listed, list) else ())
                    if isinstance(data, str)
                )
                text = message.get("content")
                yield PromptMessage(text if isinstance(text, str) else "", images, role, at=at)
            case role:
                notes.add(f"A message of the role {str(role)[:40]} was left out.")


def _parts(message: Body) -> Iterator[MessagePart]:
    for kind, name in (("thinking", "thinking"), ("text", "content")):
        if isinstance(text := message.get(name), str) and text:
            yield MessagePart(kind, text)
    for call in dicts(message.get("tool_calls")):
        if isinstance(function := call.get("function"), dict):
            id_ = str(call.get("id") or "")
            yield call_part(id_, function.get("name"), function.get("arguments"))


READER = RequestReader(_setup, _items)
