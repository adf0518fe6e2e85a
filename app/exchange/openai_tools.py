"""Tools as OpenAI's two protocols write them, and what LangChain and the SDKs make of functions.

https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.exchange.entry import (
    ToolParts,
    build_tool,
    clipped,
    note_left_out,
    protocol_extra,
    refused_tool,
)
from app.exchange.found import ImportedTool

OPENAI_CHAT, OPENAI_RESPONSES = "OpenAI Chat", "OpenAI Responses"

_FUNCTION_KNOWN = ("name", "description", "parameters", "strict")
_CUSTOM_KNOWN = ("name", "description", "format")
_CHAT_EXTRA = ("cache_control",)
_RESPONSES_EXTRA = ("defer_loading", "allowed_callers", "output_schema", "namespace")
"""Kept for their protocol as they are; gateways take the first."""


def chat_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"type": "function", "function": {...}}`, or "custom" for free text."""
    kind = str(entry.get("type", "function"))
    inner = entry.get(kind)
    if not isinstance(inner, Mapping):
        return refused_tool(
            entry, OPENAI_CHAT, "", f'"{kind}" is an object with a name.', "openai_chat"
        )
    extra = protocol_extra(entry, "openai_chat", _CHAT_EXTRA)
    notes = note_left_out(entry, ("type", kind, *_CHAT_EXTRA))
    if kind == "custom":
        form = inner.get("format")
        if isinstance(form, Mapping) and isinstance(form.get("grammar"), Mapping):
            form = {"type": "grammar", **form["grammar"]}
        return _openai_custom(entry, inner, form, OPENAI_CHAT, "openai_chat", notes, extra)
    return _openai_function(entry, inner, OPENAI_CHAT, "openai_chat", notes, extra)


def responses_tool(
    entry: Mapping[str, Any], space: Mapping[str, Any] | None = None
) -> ImportedTool:
    """`{"type": "function", "name", ...}`, or "custom" for free text; `space` is the namespace."""
    known = {**entry, "namespace": space} if space else entry
    extra = protocol_extra(known, "openai_responses", _RESPONSES_EXTRA)
    plain = {name: one for name, one in entry.items() if name not in _RESPONSES_EXTRA}
    if entry.get("type") == "custom":
        form = entry.get("format")
        return _openai_custom(entry, plain, form, OPENAI_RESPONSES, "openai_responses", [], extra)
    return _openai_function(entry, plain, OPENAI_RESPONSES, "openai_responses", [], extra)


def is_namespace(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` holds the functions of a namespace, which the client runs."""
    return entry.get("type") == "namespace" and isinstance(entry.get("tools"), list)


def namespace_tools(entry: Mapping[str, Any]) -> Iterator[ImportedTool]:
    """`{"type": "namespace", "name", "description", "tools": [...]}`: its tools by their own names,
    which are those that calls have."""
    space = {name: one for name, one in entry.items() if name not in ("type", "tools")}
    for one in entry["tools"]:
        if isinstance(one, Mapping) and one.get("type") in ("function", "custom"):
            yield responses_tool(one, space)
        else:
            called = one.get("name") if isinstance(one, Mapping) else ""
            said = f"Only functions of the namespace {clipped(entry.get('name'))!r} can be brought."
            yield refused_tool(entry, OPENAI_RESPONSES, called, said, "openai_responses")


def old_openai_function(entry: Mapping[str, Any]) -> ImportedTool:
    """An entry of `functions`, which came before `tools`."""
    return _openai_function(entry, entry, "OpenAI functions", "", [], None)


def _openai_function(
    entry: Mapping[str, Any],
    inner: Mapping[str, Any],
    kind: str,
    protocol: str,
    notes: list[str],
    extra: Mapping[str, Any] | None,
) -> ImportedTool:
    pieces = ToolParts(
        inner.get("name"),
        inner.get("description"),
        inner.get("parameters"),
        rest={"strict": inner.get("strict"), "extra": extra},
        notes=[*notes, *note_left_out(inner, (*_FUNCTION_KNOWN, "type"))],
    )
    return build_tool(entry, kind, pieces, protocol)


def _openai_custom(
    entry: Mapping[str, Any],
    inner: Mapping[str, Any],
    form: Any,
    kind: str,
    protocol: str,
    notes: list[str],
    extra: Mapping[str, Any] | None,
) -> ImportedTool:
    pieces = ToolParts(
        inner.get("name"),
        inner.get("description"),
        rest={"format": {"type": "text"} if form is None else form, "extra": extra},
        notes=[*notes, *note_left_out(inner, (*_CUSTOM_KNOWN, "type"))],
    )
    return build_tool(entry, kind, pieces, protocol)
