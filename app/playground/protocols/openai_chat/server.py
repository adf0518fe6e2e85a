"""Accepts requests like Chat Completions, refuses what OpenAI refuses with the same status, code
and words, and encodes replies, streamed or whole.

A table defines the shape of a body; functions check relations between members or messages. Limits
for tools are in `limits`. https://platform.openai.com/docs/api-reference/chat/create
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from playground.core.tools import FREEFORM, Tool
from playground.protocols import words_of
from playground.protocols.openai_chat import FACTS, limits
from playground.protocols.openai_chat.limits import (
    FLAG,
    OBJECT,
    OpenAIPhrases,
    check_format,
    check_tools,
    max_length,
    object_with,
    tool_name,
    typed_object,
)
from playground.protocols.openai_chat.request import READER
from playground.protocols.request import indexed_dicts, member, model_request
from playground.protocols.server import (
    ANY,
    FIRST_TOKEN_S,
    BadRequest,
    Citation,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    ProviderServer,
    ReplyBlock,
    Shape,
    SideEndpoint,
    Tag,
    check_shape,
    compact_json,
    delta_pause,
    encode_json,
    object_of,
    pieces,
    raw_input,
    tokens,
)

# The shape of a body.


_REFERENCE = Citation("OpenAI API reference: create a chat completion")
_ASSUMED = Citation(_REFERENCE.words, inferred=True)
_UNANSWERED = Citation("https://github.com/BerriAI/litellm/issues/10083")
_NO_CALL = Citation("https://github.com/miurla/morphic/issues/136")
_OTHER_CALL = Citation("docs/wire.md, section 2: results answer the calls before", inferred=True)
_MAX_TOKENS = Citation("https://github.com/sipeed/picoclaw/issues/16")
_ONLY_DEFAULT = Citation("recordings of vercel/ai, openai errors (docs/wire.md, section 2)")
_TOOL_CONTENT = Citation("recordings of pydantic-ai, test_multimodal_tool_return_matrix")
_SAY_JSON = Citation("https://github.com/mem0ai/mem0/issues/3008")
_IMAGES = Citation("OpenAI guide to images", inferred=True)
_LONG_ID = Citation("https://github.com/openclaw/openclaw/issues/875")

_WORD = Shape(str)
"""Refused as missing if it is not a string."""

_NAME = Shape(str, rules=(tool_name(limits.LIMITS),))
_STRING = Shape(str, "a string")

_FUNCTION_CALL = object_with(name=_NAME, arguments=_STRING)
_CALL = replace(
    typed_object(
        function=object_with(function=_FUNCTION_CALL),
        custom=object_with(custom=object_with(name=_NAME, input=_STRING)),
    ),
    members={"id": _WORD},
    required=("id", "type"),
)

_FUNCTION = Shape(
    dict, members={"name": _WORD, "parameters": OBJECT, "strict": FLAG}, required=("name",)
)

_SCHEMA = Shape(dict, members={"name": _NAME, "schema": OBJECT, "strict": FLAG}, required=("name",))
_RESPONSE_FORMAT = replace(
    typed_object(json_object=ANY, json_schema=object_with(json_schema=_SCHEMA), text=ANY),
    name="an object",
    null=True,
)

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_KNOWN = words_of(
    """tool_choice stream_options temperature top_p stop presence_penalty frequency_penalty
    logit_bias top_logprobs user seed function_call store metadata modalities audio prediction
    service_tier verbosity web_search_options safety_identifier prompt_cache_key
    prompt_cache_retention prompt_cache_options moderation"""
)

_REASONING = re.compile(r"(?:o\d|gpt-5)")
"""Name prefixes of reasoning models."""

_SHORT_IDS = re.compile(r"(?:ft:)?(?:chat)?gpt-[34]")
"""Name prefixes of models that accept shorter call ids."""

_LONGEST_ID, _SHORTER_ID = 64, 40

MODELS = ("gpt-simulated-1", "gpt-simulated-1-mini")
_STOP = {"calls": "tool_calls", "refusal": "content_filter"}
_KEYS = "OpenAI guide: Error codes"
_FINGERPRINT = "fp_simulator"

KINDS: Mapping[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", None),
    529: ("server_error", "overloaded"),
}


class _ChatPhrases(OpenAIPhrases):
    """A missing member with a named type is refused as a value of another type."""

    def refuse_missing(self, where: str, shape: Shape) -> BadRequest:
        if where == "model":
            return self.reference.refusal("you must provide a model parameter")
        named = bool(shape.name) and not shape.null
        return (
            self.refuse_type(None, where, shape) if named else super().refuse_missing(where, shape)
        )

    def refuse_unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        where = self.join(where, name)
        sentence = f"Unrecognized request argument supplied: {where}"
        return self.reference.refusal(sentence, param=where)


class _PiecePhrases(_ChatPhrases):
    def refuse_variant(self, value: Mapping[str, Any], where: str, shape: Shape) -> BadRequest:
        sentence = f"Invalid '{where}.type': '{value.get('type')}' is not supported here."
        return _ASSUMED.refusal(sentence, param=f"{where}.type", code="invalid_value")


class _ResultPiecePhrases(_ChatPhrases):
    def refuse_variant(self, value: Mapping[str, Any], where: str, shape: Shape) -> BadRequest:
        sentence = "Content blocks are expected to be either text or image_url type."
        return _TOOL_CONTENT.refusal(sentence, param=where)


_SAYS = _ChatPhrases(_REFERENCE)
_PIECES_SAY = _PiecePhrases(_REFERENCE)
_FILLED = _SAYS.not_empty("Expected an array with minimum length 1.")
_DATA = re.compile(r"data:image/(?:jpeg|jpg|png|gif|webp);base64,", re.I)

_LIST = Shape(list, "an array of objects", null=True, rules=(_FILLED,))
_COUNT = Shape(int, "an integer", null=True, rules=(_SAYS.bounds(1),))


def _check_named(value: Any, where: str) -> BadRequest | None:
    return None if value else _SAYS.refuse_missing(where, ANY)


def _image(value: Any, where: str) -> BadRequest | None:
    """A piece with an image: a URL, or a `data:` URL."""
    image, where = value.get("image_url"), f"{where}.image_url.url"
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str):
        return _SAYS.refuse_missing(where, ANY)
    if url.startswith(("http://", "https://")):
        return None
    if not url.startswith("data:"):
        sentence = f"Invalid '{where}': Expected a valid URL, but got '{url[:80]}'."
        return _REFERENCE.refusal(sentence, param=where, code="invalid_value")
    head = _DATA.match(url)
    if head is None:
        return _IMAGES.refusal(
            "You uploaded an unsupported image. Please make sure your image has of one the "
            "following formats: ['png', 'jpeg', 'gif', 'webp'].",
            param=where,
            code="invalid_image_format",
        )
    try:
        sound = bool(b64decode(url[head.end() :], validate=True))
    except (binascii.Error, ValueError):
        sound = False
    sentence = "Invalid base64 image_url."
    return None if sound else _IMAGES.refusal(sentence, param=where, code="invalid_base64")


def _grammar(value: Any, where: str) -> BadRequest | None:
    match value:
        case {"syntax": str() as syntax, "definition": str()}:
            return _SAYS.one_of("lark", "regex")(syntax, f"{where}.syntax")
    return _SAYS.refuse_missing(where, ANY)


def _check_says_something(value: Any, where: str) -> BadRequest | None:
    """For a message of the model; also checks a call of the older dialect."""
    if value.get("function_call"):
        check_shape(value["function_call"], _FUNCTION_CALL, _SAYS, f"{where}.function")
    elif value.get("content") is None and not value.get("tool_calls") and not value.get("refusal"):
        sentence = f"Invalid value for 'content': expected a string, got null. ({where})"
        return _REFERENCE.refusal(sentence, param=f"{where}.content")
    return None


def _content(null: bool = False, /, phrases: OpenAIPhrases | None = None, **pieces: Shape) -> Shape:
    name, each = "one of a string or array of objects", typed_object(**pieces)
    each = replace(each, phrases=phrases or _PIECES_SAY)
    return Shape((str, list), name, each=each, null=null)


_TEXT, _PICTURE = object_with(text=_WORD), Shape(rules=(_image,))
_WORDS = _content(text=_TEXT)
_ANSWER = Shape(
    members={
        "content": _content(True, text=_TEXT, refusal=object_with(refusal=_WORD)),
        "tool_calls": Shape(
            list,
            "an array of objects",
            each=_CALL,
            null=True,
            rules=(_SAYS.not_empty("Expected minimum length 1."),),
        ),
    },
    rules=(_check_says_something,),
)
_RESULT_CONTENT = _content(phrases=_ResultPiecePhrases(_REFERENCE), text=_TEXT, image_url=_PICTURE)
_MESSAGE = Shape(
    dict,
    tag="role",
    variants={
        "system": object_with(content=_WORDS),
        "assistant": _ANSWER,
        "user": object_with(
            content=_content(text=_TEXT, image_url=_PICTURE, file=ANY, input_audio=ANY)
        ),
        "function": object_with(name=_NAME, content=_WORDS),
        "tool": object_with(tool_call_id=_WORD, content=_RESULT_CONTENT),
        "developer": object_with(content=_WORDS),
    },
    closed=True,
)
_FORMS = Shape(
    dict, variants={"text": ANY, "grammar": object_with(grammar=Shape(rules=(_grammar,)))}
)
_CUSTOM = Shape(
    dict, members={"name": _WORD, "format": replace(_FORMS, closed=True)}, required=("name",)
)
BODY = Shape(
    dict,
    members={
        "model": Shape(str, rules=(_check_named,)),
        "tools": replace(
            _LIST,
            each=typed_object(
                function=object_with(function=_FUNCTION), custom=object_with(custom=_CUSTOM)
            ),
        ),
        "functions": replace(_LIST, each=_FUNCTION),
        **dict.fromkeys(("stream", "parallel_tool_calls", "logprobs"), FLAG),
        **dict.fromkeys(("max_completion_tokens", "max_tokens"), _COUNT),
        "n": replace(_COUNT, rules=(_SAYS.bounds(1, 128),)),
        "reasoning_effort": Shape(null=True, rules=(_SAYS.one_of(*_EFFORTS),)),
        "response_format": _RESPONSE_FORMAT,
        "messages": replace(_LIST, each=_MESSAGE),
        **dict.fromkeys(_KNOWN, ANY),
    },
    required=("model", "messages"),
    closed=True,
)


# Relations between members or messages.


def check(data: Mapping[str, Any]) -> None:
    """Raises BadRequest, in OpenAI's own words, for the first error in a body except in its
    tools."""
    check_shape(data, BODY, _SAYS)
    _check_companions(data)
    _check_model(data)
    _check_ids(data)
    _check_results(data["messages"])
    _check_format(data.get("response_format") or {}, data["messages"])


def _check_companions(data: Mapping[str, Any]) -> None:
    """Checks members that are only allowed together with others."""
    tools = data.get("functions") if "functions" in data else data.get("tools")
    for name, there, words in (
        ("stream_options", data.get("stream"), "'stream' is enabled"),
        ("parallel_tool_calls", tools, "'tools' are specified"),
        ("function_call", "functions" in data, "'functions' are specified"),
        ("top_logprobs", data.get("logprobs"), "'logprobs' is set to true"),
    ):
        if data.get(name) is not None and not there:
            what = f"The '{name}' parameter" if name == "stream_options" else f"'{name}'"
            raise _ASSUMED.refusal(f"{what} is only allowed when {words}.", param=name)


def _check_model(data: Mapping[str, Any]) -> None:
    """Checks that reasoning models get only the newer token limit and the fixed temperature, and
    only models for audio get some."""
    if "audio" not in data["model"]:
        for place, message in enumerate(data["messages"]):
            for number, piece in indexed_dicts(message.get("content")):
                if piece.get("type") == "input_audio":
                    raise _PIECES_SAY.refuse_variant(
                        piece, f"messages[{place}].content[{number}]", ANY
                    )
    if not _REASONING.match(data["model"]):
        return
    if data.get("max_tokens") is not None:
        raise _MAX_TOKENS.refusal(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    if data.get("temperature") not in (None, 1):
        raise _ONLY_DEFAULT.refusal(
            f"Unsupported value: 'temperature' does not support {data['temperature']} with "
            "this model. Only the default (1) value is supported.",
            param="temperature",
            code="unsupported_value",
        )


def _check_ids(data: Mapping[str, Any]) -> None:
    """Checks the length of the ids of calls, which depends on the model."""
    longest = _SHORTER_ID if _SHORT_IDS.match(data["model"]) else _LONGEST_ID
    check_length = max_length(longest, _LONG_ID)
    for place, message in enumerate(data["messages"]):
        where = f"messages[{place}]"
        ids = [
            (call["id"], f"{where}.tool_calls[{number}].id")
            for number, call in enumerate(message.get("tool_calls") or ())
        ]
        if message["role"] == "tool":
            ids.append((message["tool_call_id"], f"{where}.tool_call_id"))
        for call_id, at in ids:
            if (too_long := check_length(call_id, at)) is not None:
                raise too_long


def _check_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Checks that every call has its result right after it, and every result its call before it."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            _check_result(message["tool_call_id"], waiting, f"messages[{place}]")
            waiting.remove(message["tool_call_id"])
            continue
        _check_answered(waiting)
        if message["role"] == "assistant":
            calls = () if message.get("function_call") else message.get("tool_calls") or ()
            waiting = [call["id"] for call in calls]
    _check_answered(waiting)


def _check_answered(waiting: Sequence[str]) -> None:
    if waiting:
        raise _UNANSWERED.refusal(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting),
            param="messages",
        )


def _check_result(call_id: str, waiting: Sequence[str], where: str) -> None:
    if not waiting:
        raise _NO_CALL.refusal(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
            "message with 'tool_calls'.",
            param=f"{where}.role",
        )
    if call_id not in waiting:
        raise _OTHER_CALL.refusal(
            f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of "
            "previous message.",
            param=f"{where}.tool_call_id",
        )


def _check_format(form: Mapping[str, Any], messages: Any) -> None:
    if form.get("type") == "json_object" and "json" not in compact_json(messages).lower():
        raise _SAY_JSON.refusal(
            "'messages' must contain the word 'json' in some form, to use 'response_format' of "
            "type 'json_object'.",
            param="messages",
        )
    if form.get("type") == "json_schema" and (schema := form["json_schema"].get("schema")):
        strict = form["json_schema"].get("strict") is True
        check_format(limits.LIMITS, form["json_schema"]["name"], schema, strict, "response_format")


def check_offer(data: Mapping[str, Any], tools: Sequence[Tool]) -> None:
    """Raises BadRequest for the first error in the `tools` of a well-formed body, or in the tool
    choice."""
    legacy = "functions" in data
    member = "functions" if legacy else "tools"
    places = [
        f"{member}[{place}]" if legacy else f"{member}[{place}].{entry['type']}"
        for place, entry in enumerate(data.get(member) or ())
    ]
    check_tools(limits.LIMITS, tools, places, data["model"], member)
    names = _chosen_function(data) if legacy else _chosen_names(data.get("tool_choice"), tools)
    for name in names:
        if not any(tool.name == name for tool in tools):
            raise _ASSUMED.refusal(
                f"Invalid value for 'tool_choice': function '{name}' is not in 'tools'.",
                param="tool_choice",
                code="invalid_value",
            )


def _chosen_names(choice: Any, tools: Sequence[Tool]) -> list[str]:
    """The names in `tool_choice`."""
    if choice is not None and not tools:
        raise _ASSUMED.refusal(
            "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice"
        )
    match choice:
        case None | "auto" | "none" | "required":
            return []
        case {"type": "function", "function": {"name": str() as name}} | {
            "type": "custom",
            "custom": {"name": str() as name},
        }:
            return [name]
        case {"type": "allowed_tools", "allowed_tools": {"mode": _, "tools": list() as allowed}}:
            return list(map(_allowed_name, allowed))
    text = choice if isinstance(choice, str) else compact_json(choice)
    raise _SAYS.refuse_value(text, "tool_choice", "none", "auto", "required")


def _allowed_name(entry: Any) -> str:
    match entry:
        case {"function": {"name": str() as name}} | {"custom": {"name": str() as name}}:
            return name
    raise _SAYS.refuse_missing("tool_choice.allowed_tools.tools[].function.name", ANY)


def _chosen_function(data: Mapping[str, Any]) -> list[str]:
    """The name in the choice of the older dialect: none, auto, or a function by name."""
    match data.get("function_call"):
        case None | "auto" | "none":
            return []
        case {"name": str() as name}:
            return [name]
        case choice:
            raise _SAYS.refuse_value(choice, "function_call", "none", "auto")


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """Parses a request body. Raises BadRequest in OpenAI's own words.

    Of `params` this end uses `choices` (how many answers), `logprobs` and `legacy` (the older
    dialect of functions); the model uses the others.
    """
    data = object_of(body)
    check(data)
    parsed = read(data)
    check_offer(data, parsed.request.tools)
    return parsed


def read(data: Mapping[str, Any]) -> ParsedRequest:
    """The request of a body with a valid shape."""
    today = _modernize(data)
    tools = tuple(map(_tool, today.get("tools") or ()))
    request = model_request(READER, today, tools, _params(data), failures_in_text=True)
    input_tokens = tokens(compact_json([data["messages"], data.get("tools")]))
    return ParsedRequest(
        request, input_tokens, bool(member(data, "stream_options").get("include_usage"))
    )


def _modernize(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Converts the older dialect, with functions and one call per turn, to tools."""
    if "functions" not in data:
        return data
    choice = data.get("function_call")
    return {
        **data,
        "tools": [{"type": "function", "function": body} for body in data["functions"] or ()],
        "tool_choice": {"type": "function", **choice} if isinstance(choice, dict) else choice,
        "parallel_tool_calls": False,
    }


