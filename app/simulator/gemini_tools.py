"""Tools, their schemas and the tool choice, read and refused as Gemini does.

https://ai.google.dev/api/caching#FunctionDeclaration
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from app.core.tools import Tool, ToolChoice
from app.simulator.gemini_fields import (
    fields,
    inside,
    invalid,
    refused,
    typed,
    wrong_type,
)
from app.simulator.words import spaced
from app.simulator.written import all_written

REFERENCE = "https://ai.google.dev/api/caching#FunctionDeclaration"
NAMES = "https://github.com/google-gemini/gemini-cli/issues/9535"
ITEMS = "https://github.com/cline/cline/issues/7339"
LISTS = "https://github.com/zed-industries/zed/issues/53919"
ENUMS = "https://github.com/decolua/9router/pull/380"
ALONE = "https://github.com/vercel/ai/pull/19000"
BESIDE = "https://github.com/anomalyco/opencode/issues/12295"
MANY = "https://github.com/google-gemini/gemini-cli/issues/19083"

_MOST = 512

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_TOOL = spaced(
    """functionDeclarations googleSearch googleSearchRetrieval codeExecution urlContext computerUse
    fileSearch googleMaps mcpServers retrieval enterpriseWebSearch parallelAiSearch"""
)
_DECLARATION = spaced(
    "name description parameters parametersJsonSchema response responseJsonSchema behavior"
)
_SCHEMA = spaced(
    """type format title description nullable enum items maxItems minItems properties required
    minProperties maxProperties minimum maximum minLength maxLength pattern example anyOf
    propertyOrdering default"""
)
_TYPES = spaced("TYPE_UNSPECIFIED STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL")
_TYPE = "type.googleapis.com/google.ai.generativelanguage.v1beta.Type"
_MODES = spaced("MODE_UNSPECIFIED AUTO ANY NONE VALIDATED")


def tools_of(value: Any) -> tuple[Tool, ...]:
    """The functions that are declared; what Google runs itself is its own affair."""
    tools: list[Tool] = []
    entries = typed({"tools": value}, "tools", list, "") or []
    for place, entry in enumerate(entries):
        where = f"tools[{place}]"
        given = fields(entry, _TOOL, where)
        declared = typed(given, "functionDeclarations", list, where) or []
        if len(declared) > _MOST:
            said = f"[FIELD_INVALID] At most {_MOST} function declarations can be specified."
            raise invalid(f"{where}.function_declarations", said, MANY)
        for number, one in enumerate(declared):
            tools.append(_tool(one, f"{where}.function_declarations[{number}]"))
    names = [tool.name for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise refused(f"Duplicate function declaration found: {name}", REFERENCE, inferred=True)
    return tuple(tools)


def _tool(entry: Any, where: str) -> Tool:
    given = fields(entry, _DECLARATION, where)
    name = typed(given, "name", str, where) or ""
    if not _NAME.fullmatch(name):
        raise invalid(
            f"{where}.name",
            "Invalid function name. Must start with a letter or an underscore. Must be alphameric "
            "(a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
            "length of 128.",
            NAMES,
        )
    if "parameters" in given and "parametersJsonSchema" in given:
        raise invalid(
            where,
            "parameters and parameters_json_schema are mutually exclusive.",
            REFERENCE,
            inferred=True,
        )
    schema: Any = given.get("parametersJsonSchema", {"type": "object", "properties": {}})
    if "parameters" in given:
        schema = _plain(given["parameters"], f"{where}.parameters")
    elif not isinstance(schema, dict):
        raise wrong_type(schema, f"{where}.parameters_json_schema", "a JSON Schema")
    else:
        _check_references(schema)
    return Tool(name, typed(given, "description", str, where) or "", schema)


_BESIDE = spaced("$ref $id $defs $anchor $schema description default")


def _check_references(schema: Any) -> None:
    for _, one, _ in all_written(schema):
        if isinstance(one, dict) and "$ref" in one and one.keys() - _BESIDE:
            name = str(one["$ref"]).rpartition("/")[2]
            raise refused(
                f"$ref '{name}' was set alongside unsupported fields. If a schema node has $ref "
                "set, then only description and default can be set alongside it",
                BESIDE,
            )


def _plain(schema: Any, where: str) -> dict[str, Any]:
    """A schema in OpenAPI's words as the JSON Schema it means."""
    given = fields(schema, _SCHEMA, where)
    kind = given.get("type")
    if isinstance(kind, list):
        raise refused(
            f"Invalid JSON payload received. Unknown name \"type\" at '{where}': Proto field is "
            "not repeating, cannot start list.",
            LISTS,
            field=where,
        )
    if kind is not None and (not isinstance(kind, str) or kind.upper() not in _TYPES):
        raise wrong_type(kind, f"{where}.type", _TYPE)
    if kind is not None:
        given["type"] = kind.lower()
    for place, value in enumerate(typed(given, "enum", list, where) or []):
        if not isinstance(value, str):
            raise wrong_type(value, f"{where}.enum[{place}]", "TYPE_STRING")
    if "enum" in given and given.get("type") != "string":
        raise invalid(f"{where}.enum", "only allowed for STRING type", ENUMS)
    if "anyOf" in given and len(given) > 1:
        raise refused(
            f"{where} schema specified other fields alongside any_of. When using any_of, it must "
            "be the only field set.",
            ALONE,
        )
    if given.get("type") == "array" and "items" not in given:
        raise invalid(f"{where}.items", "missing field.", ITEMS)
    if "items" in given:
        given["items"] = _plain(given["items"], f"{where}.items")
    if "properties" in given:
        inner = typed(given, "properties", dict, where)
        given["properties"] = {
            name: _plain(one, f"{where}.properties[{place}].value")
            for place, (name, one) in enumerate(inner.items())
        }
    if "anyOf" in given:
        several = typed(given, "anyOf", list, where)
        given["anyOf"] = [
            _plain(one, f"{where}.any_of[{place}]") for place, one in enumerate(several)
        ]
    known = given.get("properties", {})
    for place, name in enumerate(typed(given, "required", list, where) or []):
        if name not in known:
            raise invalid(f"{where}.required[{place}]", "property is not defined", REFERENCE)
    return given


