"""Small sessions to compare: a turn is its text, or its calls as (name, arguments)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from playground.core.session_diff import Side, side
from tests.factories import Log

Turns = str | Sequence[tuple[Any, ...]]


def round_log(*turns: Turns, prompt: str = "Go.", log: Log | None = None) -> Log:
    """A round: `prompt`, then each turn; a call may have its result as a third value."""
    log = (log or Log().start()).prompt(prompt)
    for turn in turns:
        log.request()
        if isinstance(turn, str):
            log.part(0, "text", turn).end("stop")
            continue
        for place, call in enumerate(turn):
            log.call(place, call[0], call[1])
        log.end()
        for place, call in enumerate(turn):
            call_id = f"{log.turns}.{place}"
            log.check(call_id).run(call_id, call[2] if len(call) > 2 else "11 degrees")
    return log


def sided(*turns: Turns, prompt: str = "Go.", id: str = "s") -> Side:
    return side(round_log(*turns, prompt=prompt).session(id), id)
