"""Defines lint rules: a row says what a provider does with one place in a schema.

The rows of each provider are in `NAME/lint.py` and `openai_schema.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from app.schema.schema_checks import Place, is_local, pointer, resolve, subschemas

Severity = Literal["refused", "ignored", "strict", "weak"]
"""A request would fail (400); accepted and not obeyed; strict mode would refuse; models stumble."""

Fix = Literal["", "strict", "gemini", "inline", "drop"]
"""Which rewrite of `rewrite.py` makes it good."""

Verdict = Literal["yes", "no", "partly", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One thing to know about a tool.

    `message` is a sentence. `pointer` is a JSON pointer into the tool in our own form
    ("/parameters/properties/x", "/name"), "" for the whole tool. `protocol` and `family` (of
    models) are "" where it holds for all. `source` is an address or a document; `inferred` where
    nobody saw a real answer.
    """

    severity: Severity
    message: str
    pointer: str
    protocol: str = ""
    family: str = ""
    source: str = ""
    inferred: bool = False
    fix: Fix = ""


@dataclass(frozen=True)
class Assessment:
    """A verdict with a sentence that says why."""

    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class ToolAcceptance:
    """How a protocol takes a tool: as it is, in strict mode, forced, with images as results."""

    protocol: str
    plain: Assessment
    strict: Assessment
    forced: Assessment
    images: Assessment


MOST_OF_A_RULE = 20
"""So many places a rule names; a generated schema may break one a thousand times."""

CLOSING = (
    *("additionalProperties", "unevaluatedProperties"),
    *("additionalItems", "unevaluatedItems"),
)
"""Where `true` and `false` are settings rather than schemas."""


@dataclass(frozen=True)
class SentTool:
    """A tool as one protocol is sent it. `schema` may be anything where a file of that protocol is
    judged as it stands; `where` is the pointer under which it stands in our own form.
    """

    name: str
    description: str
    schema: Any
    strict: bool = False
    freeform: bool = False
    eager: bool = False
    where: str = "/parameters"


@dataclass(frozen=True)
class Node:
    """A schema written inside another. `led` is the keyword that leads to it, "" at the root;
    `depth` counts the levels from the root or the definition it stands in, from 1.
    """

    place: Place
    schema: Any
    led: str
    depth: int
    root: Any

    @cached_property
    def keys(self) -> Mapping[str, Any]:
        return self.schema if isinstance(self.schema, Mapping) else {}

    @cached_property
    def types(self) -> Sequence[Any]:
        value = self.keys.get("type")
        return value if isinstance(value, list) else [] if value is None else [value]

    @property
    def properties(self) -> Mapping[str, Any]:
        value = self.keys.get("properties")
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def required(self) -> frozenset[str]:
        value = self.keys.get("required")
        names = value if isinstance(value, list) else []
        return frozenset(name for name in names if isinstance(name, str))

    @property
    def is_object(self) -> bool:
        return "object" in self.types or bool(self.properties)


@dataclass(frozen=True)
class LintRule:
    """`says` stands between the provider's name and the place: "takes no `oneOf`". `family` are
    the models it holds for where the tool is not strict, "" for all.
    """

    says: str
    hit: Callable[[Node], bool]
    source: str
    inferred: bool = False
    severity: Severity = "refused"
    fix: Fix = ""
    family: str = ""


def nodes(schema: Any) -> list[Node]:
    """Every schema written in `schema`, the outer before the inner; refs are not followed."""
    result = [Node((), schema, "", 1, schema)]
    for node in result:  # grows while it is read
        for place, inner in subschemas(node.schema, node.place):
            led = str(place[len(node.place)])
            depth = 1 if led in ("$defs", "definitions") else node.depth + 1
            result.append(Node(place, inner, led, depth, schema))
    return result


def apply_rules(
    rules: Sequence[LintRule], all_nodes: Sequence[Node], tool: SentTool, protocol: str, who: str
) -> Iterator[Finding]:
    """What `rules` find. A strict rule refuses a tool that is strict."""
    for rule in rules:
        severity = "refused" if rule.severity == "strict" and tool.strict else rule.severity
        mode = f"{who}'s strict mode" if rule.severity == "strict" else who
        family = "" if tool.strict else rule.family
        mode = f"{mode} ({family})" if family else mode
        hits = [node for node in all_nodes if rule.hit(node)]
        for number, node in enumerate(hits[:MOST_OF_A_RULE], 1):
            more = len(hits) - number if number == MOST_OF_A_RULE else 0
            rest = f", and at {more} more places" if more else ""
            yield Finding(
                severity,
                f"{mode} {rule.says}{at(node.place)}{rest}.",
                tool.where + pointer(node.place),
                protocol,
                family=family,
                source=rule.source,
                inferred=rule.inferred,
                fix=rule.fix,
            )


def at(place: Place) -> str:
    """` at /properties/x`, or nothing for the root."""
    return f" at {pointer(place)}" if place else ""


# What a rule looks for.


def has(*names: str) -> Callable[[Node], bool]:
    """Whether one of these keywords stands there."""
    sought = frozenset(names)
    return lambda node: not sought.isdisjoint(node.keys)


def root_has(*names: str) -> Callable[[Node], bool]:
    sought = frozenset(names)
    return lambda node: not node.place and not sought.isdisjoint(node.keys)


def bare_array(node: Node) -> bool:
    return "array" in node.types and "items" not in node.keys


def is_boolean(node: Node) -> bool:
    return isinstance(node.schema, bool) and node.led not in CLOSING


def is_open(node: Node) -> bool:
    """An object that may have more properties than those named."""
    return node.is_object and node.keys.get("additionalProperties") is not False


def is_typeless(node: Node) -> bool:
    """A schema that tells no type, by itself or by what it refers to."""
    keywords = ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not")
    return isinstance(node.schema, Mapping) and not any(name in node.keys for name in keywords)


def has_complex_enum(node: Node) -> bool:
    values = node.keys.get("enum")
    return isinstance(values, list) and any(isinstance(value, dict | list) for value in values)


def odd_format(formats: Sequence[str]) -> Callable[[Node], bool]:
    return lambda node: "format" in node.keys and node.keys["format"] not in formats


def ref_beside(*allowed: str) -> Callable[[Node], bool]:
    """A `$ref` beside which other keywords stand than these."""
    return lambda node: "$ref" in node.keys and bool(node.keys.keys() - {"$ref", *allowed})


def recursive_refs(schema: Any) -> frozenset[str]:
    """The local refs of a schema that lead back to themselves. Linear but for nested targets."""
    leads: dict[str, tuple[str, ...]] = {}
    todo = list(_refs(schema))
    while todo:
        ref = todo.pop()
        if ref not in leads:
            leads[ref] = tuple(_refs(resolve(schema, ref)))
            todo.extend(leads[ref])
    return frozenset(ref for ref in leads if _returns(ref, leads))


def _returns(start: str, leads: Mapping[str, Sequence[str]]) -> bool:
    seen: set[str] = set()
    todo = list(leads[start])
    while todo:
        ref = todo.pop()
        if ref == start:
            return True
        if ref not in seen:
            seen.add(ref)
            todo.extend(leads[ref])
    return False


def _refs(schema: Any) -> Iterator[str]:
    for node in nodes(schema):
        ref = node.keys.get("$ref")
        if isinstance(ref, str) and is_local(ref):
            yield ref
