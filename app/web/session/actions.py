"""What the user does in a session: prompt, decide, stop, continue, change settings and title."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput, Conflict, PlaygroundError
from app.engine.decisions import DecisionRequest, ResultDecision
from app.engine.settings import settings_from
from app.protocols.raw_json import Quoted
from app.render.environment import toast
from app.render.view import SHOWN_ARGUMENTS
from app.web.forms import LARGE, Body, answer, body_of, images_of, json_of, wants
from app.web.session.answers import ResultMisfit, also, at_fields, refusals, several, written
from app.web.session.setup import (
    Outcome,
    changed,
    drawn_setup,
    limits_along,
    shown_settings,
    with_group,
)
from app.web.session.view import refused_fields
from app.web.site import site_of


def _here(request: Request) -> str:
    return f"/sessions/{request.path_params['id']}"


async def prompt(request: Request) -> Response:
    """POST /sessions/ID/prompts: a text, with images or without."""
    body = await body_of(request)
    text, images = body.text("text"), await images_of(body)
    site = site_of(request)
    async with site.changing:  # Settings that are being saved hold for the prompt after them.
        await site.engine.runner.prompt(request.path_params["id"], text, images)
    return answer(request, {"ok": True}, status=202, location=_no_htmx(request))


async def decide(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/decision; an answer of the page's form may go to others, too."""
    body = await body_of(request)
    site, session_id = site_of(request), request.path_params["id"]
    call_id = request.path_params["call"]
    wanted = replace(asked(body), images=await images_of(body, "answer"))
    try:
        wanted = await written(site, session_id, call_id, wanted, body)
    except ResultMisfit as misfit:
        if wants(request) != "htmx":
            raise
        return HTMLResponse(at_fields(site.env, misfit) + toast(site.env, str(misfit)), 422)
    if others := also(wanted, body):
        outcomes = await several(site, session_id, [(call_id, wanted), *others])
        return _decision_answer(request, outcomes, 200 if outcomes[0]["ok"] else 409)
    await site.engine.runner.decide(session_id, call_id, wanted)
    return answer(request, {"ok": True, "call": call_id}, location=_no_htmx(request))


