"""Tools that a Python file's interpreter read: each framework's own name, description and schema.

`executors/python/frameworks.py` lists them in the guarded process; here they become tools. A
function without a framework has no schema of its own: it is read from the text, as at Import.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from playground.exchange.parsers import UnreadableText
from playground.exchange.python_marks import READ_IT
from playground.exchange.python_source import parse_module
from playground.exchange.schema_dialects import from_openapi_schema
from playground.exchange.tool_entry import (
    ImportedTool,
    ImportedTools,
    ToolParts,
    build_tool,
    clip,
    refused_tool,
)
from playground.exchange.tool_import import import_tools

KIND = "Python"
NOT_RUN = "It cannot be called without its framework, so you answer its calls by hand."
NO_FILE = "To run it, save it in a file and name its absolute path in the editor."
MOST_TOOLS = 500
MOST_WORDS = 2_000
"""Characters of a problem that a file's own code words."""
TEXTS = ("reference", "framework", "name", "description", "dialect", "problem")
FROM_TEXT = "A function without a framework is read from the file's text."
BUTTON = '"Read it with this interpreter"'
NO_TEXT = (
    "It is not an object of a framework, and the file's text has no tool of this name. Import "
    "the file that defines it at the top level."
)
NOTHING = (
    "The file was imported, but it has no tools: no object of a known framework and no public "
    "function."
)


def is_python(text: str, name: str) -> bool:
    """Whether a text is a Python file that defines or imports something. A notebook and a text with
    blocks of Python are none."""
    if name.lower().endswith(".py"):
        return True
    if not text.strip() or text.lstrip()[0] in "{[<`":
        return False
    try:
        tree = parse_module(text)
    except UnreadableText:
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return any(isinstance(node, kinds) for node in tree.body)


def tools_from_objects(listed: Any, text: str, file: str, interpreter: str) -> ImportedTools:
    """The tools listed by the interpreter; ValueError if the file's code made another answer of the
    list. `text` is the content of the file, `file` its absolute path, or "" for a pasted text,
    whose tools cannot run."""
    if not isinstance(listed, list) or not all(_is_entry(entry) for entry in listed):
        raise ValueError("not a list of tools")
    notes = [_note(interpreter)]
    if len(listed) > MOST_TOOLS:
        notes.append(f"It has more than {MOST_TOOLS} tools. Only the first are read.")
        listed = listed[:MOST_TOOLS]
    known = {}
    unread = NO_TEXT
    if any(entry["parameters"] is None for entry in listed):
        functions = import_tools(text, file or "pasted.py").tools
        known = {tool.form.get("function"): tool for tool in reversed(functions)}
        try:
            parse_module(text)
        except UnreadableText as error:
            unread = f"{FROM_TEXT} {error}"
    tools = []
    for entry in listed:
        if entry["problem"]:
            tools.append(
                refused_tool(entry, _kind(entry), entry["name"], clip(entry["problem"], MOST_WORDS))
            )
        elif entry["parameters"] is None:
            tools.append(_function(entry, known.get(entry["reference"]), unread, interpreter))
        else:
            tools.append(_framework_tool(entry, file, interpreter))
    return ImportedTools(
        tuple(tools), kind=KIND, problem="" if tools else NOTHING, notes=tuple(notes)
    )


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in TEXTS)
        and isinstance(entry.get("runs"), bool)
        and "parameters" in entry
    )


def _kind(entry: Mapping[str, Any]) -> str:
    return f"{KIND}, {entry['framework']}" if entry["framework"] else KIND


def _note(interpreter: str) -> str:
    what = interpreter or "this program's own Python, with only the standard library"
    return f"The file was run and read with {what}."


def _framework_tool(entry: Mapping[str, Any], file: str, interpreter: str) -> ImportedTool:
    parameters = entry["parameters"]
    if entry["dialect"] == "gemini":
        parameters = from_openapi_schema(parameters)
    notes = [f"Its name, description and parameters come from {entry['framework']}."]
    pieces = ToolParts(entry["name"], entry["description"], parameters, notes=notes)
    if not file:
        notes.append(NO_FILE)
    elif entry["runs"]:
        config = _with_interpreter({"file": file, "function": entry["reference"]}, interpreter)
        pieces = replace(pieces, answered_by="python", config=config)
    else:
        notes.append(NOT_RUN)
        pieces = replace(pieces, answered_by="person")
    return build_tool(entry, _kind(entry), pieces)


def _function(
    entry: Mapping[str, Any], read: ImportedTool | None, unread: str, interpreter: str
) -> ImportedTool:
    """A function without a framework: as its text says, run by the same interpreter. `unread` is
    why the text does not give it."""
    if read is None:
        return refused_tool(entry, KIND, entry["name"], unread)
    # It has just been read so.
    notes = tuple(note for note in read.notes if BUTTON not in note)
    problem = read.problem.removesuffix(READ_IT).rstrip()
    read = replace(read, notes=notes, problem=problem)
    tool = read.tool
    if tool is None or tool.answered_by != "python":
        return read
    config = _with_interpreter(tool.config, interpreter)
    return replace(read, tool=replace(tool, config=config))


def _with_interpreter(config: Mapping[str, Any], interpreter: str) -> dict[str, Any]:
    return {**config, **({"interpreter": interpreter} if interpreter else {})}
