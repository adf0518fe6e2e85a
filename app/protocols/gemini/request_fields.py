"""Members of Google's messages: camelCase or snake_case, and nothing unknown among them.

The words of refusal are those of Google's JSON front end, which reads every request before a model
sees it. https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from app.protocols.server import BadRequest, compact

UNKNOWN = "https://github.com/zed-industries/zed/issues/44875"
TYPES = "https://protobuf.dev/programming-guides/json/"

_UPPER = re.compile(r"[A-Z]")
_AFTER_LINE = re.compile(r"_([a-z])")


def refused(
    sentence: str, source: str, *, inferred: bool = False, field: str | None = None
) -> BadRequest:
    """400 INVALID_ARGUMENT. `field` is the place in the request that a detail of it names."""
    return BadRequest(
        sentence, kind="INVALID_ARGUMENT", source=source, inferred=inferred, param=field
    )


def invalid(where: str, sentence: str, source: str, *, inferred: bool = False) -> BadRequest:
    """What the checks behind the front end say: one line a violation."""
    return refused(f"* GenerateContentRequest.{where}: {sentence}\n", source, inferred=inferred)


def fields(value: Any, known: Collection[str], where: str) -> dict[str, Any]:
    """The members of the message at `where` ("" is the request) by their camelCase names.

    Null is as good as absent.
    """
    if not isinstance(value, dict):
        raise wrong_type(value, where, "a message")
    found = {}
    for key, item in value.items():
        name = _AFTER_LINE.sub(lambda letter: letter[1].upper(), key)
        if name not in known:
            raise unknown(key, where)
        if item is not None:
            found[name] = item
    return found


def unknown(name: str, where: str) -> BadRequest:
    at = f" at '{where}'" if where else ""
    return refused(
        f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.',
        UNKNOWN,
        field=where,
    )


def wrong_type(value: Any, where: str, kind: str) -> BadRequest:
    shown = compact(value)[:80]
    return refused(f"Invalid value at '{where}' ({kind}), {shown}", TYPES, field=where)


def typed(data: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """The member `name`, which is absent (None) or of this kind."""
    value = data.get(name)
    kinds = {str: "TYPE_STRING", bool: "TYPE_BOOL", int: "TYPE_INT32", list: "a list"}
    number = kind in (int, float) and isinstance(value, bool)
    if value is not None and (number or not isinstance(value, kind)):
        raise wrong_type(value, inside(where, name), kinds.get(kind, STRUCT))
    return value


STRUCT = "type.googleapis.com/google.protobuf.Struct"


def inside(where: str, name: str) -> str:
    """The path of a member, as Google writes it: in snake_case."""
    snake = _UPPER.sub(lambda letter: f"_{letter[0].lower()}", name)
    return f"{where}.{snake}" if where else snake
