"""Answering a call by hand: earlier results, drafts and checks, and the answer itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.core.arguments import ABSENT, name_of_step, value_at
from app.core.errors import BadInput, Conflict, PlaygroundError, Refused
from app.core.events import Problem
from app.core.serialization import to_data
from app.core.session import Call
from app.core.tools import ToolResult
from app.engine.decisions import DecisionRequest
from app.engine.suggestions import past_result, suggest_result
from app.render.arguments import as_typed, flat, flat_rows, indent_json, rows_of
from app.render.environment import partial
from app.schema import strict_json
from app.schema.form import Form, fields, value_of
from app.schema.schema_checks import Place, pointer
from app.schema.validate import schema_problems
from app.web.forms import Body, as_json, body_of, wants
from app.web.session.view import (
    ResultCheck,
    alike,
    check_result_text,
    form_values,
    like_list,
    past_list,
    past_of,
)
from app.web.site import Site, site_of

MOST_DRAFTS = 1_000


async def past(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/past: earlier results; of `?one=SESSION/SEQ` all there is."""
    site, session_id = site_of(request), request.path_params["id"]
    call = await _call(request)
    if place := request.query_params.get("one"):
        session, _, seq = place.rpartition("/")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 16):
            raise BadInput("one is SESSION/SEQ, as the list of past results has it.")
        result = await past_result(site.engine.log, session, int(seq))
        return as_json(await asyncio.to_thread(_whole, call, result))
    rows = await site.engine.log.past_results(call.name, session_id)
    results = await asyncio.to_thread(lambda: [past_of(row, session_id) for row in rows])
    if wants(request) == "json":
        return as_json({"past": [asdict(row) for row in results]})
    return HTMLResponse(past_list(site.env, results, site.engine.sessions.clock()))


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
    suggestion = await asyncio.to_thread(suggest_result, call, number)
    return as_json(
        {
            "text": indent_json(suggestion.text),
            "form": form_values(_schema(call), suggestion.text),
            "made_from": suggestion.made_from,
            "number": number,
        }
    )


async def check(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/check: what `text` would be for the model; with `lay_out` also
    the text laid out."""
    body = await body_of(request)
    call, text = await _call(request), body.text("text").replace("\r\n", "\n")
    schema = None if body.flag("is_error") else _schema(call)
    checked: dict[str, Any] = asdict(await asyncio.to_thread(_check_text, schema, text))
    if body.flag("lay_out"):
        checked["text"] = await asyncio.to_thread(indent_json, text)
    return as_json(checked)


async def _call(request: Request) -> Call:
    async with site_of(request).engine.sessions.holding(request.path_params["id"]) as live:
        return live.session.call(request.path_params["call"])


def _schema(call: Call) -> Any:
    return call.tool.config.get("output_schema") if call.tool is not None else None


def _check_text(schema: Any, text: str) -> ResultCheck:
    if schema is None:
        return check_result_text(text, None)
    try:
        problems = misfits(schema, strict_json.parse(text))
    except strict_json.InvalidJSON:
        problems = ()
    return check_result_text(text, [problem.message for problem in problems])


def _whole(call: Call, result: ToolResult) -> dict[str, Any]:
    """A result as the editor takes it."""
    images = [to_data(piece) for piece in result.content if piece.type == "image"]
    return {
        "text": result.text,
        "form": form_values(_schema(call), result.text),
        "is_error": result.is_error,
        "images": [{"media_type": image["media_type"], "data": image["data"]} for image in images],
    }


# An answer that is written: the fields of its form or its text, whether it fits the schema of the
# tool's results, and one answer for several calls.


class ResultMisfit(Refused):
    """An answer that does not fit. `problems` are shown at the fields of `form`, where it came from
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
    and the user did not say that it should go all the same. A script's text goes as it is."""
    if body.form is None or asked.decision != "answer":
        return asked
    # A browser sends a line's end as CR LF, whatever the user typed.
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
    except ResultMisfit as misfit:
        misfit.schema, misfit.form = schema, form
        misfit.key = f"{call_id.replace('.', '-')}-{call.digest[:12]}"
        raise
    return replace(asked, text=text)


def at_fields(env: Environment, misfit: ResultMisfit) -> str:
    """The sentence of each field of the answer's form, as pieces for htmx: no input is touched."""
    if misfit.form is None:
        return ""
    rows, _ = rows_of(as_typed(fields(misfit.schema), misfit.form), misfit.problems)
    macros, at = env.get_template("_fields.html").make_module(), f"answer-{misfit.key}"
    return "".join(
        partial(f"{at}-wrong-{row.number}", "outerMorph", macros.wrong(at, row))  # type: ignore[attr-defined]
        for row in flat_rows(rows)
        if row.field.kind != "object"
    )


def _text(schema: object, form: Form) -> str:
    filled = value_of(schema, form, _name_of)
    if filled.problems:
        sentence = " ".join(problem.message for problem in filled.problems[:3])
        raise ResultMisfit(sentence, filled.problems)
    return filled.text


def _check(schema: dict[str, object], text: str, *, by_form: bool) -> None:
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        sentence = (
            "Nothing is answered yet." if not text.strip() else f"This is not valid JSON. {error}"
        )
        lacking = _lacking(schema, {}) if by_form and not text.strip() else ()
        raise ResultMisfit(f"{sentence} {ANYWAY}", lacking) from None
    problems = schema_problems(schema, value, _name)
    if problems:
        if by_form:  # what is missing is said once, at its field, and not of the whole again
            lacking = _lacking(schema, value)
            missing = {problem.pointer for problem in lacking}
            problems = (*lacking, *schema_problems(schema, value, _name, missing))
        more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
        raise ResultMisfit(f"{problems[0].message}{more} {ANYWAY}", problems)


def misfits(schema: Mapping[str, Any], value: object) -> tuple[Problem, ...]:
    """What keeps `value` from being a result by `schema`, as a user reads it."""
    return schema_problems(schema, value, lambda place: pointer(place) or "The answer")


def _lacking(schema: object, value: object) -> tuple[Problem, ...]:
    """What must be there and is not, each at the field that it is missing from: the schema's own
    word for it is about the whole."""
    return tuple(
        Problem("schema", f"{_name_of(field.pointer)} is missing; it must be given.", field.pointer)
        for field in flat(fields(schema))
        if field.required
        and not field.rest
        and field.kind != "object"
        and isinstance(value_at(value, field.pointer.rpartition("/")[0]), dict)
        and value_at(value, field.pointer) is ABSENT
    )


def _name(place: Place) -> str:
    """What the form calls the value at `place`."""
    return ".".join(map(str, place)) or "The answer"


def _name_of(where: str) -> str:
    return ".".join(map(_step, where[1:].split("/")))


def _step(where: str) -> str:
    """The last name of a pointer."""
    return name_of_step(where.rpartition("/")[2])


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
            code = error.error_code
            return {**holds, "call": call_id, "ok": False, "error": str(error), "code": code}
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
