"""The verdict while the arguments stream: the first place where they can no longer become valid.

What is certain is told at the token that makes it so; what is not yet, or never cheaply, is left
to `verdict`, which reads the whole. There is never an alarm about what could still become valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.core.events import Problem
from app.schema import soundness
from app.schema.early_spots import Kind, Spent, Spot, Spots
from app.schema.early_text import Reader
from app.schema.keywords import Place, pointer


class Early:
    """One call's arguments. Costs O(len(text)) in all, and remembers no more than they hold."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """A schema that cannot be used is never complained about here."""
        self._reader: Reader | None = None
        try:
            if soundness.fault(schema) is None:
                self._reader = Reader(_Walk(Spots(schema)))
        except (Spent, ValueError):
            pass

    @property
    def closed(self) -> bool:
        """Whether there is nothing more to be said: the object is complete, or it was given up."""
        return self._reader is None or self._reader.closed

    def feed(self, text: str) -> Problem | None:
        """The next characters; the first problem once it is certain, and after it nothing more.

        `offset` is the first character of the token that made it certain.
        """
        if self._reader is None:
            return None
        try:
            problem = self._reader.feed(text)
        except (Spent, ValueError):
            self._reader = None
            return None
        if problem is not None:
            self._reader = None
        return problem


@dataclass
class _Frame:
    """An open container. `step` is the key or index at hand, `value` is None unless it is kept,
    `count` of an object's keys or an array's items that have begun."""

    spot: Spot
    kind: Kind
    value: dict[str, Any] | list[Any] | None
    names: dict[str, None]
    step: str | int = ""
    count: int = 0


class _Walk:
    """Goes through the schema beside the text."""

    def __init__(self, spots: Spots) -> None:
        self._frames: list[_Frame] = []
        self._spot = spots.root

    def begun(self, at: int) -> Problem | None:
        if not self._frames:
            return _at(at, self._never())
        if self._frames[-1].kind == "object":
            return None
        frame = self._frames[-1]
        frame.step = frame.count
        frame.count += 1
        self._spot = frame.spot.item(frame.count - 1)
        wrong = frame.spot.miscounted(frame.count, self._around, ended=False)
        return _at(at, wrong or self._never())

    def opened(self, kind: str, at: int) -> Problem | None:
        type_: Kind = "object" if kind == "{" else "array"
        if (problem := self._spot.mistyped(type_, self._place)) is not None:
            return _at(at, problem)
        spot = self._spot.opened(type_)
        kept = bool(self._frames) and self._frames[-1].value is not None
        value: dict[str, Any] | list[Any] | None = None
        if kept or spot.checks(type_):
            value = {} if type_ == "object" else []
        self._frames.append(_Frame(spot, type_, value, {}))
        return None

    def key(self, name: str, at: int) -> Problem | None:
        frame = self._frames[-1]
        spot = frame.spot
        frame.step = name
        frame.count += 1
        if spot.checks("keys"):
            frame.names[name] = None
        wrong = spot.unknown(name, self._around)
        if wrong is None and spot.checks("name"):
            wrong = spot.wrong("name", {name: None}, self._around)
        self._spot = spot.member(name)
        return _at(at, wrong or self._never())

    def scalar(self, value: Any, at: int) -> Problem | None:
        self._keep(value)
        return _at(at, self._spot.wrong("scalar", value, self._place))

    def closed(self, at: int) -> Problem | None:
        frame = self._frames.pop()
        if frame.kind == "object":
            wrong = frame.spot.wrong("keys", frame.names, self._place)
        else:
            wrong = frame.spot.miscounted(frame.count, self._place, ended=True)
        if wrong is None and frame.value is not None:
            wrong = frame.spot.wrong(frame.kind, frame.value, self._place)
        self._keep(frame.value)
        return _at(at, wrong)

    def _keep(self, value: Any) -> None:
        """Put a value that has ended into the one around it, where that is kept."""
        if not self._frames:
            return
        frame = self._frames[-1]
        if isinstance(frame.value, dict):
            frame.value[str(frame.step)] = value
        elif isinstance(frame.value, list):
            frame.value.append(value)

    def _never(self) -> Problem | None:
        if not self._spot.never:
            return None
        where = pointer(self._place())
        who = where or "The arguments object"
        return Problem("schema", f"{who} is not allowed by the schema.", where)

    def _place(self) -> Place:
        return tuple(frame.step for frame in self._frames)

    def _around(self) -> Place:
        """The place of the container at hand."""
        return self._place()[:-1]


def _at(at: int, problem: Problem | None) -> Problem | None:
    return None if problem is None else replace(problem, offset=at)
