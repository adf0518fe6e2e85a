"""A tool as a Python function: its signature, its TypedDicts and its docstring.

`Face.lossy` lists what Python cannot express of a schema. `python_file` writes several tools into
one module, which can be imported again.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from playground.core.errors import BadTool
from playground.core.tools import Tool
from playground.exchange.parsers import UnreadableText
from playground.exchange.python_functions import Function
from playground.exchange.python_source import functions
from playground.exchange.python_types import FIELD, NAMES
from playground.protocols.tool_limits import recursive_refs
from playground.schema.schema_checks import is_local, pointer, resolve

# -- Types of JSON Schema in Python ----------------------------------------------------------------

WIDTH = 88
_MOST_WRITTEN_DEPTH = 8
_MOST_CLASSES = 200

_TYPES = {NAMES[name]["type"]: name for name in ("str", "int", "float", "bool", "None")}
_FORMATS = {
    schema["format"]: name for name, schema in reversed(NAMES.items()) if "format" in schema
}
"""If there are several names, the first."""
_TAKEN = {
    *("Annotated", "Any", "Context", "Decimal", "Dict", "Enum", "Field", "FilePath", "Final"),
    *("Iterable", "List", "Literal", "Mapping", "Optional", "Path", "Required", "Sequence"),
    *("Omitted", "Set", "Tuple", "Type", "Union", "RunContext", "ToolContext", "ToolRuntime"),
}
"""Names that the parser does not take for a class of this file."""

MOST_LOSSES = 20

_KEPT = ("type", "properties", "required", "additionalProperties", "$defs", "definitions")

_QUIET = ("$schema", "$id", "title", "description", "$comment")
"""For the whole schema these are kept, shown or not; a function takes no other arguments anyway."""

_INFERRED = {str: "string", bool: "boolean", int: "integer"}
_MOST_DEEP = 12

_CLASS = re.compile(r"^class (\w+)\(", re.M)
_MODULES = {
    "datetime": ("date", "datetime", "time", "timedelta"),
    "pydantic": ("AnyUrl", "EmailStr", "Field"),
    "typing": ("Annotated", "Any", "Literal", "NotRequired", "TypedDict"),
    "uuid": ("UUID",),
}
_TOOL = """

