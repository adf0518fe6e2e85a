"""Answers that have a form: JSON for a schema, and the arguments of the tool that ends a run.

What is said comes from the results by the names of their members, then from the prompt; whatever
is left is made up, and the whole satisfies the schema (`app.schema.satisfy`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from app.core.tools import Tool
from app.protocols.server import spaced
from app.schema.keywords import Place
from app.schema.satisfy import satisfying
from app.simulator.answer import Answered
from app.simulator.fill import fill
from app.simulator.words import stem, words

_FINAL = re.compile(
    r"final[_-]?(?:answer|result|output|response|action)\w*|(?:submit|give|return)_?"
    r"(?:final_?)?(?:answer|result|output|response)|attempt_completion|complete_task|task_complete|"
    r"structured_?output|finish|done|respond(?:_to_user)?",
    re.I,
)
_PROSE = spaced(
    """answer response reply message text summary explanation reason reasoning rationale content
    output result conclusion report thought thoughts analysis"""
)
_MOST = 200


@dataclass(frozen=True)
class Known:
    """What there is to say: the prompt, the results, and an answer in words. `said` are the texts
    in which a client may have written the schema it wants."""

    prompt: str
    background: Sequence[str]
    results: Sequence[Answered]
    prose: str
    today: date
    said: Sequence[str] = ()


def is_final(tool: Tool) -> bool:
    """Whether a call of `tool` is how this client is given the last answer."""
    return _FINAL.fullmatch(tool.name) is not None


def written(form: Mapping[str, Any], known: Known) -> str:
    """The answer in the form that was asked for: of the schema, or any JSON object where none."""
    schema = form.get("schema")
    if schema is None:
        schema = next((schema for text in reversed(known.said) for schema in _schemas(text)), None)
    if schema is None:
        found = [value for value in _values(known) if isinstance(value, Mapping)]
        return _json(found[0] if len(found) == 1 else {"answer": known.prose})
    value = answered(schema, known)
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


def answered(schema: Mapping[str, Any], known: Known, name: str = "") -> Any:
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
    def __init__(self, schema: Mapping[str, Any], known: Known, name: str) -> None:
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


def _values(known: Known) -> list[Any]:
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
