"""Accepts requests like Ollama's chat API and encodes replies, streamed or whole. `limits` has the
checks, except those for capabilities of models.

https://docs.ollama.com/api/chat
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from playground.core.json_values import load_spelled, refuse_constant
from playground.core.tools import NO_PARAMETERS, Tool
from playground.protocols.ollama import FACTS, limits
from playground.protocols.ollama.limits import ROUTES
from playground.protocols.ollama.request import READER
from playground.protocols.request import member, model_request
from playground.protocols.server import (
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
    compact_json,
    delta_pause,
    encode_json,
    object_of,
    pieces,
    tokens,
)
from playground.protocols.tool_limits import SentTool

NO_TOOLS, NO_THINKING = "-no-tools", "-no-thinking"
"""Name suffixes of the simulator's models that lack a capability."""
MODELS = ("simulated:8b", "simulated-mini:1b", f"simulated{NO_TOOLS}")
_STOP = {"calls": "stop", "refusal": "stop"}
"""Ollama has one word for a complete answer, with or without calls."""
_FIELDS = {"text": "content", "thinking": "thinking"}
_VERSION = "0.12.6"
_NS = 1_000_000_000

_ANY: tuple[str, str | None] = ("", None)


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """Parses a request body. Raises BadRequest in Ollama's own words.

    A request without messages only loads the model: its param `load` is set.
    """
    if not body.strip():
        raise ROUTES.refusal("missing request body")
    data = object_of(body)
    limits.check(data)
    if not (model := data.get("model")):
        raise ROUTES.refusal("model is required")
    tools = tuple(map(_tool, data.get("tools") or ()))
    limits.LIMITS.check([SentTool.from_tool(tool) for tool in tools])
    if tools and model.endswith(NO_TOOLS):
        raise ROUTES.refusal(f"registry.ollama.ai/library/{model} does not support tools")
    if data.get("think") and model.endswith(NO_THINKING):
        raise ROUTES.refusal(f'"{model}" does not support thinking')
    messages = [_with_known_role(message) for message in data.get("messages") or ()]
    request = model_request(
        READER, {**data, "messages": messages}, tools, _params(data), failures_in_text=True
    )
    return ParsedRequest(
        replace(request, stream=request.stream and bool(messages)),
        tokens(compact_json([data.get("messages"), data.get("tools")])),
    )


def _tool(entry: Mapping[str, Any]) -> Tool:
    function = member(entry, "function")
    schema = function.get("parameters")
    return Tool(
        function.get("name") or "",
        function.get("description") or "",
        NO_PARAMETERS if schema is None else schema,
    )


