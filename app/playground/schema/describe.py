"""Schemas in words: what a value has to be, `an integer of at least 5`. Omits some keywords.

A description of any schema has at most a few hundred characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from playground.schema.schema_checks import OLD_DRAFTS, is_local, resolve
from playground.schema.strict_json import json_text, kind_of

LONGEST_WANTED = 300
"""Characters of the description of a schema."""

MOST_SHOWN = 60

MOST_NAMES = 12

MOST_BRANCHES = 6
"""Branches described in one sentence."""

MOST_PARTS = 50
"""Schemas that are read together by `$ref` and `allOf`."""

_KINDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}

_ANY = "a value"

BOUNDS = (
    ("minimum", "of at least"),
    ("exclusiveMinimum", "greater than"),
    ("maximum", "of at most"),
    ("exclusiveMaximum", "less than"),
    ("multipleOf", "that is a multiple of"),
)

LENGTHS = (
    ("minLength", "at least", "character"),
    ("maxLength", "at most", "character"),
    ("minItems", "at least", "item"),
    ("maxItems", "at most", "item"),
    ("minProperties", "at least", "key"),
    ("maxProperties", "at most", "key"),
)

TEXTS = (
    ("pattern", "that matches"),
    ("format", "in the format"),
    ("contentEncoding", "in the encoding"),
    ("contentMediaType", "of the media type"),
)

_IN_WORDS = frozenset(
    ("type", "const", "enum", "required", *(row[0] for row in (*BOUNDS, *LENGTHS, *TEXTS)))
)
_ANNOTATIONS = frozenset(
    (
        *("title", "description", "default", "examples", "example", "deprecated", "readOnly"),
        *("writeOnly", "$comment", "$defs", "definitions", "$schema", "$id", "id", "nullable"),
    )
)
"""Keywords that require nothing."""


def describe(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """The requirements of a schema, in words: `an integer of at least 5`. Omits some keywords."""
    if schema is False:
        return "nothing"
    if not isinstance(schema, Mapping) or depth > 2:
        return _ANY if schema is True else "something else"
    whole = joined_schema(schema, root)
    if "const" in whole or isinstance(whole.get("enum"), list):
        return options_of(whole)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(branches := whole.get(keyword), list) and branches:
            rest = {key: value for key, value in whole.items() if key != keyword}
            forms = [
                describe(
                    {**rest, **branch} if isinstance(branch, Mapping) else branch, root, depth + 1
                )
                for branch in branches[:MOST_BRANCHES]
            ]
            return alternatives(forms, len(branches) - len(forms))
    plain = own_words(whole)
    if "not" not in whole:
        return plain
    if whole["not"] in (True, {}):
        return "nothing"
    forbidden = describe_exactly(whole["not"], root, depth + 1)
    return f"anything but {forbidden}" if plain == _ANY else f"{plain}, but not {forbidden}"


def describe_exactly(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """`describe`, with the schema itself where the words omit some of it: for sentences that say
    that a value is not so."""
    words = describe(schema, root, depth)
    if _is_in_words(schema, root):
        return words
    return f"{words} that satisfies {cut(json_text(schema), MOST_SHOWN)}"


def _is_in_words(schema: Any, root: Mapping[str, Any], depth: int = 0) -> bool:
    """Whether `describe` omits nothing of the schema."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, Mapping) or depth > 2:
        return False
    parts = schema_parts(schema, root)
    keywords = [key for part in parts for key in part if key not in (*_ANNOTATIONS, "$ref")]
    keywords = [key for key in keywords if key != "allOf"]
    if len(set(keywords)) < len(keywords):
        return False  # of two, the words have the first
    for key in keywords:
        value = next(part[key] for part in parts if key in part)
        if key in ("anyOf", "oneOf"):
            branches = list_of(value)[: MOST_BRANCHES + 1]
            if key == "oneOf" or len(keywords) > 1 or len(branches) > MOST_BRANCHES:
                return False
            if not all(_is_in_words(branch, root, depth + 1) for branch in branches):
                return False
        elif key not in _IN_WORDS:
            return False
    return not ({"const", "enum"} & set(keywords) and len(keywords) > 1)


