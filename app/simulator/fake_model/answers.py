"""The text of the simulator's answers: before it calls, with the results it got, without a tool.

A result is believed no more than its form allows, and instructions in it are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from app.core.messages import MessagePart, arguments_object
from app.core.tools import Tool
from app.protocols.server import words_of
from app.schema.json_display import readable_prefix
from app.simulator.fake_model import entities
from app.simulator.fake_model.plan import PlannedCall, example
from app.simulator.fake_model.words import concepts, role, words

_MOST = 600
_ECHOED = ("status", "ok", "success", "id", "type", "object")
_DEGREES = {"celsius": " °C", "c": " °C", "fahrenheit": " °F", "f": " °F", "metric": " °C"}
_UNITS = {"percent": " %", "kmh": " km/h", "mph": " mph", "kg": " kg", "km": " km", "mm": " mm"}
_VERBS = words_of(
    """send add create set play book convert read write delete update open order roll run start stop
    list schedule make cancel check fetch find post save show plan draw file close reserve"""
)


@dataclass(frozen=True)
class CallOutcome:
    """A call of this turn with what came back."""

    name: str
    arguments: Mapping[str, Any]
    result: MessagePart

    @property
    def text(self) -> str:
        return "\n".join(c.text for c in self.result.content if c.type == "text").strip()


def answered_call(call: MessagePart, result: MessagePart) -> CallOutcome:
    return CallOutcome(call.name, arguments_object(call.text) or {}, result)


def lead(
    calls: Sequence[PlannedCall], chance: Random, *, again: bool, failed: Sequence[CallOutcome] = ()
) -> str:
    """The sentence before the calls. `failed` are calls that are made once more."""
    if failed:
        told = [
            f"I tried to {_doing(answered.name, answered.arguments)}, "
            f"but it failed: {_bare(_cut(answered.text))}."
            for answered in failed
        ]
        return f"{' '.join(told)} I'll try once more."
    opening = (
        "Next, I'll" if again else chance.choice(("I'll", "Let me", "Sure, I'll", "Okay, I'll"))
    )
    doings = [_doing(wanted.tool.name, wanted.arguments) for wanted in calls]
    return f"{opening} {joined(list(dict.fromkeys(doings)))}."


def reasoning(prompt: str, calls: Sequence[PlannedCall], results: Sequence[CallOutcome]) -> str:
    """The thinking of a turn, for those who ask to see it."""
    asked = " ".join(prompt.split())
    steps = [f"The person says: “{asked[:200]}{'…' if len(asked) > 200 else ''}”"]
    if results:
        steps.append(f"I have {_count(len(results), 'result')} to work with.")
    for wanted in calls:
        given = ", ".join(f"{key} = {_short(value)}" for key, value in wanted.arguments.items())
        steps.append(f"{wanted.tool.name} fits; I read {given or 'no arguments'} from that.")
    if not calls:
        steps.append("Nothing is left to call, so I answer.")
    return "\n".join(steps)


def to_retry(results: Sequence[CallOutcome]) -> list[CallOutcome]:
    """The failed calls that are worth a second try: once each, and none that was refused."""
    return [
        answered
        for answered in results
        if answered.result.is_error and passing(answered.text) and _times(answered, results) == 1
    ]


def _times(outcome: CallOutcome, results: Sequence[CallOutcome]) -> int:
    """How often the same call was made."""
    return sum(
        (outcome.name, outcome.arguments) == (other.name, other.arguments) for other in results
    )


def combine_results(results: Sequence[CallOutcome], chance: Random) -> str:
    """The results as one friendly answer: of the same call made twice, the last one."""
    last = {
        (answered.name, json.dumps(answered.arguments, sort_keys=True)): place
        for place, answered in enumerate(results)
    }
    everything, results = results, [results[place] for place in sorted(last.values())]
    good = [answered for answered in results if not answered.result.is_error]
    said = [_sentence(answered, _times(answered, everything)) for answered in results]
    opening = ""
    if not good and results:
        opening = "I am sorry. "
    elif len(results) > 1 and len(good) == len(results):
        opening = chance.choice(("Here is what I found. ", "All done. ", "Here you go. "))
    return opening + " ".join(said)


def _sentence(outcome: CallOutcome, times: int) -> str:
    read = read_result(outcome.text)
    said = _trouble(outcome, read, times) if outcome.result.is_error else _describe(outcome, read)
    if read.ordered:
        said += (
            " The result also held an order to me; I take orders from you, and from no result, so "
            "I did not follow it."
        )
    return said


def _describe(outcome: CallOutcome, read: ResultReading) -> str:
    """A good result, with what is wrong about its form."""
    if read.state == "empty":
        if any(piece.type == "image" for piece in outcome.result.content):
            return f"{_title(outcome)} sent an image."
        return f"{_title(outcome)} gave nothing back, so I cannot tell what came of it."
    if read.state == "cut":
        known = {str(given).lower() for given in outcome.arguments.values()}
        part = _cut(_describe_value(read.value, known, 0)) if read.value is not None else ""
        could = f"all I could read is: {_bare(part)}" if part else "I could read nothing of it"
        return f"{_title(outcome)}: the result broke off in the middle; {could}."
    said = _good(outcome, read)
    if read.large:
        said = (
            f"The result is very large ({read.length:,} characters), so I only skimmed it. {said}"
        )
    if places := elsewhere(read.value, outcome.arguments):
        said += f" Mind that I asked for {places[0]}, and the result tells of {places[1]}."
    if names := odd(read.value, outcome.arguments):
        said += f" Take it with care: {joined(names[:5])} came with a type that I did not expect."
    return said


def _good(outcome: CallOutcome, read: ResultReading) -> str:
    said = salient(read.text, outcome.arguments)
    if "math" in concepts(words(outcome.name)) and len(said) < 60:
        if "=" in said:
            return f"{_bare(said)}."
        return f"{_main(outcome.name, outcome.arguments) or _title(outcome)} is {_bare(said)}."
    if _is_sentence(said):
        return said
    place = _place(outcome.arguments)
    return f"{f'In {place}' if place else _title(outcome)}: {said.rstrip('.')}."


def _trouble(outcome: CallOutcome, read: ResultReading, times: int) -> str:
    reason = _cut(read.text) or "no reason was given"
    what = _doing(outcome.name, outcome.arguments)
    if forbidden(reason):
        return (
            f"I wanted to {what}, but that was not allowed ({_bare(reason)}). I leave it at that."
        )
    if times > 1:
        return (
            f"I tried to {what} {'twice' if times == 2 else f'{times} times'}, but it failed: "
            f"{_bare(reason)}. I cannot tell you more without it."
        )
    return (
        f"I tried to {what}, but it failed: {_bare(reason)}. "
        "I would try once more with other arguments; tell me which, or say that I should go on "
        "without it."
    )


def salient(text: str, arguments: Mapping[str, Any]) -> str:
    """A result in a few words: what a JSON object holds beside the arguments, else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _cut(text)
    known = {str(given).lower() for given in arguments.values()}
    return _cut(_describe_value(value, known, 0)) or _cut(text)


def _describe_value(value: Any, known: set[str], depth: int) -> str:
    match value:
        case dict() if depth < 3:
            degrees = _DEGREES.get(str(value.get("unit", value.get("units", ""))).lower(), "")
            parts = [
                _pair(key, inner, degrees, known, depth)
                for key, inner in list(value.items())[:12]
                if str(inner).lower() not in known
                and not (degrees and key in ("unit", "units"))
                and not (key in _ECHOED and len(value) > 1)
                and inner not in (None, "", "today", [], {})
            ]
            return joined(parts)
        case list() if depth < 3:
            names = [_describe_value(_called(item), known, depth + 1) for item in value[:5]]
            more = f" and {len(value) - 5} more" if len(value) > 5 else ""
            listed = ", ".join(names) + more if more else joined(names)
            return f"{_count(len(value), 'entry')}: {listed}" if value else "nothing"
        case bool():
            return "yes" if value else "no"
        case str():
            return value
        case _:
            return _short(value)


def _pair(key: str, value: Any, degrees: str, known: set[str], depth: int) -> str:
    said = _describe_value(value, known, depth + 1)
    if key.lower() in ("result", "value", "answer", "text", "message", "content", "output"):
        return said
    label = words(key)
    warm = {"temperature", "temp", "low", "high"} & set(label)
    if degrees and warm and isinstance(value, int | float):
        said += degrees
    unit = _UNITS.get(label[-1]) if len(label) > 1 else None
    return f"{' '.join(label[:-1])} {said}{unit}" if unit else f"{' '.join(label)} {said}"


def _called(item: Any) -> Any:
    """What an entry of a list goes by: its title or name where it has one."""
    if isinstance(item, dict):
        return next(
            (item[key] for key in ("title", "name", "headline", "subject") if key in item), item
        )
    return item


