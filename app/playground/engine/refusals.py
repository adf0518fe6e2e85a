"""Explains a provider's refusal of a request by the history in it: which turn may be the cause."""

from __future__ import annotations

import re
from collections.abc import Iterator

from playground.core.events import ResponseFailed
from playground.core.session import Call, Session
from playground.protocols.encoder import sound_arguments

_ELSEWHERE = frozenset((401, 402, 403, 404, 408, 413, 429))
"""Statuses that say nothing about the content of a request."""

_COMPLAINT = re.compile(
    r"argument|json|pars(?:e|ing)|delimiter|unterminated|expecting|escape|mapping|"
    r"dictionary|unmarshal|has no attribute|tool_use\.input",
    re.IGNORECASE,
)
"""Words of servers that parse the arguments in a history (docs/wire.md, section 2)."""


def complains_of_arguments(failure: ResponseFailed) -> bool:
    """Whether the provider may have refused a request because of arguments in its history."""
    status = failure.status or 0
    return status >= 400 and status not in _ELSEWHERE and bool(_COMPLAINT.search(failure.message))


def explain_refusal(session: Session, number: int) -> str:
    """A sentence on the first turn before turn `number` whose arguments such a server refuses, or
    "" if there is none."""
    call = next(_unsound_calls(session, number), None)
    if call is None:
        return ""
    _, problem = sound_arguments(call.written)
    cause = (
        f"The cause may be turn {call.turn}: the arguments of {call.name[:80] or 'its call'} there "
        f"are not a JSON object. {problem}"
    )
    if session.tapped is not None:
        return (
            f"{cause} The agent sends them unchanged in each request. Go back before that turn "
            "in the agent, or start a new conversation."
        )
    return f"{cause} They were sent as {{}}; fork before that turn if the provider still refuses."


def _unsound_calls(session: Session, number: int) -> Iterator[Call]:
    for turn in session.turns:
        if turn.number < number and turn.end is not None and not turn.dropped:
            yield from (call for call in turn.calls if sound_arguments(call.written)[1])
