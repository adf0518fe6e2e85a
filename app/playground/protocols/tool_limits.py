"""Defines limits: a row says what a provider refuses, ignores or may mishandle, and the source. The
rows are in `NAME/limits.py`, those for both of OpenAI's protocols in `openai_chat/limits.py`.

Lint uses a row's own words (`findings`), and so does the encoders' preflight (`preflight` in
`encoder`); the server ends refuse by it in the provider's words (`check`). Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Generic, Literal, TypeVar

import jsonschema_rs

from playground.core.tools import Tool
from playground.protocols.server import BadRequest, Citation
from playground.schema.schema_checks import Place, fault, is_local, pointer, resolve, subschemas

Severity = Literal["unsatisfiable", "refused", "ignored", "strict", "weak"]
"""No call can be valid at any provider; refused with 400; accepted but ignored; refused in strict
mode only; mishandled by models."""

ERRORS: tuple[Severity, ...] = ("unsatisfiable", "refused")
"""Severities of a tool that cannot be used as it is."""

Fix = Literal["", "strict", "gemini", "inline", "drop", "rename"]
"""The rewrite of `rewrite.py` that fixes it; `playground lint --json` prints these values. "rename"
corrects a misspelled name in `required`: no tool and no property gets another name."""

Match = bool | Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""The result of a predicate: a bool; or, if it matches, the values for the message, or several of
these. Two values give the place: `pointer`, in our own form, and `step`, further steps below the
checked schema."""

MOST_OF_A_RULE = 20
"""Most places that a row reports; a generated schema may violate one a thousand times."""

NUMBER_FORMATS = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("int", "uint", "float", "double"),
)
"""The formats of numbers that generators of schemas write (schemars, OpenAPI): strict modes accept
them, as recorded requests show."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

TWICE = Citation("https://github.com/continuedev/continue/issues/10200", inferred=True)
"""Assumed consequence of two tools with the same name."""


@dataclass(frozen=True)
class Finding:
    """A finding about a tool.

    `message` is a sentence. `pointer` is a JSON pointer into the tool in our own form
    ("/parameters/properties/x", "/name"), "" for the whole tool. `protocol` and `family` (of
    models) are "" if it applies to all. `source` is a URL or a document; `inferred`: no real
    response was seen. `profile` is the provider whose own limit it is, "" if it is the protocol's.
    """

    severity: Severity
    message: str
    pointer: str
    protocol: str = ""
    family: str = ""
    source: str = ""
    inferred: bool = False
    fix: Fix = ""
    profile: str = ""


@dataclass(frozen=True)
class CallIdLimit:
    """What a provider takes as the id of a call: all of `pattern`. `says` is that in words."""

    pattern: re.Pattern[str]
    says: str
    source: Citation


# What limits apply to: a tool, its schemas, the tools of one request.


@dataclass(frozen=True)
class SentTool:
    """A tool as sent by one protocol. `schema` may be anything; `members` is the original entry, if
    a file or a request is checked as it is. `words` are further values for a refusal, such as its
    place in the request."""

    name: str
    description: str
    schema: Any
    strict: bool = False
    freeform: bool = False
    eager: bool = False
    members: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_tool(cls, tool: Tool, **changes: Any) -> SentTool:
        """`tool` as the encoders send it."""
        sent_tool = cls(
            tool.name,
            description=tool.description,
            schema=tool.parameters,
            strict=tool.strict,
            freeform=tool.format is not None,
            eager=tool.eager,
        )
        return replace(sent_tool, **changes)


CLOSING = (
    *("additionalProperties", "unevaluatedProperties"),
    *("additionalItems", "unevaluatedItems"),
)
"""Keywords for which `true` and `false` are settings rather than schemas."""


@dataclass(frozen=True)
class Node:
    """A schema inside another. `led` is the keyword that leads to it, "" at the root; `depth`
    counts the levels from the root, or from its definition, from 1; `strict` is that of its tool.
    `wire` is the provider's own path, if it has one; `all` are all nodes of the tree."""

    place: Place
    schema: Any
    led: str
    depth: int
    strict: bool = False
    wire: str = ""
    all: Sequence[Node] = field(default=(), repr=False, compare=False)

    @cached_property
    def keys(self) -> Mapping[str, Any]:
        return self.schema if isinstance(self.schema, Mapping) else {}

    @cached_property
    def types(self) -> Sequence[Any]:
        value = self.keys.get("type")
        return value if isinstance(value, list) else [] if value is None else [value]

    @property
    def kind(self) -> Any:
        """The first type."""
        return next(iter(self.types), "any")

    @property
    def context(self) -> tuple[str, ...]:
        """The path as strings."""
        return tuple(map(str, self.place))

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
    def enum(self) -> list[Any]:
        value = self.keys.get("enum")
        return value if isinstance(value, list) else []

    @property
    def is_object(self) -> bool:
        return "object" in self.types or bool(self.properties)


