"""Accepts requests like Anthropic Messages and encodes replies, streamed or whole. `refuse` has the
checks.

https://docs.anthropic.com/en/api/messages
https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

from playground.core.json_values import load_spelled
from playground.core.tools import Tool
from playground.protocols.anthropic import FACTS
from playground.protocols.anthropic.refuse import answer_form, check, signature_of
from playground.protocols.anthropic.request import READER
from playground.protocols.request import dicts, member, model_request
from playground.protocols.server import (
    FIRST_TOKEN_S,
    BadRequest,
    Citation,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    ProviderServer,
    ReplyBlock,
    SideEndpoint,
    Tag,
    compact_json,
    delta_pause,
    encode_json,
    object_of,
    pieces,
    tokens,
)

MODELS = ("claude-simulated-1", "claude-simulated-1-mini")
_STOP = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens"}
_DELTAS: dict[str, tuple[str, str, Tag]] = {
    "text": ("text_delta", "text", "text"),
    "thinking": ("thinking_delta", "thinking", "text"),
    "call": ("input_json_delta", "partial_json", "args"),
}
_NOT_COUNTED = ("max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences")
_NO_LIMIT = 1 << 40
_VERSIONS = Citation("Anthropic API reference: Versions")
_COUNTS = Citation("Anthropic API reference: Count tokens in a Message", inferred=True)

_KINDS: Mapping[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("authentication_error", None),
    402: ("billing_error", None),
    403: ("permission_error", None),
    404: ("not_found_error", None),
    409: ("conflict_error", None),
    413: ("request_too_large", None),
    429: ("rate_limit_error", None),
    500: ("api_error", None),
    503: ("api_error", None),
    504: ("timeout_error", None),
    529: ("overloaded_error", None),
}


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """Parses a request body. Raises BadRequest in Anthropic's own words."""
    return _parse_data(_data(body, headers))


def count(body: bytes, headers: Mapping[str, str], target: str = "", created: int = 0) -> bytes:
    """Answers a token count request, which is parsed like a message."""
    data = _data(body, headers)
    for name in _NOT_COUNTED:
        if name in data:
            raise _COUNTS.refusal(f"{name}: Extra inputs are not permitted")
    parsed = _parse_data({**data, "max_tokens": _NO_LIMIT})
    return encode_json({"input_tokens": parsed.input_tokens})


def _data(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    if not headers.get("anthropic-version"):
        raise _VERSIONS.refusal("anthropic-version: header is required")
    return object_of(body)


def _parse_data(data: Mapping[str, Any]) -> ParsedRequest:
    check(data)
    entries = (tool for tool in dicts(data.get("tools")) if tool.get("type", "custom") == "custom")
    params = {
        "max_tokens": data["max_tokens"],
        "thinking": member(data, "thinking").get("type", "disabled") != "disabled",
        "format": answer_form(data)[1],
    }
    request = model_request(READER, data, tuple(map(_tool, entries)), params)
    spent = tokens(compact_json([data["messages"], data.get("tools"), request.system]))
    return ParsedRequest(request, spent)


def _tool(entry: Mapping[str, Any]) -> Tool:
    return Tool(
        entry["name"],
        entry.get("description", ""),
        entry["input_schema"],
        strict=bool(entry.get("strict")),
        eager=bool(entry.get("eager_input_streaming")),
    )


def _frame(event: Mapping[str, Any], pause: float = 0.0, tag: Tag = "other") -> OutgoingFrame:
    return OutgoingFrame(_sse(event), pause, tag)


def _sse(event: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), encode_json(event))


