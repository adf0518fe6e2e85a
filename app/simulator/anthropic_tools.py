"""The tools of a request to Anthropic Messages: read, and refused where the real one refuses.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.core.tools import Tool, ToolChoice
from app.simulator.end import Source
from app.simulator.words import spaced

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KNOWN = spaced(
    """type name description input_schema strict eager_input_streaming input_examples defer_loading
    allowed_callers cache_control"""
)
_MOST_STRICT, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16

_REFERENCE = Source("Anthropic API reference: Messages, tools")
_ASSUMED = Source("Anthropic API reference: Messages, tools", inferred=True)
NAMES = Source("https://github.com/anthropics/claude-code/issues/96152")
_ROOT = Source("recordings of rig, anthropic/strict_schema_matrix (docs/wire.md, section 1)")
_LIMITS = Source("recordings of rig, anthropic/strict_schema_limits (docs/wire.md, section 1)")
_MANY = Source("https://github.com/camel-ai/camel/pull/4171")
_OPTIONAL = Source("https://github.com/elie222/inbox-zero/issues/2323")
_COMPLEX = Source("https://github.com/genkit-ai/genkit/issues/5230")


def tools_of(value: Any) -> tuple[Tool, ...]:
    if not isinstance(value, list):
        raise _REFERENCE.refusal("tools: Input should be a valid list")
    tools: list[Tool] = []
    for place, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise _REFERENCE.refusal(f"tools.{place}: Input should be a valid dictionary")
        if entry.get("type", "custom") == "custom":  # a server tool is the provider's affair
            tools.append(_tool(entry, f"tools.{place}.custom"))
    if len({tool.name for tool in tools}) < len(tools):
        raise _ASSUMED.refusal("tools: Tool names must be unique.")
    _check_strict(tools)
    return tuple(tools)


def _tool(entry: Mapping[str, Any], place: str) -> Tool:
    for key in entry:
        if key not in _KNOWN:
            raise _REFERENCE.refusal(f"{place}.{key}: Extra inputs are not permitted")
    name, schema = entry.get("name"), entry.get("input_schema")
    if not isinstance(name, str):
        raise _REFERENCE.refusal(f"{place}.name: Field required")
    if not NAME.fullmatch(name):
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
        raise _ROOT.refusal(
            f"{place}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the "
            "top level"
        )
    description = entry.get("description", "")
    if not isinstance(description, str):
        raise _REFERENCE.refusal(f"{place}.description: Input should be a valid string")
    for key in ("strict", "eager_input_streaming", "defer_loading"):
        if not isinstance(entry.get(key, False), bool):
            raise _REFERENCE.refusal(f"{place}.{key}: Input should be a valid boolean")
    check_cache(entry, place)
    strict, eager = bool(entry.get("strict")), bool(entry.get("eager_input_streaming"))
    if strict:
        _check_closed(schema, place, schema, ())
    return Tool(name, description, schema, strict=strict, eager=eager)


def check_cache(entry: Mapping[str, Any], place: str) -> None:
    """Refuses a `cache_control` that is none."""
    match entry.get("cache_control"):
        case None | {"type": "ephemeral"}:
            return
    raise _REFERENCE.refusal(f"{place}.cache_control.type: Input should be 'ephemeral'")


def _check_closed(schema: Any, place: str, root: Mapping[str, Any], above: tuple[str, ...]) -> None:
    """What strict mode wants of every object in a schema, and what it cannot compile."""
    if isinstance(schema, bool):
        raise _ROOT.refusal(f"{place}: Boolean schemas are not supported in strict tools.")
    if not isinstance(schema, Mapping):
        raise _REFERENCE.refusal(f"{place}: Input should be a valid dictionary")
    pointer = schema.get("$ref")
    if isinstance(pointer, str):
        if pointer in (*above, "#"):
            raise _ROOT.refusal(f"{place}: Recursive schemas are not supported: {pointer}")
        above = (*above, pointer)
        _check_closed(_pointed(root, pointer), place, root, above)
    is_object = schema.get("type") == "object" or "properties" in schema
    if is_object and schema.get("additionalProperties") is not False:
        raise _ROOT.refusal(
            f"{place}: For 'object' type, 'additionalProperties' must be explicitly set to false"
        )
    for within in _subschemas(schema):
        _check_closed(within, place, root, above)


def _subschemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    yield from _of_object(schema).values()
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list):
            yield from schema[key]
    if "items" in schema:
        yield schema["items"]


def _of_object(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _pointed(root: Mapping[str, Any], pointer: str) -> Any:
    found: Any = root
    for step in pointer.removeprefix("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if found is not None else {}


def _check_strict(tools: Sequence[Tool]) -> None:
    """The limits on all strict tools of one request, and on one schema among them."""
    strict = [tool for tool in tools if tool.strict]
    if len(strict) > _MOST_STRICT:
        raise _MANY.refusal(
            f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported "
            f"is {_MOST_STRICT}. Try reducing the number of tools marked as strict."
        )
    counts = [_counted(tool.parameters) for tool in strict]
    optional, unions = sum(one for one, _ in counts), sum(other for _, other in counts)
    if optional > _MOST_OPTIONAL:
        raise _OPTIONAL.refusal(
            f"Schemas contains too many optional parameters ({optional}), which would make grammar "
            "compilation inefficient. Reduce the number of optional parameters in your tool "
            f"schemas (limit: {_MOST_OPTIONAL})."
        )
    if unions > _MOST_UNIONS:
        raise _LIMITS.refusal(
            f"Schemas contains too many parameters with union types ({unions} parameters with type "
            "arrays or anyOf). Reduce the number of nullable or union-typed parameters (limit: "
            f"{_MOST_UNIONS})."
        )
    if any(one >= _MOST_OPTIONAL or other >= _MOST_UNIONS for one, other in counts):
        raise _COMPLEX.refusal(
            "Schema is too complex for compilation. Try reducing the number of tools or "
            "simplifying tool schemas."
        )


def _counted(schema: Any) -> tuple[int, int]:
    """(optional parameters, parameters of several types) of a schema."""
    if not isinstance(schema, Mapping):
        return 0, 0
    properties = _of_object(schema)
    optional = sum(name not in (schema.get("required") or ()) for name in properties)
    unions = sum(
        isinstance(one, Mapping) and (isinstance(one.get("type"), list) or "anyOf" in one)
        for one in properties.values()
    )
    for within in _subschemas(schema):
        more = _counted(within)
        optional, unions = optional + more[0], unions + more[1]
    return optional, unions


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
