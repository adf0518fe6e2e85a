"""Writes down what tasks in the background do; a session that is gone is no trouble."""

from __future__ import annotations

import logging

from app.core.errors import IllegalEvent, NotFound, StoreError
from app.core.events import Event
from app.engine.hub import Hub
from app.executors.workspace.tasks import Tell

log = logging.getLogger(__name__)


def teller(hub: Hub) -> Tell:
    """What appends an event to a session, deleted or not, through the hub."""

    async def tell(session: str, event: Event) -> None:
        try:
            async with hub.holding(session) as live:
                await hub.append(live, [event])
        except NotFound:
            pass  # a tool that is tried alone has no log
        except (IllegalEvent, StoreError) as error:
            log.warning("A task of session %s was not written down: %s", session, error)

    return tell
