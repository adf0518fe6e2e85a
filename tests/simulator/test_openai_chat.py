"""What the OpenAI Chat end says: free-form calls, the older dialect, several choices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.commands.decode import decode
from playground.protocols.openai_chat.server import END
from playground.protocols.server import IdSource, ModelReply, ReplyBlock, call

FUNCTION = {"type": "function", "function": {"name": "f"}}
CUSTOM = {"type": "custom", "custom": {"name": "g"}}
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
SAID = ModelReply(
    (ReplyBlock("text", "Hi."), call("f", '{"x": 1}'), call("g", {"input": 'a "b"'})), "calls"
)
STAMP = IdSource("s", 0)

streamed = pytest.mark.parametrize("streamed", [True, False])


def answer(streamed: bool, **changes: Any) -> bytes:
    parsed = END.parse(json.dumps({**BODY, **changes}).encode(), {}, "")
    if not streamed:
        return END.whole(SAID, parsed, STAMP)
    return b"".join(frame.data for frame in END.frames(SAID, parsed, STAMP))


def calls(data: bytes) -> list[Any]:
    read = decode("openai_chat", data)["tool_calls"]
    return [(item["name"], item["arguments_raw"]) for item in read]


@streamed
def test_a_free_form_tool_is_called_with_text(streamed: bool) -> None:
    data = answer(streamed, tools=[FUNCTION, CUSTOM])
    assert calls(data) == [("f", '{"x": 1}'), ("g", 'a "b"')]
    assert b'"type":"custom"' in data


@streamed
def test_the_older_dialect_has_one_call_without_an_id(streamed: bool) -> None:
    data = answer(streamed, functions=[{"name": "f"}, {"name": "g"}])
    assert calls(data) == [("f", '{"x": 1}')]
    assert b'"finish_reason":"function_call"' in data
    assert b"tool_calls" not in data


@streamed
def test_as_many_choices_and_logprobs_as_were_asked_for(streamed: bool) -> None:
    data = answer(streamed, tools=[FUNCTION, CUSTOM], n=3, logprobs=True)
    assert b'"index":2,"' in data
    assert data.count(b'"finish_reason":"tool_calls"') == 3
    assert b'"logprob":-0.25' in data
    assert calls(data) == [("f", '{"x": 1}'), ("g", 'a "b"')]
    assert b'"logprob":' not in answer(streamed, tools=[FUNCTION, CUSTOM])
