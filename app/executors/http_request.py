"""The request that a call of an HTTP tool becomes, without its keys. Pure; sends nothing.

An argument can change neither scheme, host nor port, which have no places, nor the structure of
path and query: every value is percent-encoded, and what would still be read as a step in the path
(`..`, also behind an encoded slash) is refused.
config: {"method", "url", "headers", "body"}. In the URL `{name}` stands for an argument; a pair of
the query without its argument is left out. In headers and body `{{ args.name }}` does (see
filling.py); a header without its argument is left out. `body` is "none", "form" or "json" (all
arguments that stand nowhere else), an object or array as a template of JSON, or other text, in
which arguments are put as they are. Without `body` it is "json" for POST, PUT and PATCH; for the
others the rest of the arguments goes into the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlencode

from app.core.arguments import ABSENT, at
from app.core.errors import BadInput
from app.core.tools import Tool
from app.executors.filling import (
    PLACE,
    as_json,
    as_text,
    filled_or_absent,
    parsed,
    steps_of,
)
from app.net.keys import origin
from app.schema.tool_config import URL_PLACE

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
WITH_BODY = ("POST", "PUT", "PATCH")
VARIABLE = re.compile(r"\$\{(\w+)\}")
_EITHER = re.compile(rf"{VARIABLE.pattern}|{PLACE.pattern}")
_END = re.compile(r"[/?]|$")


@dataclass(frozen=True)
class Request:
    """A header's value is in pieces: every second one, from the second on, is the name of a key,
    which the tool wrote as `${NAME}`; the others are text. An argument can name no key."""

    method: str
    url: str
    headers: Mapping[str, tuple[str, ...]]
    body: bytes


def request_of(config: Mapping[str, Any], arguments: str, idempotency_key: str = "") -> Request:
    """BadInput, with a sentence, where the arguments fit no request."""
    method = str(config.get("method", "GET"))
    values = parsed(arguments)
    template = str(config["url"])
    headers = _headers(config.get("headers", {}), values)
    used = {_argument(name, values) for name in URL_PLACE.findall(template)}
    used |= _named_in(config.get("headers", {}))
    rest = {name: value for name, value in values.items() if name not in used}
    body = config.get("body", "json" if method in WITH_BODY else None)
    url = _url(template, values, rest if "body" not in config and body is None else {})
    data, kind = _body(body, values, rest)
    given = {name.lower() for name in headers}
    if kind and "content-type" not in given:
        headers["Content-Type"] = (kind,)
    if method in UNSAFE and idempotency_key and "idempotency-key" not in given:
        headers["Idempotency-Key"] = (idempotency_key,)
    return Request(method, url, headers, data)


def _argument(name: str, values: Mapping[str, Any]) -> str:
    """The argument that a place of the URL takes: `user.id` may be one, or a part of `user`."""
    return name if name in values else name.split(".")[0]


def _value(name: str, values: dict[str, Any]) -> Any:
    """ABSENT where there is none, or it is null."""
    found = values[name] if name in values else at(values, name.split("."))
    return ABSENT if found is None else found


def _named_in(template: Any) -> set[str]:
    """The arguments that `template` names anywhere in its strings."""
    match template:
        case str():
            return {steps[0] for place in PLACE.finditer(template) if (steps := steps_of(place))}
        case Mapping():
            return set().union(*map(_named_in, template.values()))
        case list():
            return set().union(*map(_named_in, template))
    return set()


# -- the URL


def _url(template: str, values: dict[str, Any], rest: Mapping[str, Any]) -> str:
    begin = template.index("://") + 3
    end = _END.search(template, begin)
    assert end is not None  # it finds the end of the text, if nothing else
    path, _, query = template[end.start() :].partition("?")
    steps = [_step(step, values) for step in path.split("/")]
    pairs = [_pair(pair, values) for pair in query.split("&") if pair]
    pairs += [_joined(quote(name, safe=""), value) for name, value in rest.items()]
    whole = template[: end.start()] + "/".join(steps)
    asked = "&".join(pair for pair in pairs if pair)
    return f"{whole}?{asked}" if asked else whole


def _step(step: str, values: dict[str, Any]) -> str:
    """One step of the path."""

    def filled(place: re.Match[str]) -> str:
        value = _value(place[1], values)
        if value is ABSENT:
            raise BadInput(f"The path of the URL needs the argument {place[1]!r}.")
        return _encoded(as_text(value))

    done = URL_PLACE.sub(filled, step)
    if done != step and (not done or _leads_away(done)):
        raise BadInput(f"{unquote(done)!r} cannot stand in the path of the URL; nothing was sent.")
    return done


def _leads_away(step: str) -> bool:
    """Whether somebody on the way may read `step` as more than one, however often it decodes."""
    for _ in range(4):
        if any(part in (".", "..") for part in re.split(r"[/\\]", step.partition(";")[0])):
            return True
        step = unquote(step)
    return False


def _pair(pair: str, values: dict[str, Any]) -> str:
    """One `name=value` of the query, or "" where an argument of it is absent."""
    found = {name: _value(name, values) for name in URL_PLACE.findall(pair)}
    if any(value is ABSENT for value in found.values()):
        return ""
    name, _, template = pair.partition("=")
    whole = URL_PLACE.fullmatch(template)
    if whole is not None and not URL_PLACE.search(name):
        return _joined(name, found[whole[1]])
    return URL_PLACE.sub(lambda place: _encoded(as_text(found[place[1]])), pair)


def _joined(name: str, value: Any) -> str:
    """`name=value`; of an array one pair each item. The name is encoded already."""
    items = value if isinstance(value, list) else [] if value is None else [value]
    return "&".join(f"{name}={_encoded(as_text(item))}" for item in items)


def _encoded(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe="")


# -- headers and body


def keys_of(tool: Tool) -> list[tuple[str, str]]:
    """(name, origin) of each key that an HTTP tool sends, and where; none for other kinds."""
    if tool.answered_by != "http":
        return []
    headers = tool.config.get("headers", {})
    place = origin(str(tool.config.get("url", "")))
    names = {name: None for text in headers.values() for name in VARIABLE.findall(str(text))}
    return [(name, place) for name in names]


def _headers(templates: Mapping[str, str], values: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    headers = {}
    for name, template in templates.items():
        pieces, text, done = [], "", 0
        absent = False
        for place in _EITHER.finditer(template):
            text += template[done : place.start()]
            done = place.end()
            if place[1] is not None:
                pieces += [text, place[1]]
                text = ""
                continue
            value = at(values, place[2].split(".")[1:])
            absent = absent or value is ABSENT or value is None
            text += _plain(name, "" if value is None else as_text(value))
        if not absent:
            headers[name] = (*pieces, text + template[done:])
    return headers


def _plain(name: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        said = f"The argument for the header {name} has more than plain text on one line"
        raise BadInput(f"{said}; nothing was sent.")
    return value


def _body(template: Any, values: dict[str, Any], rest: Mapping[str, Any]) -> tuple[bytes, str]:
    """The body, and its media type."""
    match template:
        case None | "none":
            return b"", ""
        case "json":
            return _bytes(as_json(dict(rest))), "application/json"
        case "form":
            pairs = [
                (name, as_text(item))
                for name, value in rest.items()
                for item in (value if isinstance(value, list) else [value])
                if item is not None
            ]
            return urlencode(pairs, errors="replace").encode(), "application/x-www-form-urlencoded"
        case str():
            text = filled_or_absent(template, values)
            return _bytes(as_text(text)), "text/plain; charset=utf-8"
    return _bytes(as_json(filled_or_absent(template, values))), "application/json"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
