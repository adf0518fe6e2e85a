"""What goes out: headers on every answer, errors in the asker's form, failures with an id."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from playground.web.guard import Guard
from tests.web.asking import (
    BEARER,
    COOKIE,
    HERE,
    JSON,
    OWN,
    PAGE,
    PORT,
    TOKEN,
    Header,
    Told,
    ask,
    call,
    scope_of,
)

pytestmark = pytest.mark.anyio

# --- what goes out --------------------------------------------------------------------------

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ISOLATED = "sandbox; default-src 'none'"
EVERY_KIND = [
    ("GET", "/x", [COOKIE]), ("POST", "/x", [BEARER]), ("GET", "/", []), ("GET", "/healthz", []),
    ("GET", "/static/x", []), ("PUT", "/x", []), ("POST", "/x", [("origin", "null")]),
    ("GET", f"/?token={TOKEN}", []), ("POST", "/sim/x", [("x-api-key", TOKEN)]),
    ("GET", "/x", [("x", "y" * 40_000)]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "target", "headers"), EVERY_KIND)
async def test_every_answer_carries_the_headers(
    method: str, target: str, headers: list[Header]
) -> None:
    """What is no page is isolated."""
    output = await ask(method, target, *headers)
    assert output.header("content-security-policy") == policy_of(output, target)
    assert output.header("x-content-type-options") == "nosniff"
    assert output.header("x-frame-options") == "DENY"
    assert output.header("cross-origin-opener-policy") == "same-origin"
    assert output.header("cross-origin-resource-policy") == "same-origin"
    assert output.header("referrer-policy") == "no-referrer"
    static = target.startswith("/static/")
    assert output.header("cache-control") == (None if static else "no-store")
    assert not any(name.startswith("access-control-") for name, _ in output.headers)


def policy_of(output: Told, target: str) -> str:
    if target.startswith("/sim/"):
        return ISOLATED
    page = "text/html" in (output.header("content-type") or "") or target.startswith("/static/")
    return CSP if page else f"{ISOLATED}; frame-ancestors 'none'"


async def test_the_app_cannot_weaken_the_headers() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            "Content-Security-Policy": "default-src *",
            "Cache-Control": "max-age=9",
            "Access-Control-Allow-Origin": "*",
            "X-Kept": "yes",
        }
        await HTMLResponse("x", headers=headers)(scope, receive, send)

    guard = Guard(app, token=TOKEN, port=lambda: PORT)
    output = await call(guard, scope_of("GET", "/x", [("host", HERE), COOKIE]))
    assert output.header("content-security-policy") == CSP
    assert output.header("cache-control") == "no-store"
    assert output.header("access-control-allow-origin") is None
    assert output.header("x-kept") == "yes"
    static = await call(guard, scope_of("GET", "/static/x", [("host", HERE)]))
    assert static.header("cache-control") == "max-age=9"


async def test_errors_speak_the_language_of_who_asked() -> None:
    output = await ask("GET", "/x", PAGE)
    assert output.header("content-type") == "text/html; charset=utf-8"
    assert b"<!doctype html>" in output.body
    assert b"style=" not in output.body
    assert b"<script" not in output.body
    for headers in ([JSON], [("authorization", "Bearer no")], [("content-type", JSON[1])]):
        output = await ask("GET", "/x", *headers)
        assert output.header("content-type") == "application/json; charset=utf-8"
        assert "Bearer TOKEN" in json.loads(output.body)["error"]
    assert "error" in json.loads((await ask("POST", "/sim/x")).body)
    fragment = await ask("GET", "/x", ("hx-request", "true"))
    assert fragment.body.startswith(b"<p ")
    head = await ask("HEAD", "/x", PAGE)
    assert (head.status, head.body) == (401, b"")


# --- what goes wrong inside (threats 28, 29) ------------------------------------------------


def failing(error: Exception) -> Guard:
    async def fail(request: Request) -> Response:
        raise error

    async def break_off(request: Request) -> Response:
        async def pieces() -> Any:
            yield "first"
            raise error

        return StreamingResponse(pieces())

    async def own(request: Request) -> Response:
        return PlainTextResponse("the page's own", 500)

    routes = [Route("/fail", fail), Route("/break", break_off), Route("/own", own)]
    app = Starlette(routes=[*routes, Mount("/sim", routes=[Route("/fail", fail)])])
    mask = lambda text: text.replace("hunter2", "*******")  # noqa: E731
    return Guard(app, token=TOKEN, port=lambda: PORT, mask=mask)


async def test_an_exception_gives_a_page_with_an_id_and_a_masked_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = failing(ValueError("secret hunter2\n\x1b[31mforged"))
    with caplog.at_level(logging.ERROR, "playground"):
        page = await call(guard, scope_of("GET", "/fail", [("host", HERE), COOKIE]))
        data = await call(guard, scope_of("GET", "/fail", [("host", HERE), BEARER]))
    output = json.loads(data.body)
    assert page.status == data.status == 500
    assert page.header("content-security-policy") == CSP
    assert b"forged" not in page.body + data.body
    assert b"test_guard" not in page.body + data.body
    first, second = (record.getMessage() for record in caplog.records)
    assert output["id"] in second
    assert output["id"] in output["error"]
    assert output["id"] not in first
    assert "secret *******\\u000a\\u001b[31mforged" in first
    assert "\n" not in first
    assert "Traceback" in first
    assert "GET /fail" in first


async def test_an_exception_in_mid_stream_ends_the_answer_unfinished(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {**scope_of("GET", "/break", [("host", HERE), COOKIE]), "asgi": {"spec_version": "2.4"}}
    await failing(ValueError("x"))(scope, receive, send)
    assert [data.get("status") for data in sent] == [200, None]
    assert sent[-1]["more_body"] is True
    assert len(caplog.records) == 1


async def test_a_500_of_the_pages_own_is_passed_on() -> None:
    output = await call(failing(ValueError()), scope_of("GET", "/own", [("host", HERE), COOKIE]))
    assert (output.status, output.body) == (500, b"the page's own")


async def test_a_person_who_left_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise ClientDisconnect

    guard = Guard(app, token=None, port=lambda: PORT)

    async def send(message: Message) -> None:
        raise AssertionError(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    await guard(scope_of("GET", "/x", [("host", HERE)]), receive, send)
    assert caplog.records == []


async def test_websockets_are_refused_and_the_lifespan_goes_in() -> None:
    messages: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        messages.append(scope["type"])

    async def send(message: Message) -> None:
        messages.append(message["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    guard = Guard(app, token=TOKEN, port=lambda: PORT)
    socket = {**scope_of("GET", "/x", [("host", HERE), COOKIE, OWN]), "type": "websocket"}
    await guard(socket, receive, send)
    assert messages == ["websocket.close"]
    await guard({"type": "lifespan"}, receive, send)
    assert messages == ["websocket.close", "lifespan"]
