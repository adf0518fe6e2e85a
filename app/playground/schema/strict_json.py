"""Parses strict JSON in linear time whatever the text: one value, or InvalidJSON with the place; or
a text as it arrives, cut anywhere.

Python's own parser (in C) reads a whole text and this module refuses what it accepts: duplicate
keys, NaN, lone surrogates, and anything over the caps. The text is scanned token by token only to
find the place of an error. https://www.rfc-editor.org/rfc/rfc8259
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from math import isinf
from typing import Any, NoReturn, Protocol

from playground.core.events import Problem
from playground.core.json_values import is_deeper, is_too_deep, load_exact
from playground.schema.schema_checks import Place, pointer

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_KEYS = 10_000
MAX_DIGITS = 400
MOST_SEARCHED = 1024 * 1024
"""Maximum length in characters of a text in which the place of an error is searched."""

_EXPONENT_LENGTH = 9

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
    ("Invalid control character", "a control character in a string must be escaped"),
    ("Invalid \\", "this is not a JSON escape"),
    ("Extra data", "the text continues after the end of the JSON"),
    ("Illegal trailing comma", "this comma has nothing after it"),
    ("Unexpected UTF-8 BOM", "the text begins with a byte order mark"),
)

EXACT = 2**53
"""Beyond it a double cannot represent every integer."""

_BLANK = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]++")

# Plain characters and whole escapes; surrogates only as a pair. Possessive, because storing
# backtracking positions costs much memory if there are many escapes.
_RUN = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})++"
)
_STRING = re.compile(r'"([^"\\\x00-\x1f]*+)"')

# A number has ended only if another character follows.
_ENDED_NUMBER = re.compile(
    r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+(?=[ \t\r\n,\]}])"
)
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPES = frozenset('"\\/bfnrtu')
_HEX = frozenset("0123456789abcdefABCDEF")
_WORDS = {"t": "true", "f": "false", "n": "null"}
_VALUES = {"true": True, "false": False, "null": None}

_SHORT = 15
"""Numbers up to this length are parsed equally by every parser."""

_DIGIT, _ZERO, _SIGN, _POINT, _E = range(5)
_CLASSES = {**dict.fromkeys("123456789", _DIGIT), "0": _ZERO, "-": _SIGN, "+": _SIGN, ".": _POINT}

_STEPS = {
    ("minus", _DIGIT): "integer",
    ("minus", _ZERO): "zero",
    ("zero", _POINT): "point",
    ("zero", _E): "e",
    ("integer", _DIGIT): "integer",
    ("integer", _ZERO): "integer",
    ("integer", _POINT): "point",
    ("integer", _E): "e",
    ("point", _DIGIT): "fraction",
    ("point", _ZERO): "fraction",
    ("fraction", _DIGIT): "fraction",
    ("fraction", _ZERO): "fraction",
    ("fraction", _E): "e",
    ("e", _SIGN): "sign",
    ("e", _DIGIT): "exponent",
    ("e", _ZERO): "exponent",
    ("sign", _DIGIT): "exponent",
    ("sign", _ZERO): "exponent",
    ("exponent", _DIGIT): "exponent",
    ("exponent", _ZERO): "exponent",
}
_MANTISSA = ("zero", "integer", "fraction")
_WHOLE = ("zero", "integer", "fraction", "exponent")

_EXPECTED = {
    "value": "a value is expected here",
    "item": "a value is expected here",
    "key": "a key in double quotes is expected here",
    "first": "a key in double quotes is expected here",
    "colon": "a colon is expected here",
    "next": "a comma or a closing bracket is expected here",
    "end": "the text continues after the end of the JSON",
    "null": "the text continues after the end of the JSON",
}


class InvalidJSON(ValueError):
    """The text is not valid JSON. `offset` is the character, from 0, or -1 if the text is too large
    to search; `problem` is the error, without the place; `str` a sentence."""

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

    `most_bytes` and `most_keys` are for texts larger than a call's arguments, such as images, or a
    whole library of tools.

    Numbers too large for a float become exact integers; other floats are rounded as usual, so the
    value is for checking and display, and the text is what is passed on.
    """
    _check_bytes(text, most_bytes)
    try:
        value = _load(text, most_keys)
    except json.JSONDecodeError as error:
        if is_too_deep(text[: error.pos]):
            raise _error_of(text, most_keys, _DEEP) from None
        raise _syntax(text, error) from None
    except RecursionError:
        raise _error_of(text, most_keys, _DEEP) from None
    except _RefusedError as error:
        what = _DEEP if is_too_deep(text) else str(error)
        raise _error_of(text, most_keys, what) from None
    if is_deeper(value, MAX_DEPTH):
        raise _error_of(text, most_keys, _DEEP)
    _check_surrogates(text)
    return value


