"""Rules in memory, and decisions by rule.

`Policy` computes what happens next from the rules of a session and the user's denials; `RuleStore`
adds, edits, moves and deletes rules and binds them to their tools; `parse_rule` reads a rule from a
script or the form. core/rules.py defines what a rule means. A decision stores the words of its
rule, so deleting a rule changes no log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from playground.core.arguments import TESTS
from playground.core.decide import Command, next_commands
from playground.core.errors import BadInput, Conflict, NotFound
from playground.core.events import Tapped
from playground.core.faults import fault
from playground.core.json_values import MOST_DEEP, is_deeper
from playground.core.rule_proposals import Denials
from playground.core.rules import (
    ACTIONS,
    LETS_THROUGH,
    Rule,
    base_of,
    content_hash,
    pointer_fault,
    rule_text,
)
from playground.core.serialization import to_data
from playground.core.session import Call, Session
from playground.core.tools import ANSWERED_BY, Tool
from playground.engine.redaction import check_rule
from playground.executors.run_with_limits import Executors
from playground.secrets.redaction import Redactor
from playground.store.library import Library
from playground.store.log import Log

ALWAYS = ""
"""The list of rules for all sessions."""

MOST_RULES = 200
MOST_DELETED = 50
"""How many deleted rules can be restored."""

BIND_S = 5.0
"""Time limit to find out the executor of a tool; after that a rule is not bound to it."""

MOST_DENIED = 10_000
"""How many denials of a tool are read from the log, the newest; this process's are all kept."""

MOST_WORDS = 4_000
MOST_TEXT = 100_000

MOST_GLOB = 300
"""Characters of a pattern: matching reads a text up to so many times."""

MOST_WHEN = 100_000
"""Bytes of a rule's conditions as JSON."""

_TEXTS = {"tool", "text", "words", "source", "fault"}
_TRUTHS = {"read_only", "is_error", "enabled"}


