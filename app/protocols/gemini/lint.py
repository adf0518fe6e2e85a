"""Checks a tool against the limits of Gemini.

In two forms: `parametersJsonSchema`, which we send, and `parameters`, a part of OpenAPI's schemas,
which files in Gemini's own form often hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from app.core import provider_limits as limits
from app.protocols.lint_rules import (
    MOST_OF_A_RULE,
    Finding,
    Fix,
    LintRule,
    SentTool,
    apply_rules,
    at,
    has,
    nodes,
    recursive_refs,
    ref_beside,
)
from app.schema.schema_checks import Place, pointer

NAMES = "https://github.com/google-gemini/gemini-cli/issues/9535"
BESIDE = "https://github.com/anomalyco/opencode/issues/12295"
SUBSET = "google-genai, GenerateContentConfig.response_json_schema: the keywords that count"
STRICT = "docs/wire.md, section 4: strict is sent as mode VALIDATED"
FREEFORM = "docs/wire.md, section 4: there are no free-form tools"
UNKNOWN = "https://github.com/zed-industries/zed/issues/44875"
LISTS = "https://github.com/zed-industries/zed/issues/53919"
TYPES = "https://protobuf.dev/programming-guides/json/"
NUMBERS = "https://github.com/microsoft/azure-devops-mcp/issues/145"
ENUMS = "https://github.com/decolua/9router/pull/380"
ITEMS = "https://github.com/cline/cline/issues/7339"
ALONE = "https://github.com/vercel/ai/pull/19000"
REFERENCE = "https://ai.google.dev/api/caching#FunctionDeclaration"
SCHEMA = "https://ai.google.dev/api/caching#Schema"
FORMATS = "https://github.com/google-gemini/gemini-cli/issues/2237"
NO_FORMATS = "https://github.com/home-assistant/core/pull/122403"
EMPTY_ENUMS = "https://github.com/elastic/kibana/pull/286302"
EMPTY_VALUES = "https://github.com/sbroenne/mcp-server-excel/issues/607"
EMPTY_ROOTS = "https://github.com/vercel/ai/issues/3371"
EMPTY_OBJECTS = "https://github.com/home-assistant/core/pull/122403"
NO_OBJECTS = "https://github.com/anomalyco/opencode/issues/11889"
NO_ARRAYS = "https://github.com/NousResearch/hermes-agent/pull/38972"
ROOTS = "https://github.com/diegosouzapw/OmniRoute/pull/3360"
STATES = "https://github.com/googleapis/python-genai/issues/2170"

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
"""In the order of Google's enum: a request may give the number for the name."""
DECLARATION = (
    *("name", "description", "parameters", "parametersJsonSchema"),
    *("response", "responseJsonSchema", "behavior"),
)
_SNAKE = re.compile(r"_([a-z])")

_DROPPED = (
    *("const", "pattern", "minLength", "maxLength", "multipleOf", "exclusiveMinimum"),
    *("exclusiveMaximum", "uniqueItems", "minProperties", "maxProperties", "propertyNames"),
    *("patternProperties", "allOf", "not", "if", "contains", "dependentSchemas"),
    *("dependentRequired", "dependencies", "unevaluatedProperties", "unevaluatedItems"),
)


def _drops(name: str) -> LintRule:
    return LintRule(f"may take no notice of `{name}`", has(name), SUBSET, True, "ignored")


RULES: tuple[LintRule, ...] = (
    LintRule(
        "takes nothing but a description and a default beside a `$ref`",
        ref_beside("description", "default", "$id", "$defs", "$anchor", "$schema"),
        BESIDE,
        fix="inline",
    ),
    LintRule("takes `oneOf` for `anyOf`", has("oneOf"), SUBSET, severity="ignored"),
    *map(_drops, _DROPPED),
)
"""For `parametersJsonSchema`."""


def lint_tool(tool: SentTool) -> Iterator[Finding]:
    """What Gemini refuses or ignores of a tool as our encoder sends it."""
    yield from _name(tool)
    if tool.strict:
        message = (
            "Gemini has no strict tools: mode VALIDATED is asked for, which holds for all tools."
        )
        yield Finding("ignored", message, "/strict", "gemini", source=STRICT)
    if tool.freeform:
        message = "Gemini has no free-form tools: it is given a function with one text."
        yield Finding("ignored", message, "/format", "gemini", source=FREEFORM)
    yield from apply_rules(RULES, nodes(tool.schema), tool, "gemini", "Gemini")
    yield from _states(tool.schema, tool.where, "drop")
    for ref in sorted(recursive_refs(tool.schema))[:5]:
        message = f"Gemini unrolls a schema that refers to itself ({ref}) to a limited depth."
        yield Finding("ignored", message, tool.where, "gemini", source=SUBSET)


