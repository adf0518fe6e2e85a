"""Refuses what Anthropic refuses of a Messages request: same status, type and words.

A table defines the shape of a body; functions check relations between members or messages. Limits
for tools are in `limits`. https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from playground.protocols.anthropic import limits
from playground.protocols.request import dicts, indexed_dicts, member
from playground.protocols.server import (
    ANY,
    BadRequest,
    Citation,
    Phrases,
    Shape,
    check_shape,
    predicate_rule,
)
from playground.protocols.tool_limits import SentTool

_TOOLS = limits.REFERENCE
_REFERENCE = Citation("Anthropic API reference: Messages")
_ASSUMED = Citation("Anthropic API reference: Messages", inferred=True)
_CONTENT = Citation("Anthropic API reference: Messages, content")
_CONTENT_ASSUMED = Citation("Anthropic API reference: Messages, content", inferred=True)
_THINKING = Citation("Anthropic docs: Building with extended thinking")
_TEMPERATURE = Citation("https://github.com/mnfst/modelparams.dev/issues/214")
_TOP_P = Citation("Anthropic docs: Building with extended thinking", inferred=True)
_TOP_K = Citation("https://github.com/quarkiverse/quarkus-langchain4j/issues/1812")
_UNANSWERED = Citation("https://github.com/anthropics/claude-code/issues/8210")
_UNKNOWN_ID = Citation("https://github.com/tghamm/Anthropic.SDK/issues/184")
_RESULTS_FIRST = Citation("docs/wire.md, section 1: results come before any text", inferred=True)
_FORMAT = Citation("Anthropic docs: Structured outputs", inferred=True)
_SYSTEM = Citation("types of anthropic-python: BetaSystemMessageParam", inferred=True)
_EMPTY = Citation("https://github.com/stackblitz/bolt.new/issues/7426")
_BLANK = Citation("https://github.com/anthropics/claude-code/issues/23440")
_TRAILING = Citation("https://github.com/tailcallhq/forgecode/issues/1872")
_UNFILLED = Citation("https://github.com/anomalyco/opencode/pull/22404")
_EMPTY_ERROR = Citation("https://github.com/jlevy/markform/issues/153")
_BLOCKS = Citation("types of anthropic-python: BetaContentBlockParam", inferred=True)
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


_NEEDED = "Field required"
_LIST = "Input should be a valid list"
_OBJECT = "Input should be a valid dictionary"
_NO_TEXT = "text content blocks must be non-empty"
_BLANK_TEXT = "text content blocks must contain non-whitespace text"
_OF_SYSTEM = ("text", "tool_addition", "tool_removal")
_THINKING_KINDS = ("enabled", "adaptive", "disabled", "between_tools")
_MEDIA = ("image/jpeg", "image/png", "image/gif", "image/webp")

_NO_PREFILL = re.compile(r"claude-(?:opus-4-[6-9](?!\d)|[a-z]+-5)")
"""Name prefixes of models that do not continue the last message."""

_ID = re.compile(r"[a-zA-Z0-9_-]+")

# fmt: off
_FLAG = Shape(bool, "Input should be a valid boolean")
_STRING = Shape(str, "Input should be a valid string")

_OTHER_BLOCKS = """search_result server_tool_use web_search_tool_result web_fetch_tool_result
    advisor_tool_result code_execution_tool_result bash_code_execution_tool_result
    text_editor_code_execution_tool_result tool_search_tool_result mcp_tool_use mcp_tool_result
    mcp_tool_listing container_upload compaction tool_addition tool_removal fallback"""

_UNCHECKED = """top_p top_k stop_sequences metadata service_tier container context_management
    mcp_servers inference_geo cache_control speed fallbacks fallback_credit_token user_profile_id
    thread compaction diagnostics billing_policy"""

_CONSULT = (
    "Please consult our documentation at "
    "https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
)

_KEY, _MARK = b"the simulator's own", b"simulator:"
_SHORTEST_SIGNATURE, _FIRST_BYTE = 64, 0x12

_SPEAKERS = {
    **dict.fromkeys(("tool_use", "thinking", "redacted_thinking"), "assistant"),
    **dict.fromkeys(("tool_result", "image"), "user"),
}
"""The role of the messages in which these blocks are permitted."""


@dataclass(frozen=True)
class _AnthropicPhrases(Phrases):
    source: Citation

    def refuse_type(self, value: Any, where: str, shape: Shape) -> BadRequest:
        return self.source.refusal(f"{where}: {shape.name}")

    def refuse_missing(self, where: str, shape: Shape) -> BadRequest:
        return self.source.refusal(f"{where}: {_NEEDED}")

    def refuse_unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        return self.source.refusal(f"{self.join(where, name)}: Extra inputs are not permitted")

    def refuse_variant(self, value: Mapping[str, Any], where: str, shape: Shape) -> BadRequest:
        return _BLOCKS.refusal(_odd_tag(where, value.get(shape.tag), shape.variants))

    def inner_place(self, where: str, shape: Shape, kind: str = "") -> str:
        return f"{where}.{kind}" if kind and shape.tag == "type" else where


def _odd_tag(where: str, kind: Any, known: Iterable[str]) -> str:
    return (
        f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
        f"{', '.join(map(repr, known))}"
    )




def _rule_shape(
    holds: Callable[[Any], object], words: str, source: Citation = _CONTENT, **more: Any
) -> Shape:
    """A rule that `holds` of a value; `words` follow its place in the message, or are the
    message."""
    words = words if words.startswith("messages") else "{where}" + words
    return Shape(rules=(predicate_rule(holds, words, source),), **more)


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
        case {"type": "file", "file_id": str()}:
            return True
    return False


def _is_document(source: Mapping[str, Any]) -> bool:
    match source:
        case {"type": "text", "data": str()} | {"type": "content", "content": str() | list()}:
            return True
    return _is_source(source)


def _is_served_result(block: Any) -> bool:
    """Whether the block is the result of a tool that the provider runs."""
    return str(_kind(block)).endswith("_tool_result")


def _blank_text(message: Mapping[str, Any], where: str) -> BadRequest | None:
    """Finds an empty or blank text. One is accepted only next to the result of a server tool."""
    content = message["content"]
    if isinstance(content, str):
        return _BLANK.refusal(f"messages: {_BLANK_TEXT}") if content.isspace() else None
    served = any(map(_is_served_result, content))
    for place, block in enumerate(content):
        if _kind(block) != "text":
            continue
        if not isinstance(text := block.get("text"), str):
            return _CONTENT.refusal(f"{where}.content.{place}.text.text: {_NEEDED}")
        if not text and not served:
            return _EMPTY.refusal(f"messages: {_NO_TEXT}")
        if text.isspace() and not served:
            return _BLANK.refusal(f"messages: {_BLANK_TEXT}")
    return None


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
    return _SYSTEM.refusal(_odd_tag(where, kind, _OF_SYSTEM))


_CACHE = _rule_shape(lambda value: value is None or _kind(value) == "ephemeral",
    ".type: Input should be 'ephemeral'", _TOOLS)
_WORDS = _rule_shape(lambda block: block.get("text"), f"messages: {_NO_TEXT}", _EMPTY)
_BASE64 = Shape(rules=(_image_size,), members={
    "media_type": _rule_shape(lambda value: value in _MEDIA,
        ": Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'", _IMAGES),
    "data": _rule_shape(_is_base64, ": Invalid base64 data", _CONTENT_ASSUMED),
})
_SOURCE = _rule_shape(_is_source,
    ": Input tag found does not match any of the expected tags: 'base64', 'file', 'url'",
    kind=dict, name=_NEEDED, variants={"base64": _BASE64})
_IMAGE = Shape(required=("source",), members={"source": _SOURCE})
_DOCUMENT = Shape(required=("source",), members={"source": _rule_shape(_is_document,
    ": Input tag found does not match any of the expected tags: 'base64', 'content', 'file', "
    "'text', 'url'", kind=dict, name=_NEEDED)})
_PIECE = _rule_shape(_kind, f".type: {_NEEDED}", closed=True, variants={
    "text": _WORDS, "image": _IMAGE, "document": _DOCUMENT,
    **dict.fromkeys(("search_result", "tool_reference", "browser_state"), ANY)})
_RESULT = Shape(required=("tool_use_id",), members={
    "tool_use_id": Shape(str, _NEEDED), "content": Shape((str, list), _LIST, each=_PIECE)},
    rules=(
        predicate_rule(lambda block: block.get("is_error") is not True or block.get("content"),
            "{where}: content cannot be empty if `is_error` is true", _EMPTY_ERROR),
        predicate_rule(lambda block: block.get("is_error") is not True or _is_plain_failure(block),
            "{where}: all content must be type 'text' if 'is_error' is true", _ALL_TEXT),
    ))
_CALL = Shape(required=("id", "name", "input"), members={
    "id": _rule_shape(lambda value: isinstance(value, str) and _ID.fullmatch(value),
        ": String should match pattern '^[a-zA-Z0-9_-]+$'"),
    "name": Shape(rules=(_call_name,)),
    "input": Shape(dict, _OBJECT, phrases=_AnthropicPhrases(_INPUT)),
})
_BLOCK = _rule_shape(lambda block: isinstance(_kind(block), str), f".type: {_NEEDED}",
    members={"cache_control": _CACHE}, closed=True, variants={
        "text": ANY,
        "image": _IMAGE,
        "document": _DOCUMENT,
        "tool_use": _CALL,
        "tool_result": _RESULT,
        "thinking": _rule_shape(lambda it: isinstance(it.get("signature"),
         str) and "thinking" in it,
            f".signature: {_NEEDED}", members={"thinking": _STRING}),
        "redacted_thinking": _rule_shape(lambda it: isinstance(it.get("data"), str) and it["data"],
            f".data: {_NEEDED}"),
        **dict.fromkeys(_OTHER_BLOCKS.split(), ANY),
    })
_SPOKEN = Shape(rules=(
    predicate_rule(lambda message: isinstance(message.get("content"), str | list),
        "{where}" + f".content: {_LIST}", _CONTENT),
    _blank_text,
    ), members={"content": Shape(each=_BLOCK)}, phrases=_AnthropicPhrases(_CONTENT))
_SYSTEM_BLOCK = Shape(rules=(_system_kind,), variants={"text": _WORDS})
_SYSTEM_MESSAGE = Shape(members={
    "content": Shape((str, list), _LIST, null=True, each=_SYSTEM_BLOCK)})
_MESSAGES = {"user": _SPOKEN, "assistant": _SPOKEN, "system": _SYSTEM_MESSAGE}
_MESSAGE = _rule_shape(lambda value: isinstance(value,
     dict) and str(value.get("role")) in _MESSAGES,
    ".role: Input should be 'user', 'assistant' or 'system'", _REFERENCE,
    tag="role", variants=_MESSAGES)
_TOOL = Shape(required=("name", "input_schema"), members={
    "name": Shape(str, _NEEDED),
    "input_schema": _rule_shape(lambda value: value is not None, f": {_NEEDED}", _TOOLS,
        kind=(dict, type(None)), name=_OBJECT),
    "description": _STRING,
    **dict.fromkeys(("strict", "eager_input_streaming", "defer_loading"), _FLAG),
    "cache_control": _CACHE,
})
_CHOICE = _rule_shape(lambda choice: _kind(choice) in ("auto", "any", "tool", "none"),
    ": Input tag does not match any of the expected tags: 'auto', 'any', 'tool', 'none'", _TOOLS,
    null=True, variants={
        "none": _rule_shape(lambda choice: "disable_parallel_tool_use" not in choice,
            ".disable_parallel_tool_use: Extra inputs are not permitted", _TOOLS)})
_FORM = _rule_shape(lambda form: _kind(form) == "json_schema",
     ".type: Input should be 'json_schema'",
    _FORMAT, null=True, required=("schema",), phrases=_AnthropicPhrases(_FORMAT),
    members={"schema": Shape(dict, _NEEDED)})
_THINKS = _rule_shape(lambda thinking: _kind(thinking) in _THINKING_KINDS,
    ": Input tag does not match any of the expected tags: " + ", ".join(map(repr, _THINKING_KINDS)),
    _THINKING,
    null=True, variants={
        "enabled": _rule_shape(lambda it: isinstance(it.get("budget_tokens"), int)
            and it["budget_tokens"] >= 1024,
            ".budget_tokens: Input should be greater than or equal to 1024", _THINKING)})
_SERVER_OR_OWN = Shape(dict, _OBJECT, untagged="custom", variants={"custom": _TOOL})
_BODY = Shape(closed=True, required=("model", "max_tokens", "messages"), members={
    "model": _rule_shape(lambda value: isinstance(value, str) and value,
        ": String should have at least 1 character", _REFERENCE),
    "max_tokens": _rule_shape(lambda value: type(value) is int and value >= 1,
        ": Input should be greater than or equal to 1", _REFERENCE),
    "tools": Shape(list, _LIST, each=_SERVER_OR_OWN, phrases=_AnthropicPhrases(_TOOLS)),
    "tool_choice": _CHOICE,
    "temperature": _rule_shape(lambda value: isinstance(value, int | float) and 0 <= value <= 1,
        ": range: 0..1", _ASSUMED),
    "messages": _rule_shape(len, ": at least one message is required", _REFERENCE,
        kind=list, name=_LIST, each=_MESSAGE),
    "system": Shape((str, list), _LIST, each=Shape(rules=(
        predicate_rule(lambda block: _kind(block) == "text" and block.get("text"),
            "{where}" + f": {_NO_TEXT}", _EMPTY),
        predicate_rule(lambda block: str(block["text"]).strip(), "{where}" + f": {_BLANK_TEXT}",
         _BLANK),
    ))),
    "thinking": _THINKS,
    "output_config": Shape(dict, _OBJECT, null=True, members={"format": _FORM}),
    "output_format": _FORM,
    "stream": _FLAG,
    **dict.fromkeys(_UNCHECKED.split(), ANY),
})
# fmt: on


def check(body: Mapping[str, Any]) -> None:
    """Raises BadRequest, in Anthropic's own words, for the first invalid item. What needs a beta
    header is accepted without one: which betas have become usual changes too often."""
    check_shape(body, _BODY, _AnthropicPhrases(_REFERENCE))
    _check_tools(body)
    _check_history(body["messages"])
    _check_prefill(body["messages"][-1], body["model"])
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
        for place, entry in indexed_dicts(body.get("tools"))
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
    if not entries and not body.get("mcp_servers"):
        raise limits.ASSUMED.refusal("tool_choice may only be specified while providing tools")
    name = choice.get("name")
    listed = any(entry.get("name") == name for entry in entries)
    if choice["type"] == "tool" and not listed and not body.get("mcp_servers"):
        raise _TOOLS.refusal(f"Tool '{name}' not found in provided tools")


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


@dataclass(frozen=True)
class _JoinedMessages:
    """Neighbouring messages of one role, which count as one: `blocks` with their places. `where` is
    the place of the first message."""

    role: str
    where: str
    blocks: list[tuple[str, Mapping[str, Any]]]


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[_JoinedMessages]:
    """The turns of the user and the assistant; system messages may be between them anywhere."""
    turns: list[_JoinedMessages] = []
    for place, message in enumerate(messages):
        where, role, content = f"messages.{place}", message["role"], message["content"]
        if role == "system":
            continue
        if not turns or turns[-1].role != role:
            turns.append(_JoinedMessages(role, where, []))
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        turns[-1].blocks.extend(
            (f"{where}.content.{number}", block) for number, block in enumerate(blocks)
        )
    return turns


def _check_history(messages: Sequence[Mapping[str, Any]]) -> None:
    _check_filled(messages)
    turns = _turns(messages)
    open_ids: list[str] = []
    seen: set[str] = set()
    server_calls: set[str] = set()
    latest = max((n for n, it in enumerate(turns) if it.role == "assistant"), default=-1)
    for number, turn in enumerate(turns):
        _check_speaker(turn)
        _check_signatures(turn, latest == number)
        _check_results(turn, open_ids)
        if turn.role == "assistant":
            _check_served(turn, server_calls, number == len(turns) - 1)
        open_ids = [block["id"] for _, block in turn.blocks if block["type"] == "tool_use"]
        if seen & set(open_ids) or len(set(open_ids)) < len(open_ids):
            raise _ASSUMED.refusal(f"{turn.where}: `tool_use` ids must be unique")
        seen |= set(open_ids)
    if open_ids:
        raise _unanswered_refusal(turns[-1].where, open_ids)


def _check_filled(messages: Sequence[Mapping[str, Any]]) -> None:
    """Checks that each message has content; the last one may be the beginning of the answer."""
    if messages[0]["role"] == "system":
        raise _ASSUMED.refusal('messages: first message must use the "user" role')
    last = messages[-1]
    for place, message in enumerate(messages):
        if message["content"] or (message is last and message["role"] == "assistant"):
            continue
        if message["role"] != "system":
            raise _CONTENT.refusal(
                f"messages.{place}: all messages must have non-empty content except for the "
                "optional final assistant message"
            )


def _check_prefill(last: Mapping[str, Any], model: str) -> None:
    """Checks a last message that is the beginning of the answer."""
    content = last["content"]
    if last["role"] != "assistant" or not content:
        return
    end = {"type": "text", "text": content} if isinstance(content, str) else content[-1]
    if end["type"] != "text":
        return
    if _NO_PREFILL.match(model):
        raise _UNFILLED.refusal(
            "This model does not support assistant message prefill. The conversation must end with "
            "a user message."
        )
    if end["text"] != end["text"].rstrip():
        raise _TRAILING.refusal(
            "messages: final assistant content cannot end with trailing whitespace"
        )


def _check_speaker(turn: _JoinedMessages) -> None:
    for where, block in turn.blocks:
        if (kind := block["type"]) in _SPEAKERS and _SPEAKERS[kind] != turn.role:
            raise _CONTENT_ASSUMED.refusal(
                f"{where}: `{kind}` blocks can not be in `{turn.role}` messages"
            )


def signature_of(thinking: str) -> str:
    """The simulator's signature of this thinking; opaque to others."""
    digest = blake2b(thinking.encode("utf-8", "surrogatepass"), key=_KEY, digest_size=24)
    return b64encode(_MARK + digest.digest()).decode()


