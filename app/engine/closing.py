"""What makes things of the past of an answer and of calls that were under way. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from app.core.events import CallEnded, CallInterrupted, Event, PartEnded, ResponseFailed
from app.core.state import Session


def closing_events(
    session: Session, message: str, *, stopped: bool = False, alive: Collection[str] = ()
) -> list[Event]:
    """What makes an answer or a call under way a thing of the past, but calls in `alive`."""
    events: list[Event] = []
    turn = session.turn
    if turn is not None and turn.open:
        events += [
            PartEnded(part.index, part.text, part.name, part.provider_id, complete=False)
            for part in turn.parts
            if not part.ended
        ]
        events.append(ResponseFailed("stopped" if stopped else "interrupted", message))
    events += [
        CallInterrupted(call.id)
        if call.real is None
        else CallEnded(call.id, replace(call.real, staged=True), real=call.real)  # held back
        for call in session.current_calls
        if call.status == "running" and call.id not in alive
    ]
    return events
