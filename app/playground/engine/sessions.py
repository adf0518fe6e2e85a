"""The sessions in memory, and the only way to change them: check, fold, save, notify.

To change a session, lock it (`async with sessions.holding(id) as live`) and call `append`; the lock
is held until the events are committed, so the next holder sees only saved state. Only deltas are
shown at once and saved a moment later, for all sessions together: at the latest with, and before,
the next event of another kind. If saving fails, the fold in memory is discarded and rebuilt from
the log and the unsaved deltas.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from array import array
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, takewhile
from typing import TypeVar

from playground.core.decide import close_imported
from playground.core.errors import (
    Conflict,
    IllegalEvent,
    NotFound,
    PlaygroundError,
    Refused,
    StoreError,
    StoreUnwritable,
)
from playground.core.events import (
    Event,
    Logged,
    PartDelta,
    PartEnded,
    PromptAdded,
    RequestSent,
    SessionStarted,
    Source,
    Tapped,
    durability,
)
from playground.core.reducer import ForkPrefix, apply, fold
from playground.core.session import Session
from playground.core.settings import Settings
from playground.engine.memory import LARGE_TEXT, give_back_free_memory
from playground.engine.redaction import redact_event
from playground.render.wire_rows import WireRows
from playground.secrets.redaction import Redactor
from playground.store.log import Log
from playground.store.maintenance import purge
from playground.store.writes import (
    Chunk,
    ClosedRecording,
    CopiedPart,
    WriteBatch,
    called_tools,
    summary_of,
    title_of,
)

T = TypeVar("T")
EventsOf = Callable[["LiveSession"], Sequence[Event]]
Then = Callable[["LiveSession"], Awaitable[object]]

REST_S = 20.0
"""Seconds without access after which a session with a large text is unloaded; an open page accesses
it more often."""

DELTAS_WAIT = 256 * 1024
"""Unsaved bytes of a session beyond which an append waits until they are saved."""

LIST_S = 1.0
"""Least interval, in seconds, at which pages are notified of changes to other sessions."""

LIVE = 64
"""How many sessions without running work are kept folded in memory."""

POSITIONS = 1024
"""For how many unloaded sessions the position of the last event is remembered."""

RECENT = 4096
"""How many events of a session are kept in memory for streams to catch up; older streams start
again."""

RECENT_CHARACTERS = 1024 * 1024
"""... and how many characters of text."""

FEW = 64

RECENT_MS = 5_000
"""Beyond the last FEW, events are dropped that are so much older than the last one."""


@dataclass
class LiveSession:
    """A session in memory; all fields are read and written under `lock` only. One that is `large`
    is unloaded soon after its last access, by the timer `resting`. `recent` are the last events,
    for streams. `failed`: why events that were shown could not be saved, until an append raises it;
    `lost`: the same, until the session is folded again. `heard`: turn, and Unix ms, of the last
    byte of an answer."""

    id: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    folded: Session | None = None
    title: str = ""
    created_ms: int = 0
    deleted: bool = False
    own: bool = True
    pinned: bool = False
    archived: bool = False
    tags: tuple[str, ...] = ()
    batch: str = ""
    holders: int = 0
    wire: WireRows | None = None
    large: bool = False
    unload_timer: asyncio.TimerHandle | None = None
    recent: RecentEvents = field(default_factory=lambda: RecentEvents(0))
    failed: StoreError | None = None
    lost_error: StoreError | None = None
    last_byte: tuple[int, int] = (0, 0)

    @property
    def session(self) -> Session:
        assert self.folded is not None
        return self.folded

    def check_open(self) -> None:
        """Conflict if the session is deleted: nothing may run or change unseen. Refused if it is
        imported: it is read-only."""
        if self.deleted:
            raise Conflict("This session is deleted. Restore it first.")
        if not self.own:
            raise Refused("This session was imported. Press Continue here to fork it.")


class SessionStore:
    """`clock` returns Unix time in ms; `new_id` a new session id; `redactor` a redactor for the
    currently known secrets."""

    def __init__(
        self,
        log: Log,
        clock: Callable[[], int],
        new_id: Callable[[], str],
        redactor: Callable[[], Redactor] = Redactor,
    ) -> None:
        self.log = log
        self.clock = clock
        self._new_id = new_id
        self.redactor = redactor
        self._live: dict[str, LiveSession] = {}
        self._idle: OrderedDict[str, LiveSession] = OrderedDict()
        """Sessions without running work when they were released, the last released last."""
        self._listeners: dict[str, set[ChangeNotifier]] = {}
        self._list_timer: asyncio.TimerHandle | None = None
        self.epoch = uuid.uuid4().hex[:8]
        self.position = 0
        self._positions: OrderedDict[str, int] = OrderedDict()
        """Session id to the position of its last event, for the sessions that changed last."""
        self._position_of_others = 0
        """No session that is not in `_positions` has an event after this position."""
        self.list_version = 0
        self.marks_version = 0
        self.health = log.database.health
        self.health.watch(self.notify_list)
        log.on_lost = self._mark_lost
        self._owed: dict[str, tuple[Event, int]] = {}
        """Session id to an event that is in effect but not saved, and its time."""
        self._paying: set[asyncio.Task[None]] = set()
        self.late: set[str] = set()
        """Sessions of which something was saved with delay."""

    async def create(
        self,
        settings: Settings,
        title: str = "",
        tapped: Tapped | None = None,
        *,
        session_id: str = "",
        batch: str = "",
    ) -> str:
        """Creates a session: `tapped` if an agent runs it, a run of `batch` if that is an id.
        Returns its id, which the caller may have chosen."""
        async with self.new_session(title, session_id, batch) as live:
            await self.append(live, [SessionStarted(settings, tapped)])
        return live.id

    @asynccontextmanager
    async def new_session(
        self, title: str = "", session_id: str = "", batch: str = ""
    ) -> AsyncIterator[LiveSession]:
        """A new session, locked and without events; the first append creates it."""
        title, session_id = self.redactor().redact_text(title), session_id or self._new_id()
        live = LiveSession(session_id, title=title, created_ms=self.clock(), holders=1, batch=batch)
        live.folded = Session(live.id)
        self._live[live.id] = live
        try:
            async with live.lock:
                yield live
        finally:
            live.holders -= 1
            if live.folded is None or live.folded.settings is None:
                self._live.pop(live.id, None)
            else:
                self._trim(live)

    async def fork(
        self, live: LiveSession, cut: ForkPrefix, events: Sequence[Event], title: str
    ) -> str:
        """Creates a session from the events of `live` up to `cut`, followed by `events`; returns
        its id. The caller holds `live`, which stays unchanged."""
        child = LiveSession(self._new_id(), title=title, created_ms=self.clock())
        child.recent = RecentEvents(self.position)
        log = [logged for logged in await self.log.events_to_fold(live.id) if logged.seq <= cut.seq]
        child.folded = fold(child.id, log)
        copied = CopiedPart(live.id, cut.seq, len(child.folded.turns), called_tools(log))
        async with child.lock:
            await self.append(child, events, copied=copied)
        self._live.setdefault(child.id, child)
        self.notify_list()
        return child.id

    @asynccontextmanager
    async def lock_session(self, session_id: str) -> AsyncIterator[LiveSession]:
        """Locks the session; NotFound if there is none."""
        live = self._live.get(session_id)
        if live is None:
            live = self._live.setdefault(session_id, LiveSession(session_id))
        live.holders += 1
        try:
            async with live.lock:
                if live.folded is None or live.lost_error is not None:
                    await self._load(live)
                yield live
        finally:
            live.holders -= 1
            self._trim(live)
            if live.large:
                self._schedule_unload(live)

    async def append(
        self,
        where: LiveSession | str,
        events: Sequence[Event] | EventsOf,
        *,
        at_ms: int | None = None,
        sources: Sequence[Source] | None = None,
        times: Sequence[int] | None = None,
        chunks: Sequence[Chunk] = (),
        closed: ClosedRecording | None = None,
        copied: CopiedPart | None = None,
        then: Then | None = None,
    ) -> list[Logged]:
        """Masks, folds and saves `events`, all or none, as `durability` demands of them.

        `where` is a session that the caller has locked: StoreUnwritable if the database cannot be
        written; nothing has happened. Or it is the id of a session in which the events have
        happened already: this locks it, and tries again until they are saved; StoreUnwritable only
        when the program ends. An event that may be owed is in effect in any case.

        `events` may be a function of the locked session. `then` is called under the same lock.
        `sources` and `times` (Unix ms) have one entry for each event. IllegalEvent if an event
        cannot follow; StoreError if they could not be saved.
        """
        save = partial(
            self._append,
            events=events,
            at_ms=at_ms,
            sources=sources,
            times=times,
            chunks=chunks,
            closed=closed,
            copied=copied,
        )
        if isinstance(where, str):
            return await self._append_when_writable(where, save, then, is_late=bool(events))
        if not callable(events) and [durability(event) for event in events] == ["owed"]:
            logged = await self._append_or_owe(where, events[0], save)
        else:
            logged = await save(where)
        if then is not None:
            await then(where)
        return logged

    async def _append_when_writable(
        self,
        session_id: str,
        save: Callable[[LiveSession], Awaitable[list[Logged]]],
        then: Then | None,
        *,
        is_late: bool,
    ) -> list[Logged]:
        """Runs `save` and `then` under the session lock, which is free between two tries. The
        session counts as late after a failure, if `is_late`."""
        saved = False
        while True:
            try:
                async with self.lock_session(session_id) as live:
                    logged = await save(live)
                    saved = True
                    if then is not None:
                        await then(live)
                    return logged
            except StoreUnwritable:
                if is_late:
                    self.late.add(session_id)
                if saved or not await self.health.wait_for_retry():
                    raise

    async def _append(
        self,
        live: LiveSession,
        events: Sequence[Event] | EventsOf,
        at_ms: int | None,
        sources: Sequence[Source] | None = None,
        times: Sequence[int] | None = None,
        chunks: Sequence[Chunk] = (),
        closed: ClosedRecording | None = None,
        copied: CopiedPart | None = None,
    ) -> list[Logged]:
        assert live.own, "an imported session is read-only"
        error, live.failed = live.failed or live.lost_error, None
        if error is not None:
            raise error
        if live.id in self._owed:
            await self._pay(live)
        if callable(events):
            events = events(live)
        if not (events or chunks or closed or copied):
            return []
        now = self.clock() if at_ms is None else at_ms
        only_deltas = _are_deltas(events)
        if not only_deltas:
            redactor = self.redactor()
            events = [redact_event(event, redactor) for event in events]
        logged = _fold_in(live, events, now, sources, times)
        if not live.title:
            live.title = next((title_of(e.text) for e in events if isinstance(e, PromptAdded)), "")
        batch = WriteBatch(live.id, logged, chunks, closed=closed, copied=copied)
        if not only_deltas:
            session, title, created_ms = live.session, live.title, live.created_ms
            summary = summary_of(session, title, created_ms, own=live.own, batch=live.batch)
            full = any(durability(event) == "synced" for event in events)
            batch = replace(batch, summary=summary, full=full)
        elif closed is None and copied is None and self._may_wait(live.id):
            batch = replace(batch, may_wait=True)
        # What is folded must be saved before the lock is released, even if the caller is cancelled.
        await self._save(live, batch)
        return logged

    async def _append_or_owe(
        self,
        live: LiveSession,
        event: Event,
        save: Callable[[LiveSession], Awaitable[list[Logged]]],
    ) -> list[Logged]:
        """Appends `event`; if the database cannot be written, `event` is in effect nevertheless,
        and is saved before any other event of the session, as soon as possible."""
        at_ms = self.clock()
        if self.health.trouble is None:  # a Stop does not wait for another attempt
            try:
                if live.id not in self._owed:
                    return await save(live)
                await self._pay(live)
                return []
            except StoreUnwritable:
                await self._load(live)  # the caller goes on with it
        if live.id not in self._owed:
            self._owed[live.id] = event, at_ms
            paying = asyncio.create_task(self._pay_when_writable(live.id))
            self._paying.add(paying)
            paying.add_done_callback(self._paying.discard)
            self.notify_list()
        return []

    async def _pay(self, live: LiveSession) -> None:
        """Saves the event that the session owes: what follows depends on it."""
        event, at_ms = owed = self._owed.pop(live.id)
        try:
            await self._append(live, [event], at_ms=at_ms)
        except StoreError:
            self._owed[live.id] = owed
            raise

    async def _pay_when_writable(self, session_id: str) -> None:
        with suppress(NotFound, StoreError):  # at the end of the program, it stays unsaved
            await self.append(session_id, [])

    def owes(self, session_id: str = "") -> bool:
        """Whether this session ("": any) has an event that is in effect but not saved."""
        return session_id in self._owed if session_id else bool(self._owed)

    async def wire(self, live: LiveSession) -> WireRows:
        """The rows of the wire view, built from the recordings on first use."""
        if live.wire is None:
            wire, log = WireRows(), deque(await self.log.events(live.id))
            for turn in live.session.turns:
                async for chunks in self.log.portions(live.id, turn.number):
                    events = _take_events_until(log, chunks[-1])
                    await asyncio.to_thread(_follow, wire, events, chunks)  # does not block others
            _follow(wire, log, ())
            _follow(wire, *self.log.unwritten_data(live.id))  # what currently cannot be saved
            live.wire = wire
        return live.wire

    async def rename(self, live: LiveSession, title: str) -> None:
        live.title = self.redactor().redact_text(title)
        await self.log.rename(live.id, live.title)
        self.notify_list()

    async def delete(self, live: LiveSession, *, deleted: bool) -> None:
        await self.log.mark_deleted(live.id, self.clock() if deleted else None)
        live.deleted = deleted
        self.notify_list()

    async def purge(self, live: LiveSession) -> None:
        """Deletes a session in the bin permanently. Conflict if it is not in the bin, or still
        runs. The caller holds the lock; it cannot be locked afterwards."""
        if not live.deleted:
            raise Conflict("This session is not deleted. Delete it first, then purge it.")
        if live.session.state == "running":
            raise Conflict("Part of this session is still running. Try again when it has ended.")
        await finish_task(asyncio.create_task(purge(self.log.database, live.id)))
        live.folded = None
        if self._live.get(live.id) is live:
            del self._live[live.id]
        self.notify_list()

    @property
    def cursor(self) -> str:
        """The cursor for a page rendered now: epoch and position. An epoch ends with the program,
        or when events that were shown cannot be saved; cursors of other epochs are unknown."""
        return self.cursor_at(self.position)

    def cursor_at(self, position: int) -> str:
        """The cursor of a position in this epoch."""
        return f"{self.epoch}-{position}"

    def position_of(self, cursor: str) -> int:
        """The position of `cursor`, -1 if it is of another epoch."""
        epoch, _, position = cursor.partition("-")
        known = epoch == self.epoch and position.isascii() and position.isdigit()
        return int(position) if known and len(position) < 16 else -1

    def events_since(self, live: LiveSession, position: int) -> list[Logged] | None:
        """The session's events after `position`; None if they are no longer in memory."""
        return live.recent.events_since(position) if 0 <= position <= self.position else None

    def events_since_seq(self, live: LiveSession, seq: int) -> list[Logged] | None:
        """The session's events after event `seq`; None if they are not in memory."""
        events = live.recent.events_since_seq(seq)
        first = events[0].seq if events else live.session.seq + 1
        return events if first == seq + 1 else None

    @contextmanager
    def listen(self, *session_ids: str) -> Iterator[ChangeNotifier]:
        """A bell that rings on each event of one of the sessions ("": of any), and on each change
        that is not an event."""
        bell = ChangeNotifier()
        for session_id in session_ids:
            self._listeners.setdefault(session_id, set()).add(bell)
        try:
            yield bell
        finally:
            for session_id in session_ids:
                self._listeners[session_id].discard(bell)
                if not self._listeners[session_id]:
                    del self._listeners[session_id]

    async def wait(self, position: int, list_version: int, timeout_s: float) -> bool:
        """Waits for an event after `position` or a change of the list; False on time-out."""
        with self.listen("") as bell:
            if self.position > position or self.list_version > list_version:
                return True
            return await bell.wait(timeout_s)

    def notify_list(self) -> None:
        """The list of sessions (or a title, a mark, a rule) changed without an event."""
        self.list_version += 1
        self.marks_version += 1
        self._notify_all()

    def _notify_all(self) -> None:
        for bells in self._listeners.values():
            for bell in bells:
                bell.notify()

    def _note_list_change(self) -> None:
        """An event changed the list. Pages of other sessions are notified with delay."""
        self.list_version += 1
        if self._list_timer is None:
            self._notify_list_change()

    def _notify_list_change(self, known: int = -1) -> None:
        """Rings if the list has changed since version `known`; checks again after LIST_S."""
        self._list_timer = None
        if self.list_version > known:
            self._notify_all()
            later = asyncio.get_running_loop().call_later
            self._list_timer = later(LIST_S, self._notify_list_change, self.list_version)

    def _mark_lost(self, session_id: str, error: StoreError) -> None:
        """Deltas that were shown can never be saved: begins a new epoch, forgets all positions of
        the session so far, and makes the next append to it raise `error`."""
        self.epoch = uuid.uuid4().hex[:8]
        self.position += 1
        self._set_position(session_id)
        if (live := self._live.get(session_id)) is not None:
            live.failed = live.lost_error = error  # the current holder keeps its fold
        self._notify_all()

    async def _load(self, live: LiveSession) -> None:
        summary = await self.log.summary(live.id)
        if summary is None:
            if self._live.get(live.id) is live:
                del self._live[live.id]
            raise NotFound(f"There is no session {live.id!r}.")
        log = await self.log.events_to_fold(live.id)
        live.folded = _fold_log(live.id, log)
        live.large = any(_is_large(logged.event) for logged in log)
        if not summary.own:
            close_imported(live.folded)
        live.wire = None
        if not live.recent or live.lost_error is not None:
            start = self._positions.get(live.id, self._position_of_others)
            live.recent = RecentEvents(start)
        live.title, live.created_ms = summary.title, summary.created_ms
        live.deleted, live.own = summary.deleted, summary.own
        live.pinned, live.archived, live.tags = summary.pinned, summary.archived, summary.tags
        live.batch = summary.batch
        live.lost_error = None

    async def _save(self, live: LiveSession, batch: WriteBatch) -> None:
        """Saves even if the caller is cancelled; the cancellation is raised after that."""
        if large := any(_is_large(item.event) for item in batch.events):
            live.large = True
            give_back_free_memory()  # frees its pieces before it is written
        cancelled: asyncio.CancelledError | None = None
        try:
            writing = asyncio.ensure_future(self.log.append(batch))
            cancelled = await _wait_until_done(writing)
            writing.result()
        except StoreError:
            live.folded, live.failed = None, None  # raised by this append
            raise
        else:
            self._show(live, batch.events, batch.chunks)
            if batch.summary is not None:
                self._note_list_change()
            if large:
                give_back_free_memory()
        finally:
            if cancelled is not None:
                raise cancelled

    def _show(self, live: LiveSession, logged: Sequence[Logged], chunks: Sequence[Chunk]) -> None:
        """Shows folded events on the open pages of the session."""
        if live.wire is not None:
            _follow(live.wire, logged, chunks)
        if chunks:
            live.last_byte = chunks[-1].recording, chunks[-1].at_ms
        for item in logged:
            self.position += 1
            live.recent.append(self.position, item)
        self._set_position(live.id)
        for bell in (*self._listeners.get(live.id, ()), *self._listeners.get("", ())):
            bell.notify()

    def _set_position(self, session_id: str) -> None:
        self._positions[session_id] = self.position
        self._positions.move_to_end(session_id)
        if len(self._positions) > POSITIONS:
            _, self._position_of_others = self._positions.popitem(last=False)

    def _may_wait(self, session_id: str) -> bool:
        return self.health.trouble is None and self.log.unwritten_size(session_id) < DELTAS_WAIT

    def _schedule_unload(self, live: LiveSession) -> None:
        if live.unload_timer is not None:
            live.unload_timer.cancel()
        live.unload_timer = asyncio.get_running_loop().call_later(REST_S, self._unload, live)

    def _unload(self, live: LiveSession) -> None:
        """Unloads an idle session; its log has everything."""
        if not live.holders and live.folded is not None and live.folded.state != "running":
            live.folded = live.wire = None
            give_back_free_memory()

    def _trim(self, released: LiveSession) -> None:
        """Unloads idle sessions except the LIVE ones released last. Each is released often while
        many run, so this looks only at `released`."""
        if not _is_idle(released) or self._live.get(released.id) is not released:
            if self._idle.get(released.id) is released:
                del self._idle[released.id]
            return
        self._idle[released.id] = released
        self._idle.move_to_end(released.id)
        while len(self._idle) > LIVE:
            session_id, live = self._idle.popitem(last=False)
            if self._live.get(session_id) is live and _is_idle(live):
                del self._live[session_id]


