"""Parses the tools and the tool choice of a Gemini request and refuses what Gemini refuses.

https://ai.google.dev/api/caching#FunctionDeclaration
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.core import provider_limits as limits
from app.core.tools import Tool, ToolChoice
from app.protocols.gemini import lint
from app.protocols.server import BadRequest, compact, words_of
from app.schema.schema_checks import schemas_with_depth

# Members of Google's messages: camelCase or snake_case, and nothing unknown among them. The words
# of refusal are those of Google's JSON front end, which reads every request before a model sees it.
# https://protobuf.dev/programming-guides/json/


UNKNOWN = "https://github.com/zed-industries/zed/issues/44875"
TYPES = "https://protobuf.dev/programming-guides/json/"

_UPPER = re.compile(r"[A-Z]")
_AFTER_LINE = re.compile(r"_([a-z])")


def refusal(
    sentence: str, source: str, *, inferred: bool = False, field: str | None = None
) -> BadRequest:
    """400 INVALID_ARGUMENT. `field` is the place in the request that a detail of it names."""
    return BadRequest(
        sentence, kind="INVALID_ARGUMENT", source=source, inferred=inferred, param=field
    )


def invalid(where: str, sentence: str, source: str, *, inferred: bool = False) -> BadRequest:
    """What the checks behind the front end say: one line a violation."""
    return refusal(f"* GenerateContentRequest.{where}: {sentence}\n", source, inferred=inferred)


def fields(value: Any, known: Collection[str], where: str) -> dict[str, Any]:
    """The members of the message at `where` ("" is the request) by their camelCase names.

    Null is as good as absent.
    """
    if not isinstance(value, dict):
        raise wrong_type(value, where, "a message")
    members = {}
    for key, item in value.items():
        name = _AFTER_LINE.sub(lambda letter: letter[1].upper(), key)
        if name not in known:
            raise unknown(key, where)
        if item is not None:
            members[name] = item
    return members


def unknown(name: str, where: str) -> BadRequest:
    at = f" at '{where}'" if where else ""
    return refusal(
        f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.',
        UNKNOWN,
        field=where,
    )


def wrong_type(value: Any, where: str, kind: str) -> BadRequest:
    text = compact(value)[:80]
    return refusal(f"Invalid value at '{where}' ({kind}), {text}", TYPES, field=where)


def member_of_type(data: Mapping[str, Any], name: str, kind: type, where: str) -> Any:
    """The member `name`, which is absent (None) or of this kind."""
    value = data.get(name)
    kinds = {str: "TYPE_STRING", bool: "TYPE_BOOL", int: "TYPE_INT32", list: "a list"}
    number = kind in (int, float) and isinstance(value, bool)
    if value is not None and (number or not isinstance(value, kind)):
        raise wrong_type(value, inside(where, name), kinds.get(kind, STRUCT))
    return value


STRUCT = "type.googleapis.com/google.protobuf.Struct"


def inside(where: str, name: str) -> str:
    """The path of a member, as Google writes it: in snake_case."""
    snake = _UPPER.sub(lambda letter: f"_{letter[0].lower()}", name)
    return f"{where}.{snake}" if where else snake


MANY = "https://github.com/google-gemini/gemini-cli/issues/19083"

_TOOL = words_of(
    """functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext computerUse
    fileSearch googleMaps mcpServers retrieval enterpriseWebSearch parallelAiSearch"""
)
_OLDER = re.compile(r"(?:models/)?gemini-(?:1|2\.0|pro)")
"""How the names of models begin that take no `parameters` without properties. 2.5 does, as a
recorded answer to llm-gemini shows."""
_LONG = words_of("minItems maxItems minProperties maxProperties minLength maxLength")
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1beta.Type"
_MODES = words_of("MODE_UNSPECIFIED AUTO ANY NONE VALIDATED")


def tools_of(value: Any, model: str = "") -> tuple[Tool, ...]:
    """The functions that are declared, as `model` takes them; what Google runs itself is its own
    affair."""
    tools: list[Tool] = []
    entries = member_of_type({"tools": value}, "tools", list, "") or []
    for place, entry in enumerate(entries):
        where = f"tools[{place}]"
        group = fields(entry, _TOOL, where)
        declarations = member_of_type(group, "functionDeclarations", list, where) or []
        if len(declarations) > limits.GEMINI_MOST_TOOLS:
            most = limits.GEMINI_MOST_TOOLS
            sentence = f"[FIELD_INVALID] At most {most} function declarations can be specified."
            raise invalid(f"{where}.function_declarations", sentence, MANY)
        for number, declaration in enumerate(declarations):
            tools.append(_tool(declaration, f"{where}.function_declarations[{number}]", model))
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise refusal(
                f"Duplicate function declaration found: {name}",
                lint.REFERENCE,
                inferred=True,
            )
    _check_states(tools)
    return tuple(tools)


def _check_states(tools: Sequence[Tool]) -> None:
    """Refuses schemas that are too complex to serve, as far as a measure of it is known."""
    large = [lint.too_many_items(tool.parameters) for tool in tools]
    first = next((excess for excess in large if excess is not None), None)
    total = sum(limits.items_in_all(tool.parameters) for tool in tools)
    if first is not None or total > limits.GEMINI_MOST_ITEMS:
        raise refusal(
            "The specified schema produces a constraint that has too many states for serving. "
            "Typical causes of this error are schemas with lots of text (for example, very long "
            "property or enum names), schemas with long array length limits (especially when "
            "nested), or schemas using complex value matchers (for example, integers or numbers "
            "with minimum/maximum bounds or strings with complex formats like date-time)",
            lint.STATES,
            inferred=first is None or first[1],
        )


def _tool(entry: Any, where: str, model: str) -> Tool:
    declaration = fields(entry, lint.DECLARATION, where)
    name = member_of_type(declaration, "name", str, where) or ""
    if not limits.GEMINI_NAME.fullmatch(name):
        raise invalid(
            f"{where}.name",
            "Invalid function name. Must start with a letter or an underscore. Must be alphameric "
            "(a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
            "length of 128.",
            lint.NAMES,
        )
    if "parameters" in declaration and "parametersJsonSchema" in declaration:
        raise invalid(
            where,
            "parameters and parameters_json_schema are mutually exclusive.",
            lint.REFERENCE,
            inferred=True,
        )
    schema: Any = declaration.get("parametersJsonSchema", {"type": "object", "properties": {}})
    if "parameters" in declaration:
        schema = plain(declaration["parameters"], f"{where}.parameters", root=True)
        if schema.get("type") == "object" and not schema.get("properties") and _OLDER.match(model):
            raise _empty(f"{where}.parameters", lint.EMPTY_ROOTS)
    else:
        schema = referring(schema, f"{where}.parameters_json_schema")
    return Tool(name, member_of_type(declaration, "description", str, where) or "", schema)


_BESIDE = words_of("$ref $id $defs $anchor $schema description default")


def referring(schema: Any, where: str) -> dict[str, Any]:
    """A JSON Schema as it is; with references, and little beside them."""
    if not isinstance(schema, dict):
        raise wrong_type(schema, where, "a JSON Schema")
    for _, node, _ in schemas_with_depth(schema):
        if isinstance(node, dict) and "$ref" in node and node.keys() - _BESIDE:
            name = str(node["$ref"]).rpartition("/")[2]
            raise refusal(
                f"$ref '{name}' was set alongside unsupported fields. If a schema node has $ref "
                "set, then only description and default can be set alongside it",
                lint.BESIDE,
            )
    return schema


def plain(schema: Any, where: str, *, root: bool = False) -> dict[str, Any]:
    """A schema in OpenAPI's words as the JSON Schema it means."""
    node = fields(schema, lint.KNOWN, where)
    kind = node.get("type")
    if isinstance(kind, list):
        raise refusal(
            f"Invalid JSON payload received. Unknown name \"type\" at '{where}': Proto field is "
            "not repeating, cannot start list.",
            lint.LISTS,
            field=where,
        )
    if kind is not None:
        node["type"] = lint.type_name(kind)
        if node["type"] not in lint.TYPES_BY_NUMBER:
            raise wrong_type(kind, f"{where}.type", _TYPE)
    if root and kind is not None and node["type"] != "object":
        raise refusal("functionDeclaration parameters schema should be of type OBJECT.", lint.ROOTS)
    for name in _LONG:
        if isinstance(node.get(name), str) and node[name].isdecimal():
            node[name] = int(node[name])  # Google writes 64-bit numbers as texts
    _check_values(node, where)
    if "anyOf" in node and len(node) > 1:
        raise refusal(
            f"{where} schema specified other fields alongside any_of. When using any_of, it must "
            "be the only field set.",
            lint.ALONE,
        )
    _check_children(node, where, root)
    if "items" in node:
        node["items"] = plain(node["items"], f"{where}.items")
    if "properties" in node:
        inner = member_of_type(node, "properties", dict, where)
        node["properties"] = {
            name: plain(below, f"{where}.properties[{place}].value")
            for place, (name, below) in enumerate(inner.items())
        }
    if "anyOf" in node:
        several = member_of_type(node, "anyOf", list, where)
        node["anyOf"] = [
            plain(branch, f"{where}.any_of[{place}]") for place, branch in enumerate(several)
        ]
    known = node.get("properties", {})
    for place, name in enumerate(member_of_type(node, "required", list, where) or []):
        if name not in known:
            raise invalid(f"{where}.required[{place}]", "property is not defined", lint.REFERENCE)
    return node


