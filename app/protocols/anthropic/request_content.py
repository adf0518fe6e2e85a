"""The content of messages to Anthropic Messages: read, and refused where the real one refuses.

Thinking is signed with a keyed hash of its text, so that altered and foreign thinking is known for
what it is without keeping a word of it. https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from app.core.messages import MessagePart
from app.core.provider_limits import ANTHROPIC_NAME
from app.core.tools import Content
from app.protocols.anthropic.request_tools import NAMES, check_cache
from app.protocols.server import Source, compact

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MEDIA = ("image/jpeg", "image/png", "image/gif", "image/webp")
_MOST_IMAGE = 5 * 1024 * 1024
_KEY, _MARK = b"the simulator's own", b"simulator:"

_REFERENCE = Source("Anthropic API reference: Messages, content")
_ASSUMED = Source("Anthropic API reference: Messages, content", inferred=True)
_EMPTY = Source("docs/wire.md, section 1: empty text is refused", inferred=True)
_IMAGES = Source("Anthropic docs: Vision")
_INPUT = Source("docs/wire.md, section 1: input must be an object", inferred=True)
_MODIFIED = Source("https://github.com/anthropics/claude-code/issues/63284")
_ALL_TEXT = Source("https://github.com/vellum-ai/vellum-assistant/pull/18387")
_UNCALLED = Source("https://github.com/anthropics/claude-code/issues/95406")
_UNSERVED = Source("Anthropic docs: Server tools, pause_turn", inferred=True)
_FOREIGN = Source("https://github.com/anthropics/anthropic-sdk-python/issues/1598")


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
            raise _REFERENCE.refusal(
                f"{where}: all messages must have non-empty content except for the optional final "
                "assistant message"
            )
        return (MessagePart("text", content),)
    if not isinstance(content, list):
        raise _REFERENCE.refusal(f"{where}.content: Input should be a valid list")
    if not content:
        return parts_of("", role, where, final, latest)
    return tuple(
        _part(block, role, f"{where}.content.{place}", latest)
        for place, block in enumerate(content)
    )


def check_served(content: Any, begun: set[str], where: str, final: bool) -> None:
    """Server tools that were called have their result behind them, in the same message.

    In the last message of all one may wait, for its turn paused, and one whose code calls a tool
    of the client may always. `begun` are the ids of those seen so far.
    """
    waiting: set[str] = set()
    for place, block in enumerate(content if isinstance(content, list) else []):
        kind = str(block.get("type"))
        if kind == "tool_use" and isinstance(block.get("caller"), dict):
            waiting.discard(str(block["caller"].get("tool_id")))
        elif kind.endswith("_tool_use"):
            begun.add(str(block.get("id")))
            waiting.add(str(block.get("id")))
        elif kind.endswith("_tool_result"):
            given = str(block.get("tool_use_id"))
            if given not in begun:
                raise _UNCALLED.refusal(
                    f"{where}.content.{place}: unexpected `tool_use_id` found in `{kind}` blocks: "
                    f"{given}. Each `{kind}` block must have a corresponding `server_tool_use` "
                    "block before it."
                )
            waiting.discard(given)
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
            return _thinking(block, where, latest)
        case "redacted_thinking" if role == "assistant":
            if not isinstance(block.get("data"), str) or not block["data"]:
                raise _REFERENCE.refusal(f"{where}.redacted_thinking.data: Field required")
            return MessagePart("other", meta=block)
        case "tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "image":
            raise _ASSUMED.refusal(f"{where}: `{kind}` blocks can not be in `{role}` messages")
        case str():
            return MessagePart("other", meta=block)
        case _:
            raise _REFERENCE.refusal(f"{where}.type: Field required")


def _thinking(block: Mapping[str, Any], where: str, latest: bool) -> MessagePart:
    """Thinking as it was given out; a block with its text left out keeps its signature alone."""
    signature, text = block.get("signature"), block.get("thinking")
    if not isinstance(signature, str) or "thinking" not in block:
        raise _REFERENCE.refusal(f"{where}.thinking.signature: Field required")
    if not isinstance(text, str):
        raise _REFERENCE.refusal(f"{where}.thinking.thinking: Input should be a valid string")
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
            raise _REFERENCE.refusal(
                f"{where}.source: Input tag found does not match any of the expected tags: "
                "'base64', 'file', 'url'"
            )
        case _:
            raise _REFERENCE.refusal(f"{where}.source: Field required")
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
        raise _ASSUMED.refusal(f"{where}.source.base64.data: Invalid base64 data") from None
    return Content("image", media_type=str(media), data=data)


def _tool_use(block: Mapping[str, Any], where: str) -> MessagePart:
    for name in ("id", "name", "input"):
        if name not in block:
            raise _REFERENCE.refusal(f"{where}.{name}: Field required")
    if not isinstance(block["id"], str) or not _ID.fullmatch(block["id"]):
        raise _REFERENCE.refusal(f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not isinstance(block["name"], str) or not ANTHROPIC_NAME.fullmatch(block["name"]):
        raise NAMES.refusal(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    if not isinstance(block["input"], dict):
        raise _INPUT.refusal(f"{where}.input: Input should be a valid dictionary")
    return MessagePart("call", compact(block["input"]), block["name"], block["id"])


def _tool_result(block: Mapping[str, Any], where: str) -> MessagePart:
    given = block.get("tool_use_id")
    if not isinstance(given, str):
        raise _REFERENCE.refusal(f"{where}.tool_use_id: Field required")
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
                raise _REFERENCE.refusal(f"{where}.content.{place}.type: Field required")
    else:
        raise _REFERENCE.refusal(f"{where}.content: Input should be a valid list")
    failed = block.get("is_error", False)
    if failed is True and any(piece.type == "image" for piece in pieces):
        raise _ALL_TEXT.refusal(f"{where}: all content must be type 'text' if 'is_error' is true")
    return MessagePart("result", call_id=given, content=tuple(pieces), is_error=failed is True)
