"""The person's tools: the list, the editor, saving and deleting."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput, BadTool
from app.core.rows import to_data
from app.engine.no_keys import check_tools
from app.render.pages import ToolForm, tool_form, tools_page
from app.schema import strict
from app.schema.validate import check_tool, parse_tool_json
from app.web.forms import Body, answer, as_json, body_of, wants
from app.web.site import site_of

LINE = re.compile(r"\bline (\d+)", re.IGNORECASE)


async def tools(request: Request) -> Response:
    """GET /tools: the first tool, or all as JSON."""
    site = site_of(request)
    if wants(request) == "json":
        return as_json([to_data(tool) for tool in await site.engine.library.tools()])
    return await _editor(request, ToolForm())


async def tool(request: Request) -> Response:
    """GET /tools/NAME: the editor of one tool."""
    one = await site_of(request).engine.library.tool(request.path_params["name"])
    if wants(request) == "json":
        return as_json(to_data(one))
    return await _editor(request, tool_form(one), one.name)


async def save(request: Request) -> Response:
    """POST /tools: a tool in our own form, from a script or the editor; checked, then saved."""
    site, body = site_of(request), await body_of(request)
    original = body.text("original") if body.form is not None else ""
    try:
        checked = check_tool(body.data if body.is_json else _from_form(body))
        check_tools([checked], site.engine.keys.masker())
        await _check_taken(request, checked.name, original, is_json=body.is_json)
    except BadTool as error:
        if wants(request) != "page":
            raise
        return await _editor(request, _typed(body), original, error)
    await site.engine.library.save(checked, site.engine.hub.clock(), original=original)
    here = f"/tools/{checked.name}"
    if wants(request) == "json":
        return as_json(to_data(checked), 201, {"Location": here})
    return answer(request, {"name": checked.name}, location=here + "?saved=1")


async def delete(request: Request) -> Response:
    """POST /tools/NAME/delete"""
    site, name = site_of(request), request.path_params["name"]
    if (await site.engine.library.entry(name)).shipped:
        raise BadInput("A shipped example cannot be deleted; duplicate it to make your own.")
    await site.engine.library.delete(name)
    return answer(request, {"ok": True}, location="/tools")


async def duplicate(request: Request) -> Response:
    """POST /tools/NAME/duplicate: the same tool under the next free name."""
    site = site_of(request)
    one = await site.engine.library.tool(request.path_params["name"])
    taken = {tool.name for tool in await site.engine.library.tools()}
    number = 2
    while f"{one.name}_{number}" in taken:
        number += 1
    copy = replace(one, name=f"{one.name}_{number}", group="")
    await site.engine.library.save(copy, site.engine.hub.clock())
    return answer(request, {"name": copy.name}, status=201, location=f"/tools/{copy.name}")


def _typed(body: Body) -> ToolForm:
    """What was typed, as it was typed."""
    typed: dict[str, Any] = {
        one.name: body.flag(one.name) if one.type == "bool" else body.text(one.name)
        for one in fields(ToolForm)
    }
    return ToolForm(**typed)


def _from_form(body: Body) -> dict[str, Any]:
    """The tool that the editor's fields spell; BadTool with the place of the error."""
    kind = body.text("answered_by")
    return {
        "name": body.text("name").strip(),
        "description": body.text("description").strip(),
        **_taken(body),
        "answered_by": kind,
        "config": _config(kind, body),
        "strict": body.flag("strict"),
        "eager": body.flag("eager"),
        "parallel_safe": body.flag("parallel_safe"),
        "timeout_s": _seconds(body.text("timeout_s", "30"), "/timeout_s"),
        "group": body.text("group").strip(),
    }


def _taken(body: Body) -> dict[str, Any]:
    """The tool's parameters, or the format of one that is given text."""
    match body.text("takes", "json"):
        case "json":
            return {"parameters": _json_field(body.text("parameters"), "/parameters")}
        case "text":
            return {"format": {"type": "text"}}
        case syntax:
            definition = body.text("definition")
            if not definition.strip():
                raise BadTool("Write the grammar that the text has to follow.", "/definition")
            return {"format": {"type": "grammar", "syntax": syntax, "definition": definition}}


def _config(kind: str, body: Body) -> dict[str, Any]:
    config: dict[str, Any] = {}
    match kind:
        case "mock":
            config["result"] = _result(body.text("result"))
            if body.flag("is_error"):
                config["is_error"] = True
            if body.text("delay_s").strip():
                config["delay_s"] = _seconds(body.text("delay_s"), "/config/delay_s")
        case "python":
            names = ("file", "function", "interpreter")
            config = {name: text for name in names if (text := body.text(name).strip())}
        case "person" if body.text("output_schema").strip():
            config["output_schema"] = _json_field(
                body.text("output_schema"), "/config/output_schema"
            )
    return config


def _result(text: str) -> Any:
    """A result that is a JSON object or list is one; anything else is a text."""
    if text.strip()[:1] not in ("{", "["):
        return text
    try:
        return strict.parse(text)
    except strict.Unsound:
        return text


def _json_field(text: str, pointer: str) -> Any:
    try:
        return parse_tool_json(text)
    except BadTool as error:
        raise BadTool(str(error), pointer) from error


def _seconds(text: str, pointer: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadTool(f"{text.strip()[:40]!r} is no number of seconds.", pointer) from error


async def _check_taken(request: Request, name: str, original: str, *, is_json: bool) -> None:
    """In the editor another tool is never overwritten by giving this one its name."""
    if is_json or name == original:
        return
    library = site_of(request).engine.library
    if any(tool.name == name for tool in await library.tools()):
        raise BadTool(f"There is a tool {name!r} already; choose another name.", "/name")


async def _editor(
    request: Request, form: ToolForm, original: str = "", error: BadTool | None = None
) -> Response:
    site = site_of(request)
    errors: dict[str, str] = {}
    if error is not None:
        names = {one.name for one in fields(ToolForm)}
        place = [name for name in error.pointer.split("/") if name in names]
        errors[place[-1] if place else ""] = str(error)
    line = LINE.search(str(error)) if "parameters" in errors else None
    html = tools_page(
        site.env,
        await site.engine.library.tools(),
        form,
        original,
        errors,
        int(line[1]) if line else None,
        "saved" in request.query_params,
    )
    return HTMLResponse(html, 200 if error is None else 422)
