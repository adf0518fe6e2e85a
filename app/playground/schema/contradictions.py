"""Finds contradictions in a schema: why no value at all can satisfy it, or one of its parts.

Sound, not complete: what is reported cannot be satisfied, but not everything that cannot be
satisfied is found. The work is bounded. For a schema without `fault` (schema_checks). Pure.

Theory of operation. What applies to one value is collected first: a schema, its `allOf` and the
targets of its `$ref`s (`_flatten`). From these together follow the types and the values that are
left, the bounds of each type, and the schemas of each member that is required. If nothing is left,
the reasons are returned with the place of the keyword that is to blame; otherwise none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from math import isfinite
from typing import Any

from playground.schema import schema_checks
from playground.schema.schema_checks import (
    Place,
    all_subschemas,
    is_local,
    is_number,
    pointer,
    resolve,
)

MOST_STEPS = 50_000
"""The most schemas that are looked at, again and again; beyond that nothing further is found."""
MOST_DEPTH = 100
MOST_VALUES = 1_000
"""An enum with more values is not tried value by value."""
MOST_FOUND = 20
MOST_COMPARED = 100
"""With more properties a misspelled name is compared with none."""
_SIMILAR = 0.75
"""The least similarity of a misspelled name, by `difflib`."""

_KINDS: Mapping[str, frozenset[str]] = {
    "null": frozenset(("null",)),
    "boolean": frozenset(("boolean",)),
    "string": frozenset(("string",)),
    "array": frozenset(("array",)),
    "object": frozenset(("object",)),
    "integer": frozenset(("integer",)),
    "number": frozenset(("integer", "fraction")),
}
"""The kinds of values of each type; a fraction is a number that is not an integer."""
_ALL_KINDS = frozenset.union(*_KINDS.values())
_ASSERTIONS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
    *("minProperties", "maxProperties", "required"),
)
"""Keywords by which the values of an enum are tried."""
_IN_PLACE = ("anyOf", "oneOf", "if", "dependentSchemas", "not", "patternProperties")
"""Keywords that may evaluate further members of the same object."""
_NEGATING = frozenset(("not", "if"))
"""Below these a schema that nothing satisfies forbids nothing."""
_REF_ALONE = ("draft-04", "draft-06", "draft-07")
"""Drafts in which a `$ref` has no effect but its own: its neighbours are ignored."""
_SINCE: Mapping[str, tuple[str, ...]] = {
    "draft-06": ("const", "contains"),
    "2019-09": ("minContains", "maxContains", "unevaluatedProperties"),
    "2020-12": ("prefixItems",),
}
"""The keywords that are read here, by the draft that brought them: an older one ignores them."""

_FALSE: Mapping[str, Any] = {"not": {}}
"""The schema `false`, written as an object."""
_AN_OBJECT: Mapping[str, Any] = {"type": "object"}

Part = tuple[Place, Any]
"""A schema, or true or false, with its place."""

_Bound = tuple[Fraction, bool, str, int | float, Place]
"""A bound, negated for a maximum; whether it is excluded, its keyword, number and place."""


@dataclass(frozen=True)
class Impossibility:
    """Why nothing is possible: a clause, and the place of the keyword to blame. `required` is the
    name by which that is required, `missing` a required name that is not defined, `similar` the
    property that was probably meant, or ""."""

    clause: str
    place: Place
    required: str = ""
    missing: str = ""
    similar: str = ""

    @property
    def sentence(self) -> str:
        """The clause, and why it concerns the whole."""
        because = f", and {self.required[:60]!r} is required" if self.required else ""
        return self.clause + because


@dataclass(frozen=True)
class Contradiction:
    """`kind` is the only type that is impossible at `where`, "" if no value is possible there;
    `whole`: then no value can satisfy the whole schema."""

    reason: Impossibility
    where: Place
    whole: bool = False
    kind: str = ""


def contradictions(schema: Mapping[str, Any]) -> list[Contradiction]:
    """The contradictions in the parameters of a tool, whose arguments are an object; first those
    that no call can satisfy. Each keyword is reported once."""
    solver = _Solver(schema)
    result = [
        Contradiction(reason, (), whole=True)
        for reason in solver.reasons([((), schema), ((), _AN_OBJECT)])
    ]
    reported = {each.reason.place for each in result}
    for place, inner in all_subschemas(schema):
        if not isinstance(inner, Mapping) or len(result) >= MOST_FOUND or _NEGATING & set(place):
            continue
        if any(place[: len(each)] == each for each in reported if each):
            continue  # a part of what is impossible already
        for kind, reason in solver.partial_reasons(place, inner):
            if reason.place not in reported:
                reported.add(reason.place)
                result.append(Contradiction(reason, place, kind=kind))
    return result


def similar_name(name: str, schema: Mapping[str, Any]) -> str:
    """The property of `schema` that was probably meant by `name`, "" if none or several may be.

    Only properties that are not required themselves: a rename makes no name required twice.
    """
    properties, required = _mapping(schema, "properties"), schema.get("required")
    if len(properties) > MOST_COMPARED:
        return ""
    required_names = required if isinstance(required, list) else []
    by_letters: dict[str, list[str]] = {}
    for each in properties:
        if each not in required_names:
            by_letters.setdefault(_letters(each), []).append(each)
    matches = get_close_matches(_letters(name), by_letters, n=2, cutoff=_SIMILAR)
    if not matches or (len(matches) > 1 and matches[0] != _letters(name)):
        return ""
    names = by_letters[matches[0]]
    return names[0] if len(names) == 1 else ""


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


class _Solver:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.ref_alone = any(draft in str(root.get("$schema")) for draft in _REF_ALONE)
        self.unknown = _unknown_keywords(str(root.get("$schema", "")))
        self.without: dict[int, Mapping[str, Any]] = {}
        self.left = MOST_STEPS
        self.depth = 0
        self.known: dict[tuple[int, ...], list[Impossibility]] = {}

    def reasons(self, parts: Sequence[Part]) -> list[Impossibility]:
        """Why no value satisfies all of `parts`; () if one may."""
        key = tuple(id(schema) for _, schema in parts)
        if self.left < 0:
            return []
        if key not in self.known:
            self.known[key] = []  # while it is open, a schema that leads back to itself may hold
            if self.depth < MOST_DEPTH:
                self.depth += 1
                self.known[key] = self._flat_reasons(self._flatten(parts))
                self.depth -= 1
        return self.known[key]

    def partial_reasons(
        self, place: Place, schema: Mapping[str, Any]
    ) -> Iterator[tuple[str, Impossibility]]:
        """Why no value, or none of a type, satisfies one schema by itself."""
        whole = self.reasons([(place, schema)])
        if whole:
            yield from (("", reason) for reason in whole)
            return
        flat = self._flatten([(place, schema)])
        self.left -= len(flat)
        if self.left < 0 or any("enum" in each or "const" in each for _, each in flat):
            return
        kinds = _kinds_left(flat)
        for kind, find in self._kind_checks(kinds).items():
            for reason in find(flat):
                yield kind, reason

    def _flatten(self, parts: Sequence[Part]) -> list[tuple[Place, Mapping[str, Any]]]:
        """The objects among the schemas that apply to one value; false is `{"not": {}}`."""
        flat: list[tuple[Place, Mapping[str, Any]]] = []
        seen: set[int] = set()
        todo = list(reversed(parts))
        while todo and self.left >= 0:
            self.left -= 1
            place, schema = todo.pop()
            if schema is False:
                flat.append((place, _FALSE))
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            ref = schema.get("$ref")
            if isinstance(ref, str) and is_local(ref):
                todo.append((_place_of(ref), resolve(self.root, ref)))
                if self.ref_alone:
                    continue
            flat.append((place, self._remove_unknown(schema)))
            branches = schema.get("allOf")
            for index, branch in enumerate(branches if isinstance(branches, list) else ()):
                todo.append(((*place, "allOf", index), branch))
        return flat

    def _remove_unknown(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """`schema` without the keywords that its draft ignores; the same object each time."""
        if not self.unknown & schema.keys():
            return schema
        known = {key: value for key, value in schema.items() if key not in self.unknown}
        return self.without.setdefault(id(schema), known)

    def _flat_reasons(
        self,
        flat: Sequence[tuple[Place, Mapping[str, Any]]],
        chosen: frozenset[tuple[int, str]] = frozenset(),
    ) -> list[Impossibility]:
        """`chosen` are the choices (anyOf, oneOf) one of whose branches is in `flat`."""
        self.left -= len(flat) + sum(len(_list(schema, "enum")) for _, schema in flat)
        if self.left < 0:
            return []
        for place, schema in flat:
            if schema is _FALSE:
                return [Impossibility(f"the schema{_at_place(place)} is `false`", place)]
            if "not" in schema and schema["not"] in (True, {}):
                return [
                    Impossibility(f"`not`{_at_place(place)} excludes every value", (*place, "not"))
                ]
        kinds = _kinds_left(flat)
        if not kinds:
            return [_type_reason(flat)]
        values = _values_left(flat, kinds)
        if isinstance(values, Impossibility):
            return [values]
        if values is None:
            impossible = [find(flat) for find in self._kind_checks(kinds).values()]
            if impossible and all(impossible) and not kinds & {"null", "boolean"}:
                return list(dict.fromkeys(reason for each in impossible for reason in each))
        return self._choice_reasons(flat, chosen)

    def _choice_reasons(
        self,
        flat: Sequence[tuple[Place, Mapping[str, Any]]],
        chosen: frozenset[tuple[int, str]],
    ) -> list[Impossibility]:
        for place, schema in flat:
            for keyword in ("anyOf", "oneOf"):
                branches = schema.get(keyword)
                choice = (id(schema), keyword)
                if not isinstance(branches, list) or not branches or choice in chosen:
                    continue
                failed: list[Impossibility] = []
                for index, branch in enumerate(branches):
                    inner = self._flatten([((*place, keyword, index), branch)])
                    why = self._flat_reasons([*flat, *inner], chosen | {choice})
                    if not why:
                        break
                    failed.append(why[0])
                else:
                    clause = f"each branch of `{keyword}`{_at_place(place)} is impossible: "
                    return [Impossibility(clause + failed[0].sentence, (*place, keyword))]
        return []

    def _kind_checks(
        self, kinds: frozenset[str]
    ) -> dict[str, Callable[[Sequence[tuple[Place, Mapping[str, Any]]]], list[Impossibility]]]:
        """The check for each type that is left."""
        whole = "fraction" not in kinds
        checks: dict[
            str, Callable[[Sequence[tuple[Place, Mapping[str, Any]]]], list[Impossibility]]
        ] = {}
        if kinds & {"integer", "fraction"}:
            checks["integer" if whole else "number"] = lambda flat: _number_reasons(flat, whole)
        if "string" in kinds:
            checks["string"] = lambda flat: _count_reasons(flat, "minLength", "maxLength")
        if "array" in kinds:
            checks["array"] = self._array_reasons
        if "object" in kinds:
            checks["object"] = self._object_reasons
        return checks

    def _array_reasons(
        self, flat: Sequence[tuple[Place, Mapping[str, Any]]]
    ) -> list[Impossibility]:
        reasons = _count_reasons(flat, "minItems", "maxItems")
        for each in flat:
            if "contains" in each[1]:  # what counts is the `contains` next to it
                reasons += _count_reasons([each], "minContains", "maxContains")
        least = int(max((_number(schema, "minItems") or 0 for _, schema in flat), default=0))
        for position in range(min(least, MOST_VALUES)):
            parts = [part for part in (_item_at(*each, position) for each in flat) if part]
            if parts and (why := self.reasons(parts)):
                reasons += why
                break
            if all("prefixItems" not in schema for _, schema in flat):
                break  # all items have the same schema
        for place, schema in flat:
            wanted = _number(schema, "minContains")
            if "contains" not in schema or wanted == 0:
                continue
            reasons += self.reasons([((*place, "contains"), schema["contains"])])
            most = min(
                (n for _, each in flat if (n := _number(each, "maxItems")) is not None),
                default=None,
            )
            if most is not None and most < (1 if wanted is None else wanted):
                clause = f"`contains`{_at_place(place)} needs an item, and `maxItems` is {most:g}"
                reasons.append(Impossibility(clause, (*place, "contains")))
        return list(dict.fromkeys(reasons))

    def _object_reasons(
        self, flat: Sequence[tuple[Place, Mapping[str, Any]]]
    ) -> list[Impossibility]:
        reasons = _count_reasons(flat, "minProperties", "maxProperties")
        required = {
            name: (place, schema) for place, schema in reversed(flat) for name in _names(schema)
        }
        most = min(
            (n for _, each in flat if (n := _number(each, "maxProperties")) is not None),
            default=None,
        )
        if most is not None and len(required) > most:
            place = next(place for place, each in flat if _number(each, "maxProperties") == most)
            clause = (
                f"more names are required than `maxProperties` {most:g}{_at_place(place)} allows"
            )
            reasons.append(Impossibility(clause, (*place, "maxProperties")))
        for name, (place, schema) in required.items():
            if len(reasons) >= MOST_FOUND:
                break
            self.left -= len(flat)
            parts: list[Part] = []
            for each in flat:
                closed, part = _member(*each, name, flat)
                if closed:
                    reasons.append(_undefined_reason(name, place, schema, *each))
                    break
                parts += part
            else:
                reasons += [_for_required(reason, name) for reason in self.reasons(parts)]
        return list(dict.fromkeys(reasons))


def _unknown_keywords(draft: str) -> frozenset[str]:
    """The keywords of `_SINCE` that `draft` ignores."""
    drafts = ["draft-04", "draft-06", "draft-07", "2019-09"]
    number = next((n for n, name in enumerate(drafts) if name in draft), None)
    if number is None:
        return frozenset()
    return frozenset(
        keyword
        for since, keywords in _SINCE.items()
        if since not in drafts[: number + 1]
        for keyword in keywords
    )


def _at_place(place: Place) -> str:
    return f" at {pointer(place)}" if place else ""


def _place_of(ref: str) -> Place:
    return tuple(map(schema_checks.unescaped_step, ref[1:].split("/")[1:]))


def _mapping(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, Mapping) else {}


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _names(schema: Mapping[str, Any]) -> list[str]:
    """The required names, in order."""
    value = schema.get("required")
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _number(schema: Mapping[str, Any], keyword: str) -> int | float | None:
    value: Any = schema.get(keyword)
    return value if is_number(value) and isfinite(value) else None


# Types and values.


def _kinds_of(schema: Mapping[str, Any]) -> frozenset[str]:
    """The kinds that `type` allows; all for an unknown type."""
    if "type" not in schema:
        return _ALL_KINDS
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    named = [
        _KINDS.get(kind, _ALL_KINDS) if isinstance(kind, str) else _ALL_KINDS for kind in types
    ]
    return frozenset().union(*named)


def _kinds_left(flat: Sequence[tuple[Place, Mapping[str, Any]]]) -> frozenset[str]:
    left = _ALL_KINDS
    for _, schema in flat:
        left &= _kinds_of(schema)
    return left


def _type_reason(flat: Sequence[tuple[Place, Mapping[str, Any]]]) -> Impossibility:
    """Why no type is left."""
    typed = [(place, schema) for place, schema in flat if "type" in schema]
    for place, schema in typed:
        if not _kinds_of(schema):
            return Impossibility(f"`type`{_at_place(place)} is empty", (*place, "type"))
    place, schema = next((each for each in typed if each[0]), typed[0])
    types = " and ".join(dict.fromkeys(_type_text(each) for _, each in typed))
    return Impossibility(
        f"no value is of the types {types} at once{_at_place(place)}", (*place, "type")
    )


def _type_text(schema: Mapping[str, Any]) -> str:
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(map(str, types))


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "fraction"
    return "object"


def _json_key(value: Any) -> str:
    """The same text for values that JSON Schema calls equal: true is not 1, 1.0 is 1."""
    return json.dumps(_with_integers(value), sort_keys=True)


def _with_integers(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_integers(item) for item in value]
        case Mapping():
            return {key: _with_integers(item) for key, item in value.items()}
    return value


def _values_left(
    flat: Sequence[tuple[Place, Mapping[str, Any]]], kinds: frozenset[str]
) -> list[Any] | Impossibility | None:
    """The values that `enum` and `const` leave, why none is left, or None if any may be."""
    left: list[Any] | None = None
    blamed: Place = ()
    for place, schema in flat:
        for keyword in ("const", "enum"):
            if keyword not in schema:
                continue
            given = [schema["const"]] if keyword == "const" else schema["enum"]
            if not isinstance(given, list):
                continue
            blamed = (*place, keyword)
            if not given:
                return Impossibility(f"`enum`{_at_place(place)} is empty", blamed)
            if len(given) > MOST_VALUES:
                return None
            before, left = left, given if left is None else _common_values(left, given)
            if before is not None and not left:
                named = f"`{keyword}`{_at_place(place)}"
                clause = f"{named} has no value that the other `enum` or `const` has"
                return Impossibility(clause, blamed)
    if left is None:
        return None
    typed = [value for value in left if _kind_of(value) in kinds]
    what = f"`{blamed[-1]}`{_at_place(blamed[:-1])}"
    if not typed:
        types = " and ".join(dict.fromkeys(_type_text(each) for _, each in flat if "type" in each))
        return Impossibility(f"{what} has no value of the type {types}", blamed)
    for place, schema in flat:
        rules = {key: schema[key] for key in _ASSERTIONS if key in schema}
        if not rules:
            continue
        validator = schema_checks.validator(
            {**rules, **({"$schema": schema["$schema"]} if "$schema" in schema else {})}
        )
        typed = [value for value in typed if validator.is_valid(value)]
        if not typed:
            names = " and ".join(f"`{key}`" for key in rules)
            return Impossibility(
                f"{what} has no value that {names}{_at_place(place)} allows", blamed
            )
    return typed


def _common_values(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    keys = set(map(_json_key, second))
    return [value for value in first if _json_key(value) in keys]


# Bounds.


def _count_reasons(
    flat: Sequence[tuple[Place, Mapping[str, Any]]], least: str, most: str
) -> list[Impossibility]:
    """A minimum above a maximum."""
    lows = [(n, place) for place, schema in flat if (n := _number(schema, least)) is not None]
    highs = [(n, place) for place, schema in flat if (n := _number(schema, most)) is not None]
    if not lows or not highs:
        return []
    (low, place), (high, _) = (
        max(lows, key=lambda each: each[0]),
        min(highs, key=lambda each: each[0]),
    )
    if low <= high:
        return []
    clause = f"`{least}` {low:g}{_at_place(place)} is above `{most}` {high:g}"
    return [Impossibility(clause, (*place, least))]


def _number_reasons(
    flat: Sequence[tuple[Place, Mapping[str, Any]]], whole: bool
) -> list[Impossibility]:
    """Bounds between which there is no number, no integer, or no multiple."""
    lows: list[_Bound] = []
    highs: list[_Bound] = []
    steps: list[tuple[Fraction, int | float]] = []
    for place, schema in flat:
        for bounds, closed, open_, sign in (
            (lows, "minimum", "exclusiveMinimum", 1),
            (highs, "maximum", "exclusiveMaximum", -1),
        ):
            if (n := _number(schema, closed)) is not None:
                excluded = schema.get(open_) is True  # draft 4
                bounds.append((sign * _fraction(n), excluded, closed, n, place))
            if (n := _number(schema, open_)) is not None:
                bounds.append((sign * _fraction(n), True, open_, n, place))
        multiple = _number(schema, "multipleOf")
        if multiple is not None and multiple > 0:
            steps.append((_fraction(multiple), multiple))
    if not lows or not highs:
        return []
    low, low_open, low_name, low_text, place = max(lows, key=lambda each: each[:2])
    high, high_open, high_name, high_text, _ = max(highs, key=lambda each: each[:2])
    high = -high
    blamed = (*place, low_name)
    between = f"`{low_name}` {low_text:g}{_at_place(place)} and `{high_name}` {high_text:g}"
    if low > high:
        clause = f"`{low_name}` {low_text:g}{_at_place(place)} is above `{high_name}` {high_text:g}"
        return [Impossibility(clause, blamed)]
    if low == high and (low_open or high_open):
        return [Impossibility(f"no number lies between {between}", blamed)]
    grids = [(_fraction(1), "integer")] if whole else []
    grids += [(step, f"multiple of {text:g}") for step, text in steps]
    for step, what in grids:
        first = -(-low // step) * step
        first += step if low_open and first == low else 0
        if first > high or (high_open and first == high):
            return [Impossibility(f"no {what} lies between {between}", blamed)]
    return []


def _fraction(number: int | float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


# Members of arrays and objects.


def _item_at(place: Place, schema: Mapping[str, Any], position: int) -> Part | None:
    """The schema of the item at `position`, if there is one."""
    keyword = "prefixItems" if "prefixItems" in schema else "items"
    tuple_ = schema.get(keyword)
    if isinstance(tuple_, list):
        if position < len(tuple_):
            return (*place, keyword, position), tuple_[position]
        keyword = "items" if keyword == "prefixItems" else "additionalItems"
    else:
        keyword = "items"
    return ((*place, keyword), schema[keyword]) if keyword in schema else None


def _member(
    place: Place,
    schema: Mapping[str, Any],
    name: str,
    flat: Sequence[tuple[Place, Mapping[str, Any]]],
) -> tuple[bool, list[Part]]:
    """Whether `schema` forbids the member `name`, else the schemas that it has for it."""
    properties = _mapping(schema, "properties")
    if name in properties:
        return False, [((*place, "properties", name), properties[name])]
    if schema.get("patternProperties"):
        return False, []
    rest = schema.get("additionalProperties")
    if rest is False:
        return True, []
    if isinstance(rest, Mapping):
        return False, [((*place, "additionalProperties"), rest)]
    if schema.get("unevaluatedProperties") is False:
        evaluated = any(
            name in _mapping(each, "properties")
            or "additionalProperties" in each
            or any(keyword in each for keyword in _IN_PLACE)
            for _, each in flat
        )
        return not evaluated, []
    return False, []


def _for_required(reason: Impossibility, name: str) -> Impossibility:
    """The reason why a member is impossible, as the reason for its object."""
    return reason if reason.required or reason.missing else replace(reason, required=name)


def _undefined_reason(
    name: str,
    place: Place,
    schema: Mapping[str, Any],
    closed_place: Place,
    closed: Mapping[str, Any],
) -> Impossibility:
    keyword = (
        "additionalProperties"
        if closed.get("additionalProperties") is False
        else "unevaluatedProperties"
    )
    elsewhere = _at_place(closed_place) if closed_place != place else ""
    clause = (
        f"{name[:60]!r} is required{_at_place(place)} but is not in `properties`, and `{keyword}`"
        f"{elsewhere} is false"
    )
    similar = similar_name(name, schema) if closed is schema else ""
    return Impossibility(clause, (*place, "required"), missing=name, similar=similar)
