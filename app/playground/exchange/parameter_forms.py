"""The parameters of a tool in any known form, as a JSON Schema of an object.

A schema, a schema in a wrapper (`{"jsonSchema": {...}}`) or as a text, an object of parameters by
name, or a list of them. No other form is read: a schema without a known member would allow
everything.
https://docs.cohere.com/v1/docs/parameter-types-in-tool-use
https://github.com/docker/mcp-registry/blob/main/CONTRIBUTING.md
https://huggingface.co/docs/smolagents/tutorials/tools
https://openai.github.io/openai-agents-python/ref/tool/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from playground.exchange.schema_dialects import (
    from_openapi_schema,
    is_google_type,
    is_object_type,
    is_type_name,
)
from playground.schema.schema_checks import all_subschemas
from playground.schema.strict_json import InvalidJSON, parse

_MOST_WRAPPERS = 4
_CONSTRAINTS = (
    *("properties", "patternProperties", "additionalProperties", "propertyNames"),
    *("unevaluatedProperties", "minProperties", "maxProperties", "required", "dependentRequired"),
    *("dependentSchemas", "dependencies", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not"),
    *("if", "const", "enum"),
)
"""Keywords that say something about the members of an object."""
_DECLARED = ("properties", "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "patternProperties")
"""Keywords that can declare members."""
_NEUTRAL = ("$defs", "definitions", "examples", "default", "discriminator", "xml", "externalDocs")
"""Keywords whose values are objects or lists and that declare no member."""
_ANNOTATIONS = (
    *("title", "description", "deprecated", "nullable", "format", "strict", "id", "example"),
    *("readOnly", "writeOnly", "propertyOrdering"),
)
_TYPED = ("enum", "const", "anyOf", "oneOf", "allOf", "$ref")
_INNER_SCHEMAS = ("schema", "schema_data")
_RENAMED: Mapping[str, str] = {
    **{"desc": "description", "type_": "type", "param_type": "type"},
    **{"default_value": "default", "defaultValue": "default"},
}
_REQUIRED = ("required", "is_required", "isRequired")
_OPTIONAL_TYPE = re.compile(r"\s*(?:,\s*optional|\(optional\))$")

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_OF_ARGUMENTS = {
    *("param", "params", "parameter", "parameters", "arg", "args", "argument", "arguments"),
    *("input", "inputs", "kwargs", "properties"),
}
_OF_SCHEMAS = {
    *("schema", "schemas", "json", "spec", "specs", "definition", "definitions"),
    *("function", "tool"),
}
_OF_OTHERS = {
    *("output", "outputs", "result", "results", "return", "returns", "response", "responses"),
    *("example", "examples", "init", "config", "configuration", "configurations"),
    *("setting", "settings", "env", "meta", "metadata", "annotations", "headers"),
    *("error", "errors", "state"),
}
"""Words of names of members, in lower case. What is of others is not a parameter."""


@dataclass(frozen=True)
class ReadParameters:
    """The schema of a value, with a sentence for each thing that was converted."""

    schema: Mapping[str, Any]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FoundParameters:
    """Members of a tool that hold parameters by their value or by their name. `read` are those that
    were understood; `unread` are the names of the others."""

    read: Mapping[str, ReadParameters]
    unread: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.read, *self.unread)


def read_parameters(value: Any, member: str, depth: int = 0) -> ReadParameters | None:
    """The schema of `value`, the value of `member`; None if it is not understood."""
    match value:
        case str() if value.lstrip()[:1] in ("{", "["):
            return _read_text(value, member, depth)
        case list():
            return _read_list(value, member)
        case Mapping() if is_schema(value):
            return _convert_schema(value)
        case Mapping():
            return _read_wrapper(value, member, depth) or _read_by_name(value, member)
    return None


def is_schema(value: Mapping[str, Any]) -> bool:
    """Whether `value` is a schema of an object that says what it may hold. One that only has
    members of which JSON Schema knows nothing says nothing, whatever its type."""
    kind = value.get("type", value.get("type_"))
    if kind is not None and not is_object_type(kind):
        return False
    known = [name for name in _CONSTRAINTS if name in value]
    if not isinstance(value.get("properties", {}), Mapping):
        return "properties" in known  # refused by the check of schemas, which names the place
    if declares_members(value) or (kind is not None and "properties" in value):
        return True  # without properties, it takes no arguments; other keywords are allowed
    own = (*_CONSTRAINTS, *_NEUTRAL, *_ANNOTATIONS, "type", "type_")
    strange = (name not in own and not name.startswith(("x-", "$")) for name in value)
    return not any(strange) and (bool(known) or kind is not None or "$defs" not in value)


def declares_members(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says which members an object has."""
    return any(schema.get(name) for name in _DECLARED)