Below = Callable[[Node], Iterable[tuple[Place, Any, str]]]
"""Returns the schemas one level below, each with its steps, and these steps for `wire`."""

T = TypeVar("T", SentTool, Node, Sequence[SentTool])


def walk_nodes(schema: Any, below: Below, *, strict: bool, led: str = "") -> list[Node]:
    """`schema` and all schemas `below`, outer before inner."""
    result: list[Node] = []
    result.append(Node((), schema, led, 1, strict, all=result))
    for node in result:  # grows during the loop
        for steps, inner, wire in below(node):
            led = str(steps[0])
            depth = 1 if led in ("$defs", "definitions") else node.depth + 1
            place = (*node.place, *steps)
            result.append(
                Node(
                    place,
                    schema=inner,
                    led=led,
                    depth=depth,
                    strict=strict,
                    wire=node.wire + wire,
                    all=result,
                )
            )
    return result


def _written_below(node: Node) -> Iterator[tuple[Place, Any, str]]:
    return ((steps, inner, "") for steps, inner in subschemas(node.schema))


def nodes(schema: Any, *, strict: bool = False) -> list[Node]:
    """All schemas in `schema`, without following refs; none if it is not an object."""
    is_object = isinstance(schema, Mapping)
    return walk_nodes(schema, _written_below, strict=strict) if is_object else []


# A row, a protocol's table, and what they find.


@dataclass(frozen=True)
class Limit(Generic[T]):
    """A row. `says` is our message after the provider's name ("takes no `oneOf`"), or a sentence if
    it begins with a capital; `refusal` is the provider's message, "" if it does not refuse or the
    words are unknown. Both are formatted (`str.format`) with the result of `finds` and with `node`
    or `tool`, the provider's also with the tool's `words`. `{at}` is the place in the schema; if
    our message does not contain it, it is appended.

    `severity` "strict" refuses only strict tools. `family` describes the models it applies to, ""
    for all; `holds` tests a model's name for that. `keyword` is a keyword that is refused
    completely. `param` and `code` are the provider's values for the place and the kind of error.
    A vendor's own row replaces the protocol's rows on the same `subject` ("names", "count").
    """

    says: str
    finds: Callable[[T], Match]
    source: Citation
    refusal: str = ""
    severity: Severity = "refused"
    fix: Fix = ""
    pointer: str = ""
    keyword: str = ""
    family: str = ""
    holds: Callable[[str], bool] | None = None
    param: str = ""
    code: str = ""
    subject: str = ""

    def refuses(self, strict: bool, model: str | None) -> bool:
        """Whether `model` refuses a tool with this strictness; None is an unknown model, which
        refuses only what all models refuse."""
        if self.holds is not None:
            return model is not None and self.holds(model)
        return self.severity == "refused" or (self.severity == "strict" and strict)


@dataclass(frozen=True)
class Hit:
    """A match of a row for a tool, one of its schemas, or several tools, with values for the
    message, the place in the schema, and the place in a tool of our own form."""

    limit: Limit[Any]
    values: Mapping[str, Any]
    place: Place
    pointer: str

    def message(self, who: str, more: str = "") -> str:
        """The sentence in our words; `more` is appended to the place."""
        place = place_phrase(self.place) + more
        says = self.limit.says if "{at}" in self.limit.says else self.limit.says + "{at}"
        words = says.format_map({**self.values, "at": place})
        return f"{words if words[:1].isupper() else f'{who} {words}'}."

    def refusal(self, kind: str) -> BadRequest:
        """The refusal in the provider's words."""
        limit = self.limit
        return BadRequest(
            limit.refusal.format_map(self.values),
            kind=kind,
            param=limit.param.format_map(self.values) or None,
            code=limit.code.format_map(self.values) or None,
            source=limit.source.words,
            inferred=limit.source.inferred,
        )