def too_many_items(schema: Any) -> tuple[int, bool] | None:
    """(items in all, whether that is inferred) where they are more than Gemini serves. The sum over
    lists was measured; that lists in lists count each time is its own words ("especially when
    nested").
    """
    count, most = limits.items_in_all(schema), limits.GEMINI_MOST_ITEMS
    if count <= most:
        return None
    return count, limits.items_in_all(schema, nested=False) <= most


def _states(schema: Any, where: str, fix: Fix) -> Iterator[Finding]:
    """Whether the schema is too complex to serve, as far as a measure of it is known."""
    if (excess := too_many_items(schema)) is not None:
        count, inferred = excess
        message = (
            f"Gemini takes lists of about {limits.GEMINI_MOST_ITEMS} items in all, not {count:,}"
        )
        message += ": lower their maxItems, or leave some out."
        yield Finding(
            "refused", message, where, "gemini", source=STATES, inferred=inferred, fix=fix
        )


def _name(tool: SentTool) -> Iterator[Finding]:
    if not limits.GEMINI_NAME.fullmatch(tool.name):
        words = (
            "takes names of 1 to 128 letters, digits, _, ., : and - that begin with a letter or _"
        )
        message = f"Gemini {words}, not {tool.name[:80]!r}."
        yield Finding("refused", message, "/name", "gemini", source=NAMES)


def lint_form(entry: Mapping[str, Any], name: str) -> Iterator[Finding]:
    """The same of a function declaration as a file has it, in camelCase or snake_case."""
    declaration = camel(entry)
    for key in declaration:
        if key not in DECLARATION:
            message = f"Gemini knows no member {key[:80]!r} of a function declaration."
            yield Finding("refused", message, "", "gemini", source=UNKNOWN)
    if "parameters" in declaration and "parametersJsonSchema" in declaration:
        message = "Gemini takes parameters or parametersJsonSchema, not both."
        yield Finding("refused", message, "/parameters", "gemini", source=REFERENCE, inferred=True)
    if "parameters" not in declaration:
        schema = declaration.get("parametersJsonSchema", {"type": "object", "properties": {}})
        yield from lint_tool(SentTool(name, str(declaration.get("description") or ""), schema))
        return
    yield from _name(SentTool(name, "", {}))
    yield from _states(declaration["parameters"], "/parameters", "gemini")
    counts: dict[str, int] = {}
    for finding in _plain(declaration["parameters"], ()):
        counts[finding.source] = counts.get(finding.source, 0) + 1
        if counts[finding.source] <= MOST_OF_A_RULE:
            yield finding