def _is_ours(signature: str) -> bool:
    return _signature_bytes(signature).startswith(_MARK)


def _is_anthropics(signature: str) -> bool:
    """Whether it has the form of Anthropic's own signatures, a long protobuf message: these cannot
    be verified here."""
    data = _signature_bytes(signature)
    return len(data) >= _SHORTEST_SIGNATURE and data[0] == _FIRST_BYTE


def _signature_bytes(signature: str) -> bytes:
    try:
        return b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _check_signatures(turn: _JoinedMessages, latest: bool) -> None:
    """Checks that thinking is unchanged; a block whose text was omitted keeps its signature."""
    for where, block in turn.blocks:
        if block["type"] != "thinking":
            continue
        signature, text = block["signature"], block["thinking"]
        sound = signature == signature_of(text) or (not text and _is_ours(signature))
        if _is_ours(signature) and not sound and latest:
            raise _MODIFIED.refusal(
                f"{where}: `thinking` or `redacted_thinking` blocks in the latest "
                "assistant message cannot be modified. These blocks must remain as they were in "
                "the original response."
            )
        if not sound and not _is_anthropics(signature):
            raise _FOREIGN.refusal(f"{where}: Invalid `signature` in `thinking` block")


def _check_results(turn: _JoinedMessages, open_ids: Sequence[str]) -> None:
    """Checks that each call of the previous turn has one result here, before any other block."""
    blocks = [block for _, block in turn.blocks]
    given_ids = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    for where, block in turn.blocks:
        if block["type"] == "tool_result" and (call_id := block["tool_use_id"]) not in open_ids:
            raise _UNKNOWN_ID.refusal(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{call_id}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message."
            )
    if len(set(given_ids)) < len(given_ids):
        twice = next(call_id for call_id in given_ids if given_ids.count(call_id) > 1)
        raise _ASSUMED.refusal(
            f"{turn.where}: each tool_use must have a single result. Found multiple `tool_result` "
            f"blocks with id: {twice}"
        )
    leading = [block for block in blocks[: len(given_ids)] if block["type"] == "tool_result"]
    answered = {block["tool_use_id"] for block in leading}
    missing = [call_id for call_id in open_ids if call_id not in answered]
    if missing:
        late = set(missing) <= set(given_ids)
        raise _unanswered_refusal(turn.where, missing, _RESULTS_FIRST if late else _UNANSWERED)


