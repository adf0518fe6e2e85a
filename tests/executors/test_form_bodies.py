"""Forms: what a field becomes by its type, its content type and its style; files."""

from __future__ import annotations

import base64
import json
from email import message_from_bytes
from email.message import Message
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.errors import BadInput
from playground.executors.http import request_of

URL = "https://api.example.com"
PNG = b"\x89PNG\r\n\x1a\n\0"
DATA_URL = f"data:image/png;name=a%20b.png;base64,{base64.b64encode(PNG).decode()}"


def body_of(kind: str, fields: list[dict[str, Any]], arguments: Any) -> tuple[bytes, str]:
    parameters = [{"in": "body", **field} for field in fields]
    config = {"url": URL, "method": "POST", "body": kind, "parameters": parameters}
    request = request_of(config, json.dumps(arguments))
    return request.body, "".join(request.headers["Content-Type"])


def parts_of(fields: list[dict[str, Any]], arguments: Any) -> list[tuple[Any, ...]]:
    """(name, file name, media type, data) of each part, by the standard library's parser."""
    body, kind = body_of("multipart", fields, arguments)
    assert kind.startswith("multipart/form-data; boundary=")
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    parts = message.get_payload()
    assert isinstance(parts, list)
    return [
        (
            part.get_param("name", header="Content-Disposition"),
            part.get_filename(),
            part["Content-Type"],
            part.get_payload(decode=True),
        )
        for part in parts
        if isinstance(part, Message)
    ]


@pytest.mark.parametrize(
    ("fields", "arguments", "body"),
    [
        ([], {"a": "x y", "b": [1, 2], "c": None, "d": {"e": 1}},
         "a=x+y&b=1&b=2&d=%7B%22e%22%3A+1%7D"),
        ([{"name": "a", "style": "form", "explode": False}], {"a": ["1,2", "3"]}, "a=1%2C2,3"),
        ([{"name": "a", "style": "form", "explode": False}], {"a": None}, ""),
        ([{"name": "a", "style": "deepObject"}], {"a": {"b": {"c": "d"}}}, "a%5Bb%5D%5Bc%5D=d"),
        ([{"name": "a", "style": "form"}], {"a": {"b": 1, "c": 2}}, "b=1&c=2"),
        ([{"name": "a", "style": "pipeDelimited"}], {"a": [1, 2]}, "a=1%7C2"),
        ([{"name": "a[]", "argument": "a"}], {"a": [1, 2], "z": 3}, "a%5B%5D=1&a%5B%5D=2&z=3"),
        ([{"name": "a", "content_type": "application/json"}], {"a": "x"}, "a=%22x%22"),
        ([{"name": "a", "style": "form", "allow_reserved": True}], {"a": "/b?c&d"}, "a=/b?c%26d"),
    ],
)  # fmt: skip
def test_form(fields: Any, arguments: Any, body: str) -> None:
    assert body_of("form", fields, arguments) == (
        body.encode(),
        "application/x-www-form-urlencoded",
    )


@pytest.mark.parametrize(
    ("fields", "arguments", "parts"),
    [
        ([], {"a": "é", "n": 1.50, "gone": None}, [("a", None, None, "é".encode()),
         ("n", None, None, b"1.5")]),
        ([], {"tags": ["x", "y"], "o": {"b": 1}}, [("tags", None, None, b"x"),
         ("tags", None, None, b"y"), ("o", None, "application/json", b'{"b": 1}')]),
        ([{"name": "m", "content_type": "application/json"}], {"m": "x"},
         [("m", None, "application/json", b'"x"')]),
        ([{"name": "m", "content_type": "text/csv"}], {"m": "a,b"},
         [("m", None, "text/csv", b"a,b")]),
        ([{"name": "l", "style": "form", "explode": False}], {"l": [1, 2]},
         [("l", None, None, b"1,2")]),
        ([{"name": "files[0]", "argument": "f", "file": True}], {"f": "hello"},
         [("files[0]", "files[0]", "application/octet-stream", b"hello")]),
        ([{"name": "f", "file": True, "content_type": "text/csv"}], {"f": "a,b\n"},
         [("f", "f", "text/csv", b"a,b\n")]),
        ([{"name": "f", "file": True}], {"f": [DATA_URL, "t"]},
         [("f", "a b.png", "image/png", PNG), ("f", "f", "application/octet-stream", b"t")]),
    ],
)  # fmt: skip
def test_multipart(fields: Any, arguments: Any, parts: Any) -> None:
    assert parts_of(fields, arguments) == parts


def test_a_part_has_its_headers() -> None:
    body, _ = body_of("multipart", [{"name": "a", "headers": {"X-Kind": "main"}}], {"a": "1"})
    assert b'Content-Disposition: form-data; name="a"\r\nX-Kind: main\r\n\r\n1\r\n' in body


def test_a_file_whose_base64_is_not_valid_is_refused() -> None:
    with pytest.raises(BadInput, match="nothing was sent"):
        parts_of([{"name": "f", "file": True}], {"f": "data:image/png;base64,%%%"})


def test_the_same_call_has_the_same_bytes() -> None:
    assert body_of("multipart", [], {"a": "1"}) == body_of("multipart", [], {"a": "1"})
    assert body_of("multipart", [], {"a": "1"}) != body_of("multipart", [], {"a": "2"})


@settings(deadline=None)
@given(st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), st.text(), max_size=4))
def test_a_value_ends_no_part(values: dict[str, str]) -> None:
    body, kind = body_of("multipart", [], values)
    boundary = kind.partition("boundary=")[2].encode()
    parts = body.split(b"--" + boundary)
    assert parts[0] == b""
    assert parts[-1] == b"--\r\n"
    assert len(parts) == len(values) + 2
    for part, (name, value) in zip(parts[1:-1], values.items(), strict=True):
        head, _, data = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        assert data.removesuffix(b"\r\n") == value.encode("utf-8", "backslashreplace")
        assert head.count(b"\r\n") == 0
        assert name.encode().count(b'"') == head.count(b"%22") - name.count("%22")
