"""Sessions side by side: what the page around them says of each, drawn from the folded sessions.

Like a block, each piece has an id that never changes and follows from its values alone, so the
page and its stream cannot differ. The sessions themselves stand in frames (templates/column.html).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jinja2 import Environment
from markupsafe import Markup

from app.core.limits import turn_cost, turn_tokens, written
from app.core.session import Call, Session, Turn
from app.core.settings import Profile, Settings
from app.render.filters import clip, duration, one_line, plural
from app.render.limits import money
from app.render.view import View, busy_words, model_names, state_words

Measure = tuple[str, str, str]
"""(what, how much, in more words)"""


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
    measures: Sequence[Measure]
    open: bool
    busy: str
    without: str = ""
    decided: str = ""

    @property
    def deleted(self) -> bool:
        return self.state == "deleted"

    @property
    def at_work(self) -> bool:
        """Something is under way or held, so that Stop ends it."""
        return self.state in ("running", "waiting", "paused")


def lane(view: View, number: int, without: str = "", *, deleted: bool = False) -> Lane:
    """What is said of the session of `view`. `open` is whether it takes a prompt now, and `busy`
    why it does not. Nothing of one that is `deleted` waits for a person."""
    session = view.session
    busy = "deleted" if deleted else _busy(session, own=view.own)
    return Lane(
        number,
        session.id,
        view.title,
        view.model,
        view.settings.profile.name,
        "deleted" if deleted else session.state,
        "deleted" if deleted else state_words(session),
        0 if deleted else len(session.waiting),
        measures(session),
        not busy,
        busy,
        without,
        decided_here(session),
    )


def decided_here(session: Session) -> str:
    """What the fork decided of the calls that it opened again, which tells it from its siblings:
    `answered: 17*23 = 0`."""
    reopened = session.forks[-1][1].reopened if session.forks else ()
    calls = (session.call(one) for one in reopened)
    return ", ".join(clip(one_line(words), 120) for call in calls if (words := _decided(call)))


def _decided(call: Call) -> str:
    decided = call.decided
    if decided is None:
        return ""
    match decided.decision:
        case "answer":
            return f"answered: {decided.text}"
        case "deny":
            return f"denied: {decided.text}"
    return f"ran with {decided.arguments}" if decided.arguments is not None else ""


def _busy(session: Session, *, own: bool) -> str:
    if not own:
        return "from someone else, only read"
    match session.state:
        case "running":
            return busy_words(session)
        case "waiting":
            return "decide its waiting calls first"
        case "paused" if session.waiting:
            return "press Continue or Stop first"
    return ""


def measures(session: Session) -> Sequence[Measure]:
    """Of the run that the last prompt began: first token, tokens a second, tokens, cost, calls and
    the time at which the model was at work. What is not known is no number."""
    run = session.run
    return (
        ("first token", _first(run), "from the request to the first part of the answer"),
        ("speed", _speed(run), "output tokens a second, from the first part to the end"),
        ("tokens", _tokens(run), "read and written, as the provider counted"),
        ("cost", _cost(run), "in US dollars, by the provider's word or the list of prices"),
        ("calls", str(sum(len(turn.calls) for turn in run)), "tool calls the model made"),
        ("model", _worked(run), "the time the model was at work, over all its answers"),
    )


NONE = "–"


def _first(run: Sequence[Turn]) -> str:
    for turn in run:
        if turn.first_part_ms is not None:
            return duration(turn.first_part_ms - turn.sent_ms)
    return NONE


def _speed(run: Sequence[Turn]) -> str:
    total, took_ms = 0, 0
    for turn in run:
        if turn.end is None:
            continue
        wrote = written(turn.request.protocol, turn.end.usage)
        if wrote and turn.closed_ms is not None and turn.first_part_ms is not None:
            total += wrote
            took_ms += turn.closed_ms - turn.first_part_ms
    return f"{round(1000 * total / took_ms):,}/s" if took_ms else NONE


def _tokens(run: Sequence[Turn]) -> str:
    used = [turn_tokens(turn) for turn in run if not turn.open]
    total = sum(one or 0 for one in used)
    if None in used:
        return f"≥ {total:,}" if total else "unknown"
    return f"{total:,}" if used else NONE


def _cost(run: Sequence[Turn]) -> str:
    costs = [turn_cost(turn) for turn in run if not turn.open]
    paid = sum(cost or 0.0 for cost in costs)
    if None in costs:
        return f"≥ {money(paid)}" if paid else "unknown"
    return money(paid) if costs else NONE


def _worked(run: Sequence[Turn]) -> str:
    took = [turn.closed_ms - turn.sent_ms for turn in run if turn.closed_ms is not None]
    return duration(sum(took)) if took else NONE


def told(lanes: Sequence[Lane]) -> str:
    """All of them in one line: `2 run · 3 calls wait for you`."""
    return " · ".join(_told(lanes)) or "nothing runs"


def _told(lanes: Sequence[Lane]) -> Iterator[str]:
    running = sum(lane.state == "running" for lane in lanes)
    waiting = sum(lane.waiting for lane in lanes)
    paused = sum(lane.state == "paused" for lane in lanes)
    if running:
        yield f"{running} {'runs' if running == 1 else 'run'}"
    if waiting:
        yield f"{plural(waiting, 'call')} {'waits' if waiting == 1 else 'wait'} for you"
    if paused:
        yield f"{paused} paused"


def pieces(env: Environment, lanes: Sequence[Lane]) -> dict[str, str]:
    """What is said around the frames, by the id of the element that says it."""
    made = {
        "besidehead": env.get_template("_besidehead.html").render(lanes=lanes, words=told(lanes)),
        "dock": env.get_template("_besidedock.html").render(lanes=lanes),
    }
    told_apart = model_names([(lane.model, lane.profile) for lane in lanes])
    for one, called in zip(lanes, told_apart, strict=True):
        for name in ("lane", "pick"):
            html = env.get_template(f"_{name}.html").render(lane=one, called=called)
            made[f"{name}-{one.number}"] = html
    return {id: html.strip() for id, html in made.items()}


def beside_page(env: Environment, lanes: Sequence[Lane], gone: Sequence[str], at: int) -> str:
    """The page of `lanes`; `gone` are ids of no session, `at` the position it was drawn at."""
    drawn = {id: Markup(html) for id, html in pieces(env, lanes).items()}
    return env.get_template("beside.html").render(
        lanes=lanes, piece=drawn.__getitem__, gone=gone, at=at
    )


@dataclass(frozen=True)
class ModelRow:
    """One of the models of the form, as it is filled in; one that is `needed` cannot be none."""

    profile: str = ""
    model: str = ""
    needed: bool = False


@dataclass(frozen=True)
class AskedFrom:
    """The session whose last prompt is asked of others; `prompt` is its number, 0 for none."""

    id: str
    title: str
    prompt: int
    text: str
    turns: int


def models_page(
    env: Environment,
    source: AskedFrom | None,
    settings: Settings,
    rows: Sequence[ModelRow],
    groups: Sequence[tuple[str, Sequence[Profile]]],
    models: Sequence[str],
) -> str:
    """The form that asks several models; `models` are ids that providers listed."""
    return env.get_template("models.html").render(
        source=source,
        text=source.text if source is not None else "",
        tools=[tool.name for tool in settings.tools],
        system=settings.system,
        rows=rows,
        groups=groups,
        models=models,
    )
