"""Taps: doors for agents, each with a secret of its own and a provider behind it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

StopAt = Literal["nothing", "unruled", "calls", "results", "errors"]
"""What waits for the user: nothing; calls that no rule allows; every call; results, too; errors."""


@dataclass(frozen=True)
class Tap:
    """`upstream` is the name of the profile that requests go on to, `agent` the launcher's name of
    the agent, "" for one started by hand. Times are Unix ms."""

    id: str
    title: str
    upstream: str
    stop_at: StopAt
    agent: str
    created_ms: int
    revoked_ms: int | None = None


class Taps:
    """All taps by the hash of their secret."""

    def __init__(self, clock: Callable[[], int], new_id: Callable[[], str]) -> None:
        self._clock = clock
        self._new_id = new_id
        self._by_hash: dict[str, Tap] = {}

    def create(
        self, upstream: str, title: str = "", stop_at: StopAt = "nothing", agent: str = ""
    ) -> tuple[Tap, str]:
        """A new tap and its secret, which is known only now."""
        secret = secrets.token_urlsafe(32)
        tap = Tap(self._new_id(), title, upstream, stop_at, agent, self._clock())
        self._by_hash[_hash(secret)] = tap
        return tap, secret

    def find(self, secret: str) -> Tap | None:
        """The tap of that secret; None where there is none, or it was revoked."""
        hashed = _hash(secret)
        for known, tap in self._by_hash.items():
            if hmac.compare_digest(known, hashed):
                return tap if tap.revoked_ms is None else None
        return None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
