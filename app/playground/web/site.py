"""What all pages share: the engine, the templates, and the Views made from both."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from jinja2 import Environment
from starlette.requests import Request

from playground.batch import batches as making
from playground.core.errors import NotFound, StoreGone
from playground.core.providers import STOPS_AT, agent_title
from playground.core.servers import KeyReplacement
from playground.core.session import Session, snapshot
from playground.engine.engine import Engine
from playground.engine.sessions import LiveSession, SessionStore, new_id
from playground.render.paging import ShownCounts
from playground.render.replay import Player, ReplayConstants
from playground.render.replay_timeline import build_timeline
from playground.render.view import SessionRow, View
from playground.render.wire_rows import WireRows
from playground.store.library import Version
from playground.store.search import SearchHit
from playground.store.writes import Summary
from playground.tap.taps import Taps
from playground.web.imports_view import ChoicePage
from playground.web.rules_view import unasked_words

# The most recently replayed sessions, laid out and folded: a jump does not read them again.

T = TypeVar("T")

KEPT = 3
"""Sessions cached; others are laid out again on request."""


@dataclass
class _CachedReplay:
    """`seq` and `title` are those of the session when it was laid out."""

    seq: int
    title: str
    player: Player
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ReplayCache:
    """Players by session, the most recently used ones."""

    def __init__(self) -> None:
        self._laid: OrderedDict[str, _CachedReplay] = OrderedDict()

    async def render(
        self,
        sessions: SessionStore,
        session_id: str,
        draw: Callable[[Player], T],
        *,
        latest: bool = False,
    ) -> T:
        """The result of `draw` on the session's player, in a thread; NotFound if there is none.

        A running replay continues with the session as it was laid out; with `latest` it includes
        later events.
        """
        prepared = await self._load(sessions, session_id, latest)
        async with prepared.lock:
            return await asyncio.to_thread(draw, prepared.player)

    async def _load(self, sessions: SessionStore, session_id: str, latest: bool) -> _CachedReplay:
        async with sessions.lock_session(session_id) as live:
            seq, title = live.session.seq, live.title
            prepared = self._laid.get(session_id)
            stale = (
                prepared is not None and latest and (prepared.seq, prepared.title) != (seq, title)
            )
            if prepared is None or stale:
                log = await sessions.log.events(session_id)
                pieces: dict[int, list[tuple[int, bytes]]] = {}
                for chunk in await sessions.log.chunks(session_id):
                    pieces.setdefault(chunk.recording, []).append((chunk.at_ms, chunk.data))
                recorded = await asyncio.to_thread(build_timeline, session_id, log, pieces)
                prepared = _CachedReplay(
                    seq,
                    title,
                    Player(recorded, ReplayConstants(session_id, title, sessions.clock())),
                )
                self._laid[session_id] = prepared
        self._laid.move_to_end(session_id)
        while len(self._laid) > KEPT:
            self._laid.popitem(last=False)
        return prepared


Source = tuple[str, str, str]
"""An imported text: its file's name, the text, and why it cannot be read, or ""."""

LISTED = 100
"""Sessions that the list shows at first and adds with each "Show more"."""
MOST_HELD = 1_000
MOST_VALUES = 4 * 1024 * 1024
"""Limits of the import pages' stored server values: the number of servers, and characters."""


@dataclass(frozen=True)
class StoreStatus:
    """`trouble` says why nothing can be saved, or could not a moment ago, "" if all is well;
    `unsteady`: something has been saved since. `meanwhile` says what happens to incoming data.
    `copy`: a copy may be written in place of the file. `unsaved` is the number of answer bytes that
    are not in the log yet."""

    trouble: str
    unsteady: bool
    meanwhile: str
    copy: bool
    unsaved: int


@dataclass(frozen=True)
class Upload:
    """Texts that a further request is about: those with more tools than a page shows, and their
    selection page; those with Python, which an interpreter may read."""

    sources: Sequence[Source]
    page: ChoicePage | None = None


