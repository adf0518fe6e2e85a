"""Constructs of tools and what each provider makes of them: the table that lint and the strict ends
must both agree with.

A verdict has five letters: Anthropic, OpenAI Chat, OpenAI Responses, Gemini, Ollama. "+" is taken,
"s" is taken but not by a strict tool, "x" is refused, "~" is taken and not obeyed in full. Where a
verdict is known from stands beside each finding of lint; docs/constructs.md holds both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from app.core.tools import FREEFORM, Tool

Json = dict[str, Any]

LETTERS = ("anthropic", "openai_chat", "openai_responses", "gemini", "ollama")


@dataclass(frozen=True)
class Construct:
    about: str
    tool: Tool
    verdict: str


def closed(**properties: Any) -> Json:
    """An object as strict mode wants it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def tool(schema: Any, name: str = "look", **changes: Any) -> Tool:
    return Tool(name, "Looks something up.", schema, **changes)


def has(about: str, schema: Any, verdict: str) -> Construct:
    """A tool with one parameter `x` of this schema."""
    return Construct(about, tool(closed(x=schema)), verdict)


def whole(about: str, schema: Any, verdict: str) -> Construct:
    return Construct(about, tool(schema), verdict)


def named(name: str, verdict: str) -> Construct:
    shown = name if len(name) < 30 else f"{len(name)} letters"
    return Construct(f"name {shown}", tool(closed(), name), verdict)


S: Json = {"type": "string"}
I: Json = {"type": "integer"}  # noqa: E741
NULL: Json = {"type": "null"}


def nested(levels: int) -> Json:
    schema: Json = closed(x=S)
    for _ in range(levels - 2):
        schema = closed(x=schema)
    return schema


def long_enum(values: int, letters: int) -> Json:
    return {"type": "string", "enum": [f"{n:0{letters}}" for n in range(values)]}


def grid(rows: int, columns: int) -> Json:
    row = {"type": "array", "items": I, "maxItems": columns}
    return {"type": "array", "items": row, "maxItems": rows}


def defined(x: Any, **definitions: Any) -> Json:
    return {**closed(x=x), "$defs": definitions}


ZOD_EMAIL = (
    r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@"
    r"([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
)
PYDANTIC_DECIMAL = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"

TREE = {**closed(child={"anyOf": [{"$ref": "#/$defs/tree"}, NULL]})}
OPTIONAL = {"type": "object", "properties": {"x": S}, "additionalProperties": False}

