"""The request that a call becomes: no argument reaches further than its own place."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playground.core.errors import BadInput
from playground.executors.http import request_of

BASE = "https://api.example.com"

EXACT = '{"n": 0.10, "big": 12345678901234567890.0}'


def url_of(template: str, arguments: Any, method: str = "GET") -> str:
    url = request_of({"url": BASE + template, "method": method}, json.dumps(arguments)).url
    assert url.startswith(BASE)
    return url[len(BASE) :]


@pytest.mark.parametrize(
    ("template", "arguments", "url"),
    [
        ("", {}, ""),
        ("/a/{x}/b", {"x": "é ü"}, "/a/%C3%A9%20%C3%BC/b"),
        ("/a/{x}", {"x": "b/c?d#e%2f"}, "/a/b%2Fc%3Fd%23e%252f"),
        ("/a/{x}.json", {"x": ".."}, "/a/...json"),
        ("/a/{x}", {"x": "a.b"}, "/a/a.b"),
        ("/a/{x}", {"x": "..."}, "/a/..."),
        ("/a/{n}/{on}", {"n": 1.5, "on": True}, "/a/1.5/true"),
        ("/a/{user.id}", {"user": {"id": 7}}, "/a/7"),
        ("/a/{user.id}", {"user.id": 8}, "/a/8"),
        ("/a?x={x}&y={y}&z=1", {"x": "&=+ ", "y": "ü"}, "/a?x=%26%3D%2B%20&y=%C3%BC&z=1"),
        ("/a?x={x}&y={y}&z=1", {"y": 1}, "/a?y=1&z=1"),
        ("/a?x={x}", {}, "/a"),
        ("/a?x={x}", {"x": None}, "/a"),
        ("?x={x}", {"x": ["a", "b/c"]}, "?x=a&x=b%2Fc"),
        ("/a?x={x}", {"x": []}, "/a"),
        ("/a?x={x}", {"x": {"a": 1}}, "/a?x=%7B%22a%22%3A%201%7D"),
        ("/a?q=from:{x}&at={x},{y}", {"x": "1", "y": "2"}, "/a?q=from:1&at=1,2"),
        ("/a?at={x},{y}", {"x": "1"}, "/a"),
        ("/a", {"x": 1, "b&c": "d=e", "gone": None}, "/a?x=1&b%26c=d%3De"),
        ("/a/{x}?k=1", {"x": 1, "y": 2}, "/a/1?k=1&y=2"),
    ],
)
def test_url(template: str, arguments: Any, url: str) -> None:
    assert url_of(template, arguments) == url


@pytest.mark.parametrize(
    "value",
    [
        *("..", ".", "", "a/../b", "../../admin", "..\\..\\x", "%2e%2e", "%2E%2E%2fx", ".%2e"),
        *("%252e%252e", "..;/x", "x/..", "a/./b", "a;/../b", "a;x/..;y/b", "%" + "25" * 30 + "2e"),
    ],
)
def test_a_step_out_of_the_path_is_refused(value: str) -> None:
    with pytest.raises(BadInput, match="Nothing was sent"):
        url_of("/files/{x}/content", {"x": value})


@pytest.mark.parametrize("arguments", [{}, {"x": None}, {"y": 1}])
def test_the_path_needs_its_arguments(arguments: Any) -> None:
    with pytest.raises(BadInput, match="needs the argument 'x'"):
        url_of("/a/{x}", arguments)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_value_stays_in_its_place(value: str) -> None:
    template = f"{BASE}/a/{{x}}/b?q={{x}}&z=1"
    try:
        url = request_of({"url": template}, json.dumps({"x": value})).url
    except BadInput:
        assert value == "" or "." in unquote(unquote(unquote(value)))
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("https", "api.example.com", "")
    [empty, a, step, b] = parts.path.split("/")
    assert (empty, a, unquote(step), b) == ("", "a", value, "b")
    [q, z] = parts.query.split("&")
    assert (unquote(q.removeprefix("q=")), z) == (value, "z=1")


@pytest.mark.parametrize(
    ("config", "arguments", "body", "kind"),
    [
        ({"method": "POST"}, EXACT, EXACT, "application/json"),
        ({"method": "POST", "body": "none"}, EXACT, "", ""),
        ({"method": "POST", "body": None}, EXACT, "", ""),
        ({"method": "DELETE"}, "{}", "", ""),
        ({"method": "DELETE", "body": "json"}, '{"a": 1}', '{"a": 1}', "application/json"),
        ({"url": BASE + "/{id}?v={v}", "method": "PUT"}, '{"id": 1, "v": 2, "x": 3}',
         '{"x": 3}', "application/json"),
        ({"method": "POST", "headers": {"X": "{{ args.a }}"}}, '{"a": "1", "b": 2}',
         '{"b": 2}', "application/json"),
        ({"method": "POST",
          "body": {"q": "{{ args.q }}", "n": "{{ args.n }}", "s": "a {{ args.q }}"}},
         '{"q": [1.0]}', '{"q": [1.0], "s": "a [1.0]"}', "application/json"),
        ({"method": "POST", "body": ["{{ args }}"]}, '{"q": 1}', '[{"q": 1}]', "application/json"),
        ({"method": "POST", "body": "form"}, '{"a": "x y&z", "b": [1, 2], "c": null}',
         "a=x+y%26z&b=1&b=2", "application/x-www-form-urlencoded"),
        ({"method": "POST", "body": "<q>{{ args.q }}</q>"}, '{"q": "é"}', "<q>é</q>",
         "text/plain; charset=utf-8"),
        ({"method": "POST", "body": "{{ args.q }}", "headers": {"content-type": "a/b"}},
         '{"q": "x"}', "x", "a/b"),
    ],
)  # fmt: skip
def test_body(config: dict[str, Any], arguments: str, body: str, kind: str) -> None:
    request = request_of({"url": BASE, **config}, arguments)
    assert request.body == body.encode()
    kinds = {"".join(v) for name, v in request.headers.items() if name.lower() == "content-type"}
    assert kinds == ({kind} if kind else set())
    assert "?" not in request.url or "url" in config


@pytest.mark.parametrize(
    ("template", "pieces"),
    [
        ("plain", ("plain",)),
        ("Bearer ${MY_KEY}", ("Bearer ", "MY_KEY", "")),
        ("${A_KEY}:{{ args.x }}:${B_KEY}.", ("", "A_KEY", ":${C_KEY}:", "B_KEY", ".")),
        ("{{ args.x }}", ("${C_KEY}",)),
        ("{{ args.n }}/{{ args.x }}", ("1.50/${C_KEY}",)),
    ],
)
def test_an_argument_names_no_key(template: str, pieces: tuple[str, ...]) -> None:
    config = {"url": BASE, "headers": {"X": template}}
    assert request_of(config, '{"x": "${C_KEY}", "n": 1.50}').headers["X"] == pieces


@pytest.mark.parametrize("template", ["{{ args.gone }}", "a {{ args.none }}"])
def test_a_header_without_its_argument_is_left_out(template: str) -> None:
    config = {"url": BASE, "headers": {"X": template}}
    assert "X" not in request_of(config, '{"none": null}').headers


@pytest.mark.parametrize("value", ["a\r\nEvil: 1", "a\nb", "a\0", "é", "\u2028"])
def test_a_header_stays_on_its_line(value: str) -> None:
    config = {"url": BASE, "headers": {"X": "{{ args.x }}"}}
    with pytest.raises(BadInput, match="header X"):
        request_of(config, json.dumps({"x": value}))


@pytest.mark.parametrize(
    ("method", "headers", "sent"),
    [
        *((method, {}, ("k1",)) for method in ("POST", "PUT", "PATCH", "DELETE")),
        *((method, {}, None) for method in ("GET", "HEAD", "OPTIONS")),
        ("POST", {"idempotency-key": "own"}, None),
    ],
)
def test_idempotency_key(method: str, headers: dict[str, str], sent: Any) -> None:
    request = request_of({"url": BASE, "method": method, "headers": headers}, "{}", "k1")
    assert request.headers.get("Idempotency-Key") == sent
