"""Limits of Gemini for function declarations: what it refuses or ignores.

There are two forms of schemas: `parametersJsonSchema` (`LIMITS`), which we send, and `parameters`
(`PLAIN`), a subset of OpenAPI's schemas, which files in Gemini's own form often use.

They are two tables, not one with a column: limits for tool and request apply to both and are
written once (`_OF_TOOL`, `of_request`), but no row for schemas applies to both. Each form is
traversed differently, with its own names and paths, and has its own fix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from playground.protocols.server import Citation, compact_json
from playground.protocols.tool_limits import (
    LACKS_EAGER,
    Fix,
    Limit,
    LimitTable,
    Match,
    Node,
    SentTool,
    at_root,
    equal_names,
    has_keyword,
    lacks_freeform,
    lacks_strict,
    neighbours,
    nodes,
    odd_members,
    odd_name,
    refers_to_itself,
    too_many_tools,
    walk_nodes,
)
from playground.schema.schema_checks import Place

REFERENCE = Citation("https://ai.google.dev/api/caching#FunctionDeclaration")
ASSUMED = Citation(REFERENCE.words, inferred=True)
UNKNOWN = Citation("https://github.com/zed-industries/zed/issues/44875")
TYPES = Citation("https://protobuf.dev/programming-guides/json/")
_SUBSET = "google-genai, GenerateContentConfig.response_json_schema: the keywords that count"
_STATES = Citation("https://github.com/googleapis/python-genai/issues/2170")
_EMPTY_OBJECTS = Citation("https://github.com/home-assistant/core/pull/122403")
_NO_OBJECTS = Citation("https://github.com/anomalyco/opencode/issues/11889")

DECLARATION = (
    *("name", "description", "parameters", "parametersJsonSchema"),
    *("response", "responseJsonSchema", "behavior"),
)
KNOWN = frozenset(
    (
        *("type", "format", "title", "description", "nullable", "enum", "items", "maxItems"),
        *("minItems", "properties", "required", "minProperties", "maxProperties", "minimum"),
        *("maximum", "minLength", "maxLength", "pattern", "example", "anyOf"),
        *("propertyOrdering", "default"),
    )
)
"""The members of a schema in `parameters`."""
TYPES_BY_NUMBER = (
    *("type_unspecified", "string", "number", "integer"),
    *("boolean", "array", "object", "null"),
)
"""In the order of Google's enum: a request may use the number instead of the name."""
FORMATS = {
    "string": ("enum", "date-time"),
    "integer": ("int32", "int64"),
    "number": ("float", "double"),
}
"""The formats in `parameters`, by type; other types have none."""
_DROPPED = (
    *("const", "pattern", "minLength", "maxLength", "multipleOf", "exclusiveMinimum"),
    *("exclusiveMaximum", "uniqueItems", "minProperties", "maxProperties", "propertyNames"),
    *("patternProperties", "allOf", "not", "if", "contains", "dependentSchemas"),
    *("dependentRequired", "dependencies", "unevaluatedProperties", "unevaluatedItems"),
)
SKIP_VALIDATOR = "skip_thought_signature_validator"
"""Accepted by Google's server in place of a signature that it never gave."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_MOST_TOOLS = 512
_MOST_ITEMS = 960
_MANY_LETTERS = 3000
"""Between the accepted and the refused size: 240 values of one word, and of two."""
_OLDER = re.compile(r"(?:models/)?gemini-(?:1|2\.0|pro)")
"""Prefixes of models that refuse `parameters` without properties. 2.5 accepts them, as a recorded
answer to llm-gemini shows."""
_SNAKE, _CAMEL = re.compile(r"_([a-z])"), re.compile(r"[A-Z]")

_FORMAT, _ENUM = ("format",), ("enum",)

_AT = "* GenerateContentRequest.{where}"
_INSIDE = "* GenerateContentRequest.{schema}{node.wire}"
NO_FIELD = 'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.'
_COMPLEX = (
    "The specified schema produces a constraint that has too many states for serving. Typical "
    "causes of this error are schemas with lots of text (for example, very long property or enum "
    "names), schemas with long array length limits (especially when nested), or schemas using "
    "complex value matchers (for example, integers or numbers with minimum/maximum bounds or "
    "strings with complex formats like date-time)"
)

_IN_PLACE = "{schema}{node.wire}"


def camel_name(key: str) -> str:
    """The camelCase name of a member that may be in snake_case."""
    return _SNAKE.sub(lambda step: step[1].upper(), key)


def snake_name(key: str) -> str:
    """The snake_case name, as Google writes it in a path."""
    return _CAMEL.sub(lambda letter: f"_{letter[0].lower()}", key)


def camel_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The members by camelCase names, without nulls, which mean absent."""
    return {camel_name(key): value for key, value in entry.items() if value is not None}


