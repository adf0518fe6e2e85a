"""User actions in a session: prompt, decide, answer a call by hand, stop, continue, change settings
and title."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.arguments import ABSENT, name_of_step, value_at
from playground.core.errors import BadInput, Conflict, PlaygroundError, Refused
from playground.core.events import Problem
from playground.core.serialization import to_data
from playground.core.session import Call
from playground.core.tools import ToolResult
from playground.engine.decisions import DecisionRequest, ResultDecision
from playground.engine.settings import settings_from
from playground.engine.suggestions import past_result, suggest_result
from playground.protocols.raw_json import JsonText
from playground.render.arguments import fill_fields, flat_fields, flat_rows, indent_json, rows_of
from playground.render.environment import partial, toast
from playground.render.view import SHOWN_ARGUMENTS
from playground.schema import strict_json
from playground.schema.form import Form, fields, value_of
from playground.schema.schema_checks import Place, pointer
from playground.schema.validate import schema_problems
from playground.web.forms import (
    LARGE,
    Body,
    answer,
    answer_format,
    as_json,
    body_of,
    images_of,
    json_of,
)
from playground.web.session.setup import (
    SetupOutcome,
    apply_changes,
    sent_limits,
    setup_partial,
    shown_settings,
    with_group,
)
from playground.web.session.view import (
    ResultCheck,
    alike_calls,
    check_result_text,
    form_values,
    like_list,
    past_list,
    past_row,
    refused_fields,
)
from playground.web.site import Site, site_of

MOST_DRAFTS = 1_000

ANYWAY = "Correct it, or select “even if it does not match the schema”."


def _session_path(request: Request) -> str:
    return f"/sessions/{request.path_params['id']}"


async def prompt(request: Request) -> Response:
    """POST /sessions/ID/prompts: sends a prompt: a text, with or without images.

    ---
    responses:
      202: {description: It is accepted.}
    """
    body = await body_of(request)
    text, images = body.text("text"), await images_of(body)
    site = site_of(request)
    async with site.changing:  # A settings change in progress applies to the prompt after it.
        await site.engine.runner.prompt(request.path_params["id"], text, images)
    return answer(request, {"ok": True}, status=202, location=_return_path(request))


async def decide(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/decision: decides a call. A form's answer may apply to further
    calls."""
    body = await body_of(request)
    site, session_id = site_of(request), request.path_params["id"]
    call_id = request.path_params["call"]
    wanted = replace(parse_decision(body), images=await images_of(body, "answer"))
    try:
        wanted = await add_form_text(site, session_id, call_id, wanted, body)
    except ResultMismatch as misfit:
        if answer_format(request) != "htmx":
            raise
        return HTMLResponse(field_errors(site.env, misfit) + toast(site.env, str(misfit)), 422)
    if others := ticked_calls(wanted, body):
        outcomes = await decide_each(site, session_id, [(call_id, wanted), *others])
        return _decision_answer(request, outcomes, 200 if outcomes[0]["ok"] else 409)
    await site.engine.runner.decide(session_id, call_id, wanted)
    return answer(request, {"ok": True, "call": call_id}, location=_return_path(request))


