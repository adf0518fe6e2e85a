"""A model of words and patterns: the same request and seed give the same reply, always.

Pure and neutral: it knows no protocol, and the day comes in as an argument. It plans the calls of
the last prompt afresh in every turn and takes away what has been called since: so one call at a
time, or all at once, lead to the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from random import Random
from typing import Any

from app.core.messages import Message, MessagePart, ModelRequest, arguments_object
from app.core.tools import Tool, ToolChoice
from app.simulator.answer import Answered, answered, lead, reasoning, retried, woven
from app.simulator.plan import Background, Wanted, forced, wanted
from app.simulator.reply import Block, Reply, call, shortened
from app.simulator.smalltalk import small_talk

_READ = 2_000
"""Characters of a prompt that are read; patterns over more would take their time."""


@dataclass(frozen=True)
class _History:
    """The request as seen from its last prompt: what was asked, called and answered since."""

    prompt: str
    background: Background
    made: tuple[MessagePart, ...]
    results: tuple[Answered, ...]


def reply(request: ModelRequest, *, seed: int, today: date) -> Reply:
    """The turn that follows `request`.

    Of `request.params` it reads `max_tokens` (the reply is cut there) and `thinking` (a true value
    asks for a thinking block).
    """
    history = _history(request.messages)
    said = f"{seed}\n{len(request.messages)}\n{history.prompt}"
    chance = Random(said.encode("utf-8", "surrogatepass"))  # a prompt may hold half a character
    calls = _calls(request.tools, request.choice, history, today)
    failed = [] if calls else retried(history.results)
    calls = calls or _once_more(failed, _offered(request.tools, request.choice), request.choice)
    blocks: list[Block] = []
    if request.params.get("thinking"):
        blocks.append(Block("thinking", reasoning(history.prompt, calls, history.results)))
    if calls:
        said = lead(calls, chance, again=bool(history.made), failed=failed)
        blocks.append(Block("text", said))
        blocks += [call(one.tool.name, one.arguments) for one in calls]
        return shortened(Reply(tuple(blocks), "calls"), request.params.get("max_tokens"))
    if history.results:
        text = woven(history.results, chance)
    else:
        text = small_talk(history.prompt, request.tools, chance)
    blocks.append(Block("text", text))
    return shortened(Reply(tuple(blocks)), request.params.get("max_tokens"))


def _calls(
    tools: Sequence[Tool], choice: ToolChoice, history: _History, today: date
) -> list[Wanted]:
    """The calls to make now: those wanted and not made yet; at least one where it is forced."""
    offered = _offered(tools, choice)
    if not offered:
        return []
    prompt, background = history.prompt, history.background
    planned = wanted(prompt, offered, background, today) if prompt.strip() else []
    pending = _without(planned, history.made)
    if not pending and choice.forced:
        pending = [forced(prompt, offered, background, today)]
    return pending if choice.parallel else pending[:1]


def _once_more(
    failed: Sequence[Answered], offered: Sequence[Tool], choice: ToolChoice
) -> list[Wanted]:
    """The same calls again, where their tools are on offer still."""
    tools = {tool.name: tool for tool in offered}
    calls = [Wanted(tools[one.name], one.arguments) for one in failed if one.name in tools]
    return calls if choice.parallel else calls[:1]


def _offered(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    match choice.mode:
        case "none":
            return []
        case "tool":
            return [tool for tool in tools if tool.name == choice.name]
        case _:
            return [t for t in tools if choice.allowed is None or t.name in choice.allowed]


def _without(planned: Sequence[Wanted], made: Sequence[MessagePart]) -> list[Wanted]:
    """`planned` less one for each call made: the equal one, or (where a person changed the
    arguments) the first of the same tool.
    """
    left = list(planned)
    for part in made:
        same = [one for one in left if one.tool.name == part.name]
        equal = [one for one in same if one.arguments == arguments_object(part.text)]
        for one in (equal or same)[:1]:
            left.remove(one)
    return left


def _history(messages: Sequence[Message]) -> _History:
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    last = asked[-1] if asked else -1
    since = messages[last + 1 :]
    if not since and last > 0 and messages[last - 1].role == "results":
        # Words that came along with the results: these are still what there is to talk about.
        results = _results(messages[max(0, last - 2) : last])
    else:
        results = _results(since)
    prompts = [_text(messages[place]) for place in reversed(asked)]
    earlier = [part for message in messages[: last + 1] for part in _parts(message, "call")]
    called: Mapping[str, Any] | None = arguments_object(earlier[-1].text) if earlier else None
    return _History(
        prompt=prompts[0] if prompts else "",
        background=Background(tuple(prompts[1:4]), earlier[-1].name if earlier else "", called),
        made=tuple(part for message in since for part in _parts(message, "call")),
        results=results,
    )


def _results(messages: Sequence[Message]) -> tuple[Answered, ...]:
    calls = {part.call_id: part for message in messages for part in _parts(message, "call")}
    found = (part for message in messages for part in _parts(message, "result"))
    return tuple(answered(calls[part.call_id], part) for part in found if part.call_id in calls)


def _parts(message: Message, kind: str) -> list[MessagePart]:
    return [part for part in message.parts if part.kind == kind]


def _text(message: Message) -> str:
    return "\n".join(part.text for part in _parts(message, "text"))[:_READ]
