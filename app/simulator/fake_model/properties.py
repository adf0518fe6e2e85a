"""Properties of a tool's parameters: what each is for, its type, its references resolved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from app.protocols.server import words_of
from app.simulator.fake_model.words import words

Role = Literal[
    "expression",
    "email",
    "url",
    "path",
    "timezone",
    "language",
    "currency",
    "unit",
    "date",
    "time",
    "place",
    "code",
    "sql",
    "body",
    "query",
    "title",
    "person",
    "other",
]
Direction = Literal["from", "to", ""]

_ROLES: tuple[tuple[Role, frozenset[str]], ...] = (
    ("expression", words_of("expression expr formula equation calculation math")),
    ("email", words_of("email mail cc bcc")),
    ("url", words_of("url uri link href website")),
    ("path", words_of("path file filename filepath folder directory")),
    ("timezone", words_of("timezone tz zone")),
    ("language", words_of("language languages lang")),
    ("currency", words_of("currency currencies")),
    ("unit", words_of("unit units scale")),
    ("sql", words_of("sql statement")),
    ("date", words_of("date day when deadline due checkin checkout")),
    ("time", words_of("time datetime hour clock at start end")),
    (
        "place",
        words_of(
            """city cities location locations place places destination origin country town address
            where region departure arrival venue area room"""
        ),
    ),
    ("query", words_of("query queries q search question keyword keywords term terms ingredient")),
    ("code", words_of("id ids ticket sku tracking code number")),
    (
        "body",
        words_of(
            """body message text content contents note comment msg sentence phrase input prompt
            description"""
        ),
    ),
    (
        "person",
        words_of(
            """person recipient recipients attendee attendees guest guests contact who participants
            participant username customer assignee artist people with invitees"""
        ),
    ),
    (
        "title",
        words_of(
            """title subject summary label task topic item items event reminder song track name
            what product company dish"""
        ),
    ),
)
_FORMATS: dict[str, Role] = {
    "email": "email",
    "uri": "url",
    "date": "date",
    "time": "time",
    "date-time": "time",
}
_BARE: tuple[tuple[str, Role], ...] = (
    ("email", "email"),
    ("message", "person"),
    ("pay", "person"),
    ("currency", "currency"),
    ("translate", "language"),
    ("unit", "unit"),
    ("convert", "unit"),
)
_FROM = words_of("from source origin departure base src")
_TO = words_of("to target destination arrival dest dst into")


def direction(name: str) -> Direction:
    said = set(words(name))
    return "from" if said & _FROM else "to" if said & _TO else ""


def role(name: str, schema: Mapping[str, Any], kinds: set[str]) -> Role:
    """`kinds` are the concepts of the tool's name: they say what a bare `to` means."""
    said = words(name)
    told = _FORMATS.get(str(schema.get("format", "")))
    if told is not None:
        return told
    if said == ["name"] and re.match(r"who\b", str(schema.get("description", "")), re.I):
        return "person"
    if "time" in said and "zone" in said:
        return "timezone"
    if direction(name) and not set(said) - _FROM - _TO:
        return _bare(kinds)
    for candidate, known in _ROLES:
        if known & set(said):
            return candidate
    return "other"


def _bare(kinds: set[str]) -> Role:
    """What `from`, `to`, `source` or `target` alone stands for."""
    return next((meaning for concept, meaning in _BARE if concept in kinds), "place")


# -- reading a JSON Schema just far enough to fill it


def standalone(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """`schema` with the root's definitions, so that its references still lead somewhere."""
    kept = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return {**kept, **schema}


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema without its reference and without the `null` of an optional value."""
    for _ in range(8):
        schema = mapping(schema)
        reference = schema.get("$ref")
        choices = [
            c for c in schema.get("anyOf") or schema.get("oneOf") or [] if isinstance(c, dict)
        ]
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Any = root
            for step in reference[2:].split("/"):
                target = mapping(target).get(step.replace("~1", "/").replace("~0", "~"))
            schema = {**mapping(target), **{k: v for k, v in schema.items() if k != "$ref"}}
        elif choices and "type" not in schema:
            real = next((c for c in choices if c.get("type") != "null"), choices[0])
            schema = {**{k: v for k, v in schema.items() if k not in ("anyOf", "oneOf")}, **real}
        else:
            return schema  # type: ignore[no-any-return]
    return {}


def type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if isinstance(kind, str):
        return kind
    return "object" if "properties" in schema else "string" if "enum" not in schema else ""


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
