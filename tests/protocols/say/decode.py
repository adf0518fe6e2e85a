"""Decodes answers: a line for each piece of text and each call, {"end": …} as the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from playground.core.events import EndReason
from playground.protocols.base import Codec, ModelInfo, model_entries
from playground.protocols.decoder import BodyDecoder, EventBuilder, OpenPart, ReadOutcome

from .request import encode


class _Reader:
    api = "Say"
    marked = True

    def __init__(self, answer: EventBuilder) -> None:
        self._answer = answer
        self._text: OpenPart | None = None

    def read(self, value: Mapping[str, Any], text: str, event: str) -> ReadOutcome:
        match value:
            case {"say": str(piece)}:
                self._text = self._text or self._answer.start("text")
                self._answer.delta(self._text, piece)
            case {"call": str(name), "id": str(id_), "arguments": str(arguments)}:
                self.settle(True)
                self._answer.add_whole_part("call", arguments, name, id_)
            case {"end": str(reason)}:
                self._answer.raw_reason = reason
                return "last"
            case _:
                return "unknown"
        return "known"

    def ending(self) -> tuple[EndReason, Mapping[str, Any]]:
        return "length" if self._answer.raw_reason == "length" else "stop", {}

    def settle(self, whole: bool) -> None:
        if self._text is not None:
            self._answer.stop(self._text, whole)
            self._text = None


def decoder(status: int) -> BodyDecoder:
    """A Decoder of one response."""
    answer = EventBuilder()
    return BodyDecoder(status, answer, _Reader(answer))


def key_header(key: str, quirks: Sequence[str]) -> Mapping[str, str]:
    """The key goes as a bearer."""
    return {"authorization": f"Bearer {key}"}


def models(value: Any) -> tuple[ModelInfo, ...]:
    """GET /models."""
    return tuple(ModelInfo(str(entry.get("id"))) for entry in model_entries(value, "models"))


CODEC = Codec(
    name="say",
    encode=encode,
    decoder=decoder,
    label=lambda frame: next(iter(frame), ""),
    key_header=key_header,
    models_path="/models",
    models=models,
    quirks={},
)
