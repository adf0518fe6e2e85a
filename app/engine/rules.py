"""Rules in memory, and what decides a call by them without asking.

Three parts: `Policy` says what happens next by the rules of a session and by what a user denied;
`RuleStore` adds, edits, moves and deletes rules, and binds them to the tools they are for;
`parse_rule` reads one that a script or the form sent. What a rule means is core/rules.py. A
decision carries the words of its rule, so that deleting one rewrites nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.arguments import TESTS
from app.core.decide import Command, next_commands
from app.core.errors import BadInput, Conflict, NotFound
from app.core.faults import fault
from app.core.rule_proposals import Denials
from app.core.rules import ACTIONS, LETS_THROUGH, Rule, base_of, content, pointer_fault, rule_text
from app.core.serialization import to_data
from app.core.session import Call, Session
from app.core.tools import ANSWERED_BY, Tool
from app.engine.redaction import check_rule
from app.executors.run_with_limits import Executors
from app.secrets.redaction import Redactor
from app.store.library import Library
from app.store.log import Log

ALWAYS = ""
"""Stands for the list of rules that hold in every session."""

MOST_RULES = 200
MOST_DELETED = 50
"""Rules that can be had back after they were taken away."""

BIND_S = 5.0
"""How long it may take to tell what would answer a tool; then a rule is not bound to it."""


class RuleStore:
    """`clock` gives Unix time in ms; `new_id` a fresh id; `redactor` what knows the keys of this
    moment; `changed` is called after each change. `version` counts them."""

    def __init__(
        self,
        library: Library,
        executors: Executors,
        clock: Callable[[], int],
        new_id: Callable[[], str],
        redactor: Callable[[], Redactor] = Redactor,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._library = library
        self._executors = executors
        self._clock = clock
        self._new_id = new_id
        self._redactor = redactor
        self._changed = changed
        self._lists: dict[str, tuple[Rule, ...]] = {}
        self._deleted: dict[tuple[str, str], tuple[Rule, int, Sequence[Rule]]] = {}
        self._writing = asyncio.Lock()
        self.version = 0

    async def load(self) -> None:
        """Read them all; before anything runs."""
        self._lists = await self._library.rules()

    def of(self, session_id: str) -> tuple[Rule, ...]:
        """All that hold in a session, in the order in which they are asked."""
        return (*self._lists.get(session_id, ()), *self._lists.get(ALWAYS, ()))

    def listed(self, session_id: str) -> tuple[Rule, ...]:
        """Those of one list: a session's own, or ALWAYS."""
        return self._lists.get(session_id, ())

    def lend(self, session_id: str, rules: Sequence[Rule]) -> None:
        """`rules` are the session's own until they are forgotten; they are not saved."""
        self._lists[session_id] = tuple(replace(rule, here=session_id) for rule in rules)

    def forget(self, session_id: str) -> None:
        """A session that was purged has none, and rules that were lent are over."""
        self._lists.pop(session_id, None)

    def check(self, rules: Sequence[Rule]) -> None:
        """BadInput where they are too many for a list, or one holds a known key."""
        if len(rules) > MOST_RULES:
            raise BadInput(f"A list has at most {MOST_RULES} rules; send fewer.")
        redactor = self._redactor()
        for rule in rules:
            check_rule(rule, redactor)

    async def put(self, session_id: str, rules: Iterable[Rule], tools: Sequence[Tool]) -> None:
        """Make `rules` the session's own, bound to those of its `tools` that they are about."""
        now = self._clock()
        new = [replace(rule, id=self._new_id(), here=session_id, since_ms=now) for rule in rules]
        self.check(new)
        bound_rules = [await self.bound(rule, tools) for rule in new]
        async with self._writing:
            if bound_rules or self.listed(session_id):
                await self._keep(session_id, bound_rules)

    async def add(
        self,
        session_id: str,
        rule: Rule,
        tools: Sequence[Tool],
        place: int | None = None,
        seen: Mapping[str, Sequence[Rule]] | None = None,
    ) -> Rule:
        """Write one rule into a list, at `place` or at its end; the rule as it is kept. One that
        is bound already, to what a user saw, stays so. `seen` are the lists by which it was
        decided what is written and where.

        BadInput where the list is full, or the rule holds a known key; Conflict where a list is
        not the one that was seen any more.
        """
        self.check([rule])
        here = rule.here or session_id
        rule = replace(rule, id=self._new_id(), here=here, since_ms=self._clock())
        rule = await self.bound(rule, tools) if rule.bound is None else rule
        async with self._writing:
            if any(
                self.listed(place_of) != tuple(rules) for place_of, rules in (seen or {}).items()
            ):
                raise Conflict("The rules have changed meanwhile; look at the rule again.")
            await self._insert(session_id, rule, place)
        return rule

    async def delete(self, session_id: str, rule_id: str) -> Rule:
        """Take a rule away; the one that was there. It can be had back by `restore`.

        NotFound where it is gone.
        """
        async with self._writing:
            before = self.rule(session_id, rule_id)
            rules = self.listed(session_id)
            remaining = [rule for rule in rules if rule is not before]
            await self._keep(session_id, self._anew(session_id, remaining))
            while len(self._deleted) >= MOST_DELETED:
                del self._deleted[next(iter(self._deleted))]
            place = rules.index(before)
            self._deleted[session_id, rule_id] = (before, place, rules[place + 1 :])
        return before

    async def edit(
        self,
        session_id: str,
        rule_id: str,
        rule: Rule,
        tools: Sequence[Tool],
        *,
        base: str = "",
        enabled: bool | None = None,
    ) -> Rule:
        """`rule` in the place of one that is there, bound to `tools` as they are now; it is new,
        but for its id and the session it was written in. It holds or rests by `enabled`; None: as
        the one that was there. As it is kept.

        Conflict where that one is not the one that was read: that of `base`, or of this moment.
        """
        before = self.rule(session_id, rule_id)
        base = base or base_of(before)
        self.check([rule])
        new = await self.bound(replace(rule, bound=before.bound), tools)
        async with self._writing:
            now = self.rule(session_id, rule_id)
            if base_of(now) != base:
                sentence = f"The rule was changed meanwhile; it says “{rule_text(now)}” now"
                raise Conflict(f"{sentence}. Look at it again, and save again if yours is to hold.")
            on, now_ms = now.enabled if enabled is None else enabled, self._clock()
            new = replace(new, id=rule_id, here=now.here, since_ms=now_ms, enabled=on)
            return await self._exchange(session_id, now, new)

    async def switch(self, session_id: str, rule_id: str, enabled: bool) -> Rule:
        """Let a rule rest, or hold again; bound as it was. As it is kept."""
        async with self._writing:
            before = self.rule(session_id, rule_id)
            return await self._exchange(session_id, before, replace(before, enabled=enabled))

    async def renew(self, session_id: str, rule_id: str, tools: Sequence[Tool]) -> Rule:
        """Bind a rule to `tools` as they are now; as it is kept. Conflict where it was changed in
        the meantime."""
        before = self.rule(session_id, rule_id)
        rule = await self.bound(before, tools)
        async with self._writing:
            if self.rule(session_id, rule_id) is not before:
                raise Conflict("The rule was changed just now; look at it again.")
            return await self._exchange(session_id, before, rule)

    async def renew_for(
        self, into: str, rule_id: str, base: str, name: str, print_: str, session_id: str
    ) -> Rule:
        """Bind a rule of the list `into` to the one tool `name` whose content is `print_`, as a
        user saw it on a card of `session_id`, whose calls it may decide by that; as it is kept.
        Conflict where it is not the rule of `base` any more."""
        async with self._writing:
            before = self.rule(into, rule_id)
            if base_of(before) != base:
                raise Conflict("The rule was changed meanwhile; look at it again.")
            bound = {**(before.bound or {}), name: print_}
            return await self._exchange(into, before, replace(before, bound=bound), session_id)

    async def restore(self, session_id: str, rule_id: str) -> tuple[Rule, str]:
        """Put back what was taken away, in its place and bound as it was. Where it lets through,
        it comes after all that keeps back what it may be about and was written since; then a
        sentence says so, else "".

        NotFound where it is too long ago; BadInput where the list is full.
        """
        async with self._writing:
            deleted = self._deleted.get((session_id, rule_id))
            if deleted is None:
                raise NotFound("This rule is gone; add it again.")
            rule, place, after = deleted
            rules = self.listed(session_id)
            least = _restore_place(rule, place, after, rules)
            here = rule.here if session_id != ALWAYS else ""
            rule = replace(rule, since_ms=self._clock(), here=here)
            await self._insert(session_id, rule, least)
            del self._deleted[session_id, rule_id]
        if least == min(place, len(rules)):
            return rule, ""
        words = rules[least - 1].sentence
        return (
            rule,
            f"It stands after the rule “{words}” now, which keeps back what it may be about.",
        )

    async def hand(self, session_id: str, rule_id: str, other: str) -> Rule:
        """Take a rule out of one list and write it at the end of another, bound as it was."""
        async with self._writing:
            before = self.rule(session_id, rule_id)
            here = other or before.here or session_id
            rule = replace(before, here=here, since_ms=self._clock())
            # Into the other first: where writing fails, it stands in both, and holds no less.
            await self._insert(other, rule, None)
            remaining = [
                other_rule for other_rule in self.listed(session_id) if other_rule is not before
            ]
            await self._keep(session_id, self._anew(session_id, remaining))
        return rule

    async def move(self, session_id: str, rule_id: str, place: int) -> None:
        """Move a rule to `place` (from 0) in its list."""
        async with self._writing:
            rule = self.rule(session_id, rule_id)
            rules = [other for other in self.listed(session_id) if other is not rule]
            rules.insert(max(0, min(place, len(rules))), rule)
            await self._keep(session_id, self._anew(session_id, rules))

    def rule(self, session_id: str, rule_id: str) -> Rule:
        """NotFound where the list has none of that id."""
        match = next((rule for rule in self.listed(session_id) if rule.id == rule_id), None)
        if match is None:
            raise NotFound("This rule no longer exists; reload the page.")
        return match

    async def bound(self, rule: Rule, tools: Iterable[Tool]) -> Rule:
        """`rule` bound to those of `tools` that it is about, as they are at this moment; to one
        that is not among them as it was. No server is started or asked: a tool of one is bound as
        it was accepted. One of which it is not known what would answer is left out, and asks."""
        if rule.action not in LETS_THROUGH:
            return replace(rule, bound=None)
        tools = tuple(tools)
        here = {tool.name for tool in tools}
        elsewhere = {
            name: print_
            for name, print_ in (rule.bound or {}).items()
            if name not in here and rule.tool in ("*", name)
        }
        covered = [tool for tool in tools if rule.covers(tool)]
        codes = await asyncio.gather(*(self._code(tool) for tool in covered))
        pairs = zip(covered, codes, strict=True)
        known = {tool.name: content(tool, code) for tool, code in pairs if code is not None}
        return replace(rule, bound=elsewhere | known)

    async def holding(
        self, rules: Sequence[Rule], tools: Sequence[Tool]
    ) -> list[Mapping[str, str] | None]:
        """How each rule's binding stands to `tools` now, by their names: "same", "changed", "new"
        (it came later, and asks) or "gone"; None for a rule that is not bound."""
        bound = [rule for rule in rules if rule.bound is not None]
        about = [tool for tool in tools if any(rule.covers(tool) for rule in bound)]
        codes = await asyncio.gather(*(self._code_now(tool) for tool in about))
        now = {
            tool.name: None if code is None else content(tool, code)
            for tool, code in zip(about, codes, strict=True)
        }
        return [_binding_states(rule, tools, now) for rule in rules]

    async def _code(self, tool: Tool) -> str | None:
        """What answers beyond the tool; None where that cannot be known in time."""
        try:
            async with asyncio.timeout(BIND_S):
                return await self._executors.accepted_code(tool)
        except TimeoutError:
            return None

    async def _code_now(self, tool: Tool) -> str | None:
        """The same by what an open connection knows, where there is one."""
        try:
            async with asyncio.timeout(BIND_S):
                checked = await self._executors.known("", tool, "{}")
        except TimeoutError:
            return None
        return checked.code if checked is not None else await self._code(tool)

    async def _exchange(self, session_id: str, before: Rule, rule: Rule, here: str = "") -> Rule:
        """`rule` in the place of `before`; in the session `here` it may decide what waits."""
        rules = self.listed(session_id)
        changed = self._anew(session_id, (rule if old is before else old for old in rules))
        place = rules.index(before)
        changed[place] = replace(changed[place], here=here or changed[place].here)
        await self._keep(session_id, changed)
        return changed[place]

    async def _insert(self, session_id: str, rule: Rule, place: int | None) -> None:
        rules = list(self.listed(session_id))
        if len(rules) >= MOST_RULES:
            raise BadInput(f"There are {MOST_RULES} rules already; delete some first.")
        rules.insert(len(rules) if place is None else place, rule)
        await self._keep(session_id, rules)

    def _anew(self, session_id: str, rules: Iterable[Rule]) -> list[Rule]:
        """The rules of a changed list. What one rule kept from the next is not kept now: in other
        sessions, whose page nobody may see, no call that waits is decided by that. In that for
        always this ends what a rule may decide of the session it was written in."""
        if session_id != ALWAYS:
            return list(rules)
        return [replace(rule, since_ms=self._clock(), here="") for rule in rules]

    async def _keep(self, session_id: str, rules: Sequence[Rule]) -> None:
        await self._library.save_rules(session_id, rules, self._clock())
        self._lists[session_id] = tuple(rules)
        self.version += 1
        self._changed()


