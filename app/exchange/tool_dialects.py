"""Tools and servers in JSON values, in any known format.

`read_tools` recognises the format by its members; one reader for each follows.
https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools
https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools
https://docs.anthropic.com/en/api/messages#body-tools
https://ai.google.dev/api/caching
https://modelcontextprotocol.io/specification/2025-06-18/server/tools#tool
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from app.core.errors import BadTool
from app.core.tools import SHIPPED, Tool
from app.exchange import mcp_config, openapi
from app.exchange.tool_entry import (
    ImportedServer,
    ImportedTool,
    ToolParts,
    build_tool,
    clip,
    from_openapi_schema,
    note_left_out,
    protocol_extra,
    refused_tool,
    with_problem,
)
from app.schema.names import legal_name
from app.schema.validate import check_tool

OWN_FORM = "our own form"
CASE = "BFCL"

_OURS = {field.name for field in fields(Tool)}
_OURS_ALONE = _OURS - {"name", "description", "parameters", "strict", "format"}
_HOLDERS = ("tools", "functions", "result", "toolConfig")
_MOST_INSIDE = 4
"""The maximum nesting of lists and containers of tools."""
_MOST_ENTRIES = 10_000


def read_tools(value: Any, file: str, depth: int = 0) -> Iterator[ImportedTool | ImportedServer]:
    """The tools in `value`, in order; `file` is its name or absolute path."""
    if depth > _MOST_INSIDE:
        yield refused_tool({}, "", "", "Tools lie too deep inside of lists here; import one list.")
        return
    match value:
        case list() if len(value) > _MOST_ENTRIES:
            sentence = f"A list here has more than {_MOST_ENTRIES:,} entries; import a part of it."
            yield refused_tool({}, "", "", sentence)
        case list():
            for entry in value:
                yield from read_tools(entry, file, depth + 1)
        case Mapping():
            yield from _read_object(value, file, depth)
        case _:
            yield refused_tool({}, "", "", "A tool is a JSON object; this is something else.")


def _read_object(
    entry: Mapping[str, Any], file: str, depth: int
) -> Iterator[ImportedTool | ImportedServer]:
    if openapi.is_document(entry):
        yield from openapi.tools(entry)
        return
    if is_case(entry):
        yield from _read_case(entry, file, depth)
        return
    servers = mcp_config.server_entries(entry)
    if servers is not None:
        yield from mcp_config.read_servers(servers)
    lists = [] if _is_named(entry) else [entry[key] for key in _HOLDERS if _holds(entry, key)]
    for entries in lists:
        yield from read_tools(entries, file, depth + 1)
    if isinstance(entry.get("toolSpec"), Mapping):
        yield from read_tools(entry["toolSpec"], file, depth + 1)
    elif is_namespace(entry):
        yield from namespace_tools(entry)
    elif is_gemini_entry(entry):
        yield from gemini_tools(entry)
    elif servers is None and not lists:
        yield _read_tool(entry, file)


def is_case(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a case of a benchmark (BFCL): a question, and the functions for it."""
    return "question" in entry and "id" in entry and "name" not in entry


def _read_case(
    entry: Mapping[str, Any], file: str, depth: int
) -> Iterator[ImportedTool | ImportedServer]:
    called = clip(entry.get("id")) or "the case"
    functions = entry.get("function")
    listed = [functions] if isinstance(functions, Mapping) else functions
    if not isinstance(listed, list):
        sentence = (
            f"The case {called} names no functions of its own; import the file of functions that it"
            " is about."
        )
        yield refused_tool(entry, CASE, called, sentence)
        return
    for item in read_tools(listed, file, depth + 1):
        if isinstance(item, ImportedTool):
            note = f"Of the case {called} the question and what else it holds were left out."
            yield replace(item, kind=CASE, notes=(note, *item.notes))


def _is_named(entry: Mapping[str, Any]) -> bool:
    """A tool has a name; a container of tools has none (but a request has a model)."""
    return isinstance(entry.get("name"), str) and "model" not in entry


