"""Parses JSON as it arrives, cut anywhere, and calls a walker token by token.

As strict as `strict_json`, and each fault is reported at the character that makes it certain.
Linear in the text; keeps the token at hand, the open containers and their keys. Knows no schema.
"""

from __future__ import annotations

import json
import re
from typing import Any, Protocol

from app.core.events import Problem
from app.schema.strict_json import MAX_BYTES, MAX_DEPTH, MAX_DIGITS, MAX_KEYS, InvalidJSON, parse

_BLANK = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]++")
# Plain characters and whole escapes; of halves of a character only both together. What has matched
# is never given back: to remember it costs much memory where there are many escapes.
_RUN = re.compile(
    r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})++"
)
_STRING = re.compile(r'"([^"\\\x00-\x1f]*+)"')
# A number has ended only where something else stands behind it.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?+[0-9]++)?+(?=[ \t\r\n,\]}])")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = frozenset('"\\/bfnrtu')
_HEX = frozenset("0123456789abcdefABCDEF")
_WORDS = {"t": "true", "f": "false", "n": "null"}
_VALUES = {"true": True, "false": False, "null": None}
_SHORT = 15
"""Numbers of so many characters are the same to every parser."""

_DIGIT, _ZERO, _SIGN, _POINT, _E = range(5)
_CLASSES = {**dict.fromkeys("123456789", _DIGIT), "0": _ZERO, "-": _SIGN, "+": _SIGN, ".": _POINT}
_CLASSES |= {"e": _E, "E": _E}
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
    "end": "the text goes on after its end",
    "null": "the text goes on after its end",
}


class Walker(Protocol):
    """Called with sound JSON. `at` is the first character of the token; each may object."""

    def begun(self, at: int) -> Problem | None: ...
    def opened(self, kind: str, at: int) -> Problem | None: ...
    def key(self, name: str, at: int) -> Problem | None: ...
    def scalar(self, value: Any, at: int) -> Problem | None: ...
    def closed(self, at: int) -> Problem | None: ...


