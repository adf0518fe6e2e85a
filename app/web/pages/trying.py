"""Trying a tool: what stands in the editor is run alone, and nothing of it is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.core.errors import BadInput, BadTool, NotFound, PlaygroundError, Refused
from app.core.serialization import to_data
from app.core.tools import Tool, text_result
from app.engine.redaction import check_tools
from app.engine.try_tool import STEP_S, Try, TryRequest
from app.exchange.results import as_data, wire_results
from app.render import trying as draw
from app.render.trying import Panel
from app.schema.validate import check_tool
from app.web import trying
from app.web.forms import Body, as_json, body_of, wants
from app.web.site import Site, site_of
from app.web.trying import Typed
from app.web.typed_tool import typed_tool

WAIT_S = 20.0
"""How long a question for the state of a try is held while there is nothing new, in seconds."""

LOOKS = ("form", "json", "sample", "past", "over", "look", "check")
"""What `do` may ask for beside run, anyway and answer: the arguments, drawn anew."""


async def run(request: Request) -> Response:
    """POST /tools/try: run the tool of the form, or what else its button `do` asks for."""
    body = await body_of(request)
    if body.is_json:
        return await _run_for_script(request, body)
    site, typed = site_of(request), _typed(body)
    try:
        tool, name = await _tool(site, body)
    except BadTool as error:
        return _drawn(request, trying.broken(body.text("try_tool"), error), body.text("do"))
    do = body.text("do", "run")
    try:
        if do in LOOKS:
            typed = await _looked_at(site, tool, body, typed)
            return _drawn(request, await trying.panel_of(site, tool, name, typed), do)
        return await _run_for_page(request, tool, name, typed, body)
    except PlaygroundError as error:
        if wants(request) != "htmx":
            raise
        panel = await trying.panel_of(site, tool, name, typed)
        said = draw.try_checked(site.env, panel) + draw.try_said(site.env, str(error))
        return HTMLResponse(said, 422)


async def show(request: Request) -> Response:
    """GET /tools/try/ID: how it stands; held until there is more than `after` says."""
    site, after = site_of(request), _number(request.query_params.get("after", ""))
    one = site.engine.trying.get(request.path_params["id"])
    if after is not None:
        one = await site.engine.trying.wait(one.id, after, WAIT_S)
        if one.result is None:
            await asyncio.sleep(STEP_S)  # a tool that talks without end is told in steps
    return await _told(request, one)


async def cancel(request: Request) -> Response:
    """POST /tools/try/ID/cancel"""
    return await _told(
        request, await site_of(request).engine.trying.cancel(request.path_params["id"])
    )


# For a page.


async def _run_for_page(
    request: Request, tool: Tool, name: str, typed: Typed, body: Body
) -> Response:
    site, do = site_of(request), body.text("do", "run")
    text, problems = trying.text_of(tool, typed)
    if problems:
        return _drawn(request, await trying.panel_of(site, tool, name, typed), "check", 422)
    if tool.answered_by == "person":
        return await _told(request, _answered(site, tool, text, typed, body))
    if await trying.is_off(site, tool, name):
        raise Refused("This tool is switched off; look at what it runs and switch it on first.")
    wanted = TryRequest(
        tool,
        text,
        typed.scratch,
        anyway=do == "anyway",
        seen=body.text("try_seen"),
        lift=body.flag("try_lift"),
    )
    return await _told(request, await site.engine.trying.start(wanted), typed)


def _answered(site: Site, tool: Tool, text: str, typed: Typed, body: Body) -> Try:
    wanted = TryRequest(tool, "{}", typed.scratch)
    result = text_result(text, is_error=body.flag("try_error"))
    return site.engine.trying.answered(wanted, result)


async def _told(request: Request, one: Try, typed: Typed | None = None) -> Response:
    site = site_of(request)
    if wants(request) == "json":
        return as_json(await asyncio.to_thread(_data, site, one))
    here = f"/tools/try/{one.id}"
    if wants(request) == "page":
        if request.method == "POST":
            return RedirectResponse(here, 303)
        return await _page(request, one)
    html = draw.try_result(site.env, await asyncio.to_thread(trying.shown, site, one))
    if typed is not None and typed.scratch != one.scratch:
        again = Typed(typed.mode, typed.form, typed.text, one.scratch)
        tool, name = one.wanted.tool, (await body_of(request)).text("try_tool")
        html += draw.try_checked(site.env, await trying.panel_of(site, tool, name, again))
    return HTMLResponse(html)


async def _page(request: Request, one: Try) -> Response:
    site, tool = site_of(request), one.wanted.tool
    typed = trying.filled(tool, one.wanted.arguments, Typed(scratch=one.scratch))
    if tool.answered_by == "person":
        typed = trying.sampled(tool)
    panel = await trying.panel_of(site, tool, tool.name, typed, ask=False)
    seen = await asyncio.to_thread(trying.shown, site, one)
    return HTMLResponse(draw.try_page(site.env, panel, seen, _back(tool.name)))


def _drawn(request: Request, panel: Panel, do: str, status: int = 200) -> Response:
    env = site_of(request).env
    if wants(request) == "page":
        return HTMLResponse(draw.try_page(env, panel, None, _back(panel.name)), status)
    if panel.broken:  # what was typed stays, for a tool that is whole again in a moment
        return HTMLResponse(draw.try_said(env, panel.broken, "told"), status)
    drawn = draw.try_checked if do == "check" else draw.try_arguments
    return HTMLResponse(drawn(env, panel), status)


def _back(name: str) -> str:
    return f"/tools/{name}" if name else "/tools"


async def _looked_at(site: Site, tool: Tool, body: Body, typed: Typed) -> Typed:
    """The arguments as the button asks for them; as they are where they cannot be read."""
    text, problems = trying.text_of(tool, typed)
    match body.text("do"):
        case "json" if typed.mode == "form" and not problems:
            return Typed("json", {}, draw.laid(text or "{}"), typed.scratch)
        case "form" if typed.mode == "json":
            return trying.filled(tool, text, Typed("form", {}, text, typed.scratch))
        case "sample":
            made = trying.sampled(tool)
            shown = draw.laid(made.text) if typed.mode == "json" else made.text
            return Typed(typed.mode, made.form, shown, typed.scratch)
        case "past":
            return trying.filled(tool, await _past(site, tool, body.text("try_past")), typed)
        case "over":
            await site.engine.trying.forget(typed.scratch)
            return Typed(typed.mode, typed.form, typed.text)
    return typed


async def _past(site: Site, tool: Tool, key: str) -> str:
    for past_call in await site.engine.log.past_calls(tool.name):
        if f"{past_call.session}/{past_call.seq}" == key:
            return past_call.arguments
    raise NotFound("That call is not among the last ones any more; choose another.")


def _typed(body: Body) -> Typed:
    assert body.form is not None
    form: dict[str, Sequence[str]] = {name: body.all(name) for name in body.form if ":" in name}
    text = body.text("try_json").replace("\r\n", "\n")
    json = body.text("try_mode") == "json"
    return Typed("json" if json else "form", form, text, body.text("try_scratch"))


async def _tool(site: Site, body: Body) -> tuple[Tool, str]:
    """What stands in the editor, where its fields came along; else the saved tool. With the name
    it is saved under."""
    name = body.text("original") or body.text("try_tool")
    if "answered_by" in body.data:
        tool = typed_tool(body)
        check_tools([tool], site.engine.keys.redactor())
        return tool, name
    if not name:
        raise BadTool("Save the tool first; then it can be tried.", "/name")
    return await site.engine.library.tool(name), name


# For a script.


async def _run_for_script(request: Request, body: Body) -> Response:
    site = site_of(request)
    named = body.data.get("tool")
    match named:
        case str():
            tool = await site.engine.library.tool(named)
            if await trying.is_off(site, tool, named):
                raise Refused(
                    f"{named} is switched off; look at what it runs and switch it on first."
                )
        case Mapping():
            tool = check_tool(named)
            check_tools([tool], site.engine.keys.redactor())
        case _:
            raise BadInput("tool is the name of a tool, or a tool in our own form.")
    if tool.answered_by == "person" and "answer" in body.data:
        one = site.engine.trying.answered(
            TryRequest(tool, "{}"), text_result(body.text("answer"), is_error=body.flag("is_error"))
        )
        return await _told(request, one)
    wanted = TryRequest(
        tool,
        _arguments(body),
        body.text("scratch"),
        anyway=body.flag("anyway"),
        lift=body.flag("lift"),
    )
    one = await site.engine.trying.start(wanted)
    if body.data.get("wait", True) is not False:
        while one.result is None:
            await site.engine.trying.wait(one.id, one.changed, WAIT_S)
    return await _told(request, one)


def _arguments(body: Body) -> str:
    """As they were written: digits and order count."""
    arguments = body.data.get("arguments", "{}")
    if isinstance(arguments, Mapping):
        assert body.quoted is not None
        return body.quoted.member("arguments")
    if not isinstance(arguments, str):
        raise BadInput("arguments must be an object, or its JSON as a text.")
    return arguments


def _data(site: Site, one: Try) -> dict[str, Any]:
    """See docs/contract.md."""
    result, wanted = one.result, one.wanted
    wires: dict[str, object] = {}
    if result is not None:
        said = wanted.arguments or "{}"
        wires = as_data(wire_results(wanted.tool, said, result, trying.quirks(site)))
    return {
        "id": one.id,
        "scratch": one.scratch,
        "state": "running" if result is None else "done",
        "progress": {"text": one.progress, "fraction": one.fraction},
        "ms": None if one.ended_ms is None else one.ended_ms - one.started_ms,
        "result": None if result is None else {**to_data(result), "text": result.text},
        "wire": wires,
    }


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