CONSTRUCTS: tuple[Construct, ...] = (
    # Types.
    has("string", S, "+++++"),
    has("integer", I, "+++++"),
    has("number", {"type": "number"}, "+++++"),
    has("boolean", {"type": "boolean"}, "+++++"),
    has("null", NULL, "+++++"),
    has("list of types with null", {"type": ["string", "null"]}, "+++++"),
    has("list of types", {"type": ["string", "integer"]}, "+++++"),
    has("no type at all", {"description": "Anything."}, "sss++"),
    has("true for a schema", True, "sss+x"),
    has("false for a schema", False, "sss+x"),
    # Values.
    has("enum of texts", {"type": "string", "enum": ["a", "b"]}, "+++++"),
    has("enum of numbers", {"type": "integer", "enum": [1, 2]}, "+++++"),
    has("enum without a type", {"enum": ["a", "b"]}, "+ss++"),
    has("enum with an object", {"type": "object", "enum": [{}], **closed()}, "s++++"),
    has("enum of a thousand and one", {"type": "integer", "enum": list(range(1001))}, "+ss++"),
    has("enum of 251 long texts", long_enum(251, 60), "+ss++"),
    has("enum of 250 long texts", long_enum(250, 70), "+++++"),
    has("enum of 251 short texts", long_enum(251, 59), "+++++"),
    has("const", {"type": "string", "const": "a"}, "+++~~"),
    has("const without a type", {"const": "a"}, "+ss~~"),
    has("default", {"type": "string", "default": "a"}, "+ss+~"),
    has("examples", {"type": "string", "examples": ["a"]}, "++++~"),
    # Texts.
    has("minLength", {"type": "string", "minLength": 1}, "sss~~"),
    has("maxLength", {"type": "string", "maxLength": 9}, "sss~~"),
    has("pattern", {"type": "string", "pattern": "^[a-z]+$"}, "+++~~"),
    has("pattern with lookahead", {"type": "string", "pattern": "^(?=a)b"}, "sxx~~"),
    has("pattern with lookbehind", {"type": "string", "pattern": "a(?<!b)c"}, "sxx~~"),
    has("Zod's email", {"type": "string", "format": "email", "pattern": ZOD_EMAIL}, "sxx~~"),
    has("pydantic's Decimal", {"type": "string", "pattern": PYDANTIC_DECIMAL}, "sxx~~"),
    has("pattern of letters around a group", {"type": "string", "pattern": "^(?:a|b)+$"}, "+++~~"),
    has("pattern with (?= in a class", {"type": "string", "pattern": r"^[(?=!]\(\?=$"}, "s++~~"),
    has("pattern with \\p", {"type": "string", "pattern": r"^[^\p{Cc}]{1,200}$"}, "+xx~~"),
    has(
        "pattern with a named group", {"type": "string", "pattern": "^(?<year>[0-9]{4})$"}, "+xx~~"
    ),
    has("format date-time", {"type": "string", "format": "date-time"}, "++++~"),
    has("format uri", {"type": "string", "format": "uri"}, "+ss+~"),
    has("format unknown", {"type": "string", "format": "color"}, "sss+~"),
    # Numbers.
    has("minimum", {"type": "integer", "minimum": 1}, "s+++~"),
    has("maximum", {"type": "number", "maximum": 9}, "s+++~"),
    has("exclusiveMinimum", {"type": "number", "exclusiveMinimum": 0}, "s++~~"),
    has("exclusiveMinimum: true", {"type": "number", "exclusiveMinimum": True}, "xxx~~"),
    has("exclusiveMaximum", {"type": "number", "exclusiveMaximum": 9}, "s++~~"),
    has("multipleOf", {"type": "integer", "multipleOf": 5}, "s++~~"),
    # Lists.
    has("array", {"type": "array", "items": S}, "+++++"),
    has("array without items", {"type": "array"}, "+xx++"),
    has("list of types with a bare array", {"type": ["string", "array"]}, "+xx++"),
    has("array of anything", {"type": "array", "items": {}}, "sss++"),
    has("items: true", {"type": "array", "items": True}, "sss++"),
    has("items as a list", {"type": "array", "items": [S, I]}, "xxx++"),
    has("prefixItems", {"type": "array", "prefixItems": [S, I]}, "sxx+~"),
    has("prefixItems and items", {"type": "array", "prefixItems": [S], "items": I}, "sss+~"),
    has("minItems 1", {"type": "array", "items": S, "minItems": 1}, "++++~"),
    has("minItems 2", {"type": "array", "items": S, "minItems": 2}, "s+++~"),
    has("maxItems", {"type": "array", "items": S, "maxItems": 9}, "s+++~"),
    has("maxItems 961", {"type": "array", "items": S, "maxItems": 961}, "s++x~"),
    has("lists of 30 in lists of 31", grid(31, 30), "s++x~"),
    has("a board of 9 by 9", grid(9, 9), "s+++~"),
    has("uniqueItems", {"type": "array", "items": S, "uniqueItems": True}, "sss~~"),
    has("contains", {"type": "array", "items": S, "contains": S}, "sss~~"),
    has("unevaluatedItems", {"type": "array", "items": S, "unevaluatedItems": False}, "sss~~"),
    # Objects.
    whole("no parameters", closed(), "+++++"),
    whole("no properties", {"type": "object"}, "sxx++"),
    whole("no additionalProperties", {"type": "object", "properties": {}}, "sss++"),
    whole("additionalProperties: true", {**closed(x=S), "additionalProperties": True}, "sss+~"),
    whole("additionalProperties: schema", {**closed(x=S), "additionalProperties": S}, "sss+~"),
    has("a map", {"type": "object", "additionalProperties": S}, "sss+~"),
    whole("optional parameter", OPTIONAL, "+ss++"),
    has("object within", closed(y=S), "+++++"),
    has("open object within", {"type": "object", "properties": {"y": S}}, "sss++"),
    has("nullable object", {**closed(y=S), "type": ["object", "null"]}, "+++++"),
    has("patternProperties", {**closed(), "patternProperties": {"^a": S}}, "sss~~"),
    has("propertyNames", {**closed(), "propertyNames": {"maxLength": 3}}, "sss~~"),
    has("minProperties", {**closed(), "minProperties": 1}, "sss~~"),
    has("maxProperties", {**closed(), "maxProperties": 1}, "sss~~"),
    has("dependentRequired", {**closed(y=S), "dependentRequired": {"y": []}}, "sss~~"),
    has("dependentSchemas", {**closed(y=S), "dependentSchemas": {"y": closed(y=S)}}, "sss~~"),
    has("unevaluatedProperties", {**closed(), "unevaluatedProperties": False}, "sss~~"),
    whole("a property's name with $", closed(**{"$top": S}), "x++++"),
    whole("a property's name with a space", closed(**{"a b": S}), "x++++"),
    whole("a property's name of 65 letters", closed(**{"p" * 65: S}), "x++++"),
    whole("a property that is named minimum", closed(minimum=S, oneOf=I), "+++++"),
    # Choices.
    has("anyOf", {"anyOf": [S, I]}, "+++++"),
    has("anyOf with null", {"anyOf": [S, NULL]}, "+++++"),
    has("anyOf with a description", {"anyOf": [S, I], "description": "One."}, "+++++"),
    has("anyOf with true", {"anyOf": [S, True]}, "sss+x"),
    has("oneOf", {"oneOf": [S, I]}, "sss~~"),
    has("allOf", {"allOf": [S]}, "+ss~~"),
    has("not", {"type": "string", "not": {"enum": ["a"]}}, "sss~~"),
    has(
        "if and then",
        {"type": "string", "if": {"enum": ["a"]}, "then": {"type": "string"}},
        "sss~~",
    ),
    whole("anyOf at the root", {**closed(x=S), "anyOf": [{"required": ["x"]}]}, "xxx+~"),
    whole("oneOf at the root", {**closed(x=S), "oneOf": [{"required": ["x"]}]}, "xxx~~"),
    whole("allOf at the root", {**closed(x=S), "allOf": [{"required": ["x"]}]}, "xxx~~"),
    whole("not at the root", {**closed(x=S), "not": {"required": ["y"]}}, "sxx~~"),
    whole("enum at the root", {**closed(), "enum": [{}]}, "sxx+~"),
    # References.
    whole("$ref", defined({"$ref": "#/$defs/s"}, s=S), "++++~"),
    whole(
        "$ref with a description", defined({"$ref": "#/$defs/s", "description": "d"}, s=S), "+ss+~"
    ),
    whole("$ref with a minLength", defined({"$ref": "#/$defs/s", "minLength": 1}, s=S), "sssx~"),
    whole("allOf with a $ref", defined({"allOf": [{"$ref": "#/$defs/s"}]}, s=S), "sss~~"),
    whole("recursion", defined({"$ref": "#/$defs/tree"}, tree=TREE), "s++~~"),
    whole("recursion to the root", closed(x={"anyOf": [{"$ref": "#"}, NULL]}), "s++~~"),
    whole("an open definition", defined({"$ref": "#/$defs/o"}, o={"type": "object"}), "sss+~"),
    whole(
        "definitions", {**closed(x={"$ref": "#/definitions/s"}), "definitions": {"s": S}}, "++++~"
    ),
    # Annotations.
    whole(
        "$schema",
        {**closed(x=S), "$schema": "https://json-schema.org/draft/2020-12/schema"},
        "+++++",
    ),
    whole(
        "$schema of draft 7",
        {**closed(x=S), "$schema": "http://json-schema.org/draft-07/schema#"},
        "+++++",
    ),
    has("title and description", {"type": "string", "title": "X", "description": "An x."}, "+++++"),
    has("a member of one's own", {"type": "string", "x-order": 1}, "++++~"),
    # Size.
    whole("ten levels", nested(10), "+++++"),
    whole("eleven levels", nested(11), "+ss++"),
    whole(
        "24 optional parameters",
        {**closed(**{f"p{n}": S for n in range(24)}), "required": []},
        "sss++",
    ),
    whole(
        "23 optional parameters",
        {**closed(**{f"p{n}": S for n in range(23)}), "required": []},
        "+ss++",
    ),
    whole(
        "16 unions", closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(16)}), "s++++"
    ),
    whole(
        "15 unions", closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(15)}), "+++++"
    ),
    whole("names of 120,001 letters", closed(**{"p" * 60_000: S, "q" * 60_001: S}), "xss++"),
    whole(
        "definitions of 120,001 letters",
        {**closed(x=S), "$defs": {"d" * 120_000: S}},
        "+ss++",
    ),
    has("const of 120,001 letters", {"type": "string", "const": "c" * 120_001}, "+ss~~"),
    whole("5001 properties", closed(**{f"p{n}": I for n in range(5001)}), "+ss++"),
    # Names.
    named("get_weather", "+++++"),
    named("get-weather", "+++++"),
    named("1st", "+++x+"),
    named("-x", "+++x+"),
    named("a.b", "xxx++"),
    named("n" * 64, "+++++"),
    named("n" * 65, "+x+++"),
    named("n" * 128, "+x+++"),
    named("n" * 129, "xxxx+"),
    # Kinds of tools.
    Construct("free-form tool", tool(FREEFORM, format={"type": "text"}), "~~+~~"),
    Construct("eager tool", tool(closed(), eager=True), "+~~~~"),
)


def strict(one: Construct) -> Tool:
    return replace(one.tool, strict=True)
