"""A request that was brought, as the log of a session: what was said is told once more as events,
by the codec that reads answers. Knows no clock and no id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from app.core.decide import doubled_ids
from app.core.events import (
    CallChecked,
    CallEnded,
    Event,
    Logged,
    PromptAdded,
    RequestSent,
    ResponseStarted,
    RunPaused,
    RunStopped,
    SessionStarted,
    Source,
    Warned,
)
from app.core.reducer import apply
from app.core.session import Call, Session
from app.core.settings import Profile, Settings
from app.core.tools import Tool, ToolResult
from app.exchange.entry import UNANSWERED
from app.exchange.pasted import ImportedAnswer, ImportedMessage, ImportedRequest, ImportedResult
from app.exchange.text import Unreadable
from app.exchange.tool_import import import_tools
from app.protocols.base import join_url
from app.protocols.registry import codec

MOST_PARTS = 1_000
"""Texts and calls of one answer that is brought: a page draws all of them."""

MOST_CALLS = 5_000
"""Calls of a whole session that is brought."""

MOST_TURNS, MOST_FORKS = 500, 100
"""Requests of a session that is brought, and how often it was forked: folding looks back at all."""

WAITS = "This request was brought from elsewhere and not sent; Continue here makes it yours."


@dataclass
class ImportedSession:
    """`session` is folded from `log`; `response` are the bytes of its last turn, where they came
    along. `open` are the calls of the last answer by ("id", id) and ("name", name), the last
    first. `notes` are sentences on what could not be taken."""

    session: Session
    log: list[Logged] = field(default_factory=list)
    open: dict[tuple[str, str], list[Call]] = field(default_factory=dict)
    response: bytes = b""
    notes: dict[str, None] = field(default_factory=dict)

    def tell(self, code: str, sentence: str) -> None:
        """Put a sentence into the log, where the last answer stands."""
        _add(self, self.session.updated_ms, Warned(code, sentence))


def session_from_request(
    pasted: ImportedRequest, profile: Profile, session_id: str, at_ms: int
) -> ImportedSession:
    """The session that comes of `pasted`; each event bears `at_ms` (Unix ms). Its tools are
    answered by a person: what ran them is not here. Unreadable where it is too large."""
    made = ImportedSession(Session(session_id), notes=dict.fromkeys(pasted.notes))
    settings = _settings(pasted, profile, made)
    _add(made, at_ms, SessionStarted(settings))
    for item in pasted.items:
        match item:
            case ImportedMessage(text=text, images=images, role=role, form=form):
                if made.session.state in ("running", "waiting"):
                    _add(made, at_ms, RunStopped())
                _add(made, at_ms, PromptAdded(text, images, role, form))
            case ImportedAnswer(answer=answer):
                _add_answer(
                    made, pasted, settings, at_ms, json.dumps(answer).encode(), "", told=False
                )
            case ImportedResult():
                _add_result(made, at_ms, item)
    if pasted.response is not None:
        made.response = pasted.response
        _add_answer(made, pasted, settings, at_ms, pasted.response, pasted.body, told=True)
    if made.session.state == "running":
        _add(made, at_ms, RunPaused("brought", WAITS))
    return made


def check_size(session: Session) -> None:
    """Unreadable where the last answer has so many parts, or the session so much of something, that
    its page could not be drawn in time: to be asked after each event, before that takes long."""
    if session.turns and len(session.turns[-1].parts) > MOST_PARTS:
        raise Unreadable(f"An answer of more than {MOST_PARTS:,} texts and calls is not taken.")
    if len(session.by_call) > MOST_CALLS:
        raise Unreadable(f"A session of more than {MOST_CALLS:,} calls is not taken.")
    if len(session.turns) > MOST_TURNS:
        raise Unreadable(f"A session of more than {MOST_TURNS:,} requests is not taken.")
    if len(session.forks) > MOST_FORKS:
        raise Unreadable(f"A session that was forked more than {MOST_FORKS} times is not taken.")


def _settings(pasted: ImportedRequest, profile: Profile, made: ImportedSession) -> Settings:
    setup = pasted.setup
    brought = import_tools(json.dumps(list(setup.tools))) if setup.tools else None
    if brought is not None:
        made.notes |= dict.fromkeys(brought.notes)
    tools = dict[str, Tool]()
    for tool in brought.tools if brought is not None else ():
        called = f"The tool {tool.name or 'without a name'}"
        if tool.tool is None:
            made.notes[f"{called} was left out: {tool.problem}"] = None
        elif tool.name in tools:
            made.notes[f"{called} was left out: another one has its name."] = None
        else:
            tools[tool.name] = replace(tool.tool, answered_by="person", config={})
            told = (note for note in tool.notes if note != UNANSWERED)
            made.notes |= dict.fromkeys(f"{called}: {note}" for note in told)
    return Settings(
        profile,
        setup.model,
        setup.system,
        tuple(tools.values()),
        setup.choice,
        setup.params,
        setup.extra,
        setup.stream,
    )


def _add(made: ImportedSession, at_ms: int, event: Event, source: Source | None = None) -> None:
    logged = Logged(made.session.seq + 1, at_ms, event, source)
    apply(made.session, logged)
    made.log.append(logged)


def _add_answer(
    made: ImportedSession,
    pasted: ImportedRequest,
    settings: Settings,
    at_ms: int,
    data: bytes,
    body: str,
    *,
    told: bool,
) -> None:
    """A turn; `told` is whether the bytes are those that truly came, and are kept."""
    number = len(made.session.turns) + 1
    url = join_url(settings.profile.base_url, pasted.path)
    sent = RequestSent(number, pasted.protocol, "POST", url, {}, body, settings.model)
    status = pasted.status if told else 200
    _add(made, at_ms, sent)
    _add(made, at_ms, ResponseStarted(status, {}), Source(number, 0, 0) if told else None)
    decoder = codec(pasted.protocol).decoder(status)
    turn = made.session.turns[-1]
    for start, end, event in (*decoder.feed(data), *decoder.end(True)):
        if told or not isinstance(event, Warned):
            _add(made, at_ms, event, Source(number, start, end) if told else None)
            check_size(made.session)
    for one in doubled_ids(turn):
        made.notes[f"Calls share the id {one[:60]!r}: their results are taken in order."] = None
    made.open = {}
    for call in reversed(made.session.current_calls):
        made.open.setdefault(("id", call.provider_id), []).append(call)
        made.open.setdefault(("name", call.name), []).append(call)


def _add_result(made: ImportedSession, at_ms: int, item: ImportedResult) -> None:
    call = _find_call(made, item)
    if call is None:
        name = item.call_id or item.name
        made.notes[f"A result was left out: no call {name[:60]!r} stands before it."] = None
        return
    if call.status == "proposed":
        _add(made, at_ms, CallChecked(call.id))
    result = ToolResult(item.content, is_error=item.is_error, form=item.form)
    _add(made, at_ms, CallEnded(call.id, result))


def _find_call(made: ImportedSession, item: ImportedResult) -> Call | None:
    """The call that a result answers: by its id; by its name where it has none. Of calls that
    share it the first one that is still open."""
    found = made.open.get(("id", item.call_id) if item.call_id else ("name", item.name), [])
    while found and not (made.session.current(found[-1]) and found[-1].status != "done"):
        found.pop()
    return found[-1] if found else None
