"""Defines the server end of a protocol: a request in, frames of the reply out. Sans-IO.

No socket, clock or randomness of its own: ids come from an `IdSource`, and a frame carries its
pause in seconds, which the sender waits.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from playground.core.errors import BadInput
from playground.core.json_values import load_json
from playground.core.messages import ModelRequest, arguments_object

# A model's reply before it is encoded.

BlockKind = Literal["thinking", "text", "call"]

Tag = Literal[
    "start", "text", "args", "other", "finish", "marker", "body", "slow", "cut", "reset", "stall"
]

FIRST_TOKEN_S = (0.25, 0.40)
DELTA_S = (0.012, 0.025)
PIECE = (3, 8)

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz123456789"


@dataclass(frozen=True)
class ReplyBlock:
    """A part of a turn.

    `text` is the text, the thinking, or a call's arguments as raw text (not necessarily JSON).
    `piece` is the size of each delta in characters; 0 means a pace for human readers.
    """

    kind: BlockKind
    text: str
    name: str = ""
    piece: int = 0


@dataclass(frozen=True)
class ModelReply:
    """`stop` is `stop`, `calls`, `length` or `refusal`, or a word that is sent unchanged."""

    blocks: tuple[ReplyBlock, ...]
    stop: str = "stop"

    @property
    def calls(self) -> tuple[ReplyBlock, ...]:
        return tuple(block for block in self.blocks if block.kind == "call")

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.blocks if block.kind == "text")


def call(name: str, arguments: Mapping[str, Any] | str) -> ReplyBlock:
    """A call; a mapping is encoded as JSON the way providers do, a text is sent unchanged."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ReplyBlock("call", raw, name)


def raw_input(block: ReplyBlock) -> ReplyBlock:
    """The call of a free-form tool in the protocol's form: the text is its single argument."""
    value = (arguments_object(block.text) or {}).get("input")
    return replace(block, text=value) if isinstance(value, str) else block


def tokens(text: str) -> int:
    """A plausible number of tokens: one per four characters, at least one for any text."""
    return (len(text) + 3) // 4


def shorten(reply: ModelReply, most: int | None) -> ModelReply:
    """Cuts `reply` after `most` tokens, as a provider does at `max_tokens`."""
    if most is None:
        return reply
    room, blocks = most * 4, list[ReplyBlock]()
    for block in reply.blocks:
        if len(block.text) <= room:
            blocks.append(block)
            room -= len(block.text)
            continue
        blocks.append(ReplyBlock(block.kind, block.text[:room], block.name, block.piece))
        return ModelReply(tuple(blocks), "length")
    return reply


# Sending: frames, refusals, and the interface of each protocol's server end.


@dataclass(frozen=True)
class OutgoingFrame:
    """Bytes to send, `pause` seconds after the previous frame. `tag` classifies them; three tags
    replace sending: `cut` drops the connection, `reset` drops it abruptly (where the socket itself
    is accessible), `stall` keeps it and sends no more. The pause before a `slow` one applies at any
    pace."""

    data: bytes
    pause: float = 0.0
    tag: Tag = "other"


CUT = OutgoingFrame(b"", tag="cut")
RESET = OutgoingFrame(b"", tag="reset")
STALL = OutgoingFrame(b"", tag="stall")


class BadRequest(BadInput):
    """A request that the provider refuses. `kind`, `param` and `code` are its own words.

    `source` documents that the real provider refuses this; `inferred`: that was never observed.
    Both are sent in a header. `retry_s` is the wait before a retry, in seconds.
    """

    def __init__(
        self,
        sentence: str,
        status: int = 400,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        source: str = "",
        inferred: bool = False,
        retry_s: int | None = None,
    ) -> None:
        super().__init__(sentence)
        self.status, self.kind, self.param, self.code = status, kind, param, code
        self.source, self.inferred, self.retry_s = source, inferred, retry_s


@dataclass(frozen=True)
class Citation:
    """The source for a provider's refusal; `inferred` if it was never observed."""

    words: str
    inferred: bool = False

    def refusal(
        self, sentence: str, *, param: str | None = None, code: str | None = None
    ) -> BadRequest:
        """A request that is invalid for this reason, with status 400."""
        return BadRequest(
            sentence, param=param, code=code, source=self.words, inferred=self.inferred
        )


@dataclass(frozen=True)
class ParsedRequest:
    """A parsed request. `input_tokens` is the cost to report for it. `stream_type` is the media
    type of the stream if it is not the end's default. `context` is for the end's own use; `salt`
    is added to the body where that alone does not make the answer's ids unique."""

    request: ModelRequest
    input_tokens: int
    include_usage: bool = False
    stream_type: str = ""
    context: Any = None
    salt: str = ""


