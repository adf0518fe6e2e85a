"""Batches: the list, a new one, its page during and after the run, its report as a file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.batch.batches import BatchProgress
from playground.batch.plan import BatchPlan
from playground.core.errors import BadInput, NotFound
from playground.engine.export_session import read_bundle
from playground.engine.sessions import new_id
from playground.evaluation.batch_import import read_batch
from playground.evaluation.calls_made import NO_TOOL, Confusion
from playground.evaluation.exports import FORMATS, batch_ended, write_report
from playground.evaluation.report import (
    BatchReport,
    Cell,
    GroupSummary,
    RunGroup,
    comparison_sentence,
    failure_sentences,
    group_name,
    make_report,
    percent,
    percents,
    scope_sentence,
)
from playground.evaluation.results import OUTCOMES, RunResult
from playground.evaluation.spec import Spec, spec_data
from playground.evaluation.spec_reader import spec_from_data
from playground.exchange.batch_export import spec_data_of
from playground.net.threads import run_in_daemon
from playground.web.forms import Body, answer, answer_format, as_json, body_of
from playground.web.session.setup import group_profiles
from playground.web.site import Site, site_of

LARGEST_FILE = 8 * 1024 * 1024
TOKEN = re.compile("[0-9a-f]{16}")

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
"""The initial content of the form of a new batch."""

MOST_RUNS = 60
"""Runs that a row shows individually."""

MOST_FAILURES = 200
MOST_CASES = 300

STATES: Mapping[str, tuple[str, str]] = {
    "running": ("running", "live"),
    "paused": ("paused", "waiting"),
    "stopped": ("stopped", "waiting"),
    "ended": ("done", "ran"),
}
"""The word of a state, and the colour of its pill."""

OUTCOME_WORDS: Mapping[str, str] = {
    "passed": "passed",
    "failed": "failed",
    "provider_error": "provider error",
    "unknown": "unknown",
    "needs_person": "needs a decision",
    "stopped": "stopped",
}


async def batches(request: Request) -> Response:
    """GET /batches: lists the batches, the newest first."""
    site = site_of(request)
    states = [_state(progress) for progress in await site.batches.list()]
    if answer_format(request) == "json":
        return as_json([_data(state) for state in states])
    return HTMLResponse(list_page(site.env, states, site.engine.sessions.clock()))


async def new_batch(request: Request) -> Response:
    """GET /batches/new?session=ID: shows the form of a new batch, filled with that session's first
    run.

    ---
    responses:
      200: {description: The form., content: {text/html: {}}}
    """
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
    """POST /batches: starts a batch from a SPEC as JSON, or from a form. Fields of the form are
    `spec` or `file`; `models`, `repetitions` and `max_cost` override the SPEC; `do` "check" starts
    nothing.

    ---
    requestBody:
      content:
        application/json: {schema: {$ref: "#/components/schemas/Batch"}}
    responses:
      201: {description: The id of the batch.}
    """
    site, body = site_of(request), await body_of(request)
    if body.is_json:
        asked = await run_in_daemon(spec_from_data, body.data)
        batch_id = await site.batches.start(await site.batches.plan(asked))
        return answer(request, {"id": batch_id}, status=201, location=f"/batches/{batch_id}")
    form = await _read_form(body)
    try:
        spec, notes = await run_in_daemon(_spec_of, form)
        plan = await site.batches.plan(spec)
    except (BadInput, NotFound) as error:
        if answer_format(request) == "json":
            raise
        wrong = site.engine.keys.redactor().redact_text(str(error))
        page = form_page(site.env, replace(form, wrong=wrong), _choices(site))
        return HTMLResponse(page, 422)
    if body.text("do") == "check":
        checked = replace(form, notes=(*notes, *plan.notes, _costs(plan)))
        return HTMLResponse(form_page(site.env, checked, _choices(site)))
    batch_id = await site.batches.start(plan, token=form.token)
    return answer(request, {"id": batch_id}, status=201, location=f"/batches/{batch_id}")


async def batch(request: Request) -> Response:
    """GET /batches/ID: shows a batch as a page, or its report as JSON."""
    site, (state, report) = site_of(request), await _read(request)
    if answer_format(request) == "json":
        return as_json({**_data(state), **batch_ended(report)})
    return HTMLResponse(await asyncio.to_thread(batch_page, site.env, state, report))


async def redraw_report(request: Request) -> Response:
    """GET /batches/ID/report?version=: redraws the report of a batch for its page.

    ---
    responses:
      200: {description: A part of the page., content: {text/html: {}}}
      204: {description: It is unchanged.}
    """
    site, batch_id = site_of(request), request.path_params["id"]
    state = _state(await site.batches.progress(batch_id))
    if request.query_params.get("version") == state.version:
        return Response(status_code=204)
    state, report = await _read(request)
    return HTMLResponse(await asyncio.to_thread(report_fragment, site.env, state, report))


async def act(request: Request) -> Response:
    """POST /batches/ID/pause|resume|stop: pauses, resumes or stops a batch."""
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
    """GET /batches/ID/export?as=: writes the report of a batch as a file: csv, json, junit,
    markdown, html or spec.

    ---
    responses:
      200:
        description: The file.
        content:
          application/json: {}
          application/xml: {}
          text/csv: {}
          text/html: {}
          text/markdown: {}
          text/plain: {}
    """
    form = request.query_params.get("as", "")
    if form not in (*FORMATS, "spec"):
        raise BadInput(f"There is no export {form[:40]!r}. Use one of {', '.join(FORMATS)}, spec.")
    _, report = await _read(request)
    if form == "spec":
        data, name, kind = _as_yaml(spec_data(report.spec)).encode(), "batch.yaml", "text/plain"
    else:
        written = await asyncio.to_thread(write_report, report, form, site_of(request).env)
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
        name=progress.name,
        state=progress.state,
        why=progress.why,
        runs=progress.runs,
        outcomes=progress.outcomes,
        under_way=progress.under_way,
        spent=progress.spent,
        limit=limit,
        seconds_left=progress.seconds_left,
        created_ms=progress.created_ms,
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


async def _read_form(body: Body) -> BatchForm:
    text = body.text("spec")
    upload = body.form.get("file") if body.form is not None else None
    name = body.text("title")
    if upload is not None and not isinstance(upload, str) and upload.filename:
        raw = await upload.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise BadInput("This file is larger than 8 MB. Run it with `playground batch FILE`.")
        text, name = raw.decode("utf-8", "replace"), upload.filename
    texts = (body.text("repetitions").strip(), body.text("max_cost").strip())
    token = body.text("token")
    token = token if TOKEN.fullmatch(token) else new_id()
    models = tuple(body.getlist("models"))
    return BatchForm(text, models, *texts, body.text("session"), name, token=token)


def _spec_of(form: BatchForm) -> tuple[Spec, Sequence[str]]:
    """The SPEC that was entered, with the values of the other fields applied."""
    imported = read_batch(form.spec, form.title or "batch.yaml", _refuse_file)
    left_out = [f"Left out: {case.case}: {case.reason}" for case in imported.left_out[:20]]
    notes = (*imported.notes, *left_out)
    if not (form.models or form.repetitions or form.max_cost):
        return imported.spec, notes
    data = spec_data(imported.spec)
    if form.models:
        data["models"] = list(form.models)
    if form.repetitions:
        defaults = data.setdefault("defaults", {})
        defaults["repetitions"] = _number(form.repetitions, "Repetitions")
    if form.max_cost:
        data["max_cost"] = _number(form.max_cost, "The cost limit")
    return spec_from_data(data), notes


def _number(text: str, what: str) -> int | float:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise BadInput(f"{what} must be a number, not {text[:40]!r}.") from None


def _refuse_file(name: str) -> str:
    raise BadInput(
        f"It refers to the file {name!r}, which the page cannot read. Run "
        "`playground batch` in its folder."
    )


def _costs(plan: BatchPlan) -> str:
    """The expected cost, in a sentence."""
    read, wrote = plan.most_tokens
    price = plan.most_price
    money = f"${price:,.2f}" if price is not None else f"an unknown price ({plan.unknown_price})"
    return (
        f"Nothing was started. Estimate: {plan.spec.runs:,} runs of {len(plan.spec.cases):,} "
        f"cases, at most {read:,} input and {wrote:,} output tokens, at most {money}."
    )


def _choices(site: Site) -> list[tuple[str, list[tuple[str, str]]]]:
    profiles = [profile for profile in site.engine.profiles() if profile.base_url]
    keys = {profile.name: not site.engine.keys.missing_reason(profile) for profile in profiles}
    ready = [profile for profile in profiles if keys[profile.name]]
    return [
        (title, [(profile.name, profile.model) for profile in rows])
        for title, rows in group_profiles(ready, keys)
        if rows
    ]


def _as_yaml(data: Any) -> str:
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return text


# The pages' data: pure.


assert OUTCOME_WORDS.keys() == set(OUTCOMES)


@dataclass(frozen=True)
class BatchState:
    """A batch of the list, or at the head of its page; `spent` and `limit` in US dollars."""

    id: str
    name: str
    state: str
    why: str
    runs: int
    outcomes: Mapping[str, int]
    under_way: int
    spent: float
    limit: float
    seconds_left: float | None
    created_ms: int

    @property
    def done(self) -> int:
        return sum(self.outcomes.values())

    @property
    def words(self) -> str:
        """Its progress, in a line."""
        words = [f"{self.done:,} of {self.runs:,} runs"]
        if self.under_way:
            words.append(f"{self.under_way} under way")
        if self.seconds_left is not None and self.state == "running":
            words.append(f"{duration(self.seconds_left)} left")
        if self.spent or self.limit:
            of = f" of ${self.limit:,.2f}" if self.limit else ""
            words.append(f"${self.spent:,.2f} spent{of}")
        return " · ".join(words)

    @property
    def version(self) -> str:
        """Changes whenever the page has something new to show."""
        return f"{self.state}.{self.done}.{self.under_way}.{len(self.why)}"


def duration(seconds: float) -> str:
    """Such as "45 s", "3 min 20 s", "2 h 5 min"."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@dataclass(frozen=True)
