"""Tools and servers in JSON values, in any known format.

`read_tools` recognises the format by its members; one reader for each follows. A thing is a tool
where a member that holds its schema was understood, or where its format says that it is a tool, the
format lets a tool without arguments have no schema, and no other member may hold one. What is no
tool is refused with what it is instead.
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

from playground.core.errors import BadTool
from playground.core.tools import SHIPPED, Tool
from playground.exchange import mcp_config, mcp_locations, openapi
from playground.exchange.other_files import describe_file, describe_package, foreign_schema
from playground.exchange.parameter_forms import (
    FoundParameters,
    declares_members,
    explain_unread,
    find_parameters,
    is_schema,
    read_parameters,
)
from playground.exchange.schema_dialects import from_openapi_schema, is_google_type
from playground.exchange.tool_entry import (
    ImportedServer,
    ImportedTool,
    ToolParts,
    build_tool,
    clip,
    note_left_out,
    protocol_extra,
    refused_tool,
    with_problem,
)
from playground.protocols.provider_tools import Runner, runner, why_not_imported
from playground.schema.names import legal_name
from playground.schema.validate import check_tool

OWN_FORM, OTHER_FORM = "our own form", "another form"
CASE = "BFCL"

_OURS = {field.name for field in fields(Tool)}
_OURS_ALONE = _OURS - {"name", "description", "parameters", "strict", "format"}
_LISTS = ("tools", "functions", "specs")
_HOLDERS = (*_LISTS, "result", "toolConfig")
_MOST_INSIDE = 4
"""The maximum nesting of lists and containers of tools."""
_MOST_ENTRIES = 10_000
_SCHEMAS = (
    *("parameters", "input_schema", "inputSchema", "parametersJsonSchema"),
    *("parameters_json_schema", "args_schema"),
)
"""Members that hold the schema of a tool, in any format."""

_SCALARS = ("string", "number", "integer", "boolean", "array", "null")

OPENAI_CHAT, OPENAI_RESPONSES = "OpenAI Chat", "OpenAI Responses"

_FUNCTION_KNOWN = ("name", "description", "parameters", "strict")
_CUSTOM_KNOWN = ("name", "description", "format")
_CHAT_EXTRA = ("cache_control",)

_RESPONSES_EXTRA = ("defer_loading", "allowed_callers", "output_schema", "namespace")
"""Kept unchanged for their protocol; gateways accept the first."""

_WRITE_SCHEMA = 'write them in "parameters", as a JSON Schema of an object'

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

GEMINI = "Gemini"
GEMINI_LISTS = ("functionDeclarations", "function_declarations")
GEMINI_SCHEMAS = ("parametersJsonSchema", "parameters_json_schema")

_GEMINI_HOSTED = (
    *("googleSearch", "googleSearchRetrieval", "enterpriseWebSearch", "googleMaps", "urlContext"),
    *("codeExecution", "computerUse", "fileSearch", "retrieval", "parallelAiSearch", "exaAiSearch"),
)

_GEMINI_CLIENT = ("computerUse", "computer_use")
"""https://ai.google.dev/gemini-api/docs/computer-use"""

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

MCP, BEDROCK = "MCP", "Bedrock Converse"
_MCP_KNOWN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")

JSON_SCHEMA, LANGCHAIN = "JSON Schema", "LangChain"
_LANGCHAIN_SCHEMAS = ("args_schema", "tool_call_schema", "args")


def read_tools(
    value: Any, file: str, depth: int = 0, holder: str = ""
) -> Iterator[ImportedTool | ImportedServer]:
    """The tools in `value`, in order; `file` is its name or absolute path, `holder` the name of the
    member whose list contains it, if there is one."""
    if depth > _MOST_INSIDE:
        yield refused_tool({}, "", "", "The lists of tools are nested too deep. Import one list.")
        return
    match value:
        case list() if len(value) > _MOST_ENTRIES:
            sentence = f"A list here has more than {_MOST_ENTRIES:,} entries. Import a part of it."
            yield refused_tool({}, "", "", sentence)
        case list():
            for entry in value:
                yield from read_tools(entry, file, depth + 1, holder)
        case Mapping():
            yield from _read_object(value, file, depth, holder)
        case _:
            yield refused_tool({}, "", "", "A tool must be a JSON object; this is not.")