class IncrementalReader:
    """One text of arguments. `closed` is whether its object is complete."""

    def __init__(self, walker: Walker) -> None:
        self._walker = walker
        self._expects = "root"
        self._open: list[set[str] | None] = []  # the keys of an object; None is an array
        self._keys = 0
        self._bytes = 0
        self._base = 0  # characters before the piece at hand
        self._half = ""  # the first half of a surrogate pair, cut from its second
        self._odd = -1  # where white space stands that JSON does not know
        self._line, self._line_start = 1, 0
        self._token = ""  # "string", "number" or "word": what has begun and not ended
        self._start = 0
        self._pieces: list[str] = []
        self._escape = ""
        self._high = False  # the string's last character was half a pair, escaped
        self._number, self._digits = "", 0

    @property
    def closed(self) -> bool:
        return self._expects == "end"

    def feed(self, text: str) -> Problem | None:
        """The next piece; the first problem there is, after which nothing may be fed."""
        lone = -1
        if self._half or not text.isascii():
            text, lone = self._join_surrogates(text)
        self._bytes += len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if self._bytes > MAX_BYTES:
            return self._bad(0, f"the text has more than the {MAX_BYTES:,} bytes allowed")
        problem = self._read(text if lone < 0 else text[:lone])
        if problem is None and lone >= 0:
            return self._bad(self._base, "half of a surrogate pair is not a character")
        return problem

    def _join_surrogates(self, text: str) -> tuple[str, int]:
        """`text` with halves of pairs joined, and where one stands alone, or -1."""
        text, self._half = self._half + text, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if _SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        match = _SURROGATE.search(text)
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
                    place, problem = self._between(text, place)
        self._base += len(text)
        return problem

    def _between(self, text: str, place: int) -> tuple[int, Problem | None]:
        """One token, or its beginning where the text is cut within it."""
        char, at = text[place], self._base + place
        if char in _BLANK:
            return self._blank(text, place), None
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
                problem = self._walker.begun(at)
                return (place, problem) if problem else self._value(text, place)
            case "null" if char.isspace():
                return place + 1, None
        return place, self._bad(at, _EXPECTED[self._expects])

    def _blank(self, text: str, place: int) -> int:
        match = _SPACE.match(text, place)
        assert match is not None
        lines = match[0].count("\n")
        if lines:
            self._line += lines
            self._line_start = self._base + match.start() + match[0].rfind("\n") + 1
        return match.end()

    def _root(self, char: str, at: int) -> Problem | None:
        """Arguments are an object. Nothing, or null, stands for an empty one, whatever blanks
        are around it; other blanks than JSON's make no object sound."""
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
            return self._bad(where, "a JSON object is expected here, which begins with {")
        return self._walker.begun(at) or self._container("{", at)

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
        if match := _NUMBER.match(text, place):
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
            return self._bad(at, f"the JSON is nested deeper than {MAX_DEPTH} levels")
        return self._walker.opened(kind, at)

    def _after_value(self, char: str, at: int) -> Problem | None:
        in_object = self._open[-1] is not None
        if char == ",":
            self._expects = "key" if in_object else "value"
            return None
        if (char == "}") != in_object:
            return self._bad(at, _EXPECTED["next"])
        return self._close(at)

    def _close(self, at: int) -> Problem | None:
        self._open.pop()
        self._expects = "next" if self._open else "end"
        return self._walker.closed(at)

    def _string(self, text: str, place: int) -> tuple[int, Problem | None]:
        self._start = self._base + place
        if match := _STRING.match(text, place):
            return match.end(), self._ended(match[1])
        self._token, self._pieces, self._escape, self._high = "string", [], "", False
        return place + 1, None

    def _in_string(self, text: str, place: int) -> tuple[int, Problem | None]:
        """On with a string: a run of characters, one of a cut or wrong escape, or its end."""
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
            return place, self._bad(at - 6, "half of a surrogate pair is not a character")
        if char != '"':
            return place, self._bad(at, "a control character must be escaped inside a string")
        self._token = ""
        literal = "".join(self._pieces)
        value = json.loads(f'"{literal}"') if "\\" in literal else literal
        return place + 1, self._ended(value)

    def _in_escape(self, char: str, at: int) -> Problem | None:
        escape = self._escape = self._escape + char
        begins = at + 1 - len(escape)
        if char not in (_ESCAPES if len(escape) == 2 else _HEX):
            return self._bad(begins, "this is not an escape of JSON")
        if escape[1] == "u" and len(escape) < 6:
            return None
        code = int(escape[2:], 16) if escape[1] == "u" else 0
        if (0xDC00 <= code < 0xE000) != self._high:
            wrong = begins - 6 if self._high else begins
            return self._bad(wrong, "half of a surrogate pair is not a character")
        self._high = 0xD800 <= code < 0xDC00
        self._pieces.append(escape)
        self._escape = ""
        return None

    def _ended(self, value: str) -> Problem | None:
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
            return self._bad(self._start, what)
        if self._keys > MAX_KEYS:
            return self._bad(self._start, f"there are more than {MAX_KEYS:,} keys")
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
            return place, self._bad(self._start, f"this number has more than {MAX_DIGITS} digits")
        if place == len(text):
            return place, None
        if self._number not in _WHOLE:
            return place, self._bad(self._base + place, "a digit is expected here")
        if text[place] not in ",]} \t\r\n":
            return place, self._bad(self._base + place, _EXPECTED["next"])
        self._token = ""
        return place, self._numeral("".join(self._pieces), self._start)

    def _numeral(self, literal: str, at: int) -> Problem | None:
        self._expects = "next"
        try:
            short = len(literal) <= _SHORT and literal.lstrip("-").isdigit()
            value = int(literal) if short else parse(literal)
        except InvalidJSON as error:
            return self._bad(at, error.problem)
        return self._walker.scalar(value, at)

    def _in_word(self, text: str, place: int) -> tuple[int, Problem | None]:
        word = _WORDS[self._pieces[0]]
        length = len(self._pieces)
        if text[place] != word[length]:
            return place, self._bad(self._start, "a value is expected here")
        self._pieces.append(text[place])
        if length + 1 < len(word):
            return place + 1, None
        self._token = ""
        if self._expects == "root":
            self._expects = "null"
            return place + 1, None
        self._expects = "next"
        return place + 1, self._walker.scalar(_VALUES[word], self._start)

    def _bad(self, at: int, what: str) -> Problem:
        column = at - self._line_start + 1
        return Problem("malformed", f"Line {self._line}, column {column}: {what}.", offset=at)
