"""The same prompt to several models at once: a session for each, alike but for what its row names.

They are new, or forks of one place of a session, which stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from app.core.errors import BadInput, Conflict, PlaygroundError, Refused
from app.core.fork_copy import before_prompt
from app.core.session import Session
from app.core.settings import Settings, model_of
from app.engine import manage_sessions
from app.engine.engine import Engine
from app.engine.fork import ForkPlace, fork
from app.engine.settings import settings_from
from app.render.filters import clip
from app.render.view import model_names
from app.store.writes import title_of

Row = Mapping[str, Any]
"""What of the settings is another for one of the sessions, in the words of docs/contract.md."""


async def ask_in_new_sessions(
    engine: Engine, text: str, rows: Sequence[Row], base: Settings
) -> list[str]:
    """A new session for each of `rows`, on the settings of `base`, and `text` to all at once; their
    ids. What is refused makes none: BadInput, Refused."""
    if not text.strip():
        raise Refused("A prompt needs some text; write what all of them are asked.")
    wanted = await _settings(engine, rows, base)
    ids = [
        await engine.sessions.create(settings, title)
        for settings, title in zip(wanted, titles_for(wanted, text), strict=True)
    ]
    await asyncio.gather(*(engine.runner.prompt(session_id, text) for session_id in ids))
    return await _together(engine, ids, text)


async def ask_in_forks(
    engine: Engine, session_id: str, place: ForkPlace, text: str, rows: Sequence[Row]
) -> list[str]:
    """A fork at `place` for each of `rows`, each with `text` as its next prompt; their ids.

    What is refused makes none: NotFound, BadInput, Refused, Conflict.
    """
    async with engine.sessions.holding(session_id) as live:
        base = settings_at(live.session, place)
        if not place.prompt and live.session.state not in ("idle", "failed", "interrupted"):
            raise Conflict(
                "This session has not come to an end; ask its last prompt again instead, "
                "or wait until it is done."
            )
    titles = titles_for(await _settings(engine, rows, base), text)

    async def forked(row: Row, title: str) -> str:
        def change(_: Settings) -> Row:
            return row

        return await fork(engine, session_id, place, change=change, text=text, title=title)

    forks = (forked(row, title) for row, title in zip(rows, titles, strict=True))
    outcomes = await asyncio.gather(*forks, return_exceptions=True)
    if failed := [outcome for outcome in outcomes if isinstance(outcome, BaseException)]:
        for outcome in outcomes:
            if isinstance(outcome, str):
                await engine.runner.delete(outcome)
        raise failed[0]
    return await _together(
        engine, [outcome for outcome in outcomes if isinstance(outcome, str)], text
    )


async def _together(engine: Engine, ids: list[str], text: str) -> list[str]:
    """One tag on all of them, by which the list finds them together."""
    title = engine.keys.redactor().redact_text(title_of(text))  # masked first, and cut after
    printable = "".join(character for character in title if character.isprintable())
    for session_id in ids if len(ids) > 1 else ():
        await manage_sessions.tag(
            engine, session_id, [clip(f"asked: {printable}", manage_sessions.LONGEST_TAG)]
        )
    return ids


def settings_at(session: Session, place: ForkPlace) -> Settings:
    """Those that held where `place` is."""
    seq = before_prompt(session, place.prompt) if place.prompt else session.seq
    held = [settings for at, settings in session.settings_at if at <= seq]
    if not held:
        raise Refused("A fork takes over at least the session's settings.")
    return held[-1]


async def _settings(engine: Engine, rows: Sequence[Row], base: Settings) -> list[Settings]:
    """Each row's, on `base`; BadInput names the row that is wrong."""
    all_settings = []
    for number, row in enumerate(rows, 1):
        try:
            all_settings.append(await settings_from(engine, row, base))
        except PlaygroundError as error:
            raise BadInput(f"Model {number}: {error}") from error
    return all_settings


def titles_for(all_settings: Sequence[Settings], text: str) -> list[str]:
    """Which model each is, or by which profile it is asked where that is what tells it from the
    others, and what it was asked."""
    called = model_names([(model_of(settings), settings.profile.name) for settings in all_settings])
    return [f"{name[:80]}: {title_of(text)}" for name in called]
