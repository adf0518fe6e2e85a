"""A pattern-matching model: the same request always gives the same reply.

Pure and independent of protocols. In every turn it plans the calls of the last prompt again and
removes those made since: so one call at a time, or all at once, lead to the same answer. Results
are checked for their format, and instructions in them are not followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from playground.core.json_values import load_json, load_json_at
from playground.core.messages import MessagePart, ModelRequest, arguments_object
from playground.core.tools import Tool, ToolChoice
from playground.protocols import words_of
from playground.protocols.server import ModelReply, ReplyBlock, call, shorten
from playground.schema.satisfy import sample_value
from playground.schema.schema_checks import Place
from playground.simulator.history import CallOutcome, PromptHistory, history_of, text_of
from playground.simulator.plan import (
    PlannedCall,
    fill,
    fitting_tools,
    forced_call,
    planned_calls,
    stem,
    value_at,
    words,
)

_SAID = 100_000
"""Characters of a prompt that are searched for a schema."""

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

_MOST_QUOTED = 600
_MOST_TEXT = 200_000

_LARGE = 20_000
"""The length in characters from which a result is called very large."""

_PARAGRAPH_OF_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:instructions?|rules?|prompt)\b"
    r"|\bdo not (?:tell|inform|mention)\b[^.\n]{0,40}\b(?:person|user|human|anyone)\b"
    r"|\b(?:reveal|answer with|print)\b[^.\n]{0,30}\bsystem prompt\b",
    re.I,
)
_PASSING = re.compile(
    r"\btime[ds]?[- ]?out\b|\btook too long\b|\bafter [\d.]+ s, its limit\b|\btry again\b"
    r"|\btemporar|\bunavailable\b|\b50[0234]\b|\binternal error\b|\bconnection was lost\b"
    r"|\bdid not answer\b",
    re.I,
)
_FORBIDDEN = re.compile(r"\b(?:denied|not allow|declined|refused|permission)", re.I)
_DEGREES = {"celsius": " °C", "fahrenheit": " °F"}
_UNITS = {"percent": " %", "kmh": " km/h", "mph": " mph", "kg": " kg", "km": " km", "mm": " mm"}
_PLAIN = ("result", "value", "answer", "text", "message", "content", "output")
_ECHOED = ("status", "ok", "success", "id", "type", "object")
WHO = (
    "I am the built-in simulator of this playground: a small program that speaks the provider's "
    "wire protocol, so that you can try tools without a key."
)
_SMALL_TALK = (
    (
        r"\b(?:who|what) (?:are|can) you\b|\byour name\b|^\W*help\b|\bwhat model\b",
        f"{WHO} I pick tools by your words and fill in arguments. For trouble, put a fault in the "
        "prompt, such as [[fault:error-mid]].",
    ),
    (r"\b(?:thanks|thank you|bye|goodbye)\b", "You are welcome!"),
    (r"\b(?:hi|hello|hey|good (?:morning|afternoon|evening))\b", "Hello! What shall we try?"),
)


def reply(request: ModelRequest) -> ModelReply:
    """The turn that follows `request`.

    Of `request.params` it uses `max_tokens` (cuts the reply), `thinking` (a true value requests a
    thinking block) and `format` (structured output).
    """
    history = history_of(request.messages)
    known = _gather_facts(history, request)
    offered = _allowed_tools(request.tools, request.choice)
    calls = _calls(offered, request.choice, history, known) if offered else []
    tools = {tool.name: tool for tool in offered if not calls}
    failed = [outcome for outcome in retryable_calls(history.results) if outcome.name in tools]
    failed = failed if request.choice.parallel else failed[:1]
    calls = calls or [PlannedCall(tools[again.name], again.arguments) for again in failed]
    form = request.params.get("format")
    blocks: list[ReplyBlock] = []
    if request.params.get("thinking"):
        blocks.append(ReplyBlock("thinking", reasoning(history.prompt, calls, history.results)))
    # A forced call has no text before it, and text before JSON would be invalid.
    if calls and not request.choice.forced and form is None:
        blocks.append(
            ReplyBlock("text", intro_sentence(calls, again=bool(history.calls_made), failed=failed))
        )
    blocks += [call(planned.tool.name, planned.arguments) for planned in calls]
    if not calls:
        blocks.append(ReplyBlock("text", _answer(known, form)))
    reply = ModelReply(tuple(blocks), "calls" if calls else "stop")
    return shorten(reply, request.params.get("max_tokens"))


def conclusion(request: ModelRequest, prose: str) -> ModelReply:
    """The turn that ends a run with these words: as the arguments of the tool that ends one, which
    was not called yet, or in the requested format, if any."""
    history = history_of(request.messages)
    known = replace(_gather_facts(history, request), prose=prose)
    called = {part.name for _, part in history.calls_made}
    offered = _allowed_tools(request.tools, request.choice)
    final = [tool for tool in offered if is_final(tool) and tool.name not in called]
    if final:
        planned = _concluding_call(final[0], known, history)
        return ModelReply((call(planned.tool.name, planned.arguments),), "calls")
    return ModelReply((ReplyBlock("text", _answer(known, request.params.get("format"))),))


def _answer(known: KnownFacts, form: Mapping[str, Any] | None) -> str:
    return known.prose if form is None else structured_answer(form, known)


def _gather_facts(history: PromptHistory, request: ModelRequest) -> KnownFacts:
    users = (text_of(message, _SAID) for message in request.messages if message.role == "user")
    if history.results:
        prose = combine_results(history.results)
    else:
        prose = small_talk(history.prompt, request.tools)
    return KnownFacts(history.prompt, history.results, prose, (request.system, *users))


def _calls(
    offered: Sequence[Tool], choice: ToolChoice, history: PromptHistory, known: KnownFacts
) -> list[PlannedCall]:
    """The calls to make now: those planned and not made yet; at least one if it is forced."""
    prompt = history.prompt
    final = [tool for tool in offered if is_final(tool)]
    working = [tool for tool in offered if tool not in final]
    planned = planned_calls(prompt, working, history.last) if prompt.strip() and working else []
    pending = _remaining_calls(planned, working, prompt, history.calls_made)
    if not pending and choice.mode == "tool":
        pending = [_concluding_call(offered[0], known, history)]
    elif not pending and (final or choice.forced):
        pending = _further_call(working, final, choice, history, known)
    return pending if choice.parallel else pending[:1]


def _further_call(
    working: Sequence[Tool],
    final: Sequence[Tool],
    choice: ToolChoice,
    history: PromptHistory,
    known: KnownFacts,
) -> list[PlannedCall]:
    """A call when none from the prompt is left: of a matching tool that was not called yet, then of
    the tool that ends the run, then of any. Unless forced, only the run is ended."""
    prompt = history.prompt
    called = {part.name for _, part in history.calls_made}
    new = [tool for tool in working if tool.name not in called]
    if choice.forced and (fit := fitting_tools(prompt, new)):
        return [_concluding_call(forced_call(prompt, fit).tool, known, history)]
    failed = {outcome.name: outcome.failed for outcome in history.results}  # the last result counts
    if final and (choice.forced or final[0].name not in called or failed.get(final[0].name)):
        return [_concluding_call(forced_call(prompt, final).tool, known, history)]
    return [forced_call(prompt, new or working)] if choice.forced else []


def _concluding_call(tool: Tool, known: KnownFacts, history: PromptHistory) -> PlannedCall:
    """A call whose arguments contain the known facts; without results it is like any other."""
    if not is_final(tool) and not any(outcome.name != tool.name for outcome in history.results):
        return forced_call(history.prompt, [tool])
    value = structured_value(tool.parameters, known, tool.name)
    return PlannedCall(tool, value if isinstance(value, dict) else {})


def _allowed_tools(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    match choice.mode:
        case "none":
            return []
        case "tool":
            return [tool for tool in tools if tool.name == choice.name]
        case _:
            return [t for t in tools if choice.allowed is None or t.name in choice.allowed]


def _remaining_calls(
    planned: Sequence[PlannedCall],
    tools: Sequence[Tool],
    prompt: str,
    calls_made: Sequence[tuple[str, MessagePart]],
) -> list[PlannedCall]:
    """`planned` without one for each call made: the equal one, or (if it was made for the same
    text, and a user changed the arguments) the first of the same tool. Of a name that is none of
    the `tools`, as some clients keep calls, it is the first with these arguments, or of all."""
    left, names = list(planned), {tool.name for tool in tools}
    for prompted, part in calls_made:
        same = [call for call in left if call.tool.name == part.name or part.name not in names]
        equal = [call for call in same if call.arguments == arguments_object(part.text)]
        for gone in (equal or (same if prompted == prompt else []))[:1]:
            left.remove(gone)
    return left


# -- structured answers: JSON for a schema, the arguments of the tool that ends a run


@dataclass(frozen=True)
class KnownFacts:
    """The facts for an answer: the prompt, the results, and an answer in words. `texts` are those
    in which a client may have written the requested schema."""

    prompt: str
    results: Sequence[CallOutcome]
    prose: str
    texts: Sequence[str] = ()


def is_final(tool: Tool) -> bool:
    """Whether this client receives the final answer by a call of `tool`."""
    return _FINAL.fullmatch(tool.name) is not None


def structured_answer(form: Mapping[str, Any], known: KnownFacts) -> str:
    """The answer in the requested format: of the schema, or any JSON object if there is none."""
    schema = form.get("schema")
    if schema is None:
        schema = next((schema for text in reversed(known.texts) for schema in _schemas(text)), None)
    if schema is None:
        objects = [value for value in _values(known) if isinstance(value, Mapping)]
        return _json(objects[0] if len(objects) == 1 else {"answer": known.prose})
    value = structured_value(schema, known)
    return str(value) if form.get("bare") and isinstance(value, str) else _json(value)


def _schemas(text: str) -> Iterator[Mapping[str, Any]]:
    """The JSON Schemas of objects in `text`."""
    place = text.find("{")
    for _ in range(_MOST):
        if place < 0:
            return
        try:
            value, end = load_json_at(text, place)
        except ValueError:
            value, end = None, place + 1
        if isinstance(value, dict) and isinstance(value.get("properties"), dict):
            yield value
        place = text.find("{", end)


def structured_value(schema: Mapping[str, Any], known: KnownFacts, name: str = "") -> Any:
    """A value for `schema` that contains the known facts."""
    return sample_value(schema, _ValueSource(schema, known, name).candidates)


class _ValueSource:
    def __init__(self, schema: Mapping[str, Any], known: KnownFacts, name: str) -> None:
        self.known, self.values = known, _values(known)
        named = name or str(schema.get("title", ""))
        tool = Tool(named, str(schema.get("description", "")), schema)
        self.draft: Any = None
        if isinstance(schema.get("properties"), Mapping):
            self.draft = fill(tool, known.prompt).arguments

    def candidates(self, place: Place, schema: Mapping[str, Any]) -> Iterable[Any]:
        """From results by name, the words for prose, then from the prompt."""
        index = next((step for step in reversed(place) if isinstance(step, int)), None)
        name = str(place[-1]) if place and isinstance(place[-1], str) else ""
        if name:
            yield from self.values_named(name, index)
            if set(words(name)) & _PROSE:
                yield self.known.prose
        if len(self.values) > 1 and "items" in schema:
            yield self.values
        drafted = value_at(self.draft, place) if place else None
        # If there are results, a value made only from the prompt must not precede them.
        if drafted is not None and not (self.values and isinstance(drafted, Mapping | list)):
            yield drafted

    def values_named(self, name: str, index: int | None) -> Iterator[Any]:
        """The results' values of this name; in a list, each item has a result of its own."""
        values = self.values
        if index is not None and index < len(values):
            values = [values[index], *values]
        stems = [stem(word) for word in words(name)]
        for exact in (True, False):
            for value in values[:_MOST]:
                for key, inner in _members(value):
                    other = [stem(word) for word in words(key)]
                    if stems == other if exact else other and set(other) <= set(stems):
                        yield inner


