"""The published JSON Schemas of the files that people write: tools, batches and scenarios.

`published/NAME.schema.json` is what an editor completes and checks a file by, and what the readers
here check it by first; only what a schema cannot say is left to them. A copy for readers of the
documentation is in docs/schemas.

A part of a schema may have an `errorMessage`, as VS Code and ajv-errors read it: it takes the place
of the validator's own sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import inf, isfinite
from typing import Any, Literal

import jsonschema_rs

from app.core.events import Problem
from app.schema.schema_checks import Place, pointer
from app.schema.sentences import at_steps, problems_of

File = Literal["tools", "batch", "scenario"]
Document = Literal["tool", "batch", "expectation", "scenario"]

_PARTS: Mapping[Document, tuple[File, str]] = {
    "tool": ("tools", "tool"),
    "batch": ("batch", ""),
    "expectation": ("batch", "expectation"),
    "scenario": ("scenario", ""),
}
"""The file of each document's schema, and its name among that file's definitions."""


def find_fault(document: Document, value: Any) -> Problem | None:
    """The first reason why `value` is no such document: a sentence about "this", and its place."""
    schema, validator = _usable(document)
    try:
        if validator.is_valid(value):
            return None
        error = next(iter(validator.iter_errors(value)))
    except (ValueError, RecursionError) as unchecked:  # such as half of a surrogate pair
        return Problem("schema", f"this cannot be checked: {unchecked}.")
    there = at_steps(value, error.instance_path)
    if isinstance(there, float) and not isfinite(there):  # the validator takes them for null
        name = {inf: "Infinity", -inf: "-Infinity"}.get(there, "NaN")
        message = f"this is {name}, which is no number of JSON."
        return Problem("schema", message, pointer(tuple(error.instance_path)))
    return _own_message(schema, error) or next(
        problems_of(error, schema, value, naming=lambda _: "this")
    )


def _own_message(schema: Mapping[str, Any], error: Any) -> Problem | None:
    """The problem in the words of `errorMessage`: a text, or a text by keyword. For a missing
    member it is the member's own."""
    place: Place = tuple(error.instance_path)
    keyword = error.kind.name
    part = at_steps(schema, error.schema_path[:-1])
    if keyword == "required" and error.kind.property in part.get("properties", {}):
        place = (*place, error.kind.property)
        part = part["properties"][error.kind.property]
    message = part.get("errorMessage") if isinstance(part, Mapping) else None
    if isinstance(message, Mapping):
        message = message.get(keyword)
    return Problem("schema", message, pointer(place)) if message else None


@cache
def published_schema(name: File) -> dict[str, Any]:
    """The schema of a kind of files."""
    text = (files("app.schema") / "published" / f"{name}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _usable(document: Document) -> tuple[dict[str, Any], jsonschema_rs.Validator]:
    name, part = _PARTS[document]
    schema = published_schema(name)
    if part:
        schema = {**schema["$defs"][part], "$defs": schema["$defs"]}
    return schema, jsonschema_rs.validator_for(schema)
