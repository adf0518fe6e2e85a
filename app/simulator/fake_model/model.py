"""A model of words and patterns: the same request and seed give the same reply, always.

Pure and neutral: it knows no protocol, and the day comes in as an argument. It plans the calls of
the last prompt afresh in every turn and takes away what has been called since: so one call at a
time, or all at once, lead to the same answer.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from random import Random
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest, arguments_object
from app.core.tools import Content, Tool, ToolChoice
from app.protocols.server import ModelReply, ReplyBlock, call, shorten, words_of
from app.schema.satisfy import satisfying
from app.schema.schema_checks import Place
from app.simulator.fake_model.answers import (
    CallOutcome,
    answered_call,
    combine_results,
    lead,
    reasoning,
    small_talk,
    to_retry,
)
from app.simulator.fake_model.arguments import fill
from app.simulator.fake_model.plan import (
    Background,
    PlannedCall,
    fitting_tools,
    forced_call,
    planned_calls,
)
from app.simulator.fake_model.words import stem, words

_NOTE = re.compile(
    r"<(system-reminder|session_context|environment_context|user_instructions)>.*?</\1>\s*", re.S
)
"""What coding agents put beside a person's words."""
_CALLING = re.compile(r"\s*Calling tools:\s*(\[.*\])\s*$", re.S)
_OBSERVED = re.compile(r"\s*(?:Call id: \S+\s+)?(Observation|Error):\s*(.*)$", re.S)
_READ = 2_000
"""Characters of a prompt that are read; patterns over more would take their time."""
_SAID = 100_000
"""Characters of a prompt that are looked through for a schema."""


@dataclass(frozen=True)
class PromptHistory:
    """The request as seen from its last prompt: what was asked, called and answered since.

    `made` are the calls since the model last closed its turn, each with the words it was made for.
    """

    prompt: str
    background: Background
    made: tuple[tuple[str, MessagePart], ...]
    results: tuple[CallOutcome, ...]


def reply(request: ModelRequest, *, seed: int, today: date) -> ModelReply:
    """The turn that follows `request`.

    Of `request.params` it reads `max_tokens` (the reply is cut there), `thinking` (a true value
    asks for a thinking block) and `format` (the form of an answer: structured output).
    """
    history = history_of(request.messages)
    said = f"{seed}\n{len(request.messages)}\n{history.prompt}"
    seeded = said.encode("utf-8", "surrogatepass")  # a prompt may hold half a character
    known = _known(history, request, Random(seeded), today)
    calls = _calls(request.tools, request.choice, history, known)
    failed = [] if calls else to_retry(history.results)
    calls = calls or _once_more(failed, _offered(request.tools, request.choice), request.choice)
    form = request.params.get("format")
    blocks: list[ReplyBlock] = []
    if request.params.get("thinking"):
        blocks.append(ReplyBlock("thinking", reasoning(history.prompt, calls, history.results)))
    if calls:
        # Who must call says nothing before it, and words in front of JSON are none.
        if not request.choice.forced and form is None:
            said = lead(calls, Random(seeded), again=bool(history.made), failed=failed)
            blocks.append(ReplyBlock("text", said))
        blocks += [
            call(planned.tool.name, fitted(planned.tool, planned.arguments)) for planned in calls
        ]
        return shorten(ModelReply(tuple(blocks), "calls"), request.params.get("max_tokens"))
    blocks.append(
        ReplyBlock("text", known.prose if form is None else structured_answer(form, known))
    )
    return shorten(ModelReply(tuple(blocks)), request.params.get("max_tokens"))


def _known(
    history: PromptHistory, request: ModelRequest, chance: Random, today: date
) -> KnownFacts:
    if history.results:
        prose = combine_results(history.results, chance)
    else:
        prose = small_talk(history.prompt, request.tools, chance)
    texts = history.background.texts
    said = (
        request.system,
        *(_text(message, _SAID) for message in request.messages if message.role == "user"),
    )
    return KnownFacts(history.prompt, (history.prompt, *texts), history.results, prose, today, said)


