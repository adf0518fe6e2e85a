"""What was typed into the rows of a schema, put back into it; rows added, removed and moved.

Only what differs from what was shown is changed, so an untouched form gives the very same schema. A
form is a mapping from `NUMBER.FIELD` to text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.schema.outline import ALWAYS, KEYWORDS, TYPES, Path, Row, outline, read, value_of


@dataclass(frozen=True)
class Edited:
    """The schema after the form. `problems` are sentences by `NUMBER.FIELD`: where there is one,
    the schema is as it was before the form. `paths` says where each row is now."""

    schema: dict[str, Any]
    problems: Mapping[str, str]
    paths: Mapping[int, Path]


def edited(schema: Mapping[str, Any], form: Mapping[str, str]) -> Edited:
    """`schema` with what the form says otherwise than `outline(schema)`; a field that is not in
    the form stays as it is, and so do the ticks of a row without `NUMBER.here`."""
    editor = _Editor({name: text.replace("\r\n", "\n") for name, text in form.items()})
    made = editor.rebuilt(outline(schema), dict(schema), ())
    return Edited(dict(schema) if editor.problems else made, editor.problems, editor.paths)


def acted(schema: Mapping[str, Any], act: str, path: Path) -> tuple[dict[str, Any], Path]:
    """`schema` after `add`, `remove`, `up` or `down` at `path`, and the path to look at then."""
    made: dict[str, Any] = copy.deepcopy(dict(schema))
    match act:
        case "add":
            return made, _add(made, path)
        case "remove" if path:
            return made, _remove(made, path)
        case "up" | "down" if path:
            _move(_at(made, path[:-1]), path[-1], -1 if act == "up" else 1)
    return made, path


@dataclass
class _Editor:
    form: Mapping[str, str]
    problems: dict[str, str] = field(default_factory=dict)
    paths: dict[int, Path] = field(default_factory=dict)

    def rebuilt(self, row: Row, schema: Any, path: Path) -> Any:
        """The schema of `row`, now at `path`, as the form has it."""
        self.paths[row.number] = path
        if "json" in row.texts:
            if (text := self._typed(row, "json")) is None:
                return schema
            value = self._tried(row, "json", lambda: value_of(text))
            return value if isinstance(value, dict | bool) else self._no_schema(row, schema)
        made = dict(schema)
        kind = row.texts.get("type", "object")
        for name, keyword in KEYWORDS.get(kind, ALWAYS).items():
            self._say(row, name, keyword, made)
        self._retype(row, made)
        if (closed := self._ticked(row, "closed")) is not None:
            made.pop("additionalProperties", None)
            made |= {"additionalProperties": False} if closed else {}
        self._rest(row, made)
        if kind == "array" and row.children:
            made["items"] = self.rebuilt(row.children[0], made["items"], (*path, "items"))
        elif row.children:
            self._properties(row, made, path)
        return made

    def _typed(self, row: Row, name: str) -> str | None:
        """What was typed into a field of `row`, or None where that is what it showed."""
        text = self.form.get(f"{row.number}.{name}")
        return None if text is None or name not in row.texts or text == row.texts[name] else text

    def _ticked(self, row: Row, name: str) -> bool | None:
        """A tick of `row` that was changed, or None."""
        if f"{row.number}.here" not in self.form or name not in row.ticks:
            return None
        now = f"{row.number}.{name}" in self.form
        return None if now == row.ticks[name] else now

    def _tried(self, row: Row, name: str, reading: Callable[[], Any]) -> Any:
        try:
            return reading()
        except ValueError as error:
            self.problems[f"{row.number}.{name}"] = str(error)
            return None

    def _no_schema(self, row: Row, schema: Any) -> Any:
        said = "A schema is a JSON object, or true or false."
        self.problems.setdefault(f"{row.number}.json", said)
        return schema

    def _say(self, row: Row, name: str, keyword: str, made: dict[str, Any]) -> None:
        if (text := self._typed(row, name)) is None:
            return
        if not text.strip():
            made.pop(keyword, None)
            return
        kind = self.form.get(f"{row.number}.type", row.texts.get("type", ""))
        value = self._tried(row, name, lambda: read(name, text, kind))
        if f"{row.number}.{name}" not in self.problems:
            made[keyword] = value

    def _retype(self, row: Row, made: dict[str, Any]) -> None:
        kind, null = self._typed(row, "type"), self._ticked(row, "null")
        if kind is None and null is None:
            return
        kind = row.texts["type"] if kind is None else kind
        null = row.ticks["null"] if null is None else null
        if not kind:
            made.pop("type", None)
        elif kind not in TYPES:
            self.problems[f"{row.number}.type"] = f"Choose one of {', '.join(TYPES)}."
        else:
            said = [kind, "null"] if null else kind
            rest = {name: one for name, one in made.items() if name != "type"}
            made.clear()
            made |= {"type": said, **rest}

    def _rest(self, row: Row, made: dict[str, Any]) -> None:
        if (text := self._typed(row, "rest")) is None:
            return
        new = self._tried(row, "rest", lambda: value_of(text) if text.strip() else {})
        if not isinstance(new, dict):
            said = "Keywords stand in a JSON object, like {}."
            self.problems.setdefault(f"{row.number}.rest", said)
            return
        for name in value_of(row.texts["rest"]) if row.texts["rest"] else {}:
            made.pop(name, None)
        if twice := [name for name in new if name in made]:
            said = f"{twice[0]} has a place of its own in this row; change it there."
            self.problems[f"{row.number}.rest"] = said
        made |= new

    def _properties(self, row: Row, made: dict[str, Any], path: Path) -> None:
        before: dict[str, Any] = made["properties"]
        after: dict[str, Any] = {}
        required = list(made.get("required", []))
        for child in row.children:
            old = child.path[-1]
            new = self.form.get(f"{child.number}.name", old) if "name" in child.texts else old
            if new in after or (old and not new):
                said = "Two properties have this name." if new else "A property needs a name."
                self.problems[f"{child.number}.name"] = said
            after[new] = self.rebuilt(child, before[old], (*path, "properties", new))
            if new != old and old in required:
                required[required.index(old)] = new
            match self._ticked(child, "required"):
                case True:
                    required.append(new)
                case False:
                    required = [name for name in required if name != new]
        made["properties"] = after
        if required != list(made.get("required", [])):
            made["required"] = required
            if not required:
                del made["required"]


# Adding, removing, moving ---------------------------------------------------------------------


def _at(schema: Any, path: Path) -> Any:
    for key in path:
        schema = schema[key]
    return schema


def _add(schema: dict[str, Any], path: Path) -> Path:
    here = _at(schema, path)
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


def _remove(schema: dict[str, Any], path: Path) -> Path:
    """The row that goes; what is looked at next is what held it."""
    above = path[:-1] if path[-1] == "items" else path[:-2]
    del _at(schema, path[:-1])[path[-1]]
    holder = _at(schema, above)
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
