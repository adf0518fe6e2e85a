"""Converts an agent's request to events of its session: its new content, and the request itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from playground.core.events import (
    CallInterrupted,
    Event,
    RequestSent,
    TurnDropped,
    Warned,
)
from playground.core.session import Session, Turn, snapshot
from playground.core.settings import Limits, Protocol, Settings
from playground.engine.responses import PreparedRequest
from playground.exchange.parsers import UnreadableText
from playground.exchange.requests_import import (
    ImportedRequest,
    ImportedSession,
    add_items,
    open_calls,
)
from playground.protocols.registry import codec
from playground.protocols.request import AnswerMessage, PromptMessage
from playground.secrets.detection import AGENTS_OWN
from playground.secrets.names import may_name_secret
from playground.tap.history import ID_HEADERS, AgentBody, Tail, ThreadName
from playground.tap.holding import agent_results, leading_results, pair_results
from playground.tap.relay import AgentRequest
from playground.tap.taps import without_key

WITHOUT_LIMITS = replace(Limits(), idle_s=10.0**8, wall_s=10.0**9)
"""Only the agent limits its waiting time."""

_NOT_PUT_BACK = (
    "An answer whose calls were answered here is no longer in the agent's history, so the model "
    "no longer sees those answers."
)

_LONG = "The agent's history is too long to show. The request has all of it."


@dataclass(frozen=True)
class ReadRequest:
    """A parsed request to a chat API; `text` is its masked body. `size` in bytes, the keyed
    `digest` and the number of `messages` are those of the received body; if it is `edited`,
    everything else is of the body sent on: with the user's edits of results, and the provider's own
    answers. `missing` are the turns whose answers could not be put back."""

    request: AgentRequest
    protocol: Protocol
    name: ThreadName
    body: AgentBody
    text: str
    digest: str
    size: int
    messages: int
    edited: bool = False
    missing: Sequence[int] = ()


def new_events(
    session: Session,
    first: Sequence[Event],
    tail: Tail,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """The events to log before the request: `first`, results, then new messages."""
    imported = _apply_events(session, first, now)
    pasted = ImportedRequest(asked.protocol, asked.body.setup, ())
    results = leading_results(tail.items)
    coming = [
        item
        for item, call in pair_results(imported.session, agent_results(session, results))
        if call is None or call.status != "done"  # the others were decided here
    ]
    add_items(imported, pasted, coming, now)
    for call in imported.session.current_calls:
        if call.status == "running":
            imported.add(now, CallInterrupted(call.id))
    last = imported.session.last_item
    if isinstance(last, Turn) and (tail.again or (_is_unsent(last) and not tail.goes_on)):
        for turn in reversed(imported.session.continued_turns(last)):
            imported.add(now, TurnDropped(turn.number, automatic=True))
    if tail.changed:
        imported.add(now, Warned("history_changed", tail.changed))
    for event in missing_warnings(session, asked.missing):
        imported.add(now, event)
    try:
        add_items(imported, pasted, tail.items[len(results) :], now)
    except UnreadableText:
        return _events_without_history(session, first, tail, asked, now)
    for note in imported.notes:
        imported.add(now, Warned("brought", note))
    return [logged.event for logged in imported.log]


def preview_events(session: Session, events: Sequence[Event]) -> Session:
    """The session as it will be after `events`."""
    return _apply_events(session, events, session.updated_ms).session


def _apply_events(session: Session, first: Sequence[Event], now: int) -> ImportedSession:
    folded = snapshot(session)
    imported = ImportedSession(folded, open=open_calls(folded))
    for event in first:
        imported.add(now, event)
    return imported


def _is_unsent(turn: Turn) -> bool:
    """Whether the agent got neither the calls of its answer nor a continuation."""
    return turn.holds or (turn.request.continues > 0 and turn.passed is None)


def missing_warnings(session: Session, missing: Sequence[int]) -> Iterator[Warned]:
    """One warning for each answer that is no longer in the history of its agent."""
    marked = {mark.warning.meta.get("turn") for mark in session.marks}
    for number in missing:
        if number not in marked:
            yield Warned("history_changed", _NOT_PUT_BACK, {"turn": number})


def _events_without_history(
    session: Session,
    first: Sequence[Event],
    tail: Tail,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """If the agent's history is too long to be shown: only what follows it."""
    answers = [p for p, item in enumerate(tail.items) if isinstance(item, AnswerMessage)]
    imported = _apply_events(session, first, now)
    imported.add(now, Warned("history_left_out", _LONG))
    pasted = ImportedRequest(asked.protocol, asked.body.setup, ())
    rest = tail.items[answers[-1] + 1 :] if answers else ()
    prompts = [item for item in rest if isinstance(item, PromptMessage)]
    add_items(imported, pasted, prompts, now)
    return [logged.event for logged in imported.log]


def continued_event(asked: ReadRequest, turn: Turn, number: int, settings: Settings) -> RequestSent:
    """The request that continues the answer of `turn`, with no forced call."""
    choice = settings.tool_choice
    free = replace(choice, mode="auto", name="") if choice.forced else choice
    sent = sent_event(asked, number, settings)
    return replace(sent, choice=free, continues=turn.number)


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
        protocol=asked.protocol,
        method=request.method,
        url=without_key(request.url.encode("latin-1", "replace")),
        headers=shown,
        body=asked.text,
        model=settings.model,
        choice=settings.tool_choice,
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
