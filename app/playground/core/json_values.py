"""Reads JSON that others wrote: nested to a bounded depth, and with exact numbers where asked.

Python's own parser stops at a depth that depends on the version of Python and on the callers. Here
the depth is counted, so that every version reads the same texts.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, NoReturn

MOST_DEEP = 200
"""Deeper values could be parsed, but not traversed by the code that stores and shows them."""

# Possessive match of an unclosed string to the end: retrying at each quote would be O(n²).
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
# Up to 15 digits within these bounds, any float prints exactly as read: no need to compare.
_FLOAT_LENGTH, _FLOAT_LEAST, _FLOAT_MOST = 16, 1e-300, 1e300
_MOST_DIGITS = 400
_DECODER = json.JSONDecoder()
_CONTAINERS = frozenset({dict, list, tuple})


class TooDeepError(ValueError):
    """A JSON value is nested too deep."""

    def __init__(self, most: int = MOST_DEEP) -> None:
        super().__init__(f"it is nested deeper than {most} levels")


class ExactNumber(str):
    """A number as it is written. It never equals a string."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactNumber) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def load_json(text: str | bytes, **hooks: Any) -> Any:
    """The value of the JSON `text`, with the hooks of `json.loads`. ValueError if it is invalid or
    nested deeper than MOST_DEEP."""
    try:
        value = json.loads(text, **hooks)
    except RecursionError:
        raise TooDeepError from None
    if _brackets(text) > MOST_DEEP and is_deeper(value, MOST_DEEP):
        raise TooDeepError
    return value


def load_json_at(text: str, place: int) -> tuple[Any, int]:
    """The value that begins at `place`, and where it ends. ValueError as for `load_json`."""
    try:
        value, end = _DECODER.raw_decode(text, place)
    except RecursionError:
        raise TooDeepError from None
    if is_deeper(value, MOST_DEEP):
        raise TooDeepError
    return value, end


def load_spelled(text: str, **hooks: Any) -> Any:
    """The same as `load_json` with each number as an ExactNumber."""
    return load_json(text, parse_int=ExactNumber, parse_float=ExactNumber, **hooks)


def load_decimals(text: str, **hooks: Any) -> Any:
    """The same as `load_json` with each number as a Decimal. ValueError if one is too
    large for that."""
    try:
        return load_json(text, parse_int=Decimal, parse_float=Decimal, **hooks)
    except InvalidOperation:
        raise ValueError("it holds a number that is too large") from None


def load_exact(text: str) -> Any:
    """The same as `load_json` with each number as `exact_number` returns it."""
    return load_json(text, parse_float=exact_number)


def exact_number(word: str) -> float | int | Decimal:
    """The number in `word`: a float if that prints as the same number, else an integer or a
    Decimal. The runner of Python tools has the same function (executors/python/runner.py)."""
    value = float(word)
    if len(word) <= _FLOAT_LENGTH and _FLOAT_LEAST < abs(value) < _FLOAT_MOST:
        return value
    number = Decimal(word)
    if isfinite(value) and Decimal(repr(value)) == number:
        return value
    return (
        int(number) if 0 <= number.adjusted() <= _MOST_DIGITS and number == int(number) else number
    )


def float_words(text: str) -> list[str]:
    """The numbers of the JSON `text` that are not written as integers. ValueError as above."""
    words: list[str] = []
    load_json(text, parse_float=words.append)
    return words


def refuse_constant(name: str) -> NoReturn:
    """The hook `parse_constant` for a text in which NaN and Infinity are invalid."""
    raise ValueError(f"{name} is not JSON")


def is_too_deep(text: str) -> bool:
    """Whether the JSON `text` is nested deeper than MOST_DEEP."""
    if len(text) <= 2 * MOST_DEEP or text.count("[") + text.count("{") <= MOST_DEEP:
        return False
    depth = 0
    for hit in _BRACKETS.finditer(text):
        match hit.group():
            case "[" | "{":
                depth += 1
                if depth > MOST_DEEP:
                    return True
            case "]" | "}":
                depth -= 1
            case _:
                pass
    return False


def is_deeper(value: Any, most: int) -> bool:
    """Whether a JSON value is nested deeper than `most` levels."""
    level = [value]
    for _ in range(most + 1):
        level = [item for item in level if type(item) in _CONTAINERS]
        if not level:
            return False
        level = [
            inner for item in level if item
            for inner in (item.values() if type(item) is dict else item)
        ]  # fmt: skip
    return True


def _brackets(text: str | bytes) -> int:
    """The number of values that may nest: most texts have too few to be deep."""
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")
