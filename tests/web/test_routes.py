"""An inventory of the routes: whoever adds one cannot forget a check.

Threat 34 of docs/safety.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import FormData, UploadFile
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route

from playground.core.errors import BadInput
from playground.engine.engine import Engine
from playground.tap.door import Door
from playground.web.app import _routes, body_limit, make_app
from playground.web.forms import CloseForms, body_of
from playground.web.guard import MAX_BODY, SMALL_BODY, Guard
from tests.engines import create_session
from tests.web.asking import (
    BEARER,
    COOKIE,
    HERE,
    JSON,
    OWN,
    PORT,
    SAME,
    TOKEN,
    Header,
    ask,
    call,
    scope_of,
)

pytestmark = pytest.mark.anyio

OPEN = {"/static"}
"""What answers without a credential, and changes nothing."""

STREAMS = re.compile(r"/stream$")
CROSS: tuple[tuple[Header, ...], ...] = (
    (COOKIE, ("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")),
    (COOKIE, ("origin", "http://127.0.0.1:9999"), ("sec-fetch-site", "same-site")),
    (COOKIE, ("origin", "null")),
    (COOKIE,),
)

LARGE = {
    "/batches",
    "/sessions",
    "/sessions/import",
    *(f"/sessions/{{id}}/{name}" for name in ("prompts", "request", "settings", "fork")),
    "/sessions/{id}/decisions",
    *(
        f"/sessions/{{id}}/calls/{{call}}/{name}"
        for name in ("decision", "result", "draft", "check", "always")
    ),
    *("/compare", "/compare/prompts", "/import", "/import/take", "/import/read"),
    *("/tools", "/tools/try", "/tools/faces", "/tools/lint"),
}
"""What docs/contract.md says takes tools, files, images, prompts, arguments or answers."""


def inventory(app: Starlette, session_id: str) -> Iterator[tuple[str, str]]:
    """(method, path) of every route, with places filled in."""
    places = {
        "id": session_id,
        "call": "1.1",
        "turn": "1",
        "name": "calculator",
        "block": "head",
        "number": "1",
        "place": "0",
        "task": "task-1-0",
        "rule": "0123",
    }
    for route in app.routes:
        match route:
            case Route():
                path, methods = route.path, route.methods
                filled = re.sub(r"\{(\w+)(:\w+)?\}", lambda matches: places[matches[1]], path)
                yield from ((method, filled) for method in sorted(methods or ()))
            case Mount(path=path):
                yield from (("GET", path + "/x"), ("POST", path + "/x"))
            case _:
                raise AssertionError(f"no route that is known: {route}")


async def silent(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("The simulator was reached.")


async def test_every_route_has_every_check(engine: Engine) -> None:
    session_id = await create_session(engine, ["calculator"])
    door, site = make_app(engine, token=TOKEN, port=lambda: PORT, simulator=silent)
    assert isinstance(door, Door)
    guard = door._inside
    assert isinstance(guard, Guard)
    app = guard._app
    assert isinstance(app, Starlette)
    site.close()  # streams end at once
    routes = list(inventory(app, session_id))
    assert len(routes) > 40
    before = await engine.database.rows("SELECT count(*) FROM events")
    failures: list[tuple[object, ...]] = []

    async def status(method: str, path: str, *headers: Header, host: str = HERE) -> int:
        answer = await call(door, scope_of(method, path, [("host", host), *headers]))
        return answer.status

    for method, path in routes:
        free = path.startswith("/static") and method != "POST"
        for credential in ((), (("authorization", "Bearer wrong"),)):
            count = await status(method, path, OWN, SAME, *credential)
            if count != 401 and not free:
                failures.append((method, path, "no credential", count))
        for host in ("evil.example", "127.0.0.1:80", f"evil.example@{HERE}"):
            if await status(method, path, BEARER, host=host) not in (400, 421):
                failures.append((method, path, "host", host))
        for headers in CROSS:
            count = await status(method, path, *headers)
            safe = method in ("GET", "HEAD")
            keyless = path.startswith("/sim/") and count == 401  # its key is no cookie
            if not safe and not keyless and count != 403:
                failures.append((method, path, "cross-site", headers, count))
    assert failures == []
    assert await engine.database.rows("SELECT count(*) FROM events") == before
    # The same routes do answer whoever may ask, so that the checks above meant something.
    for method, path in routes:
        if not path.startswith(("/sim", "/static")):
            assert await status(method, path, BEARER, JSON) not in (401, 403, 421, 500), path


def app_routes() -> list[BaseRoute]:
    """The routes, and the simulator's mount."""
    return [*_routes(), Mount("/sim", silent, max_body_size=MAX_BODY)]


async def test_body_limit_when_a_route_needs_large_bodies_is_the_large_one() -> None:
    """A body is refused by the length that it declares, and by what is sent."""
    routes = app_routes()
    limits = partial(body_limit, routes)
    paths = {
        route.path
        for route in routes
        if isinstance(route, Route) and "POST" in (route.methods or ())
    }
    assert paths >= LARGE
    for path in (*paths, "/sim/openai/v1/chat/completions", "/nowhere", "/sim"):
        large = path in LARGE or path.startswith("/sim/")
        most = MAX_BODY if large else SMALL_BODY
        filled = re.sub(r"\{\w+\}", "a-name", path).replace("{number:number}", "1")
        assert limits(scope_of("POST", filled, [])) == most, path
        for size, refused in ((most, False), (most + 1, True)):
            declared = await ask(
                "POST", filled, BEARER, ("content-length", str(size)), body_limit=limits
            )
            assert (declared.status == 413) is refused, path
            assert (f"{most >> 20} MiB".encode() in declared.body) is refused
    for size, refused in ((SMALL_BODY, False), (SMALL_BODY + 1, True)):
        sent = await ask(
            "POST", "/keys", BEARER, body=[bytes(size - 9), bytes(9)], body_limit=limits
        )
        assert (sent.status == 413) is refused


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "+1", "\u0661", "9" * 16, "9" * 5_000])
def test_route_when_the_path_has_no_number_does_not_match(text: str) -> None:
    for path in ("/sessions/s/recordings/N", "/sessions/s/cards/N", "/tools/t/versions/N/restore"):
        scope = {"type": "http", "method": "GET", "path": path.replace("N", text)}
        assert [route for route in _routes() if route.matches(scope)[0] is not Match.NONE] == []
        scope["path"] = path.replace("N", "12")
        assert [route for route in _routes() if route.matches(scope)[0] is not Match.NONE] != []


async def test_the_inventory_sees_a_new_route() -> None:
    app = Starlette(routes=[Route("/new/{id}", silent, methods=["POST"])])
    assert list(inventory(app, "s")) == [("POST", "/new/s")]


def test_no_name_of_a_tool_or_server_is_an_address_of_the_program() -> None:
    routes = _routes()
    accepted_names = {
        step for route in routes for step in route.path.split("/") if step and "{" not in step
    }
    assert {"try", "lint", "faces", "import", "export"} <= accepted_names
    for route in routes:
        if not route.path.startswith(("/tools/{name}", "/servers/{name}")):
            continue
        for name in accepted_names:
            path = route.path.replace("{name}", name).replace("{number:number}", "1")
            for method in route.methods or ():
                scope = {"type": "http", "method": method, "path": path}
                first = next(route for route in routes if route.matches(scope)[0] is Match.FULL)
                assert first is route, (method, path, first.path)


async def test_uploaded_file_when_the_request_is_answered_is_closed(tmp_path: Path) -> None:
    """Also where the page fails."""
    forms: list[FormData] = []

    async def page(request: Request) -> Response:
        body = await body_of(request)
        assert body.form is not None
        forms.append(body.form)
        assert not forms[-1]["file"].file.closed  # type: ignore[union-attr]
        if "fail" in body.data:
            raise BadInput("No.")
        return PlainTextResponse("ok")

    app = Starlette(
        routes=[Route("/", page, methods=["POST"])], middleware=[Middleware(CloseForms)]
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        await client.post("/", files={"file": b"text"})
        with pytest.raises(BadInput):
            await client.post("/", files={"file": b"text"}, data={"fail": "1"})
    files = [form["file"] for form in forms]
    assert [isinstance(file, UploadFile) and file.file.closed for file in files] == [True, True]
