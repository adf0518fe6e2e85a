"""Type hints of Python, read from source text, as JSON Schema; nothing is run or imported."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from playground.exchange.python_tree import expression_text, is_nested_deeper, parse_expression

MOST_DEPTH = 24
MOST_NODES = 5_000
_MOST_QUOTED = 2_000

Schema = dict[str, Any]


class OpenType(str):
    """A note on a value of unknown type; an explicitly written schema replaces it."""

    def __new__(cls, what: str) -> OpenType:
        return super().__new__(cls, f"{what}, so anything is allowed there.")


_LISTS = (
    *("list", "List", "Sequence", "MutableSequence", "Collection", "Iterable", "Iterator"),
    *("deque", "Deque"),
)
_SETS = ("set", "Set", "frozenset", "FrozenSet", "AbstractSet", "MutableSet")
_TUPLES = ("tuple", "Tuple")
_MAPS = ("dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict", "DefaultDict")
NAMES: dict[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    "NoneType": {"type": "null"},
    "Any": {},
    "object": {},
    **{name: {"type": "array"} for name in (*_LISTS, *_TUPLES)},
    **{name: {"type": "array", "uniqueItems": True} for name in _SETS},
    **{name: {"type": "object"} for name in _MAPS},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "timedelta": {"type": "string", "format": "duration"},
    "UUID": {"type": "string", "format": "uuid"},
    "EmailStr": {"type": "string", "format": "email"},
    **{name: {"type": "string", "format": "uri"} for name in ("AnyUrl", "HttpUrl", "AnyHttpUrl")},
    **{name: {"type": "string"} for name in ("Path", "FilePath", "bytes", "Decimal")},
}
_SAME = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "InitVar", "Type", "Omitted")
"""`Omitted` is our own (`python_signature.python_file`): an optional value that allows no null."""

FIELD = (
    ("ge", "minimum"),
    ("gt", "exclusiveMinimum"),
    ("le", "maximum"),
    ("lt", "exclusiveMaximum"),
    ("multiple_of", "multipleOf"),
    ("min_length", "minLength"),
    ("max_length", "maxLength"),
    ("min_length", "minItems"),
    ("max_length", "maxItems"),
    ("pattern", "pattern"),
    ("title", "title"),
    ("examples", "examples"),
    ("description", "description"),
    ("default", "default"),
)
"""The keywords of pydantic's `Field`, and those of JSON Schema."""

_ENUMS = ("Enum", "IntEnum", "StrEnum")
_RECORDS = ("BaseModel", "TypedDict", "NamedTuple", "Struct")


class TypesTooLarge(ValueError):
    """The types, expanded, are larger than a tool's parameters may be."""


