"""Limits of OpenAI for the tools of Chat Completions; other servers enforce most of them. The
limits for schemas, and the error messages on the shape of a body, apply to Responses, too.

https://platform.openai.com/docs/guides/structured-outputs
https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any

from playground.core.tools import Tool
from playground.protocols.server import BadRequest, Citation, Phrases, Rule, Shape
from playground.protocols.tool_limits import (
    LACKS_EAGER,
    NUMBER_FORMATS,
    TWICE,
    CallIdLimit,
    Limit,
    LimitTable,
    Match,
    Node,
    SentTool,
    at_root,
    bare_array,
    equal_names,
    has_keyword,
    is_boolean,
    is_open,
    is_other_draft,
    is_typeless,
    lacks_freeform,
    neighbours,
    odd_format,
    too_many_tools,
)
from playground.schema.pattern import has_deep_groups

_TOP = Citation("https://github.com/langchain-ai/langchainjs/issues/9804")
_GUIDE = Citation("OpenAI guide to function calling")
_ASSUMED_GUIDE = Citation(_GUIDE.words, inferred=True)
_CLOSED = Citation("https://github.com/camel-ai/camel/issues/2231")
_DOCS = Citation("https://platform.openai.com/docs/guides/structured-outputs#supported-schemas")
_ASSUMED = Citation(_DOCS.words, inferred=True)
_LENGTHS = Citation("https://github.com/openai/openai-node/pull/1988")
_TYPELESS = Citation("https://github.com/can1357/oh-my-pi/issues/211")
_NEWER_LOOKAROUND = "https://github.com/decolua/9router/issues/1556"
_TOO_MANY = "https://github.com/vishalmysore/Tools4AI/issues/16"

_MOST_TOOLS = 128
_DEEPEST, _MOST_PROPERTIES, _MOST_ENUM, _MOST_LETTERS = 10, 5000, 1000, 120_000
_LARGE_ENUM, _MOST_ENUM_LETTERS = 250, 15_000
"""An enum with more values than the first has at most so many characters in total."""
FORMATS = (
    *("date-time", "time", "date", "duration", "email"),
    *("hostname", "ipv4", "ipv6", "uuid"),
    *NUMBER_FORMATS,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_ASIDE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)", re.DOTALL)
_LOOKS = re.compile(r"\(\?<?[=!]")
_OLDER = re.compile(r"(?:.*[/:])?(?:chat)?(?:gpt-[34]|o[134]|gpt-5(?:\.[0-4])?(?:-|$))")

NO_TYPE: Limit[SentTool] = Limit(
    'needs "type" of every tool: "function" or "custom"',
    lambda tool: bool(tool.members) and "type" not in tool.members,
    _GUIDE,
)

_JSON_TYPES = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}

TEXT = Shape(str, "a string", null=True)
FLAG = Shape(bool, "a boolean", null=True)
OBJECT = Shape(dict, "an object", null=True)

LONGEST_NAME = 64
_LONG_DESCRIPTION = 1024

CALL_ID = CallIdLimit(
    re.compile("[^\ud800-\udfff]{1,40}"),
    "OpenAI accepts 40 characters, newer models 64",
    Citation(
        "https://github.com/microsoft/autogen/issues/6377 (40), "
        "https://github.com/openclaw/openclaw/pull/875 (83 refused by 40 and by 64)"
    ),
)

OWN_CALL_ID = CallIdLimit(
    re.compile("[^\ud800-\udfff]+"),
    "a body has no half of a surrogate pair",
    Citation("https://github.com/BerriAI/litellm/pull/16895: its ids carry signatures of Gemini"),
)
"""For the ids that a server with the quirk long_ids gave."""

SHORT_CALL_ID = CallIdLimit(
    re.compile("[A-Za-z0-9]{9}"),
    "this server accepts nine letters or digits",
    Citation("https://github.com/anomalyco/opencode/issues/1680 (Mistral, error 3280)"),
)


def has_lookaround(pattern: str) -> bool:
    """Whether a regular expression has lookaround, outside of escapes and classes."""
    return "(?" in pattern and bool(_LOOKS.search(_ASIDE.sub("", pattern)))


def takes_lookaround(model: str) -> bool:
    """Whether a model accepts lookaround in tools that are not strict: those before gpt-5.5. Models
    with unknown names count as newer."""
    return bool(_OLDER.match(model))


@lru_cache(maxsize=1024)
def is_python_regex(pattern: str) -> bool:
    """Whether Python's `re` compiles a pattern, which is OpenAI's criterion for schemas."""
    if has_deep_groups(pattern):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def takes_pattern(pattern: str) -> bool:
    """Whether strict tools, and newer models in any tool, accept a pattern."""
    return is_python_regex(pattern) and not has_lookaround(pattern)


def _patterns(node: Node) -> Iterator[str]:
    """The regular expressions of a node."""
    patterns = node.keys.get("patternProperties")
    several = [node.keys.get("pattern"), *(patterns if isinstance(patterns, Mapping) else ())]
    yield from (text for text in several if isinstance(text, str))


def _no_regex(node: Node) -> Match:
    odd = (pattern for pattern in _patterns(node) if not is_python_regex(pattern))
    return next(({"pattern": pattern} for pattern in odd), False)


def _lookaround(node: Node) -> Match:
    steps = (f"[{step}]" if str(step).isdigit() else f".{step}" for step in node.place)
    return any(map(has_lookaround, _patterns(node))) and {"dotted": "".join(steps)}


def _unrequired_property(node: Node) -> Match:
    """The first property that is not required."""
    return next(({"name": name} for name in node.properties if name not in node.required), False)


def _other_type(node: Node) -> Match:
    kind = node.keys.get("type", "None")
    return bool(node.keys) and kind != "object" and {"type": kind, "step": ("type",)}


def _large_enum(node: Node) -> Match:
    count, letters = len(node.enum), sum(len(text) for text in node.enum if isinstance(text, str))
    large = count > _LARGE_ENUM and letters > _MOST_ENUM_LETTERS
    return large and {"count": count, "letters": letters}


def _total_limit(counted: Callable[[Node], int], most: int) -> Callable[[Node], Match]:
    """More than `most` in a whole schema."""

    def find(root: Node) -> Match:
        count = sum(map(counted, root.all))
        return count > most and {"count": count}

    return at_root(find)


def _letters(node: Node) -> int:
    """The characters of property and definition names, enums and consts."""
    named = (node.keys.get(key) for key in ("properties", "$defs", "definitions"))
    names = [name for members in named if isinstance(members, Mapping) for name in members]
    values = (*node.enum, node.keys.get("const"))
    return sum(map(len, names)) + sum(len(value) for value in values if isinstance(value, str))


def _row(
    says: str, finds: Callable[[Node], Match], source: Citation, refusal: str, **more: Any
) -> Limit[Node]:
    """The provider's message begins with the kind of schema, which depends on the request."""
    return Limit(says, finds, source, "{what}: " + refusal, param="{param}", code="{code}", **more)


