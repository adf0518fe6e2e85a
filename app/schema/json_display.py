"""Formats JSON for display: the readable prefix of unfinished text, and valid text re-indented.

For display only. Whether a call may run is decided by `arguments` alone, on the whole text.
"""

from __future__ import annotations

import re

import jiter

from app.schema.strict_json import InvalidJSON, parse

MAX_PREFIX = 64 * 1024
_INDENT = "  "
_TOKEN = re.compile(r'"(?>[^"\\]+|\\.)*+"|[{}\[\]:,]|[^"{}\[\]:,\s]++', re.DOTALL)


def readable_prefix(raw: str) -> object | None:
    """What can be read of JSON that still grows; None where nothing can, or above MAX_PREFIX.

    A last string may be cut, a last number may still grow. Call it once a frame, not per delta.
    """
    if len(raw) >= MAX_PREFIX:
        return None
    try:
        value: object = jiter.from_json(
            raw.encode("utf-8", "replace"), partial_mode="trailing-strings", cache_mode="keys"
        )
    except ValueError:
        return None
    return value


def pretty(raw: str, limit: int = MAX_PREFIX) -> str:
    """`raw` with one member a line. Only white space differs: digits, escapes, order stay.

    Text that is not strict JSON, or longer than `limit` characters, is returned as it is.
    """
    if len(raw) > limit:
        return raw
    try:
        parse(raw)
    except InvalidJSON:
        return raw
    return "".join(_indent(_TOKEN.findall(raw)))


def _indent(tokens: list[str]) -> list[str]:
    pieces: list[str] = []
    depth = 0
    for place, token in enumerate(tokens):
        match token:
            case "{" | "[":
                depth += 1
                empty = tokens[place + 1] in "}]"
                pieces.append(token if empty else token + _line(depth))
            case "}" | "]":
                depth -= 1
                empty = tokens[place - 1] in "{["
                pieces.append(token if empty else _line(depth) + token)
            case ",":
                pieces.append("," + _line(depth))
            case ":":
                pieces.append(": ")
            case _:
                pieces.append(token)
    return pieces


def _line(depth: int) -> str:
    return "\n" + _INDENT * depth
