"""Parses JSON, JSON with comments, JSON Lines, TOML and YAML, within limits.

Depth, size and keys are checked before a parser could run out of stack or memory. YAML is read
event by event: no tags, no objects; an alias counts each time it is used.
https://yaml.org/spec/1.2.2/#103-core-schema
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from playground.core.json_values import is_deeper
from playground.schema.strict_json import MAX_DEPTH, InvalidJSON, line_column, parse

MOST_BYTES = 8 * 1024 * 1024
MOST_KEYS = 500_000
MOST_VALUES = 600_000
"""The limit of a YAML text: keys, values, and the expansions of its aliases."""
MOST_READ_AGAIN = 32 * 1024
"""Characters of an invalid YAML text that are parsed once more to find excessive depth."""
_LONGEST_KEY = 1024
MOST_LOOSE_BYTES = 1024 * 1024
"""The limit of JSON with comments, which is slower to parse."""
MOST_TOML_BYTES = 256 * 1024
"""Python's TOML parser is the slowest of them, and configurations are small."""

_LOOSE = re.compile(
    r'"(?>[^"\\]+|\\.)*+(?:"|\Z)|(//[^\n]*+|/\*(?>[^*]+|\*(?!/))*+(?:\*/|\Z))', re.DOTALL
)
_LAST_COMMA = re.compile(r'"(?>[^"\\]+|\\.)*+(?:"|\Z)|(,)(?=[ \t\r\n]*+[}\]])', re.DOTALL)
_TOML_DEPTH = re.compile(r"(?m)^[^#=\"'\n]*+")
_NULLS = ("", "~", "null", "Null", "NULL")
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,400}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]{1,400}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?")

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Libyaml if it is installed; the pure Python loader gives the same result, but slower."""


class UnreadableText(ValueError):
    """The text cannot be parsed. `str` is a sentence; `line` the place, from 1."""

    def __init__(self, sentence: str, line: int | None = None) -> None:
        super().__init__(sentence)
        self.line = line


def json_value(text: str) -> tuple[Any, str]:
    """The value of a JSON text, and a note if comments and trailing commas were ignored."""
    try:
        return parse(text, MOST_BYTES, MOST_KEYS), ""
    except InvalidJSON as error:
        loose = without_comments(text) if len(text) <= MOST_LOOSE_BYTES else text
        if loose == text:
            raise UnreadableText(f"This is not valid JSON. {error}") from None
        first = error
    try:
        return parse(loose, MOST_BYTES, MOST_KEYS), "Comments and trailing commas were removed."
    except InvalidJSON:
        raise UnreadableText(f"This is not valid JSON. {first}") from None


def without_comments(text: str) -> str:
    """`text` with comments and trailing commas replaced by blanks; lines and columns stay."""

    def blank(match: re.Match[str]) -> str:
        gone = match[1] is not None
        return re.sub(r"[^\n]", " ", match[0]) if gone else match[0]

    return _LAST_COMMA.sub(blank, _LOOSE.sub(blank, text))


def json_lines(text: str) -> Iterator[tuple[int, Any]]:
    """(line, value) of each line that is not blank; an Unreadable in place of an invalid one."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, parse(line, MOST_BYTES, MOST_KEYS)
            except InvalidJSON as error:
                yield number, UnreadableText(f"Line {number} is not valid JSON: {error.problem}.")


def toml_value(text: str) -> Any:
    """The value of a TOML text; Unreadable otherwise."""
    if len(text.encode("utf-8", "replace")) > MOST_TOML_BYTES:
        most = MOST_TOML_BYTES // 1024
        raise UnreadableText(f"TOML of more than {most:,} kB is not supported. Import it as JSON.")
    for match in _TOML_DEPTH.finditer(text):
        if match[0].count(".") > MAX_DEPTH:
            line, _ = line_column(text, match.start())
            raise UnreadableText(f"Line {line}: this key has more than {MAX_DEPTH} parts.")
    deep = f"The TOML is nested deeper than {MAX_DEPTH} levels."
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise UnreadableText(deep) from None
    except tomllib.TOMLDecodeError as error:
        raise UnreadableText(f"This is not valid TOML. {error}.") from None
    except ValueError:
        raise UnreadableText("The TOML contains a number or a date that cannot be read.") from None
    if is_deeper(value, MAX_DEPTH):
        raise UnreadableText(deep)
    return value


