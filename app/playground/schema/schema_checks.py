"""Checks whether a JSON Schema can be used, and builds its validator. Fetches nothing.

Every validator tried fetches a remote `$ref` by default; here such a schema is refused before the
validator sees it, and the validator also gets a retriever that raises.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NoReturn, Protocol
from urllib.parse import unquote

import jsonschema_rs

from playground.core.arguments import name_of_step, pointer_step
from playground.core.tools import IdentityKey

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

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_DEPTH = 64

_DRAFTS: dict[str, Any] = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema_rs.Draft202012Validator,
}

OLD_DRAFTS = tuple(f"http://json-schema.org/draft-0{number}/schema" for number in (4, 6, 7))
"""Drafts in which a `$ref` hides its sibling keywords."""

Fault = tuple[str, str]
"""(sentence, JSON pointer within the schema)."""

_BYTES_OF_TEXT = 250
"""The memory of a validator for each byte of its schema: 1 to 250 were measured, most below 30."""

MAX_VALIDATOR_BYTES = 64 * 1024 * 1024

_MOST_COMPILED_AGAIN = 2 * 1024 * 1024
"""Bytes of schemas and of their patterns, to find the keyword that cannot be used."""

MAX_PATTERN_BYTES = 8 * 1024 * 1024
"""The maximum size of one compiled pattern: `^\\S.{0,4998}\\S$` is that large."""

MAX_PATTERNS_BYTES = 12 * 1024 * 1024
"""The maximum size of all compiled patterns of a schema."""

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""The maximum size of all compiled patterns of all schemas of a document."""

MAX_PATTERN_LENGTH = 10_000

MAX_PATTERNS_LENGTH = 64_000
"""Characters; a Unicode property counts `_PROPERTY_LENGTH`."""

_SIZES = tuple(kib * 1024 for kib in (4, 32, 256, 1024, 2048, 4096, 8192))
_PROPERTY = re.compile(r"\\[pP]")
_PROPERTY_LENGTH = 50

