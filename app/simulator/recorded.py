"""A recorded session as a model: finds where on the recorded path a request is, and answers with
the recorded bytes at their recorded pace. Reads no log: a tape is handed to it.

A request is compared by its steps: prompts, calls and results. Fields that are unknown here, and
what the model said beside its calls, are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Literal
from urllib.parse import quote

from app.core.late import dataclass
from app.core.tools import Content
from app.protocols.registry import REQUEST_READERS
from app.protocols.request import (
    AnswerMessage,
    PromptMessage,
    RequestItem,
    RequestNotes,
    ResultMessage,
)
from app.protocols.server import CUT, BadRequest, OutgoingFrame

AGAIN = "x-playground-again"
"""The header of a request that says how often the very same one was sent before in its session."""
LEFT = "x-playground-left-recording"
"""The header of an answer that names the tools which came to something else when it was recorded,
each percent-encoded, with commas between."""

_HOPS = frozenset(
    {
        "connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding",
        "date", AGAIN, LEFT,
    }
)  # fmt: skip
"""Headers of one connection: this one has its own."""

_SHOWN = 80
ADVICE = "Or choose another model in Setup, and go on from here with that."
"""How the sentence ends that says where the path left the recording."""


GONE = f"The recorded session is deleted. Restore it, if it is still in the bin. {ADVICE}"
"""The sentence where there is no recording any more."""


@dataclass(frozen=True)
class Take:
    """A request as it was sent, and what came back: `status` is None where no answer began, with
    `failure` in words. `pieces` are (seconds since the one before, bytes); `first_s` is how long
    the headers took. `clean` is whether the connection closed politely."""

    number: int
    body: str
    status: int | None
    headers: Mapping[str, str]
    first_s: float
    pieces: Sequence[tuple[float, bytes]]
    clean: bool
    failure: str = ""


@dataclass(frozen=True)
class Tape:
    """A recorded session: its protocol and its takes, in order."""

    protocol: str
    takes: Sequence[Take]


Tapes = Callable[[str], Awaitable[Tape | None]]
"""The tape of a session by its id; None where there is none."""


@dataclass(frozen=True)
class MatchingTake:
    """The take that answers; `others` are the tools that came to something else then."""

    take: Take
    others: tuple[str, ...] = ()


def find_take(tape: Tape, body: str, again: int) -> MatchingTake:
    """What answers `body`, which was sent `again` times before; BadRequest says where the path
    leaves the recording, and what to do."""
    asked = steps(tape.protocol, body)
    place = [step.place for step in asked]
    fitting: list[tuple[Take, list[Step]]] = []
    paths = [steps(tape.protocol, take.body) for take in tape.takes]
    for take, path in zip(tape.takes, paths, strict=True):
        if [step.place for step in path] == place:
            fitting.append((take, path))
    if not fitting:
        raise BadRequest(_left(asked, paths))
    others = {take.number: _others(asked, path) for take, path in fitting}
    least = min(len(other) for other in others.values())
    best = [take for take, _ in fitting if len(others[take.number]) == least]
    take = best[min(again, len(best) - 1)]
    return MatchingTake(take, tuple(dict.fromkeys(others[take.number])))


def frames(take: Take) -> Iterator[OutgoingFrame]:
    """The recorded bytes, in the recorded pieces, cut where the recording was cut."""
    yield OutgoingFrame(b"", take.first_s)
    for pause, data in take.pieces:
        yield OutgoingFrame(data, pause)
    if not take.clean:
        yield CUT


def headers(match: MatchingTake) -> dict[str, str]:
    """The recorded headers, but for those of the connection; LEFT where the path was another."""
    own = {
        name: value
        for name, value in match.take.headers.items()
        if name.lower() not in _HOPS and _sound(value)
    }
    return own | ({LEFT: ",".join(quote(name) for name in match.others)} if match.others else {})


def _sound(value: str) -> bool:
    return value.isprintable() and value.isascii()


def _others(asked: Sequence[Step], path: Sequence[Step]) -> list[str]:
    """The tools of the calls and results that differ."""
    return [step.name for step, was in zip(asked, path, strict=True) if step.value != was.value]


def _left(asked: Sequence[Step], paths: Sequence[Sequence[Step]]) -> str:
    """Where `asked` leaves the recording, measured by the path that it follows longest."""
    nearest = max(paths, key=lambda path: (_common(asked, path), len(path)), default=())
    common = _common(asked, nearest)
    if common == len(nearest):
        end = "The recording ends here: it has no answer to what comes now."
        return f"{end} Fork the recorded session to go on from its end. {ADVICE}"
    was = nearest[common]
    if common == len(asked):
        # The recording had more by the time it was asked again, as after a message in between.
        return f"The recording has no answer at this place; there {_words(was)} came first. " + (
            f"Do the same. {ADVICE}"
        )
    here = asked[common]
    advice = "Send that one." if was.kind == "prompt" else "Start it once more to do the same."
    return (
        f"This leaves the recording with {_words(here)}: there {_words(was)} stood. "
        f"{advice} {ADVICE}"
    )


def _common(asked: Sequence[Step], path: Sequence[Step]) -> int:
    same = (step.place == other.place for step, other in zip(asked, path, strict=False))
    return sum(1 for _ in takewhile(bool, same))


def _words(step: Step) -> str:
    match step.kind:
        case "prompt":
            return f"the message “{_clipped(step.value[0])}”"
        case "call":
            return f"a call of {_clipped(step.name)}"
        case "result":
            return f"the result of {_clipped(step.name)}"


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"


# -- the steps of a request body: prompts, calls and results

StepKind = Literal["prompt", "call", "result"]


@dataclass(frozen=True)
class Step:
    """`name` is the tool's, "" for a prompt and where a result names none. `value` is a prompt's
    texts and images, a call's arguments or a result's content."""

    kind: StepKind
    name: str
    value: Any

    @property
    def place(self) -> tuple[str, str, str]:
        """What must be the same for a recorded answer to follow: of calls and results not what
        they say, only which tool it is."""
        prompt = json.dumps(self.value, sort_keys=True) if self.kind == "prompt" else ""
        return self.kind, self.name, prompt


def steps(protocol: str, body: str) -> list[Step]:
    """The way that `body` tells, in order; empty where it is no such request."""
    reader = REQUEST_READERS.get(protocol)
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if reader is None or not isinstance(data, dict):
        return []
    return list(_steps(reader.items(data, RequestNotes(protocol))))


def _steps(items: Iterable[RequestItem]) -> Iterator[Step]:
    names: dict[str, str] = {}
    for item in items:
        match item:
            case PromptMessage(role="user", is_empty=False):
                other = [piece for piece in item.form.get("pieces", ()) if "other" in piece]
                yield Step("prompt", "", [item.text, *map(_content, item.images), *other])
            case AnswerMessage():
                for part in item.parts:
                    if part.kind == "call":
                        names[part.call_id] = part.name
                        yield Step("call", part.name, _value(part.text))
            case ResultMessage():
                name = item.name or names.get(item.call_id, "")
                content = [_content(piece) for piece in item.content]
                yield Step("result", name, [content, item.is_error])


def _content(piece: Content) -> list[str]:
    return [piece.type, piece.text, piece.media_type, piece.data]


def _value(text: str) -> object:
    """Arguments as a value, however they are spaced; as text where they are no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
