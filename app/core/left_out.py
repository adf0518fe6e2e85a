"""Calls of an answer that were not taken, for there were too many, and whether a history without
them may go back to its provider. Pure: reads the fold alone."""

from __future__ import annotations

from app.core.events import RunPaused
from app.core.messages import origin
from app.core.sealed import seals
from app.core.session import Session, Turn

CALLS_LEFT_OUT = "calls_left_out"
"""The code of the warning that counts them: `count` in its meta."""


def left_out(turn: Turn) -> int:
    """How many calls of the turn were not taken."""
    told = (warned.meta.get("count") for warned in turn.warnings if warned.code == CALLS_LEFT_OUT)
    return sum(count for count in told if isinstance(count, int))


def cannot_go_back(session: Session) -> RunPaused | None:
    """The pause in place of the next request, where its history has sealed parts that stand among
    calls which were left out: a provider takes these back only with what they led to. Where another
    provider or model is asked, they do not go along."""
    assert session.settings is not None
    for turn in session.turns:
        if turn.dropped or turn.end is None or not left_out(turn):
            continue
        if not origin(turn, session.settings) and _sealed_among(turn):
            return RunPaused("left_out", _said(turn))
    return None


def _sealed_among(turn: Turn) -> bool:
    """Whether something sealed stands behind the last call that was taken."""
    last = turn.calls[-1].part.index if turn.calls else -1
    return any(next(seals(part.meta), None) is not None for part in turn.parts[last + 1 :])


def _said(turn: Turn) -> str:
    return (
        f"Of turn {turn.number} {left_out(turn):,} calls were left out, and among them stand "
        "thoughts that only the provider can read; it takes these back only with their calls, so "
        "nothing is sent. Fork before that turn with a higher limit of calls an answer, or choose "
        "another model in Setup and press Continue: it gets the history without such thoughts."
    )