def _row_with_place(
    says: str, finds: Callable[[Node], Match], source: Citation, refusal: str, **more: Any
) -> Limit[Node]:
    """The same, with the place of the schema in OpenAI's notation."""
    return _row(says, finds, source, "In context={node.context}, " + refusal, **more)


def _strict_row(
    says: str, finds: Callable[[Node], Match], source: Citation, refusal: str, **more: Any
) -> Limit[Node]:
    return _row_with_place(says, finds, source, refusal, severity="strict", **more)


def _refused_keywords(names: str, source: Citation) -> Iterator[Limit[Node]]:
    for name in names.split():
        says, refusal = f"does not accept `{name}`", f"'{name}' is not permitted."
        yield _strict_row(says, has_keyword(name), source, refusal, fix="strict", keyword=name)


def lookaround(source: Citation, *, strict: bool, **more: Any) -> Limit[Node]:
    """Lookaround in strict tools, or in those that are not."""
    return Limit(
        "does not accept a lookahead or lookbehind in a pattern",
        lambda node: node.strict == strict and _lookaround(node),
        source,
        "Invalid JSON schema: regex lookaround is not supported. Found at ${dotted}.pattern.",
        fix="drop",
        param="{outer}",
        code="invalid_json_schema",
        **more,
    )


def newer_lookaround(*, inferred: bool) -> Limit[Node]:
    """Newer models refuse it in any tool."""
    return lookaround(
        Citation(_NEWER_LOOKAROUND, inferred),
        strict=False,
        family="gpt-5.5 and later",
        holds=lambda model: not takes_lookaround(model),
    )


