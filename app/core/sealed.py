"""What of an answer only its provider can read, told by the names that providers give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_SEALS = ("encrypted_content", "signature", "thoughtSignature", "thought_signature")
_DEPTH = 12


def seals(value: Any, depth: int = 0) -> Iterator[str]:
    """Every sealed text in `value`, which is what a provider sent with a part."""
    if depth > _DEPTH:
        return
    match value:
        case {"type": "redacted_thinking" | "reasoning.encrypted", "data": str(data)}:
            yield data
        case Mapping():
            for key, item in value.items():
                if key in _SEALS and isinstance(item, str):
                    yield item
                else:
                    yield from seals(item, depth + 1)
        case list():
            for item in value:
                yield from seals(item, depth + 1)
