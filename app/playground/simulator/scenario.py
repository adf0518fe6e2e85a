"""A scenario: a script the simulator plays instead of its model. Turn k answers the k-th request.

{"turns": [{"text": "Let me see.", "thinking": "...", "calls": [{"name": "f", "arguments": {}}],
            "stop_reason": "calls", "faults": ["stall-after-3"], "pace": 0.5}]}

or several, of which the first that matches a conversation is played:

{"scenarios": [{"model": "small", "prompt": "words of the first prompt", "turns": [...]}]}

`arguments` is an object, or a string that is sent unchanged. `stop_reason` is `stop`, `calls`,
`length`, `refusal` or a provider's own word; its default depends on the turn's content.
`CodingAgent` is a script without a file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, Protocol

from playground.core.errors import BadInput
from playground.core.json_values import load_json
from playground.core.messages import ModelRequest
from playground.core.tools import Tool
from playground.protocols import words_of
from playground.protocols.server import ModelReply, ReplyBlock, call
from playground.schema.documents import find_fault
from playground.schema.schema_checks import Place
from playground.simulator.faults import Injected, parse_fault
from playground.simulator.history import CallOutcome, history_of
from playground.simulator.model import conclusion
from playground.simulator.plan import (
    find_values,
    fit_arguments,
    mapping,
    resolve_schema,
    type_of,
    words,
)

_OVER = "The scenario has ended: it has no turn {number}. Start a new session to play it again."

_PATH = words_of("path filepath file filename target")
_OLD, _NEW = words_of("old search before find"), words_of("new replace after replacement")
_COMMAND = words_of("command cmd script")
_ALL = words_of("all every multiple")
_READING = words_of("read view open cat show")
_OTHER = words_of("image images directory folder many notebook resource background")
_SHELLS = words_of("bash shell exec run terminal sh execute")
_PATCH = words_of("patch input diff")

_ROLES = (("old", _OLD), ("new", _NEW), ("path", _PATH), ("command", _COMMAND), ("patch", _PATCH))
"""The role of a parameter, by patterns that match words of its name."""

_DEEPEST = 3
"""Levels of lists and objects in which a parameter is searched."""

_QUOTED = r"[\"'“”‘’`]([^\"'“”‘’`]+)[\"'“”‘’`]"
_CHANGE = re.compile(
    rf"\b(?:replace|change|rename|correct|turn)\s+(?:the\s+)?(?:\w+\s+)?{_QUOTED}\s+"
    rf"(?:with|by|to|into)\s+(?:the\s+)?(?:\w+\s+)?{_QUOTED}"
    r"|\b(?:replace|change|rename|correct|turn)\s+(\S+)\s+(?:with|by|to|into)\s+([\w-]+)",
    re.I,
)
_NUMBERED = re.compile(r"^\s*\d+(?:\t|→|: | ?\| ?)")
_FOLDER = re.compile(
    r"(?:\bwork(?:ing|space) (?:in )?(?:the )?(?:director(?:y|ies)|folder|path|root)"
    r"|<cwd>|\bcwd|\bcurrent (?:directory|folder)|\bproject (?:root|directory|folder))"
    r"\W{0,4}(/[^\s<>()\"'`,;]*)",
    re.I,
)


@dataclass(frozen=True)
class ScenarioTurn:
    """`pace` multiplies the simulator's own."""

    reply: ModelReply
    faults: tuple[Injected, ...] = ()
    pace: float = 1.0


class Script(Protocol):
    """Answers in place of the model; None leaves a request to it."""

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
    """A scenario for one `model` ("" for any), in conversations whose first prompt contains
    `prompt`."""

    scenario: Scenario
    model: str = ""
    prompt: str = ""

    def fits(self, model: str, prompt: str) -> bool:
        return self.model in ("", model) and self.prompt in prompt


@dataclass(frozen=True)
class ScenarioChoices:
    """Requests that match none of them are left to the simulator's own model."""

    choices: tuple[ScenarioChoice, ...]

    def turn(self, request: ModelRequest) -> ScenarioTurn | None:
        """The turn of the first match."""
        users = (message for message in request.messages if message.role == "user")
        first = next(users, None)
        texts = (part.text for part in first.parts if part.kind == "text") if first else ()
        prompt = "\n\n".join(texts)
        fitting = (choice for choice in self.choices if choice.fits(request.model, prompt))
        chosen = next(fitting, None)
        return chosen.scenario.turn(request) if chosen is not None else None