class _RefusedError(Exception):
    """A hook found something that the parser would accept; `str` says what."""


def _load(text: str, most_keys: int) -> Any:
    keys = 0

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal keys
        value = dict(pairs)
        keys += len(pairs)
        if len(value) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise _RefusedError(_duplicate_note(twice))
        if keys > most_keys:
            raise _RefusedError(_too_many(most_keys))
        return value

    def refuse(word: str) -> NoReturn:
        raise _RefusedError(_no_json(word))

    # A hook on numbers costs a call for each, so they are set only if a number may be long.
    hooks: dict[str, Any] = {"object_pairs_hook": unique, "parse_constant": refuse}
    if _LONG_NUMBER.search(text):
        hooks["parse_int"] = _integer
    return json.loads(text, parse_float=_float, **hooks)


def _integer(word: str) -> int:
    if _too_long(word):
        raise _RefusedError(_LONG)
    return int(word)


def _float(word: str) -> float | int:
    value = float(word)
    if value and not isinf(value) and len(word) <= MAX_DIGITS:
        return value
    if _too_long(word):
        raise _RefusedError(_LONG)
    return int(Decimal(word)) if isinf(value) else value


def _too_long(word: str) -> bool:
    """More digits than the cap, as written or expanded, or an unrepresentable exponent."""
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
    """In valid JSON a backslash occurs only in strings, so escapes can be read separately."""
    if not _SURROGATE.search(text):
        return
    high = -1  # the position after a high surrogate
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


def _syntax(text: str, error: json.JSONDecodeError) -> InvalidJSON:
    if error.pos >= len(text.rstrip(" \t\r\n")) or error.msg.startswith("Unterminated"):
        return InvalidJSON(text, len(text), "the text ends before the JSON is complete")
    what = next((what for start, what in _SYNTAX if error.msg.startswith(start)), error.msg)
    return InvalidJSON(text, error.pos, what)


def _error_of(text: str, most_keys: int, what: str) -> InvalidJSON:
    """`what` was refused, with its place; the first occurrence that is found is named."""
    if len(text) > MOST_SEARCHED:
        return InvalidJSON(text, -1, what)
    places = _structure_faults(text, most_keys)
    if what != _DEEP:
        places = chain(_words(text), places)
    offset, message = next(places, (len(text), "the text ends before the JSON is complete"))
    return InvalidJSON(text, offset, message)


def _words(text: str) -> Iterator[tuple[int, str]]:
    """The words that are not JSON, and the numbers that are too long."""
    for match in _CONSTANT.finditer(text):
        if match[1]:
            yield match.start(1), _no_json(match[1])
    for match in _NUMBER.finditer(text):
        if match[1] and _is_number(match[1]) and _too_long(match[1]):
            yield match.start(1), _LONG


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", word) is not None


def _structure_faults(text: str, most_keys: int) -> Iterator[tuple[int, str]]:
    """Nesting that is too deep, a duplicate key, or one key too many."""
    open_keys: list[set[str]] = []
    keys = 0
    for match in _STRUCTURE.finditer(text):
        if match[2] is not None and open_keys:
            key = match[1][1:-1] if "\\" not in match[1] else json.loads(match[1], strict=False)
            keys += 1
            if key in open_keys[-1]:
                yield match.start(), _duplicate_note(key)
            if keys > most_keys:
                yield match.start(), _too_many(most_keys)
            open_keys[-1].add(key)
        elif match[0] in "{[":
            open_keys.append(set())
            if len(open_keys) > MAX_DEPTH:
                yield match.start(), _DEEP
        elif match[0] in "}]" and open_keys:
            open_keys.pop()