def _restore_place(rule: Rule, place: int, after: Sequence[Rule], rules: Sequence[Rule]) -> int:
    """Where in `rules` one that stood at `place`, before `after`, may stand again. What was
    written, changed or moved since is asked before it, if it keeps back what it may be about."""
    place = min(place, len(rules))
    if rule.action not in LETS_THROUGH:
        return place
    known = {(rule.id, rule.enabled, base_of(rule)) for rule in after}
    since = (
        number
        for number, other in enumerate(rules, 1)
        if other.action not in LETS_THROUGH
        and (other.id, other.enabled, base_of(other)) not in known
        and ("*" in (other.tool, rule.tool) or other.tool == rule.tool)
    )
    return max(place, *since, 0)


def _binding_states(
    rule: Rule, tools: Sequence[Tool], now: Mapping[str, str | None]
) -> Mapping[str, str] | None:
    if rule.bound is None:
        return None
    covered = [tool.name for tool in tools if rule.covers(tool)]
    states = {
        name: "gone" if name not in covered else "same" if now[name] == print_ else "changed"
        for name, print_ in rule.bound.items()
    }
    return states | {name: "new" for name in covered if name not in rule.bound}


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

    async def commands(self, session: Session, checking: int = 0) -> list[Command]:
        """What happens next, by the rules of this moment; `checking` calls are being checked."""
        await self.know_all(session)
        return next_commands(session, self.of(session.id), self.denials.has, checking)

    def denied(self, call: Call) -> None:
        """A user has denied the call."""
        self.denials.add(call.name, [call.written])

    def _asked(self, session_id: str) -> set[str]:
        rules = self.of(session_id)
        return {rule.tool for rule in rules if rule.proposed and rule.enabled} - self._known


