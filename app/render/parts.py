"""What a part holds beside its words: sealed thoughts, blocks of the provider's own, sources.

Reads the blocks that codecs keep in `meta`, by shape and not by protocol. Knows no HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from app.core.messages import seals
from app.core.session import Part, Turn
from app.render.filters import clip, pretty

MOST_SOURCES = 200
_DEPTH = 12
_OUTER = ("type", "id", "status", "name", "caller", "call_id", "tool_use_id", "item_id")
_CITED = ("citations", "annotations", "groundingMetadata", "citationMetadata")


@dataclass(frozen=True)
class Place:
    """Something a text leans on; `quote` is what it says there."""

    url: str
    title: str = ""
    quote: str = ""

    @property
    def linked(self) -> bool:
        """Whether the address is one to be clicked; a model can write any."""
        return self.url.lower().startswith(("https://", "http://"))


@dataclass(frozen=True)
class Served:
    """A call that the provider made by itself, or what came of it.

    `text` is what it was asked, "" where that is not told, or what came of it; `places` what it
    found; `error` the provider's word for what went wrong.
    """

    name: str
    text: str
    places: tuple[Place, ...]
    error: str


def sealed(part: Part) -> int:
    """How many bytes of a thought only its provider can read; 0 where there are none."""
    return sum(len(text.encode("utf-8", "replace")) for text in seals(part.meta))


def served(part: Part) -> Served:
    """A server call or its result, as it is shown."""
    block = block_of(part)
    content = block.get("content")
    error = content.get("error_code") if isinstance(content, Mapping) else block.get("error")
    asked = {key: item for key, item in block.items() if key not in _OUTER and item is not None}
    told = _told(asked) if part.kind == "server_call" else pretty(asked) if asked else ""
    return Served(
        part.name or str(block.get("type") or part.meta.get("type") or ""),
        part.text or told,
        places(block),
        error if isinstance(error, str) else "",
    )


def _told(asked: Mapping[str, Any]) -> str:
    """What a server call was asked, where that stands in its block; a single text as it is."""
    match list(asked.values()):
        case []:
            return ""
        case [str(text)]:
            return text
    return pretty(asked)


def block_of(part: Part) -> Mapping[str, Any]:
    """The provider's own block, whatever the codec calls it."""
    for name in ("block", "part"):
        block = part.meta.get(name)
        if isinstance(block, Mapping):
            return block
    return {}


def cited(part: Part) -> tuple[Place, ...]:
    """What the words of a part lean on."""
    content = part.meta.get("content")
    holders = (block_of(part), content if isinstance(content, Mapping) else {}, part.meta)
    return places([holder[name] for holder in holders for name in _CITED if name in holder])


def cited_by(turn: Turn) -> tuple[Place, ...]:
    """What the provider told at the end of an answer about where it has it from."""
    meta = turn.end.meta if turn.end is not None else {}
    return places([meta[name] for name in _CITED if name in meta])


def places(value: Any) -> tuple[Place, ...]:
    """Every address in `value` with what is said of it, each once."""
    found: dict[str, Place] = {}
    for place in _places(value, 0):
        if len(found) >= MOST_SOURCES:
            break
        found.setdefault(place.url + "\n" + place.quote, place)
    return tuple(found.values())


def _places(value: Any, depth: int) -> Iterator[Place]:
    if depth > _DEPTH:
        return
    match value:
        case {"url": str(url)} | {"uri": str(url)} if url:
            words = (value.get(name) for name in ("cited_text", "snippet"))
            quote = next((word for word in words if isinstance(word, str)), "")
            title = value.get("title")
            yield Place(url, title if isinstance(title, str) else "", clip(quote, 300))
        case {"cited_text": str(quote)}:
            title = value.get("document_title") or value.get("title")
            yield Place("", title if isinstance(title, str) else "", clip(quote, 300))
        case Mapping():
            for item in value.values():
                yield from _places(item, depth + 1)
        case list():
            for item in value:
                yield from _places(item, depth + 1)
