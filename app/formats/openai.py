"""Tools as OpenAI's two protocols write them, and what LangChain and the SDKs make of functions.

https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.formats.entry import Pieces, left_out, made, refused
from app.formats.found import Found

CHAT, RESPONSES = "OpenAI Chat", "OpenAI Responses"

_FUNCTION = ("name", "description", "parameters", "strict")
_CUSTOM = ("name", "description", "format")


def chat(entry: Mapping[str, Any]) -> Found:
    """`{"type": "function", "function": {...}}`, or "custom" for free text."""
    kind = str(entry.get("type", "function"))
    inner = entry.get(kind)
    if not isinstance(inner, Mapping):
        return refused(entry, CHAT, "", f'"{kind}" is an object with a name.', "openai_chat")
    notes = left_out(entry, ("type", kind))
    if kind == "custom":
        form = inner.get("format")
        if isinstance(form, Mapping) and isinstance(form.get("grammar"), Mapping):
            form = {"type": "grammar", **form["grammar"]}
        return _custom(entry, inner, form, CHAT, "openai_chat", notes)
    return _function(entry, inner, CHAT, "openai_chat", notes)


def responses(entry: Mapping[str, Any]) -> Found:
    """`{"type": "function", "name", ...}`, or "custom" for free text."""
    if entry.get("type") == "custom":
        return _custom(entry, entry, entry.get("format"), RESPONSES, "openai_responses", [])
    return _function(entry, entry, RESPONSES, "openai_responses", [])


def old_function(entry: Mapping[str, Any]) -> Found:
    """An entry of `functions`, which came before `tools`."""
    return _function(entry, entry, "OpenAI functions", "", [])


def _function(
    entry: Mapping[str, Any], inner: Mapping[str, Any], kind: str, protocol: str, notes: list[str]
) -> Found:
    pieces = Pieces(
        inner.get("name"),
        inner.get("description"),
        inner.get("parameters"),
        rest={"strict": inner.get("strict")},
        notes=[*notes, *left_out(inner, (*_FUNCTION, "type"))],
    )
    return made(entry, kind, pieces, protocol)


def _custom(
    entry: Mapping[str, Any],
    inner: Mapping[str, Any],
    form: Any,
    kind: str,
    protocol: str,
    notes: list[str],
) -> Found:
    pieces = Pieces(
        inner.get("name"),
        inner.get("description"),
        rest={"format": {"type": "text"} if form is None else form},
        notes=[*notes, *left_out(inner, (*_CUSTOM, "type"))],
    )
    return made(entry, kind, pieces, protocol)