def script(text: str) -> Scenario | ScenarioChoices:
    """The scenario or scenarios in JSON `text`. BadInput with the place of an error."""
    data = _parse(text)
    if "scenarios" not in data:
        return _scenario(data, "")
    return ScenarioChoices(
        tuple(
            ScenarioChoice(
                _scenario(item, f"/scenarios/{place}"),
                item.get("model", ""),
                item.get("prompt", ""),
            )
            for place, item in enumerate(data["scenarios"])
        )
    )


def scenario(text: str) -> Scenario:
    """The one scenario in JSON `text`. BadInput with the place of an error."""
    data = _parse(text)
    if "scenarios" in data:
        raise BadInput("/scenarios: only one scenario can be played here. Give one.")
    return _scenario(data, "")


def _parse(text: str) -> Mapping[str, Any]:
    try:
        data: Mapping[str, Any] = load_json(text)
    except ValueError as error:
        raise BadInput(f"The scenario is not JSON ({error}). Fix it and try again.") from error
    if fault := find_fault("scenario", data):
        where = fault.pointer or "/"
        raise BadInput(f"{where}: {fault.message} Fix the scenario and try again.")
    return data


def _scenario(data: Mapping[str, Any], where: str) -> Scenario:
    turns = enumerate(data["turns"])
    return Scenario(tuple(_turn(turn, f"{where}/turns/{place}") for place, turn in turns))


def _turn(data: Mapping[str, Any], where: str) -> ScenarioTurn:
    kinds: tuple[Literal["thinking", "text"], ...] = ("thinking", "text")
    blocks = [ReplyBlock(kind, data[kind]) for kind in kinds if data.get(kind)]
    calls = data.get("calls", [])
    blocks += [call(item["name"], item.get("arguments", {})) for item in calls]
    stop = data.get("stop_reason") or ("calls" if calls else "stop")
    names = enumerate(data.get("faults", []))
    faults = tuple(_fault(name, f"{where}/faults/{place}") for place, name in names)
    return ScenarioTurn(ModelReply(tuple(blocks), stop), faults, float(data.get("pace", 1)))


def _fault(name: str, where: str) -> Injected:
    try:
        return parse_fault(name)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from error


# The scenario of a coding agent: it reads the file that the prompt names, edits it, and ends. It
# works with any tools of the agent, recognised by their parameters: a path and a text to replace, a
# patch, or a shell. Other requests (a title, a prompt without a file) are left to the simulator's
# own model.


@dataclass(frozen=True)
class CodingAgent:
    """Turns by progress since the prompt: a reading call, an editing call, the end."""

    def turn(self, request: ModelRequest) -> ScenarioTurn | None:
        """None if it is not a request of a working agent."""
        past = history_of(request.messages)
        prompt = _unquote(past.prompt)
        files = [find.text for find in find_values(prompt) if find.kind == "path"]
        hands = _EditingTools.of(request)
        if hands is None or not files or request.choice.mode == "none":
            return None
        file, count = files[0], len(past.calls_made)
        wanted = _change(prompt)
        failed = next((outcome for outcome in past.results if _has_failed(outcome)), None)
        if failed is not None:
            return _closing_turn(request, f"That did not work: {failed.text.strip()[:300]}")
        if count == 0:
            return _calling_turn(f"I'll read {file}.", hands.read(file))
        change = _Change.of(_file_text(past.results[0], file) if past.results else "", wanted)
        if change is None:
            return _closing_turn(request, f"I read {file}, and found nothing in it to replace.")
        edits = hands.edits(file, change)
        if count <= len(edits):
            return _calling_turn(f"Now I'll edit {file}.", edits[count - 1])
        return _closing_turn(request, f"Done: in {file}, “{change.old}” is now “{change.new}”.")


def _unquote(prompt: str) -> str:
    """`prompt` without the markup that an agent puts around all of it."""
    bare = prompt.strip()
    return bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] == '"' else bare


def _closing_turn(request: ModelRequest, text: str) -> ScenarioTurn:
    return ScenarioTurn(conclusion(request, text))


def _calling_turn(text: str, block: ReplyBlock) -> ScenarioTurn:
    return ScenarioTurn(ModelReply((ReplyBlock("text", text), block), "calls"))


def _change(prompt: str) -> tuple[str, str] | None:
    """(old text, new text) if the prompt specifies them."""
    match = _CHANGE.search(prompt)
    if match is None:
        return None
    return (match[1], match[2]) if match[1] else (match[3], match[4])


