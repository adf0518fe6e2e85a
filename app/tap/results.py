"""Results of an agent's calls on their way to the provider: which wait here for the user, and which
were edited. Pure.

A result is known by its call and by what it says: one that comes again is the one on the card, and
what was decided of it holds in every later request. One that says something else is a new one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from app.core.events import CallEnded, CallProgressed, Event, StopAt
from app.core.session import Call, Session
from app.core.tools import Content, ToolResult
from app.protocols.body_edits import ResultEdit
from app.protocols.request import Position, RequestItem, ResultMessage
from app.tap.history import MARK

HOLDING: tuple[StopAt, ...] = ("results", "errors")
"""Where a tap that stops there keeps results back."""

Keys = Callable[[], Mapping[Position, str]]
"""What the results of a body are known by (`body_edits.result_keys`), by where they stand."""

_FAILURE = re.compile(
    r"\s*(?:error\b|\{\s*\"(?:error|is_error)\"|(?:process )?exit(?:ed with)? code:? -?[1-9])", re.I
)
"""How agents begin a result that is an error, most of all where the protocol has no word for it."""


def leading_results(items: Sequence[RequestItem]) -> list[ResultMessage]:
    """The results that a request begins with behind the last answer."""
    results: list[ResultMessage] = []
    for item in items:
        if not isinstance(item, ResultMessage):
            break
        results.append(item)
    return results


def paired(
    session: Session, results: Iterable[ResultMessage]
) -> Iterator[tuple[ResultMessage, Call | None]]:
    """Each result with the call of the last answer that it is of: by its id, else by its name; of
    calls that share it in their order. A call that never went to the agent has none."""
    calls: dict[tuple[str, str], deque[Call]] = {}
    for call in session.current_calls:
        if call.decided is None or call.decided.decision == "run":
            calls.setdefault(("id", call.provider_id), deque()).append(call)
            calls.setdefault(("name", call.name), deque()).append(call)
    used: set[str] = set()
    for item in results:
        alike = calls.get(("id", item.call_id) if item.call_id else ("name", item.name), deque())
        while alike and alike[0].id in used:
            alike.popleft()
        its = alike.popleft() if alike else None
        if its is not None:
            used.add(its.id)
        yield item, its


def result_of(item: ResultMessage) -> ToolResult:
    """What the agent says that its call came to."""
    return ToolResult(item.content, is_error=item.is_error, form=item.form)


def holding_events(
    session: Session, results: Sequence[ResultMessage], stop_at: StopAt, keys: Keys
) -> list[Event] | None:
    """What is to be logged of the results of a request that waits for decisions on some of them,
    before it waits; None where it does not wait."""
    events: list[Event] = []
    waits = False
    for item, call in paired(session, results):
        if call is None or not call.at_agent or call.status not in ("running", "interrupted"):
            continue
        result = result_of(item)
        if call.result_held and call.real is not None and is_same(call.real, result):
            waits = True  # on the card that is there
        elif stop_at == "results" or (stop_at == "errors" and has_failed(result)):
            waits = True
            events.append(CallProgressed(call.id, "", real=result, key=keys().get(item.at, "")))
        else:
            events.append(CallEnded(call.id, result))
    return events if waits else None


def has_failed(result: ToolResult) -> bool:
    """Whether it says that the call failed: by the protocol's word for that, or in its text, as
    agents do where there is none."""
    return result.is_error or _FAILURE.match(result.text) is not None


def known_calls(session: Session) -> dict[str, Call]:
    """The calls whose results are held, or were edited by a user, by the keys of these."""
    return {
        call.result_key: call
        for call in session.calls()
        if call.result_key and call.real is not None and (call.result_held or call.status == "done")
    }


def known_in(
    known: Mapping[str, Call], items: Iterable[RequestItem], keys: Keys
) -> Iterator[tuple[str, Call]]:
    """Those of the `known` calls, with their keys, whose results come in a request as they did. An
    agent may have shortened others since."""
    if not known:
        return
    at = keys()
    for item in items:
        if isinstance(item, ResultMessage) and (key := at.get(item.at, "")) in known:
            call = known[key]
            if call.real is not None and is_same(call.real, result_of(item)):
                yield key, call


def edits_for(
    known: Mapping[str, Call], items: Iterable[RequestItem], keys: Keys
) -> dict[str, ResultEdit]:
    """What of a request's results is to be replaced by what the user wrote."""
    return {
        key: ResultEdit(call.result.text, call.result.is_error)
        for key, call in known_in(known, items, keys)
        if call.status == "done" and call.result is not None
    }


def is_same(known: ToolResult, result: ToolResult) -> bool:
    """Whether both say the same. Which secrets are known, and starred, may have changed between."""
    return (
        known.is_error == result.is_error
        and len(known.content) == len(result.content)
        and all(map(_is_same_piece, known.content, result.content))
        and _unread(known) == _unread(result)
    )


def _unread(result: ToolResult) -> list[Any]:
    """Its pieces that have no word of ours, without the marks of the cache, which move."""
    pieces = (piece.get("other") for piece in result.form.get("pieces", ()))
    return [
        {name: value for name, value in piece.items() if name != MARK} for piece in pieces if piece
    ]


def _is_same_piece(known: Content, piece: Content) -> bool:
    if known.type != piece.type or known.data != piece.data or len(known.text) != len(piece.text):
        return False
    if known.text == piece.text:
        return True
    pairs = zip(known.text, piece.text, strict=True)
    return all(a == b or "*" in (a, b) for a, b in pairs)