@dataclass(frozen=True)
class IdSource:
    """Source of ids: deterministic for the same request and seed.

    `created` is in Unix seconds.
    """

    seed: str
    created: int

    @classmethod
    def from_body(cls, body: bytes, seed: int, created: int) -> IdSource:
        return cls(f"{seed}:{hashlib.sha256(body).hexdigest()}", created)

    def id(self, prefix: str, place: int = 0, length: int = 24) -> str:
        digest = hashlib.sha256(f"{self.seed}:{prefix}:{place}".encode()).digest()
        return prefix + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:length])

    def chance(self) -> Random:
        return Random(self.seed)


@dataclass(frozen=True)
class SideEndpoint:
    """Another request that an end answers: a token count, one model, a version.

    `answer` gets the body, the headers, the path below the end's base (with its query if it is
    used, `with_query`), and the time in Unix seconds; it returns JSON, or raises BadRequest.
    """

    method: str
    path: re.Pattern[str]
    answer: Callable[[bytes, Mapping[str, str], str, int], bytes]
    with_query: bool = False


@dataclass(frozen=True)
class ProviderServer:
    """A protocol's server end: END of its folder's `server`.

    `base` is the path for its clients; `path` is the request path below it, for people, and `takes`
    is the same as a pattern. Header names are in lower case. `parse` gets the body, the headers,
    and the path with its query below `base`; it raises BadRequest. `kinds` are the provider's own
    words, type and code, for an error by status. `stream_type` is the media type of its streams.
    `no_key` is None if no key is needed; `key_param` is a query parameter that may contain the key.
    `waits_in_body`: an error's body, not a header, says when to retry. `beside` has the other
    supported requests of the provider's API. An end that stores anything makes with `for_key` the
    one that serves a key; `keep` of that one stores an answer.
    """

    name: str
    base: str
    path: str
    takes: re.Pattern[str]
    models_path: str
    key: Callable[[Mapping[str, str]], str]
    parse: Callable[[bytes, Mapping[str, str], str], ParsedRequest]
    frames: Callable[[ModelReply, ParsedRequest, IdSource], Iterator[OutgoingFrame]]
    whole: Callable[[ModelReply, ParsedRequest, IdSource], bytes]
    error: Callable[[BadRequest, str], bytes]
    error_frame: Callable[[BadRequest], bytes]
    kinds: Mapping[int, tuple[str, str | None]]
    no_key: BadRequest | None
    bad_key: Callable[[str], BadRequest]
    headers: Callable[[str], Mapping[str, str]]
    models: Callable[[int], bytes]
    stream_type: str = "text/event-stream; charset=utf-8"
    key_param: str = ""
    waits_in_body: bool = False
    beside: tuple[SideEndpoint, ...] = ()
    for_key: Callable[[], ProviderServer] | None = None
    keep: Callable[[ModelReply, ParsedRequest, IdSource], None] | None = None

    def problem(self, status: int, sentence: str) -> BadRequest:
        """An error with this status in the protocol's own words for it, or the nearest ones."""
        nearest = self.kinds.get(status) or self.kinds.get(500 if status >= 500 else 400)
        kind, code = nearest or self.kinds[400]
        return BadRequest(sentence, status, kind=kind, code=code)

    def side_endpoints(self, path: str) -> tuple[SideEndpoint, ...]:
        """The other endpoint at `path`, whatever the method."""
        return tuple(endpoint for endpoint in self.beside if endpoint.path.fullmatch(path))


def compact_json(value: Any) -> str:
    """JSON as providers write it: no spaces, non-ASCII characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def encode_json(value: Any) -> bytes:
    """JSON bytes; a lone surrogate, which has no UTF-8, is escaped."""
    try:
        return compact_json(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def pieces(block: ReplyBlock, chance: Random) -> Iterator[str]:
    """The deltas of a block: 3 to 8 characters each, or the block's own size."""
    start = 0
    while start < len(block.text):
        size = block.piece or chance.randint(*PIECE)
        yield block.text[start : start + size]
        start += size


def delta_pause(block: ReplyBlock, chance: Random) -> float:
    """Seconds before a delta; 0 if the block has its own size, because there are many."""
    return 0.0 if block.piece else chance.uniform(*DELTA_S)


_A_BODY = Citation("the API references: a body is a JSON object; the words are ours", inferred=True)


def object_of(body: bytes) -> dict[str, Any]:
    """The JSON object of a request body."""
    try:
        value = load_json(body)
    except ValueError as error:
        raise _A_BODY.refusal(
            f"The body is not valid JSON ({error}). Send a JSON object."
        ) from error
    if not isinstance(value, dict):
        raise _A_BODY.refusal("The body is not a JSON object. Send one.")
    return value