@dataclass(frozen=True)
class LimitTable:
    """The table of `protocol`, whose provider is called `who`: rows for a tool, for each of its
    schemas (found by `walk`), and for the tools of one request. `kind` is the type of the
    provider's errors. `profile` is the provider, if these limits apply only to it, in addition
    to those of the protocol."""

    protocol: str
    who: str
    of_tool: tuple[Limit[SentTool], ...] = ()
    of_schema: tuple[Limit[Node], ...] = ()
    of_request: tuple[Limit[Sequence[SentTool]], ...] = ()
    walk: Callable[..., list[Node]] = nodes
    kind: str = "invalid_request_error"
    profile: str = ""

    @property
    def rows(self) -> tuple[Limit[Any], ...]:
        return (*self.of_tool, *self.of_schema, *self.of_request)

    def drop_rows(self, subjects: Collection[str], *, families: bool = False) -> LimitTable:
        """The table without the rows on these subjects, and without those for single `families` of
        models."""

        def select(rows: tuple[Limit[T], ...]) -> tuple[Limit[T], ...]:
            return tuple(
                row
                for row in rows
                if not (row.subject and row.subject in subjects) and not (families and row.family)
            )

        return replace(
            self,
            of_tool=select(self.of_tool),
            of_schema=select(self.of_schema),
            of_request=select(self.of_request),
        )

    def findings(self, tool: SentTool, model: str | None = None) -> list[Finding]:
        """What is refused or ignored of a tool, in the order of the rows; with `model`, what that
        one refuses."""
        wanted = _wanted_rows(tool.strict, model)
        hits: dict[int, list[Hit]] = {id(row): [] for row in self.rows}
        for hit in (*self._tool_hits(tool, wanted), *self._schema_hits(tool, wanted)):
            hits[id(hit.limit)].append(hit)
        by_row = (self._to_findings(several, tool.strict) for several in hits.values())
        return list(chain.from_iterable(by_row))

    def group_findings(self, tools: Sequence[SentTool], model: str | None = None) -> list[Finding]:
        """The same for several tools in one request."""
        hits = self._request_hits(tools, _wanted_rows(False, model))
        return list(self._to_findings(list(hits), strict=False))

    def check(self, tools: Sequence[SentTool], model: str = "") -> None:
        """Raises the first refusal: of the tools together, of a tool, of a schema."""
        self.check_request(tools, model)
        for tool in tools:
            self.check_tool(tool, model)
        for tool in tools:
            self.check_schema(tool, model)

    def check_request(self, tools: Sequence[SentTool], model: str = "") -> None:
        """Raises the first refusal of the combination of these tools."""
        self._raise_first(self._request_hits(tools, _refusing_rows(False, model)))

    def check_tool(self, tool: SentTool, model: str = "") -> None:
        """Raises the first refusal of a tool by name, members or size."""
        self._raise_first(self._tool_hits(tool, _refusing_rows(tool.strict, model)))

    def check_schema(
        self, tool: SentTool, model: str | None = None, *, only_strict: bool = False
    ) -> None:
        """Raises the first refusal of a schema of a tool or of a structured answer (without
        `model`: what all refuse), by all rows for schemas or only by those of strict mode."""
        refusing = _refusing_rows(tool.strict, model)

        def wanted(row: Limit[Any]) -> bool:
            return refusing(row) and (row.severity == "strict" or not only_strict)

        self._raise_first(self._schema_hits(tool, wanted))

    def _raise_first(self, hits: Iterable[Hit]) -> None:
        for hit in hits:
            raise hit.refusal(self.kind)

    def _tool_hits(self, tool: SentTool, wanted: _RowFilter) -> Iterator[Hit]:
        for limit in filter(wanted, self.of_tool):
            if match := limit.finds(tool):
                yield from _hits(limit, match, {**tool.words, "tool": tool})

    def _schema_hits(self, tool: SentTool, wanted: _RowFilter) -> Iterator[Hit]:
        rows = list(filter(wanted, self.of_schema))
        for node in self.walk(tool.schema, strict=tool.strict):
            for limit in rows:
                if limit.keyword and limit.keyword not in node.keys:
                    continue  # inlined: a schema may have thousands of nodes
                if match := limit.finds(node):
                    words = {**tool.words, "tool": tool, "node": node}
                    yield from _hits(limit, match, words, node.place)

    def _request_hits(self, tools: Sequence[SentTool], wanted: _RowFilter) -> Iterator[Hit]:
        for limit in filter(wanted, self.of_request):
            if match := limit.finds(tools):
                yield from _hits(limit, match, tools[0].words)

    def _to_findings(self, hits: Sequence[Hit], strict: bool) -> Iterator[Finding]:
        for number, hit in enumerate(hits[:MOST_OF_A_RULE], 1):
            more = len(hits) - number if number == MOST_OF_A_RULE else 0
            limit = hit.limit
            who = f"{self.who}'s strict mode" if limit.severity == "strict" else self.who
            yield Finding(
                "refused" if limit.severity == "strict" and strict else limit.severity,
                hit.message(
                    f"{who} ({limit.family})" if limit.family else who,
                    f", and at {more} more places" if more else "",
                ),
                hit.pointer,
                self.protocol,
                family=limit.family,
                source=limit.source.words,
                inferred=limit.source.inferred,
                fix=limit.fix,
                profile=self.profile,
            )


