"""What OpenAI's two protocols do with a tool, and its strict mode: a subset of JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from app.schema import soundness
from app.schema.lint_finding import Finding, Severity
from app.schema.lint_rules import (
    Node,
    Rule,
    Sent,
    bare_array,
    has,
    is_boolean,
    is_open,
    judged,
    nodes,
    odd_format,
    ref_beside,
    root_has,
)

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MOST_TOOLS = 128
DEEPEST, MOST_PROPERTIES, MOST_ENUM, MOST_LETTERS = 10, 5000, 1000, 120_000
LONG_DESCRIPTION = 1024
FORMATS = (
    *("date-time", "time", "date", "duration", "email"),
    *("hostname", "ipv4", "ipv6", "uuid"),
)

NAMES = "OpenAI API reference: function names, types of openai-python"
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
    said = ("type", "$ref", "anyOf")
    return isinstance(node.schema, Mapping) and not any(name in node.keys for name in said)


def _is_deep(node: Node) -> bool:
    return node.depth == DEEPEST + 1  # what is deeper still needs no telling


def _no(names: Sequence[str], source: str, *, inferred: bool = False) -> Iterator[Rule]:
    for name in names:
        yield Rule(f"takes no `{name}`", has(name), source, inferred, "strict", "strict")


RULES: tuple[Rule, ...] = (
    Rule(
        "takes no oneOf, anyOf, allOf, enum, const or not at the top level",
        root_has("oneOf", "anyOf", "allOf", "enum", "const", "not"),
        TOP,
    ),
    Rule("needs `items` of every array", bare_array, ITEMS),
    Rule(
        "needs `additionalProperties: false` of every object",
        is_open,
        CLOSED,
        False,
        "strict",
        "strict",
    ),
    Rule("needs every property in `required`", _is_partial, CLOSED, False, "strict", "strict"),
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
    Rule("does not know this `format`", odd_format(FORMATS), FORMAT, False, "strict", "strict"),
    Rule("needs a `type`", _is_typeless, TYPELESS, False, "strict", "strict"),
    Rule("takes no true or false for a schema", is_boolean, TYPELESS, True, "strict"),
    Rule("takes nothing beside a `$ref`", ref_beside(), BESIDE, False, "strict", "inline"),
    Rule(f"takes {DEEPEST} levels of nesting", _is_deep, DEEP, True, "strict"),
)


def found(sent: Sent, protocol: str) -> Iterator[Finding]:
    """What this protocol refuses of a tool."""
    if not NAME.fullmatch(sent.name):
        said = "takes names of 1 to 64 letters, digits, underscores and hyphens"
        yield _finding(f"OpenAI {said}, not {sent.name[:80]!r}.", "/name", protocol, NAMES)
    if protocol == "openai_chat" and len(sent.description) > LONG_DESCRIPTION:
        yield Finding(
            "weak",
            f"Older models of OpenAI refuse a description of more than {LONG_DESCRIPTION:,} "
            f"characters; this one has {len(sent.description):,}.",
            "/description",
            protocol,
            family="gpt-4o, o1, o3-mini",
            source=LONG,
        )
    if sent.freeform:
        return
    schema = sent.schema
    if not isinstance(schema, Mapping):
        yield _finding("OpenAI needs an object for parameters.", sent.where, protocol, NO_SCHEMA)
        return
    if schema and schema.get("type") != "object":
        said = "OpenAI needs `type: object` at the root."
        yield _finding(said, sent.where + "/type", protocol, NO_SCHEMA, inferred=True)
    elif schema and "properties" not in schema:
        said = "OpenAI needs `properties` at the root, even if it is empty."
        yield _finding(said, sent.where, protocol, PROPERTIES)
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    if wrong := soundness.fault(plain):
        said = f"OpenAI takes JSON Schema draft 2020-12 alone, whatever $schema says. {wrong[0]}"
        yield _finding(said, sent.where + wrong[1], protocol, NO_SCHEMA, inferred=True)
    all_nodes = nodes(schema)
    yield from judged(RULES, all_nodes, sent, protocol, "OpenAI")
    yield from _large(sent, protocol, all_nodes)


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


def _large(sent: Sent, protocol: str, all_nodes: Sequence[Node]) -> Iterator[Finding]:
    """The limits of strict mode on a whole schema."""
    names = [name for node in all_nodes for name in node.properties]
    enums = [node.keys["enum"] for node in all_nodes if isinstance(node.keys.get("enum"), list)]
    values = [value for enum in enums for value in enum]
    letters = sum(len(text) for text in (*names, *(v for v in values if isinstance(v, str))))
    for count, most, what in (
        (len(names), MOST_PROPERTIES, "properties"),
        (len(values), MOST_ENUM, "values of enums"),
        (letters, MOST_LETTERS, "letters in names and enums"),
    ):
        if count > most:
            said = f"OpenAI's strict mode takes {most:,} {what}, not {count:,}."
            yield _finding(said, sent.where, protocol, DOCS, strict=sent.strict, inferred=True)