def _holds(entry: Mapping[str, Any], key: str) -> bool:
    value = entry.get(key)
    if key in ("tools", "functions"):
        return isinstance(value, list) or is_gemini_entry(value)
    return isinstance(value, Mapping) and isinstance(value.get("tools"), list)


def _read_tool(entry: Mapping[str, Any], file: str) -> ImportedTool:
    """One tool, by the members that only one format has."""
    kind = entry.get("type")
    match entry:
        case {"function": Mapping()} | {"type": "custom", "custom": Mapping()}:
            return chat_tool(entry)
        case {"input_schema": _}:
            return anthropic_tool(entry)
        case {"inputSchema": {"json": Mapping()}}:
            return bedrock_tool(entry)
        case {"inputSchema": _}:
            return mcp_tool(entry)
        case {"type": "function" | "custom", "name": _}:
            return responses_tool(entry)
    if "name" in entry and any(key in _OURS_ALONE for key in entry):
        return own_tool(entry, file)
    if "name" in entry and is_gemini_declaration(entry):
        return gemini_tool(entry)
    if is_langchain(entry):
        return langchain_tool(entry)
    if isinstance(kind, str) and kind != "object" and "parameters" not in entry:
        return _hosted_tool(entry, kind)
    if is_bare_schema(entry):
        return schema_tool(entry, posixpath.basename(file).partition(".")[0])
    if "name" in entry and ("parameters" in entry or "description" in entry):
        return old_openai_function(entry)
    keys = ", ".join(clip(key, 40) for key in list(entry)[:8]) or "nothing"
    sentence = f"This is in no form of a tool that is known here: it has {keys}."
    return refused_tool(entry, "", entry.get("name") or entry.get("title"), sentence)


def _hosted_tool(entry: Mapping[str, Any], kind: str) -> ImportedTool:
    """A tool that a provider runs itself, or a schema of something else."""
    if kind in ("string", "number", "integer", "boolean", "array", "null"):
        sentence = "Arguments are an object; this schema is of another type."
        return refused_tool(entry, JSON_SCHEMA, entry.get("title"), sentence)
    if kind == "not_implemented":
        sentence = "LangChain's dump leaves the arguments out; import convert_to_openai_tool(tool)."
        return refused_tool(entry, LANGCHAIN, entry.get("name"), sentence)
    if kind in ("function", "custom"):
        sentence = f'A "{kind}" needs its name, in it or in an object "{kind}"; correct it.'
        return refused_tool(entry, "", "", sentence)
    sentence = f"A tool of the type {clip(kind)!r} is run by its provider; it cannot be imported."
    return refused_tool(entry, "", entry.get("name") or kind, sentence)


def own_tool(entry: Mapping[str, Any], file: str) -> ImportedTool:
    """A tool in our own format; the paths of a Python tool are relative to its file."""
    imported = ImportedTool(None, clip(entry.get("name")), entry, "", OWN_FORM)
    try:
        tool = check_tool(with_absolute_paths(entry, file))
    except BadTool as error:
        return with_problem(imported, error)
    return replace(imported, tool=tool, name=tool.name)