class RuleStore:
    """`clock` returns Unix time in ms; `new_id` a new id; `redactor` a redactor for the current
    keys; `changed` is called after each change. `version` counts changes."""

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
        self._parents: dict[str, str] = {}
        self._deleted: dict[tuple[str, str], tuple[Rule, int, Sequence[Rule]]] = {}
        self._writing = asyncio.Lock()
        self.version = 0

    async def load(self) -> None:
        """Loads all rules; call before anything runs."""
        self._lists = await self._library.rules()

    def rules_of(self, session_id: str) -> tuple[Rule, ...]:
        """All rules of a session, in the order of evaluation: its own, those of the sessions whose
        rules it inherits, and those for all."""
        own: list[Rule] = []
        seen: set[str] = set()
        while session_id and session_id not in seen:
            seen.add(session_id)
            own += self._lists.get(session_id, ())
            session_id = self._parents.get(session_id, "")
        return (*own, *self._lists.get(ALWAYS, ()))

    def inherit(self, session_id: str, tapped: Tapped | None) -> None:
        """An agent's session also has the rules of the one from which it was started: a request on
        the side must not escape them."""
        if tapped is not None and tapped.parent:
            self._parents[session_id] = tapped.parent

    def may_hold(self) -> bool:
        """Whether any rule, of whichever session, asks, denies, answers or stops."""
        lists = self._lists.values()
        return any(rule.enabled and rule.action != "run" for rules in lists for rule in rules)

    def rule_list(self, session_id: str) -> tuple[Rule, ...]:
        """One list: a session's own rules, or ALWAYS."""
        return self._lists.get(session_id, ())

    def set_temporary(self, session_id: str, rules: Sequence[Rule]) -> None:
        """Makes `rules` the session's own until `forget`; they are not saved."""
        self._lists[session_id] = tuple(replace(rule, here=session_id) for rule in rules)

    def forget(self, session_id: str) -> None:
        """Drops the session's rules: after a purge, or to end `set_temporary`."""
        self._lists.pop(session_id, None)
        self._parents.pop(session_id, None)

    def check(self, rules: Sequence[Rule]) -> None:
        """BadInput if there are too many for a list, or one holds a known key."""
        if len(rules) > MOST_RULES:
            raise BadInput(f"A list has at most {MOST_RULES} rules. Send fewer.")
        redactor = self._redactor()
        for rule in rules:
            check_rule(rule, redactor)

    async def put(self, session_id: str, rules: Iterable[Rule], tools: Sequence[Tool]) -> None:
        """Makes `rules` the session's own, bound to those of `tools` that they match."""
        now = self._clock()
        new = [replace(rule, id=self._new_id(), here=session_id, since_ms=now) for rule in rules]
        self.check(new)
        bound_rules = [await self.bind(rule, tools) for rule in new]
        async with self._writing:
            if bound_rules or self.rule_list(session_id):
                await self._keep(session_id, bound_rules)

    async def add(
        self,
        session_id: str,
        rule: Rule,
        tools: Sequence[Tool],
        place: int | None = None,
        seen: Mapping[str, Sequence[Rule]] | None = None,
    ) -> Rule:
        """Adds a rule to a list, at `place` or at the end; returns it as stored. An existing
        binding, to what a user saw, is kept. `seen` are the lists on which the rule and its place
        were based.

        BadInput: the list is full, or the rule holds a known key. Conflict: a list in `seen` has
        changed.
        """
        self.check([rule])
        here = rule.here or session_id
        rule = replace(rule, id=self._new_id(), here=here, since_ms=self._clock())
        rule = await self.bind(rule, tools) if rule.bound is None else rule
        async with self._writing:
            if any(
                self.rule_list(place_of) != tuple(rules) for place_of, rules in (seen or {}).items()
            ):
                raise Conflict("The rules have changed in the meantime. Check the rule again.")
            await self._insert(session_id, rule, place)
        return rule

    async def delete(self, session_id: str, rule_id: str) -> Rule:
        """Deletes and returns a rule; `restore` undoes it.

        NotFound: it no longer exists.
        """
        async with self._writing:
            before = self.rule(session_id, rule_id)
            rules = self.rule_list(session_id)
            remaining = [rule for rule in rules if rule is not before]
            await self._keep(session_id, self._restart_rules(session_id, remaining))
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
        """Replaces a rule by `rule`, bound to the current `tools`; only the id and the session it
        was written in are kept. `enabled` None keeps that flag too. Returns the rule as stored.

        Conflict: the rule is not the one that was read, which is `base`, or by default the current
        one.
        """
        before = self.rule(session_id, rule_id)
        base = base or base_of(before)
        self.check([rule])
        new = await self.bind(replace(rule, bound=before.bound), tools)
        async with self._writing:
            now = self.rule(session_id, rule_id)
            if base_of(now) != base:
                sentence = f"The rule was changed in the meantime. It is now “{rule_text(now)}”"
                raise Conflict(f"{sentence}. Check it, and save again to replace it with yours.")
            on, now_ms = now.enabled if enabled is None else enabled, self._clock()
            new = replace(new, id=rule_id, here=now.here, since_ms=now_ms, enabled=on)
            return await self._exchange(session_id, now, new)

    async def switch(self, session_id: str, rule_id: str, enabled: bool) -> Rule:
        """Enables or disables a rule, keeping its binding. Returns it as stored."""
        async with self._writing:
            before = self.rule(session_id, rule_id)
            return await self._exchange(session_id, before, replace(before, enabled=enabled))

    async def renew(self, session_id: str, rule_id: str, tools: Sequence[Tool]) -> Rule:
        """Binds a rule to the current `tools`; returns it as stored. Conflict if it was changed
        since it was read."""
        before = self.rule(session_id, rule_id)
        rule = await self.bind(before, tools)
        async with self._writing:
            if self.rule(session_id, rule_id) is not before:
                raise Conflict("The rule was just changed. Check it again.")
            return await self._exchange(session_id, before, rule)

    async def renew_for(
        self, into: str, rule_id: str, base: str, name: str, print_: str, session_id: str
    ) -> Rule:
        """Binds a rule of the list `into` to the single tool `name` with content hash `print_`, as
        a user saw it on a card of `session_id`, so it may decide calls of that session; returns it
        as stored. Conflict if it is no longer the rule `base`."""
        async with self._writing:
            before = self.rule(into, rule_id)
            if base_of(before) != base:
                raise Conflict("The rule was changed in the meantime. Check it again.")
            bound = {**(before.bound or {}), name: print_}
            return await self._exchange(into, before, replace(before, bound=bound), session_id)

    async def restore(self, session_id: str, rule_id: str) -> tuple[Rule, str]:
        """Restores a deleted rule, at its place and with its binding. A rule that lets calls
        through goes after all rules written since that may hold back the same calls; then a
        sentence says so, else "".

        NotFound: deleted too long ago. BadInput: the list is full.
        """
        async with self._writing:
            deleted = self._deleted.get((session_id, rule_id))
            if deleted is None:
                raise NotFound("This rule no longer exists. Add it again.")
            rule, place, after = deleted
            rules = self.rule_list(session_id)
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
            f"It is now after the rule “{words}”, which also applies to some of its calls and "
            "holds them back.",
        )

    async def move_to_list(self, session_id: str, rule_id: str, other: str) -> Rule:
        """Moves a rule to the end of another list, keeping its binding."""
        async with self._writing:
            before = self.rule(session_id, rule_id)
            here = other or before.here or session_id
            rule = replace(before, here=here, since_ms=self._clock())
            # Insert first: if a write fails the rule is in both lists, and keeps its effect.
            await self._insert(other, rule, None)
            remaining = [
                other_rule for other_rule in self.rule_list(session_id) if other_rule is not before
            ]
            await self._keep(session_id, self._restart_rules(session_id, remaining))
        return rule

    async def move(self, session_id: str, rule_id: str, place: int) -> None:
        """Move a rule to `place` (from 0) in its list."""
        async with self._writing:
            rule = self.rule(session_id, rule_id)
            rules = [other for other in self.rule_list(session_id) if other is not rule]
            rules.insert(max(0, min(place, len(rules))), rule)
            await self._keep(session_id, self._restart_rules(session_id, rules))

    def rule(self, session_id: str, rule_id: str) -> Rule:
        """NotFound if the list has no rule of that id."""
        match = next((rule for rule in self.rule_list(session_id) if rule.id == rule_id), None)
        if match is None:
            raise NotFound("This rule no longer exists. Reload the page.")
        return match

    async def bind(self, rule: Rule, tools: Iterable[Tool]) -> Rule:
        """`rule` bound to the matching ones of `tools` as they are now; bindings to other tools are
        kept. Starts and asks no server: its tools are bound as accepted. A tool with an unknown
        executor is left out, so its calls ask."""
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
        known = {tool.name: content_hash(tool, code) for tool, code in pairs if code is not None}
        return replace(rule, bound=elsewhere | known)

    async def binding_states(
        self, rules: Sequence[Rule], tools: Sequence[Tool]
    ) -> list[Mapping[str, str] | None]:
        """The state of each rule's binding, by tool name: "same", "changed", "new" (added later, so
        it asks) or "gone"; None for a rule that is not bound."""
        bound = [rule for rule in rules if rule.bound is not None]
        about = [tool for tool in tools if any(rule.covers(tool) for rule in bound)]
        codes = await asyncio.gather(*(self._code_now(tool) for tool in about))
        now = {
            tool.name: None if code is None else content_hash(tool, code)
            for tool, code in zip(about, codes, strict=True)
        }
        return [_binding_states(rule, tools, now) for rule in rules]

    async def _code(self, tool: Tool) -> str | None:
        """The executor's part of the binding; None if it is not known in time."""
        try:
            async with asyncio.timeout(BIND_S):
                return await self._executors.accepted_code(tool)
        except TimeoutError:
            return None

    async def _code_now(self, tool: Tool) -> str | None:
        """Same, from an open connection if there is one."""
        try:
            async with asyncio.timeout(BIND_S):
                checked = await self._executors.check_without_server("", tool, "{}")
        except TimeoutError:
            return None
        return checked.code if checked is not None else await self._code(tool)

    async def _exchange(self, session_id: str, before: Rule, rule: Rule, here: str = "") -> Rule:
        """Replaces `before` by `rule`, which may decide waiting calls in the session `here`."""
        rules = self.rule_list(session_id)
        changed = self._restart_rules(session_id, (rule if old is before else old for old in rules))
        place = rules.index(before)
        changed[place] = replace(changed[place], here=here or changed[place].here)
        await self._keep(session_id, changed)
        return changed[place]

    async def _insert(self, session_id: str, rule: Rule, place: int | None) -> None:
        rules = list(self.rule_list(session_id))
        if len(rules) >= MOST_RULES:
            raise BadInput(f"There are already {MOST_RULES} rules, the maximum. Delete some first.")
        rules.insert(len(rules) if place is None else place, rule)
        await self._keep(session_id, rules)

    def _restart_rules(self, session_id: str, rules: Iterable[Rule]) -> list[Rule]:
        """The rules of a changed list. A later rule may now match calls that an earlier one caught;
        in ALWAYS it must not decide waiting calls in sessions whose page may not be open. So there
        all rules restart, also for the session in which they were written."""
        if session_id != ALWAYS:
            return list(rules)
        return [replace(rule, since_ms=self._clock(), here="") for rule in rules]

    async def _keep(self, session_id: str, rules: Sequence[Rule]) -> None:
        await self._library.save_rules(session_id, rules, self._clock())
        self._lists[session_id] = tuple(rules)
        self.version += 1
        self._changed()


