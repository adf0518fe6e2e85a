"""A tool as a Python function with type hints and a docstring, and back.

What is read back is compared with what was written: `lossy` names all that Python has no word for.
Whatever a text leaves as it was shown keeps the schema it had, to the letter. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.core.errors import BadTool
from app.core.tools import Tool
from app.exchange.python.source import Function, functions
from app.exchange.python.written import written
from app.exchange.text import Unreadable
from app.protocols.lint_rules import recursive_refs
from app.schema.keywords import is_local, pointer, resolve

MOST_LOSSES = 20

_KEPT = ("type", "properties", "required", "additionalProperties", "$defs", "definitions")
_QUIET = ("$schema", "$id", "title", "description", "$comment")
"""Of a whole schema these are kept, shown or not; a function takes no other arguments anyway."""

_INFERRED = {str: "string", bool: "boolean", int: "integer"}
_MOST_DEEP = 12


@dataclass(frozen=True)
class Face:
    """`source` is one function; `lossy` are sentences on what it does not say, () for all said."""

    source: str
    lossy: tuple[str, ...] = ()


def face(tool: Tool) -> Face:
    """The tool as Python. Always sound Python, whatever the tool is."""
    if tool.format is not None:
        source = written(replace(tool, format=None), in_docstring=True)
        return Face(source, ("A free-form tool takes text: Python shows it as one argument.",))
    sources = [written(tool, in_docstring=where) for where in (True, False)]
    faces = [Face(source, tuple(_losses(tool, _read(source)))[:MOST_LOSSES]) for source in sources]
    return min(faces, key=lambda one: len(one.lossy))


def tool_from(source: str, tool: Tool) -> Tool:
    """`tool` with the name, the description and the parameters that `source` says.

    BadTool, with the line, where it is no single function, or has a type that is not known.
    """
    shown = _read(face(tool).source)
    read = _read(source)
    if read.problem:
        raise BadTool(f"Line {read.line}: {read.problem}", "/parameters")
    for note in read.notes:
        if note not in shown.notes:
            raise BadTool(f"Line {read.line}: {note}", "/parameters")
    return replace(
        tool,
        name=tool.name if read.name == shown.name else read.name,
        description=tool.description if read.description == shown.description else read.description,
        parameters=_parameters(read.parameters, shown.parameters, tool.parameters),
    )


def _read(source: str) -> Function:
    try:
        found = functions(source)
    except Unreadable as error:
        raise BadTool(str(error), "/parameters") from None
    if len(found) != 1:
        what = "There is no function here" if not found else f"Line {found[1].line}: a second one"
        raise BadTool(f"{what}; write one function, whose arguments are the tool's.", "/parameters")
    return found[0]


def _parameters(
    read: Mapping[str, Any], shown: Mapping[str, Any], own: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What was read, but as the tool had it wherever the text still says what was shown."""
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
    made = {**own, "type": "object", "properties": properties, "required": required}
    if not required and "required" not in own:
        del made["required"]
    return made


def _same_members(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = list(one.get("properties", {})) == list(other.get("properties", {}))
    return names and one == other


# What is lost.


def _losses(tool: Tool, read: Function) -> Iterator[str]:
    parameters = tool.parameters
    for keyword in parameters:
        if keyword not in _KEPT + _QUIET:
            yield f"{keyword} of the whole has no word in a Python function."
    if not isinstance(parameters.get("additionalProperties", False), bool):
        yield "additionalProperties with a schema has no word in a Python function."
    if read.description.split() != tool.description.split():
        yield "The description reads like a list of arguments; Python would take it for one."
    own = {
        "type": "object",
        "properties": parameters.get("properties", {}),
        "required": parameters.get("required", []),
    }
    said = {"required": [], **read.parameters}
    told = list(_differences(_Plain(parameters).of(own, 0), _Plain(said).of(said, 0), ()))
    looped = sorted(recursive_refs(parameters)) if told else []
    if looped:
        yield f"The schema refers to itself ({looped[0]}): Python shows a part of it."
    else:
        yield from told


def _differences(own: Any, read: Any, place: tuple[str | int, ...]) -> Iterator[str]:
    """A sentence for each place where what was read is not what the tool has."""
    if own == read:
        return
    if not isinstance(own, Mapping) or not isinstance(read, Mapping):
        yield _lost(place)
        return
    for key in {**own, **read}:
        if key not in own or key not in read:
            yield _lost((*place, key))
        elif key in ("properties", "items", "additionalProperties") or place[-1:] == (
            "properties",
        ):
            yield from _differences(own[key], read[key], (*place, key))
        elif own[key] != read[key]:
            yield _lost((*place, key))


def _lost(place: tuple[str | int, ...]) -> str:
    return f"{pointer(place)} cannot be said in Python as it is."


class _Plain:
    """Schemas with their equals in one form: refs written out, const as enum, types of enums told,
    lists of types as anyOf, required in order. `left` is how many may be written out: what is
    beyond stays a ref, and is a loss."""

    def __init__(self, root: Any) -> None:
        self.root, self.left = root, 5_000

    def of(self, schema: Any, depth: int) -> Any:
        self.left -= 1
        if not isinstance(schema, Mapping) or depth > _MOST_DEEP or self.left < 0:
            return schema
        ref = schema.get("$ref")
        if is_local(ref):
            named = resolve(self.root, str(ref))
            rest = {key: one for key, one in schema.items() if key != "$ref"}
            if isinstance(named, Mapping):
                return self.of({**named, **rest}, depth + 1)
        made = {key: self.inside(key, one, depth) for key, one in schema.items()}
        if "const" in made and "enum" not in made:
            made["enum"] = [made.pop("const")]
        match made:
            case {"enum": [*values]} if "type" not in made:
                kinds = {type(value) for value in values}
                if len(kinds) == 1 and (kind := _INFERRED.get(kinds.pop())):
                    made["type"] = kind
            case {"type": [*types]} if len(made) == 1:
                return {"anyOf": [{"type": kind} for kind in types]}
            case {"type": "object", "properties": _}:
                made.setdefault("required", [])
        return made

    def inside(self, key: str, value: Any, depth: int) -> Any:
        match key, value:
            case "required", list():
                return sorted(value, key=str)
            case "properties", Mapping():
                return {name: self.of(one, depth + 1) for name, one in value.items()}
            case "items" | "additionalProperties", Mapping():
                return self.of(value, depth + 1)
            case "anyOf" | "prefixItems", list():
                return [self.of(one, depth + 1) for one in value]
        return value
