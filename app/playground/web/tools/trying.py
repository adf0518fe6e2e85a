"""The panel that tries a tool: runs the tool in the editor alone, and logs nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from playground.core.errors import BadInput, BadTool, NotFound, PlaygroundError, Refused
from playground.core.events import Problem
from playground.core.serialization import to_data
from playground.core.tools import TOOL_KINDS, Tool, text_result
from playground.engine.redaction import check_tools
from playground.engine.try_tool import STEP_S, Try, TryCheck, TryRequest
from playground.exchange.tool_export import WireForm, results_data, wire_results
from playground.net.threads import run_in_daemon
from playground.render.arguments import fill_fields, indent_json, rows_of
from playground.render.card import source
from playground.render.filters import clip, time_ago
from playground.schema.form import fields, form_of, value_of
from playground.schema.satisfy import sample_value
from playground.schema.validate import check_call, check_tool, schema_problems
from playground.web.forms import Body, answer_format, as_json, body_of
from playground.web.site import Site, site_of
from playground.web.tools import view as draw
from playground.web.tools.editor import typed_tool
from playground.web.tools.view import (
    Mode,
    PastArguments,
    TryOutcome,
    TryPanel,
    result_on_wire,
)

WAIT_S = 20.0
"""How long a request for the state of a try is held while there is nothing new, in seconds."""

LOOKS = ("form", "json", "sample", "past", "over", "look", "check")
"""Values of `do` besides run, anyway and answer: they redraw the arguments."""

NEW = "Give the tool a name to try it here."
BROKEN = "This is not a valid tool yet. Fix the errors to try it."


async def run(request: Request) -> Response:
    """POST /tools/try: runs a tool outside of any session, or performs the action `do` of the
    form's button."""
    body = await body_of(request)
    if body.is_json:
        return await _run_for_script(request, body)
    site, typed = site_of(request), _read_form(body)
    try:
        tool, name = await _tool(site, body)
    except BadTool as error:
        return _panel_answer(request, broken_panel(body.text("try_tool"), error), body.text("do"))
    do = body.text("do", "run")
    try:
        if do in LOOKS:
            typed = await _apply_button(site, tool, body, typed)
            return _panel_answer(request, await panel_of(site, tool, name, typed), do)
        return await _run_for_page(request, tool, name, typed, body)
    except PlaygroundError as error:
        if answer_format(request) != "htmx":
            raise
        panel = await panel_of(site, tool, name, typed)
        blocks = draw.try_check(site.env, panel) + draw.try_message(site.env, str(error))
        return HTMLResponse(blocks, 422)


async def show(request: Request) -> Response:
    """GET /tools/try/ID?after=: shows the state of a try. With `after`, it waits until the state
    differs."""
    site, after = site_of(request), _number(request.query_params.get("after", ""))
    trial = site.engine.trying.get(request.path_params["id"])
    if after is not None:
        trial = await site.engine.trying.wait(trial.id, after, WAIT_S)
        if trial.result is None:
            await asyncio.sleep(STEP_S)  # endless output is shown in steps
    return await _try_answer(request, trial)


async def cancel(request: Request) -> Response:
    """POST /tools/try/ID/cancel: cancels a try."""
    return await _try_answer(
        request, await site_of(request).engine.trying.cancel(request.path_params["id"])
    )


# For a page.


async def _run_for_page(
    request: Request, tool: Tool, name: str, typed: TypedArguments, body: Body
) -> Response:
    site, do = site_of(request), body.text("do", "run")
    text, problems = text_of(tool, typed)
    if problems:
        return _panel_answer(request, await panel_of(site, tool, name, typed), "check", 422)
    if tool.answered_by == "person":
        return await _try_answer(request, _answer_manually(site, tool, text, typed, body))
    await _refuse_off(site, tool, name)
    wanted = TryRequest(
        tool,
        text,
        typed.scratch,
        anyway=do == "anyway",
        seen=body.text("try_seen"),
        lift=body.flag("try_lift"),
    )
    return await _try_answer(request, await site.engine.trying.start(wanted), typed)


