"""Generates a value that satisfies a schema, from preferred values where these match.

Theory of operation. Each schema inside has candidates: the preferred values for its place, its own
values (const, enum, default, examples), and values built from its parts, one way after the other
(branches, types, few members or many). Most are right by construction; for keywords that
construction does not handle (a `pattern`, `not`, `oneOf`, ...), the validator checks them, and the
first valid one is used. So errors are corrected where they are, and the whole is checked once more.

Bounded whatever the schema: beyond `BUDGET` the first candidate is used unchecked.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any, TypeGuard

import jsonschema_rs

from playground.schema import schema_checks
from playground.schema.pattern import PieceBudget, texts
from playground.schema.sample_values import FORMATS, texts_by_name
from playground.schema.schema_checks import Place, is_local, resolve

PreferredValues = Callable[[Place, Mapping[str, Any]], Iterable[Any]]
"""(place of the value, its schema) -> preferred values, the best first."""

BUDGET = 8_000
"""Schemas visited for one value; a thousand characters of a text count like a schema."""

_WORK = 100_000
"""Steps of all validators together, building them included."""

_BYTES_A_STEP = 100
"""Bytes of compiled patterns that cost as much as a step."""

_DEEP, _DEEPEST, _MOST_ITEMS = 4, 24, 300

_NEVER: Mapping[str, Any] = {"enum": []}
_FAR = (10, 100, 1_000, 1_000_000, -10, -1_000)
_ROOT = "root"
_APART = ("$schema", "$id")
_MOST_EXAMPLES = 4


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN = _words("""type properties required additionalProperties items prefixItems minItems maxItems
    const enum
    minLength maxLength title description default examples $defs definitions $schema $comment
    nullable propertyOrdering example deprecated readOnly writeOnly""")
"""Keywords that a value built here satisfies by construction, or that require nothing."""
_SAYING = _words("title description default examples $defs definitions $schema")
_IMPLIED = {
    **dict.fromkeys(
        _words("""properties required additionalProperties patternProperties minProperties
        maxProperties propertyNames dependentRequired"""),
        "object",
    ),
    **dict.fromkeys(_words("items prefixItems minItems maxItems uniqueItems contains"), "array"),
    **dict.fromkeys(
        _words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"), "number"
    ),
    **dict.fromkeys(_words("minLength maxLength pattern format"), "string"),
}


def sample_value(
    schema: Mapping[str, Any],
    wish: PreferredValues = lambda place, schema: (),
    *,
    sparse: bool = False,
    seed: int = 0,
) -> Any:
    """A value for `schema`; an approximation if there is none, or none is found in time.

    `sparse` leaves out members that are neither preferred nor required. Another `seed` gives other
    texts and options, if possible; the same one always the same.
    """
    maker = _Maker(schema, wish, sparse, seed)
    value = maker.build(schema, (), 0)
    if maker.left <= 0 or maker.work <= 0 or maker.fits(schema, value):
        return value
    careful = _Maker(schema, wish, sparse, seed, careful=True)
    return careful.build(schema, (), 0)


class _Maker:
    """`careful` validates every candidate, not only those with a hard keyword. `shift` rotates the
    candidates of scalars, so that the next value differs."""

    def __init__(
        self,
        root: Mapping[str, Any],
        wish: PreferredValues,
        sparse: bool,
        seed: int = 0,
        *,
        careful: bool = False,
    ) -> None:
        self.root, self.wish, self.sparse, self.careful = root, wish, sparse, careful
        self.seed = seed
        self.left, self.work, self.shift = BUDGET, _WORK, 0
        self.size = len(json.dumps(root))
        self.sound = schema_checks.fault(root) is None
        self.written: dict[int, int] = {}
        self.validators: dict[str, Any] = {}
        self.moved: dict[str, Any] = {}

    @cached_property
    def effort(self) -> PieceBudget:
        """Shared by all patterns of the schema."""
        return PieceBudget()

    def rotation(self, place: Place) -> int:
        """How far the options at `place` are rotated."""
        return self.shift + (zlib.crc32(f"{self.seed}{place}".encode()) if self.seed else 0)

    def build(self, schema: Any, place: Place, depth: int) -> Any:
        """The first candidate that is valid; else the first of all."""
        self.left -= 1
        if not isinstance(schema, Mapping) or self.left < 0 or depth > _DEEPEST:
            return "" if schema is True or schema == {} else None
        first: list[Any] = []
        best = None
        for value, sure in islice(self.candidates(schema, place, depth), 60):
            first = first or [value]
            if (sure and not self.careful) or self.fits(schema, value):
                best = [value]
                break
            if self.work <= 0:
                break
        value = (best or first or [None])[0]
        self.left -= self.value_size(value) // 1_000
        return value

    def value_size(self, value: Any) -> int:
        """The cost of a text, and of values written out in the schema, in characters; values built
        here were counted piece by piece."""
        if isinstance(value, str):
            return len(value)
        size = self.written.get(id(value), 0)
        if size < 0:
            size = self.written[id(value)] = len(json.dumps(value))
        return size

    def register_values(self, values: Iterable[Any]) -> Iterator[Any]:
        """Values written out in a schema; its lists and objects are counted where they are used."""
        for value in values:
            if isinstance(value, Mapping | list):
                self.written.setdefault(id(value), -1)
            yield value

    def fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        """Whether the validator accepts `value`; unknown counts as yes."""
        if not self.sound:
            return True
        key = json.dumps(schema, sort_keys=True)
        self.work -= len(key) // 200
        if key not in self.validators:
            alone = self.self_contained_schema(schema)
            self.work -= len(key) // 8 + (self.size // 8 if "$defs" in alone else 0)
            self.work -= schema_checks.pattern_bytes(alone) // _BYTES_A_STEP
            self.validators[key] = alone, _validator(alone) if self.work > 0 else None
        alone, judge = self.validators[key]
        steps = schema_checks.steps(alone, value, max(self.work, 0)) + 10
        self.work -= steps
        if judge is None or self.work <= 0:
            return True
        try:
            return bool(judge.is_valid(value))
        except ValueError:
            return True

    def self_contained_schema(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """`schema` as a self-contained one, including the targets of its references."""
        draft = {"$schema": self.root["$schema"]} if "$schema" in self.root else {}
        if schema is self.root or not _refers(schema):
            return {**draft, **schema}
        if not self.moved:
            self.moved = {"$defs": {_ROOT: _move_refs(self.root)}}
        return {**draft, **_move_refs(schema), **self.moved}

    # Candidates: (value, whether it is valid by construction).

    def candidates(
        self, schema: Mapping[str, Any], place: Place, depth: int
    ) -> Iterator[tuple[Any, bool]]:
        wished = list(islice(self.wish(place, schema), 8)) if self.shift == 0 else []
        open_ = not {"const", "enum"} & schema.keys()
        yield from ((value, False) for value in wished)
        if "const" in schema:
            for value in self.register_values([schema["const"]]):
                yield value, schema.keys() <= _PLAIN
        if "default" in schema and self.shift == 0:
            yield from ((value, False) for value in self.register_values([schema["default"]]))
        examples = _list(schema.get("examples"))[:_MOST_EXAMPLES]
        if self.shift == 0:
            rotated = _rotate(examples, self.rotation(place))
            yield from ((value, False) for value in self.register_values(rotated))
        options = _rotate(_list(schema.get("enum")), self.rotation(place))
        yield from ((value, False) for value in self.register_values(options))
        if not open_:
            return
        for whole, exact in self.variants(schema, depth):
            if {"const", "enum"} & whole.keys():
                inner = {k: v for k, v in whole.items() if k not in ("anyOf", "oneOf", "allOf")}
                pairs = self.candidates(inner, place, depth)
                yield from ((value, sure and exact) for value, sure in pairs)
                continue
            sure = exact and whole.keys() <= _PLAIN
            for kind in _kinds(whole):
                yield from (
                    (value, sure) for value in self.values_of_kind(kind, whole, place, depth)
                )

    def variants(
        self, schema: Mapping[str, Any], depth: int
    ) -> Iterator[tuple[Mapping[str, Any], bool]]:
        """`schema` without references, each with one choice of its branches merged in; and whether
        a value for that surely satisfies the schema."""
        todo: list[tuple[Mapping[str, Any], bool, int]] = [(schema, True, 0)]
        while todo and self.left > 0:
            node, exact, level = todo.pop(0)
            self.left -= 1
            if level > 16:
                continue
            level += 1
            ref = node.get("$ref")
            branching = next((k for k in ("anyOf", "oneOf") if isinstance(node.get(k), list)), None)
            if isinstance(ref, str):
                target = resolve(self.root, ref) if is_local(ref) else None
                rest = {k: v for k, v in node.items() if k != "$ref"}
                todo.insert(0, (merge(rest, target), exact and not rest, level))
            elif branching is not None:
                rest = {k: v for k, v in node.items() if k != branching}
                exact = exact and branching == "anyOf" and rest.keys() <= _SAYING
                todo[:0] = [
                    (merge(rest, part), exact, level)
                    for part in self.branches(node[branching], depth)
                ]
            elif isinstance(node.get("allOf"), list):
                whole: Mapping[str, Any] = {k: v for k, v in node.items() if k != "allOf"}
                for part in node["allOf"]:
                    if self.left <= 0:
                        break
                    self.left -= 1 + len(_mapping(whole.get("properties"))) // 50
                    whole = merge(whole, part)
                todo.insert(0, (whole, False, level))
            elif "if" in node:
                rest = {k: v for k, v in node.items() if k not in ("if", "then", "else")}
                branch = merge(merge(rest, node["if"]), node.get("then", True))
                todo[:0] = [
                    (branch, False, level),
                    (merge(rest, node.get("else", True)), False, level),
                ]
            else:
                yield node, exact

    def branches(self, several: Sequence[Any], depth: int) -> list[Any]:
        """In the order to try them."""
        usable = [part for part in several if part is not False]
        if depth > _DEEP:  # the simplest first: a recursive schema would not end
            usable.sort(key=_weight)
        turned = self.shift % max(1, len(usable))
        return usable[turned:] + usable[:turned]

    def values_of_kind(
        self, kind: str, schema: Mapping[str, Any], place: Place, depth: int
    ) -> Iterable[Any]:
        match kind:
            case "object":
                return self.objects(schema, place, depth)
            case "array":
                return self.arrays(schema, place, depth)
            case "integer" | "number":
                return self.numbers(schema, whole=kind == "integer")
            case "boolean":
                return _rotate([True, False], self.rotation(place))
            case "null":
                return [None]
            case _:
                return self.strings(schema, place)

    def objects(
        self, schema: Mapping[str, Any], place: Place, depth: int
    ) -> Iterator[dict[str, Any]]:
        """With all members, then with the required ones only."""
        properties = _mapping(schema.get("properties"))
        required = _names(schema.get("required"))
        needed = set(required)
        optional = [n for n, prop in properties.items() if n not in needed and prop is not False]
        most = _number_of(schema.get("maxProperties"), _MOST_ITEMS)
        if self.sparse:
            optional = [n for n in optional if any(True for _ in self.wish((*place, n), {}))]
        among = needed.union(optional)
        full = [n for n in properties if n in among]
        full += [name for name in required if name not in properties]
        if depth <= _DEEP:
            chosen = set(optional[: max(0, most - len(required))])
            names = [n for n in full if n in needed or n in chosen]
            yield self.object(schema, self.dependent_names(schema, names), place, depth)
        yield self.object(schema, self.dependent_names(schema, required), place, depth)

    def dependent_names(self, schema: Mapping[str, Any], names: Sequence[str]) -> list[str]:
        result = dict.fromkeys(names)
        for keyword in ("dependentRequired", "dependencies"):
            for name, needed in _mapping(schema.get(keyword)).items():
                if name in result and isinstance(needed, list):
                    result |= dict.fromkeys(_names(needed))
        return list(result)

    def object(
        self, schema: Mapping[str, Any], names: Sequence[str], place: Place, depth: int
    ) -> dict[str, Any]:
        for keyword in ("dependentSchemas", "dependencies"):
            for name, more in _mapping(schema.get(keyword)).items():
                if name in names and isinstance(more, Mapping):
                    schema = merge(schema, more)
        names = list(dict.fromkeys([*names, *_names(schema.get("required"))]))
        properties = _mapping(schema.get("properties"))
        value: dict[str, Any] = {}
        for name in names:
            inner = properties.get(name) if name in properties else self.other_schema(schema, name)
            value[name] = self.build(inner, (*place, name), depth + 1)
        least = min(_number_of(schema.get("minProperties"), 0), _MOST_ITEMS)
        spare = [n for n, prop in properties.items() if n not in value and prop is not False]
        for name in chain(spare, self.additional_names(schema)):
            if len(value) >= least or self.left <= 0:
                break
            if name not in value:
                inner = (
                    properties.get(name) if name in properties else self.other_schema(schema, name)
                )
                value[name] = self.build(inner, (*place, name), depth + 1)
        return value

    def other_schema(self, schema: Mapping[str, Any], name: str) -> Any:
        """The schema of a member that is not in `properties`."""
        for pattern, prop in _mapping(schema.get("patternProperties")).items():
            if self.fits({"pattern": pattern}, name):
                return prop
        return schema.get("additionalProperties", {})

    def additional_names(self, schema: Mapping[str, Any]) -> Iterator[str]:
        """Names for additional members."""
        for pattern in _mapping(schema.get("patternProperties")):
            yield from (
                t
                for t in texts(pattern, 12, effort=self.effort)
                if self.fits({"pattern": pattern}, t)
            )
        names = _mapping(schema.get("propertyNames"))
        if names:
            before = self.shift
            for self.shift in range(_MOST_ITEMS):
                name = self.build({"type": "string", **names}, (), _DEEP)
                if isinstance(name, str):
                    yield name
            self.shift = before
        yield from (f"key{number}" for number in range(1, _MOST_ITEMS))

    def arrays(self, schema: Mapping[str, Any], place: Place, depth: int) -> Iterator[list[Any]]:
        """The minimum number of items but at least one, then the minimum, then a few more."""
        prefix, items = _list(schema.get("prefixItems")), schema.get("items", {})
        if isinstance(items, list):
            prefix, items = items, schema.get("additionalItems", {})
        contains = schema.get("contains")
        needed = _number_of(schema.get("minContains"), 1) if contains is not None else 0
        least = max(_number_of(schema.get("minItems"), 0), needed)
        most = min(_number_of(schema.get("maxItems"), _MOST_ITEMS), _MOST_ITEMS)
        some = 1 if depth <= _DEEP and items is not False else 0
        wished = [len(value) for value in self.wish(place, schema) if isinstance(value, list)]
        usual = max(least, len(prefix), *wished[:1], some if not prefix else 0)
        if items is False:
            usual = min(usual, len(prefix))
        for count in dict.fromkeys((min(usual, most), min(least, most), min(usual + 1, most))):
            values: list[Any] = []
            seen: set[str] = set()
            for index in range(int(count)):
                item_schema: Any = prefix[index] if index < len(prefix) else items
                if contains is not None and len(prefix) <= index < len(prefix) + needed:
                    item_schema = merge(_mapping(item_schema), contains)
                inside = (*place, index)
                if schema.get("uniqueItems") is True:
                    values.append(self.distinct_item(item_schema, inside, depth, seen))
                else:
                    values.append(self.build(item_schema, inside, depth + 1))
            yield values

    def distinct_item(self, item_schema: Any, place: Place, depth: int, seen: set[str]) -> Any:
        """An item that is not among `seen`, if one is found; added to them."""
        usual = self.shift
        for self.shift in range(usual, usual + 2 * len(seen) + 12):
            value = self.build(item_schema, place, depth + 1)
            text = json.dumps(value, sort_keys=True)
            self.left -= len(text) // 1_000
            if text not in seen or self.left <= 0:
                break
        self.shift = usual
        seen.add(text)
        return value

    def numbers(self, schema: Mapping[str, Any], *, whole: bool) -> Iterator[int | float]:
        low, high = _bounds(schema, whole)
        step: Any = schema.get("multipleOf")
        unit: Any = step if _is_number(step) and step > 0 else 1
        if whole:
            unit = float(unit).as_integer_ratio()[0]
        start = max(low, unit) if low > -math.inf else min(high, unit)
        try:
            first = math.ceil(round(start / unit, 9))
            for number in range(first + self.shift, first + self.shift + 8):
                yield _round_number(number * unit, whole)
            for number in (math.floor(round(high / unit, 9)), 0, -1):
                yield _round_number(number * unit, whole)
        except (OverflowError, ValueError):
            pass
        if not whole and math.isfinite(low) and math.isfinite(high):
            yield from (low + (high - low) * share for share in (0.5, 0.25, 0.75))
        for bound in (low, high, 0, 1, *_FAR):
            if math.isfinite(bound) and low <= bound <= high:
                yield _round_number(bound, whole)

    def strings(self, schema: Mapping[str, Any], place: Place) -> Iterator[str]:
        low = min(_number_of(schema.get("minLength"), 0), 100_000)
        high = _number_of(schema.get("maxLength"), 1_000_000)
        form, pattern = str(schema.get("format", "")), schema.get("pattern")
        for number, text in enumerate(self.format_texts(form, pattern, low, place)):
            if not form and not isinstance(pattern, str):
                text = text if len(text) >= low else (text + " ") * (low // (len(text) + 1) + 1)
                text = text[: max(low, min(high, len(text)))] if len(text) > high else text
            if low <= len(text) <= high:
                yield text
            if number > 400:
                return

    def format_texts(self, form: str, pattern: Any, low: int, place: Place) -> Iterator[str]:
        """Texts of this format, whatever their length."""
        samples = list(FORMATS.get(form, ()))
        if isinstance(pattern, str):
            yield from samples
            results = texts(pattern, low, self.shift, self.effort)
            yield from results
            return
        samples = samples or [*texts_by_name(place), "sample"]
        if self.shift < len(samples):
            yield from _rotate(samples, self.rotation(place))
        yield from (_another_text(samples[0], form, self.shift + more) for more in range(1, 6))


def _rotate(values: list[Any], by: int) -> list[Any]:
    by %= max(1, len(values))
    return values[by:] + values[:by]


def merge(first: Mapping[str, Any], second: Any) -> Mapping[str, Any]:
    """A schema that combines both, as far as building a value needs it."""
    if not isinstance(second, Mapping):
        return first
    whole = {**second, **first}
    for keyword in ("properties", "patternProperties", "dependentRequired", "dependentSchemas"):
        if keyword in first and keyword in second:
            both = {**_mapping(second[keyword]), **_mapping(first[keyword])}
            shared = _mapping(second[keyword]).keys() & _mapping(first[keyword]).keys()
            if keyword == "properties":
                both |= {n: _merge_values(first[keyword][n], second[keyword][n]) for n in shared}
            whole[keyword] = both
    if "required" in first and "required" in second:
        whole["required"] = list(
            dict.fromkeys([*_list(first["required"]), *_list(second["required"])])
        )
    for keyword, tighter in (
        *((k, max) for k in ("minimum", "exclusiveMinimum", "minLength", "minItems")),
        *((k, min) for k in ("maximum", "exclusiveMaximum", "maxLength", "maxItems")),
        ("minProperties", max),
        ("maxProperties", min),
    ):
        if _is_number(first.get(keyword)) and _is_number(second.get(keyword)):
            whole[keyword] = tighter(first[keyword], second[keyword])
    if isinstance(first.get("enum"), list) and isinstance(second.get("enum"), list):
        whole["enum"] = [value for value in first["enum"] if value in second["enum"]] or first[
            "enum"
        ]
    kinds = [set(_types(first)), set(_types(second))]
    if all(kinds):
        shared_kinds = kinds[0] & kinds[1]
        if "integer" in kinds[0] | kinds[1] and "number" in kinds[0] | kinds[1]:
            shared_kinds |= {"integer"}
        ordered = [kind for kind in (*_types(first), *_types(second)) if kind in shared_kinds]
        whole["type"] = list(dict.fromkeys(ordered))
        if not ordered:
            return _NEVER
    if "items" in first and "items" in second:
        whole["items"] = _merge_values(first["items"], second["items"])
    for keyword in ("anyOf", "oneOf", "not", "if"):
        if keyword in first and keyword in second and first[keyword] != second[keyword]:
            whole[keyword] = first[keyword]
            branch = {k: second[k] for k in (keyword, "then", "else") if k in second}
            whole["allOf"] = [*_list(whole.get("allOf")), branch]
    if isinstance(first.get("allOf"), list) and isinstance(second.get("allOf"), list):
        whole["allOf"] = [*first["allOf"], *second["allOf"]]
    if "$ref" in first and "$ref" in second:
        whole["allOf"] = [*_list(whole.get("allOf")), {"$ref": second["$ref"]}]
    return whole


def _merge_values(first: Any, second: Any) -> Any:
    if first is False or second is False:
        return False
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return first if isinstance(first, Mapping) else second
    return first if first == second else merge(first, second)


def _validator(schema: Mapping[str, Any]) -> Any:
    """None if the merged schemas are unusable."""
    try:
        return schema_checks.validator(schema)
    except (ValueError, TypeError, LookupError, jsonschema_rs.ReferencingError):
        return None


def _move_refs(schema: Any) -> Any:
    """A copy whose references resolve to the root when it is placed inside another one."""
    match schema:
        case Mapping():
            copy = {name: _move_refs(value) for name, value in schema.items() if name not in _APART}
            ref = schema.get("$ref")
            if isinstance(ref, str) and is_local(ref):
                copy["$ref"] = f"#/$defs/{_ROOT}{ref[1:]}"
            return copy
        case list():
            return [_move_refs(item) for item in schema]
        case _:
            return schema


def _refers(schema: Any) -> bool:
    todo = [schema]
    while todo:
        match todo.pop():
            case Mapping() as node:
                if "$ref" in node:
                    return True
                todo += node.values()
            case list() as many:
                todo += many
    return False


def _weight(schema: Any) -> int:
    """The cost of a branch; an empty one is lightest."""
    if not isinstance(schema, Mapping):
        return 1
    kinds = _types(schema)
    if kinds == ["null"] or "const" in schema or "enum" in schema:
        return 0
    return 1 if kinds and not {"object", "array"} & set(kinds) else 2 + ("$ref" in schema)


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """The types to try: null comes last."""
    kinds = _types(schema)
    if kinds:
        usual = [kind for kind in kinds if kind != "null"]
        return usual + [kind for kind in kinds if kind == "null"]
    implied = [kind for keyword, kind in _IMPLIED.items() if keyword in schema]
    return [*dict.fromkeys(implied), "string", "object", "number", "array", "boolean", "null"]


def _types(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type")
    return [kind] if isinstance(kind, str) else [str(word) for word in _list(kind)]


def _bounds(schema: Mapping[str, Any], whole: bool) -> tuple[float, float]:
    low, high = _number_at(schema, "minimum", -math.inf), _number_at(schema, "maximum", math.inf)
    over = _number_at(schema, "exclusiveMinimum", -math.inf)
    under = _number_at(schema, "exclusiveMaximum", math.inf)
    room = min(high, under) - max(low, over)
    gap = 1.0 if whole or not math.isfinite(room) else min(1.0, room / 4)
    # In draft 4 a flag makes the bound exclusive.
    over = low if schema.get("exclusiveMinimum") is True else over
    under = high if schema.get("exclusiveMaximum") is True else under
    if math.isfinite(over):
        low = max(low, math.floor(over) + 1 if whole else over + gap)
    if math.isfinite(under):
        high = min(high, math.ceil(under) - 1 if whole else under - gap)
    return (math.ceil(low) if whole and math.isfinite(low) else low), (
        math.floor(high) if whole and math.isfinite(high) else high
    )


def _round_number(value: float, whole: bool) -> int | float:
    if whole or isinstance(value, int):
        return int(value)
    rounded = round(value, 10)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _another_text(text: str, form: str, number: int) -> str:
    """A further text of the same format."""
    match form:
        case "email" | "idn-email":
            return f"person{number}@example.com"
        case "uri" | "iri" | "url":
            return f"https://example.com/page/{number}"
        case "uuid":
            return f"6f1c2f0e-3c5b-4c0a-9d55-{number:012x}"
        case "date":
            return f"2026-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}"
        case "date-time":
            return f"2026-05-04T{number // 60 % 24:02}:{number % 60:02}:00Z"
        case "time":
            return f"{number // 60 % 24:02}:{number % 60:02}:00Z"
        case "ipv4":
            return f"192.0.2.{number % 256}"
        case "ipv6":
            return f"2001:db8::{number:x}"
        case "hostname" | "idn-hostname":
            return f"host{number}.example.com"
        case "":
            return f"{text} {number + 1}"
        case _:
            return text


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether `value` is a number for arithmetic; an integer outside the float range is not."""
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**300)


def _number_at(schema: Mapping[str, Any], name: str, absent: float) -> float:
    value = schema.get(name)
    return value if _is_number(value) else absent


def _number_of(value: Any, absent: int) -> int:
    if isinstance(value, str) and value.isdecimal():  # as Google writes its 64-bit numbers
        return int(value[:9])
    return int(value) if _is_number(value) and math.isfinite(value) else absent


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _names(value: Any) -> list[str]:
    return [name for name in _list(value) if isinstance(name, str)]
