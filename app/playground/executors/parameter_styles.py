"""Writes a value in one of OpenAPI's styles, which are RFC 6570's expansions and a few more. Pure.

https://spec.openapis.org/oas/v3.2.0#style-examples https://www.rfc-editor.org/rfc/rfc6570#section-3
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from playground.core.errors import BadInput
from playground.executors.executor import as_json, as_text
from playground.schema.http_parameters import HttpParameter


@dataclass(frozen=True)
class _Style:
    """A row of RFC 6570's table (appendix A): `first` comes first, `between` between exploded
    items, `delimiter` between those that are not. `named`: each value follows its name, and an
    empty one its name and `if_empty`."""

    first: str = ""
    between: str = ","
    named: bool = False
    if_empty: str = ""
    delimiter: str = ","


_STYLES: Mapping[str, _Style] = {
    "simple": _Style(),
    "label": _Style(".", "."),
    "matrix": _Style(";", ";", named=True),
    "form": _Style("", "&", named=True, if_empty="="),
    "cookie": _Style("", "; ", named=True, if_empty="="),
    "deepObject": _Style("", "&", named=True, if_empty="="),
    "spaceDelimited": _Style("", "&", named=True, if_empty="=", delimiter=" "),
    "pipeDelimited": _Style("", "&", named=True, if_empty="=", delimiter="|"),
    "tabDelimited": _Style("", "&", named=True, if_empty="=", delimiter="\t"),
}

RESERVED_IN_PATH = ":@!$&'()*+,="
RESERVED_IN_QUERY = ":/?@!$'()*,;="
"""Reserved characters that end no step of a path, and no pair of the query or a form, where `+` is
a space."""

RAW = None
"""As `safe`: nothing is percent-encoded, as in a header."""

_JSON = re.compile(r"application/(?:[\w.+-]*\+)?json\b", re.I)

_NOT_PLAIN = re.compile(r"[^\x20-\x7e]+")
"""What a header cannot have, and JSON can escape."""

_TRIPLE = re.compile(r"(%[0-9A-Fa-f]{2})")


def write_parameter(parameter: HttpParameter, value: Any) -> str:
    """`value` as the place, the style and the content type of `parameter` ask, with its name where
    the place needs one; "" for a list or an object without values."""
    safe: str | None = ""
    name: str | None = parameter.name
    style = parameter.style
    match parameter.place:
        case "path":
            safe = RESERVED_IN_PATH if parameter.allow_reserved else ""
            name = name if style == "matrix" else None
        case "query":
            safe = RESERVED_IN_QUERY if parameter.allow_reserved else ""
        case "header":
            safe, name = RAW, None
        case "cookie":
            # Cookies are separated by "; " in both styles: `&` between them is a part of the first.
            safe, style = ("" if style == "form" else RAW), "cookie"
    if parameter.content_type:
        value = encode_as(parameter.content_type, value)
        if safe is RAW and _JSON.match(parameter.content_type):
            value = _NOT_PLAIN.sub(lambda part: json.dumps(part[0])[1:-1], value)
    return write_value(style, parameter.explode, name, value, safe) or ""


def encode_as(kind: str, value: Any) -> str:
    """The value in the media type `kind`: as JSON, where a text has quotes, or as it is."""
    return as_json(value) if _JSON.match(kind) else as_text(value)


def write_value(
    style: str, explode: bool, name: str | None, value: Any, safe: str | None
) -> str | None:
    """`value` in the style; None for a list or an object without values, which are not sent.

    Without `name` the values have no name, as in a step of a path. Names and values are
    percent-encoded, but for the characters `safe`. BadInput if an item cannot be told from its
    separator.
    """
    row = _STYLES[style]
    if row.named and name is not None:
        pairs = name_value_pairs(style, explode, name, value, safe)
        texts = [key + (f"={text}" if text else row.if_empty) for key, text in pairs]
        if safe is RAW and any(row.between.strip() in text for text in texts):
            raise BadInput(
                f"The value of {name} has a {row.between.strip()!r} in it, which ends the value."
            )
    else:
        texts = list(_texts(row, explode and not row.named, value, safe))
    return row.first + row.between.join(texts) if texts else None


def name_value_pairs(
    style: str, explode: bool, name: str, value: Any, safe: str | None
) -> Iterator[tuple[str, str]]:
    """The (name, value) pairs of `value` in one of the styles that write names."""
    row = _STYLES[style]
    if style == "deepObject":
        for path, inner in _leaves(value):
            brackets = "".join(f"[{step}]" for step in path)
            yield encode(name + brackets, safe), encode(as_text(inner), safe)
        return
    if not explode or not isinstance(value, dict | list):
        yield from ((encode(name, safe), text) for text in _texts(row, False, value, safe))
        return
    items = value.items() if isinstance(value, dict) else ((name, item) for item in value)
    for key, item in items:
        if item is not None:
            yield encode(key, safe), encode(as_text(item), safe)


def encode(text: str, safe: str | None) -> str:
    """`text` percent-encoded as UTF-8, but for the characters `safe`. Where some reserved ones are
    safe, so are sequences that are encoded already (RFC 6570, 3.2.3)."""
    if safe is RAW:
        return text
    parts = _TRIPLE.split(text) if safe else [text]
    return "".join(
        part if number % 2 else quote(part.encode("utf-8", "replace"), safe=safe)
        for number, part in enumerate(parts)
    )


def _texts(row: _Style, explode: bool, value: Any, safe: str | None) -> Iterator[str]:
    """The texts of `value`, which `row.between` joins; one text unless `explode`."""
    separator = row.between if explode else row.delimiter
    # As it stands between the items: what is no separator in RFC 6570 is percent-encoded.
    written = separator if safe is RAW or separator in ",." else quote(separator, safe="")
    match value:
        case dict():
            members = [
                (_item(key, separator, written, safe), _item(item, separator, written, safe))
                for key, item in value.items()
                if item is not None
            ]
            items = [f"{key}={text}" for key, text in members] if explode else [*sum(members, ())]
        case list():
            items = [_item(item, separator, written, safe) for item in value if item is not None]
        case _:
            yield encode(as_text(value), safe)
            return
    if explode:
        yield from items
    elif items:
        yield written.join(items)


def _item(value: Any, separator: str, written: str, safe: str | None) -> str:
    """One of several values, encoded so that it has no separator in it."""
    text = as_text(value)
    item = encode(text, safe.replace(separator, "") if safe else safe)
    if written in item:
        raise BadInput(
            f"{text!r} is one of several values separated by {separator!r}, but contains "
            f"{separator!r} itself. Nothing was sent."
        )
    return item


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values in an object with their paths. OpenAPI does not say how inner lists and objects
    are written; here they are as most libraries read them: a[b][0]."""
    match value:
        case dict():
            inner = [(str(key), item) for key, item in value.items()]
        case list():
            inner = [(str(number), item) for number, item in enumerate(value)]
        case None:
            return
        case _:
            yield path, value
            return
    for step, item in inner:
        yield from _leaves(item, (*path, step))