async def _refuse_off(site: Site, tool: Tool, name: str) -> None:
    if await is_off(site, tool, name):
        raise Refused(f"{name} is switched off. Check what it runs and switch it on first.")


def _answer_manually(site: Site, tool: Tool, text: str, typed: TypedArguments, body: Body) -> Try:
    wanted = TryRequest(tool, "{}", typed.scratch)
    result = text_result(text, is_error=body.flag("try_error"))
    return site.engine.trying.record_answer(wanted, result)


async def _try_answer(
    request: Request, trial: Try, typed: TypedArguments | None = None
) -> Response:
    site = site_of(request)
    if answer_format(request) == "json":
        return as_json(await asyncio.to_thread(_data, site, trial))
    here = f"/tools/try/{trial.id}"
    if answer_format(request) == "page":
        if request.method == "POST":
            return RedirectResponse(here, 303)
        return await _page(request, trial)
    html = draw.try_result(site.env, await asyncio.to_thread(try_outcome, site, trial))
    if typed is not None and typed.scratch != trial.scratch:
        again = replace(typed, scratch=trial.scratch)
        tool, name = trial.wanted.tool, (await body_of(request)).text("try_tool")
        html += draw.try_check(site.env, await panel_of(site, tool, name, again))
    return HTMLResponse(html)


async def _page(request: Request, trial: Try) -> Response:
    site, tool = site_of(request), trial.wanted.tool
    typed = fill_arguments(tool, trial.wanted.arguments, TypedArguments(scratch=trial.scratch))
    if tool.answered_by == "person":
        typed = await run_in_daemon(sample_arguments, tool)
    panel = await panel_of(site, tool, tool.name, typed, ask=False)
    seen = await asyncio.to_thread(try_outcome, site, trial)
    return HTMLResponse(draw.try_page(site.env, panel, seen, _back_path(tool.name)))


def _panel_answer(request: Request, panel: TryPanel, do: str, status: int = 200) -> Response:
    env = site_of(request).env
    if answer_format(request) == "page":
        return HTMLResponse(draw.try_page(env, panel, None, _back_path(panel.name)), status)
    if panel.broken:  # keep the input, for when the tool is valid again
        return HTMLResponse(draw.try_message(env, panel.broken, "told"), status)
    drawn = draw.try_check if do == "check" else draw.try_arguments
    return HTMLResponse(drawn(env, panel), status)


def _back_path(name: str) -> str:
    return f"/tools/{name}" if name else "/tools"


async def _apply_button(
    site: Site, tool: Tool, body: Body, typed: TypedArguments
) -> TypedArguments:
    """The arguments after the button's action; unchanged if they cannot be parsed."""
    text, problems = text_of(tool, typed)
    match body.text("do"):
        case "json" if typed.mode == "form" and not problems:
            return replace(typed, mode="json", form={}, text=indent_json(text or "{}"))
        case "form" if typed.mode == "json":
            return fill_arguments(tool, text, replace(typed, mode="form"))
        case "sample":
            sample = await run_in_daemon(sample_arguments, tool)
            shown = indent_json(sample.text) if typed.mode == "json" else sample.text
            return replace(typed, form=sample.form, text=shown)
        case "past":
            return fill_arguments(
                tool, await _past_arguments(site, tool, body.text("try_past")), typed
            )
        case "over":
            await site.engine.trying.forget(typed.scratch)
            return replace(typed, scratch="")
    return typed


async def _past_arguments(site: Site, tool: Tool, key: str) -> str:
    for past_call in await site.engine.log.past_calls(tool.name):
        if f"{past_call.session}/{past_call.seq}" == key:
            return past_call.arguments
    raise NotFound("That call is no longer in the list. Choose another.")


def _read_form(body: Body) -> TypedArguments:
    assert body.form is not None
    form: dict[str, Sequence[str]] = {name: body.getlist(name) for name in body.form if ":" in name}
    text = body.text("try_json")
    json = body.text("try_mode") == "json"
    return TypedArguments("json" if json else "form", form, text, body.text("try_scratch"))


