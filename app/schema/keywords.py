"""Walks the schemas inside a JSON Schema and follows a local `$ref`.

Knows no validator. https://json-schema.org/draft/2020-12/json-schema-core#section-10
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any] | bool

SAME_ONE = ("not", "if", "then", "else")
SAME_MANY = ("allOf", "anyOf", "oneOf")
SAME_NAMED = ("dependentSchemas", "dependencies")
"""Applied to the very value the schema stands for."""

CHILD_ONE = (
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "items",
    "additionalItems",
    "contains",
    "unevaluatedItems",
)
CHILD_MANY = ("prefixItems", "items")
CHILD_NAMED = ("properties", "patternProperties")
"""Applied to the members of an object or the items of an array."""

ASIDE_NAMED = ("$defs", "definitions")
"""Applied to nothing until a `$ref` names them."""

Place = tuple[str | int, ...]


def pointer(place: Place) -> str:
    """The JSON pointer (RFC 6901) of a place: ("a/b", 0) is `/a~1b/0`."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in place)


def subschemas(schema: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """The schemas one step inside `schema`, with their places; what is no schema is left out."""
    if not isinstance(schema, Mapping):
        return
    for keyword, value in schema.items():
        if keyword in SAME_ONE + CHILD_ONE and isinstance(value, Mapping | bool):
            yield (*place, keyword), value
        elif keyword in SAME_MANY + CHILD_MANY and isinstance(value, list):
            for index, item in enumerate(value):
                yield (*place, keyword, index), item
        elif keyword in SAME_NAMED + CHILD_NAMED + ASIDE_NAMED and isinstance(value, Mapping):
            for name, item in value.items():
                if not isinstance(item, list):  # a `dependencies` entry may be a list of names
                    yield (*place, keyword, name), item


def all_subschemas(schema: Any) -> Iterator[tuple[Place, Any]]:
    """`schema` and every schema written inside it, with its place; refs are not followed."""
    todo: list[tuple[Place, Any]] = [((), schema)]
    while todo:
        place, inner = todo.pop()
        yield place, inner
        todo.extend(subschemas(inner, place))


def is_local(ref: Any) -> bool:
    """Whether a `$ref` is one this program follows: `#` or `#/...`, within the same schema."""
    return isinstance(ref, str) and (ref == "#" or ref.startswith("#/"))


def resolve(root: Any, ref: str) -> Any:
    """What a local `$ref` names, or None where there is nothing at that place."""
    here = root
    for step in ref[1:].split("/")[1:]:
        name = _unescaped(step)
        match here:
            case Mapping() if name in here:
                here = here[name]
            case list() if name.isascii() and name.isdigit() and int(name[:9]) < len(here):
                here = here[int(name[:9])]
            case _:
                return None
    return here


def _unescaped(step: str) -> str:
    """One step of a pointer in a URI fragment: percent signs first, then `~1` and `~0`."""
    if "%" in step:
        pieces = step.encode().split(b"%")
        raw = pieces[0]
        for piece in pieces[1:]:
            try:
                raw += bytes.fromhex(piece[:2].decode("ascii")) + piece[2:]
            except ValueError:
                raw += b"%" + piece
        step = raw.decode("utf-8", "replace")
    return step.replace("~1", "/").replace("~0", "~")


# The schemas written inside a schema, as a provider's checks walk through them. No refs.


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
            for name, below in value.items():
                yield (key, str(name)), below
        elif (key in _LISTED or key == "items") and isinstance(value, list):
            for place, below in enumerate(value):
                yield (key, str(place)), below
        elif (key in _ONE and isinstance(value, Mapping | bool)) or (
            key in _CLOSING and isinstance(value, Mapping)
        ):
            yield (key,), value


def schemas_with_depth(schema: Any) -> list[tuple[Path, Any, int]]:
    """(path, schema, levels from the root or from the definition it stands in, from 1)."""
    result: list[tuple[Path, Any, int]] = [((), schema, 1)]
    for path, node, depth in result:  # grows while it is read
        for steps, below in inner(node):
            level = 1 if steps[0] in ("$defs", "definitions") else depth + 1
            result.append(((*path, *steps), below, level))
    return result


def at_pointer(root: Any, reference: str) -> Any:
    """What a local reference names, or {}."""
    node = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        elif name:
            node = node.get(name) if isinstance(node, Mapping) else None
    return {} if node is None else node