def choice_of(value: Any, tools: Sequence[Tool]) -> ToolChoice:
    """`toolConfig` as a tool choice; VALIDATED is auto: this model errs only on purpose."""
    where = "tool_config.function_calling_config"
    known = ("functionCallingConfig", "retrievalConfig", "includeServerSideToolInvocations")
    outer = fields(value or {}, known, "tool_config")
    given = fields(
        outer.get("functionCallingConfig", {}),
        ("mode", "allowedFunctionNames", "streamFunctionCallArguments"),
        where,
    )
    mode = given.get("mode", "AUTO")
    if not isinstance(mode, str) or mode.upper() not in _MODES:
        raise wrong_type(mode, inside(where, "mode"), "an enum of FunctionCallingConfig.Mode")
    mode = mode.upper()
    if typed(given, "streamFunctionCallArguments", bool, where):
        raise invalid(
            where, "stream_function_call_arguments is for Vertex.", REFERENCE, inferred=True
        )
    allowed = typed(given, "allowedFunctionNames", list, where) or []
    if mode == "ANY" and not tools:
        raise refused(
            "Function calling config is set without function_declarations.",
            REFERENCE,
            inferred=True,
        )
    return _choice(mode, allowed, tools, f"{where}.allowed_function_names")


def _choice(mode: str, allowed: Sequence[Any], tools: Sequence[Tool], where: str) -> ToolChoice:
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise invalid(
            where, "should be set only when function calling mode is ANY.", REFERENCE, inferred=True
        )
    declared = {tool.name for tool in tools}
    for name in allowed:
        if name not in declared:
            raise invalid(
                where, f"{name} is not one of the function_declarations.", REFERENCE, inferred=True
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
