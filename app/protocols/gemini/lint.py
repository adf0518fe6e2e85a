"""What Gemini does with a tool: by `parametersJsonSchema`, which we send, and by `parameters`, a
part of OpenAPI's schemas, which files in Gemini's own form often hold.
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
    at,
    has,
    judged,
    nodes,
    recursive_refs,
    ref_beside,
)
from app.schema.keywords import Place, pointer

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


def lint_tool(sent: SentTool) -> Iterator[Finding]:
    """What Gemini refuses or ignores of a tool as our encoder sends it."""
    yield from _name(sent)
    if sent.strict:
        said = "Gemini has no strict tools: mode VALIDATED is asked for, which holds for all tools."
        yield Finding("ignored", said, "/strict", "gemini", source=STRICT)
    if sent.freeform:
        said = "Gemini has no free-form tools: it is given a function with one text."
        yield Finding("ignored", said, "/format", "gemini", source=FREEFORM)
    yield from judged(RULES, nodes(sent.schema), sent, "gemini", "Gemini")
    yield from _states(sent.schema, sent.where, "drop")
    for ref in sorted(recursive_refs(sent.schema))[:5]:
        said = f"Gemini unrolls a schema that refers to itself ({ref}) to a limited depth."
        yield Finding("ignored", said, sent.where, "gemini", source=SUBSET)


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
    if (found := too_many_items(schema)) is not None:
        count, inferred = found
        said = f"Gemini takes lists of about {limits.GEMINI_MOST_ITEMS} items in all, not {count:,}"
        said += ": lower their maxItems, or leave some out."
        yield Finding("refused", said, where, "gemini", source=STATES, inferred=inferred, fix=fix)


def _name(sent: SentTool) -> Iterator[Finding]:
    if not limits.GEMINI_NAME.fullmatch(sent.name):
        said = (
            "takes names of 1 to 128 letters, digits, _, ., : and - that begin with a letter or _"
        )
        message = f"Gemini {said}, not {sent.name[:80]!r}."
        yield Finding("refused", message, "/name", "gemini", source=NAMES)


def lint_form(entry: Mapping[str, Any], name: str) -> Iterator[Finding]:
    """The same of a function declaration as a file has it, in camelCase or snake_case."""
    given = camel(entry)
    for key in given:
        if key not in DECLARATION:
            said = f"Gemini knows no member {key[:80]!r} of a function declaration."
            yield Finding("refused", said, "", "gemini", source=UNKNOWN)
    if "parameters" in given and "parametersJsonSchema" in given:
        said = "Gemini takes parameters or parametersJsonSchema, not both."
        yield Finding("refused", said, "/parameters", "gemini", source=REFERENCE, inferred=True)
    if "parameters" not in given:
        schema = given.get("parametersJsonSchema", {"type": "object", "properties": {}})
        yield from lint_tool(SentTool(name, str(given.get("description") or ""), schema))
        return
    yield from _name(SentTool(name, "", {}))
    yield from _states(given["parameters"], "/parameters", "gemini")
    told: dict[str, int] = {}
    for finding in _plain(given["parameters"], ()):
        told[finding.source] = told.get(finding.source, 0) + 1
        if told[finding.source] <= MOST_OF_A_RULE:
            yield finding


def camel(given: Mapping[str, Any]) -> dict[str, Any]:
    """The members by their camelCase names; null is as good as absent."""
    named = ((_SNAKE.sub(lambda one: one[1].upper(), key), value) for key, value in given.items())
    return {key: value for key, value in named if value is not None}


def _plain(schema: Any, place: Place) -> Iterator[Finding]:
    """What is refused of a schema in `parameters`, the outer before the inner."""
    todo: list[tuple[Place, Any]] = [(place, schema)]
    for here, inner in todo:
        if not isinstance(inner, Mapping):
            yield _refused("takes an object for a schema, nothing else", here, TYPES)
            continue
        given = camel(inner)
        yield from _of_one(given, here)
        if "items" in given:
            todo.append(((*here, "items"), given["items"]))
        for keyword in ("properties", "anyOf"):
            several = given.get(keyword)
            if isinstance(several, Mapping):
                todo += [((*here, keyword, key), one) for key, one in several.items()]
            elif isinstance(several, list):
                todo += [((*here, keyword, key), one) for key, one in enumerate(several)]


def _of_one(given: Mapping[str, Any], here: Place) -> Iterator[Finding]:
    for key in given:
        if key not in KNOWN:
            yield _refused(f"knows no `{key[:80]}` in parameters", (*here, key), UNKNOWN, told=here)
    kind = given.get("type")
    named = type_name(kind)
    if isinstance(kind, list):
        yield _refused("takes one type, no list", (*here, "type"), LISTS, told=here)
    elif kind is not None and named not in TYPES_BY_NUMBER:
        yield _refused(f"knows no type {str(kind)[:40]!r}", (*here, "type"), TYPES, told=here)
    elif not here and kind is not None and named != "object":
        yield _refused("needs `type: object` at the root of parameters", (*here, "type"), ROOTS)
    yield from _of_format(given, named, here)
    yield from _of_enum(given, here)
    if named == "array" and "items" not in given:
        yield _refused("needs `items` of every array", here, ITEMS)
    elif "items" in given and named != "array":
        yield _refused("takes `items` beside `type: array` alone", here, NO_ARRAYS)
    if "anyOf" in given and len(given) > 1:
        yield _refused("takes nothing beside an `anyOf` in parameters", here, ALONE)
    yield from _of_object(given, named, here)


def type_name(kind: Any) -> str:
    """The name of a type in small letters, which may be given as its number."""
    if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(TYPES_BY_NUMBER):
        return TYPES_BY_NUMBER[kind]
    return str(kind).lower()


def _of_object(given: Mapping[str, Any], named: str, here: Place) -> Iterator[Finding]:
    properties = given.get("properties")
    names = properties if isinstance(properties, Mapping) else {}
    required = given.get("required")
    if named == "object" and not names and here:
        said = "takes no object without properties within parameters"
        yield _refused(f"{said}: name some, or use parametersJsonSchema", here, EMPTY_OBJECTS)
    elif named == "object" and not names:
        said = "Older models of Gemini refuse parameters without properties: leave parameters out."
        where, family = "/parameters", "gemini-2.0 and older"
        yield Finding("weak", said, where, "gemini", family=family, source=EMPTY_ROOTS)
    if named != "object" and (names or required):
        said = "takes properties and required beside `type: object` alone"
        yield _refused(said, here, NO_OBJECTS)
    for name in required if isinstance(required, list) else ():
        if name not in names:
            said = f"takes no required property that is not defined, as {str(name)[:40]!r}"
            yield _refused(said, (*here, "required"), REFERENCE, told=here)


def _of_format(given: Mapping[str, Any], named: str, here: Place) -> Iterator[Finding]:
    known, place = limits.GEMINI_FORMATS.get(named), (*here, "format")
    if "format" not in given:
        return
    if known is None:
        said = "takes a format of texts and numbers alone"
        yield _refused(said, place, NO_FORMATS, told=here)
    elif given["format"] not in known:
        said = f"takes no format but {' and '.join(known)} of the type {named}"
        source, inferred = (FORMATS, False) if named == "string" else (SCHEMA, True)
        yield _refused(said, place, source, told=here, inferred=inferred)
    elif given["format"] == "enum" and not given.get("enum"):
        yield _refused("needs an enum with values beside `format: enum`", here, EMPTY_ENUMS)


def texts_of(values: Any) -> list[str]:
    """The texts among the values of an enum."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _of_enum(given: Mapping[str, Any], here: Place) -> Iterator[Finding]:
    values = given.get("enum")
    if not isinstance(values, list) or not values:
        return
    if not all(isinstance(value, str) for value in values):
        yield _refused("takes texts alone in an enum", (*here, "enum"), NUMBERS, told=here)
    if "" in values:
        said = "takes no empty text in an enum"
        yield _refused(said, (*here, "enum"), EMPTY_VALUES, told=here)
    if type_name(given.get("type")) != "string":
        said = "takes an enum beside `type: string` alone"
        yield _refused(said, (*here, "enum"), ENUMS, told=here)


def _refused(
    says: str, place: Place, source: str, *, told: Place | None = None, inferred: bool = False
) -> Finding:
    where = "/parameters" + pointer(place)
    said = f"Gemini {says}{at(place if told is None else told)}."
    return Finding("refused", said, where, "gemini", source=source, inferred=inferred, fix="gemini")
