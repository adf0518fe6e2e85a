"""Parses strict JSON: one value, or InvalidJSON with the place, in linear time whatever the text.

Python's own parser reads the text (it is in C) and this file refuses what it lets through:
duplicate keys, NaN, lone surrogates, and anything over the caps. The text is looked at token by
token only to find the place of an error. https://www.rfc-editor.org/rfc/rfc8259
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from math import isfinite, isinf
from typing import Any, NoReturn

from app.core.events import Problem
from app.schema.schema_checks import Place, pointer

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_KEYS = 10_000
MAX_DIGITS = 400
MOST_SEARCHED = 1024 * 1024
"""Characters of a text in which the place of an error is looked for token by token."""

_EXPONENT_LENGTH = 9
# Up to 15 digits within these bounds, any float prints as what was read: no need to compare.
_FLOAT_LENGTH, _FLOAT_LEAST, _FLOAT_MOST = 16, 1e-300, 1e300

_STRUCTURE = re.compile(r'("(?>[^"\\]+|\\.)*+")([ \t\r\n]*+:)?|[{}\[\]]', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONG_NUMBER = re.compile(rf"[0-9][0-9.eE+-]{{{MAX_DIGITS},}}+")
_CONSTANT = re.compile(r'"(?>[^"\\]+|\\.)*+"|(-?Infinity|NaN)', re.DOTALL)
_NUMBER = re.compile(r'"(?>[^"\\]+|\\.)*+"|(-?[0-9][0-9.eE+-]*+)', re.DOTALL)

_LONG = f"this number has more than {MAX_DIGITS} digits"
_DEEP = f"the JSON is nested deeper than {MAX_DEPTH} levels"

_SYNTAX = (
    ("Expecting property name", "a key in double quotes is expected here"),
    ("Expecting value", "a value is expected here"),
    ("Expecting ',' delimiter", "a comma or a closing bracket is expected here"),
    ("Expecting ':' delimiter", "a colon is expected here"),
    ("Unterminated string", "this string is never closed"),
    ("Invalid control character", "a control character must be escaped inside a string"),
    ("Invalid \\", "this is not an escape of JSON"),
    ("Extra data", "the text goes on after its end"),
    ("Illegal trailing comma", "this comma has nothing after it"),
    ("Unexpected UTF-8 BOM", "the text begins with a byte order mark"),
)


class InvalidJSON(ValueError):
    """The text is not sound JSON. `offset` is the character, from 0, or -1 where the text is too
    large to look for it; `problem` is what is wrong, without the place; `str` a sentence."""

    def __init__(self, text: str, offset: int, what: str) -> None:
        where = place_text(text, offset) if offset >= 0 else "Somewhere in this large text"
        super().__init__(f"{where}: {what}.")
        self.offset = offset
        self.line = line_column(text, offset)[0] if offset >= 0 else None
        self.problem = what


def place_text(text: str, offset: int) -> str:
    """The place of a character in words; the sentence of InvalidJSON begins with it."""
    line, column = line_column(text, offset)
    return f"Line {line}, column {column}"


def line_column(text: str, offset: int) -> tuple[int, int]:
    """The line and column of a character, both from 1; lines end at LF."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def parse(text: str, most_bytes: int = MAX_BYTES, most_keys: int = MAX_KEYS) -> Any:
    """The value of one strict JSON text; InvalidJSON otherwise, never another exception.

    `most_bytes` and `most_keys` are for texts that hold more than a call's arguments, such as
    images, or a whole library of tools.

    Numbers too large for a float become exact integers; other floats are rounded as ever, so
    the value is for checking and showing, and the text is what is passed on.
    """
    _check_bytes(text, most_bytes)
    try:
        value = _load(text, most_keys)
    except json.JSONDecodeError as error:
        raise _syntax(text, error) from None
    except RecursionError:
        raise _error_of(text, most_keys, _DEEP) from None
    except _Refused as error:
        raise _error_of(text, most_keys, str(error)) from None
    if is_deeper(value, MAX_DEPTH):
        raise _error_of(text, most_keys, _DEEP)
    _check_surrogates(text)
    return value


class _Refused(Exception):
    """A hook met something that the parser would have let through; `str` says what."""


def _load(text: str, most_keys: int) -> Any:
    keys = 0

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal keys
        value = dict(pairs)
        keys += len(pairs)
        if len(value) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise _Refused(_twice(twice))
        if keys > most_keys:
            raise _Refused(_too_many(most_keys))
        return value

    def refuse(word: str) -> NoReturn:
        raise _Refused(_no_json(word))

    # Hooks on numbers cost a call for each, so they are set only where a number may be long.
    hooks: dict[str, Any] = {"object_pairs_hook": unique, "parse_constant": refuse}
    if _LONG_NUMBER.search(text):
        hooks["parse_int"] = _integer
    return json.loads(text, parse_float=_float, **hooks)


def _integer(word: str) -> int:
    if _too_long(word):
        raise _Refused(_LONG)
    return int(word)


def _float(word: str) -> float | int:
    value = float(word)
    if value and not isinf(value) and len(word) <= MAX_DIGITS:
        return value
    if _too_long(word):
        raise _Refused(_LONG)
    return int(Decimal(word)) if isinf(value) else value


