"""A recorded session as a model: finds where on the recorded path a request is, and answers with
the recorded bytes at their recorded pace. Reads no log: a tape is handed to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import quote

from app.protocols.server import CUT, BadRequest, OutgoingFrame
from app.simulator.steps import Step, steps

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
class Found:
    """The take that answers; `others` are the tools that came to something else then."""

    take: Take
    others: tuple[str, ...] = ()


def found(tape: Tape, body: str, again: int) -> Found:
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
    return Found(take, tuple(dict.fromkeys(others[take.number])))


def frames(take: Take) -> Iterator[OutgoingFrame]:
    """The recorded bytes, in the recorded pieces, cut where the recording was cut."""
    yield OutgoingFrame(b"", take.first_s)
    for pause, data in take.pieces:
        yield OutgoingFrame(data, pause)
    if not take.clean:
        yield CUT


def headers(one: Found) -> dict[str, str]:
    """The recorded headers, but for those of the connection; LEFT where the path was another."""
    kept = {
        name: value
        for name, value in one.take.headers.items()
        if name.lower() not in _HOPS and _sound(value)
    }
    return kept | ({LEFT: ",".join(quote(name) for name in one.others)} if one.others else {})


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
    same = (one.place == other.place for one, other in zip(asked, path, strict=False))
    return sum(1 for _ in takewhile(bool, same))


def _words(step: Step) -> str:
    match step.kind:
        case "prompt":
            return f"the message “{_text(step.value)}”"
        case "call":
            return f"a call of {_clipped(step.name)}"
        case "result":
            return f"the result of {_clipped(step.name)}"


def _text(value: object) -> str:
    """The words of a prompt, whatever its protocol wraps them in."""
    match value:
        case str():
            return _clipped(value)
        case {"text": str(text)}:
            return _clipped(text)
        case {"content": inner}:
            return _text(inner)
        case [*items]:
            return next((text for item in items if (text := _text(item))), "")
        case _:
            return ""


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