def explain_unread(value: Any) -> str:
    """Why the parameters in `value` were not understood, for a sentence."""
    if isinstance(value, Mapping):
        if "_def" in value or ("~standard" in value and "def" in value):
            return (
                "is a Zod schema in its JavaScript form; write it as JSON Schema (z.toJSONSchema)"
            )
        names = ", ".join(str(name)[:40] for name in list(value)[:8])
        return f"is not a JSON Schema of an object: it has {names or 'nothing'}"
    if isinstance(value, list):
        return "is a list, but not of parameters with a name and a type each"
    return "is not a JSON Schema of an object"


def find_parameters(entry: Mapping[str, Any]) -> FoundParameters:
    """The members of `entry` that may hold its parameters, whatever they are called."""
    read: dict[str, ReadParameters] = {}
    unread: list[str] = []
    for member, value in entry.items():
        words = _words(member)
        if words & _OF_OTHERS or member in ("name", "description", "type"):
            continue
        named = bool(words & _OF_ARGUMENTS)
        if named and value in ([], {}):
            read[member] = ReadParameters({})
        elif value and (parameters := _read_member(value, member, named, words)) is not None:
            read[member] = parameters
        elif (named and value) and (
            isinstance(value, Mapping | list)
            or (isinstance(value, str) and words <= {*_OF_ARGUMENTS, "schema", ""})
        ):
            unread.append(member)
    return FoundParameters(read, tuple(unread))


def _read_member(value: Any, member: str, named: bool, words: set[str]) -> ReadParameters | None:
    """Of a member that is not called like parameters only a schema is read."""
    if named:
        return read_parameters(value, member)
    of_schema = bool(words & _OF_SCHEMAS)
    if isinstance(value, Mapping) and is_schema(value) and _is_object(value):
        # What else has properties, as a mapping of a database, has no type.
        has_type = is_object_type(value.get("type", value.get("type_")))
        return _convert_schema(value) if has_type or of_schema else None
    if not of_schema:
        return None
    if isinstance(value, Mapping):
        return _read_wrapper(value, member, 0)
    return read_parameters(value, member) if isinstance(value, str) else None


def _is_object(value: Mapping[str, Any]) -> bool:
    return "properties" in value or is_object_type(value.get("type", value.get("type_")))


def _convert_schema(schema: Mapping[str, Any]) -> ReadParameters:
    """`schema`, or in JSON Schema what is written with the names of Google's classes (`type_`)."""
    subschemas = (inner for _, inner in all_subschemas(schema) if isinstance(inner, Mapping))
    if any("type_" in inner or is_google_type(inner.get("type")) for inner in subschemas):
        note = "Its parameters were converted from Gemini's dialect to JSON Schema."
        return ReadParameters(from_openapi_schema(schema), (note,))
    return ReadParameters(schema)


def _read_text(text: str, member: str, depth: int) -> ReadParameters | None:
    try:
        value = parse(text)
    except InvalidJSON:
        return None
    if depth > _MOST_WRAPPERS or (read := read_parameters(value, member, depth + 1)) is None:
        return None
    note = f"`{member}` is a text and was read as JSON."
    return ReadParameters(read.schema, (note, *read.notes))


def _read_wrapper(value: Mapping[str, Any], member: str, depth: int) -> ReadParameters | None:
    """The schema in the one member of `value` that may hold one; None if several may."""
    if depth > _MOST_WRAPPERS:
        return None
    keys = [key for key in value if value[key] and _words(key) & (_OF_ARGUMENTS | _OF_SCHEMAS)]
    keys = [key for key in keys if isinstance(value[key], Mapping | list | str)]
    if len(keys) != 1:
        return None
    inner = value[keys[0]]
    if isinstance(inner, Mapping) and not (is_schema(inner) and _is_object(inner)):
        read = _read_wrapper(inner, keys[0], depth + 1)
    else:
        read = read_parameters(inner, keys[0], depth + 1)
    if read is None:
        return None
    note = f"Its schema was in `{keys[0]}` of `{member}`."
    if others := [key[:40] for key in value if key != keys[0]]:
        note += f" Left out there: {', '.join(others[:8])}{', …' if len(others) > 8 else ''}."
    return ReadParameters(read.schema, (note, *read.notes))


