"""Faults on purpose on a card: which can be staged, and afterwards what was real of the call.

Knows what is in the session alone; what is staged of a call is made in core/faults.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.core.faults import FAULTS, SLOW_S, Fault, earlier, fault, unstageable
from app.core.session import Call, Session
from app.core.tools import ToolResult
from app.render.card import Offer


@dataclass(frozen=True)
class Choice:
    """A fault in the menu; `blocked` says why it cannot be chosen now, or is ""."""

    fault: Fault
    blocked: str = ""


@dataclass(frozen=True)
class Told:
    """What was staged. `title` is "" where nothing was, though it had been asked for; `said` are
    the sentences below the result, `real` what the tool returned where the model read another."""

    title: str
    said: str
    real: ToolResult | None = None


def choices(session: Session, call: Call, offer: Offer | None) -> tuple[Choice, ...]:
    """What the card's menu lists, in the order of the table; () where there is no menu."""
    if offer is None:
        return ()
    return tuple(Choice(one, _blocked(session, call, one, offer)) for one in FAULTS)


def _blocked(session: Session, call: Call, one: Fault, offer: Offer) -> str:
    if not one.runs:
        return unstageable(session, call, one.name)
    if not offer.run:
        return "This call cannot run as it came."
    return "Show all of the arguments first." if offer.blocked else ""


def told(session: Session, call: Call) -> Told | None:
    """What the card says of a fault that was asked for, once the call has ended."""
    row = fault(call.decided.fault) if call.decided is not None else None
    if row is None or call.result is None:
        return None
    if not row.runs:
        return Told(row.title, f"The tool was not run. {_more(session, call, row)}".strip())
    if call.real is None:
        return Told("", f"The tool returned nothing, so that {row.title} was not staged.")
    if not call.result.staged:
        said = f"Ended while it was held back; {row.title} was to be staged."
        return Told("", said, call.real)
    if call.result.content == call.real.content and call.result.is_error == call.real.is_error:
        return Told(row.title, _more(session, call, row) or "This changed nothing of the result.")
    return Told(row.title, _more(session, call, row), call.real)


def _more(session: Session, call: Call, row: Fault) -> str:
    assert call.result is not None
    match row.name:
        case "very_large":
            return f"It costs about {round(len(call.result.text) / 4, -2):,.0f} tokens."
        case "stale":
            old = earlier(session, call)
            return f"It is what {call.name[:80]} returned in turn {old[0]}." if old else ""
        case "slow":
            return f"It was held back for {SLOW_S:g} s; the model read what the tool returned."
        case "injection":
            return "The order at its end is made up."
        case "cut_json":
            return "The model read the beginning of what came."
    return ""
