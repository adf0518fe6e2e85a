"""The readers of request bodies: they take any JSON object, and read back what an encoder wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.core.messages import Message, MessagePart, ModelRequest
from playground.core.tools import Content, Tool, ToolChoice
from playground.protocols.gemini import limits
from playground.protocols.registry import CODECS, REQUEST_READERS
from playground.protocols.request import AnswerMessage, PromptMessage, RequestNotes, ResultMessage
from tests.tables import rest_slow

WORDS = (
    *("messages", "role", "content", "type", "text", "tool_calls", "function", "name", "images"),
    *("input", "contents", "parts", "functionCall", "functionResponse", "response", "output"),
    *("system", "tools", "tool_choice", "options", "generationConfig", "toolConfig", "thinking"),
    *("generation_config", "function_call", "function_response", "inline_data", "inlineData"),
    *("functionCallingConfig", "allowedFunctionNames", "mode", "allowed_tools", "source", "id"),
)
VALUES = ("user", "assistant", "tool", "model", "system", "text", "tool_use", "tool_result", "ANY")
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(VALUES)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner),
    max_leaves=24,
)

TOOL = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
REQUEST = ModelRequest(
    "m",
    system="Be brief.",
    messages=(
        Message("user", (MessagePart("text", "Look there."),)),
        Message(
            "assistant",
            (
                MessagePart("text", "I look."),
                MessagePart("call", '{"at":"there"}', "look", "call_1"),
                MessagePart("call", '{"at":"here"}', "look", "call_2"),
            ),
        ),
        Message(
            "results",
            (
                MessagePart("result", "", "look", "call_1", (Content(text="a tree"),)),
                MessagePart("result", "", "look", "call_2", (Content(text="a house"),)),
            ),
        ),
        Message("user", (MessagePart("text", "And now?"),)),
    ),
    tools=(TOOL,),
    choice=ToolChoice("tool", "look"),
    params={"max_tokens": 9},
)

MCP = {"type": "mcp", "server_label": "s", "name": "look"}

GEMINI: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {
            "role": "user",
            "parts": [{"text": "Look."}, {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}],
        },
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "look", "response": {"output": "seen"}}}],
        },
    ],
    "tools": [{"function_declarations": [{"name": "look"}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    "generationConfig": {"maxOutputTokens": 9, "topP": 0.5, "stopSequences": ["."]},
}


@pytest.mark.parametrize("protocol", rest_slow(REQUEST_READERS))
@given(body=st.dictionaries(st.sampled_from(WORDS), JSON))
def test_any_object_is_read(protocol: str, body: dict[str, Any]) -> None:
    reader, notes = REQUEST_READERS[protocol], RequestNotes(protocol)
    reader.setup(body, notes)
    for item in reader.items(body, notes):
        value: Any = body
        for step in item.at:
            value = value[step]  # each item names where it stands


@pytest.mark.parametrize("protocol", REQUEST_READERS)
def test_what_was_written_is_read_back(protocol: str) -> None:
    body = json.loads(CODECS[protocol].encode(REQUEST).body)
    reader, notes = REQUEST_READERS[protocol], RequestNotes(protocol)
    setup, items = reader.setup(body, notes), list(reader.items(body, notes))
    assert setup.system == "Be brief."
    assert setup.params == {"max_tokens": 9}
    assert len(setup.tools) == 1
    if protocol != "ollama":  # has no tool choice
        assert setup.choice == ToolChoice("tool", "look")
    read: list[object] = []
    for item in items:
        match item:
            case PromptMessage():
                read.append(item.text)
            case AnswerMessage():
                read += [part.text for part in item.parts]
            case ResultMessage():
                read.append(item.content[0].text)
    assert read == [
        *("Look there.", "I look.", '{"at":"there"}', '{"at":"here"}'),
        *("a tree", "a house", "And now?"),
    ]
    assert not notes.sentences


@pytest.mark.parametrize(
    ("choice", "read", "noted"),
    [
        ({"type": "function", "name": "look"}, ToolChoice("tool", "look"), False),
        ({"type": "custom", "custom": {"name": "look"}}, ToolChoice("tool", "look"), False),
        ({"name": "look"}, ToolChoice("tool", "look"), False),
        (MCP, ToolChoice(), True),
        ({"type": "file_search"}, ToolChoice(), True),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [MCP, {"type": "function", "name": "look"}],
            },
            ToolChoice("required", allowed=("look",)),
            True,
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [MCP]}, ToolChoice(allowed=()), True),
    ],
)
@pytest.mark.parametrize("protocol", ["openai_chat", "openai_responses"])
def test_a_choice_of_what_the_provider_runs_is_no_tool(
    protocol: str, choice: dict[str, Any], read: ToolChoice, noted: bool
) -> None:
    notes = RequestNotes(protocol)
    setup = REQUEST_READERS[protocol].setup({"tool_choice": choice}, notes)
    assert setup.choice == read
    assert any("that the provider runs" in note for note in notes.sentences) is noted


def test_tools_that_come_in_an_item_are_those_of_the_request() -> None:
    """As Codex sends them to models from GPT-6 on, before its instructions."""
    exec_ = {"type": "custom", "name": "exec"}
    space = {"type": "namespace", "name": "functions", "tools": [exec_]}
    text = [{"type": "input_text", "text": "You are Codex."}]
    body = {
        "tools": [{"type": "web_search"}],
        "input": [
            {"type": "additional_tools", "id": "at_1", "role": "developer", "tools": [space]},
            {"type": "message", "id": "msg_1", "role": "developer", "content": text},
            {"type": "message", "role": "user", "content": "Hello"},
        ],
    }
    reader, notes = REQUEST_READERS["openai_responses"], RequestNotes("openai_responses")
    setup = reader.setup(body, notes)
    assert setup.tools == [{"type": "web_search"}, space]
    assert setup.system == "You are Codex."
    (prompt,) = reader.items(body, notes)
    assert isinstance(prompt, PromptMessage)
    assert (prompt.text, prompt.at) == ("Hello", ("input", 2))


def in_snake_case(value: Any) -> Any:
    match value:
        case dict():
            return {limits.snake_name(key): in_snake_case(item) for key, item in value.items()}
        case list():
            return [in_snake_case(item) for item in value]
    return value


def test_gemini_takes_names_in_both_cases() -> None:
    reader, notes = REQUEST_READERS["gemini"], RequestNotes("gemini")
    snake = in_snake_case(GEMINI)
    assert "generationConfig" not in snake
    assert reader.setup(snake, notes) == reader.setup(GEMINI, notes)
    assert reader.setup(snake, notes).choice == ToolChoice("tool", "look")
    assert list(reader.items(snake, notes)) == list(reader.items(GEMINI, notes))
    assert not notes.sentences


def test_names_that_gemini_sends_back_stay_as_they_came() -> None:
    body = {
        "safety_settings": [],
        "generation_config": {"response_mime_type": "text/plain", "max_output_tokens": 9},
        "tool_config": {"retrieval_config": {"language_code": "fr"}},
        "contents": [{"parts": [{"file_data": {"file_uri": "u"}}]}],
    }
    reader, notes = REQUEST_READERS["gemini"], RequestNotes("gemini")
    assert reader.setup(body, notes).extra == {
        "safety_settings": [],
        "generationConfig": {"response_mime_type": "text/plain"},
        "toolConfig": {"retrieval_config": {"language_code": "fr"}},
    }
    (message,) = reader.items(body, notes)
    assert isinstance(message, PromptMessage)
    assert message.form["pieces"] == [{"other": {"file_data": {"file_uri": "u"}}}]


def test_gemini_is_sent_no_field_by_both_of_its_names() -> None:
    extra = {"generation_config": {"max_output_tokens": 7, "top_k": 3}}
    sent = CODECS["gemini"].encode(replace(REQUEST, extra=extra))
    assert json.loads(sent.body)["generationConfig"] == {"maxOutputTokens": 7, "top_k": 3}
    assert "generation_config" not in json.loads(sent.body)
    assert any("generationConfig.maxOutputTokens" in note for note in sent.notes)


@pytest.mark.parametrize(
    "piece",
    [
        {"inlineData": {"mimeType": "image/png"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png"}},
    ],
)
def test_an_image_without_its_bytes_is_none(piece: dict[str, Any]) -> None:
    notes = RequestNotes("p")
    (message,) = notes.messages([piece], ())
    assert message.images == ()
    assert notes.sentences
