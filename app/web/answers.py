"""Answers by hand: what a form's fields or its text say, whether that fits the tool's own word
for its results, and one answer that goes to several calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jinja2 import Environment

from app.core.arguments import ABSENT, value_at
from app.core.errors import Conflict, PlaygroundError, Refused
from app.core.events import Problem
from app.engine.decisions import DecisionRequest
from app.render.arguments import as_typed, flat, flat_rows, rows_of
from app.render.fragments import partial
from app.schema import strict_json
from app.schema.arguments import json_text
from app.schema.form import Form, fields, value_of
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


async def written(
    site: Site, session_id: str, call_id: str, asked: DecisionRequest, body: Body
) -> DecisionRequest:
    """`asked` with the text that the page's form spells. Refused where it does not fit the schema
    and the person did not say that it should go all the same. A script's text goes as it is."""
    if body.form is None or asked.decision != "answer":
        return asked
    # A browser sends a line's end as CR LF, whatever the person typed.
    asked = replace(asked, text=asked.text.replace("\r\n", "\n"))
    async with site.engine.sessions.holding(session_id) as live:
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
        if not (body.flag("misfit") or asked.is_error):
            await asyncio.to_thread(_check, schema, text, by_form=form is not None)
    except Misfit as misfit:
        misfit.schema, misfit.form = schema, form
        misfit.key = f"{call_id.replace('.', '-')}-{call.digest[:12]}"
        raise
    return replace(asked, text=text)


def at_fields(env: Environment, misfit: Misfit) -> str:
    """The sentence of each field of the answer's form, as pieces for htmx: no input is touched."""
    if misfit.form is None:
        return ""
    problems = [replace(problem, message=_named(problem)) for problem in misfit.problems]
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


def _check(schema: dict[str, object], text: str, *, by_form: bool) -> None:
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        said = "Nothing is answered yet." if not text.strip() else f"This is no JSON. {error}"
        lacking = _lacking(schema, {}) if by_form and not text.strip() else ()
        raise Misfit(f"{said} {ANYWAY}", lacking) from None
    problems = misfits(schema, value)
    if problems:
        if by_form:
            problems = _at_their_fields(_lacking(schema, value), problems)
        more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
        raise Misfit(f"{_named(problems[0])}{more} {ANYWAY}", problems)


def _at_their_fields(
    lacking: tuple[Problem, ...], problems: tuple[Problem, ...]
) -> tuple[Problem, ...]:
    """What is lacking told once, at its field, and not of the whole again."""
    told = [(problem.pointer.rpartition("/")[0], _step(problem.pointer)) for problem in lacking]
    rest = (
        problem
        for problem in problems
        if not any(
            problem.pointer == whole and f" has no {json_text(name)}," in problem.message
            for whole, name in told
        )
    )
    return (*lacking, *rest)


def misfits(schema: Mapping[str, Any], value: object) -> tuple[Problem, ...]:
    """What keeps `value` from being a result by `schema`, as a person reads it."""
    return schema_problems(schema, value, "The answer")


def _lacking(schema: object, value: object) -> tuple[Problem, ...]:
    """What must be there and is not, each at the field that it is missing from: the schema's own
    word for it is about the whole."""
    return tuple(
        Problem("schema", f"{one.pointer} is missing; it must be given.", one.pointer)
        for one in flat(fields(schema))
        if one.required
        and not one.rest
        and one.kind != "object"
        and isinstance(value_at(value, one.pointer.rpartition("/")[0]), dict)
        and value_at(value, one.pointer) is ABSENT
    )


def _named(problem: Problem) -> str:
    """The sentence with the name of the place, as the form has it, in place of its pointer."""
    pointer = problem.pointer
    if not pointer or not problem.message.startswith(f"{pointer} "):
        return problem.message
    return ".".join(map(_step, pointer[1:].split("/"))) + problem.message[len(pointer) :]


def _step(pointer: str) -> str:
    """The last name of a pointer."""
    return pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


ANYWAY = "Correct it, or tick that it may go although it does not fit."


async def several(
    site: Site, session_id: str, decisions: Sequence[tuple[str, DecisionRequest | PlaygroundError]]
) -> list[dict[str, Any]]:
    """Each decided for itself and side by side, so that no check waits for another's; how each
    went, in their order. One that could not even be read goes with its error."""

    async def one(call_id: str, asked: DecisionRequest | PlaygroundError) -> dict[str, Any]:
        try:
            if isinstance(asked, PlaygroundError):
                raise asked
            await site.engine.runner.decide(session_id, call_id, asked)
        except PlaygroundError as error:
            holds = error.outcome if isinstance(error, Conflict) else {}
            return {**holds, "call": call_id, "ok": False, "error": str(error)}
        return {"call": call_id, "ok": True}

    # To the end, whatever becomes of one: a bug in one decision takes no other's word away.
    ends = await asyncio.gather(*(one(*each) for each in decisions), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    return [end for end in ends if isinstance(end, dict)]


def refusals(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """What became of those that did not go, each with its call; "" where all went."""
    return " ".join(
        f"{outcome['call']}: {outcome['error']}" for outcome in outcomes if not outcome["ok"]
    )


def also(asked: DecisionRequest, body: Body) -> list[tuple[str, DecisionRequest]]:
    """The other calls that the page's form ticks for the same answer, each with its own digest."""
    if body.form is None or asked.decision != "answer":
        return []
    named = (shown.partition(" ") for shown in body.all("also"))
    return [(call, replace(asked, digest=digest)) for call, _, digest in named]