def _duplicate_note(key: str) -> str:
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
# Knows no tool and no schema. The value is for checking and display; the raw text is what runs.


@dataclass(frozen=True)
class Arguments:
    """`value` is None if the text is malformed, and then `problems` says why."""

    value: dict[str, Any] | None
    problems: tuple[Problem, ...] = ()


def read_arguments(raw: str) -> Arguments:
    """Parses `raw` as one JSON object. Never raises; costs O(len(raw))."""
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
    """Notes on valid input that is unusual: at most one of each kind."""
    kinds: set[bool] = set()
    for place, odd in _oddities(load_exact(raw)):
        is_text = isinstance(odd, str)
        if is_text in kinds:
            continue
        kinds.add(is_text)
        where = pointer(place)
        if is_text:
            yield Problem("note", f"{where} contains a NUL character.", where)
        else:
            message = (
                f"{where} is a number that many programs would round. It runs with its exact "
                "digits."
            )
            yield Problem("note", message, where)


def _oddities(value: dict[str, Any]) -> Iterator[tuple[Place, int | Decimal | str]]:
    """Numbers that no double represents, strings with a NUL. The depth is capped already."""
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


# Incremental parsing ------------------------------------------------------------------------------
# Cut anywhere, as strict as above, and each error is reported at the character that makes it
# certain: a walker is called token by token. Linear in the text; stores the current token, the open
# containers and their keys. Knows no schema.


_CLASSES |= {"e": _E, "E": _E}


class Walker(Protocol):
    """Called with valid JSON. `at` is the first character of the token; each may report a
    problem."""

    def begin_value(self, at: int) -> Problem | None: ...
    def open_container(self, kind: str, at: int) -> Problem | None: ...
    def key(self, name: str, at: int) -> Problem | None: ...
    def scalar(self, value: Any, at: int) -> Problem | None: ...
    def close_container(self, at: int) -> Problem | None: ...