# The shape of a request's body: a table specifies each JSON value, one traversal finds the first
# violation, and the provider's phrases word it. The tables are in NAME/server.py, or in refuse.py
# beside it, and Ollama's in ollama/limits.py. Relations between members or messages are checked
# elsewhere.

Rule = Callable[[Any, str], BadRequest | None]
"""Checks a value of the right type at a place; returns the refusal, or None."""


@dataclass(frozen=True)
class Shape:
    """The specification of a JSON value.

    `kind` are its types (`object`: any; bool is not an int), and `name` is the provider's name for
    them. `members` are those of an object, in the order of the checks; `required` ones must exist,
    and if it is `closed` no others may. `each` applies to every entry of a list, and every other
    member of an object. `variants` are further shapes by the object's value of `tag`, or `untagged`
    without one; unknown values are accepted unless it is `closed`; `members` apply to all variants.
    `null`: the value may be null, which means absent. `rules` are checked before anything inside.
    `phrases` are used for it and everything inside; None: those of the enclosing shape.
    """

    kind: type | tuple[type, ...] = object
    name: str = ""
    members: Mapping[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    closed: bool = False
    each: Shape | None = None
    variants: Mapping[str, Shape] = field(default_factory=dict)
    tag: str = "type"
    untagged: str = ""
    null: bool = False
    rules: tuple[Rule, ...] = ()
    phrases: Phrases | None = None


class Phrases(ABC):
    """A provider's messages for a value at a place that violates a shape. By default each case is
    reported like a value of another type."""

    @abstractmethod
    def refuse_type(self, value: Any, where: str, shape: Shape) -> BadRequest:
        """The value has another type."""

    def refuse_missing(self, where: str, shape: Shape) -> BadRequest:
        """The member at `where` is missing."""
        return self.refuse_type(None, where, shape)

    def refuse_unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        """The object at this place, with this shape, has no member of this name."""
        return self.refuse_type(None, self.join(where, name), shape)

    def refuse_variant(self, value: Mapping[str, Any], where: str, shape: Shape) -> BadRequest:
        """The object's tag matches none of the variants."""
        return self.refuse_type(value, where, shape)

    def join(self, where: str, step: str | int) -> str:
        """The place of a member or of an entry."""
        return f"{where}.{step}" if where else str(step)

    def inner_place(self, where: str, shape: Shape, kind: str = "") -> str:
        """The place used for the members of an object; `kind` is its variant."""
        return where


ANY = Shape()


def predicate_rule(holds: Callable[[Any], object], words: str, source: Citation) -> Rule:
    """A rule that `holds` of a value; `words`, the refusal, may contain `{where}`."""

    def rule(value: Any, where: str) -> BadRequest | None:
        return None if holds(value) else source.refusal(words.replace("{where}", where))

    return rule


def check_shape(value: Any, shape: Shape, phrases: Phrases, where: str = "") -> None:
    """Raises BadRequest for the first violation of `shape` in `value`."""
    phrases = shape.phrases or phrases
    if value is None and shape.null:
        return
    if not _is_of(value, shape.kind):
        raise phrases.refuse_type(value, where, shape)
    for rule in shape.rules:
        if (refusal := rule(value, where)) is not None:
            raise refusal
    if isinstance(value, dict):
        _check_object(value, shape, phrases, where)
    elif isinstance(value, list) and shape.each is not None:
        for place, entry in enumerate(value):
            check_shape(entry, shape.each, phrases, phrases.join(where, place))


def _is_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool):
        return bool in kinds or object in kinds
    return isinstance(value, kinds)


def _check_object(value: Mapping[str, Any], shape: Shape, phrases: Phrases, where: str) -> None:
    kind = value.get(shape.tag, shape.untagged) if shape.variants else ""
    kind = kind if isinstance(kind, str) else ""
    inside = phrases.inner_place(where, shape, kind)
    if kind in shape.variants:
        check_shape(value, shape.variants[kind], phrases, inside)
    elif shape.closed and shape.variants:
        raise phrases.refuse_variant(value, where, shape)
    elif shape.closed:
        for name in _unnamed(value, shape):
            raise phrases.refuse_unknown(name, inside, shape)
    for name in shape.required:
        if name not in value or (value[name] is None and shape.members[name].null):
            raise phrases.refuse_missing(phrases.join(inside, name), shape.members[name])
    for name, member in shape.members.items():
        if name in value:
            check_shape(value[name], member, phrases, phrases.join(inside, name))
    if shape.each is not None:
        for name in _unnamed(value, shape):
            check_shape(value[name], shape.each, phrases, phrases.join(inside, name))


def _unnamed(value: Mapping[str, Any], shape: Shape) -> list[str]:
    return [name for name in value if name not in shape.members]
