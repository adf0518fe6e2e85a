"""Taps: doors for agents, each with its own secret and an upstream provider.

Stored in the database by the hash of the secret, which itself is never written. The traffic of a
tap is recorded only in memory, as long as the process lives.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import get_args
from urllib.parse import unquote_plus

from playground.core.errors import BadInput, Conflict, NotFound
from playground.core.events import StopAt
from playground.core.serialization import from_data, to_data
from playground.core.settings import Profile
from playground.net.keys import Keys
from playground.secrets.names import names_key
from playground.store.library import Library

STOPS: tuple[StopAt, ...] = get_args(StopAt)

MOST_TITLE = 200
MOST_OTHERS = 50
"""Most requests of a tap that are not conversations; the last ones are kept."""
MOST_PATH = 200
"""Most characters kept of such a request's path."""


@dataclass(frozen=True)
class Tap:
    """`upstream` is the name of the profile to which requests are sent on; `agent` is the
    launcher's name of the agent, "" for one started by hand. Times are Unix ms."""

    id: str
    title: str
    upstream: str
    stop_at: StopAt
    agent: str
    created_ms: int
    revoked_ms: int | None = None


@dataclass(frozen=True)
class OtherRequest:
    """A request that is not a conversation: a list of models, an unknown path. `path` includes its
    query, except for the value of a key. `at_ms` is Unix time in ms. `refused` says why it was not
    sent on, or "". `unread`: it was for a chat API, but its body was unreadable, so it is in no
    session, and nothing of its answer was held."""

    method: str
    path: str
    status: int
    at_ms: int
    refused: str = ""
    unread: bool = False


@dataclass
class Activity:
    """The traffic of a tap since this process began: the number of `requests`, the time of the last
    one (Unix ms, None before the first), and the last ones that are not conversations, newest last.
    `since_start`: the tap was made by this process, so there was no earlier traffic."""

    requests: int = 0
    last_ms: int | None = None
    others: deque[OtherRequest] = field(default_factory=lambda: deque(maxlen=MOST_OTHERS))
    since_start: bool = False