async def decide_result(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/result: passes an agent's result of a call on to the provider,
    unchanged or replaced by `text`, as an error or not."""
    params, body = request.path_params, await body_of(request)
    text = body.text("text") if "text" in body.data else None
    wanted = ResultDecision(body.text("digest"), text, body.flag("is_error"))
    if text is None and wanted.is_error:
        raise BadInput(
            "is_error needs text, the error message. Without both, the result is unchanged."
        )
    await site_of(request).engine.runner.decide_result(params["id"], params["call"], wanted)
    return answer(request, {"ok": True, "call": params["call"]}, location=_return_path(request))


def parse_decision(body: Body, *path: int) -> DecisionRequest:
    """The decision of a form or a JSON body; `arguments` may be an object or JSON text.

    An object is taken exactly as written, with its digits and order; an empty text is `{}`, and
    only a decision without the field runs the model's own arguments.
    """
    return DecisionRequest(
        body.text("decision"),
        digest=body.text("digest"),
        arguments=body.arguments(*path, default=None),
        anyway=body.flag("anyway"),
        text=body.text("text"),
        is_error=body.flag("is_error"),
        seen=None if body.is_json else _seen_length(body),
        lift=body.flag("lift"),
        fault=body.text("fault"),
        model_reads=body.flag("model_reads"),
    )


def _seen_length(body: Body) -> int:
    """How much of the arguments the page's card showed when its form was sent."""
    seen = body.text("seen", str(SHOWN_ARGUMENTS))
    if not re.fullmatch("[0-9]{1,9}", seen):
        raise BadInput("seen must be a number of characters. Reload the page.")
    return int(seen)


async def decide_several(request: Request) -> Response:
    """POST /sessions/ID/decisions: decides several calls, each separately. Answers the outcome of
    each.

    ---
    requestBody:
      content:
        application/json: {schema: {type: array, items: {type: object}}}
    """
    decisions = await body_of_list(request)
    site, session_id = site_of(request), request.path_params["id"]
    return _decision_answer(request, await decide_each(site, session_id, decisions))


def _decision_answer(
    request: Request, outcomes: list[dict[str, Any]], status: int = 200
) -> Response:
    """A page is told only the failures; the stream shows it the rest."""
    refused = refusals(outcomes)
    if refused and answer_format(request) == "htmx":
        return HTMLResponse(toast(site_of(request).env, refused), status)
    if refused and answer_format(request) == "page":
        raise Conflict(refused)
    return answer(request, outcomes, location=_return_path(request))


async def body_of_list(request: Request) -> list[tuple[str, DecisionRequest | PlaygroundError]]:
    """A JSON list of decisions, or a form with `decision` and repeated `call` = "ID DIGEST". A list
    item that cannot be parsed is returned as its error."""
    if not request.headers.get("content-type", "").startswith("application/json"):
        body = await body_of(request)
        pairs = [shown.partition(" ") for shown in body.getlist("call")]
        decision, seen = body.text("decision"), _seen_length(body)
        return [(call, DecisionRequest(decision, digest, seen=seen)) for call, _, digest in pairs]
    raw = await request.body()
    listed = await asyncio.to_thread(json_of, raw) if len(raw) > LARGE else json_of(raw)
    if not isinstance(listed, list) or not all(isinstance(item, dict) for item in listed):
        raise BadInput("The body must be a list of decisions.")
    quoted = JsonText(raw.decode("utf-8"))
    return [
        (str(item.get("call", "")), await _parse_listed(Body(item, quoted=quoted), place))
        for place, item in enumerate(listed)
    ]


async def _parse_listed(body: Body, place: int) -> DecisionRequest | PlaygroundError:
    try:
        return replace(parse_decision(body, place), images=await images_of(body, "answer"))
    except PlaygroundError as error:
        return error


async def cancel(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/cancel: cancels a running call, or the decision to run one."""
    params = request.path_params
    await site_of(request).engine.runner.cancel(params["id"], params["call"])
    return answer(request, {"ok": True}, location=_return_path(request))


async def extend(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/extend: gives a running call `seconds` more, 1 to 3600."""
    params, body = request.path_params, await body_of(request)
    seconds = body.data.get("seconds")
    if isinstance(seconds, str) and re.fullmatch("[0-9]{1,4}", seconds, re.ASCII):
        seconds = int(seconds)
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    seconds = float(seconds) if number and seconds is not None else 0.0
    if not 1 <= seconds <= 3600:
        raise BadInput("seconds must be a number from 1 to 3600.")
    await site_of(request).engine.runner.extend(params["id"], params["call"], seconds)
    return answer(request, {"ok": True}, location=_return_path(request))


async def background(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/background: moves a running call to the background. The run
    continues without it; the answer names the task."""
    params = request.path_params
    task_id = await site_of(request).engine.runner.move_to_background(params["id"], params["call"])
    return answer(request, {"ok": True, "task": task_id}, location=_return_path(request))


async def stop(request: Request) -> Response:
    """POST /sessions/ID/stop: stops the run of a session."""
    await site_of(request).engine.runner.stop(request.path_params["id"])
    return answer(request, {"ok": True}, location=_return_path(request))


async def resume(request: Request) -> Response:
    """POST /sessions/ID/continue: continues a paused or stopped run. Limits sent with it apply from
    now on. `pause` is the number of the event that paused or stopped the run, if the client means
    only that pause."""
    site, session_id, body = site_of(request), request.path_params["id"], await body_of(request)
    limits, settings = sent_limits(body), None
    pause = _number(body, "pause", "the number of the event that paused the run")
    async with site.changing:
        if limits:
            async with site.engine.sessions.lock_session(session_id) as live:
                now = live.session.settings
            settings = await settings_from(site.engine, limits, now)
        await site.engine.runner.resume(session_id, settings, pause)
    return answer(request, {"ok": True}, location=_return_path(request))


async def retry(request: Request) -> Response:
    """POST /sessions/ID/retry: retries the given turn, by default the last one."""
    turn = _number(await body_of(request), "turn", "the number of a turn")
    await site_of(request).engine.runner.retry(request.path_params["id"], turn)
    return answer(request, {"ok": True}, location=_return_path(request))


async def rename(request: Request) -> Response:
    """POST /sessions/ID/rename: gives a session another title."""
    body, sessions = await body_of(request), site_of(request).engine.sessions
    title = " ".join(body.text("title").split())
    if not title or len(title) > 200:
        raise BadInput("A title must have 1 to 200 characters.")
    async with sessions.lock_session(request.path_params["id"]) as live:
        live.check_open()
        await sessions.rename(live, title)
    return answer(request, {"ok": True}, location=_return_path(request))


async def delete(request: Request) -> Response:
    """POST /sessions/ID/delete: deletes a session: hides it until `restore` shows it again."""
    site, session_id = site_of(request), request.path_params["id"]
    await site.engine.runner.delete(session_id)
    return answer(request, {"ok": True}, location=f"/?deleted={session_id}")


async def restore(request: Request) -> Response:
    """POST /sessions/ID/restore: restores a deleted session."""
    site, session_id = site_of(request), request.path_params["id"]
    async with site.engine.sessions.lock_session(session_id) as live:
        await site.engine.sessions.delete(live, deleted=False)
    return answer(request, {"ok": True}, location=_session_path(request))


async def change_settings(request: Request) -> Response:
    """POST /sessions/ID/settings: changes the given settings, from the next request on. JSON
    changes all of them or none; of the form, each field that can be saved is saved."""
    body, site = await body_of(request), site_of(request)
    session_id = request.path_params["id"]
    async with site.changing:
        async with site.engine.sessions.lock_session(session_id) as live:
            live.check_open()
            now = live.session.settings
            assert now is not None
            shown = now if body.is_json else shown_settings(live.session, body)
        if body.is_json:
            outcome = SetupOutcome(await settings_from(site.engine, body.data, now), {})
        else:
            save = functools.partial(settings_from, site.engine)
            body = with_group(body, await site.engine.library.tools())
            outcome = await apply_changes(body, shown, now, save)
        await site.engine.runner.settings(session_id, outcome.settings)
    if answer_format(request) == "htmx":
        async with site.engine.sessions.lock_session(session_id) as live:
            drawn = await setup_partial(site, live, await site.view(live))
        status = 422 if outcome.refused else 200
        return HTMLResponse(drawn + refused_fields(site.env, outcome.refused), status)
    if outcome.refused:
        raise BadInput(" ".join((*outcome.refused.values(), "All other changes are saved.")))
    return answer(request, {"ok": True}, location=_session_path(request))


async def paste_key(request: Request) -> Response:
    """POST /keys: takes a key for this process, held in memory only. Without a value, it stores an
    origin that the key of that name may be sent to."""
    body, engine = await body_of(request), site_of(request).engine
    name, base_url = body.text("name").strip(), body.text("base_url").strip()
    if base_url and not body.text("value"):
        await engine.confirm(name, base_url)
    else:
        engine.keys.paste(name, body.text("value"), base_url)
    site_of(request).engine.sessions.notify_list()
    if session_id := body.text("session"):  # the form, which is removed when it is done
        return answer(request, {"ok": True}, location=f"/sessions/{quote(session_id, safe='')}")
    back = urlsplit(request.headers.get("referer", "/")).path or "/"
    location = "" if request.headers.get("hx-request") else back
    return answer(request, {"ok": True}, location=location)


def _number(body: Body, name: str, what: str) -> int | None:
    """A whole number, in a form as text; None if absent."""
    value = body.data.get(name)
    if isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value, re.ASCII):
        return int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadInput(f"{name} must be {what}.")
    return value


def _return_path(request: Request) -> str:
    """The page a plain form returns to; htmx stays and gets changes from the stream."""
    return "" if request.headers.get("hx-request") else _session_path(request)


# Answering a call manually: earlier results, drafts and checks, and the answer itself.


async def list_past(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/past?one=SESSION/SEQ: lists earlier results of the tool of a
    call. With `one`, one in full."""
    site, session_id = site_of(request), request.path_params["id"]
    call = await _call(request)
    if place := request.query_params.get("one"):
        session, _, seq = place.rpartition("/")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 16):
            raise BadInput("one must be SESSION/SEQ, as in the list of past results.")
        result = await past_result(site.engine.log, session, int(seq))
        return as_json(await asyncio.to_thread(_editor_data, call, result))
    rows = await site.engine.log.past_results(call.name, session_id)
    results = await asyncio.to_thread(lambda: [past_row(row, session_id) for row in rows])
    if answer_format(request) == "json":
        return as_json({"past": [asdict(row) for row in results]})
    return HTMLResponse(past_list(site.env, results, site.engine.sessions.clock()))


async def list_alike(request: Request) -> Response:
    """GET /sessions/ID/calls/CALL/like: lists the waiting calls that could get the same answer."""
    site = site_of(request)
    async with site.engine.sessions.lock_session(request.path_params["id"]) as live:
        calls = alike_calls(live.session, live.session.call(request.path_params["call"]))
        if answer_format(request) == "json":
            return as_json(
                {
                    "like": [
                        {"call": call.id, "digest": call.digest, "arguments": call.arguments}
                        for call in calls
                    ]
                }
            )
        return HTMLResponse(like_list(site.env, calls))


async def draft_answer(request: Request) -> Response:
    """POST /sessions/ID/calls/CALL/draft: generates an answer to a call. Each `number` gives
    another one."""
    body = await body_of(request)
    number: Any = body.data.get("number", 0)
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 5:
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < MOST_DRAFTS:
        raise BadInput(f"number must be a whole number from 0 to {MOST_DRAFTS - 1}.")
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
    """POST /sessions/ID/calls/CALL/check: checks how the model would see `text` as a result. With
    `lay_out`, it also lays the text out."""
    body = await body_of(request)
    call, text = await _call(request), body.text("text")
    schema = None if body.flag("is_error") else _schema(call)
    checked: dict[str, Any] = asdict(await asyncio.to_thread(_check_text, schema, text))
    if body.flag("lay_out"):
        checked["text"] = await asyncio.to_thread(indent_json, text)
    return as_json(checked)


async def _call(request: Request) -> Call:
    async with site_of(request).engine.sessions.lock_session(request.path_params["id"]) as live:
        return live.session.call(request.path_params["call"])


def _schema(call: Call) -> Any:
    return call.tool.config.get("output_schema") if call.tool is not None else None


def _check_text(schema: Any, text: str) -> ResultCheck:
    if schema is None:
        return check_result_text(text, None)
    try:
        problems = schema_mismatches(schema, strict_json.parse(text))
    except strict_json.InvalidJSON:
        problems = ()
    return check_result_text(text, [problem.message for problem in problems])


def _editor_data(call: Call, result: ToolResult) -> dict[str, Any]:
    """A result in the form the editor takes."""
    images = [to_data(piece) for piece in result.content if piece.type == "image"]
    return {
        "text": result.text,
        "form": form_values(_schema(call), result.text),
        "is_error": result.is_error,
        "images": [{"media_type": image["media_type"], "data": image["data"]} for image in images],
    }


# A written answer: the fields of its form or its text, its check against the tool's result schema,
# and one answer for several calls.


class ResultMismatch(Refused):
    """An answer that does not match the schema. `problems` are shown at the fields of `form`, if it
    came from one, on the card of the call that `key` names."""

    def __init__(self, sentence: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(sentence)
        self.problems = problems
        self.schema: object = None
        self.form: Form | None = None
        self.key = ""


async def add_form_text(
    site: Site, session_id: str, call_id: str, asked: DecisionRequest, body: Body
) -> DecisionRequest:
    """`asked` with the text that the page's form spells. Refused if it does not match the schema
    and the user did not choose to send it anyway. A script's text is sent unchanged."""
    if body.form is None or asked.decision != "answer":
        return asked
    async with site.engine.sessions.lock_session(session_id) as live:
        call = live.session.call(call_id)
    schema = call.tool.config.get("output_schema") if call.tool is not None else None
    if schema is None:
        return asked
    text, form = asked.text, None
    if body.text("by") == "form":
        form = {name: body.getlist(name) for name in body.form if ":" in name}
    try:
        if form is not None:
            text = await asyncio.to_thread(_text, schema, form)
        if not (body.flag("misfit") or asked.is_error):
            await asyncio.to_thread(_check, schema, text, by_form=form is not None)
    except ResultMismatch as misfit:
        misfit.schema, misfit.form = schema, form
        misfit.key = f"{call_id.replace('.', '-')}-{call.digest[:12]}"
        raise
    return replace(asked, text=text)


def field_errors(env: Environment, misfit: ResultMismatch) -> str:
    """The sentence of each field of the answer's form, as pieces for htmx; inputs stay."""
    if misfit.form is None:
        return ""
    rows, _ = rows_of(fill_fields(fields(misfit.schema), misfit.form), misfit.problems)
    macros, at = env.get_template("_fields.html").make_module(), f"answer-{misfit.key}"
    return "".join(
        partial(f"{at}-wrong-{row.number}", "outerMorph", macros.field_error(at, row))  # type: ignore[attr-defined]
        for row in flat_rows(rows)
        if row.field.kind != "object"
    )


def _text(schema: object, form: Form) -> str:
    filled = value_of(schema, form, _name_of)
    if filled.problems:
        sentence = " ".join(problem.message for problem in filled.problems[:3])
        raise ResultMismatch(sentence, filled.problems)
    return filled.text


def _check(schema: dict[str, object], text: str, *, by_form: bool) -> None:
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        sentence = (
            "Nothing was answered yet." if not text.strip() else f"This is not valid JSON. {error}"
        )
        lacking = _missing_values(schema, {}) if by_form and not text.strip() else ()
        raise ResultMismatch(f"{sentence} {ANYWAY}", lacking) from None
    problems = schema_problems(schema, value, _name)
    if problems:
        if by_form:  # what is missing is reported once, at its field, and not for the whole again
            lacking = _missing_values(schema, value)
            missing = {problem.pointer for problem in lacking}
            problems = (*lacking, *schema_problems(schema, value, _name, missing))
        more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
        raise ResultMismatch(f"{problems[0].message}{more} {ANYWAY}", problems)


def schema_mismatches(schema: Mapping[str, Any], value: object) -> tuple[Problem, ...]:
    """Why `value` does not match `schema`, in words for a user."""
    return schema_problems(schema, value, lambda place: pointer(place) or "The answer")


def _missing_values(schema: object, value: object) -> tuple[Problem, ...]:
    """Missing required values, each at its own field: the schema's own error is about the parent
    object."""
    return tuple(
        Problem("schema", f"{_name_of(field.pointer)} is required.", field.pointer)
        for field in flat_fields(fields(schema))
        if field.required
        and not field.rest
        and field.kind != "object"
        and isinstance(value_at(value, field.pointer.rpartition("/")[0]), dict)
        and value_at(value, field.pointer) is ABSENT
    )


def _name(place: Place) -> str:
    """The form's name of the value at `place`."""
    return ".".join(map(str, place)) or "The answer"


def _name_of(where: str) -> str:
    return ".".join(map(_step, where[1:].split("/")))


def _step(where: str) -> str:
    """The last key of a pointer."""
    return name_of_step(where.rpartition("/")[2])


async def decide_each(
    site: Site, session_id: str, decisions: Sequence[tuple[str, DecisionRequest | PlaygroundError]]
) -> list[dict[str, Any]]:
    """Decides each separately and concurrently, so that no check waits for another's; returns the
    outcomes in order. A decision that could not be parsed is its error."""

    async def decide_one(call_id: str, asked: DecisionRequest | PlaygroundError) -> dict[str, Any]:
        try:
            if isinstance(asked, PlaygroundError):
                raise asked
            await site.engine.runner.decide(session_id, call_id, asked)
        except PlaygroundError as error:
            holds = error.outcome if isinstance(error, Conflict) else {}
            code = error.error_code
            return {**holds, "call": call_id, "ok": False, "error": str(error), "code": code}
        return {"call": call_id, "ok": True}

    # All run to the end: an exception in one decision must not hide another's outcome.
    ends = await asyncio.gather(*(decide_one(*each) for each in decisions), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
    return [end for end in ends if isinstance(end, dict)]


def refusals(outcomes: Sequence[Mapping[str, Any]]) -> str:
    """The reasons of failed decisions, each with its call; "" if all succeeded."""
    return " ".join(
        f"{outcome['call']}: {outcome['error']}" for outcome in outcomes if not outcome["ok"]
    )


def ticked_calls(asked: DecisionRequest, body: Body) -> list[tuple[str, DecisionRequest]]:
    """The other calls ticked in the page's form for the same answer, each with its own digest."""
    if body.form is None or asked.decision != "answer":
        return []
    named = (shown.partition(" ") for shown in body.getlist("also"))
    return [(call, replace(asked, digest=digest)) for call, _, digest in named]
