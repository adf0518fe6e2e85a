"""Checks tools and their schemas against OpenAI's limits: lint in our words, refusals in theirs.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import jsonschema_rs

from app.core import provider_limits as limits
from app.protocols.lint_rules import (
    Finding,
    LintRule,
    Node,
    SentTool,
    Severity,
    apply_rules,
    bare_array,
    has,
    is_boolean,
    is_open,
    nodes,
    odd_format,
    ref_beside,
    root_has,
)
from app.protocols.server import BadRequest, Citation, words_of
from app.schema import schema_checks
from app.schema.schema_checks import Path, schemas_with_depth

# Lint, in our words. Strict mode takes a subset of JSON Schema.

LONG_DESCRIPTION = 1024
FORMATS = (
    *("date-time", "time", "date", "duration", "email"),
    *("hostname", "ipv4", "ipv6", "uuid"),
)

NAMES: Mapping[str, str] = {
    "openai_chat": "https://github.com/home-assistant/core/issues/121325",
    "openai_responses": "https://github.com/CommandCodeAI/command-code/issues/778",
}
SHORT_NAMES = "https://github.com/anomalyco/opencode/issues/43714"
LOOKAROUND = "https://github.com/vercel/ai/pull/21037"
NEWER_LOOKAROUND = "https://github.com/decolua/9router/issues/1556"
REGEX = "https://github.com/BerriAI/litellm/pull/40485"
ENUMS = "https://community.openai.com/t/500-enums-limitation-in-structured-output/974416"
TOP = "https://github.com/langchain-ai/langchainjs/issues/9804"
ITEMS = "https://github.com/sigoden/aichat/pull/1049"
PROPERTIES = "https://github.com/spring-projects/spring-ai/issues/4776"
NO_SCHEMA = "OpenAI guide to function calling"
LONG = "https://github.com/langchain-ai/open_deep_research/issues/80"
CLOSED = "https://github.com/camel-ai/camel/issues/2231"
DOCS = "https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"
ALL_OF = "https://github.com/makenotion/notion-mcp-server/issues/102"
ONE_OF = "https://github.com/ai-dynamo/dynamo/pull/15153"
NAMED = "https://github.com/can1357/oh-my-pi/issues/209"
UNIQUE = "https://github.com/1jehuang/jcode/issues/687"
DEFAULT = "https://github.com/dotnet/extensions/issues/6266"
LENGTHS = "https://github.com/openai/openai-node/pull/1988"
FORMAT = "https://github.com/can1357/oh-my-pi/issues/206"
TYPELESS = "https://github.com/can1357/oh-my-pi/issues/211"
BESIDE = "https://github.com/camel-ai/camel/issues/3001"
DEEP = "https://github.com/tidyverse/ellmer/issues/671"


def _is_partial(node: Node) -> bool:
    return any(name not in node.required for name in node.properties)


def _is_typeless(node: Node) -> bool:
    keywords = ("type", "$ref", "anyOf")
    return isinstance(node.schema, Mapping) and not any(name in node.keys for name in keywords)


def _is_deep(node: Node) -> bool:
    return node.depth == limits.OPENAI_DEEPEST + 1  # what is deeper still needs no telling


def _looks_around(node: Node) -> bool:
    return any(map(limits.has_lookaround, _node_patterns(node)))


def _is_no_regex(node: Node) -> bool:
    return not all(map(limits.is_python_regex, _node_patterns(node)))


def _node_patterns(node: Node) -> list[str]:
    """The regular expressions that stand at a node."""
    patterns = node.keys.get("patternProperties")
    several = [node.keys.get("pattern"), *(patterns if isinstance(patterns, Mapping) else ())]
    return [text for text in several if isinstance(text, str)]


def large_enum(schema: Any) -> tuple[int, int] | None:
    """(values, letters) of an enum of texts that is too large for strict mode."""
    values = schema.get("enum") if isinstance(schema, Mapping) else None
    if not isinstance(values, list) or len(values) <= limits.OPENAI_LARGE_ENUM:
        return None
    letters = sum(len(value) for value in values if isinstance(value, str))
    return (len(values), letters) if letters > limits.OPENAI_MOST_ENUM_LETTERS else None


def _has_large_enum(node: Node) -> bool:
    return large_enum(node.schema) is not None


def _no(names: Sequence[str], source: str, *, inferred: bool = False) -> Iterator[LintRule]:
    for name in names:
        yield LintRule(f"does not accept `{name}`", has(name), source, inferred, "strict", "strict")


RULES: tuple[LintRule, ...] = (
    LintRule(
        "does not accept oneOf, anyOf, allOf, enum, const or not at the top level",
        root_has("oneOf", "anyOf", "allOf", "enum", "const", "not"),
        TOP,
    ),
    LintRule("needs `items` of every array", bare_array, ITEMS),
    LintRule(
        "does not accept a pattern that Python cannot read, such as \\p{..} and (?<name>..)",
        _is_no_regex,
        REGEX,
        fix="drop",
    ),
    LintRule(
        "needs `additionalProperties: false` of every object",
        is_open,
        CLOSED,
        False,
        "strict",
        "strict",
    ),
    LintRule("needs every property in `required`", _is_partial, CLOSED, False, "strict", "strict"),
    *_no(("allOf",), ALL_OF),
    *_no(("oneOf",), ONE_OF),
    *_no(("not", "if", "then", "else", "dependentRequired", "dependentSchemas"), DOCS),
    *_no(("propertyNames",), NAMED),
    *_no(("uniqueItems",), UNIQUE),
    *_no(("default",), DEFAULT),
    *_no(("minLength", "maxLength"), LENGTHS),
    *_no(
        ("patternProperties", "minProperties", "maxProperties", "dependencies"), DOCS, inferred=True
    ),
    *_no(("contains", "minContains", "maxContains", "prefixItems"), DOCS, inferred=True),
    *_no(("unevaluatedProperties", "unevaluatedItems"), DOCS, inferred=True),
    LintRule("does not know this `format`", odd_format(FORMATS), FORMAT, False, "strict", "strict"),
    LintRule("needs a `type`", _is_typeless, TYPELESS, False, "strict", "strict"),
    LintRule("does not accept true or false for a schema", is_boolean, TYPELESS, True, "strict"),
    LintRule("takes nothing beside a `$ref`", ref_beside(), BESIDE, False, "strict", "inline"),
    LintRule(f"takes {limits.OPENAI_DEEPEST} levels of nesting", _is_deep, DEEP, True, "strict"),
    LintRule(
        f"does not accept an enum of more than {limits.OPENAI_LARGE_ENUM} values with more than "
        f"{limits.OPENAI_MOST_ENUM_LETTERS:,} letters in all",
        _has_large_enum,
        DOCS,
        True,
        "strict",
    ),
)


def _no_lookaround(tool: SentTool, protocol: str) -> LintRule:
    """Strict tools never may look around, others not for newer models; seen with Responses."""
    return LintRule(
        "does not accept a lookahead or lookbehind in a pattern",
        _looks_around,
        LOOKAROUND if tool.strict else NEWER_LOOKAROUND,
        inferred=protocol == "openai_chat" and not tool.strict,
        fix="drop",
        family="gpt-5.5 and later",
    )


def lint_tool(tool: SentTool, protocol: str) -> Iterator[Finding]:
    """What this protocol refuses of a tool."""
    longest = limits.OPENAI_LONGEST_NAME[protocol]
    if not limits.OPENAI_NAME[protocol].fullmatch(tool.name):
        message = f"takes names of 1 to {longest} letters, digits, underscores and hyphens"
        source = NAMES[protocol]
        yield _finding(f"OpenAI {message}, not {tool.name[:80]!r}.", "/name", protocol, source)
    elif len(tool.name) > min(limits.OPENAI_LONGEST_NAME.values()):
        message = "Other servers that speak Responses take names of 64 letters; this one has "
        message += f"{len(tool.name)}."
        yield Finding("weak", message, "/name", protocol, source=SHORT_NAMES)
    if protocol == "openai_chat" and len(tool.description) > LONG_DESCRIPTION:
        yield Finding(
            "weak",
            f"Older models of OpenAI refuse a description of more than {LONG_DESCRIPTION:,} "
            f"characters; this one has {len(tool.description):,}.",
            "/description",
            protocol,
            family="gpt-4o, o1, o3-mini",
            source=LONG,
        )
    if tool.freeform:
        return
    schema = tool.schema
    if not isinstance(schema, Mapping):
        yield _finding("OpenAI needs an object for parameters.", tool.where, protocol, NO_SCHEMA)
        return
    if schema and schema.get("type") != "object":
        message = "OpenAI needs `type: object` at the root."
        yield _finding(message, tool.where + "/type", protocol, NO_SCHEMA, inferred=True)
    elif schema and "properties" not in schema:
        message = "OpenAI needs `properties` at the root, even if it is empty."
        yield _finding(message, tool.where, protocol, PROPERTIES)
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    if wrong := schema_checks.fault(plain):
        message = f"OpenAI takes JSON Schema draft 2020-12 alone, whatever $schema says. {wrong[0]}"
        yield _finding(message, tool.where + wrong[1], protocol, NO_SCHEMA, inferred=True)
    all_nodes = nodes(schema)
    rules = (*RULES, _no_lookaround(tool, protocol))
    yield from apply_rules(rules, all_nodes, tool, protocol, "OpenAI")
    yield from _large(tool, protocol, all_nodes)


def _finding(
    message: str,
    where: str,
    protocol: str,
    source: str,
    *,
    strict: bool | None = None,
    inferred: bool = False,
) -> Finding:
    severity: Severity = "strict" if strict is False else "refused"
    return Finding(severity, message, where, protocol, source=source, inferred=inferred)


def _large(tool: SentTool, protocol: str, all_nodes: Sequence[Node]) -> Iterator[Finding]:
    """The limits of strict mode on a whole schema."""
    properties, values, letters = schema_sizes(node.schema for node in all_nodes)
    for count, most, what, source, inferred in (
        (properties, limits.OPENAI_MOST_PROPERTIES, "properties", DOCS, True),
        (values, limits.OPENAI_MOST_ENUM, "values of enums", ENUMS, False),
        (letters, limits.OPENAI_MOST_LETTERS, "letters in names and values", DOCS, True),
    ):
        if count > most:
            message = f"OpenAI's strict mode takes {most:,} {what}, not {count:,}."
            yield _finding(
                message, tool.where, protocol, source, strict=tool.strict, inferred=inferred
            )


def schema_sizes(schemas: Iterable[Any]) -> tuple[int, int, int]:
    """(properties, values of enums, letters) of all the schemas written in one. Letters are those
    of the names of properties and definitions, of enums and of consts.
    """
    names = values = letters = 0
    for schema in schemas:
        if not isinstance(schema, Mapping):
            continue
        for key in ("properties", "$defs", "definitions"):
            members = schema.get(key)
            if isinstance(members, Mapping):
                names += len(members) if key == "properties" else 0
                letters += sum(map(len, members))
        enum = schema.get("enum")
        enum = enum if isinstance(enum, list) else []
        values += len(enum)
        letters += sum(
            len(value) for value in (*enum, schema.get("const")) if isinstance(value, str)
        )
    return names, values, letters


# Refusals, in OpenAI's own words.


_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_TOP = Citation(TOP)
_ITEMS = Citation(ITEMS)
_PROPERTIES = Citation(PROPERTIES)
_NO_SCHEMA = Citation(NO_SCHEMA, inferred=True)
_CLOSED = Citation(CLOSED)
_DOCS = Citation(DOCS)
_ASSUMED = Citation(_DOCS.words, inferred=True)
_FORMAT = Citation(FORMAT)
_TYPELESS = Citation(TYPELESS)
_BOOLEAN = Citation(_TYPELESS.words, inferred=True)
_BESIDE = Citation(BESIDE)
_DEEP = Citation(DEEP, inferred=True)
_REGEX = Citation(REGEX)
_ENUMS = Citation(ENUMS)

_TOP_LEVEL = words_of("oneOf anyOf allOf enum const not")
_NOT_PERMITTED: Mapping[str, Citation] = {
    "allOf": Citation(ALL_OF),
    "oneOf": Citation(ONE_OF),
    "propertyNames": Citation(NAMED),
    "uniqueItems": Citation(UNIQUE),
    "default": Citation(DEFAULT),
    "minLength": Citation(LENGTHS),
    "maxLength": Citation(LENGTHS),
    **dict.fromkeys(words_of("not if then else dependentRequired dependentSchemas"), _DOCS),
    **dict.fromkeys(
        words_of(
            """patternProperties minProperties maxProperties dependencies contains minContains
            maxContains prefixItems unevaluatedProperties unevaluatedItems"""
        ),
        _ASSUMED,
    ),
}


def errors(schema: Mapping[str, Any], *, strict: bool) -> Iterator[tuple[str, Citation]]:
    """What is wrong with the parameters of a function, in words, and how that is known."""
    kind = schema.get("type", "None") if schema else "object"
    if kind != "object":
        sentence = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        yield sentence, _NO_SCHEMA
    if _TOP_LEVEL & schema.keys():
        sentence = "'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level."
        yield f"schema must have type 'object' and not have {sentence}", _TOP
    if schema and "properties" not in schema:
        yield "In context=(), object schema missing properties.", _PROPERTIES
    if not jsonschema_rs.meta.is_valid({**schema, "$schema": _DRAFT}):
        yield "the schema is not valid under draft 2020-12 of JSON Schema.", _NO_SCHEMA
    for path, node, depth in schemas_with_depth(schema):
        if isinstance(node, Mapping):
            yield from _of_any(node, path)
        if strict:
            yield from _of_strict(node, path, depth)
    if strict:
        yield from _too_large(schema)


def _where(path: Path) -> str:
    return f"In context=({', '.join(map(repr, path))}{',' if len(path) == 1 else ''})"


def _of_any(node: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Citation]]:
    kind = node.get("type")
    is_array = "array" in kind if isinstance(kind, list) else kind == "array"
    if is_array and "items" not in node:
        yield f"{_where(path)}, array schema missing items.", _ITEMS
    for pattern in _patterns(node):
        if not limits.is_python_regex(pattern):
            yield f"'{pattern}' is not a 'regex'.", _REGEX


def _of_strict(node: Any, path: Path, depth: int) -> Iterator[tuple[str, Citation]]:
    """What keeps the schema at `path` from being strict."""
    where = _where(path)
    if isinstance(node, bool):
        yield f"{where}, {node} is not of type 'object'.", _BOOLEAN
    if not isinstance(node, Mapping):
        return
    if depth > limits.OPENAI_DEEPEST:
        yield f"{where}, {depth} levels of nesting exceeds limit of {limits.OPENAI_DEEPEST}.", _DEEP
        return
    yield from _of_object(node, where)
    if not node.keys() & {"type", "$ref", "anyOf"}:
        yield f"{where}, schema must have a 'type' key.", _TYPELESS
    beside = sorted(node.keys() - {"$ref"})
    if "$ref" in node and beside:
        names = ", ".join(map(repr, beside))
        yield f"{where}, $ref cannot have keywords {{{names}}}.", _BESIDE
    for key in node:
        if key in _NOT_PERMITTED:
            yield f"{where}, '{key}' is not permitted.", _NOT_PERMITTED[key]
    if "format" in node and node["format"] not in FORMATS:
        yield f"{where}, '{node['format']}' is not a valid format.", _FORMAT


def _of_object(node: Mapping[str, Any], where: str) -> Iterator[tuple[str, Citation]]:
    properties = node.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    kind = node.get("type")
    is_object = "object" in kind if isinstance(kind, list) else kind == "object"
    if not is_object and not properties:
        return
    if node.get("additionalProperties") is not False:
        yield (
            f"{where}, 'additionalProperties' is required to be supplied and to be false.",
            _CLOSED,
        )
    value = node.get("required")
    value = value if isinstance(value, list) else []
    required = {name for name in value if isinstance(name, str)}
    for name in properties:
        if name not in required:
            yield (
                f"{where}, 'required' is required to be supplied and to be an array including "
                f"every key in properties. Missing '{name}'.",
                _CLOSED,
            )


def _patterns(node: Any) -> list[str]:
    """The regular expressions that stand in a schema itself."""
    if not isinstance(node, Mapping):
        return []
    patterns = node.get("patternProperties")
    several = [node.get("pattern"), *(patterns if isinstance(patterns, Mapping) else ())]
    return [each for each in several if isinstance(each, str)]


def check_lookaround(
    schema: Mapping[str, Any],
    model: str,
    *,
    strict: bool,
    seen: bool = True,
    param: str = "tools",
) -> None:
    """Refuse a pattern that looks around, which older models take of tools that are not strict.
    `seen` is whether that was seen of tools that are not, by this protocol; `param` is where the
    schema stands."""
    if not strict and limits.takes_lookaround(model):
        return
    for path, node, _ in schemas_with_depth(schema):
        if any(map(limits.has_lookaround, _patterns(node))):
            place = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path)
            raise BadRequest(
                "Invalid JSON schema: regex lookaround is not supported. Found at "
                f"${place}.pattern.",
                param=param,
                code="invalid_json_schema",
                source=LOOKAROUND if strict else NEWER_LOOKAROUND,
                inferred=not strict and not seen,
            )


def _too_large(schema: Mapping[str, Any]) -> Iterator[tuple[str, Citation]]:
    schemas = [node for _, node, _ in schemas_with_depth(schema)]
    properties, values, letters = schema_sizes(schemas)
    for count, most, what in (
        (properties, limits.OPENAI_MOST_PROPERTIES, "object properties"),
        (letters, limits.OPENAI_MOST_LETTERS, "characters in names and values"),
    ):
        if count > most:
            yield f"the schema has {count} {what}, more than the limit of {most}.", _ASSUMED
    if values > limits.OPENAI_MOST_ENUM:
        yield (
            f"Expected at most {limits.OPENAI_MOST_ENUM} enum values in total within a single "
            f"schema when using structured outputs, but received {values}. Consider reducing the "
            "number of enums, or use 'strict: false' to opt out of structured outputs.",
            _ENUMS,
        )
    for large in filter(None, map(large_enum, schemas)):
        yield (
            f"an enum has {large[0]} values with {large[1]} characters, more than the limit of "
            f"{limits.OPENAI_MOST_ENUM_LETTERS} for more than {limits.OPENAI_LARGE_ENUM} values.",
            _ASSUMED,
        )