def _unanswered_refusal(
    where: str, ids: Sequence[str], source: Citation = _UNANSWERED
) -> BadRequest:
    return source.refusal(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )


def _check_served(turn: _JoinedMessages, server_calls: set[str], final: bool) -> None:
    """Checks that server tool calls have their result after them, in the same turn.

    In the last turn one may be open, as it paused; one whose code calls a client tool may always be
    open. `server_calls` are the ids seen so far.
    """
    waiting: set[str] = set()
    for where, block in turn.blocks:
        kind = block["type"]
        if kind == "tool_use" and isinstance(block.get("caller"), dict):
            waiting.discard(str(block["caller"].get("tool_id")))
        elif kind.endswith("_tool_use"):
            server_calls.add(str(block.get("id")))
            waiting.add(str(block.get("id")))
        elif _is_served_result(block):
            call_id = str(block.get("tool_use_id"))
            if call_id not in server_calls:
                raise _UNCALLED.refusal(
                    f"{where}: unexpected `tool_use_id` found in `{kind}` blocks: "
                    f"{call_id}. Each `{kind}` block must have a corresponding `server_tool_use` "
                    "block before it."
                )
            waiting.discard(call_id)
    if waiting and not final:
        raise _UNSERVED.refusal(
            f"{turn.where}: `server_tool_use` ids were found without a corresponding result block: "
            f"{', '.join(sorted(waiting))}."
        )
