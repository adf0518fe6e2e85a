"""Parses the arguments of a call strictly: the table "When a call may run" in docs/laws.md.

Knows no tool and no schema. What is read is for checking and showing; the raw text is what runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from app.core.events import Problem
from app.schema.keywords import Place, pointer
from app.schema.strict_json import InvalidJSON, exact, parse

EXACT = 2**53
"""Beyond it a double holds no longer every integer."""


@dataclass(frozen=True)
class Arguments:
    """`value` is None where the text is malformed, and then `problems` says why."""

    value: dict[str, Any] | None
    problems: tuple[Problem, ...] = ()


def read_arguments(raw: str) -> Arguments:
    """Read `raw` as one JSON object. Never raises; costs O(len(raw))."""
    if raw.strip() in ("", "null"):
        what = "null" if raw.strip() else "nothing"
        note = Problem("note", f"The model sent {what} as arguments; {{}} is passed.")
        return Arguments({}, (note,))
    try:
        value = parse(raw)
    except InvalidJSON as error:
        return Arguments(None, (Problem("malformed", str(error), offset=error.offset),))
    if not isinstance(value, dict):
        return Arguments(None, (_not_object(raw, value),))
    return Arguments(value, tuple(_notes(raw)))


def _not_object(raw: str, value: Any) -> Problem:
    offset = len(raw) - len(raw.lstrip())
    what, fix = f"The arguments are {kind_of(value)}", ""
    if isinstance(value, str):
        inner = read_arguments(value)
        if inner.value is not None and value.strip() not in ("", "null"):
            what, fix = "The arguments were encoded twice: they are a string that holds JSON", value
    return Problem("malformed", f"{what}; a call needs a JSON object.", offset=offset, fix=fix)


def kind_of(value: Any) -> str:
    """`a string`, `an integer`, ... : the JSON type of a value, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"


def _notes(raw: str) -> Iterator[Problem]:
    """What is sound and yet worth saying: at most one note of each kind."""
    kinds: set[bool] = set()
    for place, odd in _oddities(json.loads(raw, parse_float=exact)):
        is_text = isinstance(odd, str)
        if is_text in kinds:
            continue
        kinds.add(is_text)
        where = pointer(place)
        if is_text:
            yield Problem("note", f"{where} holds a NUL character.", where)
        else:
            message = f"{where} is a number that many programs would round; its exact digits run."
            yield Problem("note", message, where)


def _oddities(value: dict[str, Any]) -> Iterator[tuple[Place, int | Decimal | str]]:
    """Numbers that no double holds, strings with a NUL. The depth is capped by now."""
    todo: list[tuple[Place, Any]] = [((), value)]
    while todo:
        place, inner = todo.pop()
        members = inner.items() if isinstance(inner, dict) else enumerate(inner)
        for step, item in members:
            if isinstance(step, str) and "\0" in step:
                yield (*place, step), step
            match item:
                case dict() | list():
                    todo.append(((*place, step), item))
                case str() if "\0" in item:
                    yield (*place, step), item
                case int() if abs(item) > EXACT:
                    yield (*place, step), item
                case Decimal():
                    yield (*place, step), item


def json_text(value: Any) -> str:
    """`value` as compact JSON for a sentence or a fix."""
    return json.dumps(value, ensure_ascii=False)
