"""Accepts requests like Gemini and encodes replies, streamed or whole. `refuse` has the checks.

Arguments are sent as a complete object. A call whose text is no JSON object cannot be encoded: like
the real server, the end then reports MALFORMED_FUNCTION_CALL, and the call is dropped.
https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, unquote

from playground.core.json_values import load_spelled, refuse_constant
from playground.core.tools import Tool
from playground.protocols.gemini import FACTS, limits
from playground.protocols.gemini.refuse import (
    COUNTED,
    FORMED,
    SIGNED_BY,
    camel_members,
    check,
    check_message,
    declared_tools,
    is_three,
)
from playground.protocols.gemini.request import READER
from playground.protocols.request import Body, member, model_request
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

TAKES = re.compile(r"/v1(?:beta|alpha)?(?=/\w+/[^/]+$)" + FACTS.path)
COUNTING = re.compile(r"/v1(?:beta|alpha)?/(?:models|tunedModels)/([^/:]+):countTokens")

MODELS = ("gemini-3-simulated", "gemini-2.5-simulated")
_STOP = {"stop": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
_KEYS = "https://ai.google.dev/gemini-api/docs/troubleshooting"
_LONG = ("minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength")

STATUSES: Mapping[int, tuple[str, str | None]] = {
    400: ("INVALID_ARGUMENT", None),
    401: ("UNAUTHENTICATED", None),
    403: ("PERMISSION_DENIED", None),
    404: ("NOT_FOUND", None),
    408: ("DEADLINE_EXCEEDED", None),
    409: ("ABORTED", None),
    429: ("RESOURCE_EXHAUSTED", None),
    500: ("INTERNAL", None),
    503: ("UNAVAILABLE", None),
    504: ("DEADLINE_EXCEEDED", None),
    529: ("UNAVAILABLE", None),
}


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """Parses a request body. Raises BadRequest in Gemini's own words.

    Model and method are in the path; without `alt=sse` a stream is one JSON array.
    """
    path, _, query = target.partition("?")
    match = TAKES.fullmatch(path)
    assert match is not None
    model, stream = unquote(match["model"]), match["method"] == "streamGenerateContent"
    as_array = stream and parse_qs(query).get("alt", [""])[-1] != "sse"
    parsed = _parse_data(object_of(body), model, stream)
    return replace(parsed, stream_type="application/json" if as_array else "")


def count(body: bytes, headers: Mapping[str, str], target: str, created: int = 0) -> bytes:
    """The response of countTokens: for contents alone, or a whole request."""
    match = COUNTING.fullmatch(target)
    assert match is not None
    data = camel_members(object_of(body), COUNTED)
    check_message(data, COUNTED)
    whole_request = data.get("generateContentRequest", data)
    input_tokens = _parse_data(whole_request, unquote(match[1]), stream=False).input_tokens
    details = [{"modality": "TEXT", "tokenCount": input_tokens}]
    return encode_json({"totalTokens": input_tokens, "promptTokensDetails": details})


def _parse_data(data: Any, model: str, stream: bool) -> ParsedRequest:
    body = camel_members(data)
    check(body, model)
    contents = [
        {**content, "parts": list(map(_with_plain_result, content["parts"]))}
        for content in body["contents"]
    ]
    tools = tuple(map(_tool, declared_tools(body)))
    request = model_request(READER, {**body, "contents": contents}, tools, _params(body))
    system_parts = member(body, "systemInstruction").get("parts", ())
    system = "\n".join(part.get("text", "") for part in system_parts)
    return ParsedRequest(
        replace(request, model=model, system=system, stream=stream),
        tokens(compact_json([data["contents"], data.get("tools"), system])),
    )


def _with_plain_result(part: Body) -> Body:
    """A part whose function result is under the one name that the reader knows: libraries use
    others, and an object may have further members."""
    if (given := part.get("functionResponse")) is None:
        return part
    value, word = given["response"], "output"
    if named := [name for name in ("output", "error") if name in value]:
        value, word = value[named[0]], named[0]
    elif len(value) == 1 and (name := next(iter(value))) in ("result", "return_value", "content"):
        value = value[name]
    text = value if isinstance(value, str) else compact_json(value)
    return {**part, "functionResponse": {**given, "response": {word: text}}}


def _tool(declared_tool: SentTool) -> Tool:
    schema = declared_tool.schema
    if "parameters" in declared_tool.members:
        schema = _json_schema(schema)
    return Tool(declared_tool.name, declared_tool.description, schema)


def _json_schema(schema: Body) -> dict[str, Any]:
    """Converts a valid OpenAPI schema to JSON Schema."""
    node = limits.camel_entry(schema)
    if "type" in node:
        node["type"] = limits.type_name(node["type"])
    for name in _LONG:
        if isinstance(node.get(name), str) and node[name].isdecimal():
            node[name] = int(node[name])  # Google writes 64-bit numbers as strings
    if "items" in node:
        node["items"] = _json_schema(node["items"])
    if "properties" in node:
        properties = node["properties"].items()
        node["properties"] = {name: _json_schema(below) for name, below in properties}
    if "anyOf" in node:
        node["anyOf"] = list(map(_json_schema, node["anyOf"]))
    return node


def _params(body: Body) -> dict[str, Any]:
    """The settings that the model uses. It always thinks; here thoughts are only shown or hidden.
    `format` is that of a structured answer: None for plain text."""
    config = member(body, "generationConfig")
    thinking, kind, form = member(config, "thinkingConfig"), config.get("responseMimeType"), None
    if kind in FORMED:
        schema = config.get("responseJsonSchema")
        if "responseSchema" in config:
            schema = _json_schema(config["responseSchema"])
        form = {"schema": schema, "bare": kind == "text/x.enum"}
    return {
        "max_tokens": config.get("maxOutputTokens"),
        "thinking": bool(thinking.get("includeThoughts")) and thinking.get("thinkingBudget") != 0,
        "format": form,
    }


def frames(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> Iterator[OutgoingFrame]:
    """The stream of one answer: events with CRLF line ends, or the elements of an array.

    There is no closing marker; the finish reason comes in an event of its own, with empty text.
    """
    chance, model = stamp.chance(), parsed.request.model
    as_array, first, text_chars, thought, calls = parsed.stream_type != "", True, 0, 0, 0

    def event(
        part: Mapping[str, Any], pause: float, tag: Tag, end: Mapping[str, Any], args: str = ""
    ) -> OutgoingFrame:
        nonlocal first
        usage = _usage(parsed, text_chars, thought, calls)
        text = _text(_response([part], end, usage, parsed, stamp), args, as_array)
        head = ("[" if first else ",\r\n") if as_array else "data: "
        wait, first = chance.uniform(*FIRST_TOKEN_S) if first else pause, False
        tail = ("]" if end else "") if as_array else "\r\n\r\n"
        return OutgoingFrame(_bytes(head + text + tail), wait, tag)

    for block in _encodable_blocks(reply):
        if block.kind == "call":
            part = _call(block, calls, parsed, stamp)
            text_chars, calls = text_chars + len(block.text), calls + 1
            yield event(part, 0.0, "args", {}, block.text)
            continue
        for piece in pieces(block, chance):
            if block.kind == "thinking":
                thought += len(piece)
            else:
                text_chars += len(piece)
            yield event(_prose(block, piece), delta_pause(block, chance), "text", {})
    signed = {"thoughtSignature": _signature(stamp)} if is_three(model) and not calls else {}
    yield event({"text": "", **signed}, 0.0, "finish", _finish(reply))


def answer_body(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
    """The response of generateContent."""
    parts: list[dict[str, Any]] = []
    args: list[str] = []
    blocks = _encodable_blocks(reply)
    for block in blocks:
        if block.kind == "call":
            parts.append(_call(block, len(args), parsed, stamp))
            args.append(block.text)
        else:
            parts.append(_prose(block, block.text))
    if is_three(parsed.request.model) and not args and parts:
        parts[-1]["thoughtSignature"] = _signature(stamp)
    thought = sum(len(block.text) for block in blocks if block.kind == "thinking")
    text_chars = sum(len(block.text) for block in blocks) - thought
    usage = _usage(parsed, text_chars, thought, len(args))
    text = json.dumps(
        _response(parts, _finish(reply), usage, parsed, stamp), ensure_ascii=False, indent=2
    )
    for place, argument in enumerate(args):
        text = text.replace(f'"{_place(stamp, place)}"', argument, 1)
    return _bytes(text + "\n")


# Parts.


def _encodable_blocks(reply: ModelReply) -> tuple[ReplyBlock, ...]:
    """The blocks; without calls if one of these cannot be encoded."""
    broken = _malformed_call(reply)
    if broken is None:
        return reply.blocks
    if reply.stop == "length":  # drops the cut call only
        return tuple(
            block for block in reply.blocks if block.kind != "call" or _is_object(block.text)
        )
    return tuple(block for block in reply.blocks if block.kind != "call")


def _malformed_call(reply: ModelReply) -> ReplyBlock | None:
    return next((block for block in reply.calls if not _is_object(block.text)), None)


def _is_object(text: str) -> bool:
    if not text:
        return True
    try:
        # Oversized numbers are kept as text; NaN is invalid.
        value = load_spelled(text, parse_constant=refuse_constant)
    except ValueError:
        return False
    return isinstance(value, dict)


def _prose(block: ReplyBlock, text: str) -> dict[str, Any]:
    return {"text": text, "thought": True} if block.kind == "thinking" else {"text": text}


def _call(block: ReplyBlock, place: int, parsed: ParsedRequest, stamp: IdSource) -> dict[str, Any]:
    """A call with a unique placeholder for its arguments, which are copied exactly. For Gemini 3 it
    has an id, and the first one of a step is signed."""
    call: dict[str, Any] = {"name": block.name}
    if block.text:
        call["args"] = _place(stamp, place)
    if not is_three(parsed.request.model):
        return {"functionCall": call}
    part: dict[str, Any] = {"functionCall": call | {"id": stamp.id("", place, 8).lower()}}
    return part if place else part | {"thoughtSignature": _signature(stamp)}


def _place(stamp: IdSource, place: int) -> str:
    return stamp.id("args-", place, 32)


def _signature(stamp: IdSource) -> str:
    """Opaque to the client; checked only for the simulator's prefix, not for its content."""
    return b64encode(SIGNED_BY + stamp.id("", 0, 20).encode()).decode()


