"""Reading and refusing requests as OpenAI Chat Completions does: the same status, code and words.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import Content, Tool, ToolChoice
from app.simulator.end import Asked, BadRequest, compact, object_of
from app.simulator.reply import tokens
from app.simulator.words import spaced

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_ERROR = re.compile(r"\s*(?:error\b|\{\s*\"(?:error|is_error)\")", re.I)
_MOST_TOOLS = 128
_KNOWN = spaced(
    """model messages tools tool_choice parallel_tool_calls stream stream_options temperature top_p
    n max_tokens max_completion_tokens stop presence_penalty frequency_penalty logit_bias logprobs
    top_logprobs user seed response_format functions function_call store metadata modalities audio
    prediction reasoning_effort service_tier verbosity web_search_options safety_identifier
    prompt_cache_key prompt_cache_retention"""
)
_PARTS = spaced("text image_url input_audio file refusal")


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> Asked:
    """The request that `body` holds. Raises BadRequest in OpenAI's own words."""
    data = object_of(body)
    for name in data:
        if name not in _KNOWN:
            raise BadRequest(
                f"Unrecognized request argument supplied: {name}", param=name, code=None
            )
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("you must provide a model parameter")
    tools = _tools(data.get("tools"))
    stream = data.get("stream") is True
    options = data.get("stream_options")
    if options is not None and not stream:
        raise BadRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    parallel = data.get("parallel_tool_calls")
    if parallel is not None and not tools:
        raise BadRequest(
            "'parallel_tool_calls' is only allowed when 'tools' are specified.",
            param="parallel_tool_calls",
        )
    messages, system = _messages(data.get("messages"))
    request = ModelRequest(
        model=model,
        system=system,
        messages=messages,
        tools=tools,
        choice=_choice(data.get("tool_choice"), tools, parallel is not False),
        params={"max_tokens": _most(data), "thinking": False},
        stream=stream,
    )
    spent = tokens(compact([data["messages"], data.get("tools")]))
    return Asked(request, spent, isinstance(options, dict) and bool(options.get("include_usage")))