def yaml_value(text: str) -> Any:
    """The value of one YAML document; Unreadable otherwise."""
    reader = _YamlBuilder()
    try:
        reader.read(text, _LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        if mark and mark.index <= MOST_READ_AGAIN:
            _refuse_depth(text[: mark.index])
        where = f" Line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        what = str(getattr(error, "problem", None) or "it contains a character that YAML forbids")
        raise UnreadableText(f"This is not valid YAML.{where} {what[:200]}.") from None
    if not reader.done:
        raise UnreadableText("The YAML is empty.")
    if is_deeper(reader.done[0], MAX_DEPTH):
        raise UnreadableText(f"The YAML is nested deeper than {MAX_DEPTH} levels by its aliases.")
    return reader.done[0]


def _refuse_depth(text: str) -> None:
    """Unreadable if `text`, of which libyaml parsed a part, is nested too deep.

    Libyaml reads to the end of a possible key before it reports the key's beginning, and since
    0.2.6 it has a depth limit of its own: excessive depth may be an error before we see it.
    """
    if sum(map(text[-_LONGEST_KEY:].count, "[{")) > MAX_DEPTH:
        with contextlib.suppress(yaml.YAMLError):
            _YamlBuilder().read(text, yaml.SafeLoader)


class _YamlBuilder:
    """Builds plain values from the parser's events; `done` holds the finished document."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        # [value, the pending key or None, its event, values and characters before it]
        self._open: list[list[Any]] = []
        self._count = self._chars = 0
        self._named: dict[str, tuple[Any, int, int]] = {}  # anchor -> value, values, characters

    def read(self, text: str, loader: Any) -> None:
        for event in yaml.parse(text, Loader=loader):
            self.take(event)

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.NodeEvent) and not isinstance(event, yaml.AliasEvent):
            self._check_tag(event)
        match event:
            case yaml.AliasEvent():
                self._put_alias(event)
            case yaml.MappingStartEvent():
                self._begin(event, {})
            case yaml.SequenceStartEvent():
                self._begin(event, [])
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                value, _, start, *before = self._open.pop()
                value = _merge_keys(value) if isinstance(value, dict) else value
                self._put(event, value)
                self._name(start, value, *before)
            case yaml.ScalarEvent():
                before = [self._count, self._chars]
                self._chars += len(event.value)
                value = event.value if self._is_key() else _scalar(event)
                self._put(event, value)
                self._name(event, value, *before)
            case yaml.DocumentStartEvent() if self.done:
                self._refuse(event, "a second document begins here; import one at a time")

    def _name(self, event: Any, value: Any, values: int, chars: int) -> None:
        if event.anchor:
            self._named[event.anchor] = value, self._count - values, self._chars - chars

    def _put_alias(self, event: Any) -> None:
        """The target of an alias, counted as if it were expanded here."""
        if event.anchor not in self._named:
            self._refuse(event, f"the alias {event.anchor[:60]!r} has no anchor before it")
        value, values, chars = self._named[event.anchor]
        if self._is_key() and not isinstance(value, str):
            self._refuse(event, "a key must be a text")
        self._count += values - 1
        self._chars += chars
        self._put(event, value)

    def _begin(self, event: Any, value: Any) -> None:
        if self._is_key():
            self._refuse(event, "a key must be a text")
        if len(self._open) >= MAX_DEPTH:
            self._refuse(event, f"the YAML is nested deeper than {MAX_DEPTH} levels")
        self._open.append([value, None, event, self._count, self._chars])

    def _is_key(self) -> bool:
        return (
            bool(self._open) and isinstance(self._open[-1][0], dict) and (self._open[-1][1] is None)
        )

    def _put(self, event: Any, value: Any) -> None:
        self._count += 1
        if self._count > MOST_VALUES or self._chars > MOST_BYTES:
            self._refuse(event, f"there are more than {MOST_VALUES:,} values, or they are too long")
        if not self._open:
            self.done.append(value)
            return
        here = self._open[-1]
        match here[0]:
            case list() as items:
                items.append(value)
            case dict() as members if here[1] is None:
                if value in members:
                    self._refuse(event, f"duplicate key {value[:60]!r}")
                here[1] = value
            case dict() as members:
                members[here[1]] = value
                here[1] = None

    def _check_tag(self, event: Any) -> None:
        tag = getattr(event, "tag", None)
        if tag not in (None, "!", "tag:yaml.org,2002:str"):
            self._refuse(event, f"the tag {str(tag)[:80]!r} is not supported; remove it")

    def _refuse(self, event: Any, what: str) -> NoReturn:
        mark = event.start_mark
        raise UnreadableText(f"Line {mark.line + 1}, column {mark.column + 1}: {what}.")


def _merge_keys(members: dict[str, Any]) -> dict[str, Any]:
    """Adds the members named by `<<` after its own, as YAML's merge key specifies."""
    named = members.get("<<")
    bases = named if isinstance(named, list) else [named]
    if not bases or not all(isinstance(base, dict) for base in bases):
        return members
    merged: dict[str, Any] = {}
    for base in reversed(bases):
        merged |= base
    return merged | {key: value for key, value in members.items() if key != "<<"}


def _scalar(event: Any) -> Any:
    """A plain word by YAML 1.2: `no` and `on` are texts; anything in quotes is a text, too."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if abs(value) != float("inf") else text
    return text
