"""Which calls a prompt asks for: cut into clauses, each finds the tool whose words it uses.

A tool scores by the features of `words` it shares with a clause: those of its name count most, and
a word that many tools use counts little. A clause that fits no tool is joined to its neighbour.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from typing import Any

from app.core.tools import Tool
from app.simulator.fake_model import entities
from app.simulator.fake_model.arguments import fill
from app.simulator.fake_model.words import WEAK, concepts, features, mapping, resolved, words

THRESHOLD = 2.0
_NAME = 3.0
_EXAMPLES = (
    ("math", "What is 17*23?"),
    ("weather", "What is the weather in Paris?"),
    ("email", "Email anna@example.com about lunch, saying: see you at noon."),
    ("currency", "Convert 250 dollars to euros."),
    ("timer", "Set a timer for 5 minutes."),
    ("translate", "Translate 'good morning' to French."),
    ("event", "Schedule lunch with Anna tomorrow at 1pm."),
    ("search", "Search for the best ramen in Kyoto."),
    ("time", "What time is it in Tokyo?"),
)
_STATEMENT = re.compile(r"^\W*(?:i'm|i am|we're|we are|my|our|i was|i have|i've)\b", re.I)
_TELLING = re.compile(r"\b(?:[Tt]ell|[Aa]sk|[Ll]et|[Pp]ing)\s+(?:[A-Z]\w+|my|the team|everyone)\b")
_BREAK = re.compile(
    r"(?<=[.!?;])\s+|\n+|"
    r"\s*[,;]?\s+(?:and then|and also|and|then|also|plus|after that|as well as)\s+"
    r"|\s*,\s+(?:then\s+|also\s+)?",
    re.I,
)
_PROTECTED = re.compile(r"\"[^\"]*\"|“[^”]*”|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_QUESTION = re.compile(
    r"^\W*(?:who|what|when|where|which|why|how|is|are|was|were|did|does|tell me about)\b", re.I
)
_ABOUT_ITSELF = re.compile(
    r"\b(?:are you|your name|you do|do you|how's it going|can you help|what can you|"
    r"who made you)\b",
    re.I,
)
_FOLLOW_UP = re.compile(
    r"^\W*(?:and|what about|how about|also|same|now|again|then|or|in|for|to)\b", re.I
)


@dataclass(frozen=True)
class PlannedCall:
    """A call the prompt asks for."""

    tool: Tool
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Background:
    """What came before the prompt: earlier prompts, the nearest first, and the last call made."""

    texts: tuple[str, ...] = ()
    name: str = ""
    arguments: Mapping[str, Any] | None = None


def planned_calls(
    prompt: str, tools: Sequence[Tool], background: Background, today: date
) -> list[PlannedCall]:
    """The calls that `prompt` asks for, in its order; the same call only once."""
    vocabulary = _Vocabulary(tools)
    found: list[PlannedCall] = []
    for tool, clause in _assigned(prompt, vocabulary):
        texts = (prompt, *background.texts)
        found += [
            PlannedCall(tool, arguments) for arguments in fill(tool, clause, texts, today).each()
        ]
    if not found:
        found = list(_following_up(prompt, tools, background, today))
    return _once(found)


def example(tool: Tool) -> str:
    """A prompt that `tool` answers, for a person who does not know what to ask."""
    for kind, prompt in _EXAMPLES:
        if kind in concepts(words(tool.name)):
            return prompt
    return f"Please use {tool.name}."


def forced_call(
    prompt: str, tools: Sequence[Tool], background: Background, today: date
) -> PlannedCall:
    """The call to make where one must be made and no tool fits: the best there is."""
    vocabulary = _Vocabulary(tools)
    best = max(tools, key=lambda tool: vocabulary.score(tool, prompt))
    same = background.arguments if background.name == best.name else None
    return PlannedCall(best, fill(best, prompt, (prompt, *background.texts), today, same).arguments)


def fitting_tools(prompt: str, tools: Sequence[Tool]) -> list[Tool]:
    """The tools whose words `prompt` uses as a whole."""
    vocabulary = _Vocabulary(tools)
    return [tool for tool in tools if vocabulary.score(tool, prompt) >= THRESHOLD]


def _once(found: Iterable[PlannedCall]) -> list[PlannedCall]:
    kept: list[PlannedCall] = []
    for wanted in found:
        if wanted not in kept:
            kept.append(wanted)
    return kept


def _following_up(
    prompt: str, tools: Sequence[Tool], background: Background, today: date
) -> Iterator[PlannedCall]:
    """ "And in London?" after a call for Paris: the same tool with what is new."""
    tool = next((tool for tool in tools if tool.name == background.name), None)
    if tool is None or len(prompt) > 80 or not _FOLLOW_UP.match(prompt):
        return
    filled = fill(tool, prompt, (), today, background.arguments)
    if filled.said:
        yield from (PlannedCall(tool, arguments) for arguments in filled.each())


def _assigned(prompt: str, vocabulary: _Vocabulary) -> list[tuple[Tool, str]]:
    """Each clause with its tool. What a person merely tells ("I'm flying to Rome.") is background
    to the rest, unless there is no rest.
    """
    taken = _joined(prompt, vocabulary, _STATEMENT) or _joined(prompt, vocabulary, None)
    searcher = vocabulary.searcher()
    if not taken and searcher is not None and _worth_searching(prompt):
        return [(searcher, prompt)]
    return taken


def _joined(
    prompt: str, vocabulary: _Vocabulary, passed_over: re.Pattern[str] | None
) -> list[tuple[Tool, str]]:
    """The clauses that fit a tool; those that fit none are joined to the one before, or after."""
    taken: list[tuple[Tool, str]] = []
    waiting = ""
    for clause in clauses(prompt):
        told = passed_over is not None and passed_over.match(clause)
        tool = None if told else vocabulary.best(clause)
        if tool is None:
            if taken and not _opens(clause):
                last, text = taken[-1]
                taken[-1] = (last, text + clause)
            else:
                waiting += clause
            continue
        if taken and taken[-1][0] == tool and not _stands_alone(tool, clause):
            taken[-1] = (tool, taken[-1][1] + clause)
            continue
        taken.append((tool, waiting + clause))
        waiting = ""
    return taken


def _stands_alone(tool: Tool, clause: str) -> bool:
    """Whether a second clause for the same tool is a call of its own: it names the tool again, or
    gives a value that every call needs.
    """
    if set(words(tool.name)) - WEAK & set(words(clause)):
        return True
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    properties = mapping(tool.parameters.get("properties"))
    only = {name: schema for name, schema in properties.items() if name in needed}
    return fill(replace(tool, parameters={"properties": only}), clause, (), date.min).said > 0


def _opens(clause: str) -> bool:
    """Whether a clause begins a sentence of its own rather than going on with the last one."""
    return bool(_QUESTION.match(clause.lstrip(" ,;")))


def _worth_searching(prompt: str) -> bool:
    return bool(
        (_QUESTION.match(prompt) or prompt.strip().endswith("?"))
        and not _ABOUT_ITSELF.search(prompt)
        and not entities.expression(prompt)
        and len(words(prompt)) > 2
    )


def clauses(prompt: str) -> list[str]:
    """The pieces of a prompt, each with the break before it, so that joined they are the prompt.
    Quotes and enumerations of names stay whole.
    """
    guarded = [found.span() for found in _PROTECTED.finditer(prompt)]
    guarded += entities.list_spans(prompt)
    cuts = [0]
    for found in _BREAK.finditer(prompt):
        if not any(start < found.end() and found.start() < end for start, end in guarded):
            cuts.append(found.start())
    cuts.append(len(prompt))
    return [prompt[a:b] for a, b in pairwise(cuts) if prompt[a:b].strip()]


class _Vocabulary:
    """The words of the tools on offer, weighed against each other."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = list(tools)
        self._weights = {tool.name: _weights(tool) for tool in tools}
        shared: defaultdict[str, float] = defaultdict(float)
        for weights in self._weights.values():
            for feature, worth in weights.items():
                shared[feature] += worth / _NAME
        self._rarity = {f: 1 / (1 + 0.4 * max(0.0, n - 1)) for f, n in shared.items()}

    def score(self, tool: Tool, clause: str) -> float:
        weights = self._weights[tool.name]
        return sum(
            weights[feature] * self._rarity[feature] * worth
            for feature, worth in _asked(clause).items()
            if feature in weights
        )

    def best(self, clause: str) -> Tool | None:
        """The tool that fits best, or None where none fits well enough."""
        scored = [(self.score(tool, clause), -place) for place, tool in enumerate(self.tools)]
        score, place = max(scored, default=(0.0, 0))
        return self.tools[-place] if score >= THRESHOLD else None

    def searcher(self) -> Tool | None:
        return next((tool for tool in self.tools if "search" in concepts(words(tool.name))), None)


