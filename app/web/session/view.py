"""The page of a session, its pieces and its Setup form, each a function from values to HTML.

The blocks of a session are drawn by render/blocks.py; here they are put into their page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from jinja2 import Environment
from markupsafe import Markup

from app.core.errors import NotFound
from app.core.events import RequestSent
from app.core.late import dataclass
from app.core.serialization import from_data
from app.core.session import Call, Session
from app.core.settings import Profile, Settings
from app.core.tools import Tool, ToolResult
from app.render.blocks import Touch, block, frame_html, part_block
from app.render.environment import partial
from app.render.filters import pretty, shown
from app.render.limits import LIFTED, bounds, limit_text
from app.render.paging import CARDS, end_of
from app.render.view import View
from app.render.wire_rows import SHOWN
from app.schema import strict_json
from app.schema.form import fields, form_of
from app.store.log import PastResult
from app.web.session.wire_view import NAMES, SHORT_NAMES, NextRequest, ShownCode


@dataclass(frozen=True)
class Surroundings:
    """What stands around a session: `keys` tells by profile name whether its key is there.

    `groups` are (title, profiles) to choose from; `models` are the ids its provider listed.
    `unconfirmed` is the origin that the session's key may not go to unless the user says so.
    `after` is the cursor at which the page's stream begins. `request` is the next one and `wire`
    the protocol it is shown in, "" for the session's own; `own` is the one that would be sent.
    `unpriced` says why what the model answers has no price, "" where it has one.
    `say` is the message that a recording has an answer to. `rules` is the section of the rules, as
    they were at their `rules_version`. `forked` is whether there are
    forks of it. `code` is what the Code tab shows, None where another is open; `raw` is what stands
    below the wire's rows, as HTML. With `wire_late` these are no part of the page: it asks for
    them when they are looked at. `examples` are prompts that suit its tools.
    """

    profiles: Sequence[Profile] = ()
    keys: Mapping[str, bool] = field(default_factory=dict)
    library: Sequence[Tool] = ()
    tab: str = "wire"
    after: str = ""
    unconfirmed: str = ""
    groups: Sequence[tuple[str, Sequence[Profile]]] = ()
    models: Sequence[str] = ()
    wires: Sequence[str] = ()
    wire: str = ""
    request: NextRequest | None = None
    own: NextRequest | None = None
    unpriced: str = ""
    say: str = ""
    rules: str = ""
    rules_version: int = 0
    forked: bool = False
    code: ShownCode | None = None
    raw: str = ""
    wire_late: bool = False
    examples: Sequence[str] = ()


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
        say=around.say,
        rules=Markup(around.rules),
        rules_version=around.rules_version,
        wire_late=around.wire_late,
        forked=around.forked,
        unconfirmed=around.unconfirmed,
        groups=around.groups or [("Providers", around.profiles)],
        models=around.models,
        wires=[(name, SHORT_NAMES.get(name, name)) for name in around.wires],
        wire=around.wire,
        request=around.request,
        code=around.code,
        raw=Markup(around.raw),
        own=around.own,
        form=setup_form(view.settings),
        provider_line=provider_line(view.settings.profile),
        bounds=bounds(view.session, around.unpriced),
        session_id=view.session.id,
        examples=around.examples,
    )


def stream_fragment(env: Environment, view: View, after: str) -> str:
    """The page's stream again, from cursor `after` on, where it shows more than it did. Of rules
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
    before = end_of(turn, lambda number: max(view.most(number) - CARDS, 0))
    steps = [
        Touch(part_block(turn, part), "new", f"parts-{number}")
        for part in turn.parts[before : end_of(turn, view.most)]
    ]
    long = (turn.number for turn in turns if len(turn.calls) > CARDS)
    steps += [Touch(f"more-{turn_number}", "changed") for turn_number in long]
    return frame_html(env, view, [*steps, Touch("head", "changed")])


def wire_rows_shown(env: Environment, view: View, number: int, start: int, end: int) -> str:
    """Rows of a section that were not shown, from `start` on, and what leads to those before
    `end` that still are not."""
    section = view.wire.sections[number - 1]
    to = min(start + SHOWN, end)
    values = {"view": view, "section": section, "start": start, "to": to, "end": end}
    return env.get_template("_wiregap.html").render(values)


def column_page(env: Environment, view: View, at: str) -> str:
    """The page of one session inside another page; it shows what stood at position `at`."""

    def nested(block_id: str) -> Markup:
        return Markup(block(env, view, block_id))

    return env.get_template("column.html").render(view=view, block=nested, at=at)