# fmt: off
SCHEMA_LIMITS: tuple[Limit[Node], ...] = (
    _row("needs `type: object` at the root", at_root(_other_type), _ASSUMED_GUIDE,
         "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{type}\"'."),
    _row("needs `properties` at the root, even if it is empty",
         at_root(lambda n: n.keys.get("type") == "object" and "properties" not in n.keys),
         Citation("https://github.com/spring-projects/spring-ai/issues/4776"),
         "In context=(), object schema missing properties.", subject="properties"),
    _row("accepts only JSON Schema draft 2020-12, whatever $schema says{why}", is_other_draft,
         _ASSUMED_GUIDE, "the schema is not valid under draft 2020-12 of JSON Schema."),
    _row("does not accept oneOf, anyOf, allOf, enum, const or not at the top level",
         at_root(has_keyword("oneOf", "anyOf", "allOf", "enum", "const", "not")), _TOP,
         "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' "
         "at the top level."),
    _row_with_place("needs `items` of every array", bare_array,
        Citation("https://github.com/sigoden/aichat/pull/1049"), "array schema missing items."),
    _row("does not accept a pattern that Python cannot read, such as \\p{{..}} and (?<name>..)",
         _no_regex, Citation("https://github.com/BerriAI/litellm/pull/40485"),
         "'{pattern}' is not a 'regex'.", fix="drop"),
    _strict_row("needs `additionalProperties: false` of every object", is_open, _CLOSED,
            "'additionalProperties' is required to be supplied and to be false.", fix="strict"),
    _strict_row("needs every property in `required`", _unrequired_property, _CLOSED,
            "'required' is required to be supplied and to be an array including every key in "
            "properties. Missing '{name}'.", fix="strict"),
    *_refused_keywords("allOf", Citation("https://github.com/makenotion/notion-mcp-server/issues/102")),
    *_refused_keywords("oneOf", Citation("https://github.com/ai-dynamo/dynamo/pull/15153")),
    *_refused_keywords("not if then else dependentRequired dependentSchemas", _DOCS),
    *_refused_keywords("propertyNames", Citation("https://github.com/can1357/oh-my-pi/issues/209")),
    *_refused_keywords("uniqueItems", Citation("https://github.com/1jehuang/jcode/issues/687")),
    *_refused_keywords("minLength maxLength", _LENGTHS),
    *_refused_keywords("patternProperties minProperties maxProperties dependencies", _ASSUMED),
    *_refused_keywords("contains minContains maxContains prefixItems", _ASSUMED),
    *_refused_keywords("unevaluatedProperties unevaluatedItems", _ASSUMED),
    _strict_row("does not know this `format`", odd_format(FORMATS),
            Citation("https://github.com/can1357/oh-my-pi/issues/206"),
            "'{node.keys[format]}' is not a valid format.", fix="strict"),
    _strict_row("needs a `type`", is_typeless("type", "$ref", "anyOf"), _TYPELESS,
            "schema must have a 'type' key.", fix="strict"),
    _strict_row("does not accept true or false for a schema", is_boolean,
            Citation(_TYPELESS.words, inferred=True), "{node.schema} is not of type 'object'."),
    _strict_row("accepts nothing next to a `$ref`", neighbours(),
            Citation("https://github.com/camel-ai/camel/issues/3001"),
            "$ref cannot have keywords {{{beside}}}.", fix="inline"),
    _strict_row(f"accepts {_DEEPEST} levels of nesting",
            lambda node: node.depth == _DEEPEST + 1,  # deeper nodes need no finding
            Citation("https://github.com/tidyverse/ellmer/issues/671", inferred=True),
            f"{{node.depth}} levels of nesting exceeds limit of {_DEEPEST}."),
    _row(f"does not accept an enum of more than {_LARGE_ENUM} values with more than "
         f"{_MOST_ENUM_LETTERS:,} letters in all", _large_enum, _ASSUMED,
         "an enum has {count} values with {letters} characters, more than the limit of "
         f"{_MOST_ENUM_LETTERS} for more than {_LARGE_ENUM} values.", severity="strict"),
    lookaround(Citation("https://github.com/vercel/ai/pull/21037"), strict=True),
    _row(f"accepts {_MOST_PROPERTIES:,} properties, not {{count:,}}",
         _total_limit(lambda node: len(node.properties), _MOST_PROPERTIES), _ASSUMED,
         f"the schema has {{count}} object properties, more than the limit of {_MOST_PROPERTIES}.",
         severity="strict"),
    _row(f"accepts {_MOST_LETTERS:,} letters in names and values, not {{count:,}}",
         _total_limit(_letters, _MOST_LETTERS), _ASSUMED,
         "the schema has {count} characters in names and values, more than the limit of "
         f"{_MOST_LETTERS}.", severity="strict"),
    _row(f"accepts {_MOST_ENUM:,} enum values, not {{count:,}}",
         _total_limit(lambda node: len(node.enum), _MOST_ENUM),
         Citation("https://community.openai.com/t/500-enums-limitation-in-structured-output/974416"),
         f"Expected at most {_MOST_ENUM} enum values in total within a single schema when using "
         "structured outputs, but received {count}. Consider reducing the number of enums, or use "
         "'strict: false' to opt out of structured outputs.", severity="strict"),
)
# fmt: on


