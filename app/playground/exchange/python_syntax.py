"""Syntax that needs a newer Python than this program runs on, named by its version.

Python's own message is about another place: "invalid decimal literal" for a nested f-string.
https://docs.python.org/3/whatsnew/3.12.html https://docs.python.org/3/whatsnew/3.14.html
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

_NAME = r"[^\W\d]\w*"
_PATH = rf"{_NAME}(?:\.{_NAME})*"
_DEFINES = rf"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+{_NAME}[ \t]*\["
_SIGNS = (
    ((3, 12), "`type X = ...`", rf"^[ \t]*type[ \t]+{_NAME}[ \t]*(?:\[[^=\n]*\][ \t]*)?=(?!=)"),
    ((3, 12), "`def f[T]` and `class A[T]`", _DEFINES),
    ((3, 13), "a type parameter with a default", rf"{_DEFINES}[^\]\[()\n]*="),
    (
        (3, 14),
        "`except A, B:` without parentheses (unless it is Python 2)",
        rf"^[ \t]*except\*?[ \t]+{_PATH}(?:[ \t]*,[ \t]*{_PATH})+[ \t]*:",
    ),
)
_STARTS = re.compile(r"[#\"']")
_RUNNING = (sys.version_info[0], sys.version_info[1])
_NESTED = "an f-string with the same quotes, a backslash or a comment inside of its braces"
_TEMPLATE = "a template string, t'...',"


@dataclass(frozen=True)
class NewerSyntax:
    """`what` is in `line` and needs the Python `version`."""

    version: tuple[int, int]
    line: int
    what: str

    @property
    def sentence(self) -> str:
        wanted, own = (".".join(map(str, version)) for version in (self.version, _RUNNING))
        return (
            f"Line {self.line}: {self.what} needs Python {wanted} or newer; this program runs on"
            f" Python {own} and cannot read it. Start the program with Python {wanted}, or use"
            ' "Read it with this interpreter" with one of that version for the tools of frameworks.'
        )


def newer_syntax(
    source: str, error_line: int | None = None, running: tuple[int, int] = _RUNNING
) -> NewerSyntax | None:
    """What in `source`, which `running` cannot parse, needs the newest Python of all; None if
    nothing that is known does, or if the error is in `error_line`, before any of it."""
    strings = _Strings(source)
    signs = strings.signs
    for version, what, sign in _SIGNS:
        for place in re.finditer(sign, strings.code, re.M):
            signs.append(NewerSyntax(version, strings.code.count("\n", 0, place.end()) + 1, what))
    signs = [newer for newer in signs if newer.version > running]
    if not signs or (error_line and error_line < min(newer.line for newer in signs)):
        return None
    return max(signs, key=lambda newer: (newer.version, -newer.line))


class _Strings:
    """`code` is the source without its comments and the content of its strings, in the same lines.
    `signs` are strings that need a newer Python."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.signs: list[NewerSyntax] = []
        pieces: list[str] = []
        place = 0
        while sign := _STARTS.search(source, place):
            start = sign.start()
            if source[start] == "#":
                end = source.find("\n", start)
                end = len(source) if end < 0 else end
                pieces.append(source[place:start])
            else:
                kind = self._kind_before(start)
                end = self._end_of(start, kind)
                lines = source.count("\n", start, end)
                pieces.append(source[place:start] + "''" + "\n" * lines)
            place = end
        self.code = "".join([*pieces, source[place:]])

    def _kind_before(self, start: int) -> str:
        """The letters before a quote: "rb", "f", ""."""
        letters = re.search(r"(?<!\w)[rbuftRBUFT]{1,2}$", self.source[max(0, start - 3) : start])
        return letters[0].lower() if letters else ""

    def _end_of(self, start: int, kind: str) -> int:
        """The place after the string that begins at `start`; to the end of the line if it is not
        a sound one."""
        newer: list[str] = []
        end = self._string(start, kind, newer, 0)
        if end is None:
            line_end = self.source.find("\n", start)
            return len(self.source) if line_end < 0 else line_end
        line = self.source.count("\n", 0, start) + 1
        if newer:
            self.signs.append(NewerSyntax((3, 12), line, _NESTED))
        if "t" in kind:
            self.signs.append(NewerSyntax((3, 14), line, _TEMPLATE))
        return end

    def _string(self, start: int, kind: str, newer: list[str], depth: int) -> int | None:
        """The place after a string; None if it does not end. `newer` collects what Python 3.11
        does not allow in it."""
        source = self.source
        quote = source[start]
        if source.startswith(quote * 3, start):
            quote *= 3
        place = start + len(quote)
        formatted = "f" in kind or "t" in kind
        while place < len(source) and depth < 20:
            if source.startswith(quote, place):
                return place + len(quote)
            char = source[place]
            if char == "\\":
                place += 2
            elif char == "\n" and len(quote) == 1:
                return None
            elif formatted and source.startswith(("{{", "}}"), place):
                place += 2
            elif formatted and char == "{":
                inside = self._field(place + 1, quote, newer, depth)
                if inside is None:
                    return None
                place = inside
            else:
                place += 1
        return None

    def _field(self, place: int, quote: str, newer: list[str], depth: int) -> int | None:
        """The place after the field of an f-string; `place` is after its brace."""
        source, open_brackets, in_format = self.source, 0, False
        while place < len(source):
            char = source[place]
            if in_format and source.startswith(quote, place):
                return None
            if char == "}" and open_brackets == 0:
                return place + 1
            if in_format and char == "{":
                inside = self._field(place + 1, quote, newer, depth + 1)
                if inside is None:
                    return None
                place = inside
                continue
            if not in_format:
                if char in "\"'":
                    if char == quote[0] and (len(quote) == 1 or source.startswith(quote, place)):
                        newer.append("quotes")
                    end = self._string(place, self._kind_before(place), newer, depth + 1)
                    if end is None:
                        return None
                    if "\\" in source[place:end]:
                        newer.append("backslash")
                    place = end
                    continue
                if char == "#":
                    newer.append("comment")
                    place = source.find("\n", place)
                    if place < 0:
                        return None
                if char == "\n" and len(quote) == 1:
                    newer.append("line")
                open_brackets += (char in "([{") - (char in ")]}")
                in_format = char == ":" and open_brackets == 0
            place += 1
        return None
