"""Tools as OpenAI's two protocols write them, and what LangChain and the SDKs make of functions.

https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.exchange.entry import Pieces, clipped, kept, left_out, made, refused
from app.exchange.found import Found

CHAT, RESPONSES = "OpenAI Chat", "OpenAI Responses"

_FUNCTION = ("name", "description", "parameters", "strict")
_CUSTOM = ("name", "description", "format")
_CHAT_EXTRA = ("cache_control",)
_RESPONSES_EXTRA = ("defer_loading", "allowed_callers", "output_schema", "namespace")
"""Kept for their protocol as they are; gateways take the first."""


def chat(entry: Mapping[str, Any]) -> Found:
    """`{"type": "function", "function": {...}}`, or "custom" for free text."""
    kind = str(entry.get("type", "function"))
    inner = entry.get(kind)
    if not isinstance(inner, Mapping):
        return refused(entry, CHAT, "", f'"{kind}" is an object with a name.', "openai_chat")
    extra = kept(entry, "openai_chat", _CHAT_EXTRA)
    notes = left_out(entry, ("type", kind, *_CHAT_EXTRA))
    if kind == "custom":
        form = inner.get("format")
        if isinstance(form, Mapping) and isinstance(form.get("grammar"), Mapping):
            form = {"type": "grammar", **form["grammar"]}
        return _custom(entry, inner, form, CHAT, "openai_chat", notes, extra)
    return _function(entry, inner, CHAT, "openai_chat", notes, extra)


def responses(entry: Mapping[str, Any], space: Mapping[str, Any] | None = None) -> Found:
    """`{"type": "function", "name", ...}`, or "custom" for free text; `space` is the namespace."""
    known = {**entry, "namespace": space} if space else entry
    extra = kept(known, "openai_responses", _RESPONSES_EXTRA)
    plain = {name: one for name, one in entry.items() if name not in _RESPONSES_EXTRA}
    if entry.get("type") == "custom":
        form = entry.get("format")
        return _custom(entry, plain, form, RESPONSES, "openai_responses", [], extra)
    return _function(entry, plain, RESPONSES, "openai_responses", [], extra)


def is_namespace(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` holds the functions of a namespace, which the client runs."""
    return entry.get("type") == "namespace" and isinstance(entry.get("tools"), list)


def namespace(entry: Mapping[str, Any]) -> Iterator[Found]:
    """`{"type": "namespace", "name", "description", "tools": [...]}`: its tools by their own names,
    which are those that calls have."""
    space = {name: one for name, one in entry.items() if name not in ("type", "tools")}
    for one in entry["tools"]:
        if isinstance(one, Mapping) and one.get("type") in ("function", "custom"):
            yield responses(one, space)
        else:
            called = one.get("name") if isinstance(one, Mapping) else ""
            said = f"Only functions of the namespace {clipped(entry.get('name'))!r} can be brought."
            yield refused(entry, RESPONSES, called, said, "openai_responses")


def old_function(entry: Mapping[str, Any]) -> Found:
    """An entry of `functions`, which came before `tools`."""
    return _function(entry, entry, "OpenAI functions", "", [], None)


def _function(
    entry: Mapping[str, Any],
    inner: Mapping[str, Any],
    kind: str,
    protocol: str,
    notes: list[str],
    extra: Mapping[str, Any] | None,
) -> Found:
    pieces = Pieces(
        inner.get("name"),
        inner.get("description"),
        inner.get("parameters"),
        rest={"strict": inner.get("strict"), "extra": extra},
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
    extra: Mapping[str, Any] | None,
) -> Found:
    pieces = Pieces(
        inner.get("name"),
        inner.get("description"),
        rest={"format": {"type": "text"} if form is None else form, "extra": extra},
        notes=[*notes, *left_out(inner, (*_CUSTOM, "type"))],
    )
    return made(entry, kind, pieces, protocol)
