"""A request that somebody brings, in neutral words: what was said so far, and how it was set up.

What the model said is kept as an answer of its protocol, so that the codec which reads answers
reads this one, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from app.core.settings import Protocol
from app.core.tools import Content, ToolChoice


@dataclass(frozen=True)
class ImportedMessage:
    """A message of the person or of the system; `form` as in PromptAdded."""

    text: str
    images: tuple[Content, ...] = ()
    role: Literal["user", "system"] = "user"
    form: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedAnswer:
    """A turn of the model: the JSON of a whole answer of its protocol that says it."""

    answer: Mapping[str, Any]


@dataclass(frozen=True)
class ImportedResult:
    """What a call came to. `call_id` is the provider's, or "" where it has none: then it belongs
    to the first call named `name` that is still open. `form` as in ToolResult."""

    call_id: str
    name: str
    content: tuple[Content, ...]
    is_error: bool = False
    form: Mapping[str, Any] = field(default_factory=dict)


ImportedItem = ImportedMessage | ImportedAnswer | ImportedResult


@dataclass(frozen=True)
class RequestSetup:
    """How the request was set up. `tools` are in the protocol's own form; `extra` is what has no
    word of ours, to be sent along as it is."""

    model: str = ""
    system: str = ""
    tools: Sequence[Any] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    params: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False


@dataclass(frozen=True)
class ImportedRequest:
    """One request of a chat API. `base_url` is where it went, "" where nothing says; `body` is its
    text. `response` are the bytes that came back, None where they are not here, with their
    `status`; `at_ms` is when it was sent (Unix ms), 0 for unknown. `notes` are sentences."""

    protocol: Protocol
    setup: RequestSetup
    items: Sequence[ImportedItem]
    base_url: str = ""
    path: str = ""
    body: str = ""
    response: bytes | None = None
    status: int = 200
    at_ms: int = 0
    notes: Sequence[str] = ()


_DATA = re.compile(r"data:(image/(?:png|jpeg|webp|gif));base64,([A-Za-z0-9+/=]+)", re.ASCII)


def image_of(url: object) -> Content | None:
    """The image of a data: URL, None where it is none; nothing is fetched."""
    match = _DATA.fullmatch(url) if isinstance(url, str) else None
    return Content("image", media_type=match[1], data=match[2]) if match is not None else None


def text_of(value: object) -> str:
    """The text of a text, or of a list of pieces that have some."""
    match value:
        case str():
            return value
        case list():
            pieces = (one.get("text") for one in value if isinstance(one, dict))
            return "\n\n".join(piece for piece in pieces if isinstance(piece, str))
    return ""
