"""One request: written, sent, and its bytes turned into a recording and events as they arrive.

The reader takes bytes off the socket as they come and stamps them; the writer takes whatever has
come since its last commit, so that a slow disk makes larger batches and never a slower answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from app.core.errors import BadInput
from app.core.events import (
    Event,
    RequestSent,
    ResponseEnded,
    ResponseFailed,
    ResponseStarted,
    Source,
    Warned,
)
from app.core.messages import model_request
from app.core.settings import Limits, Profile
from app.core.state import Session
from app.core.tools import ToolChoice
from app.engine.hub import Hub
from app.net.client import Net, NetTrouble
from app.net.keys import Keys
from app.net.mask import Masker
from app.store.log import Chunk
from app.wire.address import joined
from app.wire.codec import Codec, Decoder, Spanned, WireRequest
from app.wire.protocols import codec
from app.wire.told import KEY_ADVICE

SIMULATED_PATHS: Mapping[str, str] = {
    "anthropic": "/anthropic",
    "openai_chat": "/openai/v1",
    "openai_responses": "/openai/v1",
    "gemini": "/gemini",
    "ollama": "/ollama",
}
"""Where the simulator's ends stand below its own base URL."""

AHEAD = 2048
"""How many pieces the reader may be ahead of the writer before it waits."""

TOGETHER = 256
"""How many pieces are decoded and written at once, so that streams get their turn in between."""

STOPPED = "Stopped by the person."


@dataclass(frozen=True)
class Prepared:
    """A request ready to go. `sent` is the fact for the log, keys replaced by their names.

    `key_name` is the variable that the profile's key stands in, or "". `expects` is the media type
    of the stream that was asked for, or "".
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


@dataclass
class _Arrived:
    """What the reader hands over: bytes with their time, or how it ended."""

    at_ms: int
    data: bytes = b""
    started: ResponseStarted | None = None
    retry_after: float | None = None
    trouble: NetTrouble | None = None
    ended: bool = False


@dataclass
class Answering:
    """A request under way; `stop` ends it within a moment."""

    queue: asyncio.Queue[_Arrived] = field(default_factory=asyncio.Queue)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    reader: asyncio.Task[None] | None = None
    stopped: ResponseFailed | None = None

    def stop(self, failure: ResponseFailed) -> None:
        self.stopped = self.stopped or failure
        if self.reader is not None:
            self.reader.cancel()


class Client:
    """`simulator_url` is asked where this process's own simulator stands, "" for nowhere."""

    def __init__(self, hub: Hub, net: Net, keys: Keys, simulator_url: Callable[[], str]) -> None:
        self._hub = hub
        self._net = net
        self._keys = keys
        self._simulator_url = simulator_url

    def prepare(self, session: Session, choice: ToolChoice) -> Prepared:
        """The next request of `session`. What keeps it from being sent is in `failed`."""
        settings = session.settings
        assert settings is not None
        profile, recording = settings.profile, len(session.turns) + 1
        one = codec(profile.protocol)
        model = settings.model or profile.model
        failed: ResponseFailed | None = None
        request = WireRequest("POST", "", {}, b"")
        base_url = profile.base_url
        try:
            request = one.encode(model_request(session, choice))
            base_url = self._base_url(profile)
        except BadInput as error:
            failed = ResponseFailed("bad_request", str(error))
        key = self._keys.key_for(profile)
        missing = self._keys.missing(profile)
        if missing and failed is None:
            failed = ResponseFailed("no_key", missing)
        key_name = "PLAYGROUND_TOKEN" if profile.simulated else profile.key_name
        shown = one.key_header("$" + key_name, profile.quirks) if key_name else {}
        masker = self._keys.masker()
        sent = RequestSent(
            recording,
            profile.protocol,
            request.method,
            joined(base_url, request.path),
            {**masker.mask_data({**request.headers, **profile.headers}), **shown},
            masker.mask_text(request.body.decode("utf-8")),
            model,
            choice,
        )
        own_key = one.key_header(key, profile.quirks) if key else {}
        headers = {**request.headers, **profile.headers, **own_key}
        return Prepared(
            sent,
            one,
            headers,
            request.body,
            settings.limits,
            request.expects,
            request.notes,
            failed,
            profile.key_name,
        )

    async def answer(self, session_id: str, prepared: Prepared, answering: Answering) -> None:
        """Send it and log what comes back, to the one event that ends the turn."""
        answering.reader = asyncio.create_task(self._read(prepared, answering))
        if answering.stopped is not None:
            answering.reader.cancel()
        writing = _Writing(self._hub, session_id, prepared, self._keys.masker())
        try:
            while not writing.over:
                await writing.take(await _drained(answering), answering.stopped)
        finally:
            answering.reader.cancel()
            with suppress(asyncio.CancelledError):
                await answering.reader

    async def _read(self, prepared: Prepared, answering: Answering) -> None:
        sent, clock, queue = prepared.sent, self._hub.clock, answering.queue
        last = _Arrived(clock(), ended=True)
        try:
            async with self._net.open(
                sent.method, sent.url, prepared.headers, prepared.body, prepared.limits
            ) as answer:
                started = ResponseStarted(answer.status, answer.headers, answer.request_id)
                queue.put_nowait(_Arrived(clock(), started=started, retry_after=answer.retry_after))
                async for data in answer.chunks():
                    queue.put_nowait(_Arrived(clock(), data))
                    while queue.qsize() >= AHEAD:
                        answering.room.clear()
                        await answering.room.wait()
        except NetTrouble as trouble:
            last.trouble = trouble
        except asyncio.CancelledError:
            last.trouble = NetTrouble("interrupted", "The connection was given up.")
        finally:
            last.at_ms = clock()
            queue.put_nowait(last)

    def _base_url(self, profile: Profile) -> str:
        if not profile.simulated:
            return profile.base_url
        url, path = self._simulator_url(), SIMULATED_PATHS.get(profile.protocol)
        if not url or path is None:
            raise BadInput(f"The simulator has no end for {profile.protocol} here.")
        return url + path