_RowFilter = Callable[[Limit[Any]], bool]


def _refusing_rows(strict: bool, model: str | None) -> _RowFilter:
    """Selects the rows that refuse a tool in known words."""
    return lambda row: bool(row.refusal) and row.refuses(strict, model)


def _wanted_rows(strict: bool, model: str | None) -> _RowFilter:
    """Selects all rows, or those by which `model` refuses."""
    return lambda row: model is None or row.refuses(strict, model)


def _hits(
    limit: Limit[Any], match: Match, words: Mapping[str, Any], place: Place = ()
) -> Iterator[Hit]:
    if isinstance(match, bool | Mapping):
        match = [match if isinstance(match, Mapping) else {}]
    for values in match:
        pointer_ = values.get("pointer", limit.pointer)
        if "node" in words and "pointer" not in values:
            pointer_ = "/parameters" + pointer((*place, *values.get("step", ())))
        yield Hit(limit, {**words, **values}, place, pointer_)


def place_phrase(place: Place) -> str:
    """` at /properties/x`, or "" for the root."""
    return f" at {pointer(place)}" if place else ""


# Predicates for rows.


def refused_keywords(limits: LimitTable) -> tuple[str, ...]:
    """Keywords that strict mode refuses everywhere."""
    return tuple(row.keyword for row in limits.of_schema if row.keyword)


def odd_name(pattern: re.Pattern[str]) -> Callable[[SentTool], Match]:
    return lambda tool: not pattern.fullmatch(tool.name) and {"shown": tool.name[:80]}


def odd_members(
    known: Sequence[str], name_of: Callable[[str], str] = str
) -> Callable[[SentTool], Match]:
    """Members of the entry that are not known."""
    return lambda tool: [
        {"key": key, "shown": name_of(key)[:80]}
        for key in tool.members
        if name_of(key) not in known
    ]


def has_keyword(*names: str) -> Callable[[Node], bool]:
    """Matches a schema with any of these keywords."""
    sought = frozenset(names)
    return lambda node: not sought.isdisjoint(node.keys)


def at_root(finds: Callable[[Node], Match]) -> Callable[[Node], Match]:
    """Applies `finds` to the outermost schema only."""
    return lambda node: finds(node) if not node.led else False


def bare_array(node: Node) -> bool:
    return "array" in node.types and "items" not in node.keys


def is_boolean(node: Node) -> bool:
    return isinstance(node.schema, bool) and node.led not in CLOSING


def is_open(node: Node) -> bool:
    """An object that permits undeclared properties."""
    return node.is_object and node.keys.get("additionalProperties") is not False


def is_typeless(*keywords: str) -> Callable[[Node], bool]:
    """A schema that gives no type by one of these keywords."""
    return lambda node: isinstance(node.schema, Mapping) and node.keys.keys().isdisjoint(keywords)


def odd_format(formats: Sequence[str]) -> Callable[[Node], bool]:
    return lambda node: "format" in node.keys and node.keys["format"] not in formats


def neighbours(*allowed: str) -> Callable[[Node], Match]:
    """The keywords next to a `$ref`, except these, and the last step of the ref."""

    def find(node: Node) -> Match:
        beside = sorted(node.keys.keys() - {"$ref", *allowed}) if "$ref" in node.keys else ()
        last = str(node.keys.get("$ref")).rpartition("/")[2]
        return {"beside": ", ".join(map(repr, beside)), "last": last} if beside else False

    return find


