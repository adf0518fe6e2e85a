"""Function declarations as Gemini writes them, in the names of its JSON and of its Python SDK.

https://ai.google.dev/api/caching#FunctionDeclaration
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.exchange.dialect import from_openapi_schema
from app.exchange.entry import ToolParts, build_tool, note_left_out, protocol_extra, refused_tool
from app.exchange.found import ImportedTool

GEMINI = "Gemini"
GEMINI_LISTS = ("functionDeclarations", "function_declarations")
GEMINI_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")

_GEMINI_HOSTED = (
    *("googleSearch", "googleSearchRetrieval", "enterpriseWebSearch", "googleMaps", "urlContext"),
    *("codeExecution", "computerUse", "fileSearch", "retrieval"),
)
_GEMINI_ENTRY = {
    *GEMINI_LISTS,
    *_GEMINI_HOSTED,
    *(re.sub("(?=[A-Z])", "_", one).lower() for one in _GEMINI_HOSTED),
}
_GEMINI_OUTPUTS = ("responseJsonSchema", "response_json_schema", "response")
_GEMINI_EXTRA = ("behavior", "response", "responseJsonSchema")
"""Kept for Gemini as they are."""
_GEMINI_KNOWN = (
    "name",
    "description",
    "parameters",
    *GEMINI_SCHEMAS,
    *_GEMINI_OUTPUTS,
    *_GEMINI_EXTRA,
)


def is_gemini_entry(value: Any) -> bool:
    """Whether `value` is an entry of Gemini's `tools`."""
    return (
        isinstance(value, Mapping) and "name" not in value and not _GEMINI_ENTRY.isdisjoint(value)
    )


def gemini_tools(entry: Mapping[str, Any]) -> Iterator[ImportedTool]:
    """An entry of Gemini's `tools`: a list of declarations, or something Google runs itself."""
    for key, value in entry.items():
        if key not in GEMINI_LISTS:
            said = f"{key!r} is run by Google itself; only functions can be brought."
            yield refused_tool(entry, GEMINI, key, said, "gemini")
        elif isinstance(value, list):
            yield from (gemini_tool(one) for one in value)
        else:
            yield refused_tool(entry, GEMINI, "", f"{key} is a list of functions.", "gemini")


def is_gemini_declaration(entry: Mapping[str, Any]) -> bool:
    """Whether a function can only be Gemini's: by the name of its schema, or upper-case types."""
    schema = entry.get("parameters")
    return any(name in entry for name in (*GEMINI_SCHEMAS, *_GEMINI_OUTPUTS)) or (
        isinstance(schema, Mapping)
        and isinstance(schema.get("type"), str)
        and schema["type"].isupper()
    )


def gemini_tool(entry: Any) -> ImportedTool:
    """`{"name", "description", "parameters" | "parametersJsonSchema"}`"""
    if not isinstance(entry, Mapping):
        return refused_tool({}, GEMINI, "", "A function declaration is an object.", "gemini")
    schemas = [entry[name] for name in GEMINI_SCHEMAS if name in entry]
    notes = note_left_out(entry, _GEMINI_KNOWN)
    if schemas and "parameters" in entry:
        notes.append(f"It has parameters and {GEMINI_SCHEMAS[0]}; the latter was taken.")
    if not schemas and "parameters" in entry:
        schemas = [from_openapi_schema(entry["parameters"])]
        if schemas[0] != entry["parameters"]:
            notes.append("Its parameters were in Gemini's dialect; they are JSON Schema now.")
    outputs = [from_openapi_schema(entry[name]) for name in _GEMINI_OUTPUTS if name in entry]
    pieces = ToolParts(
        entry.get("name"),
        entry.get("description"),
        schemas[0] if schemas else None,
        output=outputs[0] if outputs else None,
        rest={"extra": protocol_extra(entry, "gemini", _GEMINI_EXTRA)},
        notes=notes,
    )
    return build_tool(entry, GEMINI, pieces, "gemini")
