"""Reading and refusing requests as Anthropic Messages does: the same status, type and words.

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Content, Tool, ToolChoice
from app.simulator.end import Asked, BadRequest, compact, object_of
from app.simulator.reply import tokens
from app.simulator.words import spaced

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_KNOWN = spaced(
    """model messages max_tokens system tools tool_choice stream temperature top_p top_k
    stop_sequences metadata thinking service_tier container context_management mcp_servers
    output_config output_format inference_geo cache_control speed"""
)


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> Asked:
    """The request that `body` holds. Raises BadRequest in Anthropic's own words."""
    if not headers.get("anthropic-version"):
        raise BadRequest("anthropic-version: header is required")
    data = object_of(body)
    for name in data:
        if name not in _KNOWN:
            raise BadRequest(f"{name}: Extra inputs are not permitted")
    for name in ("model", "max_tokens", "messages"):
        if name not in data:
            raise BadRequest(f"{name}: Field required")
    model, most = data["model"], data["max_tokens"]
    if not isinstance(model, str) or not model:
        raise BadRequest("model: String should have at least 1 character")
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise BadRequest("max_tokens: Input should be greater than or equal to 1")
    tools = _tools(data.get("tools", []))
    choice = _choice(data.get("tool_choice"), tools)
    temperature = data.get("temperature", 1.0)
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 1:
        raise BadRequest("temperature: range: 0..1")
    request = ModelRequest(
        model=model,
        system=_system(data.get("system", "")),
        messages=_messages(data["messages"]),
        tools=tools,
        choice=choice,
        params={"max_tokens": most, "thinking": _thinking(data.get("thinking"), most, choice)},
        stream=_flag(data, "stream"),
    )
    return Asked(request, tokens(compact([data["messages"], data.get("tools"), request.system])))


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise BadRequest(f"{name}: Input should be a valid boolean")
    return value


