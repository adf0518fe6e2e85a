"""Generates a plausible value for a schema, the same for the same seed. Checks nothing.

Uses the values that a schema suggests (const, default, examples, enum); else the names of
properties help ("city" is a city). Keywords it cannot satisfy (a pattern, a `not`) are ignored.
Bounded whatever the schema: beyond `BUDGET` all further values are null or left out.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from app.schema.schema_checks import Place, is_local, is_number, resolve

BUDGET = 50_000
"""For one sample: schemas visited, members merged, values and characters generated."""

_MAX_DEPTH = 12
_MAX_ITEMS = 200

FORMATS: dict[str, tuple[str, ...]] = {
    "date": ("2026-05-04", "2026-11-21"),
    "time": ("14:30:00Z", "08:05:00Z"),
    "date-time": ("2026-05-04T14:30:00Z", "2026-11-21T08:05:00Z"),
    "duration": ("PT30M", "P2D"),
    "email": ("ada@example.com", "alan@example.org"),
    "idn-email": ("ada@example.com",),
    "hostname": ("www.example.com", "example.org"),
    "idn-hostname": ("example.com",),
    "ipv4": ("192.0.2.10", "198.51.100.7"),
    "ipv6": ("2001:db8::10", "2001:db8::7"),
    "uri": ("https://example.com/page", "https://example.org/"),
    "uri-reference": ("/page",),
    "iri": ("https://example.com/page",),
    "iri-reference": ("/page",),
    "uri-template": ("https://example.com/{id}",),
    "uuid": ("6f1c2f0e-3c5b-4c0a-9d55-0c8f3b1d7a21",),
    "json-pointer": ("/items/0",),
    "relative-json-pointer": ("0/items",),
    "regex": ("^[a-z]+$",),
}
_NAMED: dict[str, tuple[str, ...]] = {
    "city": ("Paris", "Oslo", "Kyoto"),
    "location": ("Paris, France", "Oslo, Norway"),
    "country": ("France", "Norway", "Japan"),
    "name": ("Ada Lovelace", "Alan Turing"),
    "title": ("Weekly report", "Notes"),
    "topic": ("solar energy", "tool calling"),
    "query": ("weather in Paris", "open invoices"),
    "expression": ("2 * (3 + 4)", "12 / 5"),
    "path": ("notes.txt", "src/main.py"),
    "language": ("en", "fr"),
    "currency": ("EUR", "USD"),
    "date": ("2026-05-04",),
    "url": ("https://example.com/page",),
    "email": ("ada@example.com",),
    "text": ("Hello, world.", "A short text."),
    "message": ("Hello, world.",),
    "id": ("42", "a1b2"),
}


def sample(schema: Any, seed: int = 0) -> Any:
    """A JSON value that satisfies `schema` if this is possible by construction."""
    return _Sampler(schema, seed).of(schema, (), 0)


class _Sampler:
    def __init__(self, root: Any, seed: int) -> None:
        self.root, self.seed = root, seed
        self.left = BUDGET

    def spend(self, amount: int) -> bool:
        """Whether anything was left before, so that at most one schema element overdraws it."""
        was, self.left = self.left, self.left - amount
        return was > 0

    def pick(self, options: Sequence[Any], place: Place) -> Any:
        """Seed 0 takes the first; another seed any, but always the same."""
        if self.seed == 0 or len(options) < 2:
            return options[0]
        return options[zlib.crc32(f"{self.seed}{place}".encode()) % len(options)]

    def of(self, schema: Any, place: Place, depth: int) -> Any:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or not self.spend(1):
            return None
        schema = self.merged(schema, depth)
        for keyword in ("const", "default"):
            if keyword in schema:
                return self.literal(schema[keyword])
        for keyword in ("examples", "enum"):
            if isinstance(options := schema.get(keyword), list) and options:
                return self.literal(self.pick(options, place))
        match self.kind(schema, place):
            case "object":
                return self.an_object(schema, place, depth)
            case "array":
                return self.an_array(schema, place, depth)
            case "integer" | "number" as kind:
                return _number(schema, kind == "integer")
            case "boolean":
                return self.pick([True, False], place)
            case "null":
                return None
        return self.a_string(schema, place)

    def literal(self, value: Any) -> Any:
        """A value written in the schema, which a sample may contain many times."""
        return value if self.left > 0 and self.spend(_size(value)) else None

    def merged(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """`schema` with its `$ref`, its `allOf` and its first branch merged into it."""
        parts: list[Any] = []
        ref = schema.get("$ref")
        if isinstance(ref, str) and is_local(ref):
            parts.append(resolve(self.root, ref))
        parts.extend(schema.get("allOf", ()))
        for keyword in ("anyOf", "oneOf"):
            parts.extend(schema.get(keyword, ())[:1])
        whole = {k: v for k, v in schema.items() if k not in ("$ref", "allOf", "anyOf", "oneOf")}
        for part in parts:
            if isinstance(part, Mapping) and depth < _MAX_DEPTH and self.left > 0:
                part = self.merged(part, depth + 1)
                self.spend(1 + _breadth(whole) + _breadth(part))
                whole = _merge(whole, part)
        return whole

    def kind(self, schema: Mapping[str, Any], place: Place) -> str:
        types = schema.get("type")
        if isinstance(types, str):
            return types
        if isinstance(types, list) and types:
            return str(next((name for name in types if name != "null"), "null"))
        for keyword, kind in _IMPLIED.items():
            if keyword in schema:
                return kind
        return "string"

    def an_object(self, schema: Mapping[str, Any], place: Place, depth: int) -> dict[str, Any]:
        properties = schema.get("properties", {})
        required = list(schema.get("required", ()))
        # Deep down only required properties: a recursive schema would not end.
        names = dict.fromkeys(required if depth > 3 else [*properties, *required])
        value = {
            name: self.of(properties.get(name, {}), (*place, name), depth + 1)
            for name in names
            if self.spend(len(name))
        }
        others, low = schema.get("additionalProperties", {}), _count(schema, "minProperties", 0)
        while len(value) < min(low, _MAX_ITEMS) and self.left > 0:
            number = next(
                n for n in range(len(value) + 1, _MAX_ITEMS * 2) if f"key{n}" not in value
            )
            value[f"key{number}"] = self.of(others, (*place, "key"), depth + 1)
        return value

    def an_array(self, schema: Mapping[str, Any], place: Place, depth: int) -> list[Any]:
        prefix = schema.get("prefixItems", ())
        items = schema.get("items", {})
        if isinstance(items, list):
            prefix, items = items, schema.get("additionalItems", {})
        low = min(_count(schema, "minItems", 0), _MAX_ITEMS)
        some = 0 if depth > 3 or items is False else 1
        count = min(max(low, len(prefix), some), _count(schema, "maxItems", _MAX_ITEMS))
        value: list[Any] = []
        for index in range(count):
            if self.left <= 0:
                break
            inner = prefix[index] if index < len(prefix) else items
            value.append(self.of(inner, (*place, index), depth + 1))
        if schema.get("uniqueItems") and len({repr(item) for item in value}) < len(value):
            return _make_distinct(value, items)
        return value

    def a_string(self, schema: Mapping[str, Any], place: Place) -> str:
        samples = FORMATS.get(str(schema.get("format")))
        if samples is not None:
            return str(self.pick(samples, place))
        text = str(self.pick(named(place), place))
        low = min(_count(schema, "minLength", 0), 100_000)
        self.spend(max(low, len(text)))
        if len(text) < low:
            text = (text + " ") * (low // (len(text) + 1) + 1)
        return text[: max(low, min(len(text), _count(schema, "maxLength", len(text))))]


def named(place: Place) -> Sequence[str]:
    """Texts for a property by its name."""
    name = str(place[-1]).lower() if place else ""
    return _NAMED.get(name) or _NAMED.get(name.rsplit("_", 1)[-1]) or ("example", "sample")


_IMPLIED = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "minimum": "number",
    "maximum": "number",
    "multipleOf": "number",
}


def _size(value: Any) -> int:
    """The approximate cost of writing `value`: its values and their characters."""
    size, todo = 0, [value]
    while todo:
        match todo.pop():
            case Mapping() as inner:
                todo += [*inner, *inner.values()]
            case list() as inner:
                todo += inner
            case str() as text:
                size += len(text)
        size += 1
    return size


def _breadth(schema: Mapping[str, Any]) -> int:
    """The cost of copying when a schema is merged with another."""
    return len(schema) + sum(len(schema.get(name, ())) for name in ("properties", "required"))


def _count(schema: Mapping[str, Any], keyword: str, absent: int) -> int:
    """A number of items or characters; 2.0 is 2."""
    return int(schema.get(keyword, absent))


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both merged, as far as a sample needs it: properties and required add up."""
    whole = {**second, **first}
    whole["properties"] = {**second.get("properties", {}), **first.get("properties", {})}
    whole["required"] = [*first.get("required", ()), *second.get("required", ())]
    for keyword in ("properties", "required"):
        if not whole[keyword]:
            del whole[keyword]
    return whole


