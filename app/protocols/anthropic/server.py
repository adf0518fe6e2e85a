"""Accepts requests like Anthropic Messages, refuses what it refuses with the same status, type and
words, and encodes replies, streamed or whole.

A table defines the shape of a body; functions check relations between members or messages. Limits
for tools are in `limits`. https://docs.anthropic.com/en/api/messages
https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import Any

from app.core.late import dataclass
from app.core.tools import Tool
from app.protocols.anthropic import FACTS, limits
from app.protocols.anthropic.request import READER
from app.protocols.limits import SentTool
from app.protocols.request import dicts, member, model_request, placed
from app.protocols.server import (
    ANY,
    FIRST_TOKEN_S,
    BadRequest,
    Citation,
    IdSource,
    ModelReply,
    OutgoingFrame,
    ParsedRequest,
    Phrases,
    ProviderServer,
    ReplyBlock,
    Shape,
    SideEndpoint,
    Tag,
    check_shape,
    compact,
    delta_pause,
    encoded,
    must,
    object_of,
    pieces,
    tokens,
)

_TOOLS = limits.REFERENCE
_REFERENCE = Citation("Anthropic API reference: Messages")
_ASSUMED = Citation("Anthropic API reference: Messages", inferred=True)
_CONTENT = Citation("Anthropic API reference: Messages, content")
_CONTENT_ASSUMED = Citation("Anthropic API reference: Messages, content", inferred=True)
_BETAS = Citation("Anthropic API reference: Beta headers", inferred=True)
_THINKING = Citation("Anthropic docs: Building with extended thinking")
_TEMPERATURE = Citation("https://github.com/mnfst/modelparams.dev/issues/214")
_TOP_P = Citation("Anthropic docs: Building with extended thinking", inferred=True)
_TOP_K = Citation("https://github.com/quarkiverse/quarkus-langchain4j/issues/1812")
_UNANSWERED = Citation("https://github.com/anthropics/claude-code/issues/8210")
_UNKNOWN_ID = Citation("https://github.com/tghamm/Anthropic.SDK/issues/184")
_RESULTS_FIRST = Citation("docs/wire.md, section 1: results stand before any text", inferred=True)
_FORMAT = Citation("Anthropic docs: Structured outputs", inferred=True)
_SYSTEM = Citation("types of anthropic-python: BetaSystemMessageParam", inferred=True)
_EMPTY = Citation("docs/wire.md, section 1: empty text is refused", inferred=True)
_IMAGES = Citation("Anthropic docs: Vision")
_INPUT = Citation("docs/wire.md, section 1: input must be an object", inferred=True)
_MODIFIED = Citation("https://github.com/anthropics/claude-code/issues/63284")
_ALL_TEXT = Citation("https://github.com/vellum-ai/vellum-assistant/pull/18387")
_UNCALLED = Citation("https://github.com/anthropics/claude-code/issues/95406")
_UNSERVED = Citation("Anthropic docs: Server tools, pause_turn", inferred=True)
_FOREIGN = Citation("https://github.com/anthropics/anthropic-sdk-python/issues/1598")
_MANY_CACHED = Citation("https://github.com/agentjido/req_llm/issues/480")
_DEFERRED = Citation("https://github.com/microsoft/vscode/issues/311946")

_MOST_CACHED = 4
_MOST_IMAGE = 5 * 1024 * 1024
_LEAST_TOP_P = 0.95


# The shape of a body. A type's name is the error message for a value of another type.


@dataclass(frozen=True)
class _Says(Phrases):
    source: Citation

    def wrong(self, value: Any, where: str, shape: Shape) -> BadRequest:
        return self.source.refusal(f"{where}: {shape.name}")

    def missing(self, where: str, shape: Shape) -> BadRequest:
        return self.source.refusal(f"{where}: {_NEEDED}")

    def unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        return self.source.refusal(f"{self.join(where, name)}: Extra inputs are not permitted")

    def within(self, where: str, shape: Shape, kind: str = "") -> str:
        return f"{where}.{kind}" if kind and shape.tag == "type" else where


_NEEDED = "Field required"
_LIST = "Input should be a valid list"
_OBJECT = "Input should be a valid dictionary"
_NO_TEXT = "text content blocks must be non-empty"
_OF_SYSTEM = ("text", "tool_addition", "tool_removal")
_MEDIA = ("image/jpeg", "image/png", "image/gif", "image/webp")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def _that(
    holds: Callable[[Any], object], words: str, source: Citation = _CONTENT, **more: Any
) -> Shape:
    """A rule that `holds` of a value; `words` follow its place in the message, or are the
    message."""
    words = words if words.startswith("messages") else "{where}" + words
    return Shape(rules=(must(holds, words, source),), **more)


def _kind(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else None


def _is_base64(data: str) -> bool:
    try:
        return bool(b64decode(data, validate=True))
    except ValueError:
        return False


def _is_source(source: Mapping[str, Any]) -> bool:
    match source:
        case {"type": "url", "url": str()} | {"type": "base64", "media_type": _, "data": str()}:
            return True
    return False


def _is_plain_failure(block: Mapping[str, Any]) -> bool:
    return all(piece.get("type") != "image" for piece in dicts(block.get("content")))


def _image_size(source: Mapping[str, Any], where: str) -> BadRequest | None:
    if (size := len(source["data"])) <= _MOST_IMAGE:
        return None
    return _IMAGES.refusal(
        f"{where}: image exceeds 5 MB maximum: {size} bytes > {_MOST_IMAGE} bytes"
    )


def _call_name(value: Any, where: str) -> None:
    """Checks a call's name like a tool's."""
    words = {"where": where.removesuffix(".name")}
    limits.LIMITS.check_tool(SentTool(value if isinstance(value, str) else "", "", {}, words=words))


def _system_kind(block: Any, where: str) -> BadRequest | None:
    if (kind := _kind(block)) in _OF_SYSTEM:
        return None
    return _SYSTEM.refusal(
        f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
        f"{', '.join(map(repr, _OF_SYSTEM))}"
    )


# fmt: off
_FLAG = Shape(bool, "Input should be a valid boolean")
_STRING = Shape(str, "Input should be a valid string")
_CACHE = _that(lambda value: value is None or _kind(value) == "ephemeral",
    ".type: Input should be 'ephemeral'", _TOOLS)
_WORDS = _that(lambda block: block.get("text"), f"messages: {_NO_TEXT}", _EMPTY)
_BASE64 = Shape(rules=(_image_size,), members={
    "media_type": _that(lambda value: value in _MEDIA,
        ": Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'", _IMAGES),
    "data": _that(_is_base64, ": Invalid base64 data", _CONTENT_ASSUMED),
})
_SOURCE = _that(_is_source,
    ": Input tag found does not match any of the expected tags: 'base64', 'file', 'url'",
    kind=dict, name=_NEEDED, variants={"base64": _BASE64})
_IMAGE = Shape(required=("source",), members={"source": _SOURCE})
_PIECE = _that(_kind, f".type: {_NEEDED}", variants={"text": _WORDS, "image": _IMAGE})
_RESULT = _that(lambda block: block.get("is_error") is not True or _is_plain_failure(block),
    ": all content must be type 'text' if 'is_error' is true", _ALL_TEXT,
    required=("tool_use_id",), members={
        "tool_use_id": Shape(str, _NEEDED), "content": Shape((str, list), _LIST, each=_PIECE)})
_CALL = Shape(required=("id", "name", "input"), members={
    "id": _that(lambda value: isinstance(value, str) and _ID.fullmatch(value),
        ": String should match pattern '^[a-zA-Z0-9_-]+$'"),
    "name": Shape(rules=(_call_name,)),
    "input": Shape(dict, _OBJECT, phrases=_Says(_INPUT)),
})
_BLOCK = _that(lambda block: isinstance(_kind(block), str), f".type: {_NEEDED}",
    members={"cache_control": _CACHE}, variants={
        "text": _that(lambda block: isinstance(text := block.get("text"), str) and text.strip(),
            f"messages: {_NO_TEXT}", _EMPTY),
        "image": _IMAGE,
        "tool_use": _CALL,
        "tool_result": _RESULT,
        "thinking": _that(lambda it: isinstance(it.get("signature"), str) and "thinking" in it,
            f".signature: {_NEEDED}", members={"thinking": _STRING}),
        "redacted_thinking": _that(lambda it: isinstance(it.get("data"), str) and it["data"],
            f".data: {_NEEDED}"),
    })
_SPOKEN = _that(lambda message: isinstance(message.get("content"), str | list),
    f".content: {_LIST}", members={"content": Shape(each=_BLOCK)}, phrases=_Says(_CONTENT))
_SYSTEM_BLOCK = Shape(rules=(_system_kind,), variants={"text": _WORDS})
_SYSTEM_MESSAGE = Shape(members={
    "content": Shape((str, list), _LIST, null=True, each=_SYSTEM_BLOCK)})
_MESSAGES = {"user": _SPOKEN, "assistant": _SPOKEN, "system": _SYSTEM_MESSAGE}
_MESSAGE = _that(lambda value: isinstance(value, dict) and str(value.get("role")) in _MESSAGES,
    ".role: Input should be 'user', 'assistant' or 'system'", _REFERENCE,
    tag="role", variants=_MESSAGES)
_TOOL = Shape(required=("name", "input_schema"), members={
    "name": Shape(str, _NEEDED),
    "input_schema": _that(lambda value: value is not None, f": {_NEEDED}", _TOOLS,
        kind=(dict, type(None)), name=_OBJECT),
    "description": _STRING,
    **dict.fromkeys(("strict", "eager_input_streaming", "defer_loading"), _FLAG),
    "cache_control": _CACHE,
})
_CHOICE = _that(lambda choice: _kind(choice) in ("auto", "any", "tool", "none"),
    ": Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'", _TOOLS,
    null=True, variants={
        "none": _that(lambda choice: "disable_parallel_tool_use" not in choice,
            ".disable_parallel_tool_use: Extra inputs are not permitted", _TOOLS)})
_FORM = _that(lambda form: _kind(form) == "json_schema", ".type: Input should be 'json_schema'",
    _FORMAT, null=True, required=("schema",), phrases=_Says(_FORMAT),
    members={"schema": Shape(dict, _NEEDED)})
_THINKS = _that(lambda thinking: _kind(thinking) in ("enabled", "adaptive", "disabled"),
    ": Input tag does not match 'enabled', 'adaptive' or 'disabled'", _THINKING,
    null=True, variants={
        "enabled": _that(lambda it: isinstance(it.get("budget_tokens"), int)
            and it["budget_tokens"] >= 1024,
            ".budget_tokens: Input should be greater than or equal to 1024", _THINKING)})
_SERVER_OR_OWN = Shape(dict, _OBJECT, untagged="custom", variants={"custom": _TOOL})
_UNCHECKED = """top_p top_k stop_sequences metadata service_tier container context_management
    mcp_servers inference_geo cache_control speed"""
_BODY = Shape(closed=True, required=("model", "max_tokens", "messages"), members={
    "model": _that(lambda value: isinstance(value, str) and value,
        ": String should have at least 1 character", _REFERENCE),
    "max_tokens": _that(lambda value: type(value) is int and value >= 1,
        ": Input should be greater than or equal to 1", _REFERENCE),
    "tools": Shape(list, _LIST, each=_SERVER_OR_OWN, phrases=_Says(_TOOLS)),
    "tool_choice": _CHOICE,
    "temperature": _that(lambda value: isinstance(value, int | float) and 0 <= value <= 1,
        ": range: 0..1", _ASSUMED),
    "messages": _that(len, ": at least one message is required", _REFERENCE,
        kind=list, name=_LIST, each=_MESSAGE),
    "system": Shape((str, list), _LIST, each=_that(
        lambda block: _kind(block) == "text" and block.get("text"), f": {_NO_TEXT}", _EMPTY)),
    "thinking": _THINKS,
    "output_config": Shape(dict, _OBJECT, null=True, members={"format": _FORM}),
    "output_format": _FORM,
    "stream": _FLAG,
    **dict.fromkeys(_UNCHECKED.split(), ANY),
})
# fmt: on
_BETA = ("context_management", "mcp_servers")


def check(body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    """Raises BadRequest, in Anthropic's own words, for the first invalid item."""
    for name in _BETA:
        if name in body and not headers.get("anthropic-beta"):
            raise _BETAS.refusal(f"{name}: Extra inputs are not permitted")
    check_shape(body, _BODY, _Says(_REFERENCE))
    _check_tools(body)
    _check_history(body["messages"])
    _check_thinking(body)
    _check_format(body)
    _check_cached(body)


