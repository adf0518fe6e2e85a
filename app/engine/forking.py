"""Forks: a new session from the beginning of another, with what a person changed. What is taken
over is for core/forks to say; what comes of it goes through the driver's own doors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.core.decide import next_commands
from app.core.events import Event, RunPaused, SettingsChanged
from app.core.forks import at_call, before_prompt, before_turn, cut
from app.core.settings import Settings
from app.core.state import Prompt, Session
from app.core.tools import Content
from app.engine.engine import Engine


@dataclass(frozen=True)
class Place:
    """Where to fork: before a `prompt` or the request of a `turn` (their numbers), at a `call` (its
    id), which is open again then, or after event `seq`; nothing named: at the end."""

    prompt: int = 0
    turn: int = 0
    call: str = ""
    seq: int | None = None


async def fork(
    engine: Engine,
    session_id: str,
    place: Place,
    *,
    settings: Settings | None = None,
    text: str | None = None,
    title: str = "",
    go: bool = True,
) -> str:
    """The id of the fork. `settings` are its own from there on, `text` is the prompt it goes on
    with. Without `go` nothing is sent: it waits for Continue.

    The tools of a session from somebody else are off in its fork, unless `settings` has them.
    """
    hub = engine.hub
    async with hub.holding(session_id) as live:
        parent = live.session
        seq, chosen = _seq(parent, place), [place.call] if place.call else []
        made = cut(await hub.log.opening(session_id), session_id, seq, chosen)
        events: list[Event] = [made.forked(foreign=not live.own)]
        had = made.session.settings
        assert had is not None
        wanted = settings or (had if live.own else replace(had, tools=()))
        if wanted != had:
            events.insert(0, SettingsChanged(wanted))
        child = await hub.fork(live, made, events, title or live.title)
        images = _images(parent, place)
    if text is not None:
        await engine.driver.prompt(child, text, images)
        return child
    if not go:
        async with hub.holding(child) as live:
            if next_commands(live.session):
                await hub.append(live, [RunPaused("fork")])
    await engine.driver.advance(child)
    return child


def _seq(session: Session, place: Place) -> int:
    """NotFound where the session has no such place."""
    if place.prompt:
        return before_prompt(session, place.prompt)
    if place.turn:
        return before_turn(session, place.turn)
    if place.call:
        return at_call(session, place.call)
    return session.seq if place.seq is None else place.seq


def _images(session: Session, place: Place) -> tuple[Content, ...]:
    """Those of the prompt that is written anew."""
    prompts = (item for item in session.items if isinstance(item, Prompt))
    return next((item.images for item in prompts if item.number == place.prompt), ())
