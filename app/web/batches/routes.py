"""Batches: the list, a new one, its page while it runs and after, its report as a file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from app.batch.batches import BatchProgress
from app.batch.plan import BatchPlan
from app.core.errors import BadInput, NotFound
from app.engine.export_session import read_bundle
from app.evaluation.batch_import import read_batch
from app.evaluation.exports import (
    batch_ended,
    write_csv,
    write_html,
    write_json,
    write_junit,
    write_markdown,
)
from app.evaluation.report import BatchReport, make_report
from app.evaluation.spec import Spec, spec_data
from app.evaluation.spec_reader import spec_from_data
from app.exchange.batch_export import spec_data_of
from app.web.batches.view import (
    BatchForm,
    BatchState,
    batch_page,
    form_page,
    list_page,
    report_fragment,
)
from app.web.forms import Body, answer, as_json, body_of, wants
from app.web.session.setup import grouped
from app.web.site import Site, site_of

EXPORTS = {
    "csv": write_csv,
    "json": write_json,
    "junit": write_junit,
    "markdown": write_markdown,
    "html": write_html,
}
LARGEST_FILE = 8 * 1024 * 1024


async def batches(request: Request) -> Response:
    """GET /batches: all of them, the newest first."""
    site = site_of(request)
    states = [_state(progress) for progress in await site.batches.list()]
    if wants(request) == "json":
        return as_json([_data(state) for state in states])
    return HTMLResponse(list_page(site.env, states, site.engine.sessions.clock()))


async def new(request: Request) -> Response:
    """GET /batches/new: the form; with `?session=ID` filled with that session's first run."""
    site, session_id = site_of(request), request.query_params.get("session", "")
    form = BatchForm(EXAMPLE)
    if session_id:
        notes: list[str] = []
        bundle = await read_bundle(site.engine, session_id, form="batch")
        data = spec_data_of(bundle, "from-session", notes)
        form = BatchForm(_as_yaml(data), session=session_id, title=bundle.title, notes=tuple(notes))
        form = replace(form, repetitions="20")
    return HTMLResponse(form_page(site.env, form, _choices(site)))


async def create(request: Request) -> Response:
    """POST /batches: a SPEC as JSON, or a form (`spec` or `file`, with `models`, `repetitions` and
    `max_cost` in place of what it says; `do` "check" begins nothing). 201 `{"id"}`."""
    site, body = site_of(request), await body_of(request)
    if body.is_json:
        batch_id = await site.batches.start(await site.batches.plan(spec_from_data(body.data)))
        return answer(request, {"id": batch_id}, status=201, location=f"/batches/{batch_id}")
    form = await _typed(body)
    try:
        spec, notes = await asyncio.to_thread(_spec_of, form)
        plan = await site.batches.plan(spec)
    except (BadInput, NotFound) as error:
        if wants(request) == "json":
            raise
        wrong = site.engine.keys.redactor().redact_text(str(error))
        page = form_page(site.env, replace(form, wrong=wrong), _choices(site))
        return HTMLResponse(page, 422)
    if body.text("do") == "check":
        checked = replace(form, notes=(*notes, *plan.notes, _costs(plan)))
        return HTMLResponse(form_page(site.env, checked, _choices(site)))
    batch_id = await site.batches.start(plan)
    return answer(request, {"id": batch_id}, status=201, location=f"/batches/{batch_id}")


async def batch(request: Request) -> Response:
    """GET /batches/ID: as a page, or the report as JSON with its `id`."""
    site, (state, report) = site_of(request), await _read(request)
    if wants(request) == "json":
        return as_json({**_data(state), **batch_ended(report)})
    return HTMLResponse(await asyncio.to_thread(batch_page, site.env, state, report))


async def changed(request: Request) -> Response:
    """GET /batches/ID/report?version=…: what the page shows of it; 204 where that is the same."""
    site, batch_id = site_of(request), request.path_params["id"]
    state = _state(await site.batches.progress(batch_id))
    if request.query_params.get("version") == state.version:
        return Response(status_code=204)
    state, report = await _read(request)
    return HTMLResponse(await asyncio.to_thread(report_fragment, site.env, state, report))


async def act(request: Request) -> Response:
    """POST /batches/ID/pause|resume|stop"""
    site, batch_id = site_of(request), request.path_params["id"]
    body, verb = await body_of(request), request.url.path.rpartition("/")[2]
    if verb == "pause":
        await site.batches.pause(batch_id)
    elif verb == "stop":
        await site.batches.stop(batch_id)
    else:
        await site.batches.resume(batch_id, retry_unknown=body.flag("retry_unknown"))
    return answer(request, {"ok": True}, location=f"/batches/{batch_id}")


