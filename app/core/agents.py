"""What the agents are called that `playground tap` starts, how long they wait, and what of theirs
can be held. How they are started is in tap/agents.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.core.events import StopAt

AGENT_TITLES: Mapping[str, str] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
}


def agent_title(name: str) -> str:
    """What a user calls the agent; one that has no name, or another one, was started by hand."""
    return AGENT_TITLES.get(name, name) or "an agent"


@dataclass(frozen=True)
class Waits:
    """Seconds that an agent waits with the variables of its row, None where no end was seen: for
    the head of an answer, in an answer with a harmless event each 10 s, and in a silent one."""

    head_s: float | None = None
    stream_s: float | None = None
    silent_s: float | None = None


AGENT_WAITS: Mapping[str, Waits] = {
    "claude": Waits(head_s=362, stream_s=1800),
    "codex": Waits(),
    "gemini": Waits(silent_s=301),
    "opencode": Waits(head_s=300, silent_s=300),
}
"""By the names of `AGENT_TITLES`. Tried with the versions that docs/tap.md names; the 1800 s of
Claude Code are by its own text."""

HELD_WHOLE_S = 60.0
"""Seconds that an answer which is no stream waits here for decisions on its calls: nothing tells
the agent meanwhile that it goes on."""

STOPS_AT: Mapping[StopAt, str] = {
    "nothing": "nothing",
    "unruled": "calls no rule runs",
    "calls": "every call",
    "results": "every result",
    "errors": "results that are errors",
}
"""What a user reads of where a tap stops."""
