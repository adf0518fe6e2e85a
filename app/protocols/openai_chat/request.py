"""Reading and refusing requests as OpenAI Chat Completions does: the same status, code and words.

Tools are read in openai_chat_tools, messages in openai_chat_messages.
https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from app.core.messages import ModelRequest
from app.protocols import openai_schema
from app.protocols.openai_chat import refusals
from app.protocols.openai_chat.refusals import check_name, missing, unsupported, wrong_type
from app.protocols.openai_chat.request_messages import messages_of
from app.protocols.openai_chat.request_tools import (
    choice_of,
    function_choice_of,
    functions_of,
    tools_of,
)
from app.protocols.reply import tokens
from app.protocols.server import Asked, compact, object_of, spaced

_KNOWN = spaced(
    """model messages tools tool_choice parallel_tool_calls stream stream_options temperature top_p
    n max_tokens max_completion_tokens stop presence_penalty frequency_penalty logit_bias logprobs
    top_logprobs user seed response_format functions function_call store metadata modalities audio
    prediction reasoning_effort service_tier verbosity web_search_options safety_identifier
    prompt_cache_key prompt_cache_retention"""
)
_REASONING = re.compile(r"(?:o\d|gpt-5)")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_MOST_CHOICES = 128


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> Asked:
    """The request that `body` holds. Raises BadRequest in OpenAI's own words.

    Of `params` the end reads `choices` (how many answers), `logprobs` and `legacy` (the older
    dialect of functions), beside what the model reads.
    """
    data = object_of(body)
    for name in data:
        if name not in _KNOWN:
            raise refusals.REFERENCE.refusal(
                f"Unrecognized request argument supplied: {name}", param=name
            )
    model = data.get("model")
    if not isinstance(model, str) or not model:
        raise refusals.REFERENCE.refusal("you must provide a model parameter")
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
    spent = tokens(compact([data["messages"], data.get("tools")]))
    options = data.get("stream_options")
    return Asked(request, spent, isinstance(options, dict) and bool(options.get("include_usage")))


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
            raise refusals.ASSUMED.refusal(f"{what} is only allowed when {words}.", param=name)
    for name in ("stream", "parallel_tool_calls", "logprobs"):
        if not isinstance(data.get(name) or False, bool):
            raise wrong_type(name, "a boolean", data[name])


def _most(data: Mapping[str, Any], model: str) -> int | None:
    """How many tokens the answer may have; models that reason know one name for it alone."""
    if _REASONING.match(model):
        if data.get("max_tokens") is not None:
            raise refusals.MAX_TOKENS.refusal(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                param="max_tokens",
                code="unsupported_parameter",
            )
        if data.get("temperature") not in (None, 1):
            raise refusals.ONLY_DEFAULT.refusal(
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
        raise refusals.REFERENCE.refusal(
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
        raise refusals.REFERENCE.refusal(
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
                raise refusals.SAY_JSON.refusal(
                    "'messages' must contain the word 'json' in some form, to use "
                    "'response_format' of type 'json_object'.",
                    param="messages",
                )
            return {}
        case "json_schema":
            return {"schema": _schema(value.get("json_schema"))}
        case other:
            known = "'json_object', 'json_schema', and 'text'"
            raise unsupported("response_format.type", other, known)


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
    for said, source in openai_schema.errors(schema, strict=strict is True) if schema else ():
        sentence = f"Invalid schema for response_format '{name}': {said}"
        raise source.refusal(sentence, param="response_format")
    if strict and schema:
        openai_schema.check_lookaround(schema, "", strict=True, param="response_format")
    return schema


def _effort(data: Mapping[str, Any]) -> bool:
    """Whether the model is asked to reason, and so has something to show of it."""
    effort = data.get("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        known = ", ".join(f"'{one}'" for one in _EFFORTS[:-1]) + f", and '{_EFFORTS[-1]}'"
        raise unsupported("reasoning_effort", effort, known)
    return effort not in (None, "none")
