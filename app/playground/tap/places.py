"""Finds the session of an agent's request: by ids in its headers, by an earlier call or answer, by
the request that it repeats; or a new one."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from playground.core.errors import NotFound, StoreError
from playground.core.session import Session, Turn
from playground.core.settings import Settings
from playground.engine.engine import Engine
from playground.engine.sessions import LiveSession
from playground.protocols.request import AnswerMessage, RequestSetup, ResultMessage
from playground.tap.history import (
    AgentBody,
    ThreadName,
    fingerprint_of_parts,
    fingerprint_of_turn,
    id_of_answer,
    prefixes_of,
    read_body,
    thread_of,
)
from playground.tap.request_events import ReadRequest

logger = logging.getLogger("playground")

MOST_KNOWN = 20_000
"""Most calls and answers, over all taps, in the indexes."""

MOST_THREADS = 500
"""Most sessions whose last request's messages are cached; others are read again."""

MOST_ALIKE = 20
"""Most sessions with the same last answer that are compared."""

MOST_LOOKED_AT = 20
"""Most sessions of a tap, newest first, that are indexed after a start."""


@dataclass
class ThreadData:
    """Cached data of a session beside its fold. `known` are the digests of the messages of its last
    request, None if they must be read again; `settings` were made from `setup`. `contents` are
    answers that are put back, by turn number, unredacted."""

    known: Sequence[str] | None = None
    setup: RequestSetup | None = None
    settings: Settings | None = None
    contents: dict[int, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionPlace:
    """The place of a request: `session`, "" for a new one, which `parent` started."""

    session: str = ""
    matched: Literal["new", "header", "call", "message"] = "new"
    parent: str = ""


class SessionFinder:
    """Finds the sessions of requests. `waits(session_id)` is whether another client waits for
    something held in that session."""

    def __init__(self, engine: Engine, waits: Callable[[str], bool]) -> None:
        self._engine = engine
        self._waits = waits
        self._named: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._by_call: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._by_answer: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        self._by_request: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._threads: OrderedDict[str, ThreadData] = OrderedDict()
        self._known_taps: set[str] = set()

    async def find(self, asked: ReadRequest) -> SessionPlace:
        tap, name = asked.request.tap.id, asked.name
        await self._index_tap(tap)
        place = self._find_by_name(tap, name) or self._find_by_history(tap, asked.body)
        unanswered = None if place is not None else self._find_unanswered(tap, asked.body)
        place = place or unanswered
        if place is None:
            above = self._named.get((tap, name.thread, name.parent_agent)) if name.agent else ""
            return SessionPlace(parent=above or "")
        try:
            async with self._engine.sessions.lock_session(place.session) as live:
                session, settings = live.session, live.session.settings
                gone, turn = live.deleted or session.tapped is None, session.turn
        except NotFound:
            return SessionPlace()
        answered = turn is not None and turn.end is not None and turn.passed is not None
        if turn is not None and not fingerprint_of_turn(turn):
            answered = False  # without text or calls the agent's copy cannot be recognized
        if gone or (place is unanswered and answered):
            return SessionPlace()
        setup = asked.body.setup
        another = settings is not None and settings.system != setup.system
        toolless = settings is not None and not settings.tools
        if another and toolless and setup.tools and place.matched == "header":
            return SessionPlace()  # the first request with that id was perhaps for a title
        holds = session.received is not None or (turn is not None and turn.holds)
        waits = holds and self._waits(place.session)
        beside = turn is not None and (turn.open or waits)
        aside = another and not setup.tools
        return SessionPlace(parent=place.session) if beside or aside else place

    def _find_by_name(self, tap: str, name: ThreadName) -> SessionPlace | None:
        session_id = self._named.get((tap, name.thread, name.agent)) if name.thread else None
        return SessionPlace(session_id, "header") if session_id else None

    def _find_by_history(self, tap: str, body: AgentBody) -> SessionPlace | None:
        if session_id := self._by_call.get((tap, body.follows)):
            return SessionPlace(session_id, "call")
        for item in reversed(body.items):
            match item:
                case ResultMessage(call_id=id_) if session_id := self._by_call.get((tap, id_)):
                    return SessionPlace(session_id, "call")
                case AnswerMessage(parts=parts):
                    for part in parts:
                        if session_id := self._by_call.get((tap, part.call_id)):
                            return SessionPlace(session_id, "call")
                    alike = self._by_answer.get((tap, fingerprint_of_parts(parts)), ())
                    return (
                        SessionPlace(self._newest_continued(alike, body), "message")
                        if alike
                        else None
                    )
        return None

    def _newest_continued(self, alike: Sequence[str], body: AgentBody) -> str:
        """The newest of the sessions with the same last answer whose history `body` continues; else
        the newest of all."""
        for session_id in reversed(alike):
            thread = self._threads.get(session_id)
            known = thread.known if thread is not None else None
            if known and list(body.digests[: len(known)]) == list(known):
                return session_id
        return alike[-1]

    def _find_unanswered(self, tap: str, body: AgentBody) -> SessionPlace | None:
        """A session whose last request this one repeats or continues: it is the one if it has got
        no answer."""
        for known in reversed(prefixes_of(body.digests)):
            if session_id := self._by_request.get((tap, known)):
                return SessionPlace(session_id, "message")
        return None

    async def _index_tap(self, tap: str) -> None:
        """Indexes the newest sessions of the tap after a start."""
        if tap in self._known_taps:
            return
        for session_id in reversed(await self._engine.log.tapped_sessions(tap, MOST_LOOKED_AT)):
            try:
                async with self._engine.sessions.lock_session(session_id) as live:
                    self._index_session(tap, live)
            except (NotFound, StoreError) as error:
                logger.error("A request at a tap may continue session %s: %s", session_id, error)
        self._known_taps.add(tap)

    def _index_session(self, tap: str, live: LiveSession) -> None:
        for turn in live.session.turns:
            self.index_turn(tap, live.id, turn)
        last = live.session.turn
        if last is None or last.received is None:
            return
        known = self.known_digests(live.session, self.thread(live.id))
        if last.request.continues:
            known = digests_of(live.session.continued_turns(last)[0])
        if known:
            self._by_request[tap, prefixes_of(known)[-1]] = live.id
        if last.settings.tools:
            name = thread_of((k.encode(), v.encode()) for k, v in last.received.ids.items())
            self.index_name(tap, name, live.id)

    # Indexes.

    def index_turn(self, tap: str, session_id: str, turn: Turn) -> None:
        """Indexes the session by its answer."""
        for call in turn.calls:
            if call.provider_id:
                self._by_call[tap, call.provider_id] = session_id
        if turn.request.protocol == "openai_responses" and (answer_id := id_of_answer(turn)):
            self._by_call[tap, answer_id] = session_id
        self.index_answer(tap, session_id, fingerprint_of_turn(turn))
        remembered: tuple[OrderedDict[Any, Any], ...] = (
            *(self._by_call, self._by_answer, self._by_request, self._named),
        )
        for known in remembered:
            while len(known) > MOST_KNOWN:
                known.popitem(last=False)

    def index_answer(self, tap: str, session_id: str, fingerprint: str) -> None:
        """The agent gets an answer with that fingerprint, "" for none."""
        if fingerprint:
            others = (
                id_ for id_ in self._by_answer.get((tap, fingerprint), ()) if id_ != session_id
            )
            self._by_answer[tap, fingerprint] = (*others, session_id)[-MOST_ALIKE:]

    def index_name(self, tap: str, name: ThreadName, session_id: str) -> None:
        """Indexes the session by the agent's ids."""
        if name.thread:
            self._named[tap, name.thread, name.agent] = session_id

    def index_request(self, tap: str, session_id: str, digests: Sequence[str]) -> None:
        """Indexes the session by the messages of its last request."""
        self.thread(session_id).known = digests
        if digests:
            self._by_request[tap, prefixes_of(digests)[-1]] = session_id

    def thread(self, session_id: str) -> ThreadData:
        """The session's cached data; keeps those of the last sessions used."""
        thread = self._threads.setdefault(session_id, ThreadData())
        self._threads.move_to_end(session_id)
        while len(self._threads) > MOST_THREADS:
            self._threads.popitem(last=False)
        return thread

    def known_digests(self, session: Session, thread: ThreadData) -> Sequence[str]:
        """The digests of the messages of the last request."""
        if thread.known is None:
            thread.known = digests_of(session.turn) if session.turn is not None else ()
        return thread.known


def digests_of(turn: Turn) -> Sequence[str]:
    """The same for the request of `turn`, read from the log."""
    with suppress(ValueError):
        return read_body(turn.request.protocol, json.loads(turn.request.body)).digests
    return ()
