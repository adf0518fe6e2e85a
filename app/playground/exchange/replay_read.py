"""The calls in a recorded answer, by the standard library alone.

Its very text goes into every exported test (replay_test.py), so it imports nothing of this program
and knows no more of the protocols than where their calls are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Call = tuple[str, Any]
DEEPEST = 50
MOST_DEEP = 500


def calls_of(protocol: str, body: bytes) -> list[Call]:
    """(name, arguments) of every tool call in an answer, streamed or whole, in its order.

    Arguments are their text if they are not a JSON object, or not `is_comparable`.
    """
    return list(READERS[protocol](list(_values(body))))


def _values(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a body: whole, of its events, or of its lines."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        whole = _load(text)
    except ValueError:
        pass
    else:
        yield from whole if isinstance(whole, list) else [whole]
        return
    data: list[str] = []
    for line in [*re.split(r"\r\n|\r|\n", text), ""]:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
            continue
        pieces = ["\n".join(data)] if not line and data else [line] if line[:1] == "{" else []
        data = [] if not line else data
        for piece in pieces:
            try:
                value = _load(piece)
            except ValueError:
                continue  # [DONE], or a line that was cut
            if isinstance(value, dict):
                yield value


def _load(text: str) -> Any:
    """JSON data. ValueError if it is invalid or nested too deep, for every version of Python."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if any(depth > MOST_DEEP for _, depth in _parts(value)):
        raise ValueError("nested too deep")
    return value


def _parts(value: Any) -> Iterator[tuple[Any, int]]:
    """All values in JSON data, each with its depth."""
    rows = [(value, 0)]
    while rows:
        item, depth = rows.pop()
        yield item, depth
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        rows += [(each, depth + 1) for each in inner]


def is_comparable(value: Any) -> bool:
    """Whether JSON data can be written as a Python literal and compared: it is not nested too deep,
    and has no NaN or infinite number."""
    return not any(
        depth > DEEPEST or (isinstance(item, float) and not abs(item) < float("inf"))
        for item, depth in _parts(value)
    )


def _parse_arguments(arguments: Any) -> Any:
    """Arguments as an object, or as text if they are not a `is_comparable` object."""
    try:
        text = arguments.strip() if isinstance(arguments, str) else None
        value = _load(text) if text else {} if text == "" else arguments or {}
    except ValueError:
        return arguments
    if isinstance(value, dict) and is_comparable(value):
        return value
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _anthropic(values: list[dict[str, Any]]) -> Iterator[Call]:
    if len(values) == 1 and "content" in values[0]:
        for part in values[0]["content"]:
            if part.get("type") == "tool_use":
                yield part["name"], _parse_arguments(part.get("input"))
        return
    open_parts: dict[Any, tuple[str, Any, list[str]]] = {}
    for value in values:
        index = value.get("index")
        match value.get("type"):
            case "content_block_start" if value["content_block"].get("type") == "tool_use":
                part = value["content_block"]
                open_parts[index] = (part["name"], part.get("input") or {}, [])
            case "content_block_delta" if index in open_parts:
                open_parts[index][2].append(value["delta"].get("partial_json", ""))
    for name, given, pieces in open_parts.values():
        yield (
            name,
            _parse_arguments("".join(pieces)) if "".join(pieces) else _parse_arguments(given),
        )


def _openai_chat(values: list[dict[str, Any]]) -> Iterator[Call]:
    calls: dict[Any, dict[str, str]] = {}
    for value in values:
        for choice in (value.get("choices") or [])[:1]:
            message = choice.get("delta") or choice.get("message") or {}
            for place, call in enumerate(message.get("tool_calls") or []):
                part = call.get("function") or call.get("custom") or {}
                entry = calls.setdefault(call.get("index", place), {"name": "", "text": ""})
                entry["name"] += part.get("name") or ""
                text = part.get("arguments") or part.get("input") or ""
                entry["text"] += text if isinstance(text, str) else json.dumps(text)
    for entry in calls.values():
        yield entry["name"], _parse_arguments(entry["text"])


def _openai_responses(values: list[dict[str, Any]]) -> Iterator[Call]:
    items: Iterable[dict[str, Any]] = (
        values[0]["output"]
        if len(values) == 1 and "output" in values[0]
        else [v["item"] for v in values if v.get("type") == "response.output_item.done"]
    )
    for item in items:
        if item.get("type") == "function_call":
            yield item["name"], _parse_arguments(item.get("arguments"))
        elif item.get("type") == "custom_tool_call":
            yield item["name"], _parse_arguments({"input": item.get("input", "")})


def _gemini(values: list[dict[str, Any]]) -> Iterator[Call]:
    for value in values:
        for candidate in (value.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or []:
                if call := part.get("functionCall"):
                    yield call.get("name", ""), _parse_arguments(call.get("args"))


def _ollama(values: list[dict[str, Any]]) -> Iterator[Call]:
    for value in values:
        for call in (value.get("message") or {}).get("tool_calls") or []:
            part = call.get("function") or {}
            yield part.get("name", ""), _parse_arguments(part.get("arguments"))


READERS: dict[str, Callable[[list[dict[str, Any]]], Iterator[Call]]] = {
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "gemini": _gemini,
    "ollama": _ollama,
}