class IncrementalReader:
    """One text of arguments. `closed`: its object is complete."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._expects = "root"
        self._open: list[set[str] | None] = []  # the keys of an object; None is an array
        self._keys = 0
        self._bytes = 0
        self._base = 0  # characters before the current piece
        self._half = ""  # a high surrogate at the end of a piece
        self._odd = -1  # the offset of white space that JSON does not allow
        self._line, self._line_start = 1, 0
        self._token = ""  # "string", "number" or "word": the incomplete one
        self._start = 0
        self._pieces: list[str] = []
        self._escape = ""
        self._high = False  # the string's last character was an escaped high surrogate
        self._number, self._digits = "", 0

    @property
    def closed(self) -> bool:
        return self._expects == "end"

    def feed(self, text: str) -> Problem | None:
        """Reads the next piece; returns the first problem, after which nothing may be fed."""
        lone = -1
        if self._half or not text.isascii():
            text, lone = self._join_surrogates(text)
        self._bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._bytes > MAX_BYTES:
            return self._malformed(0, f"the text has more than the {MAX_BYTES:,} bytes allowed")
        problem = self._read(text if lone < 0 else text[:lone])
        if problem is None and lone >= 0:
            return self._malformed(self._base, "half of a surrogate pair is not a character")
        return problem

    def _join_surrogates(self, text: str) -> tuple[str, int]:
        """`text` with surrogate pairs joined, and the position of a lone surrogate, or -1."""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if _HALF.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        match = _HALF.search(text)
        return text, match.start() if match else -1

    def _read(self, text: str) -> Problem | None:
        place, problem = 0, None
        while place < len(text) and problem is None:
            match self._token:
                case "string":
                    place, problem = self._in_string(text, place)
                case "number":
                    place, problem = self._in_number(text, place)
                case "word":
                    place, problem = self._in_word(text, place)
                case _:
                    place, problem = self._read_token(text, place)
        self._base += len(text)
        return problem

    def _read_token(self, text: str, place: int) -> tuple[int, Problem | None]:
        """One token, or its beginning if the text is cut within it."""
        char, at = text[place], self._base + place
        if char in _BLANK:
            return self._skip_blank(text, place), None
        match self._expects:
            case "root":
                return place + 1, self._root(char, at)
            case "next" if char in ",}]":
                return place + 1, self._after_value(char, at)
            case "colon" if char == ":":
                self._expects = "value"
                return place + 1, None
            case "first" | "item" if char in "}]" and (char == "}") == (self._expects == "first"):
                return place + 1, self._close(at)
            case "key" | "first" if char == '"':
                return self._string(text, place)
            case "value" | "item" if char in '"-0123456789tfn{[':
                problem = self._walker.begin_value(at)
                return (place, problem) if problem else self._value(text, place)
            case "null" if char.isspace():
                return place + 1, None
        return place, self._malformed(at, _EXPECTED[self._expects])

    def _skip_blank(self, text: str, place: int) -> int:
        match = _SPACE.match(text, place)
        assert match is not None
        lines = match[0].count("\n")
        if lines:
            self._line += lines
            self._line_start = self._base + match.start() + match[0].rfind("\n") + 1
        return match.end()

    def _root(self, char: str, at: int) -> Problem | None:
        """Arguments are an object. Nothing, or null, represents an empty one, with any white space
        around it; white space that JSON does not allow makes an object invalid."""
        if char.isspace():
            self._odd = at if self._odd < 0 else self._odd
            return None
        if char == "n":
            self._token, self._start, self._pieces = "word", at, [char]
            return None
        if char in '"[' and self._odd < 0:
            what = "a string" if char == '"' else "an array"
            message = f"The arguments are {what}; a call needs a JSON object."
            return Problem("malformed", message, offset=at)
        if char != "{" or self._odd >= 0:
            where = at if self._odd < 0 else self._odd
            return self._malformed(where, "a JSON object is expected here, which begins with {")
        return self._walker.begin_value(at) or self._container("{", at)

    def _value(self, text: str, place: int) -> tuple[int, Problem | None]:
        char, at = text[place], self._base + place
        match char:
            case '"':
                return self._string(text, place)
            case "{" | "[":
                return place + 1, self._container(char, at)
            case "t" | "f" | "n":
                self._token, self._start, self._pieces = "word", at, [char]
                return place + 1, None
        if match := _ENDED_NUMBER.match(text, place):
            return match.end(), self._numeral(match[0], at)
        first = _CLASSES[char]
        self._number = {_SIGN: "minus", _ZERO: "zero"}.get(first, "integer")
        self._digits = int(first != _SIGN)
        self._token, self._start, self._pieces = "number", at, [char]
        return place + 1, None

    def _container(self, kind: str, at: int) -> Problem | None:
        self._open.append(set() if kind == "{" else None)
        self._expects = "first" if kind == "{" else "item"
        if len(self._open) > MAX_DEPTH:
            return self._malformed(at, f"the JSON is nested deeper than {MAX_DEPTH} levels")
        return self._walker.open_container(kind, at)

    def _after_value(self, char: str, at: int) -> Problem | None:
        in_object = self._open[-1] is not None
        if char == ",":
            self._expects = "key" if in_object else "value"
            return None
        if (char == "}") != in_object:
            return self._malformed(at, _EXPECTED["next"])
        return self._close(at)

    def _close(self, at: int) -> Problem | None:
        self._open.pop()
        self._expects = "next" if self._open else "end"
        return self._walker.close_container(at)

    def _string(self, text: str, place: int) -> tuple[int, Problem | None]:
        self._start = self._base + place
        if match := _STRING.match(text, place):
            return match.end(), self._end_string(match[1])
        self._token, self._pieces, self._escape, self._high = "string", [], "", False
        return place + 1, None

    def _in_string(self, text: str, place: int) -> tuple[int, Problem | None]:
        """Continues a string: a run of characters, a cut or invalid escape, or its end."""
        char, at = text[place], self._base + place
        if self._escape:
            return place + 1, self._in_escape(char, at)
        if not self._high and (match := _RUN.match(text, place)):
            self._pieces.append(match[0])
            return match.end(), None
        if char == "\\":
            self._escape = char
            return place + 1, None
        if self._high:
            return place, self._malformed(at - 6, "half of a surrogate pair is not a character")
        if char != '"':
            return place, self._malformed(at, "a control character in a string must be escaped")
        self._token = ""
        literal = "".join(self._pieces)
        value = json.loads(f'"{literal}"') if "\\" in literal else literal
        return place + 1, self._end_string(value)

    def _in_escape(self, char: str, at: int) -> Problem | None:
        escape = self._escape = self._escape + char
        begins = at + 1 - len(escape)
        if char not in (_ESCAPES if len(escape) == 2 else _HEX):
            return self._malformed(begins, "this is not a JSON escape")
        if escape[1] == "u" and len(escape) < 6:
            return None
        code = int(escape[2:], 16) if escape[1] == "u" else 0
        if (0xDC00 <= code < 0xE000) != self._high:
            wrong = begins - 6 if self._high else begins
            return self._malformed(wrong, "half of a surrogate pair is not a character")
        self._high = 0xD800 <= code < 0xDC00
        self._pieces.append(escape)
        self._escape = ""
        return None

    def _end_string(self, value: str) -> Problem | None:
        """A string has ended: a key or a value."""
        if self._expects not in ("key", "first"):
            self._expects = "next"
            return self._walker.scalar(value, self._start)
        names = self._open[-1]
        assert names is not None
        self._keys += 1
        if value in names:
            word = json.dumps(value)
            word = word if len(word) <= 60 else word[:57] + '..."'
            what = f"duplicate key {word}"
            return self._malformed(self._start, what)
        if self._keys > MAX_KEYS:
            return self._malformed(self._start, f"there are more than {MAX_KEYS:,} keys")
        names.add(value)
        self._expects = "colon"
        return self._walker.key(value, self._start)

    def _in_number(self, text: str, place: int) -> tuple[int, Problem | None]:
        begin = place
        while place < len(text):
            step = _STEPS.get((self._number, _CLASSES.get(text[place], -1)))
            if step is None:
                break
            self._number = step
            self._digits += step in _MANTISSA
            place += 1
        self._pieces.append(text[begin:place])
        if self._digits > MAX_DIGITS:
            return place, self._malformed(
                self._start, f"this number has more than {MAX_DIGITS} digits"
            )
        if place == len(text):
            return place, None
        if self._number not in _WHOLE:
            return place, self._malformed(self._base + place, "a digit is expected here")
        if text[place] not in ",]} \t\r\n":
            return place, self._malformed(self._base + place, _EXPECTED["next"])
        self._token = ""
        return place, self._numeral("".join(self._pieces), self._start)

    def _numeral(self, literal: str, at: int) -> Problem | None:
        self._expects = "next"
        try:
            short = len(literal) <= _SHORT and literal.lstrip("-").isdigit()
            value = int(literal) if short else parse(literal)
        except InvalidJSON as error:
            return self._malformed(at, error.problem)
        return self._walker.scalar(value, at)

    def _in_word(self, text: str, place: int) -> tuple[int, Problem | None]:
        word = _WORDS[self._pieces[0]]
        length = len(self._pieces)
        if text[place] != word[length]:
            return place, self._malformed(self._start, "a value is expected here")
        self._pieces.append(text[place])
        if length + 1 < len(word):
            return place + 1, None
        self._token = ""
        if self._expects == "root":
            self._expects = "null"
            return place + 1, None
        self._expects = "next"
        return place + 1, self._walker.scalar(_VALUES[word], self._start)

    def _malformed(self, at: int, what: str) -> Problem:
        column = at - self._line_start + 1
        return Problem("malformed", f"Line {self._line}, column {column}: {what}.", offset=at)
