"""What every format shares: a tool in our own form from its pieces, or the sentence why not.

Nothing is changed in silence: each change is a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.core.errors import BadTool
from app.core.tools import NAME
from app.exchange.dialect import with_json_types
from app.exchange.found import ImportedTool
from app.schema import schema_checks
from app.schema.keywords import all_subschemas
from app.schema.sample import sample
from app.schema.validate import check_tool

MOST_TOOLS = 5_000
"""Of one text."""
UNANSWERED = "Nobody answers it yet: it is a mock with a made-up result."
_MOST_SAMPLE = 2_000
_REFERENCES = ("/$ref", "/$dynamicRef", "/$recursiveRef", "/$id")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class ToolParts:
    """A tool as its format told it, unchecked. `answered_by` "" is for a format that does not say
    who answers; `output` is what it says of the result, a schema or None."""

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
    """The tool that `pieces` make, checked as one that is typed."""
    found = ImportedTool(None, clipped(pieces.name), entry, protocol, kind)
    notes = list(pieces.notes)
    try:
        name = _legal(pieces.name, notes)
        data: dict[str, Any] = {
            "name": name,
            "description": "" if pieces.description is None else pieces.description,
            **_parameters(pieces.parameters, notes),
            **_answered(pieces, name, notes),
            **{key: value for key, value in pieces.rest.items() if value is not None},
        }
        tool = check_tool(data)
    except BadTool as error:
        return with_problem(replace(found, notes=tuple(notes)), error)
    return replace(found, tool=tool, name=tool.name, notes=tuple(notes))


def with_problem(found: ImportedTool, error: BadTool) -> ImportedTool:
    """`found` without a tool: what is wrong, where, and whether the schema refers out of itself."""
    refers = error.pointer.endswith(_REFERENCES)
    return replace(found, problem=str(error), pointer=error.pointer, refers=refers)


def refused_tool(
    entry: Mapping[str, Any], kind: str, name: Any, problem: str, protocol: str = ""
) -> ImportedTool:
    """An entry that is understood and cannot be taken."""
    return ImportedTool(None, clipped(name), entry, protocol, kind, (), problem)


def note_left_out(entry: Mapping[str, Any], known: Iterable[str], where: str = "") -> list[str]:
    """A note of the members that have no place in our own form."""
    known = set(known)
    names = [clipped(key, 40) for key in entry if key not in known]
    if not names:
        return []
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return [f"Left out{where}: {', '.join(names[:8])}{more}."]


def protocol_extra(
    entry: Mapping[str, Any], protocol: str, names: Sequence[str]
) -> dict[str, Any] | None:
    """The members that `protocol` alone knows, as `extra` of a tool; None where there are none."""
    found = {name: entry[name] for name in names if entry.get(name) is not None}
    return {protocol: found} if found else None


def clipped(value: Any, most: int = 80) -> str:
    """A name for a sentence; whatever it was, it is short text."""
    text = value if isinstance(value, str) else ""
    return text if len(text) <= most else text[: most - 1] + "…"


def legal_name(text: str) -> str:
    """A legal name made of any text, "" where nothing of it is legal."""
    return _ILLEGAL.sub("_", text).strip("_.-")[:128]


def _legal(name: Any, notes: list[str]) -> str:
    if not isinstance(name, str) or not name.strip():
        raise BadTool("It has no name; give it one in the file.", "/name")
    if NAME.fullmatch(name):
        return name
    legal = legal_name(name)
    if not legal:
        said = "Its name has none of the letters, digits, _ . - that a name is made of; rename it."
        raise BadTool(said, "/name")
    notes.append(f"Its name was {clipped(name)!a}; that is no legal name, so it is {legal}.")
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
        said = ", ".join(f"{was} is {now or 'anything'}" for was, now in changed.items())
        notes.append(f"Its types are those of a programming language; in JSON Schema {said}.")
    return {"parameters": parameters}


def _answered(pieces: ToolParts, name: str, notes: list[str]) -> dict[str, Any]:
    if pieces.answered_by:
        return {"answered_by": pieces.answered_by, "config": dict(pieces.config)}
    notes.append(UNANSWERED)
    return {"answered_by": "mock", "config": {"result": sample_result(pieces.output, name)}}


def sample_result(output: Any, name: str) -> Any:
    """A sample of the result that was promised, or a text."""
    if isinstance(output, Mapping) and schema_checks.fault(output) is None and _is_small(output):
        return sample(output)
    return f"A made-up result of {name}."


def _is_small(schema: Mapping[str, Any]) -> bool:
    """Whether a sample of `schema` is no longer than itself: nothing in it is asked for many
    times over, by a `$ref` or by a least number."""
    for _, inner in all_subschemas(schema):
        if isinstance(inner, Mapping):
            least = (inner.get("minItems", 0), inner.get("minProperties", 0))
            if "$ref" in inner or any(one > 1 for one in least):
                return False
    return len(json.dumps(schema)) <= _MOST_SAMPLE


def string_members(value: Any) -> dict[str, str] | None:
    """An object of texts, or None."""
    if not isinstance(value, Mapping):
        return None
    return dict(value) if all(isinstance(one, str) for one in value.values()) else None
