"""The Compare page: sessions aligned turn by turn, or side by side and live (side_by_side.py).

Also the form that sends one prompt to several models.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from playground.core.errors import BadInput
from playground.core.session import Prompt
from playground.core.session_diff import Alignment, Side, align, common_count, side
from playground.core.settings import Profile, Settings
from playground.engine.fork import ForkPlace, ask_in_forks, ask_in_new_sessions, settings_at
from playground.engine.preview import WIRES
from playground.engine.settings import settings_from
from playground.render.paging import ShownCounts, shown_from
from playground.render.view import SessionRow
from playground.store.log import Relative, family
from playground.store.writes import Summary
from playground.web.compare_view import (
    MOST_ROWS,
    CompareChoice,
    ComparePage,
    ModelRow,
    PromptSource,
    align_rows,
    column,
    common_group,
    compare_page,
    comparison_data,
    groups,
    markdown,
    models_page,
)
from playground.web.forms import Body, answer, answer_format, as_json, body_of
from playground.web.session.setup import group_profiles
from playground.web.session_list import settings_like_last
from playground.web.side_by_side import MOST, address, decision_words, distinct_sessions, live_page
from playground.web.site import Site, row_of, site_of

COPIED = 100_000
"""Characters of Markdown that a button copies; a longer text gets a link."""

LISTED = 30
"""Sessions offered for selection."""

FIELDS = ("text", "session", "prompt", "settings", "models", "beside")


async def show(request: Request) -> Response:
    """GET /compare?session=A&session=B&view=turns|live&as=markdown: compares sessions with the
    first one, or shows the page to choose them. The default of `view` is live if one of them runs
    or waits.

    ---
    parameters:
      - {name: session, in: query, schema: {type: array, items: {type: string}}}
    responses:
      200:
        description: The comparison.
        content: {application/json: {}, text/html: {}, text/plain: {}}
      404: {$ref: "#/components/responses/Error404"}
    """
    site, query = site_of(request), request.query_params
    asked = [session_id for session_id in query.getlist("session") if session_id]
    wanted, kind = query.get("view", ""), answer_format(request)
    if wanted not in ("", "turns", "live"):
        raise BadInput("view must be turns or live.")
    if wanted == "live" and kind == "page":
        return await live_page(request)
    by_script = kind == "json" or "as" in query
    many = len(dict.fromkeys(asked)) > MOST and not by_script
    ids = list(dict.fromkeys(asked))[:LISTED] if many else distinct_sessions(asked)
    sides, notes = [], []
    for name in ids:
        async with site.engine.sessions.lock_session(name) as held:  # raises NotFound
            sides.append(side(held.session, held.title))
            notes.append("deleted" if held.deleted else decision_words(held.session))
    twice = len(asked) > len(ids)
    if len(sides) < 2 or many or "choose" in query:
        if by_script:
            raise BadInput("Name at least two sessions: /compare?session=A&session=B.")
        notices = [f"At most {MOST} sessions side by side. Choose which."] if many else []
        notices += ["This session was selected twice. Choose another one."] * (
            len(sides) < 2 and twice
        )
        picker = await _picker(site, query, ids, notices)
        return HTMLResponse(compare_page(site.env, picker, site.engine.sessions.clock()))
    at_work = any(side.state in ("running", "waiting") for side in sides)
    if not wanted and at_work and kind == "page" and "as" not in query:
        return await live_page(request)
    alignments = await asyncio.to_thread(_align_sides, sides)
    if query.get("as") == "markdown":
        text = await asyncio.to_thread(markdown, sides, alignments)
        return PlainTextResponse(text.encode("utf-8", "replace"))
    if kind == "json":
        return as_json(await asyncio.to_thread(comparison_data, sides, alignments))
    notices = ["A session that was selected twice is shown once."] if twice else []
    page = replace(await _picker(site, query, ids, notices), start=_start(query))
    shown = shown_from(query.get("shown", ""))
    return HTMLResponse(
        await asyncio.to_thread(_render_page, site, page, sides, alignments, notes, shown)
    )


def _align_sides(sides: Sequence[Side]) -> list[Alignment]:
    """Aligns each with the first, without the beginning that all have in common."""
    first, *others = sides
    common = min(common_count(first, other) for other in others)
    return [align(first, other, common) for other in others]


def _render_page(
    site: Site,
    page: ComparePage,
    sides: Sequence[Side],
    alignments: Sequence[Alignment],
    notes: Sequence[str],
    shown: ShownCounts,
) -> str:
    """`notes` are further sentences on each session, `shown` the number of calls shown per row."""
    ids = [side.id for side in sides]
    rows = align_rows(alignments)
    text = markdown(sides, alignments)
    end = page.start + MOST_ROWS
    here = address(ids, "turns") + (f"&from={page.start}" if page.start else "")
    rest = f"{address(ids, 'turns')}&from={end}#rows" if end < len(rows) else ""
    columns = [
        column(
            side,
            number=number,
            alignment=alignments[number - 1] if number else None,
            first=address([side.id, *(other for other in ids if other != side.id)], "turns"),
            without=address([other for other in ids if other != side.id], "turns"),
            note=notes[number],
        )
        for number, side in enumerate(sides)
    ]
    whole = replace(
        page,
        columns=columns,
        common=common_group(sides[0], alignments[0].common),
        groups=groups(rows[page.start : end], ids, shown, here, page.start),
        rows=len(rows),
        rest=rest,
        live=address(ids),
        markdown=f"{address(ids, 'turns')}&as=markdown",
        copied=text if len(text) <= COPIED else "",
    )
    return compare_page(site.env, whole)


async def _picker(
    site: Site, query: QueryParams, ids: Sequence[str], notices: Sequence[str]
) -> ComparePage:
    """The sessions offered: those in the query, the rest of the first one's family, the most recent
    ones. A search filters the latter two."""
    words = query.get("q", "").strip()
    log = site.engine.log
    named = [
        summary for summary in [await log.summary(name) for name in ids] if summary is not None
    ]
    choices = [CompareChoice(row_of(summary), "", at < MOST) for at, summary in enumerate(named)]
    for relative in await family(site.engine.database, ids[0]) if ids else ():
        if words.lower() in relative.title.lower():
            row = SessionRow(relative.id, relative.title, relative.state, relative.updated_ms)
            choices.append(CompareChoice(row, _relation(named[0], relative), False))
    last = await log.summaries(words, limit=LISTED)
    choices += [CompareChoice(row_of(summary), "", False) for summary in last]
    once = {choice.row.id: choice for choice in reversed(choices)}
    newest = dict.fromkeys(choice.row.id for choice in choices)
    listed = [once[session_id] for session_id in newest][: len(named) + LISTED]
    return ComparePage(notices=notices, choices=listed, query=words, most=MOST)


def _relation(first: Summary, other: Relative) -> str:
    if other.parent == first.id:
        return "fork"
    if other.id == first.parent:
        return "forked from this"
    return "of one family"


def _start(query: QueryParams) -> int:
    given = query.get("from", "0")
    if not (given.isascii() and given.isdigit() and len(given) < 8):
        raise BadInput("from must be a whole number: the first row.")
    return int(given)


# The same prompt to up to four models at once: a form, and the resulting sessions.


async def models_form(request: Request) -> Response:
    """GET /compare/new?session=ID: shows the form that compares models. Without a session, it
    creates new ones.

    ---
    responses:
      200: {description: The form., content: {text/html: {}}}
    """
    site = site_of(request)
    source, settings = await _prompt_source(site, request.query_params.get("session", ""))
    engine = site.engine
    if settings is None:
        settings = await settings_like_last(site, {})
    profiles = [profile for profile in engine.profiles() if profile.protocol in WIRES]
    if settings.profile not in profiles:
        profiles.insert(0, settings.profile)
    groups = group_profiles(
        profiles, {profile.name: not engine.keys.missing_reason(profile) for profile in profiles}
    )
    models = {
        model_info.id: None
        for profile in profiles
        for model_info in engine.providers.known_models(profile)
    }
    first = ModelRow(settings.profile.name, settings.model, needed=True)
    second = ModelRow(_second_profile(settings.profile, groups), needed=True)
    rows = [first, second, *[ModelRow() for _ in range(MOST - 2)]]
    return HTMLResponse(
        models_page(
            site.env,
            source=source,
            settings=settings,
            rows=rows,
            groups=groups,
            models=list(models),
        )
    )


def _second_profile(first: Profile, groups: Sequence[tuple[str, Sequence[Profile]]]) -> str:
    """A profile to compare `first` with: one that can be used now, preferably of the same kind."""
    kinds = ("Simulator", "Ready") if first.simulated else ("Ready", "Simulator")
    ready = {title: rows for title, rows in groups if title in kinds}
    named = [
        profile.name
        for kind in kinds
        for profile in ready.get(kind, ())
        if profile.name != first.name
    ]
    return named[0] if named else first.name


async def _prompt_source(
    site: Site, session_id: str
) -> tuple[PromptSource | None, Settings | None]:
    """The session whose prompt is sent again, and its settings at its last prompt."""
    if not session_id:
        return None, None
    async with site.engine.sessions.lock_session(session_id) as live:
        session = live.session
        prompts = [
            item for item in session.items if isinstance(item, Prompt) and item.role == "user"
        ]
        last = prompts[-1] if prompts else None
        place = ForkPlace(prompt=last.number) if last is not None else ForkPlace()
        source = PromptSource(
            session.id,
            live.title,
            last.number if last is not None else 0,
            last.text if last is not None else "",
            len(session.turns),
        )
        return source, settings_at(session, place)


async def create(request: Request) -> Response:
    """POST /compare: creates a session for each model, and starts all at once.

    ---
    responses:
      201: {description: The ids of the sessions.}
      404: {$ref: "#/components/responses/Error404"}
    """
    site, body = site_of(request), await body_of(request)
    rows, source = _rows(body), body.text("session" if body.is_json else "from")
    text = body.text("text")
    async with site.changing:
        if source:
            place = await _place(site, source, body)
            ids = await ask_in_forks(site.engine, source, place, text, rows)
        else:
            ids = await ask_in_new_sessions(site.engine, text, rows, await _base(site, body))
    shown = [source, *ids] if source and body.flag("beside") else ids
    return answer(request, {"ids": ids}, status=201, location=address(shown))


def _rows(body: Body) -> list[Mapping[str, Any]]:
    """The settings specific to each session. Form rows without a profile are skipped."""
    if body.is_json:
        if others := sorted(body.data.keys() - set(FIELDS)):
            raise BadInput(
                f"There is no field {others[0][:80]!r}. The fields are {', '.join(FIELDS)}."
            )
        listed = body.data.get("models", [])
        if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
            raise BadInput('models must be a list of settings, such as {"profile", "model"}.')
        rows: list[Mapping[str, Any]] = list(listed)
    else:
        fields = (body.getlist(name) for name in ("profile", "model", "choice"))
        rows = [_model_row(*texts) for texts in zip_longest(*fields, fillvalue="") if texts[0]]
    most = MOST - 1 if body.flag("beside") else MOST
    if not 1 <= len(rows) <= most:
        raise BadInput(f"Choose 1 to {most} models. At most {MOST} sessions fit side by side.")
    return rows


def _model_row(profile: str, model: str, choice: str) -> Mapping[str, Any]:
    """A row of the form; empty fields keep the base settings."""
    row = {"profile": profile, "model": model.strip(), "tool_choice": choice}
    return {name: value for name, value in row.items() if value}


async def _place(site: Site, session_id: str, body: Body) -> ForkPlace:
    """The fork point: before prompt N, or at the end."""
    if body.is_json:
        number = body.data.get("prompt")
        if number is None:
            return ForkPlace()
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise BadInput("prompt must be the number of a prompt, from 1.")
        return ForkPlace(prompt=number)
    if body.text("at") != "prompt":
        return ForkPlace()
    async with site.engine.sessions.lock_session(session_id) as live:
        return ForkPlace(prompt=live.session.prompts)


async def _base(site: Site, body: Body) -> Settings:
    """The base settings of new sessions: those of the request, or of the last session."""
    if not body.is_json:
        return await settings_like_last(site, {})
    wanted = body.data.get("settings", {})
    if not isinstance(wanted, Mapping):
        raise BadInput("settings must be an object, as in POST /sessions.")
    return await settings_from(site.engine, wanted)
