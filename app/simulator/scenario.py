"""A scenario: a script the simulator plays instead of its model. Turn k answers the k-th request.

    {"turns": [{"text": "Let me see.", "thinking": "...", "calls": [{"name": "f", "arguments": {}}],
                "stop_reason": "calls", "faults": ["stall-after-3"], "pace": 0.5}]}

or several, of which the first that fits a conversation is played:

    {"scenarios": [{"model": "small", "prompt": "words of the first prompt", "turns": [...]}]}

`arguments` is an object, or a string that goes out as it stands. `stop_reason` is `stop`, `calls`,
`length`, `refusal` or a provider's own word; without it the turn ends as its content says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from app.core.errors import BadInput
from app.core.messages import ModelRequest
from app.protocols.server import ModelReply, ReplyBlock, call
from app.simulator.faults import Injected, by_name

_OVER = "The scenario is over: it has no turn {number}. Start a new session to play it again."


@dataclass(frozen=True)
class ScenarioTurn:
    """`pace` multiplies the simulator's own."""

    reply: ModelReply
    faults: tuple[Injected, ...] = ()
    pace: float = 1.0


class Script(Protocol):
    """Who answers in place of the model; None leaves a request to it."""

    def turn(self, request: ModelRequest) -> ScenarioTurn | None: ...


@dataclass(frozen=True)
class Scenario:
    turns: tuple[ScenarioTurn, ...]

    def turn(self, request: ModelRequest) -> ScenarioTurn:
        """The turn that answers `request`, counted by the assistant messages of its history."""
        number = sum(message.role == "assistant" for message in request.messages)
        if number < len(self.turns):
            return self.turns[number]
        return ScenarioTurn(ModelReply((ReplyBlock("text", _OVER.format(number=number + 1)),)))


@dataclass(frozen=True)
class ScenarioChoice:
    """A scenario for one `model` ("" for any), in conversations whose first prompt holds the words
    `prompt`."""

    scenario: Scenario
    model: str = ""
    prompt: str = ""

    def fits(self, model: str, prompt: str) -> bool:
        return self.model in ("", model) and self.prompt in prompt


@dataclass(frozen=True)
class ScenarioChoices:
    """What fits none of them is left to the simulator's own model."""

    choices: tuple[ScenarioChoice, ...]

    def turn(self, request: ModelRequest) -> ScenarioTurn | None:
        """The turn of the first that fits."""
        users = (message for message in request.messages if message.role == "user")
        first = next(users, None)
        texts = (part.text for part in first.parts if part.kind == "text") if first else ()
        prompt = "\n\n".join(texts)
        fitting = (choice for choice in self.choices if choice.fits(request.model, prompt))
        chosen = next(fitting, None)
        return chosen.scenario.turn(request) if chosen is not None else None


def script(text: str) -> Scenario | ScenarioChoices:
    """What JSON `text` spells, one scenario or several. Raises BadInput with the place of what is
    wrong."""
    data = _parse(text)
    if "scenarios" not in data:
        return _scenario(data, "", ())
    _only(data, "", ("scenarios",))
    several = data["scenarios"]
    if not isinstance(several, list) or not several:
        raise _wrong("/scenarios", "a list of at least one scenario")
    return ScenarioChoices(
        tuple(_choice(item, f"/scenarios/{place}") for place, item in enumerate(several))
    )


def scenario(text: str) -> Scenario:
    """The one scenario that JSON `text` spells. Raises BadInput with the place of what is wrong."""
    return _scenario(_parse(text), "", ())


def _parse(text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"The scenario is not JSON ({error}). Fix it and try again.") from error
    parsed: Mapping[str, Any] = _checked(data, "", dict, "an object")
    return parsed


def _choice(data: Any, where: str) -> ScenarioChoice:
    _checked(data, where, dict, "an object")
    return ScenarioChoice(
        _scenario(data, where, ("model", "prompt")),
        _optional(data, "model", where, str, "the name of a model") or "",
        _optional(data, "prompt", where, str, "words of a prompt") or "",
    )


def _scenario(data: Mapping[str, Any], where: str, beside: tuple[str, ...]) -> Scenario:
    turns = data.get("turns")
    if not isinstance(turns, list) or not turns:
        raise _wrong(f"{where}/turns", "a list of at least one turn")
    _only(data, where, (*beside, "turns"))
    places = enumerate(turns)
    return Scenario(tuple(_turn(turn, f"{where}/turns/{place}") for place, turn in places))


def _turn(data: Any, where: str) -> ScenarioTurn:
    _checked(data, where, dict, "an object")
    _only(data, where, ("text", "thinking", "calls", "stop_reason", "faults", "pace"))
    spoken: tuple[Literal["thinking", "text"], ...] = ("thinking", "text")
    blocks = [
        ReplyBlock(kind, data[kind])
        for kind in spoken
        if _optional(data, kind, where, str, "a text")
    ]
    calls = _optional(data, "calls", where, list, "a list") or []
    blocks += [_call(call, f"{where}/calls/{place}") for place, call in enumerate(calls)]
    stop = _optional(data, "stop_reason", where, str, "a word") or ("calls" if calls else "stop")
    names = _optional(data, "faults", where, list, "a list of names") or []
    pace = _optional(data, "pace", where, (int, float), "a number from 0")
    if pace is not None and (isinstance(pace, bool) or not 0 <= pace <= 1000):
        raise _wrong(f"{where}/pace", "a number from 0 to 1000")
    faults = tuple(_fault(name, f"{where}/faults/{place}") for place, name in enumerate(names))
    return ScenarioTurn(
        ModelReply(tuple(blocks), stop), faults, 1.0 if pace is None else float(pace)
    )


def _call(data: Any, where: str) -> ReplyBlock:
    _checked(data, where, dict, "an object")
    _only(data, where, ("name", "arguments"))
    name = _checked(data.get("name"), f"{where}/name", str, "the name of a tool")
    arguments = data.get("arguments", {})
    return call(name, _checked(arguments, f"{where}/arguments", (dict, str), "an object or a text"))


def _fault(name: Any, where: str) -> Injected:
    _checked(name, where, str, "the name of a fault")
    try:
        return by_name(name)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


def _optional(
    data: Mapping[str, Any], name: str, where: str, kind: type | tuple[type, ...], wanted: str
) -> Any:
    return _checked(data[name], f"{where}/{name}", kind, wanted) if name in data else None


def _checked(value: Any, where: str, kind: type | tuple[type, ...], wanted: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(where, wanted)
    return value


def _only(data: Mapping[str, Any], where: str, known: tuple[str, ...]) -> None:
    for name in data:
        if name not in known:
            words = ", ".join(known)
            raise BadInput(f"{where}/{name}: there is no such word here. Use one of: {words}.")


def _wrong(where: str, wanted: str) -> BadInput:
    return BadInput(f"{where or '/'}: this must be {wanted}. Fix the scenario and try again.")
