"""Checks whether a JSON Schema can be used, and builds its validator. Fetches nothing.

Every validator tried fetches a remote `$ref` by default; here such a schema is refused before the
validator sees it, and the validator also gets a retriever that raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NoReturn, Protocol

import jsonschema_rs

from app.core.arguments import name_of_step, pointer_step
from app.core.tools import TOOLS_IN_USE, Same

# Walks through the schemas inside a schema, and follows a local `$ref`.
# https://json-schema.org/draft/2020-12/json-schema-core#section-10

Schema = Mapping[str, Any] | bool

SAME_ONE = ("not", "if", "then", "else")
SAME_MANY = ("allOf", "anyOf", "oneOf")
SAME_NAMED = ("dependentSchemas", "dependencies")
"""Applied to the same value as the schema itself."""

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
OF_NAMES = (*CHILD_NAMED, *ASIDE_NAMED, "dependentSchemas")
"""Keywords whose members are schemas by name; the names are arbitrary."""
"""Not applied unless a `$ref` names them."""

Place = tuple[str | int, ...]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def pointer(place: Place) -> str:
    """The JSON pointer (RFC 6901) of a place: ("a/b", 0) is `/a~1b/0`."""
    return "".join(f"/{pointer_step(str(step))}" for step in place)


def subschemas(schema: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """The schemas one step inside `schema`, with their places; other values are skipped."""
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
    """The target of a local `$ref`, or None if it does not exist."""
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
    return name_of_step(step)


MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64

_DRAFTS: dict[str, Any] = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=20_000)

Fault = tuple[str, str]
"""(sentence, JSON pointer within the schema)."""


class Validator(Protocol):
    """The methods of jsonschema-rs validators that are used."""

    def is_valid(self, value: Any, /) -> bool: ...
    def iter_errors(self, value: Any, /) -> Any: ...


def fault(schema: Any) -> Fault | None:
    """Why `schema` cannot be used, or None. Linear in its size; never raises."""
    try:
        return _form_fault(schema) or _ref_fault(schema) or _meta_fault(schema)
    except RecursionError:
        return f"A schema may be nested {MAX_SCHEMA_DEPTH} levels deep; flatten it.", ""


@lru_cache(maxsize=TOOLS_IN_USE)
def usable(same: Same[Any]) -> Fault | Validator:
    """The validator of an immutable schema, or its `fault`."""
    return fault(same.value) or validator(same.value)


def validator(schema: Mapping[str, Any]) -> Validator:
    """The validator of a schema without `fault`. `format` is checked, if known."""
    result: Validator = _draft(schema)(
        _without_draft(schema),
        retriever=_refuse,
        validate_formats=True,
        pattern_options=_PATTERNS,
    )
    return result


def _refuse(uri: str) -> NoReturn:
    raise LookupError("a schema outside this one is never fetched")


def _draft(schema: Mapping[str, Any]) -> Any:
    draft = str(schema.get("$schema", "")).rstrip("#")
    return _DRAFTS.get(draft, jsonschema_rs.Draft202012Validator)


def _without_draft(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The draft was chosen above; the validator must not look up an unknown one."""
    return {key: value for key, value in schema.items() if key != "$schema"}


def _form_fault(schema: Any) -> Fault | None:
    if not isinstance(schema, Mapping):
        return 'A schema is a JSON object, like {"type": "object", "properties": {}}.', ""
    try:
        size = len(json.dumps(schema, ensure_ascii=False).encode("utf-8"))
    except UnicodeEncodeError:
        return "The schema holds half of a surrogate pair, which is not a character; remove it.", ""
    except (TypeError, ValueError):
        return "The schema holds something that is not JSON; remove it.", ""
    if size > MAX_SCHEMA_BYTES:
        return f"The schema has {size:,} bytes; at most {MAX_SCHEMA_BYTES:,} are allowed.", ""
    level: list[Any] = [schema]
    for _ in range(MAX_SCHEMA_DEPTH):
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, Mapping) else item)
            if isinstance(inner, Mapping | list)
        ]
    if level:
        return f"A schema may be nested {MAX_SCHEMA_DEPTH} levels deep; flatten it.", ""
    return None


