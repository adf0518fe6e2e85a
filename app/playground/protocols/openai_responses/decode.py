"""Decodes OpenAI Responses (and its dialects), streamed or whole, into events.

Handles events, statuses and errors; `Items` (items.py) follows each output item. Spec:
https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playground.core.events import EndReason, PartKind, Usage
from playground.protocols.base import (
    Codec,
    ModelInfo,
    ProviderError,
    error_sentence,
    model_entries,
    read_error,
)
from playground.protocols.decoder import FAILED_REASONS, BodyDecoder, EventBuilder, ReadOutcome
from playground.protocols.openai_responses.items import Items, Where, clue_of
from playground.protocols.openai_responses.request import QUIRKS, encode
from playground.protocols.raw_json import JsonText

_INCOMPLETE: Mapping[str, EndReason] = {
    "max_output_tokens": "length",
    "content_filter": "refusal",
    "steered": "other",
}
"""Known reasons of an incomplete response; an unknown or missing one means a cut as well."""
_UNFINISHED = ("queued", "in_progress")
"""Statuses of an answer that the provider makes in the background, and that is fetched later."""
"""Statuses of a response that is not, or no longer, an answer."""

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
"""Event -> the type of its item, the kind of its part, and its place in the item: the member, and
the name of its index."""
_OPENED: Mapping[str, tuple[str, str, str]] = {
    "response.content_part.added": ("message", "content", "content_index"),
    "response.reasoning_summary_part.added": ("reasoning", "summary", "summary_index"),
    "response.reasoning_part.added": ("reasoning", "content", "content_index"),
}
"""Event -> the type of its item, the member, and the name of its index."""
_TELLS: Mapping[str, tuple[str, str]] = {
    "response.function_call_arguments.done": ("function_call", "arguments"),
    "response.custom_tool_call_input.done": ("custom_tool_call", "input"),
}
"""Event -> the type of its item, and its member with the whole arguments."""
_TELLS_TEXT: Mapping[str, tuple[str, str]] = {
    "response.output_text.done": ("response.output_text.delta", "text"),
    "response.refusal.done": ("response.refusal.delta", "refusal"),
    "response.reasoning_summary_text.done": ("response.reasoning_summary_text.delta", "text"),
    "response.reasoning_text.done": ("response.reasoning_text.delta", "text"),
}
"""Event -> that of its pieces, and its member with the whole text."""
ENDS: Mapping[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Event -> the status it stands for."""
_MIDDLE = ("response.output_item.", "response.content_part.", "response.output_text.")
"""Events that cannot begin a stream."""
_QUIET = frozenset(
    {"response.created", "response.in_progress", "response.queued", "keepalive", "ping"}
    | {"response.content_part.done", "response.reasoning_summary_part.done"}
    | {"response.reasoning_part.done"}
    | {"response.mcp_call_arguments.done", "response.code_interpreter_call_code.done"}
    | {"response.output_text.annotation.added"}
)
"""Events whose content `output_item.done` repeats."""
_QUIET_STARTS = (
    *("response.web_search_call.", "response.file_search_call.", "response.mcp_call."),
    *("response.code_interpreter_call.", "response.image_generation_call."),
    *("response.mcp_list_tools.", "response.shell_call_", "response.compaction."),
    *("response.audio.", "response.steer."),
)


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = EventBuilder()
    return BodyDecoder(status, answer, _Reader(answer))