def _check_values(node: Mapping[str, Any], where: str) -> None:
    """The enum and the format of a schema, against its type."""
    kind, form = node.get("type"), member_of_type(node, "format", str, where)
    values = member_of_type(node, "enum", list, where) or []
    for place, value in enumerate(values):
        if not isinstance(value, str):
            raise wrong_type(value, f"{where}.enum[{place}]", "TYPE_STRING")
    if values and kind != "string":
        raise invalid(f"{where}.enum", "only allowed for STRING type", lint.ENUMS)
    if "" in values:
        problem = "cannot be empty"
        raise invalid(f"{where}.enum[{values.index('')}]", problem, lint.EMPTY_VALUES)
    if form is None:
        return
    formats = limits.GEMINI_FORMATS.get(str(kind))
    if formats is None:
        problem = "format is only supported for NUMBER, INTEGER and STRING type"
        raise invalid(f"{where}.format", problem, lint.NO_FORMATS)
    if form not in formats:
        problem = (
            f"only {' and '.join(map(repr, formats))} are supported for {str(kind).upper()} type"
        )
        source = lint.FORMATS if kind == "string" else lint.SCHEMA
        raise invalid(f"{where}.format", problem, source, inferred=kind != "string")
    if form == "enum" and not values:
        problem = "should be non-empty for STRING type with enum format"
        raise invalid(f"{where}.enum", problem, lint.EMPTY_ENUMS)


