"""Parses Chat Completions requests and refuses as OpenAI does: same status, code and words.

https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.provider_limits import OPENAI_LONGEST_NAME, OPENAI_MOST_TOOLS
from app.core.tools import FREEFORM, Content, Tool, ToolChoice
from app.protocols import openai_schema
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
    """model messages tools tool_choice parallel_tool_calls stream stream_options temperature top_p
    n max_tokens max_completion_tokens stop presence_penalty frequency_penalty logit_bias logprobs
    top_logprobs user seed response_format functions function_call store metadata modalities audio
    prediction reasoning_effort service_tier verbosity web_search_options safety_identifier
    prompt_cache_key prompt_cache_retention"""
)
_REASONING = re.compile(r"(?:o\d|gpt-5)")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_MOST_CHOICES = 128


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """The request that `body` holds. Raises BadRequest in OpenAI's own words.

    Of `params` the end reads `choices` (how many answers), `logprobs` and `legacy` (the older
    dialect of functions), beside what the model reads.
    """
    data = object_of(body)
    for name in data:
        if name not in _KNOWN:
            raise REFERENCE.refusal(f"Unrecognized request argument supplied: {name}", param=name)
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise REFERENCE.refusal("you must provide a model parameter")
    legacy = "functions" in data
    tools = functions_of(data["functions"], model) if legacy else tools_of(data.get("tools"), model)
    _check_flags(data, bool(tools))
    if legacy:
        choice = function_choice_of(data.get("function_call"), tools)
    else:
        parallel = data.get("parallel_tool_calls") is not False
        choice = choice_of(data.get("tool_choice"), tools, parallel)
    most = _most(data, model)
    messages, system = messages_of(data.get("messages"))
    params: dict[str, Any] = {"max_tokens": most, "thinking": _effort(data), "legacy": legacy}
    params["format"] = _format(data.get("response_format"), data["messages"])
    params |= {"choices": _choices(data), "logprobs": data.get("logprobs") is True}
    stream = data.get("stream") is True
    request = ModelRequest(model, system, messages, tools, choice, params, stream=stream)
    input_tokens = tokens(compact([data["messages"], data.get("tools")]))
    options = data.get("stream_options")
    return ParsedRequest(
        request, input_tokens, isinstance(options, dict) and bool(options.get("include_usage"))
    )


def _check_flags(data: Mapping[str, Any], has_tools: bool) -> None:
    """What is only allowed beside something else."""
    for name, there, words in (
        ("stream_options", data.get("stream") is True, "'stream' is enabled"),
        ("parallel_tool_calls", has_tools, "'tools' are specified"),
        ("function_call", "functions" in data, "'functions' are specified"),
        ("top_logprobs", data.get("logprobs") is True, "'logprobs' is set to true"),
    ):
        if data.get(name) is not None and not there:
            what = f"The '{name}' parameter" if name == "stream_options" else f"'{name}'"
            raise ASSUMED.refusal(f"{what} is only allowed when {words}.", param=name)
    for name in ("stream", "parallel_tool_calls", "logprobs"):
        if not isinstance(data.get(name) or False, bool):
            raise wrong_type(name, "a boolean", data[name])


def _most(data: Mapping[str, Any], model: str) -> int | None:
    """How many tokens the answer may have; models that reason know one name for it alone."""
    if _REASONING.match(model):
        if data.get("max_tokens") is not None:
            raise MAX_TOKENS.refusal(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                param="max_tokens",
                code="unsupported_parameter",
            )
        if data.get("temperature") not in (None, 1):
            raise ONLY_DEFAULT.refusal(
                f"Unsupported value: 'temperature' does not support {data['temperature']} with "
                "this model. Only the default (1) value is supported.",
                param="temperature",
                code="unsupported_value",
            )
    for name in ("max_completion_tokens", "max_tokens"):
        if data.get(name) is not None:
            return _whole(data, name, 1)
    return None


def _whole(data: Mapping[str, Any], name: str, least: int) -> int:
    value = data[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(name, "an integer", value)
    if value < least:
        raise REFERENCE.refusal(
            f"Invalid '{name}': integer below minimum value. Expected a value >= {least}, but got "
            f"{value} instead.",
            param=name,
            code="integer_below_min_value",
        )
    return value


def _choices(data: Mapping[str, Any]) -> int:
    if data.get("n") is None:
        return 1
    count = _whole(data, "n", 1)
    if count > _MOST_CHOICES:
        raise REFERENCE.refusal(
            f"Invalid 'n': integer above maximum value. Expected a value <= {_MOST_CHOICES}, but "
            f"got {count} instead.",
            param="n",
            code="integer_above_max_value",
        )
    return count


def _format(value: Any, messages: Any) -> Mapping[str, Any] | None:
    """The form that the answer is to have: None for words."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise wrong_type("response_format", "an object", value)
    match value.get("type"):
        case None:
            raise missing("response_format.type")
        case "text":
            return None
        case "json_object":
            if "json" not in compact(messages).lower():
                raise SAY_JSON.refusal(
                    "'messages' must contain the word 'json' in some form, to use "
                    "'response_format' of type 'json_object'.",
                    param="messages",
                )
            return {}
        case "json_schema":
            return {"schema": _schema(value.get("json_schema"))}
        case other:
            names = "'json_object', 'json_schema', and 'text'"
            raise unsupported("response_format.type", other, names)


