"""Constructs of tools, of which lint, the preflight and the strict ends must say the same: what
docs/constructs.md has of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from playground.core.tools import FREEFORM, Tool

Json = dict[str, Any]

S: Json = {"type": "string"}
I: Json = {"type": "integer"}  # noqa: E741
NULL: Json = {"type": "null"}

ZOD_EMAIL = (
    r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@"
    r"([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
)
PYDANTIC_DECIMAL = r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"

OPTIONAL = {"type": "object", "properties": {"x": S}, "additionalProperties": False}


@dataclass(frozen=True)
class Construct:
    about: str
    tool: Tool


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


def has(about: str, schema: Any) -> Construct:
    """A tool with one parameter `x` of this schema."""
    return Construct(about, tool(closed(x=schema)))


def construct_of(about: str, schema: Any) -> Construct:
    return Construct(about, tool(schema))


def name_construct(name: str) -> Construct:
    shown_name = name if len(name) < 30 else f"{len(name)} letters"
    return Construct(f"name {shown_name}", tool(closed(), name))


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


TREE = {**closed(child={"anyOf": [{"$ref": "#/$defs/tree"}, NULL]})}

CONSTRUCTS: tuple[Construct, ...] = (
    # Types.
    has("string", S),
    has("integer", I),
    has("number", {"type": "number"}),
    has("boolean", {"type": "boolean"}),
    has("null", NULL),
    has("list of types with null", {"type": ["string", "null"]}),
    has("list of types", {"type": ["string", "integer"]}),
    has("no type", {"description": "Anything."}),
    has("true for a schema", True),
    has("false for a schema", False),
    # Values.
    has("enum of texts", {"type": "string", "enum": ["a", "b"]}),
    has("enum of numbers", {"type": "integer", "enum": [1, 2]}),
    has("enum without a type", {"enum": ["a", "b"]}),
    has("enum with an object", {"type": "object", "enum": [{}], **closed()}),
    has("enum of 1,001 values", {"type": "integer", "enum": list(range(1001))}),
    has("enum of 251 long texts", long_enum(251, 60)),
    has("enum of 250 long texts", long_enum(250, 70)),
    has("enum of 251 short texts", long_enum(251, 59)),
    has("const", {"type": "string", "const": "a"}),
    has("const without a type", {"const": "a"}),
    has("default", {"type": "string", "default": "a"}),
    has("examples", {"type": "string", "examples": ["a"]}),
    # Texts.
    has("minLength", {"type": "string", "minLength": 1}),
    has("maxLength", {"type": "string", "maxLength": 9}),
    has("pattern", {"type": "string", "pattern": "^[a-z]+$"}),
    has("pattern with lookahead", {"type": "string", "pattern": "^(?=a)b"}),
    has("pattern with lookbehind", {"type": "string", "pattern": "a(?<!b)c"}),
    has("Zod's email", {"type": "string", "format": "email", "pattern": ZOD_EMAIL}),
    has("pydantic's Decimal", {"type": "string", "pattern": PYDANTIC_DECIMAL}),
    has("pattern of letters around a group", {"type": "string", "pattern": "^(?:a|b)+$"}),
    has("pattern with (?= in a class", {"type": "string", "pattern": r"^[(?=!]\(\?=$"}),
    has("pattern with \\p", {"type": "string", "pattern": r"^[^\p{Cc}]{1,200}$"}),
    has("pattern with a named group", {"type": "string", "pattern": "^(?<year>[0-9]{4})$"}),
    has("format date-time", {"type": "string", "format": "date-time"}),
    has("format uri", {"type": "string", "format": "uri"}),
    has("format unknown", {"type": "string", "format": "color"}),
    # Numbers.
    has("minimum", {"type": "integer", "minimum": 1}),
    has("maximum", {"type": "number", "maximum": 9}),
    has("exclusiveMinimum", {"type": "number", "exclusiveMinimum": 0}),
    has("exclusiveMinimum: true", {"type": "number", "exclusiveMinimum": True}),
    has("exclusiveMaximum", {"type": "number", "exclusiveMaximum": 9}),
    has("multipleOf", {"type": "integer", "multipleOf": 5}),
    has("format int64", {"type": "integer", "format": "int64"}),
    has("format uint8", {"type": "integer", "format": "uint8"}),
    has("format double", {"type": "number", "format": "double"}),
    # Lists.
    has("array", {"type": "array", "items": S}),
    has("array without items", {"type": "array"}),
    has("list of types with a bare array", {"type": ["string", "array"]}),
    has("array of any values", {"type": "array", "items": {}}),
    has("items: true", {"type": "array", "items": True}),
    has("items as a list", {"type": "array", "items": [S, I]}),
    has("prefixItems", {"type": "array", "prefixItems": [S, I]}),
    has("prefixItems and items", {"type": "array", "prefixItems": [S], "items": I}),
    has("minItems 1", {"type": "array", "items": S, "minItems": 1}),
    has("minItems 2", {"type": "array", "items": S, "minItems": 2}),
    has("maxItems", {"type": "array", "items": S, "maxItems": 9}),
    has("maxItems 961", {"type": "array", "items": S, "maxItems": 961}),
    has("lists of 30 in lists of 31", grid(31, 30)),
    has("a board of 9 by 9", grid(9, 9)),
    has("uniqueItems", {"type": "array", "items": S, "uniqueItems": True}),
    has("contains", {"type": "array", "items": S, "contains": S}),
    has("unevaluatedItems", {"type": "array", "items": S, "unevaluatedItems": False}),
    # Objects.
    construct_of("no parameters", closed()),
    construct_of("no properties", {"type": "object"}),
    construct_of("no additionalProperties", {"type": "object", "properties": {}}),
    construct_of("additionalProperties: true", {**closed(x=S), "additionalProperties": True}),
    construct_of("additionalProperties: schema", {**closed(x=S), "additionalProperties": S}),
    has("a map", {"type": "object", "additionalProperties": S}),
    construct_of("optional parameter", OPTIONAL),
    has("nested object", closed(y=S)),
    has("nested open object", {"type": "object", "properties": {"y": S}}),
    has("nullable object", {**closed(y=S), "type": ["object", "null"]}),
    has("patternProperties", {**closed(), "patternProperties": {"^a": S}}),
    has("propertyNames", {**closed(), "propertyNames": {"maxLength": 3}}),
    has("minProperties", {**closed(), "minProperties": 1}),
    has("maxProperties", {**closed(), "maxProperties": 1}),
    has("dependentRequired", {**closed(y=S), "dependentRequired": {"y": []}}),
    has("dependentSchemas", {**closed(y=S), "dependentSchemas": {"y": closed(y=S)}}),
    has("unevaluatedProperties", {**closed(), "unevaluatedProperties": False}),
    construct_of("property name with $", closed(**{"$top": S})),
    construct_of("property name with a space", closed(**{"a b": S})),
    construct_of("property name of 65 letters", closed(**{"p" * 65: S})),
    construct_of("property named minimum", closed(minimum=S, oneOf=I)),
    # Choices.
    has("anyOf", {"anyOf": [S, I]}),
    has("anyOf with null", {"anyOf": [S, NULL]}),
    has("anyOf with a description", {"anyOf": [S, I], "description": "One."}),
    has("anyOf with true", {"anyOf": [S, True]}),
    has("oneOf", {"oneOf": [S, I]}),
    has("allOf", {"allOf": [S]}),
    has("not", {"type": "string", "not": {"enum": ["a"]}}),
    has(
        "if and then",
        {"type": "string", "if": {"enum": ["a"]}, "then": {"type": "string"}},
    ),
    construct_of("anyOf at the root", {**closed(x=S), "anyOf": [{"required": ["x"]}]}),
    construct_of("oneOf at the root", {**closed(x=S), "oneOf": [{"required": ["x"]}]}),
    construct_of("allOf at the root", {**closed(x=S), "allOf": [{"required": ["x"]}]}),
    construct_of("not at the root", {**closed(x=S), "not": {"required": ["y"]}}),
    construct_of("enum at the root", {**closed(), "enum": [{}]}),
    # References.
    construct_of("$ref", defined({"$ref": "#/$defs/s"}, s=S)),
    construct_of(
        "$ref with a description", defined({"$ref": "#/$defs/s", "description": "d"}, s=S)
    ),
    construct_of("$ref with a minLength", defined({"$ref": "#/$defs/s", "minLength": 1}, s=S)),
    construct_of("allOf with a $ref", defined({"allOf": [{"$ref": "#/$defs/s"}]}, s=S)),
    construct_of("recursion", defined({"$ref": "#/$defs/tree"}, tree=TREE)),
    construct_of("recursion to the root", closed(x={"anyOf": [{"$ref": "#"}, NULL]})),
    construct_of("an open definition", defined({"$ref": "#/$defs/o"}, o={"type": "object"})),
    construct_of("definitions", {**closed(x={"$ref": "#/definitions/s"}), "definitions": {"s": S}}),
    # Annotations.
    construct_of(
        "$schema",
        {**closed(x=S), "$schema": "https://json-schema.org/draft/2020-12/schema"},
    ),
    construct_of(
        "$schema of draft 7",
        {**closed(x=S), "$schema": "http://json-schema.org/draft-07/schema#"},
    ),
    has("title and description", {"type": "string", "title": "X", "description": "An x."}),
    has("custom keyword", {"type": "string", "x-order": 1}),
    # Size.
    construct_of("ten levels", nested(10)),
    construct_of("eleven levels", nested(11)),
    construct_of(
        "24 optional parameters",
        {**closed(**{f"p{n}": S for n in range(24)}), "required": []},
    ),
    construct_of(
        "23 optional parameters",
        {**closed(**{f"p{n}": S for n in range(23)}), "required": []},
    ),
    construct_of("16 unions", closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(16)})),
    construct_of("15 unions", closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(15)})),
    construct_of("names of 120,001 letters", closed(**{"p" * 60_000: S, "q" * 60_001: S})),
    construct_of(
        "definitions of 120,001 letters",
        {**closed(x=S), "$defs": {"d" * 120_000: S}},
    ),
    has("const of 120,001 letters", {"type": "string", "const": "c" * 120_001}),
    construct_of("5001 properties", closed(**{f"p{n}": I for n in range(5001)})),
    # Names.
    name_construct("get_weather"),
    name_construct("get-weather"),
    name_construct("1st"),
    name_construct("-x"),
    name_construct("a.b"),
    name_construct("n" * 64),
    name_construct("n" * 65),
    name_construct("n" * 128),
    name_construct("n" * 129),
    # Kinds of tools.
    Construct("free-form tool", tool(FREEFORM, format={"type": "text"})),
    Construct("eager tool", tool(closed(), eager=True)),
)


def strict(construct: Construct) -> Tool:
    return replace(construct.tool, strict=True)
