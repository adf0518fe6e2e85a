"""Schemas with a value that fits, and ways to break it: where each must be told is known here.

Draws from a seed and knows nothing of the code that is tested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

When = Literal["end", "open", "key", "close"]
"""The end of the value at the place, its first character, the end of its key, its last bracket."""

GONE = object()
DRAFTS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}


@dataclass(frozen=True)
class Break:
    """`new` at `place` makes the value invalid, certainly so `when`; `expected_place` is where
    that is reported, if elsewhere. `new` GONE takes the key away."""

    kind: str
    place: tuple[str | int, ...]
    when: When
    new: Any
    expected_place: tuple[str | int, ...] | None = None


@dataclass(frozen=True)
class Node:
    schema: dict[str, Any]
    value: Any
    breaks: tuple[Break, ...]


def pair(seed: int) -> Node:
    """An object schema, arguments that satisfy it, and every way to break them that is known.

    The drafts take turns; a sixth names none and is of the last.
    """
    random = Random(seed)
    draft = [*DRAFTS, None][seed % 6]
    draw = _Draw(random, 2020 if draft is None else draft)
    node = draw.object(3)
    schema = {**node.schema, "$defs": draw.defs} if draw.defs else node.schema
    return replace(node, schema=schema if draft is None else {"$schema": DRAFTS[draft], **schema})


def broken(value: Any, item: Break) -> Any:
    changed = json.loads(json.dumps(value))  # no two places share one value
    here = changed
    for step in item.place[:-1]:
        here = here[step]
    match item.place[-1]:
        case int() as index if index == len(here):
            here.append(item.new)
        case step if item.new is GONE:
            del here[step]
        case step:
            here[step] = item.new
    return changed


class _Draw:
    def __init__(self, random: Random, draft: int) -> None:
        self.random, self.draft = random, draft
        self.defs: dict[str, Any] = {}

    def any(self, depth: int) -> Node:
        plain_draws = [self.string, self.integer, self.number, self.enum, self.const, self.flag]
        plain_draws += [self.pattern, self.format, self.forbidden, self.several]
        plain_draws = [
            item for item in plain_draws if self.draft > 4 or item not in (self.const, self.number)
        ]
        if depth and self.random.random() < 0.5:
            inner = self.random.choice([self.object, self.array, self.tuple, self.unique])
            return self.wrapped(inner(depth - 1))
        return self.wrapped(self.random.choice(plain_draws)())

    def wrapped(self, node: Node) -> Node:
        """The same behind a `$ref`, an `allOf`, or beside null."""
        match self.random.randrange(8):
            case 0:
                name = f"d{len(self.defs)}/~ %"
                self.defs[name] = node.schema
                path = name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
                return replace(node, schema={"$ref": f"#/$defs/{path}".replace(" ", "%20")})
            case 1:
                return replace(node, schema={"allOf": [node.schema, {}], "title": "t"})
            case 2:
                return replace(node, schema={"anyOf": [{"type": "null"}, node.schema]})
            case 3:
                return replace(node, schema={"oneOf": [node.schema, {"type": "null"}]})
        return node

    def string(self) -> Node:
        text = "".join(self.random.choice('aé"\\\n/😀 ') for _ in range(self.random.randint(2, 6)))
        size = len(text)
        schema = {"type": "string", "minLength": size, "maxLength": size}
        bad_draws = (_end("type", 7), _end("type", True), _open([]), _open({}))
        return Node(
            schema, text, (*bad_draws, _end("minLength", text[1:]), _end("maxLength", text + "b"))
        )

    def integer(self) -> Node:
        value = self.random.randint(-1200, 1200)
        schema = {"type": "integer", "minimum": value, "maximum": value + 3}
        bad_draws = (_end("type", str(value)), _end("type", value + 0.5), _open([value]))
        return Node(
            schema, value, (*bad_draws, _end("minimum", value - 1), _end("maximum", value + 1234))
        )

    def number(self) -> Node:
        value = self.random.choice([0.5, 12.25, -3e5, 1e-7])
        schema = {"type": "number", "exclusiveMinimum": value - 1, "exclusiveMaximum": value + 1}
        breaks = (_end("type", "x"), _open({"a": 1}), _end("exclusiveMinimum", value - 1))
        return Node(schema, value, (*breaks, _end("exclusiveMaximum", value + 1)))

    def several(self) -> Node:
        schema = {"type": ["integer", "boolean"], "multipleOf": 3}
        return Node(schema, 9, (_end("multipleOf", 10), _end("type", "9"), _open({})))

    def flag(self) -> Node:
        return Node({"type": "boolean"}, True, (_end("type", "true"), _end("type", 1), _open([])))

    def enum(self) -> Node:
        options: list[Any] = self.random.choice([["a", "b c", 3], [1, 2, 30], ["é", "🙂"]])
        value = self.random.choice(options)
        return Node({"enum": options}, value, (_end("enum", "A"), _end("enum", 3.5)))

    def const(self) -> Node:
        return Node({"const": "fixed"}, "fixed", (_end("const", "fixes"), _end("const", 0)))

    def pattern(self) -> Node:
        schema = {"type": "string", "pattern": "^[a-f]{2,4}$"}
        return Node(schema, "abc", (_end("pattern", "abcdefg"), _end("pattern", "")))

    def format(self) -> Node:
        schema = {"type": "string", "format": "ipv4"}
        return Node(schema, "127.0.0.1", (_end("format", "127.0.0.256"), _end("type", 2026)))

    def forbidden(self) -> Node:
        return Node({"not": {"enum": ["no"]}}, "yes", (_end("not", "no"),))

    def unique(self, depth: int) -> Node:
        schema: dict[str, Any] = {"type": "array", "uniqueItems": True}
        breaks = [Break("uniqueItems", (2,), "close", 1, ())]
        if self.draft > 4:
            schema["contains"] = {"const": 1}
            breaks.append(Break("contains", (0,), "close", 3, ()))
        return Node(schema, [1, 2], tuple(breaks))

    def array(self, depth: int) -> Node:
        item = self.any(depth)
        count = self.random.randint(1, 3)
        schema: dict[str, Any] = {"type": "array", "items": item.schema, "maxItems": count}
        breaks = [b for index in range(count) for b in _inside(item, index)]
        breaks.append(Break("maxItems", (count,), "open", item.value))
        if count == 1:
            schema["minItems"] = 1
            breaks.append(Break("minItems", (0,), "close", GONE, ()))
        return Node(schema, [item.value] * count, (*breaks, _open("x", "end"), _open({})))

    def tuple(self, depth: int) -> Node:
        first, rest = self.any(depth), self.any(depth)
        words = ("prefixItems", "items") if self.draft == 2020 else ("items", "additionalItems")
        schema = {"type": "array", words[0]: [first.schema], words[1]: rest.schema}
        breaks = (*_inside(first, 0), *_inside(rest, 1))
        return Node(schema, [first.value, rest.value], breaks)

    def object(self, depth: int) -> Node:
        names = [*("city", "a/b", "~x", "naïve", "", "x_0"), "q"][: self.random.randint(1, 7)]
        members = {name: self.any(depth) for name in names}
        value = {name: node.value for name, node in members.items()}
        breaks = [b for name, node in members.items() for b in _inside(node, name)]
        pattern = {"x_0": members["x_0"].schema} if "x_0" in members else {}
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {n: node.schema for n, node in members.items() if n not in pattern},
            "patternProperties": dict(zip(["^x_[0-9]$"], pattern.values(), strict=False)),
            "required": names[:2],
        }
        breaks += [Break("required", (name,), "close", GONE, ()) for name in names[:2]]
        breaks += self.more(schema, names, value)
        return Node(schema, value, tuple(breaks))

    def more(self, schema: dict[str, Any], names: list[str], value: Any) -> Iterator[Break]:
        """One more thing that an object may want."""
        match self.random.randrange({4: 5, 6: 6, 7: 7}.get(self.draft, 8)):
            case 0 | 1 | 2:
                schema["additionalProperties"] = False
                yield Break("unknown", ("zz",), "key", 1)
            case 3:
                schema["additionalProperties"] = {"type": "integer"}
                value["more"] = 12
                yield Break("type", ("more",), "end", "12")
            case 4:
                schema["maxProperties"] = len(names)
                yield Break("maxProperties", ("zz",), "close", 1, ())
            case 5:
                schema["propertyNames"] = {"maxLength": 8}
                yield Break("propertyNames", ("a name too long",), "key", 1)
            case 6:
                depends = "dependencies" if self.draft == 7 else "dependentRequired"
                schema[depends] = {"zz": ["missing"]}
                schema["if"] = {"required": ["yy"]}
                schema["then"] = {"required": ["missing"]}
                yield Break("dependentRequired", ("zz",), "close", 1, ())
                yield Break("then", ("yy",), "close", 1, ())
            case 7:
                schema["unevaluatedProperties"] = False
                yield Break("unevaluated", ("zz",), "close", 1, ())


def _end(kind: str, new: Any) -> Break:
    return Break(kind, (), "end", new)


def _open(new: Any, when: When = "open") -> Break:
    return Break("type", (), when, new)


def _inside(node: Node, step: str | int) -> Iterator[Break]:
    for item in node.breaks:
        output = None if item.expected_place is None else (step, *item.expected_place)
        yield replace(item, place=(step, *item.place), expected_place=output)


@dataclass(frozen=True)
class Spelled:
    """A text of JSON, and where the values and keys of each place stand: (start, end)."""

    text: str
    values: Mapping[tuple[str | int, ...], tuple[int, int]]
    keys: Mapping[tuple[str | int, ...], tuple[int, int]]

    def certain(self, item: Break) -> tuple[int, int]:
        """How many characters must have come for `one` to be certain, and the token's start."""
        place = item.place if item.expected_place is None else item.expected_place
        start, end = self.keys[place] if item.when == "key" else self.values[place]
        match item.when:
            case "open":
                return start + 1, start
            case "close":
                return end, end - 1
        # A number ends where the next character is none of its own.
        return end + (self.text[end - 1].isdigit()), start