def _schema(value: Any) -> Any:
    where = "response_format.json_schema"
    if not isinstance(value, dict):
        raise missing(where)
    name = check_name(value.get("name"), f"{where}.name")
    schema, strict = value.get("schema"), value.get("strict")
    if schema is not None and not isinstance(schema, dict):
        raise wrong_type(f"{where}.schema", "an object", schema)
    if strict is not None and not isinstance(strict, bool):
        raise wrong_type(f"{where}.strict", "a boolean", strict)
    for problem, source in openai_schema.errors(schema, strict=strict is True) if schema else ():
        sentence = f"Invalid schema for response_format '{name}': {problem}"
        raise source.refusal(sentence, param="response_format")
    if strict and schema:
        openai_schema.check_lookaround(schema, "", strict=True, param="response_format")
    return schema


def _effort(data: Mapping[str, Any]) -> bool:
    """Whether the model is asked to reason, and so has something to show of it."""
    effort = data.get("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        names = ", ".join(f"'{word}'" for word in _EFFORTS[:-1]) + f", and '{_EFFORTS[-1]}'"
        raise unsupported("reasoning_effort", effort, names)
    return effort not in (None, "none")


# The messages: read in their order, or refused.


_ERROR = re.compile(r"\s*(?:error\b|\{\s*\"(?:error|is_error)\")", re.I)
_DATA = re.compile(r"data:image/(jpeg|jpg|png|gif|webp);base64,", re.I)
_PARTS: Mapping[str, tuple[str, ...]] = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text", "image_url"),
    "function": ("text",),
}
_ROLES = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"


def messages_of(value: Any) -> tuple[tuple[Message, ...], str]:
    """(the messages, the system prompt)."""
    if value is None:
        raise missing("messages")
    if not isinstance(value, list):
        raise wrong_type("messages", "an array of objects", value)
    if not value:
        raise invalid("messages", "empty array. Expected an array with minimum length 1.")
    messages: list[Message] = []
    system: list[str] = []
    waiting: list[str] = []
    legacy = ""
    for place, entry in enumerate(value):
        where = f"messages[{place}]"
        role = entry.get("role") if isinstance(entry, dict) else None
        if role == "tool":
            messages.append(_result(entry, where, waiting))
            continue
        _check_answered(waiting)
        match role:
            case "system" | "developer":
                system.append(_text(entry.get("content"), role, where))
            case "user":
                parts = _content(entry.get("content"), role, where)
                messages.append(Message("user", parts))
            case "assistant":
                messages.append(_assistant(entry, where, place))
                calls = [p.call_id for p in messages[-1].parts if p.kind == "call"]
                legacy = calls[0] if entry.get("function_call") else ""
                waiting = [] if legacy else calls
            case "function":
                messages += _function_result(entry, where, legacy)
                legacy = ""
            case _:
                raise unsupported(f"{where}.role", role, _ROLES)
    _check_answered(waiting)
    return tuple(_merge_results(messages)), "\n".join(system)


def _merge_results(messages: Iterable[Message]) -> list[Message]:
    """One message for the results of one turn, as the neutral form has it."""
    result: list[Message] = []
    for message in messages:
        if result and message.role == result[-1].role == "results":
            result[-1] = Message("results", result[-1].parts + message.parts)
        else:
            result.append(message)
    return result


def _check_answered(waiting: Sequence[str]) -> None:
    if waiting:
        raise UNANSWERED.refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
            param="messages",
        )


def _result(entry: Mapping[str, Any], where: str, waiting: list[str]) -> Message:
    """A tool message; its call is taken out of `waiting`."""
    call_id = entry.get("tool_call_id")
    if not isinstance(call_id, str):
        raise missing(f"{where}.tool_call_id")
    if not waiting:
        raise NO_CALL.refusal(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            param=f"{where}.role",
        )
    if call_id not in waiting:
        raise OTHER_CALL.refusal(
            f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of "
            "previous message.",
            param=f"{where}.tool_call_id",
        )
    waiting.remove(call_id)
    return Message(
        "results", (_result_part(call_id, _content(entry.get("content"), "tool", where)),)
    )


