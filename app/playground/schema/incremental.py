"""Validates arguments while they stream: finds the first place that can no longer become valid.

A certain error is reported at the token that makes it certain; errors that are not certain yet, or
expensive to determine, are left to `validate`, which reads the whole. A text that could still
become valid is never reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jsonschema_rs

from playground.core.events import Problem
from playground.core.tools import IdentityKey
from playground.schema import schema_checks
from playground.schema.describe import describe
from playground.schema.schema_checks import (
    OLD_DRAFTS,
    Place,
    Schema,
    is_local,
    pointer,
    resolve,
    subschemas,
)
from playground.schema.sentences import problems_of, unexpected_key
from playground.schema.strict_json import IncrementalReader

# The schemas that certainly apply to a place in the arguments, and their checks of a value there.
#
# Theory of operation. A spot is a set of schemas that the value at one place must satisfy, all of
# them: `$ref` and `allOf` are followed, a branch of `anyOf` and `oneOf` counts only if no other can
# apply. Only the validator of `schema_checks` decides; it gets only those keywords that can be
# checked with what is known so far. So a spot may miss an error, but never reports a false one. All
# work is counted and ends at a cap.

ContainerKind = Literal["object", "array"]
KeywordGroup = Literal["scalar", "keys", "name", "object", "array"]

WORK = 200_000
"""Maximum number of steps of all checks of one call: each further value costs at least one."""
_MOST_AT_ONCE = 40_000
_BYTES_A_STEP = 100
"""Bytes of compiled patterns that cost as much as a step."""

_UNPREFIXED = (*OLD_DRAFTS, "https://json-schema.org/draft/2019-09/schema")
"""Drafts in which `prefixItems` is not a keyword."""
_LOGIC = ("enum", "const", "anyOf", "oneOf", "not", "if", "then", "else")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_KEYWORDS: Mapping[KeywordGroup, tuple[str, ...]] = {
    "scalar": (
        *("type", *_LOGIC, "minLength", "maxLength", "pattern", "format", "multipleOf"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    ),
    "keys": ("required", "minProperties", "maxProperties", "dependentRequired"),
    "name": ("propertyNames",),
    "object": (*_LOGIC, "dependentSchemas", "dependencies", "unevaluatedProperties"),
    "array": (
        *(*_LOGIC, "contains", "minContains", "maxContains", "uniqueItems", "unevaluatedItems"),
    ),
}
"""The keywords that check a scalar, an object's keys, one key, a whole object and a whole array."""
_PASSIVE = {"then", "else", "minContains", "maxContains"}
_QUICK = {"type", "minLength", "maxLength", "minimum", "maximum", "required"}
"""Checked in one step, whatever the value."""
_GAVE_UP = ("BacktrackLimitExceeded", "RegexEngineFailure")


class WorkSpent(Exception):
    """The cap on work is reached: this call is not checked further."""


class Check:
    """Some keywords of one schema, and their validator."""

    def __init__(self, spots: SchemaNodes, schema: dict[str, Any]) -> None:
        self._spots = spots
        self._schema = schema
        self._quick = schema.keys() <= _QUICK
        self._validator = schema_checks.validator(schema)

    def holds(self, value: Any) -> bool:
        """Whether `value` satisfies it, or whether that is too expensive to determine."""
        work = 1 if self._quick else schema_checks.steps(self._schema, value, _MOST_AT_ONCE)
        self._spots.charge(work)
        return work > _MOST_AT_ONCE or self._validator.is_valid(value)

    def problem(self, value: Any, place: Place) -> Problem | None:
        """The first problem of `value` at `place`, which does not satisfy it."""
        error = next(iter(self._validator.iter_errors(value)), None)
        if error is None or error.kind.name in _GAVE_UP:
            return None
        if error.kind.name in ("minProperties", "maxProperties"):
            # The values are not stored, so the sentence has to do without them.
            return _count_problem(place, len(value), "key", self._schema)
        return next(problems_of(error, self._schema, value, place), None)