def setup_fragment(env: Environment, view: View, around: Surroundings) -> str:
    """The Setup form alone, for a session whose settings have changed."""
    return env.get_template("_setup.html").render(
        view=view,
        profiles=around.profiles,
        keys=around.keys,
        offered=offered_tools(around.library, view.settings),
        unconfirmed=around.unconfirmed,
        groups=around.groups or [("Providers", around.profiles)],
        models=around.models,
        request=around.own,
        form=setup_form(view.settings),
        provider_line=provider_line(view.settings.profile),
        bounds=bounds(view.session, around.unpriced),
        session_id=view.session.id,
    )


def request_sent(env: Environment, request: RequestSent) -> str:
    """A request of the wire view, as it was sent: line, headers, body."""
    return env.get_template("_request.html").render(request=request)


# Setup: the settings as the texts of its form, and the tools it offers. What the form shows is what
# it sends back untouched.


MANY_TOOLS = 20
"""More are searched, and stand in groups."""

EFFORTS = ("", "low", "medium", "high")

PARAMS = ("temperature", "max_tokens", "thinking")
"""The parameters that have fields of their own; the others stand in one, as JSON."""


@dataclass(frozen=True)
class SetupForm:
    """By the names of its fields: texts, ticks, and lists of tools."""

    texts: Mapping[str, str]
    ticks: Mapping[str, bool]
    lists: Mapping[str, tuple[str, ...]]


def provider_line(profile: Profile) -> str:
    """What stands below the provider: its protocol, and where its requests go."""
    place = "built-in simulator" if profile.simulated else profile.base_url
    return f"{NAMES.get(profile.protocol, profile.protocol)} protocol, {place}"


def setup_form(settings: Settings) -> SetupForm:
    """The fields as they stand before a user touches them."""
    choice, params, limits = settings.tool_choice, settings.params, settings.limits
    tools = tuple(tool.name for tool in settings.tools)
    thinking, budget = _thinking(params.get("thinking", ""))
    others = {name: value for name, value in params.items() if name not in PARAMS}
    return SetupForm(
        texts={
            "profile": settings.profile.name,
            "model": settings.model,
            "system": settings.system.replace("\r\n", "\n"),
            "tool_choice": choice.mode,
            "tool_choice_name": choice.name if choice.name in tools else next(iter(tools), ""),
            "temperature": str(params.get("temperature", "")),
            "max_tokens": str(params.get("max_tokens", "")),
            "thinking": thinking,
            "thinking_budget": budget,
            "max_turns": str(limits.max_turns),
            "max_calls_per_turn": str(limits.max_calls_per_turn),
            "max_calls_per_answer": str(limits.max_calls_per_answer),
            "max_parallel": str(limits.max_parallel),
            **{name: limit_text(name, limits) for name in LIFTED},
            "max_retries": str(limits.max_retries),
            "first_byte_s": f"{limits.first_byte_s:g}",
            "idle_s": f"{limits.idle_s:g}",
            "own_params": pretty(others) if others else "",
            "extra": pretty(dict(settings.extra)) if settings.extra else "",
        },
        ticks={
            "parallel": choice.parallel,
            "stream": settings.stream,
            "continue_on_error": limits.continue_on_error,
            "allowed_only": choice.allowed is not None,
        },
        lists={"tools": tools, "allowed": tools if choice.allowed is None else choice.allowed},
    )


def _thinking(value: Any) -> tuple[str, str]:
    """(the choice, the budget); `kept` is for what only a script can say."""
    match value:
        case bool():
            return "", ""
        case int():
            return "budget", str(value)
        case str() if value in EFFORTS:
            return value, ""
    return "kept", ""


@dataclass(frozen=True)
class ToolRow:
    """A tool that may be chosen. `words` are what it is searched by."""

    name: str
    kind: str
    words: str
    chosen: bool


@dataclass(frozen=True)
class OfferedTools:
    """The tools to choose from as (title, rows), in an order that no choice changes: a row that
    moved would be missed by the next click."""

    groups: Sequence[tuple[str, Sequence[ToolRow]]]
    count: int
    many: bool


def offered_tools(library: Sequence[Tool], settings: Settings) -> OfferedTools:
    """The library, and what the session alone has."""
    chosen = {tool.name for tool in settings.tools}
    known = {tool.name for tool in library}
    rows = [(group_of(tool), _tool_row(tool, tool.answered_by, chosen)) for tool in library]
    rows += [
        (group_of(tool), _tool_row(tool, "of this session", chosen))
        for tool in settings.tools
        if tool.name not in known
    ]
    groups: dict[str, list[ToolRow]] = {}
    for title, row in rows:
        groups.setdefault(title, []).append(row)
    return OfferedTools([*groups.items()], len(rows), many=len(rows) > MANY_TOOLS)


