"""The facts of a session, in the past tense. Nothing else is true: everything shown is folded
from these. `kind` in rows and JSON is the class name in snake_case; `to_row` and `from_row` turn
an event into JSON and back. Fields are only ever added, with a default, so that old logs read.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from app.core.errors import BadInput
from app.core.settings import Settings
from app.core.tools import ToolChoice, ToolResult

PartKind = Literal[
    "text",
    "thinking",
    "refusal",
    "call",  # ours to answer
    "server_call",  # executed by the provider: shown, never run
    "server_result",
    "other",  # a block this version has no word for: kept verbatim in meta
]
EndReason = Literal["stop", "calls", "length", "refusal", "pause", "other"]
FailKind = Literal[
    "unreachable",  # no connection: name, port, TLS
    "timeout",  # connected, but nothing (more) came in time
    "http",  # a status of 400 or above
    "error",  # an error told inside an answer
    "not_api",  # an answer that is not of this protocol (HTML, empty, ...)
    "redirect",  # a 3xx, which is never followed
    "too_large",  # a cap was reached
    "no_key",  # nothing was sent: the profile's key is missing
    "bad_request",  # nothing was sent: the request could not be made
    "interrupted",  # the bytes stopped without an end, or this program was restarted
    "stopped",  # the person pressed Stop
]


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider counted them last; None is unknown, which is not 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a call's arguments.

    kind `malformed` (no sound JSON object), `schema`, `unknown_tool`, or `note` (worth saying, no
    obstacle). `pointer` is the JSON pointer of the place; `offset` the character in the raw
    text, or -1. `fix` is a safe replacement for the value at `pointer`, as JSON text, or "".
    """

    kind: Literal["malformed", "schema", "unknown_tool", "note"]
    message: str
    pointer: str = ""
    offset: int = -1
    fix: str = ""


@dataclass(frozen=True)
class SessionStarted:
    settings: Settings


@dataclass(frozen=True)
class SettingsChanged:
    settings: Settings


@dataclass(frozen=True)
class PromptAdded:
    text: str


@dataclass(frozen=True)
class RequestSent:
    """A turn begins. `headers` and `body` are as sent, secrets masked; `choice` as it was in force.

    `recording` numbers the recordings of this session from 1 and joins the bytes that came back.
    """

    recording: int
    protocol: str
    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    model: str = ""
    choice: ToolChoice = field(default_factory=ToolChoice)


@dataclass(frozen=True)
class ResponseStarted:
    status: int
    headers: Mapping[str, str]
    request_id: str = ""


@dataclass(frozen=True)
class PartStarted:
    """`index` is unique within the turn and counts from 0 by first appearance."""

    index: int
    part_kind: PartKind
    name: str = ""
    provider_id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PartDelta:
    index: int
    text: str


@dataclass(frozen=True)
class PartEnded:
    """`text` is the whole text (a call's raw arguments); `name` and `provider_id` are final.

    `meta` is opaque provider data that goes back verbatim. `complete` is False where the bytes
    ended before the part did.
    """

    index: int
    text: str
    name: str = ""
    provider_id: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True


@dataclass(frozen=True)
class ResponseEnded:
    reason: EndReason
    raw_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ResponseFailed:
    """`message` is a sentence; `error` the provider's own error object or text, or None."""

    failure: FailKind
    message: str
    status: int | None = None
    retry_after: float | None = None
    error: Any = None
    raw_reason: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class Warned:
    """Something worth knowing that changed nothing. `code` is stable, `message` a sentence."""

    code: str
    message: str
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class CallChecked:
    """`code` stands for the file that would answer (its SHA-256 as hex digits), "" without one.

    A call is checked again where that file changed while it waited.
    """

    call_id: str
    problems: tuple[Problem, ...] = ()
    parallel_safe: bool = False
    digest: str = ""
    code: str = ""


Decision = Literal["run", "answer", "deny"]


@dataclass(frozen=True)
class CallDecided:
    """`by` is `person` or `rule`; `arguments` the edited raw text, None where it is as it came.

    `text` is the answer or the reason of a denial. `anyway` says that a schema problem was seen.
    """

    call_id: str
    decision: Decision
    by: Literal["person", "rule"] = "person"
    rule: str = ""
    digest: str = ""
    arguments: str | None = None
    text: str = ""
    is_error: bool = False
    anyway: bool = False


@dataclass(frozen=True)
class CallStarted:
    call_id: str
    attempt: int


@dataclass(frozen=True)
class CallProgressed:
    """`fraction` is 0..1, or None where the tool does not know how far it is."""

    call_id: str
    text: str
    fraction: float | None = None


@dataclass(frozen=True)
class CallEnded:
    call_id: str
    result: ToolResult


