"""What a codec is: one protocol, client side, sans-IO. No socket, clock or id generator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from app.core.events import WireEvent
from app.core.messages import ModelRequest
from app.core.settings import Limits

Spanned = tuple[int, int, WireEvent]
"""(start, end, event): the event and the half-open span of body bytes it came from."""


@dataclass(frozen=True)
class SideText:
    """A text of the answer that no delta brings, as it came: of the member `member` of part
    `part`; of a call that is not taken, which has a number below 0, with "" its arguments; of
    `logprobs` each `token`, of which no part is known yet (TOKENS). No fact of the log: for whoever
    looks for secrets in pieces."""

    part: int
    member: str
    text: str


TOKENS: Mapping[str, int] = {"text": -(10**9), "refusal": -(10**9) - 1}
"""The tokens of which kind of text these are, as a part."""

ReadItem = tuple[int, int, WireEvent | SideText]
"""The same of all that was said."""


@dataclass(frozen=True)
class WireRequest:
    """`path` is what `address.joined` puts behind the profile's base URL; `headers` hold no key.

    `body` is UTF-8 JSON. `notes` are sentences about what the protocol could not say and was left
    out or changed. `expects` is the media type of the stream that was asked for, or "".
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    notes: tuple[str, ...] = ()
    expects: str = ""


@dataclass(frozen=True)
class ModelInfo:
    """A model as its provider lists it. What the list does not tell is None or "".

    `tools` is whether it takes tools, `window` how many tokens it reads at most.
    """

    id: str
    name: str = ""
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    window: int | None = None


class Decoder(Protocol):
    """One response body. Output grammar: docs/laws.md.

    `feed` may be given the bytes cut anywhere and costs O(len(data)). `end(clean)` is called
    once: `clean` tells whether the connection closed politely; of an answer that we gave up
    ourselves (`stopped`) no finish reason makes a good end. After it exactly one
    ResponseEnded or ResponseFailed has been yielded, whatever the bytes were; never an exception.
    `limit` may be called before the first byte: how large one event may grow, and how many calls
    are taken; those beyond are counted in one warning at the end. `settled` is the place in the
    body up to which no event can come any more: the frames before it are complete. `hear` and
    `hear_end` are `feed` and `end`, and tell what is said beside the events, too.
    """

    def limit(self, limits: Limits) -> None: ...

    @property
    def settled(self) -> int: ...

    def feed(self, data: bytes) -> list[Spanned]: ...

    def end(self, clean: bool, stopped: bool = False) -> list[Spanned]: ...

    def hear(self, data: bytes) -> list[ReadItem]: ...

    def hear_end(self, clean: bool, stopped: bool = False) -> list[ReadItem]: ...


@dataclass(frozen=True)
class Codec:
    """A protocol as a row of the table in `protocols`.

    `decoder(status)` makes a Decoder for a response of that HTTP status. `label(frame)` is the
    short name of a decoded frame in the protocol's own words ("content_block_delta
    input_json_delta"), for the wire view. `key_header(key, quirks)` is how the key travels.
    `models_path` lists the provider's models by GET, and `models(value)` reads the JSON value that
    comes back; it raises nothing, whatever that is. `quirks` are what a profile may name, each with
    its reason in a sentence. `says_again`: at the end of a part all of its text is sent once more.
    """

    name: str
    encode: Callable[[ModelRequest], WireRequest]
    decoder: Callable[[int], Decoder]
    label: Callable[[Mapping[str, Any]], str]
    key_header: Callable[[str, Sequence[str]], Mapping[str, str]]
    models_path: str
    models: Callable[[Any], tuple[ModelInfo, ...]]
    quirks: Mapping[str, str]
    says_again: bool = False


# The list of models as providers answer it: whatever came, the objects in it.


def model_entries(value: Any, member: str) -> list[Mapping[str, Any]]:
    """The objects of the list at `member` of `value`, or of `value` where it is the list itself
    (Together); those without a name are left out, and of anything else nothing.
    """
    items = value.get(member) if isinstance(value, Mapping) else value
    entries = items if isinstance(items, list) else []
    objects = (entry for entry in entries if isinstance(entry, Mapping))
    return [entry for entry in objects if any(entry.get(key) for key in ("id", "name", "model"))]
