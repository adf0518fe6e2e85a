"""The person's rules, in memory as the library has them: the session's own, then those for always.

What a rule says is core/rules.py; here they are written, bound to the tools they are for, moved and
revoked. A decision carries the words of its rule, so that revoking one rewrites nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from app.core.errors import BadInput, NotFound
from app.core.faults import fault
from app.core.matching import TESTS
from app.core.rules import ACTIONS, LETS_THROUGH, Rule, content, pointer_fault
from app.core.tools import Tool
from app.executors.table import Executors
from app.store.library import Library

ALWAYS = ""
"""Stands for the list of rules that hold in every session."""

MOST_RULES = 200
MOST_WORDS = 4_000


class Rules:
    """`clock` gives Unix time in ms; `new_id` a fresh id. `version` counts every change."""

    def __init__(
        self,
        library: Library,
        executors: Executors,
        clock: Callable[[], int],
        new_id: Callable[[], str],
    ) -> None:
        self._library = library
        self._executors = executors
        self._clock = clock
        self._new_id = new_id
        self._lists: dict[str, tuple[Rule, ...]] = {}
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

    async def put(self, session_id: str, rules: Iterable[Rule], tools: Sequence[Tool]) -> None:
        """Make `rules` the session's own, bound to those of its `tools` that they are about."""
        async with self._writing:
            now = self._clock()
            new = [replace(one, id=self._new_id(), here=session_id, since_ms=now) for one in rules]
            await self._keep(session_id, [await self.bound(one, tools) for one in new])

    async def add(
        self, session_id: str, rule: Rule, tools: Sequence[Tool], place: int | None = None
    ) -> Rule:
        """Write one rule into a list, at `place` or at its end; the rule as it is kept.

        BadInput where the list is full.
        """
        async with self._writing:
            rule = replace(rule, id=self._new_id(), since_ms=self._clock())
            rule = await self.bound(rule, tools)
            rules = list(self.listed(session_id))
            rules.insert(len(rules) if place is None else place, rule)
            if len(rules) > MOST_RULES:
                raise BadInput(f"There are {MOST_RULES} rules already; delete some first.")
            await self._keep(session_id, rules)
        return rule

    async def change(self, session_id: str, rule_id: str, rule: Rule | None) -> Rule:
        """Put `rule` in the place of one that is there, or take it away; the one that was there.

        NotFound where it is gone.
        """
        async with self._writing:
            before = self.rule(session_id, rule_id)
            kept = [rule if one is before else one for one in self.listed(session_id)]
            await self._keep(session_id, [one for one in kept if one is not None])
        return before

    async def move(self, session_id: str, rule_id: str, place: int) -> None:
        """Move a rule to `place` (from 0) in its list."""
        async with self._writing:
            rule = self.rule(session_id, rule_id)
            rules = [one for one in self.listed(session_id) if one is not rule]
            rules.insert(max(0, min(place, len(rules))), rule)
            await self._keep(session_id, rules)

    def rule(self, session_id: str, rule_id: str) -> Rule:
        """NotFound where the list has none of that id."""
        found = next((one for one in self.listed(session_id) if one.id == rule_id), None)
        if found is None:
            raise NotFound("There is no such rule any more; look at the list again.")
        return found

    async def bound(self, rule: Rule, tools: Iterable[Tool]) -> Rule:
        """`rule` bound to those of `tools` that it is about, as they are at this moment."""
        if rule.action not in LETS_THROUGH:
            return replace(rule, bound=None)
        covered = [tool for tool in tools if rule.covers(tool)]
        codes = await asyncio.gather(*(self._code(tool) for tool in covered))
        pairs = zip(covered, codes, strict=True)
        return replace(rule, bound={tool.name: content(tool, code) for tool, code in pairs})

    async def _code(self, tool: Tool) -> str:
        checked = await self._executors.checked("", tool, "{}")
        return checked.code

    async def _keep(self, session_id: str, rules: Sequence[Rule]) -> None:
        await self._library.save_rules(session_id, rules, self._clock())
        self._lists[session_id] = tuple(rules)
        self.version += 1


def rule_from(data: Any) -> Rule:
    """A rule in the words of docs/contract.md; BadInput says what is wrong."""
    known = {*_TEXTS, *_TRUTHS, "action", "when"}
    if not isinstance(data, Mapping) or not {"tool", "action"} <= data.keys() <= known:
        raise BadInput(
            "rules must be a list of objects with tool and action, and "
            f"{', '.join(sorted(known - {'tool', 'action'}))} at most."
        )
    for name in _TEXTS & data.keys():
        if not isinstance(data[name], str) or len(data[name]) > MOST_WORDS:
            raise BadInput(f"The {name} of a rule must be a text of at most {MOST_WORDS}.")
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
assert {*_TEXTS, *_TRUTHS} <= {one.name for one in fields(Rule)}


def _when(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or len(value) > 20:
        raise BadInput("when is an object of at most 20 tests: a JSON pointer, and a test for it.")
    for pointer, test in value.items():
        if said := pointer_fault(pointer):
            raise BadInput(said)
        if isinstance(test, Mapping) and len(test) == 1:
            ((name, wanted),) = test.items()
            text = name in ("prefix", "glob") and not isinstance(wanted, str)
            if text or (name == "one_of" and not isinstance(wanted, list)):
                kind = "a text" if text else "a list"
                raise BadInput(f"The test {name} at {pointer} needs {kind}.")
            if name in TESTS:
                continue
        if isinstance(test, Mapping):
            raise BadInput(f"A test is one of {', '.join(TESTS)}; at {pointer} there is none.")
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