def exact(word: str) -> float | int | Decimal:
    """The very number that a word of a sound text says: a float where one prints as that number,
    else an integer or a decimal. What a Python tool is given (executors/python/runner.py)."""
    value = float(word)
    if len(word) <= _FLOAT_LENGTH and _FLOAT_LEAST < abs(value) < _FLOAT_MOST:
        return value
    number = Decimal(word)
    if isfinite(value) and Decimal(repr(value)) == number:
        return value
    return int(number) if 0 <= number.adjusted() <= MAX_DIGITS and number == int(number) else number


def _too_long(word: str) -> bool:
    """More digits than the cap, as written or written out, or an exponent nobody can hold."""
    mantissa, _, exponent = word.lower().lstrip("-").partition("e")
    if sum(char.isdigit() for char in mantissa) > MAX_DIGITS:
        return True
    if len(exponent.lstrip("+-0")) > _EXPONENT_LENGTH:
        return True
    return isinf(float(word)) and Decimal(word).adjusted() > MAX_DIGITS


def _check_bytes(text: str, most: int) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidJSON(
            text, error.start, "half of a surrogate pair is not a character"
        ) from None
    if size > most:
        raise InvalidJSON(text, 0, f"the text has {size:,} bytes, more than the {most:,} allowed")


def _check_surrogates(text: str) -> None:
    """In sound JSON a backslash stands in strings only, so escapes can be read by themselves."""
    if not _SURROGATE.search(text):
        return
    high = -1  # where a first half waits for its second
    for match in _ESCAPE.finditer(text):
        code = int(match[1], 16) if match[1] else 0
        second = 0xDC00 <= code < 0xE000
        if second and high >= 0 and match.start() == high + 6:
            high = -1
            continue
        if second or high >= 0:
            high = high if high >= 0 else match.start()
            break
        high = match.start() if 0xD800 <= code < 0xDC00 else -1
    if high >= 0:
        raise InvalidJSON(text, high, "half of a surrogate pair is not a character")


def is_deeper(value: Any, most: int) -> bool:
    """Whether a value of JSON is nested deeper than `most` levels."""
    level = [value]
    for _ in range(most + 1):
        level = [item for item in level if type(item) is dict or type(item) is list]
        if not level:
            return False
        level = [
            inner for item in level if item
            for inner in (item.values() if type(item) is dict else item)
        ]  # fmt: skip
    return True


def _syntax(text: str, error: json.JSONDecodeError) -> InvalidJSON:
    if error.pos >= len(text.rstrip(" \t\r\n")) or error.msg.startswith("Unterminated"):
        return InvalidJSON(text, len(text), "the text ends before the JSON is complete")
    what = next((what for start, what in _SYNTAX if error.msg.startswith(start)), error.msg)
    return InvalidJSON(text, error.pos, what)


def _error_of(text: str, most_keys: int, what: str) -> InvalidJSON:
    """`what` was refused, with its place; the first of its kind that is found is named."""
    if len(text) > MOST_SEARCHED:
        return InvalidJSON(text, -1, what)
    places = _structural(text, most_keys)
    if what != _DEEP:
        places = chain(_words(text), places)
    offset, message = next(places, (len(text), "the text ends before the JSON is complete"))
    return InvalidJSON(text, offset, message)


def _words(text: str) -> Iterator[tuple[int, str]]:
    """The words that are no JSON, and the numbers that are too long."""
    for match in _CONSTANT.finditer(text):
        if match[1]:
            yield match.start(1), _no_json(match[1])
    for match in _NUMBER.finditer(text):
        if match[1] and _is_number(match[1]) and _too_long(match[1]):
            yield match.start(1), _LONG


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", word) is not None


def _structural(text: str, most_keys: int) -> Iterator[tuple[int, str]]:
    """What is too deep, a key given twice, or one key too many."""
    open_keys: list[set[str]] = []
    keys = 0
    for match in _STRUCTURE.finditer(text):
        if match[2] is not None and open_keys:
            key = match[1][1:-1] if "\\" not in match[1] else json.loads(match[1], strict=False)
            keys += 1
            if key in open_keys[-1]:
                yield match.start(), _twice(key)
            if keys > most_keys:
                yield match.start(), _too_many(most_keys)
            open_keys[-1].add(key)
        elif match[0] in "{[":
            open_keys.append(set())
            if len(open_keys) > MAX_DEPTH:
                yield match.start(), _DEEP
        elif match[0] in "}]" and open_keys:
            open_keys.pop()


def _twice(key: str) -> str:
    return f"duplicate key {_short(key)}"


def _too_many(most: int) -> str:
    return f"there are more than {most:,} keys"


def _no_json(word: str) -> str:
    return f"{word} is not JSON"


def _short(key: str) -> str:
    word = json.dumps(key)
    return word if len(word) <= 60 else word[:57] + '..."'


# Parses the arguments of a call strictly: the table "When a call may run" in docs/laws.md.
#
# Knows no tool and no schema. What is read is for checking and showing; the raw text is what runs.


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
