"""The editor of tools while it is typed in: another face, a row, a fix, what lint says.

Nothing here is saved: the tool comes with each request and goes back with the answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.serialization import to_data
from app.render.filters import pretty
from app.render.tools import Editor, tool_lint
from app.schema.validate import check_tool
from app.web.forms import Body, as_json, body_of, wants
from app.web.judged import fixed, judged, judgement
from app.web.pages.tools import editor_answer
from app.web.site import site_of
from app.web.typed_tool import Typed, as_typed, checked, done, faced, rewritten, shown, typed


async def faces(request: Request) -> Response:
    """POST /tools/faces: the editor drawn anew after one of its buttons.

    `face` shows the schema in another face, `act` changes a row, `fix` shows what a rewrite would
    change, `apply` takes it. What cannot be done leaves all that was typed, and says why.
    """
    body = await body_of(request)
    was = typed(body)
    editor = await asyncio.to_thread(_after, was, body)  # the schema may be large
    now = was if editor.typed or editor.form == was.form else checked(editor.form, None)
    original, drawn = body.text("original"), body.text("drawn")
    # With script the page itself knows whether something was typed.
    unsaved = wants(request) != "htmx"
    editor = replace(editor, original=original, drawn=drawn, unsaved=unsaved)
    return await editor_answer(request, editor, now)


def _after(was: Typed, body: Body) -> Editor:
    if act := body.text("act"):
        return done(was, act)
    for name in ("fix", "apply"):
        made = rewritten(was, body.text(name))
        if made is None:
            continue
        if name == "fix":
            return replace(as_typed(was), fixed=fixed(was, body.text(name), made), focus="apply")
        form = replace(was.form, parameters=pretty(dict(made.parameters)))
        return replace(shown(form, was.errors), focus="lint")
    return faced(was, body.text("face", was.form.face))


async def lint(request: Request) -> Response:
    """POST /tools/lint: what is known of the tool as it is typed, or of one in our own form."""
    body = await body_of(request)
    if body.is_json:
        told = judgement(check_tool(body.data))
        return as_json(
            {
                "findings": [to_data(finding) for finding in told.findings],
                "accepted": [to_data(accepted) for accepted in told.accepted],
                "tokens": told.tokens,
            }
        )
    was = typed(body)
    editor = replace(as_typed(was), judged=await judged(was))
    return HTMLResponse(tool_lint(site_of(request).env, editor))
