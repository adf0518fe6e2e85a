"""What decides without a person: the rules of a session, and what a person denied in any."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.core.decide import Command, next_commands
from app.core.rule_proposals import Denials
from app.core.rules import Rule
from app.core.session import Call, Session
from app.store.log import Log

RulesOf = Callable[[str], Sequence[Rule]]
"""The rules of a session, in the order in which they are asked."""

MOST_DENIED = 10_000
"""How many denials of a tool are read from the log, the newest; those of this run are all kept."""


class Policy:
    """`of` gives the rules of a session. Denials are read from `log` where a rule asks for them."""

    def __init__(self, of: RulesOf, log: Log) -> None:
        self.of = of
        self.denials = Denials()
        self._log = log
        self._known: set[str] = set()

    async def know(self, name: str) -> None:
        """Read what was denied of the tool `name`."""
        if name not in self._known:
            self.denials.add(name, await self._log.denied_calls(name, limit=MOST_DENIED))
            self._known.add(name)

    async def know_all(self, session: Session) -> None:
        """Read what a rule that the program proposed may ask of a call."""
        while asked := self._asked(session.id):
            for name in asked:
                await self.know(name)

    async def commands(self, session: Session) -> list[Command]:
        """What happens next, by the rules of this moment."""
        await self.know_all(session)
        return next_commands(session, self.of(session.id), self.denials.has)

    def denied(self, call: Call) -> None:
        """A person has denied the call."""
        self.denials.add(call.name, [call.written])

    def _asked(self, session_id: str) -> set[str]:
        rules = self.of(session_id)
        return {rule.tool for rule in rules if rule.proposed and rule.enabled} - self._known
