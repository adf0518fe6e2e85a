"""Converts a tool's schema into rows of a form, and the edited rows back into a schema. No HTML.

A row shows what its fields can represent exactly; the rest of it is in its field `rest`, as JSON.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from playground.schema import strict_json

TYPES = ("string", "integer", "number", "boolean", "object", "array")
MAX_DEPTH = 6
MAX_ROWS = 300
"""Beyond them a row is shown as JSON, with all its content."""

SchemaPath = tuple[str, ...]
RowRole = Literal["root", "property", "items"]

ALWAYS = {"description": "description", "enum": "enum", "default": "default"}
_NUMBERS = {"low": "minimum", "high": "maximum"}
KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "string": {**ALWAYS, "format": "format", "low": "minLength", "high": "maxLength"},
    "integer": {**ALWAYS, **_NUMBERS},
    "number": {**ALWAYS, **_NUMBERS},
    "array": {**ALWAYS, "low": "minItems", "high": "maxItems"},
}
"""By type: the field of a row and its keyword."""


@dataclass(frozen=True)
class OutlineRow:
    """One schema within the schema, at the keys of `path`; the root is number 0.

    `texts` and `ticks` are its fields and their values. `parent` is a number, -1 for the root;
    `first` and `last` give its position among its siblings.
    """

    number: int
    path: SchemaPath
    place: RowRole
    depth: int
    parent: int
    texts: Mapping[str, str]
    ticks: Mapping[str, bool]
    children: tuple[OutlineRow, ...] = ()
    first: bool = True
    last: bool = True

    def flat(self) -> Iterator[OutlineRow]:
        """This row and all below it, in order of their numbers."""
        yield self
        for child in self.children:
            yield from child.flat()


def outline(schema: Mapping[str, Any]) -> OutlineRow:
    """The root row of an object's schema."""
    return _Outliner().row(dict(schema), path=(), place="root", depth=0, parent=-1, required=False)


def row_at(root: OutlineRow, path: SchemaPath) -> OutlineRow | None:
    """The row of `path`, or None."""
    return next((row for row in root.flat() if row.path == path), None)


# Rows of a schema ---------------------------------------------------------------------------------


class _Outliner:
    def __init__(self) -> None:
        self._count = 0

    def row(
        self, schema: Any, path: SchemaPath, place: RowRole, depth: int, parent: int, required: bool
    ) -> OutlineRow:
        number, self._count = self._count, self._count + 1
        texts: dict[str, str] = {}
        ticks: dict[str, bool] = {}
        if place == "property":
            ticks["required"] = required
            if _is_plain(path[-1]):
                texts["name"] = path[-1]
        known = _kind(schema)
        if known is None or (place != "root" and self._exceeds_limits(schema, depth)):
            texts["json"] = _json(schema)
            return OutlineRow(
                number, path=path, place=place, depth=depth, parent=parent, texts=texts, ticks=ticks
            )
        kind, null = known
        rest = dict(schema)
        if place != "root" or kind == "object":
            rest.pop("type", None)
        if place != "root":
            texts["type"], ticks["null"] = kind, null
            _take_fields(kind, rest, texts)
        below = self._child_rows(
            kind, rest=rest, path=path, depth=depth, number=number, ticks=ticks
        )
        texts["rest"] = _json(rest) if rest else ""
        return OutlineRow(
            number,
            path=path,
            place=place,
            depth=depth,
            parent=parent,
            texts=texts,
            ticks=ticks,
            children=below,
        )

    def _exceeds_limits(self, schema: Any, depth: int) -> bool:
        inner = schema.get("properties") or schema.get("items")
        return self._count > MAX_ROWS or (depth >= MAX_DEPTH and bool(inner))

    def _child_rows(
        self, kind: str, rest: dict[str, Any], path: SchemaPath, depth: int, number: int, ticks: Any
    ) -> tuple[OutlineRow, ...]:
        """The rows below; what they show is removed from `rest`."""
        if kind == "array" and isinstance(rest.get("items"), dict):
            items = rest.pop("items")
            return (
                self.row(
                    items,
                    path=(*path, "items"),
                    place="items",
                    depth=depth + 1,
                    parent=number,
                    required=False,
                ),
            )
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
        needed = {name for name in required if isinstance(name, str)}
        rows = [
            self.row(
                prop,
                path=(*path, "properties", name),
                place="property",
                depth=depth + 1,
                parent=number,
                required=name in needed,
            )
            for name, prop in properties.items()
        ]
        return tuple(_mark_ends(row, place, len(rows)) for place, row in enumerate(rows))


def _mark_ends(row: OutlineRow, place: int, count: int) -> OutlineRow:
    return replace(row, first=place == 0, last=place == count - 1)


def _kind(schema: Any) -> tuple[str, bool] | None:
    """The type and whether null is allowed; None if the form cannot represent it."""
    match schema:
        case {"type": str(kind)} if kind in TYPES:
            return kind, False
        case {"type": [str(kind), "null"]} if kind in TYPES:
            return kind, True
        case dict() if "type" not in schema:
            return "", False
    return None


