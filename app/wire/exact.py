"""JSON as providers send it: parsed without surprises, and quoted to the letter.

`parsed` never yields what JSON cannot say again (NaN, infinities); `member` gives the very text
of one value, so that a call's arguments keep their digits, their order and their doubled keys.
"""

from __future__ import annotations

import json
import math
from typing import Any

_MOST_DIGITS = 4000
"""Beyond 4300 digits int() refuses; such a number stays a text."""


def _integer(digits: str) -> Any:
    return int(digits) if len(digits) < _MOST_DIGITS else digits


def _number(digits: str) -> Any:
    value = float(digits)
    return value if math.isfinite(value) else digits


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=lambda _: None)
_BLANK = " \t\r\n"


def parsed(text: str) -> Any:
    """The value that `text` spells. ValueError where it is no JSON, or nested beyond reading."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def member(text: str, *path: str | int) -> str:
    """The text of the value at `path` within the JSON `text`, or "" where there is none.

    `text` must have been `parsed` before. Of a doubled key the last one counts, as everywhere.
    """
    start, end = 0, len(text)
    try:
        for key in path:
            start, end = dict(_entries(text, _skip(text, start)))[key]
    except (KeyError, RecursionError):
        return ""
    return text[start:end].strip(_BLANK)


def _entries(text: str, at: int) -> list[tuple[str | int, tuple[int, int]]]:
    """Key or number, and span, of every value in the object or array that begins at `at`."""
    entries: list[tuple[str | int, tuple[int, int]]] = []
    if text[at] not in "{[":
        return entries
    is_object, at = text[at] == "{", _skip(text, at + 1)
    while text[at] not in "}]":
        key: str | int = len(entries)
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        entries.append((key, (at, end)))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return entries


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def joined(pieces: list[str]) -> str:
    """One text of many. A character cut into two surrogate escapes becomes whole again."""
    text = pieces[0] if len(pieces) == 1 else "".join(pieces)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text
