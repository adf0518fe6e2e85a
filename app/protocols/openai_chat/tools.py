"""What a server of OpenAI Chat Completions is told about tools: which, and what choice it has.

What differs between servers is a quirk of the profile. What cannot be said is narrowed or left out
and noted; nothing is changed unseen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from app.core import provider_limits as limits
from app.core.messages import ModelRequest
from app.core.tools import Tool, ToolChoice
from app.protocols.encoder import Notes, freeform_note, no_tools_note, tool_extra
from app.protocols.preflight import Takes, foretell

_TAKES = Takes(
    "OpenAI's format",
    limits.OPENAI_NAME["openai_chat"],
    most=limits.OPENAI_MOST_TOOLS,
    strict="required",
    patterns=True,
    sure=False,
)
"""OpenAI's own rules. Other servers keep most of them."""
QUIRKS: Mapping[str, str] = {
    "max_completion_tokens": "max_tokens is sent under this name (OpenAI's reasoning models)",
    "no_stream_options": "the server refuses stream_options (Mistral)",
    "developer_role": "the system prompt is sent under the role developer",
    "short_ids": "call ids must be nine letters or digits (Mistral)",
    "assistant_after_tool": "a user message right after a tool message is refused: a short one of "
    "the assistant is put in between (Mistral, error 3230)",
    "no_reasoning_echo": "reasoning is not sent back",
    "api_key_header": "the key travels in the header api-key (Azure)",
    "custom_tools": "the server knows free-form tools; others get one of a single text (OpenAI)",
    "allowed_tools": "a subset of the tools can be named; others are sent fewer tools (OpenAI)",
    "any_for_required": "required is spelled any, and no single tool can be named (Mistral)",
    "no_forced_with_thinking": "a forced tool is refused while the model thinks (DeepSeek)",
    "no_strict": "the server has no strict mode, or another one (DeepSeek)",
    "no_parallel": "the server refuses parallel_tool_calls, so there may be several calls",
    "whole_arguments": "the arguments of a call come in one chunk (Groq, Mistral, xAI)",
    "text_only": "the server takes no images at all (DeepSeek)",
    "image_results": "a tool message takes images; otherwise they follow in a user message",
    "text_only_results": "a tool message takes text alone, which is taken for granted by now",
}


def add_tools(body: dict[str, Any], request: ModelRequest, notes: Notes) -> None:
    """Add `tools`, `tool_choice` and `parallel_tool_calls` to `body`, where they say something."""
    choice, quirks = request.choice, request.quirks
    if not request.offered:
        no_tools_note(request, notes)
        return
    tools, said = _chosen(request, notes)
    body["tools"] = [_tool(tool, quirks, notes) for tool in tools]
    takes = replace(_TAKES, strict="") if "no_strict" in quirks else _TAKES
    foretell(tools, takes, notes, request.model)
    if said is not None:
        body["tool_choice"] = said
    if not choice.parallel and "no_parallel" in quirks:
        notes.add("This server cannot be asked for one call at a time: there may be several.")
    elif not choice.parallel:
        body["parallel_tool_calls"] = False
    _foretell(request, notes)


def custom_names(request: ModelRequest) -> frozenset[str]:
    """The tools that are sent as free-form ones."""
    if "custom_tools" not in request.quirks:
        return frozenset()
    return frozenset(tool.name for tool in request.tools if tool.format is not None)


def _chosen(request: ModelRequest, notes: Notes) -> tuple[tuple[Tool, ...], Any]:
    """The tools to send and the choice among them; None where the default says it."""
    choice, tools = request.choice, request.offered
    custom = custom_names(request)
    narrowed = len(tools) < len(request.tools)
    if narrowed and choice.mode in ("auto", "required"):
        if "allowed_tools" in request.quirks:
            named = [_named(tool.name, custom) for tool in tools]
            subset = {"mode": choice.mode, "tools": named}
            return request.tools, {"type": "allowed_tools", "allowed_tools": subset}
        notes.add("Only the allowed tools were sent: this server has no word for a subset.")
    if "any_for_required" in request.quirks and choice.forced:
        if choice.mode == "tool":
            tools = tuple(tool for tool in tools if tool.name == choice.name)
            notes.add(
                f"Only {choice.name} was sent, with any for a choice: this server cannot name one."
            )
        return tools, "any"
    return tools, _choice(choice, custom)


def _choice(choice: ToolChoice, custom: Collection[str]) -> Any:
    match choice.mode:
        case "auto":
            return None
        case "tool":
            return _named(choice.name, custom)
        case _:
            return choice.mode


def _named(name: str, custom: Collection[str]) -> dict[str, Any]:
    kind = "custom" if name in custom else "function"
    return {"type": kind, kind: {"name": name}}


def _tool(tool: Tool, quirks: Collection[str], notes: Notes) -> dict[str, Any]:
    extra = tool_extra(tool, "openai_chat", notes)
    said: dict[str, Any] = {"name": tool.name}
    if tool.description:
        said["description"] = tool.description
    if tool.format is not None and "custom_tools" in quirks:
        return {**extra, "type": "custom", "custom": {**said, "format": _format(tool.format)}}
    freeform_note(tool, "This server", notes)
    said["parameters"] = dict(tool.parameters)
    if tool.strict and "no_strict" in quirks:
        notes.add("Strict mode was left out: this server has none. Arguments may not fit.")
    elif tool.strict:
        said["strict"] = True
    return {**extra, "type": "function", "function": said}


def _format(given: Mapping[str, Any]) -> dict[str, Any]:
    """A grammar stands one level deeper here than in the Responses API, whose form is ours."""
    if given.get("type") != "grammar":
        return dict(given)
    return {"type": "grammar", "grammar": {k: v for k, v in given.items() if k != "type"}}


def _foretell(request: ModelRequest, notes: Notes) -> None:
    """Note how the server will take it. It is sent as asked all the same."""
    thinks = request.extra.get("thinking") != {"type": "disabled"}
    if request.choice.forced and thinks and "no_forced_with_thinking" in request.quirks:
        notes.add(
            "A forced tool is refused while the model thinks, which it may do by itself: add "
            '"thinking": {"type": "disabled"} to the extra members, or let it choose (auto).'
        )
    if request.stream and "whole_arguments" in request.quirks:
        notes.add("This server sends the arguments of a call in one chunk: nobody sees them grow.")
