"""One request of an agent, passed on to its provider, and the answer passed back as it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from app.core.settings import Profile
from app.net.client import NetworkError
from app.tap.taps import Tap

DoorName = Literal["anthropic", "openai", "gemini", "ollama"]
"""The word in the path that an agent asks at."""

RawHeaders = Sequence[tuple[bytes, bytes]]
"""In the order in which they came, those that came twice twice."""


@dataclass(frozen=True)
class AgentRequest:
    """`target` is the path behind the door with its query, undecoded. `headers` are the agent's,
    without the tap's own. `body` is None where it is larger than 64 MiB or in a content coding
    that cannot be read. `url` is where it goes on to, with `?key=` as the agent sent it."""

    tap: Tap
    door: DoorName
    method: str
    target: bytes
    headers: RawHeaders
    body: bytes | None
    url: str
    profile: Profile
    at_ms: int


class Exchange(Protocol):
    """What follows one request of an agent and its answer. The relay calls it in this order:
    `begin`; `answered` and any number of `pass_on`; `end`, or `leave`, once."""

    async def begin(self) -> None:
        """Nothing has gone upstream yet."""

    def answered(self, status: int, headers: RawHeaders) -> None:
        """The head of the answer has come."""

    async def pass_on(self, data: bytes) -> bytes:
        """`data` came from upstream, as it is; returns what the client gets now."""

    async def end(self, trouble: NetworkError | None) -> bytes:
        """Upstream has ended, by `trouble` or well; returns the last bytes for the client."""

    async def leave(self) -> None:
        """The client has gone before its whole answer."""


Observe = Callable[[AgentRequest], Exchange]