def _calls(
    tools: Sequence[Tool], choice: ToolChoice, history: PromptHistory, known: KnownFacts
) -> list[PlannedCall]:
    """The calls to make now: those wanted and not made yet; at least one where it is forced."""
    offered = _offered(tools, choice)
    if not offered:
        return []
    final = [tool for tool in offered if is_final(tool)]
    working = [tool for tool in offered if tool not in final]
    prompt, background, today = history.prompt, history.background, known.today
    asked = prompt.strip() and working
    planned = planned_calls(prompt, working, background, today) if asked else []
    pending = _without(planned, prompt, history.made)
    if not pending and choice.mode == "tool":
        pending = [_concluding(offered[0], known, history)]
    elif not pending and (final or choice.forced):
        pending = _further(working, final, choice, history, known)
    return pending if choice.parallel else pending[:1]


def _further(
    working: Sequence[Tool],
    final: Sequence[Tool],
    choice: ToolChoice,
    history: PromptHistory,
    known: KnownFacts,
) -> list[PlannedCall]:
    """A call where nothing is left that the prompt asks for: of a fitting tool that was not called
    yet, then of the tool that ends the run, then of any. Without force only the run is ended.
    """
    prompt, background = history.prompt, history.background
    called = {part.name for _, part in history.made}
    new = [tool for tool in working if tool.name not in called]
    if choice.forced and (fit := fitting_tools(prompt, new)):
        return [_concluding(forced_call(prompt, fit, background, known.today).tool, known, history)]
    if final and (choice.forced or final[0].name not in called or _failed(final[0], history)):
        best = (
            final if len(final) == 1 else [forced_call(prompt, final, background, known.today).tool]
        )
        return [_concluding(best[0], known, history)]
    return [forced_call(prompt, new or working, background, known.today)] if choice.forced else []


def _failed(tool: Tool, history: PromptHistory) -> bool:
    """Whether the last call of `tool` came to nothing, so that it is to be made again."""
    last = [answered for answered in history.results if answered.name == tool.name]
    return bool(last) and last[-1].result.is_error


def _concluding(tool: Tool, known: KnownFacts, history: PromptHistory) -> PlannedCall:
    """A call that tells what is known; without results it is one like any other."""
    if not any(answered.name != tool.name for answered in history.results):
        call = forced_call(history.prompt, [tool], history.background, known.today)
        if not is_final(tool):
            return call
    value = structured_value(tool.parameters, known, tool.name)
    return PlannedCall(tool, value if isinstance(value, dict) else {})


def _once_more(
    failed: Sequence[CallOutcome], offered: Sequence[Tool], choice: ToolChoice
) -> list[PlannedCall]:
    """The same calls again, where their tools are on offer still."""
    tools = {tool.name: tool for tool in offered}
    calls = [
        PlannedCall(tools[answered.name], answered.arguments)
        for answered in failed
        if answered.name in tools
    ]
    return calls if choice.parallel else calls[:1]


