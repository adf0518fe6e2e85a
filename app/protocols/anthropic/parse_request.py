"""Parses Anthropic Messages requests and refuses as Anthropic does: same status, type and words.

Tools are parsed in `request_tools`.
https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.provider_limits import ANTHROPIC_NAME
from app.core.tools import Content, ToolChoice
from app.protocols.anthropic import parse_tools
from app.protocols.anthropic.parse_tools import (
    NAMES,
    check_cache,
    check_cached,
    choice_of,
    tools_of,
)
from app.protocols.server import (
    BadRequest,
    Citation,
    ParsedRequest,
    compact,
    encoded,
    object_of,
    tokens,
    words_of,
)

_KNOWN = words_of(
    """model messages max_tokens system tools tool_choice stream temperature top_p top_k
    stop_sequences metadata thinking service_tier container context_management mcp_servers
    output_config output_format inference_geo cache_control speed"""
)
_LEAST_TOP_P = 0.95
_CONSULT = (
    "Please consult our documentation at "
    "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
)
_NOT_COUNTED = ("max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences")
_NO_LIMIT = 1 << 40
_OF_SYSTEM = ("text", "tool_addition", "tool_removal")
_BETA = ("context_management", "mcp_servers")

_REFERENCE = Citation("Anthropic API reference: Messages")
_ASSUMED = Citation("Anthropic API reference: Messages", inferred=True)
_VERSIONS = Citation("Anthropic API reference: Versions")
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
_COUNTS = Citation("Anthropic API reference: Count tokens in a Message", inferred=True)
_EMPTY = Citation("docs/wire.md, section 1: empty text is refused", inferred=True)


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> ParsedRequest:
    """The request that `body` holds. Raises BadRequest in Anthropic's own words."""
    if not headers.get("anthropic-version"):
        raise _VERSIONS.refusal("anthropic-version: header is required")
    return _parse_data(object_of(body), headers)


def count(body: bytes, headers: Mapping[str, str], target: str = "", created: int = 0) -> bytes:
    """The answer to a request for a count of tokens, which is read like a message."""
    if not headers.get("anthropic-version"):
        raise _VERSIONS.refusal("anthropic-version: header is required")
    data = object_of(body)
    for name in _NOT_COUNTED:
        if name in data:
            raise _COUNTS.refusal(f"{name}: Extra inputs are not permitted")
    parsed = _parse_data({**data, "max_tokens": _NO_LIMIT}, headers)
    return encoded({"input_tokens": parsed.input_tokens})


def _parse_data(data: dict[str, Any], headers: Mapping[str, str]) -> ParsedRequest:
    for name in data:
        if name not in _KNOWN:
            raise _REFERENCE.refusal(f"{name}: Extra inputs are not permitted")
        if name in _BETA and not headers.get("anthropic-beta"):
            raise _BETAS.refusal(f"{name}: Extra inputs are not permitted")
    for name in ("model", "max_tokens", "messages"):
        if name not in data:
            raise _REFERENCE.refusal(f"{name}: Field required")
    model, most = data["model"], data["max_tokens"]
    if not isinstance(model, str) or not model:
        raise _REFERENCE.refusal("model: String should have at least 1 character")
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise _REFERENCE.refusal("max_tokens: Input should be greater than or equal to 1")
    tools = tools_of(data.get("tools", []))
    choice = choice_of(data.get("tool_choice"), tools)
    temperature = data.get("temperature", 1.0)
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 1:
        raise _ASSUMED.refusal("temperature: range: 0..1")
    messages, system_text = _messages(data["messages"])
    request = ModelRequest(
        model=model,
        system="\n".join(filter(None, (_system(data.get("system", "")), system_text))),
        messages=messages,
        tools=tools,
        choice=choice,
        params={
            "max_tokens": most,
            "thinking": _thinking(data, most, choice),
            "format": _format(data),
        },
        stream=_flag(data, "stream"),
    )
    check_cached(data)
    return ParsedRequest(
        request, tokens(compact([data["messages"], data.get("tools"), request.system]))
    )


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise _REFERENCE.refusal(f"{name}: Input should be a valid boolean")
    return value