def _system(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise BadRequest("system: Input should be a valid list")
    texts = []
    for place, block in enumerate(value):
        if not isinstance(block, dict) or block.get("type") != "text" or not block.get("text"):
            raise BadRequest(f"system.{place}: text content blocks must be non-empty")
        texts.append(str(block["text"]))
    return "\n".join(texts)


def _thinking(value: Any, most: int, choice: ToolChoice) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    if value is None or kind == "disabled":
        return False
    if kind not in ("enabled", "adaptive"):
        raise BadRequest("thinking: Input tag does not match 'enabled', 'adaptive' or 'disabled'")
    if kind == "enabled":
        budget = value.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            raise BadRequest(
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            )
        if budget >= most:
            raise BadRequest("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if choice.forced:
        raise BadRequest("Thinking may not be enabled when tool_choice forces tool use.")
    return True


def _tools(value: Any) -> tuple[Tool, ...]:
    if not isinstance(value, list):
        raise BadRequest("tools: Input should be a valid list")
    tools: list[Tool] = []
    for place, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise BadRequest(f"tools.{place}: Input should be a valid dictionary")
        if entry.get("type", "custom") == "custom":  # a server tool is the provider's affair
            tools.append(_tool(entry, f"tools.{place}.custom"))
    if len({tool.name for tool in tools}) < len(tools):
        raise BadRequest("tools: Tool names must be unique.")
    return tuple(tools)


def _tool(entry: Mapping[str, Any], place: str) -> Tool:
    name, schema = entry.get("name"), entry.get("input_schema")
    if not isinstance(name, str):
        raise BadRequest(f"{place}.name: Field required")
    if not _NAME.fullmatch(name):
        raise BadRequest(f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if schema is None:
        raise BadRequest(f"{place}.input_schema: Field required")
    if not isinstance(schema, dict):
        raise BadRequest(f"{place}.input_schema: Input should be a valid dictionary")
    if "type" not in schema:
        raise BadRequest(f"{place}.input_schema.type: Field required")
    if schema["type"] != "object":
        raise BadRequest(f"{place}.input_schema.type: Input should be 'object'")
    if {"anyOf", "oneOf", "allOf"} & set(schema):
        raise BadRequest(
            f"{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the "
            "top level"
        )
    description = entry.get("description", "")
    if not isinstance(description, str):
        raise BadRequest(f"{place}.description: Input should be a valid string")
    return Tool(name, description, schema, strict=bool(entry.get("strict")))


def _choice(value: Any, tools: Sequence[Tool]) -> ToolChoice:
    if value is None:
        return ToolChoice()
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in ("auto", "any", "tool", "none"):
        raise BadRequest(
            "tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', "
            "'tool', 'none'"
        )
    if not tools:
        raise BadRequest("tool_choice may only be specified while providing tools")
    parallel = not value.get("disable_parallel_tool_use", False)
    match kind:
        case "tool":
            name = value.get("name")
            if not any(tool.name == name for tool in tools):
                raise BadRequest(f"Tool '{name}' not found in provided tools")
            return ToolChoice("tool", str(name), parallel=parallel)
        case "any":
            return ToolChoice("required", parallel=parallel)
        case _:
            if kind == "none" and "disable_parallel_tool_use" in value:
                raise BadRequest(
                    "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted"
                )
            return ToolChoice("none" if kind == "none" else "auto", parallel=parallel)


def _messages(value: Any) -> tuple[Message, ...]:
    if not isinstance(value, list):
        raise BadRequest("messages: Input should be a valid list")
    if not value:
        raise BadRequest("messages: at least one message is required")
    messages: list[Message] = []
    open_ids: list[str] = []
    seen: set[str] = set()
    for place, entry in enumerate(value):
        where = f"messages.{place}"
        role = entry.get("role") if isinstance(entry, dict) else None
        if role not in ("user", "assistant"):
            raise BadRequest(f"{where}.role: Input should be 'user' or 'assistant'")
        if place == 0 and role != "user":
            raise BadRequest('messages: first message must use the "user" role')
        parts = _parts(entry.get("content"), role, where, place == len(value) - 1)
        _check_results(parts, open_ids, where)
        messages += _split(role, parts)
        open_ids = [part.call_id for part in parts if part.kind == "call"]
        if seen & set(open_ids) or len(set(open_ids)) < len(open_ids):
            raise BadRequest(f"{where}: `tool_use` ids must be unique")
        seen |= set(open_ids)
    if open_ids:
        raise _unanswered(f"messages.{len(value) - 1}", open_ids)
    return tuple(messages)


def _split(role: str, parts: tuple[MessagePart, ...]) -> list[Message]:
    """A user message holds results, words, or both; neutrally these are two messages."""
    if role == "assistant":
        return [Message("assistant", parts)]
    results = tuple(part for part in parts if part.kind == "result")
    rest = tuple(part for part in parts if part.kind != "result")
    found = [Message("results", results)] if results else []
    return found + ([Message("user", rest)] if rest else [])


def _check_results(parts: Sequence[MessagePart], open_ids: Sequence[str], where: str) -> None:
    """Every call of the message before is answered here, once, ahead of any other block."""
    given = [part.call_id for part in parts if part.kind == "result"]
    for place, part in enumerate(parts):
        if part.kind == "result" and part.call_id not in open_ids:
            raise BadRequest(
                f"{where}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{part.call_id}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message."
            )
    if len(set(given)) < len(given):
        raise BadRequest(
            f"{where}: each tool_use must have a single result. Found multiple `tool_result` "
            f"blocks with id: {next(one for one in given if given.count(one) > 1)}"
        )
    leading = {part.call_id for part in parts[: len(given)] if part.kind == "result"}
    missing = [one for one in open_ids if one not in leading]
    if missing:
        raise _unanswered(where, missing)


def _unanswered(where: str, ids: Sequence[str]) -> BadRequest:
    return BadRequest(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )


def _parts(content: Any, role: str, where: str, last: bool) -> tuple[MessagePart, ...]:
    if isinstance(content, str):
        if not content and not (role == "assistant" and last):
            raise BadRequest(
                f"{where}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        return (MessagePart("text", content),)
    if not isinstance(content, list):
        raise BadRequest(f"{where}.content: Input should be a valid list")
    if not content:
        return _parts("", role, where, last)
    return tuple(_part(b, role, f"{where}.content.{place}") for place, b in enumerate(content))


def _part(block: Any, role: str, where: str) -> MessagePart:
    kind = block.get("type") if isinstance(block, dict) else None
    match kind:
        case "text":
            if not isinstance(block.get("text"), str) or not block["text"].strip():
                raise BadRequest("messages: text content blocks must be non-empty")
            return MessagePart("text", block["text"])
        case "tool_use" if role == "assistant":
            return _tool_use(block, f"{where}.tool_use")
        case "tool_result" if role == "user":
            return _tool_result(block, f"{where}.tool_result")
        case "thinking" if role == "assistant":
            if not isinstance(block.get("signature"), str) or "thinking" not in block:
                raise BadRequest(f"{where}.thinking.signature: Field required")
            return MessagePart("thinking", str(block["thinking"]))
        case "tool_use" | "tool_result" | "thinking":
            raise BadRequest(f"{where}: `{kind}` blocks can not be in `{role}` messages")
        case str():
            return MessagePart("other", meta=block)
        case _:
            raise BadRequest(f"{where}.type: Field required")


def _tool_use(block: Mapping[str, Any], where: str) -> MessagePart:
    for name in ("id", "name", "input"):
        if name not in block:
            raise BadRequest(f"{where}.{name}: Field required")
    if not isinstance(block["id"], str) or not _ID.fullmatch(block["id"]):
        raise BadRequest(f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block["name"], str) or not _NAME.fullmatch(block["name"]):
        raise BadRequest(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if not isinstance(block["input"], dict):
        raise BadRequest(f"{where}.input: Input should be a valid dictionary")
    return MessagePart("call", compact(block["input"]), block["name"], block["id"])


def _tool_result(block: Mapping[str, Any], where: str) -> MessagePart:
    given = block.get("tool_use_id")
    if not isinstance(given, str):
        raise BadRequest(f"{where}.tool_use_id: Field required")
    content, pieces = block.get("content", ""), []
    if isinstance(content, str):
        pieces = [Content(text=content)] if content else []
    elif isinstance(content, list):
        for place, piece in enumerate(content):
            kind = piece.get("type") if isinstance(piece, dict) else None
            if kind == "text" and not piece.get("text"):
                raise BadRequest("messages: text content blocks must be non-empty")
            if kind == "text":
                pieces.append(Content(text=str(piece["text"])))
            elif kind == "image":
                pieces.append(Content("image"))
            elif not kind:
                raise BadRequest(f"{where}.content.{place}.type: Field required")
    else:
        raise BadRequest(f"{where}.content: Input should be a valid list")
    failed = block.get("is_error", False)
    return MessagePart("result", call_id=given, content=tuple(pieces), is_error=failed is True)
