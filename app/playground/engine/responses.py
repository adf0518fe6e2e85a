"""Sends one request and records its response: recording, events, validation, failure, price.

The reader takes bytes from the socket as they arrive and stamps them. The recorder takes all that
arrived since its last commit, feeds it to the recording and the decoder, and appends the events. So
a slow disk makes larger batches, never a slower answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote

from playground.core.decide import ignored_tool_choice
from playground.core.errors import BadInput
from playground.core.events import (
    CallDoubted,
    Event,
    PartDelta,
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
from playground.core.messages import model_request
from playground.core.session import Session
from playground.core.settings import Limits, Profile
from playground.core.tools import Tool, ToolChoice
from playground.engine.prices import cost, needs_price_list
from playground.engine.redaction import StreamRedactor
from playground.engine.refusals import complains_of_arguments, explain_refusal
from playground.engine.sessions import LiveSession, SessionStore
from playground.net.client import HttpClient, NetworkError
from playground.net.keys import Keys
from playground.protocols.base import (
    Advice,
    Codec,
    Decoder,
    ReadItem,
    SideText,
    WireRequest,
    join_url,
    rate_limits,
    requested_wait,
)
from playground.protocols.decoder import is_server_call
from playground.protocols.facts import FACTS
from playground.protocols.registry import codec
from playground.schema.incremental import IncrementalValidator
from playground.secrets.forms import merge_spans
from playground.secrets.redaction import Redactor
from playground.store.writes import Chunk, ClosedRecording

AHEAD = 2048
"""How many pieces the reader may be ahead of the writer before it waits."""

AHEAD_BYTES = 4 * 1024 * 1024
"""... and how many bytes."""

MOST_UNSAVED = 64 * 1024 * 1024
"""Bytes kept in memory, over all sessions, while the database cannot be written; more are lost."""

PIECE = 256
"""Memory overhead of a piece, in bytes."""

LOOK_S = 0.5
"""How often a reader that waits for its writer checks whether the database is writable."""

TOGETHER = 256
"""How many pieces are decoded and written in one batch, so that other streams get their turn."""

TOGETHER_BYTES = 2 * 1024 * 1024
"""... a batch also ends after so many bytes, so that no large copy of it is in memory."""

SHARE = 32
"""... and after so many events other tasks get a turn: one piece can hold hundreds of calls."""

STOPPED = "Stopped by the user."

_LOST = (
    f"More than {MOST_UNSAVED >> 20} MiB arrived while nothing could be saved. The rest was not "
    "kept. Free some disk space, then retry."
)

Stop = Callable[[], ResponseFailed | None]
"""The event that ends an answer if it was stopped by now, else None."""

OnEnd = Callable[[LiveSession], Awaitable[None]]
"""Called with the locked session right after the end of its answer is saved."""

ALIVE_FACTOR = 10
"""A provider may send only keep-alives for so many times the limit of silence."""

MUCH = 512 * 1024
"""Bytes of an answer from which decoding and redaction run in another thread: in this one they
would block all other tasks noticeably."""

_NAMED_IN_PIECES = ("openai_chat",)
"""Protocols in which a name can continue after its call has started."""


@dataclass(eq=False)
class OpenRequest:
    """A request in progress; `stop` ends it within a moment. `unsaved`: bytes that arrived and are
    not in the log yet."""

    queue: asyncio.Queue[Received] = field(default_factory=asyncio.Queue)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    reader: asyncio.Task[None] | None = None
    stopped: ResponseFailed | None = None
    unsaved: int = 0

    def close(self) -> None:
        """Lets go of what was not read: up to 64 MiB, which an exception that refers to this
        request would otherwise keep."""
        while not self.queue.empty():
            self.queue.get_nowait()

    def put(self, item: Received) -> None:
        self.unsaved += len(item.data) + PIECE
        self.queue.put_nowait(item)

    async def next_items(self) -> list[Received]:
        """The next queued items: at least one, at most TOGETHER items or TOGETHER_BYTES."""
        items = [await self.queue.get()]
        size = len(items[0].data)
        while len(items) < TOGETHER and size < TOGETHER_BYTES and not self.queue.empty():
            items.append(self.queue.get_nowait())
            size += len(items[-1].data)
        return items

    def mark_saved(self, items: Sequence[Received]) -> None:
        self.unsaved -= sum(len(item.data) + PIECE for item in items)
        self.room.set()
        for item in items:
            if item.saved is not None and not item.saved.done():
                item.saved.set_result(None)

    @property
    def far_ahead(self) -> bool:
        return self.queue.qsize() >= AHEAD or self.unsaved >= AHEAD_BYTES

    def stop(self, failure: ResponseFailed) -> None:
        self.stopped = self.stopped or failure
        if self.reader is not None:
            # In the next iteration, not now: a task that is cancelled before its first step never
            # runs, so it would not report its end.
            self.reader.get_loop().call_soon(self.reader.cancel)


class ProviderClient:
    """`simulator_url` returns the URL of this process's own simulator, "" if there is none."""

    def __init__(
        self, sessions: SessionStore, net: HttpClient, keys: Keys, simulator_url: Callable[[], str]
    ) -> None:
        self._sessions = sessions
        self._net = net
        self._keys = keys
        self._simulator_url = simulator_url
        self._open: set[OpenRequest] = set()

    def prepare(self, session: Session, choice: ToolChoice) -> PreparedRequest:
        """Encodes the next request of `session`; `failed` says why it cannot be sent."""
        settings = session.settings
        assert settings is not None
        profile, recording = settings.profile, len(session.turns) + 1
        protocol_codec = codec(profile.protocol)
        model = settings.model or profile.model
        failed: ResponseFailed | None = None
        request = WireRequest("POST", "", {}, b"")
        base_url = profile.base_url
        try:
            request = protocol_codec.encode(model_request(session, choice))
            base_url = self.base_url(profile)
        except BadInput as error:
            failed = ResponseFailed("bad_request", str(error))
        key = self._keys.key_for(profile)
        missing = self._keys.missing_reason(profile)
        if not model and failed is None:
            failed = ResponseFailed("bad_request", "No model is named. Choose one.")
        if missing and failed is None:
            failed = ResponseFailed("no_key", missing)
        key_name = "PLAYGROUND_TOKEN" if profile.simulated else profile.key_name
        shown = protocol_codec.key_header("$" + key_name, profile.quirks) if key_name else {}
        redactor, url = self._keys.redactor(), join_url(base_url, request.path)
        sent = RequestSent(
            recording,
            protocol=profile.protocol,
            method=request.method,
            url=redactor.redact_text(url),
            headers=join_headers(
                redactor.redact_data(join_headers(request.headers, profile.headers)), shown
            ),
            body=redactor.redact_text(request.body.decode("utf-8")),
            model=model,
            choice=choice,
        )
        if profile.recorded:
            again = sum(turn.request.body == sent.body for turn in session.turns)
            again_header = {"x-playground-again": str(again)}
            sent = replace(sent, headers=join_headers(sent.headers, again_header))
            request = replace(request, headers=join_headers(request.headers, again_header))
        own_key = protocol_codec.key_header(key, profile.quirks) if key else {}
        headers = join_headers(request.headers, profile.headers, own_key)
        return PreparedRequest(
            sent,
            codec=protocol_codec,
            headers=headers,
            body=request.body,
            limits=settings.limits,
            expects=request.expects,
            notes=request.notes,
            failed=failed,
            key_name=profile.key_name,
            profile=profile,
            url=url,
            tools=settings.tools,
        )

    async def answer(
        self, session_id: str, prepared: PreparedRequest, answering: OpenRequest, ended: OnEnd
    ) -> None:
        """Sends the request and logs the response, including the one event that ends the turn."""
        answering.reader = asyncio.create_task(self._read(prepared, answering))
        if answering.stopped is not None:
            answering.stop(answering.stopped)
        try:
            await self.record(session_id, prepared, answering, ended)
        finally:
            answering.reader.cancel()
            with suppress(asyncio.CancelledError):
                await answering.reader

    async def record(
        self, session_id: str, prepared: PreparedRequest, answering: OpenRequest, ended: OnEnd
    ) -> None:
        """Logs what is put into `answering`, including the one event that ends the turn."""
        writing = ResponseRecorder(
            self._sessions, session_id, prepared, self._keys.redactor(), ended
        )
        self._open.add(answering)
        try:
            while not writing.over:
                items = await answering.next_items()
                await writing.take(items, lambda: answering.stopped)
                answering.mark_saved(items)
                del items  # frees them while it waits for the next ones
        finally:
            self._open.discard(answering)
            answering.close()

    async def _read(self, prepared: PreparedRequest, answering: OpenRequest) -> None:
        sent, clock = prepared.sent, self._sessions.clock
        last = Received(clock(), ended=True)
        try:
            async with self._net.open(
                sent.method, prepared.url, prepared.headers, prepared.body, prepared.limits
            ) as answer:
                started = ResponseStarted(answer.status, answer.headers, answer.request_id)
                answering.put(Received(clock(), started=started, retry_after=answer.retry_after))
                async for data in answer.chunks():
                    answering.put(Received(clock(), data))
                    await self._wait_for_writer(answering)
        except NetworkError as trouble:
            # Its frames reference all that was read, in a cycle with `last`.
            last.trouble = trouble.with_traceback(None)
        except asyncio.CancelledError:
            last.trouble = NetworkError("interrupted", "The connection was closed.")
        finally:
            last.at_ms = clock()
            answering.put(last)

    @property
    def unsaved(self) -> int:
        """The bytes of all answers that arrived and are not in the log yet."""
        return sum(request.unsaved for request in self._open)

    async def _wait_for_writer(self, answering: OpenRequest) -> None:
        """Waits if the reader is far ahead. While the database cannot be written the reader
        continues as long as memory lasts; then NetworkError."""
        while answering.far_ahead and self._sessions.health.trouble is None:
            answering.room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await answering.room.wait()
        if self._sessions.health.trouble is not None and self.unsaved > MOST_UNSAVED:
            raise NetworkError("interrupted", _LOST, began=True)

    def base_url(self, profile: Profile) -> str:
        """See `base_url_of`."""
        return base_url_of(profile, self._simulator_url())


