"""Checks a tool against Anthropic's limits: its name, its schema, what strict mode compiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.core import provider_limits as limits
from app.protocols.lint_rules import (
    Finding,
    LintRule,
    Node,
    SentTool,
    Severity,
    apply_rules,
    has,
    has_complex_enum,
    is_boolean,
    is_open,
    is_typeless,
    nodes,
    odd_format,
    recursive_refs,
    root_has,
)
from app.schema import schema_checks
from app.schema.schema_checks import pointer

FORMATS = (
    *("date-time", "time", "date", "duration", "email"),
    *("hostname", "uri", "ipv4", "ipv6", "uuid"),
)

NAMES = "https://github.com/anthropics/claude-code/issues/96152"
KEYS = "https://github.com/anthropics/claude-code/issues/79418"
TOP = "https://github.com/anthropics/claude-code/issues/44788"
DRAFT = "https://github.com/Dokploy/mcp/issues/74"
DOCS = "https://platform.claude.com/docs/en/build-with-claude/structured-outputs"
BOUNDS = "https://github.com/CherryHQ/cherry-studio/issues/18037"
ARRAYS = "https://github.com/agentjido/req_llm/pull/707"
MATRIX = "recordings of rig, anthropic/strict_schema_matrix (docs/wire.md, section 1)"
LIMITS = "recordings of rig, anthropic/strict_schema_limits (docs/wire.md, section 1)"
MANY = "https://github.com/camel-ai/camel/pull/4171"
COMPLEX = "https://github.com/genkit-ai/genkit/issues/5230"
MEMBERS_SOURCE = "Anthropic API reference: Messages, tools"
MEMBERS = (
    *("type", "name", "description", "input_schema", "strict", "eager_input_streaming"),
    *("input_examples", "defer_loading", "allowed_callers", "cache_control"),
)
UNCACHED = "https://github.com/Wei-Shaw/sub2api/issues/4990"


def _odd_pattern(node: Node) -> bool:
    pattern = node.keys.get("pattern")
    return isinstance(pattern, str) and bool(limits.ANTHROPIC_UNCOMPILED.search(pattern))


def _many_items(node: Node) -> bool:
    return "minItems" in node.keys and node.keys["minItems"] not in (0, 1)


def _ref_in_all(node: Node) -> bool:
    return node.led == "allOf" and "$ref" in node.keys


def _no(names: Sequence[str], source: str, *, inferred: bool = False) -> Iterator[LintRule]:
    for name in names:
        yield LintRule(f"does not accept `{name}`", has(name), source, inferred, "strict", "strict")


RULES: tuple[LintRule, ...] = (
    LintRule(
        "does not accept anyOf, oneOf or allOf at the top level",
        root_has("anyOf", "oneOf", "allOf"),
        TOP,
    ),
    LintRule(
        "needs `additionalProperties: false` of every object",
        is_open,
        MATRIX,
        severity="strict",
        fix="strict",
    ),
    LintRule("does not accept true or false for a schema", is_boolean, MATRIX, severity="strict"),
    *_no(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), BOUNDS),
    *_no(("minLength", "maxLength"), DOCS),
    *_no(("maxItems",), ARRAYS),
    LintRule("accepts no minItems but 0 and 1", _many_items, ARRAYS, False, "strict", "strict"),
    *_no(("uniqueItems",), DOCS),
    *_no(("oneOf", "not", "if", "prefixItems", "contains"), DOCS, inferred=True),
    *_no(
        ("patternProperties", "propertyNames", "minProperties", "maxProperties"),
        DOCS,
        inferred=True,
    ),
    *_no(("dependentSchemas", "dependentRequired", "dependencies"), DOCS, inferred=True),
    *_no(("unevaluatedProperties", "unevaluatedItems"), DOCS, inferred=True),
    LintRule("does not accept `$ref` within allOf", _ref_in_all, DOCS, False, "strict", "strict"),
    LintRule(
        "does not accept objects or lists in an enum", has_complex_enum, DOCS, severity="strict"
    ),
    LintRule("does not know this `format`", odd_format(FORMATS), DOCS, True, "strict", "strict"),
    LintRule(
        "does not accept a lookaround, \\b or backreference in a pattern",
        _odd_pattern,
        DOCS,
        False,
        "strict",
        "strict",
    ),
    LintRule("needs a type, enum, const or anyOf", is_typeless, DOCS, True, "strict"),
)


def lint_tool(tool: SentTool) -> Iterator[Finding]:
    """What this protocol refuses of a tool."""
    if not limits.ANTHROPIC_NAME.fullmatch(tool.name):
        message = "takes names of 1 to 128 letters, digits, underscores and hyphens"
        yield _finding(f"Anthropic {message}, not {tool.name[:80]!r}.", "/name", NAMES)
    if not isinstance(tool.schema, Mapping):
        yield _finding("Anthropic needs an object for input_schema.", tool.where, MATRIX)
        return
    if tool.schema.get("type") != "object":
        yield _finding("Anthropic needs `type: object` at the root.", tool.where + "/type", MATRIX)
    yield from _keys(tool)
    plain = {key: value for key, value in tool.schema.items() if key != "$schema"}
    if wrong := schema_checks.fault(plain):
        message = "Anthropic takes JSON Schema draft 2020-12 alone, whatever $schema says"
        yield _finding(f"{message}. {wrong[0]}", tool.where + wrong[1], DRAFT)
    all_nodes = nodes(tool.schema)
    yield from apply_rules(RULES, all_nodes, tool, "anthropic", "Anthropic")
    yield from _compiled(tool, all_nodes)


def _finding(
    message: str, where: str, source: str, *, strict: bool | None = None, inferred: bool = False
) -> Finding:
    """`strict` None: refused always; else it is whether the tool is strict."""
    severity: Severity = "strict" if strict is False else "refused"
    return Finding(severity, message, where, "anthropic", source=source, inferred=inferred)


def _keys(tool: SentTool) -> Iterator[Finding]:
    properties = tool.schema.get("properties")
    for name in properties if isinstance(properties, Mapping) else ():
        if not limits.ANTHROPIC_KEY.fullmatch(name):
            message = "takes names of parameters of 1 to 64 letters, digits, _, . and -"
            where = tool.where + pointer(("properties", name))
            yield _finding(f"Anthropic {message}, not {name[:80]!r}.", where, KEYS)


def _compiled(tool: SentTool, all_nodes: Sequence[Node]) -> Iterator[Finding]:
    """What strict mode cannot compile: recursion, and too much in one schema."""
    for ref in sorted(recursive_refs(tool.schema))[:5]:
        message = f"Anthropic's strict mode does not accept a schema that refers to itself ({ref})."
        yield _finding(message, tool.where, MATRIX, strict=tool.strict)
    optional, unions = count_parameters(all_nodes)
    for count, most, what in (
        (optional, limits.ANTHROPIC_MOST_OPTIONAL, "parameters that are not required"),
        (unions, limits.ANTHROPIC_MOST_UNIONS, "parameters with several types"),
    ):
        if count >= most:
            message = f"Anthropic's strict mode takes fewer than {most} {what}, not {count}."
            yield _finding(message, tool.where, COMPLEX, strict=tool.strict)


def count_parameters(all_nodes: Sequence[Node]) -> tuple[int, int]:
    """(parameters that are not required, parameters of several types), however deep."""
    optional = unions = 0
    for node in all_nodes:
        optional += sum(name not in node.required for name in node.properties)
        unions += sum(_is_union(prop) for prop in node.properties.values())
    return optional, unions


def _is_union(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    return isinstance(schema.get("type"), list) or "anyOf" in schema
