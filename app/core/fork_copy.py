"""Where a session can be forked: how much of its log a fork takes over, and what is open again.

A fork takes over a beginning of the log, unchanged, that ends where no answer is under way. What a
user changes comes after it (SessionForked, and events of the fork's own). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from app.core.errors import NotFound, Refused
from app.core.events import Event, Logged, SessionForked
from app.core.reducer import apply, fold
from app.core.session import Prompt, Session


@dataclass(frozen=True)
class Cut:
    """The first `seq` events, folded as `session`, and the calls that are open again after them."""

    seq: int
    session: Session
    reopened: tuple[str, ...] = ()

    def forked(self, *, foreign: bool = False) -> SessionForked:
        """The event that ends what is taken over."""
        return SessionForked(self.session.id, self.seq, self.reopened, foreign)


def before_prompt(session: Session, number: int) -> int:
    """The last event before prompt `number`; NotFound where there is none."""
    for item in session.items:
        if isinstance(item, Prompt) and item.number == number:
            return item.seq - 1
    raise NotFound(f"This session has no prompt {number}.")


def before_turn(session: Session, number: int) -> int:
    """The last event before the request of turn `number`; NotFound where there is none."""
    if not 0 < number <= len(session.turns):
        raise NotFound(f"This session has no turn {number}.")
    return session.turns[number - 1].seq - 1


def at_call(session: Session, call_id: str) -> int:
    """The last event before what came after the calls of that turn: the turn's calls are as they
    were when the run went on. NotFound where there is none."""
    turn = session.turns[session.call(call_id).turn - 1]
    return next((item.seq - 1 for item in session.items if item.seq > turn.seq), session.seq)


def cut(log: Sequence[Logged], session_id: str, seq: int, chosen: Sequence[str] = ()) -> Cut:
    """The beginning of `log` up to event `seq`, or to before the answer that was under way there.
    `chosen` calls are open again, as are those that were not done; in a run that was stopped, and
    stays so where none is chosen, the latter once it goes on.

    `log` needs no deltas of parts that have ended. Refused where a chosen call cannot be decided
    any more at that place.
    """
    session = fold(session_id, (logged for logged in log if logged.seq <= seq))
    turn = session.turn
    if turn is not None and turn.open:
        seq = turn.seq - 1
        session = fold(session_id, (logged for logged in log if logged.seq <= seq))
    if session.settings is None:
        raise Refused("A fork takes over at least the session's settings.")
    current = {call.id for call in session.current_calls}
    if lost := [call_id for call_id in chosen if call_id not in current]:
        raise Refused(f"Call {lost[0]} can no longer be decided: its answer did not end well.")
    goes_on = bool(chosen) or not session.stopped  # what a user stopped waits for Continue
    reopened = [
        call.id
        for call in session.current_calls
        if call.id in chosen or (call.status != "done" and goes_on)
    ]
    return Cut(session.seq, session, tuple(reopened))


def theirs(session: Session, seq: int, *, own: bool) -> bool:
    """Whether what stands at event `seq` is somebody else's word: all of what they wrote, and what
    was taken over of it up to where it was forked."""
    return not own or any(fork.foreign and seq < at for at, fork in session.forks)


def begun(log: Sequence[Logged], cut: Cut, events: Sequence[Event]) -> Session:
    """The fork as it will begin: what `cut` takes over of `log`, and `events` after it. It has the
    parent's id. IllegalEvent where they cannot follow."""
    session = fold(cut.session.id, (logged for logged in log if logged.seq <= cut.seq))
    for event in events:
        apply(session, Logged(session.seq + 1, session.updated_ms, event))
    return session


@dataclass(frozen=True)
class Spot:
    """The item of the flow at which a fork branches off: its calls, or what it would come before;
    "end" is after the last one."""

    kind: Literal["prompt", "turn", "call", "end"]
    number: int = 0
    call: str = ""

    @property
    def words(self) -> str:
        match self.kind:
            case "call":
                return f"at call {self.call}"
            case "end":
                return "at its end"
            case _:
                return f"before {self.kind} {self.number}"


def spot(parent: Session, seq: int, reopened: Sequence[str] = ()) -> Spot:
    """Where in `parent` a fork branches off that took over its first `seq` events."""
    if reopened and (call := parent.by_call.get(reopened[0])) is not None:
        return Spot("call", call.turn, call.id)
    item = next((item for item in parent.items if item.seq > seq), None)
    if item is None:
        return Spot("end", parent.turns[-1].number if parent.turns else 0)
    return Spot("prompt" if isinstance(item, Prompt) else "turn", item.number)
