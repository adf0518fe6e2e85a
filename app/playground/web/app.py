"""The routes, and the responses to errors. The guard wraps all of them; the entry point for agents
(Door) is in front of it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from playground import config
from playground.core.errors import (
    BadTool,
    Conflict,
    IllegalEvent,
    NotFound,
    PlaygroundError,
    StoreError,
)
from playground.engine.engine import Engine
from playground.render.environment import environment, error_page, toast
from playground.tap.door import Door, Upstreams
from playground.tap.exchange import make_observer
from playground.tap.relay import Relay
from playground.web import (
    agents,
    batches,
    compare,
    files,
    find,
    forks,
    imports,
    openapi,
    providers,
    rules,
    servers,
    session_list,
    sharing,
    side_by_side,
)
from playground.web.assets import Assets
from playground.web.forms import CloseForms, answer_format, as_json
from playground.web.guard import MAX_BODY, SMALL_BODY, Guard, code_of
from playground.web.session import actions, requests
from playground.web.session import routes as session
from playground.web.site import Site, site_of
from playground.web.stream import session_stream
from playground.web.tools import routes as tools
from playground.web.tools import trying

STATUS: Sequence[tuple[type[PlaygroundError], int]] = (
    (NotFound, 404),
    (Conflict, 409),
    (IllegalEvent, 409),
    (StoreError, 503),
    (PlaygroundError, 422),
)
"""The first matching class determines the HTTP status of an error."""

TITLES = {404: "Not found", 409: "Too late", 503: "The database"}

MARKED = ("pin", "unpin", "archive", "unarchive", "purge")
"""Actions on one session that have their own path."""

BATCH_ACTS = ("pause", "resume", "stop")

CALL = "/sessions/{id}/calls/{call}"

AS_THEY_ARE = (
    "application/*",
    "audio/*",
    "font/*",
    "image/*",
    "text/event-stream",
    "text/plain",
    "video/*",
)
"""Content types that are not compressed: data for scripts, recorded bytes, and streams, each
message of which is sent at once. Pages, styles and scripts are compressed."""

PACKET = 1_400
"""Bytes of a response that fit into one packet; a smaller one is not compressed."""


class NumberConvertor(IntegerConvertor):
    """`{n:number}` in a path. With Starlette's own `int` a path of 5,000 digits would be an error
    500, because Python refuses to convert so many."""

    regex = "[0-9]{1,15}"


register_url_convertor("number", NumberConvertor())


def _compress_pages(app: ASGIApp) -> ASGIApp:
    """`app` with its pages compressed for clients that accept gzip. The simulator's responses are
    the bytes of a provider and are not changed."""
    packed = GZipMiddleware(app, PACKET, compresslevel=6, exclude_content_types=AS_THEY_ARE)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        simulated = scope.get("path", "").startswith("/sim/")
        await (app if simulated else packed)(scope, receive, send)

    return answer


def _routes() -> list[Route]:
    here = "/sessions/{id}"
    return [
        Route("/", session_list.home),
        Route("/welcome", session_list.welcome),
        Route("/sessions", session_list.sessions),
        Route("/sessions", session_list.create, methods=["POST"], max_body_size=MAX_BODY),
        Route("/openapi.json", openapi.document),
        Route("/palette", find.palette),
        Route("/batches", batches.batches),
        Route("/batches", batches.create, methods=["POST"], max_body_size=MAX_BODY),
        Route("/batches/new", batches.new_batch),
        Route("/batches/{id}", batches.batch),
        Route("/batches/{id}/report", batches.redraw_report),
        Route("/batches/{id}/export", batches.export),
        *(Route(f"/batches/{{id}}/{act}", batches.act, methods=["POST"]) for act in BATCH_ACTS),
        Route("/find", find.find),
        Route("/find/size", find.database_size),
        Route("/find/marks", find.mark_several, methods=["POST"]),
        *(Route(f"{here}/{act}", find.mark_one, methods=["POST"]) for act in MARKED),
        Route(here + "/tags", find.tag, methods=["POST"]),
        Route("/sessions/import", sharing.import_form),
        Route("/sessions/import", sharing.import_upload, methods=["POST"], max_body_size=MAX_BODY),
        Route("/stream", side_by_side.stream),
        Route("/store", find.database_state),
        Route("/store/copy", find.copy_database, methods=["POST"]),
        Route("/compare/new", compare.models_form),
        Route("/compare", compare.show),
        Route("/compare", compare.create, methods=["POST"], max_body_size=MAX_BODY),
        Route("/compare/prompts", side_by_side.prompt, methods=["POST"], max_body_size=MAX_BODY),
        Route("/compare/stop", side_by_side.stop, methods=["POST"]),
        Route("/keys", actions.paste_key, methods=["POST"]),
        Route(here, session.show),
        Route(here + "/stream", session_stream),
        Route(here + "/events", session.events),
        Route(here + "/replay", session.whole_replay),
        Route(here + "/replay/reel", session.replay_index),
        Route(here + "/replay/frames", session.replay_frames),
        Route(here + "/replay/at", session.moment),
        Route(here + "/play", session.play, methods=["POST"]),
        Route(here + "/blocks", session.blocks),
        Route(here + "/blocks/{block}", session.one_block),
        Route(here + "/cards/{turn:number}", session.more_cards),
        Route(here + "/wire", session.search),
        Route(here + "/recordings/{number:number}", session.recording),
        Route(here + "/recordings/{number:number}/bytes", session.recorded_bytes),
        Route(here + "/recordings/{number:number}/frames", session.frames),
        Route(here + "/recordings/{number:number}/rows", session.more_rows),
        Route(here + "/requests/{number:number}", session.request_sent),
        Route(here + "/requests/{number:number}/body", session.request_body),
        Route(here + "/requests/{number:number}/changes", session.compare_request),
        Route(here + "/code", requests.code),
        Route(
            here + "/request",
            requests.next_request,
            methods=["GET", "POST"],
            max_body_size=MAX_BODY,
        ),
        Route(here + "/images/{number:number}/{place:number}", requests.prompt_image),
        Route(CALL + "/images/{place:number}", requests.result_image),
        Route(here + "/prompts", actions.prompt, methods=["POST"], max_body_size=MAX_BODY),
        Route(
            here + "/decisions", actions.decide_several, methods=["POST"], max_body_size=MAX_BODY
        ),
        Route(
            here + "/settings", actions.change_settings, methods=["POST"], max_body_size=MAX_BODY
        ),
        Route(here + "/continue", actions.resume, methods=["POST"]),
        Route(here + "/retry", actions.retry, methods=["POST"]),
        Route(here + "/fork", forks.form),
        Route(here + "/fork", forks.make, methods=["POST"], max_body_size=MAX_BODY),
        Route(here + "/forks", forks.forks),
        Route(here + "/stop", actions.stop, methods=["POST"]),
        Route(here + "/rename", actions.rename, methods=["POST"]),
        Route(here + "/export", sharing.export),
        Route(here + "/share", sharing.share),
        Route(here + "/take", sharing.preview),
        Route(here + "/take", sharing.adopt, methods=["POST"]),
        Route(here + "/delete", actions.delete, methods=["POST"]),
        Route(here + "/restore", actions.restore, methods=["POST"]),
        Route(here + "/files", files.files),
        Route(here + "/files/undo", files.undo, methods=["POST"]),
        Route(here + "/tasks/{task}/stop", files.stop_task, methods=["POST"]),
        Route(CALL + "/decision", actions.decide, methods=["POST"], max_body_size=MAX_BODY),
        Route(CALL + "/result", actions.decide_result, methods=["POST"], max_body_size=MAX_BODY),
        Route(CALL + "/past", actions.list_past),
        Route(CALL + "/like", actions.list_alike),
        Route(CALL + "/draft", actions.draft_answer, methods=["POST"], max_body_size=MAX_BODY),
        Route(CALL + "/check", actions.check, methods=["POST"], max_body_size=MAX_BODY),
        Route(CALL + "/always", rules.propose),
        Route(CALL + "/always", rules.write, methods=["POST"], max_body_size=MAX_BODY),
        Route(CALL + "/rule", rules.rule_of_call),
        Route(CALL + "/rule/renew", rules.renew_for_call, methods=["POST"]),
        Route(CALL + "/cancel", actions.cancel, methods=["POST"]),
        Route(CALL + "/extend", actions.extend, methods=["POST"]),
        Route(CALL + "/background", actions.background, methods=["POST"]),
        Route("/providers", providers.providers),
        Route("/providers", providers.save, methods=["POST"]),
        Route("/providers/{name}", providers.provider),
        Route("/providers/{name}/test", providers.test, methods=["POST"]),
        Route("/providers/{name}/models", providers.models, methods=["POST"]),
        Route("/providers/{name}/delete", providers.delete, methods=["POST"]),
        Route("/agents", agents.agents),
        Route("/agents/taps", agents.redraw_taps),
        Route("/taps", agents.taps),
        Route("/taps", agents.create, methods=["POST"]),
        Route("/taps/{id}/settings", agents.change_settings, methods=["POST"]),
        Route("/taps/{id}/revoke", agents.revoke, methods=["POST"]),
        *(route for path in ("/rules", here + "/rules") for route in _rules(path)),
        Route(here + "/rules/{rule}/always", rules.make_global, methods=["POST"]),
        Route(here + "/rules/{rule}/here", rules.make_local, methods=["POST"]),
        Route("/servers", servers.servers),
        Route("/servers", servers.save, methods=["POST"]),
        Route("/servers/{name}", servers.server),
        Route("/servers/{name}/accept", servers.accept, methods=["POST"]),
        Route("/servers/{name}/withdraw", servers.withdraw, methods=["POST"]),
        Route("/servers/{name}/list", servers.list_tools, methods=["POST"]),
        Route("/servers/{name}/take", servers.adopt_tools, methods=["POST"]),
        Route("/servers/{name}/stop", servers.stop, methods=["POST"]),
        Route("/servers/{name}/delete", servers.delete, methods=["POST"]),
        Route("/tools", tools.tools),
        Route("/import", imports.start),
        Route("/import", imports.preview, methods=["POST"], max_body_size=MAX_BODY),
        Route("/import/take", imports.import_ticked, methods=["POST"], max_body_size=MAX_BODY),
        Route("/import/read", imports.read, methods=["POST"], max_body_size=MAX_BODY),
        Route("/tools", imports.save, methods=["POST"], max_body_size=MAX_BODY),
        Route("/export", tools.export),
        Route("/tools/try", trying.run, methods=["POST"], max_body_size=MAX_BODY),
        Route("/tools/try/{id}", trying.show),
        Route("/tools/try/{id}/cancel", trying.cancel, methods=["POST"]),
        Route("/tools/faces", tools.faces, methods=["POST"], max_body_size=MAX_BODY),
        Route("/tools/lint", tools.lint, methods=["POST"], max_body_size=MAX_BODY),
        Route("/tools/{name}", tools.tool),
        Route("/tools/{name}/when", tools.set_when, methods=["POST"]),
        Route("/tools/{name}/switch", imports.switch, methods=["POST"]),
        Route("/tools/{name}/delete", tools.delete, methods=["POST"]),
        Route("/tools/{name}/duplicate", tools.duplicate, methods=["POST"]),
        Route("/tools/{name}/restore", tools.restore, methods=["POST"]),
        Route("/tools/{name}/versions/{number:number}/restore", tools.return_to, methods=["POST"]),
    ]


def _rules(path: str) -> list[Route]:
    """The routes for one list of rules."""
    rule = path + "/{rule}"
    return [
        Route(path, rules.rules),
        Route(path, rules.add, methods=["POST"]),
        Route(path + "/look", rules.preview, methods=["POST"]),
        Route(rule, rules.edit, methods=["POST"]),
        Route(rule + "/delete", rules.delete, methods=["POST"]),
        Route(rule + "/restore", rules.restore, methods=["POST"]),
        Route(rule + "/move", rules.move, methods=["POST"]),
        Route(rule + "/switch", rules.switch, methods=["POST"]),
        Route(rule + "/renew", rules.renew, methods=["POST"]),
    ]


def body_limit(routes: Iterable[BaseRoute], scope: Scope) -> int:
    """The maximum body size in bytes of a request: that of its route, or SMALL_BODY."""
    for route in routes:
        match, _ = route.matches(scope)
        if match is Match.FULL and isinstance(route, Route | Mount):
            # Starlette keeps `max_body_size` in the middleware that it puts around the endpoint.
            app = route.app
            return app.max_body_size if isinstance(app, RequestBodyLimitMiddleware) else SMALL_BODY
    return SMALL_BODY


def make_app(
    engine: Engine,
    *,
    token: str | None,
    port: Callable[[], int],
    simulator: ASGIApp,
    allow_hosts: Sequence[str] = (),
    dev: bool = False,
) -> tuple[ASGIApp, Site]:
    """The whole server as one ASGI app, and its Site, whose `close` ends the streams. With `dev`
    changed templates, styles and scripts are read again, and tracebacks are logged in lines."""
    site = Site(engine, environment(config.resource("templates"), reload=dev))
    assets = Assets(config.resource("static"), reload=dev)
    # Before a template is loaded.
    site.env.globals |= {"store_now": site.store_now, "asset": assets.address}
    app = Starlette(
        routes=[
            *_routes(),
            Mount("/static", assets),
            # As a provider it receives a whole session with all its images.
            Mount("/sim", simulator, max_body_size=MAX_BODY),
        ],
        middleware=[Middleware(_compress_pages), Middleware(CloseForms)],
        exception_handlers={PlaygroundError: refusal, HTTPException: not_found},
    )
    app.state.site = site

    def mask(text: str) -> str:
        return engine.keys.redactor().redact_text(text)

    guard = Guard(
        app,
        token=token,
        port=port,
        allow_hosts=allow_hosts,
        body_limit=partial(body_limit, app.routes),
        mask=mask,
        printable=config.printable_lines if dev else config.one_line,
    )
    door = Door(
        guard,
        taps=site.taps,
        upstreams=Upstreams(engine.profile, engine.client.base_url, engine.keys),
        relay=Relay(engine.net, make_observer(engine, site.taps, _digest_key(token)), mask),
        is_own_host=guard.is_own_host,
        clock=engine.sessions.clock,
        mask=mask,
    )
    return door, site


def _digest_key(token: str | None) -> bytes:
    """The key of the digests that distinguish the bodies of agents' requests: their content cannot
    be guessed without the token."""
    return hashlib.sha256(b"bodies " + (token or secrets.token_hex()).encode()).digest()


async def refusal(request: Request, error: Exception) -> Response:
    """An error a user can cause, as a sentence in the format of the request."""
    assert isinstance(error, PlaygroundError)
    status = next(code for cls, code in STATUS if isinstance(error, cls))
    extra = dict(error.outcome) if isinstance(error, Conflict) else {}
    if isinstance(error, BadTool):
        extra["pointer"] = error.pointer
    return sentence(request, str(error), status, {"code": error.error_code, **extra})


async def not_found(request: Request, error: Exception) -> Response:
    """Starlette's own errors: an unknown path or method, a body that is too large."""
    assert isinstance(error, HTTPException)
    words = {
        404: "There is nothing at this address; the sessions are at /.",
        405: "This address expects another method; see docs/contract.md.",
    }
    text = words.get(error.status_code, error.detail)
    return sentence(request, text, error.status_code, {"code": code_of(error.status_code)})


def sentence(request: Request, text: str, status: int, extra: dict[str, object]) -> Response:
    """`text` in the format of the request: JSON, a toast, or a page."""
    site = site_of(request)
    match answer_format(request):
        case "json":
            return as_json({"error": text, **extra}, status)
        case "htmx":
            return HTMLResponse(toast(site.env, text), status)
        case _:
            title = TITLES.get(status, "That did not work")
            return HTMLResponse(
                error_page(site.env, status, title, text, _back_path(request, status)), status
            )


def _back_path(request: Request, status: int) -> str:
    """The session whose form was refused, so that without a script the error page links back."""
    session_id = request.path_params.get("id", "")
    return f"/sessions/{quote(session_id, safe='')}" if session_id and status != 404 else ""
