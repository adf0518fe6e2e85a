"""A bare JSON Schema as a tool: pydantic's `model_json_schema()`, a LangChain `args_schema`.

Its title is the tool's name and its description the tool's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.exchange.entry import ToolParts, build_tool, legal_name, note_left_out
from app.exchange.found import ImportedTool

JSON_SCHEMA, LANGCHAIN = "JSON Schema", "LangChain"
_LANGCHAIN_SCHEMAS = ("args_schema", "tool_call_schema", "args")


def is_bare_schema(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a schema of an object."""
    if isinstance(entry.get("properties"), Mapping):
        return bool(entry.get("type", "object") == "object")
    return entry.get("type") == "object" or isinstance(entry.get("$schema"), str)


def schema_tool(entry: Mapping[str, Any], file: str = "") -> ImportedTool:
    """`file` is the bare name of the file it stands in: its name where it has no title."""
    name, notes = entry.get("title"), []
    if not isinstance(name, str) or not name.strip():
        name = legal_name(file) or "tool"
        notes.append(f"The schema has no title, so the tool is called {name}.")
    parameters = {key: entry[key] for key in entry if key not in ("title", "description")}
    return build_tool(
        entry, JSON_SCHEMA, ToolParts(name, entry.get("description"), parameters, notes=notes)
    )


def is_langchain(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a tool of LangChain: a name, and its arguments as a schema."""
    return "name" in entry and any(
        isinstance(entry.get(one), Mapping) for one in _LANGCHAIN_SCHEMAS
    )


def langchain_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "args_schema": schema}`, or `args`: the properties alone."""
    schemas = {one: entry[one] for one in _LANGCHAIN_SCHEMAS if isinstance(entry.get(one), Mapping)}
    key, schema = next(iter(schemas.items()))
    notes = note_left_out(entry, ("name", "description", *schemas))
    if key == "args" and not is_bare_schema(schema):
        required = [name for name, one in schema.items() if not _has_default(one)]
        schema = {"type": "object", "properties": dict(schema), "required": required}
        notes.append("`args` does not say what is required; what has no default is.")
    for word, own in (("title", entry.get("name")), ("description", entry.get("description"))):
        if word in schema and schema[word] != own:
            notes.append(f"The {word} of its arguments as a whole was left out.")
    schema = {name: schema[name] for name in schema if name not in ("title", "description")}
    pieces = ToolParts(entry.get("name"), entry.get("description"), schema, notes=notes)
    return build_tool(entry, LANGCHAIN, pieces)


def _has_default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema
