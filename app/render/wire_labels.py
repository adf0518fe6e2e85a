"""What a frame of the wire is called in one line. Knows the codecs' words, and no rows."""

from __future__ import annotations

import json

from app.protocols.framing import Frame
from app.protocols.registry import CODECS
from app.render.filters import clip


def label(protocol: str, frame: Frame) -> str:
    """The protocol's own word for a frame; what is no JSON object says what it is instead."""
    match frame.kind:
        case "comment":
            return clip(frame.data.strip(), 40)
        case "fields":
            return frame.event or "fields without data"
        case "too_large":
            return "too large"
        case "text":
            return clip(frame.data.strip(), 40) or "text"
        case "sse" | "json":
            return _json_label(protocol, frame)


def _json_label(protocol: str, frame: Frame) -> str:
    try:
        data = json.loads(frame.data)
    except (ValueError, RecursionError):
        data = None
    codec = CODECS.get(protocol)
    if codec is None or not isinstance(data, dict):
        return clip(frame.data.strip(), 40) or frame.event or "empty"
    return codec.label(data)


def bytes_words(count: int) -> str:
    """`312 B`, `3.1 kB`."""
    return f"{count} B" if count < 1000 else f"{count / 1000:.1f} kB"