def _fold_in(
    live: LiveSession,
    events: Sequence[Event],
    at_ms: int,
    sources: Sequence[Source] | None,
    times: Sequence[int] | None,
) -> list[Logged]:
    """Folds `events` into the session, all or none; returns them as logged."""
    session = live.session
    logged = [
        Logged(
            session.seq + 1 + place,
            times[place] if times is not None else at_ms,
            event,
            sources[place] if sources is not None else None,
        )
        for place, event in enumerate(events)
    ]
    for place, item in enumerate(logged):
        try:
            apply(session, item)
        except IllegalEvent:
            if place:  # the earlier ones are folded but not saved
                live.folded = None
            raise
    return logged


def _are_deltas(events: Iterable[Event]) -> bool:
    return all(durability(event) == "soon" for event in events)


def _is_idle(live: LiveSession) -> bool:
    """Whether the session is unused and nothing runs in it."""
    return not live.holders and (live.folded is None or live.folded.state != "running")


def now_ms() -> int:
    """Unix time in ms: the clock of all sessions except in tests."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    return uuid.uuid4().hex[:16]


def _is_large(event: Event) -> bool:
    return isinstance(event, PartEnded) and len(event.text) >= LARGE_TEXT


def _fold_log(session_id: str, log: Sequence[Logged]) -> Session:
    """StoreError if the log is invalid, for example written by another version."""
    try:
        return fold(session_id, log)
    except PlaygroundError as error:
        raise StoreError(f"The log of this session can no longer be read: {error}") from error


async def finish_task(task: asyncio.Task[T]) -> T:
    """Runs `task` to its end and returns its result; a cancellation is raised only then."""
    if (cancelled := await _wait_until_done(task)) is not None:
        task.exception()  # marks the exception as retrieved
        raise cancelled
    return task.result()


async def _wait_until_done(work: asyncio.Future[T]) -> asyncio.CancelledError | None:
    """Waits until `work` is done; returns the last cancellation during the wait, to be raised."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _follow(wire: WireRows, logged: Iterable[Logged], chunks: Sequence[Chunk]) -> None:
    """Feeds bytes and events in their original order."""
    waiting = deque(chunks)
    for item in logged:
        source = item.source
        while source is not None and waiting and _is_before(waiting[0], source):
            _feed(wire, waiting.popleft())
        wire.log(item)
    for chunk in waiting:
        _feed(wire, chunk)


