"""Whole answers of every protocol: thinking, texts and calls, as a stream and as one body."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from tests.protocols.frames import chunk, lines

PROTOCOLS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")
BODY_TYPES = {"ollama": "application/x-ndjson"}


@dataclass(frozen=True)
class AnswerPart:
    """`text` is what is read, or a call's arguments; of a call every word is its own. `pieces` are
    the deltas it comes in, by default two."""

    kind: Literal["thinking", "text", "call"]
    text: str
    name: str = ""

    @property
    def id(self) -> str:
        return f"id_{self.name or self.kind}"

    @property
    def signature(self) -> str:
        return b64encode(f"signed {self.name or self.kind}".encode()).decode()

    @property
    def pieces(self) -> list[str]:
        if self.kind != "call":
            return [self.text]
        middle = len(self.text) // 2
        return [piece for piece in (self.text[:middle], self.text[middle:]) if piece]

    @property
    def words(self) -> list[bytes]:
        """What of a call nobody else says: its names and its halves."""
        words = [self.name, *(word for pair in json.loads(self.text).items() for word in pair)]
        return [str(word).encode() for word in words]


def call(nth: int, **more: Any) -> AnswerPart:
    arguments = {f"left{nth}": f"first{nth}", f"right{nth}": f"second{nth}", **more}
    return AnswerPart("call", json.dumps(arguments), f"tool{nth}")


def text(message: str) -> AnswerPart:
    return AnswerPart("text", message)


def thinking(message: str) -> AnswerPart:
    return AnswerPart("thinking", message)


def body(protocol: str, parts: Sequence[AnswerPart], *, streamed: bool = True) -> bytes:
    """The answer that consists of `parts`. A text that begins with a line end goes on in the text
    before it, where the protocol has one."""
    value = _BODIES[protocol](parts, streamed)
    if isinstance(value, bytes):
        return value
    if protocol == "ollama":
        return lines(*value)
    end = "\r\n" if protocol == "gemini" else "\n"
    named = protocol in ("anthropic", "openai_responses")
    events = [
        (f"event: {event['type']}{end}" if named else "")
        + f"data: {event if isinstance(event, str) else json.dumps(event)}{end}{end}"
        for event in value
    ]
    return "".join(events).encode()


def _has_calls(parts: Sequence[AnswerPart]) -> bool:
    return any(part.kind == "call" for part in parts)


def _joined(parts: Sequence[AnswerPart], kind: str) -> str:
    return "".join(part.text for part in parts if part.kind == kind)


# Anthropic.


def _anthropic(parts: Sequence[AnswerPart], streamed: bool) -> Any:
    reason = "tool_use" if _has_calls(parts) else "end_turn"
    usage = {"input_tokens": 3, "output_tokens": 9}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    if not streamed:
        blocks = [_block(part, is_complete=True) for part in parts]
        ended = {"stop_reason": reason, "stop_sequence": None, "usage": usage}
        return json.dumps({**head, "content": blocks, **ended}).encode()
    nothing: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    started = {"type": "message_start", "message": {**head, **nothing}}
    values: list[Any] = [started, {"type": "ping"}]
    for index, part in enumerate(parts):
        block = _block(part, is_complete=False)
        values.append({"type": "content_block_start", "index": index, "content_block": block})
        values += [
            {"type": "content_block_delta", "index": index, "delta": delta}
            for delta in _deltas(part)
        ]
        values.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": reason, "stop_sequence": None}
    values.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 9}})
    return [*values, {"type": "message_stop"}]


def _block(part: AnswerPart, *, is_complete: bool) -> dict[str, Any]:
    match part.kind:
        case "text":
            return {"type": "text", "text": part.text if is_complete else ""}
        case "thinking":
            message = part.text if is_complete else ""
            signature = part.signature if is_complete else ""
            return {"type": "thinking", "thinking": message, "signature": signature}
        case "call":
            arguments = json.loads(part.text) if is_complete else {}
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}


def _deltas(part: AnswerPart) -> list[dict[str, Any]]:
    match part.kind:
        case "text":
            return [{"type": "text_delta", "text": part.text}]
        case "thinking":
            signature = {"type": "signature_delta", "signature": part.signature}
            return [{"type": "thinking_delta", "thinking": part.text}, signature]
        case "call":
            return [
                {"type": "input_json_delta", "partial_json": piece} for piece in ("", *part.pieces)
            ]


# Chat Completions.


def _chat(parts: Sequence[AnswerPart], streamed: bool) -> Any:
    reason = "tool_calls" if _has_calls(parts) else "stop"
    usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    calls = [part for part in parts if part.kind == "call"]
    if not streamed:
        message: dict[str, Any] = {"role": "assistant", "content": _joined(parts, "text") or None}
        if thoughts := _joined(parts, "thinking"):
            message["reasoning_content"] = thoughts
        if calls:
            message["tool_calls"] = [_chat_call(part, part.text) for part in calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
        return json.dumps({**head, "choices": [choice], "usage": usage}).encode()
    head = {"created": 1, "model": "m"}
    values = [chunk({"role": "assistant", "content": ""}, **head)]
    for part in parts:
        match part.kind:
            case "text":
                values.append(chunk({"content": part.text}, **head))
            case "thinking":
                values.append(chunk({"reasoning_content": part.text}, **head))
            case "call":
                index = calls.index(part)
                fragments: list[dict[str, Any]] = [{"index": index, **_chat_call(part, "")}]
                fragments += [
                    {"index": index, "function": {"arguments": piece}} for piece in part.pieces
                ]
                values += [chunk({"tool_calls": [fragment]}, **head) for fragment in fragments]
    values.append(chunk({}, reason, **head))
    closing = {"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": usage, **head}
    return [*values, closing, "[DONE]"]


def _chat_call(part: AnswerPart, arguments: str) -> dict[str, Any]:
    function = {"name": part.name, "arguments": arguments}
    return {"id": part.id, "type": "function", "function": function}


# Responses.


def _responses(parts: Sequence[AnswerPart], streamed: bool) -> Any:
    usage = {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "error": None}
    head |= {"incomplete_details": None, "instructions": None, "metadata": {}, "tools": []}
    head |= {"parallel_tool_calls": True, "temperature": 1.0, "top_p": 1.0, "tool_choice": "auto"}
    items = [_item(part) for part in parts]
    response = {**head, "status": "completed", "output": items, "usage": usage}
    if not streamed:
        return json.dumps(response).encode()
    begun = {**head, "status": "in_progress", "output": [], "usage": None}
    values: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, (part, item) in enumerate(zip(parts, items, strict=True)):
        values += _item_events(index, part, item)
    values.append({"type": "response.completed", "response": response})
    return [
        {"type": value["type"], "sequence_number": number, **value}
        for number, value in enumerate(values)
    ]


def _piece(part: AnswerPart) -> dict[str, Any]:
    if part.kind == "thinking":
        return {"type": "summary_text", "text": part.text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": part.text}


def _item(part: AnswerPart) -> dict[str, Any]:
    match part.kind:
        case "text":
            # As an edited answer names its message, so that the two can be compared.
            digest = sha256(f"resp_1\n{part.text}".encode()).hexdigest()
            head = {"id": f"msg_{digest[:48]}", "type": "message", "status": "completed"}
            return {**head, "content": [_piece(part)], "role": "assistant"}
        case "thinking":
            return {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [_piece(part)],
                "encrypted_content": part.signature,
            }
        case "call":
            return {
                "id": f"fc_{part.name}",
                "type": "function_call",
                "status": "completed",
                "arguments": part.text,
                "call_id": part.id,
                "name": part.name,
            }


def _item_events(index: int, part: AnswerPart, item: dict[str, Any]) -> list[dict[str, Any]]:
    at = {"item_id": item["id"], "output_index": index}
    ended = {"type": "response.output_item.done", "output_index": index, "item": item}
    if part.kind == "call":
        begun = {**item, "status": "in_progress", "arguments": ""}
        word = "response.function_call_arguments"
        inner: list[dict[str, Any]] = [
            {"type": f"{word}.delta", **at, "delta": piece} for piece in part.pieces
        ]
        inner.append({"type": f"{word}.done", **at, "arguments": part.text})
    else:
        thinks = part.kind == "thinking"
        member = "summary" if thinks else "content"
        begun = {**item, member: [], **({} if thinks else {"status": "in_progress"})}
        start = "response.reasoning_summary" if thinks else "response.output"
        parts = "response.reasoning_summary_part" if thinks else "response.content_part"
        logged: dict[str, Any] = {} if thinks else {"logprobs": []}
        at = {**at, f"{member}_index": 0}
        inner = [
            {"type": f"{parts}.added", **at, "part": {**_piece(part), "text": ""}},
            {"type": f"{start}_text.delta", **at, "delta": part.text, **logged},
            {"type": f"{start}_text.done", **at, "text": part.text, **logged},
            {"type": f"{parts}.done", **at, "part": _piece(part)},
        ]
    started = {"type": "response.output_item.added", "output_index": index, "item": begun}
    return [started, *inner, ended]


# Gemini.


def _gemini(parts: Sequence[AnswerPart], streamed: bool) -> Any:
    pieces = [_gemini_part(part) for part in parts]
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 9, "totalTokenCount": 12}
    about = {"modelVersion": "m", "responseId": "r1"}
    if not streamed:
        candidate: dict[str, Any] = {
            "content": {"parts": pieces, "role": "model"},
            "finishReason": "STOP",
        }
        value = {"candidates": [{**candidate, "index": 0}], "usageMetadata": usage, **about}
        return json.dumps(value, indent=2).encode()
    values: list[dict[str, Any]] = []
    for nth, piece in enumerate(pieces):
        candidate = {"content": {"parts": [piece], "role": "model"}, "index": 0}
        if nth == len(pieces) - 1:
            candidate["finishReason"] = "STOP"
        values.append({"candidates": [candidate], "usageMetadata": usage, **about})
    return values


def _gemini_part(part: AnswerPart) -> dict[str, Any]:
    match part.kind:
        case "text":
            return {"text": part.text}
        case "thinking":
            return {"text": part.text, "thought": True}
        case "call":
            function_call = {"name": part.name, "args": json.loads(part.text), "id": part.id}
            return {"functionCall": function_call, "thoughtSignature": part.signature}


# Ollama.


def _ollama(parts: Sequence[AnswerPart], streamed: bool) -> Any:
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    counts = {"done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 9}
    calls = [part for part in parts if part.kind == "call"]
    items = [_ollama_call(nth, part) for nth, part in enumerate(calls)]
    if not streamed:
        message: dict[str, Any] = {"role": "assistant", "content": _joined(parts, "text")}
        if thoughts := _joined(parts, "thinking"):
            message["thinking"] = thoughts
        if items:
            message["tool_calls"] = items
        return json.dumps({**head, "message": message, **counts}).encode()
    values = []
    for part in parts:
        answer: dict[str, Any] = {"content": part.text if part.kind == "text" else ""}
        if part.kind == "thinking":
            answer["thinking"] = part.text
        elif part.kind == "call":
            answer["tool_calls"] = [items[calls.index(part)]]
        values.append({**head, "message": {"role": "assistant", **answer}, "done": False})
    return [*values, {**head, "message": {"role": "assistant", "content": ""}, **counts}]


def _ollama_call(nth: int, part: AnswerPart) -> dict[str, Any]:
    function = {"index": nth, "name": part.name, "arguments": json.loads(part.text)}
    return {"id": part.id, "function": function}


_BODIES = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
    "ollama": _ollama,
}
