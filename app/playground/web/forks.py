"""Forking a session: turns the input of a script or a form into one fork or several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from playground.core.errors import BadInput, PlaygroundError
from playground.core.reducer import ForkPoint, fork_point
from playground.core.session import Call, Prompt, Session
from playground.core.settings import Settings
from playground.engine.decisions import DecisionRequest
from playground.engine.fork import ForkPlace, SettingsEdit, fork, fork_state, fork_with_answers
from playground.engine.suggestions import past_result
from playground.render.environment import partial
from playground.render.filters import plural
from playground.render.view import state_words
from playground.store.log import Relative, family, forks_of
from playground.store.writes import storable
from playground.web.forms import Body, answer, answer_format, as_json, body_of
from playground.web.session.view import PastResultRow, past_row
from playground.web.site import Site, site_of

FIELDS = (
    *("prompt", "turn", "call", "seq", "text", "arguments", "anyway", "answer", "is_error"),
    *("deny", "results", "settings", "title", "go"),
)
FORM_FIELDS = (
    *(*FIELDS, "profile", "model", "tool_choice", "temperature", "failed", "drawn", "past", "hold"),
)
PLACES = ("prompt", "turn", "call", "seq")
MOST_RESULTS = 6
"""The maximum number of alternative results of one "What if": each becomes a running session."""

Member = tuple[str, str, str, str, str]
"""(id, title, state, parent, fork point)."""


@dataclass(frozen=True)
class ForkRequest:
    """A parsed body. `answers` are the alternative results of one call, None if there are none."""

    place: ForkPlace
    text: str | None
    asked: DecisionRequest | None
    answers: Sequence[DecisionRequest] | None
    change: SettingsEdit | None
    title: str
    go: bool


async def make(request: Request) -> Response:
    """POST /sessions/ID/fork: forks a session at a place, or makes several alternatives.

    ---
    responses:
      201: {description: The id of the fork or the ids of the alternatives.}
    """
    body, site, session_id = await body_of(request), site_of(request), request.path_params["id"]
    plan = await _add_past_results(site, body, parse_fork(body))
    more: dict[str, Any] = {
        "change": plan.change,
        "title": plan.title,
        "go": plan.go,
    }
    async with site.changing:  # A settings change in progress applies to the fork after it.
        if plan.answers is None:
            fork_ids = [
                await fork(
                    site.engine,
                    session_id,
                    plan.place,
                    text=plan.text,
                    asked=plan.asked,
                    **more,
                )
            ]
        else:
            fork_ids = await fork_with_answers(
                site.engine, session_id, plan.place.call, plan.answers, **more
            )
    data = {"id": fork_ids[0]} if plan.answers is None else {"ids": fork_ids}
    return answer(request, data, status=201, location=_fork_address(fork_ids))


async def form(request: Request) -> Response:
    """GET /sessions/ID/fork?prompt=&turn=&call=&seq=: shows the form for the fork point in the
    query, alone or as a page.

    ---
    responses:
      200: {description: The form., content: {text/html: {}}}
    """
    site, session_id = site_of(request), request.path_params["id"]
    place = place_of(dict(request.query_params))
    preview = await fork_state(site.engine, session_id, place)
    name, value = next(
        ((name, request.query_params[name]) for name in PLACES if request.query_params.get(name)),
        ("", ""),
    )
    call = preview.session.call(place.call) if place.call else None
    rows = await site.engine.log.past_results(call.name, session_id) if call is not None else []
    drawn = ForkForm(
        session_id,
        title=preview.title,
        own=preview.own,
        name=name,
        value=value,
        settings=preview.settings,
        profiles=[profile.name for profile in site.engine.profiles()],
        prompt=preview.prompt,
        call=call,
        past=[past_row(row, session_id) for row in rows],
        files=wrote_files(preview.session),
        rewritten=preview.rewritten,
        notes=preview.notes,
    )
    draw = fork_fragment if answer_format(request) == "htmx" else fork_page
    return HTMLResponse(draw(site.env, drawn, site.engine.sessions.clock()))


async def forks(request: Request) -> Response:
    """GET /sessions/ID/forks?parent=: lists the family of a session as a tree, JSON or a page. For
    its own page: the lines that mark where it branches, or the name of `parent`."""
    site, session_id = site_of(request), request.path_params["id"]
    async with site.engine.sessions.lock_session(session_id) as live:
        title = live.title
    if answer_format(request) == "htmx" and "parent" in request.query_params:
        return HTMLResponse(await _parent(site, session_id, request.query_params["parent"]))
    if answer_format(request) == "htmx":
        return HTMLResponse(branch_lines(site.env, await _branches(site, session_id)))
    members = await family(site.engine.database, session_id)
    spots = await _fork_points(site, members)
    if answer_format(request) == "json":
        return as_json(
            [_relative_data(member, spots.get(member.id), session_id) for member in members]
        )
    words = {name: at.words for name, at in spots.items()}
    rows = [
        (member.id, member.title, member.state, member.parent, words.get(member.id, ""))
        for member in members
    ]
    says = {member.id: await _state_words(site, member.id, member.state) for member in members}
    return HTMLResponse(tree_page(site.env, family_tree(rows, session_id), session_id, title, says))


async def _state_words(site: Site, session_id: str, state: str) -> str:
    """What the session is doing or needs, as on its own page; `state` if it is gone or
    cannot be read."""
    try:
        async with site.engine.sessions.lock_session(session_id) as live:
            return state_words(live.session)
    except PlaygroundError:
        return state


async def _parent(site: Site, session_id: str, parent_seq: str) -> str:
    """The name of the session that it was forked from after that session's event `parent_seq`. An
    imported session may name any session as its parent, so none of ours is named for it."""
    async with site.engine.sessions.lock_session(session_id) as live:
        foreign_seqs = [
            fork_event.parent_seq for _, fork_event in live.session.forks if fork_event.foreign
        ]
        forks = [
            event.parent
            for seq, event in live.session.forks
            if str(event.parent_seq) == parent_seq
            and live.own
            and not any(seq <= at for at in foreign_seqs)
        ]
    summary = await site.engine.log.summary(storable(forks[-1])) if forks else None
    if summary is None or summary.deleted:
        return parent_link(site.env)
    return parent_link(site.env, summary.id, summary.title)


def _relative_data(relative: Relative, spot: ForkPoint | None, here: str) -> Mapping[str, Any]:
    return {
        "id": relative.id,
        "title": relative.title,
        "state": relative.state,
        "updated": relative.updated_ms,
        "parent": relative.parent or None,
        "parent_seq": relative.parent_seq if relative.parent else None,
        "place": {"kind": spot.kind, "number": spot.number, "call": spot.call} if spot else None,
        "here": relative.id == here,
    }


async def _fork_points(site: Site, members: Sequence[Relative]) -> dict[str, ForkPoint]:
    """The fork point of each session whose parent is stored here."""
    spots: dict[str, ForkPoint] = {}
    for parent in {relative.parent for relative in members} & {relative.id for relative in members}:
        async with site.engine.sessions.lock_session(parent) as live:
            for relative in members:
                if relative.parent == parent:
                    spots[relative.id] = fork_point(
                        live.session, relative.parent_seq, relative.reopened
                    )
    return spots


async def _branches(site: Site, session_id: str) -> dict[ForkPoint, list[tuple[str, str]]]:
    """The forks of a session by fork point."""
    branches: dict[ForkPoint, list[tuple[str, str]]] = {}
    children = await forks_of(site.engine.database, session_id)
    async with site.engine.sessions.lock_session(session_id) as live:
        for child in children:
            at = fork_point(live.session, child.parent_seq, child.reopened)
            branches.setdefault(at, []).append((child.id, child.title))
    return branches


async def _add_past_results(site: Site, body: Body, request: ForkRequest) -> ForkRequest:
    """Adds the past results that are ticked in a form to those that are written."""
    ticked = body.getlist("past") if body.form is not None else []
    if request.answers is None or not (ticked or request.answers):
        if request.answers is None:
            return request
        raise BadInput("Enter at least one result, or select a past one.")
    answers = list(request.answers)
    for key in ticked[: MOST_RESULTS + 1]:
        session, _, seq = key.rpartition("/")
        if not (seq.isascii() and seq.isdigit() and len(seq) < 16):
            raise BadInput("past must be SESSION/SEQ, as in the list of past results.")
        result = await past_result(site.engine.log, session, int(seq))
        images = tuple(piece for piece in result.content if piece.type == "image")
        answers.append(
            DecisionRequest("answer", text=result.text, is_error=result.is_error, images=images)
        )
    if len(answers) > MOST_RESULTS:
        raise BadInput(f"What if takes 1 to {MOST_RESULTS} results. Remove some.")
    return replace(request, answers=answers)


def _fork_address(fork_ids: Sequence[str]) -> str:
    """The address of the fork, or of the alternatives side by side."""
    if len(fork_ids) == 1:
        return f"/sessions/{quote(fork_ids[0], safe='')}"
    return "/compare?" + "&".join(
        f"session={quote(session_id, safe='')}" for session_id in fork_ids
    )


def parse_fork(body: Body) -> ForkRequest:
    """Parses `body`; BadInput says what is wrong with it."""
    known = FIELDS if body.is_json else FORM_FIELDS
    if others := sorted(body.data.keys() - set(known)):
        raise BadInput(
            f"A fork has no field {others[0][:80]!r}. The fields are {', '.join(FIELDS)}."
        )
    if body.is_json and (
        empty := [name for name in PLACES if body.data.get(name, 0) in ("", None)]
    ):
        raise BadInput(f"{empty[0]} is empty. Give a value, or omit it to fork at the end.")
    place = place_of(body.data)
    answers = _answers(body)
    answered_by = [name for name in ("arguments", "answer", "deny") if _has_field(body, name)]
    if answers is not None:
        answered_by.append("results")
    if len(answered_by) > 1:
        raise BadInput(f"A call has one decision: omit {answered_by[0]} or {answered_by[1]}.")
    if answered_by and not place.call:
        raise BadInput(f"{answered_by[0]} needs a call. Give call.")
    text = body.text("text") if _has_field(body, "text") else None
    if not body.is_json and not place.prompt and not (text or "").strip():
        text = None  # an empty field at the end is no prompt
    if text is not None and (place.turn or place.call):
        raise BadInput("text needs a prompt or the end as the fork point, not a turn or a call.")
    title, go = body.text("title"), body.flag("go") if "go" in body.data else not body.flag("hold")
    asked = _parse_decision(body, answered_by[0]) if answered_by and answers is None else None
    return ForkRequest(
        place, text=text, asked=asked, answers=answers, change=_change(body), title=title, go=go
    )


def place_of(data: Mapping[str, Any]) -> ForkPlace:
    """The one fork point that is given, or the end."""
    named = [name for name in PLACES if data.get(name) not in (None, "")]
    if len(named) > 1:
        raise BadInput(f"A fork begins at one place: omit {named[0]} or {named[1]}.")
    if not named:
        return ForkPlace()
    name, value = named[0], data[named[0]]
    if name == "call":
        if not isinstance(value, str):
            raise BadInput('call must be the id of a call, such as "1.0".')
        return ForkPlace(call=value)
    number = _number(name, value, least=0 if name == "seq" else 1)
    match name:
        case "prompt":
            return ForkPlace(prompt=number)
        case "turn":
            return ForkPlace(turn=number)
    return ForkPlace(seq=number)


def _number(name: str, value: object, least: int) -> int:
    if isinstance(value, str) and re.fullmatch("[0-9]{1,15}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{name} must be a whole number, at least {least}.")
    return value


def _has_field(body: Body, name: str) -> bool:
    """Whether the field was sent and is not null; a form always sends all of its fields."""
    return body.data.get(name) is not None


def _parse_decision(body: Body, name: str) -> DecisionRequest:
    if name == "arguments":
        return DecisionRequest(
            "run", arguments=body.arguments(default="{}"), anyway=body.flag("anyway")
        )
    if name == "deny":
        reason = "" if body.data["deny"] is True else body.text("deny")
        return DecisionRequest("deny", text=reason)
    return DecisionRequest("answer", text=body.text("answer"), is_error=body.flag("is_error"))


def _answers(body: Body) -> list[DecisionRequest] | None:
    """The alternatives: in a script each is a text or an object, in a form the non-empty fields.
    None if none are given."""
    if not _has_field(body, "results"):
        return None
    if body.is_json:
        listed = body.data["results"]
        if not isinstance(listed, list):
            raise BadInput("results must be a list of results.")
        answers = [_result(value) for value in listed]
    else:
        failed = body.getlist("failed")
        answers = [
            DecisionRequest("answer", text=text, is_error=str(place) in failed)
            for place, text in enumerate(body.getlist("results"))
            if text.strip()
        ]
    if len(answers) > MOST_RESULTS or (body.is_json and not answers):
        raise BadInput(f"What if takes 1 to {MOST_RESULTS} results.")
    return answers


def _result(value: object) -> DecisionRequest:
    match value:
        case str():
            return DecisionRequest("answer", text=value)
        case {"text": str(text), **rest} if rest.keys() <= {"is_error"}:
            error = rest.get("is_error", False)
            if isinstance(error, bool):
                return DecisionRequest("answer", text=text, is_error=error)
    raise BadInput('A result must be a text, or {"text": a text, "is_error": true or false}.')


def _change(body: Body) -> SettingsEdit | None:
    """The change of the fork's settings, relative to those at its fork point."""
    settings = body.data.get("settings")
    if body.is_json:
        if settings is None:
            return None
        if not isinstance(settings, dict):
            raise BadInput("settings must be an object, as in POST /sessions/ID/settings.")
        return lambda _: settings
    return lambda now: _form_changes(body, now)


