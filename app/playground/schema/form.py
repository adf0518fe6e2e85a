"""Converts a JSON Schema into form fields, and a filled form back into JSON text. No HTML.

The name of a field is `KIND:POINTER`. If the plain field of a place could not reproduce its value
exactly (an optional empty text, a list item with a line break, another type), the place is shown as
JSON; so reading an unedited form gives the value that filled it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from playground.core.arguments import pointer_step
from playground.core.events import Problem
from playground.core.json_values import ExactNumber, load_spelled
from playground.schema.schema_checks import is_local, resolve
from playground.schema.strict_json import InvalidJSON, parse

# The words next to a field of a form: what a schema requires, in a few characters.

MOST_OPTIONS = 500

_BOUNDS = (
    ("minimum", "≥"),
    ("exclusiveMinimum", ">"),
    ("maximum", "≤"),
    ("exclusiveMaximum", "<"),
    ("multipleOf", "in steps of"),
)
_SIZES = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "items"),
    ("minProperties", "maxProperties", "members"),
)

FieldKind = Literal[
    "text", "long", "number", "integer", "boolean", "choice", "date", "lines", "json", "object"
]

MOST_FIELDS = 300
"""Objects after this many fields are shown as JSON."""

MOST_DEEP = 3
"""Objects nested deeper are shown as JSON."""

_LONG = 200
"""A text that may be longer than this gets a multi-line field."""

_SCALARS = ("string", "number", "integer", "boolean")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9]")

_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
"""Characters that a form does not preserve, such as carriage returns, which browsers add."""

Form = Mapping[str, Sequence[str]]
"""The fields of a form as received, each with all its values."""

_ABSENT: Any = object()


def label_of(schema: Any, name: str) -> str:
    """`minutes · integer ≥ 5 · default 30`: the name and the requirements."""
    return " · ".join(word for word in (name, *_words(schema)) if word)


def options_of(schema: Any) -> list[Any]:
    """The values of an enum or a const, or none if there is neither."""
    if not isinstance(schema, Mapping):
        return []
    if "const" in schema:
        return [schema["const"]]
    options = schema.get("enum")
    return options if isinstance(options, list) and len(options) <= MOST_OPTIONS else []


def _words(schema: Any) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        yield "JSON"
        return
    if not options_of(schema):
        bounds = (
            f"{sign} {_short(schema[keyword])}" for keyword, sign in _BOUNDS if keyword in schema
        )
        yield " ".join((_type(schema), *bounds)).strip()
    for low, high, what in _SIZES:
        if low in schema or high in schema:
            yield f"{_range(schema.get(low), schema.get(high))} {what}"
    if "pattern" in schema:
        yield f"like {str(schema['pattern'])[:60]}"
    if "default" in schema:
        yield f"default {_short(schema['default'])}"


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"type": "string", "format": str(form)}:
            return form
        case {"type": "string"}:
            return ""
        case {"type": "array", "items": {"type": str(kind)}} if kind not in ("object", "array"):
            return f"list of {kind}s, one per line"
        case {"type": "array"}:
            return "list, as JSON"
        case {"type": "object"} | {"properties": _}:
            return ""
        case {"type": str(kind)}:
            return kind
    return "JSON"


def _range(low: Any, high: Any) -> str:
    if low is None:
        return f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


@dataclass(frozen=True)
class FormField:
    """One place of the value. `pointer` is its JSON pointer and `key` the name of its input.

    `label` states the requirements ("minutes · integer ≥ 5"). `value` is the text of the input, ""
    for none; `choices` are (JSON text, label). A `nullable` field has a box `null_key` next to it,
    ticked if `is_null`. An `object` has no input but `children`. The lines of `lines` have the type
    `items`. `rest` marks the field for the members of an object without one of their own.
    """

    pointer: str
    name: str
    label: str
    kind: FieldKind
    required: bool = False
    description: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    value: str = ""
    children: tuple[FormField, ...] = ()
    nullable: bool = False
    is_null: bool = False
    items: str = ""
    rest: bool = False

    @property
    def key(self) -> str:
        return f"{'rest' if self.rest else self.kind}:{self.pointer}"

    @property
    def null_key(self) -> str:
        return f"null:{self.pointer}"


@dataclass(frozen=True)
class FilledForm:
    """`text` is the JSON text of the value, "" if nothing was entered or `problems` prevent
    parsing. It is not checked against the schema here."""

    text: str = ""
    problems: tuple[Problem, ...] = ()


class _FormState:
    """`root` is the target of each `$ref`, `left` the number of fields still allowed: a schema that
    references itself in each of its members would have millions."""

    def __init__(self, root: Any) -> None:
        self.root, self.left = root, MOST_FIELDS


def fields(schema: Any, text: str = "") -> tuple[FormField, ...]:
    """The fields for a value of `schema`, filled with the value in `text` ("" for none).

    InvalidJSON if `text` is not strict JSON. The fields of an object are those of its members.
    """
    value = _ABSENT
    if text.strip():
        parse(text)
        value = load_spelled(text)
    root = _form_field(_FormState(schema), schema, "", "", value, required=True, depth=0)
    return root.children if root.kind == "object" else (root,)


FormErrors = list[tuple[FormField, str]]
"""Fields that cannot be parsed, each with its problem."""


def value_of(schema: Any, form: Form, naming: Callable[[str], str] = str) -> FilledForm:
    """The value in `form`, with the digits as typed; problems by pointer, for which `naming` gives
    the name of the place in sentences.

    Empty optional fields are left out; a required text may be empty. Fields that are not in the
    schema are ignored.
    """
    wrong: FormErrors = []
    root = _form_field(_FormState(schema), schema, "", "", _ABSENT, required=True, depth=0)
    value = _read(root, form, wrong)
    if wrong:
        return FilledForm("", tuple(_problem(field, what, naming) for field, what in wrong))
    if value is _ABSENT:
        return FilledForm()
    text = _json_text(value)
    try:
        parse(text)
    except InvalidJSON as error:
        return FilledForm("", (Problem("malformed", str(error)),))
    return FilledForm(text)


def form_of(form_fields: Sequence[FormField]) -> dict[str, list[str]]:
    """The form that a browser would send for these fields, without edits."""
    return dict(_inputs(form_fields))


def _inputs(form_fields: Sequence[FormField]) -> Iterator[tuple[str, list[str]]]:
    for field in form_fields:
        if field.kind == "object":
            yield from _inputs(field.children)
        else:
            yield field.key, [field.value]
        if field.is_null:
            yield field.null_key, ["on"]


# From a schema to fields.


def _form_field(
    ground: _FormState,
    schema: Any,
    pointer: str,
    name: str,
    value: Any,
    *,
    required: bool,
    depth: int,
) -> FormField:
    """The field of one place: the plain one if it reproduces `value`, else one of JSON."""
    ground.left -= 1
    schema, nullable = _follow(ground.root, schema)
    description = str(schema.get("description", "")) if isinstance(schema, Mapping) else ""
    bare = FormField(
        pointer,
        name=name,
        label=label_of(schema, name),
        kind="json",
        required=required,
        description=description,
        nullable=nullable,
    )
    plain = _plain_field(ground, schema, bare, value, depth)
    if plain.kind == "json" or value is _ABSENT:
        return plain
    if _read(plain, form_of([plain]), []) == value:
        return plain
    return replace(bare, nullable=False, value=_json_text(value))


def _follow(root: Any, schema: Any) -> tuple[Any, bool]:
    """`schema` with a local `$ref` resolved and the branch for null removed."""
    for _ in range(8):
        match schema:
            case {"$ref": str(ref)} if is_local(ref):
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                target = resolve(root, ref)
                schema = {**target, **rest} if isinstance(target, Mapping) else target
            case {"allOf": [Mapping() as only]}:
                schema = {**only, **{key: value for key, value in schema.items() if key != "allOf"}}
            case _:
                break
    match schema:
        case {"type": [*types]} if "null" in types and len(types) == 2:
            (kind,) = (
                (kind for kind in types if kind != "null") if types.count("null") == 1 else ("",)
            )
            return {**schema, "type": kind}, True
        case {"anyOf": [branch, {"type": "null"}]} | {"anyOf": [{"type": "null"}, branch]}:
            rest = {key: inner for key, inner in schema.items() if key != "anyOf"}
            inner, _ = _follow(root, branch)
            return ({**inner, **rest}, True) if isinstance(inner, Mapping) else (schema, False)
    return schema, False


def _plain_field(
    ground: _FormState, schema: Any, bare: FormField, value: Any, depth: int
) -> FormField:
    """The field for the schema, filled with `value` as far as possible."""
    bare = replace(bare, is_null=value is None and bare.nullable)
    if options := options_of(schema):
        choices = tuple((_json_text(option), _option_text(option)) for option in options)
        return replace(bare, kind="choice", choices=choices, value=_json(value, bare))
    match _kind(schema):
        case "object" if depth < MOST_DEEP:
            return _object(ground, schema, bare, value, depth)
        case "array" if (items := _kind(_follow(ground.root, schema.get("items"))[0])) in _SCALARS:
            return replace(bare, kind="lines", items=items, value=_lines(value))
        case "boolean":
            choices = (("true", "true"), ("false", "false"))
            return replace(bare, kind="boolean", choices=choices, value=_json(value, bare))
        case "number" | "integer" as kind:
            number: FieldKind = "integer" if kind == "integer" else "number"
            return replace(bare, kind=number, value=_json(value, bare))
        case "string":
            text = value if isinstance(value, str) and not isinstance(value, ExactNumber) else ""
            return replace(bare, kind=_text_kind(schema, bare.name, text), value=text)
    return replace(bare, nullable=False, is_null=False, value=_json(value, None))


def _kind(schema: Any) -> str:
    """The one type of a schema whose field is determined by its type, or ""."""
    if not isinstance(schema, Mapping) or any(word in schema for word in ("anyOf", "oneOf", "not")):
        return ""
    kind = schema.get("type", "object" if "properties" in schema else "")
    return kind if isinstance(kind, str) and "allOf" not in schema else ""


def _text_kind(schema: Mapping[str, Any], name: str, text: str) -> FieldKind:
    if schema.get("format") == "date" and (not text or _DATE.fullmatch(text)):
        return "date"
    most = schema.get("maxLength", 0)
    long = (isinstance(most, int) and most > _LONG) or name in ("content", "body", "code", "script")
    return "long" if long or "\n" in text or len(text) > _LONG else "text"


def _object(
    ground: _FormState, schema: Mapping[str, Any], bare: FormField, value: Any, depth: int
) -> FormField:
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping) or len(properties) > ground.left:
        return replace(bare, value=_json(value, None))
    needed, members = schema.get("required", ()), value if isinstance(value, dict) else {}
    children = [
        _form_field(
            ground,
            inner,
            f"{bare.pointer}/{pointer_step(name)}",
            name,
            members.get(name, _ABSENT),
            required=isinstance(needed, list) and name in needed,
            depth=depth + 1,
        )
        for name, inner in properties.items()
    ]
    others = {name: item for name, item in members.items() if name not in properties}
    open_ended = schema.get("additionalProperties") not in (None, False)
    if others or open_ended or (not properties and schema.get("additionalProperties") is not False):
        text = _json_text(others) if others else ""
        label = "other members · JSON object" if properties else "members · JSON object"
        children.append(FormField(bare.pointer, "", label, "json", value=text, rest=True))
    return replace(bare, kind="object", children=tuple(children))


def _option_text(option: Any) -> str:
    return option if isinstance(option, str) and option else _json_text(option)


def _json(value: Any, bare: FormField | None) -> str:
    """`value` as the JSON text of an input; "" if there is none, or the box for null says it."""
    if value is _ABSENT or (value is None and bare is not None and bare.is_null):
        return ""
    return _json_text(value)


def _lines(value: Any) -> str:
    """The items of a list, one per line; reading it back shows whether that is lossless."""
    if not isinstance(value, list):
        return ""
    return "\n".join(
        item if isinstance(item, str) and not isinstance(item, ExactNumber) else _json_text(item)
        for item in value
    )


# From a form to a value.


def _read(field: FormField, form: Form, wrong: FormErrors) -> Any:
    """The value of a place, or _ABSENT. Lists and objects hold an ExactNumber for each number."""
    if form.get(field.null_key, [""])[-1:] == ["on"] and field.nullable:
        return None
    if (text := typed_text(form, f"json:{field.pointer}")) is not None:
        return _parse(text, field, wrong)
    if field.kind == "object":
        return _members(field, form, wrong)
    kinds = ("text", "long", "date") if field.kind in ("text", "long", "date") else (field.kind,)
    raw = next(
        (entry for kind in kinds if (entry := typed_text(form, f"{kind}:{field.pointer}"))), ""
    )
    match field.kind:
        case "text" | "long" | "date":
            if _ODD.search(raw):
                return _add_error(field, "contains a character that only JSON can express", wrong)
            there = field.required and any(f"{kind}:{field.pointer}" in form for kind in kinds)
            return raw if raw or (there and field.kind != "date") else _ABSENT
        case "number" | "integer":
            return _number(raw, field, wrong) if raw.strip() else _ABSENT
        case "boolean" | "choice" | "json":
            return _parse(raw, field, wrong)
        case "lines":
            return _items(raw, field, wrong)


def typed_text(form: Form, key: str) -> str | None:
    """A field's last value, with its original line ends; None if it was not sent."""
    values = form.get(key)
    return values[-1].replace("\r\n", "\n") if values else None


