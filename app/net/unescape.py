"""JSON escapes undone in a text that is cut anywhere, with the way back to each character's place.

Escapes are undone wherever they stand: what of the text is a JSON string need not be known.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_MEANS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Unescaper:
    """`offset` is where in the whole text the first piece begins that is fed."""

    def __init__(self, offset: int = 0) -> None:
        self._cut = ""  # an escape of which the rest has not come
        self._read = offset  # characters of the text that are undone
        self._written = offset  # characters that were returned, counted from the same place
        # From character `_from[n]` of what was returned on, the text is `_shifts[n]` further.
        self._from: list[int] = []
        self._shifts: list[int] = []

    def feed(self, text: str) -> str:
        """The next piece without its escapes; an escape that is cut waits for its rest."""
        text, self._cut = self._cut + text, ""
        pieces: list[str] = []
        done = 0
        for escape in _ESCAPE.finditer(text):
            digits, letter = escape.groups()
            char = chr(int(digits, 16)) if digits else _MEANS.get(letter, letter)
            pieces += [text[done : escape.start()], char]
            self._written += escape.start() - done + 1
            self._read += escape.end() - done
            done = escape.end()
            self._from.append(self._written)
            self._shifts.append(self._read - self._written)
        if cut := _CUT_ESCAPE.search(text, done):
            self._cut = text[cut.start() :]
        rest = text[done : len(text) - len(self._cut)]
        self._written += len(rest)
        self._read += len(rest)
        pieces.append(rest)
        return "".join(pieces)

    def end(self) -> str:
        """The escape that was cut, as it stands."""
        rest, self._cut = self._cut, ""
        self._written += len(rest)
        self._read += len(rest)
        return rest

    def place(self, index: int) -> int:
        """Where in the text character `index` of what was returned begins."""
        nth = bisect_right(self._from, index) - 1
        return index + (self._shifts[nth] if nth >= 0 else 0)

    def forget(self, keep: int) -> None:
        """Only places of the last `keep` characters that were returned are still asked for."""
        unused = bisect_right(self._from, self._written - keep) - 1
        if unused > 0:
            del self._from[:unused], self._shifts[:unused]
