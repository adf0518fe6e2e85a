"""Requests as coding agents send them: brought in and sent again they say the same, at the same
place; and what another protocol cannot say of them is in its notes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from playground.core.events import Event, Logged, PromptAdded, SessionStarted
from playground.core.messages import model_request
from playground.core.reducer import fold
from playground.core.serialization import from_data
from playground.core.settings import PROTOCOLS, Profile, Protocol, Settings
from playground.core.tools import Tool, ToolChoice, ToolResult, text_result
from playground.exchange.requests_export import encode_request
from playground.exchange.requests_import import ImportedSession, read_requests, session_from_request
from playground.protocols.registry import codec

CACHED: dict[str, Any] = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}

GEMINI_CLI: dict[str, Any] = {
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "Context."},
                {"text": "Read a.txt", "partMetadata": {"a": 1}},
                {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x/f"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {"name": "read_file", "args": {"path": "a.txt"}, "id": "c1"},
                    "thoughtSignature": "c2ln",
                }
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "c1",
                        "name": "read_file",
                        "response": {"output": "Hello"},
                        "scheduling": "WHEN_IDLE",
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
                    }
                },
                {"text": "Go on."},
            ],
        },
    ],
    "systemInstruction": {"role": "user", "parts": [{"text": "You are Gemini CLI."}]},
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "read_file",
                    "description": "Reads.",
                    "parametersJsonSchema": SCHEMA,
                    "behavior": "NON_BLOCKING",
                    "responseJsonSchema": {"type": "object"},
                }
            ]
        }
    ],
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY"},
        "retrievalConfig": {"languageCode": "en"},
    },
    "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64},
}

OLLAMA: dict[str, Any] = {
    "model": "qwen3",
    "messages": [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Read a.txt", "images": ["AAAA"]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "read", "arguments": {"path": "a.txt"}}}],
        },
        {"role": "tool", "tool_name": "read", "content": "Hello"},
        {"role": "system", "content": "Plan mode is off."},
        {"role": "user", "content": "Go on."},
    ],
    "tools": [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}],
    "options": {"temperature": 0.5, "num_ctx": 8192},
    "keep_alive": "5m",
    "stream": True,
}

OWN: Mapping[str, str] = {
    "anthropic": "cache_control tool_reference defer_loading input_examples allowed_callers "
    "metadata context_management output_config",
    "openai_chat": "cache_control image_url file seed name",
    "openai_responses": "namespace defer_loading detail input_file client_metadata "
    "prompt_cache_key",
    "gemini": "partMetadata fileData behavior responseJsonSchema scheduling toolConfig "
    "generationConfig",
    "ollama": "keep_alive options",
}
"""What nobody but its own protocol is told, by the names in the notes."""

LATER: Mapping[str, tuple[str, ...]] = {
    "anthropic": (
        "Read a.txt",
        "# Environment\nLinux",
        "I read it.",
        "Go on.",
        "Plan mode is off.",
    ),
    "openai_chat": ("Read a.txt", "Plan mode is off.", "Go on.", "Be brief."),
    "openai_responses": ("Read a.txt", "Started.", "Now plan.", "Look"),
    "gemini": ("Context.", "Read a.txt", "Go on."),
    "ollama": ("Read a.txt", "Plan mode is off.", "Go on."),
}
"""What is said, in its order, the system's among it."""


def text(message: str, kind: str = "text", **beside: Any) -> dict[str, Any]:
    return {"type": kind, "text": message, **beside}


CLAUDE_CODE: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 32000,
    "system": [text("You are an agent.", **CACHED), text("Be brief.", **CACHED)],
    "metadata": {"user_id": "u"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "output_config": {"effort": "high"},
    "thinking": {"type": "adaptive", "display": "omitted"},
    "messages": [
        {"role": "user", "content": [text("<reminder>R</reminder>"), text("Read a.txt", **CACHED)]},
        {
            "role": "system",
            "content": [text("# Environment\nLinux")],
            "output_config": {"effort": "medium"},
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
                text("I read it.", **CACHED),
                {
                    "type": "tool_use",
                    "id": "toolu_1",
                    "name": "Read",
                    "input": {"path": "a.txt"},
                    "caller": {"type": "direct"},
                    **CACHED,
                },
                {"type": "tool_use", "id": "toolu_2", "name": "ToolSearch", "input": {"path": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "1\tHello", **CACHED},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": [{"type": "tool_reference", "tool_name": "Edit"}],
                },
                text("Go on."),
            ],
        },
        {"role": "system", "content": "Plan mode is off."},
    ],
    "tools": [
        {"name": "Read", "description": "Reads.", "input_schema": SCHEMA, **CACHED},
        {
            "name": "Edit",
            "description": "Edits.",
            "input_schema": SCHEMA,
            "defer_loading": True,
            "input_examples": [{"path": "a.txt"}],
            "allowed_callers": ["direct", "code_execution_20260120"],
        },
        {"name": "ToolSearch", "input_schema": SCHEMA},
    ],
    "stream": True,
}