def _tool(entry: Mapping[str, Any]) -> Tool:
    """The tool of an entry; the grammar of a free-form one is nested one level deeper than ours."""
    body = entry[entry["type"]]
    if entry["type"] == "function":
        return function_tool(body)
    form = body.get("format", {"type": "text"})
    return free_tool(body, {"type": form["type"], **member(form, "grammar")})


def function_tool(body: Mapping[str, Any]) -> Tool:
    schema, strict = body.get("parameters"), body.get("strict") is True
    parameters = {} if schema is None else {"parameters": schema}
    return Tool(body["name"], str(body.get("description") or ""), strict=strict, **parameters)


def free_tool(body: Mapping[str, Any], form: Mapping[str, Any]) -> Tool:
    return Tool(body["name"], str(body.get("description") or ""), FREEFORM, format=form)


def _params(data: Mapping[str, Any]) -> dict[str, Any]:
    most = data.get("max_completion_tokens")
    form: Any = data.get("response_format") or {}
    forms = {
        "json_object": {},
        "json_schema": {"schema": member(form, "json_schema").get("schema")},
    }
    return {
        "max_tokens": data.get("max_tokens") if most is None else most,
        "thinking": data.get("reasoning_effort") not in (None, "none"),
        "legacy": "functions" in data,
        "format": forms.get(form.get("type")),
        "choices": data.get("n") or 1,
        "logprobs": data.get("logprobs") is True,
    }


