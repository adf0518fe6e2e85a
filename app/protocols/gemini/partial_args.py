"""Arguments that Vertex streams by path (`partialArgs`), written down as one growing JSON text.

The model writes its arguments from front to back, so the text grows at its end: `$.a[0].b` after
`$.a[0].c` adds a member, after `$.a[1].c` nothing can: then no more is written, the text stays
unfinished, and as such it can never be run.
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from app.protocols.raw_json import MOST_DEEP

Path = tuple[str | int, ...]

_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)


class _Level:
    """An object or array that is being written. `key` is the member written last."""

    __slots__ = ("count", "is_object", "key", "seen")

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.key: str | int = ""
        self.count = 0
        self.seen: set[str | int] = set()


class GrowingArguments:
    """`take` and `close` give the text to append. `broken` says that no more can be written."""

    def __init__(self) -> None:
        self.broken = False
        self._levels = [_Level(is_object=True)]
        self._string: Path | None = None  # the path of the text that is being written
        self._begun = False

    def take(self, partial: Mapping[str, Any], number: str) -> str:
        """One entry of `partialArgs`; `number` is the JSON text of its number, "" without one."""
        path = None if self.broken else _path(partial.get("jsonPath"))
        said = None if path is None else self._said(path, partial, number)
        self.broken = said is None
        return said or ""

    def _said(self, path: Path, partial: Mapping[str, Any], number: str) -> str | None:
        """The text for the value at `path`, or None where it cannot stand."""
        value, said = partial.get("stringValue"), ""
        if isinstance(value, str):
            if self._string != path:
                placed = self._placed(path)
                if placed is None:
                    return None
                said, self._string = placed + '"', path
            said += json.dumps(value, ensure_ascii=False)[1:-1]
        elif literal := _literal(partial, number):
            placed = self._placed(path)
            return None if placed is None else placed + literal
        elif any(key.endswith("Value") for key in partial):
            return None
        if self._string == path and partial.get("willContinue") is not True:
            said, self._string = said + '"', None
        return said

    def close(self) -> str:
        """What is missing for whole JSON. A text that was to go on is not closed for the model."""
        self.broken = self.broken or self._string is not None
        if self.broken:
            return ""
        said = "" if self._begun else "{"
        self._begun = True
        while self._levels:
            said += "}" if self._levels.pop().is_object else "]"
        return said

    def _placed(self, path: Path) -> str | None:
        """The text up to where the value at `path` begins, or None where that is behind, or where
        a text was to go on first.
        """
        if self._string is not None:
            return None
        said = "" if self._begun else "{"
        self._begun = True
        levels = self._levels
        shared = 0
        while shared < min(len(levels), len(path)) - 1 and levels[shared].key == path[shared]:
            shared += 1
        while len(levels) > shared + 1:
            said += "}" if levels.pop().is_object else "]"
        for place in range(shared, len(path)):
            level, key = levels[-1], path[place]
            fits = isinstance(key, str) if level.is_object else key == level.count
            if not fits or key in level.seen:
                return None
            said += "," if level.count else ""
            level.key = key
            level.count += 1
            if level.is_object:
                level.seen.add(key)
                said += json.dumps(key, ensure_ascii=False) + ":"
            if place + 1 < len(path):
                is_object = isinstance(path[place + 1], str)
                levels.append(_Level(is_object))
                said += "{" if is_object else "["
        return said


def _literal(partial: Mapping[str, Any], number: str) -> str:
    """The JSON text of a value that comes in one piece, or ""."""
    if isinstance(partial.get("boolValue"), bool):
        return "true" if partial["boolValue"] else "false"
    value = partial.get("numberValue")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number
    return "null" if "nullValue" in partial else ""


def _path(text: Any) -> Path | None:
    """The steps of a JSON path (RFC 9535), or None where it names no single member."""
    if not isinstance(text, str) or not text.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == MOST_DEEP:
            return None
        at = found.end()
        name, index, single, double = found.groups()
        if index is not None:
            steps.append(int(index))
        elif name is not None:
            steps.append(name)
        else:
            quoted = double if double is not None else _double_quoted(single)
            try:
                steps.append(json.loads(f'"{quoted}"', strict=False))
            except ValueError:
                return None
    return tuple(steps) or None


def _double_quoted(single: str) -> str:
    return single.replace("\\'", "'").replace('"', '\\"')