# Reading a rule in the words of docs/contract.md: what is wrong with one that is invalid, or that
# could never match.

MOST_WORDS = 4_000
MOST_TEXT = 100_000
MOST_GLOB = 300
"""Characters of a pattern: a text is read up to so many times to tell whether it fits."""

MOST_WHEN = 100_000
"""Bytes of a rule's tests as JSON."""


def parse_rule(data: Any) -> Rule:
    """A rule in the words of docs/contract.md; BadInput says what is wrong."""
    known = {*_TEXTS, *_TRUTHS, "action", "when"}
    if not isinstance(data, Mapping) or not {"tool", "action"} <= data.keys() <= known:
        raise BadInput(
            "rules must be a list of objects with tool and action, and "
            f"{', '.join(sorted(known - {'tool', 'action'}))} at most."
        )
    for name in _TEXTS & data.keys():
        most = MOST_TEXT if name == "text" else MOST_WORDS
        if not isinstance(data[name], str) or len(data[name]) > most:
            raise BadInput(f"The {name} of a rule must be a text of at most {most:,} characters.")
    if not data["tool"] or not data["tool"].isprintable():
        raise BadInput("The tool of a rule is the name of a tool, or * for every tool.")
    _check_source(data.get("source", ""))
    for name in _TRUTHS & data.keys():
        if not isinstance(data[name], bool):
            raise BadInput(f"{name} of a rule must be true or false.")
    if data["action"] not in ACTIONS:
        raise BadInput(f"A rule's action is one of {', '.join(ACTIONS)}.")
    rule = Rule(**{**data, "when": _when(data.get("when", {}))})
    _check_fault(rule)
    return rule


