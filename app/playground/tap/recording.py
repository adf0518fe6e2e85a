"""Records agents' requests and answers as sessions.

`tap/places` finds the session of a request. The new part of the request is logged as prompts and
results; the answer is decoded and logged like any other (`tap/exchange`); its calls then run at the
agent until a later request brings their results.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ParamSpec, TypeVar
from typing import Protocol as Interface
from urllib.parse import unquote, urlsplit

from playground.core.errors import NotFound, Refused
from playground.core.events import (
    ClientGone,
    Event,
    RequestReceived,
    RequestSent,
    SessionStarted,
    SettingsChanged,
    StopAt,
    Tapped,
    TurnDropped,
)
from playground.core.json_values import MOST_DEEP, load_json
from playground.core.session import Session, Turn
from playground.core.settings import Protocol, Settings
from playground.engine.engine import Engine
from playground.engine.runner import FollowedAnswer
from playground.engine.sessions import LiveSession
from playground.exchange.requests_import import protocol_of, settings_of
from playground.protocols.body_edits import edit_results, result_keys
from playground.protocols.request import Position, ResultMessage
from playground.tap.history import Tail, read_body, results_first, tail_of, thread_of, title_from
from playground.tap.holding import (
    FROM_HISTORY,
    HOLDING,
    HeldAnswer,
    KnownResults,
    content_of,
    edits_for,
    holding_events,
    index_after_answer,
    is_held,
    is_stream,
    known_results,
    lacks_calls,
    leading_results,
    matching_results,
    next_body,
    pair_results,
    passing_events,
    restore_answers,
    unknown_results,
)
from playground.tap.places import SessionFinder, SessionPlace, ThreadData, digests_of
from playground.tap.relay import REVOKED, STOPPED, AgentRequest, AnswerHead
from playground.tap.request_events import (
    ReadRequest,
    continued_event,
    new_events,
    prepared_request,
    preview_events,
    sent_event,
)
from playground.tap.taps import Taps, without_key

P = ParamSpec("P")
T = TypeVar("T")

MOST_WAITING = 50
"""Most answers stored for agents that disconnected while calls were held."""

KEEPALIVE_S = 10.0
"""Seconds between keep-alives for a client that waits in a stream."""

MOST_ABOVE = 10
"""Most levels of sessions above that are searched for decisions on a result."""

UNKNOWN_RESULT = (
    "This tap holds results, but a result in this request cannot wait: its call is unknown "
    "here, or a different result of it was already decided. The request was not sent. Let the "
    "tap stop at nothing, or start a new conversation."
)

NOT_FOLLOWED = (
    "This tap holds calls, but an answer to this request may contain undecided calls. Ask "
    "without background mode and stored answers, or let the tap stop at nothing."
)

UNREADABLE = (
    "This tap holds calls, but the request cannot be read: it is not a JSON object in UTF-8, is "
    f"nested deeper than {MOST_DEEP} levels, is larger than 64 MiB, or has a compression other "
    "than gzip. It was not sent. Let the agent send plain JSON, or let the tap stop at nothing."
)

MUCH = 512 * 1024
"""Bytes of a request from which it is parsed in another thread, so as not to block other tasks."""

_BRINGS_CALLS = re.compile(
    r"/(?:responses|messages|message_batches|chat|batches|threads|runs|conversations|interactions"
    r"|agents|assistants)(?:[/;]|$)"
    r"|generatecontent|rawpredict|/invoke|/converse|/api/generate|/files/[^/]+/content"
)

_COUNTS = re.compile(r"/(?:count_tokens|input_tokens|compact)/?$")
"""Addresses below those of a chat API whose answers are counts, or a shortened history."""


@dataclass(frozen=True)
class BeginResult:
    """An answer from upstream, which is `followed`, or an existing one: its `head` and what is
    `held` of it. `holds`: its calls are decided here first. `body` replaces the request's if it was
    edited; `asked` is the request as sent on. `waits`: the request waits, and there is no answer
    yet."""

    holds: bool = False
    followed: FollowedAnswer | None = None
    head: AnswerHead | None = None
    held: HeldAnswer | None = None
    body: bytes | None = None
    waits: bool = False
    asked: ReadRequest | None = None


class OpenExchange(Interface):
    """An open request, as seen by AgentSessions. `session_id` and `recording` are its place in the
    log, "" and 0 before; `holds`: something of it or its answer waits here. `waits` is the received
    request if it waits for decisions on its results; `behind` is the session of the card if that is
    another one, else ""."""

    request: AgentRequest
    session_id: str
    recording: int
    holds: bool
    waits: tuple[ReadRequest, SessionPlace] | None
    behind: str

    async def finish(self) -> None:
        """Logs that the agent has the answer, if it is over."""


class AgentSessions:
    """`key` is the key of the bodies' digests. A client in a silent stream gets a keep-alive every
    `keepalive_s` seconds."""

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
        taps.revoked = engine.sessions.notify_list

    async def begin(self, exchange: OpenExchange) -> BeginResult | None:
        """Logs the request and its new content; None if it is not a conversation. If its results
        wait on the card of another session (`behind`), it begins again later.

        Refused if the user has stopped its session."""
        request = exchange.request
        protocol = protocol_of(request.url, None) if request.method == "POST" else None
        has_waited, exchange.behind = bool(exchange.behind), ""
        stop_at = await self._stop_at(exchange, has_waited=has_waited)
        if protocol is None:
            if self._may_hold(stop_at) and may_bring_calls(request.method, request.url):
                raise self._record_refusal(request, NOT_FOLLOWED)
            return None
        exchange.holds = self._may_hold(stop_at)  # also if the next steps fail
        asked = await self._read(request, protocol)
        if asked is None:
            if exchange.holds:
                raise self._record_refusal(request, UNREADABLE)
            return None
        async with self._placing:
            place = await self.places.find(asked)
            if before := self._open.get(place.session):
                await before.finish()
            above = await self._sessions_above(place)
            behind = _session_waited_for(asked, above) or await self._hold_above(
                asked, above, stop_at
            )
            if behind is not None:
                if behind.stopped:
                    raise Refused(STOPPED)
                exchange.behind = behind.id
                exchange.holds = True  # whatever the tap stops at: its result waits for a decision
                return BeginResult(waits=True)
            async with self._lock_session(asked, place) as live:
                begun = await self._continue_request(
                    live,
                    exchange=exchange,
                    came=asked,
                    place=place,
                    above=above,
                    stop_at=stop_at,
                    new=True,
                )
            self._open[live.id] = exchange
            self._waiting.pop(live.id, None)
            self.engine.runner.mark_agent_returned(live.id)
        return begun

    async def continue_request(self, exchange: OpenExchange) -> BeginResult:
        """Continues after the results that the request `waits` for are decided; may wait again.

        Refused if the user has stopped its session."""
        assert exchange.waits is not None
        came, place = exchange.waits
        stop_at = await self._stop_at(exchange, has_waited=True)
        above = await self._sessions_above(place)
        async with self.engine.sessions.lock_session(exchange.session_id) as live:
            return await self._continue_request(
                live, exchange=exchange, came=came, place=place, above=above, stop_at=stop_at
            )

    async def leave(self, exchange: OpenExchange) -> None:
        """The client of a request that `waits` disconnected or was refused."""
        if exchange.waits is None:
            if exchange.behind:  # its card may be for this client only
                self.engine.runner.mark_agent_left(exchange.behind)
            return
        try:
            async with self.engine.sessions.lock_session(exchange.session_id) as live:
                if live.session.received is not None:
                    await self.engine.sessions.append(live, [ClientGone(exchange.recording)])
                if not live.deleted:
                    self.engine.runner.mark_agent_left(exchange.session_id)
        except NotFound:
            pass  # purged meanwhile
        finally:
            self.close(exchange)

    def wait(self, exchange: OpenExchange, held: HeldAnswer) -> None:
        """The client of `exchange` left before it had the answer, but may repeat the request."""
        self._waiting[exchange.session_id] = held
        self._waiting.move_to_end(exchange.session_id)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)
        self.close(exchange)
        self.engine.runner.mark_agent_left(exchange.session_id)

    def close(self, exchange: OpenExchange) -> None:
        """Nothing follows of `exchange`."""
        if self._open.get(exchange.session_id) is exchange:
            del self._open[exchange.session_id]

    def _record_refusal(self, request: AgentRequest, sentence: str) -> Refused:
        """Records on the page Agents that the request was refused."""
        tap, method, target = request.tap.id, request.method, request.target
        self.taps.note_other(tap, method, target, 403, request.at_ms, refused=sentence)
        return Refused(sentence)

    def _is_waited_for(self, session_id: str) -> bool:
        other = self._open.get(session_id)
        return other is not None and other.holds

    @asynccontextmanager
    async def _lock_session(
        self, asked: ReadRequest, place: SessionPlace
    ) -> AsyncIterator[LiveSession]:
        """Locks the session of `place`, or a new one without events."""
        sessions = self.engine.sessions
        if place.session:
            async with sessions.lock_session(place.session) as live:
                yield live
            return
        title = next(filter(None, map(title_from, asked.body.items)), "")
        async with sessions.new_session(title) as live:
            yield live

    async def _read(self, request: AgentRequest, protocol: Protocol) -> ReadRequest | None:
        """None if the body is too large, nested too deep, or not a JSON object in UTF-8."""
        if request.body is None:
            return None
        return await self._run_for_body(request.body, self._read_now, request, protocol)

    async def _run_for_body(
        self, body: bytes, work: Callable[P, T], *given: P.args, **named: P.kwargs
    ) -> T:
        """Runs `work` on a `body`, in another thread if that is long."""
        if len(body) > MUCH:
            return await asyncio.to_thread(work, *given, **named)
        return work(*given, **named)

    def _read_now(self, request: AgentRequest, protocol: Protocol) -> ReadRequest | None:
        data = request.body or b""
        try:
            text = data.decode("utf-8")
            value = load_json(text)
        except ValueError:
            return None
        if not isinstance(value, dict):
            return None
        masked = self.engine.keys.redactor().redact_text(text)
        if masked != text:
            with suppress(ValueError):  # the logged parts are masked separately
                value = json.loads(masked)
        path = request.target.decode("latin-1").partition("?")[0]
        model = path.partition("/models/")[2].partition(":")[0] if protocol == "gemini" else ""
        body = read_body(protocol, value, model, stream="stream" in path)
        keyed = hmac.new(self._key, data, hashlib.sha256).hexdigest()
        name = thread_of(request.headers)
        messages = len(body.items)
        return ReadRequest(
            request,
            protocol=protocol,
            name=name,
            body=body,
            text=masked,
            digest=keyed,
            size=len(data),
            messages=messages,
        )

    async def _sessions_above(self, place: SessionPlace) -> list[Session]:
        """The sessions above that of a request: their results may be in it, too."""
        above: list[Session] = []
        session_id, its_own = place.session or place.parent, bool(place.session)
        while session_id and len(above) < MOST_ABOVE:
            try:
                async with self.engine.sessions.lock_session(session_id) as live:
                    session, tapped = live.session, live.session.tapped
            except NotFound:
                break
            if not its_own:
                above.append(session)
            session_id, its_own = tapped.parent if tapped is not None else "", False
        return above

    def _apply_edits(self, asked: ReadRequest, known: Sequence[KnownResults]) -> ReadRequest:
        """The request to send on, with the user's edits of results."""
        data = asked.request.body or b""
        edits = edits_for(known, asked.body.items, partial(_keys, asked))
        return self._replace_body(asked, edit_results(asked.protocol, data, edits))

    def _restore_answers(self, asked: ReadRequest, live: LiveSession) -> ReadRequest:
        """`asked` with the provider's own answers in place of the agent's copies of them. The
        caller holds the session."""
        contents = self.places.thread(live.id).contents
        changed = restore_answers(live.session, asked.request.body or b"", asked.body, contents)
        return replace(self._replace_body(asked, changed.body), missing=changed.missing)

    def _replace_body(self, asked: ReadRequest, data: bytes) -> ReadRequest:
        """`asked` with another body."""
        if data == asked.request.body:
            return asked
        read = self._read_now(replace(asked.request, body=data), asked.protocol)
        assert read is not None  # JSON stays JSON
        return replace(
            read,
            digest=asked.digest,
            size=asked.size,
            messages=asked.messages,
            edited=True,
            missing=asked.missing,
        )

    # The new content.

    async def _continue_request(
        self,
        live: LiveSession,
        exchange: OpenExchange,
        came: ReadRequest,
        place: SessionPlace,
        above: Sequence[Session],
        stop_at: StopAt,
        *,
        new: bool = False,
    ) -> BeginResult:
        """Handles a request, which is `new` or has waited on a card of its session. Holds results
        according to `stop_at`. The caller holds the session."""
        if live.session.stopped:
            raise Refused(STOPPED)
        asked, body = came, came.request.body or b""
        if any(lacks_calls(turn) for turn in live.session.turns):
            exchange.holds = True  # decisions must not be bypassed by any failure
            asked = await self._run_for_body(body, self._restore_answers, asked, live)
        known = [known_results(live.session, put_back=True), *map(known_results, above)]
        known = [each for each in known if each.by_key]
        if known:
            exchange.holds = True
            asked = await self._run_for_body(body, self._apply_edits, asked, known)
        joined = await self._join(live, asked, place) if place.session else None
        elsewhere = {
            key
            for each in known
            for key, _ in matching_results(each, came.body.items, partial(_keys, came))
        }
        begun = joined or await self._hold(
            live, exchange, asked, place, stop_at=stop_at, elsewhere=elsewhere, new=new
        )
        if begun is None:
            begun = await self._take(live, exchange, asked, place, new=new)
        exchange.waits = (came, place) if begun.waits else None
        turn = live.session.turn if joined is not None else None
        number = turn.number if turn is not None else len(live.session.turns) + begun.waits
        exchange.session_id, exchange.recording = live.id, number
        return begun

    async def _hold(
        self,
        live: LiveSession,
        exchange: OpenExchange,
        asked: ReadRequest,
        place: SessionPlace,
        *,
        stop_at: StopAt,
        elsewhere: Collection[str],
        new: bool,
    ) -> BeginResult | None:
        """Logs the results of a request that waits for decisions on them, else returns None.
        `elsewhere` are the keys of results that were decided already."""
        tail, keys = self._tail(live, asked), partial(_keys, asked)
        first = self._first_events(live, asked, place, new=new)
        events = holding_events(live.session, leading_results(tail.items), stop_at, keys)
        if events is not None and new:
            events.insert(0, self._received_event(live.id, asked, place))
        if events is None and stop_at in HOLDING:
            unknown = [
                item
                for item in unknown_results(live.session, tail)
                if keys().get(item.at) not in elsewhere and is_held(item, stop_at)
            ]
            if unknown:
                events = self._hold_unknown(live.session, first, tail, asked, unknown)
        if events is None:
            return None
        exchange.holds = True
        if events:
            await self.engine.sessions.append(live, events)
        turn = live.session.turns[-1]
        if turn.request.is_history:  # the agent may leave, and send the same request again
            self.places.index_turn(asked.request.tap.id, live.id, turn)
        self._name(live, asked, place)
        return BeginResult(waits=True)

    def _hold_unknown(
        self,
        session: Session,
        first: Sequence[Event],
        tail: Tail,
        asked: ReadRequest,
        results: Sequence[ResultMessage],
    ) -> list[Event]:
        """The same for `results` of calls that the tap did not see: logs the history up to them
        first. Refused if their calls are not in it, so that there is nothing to show them on."""
        items, end = tail.items, index_after_answer(tail.items)
        if not end and not tail.goes_on:  # the agent rewrote its history
            end = index_after_answer(asked.body.items)
            items = asked.body.items[max(0, end - 1) :]
            end = min(end, 1)
        if not end:
            raise self._record_refusal(asked.request, UNKNOWN_RESULT)
        seen = replace(tail, items=items[:end])
        events = new_events(session, first, seen, asked, self.engine.sessions.clock())
        preview = preview_events(session, events)
        if preview.turn is not None:
            events += passing_events(preview, preview.turn, FROM_HISTORY)
            preview = preview_events(session, events)
        if any(call is None for _, call in pair_results(preview, results)):
            raise self._record_refusal(asked.request, UNKNOWN_RESULT)
        held = holding_events(preview, results, "results", partial(_keys, asked))
        return [*events, *(held or ())]

    async def _stop_at(self, exchange: OpenExchange, *, has_waited: bool) -> StopAt:
        """The tap's `stop_at`. A request that has waited for results is held again even if the tap
        was set to another value since; Refused if the tap was revoked."""
        tap = exchange.request.tap
        if not has_waited:
            return tap.stop_at
        if (await self.taps.get(tap.id)).revoked_ms is not None:
            raise Refused(REVOKED)
        return "results"

    async def _hold_above(
        self, asked: ReadRequest, above: Sequence[Session], stop_at: StopAt
    ) -> Session | None:
        """The session above in which a result in `asked` waits from now on, because its own agent
        has not sent it yet; None if there is none."""
        if stop_at not in HOLDING:
            return None
        for each in above:
            async with self.engine.sessions.lock_session(each.id) as live:
                if live.session.turn is None or live.deleted:
                    continue
                tail = self._tail(live, asked)
                if not tail.goes_on:
                    continue
                results, keys = leading_results(tail.items), partial(_keys, asked)
                events = holding_events(live.session, results, stop_at, keys)
                if events is not None:
                    if events and not live.session.stopped:
                        await self.engine.sessions.append(live, events)
                    return live.session
        return None

    def _tail(self, live: LiveSession, asked: ReadRequest) -> Tail:
        """The new part of `asked`. If its last answer was continued here, the agent may have
        less."""
        session = live.session
        known = self.places.known_digests(session, self.places.thread(live.id))
        if session.turns and session.turns[-1].dropped:  # the agent never had the last answer
            known = digests_of(session.continued_turns(session.turns[-1])[0])
        tail = results_first(tail_of(session, known, asked.body))
        if not tail.changed or session.turn is None or not session.turn.request.continues:
            return tail
        known = digests_of(session.continued_turns(session.turn)[0])
        own = results_first(tail_of(session, known, asked.body))
        return tail if own.changed else own

    async def _join(
        self, live: LiveSession, asked: ReadRequest, place: SessionPlace
    ) -> BeginResult | None:
        """The existing answer if this repeats the last request and no client got that answer. The
        caller holds the session."""
        session, thread = live.session, self.places.thread(live.id)
        last = session.turn
        if last is None or last.passed is not None:
            return None
        turns = session.continued_turns(last)
        dropped: list[Event] = []
        if last.failure is not None and len(turns) > 1:  # the continuation failed
            dropped = [TurnDropped(turns.pop().number, automatic=True)]
        turn = turns[-1]
        if turn.end is None or turn.response is None:
            return None
        own = (
            digests_of(turns[0])
            if last.request.continues
            else self.places.known_digests(session, thread)
        )
        if list(own) != list(asked.body.digests):
            return None
        if self._settings(session, thread, asked) != session.settings:
            return None
        if self._may_hold_calls(asked.request.tap.stop_at, live.id) and not turn.held:
            return None  # it came when nothing was held: the answer to this request is held
        received = replace(self._received_event(live.id, asked, place), joins=turn.number)
        await self.engine.sessions.append(live, [*dropped, received])
        if not turn.holds and (events := passing_events(session, turn)):
            await self.engine.sessions.append(live, events)
        held = self._waiting.get(live.id)
        if held is not None:
            del held.pieces[len(turns) :]
        if held is None or len(held.pieces) < len(turns):
            held = await self._recorded_answer(live.id, turns)
        held.restart()
        headers = turns[0].response.headers if turns[0].response is not None else {}
        kind = headers.get("content-type", "application/json").encode("latin-1", "replace")
        head = AnswerHead(turn.response.status, [(b"content-type", kind)])
        return BeginResult(turn.holds, head=head, held=held, asked=asked)

    async def _recorded_answer(self, session_id: str, turns: Sequence[Turn]) -> HeldAnswer:
        """The answer from the log, after a start: secrets are stars."""
        response, protocol = turns[0].response, turns[0].request.protocol
        assert response is not None
        held = HeldAnswer(protocol, response.status, stream=is_stream(response.headers))
        for turn in turns:
            if turn is not turns[0]:
                held.start_piece()
            async for chunks in self.engine.log.portions(session_id, turn.number):
                held.add(b"".join(chunk.data for chunk in chunks))
        return held

    async def _take(
        self,
        live: LiveSession,
        exchange: OpenExchange,
        asked: ReadRequest,
        place: SessionPlace,
        *,
        new: bool,
    ) -> BeginResult:
        """Logs the request to send on in one commit with everything new. The caller holds the
        session."""
        session, now = live.session, self.engine.sessions.clock()
        settings = self._settings(session, self.places.thread(live.id), asked)
        first = self._first_events(live, asked, place, new=new)
        received = next((e for e in first if isinstance(e, RequestReceived)), session.received)
        assert received is not None
        events = new_events(session, first, self._tail(live, asked), asked, now)
        number = len(session.turns) + 1
        number += sum(isinstance(event, RequestSent) for event in events)
        sent = sent_event(asked, number, settings)
        await self.engine.sessions.append(live, [*events, sent])
        self._name(live, asked, place)
        self.places.index_request(asked.request.tap.id, live.id, asked.body.digests)
        followed = self._follow(live, asked, sent, settings, exchange)
        body = asked.request.body if asked.edited else None
        return BeginResult(received.held, followed, body=body, asked=asked)

    def _first_events(
        self, live: LiveSession, asked: ReadRequest, place: SessionPlace, *, new: bool
    ) -> list[Event]:
        """What is logged before anything of a request: the start of its session, that it was
        received if it is `new`, and its settings if they are others."""
        session = live.session
        settings = self._settings(session, self.places.thread(live.id), asked)
        begins = session.settings is None
        events: list[Event] = []
        if begins:
            tapped = _tapped_event(asked, place)
            events.append(SessionStarted(settings, tapped))
            self.engine.rules.inherit(live.id, tapped)
        events += [self._received_event(live.id, asked, place)] if new else []
        if not begins and settings != session.settings:
            events.append(SettingsChanged(settings))
        return events

    def _name(self, live: LiveSession, asked: ReadRequest, place: SessionPlace) -> None:
        """Indexes a new session by the agent's ids."""
        if not (place.session or place.parent):
            self.places.index_name(asked.request.tap.id, asked.name, live.id)

    def _follow(
        self,
        live: LiveSession,
        asked: ReadRequest,
        sent: RequestSent,
        settings: Settings,
        exchange: OpenExchange,
    ) -> FollowedAnswer:
        tap, number = asked.request.tap.id, sent.recording

        async def log_calls(live: LiveSession) -> None:
            """The client does not have the end yet: logs the calls that the agent runs."""
            turn = live.session.turns[number - 1]
            if not (exchange.holds or turn.holds):
                await self.engine.sessions.append(live, passing_events(live.session, turn))
            self.places.index_turn(tap, live.id, turn)

        prepared = prepared_request(asked, sent, settings)
        return self.engine.runner.follow(live, prepared, log_calls)

    async def request_continuation(
        self, live: LiveSession, asked: ReadRequest, exchange: OpenExchange
    ) -> tuple[FollowedAnswer, bytes]:
        """Logs the request that continues the last answer, all of whose calls were answered here;
        returns its body. `asked` is the agent's request. The caller holds the session."""
        session, thread = live.session, self.places.thread(live.id)
        turn, settings = session.turns[exchange.recording - 1], session.settings
        assert settings is not None
        data = next_body(session.continued_turns(turn), asked.request.body or b"", thread.contents)
        going_on = await self._run_for_body(data, self._replace_body, asked, data)
        number = len(session.turns) + 1
        sent = continued_event(going_on, turn, number, settings)
        await self.engine.sessions.append(live, [sent])
        thread.known = going_on.body.digests
        return self._follow(live, going_on, sent, settings, exchange), data

    def keep(self, session_id: str, turn: Turn, data: bytes) -> None:
        """Keeps the answer of `turn`, received as `data`, to be put back later."""
        self.places.thread(session_id).contents[turn.number] = content_of(turn, data)

    def _received_event(
        self, session_id: str, asked: ReadRequest, place: SessionPlace
    ) -> RequestReceived:
        request, stop_at = asked.request, asked.request.tap.stop_at
        return RequestReceived(
            without_key(request.target),
            ids=asked.name.ids,
            matched=place.matched,
            digest=asked.digest,
            size=asked.size,
            messages=asked.messages,
            stop_at=stop_at,
            held=self._may_hold_calls(stop_at, session_id),
        )

    def _may_hold(self, stop_at: StopAt) -> bool:
        """Whether a tap with this `stop_at` may require decisions, in whichever session."""
        return stop_at != "nothing" or self.engine.rules.may_hold()

    def _may_hold_calls(self, stop_at: StopAt, session_id: str) -> bool:
        """Whether a call of the session may require a decision before the agent gets it."""
        rules = self.engine.rules.rules_of(session_id)
        kept_back = any(rule.enabled and rule.action != "run" for rule in rules)
        return kept_back or stop_at in ("unruled", "calls")

    def _settings(self, session: Session, thread: ThreadData, asked: ReadRequest) -> Settings:
        """The session's settings, unless the request has others."""
        setup, profile = asked.body.setup, asked.request.profile
        settings = thread.settings
        if settings is None or thread.setup != setup or settings.profile != profile:
            thread.settings, _ = settings_of(setup, profile)
            thread.setup = setup
        assert thread.settings is not None
        same = session.settings is not None and session.settings == thread.settings
        return session.settings if same and session.settings else thread.settings


