"""Answers by hand to a call whose tool says what its result is: from a form's fields to JSON."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from app.core.errors import BadInput, Refused
from app.engine.decisions import Asked
from app.schema import strict
from app.schema.fields import Form, value_of
from app.schema.validate import schema_problems
from app.web.forms import Body
from app.web.site import Site


async def written(site: Site, session_id: str, call_id: str, asked: Asked, body: Body) -> Asked:
    """`asked` with the text that the page's form spells. Refused where it does not fit the schema
    and the person did not say that it should go all the same. A script's text goes as it is."""
    if body.form is None or asked.decision != "answer" or asked.is_error:
        return asked
    async with site.engine.hub.holding(session_id) as live:
        tool = live.session.call(call_id).tool
    schema = tool.config.get("output_schema") if tool is not None else None
    if schema is None:
        return asked
    text = asked.text
    if body.text("by") == "form":
        form = {name: body.all(name) for name in body.form if ":" in name}
        text = await asyncio.to_thread(_text, schema, form)
    if not body.flag("misfit"):
        await asyncio.to_thread(_check, schema, text)
    return replace(asked, text=text)


def _text(schema: object, form: Form) -> str:
    filled = value_of(schema, form)
    if filled.problems:
        raise BadInput(" ".join(problem.message for problem in filled.problems[:3]))
    return filled.text


def _check(schema: dict[str, object], text: str) -> None:
    try:
        value = strict.parse(text)
    except strict.Unsound as error:
        said = "Nothing is answered yet." if not text.strip() else f"This is no JSON. {error}"
        raise Refused(f"{said} {_ANYWAY}") from None
    problems = schema_problems(schema, value)
    if problems:
        more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
        raise Refused(f"{problems[0].message}{more} {_ANYWAY}")


_ANYWAY = "Correct it, or tick that it may go although it does not fit."
