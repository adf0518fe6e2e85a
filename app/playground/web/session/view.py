"""The page of a session, its pieces and its Setup form, each a function from values to HTML.

render/blocks.py draws the blocks of a session; this module places them in their page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from jinja2 import Environment
from markupsafe import Markup

from playground.core.errors import NotFound
from playground.core.events import RequestSent
from playground.core.serialization import from_data
from playground.core.session import Call, Session
from playground.core.settings import Profile, Settings
from playground.core.tools import Tool, ToolResult
from playground.render.blocks import Touch, block, frame_html, part_block
from playground.render.environment import partial
from playground.render.filters import pretty_json
from playground.render.limit_words import LIFTED, bounds, limit_text
from playground.render.paging import CARDS, end_of
from playground.render.view import View
from playground.render.wire_rows import SHOWN
from playground.schema import strict_json
from playground.schema.form import fields, form_of
from playground.store.log import PastResult
from playground.web.session.wire_view import NAMES, SHORT_NAMES, NextRequest, ShownCode

MANY_TOOLS = 20
"""A longer list is searchable and grouped."""

EFFORTS = ("", "low", "medium", "high")

PARAMS = ("temperature", "max_tokens", "thinking")
"""The parameters with fields of their own; the others share one, as JSON."""

SHOWN_OF_RESULT = 300
"""Characters of a past result shown in the list; choosing it inserts the whole."""


@dataclass(frozen=True)
class SessionPageContext:
    """The context of a session's page: `keys` tells by profile name whether its key is available.

    `groups` are the selectable profiles as (title, profiles); `models` are the ids its provider
    listed. `unconfirmed` is the origin that the session's key may be sent to only after the user
    confirms it. `after` is the cursor at which the page's stream begins. `request` is the next one
    and `wire` the protocol it is shown in, "" for the session's own; `own` is the one that would be
    sent. `unpriced` says why the model's answers have no price, "" if they have one. `say` is the
    message that a recording has an answer to. `rules` is the section of the rules, at version
    `rules_version`. `has_forks`. `code` is the content of the Code tab, None if another
    is open; `raw` is the HTML below the wire's rows. With `wire_late` the rows are not part of the
    page: it requests them when the tab is opened. `examples` are prompts that suit its tools.
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
    has_forks: bool = False
    code: ShownCode | None = None
    raw: str = ""
    wire_late: bool = False
    examples: Sequence[str] = ()


def session_page(env: Environment, view: View, around: SessionPageContext) -> str:
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
        has_forks=around.has_forks,
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
    """The page's stream element, from cursor `after` on, when the page shows more than before. It
    carries no version of the rules, so that they are sent again."""
    html = env.get_template("_stream.html").render(view=view, after=after, rules_version=0)
    return partial("stream", "outerHTML", html)


def more_cards_shown(env: Environment, view: View, number: int) -> str:
    """The last shown calls of turn `number`, as pieces for a page that has the earlier ones, and
    all blocks that depend on the selection. NotFound if there is no such turn."""
    turns = view.session.turns
    if not 0 < number <= len(turns):
        raise NotFound(f"This session has no turn {number}. Load the page again.")
    turn = turns[number - 1]
    before = end_of(turn, lambda number: max(view.calls_shown(number) - CARDS, 0))
    steps = [
        Touch(part_block(turn, part), "new", f"parts-{number}")
        for part in turn.parts[before : end_of(turn, view.calls_shown)]
    ]
    long = (turn.number for turn in turns if len(turn.calls) > CARDS)
    steps += [Touch(f"more-{turn_number}", "changed") for turn_number in long]
    return frame_html(env, view, [*steps, Touch("head", "changed")])


def wire_rows_shown(env: Environment, view: View, number: int, start: int, end: int) -> str:
    """Rows of a section that were not shown, from `start` on, and a link to those before `end` that
    still are not."""
    section = view.wire.sections[number - 1]
    to = min(start + SHOWN, end)
    values = {"view": view, "section": section, "start": start, "to": to, "end": end}
    return env.get_template("_wiregap.html").render(values)


def column_page(env: Environment, view: View, at: str) -> str:
    """The page of one session inside another page, in its state at position `at`."""

    def nested(block_id: str) -> Markup:
        return Markup(block(env, view, block_id))

    return env.get_template("column.html").render(view=view, block=nested, at=at)


def setup_fragment(env: Environment, view: View, around: SessionPageContext) -> str:
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
    """A request of the wire view, as sent: line, headers, body."""
    return env.get_template("_request.html").render(request=request)


# Setup: the settings as the texts of its form, and the tools it offers. An unedited form sends back
# what it shows.


@dataclass(frozen=True)
class SetupForm:
    """By field name: texts, ticks, and lists of tools."""

    texts: Mapping[str, str]
    ticks: Mapping[str, bool]
    lists: Mapping[str, tuple[str, ...]]