# Around the parts.


def _response(
    parts: list[Any],
    end: Mapping[str, Any],
    usage: Mapping[str, Any],
    parsed: ParsedRequest,
    stamp: IdSource,
) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, **end, "index": 0}
    if end.get("finishReason") == "MALFORMED_FUNCTION_CALL":
        candidate["content"] = {}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": parsed.request.model,
        "responseId": stamp.id("", 0, 23),
    }


def _text(value: Mapping[str, Any], args: str, as_array: bool) -> str:
    """The text of an event: on one line, or, in the array, over many. The arguments of its one call
    are copied exactly; line ends between their members become spaces."""
    json_text = json.dumps(value, ensure_ascii=False, indent=2) if as_array else compact_json(value)
    (part,) = value["candidates"][0]["content"].get("parts", [{}])
    place = part.get("functionCall", {}).get("args")
    line = args.replace("\r", " ").replace("\n", " ")
    return json_text.replace(f'"{place}"', line, 1) if place else json_text


def _finish(reply: ModelReply) -> dict[str, Any]:
    broken = _malformed_call(reply)
    if broken is not None and reply.stop != "length":
        message = f"Malformed function call: {broken.name}({broken.text[:200]})"
        return {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": message}
    reason = {"finishReason": _STOP.get(reply.stop, reply.stop)}
    if reply.stop == "calls":
        return reason | {"finishMessage": "Model generated function call(s)."}
    return reason


def _usage(parsed: ParsedRequest, text_chars: int, thought: int, calls: int) -> dict[str, Any]:
    """`text_chars` and `thought` are in characters; thoughts are separate, as at Gemini."""
    prompt_tokens, answer_tokens, thought = (
        parsed.input_tokens,
        (text_chars + 3) // 4 + 8 * calls,
        (thought + 3) // 4,
    )
    usage: dict[str, Any] = {"promptTokenCount": prompt_tokens}
    if answer_tokens:
        usage["candidatesTokenCount"] = answer_tokens
    usage["totalTokenCount"] = prompt_tokens + answer_tokens + thought
    usage["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": prompt_tokens}]
    return usage | ({"thoughtsTokenCount": thought} if thought else {})


