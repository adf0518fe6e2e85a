"""What the door for agents answers by itself, in the form in which the protocol tells errors."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence

from starlette.types import Send

from app.protocols.registry import ENDS


class RefusedRequest(Exception):
    """A request that does not go on. `sentence` is for the user of the agent."""

    def __init__(
        self, status: int, sentence: str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, headers


async def refuse(send: Send, protocol: str, refused: RefusedRequest) -> None:
    """Answer with the error as `protocol` tells it, "" where none is known."""
    body = error_body(protocol, refused.status, refused.sentence)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *refused.headers,
    ]
    start = {"type": "http.response.start", "status": refused.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})


def error_body(protocol: str, status: int, sentence: str) -> bytes:
    """An error as JSON."""
    if not protocol:
        return json.dumps({"error": sentence}).encode()
    end = ENDS[protocol]
    return end.error(end.problem(status, sentence), f"req_{secrets.token_hex(12)}")