@dataclass
class Types:
    """The classes and aliases of one file; `notes` collects what could not be parsed."""

    classes: Mapping[str, ast.ClassDef]
    aliases: Mapping[str, ast.expr]
    notes: list[str] = field(default_factory=list)
    _nodes: int = 0
    _open: list[str] = field(default_factory=list)

    def schema(self, hint: ast.expr, depth: int = 0) -> Schema:
        """The schema of one type hint."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise TypesTooLarge("Its types are too large when expanded. Import it as JSON Schema.")
        if depth > MOST_DEPTH:
            return self._note_unknown("a hint that is nested too deep")
        match hint:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Constant(value=str() as text):
                return self._quoted_schema(text, depth)
            case ast.Name() | ast.Attribute():
                return self._named_schema(last_name(hint), depth)
            case ast.BinOp(op=ast.BitOr(), left=left, right=right):
                return _union([self.schema(left, depth + 1), self.schema(right, depth + 1)])
            case ast.Subscript(value=value, slice=inside):
                return self._subscript(last_name(value), inside, depth)
        return self._note_unknown(expression_text(hint)[:60])

    def members(self, node: ast.ClassDef, depth: int = 0) -> Schema:
        """The object schema of a model, a dataclass or a TypedDict."""
        properties: dict[str, Schema] = {}
        required = []
        total = _is_total(node)
        for line in (
            line for class_def in _ancestors(node, self.classes) for line in class_def.body
        ):
            match line:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=hint, value=value):
                    if name.startswith("_") or name == "model_config" or _is_name(hint, "ClassVar"):
                        continue
                    if _is_made_inside(value):
                        continue
                    schema = self.with_default(self.schema(hint, depth + 1), value)
                    name = _type_alias(hint, value) or name
                    properties[name] = schema
                    needed = _is_required(hint, value, total=total)
                    required += [name] if needed else []
        members: Schema = {"type": "object", "properties": properties}
        if required:
            members["required"] = list(dict.fromkeys(required))
        if text := ast.get_docstring(node):
            members["description"] = text
        return members

    def with_default(self, schema: Schema, value: ast.expr | None) -> Schema:
        """`schema` with the information of a default, or of a `Field(...)` in its place."""
        match value:
            case None:
                return schema
            case ast.Call(func=func) if last_name(func) in ("Field", "field"):
                return self._with_field(schema, value)
        known, default = literal(value)
        if known and default is not None:
            return {**schema, "default": default}
        return schema

    def _with_field(self, schema: Schema, call: ast.Call) -> Schema:
        extended = dict(schema)
        other = "Length" if extended.get("type") == "array" else "Items"
        words = {word: keyword for word, keyword in FIELD if not keyword.endswith(other)}
        given = [(word.arg, word.value) for word in call.keywords]
        given += [("default", argument) for argument in call.args[:1]]
        for name, value in given:
            known, constant = literal(value)
            if known and name in words and constant is not None and constant is not ...:
                extended[words[name]] = constant
        return extended

    def _quoted_schema(self, text: str, depth: int) -> Schema:
        """A hint in quotes, which may name a class further down in the file."""
        try:
            if len(text) <= _MOST_QUOTED:
                return self.schema(parse_expression(text), depth + 1)
        except TypesTooLarge:
            raise
        except ValueError:
            pass
        return self._note_unknown(text[:60])

    def _named_schema(self, name: str, depth: int) -> Schema:
        if name in self.classes or name in self.aliases:
            if name in self._open:
                self.notes.append(f"{name} refers to itself. Inside it, anything is allowed.")
                return {}
            self._open.append(name)
            try:
                if name in self.aliases:
                    return self.schema(self.aliases[name], depth + 1)
                return self._class(self.classes[name], depth + 1)
            finally:
                self._open.pop()
        if name in NAMES:
            return dict(NAMES[name])
        return self._note_unknown(name)

    def _class(self, node: ast.ClassDef, depth: int) -> Schema:
        if is_enum(node):
            read = [literal(line.value) for line in node.body if isinstance(line, ast.Assign)]
            # An unknown value, such as auto(), makes the enum incomplete.
            known = bool(read) and all(known for known, _ in read)
            return (
                _enum([constant for _, constant in read])
                if known
                else self._note_unknown(node.name)
            )
        if is_record(node, self.classes):
            return self.members(node, depth)
        return self._note_unknown(node.name)

    def _subscript(self, name: str, inside: ast.expr, depth: int) -> Schema:
        several = list(inside.elts) if isinstance(inside, ast.Tuple) else [inside]
        match name:
            case "Optional":
                return _union([self.schema(inside, depth + 1), {"type": "null"}])
            case "Union":
                return _union([self.schema(part, depth + 1) for part in several])
            case "Literal":
                values = [constant for known, constant in map(self._literal, several) if known]
                return (
                    _enum(values) if len(values) == len(several) else self._note_unknown("Literal")
                )
            case "Annotated" if several:
                return self._annotated_schema(several, depth)
            case _ if name in _TUPLES:
                return self._tuple(several, depth)
            case _ if name in _LISTS + _SETS:
                items = self.schema(several[0], depth + 1) if several else {}
                return {**NAMES[name], **({"items": items} if items else {})}
            case _ if name in _MAPS:
                inner = self.schema(several[1], depth + 1) if len(several) == 2 else {}
                return {"type": "object", **({"additionalProperties": inner} if inner else {})}
            case _ if name in _SAME:
                return self.schema(inside, depth + 1)
            case _ if name in self.classes:
                return self._generic_schema(self.classes[name], several, depth)
        return self._note_unknown(name)

    def _generic_schema(
        self, node: ast.ClassDef, several: Sequence[ast.expr], depth: int
    ) -> Schema:
        """A class with types in place of its variables."""
        names = [getattr(parameter, "name", "") for parameter in getattr(node, "type_params", ())]
        for base in node.bases:
            match base:
                case ast.Subscript(value=value, slice=inside) if last_name(value) == "Generic":
                    listed = inside.elts if isinstance(inside, ast.Tuple) else [inside]
                    names = [last_name(parameter) for parameter in listed]
        before = self.aliases
        self.aliases = {**before, **dict(zip(names, several, strict=False))}
        try:
            return self._named_schema(node.name, depth)
        finally:
            self.aliases = before

    def _literal(self, node: ast.expr) -> tuple[bool, Any]:
        """Like `literal`, but also accepts a member of an enum of the file."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=member) if name in self.classes:
                holder = self.classes[name]
                for line in holder.body if is_enum(holder) else ():
                    match line:
                        case ast.Assign(targets=[ast.Name(id=known)], value=value):
                            if known == member:
                                return literal(value)
        return literal(node)

    def _tuple(self, several: Sequence[ast.expr], depth: int) -> Schema:
        match several:
            case [part, ast.Constant(value=last)] if last is ...:
                return {"type": "array", "items": self.schema(part, depth + 1)}
        items = [self.schema(expr, depth + 1) for expr in several]
        count = len(items)
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}

    def _annotated_schema(self, several: Sequence[ast.expr], depth: int) -> Schema:
        schema = self.schema(several[0], depth + 1)
        for note in several[1:]:
            match note:
                case ast.Constant(value=str() as text):
                    schema = {**schema, "description": text}
                case ast.Call(func=func, args=[ast.Constant(value=str() as text), *_]) if (
                    last_name(func) == "Doc"
                ):
                    schema = {**schema, "description": text}
                case ast.Call(func=func) if last_name(func) == "Field":
                    schema = self._with_field(schema, note)
        return schema

    def _note_unknown(self, what: str) -> Schema:
        self.notes.append(OpenType(f"The type {what!r} is not known here"))
        return {}


