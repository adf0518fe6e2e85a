"""What a server under test really sent, written down as it left the application (ASGI)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from playground.core.events import RequestSent
from playground.engine.engine import Engine
from playground.engine.verify import check_session


@dataclass
class Exchange:
    """The body of one request, and of what was answered."""

    request: bytes = b""
    answer: bytes = b""


@dataclass
class Boundary:
    """Wraps an application; `exchanges` in the order in which they began."""

    exchanges: list[Exchange] = field(default_factory=list)

    def around(self, app: ASGIApp) -> ASGIApp:
        async def written(scope: Scope, receive: Receive, send: Send) -> None:
            exchange = Exchange()

            async def received() -> Message:
                message = await receive()
                if message["type"] == "http.request":
                    exchange.request += message.get("body", b"")
                return message

            async def sent(message: Message) -> None:
                if message["type"] == "http.response.body":
                    exchange.answer += message.get("body", b"")
                await send(message)

            self.exchanges.append(exchange)
            await app(scope, received, sent)

        return written

    def answers(self, request: bytes) -> list[bytes]:
        """All that was answered to requests with this body, for a retry asks the same again."""
        return [exchange.answer for exchange in self.exchanges if exchange.request == request]

    async def wrongly_kept(
        self, engine: Engine, session_id: str, *, is_complete: bool = True, seen: bool = True
    ) -> list[str]:
        """What is wrong with the recordings of a session that have ended, a sentence each: their
        bytes against those sent, their hash, and what the decoder makes of them once more.

        `whole` False is for an answer of which we keep the beginning; `seen` False for one that
        was written or packed behind the application's back.
        """
        async with engine.sessions.lock_session(session_id):
            log = await engine.log.events(session_id)
            chunks = await engine.log.chunks(session_id)
            closed = await engine.log.recordings(session_id)
        failures = [
            difference.line
            for difference in check_session(session_id, log, chunks, closed).differences
        ]
        sent = {o.event.recording: o.event for o in log if isinstance(o.event, RequestSent)}
        for number, end in closed.items():
            data = b"".join(chunk.data for chunk in chunks if chunk.recording == number)
            if end.sha256 != hashlib.sha256(data).hexdigest():
                failures.append(f"the hash of recording {number} is not that of its bytes")
            if not seen:
                continue
            answers = [_starred(o, end.masked) for o in self.answers(sent[number].body.encode())]
            stored = any(o == data or (not is_complete and o.startswith(data)) for o in answers)
            if not stored:
                sizes = [len(answer) for answer in answers]
                failures.append(f"recording {number} has {len(data)} bytes; sent were {sizes}")
        return failures


def _starred(data: bytes, spans: Sequence[tuple[int, int]]) -> bytes:
    for start, end in spans:
        data = data[:start] + b"*" * (end - start) + data[end:]
    return data
