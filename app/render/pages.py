"""Whole pages and the small pieces around them, each a function from values to HTML.

The blocks of a session are drawn by blocks.py; this file only puts them into their page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment
from markupsafe import Markup

from app.core.errors import NotFound
from app.core.events import RequestSent
from app.core.settings import Profile
from app.core.tools import Tool
from app.render.blocks import Touch, block, frame_html, part_block
from app.render.code import ShownCode
from app.render.fragments import partial
from app.render.limits import bounds
from app.render.paging import CARDS, end_of
from app.render.request import SHORT_NAMES, NextRequest
from app.render.setup import offered_tools, setup_form
from app.render.view import SessionRow, View
from app.render.wire_rows import SHOWN
from app.store.search import SearchResult


@dataclass(frozen=True)
class Surroundings:
    """What stands around a session: `keys` tells by profile name whether its key is there.

    `groups` are (title, profiles) to choose from; `models` are the ids its provider listed.
    `unconfirmed` is the origin that the session's key may not go to unless the person says so.
    `after` is the cursor at which the page's stream begins. `request` is the next one and `wire`
    the protocol it is shown in, "" for the session's own; `own` is the one that would be sent.
    `unpriced` says why what the model answers has no price, "" where it has one.
    `heard_ms` is when the last byte came of an answer that streams, in Unix ms, or 0; `say` the
    message that a recording has an answer to. `rules` is
    the section of the rules, as they were at their `rules_version`. `forked` is whether there are
    forks of it. `code` is what the Code tab shows, None where another is open; `raw` is what stands
    below the wire's rows, as HTML. With `wire_late` these are no part of the page: it asks for
    them.
    """

    profiles: Sequence[Profile] = ()
    keys: Mapping[str, bool] = field(default_factory=dict)
    library: Sequence[Tool] = ()
    tab: str = "wire"
    after: int = 0
    unconfirmed: str = ""
    groups: Sequence[tuple[str, Sequence[Profile]]] = ()
    models: Sequence[str] = ()
    wires: Sequence[str] = ()
    wire: str = ""
    request: NextRequest | None = None
    own: NextRequest | None = None
    unpriced: str = ""
    heard_ms: int = 0
    say: str = ""
    rules: str = ""
    rules_version: int = 0
    forked: bool = False
    code: ShownCode | None = None
    raw: str = ""
    wire_late: bool = False


def session_page(env: Environment, view: View, around: Surroundings) -> str:
    """The page of one session."""

    def nested(block_id: str) -> Markup:
        return Markup(block(env, view, block_id))

    return env.get_template("session.html").render(
        view=view,
        block=nested,
        profiles=around.profiles,
        keys=around.keys,
        offered=offered_tools(around.library, view.settings),
        tab=around.tab,
        after=around.after,
        heard_ms=around.heard_ms,
        say=around.say,
        rules=Markup(around.rules),
        rules_version=around.rules_version,
        wire_late=around.wire_late,
        forked=around.forked,
        unconfirmed=around.unconfirmed,
        groups=around.groups or [("Profiles", around.profiles)],
        models=around.models,
        wires=[(name, SHORT_NAMES.get(name, name)) for name in around.wires],
        wire=around.wire,
        request=around.request,
        code=around.code,
        raw=Markup(around.raw),
        own=around.own,
        form=setup_form(view.settings),
        bounds=bounds(view.session, around.unpriced),
        session_id=view.session.id,
    )


def stream_fragment(env: Environment, view: View, after: int) -> str:
    """The page's stream anew, from position `after` on, where it shows more than it did. Of rules
    it knows nothing, so that it gets them."""
    html = env.get_template("_stream.html").render(view=view, after=after, rules_version=0)
    return partial("stream", "outerHTML", html)


def more_cards_shown(env: Environment, view: View, number: int) -> str:
    """The last calls of turn `number` that are shown, as pieces for a page that has those before,
    and all blocks that say how much is shown. NotFound where there is no such turn."""
    turns = view.session.turns
    if not 0 < number <= len(turns):
        raise NotFound(f"This session has no turn {number}. Load the page again.")
    turn = turns[number - 1]
    before = end_of(turn, lambda number: view.most(number) - CARDS)
    steps = [
        Touch(part_block(turn, part), "new", f"parts-{number}")
        for part in turn.parts[before : end_of(turn, view.most)]
    ]
    long = (turn.number for turn in turns if len(turn.calls) > CARDS)
    steps += [Touch(f"more-{one}", "changed") for one in long]
    return frame_html(env, view, [*steps, Touch("head", "changed")])


def wire_rows_shown(env: Environment, view: View, number: int, start: int, end: int) -> str:
    """Rows of a section that were not shown, from `start` on, and what leads to those before
    `end` that still are not."""
    section = view.wire.sections[number - 1]
    to = min(start + SHOWN, end)
    values = {"view": view, "section": section, "start": start, "to": to, "end": end}
    return env.get_template("_wiregap.html").render(values)


def column_page(env: Environment, view: View, at: int) -> str:
    """The page of one session inside another page; it shows what stood at position `at`."""

    def nested(block_id: str) -> Markup:
        return Markup(block(env, view, block_id))

    return env.get_template("column.html").render(view=view, block=nested, at=at)


def welcome_page(
    env: Environment,
    rows: Sequence[SessionRow],
    now_ms: int,
    demos: Sequence[tuple[str, str, str]],
    protocol: str = "",
    wires: Sequence[str] = (),
) -> str:
    """The page without a session: demos (name, title, words) to begin with, and the list.

    `protocol` is the one of `wires` that the demos speak.
    """
    return env.get_template("welcome.html").render(
        rows=rows,
        now_ms=now_ms,
        demos=demos,
        protocol=protocol,
        wires=[(name, SHORT_NAMES.get(name, name)) for name in wires],
    )


def list_fragment(
    env: Environment,
    rows: Sequence[SessionRow],
    now_ms: int,
    query: str = "",
    here: str = "",
    *,
    found: SearchResult | None = None,
    notes: Sequence[str] = (),
    older: bool = False,
) -> str:
    """The list block outside a session's page, or narrowed by a search, with what it `found` and
    the `notes` to that; or what is `older` than all that is shown."""
    return env.get_template("_list.html").render(
        rows=rows,
        now_ms=now_ms,
        query=query,
        here_id=here,
        id="list",
        found=found,
        notes=notes,
        older=older,
    )


def setup_fragment(env: Environment, view: View, around: Surroundings) -> str:
    """The Setup form alone, for a session whose settings have changed."""
    return env.get_template("_setup.html").render(
        view=view,
        profiles=around.profiles,
        keys=around.keys,
        offered=offered_tools(around.library, view.settings),
        unconfirmed=around.unconfirmed,
        groups=around.groups or [("Profiles", around.profiles)],
        models=around.models,
        request=around.own,
        form=setup_form(view.settings),
        bounds=bounds(view.session, around.unpriced),
        session_id=view.session.id,
    )


def request_sent(env: Environment, request: RequestSent) -> str:
    """A request of the wire view, as it was sent: line, headers, body."""
    return env.get_template("_request.html").render(request=request)
