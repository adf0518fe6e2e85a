"""What a user does with whole sessions: pin, archive, tag, and delete for good."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence

from app.core.errors import BadInput
from app.engine.engine import Engine
from app.store import log
from app.store.maintenance import deleted_sessions, shrink

MOST_TAGS = 20
LONGEST_TAG = 40


async def pin(engine: Engine, session_id: str, *, on: bool) -> None:
    """Above all others in the list, or no more. NotFound where there is no such session."""
    async with engine.sessions.holding(session_id) as live:
        await log.pin(engine.database, session_id, engine.sessions.clock() if on else None)
        live.pinned = on
    engine.sessions.ring_list()


async def archive(engine: Engine, session_id: str, *, on: bool) -> None:
    """Out of the list, though found, or back in it. NotFound where there is no such session."""
    async with engine.sessions.holding(session_id) as live:
        await log.archive(engine.database, session_id, engine.sessions.clock() if on else None)
        live.archived = on
    engine.sessions.ring_list()


async def tag(engine: Engine, session_id: str, tags: Sequence[str]) -> tuple[str, ...]:
    """`tags` are all that the session has from now on; as they are kept. BadInput where there are
    too many or one is too long."""
    clean_tags = tuple(
        sorted({" ".join(engine.keys.redactor().redact_text(tag).split()) for tag in tags})
    )
    clean_tags = tuple(name for name in clean_tags if name)
    if len(clean_tags) > MOST_TAGS:
        raise BadInput(f"A session has at most {MOST_TAGS} tags; take one away first.")
    if long := next(
        (name for name in clean_tags if len(name) > LONGEST_TAG or not name.isprintable()), ""
    ):
        raise BadInput(
            f"A tag has 1 to {LONGEST_TAG} characters that are visible; {long[:50]!r} is not a tag."
        )
    async with engine.sessions.holding(session_id) as live:
        await log.set_tags(engine.database, session_id, clean_tags)
        live.tags = clean_tags
    engine.sessions.ring_list()
    return clean_tags


async def purge(engine: Engine, session_ids: Sequence[str]) -> None:
    """Delete sessions of the bin for good, with their files and rules, and make the database
    smaller. Conflict where one is not in the bin or still runs; those before it are gone then."""
    async with engine.purging:
        try:
            for session_id in session_ids:
                async with engine.sessions.holding(session_id) as live:
                    await engine.sessions.purge(live)
                engine.rules.forget(session_id)
                await engine.executors.forget(session_id)
                await asyncio.to_thread(_remove, engine, session_id)
        finally:
            await shrink(engine.database)


async def bin_of(engine: Engine) -> list[str]:
    """The sessions that were deleted and can be restored."""
    return await deleted_sessions(engine.database)


def _remove(engine: Engine, session_id: str) -> None:
    """Its scratch folder, and beside it what was there before each change."""
    for left in (session_id, f"{session_id}.history"):
        shutil.rmtree(engine.files / left, ignore_errors=True)
