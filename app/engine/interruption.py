"""What makes things of the past of an answer and of calls that were under way. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from app.core.events import (
    ENDED_WITH_PROGRAM,
    CallEnded,
    CallInterrupted,
    Event,
    Logged,
    PartEnded,
    ResponseFailed,
    TaskEnded,
)
from app.core.reducer import apply
from app.core.session import Session


def closing_events(
    session: Session, message: str, *, stopped: bool = False, alive: Collection[str] = ()
) -> list[Event]:
    """What makes an answer or a call under way a thing of the past, but calls in `alive` and those
    that an agent of somebody else runs."""
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
        if call.status == "running" and call.id not in alive and session.tapped is None
    ]
    return events


def over_events(session: Session, message: str) -> list[Event]:
    """What makes everything of a session a thing of the past, its tasks in the background too."""
    tasks = [TaskEnded(task.id, ENDED_WITH_PROGRAM) for task in session.open_tasks]
    return [*closing_events(session, message), *tasks]


def left_events(session: Session) -> list[Event]:
    """What says of the calls at an agent that no result of them will come."""
    if session.tapped is None:
        return []
    running = (call for call in session.current_calls if call.status == "running")
    return [CallInterrupted(call.id) for call in running]


def cut_off(session: Session) -> None:
    """Bring an imported session to rest: it may have been exported in mid-run, and nothing of it
    goes on here. Its log stays as it came, only what is folded from it is closed."""
    running, seq = session.state == "running", session.seq
    for event in (*left_events(session), *over_events(session, _EXPORTED)):
        apply(session, Logged(session.seq + 1, session.updated_ms, event))
    session.seq, session.cut_off = seq, running


_EXPORTED = "The session was exported while this answer was arriving."