def _read_object(
    entry: Mapping[str, Any], file: str, depth: int, holder: str
) -> Iterator[ImportedTool | ImportedServer]:
    if openapi.is_document(entry):
        yield from openapi.tools(entry)
        return
    if is_case(entry):
        yield from _read_case(entry, file, depth)
        return
    servers = mcp_locations.server_entries(entry)
    if servers is not None:
        yield from mcp_config.read_servers(servers)
    if what := describe_file(entry):  # beside its servers, no tools
        if servers is None:
            yield _refuse_file(entry, what)
        return
    if is_namespace(entry):
        yield from namespace_tools(entry)
        return
    lists = [] if _is_named(entry) else [key for key in _HOLDERS if _holds(entry, key)]
    for key in lists:
        yield from read_tools(_entries(entry[key]), file, depth + 1, key)
    if isinstance(entry.get("toolSpec"), Mapping):
        yield from read_tools(entry["toolSpec"], file, depth + 1)
    elif is_gemini_entry(entry):
        yield from gemini_tools(entry)
    elif servers is None and not lists:
        yield from _read_single(entry, file, depth, holder)


def _read_single(
    entry: Mapping[str, Any], file: str, depth: int, holder: str
) -> Iterator[ImportedTool | ImportedServer]:
    """`entry` as one tool, or the tools deeper inside of it if it is none."""
    tool = _read_tool(entry, file, holder)
    if tool is not None and (tool.tool is not None or tool.kind != OTHER_FORM):
        yield tool
        return
    if what := describe_package(entry):
        yield _refuse_file(entry, what)
        return
    if _is_by_name(entry):
        yield from read_tools(_entries(entry), file, depth + 1)
        return
    inside = [key for key, value in entry.items() if _is_container(value)]
    for key in inside:
        yield from read_tools(entry[key], file, depth + 1)
    if not inside:
        yield tool or _refuse_unknown(entry)


def _is_container(value: Any, depth: int = 0) -> bool:
    """Whether `value` is an object with tools in it, or in an object of it."""
    if not isinstance(value, Mapping) or depth == _MOST_INSIDE:
        return False
    tool = _is_named(value) and any(isinstance(value.get(key), Mapping) for key in _SCHEMAS)
    lists = any(_holds(value, key) for key in _LISTS) or is_gemini_entry(value)
    return tool or lists or any(_is_container(inner, depth + 1) for inner in value.values())


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
        sentence = f"The case {called} has no functions. Import the file with its functions."
        yield refused_tool(entry, CASE, called, sentence)
        return
    for item in read_tools(listed, file, depth + 1, "functions"):
        if isinstance(item, ImportedTool):
            note = (
                f"Only the functions of the case {called} were imported, not its question or "
                "anything else."
            )
            yield replace(item, kind=CASE, notes=(note, *item.notes))


def _is_named(entry: Mapping[str, Any]) -> bool:
    """A tool has a name; a container of tools has none (but a request has a model, and an agent has
    a list of tools and no schema)."""
    if not isinstance(entry.get("name"), str) or "model" in entry:
        return False
    return any(key in entry for key in _SCHEMAS) or not any(
        isinstance(entry.get(key), list) and any(isinstance(item, Mapping) for item in entry[key])
        for key in _LISTS
    )


def _holds(entry: Mapping[str, Any], key: str) -> bool:
    value = entry.get(key)
    if key in _LISTS:
        return isinstance(value, list) or is_gemini_entry(value) or _is_by_name(value)
    return isinstance(value, Mapping) and isinstance(value.get("tools"), list)


def _is_by_name(value: Any) -> bool:
    """Whether `value` has tools by their names, as the AI SDK and Google's toolbox have them."""
    return (
        isinstance(value, Mapping)
        and all(isinstance(tool, Mapping) for tool in value.values())
        and any(
            isinstance(tool.get(key), Mapping | list) for tool in value.values() for key in _SCHEMAS
        )
    )


