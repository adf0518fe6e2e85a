"""After a restart: what was cut is closed, and what was running asks a person."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from app.core.decide import next_commands, settled
from app.core.errors import IllegalEvent, StoreError
from app.core.events import RunPaused
from app.core.rules import Rule
from app.engine.interruption import over_events
from app.engine.sessions import LiveSession, SessionStore

logger = logging.getLogger("playground")


async def recover(hub: SessionStore, rules: Callable[[str], Sequence[Rule]]) -> list[str]:
    """Close what was cut, ask about what was running. The sessions touched. What `rules` would go
    on with waits for a person, too. One that cannot be read is told of, and keeps no other back.

    Only for the owner of the database, before anything runs.
    """
    touched = await hub.log.unfinished()
    for session_id in await hub.log.waiting():  # a rule may have come just before the end
        if any(rule.here == session_id for rule in rules(session_id)):
            touched.append(session_id)
    for session_id in touched:
        try:
            async with hub.holding(session_id) as live:
                await _close_session(hub, live, rules(session_id))
        except (IllegalEvent, StoreError) as error:
            logger.error("Session %s was not recovered: %s", session_id, error)
    return touched


async def _close_session(hub: SessionStore, live: LiveSession, rules: Sequence[Rule]) -> None:
    last_ms = live.session.updated_ms  # what was cut was at work no longer than that
    turn, closed = live.session.turn, None
    if turn is not None and turn.open:
        closed = await hub.log.cut_off(live.id, turn.number)
    events = over_events(live.session, _RESTARTED)
    await hub.append(live, events, at_ms=last_ms, closed=closed)
    await hub.append(live, settled(live.session), at_ms=last_ms)
    if next_commands(live.session, rules) or live.session.retrying is not None:
        await hub.append(live, [RunPaused("restart")])


_RESTARTED = "The program was stopped while this answer was arriving."