async def _drained(answering: Answering) -> list[_Arrived]:
    """What has arrived, at least one piece and at most TOGETHER."""
    items = [await answering.queue.get()]
    while len(items) < TOGETHER and not answering.queue.empty():
        items.append(answering.queue.get_nowait())
    answering.room.set()
    return items


class _Writing:
    """The decoder and the place in the recording of one answer."""

    def __init__(self, hub: Hub, session_id: str, prepared: Prepared, masker: Masker) -> None:
        self._hub = hub
        self._session_id = session_id
        self._prepared = prepared
        self._recording = prepared.sent.recording
        self._decoder: Decoder | None = None
        self._masker = masker
        self._masked = masker.mask_stream()
        self._retry_after: float | None = None
        self._offset = 0
        self._events: list[Event] = []
        self._times: list[int] = []
        self._sources: list[Source] = []
        self._chunks: list[Chunk] = []
        self._ended = False
        self.over = False

    async def take(self, items: Sequence[_Arrived], stopped: ResponseFailed | None) -> None:
        closed = None
        for item in items:
            if item.started is not None:
                self._retry_after = item.retry_after
                self._started(item.started, item.at_ms)
            elif not item.ended:
                self._bytes(self._masked.feed(item.data), item.at_ms)
            else:
                self._bytes(self._masked.end(), item.at_ms)
                closed = (self._recording, item.trouble is None)
                self._end(item, stopped)
            if self._ended:
                closed = closed or (self._recording, True)
                self.over = True
                break
        async with self._hub.holding(self._session_id) as live:
            await self._hub.append(
                live,
                self._events,
                times=self._times,
                sources=self._sources,
                chunks=self._chunks,
                closed=closed,
            )
        self._events, self._times, self._sources, self._chunks = [], [], [], []

    def _started(self, started: ResponseStarted, at_ms: int) -> None:
        headers = self._masker.mask_data(dict(started.headers))
        masked = replace(
            started, headers=headers, request_id=self._masker.mask_text(started.request_id)
        )
        self._add(masked, at_ms, self._offset, self._offset)
        self._decoder = self._prepared.codec.decoder(started.status)
        if self._prepared.expects and started.status < 400:
            self._check_type(headers.get("content-type", ""), at_ms)

    def _check_type(self, told: str, at_ms: int) -> None:
        """A stream was asked for; the bytes alone decide how it is read."""
        kind = told.partition(";")[0].strip().lower()
        if kind != self._prepared.expects:
            called = f"is called {kind[:80]}" if kind else "has no content type"
            said = f"The answer {called}, though a stream was asked for; it is read by its bytes."
            self._add(Warned("content_type", said), at_ms, self._offset, self._offset)

    def _bytes(self, data: bytes, at_ms: int) -> None:
        if not data or self._decoder is None:
            return
        self._chunks.append(Chunk(self._recording, self._offset, at_ms, data))
        self._offset += len(data)
        self._spanned(self._decoder.feed(data), at_ms)

    def _end(self, item: _Arrived, stopped: ResponseFailed | None) -> None:
        trouble = item.trouble
        instead = stopped
        if instead is None and trouble is not None:
            # Output has begun: what there is of it is an interrupted answer, whatever cut it.
            failure = "interrupted" if trouble.began else trouble.failure
            instead = ResponseFailed(
                failure,
                self._masker.mask_text(str(trouble)),
                trouble.status,
                trouble.retry_after,
            )
        if self._decoder is None:
            failed = instead or ResponseFailed("not_api", "The provider sent no answer.")
            self._add(failed, item.at_ms, 0, 0)
            return
        if not self._ended:
            self._spanned(self._decoder.end(trouble is None), item.at_ms, instead)

    def _spanned(
        self, spanned: Sequence[Spanned], at_ms: int, instead: ResponseFailed | None = None
    ) -> None:
        for start, end, event in spanned:
            if isinstance(event, ResponseFailed):
                event = _told(event, instead, self._retry_after)
                event = replace(event, message=_advised(event, self._prepared.key_name))
            self._add(event, at_ms, start, end)

    def _add(self, event: Event, at_ms: int, start: int, end: int) -> None:
        self._events.append(event)
        self._ended = self._ended or isinstance(event, ResponseEnded | ResponseFailed)
        self._times.append(at_ms)
        self._sources.append(Source(self._recording, start, end))


def _told(
    event: ResponseFailed, instead: ResponseFailed | None, retry_after: float | None
) -> ResponseFailed:
    """What cut the answer is known better here than to the decoder, which saw bytes stop."""
    if instead is None or event.failure != "interrupted":
        return replace(event, retry_after=retry_after)
    return replace(event, failure=instead.failure, message=instead.message)


def _advised(event: ResponseFailed, key_name: str) -> str:
    """Its message with what the decoder could not know: the key's name, the wait that is asked."""
    message = event.message
    if key_name and message.endswith(KEY_ADVICE):
        message = message.removesuffix(KEY_ADVICE) + f"Check {key_name}."
    if event.retry_after:
        message += f" It asks to wait {event.retry_after:g} s."
    return message
