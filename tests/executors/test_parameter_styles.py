"""OpenAPI's styles on the wire: the specification's own table of examples, and what is encoded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.errors import BadInput
from playground.executors.http import request_of
from playground.executors.parameter_styles import write_value

BASE = "https://api.example.com"
LIST = ["blue", "black", "brown"]
OBJECT = {"R": "100", "G": "200", "B": "150"}

TABLE = [
    # https://spec.openapis.org/oas/v3.2.0#style-examples: style, explode, and the values of
    # "", "blue", LIST, OBJECT; None: the specification has none.
    ("matrix", False, ";color", ";color=blue", ";color=blue,black,brown",
     ";color=R,100,G,200,B,150"),
    ("matrix", True, ";color", ";color=blue", ";color=blue;color=black;color=brown",
     ";R=100;G=200;B=150"),
    ("label", False, ".", ".blue", ".blue,black,brown", ".R,100,G,200,B,150"),
    ("label", True, ".", ".blue", ".blue.black.brown", ".R=100.G=200.B=150"),
    ("simple", False, "", "blue", "blue,black,brown", "R,100,G,200,B,150"),
    ("simple", True, "", "blue", "blue,black,brown", "R=100,G=200,B=150"),
    ("form", False, "color=", "color=blue", "color=blue,black,brown", "color=R,100,G,200,B,150"),
    ("form", True, "color=", "color=blue", "color=blue&color=black&color=brown",
     "R=100&G=200&B=150"),
    ("spaceDelimited", False, None, None, "color=blue%20black%20brown",
     "color=R%20100%20G%20200%20B%20150"),
    ("pipeDelimited", False, None, None, "color=blue%7Cblack%7Cbrown",
     "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("deepObject", True, None, None, None, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ("cookie", False, "color=", "color=blue", "color=blue,black,brown",
     "color=R,100,G,200,B,150"),
    ("cookie", True, "color=", "color=blue", "color=blue; color=black; color=brown",
     "R=100; G=200; B=150"),
]  # fmt: skip

QUERY: dict[str, Any] = {"in": "query"}
CSV = {**QUERY, "explode": False}
PATH: dict[str, Any] = {"in": "path"}
DEEP = {**QUERY, "style": "deepObject"}
RESERVED = {**QUERY, "allow_reserved": True}
CONTENT = {**QUERY, "content_type": "application/json"}


@pytest.mark.parametrize(("style", "explode", "empty", "text", "array", "members"), TABLE)
def test_each_style_writes_what_the_specification_shows(
    style: str, explode: bool, empty: Any, text: Any, array: Any, members: Any
) -> None:
    safe = None if style == "cookie" else ""
    rows = [("", empty), ("blue", text), (LIST, array), (OBJECT, members)]
    for value, expected in rows:
        if expected is not None:
            assert write_value(style, explode, "color", value, safe) == expected


def url_of(parameter: dict[str, Any], value: Any, path: str = "/x") -> str:
    config = {"url": BASE + path, "parameters": [{"name": "t", **parameter}]}
    return request_of(config, json.dumps({"t": value})).url.removeprefix(BASE)


@pytest.mark.parametrize(
    ("parameter", "value", "url"),
    [
        (CSV, ["a,b", "c&d"], "/x?t=a%2Cb,c%26d"),
        (CSV, [], "/x"),
        (CSV, [None, "a"], "/x?t=a"),
        (CSV, "a,b", "/x?t=a%2Cb"),
        (CSV, {}, "/x"),
        (QUERY, {"a b": 1.50, "c": None, "d": True}, "/x?a%20b=1.5&d=true"),
        (QUERY, [["a"], {"b": 1}], "/x?t=%5B%22a%22%5D&t=%7B%22b%22%3A%201%7D"),
        ({**QUERY, "style": "pipeDelimited"}, ["a b", "c"], "/x?t=a%20b%7Cc"),
        ({**QUERY, "style": "pipeDelimited", "explode": True}, ["a", "b"], "/x?t=a&t=b"),
        ({**QUERY, "style": "tabDelimited"}, ["a", "b"], "/x?t=a%09b"),
        (DEEP, {"a": {"b": [1, {"c": 2}]}}, "/x?t%5Ba%5D%5Bb%5D%5B0%5D=1"
         "&t%5Ba%5D%5Bb%5D%5B1%5D%5Bc%5D=2"),
        (DEEP, ["a", "b"], "/x?t%5B0%5D=a&t%5B1%5D=b"),
        (DEEP, {}, "/x"),
        (RESERVED, "a/b?c:d@e&f#g+h i%2Fj%k", "/x?t=a/b?c:d@e%26f%23g%2Bh%20i%2Fj%25k"),
        ({**RESERVED, "explode": False}, ["a/b,c", "d"], "/x?t=a/b%2Cc,d"),
        (CONTENT, "a", "/x?t=%22a%22"),
        (CONTENT, {"a": [1]}, "/x?t=%7B%22a%22%3A%20%5B1%5D%7D"),
        ({**QUERY, "content_type": "text/plain"}, "a", "/x?t=a"),
        ({"in": "querystring", "content_type": "application/x-www-form-urlencoded"},
         {"a": ["1", "2"], "b": "c d"}, "/x?a=1&a=2&b=c+d"),
        ({"in": "querystring", "content_type": "application/json"}, {"a": 1},
         "/x?%7B%22a%22%3A%201%7D"),
    ],
)  # fmt: skip
def test_query(parameter: dict[str, Any], value: Any, url: str) -> None:
    assert url_of(parameter, value) == url


@pytest.mark.parametrize(
    ("parameter", "value", "url"),
    [
        (PATH, ["1,2", "a/b"], "/x/1%2C2,a%2Fb"),
        ({**PATH, "style": "label"}, ["a", "b"], "/x/.a,b"),
        ({**PATH, "style": "matrix"}, ["a", "b"], "/x/;t=a,b"),
        ({**PATH, "style": "matrix", "explode": True}, {"a": "1;2"}, "/x/;a=1%3B2"),
        ({**PATH, "style": "pipeDelimited"}, ["a", "b"], "/x/a%7Cb"),
        ({**PATH, "allow_reserved": True}, "a:b@c/d?e;f", "/x/a:b@c%2Fd%3Fe%3Bf"),
        ({**PATH, "content_type": "application/json"}, ["a"], "/x/%5B%22a%22%5D"),
    ],
)
def test_path(parameter: dict[str, Any], value: Any, url: str) -> None:
    assert url_of(parameter, value, "/x/{t}") == url


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (PATH, []),
        (PATH, ".."),
        ({**PATH, "style": "label"}, ""),
        ({**PATH, "style": "label"}, "."),
        ({**PATH, "style": "label", "explode": True}, ["1.5", "2"]),
        ({**PATH, "allow_reserved": True}, "%2e%2e"),
        ({**PATH, "allow_reserved": True}, "a%2F..%2Fb"),
    ],
)
def test_a_path_that_the_value_would_change_is_refused(
    parameter: dict[str, Any], value: Any
) -> None:
    with pytest.raises(BadInput, match="Nothing was sent"):
        url_of(parameter, value, "/x/{t}")


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ({**QUERY, "style": "spaceDelimited"}, ["New York", "Oslo"]),
        ({**QUERY, "style": "pipeDelimited"}, ["a|b", "c"]),
        ({"in": "header"}, ["a,b", "c"]),
        ({"in": "cookie", "style": "cookie"}, "a;b"),
        ({"in": "cookie", "style": "cookie"}, {"a": "b; c=d"}),
        ({"in": "header"}, "é"),
        ({"in": "header"}, "a\r\nEvil: 1"),
        ({"in": "cookie", "style": "cookie"}, "a\nb"),
    ],
)
def test_a_value_with_its_own_separator_is_refused(parameter: dict[str, Any], value: Any) -> None:
    with pytest.raises(BadInput):
        url_of(parameter, value)


@pytest.mark.parametrize(
    ("parameters", "arguments", "headers"),
    [
        ([{"in": "header", "name": "X-Ids"}], {"X-Ids": [1, 2]}, {"X-Ids": ("1,2",)}),
        ([{"in": "header", "name": "X-O", "explode": True, "argument": "o"}], {"o": {"a": 1}},
         {"X-O": ("a=1",)}),
        ([{"in": "header", "name": "X-Ids", "style": "pipeDelimited"}], {"X-Ids": [1, 2]},
         {"X-Ids": ("1|2",)}),
        ([{"in": "cookie", "name": "sid"}, {"in": "cookie", "name": "t"}],
         {"sid": "1 2", "t": ["a", "b"]}, {"Cookie": ("sid=1%202; t=a; t=b",)}),
        ([{"in": "cookie", "name": "sid", "style": "cookie"}], {"sid": "a b"},
         {"Cookie": ("sid=a b",)}),
        ([{"in": "header", "name": "X-J", "content_type": "application/json"}],
         {"X-J": {"a": "é😀"}}, {"X-J": ('{"a": "\\u00e9\\ud83d\\ude00"}',)}),
        ([{"in": "cookie", "name": "sid"}], {"sid": None}, {}),
        ([{"in": "cookie", "name": "sid", "value": "${SID_KEY}"}, {"in": "cookie", "name": "t"}],
         {"t": "${OTHER_KEY}"}, {"Cookie": ("sid=", "SID_KEY", "; t=%24%7BOTHER_KEY%7D")}),
    ],
)  # fmt: skip
def test_headers_and_cookies(parameters: Any, arguments: Any, headers: Any) -> None:
    request = request_of({"url": BASE, "parameters": parameters}, json.dumps(arguments))
    assert dict(request.headers) == headers
    assert request.url == BASE


def test_cookies_are_added_to_those_of_a_header() -> None:
    config = {
        "url": BASE,
        "headers": {"cookie": "a=1"},
        "parameters": [{"in": "cookie", "name": "sid"}],
    }
    assert request_of(config, '{"sid": "2"}').headers == {"cookie": ("a=1; sid=2",)}


def test_an_argument_names_no_key_in_the_url() -> None:
    config = {
        "url": f"{BASE}/x?q={{q}}",
        "parameters": [
            {"in": "query", "name": "key", "value": "${A_KEY}"},
            {"in": "query", "name": "r", "allow_reserved": True},
        ],
    }
    url = request_of(config, '{"q": "${B_KEY}", "r": "${C_KEY}"}').url
    assert url == f"{BASE}/x?q=%24%7BB_KEY%7D&key=${{A_KEY}}&r=$%7BC_KEY%7D"