def spelled(value: Any, seed: int) -> Spelled:
    """`value` with odd spacing and escapes."""
    return _Speller(Random(seed)).spelled(value)


class _Speller:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.text = ""
        self.values: dict[tuple[str | int, ...], tuple[int, int]] = {}
        self.keys: dict[tuple[str | int, ...], tuple[int, int]] = {}

    def spelled(self, value: Any) -> Spelled:
        self.blank()
        self.say(value, ())
        self.blank()
        return Spelled(self.text, self.values, self.keys)

    def blank(self) -> None:
        self.text += self.random.choice(["", "", "", " ", "\n", " \t\r\n "])

    def say(self, value: Any, place: tuple[str | int, ...]) -> None:
        start = len(self.text)
        match value:
            case dict():
                self.members("{}", [((*place, name), item) for name, item in value.items()])
            case list():
                self.members("[]", [((*place, n), item) for n, item in enumerate(value)])
            case str():
                self.string(value)
            case _:
                self.text += json.dumps(value)
        self.values[place] = start, len(self.text)

    def members(self, brackets: str, items: list[tuple[tuple[str | int, ...], Any]]) -> None:
        self.text += brackets[0]
        for number, (place, item) in enumerate(items):
            self.text += "," if number else ""
            self.blank()
            if brackets == "{}":
                start = len(self.text)
                self.string(str(place[-1]))
                self.keys[place] = start, len(self.text)
                self.blank()
                self.text += ":"
                self.blank()
            self.say(item, place)
            self.blank()
        self.text += brackets[1]

    def string(self, value: str) -> None:
        self.text += '"' + "".join(self.character(char) for char in value) + '"'

    def character(self, char: str) -> str:
        must = char in '"\\' or char < " "
        match self.random.randrange(6):
            case 0:
                return json.dumps(char)[1:-1] if ord(char) > 126 else f"\\u{ord(char):04x}"
            case 1 if char == "/":
                return "\\/"
        return json.dumps(char)[1:-1] if must else char
