"""What the rewrites share: the losses they tell, choices that exclude each other, merging."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.schema.keywords import Place
from app.schema.lint_rules import at

ANNOTATIONS = (
    *("title", "description", "default", "examples", "$comment", "deprecated", "readOnly"),
    *("writeOnly",),
)
"""Keywords that no value is refused for."""

KINDS = ("string", "number", "boolean", "object", "array", "null")
_MINS, _MAXS = ("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")
_LEAST = (*_MINS, "minLength", "minItems", "minProperties")
_MOST = (*_MAXS, "maxLength", "maxItems", "maxProperties")


class Losses:
    """Sentences about meaning that was not kept, each once, in the order they came."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}

    def add(self, sentence: str, place: Place) -> None:
        self._told.setdefault(f"{sentence}{at(place)}.")

    def all(self) -> tuple[str, ...]:
        return tuple(self._told)


def described(schema: dict[str, Any], dropped: Mapping[str, Any]) -> dict[str, Any]:
    """`schema` with what was dropped told to the model in the description."""
    if not dropped:
        return schema
    words = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in dropped.items()]
    said = f"({'; '.join(words)})"
    before = schema.get("description")
    return {**schema, "description": f"{before} {said}" if isinstance(before, str) else said}


def types_of(schema: Any) -> frozenset[str]:
    """The JSON types that a schema may take, as far as it says at once; integers are numbers."""
    if not isinstance(schema, Mapping):
        return frozenset(KINDS)
    given = schema.get("type")
    if given is None and "const" in schema:
        given = kind_of(schema["const"])
    if given is None and isinstance(schema.get("enum"), list):
        given = [kind_of(value) for value in schema["enum"]]
    if given is None and isinstance(schema.get("anyOf"), list):
        return frozenset(kind for one in schema["anyOf"] for kind in types_of(one))
    if given is None:
        return frozenset(KINDS)
    several = given if isinstance(given, list) else [given]
    return frozenset("number" if one == "integer" else one for one in several)


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
    """Whether no value can satisfy two of these schemas, as far as can be seen at once."""
    return all(
        _apart(one, other) for index, one in enumerate(several) for other in several[index + 1 :]
    )


def _apart(one: Any, other: Any) -> bool:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    if not types_of(one) & types_of(other):
        return True
    mine, others = _values(one), _values(other)
    if mine is not None and others is not None:
        return not mine & others
    if types_of(one) != {"object"} or types_of(other) != {"object"}:
        return False
    common = set(one.get("required") or ()) & set(other.get("required") or ())
    for name in common:
        left = _values((one.get("properties") or {}).get(name))
        right = _values((other.get("properties") or {}).get(name))
        if left is not None and right is not None and not left & right:
            return True
    return False


def _values(schema: Any) -> frozenset[str] | None:
    """The only values a schema takes, spelled; None where it lists none."""
    if not isinstance(schema, Mapping):
        return None
    if "const" in schema:
        return frozenset((_spelled(schema["const"]),))
    if isinstance(schema.get("enum"), list):
        return frozenset(map(_spelled, schema["enum"]))
    return None


def _spelled(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """A schema that takes what both take, or None where this cannot be said in one."""
    whole = dict(one)
    if (_mixes(one) or _mixes(other)) and _assertions(one) and _assertions(other):
        return None
    for key, value in other.items():
        if key not in whole or whole[key] == value or key in ANNOTATIONS:
            whole.setdefault(key, value)
            continue
        joined = _joined(key, whole[key], value)
        if joined is None:
            return None
        whole[key] = joined
    return whole


def _assertions(schema: Mapping[str, Any]) -> set[str]:
    return set(schema) - set(ANNOTATIONS)


def _mixes(schema: Mapping[str, Any]) -> bool:
    """Keywords that mean something else beside others."""
    odd = (
        *("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items"),
        *("prefixItems", "patternProperties", "if", "then", "else", "contains", "$ref"),
        *("additionalItems", "minContains", "maxContains"),
    )
    return any(key in schema for key in odd)


def _joined(key: str, mine: Any, other: Any) -> Any:
    """The value of a keyword that means both, or None."""
    if key == "type":
        left = mine if isinstance(mine, list) else [mine]
        right = other if isinstance(other, list) else [other]
        both = [one for one in left if one in right]
        return (both[0] if len(both) == 1 else both) if both else None
    if key == "required":
        return [*mine, *(name for name in other if name not in mine)]
    if key == "enum":
        both = [value for value in mine if value in other]
        return both or None
    if key == "properties":
        if any(name in mine and mine[name] != other[name] for name in other):
            return None
        return {**mine, **other}
    if key in _LEAST:
        return max(mine, other)
    return min(mine, other) if key in _MOST else None


def folded(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """`schema` with the branches of its `allOf` taken in where that can be; whether all were."""
    branches = schema.get("allOf")
    if not isinstance(branches, list):
        return dict(schema), True
    whole: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
    done = True
    for branch in branches:
        if branch is True:
            continue
        joined = merged(whole, branch) if isinstance(branch, Mapping) else None
        if joined is None:
            done = False
        else:
            whole = joined
    return (folded(whole)[0], done and folded(whole)[1]) if "allOf" in whole else (whole, done)


def branches_of(schema: Mapping[str, Any], keyword: str) -> Iterator[Any]:
    several = schema.get(keyword)
    yield from several if isinstance(several, list) else ()


_BESIDE = ("title", "description", "$schema", "$id", "$comment", "examples", "anyOf")


def spread(node: dict[str, Any], losses: Losses, place: Place) -> list[Any]:
    """The choices of `anyOf`, with what stands beside them taken out of `node` into each: it holds
    for all of them.
    """
    rest = {key: node.pop(key) for key in [key for key in node if key not in _BESIDE]}
    several = list(branches_of(node, "anyOf"))
    if not rest:
        return several
    both = [merged(rest, {} if one is True else one) for one in several if one is not False]
    if all(one is not None for one in both):
        return both
    losses.add(f"{', '.join(rest)} beside anyOf is no longer checked", place)
    return several
