"""A recorded session as a model: finds a request's position on the recorded path, and answers with
the recorded bytes at their recorded pace. Reads no log: the tape is passed in.

Requests are compared by their steps: prompts, calls and results. Unknown fields, and the model's
text besides its calls, are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal
from urllib.parse import quote

from playground.core.json_values import load_json
from playground.core.tools import Content
from playground.protocols.registry import REQUEST_READERS
from playground.protocols.request import (
    AnswerMessage,
    PromptMessage,
    RequestItem,
    RequestNotes,
    ResultMessage,
)
from playground.protocols.server import CUT, BadRequest, OutgoingFrame

AGAIN = "x-playground-again"
"""The request header with the number of earlier equal requests in its session."""
LEFT = "x-playground-left-recording"
"""The answer header with the names of tools whose result differs from the recording,
percent-encoded and separated by commas."""

_HOPS = frozenset(
    {
        "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding",
        "date", AGAIN, LEFT,
    }
)  # fmt: skip
"""Hop-by-hop headers: this connection has its own."""

_SHOWN = 80
ADVICE = "Or choose another model in Setup and continue with it."
"""The end of the sentence that says where the path left the recording."""

GONE = f"The recorded session is deleted. Restore it if it is still in the bin. {ADVICE}"
"""The sentence if the recording does not exist any more."""

StepKind = Literal["prompt", "call", "result"]


@dataclass(frozen=True)
class RecordedExchange:
    """A sent request and its response: `status` is None if no response began, with `failure` in
    words. `pieces` are (seconds since the previous one, bytes); `first_s` is the time to the
    headers. `clean`: the connection was closed properly."""

    number: int
    body: str
    status: int | None
    headers: Mapping[str, str]
    first_s: float
    pieces: Sequence[tuple[float, bytes]]
    clean: bool
    failure: str = ""


@dataclass(frozen=True)
class RecordedSession:
    """A recorded session: its protocol and its takes, in order."""

    protocol: str
    takes: Sequence[RecordedExchange]


SessionLookup = Callable[[str], Awaitable[RecordedSession | None]]
"""The tape of a session by its id; None if there is none."""


@dataclass(frozen=True)
class MatchingExchange:
    """The take that answers; `others` are the tools whose result differed in it."""

    take: RecordedExchange
    others: tuple[str, ...] = ()


def find_exchange(tape: RecordedSession, body: str, again: int) -> MatchingExchange:
    """The answer to `body`, which was sent `again` times before; BadRequest says where the path
    leaves the recording, and what to do."""
    asked = steps(tape.protocol, body)
    place = [step.place for step in asked]
    fitting: list[tuple[RecordedExchange, list[PathStep]]] = []
    paths = [steps(tape.protocol, take.body) for take in tape.takes]
    for take, path in zip(tape.takes, paths, strict=True):
        if [step.place for step in path] == place:
            fitting.append((take, path))
    if not fitting:
        raise BadRequest(_divergence(asked, paths))
    others = {take.number: _differing_tools(asked, path) for take, path in fitting}
    least = min(len(other) for other in others.values())
    best = [take for take, _ in fitting if len(others[take.number]) == least]
    take = best[min(again, len(best) - 1)]
    return MatchingExchange(take, tuple(dict.fromkeys(others[take.number])))


def frames(take: RecordedExchange) -> Iterator[OutgoingFrame]:
    """The recorded bytes, in the recorded pieces, cut where the recording was cut."""
    yield OutgoingFrame(b"", take.first_s)
    for pause, data in take.pieces:
        yield OutgoingFrame(data, pause)
    if not take.clean:
        yield CUT


def headers(match: MatchingExchange) -> dict[str, str]:
    """The recorded headers, except hop-by-hop ones; adds LEFT if the path differed."""
    own = {
        name: value
        for name, value in match.take.headers.items()
        if name.lower() not in _HOPS and _is_printable(value)
    }
    return own | ({LEFT: ",".join(quote(name) for name in match.others)} if match.others else {})


def _is_printable(value: str) -> bool:
    return value.isprintable() and value.isascii()


def _differing_tools(asked: Sequence[PathStep], path: Sequence[PathStep]) -> list[str]:
    """The tools of the calls and results that differ."""
    return [step.name for step, was in zip(asked, path, strict=True) if step.value != was.value]


def _divergence(asked: Sequence[PathStep], paths: Sequence[Sequence[PathStep]]) -> str:
    """Where `asked` leaves the recording, compared with the path that it follows longest."""
    nearest = max(paths, key=lambda path: (_common_length(asked, path), len(path)), default=())
    common = _common_length(asked, nearest)
    if common == len(nearest):
        end = "The recording ends here."
        return f"{end} Fork the recorded session to continue from its end. {ADVICE}"
    was = nearest[common]
    if common == len(asked):
        # The recording had further steps before the next request, such as a message in between.
        return f"The recording has no answer here: {_words(was)} came first. Do the same. {ADVICE}"
    here = asked[common]
    advice = "Send that one." if was.kind == "prompt" else "Replay it again and do the same."
    return f"The recording has {_words(was)} here, not {_words(here)}. {advice} {ADVICE}"


def _common_length(asked: Sequence[PathStep], path: Sequence[PathStep]) -> int:
    same = (step.place == other.place for step, other in zip(asked, path, strict=False))
    return sum(1 for _ in takewhile(bool, same))


def _words(step: PathStep) -> str:
    match step.kind:
        case "prompt":
            return f"the message “{_shorten(step.value[0])}”"
        case "call":
            return f"a call of {_shorten(step.name)}"
        case "result":
            return f"the result of {_shorten(step.name)}"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


# -- the steps of a request body: prompts, calls and results


@dataclass(frozen=True)
class PathStep:
    """`name` is the tool's, "" for a prompt or a result without a name. `value` is a prompt's texts
    and images, a call's arguments or a result's content."""

    kind: StepKind
    name: str
    value: Any

    @property
    def place(self) -> tuple[str, str, str]:
        """What must be equal for a recorded answer to apply: for calls and results only the tool,
        not the content."""
        prompt = json.dumps(self.value, sort_keys=True) if self.kind == "prompt" else ""
        return self.kind, self.name, prompt


def steps(protocol: str, body: str) -> list[PathStep]:
    """The path in `body`, in order; empty if it is not such a request."""
    reader = REQUEST_READERS.get(protocol)
    try:
        data = load_json(body)
    except ValueError:
        return []
    if reader is None or not isinstance(data, dict):
        return []
    return list(_steps(reader.items(data, RequestNotes(protocol))))


def _steps(items: Iterable[RequestItem]) -> Iterator[PathStep]:
    names: dict[str, str] = {}
    for item in items:
        match item:
            case PromptMessage(role="user", is_empty=False):
                other = [piece for piece in item.form.get("pieces", ()) if "other" in piece]
                yield PathStep("prompt", "", [item.text, *map(_content, item.images), *other])
            case AnswerMessage():
                for part in item.parts:
                    if part.kind == "call":
                        names[part.call_id] = part.name
                        yield PathStep("call", part.name, _value(part.text))
            case ResultMessage():
                name = item.name or names.get(item.call_id, "")
                content = [_content(piece) for piece in item.content]
                yield PathStep("result", name, [content, item.is_error])


def _content(piece: Content) -> list[str]:
    return [piece.type, piece.text, piece.media_type, piece.data]


def _value(text: str) -> object:
    """Arguments as a value, independent of white space; as text if they are not JSON."""
    try:
        return load_json(text)
    except ValueError:
        return text
