"""Faults on purpose: what a person can make of a call's result, to see what the model does.

Some alter what the tool really returned (`runs`), the others stand in for it and run nothing. Both
stay in the log: `CallEnded.real` is what the tool returned, `CallEnded.result` what the model read.
What each is made of stands in staging.py; knows no clock: who runs the call waits for `slow`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.core.errors import BadInput
from app.core.events import Decision
from app.core.session import Call, Session
from app.core.tools import ToolResult

SLOW_S = 10.0
"""How long a slow answer is held back, in seconds."""

LARGE = 100_000
"""Characters of a very large result."""


@dataclass(frozen=True)
class Fault:
    """`title` is what it is called, `says` what it does, as a sentence."""

    name: str
    title: str
    runs: bool
    says: str

    @property
    def decision(self) -> Decision:
        """The decision it goes with."""
        return "run" if self.runs else "answer"


FAULTS: tuple[Fault, ...] = (
    Fault("timeout", "a time-out", False, "The model reads that the tool's time was up."),
    Fault("error", "an error", False, "The model reads that the tool failed."),
    Fault("empty", "an empty result", False, "The model reads a result without a word."),
    Fault("very_large", "a very large result", False, "The model reads 100 kB of rows."),
    Fault("stale", "a stale result", False, "The model reads what an earlier call returned."),
    Fault("cut_json", "cut JSON", True, "The model reads the first half of the result."),
    Fault("wrong_type", "a wrong type", True, "Numbers become text, text numbers, lists objects."),
    Fault("slow", "a slow answer", True, f"The result is held back for {SLOW_S:g} s."),
    Fault("injection", "an injected instruction", True, "An order to the model is added."),
)

OTHER_WAY = {
    True: "needs the tool to run: decide run, or choose a fault that runs nothing.",
    False: "stands in for the tool: decide answer, or choose a fault that runs it.",
}


def fault(name: str) -> Fault | None:
    """The row of that name."""
    return next((one for one in FAULTS if one.name == name), None)


def known(name: str) -> Fault:
    """The row of that name; BadInput names all there are."""
    row = fault(name)
    if row is None:
        names = ", ".join(one.name for one in FAULTS)
        raise BadInput(f"There is no fault {name[:60]!r}; it is one of {names}.")
    return row


def unstageable(session: Session, call: Call, name: str) -> str:
    """Why the fault cannot be staged at `call`, as a sentence; "" where it can."""
    if name == "stale" and next(_earlier(session, call), None) is None:
        return f"No earlier turn has a result of {call.name}, so there is no stale one to stage."
    return ""


def earlier(session: Session, call: Call) -> tuple[int, ToolResult] | None:
    """The turn and the newest good result of the same tool in the turns before that of `call`; one
    of the same arguments goes first. What was staged does not count, what was real does."""
    newest: tuple[int, ToolResult] | None = None
    for same, result in _earlier(session, call):
        if same.arguments == call.arguments:
            return same.turn, result
        newest = newest or (same.turn, result)
    return newest


def _earlier(session: Session, call: Call) -> Iterator[tuple[Call, ToolResult]]:
    """The calls of the same tool in the turns before that of `call`, with their good results, the
    newest first."""
    for turn in reversed(session.turns):
        for before in reversed(turn.calls if turn.number < call.turn else ()):
            if before.name == call.name and before.task_id not in session.tasks:
                result = returned(before)
                if result is not None and not result.is_error and result.content:
                    yield before, result


def returned(call: Call) -> ToolResult | None:
    """What came of the call without any fault: None where nothing did."""
    faulty = call.decided is not None and call.decided.fault
    return call.real if faulty else call.result