async def _tool(site: Site, body: Body) -> tuple[Tool, str]:
    """The tool in the editor, if its fields were sent; else the saved tool. With the name it is
    saved under."""
    name = body.text("original") or body.text("try_tool")
    if "answered_by" in body.data:
        tool = await run_in_daemon(typed_tool, body)
        check_tools([tool], site.engine.keys.redactor())
        return tool, name
    if not name:
        raise BadTool("Save the tool first to try it.", "/name")
    return await site.engine.library.tool(name), name


# For a script.


async def _run_for_script(request: Request, body: Body) -> Response:
    site = site_of(request)
    named = body.data.get("tool")
    match named:
        case str():
            tool = await site.engine.library.tool(named)
            await _refuse_off(site, tool, named)
        case Mapping():
            tool = await run_in_daemon(check_tool, named)
            check_tools([tool], site.engine.keys.redactor())
        case _:
            raise BadInput("tool must be the name of a tool, or a tool as an object.")
    if tool.answered_by == "person" and "answer" in body.data:
        trial = site.engine.trying.record_answer(
            TryRequest(tool, "{}"), text_result(body.text("answer"), is_error=body.flag("is_error"))
        )
        return await _try_answer(request, trial)
    wanted = TryRequest(
        tool,
        body.arguments(default="{}"),
        body.text("scratch"),
        anyway=body.flag("anyway"),
        lift=body.flag("lift"),
    )
    trial = await site.engine.trying.start(wanted)
    if body.data.get("wait", True) is not False:
        while trial.result is None:
            await site.engine.trying.wait(trial.id, trial.changed, WAIT_S)
    return await _try_answer(request, trial)


def _data(site: Site, trial: Try) -> dict[str, Any]:
    """See docs/contract.md."""
    result = trial.result
    return {
        "id": trial.id,
        "scratch": trial.scratch,
        "state": "running" if result is None else "done",
        "progress": {"text": trial.progress, "fraction": trial.fraction},
        "ms": trial.took_ms,
        "result": None if result is None else {**to_data(result), "text": result.text},
        "wire": results_data(_results(site, trial)),
    }


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


# The panel, assembled from the engine: for the page of tools, and standalone.


@dataclass(frozen=True)
class TypedArguments:
    """The arguments in the form: its fields, or `text` in mode json."""

    mode: Mode = "form"
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    text: str = ""
    scratch: str = ""


def sample_arguments(tool: Tool) -> TypedArguments:
    """Initial arguments, generated from the schema."""
    schema = schema_of(tool)
    if tool.answered_by == "person":
        return TypedArguments("form" if has_form(tool) else "json")
    text = json.dumps(sample_value(schema), ensure_ascii=False)
    return TypedArguments("form", form_of(fields(schema, text)), text)


def fill_arguments(tool: Tool, text: str, typed: TypedArguments) -> TypedArguments:
    """`typed` with the arguments `text`, in the form if it can represent them."""
    read = check_call(tool, tool.name, text)
    if any(problem.kind == "malformed" for problem in read):
        return replace(typed, mode="json", form={}, text=text)
    text = text if text.strip() not in ("", "null") else "{}"
    return replace(typed, form=form_of(fields(schema_of(tool), text)), text=text)


def schema_of(tool: Tool) -> Any:
    """The schema to fill in: that of the arguments, or for a user's tool of the answer."""
    if tool.answered_by == "person":
        return tool.config.get("output_schema", {})
    return tool.parameters


def has_form(tool: Tool) -> bool:
    """Whether there is a schema to generate a form from."""
    return tool.answered_by != "person" or "output_schema" in tool.config


def text_of(tool: Tool, typed: TypedArguments) -> tuple[str, tuple[Problem, ...]]:
    """The JSON text of the input, or its errors with their places."""
    if typed.mode == "json":
        return typed.text, ()
    read = value_of(schema_of(tool), typed.form)
    return read.text, read.problems


async def first_panel(site: Site, tool: Tool | None, name: str = "") -> TryPanel:
    """The panel of a newly opened page: a tool of the library, filled with a sample."""
    if tool is None:
        return TryPanel(None, name, BROKEN if name else NEW)
    typed = await run_in_daemon(sample_arguments, tool)
    return await panel_of(site, tool, name, typed, ask=False)