def base_url_of(profile: Profile, simulator_url: str) -> str:
    """The address for requests of `profile`; BadInput if it is the simulator's and there is none
    (`simulator_url` is "")."""
    if not profile.simulated:
        return profile.base_url
    if not simulator_url:
        raise BadInput(f"The simulator has no server for {profile.protocol} here.")
    if profile.recorded:
        return f"{simulator_url}/recorded/{quote(profile.recorded, safe='')}"
    return simulator_url + FACTS[profile.protocol].simulated


def join_headers(*several: Mapping[str, str]) -> dict[str, str]:
    """Merges headers; later ones override earlier ones, names compared without case: otherwise two
    that differ only in case would both be sent."""
    return {name.lower(): value for headers in several for name, value in headers.items()}


# Logs a response. No socket here: it gets the bytes with their times, and how they ended.


@dataclass(frozen=True)
class PreparedRequest:
    """A request ready to send. `sent` is its event for the log, with names in place of keys.

    `key_name` is the variable that holds the profile's key, or "". `expects` is the media type of
    the requested stream, or "". `url` is the address unmasked; `tools` are all tools of the
    session, against which calls are validated while they stream.
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
    """An item from the reader: bytes with their time, or the end. `saved` is set if the reader
    waits until it is in the log (deltas get there a moment later)."""

    at_ms: int
    data: bytes = b""
    started: ResponseStarted | None = None
    retry_after: float | None = None
    trouble: NetworkError | None = None
    ended: bool = False
    saved: asyncio.Future[None] | None = None


class ResponseRecorder:
    """Decodes one answer and tracks the position in its recording."""

    def __init__(
        self,
        sessions: SessionStore,
        session_id: str,
        prepared: PreparedRequest,
        redactor: Redactor,
        ended: OnEnd,
    ) -> None:
        self._sessions = sessions
        self._then = ended
        self._session_id = session_id
        self._prepared = prepared
        self._recording = prepared.sent.recording
        self._decoder: Decoder | None = None
        self._is_error = False
        self._redactor = redactor
        self._byte_redactor = redactor.redact_stream()
        joins = not prepared.codec.says_again
        self._event_redactor = StreamRedactor(prepared.sent.recording, redactor, joins=joins)
        self._retry_after: float | None = None
        self._request_id = ""
        self._rate_limits: Mapping[str, str] = {}
        self._kinds: dict[int, PartKind] = {}
        self._doubting = True
        self._doubts = StreamingValidation(prepared.tools, prepared.sent.protocol)
        self._calls: list[str] = []
        self._server_calls = 0
        self._last_said_ms = 0  # time of the last byte that was not a keep-alive
        self._events: list[Event] = []
        self._times: list[int] = []
        self._sources: list[Source] = []
        self._chunks: list[Chunk] = []
        self._marked: Sequence[tuple[int, int]] = ()
        self._ended = False
        self._clean = True  # the provider ended the answer itself, if it has ended
        self._unshared = 0  # events since other tasks had their turn
        self.over = False

    async def take(self, items: Sequence[Received], stop: Stop) -> None:
        for item in items:
            stopped = stop()
            if self._is_much(item):
                await asyncio.to_thread(self._take_one, item, stopped)
            else:
                self._take_one(item, stopped)
            if self._ended:
                self.over = True
                break
            if len(self._events) + self._unshared >= SHARE:
                self._unshared = -len(self._events)
                await asyncio.sleep(0)
        self._unshared += len(self._events)
        if self._ended:
            await self._price()
            await self._explain_refusal()
        closed = None
        if self.over:
            closed = ClosedRecording(
                self._recording, self._clean, self._spans(), self._event_redactor.sha256
            )
        elif (spans := self._spans()) != self._marked:
            # The masked spans are saved at once: after a power cut they could not be reconstructed.
            closed, self._marked = ClosedRecording(self._recording, False, spans), spans
        await self._sessions.append(
            self._session_id,
            self._events,
            times=self._times,
            sources=self._sources,
            chunks=self._chunks,
            closed=closed,
            then=self._then if self.over else None,
        )
        self._forget_saved()

    def _forget_saved(self) -> None:
        self._events, self._times, self._sources, self._chunks = [], [], [], []

    def _is_much(self, item: Received) -> bool:
        """Whether decoding and redacting `item` would block other tasks: a large event, or the end
        of a large answer."""
        held = self._event_redactor
        return (held.size if item.ended else held.size - held.saved + len(item.data)) >= MUCH

    def _take_one(self, item: Received, stopped: ResponseFailed | None) -> None:
        # Bytes from before a stop are kept, but calls that will not run get no early warning.
        self._doubting = stopped is None
        if item.started is not None:
            self._retry_after = item.retry_after
            self._start_response(item.started, item.at_ms)
        elif not item.ended:
            self._bytes(self._byte_redactor.feed(item.data), item.at_ms)
            if not self._ended and (quiet_s := self._quiet_s(item.at_ms)):
                self._clean = False
                self._end(_keep_alive_end(item.at_ms, quiet_s), stopped)
        else:
            self._bytes(self._byte_redactor.end(), item.at_ms)
            self._clean = item.trouble is None
            self._end(item, stopped)
        self._release()

    def _start_response(self, started: ResponseStarted, at_ms: int) -> None:
        headers = self._redactor.redact_data(dict(started.headers))
        masked = replace(
            started, headers=headers, request_id=self._redactor.redact_text(started.request_id)
        )
        self._last_said_ms = at_ms
        self._request_id, self._rate_limits = masked.request_id, rate_limits(headers)
        self._is_error = started.status >= 400
        self._byte_redactor = self._redactor.redact_stream(decoded=not self._is_error)
        self._take_in(masked, at_ms, 0, 0)
        if self._prepared.profile is not None and self._prepared.profile.recorded:
            self._check_path(headers.get("x-playground-left-recording", ""), at_ms)
        self._decoder = self._prepared.codec.decoder(started.status)
        self._decoder.limit(self._prepared.limits)
        profile = self._prepared.profile
        recorded = profile is not None and bool(profile.recorded)
        self._decoder.advise(Advice(self._prepared.key_name, self._retry_after, recorded))
        if self._prepared.expects and started.status < 400:
            self._check_type(headers.get("content-type", ""), at_ms)

    def _check_path(self, others: str, at_ms: int) -> None:
        """Warns if the recording was made after other calls or results of some tools."""
        if others:
            names = " and ".join(unquote(name)[:80] for name in others.split(",")[:8])
            message = f"This answer was recorded after a different call or result of {names}."
            self._take_in(Warned("left_recording", message), at_ms, 0, 0)

    def _check_type(self, content_type: str, at_ms: int) -> None:
        """Warns if the content type is not a stream's; the bytes decide how it is decoded."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind != self._prepared.expects:
            called = f"is called {kind[:80]}" if kind else "has no content type"
            message = (
                f"The answer {called}, although a stream was requested. It is read by its content."
            )
            self._take_in(Warned("content_type", message), at_ms, 0, 0)

    def _bytes(self, data: bytes, at_ms: int) -> None:
        if not data or self._decoder is None:
            return
        self._event_redactor.add_bytes(data, at_ms)
        heard = self._decoder.feed_all(data)
        if heard:
            self._last_said_ms = at_ms
        self._take_decoded(heard, at_ms)

    def _spans(self) -> Sequence[tuple[int, int]]:
        """The masked spans of the saved bytes; bytes before the answer began are not masked."""
        saved = self._event_redactor.saved
        spans = self._byte_redactor.ranges
        if self._event_redactor.masked:
            spans = merge_spans(spans, self._event_redactor.masked)
        return tuple((start, min(end, saved)) for start, end in spans if start < saved)

    def _quiet_s(self, at_ms: int) -> float:
        """Seconds since the last byte that was not a keep-alive, if over the limit; else 0."""
        quiet_s = (at_ms - self._last_said_ms) / 1000
        most_s = ALIVE_FACTOR * self._prepared.limits.idle_s
        return quiet_s if self._decoder is not None and quiet_s > most_s else 0.0

    def _end(self, item: Received, stopped: ResponseFailed | None) -> None:
        trouble = item.trouble
        instead = stopped
        if instead is None and trouble is not None:
            # Once output has begun, any failure makes it an interrupted answer.
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
            self._event_redactor.break_off(self._decoder.settled)
            heard = self._decoder.end_all(trouble is None, stopped=stopped is not None)
            self._take_decoded(heard, item.at_ms, instead)

    def _take_decoded(
        self, heard: Sequence[ReadItem], at_ms: int, instead: ResponseFailed | None = None
    ) -> None:
        for start, end, event in heard:
            if isinstance(event, ResponseFailed):
                asked = self._retry_after
                asked = requested_wait(event.error) if asked is None else asked
                event = self._complete_failure(_set_cause(event, instead, asked))
            self._take_in(event, at_ms, start, end)

    def _take_in(self, event: Event | SideText, at_ms: int, start: int, end: int) -> None:
        self._ended = self._ended or isinstance(event, ResponseEnded | ResponseFailed)
        self._event_redactor.add_event(event, at_ms, start, end)

    def _release(self) -> None:
        """Adds what is decided, with our own events; after the end, everything."""
        settled = self._decoder.settled if self._decoder is not None else 0
        # An error has no parts: its bytes wait for the end only if escapes may hide a secret.
        everything = self._ended or (self._is_error and not self._event_redactor.has_escapes)
        released = self._event_redactor.release(
            self._event_redactor.size if everything else settled
        )
        self._chunks += released.chunks
        for event, *place in released.events:
            match event:
                case PartStarted():
                    self._kinds[event.index] = event.part_kind
                case PartEnded(index=index) if self._kinds.get(index) == "call":
                    self._calls.append(event.name)
                    if self._doubting and (late := self._doubts.check_call_end(event)) is not None:
                        self._add(late, *place)
                case PartEnded(index=index) if is_server_call(
                    self._kinds.get(index, "other"), event
                ):
                    self._server_calls += 1
                case ResponseEnded():
                    self._judge(event, *place)
            self._add(event, *place)
            if self._doubting and (doubted := self._doubts.check_event(event)) is not None:
                self._add(doubted, *place)

    def _judge(self, event: ResponseEnded, at_ms: int, start: int, end: int) -> None:
        """Warns, before the end, how the answer ignored the tool choice."""
        choice = self._prepared.sent.choice
        for message in ignored_tool_choice(choice, self._calls, event.reason, self._server_calls):
            self._add(Warned("choice_ignored", message), at_ms, start, end)

    def _complete_failure(self, event: ResponseFailed) -> ResponseFailed:
        """Adds the headers, which the decoder does not know."""
        return replace(
            event,
            request_id=self._request_id,
            rate_limits=self._rate_limits,
        )

    async def _price(self) -> None:
        """Sets the cost of a complete answer, unless the provider reported it.

        The price list takes a moment to load the first time, so that happens in another thread.
        """
        sent, profile = self._prepared.sent, self._prepared.profile
        for place, event in enumerate(self._events):
            if isinstance(event, ResponseEnded) and event.cost is None and profile is not None:
                given = (profile, sent.model, event.usage)
                slow = needs_price_list(profile)
                dollars = await asyncio.to_thread(cost, *given) if slow else cost(*given)
                self._events[place] = replace(event, cost=dollars)

    async def _explain_refusal(self) -> None:
        """Warns, before the end, which turn of the history the provider may have refused."""
        for place, event in enumerate(self._events):
            if isinstance(event, ResponseFailed) and complains_of_arguments(event):
                async with self._sessions.lock_session(self._session_id) as live:
                    sentence = explain_refusal(live.session, self._recording)
                if sentence:
                    self._events.insert(place, Warned("history_refused", sentence))
                    self._times.insert(place, self._times[place])
                    self._sources.insert(place, self._sources[place])
                return

    def _add(self, event: Event, at_ms: int, start: int, end: int) -> None:
        self._events.append(event)
        self._times.append(at_ms)
        self._sources.append(Source(self._recording, start, end))


