"""Reading and refusing requests as Anthropic Messages does: the same status, type and words.

Tools are read in anthropic_tools, the content of messages in anthropic_content.
https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest
from app.core.tools import ToolChoice
from app.protocols.anthropic import request_strict
from app.protocols.anthropic.request_content import check_served, parts_of
from app.protocols.anthropic.request_tools import check_cached, choice_of, tools_of
from app.protocols.reply import tokens
from app.protocols.server import Asked, BadRequest, Source, compact, encoded, object_of, spaced

_KNOWN = spaced(
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

_REFERENCE = Source("Anthropic API reference: Messages")
_ASSUMED = Source("Anthropic API reference: Messages", inferred=True)
_VERSIONS = Source("Anthropic API reference: Versions")
_BETAS = Source("Anthropic API reference: Beta headers", inferred=True)
_THINKING = Source("Anthropic docs: Building with extended thinking")
_TEMPERATURE = Source("https://github.com/mnfst/modelparams.dev/issues/214")
_TOP_P = Source("Anthropic docs: Building with extended thinking", inferred=True)
_TOP_K = Source("https://github.com/quarkiverse/quarkus-langchain4j/issues/1812")
_UNANSWERED = Source("https://github.com/anthropics/claude-code/issues/8210")
_UNKNOWN_ID = Source("https://github.com/tghamm/Anthropic.SDK/issues/184")
_RESULTS_FIRST = Source("docs/wire.md, section 1: results stand before any text", inferred=True)
_FORMAT = Source("Anthropic docs: Structured outputs", inferred=True)
_SYSTEM = Source("types of anthropic-python: BetaSystemMessageParam", inferred=True)
_COUNTS = Source("Anthropic API reference: Count tokens in a Message", inferred=True)
_EMPTY = Source("docs/wire.md, section 1: empty text is refused", inferred=True)


def parse(body: bytes, headers: Mapping[str, str], target: str = "") -> Asked:
    """The request that `body` holds. Raises BadRequest in Anthropic's own words."""
    if not headers.get("anthropic-version"):
        raise _VERSIONS.refusal("anthropic-version: header is required")
    return _asked(object_of(body), headers)


def count(body: bytes, headers: Mapping[str, str], target: str = "", created: int = 0) -> bytes:
    """The answer to a request for a count of tokens, which is read like a message."""
    if not headers.get("anthropic-version"):
        raise _VERSIONS.refusal("anthropic-version: header is required")
    data = object_of(body)
    for name in _NOT_COUNTED:
        if name in data:
            raise _COUNTS.refusal(f"{name}: Extra inputs are not permitted")
    asked = _asked({**data, "max_tokens": _NO_LIMIT}, headers)
    return encoded({"input_tokens": asked.input_tokens})


def _asked(data: dict[str, Any], headers: Mapping[str, str]) -> Asked:
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
    messages, told = _messages(data["messages"])
    request = ModelRequest(
        model=model,
        system="\n".join(filter(None, (_system(data.get("system", "")), told))),
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
    return Asked(request, tokens(compact([data["messages"], data.get("tools"), request.system])))


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
            request_strict.check(schema, f"{where}.schema")
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
    begun: set[str] = set()
    told: list[str] = []
    latest = {_role(entry): place for place, entry in enumerate(value)}
    for place, entry in enumerate(value):
        where = f"messages.{place}"
        role = _role(entry)
        if role == "system" and place:
            told += _told(entry.get("content"), where)
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
            check_served(entry["content"], begun, where, final)
        messages += _split(role, parts)
        open_ids = [part.call_id for part in parts if part.kind == "call"]
        if seen & set(open_ids) or len(set(open_ids)) < len(open_ids):
            raise _ASSUMED.refusal(f"{where}: `tool_use` ids must be unique")
        seen |= set(open_ids)
    if open_ids:
        raise _unanswered(f"messages.{len(value) - 1}", open_ids)
    return tuple(messages), "\n".join(told)


def _told(content: Any, where: str) -> list[str]:
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
    found = [Message("results", results)] if results else []
    return found + ([Message("user", rest)] if rest else [])


def _check_results(parts: Sequence[MessagePart], open_ids: Sequence[str], where: str) -> None:
    """Every call of the message before is answered here, once, ahead of any other block."""
    given = [part.call_id for part in parts if part.kind == "result"]
    for place, part in enumerate(parts):
        if part.kind == "result" and part.call_id not in open_ids:
            raise _UNKNOWN_ID.refusal(
                f"{where}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{part.call_id}. Each `tool_result` block must have a corresponding `tool_use` "
                "block in the previous message."
            )
    if len(set(given)) < len(given):
        raise _ASSUMED.refusal(
            f"{where}: each tool_use must have a single result. Found multiple `tool_result` "
            f"blocks with id: {next(one for one in given if given.count(one) > 1)}"
        )
    leading = {part.call_id for part in parts[: len(given)] if part.kind == "result"}
    missing = [one for one in open_ids if one not in leading]
    if missing:
        late = set(missing) <= set(given)
        raise _unanswered(where, missing, _RESULTS_FIRST if late else _UNANSWERED)


def _unanswered(where: str, ids: Sequence[str], source: Source = _UNANSWERED) -> BadRequest:
    return source.refusal(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(ids)}. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )
