"""`playground decode`: the decoded content of recorded bodies."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from playground import config
from playground.core.errors import BadInput
from playground.core.events import (
    PartEnded,
    PartKind,
    PartStarted,
    ResponseEnded,
    ResponseFailed,
    Usage,
    Warned,
    WireEvent,
)
from playground.core.json_values import load_json, refuse_constant
from playground.protocols.decoder import block_type, is_server_call
from playground.protocols.registry import codec

MAX_BYTES = 256 * 1024 * 1024
"""Of one recorded body: four times as many as are read of a provider's answer."""


def main(arguments: argparse.Namespace) -> int:
    """0 if every file was read, whatever its content."""
    codec(arguments.protocol)
    if arguments.chunk < 0:
        raise BadInput("--chunk must be a number of bytes; 0 feeds the whole file at once.")
    unread = False
    for path in arguments.files:
        try:
            body = config.read_file(path, MAX_BYTES)
        except OSError as error:
            sentence = f"Cannot read {path} ({error.strerror}); name a readable file."
            print(f"playground: {sentence}", file=sys.stderr)
            if arguments.json:
                print(json.dumps({"file": str(path), "error": sentence}))
            unread = True
            continue
        facts = decode(arguments.protocol, body, arguments.status, arguments.chunk)
        if arguments.json:
            print(json.dumps({"file": str(path), **facts}))
        else:
            print(f"{path}\n{decoded_text(facts)}")
    return 2 if unread else 0


# Output -------------------------------------------------------------------------------------------
# The format of the facts is public, see docs/contract.md; they are made from a codec's events
# alone.


def decode(protocol: str, body: bytes, status: int = 200, chunk: int = 0) -> dict[str, Any]:
    """The facts of one body, fed in pieces of `chunk` bytes (0: whole), as plain JSON data.

    BadInput for an unknown protocol; the bytes never cause an exception.
    """
    decoder = codec(protocol).decoder(status)
    step = chunk if chunk > 0 else max(1, len(body))
    events: list[WireEvent] = []
    for start in range(0, len(body), step):
        events += [event for _, _, event in decoder.feed(body[start : start + step])]
    events += [event for _, _, event in decoder.end(True)]
    return facts(events)


def facts(events: list[WireEvent]) -> dict[str, Any]:
    """The facts in the events of one whole answer."""
    kinds: dict[int, PartKind] = {}
    endings: list[tuple[PartKind, PartEnded]] = []
    end: ResponseEnded | ResponseFailed | None = None
    warnings = []
    for event in events:
        match event:
            case PartStarted():
                kinds[event.index] = event.part_kind
            case PartEnded():
                endings.append((kinds[event.index], event))
            case ResponseEnded() | ResponseFailed():
                end = event
            case Warned():
                warnings.append({"code": event.code, "message": event.message})
            case _:
                pass
    assert end is not None
    parts = sorted(endings, key=lambda item: item[1].index)
    return {
        "text": _text_of_kind(parts, "text") or "",
        "reasoning_text": _text_of_kind(parts, "thinking"),
        "refusal": _text_of_kind(parts, "refusal"),
        "tool_calls": [_call(part) for kind, part in parts if kind == "call"],
        "server_tool_calls": [
            {
                **_call(part),
                "name": part.name or None,
                "kind": block_type(part),
            }
            for kind, part in parts
            if is_server_call(kind, part)
        ],
        "stop_reason": end.raw_reason or None,
        "usage": _usage(end.usage),
        "error": _error(end),
        "ended": _end_of(end),
        "warnings": warnings,
    }


def _text_of_kind(parts: list[tuple[PartKind, PartEnded]], only: PartKind) -> str | None:
    return "".join(part.text for kind, part in parts if kind == only) or None


def _call(part: PartEnded) -> dict[str, Any]:
    raw: str | None = part.text
    arguments: Any = None
    kind = part.meta.get("type", "")
    if part.meta.get("absent"):
        raw, state = None, "absent"
    elif kind == "custom":
        state = "freeform"
    elif not part.text:
        state = "empty"
    else:
        arguments, state = _parse(part.text)
        raw = None if part.meta.get("as_object") else raw
    call = {
        "id": part.provider_id or None,
        "name": part.name,
        "arguments": arguments,
        "arguments_raw": raw,
        "arguments_state": state,
    }
    return {**call, "kind": kind} if kind else call


def _parse(text: str) -> tuple[Any, str]:
    try:
        value = load_json(text, parse_constant=refuse_constant)
    except ValueError:
        return None, "invalid"
    return value, "object" if isinstance(value, dict) else "non_object"


def _usage(usage: Usage) -> dict[str, int | None] | None:
    if not usage.raw:
        return None
    return {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}


def _error(end: ResponseEnded | ResponseFailed) -> Any:
    """The provider's own error; if it sent none and nothing could be read, our sentence."""
    if isinstance(end, ResponseEnded) or end.failure == "interrupted":
        return None
    if end.failure in ("http", "error") and end.error is not None:
        return end.error
    return {"type": end.failure, "message": end.message}


def _end_of(end: ResponseEnded | ResponseFailed) -> str:
    if isinstance(end, ResponseEnded):
        return "complete"
    return "interrupted" if end.failure == "interrupted" else "failed"


def decoded_text(decoded: Mapping[str, Any]) -> str:
    """The same as text, without a line end at the end; safe to print whatever its content."""
    return _printable("\n".join(_lines(decoded)))


def _lines(decoded: Mapping[str, Any]) -> Iterator[str]:
    for name in ("reasoning_text", "text", "refusal"):
        if decoded[name]:
            yield f"{name.removesuffix('_text')}: {decoded[name]}"
    for name in ("tool_calls", "server_tool_calls"):
        for call in decoded[name]:
            raw = call["arguments_raw"]
            text = raw if raw is not None else json.dumps(call["arguments"], ensure_ascii=False)
            state = call["arguments_state"]
            note = "" if state == "object" else f"  [{state}]"
            words = (name.removesuffix("s").replace("_", " "), call["id"] or "(no id)")
            yield f"{words[0]}: {call['name']} {words[1]} {text}{note}"
    usage = decoded["usage"] or {}
    counts = ", ".join(f"{key} {value}" for key, value in usage.items() if value is not None)
    reason = decoded["stop_reason"]
    yield f"ended: {decoded['ended']}" + (f" ({reason})" if reason else "")
    yield f"usage: {counts or 'unknown'}"
    if decoded["error"] is not None:
        yield f"error: {json.dumps(decoded['error'], ensure_ascii=False)}"
    for warning in decoded["warnings"]:
        yield f"warning: {warning['message']} [{warning['code']}]"


def _printable(text: str) -> str:
    """Control and invisible characters as escapes; line ends and tabs are kept."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text
    )