@dataclass(frozen=True)
class _Change:
    """`old` becomes `new`; `lines` are the whole lines that contain it, `count` its occurrences."""

    old: str
    new: str
    lines: tuple[str, ...]
    count: int

    @classmethod
    def of(cls, read: str, wanted: tuple[str, str] | None) -> _Change | None:
        """The change in the text that a tool read; of the first line if none is specified."""
        lines = list(_content(read))
        if wanted is None:
            first = next((line for line in lines if line.strip()), "")
            return cls(first, f"{first} (edited)", (first,), 1) if first else None
        old, new = wanted
        hit = tuple(line for line in lines if old in line)
        return cls(old, new, hit, sum(line.count(old) for line in hit)) if hit else None


def _content(read: str) -> Iterator[str]:
    """The lines of a file, without numbers and without the text that a tool adds around them."""
    _, marked, behind = read.partition("\nOutput:\n")  # the format of Codex's shell
    inside = re.search(r"<content>\n(.*?)\n?</content>", read, re.S)
    text = inside[1] if inside else behind if marked else read
    lines = text.splitlines()
    numbered = any(_NUMBERED.match(line) for line in lines[:1])
    for line in lines:
        if numbered and not _NUMBERED.match(line):
            continue
        yield _NUMBERED.sub("", line, count=1) if numbered else line


def _has_failed(outcome: CallOutcome) -> bool:
    """Whether the tool failed; some say so in a JSON result, alone or of a list."""
    value = _json_value(outcome)
    entries = value if isinstance(value, list) else [value]
    return outcome.failed or any(mapping(entry).get("success") is False for entry in entries)


def _file_text(outcome: CallOutcome, file: str) -> str:
    """What a tool read of `file`: in a JSON result, the longest text that is not its path."""
    value = _json_value(outcome)
    if value is None:
        return outcome.text
    return max((text for text in _texts(value) if not text.endswith(file)), key=len, default="")