def provider_line(profile: Profile) -> str:
    """The line below the provider: its protocol, and the address of its requests."""
    place = "built-in simulator" if profile.simulated else profile.base_url
    return f"{NAMES.get(profile.protocol, profile.protocol)} protocol, {place}"


def setup_form(settings: Settings) -> SetupForm:
    """The fields before a user edits them."""
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
            "own_params": pretty_json(others) if others else "",
            "extra": pretty_json(dict(settings.extra)) if settings.extra else "",
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
    """(the choice, the budget); `kept` is for values that only a script can set."""
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
    """A selectable tool. `words` is the text searched."""

    name: str
    kind: str
    words: str
    chosen: bool


@dataclass(frozen=True)
class OfferedTools:
    """The selectable tools as (title, rows), in an order independent of the selection, so that a
    row does not move between two clicks."""

    groups: Sequence[tuple[str, Sequence[ToolRow]]]
    count: int
    many: bool


def offered_tools(library: Sequence[Tool], settings: Settings) -> OfferedTools:
    """The tools of the library, and those of the session alone."""
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
    """The title of a tool's group."""
    if tool.answered_by == "mcp":
        return tool.group or f"mcp · {tool.config.get('server', '')}"
    return tool.group or ("workspace" if tool.answered_by == "workspace" else "yours")


def _tool_row(tool: Tool, kind: str, chosen: set[str]) -> ToolRow:
    words = " ".join((tool.name, kind, group_of(tool), tool.description[:300]))
    return ToolRow(tool.name, kind, words, tool.name in chosen)


def refused_fields(env: Environment, refused: Mapping[str, str]) -> str:
    """The sentences on fields that were not saved, for the script that shows them there."""
    return env.get_template("_refused.html").render(refused=refused)


# The panel for a manual answer: earlier results, similar calls, a check of the text ------------
# Drawn when the user opens it, and not part of a block, because it depends on other sessions.


@dataclass(frozen=True)
class PastResultRow:
    """A past result in one line. `text` is its beginning, `length` its total length."""

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
    """How the model would see a text: `broken` begins like JSON but is not, at `line` and `column`,
    both from 1 (0: unknown). `fits` the output schema, None if there is none to check."""

    form: Literal["empty", "json", "text", "broken"]
    says: str
    line: int = 0
    column: int = 0
    fits: bool | None = None


def past_row(row: PastResult, here: str) -> PastResultRow:
    """A row of the store in the form of the list."""
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
    """The list of past results to choose from."""
    return env.get_template("_answer_past.html").render(past=past, now_ms=now_ms)


def alike_calls(session: Session, call: Call) -> list[Call]:
    """The other calls of the same tool that wait for a user like `call`."""
    undecided = call.status in ("waiting", "interrupted")
    if session.stopped or not undecided or not session.is_current(call):
        return []
    return [
        other
        for other in session.current_calls
        if other is not call and other.status == "waiting" and other.name == call.name
    ]


def like_list(env: Environment, calls: Sequence[Call]) -> str:
    """A box to tick for each call that could get the same answer."""
    return env.get_template("_answer_like.html").render(calls=calls)


def check_result_text(text: str, problems: Sequence[str] | None) -> ResultCheck:
    """Classifies `text`. `problems` are the reasons why its value does not match the output schema,
    () if it does; None if the tool has none, or an error is answered."""
    if not text.strip():
        return ResultCheck("empty", "Empty: the model reads an empty result.")
    try:
        value = strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        return _no_json(text, error, wants_json=problems is not None)
    if problems is None:
        if isinstance(value, dict | list):
            return ResultCheck("json", "Valid JSON.")
        return ResultCheck("text", "Text: the model reads it unchanged.")
    if not problems:
        return ResultCheck("json", "Valid JSON that matches the output schema.", fits=True)
    more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
    return ResultCheck(
        "json", f"JSON, but it does not match the schema: {problems[0]}{more}", fits=False
    )


def _no_json(text: str, error: strict_json.InvalidJSON, *, wants_json: bool) -> ResultCheck:
    fits = False if wants_json else None
    if text.lstrip()[:1] in ("{", "["):
        line, column = strict_json.line_column(text, error.offset) if error.offset >= 0 else (0, 0)
        return ResultCheck(
            "broken", f"Looks like JSON but is not valid. {error}", line, column, fits
        )
    if wants_json:
        return ResultCheck("text", "Text, but the output schema requires JSON.", fits=False)
    return ResultCheck("text", "Text: the model reads it unchanged.")


def form_values(schema: Any, text: str) -> Mapping[str, Sequence[str]] | None:
    """The values of the answer form's fields for the answer `text`; None if they cannot represent
    it."""
    if schema is None:
        return None
    try:
        return form_of(fields(schema, text)) if text.strip() else None
    except strict_json.InvalidJSON:
        return None