def _take_events_until(log: deque[Logged], last: Chunk) -> list[Logged]:
    """Removes from `log` the events before the first one that needs bytes after `last`."""
    place, events = (last.recording, last.start + len(last.data)), list[Logged]()
    while log and ((at := log[0].source) is None or (at.recording, at.end) <= place):
        events.append(log.popleft())
    return events


def _is_before(chunk: Chunk, source: Source) -> bool:
    return (chunk.recording, chunk.start) < (source.recording, max(source.end, 1))


def _feed(wire: WireRows, chunk: Chunk) -> None:
    wire.feed(chunk.recording, chunk.at_ms, chunk.data)


class ChangeNotifier:
    """Rings when there may be something new; the next wait also notices an earlier ring."""

    def __init__(self) -> None:
        self._notified = False
        self._waiting: asyncio.Future[bool] | None = None

    def notify(self) -> None:
        self._notified = True
        self._wake()

    def clear(self) -> None:
        """Discards earlier rings."""
        self._notified = False

    async def wait(self, timeout_s: float) -> bool:
        """Waits for a ring, past or future; False on time-out. Only one task may wait."""
        if not self._notified:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            timer = loop.call_later(timeout_s, self._wake)
            try:
                await self._waiting
            finally:
                timer.cancel()
                self._waiting = None
        return self._notified

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(True)