def _offered(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    match choice.mode:
        case "none":
            return []
        case "tool":
            return [tool for tool in tools if tool.name == choice.name]
        case _:
            return [t for t in tools if choice.allowed is None or t.name in choice.allowed]


def _without(
    planned: Sequence[PlannedCall], prompt: str, made: Sequence[tuple[str, MessagePart]]
) -> list[PlannedCall]:
    """`planned` less one for each call made: the equal one, or (where it was made for the same
    words, and a person changed the arguments) the first of the same tool.
    """
    left = list(planned)
    for prompted, part in made:
        same = [planned_call for planned_call in left if planned_call.tool.name == part.name]
        given = arguments_object(part.text)
        equal = [
            planned_call
            for planned_call in same
            if given in (planned_call.arguments, fitted(planned_call.tool, planned_call.arguments))
        ]
        for planned_call in (equal or (same if prompted == prompt else []))[:1]:
            left.remove(planned_call)
    return left


def history_of(messages: Sequence[Message]) -> PromptHistory:
    """What there is to answer, by the words of a person alone."""
    messages = [message for message in map(_spoken, _read(messages)) if message.parts]
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    last = asked[-1] if asked else -1
    since, turn = messages[last + 1 :], messages[_turn(messages) :]
    # Words that came along with the results: these are still what there is to talk about.
    beside = not since and last > 0 and messages[last - 1].role == "results"
    results = _results(turn if beside else since)
    prompts = [_text(messages[place]) for place in reversed(asked)]
    earlier = [part for message in messages[: last + 1] for part in _parts(message, "call")]
    called: Mapping[str, Any] | None = arguments_object(earlier[-1].text) if earlier else None
    return PromptHistory(
        prompt=prompts[0] if prompts else "",
        background=Background(tuple(prompts[1:4]), earlier[-1].name if earlier else "", called),
        made=tuple(_calls_of_turn(turn)),
        results=results,
    )


def _read(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, with calls and results that a client put into words (as smolagents does) for
    what they are."""
    waiting: list[MessagePart] = []
    for place, message in enumerate(messages):
        text = _text(message)
        if message.role == "assistant" and (found := _CALLING.match(text)):
            waiting = _parse_calls(found[1], place)
            yield replace(message, parts=(*message.parts, *waiting))
        elif message.role == "user" and waiting and (found := _OBSERVED.match(text)):
            yield Message("results", tuple(_observed(waiting, found[2], found[1] == "Error")))
            waiting = []
        else:
            yield message


def _parse_calls(text: str, place: int) -> list[MessagePart]:
    """Calls as Python writes them; none where it is no such list."""
    try:
        called = [entry["function"] for entry in ast.literal_eval(text)]
        return [
            MessagePart(
                "call",
                json.dumps(function["arguments"]),
                str(function["name"]),
                f"{place}.{number}",
            )
            for number, function in enumerate(called)
        ]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return []


def _observed(calls: Sequence[MessagePart], text: str, failed: bool) -> Iterator[MessagePart]:
    """A line for each call, where there are as many; else the first has it all."""
    lines = text.strip().split("\n")
    said = lines if len(lines) == len(calls) else [text.strip(), *[""] * (len(calls) - 1)]
    for call_, line in zip(calls, said, strict=True):
        content = (Content(text=line),)
        yield MessagePart("result", "", call_.name, call_.call_id, content, is_error=failed)


def _spoken(message: Message) -> Message:
    """`message` without what a client, and no person, put among the words of its user."""
    if message.role != "user":
        return message
    structured_value = [replace(part, text=_NOTE.sub("", part.text)) for part in message.parts]
    return replace(
        message,
        parts=tuple(part for part in structured_value if part.kind != "text" or part.text.strip()),
    )


def _turn(messages: Sequence[Message]) -> int:
    """Where the turn begins that is still open: after the last answer without a call."""
    places = range(len(messages) - 1, -1, -1)
    closed = (n for n in places if messages[n].role == "assistant")
    return next((n + 1 for n in closed if not _parts(messages[n], "call")), 0)


def _calls_of_turn(turn: Sequence[Message]) -> Iterator[tuple[str, MessagePart]]:
    """The calls of a turn, each with the prompt it was made for."""
    words = ""
    for message in turn:
        if message.role == "user":
            words = _text(message)
        for part in _parts(message, "call"):
            yield words, part


def _results(messages: Sequence[Message]) -> tuple[CallOutcome, ...]:
    calls = {part.call_id: part for message in messages for part in _parts(message, "call")}
    found = (part for message in messages for part in _parts(message, "result"))
    return tuple(
        answered_call(calls[part.call_id], part) for part in found if part.call_id in calls
    )


def _parts(message: Message, kind: str) -> list[MessagePart]:
    return [part for part in message.parts if part.kind == kind]


def _text(message: Message, most: int = _READ) -> str:
    return "\n".join(part.text for part in _parts(message, "text"))[:most]


# -- answers in a form: JSON for a schema, the arguments of the tool that ends a run

_FINAL = re.compile(
    r"final[_-]?(?:answer|result|output|response|action)\w*|(?:submit|give|return)_?"
    r"(?:final_?)?(?:answer|result|output|response)|attempt_completion|complete_task|task_complete|"
    r"structured_?output|finish|done|respond(?:_to_user)?",
    re.I,
)
_PROSE = words_of(
    """answer response reply message text summary explanation reason reasoning rationale content
    output result conclusion report thought thoughts analysis"""
)
_MOST = 200


@dataclass(frozen=True)
class KnownFacts:
    """What there is to say: the prompt, the results, and an answer in words. `said` are the texts
    in which a client may have written the schema it wants."""

    prompt: str
    background: Sequence[str]
    results: Sequence[CallOutcome]
    prose: str
    today: date
    said: Sequence[str] = ()


def is_final(tool: Tool) -> bool:
    """Whether a call of `tool` is how this client is given the last answer."""
    return _FINAL.fullmatch(tool.name) is not None


def structured_answer(form: Mapping[str, Any], known: KnownFacts) -> str:
    """The answer in the form that was asked for: of the schema, or any JSON object where none."""
    schema = form.get("schema")
    if schema is None:
        schema = next((schema for text in reversed(known.said) for schema in _schemas(text)), None)
    if schema is None:
        found = [value for value in _values(known) if isinstance(value, Mapping)]
        return _json(found[0] if len(found) == 1 else {"answer": known.prose})
    value = structured_value(schema, known)
    return str(value) if form.get("bare") and isinstance(value, str) else _json(value)


def _schemas(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON Schemas of objects that stand in `text`."""
    reader, place = json.JSONDecoder(), text.find("{")
    for _ in range(_MOST):
        if place < 0:
            return
        try:
            value, end = reader.raw_decode(text, place)
        except (ValueError, RecursionError):
            value, end = None, place + 1
        if isinstance(value, dict) and isinstance(value.get("properties"), dict):
            yield value
        place = text.find("{", end)


def structured_value(schema: Mapping[str, Any], known: KnownFacts, name: str = "") -> Any:
    """A value for `schema` that says what is known."""
    return satisfying(schema, _Wishes(schema, known, name).of)


def fitted(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """`arguments` as they are where they satisfy the tool's schema, else as near as may be."""

    def wish(place: Place, schema: Mapping[str, Any]) -> Iterator[Any]:
        found = _at(arguments, place)
        if found is not None:
            yield found

    value = satisfying(tool.parameters, wish, sparse=True)
    return value if isinstance(value, dict) else arguments


class _Wishes:
    def __init__(self, schema: Mapping[str, Any], known: KnownFacts, name: str) -> None:
        self.known, self.values = known, _values(known)
        named = name or str(schema.get("title", ""))
        tool = Tool(named, str(schema.get("description", "")), schema)
        self.draft: Any = None
        if isinstance(schema.get("properties"), Mapping):
            self.draft = fill(tool, known.prompt, known.background, known.today).arguments

    def of(self, place: Place, schema: Mapping[str, Any]) -> Iterable[Any]:
        """Of results by their names, the words for what is prose, then of the prompt."""
        index = next((step for step in reversed(place) if isinstance(step, int)), None)
        name = str(place[-1]) if place and isinstance(place[-1], str) else ""
        if name:
            yield from self.named(name, index)
            if set(words(name)) & _PROSE:
                yield self.known.prose
        if len(self.values) > 1 and "items" in schema:
            yield self.values
        drafted = _at(self.draft, place) if place else None
        # Where there are results, a whole made of the prompt alone would stand before them.
        if drafted is not None and not (self.values and isinstance(drafted, Mapping | list)):
            yield drafted

    def named(self, name: str, index: int | None) -> Iterator[Any]:
        """What the results call by this name; in a list, each item has a result of its own."""
        values = self.values
        if index is not None and index < len(values):
            values = [values[index], *values]
        said = [stem(word) for word in words(name)]
        for exact in (True, False):
            for value in values[:_MOST]:
                for key, inner in _members(value):
                    other = [stem(word) for word in words(key)]
                    if said == other if exact else other and set(other) <= set(said):
                        yield inner


def _values(known: KnownFacts) -> list[Any]:
    """What each call came to, with what it was asked: of a result that is text, the text."""
    found: list[Any] = []
    for answered in known.results:
        if answered.result.is_error:
            continue
        try:
            value = json.loads(answered.text)
        except (ValueError, RecursionError):
            value = answered.text
        found.append(
            {**answered.arguments, **(value if isinstance(value, dict) else {"result": value})}
        )
    return found


def _members(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(name, value) of all members, those inside after those outside."""
    if depth > 3 or not isinstance(value, Mapping):
        return
    yield from value.items()
    for inner in value.values():
        yield from _members(inner, depth + 1)


def _at(value: Any, place: Place) -> Any:
    for step in place:
        match value:
            case Mapping() if step in value:
                value = value[step]
            case list() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _:
                return None
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