async def export(request: Request) -> Response:
    """GET /batches/ID/export?as=csv|json|junit|markdown|html|spec: a file."""
    form = request.query_params.get("as", "")
    if form not in (*EXPORTS, "spec"):
        raise BadInput(f"There is no form {form[:40]!r}; there is {', '.join(EXPORTS)}, spec.")
    _, report = await _read(request)
    if form == "spec":
        data, name, kind = _as_yaml(spec_data(report.spec)).encode(), "batch.yaml", "text/plain"
    else:
        written = await asyncio.to_thread(EXPORTS[form], report)
        data, name, kind = written.data, written.file_name, written.media_type
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, 200, headers, f"{kind}; charset=utf-8")


async def _read(request: Request) -> tuple[BatchState, BatchReport]:
    site, batch_id = site_of(request), request.path_params["id"]
    progress = await site.batches.progress(batch_id)
    spec, results = await site.batches.spec(batch_id), await site.batches.results(batch_id)
    stopped = progress.state == "stopped"
    report = await asyncio.to_thread(make_report, spec, results, stopped=stopped)
    return _state(progress, spec.max_cost), report


def _state(progress: BatchProgress, limit: float = 0.0) -> BatchState:
    return BatchState(
        progress.id,
        progress.name,
        progress.state,
        progress.why,
        progress.runs,
        progress.outcomes,
        progress.under_way,
        progress.spent,
        limit,
        progress.seconds_left,
        progress.created_ms,
    )


def _data(state: BatchState) -> Mapping[str, Any]:
    """A batch as scripts read it."""
    return {
        "id": state.id,
        "name": state.name,
        "state": state.state,
        "why": state.why,
        "planned": state.runs,
        "done": state.done,
        "under_way": state.under_way,
        "outcomes": dict(state.outcomes),
        "spent": state.spent,
        "seconds_left": state.seconds_left,
        "created_ms": state.created_ms,
    }


# The form -----------------------------------------------------------------------------------------


async def _typed(body: Body) -> BatchForm:
    text = body.text("spec").replace("\r\n", "\n")
    upload = body.form.get("file") if body.form is not None else None
    name = body.text("title")
    if upload is not None and not isinstance(upload, str) and upload.filename:
        raw = await upload.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise BadInput("This file has more than 8 MB; run it by `playground batch FILE`.")
        text, name = raw.decode("utf-8", "replace"), upload.filename
    texts = (body.text("repetitions").strip(), body.text("max_cost").strip())
    return BatchForm(text, tuple(body.all("models")), *texts, body.text("session"), name)


def _spec_of(form: BatchForm) -> tuple[Spec, Sequence[str]]:
    """The SPEC that was typed, with what the fields beside it say in its place."""
    imported = read_batch(form.spec, form.title or "batch.yaml", _no_file)
    data = spec_data(imported.spec)
    if form.models:
        data["models"] = list(form.models)
    if form.repetitions:
        defaults = data.setdefault("defaults", {})
        defaults["repetitions"] = _number(form.repetitions, "Repetitions")
    if form.max_cost:
        data["max_cost"] = _number(form.max_cost, "The money limit")
    left_out = [f"Left out: {case.case}: {case.reason}" for case in imported.left_out[:20]]
    return spec_from_data(data), (*imported.notes, *left_out)


def _number(text: str, what: str) -> int | float:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise BadInput(f"{what} must be a number, not {text[:40]!r}.") from None


def _no_file(name: str) -> str:
    raise BadInput(
        f"It names the file {name!r}, which a page cannot read: run `playground batch` in its "
        "folder."
    )


def _costs(plan: BatchPlan) -> str:
    """What it would take, in a sentence."""
    read, wrote = plan.most_tokens
    price = plan.most_price
    money = f"${price:,.2f}" if price is not None else f"an unknown price ({plan.unknown_price})"
    return (
        f"Nothing has begun. This is {plan.spec.runs:,} runs of {len(plan.spec.cases):,} cases, at"
        f" most {read:,} tokens read and {wrote:,} written, at most {money}."
    )


def _choices(site: Site) -> list[tuple[str, list[tuple[str, str]]]]:
    profiles = [profile for profile in site.engine.profiles() if profile.base_url]
    keys = {profile.name: not site.engine.keys.missing(profile) for profile in profiles}
    ready = [profile for profile in profiles if keys[profile.name]]
    return [
        (title, [(profile.name, profile.model) for profile in rows])
        for title, rows in grouped(ready, keys)
        if rows
    ]


def _as_yaml(data: Any) -> str:
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return text


EXAMPLE = """\
playground_batch: 1
name: weather
defaults: {repetitions: 10}
tools:
  - name: get_weather
    description: The weather in a city now.
    parameters:
      type: object
      properties:
        city: {type: string, description: Name of the city.}
      required: [city]
    config: {result: "{{ args.city }}: rain, 11 degrees"}
models: [simulator]
cases:
  - id: one city
    prompt: What is the weather in Oslo?
    expect:
      - called: get_weather
        arguments: {subset: {city: Oslo}}
      - {count: 1}
  - id: no tool
    prompt: Thank you, that was all.
    expect: [{no_call: true}]
"""
"""What the form of a new batch begins with."""
