"""OpenAI Responses and its dialects, client side: answers to events.

Knows events, statuses and errors; what becomes of an item is in openai_responses_items, requests
are in openai_responses_encode.
Spec: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.core.events import EndReason, PartKind, Usage
from app.protocols.base import Codec, ModelInfo
from app.protocols.builder import FAILED_REASONS, Answer
from app.protocols.decoder import BodyDecoder, Took
from app.protocols.errors import Told, error_sentence, told_error
from app.protocols.listing import listed
from app.protocols.openai_responses.encode import QUIRKS, encode
from app.protocols.openai_responses.items import Items, Where
from app.protocols.raw_json import Quoted

_INCOMPLETE: Mapping[str, EndReason] = {
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "steered": "other",
}
"""The reasons of a response that is incomplete; any other, or none, is a cut as well."""
_FAILED = FAILED_REASONS | {"queued", "in_progress"}
"""The statuses of a response that is no answer: not yet, or no more."""

_DELTAS: Mapping[str, tuple[str, PartKind, str, str]] = {
    "response.output_text.delta": ("message", "text", "content", "content_index"),
    "response.refusal.delta": ("message", "refusal", "content", "content_index"),
    "response.reasoning_summary_text.delta": ("reasoning", "thinking", "summary", "summary_index"),
    "response.reasoning_text.delta": ("reasoning", "thinking", "content", "content_index"),
    "response.function_call_arguments.delta": ("function_call", "call", "arguments", ""),
    "response.custom_tool_call_input.delta": ("custom_tool_call", "call", "arguments", ""),
    "response.mcp_call_arguments.delta": ("mcp_call", "server_call", "block", ""),
    "response.code_interpreter_call_code.delta": (
        "code_interpreter_call",
        "server_call",
        "block",
        "",
    ),
}
"""Event -> the type of its item, the kind of its part, and where in the item that stands: the
member and the name of the number.
"""
_OPENED: Mapping[str, tuple[str, str]] = {
    "response.content_part.added": ("content", "content_index"),
    "response.reasoning_summary_part.added": ("summary", "summary_index"),
    "response.reasoning_part.added": ("content", "content_index"),
}
_TELLS: Mapping[str, str] = {
    "response.function_call_arguments.done": "arguments",
    "response.custom_tool_call_input.done": "input",
}
_ENDS: Mapping[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Event -> the status it stands for."""
_MIDDLE = ("response.output_item.", "response.content_part.", "response.output_text.")
"""Events that a stream cannot begin with."""
_QUIET = frozenset(
    {"response.created", "response.in_progress", "response.queued", "keepalive", "ping"}
    | {"response.content_part.done", "response.output_text.done", "response.refusal.done"}
    | {"response.reasoning_summary_part.done", "response.reasoning_summary_text.done"}
    | {"response.reasoning_text.done", "response.reasoning_part.done"}
    | {"response.mcp_call_arguments.done", "response.code_interpreter_call_code.done"}
    | {"response.output_text.annotation.added"}
)
"""Events whose news `output_item.done` tells once more."""
_QUIET_STARTS = (
    *("response.web_search_call.", "response.file_search_call.", "response.mcp_call."),
    *("response.code_interpreter_call.", "response.image_generation_call."),
    *("response.mcp_list_tools.", "response.shell_call_", "response.compaction."),
    *("response.audio.", "response.steer."),
)


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = Answer()
    return BodyDecoder(status, answer, _Reader(answer))