def _bytes(text: str) -> bytes:
    # A lone surrogate is inside a string: its escape is valid JSON there.
    return text.encode("utf-8", "backslashreplace")


# Errors, keys and models.


def error(problem: BadRequest, request_id: str) -> bytes:
    """The error body, indented as Google writes it."""
    known = STATUSES.get(problem.status, STATUSES[400])[0]
    body: dict[str, Any] = {
        "code": problem.status,
        "message": str(problem),
        "status": problem.kind if problem.kind.isupper() else known,
    }
    if details := list(_details(problem)):
        body["details"] = details
    return json.dumps({"error": body}, indent=2).encode() + b"\n"


def _details(problem: BadRequest) -> Iterator[dict[str, Any]]:
    """The details in which Google sends what others send in headers."""
    rpc = "type.googleapis.com/google.rpc."
    if problem.retry_s is not None:
        yield {"@type": f"{rpc}RetryInfo", "retryDelay": f"{problem.retry_s}s"}
    if problem.param is not None:
        violation = {"field": problem.param, "description": str(problem)}
        yield {"@type": f"{rpc}BadRequest", "fieldViolations": [violation]}
    if problem.code is not None:
        about = {"reason": problem.code, "domain": "googleapis.com"}
        yield {"@type": f"{rpc}ErrorInfo", **about}