class Taps:
    """All taps by the hash of their secret. Loaded on first use.

    `profile_named` returns the profile of a name, or raises NotFound; `clock` is Unix time in ms.
    """

    def __init__(
        self,
        library: Library,
        keys: Keys,
        profile_named: Callable[[str], Profile],
        clock: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        self._library = library
        self._keys = keys
        self._profile_named = profile_named
        self._clock = clock
        self._new_id = new_id
        self._changing = asyncio.Lock()
        self._loaded = False
        self._by_hash: dict[str, Tap] = {}
        self._activity: dict[str, Activity] = {}
        self.revoked: Callable[[], object] = lambda: None
        """Called after a tap was revoked, because requests of its agent may wait."""

    async def create(
        self,
        upstream: str = "simulator",
        title: str = "",
        stop_at: str = "nothing",
        agent: str = "",
    ) -> tuple[Tap, str]:
        """Creates a tap; returns it and its secret (43 characters, url-safe), known only now.

        NotFound if there is no profile `upstream`, BadInput if it has no address, or another value
        cannot be stored.
        """
        if not self._profile_named(upstream).base_url:
            raise BadInput(f"The profile {upstream!r} has no address yet. Set it on its page.")
        stop = _stop_at(stop_at)
        title, agent = self._clean_words("title", title), self._clean_words("agent", agent)
        await self._load()
        secret = secrets.token_urlsafe(32)
        self._keys.learn(secret)
        hashed = _hash(secret)
        tap = Tap(
            self._new_id(),
            title=title,
            upstream=upstream,
            stop_at=stop,
            agent=agent,
            created_ms=self._clock(),
        )
        await self._save(hashed, tap)
        self._by_hash[hashed] = tap
        self._activity[tap.id] = Activity(since_start=True)
        return tap, secret

    async def find(self, secret: str) -> Tap | None:
        """The tap of that secret; None if there is none, or it was revoked."""
        await self._load()
        # By hash: the lookup time then reveals nothing about the secret.
        tap = self._by_hash.get(_hash(secret))
        if tap is None:
            return None
        self._keys.learn(secret)
        return tap if tap.revoked_ms is None else None

    async def list_taps(self) -> list[Tap]:
        """Taps in use, then revoked ones, each group newest first."""
        await self._load()
        newest = sorted(self._by_hash.values(), key=lambda tap: -tap.created_ms)
        return sorted(newest, key=lambda tap: tap.revoked_ms is not None)

    async def get(self, tap_id: str) -> Tap:
        """NotFound if there is none."""
        return (await self._entry(tap_id))[1]

    async def set_stop_at(self, tap_id: str, stop_at: str) -> Tap:
        """BadInput if `stop_at` is not in `STOPS`, Conflict if the tap was revoked."""
        stop = _stop_at(stop_at)
        async with self._changing:
            hashed, tap = await self._entry(tap_id)
            if tap.revoked_ms is not None:
                raise Conflict("This tap was revoked. Make a new one.")
            changed = replace(tap, stop_at=stop)
            await self._save(hashed, changed)
            self._by_hash[hashed] = changed
        return changed

    async def revoke(self, tap_id: str) -> Tap:
        """Refuses its secret from now on, even if that cannot be saved; idempotent."""
        async with self._changing:
            hashed, tap = await self._entry(tap_id)
            if tap.revoked_ms is None:
                tap = self._by_hash[hashed] = replace(tap, revoked_ms=self._clock())
                self.revoked()
            await self._save(hashed, tap)
        return tap

    def note(self, tap_id: str, at_ms: int) -> None:
        """Counts a request of the tap's agent at `at_ms` (Unix time)."""
        activity = self._activity.setdefault(tap_id, Activity())
        activity.requests += 1
        activity.last_ms = at_ms

    def note_other(
        self,
        tap_id: str,
        method: str,
        target: bytes,
        status: int,
        at_ms: int,
        refused: str = "",
        unread: bool = False,
    ) -> None:
        """Records a request that is not a conversation, or was `refused` for that reason: `method`
        and `target` (raw path and query after the door), answered with `status` at `at_ms`. `note`
        has counted it."""
        mask = self._keys.redactor().redact_text
        path = mask(without_key(target))[:MOST_PATH]
        activity = self._activity.setdefault(tap_id, Activity())
        activity.others.append(
            OtherRequest(
                method[:20],
                path=path,
                status=status,
                at_ms=at_ms,
                refused=mask(refused),
                unread=unread,
            )
        )

    def activity(self, tap_id: str) -> Activity:
        """The traffic of the tap since this process began."""
        return self._activity.get(tap_id) or Activity()

    async def _load(self) -> None:
        if self._loaded:
            return
        rows = await self._library.taps()
        saved = {hashed: from_data(Tap, json.loads(body)) for hashed, body in rows}
        if not self._loaded:  # two tasks may load at once
            self._by_hash, self._loaded = {**saved, **self._by_hash}, True

    async def _save(self, hashed: str, tap: Tap) -> None:
        await self._library.save_tap(tap.id, hashed, json.dumps(to_data(tap)), self._clock())

    async def _entry(self, tap_id: str) -> tuple[str, Tap]:
        await self._load()
        for hashed, tap in self._by_hash.items():
            if tap.id == tap_id:
                return hashed, tap
        raise NotFound(f"There is no tap {tap_id!r}.")

    def _clean_words(self, name: str, text: str) -> str:
        words = " ".join(text.split())
        if len(words) > MOST_TITLE:
            raise BadInput(f"{name} has at most {MOST_TITLE} characters.")
        return self._keys.redactor().redact_text(words)


def without_key(target: bytes) -> str:
    """`target` (raw path and query) as text, with stars for the value of a key in its query."""
    path, mark, query = target.decode("latin-1").partition("?")
    return path + mark + "&".join(_mask_value(pair) for pair in query.split("&"))


def _mask_value(pair: str) -> str:
    name, _, value = pair.partition("=")
    hidden = value and names_key(unquote_plus(name), unquote_plus(value))
    return f"{name}=***" if hidden else pair


def _stop_at(text: str) -> StopAt:
    for stop in STOPS:
        if stop == text:
            return stop
    raise BadInput(f"stop_at must be one of {', '.join(STOPS)}.")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
