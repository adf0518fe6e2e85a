"""What a person does in a session: prompt, decide, stop, go on, change its settings and name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput, PlaygroundError
from app.core.settings import Settings
from app.engine.decisions import Asked
from app.engine.settings import settings_from
from app.render.pages import partial, setup_fragment
from app.render.view import SHOWN_ARGUMENTS
from app.web.forms import Body, answer, body_of, json_of, wants
from app.web.images import images_of
from app.web.pages.request import drawn_notes
from app.web.setup import surroundings
from app.web.site import site_of
from app.wire.exact import Quoted

IN_FORM = ("temperature", "max_tokens", "thinking")
"""The neutral parameters that Setup shows; others, which a script set, stay as they are."""
THINKING_BUDGET = 4096


def _here(request: Request) -> str:
    return f"/sessions/{request.path_params['id']}"


async def prompt(request: Request) -> Response:
    """POST /sessions/ID/prompts: a text, with images or without."""
    body = await body_of(request)
    text, images = body.text("text"), await images_of(body)
    await site_of(request).engine.driver.prompt(request.path_params["id"], text, images)
    return answer(request, {"ok": True}, status=202, location=_no_htmx(request))


async def decide(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/decision"""
    body = await body_of(request)
    site, session_id = site_of(request), request.path_params["id"]
    call_id = request.path_params["call"]
    await site.engine.driver.decide(session_id, call_id, asked(body))
    return answer(request, {"ok": True, "call": call_id}, location=_no_htmx(request))


def asked(body: Body, *path: int) -> Asked:
    """The decision of a form or a JSON body; `arguments` may be an object or JSON text.

    An object counts as it was written, digits and order; an empty text is `{}`, and only a
    decision without the field runs what the model wrote.
    """
    arguments = body.data.get("arguments")
    if isinstance(arguments, Mapping):
        assert body.quoted is not None
        arguments = body.quoted.member(*path, "arguments")
    if arguments is not None and not isinstance(arguments, str):
        raise BadInput("arguments must be an object, or its JSON as a text.")
    return Asked(
        body.text("decision"),
        body.text("digest"),
        arguments,
        body.flag("anyway"),
        body.text("text"),
        body.flag("is_error"),
        None if body.is_json else _seen(body),
    )


def _seen(body: Body) -> int:
    """How much of the arguments the page had on its card when its form was sent."""
    seen = body.text("seen", str(SHOWN_ARGUMENTS))
    if not re.fullmatch("[0-9]{1,9}", seen):
        raise BadInput("seen is a number of characters; load the page again.")
    return int(seen)


async def decide_several(request: Request) -> Response:
    """POST /sessions/ID/decisions: each decided for itself; says of each how it went."""
    body = await body_of_list(request)
    driver, session_id = site_of(request).engine.driver, request.path_params["id"]
    outcomes = []
    for call_id, one in body:
        try:
            await driver.decide(session_id, call_id, one)
            outcomes.append({"call": call_id, "ok": True})
        except PlaygroundError as error:
            outcomes.append({"call": call_id, "ok": False, "error": str(error)})
    return answer(request, outcomes, location=_no_htmx(request))


async def body_of_list(request: Request) -> list[tuple[str, Asked]]:
    """A JSON list of decisions, or a form with `decision` and repeated `call` = "ID DIGEST"."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        body = await body_of(request)
        pairs = [one.partition(" ") for one in body.all("call")]
        decision, seen = body.text("decision"), _seen(body)
        return [(call, Asked(decision, digest, seen=seen)) for call, _, digest in pairs]
    raw = await request.body()
    listed = json_of(raw)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise BadInput("The body must be a list of decisions.")
    quoted = Quoted(raw.decode("utf-8"))
    return [
        (str(one.get("call", "")), asked(Body(one, quoted=quoted), place))
        for place, one in enumerate(listed)
    ]


async def cancel(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/cancel"""
    params = request.path_params
    await site_of(request).engine.driver.cancel(params["id"], params["call"])
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def stop(request: Request) -> Response:
    """POST /sessions/ID/stop"""
    await site_of(request).engine.driver.stop(request.path_params["id"])
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def resume(request: Request) -> Response:
    """POST /sessions/ID/continue"""
    await site_of(request).engine.driver.resume(request.path_params["id"])
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def retry(request: Request) -> Response:
    """POST /sessions/ID/retry"""
    await site_of(request).engine.driver.retry(request.path_params["id"])
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def rename(request: Request) -> Response:
    """POST /sessions/ID/rename"""
    body, hub = await body_of(request), site_of(request).engine.hub
    title = " ".join(body.text("title").split())
    if not title or len(title) > 200:
        raise BadInput("A title has 1 to 200 characters.")
    async with hub.holding(request.path_params["id"]) as live:
        await hub.rename(live, title)
    return answer(request, {"ok": True}, location=_no_htmx(request))


async def delete(request: Request) -> Response:
    """POST /sessions/ID/delete: hides it; `restore` shows it again."""
    site, session_id = site_of(request), request.path_params["id"]
    await site.engine.driver.stop(session_id)
    async with site.engine.hub.holding(session_id) as live:
        await site.engine.hub.delete(live, deleted=True)
    return answer(request, {"ok": True}, location=f"/?deleted={session_id}")


