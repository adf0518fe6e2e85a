"""JSON escapes undone in a text that is cut anywhere, with the way back to each character's place.

Escapes are undone wherever they stand: what of the text is a JSON string need not be known.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache

_ESCAPE = re.compile(r'(\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt]))')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_HALF = re.compile(r"\\u[dD][89abAB]")
"""Of two halves of a character `json` makes one."""
_JSON = json.JSONDecoder(strict=False)
_STAND_INS = ("\0", "\1", r"\u0000", r"\u0001")
_MEANS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}

_PIECE = 64 * 1024
"""Characters that are undone at once: for a moment each escape among them may be a string."""


class Unescaper:
    """`offset` is where in the whole text the first piece begins that is fed. Places are rarely
    asked for: the pieces with escapes are kept as they came, and read again for that."""

    def __init__(self, offset: int = 0) -> None:
        self._cut = ""  # an escape of which the rest has not come
        self._read = offset  # characters of the text that are undone
        self._written = offset  # characters that were returned, counted from the same place
        # The pieces with escapes, with what was read and written before each.
        self._pieces: list[str] = []
        self._reads: list[int] = []
        self._starts: list[int] = []
        self._looked_at = -1  # the piece that was asked about last
        # From character `_from[n]` of what it says on, the text is `_shifts[n]` further.
        self._from: list[int] = []
        self._shifts: list[int] = []

    @property
    def size(self) -> int:
        """Characters that were returned, and `offset` more."""
        return self._written

    def feed(self, text: str) -> str:
        """The next piece without its escapes; an escape that is cut waits for its rest."""
        return "".join(self._feed(piece) for piece in _cut_up(text))

    def end(self) -> str:
        """The escape that was cut, as it stands."""
        rest, self._cut = self._cut, ""
        self._written += len(rest)
        self._read += len(rest)
        return rest

    def place(self, index: int) -> int:
        """Where in the text character `index` of what was returned begins."""
        nth = bisect_right(self._starts, index) - 1
        if nth < 0:
            return index
        if nth != self._looked_at:
            self._look_at(nth)
        place = bisect_right(self._from, index) - 1
        before = self._reads[nth] - self._starts[nth]
        return index + (self._shifts[place] if place >= 0 else before)

    def forget(self, keep: int) -> None:
        """Only places of the last `keep` characters that were returned are still asked for."""
        unused = bisect_right(self._starts, self._written - keep) - 1
        if unused > 0:
            del self._pieces[:unused], self._reads[:unused], self._starts[:unused]
            self._looked_at, self._from, self._shifts = -1, [], []

    def _feed(self, text: str) -> str:
        text = self._cut + text
        size = _size_before_cut(text)
        text, self._cut = text[:size], text[size:]
        undone = text
        if "\\" in text:
            quickly = _quickly_undone(text)
            undone = _undone(text) if quickly is None else quickly
        if len(undone) < len(text):
            self._pieces.append(text)
            self._reads.append(self._read)
            self._starts.append(self._written)
        self._read += len(text)
        self._written += len(undone)
        return undone

    def _look_at(self, nth: int) -> None:
        self._looked_at, self._from, self._shifts = nth, [], []
        shift, first = self._reads[nth] - self._starts[nth], self._reads[nth]
        for escape in _ESCAPE.finditer(self._pieces[nth]):
            self._from.append(first + escape.start() - shift + 1)
            shift += escape.end() - escape.start() - 1
            self._shifts.append(shift)


def _cut_up(text: str) -> Iterator[str]:
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


def _size_before_cut(text: str) -> int:
    """Where the escape begins that is cut at the end; of two backslashes the first one escapes."""
    cut = _CUT_ESCAPE.search(text, max(0, len(text) - 5))
    if cut is None:
        return len(text)
    before = text[: cut.start() + 1]
    is_escape = (len(before) - len(before.rstrip("\\"))) % 2
    return cut.start() if is_escape else len(text)


def _undone(text: str) -> str:
    pieces = _ESCAPE.split(text)
    pieces[1::2] = map(_meaning, pieces[1::2])
    return "".join(pieces)


def _quickly_undone(text: str) -> str | None:
    """The same by `json`, where it can read the text as one string: two characters that the text
    has not, not even behind an escape, stand in for its quotes and for backslashes that it says."""
    if _HALF.search(text) or any(one in text for one in _STAND_INS):
        return None
    text = text.replace(r"\\", "\0").replace(r"\"", '"').replace('"', "\1")
    try:
        undone: str = _JSON.decode(f'"{text}"')
    except ValueError:  # a backslash that begins no escape
        return None
    return undone.replace("\1", '"').replace("\0", "\\")


@lru_cache(maxsize=2**14)
def _meaning(escape: str) -> str:
    return chr(int(escape[2:], 16)) if escape[1] == "u" else _MEANS.get(escape[1], escape[1])