def _entries(value: Any) -> Any:
    """A list of tools, or one entry of Gemini's; of tools by their names a list of them."""
    if not _is_by_name(value):
        return value
    return [{"name": name, **tool} for name, tool in value.items()]


def _read_tool(entry: Mapping[str, Any], file: str, holder: str) -> ImportedTool | None:
    """One tool, by the members that only one format has; None if it is in no format of a tool."""
    kind = entry.get("type")
    if _is_own(entry):
        return own_tool(entry, file)
    if not any(key in entry for key in _SCHEMAS) and (who := runner(entry)) is not None:
        return _provider_tool(entry, kind, who)
    match entry:
        case {"type": "function" | "custom"} if isinstance(entry.get(str(kind)), Mapping):
            return chat_tool(entry)
        case {"function": Mapping()} if kind is None:
            return chat_tool(entry)
        case {"input_schema": _} if kind != "function":
            return anthropic_tool(entry)
        case {"inputSchema": {"json": _}}:
            return bedrock_tool(entry)
        case {"inputSchema": _} if kind != "function":
            return mcp_tool(entry)
        case {"type": "custom", "name": _} if (
            "format" not in entry and find_parameters(entry).names
        ):
            return other_tool(entry)  # what others call custom has arguments
        case {"type": "function" | "custom", "name": _}:
            return responses_tool(entry)
        case {"type": "function" | "custom"}:
            sentence = f'A "{kind}" needs a name, in it or in an object "{kind}"; correct it.'
            return refused_tool(entry, "", "", sentence)
        case {"type": "not_implemented"}:
            sentence = (
                "LangChain's dump does not contain the arguments. Import "
                "convert_to_openai_tool(tool)."
            )
            return refused_tool(entry, LANGCHAIN, entry.get("name"), sentence)
    if "name" in entry and is_gemini_declaration(entry):
        return gemini_tool(entry)
    if is_langchain(entry):
        return langchain_tool(entry)
    if is_bare_schema(entry):
        return schema_tool(entry, posixpath.basename(file).partition(".")[0])
    if isinstance(kind, str) and kind in _SCALARS and "parameters" not in entry:
        sentence = "Arguments must be an object; this schema has another type."
        return refused_tool(entry, JSON_SCHEMA, entry.get("title"), sentence)
    if isinstance(entry.get("name"), str):
        return other_tool(entry, holder)
    return None