def _function_result(entry: Mapping[str, Any], where: str, call_id: str) -> list[Message]:
    """The result of a call of the older dialect, which has no ids: it answers the one before."""
    check_name(entry.get("name"), f"{where}.name")
    parts = _content(entry.get("content"), "function", where)
    return [Message("results", (_result_part(call_id, parts),))] if call_id else []


def _result_part(call_id: str, parts: Sequence[MessagePart]) -> MessagePart:
    pieces: list[Content] = []
    for part in parts:
        if part.kind == "image":
            pieces += part.content
        elif part.text:
            pieces.append(Content(text=part.text))
    # There is no field for a failure in this protocol: clients say it in the text.
    is_error = bool(pieces and _ERROR.match(pieces[0].text))
    return MessagePart("result", call_id=call_id, content=tuple(pieces), is_error=is_error)


def _assistant(entry: Mapping[str, Any], where: str, place: int) -> Message:
    content, calls, legacy_call = (entry.get(k) for k in ("content", "tool_calls", "function_call"))
    if content is None and not calls and not entry.get("refusal") and not legacy_call:
        raise REFERENCE.refusal(
            f"Invalid value for 'content': expected a string, got null. ({where})",
            param=f"{where}.content",
        )
    parts = list(_content(content, "assistant", where)) if content else []
    if calls is not None and not isinstance(calls, list):
        raise wrong_type(f"{where}.tool_calls", "an array of objects", calls)
    if calls == []:
        raise invalid(f"{where}.tool_calls", "empty array. Expected minimum length 1.")
    parts += [_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls or [])]
    if legacy_call:
        only_call = {"id": f"function_{place}", "type": "function", "function": legacy_call}
        parts.append(_call(only_call, where))
    return Message("assistant", tuple(parts))


def _call(value: Any, where: str) -> MessagePart:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise missing(f"{where}.id")
    kind = value.get("type")
    if kind is None:
        raise missing(f"{where}.type")
    if kind not in ("function", "custom"):
        raise unsupported(f"{where}.type", kind, "'function' and 'custom'")
    body, field = value.get(kind), "arguments" if kind == "function" else "input"
    if not isinstance(body, dict):
        raise missing(f"{where}.{kind}")
    name = check_name(body.get("name"), f"{where}.{kind}.name")
    raw = body.get(field)
    if not isinstance(raw, str):
        raise wrong_type(f"{where}.{kind}.{field}", "a string", raw)
    text = raw if kind == "function" else compact({"input": raw})
    return MessagePart("call", text, name, value["id"])


def _text(content: Any, role: str, where: str) -> str:
    return "\n".join(part.text for part in _content(content, role, where))


def _content(content: Any, role: str, where: str) -> tuple[MessagePart, ...]:
    """The parts of a message's content, of the types that its role may have."""
    if isinstance(content, str):
        return (MessagePart("text", content),)
    if not isinstance(content, list):
        raise wrong_type(f"{where}.content", "one of a string or array of objects", content)
    parts = []
    for place, part in enumerate(content):
        at = f"{where}.content[{place}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _PARTS[role]:
            if role == "tool":
                raise TOOL_CONTENT.refusal(
                    "Content blocks are expected to be either text or image_url type.", param=at
                )
            raise invalid(f"{at}.type", f"'{kind}' is not supported here.", ASSUMED)
        match kind:
            case "text" | "refusal":
                if not isinstance(part.get(kind), str):
                    raise missing(f"{at}.{kind}")
                parts.append(MessagePart(kind, part[kind]))
            case "image_url":
                parts.append(MessagePart("image", content=(_image(part, f"{at}.image_url"),)))
            case _:
                parts.append(MessagePart("other", meta=part))
    return tuple(parts)


def _image(part: Mapping[str, Any], where: str) -> Content:
    """An image by its address, or whole in a `data:` URL."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str):
        raise missing(f"{where}.url")
    if not url.startswith("data:"):
        if url.startswith(("http://", "https://")):
            return Content("image")
        raise invalid(f"{where}.url", f"Expected a valid URL, but got '{url[:80]}'.")
    head = _DATA.match(url)
    if head is None:
        raise IMAGES.refusal(
            "You uploaded an unsupported image. Please make sure your image has of one the "
            "following formats: ['png', 'jpeg', 'gif', 'webp'].",
            param=f"{where}.url",
            code="invalid_image_format",
        )
    data = url[head.end() :]
    try:
        if not b64decode(data, validate=True):
            raise ValueError
    except (binascii.Error, ValueError):
        raise IMAGES.refusal(
            "Invalid base64 image_url.", param=f"{where}.url", code="invalid_base64"
        ) from None
    return Content("image", media_type=f"image/{head[1].lower()}", data=data)


# Parses the tools (functions, free-form ones) and the tool choice of a Chat Completions request.
#
# https://platform.openai.com/docs/api-reference/chat/create


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