# Tools, and options of the answer.


def _check_tools(body: Mapping[str, Any]) -> None:
    sent_tools = [
        SentTool(
            entry["name"],
            entry.get("description", ""),
            entry["input_schema"],
            strict=bool(entry.get("strict")),
            members=entry,
            words={"where": f"tools.{place}.custom"},
        )
        for place, entry in placed(body.get("tools"))
        if entry.get("type", "custom") == "custom"  # server tools are run by the provider
    ]
    limits.LIMITS.check(sent_tools)
    entries = dicts(body.get("tools"))
    if entries and all(entry.get("defer_loading") is True for entry in entries):
        raise _DEFERRED.refusal(
            "At least one tool must have defer_loading=false. All tools cannot be deferred."
        )
    if (choice := body.get("tool_choice")) is None:
        return
    if not sent_tools:
        raise limits.ASSUMED.refusal("tool_choice may only be specified while providing tools")
    name = choice.get("name")
    if choice["type"] == "tool" and not any(tool.name == name for tool in sent_tools):
        raise _TOOLS.refusal(f"Tool '{name}' not found in provided tools")


_CONSULT = (
    "Please consult our documentation at "
    "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
)


def _check_thinking(body: Mapping[str, Any]) -> None:
    """Checks that thinking fits into max_tokens, and that no sampling options are set with it."""
    thinking = member(body, "thinking")
    if thinking.get("type", "disabled") == "disabled":
        return
    if thinking["type"] == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        raise _THINKING.refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if member(body, "tool_choice").get("type") in ("any", "tool"):
        raise _THINKING.refusal("Thinking may not be enabled when tool_choice forces tool use.")
    top_p = body.get("top_p", 1)
    if body.get("temperature", 1) != 1:
        raise _TEMPERATURE.refusal(
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode. "
            f"{_CONSULT}"
        )
    if not isinstance(top_p, int | float) or top_p < _LEAST_TOP_P:
        raise _TOP_P.refusal(
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled. "
            f"{_CONSULT}"
        )
    if "top_k" in body:
        raise _TOP_K.refusal(f"`top_k` must be unset when thinking is enabled. {_CONSULT}")


