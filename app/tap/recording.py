"""Makes sessions of what agents ask and get.

`AgentSessions.observe` is what the relay calls for each request. The session is found by the
names in the request's headers, by a call or an answer that passed here before, or it is new. What
the request says beyond what is known follows in the log as prompts and results; the answer is read
and logged like any other; its calls are then running at the agent until a later request brings
their results.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from app.core.errors import NotFound, Refused, StoreError, StoreUnwritable
from app.core.events import (
    AnswerPassed,
    CallInterrupted,
    CallStarted,
    ClientGone,
    Event,
    RequestReceived,
    RequestSent,
    ResponseStarted,
    SettingsChanged,
    StopAt,
    Tapped,
    TurnDropped,
    Warned,
)
from app.core.session import Session, Turn, snapshot
from app.core.settings import Limits, Protocol, Settings
from app.engine.engine import Engine
from app.engine.responses import PreparedRequest, Received
from app.engine.rules import ALWAYS
from app.engine.runner import FollowedAnswer
from app.engine.sessions import LiveSession, uncancelled
from app.exchange.parsers import Unreadable
from app.exchange.requests_import import (
    ImportedRequest,
    ImportedSession,
    add_items,
    open_calls,
    protocol_of,
    settings_of,
)
from app.net.client import CODINGS, Decompressor, NetworkError, request_id
from app.protocols.registry import codec
from app.protocols.request import AnswerMessage, PromptMessage, RequestSetup, ResultMessage
from app.secrets.detection import AGENTS_OWN
from app.secrets.names import may_name_secret
from app.tap.history import (
    ID_HEADERS,
    AgentBody,
    Tail,
    ThreadName,
    fingerprint_of_parts,
    fingerprint_of_turn,
    id_of_answer,
    prefixes_of,
    read_body,
    tail_of,
    thread_of,
    title_from,
)
from app.tap.holding import HeldAnswer, denials, is_stream, passed_on
from app.tap.relay import STOPPED, AgentRequest, AnswerHead, RawHeaders
from app.tap.taps import Taps, without_key

logger = logging.getLogger("playground")

MOST_KNOWN = 20_000
"""Calls and answers, over all taps, by which a session is found again."""

MOST_THREADS = 500
"""Sessions of which it is remembered what their last request had; of others it is read again."""

MOST_ALIKE = 20
"""Sessions of one last answer between which it is told apart whose a request is."""

MOST_WAITING = 50
"""Answers that are kept for agents that have gone while calls of theirs were held."""

KEEPALIVE_S = 10.0
"""Seconds after which a client that waits in a stream is told that it goes on."""

MOST_LOOKED_AT = 20
"""Sessions of a tap that are looked at after a start, the newest first, to find one again."""

MUCH = 512 * 1024
"""Bytes of a request that are read in another thread: here they would take the turn of others."""

WITHOUT_LIMITS = replace(Limits(), idle_s=10.0**8, wall_s=10.0**9)
"""The agent alone says how long it waits."""

LEFT = "The agent closed the connection before the answer was complete."

_SAVED_S = 0.5
"""How often whoever waits for an answer to be saved looks whether it can be saved at all."""


@dataclass(frozen=True)
class ReadRequest:
    """A request to a chat API, as it was read; `text` is its body, masked, and `digest` the keyed
    digest of the body as it came."""

    request: AgentRequest
    protocol: Protocol
    name: ThreadName
    body: AgentBody
    text: str
    digest: str


@dataclass
class Thread:
    """What is remembered of a session beside its fold. `known` are the digests of the messages of
    its last request, None where they must be read again; `settings` came of `setup`."""

    known: Sequence[str] | None = None
    setup: RequestSetup | None = None
    settings: Settings | None = None


@dataclass(frozen=True)
class SessionPlace:
    """Where a request belongs: to `session`, "" for a new one, which `parent` started."""

    session: str = ""
    matched: Literal["new", "header", "call", "message"] = "new"
    parent: str = ""


@dataclass(frozen=True)
class Begun:
    """An answer that comes from upstream and is `followed`, or one that is here already: its `head`
    and what is `held` of it. `holds` is whether its calls are decided here first."""

    holds: bool = False
    followed: FollowedAnswer | None = None
    head: AnswerHead | None = None
    held: HeldAnswer | None = None


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
        self._named: OrderedDict[tuple[str, str, str], str] = OrderedDict()
        self._by_call: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._by_answer: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        self._by_request: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._open: dict[str, AgentExchange] = {}
        self._waiting: OrderedDict[str, HeldAnswer] = OrderedDict()
        self._known_taps: set[str] = set()
        self._placing = asyncio.Lock()

    def observe(self, request: AgentRequest) -> AgentExchange:
        """What follows `request` and its answer."""
        return AgentExchange(self, request)

    async def begin(self, exchange: AgentExchange) -> Begun | None:
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
            place = await self._place(asked)
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

    def wait(self, exchange: AgentExchange, held: HeldAnswer) -> None:
        """The client of `exchange` has gone before it had the answer: it may ask again."""
        self._waiting[exchange.session_id] = held
        self._waiting.move_to_end(exchange.session_id)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)
        self.over(exchange)

    def over(self, exchange: AgentExchange) -> None:
        """Nothing follows of `exchange`."""
        if self._open.get(exchange.session_id) is exchange:
            del self._open[exchange.session_id]

    def learn(self, tap: str, session_id: str, turn: Turn) -> None:
        """By what the answer says the session is found again."""
        for call in turn.calls:
            if call.provider_id:
                self._by_call[tap, call.provider_id] = session_id
        if turn.request.protocol == "openai_responses" and (answer_id := id_of_answer(turn)):
            self._by_call[tap, answer_id] = session_id
        if fingerprint := fingerprint_of_turn(turn):
            others = (
                id_ for id_ in self._by_answer.get((tap, fingerprint), ()) if id_ != session_id
            )
            self._by_answer[tap, fingerprint] = (*others, session_id)[-MOST_ALIKE:]
        remembered: tuple[OrderedDict[Any, Any], ...] = (
            *(self._by_call, self._by_answer, self._by_request, self._named),
        )
        for known in remembered:
            while len(known) > MOST_KNOWN:
                known.popitem(last=False)

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

    # Which session it belongs to.

    async def _place(self, asked: ReadRequest) -> SessionPlace:
        tap, name = asked.request.tap.id, asked.name
        await self._know(tap)
        place = self._by_name(tap, name) or self._by_history(tap, asked.body)
        unanswered = None if place is not None else self._unanswered(tap, asked.body)
        place = place or unanswered
        if place is None:
            above = self._named.get((tap, name.thread, name.parent_agent)) if name.agent else ""
            return SessionPlace(parent=above or "")
        try:
            async with self.engine.sessions.holding(place.session) as live:
                session, settings = live.session, live.session.settings
                gone, turn = live.deleted or session.tapped is None, session.turn
        except NotFound:
            return SessionPlace()
        answered = turn is not None and turn.end is not None and turn.passed is not None
        if turn is not None and not fingerprint_of_turn(turn):
            answered = False  # it said nothing by which the agent's copy could be known
        if gone or (place is unanswered and answered):
            return SessionPlace()
        setup = asked.body.setup
        another = settings is not None and settings.system != setup.system
        toolless = settings is not None and not settings.tools
        if another and toolless and setup.tools and place.matched == "header":
            return SessionPlace()  # what came first by that name was a title, say
        other = self._open.get(place.session)
        waits = other is not None and other.holds  # another client, for its answer
        beside = turn is not None and (turn.open or (turn.holds and waits))
        aside = another and not setup.tools
        return SessionPlace(parent=place.session) if beside or aside else place

    def _by_name(self, tap: str, name: ThreadName) -> SessionPlace | None:
        session_id = self._named.get((tap, name.thread, name.agent)) if name.thread else None
        return SessionPlace(session_id, "header") if session_id else None

    def _by_history(self, tap: str, body: AgentBody) -> SessionPlace | None:
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
                        SessionPlace(self._that_goes_on(alike, body), "message") if alike else None
                    )
        return None

    def _that_goes_on(self, alike: Sequence[str], body: AgentBody) -> str:
        """Of sessions with the same last answer the newest whose history `body` goes on from; the
        newest of all where there is none."""
        for session_id in reversed(alike):
            thread = self._threads.get(session_id)
            known = thread.known if thread is not None else None
            if known and list(body.digests[: len(known)]) == list(known):
                return session_id
        return alike[-1]

    def _unanswered(self, tap: str, body: AgentBody) -> SessionPlace | None:
        """A session whose last request this one repeats, or goes on from: it is the one, where
        that has got no answer."""
        for known in reversed(prefixes_of(body.digests)):
            if session_id := self._by_request.get((tap, known)):
                return SessionPlace(session_id, "message")
        return None

    async def _know(self, tap: str) -> None:
        """After a start: the newest sessions of the tap, by all that they can be found by."""
        if tap in self._known_taps:
            return
        for session_id in reversed(await self.engine.log.tapped(tap, MOST_LOOKED_AT)):
            try:
                async with self.engine.sessions.holding(session_id) as live:
                    self._know_session(tap, live)
            except (NotFound, StoreError) as error:
                logger.error("What asks at a tap may go on with session %s: %s", session_id, error)
        self._known_taps.add(tap)

    def _know_session(self, tap: str, live: LiveSession) -> None:
        for turn in live.session.turns:
            self.learn(tap, live.id, turn)
        last = live.session.turn
        if last is None or last.received is None:
            return
        if known := self._known(live.session, self._thread(live.id)):
            self._by_request[tap, prefixes_of(known)[-1]] = live.id
        if last.settings.tools:
            name = thread_of((k.encode(), v.encode()) for k, v in last.received.ids.items())
            self._named[tap, name.thread, name.agent] = live.id

    def _thread(self, session_id: str) -> Thread:
        """What is remembered of the session: of many that of the last ones asked about."""
        thread = self._threads.setdefault(session_id, Thread())
        self._threads.move_to_end(session_id)
        while len(self._threads) > MOST_THREADS:
            self._threads.popitem(last=False)
        return thread

    async def _create(self, asked: ReadRequest, place: SessionPlace) -> str:
        request, name = asked.request, asked.name
        settings, _ = settings_of(asked.body.setup, request.profile)
        tapped = Tapped(request.tap.id, request.tap.agent, name.thread, place.parent)
        title = next(filter(None, map(title_from, asked.body.items)), "")
        session_id = await self.engine.sessions.create(settings, title, tapped)
        self._threads[session_id] = Thread([], asked.body.setup, settings)
        if name.thread and not place.parent:
            self._named[request.tap.id, name.thread, name.agent] = session_id
        return session_id

    # What of it is new.

    async def _join(
        self, live: LiveSession, asked: ReadRequest, place: SessionPlace
    ) -> Begun | None:
        """The answer that is here, where this is the last request once more and nobody got that.
        The caller holds the session."""
        turn, thread = live.session.turn, self._thread(live.id)
        if turn is None or turn.end is None or turn.response is None or turn.passed is not None:
            return None
        known = self._known(live.session, thread)
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
        self, live: LiveSession, asked: ReadRequest, place: SessionPlace, exchange: AgentExchange
    ) -> Begun:
        """The caller holds the session."""
        session, now = live.session, self.engine.sessions.clock()
        thread = self._thread(live.id)
        tail = tail_of(session, self._known(session, thread), asked.body)
        settings = self._settings(session, thread, asked)
        received = self._received(live.id, asked, place)
        events = _new_events(session, tail, settings, received, asked, now)
        number = len(session.turns) + 1
        number += sum(isinstance(event, RequestSent) for event in events)
        sent = _sent(asked, number, settings)
        await self.engine.sessions.append(live, [*events, sent])
        thread.known = asked.body.digests
        tap = asked.request.tap.id
        if asked.body.digests:
            self._by_request[tap, prefixes_of(asked.body.digests)[-1]] = live.id

        async def ended(live: LiveSession) -> None:
            """Nobody has the end of the answer yet: what the agent runs is in the log before."""
            turn = live.session.turns[number - 1]
            if not (exchange.holds and turn.holds):
                await self.engine.sessions.append(live, passed_on(live.session, turn))
            self.learn(tap, live.id, turn)

        followed = self.engine.runner.follow(live, _prepared(asked, sent, settings), ended)
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

    def _known(self, session: Session, thread: Thread) -> Sequence[str]:
        """The digests of the messages that the last request had."""
        if thread.known is None:
            thread.known, turn = (), session.turn
            if turn is not None:
                with suppress(ValueError):
                    body = json.loads(turn.request.body)
                    thread.known = read_body(turn.request.protocol, body).digests
        return thread.known

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


def _new_events(
    session: Session,
    tail: Tail,
    settings: Settings,
    received: RequestReceived,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """What the session does not know yet, up to the request: results, then what is said."""
    now_folded = snapshot(session)
    imported = ImportedSession(now_folded, open=open_calls(now_folded))
    pasted = ImportedRequest(asked.protocol, asked.body.setup, ())
    imported.add(now, received)
    if settings != session.settings:
        imported.add(now, SettingsChanged(settings))
    results = 0
    while results < len(tail.items) and isinstance(tail.items[results], ResultMessage):
        results += 1
    add_items(imported, pasted, tail.items[:results], now)
    for call in imported.session.current_calls:
        if call.status == "running":
            imported.add(now, CallInterrupted(call.id))
    last = imported.session.last_item
    lost = tail.again or (isinstance(last, Turn) and last.holds and not tail.goes_on)
    if isinstance(last, Turn) and lost:  # the agent never had that answer
        imported.add(now, TurnDropped(last.number, automatic=True))
    if tail.changed:
        imported.add(now, Warned("history_changed", tail.changed))
    try:
        add_items(imported, pasted, tail.items[results:], now)
    except Unreadable:
        return _without_history(session, imported, received, tail, asked, now)
    for note in imported.notes:
        imported.add(now, Warned("brought", note))
    return [logged.event for logged in imported.log]


def _without_history(
    session: Session,
    imported: ImportedSession,
    received: RequestReceived,
    tail: Tail,
    asked: ReadRequest,
    now: int,
) -> list[Event]:
    """Where the history that the agent came with is too long to be drawn: what follows it alone."""
    answers = [p for p, item in enumerate(tail.items) if isinstance(item, AnswerMessage)]
    imported = ImportedSession(snapshot(session))
    imported.add(now, received)
    imported.add(now, Warned("history_left_out", _LONG))
    pasted = ImportedRequest(asked.protocol, asked.body.setup, ())
    rest = tail.items[answers[-1] + 1 :] if answers else ()
    prompts = [item for item in rest if isinstance(item, PromptMessage)]
    add_items(imported, pasted, prompts, now)
    return [logged.event for logged in imported.log]


_LONG = "The agent came with a history that is too long to be shown; the request has all of it."


def _sent(asked: ReadRequest, number: int, settings: Settings) -> RequestSent:
    request = asked.request
    headers = {name.decode("latin-1").lower(): value for name, value in request.headers}
    shown = {
        name: AGENTS_OWN
        if may_name_secret(name) and name not in ID_HEADERS
        else value.decode("latin-1")
        for name, value in headers.items()
    }
    return RequestSent(
        number,
        asked.protocol,
        request.method,
        without_key(request.url.encode("latin-1", "replace")),
        shown,
        asked.text,
        settings.model,
        settings.tool_choice,
    )


def _prepared(asked: ReadRequest, sent: RequestSent, settings: Settings) -> PreparedRequest:
    return PreparedRequest(
        sent,
        codec(asked.protocol),
        {},
        b"",
        WITHOUT_LIMITS,
        profile=asked.request.profile,
        tools=settings.tools,
    )


class AgentExchange:
    """One request and its answer, as the relay tells of them."""

    def __init__(self, sessions: AgentSessions, request: AgentRequest) -> None:
        self.request = request
        self.session_id = ""
        self.recording = 0
        self.holds = False
        self.stopped = asyncio.Event()
        self._sessions = sessions
        self._clock = sessions.engine.sessions.clock
        self._followed: FollowedAnswer | None = None
        self._held: HeldAnswer | None = None
        self._unpack: Decompressor | None = None
        self._kept = b""  # the newest bytes of an answer that is no stream
        self._keeps = False
        self._status = 0
        self._size = 0
        self._hash = hashlib.sha256()
        self._finishing = asyncio.Lock()
        self._finished = False
        self._left = False
        self._owes = False  # whether its last bytes are on their way
        self._changed = False

    async def begin(self) -> AnswerHead | None:
        self._sessions.taps.note(self.request.tap.id, self.request.at_ms)
        # To its end, also where the client leaves meanwhile: what was begun in the log is ended.
        return await uncancelled(asyncio.create_task(self._begin()))

    async def _begin(self) -> AnswerHead | None:
        begun = await self._sessions.begin(self)
        if begun is None:
            return None
        self.holds, self._held, self._followed = begun.holds, begun.held, begun.followed
        if self._followed is not None:
            self._followed.request.reader = asyncio.create_task(self._until_stop())
        return begun.head

    async def _until_stop(self) -> None:
        """Cancelled by Stop, as the reader of any answer is; and by the end of this one."""
        assert self._followed is not None
        try:
            await asyncio.wait({self._followed.task})
        finally:
            if not self._followed.task.done():
                gone = NetworkError("interrupted", LEFT, began=True)
                self._followed.request.put(Received(self._clock(), trouble=gone, ended=True))
                self.stopped.set()

    def answered(self, status: int, headers: RawHeaders) -> RawHeaders:
        """Where calls are held the length is not that of upstream's answer, and it is unpacked."""
        self._status = status
        if self._followed is None:
            return headers
        named = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in headers}
        stream = is_stream(named)
        self._keeps = not stream
        coding = named.get("content-encoding", "").strip().lower()
        if coding in CODINGS:
            self._unpack = Decompressor()
        elif coding not in ("", "identity"):
            self.holds = False  # what cannot be read passes as it is
        started = ResponseStarted(status, named, request_id(named))
        self._followed.request.put(Received(self._clock(), started=started))
        if not self.holds or not 200 <= status < 300:
            return headers
        protocol = protocol_of(self.request.url, None)
        self._held = HeldAnswer(str(protocol), status, stream=stream)
        own = (b"content-length", b"content-encoding")
        return [pair for pair in headers if pair[0].lower() not in own]

    async def pass_on(self, data: bytes) -> bytes:
        """What is passed on is in the log, deltas but for the last 40 ms. Of an answer that is no
        stream the newest bytes are kept until it is known that they are the last: a call in it is
        in the log before the agent has it, too."""
        if self._followed is None:
            return data
        plain = self._unpacked(data)
        await self._log(Received(self._clock(), plain))
        if self._held is not None:
            data = self._held.add(plain)
        elif self._keeps:
            data, self._kept = self._kept, data
        return self._counted(data)

    async def ending(self, trouble: NetworkError | None) -> AsyncIterator[bytes]:
        if self._followed is None and self._held is None:
            self._note()
            return
        if self._followed is not None:
            await self._log(Received(self._clock(), trouble=trouble, ended=True))
        try:
            if self._held is not None:
                async for keepalive in self._until_decided(self._held, trouble is None):
                    yield keepalive
            last, self._kept = self._counted(self._kept), b""
            if last:
                self._owes = True
                yield last
                self._owes = False
        except Exception:
            self._left = True  # it gets no more, and may ask again
            await self._give_up()
            raise
        with suppress(StoreUnwritable):  # the agent has it all the same
            await self._give_up()

    async def _give_up(self) -> None:
        try:
            await self.finish()
        finally:
            self._sessions.over(self)

    async def _until_decided(self, held: HeldAnswer, clean: bool) -> AsyncIterator[bytes]:
        """While the calls wait for decisions, what keeps the client waiting; then the rest of the
        answer is `_kept`. While nothing can be saved nothing is decided, either."""
        engine = self._sessions.engine
        with engine.sessions.listen(self.session_id) as bell:
            while True:
                bell.clear()
                with suppress(StoreUnwritable):
                    await engine.runner.advance(self.session_id)
                    if await self._take_decisions(held, clean):
                        return
                if not await bell.wait(self._sessions.keepalive_s):
                    yield held.keepalive()

    async def _take_decisions(self, held: HeldAnswer, clean: bool) -> bool:
        """Whether nothing of the answer waits any more. That the agent runs calls is in the log
        before it gets them."""
        engine = self._sessions.engine
        async with engine.sessions.holding(self.session_id) as live:
            turn = live.session.turns[self.recording - 1]
            if turn.open:
                return False  # its end is not saved yet
            if turn.holds:
                if live.session.stopped:
                    await engine.sessions.append(live, denials(live.session, turn))
                if any(call.status in ("proposed", "waiting") for call in turn.calls):
                    return False
            rest, changed = held.rest(turn, clean=clean)
            if turn.holds:
                started = [CallStarted(call.id, call.attempt) for call in turn.calls if call.to_run]
                await engine.sessions.append(live, started)
            self._kept, self._changed = rest, changed
        self.holds = False
        return True

    async def leave(self) -> None:
        """Where all of an answer had come, and the agent does not wait for the connection's end,
        it was passed on."""
        self._left = True
        if self._followed is None and self._held is None:
            self._note()
            return
        if self._followed is not None:
            gone = NetworkError("interrupted", LEFT, began=True)
            await self._log(Received(self._clock(), trouble=gone, ended=True))
        await self.finish()

    async def finish(self) -> None:
        """Once the answer is over: log that the agent has it."""
        async with self._finishing:
            if self._finished or not self.session_id:
                return
            engine = self._sessions.engine
            async with engine.sessions.holding(self.session_id) as live:
                turn = live.session.turns[self.recording - 1]
                waits = self.holds and turn.holds
                if turn.open or (waits and not self._left):
                    return
                self._finished = True
                says = self._held.says() if self._held is not None and self._changed else ""
                passed = AnswerPassed(
                    self.recording, self._size, self._hash.hexdigest(), self._changed, says
                )
                lost = self._left and (waits or self._owes)
                gone = lost or (self._left and turn.end is None)
                event = ClientGone(self.recording) if gone else passed
                try:
                    await engine.sessions.append(live, [event])
                    self._sessions.learn(self.request.tap.id, self.session_id, turn)
                finally:
                    if lost and self._held is not None:
                        self._sessions.wait(self, self._held)
                    else:
                        self._sessions.over(self)

    def _note(self) -> None:
        """It was no conversation."""
        request = self.request
        self._sessions.taps.note_other(
            request.tap.id, request.method, request.target, self._status, request.at_ms
        )

    def _counted(self, data: bytes) -> bytes:
        self._size += len(data)
        self._hash.update(data)
        return data

    def _unpacked(self, data: bytes) -> bytes:
        if self._unpack is None:
            return data
        try:
            return b"".join(self._unpack.feed(data))
        except ValueError:
            if self._held is not None:
                raise
            self._unpack = None
            return data

    async def _log(self, item: Received) -> None:
        """Until it is in the log, or nothing can be saved now: then the agent does not wait."""
        followed = self._followed
        assert followed is not None
        if followed.task.done() or followed.request.take_now(item):
            return
        health = self._sessions.engine.sessions.health
        item.saved = asyncio.get_running_loop().create_future()
        followed.request.put(item)
        while not item.saved.done() and not followed.task.done() and health.trouble is None:
            await asyncio.wait(
                {item.saved, followed.task},
                timeout=_SAVED_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
