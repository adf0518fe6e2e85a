"""The schemas written inside a schema, as a provider's checks walk through them. No refs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = ("items", "not", "if", "then", "else", "contains", "propertyNames")
_CLOSING = ("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "additionalItems")

Path = tuple[str, ...]


def inner(schema: Any) -> Iterator[tuple[Path, Any]]:
    """The schemas one step inside, with the steps. A closing keyword is one only as an object."""
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            for name, one in value.items():
                yield (key, str(name)), one
        elif (key in _LISTED or key == "items") and isinstance(value, list):
            for place, one in enumerate(value):
                yield (key, str(place)), one
        elif (key in _ONE and isinstance(value, Mapping | bool)) or (
            key in _CLOSING and isinstance(value, Mapping)
        ):
            yield (key,), value


def all_written(schema: Any) -> list[tuple[Path, Any, int]]:
    """(path, schema, levels from the root or from the definition it stands in, from 1)."""
    found: list[tuple[Path, Any, int]] = [((), schema, 1)]
    for path, one, depth in found:  # grows while it is read
        for steps, below in inner(one):
            level = 1 if steps[0] in ("$defs", "definitions") else depth + 1
            found.append(((*path, *steps), below, level))
    return found


def pointed(root: Any, reference: str) -> Any:
    """What a local reference names, or {}."""
    found = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        elif name:
            found = found.get(name) if isinstance(found, Mapping) else None
    return {} if found is None else found