def _keep_alive_end(at_ms: int, quiet_s: float) -> Received:
    """The end of an answer that now consists of keep-alives only."""
    message = (
        f"The provider sent only keep-alives for {quiet_s:.0f} s. Retry, or raise the idle "
        "timeout (Providers)."
    )
    return Received(at_ms, trouble=NetworkError("timeout", message, began=True), ended=True)


def _set_cause(
    event: ResponseFailed, instead: ResponseFailed | None, retry_after: float | None
) -> ResponseFailed:
    """Sets the cause of a broken connection; the decoder saw only that the bytes stopped."""
    if instead is None or event.failure != "interrupted":
        return replace(event, retry_after=retry_after)
    return replace(event, failure=instead.failure, message=instead.message)


# Validates calls against their tools while they stream. No bytes here; decides nothing.


class StreamingValidation:
    """Validates the open calls of one answer. Reports at most one problem per call: the first."""

    def __init__(self, tools: Sequence[Tool], protocol: str) -> None:
        # A free-form tool gets plain text, which has no schema.
        named = {tool.name: tool for tool in reversed(tools)}
        self._tools = {name: tool for name, tool in named.items() if tool.format is None}
        self._in_pieces = protocol in _NAMED_IN_PIECES
        self._open: dict[int, IncrementalValidator | None] = {}  # None: name not known yet

    def check_event(self, event: Event) -> CallDoubted | None:
        """The problem that is certain since `event`, if any."""
        match event:
            case PartStarted(index=index, part_kind="call", name=name):
                if not name or (self._in_pieces and self._may_continue(name)):
                    self._open[index] = None
                elif name in self._tools:
                    self._open[index] = IncrementalValidator(self._tools[name].parameters)
            case PartDelta(index=index, text=text):
                early = self._open.get(index)
                return None if early is None else self._feed(index, early, text)
            case PartEnded(index=index):
                self._open.pop(index, None)
        return None

    def check_call_end(self, event: PartEnded) -> CallDoubted | None:
        """Same, for a call whose name is only known at its end; its event goes before `event`."""
        late = event.index in self._open and self._open[event.index] is None
        tool = self._tools.get(event.name) if late else None
        if tool is None or event.meta.get("type") == "custom":
            return None
        return self._feed(event.index, IncrementalValidator(tool.parameters), event.text)

    def _may_continue(self, name: str) -> bool:
        return any(other != name and other.startswith(name) for other in self._tools)

    def _feed(self, index: int, early: IncrementalValidator, text: str) -> CallDoubted | None:
        if early.closed:
            # Some servers repeat the whole arguments; the final check has the complete text.
            return None
        problem = early.feed(text)
        return None if problem is None else CallDoubted(index, problem)