def _number(schema: Mapping[str, Any], whole: bool) -> int | float:
    """A number within the bounds. Beyond the float range none is searched for."""
    try:
        return math.ceil(_fitting(schema, 1)) if whole else _fitting(schema, 0)
    except OverflowError:
        return 0


def _fitting(schema: Mapping[str, Any], whole: int) -> int | float:
    """A number within the bounds; `whole` 1 requires an integer. Small and round if possible."""
    step = schema.get("multipleOf", whole)
    low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    over: Any = schema.get("exclusiveMinimum")
    under: Any = schema.get("exclusiveMaximum")
    both_open = is_number(over) and is_number(under)
    gap = step or (under / 2 - over / 2 if both_open else 1)
    if is_number(over):
        low = max(low, over + gap)
    if is_number(under):
        high = min(high, under - gap)
    value: int | float = min(max(step or 1, low), high)
    if not step:
        return value
    times = math.ceil(value / step)
    fitting: int | float = (times if times * step <= high else math.floor(high / step)) * step
    return fitting


def _make_distinct(value: list[Any], items: Any) -> list[Any]:
    """Items made distinct, if their type makes that easy."""
    options = items.get("enum") if isinstance(items, Mapping) else None
    if isinstance(options, list) and len(options) >= len(value):
        return options[: len(value)]
    if all(isinstance(item, str) for item in value):
        return [f"{item}{index}" if index else item for index, item in enumerate(value)]
    if all(is_number(item) for item in value):
        step = items.get("multipleOf", 1) if isinstance(items, Mapping) else 1
        return [item + index * step for index, item in enumerate(value)]
    return value[:1]
