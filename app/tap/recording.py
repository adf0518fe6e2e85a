"""Makes sessions of what agents ask and get.

The session of a request is found by `tap/places`. What the request says beyond what is known
follows in the log as prompts and results; the answer is read and logged like any other
(`tap/exchange`); its calls are then running at the agent until a later request brings their
results.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol as Interface

from app.core.errors import Refused
from app.core.events import RequestReceived, RequestSent, StopAt, Tapped
from app.core.session import Session
from app.core.settings import Protocol, Settings
from app.engine.engine import Engine
from app.engine.rules import ALWAYS
from app.engine.runner import FollowedAnswer
from app.engine.sessions import LiveSession
from app.exchange.requests_import import protocol_of, settings_of
from app.tap.history import read_body, tail_of, thread_of, title_from
from app.tap.holding import HeldAnswer, is_stream, passed_on
from app.tap.places import SessionFinder, SessionPlace, Thread
from app.tap.relay import STOPPED, AgentRequest, AnswerHead
from app.tap.request_events import ReadRequest, new_events, prepared_request, sent_event
from app.tap.taps import Taps, without_key

MOST_WAITING = 50
"""Answers that are kept for agents that have gone while calls of theirs were held."""

KEEPALIVE_S = 10.0
"""Seconds after which a client that waits in a stream is told that it goes on."""

MUCH = 512 * 1024
"""Bytes of a request that are read in another thread: here they would take the turn of others."""


@dataclass(frozen=True)
class Begun:
    """An answer that comes from upstream and is `followed`, or one that is here already: its `head`
    and what is `held` of it. `holds` is whether its calls are decided here first."""

    holds: bool = False
    followed: FollowedAnswer | None = None
    head: AnswerHead | None = None
    held: HeldAnswer | None = None


class OpenExchange(Interface):
    """A request under way, as AgentSessions sees it. `session_id` and `recording` are where it is
    logged, "" and 0 before it is; `holds` is whether the calls of its answer wait here."""

    request: AgentRequest
    session_id: str
    recording: int
    holds: bool

    async def finish(self) -> None:
        """Log that the agent has the answer, where it is over."""


class AgentSessions:
    """`key` is what digests of bodies are keyed by. A client in whose stream nothing goes on is
    told so each `keepalive_s` seconds."""

    def __init__(
        self, engine: Engine, taps: Taps, key: bytes, keepalive_s: float = KEEPALIVE_S
    ) -> None:
        self.engine = engine
        self.taps = taps
        self.keepalive_s = keepalive_s
        self._key = key
        self.places = SessionFinder(engine, self._is_waited_for)
        self._open: dict[str, OpenExchange] = {}
        self._waiting: OrderedDict[str, HeldAnswer] = OrderedDict()
        self._placing = asyncio.Lock()

    async def begin(self, exchange: OpenExchange) -> Begun | None:
        """Log the request and what it says that is new; None where it is no conversation.

        Refused where the user has stopped its session."""
        request = exchange.request
        protocol = protocol_of(request.url, None) if request.method == "POST" else None
        if protocol is None or request.body is None:
            return None
        exchange.holds = self._keeps_back(request.tap.stop_at)  # also where what follows fails
        much = len(request.body) > MUCH
        asked = (
            await asyncio.to_thread(self._read, request, protocol)
            if much
            else self._read(request, protocol)
        )
        if asked is None:
            exchange.holds = False
            return None
        async with self._placing:
            place = await self.places.find(asked)
            session_id = place.session or await self._create(asked, place)
            if before := self._open.get(session_id):
                await before.finish()
            async with self.engine.sessions.holding(session_id) as live:
                if live.session.stopped:
                    raise Refused(STOPPED)
                begun = await self._join(live, asked, place) or await self._take(
                    live, asked, place, exchange
                )
                exchange.session_id, exchange.recording = session_id, len(live.session.turns)
            self._open[session_id] = exchange
            self._waiting.pop(session_id, None)
        return begun

    def wait(self, exchange: OpenExchange, held: HeldAnswer) -> None:
        """The client of `exchange` has gone before it had the answer: it may ask again."""
        self._waiting[exchange.session_id] = held
        self._waiting.move_to_end(exchange.session_id)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)
        self.over(exchange)

    def over(self, exchange: OpenExchange) -> None:
        """Nothing follows of `exchange`."""
        if self._open.get(exchange.session_id) is exchange:
            del self._open[exchange.session_id]

    def _is_waited_for(self, session_id: str) -> bool:
        other = self._open.get(session_id)
        return other is not None and other.holds

    def _read(self, request: AgentRequest, protocol: Protocol) -> ReadRequest | None:
        """None where the body is not JSON in UTF-8."""
        data = request.body or b""
        try:
            text = data.decode("utf-8")
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        masked = self.engine.keys.redactor().redact_text(text)
        if masked != text:
            with suppress(ValueError):  # what is logged of it is masked by itself
                value = json.loads(masked)
        path = request.target.decode("latin-1").partition("?")[0]
        model = path.partition("/models/")[2].partition(":")[0] if protocol == "gemini" else ""
        body = read_body(protocol, value, model, stream="stream" in path)
        keyed = hmac.new(self._key, data, hashlib.sha256).hexdigest()
        return ReadRequest(request, protocol, thread_of(request.headers), body, masked, keyed)

    async def _create(self, asked: ReadRequest, place: SessionPlace) -> str:
        request, name = asked.request, asked.name
        settings, _ = settings_of(asked.body.setup, request.profile)
        tapped = Tapped(request.tap.id, request.tap.agent, name.thread, place.parent)
        title = next(filter(None, map(title_from, asked.body.items)), "")
        session_id = await self.engine.sessions.create(settings, title, tapped)
        thread = self.places.thread(session_id)
        thread.known, thread.setup, thread.settings = (), asked.body.setup, settings
        if not place.parent:
            self.places.name(request.tap.id, name, session_id)
        return session_id

    # What of it is new.

    async def _join(
        self, live: LiveSession, asked: ReadRequest, place: SessionPlace
    ) -> Begun | None:
        """The answer that is here, where this is the last request once more and nobody got that.
        The caller holds the session."""
        turn, thread = live.session.turn, self.places.thread(live.id)
        if turn is None or turn.end is None or turn.response is None or turn.passed is not None:
            return None
        known = self.places.known(live.session, thread)
        if list(known) != list(asked.body.digests):
            return None
        if self._settings(live.session, thread, asked) != live.session.settings:
            return None
        received = replace(self._received(live.id, asked, place), joins=turn.number)
        await self.engine.sessions.append(live, [received])
        headers = turn.response.headers
        stream = is_stream(headers)
        held = self._waiting.get(live.id)
        if held is None:  # after a start: as it was recorded, with stars for what is secret
            held = HeldAnswer(asked.protocol, turn.response.status, stream=stream)
            async for chunks in self.engine.log.portions(live.id, turn.number):
                held.add(b"".join(chunk.data for chunk in chunks))
        held.again()
        kind = headers.get("content-type", "application/json").encode("latin-1", "replace")
        head = AnswerHead(turn.response.status, [(b"content-type", kind)])
        return Begun(turn.holds, head=head, held=held)

    async def _take(
        self, live: LiveSession, asked: ReadRequest, place: SessionPlace, exchange: OpenExchange
    ) -> Begun:
        """The caller holds the session."""
        session, now = live.session, self.engine.sessions.clock()
        thread = self.places.thread(live.id)
        tail = tail_of(session, self.places.known(session, thread), asked.body)
        settings = self._settings(session, thread, asked)
        received = self._received(live.id, asked, place)
        events = new_events(session, tail, settings, received, asked, now)
        number = len(session.turns) + 1
        number += sum(isinstance(event, RequestSent) for event in events)
        sent = sent_event(asked, number, settings)
        await self.engine.sessions.append(live, [*events, sent])
        tap = asked.request.tap.id
        self.places.asked(tap, live.id, asked.body.digests)

        async def ended(live: LiveSession) -> None:
            """Nobody has the end of the answer yet: what the agent runs is in the log before."""
            turn = live.session.turns[number - 1]
            if not (exchange.holds and turn.holds):
                await self.engine.sessions.append(live, passed_on(live.session, turn))
            self.places.learn(tap, live.id, turn)

        followed = self.engine.runner.follow(live, prepared_request(asked, sent, settings), ended)
        return Begun(received.held, followed)

    def _received(
        self, session_id: str, asked: ReadRequest, place: SessionPlace
    ) -> RequestReceived:
        request, stop_at = asked.request, asked.request.tap.stop_at
        return RequestReceived(
            without_key(request.target),
            asked.name.ids,
            place.matched,
            asked.digest,
            len(request.body or b""),
            len(asked.body.items),
            stop_at,
            self._keeps_back(stop_at, session_id),
        )

    def _keeps_back(self, stop_at: StopAt, session_id: str = ALWAYS) -> bool:
        """Whether any call may have to be decided before the agent gets it."""
        rules = self.engine.rules.of(session_id)
        kept_back = any(rule.enabled and rule.action != "run" for rule in rules)
        return kept_back or stop_at in ("unruled", "calls")

    def _settings(self, session: Session, thread: Thread, asked: ReadRequest) -> Settings:
        """Those of the session, where the request says nothing else."""
        setup, profile = asked.body.setup, asked.request.profile
        settings = thread.settings
        if settings is None or thread.setup != setup or settings.profile != profile:
            thread.settings, _ = settings_of(setup, profile)
            thread.setup = setup
        assert thread.settings is not None
        same = session.settings is not None and session.settings == thread.settings
        return session.settings if same and session.settings else thread.settings