def camel_names(entry: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """All members, the `known` ones by camelCase names."""
    names = ((key, camel_name(key)) for key in entry)
    return {name if name in known else key: entry[key] for key, name in names}


def known_members(entry: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The same, without `known` members that are null."""
    named = camel_names(entry, known).items()
    return {key: value for key, value in named if key not in known or value is not None}


def type_name(kind: Any) -> str:
    """The name of a type in lower case; accepts its number."""
    if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(TYPES_BY_NUMBER):
        return TYPES_BY_NUMBER[kind]
    return str(kind).lower()


# The maximum size of lists: the sum over lists was measured; that nested lists multiply is Gemini's
# own statement ("especially when nested").


def items_in_all(schema: Any, *, nested: bool = True) -> int:
    """The total number of items in lists with a maxItems in a schema. If `nested`, the items of an
    inner list count for each item of the outer one. Does not follow refs."""
    count, todo = 0, [(schema, 1)]
    while todo:
        part, times = todo.pop()
        if not isinstance(part, Mapping):
            continue
        most = part.get("maxItems", part.get("max_items"))
        here = most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else 0
        count += times * here
        todo += [(inner, times) for inner in _inner_schemas(part)]
        todo.append((part.get("items"), times * here if here and nested else times))
    return count


def _inner_schemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas within `schema` except those of its items."""
    for key in ("properties", "$defs", "definitions"):
        named = schema.get(key)
        yield from named.values() if isinstance(named, Mapping) else ()
    for key in ("anyOf", "any_of", "oneOf", "allOf", "prefixItems"):
        listed = schema.get(key)
        yield from listed if isinstance(listed, list) else ()


def has_too_many_items(schema: Any) -> bool:
    return items_in_all(schema) > _MOST_ITEMS


def _items(tool: SentTool, *, nested: bool) -> Match:
    """Too many even if nested lists do not multiply, or only if they do."""
    count, flat = items_in_all(tool.schema), items_in_all(tool.schema, nested=False)
    return count > _MOST_ITEMS and (flat <= _MOST_ITEMS) == nested and {"count": count}


def _items_together(tools: Sequence[SentTool]) -> Match:
    """Excludes tools that are too large alone: these have a finding of their own."""
    counts = [items_in_all(tool.schema) for tool in tools]
    total = sum(counts)
    return total > _MOST_ITEMS and max(counts) <= _MOST_ITEMS and {"count": total}


def _many_letters(tools: Sequence[SentTool]) -> Match:
    enums = (node.enum for tool in tools for node in nodes(tool.schema))
    letters = sum(len(text) for enum in enums for text in enum if isinstance(text, str))
    return letters > _MANY_LETTERS and {"letters": letters}


# Traverses `parameters`: nodes whose members have camelCase names.


def plain_nodes(schema: Any, *, strict: bool = False, led: str = "") -> list[Node]:
    """The schemas in `parameters`; `wire` is Google's path. With `led` the outermost is an ordinary
    schema, not parameters."""
    return walk_nodes(_plain_schema(schema), _plain_below, strict=strict, led=led)


def _plain_below(node: Node) -> Iterator[tuple[Place, Any, str]]:
    if "items" in node.keys:
        yield ("items",), _plain_schema(node.keys["items"]), ".items"
    for number, (name, inner) in enumerate(node.properties.items()):
        yield ("properties", name), _plain_schema(inner), f".properties[{number}].value"
    branches = node.keys.get("anyOf")
    for number, inner in enumerate(branches if isinstance(branches, list) else ()):
        yield ("anyOf", number), _plain_schema(inner), f".any_of[{number}]"


def _plain_schema(schema: Any) -> Any:
    return known_members(schema, KNOWN) if isinstance(schema, Mapping) else schema


def _kind(node: Node) -> str:
    return type_name(node.keys.get("type"))


def _unknown_keys(node: Node) -> Match:
    odd = [key for key in node.keys if key not in KNOWN]
    return [{"key": k, "shown": camel_name(k)[:80], "step": (camel_name(k),)} for k in odd]


def _odd_type(node: Node) -> Match:
    kind = node.keys.get("type")
    if kind is None or isinstance(kind, list) or type_name(kind) in TYPES_BY_NUMBER:
        return False
    return {"shown": str(kind)[:40], "value": compact_json(kind)[:80], "step": ("type",)}


def _other_root(node: Node) -> Match:
    known = type_name(node.keys.get("type", "object")) in TYPES_BY_NUMBER
    return known and "type" in node.keys and _kind(node) != "object" and {"step": ("type",)}


def _odd_format(*, of_texts: bool) -> Callable[[Node], Match]:
    """A format that its type (string or number) does not support."""

    def find(node: Node) -> Match:
        kind, form = _kind(node), node.keys.get("format")
        formats = FORMATS.get(kind, ())
        if form is None or form in formats or not formats or (kind == "string") != of_texts:
            return False
        theirs = f"only {' and '.join(map(repr, formats))} are supported for {kind.upper()} type"
        return {"formats": " and ".join(formats), "kind": kind, "theirs": theirs, "step": _FORMAT}

    return find


def _no_text(node: Node) -> Match:
    """The first enum value that is not a string."""
    odd = ((n, value) for n, value in enumerate(node.enum) if not isinstance(value, str))
    odd_items = (
        {"number": n, "value": compact_json(value)[:80], "step": _ENUM} for n, value in odd
    )
    return next(odd_items, False)


def _lacks_properties(node: Node) -> bool:
    return _kind(node) == "object" and not node.properties


def _has_misplaced(key: str, node: Node) -> bool:
    return _kind(node) != "object" and bool(node.keys.get(key))


def _undefined_required(node: Node) -> Match:
    value = node.keys.get("required")
    required = enumerate(value if isinstance(value, list) else ())
    odd = [
        (number, name)
        for number, name in required
        if not (isinstance(name, str) and name in node.properties)
    ]
    shown = ({"number": n, "shown": str(name)[:40], "step": ("required",)} for n, name in odd)
    return list(shown)


# The tables.


def _complexity_limits(fix: Fix) -> Iterator[Limit[SentTool]]:
    """Whether the schema exceeds the known measures of complexity."""
    for nested in (False, True):
        yield Limit(
            f"accepts lists of about {_MOST_ITEMS} items in total, not {{count:,}}: lower their "
            "maxItems, or leave some out",
            partial(_items, nested=nested),
            Citation(_STATES.words, inferred=nested),
            _COMPLEX,
            fix=fix,
            pointer="/parameters",
        )


def _ignored_keyword(name: str) -> Limit[Node]:
    source = Citation(_SUBSET, inferred=True)
    return Limit(f"may ignore `{name}`", has_keyword(name), source, severity="ignored")


# fmt: off
_OF_TOOL: tuple[Limit[SentTool], ...] = (
    Limit("does not know the member {shown!r} of a function declaration",
          odd_members(DECLARATION, camel_name), UNKNOWN,
          NO_FIELD.replace("{at}", " at '{where}'"), param="{where}"),
    Limit("accepts parameters or parametersJsonSchema, not both",
          lambda tool: {"parameters", "parametersJsonSchema"} <= camel_entry(tool.members).keys(),
          ASSUMED, _AT + ": parameters and parameters_json_schema are mutually exclusive.\n",
          pointer="/parameters"),
    Limit(
        "accepts names of 1 to 128 letters, digits, _, ., : and - that begin with a letter or "
        "_, not {shown!r}"
    , odd_name(_NAME),
          Citation("https://github.com/google-gemini/gemini-cli/issues/9535"),
          _AT + ".name: Invalid function name. Must start with a letter or an underscore. Must be "
          "alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with "
          "a maximum length of 128.\n", pointer="/name"),
    LACKS_EAGER,
    lacks_strict("has no strict tools: mode VALIDATED is used, which applies to all tools",
                 "docs/wire.md, section 4: strict is sent as mode VALIDATED"),
    lacks_freeform("has no free-form tools: a function with one text argument is sent",
                   "docs/wire.md, section 4: there are no free-form tools"),
)

LIMITS = LimitTable(
    "gemini",
    "Gemini",
    of_tool=(*_OF_TOOL, *_complexity_limits("drop")),
    of_schema=(
        Limit("accepts only a description and a default next to a `$ref`",
              neighbours("description", "default", "$id", "$defs", "$anchor", "$schema"),
              Citation("https://github.com/anomalyco/opencode/issues/12295"),
              "$ref '{last}' was set alongside unsupported fields. If a schema node has $ref set, "
              "then only description and default can be set alongside it", fix="inline"),
        Limit("treats `oneOf` as `anyOf`", has_keyword("oneOf"), Citation(_SUBSET),
         severity="ignored"),
        *map(_ignored_keyword, _DROPPED),
        Limit("expands a schema that refers to itself ({ref}) only to a limited depth",
              refers_to_itself, Citation(_SUBSET), severity="ignored"),
    ),
    of_request=(
        too_many_tools(_MOST_TOOLS,
                       Citation("https://github.com/google-gemini/gemini-cli/issues/19083"),
                       "* GenerateContentRequest.{list}: [FIELD_INVALID] At most "
                       f"{_MOST_TOOLS} function declarations can be specified.\n"),
        equal_names(ASSUMED, "Duplicate function declaration found: {name}"),
        Limit(
            f"accepts lists of about {_MOST_ITEMS} items in total in a request, not "
            f"{{count:,}}: lower their maxItems, or leave some out"
        , _items_together,
              Citation(_STATES.words, inferred=True), _COMPLEX),
        Limit(
            "The enums of the tools have {letters:,} letters: Gemini may refuse a forced "
            "choice (mode ANY) of them as too complex. Allow fewer tools, or shorten the enums"
        ,
              _many_letters,
              Citation("https://github.com/googleapis/python-genai/issues/2133", inferred=True),
              severity="weak"),
    ),
    kind="INVALID_ARGUMENT",
)
# fmt: on


def _row(
    says: str, finds: Callable[[Node], Match], source: Citation, refusal: str, **more: Any
) -> Limit[Node]:
    return Limit(says, finds, source, refusal, fix="gemini", **more)


def _inner_row(
    says: str, finds: Callable[[Node], Match], source: Citation, refusal: str, **more: Any
) -> Limit[Node]:
    """Refused by the checks after Google's front end: one line per violation."""
    return _row(says, finds, source, f"{_INSIDE}{refusal}\n", **more)


# fmt: off
_NEEDS_PROPERTIES: tuple[Limit[Node], ...] = (
    _inner_row("does not accept an object without properties within parameters: name some, or use "
            "parametersJsonSchema", lambda node: _lacks_properties(node) and bool(node.led),
            _EMPTY_OBJECTS, ".properties: should be non-empty for OBJECT type"),
    Limit("Older models of Gemini refuse parameters without properties: leave parameters out",
          at_root(_lacks_properties), Citation("https://github.com/vercel/ai/issues/3371"),
          _INSIDE + ".properties: should be non-empty for OBJECT type\n", severity="weak",
          family="gemini-2.0 and older", holds=lambda model: bool(_OLDER.match(model))),
)
PLAIN = LimitTable(
    "gemini",
    "Gemini",
    of_tool=(*_OF_TOOL, *_complexity_limits("gemini")),
    of_schema=(
        _row("accepts only an object as a schema",
             lambda node: not isinstance(node.schema, Mapping)
             and {"value": compact_json(node.schema)[:80]}, TYPES,
             "Invalid value at '{schema}{node.wire}' (a message), {value}", param=_IN_PLACE),
        _row("does not know `{shown}` in parameters", _unknown_keys, UNKNOWN,
             NO_FIELD.replace("{at}", " at '{schema}{node.wire}'"), param=_IN_PLACE),
        _row("accepts one type, not a list",
             lambda node: isinstance(node.keys.get("type"), list) and {"step": ("type",)},
             Citation("https://github.com/zed-industries/zed/issues/53919"),
             "Invalid JSON payload received. Unknown name \"type\" at '{schema}{node.wire}': Proto "
             "field is not repeating, cannot start list.", param=_IN_PLACE),
        _row("does not know the type {shown!r}", _odd_type, TYPES,
             "Invalid value at '{schema}{node.wire}.type' "
             "(type.googleapis.com/google.ai.generativelanguage.v1beta.Type), {value}",
             param=_IN_PLACE + ".type"),
        _row("needs `type: object` at the root of parameters at /type", at_root(_other_root),
             Citation("https://github.com/diegosouzapw/OmniRoute/pull/3360"),
             "functionDeclaration parameters schema should be of type OBJECT."),
        _inner_row("accepts a format only for texts and numbers",
                lambda node: "format" in node.keys and _kind(node) not in FORMATS
                and {"step": _FORMAT}, _EMPTY_OBJECTS,
                ".format: format is only supported for NUMBER, INTEGER and STRING type"),
        _inner_row("accepts only the formats {formats} for the type {kind}",
                _odd_format(of_texts=True),
                Citation("https://github.com/google-gemini/gemini-cli/issues/2237"),
                ".format: {theirs}"),
        _inner_row("accepts only the formats {formats} for the type {kind}",
                _odd_format(of_texts=False),
                Citation("https://ai.google.dev/api/caching#Schema", inferred=True),
                ".format: {theirs}"),
        _inner_row("needs an enum with values for `format: enum`",
                lambda node: node.keys.get("format") == "enum" and _kind(node) == "string"
                and not node.enum,
                Citation("https://github.com/elastic/kibana/pull/286302"),
                ".enum: should be non-empty for STRING type with enum format"),
        _row("accepts only texts in an enum", _no_text,
             Citation("https://github.com/microsoft/azure-devops-mcp/issues/145"),
             "Invalid value at '{schema}{node.wire}.enum[{number}]' (TYPE_STRING), {value}",
             param=_IN_PLACE + ".enum[{number}]"),
        _inner_row("does not accept an empty string in an enum",
                lambda node: "" in node.enum and {"number": node.enum.index(""), "step": _ENUM},
                Citation("https://github.com/sbroenne/mcp-server-excel/issues/607"),
                ".enum[{number}]: cannot be empty"),
        _inner_row("accepts an enum only with `type: string`",
                lambda node: bool(node.enum) and _kind(node) != "string" and {"step": _ENUM},
                Citation("https://github.com/decolua/9router/pull/380"),
                ".enum: only allowed for STRING type"),
        _inner_row("needs `items` of every array",
                lambda node: _kind(node) == "array" and "items" not in node.keys,
                Citation("https://github.com/cline/cline/issues/7339"), ".items: missing field."),
        _inner_row("accepts `items` only with `type: array`",
                lambda node: _kind(node) != "array" and "items" in node.keys,
                Citation("https://github.com/NousResearch/hermes-agent/pull/38972"),
                ".items: field predicate failed: $type == Type.ARRAY"),
        _row("accepts no other keyword next to `anyOf` in parameters",
             lambda node: "anyOf" in node.keys and len(node.keys) > 1,
             Citation("https://github.com/vercel/ai/pull/19000"),
             "{schema}{node.wire} schema specified other fields alongside any_of. When using "
             "any_of, it must be the only field set."),
        *_NEEDS_PROPERTIES,
        *(_inner_row("accepts properties and required only with `type: object`",
                  partial(_has_misplaced, key), _NO_OBJECTS,
                   f".{key}: only allowed for OBJECT type")
          for key in ("properties", "required")),
        _inner_row("does not accept a required property that is not defined, as {shown!r}",
         _undefined_required,
                REFERENCE, ".required[{number}]: property is not defined"),
    ),
    of_request=LIMITS.of_request,
    kind="INVALID_ARGUMENT",
    walk=plain_nodes,
)
# fmt: on


FORCED = replace(
    PLAIN, of_schema=tuple(row for row in PLAIN.of_schema if row not in _NEEDS_PROPERTIES)
)
"""Where a call is forced (mode ANY), objects without properties are accepted: recorded requests."""

ANSWER = replace(PLAIN, walk=partial(plain_nodes, led="responseSchema"))
"""For the schema of a structured answer."""