# Names a tool that Python has no name for.
tool = lambda name: lambda function: function
"""


@dataclass
class _HintState:
    """`left` is the number of hints still allowed: a `$ref` can multiply without end."""

    root: Mapping[str, Any]
    classes: dict[str, str] = field(default_factory=dict)
    left: int = 2_000


def signature_of(
    tool: Tool, *, in_docstring: bool, in_file: bool = False
) -> tuple[str, frozenset[str]]:
    """The source, and the arguments whose hint allows a None that their schema does not: the
    optional ones. `in_docstring`: the arguments are described there, otherwise in their hints,
    which can contain any text. `in_file` marks such a None by a name of its own (`Omitted`)."""
    writing, parameters = _HintState(tool.parameters), tool.parameters
    properties = parameters.get("properties", {})
    needed = parameters.get("required", ())
    in_docstring_texts, arguments, widened = {}, [], set()
    keyword_only = _default_comes_first(properties, needed)
    for name, schema in properties.items():
        schema = schema if isinstance(schema, Mapping) else {}
        described = schema.get("description")
        if in_docstring and isinstance(described, str) and _one_line(described):
            in_docstring_texts[_identifier(name)] = described
            schema = {key: value for key, value in schema.items() if key != "description"}
        required = name in needed
        default, schema = _default(schema, required=required)
        hint = write_hint(writing, schema, name, 0)
        if default == "None" and not _takes_none(ast.parse(hint, mode="eval").body):
            hint = f"Omitted[{hint}]" if in_file else f"{hint} | None"
            widened.add(_identifier(name))
        equals = f" = {default}" if default else ""
        arguments.append(f"{_identifier(name)}: {hint}{equals}")
    head = _head(tool.name, [*(["*"] if keyword_only else []), *arguments])
    blocks = [
        *writing.classes.values(),
        head + _docstring(tool.description, in_docstring_texts) + "    ...\n",
    ]
    return "\n\n".join(blocks), frozenset(widened)


def _takes_none(hint: ast.expr) -> bool:
    """Whether a hint written by this module allows None."""
    match hint:
        case ast.Constant(value=None) | ast.Name(id="Any"):
            return True
        case ast.BinOp(left=left, right=right):
            return _takes_none(left) or _takes_none(right)
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, *_])):
            return _takes_none(inner)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inside):
            values = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            return any(isinstance(value, ast.Constant) and value.value is None for value in values)
    return False


def write_hint(writing: _HintState, schema: Any, name: str, depth: int) -> str:
    """The hint for `schema`; `name` is the base of a class name for it."""
    writing.left -= 1
    if not isinstance(schema, Mapping) or depth > _MOST_WRITTEN_DEPTH or writing.left < 0:
        return "Any"
    ref = schema.get("$ref")
    if is_local(ref):
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        named = resolve(writing.root, str(ref))
        inner = {**named, **rest} if isinstance(named, Mapping) else {}
        return write_hint(writing, inner, str(ref).rpartition("/")[2] or name, depth + 1)
    hint, covered = _core(writing, schema, name, depth)
    words = [
        f"{word}={_literal(schema[key])}"
        for word, key in FIELD
        if key in schema and key not in covered
    ]
    return f"Annotated[{hint}, Field({', '.join(words)})]" if words else hint


def _core(
    writing: _HintState, schema: Mapping[str, Any], name: str, depth: int
) -> tuple[str, tuple[str, ...]]:
    """The hint without its `Field`, and the keywords that it expresses besides type and members."""

    def inner_hint(part: Any) -> str:
        return write_hint(writing, part, name, depth + 1)

    match schema:
        case {"enum": [_, *_] as values}:
            return f"Literal[{', '.join(map(_literal, values))}]", ()
        case {"const": value}:
            return f"Literal[{_literal(value)}]", ()
        case {"anyOf": [_, *_] as several}:
            return " | ".join(inner_hint(part) for part in several), ()
        case {"type": [_, *_] as kinds}:
            rest = {key: part for key, part in schema.items() if key in ("format", "items")}
            return " | ".join(inner_hint({"type": kind, **rest}) for kind in kinds), ()
        case {"type": "array", "prefixItems": [_, *_] as items}:
            return f"tuple[{', '.join(map(inner_hint, items))}]", ("minItems", "maxItems")
        case {"type": "array"}:
            kind = "set" if schema.get("uniqueItems") is True else "list"
            return f"{kind}[{inner_hint(schema['items'])}]" if schema.get("items") else kind, ()
        case {"properties": Mapping()}:
            return _class(writing, schema, name, depth), ("description", "title")
        case {"type": "object"}:
            values = schema.get("additionalProperties")
            return f"dict[str, {inner_hint(values)}]" if isinstance(values, Mapping) else "dict", ()
        case {"type": "string", "format": str(form)}:
            return _FORMATS.get(form, "str"), ()
        case {"type": str(kind)}:
            return _TYPES.get(kind, "Any"), ()
    return "Any", ()


def _class(writing: _HintState, schema: Mapping[str, Any], name: str, depth: int) -> str:
    """A TypedDict for an object; returns its name, which is used as the hint."""
    called = "".join(word[:1].upper() + word[1:] for word in re.split("[^A-Za-z0-9]+", name))
    called = called if called.isidentifier() and called not in _TAKEN else f"Object{called}"
    number, base = 2, called
    while called in writing.classes:
        called, number = f"{base}{number}", number + 1
    if len(writing.classes) >= _MOST_CLASSES:
        return "dict"
    writing.classes[called] = ""  # reserves the name while its members are written
    needed, lines = schema.get("required", ()), []
    for member, inner in schema["properties"].items():
        hint = write_hint(writing, inner, member, depth + 1)
        wrapped = hint if member in needed else f"NotRequired[{hint}]"
        lines.append(f"    {_identifier(member)}: {wrapped}\n")
    text = schema.get("description")
    docstring = _docstring(text, {}) if isinstance(text, str) else ""
    body = "".join(lines) or ("" if docstring else "    pass\n")
    # Nested classes come first.
    del writing.classes[called]
    writing.classes[called] = f"class {called}(TypedDict):\n{docstring}{body}"
    return called


def _default(schema: Mapping[str, Any], *, required: bool) -> tuple[str, Mapping[str, Any]]:
    """The default value as written, and the schema without it. An optional argument without a
    default is None."""
    if required:
        return "", schema
    if schema.get("default") is None:
        return "None", schema
    rest = {key: value for key, value in schema.items() if key != "default"}
    return _literal(schema["default"]), rest


def _default_comes_first(properties: Mapping[str, Any], needed: Any) -> bool:
    """Whether Python would reject the order, were the arguments not keyword-only."""
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
    """The name of an argument; changed if Python does not allow it, which is a loss."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    word = f"_{word}" if word[0].isdigit() else word
    return f"{word}_" if keyword.iskeyword(word) else word


def _one_line(text: str) -> bool:
    return bool(text.strip()) and text == " ".join(text.split())