class SchemaNodes:
    """The spots of one schema, each made once. The schema has no `schema_checks.fault`."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.draft = str(schema.get("$schema", ""))
        self.old = self.draft.rstrip("#") in OLD_DRAFTS
        self.prefixed = self.draft.rstrip("#") not in _UNPREFIXED
        self.holder = {"$defs": {"root": _copy_with_refs(schema)}}
        self._build_steps = _build_steps(len(json.dumps(schema)), schema)
        self._left = WORK
        self._known: dict[tuple[int, ...], SchemaNode] = {}
        self.root = self.node([self.holder["$defs"]["root"]])

    def charge(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise WorkSpent

    def node(self, schemas: Sequence[Schema]) -> SchemaNode:
        key = tuple(id(schema) for schema in schemas if schema is not True)
        spot = self._known.get(key)
        if spot is None:
            self.charge(10)
            spot = self._known[key] = SchemaNode(self, [s for s in schemas if s is not True])
        return spot

    def flatten(self, schemas: Sequence[Schema], known: Sequence[Schema] = ()) -> list[Schema]:
        """`schemas` and all that they include by `$ref` and `allOf`, except the `known`."""
        result: list[Schema] = []
        seen = {id(schema) for schema in known}
        todo = list(reversed(schemas))
        while todo:
            schema = todo.pop()
            if id(schema) in seen or schema is True:
                continue
            seen.add(id(schema))
            self.charge(1)
            hidden = False
            if isinstance(schema, Mapping):
                ref = schema.get("$ref")
                if isinstance(ref, str) and is_local(ref):
                    target = resolve(self.holder, ref)
                    todo.append(target if isinstance(target, Mapping | bool) else True)
                    hidden = self.old
                if not hidden and isinstance(several := schema.get("allOf"), list):
                    todo.extend(several)
            if not hidden:
                result.append(schema)
        return result

    def check(self, keywords: Mapping[str, Any]) -> Check | None:
        """A check of these keywords; None if the validator cannot be built."""
        text = json.dumps(keywords)
        refers = '"$ref"' in text
        self.charge(_build_steps(len(text), keywords) + (self._build_steps if refers else 0) + 10)
        schema = {**keywords, **(self.holder if refers else {})}
        if self.draft:
            schema["$schema"] = self.draft
        try:
            return Check(self, schema)
        except (ValueError, TypeError, LookupError, jsonschema_rs.ReferencingError):
            return None


class SchemaNode:
    """All that the value at one place must satisfy. `never`: no value satisfies it."""

    def __init__(self, spots: SchemaNodes, schemas: Sequence[Schema]) -> None:
        flat = spots.flatten(schemas)
        self._spots = spots
        self._all = flat
        self.never = False in flat
        self._pieces = [schema for schema in flat if isinstance(schema, Mapping)]
        self._checks: dict[KeywordGroup, list[Check]] = {}
        self._patterns: dict[str, Check | None] = {}
        self._members: dict[str, SchemaNode] = {}
        self._opened: dict[ContainerKind, SchemaNode] = {}
        self._rest: tuple[int, SchemaNode] | None = None  # from which item on

    def checks(self, group: KeywordGroup) -> list[Check]:
        """The checks of a value of that group here; built on first use."""
        checks = self._checks.get(group)
        if checks is None:
            selections = (
                _select_keywords(piece, group, old=self._spots.old) for piece in self._pieces
            )
            every = (self._spots.check(keywords) for keywords in selections if keywords)
            checks = self._checks[group] = [check for check in every if check is not None]
        return checks

    def first_problem(
        self, group: KeywordGroup, value: Any, place: Callable[[], Place]
    ) -> Problem | None:
        for check in self.checks(group):
            if not check.holds(value) and (problem := check.problem(value, place())) is not None:
                return problem
        return None

    def open_node(self, kind: ContainerKind) -> SchemaNode:
        """The spot once it is known that the value is an object, or an array."""
        spot = self._opened.get(kind)
        if spot is None:
            spot = self._opened[kind] = self._narrow(kind)
        return spot

    def _narrow(self, kind: ContainerKind) -> SchemaNode:
        """With the only branches that can apply, and with the schemas that they include."""
        whole, fresh = self._all, self._pieces
        while fresh:
            branches = [only for piece in fresh for only in self._only_branches(piece, kind)]
            more = self._spots.flatten(branches, whole)
            fresh = [schema for schema in more if isinstance(schema, Mapping)]
            whole = [*whole, *more]
        return self if len(whole) == len(self._all) else self._spots.node(whole)

    def _only_branches(self, piece: Mapping[str, Any], kind: ContainerKind) -> Iterator[Schema]:
        for keyword in ("anyOf", "oneOf"):
            branches = piece.get(keyword)
            if isinstance(branches, list):
                several = [branch for branch in branches if self._may_be(branch, kind)]
                if len(several) == 1:
                    yield several[0]

    def _may_be(self, branch: Schema, kind: ContainerKind) -> bool:
        flat = self._spots.flatten([branch])
        return all(isinstance(schema, Mapping) and _allows(schema, kind) for schema in flat)

    def type_problem(self, kind: ContainerKind, place: Callable[[], Place]) -> Problem | None:
        """Why an object, or an array, is not allowed here."""
        for piece in self._pieces:
            several = [branches for key in ("anyOf", "oneOf") if (branches := piece.get(key))]
            dead = any(not any(self._may_be(b, kind) for b in branches) for branches in several)
            if dead or not _allows(piece, kind):
                where, expected = pointer(place()), describe(piece, self._spots.holder)
                message = (
                    f"{where or 'The arguments object'} is an {kind}; the schema requires "
                    f"{expected}."
                )
                return Problem("schema", message, where)
        return None

    def key_problem(self, name: str, place: Callable[[], Place]) -> Problem | None:
        """Why an object here may not have the key `name`."""
        for piece in self._pieces:
            if piece.get("additionalProperties") is False and not any(
                self._schemas_of_key(piece, name)
            ):
                return unexpected_key((*place(), name), piece)
        return None

    def member(self, name: str) -> SchemaNode:
        """The spot of a key's value."""
        spot = self._members.get(name)
        if spot is None:
            schemas: list[Schema] = []
            for piece in self._pieces:
                matches = [inner for _, inner in self._schemas_of_key(piece, name)]
                schemas += matches or [piece.get("additionalProperties", True)]
            spot = self._spots.node(schemas)
            if any(name in piece.get("properties", {}) for piece in self._pieces):
                self._members[name] = spot
        return spot

    def item(self, index: int) -> SchemaNode:
        """The spot of an array's item, counted from 0."""
        if self._rest is not None and index >= self._rest[0]:
            return self._rest[1]
        schemas: list[Schema] = []
        last = True  # whether all that follow have the same spot
        for piece in self._pieces:
            items = piece.get("items", True)
            if isinstance(items, list):
                first, rest = items, piece.get("additionalItems", True)
            else:
                first, rest = piece.get("prefixItems", []) if self._spots.prefixed else [], items
            schemas.append(first[index] if index < len(first) else rest)
            last = last and index >= len(first)
        spot = self._spots.node(schemas)
        if last:
            self._rest = index, spot
        return spot

    def count_problem(
        self, count: int, place: Callable[[], Place], *, ended: bool
    ) -> Problem | None:
        """Why an array here cannot have so many items, or (if it ended) so few."""
        for piece in self._pieces:
            most, least = piece.get("maxItems"), piece.get("minItems", 0)
            if (most is not None and count > most) or (ended and count < least):
                return _count_problem(place(), count, "item", piece)
        return None

    def _schemas_of_key(self, piece: Mapping[str, Any], name: str) -> Iterator[tuple[str, Schema]]:
        """The schemas of `properties` and `patternProperties` that apply to the key `name`."""
        properties = piece.get("properties", {})
        if name in properties:
            yield name, properties[name]
        for pattern, inner in piece.get("patternProperties", {}).items():
            if pattern not in self._patterns:
                self._patterns[pattern] = self._spots.check({"pattern": pattern})
            check = self._patterns[pattern]
            # If this is unknown, it counts as applicable, and its value is not checked.
            if check is None:
                yield pattern, True
            elif check.holds(name):
                yield pattern, inner


