"""HTTP tools against a real server on loopback: what is sent, what comes back, what is refused."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from playground.core.tools import Tool, ToolResult
from playground.executors.executor import Invocation
from playground.executors.http import Http, keys_of
from playground.net.keys import DEFAULT_ORIGINS, Keys
from tests.net.tool_server import Server, http_response, serving

pytestmark = pytest.mark.anyio
SECRET = "s3cret/value+of the key"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)

KEYS_ELSEWHERE = [
    {"in": "query", "name": "key", "value": "${MY_API_KEY}"},
    {"in": "cookie", "name": "sid", "value": "${MY_API_KEY}"},
]


async def resolve_local(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


def invocation(config: dict[str, Any], arguments: str = "{}") -> Invocation:
    tool = Tool("t", answered_by="http", config={"private": True, **config})
    return Invocation(
        "s",
        call="1.0",
        attempt=1,
        tool=tool,
        arguments=arguments,
        timeout_s=5.0,
        max_output=100_000,
        folder=Path(),
        idempotency_key="key-1",
    )


async def run_tool(
    config: dict[str, Any],
    arguments: str,
    answer: bytes,
    environ: dict[str, str] | None = None,
    confirmed: bool = True,
) -> tuple[ToolResult, Server, list[tuple[str, float | None, str]]]:
    rows: list[tuple[str, float | None, str]] = []
    with anyio.fail_after(20):
        async with serving(answer) as server:
            url = f"http://tools.lan:{server.port}{config.pop('path', '/')}"
            call = invocation({"url": url, **config}, arguments)
            keys = Keys(environ or {})
            for name, place in keys_of(call.tool) if confirmed else ():
                if name not in DEFAULT_ORIGINS:
                    keys.confirm(name, place)
            http = Http(keys, resolve_local)
            result = await http.run(call, lambda *text: rows.append(text))
    return result, server, rows


async def test_a_key_that_nobody_has_let_go_there_stays() -> None:
    config = {"headers": {"Authorization": "Bearer ${TEAM_TOKEN}"}}
    environ = {"TEAM_TOKEN": SECRET}
    result, server, _ = await run_tool(config, "{}", http_response(b""), environ, confirmed=False)
    assert (result.is_error, server.seen) == (True, [])
    assert "it is not confirmed for http://tools.lan" in result.text


async def test_one_request_as_configured() -> None:
    config = {
        "path": "/users/{id}?tag={tag}",
        "method": "POST",
        "headers": {"Authorization": "Bearer ${TEAM_TOKEN}", "X-City": "{{ args.city }}"},
    }
    arguments = '{"id": "a/b", "city": "Oslo", "n": 1.50}'
    answer = http_response(b"done", "Content-Type: text/plain")
    result, server, rows = await run_tool(config, arguments, answer, {"TEAM_TOKEN": SECRET})
    assert (result.text, result.is_error, result.kind) == ("done", False, "")
    [request] = server.seen
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /users/a%2Fb HTTP/1.1\r\n")
    lines = {line.lower() for line in head.split(b"\r\n")}
    assert f"authorization: bearer {SECRET}".encode().lower() in lines
    assert {b"x-city: oslo", b"idempotency-key: key-1", b"content-type: application/json"} <= lines
    assert body == b'{"n": 1.50}'
    assert rows[0][0].startswith("POST http://tools.lan")
    assert rows[-1] == ("4 of 4 bytes received", 1.0, "")


@pytest.mark.parametrize(
    ("answer", "text", "media_type"),
    [
        (http_response(b'{"a": 1}', "Content-Type: application/json"), '{"a": 1}',
         "application/json"),
        (http_response(b"[1]", "Content-Type: application/ld+json; charset=utf-8"), "[1]",
         "application/json"),
        (http_response(b"{a", "Content-Type: application/json"), "{a", ""),
        (http_response(b"[" * 50_000, "Content-Type: application/json"), "[" * 50_000, ""),
        (http_response(b'{"a": 1}', "Content-Type: text/plain"), '{"a": 1}', ""),
        (http_response(b"plain"), "plain", ""),
        (http_response(b"\xef\xbb\xbfbom", "Content-Type: text/plain"), "bom", ""),
        (http_response(b"gr\xfc\xdfe", "Content-Type: text/plain; charset=iso-8859-1"), "grüße",
         ""),
        (http_response("ü".encode("utf-16"), "Content-Type: text/html; charset=UTF-16"), "ü", ""),
        (http_response(b"x", "Content-Type: text/plain; charset=zlib_codec"), "x", ""),
        (http_response(b"\xff\xfe", "Content-Type: text/plain; charset=nonsense"), "\ufffd\ufffd",
         ""),
        (http_response(gzip.compress(b"packed", mtime=0), "Content-Encoding: gzip"), "packed", ""),
        (http_response(b"%PDF-1.7", "Content-Type: application/pdf"),
         "8 bytes of application/pdf.", ""),
        (http_response(b"ab\0c"), "4 bytes of an unknown type.", ""),
        (http_response(b"notpng", "Content-Type: image/png"), "6 bytes of image/png.", ""),
        (http_response(b"", status="204 No Content"), "HTTP 204 No Content, without a body.", ""),
        (http_response(b""), "HTTP 200 OK, without a body.", ""),
    ],
)  # fmt: skip
async def test_result(answer: bytes, text: str, media_type: str) -> None:
    result, _, _ = await run_tool({}, "{}", answer)
    [piece] = result.content
    assert (piece.text, piece.media_type, result.is_error) == (text, media_type, False)


async def test_an_image() -> None:
    result, _, _ = await run_tool(
        {}, "{}", http_response(PNG, "Content-Type: application/octet-stream")
    )
    [piece] = result.content
    assert (piece.type, piece.media_type) == ("image", "image/png")
    assert base64.b64decode(piece.data) == PNG


@pytest.mark.parametrize(
    ("answer", "messages"),
    [
        (http_response(b"no such user", status="404 Not Found"), ["HTTP 404 Not Found",
         "no such user"]),
        (http_response(b'{"e": 1}', "Content-Type: application/json", status="500 Oops"),
         ['{"e": 1}']),
        (http_response(b"", "Location: http://127.0.0.1/x", status="302 Found"),
         ["HTTP 302 Found: it points to http://127.0.0.1/x, which was not followed."]),
        (http_response(b"", status="304 Not Modified"), ["HTTP 304"]),
        (b"junk\r\n\r\n", ["sent invalid HTTP"]),
    ],
)  # fmt: skip
async def test_an_error_is_a_result(answer: bytes, messages: list[str]) -> None:
    result, _, _ = await run_tool({}, "{}", answer)
    assert (result.is_error, result.kind) == (True, "failed")
    assert all(piece in result.text for piece in messages)


async def test_head_tells_the_headers() -> None:
    result, _, _ = await run_tool({"method": "HEAD"}, "{}", http_response(b"", "X-Count: 7"))
    assert "HTTP 200 OK\nx-count: 7" in result.text


async def test_too_large() -> None:
    result, _, _ = await run_tool({}, "{}", http_response(b"x" * 100_001))
    assert (result.is_error, result.kind) == (True, "too_large")


async def test_a_key_is_masked_wherever_it_comes_back() -> None:
    echo = json.dumps({"you sent": SECRET, "escaped": "SLASHED"})
    echo = echo.replace("SLASHED", SECRET.replace("/", "\\/"))
    answer = http_response(echo.encode(), "Content-Type: application/json", f"Location: /{SECRET}",
                      status="302 Found")  # fmt: skip
    config = {"headers": {"X-Api-Key": "${MY_API_KEY}"}}
    keys = {"MY_API_KEY": SECRET}
    result, server, rows = await run_tool(config, "{}", answer, keys)
    assert SECRET.encode() in server.seen[0]
    assert "s3cret" not in str(result) + str(rows)
    assert "you sent" in result.text


async def test_a_key_in_query_and_cookie_is_sent_and_masked() -> None:
    config = {"path": "/x?a=1", "parameters": KEYS_ELSEWHERE}
    encoded = quote(SECRET, safe="")
    answer = http_response(encoded.encode(), f"Location: /?key={encoded}", status="302 Found")
    result, server, rows = await run_tool(config, "{}", answer, {"MY_API_KEY": SECRET})
    [request] = server.seen
    assert request.startswith(f"GET /x?a=1&key={encoded} HTTP/1.1\r\n".encode())
    assert f"Cookie: sid={SECRET}\r\n".encode() in request
    assert "s3cret" not in str(result) + str(rows)
    assert rows[0][0].endswith("/x?a=1&key=${MY_API_KEY}")


async def test_a_key_in_the_query_stays_where_nobody_has_let_it_go() -> None:
    config = {"parameters": KEYS_ELSEWHERE[:1]}
    environ = {"MY_API_KEY": SECRET}
    result, server, _ = await run_tool(config, "{}", http_response(b""), environ, confirmed=False)
    assert (result.is_error, server.seen) == (True, [])
    assert "s3cret" not in str(result)


@pytest.mark.parametrize(
    ("variable", "environ", "message"),
    [
        ("GONE_KEY", {}, "GONE_KEY is not set"),
        ("OPENAI_API_KEY", {"OPENAI_API_KEY": SECRET}, "does not belong to http://tools.lan"),
        ("MY_KEY", {"MY_KEY": "a\nEvil: 1"}, "not one line of plain text"),
        ("MY_KEY", {"MY_KEY": "clé secrète"}, "not one line of plain text"),
    ],
)
async def test_a_key_that_is_not_sent(variable: str, environ: dict[str, str], message: str) -> None:
    config = {"headers": {"X": f"${{{variable}}}"}}
    result, server, _ = await run_tool(config, "{}", http_response(b""), environ)
    assert (result.is_error, message in result.text, server.seen) == (True, True, [])


async def test_ssrf_is_refused_before_it_is_contacted() -> None:
    async with serving(http_response(b"secret")) as server:
        port = server.port
        for config in (
            {"url": f"http://127.0.0.1:{port}/", "private": False},
            {"url": f"http://tools.example:{port}/", "private": False},
            {"url": f"http://tools.example:{port}/", "hosts": ["api.example"]},
            {"url": f"http://0x7f.1:{port}/"},
            {"url": f"http://tools.example:{port}/files/{{x}}"},
        ):
            call = invocation(config, '{"x": ".."}')
            result = await Http(Keys({}), resolve_local).run(call, lambda *_: None)
            assert (result.is_error, result.kind) == (True, "failed"), config
            assert result.text
    assert server.seen == []


async def test_what_is_checked() -> None:
    tool = replace(Tool("t", answered_by="http"), parallel_safe=True)
    checked = await Http(Keys({})).check_before_run("s", tool, "{}")
    assert (checked.code, checked.problems, checked.parallel_safe) == ("", (), True)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        ('{"t": ["a", "b"], "sid": "1"}',
         "Sends GET https://a.example/x?t=a,b&key=${MY_API_KEY}, with the header Cookie: sid=1"),
        ('{"t": [], "sid": "é\u2028"}', "Sends GET https://a.example/x?key=${MY_API_KEY}, "
         "with the header Cookie: sid=%C3%A9%E2%80%A8"),
        ('{"t": ["a|b", "c"], "p": ["a|b", "c"]}', "This call would fail: 'a|b' is one of"),
        ("{", "The request is built when the arguments are valid."),
    ],
)  # fmt: skip
async def test_the_card_has_the_request_of_styled_parameters(arguments: str, note: str) -> None:
    parameters = [
        {"in": "query", "name": "t", "explode": False},
        {"in": "query", "name": "p", "style": "pipeDelimited"},
        {"in": "cookie", "name": "sid"},
        KEYS_ELSEWHERE[0],
    ]
    config = {"url": "https://a.example/x", "parameters": parameters}
    tool = Tool("t", answered_by="http", config=config)
    [problem] = (
        await Http(Keys({"MY_API_KEY": SECRET})).check_before_run("s", tool, arguments)
    ).problems
    assert problem.kind == "note"
    assert problem.message.startswith(note)
