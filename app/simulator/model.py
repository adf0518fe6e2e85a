"""A model of words and patterns: the same request and seed give the same reply, always.

Pure and neutral: it knows no protocol, and the day comes in as an argument. It plans the calls of
the last prompt afresh in every turn and takes away what has been called since: so one call at a
time, or all at once, lead to the same answer.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from random import Random
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest, arguments_object
from app.core.tools import Content, Tool, ToolChoice
from app.protocols.reply import ModelReply, ReplyBlock, call, shortened
from app.simulator.answer import Answered, answered, lead, reasoning, retried, woven
from app.simulator.plan import Background, Wanted, fitting, forced, wanted
from app.simulator.smalltalk import small_talk
from app.simulator.structured import Known, fitted, is_final, written
from app.simulator.structured import answered as told

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
class History:
    """The request as seen from its last prompt: what was asked, called and answered since.

    `made` are the calls since the model last closed its turn, each with the words it was made for.
    """

    prompt: str
    background: Background
    made: tuple[tuple[str, MessagePart], ...]
    results: tuple[Answered, ...]


def reply(request: ModelRequest, *, seed: int, today: date) -> ModelReply:
    """The turn that follows `request`.

    Of `request.params` it reads `max_tokens` (the reply is cut there), `thinking` (a true value
    asks for a thinking block) and `format` (the form of an answer: see `structured.written`).
    """
    history = history_of(request.messages)
    said = f"{seed}\n{len(request.messages)}\n{history.prompt}"
    seeded = said.encode("utf-8", "surrogatepass")  # a prompt may hold half a character
    known = _known(history, request, Random(seeded), today)
    calls = _calls(request.tools, request.choice, history, known)
    failed = [] if calls else retried(history.results)
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
        blocks += [call(one.tool.name, fitted(one.tool, one.arguments)) for one in calls]
        return shortened(ModelReply(tuple(blocks), "calls"), request.params.get("max_tokens"))
    blocks.append(ReplyBlock("text", known.prose if form is None else written(form, known)))
    return shortened(ModelReply(tuple(blocks)), request.params.get("max_tokens"))


def _known(history: History, request: ModelRequest, chance: Random, today: date) -> Known:
    if history.results:
        prose = woven(history.results, chance)
    else:
        prose = small_talk(history.prompt, request.tools, chance)
    texts = history.background.texts
    said = (
        request.system,
        *(_text(message, _SAID) for message in request.messages if message.role == "user"),
    )
    return Known(history.prompt, (history.prompt, *texts), history.results, prose, today, said)


def _calls(
    tools: Sequence[Tool], choice: ToolChoice, history: History, known: Known
) -> list[Wanted]:
    """The calls to make now: those wanted and not made yet; at least one where it is forced."""
    offered = _offered(tools, choice)
    if not offered:
        return []
    final = [tool for tool in offered if is_final(tool)]
    working = [tool for tool in offered if tool not in final]
    prompt, background, today = history.prompt, history.background, known.today
    asked = prompt.strip() and working
    planned = wanted(prompt, working, background, today) if asked else []
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
    history: History,
    known: Known,
) -> list[Wanted]:
    """A call where nothing is left that the prompt asks for: of a fitting tool that was not called
    yet, then of the tool that ends the run, then of any. Without force only the run is ended.
    """
    prompt, background = history.prompt, history.background
    called = {part.name for _, part in history.made}
    new = [tool for tool in working if tool.name not in called]
    if choice.forced and (fit := fitting(prompt, new)):
        return [_concluding(forced(prompt, fit, background, known.today).tool, known, history)]
    if final and (choice.forced or final[0].name not in called or _failed(final[0], history)):
        best = final if len(final) == 1 else [forced(prompt, final, background, known.today).tool]
        return [_concluding(best[0], known, history)]
    return [forced(prompt, new or working, background, known.today)] if choice.forced else []


def _failed(tool: Tool, history: History) -> bool:
    """Whether the last call of `tool` came to nothing, so that it is to be made again."""
    last = [answered for answered in history.results if answered.name == tool.name]
    return bool(last) and last[-1].result.is_error


def _concluding(tool: Tool, known: Known, history: History) -> Wanted:
    """A call that tells what is known; without results it is one like any other."""
    if not any(answered.name != tool.name for answered in history.results):
        call = forced(history.prompt, [tool], history.background, known.today)
        if not is_final(tool):
            return call
    value = told(tool.parameters, known, tool.name)
    return Wanted(tool, value if isinstance(value, dict) else {})


def _once_more(
    failed: Sequence[Answered], offered: Sequence[Tool], choice: ToolChoice
) -> list[Wanted]:
    """The same calls again, where their tools are on offer still."""
    tools = {tool.name: tool for tool in offered}
    calls = [
        Wanted(tools[answered.name], answered.arguments)
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
    planned: Sequence[Wanted], prompt: str, made: Sequence[tuple[str, MessagePart]]
) -> list[Wanted]:
    """`planned` less one for each call made: the equal one, or (where it was made for the same
    words, and a person changed the arguments) the first of the same tool.
    """
    left = list(planned)
    for words, part in made:
        same = [one for one in left if one.tool.name == part.name]
        given = arguments_object(part.text)
        equal = [one for one in same if given in (one.arguments, fitted(one.tool, one.arguments))]
        for one in (equal or (same if words == prompt else []))[:1]:
            left.remove(one)
    return left


def history_of(messages: Sequence[Message]) -> History:
    """What there is to answer, by the words of a person alone."""
    messages = [one for one in map(_spoken, _read(messages)) if one.parts]
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    last = asked[-1] if asked else -1
    since, turn = messages[last + 1 :], messages[_turn(messages) :]
    # Words that came along with the results: these are still what there is to talk about.
    beside = not since and last > 0 and messages[last - 1].role == "results"
    results = _results(turn if beside else since)
    prompts = [_text(messages[place]) for place in reversed(asked)]
    earlier = [part for message in messages[: last + 1] for part in _parts(message, "call")]
    called: Mapping[str, Any] | None = arguments_object(earlier[-1].text) if earlier else None
    return History(
        prompt=prompts[0] if prompts else "",
        background=Background(tuple(prompts[1:4]), earlier[-1].name if earlier else "", called),
        made=tuple(_made(turn)),
        results=results,
    )


def _read(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages, with calls and results that a client put into words (as smolagents does) for
    what they are."""
    waiting: list[MessagePart] = []
    for place, message in enumerate(messages):
        text = _text(message)
        if message.role == "assistant" and (found := _CALLING.match(text)):
            waiting = _told_calls(found[1], place)
            yield replace(message, parts=(*message.parts, *waiting))
        elif message.role == "user" and waiting and (found := _OBSERVED.match(text)):
            yield Message("results", tuple(_observed(waiting, found[2], found[1] == "Error")))
            waiting = []
        else:
            yield message