def _with_known_role(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message as templates read it: they treat an unknown role as user."""
    role = str(message.get("role") or "").lower()
    return {**message, "role": role if role in ("system", "assistant", "tool") else "user"}


def _params(data: Mapping[str, Any]) -> dict[str, Any]:
    most, form = member(data, "options").get("num_predict") or 0, data.get("format")
    return {
        "max_tokens": int(most) if most > 0 else None,
        "thinking": bool(data.get("think")),
        "format": None if form in (None, "") else {} if form == "json" else {"schema": form},
        "load": not data.get("messages"),
    }


def frames(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> Iterator[OutgoingFrame]:
    """The stream of one answer: a line for each delta, each call, and the end."""
    chance = stamp.chance()
    first = chance.uniform(*FIRST_TOKEN_S)
    place = 0
    for block in _encodable_blocks(reply):
        if block.kind == "call":
            line = _line(parsed, stamp, f'"content":"","tool_calls":[{_call(block, place, stamp)}]')
            yield OutgoingFrame(line, first + delta_pause(block, chance), "args")
            place, first = place + 1, 0.0
            continue
        for piece in pieces(block, chance):
            message = {"content": "", _FIELDS[block.kind]: piece}
            tag: Tag = "text"
            pause = first + delta_pause(block, chance)
            yield OutgoingFrame(_line(parsed, stamp, compact_json(message)[1:-1]), pause, tag)
            first = 0.0
    end = compact_json(_end(reply, parsed, stamp))[1:-1]
    yield OutgoingFrame(_line(parsed, stamp, '"content":""', end), first, "finish")


def answer_body(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
    """The answer to a request with `stream` false."""
    if parsed.request.params.get("load"):
        return _line(parsed, stamp, '"content":""', '"done_reason":"load","done":true')
    blocks = _encodable_blocks(reply)
    text = "".join(block.text for block in blocks if block.kind == "text")
    thought = "".join(block.text for block in blocks if block.kind == "thinking")
    message = {"content": text} | ({"thinking": thought} if thought else {})
    calls = [block for block in blocks if block.kind == "call"]
    calls_text = ",".join(_call(block, place, stamp) for place, block in enumerate(calls))
    whole_message = compact_json(message)[1:-1] + (f',"tool_calls":[{calls_text}]' if calls else "")
    return _line(parsed, stamp, whole_message, compact_json(_end(reply, parsed, stamp))[1:-1])


def _encodable_blocks(reply: ModelReply) -> tuple[ReplyBlock, ...]:
    """The blocks as Ollama can encode them: an unreadable call becomes text."""
    return tuple(block if _is_call(block) else _call_as_text(block) for block in reply.blocks)


def _is_call(block: ReplyBlock) -> bool:
    if block.kind != "call" or not block.text:
        return True
    try:
        # Oversized numbers are kept as text; NaN is invalid.
        value = load_spelled(block.text, parse_constant=refuse_constant)
    except ValueError:
        return False
    return isinstance(value, dict)


def _call_as_text(block: ReplyBlock) -> ReplyBlock:
    text = f'{{"name": {compact_json(block.name)}, "arguments": {block.text}}}'
    return ReplyBlock("text", text, piece=block.piece)


def _call(block: ReplyBlock, place: int, stamp: IdSource) -> str:
    """The JSON text of a call; its arguments are copied exactly."""
    head = compact_json({"index": place, "name": block.name})[:-1]
    id_ = compact_json(stamp.id("call_", place, 8).lower())
    return f'{{"id":{id_},"function":{head},"arguments":{block.text or "{}"}}}}}'


def _line(parsed: ParsedRequest, stamp: IdSource, message: str, end: str = '"done":false') -> bytes:
    """A line with these members in the message, and these after it."""
    at = datetime.fromtimestamp(stamp.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    head = compact_json({"model": parsed.request.model, "created_at": at})[:-1]
    text = f'{head},"message":{{"role":"assistant",{message}}},{end}}}\n'
    # A lone surrogate is inside a string: its escape is valid JSON there.
    return text.encode("utf-8", "backslashreplace")


def _end(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> dict[str, Any]:
    output_tokens = sum(
        tokens(block.text) + (8 if block.kind == "call" else 0) for block in reply.blocks
    )
    prompt_ns, answer_ns = parsed.input_tokens * _NS // 1000, output_tokens * _NS // 50
    return {
        "done_reason": _STOP.get(reply.stop, reply.stop),
        "done": True,
        "total_duration": prompt_ns + answer_ns + _NS // 20,
        "load_duration": _NS // 20,
        "prompt_eval_count": parsed.input_tokens,
        "prompt_eval_duration": prompt_ns,
        "eval_count": output_tokens,
        "eval_duration": answer_ns,
    }


def error(problem: BadRequest, request_id: str) -> bytes:
    """Just a sentence; Ollama's responses have no id."""
    return encode_json({"error": str(problem)})


def error_frame(problem: BadRequest) -> bytes:
    """The error as a line of a stream that has begun."""
    return encode_json({"error": str(problem)}) + b"\n"


def key(headers: Mapping[str, str]) -> str:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


def _headers(request_id: str) -> Mapping[str, str]:
    return {}


def models(created: int) -> bytes:
    at = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return compact_json({"models": [_model_entry(name, at) for name in MODELS]}).encode()


def _model_details(body: bytes, headers: Mapping[str, str], target: str, created: int) -> bytes:
    """The response of /api/show; every model name exists here."""
    data = object_of(body)
    name = data.get("model") or data.get("name")
    if not isinstance(name, str) or not name:
        raise ROUTES.refusal("model is required")
    at = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = _model_entry(name, at)
    members = {key: entry[key] for key in ("details", "modified_at", "capabilities")}
    architecture = {"general.architecture": "simulated", "simulated.context_length": 131_072}
    return encode_json({"license": "", "template": "", "model_info": architecture, **members})


def _model_entry(name: str, at: str) -> dict[str, Any]:
    tools = [] if name.endswith(NO_TOOLS) else ["tools"]
    details = {
        "format": "gguf",
        "family": "simulated",
        "families": ["simulated"],
        "parameter_size": "8.0B",
        "quantization_level": "Q4_K_M",
    }
    return {
        "name": name,
        "model": name,
        "modified_at": at,
        "size": 4_700_000_000,
        "digest": "0" * 64,
        "details": details,
        "capabilities": ["completion", *tools, "thinking"],
    }


END = ProviderServer(
    name="ollama",
    base=FACTS.simulated,
    path=FACTS.path,
    takes=re.compile(FACTS.path),
    models_path="/api/tags",
    key=key,
    parse=parse,
    frames=frames,
    whole=answer_body,
    error=error,
    error_frame=error_frame,
    kinds={400: _ANY, 404: _ANY},
    no_key=None,
    bad_key=lambda key: BadRequest("unauthorized", 401, source=ROUTES.words),
    headers=_headers,
    models=models,
    stream_type="application/x-ndjson",
    beside=(
        SideEndpoint(
            "GET", re.compile("/api/version"), lambda *_: encode_json({"version": _VERSION})
        ),
        SideEndpoint("GET", re.compile("/api/ps"), lambda *_: encode_json({"models": []})),
        SideEndpoint("POST", re.compile("/api/show"), _model_details),
    ),
)
