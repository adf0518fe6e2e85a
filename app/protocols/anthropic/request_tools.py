"""The tools of a request to Anthropic Messages: read, and refused where the real one refuses.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs

from app.core import provider_limits as limits
from app.core.tools import Tool, ToolChoice
from app.protocols import lint_forms
from app.protocols.anthropic import request_strict
from app.protocols.server import Source

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_REFERENCE = Source("Anthropic API reference: Messages, tools")
_ASSUMED = Source("Anthropic API reference: Messages, tools", inferred=True)
NAMES = Source("https://github.com/anthropics/claude-code/issues/96152")
_ROOT = Source("recordings of rig, anthropic/strict_schema_matrix (docs/wire.md, section 1)")
_TOP = Source("https://github.com/anthropics/claude-code/issues/44788")
_KEYS = Source("https://github.com/anthropics/claude-code/issues/79418")
_DEFERRED = Source("https://github.com/microsoft/vscode/issues/311946")
_UNCACHED = Source(lint_forms.UNCACHED)
_MANY_CACHED = Source("https://github.com/agentjido/req_llm/issues/480")
_INVALID = Source("https://github.com/Dokploy/mcp/issues/74")


def tools_of(value: Any) -> tuple[Tool, ...]:
    if not isinstance(value, list):
        raise _REFERENCE.refusal("tools: Input should be a valid list")
    tools: list[Tool] = []
    for place, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise _REFERENCE.refusal(f"tools.{place}: Input should be a valid dictionary")
        if entry.get("type", "custom") == "custom":  # a server tool is the provider's affair
            tools.append(_tool(entry, f"tools.{place}.custom"))
    if value and all(entry.get("defer_loading") is True for entry in value):
        raise _DEFERRED.refusal(
            "At least one tool must have defer_loading=false. All tools cannot be deferred."
        )
    if len({tool.name for tool in tools}) < len(tools):
        raise _ASSUMED.refusal("tools: Tool names must be unique.")
    request_strict.check_all(tools)
    return tuple(tools)


def _tool(entry: Mapping[str, Any], place: str) -> Tool:
    for key in entry:
        if key not in lint_forms.ANTHROPIC_MEMBERS:
            raise _REFERENCE.refusal(f"{place}.{key}: Extra inputs are not permitted")
    name, schema = entry.get("name"), entry.get("input_schema")
    if not isinstance(name, str):
        raise _REFERENCE.refusal(f"{place}.name: Field required")
    if not limits.ANTHROPIC_NAME.fullmatch(name):
        raise NAMES.refusal(f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if schema is None:
        raise _REFERENCE.refusal(f"{place}.input_schema: Field required")
    if not isinstance(schema, dict):
        raise _REFERENCE.refusal(f"{place}.input_schema: Input should be a valid dictionary")
    if "type" not in schema:
        raise _ROOT.refusal(f"{place}.input_schema.type: Field required")
    if schema["type"] != "object":
        raise _REFERENCE.refusal(f"{place}.input_schema.type: Input should be 'object'")
    if {"anyOf", "oneOf", "allOf"} & set(schema):
        raise _TOP.refusal(
            f"{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the "
            "top level"
        )
    if not jsonschema_rs.meta.is_valid({**schema, "$schema": _DRAFT}):
        raise _INVALID.refusal(
            f"{place}.input_schema: JSON schema is invalid. It must match JSON Schema draft "
            "2020-12 (https://json-schema.org/draft/2020-12)."
        )
    properties = schema.get("properties")
    if not all(
        map(limits.ANTHROPIC_KEY.fullmatch, properties if isinstance(properties, dict) else ())
    ):
        raise _KEYS.refusal(
            f"{place}.input_schema.properties: Property keys should match pattern "
            "'^[a-zA-Z0-9_.-]{1,64}$'"
        )
    description = entry.get("description", "")
    if not isinstance(description, str):
        raise _REFERENCE.refusal(f"{place}.description: Input should be a valid string")
    for key in ("strict", "eager_input_streaming", "defer_loading"):
        if not isinstance(entry.get(key, False), bool):
            raise _REFERENCE.refusal(f"{place}.{key}: Input should be a valid boolean")
    check_cache(entry, place)
    if entry.get("defer_loading") and entry.get("cache_control"):
        raise _UNCACHED.refusal(
            f"Tool '{name}' cannot have both defer_loading=true and cache_control set. Tools with "
            "defer_loading cannot use prompt caching."
        )
    strict, eager = bool(entry.get("strict")), bool(entry.get("eager_input_streaming"))
    if strict:
        request_strict.check(schema, place)
    return Tool(name, description, schema, strict=strict, eager=eager)


def check_cache(entry: Mapping[str, Any], place: str) -> None:
    """Refuses a `cache_control` that is none."""
    match entry.get("cache_control"):
        case None | {"type": "ephemeral"}:
            return
    raise _REFERENCE.refusal(f"{place}.cache_control.type: Input should be 'ephemeral'")


def check_cached(data: Mapping[str, Any]) -> None:
    """Refuses more blocks with a `cache_control` than there may be in a request."""
    contents = [one.get("content") for one in data["messages"] if isinstance(one, dict)]
    blocks = [data.get("tools"), data.get("system"), *contents]
    todo = [block for several in blocks if isinstance(several, list) for block in several]
    count = 0
    for block in todo:
        if isinstance(block, dict):
            count += bool(block.get("cache_control"))
            within = block.get("content") if block.get("type") == "tool_result" else None
            todo += within if isinstance(within, list) else ()
    if count > limits.ANTHROPIC_MOST_CACHED:
        raise _MANY_CACHED.refusal(
            f"A maximum of {limits.ANTHROPIC_MOST_CACHED} blocks with cache_control may be "
            f"provided. Found {count}."
        )


def choice_of(value: Any, tools: Sequence[Tool]) -> ToolChoice:
    if value is None:
        return ToolChoice()
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in ("auto", "any", "tool", "none"):
        raise _REFERENCE.refusal(
            "tool_choice: Input tag does not match any of the expected tags: 'auto', 'any', "
            "'tool', 'none'"
        )
    if not tools:
        raise _ASSUMED.refusal("tool_choice may only be specified while providing tools")
    parallel = not value.get("disable_parallel_tool_use", False)
    match kind:
        case "tool":
            name = value.get("name")
            if not any(tool.name == name for tool in tools):
                raise _REFERENCE.refusal(f"Tool '{name}' not found in provided tools")
            return ToolChoice("tool", str(name), parallel=parallel)
        case "any":
            return ToolChoice("required", parallel=parallel)
        case _:
            if kind == "none" and "disable_parallel_tool_use" in value:
                raise _REFERENCE.refusal(
                    "tool_choice.none.disable_parallel_tool_use: Extra inputs are not permitted"
                )
            return ToolChoice("none" if kind == "none" else "auto", parallel=parallel)
