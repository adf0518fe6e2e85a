"""Limits of Anthropic for tools: names, schemas, what strict mode compiles.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from playground.core.tools import TOOLS_IN_USE, IdentityKey
from playground.protocols.server import Citation
from playground.protocols.tool_limits import (
    NUMBER_FORMATS,
    CallIdLimit,
    Limit,
    LimitTable,
    Match,
    Node,
    SentTool,
    at_root,
    equal_names,
    has_keyword,
    is_boolean,
    is_open,
    is_other_draft,
    is_typeless,
    lacks_freeform,
    nodes,
    odd_format,
    odd_members,
    odd_name,
    refers_to_itself,
)

REFERENCE = Citation("Anthropic API reference: Messages, tools")
ASSUMED = Citation(REFERENCE.words, inferred=True)
_MATRIX = Citation("recordings of rig, anthropic/strict_schema_matrix (docs/wire.md, section 1)")
_DOCS = Citation("https://platform.claude.com/docs/en/build-with-claude/structured-outputs")
_BOUNDS = Citation("https://github.com/CherryHQ/cherry-studio/issues/18037")
_ARRAYS = Citation("https://github.com/agentjido/req_llm/pull/707")
_COMPLEX = "https://github.com/genkit-ai/genkit/issues/5230"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_UNCOMPILED = re.compile(r"\(\?<?[=!]|\\[1-9bBk]")
_MEMBERS = (
    *("type", "name", "description", "input_schema", "strict", "eager_input_streaming"),
    *("input_examples", "defer_loading", "allowed_callers", "cache_control"),
)
_MOST_STRICT, _MOST_OPTIONAL, _MOST_UNIONS = 20, 24, 16
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
FORMATS = (
    *("date-time", "time", "date", "duration", "email"),
    *("hostname", "uri", "ipv4", "ipv6", "uuid"),
    *NUMBER_FORMATS,
)

CALL_ID = CallIdLimit(
    re.compile(r"[a-zA-Z0-9_-]{1,64}"),
    "Anthropic accepts letters, digits, _ and -",
    Citation(
        "https://github.com/maximhq/bifrost/issues/5097; that 64 characters are enough for its own "
        "ids is assumed"
    ),
)

_OPTIONAL, _UNIONS = 0, 1
"""Which of the two counts."""

_tool: Callable[..., Limit[SentTool]] = Limit
_request = partial(Limit[Sequence[SentTool]], pointer="/strict")

_UNSUPPORTED = "For '{node.kind}' type, property 'KEYWORD' is not supported"


def is_uncompiled(pattern: Any) -> bool:
    """Whether strict mode refuses a pattern: with lookaround, \b or a backreference."""
    return isinstance(pattern, str) and bool(_UNCOMPILED.search(pattern))


def _is_untyped(node: Node) -> Match:
    return "type" not in node.keys and {"step": ("type",)}


def _is_no_object(node: Node) -> Match:
    return node.keys.get("type", "object") != "object" and {"step": ("type",)}


def _odd_keys(node: Node) -> Match:
    odd = [name for name in node.properties if not _KEY.fullmatch(name)]
    return [{"shown": name[:80], "step": ("properties", name)} for name in odd]


def _bounds(name: str, node: Node) -> Match:
    """The bounds of a number; Anthropic names all in one sentence."""
    if name not in node.keys:
        return False
    there = sorted(set(_NUMBERS) & node.keys.keys())
    names = f"{', '.join(there)} {'are' if len(there) > 1 else 'is'} not supported"
    return {"bounds": f"{'properties' if len(there) > 1 else 'property'} {names}"}


@lru_cache(maxsize=TOOLS_IN_USE)
def _counts(schema: IdentityKey[Any]) -> tuple[int, int]:
    """(optional parameters, parameters with several types) of a schema, at any depth."""
    optional = unions = 0
    for node in nodes(schema.value):
        optional += sum(name not in node.required for name in node.properties)
        schemas = [prop for prop in node.properties.values() if isinstance(prop, Mapping)]
        unions += sum(isinstance(prop.get("type"), list) or "anyOf" in prop for prop in schemas)
    return optional, unions


def _tool_limit(which: int, most: int) -> Callable[[SentTool], Match]:
    def find(tool: SentTool) -> Match:
        count = _counts(IdentityKey(tool.schema))[which]
        return count >= most and {"count": count}

    return find


def _request_limit(which: int, most: int) -> Callable[[Sequence[SentTool]], Match]:
    """A limit on the total over all strict tools of a request."""

    def find(tools: Sequence[SentTool]) -> Match:
        count = sum(_counts(IdentityKey(tool.schema))[which] for tool in tools if tool.strict)
        return count > most and {"count": count}

    return find


def _schema(
    says: str, finds: Callable[[Node], Match], source: Citation, refusal: str, **more: Any
) -> Limit[Node]:
    return Limit(says, finds, source, "{where}" + refusal, **more)


def _strict_limit(
    says: str,
    finds: Callable[[Node], Match],
    source: Citation,
    refusal: str,
    *,
    inferred: bool = False,
    **more: Any,
) -> Limit[Node]:
    """A limit of strict mode only."""
    source = Citation(source.words, inferred)
    return _schema(says, finds, source, f": {refusal}", severity="strict", **more)


def _refused_keywords(
    names: str, source: Citation, refusal: str, *, inferred: bool = False
) -> Iterator[Any]:
    """Keywords that strict mode refuses everywhere."""
    for name in names.split():
        says, words = f"does not accept `{name}`", refusal.replace("KEYWORD", name)
        more: dict[str, Any] = {"fix": "strict", "keyword": name}
        yield _strict_limit(says, has_keyword(name), source, words, inferred=inferred, **more)


def _refused_bounds() -> Iterator[Limit[Node]]:
    for name in _NUMBERS:
        yield _strict_limit(
            f"does not accept `{name}`",
            partial(_bounds, name),
            _BOUNDS,
            "For '{node.kind}' type, {bounds}",
            fix="strict",
            keyword=name,
        )


def _complexity_limits() -> Iterator[Limit[SentTool]]:
    for which, most, what in (
        (_OPTIONAL, _MOST_OPTIONAL, "parameters that are not required"),
        (_UNIONS, _MOST_UNIONS, "parameters with several types"),
    ):
        yield Limit(
            f"accepts fewer than {most} {what}, not {{count}}",
            _tool_limit(which, most),
            Citation(_COMPLEX),
            "Schema is too complex for compilation. Try reducing the number of tools or "
            "simplifying tool schemas.",
            "strict",
            pointer="/parameters",
        )


# fmt: off
LIMITS = LimitTable(
    "anthropic",
    "Anthropic",
    of_tool=(
        _tool("does not know the member {shown!r} of a tool", odd_members(_MEMBERS), REFERENCE,
              "{where}.{key}: Extra inputs are not permitted"),
        _tool("does not cache deferred tools: leave out cache_control or defer_loading",
              lambda tool: bool(
                  tool.members.get("defer_loading") and tool.members.get("cache_control")),
              Citation("https://github.com/Wei-Shaw/sub2api/issues/4990"),
              "Tool '{tool.name}' cannot have both defer_loading=true and cache_control set. Tools "
              "with defer_loading cannot use prompt caching."),
        _tool("accepts names of 1 to 128 letters, digits, underscores and hyphens, not {shown!r}",
              odd_name(_NAME), Citation("https://github.com/anthropics/claude-code/issues/96152"),
              "{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'",
              pointer="/name"),
        _tool("needs an object for input_schema", lambda tool: not isinstance(tool.schema, Mapping),
              _MATRIX, "{where}.input_schema: Input should be a valid dictionary",
              pointer="/parameters"),
        lacks_freeform("has no free-form tools: a tool with one text argument is sent",
                       "docs/wire.md, section 1: there are no free-form tools"),
        *_complexity_limits(),
    ),
    of_schema=(
        _schema("needs `type: object` at the root", at_root(_is_untyped), _MATRIX,
                ".input_schema.type: Field required"),
        _schema("needs `type: object` at the root", at_root(_is_no_object), REFERENCE,
                ".input_schema.type: Input should be 'object'"),
        _schema("does not accept anyOf, oneOf or allOf at the top level",
                at_root(has_keyword("anyOf", "oneOf", "allOf")),
                Citation("https://github.com/anthropics/claude-code/issues/44788"),
                ".input_schema: input_schema does not support oneOf, allOf, or anyOf at the top "
                "level"),
        _schema("accepts only JSON Schema draft 2020-12, whatever $schema says{why}",
                is_other_draft, Citation("https://github.com/Dokploy/mcp/issues/74"),
                ".input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
                "(https://json-schema.org/draft/2020-12)."),
        _schema("accepts parameter names of 1 to 64 letters, digits, _, . and -, not {shown!r}",
                at_root(_odd_keys),
                Citation("https://github.com/anthropics/claude-code/issues/79418"),
                ".input_schema.properties: Property keys should match pattern "
                "'^[a-zA-Z0-9_.-]{{1,64}}$'"),
        _strict_limit("needs `additionalProperties: false` of every object", is_open, _MATRIX,
                "For 'object' type, 'additionalProperties' must be explicitly set to false",
                fix="strict"),
        _strict_limit("does not accept true or false for a schema", is_boolean, _MATRIX,
                "Boolean schemas are not supported in strict tools."),
        *_refused_bounds(),
        *_refused_keywords("minLength maxLength", _DOCS, _UNSUPPORTED),
        *_refused_keywords("maxItems", _ARRAYS, _UNSUPPORTED),
        _strict_limit("accepts only 0 and 1 for minItems",
                lambda node: node.keys.get("minItems", 0) not in (0, 1), _ARRAYS,
                "For '{node.kind}' type, 'minItems' values other than 0 or 1 are not supported",
                fix="strict"),
        *_refused_keywords("uniqueItems", _DOCS, _UNSUPPORTED),
        *_refused_keywords("oneOf not if prefixItems contains patternProperties propertyNames "
             "minProperties maxProperties dependentSchemas dependentRequired "
             "dependencies unevaluatedProperties unevaluatedItems", _DOCS,
             "'KEYWORD' is not supported", inferred=True),
        _strict_limit("does not accept `$ref` within allOf",
                lambda node: node.led == "allOf" and "$ref" in node.keys, _DOCS,
                "allOf with $ref is not supported", fix="strict"),
        _strict_limit("does not accept objects or lists in an enum",
                lambda node: any(isinstance(value, dict | list) for value in node.enum), _DOCS,
                "Complex types within enums are not supported"),
        _strict_limit("does not know this `format`", odd_format(FORMATS), _DOCS,
                "format '{node.keys[format]}' is not supported", inferred=True, fix="strict"),
        _strict_limit("does not accept a lookaround, \\b or backreference in a pattern",
                lambda node: is_uncompiled(node.keys.get("pattern")), _DOCS,
                "the pattern uses an unsupported feature", fix="strict"),
        _strict_limit("needs a type, enum, const or anyOf",
                is_typeless("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"),
                _DOCS, "a schema must have a type, enum, const, anyOf or allOf", inferred=True),
        _strict_limit("does not accept a schema that refers to itself ({ref})", refers_to_itself,
         _MATRIX,
                "Recursive schemas are not supported: {ref}"),
    ),
    of_request=(
        equal_names(ASSUMED, "tools: Tool names must be unique."),
        _request(f"accepts {_MOST_STRICT} strict tools in a request, not {{count}}",
                 lambda tools: (count := sum(tool.strict for tool in tools)) > _MOST_STRICT
                 and {"count": count},
                 Citation("https://github.com/camel-ai/camel/pull/4171"), f"Too many strict tools "
                 f"({{count}}). The maximum number of strict tools supported is {_MOST_STRICT}. "
                 f"Try reducing the number of tools marked as strict."),
        _request(
            f"accepts {_MOST_OPTIONAL} optional parameters of strict tools in a request, not "
            f"{{count}}"
        , _request_limit(_OPTIONAL, _MOST_OPTIONAL),
                 Citation("https://github.com/elie222/inbox-zero/issues/2323"), f"Schemas contains "
                 f"too many optional parameters ({{count}}), which would make grammar compilation "
                 f"inefficient. Reduce the number of optional parameters in your tool schemas "
                 f"(limit: {_MOST_OPTIONAL})."),
        _request(
            f"accepts {_MOST_UNIONS} parameters with several types in strict tools in a "
            f"request, not {{count}}"
        , _request_limit(_UNIONS, _MOST_UNIONS),
                 Citation("recordings of rig, anthropic/strict_schema_limits (docs/wire.md, "
                          "section 1)"), f"Schemas contains too many parameters with union types "
                 f"({{count}} parameters with type arrays or anyOf). Reduce the number of nullable "
                 f"or union-typed parameters (limit: {_MOST_UNIONS})."),
    ),
)
# fmt: on