CODEX: dict[str, Any] = {
    "model": "gpt-5.4",
    "instructions": "You are Codex.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [text("<permissions>", "input_text"), text("<apps>", "input_text")],
        },
        {"type": "message", "role": "user", "content": [text("Read a.txt", "input_text")]},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "spawn_agent",
            "namespace": "collaboration",
            "arguments": '{"path":"a.txt"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "started"},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Started.", "annotations": []}],
        },
        {"type": "message", "role": "developer", "content": [text("Now plan.", "input_text")]},
        {
            "type": "message",
            "role": "user",
            "content": [
                text("Look", "input_text"),
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
                {"type": "input_file", "file_id": "file_1"},
            ],
        },
    ],
    "tools": [
        {
            "type": "namespace",
            "name": "collaboration",
            "description": "Agents.",
            "tools": [
                {
                    "type": "function",
                    "name": "spawn_agent",
                    "description": "Spawns.",
                    "strict": False,
                    "parameters": SCHEMA,
                },
                {
                    "type": "function",
                    "name": "wait_agent",
                    "strict": False,
                    "defer_loading": True,
                    "parameters": SCHEMA,
                },
            ],
        },
        {"type": "function", "name": "shell", "strict": False, "parameters": SCHEMA},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"originator": "codex"},
}