def _restore_place(rule: Rule, place: int, after: Sequence[Rule], rules: Sequence[Rule]) -> int:
    """Where in `rules` a rule restored from `place`, before `after`, may go: after all rules
    written, changed or moved since that may hold back the same calls."""
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


class Policy:
    """`of` returns the rules of a session. Denials are read from `log` when a rule needs them."""

    def __init__(self, rules: RuleStore, log: Log) -> None:
        self.rules_of = rules.rules_of
        self._inherit = rules.inherit
        self.denials = Denials()
        self._log = log
        self._known: set[str] = set()

    async def load_denials(self, name: str) -> None:
        """Loads the denials of the tool `name`."""
        if name not in self._known:
            self.denials.add(name, await self._log.denied_calls(name, limit=MOST_DENIED))
            self._known.add(name)

    async def load_session_denials(self, session: Session) -> None:
        """Loads the denials that proposed rules of the session need."""
        while asked := self._missing_denials(session.id):
            for name in asked:
                await self.load_denials(name)

    async def commands(self, session: Session, checking: int = 0) -> list[Command]:
        """What happens next by the current rules; `checking` calls are being checked."""
        self._inherit(session.id, session.tapped)
        await self.load_session_denials(session)
        return next_commands(session, self.rules_of(session.id), self.denials.has, checking)

    def record_denial(self, call: Call) -> None:
        """Records that a user denied the call."""
        self.denials.add(call.name, [call.written])

    def _missing_denials(self, session_id: str) -> set[str]:
        rules = self.rules_of(session_id)
        return {rule.tool for rule in rules if rule.proposed and rule.enabled} - self._known


