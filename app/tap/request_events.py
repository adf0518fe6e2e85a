"""A request of an agent as events of its session: what it says that is new, and that it is sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.core.events import (
    CallInterrupted,
    Event,
    RequestReceived,
    RequestSent,
    SettingsChanged,
    TurnDropped,
    Warned,
)
from app.core.session import Session, Turn, snapshot
from app.core.settings import Limits, Protocol, Settings
from app.engine.responses import PreparedRequest
from app.exchange.parsers import Unreadable
from app.exchange.requests_import import (
    ImportedRequest,
    ImportedSession,
    add_items,
    open_calls,
)
from app.protocols.registry import codec
from app.protocols.request import AnswerMessage, PromptMessage, ResultMessage
from app.secrets.detection import AGENTS_OWN
from app.secrets.names import may_name_secret
from app.tap.history import ID_HEADERS, AgentBody, Tail, ThreadName
from app.tap.relay import AgentRequest
from app.tap.taps import without_key

WITHOUT_LIMITS = replace(Limits(), idle_s=10.0**8, wall_s=10.0**9)
"""The agent alone says how long it waits."""


@dataclass(frozen=True)
class ReadRequest:
    """A request to a chat API, as it was read; `text` is its body, masked, and `digest` the keyed
    digest of the body as it came."""

    request: AgentRequest
    protocol: Protocol
    name: ThreadName
    body: AgentBody
    text: str
    digest: str


def new_events(
    session: Session,
    tail: Tail,
    settings: Settings,
    received: RequestReceived,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """What the session does not know yet, up to the request: results, then what is said."""
    now_folded = snapshot(session)
    imported = ImportedSession(now_folded, open=open_calls(now_folded))
    pasted = ImportedRequest(asked.protocol, asked.body.setup, ())
    imported.add(now, received)
    if settings != session.settings:
        imported.add(now, SettingsChanged(settings))
    results = 0
    while results < len(tail.items) and isinstance(tail.items[results], ResultMessage):
        results += 1
    add_items(imported, pasted, tail.items[:results], now)
    for call in imported.session.current_calls:
        if call.status == "running":
            imported.add(now, CallInterrupted(call.id))
    last = imported.session.last_item
    lost = tail.again or (isinstance(last, Turn) and last.holds and not tail.goes_on)
    if isinstance(last, Turn) and lost:  # the agent never had that answer
        imported.add(now, TurnDropped(last.number, automatic=True))
    if tail.changed:
        imported.add(now, Warned("history_changed", tail.changed))
    try:
        add_items(imported, pasted, tail.items[results:], now)
    except Unreadable:
        return _without_history(session, imported, received, tail, asked, now)
    for note in imported.notes:
        imported.add(now, Warned("brought", note))
    return [logged.event for logged in imported.log]


def _without_history(
    session: Session,
    imported: ImportedSession,
    received: RequestReceived,
    tail: Tail,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """Where the history that the agent came with is too long to be drawn: what follows it alone."""
    answers = [p for p, item in enumerate(tail.items) if isinstance(item, AnswerMessage)]
    imported = ImportedSession(snapshot(session))
    imported.add(now, received)
    imported.add(now, Warned("history_left_out", _LONG))
    pasted = ImportedRequest(asked.protocol, asked.body.setup, ())
    rest = tail.items[answers[-1] + 1 :] if answers else ()
    prompts = [item for item in rest if isinstance(item, PromptMessage)]
    add_items(imported, pasted, prompts, now)
    return [logged.event for logged in imported.log]


_LONG = "The agent came with a history that is too long to be shown; the request has all of it."


def sent_event(asked: ReadRequest, number: int, settings: Settings) -> RequestSent:
    request = asked.request
    headers = {name.decode("latin-1").lower(): value for name, value in request.headers}
    shown = {
        name: AGENTS_OWN
        if may_name_secret(name) and name not in ID_HEADERS
        else value.decode("latin-1")
        for name, value in headers.items()
    }
    return RequestSent(
        number,
        asked.protocol,
        request.method,
        without_key(request.url.encode("latin-1", "replace")),
        shown,
        asked.text,
        settings.model,
        settings.tool_choice,
    )


def prepared_request(asked: ReadRequest, sent: RequestSent, settings: Settings) -> PreparedRequest:
    return PreparedRequest(
        sent,
        codec(asked.protocol),
        {},
        b"",
        WITHOUT_LIMITS,
        profile=asked.request.profile,
        tools=settings.tools,
    )