def group_of(tool: Tool) -> str:
    """The title of the group that a tool stands in."""
    if tool.answered_by == "mcp":
        return tool.group or f"mcp · {tool.config.get('server', '')}"
    return tool.group or ("workspace" if tool.answered_by == "workspace" else "yours")


def _tool_row(tool: Tool, kind: str, chosen: set[str]) -> ToolRow:
    words = " ".join((tool.name, kind, group_of(tool), tool.description[:300]))
    return ToolRow(tool.name, kind, words, tool.name in chosen)


def refused_fields(refused: Mapping[str, str]) -> str:
    """The sentences on fields that were not saved, for the script that puts them beside these."""
    line = Markup('<p data-refused="{}">{}</p>')
    return "".join(line.format(name, shown(sentence)) for name, sentence in refused.items())


# The panel for an answer by hand: earlier results, similar calls, what a text is ----------------
# Drawn when the user opens it, and part of no block: other sessions change it.

SHOWN_OF_RESULT = 300
"""Characters of a past result in the list; who takes it gets all."""


@dataclass(frozen=True)
class PastResultRow:
    """A past result in one line. `text` is its beginning, `length` how long it is altogether."""

    key: str
    session: str
    title: str
    at_ms: int
    call: str
    arguments: str
    text: str
    length: int
    images: int
    is_error: bool
    staged: bool
    here: bool


@dataclass(frozen=True)
class ResultCheck:
    """What a text would be for the model: `broken` begins like JSON and is none, at `line` and
    `column`, both from 1 (0: nowhere). `fits` the output schema, None where that is no question."""

    form: Literal["empty", "json", "text", "broken"]
    says: str
    line: int = 0
    column: int = 0
    fits: bool | None = None


def past_of(row: PastResult, here: str) -> PastResultRow:
    """A row of the store as the list shows it."""
    result: ToolResult = from_data(ToolResult, json.loads(row.result))
    return PastResultRow(
        key=f"{row.session}/{row.seq}",
        session=row.session,
        title=row.title,
        at_ms=row.at_ms,
        call=row.call_id,
        arguments=row.arguments,
        text=result.text[:SHOWN_OF_RESULT],
        length=len(result.text),
        images=sum(piece.type == "image" for piece in result.content),
        is_error=result.is_error,
        staged=result.staged,
        here=row.session == here,
    )


def past_list(env: Environment, past: Sequence[PastResultRow], now_ms: int) -> str:
    """The list of past results, to choose one from."""
    return env.get_template("_answer_past.html").render(past=past, now_ms=now_ms)


def alike(session: Session, call: Call) -> list[Call]:
    """The other calls of the same tool that wait for a user now, as `call` does."""
    undecided = call.status in ("waiting", "interrupted")
    if session.stopped or not undecided or not session.current(call):
        return []
    return [
        other
        for other in session.current_calls
        if other is not call and other.status == "waiting" and other.name == call.name
    ]


def like_list(env: Environment, calls: Sequence[Call]) -> str:
    """A box to tick for each call that could have the same answer."""
    return env.get_template("_answer_like.html").render(calls=calls)


def check_result_text(text: str, problems: Sequence[str] | None) -> ResultCheck:
    """What `text` is. `problems` are what keeps its value from fitting the output schema, () if
    nothing does; None where the tool has none, or an error is answered."""
    if not text.strip():
        return ResultCheck("empty", "Nothing written: the model reads an empty result.")
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        return _no_json(text, error, wants_json=problems is not None)
    if problems is None:
        if isinstance(value, dict | list):
            return ResultCheck("json", "JSON, valid.")
        return ResultCheck("text", "Text: the model reads it as it is.")
    if not problems:
        return ResultCheck("json", "JSON, valid; it fits the output schema.", fits=True)
    more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
    return ResultCheck("json", f"JSON, but it does not fit: {problems[0]}{more}", fits=False)


def _no_json(text: str, error: strict_json.InvalidJSON, *, wants_json: bool) -> ResultCheck:
    fits = False if wants_json else None
    if text.lstrip()[:1] in ("{", "["):
        line, column = strict_json.line_column(text, error.offset) if error.offset >= 0 else (0, 0)
        return ResultCheck(
            "broken", f"Begins like JSON, but is not valid. {error}", line, column, fits
        )
    if wants_json:
        return ResultCheck("text", "Text; the output schema wants JSON.", fits=False)
    return ResultCheck("text", "Text: the model reads it as it is.")


def form_values(schema: Any, text: str) -> Mapping[str, Sequence[str]] | None:
    """What the fields of the answer's form hold where the answer is `text`; None where they cannot
    show it."""
    if schema is None:
        return None
    try:
        return form_of(fields(schema, text)) if text.strip() else None
    except strict_json.InvalidJSON:
        return None
