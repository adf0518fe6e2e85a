"""A tool's result in the words of each provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.tools import Content, Tool, ToolResult, text_result
from playground.exchange.tool_export import results_data, wire_results
from playground.protocols.registry import CODECS

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def results_by_protocol(result: ToolResult) -> dict[str, Any]:
    wire_texts = wire_results(Tool("add"), '{"a": 1}', result)
    assert [on_wire.protocol for on_wire in wire_texts] == list(CODECS)
    return {on_wire.protocol: json.loads(on_wire.text) for on_wire in wire_texts}


def test_each_protocol_has_its_own_words() -> None:
    by = results_by_protocol(text_result("42"))
    assert by["anthropic"]["role"] == "user"
    assert by["anthropic"]["content"][0]["type"] == "tool_result"
    assert by["anthropic"]["content"][0]["tool_use_id"] == "call_1"
    assert by["openai_chat"] == {"role": "tool", "tool_call_id": "call_1", "content": "42"}
    assert by["openai_responses"]["type"] == "function_call_output"
    assert by["openai_responses"]["output"] == "42"
    assert by["gemini"]["parts"][0]["functionResponse"]["name"] == "add"
    assert by["ollama"]["role"] == "tool"
    assert all("42" in json.dumps(value) for value in by.values())


def test_an_error_is_told_by_a_word_or_by_its_text() -> None:
    by = results_by_protocol(text_result("no such city", is_error=True, kind="failed"))
    assert by["anthropic"]["content"][0]["is_error"] is True
    assert by["openai_chat"]["content"] == "Error: no such city"
    notes = {
        wire_result.protocol: wire_result.notes
        for wire_result in wire_results(Tool("add"), "{}", ToolResult())
    }
    assert set(notes) == set(CODECS)


def test_an_image_is_there_in_each_or_a_note_says_so() -> None:
    result = ToolResult((Content("image", media_type="image/png", data=PIXEL),))
    for wire_result in wire_results(Tool("shot"), "{}", result):
        assert PIXEL in wire_result.text or wire_result.notes, wire_result.protocol


def test_a_free_form_call_is_found_too() -> None:
    tool = Tool("say", parameters={}, format={"type": "text"})
    results = wire_results(
        tool, '{"input": "hi"}', text_result("ok"), {"openai_chat": ("custom_tools",)}
    )
    assert all("ok" in result.text for result in results)


@pytest.mark.parametrize("text", ["", "{}", '{"n": 12345678901234567890.10}', "\ud800"])
def test_whatever_a_tool_said_can_be_shown(text: str) -> None:
    assert set(results_data(wire_results(Tool("x"), "{}", text_result(text)))) == set(CODECS)