def _words(member: str) -> set[str]:
    """The words in the name of a member, in lower case: `argsSchema` and `args_schema` alike."""
    words = {word.lower() for word in _WORDS.findall(member)}
    return words | {word.removesuffix("schema") for word in words}


# -- Parameters by name, and lists of them -----------------------------------------------------


def _read_by_name(value: Mapping[str, Any], member: str) -> ReadParameters | None:
    """`{"city": {"type": "string", "required": true}}`, or `{"city": "string"}`."""
    if isinstance(value.get("type"), str | list):
        return None  # a schema of something else than an object
    described = [_is_parameter(parameter) for parameter in value.values()]
    defaults = [isinstance(inner, Mapping) and "default" in inner for inner in value.values()]
    if not any(described) or not all(map(any, zip(described, defaults, strict=True))):
        return None
    return _object_of(((name, parameter) for name, parameter in value.items()), member)


def _read_list(value: list[Any], member: str) -> ReadParameters | None:
    """`[{"name": "city", "type": "string"}]`. Names without types are the arguments of a prompt."""
    names = [item.get("name") for item in value if isinstance(item, Mapping)]
    if len(names) < len(value) or len({*map(str, names)}) < len(names):
        return None
    if not all(isinstance(name, str) for name in names) or not all(map(_is_parameter, value)):
        return None
    return _object_of(((item["name"], _without_name(item)) for item in value), member)


def _without_name(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: inner for key, inner in item.items() if key != "name"}


def _is_parameter(value: Any) -> bool:
    """Whether `value` describes one parameter: with a type, or by the name of one."""
    if isinstance(value, str):
        return is_type_name(_OPTIONAL_TYPE.sub("", value))
    if not isinstance(value, Mapping):
        return False
    kind = next((value[name] for name in ("type", "type_", "param_type") if name in value), None)
    if isinstance(kind, str | list) or (isinstance(kind, int) and not isinstance(kind, bool)):
        return True
    inner = [value[name] for name in _INNER_SCHEMAS if isinstance(value.get(name), Mapping)]
    return any(name in value for name in _TYPED) or any(
        name in schema for schema in inner for name in ("type", *_TYPED)
    )


def _object_of(parameters: Iterator[tuple[str, Any]], member: str) -> ReadParameters:
    read = {name: _parameter(written) for name, written in parameters}
    notes = [
        f"`{member}` describes each parameter separately. They were joined into one JSON Schema."
    ]
    if any(required is not None for _, required in read.values()):
        flags = [required for _, required in read.values()]
        default = not any(flags)  # only what is optional is marked, or only what is required
        required = [name for name, (_, flag) in read.items() if (default if flag is None else flag)]
    else:
        required = [name for name, (schema, _) in read.items() if "default" not in schema]
        notes += [f"`{member}` does not say what is required, so parameters without a default are."]
    properties = {name: schema for name, (schema, _) in read.items()}
    schema = {"type": "object", "properties": properties, "required": required}
    return ReadParameters(schema, tuple(notes))


def _parameter(written: Any) -> tuple[Mapping[str, Any], bool | None]:
    """(the schema of one parameter, whether it is required, None if it does not say so)."""
    if isinstance(written, str):
        written = {"type": written}
    required: bool | None = None
    schema: dict[str, Any] = {}
    for key, value in written.items():
        if key in _REQUIRED and isinstance(value, bool):
            required = value
        elif key == "optional" and isinstance(value, bool):
            required = not value
        elif key in _INNER_SCHEMAS and isinstance(value, Mapping):
            schema = {**value, **schema}
        else:
            schema[_RENAMED.get(key, key)] = value
    if isinstance(schema.get("type"), str) and _OPTIONAL_TYPE.search(schema["type"]):
        schema["type"], required = _OPTIONAL_TYPE.sub("", schema["type"]), False
    if schema.get("nullable") is True and required is None:
        required = False
    return from_openapi_schema(schema), required