def _asked(clause: str) -> dict[str, float]:
    """The features of a clause; signs count too: an expression, an address, two currencies."""
    bare = clause
    for found in (*entities.urls(clause), *entities.emails(clause), *entities.files(clause)):
        bare = bare.replace(found, " ")
    asked = dict.fromkeys(features(bare), 1.0)
    if entities.expression(clause):
        asked |= {"=math": 2.0}
        if operation := entities.operation(clause):
            asked |= {"=" + operation: 2.0}
    if entities.emails(clause):
        asked |= {"=email": asked.get("=email", 0.7)}
    if entities.urls(clause):
        asked |= {"=url": 1.5}
    if entities.files(clause):
        asked |= {"=file": 1.5}
    if _TELLING.search(clause):
        asked |= {"=message": 1.0}
    if len(entities.currencies(clause)) > 1:
        asked |= {"=currency": 1.5, "=convert": 1.0}
    if entities.sql(clause):
        asked |= {"=sql": 1.5}
    return asked


def _weights(tool: Tool) -> dict[str, float]:
    """What each feature of a tool is worth: name 3, enum 1.5, property 1, description 0.9."""
    weights: dict[str, float] = {}
    own = words(tool.name)
    weak_only = all(word in WEAK for word in own)
    for word in own:
        worth = _NAME if word not in WEAK or weak_only else 0.8
        for feature in features(word):
            weights[feature] = max(weights.get(feature, 0.0), worth)
    properties = mapping(tool.parameters.get("properties"))
    values = [
        str(value)
        for schema in properties.values()
        for value in resolved(schema, tool.parameters).get("enum") or []
    ]
    described = [str(mapping(schema).get("description", "")) for schema in properties.values()]
    for text, worth in (
        (" ".join(values), 1.5),
        (" ".join(properties), 1.0),
        (tool.description, 0.9),
        (" ".join(described), 0.4),
    ):
        for feature in features(text):
            # A concept met outside the name is a hint of a hint.
            value = worth * 0.8 if feature.startswith("=") else worth
            weights[feature] = max(weights.get(feature, 0.0), value)
    return weights
