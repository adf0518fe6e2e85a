"""What helps a person who answers a call by hand. Nothing here decides, runs or sends anything."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.errors import BadInput
from app.core.serialization import to_data
from app.core.session import Call
from app.core.tools import ToolResult
from app.engine.suggestions import past_result, suggest_result
from app.render.answering import (
    Said,
    alike,
    form_values,
    like_list,
    past_list,
    past_of,
    said,
    tidied,
)
from app.schema import strict_json
from app.web.answers import misfits
from app.web.forms import as_json, body_of, wants
from app.web.site import site_of

MOST_DRAFTS = 1_000


async def past(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/past: earlier results; of `?one=SESSION/SEQ` all there is."""
    site, session_id = site_of(request), request.path_params["id"]
    call = await _call(request)
    if one := request.query_params.get("one"):
        session, _, seq = one.rpartition("/")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 16):
            raise BadInput("one is SESSION/SEQ, as the list of past results has it.")
        result = await past_result(site.engine.log, session, int(seq))
        return as_json(await asyncio.to_thread(_whole, call, result))
    rows = await site.engine.log.past_results(call.name, session_id)
    found = await asyncio.to_thread(lambda: [past_of(row, session_id) for row in rows])
    if wants(request) == "json":
        return as_json({"past": [asdict(row) for row in found]})
    return HTMLResponse(past_list(site.env, found, site.engine.sessions.clock()))


async def like(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/like: the waiting calls that could have the same answer."""
    site = site_of(request)
    async with site.engine.sessions.holding(request.path_params["id"]) as live:
        calls = alike(live.session, live.session.call(request.path_params["call"]))
        if wants(request) == "json":
            return as_json(
                {
                    "like": [
                        {"call": call.id, "digest": call.digest, "arguments": call.arguments}
                        for call in calls
                    ]
                }
            )
        return HTMLResponse(like_list(site.env, calls))


async def drafted(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/draft: a made-up answer; another `number`, another one."""
    body = await body_of(request)
    number: Any = body.data.get("number", 0)
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 5:
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < MOST_DRAFTS:
        raise BadInput(f"number is a whole number from 0 to {MOST_DRAFTS - 1}.")
    call = await _call(request)
    made = await asyncio.to_thread(suggest_result, call, number)
    return as_json(
        {
            "text": tidied(made.text),
            "form": form_values(_schema(call), made.text),
            "made_from": made.made_from,
            "number": number,
        }
    )


async def check(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/check: what `text` would be for the model; with `lay_out` also
    the text laid out."""
    body = await body_of(request)
    call, text = await _call(request), body.text("text").replace("\r\n", "\n")
    schema = None if body.flag("is_error") else _schema(call)
    told: dict[str, Any] = asdict(await asyncio.to_thread(_said, schema, text))
    if body.flag("lay_out"):
        told["text"] = await asyncio.to_thread(tidied, text)
    return as_json(told)


async def _call(request: Request) -> Call:
    async with site_of(request).engine.sessions.holding(request.path_params["id"]) as live:
        return live.session.call(request.path_params["call"])


def _schema(call: Call) -> Any:
    return call.tool.config.get("output_schema") if call.tool is not None else None


def _said(schema: Any, text: str) -> Said:
    if schema is None:
        return said(text, None)
    try:
        problems = misfits(schema, strict_json.parse(text))
    except strict_json.InvalidJSON:
        problems = ()
    return said(text, [problem.message for problem in problems])


def _whole(call: Call, result: ToolResult) -> dict[str, Any]:
    """A result as the editor takes it."""
    images = [to_data(piece) for piece in result.content if piece.type == "image"]
    return {
        "text": result.text,
        "form": form_values(_schema(call), result.text),
        "is_error": result.is_error,
        "images": [{"media_type": image["media_type"], "data": image["data"]} for image in images],
    }
