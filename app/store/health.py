"""Whether the database can be written, as its last write told; and who waits until it can."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Any

from app.core.errors import StoreGone, StoreUnwritable

log = logging.getLogger("playground")

PROBE_S = 1.0
"""How often a database that could not be written is tried again, in seconds."""
CALM_S = 5.0
"""So long must all writes have worked, in seconds, until nothing is said of those that failed."""


class Health:
    """`trouble` is why nothing can be written now, None while all is well. `told` is the same for
    who reads it: it stays for a while, for on a disk that is nearly full writes fail and succeed in
    turns; `unsteady` is whether one has succeeded meanwhile. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.trouble: StoreUnwritable | None = None
        self.told: StoreUnwritable | None = None
        self.unsteady = False
        self._well_since = 0.0
        self._well = asyncio.Event()
        self._well.set()
        self._troubled = asyncio.Event()
        self._watching: list[Callable[[], object]] = []
        self._ending = False

    def watch(self, told: Callable[[], object]) -> None:
        """`told` is called whenever `trouble`, or what is told of it, has become another."""
        self._watching.append(told)

    def failed(self, trouble: StoreUnwritable) -> None:
        """A write failed for a reason that passes."""
        if self.trouble is None:
            log.warning("Nothing can be saved: %s", trouble)
        if str(self.trouble) != str(trouble):
            self._become(trouble)

    def worked(self) -> None:
        """A write was committed."""
        if self.trouble is not None:
            log.warning("The database can be written again.")
            self._become(None)

    def look(self) -> None:
        """Called now and then: what passed long enough ago is told no more."""
        passed = self.trouble is None and self.clock() - self._well_since >= CALM_S
        if self.told is not None and passed:
            self._tell(None, unsteady=False)

    def _become(self, trouble: StoreUnwritable | None) -> None:
        before, self.trouble = self.trouble, trouble
        for now, event in ((trouble is None, self._well), (trouble is not None, self._troubled)):
            (event.set if now else event.clear)()
        if trouble is not None:
            self._tell(trouble, unsteady=self.unsteady)
        elif isinstance(before, StoreGone):  # nobody deletes it in turns
            self._tell(None, unsteady=False)
        else:
            self._well_since = self.clock()
            self._tell(self.told, unsteady=True)

    def _tell(self, told: StoreUnwritable | None, *, unsteady: bool) -> None:
        self.told, self.unsteady = told, unsteady
        for watching in self._watching:
            watching()

    def end(self) -> None:
        """The program ends: nobody waits any longer."""
        self._ending = True
        self._well.set()

    async def again(self, pause_s: float = PROBE_S) -> bool:
        """Wait until another try to write makes sense: until all is well, or where it is (whoever
        failed did not fail here) for `pause_s` seconds. False where the program ends, and nothing
        is waited for any more."""
        if self._ending:
            return False
        if self.trouble is None:
            await asyncio.sleep(pause_s)
        else:
            await self._well.wait()
        return True

    async def or_trouble(self, tasks: Collection[asyncio.Future[Any]]) -> None:
        """Until all `tasks` are done; but no longer than all is well, for what they have still to
        write down waits for that. At the end of the program nothing does."""
        if self._ending:
            await asyncio.wait(tasks)
            return
        done = asyncio.ensure_future(asyncio.wait(tasks))
        troubled = asyncio.ensure_future(self._troubled.wait())
        try:
            await asyncio.wait([done, troubled], return_when=asyncio.FIRST_COMPLETED)
        finally:
            done.cancel()
            troubled.cancel()