def with_absolute_paths(entry: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """`entry` with the paths of its config made absolute, if the file's own path is known."""
    config = entry.get("config")
    if not (file.startswith("/") and isinstance(config, Mapping)):
        return entry
    if entry.get("answered_by") != "python":
        return entry
    absolute = dict(config)
    for name in ("file", "interpreter"):
        path = config.get(name)
        if not isinstance(path, str) or not path or path.startswith((SHIPPED, "/", "~/")):
            continue
        if name == "file" or "/" in path:
            absolute[name] = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
    return {**entry, "config": absolute}


# -- OpenAI: Chat Completions and Responses ----------------------------------------------------


OPENAI_CHAT, OPENAI_RESPONSES = "OpenAI Chat", "OpenAI Responses"

_FUNCTION_KNOWN = ("name", "description", "parameters", "strict")
_CUSTOM_KNOWN = ("name", "description", "format")
_CHAT_EXTRA = ("cache_control",)
_RESPONSES_EXTRA = ("defer_loading", "allowed_callers", "output_schema", "namespace")
"""Kept unchanged for their protocol; gateways accept the first."""


def chat_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"type": "function", "function": {...}}`, or "custom" for free text."""
    kind = str(entry.get("type", "function"))
    inner = entry.get(kind)
    if not isinstance(inner, Mapping):
        sentence = f'"{kind}" is an object with a name.'
        return refused_tool(entry, OPENAI_CHAT, "", sentence, "openai_chat")
    form = inner.get("format")
    if isinstance(form, Mapping) and isinstance(form.get("grammar"), Mapping):
        inner = {**inner, "format": {"type": "grammar", **form["grammar"]}}
    extra = protocol_extra(entry, "openai_chat", _CHAT_EXTRA)
    notes = note_left_out(entry, ("type", kind, *_CHAT_EXTRA))
    custom = kind == "custom"
    return _openai_tool(entry, inner, OPENAI_CHAT, "openai_chat", custom, notes, extra)


def responses_tool(
    entry: Mapping[str, Any], space: Mapping[str, Any] | None = None
) -> ImportedTool:
    """`{"type": "function", "name", ...}`, or "custom" for free text; `space` is the namespace."""
    known = {**entry, "namespace": space} if space else entry
    extra = protocol_extra(known, "openai_responses", _RESPONSES_EXTRA)
    plain = {name: value for name, value in entry.items() if name not in _RESPONSES_EXTRA}
    custom = entry.get("type") == "custom"
    return _openai_tool(entry, plain, OPENAI_RESPONSES, "openai_responses", custom, [], extra)


def is_namespace(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` contains the functions of a namespace, which the client runs."""
    return entry.get("type") == "namespace" and isinstance(entry.get("tools"), list)


def namespace_tools(entry: Mapping[str, Any]) -> Iterator[ImportedTool]:
    """`{"type": "namespace", "name", "description", "tools": [...]}`: its tools by their own names,
    which calls use."""
    space = {name: tool for name, tool in entry.items() if name not in ("type", "tools")}
    for tool in entry["tools"]:
        if isinstance(tool, Mapping) and tool.get("type") in ("function", "custom"):
            yield responses_tool(tool, space)
        else:
            called = tool.get("name") if isinstance(tool, Mapping) else ""
            sentence = (
                f"Only functions of the namespace {clip(entry.get('name'))!r} can be imported."
            )
            yield refused_tool(entry, OPENAI_RESPONSES, called, sentence, "openai_responses")


def old_openai_function(entry: Mapping[str, Any]) -> ImportedTool:
    """An entry of `functions`, the predecessor of `tools`."""
    return _openai_tool(entry, entry, "OpenAI functions", "")


def _openai_tool(
    entry: Mapping[str, Any],
    inner: Mapping[str, Any],
    kind: str,
    protocol: str,
    custom: bool = False,
    notes: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
) -> ImportedTool:
    """`inner` has the name; `custom` accepts free text in its `format`."""
    schema = None if custom else inner.get("parameters")
    rest = {"strict": inner.get("strict"), "extra": extra}
    if custom:
        form = inner.get("format")
        rest = {"format": {"type": "text"} if form is None else form, "extra": extra}
    known = _CUSTOM_KNOWN if custom else _FUNCTION_KNOWN
    notes = [*notes, *note_left_out(inner, (*known, "type"))]
    return _built(entry, kind, inner, schema, protocol, rest=rest, notes=notes)


def _built(
    entry: Mapping[str, Any],
    kind: str,
    inner: Mapping[str, Any],
    parameters: Any,
    protocol: str = "",
    **parts: Any,
) -> ImportedTool:
    """The tool with the name and description of `inner`; `parts` are those of ToolParts."""
    pieces = ToolParts(inner.get("name"), inner.get("description"), parameters, **parts)
    return build_tool(entry, kind, pieces, protocol)


# -- Anthropic ---------------------------------------------------------------------------------


ANTHROPIC = "Anthropic"
_ANTHROPIC_KNOWN = (
    "type",
    "name",
    "description",
    "input_schema",
    "strict",
    "eager_input_streaming",
)
_ANTHROPIC_EXTRA = ("cache_control", "defer_loading", "input_examples", "allowed_callers")
"""Kept unchanged for Anthropic."""


def anthropic_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "input_schema"}`"""
    rest = {
        "strict": entry.get("strict"),
        "eager": entry.get("eager_input_streaming"),
        "extra": protocol_extra(entry, "anthropic", _ANTHROPIC_EXTRA),
    }
    notes = note_left_out(entry, (*_ANTHROPIC_KNOWN, *_ANTHROPIC_EXTRA))
    schema = entry.get("input_schema")
    return _built(entry, ANTHROPIC, entry, schema, "anthropic", rest=rest, notes=notes)


