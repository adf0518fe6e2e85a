"""Writes down what tasks in the background do; a session that is gone is no trouble."""

from __future__ import annotations

import logging
from functools import partial

from app.core.errors import IllegalEvent, NotFound, StoreError
from app.core.events import Event
from app.engine.sessions import SessionStore
from app.executors.workspace.tasks import Tell

log = logging.getLogger(__name__)


def task_writer(hub: SessionStore) -> Tell:
    """What appends an event to a session, deleted or not, through the hub."""

    async def tell(session: str, event: Event) -> None:
        try:
            await hub.surely(session, partial(hub.append, events=[event]))
        except NotFound:
            pass  # a tool that is tried alone has no log
        except (IllegalEvent, StoreError) as error:
            log.warning("A task of session %s was not written down: %s", session, error)

    return tell
