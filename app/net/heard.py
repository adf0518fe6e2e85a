"""Whether anything of an answer has come, told by its bytes.

Of an answer that broke off in its head, neither httpx nor h11 tell it from none at all; but only
where nothing came may the request be sent again by itself.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class Heard:
    """What is known of the answer to the request of this task."""

    anything: bool = False


# A connection outlives the request that made it: what it brings is for the task that reads.
_HEARD: ContextVar[Heard] = ContextVar("heard")


def hearing() -> Heard:
    """From now on, what this task reads counts here."""
    heard = Heard()
    _HEARD.set(heard)
    return heard


def listen(stream: Any) -> None:
    """Note whatever the connection `stream` of httpcore brings."""
    read = stream.read

    async def heard(*args: Any, **named: Any) -> bytes:
        data: bytes = await read(*args, **named)
        if data:
            _HEARD.get(Heard()).anything = True
        return data

    stream.read = heard
