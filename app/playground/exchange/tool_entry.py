"""Shared by all importers of tools: the result types, and building a checked tool from its parts.

A change is never silent: each is a note.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from playground.core.errors import BadTool
from playground.core.servers import KeyReplacement, Server
from playground.core.tools import NAME, Tool
from playground.exchange.parameter_forms import explain_unread, read_parameters
from playground.exchange.schema_dialects import is_object_type, with_json_types
from playground.protocols.provider_tools import Runner
from playground.schema import schema_checks
from playground.schema.names import legal_name, shorten_name
from playground.schema.satisfy import sample_value
from playground.schema.schema_checks import all_subschemas
from playground.schema.validate import check_tool


@dataclass(frozen=True)
class ImportedTool:
    """One tool of the text. `tool` is None if it cannot be imported; `problem` then says why, and
    `pointer` gives the place in the tool in our own format, "" if unknown; `refers`: the reason is
    a reference of its schema to something outside of it: nothing is fetched.

    `form` is the entry in its own format, and `protocol` the protocol of that format ("anthropic",
    "openai_chat", "openai_responses", "gemini", or "" for none of them). `kind` names the format
    for a user. `notes` are sentences on what was changed, left out or unknown. `runner`: who runs
    the calls of a tool that its provider defines, None for any other; a list is used without it.
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
    runner: Runner | None = None


@dataclass(frozen=True)
class ImportedServer:
    """One MCP server of the text; None if it cannot be imported, and `problem` says why."""

    server: Server | None
    name: str
    notes: tuple[str, ...] = ()
    problem: str = ""
    replaced: tuple[KeyReplacement, ...] = ()


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
UNANSWERED = "It has no executor yet, so it is a mock with a simulated result."
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
        name = _legal_name(pieces.name, notes)
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
    return ImportedTool(
        None, name=clip(name), form=entry, protocol=protocol, kind=kind, notes=(), problem=problem
    )


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


def _legal_name(name: Any, notes: list[str]) -> str:
    if not isinstance(name, str) or not name.strip():
        raise BadTool("It has no name. Give it one in the file.", "/name")
    if NAME.fullmatch(name):
        return name
    legal = shorten_name(legal_name(name)) or "tool"
    notes.append(f"Its name {clip(name)!a} is not allowed, so it was changed to {legal}.")
    return legal


def _parameters(parameters: Any, notes: list[str]) -> dict[str, Any]:
    if parameters is None or parameters == {}:
        return {}
    if (read := read_parameters(parameters, "parameters")) is not None:
        parameters = read.schema
        notes += read.notes
    elif _has_no_type(parameters):
        raise BadTool(f"Its schema {explain_unread(parameters)}.", "/parameters")
    if isinstance(parameters, Mapping) and "type" not in parameters:
        notes.append('Its parameters had no "type", so "object" was added.')
        parameters = {"type": "object", **parameters}
    changed: dict[str, str] = {}
    parameters = with_json_types(parameters, changed)
    if changed:
        changes = ", ".join(f"{was} is {now or 'anything'}" for was, now in changed.items())
        notes.append(
            "Its types are those of a programming language. They were changed to JSON Schema: "
            f"{changes}."
        )
    return {"parameters": parameters}


def _has_no_type(parameters: Any) -> bool:
    """Whether what could not be read has no type that the check of schemas would refuse."""
    if isinstance(parameters, Mapping):
        kind = parameters.get("type", "object")
        return not isinstance(kind, str | list) or is_object_type(kind)
    return isinstance(parameters, list) and any(isinstance(item, Mapping) for item in parameters)


def _executor(pieces: ToolParts, name: str, notes: list[str]) -> dict[str, Any]:
    if pieces.answered_by:
        return {"answered_by": pieces.answered_by, "config": dict(pieces.config)}
    notes.append(UNANSWERED)
    return {"answered_by": "mock", "config": {"result": sample_result(pieces.output, name)}}


def sample_result(output: Any, name: str) -> Any:
    """A sample of the declared result, or a text."""
    if isinstance(output, Mapping) and schema_checks.fault(output) is None and _is_small(output):
        return sample_value(output)
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