def _build_steps(length: int, schema: Mapping[str, Any]) -> int:
    """The cost of the validator of a schema that is written in `length` characters."""
    return length // 16 + schema_checks.pattern_bytes(schema) // _BYTES_A_STEP


def _select_keywords(piece: Mapping[str, Any], group: KeywordGroup, *, old: bool) -> dict[str, Any]:
    """The keywords of `piece` that check a value of that group; {} if there are none."""
    result = {key: piece[key] for key in _KEYWORDS[group] if key in piece}
    if group in ("object", "array") and not old and any(key in piece for key in _UNEVALUATED):
        # What was evaluated depends on all sibling keywords.
        hidden = ("$defs", "definitions", "$schema", "$id")
        return {key: value for key, value in piece.items() if key not in hidden}
    return {} if result.keys() <= _PASSIVE else result


def _allows(piece: Mapping[str, Any], kind: ContainerKind) -> bool:
    types = piece.get("type", kind)
    return kind == types or (isinstance(types, list) and kind in types)


def _count_problem(place: Place, count: int, unit: str, expected: Mapping[str, Any]) -> Problem:
    where = pointer(place) or "The arguments object"
    kind = "object" if unit == "key" else "array"
    plain = {key: value for key, value in expected.items() if key.startswith(("min", "max"))}
    message = f"{where} has {count} {unit}{'' if count == 1 else 's'}"
    message += f"; the schema requires {describe({'type': kind, **plain}, {})}."
    return Problem("schema", message, pointer(place))