def _check_children(node: Mapping[str, Any], where: str, root: bool) -> None:
    """What stands beside a type that has no such thing, or is missing beside one that has."""
    kind = node.get("type")
    if kind == "array" and "items" not in node:
        raise invalid(f"{where}.items", "missing field.", lint.ITEMS)
    if kind != "array" and "items" in node:
        problem = "field predicate failed: $type == Type.ARRAY"
        raise invalid(f"{where}.items", problem, lint.NO_ARRAYS)
    for key in ("properties", "required"):
        if kind != "object" and node.get(key):
            problem = "only allowed for OBJECT type"
            raise invalid(f"{where}.{key}", problem, lint.NO_OBJECTS)
    if kind == "object" and not node.get("properties") and not root:
        raise _empty(where, lint.EMPTY_OBJECTS)


def _empty(where: str, source: str) -> BadRequest:
    return invalid(f"{where}.properties", "should be non-empty for OBJECT type", source)


def choice_of(value: Any, tools: Sequence[Tool]) -> ToolChoice:
    """`toolConfig` as a tool choice; VALIDATED is auto: this model errs only on purpose."""
    where = "tool_config.function_calling_config"
    known = ("functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations")
    outer = fields(value or {}, known, "tool_config")
    config = fields(
        outer.get("functionCallingConfig", {}),
        ("mode", "allowedFunctionNames", "streamFunctionCallArguments"),
        where,
    )
    mode = config.get("mode", "AUTO")
    if not isinstance(mode, str) or mode.upper() not in _MODES:
        raise wrong_type(mode, inside(where, "mode"), "an enum of FunctionCallingConfig.Mode")
    mode = mode.upper()
    if member_of_type(config, "streamFunctionCallArguments", bool, where):
        raise invalid(
            where,
            "stream_function_call_arguments is for Vertex.",
            lint.REFERENCE,
            inferred=True,
        )
    allowed = member_of_type(config, "allowedFunctionNames", list, where) or []
    if mode == "ANY" and not tools:
        raise refusal(
            "Function calling config is set without function_declarations.",
            lint.REFERENCE,
            inferred=True,
        )
    return _choice(mode, allowed, tools, f"{where}.allowed_function_names")


def _choice(mode: str, allowed: Sequence[Any], tools: Sequence[Tool], where: str) -> ToolChoice:
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise invalid(
            where,
            "should be set only when function calling mode is ANY.",
            lint.REFERENCE,
            inferred=True,
        )
    declared = {tool.name for tool in tools}
    for name in allowed:
        if name not in declared:
            raise invalid(
                where,
                f"{name} is not one of the function_declarations.",
                lint.REFERENCE,
                inferred=True,
            )
    names = tuple(allowed) or None
    match mode:
        case "NONE":
            return ToolChoice("none")
        case "ANY" if len(allowed) == 1:
            return ToolChoice("tool", allowed[0])
        case "ANY":
            return ToolChoice("required", allowed=names)
        case _:
            return ToolChoice(allowed=names)