_LITERAL = re.compile(r"\\[^1-9kKGgXR]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
"""An escaped character or a character class."""

_BACKTRACKING = re.compile(r"\(\?(?:[^:<PA-Za-z-]|<[=!]|P[^<])|\\|[*+?}]\+")

_PIECES = re.compile(r"[(|]|\\|[*+?}]\+")
"""What needs the backtracking engine, and where that may divide a pattern; without literals."""

_BACKTRACK_LIMIT = 20_000

_STATE_BYTES = 24
"""A compiled state takes at least so many bytes, and often four times as many."""

_COUNT = re.compile(r"\{[0-9]*,?[0-9]*\}")
_ATOM = re.compile(
    r"(?P<open>\((?:\?(?:[:=!>]|<[=!]|P?<[^>]*>|[A-Za-z-]*[:)]?))?)|(?P<close>\))|(?P<bar>\|)"
    r"|\{(?P<least>[0-9]+)(?P<more>,(?P<most>[0-9]*))?\}|(?P<other>[*+?])"
    r"|\\[pPxu]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.",
    re.DOTALL,
)
_MAX_STATES = 10**9

_document: ContextVar[_PatternBudget | None] = ContextVar("document", default=None)

MAX_STEPS = 2_000_000
"""The steps that jsonschema-rs takes for a boolean result in about half a second."""

_MAX_PAIRS = 200_000

_BACKTRACKING_STEPS = 4_000
"""The cost of `_BACKTRACK_LIMIT` steps of the backtracking engine, without the pieces it runs."""

_PIECE_STEPS = 20
"""The cost of all pieces it runs, for each state and character."""

_STATES_A_STEP = 9

_MAX_NESTED = 400
"""Schemas that lead to one another, each by a keyword, a reference or a member of the value."""


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
        name = unescaped_step(step)
        match here:
            case Mapping() if name in here:
                here = here[name]
            case list() if name.isascii() and name.isdigit() and int(name[:9]) < len(here):
                here = here[int(name[:9])]
            case _:
                return None
    return here


def unescaped_step(step: str) -> str:
    """One step of a pointer in a URI fragment: percent signs first, then `~1` and `~0`."""
    return name_of_step(unquote(step))


class Validator(Protocol):
    """The methods of jsonschema-rs validators that are used."""

    def is_valid(self, value: Any, /) -> bool: ...
    def iter_errors(self, value: Any, /) -> Any: ...


def fault(schema: Any) -> Fault | None:
    """Why `schema` cannot be used, or None. Linear in its size; never raises."""
    checked = _check_schema(schema)
    return checked if isinstance(checked, tuple) else None


def _check_schema(schema: Any) -> Fault | Validator:
    wrong = _form_fault(schema) or _ref_fault(schema) or _pattern_fault(schema)
    return wrong or _compile(schema)


def validator(schema: Mapping[str, Any]) -> Validator:
    """The validator of a schema without `fault`. `format` is checked, if known."""
    result: Validator = _draft(schema)(
        _without_draft(schema),
        retriever=_refuse,
        validate_formats=True,
        pattern_options=_pattern_options(MAX_PATTERN_BYTES),
    )
    return result


class _Validators:
    """The validators in use, by schema. Bounded by their estimated bytes, not by their number: one
    may be as large as thousands of others. Schemas are checked in several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._known: OrderedDict[IdentityKey[Any], tuple[Fault | Validator, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, same: IdentityKey[Any]) -> Fault | Validator:
        with self._lock:
            if same in self._known:
                self._known.move_to_end(same)
                return self._known[same][0]
        checked = _check_schema(same.value)
        self._keep(same, checked)
        return checked

    def _keep(self, same: IdentityKey[Any], checked: Fault | Validator) -> None:
        size = 1024
        if not isinstance(checked, tuple):
            size += _BYTES_OF_TEXT * len(json.dumps(same.value)) + pattern_bytes(same.value)
        with self._lock:
            if same in self._known:  # another thread was faster
                return
            self._known[same] = checked, size
            self._bytes += size
            while self._bytes > self._most and len(self._known) > 1:
                _, (_, freed) = self._known.popitem(last=False)
                self._bytes -= freed


_validators = _Validators(MAX_VALIDATOR_BYTES)


def cached_validator(same: IdentityKey[Any]) -> Fault | Validator:
    """The validator of an immutable schema, or its `fault`."""
    return _validators.get(same)


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
        return 'A schema must be a JSON object, such as {"type": "object", "properties": {}}.', ""
    if _is_too_deep(schema):
        return f"A schema can be nested at most {MAX_SCHEMA_DEPTH} levels deep. Flatten it.", ""
    try:
        size = len(json.dumps(schema, ensure_ascii=False).encode("utf-8"))
    except UnicodeEncodeError:
        return (
            "The schema contains half of a surrogate pair, which is not a character. Remove it.",
            "",
        )
    except (TypeError, ValueError):
        return "The schema contains something that is not JSON. Remove it.", ""
    if size > MAX_SCHEMA_BYTES:
        return f"The schema has {size:,} bytes; at most {MAX_SCHEMA_BYTES:,} are allowed.", ""
    return None


def _is_too_deep(schema: Mapping[str, Any]) -> bool:
    """Before it is written as JSON, which fails at a depth of Python's own. A value that stands
    in several places of one level is looked at once."""
    level: dict[int, Any] = {0: schema}
    for _ in range(MAX_SCHEMA_DEPTH):
        level = {
            id(inner): inner
            for item in level.values()
            for inner in (item.values() if isinstance(item, Mapping) else item)
            if isinstance(inner, Mapping | list)
        }
    return bool(level)


def _ref_fault(schema: Mapping[str, Any]) -> Fault | None:
    for place, inner in all_subschemas(schema):
        if not isinstance(inner, Mapping):
            continue
        if "$ref" in inner:
            ref, where = inner["$ref"], pointer((*place, "$ref"))
            if not is_local(ref):
                message = (
                    "A $ref must point into this schema, such as #/$defs/name. Nothing is fetched."
                )
                return message, where
            if not isinstance(resolve(schema, ref), Mapping | bool):
                return f"There is no schema at {ref}. Define it, or correct the $ref.", where
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in inner:
                message = f"{keyword} is not supported here. Use $ref."
                return message, pointer((*place, keyword))
        if "$id" in inner and place:
            message = "A nested schema cannot have an $id. Remove it."
            return message, pointer((*place, "$id"))
    return None


def _compile(schema: Mapping[str, Any]) -> Fault | Validator:
    try:
        return validator(schema)
    except jsonschema_rs.ValidationError as error:
        place = tuple(error.instance_path)
        return _meta_sentence(place, error), pointer(place)
    except (ValueError, TypeError, LookupError, jsonschema_rs.ReferencingError) as error:
        place = _place_of_failure(schema)
        at = f" at {pointer(place)}" if place else ""
        return f"Invalid JSON Schema{at}: {str(error)[:200]}. Correct it.", pointer(place)


def _place_of_failure(schema: Mapping[str, Any]) -> tuple[str | int, ...]:
    """The first keyword for which alone no validator can be built; () if each can, or if trying
    them all would take too long."""
    draft = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    left = _MOST_COMPILED_AGAIN
    for place, inner in all_subschemas(schema):
        for keyword, value in inner.items() if isinstance(inner, Mapping) else ():
            if keyword in ("$ref", "$schema"):
                continue
            left -= len(json.dumps(value)) + pattern_bytes({keyword: value})
            if left < 0:
                return ()
            try:
                validator({**draft, keyword: value})
            except jsonschema_rs.ReferencingError:
                continue
            except (ValueError, TypeError, LookupError):
                return (*place, keyword)
    return ()


def _meta_sentence(place: tuple[str | int, ...], error: jsonschema_rs.ValidationError) -> str:
    keyword, at = _keyword(place, error), pointer(place) or "its root"
    text = json.dumps(error.instance, ensure_ascii=False)[:80]
    match keyword:
        case "type" if error.instance == []:
            return f"The list of types at {at} is empty, so no value is possible. Name a type."
        case "type":
            types = "array, boolean, integer, null, number, object or string"
            return f"{text} at {at} is not a JSON Schema type. Use {types}."
        case "pattern":
            return f"{text} at {at} is not a valid regular expression. Correct it."
        case "required":
            return f'required at {at} must be a list of names, such as ["city"]. Correct it.'
    what = error.message if len(error.message) <= 200 else error.message[:200] + " ..."
    return f"Invalid JSON Schema at {at}, keyword {keyword}: {what}. Correct it."


def _keyword(place: tuple[str | int, ...], error: jsonschema_rs.ValidationError) -> str:
    """The invalid keyword: the last one of the place."""
    if list(error.schema_path)[-1:] == ["dependencies"]:  # the only two of draft 4
        return "exclusiveMinimum" if '"minimum"' in error.message else "exclusiveMaximum"
    steps = [step for step in place if isinstance(step, str)]
    is_named = len(steps) > 1 and steps[-2] in OF_NAMES and steps[-3:-2] != ["properties"]
    return steps[-2] if is_named else steps[-1] if steps else "type"


# The size of a schema's patterns, measured before its validator is built.
#
# Theory of operation. A few letters of a pattern can stand for gigabytes: `a{1,60000}{1,60000}`.
# The library has a limit for the compiled size, but it does not say what the size was, it applies
# to each piece of a pattern with a look-around by itself, and it compiles all patterns of a schema
# in one step, in which no other thread runs. So each pattern is compiled alone first, with one
# limit after the other (`_SIZES`): the first that is enough is its size, and failing costs little.
# The sum is bounded, so that building the validator takes about a tenth of a second at most, and so
# is the text of all patterns, because parsing one is not covered by the limit. An upper bound of
# the states of a pattern is counted from its text; they say what a match may cost (`_match`).


class _PatternBudget:
    """The bytes of compiled patterns that a document may still have."""

    def __init__(self) -> None:
        self.left = MAX_DOCUMENT_BYTES


@contextmanager
def one_document() -> Iterator[None]:
    """Schemas that are checked within are one document: their patterns share a bound."""
    if _document.get() is not None:  # it is a part of a larger one
        yield
        return
    token = _document.set(_PatternBudget())
    try:
        yield
    finally:
        _document.reset(token)


def pattern_bytes(schema: Any) -> int:
    """The size of all patterns of `schema` once they are compiled."""
    return sum(_compiled_size(pattern) or 0 for pattern in {text for _, text in _patterns(schema)})


def _pattern_fault(schema: Mapping[str, Any]) -> Fault | None:
    """Why the patterns of `schema` cannot be compiled."""
    known: set[str] = set()
    length = total = 0
    document = _document.get() or _PatternBudget()
    for place, pattern in _patterns(schema):
        if pattern in known:
            continue
        known.add(pattern)
        length += len(pattern) + _PROPERTY_LENGTH * len(_PROPERTY.findall(pattern))
        if len(pattern) > MAX_PATTERN_LENGTH or length > MAX_PATTERNS_LENGTH:
            message = (
                f"The patterns of a schema can have {MAX_PATTERNS_LENGTH:,} characters in total "
                f"and {MAX_PATTERN_LENGTH:,} each; a Unicode property counts as "
                f"{_PROPERTY_LENGTH}. The one at {pointer(place)} exceeds that. Shorten them."
            )
            return message, pointer(place)
        if document.left < 0:
            message = (
                "The patterns of all schemas of this document take more than "
                f"{MAX_DOCUMENT_BYTES // 2**20} MiB when compiled. Import it in parts, or lower "
                "the counts in braces."
            )
            return message, pointer(place)
        size = _compiled_size(pattern)
        if size is None:
            message, work = _compile_failure(pattern, place)
            document.left -= work
            return message, pointer(place)
        total += size
        document.left -= size
        if total > MAX_PATTERNS_BYTES:
            message = (
                f"The patterns of this schema up to {_short(pattern)} at {pointer(place)} take "
                f"more than {MAX_PATTERNS_BYTES // 2**20} MiB when compiled. Lower the counts in "
                "braces, or split the schema."
            )
            return message, pointer(place)
    return None


def _compile_failure(pattern: str, place: Place) -> tuple[str, int]:
    """Why a pattern cannot be compiled, its size or its syntax, and the bytes that were compiled
    until that was known."""
    which = f"{_short(pattern)} at {pointer(place)}"
    if _compiled_size(_COUNT.sub("{1}", pattern)) is not None:
        at_once = _states(pattern) * _STATE_BYTES > MAX_PATTERN_BYTES
        message = (
            f"The pattern {which} takes more than {MAX_PATTERN_BYTES // 2**20} MiB when "
            "compiled. Lower the counts in braces; use maxLength for the length of a text."
        )
        return message, 0 if at_once else MAX_PATTERN_BYTES
    message = f"{which} is not a valid regular expression. Correct"
    if _backtracks(pattern) or len(pattern) > 200:
        return f"{message} or shorten it.", MAX_PATTERN_BYTES
    return f"{message} it.", 0


def _short(text: str) -> str:
    return json.dumps(text if len(text) <= 60 else text[:60] + " ...", ensure_ascii=False)


def _patterns(schema: Any) -> Iterator[tuple[Place, str]]:
    """The patterns of `schema`, with their places; also of those schemas outside of `$defs` that
    only a `$ref` reaches."""
    todo: list[tuple[Place, Any]] = [((), schema)]
    seen: set[int] = set()
    while todo:
        place, inner = todo.pop()
        if not isinstance(inner, Mapping) or id(inner) in seen:
            continue
        seen.add(id(inner))
        if isinstance(pattern := inner.get("pattern"), str):
            yield (*place, "pattern"), pattern
        if isinstance(named := inner.get("patternProperties"), Mapping):
            yield from (((*place, "patternProperties", name), str(name)) for name in named)
        if isinstance(ref := inner.get("$ref"), str) and is_local(ref):
            todo.append((tuple(map(unescaped_step, ref[1:].split("/")[1:])), resolve(schema, ref)))
        todo.extend(reversed(list(subschemas(inner, place))))


@lru_cache(maxsize=512)
def _compiled_size(pattern: str) -> int | None:
    """The size of a compiled pattern, rounded up; None if it is larger than MAX_PATTERN_BYTES, or
    cannot be compiled at all."""
    pieces = 1
    if _backtracks(pattern):
        pieces += 2 * len(_PIECES.findall(_LITERAL.sub("x", pattern)))
    least = _states(pattern) * _STATE_BYTES
    for size in _SIZES:
        if size * pieces > MAX_PATTERN_BYTES:
            break
        if _SIZES[0] < size and size * pieces < least:
            continue  # the library needs no states for some, such as ^.{1,65535}$
        try:
            jsonschema_rs.Draft202012Validator(
                {"pattern": pattern}, pattern_options=_pattern_options(size)
            )
        except (ValueError, TypeError):
            continue
        return size * pieces
    return None


@lru_cache(maxsize=512)
def _backtracks(pattern: str) -> bool:
    return _BACKTRACKING.search(_LITERAL.sub("x", pattern)) is not None


@lru_cache(maxsize=len(_SIZES))
def _pattern_options(size: int) -> jsonschema_rs.FancyRegexOptions:
    return jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT, size_limit=size)


@lru_cache(maxsize=512)
def _states(pattern: str) -> int:
    """An upper bound of the states a pattern can be in at once: its atoms, each as often as its
    counts repeat it."""
    groups = [0]
    last = 0
    for match in _ATOM.finditer(pattern):
        if match["open"]:
            groups.append(0)
            last = 0
        elif match["close"]:
            last = groups.pop() if len(groups) > 1 else 0
            groups[-1] += last
        elif match["least"]:
            least, most = int(match["least"][:9]), int((match["most"] or "")[:9] or 0)
            again = last * (max(least + bool(match["more"]), most, 1) - 1)
            last += again
            groups[-1] += again
        elif not match["bar"] and not match["other"]:
            last = 1
            groups[-1] += 1
        if groups[-1] > _MAX_STATES:
            return _MAX_STATES
    return max(1, sum(groups))


# The amount of work of a validation, counted before it starts.
#
# Theory of operation. No validator tried survives a schema whose `$ref`s fan out (eight levels of
# ten are 10^8 steps), and this layer has no process it could kill. So the steps are counted first:
# each (schema, value) pair is visited once and remembered, however often it would be evaluated, and
# its count is the sum over the pairs it leads to. The count is an upper bound: every branch is
# assumed to be evaluated. It ends early once it exceeds the cap, so counting is bounded, too.


class _TooManySteps(Exception):
    """The count exceeds the cap, or is infinite."""


def steps(schema: Any, value: Any, most: int = MAX_STEPS, *, with_matches: bool = True) -> int:
    """An upper bound of the steps to validate; more than `most` means: do not start.

    Without matches it bounds the number of errors that may be found.
    """
    try:
        return _Count(schema, most, with_matches).count(schema, value, 0)
    except _TooManySteps:
        return most + 1


class _Count:
    def __init__(self, root: Any, most: int, with_matches: bool) -> None:
        self.root = root
        self.most = most
        self.match = _match if with_matches else _no_match
        self.known: dict[tuple[int, object], int] = {}
        self.open: set[tuple[int, object]] = set()

    def count(self, schema: Any, value: Any, depth: int) -> int:
        if not isinstance(schema, Mapping):
            return 1
        if depth > _MAX_NESTED:
            raise _TooManySteps
        key = (id(schema), _identity(value))
        if key in self.known:
            return self.known[key]
        if key in self.open or len(self.known) > min(_MAX_PAIRS, self.most):
            raise _TooManySteps  # a schema that leads back to itself on the same value never ends
        self.open.add(key)
        total = self._own_steps(schema, value)
        for inner in self._same_value_schemas(schema):
            total += self.count(inner, value, depth + 1)
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            total *= 3  # unevaluated keywords evaluate the others once more
        for inner, item in _children(schema, value):
            total += self.count(inner, item, depth + 1)
            if total > self.most:
                raise _TooManySteps
        if total > self.most:
            raise _TooManySteps
        self.open.discard(key)
        self.known[key] = total
        return total

    def _own_steps(self, schema: Mapping[str, Any], value: Any) -> int:
        total = 1
        if isinstance(value, str) and isinstance(pattern := schema.get("pattern"), str):
            total += self.match(pattern, value)
        named = schema.get("patternProperties")
        if isinstance(value, dict) and isinstance(named, Mapping):
            total += sum(self.match(pattern, name) for pattern in named for name in value)
        if isinstance(options := schema.get("enum"), list):
            total += len(options) // 8
        return total

    def _same_value_schemas(self, schema: Mapping[str, Any]) -> Iterator[Any]:
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


def _match(pattern: str, text: str) -> int:
    """The cost of one match: in the worst case each state is visited for each character."""
    visits = _states(pattern) * (1 + len(text))
    if _backtracks(pattern):
        return _BACKTRACKING_STEPS + _PIECE_STEPS * visits
    return 1 + visits // _STATES_A_STEP


def _no_match(pattern: str, text: str) -> int:
    return 1


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