def _members(field: FormField, form: Form, wrong: FormErrors) -> Any:
    value: dict[str, Any] = {}
    for child in field.children:
        if child.rest:
            continue
        inner = _read(child, form, wrong)
        if inner is not _ABSENT:
            value[child.name] = inner
    rest = typed_text(form, f"rest:{field.pointer}")
    if rest is not None and rest.strip():
        others = _parse(rest, field, wrong)
        if others is not _ABSENT and not isinstance(others, dict):
            return _add_error(field, "must have its other members as a JSON object", wrong)
        for name, inner in (others or {}).items() if isinstance(others, dict) else ():
            if any(child.name == name and not child.rest for child in field.children):
                return _add_error(field, f"already has a field for {name!r}; use that field", wrong)
            value[name] = inner
    return value if value or field.required else _ABSENT


def _items(text: str, field: FormField, wrong: FormErrors) -> Any:
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return [] if field.required else _ABSENT
    if _ODD.search(text):
        return _add_error(field, "contains a character that only JSON can express", wrong)
    if field.items == "string":
        return lines
    return [_parse(line, field, wrong) for line in lines]


def _number(text: str, field: FormField, wrong: FormErrors) -> Any:
    word = text.strip()
    if _NUMBER.fullmatch(word):
        return ExactNumber(word)
    example = "30" if field.kind == "integer" else "2.5"
    return _add_error(field, f"must be a number like {example}, not {word[:40]!r}", wrong)


def _parse(text: str, field: FormField, wrong: FormErrors) -> Any:
    if not text.strip():
        return _ABSENT
    try:
        parse(text)
    except InvalidJSON as error:
        return _add_error(field, f"must be JSON. {str(error).rstrip('.')}", wrong)
    return load_spelled(text)


def _add_error(field: FormField, what: str, wrong: FormErrors) -> Any:
    wrong.append((field, what))
    return _ABSENT


def _problem(field: FormField, what: str, naming: Callable[[str], str]) -> Problem:
    name = naming(field.pointer) if field.pointer else "The value"
    return Problem("schema", f"{name} {what}.", field.pointer)


def _json_text(value: Any) -> str:
    """`value` as JSON text; an ExactNumber is written as it was read."""
    match value:
        case ExactNumber():
            return str(value)
        case dict():
            inner = (
                f"{json.dumps(key, ensure_ascii=False)}: {_json_text(value[key])}" for key in value
            )
            return "{" + ", ".join(inner) + "}"
        case list():
            return "[" + ", ".join(map(_json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