def _form_changes(body: Body, now: Settings) -> Mapping[str, Any]:
    """The fields of the small form that differ from the settings at the fork point."""
    data: dict[str, Any] = {}
    if (profile := body.text("profile").strip()) and profile != now.profile.name:
        data["profile"] = profile
    model = body.text("model", now.model).strip()
    if model != now.model and not ("profile" in data and model == body.text("drawn")):
        data["model"] = model  # an unchanged model is not sent to another provider
    choice = body.text("tool_choice")
    if choice and choice != now.tool_choice.label:
        data["tool_choice"] = choice
    if "temperature" in body.data:
        params = {key: param for key, param in now.params.items() if key != "temperature"}
        if words := body.text("temperature").strip():
            if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{0,15})?|\.[0-9]{1,15}", words, re.ASCII):
                raise BadInput(f"temperature must be a number, not {words[:40]!r}.")
            params["temperature"] = float(words)
        if params != now.params:
            data["params"] = params
    return data


# The form, the list of forks and the tree of a family: pure.


@dataclass(frozen=True)
class ForkForm:
    """The form for a fork point, given by `name` and `value` ("" for the end). `settings` are its
    initial settings, `profiles` the selectable names; `past` are results of the call's tool.
    `files`: files were written before the fork point. `rewritten`: it starts from the content of an
    agent's last request; `notes` are sentences on that content."""

    session: str
    title: str
    own: bool
    name: str
    value: str
    settings: Settings
    profiles: Sequence[str] = ()
    prompt: Prompt | None = None
    call: Call | None = None
    past: Sequence[PastResultRow] = ()
    files: bool = False
    rewritten: bool = False
    notes: Sequence[str] = ()

    @property
    def words(self) -> str:
        """The fork point, in words."""
        match self.name:
            case "prompt":
                return f"Replace prompt {self.value}"
            case "turn":
                return f"Repeat turn {self.value}"
            case "call":
                return f"Call {self.value} once more"
            case "seq":
                return f"Continue after event {self.value}"
            case _:
                return "Continue from the end"

    @property
    def key(self) -> str:
        """The suffix of its elements' ids."""
        return "-".join(filter(None, (self.name or "end", self.value.replace(".", "-"))))

    @property
    def model(self) -> str:
        return self.settings.model or self.settings.profile.model

    @property
    def temperature(self) -> str:
        value = self.settings.params.get("temperature")
        return "" if value is None else f"{value:g}" if isinstance(value, int | float) else ""


def wrote_files(session: Session) -> bool:
    """Whether a workspace tool ran: the folder belongs to the session, not to its forks."""
    return any(
        call.tool is not None and call.tool.answered_by == "workspace" and call.started_ms
        for call in session.calls()
    )


def fork_fragment(env: Environment, form: ForkForm, now_ms: int) -> str:
    """The form as a fragment for the flow."""
    return env.get_template("_fork.html").render(form=form, now_ms=now_ms, fields=MOST_RESULTS)


def fork_page(env: Environment, form: ForkForm, now_ms: int) -> str:
    """The form on a page of its own."""
    return env.get_template("fork.html").render(form=form, now_ms=now_ms, fields=MOST_RESULTS)


def parent_link(env: Environment, session: str = "", title: str = "") -> str:
    """A link to the parent session, or words if there is none here."""
    return env.get_template("_parent.html").render(session=session, title=title)


def tree_page(
    env: Environment,
    leaves: Sequence[TreeRow],
    session: str,
    title: str,
    says: Mapping[str, str],
) -> str:
    """The page of a family; `says` are the words for the state of each session, by its id."""
    template = env.get_template("forks.html")
    return template.render(leaves=leaves, session=session, title=title, state_words=says)


def branch_lines(env: Environment, forks: Mapping[ForkPoint, Sequence[tuple[str, str]]]) -> str:
    """`2 forks` at each fork point, each (id, title), as pieces for htmx."""
    at: dict[str, list[tuple[str, str]]] = {}
    for place, ones in forks.items():
        kind = "prompt" if place.kind == "prompt" else "turn"
        at.setdefault(f"branches-{kind}-{place.number}", []).extend(ones)
    template = env.get_template("_branches.html")
    return "".join(
        partial(
            place, "innerHTML", template.render(forks=ones, count=plural(len(ones), "fork")).strip()
        )
        for place, ones in at.items()
    )


# The tree of a whole family.


@dataclass(frozen=True)
class TreeRow:
    """A session of the tree, `depth` below its root. `words` is its fork point; `here`: it is the
    shown session. One without a `state` is not stored here."""

    id: str
    title: str
    state: str = ""
    words: str = ""
    depth: int = 0
    here: bool = False


def family_tree(family: Sequence[Member], here: str) -> list[TreeRow]:
    """The family in tree order. A parent that is not stored is still listed above its forks."""
    known = {member[0] for member in family}
    below: dict[str, list[Member]] = {}
    for member in family:
        below.setdefault(member[3], []).append(member)
    gone = list(
        dict.fromkeys(member[3] for member in family if member[3] and member[3] not in known)
    )
    leaves: list[TreeRow] = []
    seen: set[str] = set()

    def place(member: Member, depth: int) -> None:
        stack = [(member, depth)]
        while stack:
            (name, title, state, _, words), level = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            leaves.append(
                TreeRow(name, title=title, state=state, words=words, depth=level, here=name == here)
            )
            stack += [(child, level + 1) for child in reversed(below.get(name, []))]

    for child in below.get("", []):
        place(child, 0)
    for parent in gone:
        leaves.append(TreeRow(parent, "A session that does not exist here"))
        for child in below[parent]:
            place(child, 1)
    for member in family:  # members that form a circle of parents
        place(member, 0)
    return leaves