class _Reader:
    api = "OpenAI Responses API"
    marked = True

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._items = Items(answer)
        self._meta: dict[str, Any] = {}
        self._opened = False
        self._error: ProviderError | None = (
            None  # an error event, which `response.failed` repeats in full
        )

    def read(self, value: Mapping[str, Any], text: str, event: str) -> ReadOutcome:
        type_ = value.get("type") or event
        if self._error is not None and type_ != "response.failed":
            self.settle(whole=False)
            self._answer.leave_unread()
            self._answer.warn("after_end", "Data came after the end of the answer.")
            return "known"
        if isinstance(type_, str) and not self._opened:
            self._opened = type_ == "response.created" or type_ in ENDS
            if type_.startswith(_MIDDLE):
                self._answer.warn_no_opening("response.created")
        match type_:
            case "error":
                self._error = read_error(value, "error")
                return "held"
            case "response.output_item.added" | "response.output_item.done":
                self._item(str(type_), value, text)
            case str() if type_ in _DELTAS:
                self._delta(_DELTAS[type_], value)
            case str() if type_ in _TELLS:
                item_type, member = _TELLS[type_]
                self._items.tell_arguments(
                    clue_of(value, type_=item_type), value, value.get(member)
                )
            case str() if type_ in _TELLS_TEXT:
                delta, member = _TELLS_TEXT[type_]
                item_type, kind, *at = _DELTAS[delta]
                slot = (at[0], _count(value.get(at[1])) or 0)
                text = _text(value.get(member))
                self._items.tell_text(clue_of(value, type_=item_type), slot, kind, text)
            case str() if type_ in _OPENED:
                self._open(_OPENED[type_], value)
            case str() if type_ in ENDS:
                return self._end(_mapping(value.get("response")), ENDS[type_], text, "response")
            case str() if type_ in _QUIET or type_.startswith(_QUIET_STARTS):
                self._take_head(_mapping(value.get("response")))
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
        is_refusal = answer.has_part("refusal") and not answer.has_part("call")
        return "refusal" if is_refusal else "stop", self._meta

    def settle(self, whole: bool) -> None:
        raw = self._answer.raw_reason
        self._items.settle(whole and raw in ("completed", "complete"))
        if self._error is not None:
            problem, self._error = self._error, None
            self._answer.fail("error", error_sentence(problem.words), error=problem.error)

    # Events.

    def _item(self, type_: str, value: Mapping[str, Any], text: str) -> None:
        item = value.get("item")
        if not isinstance(item, dict):
            self._answer.warn("not_an_object", "An item that is not an object was left out.")
        elif type_.endswith("added"):
            self._items.add(clue_of(value, item), item, (JsonText(text), "item"))
        else:
            self._items.finish_item(clue_of(value, item), item, (JsonText(text), "item"))

    def _delta(self, target: tuple[str, PartKind, str, str], value: Mapping[str, Any]) -> None:
        item, kind, member, number = target
        slot = (member, _count(value.get(number)) or 0)
        self._items.delta(clue_of(value, type_=item), slot, kind, _text(value.get("delta")))
        self._answer.tokens(value.get("logprobs"))

    def _open(self, target: tuple[str, str, str], value: Mapping[str, Any]) -> None:
        type_, member, number = target
        match _mapping(value.get("part")).get("type"):
            case "output_text" | "text":
                kind: PartKind = "text"
            case "refusal":
                kind = "refusal"
            case "summary_text" | "reasoning_text":
                kind = "thinking"
            case _:
                return
        slot = (member, _count(value.get(number)) or 0)
        self._items.open(clue_of(value, type_=type_), slot, kind)

    def _end(
        self, response: Mapping[str, Any], status: str, text: str, *path: str | int
    ) -> ReadOutcome:
        """The response in its end event, or a whole body."""
        self._take_head(response)
        self._answer.raw_reason = status = _text(response.get("status")) or status
        for key in ("incomplete_details", "service_tier"):
            if response.get(key) is not None:
                self._meta[key] = response[key]
        self._count(response.get("usage"))
        self._items.unfinished = status in _UNFINISHED
        output = response.get("output")
        if isinstance(output, list):
            where: Where = (JsonText(text), *path)
            self._items.add_final_list(output, (*where, "output"))
        if response.get("error") or status in FAILED_REASONS:
            self._fail(response, status)
            return "known"
        if self._items.unfinished:
            id_ = self._meta.get("id") or "which is missing"
            self._answer.warn(
                "background",
                f"The provider makes this answer in the background, and its status is {status}, "
                f"so it is not complete. Its client fetches it later by its id, {id_}.",
            )
        return "last"

    def _fail(self, response: Mapping[str, Any], status: str) -> None:
        error = response.get("error")
        problem = read_error({"error": error}) if error else None
        if problem is None:
            words = f"the response has the status {status}"
            problem = self._error or ProviderError({"status": status, "message": words}, words)
        self._error = problem
        self.settle(whole=False)

    def _take_head(self, response: Mapping[str, Any]) -> None:
        for key in ("id", "model"):
            if isinstance(response.get(key), str) and response[key]:
                self._meta[key] = response[key]

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, Mapping) or not usage:
            return
        details = _mapping(usage.get("input_tokens_details"))
        wrote = _mapping(usage.get("output_tokens_details"))
        self._answer.usage = Usage(
            _count(usage.get("input_tokens")),
            _count(usage.get("output_tokens")),
            dict(usage),
            cached_tokens=_count(details.get("cached_tokens")),
            cache_write_tokens=_count(details.get("cache_write_tokens")),
            reasoning_tokens=_count(wrote.get("reasoning_tokens")),
        )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def label(frame: Mapping[str, Any]) -> str:
    """The frame in the protocol's own terms: `response.output_item.added function_call`."""
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
    """Parses GET /models. Spec: https://platform.openai.com/docs/api-reference/models/list"""
    return tuple(ModelInfo(_text(entry.get("id"))) for entry in model_entries(value, "data"))


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