_TEXTS = {"tool", "text", "words", "source", "fault"}
_TRUTHS = {"read_only", "is_error", "enabled"}
assert {*_TEXTS, *_TRUTHS} <= Rule.__annotations__.keys()


def _check_source(source: str) -> None:
    """One that no tool can come from would make a rule that never holds."""
    kind, colon, server = source.partition(":")
    if source and (kind not in ANSWERED_BY or (colon and (kind != "mcp" or not server))):
        raise BadInput(
            f"The source of a rule is one of {', '.join(ANSWERED_BY)}, or mcp:SERVER; "
            f"{source[:80]!r} is none."
        )


def _when(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or len(value) > 20:
        raise BadInput("when is an object of at most 20 tests: a JSON pointer, and a test for it.")
    for pointer, test in value.items():
        if message := pointer_fault(pointer):
            raise BadInput(message)
        if isinstance(test, Mapping) and len(test) == 1:
            ((name, wanted),) = test.items()
            text = name in ("prefix", "glob") and not isinstance(wanted, str)
            if text or (name == "one_of" and not isinstance(wanted, list)):
                kind = "a text" if text else "a list"
                raise BadInput(f"The test {name} at {pointer} needs {kind}.")
            if name == "one_of" and not wanted:
                raise BadInput(
                    f"The test one_of at {pointer} needs a value; none fits an empty list."
                )
            if name == "prefix" and not wanted:
                raise BadInput(
                    f"Every text begins with an empty one; leave out the test at {pointer}."
                )
            if name == "glob" and len(wanted) > MOST_GLOB:
                raise BadInput(
                    f"The pattern at {pointer} has more than {MOST_GLOB} characters; shorten it."
                )
            if name in TESTS:
                continue
        if isinstance(test, Mapping):
            raise BadInput(f"A test is one of {', '.join(TESTS)}; at {pointer} there is none.")
    try:
        size = len(json.dumps(to_data(value)))
    except RecursionError:
        size = MOST_WHEN + 1
    if size > MOST_WHEN:
        raise BadInput(f"The tests of a rule have at most {MOST_WHEN:,} bytes; compare with less.")
    return dict(value)


def _check_fault(rule: Rule) -> None:
    if not rule.fault:
        return
    row = fault(rule.fault)
    if row is None:
        raise BadInput(f"There is no fault {rule.fault!r}.")
    fitting = "run" if row.runs else "answer"
    if rule.action != fitting:
        raise BadInput(f"{row.title} is staged by a rule whose action is {fitting}.")
    if not row.runs and (rule.text or rule.is_error):
        raise BadInput(f"{row.title} is the whole answer; leave out text and is_error beside it.")
