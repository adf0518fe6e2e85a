"""A recorded session as a model: its tape, and new sessions that are answered from it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from playground.core.errors import BadInput, Conflict
from playground.core.reducer import fold, is_foreign_event
from playground.core.session import Prompt, Session, Turn
from playground.core.settings import RECORDING_URL, Profile
from playground.engine.engine import Engine
from playground.engine.import_session import harmless_settings
from playground.simulator.recorded import RecordedExchange, RecordedSession
from playground.store.log import Log
from playground.store.writes import Chunk

PACES = {"0.25": "×4", "1": "as recorded", "4": "×0.25", "0": "at once"}
"""Factor for the pauses, and its label for users."""


async def recorded_answers(log: Log, session_id: str) -> RecordedSession | None:
    """The tape of a session; None if it does not exist, is deleted, or has no answered request."""
    summary = await log.summary(session_id)
    if summary is None or summary.deleted:
        return None
    session = fold(session_id, await log.events_to_fold(session_id))
    closed = await log.recordings(session_id)
    pieces: dict[int, list[Chunk]] = {}
    for chunk in await log.chunks(session_id):
        pieces.setdefault(chunk.recording, []).append(chunk)
    turns = [turn for turn in session.turns if not turn.open]
    if not turns:
        return None
    protocol = turns[-1].request.protocol
    takes = [
        _take(
            turn, pieces.get(turn.number, []), turn.number in closed and closed[turn.number].clean
        )
        for turn in turns
        if turn.request.protocol == protocol
    ]
    return RecordedSession(protocol, takes)


async def play(engine: Engine, session_id: str, pace: str = "1") -> str:
    """Creates a session with the settings of the recorded one's first request and its recording as
    the model; returns the id. Settings of an imported session are limited as in a fork
    (`harmless`). Conflict if the session is deleted."""
    if pace not in PACES:
        raise BadInput(f"pace must be one of {', '.join(PACES)}. It multiplies the pauses.")
    async with engine.sessions.lock_session(session_id) as live:
        if live.deleted:
            raise Conflict("This session is deleted. Restore it, then replay it.")
        title, turn = live.title, _first_turn(live.session)
        foreign = is_foreign_event(live.session, turn.seq, own=live.own)
    first = turn.settings
    settings = replace(
        harmless_settings(engine, first) if foreign else first,
        profile=_profile(first.profile, session_id, title, pace),
        model=first.model or first.profile.model,
    )
    return await engine.sessions.create(settings, f"{title or 'A session'}, with its recording")


async def recorded_prompt(log: Log, session_id: str, number: int) -> str:
    """The text of prompt `number` of a recorded session, "" if there is none."""
    if await log.summary(session_id) is None:
        return ""
    session = fold(session_id, await log.events_to_fold(session_id))
    prompts = (item for item in session.items if isinstance(item, Prompt))
    return next((item.text for item in prompts if item.number == number), "")


def _first_turn(session: Session) -> Turn:
    """The first answer on the tape."""
    ended = [turn for turn in session.turns if not turn.open]
    if not ended:
        raise BadInput("This session has no answer yet, so there is nothing to replay.")
    protocol = ended[-1].request.protocol
    return next(turn for turn in ended if turn.request.protocol == protocol)


def _profile(was: Profile, session_id: str, title: str, pace: str) -> Profile:
    return replace(
        was,
        name=f"recording of {' '.join(title.split())[:40] or session_id}",
        base_url=RECORDING_URL + session_id,
        key_name="",
        headers={} if pace == "1" else {"x-playground-pace": pace},
    )


def _take(turn: Turn, pieces: list[Chunk], clean: bool) -> RecordedExchange:
    response, failure = turn.response, turn.failure
    head_ms = turn.answered_ms if turn.answered_ms is not None else turn.sent_ms
    times = [head_ms, *(chunk.at_ms for chunk in pieces)]
    pauses = [max(after - before, 0) / 1000 for before, after in pairwise(times)]
    return RecordedExchange(
        turn.number,
        body=turn.request.body,
        status=None if response is None else response.status,
        headers={} if response is None else response.headers,
        first_s=max(head_ms - turn.sent_ms, 0) / 1000,
        pieces=[(pause, chunk.data) for pause, chunk in zip(pauses, pieces, strict=True)],
        clean=clean,
        failure="" if failure is None else failure.message,
    )
