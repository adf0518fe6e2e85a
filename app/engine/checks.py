"""Calls that are looked at before they are decided: outside of the session's lock, side by side.

An executor may have to ask a slow server; nobody who stops or reads the session waits for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from app.core.decide import asks, repeats
from app.core.digests import digest
from app.core.events import CallChecked, Problem
from app.core.rules import Rule
from app.core.state import Call, Session
from app.engine.calls import Tended
from app.engine.hub import Hub, Live
from app.executors.executor import Checked
from app.executors.table import Executors
from app.schema.verdict import verdict

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checking:
    """A check under way: `work` can be cancelled, `task` writes down what it found."""

    task: asyncio.Future[None]
    work: asyncio.Future[Checked]


Follow = Callable[[Live], Awaitable[None]]
RulesOf = Callable[[str], Sequence[Rule]]
"""The rules of a session, in the order in which they are asked."""


class Checks:
    """`follow` does what follows from a check, in one hold with it: nobody sees a call wait for a
    person that a rule decides."""

    def __init__(
        self, hub: Hub, executors: Executors, tended: Tended, follow: Follow, rules: RulesOf
    ) -> None:
        self._rules = rules
        self._hub = hub
        self._executors = executors
        self._tended = tended
        self._then = follow
        self._open: dict[tuple[str, str], Checking] = {}

    def start(self, live: Live, call_id: str) -> None:
        """Check a call that is proposed."""
        call, key = live.session.call(call_id), (live.id, call_id)
        work = asyncio.ensure_future(self.asked(live.id, call))
        follow = self._follow(live.id, call_id, work)
        tended = self._tended(live.id, follow, lambda: self._open.pop(key))
        self._open[key] = Checking(asyncio.ensure_future(tended), work)

    async def asked(self, session_id: str, call: Call) -> Checked:
        """What the executor says of a call; nobody need hold the session."""
        return await self._executors.checked(session_id, call.tool, call.arguments)

    def under_way(self, session_id: str, call_id: str) -> bool:
        return (session_id, call_id) in self._open

    def end(self, session_id: str) -> list[asyncio.Future[None]]:
        """Begin to end the session's checks; what is returned is done when they are over. Their
        calls stay proposed: who goes on checks them anew."""
        ended = [one for (session, _), one in self._open.items() if session == session_id]
        for one in ended:
            one.work.cancel()
        return [one.task for one in ended]

    @property
    def sessions(self) -> set[str]:
        return {session for session, _ in self._open}

    async def _follow(self, session_id: str, call_id: str, work: asyncio.Future[Checked]) -> None:
        await asyncio.wait([work])
        if work.cancelled():
            return
        async with self._hub.holding(session_id) as live:
            session = live.session
            call = session.call(call_id)
            if call.status == "proposed" and call in session.current_calls and not session.stopped:
                rules = self._rules(session_id)
                checked = event_of(session, call, _said(call_id, work), rules)
                await self._hub.append(live, [checked])
                await self._then(live)


def _said(call_id: str, work: asyncio.Future[Checked]) -> Checked:
    """What the check came to; one that broke is a bug, and only a person runs the call then."""
    if (error := work.exception()) is None:
        return work.result()
    log.error("The check of call %s broke.", call_id, exc_info=error)
    return Checked(problems=(_BROKEN,))


def event_of(
    session: Session, call: Call, checked: Checked, rules: Sequence[Rule] = ()
) -> CallChecked:
    """All that is to be said of the call, by its schema, its executor, its session and `rules`."""
    unsaid = call.part.meta.get("empty") and call.judged == call.written
    raw = "" if unsaid else call.judged
    problems = (*verdict(call.tool, call.name, raw), *checked.problems)
    if repeats(session, call):
        problems += (_REPEATED,)
    seen = digest(session, call, checked.code)
    event = CallChecked(call.id, problems, checked.parallel_safe, seen, checked.code)
    return replace(event, asks=asks(session, call, event, rules))


_BROKEN = Problem(
    "caution", "This program could not check who answers this call; its log says why. Look twice."
)

_REPEATED = Problem("note", "The same call with the same arguments was made in the last two turns.")