def last_name(node: ast.expr) -> str:
    """`tool` for `mcp.tool`, "" for other expressions."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def literal(node: ast.expr | None) -> tuple[bool, Any]:
    """(whether it is a plain value that JSON can represent, the value)."""
    if node is not None and is_nested_deeper(node, MOST_DEPTH):
        return False, None
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError):
        return False, None
    if isinstance(value, tuple):
        value = list(value)
    return value is ... or _is_json(value), value


def _is_json(value: Any) -> bool:
    match value:
        case None | bool() | int() | str():
            return not isinstance(value, int) or abs(value) < 10**400
        case float():
            return value == value and abs(value) != float("inf")
        case list():
            return all(_is_json(member) for member in value)
        case dict():
            return all(isinstance(key, str) and _is_json(member) for key, member in value.items())
    return False


def is_enum(node: ast.ClassDef) -> bool:
    return any(last_name(base) in _ENUMS for base in node.bases)


def is_record(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> bool:
    """Whether a class is a list of typed members: by its own or an inherited base, or by
    @dataclass."""
    line = _ancestors(node, classes)
    marks = [mark for class_ in line for mark in class_.decorator_list]
    calls = [mark.func if isinstance(mark, ast.Call) else mark for mark in marks]
    bases = [last_name(base) for class_ in line for base in class_.bases]
    return any(last_name(mark) == "dataclass" for mark in calls) or any(
        base in _RECORDS for base in bases
    )


def _ancestors(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """The class after its base classes of the same file, each once."""
    by_name = {node.name: node}
    todo = [node]
    while todo:
        for base in todo.pop().bases:
            name = last_name(base)
            if name in classes and name not in by_name:
                by_name[name] = classes[name]
                todo.append(classes[name])
    return list(reversed(by_name.values()))


def _is_made_inside(value: ast.expr | None) -> bool:
    """Whether a dataclass sets a member itself (`init=False`)."""
    match value:
        case ast.Call(func=func, keywords=words) if last_name(func) == "field":
            return any(word.arg == "init" and literal(word.value)[1] is False for word in words)
    return False


def _is_total(node: ast.ClassDef) -> bool:
    return not any(
        word.arg == "total" and literal(word.value)[1] is False for word in node.keywords
    )


def _is_name(hint: ast.expr, name: str) -> bool:
    return last_name(hint.value if isinstance(hint, ast.Subscript) else hint) == name


def _type_alias(hint: ast.expr, value: ast.expr | None) -> str:
    """The JSON name of a pydantic member, if its `Field` defines another one."""
    notes = [value]
    match hint:
        case ast.Subscript(value=of, slice=ast.Tuple(elts=several)) if last_name(of) == "Annotated":
            notes += several
    for note in notes:
        match note:
            case ast.Call(func=func, keywords=words) if last_name(func) == "Field":
                words_given = {word.arg: literal(word.value)[1] for word in words}
                alias = words_given.get("validation_alias") or words_given.get("alias")
                return alias if isinstance(alias, str) else ""
    return ""


def _is_required(hint: ast.expr, value: ast.expr | None, *, total: bool) -> bool:
    if _is_name(hint, "NotRequired"):
        return False
    if _is_name(hint, "Required"):
        return True
    return total and not has_default(value)


def has_default(value: ast.expr | None) -> bool:
    """Whether there is a default: a `Field(...)` may have none."""
    match value:
        case None:
            return False
        case ast.Call(func=func, args=args, keywords=words) if last_name(func) in (
            "Field",
            "field",
        ):
            if args:
                return literal(args[0])[1] is not ...
            return any(word.arg in ("default", "default_factory") for word in words)
    return literal(value)[1] is not ...


def _enum(values: list[Any]) -> Schema:
    kinds: list[tuple[type, str]] = [(bool, "boolean"), (int, "integer"), (str, "string")]
    for kind, name in kinds:
        if all(type(value) is kind for value in values):
            return {"type": name, "enum": values}
    return {"enum": values}


def _union(schemas: list[Schema]) -> Schema:
    """`anyOf`; a nullable plain type says so in its `type`."""
    flat: list[Schema] = []
    for schema in schemas:
        inner = schema["anyOf"] if list(schema) == ["anyOf"] else [schema]
        flat += [part for part in inner if part not in flat]
    if {} in flat or len(flat) == 1:
        return {} if {} in flat else flat[0]
    kinds = [schema.get("type") for schema in flat if list(schema) == ["type"]]
    if len(flat) == 2 and len(kinds) == 2 and "null" in kinds and isinstance(kinds[0], str):
        return {"type": [*(kind for kind in kinds if kind != "null"), "null"]}
    return {"anyOf": flat}