def error_frame(problem: BadRequest) -> bytes:
    """The error in a stream that has begun: like the real server's, bare JSON among the events."""
    return error(problem, "")


def key(headers: Mapping[str, str]) -> str:
    """`x-goog-api-key`, or a bearer token as on Vertex; the app reads `?key=`."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    return headers.get("x-goog-api-key", "") or (bearer.strip() if scheme == "Bearer" else "")


def _headers(request_id: str) -> Mapping[str, str]:
    return {"server-timing": "gfet4t7; dur=250"}


def models(created: int) -> bytes:
    return encode_json({"models": [_model_entry(name) for name in MODELS]})


def _model(body: bytes, headers: Mapping[str, str], target: str, created: int) -> bytes:
    """One model; every name exists here."""
    return encode_json(_model_entry(target.rpartition("/")[2]))


def _model_entry(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name.replace("-", " ").title(),
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": True,
    }


END = ProviderServer(
    name="gemini",
    base=FACTS.simulated,
    path=f"/v1beta/models/{MODELS[0]}:generateContent",
    takes=TAKES,
    models_path="/v1beta/models",
    key=key,
    parse=parse,
    frames=frames,
    whole=answer_body,
    error=error,
    error_frame=error_frame,
    kinds=STATUSES,
    no_key=BadRequest(
        "Method doesn't allow unregistered callers (callers without established identity). Please "
        "use API Key or other form of API consumer identity to call this API.",
        403,
        kind="PERMISSION_DENIED",
        source=_KEYS,
    ),
    bad_key=lambda key: BadRequest(
        "API key not valid. Please pass a valid API key.",
        kind="INVALID_ARGUMENT",
        code="API_KEY_INVALID",
        source=_KEYS,
    ),
    headers=_headers,
    models=models,
    key_param="key",
    waits_in_body=True,
    beside=(
        SideEndpoint("POST", COUNTING, count),
        SideEndpoint(
            "GET", re.compile(r"/v1(?:beta|alpha)?/(?:models|tunedModels)/[^/:]+"), _model
        ),
    ),
)
