"""Decodes Anthropic Messages responses, streamed or whole, into events.

Handles blocks, deltas and stop reasons; frames, errors and ends are in `decoder`. Spec:
https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playground.core.events import EndReason, PartKind, Usage
from playground.protocols.anthropic.request import QUIRKS, encode
from playground.protocols.base import Codec, ModelInfo, model_entries
from playground.protocols.call_identity import (
    CallDirectory,
    Clue,
    KnownCall,
    has_id_of,
    read_id,
    read_index,
)
from playground.protocols.decoder import BodyDecoder, EventBuilder, OpenPart, ReadOutcome
from playground.protocols.raw_json import JsonText, is_same_value, join_pieces

REASONS: Mapping[str, EndReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}

_GROWS = {"text": "text", "thinking": "thinking"}
"""Block type -> the member that its deltas append to."""
_DELTAS: Mapping[str, tuple[PartKind, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("call", "partial_json"),
}
"""Delta type -> the kind of its part, and its member with the text."""


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = EventBuilder()
    return BodyDecoder(status, answer, _Reader(answer))


class _Block(KnownCall):
    """A block, of any type: its part, and for a call `input` of its start, as JSON text."""

    __slots__ = ("input", "part")

    def __init__(self, clue: Clue, part: OpenPart, input_text: str) -> None:
        super().__init__(clue)
        self.part = part
        self.input = input_text


class _Reader:
    api = "Anthropic Messages API"
    marked = True

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._blocks = CallDirectory[_Block]()
        self._unstarted: set[int | None] = set()  # indexes that were stopped without a start
        self._started = False
        self._meta: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}

    def read(self, value: Mapping[str, Any], text: str, event: str) -> ReadOutcome:
        type_ = value.get("type") or event
        if not self._started and str(type_).startswith(("content_block_", "message_delta")):
            self._answer.warn_no_opening("message_start")
        match type_:
            case "message":
                return self._whole_message(value, text)
            case "message_start":
                self._message_start(_mapping(value.get("message")))
            case "content_block_start":
                block = _mapping(value.get("content_block"))
                input_text = JsonText(text).member("content_block", "input")
                self._block_start(read_index(value.get("index")) or 0, block, input_text)
            case "content_block_delta":
                self._block_delta(read_index(value.get("index")), _mapping(value.get("delta")))
            case "content_block_stop":
                self._block_stop(read_index(value.get("index")))
            case "message_delta":
                self._message_end(_mapping(value.get("delta")), value.get("usage"))
            case "message_stop":
                return "last"
            case "ping":
                pass
            case _:
                return "unknown"
        return "known"

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        self._tell_refusal(_mapping(self._meta.get("stop_details")))
        return REASONS.get(self._answer.raw_reason, "other"), self._meta

    def settle(self, whole: bool) -> None:
        """A block without its `content_block_stop` is incomplete."""
        for block in self._blocks.calls:
            if not block.done:
                self._stop(block, complete=False)

    def _tell_refusal(self, details: Mapping[str, Any]) -> None:
        """Warns with the provider's reason for a refusal, which is not part of the answer."""
        category, words = _text(details.get("category")), _text(details.get("explanation"))
        if category or words:
            about = f" ({category})" if category else ""
            self._answer.warn("refused", f"The model refused{about}: {words or 'no reason given.'}")

    # The message around the blocks.

    def _whole_message(self, value: Mapping[str, Any], text: str) -> ReadOutcome:
        self._message_start(value)
        blocks, quoted = value.get("content"), JsonText(text)
        for index, block in enumerate(blocks if isinstance(blocks, list) else []):
            input_text = quoted.member("content", index, "input")
            self._block_start(index, _mapping(block), input_text, "content", index)
            self._stop(self._blocks.calls[-1], complete=True)
        self._message_end(value, None)
        return "last"

    def _message_start(self, message: Mapping[str, Any]) -> None:
        if self._started:
            # A gateway retried in mid-answer. Open parts stay unfinished; which of the calls that
            # ended before still count, only a person can say.
            self._answer.warn("restarted", "The message started again in the middle of its stream.")
            self.settle(whole=False)
            self._answer.forget_reason()
            self._blocks = CallDirectory()
            self._unstarted.clear()
            self._usage.clear()
        self._started = True
        for key in ("id", "model"):
            if key in message:
                self._meta[key] = message[key]
        self._count(message.get("usage"))

    def _message_end(self, delta: Mapping[str, Any], usage: Any) -> None:
        reason = delta.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._answer.tell_reason(reason, REASONS.get(reason, "other"))
        for key in ("stop_sequence", "stop_details", "container"):
            if delta.get(key) is not None:
                self._meta[key] = delta[key]
        self._count(usage)

    def _count(self, usage: Any) -> None:
        """Counts are sent twice and the later ones count; null means unchanged."""
        if not isinstance(usage, Mapping):
            return
        self._usage.update({key: item for key, item in usage.items() if item is not None})
        counts = self._usage
        self._answer.usage = Usage(
            count(counts.get("input_tokens")),
            count(counts.get("output_tokens")),
            counts,
            cached_tokens=count(counts.get("cache_read_input_tokens")),
            cache_write_tokens=count(counts.get("cache_creation_input_tokens")),
            reasoning_tokens=count(
                _mapping(counts.get("output_tokens_details")).get("thinking_tokens")
            ),
        )

    # Blocks.

    def _block_start(
        self, index: int, block: Mapping[str, Any], input_text: str, *path: str | int
    ) -> None:
        kind = _part_kind(str(block.get("type", "")))
        id_ = read_id(block.get("tool_use_id" if kind == "server_result" else "id"))
        clue = Clue(index=index, call_id=id_)
        left = self._blocks.find_start(clue)
        if left is not None and not left.done:
            self._warn(left.part, "started_twice", f"Block {index} started twice.")
            if kind == left.part.kind == "call" and has_id_of(left, clue):
                self._answer.locate(left.part, *path)
                return  # the same call is announced again
            self._stop(left, complete=False)
        self._unstarted.discard(index)
        own = dict(block)
        first = own.pop(_GROWS.get(str(block.get("type")), ""), "")
        if kind in ("call", "server_call"):
            own.pop("input", None)
        part = self._answer.start(kind, _text(block.get("name")), id_)
        part.meta["block"] = own
        self._answer.locate(part, *path)
        cited = own.get("citations")
        for citation in cited if isinstance(cited, list) else ():
            self._cite(part, citation)
        self._blocks.add(_Block(clue, part, input_text))
        self._answer.delta(part, _text(first))

    def _block_delta(self, index: int | None, delta: Mapping[str, Any]) -> None:
        type_ = str(delta.get("type", ""))
        block = self._blocks.find(Clue(index=index))
        if block is not None and block.done:
            if block.part.kind == "call" and _text(delta.get("partial_json")):
                self._fail_late(block)
                return
            block = None
        elif block is None and index not in self._unstarted and type_ in _DELTAS:
            block = self._open_unannounced(index or 0, type_)
        kind = block.part.kind if block is not None else ""
        if kind not in ("call", "server_call") and delta.get("partial_json"):
            self._answer.leave_unread()
        if block is None:
            message = f"A {type_[:80]} for block {index or 0} was left out."
            self._answer.warn("no_block", message)
            return
        self._answer.locate(block.part)
        own = block.part.meta["block"]
        match type_:
            case "text_delta" | "thinking_delta" | "input_json_delta":
                self._append_text(block.part, delta.get(_DELTAS[type_][1]))
            case "signature_delta":
                own["signature"] = delta.get("signature")
            case "citations_delta":
                if not isinstance(own.get("citations"), list):
                    own["citations"] = []
                own["citations"].append(delta.get("citation"))
                self._cite(block.part, delta.get("citation"))
            case "compaction_delta":
                own.update({key: item for key, item in delta.items() if key != "type"})
            case _:
                self._answer.warn("unknown_delta", f"This version does not know {type_[:80]!r}.")

    def _cite(self, part: OpenPart, citation: Any) -> None:
        self._answer.add_side_text(part, "cited_text", _text(_mapping(citation).get("cited_text")))

    def _append_text(self, part: OpenPart, text: Any) -> None:
        if text is not None and not isinstance(text, str):
            self._answer.mark_doubtful(part)
            self._warn(part, "odd_delta", "A delta that is not text was left out.")
        self._answer.delta(part, _text(text))

    def _fail_late(self, block: _Block) -> None:
        """Arguments came for a call that was stopped. Without them it would look complete and might
        run, so the answer fails."""
        title = f"block {block.index}"
        self._answer.warn_of(
            block.part, "late_arguments", f"{title.capitalize()} continued after it was stopped."
        )
        self.settle(whole=False)
        self._answer.fail(
            "error",
            f"Arguments of the call in {title} came after it had ended, so they are "
            "ambiguous. Retry.",
        )

    def _warn(self, part: OpenPart, code: str, message: str) -> None:
        """A warning about a block; that about a call names it."""
        if part.kind == "call":
            self._answer.warn_of(part, code, message)
        else:
            self._answer.warn(code, message)

    def _open_unannounced(self, index: int, type_: str) -> _Block:
        kind = _DELTAS[type_][0]
        self._block_start(index, {"type": "tool_use" if kind == "call" else kind}, "")
        block = self._blocks.calls[-1]
        self._warn(block.part, "no_start", f"Block {index} was never started.")
        return block

    def _block_stop(self, index: int | None) -> None:
        block = self._blocks.find(Clue(index=index))
        if block is not None:
            self._answer.locate(block.part)
        if block is None or block.done:
            self._answer.warn("no_block", f"Block {index or 0} was stopped but is not open.")
            if block is None:
                self._unstarted.add(index)
        else:
            self._stop(block, complete=True)

    def _stop(self, block: _Block, complete: bool) -> None:
        self._blocks.close(block)
        part = block.part
        if part.kind in ("call", "server_call") and not part.pieces:
            # Without fragments, or with only empty ones, `input` of the start has all arguments. If
            # the block is incomplete, the usual {} of a start means nothing.
            if block.input and (complete or block.input != "{}"):
                part.meta["as_object"] = True
                if block.input == "{}":
                    part.meta["empty"] = True  # this protocol's form of no arguments
                self._answer.delta(part, block.input)
            elif not block.input:
                part.meta["absent"] = True
        elif part.kind == "call" and self._differs(block):
            self._answer.warn_of(
                part,
                "call_differs",
                f"The arguments of {part.name[:80]} came both in its start and as deltas. The "
                "deltas are used.",
            )
        self._answer.stop(part, complete)

    def _differs(self, block: _Block) -> bool:
        """Whether its start had other arguments than its pieces; {} stands for none yet."""
        return block.input not in ("", "{}") and not is_same_value(
            block.input, join_pieces(block.part.pieces)
        )


