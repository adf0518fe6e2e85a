"""Bodies that are made of arguments: application/x-www-form-urlencoded, multipart/form-data, and a
value alone. Pure.

A field is written by its content type, an array as one field an item; a field with a style is
written in that. A file is a text, or bytes as a data URL.
https://spec.openapis.org/oas/v3.2.0#encoding-object https://www.rfc-editor.org/rfc/rfc7578
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote, urlencode

from playground.core.errors import BadInput
from playground.executors.executor import as_text
from playground.executors.parameter_styles import (
    RAW,
    RESERVED_IN_QUERY,
    encode_as,
    name_value_pairs,
)
from playground.schema.http_parameters import HttpParameter

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
_DATA_URL = re.compile(r"data:(?P<kind>[\w.+-]+/[\w.+-]+)?(?P<more>(?:;[^;,]*)*?);base64,", re.I)
_NAME = re.compile(r";\s*(?:file)?name=([^;,]*)", re.I)


@dataclass(frozen=True)
class _Part:
    """`kind` is its media type, "" for plain text; `file_name` "" if it is not a file."""

    name: str
    data: bytes
    kind: str = ""
    file_name: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def form_body(values: Mapping[str, Any], fields: Mapping[str, HttpParameter]) -> bytes:
    """The arguments as a form; `fields` are those with their own name or style."""
    pairs: list[str] = []
    for argument, value in values.items():
        own = fields.get(argument)
        if own is not None and own.style and value is not None:
            safe = RESERVED_IN_QUERY if own.allow_reserved else ""
            styled = name_value_pairs(own.style, own.explode, own.name, value, safe)
            pairs += [f"{name}={text}" for name, text in styled]
            continue
        name, kind = (own.name, own.content_type) if own else (argument, "")
        several = [(name, encode_as(kind, item)) for item in _items(value)]
        pairs += [urlencode(several, errors="replace")] if several else []
    return "&".join(pairs).encode()


def multipart_body(
    values: Mapping[str, Any], fields: Mapping[str, HttpParameter]
) -> tuple[bytes, str]:
    """(the body, its media type with the boundary)."""
    parts = [
        part
        for argument, value in values.items()
        for part in _parts(argument, value, fields.get(argument))
    ]
    boundary = _boundary(parts)
    body = b"".join(
        b"--%b\r\n%b\r\n\r\n%b\r\n" % (boundary, _head(part), part.data) for part in parts
    )
    return body + b"--%b--\r\n" % boundary, f"{MULTIPART}; boundary={boundary.decode()}"


def value_body(own: HttpParameter, value: Any) -> tuple[bytes, str]:
    """(one value as the body, its media type): a file, or in its content type."""
    part = _file(own, value) if own.file else _part(own.name, value, own.content_type)
    return part.data, part.kind


def _items(value: Any) -> list[Any]:
    """The values of a field that is written by its content type; none for null."""
    return [item for item in (value if isinstance(value, list) else [value]) if item is not None]


def _parts(argument: str, value: Any, own: HttpParameter | None) -> list[_Part]:
    if own is None:
        return [_part(argument, item, "") for item in _items(value)]
    if own.file:
        parts = [_file(own, item) for item in _items(value)]
    elif own.style and value is not None:
        pairs = name_value_pairs(own.style, own.explode, own.name, value, RAW)
        parts = [_Part(name, _bytes(text)) for name, text in pairs]
    else:
        parts = [_part(own.name, item, own.content_type) for item in _items(value)]
    return [replace(part, headers=own.headers) for part in parts]


def _part(name: str, value: Any, kind: str) -> _Part:
    kind = kind or ("application/json" if isinstance(value, dict | list) else "")
    return _Part(name, _bytes(encode_as(kind, value)), kind)


def _file(own: HttpParameter, value: Any) -> _Part:
    """A text as a file, or the bytes of a data URL, with its type and the file name in it."""
    text = as_text(value)
    kind, data, file_name = own.content_type, _bytes(text), own.name
    match = _DATA_URL.match(text)
    if match:
        try:
            data = base64.b64decode(unquote(text[match.end() :]), validate=True)
        except (binascii.Error, ValueError):
            sentence = f"The file {own.name!r} is a data URL whose base64 is not valid"
            raise BadInput(f"{sentence}; nothing was sent.") from None
        kind = match["kind"] or kind
        named = _NAME.search(match["more"])
        file_name = unquote(named[1]) if named and named[1] else file_name
    return _Part(own.name, data, kind or "application/octet-stream", file_name)


def _head(part: _Part) -> bytes:
    lines = [f'Content-Disposition: form-data; name="{_quote_name(part.name)}"']
    if part.file_name:
        lines[0] += f'; filename="{_quote_name(part.file_name)}"'
    if part.kind:
        lines.append(f"Content-Type: {part.kind}")
    lines += [f"{name}: {value}" for name, value in part.headers.items()]
    return _bytes("\r\n".join(lines))


def _quote_name(name: str) -> str:
    """As browsers write it (https://html.spec.whatwg.org/#multipart-form-data)."""
    return name.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")


def _boundary(parts: Sequence[_Part]) -> bytes:
    """A boundary that is in no part, and the same for the same parts."""
    digest = hashlib.sha256(b"\0".join(part.data for part in parts)).hexdigest()
    boundary = f"playground-{digest[:32]}".encode()
    while any(boundary in part.data for part in parts):
        boundary += b"-"
    return boundary


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
