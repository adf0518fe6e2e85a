"""The messages of a request to OpenAI Chat Completions: read in their order, or refused.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.core.messages import Message, MessagePart
from app.core.tools import Content
from app.protocols.openai_chat import refusals
from app.protocols.openai_chat.refusals import check_name, invalid, missing, unsupported, wrong_type
from app.protocols.server import compact

_ERROR = re.compile(r"\s*(?:error\b|\{\s*\"(?:error|is_error)\")", re.I)
_DATA = re.compile(r"data:image/(jpeg|jpg|png|gif|webp);base64,", re.I)
_PARTS: Mapping[str, tuple[str, ...]] = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text", "image_url"),
    "function": ("text",),
}
_ROLES = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"


def messages_of(value: Any) -> tuple[tuple[Message, ...], str]:
    """(the messages, the system prompt)."""
    if value is None:
        raise missing("messages")
    if not isinstance(value, list):
        raise wrong_type("messages", "an array of objects", value)
    if not value:
        raise invalid("messages", "empty array. Expected an array with minimum length 1.")
    messages: list[Message] = []
    system: list[str] = []
    waiting: list[str] = []
    legacy = ""
    for place, entry in enumerate(value):
        where = f"messages[{place}]"
        role = entry.get("role") if isinstance(entry, dict) else None
        if role == "tool":
            messages.append(_result(entry, where, waiting))
            continue
        _check_answered(waiting)
        match role:
            case "system" | "developer":
                system.append(_text(entry.get("content"), role, where))
            case "user":
                parts = _content(entry.get("content"), role, where)
                messages.append(Message("user", parts))
            case "assistant":
                messages.append(_assistant(entry, where, place))
                calls = [p.call_id for p in messages[-1].parts if p.kind == "call"]
                legacy = calls[0] if entry.get("function_call") else ""
                waiting = [] if legacy else calls
            case "function":
                messages += _function_result(entry, where, legacy)
                legacy = ""
            case _:
                raise unsupported(f"{where}.role", role, _ROLES)
    _check_answered(waiting)
    return tuple(_joined(messages)), "\n".join(system)


def _joined(messages: Iterable[Message]) -> list[Message]:
    """One message for the results of one turn, as the neutral form has it."""
    found: list[Message] = []
    for message in messages:
        if found and message.role == found[-1].role == "results":
            found[-1] = Message("results", found[-1].parts + message.parts)
        else:
            found.append(message)
    return found


def _check_answered(waiting: Sequence[str]) -> None:
    if waiting:
        raise refusals.UNANSWERED.refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
            param="messages",
        )


def _result(entry: Mapping[str, Any], where: str, waiting: list[str]) -> Message:
    """A tool message; its call is taken out of `waiting`."""
    given = entry.get("tool_call_id")
    if not isinstance(given, str):
        raise missing(f"{where}.tool_call_id")
    if not waiting:
        raise refusals.NO_CALL.refusal(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            param=f"{where}.role",
        )
    if given not in waiting:
        raise refusals.OTHER_CALL.refusal(
            f"Invalid parameter: 'tool_call_id' of '{given}' not found in 'tool_calls' of previous "
            "message.",
            param=f"{where}.tool_call_id",
        )
    waiting.remove(given)
    return Message("results", (_answered(given, _content(entry.get("content"), "tool", where)),))


def _function_result(entry: Mapping[str, Any], where: str, call_id: str) -> list[Message]:
    """The result of a call of the older dialect, which has no ids: it answers the one before."""
    check_name(entry.get("name"), f"{where}.name")
    parts = _content(entry.get("content"), "function", where)
    return [Message("results", (_answered(call_id, parts),))] if call_id else []


def _answered(call_id: str, parts: Sequence[MessagePart]) -> MessagePart:
    pieces: list[Content] = []
    for part in parts:
        if part.kind == "image":
            pieces += part.content
        elif part.text:
            pieces.append(Content(text=part.text))
    # There is no field for a failure in this protocol: clients say it in the text.
    failed = bool(pieces and _ERROR.match(pieces[0].text))
    return MessagePart("result", call_id=call_id, content=tuple(pieces), is_error=failed)


def _assistant(entry: Mapping[str, Any], where: str, place: int) -> Message:
    content, calls, called = (entry.get(k) for k in ("content", "tool_calls", "function_call"))
    if content is None and not calls and not entry.get("refusal") and not called:
        raise refusals.REFERENCE.refusal(
            f"Invalid value for 'content': expected a string, got null. ({where})",
            param=f"{where}.content",
        )
    parts = list(_content(content, "assistant", where)) if content else []
    if calls is not None and not isinstance(calls, list):
        raise wrong_type(f"{where}.tool_calls", "an array of objects", calls)
    if calls == []:
        raise invalid(f"{where}.tool_calls", "empty array. Expected minimum length 1.")
    parts += [_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls or [])]
    if called:
        one = {"id": f"function_{place}", "type": "function", "function": called}
        parts.append(_call(one, where))
    return Message("assistant", tuple(parts))


def _call(value: Any, where: str) -> MessagePart:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise missing(f"{where}.id")
    kind = value.get("type")
    if kind is None:
        raise missing(f"{where}.type")
    if kind not in ("function", "custom"):
        raise unsupported(f"{where}.type", kind, "'function' and 'custom'")
    called, field = value.get(kind), "arguments" if kind == "function" else "input"
    if not isinstance(called, dict):
        raise missing(f"{where}.{kind}")
    name = check_name(called.get("name"), f"{where}.{kind}.name")
    written = called.get(field)
    if not isinstance(written, str):
        raise wrong_type(f"{where}.{kind}.{field}", "a string", written)
    text = written if kind == "function" else compact({"input": written})
    return MessagePart("call", text, name, value["id"])


def _text(content: Any, role: str, where: str) -> str:
    return "\n".join(part.text for part in _content(content, role, where))


def _content(content: Any, role: str, where: str) -> tuple[MessagePart, ...]:
    """The parts of a message's content, of the types that its role may have."""
    if isinstance(content, str):
        return (MessagePart("text", content),)
    if not isinstance(content, list):
        raise wrong_type(f"{where}.content", "one of a string or array of objects", content)
    found = []
    for place, part in enumerate(content):
        at = f"{where}.content[{place}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _PARTS[role]:
            if role == "tool":
                raise refusals.TOOL_CONTENT.refusal(
                    "Content blocks are expected to be either text or image_url type.", param=at
                )
            raise invalid(f"{at}.type", f"'{kind}' is not supported here.", refusals.ASSUMED)
        match kind:
            case "text" | "refusal":
                if not isinstance(part.get(kind), str):
                    raise missing(f"{at}.{kind}")
                found.append(MessagePart(kind, part[kind]))
            case "image_url":
                found.append(MessagePart("image", content=(_image(part, f"{at}.image_url"),)))
            case _:
                found.append(MessagePart("other", meta=part))
    return tuple(found)


def _image(part: Mapping[str, Any], where: str) -> Content:
    """An image by its address, or whole in a `data:` URL."""
    shown = part.get("image_url")
    url = shown.get("url") if isinstance(shown, dict) else None
    if not isinstance(url, str):
        raise missing(f"{where}.url")
    if not url.startswith("data:"):
        if url.startswith(("http://", "https://")):
            return Content("image")
        raise invalid(f"{where}.url", f"Expected a valid URL, but got '{url[:80]}'.")
    head = _DATA.match(url)
    if head is None:
        raise refusals.IMAGES.refusal(
            "You uploaded an unsupported image. Please make sure your image has of one the "
            "following formats: ['png', 'jpeg', 'gif', 'webp'].",
            param=f"{where}.url",
            code="invalid_image_format",
        )
    data = url[head.end() :]
    try:
        if not b64decode(data, validate=True):
            raise ValueError
    except (binascii.Error, ValueError):
        raise refusals.IMAGES.refusal(
            "Invalid base64 image_url.", param=f"{where}.url", code="invalid_base64"
        ) from None
    return Content("image", media_type=f"image/{head[1].lower()}", data=data)