def _take_fields(kind: str, rest: dict[str, Any], texts: dict[str, str]) -> None:
    """Removes from `rest` what its fields represent exactly."""
    for name, keyword in KEYWORDS.get(kind, ALWAYS).items():
        text = _text(name, rest[keyword], kind) if keyword in rest else ""
        if text:
            del rest[keyword]
        texts[name] = text


def _text(name: str, value: Any, kind: str) -> str:
    """The text of the field for `value`; "" if parsing it would give another value."""
    match name, value:
        case ("description" | "format", str()):
            text = value
        case "default", str() if kind == "string":
            text = value
        case "enum", list():
            flat = kind == "string" and all(isinstance(item, str) for item in value)
            text = "\n".join(item if flat else _json(item, flat=True) for item in value)
        case ("default" | "low" | "high", _):
            text = _json(value, flat=True)
        case _:
            return ""
    if not _is_plain(text, lines=name in ("description", "enum")):
        return ""
    try:
        return text if _json(read(name, text, kind)) == _json(value) else ""
    except ValueError:
        return ""


def _is_plain(text: str, *, lines: bool = False) -> bool:
    """Whether a form field preserves the text."""
    return bool(text) and not any(
        (char < " " and not (lines and char == "\n"))
        or char == "\x7f"
        or "\ud800" <= char <= "\udfff"
        for char in text
    )


def _json(value: Any, *, flat: bool = False) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=None if flat else 2)
    if _is_plain(text, lines=not flat):
        return text
    return json.dumps(value, indent=None if flat else 2)


def read(name: str, text: str, kind: str) -> Any:
    """The value of a field's text; ValueError with a sentence."""
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
                raise ValueError("Enter a number, or leave it empty.")
            return number
    return value_of(text)


def value_of(text: str) -> Any:
    """The value of a JSON text; ValueError with a sentence."""
    try:
        return strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        message = (
            f"This is not a JSON value ({str(error).rstrip('.')}). Write texts in double quotes."
        )
        raise ValueError(message) from None


# The user's edits of the rows, merged into the schema; rows added, removed and moved. Only what
# differs from what was shown is changed, so an unedited form gives the identical schema. A form is
# a mapping from `NUMBER.FIELD` to text.


@dataclass(frozen=True)
class EditedSchema:
    """The schema after the form. `problems` are sentences by `NUMBER.FIELD`: if there are any, the
    schema is unchanged. `paths` are the new places of the rows."""

    schema: dict[str, Any]
    problems: Mapping[str, str]
    paths: Mapping[int, SchemaPath]


def apply_form(schema: Mapping[str, Any], form: Mapping[str, str]) -> EditedSchema:
    """`schema` with the form's differences from `outline(schema)`; a field that is not in the form
    keeps its value, and so do the ticks of a row without `NUMBER.here`."""
    editor = _Editor({name: text.replace("\r\n", "\n") for name, text in form.items()})
    result = editor.rebuild(outline(schema), dict(schema), ())
    return EditedSchema(dict(schema) if editor.problems else result, editor.problems, editor.paths)


def apply_action(
    schema: Mapping[str, Any], act: str, path: SchemaPath
) -> tuple[dict[str, Any], SchemaPath]:
    """`schema` after `add`, `remove`, `up` or `down` at `path`, and the path to focus next."""
    result: dict[str, Any] = copy.deepcopy(dict(schema))
    match act:
        case "add":
            return result, _add(result, path)
        case "remove" if path:
            return result, _remove(result, path)
        case "up" | "down" if path:
            _move(_schema_at(result, path[:-1]), path[-1], -1 if act == "up" else 1)
    return result, path


