"""Takes the nulls out of a value of a strict-ready schema, to compare it with the original."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playground.protocols.rewrite_parts import branches_of
from playground.schema.schema_checks import is_local, resolve

_DEEPEST = 64


def restore(schema: Mapping[str, Any], value: Any) -> Any:
    """A value of a strict-ready schema as the original `schema` has it: without the nulls that
    stand for absent, which are those of optional properties that take no null themselves.

    Where choices differ about a property, its null is left alone.
    """
    return _restore(schema, [schema], value, 0)


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


def _takes_null(root: Mapping[str, Any], schema: Any, known_results: dict[int, bool]) -> bool:
    """Whether a schema takes null, as far as types, values and choices tell; one that leads back
    to itself may. Each is looked at once: `seen` is what is known of it."""
    if not isinstance(schema, Mapping):
        return schema is True
    if id(schema) not in known_results:
        known_results[id(schema)] = True
        known_results[id(schema)] = _null_fits(root, schema, known_results)
    return known_results[id(schema)]


def _null_fits(
    root: Mapping[str, Any], schema: Mapping[str, Any], known_results: dict[int, bool]
) -> bool:
    kinds = schema.get("type")
    if kinds is not None and "null" not in (kinds if isinstance(kinds, list) else [kinds]):
        return False
    if schema.get("const") is not None or None not in schema.get("enum", (None,)):
        return False
    ref = schema.get("$ref")
    if (
        isinstance(ref, str)
        and is_local(ref)
        and not _takes_null(root, resolve(root, ref), known_results)
    ):
        return False
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            several = branches_of(schema, keyword)
            if not any(_takes_null(root, branch, known_results) for branch in several):
                return False
    return all(_takes_null(root, branch, known_results) for branch in branches_of(schema, "allOf"))