def _is_own(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is in our own format. Many files have a name and a `config`."""
    if "name" not in entry or _OURS_ALONE.isdisjoint(entry):
        return False
    return "answered_by" in entry or "parameters" in entry or entry.keys() <= _OURS


def _provider_tool(entry: Mapping[str, Any], kind: Any, who: Runner) -> ImportedTool:
    """A tool that its provider defines: only its models know its schema."""
    called = entry.get("name") or entry.get("id") or kind or next(iter(entry))
    refused = refused_tool(entry, "", called, why_not_imported(clip(kind or called), who))
    return replace(refused, runner=who)


def _refuse_file(entry: Mapping[str, Any], what: str) -> ImportedTool:
    called = entry.get("name") or entry.get("title")
    return refused_tool(entry, "", called, f"This is {what}, not a tool.")


def _refuse_unknown(entry: Mapping[str, Any]) -> ImportedTool:
    """What is in no format of a tool, with what is known of it."""
    called = entry.get("name") or entry.get("title")
    keys = ", ".join(clip(key, 40) for key in list(entry)[:8]) or "nothing"
    if described := foreign_schema(entry):
        sentence = f"This is a file of the format {clip(described, 120)} ($schema), not a tool."
    elif isinstance(entry.get("$schema"), str):
        sentence = f"This schema says nothing about an object of arguments: it has {keys}."
    elif isinstance(kind := entry.get("type"), str):
        sentence = (
            f"This is not a known form of a tool, and its type {clip(kind)!r} is unknown. It has "
            f"{keys}."
        )
    else:
        sentence = f"This is not a known form of a tool. It has {keys}"
        named = isinstance(entry.get("name"), str)
        sentence += ", but no schema of arguments." if named else "."
        if named and isinstance(entry.get("description"), str):
            sentence += ' A tool without arguments has "parameters": {}.'
    return refused_tool(entry, "", called, sentence)


def other_tool(entry: Mapping[str, Any], holder: str = "") -> ImportedTool | None:
    """An object with a name and, somewhere, its parameters: an entry of `functions`, which came
    before OpenAI's `tools`, or a form that is not known here. None if nothing in it holds a schema,
    but in `functions`, where that means no arguments."""
    if "parameters" in entry or holder == "functions":
        return old_openai_function(entry)
    names = find_parameters(entry).names
    if not any(entry[name] for name in names) and not isinstance(entry.get("description"), str):
        return None  # an empty `args` alone may be that of a call or of a command
    if not names:
        return None
    return _build(entry, OTHER_FORM, entry, None, known=("name", "description"))


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
    beside = {name: entry[name] for name in entry if name not in ("type", kind, *_CHAT_EXTRA)}
    custom = kind == "custom"
    outside = [name for name in _FUNCTION_KNOWN if name in beside and name not in inner]
    notes = [f"Also read, outside `{kind}`: {', '.join(outside)}."] if outside else []
    return _openai_tool(
        entry,
        {**beside, **inner},
        OPENAI_CHAT,
        "openai_chat",
        custom=custom,
        extra=extra,
        notes=notes,
    )


def responses_tool(
    entry: Mapping[str, Any], space: Mapping[str, Any] | None = None
) -> ImportedTool:
    """`{"type": "function", "name", ...}`, or "custom" for free text; `space` is the namespace."""
    known = {**entry, "namespace": space} if space else entry
    extra = protocol_extra(known, "openai_responses", _RESPONSES_EXTRA)
    plain = {name: value for name, value in entry.items() if name not in _RESPONSES_EXTRA}
    custom = entry.get("type") == "custom"
    protocol = "openai_responses"
    return _openai_tool(entry, plain, OPENAI_RESPONSES, protocol, custom=custom, extra=extra)


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
    *,
    custom: bool = False,
    extra: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> ImportedTool:
    """`inner` has the name; `custom` accepts free text in its `format`."""
    if custom:
        form = inner.get("format")
        rest = {"format": {"type": "text"} if form is None else form, "extra": extra}
        notes = [*notes, *note_left_out(inner, (*_CUSTOM_KNOWN, "type"))]
        pieces = ToolParts(inner.get("name"), inner.get("description"), rest=rest, notes=notes)
        return build_tool(entry, kind, pieces, protocol)
    rest = {"strict": inner.get("strict"), "extra": extra}
    known, schema = (*_FUNCTION_KNOWN, "type"), inner.get("parameters")
    return _build(
        entry,
        kind,
        inner,
        schema,
        protocol,
        known=known,
        may_lack_schema=True,
        notes=notes,
        rest=rest,
    )


def _build(
    entry: Mapping[str, Any],
    kind: str,
    inner: Mapping[str, Any],
    parameters: Any,
    protocol: str = "",
    *,
    known: Sequence[str],
    may_lack_schema: bool = False,
    notes: Sequence[str] = (),
    **parts: Any,
) -> ImportedTool:
    """The tool with the name and description of `inner`, of whose other members `known` are used;
    `parts` are those of ToolParts. Without `parameters` they are looked for under other names: what
    may hold them is read or refused, and never left out."""
    names: tuple[str, ...] = ()
    if parameters is None:
        members = find_parameters(inner)
        names = members.names
        if problem := _missing_schema(inner, members, may_lack_schema):
            return refused_tool(entry, kind, inner.get("name"), problem, protocol)
        if names:
            parameters = members.read[names[0]].schema
            protocol = ""  # that protocol has no such member
            notes = [f"Its parameters were in `{names[0]}`.", *members.read[names[0]].notes, *notes]
    elif other := _find_in_others(inner, parameters, known):
        problem = (
            f"Its schema declares no argument, but `{clip(other, 40)}` does, and it is unclear "
            f"which one applies; {_WRITE_SCHEMA}."
        )
        return refused_tool(entry, kind, inner.get("name"), problem, protocol)
    notes = [*notes, *note_left_out(inner, (*known, *names))]
    pieces = ToolParts(
        inner.get("name"), inner.get("description"), parameters, notes=notes, **parts
    )
    return build_tool(entry, kind, pieces, protocol)


def _missing_schema(
    inner: Mapping[str, Any], members: FoundParameters, may_lack_schema: bool
) -> str:
    """Why the parameters of a tool without the member of its format are not known, or ""."""
    if len(members.names) > 1 and (members.unread or not _are_same(members)):
        names = " or ".join(f"`{clip(name, 40)}`" for name in members.names[:4])
        return f"Its parameters may be in {names}, and it is unclear which one; {_WRITE_SCHEMA}."
    if members.unread:
        name = members.unread[0]
        reason = explain_unread(inner[name])
        return f"Its parameters seem to be in `{clip(name, 40)}`, which {reason}; {_WRITE_SCHEMA}."
    if members.names or may_lack_schema:
        return ""
    return 'It has no schema of its arguments. If it has no arguments, write "parameters": {}.'


def _find_in_others(inner: Mapping[str, Any], schema: Any, known: Sequence[str]) -> str:
    """The name of another member with parameters, if the schema next to it declares none; or ""."""
    if schema and not (isinstance(schema, Mapping) and is_schema(schema)):
        return ""
    if isinstance(schema, Mapping) and declares_members(schema):
        return ""
    others = {name: value for name, value in inner.items() if name not in known}
    read = find_parameters(others).read
    return next((name for name in read if declares_members(read[name].schema)), "")


def _are_same(members: FoundParameters) -> bool:
    first, *others = (read.schema for read in members.read.values())
    return all(schema == first for schema in others)


# -- Anthropic ---------------------------------------------------------------------------------


def anthropic_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "input_schema"}`"""
    rest = {
        "strict": entry.get("strict"),
        "eager": entry.get("eager_input_streaming"),
        "extra": protocol_extra(entry, "anthropic", _ANTHROPIC_EXTRA),
    }
    known, schema = (*_ANTHROPIC_KNOWN, *_ANTHROPIC_EXTRA), entry.get("input_schema")
    return _build(entry, ANTHROPIC, entry, schema, "anthropic", known=known, rest=rest)


# -- Gemini ------------------------------------------------------------------------------------


def is_gemini_entry(value: Any) -> bool:
    """Whether `value` is an entry of Gemini's `tools`."""
    return (
        isinstance(value, Mapping) and "name" not in value and not _GEMINI_ENTRY.isdisjoint(value)
    )


def gemini_tools(entry: Mapping[str, Any]) -> Iterator[ImportedTool]:
    """An entry of Gemini's `tools`: a list of declarations, or a tool that Google runs itself."""
    for key, value in entry.items():
        if key not in GEMINI_LISTS:
            who: Runner = "client" if key in _GEMINI_CLIENT else "provider"
            runs = "the client" if who == "client" else "Google itself"
            sentence = f"{key!r} is run by {runs}. Only functions can be imported."
            refused = refused_tool(entry, GEMINI, key, sentence, "gemini")
            yield replace(refused, runner=who)
        elif isinstance(value, list):
            yield from (gemini_tool(declaration) for declaration in value)
        else:
            yield refused_tool(entry, GEMINI, "", f"{key} is a list of functions.", "gemini")


def is_gemini_declaration(entry: Mapping[str, Any]) -> bool:
    """Whether a function can only be Gemini's: by the name of its schema, or by its types."""
    if any(name in entry for name in (*GEMINI_SCHEMAS, *_GEMINI_OUTPUTS)):
        return True
    schema = entry.get("parameters")
    if not isinstance(schema, Mapping):
        return False
    return "type_" in schema or is_google_type(schema.get("type"))


def gemini_tool(entry: Any) -> ImportedTool:
    """`{"name", "description", "parameters" | "parametersJsonSchema"}`"""
    if not isinstance(entry, Mapping):
        return refused_tool({}, GEMINI, "", "A function declaration is an object.", "gemini")
    schemas = [entry[name] for name in GEMINI_SCHEMAS if name in entry]
    notes = []
    if schemas and "parameters" in entry:
        notes.append(f"It has both parameters and {GEMINI_SCHEMAS[0]}. The latter was used.")
    if not schemas and "parameters" in entry:
        schemas = [from_openapi_schema(entry["parameters"])]
        if schemas[0] != entry["parameters"]:
            notes.append("Its parameters were in Gemini's dialect; they are JSON Schema now.")
    outputs = [from_openapi_schema(entry[name]) for name in _GEMINI_OUTPUTS if name in entry]
    schema, output = (values[0] if values else None for values in (schemas, outputs))
    rest = {"extra": protocol_extra(entry, "gemini", _GEMINI_EXTRA)}
    return _build(
        entry,
        GEMINI,
        entry,
        schema,
        "gemini",
        known=_GEMINI_KNOWN,
        may_lack_schema=True,
        output=output,
        rest=rest,
        notes=notes,
    )


# -- MCP and Bedrock ---------------------------------------------------------------------------


def mcp_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "inputSchema"}`. Has no executor, for lack of a server."""
    notes = []
    title = entry.get("title")
    if isinstance(title, str) and title:
        notes.append("Its title was left out, because models read only the name.")
    if "annotations" in entry:
        notes.append("Its annotations are the server's own claims and are not trusted.")
    notes.append("To call it on its server, add the server and its tools there.")
    schema, output = entry.get("inputSchema"), entry.get("outputSchema")
    known = (*_MCP_KNOWN, "_meta")
    return _build(entry, MCP, entry, schema, known=known, output=output, notes=notes)


def bedrock_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """The content of `toolSpec`: an inputSchema that is `{"json": schema}`."""
    schema, rest = entry["inputSchema"].get("json"), {"strict": entry.get("strict")}
    known = ("name", "description", "inputSchema", "strict")
    return _build(entry, BEDROCK, entry, schema, known=known, rest=rest)


# -- JSON Schema alone, and LangChain ----------------------------------------------------------


def is_bare_schema(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a schema of an object, and not a file that has a schema of its own."""
    if isinstance(entry.get("properties"), Mapping):
        return bool(entry.get("type", "object") == "object")
    if foreign_schema(entry) or "parameters" in entry:
        return False
    return entry.get("type") == "object" or (
        isinstance(entry.get("$schema"), str) and "type" not in entry and declares_members(entry)
    )


def schema_tool(entry: Mapping[str, Any], file: str = "") -> ImportedTool:
    """`file` is the bare name of its file: its name if it has no title."""
    name, notes = entry.get("title") or entry.get("name"), []
    if not isinstance(name, str) or not name.strip():
        name = legal_name(file) or "tool"
        notes.append(f"The schema has no title, so the tool is called {name}.")
    parameters = {key: entry[key] for key in entry if key not in ("title", "description", "name")}
    inner = {"name": name, "description": entry.get("description")}
    return _build(entry, JSON_SCHEMA, inner, parameters, known=tuple(inner), notes=notes)


def is_langchain(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a tool of LangChain: a name, and its arguments as a schema. An `args`
    next to `parameters` has the arguments of a command."""
    if "name" not in entry or isinstance(entry.get("parameters"), Mapping):
        return False
    return any(map(entry.get, _LANGCHAIN_SCHEMAS))


def langchain_tool(entry: Mapping[str, Any]) -> ImportedTool:
    """`{"name", "description", "args_schema": schema}`, or `args`: the properties alone."""
    schemas = [member for member in _LANGCHAIN_SCHEMAS if entry.get(member)]
    read = {member: read_parameters(entry[member], member) for member in schemas}
    notes: list[str] = []
    known = ("name", "description", *schemas)
    parameters = next(filter(None, read.values()), None)
    if parameters is None:
        inner = {name: entry[name] for name in entry if name not in schemas[1:]}
        return _build(entry, LANGCHAIN, inner, None, known=known)
    schema = parameters.schema
    for word, own in (("title", entry.get("name")), ("description", entry.get("description"))):
        if isinstance(schema.get(word), str) and schema[word] != own:
            notes.append(f"The {word} of the whole arguments object was left out.")
    schema = {name: schema[name] for name in schema if name not in ("title", "description")}
    notes += parameters.notes
    return _build(entry, LANGCHAIN, entry, schema, known=known, notes=notes)