def _copy_with_refs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `schema` for `#/$defs/root`, including its references."""
    hidden = ("$schema", "$id", "id")
    members = {key: value for key, value in schema.items() if key not in hidden}
    copy: dict[str, Any] = json.loads(json.dumps(members))
    todo: list[Any] = [copy]
    seen: set[int] = set()
    while todo:
        inner = todo.pop()
        if not isinstance(inner, dict) or id(inner) in seen:
            continue
        seen.add(id(inner))
        todo.extend(below for _, below in subschemas(inner))
        ref = inner.get("$ref")
        if isinstance(ref, str) and is_local(ref):
            todo.append(resolve(copy, ref))
            inner["$ref"] = "#/$defs/root" + ref[1:]
    return copy


class IncrementalValidator:
    """The arguments of one call. Costs O(len(text)) in total; stores no more than their size."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """For an unusable schema nothing is ever reported."""
        self._reader: IncrementalReader | None = None
        try:
            if not isinstance(schema_checks.cached_validator(IdentityKey(schema)), tuple):
                self._reader = IncrementalReader(_Walk(SchemaNodes(schema)))
        except (WorkSpent, ValueError):
            pass

    @property
    def closed(self) -> bool:
        """Whether nothing more will be reported: the object is complete, or checking was given
        up."""
        return self._reader is None or self._reader.closed

    def feed(self, text: str) -> Problem | None:
        """Reads the next characters; returns the first problem once it is certain, then None.

        `offset` is the first character of the token that made it certain.
        """
        if self._reader is None:
            return None
        try:
            problem = self._reader.feed(text)
        except (WorkSpent, ValueError):
            self._reader = None
            return None
        if problem is not None:
            self._reader = None
        return problem


@dataclass
class _Frame:
    """An open container. `step` is the current key or index, `value` is None unless it is stored,
    `count` the number of an object's keys or an array's items that have begun."""

    spot: SchemaNode
    kind: ContainerKind
    value: dict[str, Any] | list[Any] | None
    names: dict[str, None]
    step: str | int = ""
    count: int = 0


class _Walk:
    """Walks through the schema in parallel with the text."""

    def __init__(self, spots: SchemaNodes) -> None:
        self._frames: list[_Frame] = []
        self._spot = spots.root

    def begin_value(self, at: int) -> Problem | None:
        if not self._frames:
            return _add_offset(at, self._never_problem())
        if self._frames[-1].kind == "object":
            return None
        frame = self._frames[-1]
        frame.step = frame.count
        frame.count += 1
        self._spot = frame.spot.item(frame.count - 1)
        wrong = frame.spot.count_problem(frame.count, self._container_place, ended=False)
        return _add_offset(at, wrong or self._never_problem())

    def open_container(self, kind: str, at: int) -> Problem | None:
        type_: ContainerKind = "object" if kind == "{" else "array"
        if (problem := self._spot.type_problem(type_, self._place)) is not None:
            return _add_offset(at, problem)
        spot = self._spot.open_node(type_)
        keeps_value = bool(self._frames) and self._frames[-1].value is not None
        value: dict[str, Any] | list[Any] | None = None
        if keeps_value or spot.checks(type_):
            value = {} if type_ == "object" else []
        self._frames.append(_Frame(spot, type_, value, {}))
        return None

    def key(self, name: str, at: int) -> Problem | None:
        frame = self._frames[-1]
        spot = frame.spot
        frame.step = name
        frame.count += 1
        if spot.checks("keys"):
            frame.names[name] = None
        wrong = spot.key_problem(name, self._container_place)
        if wrong is None and spot.checks("name"):
            wrong = spot.first_problem("name", {name: None}, self._container_place)
        self._spot = spot.member(name)
        return _add_offset(at, wrong or self._never_problem())

    def scalar(self, value: Any, at: int) -> Problem | None:
        self._keep(value)
        return _add_offset(at, self._spot.first_problem("scalar", value, self._place))

    def close_container(self, at: int) -> Problem | None:
        frame = self._frames.pop()
        if frame.kind == "object":
            wrong = frame.spot.first_problem("keys", frame.names, self._place)
        else:
            wrong = frame.spot.count_problem(frame.count, self._place, ended=True)
        if wrong is None and frame.value is not None:
            wrong = frame.spot.first_problem(frame.kind, frame.value, self._place)
        self._keep(frame.value)
        return _add_offset(at, wrong)

    def _keep(self, value: Any) -> None:
        """Adds a complete value to its container, if that is stored."""
        if not self._frames:
            return
        frame = self._frames[-1]
        if isinstance(frame.value, dict):
            frame.value[str(frame.step)] = value
        elif isinstance(frame.value, list):
            frame.value.append(value)

    def _never_problem(self) -> Problem | None:
        if not self._spot.never:
            return None
        where = pointer(self._place())
        who = where or "The arguments object"
        return Problem("schema", f"{who} is not allowed by the schema.", where)

    def _place(self) -> Place:
        return tuple(frame.step for frame in self._frames)

    def _container_place(self) -> Place:
        """The place of the current container."""
        return self._place()[:-1]


def _add_offset(at: int, problem: Problem | None) -> Problem | None:
    return None if problem is None else replace(problem, offset=at)
