"""The `parameters` of an HTTP tool: which argument goes where, and in which of OpenAPI's styles.

An argument that is no parameter is used as before there were any: by its placeholder in the URL, a
header or the body, or as one of the remaining arguments.
https://spec.openapis.org/oas/v3.2.0#parameter-object
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from playground.core.errors import BadTool
from playground.schema.schema_checks import pointer

_QUERY = ("form", "spaceDelimited", "pipeDelimited", "deepObject")
OPENAPI_STYLES: Mapping[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": _QUERY,
    "header": ("simple",),
    "cookie": ("form", "cookie"),
    "body": ("", *_QUERY),
    "querystring": ("",),
}
"""The styles by place, the default first. A field of the body without a style is written by its
content type."""

_SWAGGER = ("spaceDelimited", "pipeDelimited", "tabDelimited")
STYLES: Mapping[str, tuple[str, ...]] = {
    place: tuple(
        dict.fromkeys((*styles, *(_SWAGGER if place not in ("cookie", "querystring") else ())))
    )
    for place, styles in OPENAPI_STYLES.items()
}
"""With the collection formats of Swagger 2 that OpenAPI 3 has no style for: tsv everywhere, ssv and
pipes in path and header."""

EXPLODED = ("form", "cookie", "deepObject")
"""Styles that are exploded by default."""

MEMBERS = (
    *("in", "name", "argument", "value", "style", "explode", "allow_reserved", "content_type"),
    *("headers", "file"),
)
_MOST = 500
_CONTENT_TYPE = re.compile(r"[\w!#$&^.+*-]+/[\w!#$&^.+*-]+(?:\s*;[ -~]*)?", re.ASCII)


@dataclass(frozen=True)
class HttpParameter:
    """`value` is text to be sent instead of an argument, with keys as `${NAME}`. `content_type`:
    the value is written in that media type, not in a style. `headers` and `file` are about a part
    of a multipart body: its further headers, and that it is sent as a file."""

    place: str
    name: str
    argument: str
    value: str
    style: str
    explode: bool
    allow_reserved: bool
    content_type: str
    headers: Mapping[str, str]
    file: bool


def parameters_of(config: Mapping[str, Any]) -> list[HttpParameter]:
    """The parameters of a valid config."""
    return [_parameter(entry) for entry in config.get("parameters", ())]


def display_url(config: Mapping[str, Any]) -> str:
    """The URL with the query parameters that are not written in it, for people."""
    url = str(config.get("url", ""))
    pairs = []
    for parameter in parameters_of(config):
        value = parameter.value or f"{{{parameter.argument}}}"
        if parameter.place == "query":
            pairs.append(f"{quote(parameter.name)}={value}")
        elif parameter.place == "querystring":
            pairs.append(value)
    if not pairs:
        return url
    return f"{url}{'&' if '?' in url else '?'}{'&'.join(pairs)}"


def check_parameters(parameters: Any) -> None:
    """BadTool, with the place, if `parameters` are not valid as a member of a config."""
    where: tuple[str | int, ...] = ("config", "parameters")
    if not isinstance(parameters, list) or len(parameters) > _MOST:
        sentence = 'config.parameters must be a list, such as [{"in": "query", "name": "page"}]'
        raise BadTool(f"{sentence}, with at most {_MOST} entries.", pointer(where))
    seen: set[tuple[str, str]] = set()
    for number, entry in enumerate(parameters):
        here = (*where, number)
        if not isinstance(entry, Mapping):
            raise BadTool("A parameter must be an object with in and name.", pointer(here))
        for member in entry:
            if member not in MEMBERS:
                sentence = (
                    f"A parameter has no field {member!r}. Its fields are {', '.join(MEMBERS)}."
                )
                raise BadTool(sentence, pointer((*here, str(member))))
        _check_types(entry, here)
        _check_members(entry, here)
        key = entry["in"], entry["name"].lower() if entry["in"] == "header" else entry["name"]
        if key in seen:
            raise BadTool(f"The {key[0]} parameter {key[1]!r} is given twice.", pointer(here))
        seen.add(key)


def _check_types(entry: Mapping[str, Any], where: tuple[str | int, ...]) -> None:
    if entry.get("in") not in STYLES:
        raise BadTool(f"in must be one of {', '.join(STYLES)}.", pointer((*where, "in")))
    for member in ("name", "argument", "value", "style", "content_type"):
        value = entry.get(member, "")
        if not isinstance(value, str) or not value.isprintable():
            raise BadTool(f"{member} must be one line of text.", pointer((*where, member)))
    for member in ("explode", "allow_reserved", "file"):
        if not isinstance(entry.get(member, False), bool):
            raise BadTool(f"{member} must be true or false.", pointer((*where, member)))
    if not entry.get("name"):
        raise BadTool("A parameter needs a name.", pointer((*where, "name")))


def _check_members(entry: Mapping[str, Any], where: tuple[str | int, ...]) -> None:
    place, styles = entry["in"], STYLES[entry["in"]]
    if entry.get("style", styles[0]) not in styles:
        sentence = (
            f"The style of a {place} parameter must be one of {', '.join(filter(None, styles))}."
        )
        raise BadTool(sentence, pointer((*where, "style")))
    kind = entry.get("content_type", "")
    if kind and not _CONTENT_TYPE.fullmatch(kind):
        raise BadTool(
            "content_type must be a media type, such as application/json.",
            pointer((*where, "content_type")),
        )
    if "value" in entry and ("argument" in entry or place not in ("query", "header", "cookie")):
        sentence = (
            "A fixed value is allowed only for query, header or cookie, and only without "
            "argument. Remove one."
        )
        raise BadTool(sentence, pointer((*where, "value")))
    headers = entry.get("headers", {})
    if not isinstance(headers, Mapping) or not all(
        isinstance(text, str) and f"{name}{text}".isprintable() and ":" not in name
        for name, text in headers.items()
    ):
        raise BadTool(
            "headers must be an object with one line of text per header.",
            pointer((*where, "headers")),
        )
    if place != "body" and (headers or entry.get("file")):
        raise BadTool(
            "headers and file are allowed only for a part of a multipart body.", pointer(where)
        )


def _parameter(entry: Mapping[str, Any]) -> HttpParameter:
    style = entry.get("style", STYLES[entry["in"]][0])
    return HttpParameter(
        place=entry["in"],
        name=entry["name"],
        argument="" if "value" in entry else entry.get("argument", entry["name"]),
        value=entry.get("value", ""),
        style=style,
        explode=entry.get("explode", style in EXPLODED),
        allow_reserved=entry.get("allow_reserved", False),
        content_type=entry.get("content_type", ""),
        headers=entry.get("headers", {}),
        file=entry.get("file", False),
    )
