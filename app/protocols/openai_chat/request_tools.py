"""Parses the tools (functions, free-form ones) and the tool choice of a Chat Completions request.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from app.core.provider_limits import OPENAI_LONGEST_NAME, OPENAI_MOST_TOOLS
from app.core.tools import FREEFORM, Tool, ToolChoice
from app.protocols import openai_schema
from app.protocols.server import BadRequest, Citation, compact

# What the provider says when it refuses a request, and where that is known from.

REFERENCE = Citation("OpenAI API reference: create a chat completion")
ASSUMED = Citation("OpenAI API reference: create a chat completion", inferred=True)
UNANSWERED = Citation("https://github.com/BerriAI/litellm/issues/10083")
NO_CALL = Citation("https://github.com/miurla/morphic/issues/136")
OTHER_CALL = Citation("docs/wire.md, section 2: results answer the calls before", inferred=True)
TOO_MANY = Citation("https://github.com/vishalmysore/Tools4AI/issues/16")
NAMES = Citation(openai_schema.NAMES["openai_chat"])
MAX_TOKENS = Citation("https://github.com/sipeed/picoclaw/issues/16")
ONLY_DEFAULT = Citation("recordings of vercel/ai, openai errors (docs/wire.md, section 2)")
TOOL_CONTENT = Citation("recordings of pydantic-ai, test_multimodal_tool_return_matrix")
SAY_JSON = Citation("https://github.com/mem0ai/mem0/issues/3008")
IMAGES = Citation("OpenAI guide to images", inferred=True)

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST = OPENAI_LONGEST_NAME["openai_chat"]


def wrong_type(param: str, expected: str, value: Any) -> BadRequest:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    kind = "null" if value is None else kinds.get(type(value), "a number")
    return REFERENCE.refusal(
        f"Invalid type for '{param}': expected {expected}, but got {kind} instead.",
        param=param,
        code="invalid_type",
    )


def missing(param: str) -> BadRequest:
    return REFERENCE.refusal(
        f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter"
    )


def invalid(param: str, sentence: str, source: Citation = REFERENCE) -> BadRequest:
    return source.refusal(f"Invalid '{param}': {sentence}", param=param, code="invalid_value")


def unsupported(param: str, value: Any, known: str) -> BadRequest:
    """A value that is none of those known."""
    return REFERENCE.refusal(
        f"Invalid value: '{value}'. Supported values are: {known}.",
        param=param,
        code="invalid_value",
    )


def check_name(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise missing(place)
    if not _NAME.fullmatch(name):
        raise invalid(
            place,
            "string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
            NAMES,
        )
    if len(name) > _LONGEST:
        raise NAMES.refusal(
            f"Invalid '{place}': string too long. Expected a string with maximum length "
            f"{_LONGEST}, but got a string with length {len(name)} instead.",
            param=place,
            code="string_above_max_length",
        )
    return name


def tools_of(value: Any, model: str) -> tuple[Tool, ...]:
    """The tools that `tools` holds, as `model` takes them."""
    if value is None:
        return ()
    tools = []
    for place, entry in enumerate(_entries(value, "tools")):
        kind = entry.get("type") if isinstance(entry, dict) else None
        match kind:
            case None:
                raise missing(f"tools[{place}].type")
            case "function":
                tools.append(_tool(entry.get("function"), f"tools[{place}].function", model))
            case "custom":
                tools.append(_custom(entry.get("custom"), f"tools[{place}].custom"))
            case _:
                raise unsupported(f"tools[{place}].type", kind, "'function' and 'custom'")
    return tuple(tools)


def functions_of(value: Any, model: str) -> tuple[Tool, ...]:
    """The tools of the older dialect, which calls them functions."""
    if value is None:
        return ()
    entries = enumerate(_entries(value, "functions"))
    return tuple(_tool(entry, f"functions[{place}]", model) for place, entry in entries)


def _entries(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(name, "an array of objects", value)
    if not value:
        raise invalid(name, "empty array. Expected an array with minimum length 1.")
    if len(value) > OPENAI_MOST_TOOLS:
        raise TOO_MANY.refusal(
            f"Invalid '{name}': array too long. Expected an array with maximum length "
            f"{OPENAI_MOST_TOOLS}, but got an array with length {len(value)} instead.",
            param=name,
            code="array_above_max_length",
        )
    return value


def _tool(function: Any, place: str, model: str) -> Tool:
    if not isinstance(function, dict):
        raise missing(place)
    name = check_name(function.get("name"), f"{place}.name")
    schema = function.get("parameters")
    if schema is None:
        schema = {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise wrong_type(f"{place}.parameters", "an object", schema)
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise wrong_type(f"{place}.strict", "a boolean", strict)
    for problem, source in openai_schema.errors(schema, strict=strict is True):
        raise _bad_schema(name, place, problem, source)
    openai_schema.check_lookaround(schema, model, strict=strict is True, seen=False)
    return Tool(name, str(function.get("description") or ""), schema, strict=strict is True)


def _custom(custom: Any, place: str) -> Tool:
    """A free-form tool; its grammar stands one level deeper than in the neutral form."""
    if not isinstance(custom, dict):
        raise missing(place)
    name = check_name(custom.get("name"), f"{place}.name")
    match custom.get("format", {"type": "text"}):
        case {"type": "text"}:
            form: dict[str, Any] = {"type": "text"}
        case {"type": "grammar", "grammar": {"syntax": str() as syntax, "definition": str() as d}}:
            if syntax not in ("lark", "regex"):
                raise unsupported(f"{place}.format.grammar.syntax", syntax, "'lark' and 'regex'")
            form = {"type": "grammar", "syntax": syntax, "definition": d}
        case {"type": "grammar"}:
            raise missing(f"{place}.format.grammar")
        case other:
            kind = other.get("type") if isinstance(other, dict) else other
            raise unsupported(f"{place}.format.type", kind, "'text' and 'grammar'")
    return Tool(name, str(custom.get("description") or ""), FREEFORM, format=form)


def _bad_schema(name: str, place: str, sentence: str, source: Citation) -> BadRequest:
    return source.refusal(
        f"Invalid schema for function '{name}': {sentence}",
        param=f"{place}.parameters",
        code="invalid_function_parameters",
    )


def choice_of(value: Any, tools: Sequence[Tool], parallel: bool) -> ToolChoice:
    """The choice that `tool_choice` makes among `tools`."""
    if value is None:
        return ToolChoice(parallel=parallel)
    if not tools:
        raise ASSUMED.refusal(
            "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice"
        )
    match value:
        case "auto" | "none" | "required":
            return ToolChoice(value, parallel=parallel)
        case {"type": "function", "function": {"name": str() as name}} | {
            "type": "custom",
            "custom": {"name": str() as name},
        }:
            _check_offered([name], tools)
            return ToolChoice("tool", name, parallel=parallel)
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list() as allowed}}:
            names = [_allowed_name(entry) for entry in allowed]
            _check_offered(names, tools)
            return ToolChoice(
                "required" if mode == "required" else "auto",
                allowed=tuple(names),
                parallel=parallel,
            )
    text = value if isinstance(value, str) else compact(value)
    raise unsupported("tool_choice", text, "'none', 'auto', and 'required'")


def _allowed_name(entry: Any) -> str:
    match entry:
        case {"function": {"name": str() as name}} | {"custom": {"name": str() as name}}:
            return name
    raise missing("tool_choice.allowed_tools.tools[].function.name")


def function_choice_of(value: Any, tools: Sequence[Tool]) -> ToolChoice:
    """The choice of the older dialect: none, auto, or one by its name; one call in a turn."""
    match value:
        case None | "auto":
            return ToolChoice(parallel=False)
        case "none":
            return ToolChoice("none", parallel=False)
        case {"name": str() as name}:
            _check_offered([name], tools)
            return ToolChoice("tool", name, parallel=False)
    raise unsupported("function_call", value, "'none' and 'auto'")


def _check_offered(names: Iterable[str], tools: Sequence[Tool]) -> None:
    for name in names:
        if not any(tool.name == name for tool in tools):
            raise ASSUMED.refusal(
                f"Invalid value for 'tool_choice': function '{name}' is not in 'tools'.",
                param="tool_choice",
                code="invalid_value",
            )
