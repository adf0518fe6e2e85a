"""A tool's schema as the rows of a form. Pure; knows no HTML.

A row shows what its fields can say exactly; all else of it stands in its field `rest`, as JSON.
What was typed is put back by outline_edits.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.schema import strict

TYPES = ("string", "integer", "number", "boolean", "object", "array")
MAX_DEPTH = 6
MAX_ROWS = 300
"""Beyond them a row is shown as JSON, with all that is in it."""

Path = tuple[str, ...]
Place = Literal["root", "property", "items"]

ALWAYS = {"description": "description", "enum": "enum", "default": "default"}
_NUMBERS = {"low": "minimum", "high": "maximum"}
KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "string": {**ALWAYS, "format": "format", "low": "minLength", "high": "maxLength"},
    "integer": {**ALWAYS, **_NUMBERS},
    "number": {**ALWAYS, **_NUMBERS},
    "array": {**ALWAYS, "low": "minItems", "high": "maxItems"},
}
"""By type: the field of a row and the keyword it says."""


@dataclass(frozen=True)
class Row:
    """One schema within the schema, at the keys of `path`; the root is number 0.

    `texts` and `ticks` are the fields it has and what they show. `parent` is a number, -1 for the
    root; `first` and `last` tell its place among the properties beside it.
    """

    number: int
    path: Path
    place: Place
    depth: int
    parent: int
    texts: Mapping[str, str]
    ticks: Mapping[str, bool]
    children: tuple[Row, ...] = ()
    first: bool = True
    last: bool = True

    def flat(self) -> Iterator[Row]:
        """This row and all below it, in order of their numbers."""
        yield self
        for child in self.children:
            yield from child.flat()


def outline(schema: Mapping[str, Any]) -> Row:
    """The root row of an object's schema."""
    return _Outliner().row(dict(schema), (), "root", 0, -1, False)


def row_at(root: Row, path: Path) -> Row | None:
    """The row of `path`, or None."""
    return next((row for row in root.flat() if row.path == path), None)


# What is shown --------------------------------------------------------------------------------


class _Outliner:
    def __init__(self) -> None:
        self._count = 0

    def row(
        self, schema: Any, path: Path, place: Place, depth: int, parent: int, required: bool
    ) -> Row:
        number, self._count = self._count, self._count + 1
        texts: dict[str, str] = {}
        ticks: dict[str, bool] = {}
        if place == "property":
            ticks["required"] = required
            if _plain(path[-1]):
                texts["name"] = path[-1]
        known = _kind(schema)
        if known is None or (place != "root" and self._is_beyond(schema, depth)):
            texts["json"] = _json(schema)
            return Row(number, path, place, depth, parent, texts, ticks)
        kind, null = known
        rest = dict(schema)
        if place != "root" or kind == "object":
            rest.pop("type", None)
        if place != "root":
            texts["type"], ticks["null"] = kind, null
            _take_fields(kind, rest, texts)
        below = self._below(kind, rest, path, depth, number, ticks)
        texts["rest"] = _json(rest) if rest else ""
        return Row(number, path, place, depth, parent, texts, ticks, below)

    def _is_beyond(self, schema: Any, depth: int) -> bool:
        inner = schema.get("properties") or schema.get("items")
        return self._count > MAX_ROWS or (depth >= MAX_DEPTH and bool(inner))

    def _below(
        self, kind: str, rest: dict[str, Any], path: Path, depth: int, number: int, ticks: Any
    ) -> tuple[Row, ...]:
        """The rows below; what they show is taken out of `rest`."""
        if kind == "array" and isinstance(rest.get("items"), dict):
            items = rest.pop("items")
            return (self.row(items, (*path, "items"), "items", depth + 1, number, False),)
        if kind != "object":
            return ()
        if rest.get("additionalProperties", False) is False:
            ticks["closed"] = rest.pop("additionalProperties", None) is False
        properties, required = rest.get("properties"), rest.get("required", [])
        if not isinstance(properties, dict) or not isinstance(required, list):
            return ()
        del rest["properties"]
        if "required" in rest and set(map(str, required)) <= set(properties):
            del rest["required"]
        rows = [
            self.row(
                prop, (*path, "properties", name), "property", depth + 1, number, name in required
            )
            for name, prop in properties.items()
        ]
        return tuple(_ended(row, place, len(rows)) for place, row in enumerate(rows))


def _ended(row: Row, place: int, count: int) -> Row:
    return replace(row, first=place == 0, last=place == count - 1)


def _kind(schema: Any) -> tuple[str, bool] | None:
    """The type and whether null may stand for it; None where the form has no word for it."""
    match schema:
        case {"type": str(kind)} if kind in TYPES:
            return kind, False
        case {"type": [str(kind), "null"]} if kind in TYPES:
            return kind, True
        case dict() if "type" not in schema:
            return "", False
    return None


def _take_fields(kind: str, rest: dict[str, Any], texts: dict[str, str]) -> None:
    """Take out of `rest` what its field says exactly."""
    for name, keyword in KEYWORDS.get(kind, ALWAYS).items():
        text = _text(name, rest[keyword], kind) if keyword in rest else ""
        if text:
            del rest[keyword]
        texts[name] = text


def _text(name: str, value: Any, kind: str) -> str:
    """What the field shows for `value`; "" where reading it would give another value."""
    match name, value:
        case ("description" | "format", str()):
            text = value
        case "default", str() if kind == "string":
            text = value
        case "enum", list():
            flat = kind == "string" and all(isinstance(one, str) for one in value)
            text = "\n".join(one if flat else _json(one, flat=True) for one in value)
        case ("default" | "low" | "high", _):
            text = _json(value, flat=True)
        case _:
            return ""
    if not _plain(text, lines=name in ("description", "enum")):
        return ""
    try:
        return text if _json(read(name, text, kind)) == _json(value) else ""
    except ValueError:
        return ""


def _plain(text: str, *, lines: bool = False) -> bool:
    """Whether a form field gives the text back as it is."""
    return bool(text) and not any(
        (one < " " and not (lines and one == "\n")) or one == "\x7f" or "\ud800" <= one <= "\udfff"
        for one in text
    )


def _json(value: Any, *, flat: bool = False) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=None if flat else 2)
    if _plain(text, lines=not flat):
        return text
    return json.dumps(value, indent=None if flat else 2)


def read(name: str, text: str, kind: str) -> Any:
    """The value that a field's text says; ValueError with a sentence."""
    match name:
        case "description" | "format":
            return text
        case "enum":
            lines = [line for line in text.split("\n") if line]
            return lines if kind == "string" else [value_of(line) for line in lines]
        case "default" if kind == "string":
            return text
        case "low" | "high":
            number = value_of(text)
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ValueError("Write a number here, or leave it empty.")
            return number
    return value_of(text)


def value_of(text: str) -> Any:
    """The value of a JSON text; ValueError with a sentence."""
    try:
        return strict.parse(text)
    except strict.Unsound as error:
        said = f"This is no JSON value ({str(error).rstrip('.')}); write texts in double quotes."
        raise ValueError(said) from None
