"""What a codec is: one protocol, client side, sans-IO. No socket, clock or id generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.core.events import WireEvent
from app.core.messages import ModelRequest

Spanned = tuple[int, int, WireEvent]
"""(start, end, event): the event and the half-open span of body bytes it came from."""


@dataclass(frozen=True)
class WireRequest:
    """`path` is relative to the profile's base URL; `headers` hold no key. `body` is UTF-8 JSON.

    `notes` are sentences about what the protocol could not say and was left out or changed.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    notes: tuple[str, ...] = ()


class Decoder(Protocol):
    """One response body. Output grammar: docs/house.md, "Laws".

    `feed` may be given the bytes cut anywhere and costs O(len(data)). `end(clean)` is called
    once: `clean` tells whether the connection closed politely. After it exactly one
    ResponseEnded or ResponseFailed has been yielded, whatever the bytes were; never an exception.
    """

    def feed(self, data: bytes) -> list[Spanned]: ...

    def end(self, clean: bool) -> list[Spanned]: ...


@dataclass(frozen=True)
class Codec:
    """A protocol as a row of the table in `protocols`.

    `decoder(status)` makes a Decoder for a response of that HTTP status. `label(frame)` is the
    short name of a decoded frame in the protocol's own words ("content_block_delta
    input_json_delta"), for the wire view. `key_header(key)` is how the key travels.
    """

    name: str
    encode: Callable[[ModelRequest], WireRequest]
    decoder: Callable[[int], Decoder]
    label: Callable[[Mapping[str, Any]], str]
    key_header: Callable[[str], Mapping[str, str]]