def _told_calls(text: str, place: int) -> list[MessagePart]:
    """Calls as Python writes them; none where it is no such list."""
    try:
        called = [one["function"] for one in ast.literal_eval(text)]
        return [
            MessagePart("call", json.dumps(one["arguments"]), str(one["name"]), f"{place}.{number}")
            for number, one in enumerate(called)
        ]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        return []


def _observed(calls: Sequence[MessagePart], text: str, failed: bool) -> Iterator[MessagePart]:
    """A line for each call, where there are as many; else the first has it all."""
    lines = text.strip().split("\n")
    said = lines if len(lines) == len(calls) else [text.strip(), *[""] * (len(calls) - 1)]
    for call_, one in zip(calls, said, strict=True):
        content = (Content(text=one),)
        yield MessagePart("result", "", call_.name, call_.call_id, content, is_error=failed)


def _spoken(message: Message) -> Message:
    """`message` without what a client, and no person, put among the words of its user."""
    if message.role != "user":
        return message
    told = [replace(part, text=_NOTE.sub("", part.text)) for part in message.parts]
    return replace(
        message, parts=tuple(part for part in told if part.kind != "text" or part.text.strip())
    )


def _turn(messages: Sequence[Message]) -> int:
    """Where the turn begins that is still open: after the last answer without a call."""
    places = range(len(messages) - 1, -1, -1)
    closed = (n for n in places if messages[n].role == "assistant")
    return next((n + 1 for n in closed if not _parts(messages[n], "call")), 0)


def _made(turn: Sequence[Message]) -> Iterator[tuple[str, MessagePart]]:
    """The calls of a turn, each with the prompt it was made for."""
    words = ""
    for message in turn:
        if message.role == "user":
            words = _text(message)
        for part in _parts(message, "call"):
            yield words, part


def _results(messages: Sequence[Message]) -> tuple[Answered, ...]:
    calls = {part.call_id: part for message in messages for part in _parts(message, "call")}
    found = (part for message in messages for part in _parts(message, "result"))
    return tuple(answered(calls[part.call_id], part) for part in found if part.call_id in calls)


def _parts(message: Message, kind: str) -> list[MessagePart]:
    return [part for part in message.parts if part.kind == kind]


def _text(message: Message, most: int = _READ) -> str:
    return "\n".join(part.text for part in _parts(message, "text"))[:most]