def needs_object() -> Limit[SentTool]:
    return Limit(
        "needs an object for parameters",
        lambda tool: not isinstance(tool.schema, Mapping),
        _GUIDE,
        pointer="/parameters",
    )


def tool_count_limit(*, inferred: bool) -> Limit[Any]:
    return too_many_tools(
        _MOST_TOOLS,
        Citation(_TOO_MANY, inferred),
        "Invalid '{list}': array too long. Expected an array with maximum length "
        f"{_MOST_TOOLS}, but got an array with length {{count}} instead.",
        param="{list}",
        code="array_above_max_length",
    )


def names_of(most: int) -> str:
    return f"accepts names of 1 to {most} letters, digits, underscores and hyphens, not {{shown!r}}"


def name_limits(most: int, source: Citation) -> tuple[Limit[SentTool], ...]:
    def is_long(tool: SentTool) -> Match:
        return len(tool.name) > most and {"shown": tool.name[:80], "length": len(tool.name)}

    def is_odd(tool: SentTool) -> Match:
        return not _NAME.fullmatch(tool.name) and {"shown": tool.name[:80]}

    # fmt: off
    return (
        Limit(names_of(most), is_long, source,
              "Invalid '{where}': string too long. Expected a string with maximum length "
              f"{most}, but got a string with length {{length}} instead.",
              pointer="/name", param="{where}", code="string_above_max_length",
              subject="names"),
        Limit(names_of(most), is_odd, source,
              "Invalid '{where}': string does not match pattern. Expected a string that matches "
              "the pattern '^[a-zA-Z0-9_-]+$'.",
              pointer="/name", param="{where}", code="invalid_value", subject="names"),
    )
    # fmt: on


# Values of a refusal from the request.


def check_tools(
    limits: LimitTable,
    tools: Sequence[Tool],
    places: Sequence[str],
    model: str,
    member: str = "tools",
) -> None:
    """Raises the first refusal of `tools`, each with its place in the request."""
    sent_tools = []
    for tool, place in zip(tools, places, strict=True):
        words = {
            "list": member,
            "where": f"{place}.name",
            "what": f"Invalid schema for function '{tool.name}'",
            "param": f"{place}.parameters",
            "code": "invalid_function_parameters",
            "outer": "tools",
        }
        sent_tools.append(SentTool.from_tool(tool, words=words))
    limits.check(sent_tools, model)


def check_format(
    limits: LimitTable, name: str, schema: Any, strict: bool, param: str, code: str = ""
) -> None:
    """Raises the first refusal of the schema of a structured answer."""
    what = f"Invalid schema for response_format '{name}'"
    words = {"what": what, "param": param, "outer": param, "code": code}
    limits.check_schema(SentTool(name, "", schema, strict, words=words))


# Error messages on the shape of a body.


