"""What a tool's config may hold, kind by kind: each row is a config and where it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from playground.core.errors import BadTool
from playground.core.tools import AnsweredBy
from playground.schema.validate import MOST_CODE, MOST_URL, check_config

URL = "https://api.example.com/{id}"
CODE = "def f(x):\n    return x"
ONE = {"result": 1}

GOOD: list[tuple[str, dict[str, Any]]] = [
    ("mock", {"result": None}),
    ("mock", {"sequence": [ONE, {"result": "x", "is_error": True}], "cycle": True}),
    ("mock", {"cases": [{"when": {}, "result": 1}]}),
    ("mock", {"cases": [{"when": {"/a/0": {"glob": "x*"}, "": {"a": 1, "b": 2}}, **ONE}]}),
    ("mock", {"cases": [{"when": {"/a": {"one_of": [1]}, "/b": {"prefix": ""}}, **ONE}]}),
    ("mock", {"sample": True, "output_schema": {"type": "string"}, "delay_s": 1}),
    ("mock", {**ONE, "failure_rate": 0.5, "failure": "down"}),
    ("python", {"file": "/a.py", "function": "f"}),
    ("python", {"file": "/a.py", "function": "toolkit.price-of"}),
    ("python", {"code": CODE}),
    ("python", {"code": "async " + CODE, "function": "f"}),
    ("http", {"url": URL}),
    ("http", {"url": "http://127.0.0.1:8000?x={x}&y={a.b}", "private": True, "method": "POST"}),
    ("http", {"url": "http://[::1]:8000/", "hosts": ["*.example.com", "localhost", "[::1]"]}),
    ("http", {"url": URL, "headers": {"Authorization": "Bearer ${MY_API_KEY}", "Accept": "a/b"}}),
    ("http", {"url": URL, "headers": {"X-Token": "{{ args.token }}"}, "body": {"a": [1]}}),
    ("http", {"url": URL, "body": None}),
]

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("mock", {}, "/config/result"),
    ("mock", {"is_error": True}, "/config/result"),
    ("mock", {"sequence": []}, "/config/sequence"),
    ("mock", {"sequence": {"result": 1}}, "/config/sequence"),
    ("mock", {"sequence": [ONE] * 1001}, "/config/sequence"),
    ("mock", {"sequence": [ONE, 2]}, "/config/sequence/1"),
    ("mock", {"sequence": [{"result": 1, "when": {}}]}, "/config/sequence/0/when"),
    ("mock", {"sequence": [{"result": 1, "is_error": "no"}]}, "/config/sequence/0/is_error"),
    ("mock", {"sequence": [ONE], "cycle": 1}, "/config/cycle"),
    ("mock", {"cases": [ONE]}, "/config/cases/0/when"),
    ("mock", {"cases": [{"when": {"a": 1}, **ONE}]}, "/config/cases/0/when/a"),
    (
        "mock",
        {"cases": [{"when": {"/a/b": {"glob": 1}}, **ONE}]},
        "/config/cases/0/when/~1a~1b/glob",
    ),
    (
        "mock",
        {"cases": [{"when": {"/a": {"prefix": 1}}, **ONE}]},
        "/config/cases/0/when/~1a/prefix",
    ),
    (
        "mock",
        {"cases": [{"when": {"/a": {"one_of": 1}}, **ONE}]},
        "/config/cases/0/when/~1a/one_of",
    ),
    ("mock", {"sample": True}, "/config/sample"),
    ("mock", {"sample": 1}, "/config/sample"),
    ("mock", {**ONE, "output_schema": {"type": "x"}}, "/config/output_schema/type"),
    ("mock", {**ONE, "failure_rate": 1.5}, "/config/failure_rate"),
    ("mock", {**ONE, "failure_rate": True}, "/config/failure_rate"),
    ("mock", {**ONE, "failure": 1}, "/config/failure"),
    *(
        ("python", {"file": "/a.py", "function": function}, "/config/function")
        for function in ("a b", "price-of", ".f", "toolkit.", "toolkit.a b", "1.f")
    ),
    ("python", {"code": "x = 1"}, "/config/code"),
    ("python", {"code": 1}, "/config/code"),
    ("python", {"code": CODE + "\0"}, "/config/code"),
    ("python", {"code": CODE + " " * MOST_CODE}, "/config/code"),
    ("python", {"code": CODE, "file": "/a.py"}, "/config/file"),
    ("python", {"code": CODE, "function": "a.b"}, "/config/function"),
    ("http", {}, "/config/url"),
    ("http", {"url": "ftp://example.com/"}, "/config/url"),
    ("http", {"url": "https://{host}/"}, "/config/url"),
    ("http", {"url": "https://api.{host}.example.com/"}, "/config/url"),
    ("http", {"url": "https://example.com:{port}/"}, "/config/url"),
    ("http", {"url": "https://example.com{path}"}, "/config/url"),
    ("http", {"url": "https://{user}@example.com/"}, "/config/url"),
    ("http", {"url": "https://me@example.com/"}, "/config/url"),
    ("http", {"url": "https://example.com\\@evil/"}, "/config/url"),
    ("http", {"url": "https://example.com/?key=${MY_KEY}"}, "/config/url"),
    ("http", {"url": "https://example.com/#{x}"}, "/config/url"),
    ("http", {"url": "https://example.com/a b"}, "/config/url"),
    ("http", {"url": "https://example.com/\n"}, "/config/url"),
    ("http", {"url": "https://example.com/{"}, "/config/url"),
    ("http", {"url": "https://example.com/{a b}"}, "/config/url"),
    ("http", {"url": "https://example.com/{{ args.x }}"}, "/config/url"),
    ("http", {"url": "https://example.com/" + "x" * MOST_URL}, "/config/url"),
    ("http", {"url": URL, "method": "get"}, "/config/method"),
    ("http", {"url": URL, "private": "yes"}, "/config/private"),
    ("http", {"url": URL, "hosts": "example.com"}, "/config/hosts"),
    ("http", {"url": URL, "hosts": ["https://example.com"]}, "/config/hosts/0"),
    ("http", {"url": URL, "headers": []}, "/config/headers"),
    ("http", {"url": URL, "headers": {"Host": "evil"}}, "/config/headers/Host"),
    ("http", {"url": URL, "headers": {"content-length": "1"}}, "/config/headers/content-length"),
    ("http", {"url": URL, "headers": {"A/B": "x"}}, "/config/headers/A~1B"),
    ("http", {"url": URL, "headers": {"X": 1}}, "/config/headers/X"),
    ("http", {"url": URL, "headers": {"X": "a\r\nY: b"}}, "/config/headers/X"),
    ("http", {"url": URL, "headers": {"X": "${HOME}"}}, "/config/headers/X"),
    ("http", {"url": URL, "headers": {"Authorization": "abc"}}, "/config/headers/Authorization"),
    ("http", {"url": URL, "headers": {"X-Api-Key": "abc"}}, "/config/headers/X-Api-Key"),
    ("http", {"url": URL, "cookies": {}}, "/config/cookies"),
    ("http", {"url": URL, "method": "TRACE"}, "/config/method"),
    ("http", {"url": URL, "method": "GET /"}, "/config/method"),
    ("http", {"url": URL, "parameters": {}}, "/config/parameters"),
    ("http", {"url": URL, "parameters": ["t"]}, "/config/parameters/0"),
    *(
        ("http", {"url": URL, "parameters": [given]}, f"/config/parameters/0{where}")
        for given, where in [
            ({"name": "t"}, "/in"),
            ({"in": "query"}, "/name"),
            ({"in": "query", "name": "t", "x": 1}, "/x"),
            ({"in": "query", "name": "t", "style": "matrix"}, "/style"),
            ({"in": "cookie", "name": "t", "style": "pipeDelimited"}, "/style"),
            ({"in": "query", "name": "t", "explode": "no"}, "/explode"),
            ({"in": "query", "name": "t\n"}, "/name"),
            ({"in": "query", "name": "t", "content_type": "json"}, "/content_type"),
            ({"in": "query", "name": "t", "value": "${HOME}"}, "/value"),
            ({"in": "query", "name": "api_key", "value": "abc"}, "/value"),
            ({"in": "path", "name": "t", "value": "a"}, "/value"),
            ({"in": "query", "name": "t", "value": "a", "argument": "b"}, "/value"),
            ({"in": "query", "name": "t", "file": True}, ""),
            ({"in": "body", "name": "t", "headers": {"A": "b\r\nC: d"}}, "/headers"),
            ({"in": "header", "name": "Host"}, "/name"),
            ({"in": "header", "name": "A B"}, "/name"),
        ]
    ),
    (
        "http",
        {"url": URL, "parameters": [{"in": "header", "name": name} for name in ("A", "a")]},
        "/config/parameters/1",
    ),
]


@pytest.mark.parametrize(("kind", "config"), GOOD)
def test_good(kind: AnsweredBy, config: dict[str, Any]) -> None:
    check_config(kind, config)


@pytest.mark.parametrize(("kind", "config", "where"), BAD)
def test_bad(kind: AnsweredBy, config: dict[str, Any], where: str) -> None:
    with pytest.raises(BadTool) as caught:
        check_config(kind, config)
    assert caught.value.pointer == where
    assert len(str(caught.value)) > 20
