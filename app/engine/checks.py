"""Calls that are looked at before they are decided: outside of the session's lock, side by side.

An executor may have to ask a slow server; nobody who stops or reads the session waits for that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from app.core.decide import asks, repeats
from app.core.digests import digest
from app.core.errors import Conflict
from app.core.events import CallChecked, CallReturned, Problem
from app.core.rules import first_match, unbound
from app.core.state import Call, Session
from app.engine.calls import Tended
from app.engine.decisions import outcome
from app.engine.hub import Hub, Live
from app.engine.ruling import Ruling
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

SOON_S = 2.0
"""How long it may take to look again at what answers a call that is about to begin."""


class Checks:
    """`follow` does what follows from a check, in one hold with it: nobody sees a call wait for a
    person that a rule decides."""

    def __init__(
        self, hub: Hub, executors: Executors, tended: Tended, follow: Follow, ruling: Ruling
    ) -> None:
        self._ruling = ruling
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

    async def refuse_changed(self, live: Live, call_id: str, checked: Checked) -> None:
        """Conflict, and a card with a new digest, where what would answer is not what was seen.

        What follows from the new look is done at once: a rule may decide the call as it is now."""
        call = live.session.call(call_id)
        if checked.code != call.code:
            await self._hub.append(live, [event_of(live.session, call, checked, self._ruling)])
            await self._then(live)
            raise Conflict(
                "What answers this tool has changed since this card was drawn; look at the call "
                "again.",
                outcome(call),
            )

    async def outdated(self, live: Live, call_id: str) -> bool:
        """Whether what answers a call is not what a rule decided it on, for it was held behind
        others meanwhile: then the decision is taken back. Where it cannot be told at once what
        answers, the executor looks, and fails rather than run another."""
        call = live.session.call(call_id)
        made = call.decided
        if call.tool is None or made is None or made.by != "rule":
            return False
        try:
            async with asyncio.timeout(SOON_S):
                found = await self._executors.known(live.id, call.tool, call.arguments)
        except TimeoutError:
            return False
        if found is None or found.code == call.code:
            return False
        why = f"What answers {call.name} has changed since the rule “{made.rule}” decided the call."
        await self._hub.append(live, [CallReturned(call_id, "rule", why)])
        await self._hub.append(live, [event_of(live.session, call, found, self._ruling)])
        return True

    async def again(self, session_id: str, rule_id: str) -> None:
        """Look anew at the calls that wait only because what answers them is not what the rule is
        bound to: by now it may be. What follows from that is done."""
        async with self._hub.holding(session_id) as live:
            rules = self._ruling.of(session_id)
            calls = [
                call
                for call in live.session.current_calls
                if call.status == "waiting"
                and (rule := first_match(rules, call)) is not None
                and rule.id == rule_id
                and unbound(rule, call)
            ]
        looked = await asyncio.gather(*(self.asked(session_id, one) for one in calls))
        async with self._hub.holding(session_id) as live:
            for before, checked in zip(calls, looked, strict=True):
                call = live.session.call(before.id)
                waits = call.status == "waiting" and call in live.session.current_calls
                if waits and not live.session.stopped and checked.code != call.code:
                    await self._ruling.know_all(live.session)
                    event = event_of(live.session, call, checked, self._ruling)
                    await self._hub.append(live, [event])
            await self._then(live)

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
                await self._ruling.know_all(session)
                checked = event_of(session, call, _said(call_id, work), self._ruling)
                await self._hub.append(live, [checked])
                await self._then(live)


def _said(call_id: str, work: asyncio.Future[Checked]) -> Checked:
    """What the check came to; one that broke is a bug, and only a person runs the call then."""
    if (error := work.exception()) is None:
        return work.result()
    log.error("The check of call %s broke.", call_id, exc_info=error)
    return Checked(problems=(_BROKEN,))


def event_of(session: Session, call: Call, checked: Checked, ruling: Ruling) -> CallChecked:
    """All that is to be said of the call, by its schema, executor, session and the rules."""
    unsaid = call.part.meta.get("empty") and call.judged == call.written
    raw = "" if unsaid else call.judged
    problems = (*verdict(call.tool, call.name, raw), *checked.problems)
    if repeats(session, call):
        problems += (_REPEATED,)
    seen = digest(session, call, checked.code)
    event = CallChecked(call.id, problems, checked.parallel_safe, seen, checked.code)
    rules = ruling.of(session.id)
    return replace(event, asks=asks(session, call, event, rules, ruling.denials.has))


_BROKEN = Problem(
    "caution", "This program could not check who answers this call; its log says why. Look twice."
)

_REPEATED = Problem("note", "The same call with the same arguments was made in the last two turns.")