def _ref_fault(schema: Mapping[str, Any]) -> Fault | None:
    for place, inner in all_subschemas(schema):
        if not isinstance(inner, Mapping):
            continue
        if "$ref" in inner:
            ref, where = inner["$ref"], pointer((*place, "$ref"))
            if not is_local(ref):
                message = (
                    "A $ref must point into this schema, like #/$defs/name; nothing is fetched."
                )
                return message, where
            if not isinstance(resolve(schema, ref), Mapping | bool):
                return f"There is no schema at {ref}; define it or correct the $ref.", where
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in inner:
                message = f"{keyword} is not supported here; use $ref."
                return message, pointer((*place, keyword))
        if "$id" in inner and place:
            message = "A schema within a schema may have no $id; remove it."
            return message, pointer((*place, "$id"))
    return None


def _meta_fault(schema: Mapping[str, Any]) -> Fault | None:
    try:
        validator(schema)
    except jsonschema_rs.ValidationError as error:
        place = tuple(error.instance_path)
        return _meta_sentence(place, error), pointer(place)
    except (ValueError, TypeError, LookupError, jsonschema_rs.ReferencingError) as error:
        place = _place_of_failure(schema)
        at = f" at {pointer(place)}" if place else ""
        return f"Invalid JSON Schema{at}: {str(error)[:200]}. Correct it.", pointer(place)
    return None


def _place_of_failure(schema: Mapping[str, Any]) -> tuple[str | int, ...]:
    """The first keyword for which alone no validator can be built; () if each can."""
    for place, inner in all_subschemas(schema):
        for keyword, value in inner.items() if isinstance(inner, Mapping) else ():
            if keyword in ("$ref", "$schema"):
                continue
            try:
                _draft(schema)({keyword: value}, retriever=_refuse, pattern_options=_PATTERNS)
            except jsonschema_rs.ReferencingError:
                continue
            except (ValueError, TypeError, LookupError):
                return (*place, keyword)
    return ()


def _meta_sentence(place: tuple[str | int, ...], error: jsonschema_rs.ValidationError) -> str:
    keyword, at = _keyword(place, error), pointer(place) or "its root"
    text = json.dumps(error.instance, ensure_ascii=False)[:80]
    match keyword:
        case "type":
            types = "array, boolean, integer, null, number, object or string"
            return f"{text} at {at} is not a type of JSON Schema; use {types}."
        case "pattern":
            return f"{text} at {at} is not a regular expression that can be used; correct it."
        case "required":
            return f'required at {at} must be a list of names, like ["city"]; correct it.'
    what = error.message if len(error.message) <= 200 else error.message[:200] + " ..."
    return f"Invalid JSON Schema at {at}, keyword {keyword}: {what}. Correct it."


def _keyword(place: tuple[str | int, ...], error: jsonschema_rs.ValidationError) -> str:
    """The invalid keyword: the last one of the place."""
    if list(error.schema_path)[-1:] == ["dependencies"]:  # the only two of draft 4
        return "exclusiveMinimum" if '"minimum"' in error.message else "exclusiveMaximum"
    steps = [step for step in place if isinstance(step, str)]
    is_named = len(steps) > 1 and steps[-2] in OF_NAMES and steps[-3:-2] != ["properties"]
    return steps[-2] if is_named else steps[-1] if steps else "type"


# The amount of work of a validation, counted before it starts.
#
# Theory of operation. No validator tried survives a schema whose `$ref`s fan out (eight levels of
# ten are 10^8 steps), and this layer has no process it could kill. So the steps are counted first:
# each (schema, value) pair is visited once and remembered, however often it would be evaluated, and
# its count is the sum over the pairs it leads to. The count is an upper bound: every branch is
# assumed to be evaluated. It ends early once it exceeds the cap, so counting is bounded, too.


MAX_STEPS = 2_000_000
"""The steps that jsonschema-rs takes for a boolean result in about half a second."""

_MAX_PAIRS = 200_000
_BACKTRACKING = re.compile(r"\(\?[=!<]|\\[1-9k]")
_BACKTRACKING_STEPS = 4_000
"""The maximum cost of one match if the pattern needs the backtracking engine (see `validate`)."""


class _TooMuch(Exception):
    """The count exceeds the cap, or is infinite."""


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
            total *= 3  # unevaluated keywords evaluate the others once more
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
            yield resolve(self.root, ref)
        for keyword in SAME_ONE:
            if keyword in schema:
                yield schema[keyword]
        for keyword in SAME_MANY:
            items = schema.get(keyword)
            yield from items if isinstance(items, list) else ()
        for keyword in SAME_NAMED:
            patterns = schema.get(keyword)
            yield from patterns.values() if isinstance(patterns, Mapping) else ()


def _identity(value: Any) -> object:
    """Scalars of one size cost the same; containers are distinguished."""
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
