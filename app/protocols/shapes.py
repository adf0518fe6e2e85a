"""Checks the shape of a request body: a table says what each JSON value must be, one walk finds the
first that is not, and the provider's phrases say so.

The tables stand in `NAME/refuse.py`, that of Ollama in `ollama/limits.py`. What is about several
members or messages is no shape.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.protocols.server import BadRequest, Citation

Rule = Callable[[Any, str], BadRequest | None]
"""Looks at a value of the right type and at where it stands; gives the refusal, or None."""


@dataclass(frozen=True)
class Shape:
    """What a JSON value must be.

    `kind` are its types (`object`: any; bool is no int), and `name` is how the provider calls that.
    `members` are those of an object, in the order in which they are checked; `required` ones must
    be there, and where it is `closed` no others may be. `each` is every entry of a list, every
    member of an object that is not named. `variants` are further shapes by what the object says
    under `tag`, or by `untagged` where it says nothing; others are taken unless it is `closed`, and
    `members` beside them are those of all. With `null` the value may be null, which is as good as
    nothing. `rules` are asked before anything inside is looked at. `phrases` hold for it and all
    inside; None: those of what it stands in.
    """

    kind: type | tuple[type, ...] = object
    name: str = ""
    members: Mapping[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    closed: bool = False
    each: Shape | None = None
    variants: Mapping[str, Shape] = field(default_factory=dict)
    tag: str = "type"
    untagged: str = ""
    null: bool = False
    rules: tuple[Rule, ...] = ()
    phrases: Phrases | None = None


class Phrases(ABC):
    """How a provider says what is wrong with the value at a place, which was to be of a shape. What
    it has no words of its own for is a value of another type."""

    @abstractmethod
    def wrong(self, value: Any, where: str, shape: Shape) -> BadRequest:
        """The value is of another type."""

    def missing(self, where: str, shape: Shape) -> BadRequest:
        """The member that `where` names is not there."""
        return self.wrong(None, where, shape)

    def unknown(self, name: str, where: str, shape: Shape) -> BadRequest:
        """The object at this place, of this shape, has no member of this name."""
        return self.wrong(None, self.join(where, name), shape)

    def odd_kind(self, value: Mapping[str, Any], where: str, shape: Shape) -> BadRequest:
        """What the object says under its tag is none of the variants."""
        return self.wrong(value, where, shape)

    def join(self, where: str, step: str | int) -> str:
        """The place of a member or of an entry."""
        return f"{where}.{step}" if where else str(step)

    def within(self, where: str, shape: Shape, kind: str = "") -> str:
        """Where the members of an object are said to stand; `kind` is the variant it is."""
        return where


ANY = Shape()


def must(holds: Callable[[Any], object], words: str, source: Citation) -> Rule:
    """The rule that `holds` of a value; `words`, the refusal, may name `{where}`."""

    def rule(value: Any, where: str) -> BadRequest | None:
        return None if holds(value) else source.refusal(words.replace("{where}", where))

    return rule


def check_shape(value: Any, shape: Shape, phrases: Phrases, where: str = "") -> None:
    """Raise BadRequest for the first thing in `value` that is not as `shape` says."""
    phrases = shape.phrases or phrases
    if value is None and shape.null:
        return
    if not _is_of(value, shape.kind):
        raise phrases.wrong(value, where, shape)
    for rule in shape.rules:
        if (refusal := rule(value, where)) is not None:
            raise refusal
    if isinstance(value, dict):
        _check_object(value, shape, phrases, where)
    elif isinstance(value, list) and shape.each is not None:
        for place, entry in enumerate(value):
            check_shape(entry, shape.each, phrases, phrases.join(where, place))


def _is_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if isinstance(value, bool):
        return bool in kinds or object in kinds
    return isinstance(value, kinds)


def _check_object(value: Mapping[str, Any], shape: Shape, phrases: Phrases, where: str) -> None:
    kind = value.get(shape.tag, shape.untagged) if shape.variants else ""
    kind = kind if isinstance(kind, str) else ""
    inside = phrases.within(where, shape, kind)
    if kind in shape.variants:
        check_shape(value, shape.variants[kind], phrases, inside)
    elif shape.closed and shape.variants:
        raise phrases.odd_kind(value, where, shape)
    elif shape.closed:
        for name in _unnamed(value, shape):
            raise phrases.unknown(name, inside, shape)
    for name in shape.required:
        if name not in value or (value[name] is None and shape.members[name].null):
            raise phrases.missing(phrases.join(inside, name), shape.members[name])
    for name, member in shape.members.items():
        if name in value:
            check_shape(value[name], member, phrases, phrases.join(inside, name))
    if shape.each is not None:
        for name in _unnamed(value, shape):
            check_shape(value[name], shape.each, phrases, phrases.join(inside, name))


def _unnamed(value: Mapping[str, Any], shape: Shape) -> list[str]:
    return [name for name in value if name not in shape.members]
