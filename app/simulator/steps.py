"""What a request tells of the way until it: the messages of the person, the calls of the model and
their results, as values. Reads the JSON of five protocols and nothing but that; what it does not
know, and what the model said beside its calls, is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

StepKind = Literal["prompt", "call", "result"]


@dataclass(frozen=True)
class Step:
    """`name` is the tool's, "" for a prompt and where a result names none. `value` is a prompt's
    content, a call's arguments or a result's content."""

    kind: StepKind
    name: str
    value: Any

    @property
    def place(self) -> tuple[str, str, str]:
        """What must be the same for a recorded answer to follow: of calls and results not what
        they say, only which tool it is."""
        said = json.dumps(self.value, sort_keys=True) if self.kind == "prompt" else ""
        return self.kind, self.name, said


def steps(protocol: str, body: str) -> list[Step]:
    """The way that `body` tells, in order; empty where it is no such request."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if not isinstance(data, dict):
        return []
    match protocol:
        case "anthropic":
            found = _anthropic(_objects(data.get("messages")))
        case "openai_chat" | "ollama":
            found = _chat(_objects(data.get("messages")))
        case "openai_responses":
            found = _responses(data.get("input"))
        case "gemini":
            found = _gemini(_objects(data.get("contents")))
        case _:
            found = iter(())
    return list(found)


def _anthropic(messages: list[Mapping[str, Any]]) -> Iterator[Step]:
    names: dict[str, str] = {}
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in _objects(content):
            match block.get("type"):
                case "tool_use":
                    names[str(block.get("id"))] = str(block.get("name"))
                    yield Step("call", str(block.get("name")), block.get("input"))
                case "tool_result":
                    name = names.get(str(block.get("tool_use_id")), "")
                    value = [block.get("content"), bool(block.get("is_error"))]
                    yield Step("result", name, value)
                case _ if message.get("role") == "user":
                    kept = {key: one for key, one in block.items() if key != "cache_control"}
                    yield Step("prompt", "", kept)


def _chat(messages: list[Mapping[str, Any]]) -> Iterator[Step]:
    names: dict[str, str] = {}
    for message in messages:
        match message.get("role"):
            case "user":
                yield Step("prompt", "", [message.get("content"), message.get("images")])
            case "assistant":
                for call in _objects(message.get("tool_calls")):
                    written = call.get("function") or call.get("custom")
                    told = written if isinstance(written, dict) else {}
                    name = str(told.get("name"))
                    names[str(call.get("id"))] = name
                    yield Step("call", name, _value(told.get("arguments", told.get("input"))))
            case "tool":
                known = names.get(str(message.get("tool_call_id")), "")
                name = str(message.get("tool_name") or known)
                yield Step("result", name, message.get("content"))


def _responses(given: object) -> Iterator[Step]:
    names: dict[str, str] = {}
    if isinstance(given, str):
        yield Step("prompt", "", given)
    for item in _objects(given):
        match item.get("type", "message"):
            case "function_call" | "custom_tool_call":
                names[str(item.get("call_id"))] = name = str(item.get("name"))
                yield Step("call", name, _value(item.get("arguments", item.get("input"))))
            case "function_call_output" | "custom_tool_call_output":
                name = names.get(str(item.get("call_id")), "")
                yield Step("result", name, item.get("output"))
            case "message" if item.get("role") == "user":
                yield Step("prompt", "", item.get("content"))


def _gemini(contents: list[Mapping[str, Any]]) -> Iterator[Step]:
    for content in contents:
        for part in _objects(content.get("parts")):
            call, result = part.get("functionCall"), part.get("functionResponse")
            if isinstance(call, dict):
                yield Step("call", str(call.get("name")), call.get("args"))
            elif isinstance(result, dict):
                yield Step("result", str(result.get("name")), result.get("response"))
            elif content.get("role") == "user":
                yield Step("prompt", "", dict(part))


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _value(text: object) -> object:
    """Arguments as a value, however they are spaced; as text where they are no JSON."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