# Reads a rule in the format of docs/contract.md, and reports rules that are invalid or can never
# match.


def parse_rule(data: Any) -> Rule:
    """A rule in the format of docs/contract.md; BadInput says what is wrong."""
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
        raise BadInput("The tool of a rule must be a tool's name, or * for every tool.")
    _check_source(data.get("source", ""))
    for name in _TRUTHS & data.keys():
        if not isinstance(data[name], bool):
            raise BadInput(f"{name} of a rule must be true or false.")
    if data["action"] not in ACTIONS:
        raise BadInput(f"A rule's action must be one of {', '.join(ACTIONS)}.")
    rule = Rule(**{**data, "when": _parse_when(data.get("when", {}))})
    _check_fault(rule)
    return rule


assert {*_TEXTS, *_TRUTHS} <= Rule.__annotations__.keys()


def _check_source(source: str) -> None:
    """Refuses a source that no tool can have: such a rule would never match."""
    kind, colon, server = source.partition(":")
    if source and (kind not in ANSWERED_BY or (colon and (kind != "mcp" or not server))):
        raise BadInput(
            f"The source of a rule must be one of {', '.join(ANSWERED_BY)}, or mcp:SERVER, not "
            f"{source[:80]!r}."
        )


def _parse_when(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or len(value) > 20:
        raise BadInput(
            "when must be an object of at most 20 tests, each a JSON pointer with a test."
        )
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
                    f"The test one_of at {pointer} needs a value, because an empty list matches "
                    "nothing."
                )
            if name == "prefix" and not wanted:
                raise BadInput(
                    f"Every text starts with an empty prefix. Remove the test at {pointer}."
                )
            if name == "glob" and len(wanted) > MOST_GLOB:
                raise BadInput(
                    f"The pattern at {pointer} has more than {MOST_GLOB} characters. Shorten it."
                )
            if name in TESTS:
                continue
        if isinstance(test, Mapping):
            raise BadInput(f"A test must be one of {', '.join(TESTS)}. {pointer} has none of them.")
    if is_deeper(dict(value), MOST_DEEP) or len(json.dumps(to_data(value))) > MOST_WHEN:
        raise BadInput(
            f"The tests of a rule have at most {MOST_WHEN:,} bytes. Shorten their values."
        )
    return dict(value)


def _check_fault(rule: Rule) -> None:
    if not rule.fault:
        return
    row = fault(rule.fault)
    if row is None:
        raise BadInput(f"There is no fault {rule.fault!r}.")
    fitting = "run" if row.runs else "answer"
    if rule.action != fitting:
        raise BadInput(f"{row.title} needs a rule whose action is {fitting}.")
    if not row.runs and (rule.text or rule.is_error):
        raise BadInput(f"{row.title} is the whole answer. Leave out text and is_error.")
