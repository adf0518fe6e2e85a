"""A tool as each protocol sends it: the encoders' own words."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from playground.core.tools import FREEFORM, Tool
from playground.exchange.tool_export import tool_as_sent
from playground.protocols.registry import CODECS
from tests.factories import ADD_EVENT

SCHEMA = ADD_EVENT.parameters


@pytest.mark.parametrize(
    ("protocol", "entry"),
    [
        ("anthropic", {"name": "add_event", "input_schema": SCHEMA}),
        ("openai_chat", {"type": "function"}),
        ("openai_responses", {"type": "function", "name": "add_event", "strict": False}),
        ("gemini", {"name": "add_event", "parametersJsonSchema": SCHEMA}),
        ("ollama", {"type": "function"}),
    ],
)
def test_the_entry_of_a_request(protocol: str, entry: dict[str, Any]) -> None:
    sent = {on_wire.protocol: json.loads(on_wire.text) for on_wire in tool_as_sent(ADD_EVENT)}
    assert list(sent) == list(CODECS)
    assert entry.items() <= sent[protocol].items()


def test_what_a_protocol_cannot_say_is_noted() -> None:
    free = Tool("free", parameters=FREEFORM, format={"type": "text"})
    sent = {
        on_wire.protocol: (json.loads(on_wire.text), on_wire.notes)
        for on_wire in tool_as_sent(free)
    }
    assert sent["openai_responses"][0]["type"] == "custom"
    assert any("free" in note for note in sent["gemini"][1])
    strict = {
        on_wire.protocol: on_wire.notes for on_wire in tool_as_sent(replace(ADD_EVENT, strict=True))
    }
    assert any("strict" in note for note in strict["ollama"])
