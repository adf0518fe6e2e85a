"""Safe rewrites of a schema: ready for strict mode, ready for Gemini, without `$ref`. Pure.

What cannot be kept is listed; nothing raises, and the work is bounded by the caps of
`schema_checks` and `rewrite_parts`. The input passes `schema_checks`, and so does the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.core.settings import PROTOCOLS
from app.protocols.gemini.lint import too_many_items
from app.protocols.gemini.rewrite import Gemini
from app.protocols.rewrite_parts import (
    MOST_NODES,
    Losses,
    SchemaTooLarge,
    branches_of,
    inline,
    without_items,
    without_patterns,
)
from app.protocols.rewrite_strict import Strict
from app.schema import schema_checks
from app.schema.keywords import is_local, pointer, resolve

STRICT_PROTOCOLS = ("anthropic", "openai_chat", "openai_responses")
_UNCHANGED = "Nothing was changed"


@dataclass(frozen=True)
class Rewrite:
    """`lost` are sentences about meaning that could not be kept; () where both schemas accept
    and refuse the same values, seen through `restored`. `nullable` are the pointers of properties
    that were optional: null now stands for absent there.
    """

    parameters: Mapping[str, Any]
    lost: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()


def strict_ready(schema: Mapping[str, Any], protocol: str = "") -> Rewrite:
    """`schema` as the strict mode of `protocol` wants it; "" is that of all who have one.

    What a model is told no longer by a keyword it is told in the description.
    """
    losses = Losses()
    strict = Strict((protocol,) if protocol else STRICT_PROTOCOLS, losses)
    result = strict.whole(schema)
    return _rewrite(schema, result, losses, tuple(sorted(map(pointer, strict.nullable))))


def gemini_ready(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` in what Gemini's own `parameters` know: `nullable` instead of a type null."""
    losses = Losses()
    try:
        result = Gemini(losses).whole(schema)
    except SchemaTooLarge:
        return _too_large(schema)
    return _rewrite(schema, result, losses)


def without_refused(schema: Mapping[str, Any], protocols: Sequence[str] = PROTOCOLS) -> Rewrite:
    """`schema` without the patterns that OpenAI cannot compile and, where its lists are too many
    for Gemini, without their maxItems; for `protocols` alone. Both are told in descriptions.
    """
    losses = Losses()
    result: Mapping[str, Any] = schema
    if not {"openai_chat", "openai_responses"}.isdisjoint(protocols):
        result = without_patterns(result, losses)
    if "gemini" in protocols and too_many_items(result) is not None:
        result = without_items(result, losses)
    return _rewrite(schema, result, losses)


def inline_refs(schema: Mapping[str, Any]) -> Rewrite:
    """`schema` with every `$ref` replaced by what it names, but for those without an end."""
    losses = Losses()
    try:
        result = inline(schema, losses)
    except SchemaTooLarge:
        return _too_large(schema)
    return _rewrite(schema, result, losses)


def _too_large(schema: Mapping[str, Any]) -> Rewrite:
    sentence = f"{_UNCHANGED}: with its references written out the schema has more than "
    return Rewrite(schema, (f"{sentence}{MOST_NODES:,} values.",))


def _rewrite(
    schema: Mapping[str, Any],
    result: Mapping[str, Any],
    losses: Losses,
    nullable: tuple[str, ...] = (),
) -> Rewrite:
    wrong = schema_checks.fault(result)
    if wrong is not None:
        return Rewrite(schema, (f"{_UNCHANGED}: {wrong[0]}",))
    return Rewrite(result, losses.all(), nullable)


def restore(schema: Mapping[str, Any], value: Any) -> Any:
    """A value of a strict-ready schema as the original `schema` has it: without the nulls that
    stand for absent, which are those of optional properties that take no null themselves.

    Where choices differ about a property, its null is left alone.
    """
    return _restore(schema, [schema], value, 0)


_DEEPEST = 64


def _restore(root: Mapping[str, Any], schemas: list[Any], value: Any, depth: int) -> Any:
    if depth > _DEEPEST or not isinstance(value, dict | list):
        return value
    applied = _applied(root, schemas)
    if isinstance(value, list):
        items = [part["items"] for part in applied if "items" in part]
        return [_restore(root, items, item, depth + 1) for item in value]
    result = {}
    for name, item in value.items():
        holders = [each for each in applied if name in _properties(each)]
        inner = [_properties(each)[name] for each in holders]
        optional = all(name not in (each.get("required") or ()) for each in holders)
        refuses_null = not any(_takes_null(root, each, {}) for each in inner)
        if item is None and holders and optional and refuses_null:
            continue
        result[name] = _restore(root, inner, item, depth + 1)
    return result


def _applied(root: Mapping[str, Any], schemas: list[Any]) -> list[Mapping[str, Any]]:
    """The schemas and those that they apply to the same value, each once."""
    result: dict[int, Mapping[str, Any]] = {}
    todo = list(schemas)
    while todo:
        node = todo.pop()
        if not isinstance(node, Mapping) or id(node) in result:
            continue
        result[id(node)] = node
        ref = node.get("$ref")
        if isinstance(ref, str) and is_local(ref):
            todo.append(resolve(root, ref))
        for keyword in ("allOf", "anyOf", "oneOf"):
            todo.extend(branches_of(node, keyword))
    return list(result.values())


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    value = schema.get("properties")
    return value if isinstance(value, Mapping) else {}


def _takes_null(root: Mapping[str, Any], schema: Any, seen: dict[int, bool]) -> bool:
    """Whether a schema takes null, as far as types, values and choices tell; one that leads back
    to itself may. Each is looked at once: `seen` is what is known of it."""
    if not isinstance(schema, Mapping):
        return schema is True
    if id(schema) not in seen:
        seen[id(schema)] = True
        seen[id(schema)] = _null_fits(root, schema, seen)
    return seen[id(schema)]


def _null_fits(root: Mapping[str, Any], schema: Mapping[str, Any], seen: dict[int, bool]) -> bool:
    kinds = schema.get("type")
    if kinds is not None and "null" not in (kinds if isinstance(kinds, list) else [kinds]):
        return False
    if schema.get("const") is not None or None not in schema.get("enum", (None,)):
        return False
    ref = schema.get("$ref")
    if isinstance(ref, str) and is_local(ref) and not _takes_null(root, resolve(root, ref), seen):
        return False
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            several = branches_of(schema, keyword)
            if not any(_takes_null(root, branch, seen) for branch in several):
                return False
    return all(_takes_null(root, branch, seen) for branch in branches_of(schema, "allOf"))