@dataclass
class _Editor:
    form: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)
    paths: dict[int, SchemaPath] = field(default_factory=dict)

    def rebuild(self, row: OutlineRow, schema: Any, path: SchemaPath) -> Any:
        """The schema of `row`, now at `path`, with the form's edits."""
        self.paths[row.number] = path
        if "json" in row.texts:
            if (text := self._changed_text(row, "json")) is None:
                return schema
            value = self._try_value(row, "json", lambda: value_of(text))
            return value if isinstance(value, dict | bool) else self._refuse_schema(row, schema)
        result = dict(schema)
        kind = row.texts.get("type", "object")
        for name, keyword in KEYWORDS.get(kind, ALWAYS).items():
            self._set_keyword(row, name, keyword, result)
        self._retype(row, result)
        if (closed := self._changed_tick(row, "closed")) is not None:
            result.pop("additionalProperties", None)
            result |= {"additionalProperties": False} if closed else {}
        self._rest(row, result)
        if kind == "array" and row.children:
            result["items"] = self.rebuild(row.children[0], result["items"], (*path, "items"))
        elif row.children:
            self._properties(row, result, path)
        return result

    def _changed_text(self, row: OutlineRow, name: str) -> str | None:
        """The text typed into a field of `row`, or None if unchanged."""
        text = self.form.get(f"{row.number}.{name}")
        return None if text is None or name not in row.texts or text == row.texts[name] else text

    def _changed_tick(self, row: OutlineRow, name: str) -> bool | None:
        """A changed tick of `row`, or None."""
        if f"{row.number}.here" not in self.form or name not in row.ticks:
            return None
        now = f"{row.number}.{name}" in self.form
        return None if now == row.ticks[name] else now

    def _try_value(self, row: OutlineRow, name: str, reading: Callable[[], Any]) -> Any:
        try:
            return reading()
        except ValueError as error:
            self.problems[f"{row.number}.{name}"] = str(error)
            return None

    def _refuse_schema(self, row: OutlineRow, schema: Any) -> Any:
        message = "A schema must be a JSON object, or true or false."
        self.problems.setdefault(f"{row.number}.json", message)
        return schema

    def _set_keyword(
        self, row: OutlineRow, name: str, keyword: str, schema: dict[str, Any]
    ) -> None:
        if (text := self._changed_text(row, name)) is None:
            return
        if not text.strip():
            schema.pop(keyword, None)
            return
        kind = self.form.get(f"{row.number}.type", row.texts.get("type", ""))
        value = self._try_value(row, name, lambda: read(name, text, kind))
        if f"{row.number}.{name}" not in self.problems:
            schema[keyword] = value

    def _retype(self, row: OutlineRow, schema: dict[str, Any]) -> None:
        kind, null = self._changed_text(row, "type"), self._changed_tick(row, "null")
        if kind is None and null is None:
            return
        kind = row.texts["type"] if kind is None else kind
        null = row.ticks["null"] if null is None else null
        if not kind:
            schema.pop("type", None)
        elif kind not in TYPES:
            self.problems[f"{row.number}.type"] = f"Choose one of {', '.join(TYPES)}."
        else:
            types = [kind, "null"] if null else kind
            rest = {name: value for name, value in schema.items() if name != "type"}
            schema.clear()
            schema |= {"type": types, **rest}

    def _rest(self, row: OutlineRow, schema: dict[str, Any]) -> None:
        if (text := self._changed_text(row, "rest")) is None:
            return
        new = self._try_value(row, "rest", lambda: value_of(text) if text.strip() else {})
        if not isinstance(new, dict):
            message = "Keywords must be a JSON object, such as {}."
            self.problems.setdefault(f"{row.number}.rest", message)
            return
        for name in value_of(row.texts["rest"]) if row.texts["rest"] else {}:
            schema.pop(name, None)
        if twice := [name for name in new if name in schema]:
            message = f"{twice[0]} has its own field in this row. Change it there."
            self.problems[f"{row.number}.rest"] = message
        schema |= new

    def _properties(self, row: OutlineRow, schema: dict[str, Any], path: SchemaPath) -> None:
        before: dict[str, Any] = schema["properties"]
        after: dict[str, Any] = {}
        required = list(schema.get("required", []))
        for child in row.children:
            old = child.path[-1]
            new = self.form.get(f"{child.number}.name", old) if "name" in child.texts else old
            if new in after or (old and not new):
                message = "Two properties have this name." if new else "A property needs a name."
                self.problems[f"{child.number}.name"] = message
            after[new] = self.rebuild(child, before[old], (*path, "properties", new))
            if new != old and old in required:
                required[required.index(old)] = new
            match self._changed_tick(child, "required"):
                case True:
                    required.append(new)
                case False:
                    required = [name for name in required if name != new]
        schema["properties"] = after
        if required != list(schema.get("required", [])):
            schema["required"] = required
            if not required:
                del schema["required"]


# Adding, removing, moving ---------------------------------------------------------------------


def _schema_at(schema: Any, path: SchemaPath) -> Any:
    for key in path:
        schema = schema[key]
    return schema


def _add(schema: dict[str, Any], path: SchemaPath) -> SchemaPath:
    here = _schema_at(schema, path)
    if path and "array" in here.get("type", ""):
        here.setdefault("items", {"type": "string"})
        return (*path, "items")
    properties = here.setdefault("properties", {})
    number, name = 1, "field"
    while name in properties:
        number += 1
        name = f"field_{number}"
    properties[name] = {"type": "string"}
    return (*path, "properties", name)


def _remove(schema: dict[str, Any], path: SchemaPath) -> SchemaPath:
    """Removes a row; returns the path of its container, the next focus."""
    above = path[:-1] if path[-1] == "items" else path[:-2]
    del _schema_at(schema, path[:-1])[path[-1]]
    holder = _schema_at(schema, above)
    if path[-1] in (required := holder.get("required", [])) and path[-1] != "items":
        holder["required"] = [name for name in required if name != path[-1]]
        if not holder["required"]:
            del holder["required"]
    return above


def _move(properties: dict[str, Any], name: str, step: int) -> None:
    names = list(properties)
    place = names.index(name)
    other = min(max(place + step, 0), len(names) - 1)
    names[place], names[other] = names[other], names[place]
    items = {name: properties[name] for name in names}
    properties.clear()
    properties |= items
