"""Takes requests as Chat Completions does and encodes replies, streamed or whole. What is refused
stands in `refuse`.

https://platform.openai.com/docs/api-reference/chat/create
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from app.core.tools import FREEFORM, Tool
from app.protocols.openai_chat import FACTS, refuse
from app.protocols.openai_chat.request import READER
from app.protocols.request import member, model_request
from app.protocols.server import (
    FIRST_TOKEN_S,
    BadRequest,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    ProviderServer,
    ReplyBlock,
    SideEndpoint,
    Tag,
    compact,
    delta_pause,
    encoded,
    object_of,
    pieces,
    raw_input,
    tokens,
)

MODELS = ("gpt-simulated-1", "gpt-simulated-1-mini")
_STOP = {"calls": "tool_calls", "refusal": "content_filter"}
_KEYS = "OpenAI guide: Error codes"
_FINGERPRINT = "fp_simulator"


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """The request that `body` holds. Raises BadRequest in OpenAI's own words.

    Of `params` the end reads `choices` (how many answers), `logprobs` and `legacy` (the older
    dialect of functions), beside what the model reads.
    """
    data = object_of(body)
    refuse.check(data)
    today = _in_todays_words(data)
    tools = tuple(map(_tool, today.get("tools") or ()))
    refuse.check_offer(data, tools)
    request = model_request(READER, today, tools, _params(data), failures_in_text=True)
    input_tokens = tokens(compact([data["messages"], data.get("tools")]))
    return ParsedRequest(
        request, input_tokens, bool(member(data, "stream_options").get("include_usage"))
    )


def _in_todays_words(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body with tools, where it is in the older dialect: that has functions, and one call in a
    turn."""
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
    """The tool of an entry; the grammar of a free-form one stands one level deeper than with us."""
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
    """The stream of one answer, as often as it was asked for: one choice after the other."""
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
    """One choice: the role first, a call's id and name before its arguments."""
    usage: dict[str, Any] = {"usage": None} if parsed.include_usage else {}
    legacy, freeform = bool(parsed.request.params.get("legacy")), _freeform(parsed)

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
    for block in _sayable(reply, legacy):
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


def _sayable(reply: ModelReply, legacy: bool) -> Iterator[ReplyBlock]:
    """The older dialect has room for one call in a turn."""
    calls = 0
    for block in reply.blocks:
        calls += block.kind == "call"
        if not legacy or block.kind != "call" or calls == 1:
            yield block


def _freeform(parsed: ParsedRequest) -> frozenset[str]:
    return frozenset(tool.name for tool in parsed.request.tools if tool.format is not None)


def _logprobs(text: str, parsed: ParsedRequest) -> dict[str, Any] | None:
    """One made-up token for the whole piece; None where nobody asked."""
    if not text or not parsed.request.params.get("logprobs"):
        return None
    data = list(text.encode("utf-8", "backslashreplace"))
    token = {"token": text, "logprob": -0.25, "bytes": data, "top_logprobs": []}
    return {"content": [token], "refusal": None}


def _sse(chunk: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % encoded(chunk)


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
        case "thinking":  # the word of DeepSeek and others; OpenAI itself shows no reasoning here
            return {"reasoning_content": piece}
        case "call" if legacy:
            return {"function_call": {"arguments": piece}}
        case "call" if custom:
            return {"tool_calls": [{"index": place, "custom": {"input": piece}}]}
        case "call":
            return {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}


def whole(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
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
    return encoded(body | {"usage": _usage(reply, parsed)})


def _message(
    reply: ModelReply, parsed: ParsedRequest, stamp: IdSource, legacy: bool
) -> dict[str, Any]:
    freeform, calls = _freeform(parsed), [b for b in _sayable(reply, legacy) if b.kind == "call"]
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
    """The error body; the id of the request travels in a header alone."""
    return encoded(_error_object(problem))


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
    return compact({"object": "list", "data": entries}).encode()


def _model_entry(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "simulator"}


def _model(body: bytes, headers: Mapping[str, str], target: str, created: int) -> bytes:
    """One model; there is one of every name here."""
    return encoded(_model_entry(target.removeprefix("/models/"), created))


def _bad_key(key: str) -> BadRequest:
    excerpt = key if len(key) < 9 else f"{key[:4]}{'*' * (len(key) - 8)}{key[-4:]}"
    return BadRequest(
        f"Incorrect API key provided: {excerpt}. The simulator inside a server takes its token.",
        401,
        code="invalid_api_key",
        source=_KEYS,
    )


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

END = ProviderServer(
    name="openai_chat",
    base=FACTS.simulated,
    path=FACTS.path,
    takes=re.compile(FACTS.path),
    models_path="/models",
    key=key,
    parse=parse,
    frames=frames,
    whole=whole,
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