@dataclass(frozen=True)
class CallInterrupted:
    call_id: str


@dataclass(frozen=True)
class RunPaused:
    """`limit` is `max_turns`, `max_calls`, `restart` or `store`."""

    limit: str


@dataclass(frozen=True)
class RunResumed:
    pass


@dataclass(frozen=True)
class RunStopped:
    pass


@dataclass(frozen=True)
class TurnDropped:
    """Turn `turn` (counted from 1) no longer belongs to the history; it stays to be read."""

    turn: int


Event = (
    SessionStarted
    | SettingsChanged
    | PromptAdded
    | RequestSent
    | ResponseStarted
    | PartStarted
    | PartDelta
    | PartEnded
    | ResponseEnded
    | ResponseFailed
    | Warned
    | CallChecked
    | CallDecided
    | CallStarted
    | CallProgressed
    | CallEnded
    | CallInterrupted
    | RunPaused
    | RunResumed
    | RunStopped
    | TurnDropped
)

WireEvent = PartStarted | PartDelta | PartEnded | ResponseEnded | ResponseFailed | Warned
"""What a codec may yield."""


@dataclass(frozen=True)
class Source:
    """Bytes `start`..`end` (half open) of recording `recording`."""

    recording: int
    start: int
    end: int


@dataclass(frozen=True)
class Logged:
    """An event with its place in the session's log; `at_ms` is Unix time in ms."""

    seq: int
    at_ms: int
    event: Event
    source: Source | None = None


def kind_of(cls: type) -> str:
    """`PartDelta` -> `part_delta`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


EVENTS: dict[str, type] = {kind_of(cls): cls for cls in get_args(Event)}
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode
"""Made once: json.dumps with separators builds an encoder for each event."""

KINDS: dict[type, str] = {cls: kind for kind, cls in EVENTS.items()}


def to_data(value: Any) -> Any:
    """Plain JSON data of a frozen dataclass, tuple or mapping; recursive."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {key: to_data(item) for key, item in value.items()}
        case list() | tuple():
            return [to_data(item) for item in value]
        case _ if is_dataclass(value):
            cls: Any = type(value)
            return {name: to_data(getattr(value, name)) for name in _names(cls)}
        case Mapping():
            return {key: to_data(item) for key, item in value.items()}
    raise TypeError(f"no JSON for {type(value).__name__}")


def from_data(cls: Any, data: Any) -> Any:
    """The inverse of `to_data` for the dataclass `cls`. Unknown keys are an error."""
    return _reader(cls)(data)


def to_row(event: Event) -> tuple[str, str]:
    """(kind, JSON body). ASCII only, so that lone surrogates survive any store."""
    return KINDS[type(event)], _ENCODE(to_data(event))


def from_row(kind: str, body: str) -> Event:
    """The event of a row; BadInput where this version does not know it."""
    cls = EVENTS.get(kind)
    if cls is None:
        raise BadInput(f"This log holds an event of kind {kind!r}, which this version cannot read.")
    event: Event = from_data(cls, json.loads(body))
    return event


def logged_data(logged: Logged) -> dict[str, Any]:
    """The line of the log as scripts read it: seq, at_ms, kind, source, the event's fields."""
    line: dict[str, Any] = {
        "seq": logged.seq,
        "at_ms": logged.at_ms,
        "kind": KINDS[type(logged.event)],
    }
    if logged.source is not None:
        source = logged.source
        line["source"] = [source.recording, source.start, source.end]
    line.update(to_data(logged.event))
    return line


@lru_cache(maxsize=None)
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(cls))


@lru_cache(maxsize=None)
def _reader(hint: Any) -> Callable[[Any], Any]:
    """A function from JSON data to a value of the type `hint`."""
    if isinstance(hint, type) and is_dataclass(hint):
        hints = get_type_hints(hint)
        readers = {name: _reader(hints[name]) for name in _names(hint)}

        def read(data: Any) -> Any:
            if not isinstance(data, dict):
                raise BadInput(f"{hint.__name__} must be an object, not {type(data).__name__}.")
            unknown = data.keys() - readers.keys()
            if unknown:
                raise BadInput(f"{hint.__name__} has no field {sorted(unknown)[0]!r}.")
            try:
                return hint(**{name: readers[name](item) for name, item in data.items()})
            except TypeError as error:
                raise BadInput(f"{hint.__name__}: {error}.") from error

        return read
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        item = _reader(args[0])
        return lambda data: tuple(item(entry) for entry in data)
    if origin in (Union, types.UnionType):
        some = [arg for arg in args if arg is not type(None)]
        if len(some) == 1:
            inner = _reader(some[0])
            return lambda data: None if data is None else inner(data)
    return lambda data: data
