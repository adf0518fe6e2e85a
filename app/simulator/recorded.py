"""A recorded session as a model: finds where on the recorded path a request is, and answers with
the recorded bytes at their recorded pace. Reads no log: a tape is handed to it.

A request is compared by its steps: prompts, calls and results. Fields that are unknown here, and
what the model said beside its calls, are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal
from urllib.parse import quote

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
    kept = {
        name: value
        for name, value in match.take.headers.items()
        if name.lower() not in _HOPS and _sound(value)
    }
    return kept | ({LEFT: ",".join(quote(name) for name in match.others)} if match.others else {})


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


# -- the steps of a request body: prompts, calls and results, for five protocols

StepKind = Literal["prompt", "call", "result"]


@dataclass(frozen=True)
class Step:
    """`name` is the tool's, "" for a prompt and where a result names none. `value` is a prompt's
    content, a call's arguments or a result's content."""

    kind: StepKind
    name: str
    value: Any

    @property
    def place(self) -> tuple[str, str, str]:
        """What must be the same for a recorded answer to follow: of calls and results not what
        they say, only which tool it is."""
        said = json.dumps(self.value, sort_keys=True) if self.kind == "prompt" else ""
        return self.kind, self.name, said


def steps(protocol: str, body: str) -> list[Step]:
    """The way that `body` tells, in order; empty where it is no such request."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return []
    if not isinstance(data, dict):
        return []
    match protocol:
        case "anthropic":
            found = _anthropic(_objects(data.get("messages")))
        case "openai_chat" | "ollama":
            found = _chat(_objects(data.get("messages")))
        case "openai_responses":
            found = _responses(data.get("input"))
        case "gemini":
            found = _gemini(_objects(data.get("contents")))
        case _:
            found = iter(())
    return list(found)


def _anthropic(messages: list[Mapping[str, Any]]) -> Iterator[Step]:
    names: dict[str, str] = {}
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for block in _objects(content):
            match block.get("type"):
                case "tool_use":
                    names[str(block.get("id"))] = str(block.get("name"))
                    yield Step("call", str(block.get("name")), block.get("input"))
                case "tool_result":
                    name = names.get(str(block.get("tool_use_id")), "")
                    value = [block.get("content"), bool(block.get("is_error"))]
                    yield Step("result", name, value)
                case _ if message.get("role") == "user":
                    kept = {key: member for key, member in block.items() if key != "cache_control"}
                    yield Step("prompt", "", kept)


def _chat(messages: list[Mapping[str, Any]]) -> Iterator[Step]:
    names: dict[str, str] = {}
    for message in messages:
        match message.get("role"):
            case "user":
                yield Step("prompt", "", [message.get("content"), message.get("images")])
            case "assistant":
                for call in _objects(message.get("tool_calls")):
                    written = call.get("function") or call.get("custom")
                    told = written if isinstance(written, dict) else {}
                    name = str(told.get("name"))
                    names[str(call.get("id"))] = name
                    yield Step("call", name, _value(told.get("arguments", told.get("input"))))
            case "tool":
                known = names.get(str(message.get("tool_call_id")), "")
                name = str(message.get("tool_name") or known)
                yield Step("result", name, message.get("content"))


def _responses(given: object) -> Iterator[Step]:
    names: dict[str, str] = {}
    if isinstance(given, str):
        yield Step("prompt", "", given)
    for item in _objects(given):
        match item.get("type", "message"):
            case "function_call" | "custom_tool_call":
                names[str(item.get("call_id"))] = name = str(item.get("name"))
                yield Step("call", name, _value(item.get("arguments", item.get("input"))))
            case "function_call_output" | "custom_tool_call_output":
                name = names.get(str(item.get("call_id")), "")
                yield Step("result", name, item.get("output"))
            case "message" if item.get("role") == "user":
                yield Step("prompt", "", item.get("content"))


def _gemini(contents: list[Mapping[str, Any]]) -> Iterator[Step]:
    for content in contents:
        for part in _objects(content.get("parts")):
            call, result = part.get("functionCall"), part.get("functionResponse")
            if isinstance(call, dict):
                yield Step("call", str(call.get("name")), call.get("args"))
            elif isinstance(result, dict):
                yield Step("result", str(result.get("name")), result.get("response"))
            elif content.get("role") == "user":
                yield Step("prompt", "", dict(part))


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _value(text: object) -> object:
    """Arguments as a value, however they are spaced; as text where they are no JSON."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