# -- Gemini ------------------------------------------------------------------------------------


GEMINI = "Gemini"
GEMINI_LISTS = ("functionDeclarations", "function_declarations")
GEMINI_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")

_GEMINI_HOSTED = (
    *("googleSearch", "googleSearchRetrieval", "enterpriseWebSearch", "googleMaps", "urlContext"),
    *("codeExecution", "computerUse", "fileSearch", "retrieval"),
)
_GEMINI_ENTRY = {
    *GEMINI_LISTS,
    *_GEMINI_HOSTED,
    *(re.sub("(?=[A-Z])", "_", name).lower() for name in _GEMINI_HOSTED),
}
_GEMINI_OUTPUTS = ("responseJsonSchema", "response_json_schema", "response")
_GEMINI_EXTRA = ("behavior", "response", "responseJsonSchema")
"""Kept unchanged for Gemini."""
_GEMINI_KNOWN = (
    "name",
    "description",
    "parameters",
    *GEMINI_SCHEMAS,
    *_GEMINI_OUTPUTS,
    *_GEMINI_EXTRA,
)


def is_gemini_entry(value: Any) -> bool:
    """Whether `value` is an entry of Gemini's `tools`."""
    return (
        isinstance(value, Mapping) and "name" not in value and not _GEMINI_ENTRY.isdisjoint(value)
    )


def gemini_tools(entry: Mapping[str, Any]) -> Iterator[ImportedTool]:
    """An entry of Gemini's `tools`: a list of declarations, or a tool that Google runs itself."""
    for key, value in entry.items():
        if key not in GEMINI_LISTS:
            sentence = f"{key!r} is run by Google itself; only functions can be imported."
            yield refused_tool(entry, GEMINI, key, sentence, "gemini")
        elif isinstance(value, list):
            yield from (gemini_tool(declaration) for declaration in value)
        else:
            yield refused_tool(entry, GEMINI, "", f"{key} is a list of functions.", "gemini")


def is_gemini_declaration(entry: Mapping[str, Any]) -> bool:
    """Whether a function can only be Gemini's: by the name of its schema, or upper-case types."""
    schema = entry.get("parameters")
    return any(name in entry for name in (*GEMINI_SCHEMAS, *_GEMINI_OUTPUTS)) or (
        isinstance(schema, Mapping)
        and isinstance(schema.get("type"), str)
        and schema["type"].isupper()
    )