async def panel_of(
    site: Site, tool: Tool, name: str, typed: TypedArguments, *, ask: bool = True
) -> TryPanel:
    """The panel for `typed`, with its check. Unless `ask`, as for a page that is only viewed, no
    server is started or queried for it."""
    engine = site.engine
    off = await is_off(site, tool, name)
    text, problems = await run_in_daemon(text_of, tool, typed)
    looked = TryCheck(problems, "", "")
    if not problems:
        looked = await _check_arguments(site, tool, text, typed, off=off, ask=ask)
    drawn = () if typed.mode == "json" else fields(schema_of(tool))
    rows, others = rows_of(fill_fields(drawn, typed.form), looked.problems)
    now = engine.sessions.clock()
    past = [] if tool.answered_by == "person" else await engine.log.past_calls(tool.name)
    return TryPanel(
        tool=tool,
        name=name,
        source=source(tool),
        mode=typed.mode,
        rows=rows,
        text=typed.text,
        others=others,
        unsatisfied=looked.unsatisfied and not problems,
        malformed=looked.malformed or bool(problems),
        off=off,
        person=tool.answered_by == "person",
        lifts=tool.answered_by == "workspace" and tool.config.get("tool") == "run_shell",
        # A mock runs nothing that could differ from what was seen.
        seen=looked.seen if tool.answered_by != "mock" else "",
        scratch=typed.scratch,
        past=[
            PastArguments(
                f"{call.session}/{call.seq}",
                f"{time_ago(call.at_ms, now)} · {clip(call.arguments, 60)} · "
                f"{call.title or call.session}",
            )
            for call in past
        ],
    )


async def _check_arguments(
    site: Site, tool: Tool, text: str, typed: TypedArguments, *, off: bool, ask: bool
) -> TryCheck:
    if tool.answered_by == "person":
        return TryCheck(await run_in_daemon(answer_problems, tool, text), "", "")
    if off:  # nothing of it is used, not even its file
        return TryCheck(await run_in_daemon(check_call, tool, tool.name, text), "", "")
    return await site.engine.trying.check(tool, text, typed.scratch, ask=ask)


def answer_problems(tool: Tool, text: str) -> tuple[Problem, ...]:
    """Problems of a manual answer, if there is a schema for it."""
    schema = tool.config.get("output_schema")
    if schema is None:
        return ()
    if not text:
        return (Problem("schema", "Nothing was answered yet."),)
    return schema_problems(schema, json.loads(text))


async def is_off(site: Site, tool: Tool, name: str) -> bool:
    """Whether a user has to switch it on before it may run."""
    if not TOOL_KINDS[tool.answered_by].runs or not name:
        return False
    entries = await site.engine.library.entries()
    return any(entry.tool.name == name and not entry.enabled for entry in entries)


def try_outcome(site: Site, trial: Try) -> TryOutcome:
    """A try in display form."""
    result = trial.result
    return TryOutcome(
        id=trial.id,
        tool=trial.wanted.tool.name,
        source=source(trial.wanted.tool),
        started_ms=trial.started_ms,
        changed=trial.changed,
        progress=trial.progress,
        fraction=trial.fraction,
        took_ms=trial.took_ms,
        result=result,
        wires=[result_on_wire(sent) for sent in _results(site, trial)],
    )


def _results(site: Site, trial: Try) -> list[WireForm]:
    """Its result as each provider would receive it."""
    wanted, result = trial.wanted, trial.result
    if result is None:
        return []
    return wire_results(wanted.tool, wanted.arguments or "{}", result, quirks(site))


def quirks(site: Site) -> dict[str, tuple[str, ...]]:
    """The quirks of the first vendor of each protocol."""
    by_provider: dict[str, tuple[str, ...]] = {}
    for profile in site.engine.profiles():
        if not profile.simulated:
            by_provider.setdefault(profile.protocol, profile.quirks)
    return by_provider


def broken_panel(name: str, error: BadTool) -> TryPanel:
    """The panel of an invalid tool."""
    return TryPanel(None, name, str(error))
