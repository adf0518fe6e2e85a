"""A tool written as a Python function: the nearest type hints for its schema. Reads nothing back.

https://docs.python.org/3/library/typing.html
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.core.tools import Tool
from app.schema.keywords import is_local, resolve

WIDTH = 88
_MOST_WRITTEN_DEPTH = 8
_MOST_CLASSES = 200

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_FORMATS = {
    "date-time": "datetime",
    "date": "date",
    "time": "time",
    "duration": "timedelta",
    "uuid": "UUID",
    "email": "EmailStr",
    "uri": "AnyUrl",
}
_FIELD = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
    "title": "title",
    "examples": "examples",
}
_TAKEN = {
    *("Annotated", "Any", "Context", "Decimal", "Dict", "Enum", "Field", "FilePath", "Final"),
    *("Iterable", "List", "Literal", "Mapping", "Optional", "Path", "Required", "Sequence"),
    *("Set", "Tuple", "Type", "Union", "RunContext", "ToolContext", "ToolRuntime"),
}
"""Names that a reader takes for something else than a class of this file."""


@dataclass
class _Writing:
    """`left` is how many more hints there may be: a `$ref` can multiply without end."""

    root: Mapping[str, Any]
    classes: dict[str, str] = field(default_factory=dict)
    left: int = 2_000


def written(tool: Tool, *, in_docstring: bool) -> str:
    """The source. `in_docstring` says where the arguments are described: there, or in their
    hints, which can say any text."""
    writing, parameters = _Writing(tool.parameters), tool.parameters
    properties = parameters.get("properties", {})
    needed = parameters.get("required", ())
    told, arguments = {}, []
    keyword_only = _default_comes_first(properties, needed)
    for name, schema in properties.items():
        schema = schema if isinstance(schema, Mapping) else {}
        described = schema.get("description")
        if in_docstring and isinstance(described, str) and _one_line(described):
            told[_identifier(name)] = described
            schema = {key: one for key, one in schema.items() if key != "description"}
        required = name in needed
        default, schema = _default(schema, required=required)
        hint = writing_hint(writing, schema, name, 0)
        equals = f" = {default}" if default else ""
        arguments.append(f"{_identifier(name)}: {hint}{equals}")
    head = _head(tool.name, [*(["*"] if keyword_only else []), *arguments])
    blocks = [*writing.classes.values(), head + _docstring(tool.description, told) + "    ...\n"]
    return "\n\n".join(blocks)


def writing_hint(writing: _Writing, schema: Any, name: str, depth: int) -> str:
    """The hint for `schema`; `name` is what a class for it is called after."""
    writing.left -= 1
    if not isinstance(schema, Mapping) or depth > _MOST_WRITTEN_DEPTH or writing.left < 0:
        return "Any"
    ref = schema.get("$ref")
    if is_local(ref):
        rest = {key: one for key, one in schema.items() if key != "$ref"}
        named = resolve(writing.root, str(ref))
        inner = {**named, **rest} if isinstance(named, Mapping) else {}
        return writing_hint(writing, inner, str(ref).rpartition("/")[2] or name, depth + 1)
    hint, said = _core(writing, schema, name, depth)
    words = [
        f"{_FIELD[key]}={_literal(schema[key])}"
        for key in _FIELD
        if key in schema and key not in said
    ]
    for key in ("description", "default"):
        if key in schema and key not in said:
            words.append(f"{key}={_literal(schema[key])}")
    return f"Annotated[{hint}, Field({', '.join(words)})]" if words else hint


def _core(
    writing: _Writing, schema: Mapping[str, Any], name: str, depth: int
) -> tuple[str, tuple[str, ...]]:
    """The hint without its `Field`, and the keywords that it says beside type and members."""

    def inner(one: Any) -> str:
        return writing_hint(writing, one, name, depth + 1)

    match schema:
        case {"enum": [_, *_] as values}:
            return f"Literal[{', '.join(map(_literal, values))}]", ()
        case {"const": value}:
            return f"Literal[{_literal(value)}]", ()
        case {"anyOf": [_, *_] as several}:
            return " | ".join(inner(one) for one in several), ()
        case {"type": [_, *_] as kinds}:
            rest = {key: one for key, one in schema.items() if key in ("format", "items")}
            return " | ".join(inner({"type": kind, **rest}) for kind in kinds), ()
        case {"type": "array", "prefixItems": [_, *_] as items}:
            return f"tuple[{', '.join(map(inner, items))}]", ("minItems", "maxItems")
        case {"type": "array"}:
            kind = "set" if schema.get("uniqueItems") is True else "list"
            return f"{kind}[{inner(schema['items'])}]" if schema.get("items") else kind, ()
        case {"properties": Mapping()}:
            return _class(writing, schema, name, depth), ("description", "title")
        case {"type": "object"}:
            values = schema.get("additionalProperties")
            return f"dict[str, {inner(values)}]" if isinstance(values, Mapping) else "dict", ()
        case {"type": "string", "format": str(form)}:
            return _FORMATS.get(form, "str"), ()
        case {"type": str(kind)}:
            return _TYPES.get(kind, "Any"), ()
    return "Any", ()


def _class(writing: _Writing, schema: Mapping[str, Any], name: str, depth: int) -> str:
    """A TypedDict for an object; its name, which is used in its place."""
    called = "".join(word[:1].upper() + word[1:] for word in re.split("[^A-Za-z0-9]+", name))
    called = called if called.isidentifier() and called not in _TAKEN else f"Object{called}"
    number, base = 2, called
    while called in writing.classes:
        called, number = f"{base}{number}", number + 1
    if len(writing.classes) >= _MOST_CLASSES:
        return "dict"
    writing.classes[called] = ""  # so that the name is taken while its members are written
    needed, lines = schema.get("required", ()), []
    for member, inner in schema["properties"].items():
        hint = writing_hint(writing, inner, member, depth + 1)
        wrapped = hint if member in needed else f"NotRequired[{hint}]"
        lines.append(f"    {_identifier(member)}: {wrapped}\n")
    told = schema.get("description")
    docstring = _docstring(told, {}) if isinstance(told, str) else ""
    body = "".join(lines) or ("" if docstring else "    pass\n")
    # Those inside of it come first.
    del writing.classes[called]
    writing.classes[called] = f"class {called}(TypedDict):\n{docstring}{body}"
    return called


def _default(schema: Mapping[str, Any], *, required: bool) -> tuple[str, Mapping[str, Any]]:
    """What stands behind the equals sign, and the schema without it. An argument that may be left
    out and has no default is None."""
    if required:
        return "", schema
    if schema.get("default") is None:
        return "None", schema
    rest = {key: one for key, one in schema.items() if key != "default"}
    return _literal(schema["default"]), rest


def _default_comes_first(properties: Mapping[str, Any], needed: Any) -> bool:
    """Whether Python would refuse the order, were the arguments not given by name only."""
    seen = False
    for name in properties:
        if name not in needed:
            seen = True
        elif seen:
            return True
    return False


def _head(name: str, arguments: list[str]) -> str:
    plain = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")
    mark = "" if plain else f"@tool({_literal(name)})\n"
    called = (
        name if plain else _identifier(re.sub("[^A-Za-z0-9_]", "_", name).lstrip("_") or "tool")
    )
    line = f"def {called}({', '.join(arguments)}):\n"
    if len(line) > WIDTH:
        inside = "".join(f"    {argument},\n" for argument in arguments)
        line = f"def {called}(\n{inside}):\n"
    return mark + line


def _identifier(name: str) -> str:
    """The name of an argument; another one where Python does not take it, which is a loss."""
    made = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    made = f"_{made}" if made[0].isdigit() else made
    return f"{made}_" if keyword.iskeyword(made) else made


def _one_line(text: str) -> bool:
    return bool(text.strip()) and text == " ".join(text.split())


def _docstring(description: str, told: Mapping[str, str]) -> str:
    if not description.strip() and not told:
        return ""
    lines = (
        [line.rstrip() for line in description.strip().split("\n")] if description.strip() else []
    )
    if told:
        lines += ["", "Args:"] if lines else ["Args:"]
        lines += [f"    {name}: {text}" for name, text in told.items()]
    escaped = [_escaped(line) for line in lines]
    if len(escaped) == 1 and not escaped[0].endswith('"'):
        return f'    """{escaped[0]}"""\n'
    indented = "\n".join(f"    {line}" if line else "" for line in escaped[1:])
    first = f'    """{escaped[0]}\n' if escaped else '    """\n'
    return f'{first}{indented}\n    """\n' if indented else f'{first}    """\n'


def _escaped(line: str) -> str:
    line = line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(char if char.isprintable() or char == "\t" else _code(char) for char in line)


def _code(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _literal(value: Any) -> str:
    """A JSON value as a Python literal, in double quotes where that is easy."""
    if isinstance(value, str):
        text = ascii(value) if not value.isprintable() else repr(value)
        if text[0] == "'" and '"' not in text and "\\'" not in text:
            return f'"{text[1:-1]}"'
        return text
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    return repr(value)
