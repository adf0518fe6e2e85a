"""Bodies written by hand, and the law that every codec's output obeys."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, settings

from playground.core.events import (
    PartDelta,
    PartEnded,
    PartStarted,
    ResponseEnded,
    ResponseFailed,
    Warned,
    WireEvent,
)
from playground.protocols.base import Spanned
from playground.protocols.registry import codec

DONE = "[DONE]"
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For properties on a busy machine: a slow example is no failure."""


def sse(*values: Any, end: str = "\n") -> bytes:
    """Events with these JSON values as data; a text stands as it is."""
    lines = (value if isinstance(value, str) else json.dumps(value) for value in values)
    return "".join(f"data: {line}{end}{end}" for line in lines).encode("utf-8")


def line(message: Any, **more: Any) -> dict[str, Any]:
    """A line of Ollama's; it is not the last unless `more` says so."""
    return {"model": "m", "message": {"role": "assistant", **message}, "done": False, **more}


def lines(*values: Any) -> bytes:
    """JSON Lines with these values; a text stands as it is."""
    generator = (value if isinstance(value, str) else json.dumps(value) for value in values)
    return "".join(f"{text}\n" for text in generator).encode("utf-8")


def chunk(delta: Any = None, reason: Any = None, **more: Any) -> dict[str, Any]:
    """A chat completion chunk of choice 0."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
    if delta is not None:
        choice["delta"] = delta
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **more}


def fragment(
    index: Any = None, id: Any = None, name: Any = None, arguments: Any = None
) -> dict[str, Any]:
    """One entry of `tool_calls`; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    call_fragment = {
        "index": index,
        "id": id,
        "function": {k: v for k, v in function.items() if v is not None},
    }
    return {key: item for key, item in call_fragment.items() if item is not None}


def calls(*fragments: dict[str, Any]) -> dict[str, Any]:
    """One chunk with these fragments."""
    return chunk({"tool_calls": list(fragments)})


def message(*blocks: list[dict[str, Any]], reason: str | None = "end_turn") -> bytes:
    """An Anthropic stream of blocks, each a list: the block's start, then its deltas."""
    values: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m1", "model": "x", "usage": {}}}
    ]
    for index, (start, *deltas) in enumerate(blocks):
        values.append({"type": "content_block_start", "index": index, "content_block": start})
        values += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        values.append({"type": "content_block_stop", "index": index})
    values.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}})
    return sse(*values, {"type": "message_stop"})


def spanned(
    protocol: str, body: bytes, *, status: int = 200, cuts: Iterable[int] = (), clean: bool = True
) -> list[Spanned]:
    """What a fresh decoder yields for `body` cut at `cuts`."""
    decoder = codec(protocol).decoder(status)
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(body)), len(body)]
    events: list[Spanned] = []
    for start, end in pairwise(places):
        events += decoder.feed(body[start:end])
    return events + decoder.end(clean)


def events_of(
    protocol: str, body: bytes, *, status: int = 200, clean: bool = True
) -> list[WireEvent]:
    return [event for _, _, event in spanned(protocol, body, status=status, clean=clean)]


def parts_of(events: list[WireEvent]) -> list[tuple[str, PartEnded]]:
    """(kind, end) of each part, in order of appearance."""
    kinds = [event.part_kind for event in events if isinstance(event, PartStarted)]
    ends = {event.index: event for event in events if isinstance(event, PartEnded)}
    return [(kind, ends[index]) for index, kind in enumerate(kinds)]


def end_of(events: list[WireEvent]) -> ResponseEnded | ResponseFailed:
    return next(event for event in events if isinstance(event, ResponseEnded | ResponseFailed))


def codes_of(events: list[WireEvent]) -> list[str]:
    """The codes of the warnings; bodies by hand may begin with the frame that matters."""
    codes = (event.code for event in events if isinstance(event, Warned))
    return [code for code in codes if code != "no_opening"]


def obey_the_grammar(events: list[Spanned], size: int) -> None:
    """Assert docs/laws.md, of the events of a body of `size` bytes."""
    pieces: dict[int, list[str]] = {}
    ended: set[int] = set()
    over = False
    for start, end, event in events:
        assert 0 <= start <= end <= size
        assert isinstance(event, Warned) or not over, "something but a warning after the end"
        match event:
            case PartStarted(index=index):
                assert index == len(pieces), "parts count from 0 by first appearance"
                pieces[index] = []
            case PartDelta(index=index, text=text):
                assert index in pieces
                assert index not in ended
                assert text, "an empty delta is no event"
                pieces[index].append(text)
            case PartEnded(index=index):
                assert index in pieces
                assert index not in ended
                ended.add(index)
            case ResponseEnded() | ResponseFailed():
                over = True
            case Warned(code=code, message=message):
                assert code
                assert message
    assert over, "an end, whatever the bytes were"
    assert ended == pieces.keys(), "every part that was started is ended"
