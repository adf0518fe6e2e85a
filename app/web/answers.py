"""Answers by hand to a call whose tool says what its result is: from a form's fields to JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from jinja2 import Environment

from app.core.errors import Refused
from app.core.events import Problem
from app.engine.decisions import Asked
from app.render.fields import as_typed, flat_rows, rows_of
from app.render.pages import partial
from app.schema import strict
from app.schema.fields import Form, fields, value_of
from app.schema.validate import schema_problems
from app.web.forms import Body
from app.web.site import Site


class Misfit(Refused):
    """An answer that does not fit. `problems` are told at the fields of `form`, where it came from
    one, on the card of the call that `key` names."""

    def __init__(self, sentence: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(sentence)
        self.problems = problems
        self.schema: object = None
        self.form: Form | None = None
        self.key = ""


async def written(site: Site, session_id: str, call_id: str, asked: Asked, body: Body) -> Asked:
    """`asked` with the text that the page's form spells. Refused where it does not fit the schema
    and the person did not say that it should go all the same. A script's text goes as it is."""
    if body.form is None or asked.decision != "answer" or asked.is_error:
        return asked
    async with site.engine.hub.holding(session_id) as live:
        call = live.session.call(call_id)
    schema = call.tool.config.get("output_schema") if call.tool is not None else None
    if schema is None:
        return asked
    text, form = asked.text, None
    if body.text("by") == "form":
        form = {name: body.all(name) for name in body.form if ":" in name}
    try:
        if form is not None:
            text = await asyncio.to_thread(_text, schema, form)
        if not body.flag("misfit"):
            await asyncio.to_thread(_check, schema, text)
    except Misfit as misfit:
        misfit.schema, misfit.form = schema, form
        misfit.key = f"{call_id.replace('.', '-')}-{call.digest[:12]}"
        raise
    return replace(asked, text=text)


def at_fields(env: Environment, misfit: Misfit) -> str:
    """The sentence of each field of the answer's form, as pieces for htmx: no input is touched."""
    if misfit.form is None:
        return ""
    problems = [replace(one, message=_named(one)) for one in misfit.problems]
    rows, _ = rows_of(as_typed(fields(misfit.schema), misfit.form), problems)
    macros, at = env.get_template("_fields.html").make_module(), f"answer-{misfit.key}"
    return "".join(
        partial(f"{at}-wrong-{row.number}", "outerMorph", macros.wrong(at, row))  # type: ignore[attr-defined]
        for row in flat_rows(rows)
        if row.field.kind != "object"
    )


def _text(schema: object, form: Form) -> str:
    filled = value_of(schema, form)
    if filled.problems:
        raise Misfit(" ".join(map(_named, filled.problems[:3])), filled.problems)
    return filled.text


def _check(schema: dict[str, object], text: str) -> None:
    try:
        value = strict.parse(text)
    except strict.Unsound as error:
        said = "Nothing is answered yet." if not text.strip() else f"This is no JSON. {error}"
        raise Misfit(f"{said} {_ANYWAY}") from None
    problems = schema_problems(schema, value)
    if problems:
        more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
        raise Misfit(f"{_named(problems[0])}{more} {_ANYWAY}", problems)


def _named(problem: Problem) -> str:
    """The sentence with the name of the place, as the form has it, in place of its pointer."""
    pointer = problem.pointer
    if not pointer or not problem.message.startswith(f"{pointer} "):
        return problem.message
    steps = (one.replace("~1", "/").replace("~0", "~") for one in pointer[1:].split("/"))
    return ".".join(steps) + problem.message[len(pointer) :]


_ANYWAY = "Correct it, or tick that it may go although it does not fit."