OPENCODE: dict[str, Any] = {
    "model": "gpt-4.1",
    "messages": [
        {"role": "system", "content": "You are opencode."},
        {
            "role": "user",
            "content": [
                text("Read a.txt", **CACHED),
                {
                    "type": "image_url",
                    "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"},
                },
                {"type": "file", "file": {"file_id": "file_1"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path":"a.txt"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": [text("Hello", **CACHED)]},
        {"role": "system", "content": "Plan mode is off."},
        {"role": "user", "content": "Go on.", "name": "ann"},
        {"role": "developer", "content": "Be brief."},
    ],
    "tools": [
        {"type": "function", "function": {"name": "read", "parameters": SCHEMA}, **CACHED},
    ],
    "tool_choice": "required",
    "seed": 7,
    "stream": True,
    "stream_options": {"include_usage": True},
}

REQUESTS: Mapping[Protocol, dict[str, Any]] = {
    "anthropic": CLAUDE_CODE,
    "openai_chat": OPENCODE,
    "openai_responses": CODEX,
    "gemini": GEMINI_CLI,
    "ollama": OLLAMA,
}


def import_agent_session(protocol: Protocol) -> ImportedSession:
    requests = read_requests(json.dumps(REQUESTS[protocol]))
    assert requests.problem == ""
    (request,) = requests.requests
    assert request.protocol == protocol
    setup = replace(request.setup, model=request.setup.model or "gemini-3-pro")
    return session_from_request(
        replace(request, setup=setup), Profile("p", protocol, "https://x"), "s", 5
    )


def normalize_body(protocol: str, body: dict[str, Any]) -> dict[str, Any]:
    """`body` without the differences that mean nothing to its protocol."""
    body = json.loads(json.dumps(body))
    match protocol:
        case "anthropic":
            for message in body["messages"]:
                if message["role"] == "system" and isinstance(message["content"], str):
                    message["content"] = [text(message["content"])]
        case "openai_responses":
            body.setdefault("tool_choice", "auto")
        case "gemini":
            body["systemInstruction"].pop("role", None)
        case "ollama":  # it has no ids, and takes ours
            for message in body["messages"]:
                message.pop("tool_call_id", None)
                for call in message.get("tool_calls") or ():
                    call.pop("id", None)
    return body


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_an_agent_sent_is_sent_again_as_it_was(protocol: Protocol) -> None:
    session = import_agent_session(protocol)
    assert session.session.settings is not None
    request = model_request(session.session, session.session.settings.tool_choice)
    sent = json.loads(codec(protocol).encode(request).body)
    assert normalize_body(protocol, sent) == normalize_body(protocol, REQUESTS[protocol])


@pytest.mark.parametrize(
    ("protocol", "other"),
    [(protocol, other) for protocol in PROTOCOLS for other in PROTOCOLS if protocol != other],
)
def test_another_protocol_says_all_it_can_and_names_the_rest(
    protocol: Protocol, other: Protocol
) -> None:
    request = encode_request(import_agent_session(protocol).session, other, None)
    notes, body = " ".join(request.notes), request.body.decode()
    assert [name for name in OWN[protocol].split() if name not in notes] == []
    own = {*OWN[protocol].split()} - {"image_url", "detail", "toolConfig", "generationConfig"}
    outputs = {f'"{name}"' for name in own} - {'"options"', '"namespace"', '"name"'}
    assert [name for name in sorted(outputs) if name + ":" in body] == []
    places = [body.find(json.dumps(message)[1:-1]) for message in LATER[protocol]]
    assert places == sorted(places)
    assert -1 not in places
    assert ("ater system messages" in notes) == (other == "gemini" and protocol != "gemini")


def test_functions_of_a_namespace_are_the_clients() -> None:
    """Each is taken by the name that calls have; of two of one name the first."""
    more = {**CODEX["tools"][0], "name": "other", "tools": [*CODEX["tools"][0]["tools"][:1], 5]}
    (request,) = read_requests(json.dumps({**CODEX, "tools": [*CODEX["tools"], more]})).requests
    session = session_from_request(request, Profile("p", "openai_responses", "https://x"), "s", 5)
    assert session.session.settings is not None
    names = [tool.name for tool in session.session.settings.tools]
    assert names == ["spawn_agent", "wait_agent", "shell"]
    assert list(session.notes) == [
        "The tool spawn_agent was left out: another tool has the same name.",
        "The tool without a name was left out: Only functions of the namespace 'other' can be "
        "imported.",
    ]


@pytest.mark.parametrize(
    "form",
    [
        {"protocol": "anthropic", "pieces": [{"chars": 3}]},
        {"protocol": "anthropic", "pieces": [{"chars": 3}, {"chars": 99}, {"image": True}]},
        {"protocol": "anthropic", "pieces": [{"chars": "3"}, 5]},
        {"protocol": 5, "pieces": 5},
        {"pieces": [{"chars": 11, "own": {"text": "hidden", "type": "document"}}]},
        {"protocol": "anthropic", "pieces": [{"chars": 11, "own": {"text": "hidden"}}]},
    ],
)
def test_a_form_from_anybody_says_nothing_else_than_what_is_shown(form: dict[str, Any]) -> None:
    settings = Settings(Profile("p", "anthropic", "https://x"))
    log: list[Event] = [SessionStarted(settings), PromptAdded("Hello\n\nyou.", form=form)]
    session = fold("s", [Logged(place, 1, event) for place, event in enumerate(log, 1)])
    sent = json.loads(codec("anthropic").encode(model_request(session, ToolChoice())).body)
    assert sent["messages"] == [{"role": "user", "content": [text("Hello\n\nyou.")]}]


def test_a_piece_whose_text_is_none_is_sent_as_it_came() -> None:
    lines = [text("Hello"), {"type": "text", "text": None}]
    (request,) = read_requests(
        json.dumps({"messages": [{"role": "user", "content": lines}]})
    ).requests
    session = session_from_request(request, Profile("p", "openai_chat", "https://x"), "s", 5)
    sent = json.loads(encode_request(session.session, "openai_chat", None).body)
    assert sent["messages"] == [{"role": "user", "content": lines}]


def test_events_and_tools_of_earlier_versions_are_read() -> None:
    assert from_data(PromptAdded, {"text": "a", "images": []}) == PromptAdded("a")
    assert from_data(ToolResult, {"content": [{"text": "a"}]}) == text_result("a")
    assert from_data(Tool, {"name": "a"}).extra == {}
