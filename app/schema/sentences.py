"""One error of the validator as a sentence for a reader, with its place in the arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from app.core.events import Problem
from app.schema.arguments import json_text, kind_of
from app.schema.keywords import Place, is_local, pointer, resolved

_MOST_SHOWN = 60
_Kind = jsonschema_rs.ValidationErrorKind
_GAVE_UP = (_Kind.BacktrackLimitExceeded, _Kind.RegexEngineFailure)
_KINDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_BOUNDS = (
    ("minimum", "of at least"),
    ("exclusiveMinimum", "greater than"),
    ("maximum", "of at most"),
    ("exclusiveMaximum", "less than"),
    ("multipleOf", "that is a multiple of"),
)
_LENGTHS = (
    ("minLength", "at least", "character"),
    ("maxLength", "at most", "character"),
    ("minItems", "at least", "item"),
    ("maxItems", "at most", "item"),
    ("minProperties", "at least", "key"),
    ("maxProperties", "at most", "key"),
)


def problems_of(error: Any, root: Mapping[str, Any], at: Place = ()) -> Iterator[Problem]:
    """The problems one validation error stands for: one, or one for each key too many.

    `at` is where the value that was validated stands in the arguments.
    """
    place: Place = (*at, *error.instance_path)
    where = pointer(place) or "The arguments object"
    # An error of a schema that is `false` has the schema itself as its place.
    steps = error.schema_path if error.kind.name == "falseSchema" else error.schema_path[:-1]
    wanted = _at(root, steps)
    if isinstance(error.kind, _GAVE_UP):
        said = f"{where} could not be matched: the schema's pattern takes too long."
        yield _problem(said, place)
        return
    match error.kind.name:
        case "required":
            name = json_text(error.kind.property)
            yield _problem(f"{where} has no {name}, which the schema requires.", place)
        case "additionalProperties" | "unevaluatedProperties":
            for name in error.kind.unexpected:
                yield unexpected((*place, name), wanted)
        case "falseSchema":
            yield _problem(f"{where} is not allowed by the schema.", place)
        case "not":
            said = f"{where} is {shown(error.instance)}, which the schema forbids."
            yield _problem(said, place)
        case "uniqueItems":
            yield _problem(f"{where} holds the same item twice; the schema forbids it.", place)
        case "contains" | "unevaluatedItems" | "propertyNames":
            yield _problem(f"{where}: {cut(error.message, 200)}.", place)
        case _:
            said = f"{where} is {shown(error.instance)}; the schema wants {form(wanted, root)}."
            yield _problem(said, place)


def shown(value: Any) -> str:
    """`"30", a string`: the value, cut, and its type where the value does not say it."""
    text = cut(json_text(value), _MOST_SHOWN)
    return text if value is None or isinstance(value, bool) else f"{text}, {kind_of(value)}"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def form(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """What a schema wants, in words: `an integer of at least 5`. Not every keyword is told."""
    if not isinstance(schema, Mapping) or depth > 3:
        return "something else"
    if is_local(schema.get("$ref")):
        return form(resolved(root, schema["$ref"]), root, depth + 1)
    if "const" in schema:
        return json_text(schema["const"])
    if isinstance(options := schema.get("enum"), list):
        return "one of " + _listed([cut(json_text(option), _MOST_SHOWN) for option in options])
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(keyword), list) and branches:
            one = "exactly one of: " if keyword == "oneOf" else ""
            return one + " or ".join(form(branch, root, depth + 1) for branch in branches[:6])
    return _plain(schema)


def _plain(schema: Mapping[str, Any]) -> str:
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else list(types)
    words = " or ".join(_KINDS.get(str(name), str(name)) for name in names) or "a value"
    if words == "true or false":
        return words
    limits = [f"{word} {json_text(schema[key])}" for key, word in _BOUNDS if key in schema]
    lengths = [
        f"{word} {schema[key]} {unit}{'' if schema[key] == 1 else 's'}"
        for key, word, unit in _LENGTHS
        if key in schema
    ]
    if lengths:
        limits.append("with " + " and ".join(lengths))
    if "pattern" in schema:
        limits.append(f"that matches {cut(str(schema['pattern']), _MOST_SHOWN)}")
    if "format" in schema:
        limits.append(f"in the format {schema['format']}")
    return " ".join((words, " and ".join(limits))).strip()


def _listed(words: list[str]) -> str:
    more = len(words) - 12
    return ", ".join(words[:12]) + (f" and {more} more" if more > 0 else "")


def unexpected(place: Place, wanted: Any) -> Problem:
    """The key at `place` is none that the schema `wanted` allows."""
    known = wanted.get("properties") if isinstance(wanted, Mapping) else None
    only = ""
    if isinstance(known, Mapping) and known:
        only = f", which knows only {_listed([json_text(name) for name in known])}"
    return _problem(f"{pointer(place)} is not in the schema{only}.", place)


def _at(root: Any, steps: Any) -> Any:
    here = root
    for step in steps:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return None
    return here


def _problem(sentence: str, place: Place) -> Problem:
    return Problem("schema", sentence, pointer(place))
