"""A request of an agent as events of its session: what it says that is new, and that it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.events import (
    CallInterrupted,
    Event,
    RequestSent,
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
from app.protocols.request import AnswerMessage, PromptMessage
from app.secrets.detection import AGENTS_OWN
from app.secrets.names import may_name_secret
from app.tap.history import ID_HEADERS, AgentBody, Tail, ThreadName
from app.tap.relay import AgentRequest
from app.tap.results import leading_results, paired
from app.tap.taps import without_key

WITHOUT_LIMITS = replace(Limits(), idle_s=10.0**8, wall_s=10.0**9)
"""The agent alone says how long it waits."""


@dataclass(frozen=True)
class ReadRequest:
    """A request to a chat API, as it was read; `text` is its body, masked. `size` in bytes and the
    keyed `digest` are of the body as it came; where results in it are `edited`, all else is of what
    goes on."""

    request: AgentRequest
    protocol: Protocol
    name: ThreadName
    body: AgentBody
    text: str
    digest: str
    size: int
    edited: bool = False


def new_events(
    session: Session,
    first: Sequence[Event],
    tail: Tail,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """What is to be logged up to the request: `first`, results, then what is said."""
    imported = _with_first(session, first, now)
    pasted = ImportedRequest(asked.protocol, asked.body.setup, ())
    results = leading_results(tail.items)
    coming = [
        item
        for item, call in paired(imported.session, results)
        if call is None or call.status != "done"  # the others were decided here
    ]
    add_items(imported, pasted, coming, now)
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
        add_items(imported, pasted, tail.items[len(results) :], now)
    except Unreadable:
        return _without_history(session, first, tail, asked, now)
    for note in imported.notes:
        imported.add(now, Warned("brought", note))
    return [logged.event for logged in imported.log]


def _with_first(session: Session, first: Sequence[Event], now: int) -> ImportedSession:
    folded = snapshot(session)
    imported = ImportedSession(folded, open=open_calls(folded))
    for event in first:
        imported.add(now, event)
    return imported


def _without_history(
    session: Session,
    first: Sequence[Event],
    tail: Tail,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """Where the history that the agent came with is too long to be drawn: what follows it alone."""
    answers = [p for p, item in enumerate(tail.items) if isinstance(item, AnswerMessage)]
    imported = _with_first(session, first, now)
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
