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
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import inf, isfinite
from typing import Any, Literal

import jsonschema_rs

from playground.core.events import Problem
from playground.core.tools import ANSWERED_BY
from playground.schema.schema_checks import Place, pointer
from playground.schema.sentences import UNNAMED_CONDITION, Naming, problems_of, value_at

SchemaFile = Literal["tools", "batch", "scenario"]
_PARTS: Mapping[str, tuple[SchemaFile, str]] = {
    "tool": ("tools", "tool"),
    **{f"{kind}_config": ("tools", f"{kind}_config") for kind in ANSWERED_BY},
    "batch": ("batch", ""),
    "expectation": ("batch", "expectation"),
    "scenario": ("scenario", ""),
}
"""The file of each document's schema, and its name among that file's definitions."""


def _name_this(place: Place) -> str:
    return "this"


def find_fault(document: str, value: Any, naming: Naming = _name_this) -> Problem | None:
    """The first reason why `value` is no such document (a key of _PARTS): a sentence about "this",
    or what `naming` calls the value at the place, and the place."""
    schema, validator = _document_validator(document)
    try:
        if validator.is_valid(value):
            return None
        error = next(iter(validator.iter_errors(value)))
    except ValueError as unchecked:  # such as half of a surrogate pair
        return Problem("schema", f"{naming(())} cannot be checked: {unchecked}.")
    place: Place = tuple(error.instance_path)
    there = value_at(value, error.instance_path)
    if isinstance(there, float) and not isfinite(there):  # the validator takes them for null
        name = {inf: "Infinity", -inf: "-Infinity"}.get(there, "NaN")
        message = f"{naming(place)} is {name}, which is not a JSON number."
        return Problem("schema", message, pointer(place))
    if own := _own_message(schema, error):
        return own
    problem = next(problems_of(error, schema, value, naming=naming))
    # The `if` of a published schema chooses a form; "this is not in the schema" needs no more.
    return replace(problem, message=problem.message.replace(UNNAMED_CONDITION, ""))


def _own_message(schema: Mapping[str, Any], error: Any) -> Problem | None:
    """The problem in the words of `errorMessage`: a text, or a text by keyword. For a missing
    member it is the member's own."""
    place: Place = tuple(error.instance_path)
    keyword = error.kind.name
    part = value_at(schema, error.schema_path[:-1])
    if keyword == "required" and error.kind.property in part.get("properties", {}):
        place = (*place, error.kind.property)
        part = part["properties"][error.kind.property]
    message = part.get("errorMessage") if isinstance(part, Mapping) else None
    if isinstance(message, Mapping):
        message = message.get(keyword)
    if keyword == "additionalProperties":
        place = (*place, error.kind.unexpected[0])
    return Problem("schema", message, pointer(place)) if message else None


@cache
def published_schema(name: SchemaFile) -> dict[str, Any]:
    """The schema of a kind of files."""
    text = (files("playground.schema") / "published" / f"{name}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _document_validator(document: str) -> tuple[dict[str, Any], jsonschema_rs.Validator]:
    name, part = _PARTS[document]
    schema = published_schema(name)
    if part:
        schema = {**schema["$defs"][part], "$defs": schema["$defs"]}
    return schema, jsonschema_rs.validator_for(schema)