class OpenAIPhrases(Phrases):
    """The messages of both protocols; `reference` is the source for a protocol's. A type without a
    name is refused like a missing value."""

    def __init__(self, reference: Citation) -> None:
        self.reference = reference

    def refuse_type(self, value: Any, where: str, shape: Shape) -> BadRequest:
        if not shape.name:
            return (
                self.refuse_variant({}, where, shape)
                if shape.variants
                else self.refuse_missing(where, shape)
            )
        kind = "null" if value is None else _JSON_TYPES.get(type(value), "a number")
        sentence = f"Invalid type for '{where}': expected {shape.name}, but got {kind} instead."
        return self.reference.refusal(sentence, param=where, code="invalid_type")

    def refuse_missing(self, where: str, shape: Shape) -> BadRequest:
        sentence, code = f"Missing required parameter: '{where}'.", "missing_required_parameter"
        return self.reference.refusal(sentence, param=where, code=code)

    def refuse_variant(self, value: Mapping[str, Any], where: str, shape: Shape) -> BadRequest:
        kind, tag = value.get(shape.tag), f"{where}.{shape.tag}"
        if kind is None and shape.tag in shape.required:
            return self.refuse_missing(tag, shape)
        return self.refuse_value(kind, tag, *shape.variants)

    def join(self, where: str, step: str | int) -> str:
        return f"{where}[{step}]" if isinstance(step, int) else super().join(where, step)

    def refuse_value(self, value: Any, where: str, *known: str) -> BadRequest:
        """An unknown value."""
        words = [f"'{word}'" for word in known]
        last = " and " if len(words) == 2 else ", and "
        listing = last.join(filter(None, (", ".join(words[:-1]), words[-1])))
        sentence = f"Invalid value: '{value}'. Supported values are: {listing}."
        return self.reference.refusal(sentence, param=where, code="invalid_value")

    def one_of(self, *known: str) -> Rule:
        return lambda value, where: (
            None if value in known else self.refuse_value(value, where, *known)
        )

    def not_empty(self, words: str, code: str = "invalid_value") -> Rule:
        """A rule for lists; `words` say what was expected."""

        def rule(value: Any, where: str) -> BadRequest | None:
            sentence = f"Invalid '{where}': empty array. {words}"
            return None if value else self.reference.refusal(sentence, param=where, code=code)

        return rule

    def bounds(
        self, least: float, most: float = inf, word: str = "integer", below: Citation | None = None
    ) -> Rule:
        """A rule for numbers; `below` is the source of the message for smaller values."""

        def rule(value: Any, where: str) -> BadRequest | None:
            sentence, source = f"Invalid '{where}': {word} ", self.reference
            if value < least:
                sentence += f"below minimum value. Expected a value >= {least}"
                code, source = f"{word}_below_min_value", below or source
            elif value > most:
                sentence += f"above maximum value. Expected a value <= {most}"
                code = f"{word}_above_max_value"
            else:
                return None
            return source.refusal(f"{sentence}, but got {value} instead.", param=where, code=code)

        return rule


def max_length(most: int, source: Citation) -> Rule:
    """A rule for texts: the maximum length in characters."""

    def rule(value: Any, where: str) -> BadRequest | None:
        if len(value) <= most:
            return None
        return source.refusal(
            f"Invalid '{where}': string too long. Expected a string with maximum length {most}, "
            f"but got a string with length {len(value)} instead.",
            param=where,
            code="string_above_max_length",
        )

    return rule


def tool_name(limits: LimitTable) -> Rule:
    """A rule for the name of a tool, or a similar name."""

    def rule(value: Any, where: str) -> None:
        limits.check_tool(SentTool(value, "", {}, words={"where": where}))

    return rule


def object_with(**members: Shape) -> Shape:
    """An object with all of these members required."""
    return Shape(dict, members=members, required=tuple(members))


def typed_object(**variants: Shape) -> Shape:
    """An object with a required type, one of these."""
    return Shape(dict, variants=variants, required=("type",), closed=True)


def _long_description(tool: SentTool) -> Match:
    return len(tool.description) > _LONG_DESCRIPTION and {"length": len(tool.description)}


# fmt: off
LIMITS = LimitTable(
    "openai_chat",
    "OpenAI",
    of_tool=(
        LACKS_EAGER,
        lacks_freeform(
            "A server without the quirk custom_tools has no free-form tools: a tool with one "
            "text argument is sent"
        ,
                       "docs/wire.md, section 2; the quirk custom_tools of a profile"),
        NO_TYPE,
        *name_limits(LONGEST_NAME,
                     Citation("https://github.com/home-assistant/core/issues/121325")),
        Limit(f"Older models of OpenAI refuse a description of more than {_LONG_DESCRIPTION:,} "
              "characters; this one has {length:,}", _long_description,
              Citation("https://github.com/langchain-ai/open_deep_research/issues/80"),
              severity="weak", pointer="/description", family="gpt-4o, o1, o3-mini"),
        needs_object(),
    ),
    of_schema=(*SCHEMA_LIMITS, newer_lookaround(inferred=True)),
    of_request=(equal_names(TWICE), tool_count_limit(inferred=False)),
)
# fmt: on
