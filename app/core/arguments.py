"""The arguments of a call: parse and compare them, and test them by JSON pointer.

Tests are {POINTER: value or {TEST: ...}}, and all must hold. A test is `equals`, `prefix`, `glob`
(as of file names, * also over /) or `one_of`; a bare value is `equals`. Pointers: RFC 6901.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

TESTS = ("equals", "prefix", "glob", "one_of")


class Absent:
    """Stands for a value that is not there; null is one."""


ABSENT = Absent()


def values_of(arguments: str) -> Any:
    """The values that the text `arguments` spells, numbers as Decimals; ABSENT where it is no
    JSON, or a number is none that can be kept."""
    try:
        return json.loads(arguments, parse_int=decimal.Decimal, parse_float=decimal.Decimal)
    except (ValueError, RecursionError, decimal.InvalidOperation):
        return ABSENT


def fits(when: Mapping[str, Any], arguments: str) -> bool:
    """Whether all tests hold for the text `arguments`; False where that is no JSON."""
    return all_hold(when, values_of(arguments))


def all_hold(when: Mapping[str, Any], values: Any) -> bool:
    """Whether all tests hold for what `values_of` gave; none holds for ABSENT."""
    if values is ABSENT:
        return False
    try:
        return all(holds(test, value_at(values, pointer)) for pointer, test in when.items())
    except RecursionError:
        return False


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
            case list() if _PLACE.fullmatch(step) and int(step) < len(here):
                here = here[int(step)]
            case _:
                return ABSENT
    return here


_PLACE = re.compile(r"0|[1-9][0-9]{0,8}")
"""A place in an array: "01" is none, by RFC 6901."""


def steps_of(pointer: str) -> list[str]:
    """The names and places that lead to a JSON pointer's value."""
    return [name_of_step(step) for step in pointer.split("/")[1:]]


def pointer_step(name: str) -> str:
    """A name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def name_of_step(step: str) -> str:
    """The name that a step of a JSON pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")


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
    """As JSON compares: 1 is 1.0, and true is no number. The numbers of `value` are Decimals."""
    match wanted, value:
        case bool() | None, _:
            return wanted is value
        case int() | float(), decimal.Decimal():
            return _decimal(wanted) == value
        case decimal.Decimal(), decimal.Decimal():
            return wanted == value
        case list() | tuple(), list():
            return len(wanted) == len(value) and all(map(equal, wanted, value))
        case dict(), dict():
            same = wanted.keys() == value.keys()
            return same and all(equal(item, value[name]) for name, item in wanted.items())
        case str(), str():
            return bool(wanted == value)
    return False


def _decimal(number: int | float) -> decimal.Decimal | None:
    """To the last digit; None where there are more than Python writes down."""
    try:
        return decimal.Decimal(repr(number))
    except ValueError:
        return None


def same_arguments(left: str, right: str) -> bool:
    """Whether two texts spell the same arguments; what is no JSON is the same to the letter."""
    return left == right or canonical(left) == canonical(right)


def canonical(arguments: str) -> str:
    """The same text for two texts exactly where they spell the same values, as JSON compares."""
    if arguments.strip() in ("", "null"):
        return "{}"
    values = values_of(arguments)
    try:
        return arguments if values is ABSENT else canonical_value(values, DEEPEST)
    except RecursionError:
        return arguments


DEEPEST = 64
"""No sound arguments are nested deeper; others are compared as text."""


def canonical_value(value: Any, depth: int) -> str:
    """The same for a value whose numbers are Decimals; RecursionError where it has `depth` levels
    or more, of which a plain value is one."""
    if not depth:
        raise RecursionError
    match value:
        case dict():
            pairs = sorted(value.items())
            members = (
                f"{json.dumps(name)}:{canonical_value(item, depth - 1)}" for name, item in pairs
            )
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(canonical_value(item, depth - 1) for item in value)}]"
        case decimal.Decimal():
            return _digits(value)
    return json.dumps(value)


def _digits(number: decimal.Decimal) -> str:
    """All of them: 1, 1.0 and 10e-1 are the same number, and so the same text."""
    if not number:
        return "0"
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "JSON has no other numbers"
    significant = "".join(map(str, digits)).rstrip("0")
    return f"{'-' if sign else ''}{significant}e{exponent + len(digits) - len(significant)}"
