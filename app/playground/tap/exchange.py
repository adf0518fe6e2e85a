"""An agent's request and its answer, as observed by the relay: logs everything before the agent
gets it, and holds the rest of an answer whose calls wait for the user."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from playground.core.errors import NotFound, Refused, StoreUnwritable
from playground.core.events import AnswerPassed, CallStarted, ClientGone, ResponseStarted
from playground.core.providers import HELD_WHOLE_S
from playground.engine.engine import Engine
from playground.engine.responses import Received
from playground.engine.runner import FollowedAnswer
from playground.engine.sessions import LiveSession, finish_task
from playground.exchange.requests_import import protocol_of
from playground.net.client import CODINGS, Decompressor, NetworkError, request_id
from playground.tap.holding import (
    HeldAnswer,
    UnsafeAnswer,
    continues_here,
    denials,
    is_put_back,
    is_stream,
)
from playground.tap.places import SessionPlace
from playground.tap.recording import AgentSessions, BeginResult
from playground.tap.relay import AgentRequest, AnswerHead, Observe, RawHeaders
from playground.tap.request_events import ReadRequest
from playground.tap.taps import Taps

LEFT = "The agent closed the connection before the answer was complete."

DELETED = "The session of this request was deleted in the playground while the request waited."

HELD_WHOLE = (
    "The calls of this answer waited too long for a decision: the answer is not streaming, so "
    "it timed out. Retry."
)

_LOOK_S = 3600.0
"""Fallback interval to check whether results still wait: every change rings the bell."""

CUT = (
    "The answer was not received completely, so its calls cannot be decided, and it was cut off "
    "before them. Retry."
)

_UNPACKABLE = "The answer's compression is not supported."

_UNREADABLE = (
    "The provider compressed its answer in an unsupported way, so its calls cannot wait for a "
    "decision. Turn off compression at the proxy or server in between."
)

_SAVED_S = 0.5
"""Seconds between checks, while waiting for a save, that the database can be written."""


def make_observer(engine: Engine, taps: Taps, key: bytes) -> Observe:
    """Creates the observer of a request; `key` as in AgentSessions."""
    return partial(AgentExchange, AgentSessions(engine, taps, key))


class AgentExchange:
    """One request and its answer, as observed by the relay."""

    def __init__(self, sessions: AgentSessions, request: AgentRequest) -> None:
        self.request = request
        self.session_id = ""
        self.recording = 0
        self.holds = False
        self.waits: tuple[ReadRequest, SessionPlace] | None = None
        self.behind = ""
        self.body: bytes | None = None
        self.stopped = asyncio.Event()
        self._sessions = sessions
        self._clock = sessions.engine.sessions.clock
        self._followed: FollowedAnswer | None = None
        self._held: HeldAnswer | None = None
        self._unpack: Decompressor | None = None
        self._kept = b""  # the last bytes of a non-streamed answer
        self._keeps = False
        self._status = 0
        self._size = 0
        self._hash = hashlib.sha256()
        self._finishing = asyncio.Lock()
        self._finished = False
        self._left = False
        self._owes = False  # whether its last bytes are being sent
        self._changed = False
        self._asked: ReadRequest | None = None
        self._going_on: asyncio.Task[None] | None = None
        self._clean = True

    async def begin(self) -> AnswerHead | None:
        self._sessions.taps.note(self.request.tap.id, self.request.at_ms)
        # Runs to its end even if the client leaves, so that what was begun in the log is ended.
        head = await finish_task(asyncio.create_task(self._begin(self._sessions.begin(self))))
        while self.waits is not None or self.behind:
            try:
                await self._wait_for_results()
                again = (
                    self._sessions.continue_request
                    if self.waits is not None
                    else self._sessions.begin
                )
                step = self._begin(again(self))
                head = await finish_task(asyncio.create_task(step))
            except NotFound:
                await self._sessions.leave(self)
                raise Refused(DELETED) from None
            except Exception:
                await self._sessions.leave(self)
                raise
        return head

    async def _begin(self, step: Coroutine[Any, Any, BeginResult | None]) -> AnswerHead | None:
        begun = await step
        if begun is None or begun.waits:
            return None
        self.holds, self._held, self._followed = begun.holds, begun.held, begun.followed
        self.body, self._asked = begun.body, begun.asked
        if self._followed is not None:
            self._followed.request.reader = asyncio.create_task(self._wait_for_answer())
        return begun.head

    async def _wait_for_results(self) -> None:
        """Waits until all held results are decided, the session stopped, or the tap revoked."""
        sessions, taps = self._sessions.engine.sessions, self._sessions.taps
        with sessions.listen(self.behind or self.session_id) as bell:
            while True:
                bell.clear()
                if (await taps.get(self.request.tap.id)).revoked_ms is not None:
                    return
                async with sessions.lock_session(self.behind or self.session_id) as live:
                    if live.session.stopped or not live.session.call_groups.count("held"):
                        return
                await bell.wait(_LOOK_S)

    async def _wait_for_answer(self) -> None:
        """Cancelled by Stop, like the reader of any answer; returns at the end of the answer."""
        assert self._followed is not None
        try:
            await asyncio.wait({self._followed.task})
        finally:
            if not self._followed.task.done():
                gone = NetworkError("interrupted", LEFT, began=True)
                self._followed.request.put(Received(self._clock(), trouble=gone, ended=True))
                self.stopped.set()

    def receive_head(self, status: int, headers: RawHeaders) -> RawHeaders:
        """For held calls, removes the length and encoding headers: the body changes."""
        self._status = status
        if self._followed is None:
            return headers
        started, self._unpack = self._parse_head(status, headers)
        stream = is_stream(started.headers)
        self._keeps = not stream
        coding = started.headers.get("content-encoding", "").strip().lower()
        unreadable = self._unpack is None and coding not in ("", "identity")
        if unreadable and self.holds and status < 400:
            raise NetworkError("not_api", _UNREADABLE)
        self._followed.request.put(Received(self._clock(), started=started))
        if not self.holds or status >= 400:  # an error is no answer, also by the decoders
            return headers
        protocol = protocol_of(self.request.url, None)
        self._held = HeldAnswer(str(protocol), status, stream=stream)
        own = (b"content-length", b"content-encoding")
        return [pair for pair in headers if pair[0].lower() not in own]

    async def pass_on(self, data: bytes) -> bytes:
        """What is passed on is in the log, except deltas of the last 30 ms. The last bytes of a
        non-streamed answer are held until its end: so its calls are in the log before the agent has
        them, too."""
        if self._followed is None:
            return data
        plain = self._decompress(data)
        await self._log(Received(self._clock(), plain))
        if self._held is not None:
            data = self._held.add(plain)
        elif self._keeps:
            data, self._kept = self._kept, data
        return self._count(data)

    async def finish_answer(self, trouble: NetworkError | None) -> AsyncIterator[bytes]:
        if self._followed is None and self._held is None:
            self._note()
            return
        if self._followed is not None:
            await self._log(Received(self._clock(), trouble=trouble, ended=True))
        try:
            if self._held is not None:
                self._clean = trouble is None
                async for keepalive in self._wait_for_decisions(self._held):
                    yield keepalive
            last, self._kept = self._count(self._kept), b""
            if last:
                self._owes = True
                yield last
                self._owes = False
        except Exception:
            self._left = True  # it gets no more, and may repeat the request
            await self._give_up()
            raise
        with suppress(StoreUnwritable):  # the agent has it anyway
            await self._give_up()

    async def _give_up(self) -> None:
        try:
            await self.finish()
        finally:
            self._sessions.close(self)

    async def _wait_for_decisions(self, held: HeldAnswer) -> AsyncIterator[bytes]:
        """Yields keep-alives while the calls wait for decisions, or a continuing request for its
        answer; then `_kept` is the rest of the answer. While nothing can be saved nothing is
        decided. NetworkError if a non-streamed answer has waited too long for decisions: its agent
        may repeat the request."""
        engine = self._sessions.engine
        since_ms = self._clock()
        try:
            with engine.sessions.listen(self.session_id) as bell:
                while True:
                    bell.clear()
                    with suppress(StoreUnwritable):
                        await engine.runner.advance(self.session_id)
                        if await self._take_decisions(held):
                            return
                    if self._going_on is not None and not self._going_on.done():
                        since_ms = self._clock()
                    wait_s = self._sessions.keepalive_s
                    if not held.stream:
                        left_s = HELD_WHOLE_S - (self._clock() - since_ms) / 1000
                        if left_s <= 0:
                            raise NetworkError("interrupted", HELD_WHOLE, began=True)
                        wait_s = min(wait_s, left_s)
                    if not await bell.wait(wait_s):
                        yield held.keepalive()
        finally:
            if self._going_on is not None:
                self._going_on.cancel()

    async def _take_decisions(self, held: HeldAnswer) -> bool:
        """Whether nothing of the answer waits any more. Logs that the agent runs calls before it
        gets them. NetworkError if the continuation of the answer failed."""
        engine = self._sessions.engine
        async with engine.sessions.lock_session(self.session_id) as live:
            turn = live.session.turns[self.recording - 1]
            if turn.open:
                return False  # its end is not saved yet
            if turn.holds:
                if live.session.stopped:
                    await engine.sessions.append(live, denials(live.session, turn))
                if any(call.status in ("proposed", "waiting") for call in turn.calls):
                    return False
            if turn.failure is not None and turn.request.continues:
                raise NetworkError("interrupted", turn.failure.message, began=True)
            if is_put_back(turn):
                self._sessions.keep(self.session_id, turn, bytes(held.pieces[-1]))
            if continues_here(live.session, turn):
                await self._send_continuation(live, held)
                return False
            if self.holds and not turn.held:  # the log disagrees with what was begun
                raise NetworkError("interrupted", CUT, began=True)
            try:
                rest, changed = held.rest(live.session.continued_turns(turn), clean=self._clean)
            except UnsafeAnswer:
                raise NetworkError("interrupted", CUT, began=True) from None
            if turn.holds:
                started = [CallStarted(call.id, call.attempt) for call in turn.calls if call.to_run]
                await engine.sessions.append(live, started)
            self._kept, self._changed = rest, changed
            if changed:  # before its next request can arrive
                places, tap = self._sessions.places, self.request.tap.id
                places.index_answer(tap, self.session_id, held.fingerprint())
        self.holds = False
        return True

    async def _send_continuation(self, live: LiveSession, held: HeldAnswer) -> None:
        """Sends the request that continues the answer, under the lock of the last decision."""
        assert self._asked is not None
        self._followed, body = await self._sessions.request_continuation(live, self._asked, self)
        self.recording = len(live.session.turns)
        held.start_piece()
        self._going_on = asyncio.create_task(self._read_continuation(self._followed, body, held))
        self._followed.request.reader = self._going_on

    async def _read_continuation(
        self, followed: FollowedAnswer, body: bytes, held: HeldAnswer
    ) -> None:
        """Reads the continuation. Cancelled by Stop, and when the client leaves."""
        assert self.request.ask is not None
        trouble: NetworkError | None = None
        unpack: Decompressor | None = None
        try:
            async with self.request.ask(body) as answer:
                started, unpack = self._parse_head(answer.status, answer.headers)
                followed.request.put(Received(self._clock(), started=started))
                async for data in answer.chunks():
                    plain = b"".join(unpack.feed(data)) if unpack is not None else data
                    held.add(plain)
                    await self._log(Received(self._clock(), plain))
        except NetworkError as error:
            trouble = error.with_traceback(None)  # as in ProviderClient._read
        except ValueError:
            trouble = NetworkError("interrupted", _UNPACKABLE, began=True)
        except asyncio.CancelledError:
            trouble = NetworkError("interrupted", LEFT, began=True)
        finally:
            self._clean = trouble is None
            followed.request.put(Received(self._clock(), trouble=trouble, ended=True))

    def _parse_head(
        self, status: int, headers: RawHeaders
    ) -> tuple[ResponseStarted, Decompressor | None]:
        """The head of an answer, and the decompressor of its body."""
        named = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in headers}
        coding = named.get("content-encoding", "").strip().lower()
        unpack = Decompressor() if coding in CODINGS else None
        return ResponseStarted(status, named, request_id(named)), unpack

    async def leave(self) -> None:
        """The client left. If the answer was complete, and the agent just did not wait for the end
        of the connection, it counts as passed on."""
        self._left = True
        if self.waits is not None or self.behind:
            await self._sessions.leave(self)
            return
        if self._followed is None and self._held is None:
            self._note()
            return
        if self._going_on is not None:
            self._going_on.cancel()
        if self._followed is not None:
            gone = NetworkError("interrupted", LEFT, began=True)
            await self._log(Received(self._clock(), trouble=gone, ended=True))
        await self.finish()

    async def finish(self) -> None:
        """Logs that the agent has the answer, when it is over."""
        async with self._finishing:
            if self._finished or not self.session_id or self.waits is not None:
                return
            engine = self._sessions.engine
            async with engine.sessions.lock_session(self.session_id) as live:
                turn = live.session.turns[self.recording - 1]
                waits = self.holds and (turn.holds or turn.request.continues > 0)
                if turn.open or (waits and not self._left):
                    return
                self._finished = True
                says = self._held.fingerprint() if self._held is not None and self._changed else ""
                passed = AnswerPassed(
                    self.recording, self._size, self._hash.hexdigest(), self._changed, says
                )
                lost = self._left and (waits or self._owes)
                gone = lost or (self._left and turn.end is None)
                event = ClientGone(self.recording) if gone else passed
                try:
                    await engine.sessions.append(live, [event])
                    self._sessions.places.index_turn(self.request.tap.id, self.session_id, turn)
                finally:
                    if lost and self._held is not None and not live.deleted:
                        self._sessions.wait(self, self._held)
                    else:
                        self._sessions.close(self)

    def _note(self) -> None:
        """Records the request as no conversation."""
        request = self.request
        unread = request.method == "POST" and protocol_of(request.url, None) is not None
        self._sessions.taps.note_other(
            request.tap.id,
            request.method,
            request.target,
            self._status,
            request.at_ms,
            unread=unread,
        )

    def _count(self, data: bytes) -> bytes:
        self._size += len(data)
        self._hash.update(data)
        return data

    def _decompress(self, data: bytes) -> bytes:
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
        """Waits until it is in the log, unless nothing can be saved now: that must not block."""
        followed = self._followed
        assert followed is not None
        if followed.task.done():
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