def _system(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise _REFERENCE.refusal("system: Input should be a valid list")
    texts = []
    for place, block in enumerate(value):
        if not isinstance(block, dict) or block.get("type") != "text" or not block.get("text"):
            raise _EMPTY.refusal(f"system.{place}: text content blocks must be non-empty")
        texts.append(str(block["text"]))
    return "\n".join(texts)


def _thinking(data: Mapping[str, Any], most: int, choice: ToolChoice) -> bool:
    value = data.get("thinking")
    kind = value.get("type") if isinstance(value, dict) else None
    if value is None or kind == "disabled":
        return False
    if kind not in ("enabled", "adaptive"):
        raise _THINKING.refusal(
            "thinking: Input tag does not match 'enabled', 'adaptive' or 'disabled'"
        )
    if kind == "enabled":
        budget = value.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            raise _THINKING.refusal(
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            )
        if budget >= most:
            raise _THINKING.refusal("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if choice.forced:
        raise _THINKING.refusal("Thinking may not be enabled when tool_choice forces tool use.")
    _check_sampling(data)
    return True


def _format(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The form that the answer is to have, by its name now or its name in the beta."""
    where, config = "output_config.format", data.get("output_config")
    if config is not None and not isinstance(config, dict):
        raise _REFERENCE.refusal("output_config: Input should be a valid dictionary")
    value = config.get("format") if config else None
    if value is None and data.get("output_format") is not None:
        where, value = "output_format", data["output_format"]
    match value:
        case None:
            return None
        case {"type": "json_schema", "schema": dict() as schema}:
            parse_tools.check(schema, f"{where}.schema")
            return {"schema": schema}
        case {"type": "json_schema"}:
            raise _FORMAT.refusal(f"{where}.schema: Field required")
        case _:
            raise _FORMAT.refusal(f"{where}.type: Input should be 'json_schema'")


def _check_sampling(data: Mapping[str, Any]) -> None:
    """Thinking leaves no choice of how tokens are picked."""
    top_p = data.get("top_p", 1)
    if data.get("temperature", 1) != 1:
        raise _TEMPERATURE.refusal(
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode. "
            f"{_CONSULT}"
        )
    if not isinstance(top_p, int | float) or top_p < _LEAST_TOP_P:
        raise _TOP_P.refusal(
            "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled. "
            f"{_CONSULT}"
        )
    if "top_k" in data:
        raise _TOP_K.refusal(f"`top_k` must be unset when thinking is enabled. {_CONSULT}")


def _messages(value: Any) -> tuple[tuple[Message, ...], str]:
    """The messages, and the words of the system that stand among them."""
    if not isinstance(value, list):
        raise _REFERENCE.refusal("messages: Input should be a valid list")
    if not value:
        raise _REFERENCE.refusal("messages: at least one message is required")
    messages: list[Message] = []
    open_ids: list[str] = []
    seen: set[str] = set()
    server_calls: set[str] = set()
    system_texts: list[str] = []
    latest = {_role(entry): place for place, entry in enumerate(value)}
    for place, entry in enumerate(value):
        where = f"messages.{place}"
        role = _role(entry)
        if role == "system" and place:
            system_texts += _system_texts(entry.get("content"), where)
            continue
        if role not in ("user", "assistant", "system"):
            raise _REFERENCE.refusal(
                f"{where}.role: Input should be 'user', 'assistant' or 'system'"
            )
        if place == 0 and role != "user":
            raise _ASSUMED.refusal('messages: first message must use the "user" role')
        final = place == len(value) - 1
        parts = parts_of(entry.get("content"), role, where, final, latest[role] == place)
        _check_results(parts, open_ids, where)
        if role == "assistant":
            check_served(entry["content"], server_calls, where, final)
        messages += _split(role, parts)
        open_ids = [part.call_id for part in parts if part.kind == "call"]
        if seen & set(open_ids) or len(set(open_ids)) < len(open_ids):
            raise _ASSUMED.refusal(f"{where}: `tool_use` ids must be unique")
        seen |= set(open_ids)
    if open_ids:
        raise _unanswered(f"messages.{len(value) - 1}", open_ids)
    return tuple(messages), "\n".join(system_texts)


def _system_texts(content: Any, where: str) -> list[str]:
    """The texts of a message of the system; tools that it adds or takes away stay as they were."""
    if content is None or isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        raise _REFERENCE.refusal(f"{where}.content: Input should be a valid list")
    texts = []
    for place, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if kind not in _OF_SYSTEM:
            raise _SYSTEM.refusal(
                f"{where}.content.{place}: Input tag '{kind}' found using 'type' does not match "
                f"any of the expected tags: {', '.join(map(repr, _OF_SYSTEM))}"
            )
        if kind == "text" and not block.get("text"):
            raise _EMPTY.refusal("messages: text content blocks must be non-empty")
        texts.append(str(block.get("text", "")))
    return texts


def _role(entry: Any) -> str:
    return str(entry.get("role")) if isinstance(entry, dict) else ""


def _split(role: str, parts: tuple[MessagePart, ...]) -> list[Message]:
    """A user message holds results, words, or both; neutrally these are two messages."""
    if role == "assistant":
        return [Message("assistant", parts)]
    results = tuple(part for part in parts if part.kind == "result")
    rest = tuple(part for part in parts if part.kind != "result")
    messages = [Message("results", results)] if results else []
    return messages + ([Message("user", rest)] if rest else [])


def _check_results(parts: Sequence[MessagePart], open_ids: Sequence[str], where: str) -> None:
    """Every call of the message before is answered here, once, ahead of any other block."""
    result_ids = [part.call_id for part in parts if part.kind == "result"]
    for place, part in enumerate(parts):
        if part.kind == "result" and part.call_id not in open_ids:
            raise _UNKNOWN_ID.refusal(
                f"{where}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{part.call_id}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message."
            )
    if len(set(result_ids)) < len(result_ids):
        twice = next(call_id for call_id in result_ids if result_ids.count(call_id) > 1)
        raise _ASSUMED.refusal(
            f"{where}: each tool_use must have a single result. Found multiple `tool_result` "
            f"blocks with id: {twice}"
        )
    leading = {part.call_id for part in parts[: len(result_ids)] if part.kind == "result"}
    missing = [call_id for call_id in open_ids if call_id not in leading]
    if missing:
        late = set(missing) <= set(result_ids)
        raise _unanswered(where, missing, _RESULTS_FIRST if late else _UNANSWERED)


def _unanswered(where: str, ids: Sequence[str], source: Citation = _UNANSWERED) -> BadRequest:
    return source.refusal(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )


# The content of messages. Thinking is signed with a keyed hash of its text, so that altered and
# foreign thinking is recognised without keeping a word of it.
# https://docs.anthropic.com/en/api/messages


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MEDIA = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MOST_IMAGE = 5 * 1024 * 1024
_KEY, _MARK = b"the simulator's own", b"simulator:"

_CONTENT_REFERENCE = Citation("Anthropic API reference: Messages, content")
_CONTENT_ASSUMED = Citation("Anthropic API reference: Messages, content", inferred=True)
_IMAGES = Citation("Anthropic docs: Vision")
_INPUT = Citation("docs/wire.md, section 1: input must be an object", inferred=True)
_MODIFIED = Citation("https://github.com/anthropics/claude-code/issues/63284")
_ALL_TEXT = Citation("https://github.com/vellum-ai/vellum-assistant/pull/18387")
_UNCALLED = Citation("https://github.com/anthropics/claude-code/issues/95406")
_UNSERVED = Citation("Anthropic docs: Server tools, pause_turn", inferred=True)
_FOREIGN = Citation("https://github.com/anthropics/anthropic-sdk-python/issues/1598")


def signature_of(thinking: str) -> str:
    """What the simulator signs this thinking with; opaque to everybody else."""
    digest = blake2b(thinking.encode("utf-8", "surrogatepass"), key=_KEY, digest_size=24)
    return b64encode(_MARK + digest.digest()).decode()


def _is_ours(signature: str) -> bool:
    try:
        return b64decode(signature, validate=True).startswith(_MARK)
    except (binascii.Error, ValueError):
        return False


def parts_of(
    content: Any, role: str, where: str, final: bool, latest: bool
) -> tuple[MessagePart, ...]:
    """The blocks of one message; `final` of all, `latest` of its role."""
    if isinstance(content, str):
        if not content and not (role == "assistant" and final):
            raise _CONTENT_REFERENCE.refusal(
                f"{where}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        return (MessagePart("text", content),)
    if not isinstance(content, list):
        raise _CONTENT_REFERENCE.refusal(f"{where}.content: Input should be a valid list")
    if not content:
        return parts_of("", role, where, final, latest)
    return tuple(
        _part(block, role, f"{where}.content.{place}", latest)
        for place, block in enumerate(content)
    )


def check_served(content: Any, server_calls: set[str], where: str, final: bool) -> None:
    """Server tools that were called have their result behind them, in the same message.

    In the last message of all one may wait, for its turn paused, and one whose code calls a tool
    of the client may always. `server_calls` are the ids of those seen so far.
    """
    waiting: set[str] = set()
    for place, block in enumerate(content if isinstance(content, list) else []):
        kind = str(block.get("type"))
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


def _part(block: Any, role: str, where: str, latest: bool) -> MessagePart:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind is not None:
        check_cache(block, f"{where}.{kind}")
    match kind:
        case "text":
            if not isinstance(block.get("text"), str) or not block["text"].strip():
                raise _EMPTY.refusal("messages: text content blocks must be non-empty")
            return MessagePart("text", block["text"])
        case "tool_use" if role == "assistant":
            return _tool_use(block, f"{where}.tool_use")
        case "tool_result" if role == "user":
            return _tool_result(block, f"{where}.tool_result")
        case "image" if role == "user":
            return MessagePart("image", content=(_image(block, f"{where}.image"),))
        case "thinking" if role == "assistant":
            return _thinking_part(block, where, latest)
        case "redacted_thinking" if role == "assistant":
            if not isinstance(block.get("data"), str) or not block["data"]:
                raise _CONTENT_REFERENCE.refusal(f"{where}.redacted_thinking.data: Field required")
            return MessagePart("other", meta=block)
        case "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image":
            raise _CONTENT_ASSUMED.refusal(
                f"{where}: `{kind}` blocks can not be in `{role}` messages"
            )
        case str():
            return MessagePart("other", meta=block)
        case _:
            raise _CONTENT_REFERENCE.refusal(f"{where}.type: Field required")


def _thinking_part(block: Mapping[str, Any], where: str, latest: bool) -> MessagePart:
    """Thinking as it was given out; a block with its text left out keeps its signature alone."""
    signature, text = block.get("signature"), block.get("thinking")
    if not isinstance(signature, str) or "thinking" not in block:
        raise _CONTENT_REFERENCE.refusal(f"{where}.thinking.signature: Field required")
    if not isinstance(text, str):
        raise _CONTENT_REFERENCE.refusal(
            f"{where}.thinking.thinking: Input should be a valid string"
        )
    if not _is_ours(signature):
        raise _FOREIGN.refusal(f"{where}: Invalid `signature` in `thinking` block")
    if text and signature != signature_of(text):
        if latest:
            raise _MODIFIED.refusal(
                f"{where}: `thinking` or `redacted_thinking` blocks in the latest assistant "
                "message cannot be modified. These blocks must remain as they were in the "
                "original response."
            )
        raise _FOREIGN.refusal(f"{where}: Invalid `signature` in `thinking` block")
    return MessagePart("thinking", text)


def _image(block: Mapping[str, Any], where: str) -> Content:
    source = block.get("source")
    match source:
        case {"type": "url", "url": str()}:
            return Content("image")
        case {"type": "base64", "media_type": media, "data": str() as data}:
            pass
        case dict():
            raise _CONTENT_REFERENCE.refusal(
                f"{where}.source: Input tag found does not match any of the expected tags: "
                "'base64', 'file', 'url'"
            )
        case _:
            raise _CONTENT_REFERENCE.refusal(f"{where}.source: Field required")
    if media not in _MEDIA:
        raise _IMAGES.refusal(
            f"{where}.source.base64.media_type: Input should be 'image/jpeg', 'image/png', "
            "'image/gif' or 'image/webp'"
        )
    if len(data) > _MOST_IMAGE:
        raise _IMAGES.refusal(
            f"{where}.source.base64: image exceeds 5 MB maximum: {len(data)} bytes > "
            f"{_MOST_IMAGE} bytes"
        )
    try:
        if not b64decode(data, validate=True):
            raise ValueError
    except ValueError:
        raise _CONTENT_ASSUMED.refusal(f"{where}.source.base64.data: Invalid base64 data") from None
    return Content("image", media_type=str(media), data=data)


def _tool_use(block: Mapping[str, Any], where: str) -> MessagePart:
    for name in ("id", "name", "input"):
        if name not in block:
            raise _CONTENT_REFERENCE.refusal(f"{where}.{name}: Field required")
    if not isinstance(block["id"], str) or not _ID.fullmatch(block["id"]):
        raise _CONTENT_REFERENCE.refusal(
            f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
        )
    if not isinstance(block["name"], str) or not ANTHROPIC_NAME.fullmatch(block["name"]):
        raise NAMES.refusal(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if not isinstance(block["input"], dict):
        raise _INPUT.refusal(f"{where}.input: Input should be a valid dictionary")
    return MessagePart("call", compact(block["input"]), block["name"], block["id"])


def _tool_result(block: Mapping[str, Any], where: str) -> MessagePart:
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str):
        raise _CONTENT_REFERENCE.refusal(f"{where}.tool_use_id: Field required")
    content, pieces = block.get("content", ""), []
    if isinstance(content, str):
        pieces = [Content(text=content)] if content else []
    elif isinstance(content, list):
        for place, piece in enumerate(content):
            kind = piece.get("type") if isinstance(piece, dict) else None
            if kind == "text" and not piece.get("text"):
                raise _EMPTY.refusal("messages: text content blocks must be non-empty")
            if kind == "text":
                pieces.append(Content(text=str(piece["text"])))
            elif kind == "image":
                pieces.append(_image(piece, f"{where}.content.{place}.image"))
            elif not kind:
                raise _CONTENT_REFERENCE.refusal(f"{where}.content.{place}.type: Field required")
    else:
        raise _CONTENT_REFERENCE.refusal(f"{where}.content: Input should be a valid list")
    is_error = block.get("is_error", False)
    if is_error is True and any(piece.type == "image" for piece in pieces):
        raise _ALL_TEXT.refusal(f"{where}: all content must be type 'text' if 'is_error' is true")
    return MessagePart("result", call_id=call_id, content=tuple(pieces), is_error=is_error is True)