def _docstring(description: str, descriptions: Mapping[str, str]) -> str:
    if not description.strip() and not descriptions:
        return ""
    lines = (
        [line.rstrip() for line in description.strip().split("\n")] if description.strip() else []
    )
    if descriptions:
        lines += ["", "Args:"] if lines else ["Args:"]
        lines += [f"    {name}: {text}" for name, text in descriptions.items()]
    escaped = [_escape_line(line) for line in lines]
    if len(escaped) == 1 and not escaped[0].endswith('"'):
        return f'    """{escaped[0]}"""\n'
    indented = "\n".join(f"    {line}" if line else "" for line in escaped[1:])
    first = f'    """{escaped[0]}\n' if escaped else '    """\n'
    return f'{first}{indented}\n    """\n' if indented else f'{first}    """\n'


def _escape_line(line: str) -> str:
    line = line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(char if char.isprintable() or char == "\t" else _code(char) for char in line)


def _code(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _literal(value: Any) -> str:
    """A JSON value as a Python literal, in double quotes if that is simple."""
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


@dataclass(frozen=True)
class PythonSource:
    """`source` is one function; `lossy` are sentences on what it omits, () if nothing. `widened`
    are the arguments that are None if a call omits them, but never null in JSON."""

    source: str
    lossy: tuple[str, ...] = ()
    widened: frozenset[str] = frozenset()


def python_source(tool: Tool, *, in_file: bool = False) -> PythonSource:
    """The tool as Python. Always valid Python, whatever the tool is. `in_file` is for a module,
    which is read back without the tool."""
    if tool.format is not None:
        plain = replace(tool, format=None)
        source, _ = signature_of(plain, in_docstring=True, in_file=in_file)
        return PythonSource(
            source, ("A free-form tool expects text: Python shows it as one argument.",)
        )
    faces = []
    for in_docstring in (True, False):
        source, widened = signature_of(tool, in_docstring=in_docstring, in_file=in_file)
        losses = _list_losses(tool, _read(source, widened))
        faces.append(PythonSource(source, tuple(losses)[:MOST_LOSSES], widened))
    return min(faces, key=lambda candidate: len(candidate.lossy))


def tool_from(source: str, tool: Tool) -> Tool:
    """`tool` with the name, the description and the parameters of `source`.

    BadTool, with the line, if it is not a single function, or has an unknown type.
    """
    tool_face = python_source(tool)
    shown = _read(tool_face.source, tool_face.widened)
    read = _read(source, tool_face.widened)
    if read.problem:
        raise BadTool(f"Line {read.line}: {read.problem}", "/parameters", read.line)
    for note in read.notes:
        if note not in shown.notes:
            raise BadTool(f"Line {read.line}: {note}", "/parameters", read.line)
    return replace(
        tool,
        name=tool.name if read.name == shown.name else read.name,
        description=tool.description if read.description == shown.description else read.description,
        parameters=_parameters(read.parameters, shown.parameters, tool.parameters),
    )


def _read(source: str, widened: Collection[str]) -> Function:
    """The function in `source`; None in the hints of the optional arguments `widened` is not taken
    as null."""
    try:
        read = functions(source)
    except UnreadableText as error:
        raise BadTool(str(error), "/parameters", error.line) from None
    if len(read) == 1:
        parameters = read[0].parameters
        required = parameters.get("required", ())
        properties = {
            name: _without_null(schema) if name in widened and name not in required else schema
            for name, schema in parameters.get("properties", {}).items()
        }
        return replace(read[0], parameters={**parameters, "properties": properties})
    line = read[1].line if read else None
    what = f"Line {line}: a second one" if read else "There is no function here"
    raise BadTool(f"{what}; write one function with the tool's arguments.", "/parameters", line)


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    match schema:
        case {"type": [kind, "null"]}:
            return {**schema, "type": kind}
        case {"anyOf": [*several]}:
            others = [part for part in several if part != {"type": "null"}]
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}
    return schema


def _parameters(
    read: Mapping[str, Any], shown: Mapping[str, Any], own: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The parsed parameters, with the tool's original wherever the text is unchanged."""
    if _same_members(read, shown):
        return own
    was, had = shown.get("properties", {}), own.get("properties", {})
    properties = {
        name: had[name] if name in had and was.get(name) == schema else schema
        for name, schema in read["properties"].items()
    }
    required = read.get("required", [])
    if sorted(required) == sorted(own.get("required", [])):
        required = own.get("required", [])
    merged = {**own, "type": "object", "properties": properties, "required": required}
    if not required and "required" not in own:
        del merged["required"]
    return merged


def _same_members(schema: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = list(schema.get("properties", {})) == list(other.get("properties", {}))
    return names and schema == other


# Losses.


def _list_losses(tool: Tool, read: Function) -> Iterator[str]:
    parameters = tool.parameters
    for member in parameters:
        if member not in _KEPT + _QUIET:
            yield f"{member} of the whole schema cannot be expressed in a Python function."
    if not isinstance(parameters.get("additionalProperties", False), bool):
        yield "additionalProperties with a schema cannot be expressed in a Python function."
    if read.description.split() != tool.description.split():
        yield "The description reads like a list of arguments; Python would parse it as one."
    own = {
        "type": "object",
        "properties": parameters.get("properties", {}),
        "required": parameters.get("required", []),
    }
    as_read = {"required": [], **read.parameters}
    losses = list(
        _differences(
            _Normaliser(parameters).normalise(own, 0),
            _Normaliser(as_read).normalise(as_read, 0),
            (),
        )
    )
    looped = sorted(recursive_refs(parameters)) if losses else []
    if looped:
        yield f"The schema refers to itself ({looped[0]}): Python shows only a part of it."
    else:
        yield from losses


def _differences(own: Any, read: Any, place: tuple[str | int, ...]) -> Iterator[str]:
    """A sentence for each place where the parsed schema differs from the tool's."""
    if own == read:
        return
    if not isinstance(own, Mapping) or not isinstance(read, Mapping):
        yield _loss_note(place)
        return
    for key in {**own, **read}:
        if key not in own or key not in read:
            yield _loss_note((*place, key))
        elif key in ("properties", "items", "additionalProperties") or place[-1:] == (
            "properties",
        ):
            yield from _differences(own[key], read[key], (*place, key))
        elif own[key] != read[key]:
            yield _loss_note((*place, key))


def _loss_note(place: tuple[str | int, ...]) -> str:
    return f"{pointer(place)} cannot be expressed in Python."


class _Normaliser:
    """Normalises equivalent schemas: expands refs, const to enum, adds types of enums, lists of
    types to anyOf, sorts required. `left` is the number of expansions allowed: beyond it a ref
    stays, and is a loss."""

    def __init__(self, root: Any) -> None:
        self.root, self.left = root, 5_000

    def normalise(self, schema: Any, depth: int) -> Any:
        self.left -= 1
        if not isinstance(schema, Mapping) or depth > _MOST_DEEP or self.left < 0:
            return schema
        ref = schema.get("$ref")
        if is_local(ref):
            named = resolve(self.root, str(ref))
            rest = {key: member for key, member in schema.items() if key != "$ref"}
            if isinstance(named, Mapping):
                return self.normalise({**named, **rest}, depth + 1)
        members = {key: self.normalise_member(key, member, depth) for key, member in schema.items()}
        if "const" in members and "enum" not in members:
            members["enum"] = [members.pop("const")]
        match members:
            case {"enum": [*values]} if "type" not in members:
                kinds = {type(value) for value in values}
                if len(kinds) == 1 and (kind := _INFERRED.get(kinds.pop())):
                    members["type"] = kind
            case {"type": [*types]} if len(members) == 1:
                return {"anyOf": [{"type": kind} for kind in types]}
            case {"type": "object", "properties": _}:
                members.setdefault("required", [])
        return members

    def normalise_member(self, key: str, value: Any, depth: int) -> Any:
        match key, value:
            case "required", list():
                return sorted(value, key=str)
            case "properties", Mapping():
                return {name: self.normalise(inner, depth + 1) for name, inner in value.items()}
            case "items" | "additionalProperties", Mapping():
                return self.normalise(value, depth + 1)
            case "anyOf" | "prefixItems", list():
                return [self.normalise(inner, depth + 1) for inner in value]
        return value


# -- Several tools as one Python file ----------------------------------------------------------


def python_file(tools: Sequence[Tool]) -> str:
    """A module with a function for each tool; it has only the imports it needs."""
    names_in_use: set[str] = set()
    blocks = []
    for tool in tools:
        source = python_source(tool, in_file=True).source
        for name in _CLASS.findall(source):
            free, number = name, 2
            while free in names_in_use:
                free, number = f"{name}{number}", number + 1
            names_in_use.add(free)
            source = source if free == name else _rename_class(source, name, free)
        blocks.append(source)
    body = "\n\n".join(blocks)
    head = _TOOL if re.search(r"^@tool\(", body, re.M) else ""
    return f"from __future__ import annotations\n{_imports(body)}{head}\n\n{body}"


def _rename_class(source: str, name: str, free: str) -> str:
    """`source` with its class renamed; string literals are unchanged."""
    pieces = re.split(
        r'("""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')', source
    )
    words = rf"\b{re.escape(name)}\b(?!\s*:)"
    return "".join(
        piece if place % 2 else re.sub(words, free, piece) for place, piece in enumerate(pieces)
    )


def _imports(body: str) -> str:
    lines = []
    for module, names in _MODULES.items():
        used = [name for name in names if re.search(rf"\b{name}\b", body)]
        if used:
            lines.append(f"from {module} import {', '.join(used)}\n")
    if re.search(r"\bOmitted\[", body):
        lines.append("from typing import Optional as Omitted  # None where a call leaves it out\n")
    return "\n" + "".join(lines) if lines else ""
