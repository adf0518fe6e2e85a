"""One request: written, sent, and its bytes turned into a recording and events as they arrive.

The reader takes bytes off the socket as they come and stamps them; the writer takes whatever has
come since its last commit, so that a slow disk makes larger batches and never a slower answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from app.core.errors import BadInput
from app.core.events import RequestSent, ResponseFailed, ResponseStarted
from app.core.messages import model_request
from app.core.session import Session
from app.core.settings import Profile
from app.core.tools import ToolChoice
from app.engine.sessions import SessionStore
from app.engine.writing import OnEnd, PreparedRequest, Received, ResponseRecorder
from app.net.client import HttpClient
from app.net.errors import NetworkError
from app.net.keys import Keys
from app.protocols.addresses import joined
from app.protocols.base import WireRequest
from app.protocols.registry import codec

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

AHEAD_BYTES = 16 * 1024 * 1024
"""... and how many bytes."""

MOST_UNSAVED = 64 * 1024 * 1024
"""Bytes that are kept over all sessions while nothing can be saved; what comes then is lost."""

PIECE = 256
"""Bytes that a piece takes in memory beyond its data."""

LOOK_S = 0.5
"""How often a reader that waits for its writer looks whether that can write at all."""

TOGETHER = 256
"""How many pieces are decoded and written at once, so that streams get their turn in between."""

TOGETHER_BYTES = 2 * 1024 * 1024
"""... and after how many bytes no further piece is, so that what is written has no large copy."""

STOPPED = "Stopped by the user."


@dataclass(eq=False)
class OpenRequest:
    """A request under way; `stop` ends it within a moment. `unsaved` are the bytes that have
    arrived and are not in the log yet."""

    queue: asyncio.Queue[Received] = field(default_factory=asyncio.Queue)
    room: asyncio.Event = field(default_factory=asyncio.Event)
    reader: asyncio.Task[None] | None = None
    stopped: ResponseFailed | None = None
    unsaved: int = 0

    def put(self, item: Received) -> None:
        self.unsaved += len(item.data) + PIECE
        self.queue.put_nowait(item)

    async def drained(self) -> list[Received]:
        """What has arrived, at least one piece and at most TOGETHER, or TOGETHER_BYTES."""
        items = [await self.queue.get()]
        size = len(items[0].data)
        while len(items) < TOGETHER and size < TOGETHER_BYTES and not self.queue.empty():
            items.append(self.queue.get_nowait())
            size += len(items[-1].data)
        return items

    def saved(self, items: Sequence[Received]) -> None:
        self.unsaved -= sum(len(item.data) + PIECE for item in items)
        self.room.set()

    @property
    def far_ahead(self) -> bool:
        return self.queue.qsize() >= AHEAD or self.unsaved >= AHEAD_BYTES

    def stop(self, failure: ResponseFailed) -> None:
        self.stopped = self.stopped or failure
        if self.reader is not None:
            self.reader.cancel()


class ProviderClient:
    """`simulator_url` is asked where this process's own simulator stands, "" for nowhere."""

    def __init__(
        self, hub: SessionStore, net: HttpClient, keys: Keys, simulator_url: Callable[[], str]
    ) -> None:
        self._hub = hub
        self._net = net
        self._keys = keys
        self._simulator_url = simulator_url
        self._open: set[OpenRequest] = set()

    def prepare(self, session: Session, choice: ToolChoice) -> PreparedRequest:
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
        if not model and failed is None:
            failed = ResponseFailed("bad_request", "Choose a model; none is named.")
        if missing and failed is None:
            failed = ResponseFailed("no_key", missing)
        key_name = "PLAYGROUND_TOKEN" if profile.simulated else profile.key_name
        shown = one.key_header("$" + key_name, profile.quirks) if key_name else {}
        redactor, url = self._keys.redactor(), joined(base_url, request.path)
        sent = RequestSent(
            recording,
            profile.protocol,
            request.method,
            redactor.redact_text(url),
            join_headers(
                redactor.redact_data(join_headers(request.headers, profile.headers)), shown
            ),
            redactor.redact_text(request.body.decode("utf-8")),
            model,
            choice,
        )
        if profile.recorded:
            again = sum(turn.request.body == sent.body for turn in session.turns)
            told = {"x-playground-again": str(again)}
            sent = replace(sent, headers=join_headers(sent.headers, told))
            request = replace(request, headers=join_headers(request.headers, told))
        own_key = one.key_header(key, profile.quirks) if key else {}
        headers = join_headers(request.headers, profile.headers, own_key)
        return PreparedRequest(
            sent,
            one,
            headers,
            request.body,
            settings.limits,
            request.expects,
            request.notes,
            failed,
            profile.key_name,
            profile,
            url,
            settings.tools,
        )

    async def answer(
        self, session_id: str, prepared: PreparedRequest, answering: OpenRequest, ended: OnEnd
    ) -> None:
        """Send it and log what comes back, to the one event that ends the turn."""
        answering.reader = asyncio.create_task(self._read(prepared, answering))
        if answering.stopped is not None:
            answering.reader.cancel()
        writing = ResponseRecorder(self._hub, session_id, prepared, self._keys.redactor(), ended)
        self._open.add(answering)
        try:
            while not writing.over:
                items = await answering.drained()
                await writing.take(items, lambda: answering.stopped)
                answering.saved(items)
        finally:
            self._open.discard(answering)
            answering.reader.cancel()
            with suppress(asyncio.CancelledError):
                await answering.reader

    async def _read(self, prepared: PreparedRequest, answering: OpenRequest) -> None:
        sent, clock = prepared.sent, self._hub.clock
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
            last.trouble = trouble
        except asyncio.CancelledError:
            last.trouble = NetworkError("interrupted", "The connection was given up.")
        finally:
            last.at_ms = clock()
            answering.put(last)

    @property
    def unsaved(self) -> int:
        """The bytes of all answers that have arrived and are not in the log yet."""
        return sum(one.unsaved for one in self._open)

    async def _wait_for_writer(self, answering: OpenRequest) -> None:
        """Where the reader is far ahead of it. While nothing can be saved the reader goes on, as
        far as memory goes: NetTrouble where that is full."""
        while answering.far_ahead and self._hub.health.trouble is None:
            answering.room.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await answering.room.wait()
        if self._hub.health.trouble is not None and self.unsaved > MOST_UNSAVED:
            raise NetworkError("interrupted", _LOST, began=True)

    def _base_url(self, profile: Profile) -> str:
        if not profile.simulated:
            return profile.base_url
        url, path = self._simulator_url(), SIMULATED_PATHS.get(profile.protocol)
        if not url or path is None:
            raise BadInput(f"The simulator has no end for {profile.protocol} here.")
        return url + (f"/recorded/{quote(profile.recorded, safe='')}" if profile.recorded else path)


def join_headers(*several: Mapping[str, str]) -> dict[str, str]:
    """One set of headers, later ones over earlier ones however their names are written: of two
    that differ in case alone, both would be sent."""
    return {name.lower(): value for headers in several for name, value in headers.items()}


_LOST = (
    f"More than {MOST_UNSAVED >> 20} MiB arrived while nothing could be saved; what came after "
    "that was not kept. Make room, then retry."
)
