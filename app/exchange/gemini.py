"""Function declarations as Gemini writes them, in the names of its JSON and of its Python SDK.

https://ai.google.dev/api/caching#FunctionDeclaration
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.exchange.dialect import json_schema
from app.exchange.entry import Pieces, kept, left_out, made, refused
from app.exchange.found import Found

KIND = "Gemini"
LISTS = ("functionDeclarations", "function_declarations")
PLAIN = ("parametersJsonSchema", "parameters_json_schema")

_HOSTED = (
    *("googleSearch", "googleSearchRetrieval", "enterpriseWebSearch", "googleMaps", "urlContext"),
    *("codeExecution", "computerUse", "fileSearch", "retrieval"),
)
_ENTRY = {*LISTS, *_HOSTED, *(re.sub("(?=[A-Z])", "_", one).lower() for one in _HOSTED)}
_RESPONSES = ("responseJsonSchema", "response_json_schema", "response")
_EXTRA = ("behavior", "response", "responseJsonSchema")
"""Kept for Gemini as they are."""
_KNOWN = ("name", "description", "parameters", *PLAIN, *_RESPONSES, *_EXTRA)


def is_entry(value: Any) -> bool:
    """Whether `value` is an entry of Gemini's `tools`."""
    return isinstance(value, Mapping) and "name" not in value and not _ENTRY.isdisjoint(value)


def tools(entry: Mapping[str, Any]) -> Iterator[Found]:
    """An entry of Gemini's `tools`: a list of declarations, or something Google runs itself."""
    for key, value in entry.items():
        if key not in LISTS:
            said = f"{key!r} is run by Google itself; only functions can be brought."
            yield refused(entry, KIND, key, said, "gemini")
        elif isinstance(value, list):
            yield from (declaration(one) for one in value)
        else:
            yield refused(entry, KIND, "", f"{key} is a list of functions.", "gemini")


def is_declaration(entry: Mapping[str, Any]) -> bool:
    """Whether a function can only be Gemini's: by the name of its schema, or upper-case types."""
    schema = entry.get("parameters")
    return any(name in entry for name in (*PLAIN, *_RESPONSES)) or (
        isinstance(schema, Mapping)
        and isinstance(schema.get("type"), str)
        and schema["type"].isupper()
    )


def declaration(entry: Any) -> Found:
    """`{"name", "description", "parameters" | "parametersJsonSchema"}`"""
    if not isinstance(entry, Mapping):
        return refused({}, KIND, "", "A function declaration is an object.", "gemini")
    schemas = [entry[name] for name in PLAIN if name in entry]
    notes = left_out(entry, _KNOWN)
    if schemas and "parameters" in entry:
        notes.append(f"It has parameters and {PLAIN[0]}; the latter was taken.")
    if not schemas and "parameters" in entry:
        schemas = [json_schema(entry["parameters"])]
        if schemas[0] != entry["parameters"]:
            notes.append("Its parameters were in Gemini's dialect; they are JSON Schema now.")
    outputs = [json_schema(entry[name]) for name in _RESPONSES if name in entry]
    pieces = Pieces(
        entry.get("name"),
        entry.get("description"),
        schemas[0] if schemas else None,
        output=outputs[0] if outputs else None,
        rest={"extra": kept(entry, "gemini", _EXTRA)},
        notes=notes,
    )
    return made(entry, KIND, pieces, "gemini")