async def decide_result(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/result: what an agent sent of a call goes on to the provider as
    it is, or as `text`, as an error or not."""
    params, body = request.path_params, await body_of(request)
    text = body.text("text").replace("\r\n", "\n") if "text" in body.data else None
    wanted = ResultDecision(body.text("digest"), text, body.flag("is_error"))
    if text is None and wanted.is_error:
        raise BadInput(
            "is_error needs the text that is the error; without both the result is as it is."
        )
    await site_of(request).engine.runner.decide_result(params["id"], params["call"], wanted)
    return answer(request, {"ok": True, "call": params["call"]}, location=_no_htmx(request))


def asked(body: Body, *path: int) -> DecisionRequest:
    """The decision of a form or a JSON body; `arguments` may be an object or JSON text.

    An object counts as it was written, digits and order; an empty text is `{}`, and only a
    decision without the field runs what the model wrote.
    """
    return DecisionRequest(
        body.text("decision"),
        body.text("digest"),
        body.arguments(*path, default=None),
        body.flag("anyway"),
        body.text("text"),
        body.flag("is_error"),
        None if body.is_json else _seen(body),
        body.flag("lift"),
        fault=body.text("fault"),
        model_reads=body.flag("model_reads"),
    )


def _seen(body: Body) -> int:
    """How much of the arguments the page had on its card when its form was sent."""
    seen = body.text("seen", str(SHOWN_ARGUMENTS))
    if not re.fullmatch("[0-9]{1,9}", seen):
        raise BadInput("seen is a number of characters; reload the page.")
    return int(seen)


async def decide_several(request: Request) -> Response:
    """POST /sessions/ID/decisions: each decided for itself; says of each how it went."""
    decisions = await body_of_list(request)
    site, session_id = site_of(request), request.path_params["id"]
    return _decision_answer(request, await several(site, session_id, decisions))


def _decision_answer(
    request: Request, outcomes: list[dict[str, Any]], status: int = 200
) -> Response:
    """A page hears of what did not go; the stream shows it the rest."""
    refused = refusals(outcomes)
    if refused and wants(request) == "htmx":
        return HTMLResponse(toast(site_of(request).env, refused), status)
    if refused and wants(request) == "page":
        raise Conflict(refused)
    return answer(request, outcomes, location=_no_htmx(request))


async def body_of_list(request: Request) -> list[tuple[str, DecisionRequest | PlaygroundError]]:
    """A JSON list of decisions, or a form with `decision` and repeated `call` = "ID DIGEST". One
    of the list that cannot be read is its error."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        body = await body_of(request)
        pairs = [shown.partition(" ") for shown in body.all("call")]
        decision, seen = body.text("decision"), _seen(body)
        return [(call, DecisionRequest(decision, digest, seen=seen)) for call, _, digest in pairs]
    raw = await request.body()
    listed = await asyncio.to_thread(json_of, raw) if len(raw) > LARGE else json_of(raw)
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise BadInput("The body must be a list of decisions.")
    quoted = Quoted(raw.decode("utf-8"))
    return [
        (str(item.get("call", "")), await _listed(Body(item, quoted=quoted), place))
        for place, item in enumerate(listed)
    ]


async def _listed(body: Body, place: int) -> DecisionRequest | PlaygroundError:
    try:
        return replace(asked(body, place), images=await images_of(body, "answer"))
    except PlaygroundError as error:
        return error


async def cancel(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/cancel"""
    params = request.path_params
    await site_of(request).engine.runner.cancel(params["id"], params["call"])
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def extend(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/extend: `seconds`, 1 to 3600, more for a running call."""
    params, body = request.path_params, await body_of(request)
    seconds = body.data.get("seconds")
    if isinstance(seconds, str) and re.fullmatch("[0-9]{1,4}", seconds, re.ASCII):
        seconds = int(seconds)
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    seconds = float(seconds) if number and seconds is not None else 0.0
    if not 1 <= seconds <= 3600:
        raise BadInput("seconds must be a number from 1 to 3600.")
    await site_of(request).engine.runner.extend(params["id"], params["call"], seconds)
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def background(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/background: the run goes on without it; says its task's id."""
    params = request.path_params
    task_id = await site_of(request).engine.runner.put_behind(params["id"], params["call"])
    return answer(request, {"ok": True, "task": task_id}, location=_no_htmx(request))


async def stop(request: Request) -> Response:
    """POST /sessions/ID/stop"""
    await site_of(request).engine.runner.stop(request.path_params["id"])
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def resume(request: Request) -> Response:
    """POST /sessions/ID/continue; limits beside it hold from here on. `pause` is the number of the
    event that paused or stopped the run, where the asker means just that one."""
    site, session_id, body = site_of(request), request.path_params["id"], await body_of(request)
    limits, settings = limits_along(body), None
    pause = _number(body, "pause", "the number of the event that paused the run")
    async with site.changing:
        if limits:
            async with site.engine.sessions.holding(session_id) as live:
                now = live.session.settings
            settings = await settings_from(site.engine, limits, now)
        await site.engine.runner.resume(session_id, settings, pause)
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def retry(request: Request) -> Response:
    """POST /sessions/ID/retry: of the turn it names, or else of the last one."""
    turn = _number(await body_of(request), "turn", "the number of a turn")
    await site_of(request).engine.runner.retry(request.path_params["id"], turn)
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def rename(request: Request) -> Response:
    """POST /sessions/ID/rename"""
    body, sessions = await body_of(request), site_of(request).engine.sessions
    title = " ".join(body.text("title").split())
    if not title or len(title) > 200:
        raise BadInput("A title has 1 to 200 characters.")
    async with sessions.holding(request.path_params["id"]) as live:
        live.check_open()
        await sessions.rename(live, title)
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def delete(request: Request) -> Response:
    """POST /sessions/ID/delete: hides it; `restore` shows it again."""
    site, session_id = site_of(request), request.path_params["id"]
    await site.engine.runner.delete(session_id)
    return answer(request, {"ok": True}, location=f"/?deleted={session_id}")


async def restore(request: Request) -> Response:
    """POST /sessions/ID/restore"""
    site, session_id = site_of(request), request.path_params["id"]
    async with site.engine.sessions.holding(session_id) as live:
        await site.engine.sessions.delete(live, deleted=False)
    return answer(request, {"ok": True}, location=_here(request))


async def change_settings(request: Request) -> Response:
    """POST /sessions/ID/settings: what is named changes, from the next request on.

    JSON changes all it names or nothing; of the form every field that can be saved is.
    """
    body, site = await body_of(request), site_of(request)
    session_id = request.path_params["id"]
    async with site.changing:
        async with site.engine.sessions.holding(session_id) as live:
            live.check_open()
            now = live.session.settings
            assert now is not None
            shown = now if body.is_json else shown_settings(live.session, body)
        if body.is_json:
            outcome = Outcome(await settings_from(site.engine, body.data, now), {})
        else:
            save = partial(settings_from, site.engine)
            body = with_group(body, await site.engine.library.tools())
            outcome = await changed(body, shown, now, save)
        await site.engine.runner.settings(session_id, outcome.settings)
    if wants(request) == "htmx":
        async with site.engine.sessions.holding(session_id) as live:
            drawn = await drawn_setup(site, live, await site.view(live))
        status = 422 if outcome.refused else 200
        return HTMLResponse(drawn + refused_fields(outcome.refused), status)
    if outcome.refused:
        raise BadInput(" ".join((*outcome.refused.values(), "All other changes are saved.")))
    return answer(request, {"ok": True}, location=_here(request))


async def paste_key(request: Request) -> Response:
    """POST /keys: a key for this run, kept in memory only; without a value, a place where the key
    of that name may go, kept for later runs."""
    body, engine = await body_of(request), site_of(request).engine
    name, base_url = body.text("name").strip(), body.text("base_url").strip()
    if base_url and not body.text("value"):
        await engine.confirm(name, base_url)
    else:
        engine.keys.paste(name, body.text("value"), base_url)
    site_of(request).engine.sessions.ring_list()
    if session_id := body.text("session"):  # the form that goes away once it is done
        return answer(request, {"ok": True}, location=f"/sessions/{quote(session_id, safe='')}")
    back = urlsplit(request.headers.get("referer", "/")).path or "/"
    location = "" if request.headers.get("hx-request") else back
    return answer(request, {"ok": True}, location=location)


def _number(body: Body, name: str, what: str) -> int | None:
    """A whole number, in a form as text; None where it is not there."""
    value = body.data.get(name)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value, re.ASCII):
        return int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadInput(f"{name} must be {what}.")
    return value


def _no_htmx(request: Request) -> str:
    """Where a plain form goes back to; htmx stays where it is and hears from the stream."""
    return "" if request.headers.get("hx-request") else _here(request)