def is_other_draft(node: Node) -> Match:
    """A whole schema that is invalid in draft 2020-12, whatever its `$schema` is."""
    if node.led or jsonschema_rs.meta.is_valid({**node.keys, "$schema": _DRAFT}):
        return False
    plain = {key: value for key, value in node.keys.items() if key != "$schema"}
    why, where = fault(plain) or ("", "")
    because = f". {why.removesuffix('.')}" if why else ""
    return {"why": because, "pointer": f"/parameters{where}"}


def refers_to_itself(node: Node) -> Match:
    """Local refs that are recursive."""
    if node.led or not any("$ref" in each.keys for each in node.all):
        return ()
    return [{"ref": ref} for ref in sorted(recursive_refs(node.schema))[:5]]


def recursive_refs(schema: Any) -> frozenset[str]:
    """The recursive local refs of a schema. Linear except for nested targets."""
    leads: dict[str, tuple[str, ...]] = {}
    todo = list(_refs(schema))
    while todo:
        ref = todo.pop()
        if ref not in leads:
            leads[ref] = tuple(_refs(resolve(schema, ref)))
            todo.extend(leads[ref])
    return frozenset(_circular(leads))


def _circular(leads: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The refs that lead back to themselves. Each is visited once (Gabow's algorithm): `path` is
    the current search path, `unsettled` are refs that may be in a cycle with refs of the path,
    `entries` the first ref of each possible cycle."""
    numbers: dict[str, int] = {}
    settled: set[str] = set()
    unsettled: list[str] = []
    entries: list[str] = []
    for start in leads:
        path = [] if start in numbers else [(start, iter(leads[start]))]
        while path:
            ref, following = path[-1]
            if ref not in numbers:
                numbers[ref] = len(numbers)
                unsettled.append(ref)
                entries.append(ref)
            target = next(following, None)
            if target is not None and target not in numbers:
                path.append((target, iter(leads[target])))
            elif target is not None and target not in settled:
                while numbers[entries[-1]] > numbers[target]:
                    entries.pop()
            elif target is None:
                path.pop()
                if entries[-1] == ref:
                    entries.pop()
                    circle = [unsettled.pop()]
                    while circle[-1] != ref:
                        circle.append(unsettled.pop())
                    settled.update(circle)
                    if len(circle) > 1 or ref in leads[ref]:
                        yield from circle


def _refs(schema: Any) -> Iterator[str]:
    for node in nodes(schema):
        ref = node.keys.get("$ref")
        if isinstance(ref, str) and is_local(ref):
            yield ref


# Rows of several protocols.


def too_many_tools(
    most: int, source: Citation, refusal: str, *, param: str = "", code: str = ""
) -> Limit[Any]:
    def find(tools: Sequence[SentTool]) -> Match:
        return len(tools) > most and {"count": len(tools)}

    says = f"accepts {most} tools in a request, not {{count}}"
    return Limit(says, find, source, refusal, param=param, code=code, subject="count")


def equal_names(source: Citation, refusal: str = "", param: str = "") -> Limit[Any]:
    """Two tools with the same name; without a `refusal` they are accepted and confused."""

    def find(tools: Sequence[SentTool]) -> Match:
        counts = Counter(tool.name for tool in tools)
        return [{"name": name} for name in sorted(counts) if counts[name] > 1]

    outcome = "the request is refused" if refusal else "it is unclear which tool is called"
    says = f"The name {{name!r}} occurs twice: {outcome}"
    severity: Severity = "refused" if refusal else "weak"
    return Limit(says, find, source, refusal, severity, pointer="/name", param=param)


def lacks_freeform(says: str, source: str) -> Limit[SentTool]:
    """Only for tools in our form: an entry checked as it is has no other form."""

    def find(tool: SentTool) -> bool:
        return tool.freeform and not tool.members

    return Limit(says, find, Citation(source), severity="ignored", pointer="/format")


def lacks_strict(says: str, source: str) -> Limit[SentTool]:
    return Limit(
        says, lambda tool: tool.strict, Citation(source), severity="ignored", pointer="/strict"
    )


LACKS_EAGER: Limit[SentTool] = Limit(
    "Only Anthropic can stream arguments unchecked",
    lambda tool: tool.eager,
    Citation(
        "https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming"
    ),
    severity="ignored",
    pointer="/eager",
)
