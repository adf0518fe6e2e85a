"""Shapes that are near each other are told apart; each format's pieces come into our own form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from playground.core.tools import FREEFORM
from playground.exchange.tool_dialects import read_tools
from playground.exchange.tool_entry import ImportedTool
from playground.exchange.tool_import import import_tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}

CASE = {
    "id": "simple_0",
    "question": [[{"role": "user", "content": "Where?"}]],
    "function": [
        {
            "name": "geo.find",
            "description": "d",
            "parameters": {
                "type": "dict",
                "properties": {
                    "at": {"type": "tuple", "items": {"type": "float"}},
                    "any": {"type": "any", "description": "e"},
                    "java": {"type": "HashMap", "properties": {"n": {"type": "Integer"}}},
                    "either": {"anyOf": [{"type": "String"}, {"type": ["bool", "null"]}]},
                },
                "required": ["at"],
            },
        }
    ],
}


def read_tool(entry: Any, file: str = "") -> ImportedTool:
    (item,) = read_tools(entry, file)
    assert isinstance(item, ImportedTool)
    return item


@pytest.mark.parametrize(
    ("entry", "kind", "protocol"),
    [
        ({"name": "f", "parameters": SCHEMA}, "OpenAI functions", ""),
        ({"name": "f", "parameters": {**SCHEMA, "type": "OBJECT"}}, "Gemini", "gemini"),
        ({"name": "f", "parameters": SCHEMA, "answered_by": "person"}, "our own form", ""),
        ({"type": "function", "name": "f"}, "OpenAI Responses", "openai_responses"),
        ({"type": "function", "function": {"name": "f"}}, "OpenAI Chat", "openai_chat"),
        ({"function": {"name": "f"}}, "OpenAI Chat", "openai_chat"),
        ({"type": "custom", "name": "f"}, "OpenAI Responses", "openai_responses"),
        ({"type": "custom", "custom": {"name": "f"}}, "OpenAI Chat", "openai_chat"),
        ({"type": "custom", "name": "f", "input_schema": SCHEMA}, "Anthropic", "anthropic"),
        ({"name": "f", "inputSchema": SCHEMA}, "MCP", ""),
        ({"name": "f", "inputSchema": {"json": SCHEMA}}, "Bedrock Converse", ""),
        ({"name": "f", "args": SCHEMA["properties"]}, "LangChain", ""),
        ({"title": "f", **SCHEMA}, "JSON Schema", ""),
        # A schema of a thing that has a name, and parameters, is a schema all the same.
        ({"title": "f", "type": "object", "properties": {"name": {}}}, "JSON Schema", ""),
    ],
)
def test_told_apart(entry: dict[str, Any], kind: str, protocol: str) -> None:
    imported_tool = read_tool(entry)
    assert (
        imported_tool.kind,
        imported_tool.protocol,
        imported_tool.name,
        imported_tool.problem,
    ) == (kind, protocol, "f", "")
    assert imported_tool.form == entry


@pytest.mark.parametrize(
    ("entry", "has"),
    [
        (
            {"type": "function", "function": {"name": "f", "strict": True, "parameters": SCHEMA}},
            {"strict": True, "parameters": SCHEMA},
        ),
        (
            {"type": "custom", "custom": {"name": "f", "format": {"type": "grammar", "grammar":
                {"syntax": "regex", "definition": "a+"}}}},
            {"format": {"type": "grammar", "syntax": "regex", "definition": "a+"},
             "parameters": dict(FREEFORM)},
        ),
        (
            {"name": "f", "input_schema": SCHEMA, "strict": True, "eager_input_streaming": True},
            {"strict": True, "eager": True},
        ),
        ({"title": "f", "description": "D.", **SCHEMA},
         {"description": "D.", "parameters": SCHEMA}),
        ({"name": "f", "args": {"a": {"type": "string"}, "b": {"default": 1}}},
         {"parameters": {"type": "object", "properties": {"a": {"type": "string"},
          "b": {"default": 1}}, "required": ["a"]}}),
        ({"name": "f", "description": None, "inputSchema": {}}, {"description": ""}),
        ({"name": "f", "parameters": {"properties": {}}},
         {"parameters": {"type": "object", "properties": {}}}),
    ],
)  # fmt: skip
def test_its_pieces(entry: dict[str, Any], has: dict[str, Any]) -> None:
    tool = read_tool(entry).tool
    assert tool is not None
    assert {name: getattr(tool, name) for name in has} == has


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "bash_20250124", "name": "bash"}, "run by the client"),
        ({"type": "string"}, "another type"),
        ({"googleSearch": {}}, "run by Google"),
        ({"google_search": {}}, "run by Google"),
        ({"tools": {"codeExecution": {}}}, "run by Google"),
        ({"googleSearch": {}, "functionDeclarations": []}, "run by Google"),
        ({"functionDeclarations": {"name": "f"}}, "a list of functions"),
        ({"name": "f"}, "not a known form of a tool"),
        ({"name": 1, "input_schema": SCHEMA}, "It has no name"),
        ({"name": "f", "input_schema": [1]}, "the schema requires an object"),
        (
            {"name": "f", "input_schema": SCHEMA, "strict": "yes"},
            "the schema requires true or false",
        ),
        ({"name": "f", "input_schema": SCHEMA, "description": 5}, "description is a text"),
        ({"type": "function", "function": "f"}, "needs a name"),
        ("f", "must be a JSON object"),
    ],
)
def test_what_is_understood_and_cannot_be_taken(entry: Any, message: str) -> None:
    imported_tool = read_tool(entry)
    assert imported_tool.tool is None
    assert message in imported_tool.problem


def test_a_schema_without_a_title_is_called_as_its_file() -> None:
    imported_tool = read_tool(SCHEMA, "get weather.schema.json")
    assert imported_tool.name == "get_weather"
    assert "no title" in imported_tool.notes[0]
    assert read_tool(SCHEMA).name == "tool"


def test_the_paths_of_a_python_tool_count_from_a_file_whose_place_is_known() -> None:
    config = {"file": "own/t.py", "function": "f", "interpreter": ".venv/bin/python"}
    text = json.dumps({"name": "p", "answered_by": "python", "config": config})
    (here,) = import_tools(text, "/home/you/x/tools.json").tools
    assert here.tool is not None
    assert here.tool.config["file"] == "/home/you/x/own/t.py"
    assert here.tool.config["interpreter"] == "/home/you/x/.venv/bin/python"
    (nowhere,) = import_tools(text, "tools.json").tools
    assert "absolute path" in nowhere.problem


def test_a_body_of_a_request_is_its_tools_and_its_servers() -> None:
    body = {"model": "m", "name": "x", "tools": [{"name": "f", "input_schema": SCHEMA}]}
    assert read_tool(body).name == "f"
    both = {**body, "mcpServers": {"s": {"command": "x"}}}
    imported_tools = import_tools(json.dumps(both))
    assert (
        [tool.name for tool in imported_tools.tools],
        [server.name for server in imported_tools.servers],
    ) == (
        ["f"],
        ["s"],
    )


@pytest.mark.parametrize("word", ["functionDeclarations", "function_declarations"])
def test_tools_of_gemini_need_no_list_around_them(word: str) -> None:
    imported_tool = read_tool({"tools": {word: [{"name": "f", "parameters": SCHEMA}]}})
    assert (imported_tool.kind, imported_tool.name, imported_tool.problem) == ("Gemini", "f", "")
    # What a server can do is no tool.
    assert "not a known form" in read_tool({"tools": {"listChanged": True}}).problem


def test_a_title_of_the_arguments_is_left_out_of_a_tool_of_langchain_with_a_note() -> None:
    schema = {**SCHEMA, "title": "f", "description": "D."}
    same = read_tool({"name": "f", "description": "D.", "args_schema": schema})
    other = read_tool(
        {"name": "f", "description": "D.", "args_schema": {**schema, "title": "FArgs"}}
    )
    assert [
        any("title" in note for note in imported_tool.notes) for imported_tool in (same, other)
    ] == [False, True]


def test_a_case_of_a_benchmark_brings_its_functions_in_json_schema() -> None:
    imported_tool = read_tool(CASE)
    assert imported_tool.tool is not None, imported_tool.problem
    assert (imported_tool.name, imported_tool.kind) == ("geo.find", "BFCL")
    assert imported_tool.tool.parameters == {
        "type": "object",
        "properties": {
            "at": {"type": "array", "items": {"type": "number"}},
            "any": {"description": "e"},
            "java": {"type": "object", "properties": {"n": {"type": "integer"}}},
            "either": {"anyOf": [{"type": "string"}, {"type": ["boolean", "null"]}]},
        },
        "required": ["at"],
    }
    message = " ".join(imported_tool.notes)
    assert "Only the functions of the case simple_0" in message
    assert "dict is object, tuple is array, float is number, any is anything" in message


def test_a_file_of_cases_brings_each_function_once() -> None:
    other = {**CASE, "id": "simple_1"}
    lone = {**CASE, "id": "simple_2", "function": {"name": "lone", "parameters": {"type": "dict"}}}
    turns = [{"id": f"multi_{n}", "question": [[]], "path": ["a.b"]} for n in range(3)]
    text = "\n".join(map(json.dumps, [CASE, other, lone, *turns]))
    imported_tools = import_tools(text, "BFCL_v4_simple.json")
    assert [tool.name for tool in imported_tools.tools if tool.tool] == ["geo.find", "lone"]
    [refused] = [tool for tool in imported_tools.tools if tool.problem]
    assert "multi_0 has no functions" in refused.problem
    assert any("duplicates skipped: 1" in note for note in imported_tools.notes)
    assert "Cases without functions: 2." in imported_tools.notes
