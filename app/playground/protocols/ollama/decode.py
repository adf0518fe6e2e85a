"""Decodes responses of Ollama's own chat API, streamed or whole, into events.

Lines of JSON, or one object without streaming; a call arrives complete, with an object as
arguments. Frames and errors are in `decoder`. Spec: https://docs.ollama.com/api/chat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from playground.core.events import EndReason, Usage
from playground.protocols.base import Codec, ModelInfo, model_entries
from playground.protocols.call_identity import read_id
from playground.protocols.decoder import BodyDecoder, EventBuilder, OpenPart, ReadOutcome
from playground.protocols.ollama.request import QUIRKS, encode
from playground.protocols.raw_json import JsonText

DONE = "done"
"""The finish reason if a server says only that it is done (before `done_reason` existed)."""
REASONS: Mapping[str, EndReason] = {
    "stop": "stop",
    DONE: "stop",
    "length": "length",
}

_NOT_COUNTED = frozenset({"model", "created_at", "message", "logprobs"})
"""Members of the last line other than counts and durations (in nanoseconds)."""
_READ = frozenset({"role", "content", "thinking", "tool_calls"})

Prose = Literal["text", "thinking"]


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = EventBuilder()
    return BodyDecoder(status, answer, _Reader(answer))


class _Reader:
    api = "Ollama API"
    marked = True

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._prose: OpenPart | None = None
        self._logprobs: list[Any] = []  # logprobs waiting for their part
        self._meta: dict[str, Any] = {}

    def read(self, value: Mapping[str, Any], text: str, event: str) -> ReadOutcome:
        message = value.get("message")
        if not isinstance(message, dict) and not isinstance(value.get("done"), bool):
            return "unknown"
        for key in ("model", "remote_model"):
            if isinstance(value.get(key), str) and value[key]:
                self._meta.setdefault(key, value[key])
        logprobs = value.get("logprobs")
        self._logprobs += logprobs if isinstance(logprobs, list) else []
        self._answer.tokens(logprobs)
        if isinstance(message, dict):
            self._message(message, JsonText(text))
        if value.get("done") is not True:
            return "known"
        reason = value.get("done_reason")
        self._answer.raw_reason = reason if isinstance(reason, str) and reason else DONE
        self._count(value)
        return "last"

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        return REASONS.get(self._answer.raw_reason, "other"), self._meta

    def settle(self, whole: bool) -> None:
        self._end_prose(whole)
        if self._logprobs:
            self._meta["logprobs"] = self._logprobs

    def _message(self, message: Mapping[str, Any], quoted: JsonText) -> None:
        self._append_text("thinking", message.get("thinking"))
        self._append_text("text", message.get("content"))
        calls = message.get("tool_calls")
        for place, call in enumerate(calls if isinstance(calls, list) else []):
            self._end_prose()
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                source = quoted.member("message", "tool_calls", place, "function", "arguments")
                part = self._call(call, function, source)
                self._answer.locate(part, "message", "tool_calls", place)
            else:
                self._answer.warn("odd_call", "A call without a function was left out.")
        rest = {key: item for key, item in message.items() if key not in _READ and item is not None}
        if rest:
            self._meta.setdefault("message", {}).update(rest)

    def _append_text(self, kind: Prose, text: Any) -> None:
        """Appends to the current text, or begins a new part if its kind changes."""
        if not isinstance(text, str) or not text:
            return
        if self._prose is None or self._prose.kind != kind:
            self._end_prose()
            self._prose = self._answer.start(kind)
        if self._logprobs:
            self._prose.meta.setdefault("logprobs", []).extend(self._logprobs)
            self._logprobs = []
        self._answer.delta(self._prose, text)

    def _end_prose(self, complete: bool = True) -> None:
        prose, self._prose = self._prose, None
        if prose is not None:
            self._answer.stop(prose, complete)

    def _call(self, call: Mapping[str, Any], function: Mapping[str, Any], source: str) -> OpenPart:
        """A complete call. `source` is the JSON text of its arguments, or ""."""
        name, id_ = function.get("name"), call.get("id")
        part = self._answer.start("call", name if isinstance(name, str) else "", read_id(id_))
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            # Servers that also speak OpenAI's protocol may send arguments as a string.
            part.meta["packed"] = True
            self._answer.delta(part, arguments)
        elif source:
            part.meta["as_object"] = True
            if arguments == {}:
                part.meta["empty"] = True  # this protocol's form of no arguments
            self._answer.delta(part, source)
        else:
            part.meta["absent"] = True
        for key, own, known in (
            ("extra", call, ("id", "function")),
            ("function", function, ("name", "arguments")),
        ):
            rest = {name: item for name, item in own.items() if name not in known}
            if rest:
                part.meta[key] = rest
        self._answer.stop(part)
        return part

    def _count(self, value: Mapping[str, Any]) -> None:
        """Reads counts from the last line; a completely cached prompt has no count there."""
        raw = {name: item for name, item in value.items() if name not in _NOT_COUNTED}
        self._answer.usage = Usage(
            _valid_count(raw.get("prompt_eval_count")), _valid_count(raw.get("eval_count")), raw
        )


def _valid_count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _id(value: Any) -> str:
    return value if isinstance(value, str) else ""


def label(frame: Mapping[str, Any]) -> str:
    """The content of a line: `chat tool_calls`, `done stop`, `error`."""
    if frame.get("error"):
        return "error"
    message = frame.get("message")
    carried = message if isinstance(message, dict) else {}
    words = ["chat", *(key for key, item in carried.items() if item and key != "role")]
    if frame.get("done") is True:
        words += ["done", _id(frame.get("done_reason"))]
    return " ".join(word for word in words if word)


def key_header(key: str, quirks: Sequence[str]) -> Mapping[str, str]:
    """A local server needs no key; ollama.com does."""
    return {"authorization": f"Bearer {key}"}


def models(value: Any) -> tuple[ModelInfo, ...]:
    """Parses GET /api/tags. Spec: https://docs.ollama.com/api/tags"""
    return tuple(_model(entry) for entry in model_entries(value, "models"))


def _model(entry: Mapping[str, Any]) -> ModelInfo:
    """Only newer servers report capabilities."""
    id_ = _id(entry.get("model")) or _id(entry.get("name"))
    raw = entry.get("details")
    details = raw if isinstance(raw, dict) else {}
    words = [_id(details.get(key)) for key in ("parameter_size", "quantization_level")]
    size = ", ".join(word for word in words if word)
    window = _valid_count(details.get("context_length")) or _valid_count(
        entry.get("context_length")
    )
    able = entry.get("capabilities")
    if not isinstance(able, list):
        return ModelInfo(id_, f"{id_} ({size})" if size else id_, window=window)
    return ModelInfo(
        id_,
        f"{id_} ({size})" if size else id_,
        tools="tools" in able,
        images="vision" in able,
        reasoning="thinking" in able,
        window=window,
    )


CODEC = Codec(
    name="ollama",
    encode=encode,
    decoder=decoder,
    label=label,
    key_header=key_header,
    models_path="/api/tags",
    models=models,
    quirks=QUIRKS,
)