class _Reader:
    api = "OpenAI Responses API"
    marked = True

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._items = Items(answer)
        self._meta: dict[str, Any] = {}
        self._opened = False
        self._error: Told | None = None  # an error event, which `response.failed` tells in full

    def read(self, value: Mapping[str, Any], text: str, event: str) -> Took:
        type_ = value.get("type") or event
        if self._error is not None and type_ != "response.failed":
            self.settle(whole=False)
            self._answer.warn("after_end", "Something came after the end of the answer.")
            return "known"
        if isinstance(type_, str) and not self._opened:
            self._opened = type_ == "response.created" or type_ in _ENDS
            if type_.startswith(_MIDDLE):
                self._answer.warn_no_opening("response.created")
        match type_:
            case "error":
                self._error = told_error(value, "error")
                return "held"
            case "response.output_item.added" | "response.output_item.done":
                self._item(str(type_), value, text)
            case str() if type_ in _DELTAS:
                self._delta(_DELTAS[type_], value)
            case str() if type_ in _TELLS:
                self._items.tell(_index(value), value.get(_TELLS[type_]))
            case str() if type_ in _OPENED:
                self._open(_OPENED[type_], value)
            case str() if type_ in _ENDS:
                return self._end(_mapping(value.get("response")), _ENDS[type_], text, "response")
            case str() if type_ in _QUIET or type_.startswith(_QUIET_STARTS):
                self._name(_mapping(value.get("response")))
            case _ if value.get("object") == "response":
                return self._end(value, "", text)
            case _:
                return "unknown"
        return "known"

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        answer = self._answer
        if answer.raw_reason == "incomplete":
            details = _mapping(self._meta.get("incomplete_details"))
            return _INCOMPLETE.get(_text(details.get("reason")), "length"), self._meta
        if answer.raw_reason not in ("completed", "complete"):
            return "other", self._meta
        refused = answer.has("refusal") and not answer.has("call")
        return "refusal" if refused else "stop", self._meta

    def settle(self, whole: bool) -> None:
        raw = self._answer.raw_reason
        self._items.settle(whole and raw in ("completed", "complete"))
        if self._error is not None:
            told, self._error = self._error, None
            self._answer.fail("error", error_sentence(told.words), error=told.error)

    # Events.

    def _item(self, type_: str, value: Mapping[str, Any], text: str) -> None:
        item = value.get("item")
        if not isinstance(item, dict):
            self._answer.warn("not_an_object", "An item that is no object was left out.")
        elif type_.endswith("added"):
            self._items.add(_index(value), item, (Quoted(text), "item"))
        else:
            self._items.done(_index(value), item, (Quoted(text), "item"))

    def _delta(self, found: tuple[str, PartKind, str, str], value: Mapping[str, Any]) -> None:
        item, kind, member, number = found
        slot = (member, _count(value.get(number)) or 0)
        self._items.delta(_index(value), item, slot, kind, _text(value.get("delta")))
        self._answer.tokens(value.get("logprobs"))

    def _open(self, found: tuple[str, str], value: Mapping[str, Any]) -> None:
        member, number = found
        match _mapping(value.get("part")).get("type"):
            case "output_text" | "text":
                kind: PartKind = "text"
            case "refusal":
                kind = "refusal"
            case "summary_text" | "reasoning_text":
                kind = "thinking"
            case _:
                return
        self._items.open(_index(value), (member, _count(value.get(number)) or 0), kind)

    def _end(self, response: Mapping[str, Any], status: str, text: str, *path: str | int) -> Took:
        """The response as its end has it, or a whole body."""
        self._name(response)
        self._answer.raw_reason = status = _text(response.get("status")) or status
        for key in ("incomplete_details", "service_tier"):
            if response.get(key) is not None:
                self._meta[key] = response[key]
        self._count(response.get("usage"))
        output = response.get("output")
        if isinstance(output, list):
            where: Where = (Quoted(text), *path)
            self._items.final(output, (*where, "output"))
        if response.get("error") or status in _FAILED:
            self._fail(response, status)
            return "known"
        return "last"

    def _fail(self, response: Mapping[str, Any], status: str) -> None:
        error = response.get("error")
        told = told_error({"error": error}) if error else None
        if told is None:
            words = f"the response has the status {status}"
            told = self._error or Told({"status": status, "message": words}, words)
        self._error = told
        self.settle(whole=False)

    def _name(self, response: Mapping[str, Any]) -> None:
        for key in ("id", "model"):
            if isinstance(response.get(key), str) and response[key]:
                self._meta[key] = response[key]

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, Mapping) or not usage:
            return
        read = _mapping(usage.get("input_tokens_details"))
        wrote = _mapping(usage.get("output_tokens_details"))
        self._answer.usage = Usage(
            _count(usage.get("input_tokens")),
            _count(usage.get("output_tokens")),
            dict(usage),
            cached_tokens=_count(read.get("cached_tokens")),
            cache_write_tokens=_count(read.get("cache_write_tokens")),
            reasoning_tokens=_count(wrote.get("reasoning_tokens")),
        )


def _index(value: Mapping[str, Any]) -> int | None:
    index = _count(value.get("output_index"))
    return index if index is None or index >= 0 else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def label(frame: Mapping[str, Any]) -> str:
    """The frame in the protocol's own words: `response.output_item.added function_call`."""
    item, error = _mapping(frame.get("item")), _mapping(frame.get("error"))
    words = [_text(frame.get("type")) or _text(frame.get("object"))]
    words += [_text(item.get("type")), _text(item.get("name"))]
    words.append(_text(error.get("code")) or _text(error.get("type")))
    if words[0] == "response":
        words.append(_text(frame.get("status")))
    return " ".join(word for word in words if word)


def key_header(key: str, quirks: Sequence[str]) -> Mapping[str, str]:
    if "api_key_header" in quirks:
        return {"api-key": key}
    return {"authorization": f"Bearer {key}"}


def models(value: Any) -> tuple[ModelInfo, ...]:
    """GET /models. Spec: https://platform.openai.com/docs/api-reference/models/list"""
    return tuple(ModelInfo(_text(one.get("id"))) for one in listed(value, "data"))


CODEC = Codec(
    name="openai_responses",
    encode=encode,
    decoder=decoder,
    label=label,
    key_header=key_header,
    models_path="/models",
    models=models,
    quirks=QUIRKS,
    says_again=True,
)