def answer_form(body: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    """The requested output format and its place, under its current name or that of the beta."""
    form = member(body, "output_config").get("format")
    where = "output_format" if form is None else "output_config.format"
    form = body.get("output_format") if form is None else form
    return where, None if form is None else {"schema": form["schema"]}


def _check_format(body: Mapping[str, Any]) -> None:
    where, form = answer_form(body)
    if form is not None:
        words = {"where": f"{where}.schema"}
        sent = SentTool("", "", form["schema"], strict=True, words=words)
        limits.LIMITS.check_schema(sent, only_strict=True)


def _check_cached(body: Mapping[str, Any]) -> None:
    """Checks the maximum number of `cache_control` marks in a request."""
    contents = [message.get("content") for message in body["messages"]]
    blocks = [
        block
        for several in (body.get("tools"), body.get("system"), *contents)
        for block in dicts(several)
    ]
    count = 0
    for block in blocks:  # grows during the loop
        count += bool(block.get("cache_control"))
        blocks += dicts(block.get("content")) if block.get("type") == "tool_result" else ()
    if count > _MOST_CACHED:
        raise _MANY_CACHED.refusal(
            f"A maximum of {_MOST_CACHED} blocks with cache_control may be provided. Found {count}."
        )


# Relations between messages. Thinking is signed with a keyed hash of its text, so that altered and
# foreign thinking is recognised without storing anything.


_KEY, _MARK = b"the simulator's own", b"simulator:"
_SPEAKERS = {
    **dict.fromkeys(("tool_use", "thinking", "redacted_thinking"), "assistant"),
    **dict.fromkeys(("tool_result", "image"), "user"),
}
"""The role of the messages in which these blocks are permitted."""


def _check_history(messages: Sequence[Mapping[str, Any]]) -> None:
    open_ids: list[str] = []
    seen: set[str] = set()
    server_calls: set[str] = set()
    latest = max((n for n, it in enumerate(messages) if it["role"] == "assistant"), default=-1)
    for place, message in enumerate(messages):
        where, role, final = f"messages.{place}", message["role"], place == len(messages) - 1
        if role == "system" and place:
            continue
        if place == 0 and role != "user":
            raise _ASSUMED.refusal('messages: first message must use the "user" role')
        if not message["content"] and not (role == "assistant" and final):
            raise _CONTENT.refusal(
                f"{where}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        blocks = dicts(message["content"])
        _check_speaker(blocks, role, where)
        _check_signatures(blocks, where, latest == place)
        _check_results(blocks, open_ids, where)
        if role == "assistant":
            _check_served(blocks, server_calls, where, final)
        open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if seen & set(open_ids) or len(set(open_ids)) < len(open_ids):
            raise _ASSUMED.refusal(f"{where}: `tool_use` ids must be unique")
        seen |= set(open_ids)
    if open_ids:
        raise _unanswered(f"messages.{len(messages) - 1}", open_ids)


def _check_speaker(blocks: Sequence[Mapping[str, Any]], role: str, where: str) -> None:
    for place, block in enumerate(blocks):
        if (kind := block["type"]) in _SPEAKERS and _SPEAKERS[kind] != role:
            raise _CONTENT_ASSUMED.refusal(
                f"{where}.content.{place}: `{kind}` blocks can not be in `{role}` messages"
            )


def signature_of(thinking: str) -> str:
    """The simulator's signature of this thinking; opaque to others."""
    digest = blake2b(thinking.encode("utf-8", "surrogatepass"), key=_KEY, digest_size=24)
    return b64encode(_MARK + digest.digest()).decode()


def _is_ours(signature: str) -> bool:
    try:
        return b64decode(signature, validate=True).startswith(_MARK)
    except (binascii.Error, ValueError):
        return False


def _check_signatures(blocks: Sequence[Mapping[str, Any]], where: str, latest: bool) -> None:
    """Checks that thinking is unchanged; a block whose text was omitted keeps its signature."""
    for place, block in enumerate(blocks):
        if block["type"] != "thinking":
            continue
        signature, text = block["signature"], block["thinking"]
        sound = not text or signature == signature_of(text)
        if _is_ours(signature) and not sound and latest:
            raise _MODIFIED.refusal(
                f"{where}.content.{place}: `thinking` or `redacted_thinking` blocks in the latest "
                "assistant message cannot be modified. These blocks must remain as they were in "
                "the original response."
            )
        if not _is_ours(signature) or not sound:
            raise _FOREIGN.refusal(
                f"{where}.content.{place}: Invalid `signature` in `thinking` block"
            )


def _check_results(
    blocks: Sequence[Mapping[str, Any]], open_ids: Sequence[str], where: str
) -> None:
    """Checks that each call of the previous message has one result here, before any other block."""
    given_ids = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    for place, block in enumerate(blocks):
        if block["type"] == "tool_result" and (call_id := block["tool_use_id"]) not in open_ids:
            raise _UNKNOWN_ID.refusal(
                f"{where}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{call_id}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message."
            )
    if len(set(given_ids)) < len(given_ids):
        twice = next(call_id for call_id in given_ids if given_ids.count(call_id) > 1)
        raise _ASSUMED.refusal(
            f"{where}: each tool_use must have a single result. Found multiple `tool_result` "
            f"blocks with id: {twice}"
        )
    leading = [block for block in blocks[: len(given_ids)] if block["type"] == "tool_result"]
    answered = {block["tool_use_id"] for block in leading}
    missing = [call_id for call_id in open_ids if call_id not in answered]
    if missing:
        late = set(missing) <= set(given_ids)
        raise _unanswered(where, missing, _RESULTS_FIRST if late else _UNANSWERED)


def _unanswered(where: str, ids: Sequence[str], source: Citation = _UNANSWERED) -> BadRequest:
    return source.refusal(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )


def _check_served(
    blocks: Sequence[Mapping[str, Any]], server_calls: set[str], where: str, final: bool
) -> None:
    """Checks that server tool calls have their result after them, in the same message.

    In the last message one may be open, as its turn paused; one whose code calls a client tool may
    always be open. `server_calls` are the ids seen so far.
    """
    waiting: set[str] = set()
    for place, block in enumerate(blocks):
        kind = block["type"]
        if kind == "tool_use" and isinstance(block.get("caller"), dict):
            waiting.discard(str(block["caller"].get("tool_id")))
        elif kind.endswith("_tool_use"):
            server_calls.add(str(block.get("id")))
            waiting.add(str(block.get("id")))
        elif kind.endswith("_tool_result"):
            call_id = str(block.get("tool_use_id"))
            if call_id not in server_calls:
                raise _UNCALLED.refusal(
                    f"{where}.content.{place}: unexpected `tool_use_id` found in `{kind}` blocks: "
                    f"{call_id}. Each `{kind}` block must have a corresponding `server_tool_use` "
                    "block before it."
                )
            waiting.discard(call_id)
    if waiting and not final:
        raise _UNSERVED.refusal(
            f"{where}: `server_tool_use` ids were found without a corresponding result block: "
            f"{', '.join(sorted(waiting))}."
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


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """Parses a request body. Raises BadRequest in Anthropic's own words."""
    return _parse_data(_data(body, headers), headers)


def count(body: bytes, headers: Mapping[str, str], target: str = "", created: int = 0) -> bytes:
    """Answers a token count request, which is parsed like a message."""
    data = _data(body, headers)
    for name in _NOT_COUNTED:
        if name in data:
            raise _COUNTS.refusal(f"{name}: Extra inputs are not permitted")
    parsed = _parse_data({**data, "max_tokens": _NO_LIMIT}, headers)
    return encoded({"input_tokens": parsed.input_tokens})


def _data(body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
    if not headers.get("anthropic-version"):
        raise _VERSIONS.refusal("anthropic-version: header is required")
    return object_of(body)


def _parse_data(data: Mapping[str, Any], headers: Mapping[str, str]) -> ParsedRequest:
    check(data, headers)
    entries = (tool for tool in dicts(data.get("tools")) if tool.get("type", "custom") == "custom")
    params = {
        "max_tokens": data["max_tokens"],
        "thinking": member(data, "thinking").get("type", "disabled") != "disabled",
        "format": answer_form(data)[1],
    }
    request = model_request(READER, data, tuple(map(_tool, entries)), params)
    spent = tokens(compact([data["messages"], data.get("tools"), request.system]))
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
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), encoded(event))


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
            "usage": {"input_tokens": parsed.input_tokens, "output_tokens": _spent(reply)},
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
        return compact(value)
    return compact(value).removesuffix("{}}") + _input(block.text) + "}"


def _input(text: str) -> str:
    """Arguments for a JSON answer; invalid JSON can only be written as a string."""
    try:
        json.loads(text or "{}", parse_int=str)
    except (ValueError, RecursionError):
        return compact(text)
    return text or "{}"


def whole(reply: ModelReply, parsed: ParsedRequest, stamp: IdSource) -> bytes:
    """The answer to a request with `stream` false."""
    message = _message(parsed, stamp) | {"stop_reason": _stop_reason(reply)}
    head = compact(message | {"usage": _usage(parsed, _spent(reply))})
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


def _spent(reply: ModelReply) -> int:
    return sum(tokens(block.text) + (12 if block.kind == "call" else 0) for block in reply.blocks)


def _error_object(problem: BadRequest) -> dict[str, Any]:
    return {"type": "error", "error": {"type": problem.kind, "message": str(problem)}}


def error(problem: BadRequest, request_id: str) -> bytes:
    return encoded(_error_object(problem) | {"request_id": request_id})


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
    return compact(page).encode()


def _model_entry(name: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
    }


def _model(body: bytes, headers: Mapping[str, str], target: str, created: int) -> bytes:
    """One model; every name exists here."""
    return encoded(_model_entry(target.rpartition("/")[2]))


def _unauthorised(sentence: str) -> BadRequest:
    source = "Anthropic API reference: Errors"
    return BadRequest(sentence, 401, kind="authentication_error", source=source)


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

END = ProviderServer(
    name="anthropic",
    base=FACTS.simulated,
    path=FACTS.path,
    takes=re.compile(FACTS.path),
    models_path="/v1/models",
    key=key,
    parse=parse,
    frames=frames,
    whole=whole,
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
