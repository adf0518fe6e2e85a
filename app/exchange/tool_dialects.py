"""Which format a value is in, told by its shape alone, and the tools and servers it holds.

Knows no text: read.py makes values of it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from app.core.errors import BadTool
from app.core.tools import SHIPPED, Tool
from app.exchange import anthropic_tools, gemini, json_schema, mcp, mcp_config, openai_tools
from app.exchange.entry import clipped, refused_tool, with_problem
from app.exchange.found import ImportedServer, ImportedTool
from app.exchange.openapi import read
from app.schema.validate import check_tool

OWN_FORM = "our own form"
CASE = "BFCL"

_OURS = {field.name for field in fields(Tool)}
_OURS_ALONE = _OURS - {"name", "description", "parameters", "strict", "format"}
_HOLDERS = ("tools", "functions", "result", "toolConfig")
_MOST_INSIDE = 4
"""How deep lists and holders of tools may lie in each other."""
_MOST_ENTRIES = 10_000


def read_tools(value: Any, file: str, depth: int = 0) -> Iterator[ImportedTool | ImportedServer]:
    """What `value` holds, in its order; `file` is the name or the absolute path it came under."""
    if depth > _MOST_INSIDE:
        yield refused_tool({}, "", "", "Tools lie too deep inside of lists here; bring one list.")
        return
    match value:
        case list() if len(value) > _MOST_ENTRIES:
            said = f"A list here has more than {_MOST_ENTRIES:,} entries; bring a part of it."
            yield refused_tool({}, "", "", said)
        case list():
            for one in value:
                yield from read_tools(one, file, depth + 1)
        case Mapping():
            yield from _read_object(value, file, depth)
        case _:
            yield refused_tool({}, "", "", "A tool is a JSON object; this is something else.")


def _read_object(
    entry: Mapping[str, Any], file: str, depth: int
) -> Iterator[ImportedTool | ImportedServer]:
    if read.is_document(entry):
        yield from read.tools(entry)
        return
    if is_case(entry):
        yield from _read_case(entry, file, depth)
        return
    told = mcp_config.server_entries(entry)
    if told is not None:
        yield from mcp_config.read_servers(told)
    lists = [] if _is_named(entry) else [entry[key] for key in _HOLDERS if _holds(entry, key)]
    for one in lists:
        yield from read_tools(one, file, depth + 1)
    if isinstance(entry.get("toolSpec"), Mapping):
        yield from read_tools(entry["toolSpec"], file, depth + 1)
    elif openai_tools.is_namespace(entry):
        yield from openai_tools.namespace_tools(entry)
    elif gemini.is_gemini_entry(entry):
        yield from gemini.gemini_tools(entry)
    elif told is None and not lists:
        yield _read_tool(entry, file)


def is_case(entry: Mapping[str, Any]) -> bool:
    """Whether `entry` is a case of a benchmark (BFCL): what is asked, and the functions for it."""
    return "question" in entry and "id" in entry and "name" not in entry


def _read_case(
    entry: Mapping[str, Any], file: str, depth: int
) -> Iterator[ImportedTool | ImportedServer]:
    called = clipped(entry.get("id")) or "the case"
    functions = entry.get("function")
    listed = [functions] if isinstance(functions, Mapping) else functions
    if not isinstance(listed, list):
        said = (
            f"The case {called} names no functions of its own; bring the file of functions that it"
            " is about."
        )
        yield refused_tool(entry, CASE, called, said)
        return
    for found in read_tools(listed, file, depth + 1):
        if isinstance(found, ImportedTool):
            note = f"Of the case {called} the question and what else it holds were left out."
            yield replace(found, kind=CASE, notes=(note, *found.notes))


def _is_named(entry: Mapping[str, Any]) -> bool:
    """A tool has a name; what only holds tools has none (but a request has a model)."""
    return isinstance(entry.get("name"), str) and "model" not in entry


def _holds(entry: Mapping[str, Any], key: str) -> bool:
    value = entry.get(key)
    if key in ("tools", "functions"):
        return isinstance(value, list) or gemini.is_gemini_entry(value)
    return isinstance(value, Mapping) and isinstance(value.get("tools"), list)


def _read_tool(entry: Mapping[str, Any], file: str) -> ImportedTool:
    """One tool, by the words that only one format has."""
    kind = entry.get("type")
    match entry:
        case {"function": Mapping()} | {"type": "custom", "custom": Mapping()}:
            return openai_tools.chat_tool(entry)
        case {"input_schema": _}:
            return anthropic_tools.anthropic_tool(entry)
        case {"inputSchema": {"json": Mapping()}}:
            return mcp.bedrock_tool(entry)
        case {"inputSchema": _}:
            return mcp.mcp_tool(entry)
        case {"type": "function" | "custom", "name": _}:
            return openai_tools.responses_tool(entry)
    if "name" in entry and any(key in _OURS_ALONE for key in entry):
        return own_tool(entry, file)
    if "name" in entry and gemini.is_gemini_declaration(entry):
        return gemini.gemini_tool(entry)
    if json_schema.is_langchain(entry):
        return json_schema.langchain_tool(entry)
    if isinstance(kind, str) and kind != "object" and "parameters" not in entry:
        return _hosted_tool(entry, kind)
    if json_schema.is_bare_schema(entry):
        return json_schema.schema_tool(entry, posixpath.basename(file).partition(".")[0])
    if "name" in entry and ("parameters" in entry or "description" in entry):
        return openai_tools.old_openai_function(entry)
    keys = ", ".join(clipped(key, 40) for key in list(entry)[:8]) or "nothing"
    said = f"This is in no form of a tool that is known here: it has {keys}."
    return refused_tool(entry, "", entry.get("name") or entry.get("title"), said)


def _hosted_tool(entry: Mapping[str, Any], kind: str) -> ImportedTool:
    """What a provider runs itself, or a schema of something else."""
    if kind in ("string", "number", "integer", "boolean", "array", "null"):
        said = "Arguments are an object; this schema is of another type."
        return refused_tool(entry, json_schema.JSON_SCHEMA, entry.get("title"), said)
    if kind == "not_implemented":
        said = "LangChain's dump leaves the arguments out; bring convert_to_openai_tool(tool)."
        return refused_tool(entry, json_schema.LANGCHAIN, entry.get("name"), said)
    if kind in ("function", "custom"):
        said = f'A "{kind}" needs its name, in it or in an object "{kind}"; correct it.'
        return refused_tool(entry, "", "", said)
    said = f"A tool of the type {clipped(kind)!r} is run by its provider; it cannot be brought."
    return refused_tool(entry, "", entry.get("name") or kind, said)


def own_tool(entry: Mapping[str, Any], file: str) -> ImportedTool:
    """A tool in our own form; the paths of a Python tool count from the file it stands in."""
    found = ImportedTool(None, clipped(entry.get("name")), entry, "", OWN_FORM)
    try:
        tool = check_tool(with_absolute_paths(entry, file))
    except BadTool as error:
        return with_problem(found, error)
    return replace(found, tool=tool, name=tool.name)


def with_absolute_paths(entry: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """`entry` with the paths of its config made absolute, where the file's own place is known."""
    config = entry.get("config")
    if not (file.startswith("/") and isinstance(config, Mapping)):
        return entry
    if entry.get("answered_by") != "python":
        return entry
    made = dict(config)
    for name in ("file", "interpreter"):
        path = config.get(name)
        if not isinstance(path, str) or not path or path.startswith((SHIPPED, "/", "~/")):
            continue
        if name == "file" or "/" in path:
            made[name] = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
    return {**entry, "config": made}
