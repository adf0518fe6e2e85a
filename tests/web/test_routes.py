"""An inventory of the routes: whoever adds one cannot forget a check.

Threat 34 of docs/safety.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Match, Mount
from starlette.routing import Route as CompiledRoute

from playground.tap.door import Door
from playground.web.app import LARGE, Route, _routes, make_app, most_bytes
from playground.web.guard import MAX_BODY, SMALL_BODY, Guard
from tests.engine.running import begun, running
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
            case Route() | CompiledRoute():
                path, methods = route.path, route.methods
                filled = re.sub(r"\{(\w+)(:\w+)?\}", lambda found: places[found[1]], path)
                yield from ((method, filled) for method in sorted(methods or ()))
            case Mount(path=path):
                yield from (("GET", path + "/x"), ("POST", path + "/x"))
            case _:
                raise AssertionError(f"no route that is known: {route}")


async def silent(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("The simulator was reached.")


async def test_every_route_has_every_check(tmp_path: Path) -> None:
    async with running(tmp_path) as engine:
        session_id = await begun(engine, ["calculator"])
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
        wrong: list[tuple[object, ...]] = []

        async def status(method: str, path: str, *headers: Header, host: str = HERE) -> int:
            answer = await call(door, scope_of(method, path, [("host", host), *headers]))
            return answer.status

        for method, path in routes:
            free = path.startswith("/static") and method != "POST"
            for credential in ((), (("authorization", "Bearer wrong"),)):
                found = await status(method, path, OWN, SAME, *credential)
                if found != 401 and not free:
                    wrong.append((method, path, "no credential", found))
            for host in ("evil.example", "127.0.0.1:80", f"evil.example@{HERE}"):
                if await status(method, path, BEARER, host=host) not in (400, 421):
                    wrong.append((method, path, "host", host))
            for headers in CROSS:
                found = await status(method, path, *headers)
                safe = method in ("GET", "HEAD")
                keyless = path.startswith("/sim/") and found == 401  # its key is no cookie
                if not safe and not keyless and found != 403:
                    wrong.append((method, path, "cross-site", headers, found))
        assert wrong == []
        assert await engine.database.rows("SELECT count(*) FROM events") == before
        # The same routes do answer whoever may ask, so that the checks above meant something.
        for method, path in routes:
            if not path.startswith(("/sim", "/static")):
                assert await status(method, path, BEARER, JSON) not in (401, 403, 421, 500), path


async def test_only_routes_that_need_it_take_a_large_body() -> None:
    """Refused by what it declares, and by what it sends; the table names routes that there are."""
    paths = {route.path for route in _routes() if "POST" in (route.methods or ())}
    assert set(LARGE) <= paths
    for path in (*paths, "/sim/openai/v1/chat/completions", "/nowhere"):
        most = MAX_BODY if path in LARGE or path.startswith("/sim") else SMALL_BODY
        filled = re.sub(r"\{\w+\}", "a-name", path)
        assert most_bytes(filled) == most, path
        for size, refused in ((most, False), (most + 1, True)):
            declared = await ask(
                "POST", filled, BEARER, ("content-length", str(size)), most=most_bytes
            )
            assert (declared.status == 413) is refused, path
            assert (f"{most >> 20} MiB".encode() in declared.body) is refused
    for size, refused in ((SMALL_BODY, False), (SMALL_BODY + 1, True)):
        sent = await ask("POST", "/keys", BEARER, body=[bytes(size - 9), bytes(9)], most=most_bytes)
        assert (sent.status == 413) is refused


async def test_the_inventory_sees_a_new_route() -> None:
    app = Starlette(routes=[CompiledRoute("/new/{id}", silent, methods=["POST"])])
    assert list(inventory(app, "s")) == [("POST", "/new/s")]


def test_no_name_of_a_tool_or_server_is_an_address_of_the_program() -> None:
    routes = _routes()
    taken = {step for route in routes for step in route.path.split("/") if step and "{" not in step}
    assert {"try", "lint", "faces", "import", "export"} <= taken
    for route in routes:
        if not route.path.startswith(("/tools/{name}", "/servers/{name}")):
            continue
        for name in taken:
            path = route.path.replace("{name}", name).replace("{number}", "1")
            for method in route.methods or ():
                scope = {"type": "http", "method": method, "path": path}
                first = next(one for one in routes if one.matches(scope)[0] is Match.FULL)
                assert first is route, (method, path, first.path)