def camel(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The members by their camelCase names; null is as good as absent."""
    pairs = ((_SNAKE.sub(lambda step: step[1].upper(), key), value) for key, value in entry.items())
    return {key: value for key, value in pairs if value is not None}


def _plain(schema: Any, place: Place) -> Iterator[Finding]:
    """What is refused of a schema in `parameters`, the outer before the inner."""
    todo: list[tuple[Place, Any]] = [(place, schema)]
    for here, inner in todo:
        if not isinstance(inner, Mapping):
            yield _refused("takes an object for a schema, nothing else", here, TYPES)
            continue
        node = camel(inner)
        yield from _of_node(node, here)
        if "items" in node:
            todo.append(((*here, "items"), node["items"]))
        for keyword in ("properties", "anyOf"):
            several = node.get(keyword)
            if isinstance(several, Mapping):
                todo += [((*here, keyword, key), below) for key, below in several.items()]
            elif isinstance(several, list):
                todo += [((*here, keyword, key), below) for key, below in enumerate(several)]


def _of_node(node: Mapping[str, Any], here: Place) -> Iterator[Finding]:
    for key in node:
        if key not in KNOWN:
            yield _refused(
                f"knows no `{key[:80]}` in parameters", (*here, key), UNKNOWN, text_place=here
            )
    kind = node.get("type")
    kind_name = type_name(kind)
    if isinstance(kind, list):
        yield _refused("takes one type, no list", (*here, "type"), LISTS, text_place=here)
    elif kind is not None and kind_name not in TYPES_BY_NUMBER:
        yield _refused(f"knows no type {str(kind)[:40]!r}", (*here, "type"), TYPES, text_place=here)
    elif not here and kind is not None and kind_name != "object":
        yield _refused("needs `type: object` at the root of parameters", (*here, "type"), ROOTS)
    yield from _of_format(node, kind_name, here)
    yield from _of_enum(node, here)
    if kind_name == "array" and "items" not in node:
        yield _refused("needs `items` of every array", here, ITEMS)
    elif "items" in node and kind_name != "array":
        yield _refused("takes `items` beside `type: array` alone", here, NO_ARRAYS)
    if "anyOf" in node and len(node) > 1:
        yield _refused("takes nothing beside an `anyOf` in parameters", here, ALONE)
    yield from _of_object(node, kind_name, here)


def type_name(kind: Any) -> str:
    """The name of a type in small letters, which may be given as its number."""
    if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(TYPES_BY_NUMBER):
        return TYPES_BY_NUMBER[kind]
    return str(kind).lower()


def _of_object(node: Mapping[str, Any], kind_name: str, here: Place) -> Iterator[Finding]:
    properties = node.get("properties")
    names = properties if isinstance(properties, Mapping) else {}
    required = node.get("required")
    if kind_name == "object" and not names and here:
        message = "does not accept an object without properties within parameters"
        yield _refused(f"{message}: name some, or use parametersJsonSchema", here, EMPTY_OBJECTS)
    elif kind_name == "object" and not names:
        message = (
            "Older models of Gemini refuse parameters without properties: leave parameters out."
        )
        where, family = "/parameters", "gemini-2.0 and older"
        yield Finding("weak", message, where, "gemini", family=family, source=EMPTY_ROOTS)
    if kind_name != "object" and (names or required):
        message = "takes properties and required beside `type: object` alone"
        yield _refused(message, here, NO_OBJECTS)
    for name in required if isinstance(required, list) else ():
        if name not in names:
            message = (
                f"does not accept a required property that is not defined, as {str(name)[:40]!r}"
            )
            yield _refused(message, (*here, "required"), REFERENCE, text_place=here)


def _of_format(node: Mapping[str, Any], kind_name: str, here: Place) -> Iterator[Finding]:
    formats, place = limits.GEMINI_FORMATS.get(kind_name), (*here, "format")
    if "format" not in node:
        return
    if formats is None:
        words = "takes a format of texts and numbers alone"
        yield _refused(words, place, NO_FORMATS, text_place=here)
    elif node["format"] not in formats:
        words = f"accepts no format but {' and '.join(formats)} of the type {kind_name}"
        source, inferred = (FORMATS, False) if kind_name == "string" else (SCHEMA, True)
        yield _refused(words, place, source, text_place=here, inferred=inferred)
    elif node["format"] == "enum" and not node.get("enum"):
        yield _refused("needs an enum with values beside `format: enum`", here, EMPTY_ENUMS)


def texts_of(values: Any) -> list[str]:
    """The texts among the values of an enum."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _of_enum(node: Mapping[str, Any], here: Place) -> Iterator[Finding]:
    values = node.get("enum")
    if not isinstance(values, list) or not values:
        return
    if not all(isinstance(value, str) for value in values):
        yield _refused("takes texts alone in an enum", (*here, "enum"), NUMBERS, text_place=here)
    if "" in values:
        words = "does not accept an empty string in an enum"
        yield _refused(words, (*here, "enum"), EMPTY_VALUES, text_place=here)
    if type_name(node.get("type")) != "string":
        words = "takes an enum beside `type: string` alone"
        yield _refused(words, (*here, "enum"), ENUMS, text_place=here)


def _refused(
    says: str, place: Place, source: str, *, text_place: Place | None = None, inferred: bool = False
) -> Finding:
    where = "/parameters" + pointer(place)
    message = f"Gemini {says}{at(place if text_place is None else text_place)}."
    return Finding(
        "refused", message, where, "gemini", source=source, inferred=inferred, fix="gemini"
    )
