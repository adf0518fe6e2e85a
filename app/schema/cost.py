"""How much work a validator may have with a value, counted before it starts.

Theory of operation. No validator tried survives a schema whose `$ref`s fan out (eight levels of
ten are 10^8 steps), and this floor has no process it could kill. So the steps are counted first:
each (schema, value) pair is looked at once and remembered, however often it would be evaluated,
and its count is the sum over the pairs it leads to. The count is an upper bound: every branch is
taken to be evaluated. It ends early once it is past the cap, so counting is bounded too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.schema.keywords import SAME_MANY, SAME_NAMED, SAME_ONE, is_local, resolved

MAX_STEPS = 2_000_000
"""Steps that jsonschema-rs answers yes or no to in about half a second."""

_MAX_PAIRS = 200_000
_BACKTRACKING = re.compile(r"\(\?[=!<]|\\[1-9k]")
_BACKTRACKING_STEPS = 4_000
"""What one match may cost where the pattern needs the backtracking engine (see `validate`)."""


class _TooMuch(Exception):
    """The count is past the cap, or never ends."""


def steps(schema: Any, value: Any, most: int = MAX_STEPS) -> int:
    """An upper bound of the steps to validate; more than `most` means: do not start."""
    try:
        return _Count(schema, most).of(schema, value)
    except (_TooMuch, RecursionError):
        return most + 1


class _Count:
    def __init__(self, root: Any, most: int) -> None:
        self.root = root
        self.most = most
        self.known: dict[tuple[int, object], int] = {}
        self.open: set[tuple[int, object]] = set()

    def of(self, schema: Any, value: Any) -> int:
        if not isinstance(schema, Mapping):
            return 1
        key = (id(schema), _identity(value))
        if key in self.known:
            return self.known[key]
        if key in self.open or len(self.known) > min(_MAX_PAIRS, self.most):
            raise _TooMuch  # a schema that leads back to itself on the same value never ends
        self.open.add(key)
        total = _own(schema, value) + sum(self.of(inner, value) for inner in self._same(schema))
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            total *= 3  # what was evaluated is found out by evaluating once more
        for inner, item in _children(schema, value):
            total += self.of(inner, item)
            if total > self.most:
                raise _TooMuch
        if total > self.most:
            raise _TooMuch
        self.open.discard(key)
        self.known[key] = total
        return total

    def _same(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """The schemas that are applied to the same value."""
        ref = schema.get("$ref")
        if isinstance(ref, str) and is_local(ref):
            yield resolved(self.root, ref)
        for keyword in SAME_ONE:
            if keyword in schema:
                yield schema[keyword]
        for keyword in SAME_MANY:
            items = schema.get(keyword)
            yield from items if isinstance(items, list) else ()
        for keyword in SAME_NAMED:
            named = schema.get(keyword)
            yield from named.values() if isinstance(named, Mapping) else ()


def _identity(value: Any) -> object:
    """Scalars of one size cost the same; containers are told apart."""
    if isinstance(value, dict | list):
        return id(value), "container"
    return len(value) // 256 if isinstance(value, str) else -1


def _own(schema: Mapping[str, Any], value: Any) -> int:
    total = 1
    if isinstance(value, str) and isinstance(pattern := schema.get("pattern"), str):
        total += _match(pattern, value)
    if isinstance(value, dict) and isinstance(named := schema.get("patternProperties"), Mapping):
        total += sum(_match(pattern, name) for pattern in named for name in value)
    if isinstance(options := schema.get("enum"), list):
        total += len(options) // 8
    return total


def _match(pattern: str, text: str) -> int:
    if _BACKTRACKING.search(pattern):
        return _BACKTRACKING_STEPS
    return 1 + (1 + len(text) // 256) * (1 + len(pattern) // 64)


def _children(schema: Mapping[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """(schema, member) for the members of an object or the items of an array."""
    if isinstance(value, dict):
        properties = schema.get("properties")
        by_pattern = schema.get("patternProperties")
        patterns = by_pattern if isinstance(by_pattern, Mapping) else {}
        for name, item in value.items():
            if isinstance(properties, Mapping) and name in properties:
                yield properties[name], item
            for inner in patterns.values():
                yield inner, item
            for keyword in ("additionalProperties", "unevaluatedProperties"):
                if keyword in schema:
                    yield schema[keyword], item
            if "propertyNames" in schema:
                yield schema["propertyNames"], name
    elif isinstance(value, list):
        prefix = schema.get("prefixItems", schema.get("items"))
        each = [
            schema[keyword]
            for keyword in ("items", "additionalItems", "contains", "unevaluatedItems")
            if isinstance(schema.get(keyword), Mapping)
        ]
        for index, item in enumerate(value):
            if isinstance(prefix, list) and index < len(prefix):
                yield prefix[index], item
            for inner in each:
                yield inner, item
