"""What it costs to look for secrets in a frame whose end never came."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from playground.core.events import PartDelta, PartEnded, PartStarted
from playground.engine import redaction
from playground.engine.redaction import StreamRedactor
from playground.protocols.framing import Span, StringSpan, bytes_of
from playground.secrets.redaction import Redactor

SECRET = "sk-canary/0f1e2d+3c4b5a69"


def test_a_broken_frame_is_gone_through_once_however_many_texts_it_may_go_on_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each text ends in the beginning of the secret, and the frame's text goes on with it."""
    gone_through: list[int] = []

    def count_bytes(frame: bytes, literal: StringSpan, spans: Sequence[Span]) -> Iterator[Span]:
        gone_through.append(literal.end - literal.start)
        return bytes_of(frame, literal, spans)

    monkeypatch.setattr(redaction, "bytes_of", count_bytes)
    redactor = StreamRedactor(1, Redactor([SECRET]))
    for index in range(50):
        redactor.add_event(PartStarted(index, "text", "", ""), 0, 0, 0)
        redactor.add_event(PartDelta(index, f"{index} {SECRET[:10]}"), 0, 0, 0)
    message = f"{SECRET[10:]} and {SECRET}"
    value: Any = {"text": message, "content": "and so on"}
    redactor.add_bytes(f"data: {json.dumps(value)[:-1]}".encode(), 0)
    redactor.break_off(0)
    for index in range(50):
        message = f"{index} {SECRET[:10]}"
        redactor.add_event(
            PartEnded(index, text=message, name="", provider_id="", meta={}, complete=False),
            0,
            0,
            0,
        )
    released = redactor.release(redactor.size)
    data = b"".join(chunk.data for chunk in released.chunks)
    stars = "*" * len(SECRET)
    assert data.decode() == f'data: {{"text": "{stars[10:]} and {stars}", "content": "and so on"'
    assert sum(gone_through) < len(data)
