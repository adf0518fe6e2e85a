"""The members that our requests have are those that the official packages know, name by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

import pytest

from playground.core.messages import Message, MessagePart
from playground.core.tools import FREEFORM, Tool, ToolChoice
from tests.protocols.requests import IMAGE, assistant, call, encoded, request, result_part, results

GRAMMAR = {"type": "grammar", "syntax": "regex", "definition": "a+"}
TOOLS = (
    Tool("f", "Does f.", strict=True, eager=True),
    Tool("g"),
    Tool("sql", "Asks.", FREEFORM, format=GRAMMAR),
)
PARAMS = {"max_tokens": 9, "temperature": 0, "top_p": 1, "stop": "E", "thinking": "low"}
HISTORY = (
    Message("user", (MessagePart("image", content=(IMAGE,)), MessagePart("text", "hi"))),
    assistant(MessagePart("text", "so"), call("a", '{"x": 1}'), call("b", name="g")),
    results(result_part("a", "no", is_error=True), result_part("b", "x", IMAGE)),
)

ANTHROPIC_BLOCKS = {
    "text": "TextBlockParam",
    "image": "ImageBlockParam",
    "tool_use": "ToolUseBlockParam",
    "tool_result": "ToolResultBlockParam",
    "thinking": "ThinkingBlockParam",
}
CHAT_MESSAGES: Mapping[str, str] = {
    "system": "ChatCompletionSystemMessageParam",
    "user": "ChatCompletionUserMessageParam",
    "assistant": "ChatCompletionAssistantMessageParam",
    "tool": "ChatCompletionToolMessageParam",
}
CHAT_PARTS: Mapping[str, str] = {
    "text": "ChatCompletionContentPartTextParam",
    "image_url": "ChatCompletionContentPartImageParam",
}
CHAT_CALLS: Mapping[str, str] = {
    "function": "ChatCompletionMessageFunctionToolCallParam",
    "custom": "ChatCompletionMessageCustomToolCallParam",
}
CHOICES = (
    ToolChoice(),
    ToolChoice("required", parallel=False),
    ToolChoice("tool", "sql"),
    ToolChoice(allowed=("f", "sql")),
)


def names(*typed: Any) -> set[str]:
    return {name for item in typed for name in get_type_hints(item)}


@pytest.mark.parametrize("choice", CHOICES)
def test_anthropic(choice: ToolChoice) -> None:
    # A second's work: for the worker that runs this alone.
    from anthropic import types as anthropic
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    thought = MessagePart(
        "thinking", "why", meta={"block": {"type": "thinking", "signature": "s"}},
        protocol="anthropic",
    )  # fmt: skip
    wanted = request(
        *HISTORY, assistant(thought), system="s", tools=TOOLS, choice=choice, params=PARAMS
    )
    body, _ = encoded("anthropic", wanted)
    # Older models take these two; the newest refuse them, and the types have dropped them.
    assert body.keys() - {"temperature", "top_p"} <= names(MessageCreateParamsStreaming)
    assert all(tool.keys() <= names(anthropic.ToolParam) for tool in body["tools"])
    kinds = {"auto": "Auto", "any": "Any", "tool": "Tool"}
    if text := body.get("tool_choice"):
        assert text.keys() <= names(getattr(anthropic, f"ToolChoice{kinds[text['type']]}Param"))
    blocks = [block for message in body["messages"] for block in message["content"]]
    blocks += [piece for block in blocks for piece in block.get("content", ())
               if isinstance(piece, dict)]  # fmt: skip
    assert {block["type"] for block in blocks} == ANTHROPIC_BLOCKS.keys()
    for block in blocks:
        assert block.keys() <= names(getattr(anthropic, ANTHROPIC_BLOCKS[block["type"]]))


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("quirks", [(), ("custom_tools", "allowed_tools")])
def test_openai_chat(choice: ToolChoice, quirks: tuple[str, ...]) -> None:
    from openai.types import chat
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    wrote = assistant(call("c", '{"input": "x"}', "sql"))
    wanted = request(
        *HISTORY, wrote, system="s", tools=TOOLS, choice=choice, params=PARAMS, quirks=quirks
    )
    body, _ = encoded("openai_chat", wanted)
    assert body.keys() <= names(CompletionCreateParamsStreaming)
    kinds = {"function": chat.ChatCompletionFunctionToolParam,
             "custom": chat.ChatCompletionCustomToolParam}  # fmt: skip
    assert all(tool.keys() == names(kinds[tool["type"]]) for tool in body["tools"])
    text = body.get("tool_choice")
    if isinstance(text, dict):
        assert text.keys() == {"type", text["type"]}
    for message in body["messages"]:
        assert message.keys() <= names(getattr(chat, CHAT_MESSAGES[message["role"]]))
        content = message["content"]
        for part in content if isinstance(content, list) else []:
            assert part.keys() <= names(getattr(chat, CHAT_PARTS[part["type"]]))
        for tool_call in message.get("tool_calls", ()):
            assert tool_call.keys() == names(getattr(chat, CHAT_CALLS[tool_call["type"]]))


@pytest.mark.parametrize("choice", CHOICES)
def test_ollama(choice: ToolChoice) -> None:
    import ollama

    wanted = request(*HISTORY, system="s", tools=TOOLS, choice=choice, params=PARAMS)
    body, _ = encoded("ollama", wanted)
    known = ollama._types.ChatRequest
    known.model_validate(body)
    assert body.keys() <= known.model_fields.keys()
    assert body["options"].keys() <= ollama.Options.model_fields.keys()
    for message in body["messages"]:
        # The server knows the ids of calls (api/types.go), its Python package does not yet.
        assert message.keys() - {"tool_call_id"} <= ollama.Message.model_fields.keys()
        for tool_call in message.get("tool_calls", ()):
            assert tool_call.keys() == {"id", "function"}
            assert tool_call["function"].keys() == {"name", "arguments"}
