"""What a fault is: a row of the table in `faults`, and whether it means anything on a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.protocols.server import ProviderServer
from app.simulator.fault_answers import Answer
from app.simulator.fault_calls import Change
from app.simulator.fault_raw import Raw
from app.simulator.fault_streams import Twist


@dataclass(frozen=True)
class Fault:
    """One way to go wrong: an `answer` in place of all, a `change` of what is said, a `twist` of
    the frames it travels in, other `headers` (None: left out), bytes `raw` on the socket, no
    stream at all (`unstreamed`). Change, twist and headers may come together.

    `number` is what N stands for if none is given. `always`: a change that is played in every turn.
    `then_ok`: the answer is played N times for one request, then it is let through. `any_body`: a
    twist that a JSON body can suffer, too, in pieces or (`whole_frames`) as it is; the others need
    a stream. `endless`: it never ends by itself. `only` names the protocols on which it means
    anything (empty: all), and `why` says in a clause what the others lack.
    """

    name: str
    about: str
    number: int = 0
    answer: Answer | None = None
    change: Change | None = None
    twist: Twist | None = None
    raw: Raw | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    unstreamed: bool = False
    always: bool = False
    then_ok: bool = False
    any_body: bool = False
    whole_frames: bool = False
    endless: bool = False
    only: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Injected:
    """A fault as it was asked for, with its number."""

    fault: Fault
    number: int


def meaningless(fault: Fault, end: ProviderServer) -> str:
    """A sentence where `fault` has no meaning on the protocol of `end`, else ""."""
    if not fault.only or end.name in fault.only:
        return ""
    return (
        f"The fault {fault.name} has no meaning on {end.name}: {fault.why}. "
        f"Use it on {', '.join(fault.only)}."
    )