def value_text(value: Any) -> str:
    """`"30", a string`: the value, cut, and its type if the value does not show it."""
    text = cut(json_text(value), MOST_SHOWN)
    return text if value is None or isinstance(value, bool) else f"{text}, {kind_of(value)}"


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def joined_schema(schema: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` as one with those that apply with it, as far as words for it need that."""
    whole: dict[str, Any] = {}
    for part in reversed(schema_parts(schema, root)):
        required = [*names_of(whole.get("required")), *names_of(part.get("required"))]
        whole |= part
        if required:
            whole["required"] = list(dict.fromkeys(required))
    return {key: value for key, value in whole.items() if key not in ("$ref", "allOf")}


def schema_parts(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """`schema` and those that apply with it by `$ref` and `allOf`."""
    parts: list[Mapping[str, Any]] = []
    todo: list[Any] = [schema]
    seen: set[int] = set()
    lone_ref = str(root.get("$schema", "")).rstrip("#") in OLD_DRAFTS
    while todo and len(seen) < MOST_PARTS:
        part = todo.pop()
        if not isinstance(part, Mapping) or id(part) in seen:
            continue
        seen.add(id(part))
        ref = part.get("$ref")
        if isinstance(ref, str) and is_local(ref):
            todo.append(resolve(root, ref))
            if lone_ref:
                continue
        todo.extend(list_of(part.get("allOf"))[:MOST_PARTS])
        parts.append(part)
    return parts


def options_of(schema: Mapping[str, Any]) -> str:
    """The values of a const or an enum."""
    if "const" in schema:
        return cut(json_text(schema["const"]), MOST_SHOWN)
    return one_of([json_text(option) for option in schema["enum"]])


def one_of(texts: Sequence[str]) -> str:
    """ "one of" with the values `texts`, at most MOST_NAMES of them."""
    listed = [cut(text, MOST_SHOWN) for text in texts[: MOST_NAMES + 1]]
    if len(texts) == 1:
        return listed[0]
    more = len(texts) - MOST_NAMES
    words = ", ".join(listed[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"one of {words}" if texts else "nothing: its enum is empty"


def own_words(schema: Mapping[str, Any]) -> str:
    """The keywords of `schema` itself, in words."""
    types = schema.get("type", [])
    names = [types] if isinstance(types, str) else list(types)
    words = " or ".join(_KINDS.get(str(name), str(name)) for name in names) or _ANY
    if names == ["boolean"]:
        return words
    bounds = {key: schema[key] for key, _ in BOUNDS if key in schema}
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bounds.get(flag) is True and bound in bounds:  # draft 4
            bounds[flag] = bounds.pop(bound)
        elif isinstance(bounds.get(flag), bool):
            del bounds[flag]
    limits = [f"{word} {json_text(bounds[key])}" for key, word in BOUNDS if key in bounds]
    lengths = [
        f"{word} {schema[key]} {unit}{'' if schema[key] == 1 else 's'}"
        for key, word, unit in LENGTHS
        if key in schema
    ]
    if required := names_of(schema.get("required")):
        lengths[:0] = [quote_name(name) for name in required[:MOST_NAMES]]
        words = "an object" if words == _ANY else words
    if lengths:
        limits.append("with " + " and ".join(lengths))
    limits += [
        f"{word} {cut(str(schema[key]), MOST_SHOWN)}" for key, word in TEXTS if key in schema
    ]
    return " ".join((words, " and ".join(limits))).strip()


def alternatives(words: Iterable[str], more: int = 0) -> str:
    """The descriptions joined by "or"; `more` is the number of choices without a description."""
    distinct = list(dict.fromkeys(words))
    listed: list[str] = []
    for text in distinct[:MOST_BRANCHES]:
        if listed and sum(map(len, listed)) + len(text) > LONGEST_WANTED:
            break
        listed.append(cut(text, LONGEST_WANTED))
    more += len(distinct) - len(listed)
    return " or ".join(listed) + (f" or {more} more" if more else "")


def word_list(words: Sequence[str]) -> str:
    more = len(words) - MOST_NAMES
    return ", ".join(words[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def quote_name(name: str) -> str:
    return cut(json_text(name), MOST_SHOWN)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def names_of(value: Any) -> list[str]:
    return [name for name in list_of(value) if isinstance(name, str)]
