"""Operations on whole sessions: pin, archive, tag, and delete permanently."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence

from playground.core.errors import BadInput
from playground.engine.engine import Engine
from playground.store import log
from playground.store.maintenance import deleted_sessions, shrink

MOST_TAGS = 20
LONGEST_TAG = 40


async def pin(engine: Engine, session_id: str, *, on: bool) -> None:
    """Pins the session to the top of the list, or unpins it. NotFound: no such session."""
    async with engine.sessions.lock_session(session_id) as live:
        await log.pin(engine.database, session_id, engine.sessions.clock() if on else None)
        live.pinned = on
    engine.sessions.notify_list()


async def archive(engine: Engine, session_id: str, *, on: bool) -> None:
    """Hides the session from the list (search still finds it), or shows it again. NotFound."""
    async with engine.sessions.lock_session(session_id) as live:
        await log.archive(engine.database, session_id, engine.sessions.clock() if on else None)
        live.archived = on
    engine.sessions.notify_list()


async def tag(engine: Engine, session_id: str, tags: Sequence[str]) -> tuple[str, ...]:
    """Replaces the session's tags; returns them as stored. BadInput: too many, or one is too
    long."""
    clean_tags = tuple(
        sorted({" ".join(engine.keys.redactor().redact_text(tag).split()) for tag in tags})
    )
    clean_tags = tuple(name for name in clean_tags if name)
    if len(clean_tags) > MOST_TAGS:
        raise BadInput(f"A session has at most {MOST_TAGS} tags. Remove one first.")
    if long := next(
        (name for name in clean_tags if len(name) > LONGEST_TAG or not name.isprintable()), ""
    ):
        raise BadInput(
            f"{long[:50]!r} is not a tag. A tag has 1 to {LONGEST_TAG} visible characters."
        )
    async with engine.sessions.lock_session(session_id) as live:
        await log.set_tags(engine.database, session_id, clean_tags)
        live.tags = clean_tags
    engine.sessions.notify_list()
    return clean_tags


async def purge(engine: Engine, session_ids: Sequence[str]) -> None:
    """Deletes sessions in the bin permanently, with files and rules, and shrinks the database.
    Conflict if one is not in the bin or still runs; those before it are deleted by then."""
    async with engine.purging:
        try:
            for session_id in session_ids:
                async with engine.sessions.lock_session(session_id) as live:
                    await engine.sessions.purge(live)
                engine.rules.forget(session_id)
                await engine.executors.forget(session_id)
                await asyncio.to_thread(_remove, engine, session_id)
        finally:
            await shrink(engine.database)


async def sessions_in_bin(engine: Engine) -> list[str]:
    """The deleted sessions that can be restored."""
    return await deleted_sessions(engine.database)


def _remove(engine: Engine, session_id: str) -> None:
    """Removes its scratch folder, and the folder with the files as they were before each change."""
    for left in (session_id, f"{session_id}.history"):
        shutil.rmtree(engine.files / left, ignore_errors=True)
