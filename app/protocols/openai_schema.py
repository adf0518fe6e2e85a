"""What OpenAI refuses of a function's schema, by either of its protocols, in its own words.

https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from app.core import provider_limits as limits
from app.protocols import openai_lint
from app.protocols.server import BadRequest, Citation, words_of
from app.schema.keywords import Path, all_schemas

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

_TOP = Citation("https://github.com/langchain-ai/langchainjs/issues/9804")
_ITEMS = Citation("https://github.com/sigoden/aichat/pull/1049")
_PROPERTIES = Citation("https://github.com/spring-projects/spring-ai/issues/4776")
_NO_SCHEMA = Citation("OpenAI guide to function calling", inferred=True)
_CLOSED = Citation("https://github.com/camel-ai/camel/issues/2231")
_DOCS = Citation("https://platform.openai.com/docs/guides/structured-outputs#supported-schemas")
_ASSUMED = Citation(_DOCS.words, inferred=True)
_FORMAT = Citation("https://github.com/can1357/oh-my-pi/issues/206")
_TYPELESS = Citation("https://github.com/can1357/oh-my-pi/issues/211")
_BOOLEAN = Citation(_TYPELESS.words, inferred=True)
_BESIDE = Citation("https://github.com/camel-ai/camel/issues/3001")
_DEEP = Citation("https://github.com/tidyverse/ellmer/issues/671", inferred=True)
_REGEX = Citation(openai_lint.REGEX)
_ENUMS = Citation(openai_lint.ENUMS)

_TOP_LEVEL = words_of("oneOf anyOf allOf enum const not")
_NOT_PERMITTED: Mapping[str, Citation] = {
    "allOf": Citation("https://github.com/makenotion/notion-mcp-server/issues/102"),
    "oneOf": Citation("https://github.com/ai-dynamo/dynamo/pull/15153"),
    "propertyNames": Citation("https://github.com/can1357/oh-my-pi/issues/209"),
    "uniqueItems": Citation("https://github.com/1jehuang/jcode/issues/687"),
    "default": Citation("https://github.com/dotnet/extensions/issues/6266"),
    "minLength": Citation("https://github.com/openai/openai-node/pull/1988"),
    "maxLength": Citation("https://github.com/openai/openai-node/pull/1988"),
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
    for path, node, depth in all_schemas(schema):
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
    if "format" in node and node["format"] not in openai_lint.FORMATS:
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
    for path, node, _ in all_schemas(schema):
        if any(map(limits.has_lookaround, _patterns(node))):
            place = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path)
            raise BadRequest(
                "Invalid JSON schema: regex lookaround is not supported. Found at "
                f"${place}.pattern.",
                param=param,
                code="invalid_json_schema",
                source=openai_lint.LOOKAROUND if strict else openai_lint.NEWER_LOOKAROUND,
                inferred=not strict and not seen,
            )


def _too_large(schema: Mapping[str, Any]) -> Iterator[tuple[str, Citation]]:
    schemas = [node for _, node, _ in all_schemas(schema)]
    properties, values, letters = openai_lint.measure(schemas)
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
    for large in filter(None, map(openai_lint.large_enum, schemas)):
        yield (
            f"an enum has {large[0]} values with {large[1]} characters, more than the limit of "
            f"{limits.OPENAI_MOST_ENUM_LETTERS} for more than {limits.OPENAI_LARGE_ENUM} values.",
            _ASSUMED,
        )