def _json_value(outcome: CallOutcome) -> dict[str, Any] | list[Any] | None:
    """The result as a JSON object or list; None if it is another text."""
    try:
        value = load_json(outcome.text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() | dict():
            for item in value.values() if isinstance(value, dict) else value:
                yield from _texts(item)


@dataclass(frozen=True)
class _EditingTools:
    """The tools that read and edit, each with the places of its parameters by role."""

    reading: tuple[Tool, Mapping[str, Place]]
    editing: tuple[Tool, Mapping[str, Place]]
    folder: str
    patches: bool

    @classmethod
    def of(cls, request: ModelRequest) -> _EditingTools | None:
        tools = [(tool, _roles(tool)) for tool in request.offered]
        shell = _find_tool(tools, lambda name, has: "command" in has and bool(_SHELLS & name))
        reading = _find_tool(tools, _is_reading) or shell
        editing = (
            _find_tool(tools, lambda name, has: {"path", "old", "new"} <= has)
            or _find_tool(tools, lambda name, has: "patch" in name and "patch" in has)
            or shell
        )
        if reading is None or editing is None:
            return None
        texts = (part.text for message in request.messages for part in message.parts)
        everything = "\n".join((request.system, *texts))
        match = _FOLDER.search(everything)
        folder = match[1].rstrip("/.:") if match else ""
        return cls(reading, editing, folder, "apply_patch" in everything)

    def read(self, file: str) -> ReplyBlock:
        tool, roles = self.reading
        if "path" in roles:
            return _tool_call(tool, [(roles["path"], self.path(tool, roles["path"], file))])
        return _tool_call(tool, [_command(tool, roles, f"cat {shlex.quote(file)}")])

    def edits(self, file: str, change: _Change) -> list[ReplyBlock]:
        """The calls that make the change, one after the other."""
        tool, roles = self.editing
        if "old" in roles:
            return self.replacements(file, change)
        if "patch" in roles and "patch" in words(tool.name):
            return [_tool_call(tool, [(roles["patch"], _patch(file, change))])]
        line = _sed(file, change)
        if self.patches:
            line = f"apply_patch <<'EOF'\n{_patch(file, change)}EOF"
        return [_tool_call(tool, [_command(tool, roles, line)])]

    def replacements(self, file: str, change: _Change) -> list[ReplyBlock]:
        """A tool replaces all occurrences, or the only one, or one line in each of its edits."""
        tool, roles = self.editing
        given: list[tuple[Place, Any]] = [(roles["path"], self.path(tool, roles["path"], file))]
        pairs = [(change.old, change.new)]
        if change.count > 1 and "all" not in roles:
            lines = dict.fromkeys(change.lines)
            pairs = [(line, line.replace(change.old, change.new)) for line in lines]
        elif change.count > 1:
            given.append((roles["all"], True))
        edits = [
            [(_item(roles["old"], number), old), (_item(roles["new"], number), new)]
            for number, (old, new) in enumerate(pairs)
        ]
        if _item(roles["old"], 1) != roles["old"]:  # a list of edits
            return [_tool_call(tool, [*given, *chain(*edits)])]
        return [_tool_call(tool, [*given, *edit]) for edit in edits]

    def path(self, tool: Tool, place: Place, file: str) -> str:
        """`file` in the form that the tool requires: some accept only an absolute path."""
        absolute = "absolute" in str(_schema_at(tool, place).get("description", "")).lower()
        if absolute and self.folder and not file.startswith("/"):
            return f"{self.folder}/{file}"
        return file


def _is_reading(name: set[str], has: Collection[str]) -> bool:
    return "path" in has and bool(_READING & name) and not _OTHER & name


def _find_tool(
    tools: Sequence[tuple[Tool, Mapping[str, Place]]], fits: Any
) -> tuple[Tool, Mapping[str, Place]] | None:
    return next(
        ((tool, roles) for tool, roles in tools if fits(_singular(tool.name), roles.keys())), None
    )


def _singular(name: str) -> set[str]:
    """The words of a name, and those in the plural also in the singular."""
    name_words = set(words(name))
    return name_words | {word.removesuffix("s") for word in name_words}


def _roles(tool: Tool) -> dict[str, Place]:
    """role -> the place of the parameter that has it, recognised by its name. Outer ones come
    first; in lists, it is the first item."""
    roles: dict[str, Place] = {}
    for place, name, kind in sorted(_parameters(tool.parameters, tool, ()), key=_depth):
        name_words = _singular(name)
        if kind == "boolean" and name_words & _ALL:
            roles.setdefault("all", place)
        if kind == "string":
            for role, known in _ROLES:
                if name_words & known and place not in roles.values():
                    roles.setdefault(role, place)
    return roles


def _depth(parameter: tuple[Place, str, str]) -> int:
    return len(parameter[0])


def _parameters(
    schema: Mapping[str, Any], tool: Tool, place: Place
) -> Iterator[tuple[Place, str, str]]:
    """(place, name, type) of the values inside; the items of a list have its name."""
    for name in mapping(schema.get("properties")):
        there: Place = (*place, name)
        inner = _schema_at(tool, there)
        if type_of(inner) == "array":
            there = (*there, 0)
            inner = _schema_at(tool, there)
        kind = type_of(inner)
        if kind == "object" and len(there) <= 2 * _DEEPEST:
            yield from _parameters(inner, tool, there)
        else:
            yield there, name, kind


def _schema_at(tool: Tool, place: Place) -> Mapping[str, Any]:
    schema = resolve_schema(tool.parameters, tool.parameters)
    for step in place:
        inner = schema.get("items") if isinstance(step, int) else None
        if isinstance(step, str):
            inner = mapping(schema.get("properties")).get(step)
        schema = resolve_schema(inner, tool.parameters)
    return schema


def _item(place: Place, number: int) -> Place:
    """`place` with the first item of its list replaced by this one."""
    return tuple(number if isinstance(step, int) else step for step in place)


def _tool_call(tool: Tool, given: Iterable[tuple[Place, Any]]) -> ReplyBlock:
    """A call with these values; further required ones are generated from the schema."""
    arguments: Any = {}
    for place, value in given:
        arguments = _put_value(arguments, place, value)
    return call(tool.name, fit_arguments(tool, arguments))


def _put_value(holder: Any, place: Place, value: Any) -> Any:
    """`holder` with the value at this place, and the objects and lists around it."""
    if not place:
        return value
    step, *inner = place
    if isinstance(step, str):
        return {**(holder or {}), step: _put_value((holder or {}).get(step), tuple(inner), value)}
    items = list(holder or ())
    before = items[step] if step < len(items) else None
    items[step : step + 1] = [_put_value(before, tuple(inner), value)]
    return items


def _command(tool: Tool, roles: Mapping[str, Place], line: str) -> tuple[Place, Any]:
    """A shell takes a line, a list of lines (`commands`), or the words of one (`command`)."""
    place = roles["command"]
    if place[-1] == 0 and not str(place[-2]).endswith("s"):
        return place[:-1], ["bash", "-lc", line]
    return place, line


def _patch(file: str, change: _Change) -> str:
    hunks = "".join(
        f"@@\n-{line}\n+{line.replace(change.old, change.new)}\n" for line in change.lines
    )
    return f"*** Begin Patch\n*** Update File: {file}\n{hunks}*** End Patch\n"


def _sed(file: str, change: _Change) -> str:
    old = re.sub(r"([\\/.*\[\]^$])", r"\\\1", change.old)
    new = re.sub(r"([\\/&])", r"\\\1", change.new)
    return f"sed -i {shlex.quote(f's/{old}/{new}/g')} {shlex.quote(file)}"
