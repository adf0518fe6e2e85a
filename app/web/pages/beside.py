"""Sessions side by side, live: each is its own page in a frame, and one stream feeds them all.

GET /compare?session=A&session=B…&view=live is drawn here; what is typed once goes to all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput, Conflict, NotFound, PlaygroundError
from app.render.beside import beside_page, lane
from app.render.filters import clip, one_line, plural
from app.render.fragments import toast
from app.store.batch import Summary
from app.web.beside import address, chosen, without
from app.web.forms import Body, answer, body_of, wants
from app.web.guard import FRAMES, as_text
from app.web.site import Site, site_of

Outcome = dict[str, Any]


async def live(request: Request) -> Response:
    """The page of the sessions in the query; NotFound where none of them is there."""
    site = site_of(request)
    ids = chosen(request.query_params.getlist("session"))
    at, lanes, gone = site.engine.sessions.position, [], []
    for number, one in enumerate(ids, 1):
        try:
            async with site.engine.sessions.holding(one) as held:
                view = await site.view(held, wired=False)
                lanes.append(lane(view, number, without(ids, one), deleted=held.deleted))
        except NotFound:
            gone.append(one)
    if not lanes:
        raise NotFound("None of these sessions is there; choose them from the list at /.")
    return HTMLResponse(beside_page(site.env, lanes, gone, at), headers=as_text(FRAMES))


async def prompt(request: Request) -> Response:
    """POST /compare/prompts: one text for each `session` that can take it now, all at once."""
    site, body = site_of(request), await body_of(request)
    ids, text = asked_of(body), body.text("text")

    async def send(session_id: str) -> None:
        await site.engine.runner.prompt(session_id, text)

    async with site.changing:  # as for one session
        outcomes = await asyncio.gather(*(_tried(one, send(one)) for one in ids))
    return await _told(request, site, ids, outcomes, status=202)


async def stop(request: Request) -> Response:
    """POST /compare/stop: each `session` is stopped, all at once."""
    site, body = site_of(request), await body_of(request)
    ids = asked_of(body)
    stops = (_tried(one, site.engine.runner.stop(one)) for one in ids)
    return await _told(request, site, ids, await asyncio.gather(*stops), status=200)


def asked_of(body: Body) -> list[str]:
    """The sessions of a form (`session`, repeated) or a JSON body (`sessions`, a list)."""
    ids = chosen(body.all("sessions" if body.is_json else "session"))
    if not ids:
        raise BadInput("Name the sessions; open them side by side from the list at /.")
    return ids


async def _tried(session_id: str, doing: Any) -> Outcome:
    try:
        await doing
    except PlaygroundError as error:
        return {"session": session_id, "ok": False, "error": str(error)}
    return {"session": session_id, "ok": True}


async def _told(
    request: Request, site: Site, ids: Sequence[str], outcomes: Sequence[Outcome], *, status: int
) -> Response:
    """A script hears of each; a page of those that refused, and as an error where all did."""
    refused = [outcome for outcome in outcomes if not outcome["ok"]]
    status = 409 if len(refused) == len(outcomes) else status
    sentence = await _sentence(site, outcomes) if refused else ""
    if refused and wants(request) == "htmx":
        return HTMLResponse(toast(site.env, sentence), status if status == 409 else 200)
    if status == 409 and wants(request) == "page":
        raise Conflict(sentence)
    location = "" if wants(request) == "htmx" else address(ids)
    return answer(request, list(outcomes), status=status, location=location)


async def _sentence(site: Site, outcomes: Sequence[Outcome]) -> str:
    """`2 sessions took it. Not gpt-5 (profile mine): decide its waiting calls first.`"""
    refused = [outcome for outcome in outcomes if not outcome["ok"]]
    taken = len(outcomes) - len(refused)
    reasons = []
    for one in refused:
        summary = await site.engine.log.summary(one["session"])
        name = _name(summary) if summary is not None else one["session"]
        reasons.append(f"Not {name}: {one['error']}")
    head = f"{plural(taken, 'session')} took it. " if taken else ""
    return head + " ".join(reasons)


def _name(one: Summary) -> str:
    """Its model, and its profile where that is called otherwise."""
    model, profile = clip(one_line(one.model), 60), clip(one_line(one.profile), 60)
    return model if profile in ("", model) else f"{model} (profile {profile})"
