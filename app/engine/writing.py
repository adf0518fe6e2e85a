"""An answer on its way into the log: its bytes to the recording and the decoder, events after them.

Knows no socket: it is handed what arrived, with its time, and how that ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import unquote

from app.core.decide import ignored
from app.core.events import (
    Event,
    PartEnded,
    PartKind,
    PartStarted,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    Source,
    Warned,
)
from app.core.settings import Limits, Profile
from app.core.tools import Tool
from app.engine.advice import message_with_advice
from app.engine.doubts import StreamingValidation
from app.engine.prices import cost
from app.engine.sessions import LiveSession, SessionStore
from app.engine.stream_redaction import StreamRedactor
from app.net.errors import NetworkError, rate_limits
from app.protocols.base import Codec, Decoder, ReadItem, SideText
from app.protocols.errors import asked_wait
from app.protocols.summary import is_server_call
from app.secrets.redaction import Redactor, merge_spans
from app.store.batch import Chunk, Closed

Stop = Callable[[], ResponseFailed | None]
"""How an answer ends that was stopped by now; None where it was not."""

OnEnd = Callable[[LiveSession], Awaitable[None]]
"""Called with the session that is held, as soon as the end of its answer is saved."""


ALIVE_FACTOR = 10
"""For so many times the limit of silence a provider may send signs of life and nothing else."""

MUCH = 512 * 1024
"""Bytes of an answer that are looked through in another thread: here it would take the turn of all
others for more than a moment."""


@dataclass(frozen=True)
class PreparedRequest:
    """A request ready to go. `sent` is the fact for the log, keys replaced by their names.

    `key_name` is the variable that the profile's key stands in, or "". `expects` is the media type
    of the stream that was asked for, or "". `url` is the address as it is asked, unmasked; `tools`
    are all of the session's, against which calls are checked while they stream.
    """

    sent: RequestSent
    codec: Codec
    headers: Mapping[str, str]
    body: bytes
    limits: Limits
    expects: str = ""
    notes: Sequence[str] = ()
    failed: ResponseFailed | None = None
    key_name: str = ""
    profile: Profile | None = None
    url: str = ""
    tools: Sequence[Tool] = ()


@dataclass
class Received:
    """What the reader hands over: bytes with their time, or how it ended."""

    at_ms: int
    data: bytes = b""
    started: ResponseStarted | None = None
    retry_after: float | None = None
    trouble: NetworkError | None = None
    ended: bool = False


class ResponseRecorder:
    """The decoder and the place in the recording of one answer."""

    def __init__(
        self,
        hub: SessionStore,
        session_id: str,
        prepared: PreparedRequest,
        redactor: Redactor,
        ended: OnEnd,
    ) -> None:
        self._hub = hub
        self._then = ended
        self._session_id = session_id
        self._prepared = prepared
        self._recording = prepared.sent.recording
        self._decoder: Decoder | None = None
        self._is_error = False
        self._redactor = redactor
        self._masked = redactor.redact_stream()
        joins = not prepared.codec.says_again
        self._held = StreamRedactor(prepared.sent.recording, redactor, joins=joins)
        self._retry_after: float | None = None
        self._request_id = ""
        self._rate_limits: Mapping[str, str] = {}
        self._kinds: dict[int, PartKind] = {}
        self._doubting = True
        self._doubts = StreamingValidation(prepared.tools, prepared.sent.protocol)
        self._calls: list[str] = []
        self._server_calls = 0
        self._told_ms = 0  # when something was said last
        self._events: list[Event] = []
        self._times: list[int] = []
        self._sources: list[Source] = []
        self._chunks: list[Chunk] = []
        self._marked: Sequence[tuple[int, int]] = ()
        self._ended = False
        self.over = False

    async def take(self, items: Sequence[Received], stop: Stop) -> None:
        clean = True
        for item in items:
            stopped = stop()
            # What had arrived by then is kept; but of calls that never run nothing is told ahead.
            self._doubting = stopped is None
            if self._is_much(item):
                clean = await asyncio.to_thread(self._take_one, item, stopped)
            else:
                clean = self._take_one(item, stopped)
            if self._ended:
                self.over = True
                break
            await asyncio.sleep(0)  # a piece can hold hundreds of calls; others get their turn
        await self._price()
        closed = None
        if self.over:
            closed = Closed(self._recording, clean, self._spans(), self._held.sha256)
        elif (spans := self._spans()) != self._marked:
            # What is masked is marked at once: nobody could find it after a power cut.
            closed, self._marked = Closed(self._recording, False, spans), spans
        save = partial(
            self._hub.append,
            events=self._events,
            times=self._times,
            sources=self._sources,
            chunks=self._chunks,
            closed=closed,
        )
        await self._hub.surely(self._session_id, save, self._then if self.over else None)
        self._events, self._times, self._sources, self._chunks = [], [], [], []

    def _is_much(self, item: Received) -> bool:
        """Whether what is read and looked through for `item` would keep others from their turn: a
        large event, or the end of a large answer."""
        held = self._held
        return (held.size if item.ended else held.size - held.saved + len(item.data)) >= MUCH

    def _take_one(self, item: Received, stopped: ResponseFailed | None) -> bool:
        """False where it was not the provider that ended the answer."""
        clean = True
        if item.started is not None:
            self._retry_after = item.retry_after
            self._started(item.started, item.at_ms)
        elif not item.ended:
            self._bytes(self._masked.feed(item.data), item.at_ms)
            if not self._ended and (quiet_s := self._quiet_s(item.at_ms)):
                clean = False
                self._end(_only_alive(item.at_ms, quiet_s), stopped)
        else:
            self._bytes(self._masked.end(), item.at_ms)
            clean = item.trouble is None
            self._end(item, stopped)
        self._release()
        return clean

    def _started(self, started: ResponseStarted, at_ms: int) -> None:
        headers = self._redactor.redact_data(dict(started.headers))
        masked = replace(
            started, headers=headers, request_id=self._redactor.redact_text(started.request_id)
        )
        self._told_ms = at_ms
        self._request_id, self._rate_limits = masked.request_id, rate_limits(headers)
        self._is_error = started.status >= 400
        self._masked = self._redactor.redact_stream(decoded=not self._is_error)
        self._take_in(masked, at_ms, 0, 0)
        if self._prepared.profile is not None and self._prepared.profile.recorded:
            self._check_path(headers.get("x-playground-left-recording", ""), at_ms)
        self._decoder = self._prepared.codec.decoder(started.status)
        self._decoder.limit(self._prepared.limits)
        if self._prepared.expects and started.status < 400:
            self._check_type(headers.get("content-type", ""), at_ms)

    def _check_path(self, others: str, at_ms: int) -> None:
        """A recording answers, and says which tools came to something else when it was made."""
        if others:
            names = " and ".join(unquote(name)[:80] for name in others.split(",")[:8])
            said = f"This answer was recorded after another call or result of {names}."
            self._take_in(Warned("left_recording", said), at_ms, 0, 0)

    def _check_type(self, told: str, at_ms: int) -> None:
        """A stream was asked for; the bytes alone decide how it is read."""
        kind = told.partition(";")[0].strip().lower()
        if kind != self._prepared.expects:
            called = f"is called {kind[:80]}" if kind else "has no content type"
            said = f"The answer {called}, though a stream was asked for; it is read by its bytes."
            self._take_in(Warned("content_type", said), at_ms, 0, 0)

    def _bytes(self, data: bytes, at_ms: int) -> None:
        if not data or self._decoder is None:
            return
        self._held.add_bytes(data, at_ms)
        heard = self._decoder.hear(data)
        if heard:
            self._told_ms = at_ms
        self._heard(heard, at_ms)

    def _spans(self) -> Sequence[tuple[int, int]]:
        """What of the bytes that are kept is masked; what came before an answer began is not."""
        kept = self._held.saved
        spans = self._masked.ranges
        if self._held.masked:
            spans = merge_spans(spans, self._held.masked)
        return tuple((start, min(end, kept)) for start, end in spans if start < kept)

    def _quiet_s(self, at_ms: int) -> float:
        """Seconds since anything was said, where that is too long; else 0."""
        quiet_s = (at_ms - self._told_ms) / 1000
        most_s = ALIVE_FACTOR * self._prepared.limits.idle_s
        return quiet_s if self._decoder is not None and quiet_s > most_s else 0.0

    def _end(self, item: Received, stopped: ResponseFailed | None) -> None:
        trouble = item.trouble
        instead = stopped
        if instead is None and trouble is not None:
            # Output has begun: what there is of it is an interrupted answer, whatever cut it.
            failure = "interrupted" if trouble.began else trouble.failure
            instead = ResponseFailed(
                failure,
                trouble.sentence(self._redactor.redact_text),
                trouble.status,
                trouble.retry_after,
                request_id=self._redactor.redact_text(trouble.request_id),
                rate_limits=rate_limits(self._redactor.redact_data(dict(trouble.headers))),
            )
        if self._decoder is None:
            failed = instead or ResponseFailed("not_api", "The provider sent no answer.")
            self._take_in(failed, item.at_ms, 0, 0)
            return
        if not self._ended:
            self._held.break_off(self._decoder.settled)
            heard = self._decoder.hear_end(trouble is None, stopped=stopped is not None)
            self._heard(heard, item.at_ms, instead)

    def _heard(
        self, heard: Sequence[ReadItem], at_ms: int, instead: ResponseFailed | None = None
    ) -> None:
        for start, end, event in heard:
            if isinstance(event, ResponseFailed):
                asked = self._retry_after
                asked = asked_wait(event.error) if asked is None else asked
                event = self._failed(_with_cause(event, instead, asked))
            self._take_in(event, at_ms, start, end)

    def _take_in(self, event: Event | SideText, at_ms: int, start: int, end: int) -> None:
        self._ended = self._ended or isinstance(event, ResponseEnded | ResponseFailed)
        self._held.add_event(event, at_ms, start, end)

    def _release(self) -> None:
        """Let go what is decided, with our own words on it. After the end that is all there is."""
        settled = self._decoder.settled if self._decoder is not None else 0
        # An error has no parts: its bytes wait for its end only where escapes may hide something.
        everything = self._ended or (self._is_error and not self._held.has_escapes)
        released = self._held.release(self._held.size if everything else settled)
        self._chunks += released.chunks
        for event, *place in released.events:
            match event:
                case PartStarted():
                    self._kinds[event.index] = event.part_kind
                case PartEnded(index=index) if self._kinds.get(index) == "call":
                    self._calls.append(event.name)
                    if self._doubting and (late := self._doubts.at_end(event)) is not None:
                        self._add(late, *place)
                case PartEnded(index=index) if is_server_call(
                    self._kinds.get(index, "other"), event
                ):
                    self._server_calls += 1
                case ResponseEnded():
                    self._judge(event, *place)
            self._add(event, *place)
            if self._doubting and (doubted := self._doubts.after(event)) is not None:
                self._add(doubted, *place)

    def _judge(self, event: ResponseEnded, at_ms: int, start: int, end: int) -> None:
        """Say, before the end, what of the tool choice was ignored."""
        choice = self._prepared.sent.choice
        for said in ignored(choice, self._calls, event.reason, self._server_calls):
            self._add(Warned("choice_ignored", said), at_ms, start, end)

    def _failed(self, event: ResponseFailed) -> ResponseFailed:
        """With what the decoder could not know: the headers, the key's name."""
        return replace(
            event,
            message=message_with_advice(event, self._prepared.key_name),
            request_id=self._request_id,
            rate_limits=self._rate_limits,
        )

    async def _price(self) -> None:
        """The cost of an answer that came to a good end, where the provider did not say it.

        The list of prices takes a moment to be read for the first time, hence the other thread.
        """
        sent, profile = self._prepared.sent, self._prepared.profile
        for place, event in enumerate(self._events):
            if isinstance(event, ResponseEnded) and event.cost is None and profile is not None:
                dollars = await asyncio.to_thread(cost, profile, sent.model, event.usage)
                self._events[place] = replace(event, cost=dollars)

    def _add(self, event: Event, at_ms: int, start: int, end: int) -> None:
        self._events.append(event)
        self._times.append(at_ms)
        self._sources.append(Source(self._recording, start, end))


def _only_alive(at_ms: int, quiet_s: float) -> Received:
    """The end of an answer that consists of signs of life by now."""
    said = (
        f"The provider sent nothing but signs of life for {quiet_s:.0f} s; retry, or raise the "
        "limit of silence under Providers."
    )
    return Received(at_ms, trouble=NetworkError("timeout", said, began=True), ended=True)


def _with_cause(
    event: ResponseFailed, instead: ResponseFailed | None, retry_after: float | None
) -> ResponseFailed:
    """What cut the answer is known better here than to the decoder, which saw bytes stop."""
    if instead is None or event.failure != "interrupted":
        return replace(event, retry_after=retry_after)
    return replace(event, failure=instead.failure, message=instead.message)
