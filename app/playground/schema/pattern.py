"""Generates texts that a regular expression matches, from its parsed form.

Patterns are ECMA's and are parsed by Python's parser, which accepts nearly all that are used; if it
does not, or if the generated text does not match, there is no text. Look-arounds are not taken into
account: the caller checks the result. The parser is the private one that `re.compile` uses: without
it no text is generated.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

try:
    from re import _parser  # type: ignore[attr-defined]
except ImportError:  # other Python versions may not have it there
    _parser = None

MOST = 20_000
"""Maximum length of one text, in characters."""
MOST_PATTERN = 10_000
"""Maximum length of a pattern for which texts are generated, in characters."""
MOST_GROUPS = 50
"""Python's own parser of patterns calls itself for each group in a group."""
_GROUPS = re.compile(r"\\.|[()]", re.DOTALL)

_PREFERRED = (
    "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_ .,:;/@#+=!?$%&*"
    "'\"()[]{}<>|~^\\"
)
_FIRST = {"DIGIT": "1234567890", "WORD": _PREFERRED, "SPACE": " "}
_PROPERTIES = {
    **dict.fromkeys(("L", "Ll", "Lm", "Lo", "Letter"), "a-z"),
    "Lu": "A-Z",
    **dict.fromkeys(("N", "Nd"), "0-9"),
    "P": ".,:;",
}
_TOKEN = re.compile(r"\\p\{(?P<property>[A-Za-z]{1,9})\}|\\.|\(\?<(?![=!])|[\[\]]", re.DOTALL)


class PieceBudget:
    """The number of pieces that may still be written, shared by several patterns: nested
    repetitions may write nothing, and never end."""

    def __init__(self, left: int = 200_000) -> None:
        self.left = left

    def spend(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise _TooLongError


def texts(
    pattern: str, length: int = 0, shift: int = 0, effort: PieceBudget | None = None
) -> Iterator[str]:
    """Texts for `pattern`, the shortest first, then longer ones up to about `length`, then others
    of the same lengths; another `shift` gives others. Empty if it cannot be parsed here."""
    effort = effort or PieceBudget()
    if _parser is None or len(pattern) > MOST_PATTERN or has_deep_groups(pattern):
        return
    try:
        effort.spend(len(pattern))
        tree = _parse_pattern(pattern)
    except (re.error, ValueError, OverflowError, _TooLongError):
        return
    seen: set[str] = set()
    classes: dict[int, Sequence[str]] = {}
    further = range(max(9, length - 3), length + 2) if length > 9 else (16, 32)
    for turn in range(shift, shift + 6):
        for more in (*range(9), *further):
            for ahead in (True, False):
                try:
                    text = _Writer(more, turn, ahead, effort, classes).write(tree)
                except _TooLongError:
                    if effort.left < 0:
                        return
                    continue
                if text not in seen:
                    seen.add(text)
                    yield text


def has_deep_groups(pattern: str) -> bool:
    """Whether groups are nested more than MOST_GROUPS deep. Brackets in a character class
    count too."""
    depth = 0
    for bracket in _GROUPS.findall(pattern):
        depth += {"(": 1, ")": -1}.get(bracket, 0)
        if depth > MOST_GROUPS:
            return True
    return False


def _parse_pattern(pattern: str) -> Any:
    """The parsed pattern, with character properties and named groups translated to Python's
    syntax."""
    inside = False

    def place(match: re.Match[str]) -> str:
        nonlocal inside
        word = match[0]
        if letters := _PROPERTIES.get(match["property"] or ""):
            return letters if inside else f"[{letters}]"
        if word in ("[", "]"):
            inside = word == "[" or (inside and match.string[match.start() - 1] == "[")
        return "(?P<" if word == "(?<" and not inside else word

    translated = _TOKEN.sub(place, pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # future syntax is literal
        return _parser.parse(translated)


class _TooLongError(Exception):
    pass


class _Writer:
    """One text: each repetition `more` times beyond its minimum, `shift` letters further on;
    `ahead` also writes what a look-ahead requires. `classes` are the letters of each character
    class of the tree, by its identity."""

    def __init__(
        self,
        more: int,
        shift: int,
        ahead: bool,
        effort: PieceBudget,
        classes: dict[int, Sequence[str]],
    ) -> None:
        self.more, self.shift, self.ahead, self.effort = more, shift, ahead, effort
        self.classes = classes
        self.groups: dict[int, str] = {}
        self.written = 0

    def write(self, tree: Any) -> str:
        return "".join(self.write_one(str(op), value) for op, value in tree)

    def write_one(self, op: str, value: Any) -> str:
        self.effort.spend()
        match op:
            case "LITERAL":
                return self.put(chr(value))
            case "NOT_LITERAL":
                return self.put(self.pick(_PREFERRED.replace(chr(value), "")))
            case "ANY":
                return self.put(self.pick(_PREFERRED))
            case "IN":
                if id(value) not in self.classes:
                    self.effort.spend(len(value))
                    self.classes[id(value)] = _letters_of_class(value)
                return self.put(self.pick(self.classes[id(value)]))
            case "BRANCH":
                branches = value[1]
                return self.write(branches[self.shift % len(branches)])
            case "SUBPATTERN":
                number, _, _, inner = value
                text = self.write(inner)
                if number is not None:
                    self.groups[number] = text
                return text
            case "ATOMIC_GROUP":
                return self.write(value)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = value
                times = min(int(least) + self.more, int(most))
                if times > MOST:
                    raise _TooLongError
                self.effort.spend(times)
                return "".join(self.write(inner) for _ in range(times))
            case "GROUPREF":
                return self.groups.get(value, "")
            case "ASSERT" if self.ahead and value[0] == 1:
                return _Writer(0, self.shift, True, self.effort, self.classes).write(value[1])
            case _:
                return ""

    def put(self, letter: str) -> str:
        self.written += 1
        if self.written > MOST:
            raise _TooLongError
        return letter

    def pick(self, letters: Sequence[str]) -> str:
        return letters[(self.written + self.shift) % min(len(letters), 26)] if letters else ""


def _letters_of_class(members: Sequence[Any]) -> Sequence[str]:
    """The letters of a class, the most readable first."""
    negated = any(str(op) == "NEGATE" for op, _ in members)
    tests = [(str(op), value) for op, value in members if str(op) != "NEGATE"]
    if [op for op, _ in tests] == ["CATEGORY"] and not negated:
        name = str(tests[0][1])
        if "NOT" not in name:
            return _FIRST[name.rpartition("_")[2]]
    chars = [c for c in _PREFERRED if any(_holds(op, value, c) for op, value in tests) != negated]
    if chars or negated:
        return chars
    ranges = (value[0] if op == "RANGE" else value for op, value in tests if op != "CATEGORY")
    return [chr(value) for value in ranges]


def _holds(op: str, value: Any, letter: str) -> bool:
    match op:
        case "LITERAL":
            return bool(ord(letter) == value)
        case "RANGE":
            return bool(value[0] <= ord(letter) <= value[1])
        case _:
            name = str(value)
            kind = name.rpartition("_")[2]
            known: dict[str, bool] = {
                "DIGIT": letter.isdigit(),
                "WORD": letter.isalnum() or letter == "_",
                "SPACE": letter.isspace(),
            }
            return bool(known[kind] != ("NOT" in name))