class RunMark:
    """One run in a row: its outcome, its name, and its session, "" for none."""

    outcome: str
    title: str
    session: str


@dataclass(frozen=True)
class GroupRow:
    """A model with a variant. `bar` is (left end, rate, right end) of its interval in percent."""

    name: str
    summary: GroupSummary
    marks: tuple[RunMark, ...]
    waiting: int
    further: int
    rate: str
    interval: str
    bar: tuple[float, float, float] | None


@dataclass(frozen=True)
class CaseRow:
    """A case over all groups; `cells` are in the order of the groups."""

    case: str
    category: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Failure:
    """Failed runs of one case, model and variant with the same reasons."""

    name: str
    outcome: str
    sentences: tuple[str, ...]
    marks: tuple[RunMark, ...]


@dataclass(frozen=True)
class MatrixCell:
    """A number of a matrix: its shade from 0 to 4, and whether another tool was expected."""

    count: int
    shade: int
    wrong: bool


@dataclass(frozen=True)
class Matrix:
    """Expected tools by called tools."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell, ...]], ...]


def group_row(report: BatchReport, summary: GroupSummary, runs: Sequence[RunResult]) -> GroupRow:
    """The row of one model and variant, whose runs are `runs`."""
    interval = summary.interval
    bar = None
    if interval is not None and summary.rate is not None:
        bar = (100 * interval.low, 100 * summary.rate, 100 * interval.high)
    shown = runs[:MOST_RUNS]
    waiting = min(summary.planned, MOST_RUNS) - len(shown)
    return GroupRow(
        group_name(summary.model, summary.variant, report),
        summary=summary,
        marks=tuple(_mark(run) for run in shown),
        waiting=max(0, waiting),
        further=max(0, summary.planned - MOST_RUNS),
        rate="–" if summary.rate is None else percent(summary.rate),
        interval="" if interval is None else percents(interval),
        bar=bar,
    )


def _mark(run: RunResult) -> RunMark:
    title = f"{run.key.case}, repetition {run.key.repetition}: {OUTCOME_WORDS[run.outcome]}"
    return RunMark(run.outcome, title, run.session or "")


def case_rows(report: BatchReport) -> list[CaseRow]:
    """All cases in the order of the SPEC, at most `MOST_CASES`."""
    groups = [(summary.model, summary.variant) for summary in report.summaries]
    cells: dict[tuple[str, RunGroup], Cell] = {
        (cell.case, (cell.model, cell.variant)): cell for cell in report.cells
    }
    return [
        CaseRow(case.id, case.category, tuple(cells[case.id, group] for group in groups))
        for case in report.spec.cases[:MOST_CASES]
    ]


def failures(report: BatchReport) -> list[Failure]:
    """Finished runs that did not pass, grouped by reason, in the order they were sent."""
    alike: dict[tuple[str, str, tuple[str, ...]], list[RunMark]] = {}
    for run in report.failures:
        name = f"{run.key.case} · {group_name(run.key.model, run.key.variant, report)}"
        alike.setdefault((name, run.outcome, failure_sentences(run)), []).append(_mark(run))
    return [Failure(*reason, tuple(marks)) for reason, marks in alike.items()]


def matrix(confusion: Confusion) -> Matrix | None:
    """None if no tools are expected."""
    called = {tool for row in confusion.values() for tool in row}
    names = [*sorted((called | confusion.keys()) - {NO_TOOL}), NO_TOOL]
    most = max((count for row in confusion.values() for count in row.values()), default=0)
    if not most:
        return None
    rows = tuple(
        (
            expected,
            tuple(
                _matrix_cell(confusion[expected].get(tool, 0), most, tool != expected)
                for tool in names
            ),
        )
        for expected in names
        if expected in confusion
    )
    return Matrix(tuple(names), rows)


def _matrix_cell(count: int, most: int, wrong: bool) -> MatrixCell:
    return MatrixCell(count, -(-4 * count // most), wrong and count > 0)


def list_page(env: Environment, batches: Sequence[BatchState], now_ms: int) -> str:
    """GET /batches"""
    return env.get_template("batches.html").render(batches=batches, states=STATES, now_ms=now_ms)


@dataclass(frozen=True)
class BatchForm:
    """The input of the form of a new batch; `wrong` says why it cannot start. `notes` list what an
    import or a session could not provide. A form sent twice with one `token` starts one batch."""

    spec: str = ""
    models: tuple[str, ...] = ()
    repetitions: str = ""
    max_cost: str = ""
    session: str = ""
    title: str = ""
    wrong: str = ""
    notes: tuple[str, ...] = ()
    token: str = field(default_factory=new_id)


def form_page(
    env: Environment, form: BatchForm, groups: Sequence[tuple[str, Sequence[tuple[str, str]]]]
) -> str:
    """GET /batches/new. `groups` are the selectable profiles: (title, (profile, its model))."""
    return env.get_template("batch_new.html").render(form=form, groups=groups)


def _page_values(batch: BatchState, report: BatchReport) -> dict[str, Any]:
    runs: dict[RunGroup, list[RunResult]] = {}
    for result in report.results:
        runs.setdefault((result.key.model, result.key.variant), []).append(result)
    return {
        "batch": batch,
        "report": report,
        "states": STATES,
        "claim": scope_sentence(report),
        "verdicts": [
            (comparison.verdict, comparison_sentence(report, comparison))
            for comparison in report.comparisons
        ],
        "groups": [
            group_row(report, summary, runs.get((summary.model, summary.variant), []))
            for summary in report.summaries
        ],
        "cases": case_rows(report),
        "more_cases": max(0, len(report.spec.cases) - MOST_CASES),
        "failures": (alike := failures(report))[:MOST_FAILURES],
        "more_failures": max(0, len(alike) - MOST_FAILURES),
        "matrix": matrix(report.confusion),
        "ways": [
            (group_name(way.model, way.variant, report), way)
            for way in report.ways
            if way.deviations
        ],
        "outcome_words": OUTCOME_WORDS,
    }


def batch_page(env: Environment, batch: BatchState, report: BatchReport) -> str:
    """GET /batches/ID"""
    return env.get_template("batch.html").render(_page_values(batch, report))


def report_fragment(env: Environment, batch: BatchState, report: BatchReport) -> str:
    """The batch's part of the page, which a running one requests again."""
    return env.get_template("_batch.html").render(_page_values(batch, report))