def _part_kind(type_: str) -> PartKind:
    match type_:
        case "text":
            return "text"
        case "thinking" | "redacted_thinking":
            return "thinking"
        case "tool_use":
            return "call"
        case _ if type_.endswith("_tool_use"):
            return "server_call"
        case _ if type_.endswith("_tool_result"):
            return "server_result"
        case _:
            return "other"


def count(value: Any) -> int | None:
    """A token count, or None if invalid."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def label(frame: Mapping[str, Any]) -> str:
    """The frame in the protocol's own terms: `content_block_delta input_json_delta`."""
    words = [_text(frame.get("type"))]
    for key in ("delta", "content_block"):
        inner = _mapping(frame.get(key))
        words.append(_text(inner.get("type")) or _text(inner.get("stop_reason")))
    words.append(_text(_mapping(frame.get("error")).get("type")))
    return " ".join(word for word in words if word)


def key_header(key: str, quirks: Sequence[str]) -> Mapping[str, str]:
    if "bearer_key" in quirks:
        return {"authorization": f"Bearer {key}"}
    return {"x-api-key": key}


def models(value: Any) -> tuple[ModelInfo, ...]:
    """Parses GET /v1/models. Spec: https://docs.anthropic.com/en/api/models-list"""
    return tuple(_model(entry) for entry in model_entries(value, "data"))


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    able = _mapping(entry.get("capabilities"))

    def supports(name: str) -> bool | None:
        supported = _mapping(able.get(name)).get("supported")
        return supported if isinstance(supported, bool) else None

    return ModelInfo(
        _text(entry.get("id")),
        _text(entry.get("display_name")),
        images=supports("image_input"),
        reasoning=supports("thinking"),
        window=count(entry.get("max_input_tokens")),
    )


CODEC = Codec(
    name="anthropic",
    encode=encode,
    decoder=decoder,
    label=label,
    key_header=key_header,
    models_path="/v1/models?limit=1000",
    models=models,
    quirks=QUIRKS,
)