def _doing(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as something one does: "check the weather in Paris"."""
    kinds, main, place = concepts(words(name)), _main(name, arguments), _place(arguments)
    where = f" in {place}" if place else f" for {main}" if main else ""
    if "math" in kinds and main:
        return f"work out {main}"
    if "weather" in kinds:
        return f"check the weather{where}"
    if "lookup" in words(name) and main:
        return f"look up {main}"
    if "search" in kinds and main and not place:
        return f"search for {main}"
    if "translate" in kinds and main:
        return f"translate “{main}”"
    first, *rest = words(name) or [name]
    thing = " ".join(rest)
    if "@" in main or {"to", "recipient"} & set(arguments):
        where = where.replace(" for ", " to ", 1)
    if thing and first == "get":
        return f"look up the {thing}{where}"
    if thing and first in _VERBS:
        article = "the" if thing.endswith("s") else "an" if thing[0] in "aeiou" else "a"
        return f"{first} {article} {thing}{where}"
    return f"use {name}{where}"


def _main(name: str, arguments: Mapping[str, Any]) -> str:
    """The argument that tells calls of one tool apart: the first short text or number."""
    numbers = [
        v for v in arguments.values() if isinstance(v, int | float) and not isinstance(v, bool)
    ]
    if "math" in concepts(words(name)) and len(numbers) > 1 and len(numbers) == len(arguments):
        sign = {"add": "+", "subtract": "-", "multiply": "×", "divide": "/"}
        kind = next((k for k in sign if k in concepts(words(name))), "")
        return f" {sign[kind]} ".join(map(str, numbers)) if kind else ""
    for value in arguments.values():
        if isinstance(value, str) and 0 < len(value) <= 60:
            return " ".join(value.split())
    return str(numbers[0]) if numbers else ""


def _place(arguments: Mapping[str, Any]) -> str:
    named = [name for name in arguments if role(name, {}, set()) == "place"]
    value = arguments[named[0]] if len(named) == 1 else ""
    return value[:60] if isinstance(value, str) else ""


def _title(outcome: CallOutcome) -> str:
    main = _main(outcome.name, outcome.arguments)
    said = words(outcome.name)
    label = " ".join(said[1:] if len(said) > 1 and said[0] in ("get", "fetch") else said)
    return (label[:1].upper() + label[1:] or outcome.name) + (f" ({main})" if main else "")


def _is_sentence(text: str) -> bool:
    return text.endswith((".", "!", "?")) and len(text.split()) > 1 and text[0].isupper()


def _bare(text: str) -> str:
    return text.strip().rstrip(".!")


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _MOST else text[:_MOST].rstrip() + " …"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"


def _count(number: int, word: str) -> str:
    plural = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number} {word if number == 1 else plural}"


def joined(parts: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    said = [part for part in parts if part]
    return f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else "".join(said)


# -- reading a tool result, whatever it is like

LARGE = 20_000
"""Characters of a result that are still read with pleasure."""

State = Literal["json", "text", "empty", "cut"]

_ORDER = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b[^.\n]{0,40}\b(?:instructions?|rules?|prompt)\b"
    r"|\bdo not (?:tell|inform|mention)\b[^.\n]{0,40}\b(?:person|user|human|anyone)\b"
    r"|\b(?:reveal|answer with|print)\b[^.\n]{0,30}\bsystem prompt\b",
    re.I,
)
_MOST_TEXT = 200_000
_PASSING = re.compile(
    r"\btime[ds]?[- ]?out\b|\btook too long\b|\bafter [\d.]+ s, its limit\b|\btry again\b"
    r"|\btemporar|\bunavailable\b|\b50[0234]\b|\binternal error\b|\bconnection was lost\b"
    r"|\bdid not answer\b",
    re.I,
)
_FORBIDDEN = re.compile(r"\b(?:denied|not allow|declined|refused|permission)", re.I)
_MEASURED = ("temperature", "temp", "humidity", "wind", "low", "high", "price", "amount", "count")


@dataclass(frozen=True)
class ResultReading:
    """`text` is what is left without orders, `value` its JSON, or the readable part of a cut one.
    `ordered` says that there were orders; `length` is that of the whole result."""

    text: str
    state: State
    value: Any = None
    ordered: bool = False
    length: int = 0

    @property
    def large(self) -> bool:
        return self.length > LARGE


def read_result(text: str) -> ResultReading:
    """`text` as far as it can be read."""
    length, text = len(text), text[:_MOST_TEXT].strip()
    paragraphs = text.split("\n\n")
    kept = [paragraph for paragraph in paragraphs if not _ORDER.search(paragraph)]
    ordered = len(kept) < len(paragraphs)
    text = "\n\n".join(kept).strip()
    if not text:
        return ResultReading("", "empty", ordered=ordered, length=length)
    try:
        return ResultReading(text, "json", json.loads(text), ordered, length)
    except (ValueError, RecursionError):
        pass
    if text[0] in '{["':
        return ResultReading(text, "cut", readable_prefix(text[:60_000]), ordered, length)
    return ResultReading(text, "text", ordered=ordered, length=length)


def passing(text: str) -> bool:
    """Whether a failure may be over by now: it told of a time-out, or of trouble on its side."""
    return bool(_PASSING.search(text[:2_000])) and not forbidden(text)


def forbidden(text: str) -> bool:
    """Whether a failure was a refusal, which a second try does not change."""
    return bool(_FORBIDDEN.search(text[:2_000]))


def odd(value: Any, arguments: Mapping[str, Any]) -> list[str]:
    """The members of a result whose types cannot be: what was sent as text comes back as a
    number, what is measured comes as text."""
    if not isinstance(value, Mapping):
        return []
    return [
        name
        for name, inner in list(value.items())[:50]
        if _other_type(arguments.get(name), inner)
        or (str(name).lower() in _MEASURED and isinstance(inner, str) and _is_number(inner))
    ]


def elsewhere(value: Any, arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """(asked for, told of), where a result tells of another place than was asked for."""
    if not isinstance(value, Mapping):
        return None
    for name, given in arguments.items():
        told = value.get(name)
        if role(name, {}, set()) == "place" and isinstance(given, str) and isinstance(told, str):
            asked, other = given.casefold().strip(), told.casefold().strip()
            if asked and other and asked not in other and other not in asked:
                return given[:60], told[:60]
    return None


def _other_type(given: Any, told: Any) -> bool:
    if given is None or told is None:
        return False
    numbers = isinstance(given, int | float) and isinstance(told, int | float)
    return not numbers and type(given) is not type(told)


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"-?\d+(?:\.\d+)?", text.strip()))


# -- answers without tools: greetings, arithmetic, who it is

_WHO = (
    "I am the built-in simulator of this playground: a small program that speaks the provider's "
    "wire protocol, so that you can try tools without a key. "
)
_LINES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"\b(?:who|what) (?:are|r) you|your name|are you (?:a|an|real|human|claude|gpt|chatgpt)|"
        r"what model",
        (_WHO + "I read your words, pick tools by them and fill in arguments. No neurons here.",),
    ),
    (
        r"what can you do|help me\b.*\?|^help$|how do(?:es)? (?:you|this) work",
        (
            "I can call the tools you give me, one or several at a time, and talk about what they "
            "return. For trouble, put a fault in the prompt, such as [[fault:error-mid]].",
        ),
    ),
    (r"\b(?:thanks|thank you|thx|cheers)\b", ("You are welcome!", "Any time.", "With pleasure.")),
    (r"\b(?:bye|goodbye|good night|see you)\b", ("See you!", "Goodbye, and happy testing.")),
    (
        r"\bjoke\b",
        (
            "A model walks into a bar and orders {} beers. The barkeeper: “Empty, noted.”",
            "Why did the tool call cross the stream? To get to the other delta.",
        ),
    ),
    (
        r"\b(?:hi|hello|hey|good (?:morning|afternoon|evening)|moin|hallo|salut|hola)\b",
        (
            "Hello! What shall we try?",
            "Hi there! Which tool shall we try?",
            "Hey! Ready when you are.",
        ),
    ),
    (r"how are you|how's it going", ("All my finite states are fine, thank you. And you?",)),
    (
        r"\bpoem|haiku\b",
        ("Bytes arrive in parts,\nthe call waits for your one click:\nnothing runs unseen.",),
    ),
    (r"meaning of life", ("42. I would show my work, but that needs a calculator tool.",)),
)


def small_talk(prompt: str, tools: Sequence[Tool], chance: Random) -> str:
    """An honest answer to a prompt that no tool answers."""
    expression = entities.expression(prompt)
    worked = entities.evaluate(expression) if expression else ""
    if worked:
        return f"{expression} = {worked}."
    for pattern, lines in _LINES:
        if re.search(pattern, prompt, re.I):
            return chance.choice(lines)
    return _at_a_loss(prompt, tools)


def _at_a_loss(prompt: str, tools: Sequence[Tool]) -> str:
    asked = " ".join(prompt.split())
    about = f"“{asked[:80]}{'…' if len(asked) > 80 else ''}”"
    if not asked:
        return "I got no words to answer. " + _WHO.strip()
    if not tools:
        return (
            f"I am only the built-in simulator, so about {about} I know nothing of my own. "
            "Give me a tool and I will call it; or pick a profile with a real model."
        )
    names = ", ".join(tool.name for tool in tools[:6]) + (", …" if len(tools) > 6 else "")
    return (
        f"I am only the built-in simulator, and none of the tools here ({names}) seems to fit "
        f"{about}. Try for instance: “{example(tools[0])}”"
    )