@dataclass
class Site:
    """`closing` is set when the server ends: streams check it whenever they wake.

    `changing` is held from reading settings until they are saved, so that concurrent changes are
    not lost. `deleted` are tools that can be restored: their versions, and whether they were on.
    `replays` are the sessions that are being replayed. `values` are those server values on import
    pages that may be keys, by a token of the page: they are in no page, log or database. `uploads`
    exist while a user chooses tools, by a token of their own. `listed` are the newest rows of the
    list of sessions, and the list version they show. `taps` are the entry points for agents,
    `demos` the agents of demos in this process.
    """

    engine: Engine
    env: Environment
    closing: bool = field(default=False)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    deleted: dict[str, tuple[list[Version], bool]] = field(default_factory=dict)
    replays: ReplayCache = field(default_factory=ReplayCache)
    values: dict[str, tuple[KeyReplacement, ...]] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    listed: tuple[int, list[SessionRow]] = (-1, [])
    taps: Taps = field(init=False)
    demos: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        engine = self.engine
        clock, profile = engine.sessions.clock, engine.profile
        self.taps = Taps(engine.library, engine.keys, profile, clock, new_id)
        engine.ends.append(self._end_demos)

    def store_now(self) -> StoreStatus:
        """Whether anything can be saved, and what is held in memory."""
        sessions = self.engine.sessions
        trouble = sessions.health.told
        meanwhile = "Incoming data is kept in memory and saved as soon as possible."
        if sessions.owes():
            meanwhile += " Stop has taken effect."
        return StoreStatus(
            "" if trouble is None else str(trouble),
            sessions.health.unsteady,
            meanwhile,
            copy=isinstance(sessions.health.trouble, StoreGone),
            unsaved=self.engine.client.unsaved + self.engine.log.unsaved,
        )

    def hold(self, replaced: tuple[KeyReplacement, ...]) -> str:
        """Stores the values until too many others follow; returns the token to retrieve them."""
        held = secrets.token_urlsafe(12)
        self.values[held] = replaced
        size = sum(len(value.value) for many in self.values.values() for value in many)
        while len(self.values) > 1 and (size > MOST_VALUES or len(self.values) > MOST_HELD):
            size -= sum(len(value.value) for value in self.values.pop(next(iter(self.values))))
        return held

    @cached_property
    def batches(self) -> making.Batches:
        """The batches of this database; running ones end with the engine."""
        batches = making.Batches(self.engine)
        self.engine.ends.append(batches.close)
        return batches

    def close(self) -> None:
        """Ends the streams."""
        self.closing = True
        self.engine.sessions.notify_list()

    async def _end_demos(self) -> None:
        """Ends the demo agents: each revokes its tap, which needs an open database."""
        for agent in self.demos:
            agent.cancel()
        await asyncio.gather(*self.demos, return_exceptions=True)

    async def view(
        self,
        live: LiveSession,
        rows: Sequence[SessionRow] | None = None,
        *,
        wired: bool = True,
        shown: ShownCounts | None = None,
        framed: bool = False,
        now: bool = False,
    ) -> View:
        """The View of a session that is held; includes the wire's rows only if `wired`. `shown` is
        how many calls of long turns; `framed`: as a column of another page. With `now` it is a
        snapshot, which may be drawn after the session is released."""
        sessions = self.engine.sessions
        wire = await sessions.wire(live) if wired else WireRows()
        view = View(live.session, live.title, wire, sessions.clock(), own=live.own, rows=rows)
        if now:
            view = replace(view, session=snapshot(live.session), wire=wire.snapshot())
        view = replace(view, shown=shown or {}, framed=framed)
        view = replace(view, pinned=live.pinned, archived=live.archived, tags=live.tags)
        view = replace(view, stops_at=await self._stops_at(live))
        return replace(view, unasked=unasked_words(self.engine.rules.rules_of(live.id)))

    async def _stops_at(self, live: LiveSession) -> str:
        """Which calls of its agent wait here; "" if no tap of ours is in use for it."""
        tapped = live.session.tapped
        if tapped is None or not live.own:
            return ""
        try:
            tap = await self.taps.get(tapped.tap)
        except NotFound:
            return ""
        return STOPS_AT[tap.stop_at] if tap.revoked_ms is None else ""

    def list_view(self, rows: Sequence[SessionRow] | None) -> View:
        """The View of a page that shows the list and no session."""
        return View(Session(""), "", WireRows(), self.engine.sessions.clock(), rows=rows)

    async def rows(self, after: tuple[int, str] | None = None) -> list[SessionRow]:
        """The list of sessions: the pinned ones, then the newest first; or those that come `after`
        (updated_ms, id)."""
        version, log = self.engine.sessions.list_version, self.engine.log
        if after is None and self.listed[0] == version:
            return self.listed[1]
        pinned = await log.pinned_sessions() if after is None else []
        newest = await log.summaries(limit=LISTED, after=after)
        others = (summary for summary in newest if not summary.pinned)
        rows = [row_of(summary) for summary in (*pinned, *others)]
        if after is None:
            self.listed = (version, rows)
        return rows


def row_of(summary: Summary) -> SessionRow:
    return SessionRow(
        summary.id,
        title=summary.title,
        state=summary.state,
        updated_ms=summary.updated_ms,
        model=summary.model,
        calls=summary.calls,
        waiting=summary.waiting,
        pinned=summary.pinned,
        archived=summary.archived,
        tags=summary.tags,
        parent=summary.parent,
        agent=agent_title(summary.agent) if summary.tap else "",
        above=summary.above if summary.own else "",
    )


def search_row(hit: SearchHit) -> SessionRow:
    """The row of a session found by a search."""
    return replace(row_of(hit.session), place=hit.place, excerpt=tuple(hit.excerpt))


def site_of(request: Request) -> Site:
    site: Site = request.app.state.site
    return site
