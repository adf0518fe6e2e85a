"""Parses OpenAI Responses requests and refuses as OpenAI does: same status, code and words.

The items of the input are parsed in `request_input`.
https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import ModelRequest
from app.core.provider_limits import OPENAI_MOST_TOOLS
from app.core.tools import FREEFORM, Tool, ToolChoice
from app.protocols import openai_schema
from app.protocols.openai_responses.parse_input import (
    CHOICE,
    DEFERRED,
    NOT_ENCRYPTED,
    SAY_JSON,
    missing,
    name_of,
    number_of,
    read_input,
    refusal,
    text_of,
    unknown,
    unsupported,
    wrong_type,
)
from app.protocols.server import (
    BadRequest,
    Citation,
    ParsedRequest,
    compact,
    object_of,
    tokens,
    words_of,
)

_KNOWN = words_of(
    """background client_metadata context_management conversation include input instructions
    max_output_tokens max_tool_calls metadata model parallel_tool_calls previous_response_id prompt
    prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier
    service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p
    truncation user"""
)
_MOVED = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
}
_INCLUDE = (
    *("file_search_call.results", "web_search_call.results", "web_search_call.action.sources"),
    *("message.input_image.image_url", "computer_call_output.output.image_url"),
    *("code_interpreter_call.outputs", "reasoning.encrypted_content"),
    "message.output_text.logprobs",
)
_HOSTED = (
    *("web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation"),
    *("mcp", "shell", "local_shell", "apply_patch", "computer", "computer_use_preview"),
    *("tool_search", "namespace"),
)
_UNTHINKING = re.compile(r"gpt-4|gpt-3\.5|gpt-5-chat")
"""How the names of models begin that do not reason."""
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SUMMARIES = ("auto", "concise", "detailed")
_ECHOED = (
    *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"),
    *("previous_response_id", "reasoning", "store", "temperature", "text", "tool_choice"),
    *("tools", "top_p", "truncation"),
)
"""What an answer repeats of its request."""


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """The request that `body` holds. Raises BadRequest in OpenAI's own words."""
    data = object_of(body)
    _check_members(data)
    model = text_of(data.get("model"), "model")
    tools, choosable = _tools(data.get("tools"), model)
    store = data.get("store") is not False
    messages, system = read_input(data.get("input"), store)
    instructions = data.get("instructions")
    if instructions is not None:
        system = "\n".join(filter(None, (text_of(instructions, "instructions"), system)))
    number_of(data.get("max_output_tokens"), "max_output_tokens", 16, None, whole=True)
    number_of(data.get("temperature"), "temperature", 0, 2, whole=False)
    number_of(data.get("top_p"), "top_p", 0, 1, whole=False)
    parallel = data.get("parallel_tool_calls") is not False
    choice = _choice(data.get("tool_choice"), tools, choosable, parallel)
    request = ModelRequest(
        model=model,
        system=system,
        messages=messages,
        tools=tuple(t for t in tools if choice.allowed is None or t.name in choice.allowed),
        choice=choice,
        params={
            "max_tokens": data.get("max_output_tokens"),
            "thinking": _thinking(data.get("reasoning")),
            "format": _format(data.get("text"), data["input"]),
            "encrypted": _encrypted(data.get("include"), model),
            "echo": {name: data[name] for name in _ECHOED if data.get(name) is not None},
        },
        stream=_flag(data, "stream"),
    )
    return ParsedRequest(request, tokens(compact([data["input"], data.get("tools"), instructions])))