async def restore(request: Request) -> Response:
    """POST /sessions/ID/restore"""
    site, session_id = site_of(request), request.path_params["id"]
    async with site.engine.hub.holding(session_id) as live:
        await site.engine.hub.delete(live, deleted=False)
    return answer(request, {"ok": True}, location=_here(request))


async def change_settings(request: Request) -> Response:
    """POST /sessions/ID/settings: what is named changes, from the next request on.

    The page hears at once what of the history the profile cannot say; where the profile is
    another one, Setup is drawn again.
    """
    body, site = await body_of(request), site_of(request)
    session_id = request.path_params["id"]
    async with site.engine.hub.holding(session_id) as live:
        base = live.session.settings
    assert base is not None
    data = body.data if body.is_json else form_settings(body, base)
    await site.engine.driver.settings(session_id, await settings_from(site.engine, data, base))
    if wants(request) != "htmx":
        return answer(request, {"ok": True}, location=_here(request))
    library = await site.engine.library.tools()
    async with site.engine.hub.holding(session_id) as live:
        drawn = partial("setup-notes", "outerMorph", drawn_notes(site, live))
        if live.session.settings is not None and live.session.settings.profile != base.profile:
            view, around = await site.view(live), surroundings(site, live, library)
            drawn = partial("panel-setup", "innerMorph", setup_fragment(site.env, view, around))
    return HTMLResponse(drawn)


def form_settings(body: Body, base: Settings) -> dict[str, Any]:
    """The Setup form in the words of the JSON contract; what it does not show stays."""
    tools = body.all("tools")
    data: dict[str, Any] = {
        "profile": body.text("profile"),
        "model": body.text("model").strip(),
        "system": body.text("system"),
        "tools": tools,
        "parallel": body.flag("parallel"),
        "stream": body.flag("stream"),
        "params": _params(body, base.params),
        "extra": _extra(body.text("extra")),
    }
    if body.text("base_url").strip():
        data.pop("profile")
        data |= {
            "protocol": body.text("protocol"),
            "base_url": body.text("base_url").strip(),
            "key_name": body.text("key_name").strip(),
        }
    mode = body.text("tool_choice", "auto")
    choice: dict[str, Any] = {"mode": mode, "name": body.text("tool_choice_name")}
    if body.flag("allowed_only"):
        choice["allowed"] = [name for name in body.all("allowed") if name in tools]
    data["tool_choice"] = choice
    for name in ("max_turns", "max_retries"):
        if body.text(name).strip():
            data[name] = _number(body.text(name), name, whole=True)
    if data.get("profile") == base.profile.name:
        for name in ("first_byte_s", "idle_s"):
            if body.text(name).strip():
                data[name] = _number(body.text(name), name, whole=False)
    elif "profile" in data and data["model"] == base.model:
        data["model"] = ""  # it was the other provider's; the times, too, are the profile's own
    return data


def _params(body: Body, kept: Mapping[str, Any]) -> dict[str, Any]:
    params = {name: value for name, value in kept.items() if name not in IN_FORM}
    if body.text("temperature").strip():
        params["temperature"] = _number(body.text("temperature"), "temperature", whole=False)
    if body.text("max_tokens").strip():
        params["max_tokens"] = _number(body.text("max_tokens"), "max_tokens", whole=True)
    match body.text("thinking"):
        case "":
            pass
        case "budget":
            budget = body.text("thinking_budget").strip() or str(THINKING_BUDGET)
            params["thinking"] = _number(budget, "The thinking budget", whole=True)
        case "kept":
            params |= {"thinking": kept["thinking"]} if "thinking" in kept else {}
        case effort:
            params["thinking"] = effort
    return params


def _extra(text: str) -> Any:
    try:
        return json_of(text.encode("utf-8", "replace")) if text.strip() else {}
    except BadInput as error:
        raise BadInput(f"Extra parameters: {error}") from error


def _number(text: str, name: str, *, whole: bool) -> int | float:
    pattern = r"-?[0-9]{1,15}" if whole else r"-?[0-9]{1,15}(\.[0-9]{1,15})?"
    if not re.fullmatch(pattern, text.strip(), re.ASCII):
        kind = "whole number" if whole else "number"
        raise BadInput(f"{name} must be a {kind}, not {text.strip()[:40]!r}.")
    return int(text) if whole else float(text)


async def paste_key(request: Request) -> Response:
    """POST /keys: a key for this run, kept in memory only; without a value, a place where the key
    of that name may go, kept for later runs."""
    body, engine = await body_of(request), site_of(request).engine
    name, base_url = body.text("name").strip(), body.text("base_url").strip()
    if base_url and not body.text("value"):
        await engine.confirm(name, base_url)
    else:
        engine.keys.paste(name, body.text("value"), base_url)
    site_of(request).engine.hub.ring_list()
    if session_id := body.text("session"):  # the form that goes away once it is done
        return answer(request, {"ok": True}, location=f"/sessions/{quote(session_id, safe='')}")
    back = urlsplit(request.headers.get("referer", "/")).path or "/"
    location = "" if request.headers.get("hx-request") else back
    return answer(request, {"ok": True}, location=location)


def _no_htmx(request: Request) -> str:
    """Where a plain form goes back to; htmx stays where it is and hears from the stream."""
    return "" if request.headers.get("hx-request") else _here(request)