# The last events of a session, from which streams of pages catch up -------------------------------


class RecentEvents:
    """The last events of a session with their positions, oldest first; always includes the very
    last, however large. Without byte spans, which no stream shows: a fast answer has hundreds of
    events, and the spans would take most of the memory."""

    def __init__(self, start: int) -> None:
        self._events: deque[tuple[int, int, Event]] = deque()  # seq, time, event
        self._positions = array("Q")  # the last ones belong to `_events`
        self._start = start  # all events after this position are present
        self._characters = 0

    def __len__(self) -> int:
        return len(self._events)

    def append(self, position: int, logged: Logged) -> None:
        events, positions = self._events, self._positions
        events.append((logged.seq, logged.at_ms, logged.event))
        positions.append(position)
        self._characters += _characters(logged.event)
        while len(events) > 1 and (
            len(events) > RECENT
            or self._characters > RECENT_CHARACTERS
            or (len(events) > FEW and events[0][1] < logged.at_ms - RECENT_MS)
        ):
            self._start = positions[-len(events)]
            self._characters -= _characters(events.popleft()[2])
        if len(positions) > 2 * len(events) + FEW:
            del positions[: -len(events)]

    def events_since(self, position: int) -> list[Logged] | None:
        """The events after `position`, or None if some of them were dropped."""
        if position < self._start:
            return None
        older = len(self._positions) - len(self._events)
        return self._last_events(
            len(self._positions) - bisect_right(self._positions, position, older)
        )

    def events_since_seq(self, seq: int) -> list[Logged]:
        """The events after event `seq` of the session, as far as present."""
        later = takewhile(lambda event: event[0] > seq, reversed(self._events))
        return self._last_events(sum(1 for _ in later))

    def _last_events(self, count: int) -> list[Logged]:
        last = [Logged(*event) for event in islice(reversed(self._events), count)]
        last.reverse()
        return last


def _characters(event: Event) -> int:
    match event:
        case PartDelta(text=text) | PartEnded(text=text):
            return len(text)
        case RequestSent(body=body):
            return len(body)
        case PromptAdded(text=text, images=images):
            return len(text) + sum(len(image.data) for image in images)
    return 0