def _check_members(data: Mapping[str, Any]) -> None:
    for name in data:
        if name in _MOVED:
            raise refusal(
                f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved "
                f"to '{_MOVED[name]}'. Try again with the new parameter. See the API documentation "
                "for more information: "
                "https://platform.openai.com/docs/api-reference/responses/create.",
                name,
                "unsupported_parameter",
            )
        if name not in _KNOWN:
            raise unknown(name)
    metadata = data.get("client_metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise wrong_type("client_metadata", "an object", metadata)
    _flag(data, "store")
    _flag(data, "parallel_tool_calls")
    if data.get("stream_options") is not None and not _flag(data, "stream"):
        raise refusal(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        )
    if (earlier := data.get("previous_response_id")) is not None:
        raise refusal(
            f"Previous response with id '{earlier}' not found.",
            "previous_response_id",
            "previous_response_not_found",
        )


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong_type(name, "a boolean", value)
    return value is True


def _encrypted(value: Any, model: str) -> bool:
    """Whether reasoning is to come sealed."""
    if value is None:
        return False
    if not isinstance(value, list):
        raise wrong_type("include", "an array of strings", value)
    for place, name in enumerate(value):
        if name not in _INCLUDE:
            raise unsupported(f"include[{place}]", name, _INCLUDE)
    if "reasoning.encrypted_content" not in value:
        return False
    if _UNTHINKING.match(model):
        raise refusal(
            "Encrypted content is not supported with this model.",
            "include",
            source=NOT_ENCRYPTED,
            inferred=False,
        )
    return True


def _thinking(value: Any) -> bool:
    """Whether reasoning is shown: only where a summary was asked for."""
    if value is None:
        return False
    if not isinstance(value, dict):
        raise wrong_type("reasoning", "an object", value)
    effort, summary = value.get("effort"), value.get("summary")
    if effort is not None and effort not in _EFFORTS:
        raise unsupported("reasoning.effort", effort, _EFFORTS)
    if summary is not None and summary not in _SUMMARIES:
        raise unsupported("reasoning.summary", summary, _SUMMARIES)
    return summary is not None and effort != "none"


def _format(text: Any, source: Any) -> Mapping[str, Any] | None:
    """The form that the answer is to have: None for words."""
    if text is None:
        return None
    if not isinstance(text, dict):
        raise wrong_type("text", "an object", text)
    value = text.get("format")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise wrong_type("text.format", "an object", value)
    match value.get("type"):
        case None:
            raise missing("text.format.type")
        case "text":
            return None
        case "json_object":
            if "json" not in compact(source).lower():
                raise refusal(
                    "Response input messages must contain the word 'json' in some form to use "
                    "'text.format' of type 'json_object'.",
                    "input",
                    source=SAY_JSON,
                )
            return {}
        case "json_schema":
            return {"schema": _schema(value)}
        case other:
            raise unsupported("text.format.type", other, ("text", "json_schema", "json_object"))


def _schema(value: Mapping[str, Any]) -> Any:
    name = name_of(value.get("name"), "text.format.name", 64)
    schema, strict = value.get("schema"), value.get("strict")
    if schema is None:
        raise missing("text.format.schema")
    if not isinstance(schema, dict):
        raise wrong_type("text.format.schema", "an object", schema)
    if strict is not None and not isinstance(strict, bool):
        raise wrong_type("text.format.strict", "a boolean", strict)
    for problem, source in openai_schema.errors(schema, strict=strict is True):
        raise refusal(
            f"Invalid schema for response_format '{name}': {problem}",
            "text.format.schema",
            "invalid_json_schema",
            source=source.words,
            inferred=source.inferred,
        )
    if strict:
        openai_schema.check_lookaround(schema, "", strict=True, param="text.format.schema")
    return schema


def _tools(value: Any, model: str) -> tuple[tuple[Tool, ...], frozenset[str]]:
    """The tools that are the client's to run, and the types of the hosted ones."""
    if value is None:
        return (), frozenset()
    if not isinstance(value, list):
        raise wrong_type("tools", "an array of objects", value)
    if len(value) > OPENAI_MOST_TOOLS:
        raise refusal(
            "Invalid 'tools': array too long. Expected an array with maximum length "
            f"{OPENAI_MOST_TOOLS}, but got an array with length {len(value)} instead.",
            "tools",
            "array_above_max_length",
        )
    tools: list[Tool] = []
    hosted: set[str] = set()
    for place, entry in enumerate(value):
        where = f"tools[{place}]"
        kind = entry.get("type") if isinstance(entry, dict) else None
        match kind:
            case None:
                raise missing(f"{where}.type")
            case "function":
                tools.append(_function(entry, where, model))
            case "custom":
                tools.append(_custom(entry, where))
            case str() if kind.startswith(_HOSTED):
                hosted.add(kind)
            case _:
                raise unsupported(f"{where}.type", kind, ("function", "custom", *_HOSTED))
    if "tool_search" not in hosted and any(entry.get("defer_loading") for entry in value):
        raise refusal(
            "Invalid Value: 'tools.defer_loading'. Deferred tools require tools.tool_search.",
            "tools",
            source=DEFERRED,
            inferred=False,
        )
    names = [tool.name for tool in tools]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise refusal(f"Invalid 'tools': the name '{name}' stands twice.", "tools")
    return tuple(tools), frozenset(hosted)


def _description(entry: Mapping[str, Any], where: str) -> str:
    value = entry.get("description")
    return "" if value is None else text_of(value, f"{where}.description")


def _function(entry: Mapping[str, Any], where: str, model: str) -> Tool:
    for member in entry:
        if member == "function":
            # The form of Chat Completions: its members stand at the top here.
            raise missing(f"{where}.name")
    name = name_of(entry.get("name"), f"{where}.name")
    schema = entry.get("parameters")
    if schema is None:
        schema = {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise wrong_type(f"{where}.parameters", "an object", schema)
    strict = entry.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise wrong_type(f"{where}.strict", "a boolean", strict)
    # Without a word on it the real one makes a schema strict by itself and refuses none.
    for problem, source in openai_schema.errors(schema, strict=strict is True):
        raise _bad_schema(name, where, problem, source)
    openai_schema.check_lookaround(schema, model, strict=strict is True, seen=True)
    return Tool(name, _description(entry, where), schema, strict=strict is True)


def _bad_schema(name: str, where: str, sentence: str, source: Citation) -> BadRequest:
    return refusal(
        f"Invalid schema for function '{name}': {sentence}",
        f"{where}.parameters",
        "invalid_function_parameters",
        source=source.words,
        inferred=source.inferred,
    )


def _custom(entry: Mapping[str, Any], where: str) -> Tool:
    name = name_of(entry.get("name"), f"{where}.name")
    form = entry.get("format")
    if form is None:
        form = {"type": "text"}
    if not isinstance(form, dict):
        raise wrong_type(f"{where}.format", "an object", form)
    if form.get("type") not in ("text", "grammar"):
        raise unsupported(f"{where}.format.type", form.get("type"), ("text", "grammar"))
    if form["type"] == "grammar":
        if form.get("syntax") not in ("lark", "regex"):
            raise unsupported(f"{where}.format.syntax", form.get("syntax"), ("lark", "regex"))
        text_of(form.get("definition"), f"{where}.format.definition")
    return Tool(name, _description(entry, where), FREEFORM, format=form)


def _choice(
    value: Any, tools: Sequence[Tool], hosted: frozenset[str], parallel: bool
) -> ToolChoice:
    match value:
        case None | "auto":
            return ToolChoice(parallel=parallel)
        case "none":
            return ToolChoice("none", parallel=parallel)
        case "required":
            if not tools and not hosted:
                raise refusal(
                    "Tool choice 'required' must be specified with 'tools' parameter.",
                    "tool_choice",
                    source=CHOICE,
                    inferred=False,
                )
            return ToolChoice("required", parallel=parallel)
        case {"type": "function" | "custom" as kind, "name": str() as name}:
            _check_offered(kind, name, tools)
            return ToolChoice("tool", name, parallel=parallel)
        case {"type": "allowed_tools", "mode": "auto" | "required" as mode, "tools": list() as few}:
            names = [_allowed_name(entry, tools) for entry in few]
            allowed = tuple(name for name in names if name)
            return ToolChoice(mode, allowed=allowed, parallel=parallel)
        case {"type": str() as kind} if kind.startswith(_HOSTED):
            if kind not in hosted:
                raise _not_offered(kind)
            return ToolChoice(parallel=parallel)
        case _:
            text = value if isinstance(value, str) else compact(value)
            raise unsupported("tool_choice", text, ("none", "auto", "required"))


def _allowed_name(value: Any, tools: Sequence[Tool]) -> str:
    """The name of an allowed tool; "" for one that the provider runs."""
    match value:
        case {"type": "function" | "custom" as kind, "name": str() as name}:
            _check_offered(kind, name, tools)
            return name
        case {"type": str()}:
            return ""
        case _:
            raise missing("tool_choice.tools[0].type")


def _check_offered(kind: str, name: str, tools: Sequence[Tool]) -> None:
    match = next((tool for tool in tools if tool.name == name), None)
    if match is None or (match.format is not None) != (kind == "custom"):
        raise _not_offered(kind)


def _not_offered(kind: str) -> BadRequest:
    return refusal(
        f"Tool choice '{kind}' not found in 'tools' parameter.",
        "tool_choice",
        source=CHOICE,
        inferred=kind != "function",
    )
