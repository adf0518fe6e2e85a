"""Tests of a call's arguments by JSON pointer: {POINTER: value or {TEST: ...}}, all must hold.

A test is `equals`, `prefix`, `glob` (as of file names, * also over /) or `one_of`; a bare value is
`equals`. Pointers: RFC 6901.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

TESTS = ("equals", "prefix", "glob", "one_of")


class Absent:
    """Stands for a value that is not there; null is one."""


ABSENT = Absent()


def fits(when: Mapping[str, Any], arguments: str) -> bool:
    """Whether all tests hold for the text `arguments`; False where that is no JSON."""
    try:
        values = json.loads(arguments, parse_int=decimal.Decimal, parse_float=decimal.Decimal)
    except (ValueError, RecursionError):
        return False
    return all(holds(test, value_at(values, pointer)) for pointer, test in when.items())


def value_at(document: Any, pointer: str) -> Any:
    """What stands at `pointer`, or ABSENT."""
    return at(document, steps_of(pointer))


def at(document: Any, steps: Sequence[str]) -> Any:
    """What stands at `steps`, names and places in arrays, or ABSENT."""
    here = document
    for step in steps:
        match here:
            case dict() if step in here:
                here = here[step]
            case list() if step.isascii() and step.isdigit() and int(step[:9]) < len(here):
                here = here[int(step[:9])]
            case _:
                return ABSENT
    return here


def steps_of(pointer: str) -> list[str]:
    """The names and places that lead to a JSON pointer's value."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def holds(test: Any, value: Any) -> bool:
    """Whether one test holds for `value`, whose numbers are Decimals. Nothing holds for ABSENT."""
    if value is ABSENT:
        return False
    match test:
        case {"equals": wanted, **rest} if not rest:
            return equal(wanted, value)
        case {"prefix": str(start), **rest} if not rest:
            return isinstance(value, str) and value.startswith(start)
        case {"glob": str(pattern), **rest} if not rest:
            return isinstance(value, str) and fnmatchcase(value, pattern)
        case {"one_of": list(options) | tuple(options), **rest} if not rest:
            return any(equal(option, value) for option in options)
    return equal(test, value)


def equal(wanted: Any, value: Any) -> bool:
    """As JSON compares: 1 is 1.0, and true is no number."""
    match wanted, value:
        case bool() | None, _:
            return wanted is value
        case int() | float(), decimal.Decimal():
            return decimal.Decimal(repr(wanted)) == value
        case list(), list():
            return len(wanted) == len(value) and all(map(equal, wanted, value))
        case dict(), dict():
            same = wanted.keys() == value.keys()
            return same and all(equal(item, value[name]) for name, item in wanted.items())
        case str(), str():
            return bool(wanted == value)
    return False