def may_bring_calls(method: str, url: str) -> bool:
    """Whether the answer to a request that is no conversation may have calls: of an address below
    those of a chat API, such as that of a stored answer or a batch, or of one that is written in an
    unusual way. An answer to DELETE has none, nor one to the start of a stored conversation."""
    path = urlsplit(url).path
    while (plain := unquote(path)) != path:
        path = plain
    path = re.sub("/+", "/", path.lower())
    if method in ("DELETE", "HEAD", "OPTIONS") or _COUNTS.search(path) is not None:
        return False
    if method == "POST" and path.endswith("/conversations"):
        return False
    return _BRINGS_CALLS.search(path) is not None


def _keys(asked: ReadRequest) -> Mapping[Position, str]:
    """The result keys of a request, from its unredacted body."""
    return result_keys(asked.protocol, json.loads(asked.request.body or b"null"))


def _session_waited_for(asked: ReadRequest, above: Sequence[Session]) -> Session | None:
    """The session in which a result that is also in `asked` waits for its user."""
    for session in above:
        known = matching_results(known_results(session), asked.body.items, partial(_keys, asked))
        if any(call.result_held for _, call in known):
            return session
    return None


def _tapped_event(asked: ReadRequest, place: SessionPlace) -> Tapped:
    tap = asked.request.tap
    return Tapped(tap.id, tap.agent, asked.name.thread, place.parent)