def frames(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> Iterator[OutgoingFrame]:
    """The stream of one answer; several choices one after the other."""
    chance = stamp.chance()
    for number in range(_choices(parsed)):
        yield from _choice_frames(reply, parsed, stamp, chance, number)
    if parsed.include_usage:
        last = _head(parsed, stamp) | {"choices": [], "usage": _usage(reply, parsed)}
        yield OutgoingFrame(_sse(last))
    yield OutgoingFrame(b"data: [DONE]\n\n", tag="marker")


def _choices(parsed: ParsedRequest) -> int:
    count = parsed.request.params.get("choices", 1)
    return count if isinstance(count, int) else 1


def _choice_frames(
    reply: ModelReply, parsed: ParsedRequest, stamp: IdSource, chance: Random, number: int
) -> Iterator[OutgoingFrame]:
    """One choice: the role first; a call's id and name before its arguments."""
    usage: dict[str, Any] = {"usage": None} if parsed.include_usage else {}
    legacy, freeform = bool(parsed.request.params.get("legacy")), _freeform_names(parsed)

    def chunk(
        delta: Mapping[str, Any], pause: float, tag: Tag, finish: str | None = None
    ) -> OutgoingFrame:
        logprobs = _logprobs(str(delta.get("content") or ""), parsed)
        choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return OutgoingFrame(_sse(_head(parsed, stamp) | {"choices": [choice]} | usage), pause, tag)

    text = any(block.kind == "text" for block in reply.blocks)
    opening = {"role": "assistant", "content": "" if text else None, "refusal": None}
    yield chunk(opening, chance.uniform(*FIRST_TOKEN_S), "start")
    place = -1
    for block in _encodable_blocks(reply, legacy):
        custom = block.name in freeform
        block = raw_input(block) if custom else block
        if block.kind == "call":
            place += 1
            yield chunk(_call_start(block, place, stamp, legacy, custom), 0.0, "args")
        for piece in pieces(block, chance):
            tag: Tag = "args" if block.kind == "call" else "text"
            delta = _delta(block, piece, place, legacy, custom)
            yield chunk(delta, delta_pause(block, chance), tag)
    yield chunk({}, 0.0, "finish", _finish_reason(reply, legacy))


def _encodable_blocks(reply: ModelReply, legacy: bool) -> Iterator[ReplyBlock]:
    """Drops calls after the first one in the older dialect, which permits one per turn."""
    calls = 0
    for block in reply.blocks:
        calls += block.kind == "call"
        if not legacy or block.kind != "call" or calls == 1:
            yield block


def _freeform_names(parsed: ParsedRequest) -> frozenset[str]:
    return frozenset(tool.name for tool in parsed.request.tools if tool.format is not None)


def _logprobs(text: str, parsed: ParsedRequest) -> dict[str, Any] | None:
    """One made-up token for the whole piece; None if not requested."""
    if not text or not parsed.request.params.get("logprobs"):
        return None
    data = list(text.encode("utf-8", "backslashreplace"))
    token = {"token": text, "logprob": -0.25, "bytes": data, "top_logprobs": []}
    return {"content": [token], "refusal": None}


def _sse(chunk: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % encode_json(chunk)


def _head(parsed: ParsedRequest, stamp: IdSource) -> dict[str, Any]:
    return {
        "id": stamp.id("chatcmpl-", 0, 29),
        "object": "chat.completion.chunk",
        "created": stamp.created,
        "model": parsed.request.model,
        "service_tier": "default",
        "system_fingerprint": _FINGERPRINT,
    }


def _call_start(
    block: ReplyBlock, place: int, stamp: IdSource, legacy: bool, custom: bool
) -> dict[str, Any]:
    if legacy:
        return {"function_call": {"name": block.name, "arguments": ""}}
    call = _call_body(block, "", custom)
    return {"tool_calls": [{"index": place, "id": _id(place, stamp), **call}]}


def _call_body(block: ReplyBlock, text: str, custom: bool) -> dict[str, Any]:
    if custom:
        return {"type": "custom", "custom": {"name": block.name, "input": text}}
    return {"type": "function", "function": {"name": block.name, "arguments": text}}


def _delta(block: ReplyBlock, piece: str, place: int, legacy: bool, custom: bool) -> dict[str, Any]:
    match block.kind:
        case "text":
            return {"content": piece}
        case "thinking":  # as DeepSeek and others name it; OpenAI sends no reasoning here
            return {"reasoning_content": piece}
        case "call" if legacy:
            return {"function_call": {"arguments": piece}}
        case "call" if custom:
            return {"tool_calls": [{"index": place, "custom": {"input": piece}}]}
        case "call":
            return {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}


def answer_body(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
    """The answer to a request with `stream` false."""
    legacy = bool(parsed.request.params.get("legacy"))
    choices = [
        {
            "index": number,
            "message": _message(reply, parsed, stamp, legacy),
            "logprobs": _logprobs(reply.text, parsed),
            "finish_reason": _finish_reason(reply, legacy),
        }
        for number in range(_choices(parsed))
    ]
    body = _head(parsed, stamp) | {"object": "chat.completion", "choices": choices}
    return encode_json(body | {"usage": _usage(reply, parsed)})


def _message(
    reply: ModelReply, parsed: ParsedRequest, stamp: IdSource, legacy: bool
) -> dict[str, Any]:
    freeform, calls = (
        _freeform_names(parsed),
        [b for b in _encodable_blocks(reply, legacy) if b.kind == "call"],
    )
    thinking = "".join(block.text for block in reply.blocks if block.kind == "thinking")
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.text or None,
        "refusal": None,
        "annotations": [],
    }
    if calls and legacy:
        message["function_call"] = {"name": calls[0].name, "arguments": calls[0].text}
    elif calls:
        message["tool_calls"] = [
            {"id": _id(place, stamp), **_call_body(block, block.text, block.name in freeform)}
            for place, block in enumerate(
                raw_input(call) if call.name in freeform else call for call in calls
            )
        ]
    return message | ({"reasoning_content": thinking} if thinking else {})


def _id(place: int, stamp: IdSource) -> str:
    return stamp.id("call_", place, 24)


def _finish_reason(reply: ModelReply, legacy: bool) -> str:
    if legacy and reply.stop == "calls":
        return "function_call"
    return _STOP.get(reply.stop, reply.stop)


def _usage(reply: ModelReply, parsed: ParsedRequest) -> dict[str, Any]:
    output_tokens = sum(tokens(b.text) + (8 if b.kind == "call" else 0) for b in reply.blocks)
    output_tokens *= _choices(parsed)
    thought = sum(tokens(block.text) for block in reply.blocks if block.kind == "thinking")
    return {
        "prompt_tokens": parsed.input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": parsed.input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": thought, "audio_tokens": 0},
    }


def _error_object(problem: BadRequest) -> dict[str, Any]:
    body = {
        "message": str(problem),
        "type": problem.kind,
        "param": problem.param,
        "code": problem.code,
    }
    return {"error": body}


def error(problem: BadRequest, request_id: str) -> bytes:
    """The error body; the request id is only in a header."""
    return encode_json(_error_object(problem))


def error_frame(problem: BadRequest) -> bytes:
    """The error as a chunk of a stream that has begun."""
    return _sse(_error_object(problem))


def key(headers: Mapping[str, str]) -> str:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


def _headers(request_id: str) -> Mapping[str, str]:
    return {
        "x-request-id": request_id,
        "openai-processing-ms": "250",
        "openai-version": "2020-10-01",
        "openai-organization": "simulator",
        "x-ratelimit-limit-requests": "10000",
        "x-ratelimit-remaining-requests": "9999",
        "x-ratelimit-reset-requests": "6ms",
        "x-ratelimit-limit-tokens": "2000000",
        "x-ratelimit-remaining-tokens": "1999500",
        "x-ratelimit-reset-tokens": "15ms",
    }


def models(created: int) -> bytes:
    entries = [_model_entry(name, created) for name in MODELS]
    return compact_json({"object": "list", "data": entries}).encode()


def _model_entry(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "simulator"}


def _model(body: bytes, headers: Mapping[str, str], target: str, created: int) -> bytes:
    """One model; every name exists here."""
    return encode_json(_model_entry(target.removeprefix("/models/"), created))


def _bad_key(key: str) -> BadRequest:
    excerpt = key if len(key) < 9 else f"{key[:4]}{'*' * (len(key) - 8)}{key[-4:]}"
    return BadRequest(
        f"Incorrect API key provided: {excerpt}. The simulator inside a server takes its token.",
        401,
        code="invalid_api_key",
        source=_KEYS,
    )


END = ProviderServer(
    name="openai_chat",
    base=FACTS.simulated,
    path=FACTS.path,
    takes=re.compile(FACTS.path),
    models_path="/models",
    key=key,
    parse=parse,
    frames=frames,
    whole=answer_body,
    error=error,
    error_frame=error_frame,
    kinds=KINDS,
    no_key=BadRequest(
        "You didn't provide an API key. You need to provide your API key in an Authorization "
        "header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        401,
        source=_KEYS,
    ),
    bad_key=_bad_key,
    headers=_headers,
    models=models,
    beside=(SideEndpoint("GET", re.compile("/models/.+"), _model),),
)