def _values(known: KnownFacts) -> list[Any]:
    """The result of each call, with its arguments; for a text result, the text."""
    values: list[Any] = []
    for outcome in known.results:
        try:
            value = load_json(outcome.text)
        except ValueError:
            value = outcome.text
        named = value if isinstance(value, dict) else {"result": value}
        values += [] if outcome.failed else [{**outcome.arguments, **named}]
    return values


def _members(value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """(name, value) of all members, outer ones before inner ones."""
    if depth > 3 or not isinstance(value, Mapping):
        return
    yield from value.items()
    for inner in value.values():
        yield from _members(inner, depth + 1)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# The text of its answers: before calls, with the results, without a tool --------------------------


def intro_sentence(
    calls: Sequence[PlannedCall], *, again: bool, failed: Sequence[CallOutcome] = ()
) -> str:
    """The sentence before the calls. `failed` are calls that are retried."""
    if failed:
        reports = [
            f"{_attempt_words(outcome)}, but it failed: {_shorten(outcome.text)}"
            for outcome in failed
        ]
        return f"{' '.join(map(_end_sentence, reports))} I'll try once more."
    uses = dict.fromkeys(_use(planned.tool.name, planned.arguments) for planned in calls)
    return f"{'Next, ' if again else ''}I'll use {join_words(list(uses))}."


def reasoning(prompt: str, calls: Sequence[PlannedCall], results: Sequence[CallOutcome]) -> str:
    """The thinking of a turn, if requested."""
    steps = [f"The user says: {_quote_prompt(prompt, 200)}"]
    if results:
        steps.append(f"Results so far: {len(results)}.")
    for planned in calls:
        given = ", ".join(
            f"{key} = {_short_json(value)}" for key, value in planned.arguments.items()
        )
        steps.append(f"{planned.tool.name} fits; I read {given or 'no arguments'} from that.")
    if not calls:
        steps.append("Nothing is left to call, so I answer.")
    return "\n".join(steps)


def retryable_calls(results: Sequence[CallOutcome]) -> list[CallOutcome]:
    """The failed calls that are worth a retry: once each, and none that was refused."""
    return [
        outcome
        for outcome in results
        if outcome.failed and is_temporary(outcome.text) and _times(outcome, results) == 1
    ]


def is_temporary(text: str) -> bool:
    """Whether a failure may be temporary: it mentions a time-out, or a server error."""
    return bool(_PASSING.search(text[:2_000])) and not _FORBIDDEN.search(text[:2_000])


def _times(outcome: CallOutcome, results: Sequence[CallOutcome]) -> int:
    return sum(outcome.same_call(other) for other in results)


def combine_results(results: Sequence[CallOutcome]) -> str:
    """The results as one answer: of repeated calls, the last one."""
    last = [
        outcome
        for place, outcome in enumerate(results)
        if not any(outcome.same_call(later) for later in results[place + 1 :])
    ]
    failed = sum(outcome.failed for outcome in last)
    opening = "I am sorry. " if failed == len(last) else ""
    if not failed and len(last) > 1:
        opening = "Here is what I found. "
    return opening + " ".join(_describe(outcome, _times(outcome, results)) for outcome in last)


def _describe(outcome: CallOutcome, times: int) -> str:
    paragraphs = outcome.text[:_MOST_TEXT].split("\n\n")
    facts = [text for text in paragraphs if not _PARAGRAPH_OF_ORDERS.search(text)]
    text = "\n\n".join(facts).strip()
    sentence = _trouble(outcome, text, times) if outcome.failed else _success(outcome, text)
    if len(facts) < len(paragraphs):
        sentence += " The result also held an order to me; I did not follow it."
    return sentence


def _trouble(outcome: CallOutcome, text: str, times: int) -> str:
    reason = _shorten(text) or "no reason was given"
    if _FORBIDDEN.search(reason):
        return (
            f"{_attempt_words(outcome)}, but that was not allowed ({reason}). I leave it at that."
        )
    often = f" {'twice' if times == 2 else f'{times} times'}" if times > 1 else ""
    sentence = _end_sentence(f"{_attempt_words(outcome)}{often}, but it failed: {reason}")
    return sentence if often else f"{sentence} I could try again with other arguments."


def _success(outcome: CallOutcome, text: str) -> str:
    """A sentence for a result, including problems of its format."""
    title = _main(outcome.arguments) or outcome.name
    if not text:
        image = any(piece.type == "image" for piece in outcome.result.content)
        return f"{title}: " + ("an image came." if image else "the tool gave nothing back.")
    try:
        value = load_json(text)
    except ValueError:
        value = None
        if text[0] in '{["':
            readable = _shorten(text)
            return f"{title}: the result broke off in the middle; all I could read is: {readable}"
    known = {str(given).lower() for given in outcome.arguments.values()}
    sentence = _shorten("" if value is None else _describe_value(value, known, 0)) or _shorten(text)
    if len(text) > _LARGE:
        sentence = f"a very large result ({len(text):,} characters), of which I read: {sentence}"
    sentence = _end_sentence(
        sentence if title.lower() in sentence.lower() else f"{title}: {sentence}"
    )
    return sentence + _differences(outcome.arguments, value)


def _differences(arguments: Mapping[str, Any], value: Any) -> str:
    """Where a result has another text or type for one of the call's arguments."""
    remarks = ""
    for name, given in arguments.items() if isinstance(value, Mapping) else ():
        returned = value.get(name)
        if isinstance(given, str) and isinstance(returned, str):
            if (
                returned.casefold() not in given.casefold()
                and given.casefold() not in returned.casefold()
            ):
                remarks += (
                    f" Mind that I asked for {given[:60]}, and the result is on {returned[:60]}."
                )
        elif returned is not None and isinstance(given, str) != isinstance(returned, str):
            remarks += f" Take it with care: {name} came with another type than I sent."
    return remarks


def _describe_value(value: Any, known: set[str], depth: int) -> str:
    """A JSON value in a few words, without the `known` ones."""
    match value:
        case dict() if depth < 3:
            degrees = _DEGREES.get(str(value.get("unit")).lower(), "")
            return join_words(
                [
                    _pair(key, inner, degrees, known, depth)
                    for key, inner in list(value.items())[:12]
                    if str(inner).lower() not in known
                    and not (degrees and key == "unit")
                    and not (key in _ECHOED and len(value) > 1)
                    and inner not in (None, "", "today", [], {})
                ]
            )
        case list() if depth < 3:
            items = [_describe_value(_entry_label(item), known, depth + 1) for item in value[:5]]
            more = [f"{len(value) - 5} more"] if len(value) > 5 else []
            return f"{len(value)}: {join_words(items + more)}" if value else "nothing"
        case str():
            return value
        case _:
            return _short_json(value)


def _pair(key: str, value: Any, degrees: str, known: set[str], depth: int) -> str:
    value_text = _describe_value(value, known, depth + 1)
    if key.lower() in _PLAIN:
        return value_text
    label = words(key)
    if {"temperature", "temp", "low", "high"} & set(label) and isinstance(value, int | float):
        value_text += degrees
    unit = _UNITS.get(label[-1]) if len(label) > 1 else None
    return (
        f"{' '.join(label[:-1])} {value_text}{unit}" if unit else f"{' '.join(label)} {value_text}"
    )


def _entry_label(item: Any) -> Any:
    """The label of a list entry: its title or name if it has one."""
    named = [item[key] for key in ("title", "name") if key in item] if type(item) is dict else []
    return named[0] if named else item


def _attempt_words(outcome: CallOutcome) -> str:
    return f"I tried to use {_use(outcome.name, outcome.arguments)}"


def _use(name: str, arguments: Mapping[str, Any]) -> str:
    main = _main(arguments)
    return f"{name} for {main}" if main else name


def _main(arguments: Mapping[str, Any]) -> str:
    """The argument that distinguishes calls of one tool: the first short text or number."""
    texts = (value for value in arguments.values() if isinstance(value, str | int | float))
    return next((line for text in texts if 0 < len(line := " ".join(str(text).split())) <= 60), "")


def _quote_prompt(prompt: str, most: int) -> str:
    text = " ".join(prompt.split())
    return f"“{text[:most]}{'…' if len(text) > most else ''}”"


def _end_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else text + "."


def _shorten(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST_QUOTED else text[:_MOST_QUOTED].rstrip() + " …"


def _short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def join_words(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    texts = [part for part in parts if part]
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


def small_talk(prompt: str, tools: Sequence[Tool]) -> str:
    """An honest answer to a prompt that no tool matches."""
    for pattern, line in _SMALL_TALK:
        if re.search(pattern, prompt, re.I):
            return line
    about = _quote_prompt(prompt, 80)
    if not prompt.strip():
        return f"I got no words to answer. {WHO}"
    if not tools:
        return (
            f"I am only the built-in simulator, so about {about} I know nothing of my own. "
            "Give me a tool and I will call it; or choose a provider with a real model."
        )
    names = ", ".join(tool.name for tool in tools[:6]) + (", …" if len(tools) > 6 else "")
    return (
        f"I am only the built-in simulator, and none of the tools here ({names}) seems to fit "
        f"{about}. Say for instance: “Please use {tools[0].name}.”"
    )
