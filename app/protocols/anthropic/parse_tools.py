"""Parses the tools of an Anthropic Messages request and refuses what Anthropic refuses.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema_rs

from app.core import provider_limits as limits
from app.core.tools import Tool, ToolChoice
from app.protocols.anthropic import lint
from app.protocols.server import Citation, words_of
from app.schema.schema_checks import at_pointer, inner, schemas_with_depth

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_REFERENCE = Citation("Anthropic API reference: Messages, tools")
_ASSUMED = Citation("Anthropic API reference: Messages, tools", inferred=True)
NAMES = Citation("https://github.com/anthropics/claude-code/issues/96152")
_ROOT = Citation("recordings of rig, anthropic/strict_schema_matrix (docs/wire.md, section 1)")
_TOP = Citation("https://github.com/anthropics/claude-code/issues/44788")
_KEYS = Citation("https://github.com/anthropics/claude-code/issues/79418")
_DEFERRED = Citation("https://github.com/microsoft/vscode/issues/311946")
_UNCACHED = Citation(lint.UNCACHED)
_MANY_CACHED = Citation("https://github.com/agentjido/req_llm/issues/480")
_INVALID = Citation("https://github.com/Dokploy/mcp/issues/74")


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
    check_all(tools)
    return tuple(tools)


def _tool(entry: Mapping[str, Any], place: str) -> Tool:
    for key in entry:
        if key not in lint.MEMBERS:
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
        check(schema, place)
    return Tool(name, description, schema, strict=strict, eager=eager)


def check_cache(entry: Mapping[str, Any], place: str) -> None:
    """Refuses a `cache_control` that is none."""
    match entry.get("cache_control"):
        case None | {"type": "ephemeral"}:
            return
    raise _REFERENCE.refusal(f"{place}.cache_control.type: Input should be 'ephemeral'")


def check_cached(data: Mapping[str, Any]) -> None:
    """Refuses more blocks with a `cache_control` than there may be in a request."""
    contents = [message.get("content") for message in data["messages"] if isinstance(message, dict)]
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


# What Anthropic's strict mode compiles of a schema, and refuses of the rest in its own words.
#
# https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations


_LIMITS = Citation("recordings of rig, anthropic/strict_schema_limits (docs/wire.md, section 1)")
_MANY = Citation("https://github.com/camel-ai/camel/pull/4171")
_OPTIONAL = Citation("https://github.com/elie222/inbox-zero/issues/2323")
_COMPLEX = Citation("https://github.com/genkit-ai/genkit/issues/5230")
_BOUNDS = Citation("https://github.com/CherryHQ/cherry-studio/issues/18037")
_ARRAYS = Citation("https://github.com/agentjido/req_llm/pull/707")
_DOCS = Citation("https://platform.claude.com/docs/en/build-with-claude/structured-outputs")
_STRICT_ASSUMED = Citation(_DOCS.words, inferred=True)

_OF_NUMBERS = words_of("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf")
_OF_TEXTS = words_of("minLength maxLength")
_UNKNOWN = words_of(
    """oneOf not if prefixItems contains patternProperties propertyNames minProperties
    maxProperties dependentSchemas dependentRequired dependencies unevaluatedProperties
    unevaluatedItems"""
)
_TYPED = words_of("type $ref anyOf oneOf allOf enum const not")


def check(schema: Mapping[str, Any], place: str) -> None:
    """Refuses what no strict tool may hold."""
    for path, node, _ in schemas_with_depth(schema):
        if isinstance(node, bool):
            raise _ROOT.refusal(f"{place}: Boolean schemas are not supported in strict tools.")
        if isinstance(node, Mapping):
            _check_node(node, path, place)
    _check_recursion(schema, place)


def _check_node(node: Mapping[str, Any], path: Sequence[str], place: str) -> None:
    is_object = "object" in _types(node) or bool(node.get("properties"))
    if is_object and node.get("additionalProperties") is not False:
        raise _ROOT.refusal(
            f"{place}: For 'object' type, 'additionalProperties' must be explicitly set to false"
        )
    kind = next(iter(_types(node)), "any")
    if bad := sorted(_OF_NUMBERS & node.keys()):
        what = "properties" if len(bad) > 1 else "property"
        problem = "are not supported" if len(bad) > 1 else "is not supported"
        raise _BOUNDS.refusal(f"{place}: For '{kind}' type, {what} {', '.join(bad)} {problem}")
    if bad := sorted(_OF_TEXTS & node.keys()):
        raise _DOCS.refusal(f"{place}: For '{kind}' type, property '{bad[0]}' is not supported")
    if "minItems" in node and node["minItems"] not in (0, 1):
        problem = "'minItems' values other than 0 or 1 are not supported"
        raise _ARRAYS.refusal(f"{place}: For '{kind}' type, {problem}")
    if "maxItems" in node:
        raise _ARRAYS.refusal(f"{place}: For '{kind}' type, property 'maxItems' is not supported")
    if "uniqueItems" in node:
        raise _DOCS.refusal(f"{place}: For '{kind}' type, property 'uniqueItems' is not supported")
    if bad := sorted(_UNKNOWN & node.keys()):
        raise _STRICT_ASSUMED.refusal(f"{place}: '{bad[0]}' is not supported")
    if len(path) > 1 and path[-2] == "allOf" and "$ref" in node:
        raise _DOCS.refusal(f"{place}: allOf with $ref is not supported")
    if any(isinstance(value, dict | list) for value in node.get("enum", ())):
        raise _DOCS.refusal(f"{place}: Complex types within enums are not supported")
    if "format" in node and node["format"] not in lint.FORMATS:
        raise _STRICT_ASSUMED.refusal(f"{place}: format '{node['format']}' is not supported")
    if limits.ANTHROPIC_UNCOMPILED.search(str(node.get("pattern", ""))):
        raise _DOCS.refusal(f"{place}: the pattern uses an unsupported feature")
    if not _TYPED & node.keys():
        raise _STRICT_ASSUMED.refusal(
            f"{place}: a schema must have a type, enum, const, anyOf or allOf"
        )


def _types(schema: Mapping[str, Any]) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [] if kind is None else [kind]


def _check_recursion(schema: Mapping[str, Any], place: str) -> None:
    """Each target is entered once; one that is entered again while it is open is recursive."""
    done: set[str] = set()
    open_: list[tuple[str, list[str]]] = [("", _references(schema))]
    above: list[str] = []
    while open_:
        _, waiting = open_[-1]
        if not waiting:
            name, _ = open_.pop()
            done.add(name)
            above = above[:-1]
            continue
        pointer = waiting.pop()
        if pointer in above:
            raise _ROOT.refusal(f"{place}: Recursive schemas are not supported: {pointer}")
        if pointer not in done:
            above.append(pointer)
            open_.append((pointer, _references(at_pointer(schema, pointer))))


def _references(schema: Any) -> list[str]:
    references, todo = [], [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            references.append(str(node["$ref"]))
        todo += [below for _, below in inner(node)]
    return references


def check_all(tools: Sequence[Tool]) -> None:
    """The limits on all strict tools of one request, and on one schema among them."""
    strict = [tool for tool in tools if tool.strict]
    if len(strict) > limits.ANTHROPIC_MOST_STRICT:
        raise _MANY.refusal(
            f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported "
            f"is {limits.ANTHROPIC_MOST_STRICT}. Try reducing the number of tools marked as strict."
        )
    counts = [_count_parameters(tool.parameters) for tool in strict]
    optional, unions = sum(count for count, _ in counts), sum(count for _, count in counts)
    if optional > limits.ANTHROPIC_MOST_OPTIONAL:
        raise _OPTIONAL.refusal(
            f"Schemas contains too many optional parameters ({optional}), which would make grammar "
            "compilation inefficient. Reduce the number of optional parameters in your tool "
            f"schemas (limit: {limits.ANTHROPIC_MOST_OPTIONAL})."
        )
    if unions > limits.ANTHROPIC_MOST_UNIONS:
        raise _LIMITS.refusal(
            f"Schemas contains too many parameters with union types ({unions} parameters with type "
            "arrays or anyOf). Reduce the number of nullable or union-typed parameters (limit: "
            f"{limits.ANTHROPIC_MOST_UNIONS})."
        )
    if any(
        optional_count >= limits.ANTHROPIC_MOST_OPTIONAL
        or union_count >= limits.ANTHROPIC_MOST_UNIONS
        for optional_count, union_count in counts
    ):
        raise _COMPLEX.refusal(
            "Schema is too complex for compilation. Try reducing the number of tools or "
            "simplifying tool schemas."
        )


def _count_parameters(schema: Any) -> tuple[int, int]:
    """(optional parameters, parameters of several types) of a schema."""
    optional = unions = 0
    for _, node, _ in schemas_with_depth(schema):
        properties = node.get("properties") if isinstance(node, Mapping) else None
        if isinstance(properties, Mapping):
            optional += sum(name not in (node.get("required") or ()) for name in properties)
            unions += sum(
                isinstance(each, Mapping)
                and (isinstance(each.get("type"), list) or "anyOf" in each)
                for each in properties.values()
            )
    return optional, unions