def gemini_tool(entry: Any) -> ImportedTool:
    """`{"name", "description", "parameters" | "parametersJsonSchema"}`"""
    if not isinstance(entry, Mapping):
        return refused_tool({}, GEMINI, "", "A function declaration is an object.", "gemini")
    schemas = [entry[name] for name in GEMINI_SCHEMAS if name in entry]
    notes = note_left_out(entry, _GEMINI_KNOWN)
    if schemas and "parameters" in entry:
        notes.append(f"It has parameters and {GEMINI_SCHEMAS[0]}; the latter was used.")
    if not schemas and "parameters" in entry:
        schemas = [from_openapi_schema(entry["parameters"])]
        if schemas[0] != entry["parameters"]:
            notes.append("Its parameters were in Gemini's dialect; they are JSON Schema now.")
    outputs = [from_openapi_schema(entry[name]) for name in _GEMINI_OUTPUTS if name in entry]
    schema, output = (values[0] if values else None for values in (schemas, outputs))
    rest = {"extra": protocol_extra(entry, "gemini", _GEMINI_EXTRA)}
    return _built(entry, GEMINI, entry, schema, "gemini", output=output, rest=rest, notes=notes)


# -- MCP and Bedrock ---------------------------------------------------------------------------


MCP, BEDROCK = "MCP", "Bedrock Converse"
_MCP_KNOWN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def mcp_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "inputSchema"}`. Has no executor, for lack of a server."""
    notes = note_left_out(entry, (*_MCP_KNOWN, "_meta"))
    title = entry.get("title")
    if isinstance(title, str) and title:
        notes.append("Its title is for people and was left out; models read the name.")
    if "annotations" in entry:
        notes.append("Its annotations are the server's own word and are not relied upon.")
    notes.append("To have it answered by its server, add the server and its tools there.")
    schema, output = entry.get("inputSchema"), entry.get("outputSchema")
    return _built(entry, MCP, entry, schema, output=output, notes=notes)


def bedrock_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """The content of `toolSpec`: an inputSchema that is `{"json": schema}`."""
    schema, rest = entry["inputSchema"].get("json"), {"strict": entry.get("strict")}
    notes = note_left_out(entry, ("name", "description", "inputSchema", "strict"))
    return _built(entry, BEDROCK, entry, schema, rest=rest, notes=notes)


# -- JSON Schema alone, and LangChain ----------------------------------------------------------


JSON_SCHEMA, LANGCHAIN = "JSON Schema", "LangChain"
_LANGCHAIN_SCHEMAS = ("args_schema", "tool_call_schema", "args")


def is_bare_schema(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a schema of an object."""
    if isinstance(entry.get("properties"), Mapping):
        return bool(entry.get("type", "object") == "object")
    return entry.get("type") == "object" or isinstance(entry.get("$schema"), str)


def schema_tool(entry: Mapping[str, Any], file: str = "") -> ImportedTool:
    """`file` is the bare name of its file: its name if it has no title."""
    name, notes = entry.get("title"), []
    if not isinstance(name, str) or not name.strip():
        name = legal_name(file) or "tool"
        notes.append(f"The schema has no title, so the tool is called {name}.")
    parameters = {key: entry[key] for key in entry if key not in ("title", "description")}
    return _built(entry, JSON_SCHEMA, {**entry, "name": name}, parameters, notes=notes)


def is_langchain(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a tool of LangChain: a name, and its arguments as a schema."""
    return "name" in entry and any(
        isinstance(entry.get(name), Mapping) for name in _LANGCHAIN_SCHEMAS
    )


def langchain_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "args_schema": schema}`, or `args`: the properties alone."""
    schemas = {
        member: entry[member]
        for member in _LANGCHAIN_SCHEMAS
        if isinstance(entry.get(member), Mapping)
    }
    key, schema = next(iter(schemas.items()))
    notes = note_left_out(entry, ("name", "description", *schemas))
    if key == "args" and not is_bare_schema(schema):
        required = [name for name, member in schema.items() if not _has_default(member)]
        schema = {"type": "object", "properties": dict(schema), "required": required}
        notes.append("`args` does not say what is required; what has no default is.")
    for word, own in (("title", entry.get("name")), ("description", entry.get("description"))):
        if word in schema and schema[word] != own:
            notes.append(f"The {word} of its arguments as a whole was left out.")
    schema = {name: schema[name] for name in schema if name not in ("title", "description")}
    return _built(entry, LANGCHAIN, entry, schema, notes=notes)


def _has_default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema
