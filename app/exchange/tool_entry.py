"""Shared by all importers of tools: the result types, and building a checked tool from its parts.

A change is never silent: each is a note. Schemas in the dialect of OpenAPI 3.0 (also Gemini's) or
with the types of a programming language are converted to JSON Schema.
https://spec.openapis.org/oas/v3.0.3#schema-object https://ai.google.dev/api/caching
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from app.core.errors import BadTool
from app.core.late import dataclass
from app.core.servers import Replaced, Server
from app.core.tools import NAME, Tool
from app.schema import schema_checks
from app.schema.names import legal_name, shorten_name
from app.schema.sample import sample
from app.schema.schema_checks import all_subschemas
from app.schema.validate import check_tool


@dataclass(frozen=True)
class ImportedTool:
    """One tool of the text. `tool` is None if it cannot be imported; `problem` then says why, and
    `pointer` gives the place in the tool in our own format, "" if unknown; `refers`: the reason is
    a reference of its schema to something outside of it: nothing is fetched.

    `form` is the entry in its own format, and `protocol` the protocol of that format ("anthropic",
    "openai_chat", "openai_responses", "gemini", or "" for none of them). `kind` names the format
    for a user. `notes` are sentences on what was changed, left out or unknown.
    """

    tool: Tool | None
    name: str
    form: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = ""
    kind: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""
    pointer: str = ""
    refers: bool = False


@dataclass(frozen=True)
class ImportedServer:
    """One MCP server of the text; None if it cannot be imported, and `problem` says why."""

    server: Server | None
    name: str
    notes: tuple[str, ...] = ()
    problem: str = ""
    replaced: tuple[Replaced, ...] = ()


@dataclass(frozen=True)
class ToolListItem:
    """A tool of a text with too many to parse all of them: it is parsed when `key` is picked.
    `summary` is a one-line description, `group` its heading in the text, or ""."""

    key: str
    name: str
    summary: str = ""
    group: str = ""


@dataclass(frozen=True)
class ImportedTools:
    """The content of a text. `problem` says why none of it can be used, or ""; `notes` are about
    the text as a whole, `more`: it has further tools, which were not parsed. `choices` replace the
    tools if there are too many. `parts` are the names of the other files that were read as parts of
    this one."""

    tools: tuple[ImportedTool, ...] = ()
    servers: tuple[ImportedServer, ...] = ()
    kind: str = ""
    problem: str = ""
    notes: tuple[str, ...] = ()
    more: bool = False
    choices: tuple[ToolListItem, ...] = ()
    parts: tuple[str, ...] = ()


MOST_TOOLS = 5_000
"""The limit of one text."""
UNANSWERED = "Nobody answers it yet: it is a mock with a made-up result."
_MOST_SAMPLE = 2_000
_REFERENCES = ("/$ref", "/$dynamicRef", "/$recursiveRef", "/$id")


@dataclass(frozen=True)
class ToolParts:
    """An unchecked tool in the terms of its format. `answered_by` "" is for a format that does not
    specify an executor; `output` is its result schema or None."""

    name: Any
    description: Any = ""
    parameters: Any = None
    answered_by: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None
    rest: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


def build_tool(
    entry: Mapping[str, Any], kind: str, pieces: ToolParts, protocol: str = ""
) -> ImportedTool:
    """The tool made of `pieces`, checked like a typed one."""
    imported = ImportedTool(None, clip(pieces.name), entry, protocol, kind)
    notes = list(pieces.notes)
    try:
        name = _legal(pieces.name, notes)
        data: dict[str, Any] = {
            "name": name,
            "description": "" if pieces.description is None else pieces.description,
            **_parameters(pieces.parameters, notes),
            **_executor(pieces, name, notes),
            **{key: value for key, value in pieces.rest.items() if value is not None},
        }
        tool = check_tool(data)
    except BadTool as error:
        return with_problem(replace(imported, notes=tuple(notes)), error)
    return replace(imported, tool=tool, name=tool.name, notes=tuple(notes))


def with_problem(tool: ImportedTool, error: BadTool) -> ImportedTool:
    """`tool` without its tool: the problem, its place, and whether it is an external reference."""
    refers = error.pointer.endswith(_REFERENCES)
    return replace(tool, problem=str(error), pointer=error.pointer, refers=refers)


def refused_tool(
    entry: Mapping[str, Any], kind: str, name: Any, problem: str, protocol: str = ""
) -> ImportedTool:
    """An entry that is recognised but cannot be imported."""
    return ImportedTool(None, clip(name), entry, protocol, kind, (), problem)


def note_left_out(entry: Mapping[str, Any], known: Iterable[str], where: str = "") -> list[str]:
    """A note on the members that our own format does not have."""
    known = set(known)
    names = [clip(key, 40) for key in entry if key not in known]
    if not names:
        return []
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return [f"Left out{where}: {', '.join(names[:8])}{more}."]


def protocol_extra(
    entry: Mapping[str, Any], protocol: str, names: Sequence[str]
) -> dict[str, Any] | None:
    """The members specific to `protocol`, as `extra` of a tool; None if there are none."""
    members = {name: entry[name] for name in names if entry.get(name) is not None}
    return {protocol: members} if members else None


def clip(value: Any, most: int = 80) -> str:
    """A name for a sentence; any value becomes a short text."""
    text = value if isinstance(value, str) else ""
    return text if len(text) <= most else text[: most - 1] + "…"


def _legal(name: Any, notes: list[str]) -> str:
    if not isinstance(name, str) or not name.strip():
        raise BadTool("It has no name; give it one in the file.", "/name")
    if NAME.fullmatch(name):
        return name
    legal = shorten_name(legal_name(name)) or "tool"
    notes.append(f"Its name was {clip(name)!a}; that is not a legal name, so it is {legal}.")
    return legal


def _parameters(parameters: Any, notes: list[str]) -> dict[str, Any]:
    if parameters is None or parameters == {}:
        return {}
    if isinstance(parameters, Mapping) and "type" not in parameters:
        notes.append('Its parameters had no "type"; arguments are an object, so that was added.')
        parameters = {"type": "object", **parameters}
    changed: dict[str, str] = {}
    parameters = with_json_types(parameters, changed)
    if changed:
        changes = ", ".join(f"{was} is {now or 'anything'}" for was, now in changed.items())
        notes.append(f"Its types are those of a programming language; in JSON Schema {changes}.")
    return {"parameters": parameters}


def _executor(pieces: ToolParts, name: str, notes: list[str]) -> dict[str, Any]:
    if pieces.answered_by:
        return {"answered_by": pieces.answered_by, "config": dict(pieces.config)}
    notes.append(UNANSWERED)
    return {"answered_by": "mock", "config": {"result": sample_result(pieces.output, name)}}


def sample_result(output: Any, name: str) -> Any:
    """A sample of the declared result, or a text."""
    if isinstance(output, Mapping) and schema_checks.fault(output) is None and _is_small(output):
        return sample(output)
    return f"A made-up result of {name}."


def _is_small(schema: Mapping[str, Any]) -> bool:
    """Whether a sample of `schema` is no longer than the schema: no part is multiplied by a `$ref`
    or by a minimum count."""
    for _, inner in all_subschemas(schema):
        if isinstance(inner, Mapping):
            least = (inner.get("minItems", 0), inner.get("minProperties", 0))
            if "$ref" in inner or any(count > 1 for count in least):
                return False
    return len(json.dumps(schema)) <= _MOST_SAMPLE


def string_members(value: Any) -> dict[str, str] | None:
    """An object of texts, or None."""
    if not isinstance(value, Mapping):
        return None
    return dict(value) if all(isinstance(text, str) for text in value.values()) else None


# -- Schemas of OpenAPI 3.0 and of programming languages, as JSON Schema -----------------------


MOST_DEPTH = 64

_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_COUNTS = (
    *("minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties"),
)
_SILENT = ("propertyOrdering", "discriminator", "xml", "externalDocs", "example", "nullable")
"""Keywords outside of JSON Schema that do not allow or forbid values."""

_WRITTEN = {
    **dict.fromkeys(("dict", "Dict", "HashMap", "Hashtable", "Map", "Object", "mapping"), "object"),
    **dict.fromkeys(("list", "List", "tuple", "Tuple", "set", "Array", "ArrayList"), "array"),
    **dict.fromkeys(("Queue", "Stack", "Set"), "array"),
    **dict.fromkeys(("float", "double", "Float", "Double", "Number", "decimal"), "number"),
    **dict.fromkeys(("int", "long", "short", "byte", "Integer", "Long", "Bigint"), "integer"),
    **dict.fromkeys(("str", "char", "String", "Char", "text"), "string"),
    **dict.fromkeys(("bool", "Boolean", "Bool"), "boolean"),
    **dict.fromkeys(("None", "NoneType"), "null"),
    **dict.fromkeys(("any", "Any"), ""),
}
"""Type names of Python, Java and JavaScript; "" for any."""

_SNAKE: dict[str, str] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower(): name
    for name in (*_COUNTS, "anyOf", "propertyOrdering", "additionalProperties")
}
_ONE = ("items", "not", "additionalProperties")
_MANY = ("anyOf", "oneOf", "allOf")
_NAMED = ("properties", "$defs", "definitions", "patternProperties")


def from_openapi_schema(schema: Any, depth: int = 0) -> Any:
    """`schema` in JSON Schema; invalid parts are unchanged, for the check to refuse."""
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return schema
    convert = partial(from_openapi_schema, depth=depth + 1)
    converted: dict[str, Any] = {}
    for written, value in schema.items():
        key = _SNAKE.get(str(written), str(written))
        if key == "type" and isinstance(value, str):
            if value != "TYPE_UNSPECIFIED":
                converted[key] = _lower_type(value)
        elif key == "type" and isinstance(value, list):
            converted[key] = [
                _lower_type(inner) if isinstance(inner, str) else inner for inner in value
            ]
        elif key in _COUNTS and isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
            converted[key] = int(value)
        elif key not in _SILENT:
            converted[key] = _with_inner(key, value, ("properties",), convert)
    _convert_exclusive(converted)
    return _with_null(converted) if schema.get("nullable") is True else converted


def with_json_types(schema: Any, changed: dict[str, str], depth: int = 0) -> Any:
    """`schema` with a language's types replaced by those of JSON. `changed` collects the
    replacements."""
    if not isinstance(schema, Mapping) or depth > MOST_DEPTH:
        return schema
    convert = partial(with_json_types, changed=changed, depth=depth + 1)
    converted: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str) and value in _WRITTEN:
            changed[value] = _WRITTEN[value]
            if _WRITTEN[value]:
                converted[key] = _WRITTEN[value]
        elif key == "type" and isinstance(value, list):
            kinds = [inner for inner in value if isinstance(inner, str) and _WRITTEN.get(inner)]
            changed |= {kind: _WRITTEN[kind] for kind in kinds}
            converted[key] = [_WRITTEN[inner] if inner in kinds else inner for inner in value]
        else:
            converted[key] = _with_inner(key, value, _NAMED, convert)
    return converted


def _with_inner(key: str, value: Any, named: Sequence[str], convert: Callable[[Any], Any]) -> Any:
    """The value of a keyword with its schemas converted; `named` have schemas by name."""
    if key in _ONE:
        return convert(value)
    if key in _MANY and isinstance(value, list):
        return [convert(inner) for inner in value]
    if key in named and isinstance(value, Mapping):
        return {name: convert(inner) for name, inner in value.items()}
    return value


def _lower_type(kind: str) -> str:
    return kind.lower() if kind.lower() in _TYPES else kind


def _convert_exclusive(schema: dict[str, Any]) -> None:
    """In draft 4 a flag made `minimum` exclusive; since then the keyword itself is the bound."""
    for plain, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(strict), bool):
            exclusive = schema.pop(strict)
            if exclusive and plain in schema:
                schema[strict] = schema.pop(plain)


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(schema.get("type"), str):
        return {"anyOf": [schema, {"type": "null"}]} if schema else schema
    schema["type"] = [schema["type"], "null"]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema
