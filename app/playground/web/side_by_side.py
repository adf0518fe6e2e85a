"""Sessions side by side, live: each is its own page in a frame, and one stream feeds them all.

Draws GET /compare?session=A&session=B…&view=live; a typed prompt goes to all of them. The frames
are templates/column.html.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from playground.core.errors import BadInput, Conflict, NotFound, PlaygroundError
from playground.core.run_limits import turn_cost, turn_tokens, writing_speed
from playground.core.session import Call, Session, Turn
from playground.render.blocks import PageFrame, Touch, frame, frame_html
from playground.render.environment import partial, store_banner, toast
from playground.render.filters import clip, duration, one_line, plural
from playground.render.limit_words import money
from playground.render.view import View, busy_words, model_names, state_words
from playground.store.writes import Summary
from playground.web.forms import Body, answer, answer_format, body_of
from playground.web.guard import FRAMES, as_text
from playground.web.site import Site, site_of
from playground.web.stream import (
    FRAME_S,
    KEEP_ALIVE_S,
    SNAPSHOT,
    message,
    page_stream,
    reader_cursor,
    stream_response,
)

SendOutcome = dict[str, Any]

MOST = 4
"""The maximum number of sessions side by side."""

LaneMeasure = tuple[str, str, str]
"""(what, how much, in more words)"""

NONE = "–"


async def live_page(request: Request) -> Response:
    """The page of the sessions in the query; NotFound if none of them exists."""
    site = site_of(request)
    ids = distinct_sessions(request.query_params.getlist("session"))
    at, lanes, gone = site.engine.sessions.cursor, [], []
    for number, session_id in enumerate(ids, 1):
        try:
            async with site.engine.sessions.lock_session(session_id) as held:
                view = await site.view(held, wired=False)
                lanes.append(
                    lane(view, number, address_without(ids, session_id), deleted=held.deleted)
                )
        except NotFound:
            gone.append(session_id)
    if not lanes:
        raise NotFound("None of these sessions exists. Choose sessions from the list at /.")
    return HTMLResponse(lanes_page(site.env, lanes, gone, at), headers=as_text(FRAMES))


async def prompt(request: Request) -> Response:
    """POST /compare/prompts: sends one text to each of `sessions` that accepts it now,
    concurrently.

    ---
    responses:
      202: {description: The outcome of each.}
      404: {$ref: "#/components/responses/Error404"}
    """
    site, body = site_of(request), await body_of(request)
    ids, text = posted_sessions(body), body.text("text")

    async def send(session_id: str) -> None:
        await site.engine.runner.prompt(session_id, text)

    async with site.changing:  # as for one session
        outcomes = await asyncio.gather(
            *(_attempt(session_id, send(session_id)) for session_id in ids)
        )
    return await _answer(request, site, ids, outcomes, status=202)


async def stop(request: Request) -> Response:
    """POST /compare/stop: stops each of `sessions`, concurrently.

    ---
    responses:
      404: {$ref: "#/components/responses/Error404"}
    """
    site, body = site_of(request), await body_of(request)
    ids = posted_sessions(body)
    stops = (_attempt(session_id, site.engine.runner.stop(session_id)) for session_id in ids)
    return await _answer(request, site, ids, await asyncio.gather(*stops), status=200)


def posted_sessions(body: Body) -> list[str]:
    """The sessions of a form (`session`, repeated) or a JSON body (`sessions`, a list)."""
    ids = distinct_sessions(body.getlist("sessions" if body.is_json else "session"))
    if not ids:
        raise BadInput("Name the sessions, or open them side by side from the list at /.")
    return ids


async def _attempt(session_id: str, doing: Any) -> SendOutcome:
    try:
        await doing
    except PlaygroundError as error:
        code = error.error_code
        return {"session": session_id, "ok": False, "error": str(error), "code": code}
    return {"session": session_id, "ok": True}


async def _answer(
    request: Request,
    site: Site,
    ids: Sequence[str],
    outcomes: Sequence[SendOutcome],
    *,
    status: int,
) -> Response:
    """A script gets the outcome of each; a page only the failures, as an error if all failed."""
    refused = [outcome for outcome in outcomes if not outcome["ok"]]
    status = 409 if len(refused) == len(outcomes) else status
    sentence = await _sentence(site, outcomes) if refused else ""
    if refused and answer_format(request) == "htmx":
        return HTMLResponse(toast(site.env, sentence), status if status == 409 else 200)
    if status == 409 and answer_format(request) == "page":
        raise Conflict(sentence)
    location = "" if answer_format(request) == "htmx" else address(ids)
    return answer(request, list(outcomes), status=status, location=location)


async def _sentence(site: Site, outcomes: Sequence[SendOutcome]) -> str:
    """`2 sessions received it. Not gpt-5 (profile mine): decide its waiting calls first.`"""
    refused = [outcome for outcome in outcomes if not outcome["ok"]]
    received = len(outcomes) - len(refused)
    reasons = []
    for refusal in refused:
        summary = await site.engine.log.summary(refusal["session"])
        name = _name(summary) if summary is not None else refusal["session"]
        reasons.append(f"Not {name}: {refusal['error']}")
    head = f"{plural(received, 'session')} received it. " if received else ""
    return head + " ".join(reasons)


def _name(summary: Summary) -> str:
    """Its model, and its profile if that has another name."""
    model, profile = clip(one_line(summary.model), 60), clip(one_line(summary.profile), 60)
    return model if profile in ("", model) else f"{model} (profile {profile})"


# The stream: each message `column` is one step of one session, `{"session", "at", "epoch", "html",
# "grow"}`, for its frame; changes around the frames are HTML, as in any stream. `id:` is the cursor
# up to which the page has everything of every session: a client that reconnects with it misses
# nothing, and repeated content is harmless. `gone` names a session that does not exist.


@dataclass
class Follower:
    """The state of one session on the page, the `number`th: events up to `position`, with these
    marks on its head and these rules."""

    number: int
    id: str
    position: int
    head: tuple[str, bool, bool, tuple[str, ...]] | None = None
    unasked: tuple[str, ...] | None = None


@dataclass
class SideBySide:
    """All content of one page. `drawn` is the HTML around the frames, by id."""

    columns: list[Follower]
    lanes: dict[str, Lane] = field(default_factory=dict)
    drawn: dict[str, str] = field(default_factory=dict)

    @property
    def position(self) -> int:
        """The position up to which the page has everything of every session."""
        return min((column.position for column in self.columns), default=-1)


async def stream(request: Request) -> StreamingResponse:
    """GET /stream?session=A&session=B&after=CURSOR&columns=&store=: streams up to four sessions of
    one page. A single session is a column only if `columns` is given. `store` streams only the
    state of the database.

    ---
    parameters:
      - {name: session, in: query, schema: {type: array, items: {type: string}}}
    responses:
      200: {description: A stream., content: {text/event-stream: {}}}
    """
    ids = distinct_sessions(request.query_params.getlist("session"))
    if len(ids) < 2 and not request.query_params.get("columns"):
        return await page_stream(request)
    site = site_of(request)
    if not [
        session_id for session_id in ids if await site.engine.log.summary(session_id) is not None
    ]:
        raise NotFound("None of these sessions exists. Open sessions from the list at /.")
    position = site.engine.sessions.position_of(reader_cursor(request))
    return stream_response(_frames(site, initial_state(ids, position)))


def initial_state(ids: Sequence[str], position: int) -> SideBySide:
    """The state of a page of these sessions that was drawn at `position`."""
    return SideBySide(
        [Follower(number, session_id, position) for number, session_id in enumerate(ids, 1)]
    )


def distinct_sessions(ids: Sequence[str]) -> list[str]:
    """The distinct sessions in order; BadInput if they are too many for one page."""
    once = [session_id for session_id in dict.fromkeys(ids) if session_id]
    if len(once) > MOST:
        raise BadInput(f"At most {MOST} sessions side by side. Remove some.")
    return once


def address(ids: Sequence[str], view: str = "live") -> str:
    """The address of the page of these sessions."""
    return "/compare?" + urlencode(
        [*(("session", session_id) for session_id in ids), ("view", view)]
    )


def address_without(ids: Sequence[str], left_out: str) -> str:
    """The address of the page of the others; "" if there are none."""
    left = [other for other in ids if other != left_out]
    return address(left) if left else ""


async def _frames(site: Site, beside: SideBySide) -> AsyncIterator[str]:
    ids = [column.id for column in beside.columns]
    with site.engine.sessions.listen(*ids) as bell:
        while not site.closing:
            bell.clear()
            if sent := await next_messages(site, beside):
                yield sent
                await asyncio.sleep(FRAME_S)
            elif not await bell.wait(KEEP_ALIVE_S):
                yield ": keep-alive\n\n"


async def next_messages(site: Site, beside: SideBySide) -> str:
    """The news of all sessions, as messages; "" if there is nothing."""
    messages: list[tuple[str, str]] = []  # (data, event)
    sessions = site.engine.sessions
    for column in tuple(beside.columns):
        try:
            step = await _step(site, beside, column)
        except NotFound:
            beside.columns.remove(column)
            beside.lanes.pop(column.id, None)
            messages.append((json.dumps({"session": column.id}), "gone"))
            continue
        if not step.empty:
            data = {"session": column.id, "at": column.position, "epoch": sessions.epoch}
            messages.append((json.dumps(data | vars(step)), "column"))
    if around := _changed_pieces(site, beside):
        messages.append((around, ""))
    last = len(messages) - 1
    return "".join(
        message(data, event=event, id=sessions.cursor_at(beside.position) if place == last else "")
        for place, (data, event) in enumerate(messages)
    )


async def _step(site: Site, beside: SideBySide, column: Follower) -> PageFrame:
    """The news of one session: without list, Setup and wire, which a column does not show."""
    sessions, env = site.engine.sessions, site.env
    async with sessions.lock_session(column.id) as live:
        seen = sessions.events_since(live, column.position)
        column.position = sessions.position
        view = await site.view(live, wired=False, framed=True)
        if seen is None:
            next_frame = PageFrame(frame_html(env, view, SNAPSHOT), [])
        else:
            next_frame = frame(env, view, seen)
        extra = frame_html(env, view, _unlogged_changes(view, column))
        beside.lanes[column.id] = lane(view, column.number, deleted=live.deleted)
    return PageFrame(next_frame.html + extra, next_frame.grow)


def _unlogged_changes(view: View, column: Follower) -> list[Touch]:
    """The blocks that show changed non-events: a title, a tag or a rule."""
    touches, head = [], (view.title, view.pinned, view.archived, view.tags)
    if head != column.head:
        touches.append(Touch("head", "changed"))
    if view.unasked != column.unasked:
        touches.append(Touch("dock", "changed"))
    column.head, column.unasked = head, view.unasked
    return touches


def _changed_pieces(site: Site, beside: SideBySide) -> str:
    """The HTML around the frames that differs from what this page has."""
    ids = list(beside.lanes)
    lanes = [replace(lane, without=address_without(ids, lane.id)) for lane in beside.lanes.values()]
    drawn = {**pieces(site.env, lanes), "store": store_banner(site.env)}
    changed = {id: html for id, html in drawn.items() if beside.drawn.get(id) != html}
    beside.drawn = drawn
    return "".join(partial(id, "outerMorph", html) for id, html in changed.items())


# The page's content around the frames, by session. Like a block, each piece has an id that never
# changes and depends only on its values, so that the page and its stream cannot differ.


@dataclass(frozen=True)
class Lane:
    """One of the sessions: `number` is its place, from 1; `without` the page that leaves it out.
    `state` is the session's, or deleted."""

    number: int
    id: str
    title: str
    model: str
    profile: str
    state: str
    words: str
    waiting: int
    measures: Sequence[LaneMeasure]
    open: bool
    busy: str
    without: str = ""
    decided: str = ""

    @property
    def deleted(self) -> bool:
        return self.state == "deleted"

    @property
    def at_work(self) -> bool:
        """Whether it is running or held, so that Stop ends it."""
        return self.state in ("running", "waiting", "paused")


def lane(view: View, number: int, without: str = "", *, deleted: bool = False) -> Lane:
    """The lane of the session of `view`. `open`: it accepts a prompt now, otherwise `busy` says why
    not. If `deleted`, nothing of it waits for a user."""
    session = view.session
    busy = "deleted" if deleted else _busy_reason(session, own=view.own)
    return Lane(
        number,
        id=session.id,
        title=view.title,
        model=view.model,
        profile=view.settings.profile.name,
        state="deleted" if deleted else session.state,
        words="deleted" if deleted else state_words(session),
        waiting=0 if deleted else len(session.waiting),
        measures=measures(session),
        open=not busy,
        busy=busy,
        without=without,
        decided=decision_words(session),
    )


def decision_words(session: Session) -> str:
    """The fork's decisions on the calls that it reopened, which distinguish it from its siblings:
    `answered: 17*23 = 0`."""
    reopened = session.forks[-1][1].reopened if session.forks else ()
    calls = (session.call(call_id) for call_id in reopened)
    return ", ".join(
        clip(one_line(words), 120) for call in calls if (words := _decision_text(call))
    )


def _decision_text(call: Call) -> str:
    decided = call.decided
    if decided is None:
        return ""
    match decided.decision:
        case "answer":
            return f"answered: {decided.text}"
        case "deny":
            return f"denied: {decided.text}"
    return f"ran with {decided.arguments}" if decided.arguments is not None else ""


def _busy_reason(session: Session, *, own: bool) -> str:
    if not own:
        return "from someone else, read-only"
    if session.tapped is not None:
        return "an agent runs it"
    match session.state:
        case "running":
            return busy_words(session)
        case "waiting":
            return "decide its waiting calls first"
        case "paused" if session.waiting:
            return "press Continue or Stop first"
    return ""


def measures(session: Session) -> Sequence[LaneMeasure]:
    """Measurements of the run of the last prompt: first token, tokens per second, tokens, cost,
    calls and the model's working time. Unknown values are not numbers."""
    run = session.run
    closed = [turn for turn in run if not turn.open]
    tokens = _known_sum([turn_tokens(turn) for turn in closed], "{:,}".format)
    cost = _known_sum([turn_cost(turn) for turn in closed], money)
    return (
        ("first token", _first_token(run), "from the request to the first part of the answer"),
        ("speed", _speed(run), "output tokens a second, from the first part to the end"),
        ("tokens", tokens, "input and output, as counted by the provider"),
        ("cost", cost, "US dollars, from the provider or the price list"),
        ("calls", str(sum(len(turn.calls) for turn in run)), "tool calls the model made"),
        ("model", _model_time(run), "time the model worked on all its answers"),
    )


def _first_token(run: Sequence[Turn]) -> str:
    for turn in run:
        if turn.first_part_ms is not None:
            return duration(turn.first_part_ms - turn.sent_ms)
    return NONE


def _speed(run: Sequence[Turn]) -> str:
    speed = writing_speed(run)
    return NONE if speed is None else f"{round(speed):,}/s"


def _known_sum(amounts: Sequence[float | None], spelled: Callable[[float], str]) -> str:
    """The sum of the known amounts."""
    total = sum(amount or 0 for amount in amounts)
    if None in amounts:
        return f"≥ {spelled(total)}" if total else "unknown"
    return spelled(total) if amounts else NONE


def _model_time(run: Sequence[Turn]) -> str:
    took = [turn.closed_ms - turn.sent_ms for turn in run if turn.closed_ms is not None]
    return duration(sum(took)) if took else NONE


def status_line(lanes: Sequence[Lane]) -> str:
    """All of them in one line: `2 run · 3 calls need your decision`."""
    return " · ".join(_status_words(lanes)) or "nothing runs"


def _status_words(lanes: Sequence[Lane]) -> Iterator[str]:
    running = sum(lane.state == "running" for lane in lanes)
    waiting = sum(lane.waiting for lane in lanes)
    paused = sum(lane.state == "paused" for lane in lanes)
    if running:
        yield f"{running} {'runs' if running == 1 else 'run'}"
    if waiting:
        yield f"{plural(waiting, 'call')} {'needs' if waiting == 1 else 'need'} your decision"
    if paused:
        yield f"{paused} paused"


def pieces(env: Environment, lanes: Sequence[Lane]) -> dict[str, str]:
    """The HTML around the frames, by element id."""
    blocks = {
        "besidehead": env.get_template("_besidehead.html").render(
            lanes=lanes, words=status_line(lanes)
        ),
        "dock": env.get_template("_besidedock.html").render(lanes=lanes),
    }
    told_apart = model_names([(lane.model, lane.profile) for lane in lanes])
    for shown_lane, called in zip(lanes, told_apart, strict=True):
        for name in ("lane", "pick"):
            html = env.get_template(f"_{name}.html").render(lane=shown_lane, called=called)
            blocks[f"{name}-{shown_lane.number}"] = html
    return {id: html.strip() for id, html in blocks.items()}


def lanes_page(env: Environment, lanes: Sequence[Lane], gone: Sequence[str], at: str) -> str:
    """The page of `lanes`; `gone` are ids without a session, `at` the cursor it was drawn at."""
    drawn = {id: Markup(html) for id, html in pieces(env, lanes).items()}
    return env.get_template("beside.html").render(
        lanes=lanes, piece=drawn.__getitem__, missing=gone, at=at
    )
