"""Common steps of the rewrites: recording losses, merging schemas, inlining `$ref`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from playground.protocols.openai_chat.limits import takes_pattern
from playground.protocols.tool_limits import place_phrase, recursive_refs
from playground.schema.schema_checks import Place, is_local, resolve, subschemas

ANNOTATIONS = (
    *("title", "description", "default", "examples", "$comment", "deprecated", "readOnly"),
    *("writeOnly",),
)
"""Keywords that never reject a value."""

UNJUDGED = (*ANNOTATIONS, "$schema", "$id", "$anchor", "$defs", "definitions")
"""These, and keywords that do not concern the value."""

KINDS = ("string", "number", "boolean", "object", "array", "null")
_MINS, _MAXS = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_LEAST = (*_MINS, "minLength", "minItems", "minProperties")
_MOST = (*_MAXS, "maxLength", "maxItems", "maxProperties")

_ODD = (
    *("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items"),
    *("prefixItems", "patternProperties", "if", "then", "else", "contains", "$ref"),
    *("additionalItems", "minContains", "maxContains"),
)
"""Keywords whose meaning depends on others."""

_BESIDE = ("title", "description", "$schema", "$id", "$comment", "examples", "anyOf")

MOST_NODES = 20_000
_OLD = ("draft-04", "draft-06", "draft-07")
_DEFINITIONS = ("$defs", "definitions")


class Losses:
    """Sentences about lost meaning, in order, without repetition; `refused` are lint's sentences
    about what the result would still be refused for."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}
        self.refused: list[str] = []

    def add(self, sentence: str, place: Place) -> None:
        self._told.setdefault(f"{sentence}{place_phrase(place)}.")

    def sentences(self) -> tuple[str, ...]:
        return tuple(self._told)