def _most(data: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = data.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong_type(name, "an integer", value)
        if value < 1:
            raise BadRequest(
                f"Invalid '{name}': integer below minimum value. Expected a value >= 1, but got "
                f"{value} instead.",
                param=name,
                code="integer_below_min_value",
            )
        return value
    return None


def _wrong_type(param: str, wanted: str, value: Any) -> BadRequest:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    got = "null" if value is None else kinds.get(type(value), "a number")
    return BadRequest(
        f"Invalid type for '{param}': expected {wanted}, but got {got} instead.",
        param=param,
        code="invalid_type",
    )


def _missing(param: str) -> BadRequest:
    return BadRequest(
        f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter"
    )


def _invalid(param: str, sentence: str) -> BadRequest:
    return BadRequest(f"Invalid '{param}': {sentence}", param=param, code="invalid_value")


def _tools(value: Any) -> tuple[Tool, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _wrong_type("tools", "an array of objects", value)
    if not value:
        raise _invalid("tools", "empty array. Expected an array with minimum length 1.")
    if len(value) > _MOST_TOOLS:
        raise _invalid(
            "tools", f"array too long. Expected an array with maximum length {_MOST_TOOLS}."
        )
    tools = []
    for place, entry in enumerate(value):
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind is None:
            raise _missing(f"tools[{place}].type")
        if kind == "function":
            tools.append(_tool(entry.get("function"), f"tools[{place}].function"))
        elif kind != "custom":
            raise BadRequest(
                f"Invalid value: '{kind}'. Supported values are: 'function' and 'custom'.",
                param=f"tools[{place}].type",
                code="invalid_value",
            )
    return tuple(tools)


def _tool(function: Any, place: str) -> Tool:
    if not isinstance(function, dict):
        raise _missing(place)
    name = function.get("name")
    if not isinstance(name, str):
        raise _missing(f"{place}.name")
    _check_name(name, f"{place}.name")
    schema = function.get("parameters")
    if schema is None:
        schema = {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise _wrong_type(f"{place}.parameters", "an object", schema)
    kind = schema.get("type", "None") if schema else "object"
    if kind != "object":
        raise _bad_schema(
            name,
            place,
            f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.",
        )
    strict = function.get("strict") is True
    if strict:
        _check_strict(name, schema, place)
    return Tool(name, str(function.get("description") or ""), schema, strict=strict)


def _check_name(name: str, place: str) -> None:
    if not _NAME.fullmatch(name):
        raise _invalid(
            place,
            "string does not match pattern. Expected a string that matches the pattern "
            "'^[a-zA-Z0-9_-]+$'.",
        )
    if len(name) > 64:
        raise _invalid(
            place,
            "string too long. Expected a string with maximum length 64, but got a string with "
            f"length {len(name)} instead.",
        )


def _bad_schema(name: str, place: str, sentence: str) -> BadRequest:
    return BadRequest(
        f"Invalid schema for function '{name}': {sentence}",
        param=f"{place}.parameters",
        code="invalid_function_parameters",
    )


def _check_strict(name: str, schema: Mapping[str, Any], place: str) -> None:
    """The two rules of strict mode that most people meet, at the root."""
    if schema.get("additionalProperties") is not False:
        raise _bad_schema(
            name,
            place,
            "In context=(), 'additionalProperties' is required to be supplied and to be false.",
        )
    properties = schema.get("properties") or {}
    missing = [one for one in properties if one not in (schema.get("required") or [])]
    if missing:
        raise _bad_schema(
            name,
            place,
            "In context=(), 'required' is required to be supplied and to be an array including "
            f"every key in properties. Missing '{missing[0]}'.",
        )


def _choice(value: Any, tools: Sequence[Tool], parallel: bool) -> ToolChoice:
    if value is None:
        return ToolChoice(parallel=parallel)
    if not tools:
        raise BadRequest(
            "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice"
        )
    match value:
        case "auto" | "none" | "required":
            return ToolChoice(value, parallel=parallel)
        case {"type": "function", "function": {"name": str() as name}}:
            _check_offered([name], tools)
            return ToolChoice("tool", name, parallel=parallel)
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list() as allowed}}:
            names = [str(one.get("function", {}).get("name", "")) for one in allowed]
            _check_offered(names, tools)
            return ToolChoice(
                "required" if mode == "required" else "auto",
                allowed=tuple(names),
                parallel=parallel,
            )
        case _:
            shown = value if isinstance(value, str) else compact(value)
            raise BadRequest(
                f"Invalid value: '{shown}'. Supported values are: 'none', 'auto', and 'required'.",
                param="tool_choice",
                code="invalid_value",
            )


def _check_offered(names: Iterable[str], tools: Sequence[Tool]) -> None:
    for name in names:
        if not any(tool.name == name for tool in tools):
            raise BadRequest(
                f"Invalid value for 'tool_choice': function '{name}' is not in 'tools'.",
                param="tool_choice",
                code="invalid_value",
            )


def _messages(value: Any) -> tuple[tuple[Message, ...], str]:
    if value is None:
        raise _missing("messages")
    if not isinstance(value, list):
        raise _wrong_type("messages", "an array of objects", value)
    if not value:
        raise _invalid("messages", "empty array. Expected an array with minimum length 1.")
    messages: list[Message] = []
    system: list[str] = []
    waiting: list[str] = []
    for place, entry in enumerate(value):
        where = f"messages[{place}]"
        role = entry.get("role") if isinstance(entry, dict) else None
        if role == "tool":
            messages.append(_result(entry, where, waiting))
            continue
        _check_answered(waiting)
        match role:
            case "system" | "developer":
                system.append(_text(entry.get("content"), where))
            case "user":
                parts = (MessagePart("text", _text(entry.get("content"), where)),)
                messages.append(Message("user", parts))
            case "assistant":
                messages.append(_assistant(entry, where))
                waiting = [p.call_id for p in messages[-1].parts if p.kind == "call"]
            case "function":
                pass  # the results of an older dialect: accepted, not understood
            case _:
                raise BadRequest(
                    f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user',"
                    " 'function', 'tool', and 'developer'.",
                    param=f"{where}.role",
                    code="invalid_value",
                )
    _check_answered(waiting)
    return tuple(_joined(messages)), "\n".join(system)


def _joined(messages: Iterable[Message]) -> list[Message]:
    """One message for the results of one turn, as the neutral form has it."""
    found: list[Message] = []
    for message in messages:
        if found and message.role == found[-1].role == "results":
            found[-1] = Message("results", found[-1].parts + message.parts)
        else:
            found.append(message)
    return found


def _check_answered(waiting: Sequence[str]) -> None:
    if waiting:
        raise BadRequest(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
            param="messages",
        )


def _result(entry: Mapping[str, Any], where: str, waiting: list[str]) -> Message:
    """A tool message; its call is taken out of `waiting`."""
    given = entry.get("tool_call_id")
    if not isinstance(given, str):
        raise _missing(f"{where}.tool_call_id")
    if given not in waiting:
        raise BadRequest(
            "Invalid parameter: messages with role 'tool' must be a response to a preceding "
            "message with 'tool_calls'.",
            param=f"{where}.role",
        )
    waiting.remove(given)
    text = _text(entry.get("content"), where)
    content = (Content(text=text),) if text else ()
    # There is no field for a failure in this protocol: clients say it in the text.
    failed = bool(_ERROR.match(text))
    return Message(
        "results", (MessagePart("result", call_id=given, content=content, is_error=failed),)
    )


def _assistant(entry: Mapping[str, Any], where: str) -> Message:
    content, calls = entry.get("content"), entry.get("tool_calls")
    if (
        content is None
        and not calls
        and not entry.get("refusal")
        and not entry.get("function_call")
    ):
        raise BadRequest(
            f"Invalid value for 'content': expected a string, got null. ({where})",
            param=f"{where}.content",
        )
    parts = [MessagePart("text", _text(content, where))] if content else []
    if calls is not None and not isinstance(calls, list):
        raise _wrong_type(f"{where}.tool_calls", "an array of objects", calls)
    if calls == []:
        raise _invalid(f"{where}.tool_calls", "empty array. Expected minimum length 1.")
    parts += [_call(one, f"{where}.tool_calls[{place}]") for place, one in enumerate(calls or [])]
    return Message("assistant", tuple(parts))


def _call(value: Any, where: str) -> MessagePart:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise _missing(f"{where}.id")
    if "type" not in value:
        raise _missing(f"{where}.type")
    function = value.get("function") or value.get("custom")
    if not isinstance(function, dict):
        raise _missing(f"{where}.function")
    name, arguments = function.get("name"), function.get("arguments", function.get("input"))
    if not isinstance(name, str):
        raise _missing(f"{where}.function.name")
    _check_name(name, f"{where}.function.name")
    if not isinstance(arguments, str):
        raise _wrong_type(f"{where}.function.arguments", "a string", arguments)
    return MessagePart("call", arguments, name, value["id"])


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _wrong_type(f"{where}.content", "one of a string or array of objects", content)
    texts = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _PARTS:
            raise _invalid(f"{where}.content[{place}].type", f"'{kind}' is not supported here.")
        if kind == "text":
            if not isinstance(part.get("text"), str):
                raise _missing(f"{where}.content[{place}].text")
            texts.append(part["text"])
    return "\n".join(texts)
