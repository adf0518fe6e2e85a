"""Parses JSON as providers send it, extracts the exact text of its values, and changes values so
that all other bytes stay.

`parse_json` refuses what JSON cannot express (NaN, infinities) and too deep nesting; `JsonText`
returns the exact text of a value, so that a call's arguments keep their digits, their order and
their duplicate keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from jiter import from_json

from playground.core.json_values import TooDeepError, is_too_deep
from playground.secrets.redaction import SHORTEST

_MOST_DIGITS = 4000
"""int() refuses more than 4300 digits; such a number stays text."""

BLANK = " \t\r\n"

_DIGITS = 200
"""A number with fewer digits and an exponent of at most two digits is finite."""

_SMALL_E, _LARGE_E = re.compile(r"e\+?[0-9]{3}"), re.compile(r"E\+?[0-9]{3}")
"""The beginning of larger exponents; separate, because a search for a literal is fast."""

_DIGIT = re.compile(r"[0-9]")

_STARS = re.compile(r"\*+")

_LET_THROUGH = re.compile(r".{1,40}?(?=\*)", re.DOTALL)
"""The unstarred beginning of a secret that came in pieces: three characters, possibly escaped."""

_MOST_TOUCHING = 8
"""Most adjacent secrets, each with its first characters and then stars."""

_SURE = 16
"""So many equal characters after a secret prove that it ended before them."""

Path = tuple[str | int, ...]

Changes = Mapping[Path, str | None]
"""The JSON text of the new value at a path; None removes the value."""

_LINE_ENDS = {
    ord("\n"): " ",
    ord("\r"): " ",
    0x85: "\\u0085",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
"""Outside strings a line end is whitespace; inside, only the last three can occur."""


def _integer(digits: str) -> Any:
    return int(digits) if len(digits) < _MOST_DIGITS else digits


def _number(digits: str) -> Any:
    value = float(digits)
    return value if math.isfinite(value) else digits


DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_number, parse_constant=lambda _: None)


def parse_json(text: str) -> Any:
    """The value of `text`. ValueError if it is invalid JSON or nested too deep.

    jiter parses usual text in a third of the time, with the same result. It refuses lone
    surrogates, which `json` accepts; possibly too large numbers are not passed to it.
    """
    if is_too_deep(text):
        raise TooDeepError
    if not _may_overflow(text):
        try:
            return from_json(text.encode(), allow_inf_nan=False, cache_mode="keys")
        except ValueError:
            pass
    return DECODER.decode(text)


def _may_overflow(text: str) -> bool:
    """Whether a number of `text` may exceed the range of float, or have too many digits."""
    if _SMALL_E.search(text) or ("E" in text and _LARGE_E.search(text)):
        return True
    # Every run of _DIGITS digits covers an index of the slice, whose step is _DIGITS.
    return _DIGIT.search(text[_DIGITS - 1 :: _DIGITS]) is not None


class JsonText:
    """JSON text that was parsed by `parse_json`, whose members can be extracted.

    Each level is scanned once and cached, so that extracting all members costs no more than one.
    """

    __slots__ = ("_end", "_members", "_start", "_text")

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self._text = text
        self._start = start
        self._end = len(text) if end is None else end
        self._members: dict[str | int, JsonText] | None = None

    def member(self, *path: str | int) -> str:
        """The text of the value at `path`, or "" if there is none.

        Of duplicate keys the last one counts, as everywhere.
        """
        at = self._find(path)
        return at._text[at._start : at._end].strip(BLANK) if at is not None else ""

    def span(self, *path: str | int) -> tuple[int, int]:
        """The span of the value at `path` in the text. KeyError if there is none."""
        at = self._find(path)
        if at is None:
            raise KeyError(path)
        return at._start, at._end

    def _find(self, path: Iterable[str | int]) -> JsonText | None:
        at: JsonText | None = self
        for key in path:
            at = at._read().get(key) if at is not None else None
        return at

    def _read(self) -> dict[str | int, JsonText]:
        if self._members is None:
            self._members = {}
            text, at = self._text, skip_blanks(self._text, self._start)
            if text[at] in "{[":
                self._read_from(text[at] == "{", skip_blanks(text, at + 1))
        return self._members

    def _read_from(self, is_object: bool, at: int) -> None:
        """Scans all members; the first one (or the closing bracket) is at `at`."""
        text, members = self._text, self._members
        assert members is not None
        while text[at] not in "}]":
            key: str | int = len(members)
            if is_object:
                key, at = DECODER.raw_decode(text, at)
                at = skip_blanks(text, skip_blanks(text, at) + 1)
            _, end = DECODER.raw_decode(text, at)
            members[key] = JsonText(text, at, end)
            at = skip_blanks(text, end)
            if text[at] == ",":
                at = skip_blanks(text, at + 1)


def skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in BLANK:
        at += 1
    return at


def is_same_value(left: str, right: str) -> bool:
    """Whether two texts have the same value, ignoring spaces and order, and stars for a secret."""
    if _covers(left, right) or _covers(right, left):
        return True
    try:
        # As text, because in Python 1 equals true.
        first, second = (json.dumps(parse_json(text), sort_keys=True) for text in (left, right))
    except ValueError:
        return False
    return first == second


def _covers(pieces: str, text: str) -> bool:
    return end_of(pieces, text, escaped=True) == len(text)


def end_of(pieces: str, text: str, *, escaped: bool = False) -> int:
    """The position up to which `text` equals the joined `pieces`, -1 if they differ.

    One side may have more stars: escaped characters have as many stars as bytes. Where `text` has
    stars for a whole secret, `pieces` may have as many arbitrary characters, or the secret's first
    characters and then stars, also for adjacent secrets; or fewer characters if the secret in
    `text` was `escaped` when it was starred.
    """
    place = offset = 0
    runs = list(_STARS.finditer(text))
    plains = [*(run.start() for run in runs), len(text)]
    for nth, plain_end in enumerate(plains):
        plain = text[place:plain_end]
        if len(pieces) - offset <= len(plain):
            return place + len(pieces) - offset if plain.startswith(pieces[offset:]) else -1
        if nth == len(runs) or not pieces.startswith(plain, offset):
            return -1
        offset, place = offset + len(plain), runs[nth].end()
        size = place - plain_end
        follows = text[place : min(plains[nth + 1], place + _SURE)]
        ends: Iterable[int] = _ends_of_secret(pieces, offset, size)
        if escaped and size >= SHORTEST:
            ends = chain(ends, [_end_before(follows, pieces, offset, size)])
        for end in ends:
            if pieces.startswith(follows, end) if follows else end == len(pieces):
                offset = end
                break
        else:
            return -1
    return place


def _ends_of_secret(pieces: str, start: int, size: int) -> Iterator[int]:
    """Possible ends in `pieces` of what corresponds to `size` stars."""
    if stars := _STARS.match(pieces, start):
        yield stars.end()
    if size >= SHORTEST:
        yield start + size
        place = start
        for _ in range(_MOST_TOUCHING):
            first = _LET_THROUGH.match(pieces, place)
            if first is None:
                break
            stars = _STARS.match(pieces, first.end())
            assert stars is not None
            place = stars.end()
            yield place


def _end_before(follows: str, pieces: str, start: int, size: int) -> int:
    """Where in `pieces`, at most `size` characters after `start`, `follows` begins, or its end."""
    if not follows:
        return min(len(pieces), start + size)
    end = pieces.find(follows, start + 1, start + size + len(follows))
    return end if end >= 0 else start + size


def join_pieces(pieces: list[str]) -> str:
    """Joins texts. A character split into two surrogate escapes becomes whole again."""
    text = pieces[0] if len(pieces) == 1 else "".join(pieces)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def whole_characters(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _Member(NamedTuple):
    """A member of an object, or an element: `start` is the start of its name (or value)."""

    key: str | int
    start: int
    value: int
    end: int


def change_json(text: str, changes: Changes) -> str:
    """`text` with these changes: O(len(text)) for each level of the longest path.

    A new member is added at the end of its object; of a duplicate name both are changed. An invalid
    path (into a text, beyond the end of an array) changes nothing.
    """
    if () in changes:
        return changes[()] or ""
    start = skip_blanks(text, 0)
    if not changes or text[start : start + 1] not in ("{", "["):
        return text
    is_object = text[start] == "{"
    members = _members(text, start)
    below: dict[str | int, dict[Path, str | None]] = {}
    for path, value in changes.items():
        below.setdefault(path[0], {})[path[1:]] = value
    out: list[str] = []
    if members:
        opening, closing = text[: members[0].start], text[members[-1].end :]
    else:
        end = text.rindex("}" if is_object else "]")
        opening, closing = text[:end], text[end:]
    for nth, member in enumerate(members):
        wanted = below.get(member.key, {})
        if wanted.get((), "") is None:
            continue
        if out:
            out.append(text[members[nth - 1].end : member.start])
        out.append(text[member.start : member.value])
        out.append(change_json(text[member.value : member.end], wanted))
    names = {member.key for member in members}
    between = text[members[-2].end : members[-1].start] if len(members) > 1 else ","
    for key, wanted in below.items():
        added = wanted.get(())
        if key in names or added is None or is_object != isinstance(key, str):
            continue
        if out:
            out.append(between)
        out.append(f"{dump_ascii(key)}:{added}" if isinstance(key, str) else added)
    return "".join([opening, *out, closing])


def _members(text: str, start: int) -> Sequence[_Member]:
    """The members of the object, or the elements of the array, that begins at `start`."""
    members: list[_Member] = []
    is_object = text[start] == "{"
    at = skip_blanks(text, start + 1)
    while text[at] not in "}]":
        key: str | int = len(members)
        begin = at
        if is_object:
            key, at = DECODER.raw_decode(text, at)
            at = skip_blanks(text, skip_blanks(text, at) + 1)
        _, end = DECODER.raw_decode(text, at)
        members.append(_Member(key, begin, at, end))
        at = skip_blanks(text, end)
        if text[at] == ",":
            at = skip_blanks(text, at + 1)
    return members


def one_line(text: str) -> str:
    """The JSON `text` on one line, by any definition of line ends: the same value."""
    return text.translate(_LINE_ENDS).strip(BLANK)


def dump_ascii(value: object) -> str:
    """JSON that any line-based reader keeps intact: no spaces, ASCII only."""
    return json.dumps(value, separators=(",", ":"))