def add_to_description(schema: dict[str, Any], dropped: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` with dropped constraints in the description, for the model."""
    if not dropped:
        return schema
    words = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in dropped.items()]
    suffix = f"({'; '.join(words)})"
    before = schema.get("description")
    return {**schema, "description": f"{before} {suffix}" if isinstance(before, str) else suffix}


def without_items(schema: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """`schema` without maxItems, which are moved to descriptions."""
    return change_subschemas(schema, lambda node, place: _no_most(node, losses, place))


def _no_most(node: dict[str, Any], losses: Losses, place: Place) -> dict[str, Any]:
    if "maxItems" not in node:
        return node
    losses.add("maxItems is no longer checked", place)
    return add_to_description(node, {"maxItems": node.pop("maxItems")})


def without_patterns(schema: Mapping[str, Any], losses: Losses) -> dict[str, Any]:
    """`schema` without the patterns that OpenAI refuses, which are moved to descriptions."""
    return change_subschemas(schema, lambda node, place: _no_pattern(node, losses, place))


def _no_pattern(node: dict[str, Any], losses: Losses, place: Place) -> dict[str, Any]:
    patterns, pattern = node.get("patternProperties"), node.get("pattern")
    if isinstance(patterns, Mapping) and not all(map(takes_pattern, patterns)):
        losses.add("patternProperties is no longer checked", place)
        node["patternProperties"] = {
            key: below for key, below in patterns.items() if takes_pattern(key)
        }
    if not isinstance(pattern, str) or takes_pattern(pattern):
        return node
    losses.add("pattern is no longer checked", place)
    return add_to_description(node, {"pattern": node.pop("pattern")})


def change_subschemas(
    schema: Mapping[str, Any],
    change: Callable[[dict[str, Any], Place], dict[str, Any]],
    place: Place = (),
) -> dict[str, Any]:
    """`schema` with each schema inside it changed, inner before outer. Does not follow refs; a
    schema that is not an object stays unchanged."""
    result = dict(schema)
    for inner, node in subschemas(schema, place):
        if not isinstance(node, Mapping):
            continue
        keyword, steps = str(inner[len(place)]), inner[len(place) + 1 :]
        below = change_subschemas(node, change, inner)
        match steps:
            case ():
                result[keyword] = below
            case (int() as index,):
                result[keyword] = [*result[keyword]]
                result[keyword][index] = below
            case (name,):
                result[keyword] = {**result[keyword], name: below}
    return change(result, place)


def types_of(schema: Any) -> frozenset[str]:
    """The JSON types that a schema may accept, as directly visible; integers count as numbers."""
    if not isinstance(schema, Mapping):
        return frozenset(KINDS)
    types = schema.get("type")
    if types is None and "const" in schema:
        types = kind_of(schema["const"])
    if types is None and isinstance(schema.get("enum"), list):
        types = [kind_of(value) for value in schema["enum"]]
    if types is None and isinstance(schema.get("anyOf"), list):
        return frozenset(kind for branch in schema["anyOf"] for kind in types_of(branch))
    if types is None:
        return frozenset(KINDS)
    several = types if isinstance(types, list) else [types]
    return frozenset("number" if kind == "integer" else kind for kind in several)


def kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object" if isinstance(value, Mapping) else "number"


def exclude_each_other(several: Sequence[Any]) -> bool:
    """Whether no value can satisfy two of these schemas, as directly visible: by their types, by
    their listed values, or by a property that distinguishes objects. Linear."""
    by_kind: dict[str, list[Any]] = {}
    for branch in several:
        for kind in types_of(branch):
            by_kind.setdefault(kind, []).append(branch)
    return all(len(those) < 2 or _are_disjoint(kind, those) for kind, those in by_kind.items())


def _are_disjoint(kind: str, several: Sequence[Any]) -> bool:
    """Whether schemas that all may accept a value of this kind accept different ones."""
    if not all(isinstance(branch, Mapping) for branch in several):
        return False
    if _differ(several):
        return True
    if kind != "object":
        return False
    names = set.intersection(*(set(branch.get("required") or ()) for branch in several))
    return any(
        _differ([(branch.get("properties") or {}).get(name) for branch in several])
        for name in names
    )


def _differ(several: Sequence[Any]) -> bool:
    """Whether each lists its values, and the lists are disjoint."""
    seen: set[str] = set()
    for branch in several:
        values = _values(branch)
        if values is None or values & seen:
            return False
        seen |= values
    return True


def _values(schema: Any) -> frozenset[str] | None:
    """The only values a schema accepts, as text; None if it lists none."""
    if not isinstance(schema, Mapping):
        return None
    if "const" in schema:
        return frozenset((canonical_text(schema["const"]),))
    if isinstance(schema.get("enum"), list):
        return frozenset(map(canonical_text, schema["enum"]))
    return None


def canonical_text(value: Any) -> str:
    """A text that is equal for equal values by JSON Schema: 1 equals 1.0, but not true."""
    return json.dumps(_integers_for_floats(value), sort_keys=True)


def _integers_for_floats(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_integers_for_floats(item) for item in value]
        case Mapping():
            return {key: _integers_for_floats(item) for key, item in value.items()}
    return value


def is_equal(first: Any, second: Any) -> bool:
    """Whether two values are equal by JSON Schema; fast if they differ."""
    match first, second:
        case (bool(), _) | (_, bool()):
            return first is second
        case (list(), list()):
            return len(first) == len(second) and all(map(is_equal, first, second))
        case (Mapping(), Mapping()):
            return first.keys() == second.keys() and all(
                is_equal(first[key], second[key]) for key in first
            )
    return bool(first == second)


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any] | None:
    """A schema that accepts what both accept, or None if that cannot be expressed in one."""
    whole = dict(first)
    if _has_odd_keyword(first) or _has_odd_keyword(second):
        both = {key for key in first if key not in _ODD and key in second}
        both = {key for key in both if is_equal(first[key], second[key])}
        if first.keys() - both - {*UNJUDGED} and second.keys() - both - {*UNJUDGED}:
            return None
    for key, value in second.items():
        if key not in whole or key in UNJUDGED or is_equal(whole[key], value):
            whole.setdefault(key, value)
            continue
        common = _merge_member(key, whole[key], value)
        if common is None:
            return None
        whole[key] = common
    return whole


def _has_odd_keyword(schema: Mapping[str, Any]) -> bool:
    return any(key in schema for key in _ODD)


def _merge_member(key: str, mine: Any, theirs: Any) -> Any:
    """The value of a keyword that means both, or None."""
    if key == "type":
        left = mine if isinstance(mine, list) else [mine]
        right = theirs if isinstance(theirs, list) else [theirs]
        both = [value for value in left if value in right]
        return (both[0] if len(both) == 1 else both) if both else None
    if key == "required":
        return list(dict.fromkeys((*mine, *theirs)))
    if key == "enum":
        their_texts = set(map(canonical_text, theirs))
        return [value for value in mine if canonical_text(value) in their_texts] or None
    if key == "properties":
        if any(name in mine and not is_equal(mine[name], theirs[name]) for name in theirs):
            return None
        return {**mine, **theirs}
    if key in _LEAST:
        return max(mine, theirs)
    return min(mine, theirs) if key in _MOST else None


def merge_all_of(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """`schema` with the branches of its `allOf` merged where possible; and whether all were."""
    branches = schema.get("allOf")
    if not isinstance(branches, list):
        return dict(schema), True
    whole: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    complete = True
    for branch in branches:
        if branch is True:
            continue
        inner, fits = merge_all_of(branch) if isinstance(branch, Mapping) else (None, False)
        result = None if inner is None else merge(whole, inner)
        complete = complete and fits and result is not None
        whole = whole if result is None else result
    return whole, complete


def branches_of(schema: Any, keyword: str) -> Iterator[Any]:
    several = schema.get(keyword) if isinstance(schema, Mapping) else None
    yield from several if isinstance(several, list) else ()


def spread_any_of(node: dict[str, Any], losses: Losses, place: Place) -> list[Any]:
    """The choices of `anyOf`, into each of which the neighbours are moved from `node`: they apply
    to all."""
    rest = {key: node.pop(key) for key in [key for key in node if key not in _BESIDE]}
    several = list(branches_of(node, "anyOf"))
    if not rest:
        return several
    both = [
        merge(rest, {} if branch is True else branch) for branch in several if branch is not False
    ]
    if all(branch is not None for branch in both):
        return both
    losses.add(f"{', '.join(rest)} next to anyOf is no longer checked", place)
    return several


# Replaces every `$ref` by its target, if that ends and does not grow too large.


class SchemaTooLarge(Exception):
    """The expanded schema would be too large."""


def inline(schema: Mapping[str, Any], losses: Losses, *, cut: bool = False) -> dict[str, Any]:
    """`schema` without refs; recursive ones stay, bare, or are cut off.

    SchemaTooLarge if the result would have more than MOST_NODES values.
    """
    return _Inliner(schema, losses, cut).inline_root()


class _Inliner:
    def __init__(self, root: Mapping[str, Any], losses: Losses, cut: bool) -> None:
        self.root, self.losses, self.cut = root, losses, cut
        self.recursive = recursive_refs(root)
        # Before draft 2019-09, neighbours of a `$ref` were ignored.
        self.alone = any(draft in str(root.get("$schema", "")) for draft in _OLD)
        self.begun: set[str] = set()
        self.written = 0

    def inline_root(self) -> dict[str, Any]:
        keep = bool(self.recursive) and not self.cut
        result: dict[str, Any] = self.inline_value(
            {key: value for key, value in self.root.items() if keep or key not in _DEFINITIONS}, ()
        )
        return result

    def inline_value(self, value: Any, place: Place) -> Any:
        """A copy of any value of a schema with its refs replaced."""
        self.written += 1
        if self.written > MOST_NODES:
            raise SchemaTooLarge
        if isinstance(value, list):
            return [self.inline_value(item, (*place, index)) for index, item in enumerate(value)]
        if not isinstance(value, Mapping):
            return value
        ref = value.get("$ref")
        if isinstance(ref, str) and is_local(ref) and not _is_data(place):
            return self.inline_ref(value, ref, place)
        return {
            key: member if key in ("enum", "const", "default", "examples") and not _is_name(place)
            else self.inline_value(member, (*place, key))
            for key, member in value.items()
        }  # fmt: skip

    def inline_ref(self, value: Mapping[str, Any], ref: str, place: Place) -> Any:
        beside = {key: member for key, member in value.items() if key != "$ref"}
        if self.alone:
            beside = {key: member for key, member in beside.items() if key in UNJUDGED}
        beside = self.inline_value(beside, place)
        if ref in self.recursive and not self.is_first_root_ref(ref, place):
            return self.recursive_ref(ref, beside, place)
        target = self.inline_value(resolve(self.root, ref), place)
        if not beside:
            return target
        if isinstance(target, bool):
            return beside if target else False
        both = {**target, **beside} if not set(beside) - set(UNJUDGED) else None
        both = both if both is not None else merge(beside, target)
        return {**beside, "allOf": [*beside.get("allOf", ()), target]} if both is None else both

    def is_first_root_ref(self, ref: str, place: Place) -> bool:
        """Whether this refers to the root schema, which is expanded once: arguments are an object,
        and a provider must see it."""
        outermost = not place or (len(place) == 2 and place[0] == "allOf")
        if not outermost or ref in self.begun:
            return False
        self.begun.add(ref)
        return True

    def recursive_ref(self, ref: str, beside: Mapping[str, Any], place: Place) -> Any:
        """A recursive ref has no finite expansion."""
        if self.cut:
            self.losses.add(f"The schema {ref}, which refers to itself, is not checked", place)
            return {
                key: member for key, member in beside.items() if key in ("title", "description")
            }
        real = {key: member for key, member in beside.items() if key not in ANNOTATIONS}
        bare = {"$ref": ref}
        return {**real, "allOf": [*real.get("allOf", ()), bare]} if real else bare


def _is_name(place: Place) -> bool:
    """Whether the last step is a name rather than a keyword: `/properties` and similar."""
    return _is_name_map(place)


def _is_name_map(place: Place) -> bool:
    """Whether the value at `place` maps names to schemas."""
    keywords = (
        *("properties", "patternProperties", "$defs", "definitions"),
        *("dependentSchemas", "dependencies", "dependentRequired"),
    )
    inside = False
    for step in place:
        inside = not inside and step in keywords
    return inside


def _is_data(place: Place) -> bool:
    """Whether a member "$ref" at `place` is the name of a property."""
    return _is_name_map(place)
