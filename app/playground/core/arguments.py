"""Arguments of a call: parses, compares and tests them by JSON pointer.

Tests are {POINTER: value or {TEST: ...}}; all must pass. A test is `equals`, `prefix`, `glob` (as
for file names, but * also matches /) or `one_of`; a bare value means `equals`. Pointers: RFC 6901.
"""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from playground.core.json_values import TooDeepError, load_decimals

TESTS = ("equals", "prefix", "glob", "one_of")

_PLACE = re.compile(r"0|[1-9][0-9]{0,8}")
"""An array index: "01" is invalid by RFC 6901."""

DEEPEST = 64
"""Valid arguments are never nested deeper; deeper ones are compared as text."""


class AbsentValue:
    """A missing value; null is a value."""


ABSENT = AbsentValue()


def values_of(arguments: str) -> Any:
    """The value of the JSON text `arguments`, numbers as Decimals; ABSENT if it is invalid JSON,
    nested too deep, or a number cannot be represented."""
    try:
        return load_decimals(arguments)
    except ValueError:
        return ABSENT


def fits(when: Mapping[str, Any], arguments: str) -> bool:
    """Whether the text `arguments` satisfies all tests; False if it is invalid JSON."""
    return passes_tests(when, values_of(arguments))


def passes_tests(when: Mapping[str, Any], values: Any) -> bool:
    """Whether a result of `values_of` satisfies all tests; ABSENT satisfies none."""
    if values is ABSENT:
        return False
    return all(passes_test(test, value_at(values, pointer)) for pointer, test in when.items())


def value_at(document: Any, pointer: str) -> Any:
    """The value at `pointer`, or ABSENT."""
    return value_at_steps(document, steps_of(pointer))


def value_at_steps(document: Any, steps: Sequence[str]) -> Any:
    """The value at `steps` (names and array indexes), or ABSENT."""
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


def steps_of(pointer: str) -> list[str]:
    """The unescaped steps of a JSON pointer."""
    return [name_of_step(step) for step in pointer.split("/")[1:]]


def pointer_step(name: str) -> str:
    """A name escaped as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def name_of_step(step: str) -> str:
    """The name of an escaped step of a JSON pointer."""
    return step.replace("~1", "/").replace("~0", "~")


def passes_test(test: Any, value: Any) -> bool:
    """Whether `value`, with numbers as Decimals, satisfies one test. ABSENT satisfies none."""
    if value is ABSENT:
        return False
    match test:
        case {"equals": wanted, **rest} if not rest:
            return is_json_equal(wanted, value)
        case {"prefix": str(start), **rest} if not rest:
            return isinstance(value, str) and value.startswith(start)
        case {"glob": str(pattern), **rest} if not rest:
            return isinstance(value, str) and fnmatchcase(value, pattern)
        case {"one_of": list(options) | tuple(options), **rest} if not rest:
            return any(is_json_equal(option, value) for option in options)
    return is_json_equal(test, value)


def is_json_equal(wanted: Any, value: Any) -> bool:
    """JSON equality: 1 equals 1.0, and true is no number. The numbers of `value` are Decimals."""
    pairs = [(wanted, value)]
    while pairs:
        left, right = pairs.pop()
        match left, right:
            case list() | tuple(), list() if len(left) == len(right):
                pairs += zip(left, right, strict=True)
            case dict(), dict() if left.keys() == right.keys():
                pairs += ((item, right[name]) for name, item in left.items())
            case _ if not _equal_scalars(left, right):
                return False
    return True


def _equal_scalars(wanted: Any, value: Any) -> bool:
    match wanted, value:
        case bool() | None, _:
            return wanted is value
        case int() | float(), decimal.Decimal():
            return _decimal(wanted) == value
        case decimal.Decimal(), decimal.Decimal():
            return wanted == value
        case str(), str():
            return bool(wanted == value)
    return False


def _decimal(number: int | float) -> decimal.Decimal | None:
    """The exact value; None if it has more digits than Python prints."""
    try:
        return decimal.Decimal(repr(number))
    except ValueError:
        return None


def same_arguments(left: str, right: str) -> bool:
    """Whether two texts are the same arguments; invalid JSON must be identical text."""
    return left == right or canonical_text(left) == canonical_text(right)


def canonical_text(arguments: str) -> str:
    """A text that is equal for two texts exactly if their JSON values are equal."""
    if arguments.strip() in ("", "null"):
        return "{}"
    values = values_of(arguments)
    try:
        return arguments if values is ABSENT else canonical_value(values, DEEPEST)
    except TooDeepError:
        return arguments


def canonical_value(value: Any, depth: int) -> str:
    """The same for a value with numbers as Decimals; TooDeep if it has `depth` or more levels,
    counting a plain value as one."""
    if not depth:
        raise TooDeepError
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
    """All digits, normalized: 1, 1.0 and 10e-1 are the same number, so the same text."""
    if not number:
        return "0"
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "JSON has no other numbers"
    significant = "".join(map(str, digits)).rstrip("0")
    return f"{'-' if sign else ''}{significant}e{exponent + len(digits) - len(significant)}"