def frames(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> Iterator[OutgoingFrame]:
    """The stream of one answer, in Anthropic's framing: a ping follows the first block's start."""
    chance = stamp.chance()
    message = _message(parsed, stamp) | {"content": [], "stop_reason": None}
    message["usage"] = _usage(parsed, 1)
    start = {"type": "message_start", "message": message}
    yield _frame(start, chance.uniform(*FIRST_TOKEN_S), "start")
    for index, block in enumerate(reply.blocks):
        content_block = _block(block, index, stamp, whole=False)
        yield _frame(
            {"type": "content_block_start", "index": index, "content_block": content_block}
        )
        if index == 0:
            yield _frame({"type": "ping"})
        yield from _deltas(block, index, stamp, chance)
        yield _frame({"type": "content_block_stop", "index": index})
    yield _frame(
        {
            "type": "message_delta",
            "delta": {"stop_reason": _stop_reason(reply), "stop_sequence": None},
            "usage": {"input_tokens": parsed.input_tokens, "output_tokens": _output_tokens(reply)},
        },
        tag="finish",
    )
    yield _frame({"type": "message_stop"}, tag="marker")


def _deltas(
    block: ReplyBlock, index: int, stamp: IdSource, chance: Random
) -> Iterator[OutgoingFrame]:
    kind, field, tag = _DELTAS[block.kind]
    if block.kind == "call":
        yield _frame(_delta(index, {"type": kind, field: ""}), tag="args")
    for piece in pieces(block, chance):
        yield _frame(_delta(index, {"type": kind, field: piece}), delta_pause(block, chance), tag)
    if block.kind == "thinking":
        signature = {"type": "signature_delta", "signature": signature_of(block.text)}
        yield _frame(_delta(index, signature))


def _delta(index: int, delta: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _block(block: ReplyBlock, index: int, stamp: IdSource, *, whole: bool) -> dict[str, Any]:
    """A block in a JSON answer, or at its start in a stream; a call's `input` is empty."""
    text = block.text if whole else ""
    match block.kind:
        case "text":
            return {"type": "text", "text": text}
        case "thinking":
            signature = signature_of(block.text) if whole else ""
            return {"type": "thinking", "thinking": text, "signature": signature}
        case "call":
            return {
                "type": "tool_use",
                "id": stamp.id("toolu_01", index, 22),
                "name": block.name,
                "input": {},
            }


def _whole_block(block: ReplyBlock, index: int, stamp: IdSource) -> str:
    """The JSON text of a block; a call's arguments are copied exactly."""
    value = _block(block, index, stamp, whole=True)
    if block.kind != "call":
        return compact_json(value)
    return compact_json(value).removesuffix("{}}") + _input(block.text) + "}"


def _input(text: str) -> str:
    """Arguments for a JSON answer; invalid JSON can only be written as a string."""
    try:
        load_spelled(text or "{}")
    except ValueError:
        return compact_json(text)
    return text or "{}"


def answer_body(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
    """The answer to a request with `stream` false."""
    message = _message(parsed, stamp) | {"stop_reason": _stop_reason(reply)}
    head = compact_json(message | {"usage": _usage(parsed, _output_tokens(reply))})
    content = ",".join(_whole_block(block, i, stamp) for i, block in enumerate(reply.blocks))
    text = f'{head[:-1]},"content":[{content}]}}'
    # A lone surrogate is inside a string: its escape is valid JSON there.
    return text.encode("utf-8", "backslashreplace")


def _message(parsed: ParsedRequest, stamp: IdSource) -> dict[str, Any]:
    return {
        "id": stamp.id("msg_01", 0, 22),
        "type": "message",
        "role": "assistant",
        "model": parsed.request.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(parsed: ParsedRequest, output_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": parsed.input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
        "service_tier": "standard",
    }


def _stop_reason(reply: ModelReply) -> str:
    return _STOP.get(reply.stop, reply.stop)


def _output_tokens(reply: ModelReply) -> int:
    return sum(tokens(block.text) + (12 if block.kind == "call" else 0) for block in reply.blocks)


def _error_object(problem: BadRequest) -> dict[str, Any]:
    return {"type": "error", "error": {"type": problem.kind, "message": str(problem)}}


def error(problem: BadRequest, request_id: str) -> bytes:
    return encode_json(_error_object(problem) | {"request_id": request_id})


def error_frame(problem: BadRequest) -> bytes:
    """The error as an event of a stream that has begun."""
    return _sse(_error_object(problem))


def key(headers: Mapping[str, str]) -> str:
    """`x-api-key`, or a bearer token as used with OAuth."""
    bearer = headers.get("authorization", "")
    return headers.get("x-api-key", "") or bearer.removeprefix("Bearer ").strip()


def _headers(request_id: str) -> Mapping[str, str]:
    limits = {
        "requests": (4000, 3999),
        "input-tokens": (400000, 399000),
        "tokens": (480000, 478000),
    }
    rate_limits = {
        f"anthropic-ratelimit-{what}-{word}": str(value)
        for what, pair in limits.items()
        for word, value in zip(("limit", "remaining"), pair, strict=True)
    }
    return {"request-id": request_id, "anthropic-organization-id": "simulator", **rate_limits}


def models(created: int) -> bytes:
    entries = [_model_entry(name) for name in MODELS]
    page = {"data": entries, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
    return compact_json(page).encode()


def _model_entry(name: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
    }


def _model(body: bytes, headers: Mapping[str, str], target: str, created: int) -> bytes:
    """One model; every name exists here."""
    return encode_json(_model_entry(target.rpartition("/")[2]))


def _unauthorised(sentence: str) -> BadRequest:
    source = "Anthropic API reference: Errors"
    return BadRequest(sentence, 401, kind="authentication_error", source=source)


END = ProviderServer(
    name="anthropic",
    base=FACTS.simulated,
    path=FACTS.path,
    takes=re.compile(FACTS.path),
    models_path="/v1/models",
    key=key,
    parse=parse,
    frames=frames,
    whole=answer_body,
    error=error,
    error_frame=error_frame,
    kinds=_KINDS,
    no_key=_unauthorised("x-api-key header is required"),
    bad_key=lambda key: _unauthorised("invalid x-api-key"),
    headers=_headers,
    models=models,
    beside=(
        SideEndpoint("POST", re.compile("/v1/messages/count_tokens"), count),
        SideEndpoint("GET", re.compile("/v1/models/[^/]+"), _model),
    ),
)
