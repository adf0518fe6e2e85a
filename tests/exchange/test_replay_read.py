from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from playground.exchange.replay_read import READERS, calls_of
from playground.protocols.registry import CODECS

CASES: Sequence[tuple[str, bytes, list[Any]]] = (
    ("anthropic", b"", []),
    ("anthropic", b"data: [DONE]\n\ndata: {cut", []),
    (
        "openai_chat",
        b'\xef\xbb\xbf: ping\r\n\r\ndata: {"choices":[{"delta":{"tool_calls":[{"index":0,"function"'
        b':{"name":"f","arguments":"{\\"a\\":"}}]}}]}\r\n\r\n'
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}}]}',
        [("f", {"a": 1})],
    ),
    ("openai_chat", b'{"choices":[]}', []),
    (
        "openai_chat",
        b'{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{x"}}]}}]}',
        [("f", "{x")],
    ),
    (
        "openai_responses",
        b'{"output":[{"type":"custom_tool_call","name":"f","input":"x"}]}',
        [("f", {"input": "x"})],
    ),
    (
        "gemini",
        b'[{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}]',
        [("f", {})],
    ),
    (
        "ollama",
        b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":"\xe2\x80\xa8"}}}]}}\n{"done":true}\n',
        [("f", {"a": "\u2028"})],
    ),
)

DEEP = '{"x":' * 3000 + "1" + "}" * 3000
HALF = '{"x":' * 400 + "1" + "}" * 400


@pytest.mark.parametrize(("protocol", "body", "calls"), CASES)
def test_calls_are_read(protocol: str, body: bytes, calls: list[Any]) -> None:
    assert calls_of(protocol, body) == calls


@pytest.mark.parametrize(
    "text", ['{"x":NaN}', '{"x":[-Infinity]}', '{"x":1e999}', DEEP, HALF, "[1]"]
)
@pytest.mark.parametrize("is_complete", [True, False])
def test_what_no_program_can_hold_is_compared_by_its_text(text: str, is_complete: bool) -> None:
    message = json.dumps({"name": "f", "arguments": text})
    head = '{"message": {"tool_calls": [{"function": %s}]}}'
    body = head % (f'{{"name": "f", "arguments": {text}}}' if is_complete else message)
    calls = calls_of("ollama", body.encode())
    if is_complete and text == DEEP:
        assert calls == [], "no reader of JSON takes the answer"
        return
    ((name, arguments),) = calls
    assert (name, type(arguments)) == ("f", str)
    assert is_complete or arguments == text


def test_every_protocol_has_a_reader() -> None:
    assert READERS.keys() == CODECS.keys()
